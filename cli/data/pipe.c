#include "pipe.h"

#include "ui/ui.h"

#include "base/os/descriptor.h"
#include "base/os/memory.h"
#include "io/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE = 1 << 20,
    HEAD_MOST = TRP__NPY_HEADER_LIMIT + TRP__NPY_PREAMBLE_V2,
    LOOK_BYTES = 64 << 20, /* interval between checks of free memory */
    SPARE_BYTES = 256 << 20
};

/* Tells whether a path is "-". */
static bool is_standard(const char *path)
{
    return !strcmp(path, "-");
}

bool pipe_is_one(const char *path)
{
    struct stat status;
    return is_standard(path) || (stat(path, &status) == 0 && S_ISFIFO(status.st_mode));
}

const char *pipe_input_name(const char *path)
{
    return is_standard(path) ? "standard input" : path;
}

const char *pipe_output_name(const char *path)
{
    return is_standard(path) ? "standard output" : path;
}

/* Reading. */

typedef struct reading {
    const char *name;
    int from, to;
    uint64_t bytes, looked;
    uint64_t expected; /* by the header; UINT64_MAX: unknown */
    bool ended;
} reading;

static bool fail(const reading *r, const char *what)
{
    ui_error("%s: %s", r->name, what);
    return false;
}

/* Reads `most` bytes, fewer only at the end. */
static bool take(reading *r, unsigned char *out, size_t most, size_t *length)
{
    *length = 0;
    while (!r->ended && *length < most) {
        ssize_t n = read(r->from, out + *length, most - *length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(r, strerror(errno));
        r->ended = n == 0;
        *length += (size_t)n;
    }
    return true;
}

static bool put(reading *r, const unsigned char *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t n = write(r->to, data + done, length - done);
        if (n < 0 && errno != EINTR)
            return fail(r, strerror(errno));
        done += n > 0 ? (size_t)n : 0;
    }
    r->bytes += length;
    return true;
}

static bool has_room(reading *r, uint64_t more)
{
    const uint64_t left = trp__memory_available(true);
    if (left == UINT64_MAX || (more <= UINT64_MAX - SPARE_BYTES && more + SPARE_BYTES <= left))
        return true;
    if (r->expected == UINT64_MAX)
        ui_error("%s: more than %s, and no memory is left for it", r->name, ui_bytes(r->bytes).s);
    else
        ui_error("%s: an array of %s, and %s of memory are left", r->name, ui_bytes(r->expected).s,
                 ui_bytes(left).s);
    return false;
}

/* Determines the expected size from the first bytes. False: no array; the error is reported when
 * the file in memory is opened. */
static bool read_head(reading *r, const unsigned char *head, size_t length)
{
    trp__npy array;
    trp_error ignored;
    r->expected = UINT64_MAX;
    if (length >= 9 && head[8] == '{' && memcmp(head, "\x93NUMPY", 6) != 0)
        return true; /* safetensors */
    if (length >= 4 && memcmp(head, "PK", 2) == 0)
        return true;
    if (!trp__npy_parse_head(head, length, &array, &ignored))
        return false;
    r->expected = array.data_offset + array.data_bytes;
    return true;
}

static bool read_on(reading *r, unsigned char *piece)
{
    size_t length;
    const bool known = r->expected != UINT64_MAX;
    if (known && r->expected > r->bytes && !has_room(r, r->expected - r->bytes))
        return false;
    /* Reading one byte more than expected detects surplus data. */
    while (!r->ended && r->bytes <= r->expected) {
        const uint64_t left = r->expected - r->bytes;
        if (!take(r, piece, left < PIECE ? (size_t)left + 1 : PIECE, &length) ||
            !put(r, piece, length))
            return false;
        if (known)
            ui_progress_part(r->bytes, r->expected);
        else if (r->bytes - r->looked >= LOOK_BYTES && !has_room(r, LOOK_BYTES))
            return false;
        r->looked = r->bytes - r->looked >= LOOK_BYTES ? r->bytes : r->looked;
    }
    return true;
}

static bool read_all(reading *r)
{
    unsigned char *piece = malloc(HEAD_MOST > PIECE ? HEAD_MOST : PIECE);
    size_t length;
    bool ok = piece ? take(r, piece, TRP__NPY_PREAMBLE_V2, &length) : fail(r, "out of memory");
    trp__npy_preamble pre;
    trp_error ignored;
    if (ok && trp__npy_parse_preamble(piece, length, UINT64_MAX, &pre, &ignored) &&
        pre.begin + pre.len > length) {
        size_t more;
        ok = take(r, piece + length, pre.begin + pre.len - length, &more);
        length += more;
    }
    const bool array = ok && read_head(r, piece, length);
    ok = ok && put(r, piece, length) && (!array || read_on(r, piece));
    free(piece);
    return ok;
}

/* Opens a pipe. -1: see errno; -2: reported. */
static int open_input(const char *path)
{
    static bool taken;
    if (!is_standard(path))
        return trp__descriptor_apart(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (taken || isatty(STDIN_FILENO)) {
        ui_wrong(taken ? "standard input is one array: expected '-' for one operand alone"
                       : "standard input is a terminal: expected a pipe, or a file, with an array");
        return -2;
    }
    taken = true;
    return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

int pipe_read(const char *path)
{
    reading r = {.name = pipe_input_name(path), .to = -1};
    r.from = open_input(path);
    if (r.from >= 0)
        ui_progress("reading %s", r.name);
    if (r.from == -1)
        fail(&r, strerror(errno));
    if (r.from >= 0) {
        r.to = trp__descriptor_apart(memfd_create("troupe-pipe", MFD_CLOEXEC));
        if (r.to < 0)
            fail(&r, strerror(errno));
    }
    const bool ok = r.to >= 0 && read_all(&r);
    if (r.from >= 0)
        close(r.from);
    if (!ok && r.to >= 0)
        close(r.to);
    return ok ? r.to : -1;
}

/* Writing. */

bool pipe_try_write(const char *path)
{
    static bool taken;
    if (!is_standard(path)) {
        const bool ok = access(path, W_OK) == 0;
        if (!ok)
            ui_error("writing %s: %s", path, strerror(errno));
        return ok;
    }
    if (isatty(STDOUT_FILENO)) {
        ui_wrong("standard output is a terminal, and an array is bytes: expected a pipe, or the "
                 "name of a file in place of '-'");
        return false;
    }
    if (taken) {
        ui_wrong("standard output takes one array: expected '-' for one result alone");
        return false;
    }
    taken = true;
    ui_report_to_stderr();
    return true;
}

int pipe_open(const char *path)
{
    int fd = is_standard(path) ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                               : trp__descriptor_apart(open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY));
    if (fd < 0)
        ui_error("writing %s: %s", pipe_output_name(path), strerror(errno));
    return fd;
}

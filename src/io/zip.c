/* Reads the directory of a ZIP archive (.ZIP File Format Specification 6.3.10) and opens .npz:
 * members NAME.npy are arrays, other members are ignored. All sizes and offsets are checked against
 * the file before use: members must neither overlap nor reach into the directory. */
#include "base/bytes.h"

#include "io/file.h"
#include "io/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COMMENT_MAX = 65535,
    DIRECTORY_LIMIT = 1 << 28,
    FLAG_ENCRYPTED = 1,
    EXTRA_ZIP64 = 1,
    DEFLATE_RATIO = 1032, /* the most bytes that a byte of deflated data can become */
};

#define SIGNATURE_LOCAL   UINT32_C(0x04034b50)
#define SIGNATURE_CENTRAL UINT32_C(0x02014b50)
#define SIGNATURE_END     UINT32_C(0x06054b50)
#define SIGNATURE_END64   UINT32_C(0x06064b50)
#define SIGNATURE_LOCATOR UINT32_C(0x07064b50)

static uint16_t get16(const unsigned char *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

typedef struct directory {
    uint64_t offset, bytes, count;
} directory;

/* Finds the last record of the archive. A comment of up to 64 KiB follows it and ends with the
 * file. */
static bool find_end(const trp_io_file *file, unsigned char end[TRP__ZIP_END], uint64_t *at,
                     trp_error *error)
{
    const uint64_t most = TRP__ZIP_END + COMMENT_MAX;
    const uint64_t bytes = file->size < most ? file->size : most;
    unsigned char *tail = malloc((size_t)bytes + 1);
    bool found = false;
    if (!tail) {
        trp__error_set(error, TRP_E_MEMORY, "out of memory");
        return false;
    }
    if (trp__io_pread(file->fd, file->size - bytes, tail, bytes, "archive", error) != TRP_OK) {
        free(tail);
        return false;
    }
    for (uint64_t i = bytes; i-- > 0 && !found;) {
        const unsigned char *p = tail + i;
        if (bytes - i < TRP__ZIP_END || trp__get32(p) != SIGNATURE_END ||
            get16(p + 20) != bytes - i - TRP__ZIP_END)
            continue;
        memcpy(end, p, TRP__ZIP_END);
        *at = file->size - bytes + i;
        found = true;
    }
    free(tail);
    return found || refuse(error, "truncated archive: it has no end of its directory");
}

/* Reads the last record of ZIP64, which exists if a value does not fit in the one of ZIP. */
static bool find_end64(const trp_io_file *file, uint64_t end, directory *d, trp_error *error)
{
    unsigned char locator[TRP__ZIP_LOCATOR], record[TRP__ZIP_END64];
    uint64_t at;
    if (end < TRP__ZIP_LOCATOR)
        return refuse(error, "bad archive: it has no directory of ZIP64");
    if (trp__io_pread(file->fd, end - TRP__ZIP_LOCATOR, locator, sizeof locator, "archive",
                      error) != TRP_OK)
        return false;
    at = trp__get64(locator + 8);
    if (trp__get32(locator) != SIGNATURE_LOCATOR || at > end - TRP__ZIP_LOCATOR ||
        end - TRP__ZIP_LOCATOR - at < TRP__ZIP_END64)
        return refuse(error, "bad archive: its directory of ZIP64 is not where it should be");
    if (trp__io_pread(file->fd, at, record, sizeof record, "archive", error) != TRP_OK)
        return false;
    if (trp__get32(record) != SIGNATURE_END64)
        return refuse(error, "bad archive: its directory of ZIP64 is not where it should be");
    *d = (directory){.count = trp__get64(record + 32),
                     .bytes = trp__get64(record + 40),
                     .offset = trp__get64(record + 48)};
    return true;
}

static bool find_directory(const trp_io_file *file, directory *d, trp_error *error)
{
    unsigned char end[TRP__ZIP_END];
    uint64_t at;
    if (!find_end(file, end, &at, error))
        return false;
    *d = (directory){
        .count = get16(end + 10), .bytes = trp__get32(end + 12), .offset = trp__get32(end + 16)};
    if ((d->count == UINT16_MAX || d->bytes == UINT32_MAX || d->offset == UINT32_MAX) &&
        !find_end64(file, at, d, error))
        return false;
    if (d->offset > at || d->bytes > at - d->offset)
        return refuse(error,
                      "bad archive: its directory, %" PRIu64 " bytes at %" PRIu64
                      ", reaches past its end at %" PRIu64,
                      d->bytes, d->offset, at);
    if (d->bytes > DIRECTORY_LIMIT || d->count > d->bytes / TRP__ZIP_CENTRAL)
        return refuse(error,
                      "bad archive: a directory of %" PRIu64 " bytes for %" PRIu64 " members",
                      d->bytes, d->count);
    return true;
}

/* Reads the values of ZIP64 that do not fit in the fields of ZIP. */
static bool read_extra(const unsigned char *extra, size_t length, trp__io_member *m,
                       trp_error *error)
{
    uint64_t *const fields[] = {&m->unpacked, &m->packed, &m->header};
    for (size_t at = 0; length - at >= 4;) {
        const size_t bytes = get16(extra + at + 2);
        if (bytes > length - at - 4)
            return refuse(error, "bad archive: an extra field is longer than its room");
        size_t used = 0;
        for (size_t i = 0; get16(extra + at) == EXTRA_ZIP64 && i < 3; i++) {
            if (*fields[i] != UINT32_MAX)
                continue;
            if (bytes - used < 8)
                return refuse(error, "bad archive: an extra field of ZIP64 is too short");
            *fields[i] = trp__get64(extra + at + 4 + used);
            used += 8;
        }
        if (used > 0)
            return true;
        at += 4 + bytes;
    }
    return true;
}

static bool set_refusal(trp__io_entry *entry, const char *text, trp_error *error)
{
    entry->refusal = strdup(text);
    if (!entry->refusal)
        trp__error_set(error, TRP_E_MEMORY, "out of memory");
    return entry->refusal != NULL;
}

/* Reads one record of the directory, of *length bytes. Adds an entry if the member is an array. */
static bool read_record(trp_io_file *file, const unsigned char *at, size_t room, size_t *length,
                        trp_error *error)
{
    static const char suffix[] = ".npy";
    const size_t ending = sizeof suffix - 1;
    if (room < TRP__ZIP_CENTRAL || trp__get32(at) != SIGNATURE_CENTRAL)
        return refuse(error, "bad archive: its directory is damaged");
    const size_t name = get16(at + 28), extra = get16(at + 30), comment = get16(at + 32);
    const unsigned char *text = at + TRP__ZIP_CENTRAL;
    *length = TRP__ZIP_CENTRAL + name + extra + comment;
    if (*length > room)
        return refuse(error, "bad archive: its directory is damaged");
    if (name < ending || memcmp(text + name - ending, suffix, ending) != 0)
        return true;
    if (memchr(text, '\0', name))
        return refuse(error, "bad archive: a zero in the name %s", trp__io_quote(text, name).text);
    trp__io_entry *entry = trp__io_add_entry(file);
    char *copy = entry ? strndup((const char *)text, name - ending) : NULL;
    if (!copy) {
        file->count -= entry != NULL;
        trp__error_set(error, TRP_E_MEMORY, "out of memory");
        return false;
    }
    entry->name = copy;
    entry->member = (trp__io_member){.method = get16(at + 10),
                                     .crc = trp__get32(at + 16),
                                     .packed = trp__get32(at + 20),
                                     .unpacked = trp__get32(at + 24),
                                     .header = trp__get32(at + 42)};
    if (get16(at + 8) & FLAG_ENCRYPTED && !set_refusal(entry, "it is encrypted", error))
        return false;
    return read_extra(text + name, extra, &entry->member, error);
}

/* Reads the local header, which determines where the bytes begin. */
static bool read_local(const trp_io_file *file, trp__io_entry *entry, uint64_t directory_at,
                       trp_error *error)
{
    trp__io_member *m = &entry->member;
    unsigned char local[TRP__ZIP_LOCAL];
    const trp__io_quoted name = trp__io_quote_name(entry->name);
    if (m->header > directory_at || directory_at - m->header < TRP__ZIP_LOCAL)
        return refuse(error, "array '%s' begins at byte %" PRIu64 ", the directory at %" PRIu64,
                      name.text, m->header, directory_at);
    if (trp__io_pread(file->fd, m->header, local, sizeof local, "archive", error) != TRP_OK)
        return false;
    if (trp__get32(local) != SIGNATURE_LOCAL || get16(local + 8) != m->method)
        return refuse(error, "array '%s' is not where the directory has it", name.text);
    m->begin = m->header + TRP__ZIP_LOCAL + get16(local + 26) + get16(local + 28);
    if (m->begin > directory_at || m->packed > directory_at - m->begin)
        return refuse(error,
                      "array '%s': %" PRIu64 " bytes at %" PRIu64
                      " reach into the directory at %" PRIu64,
                      name.text, m->packed, m->begin, directory_at);
    const bool possible = m->method == TRP__IO_STORED ? m->packed == m->unpacked
                                                      : m->unpacked / DEFLATE_RATIO <= m->packed;
    if (!possible)
        return refuse(error, "array '%s': %" PRIu64 " bytes can't be made of %" PRIu64, name.text,
                      m->unpacked, m->packed);
    return true;
}

static int compare_places(const void *a, const void *b, void *context)
{
    const trp_io_file *file = context;
    const uint64_t *i = a, *j = b;
    const uint64_t x = file->entry[*i].member.header, y = file->entry[*j].member.header;
    return (x > y) - (x < y);
}

static bool check_overlap(trp_io_file *file, trp_error *error)
{
    uint64_t *order = trp__io_order(file, compare_places), end = 0;
    bool good = order != NULL;
    if (!good)
        trp__error_set(error, TRP_E_MEMORY, "out of memory");
    for (uint64_t i = 0; good && i < file->count; i++) {
        const trp__io_entry *e = &file->entry[order[i]];
        if (e->member.header < end)
            good =
                refuse(error, "array '%s' overlaps another one", trp__io_quote_name(e->name).text);
        end = e->member.begin + e->member.packed;
    }
    free(order);
    return good;
}

/* Reads the directory of a ZIP archive. Each member NAME.npy becomes an entry. */
static trp_status read_directory(trp_io_file *file, trp_error *error)
{
    directory d;
    if (!find_directory(file, &d, error))
        return error->status;
    unsigned char *records = malloc((size_t)d.bytes + 1);
    if (!records)
        return trp__error_set(error, TRP_E_MEMORY, "reading the directory: out of memory");
    *error = (trp_error){0};
    trp__io_pread(file->fd, d.offset, records, d.bytes, "directory", error);
    size_t at = 0, length = 0;
    for (uint64_t i = 0; error->status == TRP_OK && i < d.count; i++) {
        if (read_record(file, records + at, (size_t)d.bytes - at, &length, error))
            at += length;
    }
    free(records);
    for (uint64_t i = 0; error->status == TRP_OK && i < file->count; i++)
        read_local(file, &file->entry[i], d.offset, error);
    if (error->status == TRP_OK)
        check_overlap(file, error);
    return error->status;
}

/* Arrays. */

/* Reads the .npy header of a member. */
static trp_status read_header(trp_io_file *file, const trp__io_member *m, trp__npy *array,
                              trp_error *error)
{
    unsigned char first[TRP__NPY_PREAMBLE_V2];
    unsigned char *header = NULL;
    size_t length = m->unpacked < sizeof first ? (size_t)m->unpacked : sizeof first;
    trp__npy_preamble pre;
    trp__io_stream *stream = NULL;
    trp_status status = trp__io_stream_open(file, m, &stream, error);
    if (status == TRP_OK)
        status = trp__io_stream_read(stream, first, length, error);
    if (status == TRP_OK && !trp__npy_parse_preamble(first, length, m->unpacked, &pre, error))
        status = error->status;
    if (status == TRP_OK) {
        const size_t all = pre.begin + pre.len > length ? pre.begin + pre.len : length;
        header = malloc(all);
        status = header ? TRP_OK : trp__error_set(error, TRP_E_MEMORY, "out of memory");
        if (header) {
            memcpy(header, first, length);
            status = trp__io_stream_read(stream, header + length, all - length, error);
        }
        if (status == TRP_OK && !trp__npy_parse(header, all, m->unpacked, array, error))
            status = error->status;
    }
    free(header);
    trp__io_stream_close(stream);
    return status;
}

/* Fills an entry. An array that can't be read only gets a refusal, since others can be read. */
static trp_status describe(trp_io_file *file, uint64_t index, trp_error *error)
{
    trp__io_entry *entry = &file->entry[index];
    char text[sizeof error->message];
    trp__npy array;
    if (entry->refusal)
        return TRP_OK;
    if (entry->member.method != TRP__IO_STORED && entry->member.method != TRP__IO_DEFLATED) {
        snprintf(text, sizeof text,
                 "it is packed by method %u: expected 0 (stored) or 8 (deflated)",
                 entry->member.method);
        return set_refusal(entry, text, error) ? TRP_OK : error->status;
    }
    trp_status status = read_header(file, &entry->member, &array, error);
    if (status == TRP_E_UNSUPPORTED)
        return set_refusal(entry, error->message, error) ? TRP_OK : error->status;
    if (status != TRP_OK) {
        trp__copy_string(text, sizeof text, error->message);
        snprintf(error->message, sizeof error->message, "array '%s': %.160s",
                 trp__io_quote_name(entry->name).text, text);
        return status;
    }
    if (!trp__npy_describe(file, entry, &array))
        return trp__error_set(error, TRP_E_MEMORY, "out of memory");
    return TRP_OK;
}

trp_status trp__io_open_npz(trp_io_file *file, trp_error *error)
{
    trp_status status = read_directory(file, error);
    if (status == TRP_OK)
        status = trp__io_sort_names(file, "array", error);
    for (uint64_t i = 0; status == TRP_OK && i < file->count; i++)
        status = describe(file, i, error);
    return status;
}

/* Measures loading of weights: a safetensors file in the page cache into one sealed buffer, against
 * copies of as many bytes from memory that the device accesses directly. */
#include "bench/suite/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB    (UINT64_C(1) << 20)
#define TENSOR (64 * MIB)
#define CHUNK  (256 * MIB)

enum { TENSORS_MOST = 128 };

typedef struct load {
    suite *suite;
    uint64_t bytes; /* a multiple of CHUNK */
    int fd;         /* a memory file, which stays in the page cache */
    trp_io_file *file;
    bool makes; /* creates the buffer each time */
    trp_buffer buffer;
    uint64_t offset[TENSORS_MOST];
} load;

static bool run_raw(void *context, uint64_t count)
{
    const load *l = context;
    raw *r = l->suite->raw;
    return r->api->copy_pinned(r, RAW_TO_DEVICE, CHUNK, count * (l->bytes / CHUNK));
}

static bool load_made(load *l)
{
    suite *s = l->suite;
    suite_free(s, &l->buffer, 1);
    l->buffer.id = 0;
    return suite_check(s,
                       trp_io_load_sealed(l->file, s->device, NULL, trp_io_count(l->file), NULL,
                                          &l->buffer, l->offset),
                       "trp_io_load_sealed");
}

/* Loads into the existing buffer, which is unsealed before and sealed after. */
static bool load_again(load *l)
{
    suite *s = l->suite;
    trp_io_part parts[TENSORS_MOST];
    const uint64_t count = trp_io_count(l->file);
    for (uint64_t i = 0; i < count; i++)
        parts[i] = (trp_io_part){i, l->buffer, l->offset[i]};
    return suite_check(s, trp_buffer_unseal(s->device, l->buffer), "trp_buffer_unseal") &&
           suite_check(s, trp_io_load(l->file, s->device, parts, count, NULL), "trp_io_load") &&
           suite_check(s, trp_buffer_seal(s->device, l->buffer, TRP_FOREVER), "trp_buffer_seal");
}

static bool run_troupe(void *context, uint64_t count)
{
    load *l = context;
    for (uint64_t i = 0; i < count; i++) {
        if (!(l->makes ? load_made(l) : load_again(l)))
            return false;
    }
    return true;
}

/* Writes the header and the tensors; each tensor's words count up from a different start. */
static bool write_file(load *l)
{
    char header[16384];
    const uint64_t tensors = l->bytes / TENSOR;
    size_t length = 0;
    uint64_t *words = malloc(TENSOR);
    for (uint64_t i = 0; i < tensors; i++)
        length +=
            (size_t)snprintf(header + length, sizeof header - length,
                             "%s\"layer.%03" PRIu64 "\":{\"dtype\":\"BF16\",\"shape\":[%" PRIu64
                             "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                             i == 0 ? "{" : ",", i, TENSOR / 2, i * TENSOR, (i + 1) * TENSOR);
    header[length++] = '}';
    const uint64_t prefix = length;
    bool ok = words && write(l->fd, &prefix, sizeof prefix) == (ssize_t)sizeof prefix &&
              write(l->fd, header, length) == (ssize_t)length;
    for (uint64_t i = 0; ok && i < tensors; i++) {
        for (uint64_t k = 0; k < TENSOR / sizeof *words; k++)
            words[k] = suite_random(l->suite->seed + i, k);
        ok = write(l->fd, words, TENSOR) == (ssize_t)TENSOR;
    }
    free(words);
    return ok || suite_failed(l->suite, "writing the file");
}

/* Compares the whole buffer with the file. */
static bool verify(load *l)
{
    suite *s = l->suite;
    uint64_t *words = malloc(TENSOR);
    bool same = words != NULL && load_made(l) && load_again(l);
    for (uint64_t i = 0; same && i < l->bytes / TENSOR; i++) {
        trp_completion done = {0};
        same = suite_await(s, trp_read(s->device, l->buffer, l->offset[i], words, TENSOR, &done),
                           &done, "trp_read");
        for (uint64_t k = 0; same && k < TENSOR / sizeof *words; k++)
            same = words[k] == suite_random(s->seed + i, k);
        if (!same && s->error[0] == '\0')
            snprintf(s->error, sizeof s->error, "tensor %" PRIu64 " came changed", i);
    }
    free(words);
    return same;
}

static bool begin(load *l)
{
    suite *s = l->suite;
    char path[64];
    l->fd = memfd_create("troupe-bench", MFD_CLOEXEC);
    if (l->fd < 0)
        return suite_failed(s, "memfd_create");
    snprintf(path, sizeof path, "/proc/self/fd/%d", l->fd);
    return write_file(l) && suite_check(s, trp_io_open(path, &l->file), "trp_io_open") &&
           s->raw->api->copy_begin(s->raw, CHUNK, true);
}

static void end(load *l)
{
    suite *s = l->suite;
    s->raw->api->copy_end(s->raw);
    suite_free(s, &l->buffer, 1);
    trp_io_close(l->file);
    if (l->fd >= 0)
        close(l->fd);
    trp_device_trim(s->device);
}

static bool measure(load *l, bool makes)
{
    suite *s = l->suite;
    stats_side raw_side = {.run = run_raw, .context = l};
    stats_side troupe_side = {.run = run_troupe, .context = l};
    stats_plan plan = {.blocks = s->quick ? 3 : 5, .count = 1, .warm = 1};
    char size[24];
    report_row row = {
        .raw = s->raw->api->pinned_label,
        .type = "safetensors",
        .unit = "GB/s",
        .size = l->bytes,
        .rate = true,
        .scale = (double)l->bytes, /* a byte in a ns is a GB/s */
    };
    suite_size_text(size, l->bytes);
    snprintf(row.name, sizeof row.name, "%s, %s", size, makes ? "the buffer made, too" : "sealed");
    l->makes = makes;
    if (!s->quick && !makes)
        suite_bound(s, &row, REPORT_RATIO_AT_LEAST, 0.8);
    return suite_measure(s, &plan, raw_side, troupe_side, &row);
}

void suite_load(suite *s)
{
    const bool gpu = suite_on_gpu(s);
    load l = {.suite = s, .fd = -1};
    l.bytes = !gpu ? CHUNK : s->quick ? 2048 * MIB : 8192 * MIB;
    report_section(s->report, "Weights from a file in the page cache into a sealed buffer",
                   gpu ? "raw: cuMemcpyAsync with memory of cuMemHostAlloc; Troupe: trp_io_load, "
                         "then trp_buffer_seal"
                       : "raw: memcpy in one thread; Troupe: trp_io_load, then trp_buffer_seal");
    if (!begin(&l))
        suite_fail(s, "making the file");
    else if (!verify(&l))
        suite_fail(s, "checking the data");
    else if (measure(&l, false))
        measure(&l, true);
    end(&l);
}

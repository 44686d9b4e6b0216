/* Measures single copies between host memory and buffers, with host memory that the device accesses
 * directly and with ordinary memory. */
#include "bench/suite/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0xee };

static const struct {
    uint64_t bytes;
    bool quick;
} sizes[] = {{UINT64_C(4) << 10, true},   {UINT64_C(64) << 10, false}, {UINT64_C(1) << 20, true},
             {UINT64_C(16) << 20, false}, {UINT64_C(256) << 20, true}, {UINT64_C(1) << 30, true}};

/* On the host backend a copy uses no copy engine, and larger sizes give the same figures. */
#define LARGEST_ON_HOST (UINT64_C(256) << 20)
#define GIB             (UINT64_C(1) << 30)

typedef struct copies {
    suite *suite;
    bool pinned;
    void *memory; /* Troupe's side: from trp_host_alloc or malloc */
    trp_buffer buffer;
    raw_direction direction;
    uint64_t bytes;
} copies;

/* The sides. */

static bool run_raw(void *context, uint64_t count)
{
    const copies *c = context;
    raw *r = c->suite->raw;
    return c->pinned ? r->api->copy_pinned(r, c->direction, c->bytes, count)
                     : r->api->copy_pageable(r, c->direction, c->memory, c->bytes, count);
}

static bool copy_once(const copies *c, raw_direction direction)
{
    suite *s = c->suite;
    trp_completion done = {0};
    if (direction == RAW_TO_DEVICE)
        return suite_await(s, trp_write(s->device, c->buffer, 0, c->memory, c->bytes, &done), &done,
                           "trp_write");
    return suite_await(s, trp_read(s->device, c->buffer, 0, c->memory, c->bytes, &done), &done,
                       "trp_read");
}

static bool run_troupe(void *context, uint64_t count)
{
    const copies *c = context;
    for (uint64_t i = 0; i < count; i++) {
        if (!copy_once(c, c->direction))
            return false;
    }
    return true;
}

/* Data. */

static void fill_random(void *memory, uint64_t bytes, uint64_t seed)
{
    uint64_t *words = memory;
    for (uint64_t i = 0; i < bytes / sizeof *words; i++)
        words[i] = suite_random(seed, i);
}

static bool is_random(const void *memory, uint64_t bytes, uint64_t seed)
{
    const uint64_t *words = memory;
    for (uint64_t i = 0; i < bytes / sizeof *words; i++) {
        if (words[i] != suite_random(seed, i))
            return false;
    }
    return true;
}

/* Copies to the buffer and back and compares the result with the original. */
static bool verify(copies *c)
{
    suite *s = c->suite;
    uint64_t seed = suite_random(s->seed, c->bytes);
    fill_random(c->memory, c->bytes, seed);
    if (!copy_once(c, RAW_TO_DEVICE))
        return false;
    memset(c->memory, POISON, c->bytes);
    if (!copy_once(c, RAW_TO_HOST))
        return false;
    if (is_random(c->memory, c->bytes, seed))
        return true;
    snprintf(s->error, sizeof s->error, "the data came back changed");
    return false;
}

static bool begin(copies *c, uint64_t bytes)
{
    suite *s = c->suite;
    bool ok = c->pinned
                  ? suite_check(s, trp_host_alloc(s->device, bytes, &c->memory), "trp_host_alloc")
                  : (c->memory = malloc(bytes)) != NULL;
    if (!ok)
        return false;
    fill_random(c->memory, bytes, s->seed);
    return suite_check(s, trp_buffer_create(s->device, bytes, &c->buffer), "trp_buffer_create") &&
           s->raw->api->copy_begin(s->raw, bytes, c->pinned);
}

static void end(copies *c)
{
    suite *s = c->suite;
    s->raw->api->copy_end(s->raw);
    if (c->buffer.id)
        trp_buffer_free(s->device, c->buffer);
    if (c->pinned)
        trp_host_free(s->device, c->memory);
    else
        free(c->memory);
    trp_device_trim(s->device);
}

/* Rows. */

static void describe(const copies *c, report_row *row)
{
    const raw_api *api = c->suite->raw->api;
    char size[24];
    *row = (report_row){
        .raw = c->pinned ? api->pinned_label : api->pageable_label[c->direction],
        .type = c->direction == RAW_TO_DEVICE ? "to-device" : "to-host",
        .unit = "GB/s",
        .size = c->bytes,
        .rate = true,
        .scale = (double)c->bytes, /* a byte in a ns is a GB/s */
    };
    suite_size_text(size, c->bytes);
    snprintf(row->name, sizeof row->name, "%s %s", size,
             c->direction == RAW_TO_DEVICE ? "host to device" : "device to host");
    if (c->bytes == GIB && c->pinned)
        suite_bound(c->suite, row, REPORT_RATIO_AT_LEAST, 0.95);
    else if (c->bytes == GIB && c->direction == RAW_TO_DEVICE)
        suite_bound(c->suite, row, REPORT_RATIO_AT_LEAST, 1.5);
}

static bool measure(copies *c)
{
    suite *s = c->suite;
    stats_side raw_side = {.run = run_raw, .context = c};
    stats_side troupe_side = {.run = run_troupe, .context = c};
    stats_plan plan = {.blocks = s->quick ? 5 : 7, .each = true};
    report_row row;
    describe(c, &row);
    plan.count = stats_calibrate(raw_side, s->quick ? 8e6 : 20e6, 2000);
    if (plan.count == 0) {
        suite_fail(s, row.name);
        return false;
    }
    plan.warm = plan.count / 10 + 1;
    return suite_measure(s, &plan, raw_side, troupe_side, &row);
}

static void sweep(copies *c, uint64_t largest)
{
    suite *s = c->suite;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        c->bytes = sizes[i].bytes;
        if (c->bytes > largest || (s->quick && !sizes[i].quick))
            continue;
        if (!verify(c)) {
            suite_fail(s, "checking the data");
            return;
        }
        for (int direction = RAW_TO_DEVICE; direction <= RAW_TO_HOST; direction++) {
            c->direction = (raw_direction)direction;
            if (!measure(c))
                return;
        }
    }
}

static void run(suite *s, bool pinned)
{
    uint64_t largest = suite_on_gpu(s) ? GIB : LARGEST_ON_HOST;
    copies c = {.suite = s, .pinned = pinned};
    if (begin(&c, largest))
        sweep(&c, largest);
    else
        suite_fail(s, "taking memory");
    end(&c);
}

void suite_copy(suite *s)
{
    report_section(s->report, "Copies with memory that the device reaches directly",
                   suite_on_gpu(s)
                       ? "raw: cuMemcpyAsync with memory of cuMemHostAlloc, then synchronize; "
                         "Troupe: memory of trp_host_alloc"
                       : "raw: memcpy in one thread; Troupe: memory of trp_host_alloc");
    run(s, true);
}

void suite_pageable(suite *s)
{
    report_section(s->report, "Copies with ordinary memory",
                   suite_on_gpu(s) ? "raw: cuMemcpyHtoD, cuMemcpyDtoH; Troupe: the same memory"
                                   : "raw: memcpy in one thread; Troupe: the same memory");
    run(s, false);
}

/* Measures the allocation and release of one buffer. */
#include "bench/suite/suite.h"

#include <stdio.h>

static const uint64_t sizes[] = {256, UINT64_C(1) << 20, UINT64_C(64) << 20};

typedef struct pairs {
    suite *suite;
    int allocator;
    uint64_t bytes;
} pairs;

static bool run_raw(void *context, uint64_t count)
{
    const pairs *p = context;
    raw *r = p->suite->raw;
    return r->api->allocator[p->allocator].pairs(r, p->bytes, count);
}

static bool run_troupe(void *context, uint64_t count)
{
    const pairs *p = context;
    suite *s = p->suite;
    for (uint64_t i = 0; i < count; i++) {
        trp_buffer buffer;
        if (!suite_check(s, trp_buffer_create(s->device, p->bytes, &buffer), "trp_buffer_create") ||
            !suite_check(s, trp_buffer_free(s->device, buffer), "trp_buffer_free"))
            return false;
    }
    return true;
}

/* Both sides share one plan; the faster side sets the repetition count. */
static uint64_t pairs_in_a_block(suite *s, stats_side raw_side, stats_side troupe_side)
{
    double target_ns = s->quick ? 5e6 : 20e6;
    uint64_t raw_count = stats_calibrate(raw_side, target_ns, 50000);
    uint64_t troupe_count = stats_calibrate(troupe_side, target_ns, 50000);
    return raw_count < troupe_count ? raw_count : troupe_count;
}

static bool measure(suite *s, int allocator, uint64_t bytes)
{
    pairs p = {.suite = s, .allocator = allocator, .bytes = bytes};
    stats_side raw_side = {.run = run_raw, .context = &p};
    stats_side troupe_side = {.run = run_troupe, .context = &p};
    stats_plan plan = {.blocks = s->quick ? 5 : 9};
    report_row row = {
        .raw = s->raw->api->allocator[allocator].label,
        .unit = "ns",
        .size = bytes,
        .scale = 1,
    };
    char size[24];
    suite_size_text(size, bytes);
    snprintf(row.name, sizeof row.name, "%s", size);
    snprintf(row.note, sizeof row.note, "%s", row.raw);
    if (allocator == 0)
        suite_bound(s, &row, REPORT_VALUE_AT_MOST, 300);

    plan.count = pairs_in_a_block(s, raw_side, troupe_side);
    if (plan.count == 0) {
        suite_fail(s, row.name);
        return false;
    }
    plan.warm = plan.count / 10 + 1;
    return suite_measure(s, &plan, raw_side, troupe_side, &row);
}

void suite_alloc(suite *s)
{
    report_section(s->report, "A buffer created and freed",
                   "raw: as each row says; Troupe: trp_buffer_create, trp_buffer_free");
    for (int a = 0; a < RAW_ALLOCATORS; a++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            if (s->raw->api->allocator[a].pairs && !measure(s, a, sizes[i]))
                break;
        }
    }
    trp_device_trim(s->device);
}

/* Measures random numbers of every distribution and type against a fill of as many bytes, sent back
 * to back. */
#include "bench/suite/suite.h"

#include <stdio.h>

#define ELEMENTS       (INT64_C(1) << 28)
#define ELEMENTS_QUICK (INT64_C(1) << 20) /* and on the host */

typedef struct draw {
    suite *suite;
    trp_actor *actor;
    trp_random_request request;
    uint64_t bytes;
} draw;

static bool run(void *context, uint64_t count)
{
    draw *d = context;
    for (uint64_t i = 0; i < count; i++) {
        if (!suite_check(d->suite, trp_random(d->actor, &d->request, NULL), "trp_random"))
            return false;
    }
    return suite_drain(d->suite, TRP_FOREVER);
}

static bool run_fill(void *context, uint64_t count)
{
    draw *d = context;
    for (uint64_t i = 0; i < count; i++) {
        if (!suite_check(d->suite,
                         trp_fill(d->suite->device, d->request.y.buffer, 0, d->bytes, 42, 4, NULL),
                         "trp_fill"))
            return false;
    }
    return suite_drain(d->suite, TRP_FOREVER);
}

static const struct {
    const char *name;
    trp_random_distribution distribution;
    int types;
    trp_dtype type[6];
} rows[] = {
    {"bits", TRP_RANDOM_BITS, 2, {TRP_I32, TRP_I64}},
    {"integers", TRP_RANDOM_INTEGERS, 4, {TRP_I8, TRP_U8, TRP_I32, TRP_I64}},
    {"uniform", TRP_RANDOM_UNIFORM, 4, {TRP_F32, TRP_F16, TRP_BF16, TRP_F64}},
    {"normal", TRP_RANDOM_NORMAL, 6, {TRP_F32, TRP_F16, TRP_BF16, TRP_F64, TRP_C64, TRP_C128}},
    {"lognormal", TRP_RANDOM_LOGNORMAL, 4, {TRP_F32, TRP_F16, TRP_BF16, TRP_F64}},
    {"exponential", TRP_RANDOM_EXPONENTIAL, 4, {TRP_F32, TRP_F16, TRP_BF16, TRP_F64}},
    {"laplace", TRP_RANDOM_LAPLACE, 4, {TRP_F32, TRP_F16, TRP_BF16, TRP_F64}},
    {"cauchy", TRP_RANDOM_CAUCHY, 4, {TRP_F32, TRP_F16, TRP_BF16, TRP_F64}},
    {"gumbel", TRP_RANDOM_GUMBEL, 4, {TRP_F32, TRP_F16, TRP_BF16, TRP_F64}},
    {"bernoulli", TRP_RANDOM_BERNOULLI, 4, {TRP_BOOL, TRP_F16, TRP_F32, TRP_F64}},
    {"dropout", TRP_RANDOM_DROPOUT, 4, {TRP_F32, TRP_F16, TRP_BF16, TRP_F64}},
};

static void measure(suite *s, trp_actor *actor, size_t row_number, trp_dtype type)
{
    const int64_t count = s->quick || !suite_on_gpu(s) ? ELEMENTS_QUICK : ELEMENTS;
    const trp_random_distribution distribution = rows[row_number].distribution;
    draw d = {.suite = s,
              .actor = actor,
              .request = {.header = {.wait_ns = TRP_FOREVER},
                          .distribution = distribution,
                          .high_integer = distribution == TRP_RANDOM_INTEGERS ? 100 : 0,
                          .seed = s->seed,
                          .rank = 1,
                          .y = {.type = type, .dim = {count}}},
              .bytes = (uint64_t)count * (trp_dtype_bits(type) / 8)};
    report_row row = {.raw = "trp_fill",
                      .type = trp_dtype_name(type),
                      .unit = "GB/s",
                      .rate = true,
                      .scale = (double)d.bytes};
    snprintf(row.name, sizeof row.name, "%s %s", rows[row_number].name, row.type);
    const bool good =
        suite_upload(s, NULL, d.bytes, &d.request.y.buffer) && run(&d, 1) &&
        suite_time_blocks(s, 3, 8e6, true, (stats_side){run_fill, &d}, (stats_side){run, &d}, &row);
    if (good && suite_on_gpu(s) && !s->quick &&
        (distribution == TRP_RANDOM_BITS ||
         (distribution == TRP_RANDOM_UNIFORM && type == TRP_F32)))
        suite_bound(s, &row, REPORT_RATIO_AT_LEAST, 0.9);
    if (good)
        report_add(s->report, &row);
    else
        suite_fail(s, row.name);
    suite_free(s, &d.request.y.buffer, 1);
}

void suite_numbers(suite *s)
{
    report_section(s->report, "Random numbers, 2^28 of each type (on the host, or quick, 2^20)",
                   "raw: trp_fill of as many bytes; Troupe: the random actor; both are sent back "
                   "to back");
    trp_actor *actor = suite_actor(s, "random");
    for (size_t i = 0; actor && i < sizeof rows / sizeof *rows; i++) {
        for (int k = 0; k < rows[i].types; k++)
            measure(s, actor, i, rows[i].type[k]);
    }
    trp_actor_destroy(actor);
}

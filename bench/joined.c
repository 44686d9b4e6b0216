/* Measures small products on separate buffers, sent one by one: the gain of joining them, by
 * size. */
#include "bench/suite/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIPLES = 256, FEW = 64 };

static const int sizes[] = {16, 32, 64, 128, 256, 512, 1024};

typedef struct joined {
    suite *suite;
    trp_actor *blas;
    trp_joining joining;
    int n;
    size_t bytes;
    uint32_t triples;
    bool raw;
    float *host[3]; /* A, B, and space for a C */
    trp_buffer a[TRIPLES], b[TRIPLES], c[TRIPLES];
} joined;

static bool run_raw(void *context, uint64_t count)
{
    const joined *j = context;
    return j->suite->raw->api->gemm(j->suite->raw, count);
}

static bool run_troupe(void *context, uint64_t count)
{
    const joined *j = context;
    trp_gemm_request request = {.header = {.wait_ns = TRP_FOREVER},
                                .type = TRP_F32,
                                .m = j->n,
                                .n = j->n,
                                .k = j->n,
                                .joining = j->joining};
    for (uint64_t i = 0; i < count; i++) {
        request.a = j->a[i % j->triples];
        request.b = j->b[i % j->triples];
        request.c = j->c[i % j->triples];
        if (!suite_check(j->suite, trp_gemm(j->blas, &request, NULL), "trp_gemm"))
            return false;
    }
    return suite_drain(j->suite, TRP_FOREVER);
}

static bool begin(joined *j)
{
    suite *s = j->suite;
    size_t count = (size_t)j->n * (size_t)j->n;
    for (size_t i = 0; i < 3; i++) {
        j->host[i] = malloc(j->bytes);
        if (!j->host[i])
            return false;
        for (size_t k = 0; k < count; k++)
            j->host[i][k] =
                (float)((int)(suite_random(s->seed + i, k) >> 40) - (1 << 23)) * 0x1p-23f;
    }
    if (j->raw && !s->raw->api->gemm_begin(s->raw, TRP_F32, j->n, j->host[0], j->host[1], j->bytes,
                                           j->triples))
        return false;
    for (uint32_t i = 0; i < j->triples; i++) {
        if (!suite_upload(s, j->host[0], j->bytes, &j->a[i]) ||
            !suite_upload(s, j->host[1], j->bytes, &j->b[i]) ||
            !suite_upload(s, NULL, j->bytes, &j->c[i]))
            return false;
    }
    return true;
}

static void end(joined *j)
{
    suite *s = j->suite;
    for (uint32_t i = 0; i < j->triples; i++) {
        trp_buffer all[] = {j->a[i], j->b[i], j->c[i]};
        suite_free(s, all, sizeof all / sizeof *all);
    }
    if (j->raw)
        s->raw->api->gemm_end(s->raw);
    for (int i = 0; i < 3; i++)
        free(j->host[i]);
}

/* Tells whether all results equal the raw side's. An unwritten result is a NaN and differs. */
static bool compare(joined *j)
{
    suite *s = j->suite;
    size_t count = (size_t)j->n * (size_t)j->n;
    float *theirs = j->host[0], *ours = j->host[2]; /* A is no longer needed */
    if (j->raw && !s->raw->api->gemm_result(s->raw, theirs, j->bytes))
        return false;
    for (uint32_t i = 0; i < j->triples; i++) {
        trp_completion done = {0};
        double norm = 0, distance = 0;
        if (!suite_await(s, trp_read(s->device, j->c[i], 0, ours, j->bytes, &done), &done,
                         "trp_read"))
            return false;
        for (size_t k = 0; k < count; k++) {
            double x = j->raw ? (double)theirs[k] : (double)ours[k], y = (double)ours[k];
            norm += x * x;
            distance += (x - y) * (x - y);
        }
        if (!(sqrt(distance / norm) <= 1e-5)) {
            snprintf(s->error, sizeof s->error, "product %u differs by %.2e of its norm", i,
                     sqrt(distance / norm));
            return false;
        }
    }
    return true;
}

static void measure(suite *s, trp_actor *blas, int n, trp_joining joining)
{
    joined j = {.suite = s,
                .blas = blas,
                .joining = joining,
                .n = n,
                .bytes = (size_t)n * (size_t)n * sizeof(float),
                .triples = suite_on_gpu(s) ? TRIPLES : FEW,
                .raw = s->raw->api->gemm_supports(TRP_F32)};
    stats_side raw_side = {.run = j.raw ? run_raw : NULL, .context = &j};
    stats_side troupe_side = {.run = run_troupe, .context = &j};
    stats_plan plan = {.blocks = s->quick ? 3 : 5};
    report_row row = {.raw = j.raw ? s->raw->api->gemm_label : NULL,
                      .type = "f32",
                      .unit = "us",
                      .scale = 1e-3,
                      .size = (uint64_t)n};
    snprintf(row.name, sizeof row.name, "%d x %d x %d%s, each", n, n, n,
             joining == TRP_JOINING_OFF ? ", alone" : "");
    if (n == 64 && joining == TRP_JOINING_DEFAULT)
        suite_bound(s, &row, REPORT_RATIO_AT_MOST, 0.1);
    bool ok = begin(&j);
    if (ok) {
        plan.count =
            stats_calibrate(j.raw ? raw_side : troupe_side, s->quick ? 40e6 : 100e6, 10000);
        ok = plan.count > 0 && run_troupe(&j, j.triples) && compare(&j);
    }
    plan.warm = plan.count / 8 + 1;
    if (ok)
        suite_measure(s, &plan, raw_side, troupe_side, &row);
    else
        suite_fail(s, row.name);
    end(&j);
}

void suite_joined(suite *s)
{
    report_section(s->report, "Small products on buffers of their own, f32, sent one by one",
                   "raw: a loop of library calls, then synchronize; Troupe: submit all, then "
                   "drain; alone: with TRP_JOINING_OFF");
    trp_actor *blas = suite_actor(s, "blas");
    for (size_t i = 0; blas && i < sizeof sizes / sizeof *sizes; i++) {
        if ((s->quick && sizes[i] != 64) || (!suite_on_gpu(s) && sizes[i] > 256))
            continue;
        measure(s, blas, sizes[i], TRP_JOINING_DEFAULT);
        measure(s, blas, sizes[i], TRP_JOINING_OFF);
    }
    trp_actor_destroy(blas);
    trp_device_trim(s->device);
}

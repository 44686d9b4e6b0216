/* Measures products of the matmul actor against cuBLASLt called directly with its heuristic's first
 * algorithm: shapes, a fused epilogue, request overhead, and many problems. */
#include "bench/suite/product.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int squares[] = {1024, 2048, 4096, 8192, 16384};
static const int64_t tokens[] = {1, 16, 128, 4096};
static const shape layers[] = {
    {1024, 0, 4096},  {4096, 0, 1024}, {4096, 0, 4096},  {6144, 0, 4096},  {4096, 0, 14336},
    {14336, 0, 4096}, {8192, 0, 8192}, {28672, 0, 4096}, {28672, 0, 8192}, {8192, 0, 28672},
};

static void measure_shape(suite *s, trp_actor *actor, trp_tune tune, trp_dtype type, shape x,
                          mean *sum)
{
    product p = product_of(s, actor, type, x);
    p.tune = tune;
    report_row row = product_row(s, &p);
    suite_bound(s, &row, REPORT_RATIO_AT_LEAST, 0.98);
    if (!product_measure(&p, &row) || !p.raw)
        return;
    mean_add(sum, &row);
}

static void measure_shapes(suite *s, trp_tune tune, double limit)
{
    static const trp_dtype types[] = {TRP_BF16, TRP_F8E4M3};
    mean sum = {0};
    trp_actor *actor = suite_actor(s, "matmul");
    for (size_t t = 0; actor && t < sizeof types / sizeof *types; t++) {
        for (size_t i = 0; i < sizeof squares / sizeof *squares; i++) {
            int n = squares[i];
            if (n <= (suite_on_gpu(s) ? s->quick ? 4096 : 16384 : 1024))
                measure_shape(s, actor, tune, types[t], (shape){n, n, n}, &sum);
        }
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
            for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++) {
                shape x = {layers[i].m, tokens[k], layers[i].k};
                bool small = x.m * x.n * x.k <= INT64_C(1) << 26;
                bool chosen = s->quick || !suite_on_gpu(s) ? i < 1 && small : true;
                /* cuBLASLt requires multiples of 16 of fp8 in each dimension. */
                if (chosen && (types[t] == TRP_BF16 || x.n % 16 == 0))
                    measure_shape(s, actor, tune, types[t], x, &sum);
            }
        }
    }
    mean_show(s, &sum, limit);
    trp_actor_destroy(actor);
    trp_device_trim(s->device);
}

void suite_matmul_shapes(suite *s)
{
    report_section(s->report, "Products of transformers, D in bf16",
                   "raw: cublasLtMatmul with the heuristic's first algorithm, then synchronize; "
                   "Troupe: submit all, then drain");
    measure_shapes(s, TRP_TUNE_OFF, 1.0);
}

void suite_matmul_tuned(suite *s)
{
    if (!suite_on_gpu(s))
        return; /* the host backend searches nothing */
    report_section(s->report, "The same after a full search",
                   "raw: as before; Troupe: tune = TRP_TUNE_FULL");
    measure_shapes(s, TRP_TUNE_FULL, 1.03);
}

void suite_matmul_epilogue(suite *s)
{
    int64_t n = suite_on_gpu(s) ? 8192 : 512;
    report_section(s->report, "A fused epilogue: bias, gelu and aux",
                   "raw: the product without them; Troupe: with them");
    trp_actor *actor = suite_actor(s, "matmul");
    if (!actor)
        return;
    product p = product_of(s, actor, TRP_BF16, (shape){n, n, n});
    p.epilogue = true;
    report_row row = product_row(s, &p);
    suite_bound(s, &row, REPORT_RATIO_AT_LEAST, 0.93);
    product_measure(&p, &row);
    trp_actor_destroy(actor);
    trp_device_trim(s->device);
}

/* Measures a product so small that its time is the launch: the sides differ by the overhead. */
void suite_matmul_overhead(suite *s)
{
    report_section(s->report, "What a request costs beyond the library's call",
                   "raw: cublasLtMatmul, back to back, of the smallest product; Troupe: the same");
    trp_actor *actor = suite_actor(s, "matmul");
    if (!actor)
        return;
    product p = product_of(s, actor, TRP_BF16, (shape){64, 64, 64});
    report_row row = product_row(s, &p);
    row.rate = false;
    row.scale = 1e-3;
    row.unit = "us";
    if (product_measure(&p, &row) && p.raw)
        printf("  %.3f us more than the library's call (at most 1)\n",
               (row.troupe_ns.p50 - row.raw_ns.p50) * 1e-3);
    trp_actor_destroy(actor);
}

/* Measures planning; the second pass finds the plans of the first. */
void suite_matmul_plans(suite *s)
{
    enum { PROBLEMS = 1000 };
    report_section(s->report, "1,000 distinct problems, one after the other",
                   "raw: the first pass, which makes a plan for each; Troupe: the second");
    trp_actor *actor = suite_actor(s, "matmul");
    if (!actor)
        return;
    product p = product_of(s, actor, TRP_BF16, (shape){64 + PROBLEMS, 64, 64});
    report_row row = {.unit = "us", .scale = 1e-3, .raw = "first pass"};
    double *ns[2] = {calloc(PROBLEMS, sizeof(double)), calloc(PROBLEMS, sizeof(double))};
    p.raw = false;
    snprintf(row.name, sizeof row.name, "a product of a problem of its own");
    bool good = ns[0] && ns[1] && product_begin(&p);
    for (int pass = 0; good && pass < 2; pass++) {
        for (int i = 0; good && i < PROBLEMS; i++) {
            p.what.m = 64 + i;
            int64_t from = stats_now();
            good = product_run_first(&p);
            ns[pass][i] = (double)(stats_now() - from);
        }
    }
    if (good) {
        row.raw_ns = stats_summarise(ns[0], PROBLEMS);
        row.troupe_ns = stats_summarise(ns[1], PROBLEMS);
        report_add(s->report, &row);
    } else {
        suite_fail(s, row.name);
    }
    product_end(&p);
    free(ns[0]);
    free(ns[1]);
    trp_actor_destroy(actor);
}

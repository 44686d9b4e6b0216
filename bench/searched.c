/* Tests whether a search ever makes a product slower: draws problems at random and compares the
 * plan without a search with the plan of a search in turns, on operands inside and outside the
 * cache. */
#include "bench/suite/product.h"

#include <stdio.h>

enum { EACH = 12, STEP = 16, WORKSPACE = 32 << 20 };

/* Bounds the multiplications of a problem: 0.3 ms of bf16 on an H100. */
#define MOST_PRODUCTS (INT64_C(1) << 37)

typedef struct kind {
    const char *name;
    trp_dtype type, type_d;
    trp_compute compute;
} kind;

static const kind kinds[] = {{"f32", TRP_F32, TRP_F32, TRP_COMPUTE_DEFAULT},
                             {"tf32", TRP_F32, TRP_F32, TRP_COMPUTE_TF32},
                             {"bf16", TRP_BF16, TRP_BF16, TRP_COMPUTE_DEFAULT},
                             {"f8e4m3", TRP_F8E4M3, TRP_BF16, TRP_COMPUTE_DEFAULT},
                             {"i8", TRP_I8, TRP_I32, TRP_COMPUTE_DEFAULT}};

/* Draws a multiple of STEP from 64 to 16,368, with equal probability per power of two. */
static int64_t draw_size(uint64_t *seed)
{
    *seed = suite_random(*seed, 0);
    const int64_t least = INT64_C(1) << (6 + *seed % 8);
    *seed = suite_random(*seed, 1);
    return least + (int64_t)(*seed % (uint64_t)(least / STEP)) * STEP;
}

static shape draw_shape(uint64_t seed)
{
    shape x;
    do
        x = (shape){draw_size(&seed), draw_size(&seed), draw_size(&seed)};
    while (x.m * x.n * x.k > MOST_PRODUCTS);
    return x;
}

/* Plans are stored per workspace limit, so different limits keep the two plans apart. */
static void measure(suite *s, trp_actor *actor, const kind *k, shape x, trp_tune tune, bool cold,
                    mean *sum)
{
    product none = product_of(s, actor, k->type, x);
    none.what.type_d = k->type_d;
    none.what.copies = cold ? none.what.copies : 1;
    none.compute = k->compute;
    none.workspace = WORKSPACE;
    none.raw = false;
    product found = none;
    report_row row = product_row(s, &none);
    stats_plan plan = {.blocks = s->quick ? 3 : 7, .warm = 4};
    const bool begun = product_begin(&none);
    bool good = false;
    found = none;
    found.tune = tune;
    found.workspace = WORKSPACE + (tune == TRP_TUNE_FULL ? 512 : 256);
    row.type = k->name;
    row.raw = "no search";
    snprintf(row.name, sizeof row.name, "%s %lld x %lld x %lld, %s, %s", k->name, (long long)x.m,
             (long long)x.n, (long long)x.k, tune == TRP_TUNE_FULL ? "full" : "quick",
             cold ? "cold" : "hot");
    const stats_side sides[] = {{product_run_troupe, &none}, {product_run_troupe, &found}};
    suite_bound(s, &row, REPORT_RATIO_AT_LEAST, 0.98);
    if (begun && product_run_first(&none) && product_run_first(&found)) {
        plan.count = stats_calibrate(sides[0], 10e6, 5000);
        good = plan.count > 0 && suite_time(s, &plan, sides[0], sides[1], &row);
        report_row again = row; /* repeats the measurement to exclude chance */
        if (good && row.raw_ns.p50 < row.limit * row.troupe_ns.p50 &&
            suite_time(s, &plan, sides[0], sides[1], &again) &&
            again.raw_ns.p50 / again.troupe_ns.p50 > row.raw_ns.p50 / row.troupe_ns.p50)
            row = again;
    }
    if (good) {
        report_add(s->report, &row);
        mean_add(sum, &row);
    } else {
        suite_fail(s, row.name);
    }
    product_end(&none);
}

void suite_matmul_searched(suite *s)
{
    mean sum = {0};
    if (!suite_on_gpu(s))
        return; /* the host backend searches nothing */
    report_section(s->report, "Products after a search against products without one",
                   "sizes drawn at random, multiples of 16 from 64 to 16,368; raw: tune = "
                   "TRP_TUNE_OFF, through Troupe; Troupe: a quick or a full search before");
    trp_actor *actor = suite_actor(s, "matmul");
    for (size_t i = 0; actor && i < EACH * sizeof kinds / sizeof *kinds; i++) {
        const shape x = draw_shape(suite_random(s->seed, i));
        for (int way = 0; way < (s->quick ? 2 : 4); way++)
            measure(s, actor, &kinds[i / EACH], x, way / 2 ? TRP_TUNE_FULL : TRP_TUNE_QUICK,
                    way % 2, &sum);
    }
    mean_show(s, &sum, 1.01);
    trp_actor_destroy(actor);
    trp_device_trim(s->device);
}

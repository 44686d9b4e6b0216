/* Measures grouped products of tokens and expert weights, with equally many tokens per expert,
 * against a loop of cuBLASLt calls over the groups. */
#include "bench/suite/filled.h"
#include "bench/suite/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPERTS_MOST = 64 };

/* Each group has m tokens and n features and sums over k. */
typedef struct shape {
    int64_t groups, m, n, k;
} shape;

static const shape shapes[] = {{64, 128, 4096, 4096}, {64, 64, 2048, 7168}, {8, 4096, 4096, 7168}};
static const shape small[] = {{8, 16, 64, 96}};

typedef struct grouped {
    suite *suite;
    trp_actor *actor;
    shape x;
    bool raw;
    trp_cutlass_chosen chosen;
    trp_buffer tokens, weights, out, ends;
    unsigned char *piece;
} grouped;

static trp_cutlass_grouped_gemm_request request_of(grouped *g)
{
    const shape *x = &g->x;
    return (trp_cutlass_grouped_gemm_request){
        .header = {.wait_ns = TRP_FOREVER},
        .groups = x->groups,
        .grouping = TRP_CUTLASS_GROUPS_OF_M,
        .m = x->groups * x->m,
        .n = x->n,
        .k = x->k,
        .a = {.buffer = g->tokens, .type = TRP_BF16, .order = TRP_ROW_MAJOR},
        .b = {.buffer = g->weights, .stride = x->n * x->k},
        .d = {.buffer = g->out, .order = TRP_ROW_MAJOR},
        .table = g->ends,
        .kernel = g->suite->kernel,
        .tune = g->suite->tune,
        .chosen = &g->chosen,
    };
}

static bool begin(grouped *g)
{
    suite *s = g->suite;
    const shape *x = &g->x;
    const uint64_t groups = (uint64_t)x->groups, m = (uint64_t)x->m, n = (uint64_t)x->n,
                   k = (uint64_t)x->k;
    /* D = A^T B, column-major, with the weights as A and the tokens as B. */
    const raw_product theirs = {.type = TRP_BF16,
                                .type_d = TRP_BF16,
                                .m = x->n,
                                .n = x->m,
                                .k = x->k,
                                .copies = (uint32_t)groups};
    int32_t ends[EXPERTS_MOST];
    for (uint64_t i = 0; i < groups; i++)
        ends[i] = (int32_t)((i + 1) * m);
    g->piece = malloc(FILLED_PIECE);
    if (!g->piece)
        return false;
    filled_piece(TRP_BF16, g->piece, s->seed);
    return filled_buffer(s, g->piece, 2 * groups * m * k, &g->tokens) &&
           filled_buffer(s, g->piece, 2 * groups * n * k, &g->weights) &&
           filled_buffer(s, NULL, 2 * groups * m * n, &g->out) &&
           suite_upload(s, ends, 4 * groups, &g->ends) &&
           (!g->raw || s->raw->api->matmul_begin(s->raw, &theirs, g->piece, FILLED_PIECE));
}

static void end(grouped *g)
{
    suite *s = g->suite;
    trp_buffer all[] = {g->tokens, g->weights, g->out, g->ends};
    suite_free(s, all, sizeof all / sizeof *all);
    if (g->raw)
        s->raw->api->matmul_end(s->raw);
    free(g->piece);
}

static bool run_raw(void *context, uint64_t count)
{
    const grouped *g = context;
    return g->suite->raw->api->matmul(g->suite->raw, count * (uint64_t)g->x.groups);
}

static bool run_troupe(void *context, uint64_t count)
{
    grouped *g = context;
    const trp_cutlass_grouped_gemm_request r = request_of(g);
    for (uint64_t i = 0; i < count; i++) {
        if (!suite_check(g->suite, trp_cutlass_grouped_gemm(g->actor, &r, NULL),
                         "grouped products"))
            return false;
    }
    return suite_drain(g->suite, TRP_FOREVER);
}

static bool run_first(grouped *g)
{
    trp_completion done = {0};
    const trp_cutlass_grouped_gemm_request r = request_of(g);
    return suite_await(g->suite, trp_cutlass_grouped_gemm(g->actor, &r, &done), &done,
                       "grouped products");
}

static void measure(suite *s, trp_actor *actor, const shape *x)
{
    grouped g = {.suite = s, .actor = actor, .x = *x, .raw = s->raw->api->matmul_begin != NULL};
    const double flop = 2.0 * (double)x->groups * (double)x->m * (double)x->n * (double)x->k;
    stats_side raw_side = {.run = g.raw ? run_raw : NULL, .context = &g};
    stats_side troupe_side = {.run = run_troupe, .context = &g};
    stats_plan plan = {.blocks = s->quick ? 3 : 5};
    report_row row = {.raw = g.raw ? s->raw->api->matmul_label : NULL, .type = "bf16"};
    suite_set_flop(s, &row, flop);
    snprintf(row.name, sizeof row.name, "%lld x (%lld x %lld x %lld)", (long long)x->groups,
             (long long)x->m, (long long)x->n, (long long)x->k);
    suite_bound(s, &row, REPORT_RATIO_AT_LEAST, 1.15);
    bool good = begin(&g) && run_first(&g);
    if (good && g.raw)
        good =
            run_raw(&g, 1) &&
            filled_compare(s, g.out, 2 * (uint64_t)x->groups * (uint64_t)(x->m * x->n), row.note);
    if (good) {
        suite_plan_blocks(s, g.raw ? raw_side : troupe_side, &plan);
        if (plan.count > 0)
            suite_measure(s, &plan, raw_side, troupe_side, &row);
        else
            suite_fail(s, row.name);
        printf("  %s%s\n", g.chosen.kernel, g.chosen.tuned ? ", found by a search" : "");
    } else {
        suite_fail(s, row.name);
    }
    end(&g);
}

void suite_cutlass_grouped(suite *s)
{
    const shape *list = suite_on_gpu(s) ? shapes : small;
    const size_t count = suite_on_gpu(s) ? sizeof shapes / sizeof *shapes : 1;
    /* A kernel's name shows whether it is a grouped one. */
    if (s->kernel && !strstr(s->kernel, "_grouped_"))
        return;
    report_section(s->report, "Grouped products of bf16",
                   "raw: a loop of cublasLtMatmul over the groups, then synchronize; Troupe: one "
                   "request, whose sizes are on the device");
    trp_actor *actor = suite_actor(s, "cutlass");
    for (size_t i = 0; actor && i < count; i++)
        measure(s, actor, &list[i]);
    trp_actor_destroy(actor);
    trp_device_trim(s->device);
}

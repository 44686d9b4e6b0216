#include "matrix/tune.h"

#include "base/os/clock.h"
#include "base/numbers/half.h"
#include "matrix/neighbours.h"
#include "tuning/bench.h"

#include <troupe/matmul.h>

#include <stdlib.h>
#include <string.h>

enum {
    CANDIDATES_QUICK = 8,
    CANDIDATES_FULL = 64,
    ROOM = 2048,       /* the most algorithms of a full search */
    CLIMBS = 2,        /* rounds of timing the neighbours of the fastest */
    SEEDS = 3,         /* algorithms whose neighbours are timed in a round */
    SAMPLE = 64 << 10, /* compared bytes of D */
};

/* After this much time no more neighbours are tried. */
#define CLIMB_NS INT64_C(1000000000)

/* The most workspace for algorithms that are not proposed. */
#define WORKSPACE_TO_CLIMB ((size_t)256 << 20)

/* A neighbour that takes this many times as long as the fastest is not timed further. */
#define HOPELESS 1.3f

/* The duration of one measurement of a neighbour. */
#define LENGTH_CLIMB_US 300.0f

/* A search among algorithms. Entries refer to algorithms by their index in `algo`. */
typedef struct tuner {
    trp__bench bench;
    const trp__matmul_planner *planner;
    const trp__matmul_key *key;
    const uint64_t *bytes; /* of each operand */
    trp__matmul_plan *plan;
    trp__matmul problem; /* with scalars */
    size_t workspace_bytes;
    uint64_t place[TRP__MATMUL_OPERANDS]; /* offset of each operand in a copy */
    trp__search search;
    trp__search_entry entry[ROOM];
    trp__cublaslt_result algo[ROOM];
    uint32_t algos;
} tuner;

/* Operands. */

/* Sets scale factors, alpha and beta to 1. */
static bool fill_small(const tuner *t, int operand, trp__cu_address to, uint64_t bytes)
{
    const trp__cuda *cu = t->bench.cu;
    uint8_t mode = operand == TRP__MATMUL_SCALE_A   ? t->problem.scale_a
                   : operand == TRP__MATMUL_SCALE_B ? t->problem.scale_b
                                                    : TRP_SCALE_TENSOR;
    if (mode == TRP_SCALE_BLOCK_16)
        return cu->cuMemsetD8Async(to, 0x38, bytes, t->bench.stream) == 0;
    if (mode == TRP_SCALE_BLOCK_32)
        return cu->cuMemsetD8Async(to, 0x7f, bytes, t->bench.stream) == 0;
    if (operand != TRP__MATMUL_SCALARS)
        return cu->cuMemsetD32Async(to, trp__f32_bits(1), bytes / 4, t->bench.stream) == 0;
    double f64[4] = {1, 1, 1, 1};
    float f32[4] = {1, 1, 1, 1};
    int32_t i32[2] = {1, 1};
    uint8_t type = t->problem.scalar_type;
    const void *from = type == TRP_F64 || type == TRP_C128 ? (const void *)f64
                       : type == TRP_I32                   ? (const void *)i32
                                                           : (const void *)f32;
    return trp__cuda_upload(cu, to, from, bytes) == 0;
}

/* Fills an operand with random numbers. A complex number is two real ones; for types whose bit
 * patterns are all numbers, the bits are random. */
static bool fill_operand(const tuner *t, int operand, trp__cu_address to)
{
    const trp__matmul *g = &t->problem;
    const uint64_t bytes = t->bytes[operand];
    if (operand == TRP__MATMUL_ALPHAS)
        return trp__bench_fill(&t->bench, (trp_dtype)g->scalar_type, -1, 1, to, bytes);
    if (operand >= TRP__MATMUL_SCALARS)
        return fill_small(t, operand, to, bytes);
    const uint8_t type = operand == TRP__MATMUL_VECTOR ? g->vector_type : g->type[operand];
    switch (type) {
    case TRP_C128:
        return trp__bench_fill(&t->bench, TRP_F64, -1, 1, to, bytes);
    case TRP_C64:
        return trp__bench_fill(&t->bench, TRP_F32, -1, 1, to, bytes);
    case TRP_I32:
        return trp__bench_fill(&t->bench, TRP_I32, -1000, 1000, to, bytes);
    case TRP_F64:
    case TRP_F32:
    case TRP_F16:
    case TRP_BF16:
    case TRP_F8E4M3:
    case TRP_F8E5M2:
        return trp__bench_fill(&t->bench, (trp_dtype)type, -1, 1, to, bytes);
    default: /* i8, f4e2m1, bits: all patterns are numbers */
        return trp__bench_fill(&t->bench, TRP_U8, 0, 255, to, bytes);
    }
}

/* Assigns offsets to the operands in a copy, aligned as in the problem; returns the size of a copy.
 */
static uint64_t lay_out(tuner *t)
{
    uint64_t size = 0;
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++) {
        t->place[i] = size + trp__matmul_skew(t->key, i);
        size = (t->place[i] + t->bytes[i] + 255) / 256 * 256;
    }
    return size;
}

/* Returns the address of an operand in a copy; NULL: there is none. C may be D. */
static void *address_of(const tuner *t, uint32_t copy, int operand)
{
    const trp__matmul *g = &t->problem;
    if (g->access[operand] == TRP__MATMUL_NO_ACCESS)
        return NULL;
    if (operand == TRP__MATMUL_C && g->access[TRP__MATMUL_C] == g->access[TRP__MATMUL_D])
        operand = TRP__MATMUL_D;
    return (void *)(uintptr_t)(t->bench.memory + copy * t->bench.copy_bytes + t->place[operand]);
}

static bool open_bench(tuner *t, const trp__cuda *cu)
{
    bool good = trp__bench_open(&t->bench, cu, lay_out(t), t->planner->l2_bytes,
                                (uint64_t)t->workspace_bytes);
    t->bench.replays = true;
    for (int i = 0; good && i < TRP__MATMUL_OPERANDS; i++) {
        const void *at = address_of(t, 0, i);
        if (at && (i != TRP__MATMUL_C || at != address_of(t, 0, TRP__MATMUL_D)))
            good = fill_operand(t, i, (uintptr_t)at);
    }
    return good && trp__bench_copy(&t->bench);
}

/* Measuring. */

static bool run(void *context, uint32_t copy)
{
    tuner *t = context;
    void *at[TRP__MATMUL_OPERANDS];
    trp_error ignored;
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++)
        at[i] = address_of(t, copy, i);
    return trp__matmul_plan_launch(t->planner, t->plan, &t->problem, at,
                                   (void *)(uintptr_t)t->bench.workspace, t->workspace_bytes,
                                   t->bench.stream, &ignored) == TRP_OK;
}

static float measure(tuner *t, const trp__cublaslt_algo *algo, uint32_t count,
                     trp__search_kind kind)
{
    t->plan->algo = *algo;
    return trp__bench_measure(&t->bench, count, kind, run, t);
}

static const trp__cublaslt_result *algo_of(const tuner *t, uint32_t entry)
{
    return &t->algo[t->search.entry[entry].what];
}

/* Measures until the search is complete. */
static void measure_all(tuner *t)
{
    trp__search_step step;
    while (trp__search_next(&t->search, &step))
        trp__search_add_time(&t->search,
                             measure(t, &algo_of(t, step.entry)->algo, step.runs, step.kind));
}

static void add(tuner *t, const trp__cublaslt_result *algo)
{
    if (t->algos < ROOM && trp__search_add(&t->search, t->algos))
        t->algo[t->algos++] = *algo;
}

/* Climbing: an algorithm that differs from the fastest in one attribute may be faster. */

typedef struct climb {
    tuner *t;
    int64_t until;
} climb;

static bool is_known(const tuner *t, const trp__cublaslt_algo *algo)
{
    for (uint32_t i = 0; i < t->algos; i++) {
        if (memcmp(&t->algo[i].algo, algo, sizeof *algo) == 0)
            return true;
    }
    return false;
}

static bool time_neighbour(void *context, const trp__cublaslt_result *neighbour)
{
    const climb *c = context;
    if (is_known(c->t, &neighbour->algo) || neighbour->workspace_bytes > c->t->workspace_bytes)
        return true;
    add(c->t, neighbour);
    measure_all(c->t);
    return c->t->algos < ROOM && trp__now_ns() < c->until;
}

static void add_neighbours(tuner *t)
{
    climb c = {t, trp__now_ns() + CLIMB_NS};
    bool more = true;
    t->search.rules.length_us = LENGTH_CLIMB_US;
    t->search.rules.hopeless = HOPELESS;
    for (int round = 0; round < CLIMBS && more; round++) {
        trp__cublaslt_algo seed[SEEDS];
        trp__search_sort(&t->search);
        uint32_t seeds = t->search.entries < SEEDS ? t->search.entries : SEEDS;
        for (uint32_t i = 0; i < seeds; i++)
            seed[i] = algo_of(t, i)->algo;
        for (uint32_t i = 0; i < seeds && more; i++)
            more =
                trp__matmul_neighbours(t->planner, t->key, t->plan, &seed[i], time_neighbour, &c);
    }
}

/* The fastest algorithm is used only if the first part of its D equals that of the first algorithm.
 */

static bool take_sample(tuner *t, const trp__cublaslt_algo *algo, size_t size, void *out)
{
    trp__cu_address d = (uintptr_t)address_of(t, 0, TRP__MATMUL_D);
    return fill_operand(t, TRP__MATMUL_D, d) && measure(t, algo, 1, TRP__SEARCH_HOT) >= 0 &&
           t->bench.cu->cuMemcpyDtoH_v2(out, d, size) == 0;
}

static bool computes_the_same(tuner *t, const trp__cublaslt_algo *first,
                              const trp__cublaslt_algo *other)
{
    const trp_dtype type = (trp_dtype)t->problem.type[TRP__MATMUL_D];
    const trp_dtype real = type == TRP_C128 ? TRP_F64 : type == TRP_C64 ? TRP_F32 : type;
    const uint64_t bytes = t->bytes[TRP__MATMUL_D];
    const size_t size = bytes < SAMPLE ? (size_t)bytes : SAMPLE;
    void *x = malloc(SAMPLE), *y = malloc(SAMPLE);
    bool same = x && y && take_sample(t, first, size, x) && take_sample(t, other, size, y) &&
                trp__bench_alike(real, x, y, size / (trp_dtype_bits(real) / 8));
    free(x);
    free(y);
    return same;
}

/* Puts an algorithm into the plan, and returns whether it may be used. */
static bool may_serve(tuner *t, const trp__cublaslt_result *result)
{
    t->plan->algo = result->algo;
    t->plan->workspace = result->workspace_bytes;
    return !t->planner->serves || t->planner->serves(t->planner->context, t->key, t->plan);
}

static bool search(tuner *t, const trp__cuda *cu, bool full, trp__matmul_record *out)
{
    const uint64_t workspace = t->key->problem.workspace;
    t->workspace_bytes = !full                            ? 0
                         : workspace < WORKSPACE_TO_CLIMB ? (size_t)workspace
                                                          : WORKSPACE_TO_CLIMB;
    for (uint32_t i = 0; i < t->algos; i++) {
        if (t->algo[i].workspace_bytes > t->workspace_bytes)
            t->workspace_bytes = t->algo[i].workspace_bytes;
    }
    if (!open_bench(t, cu))
        return false;
    measure_all(t);
    if (full)
        add_neighbours(t);
    trp__search_final(&t->search);
    measure_all(t);
    if (t->search.failed)
        return false;
    uint32_t best = trp__search_winner(&t->search);
    if (best != 0 && (!computes_the_same(t, &algo_of(t, 0)->algo, &algo_of(t, best)->algo) ||
                      !may_serve(t, algo_of(t, best))))
        best = 0;
    *out = (trp__matmul_record){.result = {.level = full ? TRP_TUNE_FULL : TRP_TUNE_QUICK,
                                           .candidates = t->search.entries,
                                           .default_us = trp__search_median(&t->search, 0),
                                           .best_us = trp__search_median(&t->search, best)},
                                .algo = algo_of(t, best)->algo,
                                .workspace = algo_of(t, best)->workspace_bytes};
    return true;
}

/* Adds the library's proposals. */
static void add_proposals(tuner *t, bool full)
{
    trp__cublaslt_result results[CANDIDATES_FULL];
    int count = trp__matmul_plan_candidates(t->planner, t->key, t->plan, results,
                                            full ? CANDIDATES_FULL : CANDIDATES_QUICK);
    for (int i = 0; i < count; i++)
        add(t, &results[i]);
}

bool trp__matmul_tune(const trp__matmul_planner *planner, const trp__cuda *cu,
                      const trp__matmul_key *key, const uint64_t bytes[], bool full,
                      trp__matmul_plan *plan, trp__matmul_record *out)
{
    const trp__search_rules *rules = full ? &trp__bench_full : &trp__bench_quick;
    trp__cublaslt_algo first = plan->algo;
    tuner *t = calloc(1, sizeof *t);
    if (!t)
        return false;
    t->planner = planner;
    t->key = key;
    t->bytes = bytes;
    t->plan = plan;
    t->problem = key->problem;
    if (!trp__matmul_has(&key->problem, TRP__MATMUL_ALPHAS))
        t->problem.alpha[0] = 1;
    t->problem.beta[0] = trp__matmul_has(&key->problem, TRP__MATMUL_C);
    trp__search_begin(&t->search, rules, t->entry, ROOM);
    add_proposals(t, full);
    bool found = t->algos > 0 && search(t, cu, full, out);
    plan->algo = found ? out->algo : first;
    plan->workspace = found ? (size_t)out->workspace : plan->workspace;
    trp__bench_close(&t->bench);
    free(t);
    return found;
}

bool trp__matmul_use_record(const trp__matmul_planner *planner, const trp__matmul_key *key,
                            const trp__matmul_record *record, trp__matmul_plan *plan)
{
    trp__cublaslt_result result;
    trp__cublas_status status = planner->lt->cublasLtMatmulAlgoCheck(
        planner->handle, plan->desc, plan->layout[TRP__MATMUL_A], plan->layout[TRP__MATMUL_B],
        plan->layout[TRP__MATMUL_C], plan->layout[TRP__MATMUL_D], &record->algo, &result);
    if (status != TRP__CUBLAS_SUCCESS || result.state != TRP__CUBLAS_SUCCESS ||
        result.workspace_bytes > key->problem.workspace)
        return false;
    plan->algo = record->algo;
    plan->workspace = result.workspace_bytes;
    return true;
}

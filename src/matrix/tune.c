#include "matrix/tune.h"

#include "base/clock.h"
#include "base/half.h"
#include "base/narrow.h"
#include "matrix/neighbours.h"

#include <troupe/convert.h>
#include <troupe/matmul.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CANDIDATES_QUICK = 8,
    CANDIDATES_FULL = 64,
    FINALISTS_QUICK = 3, /* besides the first */
    FINALISTS_FULL = 8,
    ROUNDS_QUICK = 5,
    ROUNDS_FULL = 11,
    COPIES = 16,
    REPETITIONS = 200,
    ROOM = 2048,       /* for what a full search times */
    CLIMBS = 2,        /* from the fastest so far to their neighbours */
    SEEDS = 3,         /* so many of them */
    SAMPLE = 64 << 10, /* bytes of D that are compared */
};

/* After this much time no more neighbours are tried. */
#define CLIMB_NS INT64_C(1000000000)

/* Workspace for what is not proposed, at most. */
#define WORKSPACE_TO_CLIMB ((size_t)256 << 20)

/* A neighbour that takes this much longer than the fastest is timed no further. */
#define HOPELESS 1.3f

/* What beats the first algorithm is this much faster. */
#define ENOUGH 0.98f

/* How long one measurement shall take. */
#define LENGTH_QUICK_US 300.0f
#define LENGTH_FULL_US  1000.0f
#define LENGTH_CLIMB_US 300.0f

/* A place to measure: operands, as often as it takes that none is in the cache when its turn comes.
 */
typedef struct bench {
    const trp__matmul_planner *planner;
    const trp__cuda *cu;
    trp__matmul problem; /* with scalars */
    trp__cu_stream stream;
    trp__cu_event begin, end;
    trp__cu_address memory, workspace;
    size_t workspace_bytes;
    uint32_t copies, next;
    void *at[COPIES][TRP__MATMUL_OPERANDS];
} bench;

typedef struct candidate {
    trp__cublaslt_result from;
    float us[ROUNDS_FULL];
} candidate;

/* Operands. */

static uint64_t random_next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* A piece of a matrix: numbers of which no bit is always the same, since what a device draws, and
 * so its clock, depends on them. */
static void fill_piece(uint8_t type, void *piece, size_t bytes)
{
    uint64_t state = 1;
    size_t width = type == TRP_F64 || type == TRP_C128                     ? 8
                   : type == TRP_F32 || type == TRP_C64 || type == TRP_I32 ? 4
                   : type == TRP_F16 || type == TRP_BF16                   ? 2
                                                                           : 1;
    for (size_t i = 0; i < bytes / width; i++) {
        double value = (double)random_next(&state) * 0x1p-30 - 1;
        if (type == TRP_F64 || type == TRP_C128)
            ((double *)piece)[i] = value;
        else if (type == TRP_F32 || type == TRP_C64)
            ((float *)piece)[i] = (float)value;
        else if (type == TRP_F16)
            ((uint16_t *)piece)[i] = trp__f32_to_f16((float)value);
        else if (type == TRP_BF16)
            ((uint16_t *)piece)[i] = trp__f32_to_bf16((float)value);
        else if (type == TRP_F8E4M3)
            ((uint8_t *)piece)[i] = trp__f32_to_f8e4m3((float)value);
        else if (type == TRP_F8E5M2)
            ((uint8_t *)piece)[i] = trp__f32_to_f8e5m2((float)value);
        else if (type == TRP_I32)
            ((int32_t *)piece)[i] = (int32_t)(value * 1000);
        else /* i8, f4e2m1, bits: all patterns are numbers */
            ((uint8_t *)piece)[i] = (uint8_t)random_next(&state);
    }
}

/* Scale factors of 1; alpha 1, and beta 1 where there is a C. */
static bool fill_small(bench *b, int operand, trp__cu_address to, uint64_t bytes)
{
    const trp__cuda *cu = b->cu;
    uint8_t mode = operand == TRP__MATMUL_SCALE_A   ? b->problem.scale_a
                   : operand == TRP__MATMUL_SCALE_B ? b->problem.scale_b
                                                    : TRP_SCALE_TENSOR;
    if (mode == TRP_SCALE_BLOCK_16)
        return cu->cuMemsetD8Async(to, 0x38, bytes, b->stream) == 0;
    if (mode == TRP_SCALE_BLOCK_32)
        return cu->cuMemsetD8Async(to, 0x7f, bytes, b->stream) == 0;
    if (operand != TRP__MATMUL_SCALARS)
        return cu->cuMemsetD32Async(to, trp__f32_bits(1), bytes / 4, b->stream) == 0;
    double f64[4] = {1, 1, 1, 1};
    float f32[4] = {1, 1, 1, 1};
    int32_t i32[2] = {1, 1};
    uint8_t type = b->problem.scalar_type;
    const void *from = type == TRP_F64 || type == TRP_C128 ? (const void *)f64
                       : type == TRP_I32                   ? (const void *)i32
                                                           : (const void *)f32;
    return trp__cuda_upload(cu, to, from, bytes) == 0;
}

static bool fill_matrix(bench *b, uint8_t type, trp__cu_address to, uint64_t bytes)
{
    size_t piece = bytes < (1u << 20) ? (size_t)bytes : 1u << 20;
    void *from = malloc(piece);
    if (!from)
        return false;
    fill_piece(type, from, piece);
    bool good = trp__cuda_upload(b->cu, to, from, piece) == 0;
    free(from);
    for (uint64_t done = piece; good && done < bytes;) {
        uint64_t some = bytes - done < done ? bytes - done : done;
        good = b->cu->cuMemcpyAsync(to + done, to, (size_t)some, b->stream) == 0;
        done += some;
    }
    return good;
}

static bool fill_operand(bench *b, int operand, trp__cu_address to, uint64_t bytes)
{
    if (operand >= TRP__MATMUL_SCALARS)
        return fill_small(b, operand, to, bytes);
    uint8_t type =
        operand == TRP__MATMUL_VECTOR ? b->problem.vector_type : b->problem.type[operand];
    return fill_matrix(b, type, to, bytes);
}

/* Where each operand lies in a copy, aligned as it is in the problem; returns the copy's size. */
static uint64_t lay_out(const trp__matmul_key *key, const uint64_t bytes[],
                        uint64_t place[TRP__MATMUL_OPERANDS])
{
    static const uint8_t aligned[] = {TRP__MATMUL_A, TRP__MATMUL_B,   TRP__MATMUL_C,
                                      TRP__MATMUL_D, TRP__MATMUL_AUX, TRP__MATMUL_VECTOR};
    uint64_t size = 0;
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++) {
        uint64_t skew = 0;
        for (size_t k = 0; k < sizeof aligned; k++) {
            if (aligned[k] == i && key->alignment[k] < 8)
                skew = UINT64_C(1) << key->alignment[k];
        }
        place[i] = size + skew;
        size = (place[i] + bytes[i] + 255) / 256 * 256;
    }
    return size;
}

static bool in_d_s_place(const trp__matmul *g)
{
    return g->access[TRP__MATMUL_C] == g->access[TRP__MATMUL_D];
}

static bool fill_copies(bench *b, const uint64_t bytes[], const uint64_t place[], uint64_t size)
{
    const trp__matmul *g = &b->problem;
    bool good = true;
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++) {
        bool there = g->access[i] != TRP__MATMUL_NO_ACCESS;
        bool shared = i == TRP__MATMUL_C && in_d_s_place(g);
        uint64_t at = b->memory + place[shared ? TRP__MATMUL_D : i];
        if (there && !shared)
            good = good && fill_operand(b, i, at, bytes[i]);
        for (uint32_t copy = 0; copy < b->copies; copy++)
            b->at[copy][i] = there ? (void *)(uintptr_t)(at + copy * size) : NULL;
    }
    for (uint32_t copy = 1; good && copy < b->copies; copy++)
        good =
            b->cu->cuMemcpyAsync(b->memory + copy * size, b->memory, (size_t)size, b->stream) == 0;
    return good;
}

static void close_bench(bench *b)
{
    const trp__cuda *cu = b->cu;
    if (b->stream)
        cu->cuStreamSynchronize(b->stream);
    if (b->begin)
        cu->cuEventDestroy_v2(b->begin);
    if (b->end)
        cu->cuEventDestroy_v2(b->end);
    if (b->memory)
        cu->cuMemFreeAsync(b->memory, b->stream);
    if (b->workspace)
        cu->cuMemFreeAsync(b->workspace, b->stream);
    if (b->stream)
        cu->cuStreamDestroy_v2(b->stream);
}

/* In the stream's order: cuMemFree would wait for the other actors' streams. */
static bool allocate(bench *b, uint64_t bytes, trp__cu_address *out)
{
    bool good = b->cu->cuMemAllocAsync(out, (size_t)bytes, b->stream) == 0;
    if (!good)
        *out = 0;
    return good && b->cu->cuStreamSynchronize(b->stream) == 0;
}

/* As many copies as there is memory for: one is better than none. */
static bool take_memory(bench *b, uint64_t size)
{
    uint64_t wanted = 2 * b->planner->l2_bytes / size + 1;
    for (b->copies = wanted < COPIES ? (uint32_t)wanted : COPIES; b->copies > 0; b->copies /= 2) {
        if (allocate(b, b->copies * size, &b->memory))
            return true;
    }
    return false;
}

static bool open_bench(bench *b, const trp__matmul_key *key, const uint64_t bytes[])
{
    const trp__cuda *cu = b->cu;
    uint64_t place[TRP__MATMUL_OPERANDS];
    uint64_t size = lay_out(key, bytes, place);
    b->problem = key->problem;
    b->problem.alpha[0] = 1;
    b->problem.beta[0] = key->problem.access[TRP__MATMUL_C] != TRP__MATMUL_NO_ACCESS;
    return cu->cuStreamCreate(&b->stream, TRP__CU_STREAM_NON_BLOCKING) == 0 &&
           cu->cuEventCreate(&b->begin, 0) == 0 && cu->cuEventCreate(&b->end, 0) == 0 &&
           (b->workspace_bytes == 0 || allocate(b, b->workspace_bytes, &b->workspace)) &&
           take_memory(b, size) && fill_copies(b, bytes, place, size);
}

/* Measuring. */

/* Microseconds of one product, over `count`; negative: it failed. */
static float measure(bench *b, trp__matmul_plan *plan, const candidate *c, uint32_t count)
{
    const trp__cuda *cu = b->cu;
    float ms = -1;
    trp_error ignored;
    plan->algo = c->from.algo;
    bool good = cu->cuEventRecord(b->begin, b->stream) == 0;
    for (uint32_t i = 0; good && i < count; i++, b->next = (b->next + 1) % b->copies)
        good = trp__matmul_plan_launch(b->planner, plan, &b->problem, b->at[b->next],
                                       (void *)(uintptr_t)b->workspace, b->workspace_bytes,
                                       b->stream, &ignored) == TRP_OK;
    good = good && cu->cuEventRecord(b->end, b->stream) == 0 &&
           cu->cuEventSynchronize(b->end) == 0 &&
           cu->cuEventElapsedTime(&ms, b->begin, b->end) == 0;
    return good ? ms * 1000 / (float)count : -1;
}

static uint32_t repetitions(float us, float length)
{
    float count = us > 0 ? length / us : REPETITIONS;
    return count < 2 ? 2 : count > REPETITIONS ? REPETITIONS : (uint32_t)count;
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int compare_candidates(const void *a, const void *b)
{
    return compare_floats(((const candidate *)a)->us, ((const candidate *)b)->us);
}

/* One after the other, once: the first stays first, the others come after it, the fastest first and
 * those that don't work left out. Returns how many are left, 0 if the first does not work. */
static int qualify(bench *b, trp__matmul_plan *plan, candidate *all, int count, float length)
{
    int good = 0;
    for (int i = 0; i < count; i++) {
        float us = measure(b, plan, &all[i], 1); /* also loads the kernel */
        us = us >= 0 ? measure(b, plan, &all[i], 2) : us;
        us = us >= 0 ? measure(b, plan, &all[i], repetitions(us, length)) : us;
        if (us < 0 && i == 0)
            return 0;
        if (us < 0)
            continue;
        all[good] = all[i];
        all[good++].us[0] = us;
    }
    if (good > 2)
        qsort(all + 1, (size_t)good - 1, sizeof *all, compare_candidates);
    return good;
}

/* In turn, so that what changes meanwhile changes for all. False: one has failed. */
static bool run_rounds(bench *b, trp__matmul_plan *plan, candidate *all, int count, int rounds,
                       float length)
{
    uint32_t times = repetitions(all[0].us[0], length);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < count; i++) {
            all[i].us[round] = measure(b, plan, &all[i], times);
            if (all[i].us[round] < 0)
                return false;
        }
    }
    for (int i = 0; i < count; i++)
        qsort(all[i].us, (size_t)rounds, sizeof all[i].us[0], compare_floats);
    return true;
}

/* The one with the least median, if its upper quartile is below the first one's lower. */
static int winner(const candidate *all, int count, int rounds)
{
    int best = 0;
    for (int i = 1; i < count; i++) {
        if (all[i].us[rounds / 2] < all[best].us[rounds / 2])
            best = i;
    }
    bool clear = all[best].us[rounds / 2] <= ENOUGH * all[0].us[rounds / 2] &&
                 all[best].us[3 * rounds / 4] < all[0].us[rounds / 4];
    return clear ? best : 0;
}

static int find_candidates(const trp__matmul_planner *planner, const trp__matmul_key *key,
                           const trp__matmul_plan *plan, candidate *all, int room)
{
    trp__cublaslt_result *results = calloc((size_t)room, sizeof *results);
    int count = results ? trp__matmul_plan_candidates(planner, key, plan, results, room) : 0;
    for (int i = 0; i < count; i++)
        all[i].from = results[i];
    free(results);
    return count;
}

/* Climbing: what differs in one attribute from the fastest may be faster yet. */

typedef struct climb {
    bench *b;
    trp__matmul_plan *plan;
    candidate *all;
    int count;
    float best_us;
    int64_t until;
} climb;

static bool is_known(const climb *c, const trp__cublaslt_algo *algo)
{
    for (int i = 0; i < c->count; i++) {
        if (memcmp(&c->all[i].from.algo, algo, sizeof *algo) == 0)
            return true;
    }
    return false;
}

static bool time_neighbour(void *context, const trp__cublaslt_result *neighbour)
{
    climb *c = context;
    candidate *new = &c->all[c->count];
    if (is_known(c, &neighbour->algo) || neighbour->workspace_bytes > c->b->workspace_bytes)
        return true;
    new->from = *neighbour;
    float us = measure(c->b, c->plan, new, 1); /* also loads the kernel */
    us = us >= 0 ? measure(c->b, c->plan, new, 2) : us;
    if (us >= 0 && us < HOPELESS * c->best_us)
        us = measure(c->b, c->plan, new, repetitions(us, LENGTH_CLIMB_US));
    if (us >= 0) {
        new->us[0] = us;
        c->best_us = us < c->best_us ? us : c->best_us;
        c->count++;
    }
    return c->count < ROOM && trp__now_ns() < c->until;
}

/* Returns how many there are then, ordered as qualify() has them. */
static int add_neighbours(bench *b, const trp__matmul_key *key, trp__matmul_plan *plan,
                          candidate *all, int count)
{
    climb c = {b, plan, all, count, all[0].us[0], trp__now_ns() + CLIMB_NS};
    bool more = true;
    if (count > 1 && all[1].us[0] < c.best_us)
        c.best_us = all[1].us[0];
    for (int round = 0; round < CLIMBS && more; round++) {
        trp__cublaslt_algo seed[SEEDS];
        int seeds = c.count < SEEDS ? c.count : SEEDS;
        for (int i = 0; i < seeds; i++)
            seed[i] = all[i].from.algo;
        for (int i = 0; i < seeds && more; i++)
            more = trp__matmul_neighbours(b->planner, key, plan, &seed[i], time_neighbour, &c);
        qsort(all + 1, (size_t)c.count - 1, sizeof *all, compare_candidates);
    }
    return c.count;
}

/* What is fastest is used only if the first part of its D is that of the first algorithm. */

static bool take_sample(bench *b, trp__matmul_plan *plan, const candidate *c, uint64_t bytes,
                        void *out)
{
    size_t size = bytes < SAMPLE ? (size_t)bytes : SAMPLE;
    trp__cu_address d = (uintptr_t)b->at[0][TRP__MATMUL_D];
    b->next = 0;
    return fill_operand(b, TRP__MATMUL_D, d, bytes) && measure(b, plan, c, 1) >= 0 &&
           b->cu->cuMemcpyDtoH_v2(out, d, size) == 0;
}

/* How far two samples may be apart: sums are added up in another order. */
static double tolerance_of(trp_dtype type)
{
    uint32_t bits = trp_dtype_bits(type);
    return type == TRP_F64 || type == TRP_C128   ? 1e-10
           : bits >= 32                          ? 1e-3
           : type == TRP_F16 || type == TRP_BF16 ? 2e-2
                                                 : 0.1;
}

static bool are_close(trp_dtype type, const void *x, const void *y, uint64_t bytes)
{
    trp_dtype real = type == TRP_C128 ? TRP_F64 : type == TRP_C64 ? TRP_F32 : type;
    size_t width = trp_dtype_bits(real) / 8;
    size_t count = (size_t)(bytes < SAMPLE ? bytes : SAMPLE) / width;
    double norm = 0, distance = 0;
    for (size_t i = 0; i < count; i++) {
        double u, v;
        if (trp_convert(real, (const char *)x + i * width, TRP_F64, &u, 1) != TRP_OK ||
            trp_convert(real, (const char *)y + i * width, TRP_F64, &v, 1) != TRP_OK)
            return false;
        norm += u * u;
        distance += (u - v) * (u - v);
    }
    return sqrt(distance) <= tolerance_of(type) * sqrt(norm); /* of a NaN: no */
}

static bool computes_the_same(bench *b, trp__matmul_plan *plan, const candidate *first,
                              const candidate *other, uint64_t bytes)
{
    void *x = malloc(SAMPLE), *y = malloc(SAMPLE);
    bool same = x && y && take_sample(b, plan, first, bytes, x) &&
                take_sample(b, plan, other, bytes, y) &&
                are_close((trp_dtype)b->problem.type[TRP__MATMUL_D], x, y, bytes);
    free(x);
    free(y);
    return same;
}

static bool search(bench *b, const trp__matmul_key *key, const uint64_t bytes[], bool full,
                   trp__matmul_plan *plan, candidate *all, int count, trp__matmul_record *out)
{
    int rounds = full ? ROUNDS_FULL : ROUNDS_QUICK;
    int finalists = 1 + (full ? FINALISTS_FULL : FINALISTS_QUICK);
    float length = full ? LENGTH_FULL_US : LENGTH_QUICK_US;
    b->workspace_bytes = !full                                         ? 0
                         : key->problem.workspace < WORKSPACE_TO_CLIMB ? key->problem.workspace
                                                                       : WORKSPACE_TO_CLIMB;
    for (int i = 0; i < count; i++) {
        if (all[i].from.workspace_bytes > b->workspace_bytes)
            b->workspace_bytes = all[i].from.workspace_bytes;
    }
    if (!open_bench(b, key, bytes))
        return false;
    int left = qualify(b, plan, all, count, length);
    if (full && left > 0)
        left = add_neighbours(b, key, plan, all, left);
    finalists = left < finalists ? left : finalists;
    if (left == 0 || !run_rounds(b, plan, all, finalists, rounds, length))
        return false;
    const candidate *best = &all[winner(all, finalists, rounds)];
    if (best != all && !computes_the_same(b, plan, &all[0], best, bytes[TRP__MATMUL_D]))
        best = &all[0];
    *out = (trp__matmul_record){.algo = best->from.algo,
                                .workspace = best->from.workspace_bytes,
                                .default_us = all[0].us[rounds / 2],
                                .best_us = best->us[rounds / 2],
                                .candidates = (uint32_t)left,
                                .full = full};
    return true;
}

bool trp__matmul_tune(const trp__matmul_planner *planner, const trp__cuda *cu,
                      const trp__matmul_key *key, const uint64_t bytes[], bool full,
                      trp__matmul_plan *plan, trp__matmul_record *out)
{
    bench b = {.planner = planner, .cu = cu};
    trp__cublaslt_algo first = plan->algo;
    int proposals = full ? CANDIDATES_FULL : CANDIDATES_QUICK;
    candidate *all = calloc(ROOM, sizeof *all);
    int count = all ? find_candidates(planner, key, plan, all, proposals) : 0;
    bool found = count > 0 && search(&b, key, bytes, full, plan, all, count, out);
    plan->algo = found ? out->algo : first;
    plan->workspace = found ? (size_t)out->workspace : plan->workspace;
    close_bench(&b);
    free(all);
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

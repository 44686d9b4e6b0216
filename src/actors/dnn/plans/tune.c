#include "actors/dnn/plans/tune.h"

#include "actors/dnn/engines/product_cublaslt.h"
#include "actors/dnn/engines/proof.h"
#include "actors/dnn/lower/quirks.h"

#include <troupe/convert.h>
#include <troupe/dnn.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CANDIDATES_QUICK = 8,
    CANDIDATES_FULL = 64,
    ROUNDS_QUICK = 5,
    ROUNDS_FULL = 11,
    FINALISTS_QUICK = 4, /* the first included */
    FINALISTS_FULL = 9,
    COPIES = 8,
    REPETITIONS = 200,
    SAMPLE = 16 << 10, /* elements of a result that are compared */
    PIECE = 1 << 18,   /* elements that are filled at a time */
    ALIGNMENT = 256,
};

/* What beats the first engine is this much faster. */
#define ENOUGH 0.98f

/* How long one measurement shall take. */
#define LENGTH_QUICK_US 300.0f
#define LENGTH_FULL_US  1000.0f

/* A place to measure one step: its tensors, as often as it takes that none is in the cache when its
 * turn comes. */
typedef struct bench {
    const trp__dnn_planner *planner;
    const trp__cuda *cu;
    trp__kernel_modules *modules; /* of this thread's own */
    trp__dnn_plan *plan;
    trp__dnn_step *step;
    trp__cu_stream stream;
    trp__cu_event begin, end;
    trp__cu_address memory, workspace;
    uint32_t copies, next;
    void *at[COPIES][TRP__DNN_LOWERED_TENSORS];
} bench;

typedef struct candidate {
    trp__dnn_engine engine;
    float us[ROUNDS_FULL];
} candidate;

/* Tensors. */

static const trp__dnn_tensor *tensor_of(const bench *b, uint32_t number)
{
    return &b->plan->lowered.graph.tensor[number];
}

static bool is_value(const bench *b, uint32_t number)
{
    return tensor_of(b, number)->role == TRP__DNN_VALUE;
}

static uint64_t bytes_of(const trp__dnn_tensor *t)
{
    return (uint64_t)trp__dnn_extent(t) * (trp_dtype_bits((trp_dtype)t->type) / 8);
}

static uint64_t random_next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* What attention reads cannot be any numbers: lengths are all rows and columns, for which there is
 * memory, and stats about what they are of such rows, so that weights are none that overflow. 0:
 * another tensor. */
static double constant_of(const bench *b, uint32_t number)
{
    const trp__dnn_graph *g = &b->plan->lowered.graph;
    const trp__dnn_node *node = &g->node[b->step->first];
    if (node->kind != TRP_DNN_ATTENTION && node->kind != TRP_DNN_ATTENTION_BACKWARD)
        return 0;
    const trp__dnn_tensor *q = &g->tensor[node->port[TRP__DNN_ATTENTION_Q]];
    const trp__dnn_tensor *k = &g->tensor[node->port[TRP__DNN_ATTENTION_K]];
    const double mean = 0.625; /* of all others */
    return node->port[TRP__DNN_ATTENTION_SEQ_Q] == number    ? (double)q->dim[2]
           : node->port[TRP__DNN_ATTENTION_SEQ_KV] == number ? (double)k->dim[2]
           : node->port[TRP__DNN_ATTENTION_STATS] == number
               ? node->parameter[0] * mean * mean * (double)q->dim[3] + log((double)k->dim[2])
               : 0;
}

/* From 0.25 to 1, since variances must not be negative: numbers of which no bit is always the same,
 * since what a device draws, and so its clock, depends on them. */
static bool make_piece(uint8_t type, double constant, void *out, size_t count)
{
    uint64_t state = 1;
    double *values = type == TRP_BOOL || type == TRP_U8 || type == TRP_I64
                         ? NULL
                         : malloc(count * sizeof *values);
    size_t width = trp_dtype_bits((trp_dtype)type) / 8;
    if (!values) {
        for (size_t i = 0; i < count * width; i++)
            ((uint8_t *)out)[i] = i % width == 0 ? (uint8_t)(random_next(&state) & 1) : 0;
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        double value = 0.25 + (double)random_next(&state) * 0.75 * 0x1p-31;
        values[i] = constant != 0                       ? constant
                    : type == TRP_I8 || type == TRP_I32 ? rint(value * 100)
                                                        : value;
    }
    bool good = trp_convert(TRP_F64, values, (trp_dtype)type, out, count) == TRP_OK;
    free(values);
    return good;
}

static bool fill_tensor(bench *b, uint32_t number, trp__cu_address to)
{
    const trp__dnn_tensor *t = tensor_of(b, number);
    uint64_t bytes = bytes_of(t), extent = (uint64_t)trp__dnn_extent(t);
    size_t count = extent < PIECE ? (size_t)extent : PIECE;
    size_t piece = count * (trp_dtype_bits((trp_dtype)t->type) / 8);
    void *from = malloc(piece ? piece : 1);
    bool good = from && make_piece(t->type, constant_of(b, number), from, count) &&
                trp__cuda_upload(b->cu, to, from, piece) == 0;
    free(from);
    for (uint64_t done = piece; good && done < bytes;) {
        uint64_t some = bytes - done < done ? bytes - done : done;
        good = b->cu->cuMemcpyAsync(to + done, to, (size_t)some, b->stream) == 0;
        done += some;
    }
    return good;
}

static void close_bench(bench *b)
{
    const trp__cuda *cu = b->cu;
    if (b->stream)
        cu->cuStreamSynchronize(b->stream);
    if (b->planner->handle)
        b->planner->lib->cudnnSetStream(b->planner->handle, NULL);
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

/* Where each tensor lies in a copy, no better aligned than it is in requests; the copy's size. */
static uint64_t lay_out(const bench *b, uint64_t place[])
{
    uint64_t size = ALIGNMENT;
    for (uint32_t i = 0; i < b->step->tensors; i++) {
        const trp__dnn_tensor *t = tensor_of(b, b->step->tensor[i]);
        place[i] = size + (t->role == TRP__DNN_BUFFER ? t->alignment : 0);
        size = (place[i] + bytes_of(t) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return size;
}

/* As many copies as there is memory for: one is better than none. */
static bool take_memory(bench *b, uint64_t l2_bytes)
{
    uint64_t place[TRP__DNN_LOWERED_TENSORS];
    uint64_t size = lay_out(b, place), wanted = 2 * l2_bytes / size + 1;
    for (b->copies = wanted < COPIES ? (uint32_t)wanted : COPIES; b->copies > 0; b->copies /= 2) {
        if (allocate(b, b->copies * size, &b->memory))
            break;
    }
    bool good = b->copies > 0;
    for (uint32_t i = 0; good && i < b->step->tensors; i++) {
        uint32_t number = b->step->tensor[i];
        if (is_value(b, number))
            continue;
        good = fill_tensor(b, number, b->memory + place[i]);
        for (uint32_t copy = 0; copy < b->copies; copy++)
            b->at[copy][number] = (void *)(uintptr_t)(b->memory + copy * size + place[i]);
    }
    for (uint32_t copy = 1; good && copy < b->copies; copy++)
        good =
            b->cu->cuMemcpyAsync(b->memory + copy * size, b->memory, (size_t)size, b->stream) == 0;
    return good;
}

static bool open_bench(bench *b, uint64_t l2_bytes, uint64_t workspace)
{
    const trp__cuda *cu = b->cu;
    return cu->cuStreamCreate(&b->stream, TRP__CU_STREAM_NON_BLOCKING) == 0 &&
           cu->cuEventCreate(&b->begin, 0) == 0 && cu->cuEventCreate(&b->end, 0) == 0 &&
           (!b->planner->handle || /* products alone are timed */
            b->planner->lib->cudnnSetStream(b->planner->handle, b->stream) ==
                TRP__CUDNN_STATUS_SUCCESS) &&
           (workspace == 0 || allocate(b, workspace, &b->workspace)) && take_memory(b, l2_bytes);
}

/* Measuring. */

static trp_status launch_product(const bench *b, const trp__dnn_engine *engine, trp_error *error)
{
    const trp__kernel_launch launch = {.modules = b->modules,
                                       .stream = b->stream,
                                       .at = b->at[b->next],
                                       .workspace = (void *)(uintptr_t)b->workspace};
    return trp__dnn_product_launch(engine, &launch, error);
}

/* Microseconds of one run, over `count`; negative: it failed. */
static float measure(bench *b, const candidate *c, uint32_t count)
{
    const trp__cuda *cu = b->cu;
    float ms = -1;
    trp_error ignored;
    void *workspace = (void *)(uintptr_t)b->workspace;
    trp__dnn_engine own = b->step->engine;
    b->step->engine = c->engine;
    bool good = cu->cuEventRecord(b->begin, b->stream) == 0;
    for (uint32_t i = 0; good && i < count; i++, b->next = (b->next + 1) % b->copies)
        good = (c->engine.product
                    ? launch_product(b, &c->engine, &ignored)
                    : trp__dnn_step_launch(b->plan, b->step, b->planner->handle, b->at[b->next],
                                           workspace, &ignored)) == TRP_OK;
    b->step->engine = own;
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
 * those that don't work last. Returns how many work, 0 if the first does not. */
static uint32_t qualify(bench *b, candidate *all, uint32_t count, float length)
{
    uint32_t good = 0;
    for (uint32_t i = 0; i < count; i++) {
        float us = measure(b, &all[i], 1); /* also loads the kernel */
        us = us >= 0 ? measure(b, &all[i], 2) : us;
        us = us >= 0 ? measure(b, &all[i], repetitions(us, length)) : us;
        all[i].us[0] = us >= 0 ? us : INFINITY;
        good += us >= 0;
    }
    if (!isfinite(all[0].us[0]))
        return 0;
    qsort(all + 1, count - 1, sizeof *all, compare_candidates);
    return good;
}

/* In turn, so that what changes meanwhile changes for all. False: one has failed. */
static bool run_rounds(bench *b, candidate *all, uint32_t count, int rounds, float length)
{
    uint32_t times = repetitions(all[0].us[0], length);
    for (int round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < count; i++) {
            all[i].us[round] = measure(b, &all[i], times);
            if (all[i].us[round] < 0)
                return false;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        qsort(all[i].us, (size_t)rounds, sizeof all[i].us[0], compare_floats);
    return true;
}

/* The one with the least median, if its upper quartile is below the first one's lower. */
static uint32_t winner(const candidate *all, uint32_t count, int rounds)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        if (all[i].us[rounds / 2] < all[best].us[rounds / 2])
            best = i;
    }
    bool clear = all[best].us[rounds / 2] <= ENOUGH * all[0].us[rounds / 2] &&
                 all[best].us[3 * rounds / 4] < all[0].us[rounds / 4];
    return clear ? best : 0;
}

/* What is fastest is used only if its results begin as those of the first engine. */

static double tolerance_of(uint8_t type)
{
    uint32_t bits = trp_dtype_bits((trp_dtype)type);
    return type == TRP_F64 ? 1e-10 : bits >= 32 ? 2e-3 : bits == 16 ? 2e-2 : 0.1;
}

static bool is_written(const bench *b, uint32_t number)
{
    const trp__dnn_graph *g = &b->plan->lowered.graph;
    for (uint32_t n = 0; n < b->step->count; n++) {
        const trp__dnn_node *node = &g->node[b->step->first + n];
        const trp__dnn_kind *kind = trp__dnn_kind_of(node->kind);
        for (int i = 0; i < TRP__DNN_PORTS; i++) {
            if (node->port[i] == number && kind->port[i].name && kind->port[i].written)
                return true;
        }
    }
    return false;
}

/* False also for a type that can't be converted, of which no sum is made. */
static bool take_sample(bench *b, const candidate *c, uint32_t number, double *out, size_t count)
{
    const trp__dnn_tensor *t = tensor_of(b, number);
    size_t bytes = count * (trp_dtype_bits((trp_dtype)t->type) / 8);
    void *raw = malloc(bytes);
    b->next = 0;
    bool good = raw && measure(b, c, 1) >= 0 &&
                b->cu->cuMemcpyDtoH_v2(raw, (uintptr_t)b->at[0][number], bytes) == 0 &&
                trp_convert((trp_dtype)t->type, raw, TRP_F64, out, count) == TRP_OK;
    free(raw);
    return good;
}

static bool same_tensor(bench *b, const candidate *first, const candidate *other, uint32_t number)
{
    const trp__dnn_tensor *t = tensor_of(b, number);
    int64_t extent = trp__dnn_extent(t);
    size_t count = extent < SAMPLE ? (size_t)extent : SAMPLE;
    double *x = malloc(2 * SAMPLE * sizeof *x), norm = 0, distance = 0;
    if (t->type == TRP_BOOL || t->type == TRP_U8 || t->type == TRP_I64) {
        free(x);
        return true;
    }
    bool good = x && take_sample(b, first, number, x, count) &&
                take_sample(b, other, number, x + SAMPLE, count);
    for (size_t i = 0; good && i < count; i++) {
        double d = x[i] - x[SAMPLE + i];
        norm += x[i] * x[i];
        distance += d * d;
    }
    free(x);
    return good && sqrt(distance) <= tolerance_of(t->type) * sqrt(norm); /* of a NaN: no */
}

static bool computes_the_same(bench *b, const candidate *first, const candidate *other)
{
    for (uint32_t i = 0; i < b->step->tensors; i++) {
        uint32_t number = b->step->tensor[i];
        if (is_written(b, number) && !same_tensor(b, first, other, number))
            return false;
    }
    return true;
}

/* Moves the best into the step. */
static void search(bench *b, bool full, uint64_t l2_bytes, candidate *all, uint32_t count)
{
    int rounds = full ? ROUNDS_FULL : ROUNDS_QUICK;
    uint32_t finalists = full ? FINALISTS_FULL : FINALISTS_QUICK;
    float length = full ? LENGTH_FULL_US : LENGTH_QUICK_US;
    uint64_t workspace = 0;
    for (uint32_t i = 0; i < count; i++)
        workspace = all[i].engine.workspace > workspace ? all[i].engine.workspace : workspace;
    if (!open_bench(b, l2_bytes, workspace))
        return;
    uint32_t good = qualify(b, all, count, length);
    finalists = good < finalists ? good : finalists;
    if (good == 0 || !run_rounds(b, all, finalists, rounds, length))
        return;
    uint32_t best = winner(all, finalists, rounds);
    if (best != 0 && !computes_the_same(b, &all[0], &all[best]))
        best = 0;
    trp__dnn_engine first = b->step->engine;
    b->step->engine = all[best].engine;
    b->step->way = all[best].engine.product ? TRP__DNN_WAY_PRODUCT : TRP__DNN_WAY_ENGINE;
    all[best].engine = first;
    b->step->default_us = all[0].us[rounds / 2];
    b->step->best_us = all[best].us[rounds / 2];
    b->step->candidates = good;
}

/* cuDNN's, if it may be asked. */
static uint32_t add_engines(bench *b, const trp__dnn_part *part, uint32_t room,
                            trp__dnn_engine *out)
{
    uint32_t count = 0;
    trp_error ignored;
    if (part->count <= trp__dnn_asked(part->graph, part->first))
        (void)trp__dnn_engines(b->planner, part, room, out, &count, &ignored);
    return count;
}

/* At most `room` of cuBLASLt's, and behind them those of ours. */
static uint32_t add_products(bench *b, const trp__dnn_part *part, uint32_t room,
                             trp__dnn_engine *out)
{
    trp__dnn_product product;
    uint32_t count = 0, own = 0, good = 0;
    trp_error ignored;
    if (trp__dnn_product_of(part->graph, part->first, part->count, &product)) {
        (void)trp__dnn_product_engines(b->planner, part->graph->head, &product, room, out, &count,
                                       &ignored);
        own =
            b->planner->prover ? trp__dnn_product_own_engine(b->planner, &product, out + count) : 0;
    }
    if (own > 0)
        b->modules = trp__dnn_prover_modules(b->planner, TRP__MODULE_MULTIPLY);
    for (; own > 0; own--) {
        if (b->modules)
            count++;
        else
            trp__dnn_engine_drop(b->planner->lib, &out[count + own - 1]);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (trp__dnn_proof_accepts(b->planner, part, &out[i]))
            out[good++] = out[i];
        else
            trp__dnn_engine_drop(b->planner->lib, &out[i]);
    }
    return good;
}

/* Both libraries', those of the one that the step has now first. */
static uint32_t find_candidates(bench *b, const trp__dnn_part *part, uint32_t room,
                                trp__dnn_engine *out)
{
    const bool product = b->step->engine.product != NULL;
    uint32_t count = (product ? add_products : add_engines)(b, part, room, out);
    if (count == 0)
        return 0;
    return count + (product ? add_engines : add_products)(b, part, room, out + count);
}

static void tune_step(bench *b, uint32_t room, bool full, uint64_t l2_bytes,
                      uint32_t (*find)(bench *b, const trp__dnn_part *part, uint32_t room,
                                       trp__dnn_engine *out))
{
    const uint32_t most = 2 * room + 1;
    trp__dnn_part part = {&b->plan->lowered.graph, b->step->first, b->step->count};
    trp__dnn_engine *engines = calloc(most, sizeof *engines);
    candidate *all = calloc(most, sizeof *all);
    uint32_t count = 0;
    if (engines && all && (count = find(b, &part, room, engines)) > 0) {
        for (uint32_t i = 0; i < count; i++)
            all[i].engine = engines[i];
        search(b, full, l2_bytes, all, count);
        close_bench(b);
        for (uint32_t i = 0; i < count; i++)
            trp__dnn_engine_drop(b->planner->lib, &all[i].engine);
    }
    free(engines);
    free(all);
    trp__cudnn_drop(b->planner->lib, &b->step->pack); /* of memory that is gone */
}

static void set_workspace(trp__dnn_plan *plan)
{
    plan->workspace = 0;
    for (uint32_t i = 0; i < plan->steps; i++) {
        if (plan->step[i].engine.workspace > plan->workspace)
            plan->workspace = plan->step[i].engine.workspace;
    }
}

void trp__dnn_tune(const trp__dnn_planner *planner, const trp__cuda *cu, uint64_t l2_bytes,
                   bool full, trp__dnn_plan *plan)
{
    for (uint32_t i = 0; i < plan->steps; i++) {
        bench b = {.planner = planner, .cu = cu, .plan = plan, .step = &plan->step[i]};
        if (plan->step[i].engine.plan || plan->step[i].engine.product)
            tune_step(&b, full ? CANDIDATES_FULL : CANDIDATES_QUICK, full, l2_bytes,
                      find_candidates);
    }
    set_workspace(plan);
}

void trp__dnn_tune_own(const trp__dnn_planner *planner, const trp__cuda *cu, uint64_t l2_bytes,
                       trp__dnn_plan *plan)
{
    if (plan->lowered.graph.head->deterministic)
        return;
    for (uint32_t i = 0; i < plan->steps; i++) {
        bench b = {.planner = planner, .cu = cu, .plan = plan, .step = &plan->step[i]};
        if (plan->step[i].engine.product && !trp__dnn_product_is_own(&plan->step[i].engine) &&
            trp__dnn_product_has_own(&plan->step[i].engine))
            tune_step(&b, 1, false, l2_bytes, add_products);
    }
    set_workspace(plan);
}

#include "actors/dnn/plans/tune.h"

#include "actors/dnn/engines/product_cublaslt.h"
#include "actors/dnn/engines/proof.h"
#include "actors/dnn/lower/quirks.h"
#include "tuning/bench.h"

#include <troupe/dnn.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CANDIDATES_QUICK = 8,
    CANDIDATES_FULL = 64,
    SAMPLE = 16 << 10, /* compared elements of a result */
    ALIGNMENT = 256,
};

/* A search among engines for one step, identified by their index in `engine`. */
typedef struct tuner {
    trp__bench bench;
    const trp__dnn_planner *planner;
    trp__kernel_modules *modules; /* of this thread */
    trp__dnn_plan *plan;
    trp__dnn_step *step;
    const trp__dnn_engine *running;
    trp__dnn_engine *engine;
    uint32_t engines;
    uint64_t place[TRP__DNN_LOWERED_TENSORS]; /* offset of each tensor of the step in a copy */
    trp__search search;
} tuner;

static const trp__dnn_tensor *tensor_of(const tuner *t, uint32_t number)
{
    return &t->plan->lowered.graph.tensor[number];
}

static bool is_value(const tuner *t, uint32_t number)
{
    return tensor_of(t, number)->role == TRP__DNN_VALUE;
}

static uint64_t bytes_of(const trp__dnn_tensor *t)
{
    return (uint64_t)trp__dnn_extent(t) * (trp_dtype_bits((trp_dtype)t->type) / 8);
}

/* Returns the constant for inputs of attention that cannot be arbitrary: lengths are all rows and
 * columns in memory, and stats about those of such rows, so that weights do not overflow. 0:
 * another tensor. */
static double constant_of(const tuner *t, uint32_t number)
{
    const trp__dnn_graph *g = &t->plan->lowered.graph;
    const trp__dnn_node *node = &g->node[t->step->first];
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

/* Variances must not be negative. */
static bool fill_tensor(const tuner *t, uint32_t number, trp__cu_address to)
{
    const trp__dnn_tensor *x = tensor_of(t, number);
    const trp_dtype type = (trp_dtype)x->type;
    const double constant = constant_of(t, number);
    double low = 0.25, high = 1;
    if (constant != 0) {
        low = high = constant;
    } else if (type == TRP_I8 || type == TRP_I32) {
        low = 25;
        high = 100;
    } else if (type == TRP_BOOL || type == TRP_U8 || type == TRP_I64) {
        low = 0;
    }
    return trp__bench_fill(&t->bench, type, low, high, to, bytes_of(x));
}

/* Places each tensor in a copy with no better alignment than in requests; returns the size of a
 * copy. */
static uint64_t lay_out(tuner *t)
{
    uint64_t size = ALIGNMENT;
    for (uint32_t i = 0; i < t->step->tensors; i++) {
        const trp__dnn_tensor *x = tensor_of(t, t->step->tensor[i]);
        t->place[i] = size + (x->role == TRP__DNN_BUFFER ? x->alignment : 0);
        size = (t->place[i] + bytes_of(x) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return size;
}

static trp__cu_address address_of(const tuner *t, uint32_t copy, uint32_t i)
{
    return t->bench.memory + copy * t->bench.copy_bytes + t->place[i];
}

static bool open_bench(tuner *t, const trp__cuda *cu, uint64_t l2_bytes)
{
    uint64_t workspace = 0;
    for (uint32_t i = 0; i < t->engines; i++)
        workspace = t->engine[i].workspace > workspace ? t->engine[i].workspace : workspace;
    bool good = trp__bench_open(&t->bench, cu, lay_out(t), l2_bytes, workspace) &&
                (!t->planner->handle || /* only products are timed */
                 t->planner->lib->cudnnSetStream(t->planner->handle, t->bench.stream) ==
                     TRP__CUDNN_STATUS_SUCCESS);
    for (uint32_t i = 0; good && i < t->step->tensors; i++) {
        if (!is_value(t, t->step->tensor[i]))
            good = fill_tensor(t, t->step->tensor[i], address_of(t, 0, i));
    }
    return good && trp__bench_copy(&t->bench);
}

static void close_bench(tuner *t)
{
    if (t->bench.stream)
        t->bench.cu->cuStreamSynchronize(t->bench.stream);
    if (t->planner->handle)
        t->planner->lib->cudnnSetStream(t->planner->handle, NULL);
    trp__bench_close(&t->bench);
}

static bool run(void *context, uint32_t copy)
{
    tuner *t = context;
    void *at[TRP__DNN_LOWERED_TENSORS] = {0}, *workspace = (void *)(uintptr_t)t->bench.workspace;
    trp_error ignored;
    for (uint32_t i = 0; i < t->step->tensors; i++) {
        if (!is_value(t, t->step->tensor[i]))
            at[t->step->tensor[i]] = (void *)(uintptr_t)address_of(t, copy, i);
    }
    if (t->running->product)
        return trp__dnn_product_launch(t->running,
                                       &(trp__kernel_launch){.modules = t->modules,
                                                             .stream = t->bench.stream,
                                                             .at = at,
                                                             .workspace = workspace},
                                       &ignored) == TRP_OK;
    return trp__dnn_step_launch(t->plan, t->step, t->planner->handle, at, workspace, &ignored) ==
           TRP_OK;
}

static float measure(tuner *t, const trp__dnn_engine *engine, uint32_t count, trp__search_kind kind)
{
    const trp__dnn_engine own = t->step->engine;
    t->running = engine;
    t->step->engine = *engine;
    const float us = trp__bench_measure(&t->bench, count, kind, run, t);
    t->step->engine = own;
    return us;
}

static trp__dnn_engine *engine_of(const tuner *t, uint32_t entry)
{
    return &t->engine[t->search.entry[entry].what];
}

/* Measures until the search ends. */
static void measure_all(tuner *t)
{
    trp__search_step step;
    while (trp__search_next(&t->search, &step))
        trp__search_add_time(&t->search,
                             measure(t, engine_of(t, step.entry), step.runs, step.kind));
}

/* Accepts the fastest engine only if the first elements of its results equal those of the first
 * engine. */

static bool is_written(const tuner *t, uint32_t number)
{
    const trp__dnn_graph *g = &t->plan->lowered.graph;
    for (uint32_t n = 0; n < t->step->count; n++) {
        const trp__dnn_node *node = &g->node[t->step->first + n];
        const trp__dnn_kind *kind = trp__dnn_kind_of(node->kind);
        for (int i = 0; i < TRP__DNN_PORTS; i++) {
            if (node->port[i] == number && kind->port[i].name && kind->port[i].written)
                return true;
        }
    }
    return false;
}

static bool take_sample(tuner *t, const trp__dnn_engine *engine, uint32_t i, void *out, size_t size)
{
    return measure(t, engine, 1, TRP__SEARCH_HOT) >= 0 &&
           t->bench.cu->cuMemcpyDtoH_v2(out, address_of(t, 0, i), size) == 0;
}

/* Compares the step's tensor `i`. Types without numbers have no sum. */
static bool same_tensor(tuner *t, const trp__dnn_engine *first, const trp__dnn_engine *other,
                        uint32_t i)
{
    const trp__dnn_tensor *x = tensor_of(t, t->step->tensor[i]);
    const trp_dtype type = (trp_dtype)x->type;
    const int64_t extent = trp__dnn_extent(x);
    const size_t count = extent < SAMPLE ? (size_t)extent : SAMPLE;
    const size_t size = count * (trp_dtype_bits(type) / 8);
    if (type == TRP_BOOL || type == TRP_U8 || type == TRP_I64)
        return true;
    char *both = malloc(2 * size + 1);
    bool same = both && take_sample(t, first, i, both, size) &&
                take_sample(t, other, i, both + size, size) &&
                trp__bench_alike(type, both, both + size, count);
    free(both);
    return same;
}

static bool computes_the_same(tuner *t, const trp__dnn_engine *first, const trp__dnn_engine *other)
{
    for (uint32_t i = 0; i < t->step->tensors; i++) {
        uint32_t number = t->step->tensor[i];
        if (!is_value(t, number) && is_written(t, number) && !same_tensor(t, first, other, i))
            return false;
    }
    return true;
}

/* Moves the best into the step. */
static void search(tuner *t, const trp__cuda *cu, uint64_t l2_bytes)
{
    if (!open_bench(t, cu, l2_bytes))
        return;
    measure_all(t);
    trp__search_final(&t->search);
    measure_all(t);
    if (t->search.failed)
        return;
    uint32_t best = trp__search_winner(&t->search);
    if (best != 0 && !computes_the_same(t, engine_of(t, 0), engine_of(t, best)))
        best = 0;
    trp__dnn_engine *won = engine_of(t, best);
    const trp__dnn_engine before = t->step->engine;
    t->step->engine = *won;
    t->step->way = won->product ? TRP__DNN_WAY_PRODUCT : TRP__DNN_WAY_ENGINE;
    *won = before;
    t->step->default_us = trp__search_median(&t->search, 0);
    t->step->best_us = trp__search_median(&t->search, best);
    t->step->candidates = t->search.entries;
}

/* Adds cuDNN's engines if it may be asked. */
static uint32_t add_engines(tuner *t, const trp__dnn_part *part, uint32_t room,
                            trp__dnn_engine *out)
{
    uint32_t count = 0;
    trp_error ignored;
    if (part->count <= trp__dnn_asked(part->graph, part->first))
        (void)trp__dnn_engines(t->planner, part, room, out, &count, &ignored);
    return count;
}

/* Adds at most `room` of cuBLASLt's algorithms, then own kernels. */
static uint32_t add_products(tuner *t, const trp__dnn_part *part, uint32_t room,
                             trp__dnn_engine *out)
{
    trp__dnn_product product;
    uint32_t count = 0, own = 0, good = 0;
    trp_error ignored;
    if (trp__dnn_product_of(part->graph, part->first, part->count, &product)) {
        (void)trp__dnn_product_engines(t->planner, part->graph->head, &product, room, out, &count,
                                       &ignored);
        own =
            t->planner->prover ? trp__dnn_product_own_engine(t->planner, &product, out + count) : 0;
    }
    if (own > 0)
        t->modules = trp__dnn_prover_modules(t->planner, TRP__MODULE_MULTIPLY);
    for (; own > 0; own--) {
        if (t->modules)
            count++;
        else
            trp__dnn_engine_drop(t->planner->lib, &out[count + own - 1]);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (trp__dnn_proof_accepts(t->planner, part, &out[i]))
            out[good++] = out[i];
        else
            trp__dnn_engine_drop(t->planner->lib, &out[i]);
    }
    return good;
}

/* Adds both libraries' candidates, those of the step's current library first. */
static uint32_t find_candidates(tuner *t, const trp__dnn_part *part, uint32_t room,
                                trp__dnn_engine *out)
{
    const bool product = t->step->engine.product != NULL;
    uint32_t count = (product ? add_products : add_engines)(t, part, room, out);
    if (count == 0)
        return 0;
    return count + (product ? add_engines : add_products)(t, part, room, out + count);
}

static void tune_step(tuner *t, const trp__cuda *cu, uint64_t l2_bytes, uint32_t room,
                      const trp__search_rules *rules,
                      uint32_t (*find)(tuner *t, const trp__dnn_part *part, uint32_t room,
                                       trp__dnn_engine *out))
{
    const uint32_t most = 2 * room + 1;
    const trp__dnn_part part = {&t->plan->lowered.graph, t->step->first, t->step->count};
    trp__search_entry *entries = calloc(most, sizeof *entries);
    t->engine = calloc(most, sizeof *t->engine);
    if (entries && t->engine && (t->engines = find(t, &part, room, t->engine)) > 0) {
        trp__search_begin(&t->search, rules, entries, most);
        for (uint32_t i = 0; i < t->engines; i++)
            (void)trp__search_add(&t->search, i);
        search(t, cu, l2_bytes);
        close_bench(t);
        for (uint32_t i = 0; i < t->engines; i++)
            trp__dnn_engine_drop(t->planner->lib, &t->engine[i]);
    }
    free(t->engine);
    free(entries);
    trp__cudnn_drop(t->planner->lib, &t->step->pack); /* its memory is freed */
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
        tuner t = {.planner = planner, .plan = plan, .step = &plan->step[i]};
        if (plan->step[i].engine.plan || plan->step[i].engine.product)
            tune_step(&t, cu, l2_bytes, full ? CANDIDATES_FULL : CANDIDATES_QUICK,
                      full ? &trp__bench_full : &trp__bench_quick, find_candidates);
    }
    set_workspace(plan);
}

void trp__dnn_tune_own(const trp__dnn_planner *planner, const trp__cuda *cu, uint64_t l2_bytes,
                       trp__dnn_plan *plan)
{
    trp__search_rules rules = trp__bench_quick;
    if (plan->lowered.graph.head->deterministic)
        return;
    rules.kinds = 1; /* short, because the first request waits for it */
    for (uint32_t i = 0; i < plan->steps; i++) {
        tuner t = {.planner = planner, .plan = plan, .step = &plan->step[i]};
        if (plan->step[i].engine.product && !trp__dnn_product_is_own(&plan->step[i].engine) &&
            trp__dnn_product_has_own(&plan->step[i].engine))
            tune_step(&t, cu, l2_bytes, 1, &rules, add_products);
    }
    set_workspace(plan);
}

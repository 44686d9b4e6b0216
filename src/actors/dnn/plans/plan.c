#include "actors/dnn/plans/plan.h"

#include "actors/dnn/engines/product_cublaslt.h"
#include "actors/dnn/engines/proof.h"
#include "actors/dnn/graph/train.h"
#include "actors/dnn/graph/values.h"
#include "actors/dnn/lower/quirks.h"
#include "actors/dnn/reference/launch.h"
#include "base/error.h"

#include <troupe/dnn.h>

#include <stdlib.h>
#include <string.h>

enum {
    TOGETHER = 8,    /* nodes tried as one after the library has refused the whole */
    ALIGNMENT = 256, /* alignment of tensors between pieces */
    PRODUCTS = 8,    /* cuBLASLt algorithms tried for a piece */
};

trp_status trp__dnn_plan_begin(const trp__cudnn *lib, const trp__dnn_graph *graph,
                               trp__dnn_lowering lowering, trp__dnn_plan **out, trp_error *error)
{
    trp__dnn_lowered lowered;
    trp_status status = trp__dnn_lower(graph, lowering, &lowered, error);
    *out = NULL;
    if (status != TRP_OK)
        return status;
    size_t bytes = trp__dnn_key_bytes(graph->head);
    trp__dnn_plan *plan = calloc(1, sizeof *plan);
    if (plan) {
        plan->lib = lib;
        plan->lowered = lowered;
        plan->key = malloc(bytes);
        plan->step = calloc(lowered.graph.head->nodes, sizeof *plan->step);
    } else {
        trp__dnn_lowered_drop(&lowered);
    }
    if (!plan || !plan->key || !plan->step) {
        trp__dnn_plan_drop(plan);
        return trp__error_set(error, TRP_E_MEMORY, "no memory for the plan of a graph");
    }
    memcpy(plan->key, graph->head, bytes);
    *out = plan;
    return TRP_OK;
}

void trp__dnn_plan_drop(trp__dnn_plan *plan)
{
    if (!plan)
        return;
    for (uint32_t i = 0; i < plan->steps; i++) {
        trp__cudnn_drop(plan->lib, &plan->step[i].pack);
        trp__dnn_engine_drop(plan->lib, &plan->step[i].engine);
        if (plan->step[i].family)
            trp__kernel_drop(plan->step[i].family, plan->step[i].kernel);
    }
    trp__dnn_lowered_drop(&plan->lowered);
    free(plan->step);
    free(plan->key);
    free(plan);
}

bool trp__dnn_same_graph(const trp__dnn_head *a, const trp__dnn_head *b)
{
    trp__dnn_head x = *a, y = *b;
    x.tune = y.tune = TRP_TUNE_OFF;
    return memcmp((const char *)&x, (const char *)&y, sizeof x) == 0 &&
           memcmp((const char *)(a + 1), (const char *)(b + 1), trp__dnn_key_bytes(a) - sizeof x) ==
               0;
}

static void set_value(trp__dnn_plan *plan, uint32_t tensor, double value)
{
    uint8_t type = plan->lowered.graph.tensor[tensor].type;
    trp__dnn_value_store(type, value, plan->value[tensor]);
    plan->number[tensor] = trp__dnn_value_number(type, plan->value[tensor]);
}

void trp__dnn_plan_end(trp__dnn_plan *plan)
{
    const trp__dnn_graph *graph = &plan->lowered.graph;
    uint32_t tensors = graph->head->tensors;
    for (uint32_t t = 0; t < tensors; t++)
        plan->offset[t] = UINT64_MAX;
    for (uint32_t i = 0; i < plan->steps; i++) {
        trp__dnn_step *step = &plan->step[i];
        trp__dnn_part part = {graph, step->first, step->count};
        uint8_t place[TRP__DNN_LOWERED_TENSORS];
        trp__dnn_places(&part, place);
        step->tensors = 0;
        for (uint32_t t = 0; t < tensors; t++) {
            const trp__dnn_tensor *tensor = &graph->tensor[t];
            if (place[t] < TRP__DNN_PLACE_VALUE)
                continue;
            step->tensor[step->tensors++] = (uint8_t)t;
            if (tensor->role != TRP__DNN_VIRTUAL || plan->offset[t] != UINT64_MAX)
                continue;
            uint64_t bytes =
                (uint64_t)trp__dnn_extent(tensor) * (trp_dtype_bits((trp_dtype)tensor->type) / 8);
            plan->offset[t] = plan->between;
            plan->between += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        }
        if (step->way == TRP__DNN_WAY_DIRECT)
            step->engine.workspace = trp__direct_workspace(graph, &graph->node[step->first]);
        if (step->engine.workspace > plan->workspace)
            plan->workspace = step->engine.workspace;
    }
    memset(plan->given, 0xff, sizeof plan->given); /* NaN: differs from the first given values */
    for (uint32_t t = 0; t < tensors; t++) {       /* the plan's own values stay */
        if (graph->tensor[t].role == TRP__DNN_VALUE)
            set_value(plan, t, graph->value[t]);
    }
}

/* Nodes on empty tensors, which the library refuses. */

typedef enum matter {
    MATTER_SOME,    /* no tensor is empty */
    MATTER_NOTHING, /* its output is empty */
    MATTER_ZEROS,   /* its input is empty and it is a sum */
    MATTER_REFUSED,
} matter;

static bool is_sum(const trp__dnn_node *node)
{
    if (node->kind == TRP_DNN_REDUCTION)
        return node->mode == TRP_DNN_SUM || node->mode == TRP_DNN_MEAN ||
               node->mode == TRP_DNN_NORM1 || node->mode == TRP_DNN_NORM2;
    return node->kind <= TRP_DNN_MATMUL || node->kind == TRP_DNN_STATISTICS;
}

/* Moved parts may be empty, and the maximum of an empty tensor has a value. */
static matter matter_of(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    const trp__dnn_kind *kind = trp__dnn_kind_of(node->kind);
    bool empty = false, written = false;
    for (uint32_t i = 0; i < TRP__DNN_PORTS; i++) {
        if (node->port[i] == TRP__DNN_NO_PORT || !kind->port[i].name)
            continue;
        bool some = trp__dnn_elements(&g->tensor[node->port[i]]) > 0;
        empty = empty || !some;
        written = written || (some && kind->port[i].written);
    }
    if (trp__dnn_is_move(node->kind) ||
        trp__dnn_is_training(node->kind) || /* a part may be empty */
        (node->kind == TRP_DNN_REDUCTION && !is_sum(node)))
        return written ? MATTER_SOME : MATTER_NOTHING;
    return !empty         ? MATTER_SOME
           : !written     ? MATTER_NOTHING
           : is_sum(node) ? MATTER_ZEROS
                          : MATTER_REFUSED;
}

trp_status trp__dnn_have_direct(const trp__dnn_planner *planner, const trp__dnn_node *node,
                                trp_error *error)
{
    trp_error reason = {0};
    if (!planner->modules || !trp__direct_takes(node))
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "%s: cuDNN does not do this right, and there is no other kernel",
                              trp__dnn_kind_of(node->kind)->name);
    trp_status status = trp__kernels_make(planner->modules, TRP__MODULE_DIRECT, NULL, &reason);
    if (status != TRP_OK)
        return trp__error_set(error, status == TRP_E_MISSING ? TRP_E_UNSUPPORTED : status,
                              "%s needs a kernel of Troupe's: %.400s",
                              trp__dnn_kind_of(node->kind)->name, reason.message);
    return TRP_OK;
}

trp_status trp__dnn_have_kernel(const trp__dnn_planner *planner, const trp__dnn_graph *graph,
                                trp__dnn_step *step, trp_error *error)
{
    const trp__dnn_part part = {graph, step->first, step->count};
    uint32_t count = 0;
    if (!planner->modules)
        return TRP_E_UNSUPPORTED;
    step->family = trp__kernels_for(graph, step->first, step->count, &count);
    if (!step->family)
        step->family = trp__kernels_behind(graph, step->first, step->count, &count);
    if (!step->family || count != step->count)
        return trp__error_set(error, TRP_E_UNSUPPORTED, "%s: no kernel takes %u nodes from here",
                              trp__dnn_kind_of(graph->node[step->first].kind)->name, step->count);
    trp_status status = trp__kernels_make(planner->modules, step->family->module, NULL, error);
    if (status == TRP_OK && step->family->moves)
        status = trp__kernels_make(planner->modules, TRP__MODULE_MOVE, NULL, error);
    if (status == TRP_OK)
        status = trp__kernel_make(step->family, &part, planner->modules, &step->kernel,
                                  step->engine.name, &step->engine.workspace, error);
    return status == TRP_E_MISSING ? TRP_E_UNSUPPORTED : status;
}

static trp_status add_step(const trp__dnn_planner *planner, const trp__dnn_graph *graph,
                           uint32_t first, uint32_t count, trp__dnn_plan *plan)
{
    trp__dnn_step *step = &plan->step[plan->steps];
    trp_error ignored;
    *step = (trp__dnn_step){.first = first, .count = count, .way = TRP__DNN_WAY_KERNEL};
    trp_status status = trp__dnn_have_kernel(planner, graph, step, &ignored);
    if (status == TRP_OK)
        plan->steps++;
    else
        *step = (trp__dnn_step){0};
    return status;
}

/* Adds nodes that an own fast kernel supports, up to the next product: libraries have engines that
 * fuse operations around one. Without a compiler and without a pack, libraries compute
 * everything. */
static trp_status add_kernel(const trp__dnn_planner *planner, const trp__dnn_graph *graph,
                             uint32_t first, uint32_t most, trp__dnn_plan *plan)
{
    uint32_t count = 0;
    if (!planner->modules || !trp__kernels_for(graph, first, most, &count))
        return TRP_E_UNSUPPORTED;
    return add_step(planner, graph, first, count, plan);
}

/* Adds one node that libraries have refused by an own fast kernel. */
static trp_status add_kernel_behind(const trp__dnn_planner *planner, const trp__dnn_graph *graph,
                                    uint32_t first, trp__dnn_plan *plan)
{
    uint32_t count = 0;
    if (!planner->modules || !trp__kernels_behind(graph, first, 1, &count))
        return TRP_E_UNSUPPORTED;
    return add_step(planner, graph, first, count, plan);
}

static uint32_t next_length(uint32_t length)
{
    return length > TOGETHER ? TOGETHER : length - 1;
}

/* Takes the first engine that may run the part and drops the others. Returns TRP_E_UNSUPPORTED if
 * none may, or TRP_E_LIBRARY if a proof has broken the context. */
static trp_status take_first(const trp__dnn_planner *planner, const trp__dnn_part *part,
                             trp__dnn_engine engines[], uint32_t count, trp__dnn_engine *out,
                             trp_error *error)
{
    trp_status status = TRP_E_UNSUPPORTED;
    for (uint32_t i = 0; i < count; i++) {
        if (status == TRP_E_UNSUPPORTED && trp__dnn_proof_accepts(planner, part, &engines[i])) {
            *out = engines[i];
            status = TRP_OK;
            continue;
        }
        trp__dnn_engine_drop(planner->lib, &engines[i]);
        if (status == TRP_E_UNSUPPORTED && planner->prover && planner->prover->proofs.broken) {
            *error = planner->prover->proofs.error;
            status = TRP_E_LIBRARY;
        }
    }
    return status;
}

/* Adds a product by cuBLASLt, else by an own kernel for products. If neither can, the piece is left
 * to cuDNN or another kernel. */
static trp_status add_product(const trp__dnn_planner *planner, const trp__dnn_graph *graph,
                              uint32_t first, const trp__dnn_product *product, trp__dnn_plan *plan,
                              trp__dnn_engine *out, trp_error *error)
{
    const trp__dnn_part part = {graph, first, product->count};
    trp__dnn_engine engines[PRODUCTS] = {{0}};
    trp_error reason = {0};
    uint32_t count = 0;
    trp_status status = trp__dnn_product_engines(
        planner, graph->head, product, planner->prover ? PRODUCTS : 1, engines, &count, &reason);
    if (status == TRP_OK)
        status = take_first(planner, &part, engines, count, out, error);
    else if (status == TRP_E_MISSING || status == TRP_E_UNSUPPORTED)
        plan->makeshift = plan->makeshift || (status == TRP_E_MISSING && planner->products);
    else
        *error = reason;
    if (status != TRP_E_MISSING && status != TRP_E_UNSUPPORTED)
        return status;
    count = trp__dnn_product_own_engine(planner, product, engines);
    return take_first(planner, &part, engines, count, out, error);
}

/* Returns the largest number of nodes for cuBLASLt, given that cuDNN may try `most`. */
static uint32_t longest_of(const trp__dnn_graph *graph, uint32_t first, uint32_t most)
{
    trp__dnn_product product;
    bool shall = trp__dnn_longest_product(graph, first, &product) &&
                 trp__dnn_prefers_product(graph, first, &product);
    return shall && product.count > most ? product.count : most;
}

/* Adds the longest piece from `first` on that a library supports, of `most` nodes that cuDNN may
 * try, or the first node alone by an own kernel. */
static trp_status add_piece(const trp__dnn_planner *planner, const trp__dnn_graph *graph,
                            uint32_t first, uint32_t most, trp__dnn_plan *plan, trp_error *error)
{
    trp_status status = TRP_E_UNSUPPORTED;
    trp__dnn_step *step = &plan->step[plan->steps];
    trp__dnn_product product;
    uint32_t length = longest_of(graph, first, most);
    for (; length > 0; length = next_length(length)) {
        trp__dnn_part part = {graph, first, length};
        uint32_t count = 0;
        if (trp__dnn_product_of(graph, first, length, &product) &&
            trp__dnn_prefers_product(graph, first, &product))
            status = add_product(planner, graph, first, &product, plan, &step->engine, error);
        if (status == TRP_E_UNSUPPORTED && length <= most)
            status = trp__dnn_engines(planner, &part, 1, &step->engine, &count, error);
        if (status != TRP_E_UNSUPPORTED)
            break;
    }
    /* Tries cuBLASLt for what cuDNN does not support; without the epilogue if cuBLASLt refuses
     * that. */
    for (uint32_t n = TRP__DNN_PRODUCT_NODES; n > 0 && status == TRP_E_UNSUPPORTED; n--) {
        if (!trp__dnn_product_of(graph, first, n, &product) ||
            trp__dnn_prefers_product(graph, first, &product))
            continue;
        length = n;
        status = add_product(planner, graph, first, &product, plan, &step->engine, error);
    }
    *step = (trp__dnn_step){
        .first = first, .count = length, .way = TRP__DNN_WAY_ENGINE, .engine = step->engine};
    if (step->engine.product)
        step->way = TRP__DNN_WAY_PRODUCT;
    if (status == TRP_E_UNSUPPORTED && add_kernel_behind(planner, graph, first, plan) == TRP_OK)
        return TRP_OK;
    if (status == TRP_E_UNSUPPORTED) {
        trp_error other = {0};
        *step = (trp__dnn_step){.first = first, .count = 1, .way = TRP__DNN_WAY_DIRECT};
        trp__copy_string(step->engine.name, sizeof step->engine.name, "direct");
        status = trp__dnn_have_direct(planner, &graph->node[first], &other);
        if (status != TRP_OK && (most == 0 || status != TRP_E_UNSUPPORTED))
            *error = other;
    }
    if (status == TRP_OK)
        plan->steps++;
    return status;
}

static trp_status refuse(const trp__dnn_node *node, trp_error *error)
{
    return trp__error_set(error, TRP_E_UNSUPPORTED,
                          "%s of tensors without elements, whose result is not empty",
                          trp__dnn_kind_of(node->kind)->name);
}

/* Returns the number of nodes from `at` on with elements. */
static uint32_t some_from(const trp__dnn_graph *graph, uint32_t at)
{
    uint32_t count = 0;
    while (at + count < graph->head->nodes &&
           matter_of(graph, &graph->node[at + count]) == MATTER_SOME)
        count++;
    return count;
}

/* Returns the number of nodes from `at` on that the library may get together. */
static uint32_t asked_from(const trp__dnn_graph *graph, uint32_t at)
{
    const uint32_t count = some_from(graph, at);
    const uint32_t asked = trp__dnn_asked(graph, at);
    return count < asked ? count : asked;
}

static trp_status make_steps(const trp__dnn_planner *planner, trp__dnn_plan *plan, trp_error *error)
{
    const trp__dnn_graph *graph = &plan->lowered.graph;
    uint32_t nodes = graph->head->nodes;
    trp_status status = TRP_OK;
    for (uint32_t at = 0; at < nodes && status == TRP_OK;) {
        matter first = matter_of(graph, &graph->node[at]);
        if (first == MATTER_SOME) {
            if (add_kernel(planner, graph, at, some_from(graph, at), plan) != TRP_OK)
                status = add_piece(planner, graph, at, asked_from(graph, at), plan, error);
            if (status == TRP_OK)
                at += plan->step[plan->steps - 1].count;
            continue;
        }
        if (first == MATTER_REFUSED)
            status = refuse(&graph->node[at], error);
        else if (first == MATTER_ZEROS)
            plan->step[plan->steps++] =
                (trp__dnn_step){.first = at, .count = 1, .way = TRP__DNN_WAY_ZEROS};
        at++;
    }
    return status;
}

static trp_status make_lowered(const trp__dnn_planner *planner, const trp__dnn_graph *graph,
                               trp__dnn_lowering lowering, trp__dnn_plan **out, trp_error *error)
{
    trp__dnn_plan *plan = NULL;
    trp_status status = trp__dnn_plan_begin(planner->lib, graph, lowering, &plan, error);
    *out = NULL;
    if (plan)
        status = make_steps(planner, plan, error);
    if (plan && status == TRP_OK) {
        trp__dnn_plan_end(plan);
        *out = plan;
    } else {
        trp__dnn_plan_drop(plan);
    }
    return status;
}

/* Products, pooling and norms that are left to the plain kernels. */
static uint32_t plain_nodes(const trp__dnn_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->steps; i++) {
        const uint8_t kind = plan->lowered.graph.node[plan->step[i].first].kind;
        count += plan->step[i].way == TRP__DNN_WAY_DIRECT &&
                 (kind <= TRP_DNN_MATMUL ||
                  (kind >= TRP_DNN_RESAMPLE_FORWARD && kind <= TRP_DNN_NORM_BACKWARD));
    }
    return count;
}

/* Takes a plan of the graph lowered otherwise, if there is one that leaves fewer of them. */
static void take_other(const trp__dnn_planner *planner, const trp__dnn_graph *graph,
                       trp__dnn_lowering lowering, trp__dnn_plan **plan)
{
    trp__dnn_plan *other = NULL;
    trp__dnn_lowered lowered;
    trp_error ignored = {0};
    if (trp__dnn_lower(graph, lowering, &lowered, &ignored) != TRP_OK)
        return;
    const bool same = trp__dnn_same_graph(lowered.graph.head, (*plan)->lowered.graph.head);
    trp__dnn_lowered_drop(&lowered);
    if (!same)
        (void)make_lowered(planner, graph, lowering, &other, &ignored);
    if (other && plain_nodes(other) < plain_nodes(*plan)) {
        trp__dnn_plan_drop(*plan);
        *plan = other;
    } else {
        trp__dnn_plan_drop(other);
    }
}

trp_status trp__dnn_plan_make(const trp__dnn_planner *planner, const trp__dnn_graph *graph,
                              trp__dnn_plan **out, trp_error *error)
{
    trp_status status = make_lowered(planner, graph, TRP__DNN_LOWER_NEEDED, out, error);
    if (status == TRP_E_UNSUPPORTED)
        status = make_lowered(planner, graph, TRP__DNN_LOWER_MORE, out, error);
    for (int i = TRP__DNN_LOWER_ALIKE; i < TRP__DNN_LOWERINGS && *out && plain_nodes(*out) > 0; i++)
        take_other(planner, graph, (trp__dnn_lowering)i, out);
    return status;
}

void trp__dnn_plan_set_values(trp__dnn_plan *plan, const trp__dnn_graph *graph)
{
    uint32_t tensors = graph->head->tensors;
    if (memcmp(plan->given, graph->value, tensors * sizeof *plan->given) == 0)
        return;
    memcpy(plan->given, graph->value, tensors * sizeof *plan->given);
    for (uint32_t t = 0; t < tensors; t++) {
        if (graph->tensor[t].role == TRP__DNN_VALUE)
            set_value(plan, t, graph->value[t]);
    }
    /* The library may have read the values when they were passed. */
    for (uint32_t i = 0; i < plan->steps; i++)
        trp__cudnn_drop(plan->lib, &plan->step[i].pack);
}

static trp_status make_pack(trp__dnn_plan *plan, trp__dnn_step *step, trp_error *error)
{
    int64_t uid[TRP__DNN_LOWERED_TENSORS];
    trp__cudnn_drop(plan->lib, &step->pack);
    for (uint32_t i = 0; i < step->tensors; i++)
        uid[i] = trp__dnn_uid(step->tensor[i]);
    trp__cudnn_builder m =
        trp__cudnn_begin(plan->lib, TRP__CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, error);
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, TRP__CUDNN_TYPE_INT64,
                   step->tensors, uid);
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, TRP__CUDNN_TYPE_VOID_PTR,
                   step->tensors, step->at);
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_VARIANT_PACK_WORKSPACE, TRP__CUDNN_TYPE_VOID_PTR, 1,
                   &step->workspace);
    return trp__cudnn_finish(&m, &step->pack);
}

bool trp__dnn_is_refusal(const trp_error *error)
{
    /* Invalid value, architecture mismatch, execution failed, internal error, not supported. */
    static const int cublas[] = {7, 8, 13, 14, 15};
    if (error->status == TRP_E_MEMORY)
        return false;
    if (strcmp(error->domain, "cudnn") == 0)
        return error->code >= TRP__CUDNN_STATUS_BAD_PARAM;
    for (size_t i = 0; i < sizeof cublas / sizeof *cublas; i++) {
        if (strcmp(error->domain, "cublas") == 0 && error->code == cublas[i])
            return true;
    }
    return false;
}

trp_status trp__dnn_step_launch(trp__dnn_plan *plan, trp__dnn_step *step, trp__cudnn_handle handle,
                                void *const at[], void *workspace, trp_error *error)
{
    bool same = step->pack && step->workspace == workspace;
    trp_status status = TRP_OK;
    for (uint32_t i = 0; i < step->tensors; i++) {
        uint8_t t = step->tensor[i];
        void *address = at[t] ? at[t] : plan->value[t];
        same = same && step->at[i] == address;
        step->at[i] = address;
    }
    step->workspace = workspace;
    if (!same)
        status = make_pack(plan, step, error);
    if (status == TRP_OK)
        status = trp__cudnn_check(
            plan->lib, plan->lib->cudnnBackendExecute(handle, step->engine.plan, step->pack),
            "cudnnBackendExecute", error);
    return status;
}

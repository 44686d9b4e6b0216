#include "actors/dnn/host_run.h"

#include "actors/dnn/host_paged.h"
#include "actors/dnn/onednn.h"
#include "actors/dnn/train_op.h"
#include "base/error.h"

#include <limits.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 64 };

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t tensor_bytes(const trp__dnn_tensor *t)
{
    return (size_t)trp__dnn_extent(t) * (trp_dtype_bits((trp_dtype)t->type) / 8);
}

static bool is_wide(const trp__dnn_node *n)
{
    return n->compute != TRP_F32;
}

static size_t real_bytes(const trp__dnn_node *n, int64_t elements)
{
    return aligned((size_t)elements * (is_wide(n) ? sizeof(double) : sizeof(float)));
}

static void find_tensors(const trp__dnn_graph *g, const trp__dnn_node *n,
                         const trp__dnn_tensor *tensor[TRP__DNN_PORTS])
{
    for (int at = 0; at < TRP__DNN_PORTS; at++)
        tensor[at] = n->port[at] == TRP__DNN_NO_PORT ? NULL : &g->tensor[n->port[at]];
}

/* What one node needs of the scratch memory. */
static size_t node_bytes(const trp__dnn_graph *g, const trp__dnn_node *n)
{
    const trp__dnn_tensor *tensor[TRP__DNN_PORTS];
    if (n->kind == TRP_DNN_PAGED_LOAD)
        return 0;
    if (trp__dnn_is_training(n->kind))
        return aligned(trp__train_bytes(g, n));
    find_tensors(g, n, tensor);
    size_t bytes = real_bytes(n, trp__dnn_host_rest(n, tensor));
    for (int at = 0; at < TRP__DNN_PORTS; at++)
        bytes += tensor[at] ? real_bytes(n, trp__dnn_elements(tensor[at])) : 0;
    return bytes;
}

static bool is_pool(const trp__dnn_node *n)
{
    return n->kind == TRP_DNN_RESAMPLE_FORWARD || n->kind == TRP_DNN_RESAMPLE_BACKWARD;
}

static int64_t volume_of(const trp__dnn_node *n)
{
    int64_t volume = 1;
    for (int i = 0; i < n->spatial && volume <= INT32_MAX; i++)
        volume *= n->window[i];
    return volume;
}

/* The sender has checked the graph; that it is what was checked is looked at again where memory
 * depends on it. */
static trp_status check(const trp__dnn_graph *g, const uint64_t *bytes, trp_error *error)
{
    const trp__dnn_head *head = g->head;
    for (int i = 0; i < head->tensors; i++) {
        const trp__dnn_tensor *t = &g->tensor[i];
        if (t->role == TRP__DNN_BUFFER && tensor_bytes(t) > bytes[i])
            return trp__error_set(error, TRP_E_INTERNAL, "a tensor of %zu bytes in %llu",
                                  tensor_bytes(t), (unsigned long long)bytes[i]);
    }
    for (int i = 0; i < head->nodes; i++) {
        const trp__dnn_kind *kind = trp__dnn_kind_of(g->node[i].kind);
        for (int at = 0; at < TRP__DNN_PORTS; at++) {
            uint8_t port = g->node[i].port[at];
            if (!kind || (port != TRP__DNN_NO_PORT && port >= head->tensors))
                return trp__error_set(error, TRP_E_INTERNAL, "node %d is none", i);
            if (at == TRP__DNN_RESAMPLE_INDEX && port != TRP__DNN_NO_PORT && is_pool(&g->node[i]) &&
                volume_of(&g->node[i]) > INT8_MAX + 1)
                return trp__error_set(error, TRP_E_UNSUPPORTED,
                                      "%s: an index into windows of more than %d elements",
                                      kind->name, INT8_MAX + 1);
            if (port != TRP__DNN_NO_PORT && trp__dnn_elements(&g->tensor[port]) > INT_MAX)
                return trp__error_set(error, TRP_E_UNSUPPORTED,
                                      "%s: a tensor of 2^31 elements or more, which the host "
                                      "backend can't take",
                                      kind->name);
        }
    }
    return TRP_OK;
}

trp_status trp__dnn_host_make(const trp__dnn_host_libraries *libraries, const trp__dnn_graph *graph,
                              void *const *address, const uint64_t *bytes, trp__dnn_host_run **out,
                              trp_error *error)
{
    const trp__dnn_head *head = graph->head;
    trp_status status = check(graph, bytes, error);
    if (status != TRP_OK)
        return status;
    size_t copy = aligned(sizeof **out), total = copy + aligned(trp__dnn_bytes(head));
    size_t most = 0;
    for (int i = 0; i < head->tensors; i++)
        total += graph->tensor[i].role == TRP__DNN_VIRTUAL
                     ? aligned(tensor_bytes(&graph->tensor[i]))
                     : 0;
    for (int i = 0; i < head->nodes; i++) {
        size_t needed = node_bytes(graph, &graph->node[i]);
        most = needed > most ? needed : most;
    }
    char *memory = mmap(NULL, total + most, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return trp__error_set_errno(error, "memory for the intermediate results of a graph");
    trp__dnn_host_run *run = (trp__dnn_host_run *)memory;
    memcpy(memory + copy, head, trp__dnn_bytes(head));
    *run = (trp__dnn_host_run){
        .libraries = libraries, .graph = trp__dnn_graph_at(memory + copy), .bytes = total + most};
    char *next = memory + copy + aligned(trp__dnn_bytes(head));
    for (int i = 0; i < head->tensors; i++) {
        bool is_virtual = graph->tensor[i].role == TRP__DNN_VIRTUAL;
        run->place[i] = is_virtual ? next : address[i];
        next += is_virtual ? aligned(tensor_bytes(&graph->tensor[i])) : 0;
    }
    run->scratch = next;
    *out = run;
    return TRP_OK;
}

void trp__dnn_host_drop(trp__dnn_host_run *run)
{
    munmap(run, run->bytes);
}

/* A value as its type holds it. */
static void load_value(const trp__dnn_tensor *t, double value, bool wide, void *to)
{
    double held;
    if (wide)
        *(double *)to = value;
    else
        *(float *)to = (float)value;
    trp__dnn_host_store(t, &held, wide, to);
    trp__dnn_host_load(t, &held, wide, to);
}

/* What goes element by element takes the dimensions in any order: in that in which the result lies,
 * what lies like it needs no gathering. */
static void order_elements(trp__dnn_host_node *x)
{
    const bool gradient = x->n->kind == TRP_DNN_POINTWISE_BACKWARD;
    const int last = gradient ? TRP__DNN_GRADIENT_DX : TRP__DNN_POINTWISE_Y;
    const trp__dnn_tensor *y = x->tensor[last];
    int order[TRP__DNN_RANK];
    if (!gradient && x->n->kind != TRP_DNN_POINTWISE)
        return;
    for (int i = 0; i < y->rank; i++) {
        int at = i;
        for (; at > 0 && y->stride[order[at - 1]] < y->stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (int at = 0; at <= last; at++) {
        const trp__dnn_tensor *t = x->tensor[at];
        if (!t || t->rank != y->rank)
            continue;
        x->ordered[at] = *t;
        for (int i = 0; i < y->rank; i++) {
            x->ordered[at].dim[i] = t->dim[order[i]];
            x->ordered[at].stride[i] = t->stride[order[i]];
        }
        x->tensor[at] = &x->ordered[at];
    }
}

/* Whether a tensor lies there as a node wants it: nothing is gathered or put back then. */
static bool is_ready(const trp__dnn_tensor *t, bool wide)
{
    int64_t next = 1;
    if (t->type != (wide ? TRP_F64 : TRP_F32))
        return false;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dim[i] != 1 && t->stride[i] != next)
            return false;
        next *= t->dim[i];
    }
    return true;
}

/* Gathers what a node reads. */
static void load_node(const trp__dnn_host_run *run, trp__dnn_host_node *x)
{
    const trp__dnn_graph *g = &run->graph;
    const trp__dnn_kind *kind = trp__dnn_kind_of(x->n->kind);
    char *next = run->scratch;
    find_tensors(g, x->n, x->tensor);
    order_elements(x);
    for (int at = 0; at < TRP__DNN_PORTS; at++) {
        const trp__dnn_tensor *t = x->tensor[at];
        uint8_t number = x->n->port[at];
        if (!t)
            continue;
        x->at[at] = next;
        next += real_bytes(x->n, trp__dnn_elements(t));
        if (t->type == TRP_I64) /* as it is */
            memcpy(x->at[at], t->role == TRP__DNN_VALUE ? &g->value[number] : run->place[number],
                   sizeof(uint64_t));
        else if (t->role == TRP__DNN_VALUE)
            load_value(t, g->value[number], is_wide(x->n), x->at[at]);
        else if (is_ready(t, is_wide(x->n)))
            x->at[at] = run->place[number];
        else if (!kind->port[at].written)
            trp__dnn_host_load(t, run->place[number], is_wide(x->n), x->at[at]);
    }
    x->rest = next;
}

static void store_node(const trp__dnn_host_run *run, const trp__dnn_host_node *x)
{
    const trp__dnn_kind *kind = trp__dnn_kind_of(x->n->kind);
    for (int at = 0; at < TRP__DNN_PORTS; at++) {
        uint8_t number = x->n->port[at];
        if (x->tensor[at] && kind->port[at].written && x->at[at] != run->place[number])
            trp__dnn_host_store(x->tensor[at], run->place[number], is_wide(x->n), x->at[at]);
    }
}

/* How many nodes from `first` on were run together; 0: none. */
static int run_together(const trp__dnn_host_run *run, int first)
{
    const trp__dnn_graph *g = &run->graph;
    const trp__onednn_engine *onednn = run->libraries->onednn;
    int axis = onednn ? trp__onednn_softmax_axis(g, first) : -1;
    if (axis < 0)
        return 0;
    trp__dnn_node softmax = g->node[first + TRP__ONEDNN_SOFTMAX_NODES - 1];
    softmax.port[TRP__DNN_POINTWISE_X] = g->node[first].port[TRP__DNN_REDUCTION_X];
    softmax.port[TRP__DNN_POINTWISE_B] = TRP__DNN_NO_PORT;
    trp__dnn_host_node x = {.libraries = run->libraries, .n = &softmax};
    load_node(run, &x);
    if (!trp__onednn_softmax(onednn, &x, axis))
        return 0;
    store_node(run, &x);
    return TRP__ONEDNN_SOFTMAX_NODES;
}

void trp__dnn_host_run_now(trp__dnn_host_run *run)
{
    const trp__dnn_graph *g = &run->graph;
    for (int i = 0, some; i < g->head->nodes; i += some) {
        trp__dnn_host_node x = {.libraries = run->libraries, .n = &g->node[i]};
        some = run_together(run, i);
        if (some > 0)
            continue;
        some = 1;
        if (x.n->kind == TRP_DNN_PAGED_LOAD) {
            trp__dnn_host_paged_load(run, x.n);
            continue;
        }
        if (trp__dnn_is_training(x.n->kind)) {
            trp__train_run(run, x.n);
            continue;
        }
        load_node(run, &x);
        if (is_wide(x.n))
            trp__dnn_host_node_f64(&x);
        else
            trp__dnn_host_node_f32(&x);
        store_node(run, &x);
    }
    trp__dnn_host_drop(run);
}

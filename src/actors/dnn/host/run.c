#include "actors/dnn/host/run.h"

#include "actors/dnn/graph/train_op.h"
#include "actors/dnn/host/chain.h"
#include "actors/dnn/host/onednn/onednn.h"
#include "actors/dnn/host/paged.h"
#include "actors/dnn/host/product.h"
#include "base/error.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 64 };

/* Largest memory that an actor keeps for its next runs. */
#define KEPT_MOST ((size_t)256 << 20)

/* The header of the memory of runs. */
struct trp__dnn_host_block {
    _Atomic uint32_t users; /* runs, and the room that owns it */
    size_t bytes;           /* total bytes */
};

static void leave_block(trp__dnn_host_block *block)
{
    if (atomic_fetch_sub(&block->users, 1) == 1)
        munmap(block, block->bytes);
}

/* Returns a block with `bytes` bytes after its header and adds a user. NULL with errno if memory is
 * missing. */
static trp__dnn_host_block *enter_block(trp__dnn_host_room *room, size_t bytes)
{
    trp__dnn_host_block *block = room->block;
    if (!block || block->bytes < bytes) {
        block = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (block == MAP_FAILED)
            return NULL;
        block->bytes = bytes;
        if (bytes <= KEPT_MOST) {
            trp__dnn_host_trim(room);
            room->block = block;
            atomic_store(&block->users, 1);
        }
    }
    atomic_fetch_add(&block->users, 1);
    return block;
}

void trp__dnn_host_trim(trp__dnn_host_room *room)
{
    if (room->block)
        leave_block(room->block);
    room->block = NULL;
}

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

/* Returns a node's scratch bytes. */
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

/* Tells whether a node runs only in own loops that count in 64 bits. */
static bool is_of_any_size(const trp__dnn_node *n)
{
    return n->kind == TRP_DNN_POINTWISE || n->kind == TRP_DNN_POINTWISE_BACKWARD ||
           n->kind == TRP_DNN_REDUCTION || trp__dnn_is_move(n->kind);
}

/* Repeats those of the sender's checks that memory safety depends on. */
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
            if (port != TRP__DNN_NO_PORT && !is_of_any_size(&g->node[i]) &&
                trp__dnn_elements(&g->tensor[port]) > INT_MAX)
                return trp__error_set(error, TRP_E_UNSUPPORTED,
                                      "%s: a tensor of 2^31 elements or more, which the host "
                                      "backend can't take",
                                      kind->name);
        }
    }
    return TRP_OK;
}

/* Returns the dimension of a softmax over another dimension than the last, which oneDNN computes:
 * no chain includes it. */
static int softmax_axis(const trp__dnn_host_libraries *libraries, const trp__dnn_graph *g,
                        int first)
{
    const int axis = libraries->onednn ? trp__onednn_softmax_axis(g, first) : -1;
    const uint8_t x = g->node[first].port[TRP__DNN_REDUCTION_X];
    return axis >= 0 && trp__dnn_elements(&g->tensor[x]) <= INT_MAX ? axis : -1;
}

static trp__dnn_node softmax_node(const trp__dnn_graph *g, int first)
{
    trp__dnn_node softmax = g->node[first + TRP__ONEDNN_SOFTMAX_NODES - 1];
    softmax.port[TRP__DNN_POINTWISE_X] = g->node[first].port[TRP__DNN_REDUCTION_X];
    softmax.port[TRP__DNN_POINTWISE_B] = TRP__DNN_NO_PORT;
    return softmax;
}

trp_status trp__dnn_host_make(const trp__dnn_host_libraries *libraries, trp__dnn_host_room *room,
                              const trp__dnn_graph *graph, void *const *address,
                              const uint64_t *bytes, trp__dnn_host_run **out, trp_error *error)
{
    return trp__dnn_host_make_of(libraries, room, graph, address, bytes, TRP_DNN_NODES_MAX, out,
                                 error);
}

trp_status trp__dnn_host_make_of(const trp__dnn_host_libraries *libraries, trp__dnn_host_room *room,
                                 const trp__dnn_graph *graph, void *const *address,
                                 const uint64_t *bytes, int chain_most, trp__dnn_host_run **out,
                                 trp_error *error)
{
    const trp__dnn_head *head = graph->head;
    trp_status status = check(graph, bytes, error);
    if (status != TRP_OK)
        return status;
    const size_t copy = aligned(sizeof **out);
    size_t total = aligned(sizeof(trp__dnn_host_block)), most = 0;
    for (int i = 0; i < head->tensors; i++)
        total += graph->tensor[i].role == TRP__DNN_VIRTUAL
                     ? aligned(tensor_bytes(&graph->tensor[i]))
                     : 0;
    for (int i = 0, some; i < head->nodes; i += some) {
        const int chain = trp__dnn_chain_length(graph, i, chain_most);
        size_t needed =
            chain ? trp__dnn_chain_bytes(graph, i, chain) : node_bytes(graph, &graph->node[i]);
        most = needed > most ? needed : most;
        if (!chain && softmax_axis(libraries, graph, i) >= 0) {
            const trp__dnn_node softmax = softmax_node(graph, i);
            needed = node_bytes(graph, &softmax);
            most = needed > most ? needed : most;
        }
        some = chain ? chain : 1;
    }
    char *memory = malloc(copy + trp__dnn_bytes(head));
    trp__dnn_host_block *block = memory ? enter_block(room, total + most) : NULL;
    if (!block) {
        status = trp__error_set_errno(error, "memory for the intermediate results of a graph");
        free(memory);
        return status;
    }
    trp__dnn_host_run *run = (trp__dnn_host_run *)memory;
    memcpy(memory + copy, head, trp__dnn_bytes(head));
    *run = (trp__dnn_host_run){.libraries = libraries,
                               .graph = trp__dnn_graph_at(memory + copy),
                               .block = block,
                               .chain_most = chain_most};
    char *next = (char *)block + aligned(sizeof *block);
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
    leave_block(run->block);
    free(run);
}

void trp__dnn_host_load_value(const trp__dnn_tensor *t, double value, bool wide, void *to)
{
    double held;
    if (wide)
        *(double *)to = value;
    else
        *(float *)to = (float)value;
    trp__dnn_host_store(t, &held, wide, to);
    trp__dnn_host_load(t, &held, wide, to);
}

/* Tells whether a tensor has a node's format, so that nothing is gathered or stored back. */
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

/* Gathers the inputs of a node. */
static void load_node(const trp__dnn_host_run *run, trp__dnn_host_node *x)
{
    const trp__dnn_graph *g = &run->graph;
    const trp__dnn_kind *kind = trp__dnn_kind_of(x->n->kind);
    char *next = run->scratch;
    find_tensors(g, x->n, x->tensor);
    for (int at = 0; at < TRP__DNN_PORTS; at++) {
        const trp__dnn_tensor *t = x->tensor[at];
        uint8_t number = x->n->port[at];
        if (!t)
            continue;
        x->at[at] = next;
        next += real_bytes(x->n, trp__dnn_elements(t));
        if (t->type == TRP_I64) /* unchanged */
            memcpy(x->at[at], t->role == TRP__DNN_VALUE ? &g->value[number] : run->place[number],
                   sizeof(uint64_t));
        else if (t->role == TRP__DNN_VALUE)
            trp__dnn_host_load_value(t, g->value[number], is_wide(x->n), x->at[at]);
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

static bool run_softmax(const trp__dnn_host_run *run, int first)
{
    const trp__dnn_graph *g = &run->graph;
    const int axis = softmax_axis(run->libraries, g, first);
    if (axis < 0)
        return false;
    const trp__dnn_node softmax = softmax_node(g, first);
    trp__dnn_host_node x = {.libraries = run->libraries, .n = &softmax};
    load_node(run, &x);
    if (!trp__onednn_softmax(run->libraries->onednn, &x, axis))
        return false;
    store_node(run, &x);
    return true;
}

/* Runs nodes from `first` on together and returns their number; 0: none. */
static int run_together(const trp__dnn_host_run *run, int first)
{
    const trp__dnn_node *n = &run->graph.node[first];
    const int chain = trp__dnn_chain_length(&run->graph, first, run->chain_most);
    if (chain > 0) {
        trp__dnn_chain_run(run, first, chain);
        return chain;
    }
    if (n->kind == TRP_DNN_POINTWISE || n->kind == TRP_DNN_POINTWISE_BACKWARD ||
        trp__dnn_host_product(run, first))
        return 1;
    return run_softmax(run, first) ? TRP__ONEDNN_SOFTMAX_NODES : 0;
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

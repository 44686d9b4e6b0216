/* Runs the reference of a proof: the kernels of reference/node.h, node by node, for the compared
 * elements and their inputs. */
#include "actors/dnn/engines/proof_parts.h"
#include "base/error.h"

#include <troupe/dnn.h>

#include <stdlib.h>
#include <string.h>

/* The needed elements of a tensor. */
typedef struct need {
    int64_t *number;
    size_t count;
    bool all;
} need;

typedef struct reference {
    trp__dnn_problem *p;
    const trp__proof_place *place;
    need need[TRP__DNN_LOWERED_TENSORS];
    void *at[TRP__DNN_LOWERED_TENSORS];
} reference;

static const trp__dnn_node *node_of(const reference *r, uint32_t n)
{
    return &r->p->part->graph->node[r->p->part->first + n];
}

static const trp__dnn_tensor *tensor_of(const reference *r, uint32_t t)
{
    return &r->p->part->graph->tensor[t];
}

/* Converts indices of elements of `from` to those of `to`, a tensor that is broadcast to the same
 * shape. Returns false for another shape. */
static bool add_numbers(const trp__dnn_tensor *from, const trp__dnn_tensor *to,
                        const int64_t *number, size_t count, int64_t *out)
{
    if (from->rank != to->rank)
        return trp__dnn_elements(to) == 1 && memset(out, 0, count * sizeof *out);
    for (int i = 0; i < to->rank; i++) {
        if (to->dim[i] != from->dim[i] && to->dim[i] != 1)
            return false;
    }
    for (size_t k = 0; k < count; k++) {
        int64_t at[TRP__DNN_RANK], left = number[k];
        for (int i = from->rank - 1; i >= 0; i--) {
            at[i] = left % from->dim[i];
            left /= from->dim[i];
        }
        out[k] = 0;
        for (int i = 0; i < to->rank; i++)
            out[k] = out[k] * to->dim[i] + (to->dim[i] == 1 ? 0 : at[i]);
    }
    return true;
}

/* Adds the elements of `to` needed for these elements of `from`. */
static bool add_need(reference *r, const trp__dnn_tensor *from, uint8_t to, const int64_t *number,
                     size_t count)
{
    need *n = &r->need[to];
    if (n->all || n->count + count > TRP__DNN_PROOF_NUMBERS) {
        n->all = true;
        return true;
    }
    int64_t *more = realloc(n->number, (n->count + count + 1) * sizeof *more);
    if (!more)
        return false;
    n->number = more;
    if (!add_numbers(from, tensor_of(r, to), number, count, more + n->count))
        n->all = true;
    else
        n->count += count;
    return true;
}

static bool is_port(const trp__dnn_node *node, int port, bool written)
{
    return node->port[port] != TRP__DNN_NO_PORT &&
           trp__dnn_kind_of(node->kind)->port[port].written == written;
}

/* Propagates needs from the last node to the first. All nodes except element-wise ones need all of
 * their inputs. */
static bool find_needs_of(reference *r, const trp__dnn_node *node)
{
    const bool element_wise =
        node->kind == TRP_DNN_POINTWISE || node->kind == TRP_DNN_POINTWISE_BACKWARD;
    for (int in = 0; in < TRP__DNN_PORTS; in++) {
        if (!is_port(node, in, false) || r->p->place[node->port[in]] == TRP__DNN_PLACE_VALUE)
            continue;
        need *asked = &r->need[node->port[in]];
        if (!element_wise)
            asked->all = true;
        for (int out = 0; out < TRP__DNN_PORTS && element_wise; out++) {
            if (!is_port(node, out, true))
                continue;
            const need *by = &r->need[node->port[out]];
            if (by->all)
                asked->all = true;
            else if (!add_need(r, tensor_of(r, node->port[out]), node->port[in], by->number,
                               by->count))
                return false;
        }
    }
    return true;
}

static bool find_needs(reference *r, const trp__proof_sample samples[], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t t = r->p->tensor_of[samples[i].operand];
        if (!add_need(r, tensor_of(r, t), t, samples[i].number, samples[i].count))
            return false;
    }
    for (uint32_t n = r->p->part->count; n-- > 0;) {
        if (!find_needs_of(r, node_of(r, n)))
            return false;
    }
    return true;
}

static trp_status launch(reference *r, const trp__dnn_graph *graph, uint32_t node,
                         const trp__direct_sample *sample, trp_error *error)
{
    const trp__kernel_launch l = {.modules = r->p->reference,
                                  .stream = r->place->stream,
                                  .at = r->at,
                                  .number = r->p->number};
    return trp__direct_launch_sample(graph, node, &l, sample, error);
}

/* Runs a node once per result, restricted to the needed elements, or once without restriction if
 * all elements of a result are needed. */
static trp_status run_node(reference *r, uint32_t n, trp_error *error)
{
    const trp__dnn_graph *g = &r->p->exact;
    const trp__dnn_node *node = node_of(r, n);
    trp_status status = TRP_OK;
    bool all = false;
    for (int i = 0; i < TRP__DNN_PORTS; i++)
        all = all || (is_port(node, i, true) && r->need[node->port[i]].all);
    if (all)
        return launch(r, g, r->p->part->first + n, NULL, error);
    for (int i = 0; i < TRP__DNN_PORTS && status == TRP_OK; i++) {
        if (!is_port(node, i, true) || r->need[node->port[i]].count == 0)
            continue;
        const uint8_t t = node->port[i];
        const trp__direct_sample sample = {.tensor = tensor_of(r, t),
                                           .number = r->need[t].number,
                                           .count = r->need[t].count,
                                           .room = (uintptr_t)r->place->at[r->p->operands - 1]};
        status = launch(r, g, r->p->part->first + n, &sample, error);
    }
    return status;
}

/* Prepares the gradient of maxima, which needs x and the matching y, by computing y first. */
static trp_status prepare_maxima(reference *r, const trp__dnn_node *node, trp_error *error)
{
    trp__dnn_node forward = *node;
    trp__dnn_graph alone = *r->p->part->graph;
    if (node->kind != TRP_DNN_RESAMPLE_BACKWARD || !is_port(node, TRP__DNN_RESAMPLE_OLD_X, false) ||
        !is_port(node, TRP__DNN_RESAMPLE_OLD_Y, false))
        return TRP_OK;
    memset(forward.port, TRP__DNN_NO_PORT, sizeof forward.port);
    forward.kind = TRP_DNN_RESAMPLE_FORWARD;
    forward.port[TRP__DNN_RESAMPLE_X] = node->port[TRP__DNN_RESAMPLE_OLD_X];
    forward.port[TRP__DNN_RESAMPLE_Y] = node->port[TRP__DNN_RESAMPLE_OLD_Y];
    alone.node = &forward;
    return launch(r, &alone, 0, NULL, error);
}

/* Adds to the needed elements of sums that an earlier run has left in their memory. */
static trp_status add_to_sums(reference *r, double value, trp_error *error)
{
    trp__dnn_graph alone = r->p->exact;
    trp__dnn_node add = {.kind = TRP_DNN_POINTWISE, .mode = TRP_DNN_ADD, .compute = TRP_F32};
    const need *n = &r->need[r->p->sums];
    const trp__direct_sample sample = {.tensor = tensor_of(r, r->p->sums),
                                       .number = n->number,
                                       .count = n->count,
                                       .room = (uintptr_t)r->place->at[r->p->operands - 1]};
    memset(add.port, TRP__DNN_NO_PORT, sizeof add.port);
    add.port[TRP__DNN_POINTWISE_X] = add.port[TRP__DNN_POINTWISE_Y] = r->p->sums;
    add.port[TRP__DNN_POINTWISE_B] = r->p->shift;
    r->p->number[r->p->shift] = value;
    alone.node = &add;
    return launch(r, &alone, 0, n->all ? NULL : &sample, error);
}

/* Runs what is behind the product again, whose sums are shifted by as much either way. */
static trp_status run_shifted(reference *r, trp_error *error)
{
    const double by = trp__dnn_problem_shift(r->p, r->place->pass);
    trp_status status = add_to_sums(r, r->place->shift > 0 ? by : -2 * by, error);
    for (uint32_t n = 1; n < r->p->part->count && status == TRP_OK; n++)
        status = run_node(r, n, error);
    return status;
}

static trp_status run_all(reference *r, trp_error *error)
{
    trp_status status = TRP_OK;
    for (uint32_t n = 0; n < r->p->part->count && status == TRP_OK; n++) {
        status = prepare_maxima(r, node_of(r, n), error);
        if (status == TRP_OK)
            status = run_node(r, n, error);
    }
    return status;
}

trp_status trp__dnn_problem_reference(void *problem, const trp__proof_place *place,
                                      const trp__proof_sample samples[], uint32_t count,
                                      trp_error *error)
{
    reference *r = calloc(1, sizeof *r);
    if (!r)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a proof");
    r->p = problem;
    r->place = place;
    for (uint32_t i = 0; i + 1 < r->p->operands; i++)
        r->at[r->p->tensor_of[i]] = place->at[i];
    trp_status status = find_needs(r, samples, count)
                            ? TRP_OK
                            : trp__error_set(error, TRP_E_MEMORY, "no memory for a proof");
    if (status == TRP_OK)
        status = place->shift == 0 ? run_all(r, error) : run_shifted(r, error);
    for (uint32_t t = 0; t < TRP__DNN_LOWERED_TENSORS; t++)
        free(r->need[t].number);
    free(r);
    return status;
}

#include "actors/dnn/lower/quirks.h"

#include "actors/dnn/lower/attention_limits.h"
#include "actors/dnn/lower/layout.h"

#include <troupe/dnn.h>

/* Moves of data and random numbers: cuDNN has no engine for a single one, so asking only takes
 * time. */
static bool is_never_taken(const trp__dnn_node *node)
{
    return node->kind >= TRP_DNN_CONCATENATE && !trp__dnn_is_attention(node);
}

/* The gradient of maxima from an index: a proof would need an index from a forward pass, and its
 * format depends on the writer. */
static bool reads_index(const trp__dnn_node *node)
{
    return node->kind == TRP_DNN_RESAMPLE_BACKWARD &&
           node->port[TRP__DNN_RESAMPLE_INDEX] != TRP__DNN_NO_PORT;
}

/* A 16-bit forward pass with asymmetric padding and channels that are not a multiple of eight:
 * engines of 9.19 have failed with a misaligned access, which breaks the context. A proof would
 * find that at the cost of a worker. */
static bool is_misaligned(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    bool apart = false;
    if (node->kind != TRP_DNN_CONV_FORWARD)
        return false;
    const trp__dnn_tensor *x = &g->tensor[node->port[TRP__DNN_CONV_X]];
    const trp__dnn_tensor *w = &g->tensor[node->port[TRP__DNN_CONV_W]];
    for (int i = 0; i < node->spatial; i++)
        apart = apart || node->post_pad[i] != node->pre_pad[i];
    return apart && (x->type == TRP_F16 || x->type == TRP_BF16) &&
           (x->dim[1] % 8 != 0 || w->dim[0] % 8 != 0);
}

/* Pooling whose last windows extend beyond the padding: no descriptor can express that, so the
 * library would compute something else. */
static bool goes_beyond(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    if (node->kind != TRP_DNN_RESAMPLE_FORWARD && node->kind != TRP_DNN_RESAMPLE_BACKWARD)
        return false;
    const trp__dnn_tensor *x = &g->tensor[node->port[TRP__DNN_RESAMPLE_X]];
    const trp__dnn_tensor *y = &g->tensor[node->port[TRP__DNN_RESAMPLE_Y]];
    for (int i = 0; i < node->spatial; i++) {
        if (trp__dnn_beyond(node, i, x->dim[2 + i], y->dim[2 + i]) > 0)
            return true;
    }
    return false;
}

/* Means and norms whose sums overflow in f32 although the result does not: a proof uses no numbers
 * that overflow, because the order of the library's sums is unspecified. Nor does the library
 * reduce empty tensors.
 */
static bool loses_range(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    return node->kind == TRP_DNN_REDUCTION &&
           (!trp__dnn_keeps_range(node) ||
            trp__dnn_elements(&g->tensor[node->port[TRP__DNN_REDUCTION_X]]) == 0);
}

/* Tensors with gaps, or with an order of dimensions that the library does not expect: every engine
 * misinterprets them. Proofs would find that one engine after the other, so asking only takes time;
 * and a misinterpreted tensor may lead to unmapped memory, which costs a worker. */
static bool is_irregular(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        if (node->port[i] != TRP__DNN_NO_PORT &&
            !trp__dnn_is_regular(&g->tensor[node->port[i]], node))
            return true;
    }
    return false;
}

/* Types for which the library compiles each kernel, a second each: all except the floating-point
 * types of products. Convolutions and products support others. */
static bool has_rare_types(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    for (int i = 0; i < TRP__DNN_PORTS && node->kind > TRP_DNN_MATMUL; i++) {
        const trp__dnn_tensor *t =
            node->port[i] == TRP__DNN_NO_PORT ? NULL : &g->tensor[node->port[i]];
        if (t && t->role != TRP__DNN_VALUE && t->type != TRP_F32 && t->type != TRP_F16 &&
            t->type != TRP_BF16)
            return true;
    }
    return false;
}

/* Returns the layouts that all tensors of a node have, as bits. */
static uint32_t common_layouts(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    uint32_t common = 1u << TRP__DNN_ROWS | 1u << TRP__DNN_CHANNELS_LAST;
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        if (node->port[i] != TRP__DNN_NO_PORT && g->tensor[node->port[i]].role != TRP__DNN_VALUE)
            common &= trp__dnn_layouts(&g->tensor[node->port[i]]);
    }
    return common;
}

/* Return a node's main tensor and its first output. */
static const trp__dnn_tensor *shape_before(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    const uint8_t t = node->port[node->kind == TRP_DNN_POINTWISE ? TRP__DNN_POINTWISE_Y : 0];
    return t == TRP__DNN_NO_PORT ? NULL : &g->tensor[t];
}

static const trp__dnn_tensor *shape_behind(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    const trp__dnn_kind *kind = trp__dnn_kind_of(node->kind);
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        if (kind->port[i].name && kind->port[i].written && node->port[i] != TRP__DNN_NO_PORT)
            return &g->tensor[node->port[i]];
    }
    return NULL;
}

static bool same_dims(const trp__dnn_tensor *a, const trp__dnn_tensor *b)
{
    bool same = a && b && a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

/* Consecutive nodes must keep layout and dimensions, and a sum must be last. The library offers
 * engines for other graphs too, which are compiled for a second each and then refused or wrong. */
uint32_t trp__dnn_asked(const trp__dnn_graph *g, uint32_t first)
{
    const trp__dnn_node *before = NULL;
    uint32_t count = 0, common = ~0u;
    for (; first + count < g->head->nodes; count++) {
        const trp__dnn_node *node = &g->node[first + count];
        if (trp__dnn_is_attention(node)) /* alone, in the form that lowering has produced */
            return count == 0 ? 1 : count;
        if (is_never_taken(node) || reads_index(node) || is_misaligned(g, node) ||
            goes_beyond(g, node) || loses_range(g, node) || is_irregular(g, node) ||
            has_rare_types(g, node))
            break;
        common &= common_layouts(g, node);
        if (before && (common == 0 || !same_dims(shape_behind(g, before), shape_before(g, node))))
            break;
        before = node;
        if (node->kind == TRP_DNN_REDUCTION)
            return count + 1;
    }
    return count;
}

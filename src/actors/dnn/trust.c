#include "actors/dnn/trust.h"

#include "actors/dnn/attention_cudnn.h"
#include "actors/dnn/layout.h"

#include <troupe/dnn.h>

#include <math.h>

enum { NARROW = 16 /* channels, rows and columns of 8-bit types come in so many */ };

static const trp__dnn_tensor *at_port(const trp__dnn_graph *g, const trp__dnn_node *node, int port)
{
    uint8_t number = node->port[port];
    return number == TRP__DNN_NO_PORT ? NULL : &g->tensor[number];
}

static bool is_half(uint8_t type)
{
    return type == TRP_F16 || type == TRP_BF16;
}

static bool is_f8(uint8_t type)
{
    return type == TRP_F8E4M3 || type == TRP_F8E5M2;
}

static bool is_common(uint8_t type)
{
    return type == TRP_F32 || is_half(type);
}

/* Whether all tensors of a node have types that a test takes. */
static bool all_types(const trp__dnn_graph *g, const trp__dnn_node *node, bool (*takes)(uint8_t))
{
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        const trp__dnn_tensor *t = at_port(g, node, i);
        if (t && t->role != TRP__DNN_VALUE && !takes(t->type))
            return false;
    }
    return true;
}

static bool is_f64(uint8_t type)
{
    return type == TRP_F64;
}

/* Layouts that a tensor has, a bit each. */
static uint32_t layouts_of(const trp__dnn_tensor *t)
{
    return t->role == TRP__DNN_VALUE ? ~0u : trp__dnn_layouts(t);
}

/* Those that all tensors of a node have. */
static uint32_t common_layouts(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    uint32_t common = 1u << TRP__DNN_ROWS | 1u << TRP__DNN_CHANNELS_LAST;
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        const trp__dnn_tensor *t = at_port(g, node, i);
        common &= t ? layouts_of(t) : ~0u;
    }
    return common;
}

/* Whether an image is padded more behind than before, or, `less_too`, less. */
static bool pads_apart(const trp__dnn_node *node, bool less_too)
{
    for (int i = 0; i < node->spatial; i++) {
        if (node->post_pad[i] > node->pre_pad[i] ||
            (less_too && node->post_pad[i] != node->pre_pad[i]))
            return true;
    }
    return false;
}

/* Filters that are turned around are taken, and some come out wrong; of one tap it is no matter.
 * So do gradients of filters where an image is padded more on one side, and gradients of such
 * images if they or the results have one channel. 8-bit types have
 * kernels for whole groups of channels that are fastest, and nothing good beside them; sums of
 * integers come out as other numbers. */
static bool trusts_conv(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    const trp__dnn_tensor *x = at_port(g, node, TRP__DNN_CONV_X);
    const trp__dnn_tensor *w = at_port(g, node, TRP__DNN_CONV_W);
    int64_t taps = 1;
    for (int i = 2; i < w->rank; i++)
        taps *= w->dim[i];
    if (node->mode && taps > 1)
        return false;
    /* A forward pass of few channels, padded more on one side, has ended in a misaligned access. */
    if (node->kind == TRP_DNN_CONV_FORWARD && pads_apart(node, true) && is_half(x->type) &&
        (x->dim[1] % 8 != 0 || w->dim[0] % 8 != 0))
        return false;
    if (node->kind != TRP_DNN_CONV_FORWARD && pads_apart(node, true) &&
        (node->kind == TRP_DNN_CONV_BACKWARD_FILTER || x->dim[1] == 1 || w->dim[0] == 1))
        return false;
    if (all_types(g, node, is_common) || all_types(g, node, is_f64))
        return true;
    return is_f8(x->type) && w->type == x->type && node->kind == TRP_DNN_CONV_FORWARD &&
           x->dim[1] == w->dim[1] && x->dim[1] % NARROW == 0 && w->dim[0] % NARROW == 0 &&
           (common_layouts(g, node) & 1u << TRP__DNN_CHANNELS_LAST);
}

/* Products of f32 are those of tf32, whatever is asked for. */
static bool trusts_matmul(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    const trp__dnn_tensor *a = at_port(g, node, TRP__DNN_MATMUL_A);
    const trp__dnn_tensor *b = at_port(g, node, TRP__DNN_MATMUL_B);
    const trp__dnn_tensor *y = at_port(g, node, TRP__DNN_MATMUL_Y);
    if (!is_common(y->type) || a->type != b->type)
        return false;
    for (int i = 0; i < y->rank - 2; i++) { /* of a repeated matrix other batches come out as 0 */
        if (a->dim[i] != y->dim[i] || b->dim[i] != y->dim[i])
            return false;
    }
    if (is_f8(a->type))
        return a->dim[a->rank - 1] % NARROW == 0 && a->dim[a->rank - 2] % NARROW == 0 &&
               b->dim[b->rank - 1] % NARROW == 0;
    return is_half(a->type) || (a->type == TRP_F32 && g->head->tf32);
}

/* What an index holds is the business of those who write it, so pooling with one is ours. Averages
 * with padding count what is behind an image as if there were as much of it as before. The gradient
 * of maxima is good for rows, from x and y; that of averages fails when it runs. One channel may be
 * taken for the fastest dimension. */
static bool trusts_pool(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    const trp__dnn_tensor *x = at_port(g, node, TRP__DNN_RESAMPLE_X);
    const trp__dnn_tensor *y = at_port(g, node, TRP__DNN_RESAMPLE_Y);
    for (int i = 0; i < node->spatial; i++) {
        if (trp__dnn_beyond(node, i, x->dim[2 + i], y->dim[2 + i]) > 0)
            return false; /* there is nothing that says so to the library */
    }
    if (at_port(g, node, TRP__DNN_RESAMPLE_INDEX) ||
        (node->mode == TRP_DNN_POOL_AVERAGE_PADDED && pads_apart(node, false)))
        return false;
    return node->kind == TRP_DNN_RESAMPLE_FORWARD ||
           (node->mode == TRP_DNN_POOL_MAX && at_port(g, node, TRP__DNN_RESAMPLE_OLD_X) &&
            at_port(g, node, TRP__DNN_RESAMPLE_OLD_Y) && x->dim[1] > 1 &&
            (common_layouts(g, node) & 1u << TRP__DNN_ROWS));
}

/* Data moves by kernels of ours: the library has no engine for a concatenation or a reshape alone.
 */
/* A tensor that stands for a larger one repeats along its slowest dimensions or its fastest, but
 * not along both: of what is in between, images behind the first read something else. */
static bool trusts_repeats(const trp__dnn_tensor *t, const trp__dnn_tensor *whole,
                           trp__dnn_layout_kind layout)
{
    uint8_t order[TRP__DNN_RANK];
    bool repeats = false;
    int changes = 0, seen = 0;
    if (t->role == TRP__DNN_VALUE || trp__dnn_elements(t) == 1)
        return true;
    if (t->rank != whole->rank || !trp__dnn_layout_order(whole, layout, order))
        return false;
    for (int i = 0; i < whole->rank; i++) {
        if (whole->dim[order[i]] == 1)
            continue;
        bool now = t->dim[order[i]] == 1;
        changes += seen++ > 0 && now != repeats;
        repeats = now;
    }
    return changes <= 1;
}

/* Of both an upper clip and a slope below the lower one, the clip is lost. */
static bool loses_clip(const trp__dnn_node *node)
{
    return (node->kind == TRP_DNN_POINTWISE || node->kind == TRP_DNN_POINTWISE_BACKWARD) &&
           node->mode == TRP_DNN_RELU && node->parameter[2] != 0 &&
           (isfinite(node->parameter[1]) || node->parameter[0] != 0);
}

static bool trusts_pointwise(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    const trp__dnn_layout_kind layout =
        common_layouts(g, node) & 1u << TRP__DNN_ROWS ? TRP__DNN_ROWS : TRP__DNN_CHANNELS_LAST;
    for (int i = TRP__DNN_POINTWISE_X; i < TRP__DNN_POINTWISE_Y; i++) {
        const trp__dnn_tensor *t = at_port(g, node, i);
        if (t && !trusts_repeats(t, at_port(g, node, TRP__DNN_POINTWISE_Y), layout))
            return false;
    }
    return true;
}

/* Numbers of norms are given by value; in memory they may have another rank than all else. */
static bool has_numbers(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    static const uint8_t ports[] = {TRP__DNN_NORM_EPSILON, TRP__DNN_NORM_AVERAGE_FACTOR};
    if (node->kind != TRP_DNN_NORM_TRAINING && node->kind != TRP_DNN_NORM_INFERENCE)
        return true;
    for (size_t i = 0; i < sizeof ports; i++) {
        const trp__dnn_tensor *t = at_port(g, node, ports[i]);
        if (t && t->role != TRP__DNN_VALUE)
            return false;
    }
    return true;
}

static bool trusts(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    if (node->kind >= TRP_DNN_CONCATENATE)
        return false;
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        const trp__dnn_tensor *t = at_port(g, node, i);
        if (t && !trp__dnn_is_regular(t, node))
            return false;
    }
    if (node->kind == TRP_DNN_MATMUL)
        return trusts_matmul(g, node);
    if (node->kind < TRP_DNN_MATMUL)
        return trusts_conv(g, node);
    if (!all_types(g, node, is_common) || common_layouts(g, node) == 0 || loses_clip(node) ||
        !has_numbers(g, node))
        return false;
    if (node->kind == TRP_DNN_REDUCTION) /* of nothing, it is something else */
        return trp__dnn_keeps_range(node) &&
               trp__dnn_elements(at_port(g, node, TRP__DNN_REDUCTION_X)) > 0 &&
               trp__dnn_elements(at_port(g, node, TRP__DNN_REDUCTION_X)) !=
                   trp__dnn_elements(at_port(g, node, TRP__DNN_REDUCTION_Y));
    return (node->kind != TRP_DNN_RESAMPLE_FORWARD && node->kind != TRP_DNN_RESAMPLE_BACKWARD) ||
           trusts_pool(g, node);
}

/* Convolutions of f32 that are not tf32 are done by old kernels, which take more behind them than
 * they do: upper clips and factors are lost. */
static bool ends(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    return node->kind == TRP_DNN_REDUCTION ||
           (node->kind < TRP_DNN_MATMUL && !g->head->tf32 &&
            !is_half(g->tensor[node->port[TRP__DNN_CONV_X]].type));
}

/* Convolutions that are right by themselves and sometimes wrong with something behind them. */
static bool stays_alone(const trp__dnn_node *node)
{
    bool dilated = false;
    for (int i = 0; i < node->spatial; i++)
        dilated = dilated || node->dilation[i] > 1;
    return node->kind < TRP_DNN_MATMUL && (dilated || pads_apart(node, true));
}

/* The tensor that a node is about, and that it writes. */
static const trp__dnn_tensor *shape_before(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    return at_port(g, node, node->kind == TRP_DNN_POINTWISE ? TRP__DNN_POINTWISE_Y : 0);
}

static const trp__dnn_tensor *shape_behind(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    const trp__dnn_kind *kind = trp__dnn_kind_of(node->kind);
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        if (kind->port[i].name && kind->port[i].written && at_port(g, node, i))
            return at_port(g, node, i);
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

/* Several nodes have all of their tensors in one layout, and go on with what has the dimensions of
 * the one before: of an intermediate result that is repeated something else is read. What comes
 * behind a sum is another graph. Only behind a product may a tensor be repeated anyhow. */
uint32_t trp__dnn_trusted(const trp__dnn_graph *g, uint32_t first)
{
    const trp__dnn_node *before = NULL;
    const bool product = g->node[first].kind <= TRP_DNN_MATMUL;
    uint32_t count = 0, common = ~0u;
    for (; first + count < g->head->nodes; count++) {
        const trp__dnn_node *node = &g->node[first + count];
        if (trp__dnn_is_attention(node)) /* it was made to fit when it was lowered */
            return count == 0 ? 1 : count;
        common &= common_layouts(g, node);
        if (!trusts(g, node) ||
            (node->kind == TRP_DNN_POINTWISE && !product && !trusts_pointwise(g, node)))
            break;
        if (before && (common == 0 || !same_dims(shape_behind(g, before), shape_before(g, node)) ||
                       stays_alone(before) || stays_alone(node)))
            break;
        before = node;
        if (ends(g, node))
            return count + 1;
    }
    return count;
}

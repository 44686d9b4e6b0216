#include "actors/dnn/lower/lower.h"

#include "actors/dnn/lower/attention_limits.h"
#include "actors/dnn/lower/layout.h"
#include "actors/dnn/lower/product.h"
#include "actors/dnn/lower/types.h"
#include "base/error.h"

#include <troupe/dnn.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct builder {
    trp__dnn_head head;
    trp__dnn_tensor tensor[TRP__DNN_LOWERED_TENSORS];
    trp__dnn_node node[TRP__DNN_LOWERED_NODES];
    double value[TRP__DNN_LOWERED_TENSORS];
    uint8_t access[TRP__DNN_LOWERED_TENSORS];
    bool full;
} builder;

static uint8_t add_tensor(builder *b, const trp__dnn_tensor *tensor, double value)
{
    if (b->head.tensors == TRP__DNN_LOWERED_TENSORS) {
        b->full = true;
        return 0;
    }
    uint8_t number = (uint8_t)b->head.tensors++;
    b->tensor[number] = *tensor;
    b->value[number] = value;
    b->access[number] = TRP__DNN_NO_ACCESS;
    return number;
}

/* Adds a number in the node's type of computation. */
static uint8_t add_value(builder *b, const trp__dnn_node *node, double value)
{
    trp__dnn_tensor t = {.type = node->compute, .rank = 1, .role = TRP__DNN_VALUE};
    for (int i = 0; i < TRP__DNN_RANK; i++)
        t.dim[i] = 1;
    t.stride[0] = 1;
    return add_tensor(b, &t, value);
}

/* Adds an intermediate tensor with the shape of another one in the node's type of computation. If
 * it gets memory, that is packed in the order of the other's dimensions. */
static uint8_t add_virtual(builder *b, const trp__dnn_node *node, uint8_t like)
{
    trp__dnn_tensor t = b->tensor[like];
    const trp__dnn_tensor from = t;
    uint8_t order[TRP__DNN_RANK];
    t.type = node->compute;
    t.role = TRP__DNN_VIRTUAL;
    t.written = 1;
    t.alignment = 0;
    for (uint8_t i = 0; i < t.rank; i++) {
        uint8_t at = i;
        for (; at > 0 && from.stride[order[at - 1]] < from.stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    int64_t next = 1;
    for (uint8_t i = t.rank; i-- > 0;) {
        t.stride[order[i]] = next;
        next *= t.dim[order[i]];
    }
    return add_tensor(b, &t, 0);
}

/* Adds an intermediate tensor that is packed in a layout. */
static uint8_t add_packed_tensor(builder *b, trp__dnn_tensor t, trp__dnn_layout_kind layout)
{
    t.role = TRP__DNN_VIRTUAL;
    t.written = 1;
    t.alignment = 0;
    trp__dnn_lay_out(&t, layout);
    return add_tensor(b, &t, 0);
}

static trp__dnn_node *add_node(builder *b, trp_dnn_kind kind, uint8_t mode, uint8_t compute)
{
    static trp__dnn_node spare;
    if (b->head.nodes == TRP__DNN_LOWERED_NODES) {
        b->full = true;
        return &spare;
    }
    trp__dnn_node *n = &b->node[b->head.nodes++];
    *n = (trp__dnn_node){.kind = (uint8_t)kind, .mode = mode, .compute = compute};
    memset(n->port, TRP__DNN_NO_PORT, sizeof n->port);
    return n;
}

static void element_wise(builder *b, const trp__dnn_node *node, trp_dnn_pointwise mode, uint8_t x,
                         uint8_t other, uint8_t y)
{
    trp__dnn_node *n = add_node(b, TRP_DNN_POINTWISE, (uint8_t)mode, node->compute);
    n->port[TRP__DNN_POINTWISE_X] = x;
    n->port[TRP__DNN_POINTWISE_B] = other;
    n->port[TRP__DNN_POINTWISE_Y] = y;
}

static void reduce(builder *b, const trp__dnn_node *node, trp_dnn_reduce mode, uint8_t x, uint8_t y)
{
    trp__dnn_node *n = add_node(b, TRP_DNN_REDUCTION, (uint8_t)mode, node->compute);
    n->port[TRP__DNN_REDUCTION_X] = x;
    n->port[TRP__DNN_REDUCTION_Y] = y;
}

/* Sums. The library adds rows or columns in its type of computation. */

/* Returns the number of groups of contiguous dimensions that are reduced; the first, from the
 * slowest, becomes 1 in `*partial`. */
static uint32_t reduced_groups(const trp__dnn_tensor *x, const trp__dnn_tensor *y,
                               trp__dnn_tensor *partial)
{
    uint8_t order[TRP__DNN_RANK];
    uint32_t count = 0, groups = 0;
    bool before = false;
    for (uint8_t i = 0; i < x->rank; i++) {
        uint32_t at = count;
        if (x->dim[i] == 1)
            continue;
        for (; at > 0 && x->stride[order[at - 1]] < x->stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
        count++;
    }
    *partial = *x;
    for (uint32_t i = count; i-- > 0;) { /* from the fastest */
        bool reduced = y->dim[order[i]] == 1;
        groups += reduced && !before;
        if (reduced && groups == 1)
            partial->dim[order[i]] = 1;
        before = reduced;
    }
    return groups;
}

/* Reduces one group after the other, from the fastest. Sums and products of some terms may leave
 * f32 though those of all do not: f64 lies between. */
static void reduce_in_groups(builder *b, const trp__dnn_node *node, trp_dnn_reduce mode, uint8_t x,
                             uint8_t y)
{
    trp__dnn_tensor partial;
    while (!b->full && reduced_groups(&b->tensor[x], &b->tensor[y], &partial) > 1) {
        uint8_t like = add_tensor(b, &partial, 0);
        if (b->full)
            return;
        b->head.tensors--;
        uint8_t next = add_virtual(b, node, like);
        if (mode == TRP_DNN_SUM || mode == TRP_DNN_PRODUCT)
            b->tensor[next].type = TRP_F64;
        reduce(b, node, mode, x, next);
        x = next;
    }
    reduce(b, node, mode, x, y);
}

static void lower_reduction(builder *b, const trp__dnn_node *node)
{
    uint8_t x = node->port[TRP__DNN_REDUCTION_X], y = node->port[TRP__DNN_REDUCTION_Y];
    trp_dnn_reduce mode = (trp_dnn_reduce)node->mode;
    const bool apart = b->tensor[y].type != node->compute;
    if (mode == TRP_DNN_NORM1 || mode == TRP_DNN_AMAX) {
        uint8_t terms = add_virtual(b, node, x);
        element_wise(b, node, TRP_DNN_ABS, x, TRP__DNN_NO_PORT, terms);
        x = terms;
        mode = mode == TRP_DNN_AMAX ? TRP_DNN_MOST : TRP_DNN_SUM;
    }
    uint8_t sum = apart ? add_virtual(b, node, y) : y;
    reduce_in_groups(b, node, mode, x, sum);
    if (apart)
        element_wise(b, node, TRP_DNN_IDENTITY, sum, TRP__DNN_NO_PORT, y);
}

static void lower_statistics(builder *b, const trp__dnn_node *node)
{
    uint8_t x = node->port[TRP__DNN_STATISTICS_X];
    trp__dnn_node sum = *node;
    sum.mode = TRP_DNN_SUM;
    sum.port[TRP__DNN_REDUCTION_X] = x;
    sum.port[TRP__DNN_REDUCTION_Y] = node->port[TRP__DNN_STATISTICS_SUM];
    lower_reduction(b, &sum);
    sum.port[TRP__DNN_REDUCTION_X] = add_virtual(b, node, x);
    element_wise(b, node, TRP_DNN_MUL, x, x, sum.port[TRP__DNN_REDUCTION_X]);
    sum.port[TRP__DNN_REDUCTION_Y] = node->port[TRP__DNN_STATISTICS_SQUARE_SUM];
    lower_reduction(b, &sum);
}

static uint8_t computed(builder *b, const trp__dnn_node *node, trp_dnn_pointwise mode, uint8_t x,
                        uint8_t other, uint8_t like)
{
    const uint8_t y = add_virtual(b, node, like);
    element_wise(b, node, mode, x, other, y);
    return y;
}

/* Whether a product writes the tensor. Libraries fuse element-wise nodes of its shape behind it. */
static bool is_of_product(const builder *b, uint8_t tensor)
{
    for (uint32_t n = 0; n < b->head.nodes; n++) {
        const trp__dnn_node *node = &b->node[n];
        for (int i = 0; i < TRP__DNN_PORTS && node->kind <= TRP_DNN_MATMUL; i++) {
            if (node->port[i] == tensor && trp__dnn_kind_of(node->kind)->port[i].written)
                return true;
        }
    }
    return false;
}

/* (x - mean) * inv_variance * scale + bias. A difference of the largest numbers leaves the type, so
 * it is one of halves, but behind a product, whose sums are smaller: libraries fuse one node. */
static void lower_inference(builder *b, const trp__dnn_node *node)
{
    const uint8_t *port = node->port;
    const uint8_t x = port[TRP__DNN_NORM_X], bias = port[TRP__DNN_NORM_BIAS];
    const bool halves = !is_of_product(b, x), shifted = bias != TRP__DNN_NO_PORT;
    uint8_t hat = x, mean = port[TRP__DNN_NORM_MEAN];
    if (halves) {
        const uint8_t half = add_value(b, node, 0.5);
        hat = computed(b, node, TRP_DNN_MUL, x, half, x);
        mean = computed(b, node, TRP_DNN_MUL, mean, half, x); /* of x's shape, to be fused */
    }
    hat = computed(b, node, TRP_DNN_SUB, hat, mean, x);
    hat = computed(b, node, TRP_DNN_MUL, hat, port[TRP__DNN_NORM_INV_VARIANCE], x);
    if (halves)
        hat = computed(b, node, TRP_DNN_ADD, hat, hat, x);
    const uint8_t scaled = shifted ? add_virtual(b, node, x) : port[TRP__DNN_NORM_Y];
    element_wise(b, node, TRP_DNN_MUL, hat, port[TRP__DNN_NORM_SCALE], scaled);
    if (shifted)
        element_wise(b, node, TRP_DNN_ADD, scaled, bias, port[TRP__DNN_NORM_Y]);
}

static void sum_over_rows(builder *b, const trp__dnn_node *node, uint8_t x, uint8_t y)
{
    if (y == TRP__DNN_NO_PORT)
        return;
    if (trp__dnn_elements(&b->tensor[x]) == trp__dnn_elements(&b->tensor[y]))
        element_wise(b, node, TRP_DNN_IDENTITY, x, TRP__DNN_NO_PORT, y);
    else
        reduce(b, node, TRP_DNN_SUM, x, y);
}

/* inv_variance * (g - [its mean] - hat * mean(g * hat)), where hat is the normalised x and g is dy
 * * scale; dscale is a sum of dy * hat. Differences are of halves: those of the largest numbers
 * leave f32. */
static void lower_slopes(builder *b, const trp__dnn_node *node)
{
    const uint8_t *port = node->port;
    const uint8_t x = port[TRP__DNN_NORM_X], dy = port[TRP__DNN_NORM_Y];
    const uint8_t mean = port[TRP__DNN_NORM_MEAN], inverse = port[TRP__DNN_NORM_INV_VARIANCE];
    const uint8_t half = add_value(b, node, 0.5), two = add_value(b, node, 2);
    const bool centred = mean != TRP__DNN_NO_PORT;
    const uint8_t middle = centred ? computed(b, node, TRP_DNN_MUL, mean, half, mean) : mean;
    uint8_t hat = computed(b, node, TRP_DNN_MUL, x, half, x);
    if (centred)
        hat = computed(b, node, TRP_DNN_SUB, hat, middle, x);
    hat = computed(b, node, TRP_DNN_MUL, hat, inverse, x);
    hat = computed(b, node, TRP_DNN_MUL, hat, two, x);
    const uint8_t part = computed(b, node, TRP_DNN_MUL, dy, hat, x);
    uint8_t g = computed(b, node, TRP_DNN_MUL, dy, half, x);
    g = computed(b, node, TRP_DNN_MUL, g, port[TRP__DNN_NORM_SCALE], x);
    const uint8_t product = computed(b, node, TRP_DNN_MUL, g, hat, x);
    const uint8_t slope = add_virtual(b, node, inverse);
    reduce(b, node, TRP_DNN_MEAN, product, slope);
    const uint8_t offset = centred ? add_virtual(b, node, inverse) : mean;
    if (centred)
        reduce(b, node, TRP_DNN_MEAN, g, offset);
    sum_over_rows(b, node, part, port[TRP__DNN_NORM_DSCALE]);
    sum_over_rows(b, node, dy, port[TRP__DNN_NORM_BIAS]);
    hat = computed(b, node, TRP_DNN_MUL, hat, slope, x);
    if (centred)
        g = computed(b, node, TRP_DNN_SUB, g, offset, x);
    g = computed(b, node, TRP_DNN_SUB, g, hat, x);
    g = computed(b, node, TRP_DNN_MUL, g, inverse, x);
    element_wise(b, node, TRP_DNN_MUL, g, two, port[TRP__DNN_NORM_DX]);
}

/* Tells whether a node sums products, which justifies a copy of irregular tensors to a layout that
 * the library accepts. */

static bool is_product(const trp__dnn_node *node)
{
    return node->kind <= TRP_DNN_MATMUL;
}

/* Returns the layout that most tensors of a node have; of a product of matrices rows, for channels
 * do not exist there. */
static trp__dnn_layout_kind layout_for(const builder *b, const trp__dnn_node *node)
{
    uint32_t votes[TRP__DNN_LAYOUTS] = {0};
    if (node->kind == TRP_DNN_MATMUL)
        return TRP__DNN_ROWS;
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        if (node->port[i] != TRP__DNN_NO_PORT)
            votes[trp__dnn_layout(&b->tensor[node->port[i]])]++;
    }
    return votes[TRP__DNN_CHANNELS_LAST] > votes[TRP__DNN_ROWS] ? TRP__DNN_CHANNELS_LAST
                                                                : TRP__DNN_ROWS;
}

/* To a tensor of another layout, of another type, or with the elements from `start` on of a larger
 * one. */
static void copy_tensor(builder *b, const trp__dnn_node *node, uint8_t from, uint8_t to,
                        const int32_t start[TRP__DNN_RANK])
{
    const int64_t there = trp__dnn_elements(&b->tensor[from]);
    const int64_t then = trp__dnn_elements(&b->tensor[to]);
    if (there == then) {
        element_wise(b, node, TRP_DNN_IDENTITY, from, TRP__DNN_NO_PORT, to);
        return;
    }
    trp__dnn_node *n = add_node(b, there < then ? TRP_DNN_CONCATENATE : TRP_DNN_SLICE,
                                there < then ? TRP__DNN_MARGINS : 0, node->compute);
    n->port[TRP__DNN_MOVE_X] = from;
    n->port[TRP__DNN_MOVE_Y] = to;
    memcpy(n->start, start, sizeof n->start);
    for (int i = 0; i < b->tensor[to].rank && there > then; i++)
        n->step[i] = 1;
}

/* Replaces a node's tensor by a packed one, with a copy if it is read. */
static void replace_port(builder *b, trp__dnn_node *node, int port, trp__dnn_tensor as,
                         trp__dnn_layout_kind layout, const int32_t start[TRP__DNN_RANK])
{
    uint8_t t = node->port[port];
    node->port[port] = add_packed_tensor(b, as, layout);
    if (!trp__dnn_kind_of(node->kind)->port[port].written)
        copy_tensor(b, node, t, node->port[port], start);
}

/* Adds a node of which some tensors were replaced, and copies its outputs back. */
static void add_packed(builder *b, const trp__dnn_node *packed, const trp__dnn_node *node,
                       const int32_t start[TRP__DNN_RANK])
{
    *add_node(b, TRP_DNN_NONE, 0, 0) = *packed;
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        if (packed->port[i] != node->port[i] && trp__dnn_kind_of(node->kind)->port[i].written)
            copy_tensor(b, node, packed->port[i], node->port[i], start);
    }
}

/* Tells whether a product is not for cuDNN and so needs no copy for it: cuBLASLt and own kernels
 * use the tensors in place. */
static bool is_product_of_ours(const builder *b, const trp__dnn_node *node)
{
    trp__dnn_head head = b->head;
    const trp__dnn_graph graph = {.head = &head, .tensor = b->tensor, .node = node};
    trp__dnn_product product;
    head.nodes = 1;
    return node->kind == TRP_DNN_MATMUL && trp__dnn_product_of(&graph, 0, 1, &product) &&
           trp__dnn_prefers_product(&graph, 0, &product);
}

/* A reshape of tensors that both have gaps is none of two views: elements are packed in between. */
static void lower_reshape(builder *b, const trp__dnn_node *node)
{
    const trp__dnn_tensor *x = &b->tensor[node->port[TRP__DNN_MOVE_X]];
    const trp__dnn_tensor *y = &b->tensor[node->port[TRP__DNN_MOVE_Y]];
    trp__dnn_node first = *node, second = *node;
    if (!trp__dnn_same_dims(x, y) && !trp__dnn_is_packed(x) && !trp__dnn_is_packed(y)) {
        second.port[TRP__DNN_MOVE_X] = add_packed_tensor(b, *x, TRP__DNN_ROWS);
        first.port[TRP__DNN_MOVE_Y] = second.port[TRP__DNN_MOVE_X];
        *add_node(b, TRP_DNN_NONE, 0, 0) = first;
    }
    *add_node(b, TRP_DNN_NONE, 0, 0) = second;
}

/* Products as libraries take them. */

/* Pads alike on both sides: what is more on one side becomes part of the image, which begins at
 * `start` then. */
static void pad_alike(trp__dnn_node *node, trp__dnn_tensor *image, int32_t start[TRP__DNN_RANK])
{
    for (int i = 0; i < node->spatial; i++) {
        const int32_t pre = node->pre_pad[i], post = node->post_pad[i];
        const int32_t both = pre < post ? pre : post;
        image->dim[2 + i] += (int64_t)pre + post - 2 * both;
        start[2 + i] = pre - both;
        node->pre_pad[i] = node->post_pad[i] = both;
    }
}

static void lower_product(builder *b, const trp__dnn_node *node, trp__dnn_lowering lowering)
{
    const trp__dnn_layout_kind layout = layout_for(b, node);
    const bool alike = (lowering == TRP__DNN_LOWER_ALIKE || lowering == TRP__DNN_LOWER_F32) &&
                       trp__lower_has_wider_type(b->tensor, node);
    trp__dnn_node product = *node;
    int32_t start[TRP__DNN_RANK] = {0};
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        const uint8_t t = node->port[i];
        if (t == TRP__DNN_NO_PORT)
            continue;
        trp__dnn_tensor as = b->tensor[t];
        if (alike)
            as.type = trp__lower_type_alike(b->tensor, node, i, lowering);
        if (alike && i == TRP__DNN_CONV_X && node->kind < TRP_DNN_MATMUL)
            pad_alike(&product, &as, start);
        if (as.type != b->tensor[t].type ||
            trp__dnn_elements(&as) != trp__dnn_elements(&b->tensor[t]) ||
            !trp__dnn_is_regular(&b->tensor[t], node))
            replace_port(b, &product, i, as, layout, start);
    }
    add_packed(b, &product, node, start);
}

/* Norms and pooling of types that no kernel takes run in f32, between conversions. */

/* Returns whether it has added the node. */
static bool lower_types(builder *b, const trp__dnn_node *node)
{
    static const int32_t whole[TRP__DNN_RANK] = {0};
    trp__dnn_node as_f32 = *node;
    bool any = false;
    if (node->kind < TRP_DNN_RESAMPLE_FORWARD || node->kind > TRP_DNN_NORM_BACKWARD ||
        node->compute != TRP_F32)
        return false;
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        if (!trp__lower_is_converted(b->tensor, node, i))
            continue;
        trp__dnn_tensor as = b->tensor[node->port[i]];
        as.type = TRP_F32;
        replace_port(b, &as_f32, i, as, layout_for(b, node), whole);
        any = true;
    }
    if (any)
        add_packed(b, &as_f32, node, whole);
    return any;
}

/* Attention: adds the numbers and the memory that its operations need. */

static uint8_t add_integer(builder *b, const trp__dnn_node *node, int64_t value)
{
    uint8_t number = add_value(b, node, (double)value);
    b->tensor[number].type = TRP_I32;
    return number;
}

/* Adds an accumulator of the library, which must be packed memory and not an inside tensor. */
static uint8_t add_sums(builder *b, const trp__dnn_node *node, uint8_t like, int64_t columns)
{
    trp__dnn_tensor t = b->tensor[like];
    t.dim[3] = columns;
    t.type = node->compute;
    return add_packed_tensor(b, t, TRP__DNN_ROWS);
}

static void lower_attention(builder *b, const trp__dnn_node *node)
{
    static const int32_t whole[TRP__DNN_RANK] = {0};
    trp__dnn_node lowered = *node, *n = &lowered;
    const uint8_t q = node->port[TRP__DNN_ATTENTION_Q], k = node->port[TRP__DNN_ATTENTION_K];
    const int64_t rows = b->tensor[q].dim[2], columns = b->tensor[k].dim[2];
    bool low = node->mode == TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT;
    bool lengths = node->port[TRP__DNN_ATTENTION_SEQ_Q] != TRP__DNN_NO_PORT;
    n->port[TRP__DNN_ATTENTION_SEED] = TRP__DNN_NO_PORT; /* no random numbers */
    n->port[TRP__DNN_ATTENTION_OFFSET] = TRP__DNN_NO_PORT;
    for (int i = 0; i < TRP__DNN_ATTENTION_SEED; i++) {
        if (node->port[i] != TRP__DNN_NO_PORT &&
            !trp__dnn_fits_attention(&b->tensor[node->port[i]], i))
            replace_port(b, n, i, b->tensor[node->port[i]], TRP__DNN_ROWS, whole);
    }
    n->port[TRP__DNN_ATTENTION_SCALE] = add_value(b, node, node->parameter[0]);
    if (node->mode != TRP_DNN_MASK_NONE || node->window[0] != 0 || lengths)
        n->port[TRP__DNN_ATTENTION_MASKED] = add_value(b, node, -INFINITY);
    if (low && !lengths) {
        n->port[TRP__DNN_ATTENTION_SIZE_Q] = add_integer(b, node, rows);
        n->port[TRP__DNN_ATTENTION_SIZE_KV] = add_integer(b, node, columns);
    }
    if (node->window[0] != 0 && low && lengths)
        n->port[TRP__DNN_ATTENTION_REACH] = add_integer(b, node, node->window[0]);
    else if (node->window[0] != 0)
        n->port[TRP__DNN_ATTENTION_REACH] =
            add_value(b, node, (double)(node->window[0] + (low ? rows - columns : 0)));
    bool backward = node->kind == TRP_DNN_ATTENTION_BACKWARD;
    if (backward) {
        n->port[TRP__DNN_ATTENTION_ONE] = add_value(b, node, 1);
        n->port[TRP__DNN_ATTENTION_MEANS] = add_sums(b, node, q, 1);
    }
    if (backward && !b->head.deterministic &&
        node->port[TRP__DNN_ATTENTION_DBIAS] == TRP__DNN_NO_PORT)
        n->port[TRP__DNN_ATTENTION_SUM_DQ] = add_sums(b, node, q, b->tensor[q].dim[3]);
    add_packed(b, n, node, whole);
}

/* Sets irrelevant strides. The library determines layouts also by the strides of dimensions of 1:
 * all tensors that allow it get a common layout, channels fastest if any requires it. So do virtual
 * tensors, whose layout is free. */
static void tidy_strides(builder *b)
{
    trp__dnn_layout_kind first = TRP__DNN_ROWS, second = TRP__DNN_CHANNELS_LAST;
    for (uint32_t i = 0; i < b->head.tensors; i++) {
        if (trp__dnn_layout(&b->tensor[i]) == TRP__DNN_CHANNELS_LAST) {
            first = TRP__DNN_CHANNELS_LAST;
            second = TRP__DNN_ROWS;
        }
    }
    for (uint32_t i = 0; i < b->head.tensors; i++) {
        uint32_t layouts = trp__dnn_layouts(&b->tensor[i]);
        if (layouts & 1u << first)
            trp__dnn_lay_out(&b->tensor[i], first);
        else if (layouts & 1u << second)
            trp__dnn_lay_out(&b->tensor[i], second);
        else if (layouts == 0 && b->tensor[i].role == TRP__DNN_VIRTUAL)
            trp__dnn_lay_out(&b->tensor[i], first);
    }
}

static bool is_empty(const builder *b, const trp__dnn_node *node)
{
    for (int i = 0; i < TRP__DNN_PORTS; i++) {
        if (node->port[i] != TRP__DNN_NO_PORT && trp__dnn_elements(&b->tensor[node->port[i]]) == 0)
            return true;
    }
    return false;
}

static void lower_node(builder *b, const trp__dnn_node *node, trp__dnn_lowering lowering)
{
    if (lowering == TRP__DNN_LOWER_ALIKE && !is_empty(b, node) && lower_types(b, node))
        return;
    if (is_empty(b, node))
        *add_node(b, TRP_DNN_NONE, 0, 0) = *node;
    else if (node->kind == TRP_DNN_REDUCTION && node->compute != TRP_F64 &&
             trp__dnn_keeps_range(node))
        lower_reduction(b, node);
    else if (node->kind == TRP_DNN_NORM_INFERENCE && node->mode == TRP_DNN_BATCH &&
             trp__dnn_layout(&b->tensor[node->port[TRP__DNN_NORM_X]]) == TRP__DNN_CHANNELS_LAST)
        lower_inference(b, node);
    else if (is_product(node) && !is_product_of_ours(b, node))
        lower_product(b, node, lowering);
    else if (trp__dnn_is_attention(node) && !trp__dnn_attention_refusal(b->tensor, node))
        lower_attention(b, node);
    else if (lowering == TRP__DNN_LOWER_SLOPES && node->kind == TRP_DNN_NORM_BACKWARD &&
             node->compute == TRP_F32 && (node->mode == TRP_DNN_LAYER || node->mode == TRP_DNN_RMS))
        lower_slopes(b, node);
    else if (node->kind == TRP_DNN_RESHAPE)
        lower_reshape(b, node);
    else if (node->kind == TRP_DNN_STATISTICS && lowering == TRP__DNN_LOWER_MORE)
        lower_statistics(b, node);
    else
        *add_node(b, TRP_DNN_NONE, 0, 0) = *node;
}

static char *put(char *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return to + bytes;
}

static trp_status take(const builder *b, trp__dnn_lowered *out, trp_error *error)
{
    out->bytes = calloc(1, trp__dnn_bytes(&b->head));
    if (!out->bytes)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a graph");
    char *at = put(out->bytes, &b->head, sizeof b->head);
    at = put(at, b->tensor, b->head.tensors * sizeof *b->tensor);
    at = put(at, b->node, b->head.nodes * sizeof *b->node);
    at = put(at, b->value, b->head.tensors * sizeof *b->value);
    put(at, b->access, b->head.tensors);
    out->graph = trp__dnn_graph_at(out->bytes);
    return TRP_OK;
}

trp_status trp__dnn_lower(const trp__dnn_graph *graph, trp__dnn_lowering lowering,
                          trp__dnn_lowered *out, trp_error *error)
{
    trp_status status;
    uint32_t tensors = graph->head->tensors;
    builder *b = calloc(1, sizeof *b);
    *out = (trp__dnn_lowered){.lowering = lowering};
    if (!b)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a graph");
    b->head = *graph->head;
    b->head.nodes = 0;
    memcpy(b->tensor, graph->tensor, tensors * sizeof *b->tensor);
    memcpy(b->value, graph->value, tensors * sizeof *b->value);
    memcpy(b->access, graph->access, tensors);
    tidy_strides(b);
    for (uint32_t n = 0; n < graph->head->nodes; n++)
        lower_node(b, &graph->node[n], lowering);
    status = b->full
                 ? trp__error_set(error, TRP_E_UNSUPPORTED,
                                  "a graph that is of more than %d nodes or %d tensors for cuDNN",
                                  TRP__DNN_LOWERED_NODES, TRP__DNN_LOWERED_TENSORS)
                 : take(b, out, error);
    free(b);
    return status;
}

void trp__dnn_lowered_drop(trp__dnn_lowered *lowered)
{
    free(lowered->bytes);
    *lowered = (trp__dnn_lowered){0};
}

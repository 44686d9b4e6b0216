/* The kernels of node.h. They are compiled by NVRTC on the machine that they run on; and as C by
 * tests, one thread after the other. Whoever includes this defines
 *
 *     TRP__KERNEL                   what stands before a kernel
 *     TRP__SHARED                   and before what the threads of a block share
 *     TRP__SYNC()                   they wait for each other
 *     TRP__THREAD, TRP__THREADS     this one, and how many a block has: a power of two
 *     TRP__BLOCK, TRP__BLOCKS
 */
#ifndef TRP_ACTORS_DNN_REFERENCE_KERNELS_H
#define TRP_ACTORS_DNN_REFERENCE_KERNELS_H

#include "actors/dnn/reference/node.h"
#include "actors/dnn/math/dropout.h"
#include "actors/dnn/math/functions.h"
#include "base/half.h"
#include "base/narrow.h"

#include <math.h>
#include <string.h>

enum { DIMS = TRP__DNN_SPATIAL };

/* The number of thing `n`: a proof wants only some of them. */
static int64_t picked(const trp__direct *d, int64_t n)
{
    return d->sample ? d->sample[n] : n;
}

/* One of `count` things for each thread, or for each block, of a kernel whose parameter is d. */
#define FOR_THREADS(i, count)                                                                      \
    for (int64_t i##_at = (int64_t)TRP__BLOCK * TRP__THREADS + TRP__THREAD, i = 0;                 \
         i##_at < (count) && (i = picked(&d, i##_at), true);                                       \
         i##_at += (int64_t)TRP__BLOCKS * TRP__THREADS)
#define FOR_BLOCKS(i, count)                                                                       \
    for (int64_t i##_at = TRP__BLOCK, i = 0; i##_at < (count) && (i = picked(&d, i##_at), true);   \
         i##_at += TRP__BLOCKS)
#define FOR_IN_BLOCK(i, count) for (int64_t i = TRP__THREAD; i < (count); i += TRP__THREADS)

/* --- Elements --- */

static double to_integer(double value, double least, double most)
{
    double nearest = rint(value);
    return nearest != nearest ? 0 : nearest < least ? least : nearest > most ? most : nearest;
}

static double load(const trp__direct *d, int port, int64_t at)
{
    const void *from = d->at[port];
    if (!from)
        return d->value[port];
    switch (d->tensor[port].type) {
    case TRP_F64:
        return ((const double *)from)[at];
    case TRP_F32:
        return (double)((const float *)from)[at];
    case TRP_F16:
        return (double)trp__f16_to_f32(((const uint16_t *)from)[at]);
    case TRP_BF16:
        return (double)trp__bf16_to_f32(((const uint16_t *)from)[at]);
    case TRP_F8E4M3:
        return (double)trp__f8e4m3_to_f32(((const uint8_t *)from)[at]);
    case TRP_F8E5M2:
        return (double)trp__f8e5m2_to_f32(((const uint8_t *)from)[at]);
    case TRP_F8E8M0:
        return (double)trp__ue8m0_to_f32(((const uint8_t *)from)[at]);
    case TRP_I8:
        return ((const int8_t *)from)[at];
    case TRP_I32:
        return ((const int32_t *)from)[at];
    case TRP_BOOL:
        return ((const uint8_t *)from)[at] != 0;
    default: /* u8 */
        return ((const uint8_t *)from)[at];
    }
}

static void store(const trp__direct *d, int port, int64_t at, double value)
{
    void *to = d->at[port];
    switch (d->tensor[port].type) {
    case TRP_F64:
        ((double *)to)[at] = value;
        break;
    case TRP_F32:
        ((float *)to)[at] = (float)value;
        break;
    case TRP_F16:
        ((uint16_t *)to)[at] = trp__f64_to_f16(value);
        break;
    case TRP_BF16:
        ((uint16_t *)to)[at] = trp__f64_to_bf16(value);
        break;
    case TRP_F8E4M3:
        ((uint8_t *)to)[at] = trp__f32_to_f8e4m3(trp__f64_to_f32_odd(value));
        break;
    case TRP_F8E5M2:
        ((uint8_t *)to)[at] = trp__f32_to_f8e5m2(trp__f64_to_f32_odd(value));
        break;
    case TRP_F8E8M0: /* powers of two alone are stored as one */
        ((uint8_t *)to)[at] = trp__f32_to_ue8m0((float)value);
        break;
    case TRP_I8:
        ((int8_t *)to)[at] = (int8_t)to_integer(value, INT8_MIN, INT8_MAX);
        break;
    case TRP_I32:
        ((int32_t *)to)[at] = (int32_t)to_integer(value, INT32_MIN, INT32_MAX);
        break;
    case TRP_BOOL:
        ((uint8_t *)to)[at] = value != 0; /* as AND, OR and SELECT have it; so a NaN too */
        break;
    default: /* u8 */
        ((uint8_t *)to)[at] = (uint8_t)to_integer(value, 0, UINT8_MAX);
    }
}

/* --- Places --- */

/* Where the element with a number is, of those of the dimensions. */
static void position(const trp__dnn_tensor *shape, int64_t number, int64_t *at)
{
    for (int i = shape->rank - 1; i >= 0; i--) {
        at[i] = number % shape->dim[i];
        number /= shape->dim[i];
    }
}

/* The same, of those dimensions that are 1 in another tensor: the others stay. */
static void position_within(const trp__dnn_tensor *shape, const trp__dnn_tensor *group,
                            int64_t number, int64_t *at)
{
    for (int i = shape->rank - 1; i >= 0; i--) {
        if (group->dim[i] != 1)
            continue;
        at[i] = number % shape->dim[i];
        number /= shape->dim[i];
    }
}

/* How far an element is from the first. Dimensions of 1 go with any, and what has another rank is
 * one element. */
static int64_t offset(const trp__dnn_tensor *t, int rank, const int64_t *at)
{
    int64_t sum = 0;
    for (int i = 0; i < rank && t->rank == rank; i++)
        sum += t->dim[i] == 1 ? 0 : at[i] * t->stride[i];
    return sum;
}

static int64_t elements(const trp__dnn_tensor *t)
{
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++)
        count *= t->dim[i];
    return count;
}

/* --- What a block finds together --- */

static double combine(uint8_t mode, double x, double y)
{
    return mode == TRP_DNN_LEAST || mode == TRP_DNN_MOST || mode == TRP_DNN_AMAX ||
                   mode == TRP_DNN_PRODUCT
               ? trp__dnn_reduce_next(mode, x, y)
               : x + y;
}

static double of_block(uint8_t mode, double x)
{
    TRP__SHARED double part[TRP__DIRECT_THREADS];
    TRP__SYNC(); /* what was found before has been read */
    part[TRP__THREAD] = x;
    TRP__SYNC();
    for (int half = TRP__THREADS / 2; half > 0; half /= 2) {
        if (TRP__THREAD < half)
            part[TRP__THREAD] = combine(mode, part[TRP__THREAD], part[TRP__THREAD + half]);
        TRP__SYNC();
    }
    return part[0];
}

static double sum_of_block(double x)
{
    return of_block(TRP_DNN_SUM, x);
}

/* --- Element by element --- */

TRP__KERNEL void trp_direct_pointwise(const trp__direct d)
{
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_POINTWISE_Y];
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double in[3] = {0, 0, 0};
        position(y, i, at);
        for (int k = 0; k < 3; k++) {
            const int port = TRP__DNN_POINTWISE_X + k;
            if (d.used[port])
                in[k] = load(&d, port, offset(&d.tensor[port], y->rank, at));
        }
        store(&d, TRP__DNN_POINTWISE_Y, offset(y, y->rank, at),
              trp__dnn_pointwise_value(&d.node, in[0], in[1], in[2]));
    }
}

/* --- Data that moves --- */

/* Where the element at a position of y comes from; the position becomes that in x. */
static int source_of(const trp__direct *d, int64_t number, int64_t *at)
{
    const trp__dnn_node *n = &d->node;
    int64_t to[TRP__DNN_RANK];
    int port = TRP__DNN_MOVE_X;
    if (n->kind == TRP_DNN_RESHAPE)
        position(&d->tensor[port], number, at);
    if (n->kind == TRP_DNN_CONCATENATE) {
        for (;; port++) {
            const int64_t size = d->used[port] ? d->tensor[port].dim[n->mode] : 0;
            if (at[n->mode] < size)
                break;
            at[n->mode] -= size;
        }
    }
    for (int i = 0; i < d->tensor[TRP__DNN_MOVE_Y].rank; i++)
        to[i] = at[i];
    for (int i = 0; i < d->tensor[port].rank; i++) {
        if (n->kind == TRP_DNN_SLICE)
            at[i] = n->start[i] + to[i] * n->step[i];
        if (n->kind == TRP_DNN_TRANSPOSE)
            at[n->start[i]] = to[i];
    }
    return port;
}

TRP__KERNEL void trp_direct_move(const trp__direct d)
{
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_MOVE_Y];
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        position(y, i, at);
        const int64_t to = offset(y, y->rank, at);
        const int port = source_of(&d, i, at);
        store(&d, TRP__DNN_MOVE_Y, to,
              load(&d, port, offset(&d.tensor[port], d.tensor[port].rank, at)));
    }
}

TRP__KERNEL void trp_direct_gradient(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_GRADIENT_X];
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        position(x, i, at);
        double in = load(&d, TRP__DNN_GRADIENT_X, offset(x, x->rank, at));
        double dy =
            load(&d, TRP__DNN_GRADIENT_DY, offset(&d.tensor[TRP__DNN_GRADIENT_DY], x->rank, at));
        store(&d, TRP__DNN_GRADIENT_DX, offset(&d.tensor[TRP__DNN_GRADIENT_DX], x->rank, at),
              trp__dnn_activation_gradient(&d.node, in, dy));
    }
}

/* --- Sums --- */

/* A block reduces all values times a factor to the element of y at a position. */
static double reduced(const trp__direct *d, uint8_t mode, int64_t group, int64_t *at, double factor)
{
    const trp__dnn_tensor *x = &d->tensor[TRP__DNN_REDUCTION_X];
    const trp__dnn_tensor *y = &d->tensor[TRP__DNN_REDUCTION_Y];
    double sum = trp__dnn_reduce_first(mode);
    FOR_IN_BLOCK(i, group)
    {
        position_within(x, y, i, at);
        const double value = load(d, TRP__DNN_REDUCTION_X, offset(x, x->rank, at));
        sum = trp__dnn_reduce_next(mode, sum, value * factor);
    }
    return of_block(mode, sum);
}

/* An element of y for each block. f64 holds the sums of all other types. */
TRP__KERNEL void trp_direct_reduction(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_REDUCTION_X];
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_REDUCTION_Y];
    const uint8_t mode = d.node.mode;
    const int64_t group = elements(x) / elements(y);
    FOR_BLOCKS(b, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double factor = 1;
        position(y, b, at);
        double sum = reduced(&d, mode, group, at, factor);
        if (x->type == TRP_F64 && trp__dnn_reduce_left_range(mode, sum)) {
            factor = trp__dnn_near_one(reduced(&d, TRP_DNN_AMAX, group, at, 1));
            sum = reduced(&d, mode, group, at, factor);
        }
        position(y, b, at);
        if (TRP__THREAD == 0)
            store(&d, TRP__DNN_REDUCTION_Y, offset(y, y->rank, at),
                  trp__dnn_reduce_last(mode, sum, group) / factor);
    }
}

TRP__KERNEL void trp_direct_statistics(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_STATISTICS_X];
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_STATISTICS_SUM];
    const int64_t group = elements(x) / elements(y);
    FOR_BLOCKS(b, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double sum = 0, squares = 0;
        position(y, b, at);
        FOR_IN_BLOCK(i, group)
        {
            position_within(x, y, i, at);
            double value = load(&d, TRP__DNN_STATISTICS_X, offset(x, x->rank, at));
            sum += value;
            squares += value * value;
        }
        sum = sum_of_block(sum);
        squares = sum_of_block(squares);
        position(y, b, at);
        if (TRP__THREAD == 0) {
            store(&d, TRP__DNN_STATISTICS_SUM, offset(y, y->rank, at), sum);
            store(&d, TRP__DNN_STATISTICS_SQUARE_SUM,
                  offset(&d.tensor[TRP__DNN_STATISTICS_SQUARE_SUM], y->rank, at), squares);
        }
    }
}

TRP__KERNEL void trp_direct_matmul(const trp__direct d)
{
    const trp__dnn_tensor *a = &d.tensor[TRP__DNN_MATMUL_A], *b = &d.tensor[TRP__DNN_MATMUL_B];
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_MATMUL_Y];
    const int rank = y->rank;
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double sum = 0;
        position(y, i, at);
        const int64_t row = at[rank - 2], column = at[rank - 1];
        at[rank - 1] = 0;
        int64_t of_a = offset(a, rank, at);
        at[rank - 2] = 0;
        at[rank - 1] = column;
        int64_t of_b = offset(b, rank, at);
        for (int64_t k = 0; k < a->dim[rank - 1]; k++)
            sum += load(&d, TRP__DNN_MATMUL_A, of_a + k * a->stride[rank - 1]) *
                   load(&d, TRP__DNN_MATMUL_B, of_b + k * b->stride[rank - 2]);
        at[rank - 2] = row;
        store(&d, TRP__DNN_MATMUL_Y, offset(y, rank, at), sum);
    }
}

/* --- Windows: of convolutions and pooling --- */

/* Three dimensions, the first ones filled up. */
typedef struct window {
    int64_t in[DIMS], out[DIMS], taps[DIMS];
    int64_t in_stride[DIMS], out_stride[DIMS], tap_stride[DIMS]; /* of the tensors in memory */
    int64_t pad[DIMS], stride[DIMS], dilation[DIMS];
} window;

static window window_of(const trp__direct *d, const trp__dnn_tensor *in, const trp__dnn_tensor *w,
                        const trp__dnn_tensor *out)
{
    window x;
    for (int i = 0; i < DIMS; i++) {
        const int from = i - (DIMS - d->node.spatial);
        const bool there = from >= 0;
        x.in[i] = there ? in->dim[2 + from] : 1;
        x.out[i] = there ? out->dim[2 + from] : 1;
        x.taps[i] = !there ? 1 : w ? w->dim[2 + from] : d->node.window[from];
        x.in_stride[i] = there ? in->stride[2 + from] : 0;
        x.out_stride[i] = there ? out->stride[2 + from] : 0;
        x.tap_stride[i] = there && w ? w->stride[2 + from] : 0;
        x.pad[i] = there ? d->node.pre_pad[from] : 0;
        x.stride[i] = there ? d->node.stride[from] : 1;
        x.dilation[i] = there && w ? d->node.dilation[from] : 1;
    }
    return x;
}

/* The coordinates of number `i` of a box. */
static void unfold(int64_t i, const int64_t size[DIMS], int64_t at[DIMS])
{
    for (int k = DIMS - 1; k >= 0; k--) {
        at[k] = i % size[k];
        i /= size[k];
    }
}

static int64_t volume(const int64_t size[DIMS])
{
    return size[0] * size[1] * size[2];
}

static int64_t along(const int64_t at[DIMS], const int64_t stride[DIMS])
{
    return at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2];
}

/* What a place of the output meets with a tap; false: the padding. */
static bool met(const window *w, const int64_t out[DIMS], const int64_t tap[DIMS], int64_t in[DIMS])
{
    bool inside = true;
    for (int k = 0; k < DIMS; k++) {
        in[k] = out[k] * w->stride[k] - w->pad[k] + tap[k] * w->dilation[k];
        inside = inside && in[k] >= 0 && in[k] < w->in[k];
    }
    return inside;
}

/* The place of the output that meets this one with a tap; false: none does. */
static bool meets(const window *w, const int64_t in[DIMS], const int64_t tap[DIMS],
                  int64_t out[DIMS])
{
    bool inside = true;
    for (int k = 0; k < DIMS; k++) {
        int64_t away = in[k] + w->pad[k] - tap[k] * w->dilation[k];
        out[k] = away / w->stride[k];
        inside = inside && away >= 0 && away % w->stride[k] == 0 && out[k] < w->out[k];
    }
    return inside;
}

/* Where the filter has the number that stands at a tap. */
static int64_t weight_at(const trp__direct *d, const window *w, const int64_t tap[DIMS])
{
    int64_t sum = 0;
    for (int k = 0; k < DIMS; k++)
        sum += (d->node.mode ? w->taps[k] - 1 - tap[k] : tap[k]) * w->tap_stride[k];
    return sum;
}

TRP__KERNEL void trp_direct_conv_forward(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_CONV_X], *w = &d.tensor[TRP__DNN_CONV_W];
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_CONV_Y];
    const window v = window_of(&d, x, w, y);
    const int64_t out_volume = volume(v.out), taps = volume(v.taps), channels = w->dim[1];
    const int64_t filters = w->dim[0] / (x->dim[1] / channels); /* of a group */
    FOR_THREADS(i, d.count)
    {
        const int64_t n = i / out_volume / w->dim[0], k = i / out_volume % w->dim[0];
        int64_t out[DIMS], tap[DIMS], in[DIMS];
        double sum = 0;
        unfold(i % out_volume, v.out, out);
        for (int64_t t = 0; t < taps; t++) {
            unfold(t, v.taps, tap);
            if (!met(&v, out, tap, in))
                continue;
            int64_t of_x =
                n * x->stride[0] + k / filters * channels * x->stride[1] + along(in, v.in_stride);
            int64_t of_w = k * w->stride[0] + weight_at(&d, &v, tap);
            for (int64_t c = 0; c < channels; c++)
                sum += load(&d, TRP__DNN_CONV_X, of_x + c * x->stride[1]) *
                       load(&d, TRP__DNN_CONV_W, of_w + c * w->stride[1]);
        }
        store(&d, TRP__DNN_CONV_Y, n * y->stride[0] + k * y->stride[1] + along(out, v.out_stride),
              sum);
    }
}

TRP__KERNEL void trp_direct_conv_backward_data(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_CONV_X], *w = &d.tensor[TRP__DNN_CONV_W];
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_CONV_Y];
    const window v = window_of(&d, x, w, y);
    const int64_t in_volume = volume(v.in), taps = volume(v.taps), channels = w->dim[1];
    const int64_t filters = w->dim[0] / (x->dim[1] / channels);
    FOR_THREADS(i, d.count)
    {
        const int64_t n = i / in_volume / x->dim[1], c = i / in_volume % x->dim[1];
        const int64_t first = c / channels * filters; /* filter of the group */
        int64_t in[DIMS], tap[DIMS], out[DIMS];
        double sum = 0;
        unfold(i % in_volume, v.in, in);
        for (int64_t t = 0; t < taps; t++) {
            unfold(t, v.taps, tap);
            if (!meets(&v, in, tap, out))
                continue;
            int64_t of_y = n * y->stride[0] + first * y->stride[1] + along(out, v.out_stride);
            int64_t of_w =
                first * w->stride[0] + c % channels * w->stride[1] + weight_at(&d, &v, tap);
            for (int64_t k = 0; k < filters; k++)
                sum += load(&d, TRP__DNN_CONV_Y, of_y + k * y->stride[1]) *
                       load(&d, TRP__DNN_CONV_W, of_w + k * w->stride[0]);
        }
        store(&d, TRP__DNN_CONV_X, n * x->stride[0] + c * x->stride[1] + along(in, v.in_stride),
              sum);
    }
}

/* An element of the filter for each block. */
TRP__KERNEL void trp_direct_conv_backward_filter(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_CONV_X], *w = &d.tensor[TRP__DNN_CONV_W];
    const trp__dnn_tensor *y = &d.tensor[TRP__DNN_CONV_Y];
    const window v = window_of(&d, x, w, y);
    const int64_t out_volume = volume(v.out), taps = volume(v.taps), channels = w->dim[1];
    const int64_t filters = w->dim[0] / (x->dim[1] / channels);
    FOR_BLOCKS(i, d.count)
    {
        const int64_t k = i / taps / channels, c = i / taps % channels;
        const int64_t channel = k / filters * channels + c;
        int64_t tap[DIMS], out[DIMS], in[DIMS];
        double sum = 0;
        unfold(i % taps, v.taps, tap);
        FOR_IN_BLOCK(p, x->dim[0] * out_volume)
        {
            const int64_t n = p / out_volume;
            unfold(p % out_volume, v.out, out);
            if (met(&v, out, tap, in))
                sum += load(&d, TRP__DNN_CONV_X,
                            n * x->stride[0] + channel * x->stride[1] + along(in, v.in_stride)) *
                       load(&d, TRP__DNN_CONV_Y,
                            n * y->stride[0] + k * y->stride[1] + along(out, v.out_stride));
        }
        sum = sum_of_block(sum);
        if (TRP__THREAD == 0)
            store(&d, TRP__DNN_CONV_W, k * w->stride[0] + c * w->stride[1] + weight_at(&d, &v, tap),
                  sum);
    }
}

/* --- Pooling --- */

/* Which tap of a window has the largest element, `base` from the tensor's first; the first of
 * several, and the first NaN. -1: there is only padding. */
static int64_t largest(const trp__direct *d, int port, const window *v, int64_t base,
                       const int64_t stride[DIMS], const int64_t out[DIMS], double *value)
{
    int64_t best = -1, tap[DIMS], in[DIMS];
    double most = 0;
    for (int64_t t = 0; t < volume(v->taps); t++) {
        unfold(t, v->taps, tap);
        if (!met(v, out, tap, in))
            continue;
        double x = load(d, port, base + along(in, stride));
        if (best < 0 || (most == most && !(x <= most))) {
            best = t;
            most = x;
        }
    }
    *value = most;
    return best;
}

/* By what the sum over a window is divided. Padding that is said counts in AVERAGE_PADDED; that
 * which is there because the size of the output was rounded up never does. */
static double divisor(const trp__direct *d, const window *v, const int64_t out[DIMS])
{
    int64_t count = 1;
    for (int k = 0; k < DIMS; k++) {
        const int from = k - (DIMS - d->node.spatial);
        const bool padded = d->node.mode == TRP_DNN_POOL_AVERAGE_PADDED && from >= 0;
        const int64_t most = v->in[k] + (padded ? d->node.post_pad[from] : 0);
        int64_t first = out[k] * v->stride[k] - v->pad[k], end = first + v->taps[k];
        first = first > 0 || padded ? first : 0;
        end = end < most ? end : most;
        count *= end > first ? end - first : 0;
    }
    return (double)count;
}

/* Sums a window, each element times a factor. */
static double window_sum(const trp__direct *d, const window *v, int64_t base,
                         const int64_t out[DIMS], double factor)
{
    int64_t tap[DIMS], in[DIMS];
    double sum = 0;
    for (int64_t t = 0; t < volume(v->taps); t++) {
        unfold(t, v->taps, tap);
        if (met(v, out, tap, in))
            sum += factor * load(d, TRP__DNN_RESAMPLE_X, base + along(in, v->in_stride));
    }
    return sum;
}

TRP__KERNEL void trp_direct_pool(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_RESAMPLE_X], *y = &d.tensor[TRP__DNN_RESAMPLE_Y];
    const window v = window_of(&d, x, NULL, y);
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK], out[DIMS];
        double value = 0;
        position(y, i, at);
        unfold(i % volume(v.out), v.out, out);
        const int64_t base = at[0] * x->stride[0] + at[1] * x->stride[1];
        if (d.node.mode == TRP_DNN_POOL_MAX) {
            int64_t best = largest(&d, TRP__DNN_RESAMPLE_X, &v, base, v.in_stride, out, &value);
            if (best < 0)
                value = -INFINITY;
            if (d.used[TRP__DNN_RESAMPLE_INDEX])
                store(&d, TRP__DNN_RESAMPLE_INDEX,
                      offset(&d.tensor[TRP__DNN_RESAMPLE_INDEX], y->rank, at), (double)best);
        } else {
            const double count = divisor(&d, &v, out);
            value = window_sum(&d, &v, base, out, 1);
            if (isinf(value)) /* the mean may be finite all the same */
                value = window_sum(&d, &v, base, out, 1 / count);
            else
                value = count > 0 ? value / count : 0;
        }
        store(&d, TRP__DNN_RESAMPLE_Y, offset(y, y->rank, at), value);
    }
}

/* Each element of dx looks for the windows that it is in. */
TRP__KERNEL void trp_direct_pool_backward(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_RESAMPLE_X], *y = &d.tensor[TRP__DNN_RESAMPLE_Y];
    const trp__dnn_tensor *old = &d.tensor[TRP__DNN_RESAMPLE_OLD_X];
    const trp__dnn_tensor *index = &d.tensor[TRP__DNN_RESAMPLE_INDEX];
    const bool given = d.used[TRP__DNN_RESAMPLE_INDEX];
    const window v = window_of(&d, x, NULL, y);
    int64_t old_stride[DIMS];
    for (int i = 0; i < DIMS; i++) {
        const int from = i - (DIMS - d.node.spatial);
        old_stride[i] = from >= 0 && d.used[TRP__DNN_RESAMPLE_OLD_X] ? old->stride[2 + from] : 0;
    }
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK], in[DIMS], tap[DIMS], out[DIMS];
        double sum = 0;
        position(x, i, at);
        unfold(i % volume(v.in), v.in, in);
        for (int64_t t = 0; t < volume(v.taps); t++) {
            double most;
            unfold(t, v.taps, tap);
            if (!meets(&v, in, tap, out))
                continue;
            for (int k = 0; k < d.node.spatial; k++)
                at[2 + k] = out[DIMS - d.node.spatial + k];
            double dy = load(&d, TRP__DNN_RESAMPLE_Y, offset(y, y->rank, at));
            if (d.node.mode != TRP_DNN_POOL_MAX)
                sum += dy / divisor(&d, &v, out);
            else if ((given ? (int64_t)load(&d, TRP__DNN_RESAMPLE_INDEX, offset(index, y->rank, at))
                            : largest(&d, TRP__DNN_RESAMPLE_OLD_X, &v,
                                      at[0] * old->stride[0] + at[1] * old->stride[1], old_stride,
                                      out, &most)) == t)
                sum += dy;
        }
        for (int k = 0; k < d.node.spatial; k++)
            at[2 + k] = in[DIMS - d.node.spatial + k];
        store(&d, TRP__DNN_RESAMPLE_X, offset(x, x->rank, at), sum);
    }
}

/* --- Normalisation: a group that shares its statistics for each block --- */

static double load_at(const trp__direct *d, int port, int rank, const int64_t *at)
{
    return load(d, port, offset(&d->tensor[port], rank, at));
}

static void store_at(const trp__direct *d, int port, int rank, const int64_t *at, double value)
{
    if (d->used[port])
        store(d, port, offset(&d->tensor[port], rank, at), value);
}

/* The mean of a group and the mean of squared differences from it, of its values times a factor.
 * `at` is the group's. */
static void take_statistics(const trp__direct *d, int64_t group, int64_t *at, double *factor,
                            double *mean, double *variance)
{
    const trp__dnn_tensor *x = &d->tensor[TRP__DNN_NORM_X];
    const trp__dnn_tensor *s = &d->tensor[TRP__DIRECT_STATISTICS];
    double sum = 0, squares = 0, amax = 0;
    *factor = 1;
    if (x->type == TRP_F64) { /* it holds the squares of all other types */
        FOR_IN_BLOCK(i, group)
        {
            position_within(x, s, i, at);
            amax =
                trp__dnn_reduce_next(TRP_DNN_AMAX, amax, load_at(d, TRP__DNN_NORM_X, x->rank, at));
        }
        *factor = trp__dnn_norm_factor(of_block(TRP_DNN_AMAX, amax));
    }
    if (d->node.mode != TRP_DNN_RMS) {
        FOR_IN_BLOCK(i, group)
        {
            position_within(x, s, i, at);
            sum += load_at(d, TRP__DNN_NORM_X, x->rank, at) * *factor;
        }
        sum = sum_of_block(sum) / (double)group;
    }
    FOR_IN_BLOCK(i, group)
    {
        position_within(x, s, i, at);
        double away = load_at(d, TRP__DNN_NORM_X, x->rank, at) * *factor - sum;
        squares += away * away;
    }
    *mean = sum;
    *variance = sum_of_block(squares) / (double)group;
}

static void write_statistics(const trp__direct *d, int rank, int64_t group, const int64_t *at,
                             double mean, double variance, double inverse)
{
    store_at(d, TRP__DNN_NORM_MEAN, rank, at, mean);
    store_at(d, TRP__DNN_NORM_INV_VARIANCE, rank, at, inverse);
    if (!d->used[TRP__DNN_NORM_RUNNING_MEAN])
        return;
    double factor = load_at(d, TRP__DNN_NORM_AVERAGE_FACTOR, rank, at);
    double all = group > 1 ? variance * ((double)group / (double)(group - 1)) : variance;
    store_at(d, TRP__DNN_NORM_NEW_RUNNING_MEAN, rank, at,
             (1 - factor) * load_at(d, TRP__DNN_NORM_RUNNING_MEAN, rank, at) + factor * mean);
    store_at(d, TRP__DNN_NORM_NEW_RUNNING_VARIANCE, rank, at,
             (1 - factor) * load_at(d, TRP__DNN_NORM_RUNNING_VARIANCE, rank, at) + factor * all);
}

TRP__KERNEL void trp_direct_norm(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_NORM_X];
    const trp__dnn_tensor *s = &d.tensor[TRP__DIRECT_STATISTICS];
    const int64_t group = elements(x) / elements(s);
    FOR_BLOCKS(b, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double mean = 0, variance = 0, factor = 1, inverse;
        position(s, b, at);
        if (d.used[TRP__DNN_NORM_EPSILON]) {
            take_statistics(&d, group, at, &factor, &mean, &variance);
            inverse = trp__dnn_norm_inverse(
                variance, load_at(&d, TRP__DNN_NORM_EPSILON, x->rank, at), factor);
        } else {
            if (d.used[TRP__DNN_NORM_MEAN])
                mean = load_at(&d, TRP__DNN_NORM_MEAN, x->rank, at);
            inverse = load_at(&d, TRP__DNN_NORM_INV_VARIANCE, x->rank, at);
        }
        if (d.node.kind == TRP_DNN_NORM_TRAINING && TRP__THREAD == 0)
            write_statistics(&d, x->rank, group, at, mean / factor, variance / factor / factor,
                             inverse * factor);
        FOR_IN_BLOCK(i, group)
        {
            position_within(x, s, i, at);
            double value = (load_at(&d, TRP__DNN_NORM_X, x->rank, at) * factor - mean) * inverse *
                           load_at(&d, TRP__DNN_NORM_SCALE, x->rank, at);
            if (d.used[TRP__DNN_NORM_BIAS])
                value += load_at(&d, TRP__DNN_NORM_BIAS, x->rank, at);
            store_at(&d, TRP__DNN_NORM_Y, x->rank, at, value);
        }
    }
}

/* (x - mean) * inverse, and dy */
static double normal(const trp__direct *d, int rank, const int64_t *at, double *dy)
{
    double mean = d->used[TRP__DNN_NORM_MEAN] ? load_at(d, TRP__DNN_NORM_MEAN, rank, at) : 0;
    *dy = load_at(d, TRP__DNN_NORM_Y, rank, at);
    return (load_at(d, TRP__DNN_NORM_X, rank, at) - mean) *
           load_at(d, TRP__DNN_NORM_INV_VARIANCE, rank, at);
}

/* With h as of normal() and g = dy * scale: dx = inverse * (g - mean of g - h * mean of g h), the
 * means over each group, that of g only where x was centred. */
TRP__KERNEL void trp_direct_norm_backward(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_NORM_X];
    const trp__dnn_tensor *s = &d.tensor[TRP__DIRECT_STATISTICS];
    const int64_t group = elements(x) / elements(s);
    FOR_BLOCKS(b, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double g = 0, gh = 0, dy;
        position(s, b, at);
        FOR_IN_BLOCK(i, group)
        {
            position_within(x, s, i, at);
            double h = normal(&d, x->rank, at, &dy);
            dy *= load_at(&d, TRP__DNN_NORM_SCALE, x->rank, at);
            g += dy;
            gh += dy * h;
        }
        g = d.node.mode != TRP_DNN_RMS ? sum_of_block(g) / (double)group : 0;
        gh = sum_of_block(gh) / (double)group;
        FOR_IN_BLOCK(i, group)
        {
            position_within(x, s, i, at);
            double h = normal(&d, x->rank, at, &dy);
            dy *= load_at(&d, TRP__DNN_NORM_SCALE, x->rank, at);
            store_at(&d, TRP__DNN_NORM_DX, x->rank, at,
                     load_at(&d, TRP__DNN_NORM_INV_VARIANCE, x->rank, at) * (dy - g - h * gh));
        }
    }
}

/* An element of dscale and dbias for each block. */
TRP__KERNEL void trp_direct_norm_backward_scale(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__DNN_NORM_X];
    const trp__dnn_tensor *s = &d.tensor[TRP__DNN_NORM_DSCALE];
    const int64_t group = elements(x) / elements(s);
    FOR_BLOCKS(b, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double sum = 0, sum_h = 0, dy;
        position(s, b, at);
        FOR_IN_BLOCK(i, group)
        {
            position_within(x, s, i, at);
            double h = normal(&d, x->rank, at, &dy);
            sum += dy;
            sum_h += dy * h;
        }
        sum = sum_of_block(sum);
        sum_h = sum_of_block(sum_h);
        position(s, b, at);
        if (TRP__THREAD == 0) {
            store_at(&d, TRP__DNN_NORM_DSCALE, x->rank, at, sum_h);
            store_at(&d, TRP__DNN_NORM_BIAS, x->rank, at, sum);
        }
    }
}

#include "actors/dnn/reference/blocks.h"
#include "actors/dnn/reference/random.h"

#include "actors/dnn/reference/attention.h"
#include "actors/dnn/reference/paged.h"

#include "actors/dnn/reference/gather.h"
#include "actors/dnn/reference/loss.h"
#include "actors/dnn/reference/optimizer.h"
#include "actors/dnn/reference/pick.h"
#include "actors/dnn/reference/rotary.h"

#undef FOR_THREADS
#undef FOR_BLOCKS
#undef FOR_IN_BLOCK

#endif

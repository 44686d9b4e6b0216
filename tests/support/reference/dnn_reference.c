/* See dnn_reference.h: the graph, and the nodes that are sums. SPDX-License-Identifier: Apache-2.0
 */
#include "support/reference/dnn_reference.h"

#include "support/reference/elements.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

_Noreturn static void misuse(const char *what)
{
    fprintf(stderr, "dnn_reference: %s\n", what);
    abort();
}

/* --- elements --- */

double dr_round(trp_dtype type, double value)
{
    if (type == TRP_U8)
        return fmin(fmax(nearbyint(value), 0), UINT8_MAX);
    if (type == TRP_BOOL)
        return value != 0;
    if (type == TRP_I64)
        return nearbyint(value);
    if (type == TRP_F8E8M0)
        return dr_scale(type, value);
    return ref_element_round(type, value);
}

double dr_load(trp_dtype type, const void *array, int64_t index)
{
    if (type == TRP_U8 || type == TRP_BOOL)
        return ((const uint8_t *)array)[index];
    if (type == TRP_I64)
        return (double)((const int64_t *)array)[index];
    if (type == TRP_F8E8M0)
        return ref_ue8m0(((const uint8_t *)array)[index]);
    return creal(ref_element_load(type, array, index));
}

void dr_store(trp_dtype type, void *array, int64_t index, double value)
{
    if (type == TRP_U8 || type == TRP_BOOL)
        ((uint8_t *)array)[index] = (uint8_t)dr_round(type, value);
    else if (type == TRP_I64)
        ((int64_t *)array)[index] = (int64_t)value;
    else if (type == TRP_F8E8M0)
        ((uint8_t *)array)[index] = (uint8_t)(127 + ilogb(dr_scale(type, value)));
    else
        ref_element_store(type, array, index, value);
}

/* --- tensors --- */

void dr_make(dr_tensor *t, trp_dtype type, uint32_t rank, const int64_t *dim)
{
    *t = (dr_tensor){.type = type, .rank = rank, .count = 1};
    for (uint32_t i = 0; i < rank; i++) {
        t->dim[i] = dim[i];
        t->count *= (size_t)dim[i];
    }
    t->v = calloc(t->count + 1, sizeof *t->v);
    t->e = calloc(t->count + 1, sizeof *t->e);
    if (!t->v || !t->e)
        misuse("no memory");
}

void dr_free(dr_tensor *t)
{
    free(t->v);
    free(t->e);
    *t = (dr_tensor){0};
}

dr_tensor *dr_of(const dr_work *w, uint32_t tensor)
{
    return tensor ? &w->g->value[tensor] : NULL;
}

bool dr_step(uint32_t rank, const int64_t *dim, int64_t *position)
{
    for (uint32_t i = rank; i-- > 0;) {
        if (++position[i] < dim[i])
            return true;
        position[i] = 0;
    }
    return false;
}

bool dr_next(const dr_tensor *t, int64_t *position)
{
    return dr_step(t->rank, t->dim, position);
}

size_t dr_at(const dr_tensor *t, const int64_t *position)
{
    size_t index = 0;
    for (uint32_t i = 0; i < t->rank; i++)
        index = index * (size_t)t->dim[i] + (t->dim[i] == 1 ? 0 : (size_t)position[i]);
    return index;
}

/* --- sums --- */

void dr_add_of(dr_sum *s, double v, double e, double size)
{
    s->v += v;
    s->e += e;
    s->size += size;
    s->n++;
}

void dr_add(dr_sum *s, double v, double e)
{
    dr_add_of(s, v, e, fabs(v));
}

/* One rounding per addition, and one per term, which may be a product. */
double dr_bound(const dr_sum *s, double u)
{
    return s->e + (s->n + 1) * u * s->size;
}

static dr_sum *sums_of(const dr_tensor *t)
{
    dr_sum *sums = calloc(t->count + 1, sizeof *sums);
    if (!sums)
        misuse("no memory");
    return sums;
}

static void take_sums(const dr_work *w, dr_tensor *t, dr_sum *sums)
{
    for (size_t i = 0; i < t->count; i++) {
        t->v[i] = sums[i].v;
        t->e[i] = dr_bound(&sums[i], w->u);
    }
    free(sums);
}

static void add_product(dr_sum *s, const dr_tensor *a, size_t i, const dr_tensor *b, size_t j)
{
    dr_add(s, a->v[i] * b->v[j],
           fabs(a->v[i]) * b->e[j] + fabs(b->v[j]) * a->e[i] + a->e[i] * b->e[j]);
}

/* --- convolutions --- */

/* Finds the position in x of element `f` of the window at `o` of y; false: in the padding. */
static bool place_in_x(const trp_dnn_node *n, const dr_tensor *x, const dr_tensor *w,
                       const int64_t *o, const int64_t *f, int64_t *in)
{
    for (uint32_t i = 0; i + 2 < x->rank; i++) {
        int64_t tap = n->flip ? w->dim[2 + i] - 1 - f[2 + i] : f[2 + i];
        int64_t stride = n->stride[i] ? n->stride[i] : 1;
        int64_t dilation = n->dilation[i] ? n->dilation[i] : 1;
        in[2 + i] = o[2 + i] * stride + tap * dilation - n->pre_pad[i];
        if (in[2 + i] < 0 || in[2 + i] >= x->dim[2 + i])
            return false;
    }
    return true;
}

/* Visits every product x * w of y; the gradients have the same triples. */
static void conv(const dr_work *work)
{
    const trp_dnn_node *n = work->n;
    bool data = n->kind == TRP_DNN_CONV_BACKWARD_DATA;
    bool filter = n->kind == TRP_DNN_CONV_BACKWARD_FILTER;
    dr_tensor *x = dr_of(work, data ? n->dx : n->x), *w = dr_of(work, filter ? n->dw : n->w);
    dr_tensor *y = dr_of(work, data || filter ? n->dy : n->y);
    dr_tensor *to = data ? x : filter ? w : y;
    const int64_t groups = w->dim[1] ? x->dim[1] / w->dim[1] : 1, each = w->dim[0] / groups;
    dr_sum *sums = sums_of(to);
    int64_t o[TRP_DNN_RANK_MAX] = {0};
    for (bool more = y->count > 0 && w->count > 0; more; more = dr_next(y, o)) {
        int64_t f[TRP_DNN_RANK_MAX] = {0}, in[TRP_DNN_RANK_MAX] = {o[0]};
        do {
            if (f[0] != 0 || !place_in_x(n, x, w, o, f, in))
                continue; /* the filter is the channel of y */
            f[0] = o[1];
            in[1] = o[1] / each * w->dim[1] + f[1];
            size_t ix = dr_at(x, in), iw = dr_at(w, f), iy = dr_at(y, o);
            f[0] = 0;
            if (data)
                add_product(&sums[ix], y, iy, w, iw);
            else if (filter)
                add_product(&sums[iw], y, iy, x, ix);
            else
                add_product(&sums[iy], x, ix, w, iw);
        } while (dr_next(w, f) && f[0] == 0);
    }
    take_sums(work, to, sums);
}

static void matmul(const dr_work *w)
{
    const dr_tensor *a = dr_of(w, w->n->a), *b = dr_of(w, w->n->b);
    dr_tensor *y = dr_of(w, w->n->y);
    const uint32_t row = y->rank - 2, column = y->rank - 1;
    dr_sum *sums = sums_of(y);
    int64_t at[TRP_DNN_RANK_MAX] = {0};
    for (bool more = y->count > 0; more; more = dr_next(y, at)) {
        for (int64_t k = 0; k < a->dim[column]; k++) {
            int64_t left[TRP_DNN_RANK_MAX], right[TRP_DNN_RANK_MAX];
            memcpy(left, at, sizeof left);
            memcpy(right, at, sizeof right);
            left[column] = k;
            right[row] = k;
            add_product(&sums[dr_at(y, at)], a, dr_at(a, left), b, dr_at(b, right));
        }
    }
    take_sums(w, y, sums);
}

/* --- reductions --- */

/* Combines an element with the result of the earlier ones. */
static void reduce_one(trp_dnn_reduce mode, dr_sum *s, double x, double e)
{
    const double size = fabs(x);
    switch (mode) {
    case TRP_DNN_SUM:
    case TRP_DNN_MEAN:
        dr_add(s, x, e);
        return;
    case TRP_DNN_NORM1:
        dr_add(s, size, e);
        return;
    case TRP_DNN_NORM2:
        dr_add(s, x * x, 2 * size * e + e * e);
        return;
    case TRP_DNN_PRODUCT: /* e is relative here */
        s->v = (s->n == 0 ? 1 : s->v) * x;
        s->e += size > 0 ? e / size : 0;
        break;
    case TRP_DNN_LEAST:
        s->v = s->n == 0 ? x : fmin(s->v, x);
        s->e = fmax(s->e, e);
        break;
    case TRP_DNN_MOST:
    case TRP_DNN_AMAX:
        x = mode == TRP_DNN_AMAX ? size : x;
        s->v = s->n == 0 ? x : fmax(s->v, x);
        s->e = fmax(s->e, e);
        break;
    }
    s->n++;
}

static void reduce_end(trp_dnn_reduce mode, dr_sum *s, double u)
{
    switch (mode) {
    case TRP_DNN_SUM:
    case TRP_DNN_NORM1:
        s->e = dr_bound(s, u);
        break;
    case TRP_DNN_MEAN:
        s->v /= s->n;
        s->e = dr_bound(s, u) / s->n + 2 * u * fabs(s->v);
        break;
    case TRP_DNN_NORM2:
        s->e = dr_bound(s, u);
        s->e = sqrt(s->v + s->e) - sqrt(fmax(s->v - s->e, 0));
        s->v = sqrt(s->v);
        s->e += 2 * u * s->v;
        break;
    case TRP_DNN_PRODUCT:
        s->e = fabs(s->v) * (s->e + s->n * u);
        break;
    case TRP_DNN_LEAST:
    case TRP_DNN_MOST:
    case TRP_DNN_AMAX:
        break;
    }
}

static void reduction(const dr_work *w)
{
    const dr_tensor *x = dr_of(w, w->n->x);
    dr_tensor *y = dr_of(w, w->n->y);
    dr_sum *sums = sums_of(y);
    int64_t at[TRP_DNN_RANK_MAX] = {0};
    for (bool more = x->count > 0; more; more = dr_next(x, at))
        reduce_one(w->n->reduce, &sums[dr_at(y, at)], x->v[dr_at(x, at)], x->e[dr_at(x, at)]);
    for (size_t i = 0; i < y->count; i++) {
        reduce_end(w->n->reduce, &sums[i], w->u);
        y->v[i] = sums[i].v;
        y->e[i] = sums[i].e;
    }
    free(sums);
}

static void statistics(const dr_work *w)
{
    const dr_tensor *x = dr_of(w, w->n->x);
    dr_tensor *sum = dr_of(w, w->n->sum), *square = dr_of(w, w->n->square_sum);
    dr_sum *sums = sums_of(sum), *squares = sums_of(square);
    int64_t at[TRP_DNN_RANK_MAX] = {0};
    for (bool more = x->count > 0; more; more = dr_next(x, at)) {
        size_t i = dr_at(x, at), to = (size_t)at[1];
        dr_add(&sums[to], x->v[i], x->e[i]);
        add_product(&squares[to], x, i, x, i);
    }
    take_sums(w, sum, sums);
    take_sums(w, square, squares);
}

/* --- graphs --- */

uint32_t dr_outputs(const trp_dnn_node *n, uint32_t *out)
{
    const uint32_t all[][DR_OUTPUTS_MAX] = {
        [TRP_DNN_CONV_FORWARD] = {n->y},
        [TRP_DNN_CONV_BACKWARD_DATA] = {n->dx},
        [TRP_DNN_CONV_BACKWARD_FILTER] = {n->dw},
        [TRP_DNN_MATMUL] = {n->y},
        [TRP_DNN_POINTWISE] = {n->y},
        [TRP_DNN_POINTWISE_BACKWARD] = {n->dx},
        [TRP_DNN_REDUCTION] = {n->y},
        [TRP_DNN_RESAMPLE_FORWARD] = {n->y, n->index},
        [TRP_DNN_RESAMPLE_BACKWARD] = {n->dx},
        [TRP_DNN_NORM_TRAINING] = {n->y, n->mean, n->inv_variance, n->new_running_mean,
                                   n->new_running_variance},
        [TRP_DNN_NORM_INFERENCE] = {n->y},
        [TRP_DNN_NORM_BACKWARD] = {n->dx, n->dscale, n->dbias},
        [TRP_DNN_STATISTICS] = {n->sum, n->square_sum},
        [TRP_DNN_ATTENTION] = {n->y, n->stats},
        [TRP_DNN_ATTENTION_BACKWARD] = {n->dq, n->dk, n->dv, n->dbias},
        [TRP_DNN_CONCATENATE] = {n->y},
        [TRP_DNN_SLICE] = {n->y},
        [TRP_DNN_TRANSPOSE] = {n->y},
        [TRP_DNN_RESHAPE] = {n->y},
        [TRP_DNN_RANDOM] = {n->y},
        [TRP_DNN_PAGED_LOAD] = {n->y},
        [TRP_DNN_BLOCK_SCALE_QUANTIZE] = {n->y, n->scale},
        [TRP_DNN_BLOCK_SCALE_DEQUANTIZE] = {n->y},
    };
    uint32_t count = 0;
    if (n->kind < TRP_DNN_CONV_FORWARD || n->kind > TRP_DNN_PAGED_LOAD)
        misuse("no such kind");
    for (int i = 0; i < DR_OUTPUTS_MAX; i++) {
        if (all[n->kind][i])
            out[count++] = all[n->kind][i];
    }
    return count;
}

static trp_dtype compute_of(const dr_graph *g, const trp_dnn_node *n)
{
    const bool back = n->kind == TRP_DNN_ATTENTION_BACKWARD;
    const uint32_t read[] = {n->x,
                             n->w,
                             n->dy,
                             n->a,
                             n->b,
                             n->t,
                             n->scale,
                             n->bias,
                             n->q,
                             n->k,
                             n->v,
                             n->slopes,
                             back ? n->y : 0,
                             back ? n->stats : 0,
                             n->part[0]};
    if (n->compute)
        return n->compute;
    if (n->kind == TRP_DNN_RANDOM)
        return g->tensor[n->y].type == TRP_F64 ? TRP_F64 : TRP_F32;
    for (size_t i = 0; i < COUNT_OF(read); i++) {
        const trp_dtype type = read[i] ? g->value[read[i]].type : TRP_DTYPE_NONE;
        if (type == TRP_F64 || (type == TRP_I32 && n->kind == TRP_DNN_POINTWISE))
            return TRP_F64;
    }
    return TRP_F32;
}

/* Sets the dimensions of a result of windows over x. */
static void window_dims(const dr_work *w, int64_t *dim)
{
    const trp_dnn_node *n = w->n;
    const dr_tensor *x = dr_of(w, n->x), *f = dr_of(w, n->w);
    dim[0] = x->dim[0];
    dim[1] = f ? f->dim[0] : x->dim[1];
    for (uint32_t i = 0; i + 2 < x->rank; i++) {
        int64_t size = f ? f->dim[2 + i] : n->window[i];
        int64_t dilation = n->dilation[i] ? n->dilation[i] : 1;
        int64_t padded = x->dim[2 + i] + n->pre_pad[i] + n->post_pad[i];
        dim[2 + i] = (padded - (size - 1) * dilation - 1) / (n->stride[i] ? n->stride[i] : 1) + 1;
    }
}

/* Derives the dimensions of a virtual tensor from the node. */
static uint32_t dims_of(const dr_work *w, int64_t *dim)
{
    const trp_dnn_node *n = w->n;
    const dr_tensor *x = dr_of(w, n->kind == TRP_DNN_MATMUL ? n->a : n->x), *b = dr_of(w, n->b);
    if (n->kind == TRP_DNN_CONV_FORWARD || n->kind == TRP_DNN_RESAMPLE_FORWARD) {
        window_dims(w, dim);
        return x->rank;
    }
    if (n->kind == TRP_DNN_PAGED_LOAD) {
        const dr_tensor *table = dr_of(w, n->table);
        const int64_t paged[] = {table->dim[0], x->dim[1], table->dim[2] * x->dim[2], x->dim[3]};
        memcpy(dim, paged, sizeof paged);
        return x->rank;
    }
    for (uint32_t i = 0; i < x->rank; i++)
        dim[i] = b && i < b->rank && x->dim[i] == 1 ? b->dim[i] : x->dim[i];
    if (n->kind == TRP_DNN_MATMUL) {
        dim[x->rank - 2] = x->dim[x->rank - 2];
        dim[x->rank - 1] = b->dim[x->rank - 1];
    }
    return x->rank;
}

/* Tensors with values get their rank where they are read; so do outputs. */
static void prepare(const dr_work *w, trp_dtype compute)
{
    const trp_dnn_node *n = w->n;
    const uint32_t read[] = {n->x, n->b, n->t, n->epsilon, n->average_factor};
    static const int64_t ones[TRP_DNN_RANK_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (size_t i = 0; i < COUNT_OF(read); i++) {
        const trp_dnn_tensor *t = &w->g->tensor[read[i]];
        dr_tensor *value = &w->g->value[read[i]];
        if (!read[i] || !t->value.given || value->v)
            continue;
        dr_make(value, t->type ? t->type : compute, 1, ones);
        value->v[0] = dr_round(value->type, t->value.re);
    }
    uint32_t out[DR_OUTPUTS_MAX], count = dr_outputs(n, out);
    for (uint32_t i = 0; i < count; i++) {
        const trp_dnn_tensor *t = &w->g->tensor[out[i]];
        int64_t dim[TRP_DNN_RANK_MAX] = {0};
        uint32_t rank = t->rank;
        if (rank)
            memcpy(dim, t->dim, sizeof dim);
        else
            rank = dims_of(w, dim);
        dr_make(&w->g->value[out[i]], t->type ? t->type : compute, rank, dim);
    }
}

/* Rounds results to their type. */
static void finish(const dr_graph *g, uint32_t tensor)
{
    dr_tensor *t = &g->value[tensor];
    for (size_t i = 0; i < t->count; i++) {
        double v = t->v[i], e = t->e[i], held = dr_round(t->type, v);
        t->v[i] = held;
        t->e[i] =
            isinf(v) ? 0 : fmax(dr_round(t->type, v + e) - held, held - dr_round(t->type, v - e));
        if (g->fused && !g->tensor[tensor].buffer.id)
            t->e[i] = fmax(t->e[i], e + fabs(v - held));
    }
}

/* Returns whether a node has sums of 8-bit floats: convolutions and products. */
static bool sums_f8(const dr_graph *g, const trp_dnn_node *n)
{
    uint32_t in = n->kind == TRP_DNN_MATMUL ? n->a : n->kind == TRP_DNN_CONV_FORWARD ? n->x : n->dy;
    return n->kind <= TRP_DNN_MATMUL &&
           (g->tensor[in].type == TRP_F8E4M3 || g->tensor[in].type == TRP_F8E5M2);
}

static bool is_function(const trp_dnn_node *n)
{
    return n->kind == TRP_DNN_POINTWISE && n->pointwise >= TRP_DNN_COS &&
           n->pointwise <= TRP_DNN_ERF;
}

/* cuDNN approximates functions to some units of f32, and activations to some 1e-5, and computes
 * sums of squares in another way; tensor cores have 13 bits for sums of 8-bit floats. */
static double slack_of(const dr_graph *g, const trp_dnn_node *n, trp_dtype compute)
{
    bool activation = n->kind == TRP_DNN_POINTWISE_BACKWARD ||
                      (n->kind == TRP_DNN_POINTWISE && n->pointwise >= TRP_DNN_RELU);
    bool norm = n->kind >= TRP_DNN_NORM_TRAINING && n->kind <= TRP_DNN_NORM_BACKWARD;
    double slack = g->slack != 0 ? g->slack : 1;
    if (g->fused && compute == TRP_F32)
        slack *= activation ? 512 : norm || is_function(n) ? 4 : sums_f8(g, n) ? 2048 : 1;
    return slack;
}

void dr_run(dr_graph *g)
{
    static void (*const parts[])(const dr_work *) = {
        [TRP_DNN_CONV_FORWARD] = conv,
        [TRP_DNN_CONV_BACKWARD_DATA] = conv,
        [TRP_DNN_CONV_BACKWARD_FILTER] = conv,
        [TRP_DNN_MATMUL] = matmul,
        [TRP_DNN_POINTWISE] = dr_pointwise,
        [TRP_DNN_POINTWISE_BACKWARD] = dr_pointwise_backward,
        [TRP_DNN_REDUCTION] = reduction,
        [TRP_DNN_RESAMPLE_FORWARD] = dr_pool,
        [TRP_DNN_RESAMPLE_BACKWARD] = dr_pool_backward,
        [TRP_DNN_NORM_TRAINING] = dr_norm,
        [TRP_DNN_NORM_INFERENCE] = dr_norm,
        [TRP_DNN_NORM_BACKWARD] = dr_norm_backward,
        [TRP_DNN_STATISTICS] = statistics,
        [TRP_DNN_ATTENTION] = dr_attention,
        [TRP_DNN_ATTENTION_BACKWARD] = dr_attention_backward,
        [TRP_DNN_CONCATENATE] = dr_move,
        [TRP_DNN_SLICE] = dr_move,
        [TRP_DNN_TRANSPOSE] = dr_move,
        [TRP_DNN_RESHAPE] = dr_move,
        [TRP_DNN_RANDOM] = dr_random,
        [TRP_DNN_PAGED_LOAD] = dr_paged_load,
        [TRP_DNN_BLOCK_SCALE_QUANTIZE] = dr_quantize,
        [TRP_DNN_BLOCK_SCALE_DEQUANTIZE] = dr_dequantize,
    };
    for (uint32_t i = 0; i < g->nodes; i++) {
        const trp_dnn_node *n = &g->node[i];
        trp_dtype compute = compute_of(g, n);
        dr_work w = {.g = g, .n = n};
        /* Twice as much for f64, in which the reference rounds as well. */
        w.u = compute == TRP_I32 ? 0 : compute == TRP_F64 ? 0x1p-52 : 0x1p-24;
        w.u *= slack_of(g, n, compute);
        prepare(&w, compute);
        parts[n->kind](&w);
        uint32_t out[DR_OUTPUTS_MAX], count = dr_outputs(n, out);
        for (uint32_t k = 0; k < count; k++)
            finish(g, out[k]);
    }
}

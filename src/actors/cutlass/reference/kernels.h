/* The reference kernel of the cutlass actor: a product, one of a group, or a convolution, and what
 * its epilogue tree makes of the sums. It is compiled by NVRTC; and as C by tests, one thread after
 * the other. Whoever includes this defines what matrix/reference/kernels.h lists, but for
 * TRP__AT_LEAST, and
 *
 *     TRP__SWAP(to, from, with)   makes *to `with` if it is `from`; what it was, of 32 or 64 bits
 *     TRP__APART                  a function that is compiled once: it is large
 */
#ifndef TRP_ACTORS_CUTLASS_REFERENCE_KERNELS_H
#define TRP_ACTORS_CUTLASS_REFERENCE_KERNELS_H

#include "actors/cutlass/epilogue/evaluate.h"
#include "actors/cutlass/epilogue/ops.h"
#include "actors/cutlass/reference/problem.h"
#include "matrix/reference/elements.h"

#include <troupe/cutlass.h>

typedef trp__cutlass_reference reference;
typedef unsigned long long trp__swapped_64;

/* One member of the batch, or one group. */
typedef struct reference_member {
    int64_t l, m, n, k;
    const void *matrix[4]; /* A, B, C and D, */
    int64_t first[4];      /* where in them it begins, in elements, */
    int64_t ld[4];
    int64_t row, column; /* and where its rows and columns do, of a dimension that is cut */
} reference_member;

static const void *reference_address(uint64_t address)
{
    return (const void *)(uintptr_t)address;
}

static int32_t reference_bytes(uint8_t type)
{
    return type == TRP_F64                        ? 8
           : type == TRP_F32 || type == TRP_I32   ? 4
           : type == TRP_F16 || type == TRP_BF16  ? 2
           : type == TRP_DTYPE_NONE               ? 0
           : type == TRP_F4E2M1 || type == TRP_I4 ? -1 /* two to a byte */
                                                  : 1;
}

/* --- Members --- */

static reference_member reference_member_of_batch(const reference *r, int64_t l)
{
    const trp_cutlass_args *a = &r->args;
    const reference_member x = {l,
                                a->m,
                                a->n,
                                a->k,
                                {reference_address(a->a), reference_address(a->b),
                                 reference_address(a->c), reference_address(a->d)},
                                {l * a->batch_a, l * a->batch_b, l * a->batch_c, l * a->batch_d},
                                {a->lda, a->ldb, a->ldc, a->ldd},
                                0,
                                0};
    return x;
}

/* A group that does not fit has no elements, as with kernels. */
static reference_member reference_member_of_groups(const reference *r, int64_t l)
{
    const trp_group_kind kind = {{r->a_row, r->b_row, 1, 1},
                                 {reference_bytes(r->a), reference_bytes(r->b),
                                  reference_bytes(r->c), reference_bytes(r->d)},
                                 {1, 1, 1, 1},
                                 {1, 1, 1, 1}};
    const trp_group g = trp_group_at(&r->args, &kind, r->table, (int32_t)l);
    const int c = r->args.group_c == 2 ? 3 : 2;
    const reference_member x = {l,
                                g.size[0],
                                g.size[1],
                                g.size[2],
                                {reference_address(g.at[0]), reference_address(g.at[1]),
                                 reference_address(g.at[c]), reference_address(g.at[3])},
                                {0, 0, 0, 0},
                                {g.ld[0], g.ld[1], g.ld[c], g.ld[3]},
                                g.row,
                                g.column};
    return x;
}

static reference_member reference_member_at(const reference *r, int64_t l)
{
    return r->grouped ? reference_member_of_groups(r, l) : reference_member_of_batch(r, l);
}

/* The member that an element belongs to, whose coordinates become those within it. */
static reference_member reference_find(const reference *r, int64_t number, int64_t *i, int64_t *j)
{
    const trp_cutlass_args *a = &r->args;
    const int by_row = a->grouping == TRP_GROUPED_OF_M;
    int64_t l = number / a->n / a->m;
    *j = number % a->n;
    *i = number / a->n % a->m;
    if (r->grouped && (by_row || a->grouping == TRP_GROUPED_OF_N)) {
        const int32_t *ends = (const int32_t *)r->table;
        for (l = 0; l < a->l - 1 && ends[l] <= (by_row ? *i : *j);)
            l++;
    }
    const reference_member x = reference_member_at(r, l);
    *i -= x.row;
    *j -= x.column;
    return x;
}

/* --- Convolutions --- */

/* A pixel of a tensor, and its image or filter. */
typedef struct reference_pixel {
    int64_t outer, at[3];
} reference_pixel;

static int64_t reference_split(int64_t index, const int32_t size[3], int64_t at[3])
{
    for (int i = 2; i >= 0; i--) {
        at[i] = index % size[i];
        index /= size[i];
    }
    return index;
}

/* How far from a pixel of the output a tap of the filter reaches, in the activation. */
static int64_t reference_reach(const trp_cutlass_args *a, const int64_t tap[3], int i)
{
    const int64_t turned = a->conv_flip ? a->conv_filter[i] - 1 - tap[i] : tap[i];
    return turned * a->conv_dilation[i] - a->conv_pad[i];
}

/* The pixel of the activation that a tap meets of one of the output; false: padding. */
static bool reference_forward(const trp_cutlass_args *a, const int64_t out[3], const int64_t tap[3],
                              int64_t in[3])
{
    bool inside = true;
    for (int i = 0; i < 3; i++) {
        in[i] = out[i] * a->conv_stride[i] + reference_reach(a, tap, i);
        inside = inside && in[i] >= 0 && in[i] < a->conv_input[i];
    }
    return inside;
}

/* The pixel of the output that meets one of the activation at a tap; false: there is none. */
static bool reference_backward(const trp_cutlass_args *a, const int64_t in[3], const int64_t tap[3],
                               int64_t out[3])
{
    bool inside = true;
    for (int i = 0; i < 3; i++) {
        const int64_t from = in[i] - reference_reach(a, tap, i);
        out[i] = from / a->conv_stride[i];
        inside = inside && from >= 0 && from % a->conv_stride[i] == 0 && out[i] < a->conv_output[i];
    }
    return inside;
}

static int64_t reference_place(const reference_pixel *x, int64_t channel, const int64_t stride[4])
{
    return x->outer * stride[0] + x->at[0] * stride[1] + x->at[1] * stride[2] +
           x->at[2] * stride[3] + channel;
}

/* Where row i of A has its term p; -1: nowhere, it is 0. */
static int64_t reference_gathered_a(const reference *r, int64_t i, int64_t p)
{
    const trp_cutlass_args *a = &r->args;
    const bool back = r->conv == TRP_CONV_DGRAD;
    const int64_t inner = back ? a->conv_filters : a->conv_channels;
    int64_t tap[3], pixel[3];
    reference_pixel x;
    if (r->conv == TRP_CONV_WGRAD) {
        x.outer = reference_split(p, a->conv_output, x.at);
        return reference_place(&x, i, a->conv_a);
    }
    reference_split(p / inner, a->conv_filter, tap);
    x.outer = reference_split(i, back ? a->conv_input : a->conv_output, pixel);
    const bool inside =
        back ? reference_backward(a, pixel, tap, x.at) : reference_forward(a, pixel, tap, x.at);
    return inside ? reference_place(&x, p % inner, a->conv_a) : -1;
}

/* And column j of B. */
static int64_t reference_gathered_b(const reference *r, int64_t j, int64_t p)
{
    const trp_cutlass_args *a = &r->args;
    const bool back = r->conv == TRP_CONV_DGRAD;
    const int64_t inner = back ? a->conv_filters : a->conv_channels;
    int64_t tap[3], pixel[3];
    reference_pixel x;
    if (r->conv == TRP_CONV_WGRAD) {
        reference_split(j / inner, a->conv_filter, tap);
        x.outer = reference_split(p, a->conv_output, pixel);
        return reference_forward(a, pixel, tap, x.at) ? reference_place(&x, j % inner, a->conv_b)
                                                      : -1;
    }
    reference_split(p / inner, a->conv_filter, x.at);
    x.outer = back ? p % inner : j;
    return reference_place(&x, back ? j : p % inner, a->conv_b);
}

/* --- Inputs --- */

TRP__APART static double reference_rounded(uint8_t type, double value)
{
    uint64_t room[1];
    trp__element_store(type, room, 0, value);
    return trp__element_load(type, room, 0);
}

/* The factor of block `block` of a line, in tiles of 128 lines and 4 blocks. */
static int64_t reference_in_tiles(int64_t line, int64_t block, int64_t blocks)
{
    const int64_t tile = line / 128 * ((blocks + 3) / 4) + block / 4;
    return tile * 512 + line % 32 * 16 + line % 128 / 32 * 4 + block % 4;
}

static double reference_factor(uint8_t mode, const void *from, int64_t first, int64_t lines,
                               int64_t k, int64_t line, int64_t p)
{
    const int64_t blocks = (k + 127) / 128;
    switch (mode) {
    case TRP_SCALE_BLOCK_16:
        return (double)trp__ue4m3_to_f32(
            ((const uint8_t *)from)[first + reference_in_tiles(line, p / 16, (k + 15) / 16)]);
    case TRP_SCALE_BLOCK_32:
        return (double)trp__ue8m0_to_f32(
            ((const uint8_t *)from)[first + reference_in_tiles(line, p / 32, (k + 31) / 32)]);
    case TRP_SCALE_BLOCK_128:
        return (double)((const float *)from)[first + p / 128 * lines + line];
    case TRP_SCALE_BLOCK_128X128:
        return (double)((const float *)from)[first + line / 128 * ((blocks + 3) / 4 * 4) + p / 128];
    default:
        return 1;
    }
}

/* An element of the narrower matrix as one of the wider one's type, with its group's factor and
 * what is added. */
static double reference_widened(const reference *r, const reference_member *x, bool left,
                                double value, int64_t line, int64_t p)
{
    const trp_cutlass_args *a = &r->args;
    const uint8_t wide = left ? r->b : r->a;
    const int64_t at = x->l * a->batch_scale_b + p / a->group * (left ? x->m : x->n) + line;
    value =
        reference_rounded(wide, value * trp__element_load(wide, reference_address(a->scale_b), at));
    return r->zeros ? reference_rounded(
                          wide, value + trp__element_load(wide, reference_address(a->zero_b), at))
                    : value;
}

/* Element (i, p) of A, or (p, i) of B. */
TRP__APART static double reference_input(const reference *r, const reference_member *x, bool left,
                                         int64_t i, int64_t p)
{
    const trp_cutlass_args *a = &r->args;
    const int which = left ? 0 : 1;
    const bool along_k = left ? r->a_row : !r->b_row;
    const bool narrow_a = reference_bytes(r->a) < reference_bytes(r->b);
    int64_t at = along_k ? i * x->ld[which] + p : p * x->ld[which] + i;
    if (r->convolves)
        at = left ? reference_gathered_a(r, i, p) : reference_gathered_b(r, i, p);
    if (at < 0 || (r->convolves && a->conv_images == 0))
        return 0;
    double value = trp__element_load(left ? r->a : r->b, x->matrix[which], x->first[which] + at);
    if (left)
        value *= reference_factor(r->scale_a, reference_address(a->scale_a),
                                  x->l * a->batch_scale_a, x->m, x->k, i, p);
    else if (a->group == 0)
        value *= reference_factor(r->scale_b, reference_address(a->scale_b),
                                  x->l * a->batch_scale_b, x->n, x->k, i, p);
    return a->group > 0 && left == narrow_a ? reference_widened(r, x, left, value, i, p) : value;
}

/* The sum of element (i, j), in the type that sums have. By all threads. */
static double reference_sum(const reference *r, const reference_member *x, int64_t i, int64_t j)
{
    product_number sum = {0, 0};
    for (int64_t p = TRP__THREAD; p < x->k; p += TRP__THREADS)
        sum.re += reference_input(r, x, true, i, p) * reference_input(r, x, false, j, p);
    sum = product_sum_of_block(sum);
    return r->accumulator == TRP_I32   ? (double)(int32_t)(uint32_t)(uint64_t)(int64_t)sum.re
           : r->accumulator == TRP_F64 ? sum.re
                                       : (double)(float)sum.re;
}

/* --- The tree --- */

static double reference_computed(const reference *r, double value)
{
    return r->wide ? value : (double)(float)value;
}

/* What a node has in memory, or by value. */
TRP__APART static double reference_operand(const reference *r, const reference_member *x,
                                           const trp__reference_node *n, int64_t i, int64_t j)
{
    const trp_cutlass_args *a = &r->args;
    const uint64_t *word = &a->slot[n->word];
    const void *from = reference_address(word[0]);
    const bool rows = n->op == TRP__TREE_PER_ROW;
    const bool cut = r->grouped && a->grouping == (rows ? TRP_GROUPED_OF_M : TRP_GROUPED_OF_N);
    double value;
    if (n->op == TRP__TREE_LOAD)
        return trp__element_load(n->type, from,
                                 x->l * (int64_t)word[2] + (n->detail == TRP_ROW_MAJOR
                                                                ? i * (int64_t)word[1] + j
                                                                : j * (int64_t)word[1] + i));
    if (n->op != TRP__TREE_SCALAR)
        return trp__element_load(n->type, from,
                                 (cut ? (rows ? x->row : x->column) : x->l * (int64_t)word[1]) +
                                     (rows ? i : j));
    if (!from) {
        memcpy(&value, &word[1], sizeof value);
        return reference_computed(r, value);
    }
    return trp__element_load(r->wide ? TRP_F64 : TRP_F32, from, x->l * (int64_t)word[1]);
}

TRP__APART static double reference_function(const reference *r, const trp__reference_node *n,
                                            const double *value)
{
    const double v[3] = {value[n->input[0]], value[n->input[1]], value[n->input[2]]};
    if (n->detail == TRP__FN_fma && !r->wide) /* rounded once */
        return (double)fmaf((float)v[0], (float)v[1], (float)v[2]);
    return reference_computed(r, trp__tree_evaluate(n->detail, v));
}

static double reference_c(const reference *r, const reference_member *x, int64_t i, int64_t j)
{
    return trp__element_load(r->c, x->matrix[2], x->first[2] + i * x->ld[2] + j);
}

/* All nodes, of one element whose sum is known. */
TRP__APART static void reference_evaluate(const reference *r, const reference_member *x, int64_t i,
                                          int64_t j, double sum, double value[TRP__REFERENCE_NODES])
{
    for (int at = 0; at < r->nodes; at++) {
        const trp__reference_node *n = &r->node[at];
        switch (n->op) {
        case TRP__TREE_ACCUMULATOR:
            value[at] = reference_computed(r, sum);
            break;
        case TRP__TREE_C:
            value[at] = reference_c(r, x, i, j);
            break;
        case TRP__TREE_FUNCTION:
            value[at] = reference_function(r, n, value);
            break;
        case TRP__TREE_CONVERT:
            value[at] = reference_rounded(n->type, value[n->input[0]]);
            break;
        case TRP__TREE_SCALAR:
        case TRP__TREE_PER_ROW:
        case TRP__TREE_PER_COLUMN:
        case TRP__TREE_LOAD:
            value[at] = reference_operand(r, x, n, i, j);
            break;
        default: /* it goes to memory */
            value[at] = value[n->input[0]];
        }
    }
}

/* --- Outputs --- */

static void reference_store_d(const reference *r, const reference_member *x, int64_t i, int64_t j,
                              double value)
{
    trp__element_store(r->d, (void *)(uintptr_t)x->matrix[3], x->first[3] + i * x->ld[3] + j,
                       value);
}

/* i32 wraps. */
static void reference_store_integer(const reference *r, const reference_member *x, int64_t i,
                                    int64_t j, double sum)
{
    uint32_t value = (uint32_t)(int32_t)r->args.alpha * (uint32_t)(int32_t)sum;
    if (r->c != TRP_DTYPE_NONE)
        value += (uint32_t)(int32_t)r->args.beta * (uint32_t)(int32_t)reference_c(r, x, i, j);
    ((int32_t *)(uintptr_t)x->matrix[3])[x->first[3] + i * x->ld[3] + j] = (int32_t)value;
}

static void reference_store_node(const reference *r, const reference_member *x, int node, int64_t i,
                                 int64_t j, double value)
{
    const trp__reference_node *n = &r->node[node];
    const uint64_t *word = &r->args.slot[n->word];
    const int64_t ld = (int64_t)word[1], first = x->l * (int64_t)word[2];
    trp__element_store(n->type, (void *)(uintptr_t)word[0],
                       first + (n->detail == TRP_ROW_MAJOR ? i * ld + j : j * ld + i), value);
}

static double reference_reduced(uint8_t reduction, double so_far, double value)
{
    return reduction == TRP_REDUCTION_SUM   ? so_far + value
           : reduction == TRP_REDUCTION_MAX ? fmax(so_far, value)
           : reduction == TRP_REDUCTION_MIN ? fmin(so_far, value)
                                            : fmax(so_far, fabs(value));
}

/* Adds a value to the result of a reduction, which was set to the neutral one before. */
static void reference_reduce(const reference *r, const reference_member *x, int node, int64_t i,
                             int64_t j, double value)
{
    const trp__reference_node *n = &r->node[node];
    const uint64_t *word = &r->args.slot[n->word];
    const int64_t at = x->l * (int64_t)word[1] + (n->op == TRP__TREE_REDUCE_ROWS      ? i
                                                  : n->op == TRP__TREE_REDUCE_COLUMNS ? j
                                                                                      : 0);
    if (r->wide) {
        trp__swapped_64 *to = (trp__swapped_64 *)(uintptr_t)word[0] + at;
        trp__swapped_64 was = *to, next, seen;
        for (;; was = seen) {
            double now;
            memcpy(&now, &was, sizeof now);
            now = reference_reduced(n->detail, now, value);
            memcpy(&next, &now, sizeof next);
            seen = TRP__SWAP(to, was, next);
            if (seen == was)
                return;
        }
    }
    uint32_t *to = (uint32_t *)(uintptr_t)word[0] + at;
    for (uint32_t was = *to, seen;; was = seen) {
        const double now = (double)trp__f32_from_bits(was);
        seen = TRP__SWAP(to, was, trp__f32_bits((float)reference_reduced(n->detail, now, value)));
        if (seen == was)
            return;
    }
}

static void reference_set_element(const reference *r, const reference_member *x, int64_t i,
                                  int64_t j)
{
    double value[TRP__REFERENCE_NODES];
    const double sum = reference_sum(r, x, i, j);
    if (TRP__THREAD != 0)
        return;
    if (r->nodes == 0) {
        reference_store_integer(r, x, i, j, sum);
        return;
    }
    reference_evaluate(r, x, i, j, sum, value);
    for (int at = 0; at < r->nodes; at++) {
        if (r->node[at].op == TRP__TREE_STORE && (r->what == at || r->what == TRP__REFERENCE_ALL))
            reference_store_node(r, x, at, i, j, value[at]);
        if (r->node[at].op >= TRP__TREE_REDUCE_ROWS && r->what == TRP__REFERENCE_ALL)
            reference_reduce(r, x, at, i, j, value[at]);
    }
    if (r->what == TRP__REFERENCE_D || r->what == TRP__REFERENCE_ALL)
        reference_store_d(r, x, i, j, value[r->root]);
}

/* All of a group. */
static void reference_set_group(const reference *r, int64_t l)
{
    const reference_member x = reference_member_at(r, l);
    for (int64_t at = TRP__BLOCK; at < x.m * x.n; at += TRP__BLOCKS)
        reference_set_element(r, &x, at / x.n, at % x.n);
}

TRP__KERNEL void trp_cutlass_reference(const trp__cutlass_reference r)
{
    for (int64_t l = 0; r.grouped && !r.sample && l < r.args.l; l++)
        reference_set_group(&r, l);
    for (int64_t at = TRP__BLOCK; (!r.grouped || r.sample) && at < r.count; at += TRP__BLOCKS) {
        int64_t i, j;
        const reference_member x = reference_find(&r, r.sample ? r.sample[at] : at, &i, &j);
        reference_set_element(&r, &x, i, j);
    }
}

#endif

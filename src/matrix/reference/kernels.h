/* The reference kernel of products. NVRTC compiles it for GPUs; tests compile it as C, where each
 * block has one thread. The including file defines
 *
 *     TRP__KERNEL                   qualifiers of a kernel
 *     TRP__SHARED                   qualifiers of memory that the threads of a block share
 *     TRP__SYNC()                   waits for all threads of the block
 *     TRP__THREAD, TRP__THREADS     number of this thread, and threads of a block: a power of two
 *     TRP__BLOCK, TRP__BLOCKS
 *     TRP__AT_LEAST(to, bits)       sets *to, a uint32_t, to the larger of *to and `bits`
 */
#ifndef TRP_MATRIX_REFERENCE_KERNELS_H
#define TRP_MATRIX_REFERENCE_KERNELS_H

#include "matrix/reference/elements.h"
#include "matrix/reference/problem.h"

#include <troupe/matmul.h>

#include <math.h>

/* --- Elements --- */

static bool product_is_complex(uint8_t type)
{
    return type == TRP_C64 || type == TRP_C128;
}

static product_number product_load_pair(uint8_t type, const void *from, int64_t at)
{
    product_number x = {0, 0};
    if (product_is_complex(type)) {
        const uint8_t part = type == TRP_C128 ? TRP_F64 : TRP_F32;
        x.re = trp__element_load(part, from, 2 * at);
        x.im = trp__element_load(part, from, 2 * at + 1);
    } else {
        x.re = trp__element_load(type, from, at);
    }
    return x;
}

static product_number product_times(product_number x, product_number y)
{
    const product_number z = {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
    return z;
}

/* --- Inputs --- */

/* Returns a scale factor of A (0) or B, in the modes that have several. */
static double product_factor(const trp__product_launch *r, int which, int64_t line, int64_t p)
{
    const trp__matmul *g = &r->g;
    const int64_t blocks = (g->k + 127) / 128, lines = which == 0 ? g->m : g->n;
    const float *from =
        (const float *)r->at[which == 0 ? TRP__MATMUL_SCALE_A : TRP__MATMUL_SCALE_B];
    switch (which == 0 ? g->scale_a : g->scale_b) {
    case TRP_SCALE_VECTOR:
        return (double)from[line];
    case TRP_SCALE_BLOCK_128:
        return (double)from[p / 128 * lines + line];
    case TRP_SCALE_BLOCK_128X128:
        return (double)from[line / 128 * ((blocks + 3) / 4 * 4) + p / 128];
    default:
        return 1;
    }
}

/* Returns element (line, p) of op(A), or (p, line) of op(B), of member `l` of the batch. */
static product_number product_input(const trp__product_launch *r, int which, int64_t l,
                                    int64_t line, int64_t p)
{
    const trp__matmul *g = &r->g;
    const int operand = which == 0 ? TRP__MATMUL_A : TRP__MATMUL_B;
    const uint8_t trans = which == 0 ? g->trans_a : g->trans_b;
    const bool along_k = which == 0 ? trans != TRP_N : trans == TRP_N;
    const int64_t at =
        l * g->stride[operand] + (along_k ? p + line * g->ld[operand] : line + p * g->ld[operand]);
    product_number x = product_load_pair(g->type[operand], r->at[operand], at);
    const double factor = product_factor(r, which, line, p);
    x.re *= factor;
    x.im *= trans == TRP_C ? -factor : factor;
    return x;
}

/* --- Epilogues --- */

static product_number product_scalar(const trp__product_launch *r, int which)
{
    const trp__matmul *g = &r->g;
    const double *value = which == 0 ? g->alpha : g->beta;
    product_number x = {value[0], value[1]};
    if (r->at[TRP__MATMUL_SCALARS])
        x = product_load_pair(g->scalar_type, r->at[TRP__MATMUL_SCALARS], which);
    return x;
}

static product_number product_alpha(const trp__product_launch *r, int64_t l, int64_t i)
{
    const trp__matmul *g = &r->g;
    const void *alphas = r->at[TRP__MATMUL_ALPHAS];
    return alphas ? product_load_pair(g->scalar_type, alphas, l * g->alphas_stride + i)
                  : product_scalar(r, 0);
}

static double product_tensor_factor(const trp__product_launch *r, int operand)
{
    return r->at[operand] ? (double)*(const float *)r->at[operand] : 1;
}

static double product_gelu(double x)
{
    const double u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    const double share = 0.5 * (1 + tanh(u));
    return share == 0 ? -0.0 : x * share;
}

static double product_gelu_slope(double x)
{
    const double t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
    const double du = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
    const double rest = 1 - t * t; /* 0 where du may be infinite */
    return 0.5 * (1 + t) + (rest > 0 ? 0.5 * x * rest * du : 0);
}

/* Computes alpha op(A) op(B) + beta C + bias of an element, before the activation. All threads must
 * call this. */
static product_number product_linear(const trp__product_launch *r, int64_t l, int64_t i, int64_t j)
{
    const trp__matmul *g = &r->g;
    const product_number alpha = product_alpha(r, l, i), beta = product_scalar(r, 1);
    product_number sum = {0, 0};
    for (int64_t p = TRP__THREAD; p < g->k; p += TRP__THREADS) {
        const product_number term =
            product_times(product_input(r, 0, l, i, p), product_input(r, 1, l, j, p));
        sum.re += term.re;
        sum.im += term.im;
    }
    sum = product_sum_of_block(sum);
    double factor = 1;
    if (g->scale_a == TRP_SCALE_TENSOR)
        factor *= product_tensor_factor(r, TRP__MATMUL_SCALE_A);
    if (g->scale_b == TRP_SCALE_TENSOR)
        factor *= product_tensor_factor(r, TRP__MATMUL_SCALE_B);
    sum = product_times(alpha, sum);
    sum.re *= factor;
    sum.im *= factor;
    if (r->at[TRP__MATMUL_C] && (beta.re != 0 || beta.im != 0)) {
        const int64_t at = l * g->stride[TRP__MATMUL_C] + i + j * g->ld[TRP__MATMUL_C];
        const product_number c = product_times(
            beta, product_load_pair(g->type[TRP__MATMUL_C], r->at[TRP__MATMUL_C], at));
        sum.re += c.re;
        sum.im += c.im;
    }
    if (r->at[TRP__MATMUL_VECTOR] && g->gradient == TRP_BIAS_GRADIENT_NONE)
        sum.re +=
            trp__element_load(g->vector_type, r->at[TRP__MATMUL_VECTOR], l * g->vector_stride + i);
    return sum;
}

/* Applies the activation. */
static double product_activated(const trp__product_launch *r, int64_t l, int64_t i, int64_t j,
                                double x)
{
    const trp__matmul *g = &r->g;
    const int64_t at = l * g->stride[TRP__MATMUL_AUX] + i + j * g->ld[TRP__MATMUL_AUX];
    const void *aux = r->at[TRP__MATMUL_AUX];
    switch (g->activation) {
    case TRP_ACTIVATION_RELU:
        return x <= 0 ? 0 : x;
    case TRP_ACTIVATION_GELU:
        return product_gelu(x);
    case TRP_ACTIVATION_DRELU:
        return ((const uint8_t *)aux)[at / 8] >> at % 8 & 1 ? x : 0;
    case TRP_ACTIVATION_DGELU:
        return x * product_gelu_slope(trp__element_load(g->type[TRP__MATMUL_AUX], aux, at) *
                                      product_tensor_factor(r, TRP__MATMUL_SCALE_AUX));
    default:
        return x;
    }
}

/* --- Outputs --- */

static void product_note_largest(void *to, double value)
{
    if (to) {
        const float size =
            (float)fabs(value); /* also removes the sign of -0, whose bits would be the largest */
        TRP__AT_LEAST((uint32_t *)to, size != size ? 0x7fc00000u : trp__f32_bits(size));
    }
}

/* i32 wraps. */
static void product_store_d(const trp__product_launch *r, int64_t at, product_number x)
{
    const uint8_t type = r->g.type[TRP__MATMUL_D];
    void *d = r->at[TRP__MATMUL_D];
    if (product_is_complex(type)) {
        const uint8_t part = type == TRP_C128 ? TRP_F64 : TRP_F32;
        trp__element_store(part, d, 2 * at, x.re);
        trp__element_store(part, d, 2 * at + 1, x.im);
    } else if (type == TRP_I32) {
        ((int32_t *)d)[at] = (int32_t)(uint32_t)(uint64_t)(int64_t)x.re;
    } else {
        trp__element_store(type, d, at, x.re * product_tensor_factor(r, TRP__MATMUL_SCALE_D));
    }
}

static void product_set_d(const trp__product_launch *r, int64_t l, int64_t i, int64_t j)
{
    const trp__matmul *g = &r->g;
    product_number x = product_linear(r, l, i, j);
    if (TRP__THREAD != 0)
        return;
    if (g->activation != TRP_ACTIVATION_NONE)
        x.re = product_activated(r, l, i, j, x.re);
    product_note_largest(r->at[TRP__MATMUL_AMAX_D], x.re);
    product_store_d(r, l * g->stride[TRP__MATMUL_D] + i + j * g->ld[TRP__MATMUL_D], x);
}

/* Stores the input of GELU. */
static void product_set_aux(const trp__product_launch *r, int64_t l, int64_t i, int64_t j)
{
    const trp__matmul *g = &r->g;
    const double x = product_linear(r, l, i, j).re;
    if (TRP__THREAD != 0)
        return;
    product_note_largest(r->at[TRP__MATMUL_AMAX_AUX], x);
    trp__element_store(g->type[TRP__MATMUL_AUX], r->at[TRP__MATMUL_AUX],
                       l * g->stride[TRP__MATMUL_AUX] + i + j * g->ld[TRP__MATMUL_AUX],
                       x * product_tensor_factor(r, TRP__MATMUL_SCALE_AUX));
}

/* Stores eight bits, 1 where the input of RELU is positive. Bits after the end of a line are 0. */
static void product_set_bits(const trp__product_launch *r, int64_t l, int64_t i, int64_t j)
{
    const trp__matmul *g = &r->g;
    unsigned byte = 0;
    for (int bit = 0; bit < 8; bit++) {
        if (i * 8 + bit < g->m && product_linear(r, l, i * 8 + bit, j).re > 0)
            byte |= 1u << bit;
    }
    if (TRP__THREAD == 0)
        ((uint8_t *)r->at[TRP__MATMUL_AUX])
            [(l * g->stride[TRP__MATMUL_AUX] + j * g->ld[TRP__MATMUL_AUX]) / 8 + i] = (uint8_t)byte;
}

/* Stores element `line` of a bias gradient. */
static void product_set_vector(const trp__product_launch *r, int64_t l, int64_t line)
{
    const trp__matmul *g = &r->g;
    product_number sum = {0, 0};
    for (int64_t j = 0; j < g->n && g->gradient == TRP_BIAS_GRADIENT_D; j++)
        sum.re += product_activated(r, l, line, j, product_linear(r, l, line, j).re);
    if (g->gradient != TRP_BIAS_GRADIENT_D) {
        for (int64_t p = TRP__THREAD; p < g->k; p += TRP__THREADS)
            sum.re += product_input(r, g->gradient == TRP_BIAS_GRADIENT_A ? 0 : 1, l, line, p).re;
        sum = product_sum_of_block(sum);
    }
    if (TRP__THREAD == 0)
        trp__element_store(g->vector_type, r->at[TRP__MATMUL_VECTOR], l * g->vector_stride + line,
                           sum.re);
}

/* Returns the length of a line of the output. */
static int64_t product_lines(const trp__product_launch *r)
{
    const trp__matmul *g = &r->g;
    if (r->what == TRP__MATMUL_AUX && g->type[TRP__MATMUL_AUX] == TRP_DTYPE_NONE)
        return (g->m + 7) / 8;
    return r->what == TRP__MATMUL_VECTOR && g->gradient == TRP_BIAS_GRADIENT_B ? g->n : g->m;
}

TRP__KERNEL void trp_product_reference(const trp__product_launch r)
{
    const int64_t lines = product_lines(&r), n = r.g.n;
    for (int64_t at = TRP__BLOCK; at < r.count; at += TRP__BLOCKS) {
        const int64_t number = r.sample ? r.sample[at] : at;
        const int64_t i = number % lines, rest = number / lines;
        if (r.what == TRP__MATMUL_VECTOR)
            product_set_vector(&r, rest, i);
        else if (r.what == TRP__MATMUL_D)
            product_set_d(&r, rest / n, i, rest % n);
        else if (r.g.type[TRP__MATMUL_AUX] == TRP_DTYPE_NONE)
            product_set_bits(&r, rest / n, i, rest % n);
        else
            product_set_aux(&r, rest / n, i, rest % n);
    }
}

#endif

/* See matmul_reference.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/matmul_reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void *zeroed(int64_t count, size_t size)
{
    void *out = calloc((size_t)(count > 0 ? count : 1), size);
    if (!out) {
        fprintf(stderr, "matmul_reference: no memory\n");
        abort();
    }
    return out;
}

/* ---- scale factors ---- */

static int64_t block_width(trp_scale_mode mode)
{
    return mode == TRP_SCALE_BLOCK_16 ? 16 : mode == TRP_SCALE_BLOCK_32 ? 32 : 128;
}

static int64_t blocks_of(int64_t count, int64_t width)
{
    return (count + width - 1) / width;
}

/* Tiles of 128 lines by 4 blocks of k, 512 bytes each, those of the same lines first. */
static int64_t place_in_tiles(int64_t line, int64_t block, int64_t blocks)
{
    int64_t tiles_along_k = blocks_of(blocks, 4);
    int64_t tile = line / 128 * tiles_along_k + block / 4;
    int64_t l = line % 128, b = block % 4;
    return tile * 512 + l % 32 * 16 + l / 32 * 4 + b;
}

int64_t ref_scale_place(trp_scale_mode mode, int64_t lines, int64_t k, int64_t line, int64_t p)
{
    int64_t blocks = blocks_of(k, block_width(mode)), block = p / block_width(mode);
    switch (mode) {
    case TRP_SCALE_TENSOR:
        return 0;
    case TRP_SCALE_VECTOR:
        return line;
    case TRP_SCALE_BLOCK_16:
    case TRP_SCALE_BLOCK_32:
        return place_in_tiles(line, block, blocks);
    case TRP_SCALE_BLOCK_128:
        return block * lines + line;
    case TRP_SCALE_BLOCK_128X128:
        return line / 128 * (blocks_of(blocks, 4) * 4) + block;
    }
    abort();
}

double ref_scale(trp_scale_mode mode, const void *at, int64_t lines, int64_t k, int64_t line,
                 int64_t p)
{
    int64_t place = ref_scale_place(mode, lines, k, line, p);
    if (mode == TRP_SCALE_BLOCK_16)
        return ref_ue4m3(((const uint8_t *)at)[place]);
    if (mode == TRP_SCALE_BLOCK_32)
        return ref_ue8m0(((const uint8_t *)at)[place]);
    return (double)((const float *)at)[place];
}

int64_t ref_scale_bytes(trp_scale_mode mode, int64_t lines, int64_t k)
{
    int64_t blocks = blocks_of(k, block_width(mode));
    switch (mode) {
    case TRP_SCALE_TENSOR:
        return 4;
    case TRP_SCALE_VECTOR:
        return 4 * lines;
    case TRP_SCALE_BLOCK_16:
    case TRP_SCALE_BLOCK_32:
        return blocks_of(lines, 128) * blocks_of(blocks, 4) * 512;
    case TRP_SCALE_BLOCK_128:
        return 4 * lines * blocks;
    case TRP_SCALE_BLOCK_128X128:
        return 4 * blocks_of(lines, 128) * blocks_of(blocks, 4) * 4;
    }
    abort();
}

/* ---- inputs ---- */

static ref_complex element(const trp_matmul_matrix *x, const void *at, int64_t row, int64_t column,
                           int64_t batch)
{
    int64_t line = x->order == TRP_ROW_MAJOR ? row : column;
    int64_t place = x->order == TRP_ROW_MAJOR ? column : row;
    return ref_element_load(x->type, at, batch * x->stride + line * x->ld + place);
}

/* op(A), or op(B) transposed, as scaled lines of k numbers; if the type is complex, all imaginary
 * parts follow all real parts. */
typedef struct lines {
    double *re, *im;
} lines;

static lines lines_of(const ref_matmul *p, bool a, int64_t batch)
{
    const trp_matmul_matrix *x = a ? &p->r.a : &p->r.b;
    trp_transpose trans = a ? p->r.trans_a : p->r.trans_b;
    const void *at = a ? p->a : p->b, *scale = a ? p->scale_a : p->scale_b;
    int64_t count = a ? p->r.m : p->r.n, k = p->r.k;
    bool two_parts = ref_blas_complex(x->type);
    bool line_is_row = a == (trans == TRP_N);
    lines out = {.re = zeroed(2 * count * k, sizeof *out.re)};
    out.im = two_parts ? out.re + count * k : NULL;
    for (int64_t line = 0; line < count; line++) {
        for (int64_t q = 0; q < k; q++) {
            ref_complex v = element(x, at, line_is_row ? line : q, line_is_row ? q : line, batch);
            double factor = scale ? ref_scale(x->scale.mode, scale, count, k, line, q) : 1;
            out.re[line * k + q] = creal(v) * factor;
            if (two_parts)
                out.im[line * k + q] = trans == TRP_C ? -cimag(v) : cimag(v);
        }
    }
    return out;
}

static void dot(lines a, lines b, int64_t i, int64_t j, int64_t k, double sum[2], double *size)
{
    const double *x = a.re + i * k, *y = b.re + j * k;
    sum[0] = sum[1] = *size = 0;
    if (!a.im) {
        for (int64_t q = 0; q < k; q++) {
            sum[0] += x[q] * y[q];
            *size += fabs(x[q] * y[q]);
        }
        return;
    }
    const double *u = a.im + i * k, *v = b.im + j * k;
    for (int64_t q = 0; q < k; q++) {
        sum[0] += x[q] * y[q] - u[q] * v[q];
        sum[1] += x[q] * v[q] + u[q] * y[q];
        *size += (fabs(x[q]) + fabs(u[q])) * (fabs(y[q]) + fabs(v[q]));
    }
}

/* Returns alpha of an element, or beta. */
static ref_complex scalar(const ref_matmul *p, int which, int64_t i, int64_t j, int64_t l)
{
    trp_scalar given = which == 0 ? p->r.alpha : p->r.beta;
    if (p->alphas && which == 0)
        return ref_element_load(p->scalar_type, p->alphas,
                                l * p->r.alphas.stride + (p->r.d.order == TRP_ROW_MAJOR ? j : i));
    if (p->scalars)
        return ref_element_load(p->scalar_type, p->scalars, which);
    if (!given.given)
        return which == 0 ? 1 : 0;
    return ref_blas_complex(p->scalar_type) ? given.re + given.im * I : given.re;
}

/* ---- rounding ---- */

/* Returns half a step of a type at a value that is not negative: the largest rounding error. */
static double half_step(trp_dtype type, double value)
{
    double step = type == TRP_F64 || type == TRP_C128 || type == TRP_I32 ? 0
                  : type == TRP_F32 || type == TRP_C64                   ? 0x1p-24 * value
                  : type == TRP_I8                                       ? 0.5
                  : type == TRP_F4E2M1                                   ? 0.25 * value + 0.25
                  : type == TRP_F16                                      ? 0x1p-11 * value + 0x1p-25
                  : type == TRP_BF16                                     ? 0x1p-8 * value
                  : type == TRP_F8E4M3                                   ? 0x1p-4 * value + 0x1p-10
                                                                         : 0x1p-3 * value + 0x1p-17;
    /* plus the error of saturation */
    return step + fmax(value - fabs(ref_element_round(type, value)), 0);
}

/* ---- X ---- */

/* Below this size, a result may have been rounded to a multiple of the smallest step, or to 0. */
static double smallest(trp_dtype type)
{
    return type == TRP_F64 || type == TRP_C128 ? 0x1p-1022 : 0x1p-126;
}

static double own_unit(const ref_matmul *p)
{
    return p->r.a.type == TRP_F64 || p->r.a.type == TRP_C128 ? 0x1p-53 : 0x1p-24;
}

/* Arithmetic of i32 wraps, and has no bound. */
static ref_value wrapped(ref_complex alpha_of, ref_complex beta_of, double sum, double c)
{
    uint64_t alpha = (uint64_t)(int64_t)creal(alpha_of);
    uint64_t beta = (uint64_t)(int64_t)creal(beta_of);
    uint64_t value = alpha * (uint64_t)(int64_t)sum + beta * (uint64_t)(int64_t)c;
    return (ref_value){.value = (int32_t)(uint32_t)value};
}

/* Returns X + bias of an element. */
static ref_value place_of(const ref_matmul *p, lines a, lines b, int64_t i, int64_t j, int64_t l)
{
    const trp_matmul_request *r = &p->r;
    ref_complex alpha = scalar(p, 0, i, j, l), beta = scalar(p, 1, i, j, l), c = 0;
    double sum[2], size, bias = 0;
    dot(a, b, i, j, r->k, sum, &size);
    if (beta != 0)
        c = element(&r->c, p->c, i, j, l);
    if (r->d.type == TRP_I32)
        return wrapped(alpha, beta, sum[0], creal(c));
    if (p->bias)
        bias = creal(ref_element_load(r->bias.type, p->bias,
                                      l * r->bias.stride + (r->d.order == TRP_ROW_MAJOR ? j : i)));
    double product = cabs(alpha) * size, rest = cabs(beta) * cabs(c) + fabs(bias);
    double steps = 2 * ((double)r->k + 6) * p->unit.step * (a.im ? 2 : 1);
    ref_complex own = alpha * (sum[0] + sum[1] * I), x = own + beta * c;
    bool two_passes =
        p->unit.between && (p->bias || r->activation != TRP_ACTIVATION_NONE || beta != 0);
    return (ref_value){
        .value = x + bias,
        .bound =
            product * (steps + 2 * p->unit.input) + rest * 16 * own_unit(p) +
            (double)r->k * (1 + cabs(alpha)) * smallest(r->a.type) +
            (two_passes ? half_step(r->d.type, cabs(own)) + half_step(r->d.type, cabs(x)) : 0)};
}

/* ---- activations: a value, and the growth of its error ---- */

static double gelu(double x)
{
    return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    double u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    double du = sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    double s = 1 / cosh(u);
    return (1 + tanh(u)) / 2 + (s > 0 ? x / 2 * s * s * du : 0);
}

static bool bit_of(const ref_matmul *p, int64_t i, int64_t j, int64_t l)
{
    const trp_matmul_matrix *aux = &p->r.aux;
    bool row_major = aux->order == TRP_ROW_MAJOR;
    int64_t at = l * aux->stride + (row_major ? i : j) * aux->ld + (row_major ? j : i);
    return ((const uint8_t *)p->aux)[at / 8] >> at % 8 & 1;
}

static double aux_factor(const ref_matmul *p)
{
    return p->scale_aux ? (double)*(const float *)p->scale_aux : 1;
}

/* The slopes of gelu and silu are below 1.13; functions have the error of their unit. */
static ref_value activated(const ref_matmul *p, ref_value x, int64_t i, int64_t j, int64_t l)
{
    double v = creal(x.value), slope;
    double of_function = fabs(v) * p->unit.function;
    switch (p->r.activation) {
    case TRP_ACTIVATION_RELU:
        return (ref_value){v > 0 ? v : 0, x.bound};
    case TRP_ACTIVATION_GELU:
        return (ref_value){gelu(v), 1.13 * x.bound + 8 * of_function};
    case TRP_ACTIVATION_SILU:
        return (ref_value){v / (1 + exp(-v)), 1.13 * x.bound + 8 * of_function};
    case TRP_ACTIVATION_DRELU:
        return bit_of(p, i, j, l) ? x : (ref_value){0};
    case TRP_ACTIVATION_DGELU:
        slope = gelu_slope(creal(element(&p->r.aux, p->aux, i, j, l)) * aux_factor(p));
        return (ref_value){v * slope, 1.13 * x.bound + 64 * of_function};
    default:
        return x;
    }
}

/* ---- sums and largest values ---- */

static void note_largest(ref_value *largest, const ref_value *x)
{
    if (fabs(creal(x->value)) > creal(largest->value))
        largest->value = fabs(creal(x->value));
    largest->bound = fmax(largest->bound, x->bound);
}

/* Sums D before its scale. */
static void sum_d(ref_matmul *p, const ref_value *active, int64_t l, double factor)
{
    const trp_matmul_request *r = &p->r;
    bool row_major = r->d.order == TRP_ROW_MAJOR;
    int64_t across = row_major ? r->m : r->n;
    ref_value *out = p->gradient + l * p->gradient_count;
    for (int64_t i = 0; i < r->m; i++) {
        for (int64_t j = 0; j < r->n; j++) {
            const ref_value *x = &active[j * r->m + i];
            ref_value *sum = &out[row_major ? j : i];
            double size = fabs(creal(x->value));
            sum->value += x->value;
            sum->bound += x->bound + 4 * ((double)across + 4) * own_unit(p) * size +
                          half_step(r->d.type, size * factor) / fabs(factor);
        }
    }
}

static void sum_input(ref_matmul *p, const double *line, int64_t l)
{
    for (int64_t i = 0; i < p->gradient_count; i++) {
        ref_value *sum = &p->gradient[l * p->gradient_count + i];
        for (int64_t q = 0; q < p->r.k; q++) {
            double v = line[i * p->r.k + q];
            sum->value += v;
            sum->bound += 4 * ((double)p->r.k + 4) * own_unit(p) * fabs(v);
        }
    }
}

/* ---- interface ---- */

static void compute_one(ref_matmul *p, int64_t l)
{
    const trp_matmul_request *r = &p->r;
    lines a = lines_of(p, true, l), b = lines_of(p, false, l);
    int64_t cells = r->m * r->n;
    double factor = p->scale_d ? (double)*(const float *)p->scale_d : 1;
    ref_value *active = zeroed(cells, sizeof *active);
    for (int64_t j = 0; j < r->n; j++) {
        for (int64_t i = 0; i < r->m; i++) {
            int64_t at = j * r->m + i;
            ref_value *before = &p->before[l * cells + at], *d = &p->d[l * cells + at];
            ref_value *aux = &p->aux_out[l * cells + at];
            *before = place_of(p, a, b, i, j, l);
            note_largest(&p->amax_aux, before);
            *aux = (ref_value){before->value * aux_factor(p),
                               before->bound * fabs(aux_factor(p)) +
                                   2 * own_unit(p) * cabs(before->value * aux_factor(p))};
            active[at] = activated(p, *before, i, j, l);
            note_largest(&p->amax_d, &active[at]);
            *d = active[at];
            if (p->scale_d)
                *d = (ref_value){d->value * factor, d->bound * fabs(factor) +
                                                        2 * own_unit(p) * cabs(d->value * factor)};
        }
    }
    if (r->gradient_of == TRP_BIAS_GRADIENT_D)
        sum_d(p, active, l, factor);
    else if (r->gradient_of != TRP_BIAS_GRADIENT_NONE)
        sum_input(p, r->gradient_of == TRP_BIAS_GRADIENT_A ? a.re : b.re, l);
    free(active);
    free(a.re);
    free(b.re);
}

void ref_matmul_compute(ref_matmul *p)
{
    const trp_matmul_request *r = &p->r;
    int64_t all = r->m * r->n * r->batch;
    bool along_m = r->gradient_of == TRP_BIAS_GRADIENT_A ||
                   (r->gradient_of == TRP_BIAS_GRADIENT_D && r->d.order == TRP_COL_MAJOR);
    p->gradient_count = along_m ? r->m : r->n;
    p->d = zeroed(all, sizeof *p->d);
    p->before = zeroed(all, sizeof *p->before);
    p->aux_out = zeroed(all, sizeof *p->aux_out);
    p->gradient = zeroed(p->gradient_count * r->batch, sizeof *p->gradient);
    p->amax_d = p->amax_aux = (ref_value){0};
    for (int64_t l = 0; l < r->batch; l++)
        compute_one(p, l);
}

void ref_matmul_free(ref_matmul *p)
{
    free(p->d);
    free(p->before);
    free(p->aux_out);
    free(p->gradient);
}

/* ---- comparison ---- */

static bool part_right(double want, double bound, trp_dtype type, double got, double *share)
{
    double low = ref_element_round(type, want - bound),
           high = ref_element_round(type, want + bound);
    if (!(got >= low && got <= high))
        return false;
    double beyond = fabs(got - want) - half_step(type, fmax(fabs(got), fabs(want)));
    if (bound > 0 && isfinite(beyond))
        *share = fmax(*share, beyond / bound);
    return true;
}

bool ref_value_right(const ref_value *want, trp_dtype type, ref_complex got, double *share)
{
    if (!part_right(creal(want->value), want->bound, type, creal(got), share))
        return false;
    return !ref_blas_complex(type) ||
           part_right(cimag(want->value), want->bound, type, cimag(got), share);
}

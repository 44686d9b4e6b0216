/* Draws products that matmul.h allows. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/matmul/problem.h"

#include <math.h>

#define FP8_ROWS(a, b)                                                                             \
    {a, b, TRP_F32, TRP_F32, TRP_BF16, TRP_F32}, {a, b, TRP_BF16, TRP_BF16, TRP_BF16, TRP_F32},    \
        {a, b, TRP_F16, TRP_F16, TRP_F16, TRP_F32},                                                \
        {a, b, TRP_BF16, TRP_F8E4M3, TRP_BF16, TRP_F32},                                           \
        {a, b, TRP_F16, TRP_F8E4M3, TRP_F16, TRP_F32},                                             \
        {a, b, TRP_BF16, TRP_F8E5M2, TRP_BF16, TRP_F32},                                           \
    {                                                                                              \
        a, b, TRP_F16, TRP_F8E5M2, TRP_F16, TRP_F32                                                \
    }

const mm_types mm_rows[] = {
    {TRP_F64, TRP_F64, TRP_F64, TRP_F64, TRP_F64, TRP_F64},
    {TRP_F32, TRP_F32, TRP_F32, TRP_F32, TRP_F32, TRP_F32},
    {TRP_F16, TRP_F16, TRP_F16, TRP_F16, TRP_F16, TRP_F32},
    {TRP_F16, TRP_F16, TRP_F32, TRP_F32, TRP_F32, TRP_F32},
    {TRP_BF16, TRP_BF16, TRP_BF16, TRP_BF16, TRP_BF16, TRP_F32},
    {TRP_BF16, TRP_BF16, TRP_F32, TRP_F32, TRP_F32, TRP_F32},
    {TRP_C64, TRP_C64, TRP_C64, TRP_C64, TRP_DTYPE_NONE, TRP_C64},
    {TRP_C128, TRP_C128, TRP_C128, TRP_C128, TRP_DTYPE_NONE, TRP_C128},
    {TRP_I8, TRP_I8, TRP_I32, TRP_I32, TRP_DTYPE_NONE, TRP_I32},
    {TRP_I8, TRP_I8, TRP_I8, TRP_I8, TRP_F32, TRP_F32},
    FP8_ROWS(TRP_F8E4M3, TRP_F8E4M3),
    FP8_ROWS(TRP_F8E4M3, TRP_F8E5M2),
    FP8_ROWS(TRP_F8E5M2, TRP_F8E4M3),
    {TRP_F4E2M1, TRP_F4E2M1, TRP_F32, TRP_F32, TRP_BF16, TRP_F32},
    {TRP_F4E2M1, TRP_F4E2M1, TRP_BF16, TRP_BF16, TRP_BF16, TRP_F32},
    {TRP_F4E2M1, TRP_F4E2M1, TRP_F16, TRP_F16, TRP_F16, TRP_F32},
    {TRP_F4E2M1, TRP_F4E2M1, TRP_BF16, TRP_F4E2M1, TRP_BF16, TRP_F32},
    {TRP_F4E2M1, TRP_F4E2M1, TRP_F16, TRP_F4E2M1, TRP_F16, TRP_F32},
};
const size_t mm_row_count = sizeof mm_rows / sizeof *mm_rows;

static bool is_fp8(trp_dtype type)
{
    return type == TRP_F8E4M3 || type == TRP_F8E5M2;
}

/* ---- drawing ---- */

static bool coin(void)
{
    return ref_rng_below(h_rng(), 2);
}

static bool one_in(size_t n)
{
    return ref_rng_below(h_rng(), n) == 0;
}

/* Draws integers, which are scalars of i32 as well; mm_settle() makes fractions of them for other
 * types. */
static trp_scalar draw_scalar(bool beta)
{
    static const double values[] = {1, -2, 3, -0.5, 2.25, -1, 0, 0.7};
    size_t i = ref_rng_below(h_rng(), 11);
    trp_scalar s = i < 8 ? trp_complex(values[i], coin() ? values[(i + 3) % 8] : 0) : trp_real(1);
    return i == 10 && !beta ? (trp_scalar){0} : s;
}

static void draw_layout(mm_problem *p)
{
    p->gaps = !one_in(4);
    p->one_pool = one_in(3);
    p->two_pools = !one_in(8);
    p->share_a = one_in(3);
    p->share_b = one_in(3);
    p->share_c = one_in(4);
    p->share_bias = coin();
    p->share_alphas = coin();
    p->side_by_side = one_in(6);
    p->fit = h_is_cuda() && !one_in(8);
    p->fast = coin();
    p->deterministic = ref_rng_below(h_rng(), 4) == 0;
    p->sm_count = coin() ? (int32_t)ref_rng_below(h_rng(), 200) : 0;
}

static int draw_mode(trp_dtype input, bool batch)
{
    static const trp_scale_mode fp8[] = {TRP_SCALE_TENSOR, TRP_SCALE_VECTOR, TRP_SCALE_BLOCK_32,
                                         TRP_SCALE_BLOCK_128, TRP_SCALE_BLOCK_128X128};
    if (one_in(4))
        return MM_UNSCALED;
    return input == TRP_F4E2M1 ? TRP_SCALE_BLOCK_16
                               : (int)fp8[batch ? 0 : ref_rng_below(h_rng(), 5)];
}

mm_problem mm_draw(const mm_types *types, size_t size_limit, size_t k_limit)
{
    ref_rng *rng = h_rng();
    mm_problem p = {.types = types};
    p.m = (int64_t)h_random_size(rng, size_limit);
    p.n = (int64_t)h_random_size(rng, size_limit);
    p.k = (int64_t)h_random_size(rng, k_limit);
    p.m += p.m == 0;
    p.n += p.n == 0;
    p.k += p.k == 0;
    p.batch = coin() ? 1 : 2 + (int64_t)ref_rng_below(rng, 3);
    p.trans_a = (trp_transpose)ref_rng_below(rng, 3);
    p.trans_b = (trp_transpose)ref_rng_below(rng, 3);
    p.order_a = coin() ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
    p.order_b = coin() ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
    p.order_d = coin() ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
    p.c = (mm_c)ref_rng_below(rng, 3);
    p.alpha = draw_scalar(false);
    p.beta = draw_scalar(true);
    p.scalars = one_in(4);
    p.alphas = !p.scalars && one_in(5);
    p.compute = one_in(4) ? TRP_COMPUTE_TF32 : TRP_COMPUTE_DEFAULT;
    p.activation = (trp_activation)ref_rng_below(rng, 6);
    p.bias = coin();
    p.aux = coin();
    p.aux_as_vector = coin();
    p.gradient = (trp_bias_gradient)ref_rng_below(rng, 4);
    p.scale_a = draw_mode(types->a, p.batch > 1);
    p.scale_b = draw_mode(types->b, p.batch > 1);
    p.scale_d = coin();
    p.scale_aux = coin();
    p.amax_d = coin();
    p.amax_aux = coin();
    p.out_scale = one_in(3);
    draw_layout(&p);
    return p;
}

/* ---- settling ---- */

static trp_scalar settle_scalar(trp_dtype type, trp_scalar s)
{
    if (!ref_blas_complex(type))
        s.im = 0;
    if (type == TRP_I32)
        s.re = trunc(s.re);
    return s;
}

static void settle_scalars(mm_problem *p)
{
    if (p->c == MM_C_IN_PLACE && p->types->c != p->types->d)
        p->c = MM_C_APART;
    if (p->c == MM_C_ABSENT && p->scalars)
        p->c = MM_C_APART;
    if (p->c == MM_C_ABSENT)
        p->beta = (trp_scalar){0};
    p->alphas = p->alphas && !ref_blas_complex(p->types->scalar);
    p->alpha = settle_scalar(p->types->scalar, p->alpha);
    p->beta = settle_scalar(p->types->scalar, p->beta);
    if (p->types->d == TRP_I8) /* otherwise most of D is saturated */
        p->alpha.re /= p->alpha.given ? 1024 : 1;
    if (p->types->a != TRP_F32 && p->types->a != TRP_C64)
        p->compute = TRP_COMPUTE_DEFAULT;
    p->fast = p->fast && is_fp8(p->types->a);
}

static bool is_derivative(trp_activation activation)
{
    return activation == TRP_ACTIVATION_DRELU || activation == TRP_ACTIVATION_DGELU;
}

static void settle_epilogue(mm_problem *p)
{
    const mm_types *t = p->types;
    bool has_aux = t->vector != TRP_DTYPE_NONE && t->d != TRP_I8 && t->d != TRP_F4E2M1;
    if (t->vector == TRP_DTYPE_NONE || (!has_aux && is_derivative(p->activation)))
        p->activation = TRP_ACTIVATION_NONE;
    p->aux = has_aux && p->activation != TRP_ACTIVATION_NONE &&
             p->activation != TRP_ACTIVATION_SILU && (p->aux || is_derivative(p->activation));
    p->aux_as_vector = p->aux_as_vector && is_fp8(t->d);
    bool of_input = p->gradient == TRP_BIAS_GRADIENT_A || p->gradient == TRP_BIAS_GRADIENT_B;
    if (t->vector == TRP_DTYPE_NONE || (of_input && p->activation != TRP_ACTIVATION_NONE) ||
        (of_input && trp_dtype_bits(t->a) < 16) ||
        (p->gradient == TRP_BIAS_GRADIENT_D && !is_derivative(p->activation)))
        p->gradient = TRP_BIAS_GRADIENT_NONE;
    p->bias = p->bias && t->vector != TRP_DTYPE_NONE && !is_derivative(p->activation) &&
              p->gradient == TRP_BIAS_GRADIENT_NONE;
    bool gelu = p->activation == TRP_ACTIVATION_GELU || p->activation == TRP_ACTIVATION_DGELU;
    p->scale_aux = p->scale_aux && p->aux && gelu && is_fp8(t->d) && !p->aux_as_vector;
    p->amax_aux = p->amax_aux && p->aux && p->activation == TRP_ACTIVATION_GELU && is_fp8(t->d) &&
                  !p->aux_as_vector;
    p->out_scale = t->d == TRP_F4E2M1 || (p->out_scale && is_fp8(t->d) && p->batch == 1);
    p->scale_d = p->scale_d && (t->d == TRP_F4E2M1 || (is_fp8(t->d) && !p->out_scale));
    p->amax_d = p->amax_d && is_fp8(t->d) && !p->out_scale;
}

static int settle_mode(int mode, trp_dtype type, int64_t batch)
{
    bool block_16 = mode == TRP_SCALE_BLOCK_16;
    if (type == TRP_F4E2M1 ? !block_16 : !is_fp8(type) || block_16)
        return MM_UNSCALED;
    return mode > TRP_SCALE_TENSOR && batch > 1 ? MM_UNSCALED : mode;
}

static int64_t up_to(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* fp8 and fp4 on a GPU: k is contiguous in A and in B, and lines are multiples of 16 bytes. */
static void settle_sizes(mm_problem *p)
{
    trp_dtype type = p->types->a;
    bool narrow = trp_dtype_bits(type) < 16;
    int64_t unit = p->fit && narrow ? 128 / trp_dtype_bits(type) : type == TRP_F4E2M1 ? 2 : 1;
    p->m = up_to(p->m, unit);
    p->n = up_to(p->n, unit);
    p->k = up_to(p->k, unit);
    if (p->fit && narrow) {
        p->trans_a = p->order_a == TRP_ROW_MAJOR ? TRP_N : TRP_T;
        p->trans_b = p->order_b == TRP_ROW_MAJOR ? TRP_T : TRP_N;
    }
    /* Libraries have no conjugation without a transpose. */
    if (p->trans_a == TRP_C && ref_blas_complex(type) && p->order_a != p->order_d)
        p->trans_a = TRP_T;
    if (p->trans_b == TRP_C && ref_blas_complex(type) && p->order_b != p->order_d)
        p->trans_b = TRP_T;
    p->side_by_side = p->side_by_side && p->gaps && !p->fit && p->batch > 1;
}

void mm_settle(mm_problem *p)
{
    if (p->types->d == TRP_F4E2M1)
        p->batch = 1;
    settle_scalars(p);
    settle_epilogue(p);
    p->scale_a = settle_mode(p->scale_a, p->types->a, p->batch);
    p->scale_b = settle_mode(p->scale_b, p->types->b, p->batch);
    settle_sizes(p);
}

void mm_describe(const mm_problem *p, char *out, size_t size)
{
    const mm_types *t = p->types;
    snprintf(
        out, size,
        "%s x %s -> %s (c %s): m n k %" PRId64 " %" PRId64 " %" PRId64 " batch %" PRId64
        ", trans %d %d, order %d %d %d, c %d, alpha %g %g beta %g %g%s%s, activation %d bias %d "
        "aux %d%s gradient %d, scales %d %d d %d aux %d out %d, gaps %d fit %d pools %d %d share "
        "%d %d "
        "%d %d side by side %d tf32 %d fast %d deterministic %d multiprocessors %d",
        trp_dtype_name(t->a), trp_dtype_name(t->b), trp_dtype_name(t->d), trp_dtype_name(t->c),
        p->m, p->n, p->k, p->batch, (int)p->trans_a, (int)p->trans_b, (int)p->order_a,
        (int)p->order_b, (int)p->order_d, (int)p->c, p->alpha.re, p->alpha.im, p->beta.re,
        p->beta.im, p->scalars ? " in a buffer" : "", p->alphas ? " alphas" : "",
        (int)p->activation, p->bias, p->aux, p->aux_as_vector ? " as vectors" : "",
        (int)p->gradient, p->scale_a, p->scale_b, p->scale_d, p->scale_aux, p->out_scale, p->gaps,
        p->fit, p->one_pool, p->two_pools, p->share_a, p->share_b, p->share_c, p->share_bias,
        p->side_by_side, (int)p->compute, p->fast, p->deterministic, (int)p->sm_count);
}

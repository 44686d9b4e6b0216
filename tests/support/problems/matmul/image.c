/* See image.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/matmul/image.h"

/* ---- laying out ---- */

static size_t bits_of(const mm_image *x)
{
    return x->type == TRP_DTYPE_NONE ? 1 : trp_dtype_bits(x->type);
}

static size_t element_bytes(const mm_image *x)
{
    return bits_of(x) < 8 ? 1 : bits_of(x) / 8;
}

static int64_t up_to(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static int64_t gap(const mm_scene *s, size_t most)
{
    return s->p.gaps ? (int64_t)ref_rng_below(h_rng(), most) : 0;
}

/* Returns the factor of leading dimensions, strides and offsets. */
static int64_t unit_of(const mm_scene *s, const mm_image *x)
{
    int64_t least = x->type == TRP_DTYPE_NONE ? 128 : x == &s->at[MM_AUX] ? 8 : 1;
    int64_t fit = s->p.fit && x->type != TRP_DTYPE_NONE ? 128 / (int64_t)bits_of(x) : 1;
    if (x->type == TRP_F4E2M1 && fit < 2)
        fit = 2;
    return least > fit ? least : fit;
}

/* Allocates memory for an operand whose elements have been counted. Poison is NaN in most types,
 * and arbitrary bits in those without NaN. */
static void allocate(mm_scene *s, mm_image *x, size_t alignment)
{
    int64_t elements = (x->count - 1) * x->stride + (x->lines - 1) * x->ld + x->run;
    size_t inside = ((size_t)elements * bits_of(x) + 7) / 8;
    size_t step = s->p.fit && alignment < 16 ? 16 : alignment;
    x->there = true;
    x->head = (size_t)gap(s, 9) * step;
    x->bytes = x->head + inside + (s->p.tight ? 0 : 8 + (size_t)gap(s, 9));
    x->before = h_malloc(x->bytes);
    x->after = h_malloc(x->bytes);
    x->may_change = h_malloc(x->bytes);
    memset(x->may_change, 0, x->bytes);
    if (x->type == TRP_DTYPE_NONE || x->type == TRP_I8 || x->type == TRP_I32)
        h_random_bytes(h_rng(), x->before, x->bytes);
    else
        memset(x->before, 0xff, x->bytes);
}

static void lay_out(mm_scene *s, int which, trp_dtype type, int64_t run, int64_t lines, bool share)
{
    mm_image *x = &s->at[which];
    *x = (mm_image){.type = type, .run = run, .lines = lines, .count = s->p.batch};
    int64_t unit = unit_of(s, x);
    if (which == MM_AUX && x->type == TRP_DTYPE_NONE)
        x->run = up_to(run, 128); /* a library may write all of these */
    if (which == MM_D && s->p.side_by_side) {
        x->stride = up_to(x->run, unit) + gap(s, 3) * unit;
        x->ld = x->stride * x->count + gap(s, 3) * unit;
    } else {
        x->ld = up_to(x->run, unit) + gap(s, 5) * unit;
        x->stride = share ? 0 : up_to(lines * x->ld, unit) + gap(s, 4) * unit;
    }
    allocate(s, x, element_bytes(x));
}

/* Lays out a packed array. */
static void lay_out_small(mm_scene *s, int which, trp_dtype type, int64_t elements,
                          size_t alignment)
{
    mm_image *x = &s->at[which];
    *x = (mm_image){.type = type, .run = elements, .lines = 1, .ld = elements, .count = 1};
    allocate(s, x, alignment);
}

static void lay_out_matrices(mm_scene *s)
{
    const mm_problem *p = &s->p;
    const mm_types *t = p->types;
    bool a_down = (p->order_a == TRP_COL_MAJOR) == (p->trans_a == TRP_N); /* lines run along m */
    bool b_down = (p->order_b == TRP_COL_MAJOR) == (p->trans_b == TRP_N); /* lines run along k */
    bool row_major = p->order_d == TRP_ROW_MAJOR;
    int64_t run = row_major ? p->n : p->m, lines = row_major ? p->m : p->n;
    lay_out(s, MM_A, t->a, a_down ? p->m : p->k, a_down ? p->k : p->m, p->share_a);
    lay_out(s, MM_B, t->b, b_down ? p->k : p->n, b_down ? p->n : p->k, p->share_b);
    lay_out(s, MM_D, t->d, run, lines, false);
    s->at[MM_D].written = true;
    if (p->c == MM_C_APART)
        lay_out(s, MM_C, t->c, run, lines, p->share_c);
    if (!p->aux)
        return;
    bool bits = p->activation == TRP_ACTIVATION_RELU || p->activation == TRP_ACTIVATION_DRELU;
    lay_out(s, MM_AUX,
            bits               ? TRP_DTYPE_NONE
            : p->aux_as_vector ? t->vector
                               : t->d,
            run, lines, false);
    s->at[MM_AUX].written =
        p->activation == TRP_ACTIVATION_RELU || p->activation == TRP_ACTIVATION_GELU;
}

static int64_t vector_length(const mm_problem *p)
{
    if (p->gradient == TRP_BIAS_GRADIENT_A)
        return p->m;
    if (p->gradient == TRP_BIAS_GRADIENT_B)
        return p->n;
    return p->order_d == TRP_ROW_MAJOR ? p->n : p->m;
}

static void lay_out_scale(mm_scene *s, int which, int mode, int64_t lines)
{
    if (mode == MM_UNSCALED)
        return;
    bool bytes = mode == TRP_SCALE_BLOCK_16 || mode == TRP_SCALE_BLOCK_32;
    int64_t size = ref_scale_bytes((trp_scale_mode)mode, lines, s->p.k);
    lay_out_small(s, which, bytes ? TRP_F8E4M3 : TRP_F32, bytes ? size : size / 4, bytes ? 16 : 4);
}

static void lay_out_all(mm_scene *s)
{
    const mm_problem *p = &s->p;
    lay_out_matrices(s);
    if (p->bias || p->gradient) {
        lay_out(s, MM_VECTOR, p->types->vector, vector_length(p), 1, p->bias && p->share_bias);
        s->at[MM_VECTOR].written = !p->bias;
    }
    if (p->scalars)
        lay_out_small(s, MM_SCALARS, p->types->scalar, 2, trp_dtype_bits(p->types->scalar) / 8);
    if (p->alphas)
        lay_out(s, MM_ALPHAS, p->types->scalar, p->order_d == TRP_ROW_MAJOR ? p->n : p->m, 1,
                p->share_alphas);
    lay_out_scale(s, MM_SCALE_A, p->scale_a, p->m);
    lay_out_scale(s, MM_SCALE_B, p->scale_b, p->n);
    if (p->out_scale) {
        const mm_image *out = &s->at[MM_D];
        lay_out_small(s, MM_OUT_SCALE, TRP_F8E4M3,
                      ref_scale_bytes(mm_out_mode(p), out->lines, out->run), 16);
        s->at[MM_OUT_SCALE].written = true;
    }
    const bool one[] = {p->scale_d, p->scale_aux, p->amax_d, p->amax_aux};
    for (int i = 0; i < 4; i++) {
        if (one[i])
            lay_out_small(s, MM_SCALE_D + i, TRP_F32, 1, 4);
        s->at[MM_SCALE_D + i].written = i >= 2;
    }
}

/* ---- filling ---- */

static double draw_value(trp_dtype type, double limit)
{
    if (type == TRP_I32)
        return (double)(int32_t)(uint32_t)ref_rng_next(h_rng());
    if (type == TRP_I8)
        return -128.0 + (double)ref_rng_below(h_rng(), 256);
    return ref_rng_uniform(h_rng(), -limit, limit);
}

static void fill(mm_image *x, double limit)
{
    if (!x->there || x->type == TRP_DTYPE_NONE)
        return;
    for (int64_t l = 0; l < (x->stride == 0 ? 1 : x->count); l++) {
        for (int64_t line = 0; line < x->lines; line++) {
            for (int64_t i = 0; i < x->run; i++) {
                double re = draw_value(x->type, limit), im = draw_value(x->type, limit);
                ref_element_store(x->type, x->before + x->head, mm_place(x, l, line, i),
                                  re + im * I);
            }
        }
    }
}

/* Draws factors near 1. In partly filled blocks and tiles the rest stays NaN; but a GPU multiplies
 * it with zeros. */
static void fill_scale(mm_scene *s, int which, int mode, int64_t lines)
{
    mm_image *x = &s->at[which];
    if (!x->there)
        return;
    uint8_t *at = x->before + x->head;
    if (h_is_cuda())
        memset(at, 0, (size_t)x->run * element_bytes(x));
    for (int64_t line = 0; line < lines; line++) {
        for (int64_t q = 0; q < s->p.k; q++) {
            int64_t i = ref_scale_place((trp_scale_mode)mode, lines, s->p.k, line, q);
            if (mode == TRP_SCALE_BLOCK_32)
                at[i] = (uint8_t)(123 + ref_rng_below(h_rng(), 8));
            else
                ref_element_store(x->type, at, i, ref_rng_uniform(h_rng(), 0.25, 3));
        }
    }
}

static void fill_scalars(mm_scene *s)
{
    const mm_problem *p = &s->p;
    mm_image *x = &s->at[MM_SCALARS];
    if (!x->there)
        return;
    trp_scalar alpha = p->alpha.given ? p->alpha : trp_real(1);
    ref_element_store(x->type, x->before + x->head, 0, alpha.re + alpha.im * I);
    ref_element_store(x->type, x->before + x->head, 1, p->beta.re + p->beta.im * I);
}

static void fill_all(mm_scene *s)
{
    const mm_problem *p = &s->p;
    bool f4 = p->types->a == TRP_F4E2M1;
    bool reads_c = p->scalars || p->beta.re != 0 || p->beta.im != 0;
    fill(&s->at[MM_A], f4 ? 6 : 1);
    fill(&s->at[MM_B], f4 ? 6 : 1);
    if (reads_c) /* otherwise it stays poisoned, as it must not be read */
        fill(&s->at[p->c == MM_C_IN_PLACE ? MM_D : MM_C], 1);
    if (!s->at[MM_AUX].written)
        fill(&s->at[MM_AUX], p->huge_aux ? 1e30 : 4);
    if (p->bias)
        fill(&s->at[MM_VECTOR], p->types->d == TRP_I8 ? 50 : 1);
    if (p->types->scalar == TRP_I32) /* any number suits: sums wrap */
        fill(&s->at[MM_ALPHAS], 0);
    else
        fill(&s->at[MM_ALPHAS], p->types->d == TRP_I8 ? 0x1p-8 : 2);
    fill_scale(s, MM_SCALE_A, p->scale_a, p->m);
    fill_scale(s, MM_SCALE_B, p->scale_b, p->n);
    fill_scale(s, MM_SCALE_D, TRP_SCALE_TENSOR, 1);
    fill_scale(s, MM_SCALE_AUX, TRP_SCALE_TENSOR, 1);
    fill_scalars(s);
}

/* ---- writable bytes ---- */

static void allow(mm_image *x)
{
    size_t bits = bits_of(x);
    for (int64_t l = 0; x->there && x->written && l < x->count; l++) {
        for (int64_t line = 0; line < x->lines; line++) {
            size_t from = (size_t)mm_place(x, l, line, 0) * bits / 8;
            memset(x->may_change + x->head + from, 1, (size_t)x->run * bits / 8);
        }
    }
}

void mm_scene_make(mm_scene *s)
{
    lay_out_all(s);
    fill_all(s);
    for (int i = 0; i < MM_OPERANDS; i++)
        allow(&s->at[i]);
}

void mm_scene_free(mm_scene *s)
{
    for (int i = 0; i < MM_OPERANDS; i++) {
        free(s->at[i].before);
        free(s->at[i].after);
        free(s->at[i].may_change);
    }
}

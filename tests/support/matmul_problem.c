/* See matmul_problem.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/matmul_problem.h"

#include <math.h>

enum {
    MM_A,
    MM_B,
    MM_C,
    MM_D,
    MM_AUX,
    MM_MATRICES,
    MM_VECTOR = MM_MATRICES, /* the bias or the gradient */
    MM_SCALARS,
    MM_SCALE_A,
    MM_SCALE_B,
    MM_SCALE_D,
    MM_SCALE_AUX,
    MM_AMAX_D,
    MM_AMAX_AUX,
    MM_OPERANDS
};
_Static_assert((int)MM_OPERANDS <= (int)MM_POOLS, "each can have a pool of its own");

/* One operand in memory: `count` times `lines` runs of `run` elements, which lie `ld` and `stride`
 * elements apart, from byte `head` on. */
typedef struct image {
    bool there, written;
    trp_dtype type; /* NONE: bits */
    int64_t run, lines, ld, stride, count;
    size_t head, bytes;
    uint8_t *before, *after;
    uint8_t *may_change; /* a flag for each byte */
    int pool;
    uint64_t base; /* in the pool */
} image;

typedef struct work {
    mm_bench *bench;
    mm_problem p;
    image at[MM_OPERANDS];
    trp_matmul_request full; /* nothing left to defaults */
    ref_matmul reference;
    double worst;
    char name[800];
} work;

/* ---- laying out ---- */

static size_t bits_of(const image *x)
{
    return x->type == TRP_DTYPE_NONE ? 1 : trp_dtype_bits(x->type);
}

static size_t element_bytes(const image *x)
{
    return bits_of(x) < 8 ? 1 : bits_of(x) / 8;
}

static int64_t up_to(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static int64_t gap(const work *w, size_t most)
{
    return w->p.gaps ? (int64_t)ref_rng_below(h_rng(), most) : 0;
}

/* Leading dimensions, strides and places are multiples of so many elements. */
static int64_t unit_of(const work *w, const image *x)
{
    int64_t least = x->type == TRP_DTYPE_NONE ? 128 : x == &w->at[MM_AUX] ? 8 : 1;
    int64_t fit = w->p.fit && x->type != TRP_DTYPE_NONE ? 128 / (int64_t)bits_of(x) : 1;
    if (x->type == TRP_F4E2M1 && fit < 2)
        fit = 2;
    return least > fit ? least : fit;
}

/* Takes memory for an operand whose elements have been counted. Poison is a NaN in most types; in
 * those that have none any bits do. */
static void allocate(work *w, image *x, size_t alignment)
{
    int64_t elements = (x->count - 1) * x->stride + (x->lines - 1) * x->ld + x->run;
    size_t inside = ((size_t)elements * bits_of(x) + 7) / 8;
    size_t step = w->p.fit && alignment < 16 ? 16 : alignment;
    x->there = true;
    x->head = (size_t)gap(w, 9) * step;
    x->bytes = x->head + inside + 8 + (size_t)gap(w, 9);
    x->before = h_malloc(x->bytes);
    x->after = h_malloc(x->bytes);
    x->may_change = h_malloc(x->bytes);
    memset(x->may_change, 0, x->bytes);
    if (x->type == TRP_DTYPE_NONE || x->type == TRP_I8 || x->type == TRP_I32)
        h_random_bytes(h_rng(), x->before, x->bytes);
    else
        memset(x->before, 0xff, x->bytes);
}

static void lay_out(work *w, int which, trp_dtype type, int64_t run, int64_t lines, bool share)
{
    image *x = &w->at[which];
    *x = (image){.type = type, .run = run, .lines = lines, .count = w->p.batch};
    int64_t unit = unit_of(w, x);
    if (which == MM_AUX && x->type == TRP_DTYPE_NONE)
        x->run = up_to(run, 128); /* which a library may write all of */
    if (which == MM_D && w->p.side_by_side) {
        x->stride = up_to(x->run, unit) + gap(w, 3) * unit;
        x->ld = x->stride * x->count + gap(w, 3) * unit;
    } else {
        x->ld = up_to(x->run, unit) + gap(w, 5) * unit;
        x->stride = share ? 0 : up_to(lines * x->ld, unit) + gap(w, 4) * unit;
    }
    allocate(w, x, element_bytes(x));
}

/* Elements one after the other. */
static void lay_out_small(work *w, int which, trp_dtype type, int64_t elements, size_t alignment)
{
    image *x = &w->at[which];
    *x = (image){.type = type, .run = elements, .lines = 1, .ld = elements, .count = 1};
    allocate(w, x, alignment);
}

static void lay_out_matrices(work *w)
{
    const mm_problem *p = &w->p;
    const mm_types *t = p->types;
    bool a_down = (p->order_a == TRP_COL_MAJOR) == (p->trans_a == TRP_N); /* runs along m */
    bool b_down = (p->order_b == TRP_COL_MAJOR) == (p->trans_b == TRP_N); /* runs along k */
    bool row_major = p->order_d == TRP_ROW_MAJOR;
    int64_t run = row_major ? p->n : p->m, lines = row_major ? p->m : p->n;
    lay_out(w, MM_A, t->a, a_down ? p->m : p->k, a_down ? p->k : p->m, p->share_a);
    lay_out(w, MM_B, t->b, b_down ? p->k : p->n, b_down ? p->n : p->k, p->share_b);
    lay_out(w, MM_D, t->d, run, lines, false);
    w->at[MM_D].written = true;
    if (p->c == MM_C_APART)
        lay_out(w, MM_C, t->c, run, lines, p->share_c);
    if (!p->aux)
        return;
    bool bits = p->activation == TRP_ACTIVATION_RELU || p->activation == TRP_ACTIVATION_DRELU;
    lay_out(w, MM_AUX,
            bits               ? TRP_DTYPE_NONE
            : p->aux_as_vector ? t->vector
                               : t->d,
            run, lines, false);
    w->at[MM_AUX].written =
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

static void lay_out_scale(work *w, int which, int mode, int64_t lines)
{
    if (mode == MM_UNSCALED)
        return;
    bool bytes = mode == TRP_SCALE_BLOCK_16 || mode == TRP_SCALE_BLOCK_32;
    int64_t size = ref_scale_bytes((trp_scale_mode)mode, lines, w->p.k);
    lay_out_small(w, which, bytes ? TRP_F8E4M3 : TRP_F32, bytes ? size : size / 4, bytes ? 16 : 4);
}

static void lay_out_all(work *w)
{
    const mm_problem *p = &w->p;
    lay_out_matrices(w);
    if (p->bias || p->gradient) {
        lay_out(w, MM_VECTOR, p->types->vector, vector_length(p), 1, p->bias && p->share_bias);
        w->at[MM_VECTOR].written = !p->bias;
    }
    if (p->scalars)
        lay_out_small(w, MM_SCALARS, p->types->scalar, 2, trp_dtype_bits(p->types->scalar) / 8);
    lay_out_scale(w, MM_SCALE_A, p->scale_a, p->m);
    lay_out_scale(w, MM_SCALE_B, p->scale_b, p->n);
    const bool one[] = {p->scale_d, p->scale_aux, p->amax_d, p->amax_aux};
    for (int i = 0; i < 4; i++) {
        if (one[i])
            lay_out_small(w, MM_SCALE_D + i, TRP_F32, 1, 4);
        w->at[MM_SCALE_D + i].written = i >= 2;
    }
}

/* ---- filling ---- */

static int64_t place(const image *x, int64_t batch, int64_t line, int64_t i)
{
    return batch * x->stride + line * x->ld + i;
}

static double draw_value(trp_dtype type, double limit)
{
    if (type == TRP_I32)
        return (double)(int32_t)(uint32_t)ref_rng_next(h_rng());
    if (type == TRP_I8)
        return -128.0 + (double)ref_rng_below(h_rng(), 256);
    return ref_rng_uniform(h_rng(), -limit, limit);
}

static void fill(image *x, double limit)
{
    if (!x->there || x->type == TRP_DTYPE_NONE)
        return;
    for (int64_t l = 0; l < (x->stride == 0 ? 1 : x->count); l++) {
        for (int64_t line = 0; line < x->lines; line++) {
            for (int64_t i = 0; i < x->run; i++) {
                double re = draw_value(x->type, limit), im = draw_value(x->type, limit);
                ref_element_store(x->type, x->before + x->head, place(x, l, line, i), re + im * I);
            }
        }
    }
}

/* Factors near 1. Where blocks or tiles of them are not full the rest stays NaN; but a GPU
 * multiplies it with zeros. */
static void fill_scale(work *w, int which, int mode, int64_t lines)
{
    image *x = &w->at[which];
    if (!x->there)
        return;
    uint8_t *at = x->before + x->head;
    if (h_is_cuda())
        memset(at, 0, (size_t)x->run * element_bytes(x));
    for (int64_t line = 0; line < lines; line++) {
        for (int64_t q = 0; q < w->p.k; q++) {
            int64_t i = ref_scale_place((trp_scale_mode)mode, lines, w->p.k, line, q);
            if (mode == TRP_SCALE_BLOCK_32)
                at[i] = (uint8_t)(123 + ref_rng_below(h_rng(), 8));
            else
                ref_element_store(x->type, at, i, ref_rng_uniform(h_rng(), 0.25, 3));
        }
    }
}

static void fill_scalars(work *w)
{
    const mm_problem *p = &w->p;
    image *x = &w->at[MM_SCALARS];
    if (!x->there)
        return;
    trp_scalar alpha = p->alpha.given ? p->alpha : trp_real(1);
    ref_element_store(x->type, x->before + x->head, 0, alpha.re + alpha.im * I);
    ref_element_store(x->type, x->before + x->head, 1, p->beta.re + p->beta.im * I);
}

static void fill_all(work *w)
{
    const mm_problem *p = &w->p;
    bool f4 = p->types->a == TRP_F4E2M1;
    bool reads_c = p->scalars || p->beta.re != 0 || p->beta.im != 0;
    fill(&w->at[MM_A], f4 ? 6 : 1);
    fill(&w->at[MM_B], f4 ? 6 : 1);
    if (reads_c) /* else it stays poisoned: it must not be read */
        fill(&w->at[p->c == MM_C_IN_PLACE ? MM_D : MM_C], 1);
    if (!w->at[MM_AUX].written)
        fill(&w->at[MM_AUX], p->huge_aux ? 1e30 : 4);
    if (p->bias)
        fill(&w->at[MM_VECTOR], p->types->d == TRP_I8 ? 50 : 1);
    fill_scale(w, MM_SCALE_A, p->scale_a, p->m);
    fill_scale(w, MM_SCALE_B, p->scale_b, p->n);
    fill_scale(w, MM_SCALE_D, TRP_SCALE_TENSOR, 1);
    fill_scale(w, MM_SCALE_AUX, TRP_SCALE_TENSOR, 1);
    fill_scalars(w);
}

/* ---- what may be written ---- */

static void allow(image *x)
{
    size_t bits = bits_of(x);
    for (int64_t l = 0; x->there && x->written && l < x->count; l++) {
        for (int64_t line = 0; line < x->lines; line++) {
            size_t from = (size_t)place(x, l, line, 0) * bits / 8;
            memset(x->may_change + x->head + from, 1, (size_t)x->run * bits / 8);
        }
    }
}

static void check_unchanged(const work *w, int which)
{
    const image *x = &w->at[which];
    for (size_t i = 0; i < x->bytes; i++) {
        if (x->before[i] != x->after[i] && !x->may_change[i])
            h_fail(__FILE__, __LINE__,
                   "%s: byte %zu of operand %d (its first element is at %zu) became %#x from %#x",
                   w->name, i, which, x->head, x->after[i], x->before[i]);
    }
}

/* ---- buffers ---- */

static int pool_of(const work *w, int which)
{
    if (w->p.one_pool)
        return 0;
    return w->p.two_pools ? w->at[which].written : which;
}

static void need_pool(mm_bench *b, int pool, uint64_t bytes)
{
    if (b->capacity[pool] >= bytes)
        return;
    if (b->capacity[pool] > 0)
        H_OK(trp_buffer_free(b->world.device, b->pool[pool]));
    b->capacity[pool] = bytes + bytes / 2;
    b->pool[pool] = h_buffer(b->world.device, b->capacity[pool]);
}

/* Puts the operands one behind the other into their pools. */
static void upload(work *w, uint64_t used[MM_POOLS])
{
    for (int i = 0; i < MM_OPERANDS; i++) {
        image *x = &w->at[i];
        if (!x->there)
            continue;
        x->pool = pool_of(w, i);
        x->base = used[x->pool];
        used[x->pool] += (x->bytes + 255) / 256 * 256;
    }
    for (int pool = 0; pool < MM_POOLS; pool++) {
        if (used[pool] == 0)
            continue;
        uint8_t *all = h_malloc(used[pool]);
        memset(all, 0xff, used[pool]);
        for (int i = 0; i < MM_OPERANDS; i++) {
            if (w->at[i].there && w->at[i].pool == pool)
                memcpy(all + w->at[i].base, w->at[i].before, w->at[i].bytes);
        }
        need_pool(w->bench, pool, used[pool]);
        h_write(w->bench->world.device, w->bench->pool[pool], 0, all, used[pool]);
        free(all);
    }
}

static void download(work *w, const uint64_t used[MM_POOLS])
{
    for (int pool = 0; pool < MM_POOLS; pool++) {
        if (used[pool] == 0)
            continue;
        uint8_t *all = h_malloc(used[pool]);
        h_read(w->bench->world.device, w->bench->pool[pool], 0, all, used[pool]);
        for (int i = 0; i < MM_OPERANDS; i++) {
            if (w->at[i].there && w->at[i].pool == pool)
                memcpy(w->at[i].after, all + w->at[i].base, w->at[i].bytes);
        }
        free(all);
    }
}

/* ---- the request ---- */

static trp_buffer buffer_of(const work *w, int which)
{
    const image *x = &w->at[which];
    return x->there ? w->bench->pool[x->pool] : (trp_buffer){0};
}

static uint64_t offset_of(const work *w, int which)
{
    const image *x = &w->at[which];
    return x->there ? x->base + x->head : 0;
}

static trp_matmul_matrix matrix(const work *w, int which, trp_order order, int scale, int mode)
{
    const image *x = &w->at[which];
    return (trp_matmul_matrix){
        .buffer = buffer_of(w, which),
        .offset = offset_of(w, which),
        .type = x->type,
        .order = order,
        .ld = x->ld,
        .stride = x->stride,
        .scale = {.buffer = buffer_of(w, scale),
                  .offset = offset_of(w, scale),
                  .mode = mode == MM_UNSCALED ? TRP_SCALE_TENSOR : (trp_scale_mode)mode}};
}

static trp_matmul_request request_of(const work *w)
{
    const mm_problem *p = &w->p;
    trp_matmul_request r = {.m = p->m,
                            .n = p->n,
                            .k = p->k,
                            .batch = p->batch,
                            .trans_a = p->trans_a,
                            .trans_b = p->trans_b,
                            .compute = p->compute,
                            .fast_accumulation = p->fast,
                            .a = matrix(w, MM_A, p->order_a, MM_SCALE_A, p->scale_a),
                            .b = matrix(w, MM_B, p->order_b, MM_SCALE_B, p->scale_b),
                            .d = matrix(w, MM_D, p->order_d, MM_SCALE_D, MM_UNSCALED),
                            .scalars = buffer_of(w, MM_SCALARS),
                            .scalars_offset = offset_of(w, MM_SCALARS),
                            .activation = p->activation,
                            .gradient_of = p->gradient,
                            .amax_d = buffer_of(w, MM_AMAX_D),
                            .amax_d_offset = offset_of(w, MM_AMAX_D),
                            .amax_aux = buffer_of(w, MM_AMAX_AUX),
                            .amax_aux_offset = offset_of(w, MM_AMAX_AUX)};
    if (!p->scalars) {
        r.alpha = p->alpha;
        r.beta = p->beta;
    }
    r.c = matrix(w, p->c == MM_C_IN_PLACE ? MM_D : MM_C, p->order_d, MM_SCALE_D, MM_UNSCALED);
    r.c.scale = (trp_scale){0};
    r.c.type = p->types->c;
    if (w->at[MM_AUX].there)
        r.aux = matrix(w, MM_AUX, p->order_d, MM_SCALE_AUX, MM_UNSCALED);
    *(p->bias ? &r.bias : &r.gradient) = (trp_matmul_vector){.buffer = buffer_of(w, MM_VECTOR),
                                                             .offset = offset_of(w, MM_VECTOR),
                                                             .type = w->at[MM_VECTOR].type,
                                                             .stride = w->at[MM_VECTOR].stride};
    return r;
}

static bool coin(void)
{
    return ref_rng_below(h_rng(), 2);
}

static void leave_ld(trp_matmul_matrix *x, int64_t smallest)
{
    if (x->ld == smallest && coin())
        x->ld = 0;
}

/* Leaves to its default what that is right for. */
static trp_matmul_request with_defaults(const work *w)
{
    trp_matmul_request r = w->full;
    const mm_types *t = w->p.types;
    bool fp8_d = t->d == TRP_F8E4M3 || t->d == TRP_F8E5M2;
    if (t->b == t->a && coin())
        r.b.type = TRP_DTYPE_NONE;
    if (t->d == (t->a == TRP_I8 ? TRP_I32 : t->a) && coin())
        r.d.type = TRP_DTYPE_NONE;
    if (t->c == t->d && coin())
        r.c.type = TRP_DTYPE_NONE;
    if (coin() && !(fp8_d && t->c == TRP_F16))
        r.bias.type = r.gradient.type = TRP_DTYPE_NONE;
    if (r.aux.type == t->d && coin())
        r.aux.type = TRP_DTYPE_NONE;
    leave_ld(&r.a, w->at[MM_A].run);
    leave_ld(&r.b, w->at[MM_B].run);
    leave_ld(&r.d, w->at[MM_D].run);
    leave_ld(&r.c, w->at[MM_D].run);
    leave_ld(&r.aux, up_to(w->at[MM_AUX].run, 8));
    if (r.batch == 1) {
        r.batch = coin();
        r.a.stride = -1; /* not looked at */
        r.d.stride = coin() ? -9 : 1;
    }
    return r;
}

/* ---- the reference ---- */

static ref_units units_of(const mm_types *t)
{
    bool wide = t->a == TRP_F64 || t->a == TRP_C128, narrow = trp_dtype_bits(t->a) <= 16;
    ref_units u = {.step = wide ? 0x1p-53 : 0x1p-24, .function = wide ? 0x1p-53 : 0x1p-24};
    if (!h_is_cuda() || wide)
        return u;
    /* Tensor cores truncate, those of fp8 to about 14 bits; functions are approximations. */
    u.step = narrow && t->a != TRP_I8 ? 0x1p-22 : 0x1p-23;
    if (trp_dtype_bits(t->a) <= 8 && t->a != TRP_I8)
        u.step = 0x1p-13;
    u.function = 0x1p-12;
    return u;
}

static const void *first_of(const work *w, int which)
{
    const image *x = &w->at[which];
    return x->there ? x->before + x->head : NULL;
}

static void compute(work *w)
{
    ref_matmul *p = &w->reference;
    *p = (ref_matmul){.r = w->full,
                      .scalar_type = w->p.types->scalar,
                      .unit = units_of(w->p.types),
                      .a = first_of(w, MM_A),
                      .b = first_of(w, MM_B),
                      .c = first_of(w, w->p.c == MM_C_IN_PLACE ? MM_D : MM_C),
                      .aux = first_of(w, MM_AUX),
                      .bias = w->p.bias ? first_of(w, MM_VECTOR) : NULL,
                      .scalars = first_of(w, MM_SCALARS),
                      .scale_a = first_of(w, MM_SCALE_A),
                      .scale_b = first_of(w, MM_SCALE_B),
                      .scale_d = first_of(w, MM_SCALE_D),
                      .scale_aux = first_of(w, MM_SCALE_AUX)};
    if (h_is_cuda() && w->p.compute == TRP_COMPUTE_TF32)
        p->unit.input = 0x1p-10;
    ref_matmul_compute(p);
}

/* ---- checks ---- */

static void check_value(work *w, const char *what, const ref_value *want, trp_dtype type,
                        const image *x, int64_t at, int64_t number)
{
    ref_complex got = ref_element_load(type, x->after + x->head, at);
    if (!ref_value_right(want, type, got, &w->worst))
        h_fail(__FILE__, __LINE__,
               "%s: number %" PRId64 " of %s is %.17g %+.17gi, expected %.17g %+.17gi within %g "
               "before rounding",
               w->name, number, what, creal(got), cimag(got), creal(want->value),
               cimag(want->value), want->bound);
}

static void check_bit(work *w, const ref_value *want, int64_t at, int64_t number)
{
    const image *x = &w->at[MM_AUX];
    bool bit = x->after[x->head + (size_t)at / 8] >> at % 8 & 1;
    if (bit != (creal(want->value) > 0) && fabs(creal(want->value)) > want->bound)
        h_fail(__FILE__, __LINE__, "%s: bit %" PRId64 " of aux is %d, X + bias is %g within %g",
               w->name, number, bit, creal(want->value), want->bound);
}

static void check_matrices(work *w)
{
    const mm_problem *p = &w->p;
    const image *d = &w->at[MM_D], *aux = &w->at[MM_AUX];
    int64_t number = 0;
    for (int64_t l = 0; l < p->batch; l++) {
        for (int64_t j = 0; j < p->n; j++) {
            for (int64_t i = 0; i < p->m; i++, number++) {
                bool row_major = p->order_d == TRP_ROW_MAJOR;
                int64_t line = row_major ? i : j, in = row_major ? j : i;
                check_value(w, "D", &w->reference.d[number], d->type, d, place(d, l, line, in),
                            number);
                if (!aux->there || !aux->written)
                    continue;
                int64_t at = place(aux, l, line, in);
                if (aux->type == TRP_DTYPE_NONE)
                    check_bit(w, &w->reference.before[number], at, number);
                else
                    check_value(w, "aux", &w->reference.aux_out[number], aux->type, aux, at,
                                number);
            }
        }
    }
}

static void check_results(work *w)
{
    const image *v = &w->at[MM_VECTOR];
    const ref_matmul *r = &w->reference;
    check_matrices(w);
    for (int64_t l = 0; w->p.gradient && l < w->p.batch; l++) {
        for (int64_t i = 0; i < r->gradient_count; i++)
            check_value(w, "gradient", &r->gradient[l * r->gradient_count + i], v->type, v,
                        place(v, l, 0, i), l * r->gradient_count + i);
    }
    if (w->p.amax_d)
        check_value(w, "amax_d", &r->amax_d, TRP_F32, &w->at[MM_AMAX_D], 0, 0);
    if (w->p.amax_aux)
        check_value(w, "amax_aux", &r->amax_aux, TRP_F32, &w->at[MM_AMAX_AUX], 0, 0);
}

/* ---- how it went ---- */

static void name_kind(const mm_problem *p, char *out, size_t size)
{
    static const char *const modes[] = {"none",  "tensor", "vector",   "blocks of 16",
                                        "of 32", "of 128", "128 x 128"};
    static const char *const activations[] = {"", "relu ", "gelu ", "silu ", "drelu ", "dgelu "};
    static const char *const gradients[] = {"", "gradient of D", "gradient of A", "gradient of B"};
    const mm_types *t = p->types;
    snprintf(out, size, "%s x %s -> %s (c %s) | %s, %s%s | %s%s%s%s%s", trp_dtype_name(t->a),
             trp_dtype_name(t->b), trp_dtype_name(t->d), trp_dtype_name(t->c),
             modes[p->scale_a + 1], modes[p->scale_b + 1], p->scale_d ? ", d" : "",
             activations[p->activation], p->bias ? "bias " : "", p->aux ? "aux " : "",
             p->scale_aux ? "scaled " : "", gradients[p->gradient]);
}

static mm_line *line_of(mm_bench *b, const mm_problem *p)
{
    char kind[sizeof b->line->kind];
    name_kind(p, kind, sizeof kind);
    for (int i = 0; i < b->lines; i++) {
        if (strcmp(b->line[i].kind, kind) == 0)
            return &b->line[i];
    }
    if (b->lines == MM_LINES) { /* the last one holds the rest */
        snprintf(b->line[MM_LINES - 1].kind, sizeof kind, "all others");
        return &b->line[MM_LINES - 1];
    }
    mm_line *line = &b->line[b->lines++];
    *line = (mm_line){0};
    memcpy(line->kind, kind, sizeof kind);
    return line;
}

static void print_lines(const mm_bench *b)
{
    mm_line all = {0};
    const char *wanted = getenv("TROUPE_TEST_TABLE");
    bool table = h_is_cuda() || (wanted && *wanted);
    if (table)
        printf("  %-90s %6s %7s %6s\n", "types | scales | epilogue", "ran", "refused", "error");
    for (int i = 0; i < b->lines; i++) {
        const mm_line *x = &b->line[i];
        all.ran += x->ran;
        all.refused += x->refused;
        all.worst = fmax(all.worst, x->worst);
        if (table)
            printf("  %-90s %6d %7d %6.3f\n", x->kind, x->ran, x->refused, x->worst);
    }
    printf("  %d products right, %d refused; largest error %.3f of its bound\n", all.ran,
           all.refused, all.worst);
}

/* ---- running ---- */

void mm_open(mm_bench *bench)
{
    *bench = (mm_bench){.world = h_open(NULL)};
    trp_actor_options options = {.kind = "matmul"};
    trp_status status = trp_actor_create(bench->world.device, &options, &bench->actor);
    if (status == TRP_E_UNSUPPORTED) {
        h_close(&bench->world);
        h_skip("this backend has no matmul actor");
    }
    H_OK(status);
}

void mm_close(mm_bench *bench)
{
    print_lines(bench);
    h_close(&bench->world);
}

/* Whether it was done; only a GPU's library may refuse it. */
static bool send(work *w)
{
    trp_completion done = {0};
    trp_matmul_request r = with_defaults(w);
    trp_status status = trp_matmul(w->bench->actor, &r, &done);
    if (status == TRP_OK)
        status = h_await_any(done);
    if (status == TRP_E_UNSUPPORTED && h_is_cuda())
        return false;
    if (status != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s: ended with %s", w->name, trp_status_name(status));
    return true;
}

void mm_run(mm_bench *bench, mm_problem problem)
{
    static work w; /* large */
    uint64_t used[MM_POOLS] = {0};
    mm_settle(&problem);
    w = (work){.bench = bench, .p = problem};
    mm_describe(&w.p, w.name, sizeof w.name);
    lay_out_all(&w);
    fill_all(&w);
    for (int i = 0; i < MM_OPERANDS; i++)
        allow(&w.at[i]);
    upload(&w, used);
    w.full = request_of(&w);
    bool ran = send(&w);
    download(&w, used);
    if (ran) {
        compute(&w);
        check_results(&w);
        ref_matmul_free(&w.reference);
    }
    for (int i = 0; i < MM_OPERANDS; i++)
        check_unchanged(&w, i);
    mm_line *line = line_of(bench, &w.p);
    line->ran += ran;
    line->refused += !ran;
    line->worst = fmax(line->worst, w.worst);
    for (int i = 0; i < MM_OPERANDS; i++) {
        free(w.at[i].before);
        free(w.at[i].after);
        free(w.at[i].may_change);
    }
}

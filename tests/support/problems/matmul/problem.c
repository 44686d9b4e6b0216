/* See problem.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/matmul/image.h"

#include <math.h>

struct mm_work {
    mm_scene s;
    block blocks[MM_POOLS];
    trp_matmul_request full; /* without defaults */
    ref_matmul reference;
    double worst;
    char name[800];
};

/* ---- buffers ---- */

static int pool_of(const mm_work *w, int which)
{
    if (w->s.p.one_pool)
        return 0;
    return w->s.p.two_pools ? w->s.at[which].written : which;
}

/* Places the operands one after the other in their pools. */
static void place_all(mm_work *w)
{
    for (int i = 0; i < MM_OPERANDS; i++) {
        mm_image *x = &w->s.at[i];
        if (!x->there)
            continue;
        x->pool = pool_of(w, i);
        x->base = (w->blocks[x->pool].bytes + 255) / 256 * 256;
        w->blocks[x->pool].bytes = x->base + x->bytes;
    }
    for (int pool = 0; pool < MM_POOLS; pool++) {
        block *b = &w->blocks[pool];
        if (b->bytes == 0)
            continue;
        *b = block_make(b->bytes, NULL);
    }
    for (int i = 0; i < MM_OPERANDS; i++) {
        const mm_image *x = &w->s.at[i];
        if (!x->there)
            continue;
        block *b = &w->blocks[x->pool];
        memcpy(b->before + x->base, x->before, x->bytes);
        for (size_t k = 0; k < x->bytes; k++)
            b->writable[x->base + k] = x->may_change[k];
    }
}

/* ---- the request ---- */

static trp_buffer buffer_of(const mm_work *w, int which)
{
    const mm_image *x = &w->s.at[which];
    return x->there ? w->blocks[x->pool].buffer : (trp_buffer){0};
}

static uint64_t offset_of(const mm_work *w, int which)
{
    const mm_image *x = &w->s.at[which];
    return x->there ? x->base + x->head : 0;
}

static trp_matmul_matrix matrix(const mm_work *w, int which, trp_order order, int scale, int mode)
{
    const mm_image *x = &w->s.at[which];
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

static trp_matmul_vector vector(const mm_work *w, int which)
{
    return (trp_matmul_vector){.buffer = buffer_of(w, which),
                               .offset = offset_of(w, which),
                               .type = w->s.at[which].type,
                               .stride = w->s.at[which].stride};
}

static trp_matmul_request request_of(const mm_work *w)
{
    const mm_problem *p = &w->s.p;
    trp_matmul_request r = {.m = p->m,
                            .n = p->n,
                            .k = p->k,
                            .batch = p->batch,
                            .trans_a = p->trans_a,
                            .trans_b = p->trans_b,
                            .compute = p->compute,
                            .fast_accumulation = p->fast,
                            .deterministic = p->deterministic,
                            .sm_count = p->sm_count,
                            .a = matrix(w, MM_A, p->order_a, MM_SCALE_A, p->scale_a),
                            .b = matrix(w, MM_B, p->order_b, MM_SCALE_B, p->scale_b),
                            .d = matrix(w, MM_D, p->order_d, MM_SCALE_D, MM_UNSCALED),
                            .scalars = buffer_of(w, MM_SCALARS),
                            .scalars_offset = offset_of(w, MM_SCALARS),
                            .alphas = vector(w, MM_ALPHAS),
                            .activation = p->activation,
                            .gradient_of = p->gradient,
                            .amax_d = buffer_of(w, MM_AMAX_D),
                            .amax_d_offset = offset_of(w, MM_AMAX_D),
                            .amax_aux = buffer_of(w, MM_AMAX_AUX),
                            .amax_aux_offset = offset_of(w, MM_AMAX_AUX)};
    if (p->out_scale)
        r.d_out_scale = (trp_scale){.buffer = buffer_of(w, MM_OUT_SCALE),
                                    .offset = offset_of(w, MM_OUT_SCALE),
                                    .mode = mm_out_mode(p)};
    if (!p->scalars && !p->alphas)
        r.alpha = p->alpha;
    if (!p->scalars)
        r.beta = p->beta;
    r.c = matrix(w, p->c == MM_C_IN_PLACE ? MM_D : MM_C, p->order_d, MM_SCALE_D, MM_UNSCALED);
    r.c.scale = (trp_scale){0};
    r.c.type = p->types->c;
    if (w->s.at[MM_AUX].there)
        r.aux = matrix(w, MM_AUX, p->order_d, MM_SCALE_AUX, MM_UNSCALED);
    *(p->bias ? &r.bias : &r.gradient) = vector(w, MM_VECTOR);
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

/* Sets fields to 0 whose defaults have the same meaning. */
static trp_matmul_request with_defaults(const mm_work *w, trp_matmul_request r)
{
    const mm_types *t = w->s.p.types;
    bool fp8_d = t->d == TRP_F8E4M3 || t->d == TRP_F8E5M2;
    if (t->b == t->a && coin())
        r.b.type = TRP_DTYPE_NONE;
    if (t->d == (t->a == TRP_I8 ? TRP_I32 : t->a) && coin())
        r.d.type = TRP_DTYPE_NONE;
    if (t->c == t->d && coin())
        r.c.type = TRP_DTYPE_NONE;
    if (coin() && !(fp8_d && t->c == TRP_F16))
        r.bias.type = r.gradient.type = TRP_DTYPE_NONE;
    if (coin())
        r.alphas.type = TRP_DTYPE_NONE;
    if (r.aux.type == t->d && coin())
        r.aux.type = TRP_DTYPE_NONE;
    leave_ld(&r.a, w->s.at[MM_A].run);
    leave_ld(&r.b, w->s.at[MM_B].run);
    leave_ld(&r.d, w->s.at[MM_D].run);
    leave_ld(&r.c, w->s.at[MM_D].run);
    leave_ld(&r.aux, (w->s.at[MM_AUX].run + 7) / 8 * 8);
    if (r.batch == 1) {
        r.batch = coin();
        r.a.stride = -1; /* ignored */
        r.d.stride = coin() ? -9 : 1;
    }
    return r;
}

/* ---- the reference ---- */

static ref_units units_of(const mm_types *t)
{
    bool wide = t->a == TRP_F64 || t->a == TRP_C128, narrow = trp_dtype_bits(t->a) <= 16;
    ref_units u = {.step = wide ? 0x1p-53 : 0x1p-24, .function = wide ? 0x1p-53 : 0x1p-24};
    if (!h_is_cuda())
        return u;
    /* cuBLASLt's gelu of f64 has 9 digits. For some small products of narrow types, cuBLASLt
     * computes the epilogue in a second pass over D. */
    u.function = wide ? 0x1p-29 : 0x1p-12;
    u.between = t->d == TRP_F16 || t->d == TRP_BF16;
    if (wide)
        return u;
    /* Tensor cores truncate sums, those of fp8 to about 14 bits; functions are approximations. */
    u.step = narrow && t->a != TRP_I8 ? 0x1p-22 : 0x1p-23;
    if (trp_dtype_bits(t->a) <= 8 && t->a != TRP_I8)
        u.step = 0x1p-13;
    return u;
}

static const void *first_of(const mm_work *w, int which)
{
    const mm_image *x = &w->s.at[which];
    return x->there ? x->before + x->head : NULL;
}

static void compute(mm_work *w)
{
    ref_matmul *p = &w->reference;
    *p = (ref_matmul){.r = w->full,
                      .scalar_type = w->s.p.types->scalar,
                      .unit = units_of(w->s.p.types),
                      .a = first_of(w, MM_A),
                      .b = first_of(w, MM_B),
                      .c = first_of(w, w->s.p.c == MM_C_IN_PLACE ? MM_D : MM_C),
                      .aux = first_of(w, MM_AUX),
                      .bias = w->s.p.bias ? first_of(w, MM_VECTOR) : NULL,
                      .scalars = first_of(w, MM_SCALARS),
                      .alphas = first_of(w, MM_ALPHAS),
                      .scale_a = first_of(w, MM_SCALE_A),
                      .scale_b = first_of(w, MM_SCALE_B),
                      .scale_d = first_of(w, MM_SCALE_D),
                      .scale_aux = first_of(w, MM_SCALE_AUX)};
    if (h_is_cuda() && w->s.p.compute == TRP_COMPUTE_TF32)
        p->unit.input = 0x1p-10;
    ref_matmul_compute(p);
}

/* ---- checks ---- */

static void check_value(mm_work *w, const char *what, const ref_value *want, trp_dtype type,
                        const mm_image *x, int64_t at, int64_t number)
{
    ref_complex got = ref_element_load(type, x->after + x->head, at);
    if (!ref_value_right(want, type, got, &w->worst))
        h_fail(__FILE__, __LINE__,
               "%s: number %" PRId64 " of %s is %.17g %+.17gi, expected %.17g %+.17gi within %g "
               "before rounding",
               w->name, number, what, creal(got), cimag(got), creal(want->value),
               cimag(want->value), want->bound);
}

static void check_bit(mm_work *w, const ref_value *want, int64_t at, int64_t number)
{
    const mm_image *x = &w->s.at[MM_AUX];
    bool bit = x->after[x->head + (size_t)at / 8] >> at % 8 & 1;
    if (bit != (creal(want->value) > 0) && fabs(creal(want->value)) > want->bound)
        h_fail(__FILE__, __LINE__, "%s: bit %" PRId64 " of aux is %d, X + bias is %g within %g",
               w->name, number, bit, creal(want->value), want->bound);
}

/* Returns the factor of the block that holds element `in` of a line of D. */
static double out_factor(const mm_work *w, int64_t line, int64_t in)
{
    const mm_image *x = &w->s.at[MM_OUT_SCALE], *d = &w->s.at[MM_D];
    return ref_scale(mm_out_mode(&w->s.p), x->after + x->head, d->lines, d->run, line, in);
}

/* Returns the factor of a block with this largest value. */
static double factor_for(const mm_problem *p, double largest)
{
    const trp_dtype d = p->types->d;
    const double wanted = largest / ref_element_round(d, 1e30);
    if (d == TRP_F4E2M1)
        return ref_element_round(TRP_F8E4M3, wanted);
    return fmax(exp2(ceil(log2(fmax(wanted, 0x1p-140)))), 0x1p-127);
}

/* Checks that each factor belongs to a largest value within the bounds of its block. */
static void check_factors(mm_work *w)
{
    const mm_problem *p = &w->s.p;
    const mm_image *d = &w->s.at[MM_D];
    const int64_t width = p->types->d == TRP_F4E2M1 ? 16 : 32;
    for (int64_t line = 0; line < d->lines; line++) {
        for (int64_t first = 0; first < d->run; first += width) {
            double low = 0, high = 0, got = out_factor(w, line, first);
            for (int64_t in = first; in < d->run && in < first + width; in++) {
                const ref_value *v =
                    &w->reference
                         .d[p->order_d == TRP_ROW_MAJOR ? in * p->m + line : line * p->m + in];
                low = fmax(low, fabs(creal(v->value)) - v->bound);
                high = fmax(high, fabs(creal(v->value)) + v->bound);
            }
            if (!(got >= factor_for(p, low * (1 - 0x1p-20)) &&
                  got <= factor_for(p, high * (1 + 0x1p-20))))
                h_fail(__FILE__, __LINE__,
                       "%s: the factor of line %" PRId64 " from %" PRId64
                       " on is %g, for a largest value from %g to %g",
                       w->name, line, first, got, low, high);
        }
    }
}

/* What D holds of a value, whose block has a factor. */
static ref_value scaled(const mm_work *w, const ref_value *want, int64_t line, int64_t in)
{
    if (!w->s.p.out_scale)
        return *want;
    const double factor = out_factor(w, line, in);
    return factor == 0 ? (ref_value){0}
                       : (ref_value){want->value / factor,
                                     want->bound / factor + 0x1p-22 * cabs(want->value) / factor};
}

static void check_matrices(mm_work *w)
{
    const mm_problem *p = &w->s.p;
    const mm_image *d = &w->s.at[MM_D], *aux = &w->s.at[MM_AUX];
    int64_t number = 0;
    for (int64_t l = 0; l < p->batch; l++) {
        for (int64_t j = 0; j < p->n; j++) {
            for (int64_t i = 0; i < p->m; i++, number++) {
                bool row_major = p->order_d == TRP_ROW_MAJOR;
                int64_t line = row_major ? i : j, in = row_major ? j : i;
                const ref_value want = scaled(w, &w->reference.d[number], line, in);
                check_value(w, "D", &want, d->type, d, mm_place(d, l, line, in), number);
                if (!aux->there || !aux->written)
                    continue;
                int64_t at = mm_place(aux, l, line, in);
                if (aux->type == TRP_DTYPE_NONE)
                    check_bit(w, &w->reference.before[number], at, number);
                else
                    check_value(w, "aux", &w->reference.aux_out[number], aux->type, aux, at,
                                number);
            }
        }
    }
}

static void check_results(mm_work *w)
{
    const mm_image *v = &w->s.at[MM_VECTOR];
    const ref_matmul *r = &w->reference;
    check_matrices(w);
    if (w->s.p.out_scale)
        check_factors(w);
    for (int64_t l = 0; w->s.p.gradient && l < w->s.p.batch; l++) {
        for (int64_t i = 0; i < r->gradient_count; i++)
            check_value(w, "gradient", &r->gradient[l * r->gradient_count + i], v->type, v,
                        mm_place(v, l, 0, i), l * r->gradient_count + i);
    }
    if (w->s.p.amax_d)
        check_value(w, "amax_d", &r->amax_d, TRP_F32, &w->s.at[MM_AMAX_D], 0, 0);
    if (w->s.p.amax_aux)
        check_value(w, "amax_aux", &r->amax_aux, TRP_F32, &w->s.at[MM_AMAX_AUX], 0, 0);
}

/* ---- interface ---- */

mm_work *mm_make(mm_problem problem)
{
    mm_work *w = h_malloc(sizeof *w);
    mm_settle(&problem);
    *w = (mm_work){.s.p = problem};
    mm_describe(&w->s.p, w->name, sizeof w->name);
    mm_scene_make(&w->s);
    place_all(w);
    return w;
}

block *mm_blocks(mm_work *w)
{
    return w->blocks;
}

void mm_make_request(const mm_work *w, trp_matmul_request *out)
{
    *out = with_defaults(w, request_of(w));
}

void mm_check(mm_work *w, double *worst)
{
    for (int i = 0; i < MM_OPERANDS; i++) {
        const mm_image *x = &w->s.at[i];
        if (x->there)
            memcpy(x->after, w->blocks[x->pool].after + x->base, x->bytes);
    }
    w->full = request_of(w);
    w->worst = 0;
    compute(w);
    check_results(w);
    ref_matmul_free(&w->reference);
    *worst = fmax(*worst, w->worst);
}

bool mm_runs_again(const mm_work *w)
{
    return w->s.p.c != MM_C_IN_PLACE;
}

void mm_free(mm_work *w)
{
    mm_scene_free(&w->s);
    free(w);
}

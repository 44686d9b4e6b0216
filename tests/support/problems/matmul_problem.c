/* See matmul_problem.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/matmul_image.h"

#include <math.h>

typedef struct work {
    mm_bench *bench;
    mm_scene s;
    trp_matmul_request full; /* nothing left to defaults */
    ref_matmul reference;
    double worst;
    char name[800];
} work;

static void check_unchanged(const work *w, int which)
{
    const mm_image *x = &w->s.at[which];
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
    if (w->s.p.one_pool)
        return 0;
    return w->s.p.two_pools ? w->s.at[which].written : which;
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
        mm_image *x = &w->s.at[i];
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
            if (w->s.at[i].there && w->s.at[i].pool == pool)
                memcpy(all + w->s.at[i].base, w->s.at[i].before, w->s.at[i].bytes);
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
            if (w->s.at[i].there && w->s.at[i].pool == pool)
                memcpy(w->s.at[i].after, all + w->s.at[i].base, w->s.at[i].bytes);
        }
        free(all);
    }
}

/* ---- the request ---- */

static trp_buffer buffer_of(const work *w, int which)
{
    const mm_image *x = &w->s.at[which];
    return x->there ? w->bench->pool[x->pool] : (trp_buffer){0};
}

static uint64_t offset_of(const work *w, int which)
{
    const mm_image *x = &w->s.at[which];
    return x->there ? x->base + x->head : 0;
}

static trp_matmul_matrix matrix(const work *w, int which, trp_order order, int scale, int mode)
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

static trp_matmul_request request_of(const work *w)
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
    if (w->s.at[MM_AUX].there)
        r.aux = matrix(w, MM_AUX, p->order_d, MM_SCALE_AUX, MM_UNSCALED);
    *(p->bias ? &r.bias : &r.gradient) = (trp_matmul_vector){.buffer = buffer_of(w, MM_VECTOR),
                                                             .offset = offset_of(w, MM_VECTOR),
                                                             .type = w->s.at[MM_VECTOR].type,
                                                             .stride = w->s.at[MM_VECTOR].stride};
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
    if (r.aux.type == t->d && coin())
        r.aux.type = TRP_DTYPE_NONE;
    leave_ld(&r.a, w->s.at[MM_A].run);
    leave_ld(&r.b, w->s.at[MM_B].run);
    leave_ld(&r.d, w->s.at[MM_D].run);
    leave_ld(&r.c, w->s.at[MM_D].run);
    leave_ld(&r.aux, (w->s.at[MM_AUX].run + 7) / 8 * 8);
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
    if (!h_is_cuda())
        return u;
    /* cuBLASLt's gelu of f64 is good for 9 digits. For some narrow products, of small sizes, it
     * does an epilogue in a second pass over D. */
    u.function = wide ? 0x1p-29 : 0x1p-12;
    u.between = t->d == TRP_F16 || t->d == TRP_BF16;
    if (wide)
        return u;
    /* Tensor cores truncate, those of fp8 to about 14 bits; functions are approximations. */
    u.step = narrow && t->a != TRP_I8 ? 0x1p-22 : 0x1p-23;
    if (trp_dtype_bits(t->a) <= 8 && t->a != TRP_I8)
        u.step = 0x1p-13;
    return u;
}

static const void *first_of(const work *w, int which)
{
    const mm_image *x = &w->s.at[which];
    return x->there ? x->before + x->head : NULL;
}

static void compute(work *w)
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
                      .scale_a = first_of(w, MM_SCALE_A),
                      .scale_b = first_of(w, MM_SCALE_B),
                      .scale_d = first_of(w, MM_SCALE_D),
                      .scale_aux = first_of(w, MM_SCALE_AUX)};
    if (h_is_cuda() && w->s.p.compute == TRP_COMPUTE_TF32)
        p->unit.input = 0x1p-10;
    ref_matmul_compute(p);
}

/* ---- checks ---- */

static void check_value(work *w, const char *what, const ref_value *want, trp_dtype type,
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

static void check_bit(work *w, const ref_value *want, int64_t at, int64_t number)
{
    const mm_image *x = &w->s.at[MM_AUX];
    bool bit = x->after[x->head + (size_t)at / 8] >> at % 8 & 1;
    if (bit != (creal(want->value) > 0) && fabs(creal(want->value)) > want->bound)
        h_fail(__FILE__, __LINE__, "%s: bit %" PRId64 " of aux is %d, X + bias is %g within %g",
               w->name, number, bit, creal(want->value), want->bound);
}

static void check_matrices(work *w)
{
    const mm_problem *p = &w->s.p;
    const mm_image *d = &w->s.at[MM_D], *aux = &w->s.at[MM_AUX];
    int64_t number = 0;
    for (int64_t l = 0; l < p->batch; l++) {
        for (int64_t j = 0; j < p->n; j++) {
            for (int64_t i = 0; i < p->m; i++, number++) {
                bool row_major = p->order_d == TRP_ROW_MAJOR;
                int64_t line = row_major ? i : j, in = row_major ? j : i;
                check_value(w, "D", &w->reference.d[number], d->type, d, mm_place(d, l, line, in),
                            number);
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

static void check_results(work *w)
{
    const mm_image *v = &w->s.at[MM_VECTOR];
    const ref_matmul *r = &w->reference;
    check_matrices(w);
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

/* Every problem is another one, so that on the fake GPU proofs, of which the processor does all,
 * take longer than the rest: they are made of one case in four there. */
void mm_open(mm_bench *bench)
{
    trp_device_options device = h_options();
    device.proof = h_is_gpu() || ref_rng_below(h_rng(), 4) == 0 ? TRP_PROOF_ON : TRP_PROOF_OFF;
    *bench = (mm_bench){.world = h_open(&device)};
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
    w = (work){.bench = bench, .s.p = problem};
    mm_describe(&w.s.p, w.name, sizeof w.name);
    mm_scene_make(&w.s);
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
    mm_line *line = line_of(bench, &w.s.p);
    line->ran += ran;
    line->refused += !ran;
    line->worst = fmax(line->worst, w.worst);
    mm_scene_free(&w.s);
}

/* Products of the cutlass actor in the conformance suite: every type and layout, factors for blocks
 * of A and B, and weights of 8 and 4 bits with factors for groups of k. Inputs have so few bits
 * that results are exact. */
#include "conformance/conformance.h"
#include "support/reference/elements.h"
#include "support/reference/matmul_reference.h"

#include <complex.h>
#include <math.h>

TROUPE_TEST("computes", "one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "cutlass");

/* FACTORS: of A and of B, or of weights, with their zero points next. COLUMN: read by a tree. */
enum { A, B, C, D, MATRICES, FACTORS = MATRICES, COLUMN = FACTORS + 2, OPERANDS };

/* Bits of cf_has. */
enum { HAS_A = 1, HAS_B = 2, HAS_C = 4, HAS_D = 8, HAS_FACTORS = 16, HAS_GROUPS = 32 };

/* ---- matrices ---- */

/* A matrix in memory, in elements, with gaps of random width. */
typedef struct layout {
    trp_dtype type;
    bool row_major;
    size_t offset, ld, stride;
    block *block;
} layout;

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

static size_t bytes_of(trp_dtype type, size_t elements)
{
    return elements * trp_dtype_bits(type) / 8;
}

/* Returns the number of elements that leading dimensions, strides and offsets are multiples of:
 * whole bytes or, with factors on GPUs, the alignment of kernels for compute capability 9.0. */
static size_t unit_of(trp_dtype type, bool factors)
{
    return factors && h_is_cuda() ? 128 / trp_dtype_bits(type) : trp_dtype_bits(type) == 4 ? 2 : 1;
}

static block *make_block(block *b, size_t bytes)
{
    *b = block_make(bytes, h_random_block(h_rng(), bytes));
    return b;
}

static size_t up_to(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static int64_t at(const layout *x, size_t i, size_t j, size_t b)
{
    return (int64_t)(x->offset + b * x->stride + (x->row_major ? i * x->ld + j : j * x->ld + i));
}

static double load(const layout *x, size_t i, size_t j, size_t b)
{
    return creal(ref_element_load(x->type, x->block->before, at(x, i, j, b)));
}

/* ---- problems ---- */

typedef struct product {
    size_t m, n, k, batch;
    int64_t batch_field;
    trp_scalar alpha, beta;
    bool in_place, tight, factors, weights, tree;
    trp_scale_mode mode[2];  /* of A and B */
    size_t factor_stride[2]; /* bytes */
    size_t group;            /* elements of a group of weights; 0: all of k */
    trp_epilogue_node nodes[3];
    trp_tune tune;
    layout x[MATRICES];
    block blocks[OPERANDS];
    unsigned char *wanted; /* the bytes that D must hold, gaps included */
} product;

static trp_dtype one_of(const trp_dtype *types, size_t count)
{
    return types[below(count)];
}

static void draw_types(product *p, trp_dtype a)
{
    static const trp_dtype narrow[] = {TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2, TRP_I8};
    static const trp_dtype wide[] = {TRP_F64, TRP_F32};
    const bool fp8 = a == TRP_F8E4M3 || a == TRP_F8E5M2;
    p->x[A].type = a;
    if (p->factors) {
        p->x[B].type = fp8 ? (below(2) ? TRP_F8E4M3 : TRP_F8E5M2) : a;
        p->x[C].type = p->x[D].type = TRP_F32;
        return;
    }
    if (!p->weights)
        p->x[B].type = fp8 ? (below(2) ? TRP_F8E4M3 : TRP_F8E5M2) : a;
    for (int i = C; i <= D; i++)
        p->x[i].type = a == TRP_F64 ? one_of(wide, 2) : one_of(narrow, p->weights ? 3 : 6);
    if (a == TRP_I8 && below(2))
        p->x[C].type = p->x[D].type = TRP_I32;
    if (p->in_place)
        p->x[C].type = p->x[D].type;
}

static void lay_out(product *p, int which, bool shared)
{
    layout *x = &p->x[which];
    const size_t rows = which == B ? p->k : p->m, columns = which == A ? p->k : p->n;
    const size_t run = x->row_major ? columns : rows, lines = x->row_major ? rows : columns;
    const size_t unit = unit_of(x->type, p->factors || p->weights);
    x->ld = up_to(run, unit) + (p->tight ? 0 : unit * below(6));
    x->offset = p->tight ? 0 : unit * below(5);
    x->stride = shared ? 0 : lines * x->ld + (p->tight ? 0 : unit * below(7));
    const size_t span = x->offset + (p->batch - 1) * x->stride + lines * x->ld + (p->tight ? 0 : 8);
    block *b = x->block = make_block(&p->blocks[which], bytes_of(x->type, span));
    /* Small integers, which all types hold; NaN where nothing may be read. */
    const size_t most = p->weights && which == B ? (x->type == TRP_I8 ? 127 : 7) : 4;
    for (size_t i = 0; i < span && (which < C || p->beta.re != 0); i++)
        ref_element_store(x->type, b->before, (int64_t)i,
                          (double)below(2 * most + 1) - (double)most);
}

/* Returns an element as it is multiplied: times its factor; a weight as A's type holds it. */
static double value_of(const product *p, int which, size_t line, size_t q, size_t l)
{
    const block *factors = &p->blocks[FACTORS];
    const trp_dtype a = p->x[A].type;
    double x = which == A ? load(&p->x[A], line, q, l) : load(&p->x[B], q, line, l);
    if (p->factors)
        return x * ref_scale(p->mode[which], factors[which].before + l * p->factor_stride[which],
                             (int64_t)(which == A ? p->m : p->n), (int64_t)p->k, (int64_t)line,
                             (int64_t)q);
    const size_t of = (p->group ? q / p->group : 0) * p->n + line + l * p->factor_stride[0] / 2;
    for (int i = 0; which == B && p->weights && i < 2 && factors[i].before; i++) {
        const double f = creal(ref_element_load(a, factors[i].before, (int64_t)of));
        x = ref_element_round(a, i == 0 ? x * f : x + f);
    }
    return x;
}

/* Sets factors to powers of two from 1/2 to 2 in the layout of the mode, also where tiles are not
 * full. */
static void lay_out_factors(product *p, int which)
{
    const trp_scale_mode mode = p->mode[which];
    const size_t lines = which == A ? p->m : p->n, width = mode >= TRP_SCALE_BLOCK_128 ? 4 : 1;
    const size_t one = (size_t)ref_scale_bytes(mode, (int64_t)lines, (int64_t)p->k);
    const bool shared = !p->tight && below(3) == 0;
    block *b = &p->blocks[FACTORS + which];
    p->factor_stride[which] = p->batch == 1 || shared ? 0 : up_to(one, 16 * width);
    make_block(b, one + (p->batch - 1) * p->factor_stride[which]);
    for (size_t i = 0; i < b->bytes / width; i++) {
        const int power = (int)below(3) - 1;
        const float f32 = ldexpf(1, power);
        if (width == 4)
            memcpy(b->before + 4 * i, &f32, sizeof f32);
        else
            b->before[i] = (char)(mode == TRP_SCALE_BLOCK_32 ? 127 + power : 8 * (7 + power));
    }
}

/* Lays out factors of 7 bits for groups of k, which make most weights of 8 bits inexact, and zero
 * points. Members of a batch have arrays that follow each other, or share one. Factors of columns
 * are nodes of a tree. */
static void lay_out_groups(product *p)
{
    const bool none = !p->tight && below(4) == 0, shared = !p->tight && below(3) == 0;
    p->group = none ? 0 : p->group;
    const size_t count = (p->group ? (p->k - 1) / p->group + 1 : 1) * p->n;
    p->factor_stride[0] = p->batch == 1 || shared ? 0 : 2 * (count + (p->tight ? 0 : 8 * below(2)));
    for (int i = 0; i < 2 && !none && (i == 0 || p->tight || below(2)); i++) {
        block *b =
            make_block(&p->blocks[FACTORS + i], 2 * count + (p->batch - 1) * p->factor_stride[0]);
        for (size_t f = 0; f < b->bytes / 2; f++)
            ref_element_store(p->x[A].type, b->before, (int64_t)f,
                              i == 0 ? (double)(1 + below(127)) / 32 : (double)below(201) / 32 - 3);
    }
    for (size_t j = 0; p->tree && j < p->n; j++) {
        const float f = ldexpf(1, (int)below(3) - 1);
        if (j == 0)
            make_block(&p->blocks[COLUMN], p->n * sizeof f);
        memcpy(p->blocks[COLUMN].before + j * sizeof f, &f, sizeof f);
    }
}

/* Computes sums from A by rows and B by columns, which is fast for large sizes, too. */
static double *sums_of(const product *p, size_t l)
{
    double *wide_a = h_malloc(p->m * p->k * sizeof *wide_a);
    double *wide_b = h_malloc(p->k * p->n * sizeof *wide_b);
    double *sums = h_malloc(p->m * p->n * sizeof *sums);
    for (size_t x = 0; x < p->k; x++) {
        for (size_t i = 0; i < p->m; i++)
            wide_a[i * p->k + x] = value_of(p, A, i, x, l);
        for (size_t j = 0; j < p->n; j++)
            wide_b[j * p->k + x] = value_of(p, B, j, x, l);
    }
    for (size_t j = 0; j < p->n; j++) {
        for (size_t i = 0; i < p->m; i++) {
            double sum = 0;
            for (size_t x = 0; x < p->k; x++)
                sum += wide_a[i * p->k + x] * wide_b[j * p->k + x];
            sums[j * p->m + i] =
                p->tree ? sum * (double)((const float *)(const void *)p->blocks[COLUMN].before)[j]
                        : sum;
        }
    }
    free(wide_a);
    free(wide_b);
    return sums;
}

static void expect(product *p)
{
    const layout *c = &p->x[p->in_place ? D : C], *d = &p->x[D];
    p->wanted = h_malloc(d->block->bytes);
    memcpy(p->wanted, d->block->before, d->block->bytes);
    for (size_t l = 0; l < p->batch; l++) {
        double *sums = sums_of(p, l);
        for (size_t j = 0; j < p->n; j++) {
            for (size_t i = 0; i < p->m; i++) {
                const double sum = p->alpha.re * sums[j * p->m + i];
                const int64_t place = at(d, i, j, l);
                ref_element_store(d->type, p->wanted, place,
                                  p->beta.re != 0 ? fma(p->beta.re, load(c, i, j, l), sum) : sum);
                memset(d->block->writable + bytes_of(d->type, (size_t)place), true,
                       bytes_of(d->type, 1));
            }
        }
        free(sums);
    }
}

static const cf_variant variants[] = {
    {.name = "f64", .type = TRP_F64},       {.name = "f32", .type = TRP_F32},
    {.name = "f16", .type = TRP_F16},       {.name = "bf16", .type = TRP_BF16},
    {.name = "f8e4m3", .type = TRP_F8E4M3}, {.name = "f8e5m2", .type = TRP_F8E5M2},
    {.name = "i8", .type = TRP_I8},
};

static const cf_variant factor_variants[] = {
    {.name = "fp8 in blocks of 128", .type = TRP_F8E4M3},
    {.name = "fp8 in blocks of 32", .type = TRP_F8E5M2, .by_device = true},
    {.name = "f4e2m1 in blocks of 16", .type = TRP_F4E2M1, .by_device = true},
};

/* Variants of weights; A has either type. */
static const cf_variant weight_variants[] = {
    {.name = "i8", .type = TRP_F16},
    {.name = "i4", .type = TRP_BF16},
    {.name = "f8e4m3", .type = TRP_F16},
    {.name = "f8e5m2", .type = TRP_BF16},
};
static const trp_dtype weight_types[] = {TRP_I8, TRP_I4, TRP_F8E4M3, TRP_F8E5M2};

/* Way 0 has more than a tile in each direction, for one integer and one floating type. */
enum { WAYS = 60 };

static void draw_sizes(product *p, trp_dtype type, unsigned way)
{
    const size_t most = p->tight ? 7 : way % 20 == 1 ? 90 : 20, least = p->tight ? 2 : 1;
    p->m = least + below(most);
    p->n = least + below(most);
    p->k = least + below(most);
    p->batch = p->tight ? 2 : below(3) ? 1 : 1 + below(4);
    if (p->factors) { /* several blocks, and partly filled tiles of 128 lines */
        const size_t lines = h_is_cuda() ? 4 : 1;
        p->m = lines * (p->tight ? 4 : 1 + below(150 / lines));
        p->n = lines * (p->tight ? 4 : 1 + below(150 / lines));
        p->k = p->tight ? 32 : up_to(1 + below(400), h_is_cuda() ? 16 : 2);
    }
    if (p->weights) { /* groups that end within a tile, and a partly filled last one */
        const size_t unit = h_is_cuda() ? 32 : p->x[B].type == TRP_I4 ? 2 : 1;
        const size_t lines = h_is_cuda() ? 16 : unit;
        p->m = p->tight ? 16 : up_to(1 + below(70), p->x[D].row_major ? 1 : lines);
        p->n = p->tight ? 16 : up_to(1 + below(70), lines);
        p->k = p->tight ? 64 : up_to(1 + below(200), unit);
        p->group = p->tight ? 32 : below(4) ? unit * (1 + below(h_is_cuda() ? 6 : 40)) : 0;
    }
    if (way > 0 || p->tight || p->factors || p->weights || H_SANITIZED ||
        (type != TRP_I8 && type != TRP_BF16))
        return;
    p->m = 513 + below(9);
    p->n = 514;
    p->k = 515;
    p->batch = 1;
    p->x[C].type = p->x[D].type = type == TRP_I8 ? TRP_I32 : TRP_F32;
}

static bool draw(cf_problem *problem, unsigned way, cf_kind kind)
{
    static const double alphas[] = {1, 1, -2, 0, 3}, betas[] = {0, 0, 1, -3, 2};
    const trp_dtype type = problem->operation->variants[problem->variant].type;
    product *p = h_malloc(sizeof *p);
    *p = (product){.in_place = below(3) == 0 && kind != CF_TIGHT,
                   .tight = kind == CF_TIGHT,
                   .factors = problem->operation->has & HAS_FACTORS,
                   .weights = problem->operation->has & HAS_GROUPS};
    for (int i = A; i <= B && p->factors; i++)
        p->mode[i] = type == TRP_F4E2M1   ? TRP_SCALE_BLOCK_16
                     : type == TRP_F8E5M2 ? TRP_SCALE_BLOCK_32
                     : below(2)           ? TRP_SCALE_BLOCK_128
                                          : TRP_SCALE_BLOCK_128X128;
    const bool ordered = p->factors || (p->weights && h_is_cuda());
    if ((p->factors || p->weights) && way == 1) /* a search also runs kernels that read factors */
        p->tune = TRP_TUNE_FULL;
    p->tree = p->weights && !p->tight && below(2);
    p->alpha = trp_real(p->tree ? 1 : alphas[below(5)]);
    p->beta = trp_real(p->tree ? 0 : betas[p->tight ? 2 : below(5)]);
    if (p->weights)
        p->x[B].type = weight_types[problem->variant];
    for (int i = 0; i < MATRICES; i++)
        p->x[i].row_major = i == D ? p->x[C].row_major : ordered && i <= B ? i == A : below(2);
    draw_types(p, p->weights && below(2) ? TRP_F16 : p->weights ? TRP_BF16 : type);
    draw_sizes(p, type, way);
    p->batch_field = p->batch == 1 && below(2) ? 0 : (int64_t)p->batch;
    for (int i = 0; i < MATRICES; i++) {
        if (i != C || !p->in_place)
            lay_out(p, i, i != D && !p->tight && below(4) == 0);
    }
    for (int i = A; i <= B && p->factors; i++)
        lay_out_factors(p, i);
    if (p->weights)
        lay_out_groups(p);
    expect(p);
    problem->own = p;
    problem->blocks = p->blocks;
    problem->block_count = OPERANDS;
    problem->may_fault = p->in_place && p->beta.re != 0;
    const bool newer = p->factors && h_is_cuda() && p->mode[A] < TRP_SCALE_BLOCK_128;
    problem->may_refuse = p->tight || newer ? "" : NULL; /* bad_input changes types and orders */
    return true;
}

static trp_matmul_matrix matrix_of(const product *p, int which)
{
    const layout *x = &p->x[which];
    return (trp_matmul_matrix){.buffer = p->blocks[which].buffer,
                               .offset = bytes_of(x->type, x->offset),
                               .type = x->type,
                               .order = x->row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
                               .ld = (int64_t)x->ld,
                               .stride = (int64_t)x->stride};
}

static trp_matmul_matrix input_of(const product *p, int which)
{
    trp_matmul_matrix m = matrix_of(p, which);
    if (p->factors)
        m.scale = (trp_scale){.buffer = p->blocks[FACTORS + which].buffer,
                              .mode = p->mode[which],
                              .stride = (int64_t)p->factor_stride[which] /
                                        (p->mode[which] >= TRP_SCALE_BLOCK_128 ? 4 : 1)};
    return m;
}

static void make_request(const cf_problem *problem, void *out)
{
    product *p = problem->own;
    trp_cutlass_gemm_request *r = out;
    *r = (trp_cutlass_gemm_request){.m = (int64_t)p->m,
                                    .n = (int64_t)p->n,
                                    .k = (int64_t)p->k,
                                    .batch = p->batch_field,
                                    .alpha = p->alpha,
                                    .beta = p->beta,
                                    .tune = p->tune,
                                    .a = input_of(p, A),
                                    .b = input_of(p, B),
                                    .c = matrix_of(p, p->in_place ? D : C),
                                    .d = matrix_of(p, D)};
    if (p->weights)
        r->groups = (trp_cutlass_groups){.size = (int64_t)p->group,
                                         .scale = p->blocks[FACTORS].buffer,
                                         .zero = p->blocks[FACTORS + 1].buffer,
                                         .stride = (int64_t)p->factor_stride[0] / 2};
    if (!p->tree)
        return;
    p->nodes[1].kind = TRP_EPILOGUE_ACCUMULATOR;
    p->nodes[2] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_SCALE_COLUMNS, .input = {1}, .buffer = p->blocks[COLUMN].buffer};
    r->epilogue = p->nodes;
    r->epilogue_count = 3;
    r->alpha = r->beta = (trp_scalar){0};
    r->c = (trp_matmul_matrix){0};
}

static trp_status send(trp_actor *cutlass, const cf_problem *problem, trp_completion *done)
{
    trp_cutlass_gemm_request r;
    make_request(problem, &r);
    return trp_cutlass_gemm(cutlass, &r, done);
}

static bool check(cf_problem *problem, cf_tally *tally)
{
    const product *p = problem->own;
    const block *d = &p->blocks[D];
    (void)tally;
    for (size_t i = 0; i < d->bytes; i++) {
        if ((unsigned char)d->after[i] == p->wanted[i])
            continue;
        fprintf(stderr,
                "%s x %s + %s -> %s, %zu x %zu x %zu, batch %zu, alpha %g beta %g: byte %zu of "
                "%zu is %#x, expected %#x\n",
                trp_dtype_name(p->x[A].type), trp_dtype_name(p->x[B].type),
                trp_dtype_name(p->x[C].type), trp_dtype_name(p->x[D].type), p->m, p->n, p->k,
                p->batch, p->alpha.re, p->beta.re, i, d->bytes, (unsigned char)d->after[i],
                p->wanted[i]);
        return false;
    }
    return true;
}

static void drop(cf_problem *problem)
{
    product *p = problem->own;
    free(p->wanted);
    free(p);
}

/* ---- the operation ---- */

#define AT(field) offsetof(trp_cutlass_gemm_request, field)
#define MATRIX(x, bit)                                                                             \
    {                                                                                              \
#x, AT(x.buffer), AT(x.offset), bit, (bit) & ~HAS_C, TRP_E_STALE                           \
    }
#define FACTOR(x)                                                                                  \
    {                                                                                              \
#x ".scale", AT(x.scale.buffer), AT(x.scale.offset), HAS_FACTORS, HAS_FACTORS,             \
            TRP_E_ARGUMENT                                                                         \
    }
#define FIELD(field, what, ...)                                                                    \
    {                                                                                              \
        .name = #field, .role = what, .at = AT(field), .has = HAS_A, __VA_ARGS__                   \
    }
static const cf_operand operands[] = {
    MATRIX(a, HAS_A),
    MATRIX(b, HAS_B),
    MATRIX(c, HAS_C),
    MATRIX(d, HAS_D),
    FACTOR(a),
    FACTOR(b),
    {"groups.scale", AT(groups.scale), AT(groups.scale_offset), HAS_GROUPS, HAS_GROUPS,
     TRP_E_ARGUMENT},
    {"groups.zero", AT(groups.zero), AT(groups.zero_offset), HAS_GROUPS, 0, TRP_OK},
};
static const cf_field fields[] = {
    FIELD(a.type, CF_TYPE),
    FIELD(a.order, CF_OPTION, .limit = 2),
    FIELD(b.order, CF_OPTION, .limit = 2),
    FIELD(d.order, CF_OPTION, .limit = 2),
    FIELD(first, CF_OPTION, .limit = 2),
    FIELD(a.ld, CF_LD),
    FIELD(b.ld, CF_LD),
    FIELD(d.ld, CF_LD),
    FIELD(m, CF_COUNT),
    FIELD(n, CF_COUNT),
    FIELD(k, CF_COUNT),
    FIELD(batch, CF_BATCH),
    FIELD(alpha, CF_SCALAR),
    FIELD(beta, CF_SCALAR),
    {.name = "groups.size", .role = CF_FORWARD, .at = AT(groups.size), .has = HAS_GROUPS},
    {.name = "groups.stride", .role = CF_FORWARD, .at = AT(groups.stride), .has = HAS_GROUPS},
};
static const cf_family family = {
    .operands = operands,
    .operand_count = sizeof operands / sizeof *operands,
    .fields = fields,
    .field_count = sizeof fields / sizeof *fields,
    .request_bytes = sizeof(trp_cutlass_gemm_request),
    .draw = draw,
    .request = make_request,
    .send = send,
    .check = check,
    .drop = drop,
};

int main(int argc, char **argv)
{
    cf_operation operations[3];
    operations[0] = (cf_operation){.name = "gemm",
                                   .op = TRP_OP_CUTLASS_GEMM,
                                   .family = &family,
                                   .variants = variants,
                                   .variant_count = sizeof variants / sizeof *variants,
                                   .ways = WAYS,
                                   .has = HAS_A | HAS_B | HAS_C | HAS_D,
                                   .writes = HAS_D,
                                   .in_place = HAS_C | HAS_D};
    operations[1] = operations[0];
    operations[1].name = "gemm_with_factors";
    operations[1].variants = factor_variants;
    operations[1].variant_count = sizeof factor_variants / sizeof *factor_variants;
    operations[1].ways = WAYS / 3;
    operations[1].has |= HAS_FACTORS;
    operations[2] = operations[1];
    operations[2].name = "gemm_of_weights";
    operations[2].variants = weight_variants;
    operations[2].variant_count = sizeof weight_variants / sizeof *weight_variants;
    operations[2].ways = WAYS; /* one search per variant */
    operations[2].has ^= HAS_FACTORS | HAS_GROUPS;
    const cf_actor cutlass = {.kind = "cutlass",
                              .operations = operations,
                              .count = 3,
                              .few_proofs = true,
                              .rounds = WAYS,
                              .keeps = true};
    if (h_is_gpu())
        return H_EXIT_SKIPPED; /* too many kernels; gpu/cutlass runs some */
    return cf_main(argc, argv, &cutlass);
}

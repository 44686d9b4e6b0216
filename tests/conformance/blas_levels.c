#include "conformance/blas_levels.h"

/* ---- requests ---- */

typedef trp_gemm_request trp_blas0_request; /* routines.def numbers gemm's level 0 */

/* Bits of an operation beside the options of blas_problem.h, which are the low bits. */
#define BIT(n)     (UINT64_C(1) << (32 + (n)))
#define HAS_A      BIT(0)
#define HAS_X      BIT(1)
#define HAS_Y      BIT(2)
#define GIVES      BIT(3) /* has a result */
#define SIZE_M     BIT(4) /* has a size m, and so on */
#define SIZE_N     BIT(5)
#define SIZE_K     BIT(6)
#define BELOW      BIT(7) /* has diagonals below the main one */
#define ABOVE      BIT(8)
#define APART      BIT(9)  /* Y must differ from X */
#define X_INC      BIT(10) /* X has an increment, also at level 3 */
#define X_LD       BIT(11) /* X has a leading dimension */
#define LD         BIT(12) /* of A */
#define STEPS      BIT(13) /* increments may be negative */
#define STEP_Y     BIT(14)
#define ALWAYS     BIT(15)
#define ANY_SCALAR (ALPHA | ROTATION | MODIFIED)

#define BUFFER(level, name, has, needed, missing)                                                  \
    {                                                                                              \
#name, offsetof(trp_blas##level##_request, name),                                          \
            offsetof(trp_blas##level##_request, name##_offset), has, needed, missing               \
    }
#define FIELD(level, field, what, ...)                                                             \
    {                                                                                              \
        .name = #field, .role = what, .at = offsetof(trp_blas##level##_request, field),            \
        .has = __VA_ARGS__                                                                         \
    }
#define OPTION(level, field, bits, values) FIELD(level, field, CF_OPTION, bits, .limit = values)

static const cf_operand operands_0[] = {
    BUFFER(0, a, HAS_A, HAS_A, TRP_E_STALE),
    BUFFER(0, b, HAS_X, HAS_X, TRP_E_STALE),
    BUFFER(0, c, HAS_Y, HAS_Y, TRP_E_STALE),
    BUFFER(0, scalars, ANY_SCALAR, MODIFIED, TRP_E_ARGUMENT),
};
static const cf_field fields_0[] = {
    FIELD(0, type, CF_TYPE, ALWAYS),    OPTION(0, type_c, ALWAYS, TRP_DTYPE_COUNT),
    OPTION(0, compute, ALWAYS, 4),      OPTION(0, order, ALWAYS, 2),
    OPTION(0, trans_a, ALWAYS, 3),      OPTION(0, trans_b, ALWAYS, 3),
    OPTION(0, joining, ALWAYS, 2),      FIELD(0, m, CF_COUNT, ALWAYS),
    FIELD(0, n, CF_COUNT, ALWAYS),      FIELD(0, k, CF_COUNT, ALWAYS),
    FIELD(0, alpha, CF_SCALAR, ALWAYS), FIELD(0, beta, CF_SCALAR, ALWAYS),
    FIELD(0, lda, CF_LD, ALWAYS),       FIELD(0, ldb, CF_LD, ALWAYS),
    FIELD(0, ldc, CF_LD, ALWAYS),       FIELD(0, batch, CF_BATCH, ALWAYS),
};

static const cf_operand operands_1[] = {
    BUFFER(1, x, HAS_X, HAS_X, TRP_E_STALE),
    BUFFER(1, y, HAS_Y, APART, TRP_E_STALE),
    BUFFER(1, scalars, ANY_SCALAR, MODIFIED, TRP_E_ARGUMENT),
    BUFFER(1, result, GIVES, GIVES, TRP_E_ARGUMENT),
};
static const cf_field fields_1[] = {
    FIELD(1, type, CF_TYPE, ALWAYS),
    FIELD(1, n, CF_COUNT, SIZE_N),
    FIELD(1, alpha, CF_SCALAR, ALPHA),
    FIELD(1, c, CF_SCALAR, ROTATION, .real = ROTATION, .needed = ROTATION),
    FIELD(1, s, CF_SCALAR, ROTATION, .needed = ROTATION),
    FIELD(1, incx, CF_FORWARD, POSITIVE),
    FIELD(1, incx, CF_INC, STEPS),
    FIELD(1, incy, CF_INC, STEP_Y),
};

static const cf_operand operands_2[] = {
    BUFFER(2, a, HAS_A, HAS_A, TRP_E_STALE),
    BUFFER(2, x, HAS_X, HAS_X, TRP_E_STALE),
    BUFFER(2, y, HAS_Y, APART, TRP_E_STALE),
    BUFFER(2, scalars, ANY_SCALAR, MODIFIED, TRP_E_ARGUMENT),
};
static const cf_field fields_2[] = {
    FIELD(2, type, CF_TYPE, ALWAYS),
    OPTION(2, order, ALWAYS, 2),
    OPTION(2, trans, TRANS, 3),
    OPTION(2, uplo, UPLO, 2),
    OPTION(2, diag, DIAG, 2),
    FIELD(2, m, CF_COUNT, SIZE_M),
    FIELD(2, n, CF_COUNT, SIZE_N),
    FIELD(2, kl, CF_COUNT, BELOW),
    FIELD(2, ku, CF_UNUSED0, ABOVE),
    FIELD(2, alpha, CF_SCALAR, ALPHA, .real = REAL_ALPHA),
    FIELD(2, beta, CF_SCALAR, BETA, .real = REAL_BETA),
    FIELD(2, lda, CF_LD, LD | PACKED),
    FIELD(2, incx, CF_INC, STEPS),
    FIELD(2, incy, CF_INC, STEP_Y),
    FIELD(2, batch, CF_BATCH, BATCHES),
};

static const cf_operand operands_3[] = {
    BUFFER(3, a, HAS_A, HAS_A, TRP_E_STALE),
    BUFFER(3, b, HAS_X, HAS_X, TRP_E_STALE),
    BUFFER(3, c, HAS_Y, APART, TRP_E_STALE),
    BUFFER(3, scalars, ANY_SCALAR, MODIFIED, TRP_E_ARGUMENT),
};
static const cf_field fields_3[] = {
    FIELD(3, type, CF_TYPE, ALWAYS),
    OPTION(3, order, ALWAYS, 2),
    OPTION(3, side, SIDE, 2),
    OPTION(3, uplo, UPLO, 2),
    OPTION(3, trans, TRANS, 3),
    OPTION(3, trans_b, TRANS_B, 3),
    OPTION(3, diag, DIAG, 2),
    FIELD(3, m, CF_COUNT, SIZE_M),
    FIELD(3, n, CF_COUNT, SIZE_N),
    FIELD(3, k, CF_COUNT, SIZE_K),
    FIELD(3, alpha, CF_SCALAR, ALPHA, .real = REAL_ALPHA),
    FIELD(3, beta, CF_SCALAR, BETA, .real = REAL_BETA),
    FIELD(3, lda, CF_LD, LD),
    FIELD(3, ldb, CF_LD, X_LD),
    FIELD(3, ldc, CF_LD, APART),
    FIELD(3, incx, CF_INC, X_INC),
    FIELD(3, batch, CF_BATCH, BATCHES),
};

/* ---- variants ---- */

static const cf_variant all_types[] = {
    {.name = "f32", .type = TRP_F32},
    {.name = "f64", .type = TRP_F64},
    {.name = "c64", .type = TRP_C64, .is_complex = true},
    {.name = "c128", .type = TRP_C128, .is_complex = true},
    {.name = "f16", .type = TRP_F16},
    {.name = "bf16", .type = TRP_BF16},
};

/* Variants of gemm: the type of C, if it is another one, and the compute type. */
#define GEMM_VARIANTS(X)                                                                           \
    X("f32", F32, NONE, DEFAULT)                                                                   \
    X("f64", F64, NONE, DEFAULT)                                                                   \
    X("c64", C64, NONE, DEFAULT)                                                                   \
    X("c128", C128, NONE, DEFAULT)                                                                 \
    X("f16", F16, NONE, DEFAULT)                                                                   \
    X("bf16", BF16, NONE, DEFAULT)                                                                 \
    X("f16 to f32", F16, F32, DEFAULT)                                                             \
    X("bf16 to f32", BF16, F32, DEFAULT)                                                           \
    X("i8 to f32", I8, F32, DEFAULT)                                                               \
    X("i8 to i32", I8, I32, DEFAULT)                                                               \
    X("f32 emulated", F32, NONE, EMULATED)                                                         \
    X("f64 emulated", F64, NONE, EMULATED)                                                         \
    X("c64 emulated", C64, NONE, EMULATED)                                                         \
    X("c128 emulated", C128, NONE, EMULATED)

#define TRP_NONE TRP_DTYPE_NONE
static const cf_variant gemm_types[] = {
#define VARIANT(text, of, c, how)                                                                  \
    {.name = text,                                                                                 \
     .type = TRP_##of,                                                                             \
     .is_complex = TRP_##of == TRP_C64 || TRP_##of == TRP_C128,                                    \
     .by_device = TRP_COMPUTE_##how == TRP_COMPUTE_EMULATED},
    GEMM_VARIANTS(VARIANT)
#undef VARIANT
};
static const struct {
    trp_dtype type_c;
    trp_compute compute;
} gemm_ways[] = {
#define VARIANT(text, of, c, how) {TRP_##c, TRP_COMPUTE_##how},
    GEMM_VARIANTS(VARIANT)
#undef VARIANT
};
#undef TRP_NONE

static void set_variants(const operation *row, cf_operation *o)
{
    const unsigned only = row->options & (REAL_ONLY | COMPLEX_ONLY);
    o->variants = &all_types[only == COMPLEX_ONLY ? 2 : 0];
    o->variant_count = only ? 2 : row->options & HALF ? 6 : 4;
    if (row->op == TRP_OP_GEMM) {
        o->variants = gemm_types;
        o->variant_count = sizeof gemm_types / sizeof *gemm_types;
    }
}

/* ---- problems ---- */

const char *cf_gemm_may_refuse(const problem *p)
{
    const bool tn = p->row_major ? p->trans == TRP_N && p->trans_b != TRP_N
                                 : p->trans != TRP_N && p->trans_b == TRP_N;
    const bool whole = p->m % 16 == 0 && p->n % 16 == 0 && p->k % 16 == 0;
    if (!h_is_cuda())
        return NULL;
    if (p->compute == TRP_COMPUTE_EMULATED)
        return "compute";
    return p->type_c == TRP_I32 && !(tn && whole) ? "type_c: cuBLAS" : NULL;
}

bool cf_blas_options(const cf_problem *p, unsigned way, problem *out)
{
    *out = (problem){.op = p->operation->row, .type = p->operation->variants[p->variant].type};
    if (out->op->level == 0) {
        out->type_c = gemm_ways[p->variant].type_c;
        out->compute = gemm_ways[p->variant].compute;
        out->step = out->type_c == TRP_I32 && h_is_cuda() ? 4 : 0;
    }
    return blas_set_options(out, way);
}

static bool draw(cf_problem *p, unsigned way, cf_kind kind)
{
    problem options;
    if (!cf_blas_options(p, way, &options))
        return false;
    problem *own = h_malloc(sizeof *own);
    *own = options;
    (kind == CF_TIGHT ? blas_draw_tight : blas_draw)(own);
    p->own = own;
    p->blocks = own->blocks;
    p->block_count = PLACES;
    p->may_fault = !blas_runs_again(own);
    p->may_refuse = cf_gemm_may_refuse(own);
    if (kind == CF_TIGHT && own->step > 0) /* bad_input changes a size or an offset */
        p->may_refuse = "expected a multiple of 4";
    return true;
}

static void make_request(const cf_problem *p, void *out)
{
    blas_make_request(p->own, out);
}

static trp_status send(trp_actor *blas, const cf_problem *p, trp_completion *done)
{
    return blas_send_problem(blas, p->own, done);
}

static bool check(cf_problem *p, cf_tally *tally)
{
    return blas_check_outputs(p->own, &tally->worst);
}

static void drop(cf_problem *p)
{
    free(p->own);
}

#define FAMILY(level)                                                                              \
    {                                                                                              \
        .operands = operands_##level, .fields = fields_##level,                                    \
        .operand_count = sizeof operands_##level / sizeof *operands_##level,                       \
        .field_count = sizeof fields_##level / sizeof *fields_##level,                             \
        .request_bytes = sizeof(trp_blas##level##_request),                                        \
        .scalars = offsetof(trp_blas##level##_request, scalars), .draw = draw,                     \
        .request = make_request, .send = send, .check = check, .drop = drop,                       \
    }
static const cf_family families[] = {
    [0] = FAMILY(0), [1] = FAMILY(1), [2] = FAMILY(2), [3] = FAMILY(3)};

/* ---- operations ---- */

#define OP(level, name, NAME) #name, TRP_OP_##NAME, level
#define OP0(name, NAME)       OP(0, name, NAME), trp_##name, NULL, NULL, NULL
#define OP1(name, NAME)       OP(1, name, NAME), NULL, trp_##name, NULL, NULL
#define OP2(name, NAME)       OP(2, name, NAME), NULL, NULL, trp_##name, NULL
#define OP3(name, NAME)       OP(3, name, NAME), NULL, NULL, NULL, trp_##name
static const operation rows[] = {
#define CASE(level, name, NAME, options, result, ...)                                              \
    {OP##level(name, NAME), options, {__VA_ARGS__}, result},
#include "src/libs/blas/routines.def"
};

static cf_has sizes_of(const operation *row)
{
    static const cf_has counts[] = {[ONE] = 0,    [THREE] = 0,  [M] = SIZE_M,
                                    [N] = SIZE_N, [K] = SIZE_K, [SIDED] = SIZE_M | SIZE_N};
    cf_has sizes = 0;
    for (int i = 0; i < 3; i++) {
        if (row->rules[i].use != UNUSED)
            sizes |= counts[row->rules[i].rows] | counts[row->rules[i].columns];
    }
    return sizes;
}

static cf_has steps_of(const operation *row)
{
    const rule *a = &row->rules[REF_A], *x = &row->rules[REF_X], *y = &row->rules[REF_Y];
    cf_has has = 0;
    if (a->use != UNUSED && !(row->options & PACKED))
        has |= LD;
    if (x->use != UNUSED && row->level == 3)
        has |= x->vector ? X_INC : X_LD;
    if (row->level < 3 && x->rows != ONE && !(row->options & POSITIVE))
        has |= STEPS;
    if (row->level < 3 && y->use != UNUSED && y->rows != ONE)
        has |= STEP_Y;
    return has;
}

static cf_operation operation_of(const operation *row)
{
    static const cf_has bits[] = {HAS_A, HAS_X, HAS_Y};
    cf_operation o = {.name = row->name,
                      .op = row->op,
                      .family = &families[row->level],
                      .row = row,
                      .ways = blas_options(row),
                      .runs_again = true};
    o.has = row->options | ALWAYS | sizes_of(row) | steps_of(row);
    for (int i = 0; i < 3; i++) {
        const int use = row->rules[i].use;
        o.has |= use != UNUSED ? bits[i] : 0;
        o.writes |= use != UNUSED && use != IN ? bits[i] : 0;
        o.runs_again = o.runs_again && use != INOUT && use != BY_BETA;
    }
    if (row->result != NO_RESULT) {
        o.has |= GIVES;
        o.writes |= GIVES;
    }
    if (row->options & BANDED || row->rules[REF_A].shape == REF_BAND)
        o.has |= BELOW;
    if (row->rules[REF_A].shape == REF_BAND)
        o.has |= ABOVE;
    if (row->options & IN_PLACE)
        o.in_place = HAS_X | HAS_Y;
    else
        o.has |= o.has & HAS_Y ? APART : 0;
    set_variants(row, &o);
    return o;
}

size_t cf_blas_levels(cf_operation *out, size_t capacity)
{
    const size_t count = sizeof rows / sizeof *rows;
    H_CHECK(count <= capacity);
    for (size_t i = 0; i < count; i++)
        out[i] = operation_of(&rows[i]);
    return count;
}

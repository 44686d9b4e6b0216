/* LAPACK's operations of the blas actor in the conformance suite: residuals in float64, singular
 * matrices and NaN among good ones, layouts with gaps. Memory that an operation may not read holds
 * NaN. */
#include "conformance/conformance.h"
#include "support/reference/lapack_reference.h"

#include <math.h>

TROUPE_TEST("one isolation", "no tsan");
TROUPE_TEST_FAKE_GPU("no sanitizer");

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- the operations ---- */

enum { UNUSED, IN, OUT, INOUT };
enum { TRANS = 1, RIGHT_SIDES = 2, FACTORS = 4, SMALL = 16, ROWS = 32, TALL = 64 };
enum { HAS_A = 128, HAS_B = 256, HAS_PIVOTS = 512, HAS_TAU = 1024, HAS_INFO = 2048, ALWAYS = 4096 };
enum { A, B, PIVOTS, TAU, INFO, PLACES };

typedef struct operation {
    const char *name;
    trp_status (*send)(trp_actor *, const trp_lapack_request *, trp_completion *);
    uint32_t op;
    unsigned options;
    int use[PLACES];
} operation;

static const operation table[] = {
#define LAPACK_CASE(name, NAME, options, ...)                                                      \
    {#name, trp_##name, TRP_OP_##NAME, options, {__VA_ARGS__}},
#include "src/libs/blas/routines.def"
};

static const cf_variant variants[] = {
    {.name = "f32", .type = TRP_F32},
    {.name = "f64", .type = TRP_F64},
    {.name = "c64", .type = TRP_C64, .is_complex = true},
    {.name = "c128", .type = TRP_C128, .is_complex = true},
};

/* ---- the request ---- */

#define BUFFER(x, bit)                                                                             \
    {                                                                                              \
#x, offsetof(trp_lapack_request, x), offsetof(trp_lapack_request, x##_offset), bit, bit,   \
            TRP_E_STALE                                                                            \
    }
#define FIELD(field, what, ...)                                                                    \
    {                                                                                              \
        .name = #field, .role = what, .at = offsetof(trp_lapack_request, field),                   \
        .has = __VA_ARGS__                                                                         \
    }
static const cf_operand operands[] = {
    BUFFER(a, HAS_A),     BUFFER(b, HAS_B),       BUFFER(pivots, HAS_PIVOTS),
    BUFFER(tau, HAS_TAU), BUFFER(info, HAS_INFO),
};
static const cf_field fields[] = {
    FIELD(type, CF_TYPE, ALWAYS),
    FIELD(order, CF_OPTION, ALWAYS, .limit = 2),
    FIELD(trans, CF_OPTION, TRANS, .limit = 3),
    FIELD(m, CF_COUNT, ROWS),
    FIELD(n, CF_COUNT, ALWAYS),
    FIELD(nrhs, CF_COUNT, RIGHT_SIDES),
    FIELD(batch, CF_BATCH, ALWAYS),
    FIELD(lda, CF_LD, ALWAYS),
    FIELD(ldb, CF_LD, HAS_B),
    FIELD(a_stride, CF_FORWARD, ALWAYS),
    FIELD(b_stride, CF_FORWARD, HAS_B),
};

/* ---- arrays in memory ---- */

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

static ref_complex random_number(trp_dtype type)
{
    double re = ref_rng_uniform(h_rng(), -1, 1), im = ref_rng_uniform(h_rng(), -1, 1);
    return ref_blas_rounded(type, ref_blas_complex(type) ? re + im * I : re);
}

/* One operand: element (i, j) of member k of the batch lies at start + k stride + i down + j right.
 */
typedef struct array {
    trp_dtype type; /* TRP_I32, or an element type */
    int use;
    int64_t rows, columns, batch, start, ld, stride, down, right;
    block *block;
} array;

typedef struct lapack {
    const operation *op;
    trp_dtype type;
    trp_transpose trans;
    bool row_major;
    int64_t m, n, nrhs, batch, batch_field;
    int64_t singular, broken; /* member of the batch that is singular, or holds NaN; -1: none */
    int64_t zero;             /* the column of zeros in the singular one */
    array x[PLACES];
    block blocks[PLACES];
} lapack;

static bool has(const lapack *p, unsigned option)
{
    return p->op->options & option;
}

static size_t size_of(trp_dtype type)
{
    return trp_dtype_bits(type) / 8;
}

static int64_t place(const array *x, int64_t k, int64_t i, int64_t j)
{
    return x->start + k * x->stride + i * x->down + j * x->right;
}

static int32_t *integers(const array *x, char *memory, int64_t k)
{
    return (int32_t *)(void *)memory + place(x, k, 0, 0);
}

static ref_dense dense(const array *x, const char *memory, int64_t k)
{
    ref_dense out = ref_dense_make(x->rows, x->columns);
    for (int64_t j = 0; j < x->columns; j++) {
        for (int64_t i = 0; i < x->rows; i++)
            *ref_dense_element(&out, i, j) = ref_blas_load(x->type, memory, place(x, k, i, j));
    }
    return out;
}

static void store(const array *x, int64_t k, const ref_dense *from)
{
    for (int64_t j = 0; j < x->columns; j++) {
        for (int64_t i = 0; i < x->rows; i++)
            ref_blas_store(x->type, x->block->before, place(x, k, i, j),
                           *ref_dense_element(from, i, j));
    }
}

/* Lays out a matrix, with gaps unless `tight`, or an array without gaps. */
static void lay_out(lapack *p, int at, trp_dtype type, int64_t rows, int64_t columns, bool tight)
{
    const bool matrix = at == A || at == B, gaps = matrix && !tight;
    const int64_t run = p->row_major ? columns : rows, lines = p->row_major ? rows : columns;
    const int64_t least = run > 0 ? run : 1,
                  ld = matrix ? least + (gaps ? (int64_t)below(4) : 0) : run;
    array *x = &p->x[at];
    block *b = &p->blocks[at];
    *x = (array){.type = type,
                 .use = p->op->use[at],
                 .rows = rows,
                 .columns = columns,
                 .batch = p->batch,
                 .block = b};
    if (x->use == UNUSED)
        return;
    x->ld = ld == least && below(2) ? 0 : ld;
    x->down = p->row_major ? ld : 1;
    x->right = p->row_major ? 1 : ld;
    x->stride = matrix ? ld * lines + (gaps ? (int64_t)below(5) : 0) : run * lines;
    if (x->use == IN && gaps && below(6) == 0)
        x->stride = 0; /* all members share it */
    x->start = tight ? 0 : (int64_t)below(4);
    const int64_t elements = x->start + x->stride * (p->batch - 1) + ld * lines;
    *b = block_make((size_t)(tight ? elements : elements + (int64_t)below(4) + 1) * size_of(type),
                    NULL);
    for (int64_t k = 0; k < p->batch && x->use != IN; k++) {
        for (int64_t j = 0; j < columns; j++) {
            for (int64_t i = 0; i < rows; i++)
                memset(b->writable + (size_t)place(x, k, i, j) * size_of(type), 1, size_of(type));
        }
    }
}

/* ---- problems ---- */

static bool wrong(const lapack *p, int64_t member, const char *what, double value)
{
    fprintf(
        stderr,
        "%s %s: member %lld: %s: %g\n  trans %d row-major %d, m n nrhs %lld %lld %lld, batch "
        "%lld, singular %lld (column %lld), NaN in %lld; lda %lld ldb %lld, strides %lld %lld\n",
        p->op->name, trp_dtype_name(p->type), (long long)member, what, value, (int)p->trans,
        p->row_major, (long long)p->m, (long long)p->n, (long long)p->nrhs, (long long)p->batch,
        (long long)p->singular, (long long)p->zero, (long long)p->broken, (long long)p->x[A].ld,
        (long long)p->x[B].ld, (long long)p->x[A].stride, (long long)p->x[B].stride);
    return false;
}

/* Fills one member of A: at random or with its factors, with a column of zeros if it is to be
 * singular. */
static void fill_matrix(lapack *p, int64_t k)
{
    ref_dense a = ref_dense_make(p->x[A].rows, p->x[A].columns);
    for (int64_t i = 0; i < a.rows * a.columns; i++)
        a.at[i] = random_number(p->type);
    /* The factors are well conditioned; one row is large, so that rows are exchanged. */
    for (int64_t i = 0; i < a.rows && i < a.columns; i++)
        *ref_dense_element(&a, a.rows - 1 - i, i) += (double)(2 + a.columns / 8);
    for (int64_t i = 0; k == p->singular && i < a.rows; i++)
        *ref_dense_element(&a, i, p->zero) = 0;
    if (k == p->broken)
        *ref_dense_element(&a, (int64_t)below((size_t)a.rows), (int64_t)below((size_t)a.columns)) =
            NAN;
    if (has(p, FACTORS))
        ref_lapack_factor(&a, integers(&p->x[PIVOTS], p->x[PIVOTS].block->before, k));
    store(&p->x[A], k, &a);
    ref_dense_free(&a);
}

static void fill(lapack *p)
{
    for (int64_t k = 0; k < p->batch; k++) {
        if (p->m > 0 && p->n > 0)
            fill_matrix(p, k);
        if (p->x[B].use != INOUT)
            continue;
        ref_dense b = ref_dense_make(p->x[B].rows, p->x[B].columns);
        for (int64_t i = 0; i < b.rows * b.columns; i++)
            b.at[i] = random_number(p->type);
        store(&p->x[B], k, &b);
        ref_dense_free(&b);
    }
    /* Members that share a matrix share its pivots: those of the last. */
    for (int64_t k = p->batch - 2; k >= 0 && p->x[A].stride == 0 && has(p, FACTORS); k--)
        memcpy(integers(&p->x[PIVOTS], p->x[PIVOTS].block->before, k),
               integers(&p->x[PIVOTS], p->x[PIVOTS].block->before, k + 1),
               (size_t)p->n * sizeof(int32_t));
}

/* ---- what comes of it ---- */

/* Compares an error with its bound: some roundoff for each of `terms` terms of a given size. */
static bool check_size(const lapack *p, int64_t k, cf_tally *t, const char *what, double error,
                       int64_t terms, double size)
{
    double bound = 4 * (double)(terms + 4) * ref_blas_unit(p->type) * size;
    if (!(error <= bound))
        return wrong(p, k, what, error / bound);
    t->worst = bound > 0 && error / bound > t->worst ? error / bound : t->worst;
    return true;
}

/* Checks pivots and factors. Unfinished factors mean nothing: those of NaN or, by cuBLAS, of a
 * singular matrix. */
static bool check_getrf(const lapack *p, int64_t k, bool unfinished, cf_tally *t)
{
    const int32_t *pivots = integers(&p->x[PIVOTS], p->x[PIVOTS].block->after, k);
    for (int64_t i = 0; i < p->n; i++) {
        if (pivots[i] < i + 1 || pivots[i] > p->n)
            return wrong(p, k, "a pivot", pivots[i]);
    }
    if (unfinished)
        return true;
    ref_dense a = dense(&p->x[A], p->x[A].block->before, k),
              lu = dense(&p->x[A], p->x[A].block->after, k);
    ref_dense got = ref_lapack_unfactor(&lu, pivots);
    bool right = check_size(p, k, t, "P L U - A", ref_dense_distance(&got, &a), p->n,
                            ref_dense_norm(&a) * sqrt((double)p->n));
    ref_dense_free(&a);
    ref_dense_free(&lu);
    ref_dense_free(&got);
    return right;
}

static bool check_getrs(const lapack *p, int64_t k, cf_tally *t)
{
    const int32_t *pivots = integers(&p->x[PIVOTS], p->x[PIVOTS].block->before, k);
    ref_dense lu = dense(&p->x[A], p->x[A].block->before, k),
              b = dense(&p->x[B], p->x[B].block->before, k);
    ref_dense x = dense(&p->x[B], p->x[B].block->after, k), a = ref_lapack_unfactor(&lu, pivots);
    ref_dense op = ref_dense_turned(&a, p->trans), got = ref_dense_product(&op, &x);
    bool right = check_size(p, k, t, "op(A) X - B", ref_dense_distance(&got, &b), p->n,
                            ref_dense_norm(&a) * ref_dense_norm(&x) + ref_dense_norm(&b));
    ref_dense *all[] = {&lu, &b, &x, &a, &op, &got};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ref_dense_free(all[i]);
    return right;
}

/* A is given by its factors, or itself. */
static bool check_inverse(const lapack *p, int64_t k, cf_tally *t)
{
    ref_dense a = dense(&p->x[A], p->x[A].block->before, k),
              b = dense(&p->x[B], p->x[B].block->after, k);
    if (has(p, FACTORS)) {
        ref_dense whole =
            ref_lapack_unfactor(&a, integers(&p->x[PIVOTS], p->x[PIVOTS].block->before, k));
        ref_dense_free(&a);
        a = whole;
    }
    ref_dense got = ref_dense_product(&a, &b), one = ref_dense_identity(p->n);
    bool right = check_size(p, k, t, "A inv(A) - I", ref_dense_distance(&got, &one), p->n,
                            ref_dense_norm(&a) * ref_dense_norm(&b));
    ref_dense_free(&a);
    ref_dense_free(&b);
    ref_dense_free(&got);
    ref_dense_free(&one);
    return right;
}

static bool check_geqrf(const lapack *p, int64_t k, cf_tally *t)
{
    ref_dense a = dense(&p->x[A], p->x[A].block->before, k),
              qr = dense(&p->x[A], p->x[A].block->after, k);
    ref_dense tau = dense(&p->x[TAU], p->x[TAU].block->after, k);
    ref_dense q = ref_lapack_q(&qr, tau.at), r = ref_lapack_upper(&qr);
    ref_dense got = ref_dense_product(&q, &r), other = ref_dense_turned(&q, TRP_C);
    ref_dense square = ref_dense_product(&other, &q), one = ref_dense_identity(p->m);
    bool right =
        check_size(p, k, t, "Q R - A", ref_dense_distance(&got, &a), p->m, ref_dense_norm(&a)) &&
        check_size(p, k, t, "Q^H Q - I", ref_dense_distance(&square, &one), p->m,
                   sqrt((double)p->m));
    ref_dense *all[] = {&a, &qr, &tau, &q, &r, &got, &other, &square, &one};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ref_dense_free(all[i]);
    return right;
}

/* Checks that the residual is orthogonal to the columns of A, and that the other rows of B have its
 * size. */
static bool check_gels(const lapack *p, int64_t k, cf_tally *t)
{
    ref_dense a = dense(&p->x[A], p->x[A].block->before, k),
              b = dense(&p->x[B], p->x[B].block->before, k);
    ref_dense after = dense(&p->x[B], p->x[B].block->after, k);
    ref_dense x = ref_dense_make(p->n, p->nrhs), rest = ref_dense_make(p->m - p->n, p->nrhs);
    for (int64_t j = 0; j < p->nrhs; j++) {
        for (int64_t i = 0; i < p->m; i++)
            *(i < p->n ? ref_dense_element(&x, i, j) : ref_dense_element(&rest, i - p->n, j)) =
                *ref_dense_element(&after, i, j);
    }
    ref_dense got = ref_dense_product(&a, &x);
    double size = ref_dense_norm(&a) * ref_dense_norm(&x) + ref_dense_norm(&b);
    double distance = ref_dense_distance(&got, &b);
    for (int64_t i = 0; i < p->m * p->nrhs; i++)
        got.at[i] -= b.at[i];
    ref_dense other = ref_dense_turned(&a, TRP_C), angles = ref_dense_product(&other, &got);
    bool right = check_size(p, k, t, "A^H (A X - B)", ref_dense_norm(&angles), p->m,
                            ref_dense_norm(&a) * size) &&
                 check_size(p, k, t, "the size of the residual",
                            fabs(ref_dense_norm(&rest) - distance), p->m, size);
    ref_dense *all[] = {&a, &b, &after, &x, &rest, &got, &other, &angles};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ref_dense_free(all[i]);
    return right;
}

static bool check_member(const lapack *p, int64_t k, cf_tally *t)
{
    int32_t info =
        p->x[INFO].use == UNUSED ? 0 : *integers(&p->x[INFO], p->x[INFO].block->after, k);
    bool one_for_all = p->x[A].stride == 0 && p->batch > 1;
    bool singular = one_for_all ? p->singular == p->batch - 1 : k == p->singular;
    bool broken = one_for_all ? p->broken == p->batch - 1 : k == p->broken;
    if (p->m == 0 || p->n == 0 || p->nrhs == 0)
        return info == 0 || wrong(p, k, "info of nothing", info);
    if (broken)
        return p->op->op != TRP_OP_GETRF || check_getrf(p, k, true, t);
    /* In row-major order matinv factors the transpose, whose row of zeros ends up last. */
    int64_t zero = !singular ? 0 : p->row_major && p->op->op == TRP_OP_MATINV ? p->n : p->zero + 1;
    if (p->x[INFO].use != UNUSED && info != zero)
        return wrong(p, k, "info", info);
    if (singular && p->op->op != TRP_OP_GETRF && p->op->op != TRP_OP_GEQRF)
        return true;
    switch (p->op->op) {
    case TRP_OP_GETRF:
        return check_getrf(p, k, singular && h_is_gpu(), t);
    case TRP_OP_GETRS:
        return check_getrs(p, k, t);
    case TRP_OP_GEQRF:
        return check_geqrf(p, k, t);
    case TRP_OP_GELS:
        return check_gels(p, k, t);
    default:
        return check_inverse(p, k, t);
    }
}

/* ---- the family ---- */

static int64_t random_count(const operation *op, cf_kind kind)
{
    if (kind == CF_TIGHT)
        return 2 + (int64_t)below(6);
    if (below(12) == 0)
        return 0;
    if (!(op->options & SMALL) && !H_SANITIZED && below(20) == 0)
        return 60 + (int64_t)below(100);
    return 1 + (int64_t)below(op->options & SMALL ? 32 : 40);
}

static void randomise(lapack *p, cf_kind kind)
{
    const bool tight = kind == CF_TIGHT;
    p->batch = tight || below(3) ? 1 + tight + (int64_t)below(5) : 1;
    p->batch_field = p->batch == 1 ? (int64_t)below(2) : p->batch;
    p->n = random_count(p->op, kind);
    p->m = has(p, ROWS) ? random_count(p->op, kind) : p->n;
    if (has(p, TALL) && p->m < p->n)
        p->m = p->n + (int64_t)below(6);
    p->nrhs = !has(p, RIGHT_SIDES) ? p->n : tight ? 2 : (int64_t)below(9);
    /* getrs does not look for singular matrices. */
    bool any = p->op->op != TRP_OP_GETRS && p->n > 0;
    p->singular = any && below(3) == 0 ? (int64_t)below((size_t)p->batch) : -1;
    p->broken = below(4) == 0 ? (int64_t)below((size_t)p->batch) : -1;
    p->zero = p->n > 0 ? (int64_t)below((size_t)p->n) : 0;
    if (p->broken == p->singular)
        p->broken = -1;
}

static bool draw(cf_problem *p, unsigned way, cf_kind kind)
{
    const bool tight = kind == CF_TIGHT;
    const operation *op = p->operation->row;
    if (way % 3 && !(op->options & TRANS))
        return false;
    lapack *own = h_malloc(sizeof *own);
    *own = (lapack){.op = op,
                    .type = variants[p->variant].type,
                    .trans = (trp_transpose)(way % 3),
                    .row_major = way / 3};
    randomise(own, kind);
    lay_out(own, A, own->type, own->m, own->n, tight);
    lay_out(own, B, own->type, own->m, own->nrhs, tight);
    lay_out(own, PIVOTS, TRP_I32, own->n, 1, tight);
    lay_out(own, TAU, own->type, own->m < own->n ? own->m : own->n, 1, tight);
    lay_out(own, INFO, TRP_I32, 1, 1, tight);
    fill(own);
    p->own = own;
    p->blocks = own->blocks;
    p->block_count = PLACES;
    p->may_fault = own->x[A].use == INOUT || own->x[B].use == INOUT;
    if (tight) /* bad_input changes the order or adds a row */
        p->may_refuse = "";
    return true;
}

static void make_request(const cf_problem *problem, void *out)
{
    const lapack *p = problem->own;
#define OPERAND(name, place)                                                                       \
    .name = p->blocks[place].buffer,                                                               \
    .name##_offset = (uint64_t)p->x[place].start * size_of(p->x[place].type)
    *(trp_lapack_request *)out = (trp_lapack_request){
        .type = p->type,
        .order = p->row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
        .trans = p->trans,
        .m = has(p, ROWS) ? p->m : -7, /* otherwise ignored */
        .n = p->n,
        .nrhs = has(p, RIGHT_SIDES) ? p->nrhs : -7,
        OPERAND(a, A),
        OPERAND(b, B),
        OPERAND(pivots, PIVOTS),
        OPERAND(tau, TAU),
        OPERAND(info, INFO),
        .lda = p->x[A].ld,
        .ldb = p->x[B].ld,
        .a_stride = p->x[A].stride,
        .b_stride = p->x[B].stride,
        .batch = p->batch_field,
    };
}

static trp_status send(trp_actor *blas, const cf_problem *p, trp_completion *done)
{
    trp_lapack_request r;
    make_request(p, &r);
    return ((const lapack *)p->own)->op->send(blas, &r, done);
}

static bool check(cf_problem *p, cf_tally *tally)
{
    const lapack *own = p->own;
    for (int64_t k = 0; k < own->batch; k++) {
        if (!check_member(own, k, tally))
            return false;
    }
    return true;
}

static void drop(cf_problem *p)
{
    free(p->own);
}

static const cf_family family = {
    .operands = operands,
    .operand_count = COUNT_OF(operands),
    .fields = fields,
    .field_count = COUNT_OF(fields),
    .request_bytes = sizeof(trp_lapack_request),
    .draw = draw,
    .request = make_request,
    .send = send,
    .check = check,
    .drop = drop,
};

int main(int argc, char **argv)
{
    static cf_operation operations[COUNT_OF(table)];
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        cf_operation *o = &operations[i];
        *o = (cf_operation){.name = table[i].name,
                            .op = table[i].op,
                            .family = &family,
                            .row = &table[i],
                            .variants = variants,
                            .variant_count = COUNT_OF(variants),
                            .ways = 6,
                            .has = table[i].options | ALWAYS,
                            .runs_again = table[i].use[A] != INOUT && table[i].use[B] != INOUT};
        for (int k = 0; k < PLACES; k++) {
            o->has |= table[i].use[k] != UNUSED ? (cf_has)HAS_A << k : 0;
            o->writes |= table[i].use[k] > IN ? (cf_has)HAS_A << k : 0;
        }
    }
    const cf_actor blas = {.kind = "blas",
                           .title = "blas: LAPACK",
                           .operations = operations,
                           .count = COUNT_OF(table),
                           .rounds = 60};
    return cf_main(argc, argv, &blas);
}

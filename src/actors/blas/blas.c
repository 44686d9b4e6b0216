/* The sender's side of the blas actor: checks a request and writes its record. */
#include "actors/blas/blas.h"

#include "actors/blas/blas_wire.h"
#include "base/error.h"

#include <troupe/blas.h>

#include <string.h>

_Static_assert(sizeof(trp__gemm) <= TRP__PAYLOAD_BYTES, "the payload fits into a record");

/* One matrix of the request, as it is stored in column-major order. */
typedef struct matrix {
    const char *name; /* the sender's: "a", "b" or "c" */
    trp_buffer buffer;
    uint64_t offset; /* bytes */
    int64_t rows, columns;
    int64_t ld, stride;
    uint64_t elements; /* from the first to the last, all of the batch */
    uint64_t one;      /* the same of one matrix */
} matrix;

static trp_status wrong(trp__pack *pack, const char *argument, const char *expected, int64_t got)
{
    return trp__error_set(pack->error, TRP_E_ARGUMENT, "%s: expected %s, got %lld", argument,
                          expected, (long long)got);
}

static bool type_fits(trp_dtype type)
{
    return type == TRP_F64 || type == TRP_F32 || type == TRP_F16 || type == TRP_BF16;
}

static trp_status check_enums(trp__pack *pack, const trp_gemm_request *r)
{
    if (!type_fits(r->type))
        return trp__error_set(pack->error, TRP_E_ARGUMENT,
                              "type: expected f64, f32, f16 or bf16, got %s (%d)",
                              trp_dtype_name(r->type), (int)r->type);
    if (r->compute != TRP_COMPUTE_DEFAULT && r->compute != TRP_COMPUTE_TF32)
        return wrong(pack, "compute", "TRP_COMPUTE_DEFAULT or TRP_COMPUTE_TF32", r->compute);
    if (r->compute == TRP_COMPUTE_TF32 && r->type != TRP_F32)
        return trp__error_set(pack->error, TRP_E_ARGUMENT,
                              "compute: TRP_COMPUTE_TF32 goes with type f32 only, got %s",
                              trp_dtype_name(r->type));
    if (r->order != TRP_COL_MAJOR && r->order != TRP_ROW_MAJOR)
        return wrong(pack, "order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->order);
    if (r->trans_a != TRP_N && r->trans_a != TRP_T)
        return wrong(pack, "trans_a", "TRP_N or TRP_T", r->trans_a);
    if (r->trans_b != TRP_N && r->trans_b != TRP_T)
        return wrong(pack, "trans_b", "TRP_N or TRP_T", r->trans_b);
    return TRP_OK;
}

static trp_status check_numbers(trp__pack *pack, const trp_gemm_request *r)
{
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"m", r->m}, {"n", r->n}, {"k", r->k}, {"batch", r->batch}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 0)
            return wrong(pack, sizes[i].name, "0 or more", sizes[i].value);
    }
    if (r->alpha.given && r->alpha.im != 0)
        return trp__error_set(pack->error, TRP_E_ARGUMENT,
                              "alpha: expected a real number for type %s, got %g + %gi",
                              trp_dtype_name(r->type), r->alpha.re, r->alpha.im);
    if (r->beta.given && r->beta.im != 0)
        return trp__error_set(pack->error, TRP_E_ARGUMENT,
                              "beta: expected a real number for type %s, got %g + %gi",
                              trp_dtype_name(r->type), r->beta.re, r->beta.im);
    return TRP_OK;
}

/* Fills a leading dimension that was not given and checks one that was. */
static trp_status check_ld(trp__pack *pack, matrix *x, trp_order order)
{
    if (x->ld == 0)
        x->ld = x->rows;
    if (x->ld >= x->rows)
        return TRP_OK;
    return trp__error_set(pack->error, TRP_E_ARGUMENT,
                          "ld%s: expected at least %lld (the %s of %s as stored), got %lld",
                          x->name, (long long)x->rows, order == TRP_ROW_MAJOR ? "columns" : "rows",
                          x->name, (long long)x->ld);
}

/* Counts the elements that a matrix spans. rows and columns are at least 1. */
static trp_status measure(trp__pack *pack, matrix *x, int64_t batch, uint32_t element)
{
    uint64_t span, bytes;
    if (batch > 1 && x->stride < 0)
        return trp__error_set(pack->error, TRP_E_ARGUMENT,
                              "%s_stride: expected 0 or more, got %lld", x->name,
                              (long long)x->stride);
    if (batch <= 1)
        x->stride = 0;
    if (__builtin_mul_overflow((uint64_t)x->columns - 1, (uint64_t)x->ld, &x->one) ||
        __builtin_add_overflow(x->one, (uint64_t)x->rows, &x->one) ||
        __builtin_mul_overflow((uint64_t)batch - 1, (uint64_t)x->stride, &span) ||
        __builtin_add_overflow(span, x->one, &x->elements) ||
        __builtin_mul_overflow(x->elements, (uint64_t)element, &bytes) || bytes > INT64_MAX)
        return trp__error_set(pack->error, TRP_E_ARGUMENT,
                              "%s: %lld x %lld, ld%s %lld, batch %lld with stride %lld spans more "
                              "than 2^63 bytes",
                              x->name, (long long)x->rows, (long long)x->columns, x->name,
                              (long long)x->ld, (long long)batch, (long long)x->stride);
    return TRP_OK;
}

/* The matrices of C's batch are apart if they follow each other, or if they lie side by side: the
 * column of one within the gap between two columns of another. */
static trp_status check_c_stride(trp__pack *pack, const matrix *c, int64_t batch)
{
    if (batch <= 1 || (uint64_t)c->stride >= c->one)
        return TRP_OK;
    uint64_t side_by_side =
        c->elements - c->one + (uint64_t)c->rows; /* the first column of each, together */
    if (c->stride >= c->rows && side_by_side <= (uint64_t)c->ld)
        return TRP_OK;
    return trp__error_set(pack->error, TRP_E_ARGUMENT,
                          "c_stride: expected at least %llu, or %lld and ldc %llu, to keep the "
                          "matrices of C apart, got %lld and ldc %lld",
                          (unsigned long long)c->one, (long long)c->rows,
                          (unsigned long long)side_by_side, (long long)c->stride, (long long)c->ld);
}

/* Whether two matrices of the same leading dimension meet: parts of one large matrix, say.
 * `distance` elements lie between the first of c and the first of x. */
static bool parts_meet(const matrix *c, const matrix *x, int64_t distance)
{
    int64_t ld = c->ld;
    /* Column j of x lies `distance` + (j - i) ld after column i of c, so what counts is e = j - i.
     * Columns are no longer than ld, so only the two e that bring them closest can make them meet.
     */
    int64_t whole = distance / ld - (distance % ld < 0); /* rounded down */
    for (int64_t e = -whole - 1; e <= -whole; e++) {
        int64_t apart = distance + e * ld;
        if (e > -c->columns && e < x->columns && apart < c->rows && apart > -x->rows)
            return true;
    }
    return false;
}

static trp_status check_overlap(trp__pack *pack, const matrix *c, const matrix *x, int64_t batch,
                                uint32_t element)
{
    if (c->buffer.id != x->buffer.id)
        return TRP_OK;
    /* Both lie inside the buffer, as was checked: no sum overflows. */
    unsigned long long c_end = c->offset + c->elements * element;
    unsigned long long x_end = x->offset + x->elements * element;
    if (c_end <= x->offset || x_end <= c->offset)
        return TRP_OK;
    int64_t distance = ((int64_t)x->offset - (int64_t)c->offset) / (int64_t)element;
    if (batch == 1 && c->ld == x->ld && !parts_meet(c, x, distance))
        return TRP_OK;
    return trp__error_set(pack->error, TRP_E_ARGUMENT,
                          "c: bytes %llu to %llu of its buffer must not overlap those of %s, %llu "
                          "to %llu",
                          (unsigned long long)c->offset, c_end, x->name,
                          (unsigned long long)x->offset, x_end);
}

static trp_status add_access(trp__pack *pack, const matrix *x, uint32_t element, uint32_t mode)
{
    return trp__pack_access(pack, x->name, x->buffer, x->offset, x->elements * element, element,
                            mode);
}

/* With beta 0 nothing of C is read, and it is covered if there is no gap between its elements. */
static uint32_t c_mode(const matrix *c, const trp__gemm *g)
{
    if (g->beta != 0)
        return TRP__READ | TRP__WRITE;
    bool dense = c->elements == (uint64_t)g->m * (uint64_t)g->n * (uint64_t)g->batch;
    return dense ? TRP__WRITE | TRP__COVER : TRP__WRITE;
}

/* Checks the matrices and adds them to the record, in the order of blas_wire.h. */
static trp_status pack_matrices(trp__pack *pack, const trp_gemm_request *r, trp__gemm *g, matrix *a,
                                matrix *b, matrix *c)
{
    uint32_t element = trp_dtype_bits(r->type) / 8;
    matrix *const inputs[] = {a, b};
    trp_status status = check_ld(pack, c, r->order);
    if (status == TRP_OK)
        status = measure(pack, c, g->batch, element);
    if (status == TRP_OK)
        status = check_c_stride(pack, c, g->batch);
    for (int i = 0; i < 2 && status == TRP_OK && g->k > 0; i++) {
        status = check_ld(pack, inputs[i], r->order);
        if (status == TRP_OK)
            status = measure(pack, inputs[i], g->batch, element);
    }
    if (status == TRP_OK)
        status = add_access(pack, c, element, c_mode(c, g));
    for (int i = 0; i < 2 && status == TRP_OK && g->k > 0; i++) {
        status = add_access(pack, inputs[i], element, TRP__READ);
        if (status == TRP_OK)
            status = check_overlap(pack, c, inputs[i], g->batch, element);
    }
    return status;
}

static trp_status pack_gemm(trp__pack *pack, const trp_request *request)
{
    const trp_gemm_request *r = (const trp_gemm_request *)request;
    trp_status status = check_enums(pack, r);
    if (status == TRP_OK)
        status = check_numbers(pack, r);
    if (status != TRP_OK)
        return status;

    trp__gemm g = {
        .type = (uint8_t)r->type,
        .compute = (uint8_t)r->compute,
        .k = r->k,
        .batch = r->batch ? r->batch : 1,
        .alpha = r->alpha.given ? r->alpha.re : 1.0,
        .beta = r->beta.given ? r->beta.re : 0.0,
    };
    matrix a = {
        .name = "a", .buffer = r->a, .offset = r->a_offset, .ld = r->lda, .stride = r->a_stride};
    matrix b = {
        .name = "b", .buffer = r->b, .offset = r->b_offset, .ld = r->ldb, .stride = r->b_stride};
    matrix c = {
        .name = "c", .buffer = r->c, .offset = r->c_offset, .ld = r->ldc, .stride = r->c_stride};
    bool swap = r->order == TRP_ROW_MAJOR;
    g.m = swap ? r->n : r->m;
    g.n = swap ? r->m : r->n;
    g.trans_a = (uint8_t)(swap ? r->trans_b : r->trans_a);
    g.trans_b = (uint8_t)(swap ? r->trans_a : r->trans_b);
    if (swap) {
        matrix first = a;
        a = b;
        b = first;
    }
    a.rows = g.trans_a == TRP_T ? g.k : g.m;
    a.columns = g.trans_a == TRP_T ? g.m : g.k;
    b.rows = g.trans_b == TRP_T ? g.n : g.k;
    b.columns = g.trans_b == TRP_T ? g.k : g.n;
    c.rows = g.m;
    c.columns = g.n;

    if (g.m > 0 && g.n > 0)
        status = pack_matrices(pack, r, &g, &a, &b, &c);
    if (status != TRP_OK)
        return status;
    /* What is not looked at must still satisfy the library. */
    g.lda = g.k > 0 ? a.ld : a.rows > 0 ? a.rows : 1;
    g.ldb = g.k > 0 ? b.ld : b.rows > 0 ? b.rows : 1;
    g.ldc = c.ld;
    g.a_stride = g.k > 0 ? a.stride : 0;
    g.b_stride = g.k > 0 ? b.stride : 0;
    g.c_stride = c.stride;
    memcpy(pack->record->payload, &g, sizeof g);
    return TRP_OK;
}

static const trp__op_class ops[] = {
    {.op = TRP_OP_GEMM,
     .request_bytes = sizeof(trp_gemm_request),
     .name = "gemm",
     .pack = pack_gemm},
};

const trp__actor_class trp__blas_class = {
    .kind = "blas",
    .op_count = sizeof ops / sizeof *ops,
    .ops = ops,
    .cuda = &trp__blas_cuda,
    .host = &trp__blas_host,
};

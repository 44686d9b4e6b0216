/* The sender's side of gemm: checks a request and writes its record. */
#include "actors/blas/gemm.h"

#include "actors/blas/blas_wire.h"
#include "base/error.h"
#include "matrix/operands.h"

#include <troupe/blas.h>

#include <string.h>

_Static_assert(sizeof(trp__gemm) <= TRP__PAYLOAD_BYTES, "the payload fits into a record");

/* The supported pairs of element types, and the compute modes that they support besides the default
 * and TRP_COMPUTE_PEDANTIC. The first row of a type is its default.
 *
 * Source: cublasGemmEx. */
enum { TF32 = 1 << TRP_COMPUTE_TF32, EMULATED = 1 << TRP_COMPUTE_EMULATED };

static const struct pair {
    trp_dtype type, type_c;
    uint32_t compute; /* bit c: compute mode c */
} pairs[] = {
    {TRP_F64, TRP_F64, EMULATED},
    {TRP_F32, TRP_F32, TF32 | EMULATED},
    {TRP_F16, TRP_F16, 0},
    {TRP_F16, TRP_F32, 0},
    {TRP_BF16, TRP_BF16, 0},
    {TRP_BF16, TRP_F32, 0},
    {TRP_I8, TRP_I32, 0},
    {TRP_I8, TRP_F32, 0},
    {TRP_C64, TRP_C64, TF32 | EMULATED},
    {TRP_C128, TRP_C128, EMULATED},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* Finds the row of a request's types; NULL: there is none. *type_known: whether there is one for
 * `type`. */
static const struct pair *find_pair(const trp_gemm_request *r, bool *type_known)
{
    *type_known = false;
    for (int i = 0; i < PAIRS; i++) {
        if (pairs[i].type != r->type)
            continue;
        *type_known = true;
        if (r->type_c == TRP_DTYPE_NONE || r->type_c == pairs[i].type_c)
            return &pairs[i];
    }
    return NULL;
}

static trp_status check_types(trp__encoder *encoder, const trp_gemm_request *r, trp_dtype *type_c)
{
    bool known;
    const struct pair *pair = find_pair(r, &known);
    if (!known)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "type: expected f64, f32, f16, bf16, i8, c64 or c128, got %s (%d)",
                              trp_dtype_name(r->type), (int)r->type);
    if (!pair)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "type_c: expected %s for type %s, got %s (%d)",
                              r->type == TRP_I8                           ? "i32 or f32"
                              : r->type == TRP_F16 || r->type == TRP_BF16 ? "the same or f32"
                                                                          : "the same",
                              trp_dtype_name(r->type), trp_dtype_name(r->type_c), (int)r->type_c);
    *type_c = pair->type_c;
    if ((uint32_t)r->compute > TRP_COMPUTE_EMULATED)
        return trp__operand_wrong(encoder, "compute", "a TRP_COMPUTE_ constant", r->compute);
    bool any = r->compute == TRP_COMPUTE_DEFAULT || r->compute == TRP_COMPUTE_PEDANTIC;
    if (!any && !(pair->compute & UINT32_C(1) << r->compute))
        return trp__error_set(encoder->error, TRP_E_ARGUMENT, "compute: %s, got %s",
                              r->compute == TRP_COMPUTE_TF32
                                  ? "TRP_COMPUTE_TF32 goes with types f32 and c64 only"
                                  : "TRP_COMPUTE_EMULATED goes with types f32, f64, c64 and c128 "
                                    "only",
                              trp_dtype_name(r->type));
    if (r->compute == TRP_COMPUTE_EMULATED && encoder->backend == TRP_BACKEND_HOST)
        return trp__error_set(encoder->error, TRP_E_UNSUPPORTED,
                              "compute: the host does not support TRP_COMPUTE_EMULATED");
    return TRP_OK;
}

static trp_status check_enums(trp__encoder *encoder, const trp_gemm_request *r)
{
    if (r->order != TRP_COL_MAJOR && r->order != TRP_ROW_MAJOR)
        return trp__operand_wrong(encoder, "order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->order);
    if ((uint32_t)r->joining > TRP_JOINING_OFF)
        return trp__operand_wrong(encoder, "joining", "TRP_JOINING_DEFAULT or TRP_JOINING_OFF",
                                  r->joining);
    if ((uint32_t)r->trans_a > TRP_C)
        return trp__operand_wrong(encoder, "trans_a", "TRP_N, TRP_T or TRP_C", r->trans_a);
    if ((uint32_t)r->trans_b > TRP_C)
        return trp__operand_wrong(encoder, "trans_b", "TRP_N, TRP_T or TRP_C", r->trans_b);
    return TRP_OK;
}

static trp_status check_numbers(trp__encoder *encoder, const trp_gemm_request *r,
                                trp_dtype scalar_type)
{
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"m", r->m}, {"n", r->n}, {"k", r->k}, {"batch", r->batch}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 0)
            return trp__operand_wrong(encoder, sizes[i].name, "0 or more", sizes[i].value);
    }
    const struct {
        const char *name;
        trp_scalar value;
    } scalars[] = {{"alpha", r->alpha}, {"beta", r->beta}};
    trp_status status = TRP_OK;
    for (int i = 0; i < 2 && status == TRP_OK; i++) {
        status = trp__check_one_source(encoder, r->scalars, scalars[i].name, scalars[i].value);
        if (status == TRP_OK)
            status = trp__check_scalar(encoder, scalars[i].name, scalars[i].value, scalar_type);
    }
    return status;
}

/* With beta 0, C is not read; it is covered if there are no gaps between its elements. */
static uint32_t c_mode(const trp__operand *c, const trp__gemm *g)
{
    if (g->beta[0] != 0 || g->beta[1] != 0 || g->scalars != TRP__GEMM_NO_ACCESS)
        return TRP__READ | TRP__WRITE;
    return trp__operand_dense(c, g->batch) ? TRP__WRITE | TRP__COVER : TRP__WRITE;
}

static trp_status check_matrix(trp__encoder *encoder, trp__operand *x, trp_order order,
                               int64_t batch)
{
    trp_status status = trp__operand_check_ld(encoder, x, order);
    return status == TRP_OK ? trp__operand_measure(encoder, x, batch) : status;
}

/* Checks what cuBLAS demands of inputs whose products are summed as integers.
 *
 * Source: cuBLAS documentation, cublasGemmEx. */
static trp_status check_multiples(trp__encoder *encoder, const trp__operand *x)
{
    const struct {
        const char *before, *after;
        uint64_t value;
    } numbers[] = {{"ld", "", (uint64_t)x->ld},
                   {"", "_offset", x->offset},
                   {"", "_stride", (uint64_t)x->stride}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].value % 4 != 0)
            return trp__error_set(
                encoder->error, TRP_E_UNSUPPORTED,
                "%s%s%s: expected a multiple of 4, which cuBLAS needs for i8 with "
                "C of i32, got %llu",
                numbers[i].before, x->name, numbers[i].after, (unsigned long long)numbers[i].value);
    }
    return TRP_OK;
}

/* Returns whether A and B do not contribute to C: they are checked, but not read. */
static bool adds_nothing(const trp__gemm *g)
{
    return g->k == 0 || (g->scalars == TRP__GEMM_NO_ACCESS && g->alpha[0] == 0 && g->alpha[1] == 0);
}

/* Checks the matrices and adds them to the record, in the order of blas_wire.h. */
static trp_status encode_matrices(trp__encoder *encoder, const trp_gemm_request *r, trp__gemm *g,
                                  trp__operand *a, trp__operand *b, trp__operand *c)
{
    trp__operand *const inputs[] = {a, b};
    trp_status status = check_matrix(encoder, c, r->order, g->batch);
    if (status == TRP_OK)
        status = trp__operand_check_stride(encoder, c, g->batch);
    for (int i = 0; i < 2 && status == TRP_OK && g->k > 0; i++) {
        status = check_matrix(encoder, inputs[i], r->order, g->batch);
        if (status == TRP_OK && g->type_c == TRP_I32 && encoder->backend == TRP_BACKEND_CUDA)
            status = check_multiples(encoder, inputs[i]);
    }
    c->mode = c_mode(c, g);
    if (status == TRP_OK)
        status = trp__operand_access(encoder, c);
    for (int i = 0; i < 2 && status == TRP_OK && !adds_nothing(g); i++) {
        status = trp__operand_access(encoder, inputs[i]);
        if (status == TRP_OK)
            status = trp__operand_check_apart(encoder, c, inputs[i], g->batch);
    }
    return status;
}

/* Adds the access to the scalars if they are in a buffer. */
static trp_status encode_scalars(trp__encoder *encoder, const trp_gemm_request *r, trp__gemm *g,
                                 const trp__operand *c)
{
    if (g->scalars == TRP__GEMM_NO_ACCESS)
        return TRP_OK;
    trp_dtype type = trp__gemm_scalar_type((trp_dtype)g->type, (trp_dtype)g->type_c);
    trp__operand x =
        trp__operand_of_scalars(r->scalars, r->scalars_offset, trp_dtype_bits(type) / 8, 2);
    g->scalars = (uint8_t)encoder->record->access_count;
    trp_status status = trp__operand_access(encoder, &x);
    return status == TRP_OK ? trp__operand_check_apart(encoder, c, &x, g->batch) : status;
}

/* Returns an operand that is read; the mode of C is set later. */
static trp__operand matrix(trp_dtype type, const char *name, trp_buffer buffer, uint64_t offset,
                           int64_t ld, int64_t stride)
{
    return (trp__operand){.name = name,
                          .buffer = buffer,
                          .offset = offset,
                          .ld = ld,
                          .stride = stride,
                          .element = trp_dtype_bits(type) / 8,
                          .mode = TRP__READ};
}

/* Returns a leading dimension for a matrix that is not read, which the library checks all the same.
 */
static int64_t unread_ld(const trp__operand *x, const trp__gemm *g)
{
    int64_t least = x->rows > 0 ? x->rows : 1;
    return g->type_c == TRP_I32 ? (least + 3) / 4 * 4 : least;
}

trp_status trp__gemm_encode(trp__encoder *encoder, const trp_request *request)
{
    const trp_gemm_request *r = (const trp_gemm_request *)request;
    trp_dtype type_c = TRP_DTYPE_NONE;
    trp_status status = check_types(encoder, r, &type_c);
    if (status == TRP_OK)
        status = check_enums(encoder, r);
    if (status == TRP_OK)
        status = check_numbers(encoder, r, trp__gemm_scalar_type(r->type, type_c));
    if (status != TRP_OK)
        return status;

    trp__gemm g = {
        .type = (uint8_t)r->type,
        .type_c = (uint8_t)type_c,
        .compute = (uint8_t)r->compute,
        .scalars = r->scalars.id ? 0 : TRP__GEMM_NO_ACCESS,
        .apart = r->joining == TRP_JOINING_OFF,
        .k = r->k,
        .batch = r->batch ? r->batch : 1,
        .alpha = {r->alpha.given ? r->alpha.re : 1.0, r->alpha.given ? r->alpha.im : 0.0},
        .beta = {r->beta.given ? r->beta.re : 0.0, r->beta.given ? r->beta.im : 0.0},
    };
    trp__operand a = matrix(r->type, "a", r->a, r->a_offset, r->lda, r->a_stride);
    trp__operand b = matrix(r->type, "b", r->b, r->b_offset, r->ldb, r->b_stride);
    trp__operand c = matrix(type_c, "c", r->c, r->c_offset, r->ldc, r->c_stride);
    bool swap = r->order == TRP_ROW_MAJOR;
    g.m = swap ? r->n : r->m;
    g.n = swap ? r->m : r->n;
    g.trans_a = (uint8_t)(swap ? r->trans_b : r->trans_a);
    g.trans_b = (uint8_t)(swap ? r->trans_a : r->trans_b);
    if (swap) {
        trp__operand first = a;
        a = b;
        b = first;
    }
    a.rows = g.trans_a == TRP_N ? g.m : g.k;
    a.columns = g.trans_a == TRP_N ? g.k : g.m;
    b.rows = g.trans_b == TRP_N ? g.k : g.n;
    b.columns = g.trans_b == TRP_N ? g.n : g.k;
    c.rows = g.m;
    c.columns = g.n;

    if (g.m > 0 && g.n > 0)
        status = encode_matrices(encoder, r, &g, &a, &b, &c);
    if (g.m > 0 && g.n > 0 && status == TRP_OK)
        status = encode_scalars(encoder, r, &g, &c);
    if (status != TRP_OK)
        return status;
    if (adds_nothing(&g))
        g.k = 0; /* since a library may read A and B all the same, and 0 times NaN is NaN */
    g.lda = g.k > 0 ? a.ld : unread_ld(&a, &g);
    g.ldb = g.k > 0 ? b.ld : unread_ld(&b, &g);
    g.ldc = c.ld;
    g.a_stride = g.k > 0 ? a.stride : 0;
    g.b_stride = g.k > 0 ? b.stride : 0;
    g.c_stride = c.stride;
    memcpy(encoder->record->payload, &g, sizeof g);
    return TRP_OK;
}

/* The sender's side of matmul: checks a request and writes its record. */
#include "actors/matmul/encode.h"

#include "actors/matmul/matmul.h"
#include "base/numbers/types.h"

#include <string.h>

_Static_assert(sizeof(trp__matmul) <= TRP__PAYLOAD_BYTES, "the payload fits into a record");
_Static_assert((int)TRP__MATMUL_OPERANDS <= (int)TRP__ACCESS_MAX, "a record has room for all");

#define WORKSPACE_DEFAULT (UINT64_C(32) << 20)

/* Types. */

/* The supported combinations, from the documentation of cuBLASLt. */
static const trp__type_row type_rows[] = {
    {TRP_F64, TRP_F64, TRP_F64, TRP_F64, TRP_F64},
    {TRP_F32, TRP_F32, TRP_F32, TRP_F32, TRP_F32},
    {TRP_F16, TRP_F16, TRP_F16, TRP_F16, TRP_F32},
    {TRP_F16, TRP_F32, TRP_F32, TRP_F32, TRP_F32},
    {TRP_BF16, TRP_BF16, TRP_BF16, TRP_BF16, TRP_F32},
    {TRP_BF16, TRP_F32, TRP_F32, TRP_F32, TRP_F32},
    {TRP_C64, TRP_C64, TRP_C64, TRP_DTYPE_NONE, TRP_C64},
    {TRP_C128, TRP_C128, TRP_C128, TRP_DTYPE_NONE, TRP_C128},
    {TRP_I8, TRP_I32, TRP_I32, TRP_DTYPE_NONE, TRP_I32},
    {TRP_I8, TRP_I8, TRP_I8, TRP_F32, TRP_F32},
    {TRP_F8E4M3, TRP_F32, TRP_F32, TRP_BF16, TRP_F32},
    {TRP_F8E4M3, TRP_BF16, TRP_BF16, TRP_BF16, TRP_F32},
    {TRP_F8E4M3, TRP_F16, TRP_F16, TRP_F16, TRP_F32},
    {TRP_F8E4M3, TRP_F8E4M3, TRP_BF16, TRP_BF16, TRP_F32},
    {TRP_F8E4M3, TRP_F8E4M3, TRP_F16, TRP_F16, TRP_F32},
    {TRP_F8E4M3, TRP_F8E5M2, TRP_BF16, TRP_BF16, TRP_F32},
    {TRP_F8E4M3, TRP_F8E5M2, TRP_F16, TRP_F16, TRP_F32},
    {TRP_F4E2M1, TRP_F32, TRP_F32, TRP_BF16, TRP_F32},
    {TRP_F4E2M1, TRP_BF16, TRP_BF16, TRP_BF16, TRP_F32},
    {TRP_F4E2M1, TRP_F16, TRP_F16, TRP_F16, TRP_F32},
    {TRP_F4E2M1, TRP_F4E2M1, TRP_BF16, TRP_BF16, TRP_F32},
    {TRP_F4E2M1, TRP_F4E2M1, TRP_F16, TRP_F16, TRP_F32},
};

/* Finds the first row with an input type and the given types of D and C; NULL: there is none. */
static const trp__type_row *find_types(trp_dtype input, trp_dtype d, trp_dtype c)
{
    if (trp__is_fp8(input))
        input = TRP_F8E4M3;
    for (size_t i = 0; i < sizeof type_rows / sizeof *type_rows; i++) {
        const trp__type_row *row = &type_rows[i];
        if (row->input == input && (d == TRP_DTYPE_NONE || row->d == d) &&
            (c == TRP_DTYPE_NONE || row->c == c))
            return row;
    }
    return NULL;
}

static trp_status check_inputs(trp__matmul_encoding *m, trp_dtype a, trp_dtype b)
{
    if (!find_types(a, TRP_DTYPE_NONE, TRP_DTYPE_NONE))
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "a.type: expected f64, f32, f16, bf16, f8e4m3, f8e5m2, f4e2m1, i8, "
                              "c64 or c128, got %s (%d)",
                              trp_dtype_name(a), (int)a);
    if (a == TRP_F8E5M2 && b == TRP_F8E5M2)
        return TRP__UNSUPPORTED(m, "b.type: f8e5m2 together with f8e5m2 in a");
    if (a != b && !(trp__is_fp8(a) && trp__is_fp8(b)))
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "b.type: expected %s, as a.type, got "
                              "%s (%d)",
                              trp__is_fp8(a) ? "f8e4m3 or f8e5m2" : trp_dtype_name(a),
                              trp_dtype_name(b), (int)b);
    return TRP_OK;
}

static trp_status check_compute(trp__matmul_encoding *m, trp_dtype input)
{
    trp_compute compute = m->r->compute;
    bool single = input == TRP_F32 || input == TRP_C64;
    if ((uint32_t)compute > TRP_COMPUTE_EMULATED)
        return trp__matmul_wrong(m, "compute", "a TRP_COMPUTE_ constant", compute);
    if (compute == TRP_COMPUTE_TF32 && !single)
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "compute: TRP_COMPUTE_TF32 needs inputs of f32 or c64, got %s",
                              trp_dtype_name(input));
    /* cuBLASLt accepts the mode but may compute without emulation and not report it. */
    if (compute == TRP_COMPUTE_EMULATED)
        return TRP__UNSUPPORTED(m, "compute: only gemm of the blas actor supports "
                                   "TRP_COMPUTE_EMULATED");
    if (m->r->fast_accumulation && !trp__is_fp8(input))
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "fast_accumulation: needs fp8 inputs, got %s", trp_dtype_name(input));
    return TRP_OK;
}

/* Fills the types of matrices and scalars; *row gets the row with the type of vectors. */
static trp_status set_types(trp__matmul_encoding *m, const trp__type_row **row)
{
    const trp_matmul_request *r = m->r;
    trp_dtype a = r->a.type, b = r->b.type ? r->b.type : a;
    trp_dtype d = r->d.type ? r->d.type : a == TRP_I8 ? TRP_I32 : a;
    trp_status status = check_inputs(m, a, b);
    if (status == TRP_OK)
        status = check_compute(m, a);
    if (status != TRP_OK)
        return status;
    if (!find_types(a, d, TRP_DTYPE_NONE))
        return TRP__UNSUPPORTED(m, "d.type: %s (%d) from inputs of type %s", trp_dtype_name(d),
                                (int)d, trp_dtype_name(a));
    *row = find_types(a, d, r->c.type);
    if (!*row)
        return TRP__UNSUPPORTED(m, "c.type: %s (%d) where D is %s and the inputs are %s",
                                trp_dtype_name(r->c.type), (int)r->c.type, trp_dtype_name(d),
                                trp_dtype_name(a));
    m->g.type[TRP__MATMUL_A] = (uint8_t)(m->swap ? b : a);
    m->g.type[TRP__MATMUL_B] = (uint8_t)(m->swap ? a : b);
    m->g.type[TRP__MATMUL_C] = (uint8_t)(*row)->c;
    m->g.type[TRP__MATMUL_D] = (uint8_t)d;
    m->g.scalar_type = (uint8_t)(*row)->scalar;
    m->g.compute = r->compute & 15;
    m->g.fast_accumulation = r->fast_accumulation;
    return TRP_OK;
}

/* Numbers. */

static trp_status check_enums(trp__matmul_encoding *m)
{
    const trp_matmul_request *r = m->r;
    const struct {
        const char *name, *expected;
        uint32_t value, most;
    } enums[] = {
        {"a.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->a.order, TRP_ROW_MAJOR},
        {"b.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->b.order, TRP_ROW_MAJOR},
        {"c.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->c.order, TRP_ROW_MAJOR},
        {"d.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->d.order, TRP_ROW_MAJOR},
        {"aux.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->aux.order, TRP_ROW_MAJOR},
        {"trans_a", "TRP_N, TRP_T or TRP_C", r->trans_a, TRP_C},
        {"trans_b", "TRP_N, TRP_T or TRP_C", r->trans_b, TRP_C},
        {"activation", "one up to TRP_ACTIVATION_DGELU (the others are for epilogue trees)",
         r->activation, TRP_ACTIVATION_DGELU},
        {"gradient_of", "a trp_bias_gradient", r->gradient_of, TRP_BIAS_GRADIENT_B},
        {"a.scale.mode", "a trp_scale_mode", r->a.scale.mode, TRP_SCALE_BLOCK_128X128},
        {"b.scale.mode", "a trp_scale_mode", r->b.scale.mode, TRP_SCALE_BLOCK_128X128},
        {"c.scale.mode", "a trp_scale_mode", r->c.scale.mode, TRP_SCALE_BLOCK_128X128},
        {"d.scale.mode", "a trp_scale_mode", r->d.scale.mode, TRP_SCALE_BLOCK_128X128},
        {"d_out_scale.mode", "a trp_scale_mode", r->d_out_scale.mode, TRP_SCALE_BLOCK_128X128},
        {"aux.scale.mode", "a trp_scale_mode", r->aux.scale.mode, TRP_SCALE_BLOCK_128X128},
        {"tune", "a trp_tune", r->tune, TRP_TUNE_FULL},
    };
    for (size_t i = 0; i < sizeof enums / sizeof *enums; i++) {
        if (enums[i].value > enums[i].most)
            return trp__matmul_wrong(m, enums[i].name, enums[i].expected, (int32_t)enums[i].value);
    }
    return TRP_OK;
}

static trp_status check_sizes(trp__matmul_encoding *m)
{
    const trp_matmul_request *r = m->r;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"m", r->m}, {"n", r->n}, {"k", r->k}, {"batch", r->batch}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 0)
            return trp__matmul_wrong(m, sizes[i].name, "0 or more", sizes[i].value);
    }
    if (r->sm_count < 0 || r->sm_count > UINT16_MAX)
        return trp__matmul_wrong(m, "sm_count", "0 to 65535", r->sm_count);
    if (r->deterministic && r->tune != TRP_TUNE_OFF)
        return trp__matmul_wrong(m, "tune",
                                 "TRP_TUNE_OFF with `deterministic`, since a search may choose "
                                 "another order of summation",
                                 r->tune);
    m->g.m = m->swap ? r->n : r->m;
    m->g.n = m->swap ? r->m : r->n;
    m->g.k = r->k;
    m->g.batch = r->batch ? r->batch : 1;
    m->g.workspace = r->workspace_bytes ? r->workspace_bytes : WORKSPACE_DEFAULT;
    m->g.tune = (uint8_t)r->tune;
    m->g.deterministic = r->deterministic;
    m->g.sm_count = (uint16_t)r->sm_count;
    return TRP_OK;
}

static trp_status check_scalar(trp__matmul_encoding *m, const char *name, trp_scalar scalar,
                               double missing, double out[2])
{
    trp_dtype type = (trp_dtype)m->g.scalar_type;
    trp_status status = trp__check_one_source(m->encoder, m->r->scalars, name, scalar);
    if (status == TRP_OK)
        status = trp__check_scalar(m->encoder, name, scalar, type);
    if (status != TRP_OK)
        return status;
    out[0] = scalar.given ? scalar.re : missing;
    out[1] = scalar.given ? scalar.im : 0;
    return TRP_OK;
}

static trp_status check_alphas(const trp__matmul_encoding *m)
{
    const trp_matmul_request *r = m->r;
    const trp_dtype type = (trp_dtype)m->g.scalar_type;
    if (r->alpha.given || r->scalars.id)
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "alphas.buffer: expected none with %s, got one",
                              r->scalars.id ? "`scalars`, which hold an alpha" : "an alpha");
    if (trp__is_complex(type))
        return TRP__UNSUPPORTED(m, "alphas.buffer: where the types are complex");
    if (r->alphas.type != TRP_DTYPE_NONE && r->alphas.type != type)
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "alphas.type: expected %s, the type of alpha, got %s (%d)",
                              trp_dtype_name(type), trp_dtype_name(r->alphas.type),
                              (int)r->alphas.type);
    return TRP_OK;
}

static trp_status check_scalars(trp__matmul_encoding *m)
{
    const trp_matmul_request *r = m->r;
    bool has_c = r->c.buffer.id != 0;
    trp_status status = check_scalar(m, "alpha", r->alpha, 1, m->g.alpha);
    if (status == TRP_OK)
        status = check_scalar(m, "beta", r->beta, 0, m->g.beta);
    if (status == TRP_OK && r->alphas.buffer.id)
        status = check_alphas(m);
    if (status != TRP_OK)
        return status;
    bool beta = r->scalars.id != 0 || m->g.beta[0] != 0 || m->g.beta[1] != 0;
    if (beta && !has_c)
        return trp__error_set(
            m->encoder->error, TRP_E_ARGUMENT, "c.buffer: expected one with %s, got none",
            r->scalars.id ? "`scalars`, which hold a beta" : "a beta other than 0");
    if (has_c && !r->scalars.id && !r->beta.given)
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "beta: expected one with C, such as trp_real(1), got none");
    m->reads_c = beta;
    return TRP_OK;
}

/* Converts a transposition to the order of D: a matrix in the other order is its transpose. */
static trp_status set_transpose(trp__matmul_encoding *m, const char *name, trp_transpose trans,
                                trp_order order, trp_dtype type, uint8_t *out)
{
    if (trans == TRP_C && !trp__is_complex(type))
        trans = TRP_T;
    if (order != m->r->d.order) {
        if (trans == TRP_C)
            return TRP__UNSUPPORTED(m, "%s: TRP_C of a complex matrix whose order is not that of D",
                                    name);
        trans = trans == TRP_N ? TRP_T : TRP_N;
    }
    *out = (uint8_t)trans;
    return TRP_OK;
}

static trp_status set_transposes(trp__matmul_encoding *m)
{
    const trp_matmul_request *r = m->r;
    uint8_t a = 0, b = 0;
    trp_status status = set_transpose(m, "trans_a", r->trans_a, r->a.order, r->a.type, &a);
    if (status == TRP_OK)
        status = set_transpose(m, "trans_b", r->trans_b, r->b.order, r->a.type, &b);
    m->g.trans_a = m->swap ? b : a;
    m->g.trans_b = m->swap ? a : b;
    return status;
}

/* Requests a report of how the product is computed. If there is nothing to compute, the worker
 * writes none. */
static trp_status request_report(trp__matmul_encoding *m)
{
    if (m->g.m > 0 && m->g.n > 0)
        return m->encoder->result(m->encoder, m->r->ran, sizeof *m->r->ran);
    *m->r->ran = (trp_matmul_ran){.algorithm = "none"};
    return TRP_OK;
}

trp_status trp__matmul_encode(trp__encoder *encoder, const trp_request *request)
{
    const trp_matmul_request *r = (const trp_matmul_request *)request;
    const trp__type_row *row = NULL;
    trp__matmul_encoding m = {.encoder = encoder, .r = r, .swap = r->d.order == TRP_ROW_MAJOR};
    memset(m.g.access, TRP__MATMUL_NO_ACCESS, sizeof m.g.access);
    trp_status status = check_enums(&m);
    if (status == TRP_OK)
        status = set_types(&m, &row);
    if (status == TRP_OK)
        status = check_sizes(&m);
    if (status == TRP_OK)
        status = check_scalars(&m);
    if (status == TRP_OK)
        status = set_transposes(&m);
    if (status == TRP_OK)
        status = trp__matmul_check_epilogue(&m, row);
    if (status == TRP_OK && m.g.m > 0 && m.g.n > 0)
        status = trp__matmul_set_operands(&m);
    if (status == TRP_OK && r->ran)
        status = request_report(&m);
    if (status == TRP_OK)
        memcpy(encoder->record->payload, &m.g, sizeof m.g);
    return status;
}

/* The sender's side of matmul: checks a request and writes its record. */
#include "actors/blas/operands.h"
#include "actors/matmul/matmul.h"
#include "actors/matmul/matmul_wire.h"
#include "base/error.h"

#include <troupe/matmul.h>

#include <math.h>
#include <string.h>

_Static_assert(sizeof(trp__matmul) <= TRP__PAYLOAD_BYTES, "the payload fits into a record");
_Static_assert((int)TRP__MATMUL_OPERANDS <= (int)TRP__ACCESS_MAX, "a record has room for all");

#define WORKSPACE_DEFAULT (UINT64_C(32) << 20)

/* A request in the making. */
typedef struct making {
    trp__pack *pack;
    const trp_matmul_request *r;
    bool swap;     /* D is row-major: what travels is its transpose */
    bool reads_c;  /* also where C is in D's place, */
    bool in_place; /* as it is here */
    trp__matmul g;
    trp__operand operand[TRP__MATMUL_OPERANDS]; /* mode 0: it has none */
} making;

static trp_status wrong(making *m, const char *argument, const char *expected, int64_t got)
{
    return trp__operand_wrong(m->pack, argument, expected, got);
}

#define UNSUPPORTED(m, ...) trp__error_set((m)->pack->error, TRP_E_UNSUPPORTED, __VA_ARGS__)

static bool is_complex(trp_dtype type)
{
    return type == TRP_C64 || type == TRP_C128;
}

static bool is_fp8(trp_dtype type)
{
    return type == TRP_F8E4M3 || type == TRP_F8E5M2;
}

/* Types. */

/* What goes together, as cuBLASLt's documentation lists it; f8e4m3 as input stands for both fp8. */
typedef struct type_row {
    trp_dtype input, d, c, vector, scalar;
} type_row;

static const type_row type_rows[] = {
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
};

/* The row of an input type, and of the others as far as they are given. NULL: none. */
static const type_row *find_types(trp_dtype input, trp_dtype d, trp_dtype c)
{
    if (is_fp8(input))
        input = TRP_F8E4M3;
    for (size_t i = 0; i < sizeof type_rows / sizeof *type_rows; i++) {
        const type_row *row = &type_rows[i];
        if (row->input == input && (d == TRP_DTYPE_NONE || row->d == d) &&
            (c == TRP_DTYPE_NONE || row->c == c))
            return row;
    }
    return NULL;
}

static trp_status check_inputs(making *m, trp_dtype a, trp_dtype b)
{
    if (!find_types(a, TRP_DTYPE_NONE, TRP_DTYPE_NONE))
        return trp__error_set(m->pack->error, TRP_E_ARGUMENT,
                              "a.type: expected f64, f32, f16, bf16, f8e4m3, f8e5m2, f4e2m1, i8, "
                              "c64 or c128, got %s (%d)",
                              trp_dtype_name(a), (int)a);
    if (a == TRP_F8E5M2 && b == TRP_F8E5M2)
        return UNSUPPORTED(m, "b.type: f8e5m2 together with f8e5m2 in a");
    if (a != b && !(is_fp8(a) && is_fp8(b)))
        return trp__error_set(m->pack->error, TRP_E_ARGUMENT,
                              "b.type: expected %s, as a.type, got "
                              "%s (%d)",
                              is_fp8(a) ? "f8e4m3 or f8e5m2" : trp_dtype_name(a), trp_dtype_name(b),
                              (int)b);
    return TRP_OK;
}

static trp_status check_compute(making *m, trp_dtype input)
{
    trp_compute compute = m->r->compute;
    bool single = input == TRP_F32 || input == TRP_C64;
    bool wide = input == TRP_F64 || input == TRP_C128;
    if ((uint32_t)compute > TRP_COMPUTE_EMULATED)
        return wrong(m, "compute", "a TRP_COMPUTE_ constant", compute);
    if ((compute == TRP_COMPUTE_TF32 && !single) ||
        (compute == TRP_COMPUTE_EMULATED && !single && !wide))
        return trp__error_set(m->pack->error, TRP_E_ARGUMENT, "compute: %s, got %s",
                              compute == TRP_COMPUTE_TF32
                                  ? "TRP_COMPUTE_TF32 goes with inputs of f32 and c64 only"
                                  : "TRP_COMPUTE_EMULATED goes with inputs of f32, f64, c64 and "
                                    "c128 only",
                              trp_dtype_name(input));
    if (compute == TRP_COMPUTE_EMULATED && m->pack->backend == TRP_BACKEND_HOST)
        return UNSUPPORTED(m, "compute: TRP_COMPUTE_EMULATED is not to be had on the host");
    if (m->r->fast_accumulation && !is_fp8(input))
        return trp__error_set(m->pack->error, TRP_E_ARGUMENT,
                              "fast_accumulation: goes with fp8 inputs only, got %s",
                              trp_dtype_name(input));
    return TRP_OK;
}

/* Fills the types of the matrices and of the scalars; `row` tells what a vector must be of. */
static trp_status set_types(making *m, const type_row **row)
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
        return UNSUPPORTED(m, "d.type: %s (%d) from inputs of type %s", trp_dtype_name(d), (int)d,
                           trp_dtype_name(a));
    *row = find_types(a, d, r->c.type);
    if (!*row)
        return UNSUPPORTED(m, "c.type: %s (%d) where D is %s and the inputs are %s",
                           trp_dtype_name(r->c.type), (int)r->c.type, trp_dtype_name(d),
                           trp_dtype_name(a));
    m->g.type[TRP__MATMUL_A] = (uint8_t)(m->swap ? b : a);
    m->g.type[TRP__MATMUL_B] = (uint8_t)(m->swap ? a : b);
    m->g.type[TRP__MATMUL_C] = (uint8_t)(*row)->c;
    m->g.type[TRP__MATMUL_D] = (uint8_t)d;
    m->g.scalar_type = (uint8_t)(*row)->scalar;
    m->g.compute = (uint8_t)r->compute;
    m->g.fast_accumulation = r->fast_accumulation;
    return TRP_OK;
}

/* Numbers. */

static trp_status check_enums(making *m)
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
        {"activation", "a trp_activation", r->activation, TRP_ACTIVATION_DGELU},
        {"gradient_of", "a trp_bias_gradient", r->gradient_of, TRP_BIAS_GRADIENT_B},
        {"a.scale.mode", "a trp_scale_mode", r->a.scale.mode, TRP_SCALE_BLOCK_128X128},
        {"b.scale.mode", "a trp_scale_mode", r->b.scale.mode, TRP_SCALE_BLOCK_128X128},
        {"c.scale.mode", "a trp_scale_mode", r->c.scale.mode, TRP_SCALE_BLOCK_128X128},
        {"d.scale.mode", "a trp_scale_mode", r->d.scale.mode, TRP_SCALE_BLOCK_128X128},
        {"aux.scale.mode", "a trp_scale_mode", r->aux.scale.mode, TRP_SCALE_BLOCK_128X128},
        {"tune", "a trp_tune", r->tune, TRP_TUNE_FULL},
    };
    for (size_t i = 0; i < sizeof enums / sizeof *enums; i++) {
        if (enums[i].value > enums[i].most)
            return wrong(m, enums[i].name, enums[i].expected, (int32_t)enums[i].value);
    }
    return TRP_OK;
}

static trp_status check_sizes(making *m)
{
    const trp_matmul_request *r = m->r;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"m", r->m}, {"n", r->n}, {"batch", r->batch}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 0)
            return wrong(m, sizes[i].name, "0 or more", sizes[i].value);
    }
    if (r->k < 1)
        return wrong(m, "k", "1 or more", r->k);
    m->g.m = m->swap ? r->n : r->m;
    m->g.n = m->swap ? r->m : r->n;
    m->g.k = r->k;
    m->g.batch = r->batch ? r->batch : 1;
    m->g.workspace = r->workspace_bytes ? r->workspace_bytes : WORKSPACE_DEFAULT;
    m->g.tune = (uint8_t)r->tune;
    return TRP_OK;
}

static bool is_int32(double value)
{
    return value >= INT32_MIN && value <= INT32_MAX && value == floor(value);
}

static trp_status check_scalar(making *m, const char *name, trp_scalar scalar, double missing,
                               double out[2])
{
    trp_dtype type = (trp_dtype)m->g.scalar_type;
    trp_status status = trp__check_one_source(m->pack, m->r->scalars, name, scalar);
    if (status == TRP_OK)
        status = trp__check_scalar(m->pack, name, scalar, type);
    if (status != TRP_OK)
        return status;
    out[0] = scalar.given ? scalar.re : missing;
    out[1] = scalar.given ? scalar.im : 0;
    if (type == TRP_I32 && !is_int32(out[0]))
        return trp__error_set(m->pack->error, TRP_E_ARGUMENT,
                              "%s: expected an integer of 32 bits where D is i32, got %g", name,
                              out[0]);
    return TRP_OK;
}

static trp_status check_scalars(making *m)
{
    const trp_matmul_request *r = m->r;
    bool has_c = r->c.buffer.id != 0;
    trp_status status = check_scalar(m, "alpha", r->alpha, 1, m->g.alpha);
    if (status == TRP_OK)
        status = check_scalar(m, "beta", r->beta, 0, m->g.beta);
    if (status != TRP_OK)
        return status;
    bool beta = r->scalars.id != 0 || m->g.beta[0] != 0 || m->g.beta[1] != 0;
    if (beta && !has_c)
        return trp__error_set(
            m->pack->error, TRP_E_ARGUMENT, "c.buffer: expected one with %s, got none",
            r->scalars.id ? "`scalars`, which hold a beta" : "a beta other than 0");
    m->reads_c = beta;
    return TRP_OK;
}

/* Whether the library can see a matrix in the order of D: seen so, its transposition changes. */
static trp_status set_transpose(making *m, const char *name, trp_transpose trans, trp_order order,
                                trp_dtype type, uint8_t *out)
{
    if (trans == TRP_C && !is_complex(type))
        trans = TRP_T;
    if (order != m->r->d.order) {
        if (trans == TRP_C)
            return UNSUPPORTED(m, "%s: TRP_C of a complex matrix whose order is not D's", name);
        trans = trans == TRP_N ? TRP_T : TRP_N;
    }
    *out = (uint8_t)trans;
    return TRP_OK;
}

static trp_status set_transposes(making *m)
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

/* The epilogue. */

static const char *const activation_names[] = {"none", "relu", "gelu", "silu", "drelu", "dgelu"};

static bool is_gradient(trp_activation activation)
{
    return activation == TRP_ACTIVATION_DRELU || activation == TRP_ACTIVATION_DGELU;
}

static bool has_aux(trp_activation activation)
{
    return activation != TRP_ACTIVATION_NONE && activation != TRP_ACTIVATION_SILU;
}

static bool aux_is_bits(trp_activation activation)
{
    return activation == TRP_ACTIVATION_RELU || activation == TRP_ACTIVATION_DRELU;
}

static trp_status check_aux(making *m)
{
    const trp_matmul_request *r = m->r;
    const char *name = activation_names[r->activation];
    if (r->aux.buffer.id && !has_aux(r->activation))
        return trp__error_set(m->pack->error, TRP_E_ARGUMENT,
                              "aux.buffer: expected none with activation %s, got one", name);
    if (!r->aux.buffer.id && is_gradient(r->activation))
        return trp__error_set(m->pack->error, TRP_E_ARGUMENT,
                              "aux.buffer: expected one with activation %s, got none", name);
    if (!r->aux.buffer.id)
        return TRP_OK;
    if (aux_is_bits(r->activation) && r->aux.type != TRP_DTYPE_NONE)
        return trp__error_set(m->pack->error, TRP_E_ARGUMENT,
                              "aux.type: expected none with activation %s, whose aux is bits, got "
                              "%s (%d)",
                              name, trp_dtype_name(r->aux.type), (int)r->aux.type);
    return TRP_OK;
}

static trp_status check_gradient(making *m)
{
    const trp_matmul_request *r = m->r;
    bool wanted = r->gradient_of != TRP_BIAS_GRADIENT_NONE;
    if (wanted != (r->gradient.buffer.id != 0))
        return trp__error_set(m->pack->error, TRP_E_ARGUMENT,
                              "gradient.buffer: expected %s gradient_of, got %s",
                              wanted ? "one with a" : "none without a", wanted ? "none" : "one");
    if (wanted && (r->gradient_of == TRP_BIAS_GRADIENT_D) != is_gradient(r->activation))
        return UNSUPPORTED(m, "gradient_of: %s together with activation %s",
                           r->gradient_of == TRP_BIAS_GRADIENT_D ? "TRP_BIAS_GRADIENT_D"
                                                                 : "that of an input",
                           activation_names[r->activation]);
    if (wanted && !is_gradient(r->activation) && r->activation != TRP_ACTIVATION_NONE)
        return UNSUPPORTED(m, "gradient_of: that of an input together with activation %s",
                           activation_names[r->activation]);
    if (wanted && !is_gradient(r->activation) && trp_dtype_bits(r->a.type) < 16)
        return UNSUPPORTED(m, "gradient_of: that of an input of type %s",
                           trp_dtype_name(r->a.type));
    if (r->bias.buffer.id && (wanted || is_gradient(r->activation)))
        return UNSUPPORTED(m, "bias.buffer: a bias together with %s",
                           wanted ? "gradient_of" : "the gradient of an activation");
    m->g.gradient = (uint8_t)r->gradient_of;
    if (m->swap && r->gradient_of == TRP_BIAS_GRADIENT_A)
        m->g.gradient = TRP_BIAS_GRADIENT_B;
    if (m->swap && r->gradient_of == TRP_BIAS_GRADIENT_B)
        m->g.gradient = TRP_BIAS_GRADIENT_A;
    return TRP_OK;
}

static trp_status set_vector_type(making *m, const char *name, const trp_matmul_vector *v,
                                  const type_row *row)
{
    if (row->vector == TRP_DTYPE_NONE)
        return UNSUPPORTED(m, "%s.buffer: where D is %s", name, trp_dtype_name(row->d));
    if (v->type != TRP_DTYPE_NONE && v->type != row->vector)
        return trp__error_set(
            m->pack->error, TRP_E_ARGUMENT,
            "%s.type: expected %s for these types of inputs, C and D, got %s (%d)", name,
            trp_dtype_name(row->vector), trp_dtype_name(v->type), (int)v->type);
    m->g.vector_type = (uint8_t)row->vector;
    return TRP_OK;
}

static trp_status set_aux_type(making *m, const type_row *row)
{
    const trp_matmul_request *r = m->r;
    if (!r->aux.buffer.id || aux_is_bits(r->activation))
        return TRP_OK;
    trp_dtype type = r->aux.type ? r->aux.type : row->d;
    if (type != row->d && !(is_fp8(row->d) && type == row->vector))
        return trp__error_set(
            m->pack->error, TRP_E_ARGUMENT, "aux.type: expected %s%s%s, got %s (%d)",
            trp_dtype_name(row->d), is_fp8(row->d) ? " or " : "",
            is_fp8(row->d) ? trp_dtype_name(row->vector) : "", trp_dtype_name(type), (int)type);
    m->g.type[TRP__MATMUL_AUX] = (uint8_t)type;
    return TRP_OK;
}

static trp_status check_epilogue(making *m, const type_row *row)
{
    const trp_matmul_request *r = m->r;
    trp_status status = TRP_OK;
    if (row->vector == TRP_DTYPE_NONE && r->activation != TRP_ACTIVATION_NONE)
        return UNSUPPORTED(m, "activation: %s where D is %s", activation_names[r->activation],
                           trp_dtype_name(row->d));
    if (r->aux.buffer.id && row->d == TRP_I8)
        return UNSUPPORTED(m, "aux.buffer: where D is i8");
    if (r->activation == TRP_ACTIVATION_SILU && m->pack->backend == TRP_BACKEND_CUDA)
        return UNSUPPORTED(m, "activation: silu, which cuBLASLt does not have");
    m->g.activation = (uint8_t)r->activation;
    status = check_aux(m);
    if (status == TRP_OK)
        status = check_gradient(m);
    if (status == TRP_OK && r->bias.buffer.id)
        status = set_vector_type(m, "bias", &r->bias, row);
    if (status == TRP_OK && r->gradient_of != TRP_BIAS_GRADIENT_NONE)
        status = set_vector_type(m, "gradient", &r->gradient, row);
    return status == TRP_OK ? set_aux_type(m, row) : status;
}

/* Operands. */

/* Elements to a byte: aux bits have no type. */
static int64_t to_a_byte(uint8_t type)
{
    return type == TRP_DTYPE_NONE ? 8 : type == TRP_F4E2M1 ? 2 : 1;
}

/* Turns elements into bytes where several make one. */
static trp_status make_bytes(making *m, trp__operand *x, int64_t per)
{
    if (x->rows % per != 0 || x->ld % per != 0 || x->stride % per != 0)
        return trp__error_set(m->pack->error, TRP_E_ARGUMENT,
                              "%s: expected lines, %s.ld and %s.stride that are multiples of %lld "
                              "elements, a byte, got %lld, %lld and %lld",
                              x->name, x->name, x->name, (long long)per, (long long)x->rows,
                              (long long)x->ld, (long long)x->stride);
    x->rows /= per;
    x->ld /= per;
    x->stride /= per;
    return TRP_OK;
}

/* Describes matrix `which`, rows x columns as the library sees it; its mode is set already. */
static trp_status set_matrix(making *m, int which, const char *name, const trp_matmul_matrix *from,
                             int64_t rows, int64_t columns)
{
    uint8_t type = m->g.type[which];
    trp__operand *x = &m->operand[which];
    int64_t per = to_a_byte(type);
    *x = (trp__operand){.name = name,
                        .fields = true,
                        .buffer = from->buffer,
                        .offset = from->offset,
                        .rows = rows,
                        .columns = columns,
                        .ld = from->ld,
                        .stride = m->g.batch > 1 ? from->stride : 0,
                        .element = per > 1 ? 1 : trp_dtype_bits((trp_dtype)type) / 8,
                        .mode = x->mode};
    trp_status status = trp__operand_check_ld(m->pack, x, from->order);
    m->g.ld[which] = x->ld;
    m->g.stride[which] = x->stride;
    if (status == TRP_OK && per > 1)
        status = make_bytes(m, x, per);
    if (status == TRP_OK)
        status = trp__operand_measure(m->pack, x, m->g.batch);
    if (status == TRP_OK && (x->mode & TRP__WRITE))
        status = trp__operand_check_stride(m->pack, x, m->g.batch);
    if (status == TRP_OK && x->mode == TRP__WRITE && trp__operand_dense(x, m->g.batch))
        x->mode |= TRP__COVER;
    return status;
}

static bool same_place(const making *m)
{
    const trp_matmul_matrix *c = &m->r->c, *d = &m->r->d;
    int64_t smallest = m->g.m;
    return c->buffer.id == d->buffer.id && c->offset == d->offset &&
           (c->ld ? c->ld : smallest) == (d->ld ? d->ld : smallest) &&
           (m->g.batch <= 1 || c->stride == d->stride) &&
           m->g.type[TRP__MATMUL_C] == m->g.type[TRP__MATMUL_D];
}

static trp_status set_c_and_d(making *m)
{
    trp_status status = TRP_OK;
    m->in_place = m->reads_c && same_place(m);
    if (m->reads_c && m->r->c.order != m->r->d.order)
        return UNSUPPORTED(m, "c.order: another one than d.order");
    m->operand[TRP__MATMUL_C].mode = m->reads_c && !m->in_place ? TRP__READ : 0;
    m->operand[TRP__MATMUL_D].mode = m->in_place ? TRP__READ | TRP__WRITE : TRP__WRITE;
    if (m->reads_c && !m->in_place)
        status = set_matrix(m, TRP__MATMUL_C, "c", &m->r->c, m->g.m, m->g.n);
    if (status == TRP_OK)
        status = set_matrix(m, TRP__MATMUL_D, "d", &m->r->d, m->g.m, m->g.n);
    if (!m->operand[TRP__MATMUL_C].mode) { /* what the library is told of a C that is not there */
        m->g.ld[TRP__MATMUL_C] = m->g.ld[TRP__MATMUL_D];
        m->g.stride[TRP__MATMUL_C] = m->g.stride[TRP__MATMUL_D];
    }
    return status;
}

/* The library may write the last of the bits of a line by 128. */
static trp_status set_aux(making *m)
{
    const trp_matmul_matrix *aux = &m->r->aux;
    bool bits = aux_is_bits(m->r->activation);
    int64_t unit = bits ? 128 : 8;
    if (!aux->buffer.id)
        return TRP_OK;
    if (m->g.m > INT64_MAX - unit)
        return wrong(m, m->swap ? "n" : "m", "less than 2^63 - 128", m->g.m);
    int64_t rows = bits ? (m->g.m + unit - 1) / unit * unit : m->g.m;
    trp_matmul_matrix from = *aux;
    if (from.ld == 0)
        from.ld = (m->g.m + unit - 1) / unit * unit;
    if (from.ld % unit != 0)
        return wrong(m, "aux.ld", bits ? "a multiple of 128 bits" : "a multiple of 8", from.ld);
    if (m->g.batch > 1 && from.stride % unit != 0)
        return wrong(m, "aux.stride", bits ? "a multiple of 128 bits" : "a multiple of 8",
                     from.stride);
    if (aux->order != m->r->d.order)
        return UNSUPPORTED(m, "aux.order: another one than d.order");
    m->operand[TRP__MATMUL_AUX].mode = is_gradient(m->r->activation) ? TRP__READ : TRP__WRITE;
    trp_status status = set_matrix(m, TRP__MATMUL_AUX, "aux", &from, rows, m->g.n);
    if (rows != m->g.m) /* what it does to the bits behind a line is not known */
        m->operand[TRP__MATMUL_AUX].mode &= ~(uint32_t)TRP__COVER;
    return status;
}

/* A small thing: `count` elements of `bytes` each. */
static void set_small(making *m, int which, const char *name, trp_buffer buffer, uint64_t offset,
                      uint32_t bytes, int64_t count, uint32_t mode)
{
    trp__operand *x = &m->operand[which];
    *x = trp__operand_of_scalars(buffer, offset, bytes, (uint64_t)count);
    x->name = name;
    x->fields = which != TRP__MATMUL_SCALARS && which < TRP__MATMUL_AMAX_D;
    x->mode = mode;
}

static trp_status set_vector(making *m)
{
    const trp_matmul_request *r = m->r;
    bool gradient = r->gradient_of != TRP_BIAS_GRADIENT_NONE;
    const trp_matmul_vector *v = gradient ? &r->gradient : &r->bias;
    if (!v->buffer.id)
        return TRP_OK;
    int64_t count = m->g.gradient == TRP_BIAS_GRADIENT_B ? m->g.n : m->g.m;
    trp__operand *x = &m->operand[TRP__MATMUL_VECTOR];
    set_small(m, TRP__MATMUL_VECTOR, gradient ? "gradient" : "bias", v->buffer, v->offset,
              trp_dtype_bits((trp_dtype)m->g.vector_type) / 8, count,
              gradient ? TRP__WRITE : TRP__READ);
    x->stride = m->g.batch > 1 ? v->stride : 0;
    m->g.vector_stride = x->stride;
    trp_status status = trp__operand_measure(m->pack, x, m->g.batch);
    if (status == TRP_OK && gradient)
        status = trp__operand_check_stride(m->pack, x, m->g.batch);
    if (status == TRP_OK && gradient && trp__operand_dense(x, m->g.batch))
        x->mode |= TRP__COVER;
    return status;
}

static int64_t rounded_up(int64_t value, int64_t unit)
{
    return value / unit + (value % unit != 0);
}

/* How many scale factors a matrix of `lines` x k has; no overflow, for the matrix is in a buffer.
 */
static int64_t scale_count(trp_scale_mode mode, int64_t lines, int64_t k)
{
    int64_t width = mode == TRP_SCALE_BLOCK_16 ? 16 : mode == TRP_SCALE_BLOCK_32 ? 32 : 128;
    int64_t blocks = rounded_up(k, width);
    switch (mode) {
    case TRP_SCALE_VECTOR:
        return lines;
    case TRP_SCALE_BLOCK_16:
    case TRP_SCALE_BLOCK_32:
        return rounded_up(lines, 128) * rounded_up(blocks, 4) * 512;
    case TRP_SCALE_BLOCK_128:
        return lines * blocks;
    case TRP_SCALE_BLOCK_128X128:
        return rounded_up(blocks, 4) * 4 * rounded_up(lines, 128);
    default:
        return 1;
    }
}

static bool mode_fits(trp_scale_mode mode, uint8_t type)
{
    return mode == TRP_SCALE_BLOCK_16 ? type == TRP_F4E2M1 : is_fp8((trp_dtype)type);
}

/* Scale factors of A or B, as they are here; `name` is the sender's. */
static trp_status set_input_scale(making *m, int which, const char *name, const trp_scale *scale,
                                  uint8_t *mode)
{
    uint8_t type = m->g.type[which];
    if (!scale->buffer.id && scale->mode == TRP_SCALE_TENSOR)
        return TRP_OK;
    if (!scale->buffer.id)
        return trp__error_set(m->pack->error, TRP_E_ARGUMENT,
                              "%s: expected a buffer with mode %d, got none", name,
                              (int)scale->mode);
    if (!mode_fits(scale->mode, type))
        return UNSUPPORTED(m, "%s: factors of mode %d for a matrix of type %s", name,
                           (int)scale->mode, trp_dtype_name((trp_dtype)type));
    if (scale->mode != TRP_SCALE_TENSOR && m->g.batch > 1)
        return UNSUPPORTED(m, "%s: factors of mode %d with a batch", name, (int)scale->mode);
    bool bytes = scale->mode == TRP_SCALE_BLOCK_16 || scale->mode == TRP_SCALE_BLOCK_32;
    if (bytes && scale->offset % 16 != 0)
        return trp__error_set(m->pack->error, TRP_E_ARGUMENT,
                              "%s.offset: expected a multiple of 16, got %llu", name,
                              (unsigned long long)scale->offset);
    int64_t lines = which == TRP__MATMUL_A ? m->g.m : m->g.n;
    *mode = (uint8_t)scale->mode;
    set_small(m, which == TRP__MATMUL_A ? TRP__MATMUL_SCALE_A : TRP__MATMUL_SCALE_B, name,
              scale->buffer, scale->offset, bytes ? 1 : 4, scale_count(scale->mode, lines, m->g.k),
              TRP__READ);
    return TRP_OK;
}

/* The factor of an output, or where its largest value goes: one f32 where the output is fp8. */
static trp_status set_output_scale(making *m, int which, const char *name, trp_buffer buffer,
                                   uint64_t offset, int mode, uint8_t type, uint32_t access)
{
    if (!buffer.id && mode == TRP_SCALE_TENSOR)
        return TRP_OK;
    if (mode != TRP_SCALE_TENSOR)
        return UNSUPPORTED(m, "%s: mode %d of factors for what is written", name, mode);
    if (!is_fp8((trp_dtype)type))
        return UNSUPPORTED(m, "%s: for a matrix that is not fp8, but %s", name,
                           type == TRP_DTYPE_NONE ? "bits or not there"
                                                  : trp_dtype_name((trp_dtype)type));
    set_small(m, which, name, buffer, offset, 4, 1, access);
    return TRP_OK;
}

static trp_status set_scales(making *m)
{
    const trp_matmul_request *r = m->r;
    const trp__matmul *g = &m->g;
    const trp_scale *a = m->swap ? &r->b.scale : &r->a.scale;
    const trp_scale *b = m->swap ? &r->a.scale : &r->b.scale;
    uint8_t d_type = g->type[TRP__MATMUL_D];
    uint8_t aux_type = r->aux.buffer.id ? g->type[TRP__MATMUL_AUX] : TRP_DTYPE_NONE;
    uint32_t written = TRP__WRITE | TRP__COVER;
    if (r->c.scale.buffer.id || r->c.scale.mode != TRP_SCALE_TENSOR)
        return UNSUPPORTED(m, "c.scale: for a matrix that is not fp8, but %s",
                           trp_dtype_name((trp_dtype)g->type[TRP__MATMUL_C]));
    trp_status status =
        set_input_scale(m, TRP__MATMUL_A, m->swap ? "b.scale" : "a.scale", a, &m->g.scale_a);
    if (status == TRP_OK)
        status =
            set_input_scale(m, TRP__MATMUL_B, m->swap ? "a.scale" : "b.scale", b, &m->g.scale_b);
    if (status == TRP_OK)
        status = set_output_scale(m, TRP__MATMUL_SCALE_D, "d.scale", r->d.scale.buffer,
                                  r->d.scale.offset, (int)r->d.scale.mode, d_type, TRP__READ);
    if (status == TRP_OK)
        status = set_output_scale(m, TRP__MATMUL_SCALE_AUX, "aux.scale", r->aux.scale.buffer,
                                  r->aux.scale.offset, (int)r->aux.scale.mode, aux_type, TRP__READ);
    if (status == TRP_OK)
        status = set_output_scale(m, TRP__MATMUL_AMAX_D, "amax_d", r->amax_d, r->amax_d_offset,
                                  TRP_SCALE_TENSOR, d_type, written);
    if (status == TRP_OK)
        status = set_output_scale(m, TRP__MATMUL_AMAX_AUX, "amax_aux", r->amax_aux,
                                  r->amax_aux_offset, TRP_SCALE_TENSOR,
                                  is_gradient(r->activation) ? TRP_DTYPE_NONE : aux_type, written);
    return status;
}

static void set_scalars(making *m)
{
    trp_dtype type = (trp_dtype)m->g.scalar_type;
    if (m->r->scalars.id)
        set_small(m, TRP__MATMUL_SCALARS, "scalars", m->r->scalars, m->r->scalars_offset,
                  trp_dtype_bits(type) / 8, 2, TRP__READ);
}

/* The record. */

static trp_status add_accesses(making *m, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (!m->operand[i].mode)
            continue;
        m->g.access[i] = (uint8_t)m->pack->record->access_count;
        trp_status status = trp__operand_access(m->pack, &m->operand[i]);
        if (status != TRP_OK)
            return status;
    }
    return TRP_OK;
}

static trp_status check_all_apart(making *m)
{
    for (int w = 0; w < TRP__MATMUL_OPERANDS; w++) {
        for (int i = 0; (m->operand[w].mode & TRP__WRITE) && i < TRP__MATMUL_OPERANDS; i++) {
            /* Of two that are written, once. */
            bool skip =
                i == w || !m->operand[i].mode || (i < w && (m->operand[i].mode & TRP__WRITE));
            trp_status status = skip ? TRP_OK
                                     : trp__operand_check_apart(m->pack, &m->operand[w],
                                                                &m->operand[i], m->g.batch);
            if (status != TRP_OK)
                return status;
        }
    }
    return TRP_OK;
}

static trp_status set_operands(making *m)
{
    const trp_matmul_request *r = m->r;
    const trp_matmul_matrix *a = m->swap ? &r->b : &r->a, *b = m->swap ? &r->a : &r->b;
    const trp__matmul *g = &m->g;
    bool a_is = g->trans_a == TRP_N, b_is = g->trans_b == TRP_N;
    m->operand[TRP__MATMUL_A].mode = m->operand[TRP__MATMUL_B].mode = TRP__READ;
    trp_status status = set_matrix(m, TRP__MATMUL_A, m->swap ? "b" : "a", a, a_is ? g->m : g->k,
                                   a_is ? g->k : g->m);
    if (status == TRP_OK)
        status = set_matrix(m, TRP__MATMUL_B, m->swap ? "a" : "b", b, b_is ? g->k : g->n,
                            b_is ? g->n : g->k);
    if (status == TRP_OK)
        status = set_c_and_d(m);
    if (status == TRP_OK)
        status = set_aux(m);
    if (status == TRP_OK)
        status = set_vector(m);
    if (status == TRP_OK)
        status = add_accesses(m, 0, TRP__MATMUL_SCALARS);
    /* The matrices lie in buffers: nothing below overflows. */
    set_scalars(m);
    if (status == TRP_OK)
        status = set_scales(m);
    if (status == TRP_OK)
        status = add_accesses(m, TRP__MATMUL_SCALARS, TRP__MATMUL_OPERANDS);
    if (status == TRP_OK && m->in_place)
        m->g.access[TRP__MATMUL_C] = m->g.access[TRP__MATMUL_D];
    return status == TRP_OK ? check_all_apart(m) : status;
}

trp_status trp__matmul_pack(trp__pack *pack, const trp_request *request)
{
    const trp_matmul_request *r = (const trp_matmul_request *)request;
    const type_row *row = NULL;
    making m = {.pack = pack, .r = r, .swap = r->d.order == TRP_ROW_MAJOR};
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
        status = check_epilogue(&m, row);
    if (status == TRP_OK && m.g.m > 0 && m.g.n > 0)
        status = set_operands(&m);
    if (status == TRP_OK)
        memcpy(pack->record->payload, &m.g, sizeof m.g);
    return status;
}

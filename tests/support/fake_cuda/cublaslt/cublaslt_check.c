/* The products that the fake cuBLASLt supports: those that the documentation of cublasLtMatmul()
 * lists for compute capability 9.0, in regular orders. */
#include "support/fake_cuda/cublaslt/cublaslt.h"

#define T(name) TRP__CUBLASLT_##name

/* Compute type, scale type, type of A and B, type of C and D, and whether an epilogue is allowed.
 * f8_types() has the 8-bit floats. A pedantic type has the rules of the type before it. */
static const struct {
    int compute, scale, ab, cd;
    bool epilogue;
} products[] = {
    {T(COMPUTE_16F), T(R_16F), T(R_16F), T(R_16F), true},
    {T(COMPUTE_32I), T(R_32I), T(R_8I), T(R_32I), false},
    {T(COMPUTE_32I), T(R_32F), T(R_8I), T(R_8I), false},
    {T(COMPUTE_32F), T(R_32F), T(R_16BF), T(R_16BF), true},
    {T(COMPUTE_32F), T(R_32F), T(R_16F), T(R_16F), true},
    {T(COMPUTE_32F), T(R_32F), T(R_8I), T(R_32F), false},
    {T(COMPUTE_32F), T(R_32F), T(R_16BF), T(R_32F), true},
    {T(COMPUTE_32F), T(R_32F), T(R_16F), T(R_32F), true},
    {T(COMPUTE_32F), T(R_32F), T(R_32F), T(R_32F), true},
    {T(COMPUTE_32F), T(C_32F), T(C_32F), T(C_32F), false},
    {T(COMPUTE_32F_FAST_16F), T(R_32F), T(R_32F), T(R_32F), true},
    {T(COMPUTE_32F_FAST_16F), T(C_32F), T(C_32F), T(C_32F), false},
    {T(COMPUTE_32F_FAST_16BF), T(R_32F), T(R_32F), T(R_32F), true},
    {T(COMPUTE_32F_FAST_16BF), T(C_32F), T(C_32F), T(C_32F), false},
    {T(COMPUTE_32F_FAST_TF32), T(R_32F), T(R_32F), T(R_32F), true},
    {T(COMPUTE_32F_FAST_TF32), T(C_32F), T(C_32F), T(C_32F), false},
    {T(COMPUTE_64F), T(R_64F), T(R_64F), T(R_64F), true},
    {T(COMPUTE_64F), T(C_64F), T(C_64F), T(C_64F), false},
};

static const int epilogues[] = {
#define EPILOGUE(since, name, value) value,
    TRP__CUBLASLT_EPILOGUES(EPILOGUE)
#undef EPILOGUE
};

static bool known_epilogue(uint32_t epilogue)
{
    for (size_t i = 0; i < sizeof epilogues / sizeof *epilogues; i++) {
        if ((uint32_t)epilogues[i] == epilogue)
            return true;
    }
    return false;
}

static bool alpha_is_vector(const lt_desc *desc)
{
    return desc->pointer_mode >= T(POINTER_MODE_DEVICE_VECTOR);
}

static trp__cublas_status check_values(const lt_problem *p)
{
    const lt_desc *d = &p->desc;
    const int modes[] = {d->a_mode, d->b_mode, d->c_mode, d->d_mode, d->aux_mode, d->d_out_mode};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (modes[i] < 0 || modes[i] > T(MATMUL_MATRIX_SCALE_BLK128x128_32F))
            return INVALID_VALUE;
    }
    if (!FAKE_ONE_OF_3(d->trans_a) || !FAKE_ONE_OF_3(d->trans_b) || !FAKE_ONE_OF_3(d->trans_c) ||
        !FAKE_ONE_OF_3(d->fill) || d->pointer_mode < 0 ||
        d->pointer_mode > T(POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST) ||
        !FAKE_ONE_OF_2(d->fast_accum) || d->sm_count < 0 || !known_epilogue(d->epilogue))
        return INVALID_VALUE;
    if (d->pointer_mode == T(POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO) && d->alpha_stride != 0)
        return INVALID_VALUE;
    return d->trans_c != 0 || d->fill != 2 || d->emulation ||
                   d->pointer_mode == T(POINTER_MODE_DEVICE_VECTOR)
               ? NOT_SUPPORTED
               : SUCCESS;
}

static trp__cublas_status check_layout(const lt_layout *x, int32_t batch)
{
    if (x->rows == 0 || x->columns == 0 || x->order < 0 || x->order > T(ORDER_COL32_2R_4R4) ||
        x->batch < 1 || x->batch != batch || x->batch_mode > T(BATCH_MODE_POINTER_ARRAY))
        return INVALID_VALUE;
    if (x->order > T(ORDER_ROW) || x->batch_mode != T(BATCH_MODE_STRIDED) || x->plane != 0 ||
        x->rows > INT32_MAX || x->columns > INT32_MAX)
        return NOT_SUPPORTED;
    return x->ld >= (int64_t)(x->order == T(ORDER_COL) ? x->rows : x->columns) ? SUCCESS
                                                                               : INVALID_VALUE;
}

static trp__cublas_status check_shapes(lt_problem *p)
{
    const lt_layout *all[] = {&p->a, &p->b, &p->c, &p->d};
    for (int i = 0; i < 4; i++) {
        trp__cublas_status status = check_layout(all[i], p->d.batch);
        if (status != SUCCESS)
            return status;
    }
    uint64_t a_rows = p->desc.trans_a ? p->a.columns : p->a.rows;
    uint64_t a_columns = p->desc.trans_a ? p->a.rows : p->a.columns;
    uint64_t b_rows = p->desc.trans_b ? p->b.columns : p->b.rows;
    uint64_t b_columns = p->desc.trans_b ? p->b.rows : p->b.columns;
    if (a_rows != p->d.rows || b_columns != p->d.columns || a_columns != b_rows ||
        p->c.rows != p->d.rows || p->c.columns != p->d.columns)
        return INVALID_VALUE;
    p->m = (int64_t)p->d.rows;
    p->n = (int64_t)p->d.columns;
    p->k = (int64_t)a_columns;
    /* The results of a batch must not overlap. */
    int64_t lines = p->d.order == T(ORDER_COL) ? p->n : p->m;
    int64_t line = p->d.order == T(ORDER_COL) ? p->m : p->n;
    return p->d.batch > 1 && p->d.stride < (lines - 1) * p->d.ld + line ? INVALID_VALUE : SUCCESS;
}

/* Returns whether the product is "TN" in column-major order. */
static bool is_tn(const lt_problem *p)
{
    return p->desc.trans_a != 0 && p->desc.trans_b == 0 && p->a.order == T(ORDER_COL) &&
           p->b.order == T(ORDER_COL) && p->c.order == T(ORDER_COL) && p->d.order == T(ORDER_COL);
}

static bool multiples(const lt_problem *p, int64_t of)
{
    int64_t c = p->c.ld * (int64_t)fake_lt_bytes((int)p->c.type);
    int64_t d = p->d.ld * (int64_t)fake_lt_bytes((int)p->d.type);
    return p->m % of == 0 && p->k % of == 0 && p->a.ld % of == 0 && p->b.ld % of == 0 &&
           c % of == 0 && d % of == 0;
}

/* Types of C and D for 8-bit floats: never two of e5m2. The result has C's type, or e4m3, or e5m2
 * if an operand has it. */
static bool f8_types(const lt_problem *p)
{
    int a = (int)p->a.type, b = (int)p->b.type, c = (int)p->c.type, d = (int)p->d.type;
    bool e5m2 = a == T(R_8F_E5M2) || b == T(R_8F_E5M2);
    if (!fake_lt_is_f8(a) || !fake_lt_is_f8(b) || (a == T(R_8F_E5M2) && b == a))
        return false;
    if (c == T(R_32F))
        return d == c;
    if (c != T(R_16F) && c != T(R_16BF))
        return false;
    return d == c || d == T(R_8F_E4M3) || (d == T(R_8F_E5M2) && e5m2);
}

static trp__cublas_status check_f8(const lt_problem *p)
{
    uint32_t backward = LT_DRELU | LT_DGELU | LT_BGRADA | LT_BGRADB;
    bool can = f8_types(p) && p->desc.compute == T(COMPUTE_32F) && p->desc.scale_type == T(R_32F) &&
               is_tn(p) && multiples(p, 16) && !alpha_is_vector(&p->desc) &&
               (p->desc.epilogue & backward) == 0;
    return can ? SUCCESS : NOT_SUPPORTED;
}

static trp__cublas_status check_types(const lt_problem *p)
{
    int compute = p->desc.compute, ab = (int)p->a.type, cd = (int)p->d.type;
    if (fake_lt_is_f8(ab) || fake_lt_is_f8((int)p->b.type) || fake_lt_is_f8(cd))
        return check_f8(p);
    if (compute == T(COMPUTE_16F_PEDANTIC) || compute == T(COMPUTE_32F_PEDANTIC) ||
        compute == T(COMPUTE_64F_PEDANTIC) || compute == T(COMPUTE_32I_PEDANTIC))
        compute--;
    if (p->b.type != p->a.type || p->c.type != p->d.type)
        return NOT_SUPPORTED;
    if (ab == T(R_8I) && !(is_tn(p) && multiples(p, 4)))
        return NOT_SUPPORTED;
    if (alpha_is_vector(&p->desc) && fake_lt_complex(cd))
        return NOT_SUPPORTED;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        if (products[i].compute == compute && products[i].scale == p->desc.scale_type &&
            products[i].ab == ab && products[i].cd == cd)
            return products[i].epilogue || p->desc.epilogue == T(EPILOGUE_DEFAULT) ? SUCCESS
                                                                                   : NOT_SUPPORTED;
    }
    return NOT_SUPPORTED;
}

static trp__cublas_status check_bias(lt_problem *p)
{
    int d = (int)p->d.type;
    bool f8 = fake_lt_is_f8((int)p->a.type);
    p->bias_type = !f8 ? d : p->c.type == T(R_16F) ? T(R_16F) : T(R_16BF);
    if (!(p->desc.epilogue & (LT_BIAS | LT_BGRAD | LT_BGRADA | LT_BGRADB)))
        return SUCCESS;
    if (p->desc.bias_type != -1 && p->desc.bias_type != p->bias_type)
        return NOT_SUPPORTED;
    return p->desc.bias && p->desc.bias % fake_lt_bytes(p->bias_type) == 0 ? SUCCESS
                                                                           : INVALID_VALUE;
}

static trp__cublas_status check_aux(lt_problem *p)
{
    const lt_desc *d = &p->desc;
    bool mask = d->epilogue & (LT_RELU | LT_DRELU);
    int64_t unit = mask ? 128 : 8;
    int type = (int)p->d.type;
    p->aux_type = d->aux_type == -1 ? type : d->aux_type;
    bool aux = d->epilogue & LT_AUX;
    bool scaled = aux && !mask && fake_lt_is_f8(p->aux_type);
    if ((d->aux_scale || d->aux_amax) && !scaled)
        return INVALID_VALUE;
    if (!aux)
        return SUCCESS;
    if (!d->aux || d->aux % 16 != 0 || d->aux_ld < p->m || d->aux_ld % unit != 0 ||
        d->aux_stride % unit != 0)
        return INVALID_VALUE;
    bool good_type = mask || p->aux_type == type;
    if (!mask && fake_lt_is_f8(type))
        good_type = type == T(R_8F_E4M3) &&
                    (p->aux_type == type || p->aux_type == T(R_16F) || p->aux_type == T(R_16BF));
    return good_type && p->d.order == T(ORDER_COL) ? SUCCESS : NOT_SUPPORTED;
}

/* Checks which scale modes of A and B go together. */
static trp__cublas_status check_modes(const lt_problem *p)
{
    const lt_desc *d = &p->desc;
    const int outer = T(MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    const int line = T(MATMUL_MATRIX_SCALE_VEC128_32F),
              block = T(MATMUL_MATRIX_SCALE_BLK128x128_32F);
    if (d->a_mode == 0 && d->b_mode == 0)
        return d->a_scale % 4 == 0 && d->b_scale % 4 == 0 ? SUCCESS : INVALID_VALUE;
    bool together = (d->a_mode == outer && d->b_mode == outer) ||
                    (d->a_mode == line && (d->b_mode == line || d->b_mode == block)) ||
                    (d->a_mode == block && d->b_mode == line);
    if (!together || fake_lt_is_f8((int)p->d.type))
        return NOT_SUPPORTED;
    return d->a_scale && d->b_scale && d->a_scale % 16 == 0 && d->b_scale % 16 == 0 ? SUCCESS
                                                                                    : INVALID_VALUE;
}

static trp__cublas_status check_scales(const lt_problem *p)
{
    const lt_desc *d = &p->desc;
    bool f8 = fake_lt_is_f8((int)p->a.type), f8_result = fake_lt_is_f8((int)p->d.type);
    if (!f8 && (d->a_scale || d->b_scale || d->a_mode || d->b_mode))
        return INVALID_VALUE;
    if (!f8_result && (d->d_scale || d->amax_d || d->d_mode))
        return INVALID_VALUE;
    if (d->c_scale || d->c_mode) /* no supported C has 8 bits */
        return INVALID_VALUE;
    if (d->d_mode || d->aux_mode || d->d_out_mode || d->d_out_scale)
        return NOT_SUPPORTED;
    if (d->d_scale % 4 != 0 || d->amax_d % 4 != 0 || d->aux_scale % 4 != 0 || d->aux_amax % 4 != 0)
        return INVALID_VALUE;
    return f8 ? check_modes(p) : SUCCESS;
}

/* The descriptors exist; the caller has set their contents. */
static bool good_objects(const lt_desc *desc, const lt_layout *const layouts[4])
{
    bool good = desc && desc->magic == LT_DESC;
    for (int i = 0; i < 4; i++)
        good = good && layouts[i] && layouts[i]->magic == LT_LAYOUT;
    return good;
}

trp__cublas_status fake_lt_check(trp__cublaslt_handle handle, const lt_desc *desc,
                                 const lt_layout *a, const lt_layout *b, const lt_layout *c,
                                 const lt_layout *d, lt_problem *problem)
{
    const lt_layout *const layouts[] = {a, b, c, d};
    trp__cublas_status status = SUCCESS;
    if (!fake_lt_good_handle(handle))
        return NOT_INITIALIZED;
    if (!good_objects(desc, layouts))
        return INVALID_VALUE;
    *problem = (lt_problem){.desc = *desc, .a = *a, .b = *b, .c = *c, .d = *d};
    if ((status = check_values(problem)) != SUCCESS ||
        (status = check_shapes(problem)) != SUCCESS || (status = check_types(problem)) != SUCCESS ||
        (status = check_bias(problem)) != SUCCESS || (status = check_aux(problem)) != SUCCESS)
        return status;
    return check_scales(problem);
}

bool fake_lt_aligned_enough(const lt_problem *p, const uint32_t alignment[4])
{
    const lt_layout *all[] = {&p->a, &p->b, &p->c, &p->d};
    int ab = (int)p->a.type;
    size_t least = fake_lt_is_f8(ab) ? 16 : ab == T(R_8I) ? 4 : 1;
    for (int i = 0; i < 4; i++) {
        size_t bytes = fake_lt_bytes((int)all[i]->type);
        uint32_t given = alignment[i];
        if (given == 0 || (given & (given - 1)) != 0 || given < bytes || given < least)
            return false;
    }
    return true;
}

#include "unit/fakes/fake_cublaslt_product.h"

#include "base/numbers/narrow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const trp__cuda *lt_cu;
const trp__cublaslt *lt_api;
trp__cublaslt_handle lt_handle;
trp__cu_stream lt_stream;
ref_rng lt_rng;

void lt_open(void)
{
    trp_error error = {0};
    trp__cu_context context;
    if (trp__cuda_load(&lt_cu, &error) != TRP_OK || trp__cublaslt_load(&lt_api, &error) != TRP_OK)
        fail_msg("%s", error.message);
    OK(lt_cu->cuDevicePrimaryCtxRetain(&context, 0));
    OK(lt_cu->cuCtxSetCurrent(context));
    OK(lt_cu->cuStreamCreate(&lt_stream, 1));
    OK(lt_api->cublasLtCreate(&lt_handle));
}

/* Elements. */

static bool is_complex(int type)
{
    return type == T(C_32F) || type == T(C_64F);
}

static bool is_f8(int type)
{
    return type == T(R_8F_E4M3) || type == T(R_8F_E5M2);
}

static size_t size_of(int type)
{
    return type == T(C_64F)                        ? 16
           : type == T(C_32F) || type == T(R_64F)  ? 8
           : type == T(R_32F) || type == T(R_32I)  ? 4
           : type == T(R_16F) || type == T(R_16BF) ? 2
                                                   : 1;
}

static void put(int type, void *array, size_t index, number value)
{
    char *at = (char *)array + index * size_of(type);
    const double re = creal(value), im = cimag(value);
    const float f[] = {(float)re, (float)im};
    const double d[] = {re, im};
    const uint16_t half = type == T(R_16F) ? trp__f64_to_f16(re) : trp__f64_to_bf16(re);
    const int32_t word = (int32_t)re;
    uint8_t byte = type == T(R_8F_E4M3) ? trp__f32_to_f8e4m3(trp__f64_to_f32_odd(re))
                                        : trp__f32_to_f8e5m2(trp__f64_to_f32_odd(re));
    if (type == T(R_8I))
        byte = (uint8_t)(int8_t)(re < -128 ? -128 : re > 127 ? 127 : re);
    const void *from = type == T(R_64F) || type == T(C_64F)    ? (const void *)d
                       : type == T(R_32F) || type == T(C_32F)  ? (const void *)f
                       : type == T(R_16F) || type == T(R_16BF) ? (const void *)&half
                       : type == T(R_32I)                      ? (const void *)&word
                                                               : (const void *)&byte;
    memcpy(at, from, size_of(type));
}

static number get(int type, const void *array, size_t index)
{
    const char *at = (const char *)array + index * size_of(type);
    float f[2] = {0};
    double d[2] = {0};
    uint16_t half;
    int32_t word;
    switch (type) {
    case T(R_64F):
    case T(C_64F):
        memcpy(d, at, size_of(type));
        return __builtin_complex(d[0], d[1]);
    case T(R_32F):
    case T(C_32F):
        memcpy(f, at, size_of(type));
        return __builtin_complex((double)f[0], (double)f[1]);
    case T(R_16F):
    case T(R_16BF):
        memcpy(&half, at, 2);
        return (double)(type == T(R_16F) ? trp__f16_to_f32(half) : trp__bf16_to_f32(half));
    case T(R_32I):
        memcpy(&word, at, 4);
        return word;
    case T(R_8I):
        return *(const int8_t *)at;
    default:
        return (double)(type == T(R_8F_E4M3) ? trp__f8e4m3_to_f32(*(const uint8_t *)at)
                                             : trp__f8e5m2_to_f32(*(const uint8_t *)at));
    }
}

/* -3 .. 3, and for complex types an imaginary part. */
static number small(int type)
{
    double re = (double)ref_rng_below(&lt_rng, 7) - 3;
    double im = (double)ref_rng_below(&lt_rng, 7) - 3;
    return __builtin_complex(re, is_complex(type) ? im : 0.0);
}

static vector make(int type, size_t length)
{
    vector x = {.type = type, .length = length, .host = malloc(length * size_of(type))};
    assert_non_null(x.host);
    for (size_t i = 0; i < length; i++)
        put(type, x.host, i, small(type));
    OK(lt_cu->cuMemAlloc_v2(&x.at, length * size_of(type)));
    OK(lt_cu->cuMemcpyHtoD_v2(x.at, x.host, length * size_of(type)));
    return x;
}

/* Scale factors: none is 0, which would hide the others. */
static vector make_factors(size_t length)
{
    vector x = make(T(R_32F), length);
    for (size_t i = 0; i < length; i++)
        put(x.type, x.host, i, 1 + (double)ref_rng_below(&lt_rng, 3));
    OK(lt_cu->cuMemcpyHtoD_v2(x.at, x.host, length * size_of(x.type)));
    return x;
}

static void fetch(vector *x)
{
    OK(lt_cu->cuMemcpyDtoH_v2(x->host, x->at, x->length * size_of(x->type)));
}

static void drop(vector *x)
{
    if (x->at)
        OK(lt_cu->cuMemFree_v2(x->at));
    free(x->host);
    *x = (vector){0};
}

product lt_usual(void)
{
    return (product){.compute = T(COMPUTE_32F),
                     .scale = T(R_32F),
                     .batch = 1,
                     .m = 32,
                     .n = 20,
                     .k = 48,
                     .epilogue = 1,
                     .alpha = 2,
                     .beta = -1,
                     .aux_type = -1};
}

product lt_usual_f8(int d)
{
    product p = lt_usual();
    const int types[] = {T(R_8F_E4M3), T(R_8F_E5M2), T(R_16BF), d};
    memcpy(p.types, types, sizeof types);
    p.trans_a = 1;
    return p;
}

static void set_up_layouts(product *p)
{
    const int64_t rows[] = {p->trans_a ? p->k : p->m, p->trans_b ? p->n : p->k, p->m, p->m};
    const int64_t columns[] = {p->trans_a ? p->m : p->k, p->trans_b ? p->k : p->n, p->n, p->n};
    for (int i = 0; i < 4; i++) {
        const int64_t line = p->order ? columns[i] : rows[i];
        p->rows[i] = rows[i];
        p->columns[i] = columns[i];
        p->ld[i] = (line + 31) / 16 * 16;
        p->stride[i] = p->ld[i] * (p->order ? rows[i] : columns[i]) + 16 * i;
        p->x[i] = make(p->types[i], (size_t)(p->stride[i] * p->batch));
        OK(lt_api->cublasLtMatrixLayoutCreate(&p->layout[i], p->types[i], (uint64_t)rows[i],
                                              (uint64_t)columns[i], p->ld[i]));
        OK(lt_api->cublasLtMatrixLayoutSetAttribute(p->layout[i], T(MATRIX_LAYOUT_ORDER), &p->order,
                                                    4));
        OK(lt_api->cublasLtMatrixLayoutSetAttribute(p->layout[i], T(MATRIX_LAYOUT_BATCH_COUNT),
                                                    &p->batch, 4));
        OK(lt_api->cublasLtMatrixLayoutSetAttribute(
            p->layout[i], T(MATRIX_LAYOUT_STRIDED_BATCH_OFFSET), &p->stride[i], 8));
    }
}

static size_t factor_count(int mode, int64_t outer, int64_t k)
{
    const int64_t lines = (k + 127) / 128;
    return (size_t)(mode == T(MATMUL_MATRIX_SCALE_SCALAR_32F)      ? 1
                    : mode == T(MATMUL_MATRIX_SCALE_OUTER_VEC_32F) ? outer
                    : mode == T(MATMUL_MATRIX_SCALE_VEC128_32F)
                        ? outer * lines
                        : (outer + 127) / 128 * ((lines + 3) / 4 * 4));
}

static void set_up_scales(product *p)
{
    if (p->a_mode || p->tensor_scales) {
        p->a_factors = make_factors(factor_count(p->a_mode, p->m, p->k));
        p->b_factors = make_factors(factor_count(p->b_mode, p->n, p->k));
        SET(p, A_SCALE_MODE, int32_t, p->a_mode);
        SET(p, B_SCALE_MODE, int32_t, p->b_mode);
        SET(p, A_SCALE_POINTER, uint64_t, p->a_factors.at);
        SET(p, B_SCALE_POINTER, uint64_t, p->b_factors.at);
    }
    if (p->d_scale) {
        p->d_factor = make_factors(1);
        p->amax = make(T(R_32F), 1);
        SET(p, D_SCALE_POINTER, uint64_t, p->d_factor.at);
        SET(p, AMAX_D_POINTER, uint64_t, p->amax.at);
    }
}

static int bias_type(const product *p)
{
    return is_f8(p->types[0]) ? p->types[2] : p->types[3];
}

static void set_up_epilogue(product *p)
{
    const bool mask = p->epilogue & (RELU | DRELU);
    SET(p, EPILOGUE, uint32_t, p->epilogue);
    if (p->epilogue & (BIAS | BGRAD | BGRADA | BGRADB)) {
        p->bias = make(bias_type(p), (size_t)((p->m + p->n) * p->batch));
        SET(p, BIAS_POINTER, uint64_t, p->bias.at);
        SET(p, BIAS_BATCH_STRIDE, int64_t, p->m + p->n);
    }
    if (!(p->epilogue & AUX))
        return;
    p->aux_ld = (p->m + 127) / 128 * 128;
    const int type = p->aux_type < 0 ? p->types[3] : p->aux_type;
    const size_t length = (size_t)(p->aux_ld * p->n * p->batch);
    /* A mask is made as bytes: of any values. */
    p->aux = make(mask ? T(R_8I) : type, mask ? length / 8 : length);
    SET(p, EPILOGUE_AUX_POINTER, uint64_t, p->aux.at);
    SET(p, EPILOGUE_AUX_LD, int64_t, p->aux_ld);
    SET(p, EPILOGUE_AUX_BATCH_STRIDE, int64_t, p->aux_ld * p->n);
    SET(p, EPILOGUE_AUX_DATA_TYPE, int32_t, p->aux_type);
    if (!mask && is_f8(type)) {
        p->aux_amax = make(T(R_32F), 1);
        SET(p, EPILOGUE_AUX_AMAX_POINTER, uint64_t, p->aux_amax.at);
    }
}

static void *copy_of(const vector *x)
{
    unsigned char *copy = malloc(x->length * size_of(x->type) + 1);
    assert_non_null(copy);
    if (x->host)
        memcpy(copy, x->host, x->length * size_of(x->type));
    return copy;
}

void lt_set_up(product *p)
{
    OK(lt_api->cublasLtMatmulDescCreate(&p->desc, p->compute, p->scale));
    SET(p, TRANSA, int32_t, p->trans_a);
    SET(p, TRANSB, int32_t, p->trans_b);
    SET(p, POINTER_MODE, int32_t, p->pointer_mode);
    set_up_layouts(p);
    set_up_scales(p);
    set_up_epilogue(p);
    p->c_before = copy_of(&p->x[2]);
    p->d_before = copy_of(&p->x[3]);
    p->aux_before = copy_of(&p->aux);
}

void lt_take_down(product *p)
{
    vector *arrays[] = {&p->x[0],     &p->x[1], &p->x[2],      &p->x[3],
                        &p->bias,     &p->aux,  &p->a_factors, &p->b_factors,
                        &p->d_factor, &p->amax, &p->aux_amax,  &p->scalars};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        drop(arrays[i]);
    for (int i = 0; i < 4; i++)
        OK(lt_api->cublasLtMatrixLayoutDestroy(p->layout[i]));
    OK(lt_api->cublasLtMatmulDescDestroy(p->desc));
    free(p->c_before);
    free(p->d_before);
    free(p->aux_before);
}

int lt_ask(const product *p, uint64_t workspace, uint32_t alignment, int requested,
           trp__cublaslt_result *results, int *found)
{
    trp__cublaslt_preference preference;
    OK(lt_api->cublasLtMatmulPreferenceCreate(&preference));
    OK(lt_api->cublasLtMatmulPreferenceSetAttribute(preference, T(MATMUL_PREF_MAX_WORKSPACE_BYTES),
                                                    &workspace, 8));
    for (int i = 0; i < 4; i++)
        OK(lt_api->cublasLtMatmulPreferenceSetAttribute(
            preference,
            (trp__cublaslt_preference_attribute)(T(MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) + i),
            &alignment, 4));
    *found = -1;
    int status = lt_api->cublasLtMatmulAlgoGetHeuristic(lt_handle, p->desc, p->layout[0],
                                                        p->layout[1], p->layout[2], p->layout[3],
                                                        preference, requested, results, found);
    OK(lt_api->cublasLtMatmulPreferenceDestroy(preference));
    return status;
}

int lt_multiply(product *p, const trp__cublaslt_algo *algo, trp__cu_address workspace, size_t bytes,
                size_t a_offset)
{
    const size_t size = size_of(p->scale);
    unsigned char alpha[16], beta[16];
    const void *alpha_at = alpha, *beta_at = beta;
    put(p->scale, alpha, 0, p->alpha);
    put(p->scale, beta, 0, p->beta);
    if (p->pointer_mode) {
        /* alpha for each row, and beta behind. */
        p->scalars = make(p->scale, (size_t)p->m + 1);
        if (p->pointer_mode == T(POINTER_MODE_DEVICE)) {
            put(p->scale, p->scalars.host, 0, p->alpha);
            put(p->scale, p->scalars.host, (size_t)p->m, p->beta);
            OK(lt_cu->cuMemcpyHtoD_v2(p->scalars.at, p->scalars.host, ((size_t)p->m + 1) * size));
            beta_at = (void *)(uintptr_t)(p->scalars.at + (size_t)p->m * size);
        }
        alpha_at = (void *)(uintptr_t)p->scalars.at;
    }
    int status = lt_api->cublasLtMatmul(
        lt_handle, p->desc, alpha_at, (void *)(uintptr_t)(p->x[0].at + a_offset), p->layout[0],
        (void *)(uintptr_t)p->x[1].at, p->layout[1], beta_at, (void *)(uintptr_t)p->x[2].at,
        p->layout[2], (void *)(uintptr_t)p->x[3].at, p->layout[3], algo,
        (void *)(uintptr_t)workspace, bytes, lt_stream);
    OK(lt_cu->cuStreamSynchronize(lt_stream));
    return status;
}

/* The plain loop. */

static size_t place(const product *p, int which, int64_t batch, int64_t i, int64_t j)
{
    return (size_t)(batch * p->stride[which] +
                    (p->order ? i * p->ld[which] + j : i + j * p->ld[which]));
}

static number operand(const product *p, int which, int64_t batch, int64_t i, int64_t j)
{
    const int trans = which ? p->trans_b : p->trans_a;
    const number v = get(p->types[which], p->x[which].host,
                         trans ? place(p, which, batch, j, i) : place(p, which, batch, i, j));
    return trans == 2 ? conj(v) : v;
}

static double factor(const vector *factors, int mode, int64_t outer, int64_t count_, int64_t l,
                     int64_t k)
{
    if (!factors->host)
        return 1;
    const int64_t lines = (k + 127) / 128;
    const int64_t at = mode == T(MATMUL_MATRIX_SCALE_SCALAR_32F)      ? 0
                       : mode == T(MATMUL_MATRIX_SCALE_OUTER_VEC_32F) ? outer
                       : mode == T(MATMUL_MATRIX_SCALE_VEC128_32F)
                           ? outer + l / 128 * count_
                           : l / 128 + outer / 128 * ((lines + 3) / 4 * 4);
    return creal(get(T(R_32F), factors->host, (size_t)at));
}

/* alpha op(A) op(B) + beta C */
static number linear(const product *p, int64_t batch, int64_t i, int64_t j)
{
    number sum = 0, alpha = p->alpha, beta = p->beta;
    for (int64_t l = 0; l < p->k; l++) {
        const double by = factor(&p->a_factors, p->a_mode, i, p->m, l, p->k) *
                          factor(&p->b_factors, p->b_mode, j, p->n, l, p->k);
        sum += by * operand(p, 0, batch, i, l) * operand(p, 1, batch, l, j);
    }
    if (p->pointer_mode > T(POINTER_MODE_DEVICE))
        alpha = get(p->scale, p->scalars.host, (size_t)i);
    if (p->pointer_mode == T(POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO))
        beta = 0;
    return alpha * sum + beta * get(p->types[2], p->c_before, place(p, 2, batch, i, j));
}

/* The same functions as those with tanh, by way of 1 / (1 + exp(-2u)). */
static double gelu_exponent(double x)
{
    return 2 * sqrt(2 / M_PI) * (x + 0.044715 * pow(x, 3));
}

static double gelu(double x)
{
    return x / (1 + exp(-gelu_exponent(x)));
}

static double gelu_slope(double x)
{
    const double s = 1 / (1 + exp(-gelu_exponent(x)));
    return s + x * s * (1 - s) * 2 * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

static bool bit_of(const void *bytes, size_t index)
{
    return ((const unsigned char *)bytes)[index / 8] >> (index % 8) & 1;
}

static void close_to(const product *p, number got, number wanted, const char *what, int64_t i,
                     int64_t j)
{
    const bool rough = p->epilogue & (GELU | DGELU);
    const double error = cabs(got - wanted), size = cabs(wanted);
    const double allowed = !rough                    ? 0
                           : is_f8(p->types[3])      ? size / 8 + 0.01
                           : p->types[3] == T(R_64F) ? size * 1e-12 + 1e-9
                                                     : size * 1e-5 + 1e-5;
    if (!(error <= allowed))
        fail_msg("epilogue %u, types %d %d %d %d: %s (%d, %d) is %g%+gi, expected %g%+gi",
                 p->epilogue, p->types[0], p->types[1], p->types[2], p->types[3], what, (int)i,
                 (int)j, creal(got), cimag(got), creal(wanted), cimag(wanted));
}

static number rounded(int type, number value)
{
    unsigned char bytes[16];
    put(type, bytes, 0, value);
    return get(type, bytes, 0);
}

typedef struct expected {
    double amax, aux_amax, grad[512];
} expected;

/* One element of D; what else it adds to is put into `e`. */
static void check_element(const product *p, int64_t batch, int64_t i, int64_t j, expected *e)
{
    const size_t aux_at = (size_t)(i + j * p->aux_ld + batch * p->aux_ld * p->n);
    const uint32_t epilogue = p->epilogue;
    number v = linear(p, batch, i, j);
    if (epilogue & BIAS)
        v += get(p->bias.type, p->bias.host, (size_t)(i + batch * (p->m + p->n)));
    const double x = creal(v);
    if (epilogue & RELU && epilogue & AUX)
        assert_int_equal(bit_of(p->aux.host, aux_at), x > 0);
    if (epilogue & GELU && epilogue & AUX) {
        close_to(p, get(p->aux.type, p->aux.host, aux_at), rounded(p->aux.type, x), "aux", i, j);
        e->aux_amax = fmax(e->aux_amax, fabs(x));
    }
    if (epilogue & RELU)
        v = fmax(x, 0);
    if (epilogue & GELU)
        v = gelu(x);
    if (epilogue & DRELU)
        v = bit_of(p->aux_before, aux_at) ? x : 0;
    if (epilogue & DGELU)
        v = x * gelu_slope(creal(get(p->aux.type, p->aux_before, aux_at)));
    if (epilogue & BGRAD)
        e->grad[i] += creal(v);
    e->amax = fmax(e->amax, fabs(creal(v)));
    if (p->d_scale)
        v *= get(T(R_32F), p->d_factor.host, 0);
    close_to(p, get(p->types[3], p->x[3].host, place(p, 3, batch, i, j)), rounded(p->types[3], v),
             "D", i, j);
}

static void check_batch(const product *p, int64_t batch, expected *e)
{
    memset(e->grad, 0, sizeof e->grad);
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++)
            check_element(p, batch, i, j, e);
    }
    for (int64_t l = 0; l < p->k; l++) {
        for (int64_t i = 0; p->epilogue & BGRADA && i < p->m; i++)
            e->grad[i] += creal(operand(p, 0, batch, i, l));
        for (int64_t j = 0; p->epilogue & BGRADB && j < p->n; j++)
            e->grad[j] += creal(operand(p, 1, batch, l, j));
    }
    if (p->epilogue & (BGRAD | BGRADA | BGRADB)) {
        for (int64_t i = 0; i < (p->epilogue & BGRADB ? p->n : p->m); i++)
            close_to(p, get(p->bias.type, p->bias.host, (size_t)(i + batch * (p->m + p->n))),
                     rounded(p->bias.type, e->grad[i]), "bias gradient", i, 0);
    }
}

/* Between columns and matrices nothing is written. */
static void check_gaps(const product *p)
{
    const size_t size = size_of(p->types[3]);
    bool *inside = calloc(p->x[3].length, sizeof *inside);
    assert_non_null(inside);
    for (int64_t batch = 0; batch < p->batch; batch++) {
        for (int64_t i = 0; i < p->m * p->n; i++)
            inside[place(p, 3, batch, i % p->m, i / p->m)] = true;
    }
    for (size_t i = 0; i < p->x[3].length; i++) {
        if (!inside[i])
            assert_memory_equal((char *)p->x[3].host + i * size, p->d_before + i * size, size);
    }
    free(inside);
}

void lt_check_product(product p)
{
    trp__cublaslt_result results[1];
    trp__cu_address workspace;
    expected e = {0};
    int found;
    lt_set_up(&p);
    OK(lt_ask(&p, 1 << 20, 16, 1, results, &found));
    assert_int_equal(found, 1);
    assert_true(results[0].workspace_bytes > 0 && results[0].workspace_bytes <= 1 << 20);
    OK(lt_cu->cuMemAlloc_v2(&workspace, results[0].workspace_bytes));
    OK(lt_multiply(&p, &results[0].algo, workspace, results[0].workspace_bytes, 0));
    fetch(&p.x[3]);
    if (p.bias.at)
        fetch(&p.bias);
    if (p.aux.at)
        fetch(&p.aux);
    for (int64_t batch = 0; batch < p.batch; batch++)
        check_batch(&p, batch, &e);
    check_gaps(&p);
    if (p.amax.at) {
        fetch(&p.amax);
        assert_true(fabs(creal(get(T(R_32F), p.amax.host, 0)) - e.amax) <= e.amax * 1e-6);
    }
    if (p.aux_amax.at) {
        fetch(&p.aux_amax);
        assert_true(creal(get(T(R_32F), p.aux_amax.host, 0)) == e.aux_amax);
    }
    OK(lt_cu->cuMemFree_v2(workspace));
    lt_take_down(&p);
}

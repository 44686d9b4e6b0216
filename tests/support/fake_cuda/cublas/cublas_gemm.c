/* Products of the fake cuBLAS: gemm of all types, in batches and groups. */
#include "support/fake_cuda/cublas/cublas.h"

#include <stdlib.h>
#include <string.h>

typedef struct product {
    trp__cublas_operation trans_a, trans_b;
    trp__cublas_type type, c_type; /* A and B have the same type */
    int64_t m, n, k, lda, ldb, ldc, a_stride, b_stride, c_stride, batch;
    uint64_t a, b, c; /* addresses of device memory */
    bool listed;      /* these are arrays of addresses, which are read when the product runs */
    fake_scalar alpha, beta;
} product;

_Static_assert(sizeof(product) <= FAKE_ARGUMENT_BYTES, "a product fits into an operation");

/* Real and imaginary parts in planes of their own, so that sums of both are real products. Real
 * types have one plane. */
typedef struct planes {
    double *a[2], *b[2], *sum[2];
} planes;

/* Returns the bytes of a column-major matrix from its first to its last element. */
static size_t span(trp__cublas_type type, int64_t rows, int64_t columns, int64_t ld)
{
    return rows > 0 && columns > 0 ? (size_t)((columns - 1) * ld + rows) * fake_bytes(type) : 0;
}

/* Copies op(X), rows x columns, to packed columns of f64. */
static void unpack(const product *p, const char *x, trp__cublas_operation op, int64_t rows,
                   int64_t columns, int64_t ld, double *const plane[2])
{
    size_t size = fake_bytes(p->type), to = 0;
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t i = 0; i < rows; i++, to++) {
            int64_t at = op == TRP__CUBLAS_OP_N ? i + j * ld : j + i * ld;
            fake_number value = fake_load(p->type, x + (size_t)at * size);
            plane[0][to] = creal(value);
            if (fake_complex(p->type))
                plane[1][to] = op == TRP__CUBLAS_OP_C ? -cimag(value) : cimag(value);
        }
    }
}

static void add(double *restrict sum, const double *restrict x, double factor, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        sum[i] += x[i] * factor;
}

/* Integers are exact modulo 2^32. The sum is exact as well: no test comes near 2^53. */
static uint32_t wrapped(double integer)
{
    return (uint32_t)(uint64_t)(int64_t)integer;
}

static void store_integer(const product *p, double sum, char *at)
{
    uint32_t old = 0, beta = wrapped(creal(p->beta.value));
    if (beta != 0)
        memcpy(&old, at, sizeof old);
    uint32_t value = wrapped(creal(p->alpha.value)) * wrapped(sum) + beta * old;
    memcpy(at, &value, sizeof value);
}

/* Computes one column of C. Factors of 0 keep operands from being read. */
static void column(const product *p, const planes *s, int64_t j, char *c)
{
    fake_number alpha = p->alpha.value, beta = p->beta.value;
    bool complex_sum = fake_complex(p->type);
    memset(s->sum[0], 0, (size_t)p->m * (complex_sum ? 2 : 1) * sizeof(double));
    for (int64_t l = 0; l < p->k && alpha != 0; l++) {
        int64_t at = l * p->m, by = j * p->k + l;
        add(s->sum[0], s->a[0] + at, s->b[0][by], p->m);
        if (!complex_sum)
            continue;
        add(s->sum[0], s->a[1] + at, -s->b[1][by], p->m);
        add(s->sum[1], s->a[0] + at, s->b[1][by], p->m);
        add(s->sum[1], s->a[1] + at, s->b[0][by], p->m);
    }
    for (int64_t i = 0; i < p->m; i++) {
        char *at = c + (size_t)i * fake_bytes(p->c_type);
        if (p->c_type == TRP__CUDA_R_32I) {
            store_integer(p, s->sum[0][i], at);
            continue;
        }
        fake_number sum = fake_pair(s->sum[0][i], complex_sum ? s->sum[1][i] : 0);
        fake_number value = alpha != 0 ? fake_times(alpha, sum) : 0;
        if (beta != 0)
            value += fake_times(beta, fake_load(p->c_type, at));
        fake_store(p->c_type, at, value);
    }
}

static void multiply(const product *p, const char *a, const char *b, char *c, const planes *s)
{
    if (p->alpha.value != 0 && p->k > 0) {
        unpack(p, a, p->trans_a, p->m, p->k, p->lda, s->a);
        unpack(p, b, p->trans_b, p->k, p->n, p->ldb, s->b);
    }
    for (int64_t j = 0; j < p->n && !fake_cuda_stopping(); j++)
        column(p, s, j, c + (size_t)(j * p->ldc) * fake_bytes(p->c_type));
}

/* Returns the address of a matrix of the batch. */
static uint64_t matrix_at(const product *p, uint64_t base, trp__cublas_type type, int64_t stride,
                          int64_t index)
{
    fake_pin pin = {0};
    uint64_t listed = 0;
    if (!p->listed)
        return base + (uint64_t)(index * stride) * fake_bytes(type);
    if (fake_cuda_reach(&pin, base + (uint64_t)index * sizeof listed, sizeof listed, false))
        memcpy(&listed, pin.at, sizeof listed);
    fake_cuda_let_go(&pin);
    return listed;
}

static void run_one(const product *p, int64_t index, const planes *s)
{
    fake_pin a = {0}, b = {0}, c = {0};
    bool reads = p->alpha.value != 0 && p->k > 0;
    uint64_t at_a = matrix_at(p, p->a, p->type, p->a_stride, index);
    uint64_t at_b = matrix_at(p, p->b, p->type, p->b_stride, index);
    uint64_t at_c = matrix_at(p, p->c, p->c_type, p->c_stride, index);
    size_t a_bytes =
        p->trans_a ? span(p->type, p->k, p->m, p->lda) : span(p->type, p->m, p->k, p->lda);
    size_t b_bytes =
        p->trans_b ? span(p->type, p->n, p->k, p->ldb) : span(p->type, p->k, p->n, p->ldb);
    if ((!reads || (fake_cuda_reach(&a, at_a, a_bytes, false) &&
                    fake_cuda_reach(&b, at_b, b_bytes, false))) &&
        fake_cuda_reach(&c, at_c, span(p->c_type, p->m, p->n, p->ldc), true))
        multiply(p, a.at, b.at, c.at, s);
    fake_cuda_let_go(&a);
    fake_cuda_let_go(&b);
    fake_cuda_let_go(&c);
}

static void run_product(void *arguments)
{
    product p = *(const product *)arguments;
    if (!fake_scalar_read(&p.alpha) || !fake_scalar_read(&p.beta))
        return;
    size_t a = (size_t)(p.m * p.k), b = (size_t)(p.k * p.n), sum = (size_t)p.m;
    double *scratch = malloc((a + b + sum) * 2 * sizeof *scratch);
    if (!scratch)
        abort();
    double *at_b = scratch + 2 * a, *at_sum = at_b + 2 * b;
    const planes s = {
        .a = {scratch, scratch + a}, .b = {at_b, at_b + b}, .sum = {at_sum, at_sum + sum}};
    for (int64_t i = 0; i < p.batch && !fake_cuda_stopping(); i++)
        run_one(&p, i, &s);
    free(scratch);
}

/* The supported combinations: type of A and B, type of C, and compute modes as bits. */
#define MODE(name) (UINT64_C(1) << (TRP__CUBLAS_COMPUTE_##name - 64))
#define F32        (MODE(32F) | MODE(32F_PEDANTIC))
#define F32_ONLY   (F32 | MODE(32F_FAST_TF32) | MODE(32F_EMULATED_16BFX9))
#define F64        (MODE(64F) | MODE(64F_PEDANTIC) | MODE(64F_EMULATED_FIXEDPOINT))
#define I32        (MODE(32I) | MODE(32I_PEDANTIC))
#define EMULATED   (MODE(32F_EMULATED_16BFX9) | MODE(64F_EMULATED_FIXEDPOINT))

static const struct {
    trp__cublas_type type, c_type;
    uint64_t modes;
    trp__cublas_type scalars;
} combinations[] = {
    {TRP__CUDA_R_64F, TRP__CUDA_R_64F, F64, TRP__CUDA_R_64F},
    {TRP__CUDA_C_64F, TRP__CUDA_C_64F, F64, TRP__CUDA_C_64F},
    {TRP__CUDA_R_32F, TRP__CUDA_R_32F, F32_ONLY, TRP__CUDA_R_32F},
    {TRP__CUDA_C_32F, TRP__CUDA_C_32F, F32_ONLY, TRP__CUDA_C_32F},
    {TRP__CUDA_R_16F, TRP__CUDA_R_16F, F32, TRP__CUDA_R_32F},
    {TRP__CUDA_R_16F, TRP__CUDA_R_32F, F32, TRP__CUDA_R_32F},
    {TRP__CUDA_R_16BF, TRP__CUDA_R_16BF, F32, TRP__CUDA_R_32F},
    {TRP__CUDA_R_16BF, TRP__CUDA_R_32F, F32, TRP__CUDA_R_32F},
    {TRP__CUDA_R_8I, TRP__CUDA_R_32F, F32, TRP__CUDA_R_32F},
    {TRP__CUDA_R_8I, TRP__CUDA_R_32I, I32, TRP__CUDA_R_32I},
};

/* Finds the type of the scalars; NOT_SUPPORTED: there is no such combination. */
static int find_scalars(const product *p, trp__cublas_type b_type, trp__cublas_compute compute,
                        trp__cublas_type *scalars)
{
    uint64_t bit = (unsigned int)compute - 64 < 64 ? UINT64_C(1) << (compute - 64) : 0;
    for (size_t i = 0; i < sizeof combinations / sizeof *combinations; i++) {
        *scalars = combinations[i].scalars;
        if (combinations[i].type == p->type && combinations[i].c_type == p->c_type &&
            (combinations[i].modes & bit) && b_type == p->type)
            return SUCCESS;
    }
    return NOT_SUPPORTED;
}

/* Under any strategy but the eager one, the library would skip emulation silently; the fake
 * refuses. A product must also reset the strategy. */
static bool good_strategy(trp__cublas_handle handle, trp__cublas_compute compute)
{
    bool emulated = (unsigned int)compute - 64 < 64 && ((EMULATED >> (compute - 64)) & 1);
    return handle->strategy == (emulated ? TRP__CUBLAS_EMULATION_STRATEGY_EAGER
                                         : TRP__CUBLAS_EMULATION_STRATEGY_DEFAULT);
}

/* Returns whether inputs of integers can be loaded four at a time, as their sums need. */
static bool in_fours(const product *p)
{
    uint64_t steps = (uint64_t)(p->lda | p->ldb | p->a_stride | p->b_stride);
    return (steps | (p->listed ? 0 : p->a | p->b)) % 4 == 0;
}

static int enqueue(trp__cublas_handle handle, const product *p)
{
    bool good_a = p->lda >= 1 && p->lda >= (p->trans_a ? p->k : p->m);
    bool good_b = p->ldb >= 1 && p->ldb >= (p->trans_b ? p->n : p->k);
    if (!FAKE_ONE_OF_3(p->trans_a) || !FAKE_ONE_OF_3(p->trans_b) || p->m < 0 || p->n < 0 ||
        p->k < 0 || p->batch < 0 || !good_a || !good_b || p->ldc < 1 || p->ldc < p->m)
        return INVALID_VALUE;
    if (p->m == 0 || p->n == 0 || p->batch == 0)
        return SUCCESS;
    if (!p->a || !p->b || !p->c)
        return INVALID_VALUE;
    return fake_cublas_enqueue(handle, run_product, p, sizeof *p);
}

/* Returns whether operands have the layout in which cuBLAS 13.1 on an H200 multiplies integers; it
 * takes some others, too. */
static bool is_tn(const product *p)
{
    return p->trans_a != TRP__CUBLAS_OP_N && p->trans_b == TRP__CUBLAS_OP_N;
}

/* Enqueues a product whose other fields are set. */
static trp__cublas_status start(trp__cublas_handle handle, product *p, const void *alpha,
                                const void *beta, trp__cublas_type b_type, trp__cublas_type c_type,
                                trp__cublas_compute compute, trp__cublas_algorithm algorithm)
{
    if (!fake_cublas_good(handle))
        return NOT_INITIALIZED;
    if ((int)algorithm != -1)
        return INVALID_VALUE;
    trp__cublas_type scalars;
    p->c_type = c_type;
    if (!good_strategy(handle, compute))
        return INVALID_VALUE;
    if (find_scalars(p, b_type, compute, &scalars) != SUCCESS ||
        (c_type == TRP__CUDA_R_32I && (!in_fours(p) || !is_tn(p))))
        return NOT_SUPPORTED;
    p->alpha = (fake_scalar){.at = alpha, .type = scalars};
    p->beta = (fake_scalar){.at = beta, .type = scalars};
    if (!fake_scalar_take(&p->alpha, handle->mode) || !fake_scalar_take(&p->beta, handle->mode))
        return INVALID_VALUE;
    return enqueue(handle, p);
}

trp__cublas_status cublasGemmStridedBatchedEx_64(
    trp__cublas_handle handle, trp__cublas_operation trans_a, trp__cublas_operation trans_b,
    int64_t m, int64_t n, int64_t k, const void *alpha, const void *a, trp__cublas_type a_type,
    int64_t lda, long long int a_stride, const void *b, trp__cublas_type b_type, int64_t ldb,
    long long int b_stride, const void *beta, void *c, trp__cublas_type c_type, int64_t ldc,
    long long int c_stride, int64_t batch, trp__cublas_compute compute,
    trp__cublas_algorithm algorithm)
{
    product p = {.trans_a = trans_a,
                 .trans_b = trans_b,
                 .type = a_type,
                 .m = m,
                 .n = n,
                 .k = k,
                 .lda = lda,
                 .ldb = ldb,
                 .ldc = ldc,
                 .a_stride = a_stride,
                 .b_stride = b_stride,
                 .c_stride = c_stride,
                 .batch = batch,
                 .a = (uintptr_t)a,
                 .b = (uintptr_t)b,
                 .c = (uintptr_t)c};
    return start(handle, &p, alpha, beta, b_type, c_type, compute, algorithm);
}

trp__cublas_status cublasGemmBatchedEx(trp__cublas_handle handle, trp__cublas_operation trans_a,
                                       trp__cublas_operation trans_b, int m, int n, int k,
                                       const void *alpha, const void *const a[],
                                       trp__cublas_type a_type, int lda, const void *const b[],
                                       trp__cublas_type b_type, int ldb, const void *beta,
                                       void *const c[], trp__cublas_type c_type, int ldc, int batch,
                                       trp__cublas_compute compute, trp__cublas_algorithm algorithm)
{
    product p = {.trans_a = trans_a,
                 .trans_b = trans_b,
                 .type = a_type,
                 .m = m,
                 .n = n,
                 .k = k,
                 .lda = lda,
                 .ldb = ldb,
                 .ldc = ldc,
                 .batch = batch,
                 .a = (uintptr_t)a,
                 .b = (uintptr_t)b,
                 .c = (uintptr_t)c,
                 .listed = true};
    return start(handle, &p, alpha, beta, b_type, c_type, compute, algorithm);
}

/* Enqueues a batch of products for each group; reads all host arrays now. */
trp__cublas_status
cublasGemmGroupedBatchedEx(trp__cublas_handle handle, const trp__cublas_operation trans_a[],
                           const trp__cublas_operation trans_b[], const int m[], const int n[],
                           const int k[], const void *alpha, const void *const a[],
                           trp__cublas_type a_type, const int lda[], const void *const b[],
                           trp__cublas_type b_type, const int ldb[], const void *beta,
                           void *const c[], trp__cublas_type c_type, const int ldc[],
                           int group_count, const int group_size[], trp__cublas_compute compute)
{
    size_t scalar = a_type == TRP__CUDA_R_64F ? 8 : 4;
    if (!fake_cublas_good(handle))
        return NOT_INITIALIZED;
    if (handle->mode != TRP__CUBLAS_POINTER_MODE_HOST || group_count < 0)
        return INVALID_VALUE;
    if (a_type != c_type || fake_complex(a_type) ||
        (fake_bytes(a_type) == 2 && compute != TRP__CUBLAS_COMPUTE_32F))
        return NOT_SUPPORTED;
    for (int i = 0, first = 0; i < group_count; first += group_size[i++]) {
        trp__cublas_status status = cublasGemmBatchedEx(
            handle, trans_a[i], trans_b[i], m[i], n[i], k[i],
            (const char *)alpha + (size_t)i * scalar, a + first, a_type, lda[i], b + first, b_type,
            ldb[i], (const char *)beta + (size_t)i * scalar, c + first, c_type, ldc[i],
            group_size[i], compute, TRP__CUBLAS_GEMM_DEFAULT);
        if (status != SUCCESS)
            return status;
    }
    return SUCCESS;
}

trp__cublas_status cublasGemmStridedBatchedEx(
    trp__cublas_handle handle, trp__cublas_operation trans_a, trp__cublas_operation trans_b, int m,
    int n, int k, const void *alpha, const void *a, trp__cublas_type a_type, int lda,
    long long int a_stride, const void *b, trp__cublas_type b_type, int ldb, long long int b_stride,
    const void *beta, void *c, trp__cublas_type c_type, int ldc, long long int c_stride, int batch,
    trp__cublas_compute compute, trp__cublas_algorithm algorithm)
{
    return cublasGemmStridedBatchedEx_64(handle, trans_a, trans_b, m, n, k, alpha, a, a_type, lda,
                                         a_stride, b, b_type, ldb, b_stride, beta, c, c_type, ldc,
                                         c_stride, batch, compute, algorithm);
}

trp__cublas_status cublasGemmEx_64(trp__cublas_handle handle, trp__cublas_operation trans_a,
                                   trp__cublas_operation trans_b, int64_t m, int64_t n, int64_t k,
                                   const void *alpha, const void *a, trp__cublas_type a_type,
                                   int64_t lda, const void *b, trp__cublas_type b_type, int64_t ldb,
                                   const void *beta, void *c, trp__cublas_type c_type, int64_t ldc,
                                   trp__cublas_compute compute, trp__cublas_algorithm algorithm)
{
    return cublasGemmStridedBatchedEx_64(handle, trans_a, trans_b, m, n, k, alpha, a, a_type, lda,
                                         0, b, b_type, ldb, 0, beta, c, c_type, ldc, 0, 1, compute,
                                         algorithm);
}

trp__cublas_status cublasGemmEx(trp__cublas_handle handle, trp__cublas_operation trans_a,
                                trp__cublas_operation trans_b, int m, int n, int k,
                                const void *alpha, const void *a, trp__cublas_type a_type, int lda,
                                const void *b, trp__cublas_type b_type, int ldb, const void *beta,
                                void *c, trp__cublas_type c_type, int ldc,
                                trp__cublas_compute compute, trp__cublas_algorithm algorithm)
{
    return cublasGemmEx_64(handle, trans_a, trans_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb,
                           beta, c, c_type, ldc, compute, algorithm);
}

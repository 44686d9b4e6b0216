/* A fake cuBLAS on the fake driver: products by a plain loop with sums in f64, in a stream's order.
 */
#include "support/fake_cuda/hooks.h"

#include "actors/blas/cublas_abi.h"
#include "base/half.h"

#include <stdlib.h>
#include <string.h>

/* Every function of the table, as in fake.h. */
#define DECLARE(result, name, parameters, required) FAKE_API result name parameters;
TRP__CUBLAS_FUNCTIONS(DECLARE)
#undef DECLARE

static const struct {
#define MEMBER(result, name, parameters, required) result(*name) parameters;
    TRP__CUBLAS_FUNCTIONS(MEMBER)
#undef MEMBER
} all __attribute__((used)) = {
#define ROW(result, name, parameters, required) .name = name,
    TRP__CUBLAS_FUNCTIONS(ROW)
#undef ROW
};

#define STATUSES(X)                                                                                \
    X(SUCCESS, 0)                                                                                  \
    X(NOT_INITIALIZED, 1)                                                                          \
    X(ALLOC_FAILED, 3)                                                                             \
    X(INVALID_VALUE, 7)                                                                            \
    X(EXECUTION_FAILED, 13)                                                                        \
    X(NOT_SUPPORTED, 15)

enum {
#define STATUS(name, code) name = code,
    STATUSES(STATUS)
#undef STATUS
};

enum { MAGIC = 0xb1a5 };

struct trp__cublas_opaque {
    int magic;
    trp__cu_stream stream;
    trp__cublas_pointer_mode mode;
};

static bool good(trp__cublas_handle handle)
{
    return handle && handle->magic == MAGIC;
}

trp__cublas_status cublasCreate_v2(trp__cublas_handle *handle)
{
    if (fake_cuda_usable() != 0)
        return NOT_INITIALIZED;
    *handle = malloc(sizeof **handle);
    if (!*handle)
        return ALLOC_FAILED;
    **handle = (struct trp__cublas_opaque){.magic = MAGIC};
    return SUCCESS;
}

trp__cublas_status cublasDestroy_v2(trp__cublas_handle handle)
{
    if (!good(handle))
        return NOT_INITIALIZED;
    handle->magic = 0;
    free(handle);
    return SUCCESS;
}

trp__cublas_status cublasGetProperty(trp__cublas_property property, int *value)
{
    static const int version[] = {13, 0, 0};
    if ((int)property < 0 || (int)property > 2)
        return INVALID_VALUE;
    *value = version[property];
    return SUCCESS;
}

const char *cublasGetStatusName(trp__cublas_status status)
{
    switch (status) {
#define CASE(name, code)                                                                           \
    case code:                                                                                     \
        return "CUBLAS_STATUS_" #name;
        STATUSES(CASE)
#undef CASE
    default:
        return "CUBLAS_STATUS_UNKNOWN";
    }
}

const char *cublasGetStatusString(trp__cublas_status status)
{
    return status == SUCCESS ? "success" : "the fake cuBLAS refused";
}

trp__cublas_status cublasSetStream_v2(trp__cublas_handle handle, trp__cu_stream stream)
{
    if (!good(handle))
        return NOT_INITIALIZED;
    handle->stream = stream;
    return SUCCESS;
}

trp__cublas_status cublasSetWorkspace_v2(trp__cublas_handle handle, void *workspace, size_t bytes)
{
    if (!good(handle))
        return NOT_INITIALIZED;
    return (uintptr_t)workspace % 256 == 0 && (workspace || bytes == 0) ? SUCCESS : INVALID_VALUE;
}

/* Sums are in f64 in every mode. */
trp__cublas_status cublasSetMathMode(trp__cublas_handle handle, trp__cublas_math mode)
{
    if (!good(handle))
        return NOT_INITIALIZED;
    return ((int)mode & ~16) == 0 ? SUCCESS : INVALID_VALUE;
}

trp__cublas_status cublasSetPointerMode_v2(trp__cublas_handle handle, trp__cublas_pointer_mode mode)
{
    if (!good(handle))
        return NOT_INITIALIZED;
    if (mode != TRP__CUBLAS_POINTER_MODE_HOST && mode != TRP__CUBLAS_POINTER_MODE_DEVICE)
        return INVALID_VALUE;
    handle->mode = mode;
    return SUCCESS;
}

/* Products. */

typedef struct product {
    bool trans_a, trans_b;
    trp__cublas_type type;
    int64_t m, n, k, lda, ldb, ldc, a_stride, b_stride, c_stride, batch;
    uint64_t a, b, c; /* device addresses */
    double alpha, beta;
} product;

_Static_assert(sizeof(product) <= FAKE_ARGUMENT_BYTES, "a product fits into an operation");

static size_t type_bytes(trp__cublas_type type)
{
    return type == TRP__CUDA_R_64F ? 8 : type == TRP__CUDA_R_32F ? 4 : 2;
}

static double load(trp__cublas_type type, const char *at)
{
    uint16_t half;
    float f32;
    double f64;
    switch (type) {
    case TRP__CUDA_R_64F:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case TRP__CUDA_R_32F:
        memcpy(&f32, at, sizeof f32);
        return (double)f32;
    default:
        memcpy(&half, at, sizeof half);
        return (double)(type == TRP__CUDA_R_16F ? trp__f16_to_f32(half) : trp__bf16_to_f32(half));
    }
}

static void store(trp__cublas_type type, char *at, double value)
{
    float f32 = (float)value;
    uint16_t half;
    switch (type) {
    case TRP__CUDA_R_64F:
        memcpy(at, &value, sizeof value);
        break;
    case TRP__CUDA_R_32F:
        memcpy(at, &f32, sizeof f32);
        break;
    default:
        half = type == TRP__CUDA_R_16F ? trp__f32_to_f16(f32) : trp__f32_to_bf16(f32);
        memcpy(at, &half, sizeof half);
    }
}

/* The bytes of a column-major matrix from its first element to its last. */
static size_t span(const product *p, int64_t rows, int64_t columns, int64_t ld)
{
    return rows > 0 && columns > 0 ? (size_t)((columns - 1) * ld + rows) * type_bytes(p->type) : 0;
}

/* op(X), rows by columns, as packed columns of f64. */
static void unpack(const product *p, const char *x, bool transposed, int64_t rows, int64_t columns,
                   int64_t ld, double *out)
{
    size_t size = type_bytes(p->type);
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t i = 0; i < rows; i++)
            *out++ = load(p->type, x + (size_t)(transposed ? j + i * ld : i + j * ld) * size);
    }
}

/* One column of C. What is multiplied by 0 is not read. */
static void column(const product *p, const double *a, const double *b, double *sum, char *c)
{
    size_t size = type_bytes(p->type);
    memset(sum, 0, (size_t)p->m * sizeof *sum);
    for (int64_t l = 0; l < p->k && p->alpha != 0; l++) {
        for (int64_t i = 0; i < p->m; i++)
            sum[i] += a[l * p->m + i] * b[l];
    }
    for (int64_t i = 0; i < p->m; i++) {
        char *at = c + (size_t)i * size;
        double value = p->alpha != 0 ? p->alpha * sum[i] : 0;
        store(p->type, at, p->beta != 0 ? value + p->beta * load(p->type, at) : value);
    }
}

static void multiply(const product *p, const char *a, const char *b, char *c, double *scratch)
{
    double *a_packed = scratch, *b_packed = a_packed + p->m * p->k, *sum = b_packed + p->k * p->n;
    if (p->alpha != 0 && p->k > 0) {
        unpack(p, a, p->trans_a, p->m, p->k, p->lda, a_packed);
        unpack(p, b, p->trans_b, p->k, p->n, p->ldb, b_packed);
    }
    for (int64_t j = 0; j < p->n && !fake_cuda_stopping(); j++)
        column(p, a_packed, b_packed + j * p->k, sum,
               c + (size_t)(j * p->ldc) * type_bytes(p->type));
}

static void run_one(const product *p, int64_t index, double *scratch)
{
    fake_pin a = {0}, b = {0}, c = {0};
    size_t size = type_bytes(p->type);
    bool reads = p->alpha != 0 && p->k > 0;
    uint64_t at_a = p->a + (uint64_t)(index * p->a_stride) * size;
    uint64_t at_b = p->b + (uint64_t)(index * p->b_stride) * size;
    uint64_t at_c = p->c + (uint64_t)(index * p->c_stride) * size;
    size_t a_bytes = p->trans_a ? span(p, p->k, p->m, p->lda) : span(p, p->m, p->k, p->lda);
    size_t b_bytes = p->trans_b ? span(p, p->n, p->k, p->ldb) : span(p, p->k, p->n, p->ldb);
    if ((!reads || (fake_cuda_reach(&a, at_a, a_bytes, false) &&
                    fake_cuda_reach(&b, at_b, b_bytes, false))) &&
        fake_cuda_reach(&c, at_c, span(p, p->m, p->n, p->ldc), true))
        multiply(p, a.at, b.at, c.at, scratch);
    fake_cuda_let_go(&a);
    fake_cuda_let_go(&b);
    fake_cuda_let_go(&c);
}

static void run_product(void *arguments)
{
    const product *p = arguments;
    double *scratch = malloc((size_t)(p->m * p->k + p->k * p->n + p->m) * sizeof *scratch);
    if (!scratch)
        abort();
    for (int64_t i = 0; i < p->batch && !fake_cuda_stopping(); i++)
        run_one(p, i, scratch);
    free(scratch);
}

static bool good_types(trp__cublas_type a, trp__cublas_type b, trp__cublas_type c,
                       trp__cublas_compute compute)
{
    bool f64 = a == TRP__CUDA_R_64F;
    bool known = f64 || a == TRP__CUDA_R_32F || a == TRP__CUDA_R_16F || a == TRP__CUDA_R_16BF;
    return known && a == b && a == c && f64 == (compute == TRP__CUBLAS_COMPUTE_64F);
}

static bool is_empty(const product *p)
{
    return p->m == 0 || p->n == 0 || p->batch == 0;
}

static bool check(const product *p)
{
    bool good_a = p->lda >= 1 && p->lda >= (p->trans_a ? p->k : p->m);
    bool good_b = p->ldb >= 1 && p->ldb >= (p->trans_b ? p->n : p->k);
    return p->m >= 0 && p->n >= 0 && p->k >= 0 && p->batch >= 0 && good_a && good_b &&
           p->ldc >= 1 && p->ldc >= p->m && (is_empty(p) || (p->a && p->b && p->c));
}

static int enqueue(trp__cublas_handle handle, const product *p)
{
    if (!check(p))
        return INVALID_VALUE;
    if (is_empty(p))
        return SUCCESS;
    return fake_cuda_enqueue(handle->stream, run_product, p, sizeof *p) == 0 ? SUCCESS
                                                                             : EXECUTION_FAILED;
}

static double scalar(trp__cublas_compute compute, const void *at)
{
    double f64;
    float f32;
    if (compute == TRP__CUBLAS_COMPUTE_64F) {
        memcpy(&f64, at, sizeof f64);
        return f64;
    }
    memcpy(&f32, at, sizeof f32);
    return (double)f32;
}

static trp__cublas_status make_product(product *out, trp__cublas_handle handle,
                                       trp__cublas_operation trans_a, trp__cublas_operation trans_b,
                                       int64_t m, int64_t n, int64_t k, const void *alpha,
                                       const void *a, trp__cublas_type a_type, int64_t lda,
                                       long long int a_stride, const void *b,
                                       trp__cublas_type b_type, int64_t ldb, long long int b_stride,
                                       const void *beta, void *c, trp__cublas_type c_type,
                                       int64_t ldc, long long int c_stride, int64_t batch,
                                       trp__cublas_compute compute, trp__cublas_algorithm algorithm)
{
    if (!good(handle))
        return NOT_INITIALIZED;
    if (!alpha || !beta || (int)algorithm != -1)
        return INVALID_VALUE;
    if (!good_types(a_type, b_type, c_type, compute))
        return NOT_SUPPORTED;
    *out = (product){.trans_a = trans_a == TRP__CUBLAS_OP_T,
                     .trans_b = trans_b == TRP__CUBLAS_OP_T,
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
                     .c = (uintptr_t)c,
                     .alpha = scalar(compute, alpha),
                     .beta = scalar(compute, beta)};
    return SUCCESS;
}

trp__cublas_status cublasGemmStridedBatchedEx_64(
    trp__cublas_handle handle, trp__cublas_operation trans_a, trp__cublas_operation trans_b,
    int64_t m, int64_t n, int64_t k, const void *alpha, const void *a, trp__cublas_type a_type,
    int64_t lda, long long int a_stride, const void *b, trp__cublas_type b_type, int64_t ldb,
    long long int b_stride, const void *beta, void *c, trp__cublas_type c_type, int64_t ldc,
    long long int c_stride, int64_t batch, trp__cublas_compute compute,
    trp__cublas_algorithm algorithm)
{
    product p;
    trp__cublas_status status = make_product(&p, handle, trans_a, trans_b, m, n, k, alpha, a,
                                             a_type, lda, a_stride, b, b_type, ldb, b_stride, beta,
                                             c, c_type, ldc, c_stride, batch, compute, algorithm);
    return status == SUCCESS ? enqueue(handle, &p) : status;
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

/* Products whose addresses are in arrays, which are read when they run. */

typedef struct joined {
    product product;
    uint64_t a, b, c; /* addresses of the arrays */
} joined;

_Static_assert(sizeof(joined) <= FAKE_ARGUMENT_BYTES, "joined products fit into an operation");

static uint64_t address_at(uint64_t array, int64_t index)
{
    fake_pin pin = {0};
    uint64_t value = 0;
    const void *at = fake_cuda_reach(&pin, array + (uint64_t)index * 8, 8, false);
    if (at)
        memcpy(&value, at, sizeof value);
    fake_cuda_let_go(&pin);
    return value;
}

static void run_joined(void *arguments)
{
    const joined *j = arguments;
    product p = j->product;
    for (int64_t i = 0; i < j->product.batch && !fake_cuda_stopping(); i++) {
        p.a = address_at(j->a, i);
        p.b = address_at(j->b, i);
        p.c = address_at(j->c, i);
        p.batch = 1;
        run_product(&p);
    }
}

trp__cublas_status cublasGemmBatchedEx(trp__cublas_handle handle, trp__cublas_operation trans_a,
                                       trp__cublas_operation trans_b, int m, int n, int k,
                                       const void *alpha, const void *const a[],
                                       trp__cublas_type a_type, int lda, const void *const b[],
                                       trp__cublas_type b_type, int ldb, const void *beta,
                                       void *const c[], trp__cublas_type c_type, int ldc, int batch,
                                       trp__cublas_compute compute, trp__cublas_algorithm algorithm)
{
    joined j = {.a = (uintptr_t)a, .b = (uintptr_t)b, .c = (uintptr_t)c};
    trp__cublas_status status = make_product(
        &j.product, handle, trans_a, trans_b, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0,
        beta, (void *)(uintptr_t)c, c_type, ldc, 0, batch, compute, algorithm);
    if (status != SUCCESS || !check(&j.product) || is_empty(&j.product))
        return status != SUCCESS ? status : check(&j.product) ? SUCCESS : INVALID_VALUE;
    return fake_cuda_enqueue(handle->stream, run_joined, &j, sizeof j) == 0 ? SUCCESS
                                                                            : EXECUTION_FAILED;
}

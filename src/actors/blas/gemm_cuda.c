/* gemm on NVIDIA GPUs: cublasGemmEx and its variants. */
#include "actors/blas/gemm_cuda.h"

#include "actors/blas/blas_wire.h"
#include "base/error.h"
#include "base/numbers/types.h"

#include <troupe/blas.h>

#include <limits.h>
#include <string.h>

/* Products are joined up to this m n k. Larger ones keep an H200 busy by themselves, so joining
 * them is not known to be faster. */
#define JOINED_WORK (INT64_C(1024) * 1024 * 1024)

/* Devices of this compute capability or later can emulate f32 by products of bf16. */
enum { EMULATION_MAJOR = 10 };

typedef trp__blas_state state;

static trp__cublas_type data_type(uint8_t type)
{
    switch (type) {
    case TRP_F64:
        return TRP__CUDA_R_64F;
    case TRP_F16:
        return TRP__CUDA_R_16F;
    case TRP_BF16:
        return TRP__CUDA_R_16BF;
    case TRP_I8:
        return TRP__CUDA_R_8I;
    case TRP_I32:
        return TRP__CUDA_R_32I;
    case TRP_C64:
        return TRP__CUDA_C_32F;
    case TRP_C128:
        return TRP__CUDA_C_64F;
    default:
        return TRP__CUDA_R_32F;
    }
}

static trp_dtype scalar_type(const trp__gemm *g)
{
    return trp__gemm_scalar_type((trp_dtype)g->type, (trp_dtype)g->type_c);
}

static trp__cublas_compute compute_type(const trp__gemm *g)
{
    static const trp__cublas_compute integer[] = {
        [TRP_COMPUTE_DEFAULT] = TRP__CUBLAS_COMPUTE_32I,
        [TRP_COMPUTE_TF32] = TRP__CUBLAS_COMPUTE_32I,
        [TRP_COMPUTE_PEDANTIC] = TRP__CUBLAS_COMPUTE_32I_PEDANTIC,
        [TRP_COMPUTE_EMULATED] = TRP__CUBLAS_COMPUTE_32I,
    };
    static const trp__cublas_compute wide[] = {
        [TRP_COMPUTE_DEFAULT] = TRP__CUBLAS_COMPUTE_64F,
        [TRP_COMPUTE_TF32] = TRP__CUBLAS_COMPUTE_64F,
        [TRP_COMPUTE_PEDANTIC] = TRP__CUBLAS_COMPUTE_64F_PEDANTIC,
        [TRP_COMPUTE_EMULATED] = TRP__CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT,
    };
    static const trp__cublas_compute single[] = {
        [TRP_COMPUTE_DEFAULT] = TRP__CUBLAS_COMPUTE_32F,
        [TRP_COMPUTE_TF32] = TRP__CUBLAS_COMPUTE_32F_FAST_TF32,
        [TRP_COMPUTE_PEDANTIC] = TRP__CUBLAS_COMPUTE_32F_PEDANTIC,
        [TRP_COMPUTE_EMULATED] = TRP__CUBLAS_COMPUTE_32F_EMULATED_16BFX9,
    };
    uint32_t mode = g->compute % (sizeof single / sizeof *single);
    return g->type_c == TRP_I32                        ? integer[mode]
           : g->type == TRP_F64 || g->type == TRP_C128 ? wide[mode]
                                                       : single[mode];
}

static bool fits_32_bits(const trp__gemm *g)
{
    return g->m <= INT_MAX && g->n <= INT_MAX && g->k <= INT_MAX && g->lda <= INT_MAX &&
           g->ldb <= INT_MAX && g->ldc <= INT_MAX && g->batch <= INT_MAX;
}

/* Addresses of a product. Scalars from a buffer are on the device. */
typedef struct gemm_operands {
    const void *a, *b, *alpha, *beta;
    void *c;
} gemm_operands;

static trp_status gemm_32(state *s, const trp__gemm *g, const gemm_operands *x, trp_error *error)
{
    const trp__cublas *blas = s->blas;
    trp__cublas_type type = data_type(g->type), type_c = data_type(g->type_c);
    if (g->batch == 1)
        return trp__cublas_check(
            blas,
            blas->cublasGemmEx(
                s->handle, trp__cublas_trans(g->trans_a), trp__cublas_trans(g->trans_b), (int)g->m,
                (int)g->n, (int)g->k, x->alpha, x->a, type, (int)g->lda, x->b, type, (int)g->ldb,
                x->beta, x->c, type_c, (int)g->ldc, compute_type(g), TRP__CUBLAS_GEMM_DEFAULT),
            "cublasGemmEx", error);
    return trp__cublas_check(
        blas,
        blas->cublasGemmStridedBatchedEx(
            s->handle, trp__cublas_trans(g->trans_a), trp__cublas_trans(g->trans_b), (int)g->m,
            (int)g->n, (int)g->k, x->alpha, x->a, type, (int)g->lda, g->a_stride, x->b, type,
            (int)g->ldb, g->b_stride, x->beta, x->c, type_c, (int)g->ldc, g->c_stride,
            (int)g->batch, compute_type(g), TRP__CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx", error);
}

static trp_status gemm_64(state *s, const trp__gemm *g, const gemm_operands *x, trp_error *error)
{
    const trp__cublas *blas = s->blas;
    trp__cublas_type type = data_type(g->type), type_c = data_type(g->type_c);
    if (!blas->cublasGemmEx_64 || !blas->cublasGemmStridedBatchedEx_64)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "m, n, k, a leading dimension or batch is 2^31 or more, and this "
                              "cuBLAS has no cublasGemmEx_64");
    if (g->batch == 1)
        return trp__cublas_check(blas,
                                 blas->cublasGemmEx_64(s->handle, trp__cublas_trans(g->trans_a),
                                                       trp__cublas_trans(g->trans_b), g->m, g->n,
                                                       g->k, x->alpha, x->a, type, g->lda, x->b,
                                                       type, g->ldb, x->beta, x->c, type_c, g->ldc,
                                                       compute_type(g), TRP__CUBLAS_GEMM_DEFAULT),
                                 "cublasGemmEx_64", error);
    return trp__cublas_check(blas,
                             blas->cublasGemmStridedBatchedEx_64(
                                 s->handle, trp__cublas_trans(g->trans_a),
                                 trp__cublas_trans(g->trans_b), g->m, g->n, g->k, x->alpha, x->a,
                                 type, g->lda, g->a_stride, x->b, type, g->ldb, g->b_stride,
                                 x->beta, x->c, type_c, g->ldc, g->c_stride, g->batch,
                                 compute_type(g), TRP__CUBLAS_GEMM_DEFAULT),
                             "cublasGemmStridedBatchedEx_64", error);
}

/* cuBLAS 13 supports only one layout for integers, and not all sizes. */
static trp_status refuse_integers(const state *s, trp_error *error)
{
    char version[32];
    trp__cublas_version(s->blas, version, sizeof version);
    return trp__error_set_code(
        error, TRP_E_UNSUPPORTED, "cublas", TRP__CUBLAS_NOT_SUPPORTED,
        "type_c: cuBLAS %s does not support this product of i8 with C of i32. "
        "It supports those with A transposed and B not (in row-major order: A "
        "not and B transposed) whose m, n and k are multiples of 16; with C "
        "of f32, it supports all",
        version);
}

static trp_status multiply(state *s, const trp__gemm *given, const gemm_operands *x,
                           trp_error *error)
{
    trp__gemm product = *given, *g = &product;
    if (g->k == 0) { /* A and B are not read, so they get the layout that cuBLAS supports */
        g->trans_a = TRP_T;
        g->trans_b = TRP_N;
        g->lda = g->ldb = 4;
    }
    trp_status status = fits_32_bits(g) ? gemm_32(s, g, x, error) : gemm_64(s, g, x, error);
    return status == TRP_E_UNSUPPORTED && g->type_c == TRP_I32 ? refuse_integers(s, error) : status;
}

/* Checks that library and device support the emulation that a product requests. cuBLAS would
 * compute without emulation and not report it. */
static trp_status check_emulation(const state *s, const trp__gemm *g, trp_error *error)
{
    bool wide = g->type == TRP_F64 || g->type == TRP_C128;
    const trp__cublas *blas = s->blas;
    char version[32];
    if (!blas->cublasSetEmulationStrategy ||
        (wide && !blas->cublasSetFixedPointEmulationMaxMantissaBitCount)) {
        trp__cublas_version(blas, version, sizeof version);
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "compute: TRP_COMPUTE_EMULATED for type %s needs cuBLAS %s or later, "
                              "this one is %s",
                              trp_dtype_name((trp_dtype)g->type), wide ? "13.1" : "12.9", version);
    }
    if (!wide && s->major < EMULATION_MAJOR)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "compute: TRP_COMPUTE_EMULATED for type %s needs a device of compute "
                              "capability %d.0 or later, this one has %d",
                              trp_dtype_name((trp_dtype)g->type), EMULATION_MAJOR, s->major);
    return TRP_OK;
}

/* Between calls, the handle has the pointer mode of the host and the default strategy. */
static trp_status set_modes(const state *s, trp__cublas_pointer_mode mode,
                            trp__cublas_strategy strategy, trp_error *error)
{
    const trp__cublas *blas = s->blas;
    trp_status status = trp__cublas_check(blas, blas->cublasSetPointerMode_v2(s->handle, mode),
                                          "cublasSetPointerMode", error);
    if (status == TRP_OK && blas->cublasSetEmulationStrategy)
        status = trp__cublas_check(blas, blas->cublasSetEmulationStrategy(s->handle, strategy),
                                   "cublasSetEmulationStrategy", error);
    return status;
}

trp_status trp__gemm_cuda(state *s, const trp_job *job, trp_error *error)
{
    trp__gemm g;
    trp_error ignored;
    memcpy(&g, job->payload, sizeof g);
    if (g.m == 0 || g.n == 0)
        return TRP_OK;
    bool in_buffer = g.scalars != TRP__GEMM_NO_ACCESS;
    bool emulated = g.compute == TRP_COMPUTE_EMULATED;
    trp__scalar alpha = trp__scalar_of(scalar_type(&g), g.alpha);
    trp__scalar beta = trp__scalar_of(scalar_type(&g), g.beta);
    gemm_operands x = {.c = job->access[TRP__GEMM_C].address, .alpha = &alpha, .beta = &beta};
    /* With k 0, cuBLAS reads neither A nor B, but may refuse NULL. */
    x.a = g.k > 0 ? job->access[TRP__GEMM_A].address : x.c;
    x.b = g.k > 0 ? job->access[TRP__GEMM_B].address : x.c;
    if (!in_buffer && !emulated)
        return multiply(s, &g, &x, error);

    if (in_buffer) {
        x.alpha = job->access[g.scalars].address;
        x.beta = (const char *)x.alpha + trp_dtype_bits(scalar_type(&g)) / 8;
    }
    trp_status status = emulated ? check_emulation(s, &g, error) : TRP_OK;
    if (status != TRP_OK)
        return status;
    status = set_modes(
        s, in_buffer ? TRP__CUBLAS_POINTER_MODE_DEVICE : TRP__CUBLAS_POINTER_MODE_HOST,
        emulated ? TRP__CUBLAS_EMULATION_STRATEGY_EAGER : TRP__CUBLAS_EMULATION_STRATEGY_DEFAULT,
        error);
    if (status == TRP_OK)
        status = multiply(s, &g, &x, error);
    trp_status after =
        set_modes(s, TRP__CUBLAS_POINTER_MODE_HOST, TRP__CUBLAS_EMULATION_STRATEGY_DEFAULT,
                  status == TRP_OK ? error : &ignored);
    return status == TRP_OK ? after : status;
}

/* Joined products. */

/* Returns whether a product can be joined with others of its kind. */
static bool can_join(const trp__gemm *g)
{
    int64_t work;
    return !g->apart && g->compute != TRP_COMPUTE_EMULATED && g->batch == 1 &&
           g->scalars == TRP__GEMM_NO_ACCESS && g->m > 0 && g->n > 0 && g->k > 0 &&
           fits_32_bits(g) && !__builtin_mul_overflow(g->m, g->n, &work) &&
           !__builtin_mul_overflow(work, g->k, &work) && work <= JOINED_WORK;
}

/* Returns whether cublasGemmGroupedBatchedEx supports products of a kind.
 *
 * Source: cuBLAS documentation. */
static bool can_group(const state *s, const trp__gemm *g)
{
    if (!s->blas->cublasGemmGroupedBatchedEx || !g->grouped || g->type != g->type_c)
        return false;
    switch (g->type) {
    case TRP_F32:
    case TRP_F64:
        return true;
    case TRP_F16:
    case TRP_BF16:
        return g->compute == TRP_COMPUTE_DEFAULT;
    default:
        return false;
    }
}

/* Each group has its own sizes, scalars and options. */
static bool may_be_grouped(const trp__gemm *x, const trp__gemm *y)
{
    return y->grouped && x->type == y->type && x->type_c == y->type_c && x->compute == y->compute;
}

bool trp__gemm_cuda_joins(trp_instance *instance, const trp_job *first, const trp_job *next)
{
    const state *s = instance->state;
    if (!s->ring || next->op != TRP_OP_GEMM)
        return false;
    trp__gemm g, other;
    if (first != next && memcmp(first->payload, next->payload, sizeof g) == 0)
        return true;
    memcpy(&g, next->payload, sizeof g);
    if (first == next)
        return can_join(&g);
    memcpy(&other, first->payload, sizeof other);
    return can_group(s, &other) && may_be_grouped(&other, &g) && can_join(&g);
}

/* The kernels for batches need addresses that are aligned for vector loads. */
static bool is_aligned(const trp_job *job)
{
    uintptr_t all = 0;
    for (uint32_t i = 0; i < job->access_count; i++)
        all |= (uintptr_t)job->access[i].address;
    return all % 16 == 0;
}

/* Multiplies products of one size. */
static trp_status multiply_equal(const state *s, const trp__gemm *g, const trp__gemm_addresses *at,
                                 uint32_t count, trp_error *error)
{
    trp__scalar alpha = trp__scalar_of(scalar_type(g), g->alpha);
    trp__scalar beta = trp__scalar_of(scalar_type(g), g->beta);
    trp__cublas_type type = data_type(g->type), type_c = data_type(g->type_c);
    return trp__cublas_check(
        s->blas,
        s->blas->cublasGemmBatchedEx(
            s->handle, trp__cublas_trans(g->trans_a), trp__cublas_trans(g->trans_b), (int)g->m,
            (int)g->n, (int)g->k, &alpha, at->a, type, (int)g->lda, at->b, type, (int)g->ldb, &beta,
            at->c, type_c, (int)g->ldc, (int)count, compute_type(g), TRP__CUBLAS_GEMM_DEFAULT),
        "cublasGemmBatchedEx", error);
}

/* Multiplies products of different sizes, each of which is a group of one. cuBLAS reads the options
 * of the groups from host memory, and the addresses from device memory. */
static trp_status multiply_each(const state *s, trp_job *const *jobs, const trp__gemm_addresses *at,
                                uint32_t count, trp_error *error)
{
    trp__cublas_operation trans_a[TRP_ACTOR_JOINED_MAX], trans_b[TRP_ACTOR_JOINED_MAX];
    int m[TRP_ACTOR_JOINED_MAX], n[TRP_ACTOR_JOINED_MAX], k[TRP_ACTOR_JOINED_MAX];
    int lda[TRP_ACTOR_JOINED_MAX], ldb[TRP_ACTOR_JOINED_MAX], ldc[TRP_ACTOR_JOINED_MAX];
    int one[TRP_ACTOR_JOINED_MAX];
    _Alignas(double) char alpha[TRP_ACTOR_JOINED_MAX * sizeof(double)];
    _Alignas(double) char beta[sizeof alpha];
    trp__gemm g;
    memcpy(&g, jobs[0]->payload, sizeof g);
    size_t scalar_bytes = trp_dtype_bits(scalar_type(&g)) / 8;
    trp__cublas_type type = data_type(g.type);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&g, jobs[i]->payload, sizeof g);
        trans_a[i] = trp__cublas_trans(g.trans_a);
        trans_b[i] = trp__cublas_trans(g.trans_b);
        m[i] = (int)g.m;
        n[i] = (int)g.n;
        k[i] = (int)g.k;
        lda[i] = (int)g.lda;
        ldb[i] = (int)g.ldb;
        ldc[i] = (int)g.ldc;
        one[i] = 1;
        trp__scalar a = trp__scalar_of(scalar_type(&g), g.alpha),
                    b = trp__scalar_of(scalar_type(&g), g.beta);
        memcpy(alpha + i * scalar_bytes, &a, scalar_bytes);
        memcpy(beta + i * scalar_bytes, &b, scalar_bytes);
    }
    return trp__cublas_check(s->blas,
                             s->blas->cublasGemmGroupedBatchedEx(s->handle, trans_a, trans_b, m, n,
                                                                 k, alpha, at->a, type, lda, at->b,
                                                                 type, ldb, beta, at->c, type, ldc,
                                                                 (int)count, one, compute_type(&g)),
                             "cublasGemmGroupedBatchedEx", error);
}

trp_status trp__gemm_cuda_joined(trp_instance *instance, trp_job *const *jobs, uint32_t count,
                                 trp_error *error)
{
    state *s = instance->state;
    trp__gemm_addresses *at = &s->ring[s->next];
    trp__gemm g;
    bool equal = true;
    memcpy(&g, jobs[0]->payload, sizeof g);
    for (uint32_t i = 0; i < count; i++) {
        if (!is_aligned(jobs[i]))
            return trp__error_set(error, TRP_E_UNSUPPORTED,
                                  "the matrices are not aligned to 16 bytes");
        at->a[i] = jobs[i]->access[TRP__GEMM_A].address;
        at->b[i] = jobs[i]->access[TRP__GEMM_B].address;
        at->c[i] = jobs[i]->access[TRP__GEMM_C].address;
        equal = equal && memcmp(jobs[0]->payload, jobs[i]->payload, sizeof g) == 0;
    }
    trp_status status =
        equal ? multiply_equal(s, &g, at, count, error) : multiply_each(s, jobs, at, count, error);
    if (status == TRP_OK)
        s->next = (s->next + 1) % TRP_ACTOR_CALLS_MAX;
    return status;
}

/* The blas actor on NVIDIA GPUs: cuBLAS. */
#include "actors/blas/blas.h"
#include "actors/blas/blas_wire.h"
#include "actors/blas/cublas.h"
#include "base/error.h"
#include "driver/cuda.h"

#include <troupe/blas.h>
#include <troupe/worker.h>

#include <limits.h>
#include <string.h>

typedef struct state {
    const trp__cuda *cu;
    const trp__cublas *blas;
    trp__cublas_handle handle;
    trp__cu_address workspace;
} state;

trp_status trp__blas_cuda_report(char *version, size_t version_size, const char **path,
                                 trp_error *error)
{
    const trp__cublas *blas;
    trp_status status = trp__cublas_load(&blas, error);
    if (status != TRP_OK)
        return status;
    trp__cublas_version(blas, version, version_size);
    *path = trp__cublas_path();
    return TRP_OK;
}

/* Every call goes through this. A broken context shows as some status or other here; the scheduler
 * asks the backend's health() after each error. */
static trp_status check(const trp__cublas *blas, trp__cublas_status result, const char *call,
                        trp_error *error)
{
    if (__builtin_expect(result == TRP__CUBLAS_SUCCESS, 1))
        return TRP_OK;
    trp_status status = result == TRP__CUBLAS_ALLOC_FAILED    ? TRP_E_MEMORY
                        : result == TRP__CUBLAS_NOT_SUPPORTED ? TRP_E_UNSUPPORTED
                                                              : TRP_E_LIBRARY;
    return trp__error_set_code(error, status, "cublas", result, "%s (%d): %s, in %s",
                               blas->cublasGetStatusName(result), result,
                               blas->cublasGetStatusString(result), call);
}

/* Life of an actor. */

static void stop(trp_instance *instance)
{
    state *s = instance->state;
    if (s->handle)
        s->blas->cublasDestroy_v2(s->handle);
    if (s->workspace)
        trp_cuda_check(instance, s->cu->cuMemFree_v2(s->workspace), "cuMemFree", NULL);
    memset(s, 0, sizeof *s);
}

/* What NVIDIA recommends for the device's generation. */
static trp_status workspace_bytes(trp_instance *instance, size_t *bytes, trp_error *error)
{
    const state *s = instance->state;
    trp__cu_device device = 0;
    int major = 0;
    trp_status status = trp_cuda_check(
        instance, s->cu->cuDeviceGet(&device, (int)instance->ordinal), "cuDeviceGet", error);
    if (status == TRP_OK)
        status = trp_cuda_check(
            instance,
            s->cu->cuDeviceGetAttribute(&major, TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
            "cuDeviceGetAttribute", error);
    *bytes = trp__cublas_workspace_bytes((uint32_t)major);
    return status;
}

static trp_status init(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    const trp__cublas *blas;
    size_t bytes = 0;
    trp_status status = trp__cublas_load(&blas, error);
    if (status == TRP_OK)
        status = trp__cuda_load(&s->cu, error);
    if (status == TRP_OK)
        status = workspace_bytes(instance, &bytes, error);
    if (status != TRP_OK)
        return status;
    s->blas = blas;
    status = check(blas, blas->cublasCreate_v2(&s->handle), "cublasCreate", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, s->cu->cuMemAlloc_v2(&s->workspace, bytes), "cuMemAlloc",
                                error);
    /* Setting the stream takes a workspace away, so it comes first. */
    if (status == TRP_OK)
        status = check(blas, blas->cublasSetStream_v2(s->handle, instance->stream),
                       "cublasSetStream", error);
    if (status == TRP_OK)
        status = check(
            blas, blas->cublasSetWorkspace_v2(s->handle, (void *)(uintptr_t)s->workspace, bytes),
            "cublasSetWorkspace", error);
    if (status == TRP_OK)
        status = check(blas, blas->cublasSetMathMode(s->handle, TRP__CUBLAS_MATH),
                       "cublasSetMathMode", error);
    if (status != TRP_OK)
        stop(instance);
    return status;
}

/* Requests. */

static trp__cublas_type data_type(uint8_t type)
{
    switch (type) {
    case TRP_F64:
        return TRP__CUDA_R_64F;
    case TRP_F16:
        return TRP__CUDA_R_16F;
    case TRP_BF16:
        return TRP__CUDA_R_16BF;
    default:
        return TRP__CUDA_R_32F;
    }
}

static trp__cublas_compute compute_type(const trp__gemm *g)
{
    if (g->type == TRP_F64)
        return TRP__CUBLAS_COMPUTE_64F;
    return g->compute == TRP_COMPUTE_TF32 ? TRP__CUBLAS_COMPUTE_32F_FAST_TF32
                                          : TRP__CUBLAS_COMPUTE_32F;
}

static bool fits_32_bits(const trp__gemm *g)
{
    return g->m <= INT_MAX && g->n <= INT_MAX && g->k <= INT_MAX && g->lda <= INT_MAX &&
           g->ldb <= INT_MAX && g->ldc <= INT_MAX && g->batch <= INT_MAX;
}

static trp__cublas_operation operation(uint8_t trans)
{
    return trans == TRP_T ? TRP__CUBLAS_OP_T : TRP__CUBLAS_OP_N;
}

/* Scalars travel as f64; cuBLAS wants them in the compute type. */
typedef union scalar {
    double f64;
    float f32;
} scalar;

static scalar scalar_of(uint8_t type, double value)
{
    return type == TRP_F64 ? (scalar){.f64 = value} : (scalar){.f32 = (float)value};
}

static trp_status gemm_32(state *s, const trp__gemm *g, const void *a, const void *b, void *c,
                          trp_error *error)
{
    const trp__cublas *blas = s->blas;
    trp__cublas_type type = data_type(g->type);
    scalar alpha = scalar_of(g->type, g->alpha);
    scalar beta = scalar_of(g->type, g->beta);
    if (g->batch == 1)
        return check(blas,
                     blas->cublasGemmEx(s->handle, operation(g->trans_a), operation(g->trans_b),
                                        (int)g->m, (int)g->n, (int)g->k, &alpha, a, type,
                                        (int)g->lda, b, type, (int)g->ldb, &beta, c, type,
                                        (int)g->ldc, compute_type(g), TRP__CUBLAS_GEMM_DEFAULT),
                     "cublasGemmEx", error);
    return check(blas,
                 blas->cublasGemmStridedBatchedEx(
                     s->handle, operation(g->trans_a), operation(g->trans_b), (int)g->m, (int)g->n,
                     (int)g->k, &alpha, a, type, (int)g->lda, g->a_stride, b, type, (int)g->ldb,
                     g->b_stride, &beta, c, type, (int)g->ldc, g->c_stride, (int)g->batch,
                     compute_type(g), TRP__CUBLAS_GEMM_DEFAULT),
                 "cublasGemmStridedBatchedEx", error);
}

static trp_status gemm_64(state *s, const trp__gemm *g, const void *a, const void *b, void *c,
                          trp_error *error)
{
    const trp__cublas *blas = s->blas;
    trp__cublas_type type = data_type(g->type);
    scalar alpha = scalar_of(g->type, g->alpha);
    scalar beta = scalar_of(g->type, g->beta);
    if (!blas->cublasGemmEx_64 || !blas->cublasGemmStridedBatchedEx_64)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "m, n, k, a leading dimension or batch is 2^31 or more, and this "
                              "cuBLAS has no cublasGemmEx_64");
    if (g->batch == 1)
        return check(blas,
                     blas->cublasGemmEx_64(s->handle, operation(g->trans_a), operation(g->trans_b),
                                           g->m, g->n, g->k, &alpha, a, type, g->lda, b, type,
                                           g->ldb, &beta, c, type, g->ldc, compute_type(g),
                                           TRP__CUBLAS_GEMM_DEFAULT),
                     "cublasGemmEx_64", error);
    return check(blas,
                 blas->cublasGemmStridedBatchedEx_64(
                     s->handle, operation(g->trans_a), operation(g->trans_b), g->m, g->n, g->k,
                     &alpha, a, type, g->lda, g->a_stride, b, type, g->ldb, g->b_stride, &beta, c,
                     type, g->ldc, g->c_stride, g->batch, compute_type(g),
                     TRP__CUBLAS_GEMM_DEFAULT),
                 "cublasGemmStridedBatchedEx_64", error);
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    trp__gemm g;
    if (job->op != TRP_OP_GEMM)
        return trp__error_set(error, TRP_E_INTERNAL, "operation %#x is not one of blas", job->op);
    memcpy(&g, job->payload, sizeof g);
    if (g.m == 0 || g.n == 0)
        return TRP_OK;
    void *c = job->access[TRP__GEMM_C].address;
    /* With k 0 cuBLAS reads neither A nor B, but may ask that they are not NULL. */
    const void *a = g.k > 0 ? job->access[TRP__GEMM_A].address : c;
    const void *b = g.k > 0 ? job->access[TRP__GEMM_B].address : c;
    return fits_32_bits(&g) ? gemm_32(instance->state, &g, a, b, c, error)
                            : gemm_64(instance->state, &g, a, b, c, error);
}

/* No trim: all that it holds is the handle and the workspace, and a handle without one would have
 * to find memory at a later request. */
const trp_actor_impl trp__blas_cuda = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .stop = stop,
};

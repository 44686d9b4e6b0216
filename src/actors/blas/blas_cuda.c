/* The blas actor on NVIDIA GPUs: cuBLAS. */
#include "actors/blas/blas.h"
#include "actors/blas/blas_wire.h"
#include "actors/blas/cublas.h"
#include "actors/blas/levels_cuda.h"
#include "base/error.h"
#include "driver/cuda.h"

#include <troupe/blas.h>
#include <troupe/worker.h>

#include <limits.h>
#include <string.h>

/* Products are joined up to this size, m n k: as far as it is known to be faster on an H200, where
 * larger ones keep the device busy by themselves. */
#define JOINED_WORK (INT64_C(1024) * 1024 * 1024)

/* Addresses of the matrices of products that are done in one call; read by the device. */
typedef struct addresses {
    const void *a[TRP_ACTOR_JOINED_MAX], *b[TRP_ACTOR_JOINED_MAX];
    void *c[TRP_ACTOR_JOINED_MAX];
} addresses;

typedef struct state {
    const trp__cuda *cu;
    const trp__cublas *blas;
    trp__cublas_handle handle;
    trp__cu_address workspace;
    addresses *ring; /* one for each call that may be in the stream; NULL: none could be had */
    uint32_t next;   /* in the ring */
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

/* Life of an actor. */

static void stop(trp_instance *instance)
{
    state *s = instance->state;
    if (s->handle)
        s->blas->cublasDestroy_v2(s->handle);
    if (s->workspace)
        trp_cuda_check(instance, s->cu->cuMemFree_v2(s->workspace), "cuMemFree", NULL);
    if (s->ring)
        trp_cuda_check(instance, s->cu->cuMemFreeHost(s->ring), "cuMemFreeHost", NULL);
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

/* Without it products are not joined. */
static void make_ring(state *s)
{
    void *memory = NULL;
    if (s->blas->cublasGemmBatchedEx &&
        s->cu->cuMemHostAlloc(&memory, TRP_ACTOR_CALLS_MAX * sizeof(addresses),
                              TRP__CU_MEMHOSTALLOC_PORTABLE | TRP__CU_MEMHOSTALLOC_DEVICEMAP) ==
            TRP__CU_SUCCESS)
        s->ring = memory;
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
    status = trp__cublas_check(blas, blas->cublasCreate_v2(&s->handle), "cublasCreate", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, s->cu->cuMemAlloc_v2(&s->workspace, bytes), "cuMemAlloc",
                                error);
    /* Setting the stream takes a workspace away, so it comes first. */
    if (status == TRP_OK)
        status = trp__cublas_check(blas, blas->cublasSetStream_v2(s->handle, instance->stream),
                                   "cublasSetStream", error);
    if (status == TRP_OK)
        status = trp__cublas_check(
            blas, blas->cublasSetWorkspace_v2(s->handle, (void *)(uintptr_t)s->workspace, bytes),
            "cublasSetWorkspace", error);
    if (status == TRP_OK)
        status = trp__cublas_check(blas, blas->cublasSetMathMode(s->handle, TRP__CUBLAS_MATH),
                                   "cublasSetMathMode", error);
    if (status == TRP_OK)
        make_ring(s);
    else
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
    case TRP_C64:
        return TRP__CUDA_C_32F;
    case TRP_C128:
        return TRP__CUDA_C_64F;
    default:
        return TRP__CUDA_R_32F;
    }
}

static trp__cublas_compute compute_type(const trp__gemm *g)
{
    if (g->type == TRP_F64 || g->type == TRP_C128)
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
    return trans == TRP_N ? TRP__CUBLAS_OP_N : trans == TRP_T ? TRP__CUBLAS_OP_T : TRP__CUBLAS_OP_C;
}

/* Scalars travel as f64; cuBLAS wants them in the compute type. */
typedef union scalar {
    double f64[2];
    float f32[2];
} scalar;

static scalar scalar_of(uint8_t type, const double value[2])
{
    if (type == TRP_F64 || type == TRP_C128)
        return (scalar){.f64 = {value[0], value[1]}};
    return (scalar){.f32 = {(float)value[0], (float)value[1]}};
}

/* Addresses of a product. The scalars are on the device if they come from a buffer. */
typedef struct gemm_operands {
    const void *a, *b, *alpha, *beta;
    void *c;
} gemm_operands;

static trp_status gemm_32(state *s, const trp__gemm *g, const gemm_operands *x, trp_error *error)
{
    const trp__cublas *blas = s->blas;
    trp__cublas_type type = data_type(g->type);
    if (g->batch == 1)
        return trp__cublas_check(
            blas,
            blas->cublasGemmEx(s->handle, operation(g->trans_a), operation(g->trans_b), (int)g->m,
                               (int)g->n, (int)g->k, x->alpha, x->a, type, (int)g->lda, x->b, type,
                               (int)g->ldb, x->beta, x->c, type, (int)g->ldc, compute_type(g),
                               TRP__CUBLAS_GEMM_DEFAULT),
            "cublasGemmEx", error);
    return trp__cublas_check(
        blas,
        blas->cublasGemmStridedBatchedEx(s->handle, operation(g->trans_a), operation(g->trans_b),
                                         (int)g->m, (int)g->n, (int)g->k, x->alpha, x->a, type,
                                         (int)g->lda, g->a_stride, x->b, type, (int)g->ldb,
                                         g->b_stride, x->beta, x->c, type, (int)g->ldc, g->c_stride,
                                         (int)g->batch, compute_type(g), TRP__CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx", error);
}

static trp_status gemm_64(state *s, const trp__gemm *g, const gemm_operands *x, trp_error *error)
{
    const trp__cublas *blas = s->blas;
    trp__cublas_type type = data_type(g->type);
    if (!blas->cublasGemmEx_64 || !blas->cublasGemmStridedBatchedEx_64)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "m, n, k, a leading dimension or batch is 2^31 or more, and this "
                              "cuBLAS has no cublasGemmEx_64");
    if (g->batch == 1)
        return trp__cublas_check(blas,
                                 blas->cublasGemmEx_64(s->handle, operation(g->trans_a),
                                                       operation(g->trans_b), g->m, g->n, g->k,
                                                       x->alpha, x->a, type, g->lda, x->b, type,
                                                       g->ldb, x->beta, x->c, type, g->ldc,
                                                       compute_type(g), TRP__CUBLAS_GEMM_DEFAULT),
                                 "cublasGemmEx_64", error);
    return trp__cublas_check(blas,
                             blas->cublasGemmStridedBatchedEx_64(
                                 s->handle, operation(g->trans_a), operation(g->trans_b), g->m,
                                 g->n, g->k, x->alpha, x->a, type, g->lda, g->a_stride, x->b, type,
                                 g->ldb, g->b_stride, x->beta, x->c, type, g->ldc, g->c_stride,
                                 g->batch, compute_type(g), TRP__CUBLAS_GEMM_DEFAULT),
                             "cublasGemmStridedBatchedEx_64", error);
}

static trp_status gemm(state *s, const trp_job *job, trp_error *error)
{
    trp__gemm g;
    memcpy(&g, job->payload, sizeof g);
    if (g.m == 0 || g.n == 0)
        return TRP_OK;
    scalar alpha = scalar_of(g.type, g.alpha);
    scalar beta = scalar_of(g.type, g.beta);
    gemm_operands x = {.c = job->access[TRP__GEMM_C].address, .alpha = &alpha, .beta = &beta};
    /* With k 0 cuBLAS reads neither A nor B, but may ask that they are not NULL. */
    x.a = g.k > 0 ? job->access[TRP__GEMM_A].address : x.c;
    x.b = g.k > 0 ? job->access[TRP__GEMM_B].address : x.c;
    if (g.scalars == TRP__GEMM_NO_ACCESS)
        return fits_32_bits(&g) ? gemm_32(s, &g, &x, error) : gemm_64(s, &g, &x, error);

    bool wide = g.type == TRP_F64 || g.type == TRP_C64, widest = g.type == TRP_C128;
    x.alpha = job->access[g.scalars].address;
    x.beta = (const char *)x.alpha + (widest ? 16 : wide ? 8 : 4);
    trp_status status = trp__cublas_check(
        s->blas, s->blas->cublasSetPointerMode_v2(s->handle, TRP__CUBLAS_POINTER_MODE_DEVICE),
        "cublasSetPointerMode", error);
    if (status == TRP_OK)
        status = fits_32_bits(&g) ? gemm_32(s, &g, &x, error) : gemm_64(s, &g, &x, error);
    trp__cublas_status after =
        s->blas->cublasSetPointerMode_v2(s->handle, TRP__CUBLAS_POINTER_MODE_HOST);
    return status == TRP_OK ? trp__cublas_check(s->blas, after, "cublasSetPointerMode", error)
                            : status;
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    state *s = instance->state;
    return job->op == TRP_OP_GEMM ? gemm(s, job, error)
                                  : trp__levels_cuda(instance, job, s->blas, s->handle, error);
}

/* Joined products. */

static bool joins(trp_instance *instance, const trp_job *first, const trp_job *next)
{
    const state *s = instance->state;
    if (!s->ring || next->op != TRP_OP_GEMM)
        return false;
    if (first != next)
        return memcmp(first->payload, next->payload, sizeof(trp__gemm)) == 0;
    trp__gemm g;
    int64_t work;
    memcpy(&g, first->payload, sizeof g);
    return !g.apart && g.batch == 1 && g.scalars == TRP__GEMM_NO_ACCESS && g.m > 0 && g.n > 0 &&
           g.k > 0 && fits_32_bits(&g) && !__builtin_mul_overflow(g.m, g.n, &work) &&
           !__builtin_mul_overflow(work, g.k, &work) && work <= JOINED_WORK;
}

/* The kernels for batches take only addresses that vector loads can use. */
static bool is_aligned(const trp_job *job)
{
    uintptr_t all = 0;
    for (uint32_t i = 0; i < job->access_count; i++)
        all |= (uintptr_t)job->access[i].address;
    return all % 16 == 0;
}

static trp_status handle_joined(trp_instance *instance, trp_job *const *jobs, uint32_t count,
                                trp_error *error)
{
    state *s = instance->state;
    addresses *at = &s->ring[s->next];
    trp__gemm g;
    memcpy(&g, jobs[0]->payload, sizeof g);
    for (uint32_t i = 0; i < count; i++) {
        if (!is_aligned(jobs[i]))
            return trp__error_set(error, TRP_E_UNSUPPORTED, "matrices that are not aligned");
        at->a[i] = jobs[i]->access[TRP__GEMM_A].address;
        at->b[i] = jobs[i]->access[TRP__GEMM_B].address;
        at->c[i] = jobs[i]->access[TRP__GEMM_C].address;
    }
    scalar alpha = scalar_of(g.type, g.alpha);
    scalar beta = scalar_of(g.type, g.beta);
    trp__cublas_type type = data_type(g.type);
    trp_status status = trp__cublas_check(
        s->blas,
        s->blas->cublasGemmBatchedEx(s->handle, operation(g.trans_a), operation(g.trans_b),
                                     (int)g.m, (int)g.n, (int)g.k, &alpha, at->a, type, (int)g.lda,
                                     at->b, type, (int)g.ldb, &beta, at->c, type, (int)g.ldc,
                                     (int)count, compute_type(&g), TRP__CUBLAS_GEMM_DEFAULT),
        "cublasGemmBatchedEx", error);
    if (status == TRP_OK)
        s->next = (s->next + 1) % TRP_ACTOR_CALLS_MAX;
    return status;
}

/* No trim: all that it holds is the handle and the workspace, and a handle without one would have
 * to find memory at a later request. */
const trp_actor_impl trp__blas_cuda = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .joins = joins,
    .handle_joined = handle_joined,
    .stop = stop,
};

/* The blas actor on NVIDIA GPUs: cuBLAS. */
#include "actors/blas/blas.h"
#include "actors/blas/gemm_cuda.h"
#include "actors/blas/lapack/cuda.h"
#include "actors/blas/lapack/wire.h"
#include "actors/blas/levels_cuda.h"
#include "base/error.h"
#include "driver/cuda.h"

#include <troupe/blas.h>
#include <troupe/worker.h>

#include <string.h>

typedef trp__blas_state state;

/* Start and end of an actor. */

static void stop(trp_instance *instance)
{
    state *s = instance->state;
    if (s->handle)
        s->blas->cublasDestroy_v2(s->handle);
    if (s->workspace)
        trp_cuda_check(instance, s->cu->cuMemFree_v2(s->workspace), "cuMemFree", NULL);
    if (s->ring)
        trp_cuda_check(instance, s->cu->cuMemFreeHost(s->ring), "cuMemFreeHost", NULL);
    if (s->addresses.list)
        trp_cuda_check(instance, s->cu->cuMemFreeHost(s->addresses.list), "cuMemFreeHost", NULL);
    memset(s, 0, sizeof *s);
}

/* Determines the major compute capability of the device. */
static trp_status find_major(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    trp__cu_device device = 0;
    trp_status status = trp_cuda_check(
        instance, s->cu->cuDeviceGet(&device, (int)instance->ordinal), "cuDeviceGet", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance,
                                s->cu->cuDeviceGetAttribute(
                                    &s->major, TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
                                "cuDeviceGetAttribute", error);
    return status;
}

/* Allocates host memory that the device reads at the same address; NULL: there is none. */
static void *device_readable(const state *s, size_t bytes)
{
    void *memory = NULL;
    trp__cu_result result = s->cu->cuMemHostAlloc(
        &memory, bytes, TRP__CU_MEMHOSTALLOC_PORTABLE | TRP__CU_MEMHOSTALLOC_DEVICEMAP);
    return result == TRP__CU_SUCCESS ? memory : NULL;
}

/* Without the ring, products are not joined. Without the list, there are neither batches of trsm
 * nor LAPACK. */
static void make_lists(state *s)
{
    if (s->blas->cublasGemmBatchedEx)
        s->ring = device_readable(s, TRP_ACTOR_CALLS_MAX * sizeof *s->ring);
    s->addresses.list = device_readable(s, TRP__BLAS_LISTED * sizeof *s->addresses.list);
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
        status = find_major(instance, error);
    if (status != TRP_OK)
        return status;
    bytes = trp__cublas_workspace_bytes((uint32_t)s->major);
    s->blas = blas;
    status = trp__cublas_check(blas, blas->cublasCreate_v2(&s->handle), "cublasCreate", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, s->cu->cuMemAlloc_v2(&s->workspace, bytes), "cuMemAlloc",
                                error);
    /* cublasSetStream() resets the workspace, so it is called first. */
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
        make_lists(s);
    else
        stop(instance);
    return status;
}

/* Requests. */

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    state *s = instance->state;
    return job->op == TRP_OP_GEMM ? trp__gemm_cuda(s, job, error)
           : trp__lapack_has(job->op)
               ? trp__lapack_cuda(instance, job, s->cu, s->blas, s->handle, &s->addresses, error)
               : trp__levels_cuda(instance, job, s, error);
}

/* There is no trim(): a handle without its workspace would have to allocate memory in a later
 * request. */
const trp_actor_impl trp__blas_cuda = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .joins = trp__gemm_cuda_joins,
    .handle_joined = trp__gemm_cuda_joined,
    .stop = stop,
};

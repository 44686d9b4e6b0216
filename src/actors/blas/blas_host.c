/* The blas actor on the host: OpenBLAS. */
#include "actors/blas/blas.h"
#include "actors/blas/gemm_host.h"
#include "actors/blas/lapack/host.h"
#include "actors/blas/lapack/wire.h"
#include "actors/blas/levels_host.h"
#include "base/error.h"

#include <troupe/blas.h>
#include <troupe/worker.h>

#include <string.h>
#include <sys/mman.h>

typedef trp__blas_host_state state;

/* Start and end of an actor. */

static trp_status init(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    trp_status status = trp__openblas_load(&s->blas, error);
    if (status != TRP_OK)
        return status;
    void *scratch = mmap(NULL, TRP__GEMM_HOST_SCRATCH, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (scratch == MAP_FAILED)
        return trp__error_set_errno(error, "scratch memory of a blas actor");
    s->scratch = scratch;
    return TRP_OK;
}

/* Releases the pages of the scratch memory; the next product gets zeroed pages. */
static void trim(trp_instance *instance)
{
    state *s = instance->state;
    if (instance->services->idle(instance))
        madvise(s->scratch, TRP__GEMM_HOST_SCRATCH, MADV_DONTNEED);
}

static void stop(trp_instance *instance)
{
    state *s = instance->state;
    if (s->scratch)
        munmap(s->scratch, TRP__GEMM_HOST_SCRATCH);
    memset(s, 0, sizeof *s);
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    const state *s = instance->state;
    return job->op == TRP_OP_GEMM     ? trp__gemm_host(instance, job, s, error)
           : trp__lapack_has(job->op) ? trp__lapack_host(instance, job, s->blas, error)
                                      : trp__levels_host_handle(instance, job, s->blas, error);
}

const trp_actor_impl trp__blas_host = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .trim = trim,
    .stop = stop,
};

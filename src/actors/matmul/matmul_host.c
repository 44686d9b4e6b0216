/* The matmul actor on the host. Its state is a trp__host_room. */
#include "actors/matmul/matmul.h"
#include "actors/matmul/ran.h"
#include "base/error.h"
#include "base/numbers/types.h"
#include "matrix/product_host.h"

#include <troupe/matmul.h>
#include <troupe/worker.h>

#include <limits.h>
#include <string.h>

static trp_status init(trp_instance *instance, trp_error *error)
{
    return trp__host_room_open(instance->state, sizeof(trp__host_product), error);
}

static void trim(trp_instance *instance)
{
    if (instance->services->idle(instance))
        trp__host_room_trim(instance->state);
}

static void stop(trp_instance *instance)
{
    trp__host_room_close(instance->state);
}

/* The argument is the address of a product in the ring. */
static void run(void *arguments)
{
    trp__host_product_run(*(trp__host_product **)arguments);
}

/* Checks products of complex numbers; others are computed in tiles, which always fit. */
static bool fits_32_bits(const trp__matmul *g)
{
    bool fits = g->m <= INT_MAX && g->n <= INT_MAX && g->k <= INT_MAX;
    for (int i = TRP__MATMUL_A; i <= TRP__MATMUL_D; i++)
        fits = fits && g->ld[i] <= INT_MAX;
    return fits || !trp__is_complex(g->type[TRP__MATMUL_A]);
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    trp__host_room *s = instance->state;
    trp__host_product *x = (trp__host_product *)s->ring + s->next;
    memcpy(&x->g, job->payload, sizeof x->g);
    if (x->g.m == 0 || x->g.n == 0)
        return TRP_OK;
    if (!fits_32_bits(&x->g))
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "m, n, k or a leading dimension is 2^31 or more, which OpenBLAS with "
                              "32-bit integers can't take");
    x->blas = s->blas;
    x->scratch = s->scratch;
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++)
        x->at[i] =
            x->g.access[i] != TRP__MATMUL_NO_ACCESS ? job->access[x->g.access[i]].address : NULL;
    for (int i = TRP__MATMUL_A; x->g.k == 0 && i <= TRP__MATMUL_B; i++)
        x->at[i] = x->at[TRP__MATMUL_D]; /* not read, but must not be NULL */
    trp_status status = instance->services->enqueue(instance, run, &x, sizeof(void *), error);
    trp_matmul_ran *ran = trp__matmul_ran_of(job, &x->g);
    if (status == TRP_OK && ran)
        *ran = (trp_matmul_ran){.algorithm = "host"};
    if (status == TRP_OK)
        s->next = (s->next + 1) % TRP_ACTOR_CALLS_MAX;
    return status;
}

const trp_actor_impl trp__matmul_host = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(trp__host_room),
    .init = init,
    .handle = handle,
    .trim = trim,
    .stop = stop,
};

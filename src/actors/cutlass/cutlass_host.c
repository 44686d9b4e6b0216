/* The cutlass actor on the host. */
#include "actors/cutlass/host/host.h"

#include "actors/cutlass/cutlass.h"
#include "base/error.h"

#include <stdlib.h>

static trp_status init(trp_instance *instance, trp_error *error)
{
    trp__cutlass_room *s = instance->state;
    return trp__host_room_open(&s->host, sizeof(trp__cutlass_run), error);
}

static void trim(trp_instance *instance)
{
    trp__cutlass_room *s = instance->state;
    if (instance->services->idle(instance))
        trp__host_room_trim(&s->host);
}

static void stop(trp_instance *instance)
{
    trp__cutlass_room *s = instance->state;
    free(s->looking); /* its request does not return here */
    trp__host_room_close(&s->host);
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    trp__cutlass_room *s = instance->state;
    trp__cutlass_run *x = (trp__cutlass_run *)s->host.ring + s->host.next;
    trp_status status;
    switch (job->op) {
    case TRP_OP_CUTLASS_GEMM:
        status = trp__cutlass_host_gemm(instance, job, &x->gemm, error);
        break;
    case TRP_OP_CUTLASS_GROUPED_GEMM:
        status = trp__cutlass_host_grouped(instance, job, &x->grouped, error);
        break;
    default:
        status = trp__cutlass_host_conv(instance, job, &x->conv, error);
    }
    if (status == TRP_OK)
        s->host.next = (s->host.next + 1) % TRP_ACTOR_CALLS_MAX;
    return status;
}

const trp_actor_impl trp__cutlass_host = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(trp__cutlass_room),
    .init = init,
    .handle = handle,
    .trim = trim,
    .stop = stop,
};

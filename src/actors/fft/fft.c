/* The operations of the fft actor. */
#include "actors/fft/fft.h"

#include "actors/fft/fft_wire.h"
#include "base/error.h"

static const trp__op_class ops[] = {
    {.op = TRP_OP_FFT,
     .request_bytes = sizeof(trp_fft_request),
     .name = "fft",
     .encode = trp__fft_encode},
};

const trp__actor_class trp__fft_class = {
    .kind = "fft",
    .op_count = sizeof ops / sizeof *ops,
    .ops = ops,
    .cuda = &trp__fft_cuda,
    .host = &trp__fft_host,
};

/* GPUs: the sender refuses all requests. */
static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    (void)instance;
    (void)job;
    return trp__error_set(error, TRP_E_UNSUPPORTED, "transforms run on the host only");
}

const trp_actor_impl trp__fft_cuda = {.abi = TRP_ACTOR_ABI, .handle = handle};

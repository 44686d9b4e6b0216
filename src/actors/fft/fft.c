/* The operations of the fft actor. */
#include "actors/fft/fft.h"

#include "actors/fft/fft_wire.h"

static const trp__op_class ops[] = {
    {.op = TRP_OP_FFT,
     .request_bytes = sizeof(trp_fft_request),
     .name = "fft",
     .encode = trp__fft_encode,
     .rehearsed = sizeof(trp__fft)},
};

const trp__actor_class trp__fft_class = {
    .kind = "fft",
    .op_count = sizeof ops / sizeof *ops,
    .ops = ops,
    .cuda = &trp__fft_cuda,
    .host = &trp__fft_host,
};

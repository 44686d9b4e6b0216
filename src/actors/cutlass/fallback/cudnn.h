/* Convolutions by cuDNN, as long as the best kernel is being compiled and no other is there. */
#ifndef TRP_ACTORS_CUTLASS_FALLBACK_CUDNN_H
#define TRP_ACTORS_CUTLASS_FALLBACK_CUDNN_H

#include "actors/cutlass/plan/run.h"
#include "actors/cutlass/request/convolving.h"
#include "actors/dnn/graph/wire.h"

/* Payload of such a request, whose run.args_bytes is TRP__RUN_BY_CUDNN. */
typedef struct trp__by_cudnn_run {
    trp__cutlass_run run;
    trp__dnn problem;
} trp__by_cudnn_run;

_Static_assert(sizeof(trp__by_cudnn_run) <= TRP__PAYLOAD_BYTES, "it fits into a record");

/* Its problems are trp__cutlass_convolving. */
extern const trp__run_library trp__by_cudnn;

/* Writes the record of a convolution that it takes. */
trp_status trp__by_cudnn_encode(trp__encoder *encoder, const trp__cutlass_convolving *x);

#endif

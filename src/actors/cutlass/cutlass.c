/* The operations of the cutlass actor. */
#include "actors/cutlass/cutlass.h"

#include "actors/cutlass/encode/encode.h"
#include "actors/cutlass/plan/plans.h"
#include "actors/cutlass/plan/tune.h"
#include "actors/jit/jit.h"

#include <troupe/cutlass.h>

static const trp__op_class ops[] = {
    {.op = TRP_OP_CUTLASS_GEMM,
     .request_bytes = sizeof(trp_cutlass_gemm_request),
     .name = "cutlass gemm",
     .encode = trp__cutlass_encode_gemm},
    {.op = TRP_OP_CUTLASS_GROUPED_GEMM,
     .request_bytes = sizeof(trp_cutlass_grouped_gemm_request),
     .name = "cutlass grouped gemm",
     .encode = trp__cutlass_encode_grouped},
    {.op = TRP_OP_CUTLASS_CONV,
     .request_bytes = sizeof(trp_cutlass_conv_request),
     .name = "cutlass conv",
     .encode = trp__cutlass_encode_conv},
    {.op = TRP__OP_CUTLASS_LOAD,
     .request_bytes = sizeof(trp__cutlass_load_request),
     .name = "cutlass load",
     .encode = trp__cutlass_encode_load},
};

const trp__actor_class trp__cutlass_class = {
    .kind = "cutlass",
    .op_count = sizeof ops / sizeof *ops,
    .ops = ops,
    .cuda = &trp__cutlass_cuda,
    .host = &trp__cutlass_host,
    .companion = &trp__jit_compile_class,
    .objects = &trp__module_class,
    .host_alone = true,
    .sender_make = trp__cutlass_sender_make,
    .sender_end = trp__cutlass_sender_end,
};

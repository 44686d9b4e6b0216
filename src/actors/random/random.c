/* The operations of the random actor. */
#include "actors/random/random.h"

#include <troupe/random.h>

static const trp__op_class ops[] = {
    {.op = TRP_OP_RANDOM,
     .request_bytes = sizeof(trp_random_request),
     .name = "random",
     .encode = trp__random_encode},
    {.op = TRP_OP_RANDOM_ADVANCE,
     .request_bytes = sizeof(trp_random_advance_request),
     .name = "random_advance",
     .encode = trp__random_encode_advance},
};

const trp__actor_class trp__random_class = {
    .kind = "random",
    .op_count = sizeof ops / sizeof *ops,
    .ops = ops,
    .cuda = &trp__random_cuda,
    .host = &trp__random_host,
};

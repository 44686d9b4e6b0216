/* The operations of the matmul actor. */
#include "actors/matmul/matmul.h"
#include "matrix/product.h"

#include <troupe/matmul.h>

static const trp__op_class ops[] = {
    {.op = TRP_OP_MATMUL,
     .request_bytes = sizeof(trp_matmul_request),
     .name = "matmul",
     .encode = trp__matmul_encode,
     .rehearsed = sizeof(trp__matmul)},
};

const trp__actor_class trp__matmul_class = {
    .kind = "matmul",
    .op_count = sizeof ops / sizeof *ops,
    .ops = ops,
    .cuda = &trp__matmul_cuda,
    .host = &trp__matmul_host,
};

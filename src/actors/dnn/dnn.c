/* The operations of the dnn actor. */
#include "actors/dnn/dnn.h"

#include "actors/dnn/rnn/rnn.h"

static const trp__op_class ops[] = {
    {.op = TRP_OP_DNN_GRAPH,
     .request_bytes = sizeof(trp_dnn_graph_request),
     .name = "dnn graph",
     .encode = trp__dnn_encode,
     .rehearsed = sizeof(trp__dnn)},
    {.op = TRP_OP_RNN_FORWARD,
     .request_bytes = sizeof(trp_rnn_request),
     .name = "rnn forward",
     .encode = trp__rnn_encode},
    {.op = TRP_OP_RNN_BACKWARD,
     .request_bytes = sizeof(trp_rnn_request),
     .name = "rnn backward",
     .encode = trp__rnn_encode},
    {.op = TRP_OP_RNN_RESERVE,
     .request_bytes = sizeof(trp_rnn_request),
     .name = "rnn reserve",
     .encode = trp__rnn_encode_reserve},
};

const trp__actor_class trp__dnn_class = {
    .kind = "dnn",
    .op_count = sizeof ops / sizeof *ops,
    .ops = ops,
    .cuda = &trp__dnn_cuda,
    .host = &trp__dnn_host,
};

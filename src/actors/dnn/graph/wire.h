/* Payload of TRP_OP_DNN_GRAPH. The request's piece of staging memory has a trp_dnn_ran, which the
 * worker fills, then the graph, then the arrays of TRP__DNN_DATA in the order of their tensors,
 * from TRP__DNN_DATA_AT(bytes of the graph) on. A request with nothing to do has no piece. */
#ifndef TRP_ACTORS_DNN_GRAPH_WIRE_H
#define TRP_ACTORS_DNN_GRAPH_WIRE_H

#include "actors/dnn/graph/graph.h"

typedef struct trp__dnn {
    uint64_t sum;   /* a checksum of the graph's key, with no search asked for */
    uint32_t bytes; /* of the graph; 0: nothing to do */
    uint32_t data;  /* bytes of the arrays after it */
} trp__dnn;

#define TRP__DNN_DATA_AT(bytes) ((sizeof(trp_dnn_ran) + (size_t)(bytes) + 15) / 16 * 16)

_Static_assert(sizeof(trp_dnn_ran) % 16 == 0, "the graph behind it is aligned");

#endif

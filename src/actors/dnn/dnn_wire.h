/* Payload of TRP_OP_DNN_GRAPH. The request's piece of staging memory begins with a trp_dnn_ran,
 * which the worker fills; the graph lies behind it. Where nothing is to be done there is no piece.
 */
#ifndef TRP_ACTORS_DNN_DNN_WIRE_H
#define TRP_ACTORS_DNN_DNN_WIRE_H

#include "actors/dnn/graph.h"

typedef struct trp__dnn {
    uint64_t sum;   /* a checksum of the graph's key, with no search asked for */
    uint32_t bytes; /* of the graph; 0: nothing to do */
    uint32_t reserved;
} trp__dnn;

_Static_assert(sizeof(trp_dnn_ran) == 64, "the graph behind it is aligned");

#endif

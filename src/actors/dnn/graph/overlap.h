/* Tells whether two tensors of one buffer share a byte, by elements, so that interleaved views do
 * not. */
#ifndef TRP_ACTORS_DNN_GRAPH_OVERLAP_H
#define TRP_ACTORS_DNN_GRAPH_OVERLAP_H

#include "actors/dnn/graph/graph.h"

typedef enum trp__overlap {
    TRP__OVERLAP_NONE,
    TRP__OVERLAP_SOME,
    TRP__OVERLAP_UNKNOWN, /* the search was stopped because of irregular strides */
} trp__overlap;

/* `offset` and `other_offset` are bytes. The tensors have passed trp__dnn_check_span(). */
trp__overlap trp__dnn_overlap(const trp__dnn_tensor *t, uint64_t offset,
                              const trp__dnn_tensor *other, uint64_t other_offset);

#endif

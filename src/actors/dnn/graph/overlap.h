/* Whether two tensors of one buffer share a byte: by elements, so that views which interleave do
 * not. */
#ifndef TRP_ACTORS_DNN_GRAPH_OVERLAP_H
#define TRP_ACTORS_DNN_GRAPH_OVERLAP_H

#include "actors/dnn/graph/graph.h"

typedef enum trp__overlap {
    TRP__OVERLAP_NONE,
    TRP__OVERLAP_SOME,
    TRP__OVERLAP_UNKNOWN, /* strides so irregular that the search was given up */
} trp__overlap;

/* `offset` and `other_offset` are bytes. Spans are as trp__dnn_check_span() leaves them. */
trp__overlap trp__dnn_overlap(const trp__dnn_tensor *t, uint64_t offset,
                              const trp__dnn_tensor *other, uint64_t other_offset);

#endif

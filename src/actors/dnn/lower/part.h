/* A part of a graph: consecutive nodes, and the place of tensors in relation to them. */
#ifndef TRP_ACTORS_DNN_LOWER_PART_H
#define TRP_ACTORS_DNN_LOWER_PART_H

#include "actors/dnn/lower/lower.h"

/* Nodes `first` to `first` + `count` - 1 of a graph. */
typedef struct trp__dnn_part {
    const trp__dnn_graph *graph;
    uint32_t first, count;
} trp__dnn_part;

/* The place of a tensor in relation to a part. */
typedef enum trp__dnn_place {
    TRP__DNN_PLACE_NONE,   /* unused by the part */
    TRP__DNN_PLACE_INSIDE, /* written and read only by nodes of the part */
    TRP__DNN_PLACE_VALUE,
    TRP__DNN_PLACE_MEMORY, /* has an address: in the request, or between parts */
} trp__dnn_place;

/* Sets place[] for all tensors of the graph. */
void trp__dnn_places(const trp__dnn_part *part, uint8_t place[TRP__DNN_LOWERED_TENSORS]);

/* Formats a description of a graph such as "conv_forward 4x64x16x16 bf16, pointwise, pointwise". */
void trp__dnn_graph_text(const trp__dnn_graph *graph, char *text, size_t size);

/* Formats a description of a part such as "conv_forward 4x64x16x16 bf16, add, relu". */
void trp__dnn_part_text(const trp__dnn_part *part, char *text, size_t size);

#endif

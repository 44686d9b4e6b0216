/* A part of a graph: nodes that follow each other, and what tensors are to them. */
#ifndef TRP_ACTORS_DNN_LOWER_PART_H
#define TRP_ACTORS_DNN_LOWER_PART_H

#include "actors/dnn/lower/lower.h"

/* Nodes `first` to `first` + `count` - 1 of a graph. */
typedef struct trp__dnn_part {
    const trp__dnn_graph *graph;
    uint32_t first, count;
} trp__dnn_part;

/* What a tensor is to a part. */
typedef enum trp__dnn_place {
    TRP__DNN_PLACE_NONE,   /* the part has nothing to do with it */
    TRP__DNN_PLACE_INSIDE, /* only nodes of the part write and read it */
    TRP__DNN_PLACE_VALUE,
    TRP__DNN_PLACE_MEMORY, /* it has an address: the request's, or one between parts */
} trp__dnn_place;

/* Fills place[] for all tensors of the graph. */
void trp__dnn_places(const trp__dnn_part *part, uint8_t place[TRP__DNN_LOWERED_TENSORS]);

/* "conv_forward 4x64x16x16 bf16, pointwise, pointwise": what people can tell graphs by. */
void trp__dnn_graph_text(const trp__dnn_graph *graph, char *text, size_t size);

/* "conv_forward 4x64x16x16 bf16, add, relu": what people can tell parts by. */
void trp__dnn_part_text(const trp__dnn_part *part, char *text, size_t size);

#endif

/* Graphs of the dnn actor, as its worker gets them, written down by hand: for tests of what makes
 * plans of them. */
#ifndef TESTS_UNIT_DNN_DNN_GRAPHS_H
#define TESTS_UNIT_DNN_DNN_GRAPHS_H

#include "actors/dnn/graph/graph.h"

enum { DNN_NONE = TRP__DNN_NO_PORT };

typedef enum dnn_layout { DNN_ROWS, DNN_CHANNELS_LAST } dnn_layout;

/* Large: one at a time, as `static`, or on the stack. */
typedef struct dnn_graph {
    trp__dnn_head head;
    trp__dnn_tensor tensor[TRP_DNN_TENSORS_MAX];
    trp__dnn_node node[TRP_DNN_NODES_MAX];
    double value[TRP_DNN_TENSORS_MAX];
    void *bytes;
} dnn_graph;

/* An empty one. */
void dnn_begin(dnn_graph *g);

/* Adds a packed tensor, a number, a node whose ports are still empty: strides and dilations are 1,
 * parameters those of the mode if none are given. */
uint8_t dnn_tensor(dnn_graph *g, trp__dnn_role role, trp_dtype type, dnn_layout layout,
                   uint32_t rank, const int64_t dim[]);
uint8_t dnn_value(dnn_graph *g, trp_dtype type, double value);
trp__dnn_node *dnn_node(dnn_graph *g, trp_dnn_kind kind, uint32_t mode, trp_dtype compute,
                        uint32_t spatial);

/* An n, c, size, ... tensor of 2 + `spatial` dimensions. */
uint8_t dnn_image(dnn_graph *g, trp__dnn_role role, trp_dtype type, dnn_layout layout,
                  uint32_t spatial, int64_t n, int64_t c, int64_t size);

#define DNN_DIMS(...)                                                                              \
    (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                        \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define DNN_BUFFER(type, layout, ...)                                                              \
    dnn_tensor(g, TRP__DNN_BUFFER, type, layout, DNN_DIMS(__VA_ARGS__))
#define DNN_VIRTUAL(type, layout, ...)                                                             \
    dnn_tensor(g, TRP__DNN_VIRTUAL, type, layout, DNN_DIMS(__VA_ARGS__))

/* The graph as it travels; valid until dnn_end(). */
trp__dnn_graph dnn_finish(dnn_graph *g);
void dnn_end(dnn_graph *g);

#endif

/* A node of a graph as the host computes it: its tensors as dense arrays, and the way between those
 * and tensors in memory. */
#ifndef TRP_ACTORS_DNN_HOST_ARRAYS_NODE_H
#define TRP_ACTORS_DNN_HOST_ARRAYS_NODE_H

#include "actors/dnn/graph/graph.h"
#include "libs/openblas/openblas.h"

/* What the host computes with. */
typedef struct trp__dnn_host_libraries {
    const trp__openblas *blas;
    struct trp__onednn_engine *onednn; /* NULL: there is none, and own loops do its work */
} trp__dnn_host_libraries;

/* A node with its tensors as dense arrays, in the order of their dimensions; NULL: not there. */
typedef struct trp__dnn_host_node {
    const trp__dnn_host_libraries *libraries;
    const trp__dnn_node *n;
    const trp__dnn_tensor *tensor[TRP__DNN_PORTS];
    void *at[TRP__DNN_PORTS];
    void *rest; /* trp__dnn_host_rest() elements */
} trp__dnn_host_node;

/* Elements of a tensor to a dense array of f64 if `wide`, else f32; and back, rounded. */
void trp__dnn_host_load(const trp__dnn_tensor *t, const void *place, bool wide, void *to);
void trp__dnn_host_store(const trp__dnn_tensor *t, void *place, bool wide, const void *from);

/* The same for elements of a type that are `stride` apart; all from one place for a stride of 0. */
void trp__dnn_host_load_line(uint8_t type, const void *from, int64_t stride, bool wide, void *to,
                             int64_t count);
void trp__dnn_host_store_line(uint8_t type, void *to, int64_t stride, bool wide, const void *from,
                              int64_t count);

/* Elements of f64 if `wide`, else f32, as a type holds them, of up to 64 bits. */
void trp__dnn_host_round(uint8_t type, bool wide, void *elements, int64_t count);

/* A number of the graph as its tensor's type holds it. */
void trp__dnn_host_load_value(const trp__dnn_tensor *t, double value, bool wide, void *to);

#endif

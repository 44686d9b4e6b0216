/* A node on the host: its tensors as dense arrays, and copies between those and tensors in
 * memory. */
#ifndef TRP_ACTORS_DNN_HOST_ARRAYS_NODE_H
#define TRP_ACTORS_DNN_HOST_ARRAYS_NODE_H

#include "actors/dnn/graph/graph.h"
#include "libs/openblas/openblas.h"

/* The libraries of the host backend. */
typedef struct trp__dnn_host_libraries {
    const trp__openblas *blas;
    struct trp__onednn_engine *onednn; /* NULL: missing; own loops replace it */
} trp__dnn_host_libraries;

/* A node with its tensors as dense arrays in the order of their dimensions; NULL: absent. */
typedef struct trp__dnn_host_node {
    const trp__dnn_host_libraries *libraries;
    const trp__dnn_node *n;
    const trp__dnn_tensor *tensor[TRP__DNN_PORTS];
    void *at[TRP__DNN_PORTS];
    void *rest; /* trp__dnn_host_rest() elements */
} trp__dnn_host_node;

/* Load a tensor's elements into a dense array of f64 if `wide`, else f32, and store them,
 * rounded. */
void trp__dnn_host_load(const trp__dnn_tensor *t, const void *place, bool wide, void *to);
void trp__dnn_host_store(const trp__dnn_tensor *t, void *place, bool wide, const void *from);

/* The same for elements of a type at distance `stride`; a stride of 0 repeats one element. */
void trp__dnn_host_load_line(uint8_t type, const void *from, int64_t stride, bool wide, void *to,
                             int64_t count);
void trp__dnn_host_store_line(uint8_t type, void *to, int64_t stride, bool wide, const void *from,
                              int64_t count);

/* Rounds elements of f64 if `wide`, else f32, to a type of up to 64 bits. */
void trp__dnn_host_round(uint8_t type, bool wide, void *elements, int64_t count);

/* Loads a number of the graph rounded to its tensor's type. */
void trp__dnn_host_load_value(const trp__dnn_tensor *t, double value, bool wide, void *to);

#endif

/* Operands of the layers of training: numbers, sums, and tensors as rows; and the short names of
 * what their tables of tensors say. */
#ifndef TRP_ACTORS_DNN_LAYERS_OPERANDS_H
#define TRP_ACTORS_DNN_LAYERS_OPERANDS_H

#include "actors/dnn/layers/layer_graph.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* Of the tensors of a call. */
#define CHECK(graph, all) trp__layer_check_tensors(graph, all, COUNT_OF(all))

#define NEEDED   TRP__LAYER_NEEDED
#define OPTIONAL TRP__LAYER_OPTIONAL
#define NONE     TRP__LAYER_NONE
#define ANY      TRP__LAYER_ANY

#define SCALAR(field)                                                                              \
    {                                                                                              \
#field, &r->field                                                                          \
    }
#define CHECK_SCALAR(field) trp__layer_check_scalars(&(trp__layer_scalar)SCALAR(field), 1)

/* A tensor in memory or a number; 0 for neither. */
uint32_t trp__layer_add_any(trp__layer_graph *g, const trp_dnn_tensor *t);
/* A number; 0 for one that is not given. */
uint32_t trp__layer_add_number(trp__layer_graph *g, trp_dtype type, trp_scalar value);

/* x + b, if b is there, to y. */
void trp__layer_finish_sum(trp__layer_graph *g, uint32_t x, const trp_dnn_tensor *b,
                           const trp_dnn_tensor *y);

/* A tensor as rows and columns: all dimensions but the last become one. */
trp_status trp__layer_as_rows(const char *name, const trp_dnn_tensor *t, trp_dnn_tensor *out);

/* One element for each column, or each row. */
trp_status trp__layer_as_vector(const char *name, const trp_dnn_tensor *t, bool column,
                                int64_t count, trp_dnn_tensor *out);

/* The same matrix with rows for columns. */
trp_dnn_tensor trp__layer_transposed(const trp_dnn_tensor *t);

/* mode'(z) * x */
uint32_t trp__layer_slope(trp__layer_graph *g, const trp_layer_activation *a, uint32_t z,
                          uint32_t x);

#endif

/* Operands of the training layers: numbers, sums, tensors as rows, and short names for their tables
 * of tensors. */
#ifndef TRP_ACTORS_DNN_LAYERS_OPERANDS_H
#define TRP_ACTORS_DNN_LAYERS_OPERANDS_H

#include "actors/dnn/layers/layer_graph.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* Checks the tensors of a call. */
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

/* Adds a tensor in memory or a number; returns 0 for neither. */
uint32_t trp__layer_add_any(trp__layer_graph *g, const trp_dnn_tensor *t);
/* Adds a number; returns 0 if it is not given. */
uint32_t trp__layer_add_number(trp__layer_graph *g, trp_dtype type, trp_scalar value);

/* Writes x, or x + b if b is given, to y. */
void trp__layer_finish_sum(trp__layer_graph *g, uint32_t x, const trp_dnn_tensor *b,
                           const trp_dnn_tensor *y);

/* Views a tensor as rows and columns: merges all dimensions except the last. */
trp_status trp__layer_as_rows(const char *name, const trp_dnn_tensor *t, trp_dnn_tensor *out);

/* Views a tensor as one element per column, or per row. */
trp_status trp__layer_as_vector(const char *name, const trp_dnn_tensor *t, bool column,
                                int64_t count, trp_dnn_tensor *out);

/* Returns the transposed view of a matrix. */
trp_dnn_tensor trp__layer_transposed(const trp_dnn_tensor *t);

/* Adds mode'(z) * x. */
uint32_t trp__layer_slope(trp__layer_graph *g, const trp_layer_activation *a, uint32_t z,
                          uint32_t x);

#endif

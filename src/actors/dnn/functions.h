/* What one element becomes, on the host and in the kernels of ours (direct_kernels.h). */
#ifndef TRP_ACTORS_DNN_FUNCTIONS_H
#define TRP_ACTORS_DNN_FUNCTIONS_H

#include "actors/dnn/graph.h"

/* A mode of POINTWISE, of x, b and t. */
double trp__dnn_pointwise_value(const trp__dnn_node *n, double x, double b, double t);

/* The derivative of an activation at x. */
double trp__dnn_activation_slope(const trp__dnn_node *n, double x);

/* A reduction: what it begins with, goes on with, and ends with after `count` elements. */
double trp__dnn_reduce_first(uint8_t mode);
double trp__dnn_reduce_next(uint8_t mode, double sum, double value);
double trp__dnn_reduce_last(uint8_t mode, double sum, int64_t count);

/* The shape of the statistics of a NORM_..., also where it writes none. */
trp__dnn_tensor trp__dnn_statistics_shape(const trp__dnn_node *n,
                                          const trp__dnn_tensor *const tensor[]);

#endif

/* What one element becomes, on the host and in the kernels of ours (reference/kernels.h). */
#ifndef TRP_ACTORS_DNN_MATH_FUNCTIONS_H
#define TRP_ACTORS_DNN_MATH_FUNCTIONS_H

#include "actors/dnn/graph/graph.h"

/* A mode of POINTWISE, of x, b and t. */
double trp__dnn_pointwise_value(const trp__dnn_node *n, double x, double b, double t);

/* The derivative of an activation at x: NaN at NaN; at infinities its limit. */
double trp__dnn_activation_slope(const trp__dnn_node *n, double x);

/* dy times that; where a relu is flat 0, whatever dy is. */
double trp__dnn_activation_gradient(const trp__dnn_node *n, double x, double dy);

/* A reduction: what it begins with, goes on with, and ends with after `count` elements. */
double trp__dnn_reduce_first(uint8_t mode);
bool trp__dnn_reduce_adds(uint8_t mode); /* whether it goes on with a sum */
double trp__dnn_reduce_next(uint8_t mode, double sum, double value);
double trp__dnn_reduce_last(uint8_t mode, double sum, int64_t count);

/* Whether what a reduction of f64 has found before trp__dnn_reduce_last() is none, or not exact,
 * though its result may be: it is done again of all values times trp__dnn_near_one() of the largest
 * magnitude, and the result divided by that. */
bool trp__dnn_reduce_left_range(uint8_t mode, double sum);

/* A power of two that brings the largest magnitude of some numbers near 1, as near as it can be
 * without leaving the normal numbers; 1 for 0, infinity and NaN. */
double trp__dnn_near_one(double amax);

/* Normalisation of a group whose largest magnitude is `amax`: what its values are multiplied by
 * before they are squared, 1 unless squares of f64 would leave its range; and 1 / sqrt(variance +
 * epsilon) for values and a variance of them so multiplied. */
double trp__dnn_norm_factor(double amax);
double trp__dnn_norm_inverse(double variance, double epsilon, double factor);

/* The shape of the statistics of a NORM_..., also where it writes none. */
trp__dnn_tensor trp__dnn_statistics_shape(const trp__dnn_node *n,
                                          const trp__dnn_tensor *const tensor[]);

#endif

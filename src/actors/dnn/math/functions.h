/* Functions of single elements, on the host and in the reference kernels (reference/kernels.h). */
#ifndef TRP_ACTORS_DNN_MATH_FUNCTIONS_H
#define TRP_ACTORS_DNN_MATH_FUNCTIONS_H

#include "actors/dnn/graph/graph.h"

/* Returns the value of a POINTWISE mode for x, b and t. */
double trp__dnn_pointwise_value(const trp__dnn_node *n, double x, double b, double t);

/* Returns the derivative of an activation at x: NaN at NaN, its limit at infinities. */
double trp__dnn_activation_slope(const trp__dnn_node *n, double x);

/* Returns dy times the derivative; 0 where a relu is flat, whatever dy is. */
double trp__dnn_activation_gradient(const trp__dnn_node *n, double x, double dy);

/* A reduction: its initial value, step, and final result after `count` elements. */
double trp__dnn_reduce_first(uint8_t mode);
bool trp__dnn_reduce_adds(uint8_t mode); /* whether its step is a sum */
double trp__dnn_reduce_next(uint8_t mode, double sum, double value);
double trp__dnn_reduce_last(uint8_t mode, double sum, int64_t count);

/* Tells whether the value of an f64 reduction before trp__dnn_reduce_last() is invalid or inexact
 * although the result may not be: it is then repeated on all values times trp__dnn_near_one() of
 * the largest magnitude, and the result divided by that. */
bool trp__dnn_reduce_left_range(uint8_t mode, double sum);

/* Returns a normal power of two that brings the largest magnitude `amax` as near to 1 as possible;
 * 1 for 0, infinity and NaN. */
double trp__dnn_near_one(double amax);

/* Normalisation of a group with the largest magnitude `amax`: return a factor for its values before
 * they are squared, 1 unless squares would leave f64's range, and 1 / sqrt(variance + epsilon) for
 * scaled values and their variance. */
double trp__dnn_norm_factor(double amax);
double trp__dnn_norm_inverse(double variance, double epsilon, double factor);

/* Returns a factor with which x - mean stays finite for every finite x, and which takes no digit of
 * an x near the smallest numbers of f64 that counts beside the mean. */
double trp__dnn_norm_factor_beside(double mean);

/* Returns the shape of the statistics of a NORM_..., even if it writes none. */
trp__dnn_tensor trp__dnn_statistics_shape(const trp__dnn_node *n,
                                          const trp__dnn_tensor *const tensor[]);

#endif

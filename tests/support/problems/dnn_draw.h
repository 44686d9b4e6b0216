/* Nodes of the dnn actor with random shapes and types, and the tensors that go with them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_DNN_DRAW_H
#define TESTS_SUPPORT_PROBLEMS_DNN_DRAW_H

#include "support/problems/dnn_problem.h"

trp_dtype dd_float(void);
trp_dtype dd_wide(void); /* not f8 */
/* Of a result: mostly that of what was read. */
trp_dtype dd_output(trp_dtype like);

/* Sizes as users have them: channels often multiples of 8, 16 and 32, images of 7 to 224 pixels,
 * batches of powers of two; at most so many. */
int64_t dd_channels(int64_t most);
int64_t dd_pixels(int64_t most);
int64_t dd_batch(int64_t most);
/* Whether this problem has them: some of those of a test, the others being small and thus many. */
bool dd_as_users(void);
/* Dimensions of any rank from 1 to so many, or those of users: of up to so many elements. */
void dd_dims(int64_t *dim, uint32_t rank, int64_t most, int64_t elements);
/* Halves the dimensions, any of them, until a tensor has at most so many elements. */
void dd_fit(int64_t *dim, uint32_t rank, int64_t elements);

/* A convolution; the kind is in the node. Channels of a group of at most so many, unless they are
 * as users have them. */
void dd_conv(dp_problem *p, trp_dnn_node *n, trp_dtype type, int64_t most);

/* Parameters of an activation, or none. */
void dd_parameters(trp_dnn_node *n);

/* Adds an element-wise node of x and b behind others; returns its result, a virtual tensor. */
uint32_t dd_then(dp_problem *p, trp_dnn_pointwise mode, uint32_t x, uint32_t b, trp_dtype type);

/* Adds an activation of x, which is the layer's too, with its parameters. */
trp_dnn_node *dd_activate(dp_problem *p, uint32_t x, uint32_t y);

/* Pooling forward. With an index, which is a virtual tensor at times, y has the type of x. */
void dd_pool(dp_problem *p, trp_dtype type, bool index);

/* Training, and the backward pass behind it in the same graph; inference. */
void dd_training(dp_problem *p, trp_dtype type, trp_dnn_norm norm, bool gradient);
void dd_inference(dp_problem *p, trp_dtype type, trp_dnn_norm norm);

/* A RANDOM node with a seed, whose y is still to be given. */
trp_dnn_node *dd_random(dp_problem *p, trp_dnn_random random);

/* The scale of x, for a BLOCK_SCALE_... whose axis and block are there. */
uint32_t dd_scale_of(dp_problem *p, trp_dtype type, const trp_dnn_node *n, uint32_t x);

#endif

/* Nodes of the dnn actor with random shapes and types, and their tensors.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_DNN_DRAW_H
#define TESTS_SUPPORT_PROBLEMS_DNN_DRAW_H

#include "support/problems/dnn_problem.h"

trp_dtype dd_float(void);
trp_dtype dd_wide(void); /* not f8 */
/* Draws the type of a result, usually that of the input. */
trp_dtype dd_output(trp_dtype like);

/* Sizes as users have them, up to a limit: channels are often multiples of 8, 16 and 32, images
 * have 7 to 224 pixels, batches are powers of two. */
int64_t dd_channels(int64_t most);
int64_t dd_pixels(int64_t most);
int64_t dd_batch(int64_t most);
/* Returns whether this problem has users' sizes. Most problems of a test are small, so that there
 * can be many. */
bool dd_as_users(void);
/* Draws dimensions of any rank from 1 to a limit, or of users, with up to a number of elements. */
void dd_dims(int64_t *dim, uint32_t rank, int64_t most, int64_t elements);
/* Halves random dimensions until a tensor has at most so many elements. */
void dd_fit(int64_t *dim, uint32_t rank, int64_t elements);

/* Adds a convolution; the kind is in the node. Limits the channels of a group unless sizes are
 * those of users. */
void dd_conv(dp_problem *p, trp_dnn_node *n, trp_dtype type, int64_t most);

/* Draws parameters of an activation, or none. */
void dd_parameters(trp_dnn_node *n);

/* Adds an element-wise node of x and b after the others; returns its result, a virtual tensor. */
uint32_t dd_then(dp_problem *p, trp_dnn_pointwise mode, uint32_t x, uint32_t b, trp_dtype type);

/* Adds an activation of x with its parameters, which the layer gets, too. */
trp_dnn_node *dd_activate(dp_problem *p, uint32_t x, uint32_t y);

/* Adds forward pooling. With an index, which is sometimes virtual, y has the type of x. */
void dd_pool(dp_problem *p, trp_dtype type, bool index);

/* Add training, with the backward pass after it in the same graph, and inference. */
void dd_training(dp_problem *p, trp_dtype type, trp_dnn_norm norm, bool gradient);
void dd_inference(dp_problem *p, trp_dtype type, trp_dnn_norm norm);

/* Adds a RANDOM node with a seed, whose y the caller sets. */
trp_dnn_node *dd_random(dp_problem *p, trp_dnn_random random);

/* Adds the scale of x for a BLOCK_SCALE_... node, whose axis and block are set. */
uint32_t dd_scale_of(dp_problem *p, trp_dtype type, const trp_dnn_node *n, uint32_t x);

#endif

/* Attention of random shapes with random options, with keys in arrays or in pages.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_ATTENTION_DRAW_H
#define TESTS_SUPPORT_PROBLEMS_ATTENTION_DRAW_H

#include "support/problems/dnn_problem.h"

typedef struct ad_shape {
    int64_t batches, heads, shared, rows, columns, depth, width;
    int64_t size, pages; /* rows of a page, and number of pages */
} ad_shape;

trp_dtype ad_type(void);
uint64_t ad_bits(void);
/* Draws a shape with at most so many rows, and columns. */
ad_shape ad_draw_shape(int64_t most);
/* Draws a shape with few rows and at most so many columns, in pages. */
ad_shape ad_draw_paged_shape(int64_t most);
int64_t ad_pages_of(const ad_shape *s);

uint32_t ad_memory(dp_problem *p, trp_dtype type, int64_t b, int64_t h, int64_t i, int64_t j);
/* Adds a tensor with a number of rows for each batch, at most `most`. */
uint32_t ad_lengths(dp_problem *p, int64_t batches, int64_t most);

/* Adds the forward pass, its options, and the backward pass with the same options. */
trp_dnn_node *ad_forward(dp_problem *p, const ad_shape *s, trp_dtype type);
void ad_options(dp_problem *p, trp_dnn_node *n, const ad_shape *s, trp_dtype type);
trp_dnn_node *ad_backward(dp_problem *p, const trp_dnn_node *forward);

/* Adds a load of rows from pages; virtual if `inside`, and with given or own lengths. Table entries
 * beyond the lengths are sometimes no pages. */
trp_dnn_node *ad_load(dp_problem *p, const ad_shape *s, trp_dtype type, int64_t depth,
                      uint32_t lengths, bool inside);
/* Adds attention to keys and values from pages, each of its own pool. */
trp_dnn_node *ad_paged(dp_problem *p, const ad_shape *s, trp_dtype type);

#endif

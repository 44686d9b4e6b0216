/* Graphs of the dnn actor in float64, by plain loops from the definitions in dnn.h: nothing here is
 * shared with src/actors/dnn, which it is to check.
 *
 * Beside each value goes a bound: how far from it a right result may be, whatever the order of its
 * sums. It grows with the magnitude of what is added, not with that of the result, and what comes
 * into a node with an error leaves it with one. Misuse ends the program.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_REFERENCE_DNN_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_DNN_REFERENCE_H

#include <troupe/dnn.h>

/* Elements are packed, the last dimension fastest. */
typedef struct dr_tensor {
    trp_dtype type;
    uint32_t rank;
    int64_t dim[TRP_DNN_RANK_MAX];
    size_t count;
    double *v, *e; /* values as the type holds them, and their bounds */
} dr_tensor;

typedef struct dr_graph {
    const trp_dnn_tensor *tensor;
    uint32_t tensors; /* that of none included */
    const trp_dnn_node *node;
    uint32_t nodes;
    dr_tensor *value; /* of each tensor. What is in memory and read is there before */
    double slack;     /* bounds of a computation are so many times as wide; 0: 1 */
    bool fused;       /* virtual tensors may stay as they were computed */
} dr_graph;

/* Gives a tensor its elements, all 0. */
void dr_make(dr_tensor *t, trp_dtype type, uint32_t rank, const int64_t *dim);
void dr_free(dr_tensor *t);

/* Computes all that the nodes write. */
void dr_run(dr_graph *g);

/* What a node writes, in the order of the fields of trp_dnn_node; returns how many. */
enum { DR_OUTPUTS_MAX = 5 };
uint32_t dr_outputs(const trp_dnn_node *node, uint32_t *out);

/* Elements of every type that tensors have: a real number as the type holds it, and in memory. */
double dr_round(trp_dtype type, double value);
double dr_load(trp_dtype type, const void *array, int64_t index);
void dr_store(trp_dtype type, void *array, int64_t index, double value);
/* The smallest number of a scale's type that is not below a value, or its largest. */
double dr_scale(trp_dtype type, double value);

/* The functions behind POINTWISE and POINTWISE_BACKWARD. */
int dr_inputs(trp_dnn_pointwise mode);
double dr_function(const trp_dnn_node *node, double x, double b, double t);
double dr_derivative(const trp_dnn_node *node, double x);

/* --- for the parts of the reference itself --- */

/* The node that is computed: its tensors, and half a unit in the last place of what it computes in.
 */
typedef struct dr_work {
    const dr_graph *g;
    const trp_dnn_node *n;
    double u;
} dr_work;

/* A sum, of which the order is not known. */
typedef struct dr_sum {
    double v, e, size, n;
} dr_sum;

void dr_add(dr_sum *s, double v, double e);
/* The same, where the terms may be taken apart into others of this size. */
void dr_add_of(dr_sum *s, double v, double e, double size);
double dr_bound(const dr_sum *s, double u);

dr_tensor *dr_of(const dr_work *w, uint32_t tensor);
/* The next position; false after the last. Its element; dimensions of 1 go with any. */
bool dr_next(const dr_tensor *t, int64_t *position);
bool dr_step(uint32_t rank, const int64_t *dim, int64_t *position);
size_t dr_at(const dr_tensor *t, const int64_t *position);

/* A seed or an offset; 0 without a tensor. What is drawn for a number, with 24 or 53 bits. */
uint64_t dr_integer(const dr_work *w, uint32_t tensor);
double dr_fraction(bool wide, uint64_t seed, uint64_t offset, uint64_t i);

void dr_pool(const dr_work *w);
void dr_pool_backward(const dr_work *w);
void dr_norm(const dr_work *w);
void dr_norm_backward(const dr_work *w);
void dr_attention(const dr_work *w);
void dr_attention_backward(const dr_work *w);
void dr_paged_load(const dr_work *w);
void dr_pointwise(const dr_work *w);
void dr_move(const dr_work *w);
void dr_random(const dr_work *w);
void dr_quantize(const dr_work *w);
void dr_dequantize(const dr_work *w);
void dr_pointwise_backward(const dr_work *w);

#endif

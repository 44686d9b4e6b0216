/* Graphs of the dnn actor in float64, by plain loops from the definitions in dnn.h. Shares no code
 * with src/actors/dnn, which it checks. Each value has a bound: how far a right result may be from
 * it, for any order of sums. The bound grows with the magnitude of the terms, not of the result,
 * and errors of inputs propagate. Misuse ends the program. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_REFERENCE_DNN_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_DNN_REFERENCE_H

#include <troupe/dnn.h>

/* Elements are packed, the last dimension fastest. */
typedef struct dr_tensor {
    trp_dtype type;
    uint32_t rank;
    int64_t dim[TRP_DNN_RANK_MAX];
    size_t count;
    double *v, *e; /* values rounded to the type, and their bounds */
} dr_tensor;

typedef struct dr_graph {
    const trp_dnn_tensor *tensor;
    uint32_t tensors; /* including tensor 0, none */
    const trp_dnn_node *node;
    uint32_t nodes;
    dr_tensor *value; /* one per tensor; inputs in memory are set by the caller */
    double slack;     /* factor of the bounds of a computation; 0: 1 */
    bool fused;       /* virtual tensors may not be rounded to their type */
} dr_graph;

/* Allocates the elements of a tensor, all 0. */
void dr_make(dr_tensor *t, trp_dtype type, uint32_t rank, const int64_t *dim);
void dr_free(dr_tensor *t);

/* Computes all outputs of the nodes. */
void dr_run(dr_graph *g);

/* Returns the number of outputs of a node, in the order of the fields of trp_dnn_node. */
enum { DR_OUTPUTS_MAX = 5 };
uint32_t dr_outputs(const trp_dnn_node *node, uint32_t *out);

/* Round a real number to any type of tensors, and load and store it. */
double dr_round(trp_dtype type, double value);
double dr_load(trp_dtype type, const void *array, int64_t index);
void dr_store(trp_dtype type, void *array, int64_t index, double value);
/* Returns the smallest number of a scale's type that is not below a value, or its largest number.
 */
double dr_scale(trp_dtype type, double value);

/* The functions of POINTWISE and POINTWISE_BACKWARD. */
int dr_inputs(trp_dnn_pointwise mode);
double dr_function(const trp_dnn_node *node, double x, double b, double t);
double dr_derivative(const trp_dnn_node *node, double x);

/* --- for the files of the reference --- */

/* The current node: its tensors, and half a unit in the last place of its compute type. */
typedef struct dr_work {
    const dr_graph *g;
    const trp_dnn_node *n;
    double u;
} dr_work;

/* A sum in unknown order. */
typedef struct dr_sum {
    double v, e, size, n;
} dr_sum;

void dr_add(dr_sum *s, double v, double e);
/* Adds a term that may be split into others of this size. */
void dr_add_of(dr_sum *s, double v, double e, double size);
double dr_bound(const dr_sum *s, double u);

dr_tensor *dr_of(const dr_work *w, uint32_t tensor);
/* Step to the next position (false after the last), and find its element; dimensions of 1 are
 * repeated. */
bool dr_next(const dr_tensor *t, int64_t *position);
bool dr_step(uint32_t rank, const int64_t *dim, int64_t *position);
size_t dr_at(const dr_tensor *t, const int64_t *position);

/* Return a seed or an offset, 0 without a tensor, and the random bits of a number, 24 or 53. */
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

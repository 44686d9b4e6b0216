/* Problems for the dnn actor: a graph, contents and layouts of its tensors, drawn at random, and
 * the comparison of all outputs with dnn_reference.h. Gaps between elements and the bytes around
 * them must not change. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_DNN_PROBLEM_H
#define TESTS_SUPPORT_PROBLEMS_DNN_PROBLEM_H

#include "support/reference/dnn_reference.h"
#include "support/harness.h"

#include <troupe/layers.h>

enum { DP_TENSORS = 32, DP_NODES = 16 };

/* Contents of a tensor. */
typedef enum dp_fill {
    DP_ANY,      /* -2 to 2; integers -9 to 9 */
    DP_POSITIVE, /* 0.25 to 2 */
    DP_AWAY,     /* the same, of either sign */
    DP_DISTINCT, /* all different: at most 4096 elements of f64, f32 or f16 */
    DP_FEW,      /* -1, 0, 1 or 2 */
    DP_STEEP,    /* of either sign, from 2^-8 to 2^7, where functions approach their limits */
    DP_WIDE,     /* of either sign and many orders of magnitude, and sometimes 0 */
    DP_SPAN,     /* integers within `span` */
} dp_fill;

/* Arguments of calls of layers.h that are not in the graph that they stand for: numbers of tensors,
 * and scalars. */
typedef struct dp_layer {
    uint32_t x, w, y, z, bias;
    trp_scalar alpha, beta, epsilon, factor;
    trp_layer_activation activation;
} dp_layer;

typedef struct dp_problem {
    const char *kind;                  /* its row in the table */
    trp_dnn_tensor tensor[DP_TENSORS]; /* [0] means none */
    uint32_t tensors;                  /* number of the last one */
    bool memory[DP_TENSORS];           /* has a buffer */
    bool repeated[DP_TENSORS];         /* an input whose only element is repeated */
    bool unknown[DP_TENSORS];          /* contents are internal to the library */
    bool packed;                       /* all tensors are packed */
    dp_fill fill[DP_TENSORS];
    int64_t span[DP_TENSORS][2]; /* least and most, for DP_SPAN */
    trp_dnn_node node[DP_NODES];
    uint32_t nodes;
    trp_dnn_options options; /* `ran` below, unless the case sets its own */
    trp_dnn_ran ran;
    dp_layer layer;
    bool refused; /* a GPU's library refused a part of it: nothing is compared */
    /* Sets contents that depend on others, by dp_set(), after those are drawn; NULL: there are
     * none. */
    void (*settle)(struct dp_problem *p);

    bool written[DP_TENSORS];
    unsigned char *data[DP_TENSORS]; /* all bytes of a buffer, before */
    size_t bytes[DP_TENSORS];
    /* values of inputs and, after the comparison, of expected outputs */
    dr_tensor value[DP_TENSORS];
} dp_problem;

/* Return a number below the bound, or from least to most. */
int64_t dp_below(int64_t bound);
int64_t dp_from(int64_t least, int64_t most);

/* Opens a device with the actor, for a case; closing it prints the table below. */
h_world dp_open(trp_actor **dnn);
void dp_close(h_world *world);

/* Add tensors and nodes to a problem, which is zero at first. */
uint32_t dp_memory(dp_problem *p, trp_dtype type, uint32_t rank, const int64_t *dim);
uint32_t dp_virtual(dp_problem *p, trp_dtype type);
uint32_t dp_value(dp_problem *p, double value);
trp_dnn_node *dp_node(dp_problem *p, trp_dnn_kind kind);

/* Draws layouts and contents into `data`; dp_make() also uploads them. With TROUPE_TEST_REGULAR
 * most problems have layouts that libraries need. */
void dp_prepare(dp_problem *p);
void dp_make(trp_device *device, dp_problem *p);
/* Gives a tensor other contents, packed; dp_put() also uploads them. */
void dp_set(dp_problem *p, uint32_t tensor, const double *v);
void dp_put(dp_problem *p, uint32_t tensor, const double *v);
/* Adds a tensor of integers from least to most. */
uint32_t dp_span(dp_problem *p, trp_dtype type, uint32_t rank, const int64_t *dim, int64_t least,
                 int64_t most);
/* Gives a virtual tensor its dimensions; returns its number. */
uint32_t dp_shape(dp_problem *p, uint32_t tensor, uint32_t rank, const int64_t *dim);
/* Returns the present contents, packed; the caller frees them. */
double *dp_read(const dp_problem *p, uint32_t tensor);
/* Waits for a request, sent with `status`, which must succeed unless a GPU's library refuses it. On
 * a GPU the plain kernels must not have run it, unless engines.h allows that. */
void dp_await(dp_problem *p, trp_status status, trp_completion done);
/* Sends the graph. */
trp_status dp_send(trp_actor *dnn, dp_problem *p, trp_completion *done);
/* Sends the graph and waits. */
void dp_compute(trp_actor *dnn, dp_problem *p);
/* Fails the test unless all outputs of the nodes are right: on a GPU at the end of the case, so
 * that one run reports all errors; `refused` is set then. */
void dp_compare(dp_problem *p);
/* Compares outputs that were read back, and changes them; returns the largest error as a share of
 * its bound. Does not check the engine. */
double dp_compare_in(dp_problem *p, char *const after[DP_TENSORS]);
void dp_check_engine(dp_problem *p);
/* Fails unless an engine ran it on a GPU. */
void dp_expect_engine(const dp_problem *p, const char *engine);
void dp_drop(dp_problem *p);
/* Does all steps for a problem. */
void dp_check(trp_device *device, trp_actor *dnn, dp_problem *p);

/* Compares a gradient with finite differences in f64, for a packed problem that has been made: with
 * y = f(x), <dx, d> is the slope of <dy, f(x + h d)> in a random direction d. */
typedef struct dp_slope {
    uint32_t x, dx, y, dy;
} dp_slope;

void dp_check_slope(const char *file, int line, trp_actor *dnn, dp_problem *p, dp_slope s);

/* Prints for each kind the number of problems and of refusals, and the largest error as a share of
 * its bound where results are f32 or f64 and the bound is some steps of these. Fails the test if a
 * problem was wrong. */
void dp_print_table(void);

/* Returns a number of problems: `count` times TROUPE_TEST_TIMES, by default 4 (1 under a
 * sanitizer). */
int dp_rounds(int count);

#endif

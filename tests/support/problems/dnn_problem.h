/* Problems for the dnn actor: a graph, what its tensors hold and where they lie, drawn at random;
 * and the comparison of all that it writes with dnn_reference.h. Gaps between elements and bytes
 * around them must stay as they were. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_DNN_PROBLEM_H
#define TESTS_SUPPORT_PROBLEMS_DNN_PROBLEM_H

#include "support/reference/dnn_reference.h"
#include "support/harness.h"

#include <troupe/layers.h>

enum { DP_TENSORS = 32, DP_NODES = 16 };

/* What a tensor holds. */
typedef enum dp_fill {
    DP_ANY,      /* -2 to 2; of integers -9 to 9 */
    DP_POSITIVE, /* 0.25 to 2 */
    DP_AWAY,     /* likewise, of any sign */
    DP_DISTINCT, /* no two are the same: of at most 4096, in f64, f32 or f16 */
    DP_FEW,      /* -1, 0, 1 or 2 */
    DP_STEEP,    /* of any sign, from 2^-8 to 2^7: what functions go to their limits at */
    DP_WIDE,     /* of any sign and of many orders of magnitude, and 0 at times */
    DP_SPAN,     /* whole numbers of `span` */
} dp_fill;

/* What calls of layers.h have beside the graph that they stand for: numbers of tensors, numbers. */
typedef struct dp_layer {
    uint32_t x, w, y, z, bias;
    trp_scalar alpha, beta, epsilon, factor;
    trp_layer_activation activation;
} dp_layer;

typedef struct dp_problem {
    const char *kind;                  /* its line in the table */
    trp_dnn_tensor tensor[DP_TENSORS]; /* [0] is none */
    uint32_t tensors;                  /* the number of the last one */
    bool memory[DP_TENSORS];           /* it gets a buffer */
    bool repeated[DP_TENSORS];         /* an input whose one element stands for all */
    bool unknown[DP_TENSORS];          /* what it must hold is the library's own */
    bool packed;                       /* all of them are */
    dp_fill fill[DP_TENSORS];
    int64_t span[DP_TENSORS][2]; /* least and most, for DP_SPAN */
    trp_dnn_node node[DP_NODES];
    uint32_t nodes;
    trp_dnn_options options; /* `ran` below, unless the case has one of its own */
    trp_dnn_ran ran;
    dp_layer layer;
    bool refused; /* a part of it, by a GPU's library: nothing is compared */
    /* Contents that depend on others, by dp_set(), once those are drawn; NULL: there are none. */
    void (*settle)(struct dp_problem *p);

    bool written[DP_TENSORS];
    unsigned char *data[DP_TENSORS]; /* all of a buffer, before */
    size_t bytes[DP_TENSORS];
    dr_tensor value[DP_TENSORS]; /* of what is read; once compared, what must be written */
} dp_problem;

/* Below the bound; from least to most. */
int64_t dp_below(int64_t bound);
int64_t dp_from(int64_t least, int64_t most);

/* A device with the actor, for a case; closing it prints the table below. */
h_world dp_open(trp_actor **dnn);
void dp_close(h_world *world);

/* Tensors and nodes of a problem that begins all zero. */
uint32_t dp_memory(dp_problem *p, trp_dtype type, uint32_t rank, const int64_t *dim);
uint32_t dp_virtual(dp_problem *p, trp_dtype type);
uint32_t dp_value(dp_problem *p, double value);
trp_dnn_node *dp_node(dp_problem *p, trp_dnn_kind kind);

/* Draws layouts and contents, which are in `data`; dp_make() uploads them, too. With
 * TROUPE_TEST_REGULAR most problems lie as a library wants them. */
void dp_prepare(dp_problem *p);
void dp_make(trp_device *device, dp_problem *p);
/* Gives a tensor other contents, packed; dp_put() uploads them, too. */
void dp_set(dp_problem *p, uint32_t tensor, const double *v);
void dp_put(dp_problem *p, uint32_t tensor, const double *v);
/* A tensor of whole numbers from least to most. */
uint32_t dp_span(dp_problem *p, trp_dtype type, uint32_t rank, const int64_t *dim, int64_t least,
                 int64_t most);
/* The dimensions of a virtual tensor; gives its number. */
uint32_t dp_shape(dp_problem *p, uint32_t tensor, uint32_t rank, const int64_t *dim);
/* What it holds now, packed, to be freed. */
double *dp_read(const dp_problem *p, uint32_t tensor);
/* Waits for a request, which must succeed, but that a GPU's library may refuse it; `status` is what
 * sending it gave. On a GPU the plain kernels must not have run it, unless engines.h says so. */
void dp_await(dp_problem *p, trp_status status, trp_completion done);
/* Sends the graph. */
trp_status dp_send(trp_actor *dnn, dp_problem *p, trp_completion *done);
/* Both. */
void dp_compute(trp_actor *dnn, dp_problem *p);
/* Fails the test unless all that the nodes write is right by now: on a GPU at the end of the case,
 * so that one run tells all that is wrong; `refused` is set then. */
void dp_compare(dp_problem *p);
/* The same of what was read back, which is changed; gives the largest error as a share of its
 * bound. The engine is judged apart. */
double dp_compare_in(dp_problem *p, char *const after[DP_TENSORS]);
void dp_check_engine(dp_problem *p);
/* On a GPU an engine must have run it. */
void dp_expect_engine(const dp_problem *p, const char *engine);
void dp_drop(dp_problem *p);
/* All of it. */
void dp_check(trp_device *device, trp_actor *dnn, dp_problem *p);

/* A gradient against finite differences, in f64 and of a packed problem that is made: with y =
 * f(x), <dx, d> is the slope of <dy, f(x + h d)> in a random direction d. */
typedef struct dp_slope {
    uint32_t x, dx, y, dy;
} dp_slope;

void dp_check_slope(const char *file, int line, trp_actor *dnn, dp_problem *p, dp_slope s);

/* Of each kind: problems, and the largest error as a share of its bound where results are f32 or
 * f64 and the bound is some steps of that; how many were refused. Fails the test if any was wrong.
 */
void dp_print_table(void);

/* How many problems: so many times TROUPE_TEST_TIMES, which is 4 without it (1 under a sanitizer).
 */
int dp_rounds(int count);

#endif

/* Graphs of the dnn actor whose tensors hold values of a test, repeated as often as they have
 * elements. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_DNN_SMALL_H
#define TESTS_SUPPORT_PROBLEMS_DNN_SMALL_H

#include "support/harness.h"
#include "support/reference/dnn_reference.h"

enum { DS_TENSORS = 24, DS_NODES = 8 };

typedef struct ds_graph {
    trp_dnn_tensor tensor[DS_TENSORS]; /* [0] means none */
    size_t count[DS_TENSORS];
    uint32_t tensors;
    trp_dnn_node node[DS_NODES];
    uint32_t nodes;
} ds_graph;

/* The device of the running case, and the actor. */
extern h_world ds_world;
extern trp_actor *ds_dnn;
extern trp_dnn_ran ds_ran; /* of the last request */

void ds_begin(void);
void ds_end(void);

/* Adds a packed tensor in memory, with repeated values; NULL: poison. */
uint32_t ds_put(ds_graph *g, trp_dtype type, uint32_t rank, const int64_t *dim, const double *v,
                size_t values);

/* Add such a tensor of one dimension, a number, and a node of a kind. */
uint32_t ds_line(ds_graph *g, trp_dtype type, size_t count, const double *v, size_t values);
uint32_t ds_number(ds_graph *g, double value);
trp_dnn_node *ds_node(ds_graph *g, trp_dnn_kind kind);

/* Send the graph, and wait until it succeeds. */
trp_status ds_send(ds_graph *g, trp_completion *done);
void ds_run(ds_graph *g);
/* Returns the contents of a tensor; the caller frees them. */
double *ds_get(const ds_graph *g, uint32_t t);
void ds_drop(ds_graph *g);

/* Return a unit in the last place near 1, and the smallest numbers. */
double ds_step_of(trp_dtype type);
double ds_smallest(trp_dtype type);
double ds_most_of(trp_dtype type);

/* Checks that a result is within so many units of the expected one, or of 0 as `size` allows. */
void ds_check(const char *what, trp_dtype type, size_t at, double got, double want, double units,
              double size);
void ds_check_all(const char *what, const ds_graph *g, uint32_t t, const double *want,
                  size_t values, double units, double size);

static const trp_dtype ds_floats[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define FOR_FLOATS(type)                                                                           \
    for (size_t type##_at = 0; type##_at < COUNT_OF(ds_floats); type##_at++)                       \
        for (trp_dtype type = ds_floats[type##_at], *type##_once = &type; type##_once;             \
             type##_once = NULL)

#endif

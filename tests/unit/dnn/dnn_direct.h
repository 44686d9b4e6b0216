/* Graphs for the dnn actor on the host, from the request to the numbers without a worker: its
 * tensors lie in arrays of the test. */
#ifndef TESTS_UNIT_DNN_DNN_DIRECT_H
#define TESTS_UNIT_DNN_DNN_DIRECT_H

#include "actors/dnn/host/run.h"

#include <troupe/troupe.h>

struct trp_job;

enum { DD_TENSORS = 20, DD_NODES = 8 };

/* All zero at first. */
typedef struct dd_graph {
    trp_dnn_tensor tensor[DD_TENSORS];
    uint32_t tensors; /* the number of the last one; its buffer has the same number */
    void *array[DD_TENSORS];
    uint64_t bytes[DD_TENSORS];
    trp_dnn_node node[DD_NODES];
    uint32_t nodes;
} dd_graph;

/* Add something and return its number or place. A tensor without an array is virtual. */
uint32_t dd_tensor(dd_graph *g, trp_dtype type, void *array, int rank, const int64_t *dim);
uint32_t dd_line(dd_graph *g, trp_dtype type, void *array, int64_t count);
uint32_t dd_value(dd_graph *g, trp_dtype type, double value);
trp_dnn_node *dd_node(dd_graph *g, trp_dnn_kind kind);

/* Makes the actor. TRP_E_MISSING: a library. */
trp_status dd_open(void);
void dd_close(void);

/* What the actor computes with; oneDNN may be taken away for a while. */
trp__dnn_host_libraries *dd_libraries(void);

/* Runs a graph; `meddle` changes what the actor gets. */
trp_status dd_send(const dd_graph *g, void (*meddle)(struct trp_job *job));

/* Of the last call. */
const trp_error *dd_error(void);

/* How the last graph was run. */
const trp_dnn_ran *dd_ran(void);

#endif

/* Wrong graphs of the dnn actor: a table of changes to a good graph, with the message that each
 * must cause. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_DNN_WRONG_H
#define TESTS_SUPPORT_PROBLEMS_DNN_WRONG_H

#include "support/harness.h"

#include <troupe/dnn.h>

enum { DW_TENSORS = 16, DW_NODES = 3 };

typedef struct dw_graph {
    trp_dnn_tensor tensor[DW_TENSORS]; /* [0] means none */
    trp_dnn_node node[DW_NODES];
    trp_dnn_graph_request request; /* tensors and nodes of the graph */
} dw_graph;

/* Sets a tensor of four dimensions in its own buffer. */
#define DW_TENSOR(number, of, ...)                                                                 \
    [number] = {.type = of, .rank = 4, .dim = {__VA_ARGS__}, .buffer = buffer[number]}

/* Makes a good graph, without its request. */
typedef void dw_make(dw_graph *p, const trp_buffer buffer[]);

/* Applies change number `which` and returns its message; NULL after the last. Its body has a line
 * of DW_APPLY for each row of the table, and an int `at` that is 0 at first. */
typedef const char *dw_spoil(dw_graph *p, int which);

#define DW_APPLY(says, change)                                                                     \
    if (at++ == which) {                                                                           \
        change;                                                                                    \
        return says;                                                                               \
    }

typedef struct dw_table {
    uint32_t tensors, nodes; /* of the good graph */
    dw_make *make;
    dw_spoil *spoil;
    const trp_buffer *buffer;
} dw_table;

/* Makes the good graph with its request. */
void dw_good(const dw_table *table, dw_graph *p);

/* Checks that each is refused at once with its message, and that nothing is sent; there must be at
 * least one. */
void dw_check(const char *file, int line, trp_actor *dnn, const dw_table *table);
#define DW_CHECK(dnn, table) dw_check(__FILE__, __LINE__, dnn, table)

#endif

/* Graphs of the dnn actor that are wrong, each in one way: a table of what is done to a good one,
 * and of what is said of that. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_DNN_WRONG_H
#define TESTS_SUPPORT_PROBLEMS_DNN_WRONG_H

#include "support/harness.h"

#include <troupe/dnn.h>

enum { DW_TENSORS = 16, DW_NODES = 3 };

typedef struct dw_graph {
    trp_dnn_tensor tensor[DW_TENSORS]; /* [0] is none */
    trp_dnn_node node[DW_NODES];
    trp_dnn_graph_request request; /* of these */
} dw_graph;

/* A tensor of four dimensions in its own buffer. */
#define DW_TENSOR(number, of, ...)                                                                 \
    [number] = {.type = of, .rank = 4, .dim = {__VA_ARGS__}, .buffer = buffer[number]}

/* Makes a good one, but for the request. */
typedef void dw_make(dw_graph *p, const trp_buffer buffer[]);

/* Applies change number `which`; what is to be said of it, NULL behind the last. Its body is a line
 * of DW_APPLY for each row of the table, with an int `at` that begins at 0. */
typedef const char *dw_spoil(dw_graph *p, int which);

#define DW_APPLY(says, change)                                                                     \
    if (at++ == which) {                                                                           \
        change;                                                                                    \
        return says;                                                                               \
    }

typedef struct dw_table {
    uint32_t tensors, nodes; /* of the good one */
    dw_make *make;
    dw_spoil *spoil;
    const trp_buffer *buffer;
} dw_table;

/* The good one, with its request. */
void dw_good(const dw_table *table, dw_graph *p);

/* Each must be refused at once, with what is said of it and nothing sent; there must be one. */
void dw_check(const char *file, int line, trp_actor *dnn, const dw_table *table);
#define DW_CHECK(dnn, table) dw_check(__FILE__, __LINE__, dnn, table)

#endif

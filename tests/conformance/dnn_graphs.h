/* Operations of the dnn actor that are graphs. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CONFORMANCE_DNN_GRAPHS_H
#define TESTS_CONFORMANCE_DNN_GRAPHS_H

#include "conformance/conformance.h"
#include "support/problems/dnn_draw.h"

/* How many types an operation has, from the first of f64, f32, f16, bf16, f8e4m3, f8e5m2, i8, u8,
 * i32, bool. */
enum { CF_DISTINCT = 3, CF_WIDE = 4, CF_FLOATS = 6, CF_AND_I8 = 7, CF_ALL_TYPES = 10 };

typedef struct cf_graph {
    const char *name;
    /* Draws a graph for a type; `way` is below `ways`. */
    void (*draw)(dp_problem *p, trp_dtype type, int way);
    unsigned types, ways, first;
    bool (*goes_with)(trp_dtype type, int way); /* NULL: all types go with all ways */
    /* Sends the calls that the graph stands for, and the last one with `done`; NULL: sends the
     * graph. */
    trp_status (*send)(trp_actor *dnn, dp_problem *p, trp_completion *done);
} cf_graph;

#define CF_GRAPH(of, by, some, count, ...)                                                         \
    {                                                                                              \
        .name = of, .draw = by, .types = some, .ways = count, __VA_ARGS__                          \
    }

/* The main function of such a test program. */
int cf_graphs_main(int argc, char **argv, const char *title, const cf_graph *rows, size_t count);

#endif

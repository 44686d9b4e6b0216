/* Operations of the dnn actor that are graphs. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CONFORMANCE_DNN_GRAPHS_H
#define TESTS_CONFORMANCE_DNN_GRAPHS_H

#include "conformance/conformance.h"
#include "support/problems/dnn_draw.h"

/* How many types an operation has, from the first in this order: f64, f32, f16, bf16, f8e4m3,
 * f8e5m2, i8, u8, i32, bool. */
enum { CF_DISTINCT = 3, CF_WIDE = 4, CF_FLOATS = 6, CF_AND_I8 = 7, CF_ALL_TYPES = 10 };

typedef struct cf_graph {
    const char *name;
    /* One graph of a type; `way` is below `ways`. */
    void (*draw)(dp_problem *p, trp_dtype type, int way);
    unsigned types, ways, first;
    bool (*goes_with)(trp_dtype type, int way); /* NULL: all do */
    /* Sends the calls that the graph stands for, the last one with `done`; NULL: it is sent. */
    trp_status (*send)(trp_actor *dnn, dp_problem *p, trp_completion *done);
} cf_graph;

#define CF_GRAPH(of, by, some, count, ...)                                                         \
    {                                                                                              \
        .name = of, .draw = by, .types = some, .ways = count, __VA_ARGS__                          \
    }

/* All of such a program. */
int cf_graphs_main(int argc, char **argv, const char *title, const cf_graph *rows, size_t count);

#endif

/* What the sections of layers share: rows of one request each, timed by itself, with PyTorch's
 * figure of --torch beside it. */
#ifndef TRP_BENCH_DNN_ROWS_H
#define TRP_BENCH_DNN_ROWS_H

#include "dnn.h"

typedef struct dnn_rows {
    suite *suite;
    const char *section;
    int64_t begun;
} dnn_rows;

/* What a row is of. */
typedef struct dnn_work {
    const char *name; /* as bench/peers/torch_dnn.py has it */
    trp_dtype type;
    double flop; /* of a request */
    stats_side side;
    stats_side raw; /* in turns with it, in place of PyTorch's figure; no function: none */
    const char *raw_name;
    const trp_dnn_ran *ran; /* how it was run; NULL: not known */
} dnn_work;

dnn_rows dnn_rows_begin(suite *s, const char *section);

/* The section has used up what --limit gives it. */
bool dnn_rows_late(const dnn_rows *rows);

/* Sends requests back to back and adds the row, which *out becomes. False: what failed is told. */
bool dnn_rows_measure(const dnn_rows *rows, const dnn_work *work, report_row *out);

/* Calls `layer` with 0 to below `count` and a dnn actor on a device of its own, until the section
 * is late, which is told then. */
typedef void (*dnn_rows_layer)(void *context, trp_actor *actor, size_t i);
void dnn_rows_run(const dnn_rows *rows, size_t count, dnn_rows_layer layer, void *context);

/* A figure that is known, and not a sample of anything; 0: unknown. */
stats_summary dnn_rows_known(double ns);

#endif

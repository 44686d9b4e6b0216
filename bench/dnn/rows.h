/* Shared by the sections of layers: each row times one request by itself, beside PyTorch's figure
 * from --torch. */
#ifndef TRP_BENCH_DNN_ROWS_H
#define TRP_BENCH_DNN_ROWS_H

#include "dnn.h"

typedef struct dnn_rows {
    suite *suite;
    int64_t begun;
} dnn_rows;

/* The subject of a row. */
typedef struct dnn_work {
    const char *name; /* as in bench/peers/torch_dnn.py */
    trp_dtype type;
    double flop; /* floating-point operations of a request */
    stats_side side;
    stats_side raw; /* raw side instead of PyTorch's figure; no function: none */
    const char *raw_name;
    const trp_dnn_ran *ran; /* how the request ran; NULL: unknown */
} dnn_work;

dnn_rows dnn_rows_begin(suite *s);

/* Tells whether the section has used up the time of --limit. */
bool dnn_rows_late(const dnn_rows *rows);

/* Sends requests back to back, adds the row and stores it in *out. Returns false after it has
 * reported the failure. */
bool dnn_rows_measure(const dnn_rows *rows, const dnn_work *work, report_row *out);

/* Calls `layer` for 0 <= index < `count` with a dnn actor on a separate device, until the time
 * limit of the section, which it then reports. */
typedef void (*dnn_rows_layer)(void *context, trp_actor *actor, size_t i);
void dnn_rows_run(const dnn_rows *rows, size_t count, dnn_rows_layer layer, void *context);

/* Makes a summary from a known figure without samples; 0: unknown. */
stats_summary dnn_rows_known(double ns);

#endif

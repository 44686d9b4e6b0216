/* Runs convolutions by direct calls of cuDNN's backend on a separate stream, in the context of the
 * raw side. */
#ifndef TRP_BENCH_DNN_RAW_DNN_H
#define TRP_BENCH_DNN_RAW_DNN_H

#include "dnn.h"

#include "actors/dnn/plans/plan.h"
#include "driver/cuda.h"

typedef struct raw_dnn {
    char *error; /* room for 320 bytes */
    const trp__cudnn *lib;
    const trp__cuda *cu;
    trp__cudnn_handle handle;
    trp__cu_stream stream;
    trp__dnn_planner planner;
} raw_dnn;

/* Opens cuDNN; writes errors to `text`. Returns TRP_E_MISSING without cuDNN. Call raw_dnn_close()
 * also after a failure. */
trp_status raw_dnn_open(raw_dnn *l, char *text);
void raw_dnn_close(raw_dnn *l);

/* Returns whether `error` is a success; otherwise stores the reason in l->error. */
bool raw_dnn_fail(raw_dnn *l, const trp_error *error);
bool raw_dnn_check(raw_dnn *l, int result, const char *call);

/* Fills memory with copies of `piece` (FILLED_PIECE bytes) on the stream. */
bool raw_dnn_fill(raw_dnn *l, void *to, const void *piece, uint64_t bytes);

enum { RAW_CONV_X, RAW_CONV_W, RAW_CONV_Y, RAW_CONV_TENSORS };

/* A pass of a convolution with its memory: bf16 with channels last, or f32 with channels first.
 * Outputs start as zeros. */
typedef struct raw_conv {
    dnn_shape what;
    dnn_pass pass;
    bool f32;
    const void *piece;  /* FILLED_PIECE bytes repeated in the inputs; NULL: zeros */
    const void *record; /* record to create the plan from; NULL: use the heuristic */
    size_t record_bytes;
    bool best; /* use the fastest of the heuristic's first engines */

    trp__dnn_head head;
    trp__dnn_tensor tensor[RAW_CONV_TENSORS];
    trp__dnn_node node;
    trp__dnn_plan *plan;
    void *at[TRP__DNN_LOWERED_TENSORS], *workspace;
    trp__cu_address memory;
} raw_conv;

/* raw_conv_plan() creates the plan, raw_conv_begin() also allocates memory. Both return false with
 * the reason in l->error. Call raw_conv_end() in either case. */
bool raw_conv_plan(raw_dnn *l, raw_conv *c);
bool raw_conv_begin(raw_dnn *l, raw_conv *c);
void raw_conv_end(raw_dnn *l, raw_conv *c);

bool raw_conv_send(raw_dnn *l, raw_conv *c);                /* does not wait */
bool raw_conv_run(raw_dnn *l, raw_conv *c, uint64_t count); /* sends all, waits once */

/* Waits and copies the first bytes of the output. */
bool raw_conv_result(raw_dnn *l, const raw_conv *c, void *out, size_t bytes);

#endif

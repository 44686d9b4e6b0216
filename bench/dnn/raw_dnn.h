/* Convolutions by cuDNN, its backend called as a program without Troupe would: on a stream of their
 * own, in the context that the raw side on a GPU has made. */
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

/* Errors are told in `text`. TRP_E_MISSING: there is no cuDNN. close(): also after a failure. */
trp_status raw_dnn_open(raw_dnn *l, char *text);
void raw_dnn_close(raw_dnn *l);

/* False, but for a call that went well: l->error has why. */
bool raw_dnn_fail(raw_dnn *l, const trp_error *error);
bool raw_dnn_check(raw_dnn *l, int result, const char *call);

/* The piece, FILLED_PIECE bytes, again and again; in the stream. */
bool raw_dnn_fill(raw_dnn *l, void *to, const void *piece, uint64_t bytes);

enum { RAW_CONV_X, RAW_CONV_W, RAW_CONV_Y, RAW_CONV_TENSORS };

/* A pass of a convolution with its memory: bf16 with channels last, or f32 with channels first.
 * What it writes is zero at first. */
typedef struct raw_conv {
    dnn_shape what;
    dnn_pass pass;
    bool f32;
    const void *piece;  /* FILLED_PIECE bytes that what it reads is filled with; NULL: zeros */
    const void *record; /* of a plan, which is made of it; NULL: by the heuristic */
    size_t record_bytes;
    bool best; /* the fastest of the first engines of the heuristic, instead of the first */

    trp__dnn_head head;
    trp__dnn_tensor tensor[RAW_CONV_TENSORS];
    trp__dnn_node node;
    trp__dnn_plan *plan;
    void *at[TRP__DNN_LOWERED_TENSORS], *workspace;
    trp__cu_address memory;
} raw_conv;

/* The plan, and with begin() its memory too. False: l->error has why. end(): also then. */
bool raw_conv_plan(raw_dnn *l, raw_conv *c);
bool raw_conv_begin(raw_dnn *l, raw_conv *c);
void raw_conv_end(raw_dnn *l, raw_conv *c);

bool raw_conv_send(raw_dnn *l, raw_conv *c);                /* does not wait */
bool raw_conv_run(raw_dnn *l, raw_conv *c, uint64_t count); /* sends all, waits once */

/* Waits, and copies the first bytes of what it has written. */
bool raw_conv_result(raw_dnn *l, const raw_conv *c, void *out, size_t bytes);

#endif

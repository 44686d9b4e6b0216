/* Runs attention by direct calls of cuDNN: executes the plan of the dnn actor on memory and a
 * stream of this process. */
#ifndef TRP_BENCH_DNN_RAW_ATTENTION_H
#define TRP_BENCH_DNN_RAW_ATTENTION_H

#include "raw_dnn.h"

typedef struct attention_shape {
    int64_t batch, heads, rows, depth; /* rows: also the number of columns */
    bool causal;
} attention_shape;

enum { RAW_ATTENTION_Q, RAW_ATTENTION_K, RAW_ATTENTION_V, RAW_ATTENTION_Y, RAW_ATTENTION_TENSORS };

/* Forward attention in bf16 without stats. */
typedef struct raw_attention {
    raw_dnn *library;
    attention_shape what;
    uint64_t seed; /* q is filled from this seed, k and v from the next two */

    trp__dnn_head head;
    trp__dnn_tensor tensor[RAW_ATTENTION_TENSORS];
    trp__dnn_node node;
    trp__dnn_plan *plan;
    void *at[TRP__DNN_LOWERED_TENSORS], *workspace;
    trp__cu_address memory;
} raw_attention;

/* Returns false with the reason in the library's error. Call raw_attention_end() in either case. */
bool raw_attention_begin(raw_attention *a);
void raw_attention_end(raw_attention *a);

/* Sends `count` operations and waits once: a side of stats_compare(). */
bool raw_attention_run(void *context, uint64_t count);

#endif

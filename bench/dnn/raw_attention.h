/* Attention by cuDNN, called as a program without Troupe would: what the dnn actor has planned is
 * run on memory and a stream of this process's own. */
#ifndef TRP_BENCH_DNN_RAW_ATTENTION_H
#define TRP_BENCH_DNN_RAW_ATTENTION_H

#include "raw_dnn.h"

typedef struct attention_shape {
    int64_t batch, heads, rows, depth; /* as many columns as rows */
    bool causal;
} attention_shape;

enum { RAW_ATTENTION_Q, RAW_ATTENTION_K, RAW_ATTENTION_V, RAW_ATTENTION_Y, RAW_ATTENTION_TENSORS };

/* Forward, bf16, without stats. */
typedef struct raw_attention {
    raw_dnn *library;
    attention_shape what;
    uint64_t seed; /* q is filled with the piece of this seed, k and v with those of the next */

    trp__dnn_head head;
    trp__dnn_tensor tensor[RAW_ATTENTION_TENSORS];
    trp__dnn_node node;
    trp__dnn_plan *plan;
    void *at[TRP__DNN_LOWERED_TENSORS], *workspace;
    trp__cu_address memory;
} raw_attention;

/* False: the library's error has why. raw_attention_end(): also then. */
bool raw_attention_begin(raw_attention *a);
void raw_attention_end(raw_attention *a);

/* A side: sends so many, and waits once. */
bool raw_attention_run(void *context, uint64_t count);

#endif

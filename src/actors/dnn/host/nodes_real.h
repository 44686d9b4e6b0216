/* All nodes in one real type except those that only chains compute (chain.h). f32.c and f64.c
 * include this, with macros: T, the type; NAME(x), x with a suffix of the type's own; GEMM, the
 * routine of CBLAS; IS_F32. */
#include "actors/dnn/math/blocks.h"
#include "actors/dnn/math/dropout.h"
#include "actors/dnn/math/functions.h"
#include "actors/dnn/host/run.h"
#include "actors/dnn/host/arrays/walk.h"
#include "actors/dnn/host/onednn/onednn.h"
#include "actors/dnn/math/random.h"
#include "base/os/team.h"
#include "base/numbers/vmath.h"

#include <math.h>
#include <string.h>

#include "actors/dnn/host/conv_real.h"

#include "actors/dnn/host/attention_real.h"
#include "actors/dnn/host/blocks_real.h"
#include "actors/dnn/host/norm_real.h"
#include "actors/dnn/host/pool_real.h"
#include "actors/dnn/host/random_real.h"

/* Copies the elements of y in order from their places in x. */
static void NAME(run_view)(const trp__dnn_host_node *x)
{
    const trp__dnn_tensor *from = x->tensor[TRP__DNN_MOVE_X], *to = x->tensor[TRP__DNN_MOVE_Y];
    const T *in = x->at[TRP__DNN_MOVE_X];
    T *out = x->at[TRP__DNN_MOVE_Y];
    const bool slice = x->n->kind == TRP_DNN_SLICE;
    int64_t next = 1, dense[TRP__DNN_RANK] = {0}, apart[TRP__DNN_RANK] = {0};
    trp__walk walk;
    if (!trp__walk_begin(&walk, to))
        return;
    for (int i = from->rank - 1; i >= 0; next *= from->dim[i--])
        dense[i] = next;
    for (int i = 0; i < to->rank; i++) {
        apart[i] = slice ? dense[i] * x->n->step[i] : dense[x->n->start[i]];
        in += slice ? dense[i] * x->n->start[i] : 0;
    }
    trp__walk_add_steps(&walk, apart);
    do {
        *out++ = in[walk.offset[0]];
    } while (trp__walk_next(&walk));
}

static void NAME(run_reshape)(const trp__dnn_host_node *x)
{
    memcpy(x->at[TRP__DNN_MOVE_Y], x->at[TRP__DNN_MOVE_X],
           (size_t)trp__dnn_elements(x->tensor[TRP__DNN_MOVE_Y]) * sizeof(T));
}

static void NAME(run_concatenate)(const trp__dnn_host_node *x)
{
    const int axis = x->n->mode;
    const trp__dnn_tensor *to = x->tensor[TRP__DNN_MOVE_Y];
    T *out = x->at[TRP__DNN_MOVE_Y];
    int64_t lines = 1, line = 1, done = 0;
    for (int i = 0; i < to->rank; i++)
        *(i < axis ? &lines : &line) *= to->dim[i];
    for (int k = 0; k < TRP_DNN_PARTS_MAX; k++) {
        if (!x->tensor[k] || line == 0)
            continue;
        const int64_t each = line / to->dim[axis] * x->tensor[k]->dim[axis];
        for (int64_t i = 0; i < lines; i++)
            memcpy(out + i * line + done, (const T *)x->at[k] + i * each, (size_t)each * sizeof(T));
        done += each;
    }
}

static void (*const NAME(runs)[])(const trp__dnn_host_node *) = {
    [TRP_DNN_CONV_FORWARD] = NAME(run_conv),
    [TRP_DNN_CONV_BACKWARD_DATA] = NAME(run_conv),
    [TRP_DNN_CONV_BACKWARD_FILTER] = NAME(run_conv),
    [TRP_DNN_MATMUL] = NAME(run_matmul),
    [TRP_DNN_REDUCTION] = NAME(run_reduction),
    [TRP_DNN_RESAMPLE_FORWARD] = NAME(run_pool),
    [TRP_DNN_RESAMPLE_BACKWARD] = NAME(run_pool_backward),
    [TRP_DNN_NORM_TRAINING] = NAME(run_norm),
    [TRP_DNN_NORM_INFERENCE] = NAME(run_norm),
    [TRP_DNN_NORM_BACKWARD] = NAME(run_norm_backward),
    [TRP_DNN_STATISTICS] = NAME(run_statistics),
    [TRP_DNN_ATTENTION] = NAME(run_attention),
    [TRP_DNN_ATTENTION_BACKWARD] = NAME(run_attention_backward),
    [TRP_DNN_CONCATENATE] = NAME(run_concatenate),
    [TRP_DNN_SLICE] = NAME(run_view),
    [TRP_DNN_TRANSPOSE] = NAME(run_view),
    [TRP_DNN_RESHAPE] = NAME(run_reshape),
    [TRP_DNN_RANDOM] = NAME(run_random),
    [TRP_DNN_BLOCK_SCALE_QUANTIZE] = NAME(run_quantize),
    [TRP_DNN_BLOCK_SCALE_DEQUANTIZE] = NAME(run_dequantize),
};

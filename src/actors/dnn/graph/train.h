/* The kinds of nodes for training, from GATHER on. Each family has a file training/NAME.c with the
 * checks of its tensors and its entry on the host; training/NAME_real.h computes it there in f32 or
 * f64, and reference/NAME.h in kernels for GPUs. This file is shared by both sides of a launch;
 * NVRTC compiles it. */
#ifndef TRP_ACTORS_DNN_GRAPH_TRAIN_H
#define TRP_ACTORS_DNN_GRAPH_TRAIN_H

#include "actors/dnn/graph/graph.h"

/* Ports. Those of GATHER and SCATTER_ADD have the same numbers: `slices` is the gathered data, y of
 * GATHER and dy of SCATTER_ADD; `whole` is x of GATHER and y of SCATTER_ADD. */
enum {
    TRP__GATHER_WHOLE,
    TRP__GATHER_INDEX,
    TRP__GATHER_SLICES,
    TRP__GATHER_BEFORE, /* of SCATTER_ADD: x */
};
/* Ports of CROSS_ENTROPY and LOSS. */
enum {
    TRP__LOSS_X,
    TRP__LOSS_T,
    TRP__LOSS_INDEX,
    TRP__LOSS_W,
    TRP__LOSS_B,
    TRP__LOSS_DY,
    TRP__LOSS_Y,
    TRP__LOSS_ROWS,
    TRP__LOSS_STATS,
    TRP__LOSS_DX,
};
/* In BACKWARD, x is dy and y is dx. */
enum {
    TRP__ROTARY_X,
    TRP__ROTARY_COS,
    TRP__ROTARY_SIN,
    TRP__ROTARY_INDEX,
    TRP__ROTARY_OFFSET,
    TRP__ROTARY_Y,
};
/* Ports of ARG, TOP_K and SAMPLE. */
enum {
    TRP__PICK_X,
    TRP__PICK_Y,
    TRP__PICK_INDEX,
    TRP__PICK_SEED,
    TRP__PICK_OFFSET,
    TRP__PICK_SCALE,
    TRP__PICK_COUNT,
    TRP__PICK_LIMIT,
};
enum {
    TRP__OPT_W,
    TRP__OPT_DW,
    TRP__OPT_MOMENT, /* two */
    TRP__OPT_RATE = 4,
    TRP__OPT_DECAY,
    TRP__OPT_COUNT,
    TRP__OPT_SCALE,
    TRP__OPT_LIMIT,
    TRP__OPT_FOUND,
    TRP__OPT_SEGMENTS,
    TRP__OPT_NEW_W,
    TRP__OPT_NEW_MOMENT, /* two */
    TRP__OPT_NARROW = 14,
    TRP__OPT_NORM,
    TRP__OPT_SKIPPED,
};

/* Partial sums on a GPU, one per block. */
enum { TRP__TRAIN_PARTS = 1024 };

static inline bool trp__dnn_is_training(uint32_t kind)
{
    return kind >= TRP_DNN_GATHER && kind <= TRP_DNN_OPTIMIZER;
}

/* Access to the fields of such kinds other than tensors, modes and parameters. */
static inline int trp__train_axis(const trp__dnn_node *n)
{
    return n->window[0];
}

static inline int trp__train_reduction(const trp__dnn_node *n)
{
    return n->window[1];
}

/* Tells whether an index is ignored. */
static inline bool trp__train_ignores(const trp__dnn_node *n, int64_t index)
{
    const int64_t ignore = (int64_t)((uint64_t)(uint32_t)n->start[1] << 32 | (uint32_t)n->start[0]);
    return n->window[2] != 0 && index == ignore;
}

#endif

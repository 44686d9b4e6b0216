/* How GATHER and SCATTER_ADD go over their tensors on the host. */
#ifndef TRP_ACTORS_DNN_TRAINING_GATHER_H
#define TRP_ACTORS_DNN_TRAINING_GATHER_H

#include "actors/dnn/training/parts.h"

/* For each index there are `lines` lines, of `line` elements along the last dimension, unless that
 * is the axis: then of one. */
typedef struct trp__gather {
    int axis, rank, index_rank;
    bool elements; /* TRP_DNN_GATHER_ELEMENTS */
    int64_t count; /* of indices */
    int64_t lines, line;
    int64_t whole_step, slices_step; /* from one element of a line to the next */
} trp__gather;

trp__gather trp__gather_of(const trp__train_node *x);
/* Where an index leads: its value, or the number of the element; -1: nowhere. */
int64_t trp__gather_target(const trp__train_node *x, const trp__gather *g, int64_t number);
/* Where a line of a target begins in x, or what has its dimensions; and that of an index in y. */
int64_t trp__gather_whole(const trp__gather *g, const trp__dnn_tensor *t, int64_t target,
                          int64_t line);
int64_t trp__gather_slice(const trp__train_node *x, const trp__gather *g, int64_t number,
                          int64_t line);

#endif

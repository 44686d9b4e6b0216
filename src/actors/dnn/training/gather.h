/* How GATHER and SCATTER_ADD iterate over their tensors on the host. */
#ifndef TRP_ACTORS_DNN_TRAINING_GATHER_H
#define TRP_ACTORS_DNN_TRAINING_GATHER_H

#include "actors/dnn/training/parts.h"

/* Each index has `lines` lines of `line` elements along the last dimension, or of one element if
 * that is the axis. */
typedef struct trp__gather {
    int axis, rank, index_rank;
    bool elements; /* TRP_DNN_GATHER_ELEMENTS */
    int64_t count; /* number of indices */
    int64_t lines, line;
    int64_t whole_step, slices_step; /* steps between the elements of a line */
} trp__gather;

trp__gather trp__gather_of(const trp__train_node *x);
/* Returns the target of an index: its value, or the number of the element; -1: invalid. */
int64_t trp__gather_target(const trp__train_node *x, const trp__gather *g, int64_t number);
/* Return the offset of a line of a target in x, or in a tensor with its dimensions, and that of a
 * line of an index in y. */
int64_t trp__gather_whole(const trp__gather *g, const trp__dnn_tensor *t, int64_t target,
                          int64_t line);
int64_t trp__gather_slice(const trp__train_node *x, const trp__gather *g, int64_t number,
                          int64_t line);

#endif

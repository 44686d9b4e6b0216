/* Shared by the files of training kinds: checks on the sender's side, and access to tensors and
 * numbers on the host. */
#ifndef TRP_ACTORS_DNN_TRAINING_PARTS_H
#define TRP_ACTORS_DNN_TRAINING_PARTS_H

#include "actors/dnn/graph/train_op.h"
#include "actors/dnn/host/run.h"
#include "actors/dnn/request/shapes.h"

/* Checks of single ports. An absent tensor is valid. A missing type, as of virtual tensors and
 * values, becomes `none`. */
trp__dnn_tensor *trp__train_tensor(const trp__dnn_checked *c, int at);
/* Checks for f64, f32, f16 or bf16, and for a tensor, not a number. */
trp_status trp__train_check_real(const trp__dnn_checked *c, int at, trp_dtype none);
/* Checks for i32 or i64, and for a tensor, not a number. */
trp_status trp__train_check_index(const trp__dnn_checked *c, int at);
/* Checks for one element, a number or in memory: real, or i64 with `integer`. */
trp_status trp__train_check_one(const trp__dnn_checked *c, int at, bool integer);
/* Sets the type of computation from a tensor. */
trp_status trp__train_set_compute(const trp__dnn_checked *c, int at);

/* On the host: a node with its tensors in place, in their own types. */
typedef struct trp__train_node {
    const trp__dnn_node *n;
    const trp__dnn_tensor *t[TRP__DNN_PORTS]; /* NULL: none */
    void *at[TRP__DNN_PORTS];                 /* NULL: none, or a value */
    double value[TRP__DNN_PORTS];             /* the bits of an i64 */
    char *scratch;                            /* host_bytes() */
} trp__train_node;

/* Returns a number in memory or by value, or `none` without such a tensor. */
double trp__train_number(const trp__train_node *x, int port, double none);
int64_t trp__train_integer(const trp__train_node *x, int port, int64_t none);
void trp__train_put_number(const trp__train_node *x, int port, double value);

/* Returns element `at` of a tensor of i32 or i64. */
static inline int64_t trp__train_index(const trp__dnn_tensor *t, const void *place, int64_t at)
{
    return t->type == TRP_I64 ? ((const int64_t *)place)[at] : ((const int32_t *)place)[at];
}
static inline void trp__train_put_index(const trp__dnn_tensor *t, void *place, int64_t at,
                                        int64_t value)
{
    if (t->type == TRP_I64)
        ((int64_t *)place)[at] = value;
    else
        ((int32_t *)place)[at] = (int32_t)value;
}

/* Copy `count` elements from `offset` on, `step` apart, as f32 or f64, to or from `buffer`. If they
 * already have that form, _view() returns their own place and copies nothing. */
const float *trp__train_view_f32(const trp__dnn_tensor *t, const void *place, int64_t offset,
                                 int64_t step, int64_t count, float *buffer);
const double *trp__train_view_f64(const trp__dnn_tensor *t, const void *place, int64_t offset,
                                  int64_t step, int64_t count, double *buffer);
void trp__train_put_f32(const trp__dnn_tensor *t, void *place, int64_t offset, int64_t step,
                        int64_t count, const float *from);
void trp__train_put_f64(const trp__dnn_tensor *t, void *place, int64_t offset, int64_t step,
                        int64_t count, const double *from);

/* Iterates over a tensor except some dimensions, in order: the offset of each position. */
typedef struct trp__train_walk {
    int rank;
    int64_t dim[TRP__DNN_RANK], at[TRP__DNN_RANK];
} trp__train_walk;

/* Begins an iteration over all dimensions except `rest` dimensions from `first` on. */
int64_t trp__train_walk_begin(trp__train_walk *w, const trp__dnn_tensor *t, int first, int rest);
/* Moves to position `number`. */
void trp__train_walk_to(trp__train_walk *w, int64_t number);
/* Returns the position's offset in a tensor of the same rank with dimensions of 1 broadcast, or in
 * one without the omitted dimensions (`first` as above). */
int64_t trp__train_walk_offset(const trp__train_walk *w, const trp__dnn_tensor *t);

/* Calls `part` for the parts [first, end) of `count` items, in several threads if each gets at
 * least `least` items. The result of an item must not depend on where its part begins. */
void trp__train_share(int64_t count, int64_t least,
                      void (*part)(void *context, int64_t first, int64_t end), void *context);

#endif

/* What the files of kinds of training share: the checks of the sender's side, and on the host the
 * way to tensors and numbers. */
#ifndef TRP_ACTORS_DNN_TRAINING_PARTS_H
#define TRP_ACTORS_DNN_TRAINING_PARTS_H

#include "actors/dnn/graph/train_op.h"
#include "actors/dnn/host/run.h"
#include "actors/dnn/request/shapes.h"

/* Checks of single ports. What is not there is right. A type that is left out, as it may be of
 * virtual tensors and values, becomes `none`. */
trp__dnn_tensor *trp__train_tensor(const trp__dnn_checked *c, int at);
/* f64, f32, f16 or bf16, and no number. */
trp_status trp__train_check_real(const trp__dnn_checked *c, int at, trp_dtype none);
/* i32 or i64, and no number. */
trp_status trp__train_check_index(const trp__dnn_checked *c, int at);
/* One element, a number or in memory: real, or i64 with `integer`. */
trp_status trp__train_check_one(const trp__dnn_checked *c, int at, bool integer);
/* What the node computes in, which follows from a tensor. */
trp_status trp__train_set_compute(const trp__dnn_checked *c, int at);

/* On the host: a node with its tensors where they lie, in their own types. */
typedef struct trp__train_node {
    const trp__dnn_node *n;
    const trp__dnn_tensor *t[TRP__DNN_PORTS]; /* NULL: none */
    void *at[TRP__DNN_PORTS];                 /* NULL: none, or a value */
    double value[TRP__DNN_PORTS];             /* of i64 its bits */
    char *scratch;                            /* host_bytes() */
} trp__train_node;

trp__train_node trp__train_describe(const trp__dnn_host_run *run, const trp__dnn_node *n);

/* A number in memory or by value, `none` where there is no such tensor. */
double trp__train_number(const trp__train_node *x, int port, double none);
int64_t trp__train_integer(const trp__train_node *x, int port, int64_t none);
void trp__train_put_number(const trp__train_node *x, int port, double value);

/* Element `at` of a tensor of i32 or i64. */
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

/* `count` elements from `offset` on, `step` apart, as f32 or f64, to or from `buffer`. Where they
 * lie like that, _view() gives their own place and copies nothing. */
const float *trp__train_view_f32(const trp__dnn_tensor *t, const void *place, int64_t offset,
                                 int64_t step, int64_t count, float *buffer);
const double *trp__train_view_f64(const trp__dnn_tensor *t, const void *place, int64_t offset,
                                  int64_t step, int64_t count, double *buffer);
void trp__train_put_f32(const trp__dnn_tensor *t, void *place, int64_t offset, int64_t step,
                        int64_t count, const float *from);
void trp__train_put_f64(const trp__dnn_tensor *t, void *place, int64_t offset, int64_t step,
                        int64_t count, const double *from);

/* Goes over all of a tensor but some dimensions, in order: the offset of each position. */
typedef struct trp__train_walk {
    int rank;
    int64_t dim[TRP__DNN_RANK], at[TRP__DNN_RANK];
} trp__train_walk;

/* All dimensions but those from `first` on, `rest` of them. */
int64_t trp__train_walk_begin(trp__train_walk *w, const trp__dnn_tensor *t, int first, int rest);
/* Position `number` of the walk. */
void trp__train_walk_to(trp__train_walk *w, int64_t number);
/* Its offset in a tensor of the same rank, of which dimensions of 1 go with any, or in one that has
 * none of those left out (`first` as above). */
int64_t trp__train_walk_offset(const trp__train_walk *w, const trp__dnn_tensor *t);

/* Calls `part` for the parts [first, end) of `count` things, in several threads where there are
 * enough that each takes at least `least` of them. What a part computes must not depend on where it
 * begins. */
void trp__train_share(int64_t count, int64_t least,
                      void (*part)(void *context, int64_t first, int64_t end), void *context);

#endif

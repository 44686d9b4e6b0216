/* Recurrent networks on the host: in f32, or in f64 for that. All arrays are dense and go step by
 * step (step, sequence, element), whatever the order in the buffers.
 *
 * The reserve is of the type that is computed in. For each layer it has
 *
 *     results  steps x batch x directions x width
 *     and for each direction: gates, after their functions, steps x batch x gates x hidden, and
 *     extra   steps x batch x hidden: c' of an LSTM, R h + d of a GRU's n
 *
 * Cells behind the end of a sequence hold nothing but zeros in the results. */
#ifndef TRP_ACTORS_DNN_RNN_HOST_H
#define TRP_ACTORS_DNN_RNN_HOST_H

#include "actors/dnn/rnn/wire.h"
#include "libs/openblas/openblas.h"

#include <stddef.h>

/* The arrays of a run beside the reserve; those that it does not need are NULL. */
enum {
    TRP__RNN_AT_X,  /* x, as all arrays here dense, and 0 behind the ends */
    TRP__RNN_AT_W,  /* all weights */
    TRP__RNN_AT_H0, /* first states; 0 where there are none */
    TRP__RNN_AT_C0,
    TRP__RNN_AT_H1, /* last states; backward: the gradients of them */
    TRP__RNN_AT_C1,
    TRP__RNN_AT_IN,      /* what a layer reads, if some of it was dropped out */
    TRP__RNN_AT_PRODUCT, /* batch x gates x hidden: of one step */
    TRP__RNN_AT_CELLS,   /* batch x hidden: what a projection reads, or its gradient */
    TRP__RNN_AT_DY,      /* backward: the gradient of a layer's results */
    TRP__RNN_AT_DIN,     /* and of what it reads */
    TRP__RNN_AT_DW,
    TRP__RNN_AT_DGATES, /* of the gates before their functions, of all steps */
    TRP__RNN_AT_DREST,  /* GRU: the same, as far as R h + d goes */
    TRP__RNN_AT_BEFORE, /* the h that each step began with */
    TRP__RNN_AT_HIDDEN, /* with a projection: what it read, of all steps, */
    TRP__RNN_AT_DH,     /* and the gradient of its results */
    TRP__RNN_AT_STEP,   /* batch x width: the gradient of h at one step */
    TRP__RNN_AT_COUNT,
};

typedef struct trp__rnn_run {
    const trp__openblas *blas;
    trp__rnn n;
    bool backward;
    const int32_t *length;             /* of each sequence; a copy */
    void *place[TRP__RNN_PLACE_COUNT]; /* in buffers; NULL: none */
    void *at[TRP__RNN_AT_COUNT];
    void *reserve; /* the request's, or memory of the run's */
    size_t bytes;  /* of the run's memory */
} trp__rnn_run;

/* The elements of the reserve, and where a layer's results and a direction's gates and extra begin.
 */
uint64_t trp__rnn_reserve_elements(const trp__rnn *n);
uint64_t trp__rnn_results_at(const trp__rnn *n, int32_t layer);
uint64_t trp__rnn_gates_at(const trp__rnn *n, int32_t layer, int direction);
uint64_t trp__rnn_extra_at(const trp__rnn *n, int32_t layer, int direction);

/* By what an element that a layer reads is multiplied: 0 if it is dropped out. */
double trp__rnn_keeps(const trp__rnn *n, int32_t layer, uint64_t element);

/* With everything loaded; the results are in the reserve, at[] and nowhere else. */
void trp__rnn_forward_f32(const trp__rnn_run *run);
void trp__rnn_forward_f64(const trp__rnn_run *run);
void trp__rnn_backward_f32(const trp__rnn_run *run);
void trp__rnn_backward_f64(const trp__rnn_run *run);

#endif

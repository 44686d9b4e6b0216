/* Recurrent networks on the host: in f32, or in f64 for f64. All arrays are dense in the order
 * step, sequence, element, whatever the order in the buffers.
 *
 * The reserve is of the type that is computed in. For each layer it has
 *
 *     results  steps x batch x directions x width
 *     and for each direction: gates, after their functions, steps x batch x gates x hidden, and
 *     extra   steps x batch x hidden: c' of an LSTM, R h + d of a GRU's n
 *
 * The results of cells after the end of a sequence are zeros. */
#ifndef TRP_ACTORS_DNN_RNN_HOST_H
#define TRP_ACTORS_DNN_RNN_HOST_H

#include "actors/dnn/rnn/wire.h"
#include "libs/openblas/openblas.h"

#include <stddef.h>

/* The arrays of a run beside the reserve; those that it does not need are NULL. */
enum {
    TRP__RNN_AT_X,  /* x, 0 after the ends */
    TRP__RNN_AT_W,  /* all weights */
    TRP__RNN_AT_H0, /* first states; 0 without any */
    TRP__RNN_AT_C0,
    TRP__RNN_AT_H1, /* last states; backward: their gradients */
    TRP__RNN_AT_C1,
    TRP__RNN_AT_IN,      /* a layer's input after dropout */
    TRP__RNN_AT_PRODUCT, /* batch x gates x hidden: one step's products */
    TRP__RNN_AT_CELLS,   /* batch x hidden: a projection's input, or its gradient */
    TRP__RNN_AT_DY,      /* backward: the gradient of a layer's results */
    TRP__RNN_AT_DIN,     /* backward: the gradient of a layer's input */
    TRP__RNN_AT_DW,
    TRP__RNN_AT_DGATES, /* gradients of the gates before their functions, for all steps */
    TRP__RNN_AT_DREST,  /* GRU: the same for R h + d */
    TRP__RNN_AT_BEFORE, /* the initial h of each step */
    TRP__RNN_AT_HIDDEN, /* a projection's inputs, for all steps */
    TRP__RNN_AT_DH,     /* the gradient of a projection's results */
    TRP__RNN_AT_STEP,   /* batch x width: the gradient of h at one step */
    TRP__RNN_AT_COUNT,
};

typedef struct trp__rnn_run {
    const trp__openblas *blas;
    trp__rnn n;
    bool backward;
    const int32_t *length;             /* length of each sequence; a copy */
    void *place[TRP__RNN_PLACE_COUNT]; /* in buffers; NULL: none */
    void *at[TRP__RNN_AT_COUNT];
    void *reserve; /* the request's, or the run's memory */
    size_t bytes;  /* of the run's memory */
} trp__rnn_run;

/* Return the elements of the reserve, and the offsets of a layer's results and a direction's gates
 * and extra.
 */
uint64_t trp__rnn_reserve_elements(const trp__rnn *n);
uint64_t trp__rnn_results_at(const trp__rnn *n, int32_t layer);
uint64_t trp__rnn_gates_at(const trp__rnn *n, int32_t layer, int direction);
uint64_t trp__rnn_extra_at(const trp__rnn *n, int32_t layer, int direction);

/* Returns the factor of an element of a layer's input: 0 if */
double trp__rnn_keeps(const trp__rnn *n, int32_t layer, uint64_t element);

/* Run a pass after everything is loaded; the results are in the reserve and at[]. */
void trp__rnn_forward_f32(const trp__rnn_run *run);
void trp__rnn_forward_f64(const trp__rnn_run *run);
void trp__rnn_backward_f32(const trp__rnn_run *run);
void trp__rnn_backward_f64(const trp__rnn_run *run);

#endif

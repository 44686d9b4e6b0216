/* Payload of the recurrent networks' requests: checked, with defaults applied. With `lengths`, the
 * request's piece of staging memory has an int32_t per sequence; that of a query for the reserve
 * has space for the answer, a uint64_t. */
#ifndef TRP_ACTORS_DNN_RNN_WIRE_H
#define TRP_ACTORS_DNN_RNN_WIRE_H

#include <troupe/rnn.h>

/* The tensors of a request in the order of its accesses. A row has the name and for forward and
 * backward whether the tensor is read (R), written (W) or absent (N), with capitals for required
 * ones. */
#define TRP__RNN_PLACES(X)                                                                         \
    X(x, 'R', 'R')                                                                                 \
    X(w, 'R', 'R')                                                                                 \
    X(h0, 'r', 'r')                                                                                \
    X(c0, 'r', 'r')                                                                                \
    X(y, 'W', 'R')                                                                                 \
    X(h1, 'w', 'n')                                                                                \
    X(c1, 'w', 'n')                                                                                \
    X(reserve, 'w', 'R')                                                                           \
    X(dy, 'n', 'r')                                                                                \
    X(dh1, 'n', 'r')                                                                               \
    X(dc1, 'n', 'r')                                                                               \
    X(dx, 'n', 'w')                                                                                \
    X(dh0, 'n', 'w')                                                                               \
    X(dc0, 'n', 'w')                                                                               \
    X(dw, 'n', 'w')

enum {
#define TRP__RNN_ENUMERATOR(name, forward, backward) TRP__RNN_##name,
    TRP__RNN_PLACES(TRP__RNN_ENUMERATOR)
#undef TRP__RNN_ENUMERATOR
        TRP__RNN_PLACE_COUNT
};

enum { TRP__RNN_NO_ACCESS = 0xff };

typedef struct trp__rnn {
    uint8_t mode; /* trp_rnn_mode */
    uint8_t type; /* trp_dtype */
    uint8_t directions;
    uint8_t bias, batch_first, tf32, training;
    uint8_t lengths; /* the request has lengths */
    int32_t input, hidden;
    int32_t width; /* of h; that of hidden without a projection */
    int32_t layers, steps, batch;
    double dropout;
    uint64_t seed;
    uint8_t access[TRP__RNN_PLACE_COUNT]; /* index of each place's access */
} trp__rnn;

/* The matrices of one layer and direction in memory order. */
enum {
    TRP__RNN_W_IH,
    TRP__RNN_W_HH,
    TRP__RNN_B_IH,
    TRP__RNN_B_HH,
    TRP__RNN_W_HR,
    TRP__RNN_WEIGHT_PARTS,
};

typedef struct trp__rnn_part {
    uint64_t first; /* offset in elements from the beginning of all weights */
    int64_t rows, columns;
} trp__rnn_part;

static inline int trp__rnn_gates(const trp__rnn *n)
{
    return n->mode == TRP_RNN_LSTM ? 4 : n->mode == TRP_RNN_GRU ? 3 : 1;
}

/* Returns the elements of a vector of a layer's input. */
static inline int64_t trp__rnn_inputs(const trp__rnn *n, int32_t layer)
{
    return layer == 0 ? n->input : (int64_t)n->directions * n->width;
}

/* Returns the elements of all weights. */
uint64_t trp__rnn_weights(const trp__rnn *n);

/* Computes the places of the matrices of a layer and direction. Absent ones have no rows. */
void trp__rnn_parts(const trp__rnn *n, int32_t layer, int direction,
                    trp__rnn_part part[TRP__RNN_WEIGHT_PARTS]);

/* Returns the elements of a place; 0 for the reserve. */
uint64_t trp__rnn_place_elements(const trp__rnn *n, int place);

#endif

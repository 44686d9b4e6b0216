/* Describes a recurrent network to cuDNN, and maps the layout of weights. */
#ifndef TRP_ACTORS_DNN_RNN_CUDNN_H
#define TRP_ACTORS_DNN_RNN_CUDNN_H

#include "actors/dnn/rnn/wire.h"
#include "libs/cudnn/cudnn.h"

/* The descriptors of a request. */
typedef struct trp__rnn_cudnn {
    const trp__cudnn *lib;
    trp__cudnn_rnn_algo algorithm;
    trp__cudnn_rnn rnn;
    trp__cudnn_rnn_data x, y;
    trp__cudnn_tensor h, c; /* c: NULL without cell states */
} trp__rnn_cudnn;

/* Returns the presumably fastest algorithm on a GPU with `processors` multiprocessors and that
 * compute capability (90). If the library does not support it for a network, it reports that before
 * any work. */
trp__cudnn_rnn_algo trp__rnn_cudnn_algorithm(const trp__rnn *n, int capability, int processors);

/* Creates the descriptors; without `length` all sequences have all steps. */
trp_status trp__rnn_cudnn_make(const trp__cudnn *lib, const trp__rnn *n,
                               trp__cudnn_rnn_algo algorithm, const int32_t *length,
                               trp__cudnn_dropout dropout, trp__rnn_cudnn *out, trp_error *error);
void trp__rnn_cudnn_drop(trp__rnn_cudnn *d);

/* Describes the network again after its dropout has changed. */
trp_status trp__rnn_cudnn_describe(const trp__rnn_cudnn *d, const trp__rnn *n,
                                   trp__cudnn_dropout dropout, trp_error *error);

/* Weights that are contiguous in the layout of rnn.h and in the library's. */
typedef struct trp__rnn_stretch {
    uint64_t ours, theirs; /* bytes from the beginning */
    uint64_t bytes;
} trp__rnn_stretch;

/* Passes the longest contiguous pieces to visit(), one after the other; */
trp_status trp__rnn_cudnn_pieces(const trp__rnn_cudnn *d, trp__cudnn_handle handle,
                                 const trp__rnn *n, uint64_t bytes,
                                 trp_status (*visit)(void *context, const trp__rnn_stretch *piece,
                                                     trp_error *error),
                                 void *context, trp_error *error);

#endif

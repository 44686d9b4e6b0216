/* troupe norm: normalisation of an npy file, and its gradient. */
#ifndef TRP_CLI_COMMANDS_LAYERS_NORM_H
#define TRP_CLI_COMMANDS_LAYERS_NORM_H

#include "layer.h"

/* Statistics are read (batch inference) or written (training). Tensors from NORM_DY on exist with
 * --backward only. */
enum {
    NORM_X,
    NORM_Y,
    NORM_SCALE,
    NORM_BIAS,
    NORM_MEAN,
    NORM_INV_VARIANCE,
    NORM_DY,
    NORM_DX,
    NORM_DSCALE,
    NORM_DBIAS,
};

typedef struct norm {
    layer layer;
    int mode;       /* a trp_dnn_norm */
    bool training;  /* also set for gradients that need statistics of X */
    trp_dtype type; /* TRP_DTYPE_NONE: not given */
    trp_scalar epsilon;
    trp_layer_activation activation;

    /* Set by norm_plan(). */
    uint32_t first;                      /* layer, rms: first normalised dimension */
    int64_t statistic[TRP_DNN_RANK_MAX]; /* dimensions of mean and inv_variance; 1 where summed */
    int64_t scale[TRP_DNN_RANK_MAX];     /* dimensions of scale and bias; 1 where shared */
} norm;

/* Reads the headers of the inputs and determines types, shapes and orders. */
bool norm_plan(norm *job);

double norm_epsilon(const norm *job);

/* Returns the index of element `at` of X in an array with 1 in some dimensions; both in C order. */
uint64_t norm_index(const norm *job, const int64_t *dim, uint64_t at);

/* Compares the downloaded results with float64 and shows the outcome. */
bool norm_check(norm *job);

/* Compares gradients, by the statistics that were computed or read. */
bool norm_check_gradient(const norm *job, uint64_t began);

#endif

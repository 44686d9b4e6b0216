/* troupe norm: normalisation of an npy file. */
#ifndef TRP_CLI_NORM_H
#define TRP_CLI_NORM_H

#include "layer.h"

/* Statistics are read (batch inference) or written (training). */
enum { NORM_X, NORM_Y, NORM_SCALE, NORM_BIAS, NORM_MEAN, NORM_INV_VARIANCE };

typedef struct norm {
    layer layer;
    int mode; /* a trp_dnn_norm */
    bool training;
    trp_dtype type; /* TRP_DTYPE_NONE: not given */
    double epsilon; /* 0: the actor's default */
    trp_layer_activation activation;

    /* Found out by norm_plan(). */
    uint32_t first; /* layer, rms: what is normalised begins at this dimension */
    int64_t statistic[TRP_DNN_RANK_MAX]; /* dimensions of mean and inv_variance, 1 where summed */
    int64_t scale[TRP_DNN_RANK_MAX];     /* of scale and bias, 1 where they are the same */
} norm;

/* Reads the headers of the inputs and settles types, shapes and orders. */
bool norm_plan(norm *job);

double norm_epsilon(const norm *job);

/* Holds the downloaded result against float64; shown. */
bool norm_check(const norm *job);

#endif

/* Layers of neural networks: requests of the "dnn" actor for the graphs that people write every
 * day. Each call makes a graph (dnn.h) of its fields and sends it; so what dnn.h says of tensors,
 * types, results, options and plans holds here too.
 *
 * In all requests: op and size of `header` are ignored. An absent tensor is all zero; any other has
 * a buffer. x, w and y are the fields in all passes: a backward pass writes the gradient of x or w
 * into x or w, and reads the gradient of y from y.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_LAYERS_H
#define TROUPE_LAYERS_H

#include <troupe/dnn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An activation: one of trp_dnn_pointwise from TRP_DNN_RELU on, with its parameters. 0: none.
 * ReLU6 is RELU with parameter[1] = trp_real(6), leaky ReLU has its slope in parameter[2]. */
typedef struct trp_layer_activation {
    trp_dnn_pointwise mode;
    trp_scalar parameter[TRP_DNN_PARAMETERS];
} trp_layer_activation;

/* --- Convolutions --- */

/* x is n x c x spatial, w is k x c / groups x spatial, y is n x k x spatial; see
 * TRP_DNN_CONV_FORWARD for the sizes. */
typedef struct trp_conv_request {
    trp_request header;
    trp_dnn_tensor x, w, y;
    int64_t pre_pad[TRP_DNN_SPATIAL_MAX], post_pad[TRP_DNN_SPATIAL_MAX];
    int64_t stride[TRP_DNN_SPATIAL_MAX];   /* 0: 1 */
    int64_t dilation[TRP_DNN_SPATIAL_MAX]; /* 0: 1 */
    bool flip;                             /* a convolution in the mathematical sense */
    trp_dtype compute; /* default: f64 for f64, else f32; i32 for i8 by choice */
    trp_scalar alpha;  /* real; default 1 */
    trp_scalar beta;   /* real; default 0; needed with a z, which is not read if it is 0 */
    trp_dnn_tensor z;  /* of the dimensions of what is written */
    /* Forward only. */
    trp_dnn_tensor bias; /* k elements; its dimensions follow, rank 0 */
    trp_layer_activation activation;
    trp_dnn_options options;
} trp_conv_request;

/* y = activation(alpha * conv(x, w) + beta * z + bias) */
TRP_API trp_status trp_conv_forward(trp_actor *dnn, const trp_conv_request *request,
                                    trp_completion *completion);
/* dx (in x) = alpha * the gradient of dy (in y) and w + beta * z */
TRP_API trp_status trp_conv_backward_data(trp_actor *dnn, const trp_conv_request *request,
                                          trp_completion *completion);
/* dw (in w) = alpha * the gradient of dy (in y) and x + beta * z */
TRP_API trp_status trp_conv_backward_filter(trp_actor *dnn, const trp_conv_request *request,
                                            trp_completion *completion);

/* --- Pooling --- */

typedef struct trp_pool_request {
    trp_request header;
    trp_dnn_resample mode;
    trp_dnn_tensor x, y;
    trp_dnn_tensor index; /* TRP_DNN_POOL_MAX only: written forward, read backward; optional. i8, or
                           * i32, which windows of more than 128 elements need */
    trp_dnn_tensor old_x,
        old_y; /* backward of TRP_DNN_POOL_MAX without an index: x and y of forward */
    int64_t window[TRP_DNN_SPATIAL_MAX];
    int64_t pre_pad[TRP_DNN_SPATIAL_MAX], post_pad[TRP_DNN_SPATIAL_MAX];
    int64_t stride[TRP_DNN_SPATIAL_MAX]; /* 0: 1 */
    bool round_up; /* the size of y, as the ceil mode of frameworks: TRP_DNN_RESAMPLE_FORWARD */
    trp_dnn_options options;
} trp_pool_request;

TRP_API trp_status trp_pool_forward(trp_actor *dnn, const trp_pool_request *request,
                                    trp_completion *completion);
TRP_API trp_status trp_pool_backward(trp_actor *dnn, const trp_pool_request *request,
                                     trp_completion *completion);

/* --- Normalisation --- */

/* Dimensions and which tensors a mode has: TRP_DNN_NORM_TRAINING and those behind it. */
typedef struct trp_norm_request {
    trp_request header;
    trp_dnn_norm mode;
    trp_dnn_tensor x, scale, bias, y;
    trp_dnn_tensor mean, inv_variance; /* written by training, read by inference and backward */
    trp_scalar epsilon;                /* real, not below 0; default 1e-5 */
    trp_dnn_tensor running_mean, running_variance, new_running_mean, new_running_variance;
    trp_scalar average_factor;        /* real; default 0.1 */
    trp_dnn_tensor dx, dscale, dbias; /* backward, which reads dy from y */
    trp_layer_activation activation;  /* training and inference: of y */
    trp_dnn_options options;
} trp_norm_request;

TRP_API trp_status trp_norm_training(trp_actor *dnn, const trp_norm_request *request,
                                     trp_completion *completion);
TRP_API trp_status trp_norm_inference(trp_actor *dnn, const trp_norm_request *request,
                                      trp_completion *completion);
TRP_API trp_status trp_norm_backward(trp_actor *dnn, const trp_norm_request *request,
                                     trp_completion *completion);

/* --- Attention --- */

/* Dimensions, masks and what is in stats: TRP_DNN_ATTENTION. */
typedef struct trp_attention_request {
    trp_request header;
    trp_dnn_tensor q, k, v, y;
    trp_dnn_tensor stats;         /* written forward, if it is given; read backward */
    trp_dnn_tensor bias, slopes;  /* optional */
    trp_dnn_tensor seq_q, seq_kv; /* optional: both or none */
    trp_scalar scale;             /* real; default 1 / sqrt(d) */
    trp_dnn_mask mask;
    int64_t window;                /* 0: none */
    trp_dnn_tensor dy, dq, dk, dv; /* backward, which reads y, too */
    trp_dnn_tensor dbias;          /* backward; optional */
    trp_dnn_options options;
    /* Dropout: its probability, 0 to less than 1, and the seed and offset of its random numbers,
     * i64, in memory or by value: trp_dnn_integer(). The same in both passes. The offset is
     * optional. */
    double dropout;
    trp_dnn_tensor seed, offset;
    /* Forward, optional: where there is a table, k or v are pages, pages x h_kv x rows of a page x
     * d, see TRP_DNN_PAGED_LOAD; needs seq_kv. A batch has at most `columns` of them; 0: as many as
     * k or v has that is not paged, or as the pages of a batch hold. */
    trp_dnn_tensor table_k, table_v;
    int64_t columns;
} trp_attention_request;

/* y = dropout(softmax(mask(scale * q k^T + bias))) v */
TRP_API trp_status trp_attention_forward(trp_actor *dnn, const trp_attention_request *request,
                                         trp_completion *completion);
/* dq, dk, dv and dbias of dy */
TRP_API trp_status trp_attention_backward(trp_actor *dnn, const trp_attention_request *request,
                                          trp_completion *completion);

/* --- Activations and softmax --- */

typedef struct trp_activation_request {
    trp_request header;
    trp_layer_activation activation;
    trp_dnn_tensor x, y;
    trp_dnn_tensor dx; /* backward: reads dy from y, and x */
    trp_dnn_options options;
} trp_activation_request;

/* y = activation(x) */
TRP_API trp_status trp_activation_forward(trp_actor *dnn, const trp_activation_request *request,
                                          trp_completion *completion);
/* dx = dy (in y) * activation'(x) */
TRP_API trp_status trp_activation_backward(trp_actor *dnn, const trp_activation_request *request,
                                           trp_completion *completion);

typedef struct trp_softmax_request {
    trp_request header;
    uint32_t axis; /* the dimension over which the results add up to 1 */
    bool log;      /* the logarithm of it */
    trp_dnn_tensor x, y;
    trp_dnn_tensor dy, dx; /* backward: reads y and dy */
    trp_dnn_options options;
} trp_softmax_request;

/* y = exp(x - max) / sum(exp(x - max)), along the axis: of numbers of any size. A line with a NaN
 * or an infinity is NaN, and so is one of minus infinities alone; minus infinity beside others is
 * 0. */
TRP_API trp_status trp_softmax_forward(trp_actor *dnn, const trp_softmax_request *request,
                                       trp_completion *completion);
/* dx = (dy - sum(dy * y)) * y; of the logarithm dy - sum(dy) * exp(y) */
TRP_API trp_status trp_softmax_backward(trp_actor *dnn, const trp_softmax_request *request,
                                        trp_completion *completion);

#ifdef __cplusplus
}
#endif
#endif

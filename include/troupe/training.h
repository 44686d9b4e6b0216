/* Training steps, beside layers.h: embeddings, losses, linear layers, optimizers. Each call is one
 * request of the "dnn" actor: it makes a graph (dnn.h) of its fields and sends it, so what dnn.h
 * says of tensors, types, options and plans holds here too, and the meaning of each operation
 * stands there with its kind of node.
 *
 * In all requests: op and size of `header` are ignored. An absent tensor is all zero. The gradient
 * of a field has the field's name with a d in front.
 *
 * Faults: a request whose results lie apart from what it reads runs again on the next worker, and
 * gives the same bits. One that writes where it reads (accumulates, or updates in place) can't run
 * again once it has begun: it ends with TRP_E_FAULT then, and what it writes is lost.
 *
 * Types: parameters and statistics are best f32, activations f32, bf16 or f16; each tensor has its
 * own type, and results are rounded to it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_TRAINING_H
#define TROUPE_TRAINING_H

#include <troupe/layers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Embeddings, gathering, scattering --- */

/* A table of rows x width; index (i32, i64) of any dimensions; y and dy have those and width. */
typedef struct trp_embedding_request {
    trp_request header;
    trp_dnn_tensor table, index, y;
    trp_dnn_tensor add; /* forward, optional: added to y; of y's rank, dimensions y's or 1 */
    trp_dnn_tensor dy, dtable;
    trp_dnn_tensor add_dtable; /* backward, optional: added to dtable, which may lie there too */
    trp_scalar padding;        /* backward: an index for which nothing is added; default none */
    trp_dnn_options options;
} trp_embedding_request;

/* y = table[index] + add. TRP_DNN_GATHER along dimension 0 */
TRP_API trp_status trp_embedding_forward(trp_actor *dnn, const trp_embedding_request *request,
                                         trp_completion *completion);
/* dtable = add_dtable + the sum of dy for each row. The same bits each time. TRP_DNN_SCATTER_ADD */
TRP_API trp_status trp_embedding_backward(trp_actor *dnn, const trp_embedding_request *request,
                                          trp_completion *completion);

/* TRP_DNN_GATHER and TRP_DNN_SCATTER_ADD as they are. */
typedef struct trp_gather_request {
    trp_request header;
    trp_dnn_gather mode;
    uint32_t axis;
    trp_dnn_tensor x, index, y;
    trp_dnn_tensor dy, dx;
    trp_dnn_tensor add_dx; /* backward, optional; may be dx's own place */
    trp_scalar ignore;     /* backward: an index for which nothing is added; default none */
    trp_dnn_options options;
} trp_gather_request;

TRP_API trp_status trp_gather_forward(trp_actor *dnn, const trp_gather_request *request,
                                      trp_completion *completion);
/* dx = add_dx + dy, added where y was gathered from */
TRP_API trp_status trp_gather_backward(trp_actor *dnn, const trp_gather_request *request,
                                       trp_completion *completion);

/* --- Losses --- */

/* Logits x, classes along the last dimension (any strides); see TRP_DNN_CROSS_ENTROPY. The loss and
 * the gradient in one pass, if both are wanted; either alone, too. */
typedef struct trp_cross_entropy_request {
    trp_request header;
    trp_dnn_tensor logits;
    trp_dnn_tensor labels; /* i32 or i64, one a row; or */
    trp_dnn_tensor target; /* probabilities, of the dimensions of logits */
    trp_dnn_reduction reduction;
    trp_scalar ignore;          /* a label; default -100 */
    double smoothing;           /* of labels, 0 to 1 */
    double z_loss;              /* factor of the squared logarithm of the sum */
    trp_dnn_tensor loss;        /* optional: one element, or with TRP_DNN_REDUCE_NONE one a row */
    trp_dnn_tensor rows, stats; /* optional: the loss of each row, the logarithm of its sum */
    trp_dnn_tensor dlogits;     /* optional; may be the place of logits */
    trp_dnn_tensor dloss;       /* optional: gradient of the loss, by value or in memory; 1 */
    trp_dnn_options options;
} trp_cross_entropy_request;

TRP_API trp_status trp_cross_entropy(trp_actor *dnn, const trp_cross_entropy_request *request,
                                     trp_completion *completion);

/* Losses element by element, see TRP_DNN_LOSS. */
typedef struct trp_loss_request {
    trp_request header;
    trp_dnn_loss mode;
    trp_dnn_reduction reduction;
    trp_dnn_tensor x, target;
    trp_dnn_tensor weight;          /* optional: of each element, dimensions x's or 1, or a value */
    trp_dnn_tensor positive_weight; /* likewise, TRP_DNN_BCE_LOGITS */
    trp_scalar beta;                /* TRP_DNN_SMOOTH_L1; default 1 */
    trp_dnn_tensor loss, rows;      /* optional; rows: the loss of each element */
    trp_dnn_tensor dx, dloss;       /* as of trp_cross_entropy_request */
    trp_dnn_options options;
} trp_loss_request;

TRP_API trp_status trp_loss(trp_actor *dnn, const trp_loss_request *request,
                            trp_completion *completion);

/* --- Linear layers --- */

/* x is rows x k, w is n x k, y is rows x n. x, y and the other tensors with rows may have more
 * dimensions in front of the last, as long as each row follows the one before at one distance. bias
 * and dbias have n elements, their dimensions follow (rank 0, or 1). */
typedef struct trp_linear_request {
    trp_request header;
    trp_dnn_tensor x, w, bias;       /* bias: forward, optional */
    trp_dnn_tensor residual;         /* forward, optional: added to y; of its dimensions */
    trp_layer_activation activation; /* forward */
    trp_dnn_tensor z;                /* forward, optional: what the activation is given */
    trp_dnn_tensor y;
    /* Backward: dy is the gradient of what the activation was given, of z. dx, dw and dbias are
     * each optional, and what is added to each; it may be its own place. */
    trp_dnn_tensor dy, dx, dw, dbias;
    trp_dnn_tensor add_dx, add_dw, add_dbias;
    /* Backward, where x = x_activation(x_z): dx is the gradient of x_z then, which is what the
     * layer before wants as its dy. */
    trp_layer_activation x_activation;
    trp_dnn_tensor x_z;
    trp_dnn_options options;
} trp_linear_request;

/* z = x w^T + bias + residual;  y = activation(z) */
TRP_API trp_status trp_linear_forward(trp_actor *dnn, const trp_linear_request *request,
                                      trp_completion *completion);
/* dx = x_activation'(x_z) * (dy w) + add_dx;  dw = dy^T x + add_dw;  dbias = the sum of rows of dy
 * + add_dbias */
TRP_API trp_status trp_linear_backward(trp_actor *dnn, const trp_linear_request *request,
                                       trp_completion *completion);

/* --- Norms with a residual --- */

/* x, residual, sum, y and their gradients are rows x width, with more dimensions in front as of
 * trp_linear_request; scale and bias have width elements, mean and inv_variance one a row. */
typedef struct trp_residual_norm_request {
    trp_request header;
    trp_dnn_norm mode;             /* TRP_DNN_LAYER or TRP_DNN_RMS, which has no bias and no mean */
    trp_dnn_tensor x, residual;    /* residual: optional */
    trp_dnn_tensor sum;            /* x + residual: written forward with a residual; read backward,
                                    * where x stands for it without one */
    trp_dnn_tensor scale, bias, y; /* bias: optional */
    trp_dnn_tensor mean, inv_variance; /* written forward, read backward */
    trp_scalar epsilon;                /* default 1e-5 */
    trp_dnn_tensor dy, dx, dscale, dbias;
    trp_dnn_tensor add_dx;                /* optional: the gradient that comes to sum otherwise */
    trp_dnn_tensor add_dscale, add_dbias; /* optional; may be dscale's and dbias' own places */
    trp_dnn_options options;
} trp_residual_norm_request;

/* sum = x + residual;  y = norm(sum) */
TRP_API trp_status trp_residual_norm_forward(trp_actor *dnn,
                                             const trp_residual_norm_request *request,
                                             trp_completion *completion);
/* dx = the gradient of sum (that of x and of residual) + add_dx; dscale, dbias */
TRP_API trp_status trp_residual_norm_backward(trp_actor *dnn,
                                              const trp_residual_norm_request *request,
                                              trp_completion *completion);

/* --- Rotary embedding, gated activations --- */

/* x is any dimensions x positions x width, see TRP_DNN_ROTARY. */
typedef struct trp_rotary_request {
    trp_request header;
    trp_dnn_rotary mode;
    trp_dnn_tensor x, y;           /* y may be x's place; so may dx be dy's */
    trp_dnn_tensor cosines, sines; /* optional, both: positions x half of what turns */
    trp_scalar base;               /* without tables; default 10000 */
    int64_t turning;               /* without tables: how many elements turn; 0: all */
    trp_dnn_tensor positions;      /* optional: i32 or i64, of x's dimensions or 1, and 1 */
    trp_dnn_tensor start;          /* optional: position of row 0: trp_dnn_integer(), or i64 */
    trp_dnn_tensor dy, dx;
    trp_dnn_options options;
} trp_rotary_request;

TRP_API trp_status trp_rotary_forward(trp_actor *dnn, const trp_rotary_request *request,
                                      trp_completion *completion);
TRP_API trp_status trp_rotary_backward(trp_actor *dnn, const trp_rotary_request *request,
                                       trp_completion *completion);

/* activation(gate) * up: SwiGLU with TRP_DNN_SWISH, GeGLU with TRP_DNN_GELU or _GELU_TANH. gate and
 * up may be views of the halves of one array; so may dgate and dup. */
typedef struct trp_glu_request {
    trp_request header;
    trp_layer_activation activation;
    trp_dnn_tensor gate, up, y;
    trp_dnn_tensor dy, dgate, dup;
    trp_dnn_options options;
} trp_glu_request;

TRP_API trp_status trp_glu_forward(trp_actor *dnn, const trp_glu_request *request,
                                   trp_completion *completion);
TRP_API trp_status trp_glu_backward(trp_actor *dnn, const trp_glu_request *request,
                                    trp_completion *completion);

/* --- Largest elements, sampling --- */

/* See TRP_DNN_ARG and TRP_DNN_TOP_K. */
typedef struct trp_top_k_request {
    trp_request header;
    trp_dnn_extreme extreme;
    uint32_t axis;
    trp_dnn_tensor x, values, index; /* values: trp_top_k() only, optional */
    trp_dnn_options options;
} trp_top_k_request;

TRP_API trp_status trp_arg(trp_actor *dnn, const trp_top_k_request *request,
                           trp_completion *completion);
TRP_API trp_status trp_top_k(trp_actor *dnn, const trp_top_k_request *request,
                             trp_completion *completion);

/* One class of each row of logits, see TRP_DNN_SAMPLE. */
typedef struct trp_sample_request {
    trp_request header;
    trp_dnn_tensor logits, index;
    trp_scalar temperature;      /* default 1; 0: the largest */
    uint64_t top_k;              /* 0: all */
    trp_scalar top_p;            /* default: all */
    trp_dnn_tensor seed, offset; /* trp_dnn_integer(), or i64 in memory; offset: optional */
    trp_dnn_options options;
} trp_sample_request;

TRP_API trp_status trp_sample(trp_actor *dnn, const trp_sample_request *request,
                              trp_completion *completion);

/* --- Optimizers --- */

enum { TRP_SEGMENTS_MAX = 1536 };

/* A range of the parameters: a weight, or several that are treated alike. */
typedef struct trp_parameter_segment {
    uint64_t offset, count; /* elements */
    trp_scalar rate;        /* factor of the learning rate; default 1 */
    trp_scalar decay;       /* default: that of the request */
} trp_parameter_segment;

/* One step over all parameters, which lie in one array, with their gradients and moments in arrays
 * like it; see trp_dnn_optimizer for the formulas and TRP_DNN_OPTIMIZER for what else is done. */
typedef struct trp_optimizer_request {
    trp_request header;
    trp_dnn_optimizer optimizer;
    trp_dnn_tensor w, dw;
    trp_dnn_tensor moment[2]; /* [0]: SGD with momentum, LION; both: ADAM, ADAMW */
    /* Where the updated ones are written. All zero: into the places of the old ones. */
    trp_dnn_tensor new_w, new_moment[2];
    trp_dnn_tensor narrow; /* optional: new_w in another type, for the layers to read */
    /* Numbers of this step: other ones share the plan. */
    trp_scalar rate;      /* needed */
    uint64_t step;        /* from 1 on; ADAM and ADAMW need it */
    trp_scalar decay;     /* default 0 */
    trp_dnn_tensor scale; /* optional: what gradients are multiplied by, value or in memory */
    trp_scalar max_norm;  /* default: gradients are not limited */
    trp_scalar momentum, dampening; /* SGD; default 0 */
    bool nesterov;                  /* SGD */
    trp_scalar beta1, beta2;        /* ADAM, ADAMW: 0.9, 0.999; LION: 0.9, 0.99 */
    trp_scalar epsilon;             /* ADAM, ADAMW: 1e-8 */
    /* In order, not overlapping, copied; elements of no segment stay as they are. 0: all of w. */
    const trp_parameter_segment *segments;
    uint32_t segment_count;   /* up to TRP_SEGMENTS_MAX */
    trp_dnn_tensor found;     /* optional, one element: if it is not 0, the step is skipped */
    trp_dnn_tensor skipped;   /* optional, i32: the step is skipped if a gradient is not finite; 1
                               * if it was, else 0 */
    trp_dnn_tensor grad_norm; /* optional, one element: of all gradients, before it is limited */
    trp_dnn_options options;
} trp_optimizer_request;

TRP_API trp_status trp_optimizer(trp_actor *dnn, const trp_optimizer_request *request,
                                 trp_completion *completion);

#ifdef __cplusplus
}
#endif
#endif

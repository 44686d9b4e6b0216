/* troupe conv: one convolution, or one of its gradients, of npy files. */
#ifndef TRP_CLI_COMMANDS_LAYERS_CONV_H
#define TRP_CLI_COMMANDS_LAYERS_CONV_H

#include "layer.h"

typedef enum conv_pass {
    CONV_FORWARD,
    CONV_DATA,
    CONV_FILTER,
} conv_pass;

enum { CONV_X, CONV_W, CONV_Y, CONV_ADD, CONV_BIAS };

typedef struct conv {
    layer layer;
    int pass;               /* a conv_pass */
    trp_dtype type, type_y; /* TRP_DTYPE_NONE: not given */
    int64_t groups;         /* 0: not given */
    layer_window window;
    const char *size, *dilation;
    trp_conv_request request; /* geometry, factors, activation; tensors once they are placed */

    /* Set by conv_plan(). */
    uint32_t dims;            /* spatial dimensions */
    int64_t x[5], w[5], y[5]; /* dimensions of all three */
} conv;

/* Reads the headers of the inputs and determines types, shapes and orders. */
bool conv_plan(conv *job);

/* Returns the tensor that is computed. */
int conv_result(const conv *job);

/* Compares the downloaded result with float64 and shows the outcome. */
bool conv_check(const conv *job);

#endif

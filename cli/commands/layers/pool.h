/* troupe pool: pooling of an npy file, or its gradient. */
#ifndef TRP_CLI_COMMANDS_LAYERS_POOL_H
#define TRP_CLI_COMMANDS_LAYERS_POOL_H

#include "layer.h"

/* Backward, Y is the result of forward where it is needed: it lies on the device only. */
enum { POOL_X, POOL_Y, POOL_INDEX, POOL_DY, POOL_DX };

typedef struct pool {
    layer layer;
    bool backward;
    trp_dtype type; /* TRP_DTYPE_NONE: not given */
    int mode;       /* a trp_dnn_resample */
    const char *window_text;
    layer_window window;
    trp_pool_request request; /* geometry; tensors once they are placed */

    /* Set by pool_plan(). */
    uint32_t dims; /* spatial dimensions */
    int64_t y[5];
} pool;

/* Reads the headers of the inputs and determines types, shapes and orders. */
bool pool_plan(pool *job);

/* Compares the downloaded result with float64 and shows the outcome. */
bool pool_check(const pool *job);

#endif

/* troupe attention: attention of npy files, and its gradient. */
#ifndef TRP_CLI_COMMANDS_LAYERS_ATTENTION_H
#define TRP_CLI_COMMANDS_LAYERS_ATTENTION_H

#include "layer.h"

/* Tensors from ATTENTION_DY on exist with --backward only, which computes y and stats first. */
enum {
    ATTENTION_Q,
    ATTENTION_K,
    ATTENTION_V,
    ATTENTION_Y,
    ATTENTION_STATS,
    ATTENTION_BIAS,
    ATTENTION_SLOPES,
    ATTENTION_SEQ_Q,
    ATTENTION_SEQ_KV,
    ATTENTION_DY,
    ATTENTION_DQ,
    ATTENTION_DK,
    ATTENTION_DV,
    ATTENTION_DBIAS,
};

typedef struct attention {
    layer layer;
    trp_dtype type;   /* TRP_DTYPE_NONE: not given */
    bool interleaved; /* arrays of batch, row, head, depth */
    trp_dnn_mask mask;
    int64_t window;
    trp_scalar scale;
    const char *lengths, *lengths_kv; /* options as given */
    double dropout;
    int64_t seed, offset; /* of dropout's random numbers */

    /* Set by attention_plan(). */
    int64_t batches, heads, shared, rows, columns, depth, width; /* shared: heads of k and v */
    int32_t *length[2]; /* of rows and columns, for each batch; NULL: all; freed by the command */
} attention;

/* Reads the headers of the inputs and determines types, shapes and lengths. */
bool attention_plan(attention *job);

/* Returns the columns [*first, *end) that a row sees; *first == *end: none. */
void attention_seen(const attention *job, int64_t batch, int64_t row, int64_t *first, int64_t *end);

double attention_scale(const attention *job);

/* Returns dropout's factor of a weight, 0 or 1 / (1 - probability), by the definition in
 * troupe/dnn.h. */
double attention_kept(const attention *job, int64_t batch, int64_t head, int64_t row,
                      int64_t column);

/* Compares the downloaded results with float64 and shows the outcome. */
bool attention_check(attention *job);

#endif

/* troupe attention: attention of npy files, and its gradient. */
#ifndef TRP_CLI_COMMANDS_LAYERS_ATTENTION_H
#define TRP_CLI_COMMANDS_LAYERS_ATTENTION_H

#include "layer.h"

/* Those from ATTENTION_DY on with --backward only, which computes y and stats first. */
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
    const char *lengths, *lengths_kv; /* as given */
    double dropout;
    int64_t seed, offset; /* of what dropout draws */

    /* Found out by attention_plan(). */
    int64_t batches, heads, shared, rows, columns, depth, width; /* shared: heads of k and v */
    int32_t *length[2]; /* of rows and columns, for each batch; NULL: all; freed by the command */
} attention;

/* Reads the headers of the inputs and settles types, shapes and lengths. */
bool attention_plan(attention *job);

/* The columns from *first to before *end that a row sees; none: both the same. */
void attention_seen(const attention *job, int64_t batch, int64_t row, int64_t *first, int64_t *end);

double attention_scale(const attention *job);

/* What dropout multiplies a weight by: 0 or 1 / (1 - probability). By the definition in
 * troupe/dnn.h, and nothing else. */
double attention_kept(const attention *job, int64_t batch, int64_t head, int64_t row,
                      int64_t column);

/* Holds the downloaded results against float64; shown. */
bool attention_check(attention *job);

#endif

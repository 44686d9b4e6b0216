/* Defines the memory-bound requests: one per row of the bench. */
#ifndef TRP_BENCH_DNN_ELEMENTS_H
#define TRP_BENCH_DNN_ELEMENTS_H

#include "rows.h"

enum { BUFFERS = 12, SHAPES = 8 };

typedef enum elements_call {
    GRAPH,
    ACTIVATION_BACKWARD,
    SOFTMAX_FORWARD,
    SOFTMAX_BACKWARD,
    NORM_TRAINING,
    NORM_BACKWARD,
    POOL_FORWARD,
    POOL_BACKWARD,
} elements_call;

/* A request, built and sent for one row at a time. */
typedef struct elements_work {
    suite *suite;
    trp_actor *actor;
    trp_dtype type; /* of the row */
    bool last;      /* channels last */
    const int64_t *dim;
    const unsigned char *piece, *positive; /* random numbers */
    bool good;

    elements_call call;
    trp_dnn_tensor tensors[32];
    uint32_t tensor_count;
    trp_dnn_node nodes[16];
    uint32_t node_count;
    trp_activation_request activation;
    trp_softmax_request softmax;
    trp_norm_request norm;
    trp_pool_request pool;

    trp_buffer buffers[BUFFERS], copied[2];
    size_t buffer_count;
    double bytes; /* bytes read and written, each counted once */
    trp_dnn_ran ran;
} elements_work;

typedef enum elements_rank { FLAT, MATRIX, WIDTHS, IMAGES, IMAGES_LAST } elements_rank;

/* Lists of shapes by rank; a shape of zeros ends a list. The host backend uses the first of each
 * list. */
extern const int64_t elements_shapes[][SHAPES][4];

/* A kind of request, measured for each type and shape. */
typedef struct elements_row {
    const char *name;
    void (*build)(elements_work *w, int what); /* builds the request */
    int what;
    elements_rank rank;
    trp_dtype only; /* the only element type; NONE: f32 and bf16 */
} elements_row;

extern const elements_row elements_rows[];
extern const size_t elements_row_count;

#endif

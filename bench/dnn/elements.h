/* Measures memory-bound requests. Each row sends one request back to back, in turns with a device
 * copy of as many bytes, both read and written. */
#ifndef TRP_BENCH_DNN_ELEMENTS_H
#define TRP_BENCH_DNN_ELEMENTS_H

#include "rows.h"

#include <troupe/training.h>

enum { BUFFERS = 12 };

/* A request, built and sent for one row at a time. */
typedef struct elements_work {
    suite *suite;
    trp_actor *actor;
    trp_dtype type; /* of the row */
    bool last;      /* channels last */
    const int64_t *dim;
    const unsigned char *piece, *positive, *indices; /* random contents */
    bool good, backward;

    /* Sends one of the requests below; a graph by default. */
    trp_status (*send)(const struct elements_work *w, const trp_request *header,
                       const trp_dnn_options *options, trp_completion *completion);
    trp_dnn_tensor tensors[32]; /* of a graph; the first is unused */
    uint32_t tensor_count;
    trp_dnn_node nodes[16];
    uint32_t node_count;
    trp_activation_request activation;
    trp_softmax_request softmax;
    trp_norm_request norm;
    trp_pool_request pool;
    trp_optimizer_request optimizer;
    trp_cross_entropy_request entropy;
    trp_embedding_request embedding;
    trp_rotary_request rotary;
    trp_glu_request glu;
    trp_loss_request loss;
    trp_top_k_request pick;
    trp_sample_request sample;

    trp_buffer buffers[BUFFERS], copied[2];
    size_t buffer_count;
    double bytes; /* bytes read and written, each counted once */
    trp_dnn_ran ran;
} elements_work;

/* Defines the function send_`name`, which sends the request in `field` by `call`. */
#define ELEMENTS_SEND(name, request, field, call)                                                  \
    static trp_status send_##name(const elements_work *w, const trp_request *header,               \
                                  const trp_dnn_options *options, trp_completion *completion)      \
    {                                                                                              \
        request r = w->field;                                                                      \
        r.header = *header;                                                                        \
        r.options = *options;                                                                      \
        return call(w->actor, &r, completion);                                                     \
    }

/* Adds a tensor in memory, filled with copies of `piece`, or with poison if that is NULL; its bytes
 * are counted. */
trp_dnn_tensor elements_memory(elements_work *w, trp_dtype type, uint32_t rank, const int64_t *dim,
                               const unsigned char *piece);

typedef enum elements_rank {
    FLAT,
    MATRIX,
    WIDTHS,
    IMAGES,
    IMAGES_LAST,
    UPDATES,
    LOGITS,
    TABLES,
    HEADS,
    WIDE,
    DRAWS
} elements_rank;

/* A kind of request, measured for each type and shape. */
typedef struct elements_row {
    const char *name;
    void (*build)(elements_work *w, int what); /* builds the request */
    int what;
    elements_rank rank;
    trp_dtype only; /* the only element type; NONE: f32 and bf16 */
} elements_row;

/* Measures all rows for all types and shapes. */
void elements_measure(suite *s, const elements_row *rows, size_t count);

#endif

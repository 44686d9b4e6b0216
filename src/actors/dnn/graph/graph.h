/* The graph shared by both sides: checked, with all defaults applied, and tensors numbered in the
 * order in which nodes first name them, so that graphs that differ only in names have the same
 * bytes. It follows the record in the order head, tensors, nodes, values, accesses; arrays in the
 * request follow it, see wire.h. */
#ifndef TRP_ACTORS_DNN_GRAPH_GRAPH_H
#define TRP_ACTORS_DNN_GRAPH_GRAPH_H

#include <troupe/dnn.h>

#include <stddef.h>
#include <stdint.h>

enum {
    TRP__DNN_PORTS = 24,
    TRP__DNN_NO_PORT = 0xff,
    TRP__DNN_NO_ACCESS = 0xff,
    TRP__DNN_MARGINS = 0xff, /* `mode` of CONCATENATE, of lowered graphs only: its one part is
                              * smaller than y, `start` says where it lies, and around it is 0 */
    TRP__DNN_RANK = TRP_DNN_RANK_MAX,
    TRP__DNN_SPATIAL = TRP_DNN_SPATIAL_MAX,
};

/* The place of a tensor. */
typedef enum trp__dnn_role {
    TRP__DNN_VIRTUAL,
    TRP__DNN_BUFFER,
    TRP__DNN_VALUE,
    TRP__DNN_DATA, /* a packed array in the request */
} trp__dnn_role;

typedef struct trp__dnn_tensor {
    uint8_t type; /* trp_dtype */
    uint8_t rank;
    uint8_t role;
    uint8_t written;               /* written by a node */
    uint32_t alignment;            /* of its address in bytes: a power of two up to 16; 0 without */
    int64_t dim[TRP__DNN_RANK];    /* 1 beyond the rank */
    int64_t stride[TRP__DNN_RANK]; /* elements; 0 beyond the rank */
} trp__dnn_tensor;

/* Ports, by kind. Those of all three convolution kinds have the same numbers. */
enum { TRP__DNN_CONV_X, TRP__DNN_CONV_W, TRP__DNN_CONV_Y };
enum { TRP__DNN_MATMUL_A, TRP__DNN_MATMUL_B, TRP__DNN_MATMUL_Y };
enum { TRP__DNN_POINTWISE_X, TRP__DNN_POINTWISE_B, TRP__DNN_POINTWISE_T, TRP__DNN_POINTWISE_Y };
enum { TRP__DNN_GRADIENT_X, TRP__DNN_GRADIENT_DY, TRP__DNN_GRADIENT_DX };
enum { TRP__DNN_REDUCTION_X, TRP__DNN_REDUCTION_Y };
enum {
    TRP__DNN_RESAMPLE_X, /* of BACKWARD: dx */
    TRP__DNN_RESAMPLE_Y, /* dy */
    TRP__DNN_RESAMPLE_INDEX,
    TRP__DNN_RESAMPLE_OLD_X, /* of BACKWARD: x and y of FORWARD */
    TRP__DNN_RESAMPLE_OLD_Y,
};
enum {
    TRP__DNN_NORM_X,
    TRP__DNN_NORM_SCALE,
    TRP__DNN_NORM_MEAN,
    TRP__DNN_NORM_INV_VARIANCE,
    TRP__DNN_NORM_BIAS, /* of BACKWARD: dbias */
    TRP__DNN_NORM_EPSILON,
    TRP__DNN_NORM_Y, /* of BACKWARD: dy */
    TRP__DNN_NORM_DX,
    TRP__DNN_NORM_DSCALE,
    TRP__DNN_NORM_RUNNING_MEAN = TRP__DNN_NORM_DX, /* of TRAINING */
    TRP__DNN_NORM_RUNNING_VARIANCE,
    TRP__DNN_NORM_AVERAGE_FACTOR,
    TRP__DNN_NORM_NEW_RUNNING_MEAN,
    TRP__DNN_NORM_NEW_RUNNING_VARIANCE,
};
enum { TRP__DNN_STATISTICS_X, TRP__DNN_STATISTICS_SUM, TRP__DNN_STATISTICS_SQUARE_SUM };
enum {
    TRP__DNN_ATTENTION_Q,
    TRP__DNN_ATTENTION_K,
    TRP__DNN_ATTENTION_V,
    TRP__DNN_ATTENTION_Y,
    TRP__DNN_ATTENTION_STATS,
    TRP__DNN_ATTENTION_BIAS,
    TRP__DNN_ATTENTION_SLOPES,
    TRP__DNN_ATTENTION_SEQ_Q,
    TRP__DNN_ATTENTION_SEQ_KV,
    TRP__DNN_ATTENTION_DY, /* of BACKWARD, like those that follow */
    TRP__DNN_ATTENTION_DQ,
    TRP__DNN_ATTENTION_DK,
    TRP__DNN_ATTENTION_DV,
    TRP__DNN_ATTENTION_DBIAS,
    TRP__DNN_ATTENTION_SEED,
    TRP__DNN_ATTENTION_OFFSET,
    TRP__DNN_ATTENTION_OWN, /* from here on inputs for cuDNN, only in a lowered graph */
};
enum { TRP__DNN_RANDOM_SEED, TRP__DNN_RANDOM_OFFSET, TRP__DNN_RANDOM_Y };
enum { TRP__DNN_PAGED_X, TRP__DNN_PAGED_TABLE, TRP__DNN_PAGED_SEQ_KV, TRP__DNN_PAGED_Y };
/* Ports of both BLOCK_SCALE_... */
enum { TRP__DNN_BLOCKS_X, TRP__DNN_BLOCKS_SCALE, TRP__DNN_BLOCKS_Y };
/* Ports of all nodes that move data: x, or the first of several parts, and y. */
enum { TRP__DNN_MOVE_X, TRP__DNN_MOVE_Y = TRP_DNN_PARTS_MAX };

typedef struct trp__dnn_node {
    uint8_t kind;    /* trp_dnn_kind */
    uint8_t mode;    /* trp_dnn_pointwise, _reduce, _resample, _norm, _mask or _random; of
                      * convolutions `flip`, of CONCATENATE and BLOCK_SCALE_... the axis */
    uint8_t compute; /* trp_dtype */
    uint8_t spatial; /* dimensions */
    uint8_t port[TRP__DNN_PORTS]; /* number of the tensor; TRP__DNN_NO_PORT: none */
    int32_t pre_pad[TRP__DNN_SPATIAL], post_pad[TRP__DNN_SPATIAL];
    int32_t stride[TRP__DNN_SPATIAL], dilation[TRP__DNN_SPATIAL];
    int32_t window[TRP__DNN_SPATIAL];     /* BLOCK_SCALE_...: the first is the block; training
                                           * kinds: see train.h */
    double parameter[TRP_DNN_PARAMETERS]; /* defaults filled in; no upper clip: infinity. The
                                           * third of UNIFORM is y's largest number below `high` */
    /* For SLICE; for TRANSPOSE start is the order, see TRP__DNN_MARGINS. */
    int32_t start[TRP__DNN_RANK], step[TRP__DNN_RANK];
} trp__dnn_node;

_Static_assert(sizeof(trp__dnn_tensor) == 8 + 128, "no padding");
_Static_assert(sizeof(trp__dnn_node) == 28 + 60 + 24 + 64, "no padding");

/* The head; graphs are equal if heads, tensors and nodes are. */
typedef struct trp__dnn_head {
    uint16_t tensors, nodes;
    uint8_t tf32, deterministic;
    uint8_t heuristic; /* trp_dnn_heuristic */
    uint8_t tune;      /* trp_tune; ignored when graphs are compared */
    uint64_t workspace;
} trp__dnn_head;

_Static_assert(sizeof(trp__dnn_head) == 16, "no padding");

/* A graph in memory that it does not own. */
typedef struct trp__dnn_graph {
    const trp__dnn_head *head;
    const trp__dnn_tensor *tensor; /* head->tensors */
    const trp__dnn_node *node;     /* head->nodes, in an order in which they can run */
    const double *value;           /* of each tensor; 0 without a value; bits of an i64 */
    const uint8_t *access;         /* of each tensor: index of the request's access */
} trp__dnn_graph;

/* Returns the tensor of a node's port, or NULL. */
static inline const trp__dnn_tensor *trp__dnn_tensor_at(const trp__dnn_graph *g,
                                                        const trp__dnn_node *n, int port)
{
    return n->port[port] == TRP__DNN_NO_PORT ? NULL : &g->tensor[n->port[port]];
}

/* Tells whether no intermediate result of an f32 reduction is infinite or 0 where the final result
 * is not: sums before they are divided, squares before the root. */
static inline bool trp__dnn_keeps_range(const trp__dnn_node *n)
{
    return n->mode != TRP_DNN_MEAN && n->mode != TRP_DNN_NORM2;
}

/* Returns by how many elements the last pooling window exceeds an image of `size` and its padding
 * along spatial dimension i, if the number of windows was rounded up. */
static inline int64_t trp__dnn_beyond(const trp__dnn_node *n, int i, int64_t size, int64_t windows)
{
    const int64_t end = (windows - 1) * n->stride[i] + n->window[i] - n->pre_pad[i];
    return end > size + n->post_pad[i] ? end - size - n->post_pad[i] : 0;
}

/* The port of a kind. */
typedef struct trp__dnn_port {
    const char *name; /* the field of trp_dnn_node; NULL: no such port */
    size_t offset;    /* likewise */
    bool written;
    bool optional;
} trp__dnn_port;

/* Rows of such tables: inputs, optional inputs, outputs, optional outputs. */
/* clang-format off */
#define TRP__PORT_IN(field)  {#field, offsetof(trp_dnn_node, field), false, false}
#define TRP__PORT_MAY(field) {#field, offsetof(trp_dnn_node, field), false, true}
#define TRP__PORT_OUT(field) {#field, offsetof(trp_dnn_node, field), true, false}
#define TRP__PORT_GET(field) {#field, offsetof(trp_dnn_node, field), true, true}
/* clang-format on */

/* The properties of a kind. */
typedef struct trp__dnn_kind {
    const char *name;
    trp__dnn_port port[TRP__DNN_PORTS];
    bool geometry; /* paddings and strides */
} trp__dnn_kind;

/* Returns NULL for an unknown kind. */
const trp__dnn_kind *trp__dnn_kind_of(uint32_t kind);

/* Tells whether a kind only moves elements. */
static inline bool trp__dnn_is_move(uint32_t kind)
{
    return kind >= TRP_DNN_CONCATENATE && kind <= TRP_DNN_RESHAPE;
}

/* Tells whether elements have block scales. */
static inline bool trp__dnn_has_blocks(uint32_t kind)
{
    return kind == TRP_DNN_BLOCK_SCALE_QUANTIZE || kind == TRP_DNN_BLOCK_SCALE_DEQUANTIZE;
}

/* Return the number of inputs of a mode of POINTWISE, 1 to 3 (x; x and b; x, b and t), or 0 for an
 * unknown mode, and its name. */
uint32_t trp__dnn_pointwise_inputs(uint32_t mode);
const char *trp__dnn_pointwise_name(uint32_t mode);

/* Tells whether a node may write the tensor at one port in place of the one that it reads at
 * another, because each element, or each group of elements computed together, depends only on its
 * own place. */
bool trp__dnn_in_place(uint32_t kind, int read, int written);

/* Returns the elements of a tensor; 0 if any dimension is 0. */
int64_t trp__dnn_elements(const trp__dnn_tensor *t);

/* Returns one more than the largest offset of an element, in elements; 0 if there are none. */
int64_t trp__dnn_extent(const trp__dnn_tensor *t);

/* Returns the bytes of a tensor in the request. */
static inline uint64_t trp__dnn_data_bytes(const trp__dnn_tensor *t)
{
    return (uint64_t)trp__dnn_elements(t) * sizeof(double);
}

/* Return the bytes of a graph, and of the part that determines equality (with the head). */
size_t trp__dnn_bytes(const trp__dnn_head *head);
size_t trp__dnn_key_bytes(const trp__dnn_head *head);

/* Returns the graph whose bytes are at `bytes`, aligned to 8. */
trp__dnn_graph trp__dnn_graph_at(const void *bytes);

#endif

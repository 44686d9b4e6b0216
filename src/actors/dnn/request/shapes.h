/* What the checks of shapes, kind by kind, have in common. */
#ifndef TRP_ACTORS_DNN_REQUEST_SHAPES_H
#define TRP_ACTORS_DNN_REQUEST_SHAPES_H

#include "actors/dnn/request/making.h"

/* One node that is checked. */
typedef struct trp__dnn_checked {
    trp__dnn_making *m;
    uint32_t index;
    trp__dnn_node *n;
    const trp__dnn_kind *kind;
} trp__dnn_checked;

/* An error of the tensor at a port: "nodes[2].w (conv_forward): ...". */
__attribute__((format(printf, 3, 4))) trp_status
trp__dnn_shape_fail(const trp__dnn_checked *c, int at, const char *format, ...);

/* A tensor that must have these dimensions; one that has none yet gets them. */
trp_status trp__dnn_expect_dims(const trp__dnn_checked *c, int at, int rank, const int64_t *dim);

/* A seed or an offset: one element of i64. Without a tensor nothing is checked. */
trp_status trp__dnn_check_integer(const trp__dnn_checked *c, int at);

/* ATTENTION and its gradient. */
trp_status trp__dnn_check_attention(const trp__dnn_checked *c);

/* PAGED_LOAD. */
trp_status trp__dnn_check_paged(const trp__dnn_checked *c);

/* RANDOM: also its parameters, which the type of y says more about. */
trp_status trp__dnn_check_random(const trp__dnn_checked *c);

/* BLOCK_SCALE_... */
trp_status trp__dnn_check_blocks(const trp__dnn_checked *c);

#endif

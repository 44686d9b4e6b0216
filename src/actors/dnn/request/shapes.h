/* Shared by the checks of shapes of all kinds. */
#ifndef TRP_ACTORS_DNN_REQUEST_SHAPES_H
#define TRP_ACTORS_DNN_REQUEST_SHAPES_H

#include "actors/dnn/request/making.h"

/* A node under check. */
typedef struct trp__dnn_checked {
    trp__dnn_making *m;
    uint32_t index;
    trp__dnn_node *n;
    const trp__dnn_kind *kind;
} trp__dnn_checked;

/* Reports an error of the tensor at a port: "nodes[2].w (conv_forward): ...". */
__attribute__((format(printf, 3, 4))) trp_status
trp__dnn_shape_fail(const trp__dnn_checked *c, int at, const char *format, ...);

/* Checks that a tensor has these dimensions, or sets them if it has none yet. */
trp_status trp__dnn_expect_dims(const trp__dnn_checked *c, int at, int rank, const int64_t *dim);

/* Checks a seed or an offset: one element of i64. Without a tensor nothing is checked. */
trp_status trp__dnn_check_integer(const trp__dnn_checked *c, int at);

/* Checks ATTENTION and its gradient. */
trp_status trp__dnn_check_attention(const trp__dnn_checked *c);

/* Checks PAGED_LOAD. */
trp_status trp__dnn_check_paged(const trp__dnn_checked *c);

/* Checks RANDOM and its parameters, whose limits depend on the type of y. */
trp_status trp__dnn_check_random(const trp__dnn_checked *c);

/* Checks BLOCK_SCALE_... */
trp_status trp__dnn_check_blocks(const trp__dnn_checked *c);

#endif

/* A graph, or some nodes of it that follow each other, as cuDNN's operation graph. */
#ifndef TRP_ACTORS_DNN_CUDNN_DESCRIPTORS_H
#define TRP_ACTORS_DNN_CUDNN_DESCRIPTORS_H

#include "actors/dnn/lower/part.h"
#include "libs/cudnn/cudnn.h"

/* With what and for what graphs are planned. One thread at a time. */
typedef struct trp__dnn_planner {
    const trp__cudnn *lib;
    trp__cudnn_handle handle;     /* used where `device` is NULL */
    trp__cudnn_descriptor device; /* a device's properties: plans can be made without the device */
    struct trp__kernel_modules *modules; /* of kernels of ours; NULL: there are none */
    struct trp__dnn_products *products;  /* cuBLASLt; NULL: it is not used */
    struct trp__dnn_prover *prover;      /* of engines; NULL: all are taken as they are */
} trp__dnn_planner;

/* What cuDNN knows a tensor by. */
static inline int64_t trp__dnn_uid(uint32_t tensor)
{
    return (int64_t)tensor + 1;
}

/* Makes the operation graph of a part, which the caller drops. TRP_E_UNSUPPORTED, with the
 * library's reason and the kind of the node, for what it refuses already here. */
trp_status trp__dnn_operation_graph(const trp__dnn_planner *planner, const trp__dnn_part *part,
                                    trp__cudnn_descriptor *out, trp_error *error);

/* -1 for a type that the library does not have. */
int trp__dnn_cudnn_type(uint8_t type);

#endif

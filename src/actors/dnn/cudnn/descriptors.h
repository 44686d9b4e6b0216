/* Describes a graph, or consecutive nodes of it, as cuDNN's operation graph. */
#ifndef TRP_ACTORS_DNN_CUDNN_DESCRIPTORS_H
#define TRP_ACTORS_DNN_CUDNN_DESCRIPTORS_H

#include "actors/dnn/lower/part.h"
#include "libs/cudnn/cudnn.h"

/* The libraries and the device that graphs are planned with. One thread at a time. */
typedef struct trp__dnn_planner {
    const trp__cudnn *lib;
    trp__cudnn_handle handle;            /* used if `device` is NULL */
    trp__cudnn_descriptor device;        /* the device's properties, from which plans can be created
                                          * without the device */
    struct trp__kernel_modules *modules; /* own kernels; NULL: none */
    struct trp__dnn_products *products;  /* cuBLASLt; NULL: not used */
    struct trp__dnn_prover *prover;      /* proves engines; NULL: engines are used unproven */
} trp__dnn_planner;

/* Returns cuDNN's id of a tensor. */
static inline int64_t trp__dnn_uid(uint32_t tensor)
{
    return (int64_t)tensor + 1;
}

/* Creates the operation graph of a part, which the caller drops. Returns TRP_E_UNSUPPORTED, with
 * the library's reason and the kind of the node, for what it already refuses here. */
trp_status trp__dnn_operation_graph(const trp__dnn_planner *planner, const trp__dnn_part *part,
                                    trp__cudnn_descriptor *out, trp_error *error);

/* Returns -1 for a type that the library does not have. */
int trp__dnn_cudnn_type(uint8_t type);

#endif

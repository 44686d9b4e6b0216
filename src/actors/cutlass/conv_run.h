/* The sender's side of a convolution on a GPU. */
#ifndef TRP_ACTORS_CUTLASS_CONV_RUN_H
#define TRP_ACTORS_CUTLASS_CONV_RUN_H

#include "actors/cutlass/conv_wire.h"
#include "wire/actor_class.h"

/* A convolution whose places are checked, with at least one row of D. */
typedef struct trp__cutlass_convolving {
    const trp__cutlass_conv *g; /* but for its accesses, slots and tree */
    const int32_t *pad_after;   /* TRP__CONV_DIMS of them */
    const trp__tree *tree;      /* as in trp__cutlass_running */
    const trp__operand *matrix; /* TRP__GEMM_MATRICES of them; mode 0: there is none */
    const trp__tree_operands *operands;
    bool in_place; /* C is read where D is written */
    const trp_cutlass_conv_request *request;
} trp__cutlass_convolving;

/* Chooses a kernel, adds it and all operands as accesses, and writes the record. */
trp_status trp__cutlass_pack_convolution(trp__pack *pack, const trp__cutlass_convolving *x);

#endif

/* A checked convolution on the sender's side. */
#ifndef TRP_ACTORS_CUTLASS_REQUEST_CONVOLVING_H
#define TRP_ACTORS_CUTLASS_REQUEST_CONVOLVING_H

#include "actors/cutlass/wire/conv.h"
#include "wire/actor_class.h"

#include <troupe/cutlass.h>

/* A convolution whose operands are checked, with at least one row of D. */
typedef struct trp__cutlass_convolving {
    const trp__cutlass_conv *g; /* without accesses, slots and tree */
    const int32_t *pad_after;   /* TRP__CONV_DIMS of them */
    const trp__tree *tree;      /* as in trp__cutlass_running */
    const trp__operand *matrix; /* TRP__GEMM_MATRICES of them; mode 0: absent */
    const trp__tree_operands *operands;
    bool in_place; /* C is read where D is written */
    const trp_cutlass_conv_request *request;
} trp__cutlass_convolving;

#endif

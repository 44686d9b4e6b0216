/* A checked product on the sender's side. */
#ifndef TRP_ACTORS_CUTLASS_REQUEST_PRODUCT_H
#define TRP_ACTORS_CUTLASS_REQUEST_PRODUCT_H

#include "actors/cutlass/wire/gemm.h"
#include "wire/actor_class.h"

#include <troupe/cutlass.h>

/* A product whose operands are checked; m and n are at least 1. */
typedef struct trp__cutlass_product {
    const trp__cutlass_gemm *g; /* without accesses, slots and tree */
    const trp__tree *tree;      /* as in trp__cutlass_running */
    const trp__operand *matrix; /* TRP__GEMM_MATRICES of them; mode 0: absent */
    const trp__tree_operands *operands;
    bool in_place; /* C is read where D is written */
    const trp_cutlass_gemm_request *request;
} trp__cutlass_product;

#endif

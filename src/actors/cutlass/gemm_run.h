/* The sender's side of a product on a GPU. */
#ifndef TRP_ACTORS_CUTLASS_GEMM_RUN_H
#define TRP_ACTORS_CUTLASS_GEMM_RUN_H

#include "actors/cutlass/catalogue.h"
#include "actors/cutlass/gemm_wire.h"
#include "wire/actor_class.h"

/* A product whose places are checked; m and n are at least 1. */
typedef struct trp__cutlass_product {
    const trp__cutlass_gemm *g; /* but for its accesses, slots and tree */
    const trp__tree *tree;      /* as in trp__cutlass_running */
    const trp__operand *matrix; /* TRP__GEMM_MATRICES of them; mode 0: there is none */
    const trp__tree_operands *operands;
    bool in_place; /* C is read where D is written */
    const trp_cutlass_gemm_request *request;
} trp__cutlass_product;

/* What a product says of its problem: sizes, types and layouts of A, B, C and D. */
void trp__cutlass_set_types(trp__cutlass_problem *p, const trp__cutlass_gemm *g);

/* Chooses a kernel, adds it and all operands as accesses, and writes the record. */
trp_status trp__cutlass_pack_product(trp__pack *pack, const trp__cutlass_product *x);

#endif

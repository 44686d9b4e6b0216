/* The sender's side of a product on a GPU. */
#ifndef TRP_ACTORS_CUTLASS_ENCODE_GEMM_RUN_H
#define TRP_ACTORS_CUTLASS_ENCODE_GEMM_RUN_H

#include "actors/cutlass/catalogue/catalogue.h"
#include "actors/cutlass/request/product.h"

/* Sets a problem's sizes, types and layouts of A, B, C and D. */
void trp__cutlass_set_types(trp__cutlass_problem *p, const trp__cutlass_gemm *g);

/* Chooses a kernel, adds it and all operands as accesses, and writes the record. */
trp_status trp__cutlass_encode_product(trp__encoder *encoder, const trp__cutlass_product *x);

#endif

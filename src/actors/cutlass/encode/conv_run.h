/* The sender's side of a convolution on a GPU. */
#ifndef TRP_ACTORS_CUTLASS_ENCODE_CONV_RUN_H
#define TRP_ACTORS_CUTLASS_ENCODE_CONV_RUN_H

#include "actors/cutlass/request/convolving.h"

/* Chooses a kernel, adds it and all operands as accesses, and writes the record. */
trp_status trp__cutlass_encode_convolution(trp__encoder *encoder, const trp__cutlass_convolving *x);

#endif

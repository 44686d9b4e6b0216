/* Products on NVIDIA GPUs to which A and B add nothing. */
#ifndef TRP_ACTORS_MATMUL_ZEROS_H
#define TRP_ACTORS_MATMUL_ZEROS_H

#include "matrix/product.h"

#include <stddef.h>

/* cuBLASLt takes no k of 0, and leaves D out where it sees alpha 0 and beta 1 and D is a vector.
 * Such a product becomes one of zeros: A and B of the smallest k that every type and order goes
 * with, both in one place of so many bytes, a multiple of 256, that must hold zeros; alpha by value
 * becomes 1. Returns 0, and changes nothing, if it is any other product. */
size_t trp__matmul_use_zeros(trp__matmul *g);

#endif

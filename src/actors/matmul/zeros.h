/* Products on NVIDIA GPUs to which A and B do not contribute. */
#ifndef TRP_ACTORS_MATMUL_ZEROS_H
#define TRP_ACTORS_MATMUL_ZEROS_H

#include "matrix/product.h"

#include <stddef.h>

/* cuBLASLt refuses k 0, and does not write D if alpha is 0, beta is 1 and D is a vector. Such a
 * product is changed to a product of zeros: A and B get the smallest k that all types and orders
 * support, and alpha by value becomes 1. Returns the bytes of zeros that A and B need at a common
 * address, a multiple of 256. For any other product, returns 0 and changes nothing. */
size_t trp__matmul_use_zeros(trp__matmul *g);

#endif

/* The reference kernel of products (kernels.h) as a module for GPUs: defines the macros that it needs. */
#include "matrix/reference/threads.cuh"
/* The bits of numbers that are not negative have the order of the numbers, with NaN as the largest. */
#define TRP__AT_LEAST(to, bits) atomicMax((to), (bits))
#include "matrix/reference/kernels.h"

/* The reference kernel of products (kernels.h) as a module for GPUs: defines the macros that it needs. */
#define TRP__KERNEL  extern "C" __global__
#define TRP__SHARED  __shared__
#define TRP__SYNC()  __syncthreads()
#define TRP__THREAD  ((int)threadIdx.x)
#define TRP__THREADS ((int)blockDim.x)
#define TRP__BLOCK   blockIdx.x
#define TRP__BLOCKS  gridDim.x
/* The bits of numbers that are not negative have the order of the numbers, with NaN as the largest. */
#define TRP__AT_LEAST(to, bits) atomicMax((to), (bits))
#include "matrix/reference/kernels.h"

/* The reference kernel of products (kernels.h) as a module: what its text, which is C, expects of a
 * compiler for GPUs. */
#define TRP__KERNEL  extern "C" __global__
#define TRP__SHARED  __shared__
#define TRP__SYNC()  __syncthreads()
#define TRP__THREAD  ((int)threadIdx.x)
#define TRP__THREADS ((int)blockDim.x)
#define TRP__BLOCK   blockIdx.x
#define TRP__BLOCKS  gridDim.x
/* Of numbers that are not negative the bits are in the order of the numbers, NaN above all. */
#define TRP__AT_LEAST(to, bits) atomicMax((to), (bits))
#include "matrix/reference/kernels.h"

/* The reference kernel (kernels.h) as a module: what its text, which is C, expects of a compiler
 * for GPUs. */
#define TRP_CUTLASS_PLAIN
#define TRP__KERNEL  extern "C" __global__
#define TRP__SHARED  __shared__
#define TRP__SYNC()  __syncthreads()
#define TRP__THREAD  ((int)threadIdx.x)
#define TRP__THREADS ((int)blockDim.x)
#define TRP__BLOCK   blockIdx.x
#define TRP__BLOCKS  gridDim.x
#define TRP__SWAP(to, from, with) atomicCAS((to), (from), (with))
#define TRP__APART __noinline__
#include "actors/cutlass/reference/kernels.h"

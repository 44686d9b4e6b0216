/* The module of the reference kernels (actors/dnn/reference/kernels.h): defines what their C text
 * requires on a GPU. */
#define TRP__KERNEL  extern "C" __global__
#define TRP__SHARED  __shared__
#define TRP__SYNC()  __syncthreads()
#define TRP__THREAD  ((int)threadIdx.x)
#define TRP__THREADS ((int)blockDim.x)
#define TRP__BLOCK   blockIdx.x
#define TRP__BLOCKS  gridDim.x
#include "actors/dnn/math/functions.c"
#include "actors/dnn/reference/kernels.h"

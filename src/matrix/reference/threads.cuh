/* Blocks and threads of a GPU, as the text of reference kernels names them (kernels.h). */
#define TRP__KERNEL  extern "C" __global__
#define TRP__SHARED  __shared__
#define TRP__SYNC()  __syncthreads()
#define TRP__THREAD  ((int)threadIdx.x)
#define TRP__THREADS ((int)blockDim.x)
#define TRP__BLOCK   blockIdx.x
#define TRP__BLOCKS  gridDim.x

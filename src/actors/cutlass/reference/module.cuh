/* The reference kernel (kernels.h) as a module for GPUs: defines the macros that it needs. */
#define TRP_CUTLASS_PLAIN
#include "matrix/reference/threads.cuh"
#define TRP__SWAP(to, from, with) atomicCAS((to), (from), (with))
#define TRP__APART __noinline__
#include "actors/cutlass/reference/kernels.h"

/* Random numbers: programs of ready.h. */
#include "actors/dnn/kernels/ready.cuh"

TRP__READY_KERNELS(trp_random, TRP__READY_DRAWS)

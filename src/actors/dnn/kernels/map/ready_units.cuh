/* Gated units: programs of ready.h. */
#include "actors/dnn/kernels/map/ready.cuh"

TRP__READY_KERNELS(trp_glu, TRP__READY_UNITS)

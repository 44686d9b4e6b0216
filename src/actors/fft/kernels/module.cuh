/* The fft actor's kernels (kernels.h) as a module for GPUs: defines the macros that they need. */
#include "matrix/reference/threads.cuh"
#define TRP__TURN(part, re, im) sincospi(2 * (part), (im), (re))
#include "actors/fft/kernels/kernels.h"

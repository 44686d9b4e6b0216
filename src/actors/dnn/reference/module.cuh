/* The module of the reference kernels (actors/dnn/reference/kernels.h). */
#include "matrix/reference/threads.cuh"
#include "actors/dnn/math/functions.c"
#include "actors/dnn/reference/kernels.h"

/* Transforms of f64. */
#define T       double
#define NAME(x) x##_f64
#define IS_F32  0
#include "actors/fft/host/all_real.h"

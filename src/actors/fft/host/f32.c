/* Transforms of f32. */
#define T       float
#define NAME(x) x##_f32
#define IS_F32  1
#include "actors/fft/host/all_real.h"

/* Transforms of f32, for processors with AVX2: the text of f32.c compiled without fused
 * multiply-adds, so that both give equal bits. */
#if defined(__x86_64__)
#define T       float
#define NAME(x) x##_f32_avx2
#define IS_F32  1
#include "actors/fft/host/all_real.h"
#endif

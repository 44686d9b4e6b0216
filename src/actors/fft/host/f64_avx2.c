/* Transforms of f64, for processors with AVX2: the text of f64.c compiled without fused
 * multiply-adds, so that both give equal bits. */
#if defined(__x86_64__)
#define T       double
#define NAME(x) x##_f64_avx2
#define IS_F32  0
#include "actors/fft/host/all_real.h"
#endif

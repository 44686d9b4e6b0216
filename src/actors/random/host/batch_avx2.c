/* For processors with AVX2 and fused multiply-adds, which the text has where it wants them. */
#if defined(__x86_64__)
#define NAME(x) x##_avx2
#include "actors/random/host/batch_text.h"
#endif

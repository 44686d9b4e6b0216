/* The functions of vmath.h, on processors that have AVX2. */
#ifndef TRP_BASE_NUMBERS_VMATH_AVX2_H
#define TRP_BASE_NUMBERS_VMATH_AVX2_H

#include "base/numbers/vmath.h"

#define TRP__VMATH_DECLARE_AVX2(name)                                                              \
    void trp__v##name##_avx2(const float *in, float *out, size_t count);
#define TRP__VMATH_DECLARE_AVX2_WITH_NUMBER(name)                                                  \
    void trp__v##name##_avx2(const float *in, double p, float *out, size_t count);
TRP__VMATH_FUNCTIONS(TRP__VMATH_DECLARE_AVX2)
TRP__VMATH_FUNCTIONS_WITH_NUMBER(TRP__VMATH_DECLARE_AVX2_WITH_NUMBER)

#endif

/* The functions of vmath.h in AVX2: this file alone is compiled for it (src/CMakeLists.txt). */
#if defined(__AVX2__)

#define VMATH(name) trp__v##name##_avx2
#define LINKAGE     __attribute__((visibility("hidden")))
#include "base/numbers/vmath_avx2.h"

#include "base/numbers/vmath_body.h"

#else

typedef int trp__vmath_has_no_avx2;

#endif

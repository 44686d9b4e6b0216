/* The functions of vmath.h in the instructions that every processor has, and the choice. */
#include "base/os/cpu.h"
#include "base/numbers/vmath_avx2.h"

#define VMATH(name) name##_portable
#define LINKAGE     static
#include "base/numbers/vmath_body.h"

#if defined(TRP__VECTOR_AVX2)
#define CHOOSE(avx2, portable) (trp__cpu_has_avx2() ? (avx2) : (portable))
#else
#define CHOOSE(avx2, portable) (portable)
#endif

#define DISPATCH(name)                                                                             \
    void trp__v##name(const float *in, float *out, size_t count)                                   \
    {                                                                                              \
        CHOOSE(trp__v##name##_avx2, name##_portable)(in, out, count);                              \
    }
#define DISPATCH_WITH_NUMBER(name)                                                                 \
    void trp__v##name(const float *in, double p, float *out, size_t count)                         \
    {                                                                                              \
        CHOOSE(trp__v##name##_avx2, name##_portable)(in, p, out, count);                           \
    }
TRP__VMATH_FUNCTIONS(DISPATCH)
TRP__VMATH_FUNCTIONS_WITH_NUMBER(DISPATCH_WITH_NUMBER)

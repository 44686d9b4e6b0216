#include "base/numbers/half.h"

#include "base/numbers/convert_array.h"

#include <stdbool.h>

#define ARRAY_PORTABLE(name, from_type, to_type)                                                   \
    void trp__##name##_array_portable(const from_type *restrict in, to_type *restrict out,         \
                                      size_t count)                                                \
    {                                                                                              \
        TRP__CONVERT_ARRAY(trp__##name);                                                           \
    }
ARRAY_PORTABLE(f32_to_f16, float, uint16_t)
ARRAY_PORTABLE(f16_to_f32, uint16_t, float)
ARRAY_PORTABLE(f32_to_bf16, float, uint16_t)
ARRAY_PORTABLE(bf16_to_f32, uint16_t, float)

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,f16c")))

/*
 * cpuid traps in a virtual machine (about a microsecond), so the answer is cached. Clang before 16
 * does not know "f16c" in __builtin_cpu_supports; the AVX2 answer includes that the system saves
 * the wide registers, which F16C needs too. */
static bool has_avx2_f16c(void)
{
    enum { UNKNOWN, NO, YES };
    static int known = UNKNOWN; /* every thread that races here stores the same value */

    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (answer == UNKNOWN) {
        unsigned a, b, c, d;
        __builtin_cpu_init();
        const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
        answer = f16c && __builtin_cpu_supports("avx2") ? YES : NO;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer == YES;
}

AVX2 static void f32_to_f16_avx2(const float *restrict in, uint16_t *restrict out, size_t count)
{
    size_t done = 0;
    for (; count - done >= 8u; done += 8u) {
        const __m256 wide = _mm256_loadu_ps(in + done);
        /* The immediate asks for round to nearest even, whatever the control register says. */
        const __m128i narrow = _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(out + done), narrow);
    }
    for (; done < count; done++) {
        out[done] = trp__f32_to_f16(in[done]);
    }
}

AVX2 static void f16_to_f32_avx2(const uint16_t *restrict in, float *restrict out, size_t count)
{
    size_t done = 0;
    for (; count - done >= 8u; done += 8u) {
        const __m128i narrow = _mm_loadu_si128((const __m128i *)(const void *)(in + done));
        _mm256_storeu_ps(out + done, _mm256_cvtph_ps(narrow));
    }
    for (; done < count; done++) {
        out[done] = trp__f16_to_f32(in[done]);
    }
}

AVX2 static void f32_to_bf16_avx2(const float *restrict in, uint16_t *restrict out, size_t count)
{
    TRP__CONVERT_ARRAY(trp__f32_to_bf16);
}

AVX2 static void bf16_to_f32_avx2(const uint16_t *restrict in, float *restrict out, size_t count)
{
    TRP__CONVERT_ARRAY(trp__bf16_to_f32);
}

#define CHOOSE(name) (has_avx2_f16c() ? name##_avx2 : trp__##name##_array_portable)

#else

#define CHOOSE(name) trp__##name##_array_portable

#endif

#define ARRAY(name, from_type, to_type)                                                            \
    void trp__##name##_array(const from_type *restrict in, to_type *restrict out, size_t count)    \
    {                                                                                              \
        CHOOSE(name)(in, out, count);                                                              \
    }
ARRAY(f32_to_f16, float, uint16_t)
ARRAY(f16_to_f32, uint16_t, float)
ARRAY(f32_to_bf16, float, uint16_t)
ARRAY(bf16_to_f32, uint16_t, float)

#include "base/numbers/half.h"

#include <stdbool.h>

/*
 * GCC 12 vectorises at -O2 only loops of a known trip count, so each array is done in blocks of a
 * constant number of elements and a scalar tail. The body is a macro because the portable and the
 * AVX2 version compile the same loop for different targets.
 */
#define BLOCK 32u

#define CONVERT_ARRAY(convert)                                                                     \
    do {                                                                                           \
        size_t done = 0;                                                                           \
        for (; count - done >= BLOCK; done += BLOCK) {                                             \
            for (size_t i = 0; i < BLOCK; i++) {                                                   \
                out[done + i] = convert(in[done + i]);                                             \
            }                                                                                      \
        }                                                                                          \
        for (; done < count; done++) {                                                             \
            out[done] = convert(in[done]);                                                         \
        }                                                                                          \
    } while (0)

void trp__f32_to_f16_array_portable(const float *restrict in, uint16_t *restrict out, size_t count)
{
    CONVERT_ARRAY(trp__f32_to_f16);
}

void trp__f16_to_f32_array_portable(const uint16_t *restrict in, float *restrict out, size_t count)
{
    CONVERT_ARRAY(trp__f16_to_f32);
}

void trp__f32_to_bf16_array_portable(const float *restrict in, uint16_t *restrict out, size_t count)
{
    CONVERT_ARRAY(trp__f32_to_bf16);
}

void trp__bf16_to_f32_array_portable(const uint16_t *restrict in, float *restrict out, size_t count)
{
    CONVERT_ARRAY(trp__bf16_to_f32);
}

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
    CONVERT_ARRAY(trp__f32_to_bf16);
}

AVX2 static void bf16_to_f32_avx2(const uint16_t *restrict in, float *restrict out, size_t count)
{
    CONVERT_ARRAY(trp__bf16_to_f32);
}

#define DISPATCH(name)                                                                             \
    do {                                                                                           \
        if (has_avx2_f16c()) {                                                                     \
            name##_avx2(in, out, count);                                                           \
        } else {                                                                                   \
            trp__##name##_array_portable(in, out, count);                                          \
        }                                                                                          \
    } while (0)

#else

#define DISPATCH(name) trp__##name##_array_portable(in, out, count)

#endif

void trp__f32_to_f16_array(const float *restrict in, uint16_t *restrict out, size_t count)
{
    DISPATCH(f32_to_f16);
}

void trp__f16_to_f32_array(const uint16_t *restrict in, float *restrict out, size_t count)
{
    DISPATCH(f16_to_f32);
}

void trp__f32_to_bf16_array(const float *restrict in, uint16_t *restrict out, size_t count)
{
    DISPATCH(f32_to_bf16);
}

void trp__bf16_to_f32_array(const uint16_t *restrict in, float *restrict out, size_t count)
{
    DISPATCH(bf16_to_f32);
}

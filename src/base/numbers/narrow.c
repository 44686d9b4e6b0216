#include "base/numbers/narrow.h"

/* In blocks of a constant number of elements, which is what GCC 12 vectorises at -O2: see half.c.
 */
#define BLOCK 32u

#define CONVERT_ARRAY(convert)                                                                     \
    do {                                                                                           \
        size_t done = 0;                                                                           \
        for (; count - done >= BLOCK; done += BLOCK) {                                             \
            for (size_t i = 0; i < BLOCK; i++) {                                                   \
                to[done + i] = convert(from[done + i]);                                            \
            }                                                                                      \
        }                                                                                          \
        for (; done < count; done++) {                                                             \
            to[done] = convert(from[done]);                                                        \
        }                                                                                          \
    } while (0)

void trp__f32_to_f8e4m3_array(const float *restrict from, uint8_t *restrict to, size_t count)
{
    CONVERT_ARRAY(trp__f32_to_f8e4m3);
}

void trp__f8e4m3_to_f32_array(const uint8_t *restrict from, float *restrict to, size_t count)
{
    CONVERT_ARRAY(trp__f8e4m3_to_f32);
}

void trp__f32_to_f8e5m2_array(const float *restrict from, uint8_t *restrict to, size_t count)
{
    CONVERT_ARRAY(trp__f32_to_f8e5m2);
}

void trp__f8e5m2_to_f32_array(const uint8_t *restrict from, float *restrict to, size_t count)
{
    CONVERT_ARRAY(trp__f8e5m2_to_f32);
}

void trp__f32_to_f4e2m1_array(const float *restrict from, uint8_t *restrict to, size_t count)
{
    for (size_t i = 0; i < count; i += 2) {
        const unsigned high = i + 1 < count ? trp__f32_to_f4e2m1(from[i + 1]) : 0u;
        to[i / 2] = (uint8_t)(trp__f32_to_f4e2m1(from[i]) | (high << 4));
    }
}

void trp__f4e2m1_to_f32_array(const uint8_t *restrict from, float *restrict to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = trp__f4e2m1_load(from, i);
}

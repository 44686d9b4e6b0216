#include "base/numbers/narrow.h"

#include "base/numbers/convert_array.h"

#define ARRAY(name, from_type, to_type)                                                            \
    void trp__##name##_array(const from_type *restrict in, to_type *restrict out, size_t count)    \
    {                                                                                              \
        TRP__CONVERT_ARRAY(trp__##name);                                                           \
    }
ARRAY(f32_to_f8e4m3, float, uint8_t)
ARRAY(f8e4m3_to_f32, uint8_t, float)
ARRAY(f32_to_f8e5m2, float, uint8_t)
ARRAY(f8e5m2_to_f32, uint8_t, float)

void trp__f32_to_f4e2m1_array(const float *restrict in, uint8_t *restrict out, size_t count)
{
    for (size_t i = 0; i < count; i += 2) {
        const unsigned high = i + 1 < count ? trp__f32_to_f4e2m1(in[i + 1]) : 0u;
        out[i / 2] = (uint8_t)(trp__f32_to_f4e2m1(in[i]) | (high << 4));
    }
}

void trp__f4e2m1_to_f32_array(const uint8_t *restrict in, float *restrict out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = trp__f4e2m1_load(in, i);
}

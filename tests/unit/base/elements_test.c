/* What the reference says of narrow elements, against the library's conversions: two accounts of
 * the same formats, written apart. */
#include "support/unit.h"

#include "base/numbers/half.h"
#include "base/numbers/narrow.h"
#include "support/reference/elements.h"
#include "support/reference/reference.h"
#include "support/label.h"

#include <math.h>

TROUPE_TEST("no tsan");

static double widened(trp_dtype type, uint32_t code)
{
    switch (type) {
    case TRP_F16:
        return (double)trp__f16_to_f32((uint16_t)code);
    case TRP_BF16:
        return (double)trp__bf16_to_f32((uint16_t)code);
    case TRP_F8E4M3:
        return (double)trp__f8e4m3_to_f32((uint8_t)code);
    case TRP_F8E5M2:
        return (double)trp__f8e5m2_to_f32((uint8_t)code);
    default:
        return (double)trp__f4e2m1_to_f32((uint8_t)code);
    }
}

static uint32_t narrowed(trp_dtype type, float value)
{
    switch (type) {
    case TRP_F16:
        return trp__f32_to_f16(value);
    case TRP_BF16:
        return trp__f32_to_bf16(value);
    case TRP_F8E4M3:
        return trp__f32_to_f8e4m3(value);
    case TRP_F8E5M2:
        return trp__f32_to_f8e5m2(value);
    default:
        return trp__f32_to_f4e2m1(value);
    }
}

static const trp_dtype types[] = {TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2, TRP_F4E2M1};
enum { TYPES = sizeof types / sizeof *types };

static void known_values(void **state)
{
    (void)state;
    static const struct {
        trp_dtype type;
        uint32_t code;
        double value;
    } known[] = {
        {TRP_F16, 0x3c00, 1},        {TRP_F16, 0x7bff, 65504},     {TRP_F16, 0x0001, 0x1p-24},
        {TRP_BF16, 0xbf80, -1},      {TRP_BF16, 0x0001, 0x1p-133}, {TRP_F8E4M3, 0x7e, 448},
        {TRP_F8E4M3, 0x01, 0x1p-9},  {TRP_F8E4M3, 0xb8, -1},       {TRP_F8E5M2, 0x7b, 57344},
        {TRP_F8E5M2, 0x01, 0x1p-16}, {TRP_F4E2M1, 0x1, 0.5},       {TRP_F4E2M1, 0xf, -6},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_true(ref_element_decode(known[i].type, known[i].code) == known[i].value);
        assert_int_equal(ref_element_encode(known[i].type, known[i].value), known[i].code);
    }
    assert_true(ref_ue8m0(127) == 1 && ref_ue8m0(0) == 0x1p-127 && isnan(ref_ue8m0(255)));
    assert_true(ref_ue4m3(0xb8) == 1);
}

static void all_codes(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        for (uint32_t code = 0; code < 1u << trp_dtype_bits(types[t]); code++) {
            double mine = ref_element_decode(types[t], code), other = widened(types[t], code);
            if (isnan(mine) ? !isnan(other) : mine != other || signbit(mine) != signbit(other))
                fail_msg("%s %#x: %g and %g", trp_dtype_name(types[t]), code, mine, other);
        }
    }
    for (int code = 0; code < 256; code++) {
        double mine = ref_ue8m0((uint8_t)code), other = (double)trp__ue8m0_to_f32((uint8_t)code);
        assert_true(isnan(mine) ? isnan(other) : mine == other);
    }
}

/* Random values of all magnitudes, and the halfway points with their neighbours. */
static void rounding(void **state)
{
    (void)state;
    ref_rng rng;
    ref_rng_init(&rng, ref_seed());
    for (int t = 0; t < TYPES; t++) {
        uint32_t codes = 1u << (trp_dtype_bits(types[t]) - 1);
        for (int i = 0; i < 30000; i++) {
            uint32_t code = (uint32_t)ref_rng_below(&rng, codes - 1);
            double low = ref_element_decode(types[t], code);
            double high = ref_element_decode(types[t], code + 1);
            float value = (float)(i % 3 == 0 ? low + (high - low) / 2
                                             : low + (high - low) * ref_rng_uniform(&rng, 0, 1));
            if (!isfinite(value))
                continue;
            if (i % 3 == 0 && i % 2)
                value = nextafterf(value, i % 4 == 1 ? 0 : INFINITY);
            if (i % 5 == 0)
                value = -value;
            uint32_t mine = ref_element_encode(types[t], (double)value);
            uint32_t other = narrowed(types[t], value);
            if (mine != other)
                fail_msg("%s of %a: %#x and %#x", trp_dtype_name(types[t]), (double)value, mine,
                         other);
        }
        assert_int_equal(ref_element_encode(types[t], 1e30), narrowed(types[t], 1e30f));
        assert_int_equal(ref_element_encode(types[t], (double)INFINITY),
                         narrowed(types[t], INFINITY));
    }
}

static void in_arrays(void **state)
{
    (void)state;
    uint8_t bytes[4] = {0xff, 0xff, 0xff, 0xff};
    ref_element_store(TRP_F4E2M1, bytes, 1, 0.5);
    ref_element_store(TRP_F4E2M1, bytes, 2, -2);
    assert_int_equal(bytes[0], 0x1f);
    assert_int_equal(bytes[1], 0xfc);
    assert_true(creal(ref_element_load(TRP_F4E2M1, bytes, 2)) == -2);
    ref_element_store(TRP_I8, bytes, 3, -200);
    assert_int_equal(bytes[3], 0x80);
    ref_element_store(TRP_I8, bytes, 2, 2.5);
    assert_int_equal(bytes[2], 2);
    ref_element_store(TRP_I4, bytes, 0, -8);
    ref_element_store(TRP_I4, bytes, 1, 9);
    ref_element_store(TRP_I4, bytes, 2, -1);
    assert_int_equal(bytes[0], 0x78);
    assert_int_equal(bytes[1], 0xff);
    for (int64_t i = 0; i < 3; i++)
        assert_true(creal(ref_element_load(TRP_I4, bytes, i)) == (i == 0 ? -8 : i == 1 ? 7 : -1));
}

UNIT_MAIN(UNIT(known_values), UNIT(all_codes), UNIT(rounding), UNIT(in_arrays))

/*
 * trp_convert(). What a code of each small type means is computed by definition with ldexp; a
 * rounded result is compared with a search of all codes for the nearest one.
 */
#include "support/unit.h"

#include <math.h>

#include "support/reference/reference.h"
#include "support/label.h"

#include <troupe/convert.h>

TROUPE_TEST("no tsan");

/* Floating types that a search of all codes is possible for. */
typedef struct format {
    trp_dtype type;
    int exponent_bits, fraction_bits;
    bool saturates;
    unsigned largest; /* the bits of the largest finite value */
} format;

static const format formats[] = {
    {TRP_F16, 5, 10, false, 0x7bff}, {TRP_BF16, 8, 7, false, 0x7f7f},
    {TRP_F8E4M3, 4, 3, true, 0x7e},  {TRP_F8E5M2, 5, 2, true, 0x7b},
    {TRP_F4E2M1, 2, 1, true, 0x7},
};
enum { FORMATS = sizeof formats / sizeof *formats, MANY = 2001 };

static const trp_dtype reals[] = {TRP_F64,    TRP_F32,    TRP_F16, TRP_BF16, TRP_F8E4M3,
                                  TRP_F8E5M2, TRP_F4E2M1, TRP_I8,  TRP_I32,  TRP_I4};
enum { REALS = sizeof reals / sizeof *reals };

static ref_rng rng;

static double meaning(const format *f, unsigned bits)
{
    int bias = (1 << (f->exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> f->fraction_bits);
    double fraction = ldexp((int)(bits % (1u << f->fraction_bits)), -f->fraction_bits);
    return exponent == 0 ? ldexp(fraction, 1 - bias) : ldexp(1 + fraction, exponent - bias);
}

/* By bisection, for the values of codes rise; the step behind the largest is where infinity begins.
 */
static double nearest(const format *f, double x)
{
    unsigned below = 0, above = f->largest + 1;
    double size = fabs(x);
    while (above - below > 1) {
        unsigned middle = (below + above) / 2;
        *(meaning(f, middle) <= size ? &below : &above) = middle;
    }
    double left = size - meaning(f, below), right = meaning(f, above) - size;
    unsigned bits = left < right || (left == right && below % 2 == 0) ? below : above;
    double value = bits <= f->largest ? meaning(f, bits)
                   : f->saturates     ? meaning(f, f->largest)
                                      : (double)INFINITY;
    return copysign(value, x);
}

static void convert(trp_dtype from, const void *source, trp_dtype to, void *target, size_t count)
{
    assert_int_equal(trp_convert(from, source, to, target, count), TRP_OK);
}

/* Values of all sizes, and of those that lie between two codes, at the halfway points too. */
static double any_value(const format *f, size_t i)
{
    unsigned code = (unsigned)ref_rng_below(&rng, f->largest);
    double low = meaning(f, code), high = meaning(f, code + 1);
    double sign = ref_rng_below(&rng, 2) ? 1 : -1;
    switch (i % 5) {
    case 0:
        return sign * (low + high) / 2;
    case 1:
        return sign * nextafter((low + high) / 2, i % 2 ? INFINITY : 0);
    case 2:
        return sign * ref_rng_uniform(&rng, low, high);
    case 3:
        return sign * ldexp(ref_rng_uniform(&rng, 1, 2), (int)ref_rng_below(&rng, 300) - 150);
    default:
        return sign * low;
    }
}

static void narrowing_rounds_once(void **state)
{
    (void)state;
    double from[MANY], back[MANY];
    uint16_t narrow[MANY];
    for (size_t t = 0; t < FORMATS; t++) {
        const format *f = &formats[t];
        for (size_t i = 0; i < MANY; i++)
            from[i] = any_value(f, i);
        convert(TRP_F64, from, f->type, narrow, MANY);
        convert(f->type, narrow, TRP_F64, back, MANY);
        for (size_t i = 0; i < MANY; i++) {
            double expected = nearest(f, from[i]);
            if (!(back[i] == expected) || signbit(back[i]) != signbit(expected))
                fail_msg("%a to %s: %a, expected %a", from[i], trp_dtype_name(f->type), back[i],
                         expected);
        }
        float from32[MANY];
        convert(TRP_F64, from, TRP_F32, from32, MANY);
        convert(TRP_F32, from32, f->type, narrow, MANY);
        convert(f->type, narrow, TRP_F64, back, MANY);
        for (size_t i = 0; i < MANY; i++)
            assert_true(back[i] == nearest(f, (double)from32[i]));
    }
}

static void f64_to_f32_is_the_compilers(void **state)
{
    (void)state;
    double from[MANY];
    float to[MANY];
    for (size_t i = 0; i < MANY; i++)
        from[i] = any_value(&formats[0], i);
    convert(TRP_F64, from, TRP_F32, to, MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_true(to[i] == (float)from[i]);
}

static void integers_saturate(void **state)
{
    (void)state;
    const double from[] = {0,    0.5, 1.5,   -0.5,     -1.5, 126.5, 127.5, -128.5,
                           -129, 1e9, -1e99, INFINITY, NAN,  2.5,   3e9,   -3e9};
    const int8_t i8[] = {0, 0, 2, 0, -2, 126, 127, -128, -128, 127, -128, 127, 0, 2, 127, -128};
    const int32_t i32[] = {0,    0,          2,         0,         -2, 126, 128,       -128,
                           -129, 1000000000, INT32_MIN, INT32_MAX, 0,  2,   INT32_MAX, INT32_MIN};
    enum { COUNT = sizeof from / sizeof *from };
    float from32[COUNT];
    int8_t to8[COUNT];
    int32_t to32[COUNT];
    convert(TRP_F64, from, TRP_I8, to8, COUNT);
    convert(TRP_F64, from, TRP_I32, to32, COUNT);
    assert_memory_equal(to8, i8, sizeof i8);
    assert_memory_equal(to32, i32, sizeof i32);
    convert(TRP_F64, from, TRP_F32, from32, COUNT);
    convert(TRP_F32, from32, TRP_I8, to8, COUNT);
    assert_memory_equal(to8, i8, sizeof i8);
    convert(TRP_I32, i32, TRP_I8, to8, COUNT);
    assert_int_equal(to8[8], -128);
    assert_int_equal(to8[9], 127);
    /* What f32 can't hold is rounded once on its way from i32. */
    int32_t large = 16777217, odd = (1 << 24) + (1 << 13) + 1;
    float f32;
    uint16_t f16;
    double f64;
    convert(TRP_I32, &large, TRP_F32, &f32, 1);
    assert_true(f32 == 16777216.0f);
    convert(TRP_I32, &odd, TRP_BF16, &f16, 1);
    convert(TRP_BF16, &f16, TRP_F64, &f64, 1);
    assert_true(f64 == 16777216.0);
}

static void what_is_not_finite(void **state)
{
    (void)state;
    const float from[] = {NAN, INFINITY, -INFINITY};
    for (size_t t = 0; t < REALS; t++) {
        char narrow[64];
        double back[3];
        convert(TRP_F32, from, reals[t], narrow, 3);
        convert(reals[t], narrow, TRP_F64, back, 3);
        bool infinite = reals[t] <= TRP_BF16;
        bool has_nan = reals[t] <= TRP_F8E5M2;
        assert_true(has_nan ? isnan(back[0]) : back[0] == (reals[t] == TRP_F4E2M1 ? 6 : 0));
        assert_true(infinite ? isinf(back[1]) && back[1] > 0 : isfinite(back[1]) && back[1] > 5);
        assert_true(infinite ? isinf(back[2]) && back[2] < 0 : isfinite(back[2]) && back[2] < -5);
    }
}

/* The first of two in the low half of a byte, as two's complement; what comes back is the nearest
 * integer that there is. */
static void fours(void **state)
{
    (void)state;
    static const double from[] = {1, -1, -8, 7, 0, 2.5, 3.5, -0.5, 1e30, -1e30, 7.49, 7.5, -8.6};
    static const double expected[] = {1, -1, -8, 7, 0, 2, 4, 0, 7, -8, 7, 7, -8};
    static const unsigned char bytes[] = {0xf1, 0x78, 0x20, 0x04, 0x87, 0x77, 0x08};
    enum { COUNT = sizeof from / sizeof *from };
    unsigned char codes[sizeof bytes], of_f32[sizeof bytes];
    double back[COUNT];
    float narrow[COUNT], f32[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        narrow[i] = (float)from[i];
    convert(TRP_F64, from, TRP_I4, codes, COUNT);
    convert(TRP_F32, narrow, TRP_I4, of_f32, COUNT);
    assert_memory_equal(codes, bytes, sizeof bytes);
    assert_memory_equal(of_f32, bytes, sizeof bytes);
    convert(TRP_I4, codes, TRP_F64, back, COUNT);
    convert(TRP_I4, codes, TRP_F32, f32, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(back[i] == expected[i] && (double)f32[i] == expected[i]);
}

/* Each type to each, in all lengths around a block: small integers survive, and no more is written
 * than asked for. */
static void all_pairs_and_lengths(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 31, 255, 256, 257, 513};
    for (size_t pair = 0; pair < REALS * REALS; pair++) {
        trp_dtype a = reals[pair / REALS], b = reals[pair % REALS];
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            size_t n = counts[c], bytes = (n * trp_dtype_bits(b) + 7) / 8;
            double first[513], last[513];
            double from[513];
            unsigned char to[513 * 8 + 1];
            for (size_t i = 0; i < n; i++)
                first[i] = (double)ref_rng_below(&rng, 9) - 4;
            memset(to, 0xa5, sizeof to);
            convert(TRP_F64, first, a, from, n);
            convert(a, from, b, to, n);
            for (size_t i = bytes; i < sizeof to; i++)
                assert_int_equal(to[i], 0xa5);
            if (trp_dtype_bits(b) == 4 && n % 2 != 0)
                assert_int_equal(to[bytes - 1] >> 4, 0);
            convert(b, to, TRP_F64, last, n);
            assert_memory_equal(first, last, n * sizeof *first);
        }
    }
}

/* f8e8m0: the smallest power of two that is not below. */
static void powers_of_two(void **state)
{
    static const double odd[] = {0, -0.0, 0x1p-127, 0x1p-1074, 0x1p200, -3, 0x1.8p-127, 0x1p127};
    static const uint8_t codes[] = {0, 0, 0, 0, 254, 129, 1, 254};
    static const double not_finite[] = {NAN, INFINITY, -INFINITY};
    double from[MANY], back[MANY];
    float from32[MANY];
    uint8_t narrow[MANY];
    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        const double power = ldexp(1, (int)ref_rng_below(&rng, 253) - 126);
        from[i] = power * (i % 3 == 0   ? 1
                           : i % 3 == 1 ? 1 - ref_rng_uniform(&rng, 0, 0.49)
                                        : nextafter(0.5, 1));
        back[i] = power;
    }
    convert(TRP_F64, from, TRP_F8E8M0, narrow, MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_true(ldexp(1, narrow[i] - 127) == back[i]);
    convert(TRP_F64, from, TRP_F32, from32, MANY);
    convert(TRP_F32, from32, TRP_F8E8M0, narrow, MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_true(ldexp(1, narrow[i] - 127) == back[i] || (double)from32[i] < from[i]);
    convert(TRP_F8E8M0, narrow, TRP_F64, back, MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_true(ldexp(1, narrow[i] - 127) == back[i]);
    convert(TRP_F64, odd, TRP_F8E8M0, narrow, 8);
    assert_memory_equal(narrow, codes, sizeof codes);
    convert(TRP_F64, not_finite, TRP_F8E8M0, narrow, 3);
    assert_true(narrow[0] == 255 && narrow[1] == 254 && narrow[2] == 254);
    convert(TRP_F8E8M0, narrow, TRP_F16, from32, 2);
    convert(TRP_F16, from32, TRP_F64, back, 2);
    assert_true(isnan(back[0]) && isinf(back[1]));
}

static void complex_parts(void **state)
{
    (void)state;
    const double from[] = {1, -2, 0x1.00000001p0, 1e300, 5, -6};
    float narrow[6];
    double back[6];
    convert(TRP_C128, from, TRP_C64, narrow, 3);
    for (size_t i = 0; i < 6; i++)
        assert_true(narrow[i] == (float)from[i]);
    convert(TRP_C64, narrow, TRP_C128, back, 3);
    for (size_t i = 0; i < 6; i++)
        assert_true(back[i] == (double)narrow[i]);
}

static void refusals(void **state)
{
    (void)state;
    double x[2] = {1, 2}, y[2] = {3, 4};
    const trp_dtype pairs[][2] = {
        {TRP_DTYPE_NONE, TRP_F64}, {TRP_F64, TRP_DTYPE_NONE}, {TRP_F64, TRP_C128},
        {TRP_C128, TRP_F64},       {TRP_I64, TRP_F64},        {TRP_F64, TRP_U8},
        {TRP_F64, TRP_BOOL},       {(trp_dtype)99, TRP_F64},  {TRP_F64, (trp_dtype)-1},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_int_equal(trp_convert(pairs[i][0], x, pairs[i][1], y, 1), TRP_E_ARGUMENT);
    assert_int_equal(trp_convert(TRP_F64, NULL, TRP_F64, y, 1), TRP_E_ARGUMENT);
    assert_string_equal(trp_error_message(), "source: expected an array, got NULL");
    assert_int_equal(trp_convert(TRP_F64, x, TRP_F64, NULL, 1), TRP_E_ARGUMENT);
    assert_true(y[0] == 3);
    assert_int_equal(trp_convert(TRP_F64, NULL, TRP_F32, NULL, 0), TRP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(narrowing_rounds_once),
        UNIT(f64_to_f32_is_the_compilers),
        UNIT(integers_saturate),
        UNIT(what_is_not_finite),
        UNIT(all_pairs_and_lengths),
        UNIT(powers_of_two),
        UNIT(fours),
        UNIT(complex_parts),
        UNIT(refusals),
    };
    ref_rng_init(&rng, ref_seed());
    return cmocka_run_group_tests(tests, NULL, NULL);
}

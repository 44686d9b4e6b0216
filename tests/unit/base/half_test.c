/*
 * Conversions to and from the 16-bit formats. Narrowing is checked against a search in the table of
 * all values of the format, built with ldexp: no bit trick of the code under test is repeated here.
 */
#include "support/unit.h"

#include <math.h>
#include <stdbool.h>

#include "base/numbers/half.h"
#include "support/reference/reference.h"
#include "support/label.h"

TROUPE_TEST("computes", "no tsan");

typedef struct format {
    const char *name;
    int fraction_bits, bias;
    unsigned infinity;    /* bits of +infinity: also the count of finite non-negative values */
    double value[0x7f81]; /* of the bits 0 .. infinity; the last is where infinity's value would be,
                             2^emax */
    uint16_t (*from_f32)(float);
    uint16_t (*from_f64)(double);
    float (*to_f32)(uint16_t);
} format;

static format f16 = {"f16", 10, 15, 0x7c00, {0}, trp__f32_to_f16, trp__f64_to_f16, trp__f16_to_f32};
static format bf16 = {"bf16",          7, 127, 0x7f80, {0}, trp__f32_to_bf16, trp__f64_to_bf16,
                      trp__bf16_to_f32};
static format *const formats[] = {&f16, &bf16};

static uint64_t seed;

static void build_table(format *f)
{
    for (unsigned bits = 0; bits <= f->infinity; bits++) {
        const int exponent = (int)(bits >> f->fraction_bits);
        const int fraction = (int)(bits & ((1u << f->fraction_bits) - 1u));
        const int significand = exponent == 0 ? fraction : fraction + (1 << f->fraction_bits);
        f->value[bits] =
            ldexp(significand, (exponent == 0 ? 1 : exponent) - f->bias - f->fraction_bits);
    }
}

/* IEEE 754 rounds as if the exponent had no upper bound and calls what reaches 2^emax infinite: so
 * infinity takes part in the search as that value. */
static uint16_t slow_narrow(const format *f, double x)
{
    const unsigned sign = signbit(x) ? 0x8000u : 0u;
    const double a = fabs(x);
    if (a >= f->value[f->infinity]) {
        return (uint16_t)(sign | f->infinity);
    }
    unsigned below = 0, above = f->infinity;
    while (above - below > 1) {
        const unsigned middle = (below + above) / 2;
        if (f->value[middle] <= a) {
            below = middle;
        } else {
            above = middle;
        }
    }
    /* Both differences are exact wherever they are close to each other (Sterbenz), so the
     * comparison is right. */
    const double low = a - f->value[below], high = f->value[above] - a;
    unsigned nearest = below;
    if (high < low || (high == low && below % 2 == 1)) {
        nearest = above;
    }
    return (uint16_t)(sign | nearest);
}

static void check_f64(const format *f, double x)
{
    const uint16_t expected = slow_narrow(f, x), actual = f->from_f64(x);
    if (expected != actual) {
        fail_msg("f64 %a to %s: %#x, expected %#x", x, f->name, actual, expected);
    }
}

static void check_f32(const format *f, float x)
{
    const uint16_t expected = slow_narrow(f, (double)x), actual = f->from_f32(x);
    if (expected != actual) {
        fail_msg("f32 %a to %s: %#x, expected %#x", (double)x, f->name, actual, expected);
    }
    check_f64(f, (double)x);
}

static void widening_gives_each_value(void **state)
{
    (void)state;
    for (size_t which = 0; which < 2; which++) {
        const format *f = formats[which];
        for (unsigned bits = 0; bits < f->infinity; bits++) {
            const float positive = f->to_f32((uint16_t)bits);
            const float negative = f->to_f32((uint16_t)(bits | 0x8000u));
            assert_true((double)positive == f->value[bits] && !signbit(positive));
            assert_true((double)negative == -f->value[bits] && signbit(negative));
        }
        assert_true(f->to_f32((uint16_t)f->infinity) == INFINITY);
        assert_true(f->to_f32((uint16_t)(f->infinity | 0x8000u)) == -INFINITY);
    }
}

static void round_trip_keeps_all_65536(void **state)
{
    (void)state;
    for (size_t which = 0; which < 2; which++) {
        const format *f = formats[which];
        for (unsigned bits = 0; bits <= 0xffffu; bits++) {
            const float wide = f->to_f32((uint16_t)bits);
            const bool nan = (bits & 0x7fffu) > f->infinity;
            const unsigned expected = nan ? bits | (1u << (f->fraction_bits - 1)) : bits;
            assert_int_equal(nan, isnan(wide) != 0);
            assert_int_equal(f->from_f32(wide), expected);
            if (nan) {
                assert_true((trp__f32_bits(wide) & 0x400000u) != 0);
                assert_int_equal(trp__f32_bits(wide) >> 31, bits >> 15);
            } else {
                assert_int_equal(f->from_f64((double)wide), expected);
            }
        }
    }
}

/* Both sides of each value and of each halfway point, for either sign, in both wide formats. */
static void narrowing_at_every_boundary(void **state)
{
    (void)state;
    for (size_t which = 0; which < 2; which++) {
        const format *f = formats[which];
        for (unsigned bits = 0; bits < f->infinity; bits++) {
            const double value = f->value[bits];
            const double points[] = {value, value + (f->value[bits + 1] - value) / 2};
            for (size_t p = 0; p < 2; p++) {
                for (int sign = -1; sign <= 1; sign += 2) {
                    const double x = sign * points[p];
                    const float narrow = (float)x;
                    assert_true((double)narrow == x);
                    check_f64(f, x);
                    check_f64(f, nextafter(x, INFINITY));
                    check_f64(f, nextafter(x, -INFINITY));
                    check_f32(f, narrow);
                    check_f32(f, nextafterf(narrow, INFINITY));
                    check_f32(f, nextafterf(narrow, -INFINITY));
                }
            }
        }
    }
}

static void narrowing_at_the_extremes(void **state)
{
    (void)state;
    const double wide[] = {0.0,
                           0x1p-149,
                           0x1p-126,
                           0x1p-1074,
                           0x1p-1022,
                           0x1p-1023,
                           0x1p127,
                           0x1p1023,
                           INFINITY,
                           0x1.fffffep127,
                           0x1.fffffffffffffp1023};
    for (size_t which = 0; which < 2; which++) {
        for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
            check_f64(formats[which], wide[i]);
            check_f64(formats[which], -wide[i]);
            if (isinf(wide[i]) || wide[i] <= 0x1.fffffep127) {
                check_f32(formats[which], (float)wide[i]);
                check_f32(formats[which], -(float)wide[i]);
            }
        }
    }
    /* Known by heart, so that the table and the code can't be wrong together. */
    assert_int_equal(trp__f32_to_f16(1.0f), 0x3c00);
    assert_int_equal(trp__f32_to_f16(-2.0f), 0xc000);
    assert_int_equal(trp__f32_to_f16(65504.0f), 0x7bff);
    assert_int_equal(trp__f32_to_f16(65519.0f), 0x7bff);
    assert_int_equal(trp__f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(trp__f32_to_f16(0x1p-24f), 0x0001);
    assert_int_equal(trp__f32_to_f16(0x1p-25f), 0x0000);
    assert_int_equal(trp__f32_to_f16(-0.0f), 0x8000);
    assert_int_equal(trp__f32_to_bf16(1.0f), 0x3f80);
    assert_int_equal(trp__f32_to_bf16(-2.0f), 0xc000);
    assert_int_equal(trp__f32_to_bf16(0x1.ff8p127f), 0x7f80);
    assert_int_equal(trp__f32_to_bf16(0x1.01p0f), 0x3f80);
    assert_int_equal(trp__f32_to_bf16(0x1.03p0f), 0x3f82);
}

/* Just above a halfway point by less than a float32 can tell: through float32 the answer would be
 * one too low. */
static void f64_is_rounded_once(void **state)
{
    (void)state;
    const double above_f16 = 1.0 + 0x1p-11 + 0x1p-40, above_bf16 = 1.0 + 0x1p-8 + 0x1p-40;
    assert_int_equal(trp__f32_to_f16((float)above_f16), 0x3c00);
    assert_int_equal(trp__f64_to_f16(above_f16), 0x3c01);
    assert_int_equal(trp__f32_to_bf16((float)above_bf16), 0x3f80);
    assert_int_equal(trp__f64_to_bf16(above_bf16), 0x3f81);
}

static void nan_stays_nan(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 23; bit++) {
        for (uint32_t sign = 0; sign <= 1; sign++) {
            const uint32_t bits = (sign << 31) | 0x7f800000u | (1u << bit);
            const float x = trp__f32_from_bits(bits);
            const unsigned high = (unsigned)sign << 15;
            const unsigned keep_f16 = bit >= 13 ? 1u << (bit - 13) : 0u;
            const unsigned keep_bf16 = bit >= 16 ? 1u << (bit - 16) : 0u;
            assert_int_equal(trp__f32_to_f16(x), high | 0x7e00u | keep_f16);
            assert_int_equal(trp__f32_to_bf16(x), high | 0x7fc0u | keep_bf16);
        }
    }
    for (unsigned bit = 0; bit < 52; bit++) {
        for (uint64_t sign = 0; sign <= 1; sign++) {
            const uint64_t bits =
                (sign << 63) | UINT64_C(0x7ff0000000000000) | (UINT64_C(1) << bit);
            double x;
            memcpy(&x, &bits, sizeof x);
            const unsigned high = (unsigned)sign << 15;
            const unsigned keep_f16 = bit >= 42 ? 1u << (bit - 42) : 0u;
            const unsigned keep_bf16 = bit >= 45 ? 1u << (bit - 45) : 0u;
            assert_int_equal(trp__f64_to_f16(x), high | 0x7e00u | keep_f16);
            assert_int_equal(trp__f64_to_bf16(x), high | 0x7fc0u | keep_bf16);
        }
    }
}

static void narrowing_of_random_values(void **state)
{
    (void)state;
    ref_rng rng;
    ref_rng_init(&rng, seed);
    for (int i = 0; i < 1000000; i++) {
        const uint64_t bits = ref_rng_next(&rng);
        const float any = trp__f32_from_bits((uint32_t)bits);
        /* A random float32 is rarely in the range of a half: aim a second one there, over its
         * subnormals too. */
        const double near = ldexp(1.0 + (double)(bits >> 12) * 0x1p-52, (int)(bits % 44) - 27);
        for (size_t which = 0; which < 2; which++) {
            if (!isnan(any)) {
                check_f32(formats[which], any);
            }
            check_f64(formats[which], near);
            check_f32(formats[which], (float)-near);
        }
    }
}

typedef void narrow_array(const float *, uint16_t *, size_t);
typedef void widen_array(const uint16_t *, float *, size_t);

static narrow_array *const narrow_arrays[][2] = {
    {trp__f32_to_f16_array, trp__f32_to_f16_array_portable},
    {trp__f32_to_bf16_array, trp__f32_to_bf16_array_portable},
};
static widen_array *const widen_arrays[][2] = {
    {trp__f16_to_f32_array, trp__f16_to_f32_array_portable},
    {trp__bf16_to_f32_array, trp__bf16_to_f32_array_portable},
};

static void arrays_of_every_length_and_alignment(void **state)
{
    (void)state;
    enum { LENGTH = 100, SLACK = 8 };
    float wide[LENGTH + SLACK];
    uint16_t narrow[LENGTH + SLACK];
    ref_rng rng;
    ref_rng_init(&rng, seed);
    for (size_t count = 0; count <= LENGTH; count++) {
        for (size_t which = 0; which < 4; which++) {
            const format *f = formats[which / 2];
            const size_t from = ref_rng_below(&rng, SLACK), to = ref_rng_below(&rng, SLACK);

            for (size_t i = 0; i < LENGTH + SLACK; i++) {
                wide[i] = (float)ref_rng_uniform(&rng, -70000.0, 70000.0);
                narrow[i] = 0xa5a5;
            }
            narrow_arrays[which / 2][which % 2](wide + from, narrow + to, count);
            for (size_t i = 0; i < LENGTH + SLACK; i++) {
                const bool inside = i >= to && i < to + count;
                assert_int_equal(narrow[i], inside ? f->from_f32(wide[i - to + from]) : 0xa5a5);
            }

            for (size_t i = 0; i < LENGTH + SLACK; i++) {
                narrow[i] = (uint16_t)ref_rng_next(&rng);
                wide[i] = 12345.0f;
            }
            widen_arrays[which / 2][which % 2](narrow + from, wide + to, count);
            for (size_t i = 0; i < LENGTH + SLACK; i++) {
                const bool inside = i >= to && i < to + count;
                const float expected = inside ? f->to_f32(narrow[i - to + from]) : 12345.0f;
                assert_int_equal(trp__f32_bits(wide[i]), trp__f32_bits(expected));
            }
        }
    }
}

/* The vector instructions must give the scalar's bits everywhere, NaN included: all halves, and
 * floats on a stride through all 2^32 patterns (odd, so that the low bits vary) with each halfway
 * point's neighbourhood covered above. */
static void arrays_agree_with_scalars(void **state)
{
    (void)state;
    enum { COUNT = 65536 };
    uint16_t *narrow = malloc(COUNT * sizeof *narrow);
    float *wide = malloc(COUNT * sizeof *wide);
    assert_non_null(narrow);
    assert_non_null(wide);
    for (size_t which = 0; which < 4; which++) {
        const format *f = formats[which / 2];
        for (size_t i = 0; i < COUNT; i++) {
            narrow[i] = (uint16_t)i;
        }
        widen_arrays[which / 2][which % 2](narrow, wide, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            assert_int_equal(trp__f32_bits(wide[i]), trp__f32_bits(f->to_f32((uint16_t)i)));
        }

        ref_rng rng;
        ref_rng_init(&rng, seed);
        uint32_t bits = (uint32_t)ref_rng_next(&rng);
        for (size_t round = 0; round < 64; round++) {
            for (size_t i = 0; i < COUNT; i++, bits += 1023u) {
                memcpy(&wide[i], &bits, sizeof bits);
            }
            narrow_arrays[which / 2][which % 2](wide, narrow, COUNT);
            for (size_t i = 0; i < COUNT; i++) {
                if (narrow[i] != f->from_f32(wide[i])) {
                    fail_msg("%s of f32 bits %#x: %#x in an array, %#x alone", f->name,
                             trp__f32_bits(wide[i]), narrow[i], f->from_f32(wide[i]));
                }
            }
        }
    }
    free(narrow);
    free(wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(widening_gives_each_value),   UNIT(round_trip_keeps_all_65536),
        UNIT(narrowing_at_every_boundary), UNIT(narrowing_at_the_extremes),
        UNIT(f64_is_rounded_once),         UNIT(nan_stays_nan),
        UNIT(narrowing_of_random_values),  UNIT(arrays_of_every_length_and_alignment),
        UNIT(arrays_agree_with_scalars),
    };
    seed = ref_seed();
    build_table(&f16);
    build_table(&bf16);
    return cmocka_run_group_tests_name("half", tests, NULL, NULL);
}

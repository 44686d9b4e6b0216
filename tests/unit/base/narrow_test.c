/*
 * Conversions to and from the formats of 8 and 4 bits. What a code means is computed by definition
 * with ldexp; narrowing is compared with a search of all codes for the nearest: no bit trick of the
 * code under test is repeated here.
 */
#include "support/unit.h"

#include <math.h>
#include <stdbool.h>

#include "base/numbers/narrow.h"
#include "support/reference/reference.h"
#include "support/label.h"

TROUPE_TEST("computes", "no tsan");

typedef struct format {
    const char *name;
    int exponent_bits, fraction_bits, bias;
    unsigned largest; /* the bits of the largest finite value; all up to it are finite */
    unsigned nan;     /* what a NaN becomes */
    uint8_t (*from_f32)(float);
    float (*to_f32)(uint8_t);
} format;

static const format formats[] = {
    {"f8e4m3", 4, 3, 7, 0x7e, 0x7f, trp__f32_to_f8e4m3, trp__f8e4m3_to_f32},
    {"f8e5m2", 5, 2, 15, 0x7b, 0x7f, trp__f32_to_f8e5m2, trp__f8e5m2_to_f32},
    {"f4e2m1", 2, 1, 1, 0x7, 0x7, trp__f32_to_f4e2m1, trp__f4e2m1_to_f32},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static uint64_t seed;

static unsigned sign_bit(const format *f)
{
    return 1u << (f->exponent_bits + f->fraction_bits);
}

/* Of the bits of a finite value without the sign. */
static double meaning(const format *f, unsigned bits)
{
    const int exponent = (int)(bits >> f->fraction_bits);
    const int fraction = (int)(bits % (1u << f->fraction_bits));
    const double significand = ldexp(fraction, -f->fraction_bits);
    return exponent == 0 ? ldexp(significand, 1 - f->bias)
                         : ldexp(1.0 + significand, exponent - f->bias);
}

static unsigned slow_narrow(const format *f, double x)
{
    if (isnan(x))
        return f->nan;
    const double a = fabs(x);
    unsigned best = f->largest;
    if (a < meaning(f, f->largest)) {
        best = 0;
        for (unsigned bits = 1; bits <= f->largest; bits++) {
            /* Exact wherever the two are close to each other (Sterbenz). */
            const double now = fabs(meaning(f, bits) - a), before = fabs(meaning(f, best) - a);
            if (now < before || (now == before && bits % 2 == 0))
                best = bits;
        }
    }
    return best | (signbit(x) ? sign_bit(f) : 0u);
}

static void check_f32(const format *f, float x)
{
    const unsigned expected = slow_narrow(f, (double)x), actual = f->from_f32(x);
    if (expected != actual)
        fail_msg("%a to %s: %#x, expected %#x", (double)x, f->name, actual, expected);
}

static void check_f64(const format *f, double x)
{
    const unsigned expected = slow_narrow(f, x), actual = f->from_f32(trp__f64_to_f32_odd(x));
    if (expected != actual)
        fail_msg("f64 %a to %s: %#x, expected %#x", x, f->name, actual, expected);
}

static bool is_quiet(float value)
{
    return trp__f32_bits(value) == 0x7fc00000u;
}

static void every_code_means_what_is_defined(void **state)
{
    (void)state;
    for (size_t which = 0; which < FORMATS; which++) {
        const format *f = &formats[which];
        for (unsigned bits = 0; bits < sign_bit(f); bits++) {
            const float positive = f->to_f32((uint8_t)bits);
            const float negative = f->to_f32((uint8_t)(bits | sign_bit(f)));
            if (bits <= f->largest) {
                assert_true((double)positive == meaning(f, bits) && !signbit(positive));
                assert_true((double)negative == -meaning(f, bits) && signbit(negative));
                assert_int_equal(f->from_f32(positive), bits);
                assert_int_equal(f->from_f32(negative), bits | sign_bit(f));
            } else if (f->fraction_bits == 2 && bits == 0x7c) {
                assert_true(positive == INFINITY && negative == -INFINITY);
            } else {
                assert_true(is_quiet(positive) && is_quiet(negative));
            }
        }
    }
}

/* Known by heart, so that the table and the code can't be wrong together. */
static void known_codes(void **state)
{
    (void)state;
    assert_int_equal(trp__f32_to_f8e4m3(1.0f), 0x38);
    assert_int_equal(trp__f32_to_f8e4m3(-448.0f), 0xfe);
    assert_int_equal(trp__f32_to_f8e4m3(1e9f), 0x7e);
    assert_int_equal(trp__f32_to_f8e4m3(-INFINITY), 0xfe);
    assert_int_equal(trp__f32_to_f8e4m3(NAN), 0x7f);
    assert_int_equal(trp__f32_to_f8e4m3(0x1p-9f), 0x01);
    assert_int_equal(trp__f32_to_f8e4m3(0x1p-10f), 0x00);
    assert_int_equal(trp__f32_to_f8e5m2(1.0f), 0x3c);
    assert_int_equal(trp__f32_to_f8e5m2(57344.0f), 0x7b);
    assert_int_equal(trp__f32_to_f8e5m2(INFINITY), 0x7b);
    assert_int_equal(trp__f32_to_f8e5m2(0x1p-16f), 0x01);
    assert_true(trp__f8e5m2_to_f32(0xfc) == -INFINITY);
    const float fp4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (unsigned bits = 0; bits < 8; bits++)
        assert_true(trp__f4e2m1_to_f32((uint8_t)bits) == fp4[bits]);
    assert_int_equal(trp__f32_to_f4e2m1(2.5f), 0x4);
    assert_int_equal(trp__f32_to_f4e2m1(3.5f), 0x6);
    assert_int_equal(trp__f32_to_f4e2m1(-5.0f), 0xe);
    assert_int_equal(trp__f32_to_f4e2m1(-0.25f), 0x8);
    assert_int_equal(trp__f32_to_f4e2m1(-NAN), 0x7);
    assert_true(TRP__F8E4M3_MAX == trp__f8e4m3_to_f32(0x7e));
    assert_true(TRP__F8E5M2_MAX == trp__f8e5m2_to_f32(0x7b));
    assert_true(TRP__F4E2M1_MAX == trp__f4e2m1_to_f32(0x7));
}

/* Both sides of each value and of each halfway point; the one above the largest included, which
 * lies where the next value would be if the format went on. */
static void narrowing_at_every_boundary(void **state)
{
    (void)state;
    for (size_t which = 0; which < FORMATS; which++) {
        const format *f = &formats[which];
        for (unsigned bits = 0; bits <= f->largest; bits++) {
            const double value = meaning(f, bits);
            const double points[] = {value, value + (meaning(f, bits + 1) - value) / 2,
                                     meaning(f, bits + 1)};
            for (size_t p = 0; p < 3; p++) {
                for (int sign = -1; sign <= 1; sign += 2) {
                    const double x = sign * points[p];
                    const float narrow = (float)x;
                    assert_true((double)narrow == x);
                    check_f32(f, narrow);
                    check_f32(f, nextafterf(narrow, INFINITY));
                    check_f32(f, nextafterf(narrow, -INFINITY));
                    check_f64(f, x);
                    check_f64(f, nextafter(x, INFINITY));
                    check_f64(f, nextafter(x, -INFINITY));
                }
            }
        }
    }
}

/* Every exponent of a float32, with every leading part of the fraction, and the fractions next to
 * it: infinities and NaN among them. */
static void narrowing_of_every_exponent(void **state)
{
    (void)state;
    static const uint32_t tails[] = {0, 1, 0x3fff, 0x4000, 0x4001, 0x7fff};
    for (size_t which = 0; which < FORMATS; which++) {
        for (uint32_t high = 0; high <= 0x1ffffu; high++) {
            const float x = trp__f32_from_bits((high << 15) | tails[high % 6]);
            check_f32(&formats[which], x);
            if (high % 16 == 0) {
                for (size_t t = 0; t < 6; t++)
                    check_f32(&formats[which], trp__f32_from_bits((high << 15) | tails[t]));
            }
        }
    }
}

static void narrowing_of_f64_rounds_once(void **state)
{
    (void)state;
    ref_rng rng;
    ref_rng_init(&rng, seed);
    const double special[] = {0.0,       0x1p-1074, 0x1p-1022,  0x1p-127, 0x1p-149, 0x1p-126,
                              0x1p127,   0x1p128,   0x1p1023,   INFINITY, NAN,      0x1.fffffep127,
                              0x1p-1023, 448.0,     0x1.ffp127, 464.0};
    for (size_t which = 0; which < FORMATS; which++) {
        for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
            check_f64(&formats[which], special[i]);
            check_f64(&formats[which], -special[i]);
        }
        for (int i = 0; i < 20000; i++) {
            const uint64_t bits = ref_rng_next(&rng);
            double any;
            memcpy(&any, &bits, sizeof any);
            check_f64(&formats[which], any);
            check_f64(&formats[which],
                      ldexp(1.0 + (double)(bits >> 12) * 0x1p-52, (int)(bits % 36) - 18));
        }
        /* Less above a halfway point than a float32 can tell. */
        check_f64(&formats[which], 1.0 + ldexp(1, -formats[which].fraction_bits - 1) + 0x1p-40);
    }
}

static void scale_factors(void **state)
{
    (void)state;
    const format *f = &formats[0];
    for (unsigned bits = 0; bits < 0x7f; bits++) {
        assert_true((double)trp__ue4m3_to_f32((uint8_t)bits) == meaning(f, bits));
        assert_true((double)trp__ue4m3_to_f32((uint8_t)(bits | 0x80)) == meaning(f, bits));
        assert_int_equal(trp__f32_to_ue4m3((float)meaning(f, bits)), bits);
        assert_int_equal(trp__f32_to_ue4m3((float)-meaning(f, bits)), 0);
    }
    assert_true(is_quiet(trp__ue4m3_to_f32(0x7f)) && is_quiet(trp__ue4m3_to_f32(0xff)));
    assert_int_equal(trp__f32_to_ue4m3(NAN), 0x7f);
    assert_int_equal(trp__f32_to_ue4m3(INFINITY), 0x7e);
    assert_int_equal(trp__f32_to_ue4m3(-INFINITY), 0);

    for (int bits = 0; bits < 255; bits++) {
        const double value = ldexp(1, bits - 127);
        const float narrow = (float)value;
        assert_true((double)trp__ue8m0_to_f32((uint8_t)bits) == value);
        assert_int_equal(trp__f32_to_ue8m0(narrow), bits);
        assert_int_equal(trp__f32_to_ue8m0(-narrow), bits);
        assert_int_equal(trp__f32_to_ue8m0(nextafterf(narrow, 0)), bits);
        assert_int_equal(trp__f32_to_ue8m0(nextafterf(narrow, INFINITY)),
                         bits < 254 ? bits + 1 : 254);
    }
    assert_true(is_quiet(trp__ue8m0_to_f32(0xff)));
    assert_int_equal(trp__f32_to_ue8m0(0.0f), 0);
    assert_int_equal(trp__f32_to_ue8m0(INFINITY), 254);
    assert_int_equal(trp__f32_to_ue8m0(NAN), 255);
}

enum { LENGTH = 100, SLACK = 8 };

/* Of one byte an element. */
static void check_arrays(const format *f, ref_rng *rng, size_t count,
                         void (*narrow_array)(const float *, uint8_t *, size_t),
                         void (*widen_array)(const uint8_t *, float *, size_t))
{
    float wide[LENGTH + SLACK];
    uint8_t narrow[LENGTH + SLACK];
    const size_t from = ref_rng_below(rng, SLACK), to = ref_rng_below(rng, SLACK);
    for (size_t i = 0; i < LENGTH + SLACK; i++) {
        wide[i] = (float)ref_rng_uniform(rng, -700.0, 700.0);
        narrow[i] = 0xa5;
    }
    narrow_array(wide + from, narrow + to, count);
    for (size_t i = 0; i < LENGTH + SLACK; i++) {
        const bool inside = i >= to && i < to + count;
        assert_int_equal(narrow[i], inside ? f->from_f32(wide[i - to + from]) : 0xa5);
    }
    for (size_t i = 0; i < LENGTH + SLACK; i++) {
        narrow[i] = (uint8_t)ref_rng_next(rng);
        wide[i] = 12345.0f;
    }
    widen_array(narrow + from, wide + to, count);
    for (size_t i = 0; i < LENGTH + SLACK; i++) {
        const bool inside = i >= to && i < to + count;
        const float expected = inside ? f->to_f32(narrow[i - to + from]) : 12345.0f;
        assert_int_equal(trp__f32_bits(wide[i]), trp__f32_bits(expected));
    }
}

static void arrays_of_every_length_and_alignment(void **state)
{
    (void)state;
    ref_rng rng;
    ref_rng_init(&rng, seed);
    for (size_t count = 0; count <= LENGTH; count++) {
        check_arrays(&formats[0], &rng, count, trp__f32_to_f8e4m3_array, trp__f8e4m3_to_f32_array);
        check_arrays(&formats[1], &rng, count, trp__f32_to_f8e5m2_array, trp__f8e5m2_to_f32_array);
    }
}

/* The even element of a pair is in the low half; the other half of a byte is left alone. */
static void two_to_a_byte(void **state)
{
    (void)state;
    ref_rng rng;
    ref_rng_init(&rng, seed);
    uint8_t packed[LENGTH / 2 + 1];
    float wide[LENGTH], back[LENGTH + 1];
    for (size_t count = 0; count <= LENGTH; count++) {
        for (size_t i = 0; i < count; i++)
            wide[i] = (float)ref_rng_uniform(&rng, -7.0, 7.0);
        memset(packed, 0xa5, sizeof packed);
        trp__f32_to_f4e2m1_array(wide, packed, count);
        for (size_t i = 0; i < count; i++) {
            const unsigned half = i % 2 == 0 ? packed[i / 2] % 16u : packed[i / 2] / 16u;
            assert_int_equal(half, trp__f32_to_f4e2m1(wide[i]));
        }
        assert_true(count % 2 == 0 || packed[count / 2] / 16u == 0);
        assert_int_equal(packed[(count + 1) / 2], 0xa5);
        back[count] = 12345.0f;
        trp__f4e2m1_to_f32_array(packed, back, count);
        for (size_t i = 0; i < count; i++)
            assert_true(back[i] == trp__f4e2m1_load(packed, i));
        assert_true(back[count] == 12345.0f);
    }
    memset(packed, 0xa5, sizeof packed);
    trp__f4e2m1_store(packed, 2, -6.0f);
    assert_int_equal(packed[1], 0xaf);
    trp__f4e2m1_store(packed, 3, 1.0f);
    assert_int_equal(packed[1], 0x2f);
    assert_true(trp__f4e2m1_load(packed, 2) == -6.0f && trp__f4e2m1_load(packed, 3) == 1.0f);
    assert_int_equal(packed[0], 0xa5);
    assert_int_equal(packed[2], 0xa5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(every_code_means_what_is_defined),     UNIT(known_codes),
        UNIT(narrowing_at_every_boundary),          UNIT(narrowing_of_every_exponent),
        UNIT(narrowing_of_f64_rounds_once),         UNIT(scale_factors),
        UNIT(arrays_of_every_length_and_alignment), UNIT(two_to_a_byte),
    };
    seed = ref_seed();
    return cmocka_run_group_tests_name("narrow", tests, NULL, NULL);
}

#include "support/reference/random_reference.h"

#include "base/numbers/half.h"
#include "base/numbers/philox.h"

#include <math.h>
#include <string.h>

static const long double PI = 3.141592653589793238462643383279502884L;

/* ---- words ---- */

static void block_of(const trp_random_request *r, uint64_t seed, uint64_t number,
                     uint32_t block[TRP__PHILOX_WORDS])
{
    trp__philox_block(seed, r->stream, number & UINT64_C(0x3fffffffffffffff), block);
}

static uint32_t word_at(const trp_random_request *r, uint64_t seed, uint64_t word)
{
    uint32_t block[TRP__PHILOX_WORDS];
    block_of(r, seed, word / 4, block);
    return block[word % 4];
}

static uint64_t pair_at(const trp_random_request *r, uint64_t seed, uint64_t word)
{
    return word_at(r, seed, word) | (uint64_t)word_at(r, seed, word + 1) << 32;
}

/* ---- distributions ---- */

static int64_t integer(const trp_random_request *r, uint64_t seed, uint64_t word, bool wide)
{
    const int bits = wide ? 64 : 32;
    const unsigned __int128 all = (unsigned __int128)1 << bits;
    const unsigned __int128 range =
        (unsigned __int128)((__int128)r->high_integer - r->low_integer + r->endpoint);
    uint32_t block[TRP__PHILOX_WORDS];
    const uint32_t again[2] = {~(uint32_t)seed, ~(uint32_t)(seed >> 32)};
    block_of(r, seed, word / 4, block);
    for (;;) {
        const uint32_t *at = block + word % 4;
        const uint64_t number = wide ? at[0] | (uint64_t)at[1] << 32 : at[0];
        /* Numbers whose products fall into the same part are as many for each integer, but for the
         * first ones of a part. */
        const unsigned __int128 high =
            range == all ? number
                         : (wide ? ((unsigned __int128)number * (uint64_t)range) >> 64
                                 : ((unsigned __int128)number * range) >> 32);
        const uint64_t low = wide ? number * (uint64_t)range : (uint32_t)(number * (uint64_t)range);
        if (range == all || low >= all % range)
            return (int64_t)((uint64_t)r->low_integer + (uint64_t)high);
        uint32_t counter[TRP__PHILOX_WORDS];
        memcpy(counter, block, sizeof counter);
        trp__philox(counter, again, block);
    }
}

static ref_random_number uniform(const trp_random_request *r, uint64_t seed, uint64_t word)
{
    const trp_dtype type = r->y.type;
    const bool wide = type == TRP_F64;
    const int bits = wide ? 53 : type == TRP_F32 ? 24 : type == TRP_F16 ? 11 : 8;
    const long double low = r->low.given ? r->low.re : 0, high = r->high.given ? r->high.re : 1;
    const uint64_t number = wide ? pair_at(r, seed, word) : (uint64_t)word_at(r, seed, word) << 32;
    const uint64_t k = number >> (64 - bits);
    long double u = (long double)k;
    if (r->ends == TRP_RANDOM_OPEN)
        u = (long double)(number >> (65 - bits)) * 2 + 1;
    else if (r->ends == TRP_RANDOM_CLOSED)
        u += (long double)(number >> (63 - bits) & 1);
    else if (r->ends == TRP_RANDOM_OPEN_LOW)
        u += 1;
    return (ref_random_number){.value = low + (high - low) * ldexpl(u, -bits),
                               .error = (fabsl(low) + fabsl(high)) * 4 *
                                        (wide              ? 0x1p-53L
                                         : type == TRP_F32 ? 0x1p-24L
                                         : type == TRP_F16 ? 0x1p-11L
                                                           : 0x1p-8L)};
}

/* A number of a pair, and how far it is from 0. */
static long double normal(const trp_random_request *r, uint64_t seed, uint64_t number, bool wide,
                          long double *far)
{
    const uint64_t first = number / 2 * 2, odd = number % 2;
    if (!wide) {
        const uint32_t turn = word_at(r, seed, first + 1);
        const float u = fmaf((float)word_at(r, seed, first), 0x1p-32F, 0x1p-33F);
        const long double angle = 2 * PI * (long double)(turn >> 8) / 16777216;
        *far = sqrtl(-2 * logl((long double)u));
        return *far * (odd ? sinl(angle) : cosl(angle));
    }
    const uint64_t a = pair_at(r, seed, 2 * first), turn = pair_at(r, seed, 2 * first + 2);
    const long double u = ldexpl((long double)(a >> 12) + 0.5L, -52);
    const long double angle = PI * (ldexpl((long double)(turn << 2 >> 12) + 0.5L, -53) - 0.25L);
    const bool swapped = (turn >> 62 & 1) != odd;
    *far = sqrtl(-2 * logl(u));
    return *far * (swapped ? sinl(angle) : cosl(angle)) * (turn >> 63 ? -1 : 1);
}

static ref_random_number from_normal(const trp_random_request *r, uint64_t seed, uint64_t element,
                                     int part)
{
    const bool is_complex = r->y.type == TRP_C64 || r->y.type == TRP_C128;
    const bool wide = r->y.type == TRP_F64 || r->y.type == TRP_C128;
    const long double loc = part ? r->loc.im : r->loc.re;
    const long double scale = (r->scale.given ? r->scale.re : 1) * (is_complex ? sqrtl(0.5L) : 1);
    const long double unit = wide ? 0x1p-50L : 0x1p-21L;
    long double far;
    const long double z =
        normal(r, seed, is_complex ? 2 * element + (uint64_t)part : element, wide, &far);
    ref_random_number n = {.value = loc + scale * z,
                           .error = unit * (scale * far + fabsl(loc)) + 0x1p-48L * scale};
    if (wide)
        n.error = unit * (scale * far + fabsl(loc));
    if (r->distribution == TRP_RANDOM_LOGNORMAL) {
        n.value = expl(n.value);
        n.error = n.value * (n.error + 0x1p-50L);
    }
    return n;
}

static ref_random_number from_fraction(const trp_random_request *r, long double u)
{
    const long double loc = r->loc.re, scale = r->scale.given ? r->scale.re : 1;
    long double z;
    switch (r->distribution) {
    case TRP_RANDOM_EXPONENTIAL:
        z = -logl(u);
        break;
    case TRP_RANDOM_LAPLACE:
        z = u < 0.5L ? logl(2 * u) : -logl(2 * (1 - u));
        break;
    case TRP_RANDOM_CAUCHY:
        z = u < 0.25L   ? -1 / tanl(PI * u)
            : u > 0.75L ? 1 / tanl(PI * (1 - u))
                        : tanl(PI * (u - 0.5L));
        break;
    default:
        z = logl(-logl(u));
        z = -z;
    }
    return (ref_random_number){.value = loc + scale * z,
                               .error =
                                   0x1p-49L * (fabsl(scale * z) + fabsl(loc) + 0x1p-3L * scale)};
}

static ref_random_number two_values(const trp_random_request *r, uint32_t word)
{
    const double p = r->p.given ? r->p.re : 0.5;
    const bool hit = word < (uint64_t)(p * 0x1p32 + 0.5);
    if (r->distribution == TRP_RANDOM_BERNOULLI)
        return (ref_random_number){.whole = hit, .value = hit};
    return (ref_random_number){.value = hit ? 0 : 1 / (1 - (long double)p),
                               .error = 0x1p-50L / (1 - (long double)p)};
}

ref_random_number ref_random(const trp_random_request *r, uint64_t seed, uint64_t offset,
                             uint64_t place, int part)
{
    const uint64_t words = trp_random_words(r->distribution, r->y.type);
    const uint64_t element = offset / words + (offset % words ? 1 : 0) + place;
    const uint64_t word = element * words;
    switch (r->distribution) {
    case TRP_RANDOM_BITS:
        return (ref_random_number){.whole = words == 2 ? (int64_t)pair_at(r, seed, word)
                                                       : (int32_t)word_at(r, seed, word)};
    case TRP_RANDOM_INTEGERS:
        return (ref_random_number){.whole = integer(r, seed, word, words == 2)};
    case TRP_RANDOM_UNIFORM:
        return uniform(r, seed, word);
    case TRP_RANDOM_NORMAL:
    case TRP_RANDOM_LOGNORMAL:
        return from_normal(r, seed, element, part);
    case TRP_RANDOM_BERNOULLI:
    case TRP_RANDOM_DROPOUT:
        return two_values(r, word_at(r, seed, word));
    default:
        return from_fraction(
            r, words == 2 ? ldexpl((long double)(pair_at(r, seed, word) >> 12) + 0.5L, -52)
                          : ldexpl((long double)word_at(r, seed, word) + 0.5L, -32));
    }
}

/* ---- comparing ---- */

ref_random_number ref_random_load(trp_dtype type, const void *at, int part)
{
    const uint8_t *byte = at;
    union {
        double f64[2];
        float f32[2];
        uint16_t f16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
    } v;
    memset(&v, 0, sizeof v);
    memcpy(&v, byte, trp_dtype_bits(type) / 8);
    switch (type) {
    case TRP_F64:
    case TRP_C128:
        return (ref_random_number){.value = v.f64[part]};
    case TRP_F32:
    case TRP_C64:
        return (ref_random_number){.value = (long double)v.f32[part]};
    case TRP_F16:
        return (ref_random_number){.value = (long double)trp__f16_to_f32(v.f16)};
    case TRP_BF16:
        return (ref_random_number){.value = (long double)trp__bf16_to_f32(v.f16)};
    case TRP_I32:
        return (ref_random_number){.whole = v.i32, .value = v.i32};
    case TRP_I64:
        return (ref_random_number){.whole = v.i64, .value = (long double)v.i64};
    case TRP_I8:
        return (ref_random_number){.whole = (int8_t)v.u8, .value = (int8_t)v.u8};
    default:
        return (ref_random_number){.whole = v.u8, .value = v.u8};
    }
}

static bool inside(const trp_random_request *r, long double value)
{
    const bool low_open = r->ends == TRP_RANDOM_OPEN || r->ends == TRP_RANDOM_OPEN_LOW;
    const bool high_open = r->ends == TRP_RANDOM_OPEN || r->ends == TRP_RANDOM_HALF_OPEN;
    const long double low = r->low.given ? r->low.re : 0, high = r->high.given ? r->high.re : 1;
    return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
}

double ref_random_error(const trp_random_request *r, ref_random_number got,
                        ref_random_number wanted)
{
    const trp_dtype type = r->y.type;
    long double unit = 0x1p-53L, least = 0x1p-1074L, most = 0x1.fffffffffffffp1023L;
    if (r->distribution <= TRP_RANDOM_INTEGERS)
        return got.whole == wanted.whole ? 0 : (double)INFINITY;
    if (r->distribution == TRP_RANDOM_BERNOULLI)
        return got.value == wanted.value ? 0 : (double)INFINITY;
    if (r->distribution == TRP_RANDOM_UNIFORM && !inside(r, got.value))
        return (double)INFINITY;
    if (type == TRP_F32 || type == TRP_C64)
        unit = 0x1p-24L, least = 0x1p-149L, most = 0x1.fffffep127L;
    else if (type == TRP_F16)
        unit = 0x1p-11L, least = 0x1p-24L, most = 65504;
    else if (type == TRP_BF16)
        unit = 0x1p-8L, least = 0x1p-133L, most = 0x1.fep127L;
    const long double error = wanted.error + unit * 1.001L * fabsl(wanted.value) + 0.6L * least;
    if (isinf(got.value) && fabsl(wanted.value) + error > most)
        return (got.value > 0) == (wanted.value > 0) ? 0 : (double)INFINITY;
    return (double)(fabsl(got.value - wanted.value) / error);
}

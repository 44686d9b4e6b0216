/* Test data of proofs. */
#include "tuning/prover_parts.h"

#include <troupe/convert.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPECIALS = 24 };

size_t trp__proof_width(uint8_t type)
{
    return trp_dtype_bits((trp_dtype)type) / 8;
}

uint64_t trp__proof_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Largest finite, smallest normal and smallest denormal number. */
typedef struct range {
    double largest, smallest, denormal;
    bool infinite, nan;
} range;

static range range_of(uint8_t type)
{
    switch (type) {
    case TRP_F64:
        return (range){0x1.fffffffffffffp1023, 0x1p-1022, 0x1p-1074, true, true};
    case TRP_F32:
        return (range){0x1.fffffep127, 0x1p-126, 0x1p-149, true, true};
    case TRP_F16:
        return (range){65504, 0x1p-14, 0x1p-24, true, true};
    case TRP_BF16:
        return (range){0x1.fep127, 0x1p-126, 0x1p-133, true, true};
    case TRP_F8E4M3:
        return (range){448, 0x1p-6, 0x1p-9, false, true};
    case TRP_F8E5M2:
        return (range){57344, 0x1p-14, 0x1p-16, true, true};
    case TRP_F8E8M0:
        return (range){0x1p127, 0x1p-127, 0x1p-127, false, false};
    case TRP_I8:
        return (range){127, 1, 1, false, false};
    case TRP_I32:
        return (range){2147483647, 1, 1, false, false};
    case TRP_I64:
        return (range){0x1p53, 1, 1, false, false};
    case TRP_U8:
        return (range){255, 1, 1, false, false};
    default: /* bool */
        return (range){1, 1, 1, false, false};
    }
}

double trp__proof_largest(uint8_t type)
{
    return range_of(type).largest;
}

double trp__proof_smallest(uint8_t type)
{
    return range_of(type).smallest;
}

static bool is_whole(uint8_t type)
{
    return type == TRP_I8 || type == TRP_I32 || type == TRP_I64 || type == TRP_U8 ||
           type == TRP_BOOL;
}

/* Types that trp_convert() lacks. */
static bool is_plain(uint8_t type)
{
    return type == TRP_I64 || type == TRP_U8 || type == TRP_BOOL;
}

/* The special numbers of a type; returns how many. */
static int specials_of(uint8_t type, uint32_t special, double out[SPECIALS])
{
    const range r = range_of(type);
    const struct {
        uint32_t bit;
        double number;
        bool exists;
    } rows[] = {
        {0, 0, true},
        {0, 1, true},
        {0, 100, true},
        {TRP__PROOF_LARGEST, r.largest, true},
        {TRP__PROOF_SMALLEST, r.smallest, true},
        {TRP__PROOF_DENORMAL, r.denormal, true},
        {TRP__PROOF_DENORMAL, r.smallest - r.denormal, true},
        {TRP__PROOF_INFINITE, INFINITY, r.infinite},
        {TRP__PROOF_NAN, NAN, r.nan},
    };
    int count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].exists || (rows[i].bit && !(special & rows[i].bit)))
            continue;
        out[count++] = rows[i].number;
        out[count++] = -rows[i].number;
    }
    return count;
}

/* The distribution of one operand's numbers. */
typedef struct source {
    double low, span;
    bool whole; /* ordinary numbers are integers */
    bool some;  /* ordinary numbers are nonzero integers: in a product of few elements a zero would
                   hide errors in the others */
    uint32_t pass;
    double special[SPECIALS];
    unsigned specials;
} source;

static double factor_of(const trp__proof_operand *o, uint32_t pass)
{
    const double factor = pass == TRP__PROOF_LEAVING ? o->leaving
                          : pass == TRP__PROOF_WIDE  ? o->wide
                          : pass == TRP__PROOF_TIGHT ? o->tight
                                                     : 1;
    return factor != 0 ? factor : 1;
}

static source source_of(const trp__proof_operand *o, uint32_t pass, uint32_t special)
{
    const double times = factor_of(o, pass);
    source s = {.low = o->low * times,
                .span = (o->high - o->low) * times,
                .whole = o->whole && pass != TRP__PROOF_SATURATING,
                .pass = o->ordinary_only ? TRP__PROOF_ORDINARY : pass};
    s.some = (s.whole || is_whole(o->type)) && o->type != TRP_BOOL && o->low != o->high;
    s.specials = (unsigned)specials_of(o->type, special, s.special);
    return s;
}

/* Draws one number: the high bits give an ordinary number whose every bit varies, the low bits what
 * the pass makes of it. */
static double next_number(const source *s, uint64_t *state)
{
    static const double scale[] = {0x1p-8, 0x1p-7, 0x1p-6, 0x1p-5, 0x1p-4, 0x1p-3, 0x1p-2, 0x1p-1,
                                   1,      0x1p1,  0x1p2,  0x1p3,  0x1p4,  0x1p5,  0x1p6};
    const uint64_t draw = trp__proof_random(state);
    const unsigned rest = draw & 0x7ff;
    double value = s->low + s->span * ((double)(draw >> 11) * 0x1p-53);
    if (s->some && fabs(value) <= 0.5)
        value = value < 0 ? -1 : 1;
    else if (s->whole)
        value = rint(value);
    if (s->pass == TRP__PROOF_SATURATING)
        return value * scale[rest % (sizeof scale / sizeof *scale)];
    return s->pass == TRP__PROOF_EXTREME && rest % 4 == 0 ? s->special[rest / 4 % s->specials]
                                                          : value;
}

static double rounded(const range *r, double least, double value)
{
    return rint(value > r->largest ? r->largest : value < least ? least : value);
}

static void put_plain(uint8_t type, double value, void *out)
{
    if (type == TRP_I64) {
        int64_t whole = (int64_t)value;
        memcpy(out, &whole, sizeof whole);
    } else {
        *(uint8_t *)out = type == TRP_BOOL ? value != 0 : (uint8_t)value;
    }
}

bool trp__proof_numbers(const trp__proof_operand *operand, uint32_t pass, uint32_t special,
                        uint64_t seed, void *out, size_t count)
{
    const uint8_t type = operand->type;
    const size_t width = trp__proof_width(type);
    const source s = source_of(operand, pass, special);
    const range r = range_of(type);
    const double least = type == TRP_U8 || type == TRP_BOOL ? 0 : -r.largest;
    double *values = malloc((count ? count : 1) * sizeof *values);
    bool good = values && width > 0;
    for (size_t i = 0; i < count && good; i++)
        values[i] = next_number(&s, &seed);
    for (size_t i = 0; i < count && good && is_whole(type); i++)
        values[i] = rounded(&r, least, values[i]);
    for (size_t i = 0; i < count && good && is_plain(type); i++)
        put_plain(type, values[i], (char *)out + i * width);
    if (good && !is_plain(type))
        good = trp_convert(TRP_F64, values, (trp_dtype)type, out, count) == TRP_OK;
    free(values);
    return good;
}

static double plain_number(uint8_t type, const void *element)
{
    int64_t whole;
    if (type != TRP_I64)
        return *(const uint8_t *)element;
    memcpy(&whole, element, sizeof whole);
    return (double)whole;
}

void trp__proof_read(uint8_t type, const void *elements, double *out, size_t count)
{
    const size_t width = trp__proof_width(type);
    if (!is_plain(type))
        (void)trp_convert((trp_dtype)type, elements, TRP_F64, out, count);
    else
        for (size_t i = 0; i < count; i++)
            out[i] = plain_number(type, (const char *)elements + i * width);
}

double trp__proof_number(uint8_t type, const void *element)
{
    double number = 0;
    trp__proof_read(type, element, &number, 1);
    return number;
}

/* Numbers that proofs run on. */
#include "tuning/prover_parts.h"

#include <troupe/convert.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPECIALS = 24, SATURATING_LOW = -8, SATURATING_HIGH = 6 };

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

/* Types that trp_convert() does not have. */
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

static double clamp(uint8_t type, double value)
{
    const double most = range_of(type).largest;
    const double least = type == TRP_U8 || type == TRP_BOOL ? 0 : -most;
    return value > most ? most : value < least ? least : value;
}

/* One ordinary number, with no bit that is always the same. No integer is 0: where few elements are
 * multiplied, one that is would hide what becomes of the others. */
static double ordinary(const trp__proof_operand *o, uint64_t *state)
{
    const double unit = (double)(trp__proof_random(state) >> 11) * 0x1p-53;
    const double value = o->low == o->high ? o->low : o->low + (o->high - o->low) * unit;
    if (!is_whole(o->type) || o->type == TRP_BOOL || o->low == o->high || rint(value) != 0)
        return value;
    return value < 0 ? -1 : 1;
}

static double number_of_pass(const trp__proof_operand *o, uint32_t pass, const double *specials,
                             int count, uint64_t *state)
{
    const double value = ordinary(o, state);
    if (o->ordinary_only || pass == TRP__PROOF_ORDINARY)
        return value;
    const uint64_t draw = trp__proof_random(state);
    if (pass == TRP__PROOF_SATURATING)
        return ldexp(value, SATURATING_LOW +
                                (int)(draw % (uint64_t)(SATURATING_HIGH - SATURATING_LOW + 1)));
    return draw % 4 == 0 ? specials[draw / 4 % (uint64_t)count] : value;
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
    double specials[SPECIALS];
    const int some = specials_of(type, special, specials);
    double *values = malloc((count ? count : 1) * sizeof *values);
    bool good = values && width > 0;
    for (size_t i = 0; i < count && good; i++) {
        double value = number_of_pass(operand, pass, specials, some, &seed);
        values[i] = is_whole(type) ? rint(clamp(type, value)) : value;
        if (is_plain(type))
            put_plain(type, values[i], (char *)out + i * width);
    }
    if (good && !is_plain(type))
        good = trp_convert(TRP_F64, values, (trp_dtype)type, out, count) == TRP_OK;
    free(values);
    return good;
}

double trp__proof_number(uint8_t type, const void *element)
{
    double number = 0;
    int64_t whole;
    if (type == TRP_I64) {
        memcpy(&whole, element, sizeof whole);
        number = (double)whole;
    } else if (is_plain(type)) {
        number = *(const uint8_t *)element;
    } else {
        (void)trp_convert((trp_dtype)type, element, TRP_F64, &number, 1);
    }
    return number;
}

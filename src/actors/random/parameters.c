#include "actors/random/parameters.h"

#include "base/error.h"
#include "base/numbers/half.h"
#include "wire/actor_class.h"

#include <math.h>
#include <string.h>

#define FAIL(...) trp__error_set(error, TRP_E_ARGUMENT, __VA_ARGS__)

/* What a distribution has. */
enum { ENDS = 1, LOC = 2, SCALE = 4, P = 8, WHOLE = 16 };

#define TYPE(name) (UINT32_C(1) << TRP_##name)
#define FLOATING   (TYPE(F16) | TYPE(BF16) | TYPE(F32) | TYPE(F64))
#define INTEGERS   (TYPE(I8) | TYPE(U8) | TYPE(I32) | TYPE(I64))

typedef struct row {
    const char *name;
    uint32_t types, has;
} row;

static const row rows[] = {
    [TRP_RANDOM_BITS] = {"bits", TYPE(I32) | TYPE(I64), 0},
    [TRP_RANDOM_INTEGERS] = {"integers", INTEGERS, WHOLE},
    [TRP_RANDOM_UNIFORM] = {"uniform", FLOATING, ENDS},
    [TRP_RANDOM_NORMAL] = {"normal", FLOATING | TYPE(C64) | TYPE(C128), LOC | SCALE},
    [TRP_RANDOM_LOGNORMAL] = {"lognormal", FLOATING, LOC | SCALE},
    [TRP_RANDOM_EXPONENTIAL] = {"exponential", FLOATING, SCALE},
    [TRP_RANDOM_LAPLACE] = {"laplace", FLOATING, LOC | SCALE},
    [TRP_RANDOM_CAUCHY] = {"cauchy", FLOATING, LOC | SCALE},
    [TRP_RANDOM_GUMBEL] = {"gumbel", FLOATING, LOC | SCALE},
    [TRP_RANDOM_BERNOULLI] = {"bernoulli", FLOATING | INTEGERS | TYPE(BOOL), P},
    [TRP_RANDOM_DROPOUT] = {"dropout", FLOATING, P},
};

enum { ROWS = sizeof rows / sizeof *rows };

/* Numbers of a type. */

static double rounded(trp_dtype type, double value)
{
    switch (type) {
    case TRP_F32:
        return (double)(float)value;
    case TRP_F16:
        return (double)trp__f16_to_f32(trp__f64_to_f16(value));
    case TRP_BF16:
        return (double)trp__bf16_to_f32(trp__f64_to_bf16(value));
    default:
        return value;
    }
}

static uint64_t bits_of(trp_dtype type, double value)
{
    uint64_t bits;
    switch (type) {
    case TRP_F64:
        memcpy(&bits, &value, sizeof bits);
        return bits;
    case TRP_F32:
        return trp__f32_bits((float)value);
    case TRP_F16:
        return trp__f64_to_f16(value);
    case TRP_BF16:
        return trp__f64_to_bf16(value);
    default:
        return (uint64_t)value;
    }
}

/* The next number of a type, of which `value` is one: up, or down. */
static double next_to(trp_dtype type, double value, bool up)
{
    const double toward = up ? (double)INFINITY : -(double)INFINITY;
    if (type == TRP_F64)
        return nextafter(value, toward);
    if (type == TRP_F32)
        return (double)nextafterf((float)value, (float)toward);
    const bool negative = value < 0 || (value == 0 && !up);
    const uint16_t size = (uint16_t)bits_of(type, fabs(value));
    const uint16_t bits = (uint16_t)(value == 0 || negative != up ? size + 1 : size - 1);
    const double next = (double)(type == TRP_F16 ? trp__f16_to_f32(bits) : trp__bf16_to_f32(bits));
    return negative ? -next : next;
}

/* Scalars. */

static trp_status check_scalar(const row *d, const char *name, const trp_scalar *s, bool has,
                               trp_error *error)
{
    trp_status status = trp__scalar_check(error, name, s);
    if (status != TRP_OK)
        return status;
    if (s->given && !has)
        return FAIL("%s: expected none with %s numbers, got %g", name, d->name, s->re);
    if (!isfinite(s->re) || !isfinite(s->im))
        return FAIL("%s: expected a finite number, got %g + %gi", name, s->re, s->im);
    return TRP_OK;
}

static trp_status check_real(const row *d, const char *name, const trp_scalar *s, bool has,
                             double none, double *out, trp_error *error)
{
    trp_status status = check_scalar(d, name, s, has, error);
    *out = s->given ? s->re : none;
    if (status == TRP_OK && s->im != 0)
        return FAIL("%s: expected a real number, got %g + %gi", name, s->re, s->im);
    return status;
}

static trp_status set_uniform(const trp_random_request *r, const row *d, trp__random *g,
                              trp_error *error)
{
    const bool has = d->has & ENDS, low_open = r->ends % 2 != 0; /* OPEN, OPEN_LOW */
    const bool high_open = r->ends < TRP_RANDOM_CLOSED;
    double low, high;
    if ((uint32_t)r->ends > (has ? TRP_RANDOM_OPEN_LOW : 0))
        return FAIL("ends: expected %s, got %d", has ? "a trp_random_ends" : "0", (int)r->ends);
    trp_status status = check_real(d, "low", &r->low, has, 0, &low, error);
    if (status == TRP_OK)
        status = check_real(d, "high", &r->high, has, 1, &high, error);
    if (status != TRP_OK || !has)
        return status;
    /* A sum with 0 is 0 for -0. */
    const double first = rounded(r->y.type, low) + 0, last = rounded(r->y.type, high) + 0;
    const double width = r->y.type == TRP_F64 ? last - first : (double)(float)(last - first);
    const char *type = trp_dtype_name(r->y.type);
    if (!isfinite(first))
        return FAIL("low: expected a number that %s has, got %g", type, low);
    if (!isfinite(last))
        return FAIL("high: expected a number that %s has, got %g", type, high);
    if (!isfinite(width))
        return FAIL("high: expected a finite difference to low, %g, got %g", low, high);
    g->number[0] = first;
    g->number[1] = width;
    g->number[2] = low_open ? next_to(r->y.type, first, true) + 0 : first;
    g->number[3] = high_open ? next_to(r->y.type, last, false) + 0 : last;
    if (first > last || g->number[2] > g->number[3])
        return FAIL(
            "high: expected a number so far above low, %g, that %s has some between, got %g", low,
            type, high);
    g->ends = (uint8_t)r->ends;
    return TRP_OK;
}

static trp_status set_loc_and_scale(const trp_random_request *r, const row *d, trp__random *g,
                                    trp_error *error)
{
    const bool complex = r->y.type == TRP_C64 || r->y.type == TRP_C128;
    const bool narrow =
        r->distribution == TRP_RANDOM_NORMAL && r->y.type != TRP_F64 && r->y.type != TRP_C128;
    double scale;
    trp_status status = check_scalar(d, "loc", &r->loc, d->has & LOC, error);
    if (status == TRP_OK)
        status = check_real(d, "scale", &r->scale, d->has & SCALE, 1, &scale, error);
    if (status != TRP_OK || !(d->has & SCALE))
        return status;
    if (r->loc.im != 0 && !complex)
        return FAIL("loc: expected a real number, got %g + %gi", r->loc.re, r->loc.im);
    if (scale < 0)
        return FAIL("scale: expected 0 or more, got %g", scale);
    if (narrow && (isinf((float)r->loc.re) || isinf((float)r->loc.im)))
        return FAIL("loc: expected a number that f32 has, got %g + %gi", r->loc.re, r->loc.im);
    if (narrow && isinf((float)scale))
        return FAIL("scale: expected a number that f32 has, got %g", scale);
    g->number[0] = r->loc.re;
    g->number[1] = complex ? r->loc.im : r->loc.re;
    g->number[2] = complex ? scale * 0.70710678118654752440 : scale;
    return TRP_OK;
}

static trp_status set_probability(const trp_random_request *r, const row *d, trp__random *g,
                                  trp_error *error)
{
    double p;
    trp_status status = check_real(d, "p", &r->p, d->has & P, 0.5, &p, error);
    if (status != TRP_OK || !(d->has & P))
        return status;
    if (p < 0 || p > 1)
        return FAIL("p: expected 0 to 1, got %g", p);
    g->limit = (uint64_t)(p * 0x1p32 + 0.5);
    if (r->distribution == TRP_RANDOM_BERNOULLI) {
        g->whole[0] = bits_of(r->y.type, 1);
        return TRP_OK;
    }
    const double factor = p < 1 ? 1 / (1 - p) : 0;
    if (!isfinite(rounded(r->y.type, factor)))
        return FAIL("p: expected one for which %s has 1 / (1 - p), got %g",
                    trp_dtype_name(r->y.type), p);
    g->whole[1] = bits_of(r->y.type, factor);
    return TRP_OK;
}

static trp_status set_integers(const trp_random_request *r, const row *d, trp__random *g,
                               trp_error *error)
{
    const int64_t low = r->low_integer, high = r->high_integer;
    const trp_dtype type = r->y.type;
    const int64_t least = type == TRP_I8    ? INT8_MIN
                          : type == TRP_U8  ? 0
                          : type == TRP_I32 ? INT32_MIN
                                            : INT64_MIN;
    const int64_t most = type == TRP_I8    ? INT8_MAX
                         : type == TRP_U8  ? UINT8_MAX
                         : type == TRP_I32 ? INT32_MAX
                                           : INT64_MAX;
    if (!(d->has & WHOLE)) {
        if (low == 0 && high == 0 && !r->endpoint)
            return TRP_OK;
        return FAIL("%s: expected 0 with %s numbers, got %lld",
                    low    ? "low_integer"
                    : high ? "high_integer"
                           : "endpoint",
                    d->name,
                    (long long)(low    ? low
                                : high ? high
                                       : 1));
    }
    if (low > high || (low == high && !r->endpoint))
        return FAIL("high_integer: expected %s low_integer, %lld, got %lld",
                    r->endpoint ? "at least" : "more than", (long long)low, (long long)high);
    const int64_t last = r->endpoint ? high : high - 1;
    if (low < least || low > most)
        return FAIL("low_integer: expected a number that %s has, got %lld", trp_dtype_name(type),
                    (long long)low);
    if (last > most)
        return FAIL("high_integer: expected at most %lld%s, the largest number of %s, got %lld",
                    (long long)most, r->endpoint ? "" : " + 1", trp_dtype_name(type),
                    (long long)high);
    g->whole[0] = (uint64_t)low;
    g->whole[1] = (uint64_t)last - (uint64_t)low + 1;
    if (g->words == 2)
        g->limit = g->whole[1] ? (0 - g->whole[1]) % g->whole[1] : 0;
    else
        g->limit = (UINT64_C(1) << 32) % g->whole[1];
    return TRP_OK;
}

trp_status trp__random_parameters(const trp_random_request *r, trp__random *g, trp_error *error)
{
    const uint32_t type = (uint32_t)r->y.type;
    if (r->generator != TRP_RANDOM_PHILOX4X32_10)
        return FAIL("generator: expected a trp_random_generator, got %d", (int)r->generator);
    if ((uint32_t)r->distribution >= ROWS)
        return FAIL("distribution: expected a trp_random_distribution, got %d",
                    (int)r->distribution);
    const row *d = &rows[r->distribution];
    if (type >= TRP_DTYPE_COUNT || !(d->types >> type & 1))
        return FAIL("y.type: expected one that %s numbers have, got %s (%d)", d->name,
                    trp_dtype_name(r->y.type), (int)r->y.type);
    g->distribution = (uint8_t)r->distribution;
    g->type = (uint8_t)type;
    g->words = (uint8_t)trp_random_words(r->distribution, r->y.type);
    trp_status status = set_uniform(r, d, g, error);
    if (status == TRP_OK)
        status = set_loc_and_scale(r, d, g, error);
    if (status == TRP_OK)
        status = set_probability(r, d, g, error);
    if (status == TRP_OK)
        status = set_integers(r, d, g, error);
    return status;
}

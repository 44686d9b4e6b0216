/* Random numbers of RANDOM: Philox, written from its paper, and the distributions, by the
 * definitions in dnn.h. */
#include "support/reference/dnn_reference.h"

#include <math.h>

/* Ten rounds of two products each; keys grow by the golden ratio and the root of three. */
static void philox(uint64_t seed, uint64_t offset, uint64_t block, uint32_t word[4])
{
    uint64_t high = offset, low = block;
    for (uint32_t round = 0; round < 10; round++) {
        const uint64_t first = UINT64_C(3528531795) * (uint32_t)low;
        const uint64_t second = UINT64_C(3449720151) * (uint32_t)high;
        const uint32_t key[2] = {(uint32_t)seed + round * UINT32_C(2654435769),
                                 (uint32_t)(seed >> 32) + round * UINT32_C(3144134277)};
        const uint64_t into_low = (second >> 32) ^ (low >> 32) ^ key[0];
        const uint64_t into_high = (first >> 32) ^ (high >> 32) ^ key[1];
        low = into_low | (second & UINT32_MAX) << 32;
        high = into_high | (first & UINT32_MAX) << 32;
    }
    word[0] = (uint32_t)low;
    word[1] = (uint32_t)(low >> 32);
    word[2] = (uint32_t)high;
    word[3] = (uint32_t)(high >> 32);
}

double dr_fraction(bool wide, uint64_t seed, uint64_t offset, uint64_t i)
{
    uint32_t word[4];
    philox(seed, offset, i / (wide ? 2 : 4), word);
    if (!wide)
        return ldexp(floor(word[i % 4] / 256.0), -24);
    return ldexp(word[2 * (i % 2)], -32) + ldexp(floor(word[2 * (i % 2) + 1] / 2048.0), -53);
}

uint64_t dr_integer(const dr_work *w, uint32_t tensor)
{
    const trp_scalar *value = &w->g->tensor[tensor].value;
    if (!tensor)
        return 0;
    if (value->given)
        return (uint64_t)value->re + ((uint64_t)value->im << 32);
    return (uint64_t)(int64_t)w->g->value[tensor].v[0];
}

/* Returns a number, or its default. */
static double parameter(const trp_dnn_node *n, int which, double or_else)
{
    return n->parameter[which].given ? n->parameter[which].re : or_else;
}

static double in_f32(bool wide, double value)
{
    return wide ? value : dr_round(TRP_F32, value);
}

/* Returns the largest number of a type below one of it. */
static double before(trp_dtype type, double high)
{
    double step = ldexp(1, -1074), x = high;
    for (; x == high; step *= 2)
        x = dr_round(type, high - step);
    return x;
}

void dr_random(const dr_work *w)
{
    const trp_dnn_node *n = w->n;
    dr_tensor *y = dr_of(w, n->y);
    const bool wide = n->compute ? n->compute == TRP_F64 : y->type == TRP_F64;
    const uint64_t seed = dr_integer(w, n->seed), offset = dr_integer(w, n->offset);
    const trp_dtype held = n->compute == TRP_F32 && y->type == TRP_F64 ? TRP_F32 : y->type;
    const double low = dr_round(held, parameter(n, 0, 0));
    const double high = dr_round(held, parameter(n, 1, 1));
    for (size_t i = 0; i < y->count; i++) {
        const double u = dr_fraction(wide, seed, offset, i);
        if (n->random == TRP_DNN_BERNOULLI) {
            y->v[i] = u < parameter(n, 0, 0.5);
        } else if (n->random == TRP_DNN_UNIFORM) {
            const double value = in_f32(wide, fma(u, high - low, low));
            y->v[i] = dr_round(held, value) < high ? value : before(held, high);
        } else {
            const double far = sqrt(-2 * log(1 - dr_fraction(wide, seed, offset, i & ~(size_t)1)));
            const double angle = 2 * acos(-1) * dr_fraction(wide, seed, offset, i | 1);
            const double z = far * (i % 2 ? sin(angle) : cos(angle));
            const double sd = parameter(n, 1, 1), value = parameter(n, 0, 0) + sd * z;
            y->v[i] = in_f32(wide, value);
            y->e[i] =
                w->u * fabs(value) +
                (wide ? ldexp(sd, -46) : ldexp(sd, -19) + ldexp(fabs(parameter(n, 0, 0)), -23));
        }
    }
}

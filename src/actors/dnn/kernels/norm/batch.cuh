/* Common parts of the kernels of batch norm: the numbers of a group, and how they are found. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_BATCH_CUH
#define TRP_ACTORS_DNN_KERNELS_NORM_BATCH_CUH

#define TRP__ALL_GLOBAL
#include "actors/dnn/kernels/norm/batch.h"
#include "actors/dnn/kernels/common/rows.cuh"

TRP__DEVICE double trp__batch_value(const trp__batch_number &n)
{
    return n.at ? trp__load_float<double>(n.at, 0, n.type) : n.value;
}

/* The offsets of a block's groups. */
struct trp__batch_place {
    int64_t at[TRP__BATCH_OPERANDS];

    TRP__DEVICE void find(const trp__batch &p, int64_t outer)
    {
        trp__rows_find<TRP__BATCH_OPERANDS>(p.space, outer, p.io, at);
    }
    TRP__DEVICE double load(const trp__batch &p, int o, int64_t column, double without) const
    {
        return p.io[o].at ? trp__load_float<double>(p.io[o].at, at[o] + column * p.column_step[o],
                                                    p.io[o].type)
                          : without;
    }
    TRP__DEVICE void store(const trp__batch &p, int o, int64_t column, double value) const
    {
        if (p.io[o].at)
            trp__store_float<double>(p.io[o].at, at[o] + column * p.column_step[o], p.io[o].type,
                                     value);
    }
};

/* Returns the number that differences are taken from. Any number near the group's will do. */
TRP__DEVICE float trp__batch_pivot(float first)
{
    return first - first == 0 ? first : 0.0f;
}

/* Mean and sum of squared differences from it, of elements that come in batches. The mean has two
 * parts, `mid` and `rest`, the rounding of `mid`. Differences of a batch are all taken from `mid`:
 * only a share of its squares is subtracted again, so that no digits cancel. */
struct trp__batch_moments {
    float mid, rest, squares;

    /* s1 and s2: sums of the differences of `some` elements from mid, and of their squares; `all`:
     * elements with these. */
    TRP__DEVICE void join(float s1, float s2, float some, float share)
    {
        const float sum = s1 - some * rest;
        const float move = sum * share, by = rest + move;
        squares += (s2 - rest * (s1 + sum)) - move * sum;
        const float next = mid + by, back = next - mid;
        rest = (mid - (next - back)) + (by - back);
        mid = next;
    }
    /* The sums of differences from a pivot, and of their squares. */
    TRP__DEVICE void sums(float count, float pivot, double out[2]) const
    {
        const double away = count > 0 ? ((double)mid - (double)pivot) + (double)rest : 0.0;
        out[0] = (double)count * away;
        out[1] = count > 0 ? (double)squares + out[0] * away : 0.0;
    }
    /* Tells whether f32 is too narrow for the sums. */
    TRP__DEVICE bool fails(const trp__batch &p) const
    {
        return p.precise || !(squares <= 1e37f);
    }
};

/* The factors of V groups that follow each other. The mean and its rest are halved, and elements
 * with them: f32 cannot hold the difference of its largest numbers. The backward pass halves the
 * bias and the slope, too, and doubles the scale. */
template <int V> struct trp__batch_factors {
    float mean[V], rest[V], inverse[V], scale[V], bias[V], slope[V];

    TRP__DEVICE static void load(const trp__batch &p, int which, int64_t group, float v[V])
    {
        const uint64_t at = p.factors + (uint64_t)(which * p.pitch) * 4;
        if constexpr (V > 1) {
            trp__load_run<float, V>(at, group, TRP_F32, v);
        } else {
            v[0] = trp__at<float>(at, group);
        }
    }
    TRP__DEVICE void find(const trp__batch &p, int64_t group, bool apply)
    {
        load(p, TRP__BATCH_F_MEAN, group, mean);
        load(p, TRP__BATCH_F_INVERSE, group, inverse);
        if (!p.back)
            load(p, TRP__BATCH_F_REST, group, rest);
        if (apply) {
            load(p, TRP__BATCH_F_SCALE, group, scale);
            load(p, TRP__BATCH_F_BIAS, group, bias);
            if (p.back)
                load(p, TRP__BATCH_F_SLOPE, group, slope);
        }
        halve(p.back, apply);
    }
    /* Sets numbers that are loaded already. */
    TRP__DEVICE void set(bool back, const float number[TRP__BATCH_FACTORS])
    {
        mean[0] = number[TRP__BATCH_F_MEAN];
        rest[0] = number[TRP__BATCH_F_REST];
        inverse[0] = number[TRP__BATCH_F_INVERSE];
        scale[0] = number[TRP__BATCH_F_SCALE];
        bias[0] = number[TRP__BATCH_F_BIAS];
        slope[0] = number[TRP__BATCH_F_SLOPE];
        halve(back, true);
    }
    TRP__DEVICE void halve(bool back, bool apply)
    {
        TRP__EACH(j, V) {
            mean[j] *= 0.5f;
            rest[j] = back ? 0 : rest[j] * 0.5f;
        }
        if (!apply || !back)
            return;
        TRP__EACH(j, V) {
            bias[j] *= 0.5f;
            slope[j] *= 0.5f;
            scale[j] *= 2.0f;
        }
    }
    TRP__DEVICE float forward(int j, float x) const
    {
        return fmaf((fmaf(0.5f, x, -mean[j]) - rest[j]) * inverse[j] * 2.0f, scale[j], bias[j]);
    }
    /* A given mean is one number. */
    TRP__DEVICE float normal(int j, float x) const
    {
        return fmaf(0.5f, x, -mean[j]) * inverse[j] * 2.0f;
    }
    TRP__DEVICE float backward(int j, float x, float dy) const
    {
        return inverse[j] * scale[j] *
               fmaf(-normal(j, x), slope[j], fmaf(0.5f, dy, -bias[j]));
    }
    /* The results of a pack, in the place of x: of one group, or of one for each element. */
    template <bool BACK, typename PACK> TRP__DEVICE void apply(PACK *x, const PACK *dy) const
    {
        float v[PACK::ELEMENTS];
        TRP__EACH(j, PACK::ELEMENTS) {
            if constexpr (BACK)
                v[j] = backward(V == 1 ? 0 : j, x->get(j), dy->get(j));
            else
                v[j] = forward(V == 1 ? 0 : j, x->get(j));
        }
        x->set(v);
    }
};

TRP__DEVICE bool trp__batch_is_finite(const double s[2])
{
    return s[0] - s[0] == 0 && s[1] - s[1] == 0;
}

/* Adds an element's dy h and dy in f64, where a sum of them does not fit f32. */
TRP__SHARED_CODE void trp__batch_precise_back(const trp__batch &p, double mean, double inverse,
                                              uint64_t x, uint64_t dy, double s[2])
{
    const double slope = trp__load_float<float>(dy, 0, p.io[TRP__BATCH_Y].type);
    const double from = trp__load_float<float>(x, 0, p.io[TRP__BATCH_X].type);
    s[0] += slope * ((from - mean) * inverse);
    s[1] += slope;
}

/* Results of the sums of a group: statistics or, backward, the means of dy and of dy h. */
struct trp__batch_found {
    double mean, variance, inverse, slope;

    /* Sets what elements are computed with, but for what is given. */
    TRP__DEVICE void set(const trp__batch &p, float out[TRP__BATCH_FACTORS]) const
    {
        if (p.back) {
            out[TRP__BATCH_F_BIAS] = (float)mean;
            out[TRP__BATCH_F_SLOPE] = (float)slope;
            return;
        }
        out[TRP__BATCH_F_MEAN] = (float)mean;
        out[TRP__BATCH_F_REST] = (float)(mean - (double)(float)mean);
        out[TRP__BATCH_F_INVERSE] = (float)inverse;
    }
};

TRP__DEVICE trp__batch_found trp__batch_solve(const trp__batch &p, float pivot, const double s[2],
                                              double epsilon)
{
    const double n = (double)p.n, away = s[0] / n;
    if (p.back)
        return {s[1] / n, 0, 0, away};
    double variance = s[1] / n - away * away;
    variance = variance < 0 ? 0 : variance; /* NaN stays */
    return {(double)pivot + away, variance, 1 / sqrt(variance + epsilon), 0};
}

/* Statistics, and running ones from those before: `running`, mean and variance. */
TRP__DEVICE void trp__batch_write(const trp__batch &p, const trp__batch_place &place,
                                  int64_t column, const trp__batch_found &found,
                                  const double running[2], double factor)
{
    place.store(p, TRP__BATCH_MEAN, column, found.mean);
    place.store(p, TRP__BATCH_INVERSE, column, found.inverse);
    if (!p.io[TRP__BATCH_RUNNING_MEAN].at)
        return;
    const double n = (double)p.n;
    const double all = p.n > 1 ? found.variance * n / (n - 1) : found.variance;
    place.store(p, TRP__BATCH_NEW_MEAN, column, (1 - factor) * running[0] + factor * found.mean);
    place.store(p, TRP__BATCH_NEW_VARIANCE, column, (1 - factor) * running[1] + factor * all);
}

#endif

/* Common parts of the kernels of batch norm: sums, statistics and factors of a group. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_BATCH_CUH
#define TRP_ACTORS_DNN_KERNELS_NORM_BATCH_CUH

#define TRP__ALL_GLOBAL
#include "actors/dnn/kernels/norm/batch.h"
#include "actors/dnn/kernels/common/rows.cuh"

TRP__DEVICE double trp__batch_value(const trp__batch_number &n)
{
    return n.at ? trp__load_float<double>(n.at, 0, n.type) : n.value;
}

/* The offsets of a block's groups in each operand, in elements. */
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

/* Returns the number that differences are taken from, near the elements of a group: its first one,
 * or 0 where that is not finite. */
TRP__DEVICE float trp__batch_pivot(float first)
{
    return first - first == 0 ? first : 0.0f;
}

/* The mean of elements that come in batches, and the sum of their squared differences from it. The
 * mean is mid + rest; `rest` is the rounding error of `mid`. All differences of a batch are taken
 * from `mid`. The correction for that subtracts only a share of the batch's squares, so that no
 * digits cancel. */
struct trp__batch_moments {
    float mid, rest, squares;

    /* Adds a batch of `some` elements. s1, s2: sums of their differences from mid, and of the
     * squares of these. share: 1 / the number of all elements, with the batch. */
    TRP__DEVICE void join(float s1, float s2, float some, float share)
    {
        const float sum = s1 - some * rest;
        const float move = sum * share, by = rest + move;
        squares += (s2 - rest * (s1 + sum)) - move * sum;
        const float next = mid + by, back = next - mid;
        rest = (mid - (next - back)) + (by - back);
        mid = next;
    }
    /* Returns the sums of differences from a pivot, and of their squares. */
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

/* The factors of V adjacent groups. The mean, its rest and elements are halved, as f32 cannot hold
 * the difference of its largest numbers. The backward pass also halves the bias and the slope, and
 * doubles the scale. */
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
    /* Sets the factors of a single group from numbers that are loaded already. */
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
    /* Returns h, backward: the mean is an input, without a rest. */
    TRP__DEVICE float normal(int j, float x) const
    {
        return fmaf(0.5f, x, -mean[j]) * inverse[j] * 2.0f;
    }
    TRP__DEVICE float backward(int j, float x, float dy) const
    {
        return inverse[j] * scale[j] *
               fmaf(-normal(j, x), slope[j], fmaf(0.5f, dy, -bias[j]));
    }
    /* Replaces a pack of x by its results. All elements belong to one group if V is 1, else element
     * j to group j. */
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

/* Adds dy h and dy of an element in f64, where f32 cannot hold their sums. x, dy: addresses of the
 * element. */
TRP__SHARED_CODE void trp__batch_precise_back(const trp__batch &p, double mean, double inverse,
                                              uint64_t x, uint64_t dy, double s[2])
{
    const double slope = trp__load_float<float>(dy, 0, p.io[TRP__BATCH_Y].type);
    const double from = trp__load_float<float>(x, 0, p.io[TRP__BATCH_X].type);
    s[0] += slope * ((from - mean) * inverse);
    s[1] += slope;
}

/* Results of the sums of a group: its statistics or, backward, the mean of dy, and the mean of dy h
 * as `slope`. */
struct trp__batch_found {
    double mean, variance, inverse, slope;

    /* Sets the factors that follow from sums; others come from inputs. */
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

/* Writes the statistics of a group, and its running ones. `running`: the mean and variance before;
 * `factor`: the weight of the new ones. */
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

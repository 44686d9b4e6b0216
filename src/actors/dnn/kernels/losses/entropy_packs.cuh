/* Cross-entropy of rows of one type, with labels or, TARGET, probabilities of that type: packs of 16
 * bytes, those that fit in shared memory between the two passes. */
#ifndef TRP_ACTORS_DNN_KERNELS_LOSSES_ENTROPY_PACKS_CUH
#define TRP_ACTORS_DNN_KERNELS_LOSSES_ENTROPY_PACKS_CUH

#include "actors/dnn/kernels/losses/entropy_row.cuh"
#include "actors/dnn/kernels/common/row_packs.cuh"

#define TRP__ENTROPY_LOG2E 1.44269504088896340736f

/* e^x of x <= 0, times 2^RAISED for 16 bits, so that flushing denormal numbers to 0, the fast way,
 * takes none that matters to a gradient. A sum has a term of 1: it needs no such care. */
template <int TYPE, int RAISED> TRP__DEVICE float trp__entropy_term(float x)
{
    return TYPE == TRP_F32 ? exp(x) : trp__exp2_flushed(fmaf(x, TRP__ENTROPY_LOG2E, (float)RAISED));
}

template <int TYPE, bool TARGET> struct trp__entropy_packs : trp__row_packs<TYPE> {
    typedef trp__row_packs<TYPE> R;
    typedef typename R::pack pack;
    enum { DEEP = TRP__ENTROPY_DEEP, RAISED = TYPE == TRP_F32 ? 0 : 32 };
    trp__pack16 *cache;
    int cached; /* packs of a thread */

    TRP__DEVICE trp__entropy_packs(const trp__entropy &p, const trp__entropy_row<float> &r,
                                   trp__pack16 *shared)
    {
        R::begin = (int)(r.at[TRP__ENTROPY_X] % R::V);
        R::end = R::begin + r.n;
        R::first = (int)threadIdx.x * R::V;
        R::step = (int)blockDim.x * R::V;
        cache = shared + threadIdx.x;
        cached = p.cached;
    }
    /* Where element 0 of the first pack of a row would be. */
    TRP__DEVICE uint64_t place_of(const trp__entropy &p, const trp__entropy_row<float> &r,
                                  int operand) const
    {
        return r.place(p, operand) - (uint64_t)(R::begin * R::SIZE);
    }
    /* Packs of x are kept before those of probabilities. */
    TRP__DEVICE void keep(int c, const pack &v, bool target)
    {
        if (c < cached)
            v.give(&cache[(c + (target ? cached : 0)) * (int)blockDim.x]);
    }
    TRP__DEVICE void read_again(int c, const R &at, uint64_t from, float other, bool target,
                                pack v[DEEP]) const
    {
        if (c + DEEP <= cached) {
            TRP__UNROLL
            for (int d = 0; d < DEEP; d++)
                v[d].take(cache[(c + d + (target ? cached : 0)) * (int)blockDim.x]);
        } else {
            at.template read<DEEP>(from, other, v);
        }
    }
    /* What probabilities weigh: the sum, and that of how far logits are below the largest. */
    TRP__DEVICE void weigh(const trp__entropy &p, const R &at, const pack v[DEEP],
                           const pack t[DEEP], trp__entropy_sums<float> *sums) const
    {
        const float share = (float)(1 - p.smooth), even = (float)p.even, base = sums->base();
        float some = 0, away = 0;
        TRP__UNROLL
        for (int d = 0; d < DEEP; d++) {
            TRP__UNROLL
            for (int j = 0; j < R::V; j++) {
                const float q = at.has(d, j) ? fmaf(share, t[d].get(j), even) : 0.0f;
                some += q;
                away += q != 0 ? q * (base - v[d].get(j)) : 0.0f;
            }
        }
        sums->total.add(some);
        sums->away.add(away);
    }

    TRP__DEVICE void first_pass(const trp__entropy &p, const trp__entropy_row<float> &r,
                                trp__entropy_sums<float> *sums)
    {
        const uint64_t x = place_of(p, r, TRP__ENTROPY_X);
        for (int c = 0; R::place(c) < R::end; c += DEEP) {
            pack v[DEEP], t[DEEP];
            float top = sums->most, some = 0;
            R at = *this;
            at.first = R::place(c);
            at.template read<DEEP>(x, -INFINITY, v);
            if constexpr (TARGET)
                at.template read<DEEP>(place_of(p, r, TRP__ENTROPY_T), 0.0f, t);
            TRP__UNROLL
            for (int d = 0; d < DEEP; d++) {
                TRP__UNROLL
                for (int j = 0; j < R::V; j++)
                    top = fmax(top, v[d].get(j));
                keep(c + d, v[d], false);
                if constexpr (TARGET)
                    keep(c + d, t[d], true);
                v[d].forget();
            }
            sums->rise(top);
            const float base = sums->base();
            TRP__UNROLL
            for (int d = 0; d < DEEP; d++) {
                float e[R::V];
                if (at.place(d) >= at.end)
                    continue;
                TRP__UNROLL
                for (int j = 0; j < R::V; j++)
                    e[j] = trp__entropy_term<TYPE, 0>(v[d].get(j) - base);
                TRP__UNROLL
                for (int by = R::V / 2; by > 0; by /= 2) {
                    TRP__UNROLL
                    for (int j = 0; j < by; j++)
                        e[j] += e[j + by];
                }
                some += e[0];
            }
            sums->sum.add(some);
            if constexpr (TARGET) {
                weigh(p, at, v, t, sums);
            } else if (p.smooth > 0) {
                some = 0;
                for (int d = 0; d < DEEP; d++) {
                    TRP__UNROLL
                    for (int j = 0; j < R::V; j++)
                        some += at.has(d, j) ? v[d].get(j) : 0.0f;
                }
                sums->linear.add(some);
            }
        }
    }
    TRP__DEVICE void last_pass(const trp__entropy &p, const trp__entropy_row<float> &r,
                               double factor, double log_sum)
    {
        trp__entropy_factors<float> f;
        f.find(p, r, factor, log_sum);
        const float scale = f.scale / (float)(UINT64_C(1) << RAISED), most = r.most;
        const uint64_t x = place_of(p, r, TRP__ENTROPY_X), dx = place_of(p, r, TRP__ENTROPY_DX);
        const int label = R::begin + (int)r.label;
        for (int c = 0; R::place(c) < R::end; c += DEEP) {
            pack v[DEEP], t[DEEP];
            R at = *this;
            at.first = R::place(c);
            read_again(c, at, x, -INFINITY, false, v);
            if constexpr (TARGET)
                read_again(c, at, place_of(p, r, TRP__ENTROPY_T), 0.0f, true, t);
            TRP__UNROLL
            for (int d = 0; d < DEEP; d++) {
                float out[R::V];
                const int first = at.place(d);
                if (first >= at.end)
                    continue;
                TRP__UNROLL
                for (int j = 0; j < R::V; j++)
                    out[j] = scale * trp__entropy_term<TYPE, RAISED>(v[d].get(j) - most) - f.rest;
                if constexpr (TARGET) {
                    TRP__UNROLL
                    for (int j = 0; j < R::V; j++)
                        out[j] -= f.share * t[d].get(j);
                } else if (label >= first && label < first + R::V) {
                    TRP__UNROLL
                    for (int j = 0; j < R::V; j++)
                        out[j] -= first + j == label ? f.share : 0.0f;
                }
                v[d].set(out);
                at.write(dx, d, v[d]);
            }
        }
    }
};

#endif

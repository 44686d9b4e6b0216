/* Cross-entropy of rows of one type with labels: packs of 16 bytes, those that fit in shared
 * memory between the two passes. */
#ifndef TRP_ACTORS_DNN_KERNELS_ENTROPY_PACKS_CUH
#define TRP_ACTORS_DNN_KERNELS_ENTROPY_PACKS_CUH

#include "actors/dnn/kernels/entropy_row.cuh"
#include "actors/dnn/kernels/row_packs.cuh"

#define TRP__ENTROPY_LOG2E 1.44269504088896340736f

/* e^x of x <= 0, times 2^RAISED for 16 bits, so that flushing denormal numbers to 0, the fast way,
 * takes none that matters to a gradient. A sum has a term of 1: it needs no such care. */
template <int TYPE, int RAISED> TRP__DEVICE float trp__entropy_term(float x)
{
    return TYPE == TRP_F32 ? exp(x) : trp__exp2_flushed(fmaf(x, TRP__ENTROPY_LOG2E, (float)RAISED));
}

template <int TYPE> struct trp__entropy_packs : trp__row_packs<TYPE> {
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
    TRP__DEVICE void keep(int c, const pack &v)
    {
        trp__pack16 q;
        if (c >= cached)
            return;
        memcpy(&q, v.word, sizeof q);
        cache[c * (int)blockDim.x] = q;
    }

    TRP__DEVICE void first_pass(const trp__entropy &p, const trp__entropy_row<float> &r,
                                trp__entropy_sums<float> *sums)
    {
        const uint64_t x = place_of(p, r, TRP__ENTROPY_X);
        for (int c = 0; R::place(c) < R::end; c += DEEP) {
            pack v[DEEP];
            float top = sums->most, some = 0;
            R at = *this;
            at.first = R::place(c);
            at.template read<DEEP>(x, -INFINITY, v);
            TRP__UNROLL
            for (int d = 0; d < DEEP; d++) {
                TRP__UNROLL
                for (int j = 0; j < R::V; j++)
                    top = fmax(top, v[d].get(j));
                keep(c + d, v[d]);
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
            if (p.smooth > 0) {
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
            pack v[DEEP];
            R at = *this;
            at.first = R::place(c);
            if (c + DEEP <= cached) {
                TRP__UNROLL
                for (int d = 0; d < DEEP; d++) {
                    const trp__pack16 q = cache[(c + d) * (int)blockDim.x];
                    memcpy(v[d].word, &q, sizeof q);
                }
            } else {
                at.template read<DEEP>(x, -INFINITY, v);
            }
            TRP__UNROLL
            for (int d = 0; d < DEEP; d++) {
                float out[R::V];
                const int first = at.place(d);
                if (first >= at.end)
                    continue;
                TRP__UNROLL
                for (int j = 0; j < R::V; j++)
                    out[j] = scale * trp__entropy_term<TYPE, RAISED>(v[d].get(j) - most) - f.rest;
                if (label >= first && label < first + R::V) {
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

/* Cross-entropy of rows of one type, with labels or probabilities of that type: packs of 16 bytes,
 * which stay in shared memory between the two passes as far as they fit. TARGET: packs of logits,
 * and as many of probabilities, that a thread has in flight; 0 with labels. */
#ifndef TRP_ACTORS_DNN_KERNELS_LOSSES_ENTROPY_PACKS_CUH
#define TRP_ACTORS_DNN_KERNELS_LOSSES_ENTROPY_PACKS_CUH

#include "actors/dnn/kernels/losses/entropy_row.cuh"
#include "actors/dnn/kernels/common/async.cuh"
#include "actors/dnn/kernels/common/row_packs.cuh"

template <int TYPE, int TARGET> struct trp__entropy_packs : trp__row_packs<TYPE> {
    typedef trp__row_packs<TYPE> R;
    typedef typename R::pack pack;
    enum {
        DEEP = TARGET != 0 ? TARGET : TRP__ENTROPY_DEEP,
        RAISED = TYPE == TRP_F32 ? 0 : 32,
    };
    trp__pack16 *cache;
    int cached; /* packs of a thread in shared memory */

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
    /* Returns the address of the first pack of a row, which may begin before the row does. */
    TRP__DEVICE uint64_t place_of(const trp__entropy &p, const trp__entropy_row<float> &r,
                                  int operand) const
    {
        return r.place(p, operand) - (uint64_t)(R::begin * R::SIZE);
    }
    /* Stores pack c in shared memory, if it has room: logits first, then probabilities. */
    TRP__DEVICE void keep(int c, const pack &v, bool target)
    {
        if (c < cached)
            v.give(&cache[(c + (target ? cached : 0)) * (int)blockDim.x]);
    }
    TRP__DEVICE void read_again(int c, const R &at, uint64_t from, float other, bool target,
                                pack v[DEEP]) const
    {
        if (c + DEEP <= cached) {
            TRP__EACH(d, DEEP)
                v[d].take(cache[(c + d + (target ? cached : 0)) * (int)blockDim.x]);
        } else {
            at.template read<DEEP>(from, other, v);
        }
    }
    /* Tells whether the row and its probabilities are copied to shared memory ahead: where both
     * have room there, and are more than a thread reads at a time. */
    TRP__DEVICE bool fits() const
    {
        return TARGET != 0 && R::end > DEEP * R::step && cached * R::step >= R::end;
    }
    /* Starts to copy both there, in batches of DEEP packs, but for the packs at the ends of a
     * ragged row. */
    TRP__DEVICE void fetch(uint64_t x, uint64_t t)
    {
        for (int c = 0; R::place(c) < R::end; c++) {
            if (R::whole(c)) {
                const uint64_t at = (uint64_t)(R::place(c) * R::SIZE);
                trp__async_copy(&cache[c * (int)blockDim.x], x + at);
                trp__async_copy(&cache[(c + cached) * (int)blockDim.x], t + at);
            }
            if (c % DEEP == DEEP - 1 || R::place(c + 1) >= R::end)
                trp__async_commit();
        }
    }
    /* Returns DEEP packs from c on, which fetch() has copied. Loads those that it has not, and
     * stores them in shared memory. */
    TRP__DEVICE void fetched(int c, const R &at, uint64_t from, float other, bool target,
                             pack v[DEEP])
    {
        TRP__EACH(d, DEEP) {
            if (at.whole(d)) {
                v[d].take(cache[(c + d + (target ? cached : 0)) * (int)blockDim.x]);
                continue;
            }
            v[d].fill(other);
            TRP__EACH(j, R::V) {
                if (at.has(d, j))
                    v[d].put(j, from, at.place(d) + j);
            }
            keep(c + d, v[d], target);
        }
    }
    /* Adds probabilities t, and their products with the distances of logits from the largest one.
     */
    TRP__DEVICE void weigh(const R &at, const pack v[DEEP], const pack t[DEEP],
                           trp__entropy_sums<float> *sums) const
    {
        const float base = sums->base();
        float some = 0, away = 0;
        TRP__EACH(d, DEEP) {
            float total = 0, below = 0;
            if (at.place(d) >= at.end)
                continue;
            TRP__EACH(j, R::V) {
                total += t[d].get(j);
                below = fmaf(t[d].get(j), base - v[d].get(j), below);
            }
            if (below - below != 0) { /* perhaps 0 times infinity, which is 0 here */
                below = 0;
                TRP__EACH(j, R::V)
                    below += t[d].get(j) != 0 ? t[d].get(j) * (base - v[d].get(j)) : 0.0f;
            }
            some += total;
            away += below;
        }
        sums->total.add(some);
        sums->away.add(away);
    }
    /* Adds smoothed probabilities, likewise. */
    TRP__DEVICE void weigh_smooth(const trp__entropy &p, const R &at, const pack v[DEEP],
                           const pack t[DEEP], trp__entropy_sums<float> *sums) const
    {
        const float share = (float)(1 - p.smooth), even = (float)p.even, base = sums->base();
        float some = 0, away = 0;
        TRP__EACH(d, DEEP) {
            TRP__EACH(j, R::V) {
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
        const uint64_t target = TARGET != 0 ? place_of(p, r, TRP__ENTROPY_T) : 0;
        const int chunks = (R::end - R::first + DEEP * R::step - 1) / (DEEP * R::step);
        if (fits())
            fetch(x, target);
        for (int c = 0; R::place(c) < R::end; c += DEEP) {
            pack v[DEEP], t[DEEP];
            float top = sums->most, some = 0;
            R at = *this;
            at.first = R::place(c);
            if (fits()) {
                trp__async_wait_for(chunks - 1 - c / DEEP);
                fetched(c, at, x, -INFINITY, false, v);
                fetched(c, at, target, 0.0f, true, t);
            } else {
                at.template read<DEEP>(x, -INFINITY, v);
                if constexpr (TARGET != 0)
                    at.template read<DEEP>(target, 0.0f, t);
            }
            TRP__EACH(d, DEEP) {
                top = fmax(top, v[d].template most<false>());
                if (!fits())
                    keep(c + d, v[d], false);
                if (TARGET != 0 && !fits())
                    keep(c + d, t[d], true);
                v[d].forget();
            }
            sums->rise(top);
            const float base = sums->base();
            TRP__EACH(d, DEEP) {
                float e[R::V];
                if (at.place(d) >= at.end)
                    continue;
                TRP__EACH(j, R::V) /* not raised: the largest term of a sum is 1 */
                    e[j] = trp__exp_raised<TYPE, 0>(v[d].get(j) - base);
                TRP__UNROLL
                for (int by = R::V / 2; by > 0; by /= 2) {
                    TRP__EACH(j, by)
                        e[j] += e[j + by];
                }
                some += e[0];
            }
            sums->sum.add(some);
            if constexpr (TARGET != 0) {
                if (p.smooth > 0)
                    weigh_smooth(p, at, v, t, sums);
                else
                    weigh(at, v, t, sums);
            } else if (p.smooth > 0) {
                some = 0;
                for (int d = 0; d < DEEP; d++) {
                    TRP__EACH(j, R::V)
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
            if constexpr (TARGET != 0)
                read_again(c, at, place_of(p, r, TRP__ENTROPY_T), 0.0f, true, t);
            TRP__EACH(d, DEEP) {
                float out[R::V];
                const int first = at.place(d);
                if (first >= at.end)
                    continue;
                TRP__EACH(j, R::V)
                    out[j] =
                        fmaf(scale, trp__exp_raised<TYPE, RAISED>(v[d].get(j) - most), -f.rest);
                if constexpr (TARGET != 0) {
                    TRP__EACH(j, R::V)
                        out[j] = fmaf(-f.share, t[d].get(j), out[j]);
                } else if (label >= first && label < first + R::V) {
                    TRP__EACH(j, R::V)
                        out[j] -= first + j == label ? f.share : 0.0f;
                }
                v[d].set(out);
                at.write(dx, d, v[d]);
            }
        }
    }
};

#endif

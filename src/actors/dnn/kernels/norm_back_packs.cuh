/* Backward passes of norms with a scale for each element, of rows of one type: blocks walk over
 * rows and add up what belongs to dscale and dbias. Of 16 bits they read the next row while they
 * work on one; of f32 that would take more registers than it is worth. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_BACK_PACKS_CUH
#define TRP_ACTORS_DNN_KERNELS_NORM_BACK_PACKS_CUH

#include "actors/dnn/kernels/norm_packs.cuh"

/* What a thread has of a row: 8 elements of x and of dy. */
template <int TYPE> struct trp__norm_back_row {
    typedef trp__row_packs<TYPE, false> packs;
    typedef typename packs::pack pack;
    enum { V = packs::V, PACKS = TRP__ROWS_RUN / V };
    pack x[PACKS], dy[PACKS];
    float mean,
        inverse; /* half of the mean, for the difference of the largest numbers has no f32 */

    TRP__DEVICE void read(const trp__norm &p, packs r, int64_t row)
    {
        int64_t from[2];
        mean = inverse = 0;
        r.end = row < p.space.rows ? (int)p.n : 0;
        trp__row_packs_find<2>(p.space, (uint32_t)row, p.io + TRP__NORM_X, from);
        r.template read<PACKS>(p.io[TRP__NORM_X].at + (uint64_t)(from[0] * packs::SIZE), 0.0f, x);
        r.template read<PACKS>(p.io[TRP__NORM_Y].at + (uint64_t)(from[1] * packs::SIZE), 0.0f, dy);
        if (row >= p.space.rows)
            return;
        trp__row_packs_find<2>(p.space, (uint32_t)row, p.io + TRP__NORM_MEAN, from);
        if (p.io[TRP__NORM_MEAN].at)
            mean = 0.5f * trp__norm_number(p.io[TRP__NORM_MEAN], from[0]);
        inverse = trp__norm_number(p.io[TRP__NORM_INVERSE], from[1]);
    }
    /* The normalised x, times `by`. */
    TRP__DEVICE float normal(int c, int j, float by) const
    {
        return (0.5f * x[c].get(j) - mean) * (2.0f * inverse * by);
    }
    TRP__DEVICE void forget()
    {
        TRP__UNROLL
        for (int c = 0; c < PACKS; c++) {
            x[c].forget();
            dy[c].forget();
        }
    }
};

/* Leaves the sums of a block, after those of its rows have been added up. */
template <int PACKS, int V>
TRP__DEVICE void trp__norm_back_leave(const trp__norm &p, int thread, float v[PACKS][V], int which)
{
    __shared__ float shared[TRP__NORM_GROUP * TRP__ROWS_RUN];
    const int groups = (int)blockDim.x / p.threads, width = p.threads * TRP__ROWS_RUN;
    const int group = groups > 1 ? (int)threadIdx.x / p.threads : 0;
    if (groups > 1) {
        __syncthreads(); /* what was left before has been read */
        TRP__UNROLL
        for (int c = 0; c < PACKS; c++) {
            TRP__UNROLL
            for (int j = 0; j < V; j++)
                shared[group * width + (c * p.threads + thread) * V + j] = v[c][j];
        }
        __syncthreads();
    }
    if (group > 0)
        return;
    TRP__UNROLL
    for (int c = 0; c < PACKS; c++) {
        const int k = (c * p.threads + thread) * V;
        TRP__UNROLL
        for (int j = 0; j < V; j++) {
            for (int g = 1; g < groups; g++)
                v[c][j] += shared[g * width + k + j];
            if (k < p.n)
                trp__to<float>(p.sums, ((int64_t)blockIdx.x * 2 + which) * p.n + k + j) = v[c][j];
        }
    }
}

template <int TYPE> TRP__DEVICE void trp__norm_backward(const trp__norm &p)
{
    typedef trp__norm_back_row<TYPE> R;
    enum { V = R::V, PACKS = R::PACKS, AHEAD = TYPE != TRP_F32 };
    const int rows = (int)blockDim.x / p.threads;
    const int group = rows > 1 ? (int)threadIdx.x / p.threads : 0;
    const int thread = (int)threadIdx.x - group * p.threads;
    const int64_t step = (int64_t)gridDim.x * rows;
    typename R::packs r = {thread * V, p.threads * V, 0, 0};
    float sum_h[PACKS][V], sum[PACKS][V];
    R next;
    TRP__UNROLL
    for (int c = 0; c < PACKS; c++) {
        TRP__UNROLL
        for (int j = 0; j < V; j++)
            sum_h[c][j] = sum[c][j] = 0;
    }
    int64_t row = (int64_t)blockIdx.x * rows + group;
    if (AHEAD)
        next.read(p, r, row);
#pragma unroll 1
    for (; row - group < p.space.rows; row += step) {
        R now;
        float s[2] = {0, 0}; /* means: a sum may leave f32 where they do not */
        if (AHEAD) {
            now = next;
            next.read(p, r, row + step);
        } else {
            now.read(p, r, row);
        }
        TRP__UNROLL
        for (int c = 0; c < PACKS; c++) {
            float a[V];
            if (r.place(c) >= p.n)
                continue;
            trp__norm_numbers<V>(p, TRP__NORM_SCALE, r.place(c), a);
            TRP__UNROLL
            for (int j = 0; j < V; j++) {
                const float h = now.normal(c, j, p.share), dy = now.dy[c].get(j), g = dy * a[j];
                s[0] = fmaf(g, p.share, s[0]);
                s[1] = fmaf(g, h, s[1]);
                sum_h[c][j] = fmaf(dy, h, sum_h[c][j]);
                sum[c][j] += dy;
            }
        }
        now.forget();
        trp__rows_together<trp__rows_sum, float, 2>(s, p.threads, 0.0f);
        /* Halves, as of the mean. */
        const float offset = p.centred ? 0.5f * s[0] : 0.0f, slope = 0.5f * s[1];
        const float factor = 2.0f * now.inverse;
        int64_t to;
        trp__row_packs_find<1>(p.space, (uint32_t)row, p.io + TRP__NORM_DX, &to);
        r.end = row < p.space.rows ? (int)p.n : 0;
        TRP__UNROLL
        for (int c = 0; c < PACKS; c++) {
            float a[V];
            if (r.place(c) >= r.end)
                continue;
            trp__norm_numbers<V>(p, TRP__NORM_SCALE, r.place(c), a);
            TRP__UNROLL
            for (int j = 0; j < V; j++)
                a[j] = factor * (0.5f * (now.dy[c].get(j) * a[j]) - offset - now.normal(c, j, 1.0f) * slope);
            now.x[c].set(a);
            r.write(p.io[TRP__NORM_DX].at + (uint64_t)(to * R::packs::SIZE), c, now.x[c]);
        }
    }
    TRP__UNROLL
    for (int c = 0; c < PACKS; c++) {
        TRP__UNROLL
        for (int j = 0; j < V; j++)
            sum_h[c][j] *= (float)p.n;
    }
    trp__norm_back_leave<PACKS, V>(p, thread, sum_h, 0);
    trp__norm_back_leave<PACKS, V>(p, thread, sum, 1);
}

#define TRP__NORM_BACK_KERNELS(name, TYPE)                                                         \
    TRP__GLOBAL(TRP__NORM_BACK_THREADS) name##_each(const TRP__CONSTANT trp__norm p)               \
    {                                                                                              \
        trp__norm_backward<TYPE>(p);                                                               \
    }

TRP__NORM_BACK_KERNELS(trp_norm_back_f32, TRP_F32)
TRP__NORM_BACK_KERNELS(trp_norm_back_bf16, TRP_BF16)
TRP__NORM_BACK_KERNELS(trp_norm_back_f16, TRP_F16)

#endif

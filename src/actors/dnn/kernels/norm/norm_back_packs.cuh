/* Backward norms of rows of one type, with a scale per element of a row. Each group of a block's
 * threads walks over rows and adds up its terms of dscale and dbias. Meanwhile each thread copies
 * its elements of later rows into a ring of its own in shared memory. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_NORM_BACK_PACKS_CUH
#define TRP_ACTORS_DNN_KERNELS_NORM_NORM_BACK_PACKS_CUH

#include "actors/dnn/kernels/common/async.cuh"
#include "actors/dnn/kernels/norm/norm_packs.cuh"

/* A thread's part of a row: 16 elements of x and of dy. */
template <int TYPE> struct trp__norm_back_row {
    typedef typename trp__row_type<TYPE>::pack pack;
    enum { V = trp__row_type<TYPE>::V, SIZE = trp__row_type<TYPE>::SIZE };
    enum { PACKS = TRP__NORM_BACK_ELEMENTS / V };
    pack x[PACKS], dy[PACKS];
    /* Half of the mean, as the difference of the largest numbers overflows f32, and twice
     * 1 / sqrt(variance + epsilon). */
    float mean, twice;

    /* Returns h for a factor of `twice`, and in proportion for others. */
    TRP__DEVICE float normal(int c, int j, float factor) const
    {
        return fmaf(0.5f, x[c].get(j), -mean) * factor;
    }
    TRP__DEVICE void forget()
    {
        TRP__EACH(c, PACKS) {
            x[c].forget();
            dy[c].forget();
        }
    }
};

/* The bits of a statistic, converted only where they are used, so that no thread waits for the load
 * before. */
struct trp__norm_back_number {
    uint32_t bits;

    TRP__DEVICE void begin(const trp__rows_operand &o, int64_t i)
    {
        if (o.type == TRP_F32)
            bits = trp__at<uint32_t>(o.at, i);
        else
            bits = trp__at<uint16_t>(o.at, i);
    }
    TRP__DEVICE float value(const trp__rows_operand &o) const
    {
        return o.type == TRP_F32    ? trp__f32_from_bits(bits)
               : o.type == TRP_BF16 ? trp__bf16_to_f32((uint16_t)bits)
                                    : trp__half_value((uint16_t)bits);
    }
};

/* A thread's ring in shared memory. Each stage holds the thread's part of a row. */
template <int TYPE> struct trp__norm_back_ring {
    typedef trp__norm_back_row<TYPE> R;
    enum { PACKS = R::PACKS };
    trp__pack16 *at;
    int thread, threads, n, stages, stage;
    uint32_t rows;
    trp__norm_back_number mean, inverse; /* of the row after the one that next() returned last */

    TRP__DEVICE trp__pack16 *slot(int stage, int number) const
    {
        return at + (stage * 2 * PACKS + number) * (int)blockDim.x;
    }
    TRP__DEVICE int place(int c) const
    {
        return (c * threads + thread) * R::V;
    }
    TRP__DEVICE bool has(int c) const
    {
        return place(c) < n;
    }
    /* Starts to copy a row into stage `to`. Past the last row the batch of copies is empty, as
     * next() counts batches. */
    TRP__DEVICE void begin(const trp__norm &p, uint32_t row, int to)
    {
        if (row < rows) {
            int64_t from[2];
            trp__row_packs_find<2>(p.space, row, p.io + TRP__NORM_X, from);
            TRP__EACH(c, PACKS) {
                if (!has(c))
                    continue;
                trp__async_copy(slot(to, c),
                                p.io[TRP__NORM_X].at + (uint64_t)(from[0] + place(c)) * R::SIZE);
                trp__async_copy(slot(to, PACKS + c),
                                p.io[TRP__NORM_Y].at + (uint64_t)(from[1] + place(c)) * R::SIZE);
            }
        }
        trp__async_commit();
    }
    TRP__DEVICE void numbers(const trp__norm &p, uint32_t row)
    {
        int64_t from[2];
        if (row >= rows)
            return;
        trp__row_packs_find<2>(p.space, row, p.io + TRP__NORM_MEAN, from);
        if (p.io[TRP__NORM_MEAN].at)
            mean.begin(p.io[TRP__NORM_MEAN], from[0]);
        inverse.begin(p.io[TRP__NORM_INVERSE], from[1]);
    }
    TRP__DEVICE void start(const trp__norm &p, uint32_t row, uint32_t step)
    {
        n = (int)p.n;
        rows = (uint32_t)p.space.rows;
        stages = p.bytes / (2 * 16 * PACKS);
        for (stage = 0; stage < stages - 1; stage++)
            begin(p, row + (uint32_t)stage * step, stage);
        stage = 0;
        mean.bits = inverse.bits = 0;
        numbers(p, row);
    }
    /* Waits for `row` and returns it, and starts to copy the row stages - 1 steps later; rows are
     * `step` apart. */
    TRP__DEVICE void next(const trp__norm &p, uint32_t row, uint32_t step, R *out)
    {
        begin(p, row + (uint32_t)(stages - 1) * step, stage == 0 ? stages - 1 : stage - 1);
        out->mean = 0.5f * mean.value(p.io[TRP__NORM_MEAN]);
        out->twice = 2.0f * inverse.value(p.io[TRP__NORM_INVERSE]);
        numbers(p, row + step);
        trp__async_wait_for(stages - 1);
        TRP__EACH(c, PACKS) {
            if (row < rows && has(c)) {
                out->x[c].take(*slot(stage, c));
                out->dy[c].take(*slot(stage, PACKS + c));
            } else {
                out->x[c].clear();
                out->dy[c].clear();
            }
        }
        stage = stage + 1 == stages ? 0 : stage + 1;
    }
};

/* Adds up both sums of a group's threads, each in one half of a warp. There is one barrier per row:
 * `odd` alternates between two buffers, so that none is overwritten before it was read. */
TRP__DEVICE void trp__norm_back_together(float s[2], int threads, int group, int odd)
{
    __shared__ float part[2][2][32];
    const int lane = (int)threadIdx.x % 32, half = lane / 16, k = lane % 16;
    if (threads < 32) {
        for (int by = 1; by < threads; by *= 2) {
            s[0] += __shfl_xor_sync(0xffffffffu, s[0], by);
            s[1] += __shfl_xor_sync(0xffffffffu, s[1], by);
        }
        return;
    }
    float v = half ? s[1] : s[0];
    v += __shfl_xor_sync(0xffffffffu, half ? s[0] : s[1], 16);
    TRP__UNROLL
    for (int by = 8; by > 0; by /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, by);
    if (threads > 32) {
        const int warps = threads / 32;
        float *const from = part[odd][half] + group * warps;
        if (k == 0)
            part[odd][half][threadIdx.x / 32] = v;
        trp__group_sync(1 + group, threads); /* barrier 0 is __syncthreads() */
        v = k < warps ? from[k] : 0.0f;
        v += k + 16 < warps ? from[k + 16] : 0.0f;
        TRP__UNROLL
        for (int by = 8; by > 0; by /= 2)
            v += __shfl_xor_sync(0xffffffffu, v, by);
    }
    s[0] = __shfl_sync(0xffffffffu, v, 0);
    s[1] = __shfl_sync(0xffffffffu, v, 16);
}

/* Adds up the sums of a block's groups and writes them: of dy h for `which` 0, of dy for 1. */
template <int PACKS, int V>
TRP__DEVICE void trp__norm_back_leave(const trp__norm &p, int thread, int group,
                                      const float v[PACKS][V], int which)
{
    TRP__DYNAMIC(float, shared);
    const int groups = (int)blockDim.x / p.threads, width = p.threads * PACKS * V;
    __syncthreads(); /* all threads are done with the ring, or with the sums before */
    TRP__EACH(c, PACKS) {
        TRP__EACH(j, V)
            shared[group * width + (c * p.threads + thread) * V + j] = v[c][j];
    }
    __syncthreads();
    for (int k = (int)threadIdx.x; k < p.n; k += (int)blockDim.x) {
        float sum = shared[k];
        for (int g = 1; g < groups; g++)
            sum += shared[g * width + k];
        trp__to<float>(p.sums, ((int64_t)blockIdx.x * 2 + which) * p.n + k) = sum;
    }
}

template <int TYPE> TRP__DEVICE void trp__norm_backward(const trp__norm &p)
{
    typedef trp__norm_back_row<TYPE> R;
    enum { V = R::V, PACKS = R::PACKS };
    TRP__DYNAMIC(trp__pack16, shared);
    const int groups = (int)blockDim.x / p.threads, group = (int)threadIdx.x / p.threads;
    const int thread = (int)threadIdx.x - group * p.threads;
    const uint32_t step = gridDim.x * (uint32_t)groups;
    float sum_h[PACKS][V], sum[PACKS][V], scale[PACKS][V];
    trp__norm_back_ring<TYPE> ring;
    ring.at = shared + threadIdx.x;
    ring.thread = thread;
    ring.threads = p.threads;
    uint32_t row = blockIdx.x * (uint32_t)groups + (uint32_t)group;
    ring.start(p, row, step);
    TRP__EACH(c, PACKS) {
        TRP__EACH(j, V)
            sum_h[c][j] = sum[c][j] = scale[c][j] = 0;
        if (ring.has(c))
            trp__norm_numbers<V>(p, TRP__NORM_SCALE, ring.place(c), scale[c]);
    }
    int odd = 0;
    TRP__ROLLED
    for (; row - (uint32_t)group < ring.rows; row += step) {
        R now;
        float s[2] = {0, 0}; /* means: a sum may overflow f32 where its mean does not */
        ring.next(p, row, step, &now);
        TRP__EACH(c, PACKS) {
            if (!ring.has(c)) /* absent elements are 0, whose h may overflow */
                continue;
            TRP__EACH(j, V) {
                /* h is multiplied by p.share: `twice` times p.share is denormal where x is very
                 * large. */
                const float h = now.normal(c, j, now.twice), dy = now.dy[c].get(j);
                const float g = dy * scale[c][j];
                s[0] = fmaf(g, p.share, s[0]);
                s[1] = fmaf(g, h * p.share, s[1]);
                sum_h[c][j] = fmaf(dy, h, sum_h[c][j]);
                sum[c][j] += dy;
            }
        }
        now.forget();
        trp__norm_back_together(s, p.threads, group, odd);
        odd ^= 1;
        if (row >= ring.rows)
            continue;
        /* Halves, as x and the mean are; `twice` makes up for it. */
        const float offset = p.centred ? 0.5f * s[0] : 0.0f, slope = 0.5f * s[1];
        int64_t to;
        trp__row_packs_find<1>(p.space, row, p.io + TRP__NORM_DX, &to);
        TRP__EACH(c, PACKS) {
            float dx[V];
            if (!ring.has(c))
                continue;
            TRP__EACH(j, V)
                dx[j] = now.twice * fmaf(-now.normal(c, j, now.twice), slope,
                                         fmaf(0.5f, now.dy[c].get(j) * scale[c][j], -offset));
            now.x[c].set(dx);
            now.x[c].store(p.io[TRP__NORM_DX].at, to + ring.place(c), TYPE);
        }
    }
    trp__norm_back_leave<PACKS, V>(p, thread, group, sum_h, 0);
    trp__norm_back_leave<PACKS, V>(p, thread, group, sum, 1);
}

#define TRP__NORM_BACK_KERNELS(name, TYPE)                                                         \
    TRP__ENTRY(name##_each, trp__norm, (TRP__NORM_BACK_THREADS), trp__norm_backward<TYPE>)

TRP__NORM_BACK_KERNELS(trp_norm_back_f32, TRP_F32)
TRP__NORM_BACK_KERNELS(trp_norm_back_bf16, TRP_BF16)
TRP__NORM_BACK_KERNELS(trp_norm_back_f16, TRP_F16)

#endif

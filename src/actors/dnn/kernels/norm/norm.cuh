#ifndef TRP_ACTORS_DNN_KERNELS_NORM_NORM_CUH
#define TRP_ACTORS_DNN_KERNELS_NORM_NORM_CUH

#define TRP__ALL_GLOBAL
#include "actors/dnn/kernels/norm/norm.h"
#include "actors/dnn/kernels/norm/norm_add.cuh"
#include "actors/dnn/kernels/norm/norm_back_packs.cuh"
#include "actors/dnn/kernels/norm/norm_slices.cuh"
#include "actors/dnn/kernels/norm/norm_tiles.cuh"

/* A row as one of its threads sees it: where it begins in each operand, in elements, and the
 * elements of the thread. */
struct trp__norm_row {
    int64_t at[TRP__NORM_OPERANDS];
    trp__rows_lanes lanes;
    int n; /* elements of the row; 0 past the last row */

    TRP__DEVICE void find(const trp__norm &p, int64_t row)
    {
        n = row < p.space.rows ? (int)p.n : 0;
        trp__rows_find<TRP__NORM_OPERANDS>(p.space, row, p.io, at);
        lanes = {(int)threadIdx.x % p.threads, p.threads, (int)(at[TRP__NORM_X] % TRP__ROWS_RUN),
                 p.runs != 0, false};
    }
    TRP__DEVICE uint64_t place(const trp__norm &p, int o) const
    {
        return p.io[o].at + (uint64_t)(at[o] * trp__element_bytes(p.io[o].type));
    }
    template <typename T, int RUNS> TRP__DEVICE void read(const trp__norm &p, int o, T *v) const
    {
        trp__rows_read<T, RUNS>(lanes, place(p, o), p.io[o].step, p.io[o].type, n, T(0), v);
    }
    template <typename T, int RUNS>
    TRP__DEVICE void write(const trp__norm &p, int o, const T *v) const
    {
        trp__rows_write<T, RUNS>(lanes, place(p, o), p.io[o].step, p.io[o].type, n, v);
    }
    /* Reads scale or bias: one number for each element of a row, or one for the row. */
    template <typename T, int RUNS>
    TRP__DEVICE void read_each(const trp__norm &p, int o, T *v) const
    {
        trp__rows_lanes l = lanes;
        l.single = !p.each_runs;
        if (p.each) {
            trp__rows_read<T, RUNS>(l, place(p, o), p.io[o].step, p.io[o].type, n, T(0), v);
        } else {
            const T one = n > 0 ? trp__load_float<T>(p.io[o].at, at[o], p.io[o].type) : T(0);
            for (int i = 0; i < RUNS * TRP__ROWS_RUN; i++)
                v[i] = one;
        }
    }
    template <typename T> TRP__DEVICE T load(const trp__norm &p, int o, T without) const
    {
        return p.io[o].at && n > 0 ? trp__load_float<T>(p.io[o].at, at[o], p.io[o].type) : without;
    }
    template <typename T> TRP__DEVICE void store(const trp__norm &p, int o, T value) const
    {
        if (p.io[o].at && n > 0 && lanes.thread == 0)
            trp__store_float<T>(p.io[o].at, at[o], p.io[o].type, value);
    }
};

/* Turns v into h in f64, where squares overflow f32, or underflow where epsilon is as small. All
 * threads of a row find the same mean and 1 / sqrt(variance + epsilon). */
template <typename T, int RUNS>
TRP__DEVICE void trp__norm_wide(const trp__norm &p, const trp__norm_row &r, double epsilon, T *v,
                                double *mean, double *inverse)
{
    enum { COUNT = RUNS * TRP__ROWS_RUN };
    double sum = 0, squares = 0;
    if (p.threads < 32) { /* other rows of the warp may not come here: no exchange */
        for (int pass = p.centred ? 0 : 1; pass < 2; pass++) {
            double all = 0;
            for (int k = 0; k < r.n; k++) {
                const double x = trp__load_float<double>(r.place(p, TRP__NORM_X),
                                                         (int64_t)k * p.io[TRP__NORM_X].step,
                                                         p.io[TRP__NORM_X].type);
                all += pass ? (x - sum) * (x - sum) : x;
            }
            if (pass)
                squares = all;
            else
                sum = all / (double)p.n;
        }
    } else {
        for (int i = 0; i < COUNT && p.centred; i++)
            sum += (double)v[i];
        if (p.centred)
            sum = trp__rows_together<trp__rows_sum, double>(sum, p.threads, 0.0) / (double)p.n;
        for (int i = 0; i < COUNT; i++) {
            const int k = r.lanes.place(i / TRP__ROWS_RUN, i % TRP__ROWS_RUN);
            const double away = (double)v[i] - sum;
            squares += k >= 0 && k < r.n ? away * away : 0.0;
        }
        squares = trp__rows_together<trp__rows_sum, double>(squares, p.threads, 0.0);
    }
    *mean = sum;
    *inverse = 1 / sqrt(squares / (double)p.n + epsilon);
    for (int i = 0; i < COUNT; i++)
        v[i] = (T)(((double)v[i] - sum) * *inverse);
}

/* Turns v, a thread's elements of x, into h, and writes the statistics. Differences are taken from
 * a mean with some rounding error, and corrected by their own mean, `more`: a mean far larger than
 * the deviations costs no digits. */
template <typename T, int RUNS>
TRP__DEVICE void trp__norm_statistics(const trp__norm &p, const trp__norm_row &r, T *v)
{
    enum { COUNT = RUNS * TRP__ROWS_RUN };
    const double epsilon =
        p.epsilon_at ? trp__load_float<double>(p.epsilon_at, 0, p.epsilon_type) : p.epsilon;
    const T share = T(1) / (T)p.n;
    T mean = 0, s[2] = {0, 0};
    if (p.centred) {
        for (int i = 0; i < COUNT; i++)
            mean += v[i];
        mean = trp__rows_together<trp__rows_sum, T>(mean, p.threads, T(0)) * share;
    }
    TRP__EACH(c, RUNS) {
        const bool whole = r.lanes.place(c, 0) >= 0 && r.lanes.place(c, TRP__ROWS_RUN - 1) < r.n;
        TRP__EACH(j, TRP__ROWS_RUN) {
            const int i = c * TRP__ROWS_RUN + j, k = r.lanes.place(c, j);
            const T away = whole || (k >= 0 && k < r.n) ? v[i] - mean : T(0);
            s[0] += away;
            s[1] += away * away;
        }
    }
    trp__rows_together<trp__rows_sum, T, 2>(s, p.threads, T(0));
    const T more = p.centred ? s[0] * share : T(0);
    T variance = s[1] * share - more * more;
    variance = variance > 0 || variance != variance ? variance : T(0);
    const bool fits =
        sizeof(T) == 8 || (variance <= T(1e37) && (epsilon > 1e-20 || variance > T(1e-20)));
    if (fits) {
        const T inverse = 1 / sqrt(variance + (T)epsilon);
        for (int i = 0; i < COUNT; i++)
            v[i] = ((v[i] - mean) - more) * inverse;
        r.store<T>(p, TRP__NORM_MEAN, more == more ? mean + more : mean);
        r.store<T>(p, TRP__NORM_INVERSE, inverse);
    } else {
        double wide_mean, wide_inverse;
        trp__norm_wide<T, RUNS>(p, r, epsilon, v, &wide_mean, &wide_inverse);
        r.store<double>(p, TRP__NORM_MEAN, wide_mean);
        r.store<double>(p, TRP__NORM_INVERSE, wide_inverse);
    }
}

template <typename T, int RUNS> TRP__DEVICE void trp__norm_rows(const trp__norm &p)
{
    enum { COUNT = RUNS * TRP__ROWS_RUN };
    const int rows = (int)blockDim.x / p.threads;
    trp__norm_row r;
    T v[COUNT], other[COUNT];
    r.find(p, (p.first + blockIdx.x) * rows + (int)threadIdx.x / p.threads);
    r.read<T, RUNS>(p, TRP__NORM_X, v);
    r.read_each<T, RUNS>(p, TRP__NORM_SCALE, other);
    trp__norm_statistics<T, RUNS>(p, r, v);
    for (int i = 0; i < COUNT; i++)
        v[i] *= other[i];
    if (p.io[TRP__NORM_BIAS].at) {
        r.read_each<T, RUNS>(p, TRP__NORM_BIAS, other);
        for (int i = 0; i < COUNT; i++)
            v[i] += other[i];
    }
    r.write<T, RUNS>(p, TRP__NORM_Y, v);
}

/* A row of any types that no block's registers hold: the block walks through it three times, for the
 * mean, the squares and the results. Sums are in f64, which neither overflows nor loses the terms of
 * a row of any length. */
TRP__DEVICE void trp__norm_walk_any(const trp__norm &p)
{
    const trp__rows_operand *io = p.io;
    const double epsilon =
        p.epsilon_at ? trp__load_float<double>(p.epsilon_at, 0, p.epsilon_type) : p.epsilon;
    const int64_t first = threadIdx.x, step = TRP__NORM_WALK_THREADS;
    trp__norm_row r;
    r.find(p, p.first + blockIdx.x);
    const uint64_t x = r.place(p, TRP__NORM_X), y = r.place(p, TRP__NORM_Y);
    const uint64_t scale = r.place(p, TRP__NORM_SCALE), bias = r.place(p, TRP__NORM_BIAS);
    double mean = 0, squares = 0;
#pragma unroll 4
    for (int64_t k = first; k < p.n && p.centred; k += step)
        mean += trp__load_float<double>(x, k * io[TRP__NORM_X].step, io[TRP__NORM_X].type);
    if (p.centred)
        mean = trp__rows_together<trp__rows_sum, double>(mean, step, 0.0) / (double)p.n;
#pragma unroll 4
    for (int64_t k = first; k < p.n; k += step) {
        const double away =
            trp__load_float<double>(x, k * io[TRP__NORM_X].step, io[TRP__NORM_X].type) - mean;
        squares += away * away;
    }
    squares = trp__rows_together<trp__rows_sum, double>(squares, step, 0.0);
    const double inverse = 1 / sqrt(squares / (double)p.n + epsilon);
#pragma unroll 4
    for (int64_t k = first; k < p.n; k += step) {
        const int64_t each = p.each ? k : 0;
        float v = (float)((trp__load_float<double>(x, k * io[TRP__NORM_X].step,
                                                   io[TRP__NORM_X].type) -
                           mean) *
                          inverse);
        v *= trp__load_float<float>(scale, each * io[TRP__NORM_SCALE].step,
                                    io[TRP__NORM_SCALE].type);
        if (io[TRP__NORM_BIAS].at)
            v += trp__load_float<float>(bias, each * io[TRP__NORM_BIAS].step,
                                        io[TRP__NORM_BIAS].type);
        trp__store_float<float>(y, k * io[TRP__NORM_Y].step, io[TRP__NORM_Y].type, v);
    }
    r.store<double>(p, TRP__NORM_MEAN, mean);
    r.store<double>(p, TRP__NORM_INVERSE, inverse);
}

/* --- Backward: blocks walk over rows and add up their terms of dscale and dbias --- */

/* Adds up the sums of the rows that a block has at a time, in the threads of its first row. */
template <typename T, int RUNS>
TRP__DEVICE void trp__norm_join(const trp__norm &p, const trp__rows_lanes &l, T *v)
{
    enum { COUNT = RUNS * TRP__ROWS_RUN };
    __shared__ T shared[TRP__NORM_GROUP * COUNT];
    const int group = (int)threadIdx.x / p.threads, groups = (int)blockDim.x / p.threads;
    const int width = p.threads * COUNT;
    __syncthreads(); /* all threads have read the sums joined before */
    for (int c = 0; c < RUNS; c++) {
        for (int j = 0; j < TRP__ROWS_RUN; j++)
            shared[group * width + l.place(c, j)] = v[c * TRP__ROWS_RUN + j];
    }
    __syncthreads();
    for (int c = 0; c < RUNS && group == 0; c++) {
        for (int j = 0; j < TRP__ROWS_RUN; j++) {
            for (int g = 1; g < groups; g++)
                v[c * TRP__ROWS_RUN + j] += shared[g * width + l.place(c, j)];
        }
    }
}

/* Writes the sums of a block: of dy h for `which` 0, of dy for 1. */
template <typename T, int RUNS>
TRP__DEVICE void trp__norm_leave(const trp__norm &p, const trp__rows_lanes &l, T *v, int which)
{
    const int64_t n = p.n;
    if (p.threads < (int)blockDim.x)
        trp__norm_join<T, RUNS>(p, l, v);
    if ((int)threadIdx.x >= p.threads)
        return;
    for (int c = 0; c < RUNS; c++) {
        for (int j = 0; j < TRP__ROWS_RUN; j++) {
            const int64_t k = l.place(c, j);
            if (k < n)
                trp__to<T>(p.sums, ((int64_t)blockIdx.x * 2 + which) * n + k) =
                    v[c * TRP__ROWS_RUN + j];
        }
    }
}

template <typename T, int RUNS> TRP__DEVICE void trp__norm_rows_back(const trp__norm &p)
{
    enum { COUNT = RUNS * TRP__ROWS_RUN };
    const int rows = (int)blockDim.x / p.threads;
    const T share = T(1) / (T)p.n;
    T scale[COUNT], sum_h[COUNT], sum[COUNT];
    trp__norm_row r;
    for (int i = 0; i < COUNT; i++) {
        sum_h[i] = sum[i] = 0;
        scale[i] = 1;
    }
    r.find(p, 0);
    if (p.each) /* all rows have the same scale */
        r.read_each<T, RUNS>(p, TRP__NORM_SCALE, scale);
    for (int64_t base = (int64_t)blockIdx.x * rows; base < p.space.rows;
         base += (int64_t)gridDim.x * rows) {
        const int64_t row = base + (int)threadIdx.x / p.threads;
        T h[COUNT], dy[COUNT], s[2] = {0, 0}; /* means: a sum may overflow T where they do not */
        r.find(p, row);
        r.read<T, RUNS>(p, TRP__NORM_X, h);
        r.read<T, RUNS>(p, TRP__NORM_Y, dy);
        /* Halves x and the mean: the difference of the largest numbers overflows T. */
        const T mean = T(0.5) * r.load<T>(p, TRP__NORM_MEAN, T(0));
        const T inverse = r.load<T>(p, TRP__NORM_INVERSE, T(0));
        for (int i = 0; i < COUNT; i++) {
            /* Elements outside the row are 0, whose h may overflow. */
            const int k = r.lanes.place(i / TRP__ROWS_RUN, i % TRP__ROWS_RUN);
            h[i] = k >= 0 && k < r.n ? (T(0.5) * h[i] - mean) * inverse * T(2) : T(0);
            s[0] += dy[i] * scale[i] * share;
            s[1] += dy[i] * scale[i] * share * h[i];
            sum_h[i] += dy[i] * h[i];
            sum[i] += dy[i];
        }
        trp__rows_together<trp__rows_sum, T, 2>(s, p.threads, T(0));
        T factor = inverse;
        if (!p.each) {
            factor *= r.load<T>(p, TRP__NORM_SCALE, T(0));
            if (r.lanes.thread == 0 && r.n > 0) {
                trp__to<T>(p.sums, row * 2) = s[1] * (T)p.n;
                trp__to<T>(p.sums, row * 2 + 1) = s[0] * (T)p.n;
            }
        }
        const T offset = p.centred ? s[0] * T(0.5) : T(0), slope = s[1] * T(0.5);
        for (int i = 0; i < COUNT; i++)
            dy[i] = factor * T(2) * (dy[i] * scale[i] * T(0.5) - offset - h[i] * slope);
        r.write<T, RUNS>(p, TRP__NORM_DX, dy);
    }
    if (p.each) {
        trp__norm_leave<T, RUNS>(p, r.lanes, sum_h, 0);
        trp__norm_leave<T, RUNS>(p, r.lanes, sum, 1);
    }
}

TRP__ENTRY(trp_norm_any_1, trp__norm, (TRP__NORM_THREADS), trp__norm_rows<float, 1>)
TRP__ENTRY(trp_norm_any_2, trp__norm, (TRP__NORM_THREADS), trp__norm_rows<float, 2>)
TRP__ENTRY(trp_norm_any_4, trp__norm, (TRP__NORM_THREADS), trp__norm_rows<float, 4>)
TRP__ENTRY(trp_norm_f64_1, trp__norm, (TRP__NORM_THREADS), trp__norm_rows<double, 1>)
TRP__ENTRY(trp_norm_any_walk, trp__norm, (TRP__NORM_WALK_THREADS), trp__norm_walk_any)

/* Limits registers so that a multiprocessor holds TRP__NORM_RESIDENT_1 threads. */
#define TRP__NORM_BACK_BOUNDS TRP__NORM_THREADS_1, TRP__NORM_RESIDENT_1 / TRP__NORM_THREADS_1

TRP__ENTRY(trp_norm_back_any_1, trp__norm, (TRP__NORM_BACK_BOUNDS), trp__norm_rows_back<float, 1>)
TRP__ENTRY(trp_norm_back_any_2, trp__norm, (TRP__NORM_THREADS), trp__norm_rows_back<float, 2>)
TRP__ENTRY(trp_norm_back_f64_1, trp__norm, (TRP__NORM_THREADS), trp__norm_rows_back<double, 1>)
TRP__ENTRY(trp_norm_add_f32, trp__norm_sum, (TRP__NORM_SUM_WARPS * 32), trp__norm_add<float>)
TRP__ENTRY(trp_norm_add_f64, trp__norm_sum, (TRP__NORM_SUM_WARPS * 32), trp__norm_add<double>)

#endif

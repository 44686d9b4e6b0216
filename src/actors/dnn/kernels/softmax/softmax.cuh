#ifndef TRP_ACTORS_DNN_KERNELS_SOFTMAX_SOFTMAX_CUH
#define TRP_ACTORS_DNN_KERNELS_SOFTMAX_SOFTMAX_CUH

#define TRP__ALL_GLOBAL
#include "actors/dnn/kernels/softmax/softmax_packs.cuh"
#include "actors/dnn/kernels/softmax/softmax_sums.cuh"

/* --- Rows in registers --- */

template <typename T, int RUNS> TRP__DEVICE void trp__softmax_rows(const trp__softmax &p)
{
    enum { COUNT = RUNS * TRP__ROWS_RUN };
    const int rows = (int)blockDim.x / p.threads, thread = (int)threadIdx.x % p.threads;
    const int64_t row = (p.first + blockIdx.x) * rows + (int)threadIdx.x / p.threads;
    const int n = row < p.space.rows ? (int)p.n : 0;
    int64_t at[3];
    T v[COUNT];
    trp__rows_find<3>(p.space, row, p.io, at);
    const trp__rows_lanes l = {thread, p.threads, (int)(at[0] % TRP__ROWS_RUN), p.runs != 0, false};
    const uint64_t x = p.io[0].at + (uint64_t)(at[0] * trp__element_bytes(p.io[0].type));
    const uint64_t y = p.io[2].at + (uint64_t)(at[2] * trp__element_bytes(p.io[2].type));
    trp__rows_read<T, RUNS>(l, x, p.io[0].step, p.io[0].type, n, T(-INFINITY), v);
    T most = v[0], sum = 0;
    for (int i = 1; i < COUNT; i++)
        most = fmax(most, v[i]);
    most = trp__rows_together<trp__rows_most, T>(most, p.threads, T(-INFINITY));
    if (p.log) {
        for (int i = 0; i < COUNT; i++) {
            v[i] -= most;
            sum += trp__exp(v[i]);
        }
        sum = log(trp__rows_together<trp__rows_sum, T>(sum, p.threads, T(0)));
        for (int i = 0; i < COUNT; i++)
            v[i] -= sum;
    } else {
        for (int i = 0; i < COUNT; i++) {
            v[i] = trp__exp(v[i] - most);
            sum += v[i];
        }
        sum = 1 / trp__rows_together<trp__rows_sum, T>(sum, p.threads, T(0));
        for (int i = 0; i < COUNT; i++)
            v[i] *= sum;
    }
    trp__rows_write<T, RUNS>(l, y, p.io[2].step, p.io[2].type, n, v);
}

template <typename T, int RUNS> TRP__DEVICE void trp__softmax_rows_back(const trp__softmax &p)
{
    enum { COUNT = RUNS * TRP__ROWS_RUN };
    const int rows = (int)blockDim.x / p.threads, thread = (int)threadIdx.x % p.threads;
    const int64_t row = (p.first + blockIdx.x) * rows + (int)threadIdx.x / p.threads;
    const int n = row < p.space.rows ? (int)p.n : 0;
    int64_t at[3];
    T y[COUNT], dy[COUNT], sum = 0;
    trp__rows_find<3>(p.space, row, p.io, at);
    const trp__rows_lanes l = {thread, p.threads, (int)(at[0] % TRP__ROWS_RUN), p.runs != 0, false};
    const uint64_t from = p.io[0].at + (uint64_t)(at[0] * trp__element_bytes(p.io[0].type));
    const uint64_t back = p.io[1].at + (uint64_t)(at[1] * trp__element_bytes(p.io[1].type));
    const uint64_t to = p.io[2].at + (uint64_t)(at[2] * trp__element_bytes(p.io[2].type));
    trp__rows_read<T, RUNS>(l, from, p.io[0].step, p.io[0].type, n, T(0), y);
    trp__rows_read<T, RUNS>(l, back, p.io[1].step, p.io[1].type, n, T(0), dy);
    for (int i = 0; i < COUNT; i++)
        sum += p.log ? dy[i] : dy[i] * y[i];
    sum = trp__rows_together<trp__rows_sum, T>(sum, p.threads, T(0));
    for (int i = 0; i < COUNT; i++)
        dy[i] = p.log ? dy[i] - trp__exp(y[i]) * sum : (dy[i] - sum) * y[i];
    trp__rows_write<T, RUNS>(l, to, p.io[2].step, p.io[2].type, n, dy);
}

/* --- Parts of rows --- */

/* Computes elements in the second pass, from the sum of their row. */
template <typename T> struct trp__softmax_last {
    T most, sum; /* sum: forward 1 / sum, or its logarithm; backward the sum */
    bool log;

    TRP__DEVICE void begin(const trp__softmax_sum<T> &s, bool back, bool is_log)
    {
        most = s.most;
        log = is_log;
        sum = s.sum - s.lost;
        if (!back)
            sum = is_log ? ::log(sum) : 1 / sum;
    }
    TRP__DEVICE T forward(T x) const
    {
        return log ? (x - most) - sum : trp__exp(x - most) * sum;
    }
    TRP__DEVICE T backward(T y, T dy) const
    {
        return log ? dy - trp__exp(y) * sum : (dy - sum) * y;
    }
};

/* A block's part of a row: elements `begin` to `end` of the row, the addresses of the row in the
 * operands, and the elements between a multiple of 8 and its first one. */
struct trp__softmax_slice {
    int64_t begin, end;
    uint64_t from[3];
    int shift;
};

template <typename T, bool BACK, bool APPLY>
TRP__DEVICE void trp__softmax_walk(const trp__softmax &p, const trp__softmax_slice &slice,
                                   trp__softmax_sum<T> *s, const trp__softmax_last<T> &last)
{
    enum { COUNT = TRP__ROWS_RUN };
    for (int64_t k = slice.begin; k < slice.end;) {
        const trp__rows_lanes l = {(int)threadIdx.x, TRP__SOFTMAX_THREADS, k == 0 ? slice.shift : 0,
                                   p.runs != 0, false};
        const int64_t left = slice.end - k;
        const int tile = TRP__SOFTMAX_TILE - l.shift, n = left < tile ? (int)left : tile;
        uint64_t at[3];
        T v[COUNT], dy[COUNT];
        for (int o = 0; o < 3; o++)
            at[o] = slice.from[o] + (uint64_t)(k * p.io[o].step * trp__element_bytes(p.io[o].type));
        trp__rows_read<T, 1>(l, at[0], p.io[0].step, p.io[0].type, n, BACK ? T(0) : T(-INFINITY),
                             v);
        if (BACK)
            trp__rows_read<T, 1>(l, at[1], p.io[1].step, p.io[1].type, n, T(0), dy);
        if (APPLY) {
            for (int i = 0; i < COUNT; i++)
                v[i] = BACK ? last.backward(v[i], dy[i]) : last.forward(v[i]);
            trp__rows_write<T, 1>(l, at[2], p.io[2].step, p.io[2].type, n, v);
        } else {
            for (int i = 0; BACK && i < COUNT; i++)
                v[i] = p.log ? dy[i] : dy[i] * v[i];
            s->add_all(v, COUNT, BACK);
        }
        k += tile;
    }
}

/* Both passes over parts of rows: a block for each part. */
template <typename T, bool BACK> TRP__DEVICE void trp__softmax_parts(const trp__softmax &p)
{
    const int64_t block = p.first + blockIdx.x, row = block / p.parts, part = block % p.parts;
    int64_t at[3];
    trp__softmax_slice slice;
    trp__softmax_sum<T> s;
    trp__softmax_last<T> last = {};
    trp__rows_find<3>(p.space, row, p.io, at);
    for (int o = 0; o < 3; o++)
        slice.from[o] = p.io[o].at + (uint64_t)(at[o] * trp__element_bytes(p.io[o].type));
    slice.shift = p.runs ? (int)(at[0] % TRP__ROWS_RUN) : 0;
    slice.begin = part * p.part - (part > 0 ? slice.shift : 0);
    slice.end = part + 1 < p.parts ? (part + 1) * p.part - slice.shift : p.n;
    s.begin();
    if (p.pass == TRP__SOFTMAX_APPLY) {
        for (int64_t i = (int)threadIdx.x; i < p.parts; i += TRP__SOFTMAX_THREADS)
            s.join(trp__at<T>(p.sums, (row * p.parts + i) * 2),
                   trp__at<T>(p.sums, (row * p.parts + i) * 2 + 1), BACK);
    } else {
        trp__softmax_walk<T, BACK, false>(p, slice, &s, last);
    }
    trp__softmax_together(&s, BACK);
    if (p.pass == TRP__SOFTMAX_SUMS) {
        if (threadIdx.x == 0) {
            trp__to<T>(p.sums, block * 2) = s.most;
            trp__to<T>(p.sums, block * 2 + 1) = s.sum;
        }
        return;
    }
    last.begin(s, BACK, p.log != 0);
    trp__softmax_walk<T, BACK, true>(p, slice, &s, last);
}

/* --- Columns --- */

/* A block has 256 adjacent columns, 8 per lane, and a part of their elements. Each warp has every
 * 8th of these elements, and reads DEEP of them before it uses any. */
template <typename T, int DEEP> struct trp__softmax_tile {
    T v[DEEP][TRP__ROWS_RUN], dy[DEEP][TRP__ROWS_RUN];
};

template <typename T, bool BACK> struct trp__softmax_block {
    enum {
        COUNT = TRP__ROWS_RUN,
        WARPS = TRP__SOFTMAX_WARPS,
        DEEP = sizeof(T) == 8 ? 1 : TRP__SOFTMAX_DEEP
    };
    const trp__softmax &p;
    trp__rows_lanes l;
    int64_t at[3]; /* offsets of the first column, in elements */
    int64_t end;
    int width;
    trp__softmax_sum<T> s[COUNT];
    trp__softmax_last<T> last[COUNT];

    TRP__DEVICE uint64_t place(const trp__rows_operand &o, int64_t first, int64_t k) const
    {
        return o.at + (uint64_t)((first + k * o.step) * trp__element_bytes(o.type));
    }
    TRP__DEVICE void read(int64_t k, trp__softmax_tile<T, DEEP> *t) const
    {
        TRP__EACH(d, DEEP) {
            const int n = k + d * WARPS < end ? width : 0;
            trp__rows_read<T, 1>(l, place(p.io[0], at[0], k + d * WARPS), 1, p.io[0].type, n,
                                 BACK ? T(0) : T(-INFINITY), t->v[d]);
            if (BACK)
                trp__rows_read<T, 1>(l, place(p.io[1], at[1], k + d * WARPS), 1, p.io[1].type, n,
                                     T(0), t->dy[d]);
        }
    }
    TRP__DEVICE void add(const trp__softmax_tile<T, DEEP> &t)
    {
        for (int j = 0; j < COUNT; j++) {
            T term[DEEP];
            for (int d = 0; d < DEEP; d++)
                term[d] = !BACK ? t.v[d][j] : p.log ? t.dy[d][j] : t.dy[d][j] * t.v[d][j];
            s[j].add_all(term, DEEP, BACK);
        }
    }
    TRP__DEVICE void write(int64_t k, trp__softmax_tile<T, DEEP> *t) const
    {
        TRP__EACH(d, DEEP) {
            const int n = k + d * WARPS < end ? width : 0;
            for (int j = 0; j < COUNT; j++)
                t->v[d][j] =
                    BACK ? last[j].backward(t->v[d][j], t->dy[d][j]) : last[j].forward(t->v[d][j]);
            trp__rows_write<T, 1>(l, place(p.io[2], at[2], k + d * WARPS), 1, p.io[2].type, n,
                                  t->v[d]);
        }
    }
    /* Combines the sums of the warps for each column, in the place of the first warp. */
    TRP__DEVICE void together(T shared[2][WARPS][TRP__SOFTMAX_COLUMNS])
    {
        const int warp = (int)threadIdx.x / 32, k = (int)threadIdx.x;
        for (int j = 0; j < COUNT; j++) {
            shared[0][warp][l.place(0, j)] = s[j].most;
            shared[1][warp][l.place(0, j)] = s[j].sum - s[j].lost;
        }
        __syncthreads();
        trp__softmax_sum<T> all;
        all.begin();
        for (int w = 0; w < WARPS; w++)
            all.join(shared[0][w][k], shared[1][w][k], BACK);
        shared[0][0][k] = all.most;
        shared[1][0][k] = all.sum - all.lost;
        __syncthreads();
    }
};

template <typename T, bool BACK> TRP__DEVICE void trp__softmax_columns(const trp__softmax &p)
{
    typedef trp__softmax_block<T, BACK> B;
    __shared__ T shared[2][B::WARPS][TRP__SOFTMAX_COLUMNS];
    const int64_t tiles = (p.columns + TRP__SOFTMAX_COLUMNS - 1) / TRP__SOFTMAX_COLUMNS;
    const int64_t block = p.first + blockIdx.x, column = block % tiles * TRP__SOFTMAX_COLUMNS;
    const int64_t part = block / tiles % p.parts, outer = block / tiles / p.parts;
    const int64_t left = p.columns - column;
    const int64_t sums = ((outer * p.parts) * p.columns + column) * 2;
    const int64_t begin = part * p.part + (int)threadIdx.x / 32;
    B b = {p, {(int)threadIdx.x % 32, 32, 0, p.runs != 0}};
    trp__softmax_tile<T, B::DEEP> t;
    b.width = left < TRP__SOFTMAX_COLUMNS ? (int)left : TRP__SOFTMAX_COLUMNS;
    b.end = part + 1 < p.parts ? (part + 1) * p.part : p.n;
    trp__rows_find<3>(p.space, outer, p.io, b.at);
    for (int o = 0; o < 3; o++)
        b.at[o] += column;
    for (int j = 0; j < B::COUNT; j++)
        b.s[j].begin();
    if (p.pass == TRP__SOFTMAX_APPLY) {
        for (int64_t i = (int)threadIdx.x / 32; i < p.parts; i += B::WARPS) {
            for (int j = 0; j < B::COUNT; j++) {
                const int64_t k = b.l.place(0, j);
                if (k < b.width)
                    b.s[j].join(trp__at<T>(p.sums, sums + (i * p.columns + k) * 2),
                                trp__at<T>(p.sums, sums + (i * p.columns + k) * 2 + 1), BACK);
            }
        }
    } else {
        for (int64_t k = begin; k < b.end; k += B::WARPS * B::DEEP) {
            b.read(k, &t);
            b.add(t);
        }
    }
    b.together(shared);
    for (int j = 0; j < B::COUNT; j++)
        b.s[j] = {shared[0][0][b.l.place(0, j)], shared[1][0][b.l.place(0, j)], T(0)};
    if (p.pass == TRP__SOFTMAX_SUMS) {
        const int64_t k = (int)threadIdx.x;
        if (k < b.width) {
            trp__to<T>(p.sums, sums + (part * p.columns + k) * 2) = shared[0][0][k];
            trp__to<T>(p.sums, sums + (part * p.columns + k) * 2 + 1) = shared[1][0][k];
        }
        return;
    }
    for (int j = 0; j < B::COUNT; j++)
        b.last[j].begin(b.s[j], BACK, p.log != 0);
    const bool once = p.pass == TRP__SOFTMAX_BOTH && p.n <= B::WARPS * B::DEEP;
    for (int64_t k = begin; k < b.end; k += B::WARPS * B::DEEP) {
        if (!once)
            b.read(k, &t);
        b.write(k, &t);
    }
}

TRP__ENTRY(trp_softmax_any_1, trp__softmax, (1024), trp__softmax_rows<float, 1>)
TRP__ENTRY(trp_softmax_any_2, trp__softmax, (1024), trp__softmax_rows<float, 2>)
TRP__ENTRY(trp_softmax_any_4, trp__softmax, (1024), trp__softmax_rows<float, 4>)
TRP__ENTRY(trp_softmax_parts_any, trp__softmax, (TRP__SOFTMAX_THREADS),
           trp__softmax_parts<float, false>)
TRP__ENTRY(trp_softmax_columns_any, trp__softmax, (TRP__SOFTMAX_WARPS * 32),
           trp__softmax_columns<float, false>)
TRP__ENTRY(trp_softmax_back_any_1, trp__softmax, (1024), trp__softmax_rows_back<float, 1>)
TRP__ENTRY(trp_softmax_back_any_2, trp__softmax, (1024), trp__softmax_rows_back<float, 2>)
TRP__ENTRY(trp_softmax_back_parts_any, trp__softmax, (TRP__SOFTMAX_THREADS),
           trp__softmax_parts<float, true>)
TRP__ENTRY(trp_softmax_back_columns_any, trp__softmax, (TRP__SOFTMAX_WARPS * 32),
           trp__softmax_columns<float, true>)
TRP__ENTRY(trp_softmax_f64_1, trp__softmax, (1024), trp__softmax_rows<double, 1>)
TRP__ENTRY(trp_softmax_parts_f64, trp__softmax, (TRP__SOFTMAX_THREADS),
           trp__softmax_parts<double, false>)
TRP__ENTRY(trp_softmax_columns_f64, trp__softmax, (TRP__SOFTMAX_WARPS * 32),
           trp__softmax_columns<double, false>)
TRP__ENTRY(trp_softmax_back_f64_1, trp__softmax, (1024), trp__softmax_rows_back<double, 1>)
TRP__ENTRY(trp_softmax_back_parts_f64, trp__softmax, (TRP__SOFTMAX_THREADS),
           trp__softmax_parts<double, true>)
TRP__ENTRY(trp_softmax_back_columns_f64, trp__softmax, (TRP__SOFTMAX_WARPS * 32),
           trp__softmax_columns<double, true>)

#endif

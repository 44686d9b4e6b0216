#ifndef TRP_ACTORS_DNN_KERNELS_MOVE_GATHER_CUH
#define TRP_ACTORS_DNN_KERNELS_MOVE_GATHER_CUH

#include "actors/dnn/kernels/move/gather.h"
#include "actors/dnn/kernels/map/operands.cuh"
#include "actors/dnn/kernels/common/rows.cuh"

/* The row that an index names; `rows` for none. */
TRP__DEVICE uint32_t trp__gather_row(const trp__gathering &p, uint32_t i)
{
    const int64_t at = (int64_t)i * p.index_stride;
    const int64_t row =
        p.wide_index ? trp__at<int64_t>(p.index, at) : (int64_t)trp__at<int32_t>(p.index, at);
    return row < 0 || row >= (int64_t)p.rows || (p.ignores && row == p.ignore) ? p.rows
                                                                               : (uint32_t)row;
}

/* --- Lines that are copied --- */

/* A unit of the copy: where it is read, and written, in elements. */
struct trp__gather_unit {
    int64_t from, to;
    bool some, good; /* there is such a unit; its index leads somewhere */
};

TRP__DEVICE trp__gather_unit trp__gather_find(const trp__gathering &p, uint32_t unit, int size)
{
    trp__gather_unit u;
    u.some = unit < p.units;
    u.good = false;
    u.from = u.to = 0;
    if (!u.some)
        return u;
    const uint32_t line = trp__quotient(unit, p.chunks), chunk = unit - line * p.chunks.by;
    const uint32_t outer = trp__quotient(line, p.by_count), i = line - outer * p.by_count.by;
    const uint32_t row = trp__gather_row(p, i);
    u.good = row < p.rows;
    u.from = (int64_t)outer * p.whole.outer + (int64_t)row * p.whole.row + (int64_t)chunk * size;
    u.to = (int64_t)outer * p.slices.outer + (int64_t)i * p.slices.row + (int64_t)chunk * size;
    return u;
}

/* 16 bytes of what an index stands for that leads nowhere: NaN; of integers 0. */
TRP__DEVICE trp__pack16 trp__gather_none(uint8_t type)
{
    trp__pack16 p;
    TRP__UNROLL
    for (int k = 0; k < 4; k++)
        p.word[k] = type == TRP_F32    ? 0x7fc00000u
                    : type == TRP_F16  ? 0x7e007e00u
                    : type == TRP_BF16 ? 0x7fc07fc0u
                    : type == TRP_F64  ? (k % 2 ? 0x7ff80000u : 0u)
                                       : 0u;
    return p;
}

template <typename E>
TRP__DEVICE void trp__gather_copy(const trp__gathering &p, const trp__gather_unit u[], int size)
{
    const trp__pack16 none = trp__gather_none(p.whole.type);
    E value[TRP__GATHER_DEEP];
    TRP__UNROLL
    for (int d = 0; d < TRP__GATHER_DEEP; d++) {
        memcpy(&value[d], &none, sizeof none < sizeof(E) ? sizeof none : sizeof(E));
        if (p.whole.type == TRP_F64 && sizeof(E) == 8)
            memcpy(&value[d], &none, 8);
        if (u[d].good)
            value[d] = trp__at<E>(p.whole.at + (uint64_t)(u[d].from * size), 0);
    }
    TRP__UNROLL
    for (int d = 0; d < TRP__GATHER_DEEP; d++) {
        if (u[d].some)
            trp__to<E>(p.slices.at + (uint64_t)(u[d].to * size), 0) = value[d];
    }
}

TRP__GLOBAL(TRP__GATHER_THREADS) trp_gather_lines(const TRP__CONSTANT trp__gathering p)
{
    const int bytes = trp__element_bytes(p.whole.type);
    const uint32_t first = blockIdx.x * (TRP__GATHER_THREADS * TRP__GATHER_DEEP) + threadIdx.x;
    trp__gather_unit u[TRP__GATHER_DEEP];
    TRP__UNROLL
    for (int d = 0; d < TRP__GATHER_DEEP; d++)
        u[d] = trp__gather_find(p, first + (uint32_t)d * TRP__GATHER_THREADS,
                                p.packs ? 16 / bytes : 1);
    if (p.packs) {
        trp__gather_copy<trp__pack16>(p, u, bytes);
    } else if (p.whole.type != p.slices.type) {
        for (int d = 0; d < TRP__GATHER_DEEP; d++) {
            if (u[d].some)
                trp__store<double>(p.slices.at, u[d].to, p.slices.type,
                                   u[d].good ? trp__load<double>(p.whole.at, u[d].from,
                                                                 p.whole.type)
                                             : NAN);
        }
    } else if (bytes == 8) {
        trp__gather_copy<uint64_t>(p, u, bytes);
    } else if (bytes == 4) {
        trp__gather_copy<uint32_t>(p, u, bytes);
    } else if (bytes == 2) {
        trp__gather_copy<uint16_t>(p, u, bytes);
    } else {
        trp__gather_copy<uint8_t>(p, u, bytes);
    }
}

/* --- The list of indices in the order of their rows --- */

/* A warp for each TRP__GATHER_EACH indices: lanes share those that they are compared with. */
TRP__GLOBAL(TRP__GATHER_THREADS) trp_scatter_rank(const TRP__CONSTANT trp__gathering p)
{
    enum { EACH = TRP__GATHER_EACH };
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t mine = blockIdx.x * TRP__GATHER_BLOCK + threadIdx.x / 32 * EACH;
    const uint32_t begin = mine / TRP__GATHER_TILE * TRP__GATHER_TILE;
    const uint32_t end = p.count - begin < TRP__GATHER_TILE ? p.count : begin + TRP__GATHER_TILE;
    uint32_t key[EACH];
    int before[EACH];
    TRP__UNROLL
    for (int u = 0; u < EACH; u++) {
        key[u] = mine + (uint32_t)u < p.count ? trp__gather_row(p, mine + (uint32_t)u) : p.rows;
        before[u] = 0;
    }
    if (mine < p.count) {
#pragma unroll 4
        for (uint32_t j = begin + lane; j < end; j += 32) {
            const uint32_t other = trp__gather_row(p, j);
            TRP__UNROLL
            for (int u = 0; u < EACH; u++)
                before[u] += other < key[u] || (other == key[u] && j < mine + (uint32_t)u);
        }
    }
    trp__rows_together<trp__rows_sum, int, EACH>(before, 32, 0);
    TRP__UNROLL
    for (int u = 0; u < EACH; u++) {
        if (lane == (uint32_t)u && mine + (uint32_t)u < p.count) {
            trp__to<uint32_t>(p.next_key, begin + (uint32_t)before[u]) = key[u];
            trp__to<uint32_t>(p.next_number, begin + (uint32_t)before[u]) = mine + (uint32_t)u;
        }
    }
}

/* The place of an element among those of some lists that follow each other is its own in its list
 * and the number of those in each other one that come before it: the searches go on together. */
TRP__GLOBAL(TRP__GATHER_THREADS) trp_scatter_merge(const TRP__CONSTANT trp__gathering p)
{
    enum { WAYS = TRP__GATHER_WAYS };
    const uint32_t i = blockIdx.x * TRP__GATHER_THREADS + threadIdx.x;
    if (i >= p.count)
        return;
    const uint32_t list = i / p.width, mine = list % WAYS, first = list / WAYS * WAYS * p.width;
    const uint32_t key = trp__at<uint32_t>(p.key, i), left = p.count - first;
    uint32_t to = i - mine * p.width, before[WAYS];
    TRP__UNROLL
    for (int w = 0; w < WAYS; w++)
        before[w] = 0;
    for (uint32_t step = p.width; step > 0; step /= 2) {
        TRP__UNROLL
        for (int w = 0; w < WAYS; w++) {
            const uint32_t next = before[w] + step;
            const uint64_t at = (uint64_t)w * p.width + next;
            if (next > p.width || at > left)
                continue;
            const uint32_t other = trp__at<uint32_t>(p.key, first + at - 1);
            if (other < key || (other == key && (uint32_t)w < mine))
                before[w] = next;
        }
    }
    TRP__UNROLL
    for (int w = 0; w < WAYS; w++)
        to += (uint32_t)w == mine ? 0 : before[w];
    trp__to<uint32_t>(p.next_key, to) = key;
    trp__to<uint32_t>(p.next_number, to) = trp__at<uint32_t>(p.number, i);
}

/* --- Sums --- */

template <typename T, int RUN> struct trp__scatter_sum {
    trp__exact_sum<T> s[RUN];

    TRP__DEVICE void begin()
    {
        TRP__UNROLL
        for (int k = 0; k < RUN; k++)
            s[k] = {0, 0};
    }
    TRP__DEVICE void add(const T v[RUN])
    {
        TRP__UNROLL
        for (int k = 0; k < RUN; k++)
            s[k].add(v[k]);
    }
    TRP__DEVICE void result(T v[RUN]) const
    {
        TRP__UNROLL
        for (int k = 0; k < RUN; k++)
            v[k] = s[k].sum;
    }
};

template <typename T, int RUN>
TRP__DEVICE void trp__scatter_load(uint64_t at, int64_t i, uint8_t type, T v[RUN])
{
    if (RUN == 1)
        v[0] = trp__load_float<T>(at, i, type);
    else
        trp__load_run<T, TRP__GATHER_RUN>(at, i, type, v);
}

template <typename T, int RUN>
TRP__DEVICE void trp__scatter_store(uint64_t at, int64_t i, uint8_t type, const T v[RUN])
{
    if (RUN == 1)
        trp__store_float<T>(at, i, type, v[0]);
    else
        trp__store_run<T, TRP__GATHER_RUN>(at, i, type, v);
}

/* Adds the slices of [from, end) of the list, of a type, from column `column` of each. */
template <typename T, int RUN, int TYPE>
TRP__DEVICE void trp__scatter_add(const trp__gathering &p, uint32_t from, uint32_t end,
                                  int64_t column, trp__scatter_sum<T, RUN> *sum)
{
    enum { DEEP = 4 };
    for (; from < end; from += DEEP) {
        uint32_t number[DEEP];
        T v[DEEP][RUN];
        TRP__UNROLL
        for (int d = 0; d < DEEP; d++)
            number[d] = trp__at<uint32_t>(p.number, from + d < end ? from + d : from);
        TRP__UNROLL
        for (int d = 0; d < DEEP; d++) {
            TRP__UNROLL
            for (int k = 0; k < RUN; k++)
                v[d][k] = 0;
            if (from + d < end)
                trp__scatter_load<T, RUN>(p.slices.at, (int64_t)number[d] * p.slices.row + column,
                                          TYPE, v[d]);
        }
        TRP__UNROLL
        for (int d = 0; d < DEEP; d++)
            sum->add(v[d]);
    }
}

/* A block for 256 runs of the columns of a part of the list. */
template <typename T, int RUN, int TYPE>
TRP__DEVICE void trp__scatter_parts_as(const trp__gathering &p)
{
    const uint32_t across = (p.chunks.by + TRP__GATHER_THREADS - 1) / TRP__GATHER_THREADS;
    const uint32_t columns = blockIdx.x % across, rest = blockIdx.x / across;
    const uint32_t part = rest % p.parts, outer = rest / p.parts;
    const uint32_t from = part * TRP__GATHER_PART, end = from + TRP__GATHER_PART;
    const uint32_t key = trp__at<uint32_t>(p.key, from);
    const int64_t column = ((int64_t)columns * TRP__GATHER_THREADS + threadIdx.x) * RUN;
    trp__scatter_sum<T, RUN> sum;
    T v[RUN];
    if (key == p.rows || trp__at<uint32_t>(p.key, end - 1) != key || column >= p.line)
        return;
    sum.begin();
    trp__scatter_add<T, RUN, TYPE>(p, from, end, (int64_t)outer * p.slices.outer + column, &sum);
    sum.result(v);
    trp__scatter_store<T, RUN>(p.sums, ((int64_t)outer * p.parts + part) * p.line + column,
                               sizeof(T) == 8 ? TRP_F64 : TRP_F32, v);
}

template <typename T, int RUN> TRP__DEVICE void trp__scatter_parts(const trp__gathering &p)
{
#define TRP__SCATTER_PARTS(TYPE) trp__scatter_parts_as<T, RUN, TYPE>(p)
    TRP__ROWS_BY_TYPE(T, p.slices.type, TRP__SCATTER_PARTS);
#undef TRP__SCATTER_PARTS
}

/* How many of the list are below a key, which the lanes of a warp find together. */
TRP__DEVICE uint32_t trp__scatter_search(const trp__gathering &p, uint32_t key)
{
    const uint32_t lane = threadIdx.x % 32;
    uint32_t low = 0, high = p.count;
    while (low < high) { /* 32 of them at a time, one a lane, in even steps */
        const uint32_t step = (high - low + 31) / 32, at = low + lane * step + step - 1;
        const int below = at < high && trp__at<uint32_t>(p.key, at) < key;
        const uint32_t steps = (uint32_t)trp__rows_together<trp__rows_sum, int>(below, 32, 0);
        low += steps * step;
        high = high - low < step - 1 ? high : low + step - 1;
    }
    return low;
}

/* Where the list begins for each of some rows, and behind the last. */
TRP__DEVICE void trp__scatter_starts(const trp__gathering &p, uint32_t first, uint32_t rows,
                                     uint32_t *start)
{
    __shared__ uint32_t ends[2];
    const uint32_t warp = threadIdx.x / 32;
    if (warp < 2) {
        const uint32_t at = trp__scatter_search(p, first + warp * rows);
        if (threadIdx.x % 32 == 0)
            ends[warp] = at;
    }
    __syncthreads();
    for (uint32_t i = ends[0] + threadIdx.x; i <= ends[1]; i += TRP__GATHER_THREADS) {
        const uint32_t from =
            i == ends[0] ? 0 : trp__at<uint32_t>(p.key, i - 1) - first + 1;
        const uint32_t to = i == ends[1] ? rows : trp__at<uint32_t>(p.key, i) - first;
        for (uint32_t row = from; row <= to; row++)
            start[row] = i;
    }
    __syncthreads();
}

template <typename T, int RUN, int TYPE>
TRP__DEVICE void trp__scatter_rows_as(const trp__gathering &p)
{
    __shared__ uint32_t start[TRP__GATHER_ROWS + 1];
    const uint32_t outer = blockIdx.x / p.row_blocks;
    const uint32_t first = blockIdx.x % p.row_blocks * p.block_rows;
    const uint32_t rows = p.rows - first < p.block_rows ? p.rows - first : p.block_rows;
    trp__scatter_starts(p, first, rows, start);
    for (uint32_t unit = threadIdx.x; unit < rows * p.chunks.by; unit += TRP__GATHER_THREADS) {
        const uint32_t row = trp__quotient(unit, p.chunks);
        const int64_t column = (int64_t)(unit - row * p.chunks.by) * RUN;
        const int64_t to =
            (int64_t)outer * p.whole.outer + (int64_t)(first + row) * p.whole.row + column;
        const uint32_t end = start[row + 1];
        trp__scatter_sum<T, RUN> sum;
        T v[RUN];
        if (start[row] == end && p.in_place)
            continue;
        sum.begin();
        if (p.before.at) {
            trp__scatter_load<T, RUN>(p.before.at,
                                      (int64_t)outer * p.before.outer +
                                          (int64_t)(first + row) * p.before.row + column,
                                      p.before.type, v);
            sum.add(v);
        }
        for (uint32_t at = start[row]; at < end;) {
            const uint32_t next = at / TRP__GATHER_PART * TRP__GATHER_PART + TRP__GATHER_PART;
            const uint32_t until = next < end ? next : end;
            if (at % TRP__GATHER_PART == 0 && next <= end) {
                trp__scatter_load<T, RUN>(
                    p.sums,
                    ((int64_t)outer * p.parts + at / TRP__GATHER_PART) * p.line + column,
                    sizeof(T) == 8 ? TRP_F64 : TRP_F32, v);
                sum.add(v);
            } else {
                trp__scatter_add<T, RUN, TYPE>(p, at, until,
                                               (int64_t)outer * p.slices.outer + column, &sum);
            }
            at = until;
        }
        sum.result(v);
        trp__scatter_store<T, RUN>(p.whole.at, to, p.whole.type, v);
    }
}

template <typename T, int RUN> TRP__DEVICE void trp__scatter_rows(const trp__gathering &p)
{
#define TRP__SCATTER_ROWS(TYPE) trp__scatter_rows_as<T, RUN, TYPE>(p)
    TRP__ROWS_BY_TYPE(T, p.slices.type, TRP__SCATTER_ROWS);
#undef TRP__SCATTER_ROWS
}

TRP__GLOBAL(TRP__GATHER_THREADS) trp_scatter_parts_f32_4(const TRP__CONSTANT trp__gathering p)
{
    trp__scatter_parts<float, 4>(p);
}

TRP__GLOBAL(TRP__GATHER_THREADS) trp_scatter_rows_f32_4(const TRP__CONSTANT trp__gathering p)
{
    trp__scatter_rows<float, 4>(p);
}

TRP__GLOBAL(TRP__GATHER_THREADS) trp_scatter_parts_f32_1(const TRP__CONSTANT trp__gathering p)
{
    trp__scatter_parts<float, 1>(p);
}

TRP__GLOBAL(TRP__GATHER_THREADS) trp_scatter_rows_f32_1(const TRP__CONSTANT trp__gathering p)
{
    trp__scatter_rows<float, 1>(p);
}

TRP__GLOBAL(TRP__GATHER_THREADS) trp_scatter_parts_f64_4(const TRP__CONSTANT trp__gathering p)
{
    trp__scatter_parts<double, 4>(p);
}

TRP__GLOBAL(TRP__GATHER_THREADS) trp_scatter_rows_f64_4(const TRP__CONSTANT trp__gathering p)
{
    trp__scatter_rows<double, 4>(p);
}

TRP__GLOBAL(TRP__GATHER_THREADS) trp_scatter_parts_f64_1(const TRP__CONSTANT trp__gathering p)
{
    trp__scatter_parts<double, 1>(p);
}

TRP__GLOBAL(TRP__GATHER_THREADS) trp_scatter_rows_f64_1(const TRP__CONSTANT trp__gathering p)
{
    trp__scatter_rows<double, 1>(p);
}

#endif

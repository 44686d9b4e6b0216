#ifndef TRP_ACTORS_DNN_KERNELS_MOVE_GATHER_CUH
#define TRP_ACTORS_DNN_KERNELS_MOVE_GATHER_CUH

#include "actors/dnn/kernels/move/gather.h"
#include "actors/dnn/kernels/map/operands.cuh"
#include "actors/dnn/kernels/common/packs.cuh"

/* Returns the row that index i names; p.rows: it is ignored or out of range. */
TRP__DEVICE uint32_t trp__gather_row(const trp__gathering &p, uint32_t i)
{
    const int64_t at = (int64_t)i * p.index_stride;
    const int64_t row =
        p.wide_index ? trp__at<int64_t>(p.index, at) : (int64_t)trp__at<int32_t>(p.index, at);
    return row < 0 || row >= (int64_t)p.rows || (p.ignores && row == p.ignore) ? p.rows
                                                                               : (uint32_t)row;
}

/* --- Lines that are copied --- */

/* A unit of the copy: the offsets, in elements, that it is read from and written to. */
struct trp__gather_unit {
    int64_t from, to;
    bool some, good; /* some: the unit exists; good: its index is in range */
};

TRP__DEVICE trp__gather_unit trp__gather_find(const trp__gathering &p, uint32_t unit, int size)
{
    trp__gather_unit u;
    u.some = unit < p.units;
    u.good = false;
    u.from = u.to = 0;
    if (!u.some)
        return u;
    const uint32_t line = trp__map_quotient(unit, &p.chunks), chunk = unit - line * p.chunks.by;
    const uint32_t outer = trp__map_quotient(line, &p.by_count), i = line - outer * p.by_count.by;
    const uint32_t row = trp__gather_row(p, i);
    u.good = row < p.rows;
    u.from = (int64_t)outer * p.whole.outer + (int64_t)row * p.whole.row + (int64_t)chunk * size;
    u.to = (int64_t)outer * p.slices.outer + (int64_t)i * p.slices.row + (int64_t)chunk * size;
    return u;
}

/* Returns 16 bytes of the element for an index out of range: NaN, or 0 for integers. */
TRP__DEVICE trp__pack16 trp__gather_none(uint8_t type)
{
    trp__pack16 p;
    TRP__EACH(k, 4)
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
    TRP__EACH(d, TRP__GATHER_DEEP) {
        memcpy(&value[d], &none, sizeof(E));
        if (u[d].good)
            value[d] = trp__at<E>(p.whole.at + (uint64_t)(u[d].from * size), 0);
    }
    TRP__EACH(d, TRP__GATHER_DEEP) {
        if (u[d].some)
            trp__to<E>(p.slices.at + (uint64_t)(u[d].to * size), 0) = value[d];
    }
}

TRP__GLOBAL(TRP__GATHER_THREADS) trp_gather_lines(const TRP__CONSTANT trp__gathering p)
{
    const int bytes = trp__element_bytes(p.whole.type);
    const uint32_t first = blockIdx.x * (TRP__GATHER_THREADS * TRP__GATHER_DEEP) + threadIdx.x;
    trp__gather_unit u[TRP__GATHER_DEEP];
    TRP__EACH(d, TRP__GATHER_DEEP)
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

/* Counts the keys of `count` packs that are smaller than `key` or, if EQUAL, the same. */
template <bool EQUAL>
TRP__DEVICE uint32_t trp__scatter_before(const trp__pack16 *from, int count, uint32_t key)
{
    uint32_t before[4] = {0, 0, 0, 0};
#pragma unroll 4
    for (int c = 0; c < count; c++) {
        const trp__pack16 other = from[c];
        TRP__EACH(k, 4)
            before[k] += EQUAL ? other.word[k] <= key : other.word[k] < key;
    }
    return before[0] + before[1] + before[2] + before[3];
}

/* Sorts each tile by itself: a block for a tile, a thread for each index. */
TRP__GLOBAL(TRP__GATHER_TILE) trp_scatter_rank(const TRP__CONSTANT trp__gathering p)
{
    enum { PACKS = TRP__GATHER_TILE / 4, OWN = 8 };
    __shared__ trp__pack16 keys[PACKS];
    const uint32_t begin = blockIdx.x * TRP__GATHER_TILE, i = begin + threadIdx.x;
    const int own = (int)threadIdx.x / 32 * OWN; /* the warp's first pack */
    const uint32_t key = i < p.count ? trp__gather_row(p, i) : UINT32_MAX;
    keys[threadIdx.x / 4].word[threadIdx.x % 4] = key;
    __syncthreads();
    uint32_t before = trp__scatter_before<true>(keys, own, key) +
                      trp__scatter_before<false>(keys + own, PACKS - own, key);
    for (uint32_t j = threadIdx.x / 32 * 32; j < threadIdx.x; j++)
        before += keys[j / 4].word[j % 4] == key;
    if (i < p.count) {
        trp__to<uint32_t>(p.next_key, begin + before) = key;
        trp__to<uint32_t>(p.next_number, begin + before) = i;
    }
}

/* Merges each WAYS neighbouring lists into one. The index of an element is that in its own list
 * plus, for each other list, the number of elements that come before it. Binary searches find these
 * numbers, all at a time. */
TRP__GLOBAL(TRP__GATHER_THREADS) trp_scatter_merge(const TRP__CONSTANT trp__gathering p)
{
    enum { WAYS = TRP__GATHER_WAYS };
    const uint32_t i = blockIdx.x * TRP__GATHER_THREADS + threadIdx.x;
    if (i >= p.count)
        return;
    const uint32_t list = i / p.width, mine = list % WAYS, first = list / WAYS * WAYS * p.width;
    const uint32_t key = trp__at<uint32_t>(p.key, i), left = p.count - first;
    uint32_t to = i - mine * p.width, before[WAYS];
    TRP__EACH(w, WAYS)
        before[w] = 0;
    for (uint32_t step = p.width; step > 0; step /= 2) {
        TRP__EACH(w, WAYS) {
            const uint32_t next = before[w] + step;
            const uint64_t at = (uint64_t)w * p.width + next;
            if (next > p.width || at > left)
                continue;
            const uint32_t other = trp__at<uint32_t>(p.key, first + at - 1);
            if (other < key || (other == key && (uint32_t)w < mine))
                before[w] = next;
        }
    }
    TRP__EACH(w, WAYS)
        to += (uint32_t)w == mine ? 0 : before[w];
    trp__to<uint32_t>(p.next_key, to) = key;
    trp__to<uint32_t>(p.next_number, to) = trp__at<uint32_t>(p.number, i);
}

/* --- Sums --- */

/* RUN neighbouring elements of a type; unconverted if T is f32. */
template <typename T, int RUN, int TYPE> struct trp__scatter_run {
    T v[RUN];

    TRP__DEVICE void load(uint64_t at, int64_t i)
    {
        trp__load_some<T, RUN>(at, i, TYPE, v);
    }
    TRP__DEVICE T get(int k) const
    {
        return v[k];
    }
};
template <int RUN, int TYPE> struct trp__scatter_run<float, RUN, TYPE> {
    trp__pack<TYPE, RUN> v;

    TRP__DEVICE void load(uint64_t at, int64_t i)
    {
        v.load(at, i, TYPE);
    }
    TRP__DEVICE float get(int k) const
    {
        return v.get(k);
    }
};

template <typename T, int RUN> struct trp__scatter_sum {
    trp__exact_sum<T> s[RUN];

    TRP__DEVICE void begin()
    {
        TRP__EACH(k, RUN)
            s[k] = {0, 0};
    }
    /* Begins with v. Gives the same bits as add() to an empty sum. */
    template <typename R> TRP__DEVICE void begin(const R &v)
    {
        TRP__EACH(k, RUN)
            s[k] = {T(0) + v.get(k), 0};
    }
    template <typename R> TRP__DEVICE void add(const R &v)
    {
        TRP__EACH(k, RUN)
            s[k].add(v.get(k));
    }
    TRP__DEVICE void store(uint64_t at, int64_t i, uint8_t type) const
    {
        T v[RUN];
        TRP__EACH(k, RUN)
            v[k] = s[k].sum;
        trp__store_some<T, RUN>(at, i, type, v);
    }
};

/* Adds entries [from, end) of the list: of each slice RUN columns, from `column` on. */
template <typename T, int RUN, int TYPE>
TRP__DEVICE void trp__scatter_add(const trp__gathering &p, uint32_t from, uint32_t end,
                                  int64_t column, trp__scatter_sum<T, RUN> *sum)
{
    enum { DEEP = 4 };
    for (; from < end; from += DEEP) {
        uint32_t number[DEEP];
        trp__scatter_run<T, RUN, TYPE> v[DEEP];
        TRP__EACH(d, DEEP)
            number[d] = trp__at<uint32_t>(p.number, from + d < end ? from + d : from);
        TRP__EACH(d, DEEP)
            v[d].load(p.slices.at, (int64_t)number[d] * p.slices.row + column);
        TRP__EACH(d, DEEP) {
            if (from + d < end)
                sum->add(v[d]);
        }
    }
}

/* Finds by binary search where the list begins for a row; for p.rows, where its indices that name
 * no row begin. Neighbouring threads read the same keys. */
TRP__DEVICE void trp__scatter_starts(const trp__gathering &p)
{
    const uint32_t row = blockIdx.x * TRP__GATHER_THREADS + threadIdx.x;
    uint32_t low = 0, high = p.count;
    if (row > p.rows)
        return;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (trp__at<uint32_t>(p.key, middle) < row)
            low = middle + 1;
        else
            high = middle;
    }
    trp__to<uint32_t>(p.starts, row) = low;
}

/* Sums a part of the list, if all of it belongs to one row: a block for 256 runs of columns. */
template <typename T, int RUN, int TYPE>
TRP__DEVICE void trp__scatter_parts_as(const trp__gathering &p)
{
    const uint32_t across = (p.chunks.by + TRP__GATHER_THREADS - 1) / TRP__GATHER_THREADS;
    const uint32_t block = blockIdx.x - p.start_blocks;
    const uint32_t columns = block % across, rest = block / across;
    const uint32_t part = rest % p.parts, outer = rest / p.parts;
    const uint32_t from = part * TRP__GATHER_PART, end = from + TRP__GATHER_PART;
    const uint32_t key = trp__at<uint32_t>(p.key, from);
    const int64_t column = ((int64_t)columns * TRP__GATHER_THREADS + threadIdx.x) * RUN;
    trp__scatter_sum<T, RUN> sum;
    if (key == p.rows || trp__at<uint32_t>(p.key, end - 1) != key || column >= p.line)
        return;
    sum.begin();
    trp__scatter_add<T, RUN, TYPE>(p, from, end, (int64_t)outer * p.slices.outer + column, &sum);
    sum.store(p.sums, ((int64_t)outer * p.parts + part) * p.line + column,
              sizeof(T) == 8 ? TRP_F64 : TRP_F32);
}

/* Calls `call` with the type of slices as a constant. Runs of TRP__GATHER_LONG are of 16 bits. */
#define TRP__SCATTER_BY_TYPE(call)                                                                 \
    do {                                                                                           \
        if constexpr (RUN == TRP__GATHER_LONG) {                                                   \
            if (p.slices.type == TRP_BF16)                                                         \
                call(TRP_BF16);                                                                    \
            else                                                                                   \
                call(TRP_F16);                                                                     \
        } else {                                                                                   \
            TRP__ROWS_BY_TYPE(T, p.slices.type, call);                                             \
        }                                                                                          \
    } while (0)

template <typename T, int RUN> TRP__DEVICE void trp__scatter_parts(const trp__gathering &p)
{
    if (blockIdx.x < p.start_blocks) {
        trp__scatter_starts(p);
        return;
    }
#define TRP__SCATTER_PARTS(TYPE) trp__scatter_parts_as<T, RUN, TYPE>(p)
    TRP__SCATTER_BY_TYPE(TRP__SCATTER_PARTS);
#undef TRP__SCATTER_PARTS
}

/* Adds entries [at, end) of the list, which belong to one row; whole parts by their sums. */
template <typename T, int RUN, int TYPE>
TRP__DEVICE void trp__scatter_row(const trp__gathering &p, uint32_t at, uint32_t end,
                                  uint32_t outer, int64_t column, trp__scatter_sum<T, RUN> *sum)
{
    while (at < end) {
        const uint32_t next = at / TRP__GATHER_PART * TRP__GATHER_PART + TRP__GATHER_PART;
        const uint32_t until = next < end ? next : end;
        if (at % TRP__GATHER_PART == 0 && next <= end) {
            trp__scatter_run<T, RUN, sizeof(T) == 8 ? TRP_F64 : TRP_F32> v;
            v.load(p.sums, ((int64_t)outer * p.parts + at / TRP__GATHER_PART) * p.line + column);
            sum->add(v);
        } else {
            trp__scatter_add<T, RUN, TYPE>(p, at, until,
                                           (int64_t)outer * p.slices.outer + column, sum);
        }
        at = until;
    }
}

/* Begins with the operand that slices are added to, of any type. */
template <typename T, int RUN>
TRP__DEVICE void trp__scatter_begin(const trp__gathering &p, int64_t i,
                                    trp__scatter_sum<T, RUN> *sum)
{
#define TRP__SCATTER_BEGIN(TYPE)                                                                   \
    do {                                                                                           \
        trp__scatter_run<T, RUN, TYPE> v;                                                          \
        v.load(p.before.at, i);                                                                    \
        sum->begin(v);                                                                             \
    } while (0)
    TRP__ROWS_BY_TYPE(T, p.before.type, TRP__SCATTER_BEGIN);
#undef TRP__SCATTER_BEGIN
}

/* A thread has one run of columns of TRP__GATHER_ROWS neighbouring rows. The first slices of all
 * these rows, most often the only ones, are in flight before any is added. */
template <typename T, int RUN, int TYPE>
TRP__DEVICE void trp__scatter_rows_as(const trp__gathering &p)
{
    enum { ROWS = TRP__GATHER_ROWS };
    const uint32_t outer = blockIdx.x / p.row_blocks;
    const uint32_t unit = blockIdx.x % p.row_blocks * TRP__GATHER_THREADS + threadIdx.x;
    const uint32_t group = trp__map_quotient(unit, &p.chunks), first = group * ROWS;
    const int64_t column = (int64_t)(unit - group * p.chunks.by) * RUN;
    const int64_t from = (int64_t)outer * p.slices.outer + column;
    uint32_t start[ROWS + 1], number[ROWS];
    trp__scatter_run<T, RUN, TYPE> v[ROWS];
    if (first >= p.rows)
        return;
    TRP__UNROLL
    for (int r = 0; r <= ROWS; r++)
        start[r] = trp__at<uint32_t>(p.starts, first + r < p.rows ? first + r : p.rows);
    TRP__EACH(r, ROWS)
        number[r] = start[r] < start[r + 1] ? trp__at<uint32_t>(p.number, start[r]) : 0;
    TRP__EACH(r, ROWS) {
        if (start[r] < start[r + 1])
            v[r].load(p.slices.at, (int64_t)number[r] * p.slices.row + from);
    }
    TRP__EACH(r, ROWS) {
        const int64_t row = first + r;
        uint32_t at = start[r];
        const uint32_t end = start[r + 1];
        trp__scatter_sum<T, RUN> sum;
        if (row >= p.rows || (at == end && p.in_place))
            continue;
        sum.begin();
        if (p.before.at)
            trp__scatter_begin<T, RUN>(
                p, (int64_t)outer * p.before.outer + row * p.before.row + column, &sum);
        if (at < end && (at % TRP__GATHER_PART != 0 || end - at < TRP__GATHER_PART)) {
            if (p.before.at)
                sum.add(v[r]);
            else
                sum.begin(v[r]);
            at++;
        }
        trp__scatter_row<T, RUN, TYPE>(p, at, end, outer, column, &sum);
        sum.store(p.whole.at, (int64_t)outer * p.whole.outer + row * p.whole.row + column,
                  p.whole.type);
    }
}

template <typename T, int RUN> TRP__DEVICE void trp__scatter_rows(const trp__gathering &p)
{
#define TRP__SCATTER_ROWS(TYPE) trp__scatter_rows_as<T, RUN, TYPE>(p)
    TRP__SCATTER_BY_TYPE(TRP__SCATTER_ROWS);
#undef TRP__SCATTER_ROWS
}

/* BLOCKS: blocks of the kernel of rows that a multiprocessor holds at least, which limits
 * registers. */
#define TRP__SCATTER_KERNELS(name, T, RUN, BLOCKS)                                                 \
    TRP__ENTRY(name##_parts, trp__gathering, (TRP__GATHER_THREADS), trp__scatter_parts<T, RUN>)    \
    TRP__ENTRY(name##_rows, trp__gathering, (TRP__GATHER_THREADS, BLOCKS),                         \
               trp__scatter_rows<T, RUN>)

TRP__SCATTER_KERNELS(trp_scatter_f32_1, float, 1, 4)
TRP__SCATTER_KERNELS(trp_scatter_f32_4, float, 4, 4)
TRP__SCATTER_KERNELS(trp_scatter_f32_8, float, 8, 4)
TRP__SCATTER_KERNELS(trp_scatter_f64_1, double, 1, 1)
TRP__SCATTER_KERNELS(trp_scatter_f64_4, double, 4, 1)

#endif

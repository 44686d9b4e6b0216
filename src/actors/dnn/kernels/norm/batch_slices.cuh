/* Batch norm of groups of rows in one pass, by clusters: each block has a slice of a group. A
 * cluster does one group after the other. While it works on one, it copies tiles of the next into
 * free slots of shared memory, so that memory does not idle while sums are exchanged. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_BATCH_SLICES_CUH
#define TRP_ACTORS_DNN_KERNELS_NORM_BATCH_SLICES_CUH

#include "actors/dnn/kernels/common/async.cuh"
#include "actors/dnn/kernels/norm/batch_passes.cuh"
#include "actors/dnn/kernels/common/cluster.cuh"
#include "actors/dnn/kernels/common/row_packs.cuh"

/* The ring of a block's tiles in shared memory, in whose slots each thread has places of its own.
 * The entries of a group are all its tiles, and then, the last first, those that were overwritten
 * before the sums were known. Entries are copied and freed in one order. */
template <int TYPE, int V, bool BACK> struct trp__batch_ring : trp__batch_rows<TYPE, V> {
    typedef trp__batch_rows<TYPE, V> R;
    typedef typename R::pack pack;
    typedef typename trp__raw<V * pack::SIZE>::type raw;
    enum {
        OPERANDS = BACK ? 2 : 1,
        DEEP = TRP__SLICE_BYTES / (OPERANDS * (int)sizeof(raw)),
        LOADS = OPERANDS * DEEP,
    };
    raw *shared;
    uint32_t ahead, step; /* group whose entries are copied next; from it to the next */
    int tiles, room, entries;
    int entry, to; /* entry that is copied next; its slot */
    int under_way; /* batches of copies after that of the current entry */

    TRP__DEVICE int tile(int e) const
    {
        return e < tiles ? e : entries - 1 - e;
    }
    TRP__DEVICE int next_slot(int slot) const
    {
        return slot + 1 == room ? 0 : slot + 1;
    }
    TRP__DEVICE uint32_t element(int tile, int c) const
    {
        return R::begin + (uint32_t)(tile * DEEP + c) * (blockDim.x * V);
    }
    TRP__DEVICE raw *place(int slot, int c, int o) const
    {
        return shared + (slot * LOADS + c * OPERANDS + o) * (int)blockDim.x;
    }
    TRP__DEVICE void find_ahead()
    {
        int64_t at[OPERANDS];
        trp__row_packs_find<OPERANDS>(R::p.space, ahead, R::p.io, at);
        TRP__EACH(o, OPERANDS)
            R::from[o] = R::address(o, at[o]);
    }
    /* Returns the address of a group's results. */
    TRP__DEVICE uint64_t results(uint32_t group) const
    {
        enum { OUT = BACK ? TRP__BATCH_DX : TRP__BATCH_Y };
        int64_t at;
        trp__row_packs_find<1>(R::p.space, group, R::p.io + OUT, &at);
        return R::address(OUT, at);
    }
    TRP__DEVICE void copy()
    {
        const int t = tile(entry);
        TRP__EACH(c, DEEP) {
            const uint32_t e = element(t, c);
            if (e >= R::end || ahead >= R::p.space.rows)
                continue;
            TRP__EACH(o, OPERANDS)
                trp__async_copy(place(to, c, o),
                                R::from[o] + (uint64_t)R::offset(o, e) * pack::SIZE);
        }
        trp__async_commit();
        to = next_slot(to);
        under_way++;
        if (++entry < entries)
            return;
        entry = 0;
        ahead += step;
        find_ahead();
    }
    TRP__DEVICE void start(raw *at, uint32_t first, uint32_t apart)
    {
        shared = at + threadIdx.x;
        ahead = first;
        step = apart;
        room = R::p.room;
        tiles = (int)((R::p.part / V + DEEP * blockDim.x - 1) / (DEEP * blockDim.x));
        entries = tiles > room ? 2 * tiles - room : tiles;
        entry = to = 0;
        under_way = -1;
        find_ahead();
        for (int i = 0; i < room; i++)
            copy();
    }
    TRP__DEVICE void wait() const
    {
        trp__async_wait_for(under_way);
    }
};

/* The moments of a thread's elements of a group. */
template <int TYPE, int V> struct trp__batch_slice_moments {
    typedef trp__pack<TYPE, V> pack;
    trp__batch_moments m;
    float count, s1, s2, some;

    TRP__DEVICE void begin(const double *)
    {
        m = {0, 0, 0};
        count = 0;
    }
    TRP__DEVICE void begin_tile()
    {
        s1 = s2 = some = 0;
    }
    TRP__DEVICE void add(const pack v[1])
    {
        m.mid = count + some > 0 ? m.mid : v[0].get(0);
        some += V;
        TRP__EACH(j, V) {
            const float away = v[0].get(j) - m.mid;
            s1 += away;
            s2 = fmaf(away, away, s2);
        }
    }
    TRP__DEVICE void end_tile()
    {
        if (some == 0)
            return;
        count += some;
        m.join(s1, s2, some, 1.0f / count);
    }
    TRP__DEVICE void end(const trp__batch &p, int64_t group, int64_t part, const double *number,
                         double s[2]) const
    {
        const float pivot = trp__batch_pivot((float)number[TRP__BATCH_X]);
        m.sums(count, pivot, s);
        if (m.fails(p))
            trp__batch_precise_rows(p, group, part, V, pivot, s);
    }
};

/* Sums of dy h and dy of a thread's elements of a group. */
template <int TYPE, int V> struct trp__batch_slice_sums {
    typedef trp__pack<TYPE, V> pack;
    trp__batch_factors<1> f;
    trp__exact_sum<float> sum_h, sum;
    float some_h, some;

    TRP__DEVICE void begin(const double *number)
    {
        f.mean[0] = 0.5f * (float)number[TRP__BATCH_MEAN];
        f.inverse[0] = (float)number[TRP__BATCH_INVERSE];
        sum_h = sum = {0, 0};
    }
    TRP__DEVICE void begin_tile()
    {
        some_h = some = 0;
    }
    TRP__DEVICE void add(const pack v[2])
    {
        TRP__EACH(j, V) {
            some_h = fmaf(v[1].get(j), f.normal(0, v[0].get(j)), some_h);
            some += v[1].get(j);
        }
    }
    TRP__DEVICE void end_tile()
    {
        sum_h.add(some_h);
        sum.add(some);
    }
    TRP__DEVICE void end(const trp__batch &p, int64_t group, int64_t part, const double *number,
                         double s[2]) const
    {
        s[0] = (double)sum_h.sum - (double)sum_h.lost;
        s[1] = (double)sum.sum - (double)sum.lost;
        if (!trp__batch_is_finite(s))
            trp__batch_precise_back_rows(p, group, part, V, (double)(float)number[TRP__BATCH_MEAN],
                                         (double)(float)number[TRP__BATCH_INVERSE], s);
    }
};

template <bool BACK, int TYPE, int V> struct trp__batch_slice_adds {
    typedef trp__batch_slice_moments<TYPE, V> type;
};
template <int TYPE, int V> struct trp__batch_slice_adds<true, TYPE, V> {
    typedef trp__batch_slice_sums<TYPE, V> type;
};

/* Indices of the numbers of a group and of the request: first those of operands, then these. Each
 * lane of a warp reads one of them, a group ahead. */
enum { TRP__BATCH_EPSILON = TRP__BATCH_OPERANDS, TRP__BATCH_AVERAGE, TRP__BATCH_NUMBERS };

template <bool BACK> TRP__DEVICE double trp__batch_number_of(const trp__batch &p, uint32_t group)
{
    const int lane = (int)threadIdx.x % 32;
    const uint32_t wanted =
        BACK ? 1u << TRP__BATCH_SCALE | 1u << TRP__BATCH_MEAN | 1u << TRP__BATCH_INVERSE
             : 1u << TRP__BATCH_X | 1u << TRP__BATCH_SCALE | 1u << TRP__BATCH_BIAS |
                   1u << TRP__BATCH_RUNNING_MEAN | 1u << TRP__BATCH_RUNNING_VARIANCE;
    if (lane == TRP__BATCH_EPSILON)
        return trp__batch_value(p.epsilon);
    if (lane == TRP__BATCH_AVERAGE)
        return trp__batch_value(p.average);
    if (group >= p.space.rows || lane > TRP__BATCH_AVERAGE || !(wanted >> lane & 1))
        return 0;
    const trp__rows_operand &o = p.io[lane];
    int64_t at;
    trp__row_packs_find<1>(p.space, group, &o, &at);
    return o.at ? trp__load_float<double>(o.at, at, o.type) : lane == TRP__BATCH_SCALE;
}

/* Sets the factors of a group from its numbers and the results of its sums. */
template <bool BACK>
TRP__DEVICE void trp__batch_set_factors(const trp__batch &p, const double from[TRP__BATCH_NUMBERS],
                                        const trp__batch_found &found,
                                        float out[TRP__BATCH_FACTORS])
{
    out[TRP__BATCH_F_MEAN] = (float)from[TRP__BATCH_MEAN];
    out[TRP__BATCH_F_INVERSE] = (float)from[TRP__BATCH_INVERSE];
    out[TRP__BATCH_F_SCALE] = (float)from[TRP__BATCH_SCALE];
    out[TRP__BATCH_F_BIAS] = (float)from[TRP__BATCH_BIAS];
    out[TRP__BATCH_F_REST] = out[TRP__BATCH_F_SLOPE] = 0;
    found.set(p, out);
}

template <bool BACK>
TRP__DEVICE void trp__batch_leave_group(const trp__batch &p, int64_t group, const double s[2],
                                        const trp__batch_found &found,
                                        const double from[TRP__BATCH_NUMBERS])
{
    if (BACK) {
        trp__to<double>(p.totals, group * 2) = s[0];
        trp__to<double>(p.totals, group * 2 + 1) = s[1];
    } else {
        trp__batch_place place;
        place.find(p, group);
        trp__batch_write(p, place, 0, found, from + TRP__BATCH_RUNNING_MEAN,
                         from[TRP__BATCH_AVERAGE]);
    }
}

template <int TYPE, int V, bool BACK> TRP__DEVICE void trp__batch_slices(const trp__batch &p)
{
    typedef trp__batch_ring<TYPE, V, BACK> T;
    enum { OUT = BACK ? TRP__BATCH_DX : TRP__BATCH_Y, OPERANDS = T::OPERANDS };
    __shared__ double numbers[2][TRP__BATCH_NUMBERS];
    __shared__ float factors[TRP__BATCH_FACTORS];
    TRP__DYNAMIC(typename T::raw, shared);
    const int blocks = (int)p.parts, warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int reader = (int)blockDim.x / 32 - 1;
    const double none[2] = {0, 0};
    const uint32_t first = blockIdx.x / (uint32_t)blocks, step = gridDim.x / (uint32_t)blocks;
    const uint32_t part = blockIdx.x % (uint32_t)blocks;
    T ring = {{p}};
    int slot = 0, odd = 0, turn = 0; /* slot: that of the current entry */
    ring.part(part);
    if (first % 2 == 1)
        trp__pause(p.pause);
    ring.start(shared, first, step);
    if (warp == reader && lane < TRP__BATCH_NUMBERS)
        numbers[0][lane] = trp__batch_number_of<BACK>(p, first);
    trp__cluster_begin(blocks);
    __syncthreads();
    TRP__ROLLED
    for (uint32_t group = first; group < p.space.rows; group += step, odd ^= 1) {
        const int held = ring.tiles < ring.room ? ring.tiles : ring.room;
        double early = 0, s[2];
        if (warp == reader)
            early = trp__batch_number_of<BACK>(p, group + step);
        typename trp__batch_slice_adds<BACK, TYPE, V>::type sums;
        sums.begin(numbers[odd]);
        int at = slot;
        for (int t = 0; t < ring.tiles; t++) {
            typename T::pack v[OPERANDS];
            ring.wait();
            sums.begin_tile();
            TRP__EACH(c, T::DEEP) {
                if (ring.element(t, c) >= ring.end)
                    continue;
                TRP__EACH(o, OPERANDS)
                    v[o].take(*ring.place(at, c, o));
                sums.add(v);
            }
            sums.end_tile();
            at = ring.next_slot(at);
            ring.under_way--;
            if (t < ring.tiles - held) {
                slot = at;
                ring.copy();
            }
        }
        sums.end(p, group, part, numbers[odd], s);
        trp__rows_together<trp__rows_sum, double, 2>(s, (int)blockDim.x, 0.0);
        if (warp == reader && lane < TRP__BATCH_NUMBERS)
            numbers[!odd][lane] = early; /* all threads are done with those of the group before */
        trp__cluster_exchange(s, blocks, none, turn++);
        trp__batch_found found = {0, 0, 0, 0};
        if (warp == 0) {
            trp__rows_together<trp__rows_sum, double, 2>(s, 32, 0.0);
            if (lane == 0) {
                const float pivot = trp__batch_pivot((float)numbers[odd][TRP__BATCH_X]);
                found = trp__batch_solve(p, pivot, s, numbers[odd][TRP__BATCH_EPSILON]);
                trp__batch_set_factors<BACK>(p, numbers[odd], found, factors);
            }
        }
        __syncthreads();
        trp__batch_factors<1> f;
        f.set(BACK, factors);
        if (part == 0 && threadIdx.x == 0)
            trp__batch_leave_group<BACK>(p, group, s, found, numbers[odd]);
        const uint64_t results = ring.results(group);
        for (int e = ring.tiles - held; e < ring.entries; e++) {
            const int t = ring.tile(e);
            if (e >= ring.tiles)
                ring.wait();
            TRP__EACH(c, T::DEEP) {
                typename T::pack x[OPERANDS];
                if (ring.element(t, c) >= ring.end)
                    continue;
                TRP__EACH(o, OPERANDS)
                    x[o].take(*ring.place(slot, c, o));
                f.template apply<BACK>(&x[0], &x[OPERANDS - 1]);
                x[0].store(results, ring.offset(OUT, ring.element(t, c)), TYPE);
            }
            slot = ring.next_slot(slot);
            if (e >= ring.tiles)
                ring.under_way--;
            ring.copy();
        }
    }
    trp__cluster_leave(blocks);
    trp__cluster_end(blocks);
}

#define TRP__BATCH_SLICES(name, TYPE, V)                                                           \
    TRP__ENTRY(name##_slices, trp__batch, (TRP__SLICE_THREADS), trp__batch_slices<TYPE, V, false>) \
    TRP__ENTRY(name##_back_slices, trp__batch, (TRP__SLICE_THREADS),                               \
               trp__batch_slices<TYPE, V, true>)

TRP__BATCH_SLICES(trp_batch_rows_f32_4, TRP_F32, 4)
TRP__BATCH_SLICES(trp_batch_rows_bf16_8, TRP_BF16, 8)
TRP__BATCH_SLICES(trp_batch_rows_bf16_4, TRP_BF16, 4)
TRP__BATCH_SLICES(trp_batch_rows_f16_8, TRP_F16, 8)
TRP__BATCH_SLICES(trp_batch_rows_f16_4, TRP_F16, 4)

#endif

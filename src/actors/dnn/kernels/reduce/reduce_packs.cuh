/* Reductions of a type known at compile time, see reduce.h: of rows whose elements lie next to each
 * other, in packs of 16 bytes, and of columns, in packs or one by one. */
#ifndef TRP_ACTORS_DNN_KERNELS_REDUCE_REDUCE_PACKS_CUH
#define TRP_ACTORS_DNN_KERNELS_REDUCE_REDUCE_PACKS_CUH

#include "actors/dnn/kernels/common/cluster.cuh"
#include "actors/dnn/kernels/reduce/reduce.cuh"
#include "actors/dnn/kernels/common/row_packs.cuh"

/* Returns the larger number, or NaN if either is NaN. */
TRP__DEVICE float trp__reduce_top(float a, float b)
{
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 800
    float out;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
    return out;
#else
    return trp__most<float>(a, b);
#endif
}

/* The accumulator of elements of a type: f32 for extremes, f64 for sums. */
template <int TYPE, int KIND> struct trp__reduce_packed {
    enum { EXTREME = KIND == TRP__REDUCE_EXTREMES };
    typedef trp__reducer<KIND, false> R;
    template <bool YES, int> struct own {
        typedef float type;
    };
    template <int UNUSED> struct own<false, UNUSED> {
        typedef double type;
    };
    typedef typename own<EXTREME, 0>::type total;

    /* Returns the element that changes no result. */
    TRP__DEVICE static float none(const trp__reduce &r)
    {
        if (!EXTREME || r.absolute)
            return 0;
        return r.negative ? INFINITY : -INFINITY;
    }
    TRP__DEVICE static total first()
    {
        return EXTREME ? total(-INFINITY) : total(0);
    }
    /* Takes the magnitudes or the negatives of all elements of a pack, if the reduction needs
     * them. */
    template <int V> TRP__DEVICE static void prepare(const trp__reduce &r, trp__pack<TYPE, V> *v)
    {
        const uint32_t sign = TYPE == TRP_F32 ? 0x80000000u : 0x80008000u;
        const uint32_t keep = r.absolute ? ~sign : ~0u, turn = r.negative ? sign : 0;
        TRP__EACH(k, trp__pack<TYPE, V>::WORDS)
            v->word[k] = (v->word[k] & keep) ^ turn;
    }
    TRP__DEVICE static void prepare(const trp__reduce &r, trp__pack<TYPE, 1> *v)
    {
        const float x = r.absolute ? fabs(v->value) : v->value;
        v->value = r.negative ? -x : x;
    }
    /* Adds N elements. Sums of 16-bit elements begin in f32, scaled so that they can't overflow:
     * sums of pairs, then of pairs of these, so that an element is rounded log2(N) times, not N. */
    template <int N> TRP__DEVICE static void add(total *t, float v[N])
    {
        if constexpr (EXTREME) {
            TRP__UNROLL
            for (int by = N / 2; by > 0; by /= 2) {
                TRP__EACH(j, by)
                    v[j] = trp__reduce_top(v[j], v[j + by]);
            }
            *t = trp__reduce_top(*t, v[0]);
        } else if constexpr (KIND == TRP__REDUCE_SUMS && TYPE != TRP_F32 && N > 1) {
            TRP__EACH(j, N / 2)
                v[j] = fmaf(v[j + N / 2], 1.0f / N, v[j] * (1.0f / N));
            TRP__UNROLL
            for (int by = N / 4; by > 0; by /= 2) {
                TRP__EACH(j, by)
                    v[j] += v[j + by];
            }
            *t = fma((double)v[0], (double)N, *t);
        } else {
            TRP__EACH(j, N) {
                const double x = v[j];
                *t = KIND == TRP__REDUCE_SUMS ? *t + x : fma(x, x, *t);
            }
        }
    }
    /* Adds packs of N rows, each to the accumulators of its columns. For 16 bits one instruction
     * finds the extremes of two columns. */
    template <int V, int N>
    TRP__DEVICE static void add_packs(const trp__reduce &r, total t[V], trp__pack<TYPE, V> v[N])
    {
        TRP__EACH(f, N)
            prepare(r, &v[f]);
        if constexpr (EXTREME && TYPE != TRP_F32 && V > 1) {
            TRP__EACH(w, trp__pack<TYPE, V>::WORDS) {
                TRP__UNROLL
                for (int f = 1; f < N; f++)
                    v[0].word[w] = trp__pack_most<TYPE, true>(v[0].word[w], v[f].word[w]);
            }
            TRP__EACH(k, V)
                t[k] = trp__reduce_top(t[k], v[0].get(k));
        } else {
            TRP__EACH(k, V) {
                float x[N];
                TRP__EACH(f, N)
                    x[f] = v[f].get(k);
                add<N>(&t[k], x);
            }
        }
    }
    TRP__DEVICE static total join(total a, total b)
    {
        if constexpr (EXTREME)
            return trp__reduce_top(a, b);
        else
            return a + b;
    }
    struct joining {
        template <typename T> static TRP__DEVICE T of(T a, T b)
        {
            return join(a, b);
        }
    };
    TRP__DEVICE static void put(const trp__reduce &r, int64_t kept, uint32_t split, double value)
    {
        const trp__partial p = {value, 0, 0};
        trp__reduce_put<KIND, false>(r, kept, split, p);
    }
};

/* Adds the elements of a row that a thread has, with FLIGHT packs in flight at a time. */
template <int TYPE, int KIND, int FLIGHT>
TRP__DEVICE void trp__reduce_packed_row(const trp__reduce &r, trp__row_packs<TYPE> row,
                                        uint64_t at,
                                        typename trp__reduce_packed<TYPE, KIND>::total *t)
{
    typedef trp__reduce_packed<TYPE, KIND> P;
    enum { V = trp__row_type<TYPE>::V };
    for (; row.first < row.end; row.first += FLIGHT * row.step) {
        trp__pack<TYPE, V> v[FLIGHT];
        row.template read<FLIGHT>(at, P::none(r), v);
        TRP__EACH(f, FLIGHT) {
            float x[V];
            P::prepare(r, &v[f]);
            TRP__EACH(j, V)
                x[j] = v[f].get(j);
            P::template add<V>(t, x);
        }
    }
}

/* Reduces rows. The threads of a row are some lanes of a warp, or a whole block. */
template <int TYPE, int KIND> TRP__DEVICE void trp__reduce_packed_rows(const trp__reduce &r)
{
    typedef trp__reduce_packed<TYPE, KIND> P;
    typedef trp__row_packs<TYPE> packs;
    enum { SHORT = 4, LONG = 8 };
    const int lanes = (int)r.lanes, rows = TRP__REDUCE_THREADS / lanes;
    const int group = lanes < TRP__REDUCE_THREADS ? (int)threadIdx.x / lanes : 0;
    const int lane = (int)threadIdx.x - group * lanes;
    const uint32_t split = blockIdx.x % r.splits;
    const int64_t kept = (int64_t)(blockIdx.x / r.splits) * rows + group;
    const bool some = kept < r.kept;
    const int64_t start = split * r.split, left = r.length - start;
    const int64_t base = some ? trp__reduce_offset(r.keep, r.keep.x, kept) + start : 0;
    const uint64_t at = r.x + (uint64_t)(base * packs::SIZE);
    packs row;
    row.begin = (int)(at % 16) / packs::SIZE;
    row.end = some ? row.begin + (int)(left < r.split ? left : r.split) : 0;
    row.step = lanes * packs::V;
    row.first = lane * packs::V;
    typename P::total t = P::first();
    if (r.split <= SHORT * row.step)
        trp__reduce_packed_row<TYPE, KIND, SHORT>(r, row, at - at % 16, &t);
    else
        trp__reduce_packed_row<TYPE, KIND, LONG>(r, row, at - at % 16, &t);
    t = trp__rows_together<typename P::joining, typename P::total>(t, lanes, P::first());
    if (lane == 0 && some)
        P::put(r, kept, split, (double)t);
}

/* A thread's packs: in row i, the V columns from `column` on, at address `at` + i * step. */
template <int TYPE, int V> struct trp__reduce_place {
    enum { SIZE = trp__row_type<TYPE>::SIZE };
    uint64_t at;
    int64_t step; /* bytes */
    int64_t column;
    bool some; /* some of the pack's columns are in the matrix */

    /* Tells whether a whole pack can be read: RAGGED ones of the first and the last row may begin
     * before the matrix or end past it. */
    TRP__DEVICE bool whole(const trp__reduce &r, int64_t row) const
    {
        return (column >= 0 || row > 0) && (column + V <= r.kept || row + 1 < r.length);
    }
    TRP__DEVICE void read(const trp__reduce &r, int64_t row, trp__pack<TYPE, V> *v) const
    {
        if (whole(r, row)) {
            v->load(at + (uint64_t)(row * step), 0, TYPE);
            return;
        }
        TRP__EACH(k, V) {
            if (column + k >= 0 && column + k < r.kept)
                v->put(k, at + (uint64_t)(row * step), k);
        }
    }
};

/* Reduces columns. Thread t of a block has pack t % across, of V columns, in every `lanes`th row.
 * The blocks of a cluster exchange partial results through device memory; each of them combines
 * some of the columns.
 *
 * RAGGED: rows begin anywhere. A thread's packs begin at multiples of 16 bytes, up to V - 1 columns
 * before its own ones; the distance is the same in all of its rows, since `lanes` is a multiple of
 * V. A block therefore reads one pack of columns more than it reduces. */
template <int TYPE, int KIND, int V, bool RAGGED>
TRP__DEVICE void trp__reduce_packed_columns(const trp__reduce &r)
{
    typedef trp__reduce_packed<TYPE, KIND> P;
    enum { FLIGHT = 8, SIZE = trp__row_type<TYPE>::SIZE };
    TRP__DYNAMIC(typename P::total, shared);
    const int lanes = (int)r.lanes, across = TRP__REDUCE_THREADS / lanes;
    const int width = (across - (RAGGED ? 1 : 0)) * V;
    const int lane = (int)threadIdx.x / across;
    const uint32_t pieces = r.splits * r.cluster, piece = blockIdx.x % pieces;
    const int64_t tile = (int64_t)(blockIdx.x / pieces) * width;
    const int64_t start = piece * r.split, stop = start + r.split;
    int first = (int)threadIdx.x % across * V; /* the thread's first column in the tile */
    trp__reduce_place<TYPE, V> place;
    place.step = r.over.x[0] * SIZE;
    if (RAGGED)
        first -= (int)((r.x + (uint64_t)((start + lane) * place.step)) % 16) / SIZE;
    place.column = tile + first;
    place.some = place.column < r.kept && place.column + V > 0;
    place.at = r.x + (uint64_t)((RAGGED ? place.column
                                 : place.some
                                     ? trp__reduce_offset(r.keep, r.keep.x, place.column)
                                     : 0) *
                                SIZE);
    const int64_t end = !place.some ? 0 : stop < r.length ? stop : r.length;
    typename P::total t[V];
    TRP__EACH(k, V)
        t[k] = P::first();
    for (int64_t i = start + lane; i < end; i += FLIGHT * lanes) {
        trp__pack<TYPE, V> v[FLIGHT];
        float outside[V];
        TRP__EACH(k, V)
            outside[k] = P::none(r);
        TRP__EACH(f, FLIGHT) {
            v[f].set(outside);
            if (i + f * lanes >= end)
                continue;
            if constexpr (RAGGED)
                place.read(r, i + f * lanes, &v[f]);
            else
                v[f].load(place.at + (uint64_t)((i + f * lanes) * place.step), 0, TYPE);
        }
        P::template add_packs<V, FLIGHT>(r, t, v);
    }
    TRP__EACH(k, V) {
        if (!RAGGED || (first + k >= 0 && first + k < width))
            shared[lane * width + first + k] = t[k];
    }
    __syncthreads();
    const int rank = (int)(piece % r.cluster);
    for (int c = (int)threadIdx.x; c < width && tile + c < r.kept; c += TRP__REDUCE_THREADS) {
        typename P::total sum = shared[c];
        for (int l = 1; l < lanes; l++)
            sum = P::join(sum, shared[l * width + c]);
        if (r.cluster == 1)
            P::put(r, tile + c, piece, (double)sum);
        else
            trp__to<double>(r.shared, (int64_t)blockIdx.x * width + c) = (double)sum;
    }
    if (r.cluster == 1)
        return;
    trp__cluster_arrive();
    trp__cluster_wait();
    const int each = (width + (int)r.cluster - 1) / (int)r.cluster, c = rank * each + (int)threadIdx.x;
    if ((int)threadIdx.x >= each || c >= width || tile + c >= r.kept)
        return;
    const int64_t from = ((int64_t)blockIdx.x - rank) * width + c;
    double v[TRP__REDUCE_CLUSTER];
    TRP__EACH(b, TRP__REDUCE_CLUSTER)
        v[b] = b < (int)r.cluster ? trp__at<double>(r.shared, from + (int64_t)b * width)
                                  : (double)P::first();
    typename P::total sum = (typename P::total)v[0];
    TRP__UNROLL
    for (int b = 1; b < TRP__REDUCE_CLUSTER; b++)
        sum = P::join(sum, (typename P::total)v[b]);
    P::put(r, tile + c, piece / r.cluster, (double)sum);
}

#define TRP__REDUCE_BOUNDS TRP__REDUCE_THREADS, 3 /* blocks of a multiprocessor, at least */
#define TRP__REDUCE_PACKED(name, function, ...)                                                    \
    TRP__ENTRY(name, trp__reduce, (TRP__REDUCE_BOUNDS), function<__VA_ARGS__>)
#define TRP__REDUCE_ROWS_KERNELS(name, KIND)                                                       \
    TRP__REDUCE_PACKED(name##_f32, trp__reduce_packed_rows, TRP_F32, KIND)                         \
    TRP__REDUCE_PACKED(name##_bf16, trp__reduce_packed_rows, TRP_BF16, KIND)                       \
    TRP__REDUCE_PACKED(name##_f16, trp__reduce_packed_rows, TRP_F16, KIND)
#define TRP__REDUCE_COLUMNS_KERNELS(name, KIND)                                                    \
    TRP__REDUCE_PACKED(name##_f32, trp__reduce_packed_columns, TRP_F32, KIND, 4, false)            \
    TRP__REDUCE_PACKED(name##_bf16, trp__reduce_packed_columns, TRP_BF16, KIND, 8, false)          \
    TRP__REDUCE_PACKED(name##_f16, trp__reduce_packed_columns, TRP_F16, KIND, 8, false)            \
    TRP__REDUCE_PACKED(name##_f32_ragged, trp__reduce_packed_columns, TRP_F32, KIND, 4, true)      \
    TRP__REDUCE_PACKED(name##_bf16_ragged, trp__reduce_packed_columns, TRP_BF16, KIND, 8, true)    \
    TRP__REDUCE_PACKED(name##_f16_ragged, trp__reduce_packed_columns, TRP_F16, KIND, 8, true)      \
    TRP__REDUCE_PACKED(name##_f32_loose, trp__reduce_packed_columns, TRP_F32, KIND, 1, false)      \
    TRP__REDUCE_PACKED(name##_bf16_loose, trp__reduce_packed_columns, TRP_BF16, KIND, 1, false)    \
    TRP__REDUCE_PACKED(name##_f16_loose, trp__reduce_packed_columns, TRP_F16, KIND, 1, false)

TRP__REDUCE_ROWS_KERNELS(trp_reduce_rows_sums, TRP__REDUCE_SUMS)
TRP__REDUCE_ROWS_KERNELS(trp_reduce_rows_squares, TRP__REDUCE_SQUARES)
TRP__REDUCE_ROWS_KERNELS(trp_reduce_rows_extremes, TRP__REDUCE_EXTREMES)
TRP__REDUCE_COLUMNS_KERNELS(trp_reduce_columns_sums, TRP__REDUCE_SUMS)
TRP__REDUCE_COLUMNS_KERNELS(trp_reduce_columns_squares, TRP__REDUCE_SQUARES)
TRP__REDUCE_COLUMNS_KERNELS(trp_reduce_columns_extremes, TRP__REDUCE_EXTREMES)

#endif

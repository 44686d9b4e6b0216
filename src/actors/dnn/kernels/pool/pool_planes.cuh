/* Pooling forward of planes: channels whose elements follow each other, one behind the other. A
 * block copies some planes, or a band of one, into shared memory by 16 bytes, whatever the width,
 * and finds their outputs there: so each input is read once and in order. */
#ifndef TRP_ACTORS_DNN_KERNELS_POOL_POOL_PLANES_CUH
#define TRP_ACTORS_DNN_KERNELS_POOL_POOL_PLANES_CUH

#include "actors/dnn/kernels/common/async.cuh"
#include "actors/dnn/kernels/pool/pool_any.cuh"

/* What a block has. */
struct trp__pool_band {
    int64_t plane;   /* the first */
    int planes;      /* how many; of a band 1 */
    int first, last; /* rows of the input */
    int from, to;    /* rows of the output */

    TRP__DEVICE explicit trp__pool_band(const trp__pool &p)
    {
        const uint32_t group = blockIdx.x / p.bands, band = blockIdx.x - group * p.bands;
        plane = (int64_t)group * p.group;
        planes = p.planes - plane < p.group ? (int)(p.planes - plane) : (int)p.group;
        from = (int)(band * p.rows);
        to = from + (int)p.rows < p.out[1] ? from + (int)p.rows : p.out[1];
        const int begin = from * p.stride[1] - p.pad[1];
        const int end = (to - 1) * p.stride[1] - p.pad[1] + p.window[1];
        first = p.bands == 1 || begin < 0 ? 0 : begin;
        last = p.bands == 1 || end > p.in[1] ? p.in[1] : end;
    }
};

/* An element as it lies in memory. */
template <int TYPE> struct trp__pool_bits {
    typedef uint16_t word;
};
template <> struct trp__pool_bits<TRP_F32> {
    typedef uint32_t word;
};

/* Copies elements that follow each other; returns where the first lies in `shared`. */
template <typename W> TRP__DEVICE int trp__pool_copy(uint64_t at, int count, W *shared)
{
    enum { PACK = 16 / (int)sizeof(W) };
    const int skew = (int)(at % 16) / (int)sizeof(W), room = (PACK - skew) % PACK;
    const int head = room < count ? room : count, packs = (count - head) / PACK;
    const int tail = head + packs * PACK;
    for (int i = (int)threadIdx.x; i < packs; i += TRP__POOL_THREADS)
        trp__async_copy((trp__pack16 *)(shared + skew + head) + i,
                        at + (uint64_t)(head + i * PACK) * sizeof(W));
    trp__async_commit();
    if ((int)threadIdx.x < head)
        shared[skew + (int)threadIdx.x] = trp__at<W>(at, (int)threadIdx.x);
    if (tail + (int)threadIdx.x < count)
        shared[skew + tail + (int)threadIdx.x] = trp__at<W>(at, tail + (int)threadIdx.x);
    trp__async_wait<0>();
    __syncthreads();
    return skew;
}

template <int TYPE> TRP__DEVICE float trp__pool_value(uint32_t bits)
{
    return TYPE == TRP_F32   ? trp__f32_from_bits(bits)
           : TYPE == TRP_F16 ? trp__half_value((uint16_t)bits)
                             : trp__f32_from_bits(bits << 16);
}

/* The number from `first` to below `end` that is nearest. */
TRP__DEVICE int trp__pool_nearest(int i, int first, int end)
{
    return i < first ? first : i >= end ? end - 1 : i;
}

/* The planes, or the band, of a block. */
template <int TYPE> struct trp__pool_block {
    enum { DEEP = TRP__POOL_DEEP };
    typedef typename trp__pool_bits<TYPE>::word word;
    const trp__pool &p;
    trp__pool_band band;
    const word *shared; /* the first input of the band */

    TRP__DEVICE int64_t place(int plane, int row, int column) const
    {
        return ((band.plane + plane) * p.out[1] + row) * p.out[2] + column;
    }
    /* Whether the second of two elements is larger, or NaN and the first is not. */
    TRP__DEVICE static bool after(uint32_t first, uint32_t second)
    {
        const float a = trp__pool_value<TYPE>(first), b = trp__pool_value<TYPE>(second);
        return a == a && !(b <= a);
    }
    /* An output of a sum. */
    TRP__DEVICE void store_mean(int plane, int row, int column, float sum) const
    {
        const float count = trp__pool_counted(p, 1, row) * trp__pool_counted(p, 2, column);
        float v = count > 0 ? sum / count : 0.0f;
        if (v - v != 0) {
            const int at[TRP__POOL_DIMS] = {0, row, column};
            trp__pool_window w;
            w.find(p, at);
            v = trp__pool_mean_divided<float>(
                p, w, (band.plane + plane) * p.in[1] * (int64_t)p.in[2], count);
        }
        trp__store_float<float>(p.y.at, place(plane, row, column), TYPE, v);
    }
    /* A maximum, and where it is. */
    TRP__DEVICE void store_most(int plane, int row, int column, uint32_t bits, int best) const
    {
        const int64_t at = place(plane, row, column);
        if (p.y.at)
            trp__to<word>(p.y.at, at) = (word)bits;
        if (p.index.at)
            trp__to<int8_t>(p.index.at, at) = (int8_t)best;
    }
    /* DEEP maxima, one below the other, whose windows of WIDTH x WIDTH share rows. Each window has
     * an element of the input: in place of one that is outside the nearest is taken, which is in
     * the window too. INDEX: and where they are. */
    template <int WIDTH, int STRIDE, bool INDEX>
    TRP__DEVICE void maxima(int plane, int row, int column) const
    {
        const int top = row * STRIDE - p.pad[1], left = column * STRIDE - p.pad[2];
        const word *from = shared + (plane * p.in[1] - band.first) * p.in[2];
        int at[WIDTH], best[DEEP];
        uint32_t most[DEEP];
        TRP__UNROLL
        for (int j = 0; j < WIDTH; j++)
            at[j] = trp__pool_nearest(left + j, 0, p.in[2]);
        TRP__UNROLL
        for (int i = 0; i < (DEEP - 1) * STRIDE + WIDTH; i++) {
            const int line = trp__pool_nearest(top + i, band.first, band.last);
            const word *x = from + line * p.in[2];
            uint32_t here = x[at[0]];
            int tap = at[0];
            TRP__UNROLL
            for (int j = 1; j < WIDTH; j++) {
                const uint32_t next = x[at[j]];
                if constexpr (INDEX) {
                    const bool wins = after(here, next);
                    here = wins ? next : here;
                    tap = wins ? at[j] : tap;
                } else {
                    here = trp__pack_most<TYPE, true>(here, next);
                }
            }
            tap += (line - top) * WIDTH - left;
            TRP__UNROLL
            for (int k = 0; k < DEEP; k++) {
                if (i < k * STRIDE || i >= k * STRIDE + WIDTH)
                    continue;
                const bool first = i == k * STRIDE;
                if constexpr (INDEX) {
                    const bool wins = first || after(most[k], here);
                    most[k] = wins ? here : most[k];
                    best[k] = wins ? tap - k * STRIDE * WIDTH : best[k];
                } else {
                    most[k] = first ? here : trp__pack_most<TYPE, true>(most[k], here);
                }
            }
        }
        TRP__UNROLL
        for (int k = 0; k < DEEP; k++) {
            if (row + k < band.to)
                store_most(plane, row + k, column, most[k], INDEX ? best[k] : 0);
        }
    }
    /* The same of means. */
    template <int WIDTH, int STRIDE>
    TRP__DEVICE void means(int plane, int row, int column) const
    {
        const int top = row * STRIDE - p.pad[1], left = column * STRIDE - p.pad[2];
        const word *from = shared + (plane * p.in[1] - band.first) * p.in[2];
        int at[WIDTH];
        bool inside[WIDTH];
        float sum[DEEP];
        TRP__UNROLL
        for (int j = 0; j < WIDTH; j++) {
            at[j] = trp__pool_nearest(left + j, 0, p.in[2]);
            inside[j] = at[j] == left + j;
        }
        TRP__UNROLL
        for (int k = 0; k < DEEP; k++)
            sum[k] = 0;
        TRP__UNROLL
        for (int i = 0; i < (DEEP - 1) * STRIDE + WIDTH; i++) {
            const int line = trp__pool_nearest(top + i, band.first, band.last);
            const word *x = from + line * p.in[2];
            float v[WIDTH];
            TRP__UNROLL
            for (int j = 0; j < WIDTH; j++) {
                v[j] = trp__pool_value<TYPE>(x[at[j]]);
                v[j] = line == top + i && inside[j] ? v[j] : 0.0f;
            }
            TRP__UNROLL
            for (int k = 0; k < DEEP; k++) {
                TRP__UNROLL
                for (int j = 0; j < WIDTH && i >= k * STRIDE && i < k * STRIDE + WIDTH; j++)
                    sum[k] += v[j];
            }
        }
        TRP__UNROLL
        for (int k = 0; k < DEEP; k++) {
            if (row + k < band.to)
                store_mean(plane, row + k, column, sum[k]);
        }
    }
    /* Lanes have neighbouring columns. */
    template <int WIDTH, int STRIDE, bool MOST, bool INDEX> TRP__DEVICE void all() const
    {
        const uint32_t deep = (uint32_t)(band.to - band.from + DEEP - 1) / DEEP;
        const uint32_t count = deep * (uint32_t)p.out[2] * (uint32_t)band.planes;
        for (uint32_t i = threadIdx.x; i < count; i += TRP__POOL_THREADS) {
            uint32_t rest = i;
            const int column = (int)trp__pool_place::next(&rest, p.size[0]);
            const int row = band.from + (int)trp__pool_place::next(&rest, p.size[1]) * DEEP;
            if constexpr (MOST)
                maxima<WIDTH, STRIDE, INDEX>((int)rest, row, column);
            else
                means<WIDTH, STRIDE>((int)rest, row, column);
        }
    }
};

template <int TYPE, int WIDTH, int STRIDE, bool MOST>
TRP__DEVICE void trp__pool_forward_planes(const trp__pool &p)
{
    typedef typename trp__pool_bits<TYPE>::word word;
    TRP__DYNAMIC(word, shared);
    const trp__pool_band band(p);
    const int64_t row = band.plane * p.in[1] + band.first;
    const int rows = p.bands == 1 ? band.planes * p.in[1] : band.last - band.first;
    const int skew = trp__pool_copy<word>(p.x.at + (uint64_t)(row * p.in[2]) * sizeof(word),
                                          rows * p.in[2], shared);
    const trp__pool_block<TYPE> block = {p, band, shared + skew};
    if constexpr (!MOST)
        block.template all<WIDTH, STRIDE, false, false>();
    else if (p.index.at)
        block.template all<WIDTH, STRIDE, true, true>();
    else
        block.template all<WIDTH, STRIDE, true, false>();
}

#endif

/* Forward pooling of planes: channels whose elements are contiguous, one channel after the other. A
 * block copies some planes, or a band of one, to shared memory by 16 bytes, whatever the width, and
 * computes their outputs from there: each input is read once and in order.
 *
 * A thread has outputs one below the other. It finds the maximum, or the sum, of each row of their
 * windows once, and combines the rows of each window; most rows belong to several windows. Where
 * elements have 16 bits and all rows begin at words, a thread has two columns of outputs, and reads
 * words. Sums are made in pairs, so that they round only a few times. Where places of maxima are
 * wanted, too, elements are compared one by one. */
#ifndef TRP_ACTORS_DNN_KERNELS_POOL_POOL_PLANES_CUH
#define TRP_ACTORS_DNN_KERNELS_POOL_POOL_PLANES_CUH

#include "actors/dnn/kernels/common/async.cuh"
#include "actors/dnn/kernels/common/functions.cuh"
#include "actors/dnn/kernels/pool/pool_any.cuh"

/* The planes, or the band of one, of a block. */
struct trp__pool_band {
    int64_t plane;   /* the first */
    int planes;      /* how many; 1 for a band */
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

/* The unit that a thread reads: an element, or a word of two. */
template <int TYPE, int EACH> struct trp__pool_unit {
    typedef uint32_t type;
};
template <int TYPE> struct trp__pool_unit<TYPE, 1> {
    typedef typename trp__stored<TYPE>::word type;
};

/* Copies `count` elements; returns the index of the first in `shared`, at which 16 bytes are
 * aligned as they are in x. */
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

/* Returns the number from `first` to below `end` that is nearest to i. */
TRP__DEVICE int trp__pool_nearest(int i, int first, int end)
{
    return i < first ? first : i >= end ? end - 1 : i;
}

/* --- Rows of windows --- */

/* The largest elements of windows in a row. */
template <int TYPE> struct trp__pool_most {
    uint32_t bits; /* one element or two */

    TRP__DEVICE static trp__pool_most of(trp__pool_most a, trp__pool_most b)
    {
        return {trp__pack_most<TYPE, true>(a.bits, b.bits)};
    }
};

/* The sums of EACH windows in a row. */
template <int EACH> struct trp__pool_sums {
    float v[EACH];

    TRP__DEVICE static trp__pool_sums of(const trp__pool_sums &a, const trp__pool_sums &b)
    {
        trp__pool_sums out;
        TRP__EACH(e, EACH)
            out.v[e] = a.v[e] + b.v[e];
        return out;
    }
};

/* Folds COUNT values that follow each other, in pairs. */
template <int COUNT, typename V> TRP__DEVICE V trp__pool_fold(const V *v)
{
    if constexpr (COUNT == 1)
        return v[0];
    else
        return V::of(trp__pool_fold<COUNT / 2>(v),
                     trp__pool_fold<COUNT - COUNT / 2>(v + COUNT / 2));
}

/* Folds the WIDTH rows of window K of DEEP windows, which begin STRIDE rows apart. Rows that all
 * windows have are folded by the same terms for each, so that the compiler does it once. */
template <int DEEP, int WIDTH, int STRIDE, int K, typename V>
TRP__DEVICE V trp__pool_fold_rows(const V *row)
{
    if constexpr (STRIDE > 1 || WIDTH < DEEP) {
        return trp__pool_fold<WIDTH>(row + K * STRIDE);
    } else {
        V out = trp__pool_fold<WIDTH - DEEP + 1>(row + DEEP - 1);
        if constexpr (K < DEEP - 1)
            out = V::of(trp__pool_fold<DEEP - 1 - K>(row + K), out);
        if constexpr (K > 0)
            out = V::of(out, trp__pool_fold<K>(row + WIDTH));
        return out;
    }
}

/* The columns of a thread's EACH neighbouring windows. They are read as units, elements or words of
 * two; the first window begins at element SHIFT of the first unit. */
template <int TYPE, int WIDTH, int STRIDE, int EACH, int SHIFT> struct trp__pool_line {
    enum { SPAN = (EACH - 1) * STRIDE + WIDTH, UNITS = (SHIFT + SPAN - 1) / EACH + 1 };
    typedef typename trp__pool_unit<TYPE, EACH>::type unit;
    const unit *from;       /* the first unit, in the row where the planes begin */
    int pitch;              /* of rows */
    uint32_t inside[UNITS]; /* masks: all bits for units of the row, else none */

    TRP__DEVICE trp__pool_line(const trp__pool &p, const void *shared, int column)
    {
        const int first = (column * STRIDE - p.pad[2] - SHIFT) / EACH;
        pitch = p.in[2] / EACH;
        from = (const unit *)shared + first;
        TRP__EACH(k, UNITS)
            inside[k] = (uint32_t)(first + k) < (uint32_t)pitch ? ~0u : 0;
    }
    /* Reads the units of a row. Elements outside become `none`. */
    TRP__DEVICE void read(int row, uint32_t there, uint32_t none, uint32_t v[UNITS]) const
    {
        const unit *x = from + row * pitch;
        TRP__EACH(k, UNITS) {
            const uint32_t mask = inside[k] & there;
            v[k] = (x[k] & mask) | (none & ~mask);
        }
    }
    /* Returns elements i and j, counted from the first unit, as a word. */
    TRP__DEVICE static uint32_t two(const uint32_t v[UNITS], int i, int j)
    {
        const uint32_t low = v[i / 2], high = v[j / 2];
        if (i % 2 == 0 && j == i + 1)
            return low;
        return (i % 2 ? low >> 16 : low & 0xffffu) | (j % 2 ? high & 0xffff0000u : high << 16);
    }
    TRP__DEVICE trp__pool_most<TYPE> most(int row) const
    {
        const uint32_t none = TYPE == TRP_F32    ? 0xff800000u
                              : TYPE == TRP_BF16 ? 0xff80ff80u
                                                 : 0xfc00fc00u;
        uint32_t v[UNITS];
        trp__pool_most<TYPE> of[WIDTH];
        read(row, ~0u, EACH == 1 && TYPE != TRP_F32 ? none & 0xffffu : none, v);
        TRP__EACH(j, WIDTH)
            of[j].bits = EACH == 1 ? v[j % UNITS] : two(v, SHIFT + j, SHIFT + STRIDE + j);
        return trp__pool_fold<WIDTH>(of);
    }
    TRP__DEVICE trp__pool_sums<EACH> sums(int row, bool there) const
    {
        uint32_t v[UNITS];
        trp__pool_sums<1> x[SPAN];
        trp__pool_sums<EACH> out;
        read(row, there ? ~0u : 0, 0, v);
        TRP__EACH(j, SPAN) {
            const int at = SHIFT + j;
            const uint32_t bits = v[at / EACH];
            x[j].v[0] = trp__stored_value<TYPE>(EACH == 2 && at % 2 ? bits >> 16 : bits);
        }
        if constexpr (EACH == 2 && STRIDE == 1) { /* both windows have all columns but the first
                                                   * and the last */
            const float both = trp__pool_fold<WIDTH - 1>(x + 1).v[0];
            out.v[0] = x[0].v[0] + both;
            out.v[1] = both + x[WIDTH].v[0];
        } else {
            TRP__EACH(e, EACH)
                out.v[e] = trp__pool_fold<WIDTH>(x + e * STRIDE).v[0];
        }
        return out;
    }
};

/* --- Blocks --- */

/* The planes, or the band, of a block. */
template <int TYPE, int DEEP> struct trp__pool_block {
    typedef typename trp__stored<TYPE>::word word;
    const trp__pool &p;
    trp__pool_band band;
    const word *shared; /* the first input of the band */

    TRP__DEVICE int64_t place(int plane, int row, int column) const
    {
        return ((band.plane + plane) * p.out[1] + row) * p.out[2] + column;
    }
    /* Returns the element `bytes` bytes after x. */
    TRP__DEVICE static uint32_t behind(const word *x, int bytes)
    {
        return *(const word *)((const unsigned char *)x + bytes);
    }
    /* Tells whether the second of two elements is larger, or NaN and the first is not. */
    TRP__DEVICE static bool after(uint32_t first, uint32_t second)
    {
        const float a = trp__stored_value<TYPE>(first), b = trp__stored_value<TYPE>(second);
        return a == a && !(b <= a);
    }
    /* Stores an output, or the two of a word, from sums. Returns whether some must be computed
     * again. */
    template <int EACH> TRP__DEVICE bool store_means(int64_t at, const float v[EACH]) const
    {
        if constexpr (EACH == 1)
            trp__store_float<float>(p.y.at, at, TYPE, v[0]);
        else
            trp__to<uint32_t>(p.y.at, at / 2) =
                TYPE == TRP_BF16 ? trp__bfloat_pair(v[0], v[1]) : trp__half_pair(v[0], v[1]);
        float finite = 0;
        TRP__EACH(e, EACH)
            finite = fmaf(v[e], 0.0f, finite);
        return finite != finite;
    }
    /* Computes and stores again those outputs, of DEEP * each, whose sums overflowed f32; `lost`
     * has a bit for each. */
    TRP__DEVICE void store_again(int plane, int row, int column, int each, uint32_t lost) const
    {
        const int64_t base = (band.plane + plane) * p.in[1] * (int64_t)p.in[2];
        TRP__ROLLED
        for (int k = 0; k < DEEP * each; k++) {
            const int at[TRP__POOL_DIMS] = {0, row + k / each, column + k % each};
            trp__pool_window w;
            w.find(p, at);
            if (lost >> k & 1)
                trp__store_float<float>(
                    p.y.at, place(plane, at[1], at[2]), TYPE,
                    trp__pool_mean_divided<float>(p, w, base, trp__pool_count<float>(p, w)));
        }
    }
    /* Stores a maximum and its place. */
    TRP__DEVICE void store_most(int plane, int row, int column, uint32_t bits, int best) const
    {
        const int64_t at = place(plane, row, column);
        if (p.y.at)
            trp__to<word>(p.y.at, at) = (word)bits;
        if (p.index.at)
            trp__to<int8_t>(p.index.at, at) = (int8_t)best;
    }
    /* Finds DEEP maxima and their places, one below the other, whose windows of WIDTH x WIDTH share
     * rows. Each window has an element of the input: the nearest one stands for each that is
     * outside. */
    template <int WIDTH, int STRIDE> TRP__DEVICE void places(int plane, int row, int column) const
    {
        const int top = row * STRIDE - p.pad[1], left = column * STRIDE - p.pad[2];
        const word *from = shared + (plane * p.in[1] - band.first) * p.in[2];
        int at[WIDTH], best[DEEP];
        uint32_t most[DEEP];
        TRP__EACH(j, WIDTH)
            at[j] = trp__pool_nearest(left + j, 0, p.in[2]) * (int)sizeof(word);
        TRP__EACH(i, (DEEP - 1) * STRIDE + WIDTH) {
            const int line = trp__pool_nearest(top + i, band.first, band.last);
            const word *x = from + line * p.in[2];
            uint32_t here = behind(x, at[0]);
            int tap = at[0];
            TRP__UNROLL
            for (int j = 1; j < WIDTH; j++) {
                const uint32_t next = behind(x, at[j]);
                const bool wins = after(here, next);
                here = wins ? next : here;
                tap = wins ? at[j] : tap;
            }
            tap = tap / (int)sizeof(word) + (line - top) * WIDTH - left;
            TRP__EACH(k, DEEP) {
                if (i < k * STRIDE || i >= k * STRIDE + WIDTH)
                    continue;
                const bool wins = i == k * STRIDE || after(most[k], here);
                most[k] = wins ? here : most[k];
                best[k] = wins ? tap - k * STRIDE * WIDTH : best[k];
            }
        }
        TRP__EACH(k, DEEP) {
            if (row + k < band.to)
                store_most(plane, row + k, column, most[k], best[k]);
        }
    }
    /* Finds DEEP maxima of EACH columns without their places. */
    template <int WIDTH, int STRIDE, int EACH, int SHIFT>
    TRP__DEVICE void maxima(int plane, int row, int column) const
    {
        typedef trp__pool_line<TYPE, WIDTH, STRIDE, EACH, SHIFT> L;
        enum { ROWS = (DEEP - 1) * STRIDE + WIDTH };
        const int top = row * STRIDE - p.pad[1], base = plane * p.in[1] - band.first;
        const L line(p, shared, column);
        trp__pool_most<TYPE> of[ROWS];
        TRP__EACH(i, ROWS)
            of[i] = line.most(base + trp__pool_nearest(top + i, band.first, band.last));
        store_maxima<WIDTH, STRIDE, EACH, 0>(of, plane, row, column);
    }
    template <int WIDTH, int STRIDE, int EACH, int K>
    TRP__DEVICE void store_maxima(const trp__pool_most<TYPE> *of, int plane, int row,
                                  int column) const
    {
        const uint32_t most = trp__pool_fold_rows<DEEP, WIDTH, STRIDE, K>(of).bits;
        if (row + K < band.to) {
            if constexpr (EACH == 1)
                store_most(plane, row + K, column, most, 0);
            else
                trp__to<uint32_t>(p.y.at, place(plane, row + K, column) / 2) = most;
        }
        if constexpr (K + 1 < DEEP)
            store_maxima<WIDTH, STRIDE, EACH, K + 1>(of, plane, row, column);
    }
    /* Finds DEEP means of EACH columns. */
    template <int WIDTH, int STRIDE, int EACH, int SHIFT>
    TRP__DEVICE void means(int plane, int row, int column) const
    {
        typedef trp__pool_line<TYPE, WIDTH, STRIDE, EACH, SHIFT> L;
        enum { ROWS = (DEEP - 1) * STRIDE + WIDTH };
        const int top = row * STRIDE - p.pad[1], base = plane * p.in[1] - band.first;
        const L line(p, shared, column);
        trp__pool_sums<EACH> of[ROWS];
        float across[EACH];
        TRP__EACH(i, ROWS) {
            const int nearest = trp__pool_nearest(top + i, band.first, band.last);
            of[i] = line.sums(base + nearest, nearest == top + i);
        }
        TRP__EACH(e, EACH)
            across[e] = trp__pool_counted(p, 2, column + e);
        const uint32_t lost =
            store_each_mean<WIDTH, STRIDE, EACH, 0>(of, across, plane, row, column);
        if (lost != 0)
            store_again(plane, row, column, EACH, lost);
    }
    template <int WIDTH, int STRIDE, int EACH, int K>
    TRP__DEVICE uint32_t store_each_mean(const trp__pool_sums<EACH> *of, const float across[EACH],
                                         int plane, int row, int column) const
    {
        uint32_t lost = 0;
        trp__pool_sums<EACH> mean = trp__pool_fold_rows<DEEP, WIDTH, STRIDE, K>(of);
        if (row + K < band.to) {
            const float down = trp__pool_counted(p, 1, row + K);
            TRP__EACH(e, EACH)
                mean.v[e] = trp__part(mean.v[e], down * across[e]);
            if (store_means<EACH>(place(plane, row + K, column), mean.v)) {
                TRP__EACH(e, EACH)
                    lost |= mean.v[e] - mean.v[e] != 0 ? 1u << (K * EACH + e) : 0u;
            }
        }
        if constexpr (K + 1 < DEEP)
            lost |= store_each_mean<WIDTH, STRIDE, EACH, K + 1>(of, across, plane, row, column);
        return lost;
    }
    /* Computes all outputs. Lanes have neighbouring columns, or words of two. EACH 0: columns, with
     * places of maxima. */
    template <int WIDTH, int STRIDE, bool MOST, int EACH, int SHIFT> TRP__DEVICE void all() const
    {
        enum { COLUMNS = EACH == 0 ? 1 : EACH };
        const uint32_t deep = (uint32_t)(band.to - band.from + DEEP - 1) / DEEP;
        const uint32_t count = deep * (uint32_t)(p.out[2] / COLUMNS) * (uint32_t)band.planes;
        for (uint32_t i = threadIdx.x; i < count; i += TRP__POOL_THREADS) {
            uint32_t rest = i;
            const int column = (int)trp__pool_place::next(&rest, p.size[0]) * COLUMNS;
            const int row = band.from + (int)trp__pool_place::next(&rest, p.size[1]) * DEEP;
            if constexpr (EACH == 0)
                places<WIDTH, STRIDE>((int)rest, row, column);
            else if constexpr (MOST)
                maxima<WIDTH, STRIDE, EACH, SHIFT>((int)rest, row, column);
            else
                means<WIDTH, STRIDE, EACH, SHIFT>((int)rest, row, column);
        }
    }
};

/* Copies the planes, or the band, of a block; returns where the first element lies. */
template <typename W>
TRP__DEVICE W *trp__pool_copy_band(const trp__pool &p, const trp__pool_band &band, W *shared)
{
    const int64_t row = band.plane * p.in[1] + band.first;
    const int rows = p.bands == 1 ? band.planes * p.in[1] : band.last - band.first;
    return shared + trp__pool_copy<W>(p.x.at + (uint64_t)(row * p.in[2]) * sizeof(W),
                                      rows * p.in[2], shared);
}

/* EACH: columns of a thread, 2 if it reads words; 0: one, with places of maxima. */
template <int TYPE, int WIDTH, int STRIDE, bool MOST, int EACH>
TRP__DEVICE void trp__pool_forward_planes(const trp__pool &p)
{
    typedef typename trp__stored<TYPE>::word word;
    TRP__DYNAMIC(word, dynamic);
    const trp__pool_band band(p);
    const word *shared = trp__pool_copy_band(p, band, dynamic + TRP__POOL_MARGIN / sizeof(word));
    const trp__pool_block<TYPE, TRP__POOL_DEEP(WIDTH)> block = {p, band, shared};
    if (EACH == 2 && p.pad[2] % 2 != 0)
        block.template all<WIDTH, STRIDE, MOST, EACH, EACH == 2>();
    else
        block.template all<WIDTH, STRIDE, MOST, EACH, 0>();
}

/* Planes that are one window each: a thread computes the output of one. */
template <int TYPE, bool MOST> TRP__DEVICE void trp__pool_forward_whole(const trp__pool &p)
{
    enum { TAPS = 9 };
    typedef typename trp__stored<TYPE>::word word;
    TRP__DYNAMIC(word, dynamic);
    const trp__pool_band band(p);
    const int all = p.in[1] * p.in[2];
    const word *shared = trp__pool_copy_band(p, band, dynamic);
    const trp__pool_block<TYPE, 1> block = {p, band, shared};
    for (int plane = (int)threadIdx.x; plane < band.planes; plane += TRP__POOL_THREADS) {
        const word *x = shared + plane * all;
        if constexpr (MOST) {
            uint32_t most = x[0];
#pragma unroll 4
            for (int i = 1; i < all; i++)
                most = trp__pack_most<TYPE, true>(most, x[i]);
            block.store_most(plane, 0, 0, most, 0);
        } else {
            trp__exact_sum<float> sum = {0, 0};
            for (int done = 0; done < all; done += TAPS) {
                float some = 0;
                TRP__EACH(u, TAPS)
                    some += done + u < all ? trp__stored_value<TYPE>(x[done + u]) : 0.0f;
                sum.add(some);
            }
            const float mean[1] = {(sum.sum - sum.lost) / (float)all};
            if (block.template store_means<1>(block.place(plane, 0, 0), mean))
                block.store_again(plane, 0, 0, 1, 1);
        }
    }
}

#endif

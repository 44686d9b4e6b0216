/* Forward norms of rows of one type, in packs. */
#ifndef TRP_ACTORS_DNN_KERNELS_NORM_NORM_PACKS_CUH
#define TRP_ACTORS_DNN_KERNELS_NORM_NORM_PACKS_CUH

#include "actors/dnn/kernels/norm/norm.h"
#include "actors/dnn/kernels/common/row_packs.cuh"

/* --- Scale and bias: f32, f16 or bf16 --- */

TRP__DEVICE float trp__norm_number(const trp__rows_operand &o, int64_t i)
{
    if (o.type == TRP_F32)
        return trp__at<float>(o.at, i);
    const uint16_t bits = trp__at<uint16_t>(o.at, i);
    return o.type == TRP_BF16 ? trp__bf16_to_f32(bits) : trp__half_value(bits);
}

template <int TYPE, int V> TRP__DEVICE void trp__norm_numbers_as(uint64_t at, int k, float out[V])
{
    if constexpr (TYPE != TRP_F32 && V == 4) {
        const uint64_t q = trp__at<uint64_t>(at + (uint64_t)k * 2, 0);
        TRP__EACH(j, V) {
            const uint16_t bits = (uint16_t)(q >> 16 * j);
            out[j] = TYPE == TRP_BF16 ? trp__bf16_to_f32(bits) : trp__half_value(bits);
        }
    } else {
        trp__pack<TYPE, V> v;
        v.load(at, k, TYPE);
        TRP__EACH(j, V)
            out[j] = v.get(j);
    }
}

/* Loads the numbers of elements k to k + V - 1 of a row from scale or bias. All rows share them; k
 * is a multiple of V, and their address is aligned as a pack. */
template <int V>
TRP__DEVICE void trp__norm_numbers(const trp__norm &p, int which, int k, float out[V])
{
    const trp__rows_operand &o = p.io[which];
    if (o.type == TRP_F32)
        trp__norm_numbers_as<TRP_F32, V>(o.at, k, out);
    else if (o.type == TRP_BF16)
        trp__norm_numbers_as<TRP_BF16, V>(o.at, k, out);
    else
        trp__norm_numbers_as<TRP_F16, V>(o.at, k, out);
}

/* Applies a scale and a bias that have one number per element of a row. */
struct trp__norm_each {
    enum { RAGGED = false };

    TRP__DEVICE void begin(const trp__norm &, int64_t, int, int)
    {
    }
    template <int V> TRP__DEVICE void apply(const trp__norm &p, int k, float h[V]) const
    {
        float a[V];
        if (k >= p.n)
            return;
        trp__norm_numbers<V>(p, TRP__NORM_SCALE, k, a);
        if (!p.io[TRP__NORM_BIAS].at) {
            TRP__EACH(j, V)
                h[j] *= a[j];
            return;
        }
        float b[V];
        trp__norm_numbers<V>(p, TRP__NORM_BIAS, k, b);
        TRP__EACH(j, V)
            h[j] = fmaf(h[j], a[j], b[j]);
    }
    TRP__DEVICE float one(const trp__norm &p, int64_t, int k, float h) const
    {
        h *= trp__norm_number(p.io[TRP__NORM_SCALE], k);
        return p.io[TRP__NORM_BIAS].at ? h + trp__norm_number(p.io[TRP__NORM_BIAS], k) : h;
    }
};

/* Applies a scale and a bias that have one number per row, and the factor and the term of each of
 * its channels. A block computes one factor and one term per channel from all of these, in shared
 * memory. */
template <bool IS_RAGGED = true> struct trp__norm_row_affine {
    enum { RAGGED = IS_RAGGED };
    float scale, bias;
    int first; /* the row's first channel in shared memory */

    static TRP__DEVICE float *shared(int which)
    {
        __shared__ float factors[2][TRP__NORM_CHANNELS];
        return factors[which];
    }
    TRP__DEVICE void row(const trp__norm &p, int64_t number)
    {
        int64_t from[2];
        trp__row_packs_find<2>(p.space, (uint32_t)number, p.io + TRP__NORM_SCALE, from);
        scale = trp__norm_number(p.io[TRP__NORM_SCALE], from[0]);
        bias = p.io[TRP__NORM_BIAS].at ? trp__norm_number(p.io[TRP__NORM_BIAS], from[1]) : 0.0f;
    }
    TRP__DEVICE void channel(const trp__norm &p, const int64_t from[2], int number, float *a,
                             float *b) const
    {
        const trp__rows_operand &f = p.io[TRP__NORM_FACTOR], &t = p.io[TRP__NORM_TERM];
        const float factor = trp__norm_number(f, from[0] + number * f.step);
        *a = scale * factor;
        *b = bias * factor;
        if (t.at)
            *b += trp__norm_number(t, from[1] + number * t.step);
    }
    /* Loads the numbers of row `number`, which is row `group` of the block. All threads of the
     * block call this: it has a barrier. */
    TRP__DEVICE void begin(const trp__norm &p, int64_t number, int group, int thread)
    {
        scale = bias = 0;
        if (number < p.space.rows)
            row(p, number);
        if (p.channels == 0)
            return;
        first = group * p.channels;
        if (number < p.space.rows) {
            int64_t from[2];
            trp__row_packs_find<2>(p.space, (uint32_t)number, p.io + TRP__NORM_FACTOR, from);
            for (int c = thread; c < p.channels; c += p.threads)
                channel(p, from, c, &shared(0)[first + c], &shared(1)[first + c]);
        }
        __syncthreads();
    }
    /* Applies to elements k to k + V - 1; those outside the row are not used. A channel has at
     * least V elements, so these lie in at most two. */
    template <int V> TRP__DEVICE void apply(const trp__norm &p, int k, float h[V]) const
    {
        float a = scale, b = bias, next_a = 0, next_b = 0;
        int next = V; /* the next channel's first element, from k on */
        if (p.channels > 0 && k < p.n) {
            const int c = k < 0 ? 0 : (int)((uint64_t)(uint32_t)k * p.spread_factor >> 32);
            a = shared(0)[first + c];
            b = shared(1)[first + c];
            next = (c + 1) * p.spread - k;
            if (next < V && c + 1 < p.channels) {
                next_a = shared(0)[first + c + 1];
                next_b = shared(1)[first + c + 1];
            }
        }
        if (next >= V) {
            TRP__EACH(j, V)
                h[j] = fmaf(h[j], a, b);
            return;
        }
        TRP__EACH(j, V)
            h[j] = fmaf(h[j], j < next ? a : next_a, j < next ? b : next_b);
    }
    TRP__DEVICE float one(const trp__norm &p, int64_t number, int k, float h)
    {
        float a, b;
        row(p, number);
        if (p.channels == 0)
            return fmaf(h, scale, bias);
        int64_t from[2];
        trp__row_packs_find<2>(p.space, (uint32_t)number, p.io + TRP__NORM_FACTOR, from);
        channel(p, from, k / p.spread, &a, &b);
        return fmaf(h, a, b);
    }
};

/* --- Rows --- */

/* Normalises a whole row in f64, from memory: its squares overflow f32, or underflow where epsilon
 * is as small. All threads of a row call this. One of them does all the work where a warp has
 * several rows, as the others may not call it. */
template <typename A>
TRP__SHARED_CODE void trp__norm_wide_row(const trp__norm &p, int64_t row, int thread,
                                         double epsilon)
{
    const bool alone = p.threads < 32;
    const int n = row < p.space.rows && !(alone && thread > 0) ? (int)p.n : 0;
    const int step = alone ? 1 : p.threads;
    int64_t from[TRP__NORM_FACTOR];
    A affine;
    double s[2] = {0, 0};
    trp__row_packs_find<TRP__NORM_FACTOR>(p.space, (uint32_t)row, p.io, from);
    for (int pass = p.centred ? 0 : 1; pass < 2; pass++) {
        double sum = 0;
        for (int k = thread; k < n; k += step) {
            const double x = trp__load_float<double>(p.io[TRP__NORM_X].at, from[TRP__NORM_X] + k,
                                                     p.io[TRP__NORM_X].type);
            sum += pass ? (x - s[0]) * (x - s[0]) : x;
        }
        if (!alone)
            sum = trp__rows_together<trp__rows_sum, double>(sum, p.threads, 0.0);
        s[pass] = sum / (double)p.n;
    }
    const double inverse = 1 / sqrt(s[1] + epsilon);
    for (int k = thread; k < n; k += step) {
        const double x = trp__load_float<double>(p.io[TRP__NORM_X].at, from[TRP__NORM_X] + k,
                                                 p.io[TRP__NORM_X].type);
        trp__store_float<float>(p.io[TRP__NORM_Y].at, from[TRP__NORM_Y] + k, p.io[TRP__NORM_Y].type,
                                affine.one(p, row, k, (float)((x - s[0]) * inverse)));
    }
    for (int o = TRP__NORM_MEAN; o <= TRP__NORM_INVERSE; o++) {
        if (p.io[o].at && n > 0 && thread == 0)
            trp__store_float<double>(p.io[o].at, from[o], p.io[o].type,
                                     o == TRP__NORM_MEAN ? s[0] : inverse);
    }
}

/* A thread's part of a row: its packs, and the addresses of x and y that the packs count from. */
template <int TYPE, typename A, int LENGTH = trp__row_type<TYPE>::V>
struct trp__norm_packs : trp__row_packs<TYPE, A::RAGGED, LENGTH> {
    typedef trp__row_packs<TYPE, A::RAGGED, LENGTH> packs;
    typedef typename packs::pack pack;
    enum { V = packs::V };
    int64_t row;
    uint64_t x, y;
    int thread, group; /* thread of the row; row of the block */
    int from; /* element of the row that has place 0 */
    bool leads; /* this thread writes the row's statistics */
    A affine;
    /* Differences are taken from `mean`, which has some rounding error, and corrected by their own
     * mean, `more`: a mean far larger than the deviations costs no digits. settle() multiplies
     * `more` by `inverse`. */
    float mean, more, inverse;

    TRP__DEVICE void find(const trp__norm &p)
    {
        const int shift = 31 - __clz(p.threads); /* a row of several has a power of two */
        const bool several = (int)blockDim.x > p.threads;
        int64_t from[2];
        group = several ? (int)threadIdx.x >> shift : 0;
        row = several ? ((p.first + blockIdx.x) * blockDim.x >> shift) + group : p.first + blockIdx.x;
        thread = (int)threadIdx.x - group * p.threads;
        trp__row_packs_find<2>(p.space, (uint32_t)row, p.io, from);
        packs::begin = A::RAGGED ? (int)(from[TRP__NORM_X] % V) : 0;
        packs::end = row < p.space.rows ? packs::begin + (int)p.n : 0;
        packs::first = thread * V;
        packs::step = p.threads * V;
        this->from = -packs::begin;
        leads = thread == 0 && row < p.space.rows;
        x = p.io[TRP__NORM_X].at + (uint64_t)((from[TRP__NORM_X] - packs::begin) * packs::SIZE);
        y = p.io[TRP__NORM_Y].at + (uint64_t)((from[TRP__NORM_Y] - packs::begin) * packs::SIZE);
    }
    template <int PACKS> TRP__DEVICE float sum(pack v[PACKS]) const
    {
        float all = 0;
        TRP__EACH(c, PACKS) {
            TRP__EACH(j, V)
                all += v[c].get(j);
            v[c].forget();
        }
        return all;
    }
    static TRP__DEVICE void add_one(float away, float s[2])
    {
        s[0] += away;
        s[1] = fmaf(away, away, s[1]);
    }
    /* Adds the differences of a thread's elements from the mean, and their squares. */
    template <int PACKS> TRP__DEVICE void add(pack v[PACKS], float s[2]) const
    {
        TRP__EACH(c, PACKS) {
            if (packs::whole(c)) {
                TRP__EACH(j, V)
                    add_one(v[c].get(j) - mean, s);
            } else if (A::RAGGED && packs::place(c) < packs::end) {
                TRP__EACH(j, V)
                    add_one(packs::has(c, j) ? v[c].get(j) - mean : 0.0f, s);
            }
            v[c].forget();
        }
    }
    TRP__DEVICE static double epsilon(const trp__norm &p)
    {
        return p.epsilon_at ? trp__load_float<double>(p.epsilon_at, 0, p.epsilon_type) : p.epsilon;
    }
    /* Finds the statistics from the row's sums of differences and of their squares; false: see
     * settle(). */
    TRP__DEVICE bool finish(const trp__norm &p, const float s[2])
    {
        more = p.centred ? s[0] * p.share : 0.0f;
        return settle(p, s[1] * p.share - more * more);
    }
    /* Sets and writes the statistics. False: f32 cannot hold the variance, wide() is to be called.
     */
    TRP__DEVICE bool settle(const trp__norm &p, float variance)
    {
        const double least = epsilon(p);
        variance = variance > 0 || variance != variance ? variance : 0.0f;
        if (!(variance <= 1e37f && (least > 1e-20 || variance > 1e-20f)))
            return false;
        inverse = 1 / sqrt(variance + (float)least);
        if (leads) {
            int64_t from[2];
            trp__row_packs_find<2>(p.space, (uint32_t)row, p.io + TRP__NORM_MEAN, from);
            for (int i = 0; i < 2; i++) {
                const trp__rows_operand &o = p.io[TRP__NORM_MEAN + i];
                if (o.at)
                    trp__store_float<float>(o.at, from[i], o.type, i ? inverse : mean + more);
            }
        }
        more *= inverse;
        return true;
    }
    TRP__DEVICE void wide(const trp__norm &p) const
    {
        trp__norm_wide_row<A>(p, row, thread, epsilon(p));
    }
    TRP__DEVICE void apply(const trp__norm &p, int c, pack *v) const
    {
        float h[V];
        TRP__EACH(j, V)
            h[j] = fmaf(v->get(j) - mean, inverse, -more);
        affine.template apply<V>(p, from + packs::place(c), h);
        v->set(h);
        packs::write(y, c, *v);
    }
};

/* --- Forward --- */

template <int TYPE, typename A, int PACKS, int LENGTH = trp__row_type<TYPE>::V>
TRP__DEVICE void trp__norm_forward(const trp__norm &p)
{
    typedef trp__norm_packs<TYPE, A, LENGTH> R;
    R r;
    typename R::pack v[PACKS];
    float s[2] = {0, 0};
    r.find(p);
    r.template read<PACKS>(r.x, 0.0f, v);
    r.affine.begin(p, r.row, r.group, r.thread);
    r.mean = 0;
    if (p.centred)
        r.mean =
            trp__rows_together<trp__rows_sum, float>(r.template sum<PACKS>(v), p.threads, 0.0f) *
            p.share;
    r.template add<PACKS>(v, s);
    trp__rows_together<trp__rows_sum, float, 2>(s, p.threads, 0.0f);
    if (r.finish(p, s)) {
        TRP__EACH(c, PACKS)
            r.apply(p, c, &v[c]);
    } else {
        r.wide(p);
    }
}

/* Rows that registers do not hold. The first pass adds up differences from the mean of the first
 * tile. The second applies, from the last tile back, since the tiles read last are still in the
 * cache. */
template <int TYPE, typename A> TRP__DEVICE void trp__norm_walk(const trp__norm &p)
{
    typedef trp__norm_packs<TYPE, A> R;
    enum { DEEP = 4, TILE = TRP__NORM_WALK_THREADS * R::V * DEEP };
    R r;
    typename R::pack v[DEEP];
    float s[2] = {0, 0};
    r.find(p);
    const int tiles = (r.end + TILE - 1) / TILE, own = r.first;
    r.template read<DEEP>(r.x, 0.0f, v);
    r.affine.begin(p, r.row, r.group, r.thread);
    r.mean = 0;
    if (p.centred)
        r.mean = trp__rows_together<trp__rows_sum, float>(r.template sum<DEEP>(v),
                                                          TRP__NORM_WALK_THREADS, 0.0f) /
                 (float)(TILE - r.begin);
    for (int t = 0;;) {
        r.template add<DEEP>(v, s);
        if (++t >= tiles)
            break;
        r.first = own + t * TILE;
        r.template read<DEEP>(r.x, 0.0f, v);
    }
    trp__rows_together<trp__rows_sum, float, 2>(s, TRP__NORM_WALK_THREADS, 0.0f);
    if (!r.finish(p, s)) {
        r.wide(p);
        return;
    }
    for (int t = tiles - 1; t >= 0; t--) {
        r.first = own + t * TILE;
        r.template read<DEEP>(r.x, 0.0f, v);
        TRP__EACH(c, DEEP)
            r.apply(p, c, &v[c]);
    }
}

/* Launch bounds: threads of a block at most, and blocks of a multiprocessor at least. */
#define TRP__NORM_BOUNDS_2    TRP__NORM_GROUP, 12
#define TRP__NORM_BOUNDS_4    512, 2
#define TRP__NORM_BOUNDS_8    1024
#define TRP__NORM_BOUNDS_WALK TRP__NORM_WALK_THREADS

#define TRP__NORM_PACKED(name, bounds, kernel, ...)                                                \
    TRP__ENTRY(name, trp__norm, (TRP__NORM_BOUNDS_##bounds), trp__norm_##kernel<__VA_ARGS__>)

#define TRP__NORM_KERNELS(name, TYPE, AFFINE)                                                      \
    TRP__NORM_PACKED(name##_2, 2, forward, TYPE, AFFINE, 2)                                        \
    TRP__NORM_PACKED(name##_4, 4, forward, TYPE, AFFINE, 4)                                        \
    TRP__NORM_PACKED(name##_8, 8, forward, TYPE, AFFINE, 8)                                        \
    TRP__NORM_PACKED(name##_walk, WALK, walk, TYPE, AFFINE)

TRP__NORM_KERNELS(trp_norm_f32_each, TRP_F32, trp__norm_each)
TRP__NORM_KERNELS(trp_norm_bf16_each, TRP_BF16, trp__norm_each)
TRP__NORM_KERNELS(trp_norm_f16_each, TRP_F16, trp__norm_each)
TRP__NORM_KERNELS(trp_norm_f32_row, TRP_F32, trp__norm_row_affine<>)
TRP__NORM_KERNELS(trp_norm_bf16_row, TRP_BF16, trp__norm_row_affine<>)
TRP__NORM_KERNELS(trp_norm_f16_row, TRP_F16, trp__norm_row_affine<>)

/* Rows of 16-bit elements that begin at multiples of 4 elements, in packs of 8 bytes. */
#define TRP__NORM_HALF_KERNELS(name, TYPE)                                                         \
    TRP__NORM_PACKED(name##_4, 2, forward, TYPE, trp__norm_row_affine<false>, 4, 4)

TRP__NORM_HALF_KERNELS(trp_norm_bf16_half, TRP_BF16)
TRP__NORM_HALF_KERNELS(trp_norm_f16_half, TRP_F16)

#endif

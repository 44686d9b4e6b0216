/* Common parts of all passes: tiles in shared memory, scores and weights. */
#ifndef TRP_ACTORS_DNN_KERNELS_ATTENTION_TILES_CUH
#define TRP_ACTORS_DNN_KERNELS_ATTENTION_TILES_CUH

#include "actors/dnn/kernels/attention/span.cuh"

/* The shared memory of a block: tiles that it owns, one forward and two backward, and walks. */
template <typename E> struct trp__attention_memory {
    typename E::element own[E::OWNED][E::OWN * E::PITCH];
    typename E::element walk[2][E::WALK * E::PITCH];
    typename E::T scratch[E::OWN * E::SCRATCH];
    typename E::T sums[TRP__ATTENTION_SUMS][E::WALK]; /* of rows that are walked */
    uint8_t kept[E::OWN * E::WALK / 4];               /* 4 bits each: weights not dropped */
    /* True if the tiles that are walked in this turn, and in the next, hold infinities or NaN. */
    int32_t odd[2];
    int32_t any;
};

/* A barrier of the block. Returns whether `odd` is true of any of its threads. Between two calls
 * there must be another barrier: one thread clears the flag of the next call only after this one.
 */
template <typename E>
TRP__DEVICE bool trp__attention_meet(trp__attention_memory<E> *m, bool odd, int *turn)
{
    if (odd)
        m->odd[*turn] = 1;
    __syncthreads();
    odd = m->odd[*turn];
    *turn ^= 1;
    if (threadIdx.x == 0)
        m->odd[*turn] = 0;
    return odd;
}

/* Returns how many accesses a thread has in flight at a time. */
TRP__DEVICE constexpr int trp__attention_run(int count)
{
    return count < 8 ? count : 8;
}

/* Tells whether a tile is copied from a tensor unconverted, 16 bytes at a time. */
template <typename E> TRP__DEVICE bool trp__copies(const trp__attention_tensor &t, int32_t depth)
{
    return t.type == E::NATIVE && t.chunk && depth % (16 / (int)sizeof(typename E::element)) == 0;
}

/* Begins to fill a tile with rows of a tensor, and with zeros beyond the last row or element.
 * Copies of unconverted tiles may still be pending when it returns. Returns whether a converted
 * element is not finite; for copies see trp__odd_tile(). */
template <typename E, int ROWS>
TRP__DEVICE bool trp__load_tile(typename E::element *tile, const trp__attention_tensor &t,
                                int64_t batch, int64_t head, int32_t first, int32_t end,
                                int32_t depth)
{
    constexpr int SIZE = (int)sizeof(typename E::element), PER = 16 / SIZE;
    constexpr int LINE = E::DEPTH / PER, STEP = TRP__ATTENTION_THREADS / LINE;
    static_assert(TRP__ATTENTION_THREADS % LINE == 0, "a thread copies one part of all its rows");
    const int64_t base = batch * t.stride[0] + head * t.stride[1];
    bool odd = false;
    if (trp__copies<E>(t, depth)) {
        const int own_row = (int)threadIdx.x / LINE, at = (int)threadIdx.x % LINE * PER;
        const int32_t count = at < depth ? end - first : 0;
        const uint64_t step = (uint64_t)t.stride[2] * (STEP * SIZE);
        uint64_t from =
            t.at + (uint64_t)(base + (int64_t)(first + own_row) * t.stride[2] + at) * SIZE;
        TRP__ROLLED
        for (int row = own_row; row < ROWS; row += STEP) {
            trp__async_copy_some<16>(tile + row * E::PITCH + at, row < count ? from : t.at,
                                     row < count ? 16 : 0);
            from += step;
        }
        return false;
    }
    TRP__ROLLED
    for (int i = (int)threadIdx.x; i < ROWS * (E::DEPTH / 4); i += TRP__ATTENTION_THREADS) {
        const int row = i / (E::DEPTH / 4), at = i % (E::DEPTH / 4) * 4;
        const int count = first + row < end ? depth - at : 0;
        odd |= E::put4(tile + row * E::PITCH + at, t,
                       base + (int64_t)(first + row) * t.stride[2] + at * t.stride[3], count);
    }
    return odd;
}

/* Tells whether any element that this thread has copied to a tile is not finite, once the copies
 * have arrived. */
template <typename E, int ROWS>
TRP__DEVICE bool trp__odd_tile(const typename E::element *tile, const trp__attention_tensor &t,
                               int32_t depth)
{
    constexpr int PER = 16 / (int)sizeof(typename E::element), LINE = E::DEPTH / PER;
    bool odd = false;
    if (!trp__copies<E>(t, depth))
        return false;
    TRP__ROLLED
    for (int i = (int)threadIdx.x; i < ROWS * LINE; i += TRP__ATTENTION_THREADS)
        odd |= E::is_odd(*(const trp__pack16 *)(tile + i / LINE * E::PITCH + i % LINE * PER));
    return odd;
}

TRP__DEVICE uint32_t trp__kept_bits(const trp__attention &p, uint64_t seed, uint64_t offset,
                                    uint64_t number)
{
    uint32_t word[TRP__PHILOX_WORDS], bits = 0;
    trp__philox_block(seed, offset, number / 4, word);
    for (int k = 0; k < 4; k++)
        bits |= (uint32_t)((word[k] >> 8) >= p.threshold) << k;
    return bits;
}

/* Fills the dropout mask of `rows` rows and `columns` columns: a byte for 4 weights of a row, with
 * a bit for each that is not dropped. */
TRP__DEVICE void trp__fill_kept(const trp__attention &p, uint8_t *kept, int64_t head, int32_t row,
                                int rows, int32_t column, int columns)
{
    const uint64_t seed = p.seed_at ? trp__at<uint64_t>(p.seed_at, 0) : p.seed;
    const uint64_t offset = p.offset_at ? trp__at<uint64_t>(p.offset_at, 0) : p.offset;
    for (int i = (int)threadIdx.x; i < rows * (columns / 4); i += TRP__ATTENTION_THREADS) {
        const uint64_t number =
            (uint64_t)(head * p.rows + row + i / (columns / 4)) * (uint64_t)p.columns +
            (uint64_t)(column + i % (columns / 4) * 4);
        const uint32_t behind = (uint32_t)(number % 4);
        uint32_t bits = trp__kept_bits(p, seed, offset, number);
        if (behind)
            bits = bits >> behind | trp__kept_bits(p, seed, offset, number + 3) << (4 - behind);
        kept[i] = (uint8_t)(bits & 15);
    }
}

/* The terms that are added to the scores of one head. */
template <typename T> struct trp__attention_scores {
    const trp__attention *p;
    trp__attention_span span;
    bool bias, plain; /* plain: a score is a product times the scale */
    T scale, slope;

    TRP__DEVICE trp__attention_scores(const trp__attention &q, int32_t batch, int32_t head)
        : p(&q), span(trp__span_of(q, batch)), bias(q.tensor[TRP__ATTENTION_BIAS].at != 0),
          plain(!bias && !q.tensor[TRP__ATTENTION_SLOPES].at), scale((T)q.scale), slope(0)
    {
        const trp__attention_tensor &s = q.tensor[TRP__ATTENTION_SLOPES];
        if (s.at)
            slope = trp__load_float<T>(s.at, head * s.stride[1], s.type);
    }

    /* Returns the score of a product of q and k; `add`: the address of its bias. */
    TRP__DEVICE T of(T product, const T *add, int32_t row, int32_t column) const
    {
        T s = product * scale;
        if (bias && *add == -(T)INFINITY)
            return *add; /* hidden, whatever the product is */
        if (bias)
            s += *add;
        if (p->tensor[TRP__ATTENTION_SLOPES].at)
            s += slope * (T)(column - row);
        return s;
    }
};

/* The part of a tile of scores that a warp holds. */
template <typename E, bool TURNED> struct trp__attention_part {
    int from, to; /* the part of the walked tile that any of its rows, or columns, sees */
    bool whole;   /* all of these see all of the tile */
    TRP__DEVICE trp__attention_part(const trp__attention_span &span, int32_t own, int32_t walk)
    {
        constexpr int COUNT = E::OWN / 4;
        const int32_t first = own + E::warp() * COUNT;
        const int32_t size = TURNED ? span.columns : span.rows;
        const int32_t last = (first + COUNT < size ? first + COUNT : size) - 1;
        from = to = 0;
        whole = TURNED ? span.whole(walk, E::WALK, first, COUNT)
                       : span.whole(first, COUNT, walk, E::WALK);
        if (last < first)
            return;
        from = (TURNED ? span.first_row(first) : span.first(first)) - walk;
        to = (TURNED ? span.end_row(last) : span.end(last)) - walk;
        from = from > 0 ? from : 0;
        to = to < E::WALK ? to : E::WALK;
    }
    TRP__DEVICE bool any() const
    {
        return from < to;
    }
};

/* o += s b where b holds infinities or NaN: unseen elements are left out, since 0 times them is
 * NaN. */
template <typename E, bool TURNED>
TRP__DEVICE void trp__weigh_seen(const E &e, typename E::T o[E::RM][E::RD],
                                 const typename E::T s[E::RM][E::RN], typename E::T *scratch,
                                 const typename E::element *b, const trp__attention_span &span,
                                 int32_t own, int32_t walk)
{
    __syncwarp();
    trp__attention_spread(e, s, scratch);
    __syncwarp();
    TRP__EACH(i, E::RM) {
        TRP__ROLLED
        for (int k = 0; k < E::WALK; k++) {
            const int32_t row = TURNED ? walk + k : own + e.row(i);
            const int32_t column = TURNED ? own + e.row(i) : walk + k;
            const typename E::T weight = scratch[e.row(i) * E::SCRATCH + k];
            if (!span.sees(row, column) || weight == 0)
                continue;
            TRP__EACH(c, E::RD)
                o[i][c] = trp__fma(weight, E::value(b[k * E::PITCH + e.depth(c)]), o[i][c]);
        }
    }
}

/* o += s b; `odd`: b holds infinities or NaN. */
template <typename E, bool TURNED>
TRP__DEVICE void trp__weigh(const E &e, typename E::T o[E::RM][E::RD],
                            const typename E::T s[E::RM][E::RN], typename E::T *scratch,
                            const typename E::element *b, bool odd,
                            const trp__attention_scores<typename E::T> &scores,
                            const trp__attention_part<E, TURNED> &part, int32_t own, int32_t walk)
{
    if (odd && (scores.bias || !part.whole))
        trp__weigh_seen<E, TURNED>(e, o, s, scratch, b, scores.span, own, walk);
    else
        e.weigh(o, s, scratch, b, part.from, part.to);
}

/* Writes a tile by way of shared memory, so that neighbouring threads write neighbouring elements.
 */
template <typename E>
TRP__DEVICE void trp__store_tile(const E &e, trp__attention_memory<E> *m,
                                 const trp__attention_tensor &t, int64_t batch, int64_t head,
                                 int32_t first, int32_t end, int32_t depth,
                                 const typename E::T o[E::RM][E::RD])
{
    typedef typename E::T T;
    constexpr int PITCH = E::DEPTH + 4;
    static_assert(E::OWN * PITCH * sizeof(T) <= sizeof *m, "as large as a tile");
    const int64_t base = batch * t.stride[0] + head * t.stride[1];
    T *const tile = (T *)m;
    trp__async_wait_all();
    __syncthreads();
    TRP__EACH(i, E::RM) {
        TRP__EACH(c, E::RD)
            tile[e.row(i) * PITCH + e.depth(c)] = o[i][c];
    }
    __syncthreads();
    TRP__ROLLED
    for (int i = (int)threadIdx.x; i < E::OWN * (E::DEPTH / 4); i += TRP__ATTENTION_THREADS) {
        const int row = i / (E::DEPTH / 4), at = i % (E::DEPTH / 4) * 4;
        const int64_t to = base + (int64_t)(first + row) * t.stride[2] + at * t.stride[3];
        if (first + row >= end)
            continue;
        if (t.vector && at + 4 <= depth) {
            trp__store_run<T, 4>(t.at, to, t.type, &tile[row * PITCH + at]);
            continue;
        }
        TRP__ROLLED
        for (int k = 0; k < 4 && at + k < depth; k++)
            trp__store_float<T>(t.at, to + k * t.stride[3], t.type, tile[row * PITCH + at + k]);
    }
}

TRP__DEVICE float trp__bias_value(float stored, uint8_t)
{
    return stored;
}
TRP__DEVICE double trp__bias_value(double stored, uint8_t)
{
    return stored;
}
TRP__DEVICE float trp__bias_value(uint16_t stored, uint8_t type)
{
    return type == TRP_BF16 ? trp__bf16_to_f32(stored) : trp__half_value(stored);
}

template <typename E, bool TURNED, typename STORED>
TRP__DEVICE void trp__copy_bias(trp__attention_memory<E> *m, const trp__attention &p, int64_t base,
                                int32_t own, int32_t walk)
{
    const trp__attention_tensor &t = p.tensor[TRP__ATTENTION_BIAS];
    constexpr int FAST = TURNED ? E::OWN : E::WALK;
    constexpr int EACH = E::OWN * E::WALK / TRP__ATTENTION_THREADS,
                  BATCH = trp__attention_run(EACH);
    TRP__ROLLED
    for (int n = 0; n < EACH; n += BATCH) {
        STORED x[BATCH];
        TRP__EACH(k, BATCH) {
            const int i = (n + k) * TRP__ATTENTION_THREADS + (int)threadIdx.x;
            const int32_t row = (TURNED ? walk : own) + i / FAST;
            const int32_t column = (TURNED ? own : walk) + i % FAST;
            x[k] = 0;
            if (row < p.rows && column < p.columns)
                x[k] = trp__at<STORED>(t.at, base + row * t.stride[2] + column * t.stride[3]);
        }
        TRP__EACH(k, BATCH) {
            const int i = (n + k) * TRP__ATTENTION_THREADS + (int)threadIdx.x;
            m->scratch[TURNED ? i % FAST * E::SCRATCH + i / FAST
                              : i / FAST * E::SCRATCH + i % FAST] =
                (typename E::T)trp__bias_value(x[k], t.type);
        }
    }
}

/* Copies the part of a bias that is added to a tile of scores into the scratch memory. */
template <typename E, bool TURNED>
TRP__DEVICE void trp__load_bias(trp__attention_memory<E> *m, const trp__attention &p, int32_t batch,
                                int32_t head, int32_t own, int32_t walk)
{
    const trp__attention_tensor &t = p.tensor[TRP__ATTENTION_BIAS];
    const int64_t base = batch * t.stride[0] + head * t.stride[1];
    if (!t.at)
        return;
    if (t.type == TRP_F32)
        trp__copy_bias<E, TURNED, float>(m, p, base, own, walk);
    else if (t.type == TRP_F64)
        trp__copy_bias<E, TURNED, double>(m, p, base, own, walk);
    else
        trp__copy_bias<E, TURNED, uint16_t>(m, p, base, own, walk);
}

template <typename E, int COUNT> TRP__DEVICE void trp__clear(typename E::T (&o)[E::RM][COUNT])
{
    TRP__EACH(i, E::RM) {
        TRP__EACH(c, COUNT)
            o[i][c] = 0;
    }
}

template <typename E> TRP__DEVICE typename E::T trp__row_most(typename E::T value)
{
    TRP__EACH(n, E::LANE_BITS)
        value = fmax(__shfl_xor_sync(0xffffffffu, value, E::lane_mask(n)), value);
    return value;
}

template <typename E> TRP__DEVICE typename E::T trp__row_sum(typename E::T value)
{
    TRP__EACH(n, E::LANE_BITS)
        value += __shfl_xor_sync(0xffffffffu, value, E::lane_mask(n));
    return value;
}

/* The tile that a block owns. Under a causal mask, blocks begin with the tiles that have most work.
 * Where products take the time, these are tiles of all heads, so that the last blocks are short;
 * where copies do, the tiles of a head follow each other, so that k and v stay in the cache. */
struct trp__attention_block {
    int32_t tile, batch, head; /* tile: its first row or column */
    TRP__DEVICE trp__attention_block(const trp__attention &p, int32_t size, int32_t own,
                                     int32_t heads, bool last_first, bool compute_bound)
    {
        const uint32_t tiles = (uint32_t)(size + own - 1) / (uint32_t)own;
        const uint32_t all_heads = (uint32_t)heads * (uint32_t)p.batches;
        const bool by_tile = compute_bound && p.causal;
        const uint32_t all =
            by_tile ? (uint32_t)blockIdx.x % all_heads : (uint32_t)blockIdx.x / tiles;
        const uint32_t one =
            by_tile ? (uint32_t)blockIdx.x / all_heads : (uint32_t)blockIdx.x % tiles;
        tile = (int32_t)(last_first && p.causal ? tiles - 1 - one : one) * own;
        batch = (int32_t)(all / (uint32_t)heads);
        head = (int32_t)(all % (uint32_t)heads);
    }
};

/* Turns products of a tile into scores. Unseen ones become minus infinity. */
template <typename E, bool PLAIN, bool WHOLE>
TRP__DEVICE void trp__score(const E &e, const typename E::T *bias,
                            const trp__attention_scores<typename E::T> &scores, int32_t own,
                            int32_t walk, typename E::T s[E::RM][E::RN])
{
    TRP__EACH(i, E::RM) {
        const int32_t row = own + e.row(i);
        const int32_t first = WHOLE ? 0 : scores.span.first(row);
        const int32_t end = WHOLE ? 0 : scores.span.end(row);
        TRP__EACH(j, E::RN) {
            const int32_t column = walk + e.column(j);
            const typename E::T score =
                PLAIN ? s[i][j] * scores.scale
                      : scores.of(s[i][j], &bias[e.row(i) * E::SCRATCH + e.column(j)], row, column);
            s[i][j] =
                WHOLE || (column >= first && column < end) ? score : trp__lowest<typename E::T>();
        }
    }
}

/* Turns products of a tile into scores, and these into weights relative to the largest score of
 * each row so far. Updates that score and the sum of each row. `again` gets the factor that o must
 * be multiplied by. */
template <typename E>
TRP__DEVICE void trp__soft_max(const E &e, const trp__attention_memory<E> *m,
                               const trp__attention_scores<typename E::T> &scores, bool whole,
                               int32_t own, int32_t walk, typename E::T s[E::RM][E::RN],
                               typename E::T most[E::RM], typename E::T sum[E::RM],
                               typename E::T again[E::RM])
{
    typedef typename E::T T;
    if (!scores.plain)
        trp__score<E, false, false>(e, m->scratch, scores, own, walk, s);
    else if (whole)
        trp__score<E, true, true>(e, m->scratch, scores, own, walk, s);
    else
        trp__score<E, true, false>(e, m->scratch, scores, own, walk, s);
    TRP__EACH(i, E::RM) {
        T largest = most[i];
        TRP__EACH(j, E::RN)
            largest = fmax(s[i][j], largest);
        largest = trp__row_most<E>(largest);
        const T from = largest == trp__lowest<T>() ? T(0) : largest;
        again[i] = trp__weight(most[i] - from);
        most[i] = largest;
        sum[i] *= again[i];
        TRP__EACH(j, E::RN) {
            s[i][j] = trp__weight(s[i][j] - from);
            sum[i] += s[i][j];
        }
    }
}

#endif

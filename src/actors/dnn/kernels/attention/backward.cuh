/* The backward pass. */
#ifndef TRP_ACTORS_DNN_KERNELS_ATTENTION_BACKWARD_CUH
#define TRP_ACTORS_DNN_KERNELS_ATTENTION_BACKWARD_CUH

#include "actors/dnn/kernels/attention/tiles.cuh"

/* Sums dy y along each row; 0 for rows that see nothing. Eight lanes share a row, then the row 16
 * below. All loads are in flight together. */
template <typename E>
TRP__DEVICE void trp__row_products(const trp__attention &p, const trp__attention_span &span,
                                   int64_t batch, int64_t head, int32_t own,
                                   typename E::T sum[E::OWN / 16])
{
    typedef typename E::T T;
    constexpr int PER = 16 / (int)sizeof(typename E::element), ROWS = E::OWN / 16;
    const trp__attention_tensor &dy = p.tensor[TRP__ATTENTION_DY], &y = p.tensor[TRP__ATTENTION_Y];
    const int64_t from_dy = batch * dy.stride[0] + head * dy.stride[1];
    const int64_t from_y = batch * y.stride[0] + head * y.stride[1];
    const bool copies = trp__copies<E>(dy, p.width) && trp__copies<E>(y, p.width);
    TRP__EACH(r, ROWS)
        sum[r] = 0;
    TRP__ROLLED
    for (int32_t c = (int32_t)threadIdx.x % 8 * PER; c < p.width; c += 8 * PER) {
        trp__pack16 a[ROWS], b[ROWS];
        TRP__EACH(r, ROWS) {
            const int32_t row = own + r * 16 + (int32_t)threadIdx.x / 8;
            const bool sees = span.end(row) > span.first(row);
            a[r] = b[r] = trp__pack16{{0, 0, 0, 0}};
            if (sees && copies) {
                const uint64_t size = sizeof(typename E::element);
                a[r] = trp__at<trp__pack16>(
                    dy.at + (uint64_t)(from_dy + row * dy.stride[2] + c) * size, 0);
                b[r] = trp__at<trp__pack16>(
                    y.at + (uint64_t)(from_y + row * y.stride[2] + c) * size, 0);
            }
            TRP__ROLLED
            for (int32_t k = c; k < c + PER && k < p.width && sees && !copies; k++)
                sum[r] +=
                    trp__load_float<T>(dy.at, from_dy + row * dy.stride[2] + k * dy.stride[3],
                                      dy.type) *
                    trp__load_float<T>(y.at, from_y + row * y.stride[2] + k * y.stride[3], y.type);
        }
        TRP__UNROLL
        for (int r = 0; r < ROWS && copies; r++) {
            typename E::element x[PER], z[PER];
            memcpy(x, &a[r], sizeof x);
            memcpy(z, &b[r], sizeof z);
            TRP__EACH(k, PER)
                sum[r] += E::value(x[k]) * E::value(z[k]);
        }
    }
    TRP__EACH(r, ROWS) {
        TRP__UNROLL
        for (int mask = 1; mask < 8; mask *= 2)
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], mask);
    }
}

/* Writes the sums of each row that the other kernels need: the largest score, 1 / sum, and dy y.
 * Stats of the forward pass, the largest score plus log(sum), serve as a largest score with a sum
 * of 1. Where they are so large that they have lost the digits of the sum, the first two sums are
 * computed again. */
template <typename E> TRP__DEVICE void trp__attention_rows(const trp__attention &p)
{
    typedef typename E::T T;
    TRP__DYNAMIC(trp__attention_memory<E>, m);
    static_assert(sizeof *m <= E::SHARED, "as much as a launch has");
    const E e;
    const trp__attention_block block(p, p.rows, E::OWN, p.heads, true, E::COMPUTE_BOUND);
    const int32_t own = block.tile, shared = block.head / (p.heads / p.shared_heads);
    const int64_t head = (int64_t)block.batch * p.heads + block.head;
    const trp__attention_scores<T> scores(p, block.batch, block.head);
    const trp__attention_span &span = scores.span;
    const trp__attention_tensor &stats = p.tensor[TRP__ATTENTION_STATS];
    const int32_t last = (own + E::OWN < span.rows ? own + E::OWN : span.rows) - 1;
    const int32_t end = last >= own ? span.end(last) : 0;
    const T limit = p.recompute ? T(-1) : T(64);
    if (threadIdx.x == 0)
        m->any = 0;
    __syncthreads();
    T dot[E::OWN / 16];
    trp__row_products<E>(p, span, block.batch, block.head, own, dot);
    for (int r = 0; r < E::OWN / 16; r++) {
        const int32_t row = own + r * 16 + (int32_t)threadIdx.x / 8;
        const bool sees = span.end(row) > span.first(row);
        if (threadIdx.x % 8 != 0 || row >= p.rows)
            continue;
        const T most = trp__load_float<T>(stats.at,
                                         block.batch * stats.stride[0] +
                                             block.head * stats.stride[1] + row * stats.stride[2],
                                         stats.type);
        if (sees && most != trp__lowest<T>() && !(most <= limit && most >= -limit))
            m->any = 1;
        const bool none = !sees || most == trp__lowest<T>();
        const int64_t to = (head * p.rows + row) * TRP__ATTENTION_SUMS;
        trp__to<T>(p.sums, to) = none ? T(0) : most;
        trp__to<T>(p.sums, to + 1) = none ? T(0) : T(1);
        trp__to<T>(p.sums, to + 2) = dot[r];
    }
    __syncthreads();
    if (!m->any)
        return;
    T most[E::RM], sum[E::RM];
    for (int i = 0; i < E::RM; i++) {
        most[i] = trp__lowest<T>();
        sum[i] = 0;
    }
    trp__load_tile<E, E::OWN>(m->own[0], p.tensor[TRP__ATTENTION_Q], block.batch, block.head, own,
                              span.rows, p.depth);
    TRP__ROLLED
    for (int32_t walk = span.first(own) / E::WALK * E::WALK; walk < end; walk += E::WALK) {
        T s[E::RM][E::RN], again[E::RM];
        __syncthreads();
        trp__load_tile<E, E::WALK>(m->walk[0], p.tensor[TRP__ATTENTION_K], block.batch, shared,
                                   walk, span.columns, p.depth);
        trp__load_bias<E, false>(m, p, block.batch, block.head, own, walk);
        trp__async_wait_all();
        __syncthreads();
        trp__clear<E>(s);
        e.product(s, m->own[0], m->walk[0], p.depth);
        trp__soft_max(e, m, scores, false, own, walk, s, most, sum, again);
    }
    TRP__EACH(i, E::RM) {
        const int32_t row = own + e.row(i);
        const T all = trp__row_sum<E>(sum[i]);
        const int64_t to = (head * p.rows + row) * TRP__ATTENTION_SUMS;
        if (row < p.rows && e.column(0) == 0) {
            trp__to<T>(p.sums, to) = all == 0 ? T(0) : most[i];
            trp__to<T>(p.sums, to + 1) = all == 0 ? T(0) : T(1) / all;
        }
    }
}

/* Turns products of q and k (s) into weights, of which dropout clears some, and products of dy and
 * v (dp) into gradients of scores. The sums of rows belong to the thread's own rows or, TURNED, to
 * the rows that are walked. */
template <typename E, bool TURNED, bool PLAIN, bool WHOLE>
TRP__DEVICE void trp__attention_slopes_of(const E &e, const trp__attention_memory<E> *m,
                                          const trp__attention_scores<typename E::T> &scores,
                                          int32_t own, int32_t walk, const typename E::T *most,
                                          const typename E::T *by, const typename E::T *mean,
                                          typename E::T s[E::RM][E::RN],
                                          typename E::T dp[E::RM][E::RN])
{
    typedef typename E::T T;
    constexpr int ROWS = TURNED ? E::RN : E::RM, COLUMNS = TURNED ? E::RM : E::RN;
    TRP__EACH(r, ROWS) {
        const int line = TURNED ? e.column(r) : r;
        const int32_t row = TURNED ? walk + e.column(r) : own + e.row(r);
        const int32_t first = WHOLE ? 0 : scores.span.first(row);
        const int32_t end = WHOLE ? 0 : scores.span.end(row);
        const T largest = most[line], times = by[line], less = mean[line];
        TRP__EACH(c, COLUMNS) {
            const int i = TURNED ? c : r, j = TURNED ? r : c;
            const int32_t column = TURNED ? own + e.row(c) : walk + e.column(c);
            const int at = e.row(i) * E::SCRATCH + e.column(j);
            const T score =
                PLAIN ? s[i][j] * scores.scale : scores.of(s[i][j], &m->scratch[at], row, column);
            const bool seen = times != 0 && (WHOLE || (column >= first && column < end));
            /* No branch, so that the other elements are computed meanwhile. */
            const T weight = trp__weight(seen ? score - largest : trp__lowest<T>()) * times;
            T slope = dp[i][j], factor = 1;
            if (!PLAIN && scores.p->dropout) {
                const int bit = TURNED ? e.row(i) : e.column(j);
                const int byte = TURNED ? e.column(j) * (E::OWN / 4) + bit / 4
                                        : e.row(i) * (E::WALK / 4) + bit / 4;
                factor = m->kept[byte] >> bit % 4 & 1 ? (T)scores.p->factor : T(0);
                slope = factor == 0 ? T(0) : slope * factor;
            }
            /* Where a weight is 0, so is the gradient, even if k or v holds infinities or NaN. */
            dp[i][j] = weight == 0 ? T(0) : weight * (slope - less);
            s[i][j] = PLAIN ? weight : weight == 0 ? T(0) : weight * factor;
        }
    }
}

template <typename E, bool TURNED>
TRP__DEVICE void trp__attention_slopes(const E &e, const trp__attention_memory<E> *m,
                                       const trp__attention_scores<typename E::T> &scores,
                                       bool whole, int32_t own, int32_t walk,
                                       const typename E::T *most, const typename E::T *by,
                                       const typename E::T *mean, typename E::T s[E::RM][E::RN],
                                       typename E::T dp[E::RM][E::RN])
{
    if (!scores.plain || scores.p->dropout)
        trp__attention_slopes_of<E, TURNED, false, false>(e, m, scores, own, walk, most, by, mean,
                                                          s, dp);
    else if (whole)
        trp__attention_slopes_of<E, TURNED, true, true>(e, m, scores, own, walk, most, by, mean, s,
                                                        dp);
    else
        trp__attention_slopes_of<E, TURNED, true, false>(e, m, scores, own, walk, most, by, mean, s,
                                                         dp);
}

template <typename E>
TRP__DEVICE void trp__load_sums(const E &e, const trp__attention &p, int64_t head, int32_t own,
                                typename E::T most[E::RM], typename E::T by[E::RM],
                                typename E::T mean[E::RM])
{
    typedef typename E::T T;
    for (int i = 0; i < E::RM; i++) {
        const int64_t row = own + e.row(i), at = (head * p.rows + row) * TRP__ATTENTION_SUMS;
        const bool there = row < p.rows;
        most[i] = there ? trp__at<T>(p.sums, at) : T(0);
        by[i] = there ? trp__at<T>(p.sums, at + 1) : T(0);
        mean[i] = there ? trp__at<T>(p.sums, at + 2) : T(0);
    }
}

template <typename E> TRP__DEVICE void trp__attention_to_dq(const trp__attention &p)
{
    typedef typename E::T T;
    TRP__DYNAMIC(trp__attention_memory<E>, m);
    static_assert(sizeof *m <= E::SHARED, "as much as a launch has");
    const E e;
    const trp__attention_block block(p, p.rows, E::OWN, p.heads, true, E::COMPUTE_BOUND);
    const int32_t own = block.tile, shared = block.head / (p.heads / p.shared_heads);
    const int64_t head = (int64_t)block.batch * p.heads + block.head;
    const trp__attention_scores<T> scores(p, block.batch, block.head);
    const trp__attention_span &span = scores.span;
    const int32_t last = (own + E::OWN < span.rows ? own + E::OWN : span.rows) - 1;
    const int32_t end = last >= own ? span.end(last) : 0;
    T dq[E::RM][E::RD], most[E::RM], by[E::RM], mean[E::RM];
    trp__clear<E>(dq);
    trp__load_sums(e, p, head, own, most, by, mean);
    if (threadIdx.x == 0)
        m->odd[0] = m->odd[1] = 0;
    trp__load_tile<E, E::OWN>(m->own[0], p.tensor[TRP__ATTENTION_Q], block.batch, block.head, own,
                              span.rows, p.depth);
    trp__load_tile<E, E::OWN>(m->own[1], p.tensor[TRP__ATTENTION_DY], block.batch, block.head, own,
                              span.rows, p.width);
    const trp__attention_tensor &k = p.tensor[TRP__ATTENTION_K], &v = p.tensor[TRP__ATTENTION_V];
    const int32_t start = span.first(own) / E::WALK * E::WALK;
    if (start < end)
        trp__load_tile<E, E::WALK>(m->walk[1], v, block.batch, shared, start, span.columns,
                                   p.width);
    int turn = 0;
    TRP__ROLLED
    for (int32_t walk = start; walk < end; walk += E::WALK) {
        T s[E::RM][E::RN], dp[E::RM][E::RN];
        const trp__attention_part<E, false> part(span, own, walk);
        trp__async_wait_all();
        __syncthreads(); /* v has arrived; k is free */
        bool odd = trp__load_tile<E, E::WALK>(m->walk[0], k, block.batch, shared, walk,
                                              span.columns, p.depth);
        trp__load_bias<E, false>(m, p, block.batch, block.head, own, walk);
        if (p.dropout)
            trp__fill_kept(p, m->kept, head, own, E::OWN, walk, E::WALK);
        trp__clear<E>(s);
        trp__clear<E>(dp);
        if (part.any())
            e.product(dp, m->own[1], m->walk[1], p.width);
        trp__async_wait_all();
        if (scores.bias || !span.whole(own, E::OWN, walk, E::WALK))
            odd |= trp__odd_tile<E, E::WALK>(m->walk[0], k, p.depth);
        odd = trp__attention_meet<E>(m, odd, &turn); /* k has arrived; v is free */
        if (walk + E::WALK < end)
            trp__load_tile<E, E::WALK>(m->walk[1], v, block.batch, shared, walk + E::WALK,
                                       span.columns, p.width);
        if (!part.any())
            continue;
        e.product(s, m->own[0], m->walk[0], p.depth);
        trp__attention_slopes<E, false>(e, m, scores, part.whole, own, walk, most, by, mean, s, dp);
        trp__weigh<E, false>(e, dq, dp, m->scratch, m->walk[0], odd, scores, part, own, walk);
    }
    TRP__EACH(i, E::RM) {
        TRP__EACH(c, E::RD)
            dq[i][c] *= (T)p.scale;
    }
    trp__store_tile(e, m, p.tensor[TRP__ATTENTION_DQ], block.batch, block.head, own, p.rows,
                    p.depth, dq);
}

/* Loads the sums of the rows that are walked. */
template <typename E>
TRP__DEVICE void trp__load_walked_sums(trp__attention_memory<E> *m, const trp__attention &p,
                                       int64_t head, int32_t walk)
{
    typedef typename E::T T;
    for (int i = (int)threadIdx.x; i < E::WALK * TRP__ATTENTION_SUMS; i += TRP__ATTENTION_THREADS) {
        const int row = i / TRP__ATTENTION_SUMS, one = i % TRP__ATTENTION_SUMS;
        const int64_t at = (head * p.rows + walk + row) * TRP__ATTENTION_SUMS + one;
        m->sums[one][row] = walk + row < p.rows ? trp__at<T>(p.sums, at) : T(0);
    }
}

/* A block owns columns of a head of k and v, and walks the rows of all heads of q that share it. */
template <typename E> TRP__DEVICE void trp__attention_to_dkv(const trp__attention &p)
{
    typedef typename E::T T;
    TRP__DYNAMIC(trp__attention_memory<E>, m);
    static_assert(sizeof *m <= E::SHARED, "as much as a launch has");
    const E e;
    const trp__attention_block block(p, p.columns, E::OWN, p.shared_heads, false, E::COMPUTE_BOUND);
    const int32_t own = block.tile, group = p.heads / p.shared_heads;
    const trp__attention_span span = trp__span_of(p, block.batch);
    const int32_t last = (own + E::OWN < span.columns ? own + E::OWN : span.columns) - 1;
    const int32_t first = span.first_row(own), end = last >= own ? span.end_row(last) : 0;
    T dk[E::RM][E::RD], dv[E::RM][E::RD];
    trp__clear<E>(dk);
    trp__clear<E>(dv);
    if (threadIdx.x == 0)
        m->odd[0] = m->odd[1] = 0;
    trp__load_tile<E, E::OWN>(m->own[0], p.tensor[TRP__ATTENTION_K], block.batch, block.head, own,
                              span.columns, p.depth);
    trp__load_tile<E, E::OWN>(m->own[1], p.tensor[TRP__ATTENTION_V], block.batch, block.head, own,
                              span.columns, p.width);
    const trp__attention_tensor &q = p.tensor[TRP__ATTENTION_Q], &dy = p.tensor[TRP__ATTENTION_DY];
    const int32_t start = first / E::WALK * E::WALK;
    int turn = 0;
    bool odd = false;
    if (start < end)
        odd = trp__load_tile<E, E::WALK>(m->walk[1], dy, block.batch, block.head * group, start,
                                         span.rows, p.width);
    TRP__ROLLED
    for (int32_t one = 0; one < group; one++) {
        const int32_t of = block.head * group + one;
        const int64_t head = (int64_t)block.batch * p.heads + of;
        const trp__attention_scores<T> scores(p, block.batch, of);
        TRP__ROLLED
        for (int32_t walk = start; walk < end; walk += E::WALK) {
            T s[E::RM][E::RN], dp[E::RM][E::RN];
            const trp__attention_part<E, true> part(span, own, walk);
            const bool check = scores.bias || !span.whole(walk, E::WALK, own, E::OWN);
            trp__async_wait_all();
            if (check)
                odd |= trp__odd_tile<E, E::WALK>(m->walk[1], dy, p.width);
            __syncthreads(); /* dy has arrived; q is free */
            odd |= trp__load_tile<E, E::WALK>(m->walk[0], q, block.batch, of, walk, span.rows,
                                              p.depth);
            trp__load_walked_sums(m, p, head, walk);
            trp__load_bias<E, true>(m, p, block.batch, of, own, walk);
            if (p.dropout)
                trp__fill_kept(p, m->kept, head, walk, E::WALK, own, E::OWN);
            trp__clear<E>(s);
            trp__clear<E>(dp);
            if (part.any())
                e.product(dp, m->own[1], m->walk[1], p.width);
            trp__async_wait_all();
            if (check)
                odd |= trp__odd_tile<E, E::WALK>(m->walk[0], q, p.depth);
            const bool careful =
                trp__attention_meet<E>(m, odd, &turn); /* q and all sums are loaded */
            if (part.any()) {
                e.product(s, m->own[0], m->walk[0], p.depth);
                trp__attention_slopes<E, true>(e, m, scores, part.whole, own, walk, m->sums[0],
                                               m->sums[1], m->sums[2], s, dp);
                trp__weigh<E, true>(e, dv, s, m->scratch, m->walk[1], careful, scores, part, own,
                                    walk);
            }
            __syncthreads(); /* no thread reads dy any more */
            const bool more = walk + E::WALK < end;
            odd = (more || one + 1 < group) &&
                  trp__load_tile<E, E::WALK>(m->walk[1], dy, block.batch, more ? of : of + 1,
                                             more ? walk + E::WALK : start, span.rows, p.width);
            if (part.any())
                trp__weigh<E, true>(e, dk, dp, m->scratch, m->walk[0], careful, scores, part, own,
                                    walk);
        }
    }
    TRP__EACH(i, E::RM) {
        TRP__EACH(c, E::RD)
            dk[i][c] *= (T)p.scale;
    }
    if (p.tensor[TRP__ATTENTION_DK].at)
        trp__store_tile(e, m, p.tensor[TRP__ATTENTION_DK], block.batch, block.head, own, p.columns,
                        p.depth, dk);
    if (p.tensor[TRP__ATTENTION_DV].at)
        trp__store_tile(e, m, p.tensor[TRP__ATTENTION_DV], block.batch, block.head, own, p.columns,
                        p.width, dv);
}

/* A block adds up one tile of gradients of scores over the dimensions that p.over names. */
template <typename E> TRP__DEVICE void trp__attention_to_dbias(const trp__attention &p)
{
    typedef typename E::T T;
    TRP__DYNAMIC(trp__attention_memory<E>, m);
    static_assert(sizeof *m <= E::SHARED, "as much as a launch has");
    const E e;
    const uint32_t column_tiles = p.over[3] ? 1 : (uint32_t)(p.columns + E::WALK - 1) / E::WALK;
    const uint32_t row_tiles = p.over[2] ? 1 : (uint32_t)(p.rows + E::OWN - 1) / E::OWN;
    const uint32_t heads = p.over[1] ? 1 : (uint32_t)p.heads;
    uint32_t i0 = blockIdx.x;
    const int32_t column0 = (int32_t)(i0 % column_tiles) * E::WALK;
    i0 /= column_tiles;
    const int32_t row0 = (int32_t)(i0 % row_tiles) * E::OWN;
    i0 /= row_tiles;
    const int32_t head0 = (int32_t)(i0 % heads), batch0 = (int32_t)(i0 / heads);
    const int32_t batch_end = p.over[0] ? p.batches : batch0 + 1;
    const int32_t head_end = p.over[1] ? p.heads : head0 + 1;
    const int32_t row_end = p.over[2] ? p.rows : row0 + 1;
    const int32_t column_end = p.over[3] ? p.columns : column0 + 1;
    T total[E::RM][E::RN];
    trp__clear<E>(total);
    for (int32_t batch = batch0; batch < batch_end; batch++) {
        for (int32_t of = head0; of < head_end; of++) {
            const int64_t head = (int64_t)batch * p.heads + of;
            const int32_t shared = of / (p.heads / p.shared_heads);
            const trp__attention_scores<T> scores(p, batch, of);
            const trp__attention_span &span = scores.span;
            for (int32_t own = row0; own < row_end && own < span.rows; own += E::OWN) {
                const int32_t last = (own + E::OWN < span.rows ? own + E::OWN : span.rows) - 1;
                T most[E::RM], by[E::RM], mean[E::RM];
                trp__load_sums(e, p, head, own, most, by, mean);
                bool loaded = false;
                TRP__ROLLED
                for (int32_t walk = column0; walk < column_end; walk += E::WALK) {
                    T s[E::RM][E::RN], dp[E::RM][E::RN];
                    if (walk >= span.end(last) || walk + E::WALK <= span.first(own))
                        continue;
                    __syncthreads();
                    if (!loaded) {
                        trp__load_tile<E, E::OWN>(m->own[0], p.tensor[TRP__ATTENTION_Q], batch, of,
                                                  own, span.rows, p.depth);
                        trp__load_tile<E, E::OWN>(m->own[1], p.tensor[TRP__ATTENTION_DY], batch, of,
                                                  own, span.rows, p.width);
                        loaded = true;
                    }
                    trp__load_tile<E, E::WALK>(m->walk[0], p.tensor[TRP__ATTENTION_K], batch,
                                               shared, walk, span.columns, p.depth);
                    trp__load_tile<E, E::WALK>(m->walk[1], p.tensor[TRP__ATTENTION_V], batch,
                                               shared, walk, span.columns, p.width);
                    trp__load_bias<E, false>(m, p, batch, of, own, walk);
                    if (p.dropout)
                        trp__fill_kept(p, m->kept, head, own, E::OWN, walk, E::WALK);
                    trp__async_wait_all();
                    __syncthreads();
                    trp__clear<E>(s);
                    trp__clear<E>(dp);
                    e.product(s, m->own[0], m->walk[0], p.depth);
                    e.product(dp, m->own[1], m->walk[1], p.width);
                    trp__attention_slopes_of<E, false, false, false>(e, m, scores, own, walk, most,
                                                                     by, mean, s, dp);
                    TRP__EACH(i, E::RM) {
                        TRP__EACH(j, E::RN)
                            total[i][j] += dp[i][j];
                    }
                }
            }
        }
    }
    __syncthreads();
    trp__attention_spread(e, total, m->scratch);
    __syncthreads();
    const trp__attention_tensor &t = p.tensor[TRP__ATTENTION_DBIAS];
    const int rows = p.over[2] ? 1 : E::OWN, columns = p.over[3] ? 1 : E::WALK;
    for (int i = (int)threadIdx.x; i < rows * columns; i += TRP__ATTENTION_THREADS) {
        const int row = i / columns, column = i % columns;
        T sum = 0;
        if (row0 + row >= p.rows || column0 + column >= p.columns)
            continue;
        for (int a = 0; a < (p.over[2] ? E::OWN : 1); a++) {
            for (int b = 0; b < (p.over[3] ? E::WALK : 1); b++)
                sum += m->scratch[(row + a) * E::SCRATCH + column + b];
        }
        const int64_t to = batch0 * p.bias_stride[0] + head0 * p.bias_stride[1] +
                           (row0 + row) * p.bias_stride[2] + (column0 + column) * p.bias_stride[3];
        if (p.partial)
            trp__to<T>(p.partial, to) = sum;
        else
            trp__store_float<T>(t.at, to, t.type, sum);
    }
}

/* Adds up partial sums, [batches, heads, rows or 1, columns or 1], over the batches and heads along
 * which the bias is repeated: a thread for each element of dbias. */
template <typename T> TRP__DEVICE void trp__attention_fold(const trp__attention &p)
{
    const trp__attention_tensor &t = p.tensor[TRP__ATTENTION_DBIAS];
    const bool all_batches = t.stride[0] == 0, all_heads = t.stride[1] == 0;
    const int64_t columns = p.over[3] ? 1 : p.columns, rows = p.over[2] ? 1 : p.rows;
    const int64_t heads = all_heads ? 1 : p.heads, batches = all_batches ? 1 : p.batches;
    int64_t i = (int64_t)blockIdx.x * TRP__ATTENTION_THREADS + (int64_t)threadIdx.x;
    if (i >= batches * heads * rows * columns)
        return;
    const int64_t column = i % columns;
    i /= columns;
    const int64_t row = i % rows;
    i /= rows;
    const int64_t head = i % heads, batch = i / heads;
    T sum = 0;
    for (int64_t b = batch; b < (all_batches ? p.batches : batch + 1); b++) {
        for (int64_t h = head; h < (all_heads ? p.heads : head + 1); h++)
            sum += trp__at<T>(p.partial, b * p.bias_stride[0] + h * p.bias_stride[1] +
                                             row * p.bias_stride[2] + column * p.bias_stride[3]);
    }
    trp__store_float<T>(
        t.at, batch * t.stride[0] + head * t.stride[1] + row * t.stride[2] + column * t.stride[3],
        t.type, sum);
}

#endif

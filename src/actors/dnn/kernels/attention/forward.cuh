/* The forward pass. */
#ifndef TRP_ACTORS_DNN_KERNELS_ATTENTION_FORWARD_CUH
#define TRP_ACTORS_DNN_KERNELS_ATTENTION_FORWARD_CUH

#include "actors/dnn/kernels/attention/tiles.cuh"

template <typename E> TRP__DEVICE void trp__attention_forward(const trp__attention &p)
{
    typedef typename E::T T;
    TRP__DYNAMIC(trp__attention_memory<E>, m);
    static_assert(sizeof *m <= E::SHARED, "as much as a launch has");
    const E e;
    const trp__attention_block block(p, p.rows, E::OWN, p.heads, true, E::COMPUTE_BOUND);
    const int32_t own = block.tile, shared = block.head / (p.heads / p.shared_heads);
    const trp__attention_scores<T> scores(p, block.batch, block.head);
    const trp__attention_span &span = scores.span;
    const int32_t last = (own + E::OWN < span.rows ? own + E::OWN : span.rows) - 1;
    const int32_t end = last >= own ? span.end(last) : 0;
    T o[E::RM][E::RD], most[E::RM], sum[E::RM];
    trp__clear<E>(o);
    for (int i = 0; i < E::RM; i++) {
        most[i] = trp__lowest<T>();
        sum[i] = 0;
    }
    if (threadIdx.x == 0)
        m->odd[0] = m->odd[1] = 0;
    trp__load_tile<E, E::OWN>(m->own[0], p.tensor[TRP__ATTENTION_Q], block.batch, block.head, own,
                              span.rows, p.depth);
    const trp__attention_tensor &k = p.tensor[TRP__ATTENTION_K], &v = p.tensor[TRP__ATTENTION_V];
    const int32_t start = span.first(own) / E::WALK * E::WALK;
    if (start < end)
        trp__load_tile<E, E::WALK>(m->walk[0], k, block.batch, shared, start, span.columns,
                                   p.depth);
    int turn = 0;
    TRP__ROLLED
    for (int32_t walk = start; walk < end; walk += E::WALK) {
        T s[E::RM][E::RN], again[E::RM];
        const trp__attention_part<E, false> part(span, own, walk);
        trp__async_wait_all();
        __syncthreads(); /* k has arrived; v is free */
        bool odd = trp__load_tile<E, E::WALK>(m->walk[1], v, block.batch, shared, walk,
                                              span.columns, p.width);
        trp__load_bias<E, false>(m, p, block.batch, block.head, own, walk);
        if (p.dropout)
            trp__fill_kept(p, m->kept, (int64_t)block.batch * p.heads + block.head, own, E::OWN,
                           walk, E::WALK);
        trp__clear<E>(s);
        if (part.any())
            e.product(s, m->own[0], m->walk[0], p.depth);
        trp__async_wait_all();
        if (scores.bias || !span.whole(own, E::OWN, walk, E::WALK))
            odd |= trp__odd_tile<E, E::WALK>(m->walk[1], v, p.width);
        odd = trp__attention_meet<E>(m, odd, &turn); /* v has arrived; k is free */
        if (walk + E::WALK < end)
            trp__load_tile<E, E::WALK>(m->walk[0], k, block.batch, shared, walk + E::WALK,
                                       span.columns, p.depth);
        if (!part.any())
            continue;
        trp__soft_max(e, m, scores, part.whole, own, walk, s, most, sum, again);
        TRP__EACH(i, E::RM) {
            TRP__EACH(c, E::RD)
                o[i][c] *= again[i];
            if (p.dropout) {
                TRP__EACH(j, E::RN) {
                    const int column = e.column(j);
                    const bool kept =
                        m->kept[e.row(i) * (E::WALK / 4) + column / 4] >> column % 4 & 1;
                    s[i][j] = kept ? s[i][j] * (T)p.factor : T(0);
                }
            }
        }
        trp__weigh<E, false>(e, o, s, m->scratch, m->walk[1], odd, scores, part, own, walk);
    }
    TRP__EACH(i, E::RM) {
        const int32_t row = own + e.row(i);
        const T all = trp__row_sum<E>(sum[i]);
        const T by = all == 0 ? T(0) : T(1) / all;
        TRP__EACH(c, E::RD)
            o[i][c] = all == 0 ? T(0) : o[i][c] * by;
        const trp__attention_tensor &t = p.tensor[TRP__ATTENTION_STATS];
        if (t.at && row < p.rows && e.column(0) == 0)
            trp__store_float<T>(
                t.at, block.batch * t.stride[0] + block.head * t.stride[1] + row * t.stride[2],
                t.type, all == 0 ? trp__lowest<T>() : most[i] + log(all));
    }
    trp__store_tile(e, m, p.tensor[TRP__ATTENTION_Y], block.batch, block.head, own, p.rows, p.width,
                    o);
}

#endif

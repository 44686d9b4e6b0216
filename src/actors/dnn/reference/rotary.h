/* ROTARY and ROTARY_BACKWARD, a part of kernels.h: one thread per pair, and per unrotated element,
 * so that y may have x's place. */
TRP__KERNEL void trp_direct_rotary(const trp__direct d)
{
    const trp__dnn_tensor *x = &d.tensor[TRP__ROTARY_X], *y = &d.tensor[TRP__ROTARY_Y];
    const trp__dnn_tensor *s = &d.tensor[TRP__DIRECT_STATISTICS];
    const trp__dnn_tensor *table = &d.tensor[TRP__ROTARY_COS];
    const int last = x->rank - 1;
    const bool tables = d.used[TRP__ROTARY_COS];
    const int64_t turning = trp__rotary_turning(&d.node, x, tables ? table : NULL);
    const int64_t begin = (int64_t)word_at(&d, TRP__ROTARY_OFFSET);
    FOR_THREADS(i, d.count)
    {
        int64_t at[TRP__DNN_RANK];
        double cosine, sine;
        position(s, i, at);
        const int64_t pair = at[last];
        int64_t place = at[last - 1] + begin;
        if (pair >= turning / 2) {
            at[last] = pair + turning / 2;
            store_at(&d, TRP__ROTARY_Y, x->rank, at, load_at(&d, TRP__ROTARY_X, x->rank, at));
            continue;
        }
        if (d.used[TRP__ROTARY_INDEX])
            place = load_integer(&d, TRP__ROTARY_INDEX,
                                 offset(&d.tensor[TRP__ROTARY_INDEX], x->rank, at));
        if (!tables) {
            const double angle = trp__rotary_angle(&d.node, turning, place, pair);
            cosine = cos(angle);
            sine = sin(angle);
        } else if (place < 0 || place >= table->dim[0]) {
            cosine = sine = NAN;
        } else {
            const int64_t entry[2] = {place, pair};
            cosine = load_at(&d, TRP__ROTARY_COS, 2, entry);
            sine = load_at(&d, TRP__ROTARY_SIN, 2, entry);
        }
        if (d.node.kind == TRP_DNN_ROTARY_BACKWARD)
            sine = -sine;
        at[last] = trp__rotary_first(&d.node, pair);
        const int64_t u_to = offset(y, y->rank, at);
        const double u = load_at(&d, TRP__ROTARY_X, x->rank, at);
        at[last] = trp__rotary_second(&d.node, turning, pair);
        const int64_t v_to = offset(y, y->rank, at);
        const double v = load_at(&d, TRP__ROTARY_X, x->rank, at);
        store(&d, TRP__ROTARY_Y, u_to, u * cosine - v * sine);
        store(&d, TRP__ROTARY_Y, v_to, u * sine + v * cosine);
    }
}

/* ROTARY on the host, a part of f32.c and f64.c: threads share the rows along the last
 * dimension. */

typedef struct NAME(rotary) {
    const trp__train_node *x;
    trp__train_walk walk;
    int64_t width, turning;
    const T *cosines, *sines; /* of all positions from `offset` on; NULL: computed per row */
    int64_t offset;
} NAME(rotary);

/* Computes the cosines and sines of some pairs of a row. */
static void NAME(rotary_angles)(const NAME(rotary) * r, const trp__train_walk *w, int64_t first,
                                int64_t count, T *cosine, T *sine)
{
    const trp__train_node *x = r->x;
    const trp__dnn_tensor *table = x->t[TRP__ROTARY_COS], *index = x->t[TRP__ROTARY_INDEX];
    const int64_t row = w->at[w->rank - 2], half = r->turning / 2;
    int64_t position = row + r->offset;
    if (r->cosines) {
        memcpy(cosine, r->cosines + row * half + first, (size_t)count * sizeof(T));
        memcpy(sine, r->sines + row * half + first, (size_t)count * sizeof(T));
        return;
    }
    if (index)
        position =
            trp__train_index(index, x->at[TRP__ROTARY_INDEX], trp__train_walk_offset(w, index));
    if (table && (position < 0 || position >= table->dim[0])) {
        for (int64_t i = 0; i < count; i++)
            cosine[i] = sine[i] = (T)NAN;
    } else if (table) {
        for (int k = 0; k < 2; k++) {
            const trp__dnn_tensor *t = x->t[TRP__ROTARY_COS + k];
            T *to = k ? sine : cosine;
            const T *v =
                VIEW(t, x->at[TRP__ROTARY_COS + k], position * t->stride[0] + first * t->stride[1],
                     t->stride[1], count, to);
            if (v != to)
                memcpy(to, v, (size_t)count * sizeof(T));
        }
    } else {
        for (int64_t i = 0; i < count; i++) {
            const double angle = trp__rotary_angle(x->n, r->turning, position, first + i);
            cosine[i] = (T)cos(angle);
            sine[i] = (T)sin(angle);
        }
    }
}

static void NAME(rotary_rows)(void *context, int64_t first, int64_t end)
{
    enum { BLOCK = 128 };
    const NAME(rotary) *r = context;
    const trp__dnn_node *n = r->x->n;
    const trp__dnn_tensor *from = r->x->t[TRP__ROTARY_X], *to = r->x->t[TRP__ROTARY_Y];
    const void *in = r->x->at[TRP__ROTARY_X];
    void *out = r->x->at[TRP__ROTARY_Y];
    const T back = n->kind == TRP_DNN_ROTARY_BACKWARD ? -1 : 1;
    const int64_t apart = n->mode == TRP_DNN_ROTARY_PAIRS ? 2 : 1;
    T u_block[BLOCK], v_block[BLOCK], cosine[BLOCK], sine[BLOCK], u_out[BLOCK], v_out[BLOCK];
    trp__train_walk w = r->walk;
    for (int64_t row = first; row < end; row++) {
        trp__train_walk_to(&w, row);
        const int64_t x = trp__train_walk_offset(&w, from), y = trp__train_walk_offset(&w, to);
        const int64_t dx = from->stride[from->rank - 1], dy = to->stride[to->rank - 1];
        for (int64_t i = 0, count; i < r->turning / 2; i += count) {
            count = r->turning / 2 - i < BLOCK ? r->turning / 2 - i : BLOCK;
            const int64_t a = trp__rotary_first(n, i), b = trp__rotary_second(n, r->turning, i);
            const T *u = VIEW(from, in, x + a * dx, apart * dx, count, u_block);
            const T *v = VIEW(from, in, x + b * dx, apart * dx, count, v_block);
            NAME(rotary_angles)(r, &w, i, count, cosine, sine);
            for (int64_t k = 0; k < count; k++) {
                u_out[k] = u[k] * cosine[k] - v[k] * (back * sine[k]);
                v_out[k] = u[k] * (back * sine[k]) + v[k] * cosine[k];
            }
            PUT(to, out, y + a * dy, apart * dy, count, u_out);
            PUT(to, out, y + b * dy, apart * dy, count, v_out);
        }
        for (int64_t i = r->turning, count; i < r->width; i += count) {
            count = r->width - i < BLOCK ? r->width - i : BLOCK;
            const T *u = VIEW(from, in, x + i * dx, dx, count, u_block);
            PUT(to, out, y + i * dy, dy, count, u);
        }
    }
}

void NAME(trp__train_rotary)(const trp__train_node *x)
{
    const trp__dnn_tensor *in = x->t[TRP__ROTARY_X];
    const int64_t rows = in->dim[in->rank - 2];
    NAME(rotary)
    r = {.x = x,
         .width = in->dim[in->rank - 1],
         .turning = trp__rotary_turning(x->n, in, x->t[TRP__ROTARY_COS]),
         .offset = trp__train_integer(x, TRP__ROTARY_OFFSET, 0)};
    const int64_t half = r.turning / 2;
    const int64_t count = trp__train_walk_begin(&r.walk, in, in->rank - 1, 1);
    if (!x->t[TRP__ROTARY_COS] && !x->t[TRP__ROTARY_INDEX]) {
        T *cosines = (T *)(void *)x->scratch, *sines = cosines + rows * half;
        for (int64_t p = 0; p < rows; p++) {
            for (int64_t i = 0; i < half; i++) {
                const double angle = trp__rotary_angle(x->n, r.turning, p + r.offset, i);
                cosines[p * half + i] = (T)cos(angle);
                sines[p * half + i] = (T)sin(angle);
            }
        }
        r.cosines = cosines;
        r.sines = sines;
    }
    trp__train_share(count, (1 << 14) / (r.width + 1) + 1, NAME(rotary_rows), &r);
}

/* OPTIMIZER on the host, a part of f32.c and f64.c. Threads share the elements in chunks of a fixed
 * size: each chunk has one sum of squares, and these are added in order, so that the norm does not
 * depend on the number of threads. */

/* Vectorises loops whose results are in place of their inputs, or separate. */
#if defined(__clang__)
#define EACH _Pragma("clang loop vectorize(assume_safety)")
#else
#define EACH _Pragma("GCC ivdep")
#endif

enum { NAME(OPT_CHUNK) = 1 << 15, NAME(OPT_BLOCK) = 1024 };

typedef struct NAME(opt) {
    const trp__train_node *x;
    int64_t count;         /* of elements */
    const double *segment; /* NULL: one segment of all elements */
    int64_t segments;
    trp__opt_step step;
    double decay; /* decay of elements in no segment */
    bool skip;
    double squared; /* factor of gradients before squaring */
    double *sum;    /* per chunk: the sum of squares, and a sum of 0 per finite gradient */
} NAME(opt);

/* Finds the range of an element, or the gap before the next range, and its end. */
static int64_t NAME(opt_range)(const NAME(opt) * o, int64_t at, int64_t *number)
{
    int64_t low = 0, high = o->segments;
    *number = 0;
    if (!o->segment)
        return o->count;
    while (low < high) { /* the first that ends after it */
        const int64_t middle = (low + high) / 2;
        const double *s = o->segment + middle * TRP__SEGMENT_COLUMNS;
        if (s[TRP__SEGMENT_OFFSET] + s[TRP__SEGMENT_COUNT] > (double)at)
            high = middle;
        else
            low = middle + 1;
    }
    *number = -1;
    if (low == o->segments)
        return o->count;
    const double *s = o->segment + low * TRP__SEGMENT_COLUMNS;
    double end = s[TRP__SEGMENT_OFFSET];
    if (end <= (double)at) {
        *number = low;
        end += s[TRP__SEGMENT_COUNT];
    }
    return end < (double)o->count ? (int64_t)end : o->count;
}

static const T *NAME(opt_load)(const NAME(opt) * o, int port, int64_t at, int64_t count, T *block)
{
    return VIEW(o->x->t[port], o->x->at[port], at, 1, count, block);
}

/* Returns where results are computed: in place if they have this type; NULL: not wanted. */
static T *NAME(opt_target)(const NAME(opt) * o, int port, int64_t at, T *block)
{
    const trp__dnn_tensor *t = o->x->t[port];
    if (!t)
        return NULL;
    return t->type == (IS_F32 ? TRP_F32 : TRP_F64) ? (T *)o->x->at[port] + at : block;
}

static void NAME(opt_put)(const NAME(opt) * o, int port, int64_t at, int64_t count, const T *from)
{
    if (o->x->t[port])
        PUT(o->x->t[port], o->x->at[port], at, 1, count, from);
}

static void NAME(opt_square)(const NAME(opt) * o, int64_t at, int64_t count, double sum[2])
{
    enum { LANES = 8, BLOCK = NAME(OPT_BLOCK) };
    const double scale = o->squared;
    T block[BLOCK];
    double squares[LANES] = {0}, zeros[LANES] = {0};
    const T *g = NAME(opt_load)(o, TRP__OPT_DW, at, count, block);
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            const double v = (double)g[i + k] * scale;
            squares[k] += v * v;
            zeros[k] += v - v;
        }
    }
    for (; i < count; i++) {
        const double v = (double)g[i] * scale;
        squares[0] += v * v;
        zeros[0] += v - v;
    }
    for (int k = 0; k < LANES; k++) {
        sum[0] += squares[k];
        sum[1] += zeros[k];
    }
}

static void NAME(opt_squares)(void *context, int64_t first, int64_t end)
{
    enum { CHUNK = NAME(OPT_CHUNK), BLOCK = NAME(OPT_BLOCK) };
    const NAME(opt) *o = context;
    for (int64_t chunk = first; chunk < end; chunk++) {
        const int64_t last = (chunk + 1) * CHUNK < o->count ? (chunk + 1) * CHUNK : o->count;
        double sum[2] = {0, 0};
        for (int64_t at = chunk * CHUNK, until; at < last; at = until) {
            int64_t number;
            until = NAME(opt_range)(o, at, &number);
            until = until < last ? until : last;
            until = until > at ? until : at + 1;
            for (int64_t i = at, count; number >= 0 && i < until; i += count) {
                count = until - i < BLOCK ? until - i : BLOCK;
                NAME(opt_square)(o, i, count, sum);
            }
        }
        o->sum[2 * chunk] = sum[0];
        o->sum[2 * chunk + 1] = sum[1];
    }
}

/* Returns the root of the sum of all squares and whether all gradients are finite. If squares
 * overflow f64 or vanish there, scaled gradients are squared. */
static double NAME(opt_norm)(NAME(opt) * o, bool *finite)
{
    const int64_t chunks = (o->count + NAME(OPT_CHUNK) - 1) / NAME(OPT_CHUNK);
    double sum = 0, zeros = 0;
    o->squared = 1;
    for (int round = 0; round < 2; round++) {
        trp__train_share(chunks, 4, NAME(opt_squares), o);
        sum = zeros = 0;
        for (int64_t i = 0; i < chunks; i++) {
            sum += o->sum[2 * i];
            zeros += o->sum[2 * i + 1];
        }
        const bool lost = !IS_F32 && sum < TRP__OPT_LEAST_SQUARES;
        if ((!lost && sum - sum == 0) || zeros != 0)
            break;
        o->squared = sum < 1 ? 0x1p600 : 0x1p-600;
    }
    *finite = zeros == 0;
    return sqrt(sum) / o->squared;
}

static void NAME(opt_sgd)(const trp__opt_step *s, int64_t count, const T *w, const T *g, const T *m,
                          T *to, T *to_m)
{
    const T rate = (T)s->rate, decay = (T)s->decay, factor = (T)s->factor, beta = (T)s->beta1;
    const T rest = (T)s->beta2;
    if (!m) {
        EACH for (int64_t i = 0; i < count; i++) to[i] =
            w[i] - rate * (factor * g[i] + decay * w[i]);
        return;
    }
    EACH for (int64_t i = 0; i < count; i++)
    {
        const T now = factor * g[i] + decay * w[i];
        const T moment = s->first ? now : beta * m[i] + rest * now;
        const T old = w[i];
        to_m[i] = moment;
        to[i] = old - rate * (s->nesterov ? now + beta * moment : moment);
    }
}

static void NAME(opt_adam)(const trp__opt_step *s, int64_t count, const T *w, const T *g,
                           const T *m, const T *v, T *to, T *to_m, T *to_v)
{
    const T beta1 = (T)s->beta1, rest1 = (T)(1 - s->beta1), beta2 = (T)s->beta2;
    const T rest2 = (T)(1 - s->beta2), epsilon = (T)s->epsilon, factor = (T)s->factor;
    const T keep = (T)(s->mode == TRP_DNN_ADAMW ? 1 - s->rate * s->decay : 1);
    const T decay = (T)(s->mode == TRP_DNN_ADAMW ? 0 : s->decay);
    const T rate = (T)(s->rate / s->correction1), root = (T)(1 / s->correction2);
    EACH for (int64_t i = 0; i < count; i++)
    {
        const T now = factor * g[i] + (decay != 0 ? decay * w[i] : 0);
        const T first = beta1 * m[i] + rest1 * now, second = beta2 * v[i] + rest2 * now * now;
        const T old = w[i];
        to_m[i] = first;
        to_v[i] = second;
        to[i] = keep * old -
                rate * first /
                    ((IS_F32 ? (T)sqrtf((float)second) : (T)sqrt((double)second)) * root + epsilon);
    }
}

static void NAME(opt_lion)(const trp__opt_step *s, int64_t count, const T *w, const T *g,
                           const T *m, T *to, T *to_m)
{
    const T beta1 = (T)s->beta1, rest1 = (T)(1 - s->beta1), beta2 = (T)s->beta2;
    const T rest2 = (T)(1 - s->beta2), factor = (T)s->factor, rate = (T)s->rate;
    const T keep = (T)(1 - s->rate * s->decay);
    EACH for (int64_t i = 0; i < count; i++)
    {
        const T now = factor * g[i], way = beta1 * m[i] + rest1 * now, old = w[i];
        const T sign = way > 0 ? 1 : way < 0 ? -1 : way;
        to_m[i] = beta2 * m[i] + rest2 * now;
        to[i] = keep * old - rate * sign;
    }
}

/* Updates up to a block of elements of one range; number < 0: copies them. */
static void NAME(opt_block)(const NAME(opt) * o, int64_t at, int64_t count, int64_t number)
{
    enum { BLOCK = NAME(OPT_BLOCK) };
    trp__opt_step s = o->step;
    T w_block[BLOCK], g_block[BLOCK], m_block[2][BLOCK], out[BLOCK], m_out[2][BLOCK];
    const T *w = NAME(opt_load)(o, TRP__OPT_W, at, count, w_block), *m[2] = {NULL, NULL};
    T *to = NAME(opt_target)(o, TRP__OPT_NEW_W, at, out), *to_m[2];
    for (int k = 0; k < 2; k++) {
        to_m[k] = NAME(opt_target)(o, TRP__OPT_NEW_MOMENT + k, at, m_out[k]);
        if (to_m[k])
            m[k] = NAME(opt_load)(o, TRP__OPT_MOMENT + k, at, count, m_block[k]);
    }
    if (number < 0 || o->skip) {
        if (to != w)
            memcpy(to, w, (size_t)count * sizeof(T));
        for (int k = 0; k < 2; k++) {
            if (to_m[k] && to_m[k] != m[k])
                memcpy(to_m[k], m[k], (size_t)count * sizeof(T));
        }
    } else {
        const T *g = NAME(opt_load)(o, TRP__OPT_DW, at, count, g_block);
        if (o->segment) {
            s.rate *= o->segment[number * TRP__SEGMENT_COLUMNS + TRP__SEGMENT_RATE];
            s.decay = o->segment[number * TRP__SEGMENT_COLUMNS + TRP__SEGMENT_DECAY];
        }
        if (s.mode == TRP_DNN_SGD)
            NAME(opt_sgd)(&s, count, w, g, m[0], to, to_m[0]);
        else if (s.mode == TRP_DNN_LION)
            NAME(opt_lion)(&s, count, w, g, m[0], to, to_m[0]);
        else
            NAME(opt_adam)(&s, count, w, g, m[0], m[1], to, to_m[0], to_m[1]);
    }
    NAME(opt_put)(o, TRP__OPT_NEW_W, at, count, to);
    NAME(opt_put)(o, TRP__OPT_NARROW, at, count, to);
    for (int k = 0; k < 2; k++) {
        if (to_m[k])
            NAME(opt_put)(o, TRP__OPT_NEW_MOMENT + k, at, count, to_m[k]);
    }
}

static void NAME(opt_elements)(void *context, int64_t first, int64_t end)
{
    enum { BLOCK = NAME(OPT_BLOCK) };
    const NAME(opt) *o = context;
    for (int64_t at = first, until; at < end; at = until) {
        int64_t number;
        until = NAME(opt_range)(o, at, &number);
        until = until < end ? until : end;
        until = until > at ? until : at + 1; /* even with an invalid list in memory */
        for (int64_t i = at, count; i < until; i += count) {
            count = until - i < BLOCK ? until - i : BLOCK;
            NAME(opt_block)(o, i, count, number);
        }
    }
}

void NAME(trp__train_optimizer)(const trp__train_node *x)
{
    const trp__dnn_tensor *skipped = x->t[TRP__OPT_SKIPPED];
    NAME(opt)
    o = {.x = x,
         .count = trp__dnn_elements(x->t[TRP__OPT_W]),
         .segment = x->at[TRP__OPT_SEGMENTS],
         .segments = x->t[TRP__OPT_SEGMENTS] ? x->t[TRP__OPT_SEGMENTS]->dim[0] : 0,
         .sum = (double *)(void *)x->scratch};
    const bool limited = x->t[TRP__OPT_LIMIT] != NULL;
    const double scale = trp__train_number(x, TRP__OPT_SCALE, 1);
    double norm = 0;
    bool finite = true;
    if (x->t[TRP__OPT_SEGMENTS] && o.segments == 0) {
        static const double none[TRP__SEGMENT_COLUMNS];
        o.segment = none; /* no range */
        o.segments = 1;
    }
    if (limited || skipped || x->t[TRP__OPT_NORM])
        norm = fabs(scale) * NAME(opt_norm)(&o, &finite);
    o.skip = trp__train_number(x, TRP__OPT_FOUND, 0) != 0 || (skipped && !finite);
    o.step = trp__opt_step_of(
        x->n, x->t[TRP__OPT_MOMENT] != NULL, trp__train_number(x, TRP__OPT_RATE, 0),
        trp__train_number(x, TRP__OPT_DECAY, 0),
        trp__opt_factor(scale, limited, trp__train_number(x, TRP__OPT_LIMIT, 1), norm),
        trp__train_integer(x, TRP__OPT_COUNT, 0));
    trp__train_share(o.count, 1 << 16, NAME(opt_elements), &o);
    trp__train_put_number(x, TRP__OPT_NORM, norm);
    if (skipped)
        *(int32_t *)x->at[TRP__OPT_SKIPPED] = o.skip;
}

#undef EACH

/* Lines of a tensor, W at a time beside each other. */

/* Chirps: x[k] = chirp[k] * sum over j of (x[j] chirp[j]) conj(chirp[k - j]), the sum by transforms
 * of length m. A transform with its parts swapped on both sides is the inverse one. */
static PAIR *NAME(transform_chirps)(const trp__fft_plan *p, PAIR *a, PAIR *b)
{
    const T *chirp = p->chirp, *spectrum = p->spectrum;
    for (int64_t j = 0; j < p->length; j++)
        a[j] = NAME(scaled)(a[j], chirp + 2 * j);
    memset(a + p->length, 0, (size_t)(p->m - p->length) * sizeof *a);
    PAIR *x = NAME(transform)(&p->smooth, a, b);
    for (int64_t j = 0; j < p->m; j++) {
        const PAIR y = NAME(scaled)(x[j], spectrum + 2 * j);
        x[j] = (PAIR){y.im, y.re};
    }
    x = NAME(transform)(&p->smooth, x, x == a ? b : a);
    for (int64_t j = 0; j < p->length; j++)
        x[j] = NAME(scaled)((PAIR){x[j].im, x[j].re}, chirp + 2 * j);
    return x;
}

/* The transform of real lines from that of their even elements as real and odd ones as imaginary
 * parts: `length` pairs become length + 1. */
static void NAME(separate)(const trp__fft_plan *p, PAIR *x)
{
    const T *w = p->half_roots, half = (T)0.5;
    const int64_t n = p->length;
    const PAIR first = x[0];
    x[0] = (PAIR){first.re + first.im, (VECTOR){0}};
    x[n] = (PAIR){first.re - first.im, (VECTOR){0}};
    for (int64_t k = 1; k <= n / 2; k++) {
        const PAIR a = x[k], b = x[n - k];
        const PAIR even = {(a.re + b.re) * half, (a.im - b.im) * half};
        const PAIR odd = {(a.im + b.im) * half, (b.re - a.re) * half};
        const PAIR turned = NAME(scaled)(odd, w + 2 * k);
        x[k] = NAME(add)(even, turned);
        x[n - k] = (PAIR){even.re - turned.re, turned.im - even.im};
    }
}

/* The reverse, unnormalised, for a transform with swapped parts. */
static void NAME(unite)(const trp__fft_plan *p, PAIR *x)
{
    const T *w = p->half_roots;
    const int64_t n = p->length;
    const VECTOR first = x[0].re, last = x[n].re;
    x[0] = (PAIR){first - last, first + last};
    for (int64_t k = 1; k <= n / 2; k++) {
        const PAIR a = x[k], b = x[n - k];
        const PAIR even = {a.re + b.re, a.im - b.im}, odd = {a.re - b.re, a.im + b.im};
        const T back[2] = {w[2 * k], -w[2 * k + 1]};
        const PAIR turned = NAME(scaled)(odd, back);
        x[k] = (PAIR){even.im + turned.re, even.re - turned.im};
        x[n - k] = (PAIR){turned.re - even.im, even.re + turned.im};
    }
}

/* Makes an odd number of complex pairs, whose second half is missing, whole; swapped. */
static void NAME(mirror)(int64_t n, PAIR *x)
{
    x[0] = (PAIR){(VECTOR){0}, x[0].re};
    for (int64_t k = 1; k <= n / 2; k++) {
        const PAIR a = x[k];
        x[k] = (PAIR){a.im, a.re};
        x[n - k] = (PAIR){-a.im, a.re};
    }
}

static void NAME(conjugate)(PAIR *x, int64_t count)
{
    for (int64_t k = 0; k < count; k++)
        x[k].im = -x[k].im;
}

/* What all lines of a job have in common; `at` and `count` are not set. */
static NAME(lines) NAME(lines_of_x)(const trp__fft_job *j)
{
    const bool pairs = j->sides == TRP__FFT_FROM_REAL && j->plan->half;
    NAME(lines) l = {.step = j->x_step, .im = 1, .have_re = j->have, .have_im = j->have};
    l.halves = pairs;
    l.turn = j->x_turn;
    l.n = j->plan->key.n;
    if (pairs) {
        l.step = 2 * j->x_step;
        l.im = j->x_step;
        l.have_re = (j->have + 1) / 2;
        l.have_im = j->have / 2;
    } else if (j->sides == TRP__FFT_FROM_REAL) {
        l.have_im = 0;
    }
    l.swapped = j->sides == TRP__FFT_COMPLEX && j->inverse;
    l.format = j->x_format;
    return l;
}

static NAME(lines) NAME(lines_of_y)(const trp__fft_job *j)
{
    const int64_t n = j->plan->key.n;
    const int64_t complex = j->sides == TRP__FFT_COMPLEX ? n : n / 2 + 1;
    NAME(lines) l = {.step = j->y_step, .im = 1, .have_re = complex, .have_im = complex};
    l.halves = j->sides == TRP__FFT_TO_REAL && j->plan->half;
    l.turn = j->y_turn;
    l.n = n;
    if (l.halves) {
        l.step = 2 * j->y_step;
        l.im = j->y_step;
        l.have_re = l.have_im = n / 2;
    } else if (j->sides == TRP__FFT_TO_REAL) {
        l.have_re = n;
        l.have_im = 0;
    }
    l.swapped = j->sides == TRP__FFT_TO_REAL || (j->sides == TRP__FFT_COMPLEX && j->inverse);
    l.format = j->y_format;
    return l;
}

static void NAME(strip)(const trp__fft_job *j, const NAME(lines) * x, const NAME(lines) * y,
                        PAIR *a, PAIR *b)
{
    const trp__fft_plan *p = j->plan;
    const bool to_real = j->sides == TRP__FFT_TO_REAL, from_real = j->sides == TRP__FFT_FROM_REAL;
    const int64_t half = p->key.n / 2 + 1;
    NAME(gather)(x, a, to_real ? half : p->length);
    if (to_real && !j->inverse)
        NAME(conjugate)(a, half);
    if (to_real && p->half)
        NAME(unite)(p, a);
    else if (to_real)
        NAME(mirror)(p->key.n, a);
    PAIR *out = p->chirps ? NAME(transform_chirps)(p, a, b) : NAME(transform)(&p->smooth, a, b);
    if (from_real && p->half)
        NAME(separate)(p, out);
    const T scale = (T)j->scale;
    NAME(scatter)(y, out, scale, from_real && j->inverse ? -scale : scale);
}

/* A line of the other dimensions. */
typedef struct NAME(cursor) {
    int64_t index[TRP__FFT_OTHERS_MAX];
    int64_t x, y; /* numbers from the first line */
    int absent;   /* dimensions in which x has no such line */
} NAME(cursor);

static NAME(cursor) NAME(cursor_at)(const trp__fft_job *j, int64_t line)
{
    NAME(cursor) c = {.x = 0};
    for (int i = 0; i < j->others; i++) {
        c.index[i] = line % j->other[i].n;
        line /= j->other[i].n;
        c.x += c.index[i] * j->other[i].x_step;
        c.y += c.index[i] * j->other[i].y_step;
        c.absent += c.index[i] >= j->other[i].have;
    }
    return c;
}

static void NAME(next)(const trp__fft_job *j, NAME(cursor) * c)
{
    for (int i = 0; i < j->others; i++) {
        const trp__fft_other *o = &j->other[i];
        c->absent -= c->index[i] >= o->have;
        c->x += o->x_step;
        c->y += o->y_step;
        if (++c->index[i] < o->n) {
            c->absent += c->index[i] >= o->have;
            return;
        }
        c->x -= o->n * o->x_step;
        c->y -= o->n * o->y_step;
        c->index[i] = 0;
        c->absent += o->have <= 0;
    }
}

/* The line of x at a cursor; NULL: it has none, or none of its elements. */
INLINE T *NAME(x_at)(const trp__fft_job *j, const NAME(cursor) * c)
{
    return c->absent || j->have == 0 ? NULL : NAME(offset)(j->x_format, j->x, c->x);
}

INLINE T *NAME(y_at)(const trp__fft_job *j, const NAME(cursor) * c)
{
    return NAME(offset)(j->y_format, j->y, c->y);
}

static PAIR *NAME(buffer)(const trp__fft_job *j, int number)
{
    return (PAIR *)j->scratch + number * trp__fft_buffer_pairs(j->plan);
}

typedef struct NAME(sharing) {
    const trp__fft_job *job;
    int64_t strips, pieces;
} NAME(sharing);

static void NAME(run_strips)(void *context, int64_t piece, int worker)
{
    const NAME(sharing) *s = context;
    const trp__fft_job *j = s->job;
    const int64_t first = s->strips * piece / s->pieces, end = s->strips * (piece + 1) / s->pieces;
    NAME(lines) x = NAME(lines_of_x)(j), y = NAME(lines_of_y)(j);
    NAME(cursor) c = NAME(cursor_at)(j, first * W);
    for (int64_t i = first; i < end; i++) {
        const int64_t rest = j->lines - i * W;
        x.count = y.count = rest < W ? (int)rest : W;
        for (int l = 0; l < W; l++) {
            if (l < y.count) {
                x.at[l] = NAME(x_at)(j, &c);
                y.at[l] = NAME(y_at)(j, &c);
                NAME(next)(j, &c);
            } else { /* computed, but not stored */
                x.at[l] = x.at[0];
                y.at[l] = y.at[0];
            }
        }
        NAME(strip)(j, &x, &y, NAME(buffer)(j, 2 * worker), NAME(buffer)(j, 2 * worker + 1));
    }
}

static void NAME(run_beside)(const trp__fft_job *j)
{
    NAME(sharing) s = {.job = j, .strips = (j->lines + W - 1) / W};
    const int64_t most = 16 * (int64_t)trp__team_width();
    s.pieces = s.strips < most ? s.strips : most;
    trp__team_run(NAME(run_strips), &s, s.pieces);
}

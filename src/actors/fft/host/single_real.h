/* One line at a time, as a matrix whose columns and rows are transformed by all threads. */

/* A line: parts of element e at at[e * step] and at[e * step + im]. */
typedef struct NAME(line) {
    T *at;
    int64_t step, im;
    bool swapped;
} NAME(line);

typedef struct NAME(single) {
    const trp__fft_job *job;
    NAME(line) x, y; /* of the split transform */
    T re, im;        /* factors of its results */
    PAIR *rows;
    T *plane; /* real parts; the imaginary ones are plane_numbers further */
    int64_t plane_numbers;
    T *line_x, *line_y; /* of the tensors */
    int64_t count;      /* of what is shared */
    int64_t pieces;
    void (*run)(const struct NAME(single) * s, int64_t from, int64_t to, int worker);
} NAME(single);

static void NAME(run_share)(void *context, int64_t piece, int worker)
{
    const NAME(single) *s = context;
    s->run(s, s->count * piece / s->pieces, s->count * (piece + 1) / s->pieces, worker);
}

/* Shares `count` steps, in pieces of at least `least`. */
static void NAME(share)(NAME(single) * s, int64_t count, int64_t least,
                        void (*run)(const NAME(single) * s, int64_t from, int64_t to, int worker))
{
    const int64_t most = 4 * (int64_t)trp__team_width(), wanted = count / least;
    s->run = run;
    s->count = count;
    s->pieces = wanted < 1 ? 1 : wanted < most ? wanted : most;
    trp__team_run(NAME(run_share), s, s->pieces);
}

/* W lines beside each other, `distance` numbers apart. */
static NAME(lines)
    NAME(beside)(const NAME(line) * line, int64_t first, int64_t all, int64_t apart, int64_t length)
{
    NAME(lines)
    l = {.step = apart * line->step,
         .im = line->im,
         .have_re = length,
         .have_im = length,
         .swapped = line->swapped};
    l.count = all - first < W ? (int)(all - first) : W;
    for (int i = 0; i < W; i++)
        l.at[i] = line->at + (first + (i < l.count ? i : 0)) * line->step;
    return l;
}

/* Strips of columns. */
static void NAME(columns)(const NAME(single) * s, int64_t from, int64_t to, int worker)
{
    const trp__fft_split *split = &s->job->plan->split;
    const int64_t rows = split->rows.n, apart = trp__fft_row_pairs(s->job->plan);
    PAIR *a = NAME(buffer)(s->job, 2 * worker), *b = NAME(buffer)(s->job, 2 * worker + 1);
    const PAIR *step = split->step;
    for (int64_t k = from; k < to; k++) {
        const T *base = (const T *)split->base + 2 * k * rows;
        const NAME(lines) l = NAME(beside)(&s->x, k * W, split->columns.n, split->columns.n, rows);
        NAME(gather)(&l, a, rows);
        const PAIR *out = NAME(transform)(&split->rows, a, b);
        for (int64_t i = 0; i < rows; i++)
            s->rows[i * apart + k] = NAME(times)(out[i], NAME(scaled)(step[i], base + 2 * i));
    }
}

/* Strips of rows. */
static void NAME(rows)(const NAME(single) * s, int64_t from, int64_t to, int worker)
{
    const trp__fft_split *split = &s->job->plan->split;
    const int64_t rows = split->rows.n, apart = trp__fft_row_pairs(s->job->plan);
    PAIR *a = NAME(buffer)(s->job, 2 * worker), *b = NAME(buffer)(s->job, 2 * worker + 1);
    for (int64_t k = from; k < to; k++) {
        const NAME(lines) l = NAME(beside)(&s->y, k * W, rows, rows, split->columns.n);
        for (int64_t c = 0; c < split->strips; c++) {
            VECTOR re[W], im[W];
            for (int i = 0; i < W; i++) {
                const PAIR x = s->rows[(k * W + (i < l.count ? i : 0)) * apart + c];
                re[i] = x.re;
                im[i] = x.im;
            }
            NAME(transpose)(re);
            NAME(transpose)(im);
            for (int i = 0; i < W; i++)
                a[c * W + i] = (PAIR){re[i], im[i]};
        }
        NAME(scatter)(&l, NAME(transform)(&split->columns, a, b), s->re, s->im);
    }
}

static void NAME(split)(NAME(single) * s, NAME(line) x, NAME(line) y, T re, T im)
{
    const trp__fft_split *split = &s->job->plan->split;
    s->x = x;
    s->y = y;
    s->re = re;
    s->im = im;
    NAME(share)(s, split->strips, 4, NAME(columns));
    NAME(share)(s, (split->rows.n + W - 1) / W, 4, NAME(rows));
}

/* Between the line and the planes. */

static void NAME(get)(const NAME(single) * s, int64_t e, T *re, T *im)
{
    const trp__fft_job *j = s->job;
    const bool real = j->sides == TRP__FFT_FROM_REAL;
    const bool there = s->line_x && e < j->have;
    const int64_t turned = e + j->x_turn, n = j->plan->key.n;
    const int64_t at = j->x_turn && turned >= n ? turned - n : turned;
    *re = there ? NAME(number)(j->x_format, s->line_x, at * j->x_step) : 0;
    *im = there && !real ? s->line_x[at * j->x_step + 1] : 0;
    if (j->sides == TRP__FFT_TO_REAL && !j->inverse)
        *im = -*im;
}

static void NAME(set)(const NAME(single) * s, int64_t at, T re, T im)
{
    s->plane[at] = re;
    s->plane[s->plane_numbers + at] = im;
}

/* Complex elements, or those of real lines. */
static void NAME(fetch)(const NAME(single) * s, int64_t from, int64_t to, int worker)
{
    const trp__fft_job *j = s->job;
    const bool half = j->sides == TRP__FFT_FROM_REAL && j->plan->half;
    const bool swapped = j->sides == TRP__FFT_COMPLEX && j->inverse;
    (void)worker;
    for (int64_t e = from; e < to; e++) {
        T re, im, none;
        NAME(get)(s, half ? 2 * e : e, &re, &im);
        if (half)
            NAME(get)(s, 2 * e + 1, &im, &none);
        NAME(set)(s, e, swapped ? im : re, swapped ? re : im);
    }
}

/* unite() and mirror() of one line: its elements from 0 to half of `length`. */
static void NAME(fetch_half)(const NAME(single) * s, int64_t from, int64_t to, int worker)
{
    const trp__fft_plan *p = s->job->plan;
    const int64_t n = p->length;
    const T *w = p->half_roots;
    (void)worker;
    for (int64_t k = from; k < to; k++) {
        T ar, ai, br, bi;
        NAME(get)(s, k, &ar, &ai);
        if (!p->half) {
            NAME(set)(s, k, k ? ai : 0, ar);
            if (k)
                NAME(set)(s, n - k, -ai, ar);
            continue;
        }
        NAME(get)(s, n - k, &br, &bi);
        if (k == 0) {
            NAME(set)(s, 0, ar - br, ar + br);
            continue;
        }
        const T er = ar + br, ei = ai - bi, dr = ar - br, di = ai + bi;
        const T tr = dr * w[2 * k] + di * w[2 * k + 1], ti = di * w[2 * k] - dr * w[2 * k + 1];
        NAME(set)(s, k, ei + tr, er - ti);
        NAME(set)(s, n - k, tr - ei, er + ti);
    }
}

static void NAME(put)(const NAME(single) * s, int64_t e, T re, T im)
{
    const trp__fft_job *j = s->job;
    const int64_t turned = e + j->y_turn, n = j->plan->key.n;
    const int64_t at = j->y_turn && turned >= n ? turned - n : turned;
    NAME(put_number)(j->y_format, s->line_y, at * j->y_step, re * s->re);
    if (j->sides != TRP__FFT_TO_REAL)
        s->line_y[at * j->y_step + 1] = im * s->im;
}

/* What the planes have, as it is. */
static void NAME(deliver)(const NAME(single) * s, int64_t from, int64_t to, int worker)
{
    const trp__fft_job *j = s->job;
    const T *re = s->plane, *im = s->plane + s->plane_numbers;
    const bool swapped =
        j->sides == TRP__FFT_TO_REAL || (j->sides == TRP__FFT_COMPLEX && j->inverse);
    (void)worker;
    for (int64_t e = from; e < to; e++) {
        const T a = swapped ? im[e] : re[e], b = swapped ? re[e] : im[e];
        if (j->sides == TRP__FFT_TO_REAL && j->plan->half) {
            NAME(put)(s, 2 * e, a, 0);
            NAME(put)(s, 2 * e + 1, b, 0);
        } else {
            NAME(put)(s, e, a, b);
        }
    }
}

/* separate() of one line. */
static void NAME(deliver_half)(const NAME(single) * s, int64_t from, int64_t to, int worker)
{
    const trp__fft_plan *p = s->job->plan;
    const T *re = s->plane, *im = s->plane + s->plane_numbers, *w = p->half_roots, half = (T)0.5;
    const int64_t n = p->length;
    (void)worker;
    for (int64_t k = from; k < to; k++) {
        if (k == 0) {
            NAME(put)(s, 0, re[0] + im[0], 0);
            NAME(put)(s, n, re[0] - im[0], 0);
            continue;
        }
        const T er = (re[k] + re[n - k]) * half, ei = (im[k] - im[n - k]) * half;
        const T dr = (im[k] + im[n - k]) * half, di = (re[n - k] - re[k]) * half;
        const T tr = dr * w[2 * k] - di * w[2 * k + 1], ti = dr * w[2 * k + 1] + di * w[2 * k];
        NAME(put)(s, k, er + tr, ei + ti);
        NAME(put)(s, n - k, er - tr, ti - ei);
    }
}

/* Chirps, on the planes. */

static void NAME(times_table)(const NAME(single) * s, const T *w, int64_t from, int64_t to)
{
    T *re = s->plane, *im = s->plane + s->plane_numbers;
    for (int64_t e = from; e < to; e++) {
        const T a = re[e], b = im[e];
        re[e] = a * w[2 * e] - b * w[2 * e + 1];
        im[e] = a * w[2 * e + 1] + b * w[2 * e];
    }
}

static void NAME(times_chirp)(const NAME(single) * s, int64_t from, int64_t to, int worker)
{
    (void)worker;
    NAME(times_table)(s, s->job->plan->chirp, from, to);
}

static void NAME(times_spectrum)(const NAME(single) * s, int64_t from, int64_t to, int worker)
{
    (void)worker;
    NAME(times_table)(s, s->job->plan->spectrum, from, to);
}

enum { NAME(SHARE_LEAST) = 8192 };

static void NAME(convolve)(NAME(single) * s)
{
    const trp__fft_plan *p = s->job->plan;
    NAME(line) planes = {.at = s->plane, .step = 1, .im = s->plane_numbers}, back = planes;
    const size_t rest = (size_t)(p->m - p->length) * sizeof(T);
    back.swapped = true;
    NAME(share)(s, p->length, NAME(SHARE_LEAST), NAME(times_chirp));
    memset(s->plane + p->length, 0, rest);
    memset(s->plane + s->plane_numbers + p->length, 0, rest);
    NAME(split)(s, planes, planes, 1, 1);
    NAME(share)(s, p->m, NAME(SHARE_LEAST), NAME(times_spectrum));
    NAME(split)(s, back, back, 1, 1);
    NAME(share)(s, p->length, NAME(SHARE_LEAST), NAME(times_chirp));
}

/* Transforms a line; ends that have the order of the matrix are read and written by it. */
static void NAME(run_line)(NAME(single) * s)
{
    const trp__fft_job *j = s->job;
    const trp__fft_plan *p = j->plan;
    const bool from_real = j->sides == TRP__FFT_FROM_REAL, to_real = j->sides == TRP__FFT_TO_REAL;
    const T re = (T)j->scale, im = from_real && j->inverse ? -re : re;
    const NAME(lines) x = NAME(lines_of_x)(j), y = NAME(lines_of_y)(j);
    NAME(line) from = {.at = s->plane, .step = 1, .im = s->plane_numbers}, to = from;
    const bool reads = !p->chirps && !to_real && s->line_x && x.have_im >= p->length &&
                       j->x_format == TRP__FFT_SAME && !j->x_turn;
    const bool writes = !p->chirps && !from_real && y.have_im >= p->length &&
                        j->y_format == TRP__FFT_SAME && !j->y_turn;
    if (reads)
        from = (NAME(line)){s->line_x, x.step, x.im, x.swapped};
    else if (to_real)
        NAME(share)(s, p->length / 2 + 1, NAME(SHARE_LEAST), NAME(fetch_half));
    else
        NAME(share)(s, p->length, NAME(SHARE_LEAST), NAME(fetch));
    if (writes)
        to = (NAME(line)){s->line_y, y.step, y.im, y.swapped};
    if (p->chirps)
        NAME(convolve)(s);
    else
        NAME(split)(s, from, to, writes ? re : 1, writes ? im : 1);
    s->re = re;
    s->im = im;
    if (!writes && from_real && p->half)
        NAME(share)(s, p->length / 2 + 1, NAME(SHARE_LEAST), NAME(deliver_half));
    else if (!writes)
        NAME(share)(s, from_real ? y.have_re : p->length, NAME(SHARE_LEAST), NAME(deliver));
}

static void NAME(run_single)(const trp__fft_job *j)
{
    const trp__fft_plan *p = j->plan;
    const int64_t most = p->m > p->length + 1 ? p->m : p->length + 1;
    NAME(single) s = {.job = j, .plane_numbers = (most / W + 1) * W};
    s.rows = NAME(buffer)(j, 2 * trp__team_width());
    s.plane = (T *)(s.rows + p->split.rows.n * trp__fft_row_pairs(p));
    NAME(cursor) c = NAME(cursor_at)(j, 0);
    for (int64_t i = 0; i < j->lines; i++, NAME(next)(j, &c)) {
        s.line_x = NAME(x_at)(j, &c);
        s.line_y = NAME(y_at)(j, &c);
        NAME(run_line)(&s);
    }
}

/* Cosine and sine transforms along an axis: a part of the lines at a time is gathered, transformed
 * and spread. */

typedef struct NAME(waves) {
    const trp__fft_trig_job *trig;
    int64_t begin, lines, pieces; /* of this part: its first line, and how many */
} NAME(waves);

/* Cosine and sine of a turn * t / (8 n), from the table of the first octant. */
INLINE void NAME(octant)(const double *table, int64_t n, int64_t t, double *c, double *s)
{
    const int64_t octant = t / n, rest = t - octant * n, at = octant & 1 ? n - rest : rest;
    const double a = table[2 * at], b = table[2 * at + 1];
    const bool swapped = (octant + 1) & 2;
    const double x = swapped ? b : a, y = swapped ? a : b;
    *c = octant >= 2 && octant < 6 ? -x : x;
    *s = octant >= 4 ? -y : y;
}

INLINE T NAME(wave_x)(const trp__fft_job *j, const T *line, int64_t at)
{
    return line && at >= 0 && at < j->have ? NAME(number)(j->x_format, line, at * j->x_step) : 0;
}

static void NAME(waves_before)(void *context, int64_t piece, int worker)
{
    const NAME(waves) *w = context;
    const trp__fft_job *j = &w->trig->outer;
    const trp__fft_form *f = &w->trig->form;
    const int64_t inputs = trp__fft_form_inputs(f), room = 2 * trp__fft_form_room(f);
    const int64_t from = w->lines * piece / w->pieces, to = w->lines * (piece + 1) / w->pieces;
    const bool pairs = trp__fft_form_core(f) != TRP__FFT_CORE_R2C;
    NAME(cursor) c = NAME(cursor_at)(j, w->begin + from);
    (void)worker;
    for (int64_t i = from; i < to; i++, NAME(next)(j, &c)) {
        const T *line = NAME(x_at)(j, &c);
        T *out = (T *)w->trig->dense + i * room;
        for (int64_t e = 0; e < inputs; e++) {
            const trp__fft_entry in = trp__fft_enter(f, e);
            const double re = in.a * (double)NAME(wave_x)(j, line, in.p);
            double cosine, sine;
            if (!pairs) {
                out[e] = (T)re;
                continue;
            }
            const double im = in.b * (double)NAME(wave_x)(j, line, in.q);
            NAME(octant)(j->plan->turns, f->n, in.turn, &cosine, &sine);
            out[2 * e] = (T)(re * cosine - im * sine);
            out[2 * e + 1] = in.real ? 0 : (T)(re * sine + im * cosine);
        }
    }
}

static void NAME(waves_behind)(void *context, int64_t piece, int worker)
{
    const NAME(waves) *w = context;
    const trp__fft_job *j = &w->trig->outer;
    const trp__fft_form *f = &w->trig->form;
    const int64_t room = 2 * trp__fft_form_room(f);
    const int64_t from = w->lines * piece / w->pieces, to = w->lines * (piece + 1) / w->pieces;
    const bool pairs = trp__fft_form_core(f) != TRP__FFT_CORE_C2R;
    NAME(cursor) c = NAME(cursor_at)(j, w->begin + from);
    (void)worker;
    for (int64_t i = from; i < to; i++, NAME(next)(j, &c)) {
        const T *in = (const T *)w->trig->dense + i * room;
        T *line = NAME(y_at)(j, &c);
        for (int64_t k = 0; k < f->n; k++) {
            const trp__fft_exit out = trp__fft_leave(f, k);
            double cosine = 1, sine = 0, y = pairs ? 0 : (double)in[out.m];
            if (pairs) {
                NAME(octant)(j->plan->turns, f->n, out.turn, &cosine, &sine);
                y = (double)in[2 * out.m] * cosine + (double)in[2 * out.m + 1] * sine;
            }
            NAME(put_number)(j->y_format, line, k * j->y_step, (T)(y * out.factor * j->scale));
        }
    }
}

/* The Fourier transforms of a part, in place. */
static trp__fft_job NAME(core_job)(const trp__fft_trig_job *trig, int64_t lines)
{
    const trp__fft_core core = trp__fft_form_core(&trig->form);
    const int64_t room = 2 * trp__fft_form_room(&trig->form);
    trp__fft_job job = {.plan = trig->outer.plan,
                        .sides = core == TRP__FFT_CORE_R2C   ? TRP__FFT_FROM_REAL
                                 : core == TRP__FFT_CORE_C2R ? TRP__FFT_TO_REAL
                                                             : TRP__FFT_COMPLEX,
                        .inverse = core == TRP__FFT_CORE_C2R,
                        .scale = 1,
                        .x = trig->dense,
                        .y = trig->dense,
                        .x_step = core == TRP__FFT_CORE_R2C ? 1 : 2,
                        .y_step = core == TRP__FFT_CORE_C2R ? 1 : 2,
                        .have = trp__fft_form_inputs(&trig->form),
                        .others = 1,
                        .other = {{lines, lines, room, room}},
                        .scratch = trig->outer.scratch};
    trp__fft_job_settle(&job);
    return job;
}

void NAME(trp__fft_run_trig)(const trp__fft_trig_job *trig)
{
    const int64_t all = trig->outer.lines, part = trp__fft_trig_lines(&trig->form, all);
    const int64_t most = 4 * (int64_t)trp__team_width();
    for (int64_t begin = 0; begin < all; begin += part) {
        NAME(waves)
        w = {.trig = trig, .begin = begin, .lines = all - begin < part ? all - begin : part};
        const trp__fft_job core = NAME(core_job)(trig, w.lines);
        w.pieces = w.lines < most ? w.lines : most;
        trp__team_run(NAME(waves_before), &w, w.pieces);
        NAME(trp__fft_run)(&core);
        trp__team_run(NAME(waves_behind), &w, w.pieces);
    }
}

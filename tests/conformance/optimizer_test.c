/* Optimizers in the conformance suite, compared with their formulas in float64: every type, ranges
 * with rates of their own, clipped and scaled gradients, skipped steps, in place or not. */
#include "conformance/calls.h"

#include <math.h>

TROUPE_TEST("one isolation", "computes");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

typedef struct numbers {
    double rate, decay, scale, beta1, beta2, epsilon;
    bool nesterov, moment;
} numbers;

/* Computes the step of one element. */
static void step(trp_dnn_optimizer mode, const numbers *n, uint64_t t, double g, double *w,
                 double *m, double *v)
{
    g *= n->scale;
    if (mode == TRP_DNN_SGD) {
        g += n->decay * *w;
        if (n->moment) {
            *m = t == 1 ? g : n->beta1 * *m + (1 - n->beta2) * g;
            g = n->nesterov ? g + n->beta1 * *m : *m;
        }
        *w -= n->rate * g;
    } else if (mode == TRP_DNN_LION) {
        const double way = n->beta1 * *m + (1 - n->beta1) * g;
        *w -= n->rate * n->decay * *w;
        *w -= n->rate * (way > 0 ? 1 : way < 0 ? -1 : 0);
        *m = n->beta2 * *m + (1 - n->beta2) * g;
    } else {
        if (mode == TRP_DNN_ADAMW)
            *w -= n->rate * n->decay * *w;
        else
            g += n->decay * *w;
        *m = n->beta1 * *m + (1 - n->beta1) * g;
        *v = n->beta2 * *v + (1 - n->beta2) * g * g;
        *w -= n->rate * (*m / (1 - pow(n->beta1, (double)t))) /
              (sqrt(*v / (1 - pow(n->beta2, (double)t))) + n->epsilon);
    }
}

/* LION uses the sign of a sum, which rounding in f32 may change near 0. Moves the moment away from
 * such sums. */
static void keep_signs(const numbers *n, const f_field *g, f_field *m)
{
    for (int64_t i = 0; i < m->count; i++) {
        const double way = n->beta1 * m->v[i] + (1 - n->beta1) * n->scale * g->v[i];
        if (fabs(way) < 1e-5)
            m->v[i] += 0.01;
    }
    f_encode(m);
}

/* Draws ranges in order, with gaps. */
static uint32_t draw_ranges(int64_t count, trp_parameter_segment *s)
{
    uint32_t some = 0;
    for (uint64_t at = 0; some < CF_SEGMENTS && at < (uint64_t)count; some++) {
        at += (uint64_t)f_below(4) * (uint64_t)f_below(3);
        at = at < (uint64_t)count ? at : (uint64_t)count;
        s[some] = (trp_parameter_segment){.offset = at};
        s[some].count = (uint64_t)f_below(count - (int64_t)at + 1);
        if (f_below(2))
            s[some].rate = trp_real(f_below(3) ? 0.5 : 0);
        if (f_below(2))
            s[some].decay = trp_real(0.25);
        at += s[some].count;
    }
    return some;
}

/* Returns the range of an element; -1: none. */
static int range_of(const trp_parameter_segment *s, uint32_t some, int64_t i)
{
    for (uint32_t k = 0; k < some; k++) {
        if ((uint64_t)i >= s[k].offset && (uint64_t)i < s[k].offset + s[k].count)
            return (int)k;
    }
    return -1;
}

/* Draws the numbers of a mode, and sets them in the request. */
static numbers draw_numbers(trp_dnn_optimizer mode, bool moment, trp_optimizer_request *r)
{
    numbers n = {.rate = 0.01,
                 .decay = f_below(2) ? 0.125 : 0,
                 .beta1 = 0.9,
                 .beta2 = mode == TRP_DNN_LION ? 0.99 : 0.999,
                 .epsilon = 1e-8,
                 .scale = 0.5,
                 .moment = moment};
    r->optimizer = mode;
    r->rate = trp_real(n.rate);
    if (mode == TRP_DNN_SGD) {
        n.beta1 = moment ? 0.75 : 0;
        n.nesterov = moment && f_below(2);
        n.beta2 = moment && !n.nesterov ? 0.25 : 0;
        r->momentum = trp_real(n.beta1);
        r->dampening = trp_real(n.beta2);
        r->nesterov = n.nesterov;
    } else if (f_below(2)) {
        n.beta1 = 0.5;
        r->beta1 = trp_real(0.5);
    }
    if (n.decay > 0)
        r->decay = trp_real(n.decay);
    return n;
}

enum { MODES = 4, OPTIMIZER_WAYS = 5 * MODES };

static bool optimizer(cf_fields *p, trp_dtype type, unsigned way)
{
    const int64_t count = way < MODES ? 70000 + f_below(3000) : f_from(0, 300);
    const int64_t dim[] = {1, count}, one[] = {1};
    const trp_dtype fine = type == TRP_F64 ? TRP_F64 : TRP_F32;
    const trp_dnn_optimizer mode = (trp_dnn_optimizer)(way % MODES);
    const bool adam = mode == TRP_DNN_ADAM || mode == TRP_DNN_ADAMW, in_place = f_below(2);
    const bool moment = mode != TRP_DNN_SGD || f_below(3), limits = f_below(2), lists = f_below(2);
    const bool watches = f_below(2), found = f_below(5) == 0, wide = type == TRP_F64;
    const int moments = adam ? 2 : moment;
    const uint64_t t = f_below(2) ? 1 : (uint64_t)f_from(2, 2000);
    trp_optimizer_request *r = CF_REQUEST(p, optimizer);
    numbers n = draw_numbers(mode, moment, r);
    if (p->tight && count == 0)
        return false;
    p->packed = true;
    f_field *w = cf_in(p, type, 2, dim, -1, 1), *g = cf_in(p, f_real(), 2, dim, -2, 2);
    f_field *m[2] = {cf_in(p, fine, 2, dim, -1, 1), cf_in(p, fine, 2, dim, 0, 1)};
    const f_field *scale = cf_in(p, TRP_F32, 1, one, 0.5, 0.5);
    const f_field *flag = cf_in(p, TRP_F32, 1, one, found, found);
    const f_field *narrow = cf_out(p, TRP_BF16, 2, dim), *norm = cf_out(p, TRP_F32, 1, one);
    const f_field *skipped = cf_in(p, TRP_I32, 1, one, 7, 7);
    if (watches && f_below(4) == 0 && count > 0)
        g->v[f_below(count)] = f_below(2) ? INFINITY : NAN;
    f_encode(g);
    if (f_below(2))
        r->scale = scale->t;
    else
        r->scale = (trp_dnn_tensor){.value = trp_real(0.5)};
    const uint32_t some = lists ? draw_ranges(count, p->segments) : 0;
    double squares = 0;
    bool skip = found;
    for (int64_t i = 0; i < count; i++) {
        if (some > 0 && range_of(p->segments, some, i) < 0)
            continue;
        squares += g->v[i] * g->v[i];
        skip = skip || (watches && !isfinite(g->v[i]));
    }
    const double length = 0.5 * sqrt(squares);
    if (limits && length > 0.75)
        n.scale *= 0.75 / (length + 1e-6);
    if (mode == TRP_DNN_LION)
        keep_signs(&n, g, m[0]);
    const f_field *to = in_place ? w : cf_out(p, type, 2, dim), *to_m[2];
    double *ws = cf_want(p, to, 1, 64, wide), *few = cf_want(p, narrow, 1, 64, wide), *ms[2];
    double *unused = cf_zeros(2);
    for (int i = 0; i < 2; i++) {
        to_m[i] = i >= moments ? NULL : in_place ? m[i] : cf_out(p, fine, 2, dim);
        ms[i] = to_m[i] ? cf_want(p, to_m[i], 1, 64, wide) : NULL;
    }
    *cf_want(p, norm, 0, 64, false) = length;
    if (watches)
        *cf_want(p, skipped, 0, 0, false) = skip;
    for (int64_t i = 0; i < count; i++) {
        const int range = range_of(p->segments, some, i);
        numbers own = n;
        double *at[2];
        for (int k = 0; k < 2; k++) {
            at[k] = ms[k] ? &ms[k][i] : &unused[k];
            *at[k] = m[k]->v[i];
        }
        ws[i] = w->v[i];
        if (some > 0 && range >= 0) {
            const trp_parameter_segment *s = &p->segments[range];
            own.rate *= s->rate.given ? s->rate.re : 1;
            own.decay = s->decay.given ? s->decay.re : n.decay;
        }
        if (!skip && (some == 0 || range >= 0))
            step(mode, &own, t, g->v[i], &ws[i], at[0], at[1]);
        few[i] = ws[i];
    }
    free(unused);
    r->w = w->t;
    r->dw = g->t;
    r->narrow = narrow->t;
    r->grad_norm = norm->t;
    r->step = adam || mode == TRP_DNN_SGD ? t : 0;
    for (int i = 0; i < moments; i++) {
        r->moment[i] = m[i]->t;
        if (!in_place)
            r->new_moment[i] = to_m[i]->t;
    }
    if (!in_place)
        r->new_w = to->t;
    if (watches)
        r->skipped = skipped->t;
    if (found)
        r->found = flag->t;
    if (limits)
        r->max_norm = trp_real(0.75);
    if (some > 0) {
        r->segments = p->segments;
        r->segment_count = some;
    }
    p->may_fault = in_place;
    return true;
}

CF_SEND(optimizer, optimizer)

static const cf_call calls[] = {
    {CF_CALL(optimizer, optimizer), .types = 4, .ways = OPTIMIZER_WAYS,
     .tensor = {CF_TENSOR(optimizer, CF_SHARED, w), CF_TENSOR(optimizer, CF_READ, dw),
                CF_TENSOR(optimizer, CF_SHARED, moment[0]),
                CF_TENSOR(optimizer, CF_SHARED, moment[1]), CF_TENSOR(optimizer, CF_UPDATE, new_w),
                CF_TENSOR(optimizer, CF_UPDATE, new_moment[0]),
                CF_TENSOR(optimizer, CF_UPDATE, new_moment[1]),
                CF_TENSOR(optimizer, CF_WRITE, narrow), CF_TENSOR(optimizer, CF_READ, scale),
                CF_TENSOR(optimizer, CF_READ, found), CF_TENSOR(optimizer, CF_WRITE, skipped),
                CF_TENSOR(optimizer, CF_WRITE, grad_norm)}},
};

int main(int argc, char **argv)
{
    return cf_calls_main(argc, argv, "dnn: optimizers", calls, 1);
}

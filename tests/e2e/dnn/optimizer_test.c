/* Optimizers, against the formulas in float64: every type, ranges with rates of their own, limited
 * and scaled gradients, steps that are skipped, in place and not.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/field.h"
#include "support/label.h"

#include <math.h>
#include <troupe/training.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

static h_world world;
static trp_actor *dnn;

static void begin(void)
{
    world = h_open(NULL);
    dnn = h_actor(world.device, "dnn");
    f_open(world.device);
}

static void end(void)
{
    trp_actor_destroy(dnn);
    h_close(&world);
}

static void run(trp_optimizer_request *r)
{
    trp_completion done = {0};
    trp_error error = {0};
    r->header.wait_ns = TRP_FOREVER;
    H_OK(trp_optimizer(dnn, r, &done));
    if (h_await(done.future, &error) != TRP_OK)
        h_fail(__FILE__, __LINE__, "trp_optimizer: %s", error.message);
}

typedef struct numbers {
    double rate, decay, scale, beta1, beta2, epsilon;
    bool nesterov, moment;
} numbers;

/* One element. */
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

/* LION goes by the sign of a sum: where that is nearly 0, rounding in f32 turns it. Moves the
 * moment so that no sum is. */
static void keep_signs(const numbers *n, const f_field *g, f_field *m)
{
    for (int64_t i = 0; i < m->count; i++) {
        const double way = n->beta1 * m->v[i] + (1 - n->beta1) * n->scale * g->v[i];
        if (fabs(way) < 1e-5)
            m->v[i] += 0.01;
    }
    f_write(m);
}

/* Ranges in order, with gaps; the number of the one that an element is in, or -1. */
enum { RANGES = 5 };

static uint32_t draw_ranges(int64_t count, trp_parameter_segment *s)
{
    uint32_t some = 0;
    for (uint64_t at = 0; some < RANGES && at < (uint64_t)count; some++) {
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

static int range_of(const trp_parameter_segment *s, uint32_t some, int64_t i)
{
    for (uint32_t k = 0; k < some; k++) {
        if ((uint64_t)i >= s[k].offset && (uint64_t)i < s[k].offset + s[k].count)
            return (int)k;
    }
    return -1;
}

static void one_step(int round)
{
    const int64_t count = round % 20 == 19 ? 70000 + f_below(3000) : f_from(0, 300);
    const int64_t dim[] = {1, count}, one[] = {1};
    const trp_dtype type = f_real(), fine = type == TRP_F64 ? TRP_F64 : TRP_F32;
    const trp_dnn_optimizer mode = (trp_dnn_optimizer)f_below(4);
    const bool adam = mode == TRP_DNN_ADAM || mode == TRP_DNN_ADAMW, in_place = f_below(2);
    const bool moment = mode != TRP_DNN_SGD || f_below(3), limits = f_below(2), lists = f_below(2);
    const bool watches = f_below(2), bad = f_below(4) == 0 && count > 0, found = f_below(5) == 0;
    const uint64_t t = f_below(2) ? 1 : (uint64_t)f_from(2, 2000);
    f_field w = f_make(type, 2, dim, true, -1, 1), g = f_make(f_real(), 2, dim, true, -2, 2);
    f_field m[2] = {f_make(fine, 2, dim, true, -1, 1), f_make(fine, 2, dim, true, 0, 1)};
    f_field to = f_make(type, 2, dim, true, 1, 0), narrow = f_make(TRP_BF16, 2, dim, true, 1, 0);
    f_field to_m[2] = {f_make(fine, 2, dim, true, 1, 0), f_make(fine, 2, dim, true, 1, 0)};
    f_field norm = f_make(TRP_F32, 1, one, true, 1, 0),
            skipped = f_make(TRP_I32, 1, one, true, 7, 7);
    f_field flag = f_make(TRP_F32, 1, one, true, found, found);
    f_field scale = f_make(TRP_F32, 1, one, true, 0.5, 0.5);
    trp_parameter_segment ranges[RANGES];
    const uint32_t some = lists ? draw_ranges(count, ranges) : 0;
    const int64_t where = count ? f_below(count) : 0;
    if (bad && watches)
        g.v[where] = f_below(2) ? INFINITY : NAN;
    f_write(&g);
    numbers n = {.rate = 0.01,
                 .decay = f_below(2) ? 0.125 : 0,
                 .beta1 = 0.9,
                 .beta2 = 0.999,
                 .epsilon = 1e-8,
                 .scale = 0.5,
                 .moment = moment};
    trp_optimizer_request r = {.optimizer = mode,
                               .w = w.t,
                               .dw = g.t,
                               .rate = trp_real(n.rate),
                               .narrow = narrow.t,
                               .grad_norm = norm.t};
    if (mode == TRP_DNN_LION)
        n.beta2 = 0.99;
    if (mode == TRP_DNN_SGD) {
        n.beta1 = moment ? 0.75 : 0;
        n.nesterov = moment && f_below(2);
        n.beta2 = moment && !n.nesterov ? 0.25 : 0;
        r.momentum = trp_real(n.beta1);
        r.dampening = trp_real(n.beta2);
        r.nesterov = n.nesterov;
    } else if (f_below(2)) {
        n.beta1 = 0.5;
        r.beta1 = trp_real(0.5);
    }
    if (n.decay > 0)
        r.decay = trp_real(n.decay);
    r.step = adam || mode == TRP_DNN_SGD ? t : 0;
    if (f_below(2))
        r.scale = scale.t;
    else
        r.scale = (trp_dnn_tensor){.value = trp_real(0.5)};
    for (int i = 0; i < (adam ? 2 : moment ? 1 : 0); i++) {
        r.moment[i] = m[i].t;
        if (!in_place)
            r.new_moment[i] = to_m[i].t;
    }
    if (!in_place)
        r.new_w = to.t;
    if (watches)
        r.skipped = skipped.t;
    if (found)
        r.found = flag.t;
    if (limits)
        r.max_norm = trp_real(0.75);
    if (some > 0) {
        r.segments = ranges;
        r.segment_count = some;
    }
    double squares = 0;
    bool skip = found;
    for (int64_t i = 0; i < count; i++) {
        if (some > 0 && range_of(ranges, some, i) < 0)
            continue;
        squares += g.v[i] * g.v[i];
        skip = skip || (watches && !isfinite(g.v[i]));
    }
    const double length = 0.5 * sqrt(squares);
    if (limits && length > 0.75)
        n.scale *= 0.75 / (length + 1e-6);
    if (mode == TRP_DNN_LION)
        keep_signs(&n, &g, &m[0]);
    double *ws = h_malloc((size_t)(count + 1) * sizeof *ws),
           *ms = h_malloc((size_t)(count + 1) * sizeof *ms);
    double *vs = h_malloc((size_t)(count + 1) * sizeof *vs);
    for (int64_t i = 0; i < count; i++) {
        const int range = range_of(ranges, some, i);
        numbers own = n;
        ws[i] = w.v[i], ms[i] = m[0].v[i], vs[i] = m[1].v[i];
        if (skip || (some > 0 && range < 0))
            continue;
        if (some > 0) {
            own.rate *= ranges[range].rate.given ? ranges[range].rate.re : 1;
            own.decay = ranges[range].decay.given ? ranges[range].decay.re : n.decay;
        }
        step(mode, &own, t, g.v[i], &ws[i], &ms[i], &vs[i]);
    }
    run(&r);
    const bool wide = type == TRP_F64;
    f_field *new_w = in_place ? &w : &to;
    F_COMPARE(new_w, ws, 1, 64, wide);
    F_COMPARE(&narrow, ws, 1, 64, wide);
    for (int i = 0; i < (adam ? 2 : moment ? 1 : 0); i++)
        F_COMPARE(in_place ? &m[i] : &to_m[i], i ? vs : ms, 1, 64, wide);
    F_COMPARE(&norm, &length, 0, 64, false);
    if (watches) {
        f_read(&skipped);
        H_EQUAL(skipped.v[0], skip);
    }
    f_drop(&w), f_drop(&g), f_drop(&m[0]), f_drop(&m[1]), f_drop(&to), f_drop(&narrow),
        f_drop(&scale);
    f_drop(&to_m[0]), f_drop(&to_m[1]), f_drop(&norm), f_drop(&skipped), f_drop(&flag);
    free(ws), free(ms), free(vs);
}

static void steps(void)
{
    begin();
    for (int round = 0; round < (H_SANITIZED ? 40 : 160); round++)
        one_step(round);
    end();
}

/* Gradients whose squares are too large for any type have a norm. */
static void large(void)
{
    begin();
    const int64_t dim[] = {1000}, one[] = {1};
    f_field w = f_make(TRP_F64, 1, dim, true, -1, 1), g = f_make(TRP_F64, 1, dim, true, 1, 1);
    f_field to = f_make(TRP_F64, 1, dim, true, 1, 0), norm = f_make(TRP_F64, 1, one, true, 1, 0);
    f_field skipped = f_make(TRP_I32, 1, one, true, 7, 7);
    for (int i = 0; i < 1000; i++)
        g.v[i] = 1e250;
    f_write(&g);
    trp_optimizer_request r = {.optimizer = TRP_DNN_SGD,
                               .w = w.t,
                               .dw = g.t,
                               .new_w = to.t,
                               .grad_norm = norm.t,
                               .rate = trp_real(1),
                               .max_norm = trp_real(1),
                               .skipped = skipped.t};
    run(&r);
    const double length = 1e250 * sqrt(1000.0);
    F_COMPARE(&norm, &length, 0, 64, true);
    for (int i = 0; i < 1000; i++)
        w.v[i] -= 1 / sqrt(1000.0);
    F_COMPARE(&to, w.v, 1, 64, true);
    f_drop(&w), f_drop(&g), f_drop(&to), f_drop(&norm), f_drop(&skipped);
    end();
}

/* Other numbers share the plan: `found` says so from the second step on. */
static void one_plan(void)
{
    begin();
    f_field w = f_make(TRP_F32, 1, (int64_t[]){100}, true, -1, 1), g = f_like(&w, TRP_F32, -1, 1);
    f_field m = f_like(&w, TRP_F32, 0, 0), v = f_like(&w, TRP_F32, 0, 0);
    const trp_parameter_segment all = {.count = 100};
    for (uint64_t t = 1; t < 6; t++) {
        trp_dnn_ran ran;
        trp_optimizer_request r = {.optimizer = TRP_DNN_ADAMW,
                                   .w = w.t,
                                   .dw = g.t,
                                   .moment = {m.t, v.t},
                                   .rate = trp_real(0.1 / (double)t),
                                   .step = t,
                                   .max_norm = trp_real((double)t),
                                   .segments = &all,
                                   .segment_count = 1,
                                   .options.ran = &ran};
        run(&r);
        H_CHECK(!h_is_cuda() || ran.found == (t > 1));
        H_EQUAL(ran.parts, 1);
    }
    f_drop(&w), f_drop(&g), f_drop(&m), f_drop(&v);
    end();
}

static void wrong(void)
{
    begin();
    f_field w = f_make(TRP_F32, 1, (int64_t[]){100}, true, -1, 1), g = f_like(&w, TRP_F32, -1, 1);
    f_field m = f_like(&w, TRP_F32, 0, 0), v = f_like(&w, TRP_F32, 0, 0);
    trp_parameter_segment s[2] = {{.count = 60}, {.offset = 59, .count = 1}};
    const trp_optimizer_request good = {.optimizer = TRP_DNN_ADAMW,
                                        .w = w.t,
                                        .dw = g.t,
                                        .moment = {m.t, v.t},
                                        .rate = trp_real(0.1),
                                        .step = 1};
    trp_optimizer_request r = good;
    r.step = 0;
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("step: expected the number");
    r = good, r.moment[1] = (trp_dnn_tensor){0};
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("moment[1]");
    r = good, r.momentum = trp_real(0.9);
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected none without TRP_DNN_SGD");
    r = good, r.beta1 = trp_real(1);
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected 0 to less than 1, got 1");
    r = good, r.rate = (trp_scalar){0};
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("rate");
    r = good, r.segments = s, r.segment_count = 2;
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("row 1: expected an offset from 60");
    s[1] = (trp_parameter_segment){.offset = 60, .count = 41};
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("row 1: expected a count of 0 to 40, got 41");
    r = good, r.dw.dim[0] = 99;
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected 100, got 99");
    r = good, r.dw = r.w;
    r.new_w = g.t, r.new_moment[0] = m.t, r.new_moment[1] = v.t;
    r.dw.stride[0] = 2, r.dw.dim[0] = 50, r.w.dim[0] = 50;
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("packed");
    f_drop(&w), f_drop(&g), f_drop(&m), f_drop(&v);
    end();
}

static const h_case cases[] = {
    {"steps", steps}, {"large", large}, {"one_plan", one_plan}, {"wrong", wrong}};

int main(int argc, char **argv)
{
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

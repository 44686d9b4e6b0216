/* Measures the worker's cost of a repeated convolution request, apart from cudnnBackendExecute,
 * which is timed in this process with the same plan. */
#include "raw_dnn.h"
#include "bench/suite/repeat.h"

#include <stdlib.h>

/* `large` occupies the device for a millisecond, `tiny` hardly at all. */
static const dnn_shape large = {32, 512, 1024, 56, 3, 1, 1, 1}, tiny = {1, 64, 64, 8, 3, 1, 1, 1};

/* Runs one round: a long operation, then the timed ones. */
static double run_round(raw_dnn *l, raw_conv *wait, raw_conv *c)
{
    static double times[REPEAT_REQUESTS];
    bool good = true;
    for (int i = 0; good && i < 2; i++)
        good = raw_conv_send(l, wait);
    for (int i = 0; good && i < REPEAT_REQUESTS; i++) {
        good = raw_conv_send(l, c);
        times[i] = (double)stats_now();
    }
    good = raw_conv_run(l, c, 0) && good;
    return good ? repeat_between(times, REPEAT_REQUESTS) : 0;
}

static bool run_rounds(raw_dnn *l, stats_summary *out)
{
    raw_conv wait = {.what = large}, c = {.what = tiny};
    double ns[REPEAT_ROUNDS];
    bool good = raw_conv_begin(l, &wait) && raw_conv_begin(l, &c) && raw_conv_run(l, &wait, 1) &&
                raw_conv_run(l, &c, 1);
    for (int i = 0; good && i < REPEAT_ROUNDS; i++) {
        ns[i] = run_round(l, &wait, &c);
        good = ns[i] > 0;
    }
    if (good)
        *out = stats_summarise(ns, REPEAT_ROUNDS);
    raw_conv_end(l, &wait);
    raw_conv_end(l, &c);
    return good;
}

static bool measure_library(suite *s, stats_summary *out)
{
    raw_dnn l;
    bool good = raw_dnn_open(&l, s->raw->error) == TRP_OK && run_rounds(&l, out);
    raw_dnn_close(&l);
    if (!good)
        suite_fail(s, "cudnnBackendExecute");
    return good;
}

typedef struct requests {
    suite *suite;
    dnn_conv wait, small;
} requests;

static bool send(void *context, bool wait)
{
    requests *r = context;
    return suite_check(r->suite, dnn_send(wait ? &r->wait : &r->small, NULL, NULL),
                       "a convolution");
}

static bool measure_requests(suite *s, stats_summary *out)
{
    trp_actor *actor = suite_actor(s, "dnn");
    requests r = {.suite = s,
                  .wait = {.suite = s, .actor = actor, .what = large},
                  .small = {.suite = s, .actor = actor, .what = tiny}};
    const repeat_sequence q = {send, &r, "dnn graph"};
    repeat_gate g = {0};
    bool good = actor && repeat_open(s, &g) && dnn_begin(&r.wait) && dnn_begin(&r.small) &&
                dnn_run_first(&r.wait) && dnn_run_first(&r.small);
    if (good) {
        trp_buffer own = r.wait.x;
        r.wait.x = g.buffer; /* large enough */
        good = repeat_run(s, &g, &q, out);
        r.wait.x = own;
    } else if (actor) {
        suite_fail(s, "a convolution");
    }
    dnn_end(&r.wait);
    dnn_end(&r.small);
    repeat_close(s, &g);
    trp_actor_destroy(actor);
    return good;
}

void suite_dnn_repeat(suite *s)
{
    dnn_place place;
    report_row row = {.raw = "cudnnBackendExecute",
                      .unit = "us",
                      .name = "from one request to the next",
                      .scale = 1e-3};
    report_section(s->report, "A convolution again: what it costs the worker",
                   suite_on_gpu(s)
                       ? "how fast requests are handed over while the device is busy; raw: "
                         "cudnnBackendExecute, in this process; Troupe: the same small convolution"
                       : "needs a GPU");
    if (!suite_on_gpu(s))
        return;
    bool good = dnn_open(s, &place);
    if (!good)
        suite_fail(s, "a device of its own");
    if (good && measure_requests(s, &row.troupe_ns) && measure_library(s, &row.raw_ns))
        repeat_show(s, &row, "beyond cudnnBackendExecute", 2.0);
    dnn_close(s, &place);
}

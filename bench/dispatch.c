/* Measures the cost of requests without work: an empty kernel of the probe actor and of the jit
 * actor. */
#include "bench/suite/suite.h"

#include <stdio.h>

static const trp_probe_request nothing = {
    .header = {.wait_ns = TRP_FOREVER},
    .action = TRP_PROBE_NOP,
};

typedef struct sides {
    suite *suite;
    trp_actor *probe;
    bool traced; /* a trace of the device is active */
} sides;

static bool raw_round_trip(void *context, uint64_t count)
{
    const sides *x = context;
    return x->suite->raw->api->round_trip(x->suite->raw, count);
}

static bool troupe_round_trip(void *context, uint64_t count)
{
    const sides *x = context;
    for (uint64_t i = 0; i < count; i++) {
        trp_completion completion = {0};
        trp_status sent = trp_probe(x->probe, &nothing, &completion);
        if (!suite_await(x->suite, sent, &completion, "trp_probe"))
            return false;
    }
    return true;
}

typedef struct jit_sides {
    suite *suite;
    trp_actor *jit;
    trp_module module;
} jit_sides;

static bool raw_beside_jit(void *context, uint64_t count)
{
    const jit_sides *x = context;
    return x->suite->raw->api->round_trip(x->suite->raw, count);
}

static bool jit_round_trip(void *context, uint64_t count)
{
    const jit_sides *x = context;
    const trp_kernel_arg none = trp_arg_u64(0);
    const trp_kernel_launch_request r = {
        .module = x->module, .grid = {1}, .block = {1}, .args = &none, .arg_count = 1};
    for (uint64_t i = 0; i < count; i++) {
        trp_completion done = {0};
        if (!suite_await(x->suite, trp_kernel_launch(x->jit, &r, &done), &done,
                         "trp_kernel_launch"))
            return false;
    }
    return true;
}

static bool compile_nothing(jit_sides *x)
{
    static const char *const name = "nothing";
    const trp_jit_compile_request r = {
        .source = "extern \"C\" __global__ void nothing(unsigned long long) {}",
        .names = &name,
        .name_count = 1};
    trp_completion done = {0};
    return suite_await(x->suite, trp_jit_compile(x->jit, &r, &x->module, &done), &done,
                       "trp_jit_compile");
}

/* Measures the same with a kernel compiled by the jit actor. The host backend executes no
 * kernels. */
static void measure_jit(suite *s, stats_plan plan, report_row *row)
{
    jit_sides x = {.suite = s, .jit = suite_actor(s, "jit")};
    if (!x.jit)
        return;
    snprintf(row->name, sizeof row->name, "empty kernel of the jit actor");
    if (compile_nothing(&x))
        suite_measure_placed(s, false, plan, (stats_side){.run = raw_beside_jit, .context = &x},
                             (stats_side){.run = jit_round_trip, .context = &x}, row);
    else
        suite_fail(s, row->name);
    trp_actor_destroy(x.jit);
}

static bool raw_sustained(void *context, uint64_t count)
{
    const sides *x = context;
    return x->suite->raw->api->launch(x->suite->raw, count);
}

static bool troupe_sustained(void *context, uint64_t count)
{
    const sides *x = context;
    for (uint64_t i = 0; i < count; i++) {
        if (!suite_check(x->suite, trp_probe(x->probe, &nothing, NULL), "trp_probe"))
            return false;
    }
    return suite_drain(x->suite, TRP_FOREVER);
}

/* Measures the probe actor; `both` means that both sides are Troupe's. */
static void measure(suite *s, bool both, stats_plan plan, stats_side raw_side,
                    stats_side troupe_side, report_row *row)
{
    sides x = {.suite = s, .probe = suite_actor(s, "probe")};
    if (!x.probe)
        return;
    raw_side.context = troupe_side.context = &x;
    suite_measure_placed(s, both, plan, raw_side, troupe_side, row);
    trp_actor_destroy(x.probe);
}

void suite_round_trip(suite *s)
{
    const raw_api *api = s->raw->api;
    stats_plan plan = {.blocks = s->quick ? 8 : 64, .count = 500, .warm = 100, .each = true};
    report_row row = {
        .raw = api->round_trip_label,
        .name = "empty kernel",
        .unit = "us",
        .scale = 1e-3,
        .tail = true,
    };
    suite_bound(s, &row, REPORT_RATIO_AT_MOST, 1.05);
    report_section(s->report, "Round trip of one request",
                   api->round_trip ? "raw: launch, record an event, poll it; Troupe: submit, await"
                                   : "raw: nothing comparable on the host; Troupe: submit, await");
    measure(s, false, plan, (stats_side){.run = api->round_trip ? raw_round_trip : NULL},
            (stats_side){.run = troupe_round_trip}, &row);
    if (suite_on_gpu(s))
        measure_jit(s, plan, &row);
}

void suite_sustained(suite *s)
{
    const raw_api *api = s->raw->api;
    stats_plan plan = {.blocks = s->quick ? 4 : 16, .count = s->quick ? 20000 : 50000};
    report_row row = {
        .raw = api->launch_label,
        .name = "empty kernel, each",
        .unit = "ns",
        .scale = 1,
    };
    plan.warm = plan.count / 20;
    suite_bound(s, &row, REPORT_RATIO_AT_MOST, 1.05);
    report_section(s->report, "Requests sent back to back",
                   api->launch ? "raw: launch all, then synchronize; Troupe: submit all, then drain"
                               : "raw: nothing comparable on the host; Troupe: submit all, then "
                                 "drain");
    measure(s, false, plan, (stats_side){.run = api->launch ? raw_sustained : NULL},
            (stats_side){.run = troupe_sustained}, &row);
}

/* Measures tracing: both sides are Troupe's, the first without a trace, the second with one. The
 * trace is switched in the first, untimed operation of a block. */

static bool set_trace(sides *x, bool on)
{
    suite *s = x->suite;
    if (x->traced == on)
        return true;
    x->traced = on;
    return suite_check(
        s, on ? trp_device_trace_start(s->device, NULL) : trp_device_trace_stop(s->device),
        on ? "trp_device_trace_start" : "trp_device_trace_stop");
}

static bool untraced_sustained(void *context, uint64_t count)
{
    return set_trace(context, false) && troupe_sustained(context, count);
}

static bool traced_sustained(void *context, uint64_t count)
{
    return set_trace(context, true) && troupe_sustained(context, count);
}

static bool untraced_round_trip(void *context, uint64_t count)
{
    return set_trace(context, false) && troupe_round_trip(context, count);
}

static bool traced_round_trip(void *context, uint64_t count)
{
    return set_trace(context, true) && troupe_round_trip(context, count);
}

void suite_trace(suite *s)
{
    stats_plan each = {.blocks = s->quick ? 8 : 64, .count = 500, .warm = 100, .each = true};
    stats_plan all = {.blocks = s->quick ? 4 : 16, .count = s->quick ? 20000 : 50000};
    report_row round_trip = {
        .raw = "without a trace",
        .name = "round trip",
        .unit = "us",
        .scale = 1e-3,
        .tail = true,
    };
    report_row sustained = {
        .raw = "without a trace",
        .name = "sustained, each",
        .unit = "ns",
        .scale = 1,
    };
    all.warm = all.count / 20;
    suite_bound(s, &sustained, REPORT_RATIO_AT_MOST, 1.03);
    report_section(s->report, "What a trace costs",
                   "an empty kernel through Troupe; raw: without a trace; Troupe: with one");
    measure(s, true, each, (stats_side){.run = untraced_round_trip},
            (stats_side){.run = traced_round_trip}, &round_trip);
    suite_check(s, trp_device_trace_stop(s->device), "trp_device_trace_stop");
    measure(s, true, all, (stats_side){.run = untraced_sustained},
            (stats_side){.run = traced_sustained}, &sustained);
    suite_check(s, trp_device_trace_stop(s->device), "trp_device_trace_stop");
}

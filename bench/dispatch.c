/* What a request costs that does nothing: an empty kernel. */
#include "suite.h"

static const trp_probe_request nothing = {
    .header = {.wait_ns = TRP_FOREVER},
    .action = TRP_PROBE_NOP,
};

typedef struct sides {
    suite *suite;
    trp_actor *probe;
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
    return suite_check(x->suite, trp_device_drain(x->suite->device, TRP_FOREVER),
                       "trp_device_drain");
}

static void measure(suite *s, const stats_plan *plan, stats_side raw_side, stats_side troupe_side,
                    report_row *row)
{
    sides x = {.suite = s, .probe = suite_actor(s, "probe", row->section)};
    if (!x.probe)
        return;
    raw_side.context = troupe_side.context = &x;
    suite_measure(s, plan, raw_side, troupe_side, row);
    trp_actor_destroy(x.probe);
}

void suite_round_trip(suite *s)
{
    const raw_api *api = s->raw->api;
    stats_plan plan = {.blocks = s->quick ? 4 : 10, .count = 2000, .warm = 300, .each = true};
    report_row row = {
        .section = "round-trip",
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
    measure(s, &plan, (stats_side){.run = api->round_trip ? raw_round_trip : NULL},
            (stats_side){.run = troupe_round_trip}, &row);
}

void suite_sustained(suite *s)
{
    const raw_api *api = s->raw->api;
    stats_plan plan = {.blocks = s->quick ? 3 : 5, .count = s->quick ? 30000 : 100000};
    report_row row = {
        .section = "sustained",
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
    measure(s, &plan, (stats_side){.run = api->launch ? raw_sustained : NULL},
            (stats_side){.run = troupe_sustained}, &row);
}

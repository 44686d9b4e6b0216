#include "suite.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool suite_check(suite *s, trp_status status, const char *call)
{
    if (__builtin_expect(status == TRP_OK, 1))
        return true;
    snprintf(s->error, sizeof s->error, "%s: %s (%s)", call, trp_error_message(),
             trp_status_name(status));
    return false;
}

bool suite_open(suite *s, trp_device **out)
{
    const trp_device_options options = {
        .backend = s->info.backend, .ordinal = s->info.ordinal, .standby = TRP_STANDBY_OFF};
    return suite_check(s, trp_device_open(s->system, &options, out), "trp_device_open");
}

bool suite_drain(suite *s, int64_t timeout_ns)
{
    return suite_check(s, trp_device_drain(s->device, timeout_ns), "trp_device_drain");
}

bool suite_upload(suite *s, const void *from, uint64_t bytes, trp_buffer *out)
{
    enum { POISON = 0xff };
    trp_completion done = {0};
    if (!suite_check(s, trp_buffer_create(s->device, bytes, out), "trp_buffer_create"))
        return false;
    trp_status sent = from ? trp_write(s->device, *out, 0, from, bytes, &done)
                           : trp_fill(s->device, *out, 0, bytes, POISON, 1, &done);
    return suite_await(s, sent, &done, from ? "trp_write" : "trp_fill");
}

void suite_free(suite *s, const trp_buffer *buffers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (buffers[i].id)
            trp_buffer_free(s->device, buffers[i]);
    }
}

bool suite_failed(suite *s, const char *what)
{
    snprintf(s->error, sizeof s->error, "%s: %s", what, strerror(errno));
    return false;
}

bool suite_await(suite *s, trp_status sent, const trp_completion *completion, const char *call)
{
    return suite_check(s, sent == TRP_OK ? trp_await(completion->future, TRP_FOREVER, NULL) : sent,
                       call);
}

trp_actor *suite_actor(suite *s, const char *kind)
{
    trp_actor *actor = NULL;
    trp_actor_options options = {.kind = kind};
    if (!suite_check(s, trp_actor_create(s->device, &options, &actor), "trp_actor_create"))
        suite_fail(s, kind);
    return actor;
}

void suite_fail(suite *s, const char *what)
{
    const char *why = *s->error ? s->error : *s->raw->error ? s->raw->error : "no memory";
    report_failure(s->report, "%s: %s", what, why);
    *s->error = *s->raw->error = '\0';
}

/* Returns the number of failed requests of the device so far. */
static uint64_t failed_requests(suite *s)
{
    trp_device_info info;
    return suite_check(s, trp_device_get_info(s->device, &info), "trp_device_get_info")
               ? info.requests_failed
               : 0;
}

bool suite_time(suite *s, const stats_plan *plan, stats_side raw_side, stats_side troupe_side,
                report_row *row)
{
    uint64_t before = failed_requests(s);
    bool ok = stats_compare(plan, raw_side, troupe_side, &row->raw_ns, &row->troupe_ns);
    uint64_t failed = failed_requests(s) - before;
    /* Requests without futures report failures only here. */
    if (ok && failed > 0) {
        snprintf(s->error, sizeof s->error, "%" PRIu64 " requests have failed", failed);
        ok = false;
    }
    return ok;
}

bool suite_time_blocks(suite *s, uint32_t blocks, double target_ns, bool both, stats_side raw_side,
                       stats_side troupe_side, report_row *row)
{
    stats_plan plan = {.blocks = s->quick ? 3 : blocks};
    placement where;
    plan.count = stats_calibrate(both ? raw_side : troupe_side, s->quick ? 3e6 : target_ns, 10000);
    plan.warm = plan.count / 8 + 1;
    placement_begin(&where, s->device, both);
    plan.placement = &where;
    bool good = plan.count > 0 && suite_time(s, &plan, raw_side, troupe_side, row);
    placement_end(&where);
    return good;
}

void suite_plan_blocks(suite *s, stats_side side, stats_plan *plan)
{
    enum { LASTING_NS = 50000 };
    plan->count = stats_calibrate(side, s->quick ? 20e6 : 60e6, 10000);
    plan->warm = plan->count / 8 + 1;
    if (!s->quick && suite_on_gpu(s) && plan->count > 0 && plan->count < 60000000 / LASTING_NS) {
        plan->blocks = 5;
        plan->warm = 2 * plan->count;
        plan->count = 5 * plan->count / 2;
    }
}

bool suite_measure(suite *s, const stats_plan *plan, stats_side raw_side, stats_side troupe_side,
                   report_row *row)
{
    if (!suite_time(s, plan, raw_side, troupe_side, row)) {
        suite_fail(s, row->name);
        return false;
    }
    report_add(s->report, row);
    return true;
}

bool suite_measure_placed(suite *s, bool both, stats_plan plan, stats_side raw_side,
                          stats_side troupe_side, report_row *row)
{
    placement where;
    placement_begin(&where, s->device, both);
    plan.placement = &where;
    bool good = suite_measure(s, &plan, raw_side, troupe_side, row);
    placement_end(&where);
    return good;
}

void suite_set_flop(const suite *s, report_row *row, double flop)
{
    const bool tera = suite_on_gpu(s);
    row->unit = tera ? "TFLOP/s" : "GFLOP/s"; /* an operation in a ns is a GFLOP/s */
    row->rate = true;
    row->scale = flop / (tera ? 1e3 : 1);
}

void suite_bound(const suite *s, report_row *row, report_bound bound, double limit)
{
    if (!suite_on_gpu(s))
        return;
    row->bound = bound;
    row->limit = limit;
}

void suite_size_text(char *out, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    size_t unit = 0;
    while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, 24, "%" PRIu64 " %s", bytes, units[unit]);
}

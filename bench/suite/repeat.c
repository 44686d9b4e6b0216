#include "repeat.h"

#include "scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 1024 };

bool repeat_open(suite *s, repeat_gate *g)
{
    g->memory = calloc(1, REPEAT_HELD);
    if (!g->memory)
        return false;
    memset(g->memory, 1, REPEAT_HELD); /* makes all pages present */
    memset(g->memory, 0, REPEAT_HELD);
    return suite_check(s, trp_buffer_create(s->device, REPEAT_HELD, &g->buffer),
                       "trp_buffer_create");
}

void repeat_close(suite *s, repeat_gate *g)
{
    if (g->buffer.id)
        trp_buffer_free(s->device, g->buffer);
    free(g->memory);
}

/* Reads the trace: events of an operation stop being queued when the worker issues them. */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double repeat_between(double *times, int count)
{
    if (count < 2 * REPEAT_FIRST)
        return 0;
    qsort(times, (size_t)count, sizeof *times, compare);
    for (int i = REPEAT_FIRST; i + 1 < count; i++)
        times[i] = times[i + 1] - times[i];
    count -= 1 + REPEAT_FIRST;
    qsort(times + REPEAT_FIRST, (size_t)count, sizeof *times, compare);
    return times[REPEAT_FIRST + count / 2];
}

/* Returns the median time between requests of that name in ns. */
static double between(FILE *file, const char *name)
{
    static double ts[REPEAT_REQUESTS];
    char line[LINE], wanted[64];
    int count = 0;
    snprintf(wanted, sizeof wanted, "\"name\":\"%s\"", name);
    while (fgets(line, sizeof line, file) && count < REPEAT_REQUESTS) {
        const char *at = strstr(line, "\"ts\":");
        if (at && strstr(line, "\"ph\":\"e\"") && strstr(line, wanted))
            ts[count++] = strtod(at + 5, NULL) * 1e3;
    }
    return repeat_between(ts, count);
}

static bool send_round(suite *s, const repeat_gate *g, const repeat_sequence *q)
{
    trp_completion copied = {0};
    bool good = suite_check(s, trp_write(s->device, g->buffer, 0, g->memory, REPEAT_HELD, &copied),
                            "trp_write");
    for (int i = 0; i < 2 && good; i++)
        good = q->send(q->context, true);
    for (int i = 0; i < REPEAT_REQUESTS && good; i++)
        good = q->send(q->context, false);
    good = suite_await(s, TRP_OK, &copied, "trp_write") && good;
    return suite_drain(s, TRP_FOREVER) && good;
}

static double run_round(suite *s, const repeat_gate *g, const repeat_sequence *q)
{
    char path[SCRATCH_FOLDER];
    int file = scratch_file(s, path);
    double ns = 0;
    if (file < 0)
        return 0;
    bool good = suite_check(s, trp_device_trace_start(s->device, NULL), "trp_device_trace_start") &&
                send_round(s, g, q) &&
                suite_check(s, trp_device_trace_stop(s->device), "trp_device_trace_stop") &&
                suite_check(s, trp_device_trace_write(s->device, path), "trp_device_trace_write");
    FILE *trace = good ? fdopen(file, "r") : NULL;
    if (trace)
        ns = between(trace, q->name);
    if (trace)
        fclose(trace);
    else
        close(file);
    unlink(path);
    return ns;
}

bool repeat_run(suite *s, const repeat_gate *g, const repeat_sequence *q, stats_summary *out)
{
    double ns[REPEAT_ROUNDS];
    for (int i = 0; i < REPEAT_ROUNDS; i++) {
        ns[i] = run_round(s, g, q);
        if (ns[i] <= 0) {
            suite_fail(s, q->name);
            return false;
        }
    }
    *out = stats_summarise(ns, REPEAT_ROUNDS);
    return true;
}

void repeat_show(suite *s, report_row *row, const char *beyond, double limit_us)
{
    double more = row->troupe_ns.p50 - row->raw_ns.p50;
    report_add(s->report, row);
    row->raw = NULL;
    row->raw_ns = (stats_summary){0};
    row->troupe_ns.p50 = more > 0 ? more : 0;
    snprintf(row->name, sizeof row->name, "%s", beyond);
    suite_bound(s, row, REPORT_VALUE_AT_MOST, limit_us);
    report_add(s->report, row);
}

/* Measures many senders, many requests in flight, and the cost of waiting. */
#include "bench/suite/suite.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 16, IN_FLIGHT = 10000, IN_FLIGHT_MAILBOX = 16384 };

static const trp_probe_request nothing = {
    .header = {.wait_ns = TRP_FOREVER},
    .action = TRP_PROBE_NOP,
};

/* Senders. */

typedef struct sender {
    pthread_t thread;
    trp_actor *actor;
    uint64_t count;
    trp_status status; /* status of the failed call; the device reports other failures */
} sender;

typedef struct senders {
    suite *suite;
    trp_actor *actor[THREADS];
    bool spread; /* each thread sends to a separate actor */
} senders;

static void *send_all(void *argument)
{
    sender *s = argument;
    for (uint64_t i = 0; i < s->count && s->status == TRP_OK; i++)
        s->status = trp_probe(s->actor, &nothing, NULL);
    return NULL;
}

static bool one_thread(void *context, uint64_t count)
{
    const senders *x = context;
    for (uint64_t i = 0; i < count; i++) {
        if (!suite_check(x->suite, trp_probe(x->actor[0], &nothing, NULL), "trp_probe"))
            return false;
    }
    return suite_drain(x->suite, TRP_FOREVER);
}

static bool many_threads(void *context, uint64_t count)
{
    const senders *x = context;
    sender all[THREADS];
    bool ok = true;
    int started = 0;
    for (; started < THREADS && ok; started++) {
        all[started] = (sender){.actor = x->actor[x->spread ? started : 0],
                                .count = count / THREADS + ((uint64_t)started < count % THREADS)};
        ok = pthread_create(&all[started].thread, NULL, send_all, &all[started]) == 0;
        if (!ok)
            suite_check(x->suite, TRP_E_SYSTEM, "pthread_create");
    }
    for (int i = 0; i < started - !ok; i++) {
        pthread_join(all[i].thread, NULL);
        ok = ok && suite_check(x->suite, all[i].status, "trp_probe");
    }
    return ok && suite_drain(x->suite, TRP_FOREVER);
}

static bool raw_launches(void *context, uint64_t count)
{
    const senders *x = context;
    return x->suite->raw->api->launch(x->suite->raw, count);
}

/* Sends from one thread with a future for each request and awaits all at the end. */
static bool with_futures(void *context, uint64_t count)
{
    const senders *x = context;
    suite *s = x->suite;
    bool ok = true;
    trp_completion *all = calloc(count, sizeof *all);
    if (!all)
        return suite_check(s, TRP_E_MEMORY, "calloc");
    uint64_t sent = 0;
    while (sent < count && ok)
        ok = suite_check(s, trp_probe(x->actor[0], &nothing, &all[sent]), "trp_probe") && ++sent;
    for (uint64_t i = 0; i < sent; i++)
        ok = suite_check(s, trp_await(all[i].future, TRP_FOREVER, NULL), "trp_await") && ok;
    free(all);
    return ok;
}

static bool make_actors(senders *x, int count)
{
    for (int i = 0; i < count; i++) {
        x->actor[i] = suite_actor(x->suite, "probe");
        if (!x->actor[i])
            return false;
    }
    return true;
}

static void measure_threads(suite *s)
{
    senders x = {.suite = s};
    senders spread = {.suite = s, .spread = true};
    stats_plan plan = {.blocks = s->quick ? 3 : 7, .count = s->quick ? 30000 : 100000};
    plan.warm = plan.count / 20;
    report_row row = {.raw = "Troupe, one thread",
                      .name = "16 threads, one actor, each",
                      .unit = "ns",
                      .scale = 1};
    suite_bound(s, &row, REPORT_RATIO_AT_MOST, 1.0);
    if (make_actors(&spread, THREADS)) {
        x.actor[0] = spread.actor[0];
        suite_measure(s, &plan, (stats_side){.run = one_thread, .context = &x},
                      (stats_side){.run = many_threads, .context = &x}, &row);
        report_row other = row;
        other.bound = REPORT_NO_BOUND;
        snprintf(other.name, sizeof other.name, "16 threads, 16 actors, each");
        suite_measure(s, &plan, (stats_side){.run = one_thread, .context = &x},
                      (stats_side){.run = many_threads, .context = &spread}, &other);
    }
    for (int i = 0; i < THREADS; i++)
        trp_actor_destroy(spread.actor[i]);
}

/* Uses a device whose mailboxes hold that many requests. */
static void measure_in_flight(suite *s)
{
    trp_device *usual = s->device;
    trp_device_options options = {.backend = s->info.backend,
                                  .ordinal = s->info.ordinal,
                                  .mailbox_size = IN_FLIGHT_MAILBOX,
                                  .standby = TRP_STANDBY_OFF};
    senders x = {.suite = s};
    stats_plan plan = {.blocks = s->quick ? 5 : 15, .count = IN_FLIGHT, .warm = IN_FLIGHT};
    report_row row = {.raw = s->raw->api->launch_label,
                      .name = "10,000 in flight, each",
                      .unit = "ns",
                      .scale = 1};
    if (!suite_check(s, trp_device_open(s->system, &options, &s->device), "trp_device_open")) {
        suite_fail(s, row.name);
        s->device = usual;
        return;
    }
    if (make_actors(&x, 1))
        suite_measure(s, &plan,
                      (stats_side){.run = s->raw->api->launch ? raw_launches : NULL, .context = &x},
                      (stats_side){.run = with_futures, .context = &x}, &row);
    trp_actor_destroy(x.actor[0]);
    trp_device_close(s->device);
    s->device = usual;
}

void suite_senders(suite *s)
{
    report_section(s->report, "Many senders, empty kernels",
                   "raw: as many from one thread through Troupe; the last row: raw launches");
    measure_threads(s);
    measure_in_flight(s);
}

/* Waiting. */

#define WORK_NS INT64_C(100000000)

/* Returns the CPU time of this process and of the worker. */
static int64_t processor_ns(const suite *s)
{
    struct timespec own = {0}, worker = {0};
    trp_device_info info;
    clockid_t clock;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    if (trp_device_get_info(s->device, &info) == TRP_OK &&
        clock_getcpuclockid((pid_t)info.worker_pid, &clock) == 0)
        clock_gettime(clock, &worker);
    return (int64_t)(own.tv_sec + worker.tv_sec) * INT64_C(1000000000) + own.tv_nsec +
           worker.tv_nsec;
}

static bool wait_once(suite *s, trp_actor *probe, double *late_ns, double *busy)
{
    trp_completion completion = {0};
    trp_probe_request r = {.action = TRP_PROBE_SPIN, .duration_ns = (uint64_t)WORK_NS};
    int64_t used = processor_ns(s);
    int64_t start = stats_now();
    trp_status sent = trp_probe(probe, &r, &completion);
    bool ok = suite_await(s, sent, &completion, "trp_probe");
    int64_t spent = stats_now() - start;
    *busy = 100.0 * (double)(processor_ns(s) - used) / (double)spent;
    *late_ns = (double)(spent - WORK_NS);
    return ok;
}

void suite_waiting(suite *s)
{
    enum { MOST = 50 };
    double late[MOST], busy[MOST];
    uint64_t count = s->quick ? 10 : MOST, done = 0;
    report_row row = {
        .name = "100 ms: returns later by", .unit = "us", .scale = 1e-3, .tail = true};
    report_row load = {.name = "100 ms: part of one core", .unit = "%", .scale = 1, .tail = true};
    report_section(s->report, "Waiting for a request of 100 ms",
                   "Troupe: submit, await; processor time of this process and of the worker");
    suite_bound(s, &row, REPORT_VALUE_AT_MOST, 100);
    suite_bound(s, &load, REPORT_VALUE_AT_MOST, 3);
    trp_actor *probe = suite_actor(s, "probe");
    bool ok = probe && wait_once(s, probe, &late[0], &busy[0]); /* warm-up */
    while (ok && done < count && (ok = wait_once(s, probe, &late[done], &busy[done])))
        done++;
    if (probe && !ok)
        suite_fail(s, row.name);
    trp_actor_destroy(probe);
    if (done == 0)
        return;
    row.troupe_ns = stats_summarise(late, done);
    load.troupe_ns = stats_summarise(busy, done);
    report_add(s->report, &row);
    report_add(s->report, &load);
}

/* What those who look see of faults: figures that survive the change of incarnations, and a trace
 * that shows what was interrupted, what ran again, and who took over. */
#include "support/harness.h"
#include "cli/data/json.h"

#include <signal.h>
#include <unistd.h>

static trp_device_stats look(trp_observer *o)
{
    static trp_device_stats stats;
    size_t count = 0;
    H_OK(trp_observer_read(o, &stats, 1, &count));
    H_EQUAL(count, 1);
    return stats;
}

static const trp_actor_stats *named(const trp_device_stats *stats, const char *name)
{
    for (uint32_t i = 0; i < stats->actor_count; i++) {
        if (strcmp(stats->actor[i].name, name) == 0)
            return &stats->actor[i];
    }
    h_fail(__FILE__, __LINE__, "there is no actor %s", name);
}

/* Whether an incarnation is ready, with so much of probe's in flight. */
static bool is_as(const trp_device_stats *s, uint32_t incarnation, uint32_t in_flight)
{
    return s->info.state == TRP_DEVICE_READY && s->info.incarnation == incarnation &&
           named(s, "probe")->in_flight == in_flight;
}

/* Waits until the observer sees that. */
static trp_device_stats await_seen(trp_observer *o, uint32_t incarnation, uint32_t in_flight)
{
    int64_t end = h_now() + H_LONG;
    for (;;) {
        trp_device_stats s = look(o);
        if (is_as(&s, incarnation, in_flight))
            return s;
        if (h_now() > end)
            h_fail(__FILE__, __LINE__, "seen: state %d, incarnation %u, %u in flight",
                   (int)s.info.state, s.info.incarnation, named(&s, "probe")->in_flight);
        h_sleep(H_MS);
    }
}

/* Sends requests, each longer than the one before, until the observer sees one in flight; how many
 * that took: on a busy machine a request may end before anybody looks. */
static uint32_t spin_until_seen(trp_observer *o, uint32_t incarnation, trp_actor *probe)
{
    for (uint32_t sent = 1; sent < 20; sent++) {
        trp_completion spin = {0};
        trp_status status;
        bool seen = false;
        h_spin(probe, sent * 200 * H_MS, &spin);
        do {
            trp_device_stats s = look(o);
            seen = seen || is_as(&s, incarnation, 1);
            status = trp_await(spin.future, H_MS, NULL);
        } while (status == TRP_E_TIMEOUT);
        H_OK(status);
        if (seen)
            return sent;
    }
    h_fail(__FILE__, __LINE__, "no request was seen in flight");
}

/* The figures go on over faults, each counted once, and follow the new worker's reply block. */
static void figures(void)
{
    enum { FAULTS = 4 };
    uint64_t sent = 0;
    h_world w = h_open(NULL);
    trp_observer *o = NULL;
    H_OK(trp_observer_open(getpid(), &o));
    trp_actor *probe = h_actor(w.device, "probe");
    for (uint32_t i = 1; i <= FAULTS; i++) {
        trp_completion bad = {0};
        h_await_standby(w.device);
        sent += spin_until_seen(o, i, probe) + 1;
        h_probe(probe, TRP_PROBE_SEGV, &bad);
        H_IS(h_await_any(bad), TRP_E_FAULT);
        H_OK(trp_device_drain(w.device, H_LONG)); /* the next worker passes it */
        trp_device_stats s = await_seen(o, i + 1, 0);
        H_EQUAL(s.faults, i);
        H_EQUAL(s.promotions, i);
        H_EQUAL(s.info.restarts, i);
        H_EQUAL(s.info.requests_failed, i);
        H_EQUAL(named(&s, "probe")->sent, sent);
        H_EQUAL(named(&s, "probe")->done, sent);
        H_EQUAL(named(&s, "probe")->failed, i);
        H_CHECK(s.info.worker_pid == h_info(w.device).worker_pid);
    }
    trp_observer_close(o);
    h_close(&w);
}

/* What a device that is down has done stays to be seen. */
static void down(void)
{
    trp_device_options options = h_options();
    options.restart_budget = 1;
    h_world w = h_open(&options);
    trp_observer *o = NULL;
    H_OK(trp_observer_open(getpid(), &o));
    H_OK(trp_device_trace_start(w.device, NULL));
    trp_actor *probe = h_actor(w.device, "probe");
    for (int i = 0; i < 2; i++) {
        trp_completion c = {0};
        if (trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_ABORT}, &c) == TRP_OK)
            h_await_any(c);
    }
    h_await_state(w.device, TRP_DEVICE_DOWN);
    trp_device_stats s = look(o); /* published a moment later */
    for (int64_t end = h_now() + H_LONG; s.info.state != TRP_DEVICE_DOWN && h_now() < end;) {
        h_sleep(H_MS);
        s = look(o);
    }
    H_EQUAL(s.info.state, TRP_DEVICE_DOWN);
    H_EQUAL(s.info.worker_pid, 0);
    H_EQUAL(named(&s, "probe")->in_flight, 0);
    H_EQUAL(named(&s, "probe")->queued, 0);
    H_EQUAL(named(&s, "probe")->done, named(&s, "probe")->sent);
    trp_observer_close(o);
    h_close(&w);
}

/* Somebody looks all the time while workers die. */
typedef struct watch {
    _Atomic bool stop;
    _Atomic uint64_t looks;
} watch;

static void *look_all_the_time(void *argument)
{
    watch *t = argument;
    trp_observer *o = NULL;
    uint64_t done = 0;
    H_OK(trp_observer_open(getpid(), &o));
    while (!t->stop) {
        trp_device_stats s = look(o);
        for (uint32_t i = 0; i < s.actor_count; i++)
            H_CHECK(s.actor[i].done <= s.actor[i].sent);
        uint64_t now = s.actor_count > 3 ? s.actor[3].done : 0;
        H_CHECK(now >= done);
        done = now;
        t->looks++;
    }
    trp_observer_close(o);
    return NULL;
}

static void watched_all_the_time(void)
{
    h_world w = h_open(NULL);
    watch t = {0};
    trp_actor *probe = h_actor(w.device, "probe");
    h_thread *thread = h_start(look_all_the_time, &t);
    for (uint32_t i = 1; i <= 6; i++) {
        trp_completion c = {0};
        uint64_t looks = t.looks;
        for (int k = 0; k < 100; k++)
            h_probe(probe, TRP_PROBE_NOP, NULL);
        h_probe(probe, TRP_PROBE_SEGV, &c);
        H_IS(h_await_any(c), TRP_E_FAULT);
        while (t.looks < looks + 5)
            h_sleep(H_MS);
    }
    H_OK(trp_device_drain(w.device, H_LONG));
    t.stop = true;
    h_join(thread);
    trp_device_stats s;
    int64_t end = h_now() + H_LONG;
    do { /* until the last worker is replaced, what is done is not known */
        H_CHECK(h_now() < end);
        H_OK(trp_device_get_stats(w.device, &s));
    } while (named(&s, "probe")->done != 606);
    H_EQUAL(named(&s, "probe")->sent, 606);
    H_EQUAL(named(&s, "probe")->failed, 6);
    h_close(&w);
}

/* ---- the trace ---- */

static bool is(const cJSON *event, const char *phase, const char *category)
{
    return strcmp(json_string(event, "ph"), phase) == 0 &&
           strcmp(json_string(event, "cat"), category) == 0;
}

static size_t marks(const cJSON *trace, const char *name)
{
    size_t count = 0;
    for (const cJSON *e = cJSON_GetObjectItem(trace, "traceEvents")->child; e; e = e->next)
        count += is(e, "i", "device") && strcmp(json_string(e, "name"), name) == 0;
    return count;
}

/* The slice of a request in one attempt. */
static const cJSON *attempt(const cJSON *trace, double ticket, double number)
{
    for (const cJSON *e = cJSON_GetObjectItem(trace, "traceEvents")->child; e; e = e->next) {
        const cJSON *args = cJSON_GetObjectItem(e, "args");
        if (is(e, "X", "running") && json_number(args, "ticket") == ticket &&
            json_number(args, "attempt") == number)
            return e;
    }
    h_fail(__FILE__, __LINE__, "no attempt %g of request %g", number, ticket);
}

static void check_attempt(const cJSON *trace, double ticket, double number, const char *status)
{
    const cJSON *e = attempt(trace, ticket, number);
    const cJSON *args = cJSON_GetObjectItem(e, "args");
    H_CHECK(strcmp(json_string(args, "status"), status) == 0);
    H_EQUAL(json_number(args, "incarnation"), number);
    H_EQUAL(json_number(e, "pid"), number);
}

/* An innocent request and a guilty one, in flight together: both are interrupted, both run again
 * alone, one to its end. */
static void interrupted(void)
{
    char path[256];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/troupe-trace-%d.json", folder ? folder : "/tmp", (int)getpid());
    h_world w = h_open(NULL);
    trp_actor *slow = h_actor(w.device, "probe"), *guilty = h_actor(w.device, "probe");
    trp_completion spin = {0}, bad = {0};
    h_await_standby(w.device);
    H_OK(trp_device_trace_start(w.device, NULL));
    double first = (double)h_info(w.device).requests_submitted + 1;
    h_spin(slow, 500 * H_MS, &spin);
    h_probe(guilty, TRP_PROBE_SEGV, &bad);
    H_OK(h_await_any(spin));
    H_IS(h_await_any(bad), TRP_E_FAULT);
    h_await_incarnation(w.device, 3);
    H_OK(trp_device_trace_write(w.device, path));
    cJSON *trace = json_read_file(path);
    H_CHECK(trace);
    unlink(path);
    check_attempt(trace, first, 1, "interrupted");
    check_attempt(trace, first, 2, "TRP_OK");
    check_attempt(trace, first + 1, 1, "interrupted");
    check_attempt(trace, first + 1, 2, "TRP_E_FAULT");
    const cJSON *e = attempt(trace, first, 1), *again = attempt(trace, first, 2);
    H_CHECK(json_number(e, "ts") + json_number(e, "dur") <= json_number(again, "ts"));
    H_CHECK(json_number(again, "dur") >= 499e3); /* it ran its whole time */
    H_EQUAL(marks(trace, "fault"), 2);
    H_EQUAL(marks(trace, "promotion") + marks(trace, "restart"), 2);
    H_CHECK(marks(trace, "promotion") >= 1);
    H_EQUAL(marks(trace, "down"), 0);
    cJSON_Delete(trace);
    h_close(&w);
}

H_CASES_OF_PROCESSES(H_CASE(figures), H_CASE(down), H_CASE(watched_all_the_time),
                     H_CASE(interrupted))

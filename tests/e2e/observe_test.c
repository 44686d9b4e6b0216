/* Figures of a device: in its own process, through an observer, and as metrics. They are exact
 * whenever the device is at rest. */
#include "support/harness.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static trp_device_stats get(trp_device *device)
{
    static trp_device_stats stats;
    H_OK(trp_device_get_stats(device, &stats));
    return stats;
}

static const trp_actor_stats *named(const trp_device_stats *stats, const char *name)
{
    for (uint32_t i = 0; i < stats->actor_count; i++) {
        if (strcmp(stats->actor[i].name, name) == 0)
            return &stats->actor[i];
    }
    return NULL;
}

/* Waits until an actor has so many requests issued and not done, and so many not issued. */
static trp_actor_stats await_counts(trp_device *device, const char *name, uint32_t in_flight,
                                    uint32_t queued)
{
    int64_t end = h_now() + H_LONG;
    for (;;) {
        trp_device_stats stats = get(device);
        const trp_actor_stats *a = named(&stats, name);
        H_CHECK(a);
        if (a->in_flight == in_flight && a->queued == queued)
            return *a;
        if (h_now() > end)
            h_fail(__FILE__, __LINE__, "%s has %u in flight and %u queued, expected %u and %u",
                   name, a->in_flight, a->queued, in_flight, queued);
        h_sleep(H_MS);
    }
}

static void at_rest(void)
{
    h_world w = h_open(NULL);
    trp_device_stats stats = get(w.device);
    trp_device_info info = h_info(w.device);
    H_EQUAL(stats.pid, getpid());
    H_EQUAL(stats.info.backend, info.backend);
    H_EQUAL(stats.info.isolation, h_isolation());
    H_EQUAL(stats.info.state, TRP_DEVICE_READY);
    H_EQUAL(stats.info.incarnation, 1);
    H_EQUAL(stats.info.worker_pid, info.worker_pid);
    H_EQUAL(stats.info.memory_total, info.memory_total);
    H_CHECK(strcmp(stats.info.name, info.name) == 0);
    H_EQUAL(stats.actor_count, 3);
    H_CHECK(named(&stats, "upload") && named(&stats, "download") && named(&stats, "local"));
    H_EQUAL(stats.faults, 0);
    H_EQUAL(stats.promotions, 0);
    h_close(&w);
}

/* Sent, done and failed of each actor, whatever of its requests was awaited. */
static void counts(void)
{
    enum { SENT = 100, FAILING = 7 };
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    for (int i = 0; i < SENT; i++)
        h_probe(probe, i < FAILING ? TRP_PROBE_LIBRARY_ERROR : TRP_PROBE_NOP, NULL);
    H_OK(trp_device_drain(w.device, H_LONG));
    trp_actor_stats a = await_counts(w.device, "probe", 0, 0);
    H_EQUAL(a.sent, SENT);
    H_EQUAL(a.done, SENT);
    H_EQUAL(a.failed, FAILING);
    H_CHECK(strcmp(a.kind, "probe") == 0);
    H_EQUAL(a.running_request, 0);
    H_CHECK(a.running[0] == '\0');
    trp_device_stats stats = get(w.device);
    H_EQUAL(stats.info.requests_failed, FAILING);
    H_EQUAL(stats.info.requests_submitted, SENT);

    /* Nobody looks at the end of this one: the device has it done all the same. */
    h_probe(probe, TRP_PROBE_NOP, NULL);
    int64_t end = h_now() + H_LONG;
    do {
        a = await_counts(w.device, "probe", 0, 0);
        H_CHECK(h_now() < end);
    } while (a.done != SENT + 1);
    H_EQUAL(a.sent, SENT + 1);
    h_close(&w);
}

/* A request that runs, and one behind it in the stream. */
static void in_flight(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_completion c[2] = {{0}};
    H_OK(trp_device_drain(w.device, H_LONG));
    h_spin(probe, 400 * H_MS, &c[0]);
    h_probe(probe, TRP_PROBE_NOP, &c[1]);
    trp_actor_stats a = await_counts(w.device, "probe", 2, 0);
    H_EQUAL(a.done, 0);
    H_CHECK(strcmp(a.running, "probe") == 0);
    H_CHECK(a.running_request >= 1);
    H_OK(h_await_any(c[0]));
    H_OK(h_await_any(c[1]));
    a = await_counts(w.device, "probe", 0, 0);
    H_EQUAL(a.done, 2);
    h_close(&w);
}

/* The number of an actor that is gone is used again; its figures begin anew. */
static void another_actor(void)
{
    h_world w = h_open(NULL);
    trp_actor *first = h_actor(w.device, "probe");
    h_probe(first, TRP_PROBE_LIBRARY_ERROR, NULL);
    h_probe(first, TRP_PROBE_NOP, NULL);
    trp_actor_destroy(first);
    trp_device_stats stats = get(w.device);
    H_EQUAL(stats.actor_count, 3);

    trp_actor *second = NULL;
    H_OK(trp_actor_create(w.device, &(trp_actor_options){.kind = "probe", .name = "again"},
                          &second));
    h_probe(second, TRP_PROBE_NOP, NULL);
    H_OK(trp_device_drain(w.device, H_LONG));
    trp_actor_stats a = await_counts(w.device, "again", 0, 0);
    H_EQUAL(a.sent, 1);
    H_EQUAL(a.done, 1);
    H_EQUAL(a.failed, 0);
    stats = get(w.device);
    H_EQUAL(stats.info.requests_failed, 1);
    H_EQUAL(stats.info.requests_submitted, 3);
    h_close(&w);
}

static void memory(void)
{
    h_world w = h_open(NULL);
    trp_buffer b = h_buffer(w.device, 5 * H_MIB);
    trp_device_info info = h_info(w.device);
    trp_device_stats stats = get(w.device);
    H_EQUAL(stats.info.buffers, 1);
    H_EQUAL(stats.info.memory_used, info.memory_used);
    H_EQUAL(stats.info.memory_reserved, info.memory_reserved);
    H_CHECK(stats.info.memory_used >= 5 * H_MIB);
    H_OK(trp_buffer_free(w.device, b));
    stats = get(w.device);
    H_EQUAL(stats.info.buffers, 0);
    H_EQUAL(stats.info.memory_used, 0);
    H_OK(trp_device_trim(w.device));
    /* A sealable buffer has an arena of its own, which goes with it. */
    b = h_sealable(w.device, 3 * H_MIB);
    info = h_info(w.device);
    stats = get(w.device);
    H_CHECK(stats.info.memory_used >= 3 * H_MIB);
    H_EQUAL(stats.info.memory_used, info.memory_used);
    H_EQUAL(stats.info.memory_reserved, info.memory_reserved);
    H_OK(trp_buffer_free(w.device, b));
    stats = get(w.device);
    H_EQUAL(stats.info.memory_reserved, 0);
    h_close(&w);
}

/* An observer of this very process sees what the process sees. */
static void observer(void)
{
    enum { MOST = 4 };
    static trp_device_stats seen[MOST];
    trp_observer *o = NULL;
    size_t count = 99;
    H_OK(trp_observer_open(getpid(), &o));
    H_OK(trp_observer_read(o, seen, MOST, &count));
    H_EQUAL(count, 0);

    h_world w[2] = {h_open(NULL), h_open(NULL)};
    trp_actor *probe = h_actor(w[1].device, "probe");
    h_probe(probe, TRP_PROBE_NOP, NULL);
    H_OK(trp_device_drain(w[1].device, H_LONG));
    H_OK(trp_observer_read(o, seen, MOST, &count));
    H_EQUAL(count, 2);
    H_CHECK(seen[0].number != seen[1].number);
    for (int i = 0; i < 2; i++) {
        trp_device_stats own = get(w[i].device);
        const trp_device_stats *other = &seen[seen[1].number == own.number];
        H_EQUAL(other->number, own.number);
        H_EQUAL(other->pid, getpid());
        H_EQUAL(other->actor_count, own.actor_count);
        H_EQUAL(other->info.worker_pid, own.info.worker_pid);
        H_EQUAL(other->info.requests_submitted, i);
        const trp_actor_stats *a = named(other, "probe");
        H_EQUAL(a ? a->done : 0, i);
    }

    /* Where only one fits, the count still says two. */
    H_OK(trp_observer_read(o, seen, 1, &count));
    H_EQUAL(count, 2);
    H_OK(trp_observer_read(o, NULL, 0, &count));
    H_EQUAL(count, 2);
    h_close(&w[0]);
    H_OK(trp_observer_read(o, seen, MOST, &count));
    H_EQUAL(count, 1);
    H_EQUAL(seen[0].number, get(w[1].device).number);
    h_close(&w[1]);
    H_OK(trp_observer_read(o, seen, MOST, &count));
    H_EQUAL(count, 0);
    trp_observer_close(o);
    trp_observer_close(NULL);
}

static void bad_arguments(void)
{
    trp_observer *o = NULL;
    trp_device_stats stats;
    size_t count;
    H_IS(trp_observer_open(getpid(), NULL), TRP_E_ARGUMENT);
    H_IS(trp_observer_open(0, &o), TRP_E_ARGUMENT);
    H_IS(trp_observer_open(-1, &o), TRP_E_ARGUMENT);
    H_IS(trp_observer_open(INT64_C(1) << 40, &o), TRP_E_ARGUMENT);
    H_IS(trp_observer_open(INT32_MAX, &o), TRP_E_MISSING);
    H_SAYS("no process");
    H_IS(trp_observer_read(NULL, &stats, 1, &count), TRP_E_ARGUMENT);
    H_OK(trp_observer_open(getpid(), &o));
    H_IS(trp_observer_read(o, &stats, 1, NULL), TRP_E_ARGUMENT);
    H_IS(trp_observer_read(o, NULL, 1, &count), TRP_E_ARGUMENT);
    trp_observer_close(o);
    H_IS(trp_device_get_stats(NULL, &stats), TRP_E_ARGUMENT);
    H_IS(trp_system_metrics(NULL, NULL, 0, NULL), TRP_E_ARGUMENT);
    h_world w = h_open(NULL);
    H_IS(trp_device_get_stats(w.device, NULL), TRP_E_ARGUMENT);
    H_IS(trp_system_metrics(w.system, NULL, 1, NULL), TRP_E_ARGUMENT);
    H_IS(trp_stats_metrics(NULL, 1, NULL, 0, NULL), TRP_E_ARGUMENT);
    h_close(&w);
}

/* The value behind a line's labels. */
static double metric(const char *text, const char *start)
{
    const char *line = strstr(text, start);
    const char *end = line ? strstr(line, "} ") : NULL;
    if (!end || memchr(line, '\n', (size_t)(end - line)))
        h_fail(__FILE__, __LINE__, "no line that begins with %s in\n%s", start, text);
    return strtod(end + 2, NULL);
}

/* Each line is a comment or a sample, and each sample follows the TYPE of its own metric. */
static void check_lines(const char *text)
{
    char type[128] = "";
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        H_CHECK(strchr(line, '\n'));
        if (sscanf(line, "# TYPE %127s", type) == 1 || strncmp(line, "# HELP ", 7) == 0)
            continue;
        const char *rest = line + strlen(type);
        H_CHECK(strncmp(line, type, strlen(type)) == 0);
        H_CHECK(*rest == '{' || strncmp(rest, "_bucket{", 8) == 0 ||
                strncmp(rest, "_sum{", 5) == 0 || strncmp(rest, "_count{", 7) == 0);
    }
}

static void metrics(void)
{
    h_world w = h_open(NULL);
    trp_actor *odd = NULL;
    static char text[1 << 17];
    char small[100];
    size_t needed = 0, again = 0;
    H_OK(trp_actor_create(
        w.device, &(trp_actor_options){.kind = "probe", .name = "a\"b\\c\nd\x80\xc3\xa9"}, &odd));
    for (int i = 0; i < 5; i++)
        h_probe(odd, i == 0 ? TRP_PROBE_LIBRARY_ERROR : TRP_PROBE_NOP, NULL);
    H_OK(trp_device_drain(w.device, H_LONG));

    H_IS(trp_system_metrics(w.system, NULL, 0, &needed), TRP_E_ARGUMENT);
    H_SAYS("size: expected at least");
    H_CHECK(needed > 1000 && needed < sizeof text);
    H_IS(trp_system_metrics(w.system, small, sizeof small, &again), TRP_E_ARGUMENT);
    H_EQUAL(strlen(small), sizeof small - 1);
    H_OK(trp_system_metrics(w.system, text, sizeof text, &again));
    H_EQUAL(strlen(text), again - 1);
    H_CHECK(strncmp(text, small, strlen(small)) == 0);
    check_lines(text);
    /* All series say which process they are of. */
    char labels[96];
    snprintf(labels, sizeof labels, "{pid=\"%d\",program=\"%s\",device=\"", (int)getpid(),
             program_invocation_short_name);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        H_CHECK(*line == '#' || strncmp(strchr(line, '{'), labels, strlen(labels)) == 0);
    H_EQUAL(metric(text, "troupe_device_state{"), 1);
    H_EQUAL(metric(text, "troupe_incarnation{"), 1);
    H_EQUAL(metric(text, "troupe_faults_total{"), 0);
    /* The label is escaped; what is no text is replaced. */
    const char *name = ",id=\"3\",kind=\"probe\",actor=\"a\\\"b\\\\c?d?\xc3\xa9\"} ";
    H_CHECK(strstr(text, name));
    char line[256];
    const char *const wanted[] = {"sent_total 5", "done_total 5", "failed_total 1", "in_flight 0"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const char *space = strchr(wanted[i], ' ');
        snprintf(line, sizeof line, "%s%s", name, space + 1);
        char begin[64];
        snprintf(begin, sizeof begin, "\ntroupe_requests_%.*s{", (int)(space - wanted[i]),
                 wanted[i]);
        bool found = false;
        for (const char *at = text; (at = strstr(at, begin)); at++) {
            const char *hit = strstr(at + 1, line);
            found = found || (hit && hit < strchr(at + 1, '\n'));
        }
        if (!found)
            h_fail(__FILE__, __LINE__, "no sample %s in\n%s", wanted[i], text);
    }
    h_close(&w);
}

/* The figures behind one series of an actor: "troupe_request_running_seconds_count". */
static double series(const char *text, const char *name, const char *actor, const char *le)
{
    char labels[128];
    const size_t length = strlen(name);
    snprintf(labels, sizeof labels, "actor=\"%s\"%s%s%s}", actor, le ? ",le=\"" : "", le ? le : "",
             le ? "\"" : "");
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        const char *hit = strstr(line, labels);
        if (strncmp(line, name, length) == 0 && line[length] == '{' && hit &&
            hit < strchr(line, '\n'))
            return strtod(hit + strlen(labels), NULL);
    }
    h_fail(__FILE__, __LINE__, "no %s of %s in\n%s", name, labels, text);
    return 0;
}

static uint64_t total(const trp_latency *l)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < TRP_LATENCY_BUCKETS; i++)
        sum += l->bucket[i];
    return sum;
}

/* Requests that spin, each for so long at least, one after the other: what they waited and ran. */
static void latencies(void)
{
    enum { REQUESTS = 5 };
    const int64_t spin = 20 * H_MS;
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe"), *other = NULL;
    trp_completion done[REQUESTS] = {{0}};
    trp_device_stats *stats = malloc(2 * sizeof *stats), *after = stats + 1;
    static char text[1 << 18];
    H_CHECK(stats);
    H_OK(
        trp_actor_create(w.device, &(trp_actor_options){.kind = "probe", .name = "other"}, &other));
    for (int i = 0; i < REQUESTS; i++)
        h_spin(probe, spin, &done[i]);
    for (int i = 0; i < REQUESTS; i++)
        H_OK(h_await_any(done[i]));
    H_OK(trp_device_drain(w.device, H_LONG));
    H_OK(trp_device_get_stats(w.device, stats));
    H_CHECK(strcmp(stats->program, program_invocation_short_name) == 0);
    const trp_actor_stats *a = named(stats, "probe");
    const trp_latency *ran = &a->running_time, *waited = &a->waiting_time;
    H_EQUAL(ran->count, REQUESTS);
    H_EQUAL(waited->count, REQUESTS);
    H_EQUAL(total(ran), REQUESTS);
    /* An end that is seen late takes from the next what it gives to the one before. */
    H_CHECK(ran->sum_ns >= (uint64_t)(REQUESTS * spin));
    H_CHECK(trp_latency_quantile(ran, NULL, 1) >= (uint64_t)spin);
    H_EQUAL(named(stats, "other")->running_time.count, 0);
    H_EQUAL(trp_latency_quantile(&named(stats, "other")->running_time, NULL, 0.99), 0);

    /* The same as metrics, in seconds. */
    H_OK(trp_stats_metrics(stats, 1, text, sizeof text, NULL));
    const char *running = "troupe_request_running_seconds";
    char name[64];
    snprintf(name, sizeof name, "%s_count", running);
    H_EQUAL(series(text, name, "probe", NULL), REQUESTS);
    H_EQUAL(series(text, name, "other", NULL), 0);
    snprintf(name, sizeof name, "%s_sum", running);
    const double sum = series(text, name, "probe", NULL);
    H_CHECK(fabs(sum * 1e9 - (double)ran->sum_ns) < 10);
    snprintf(name, sizeof name, "%s_bucket", running);
    H_EQUAL(series(text, name, "probe", "+Inf"), REQUESTS);
    double below = 0;
    const char *const bounds[] = {"1e-06", "2e-06", "5e-06", "0.001", "0.02", "1", "50", "+Inf"};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const double count = series(text, name, "probe", bounds[i]);
        H_CHECK(count >= below);
        below = count;
    }

    /* Of what came since: the earlier ones do not count. */
    for (int i = 0; i < 3; i++)
        h_probe(probe, TRP_PROBE_NOP, NULL);
    H_OK(trp_device_drain(w.device, H_LONG));
    h_spin(probe, spin, &done[0]);
    H_OK(h_await_any(done[0]));
    H_OK(trp_device_drain(w.device, H_LONG));
    H_OK(trp_device_get_stats(w.device, after));
    const trp_latency *then = &named(after, "probe")->running_time;
    H_EQUAL(then->count, REQUESTS + 4);
    H_CHECK(trp_latency_quantile(then, ran, 1) >= (uint64_t)spin);
    H_EQUAL(trp_latency_quantile(ran, ran, 0.5), 0);

    /* Another actor in its place begins anew. */
    trp_actor_destroy(probe);
    probe = h_actor(w.device, "probe");
    H_OK(trp_device_get_stats(w.device, after));
    H_EQUAL(named(after, "probe")->running_time.count, 0);
    H_EQUAL(named(after, "probe")->running_time.sum_ns, 0);
    free(stats);
    h_close(&w);
}

/* Very many requests: not all are timed, and each that is counts for several, so that the number
 * comes close. */
static void latencies_of_many(void)
{
    enum { MANY = 200000 };
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_probe_request nop = {.header = {.wait_ns = TRP_FOREVER}};
    trp_device_stats *stats = malloc(sizeof *stats);
    H_CHECK(stats);
    for (int i = 0; i < MANY; i++)
        H_OK(trp_probe(probe, &nop, NULL));
    H_OK(trp_device_drain(w.device, H_LONG));
    H_OK(trp_device_get_stats(w.device, stats));
    const trp_latency *ran = &named(stats, "probe")->running_time;
    H_CHECK(ran->count > MANY * 9 / 10 && ran->count < MANY * 11 / 10);
    H_EQUAL(named(stats, "probe")->waiting_time.count, ran->count);
    free(stats);
    h_close(&w);
}

/* Bounds rise; quantiles lie in the bucket that has them. */
static void quantiles(void)
{
    trp_latency l = {0}, before = {0};
    H_EQUAL(trp_latency_bound(0), 1000);
    H_EQUAL(trp_latency_bound(1), 1500);
    H_EQUAL(trp_latency_bound(TRP_LATENCY_BUCKETS - 2), UINT64_C(70000000000));
    H_EQUAL(trp_latency_bound(TRP_LATENCY_BUCKETS - 1), UINT64_MAX);
    H_EQUAL(trp_latency_bound(UINT32_MAX), UINT64_MAX);
    for (uint32_t i = 1; i < TRP_LATENCY_BUCKETS; i++)
        H_CHECK(trp_latency_bound(i) > trp_latency_bound(i - 1));
    H_EQUAL(trp_latency_quantile(&l, NULL, 0.5), 0);
    H_EQUAL(trp_latency_quantile(NULL, NULL, 0.5), 0);
    for (uint32_t i = 0; i < TRP_LATENCY_BUCKETS; i++) {
        memset(&l, 0, sizeof l);
        l.bucket[i] = 1000;
        for (int q = 0; q <= 10; q++) {
            const uint64_t at = trp_latency_quantile(&l, NULL, q / 10.0);
            const uint64_t low = i == 0 ? 0 : trp_latency_bound(i - 1);
            H_CHECK(at >= low - (low > 0) && at <= trp_latency_bound(i));
        }
    }
    memset(&l, 0, sizeof l);
    l.bucket[0] = 98;
    l.bucket[20] = 2;
    H_CHECK(trp_latency_quantile(&l, NULL, 0.5) <= 1000);
    H_CHECK(trp_latency_quantile(&l, NULL, 0.99) > trp_latency_bound(19));
    H_CHECK(trp_latency_quantile(&l, NULL, 0.5) <= trp_latency_quantile(&l, NULL, 0.51));
    const double strange[] = {-1, 2, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
        H_CHECK(trp_latency_quantile(&l, NULL, strange[i]) <= trp_latency_bound(20));
    before = l;
    before.bucket[0] = 200; /* of another actor: nothing is below zero */
    H_EQUAL(trp_latency_quantile(&l, &before, 0.5), 0);
    before.bucket[20] = 1;
    H_CHECK(trp_latency_quantile(&l, &before, 0) >= trp_latency_bound(19) - 1);
}

/* Processes that have devices: this one, while it has one; not a child that has only inherited it,
 * but one that has its own. */
static bool is_listed(int64_t pid)
{
    int64_t pids[4096];
    size_t n = 0;
    H_OK(trp_observer_find(pids, 4096, &n));
    for (size_t i = 1; i < n && i < 4096; i++)
        H_CHECK(pids[i] > pids[i - 1]);
    for (size_t i = 0; i < n && i < 4096; i++) {
        if (pids[i] == pid)
            return true;
    }
    return false;
}

static void finding(void)
{
    size_t n = 7;
    H_IS(trp_observer_find(NULL, 1, &n), TRP_E_ARGUMENT);
    H_IS(trp_observer_find(NULL, 0, NULL), TRP_E_ARGUMENT);
    H_OK(trp_observer_find(NULL, 0, &n));
    H_CHECK(!is_listed(getpid()));
    h_world w = h_open(NULL);
    h_world second = h_open(NULL); /* listed once */
    H_CHECK(is_listed(getpid()));
    H_CHECK(!is_listed(h_info(w.device).worker_pid));
    pid_t child = fork();
    H_CHECK(child >= 0);
    if (child == 0) {
        pause();
        _exit(0);
    }
    /* Of two that have a device the one with the lower number is taken for its owner. */
    H_CHECK(child < getpid() || is_listed(getpid()));
    H_CHECK(child < getpid() || !is_listed(child));
    kill(child, SIGKILL);
    H_EQUAL(waitpid(child, NULL, 0), child);
    h_close(&second);
    H_CHECK(is_listed(getpid()));
    h_close(&w);
    H_CHECK(!is_listed(getpid()));
}

static void no_devices(void)
{
    trp_system *system = h_system_create(NULL);
    char text[4] = "xxx";
    size_t needed = 0;
    H_OK(trp_system_metrics(system, text, sizeof text, &needed));
    H_EQUAL(needed, 1);
    H_EQUAL(text[0], 0);
    H_OK(trp_system_destroy(system));
}

/* Readings beside senders: never more done than sent, never back. */
typedef struct stress {
    trp_actor *probe;
    _Atomic bool stop;
} stress;

static void *send_all_the_time(void *argument)
{
    stress *s = argument;
    trp_probe_request nop = {.header = {.wait_ns = TRP_FOREVER}};
    while (!s->stop)
        H_OK(trp_probe(s->probe, &nop, NULL));
    return NULL;
}

static void beside_senders(void)
{
    h_world w = h_open(NULL);
    stress s = {.probe = h_actor(w.device, "probe")};
    h_thread *sender[2] = {h_start(send_all_the_time, &s), h_start(send_all_the_time, &s)};
    uint64_t done = 0, sent = 0;
    int64_t end = h_now() + 300 * H_MS;
    while (h_now() < end || done < 100) {
        trp_device_stats stats = get(w.device);
        const trp_actor_stats *a = named(&stats, "probe");
        H_CHECK(a && a->done >= done && a->sent >= sent && a->done <= a->sent);
        done = a->done;
        sent = a->sent;
    }
    s.stop = true;
    h_join(sender[0]);
    h_join(sender[1]);
    H_OK(trp_device_drain(w.device, H_LONG));
    trp_actor_stats a = await_counts(w.device, "probe", 0, 0);
    H_EQUAL(a.done, a.sent);
    H_EQUAL(a.sent, get(w.device).info.requests_submitted);
    h_close(&w);
}

H_CASES(H_CASE(at_rest), H_CASE(counts), H_CASE(in_flight), H_CASE(another_actor), H_CASE(memory),
        H_CASE(observer), H_CASE(metrics), H_CASE(latencies), H_CASE(latencies_of_many),
        H_CASE(quantiles), H_CASE(finding), H_CASE(no_devices), H_CASE(beside_senders),
        H_CASE(bad_arguments))

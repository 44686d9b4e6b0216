/* Traces: what is in the file, that the ring is bounded, that tracing can be switched at any time,
 * and the environment's switch. */
#include "support/harness.h"
#include "cli/data/json.h"

#include <sys/stat.h>
#include <unistd.h>

/* A file of this case that is not there yet. */
static const char *path_of(const char *name)
{
    static char path[256];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/troupe-trace-%d-%s", folder ? folder : "/tmp", (int)getpid(),
             name);
    unlink(path);
    return path;
}

/* Writes the trace of a device and reads it. */
static cJSON *trace_of(trp_device *device)
{
    const char *path = path_of("test.json");
    H_OK(trp_device_trace_write(device, path));
    cJSON *trace = json_read_file(path);
    H_CHECK(trace);
    unlink(path);
    return trace;
}

static const cJSON *events_of(const cJSON *trace)
{
    const cJSON *events = cJSON_GetObjectItem(trace, "traceEvents");
    H_CHECK(cJSON_IsArray(events));
    return events;
}

static bool is(const cJSON *event, const char *phase, const char *category)
{
    return strcmp(json_string(event, "ph"), phase) == 0 &&
           strcmp(json_string(event, "cat"), category) == 0;
}

static size_t count_events(const cJSON *trace, const char *phase, const char *category)
{
    size_t count = 0;
    for (const cJSON *e = events_of(trace)->child; e; e = e->next)
        count += is(e, phase, category);
    return count;
}

/* The event of a request, NULL if there is none. */
static const cJSON *find(const cJSON *trace, const char *phase, const char *category, double ticket)
{
    for (const cJSON *e = events_of(trace)->child; e; e = e->next) {
        if (is(e, phase, category) &&
            json_number(cJSON_GetObjectItem(e, "args"), "ticket") == ticket)
            return e;
    }
    return NULL;
}

static double now_us(void)
{
    return (double)h_now() / 1000;
}

/* Slices of a stream that are neither apart nor inside each other can't be drawn. */
static void check_nesting(const cJSON *trace)
{
    for (const cJSON *a = events_of(trace)->child; a; a = a->next) {
        double a0 = json_number(a, "ts"), a1 = a0 + json_number(a, "dur");
        for (const cJSON *b = a->next; b && is(a, "X", "running"); b = b->next) {
            double b0 = json_number(b, "ts"), b1 = b0 + json_number(b, "dur");
            const double hair = 0.01; /* of a microsecond: they are sums of rounded numbers */
            if (!is(b, "X", "running") || json_number(a, "pid") != json_number(b, "pid") ||
                json_number(a, "tid") != json_number(b, "tid"))
                continue;
            bool apart = a1 <= b0 + hair || b1 <= a0 + hair;
            bool nested =
                (a0 <= b0 + hair && b1 <= a1 + hair) || (b0 <= a0 + hair && a1 <= b1 + hair);
            if (!apart && !nested)
                h_fail(__FILE__, __LINE__, "%f to %f and %f to %f overlap", a0, a1, b0, b1);
        }
    }
}

/* Each request once: queued from when it was sent to when it was issued, then running to its end,
 * with all that is known of it. */
static void life_of_requests(void)
{
    enum { SENT = 50 };
    h_world w = h_open(NULL);
    trp_actor *probe = NULL;
    H_OK(trp_actor_create(w.device, &(trp_actor_options){.kind = "probe", .name = "a \"name\""},
                          &probe));
    H_OK(trp_device_trace_start(w.device, NULL));
    uint64_t before = h_info(w.device).requests_submitted;
    double start = now_us();
    for (int i = 0; i < SENT; i++)
        h_probe(probe, i == 7 ? TRP_PROBE_LIBRARY_ERROR : TRP_PROBE_NOP, NULL);
    H_OK(trp_device_drain(w.device, H_LONG));
    double end = now_us();
    cJSON *trace = trace_of(w.device);
    H_EQUAL(json_number(cJSON_GetObjectItem(trace, "otherData"), "dropped"), 0);
    H_EQUAL(json_number(cJSON_GetObjectItem(trace, "otherData"), "requests"), SENT);
    H_EQUAL(count_events(trace, "b", "queued"), SENT);
    H_EQUAL(count_events(trace, "e", "queued"), SENT);
    H_EQUAL(count_events(trace, "X", "running"), SENT);
    double last_sent = 0;
    for (int i = 0; i < SENT; i++) {
        double ticket = (double)before + i + 1;
        const cJSON *queued = find(trace, "b", "queued", ticket);
        const cJSON *running = find(trace, "X", "running", ticket);
        H_CHECK(queued && running);
        const cJSON *args = cJSON_GetObjectItem(running, "args");
        double sent = json_number(queued, "ts"), issued = json_number(running, "ts");
        H_CHECK(strcmp(json_string(queued, "name"), "probe") == 0);
        H_CHECK(strcmp(json_string(running, "name"), "probe") == 0);
        H_CHECK(strcmp(json_string(args, "actor"), "a \"name\"") == 0);
        H_CHECK(strcmp(json_string(args, "status"), i == 7 ? "TRP_E_LIBRARY" : "TRP_OK") == 0);
        H_EQUAL(json_number(args, "incarnation"), 1);
        H_EQUAL(json_number(args, "attempt"), 1);
        H_EQUAL(json_number(args, "stream"), 3);
        H_EQUAL(json_number(running, "pid"), 1);
        H_CHECK(start <= sent && last_sent <= sent && sent <= issued);
        H_CHECK(json_number(running, "dur") >= 0);
        H_CHECK(issued + json_number(running, "dur") <= end);
        last_sent = sent;
    }
    check_nesting(trace);
    cJSON_Delete(trace);
    h_close(&w);
}

/* Whether each of some requests, the first of them number `first`, ran by itself for most of `us`.
 */
static bool one_by_one(const cJSON *trace, double first, int count, double us)
{
    double end = 0;
    for (int i = 0; i < count; i++) {
        const cJSON *running = find(trace, "X", "running", first + i);
        H_CHECK(running);
        double ts = json_number(running, "ts"), took = json_number(running, "dur");
        if (ts + 0.01 < end || took < us / 2)
            return false;
        end = ts + took;
    }
    return true;
}

/* The ends of slow requests are seen one by one, though they were issued at once. A scheduler that
 * does not get its core sees several together; not every time. */
static void slow_requests(void)
{
    enum { SENT = 5, TRIES = 50 };
    const int64_t spin = 5 * H_MS;
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    bool seen = false;
    for (int try = 0; !seen && try < TRIES; try++) {
        H_OK(trp_device_trace_start(w.device, NULL));
        double first = (double)h_info(w.device).requests_submitted + 1;
        for (int i = 0; i < SENT; i++)
            h_spin(probe, spin, NULL);
        H_OK(trp_device_drain(w.device, H_LONG));
        cJSON *trace = trace_of(w.device);
        check_nesting(trace);
        seen = one_by_one(trace, first, SENT, (double)spin / 1000);
        cJSON_Delete(trace);
    }
    H_CHECK(seen);
    h_close(&w);
}

/* Memory's own actors are traced too, and each actor is a thread with a name. */
static void several_actors(void)
{
    h_world w = h_open(NULL);
    trp_buffer a = h_buffer(w.device, 3 * H_MIB), b = h_buffer(w.device, 3 * H_MIB);
    void *data = h_random_block(h_rng(), 3 * H_MIB);
    void *back = h_malloc(3 * H_MIB);
    H_OK(trp_device_trace_start(w.device, NULL));
    h_write(w.device, a, 0, data, 3 * H_MIB);
    H_OK(trp_copy(w.device, a, 0, b, 0, 3 * H_MIB, NULL));
    h_read(w.device, b, 0, back, 3 * H_MIB);
    H_SAME(back, data, 3 * H_MIB);
    cJSON *trace = trace_of(w.device);
    static const char *const threads[] = {"upload", "download", "local"};
    static const char *const ops[] = {"stream", "stream", "copy"};
    for (size_t i = 0; i < 3; i++) {
        double tid = -1;
        const cJSON *running = NULL;
        for (const cJSON *e = events_of(trace)->child; e; e = e->next) {
            if (strcmp(json_string(e, "name"), "thread_name") == 0 &&
                strcmp(json_string(cJSON_GetObjectItem(e, "args"), "name"), threads[i]) == 0)
                tid = json_number(e, "tid");
            if (is(e, "X", "running") &&
                strcmp(json_string(cJSON_GetObjectItem(e, "args"), "actor"), threads[i]) == 0)
                running = e;
        }
        H_CHECK(tid > 0 && running && json_number(running, "tid") == tid);
        H_CHECK(strcmp(json_string(running, "name"), ops[i]) == 0);
    }
    cJSON_Delete(trace);
    free(data);
    free(back);
    h_close(&w);
}

/* The ring keeps the newest, and the file says how many are missing. */
static void bounded(void)
{
    enum { SENT = 1000, KEPT = 64 };
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_probe_request nop = {.header = {.wait_ns = TRP_FOREVER}};
    H_OK(trp_device_trace_start(w.device, &(trp_trace_options){.events = KEPT - 10}));
    for (int i = 0; i < SENT; i++)
        H_OK(trp_probe(probe, &nop, NULL));
    H_OK(trp_device_drain(w.device, H_LONG));
    cJSON *trace = trace_of(w.device);
    H_EQUAL(count_events(trace, "X", "running"), KEPT);
    H_EQUAL(json_number(cJSON_GetObjectItem(trace, "otherData"), "dropped"), SENT - KEPT);
    cJSON_Delete(trace);
    h_close(&w);
}

/* On and off and on. Only what was sent while it was on is there; each start forgets. */
static void switching(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_completion c = {0};
    H_OK(trp_device_trace_stop(w.device)); /* there is none: nothing */
    h_probe(probe, TRP_PROBE_NOP, &c);
    H_OK(h_await_any(c));
    H_OK(trp_device_trace_start(w.device, NULL));
    for (int i = 0; i < 3; i++) {
        h_probe(probe, TRP_PROBE_NOP, &c);
        H_OK(h_await_any(c));
    }
    H_OK(trp_device_trace_stop(w.device));
    h_probe(probe, TRP_PROBE_NOP, &c);
    H_OK(h_await_any(c));
    for (int i = 0; i < 2; i++) { /* writing changes nothing */
        cJSON *trace = trace_of(w.device);
        H_EQUAL(count_events(trace, "X", "running"), 3);
        H_EQUAL(json_number(cJSON_GetObjectItem(trace, "otherData"), "dropped"), 0);
        cJSON_Delete(trace);
    }
    H_OK(trp_device_trace_start(w.device, &(trp_trace_options){.events = 16}));
    cJSON *trace = trace_of(w.device);
    H_EQUAL(count_events(trace, "X", "running"), 0);
    cJSON_Delete(trace);
    h_probe(probe, TRP_PROBE_NOP, &c); /* writing has not ended it */
    H_OK(h_await_any(c));
    trace = trace_of(w.device);
    H_EQUAL(count_events(trace, "X", "running"), 1);
    cJSON_Delete(trace);
    h_close(&w);
}

static void errors(void)
{
    h_world w = h_open(NULL);
    H_IS(trp_device_trace_write(w.device, path_of("none.json")), TRP_E_ARGUMENT);
    H_SAYS("no trace");
    H_IS(trp_device_trace_start(w.device, &(trp_trace_options){.events = 1U << 23}),
         TRP_E_ARGUMENT);
    H_SAYS("events");
    H_OK(trp_device_trace_start(w.device, &(trp_trace_options){.events = 1}));
    H_IS(trp_device_trace_write(w.device, NULL), TRP_E_ARGUMENT);
    H_IS(trp_device_trace_write(w.device, "/nonexistent/folder/trace.json"), TRP_E_SYSTEM);
    H_SAYS("/nonexistent/folder/trace.json");
    if (access("/dev/full", W_OK) == 0)
        H_IS(trp_device_trace_write(w.device, "/dev/full"), TRP_E_SYSTEM);
    H_IS(trp_device_trace_start(NULL, NULL), TRP_E_ARGUMENT);
    H_IS(trp_device_trace_stop(NULL), TRP_E_ARGUMENT);
    H_IS(trp_device_trace_write(NULL, "x"), TRP_E_ARGUMENT);
    h_close(&w);
}

/* TROUPE_TRACE: a file for each device, written when it closes, without a call. */
static void by_environment(void)
{
    char path[2][260];
    snprintf(path[0], sizeof path[0], "%s", path_of("env.json"));
    snprintf(path[1], sizeof path[1], "%.250s.2", path[0]);
    setenv("TROUPE_TRACE", path[0], 1);
    for (int i = 0; i < 2; i++) {
        h_world w = h_open(NULL);
        trp_actor *probe = h_actor(w.device, "probe");
        for (int k = 0; k <= i; k++)
            h_probe(probe, TRP_PROBE_NOP, NULL);
        H_OK(trp_device_drain(w.device, H_LONG));
        H_CHECK(access(path[i], F_OK) != 0);
        h_close(&w);
        cJSON *trace = json_read_file(path[i]);
        H_CHECK(trace);
        H_EQUAL(count_events(trace, "X", "running"), i + 1);
        cJSON_Delete(trace);
        unlink(path[i]);
    }
    /* A file that can't be written is a line in the log, no more. */
    setenv("TROUPE_TRACE", "/nonexistent/trace.json", 1);
    h_world w = h_open(NULL);
    h_close(&w);
    H_CHECK(h_log_said("TROUPE_TRACE"));
    unsetenv("TROUPE_TRACE");
}

/* Switching and writing beside senders: nothing is torn, and every file is whole. */
typedef struct load {
    trp_actor *probe;
    _Atomic bool stop;
    _Atomic uint64_t sent;
} load;

static void *send_and_await(void *argument)
{
    load *l = argument;
    while (!l->stop) {
        trp_completion c = {0};
        h_probe(l->probe, TRP_PROBE_NOP, &c);
        H_OK(h_await_any(c));
        l->sent++;
    }
    return NULL;
}

static void beside_senders(void)
{
    enum { SENDERS = 3 };
    h_world w = h_open(NULL);
    load l = {.probe = h_actor(w.device, "probe")};
    h_thread *sender[SENDERS];
    for (int i = 0; i < SENDERS; i++)
        sender[i] = h_start(send_and_await, &l);
    for (int i = 0; i < 10; i++) {
        H_OK(trp_device_trace_start(w.device, &(trp_trace_options){.events = 32U << i % 3}));
        uint64_t sent = l.sent;
        while (l.sent < sent + 200) /* the worker may see late that it shall note times */
            h_sleep(H_MS / 10);
        if (i % 2)
            H_OK(trp_device_trace_stop(w.device));
        cJSON *trace = trace_of(w.device);
        H_CHECK(count_events(trace, "X", "running") >= 32);
        for (const cJSON *e = events_of(trace)->child; e; e = e->next) {
            if (!is(e, "X", "running"))
                continue;
            H_CHECK(strcmp(json_string(e, "name"), "probe") == 0);
            H_CHECK(strcmp(json_string(cJSON_GetObjectItem(e, "args"), "actor"), "probe") == 0);
            H_CHECK(json_number(e, "dur") >= 0);
        }
        check_nesting(trace);
        cJSON_Delete(trace);
    }
    l.stop = true;
    for (int i = 0; i < SENDERS; i++)
        h_join(sender[i]);
    h_close(&w);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"by_environment", by_environment}, /* first: it counts devices of the program */
        {"life_of_requests", life_of_requests},
        {"slow_requests", slow_requests},
        {"several_actors", several_actors},
        {"bounded", bounded},
        {"switching", switching},
        {"errors", errors},
        {"beside_senders", beside_senders},
    };
    unsetenv("TROUPE_TRACE");
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

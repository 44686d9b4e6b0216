/* What could not run names the request at the beginning of the chain, however long the chain is,
 * however long ago it was, and though nobody was told. */
#include "support/gate.h"
#include "support/label.h"

#include <troupe/observe.h>

#include <unistd.h>

TROUPE_TEST_FAKE_GPU("no tsan");

enum { BYTES = 256, MANY = 3000 };

typedef struct stage {
    h_world w;
    trp_actor *one, *two;
} stage;

static stage set_up(void)
{
    trp_device_options options = h_options();
    options.mailbox_size = 4096;
    stage s = {.w = h_open(&options)};
    s.one = h_actor(s.w.device, "probe");
    H_OK(trp_actor_create(s.w.device, &(trp_actor_options){.kind = "probe", .name = "second"},
                          &s.two));
    return s;
}

/* Fails in its library, or not, and should write `to`. */
static trp_status send(trp_actor *actor, bool fails, const char *label, trp_buffer from,
                       trp_buffer to, trp_completion *completion)
{
    return trp_probe(actor,
                     &(trp_probe_request){.header = {.wait_ns = H_LONG, .label = label},
                                          .action = fails ? TRP_PROBE_LIBRARY_ERROR : TRP_PROBE_NOP,
                                          .inputs = {from},
                                          .outputs = {to}},
                     completion);
}

static uint64_t last_number(const stage *s)
{
    return h_info(s->w.device).requests_submitted;
}

static void check_cause(const trp_error *e, trp_status status, uint64_t root, trp_status how)
{
    char text[64];
    snprintf(text, sizeof text, "request %" PRIu64 " (probe", root);
    H_EQUAL(e->status, status);
    H_EQUAL(e->cause_request, root);
    H_EQUAL(e->cause_status, how);
    H_EQUAL(e->cause_fault, TRP_FAULT_NONE);
    h_check_says(__FILE__, __LINE__, e->message, text);
}

/* Refused at once, and when their turn comes. */
static void one_link(void)
{
    stage s = set_up();
    trp_buffer none = {0}, a = h_filled(s.w.device, BYTES, 1), b = h_filled(s.w.device, BYTES, 2);
    trp_completion c = {0};
    trp_error e;
    H_OK(send(s.one, true, NULL, none, a, NULL));
    uint64_t root = last_number(&s);
    H_OK(trp_device_drain(s.w.device, H_LONG));
    H_IS(send(s.two, false, "reader", a, b, &c), TRP_E_DEPENDENCY);
    e = *trp_error_last();
    check_cause(&e, TRP_E_DEPENDENCY, root, TRP_E_LIBRARY);
    H_SAYS("inputs[0]");
    H_SAYS("failed: ");
    H_EQUAL(e.request, 0);
    H_CHECK(!strcmp(e.operation, "probe") && !strcmp(e.label, "reader") &&
            !strcmp(e.actor, "second"));
    /* Of a copy, which has no label. */
    H_IS(trp_copy(s.w.device, a, 0, b, 0, BYTES, NULL), TRP_E_DEPENDENCY);
    check_cause(trp_error_last(), TRP_E_DEPENDENCY, root, TRP_E_LIBRARY);

    h_gate gate = h_gate_create(s.w.device, BYTES);
    trp_status sent = TRP_E_DEPENDENCY;
    for (int64_t ns = 50 * H_MS; sent != TRP_OK;
         ns *= 2) { /* refused at once if that is too short */
        h_fill(s.w.device, b, 1);
        h_gate_close(&gate, ns);
        H_OK(send(s.one, true, "the root", gate.buffer, b, NULL));
        root = last_number(&s);
        sent = send(s.two, false, "the reader", b, none, &c);
        h_gate_open(&gate);
    }
    H_IS(h_await(c.future, &e), TRP_E_DEPENDENCY);
    check_cause(&e, TRP_E_DEPENDENCY, root, TRP_E_LIBRARY);
    char text[128];
    snprintf(text, sizeof text,
             "request %" PRIu64 " (probe of \"second\", \"the reader\") did not run: request "
             "%" PRIu64 " (probe, \"the root\") failed: ",
             e.request, root);
    H_CHECK(strncmp(e.message, text, strlen(text)) == 0);
    H_EQUAL(e.request, root + 1);
    H_CHECK(!strcmp(e.operation, "probe") && !strcmp(e.label, "the reader"));
    h_close(&s.w);
}

/* Nobody ends any of them before the last is awaited. Two actors, so that no mailbox has all. What
 * comes too late to be queued is refused, for the same reason. */
static void long_chain(void)
{
    stage s = set_up();
    trp_buffer none = {0}, b[2] = {h_filled(s.w.device, BYTES, 1), h_filled(s.w.device, BYTES, 2)};
    trp_completion c = {0}, last = {0};
    trp_error e;
    h_gate gate = h_gate_create(s.w.device, BYTES);
    h_gate_close(&gate, 300 * H_MS);
    H_OK(send(s.one, true, "the root", gate.buffer, b[0], NULL));
    uint64_t root = last_number(&s);
    int sent = 0;
    for (int i = 0; i < MANY; i++) {
        bool wanted = i % 100 == 99;
        trp_status status = send(i % 2 ? s.one : s.two, false, "a link", b[i % 2], b[(i + 1) % 2],
                                 wanted ? &c : NULL);
        if (status != TRP_OK) {
            check_cause(trp_error_last(), TRP_E_DEPENDENCY, root, TRP_E_LIBRARY);
            break;
        }
        sent++;
        if (wanted) {
            trp_future_drop(last.future);
            last = c;
        }
    }
    h_gate_open(&gate);
    if (last.future.id) {
        H_IS(h_await(last.future, &e), TRP_E_DEPENDENCY);
        check_cause(&e, TRP_E_DEPENDENCY, root, TRP_E_LIBRARY);
        h_check_says(__FILE__, __LINE__, e.message, "the root");
    }
    printf("  %d links\n", sent);
    /* And what is sent now; of the last one's output it was told. */
    H_OK(trp_device_drain(s.w.device, H_LONG));
    if (sent == MANY) {
        H_IS(send(s.one, false, NULL, b[1], none, NULL), TRP_E_DEPENDENCY);
        check_cause(trp_error_last(), TRP_E_DEPENDENCY, root, TRP_E_LIBRARY);
        H_SAYS("the root");
    }
    h_close(&s.w);
}

/* A trainer that awaits nothing but its last step. */
static void trainer(void)
{
    enum { STEPS = 200, BAD = 39 };
    stage s = set_up();
    trp_buffer weights = h_filled(s.w.device, BYTES, 1), x = h_filled(s.w.device, BYTES, 2);
    trp_completion last = {0};
    trp_error e = {0};
    uint64_t root = 0;
    trp_status status = TRP_OK;
    for (int step = 0; step < STEPS && status == TRP_OK; step++) {
        status =
            send(s.one, step == BAD, step == BAD ? "block 3, gradients" : "step", weights, x, NULL);
        if (step == BAD)
            root = last_number(&s);
        if (status == TRP_OK)
            status = send(s.two, false, "update", x, weights, step + 1 == STEPS ? &last : NULL);
    }
    if (status == TRP_OK)
        status = h_await(last.future, &e);
    else
        e = *trp_error_last();
    H_IS(status, TRP_E_DEPENDENCY);
    check_cause(&e, TRP_E_DEPENDENCY, root, TRP_E_LIBRARY);
    h_check_says(__FILE__, __LINE__, e.message, "block 3, gradients");
    h_close(&s.w);
}

/* The root of a buffer that stays poisoned outlives any number of others. */
static void survives_others(void)
{
    enum { OTHERS = 40000 };
    stage s = set_up();
    trp_buffer none = {0}, a = h_filled(s.w.device, BYTES, 1), b = h_filled(s.w.device, BYTES, 2);
    H_OK(send(s.one, true, "long ago", none, a, NULL));
    uint64_t root = last_number(&s);
    for (int i = 0; i < OTHERS; i++)
        H_OK(send(i % 2 ? s.one : s.two, true, "other", none, b, NULL));
    H_OK(trp_device_drain(s.w.device, H_LONG));
    H_IS(send(s.two, false, NULL, a, none, NULL), TRP_E_DEPENDENCY);
    check_cause(trp_error_last(), TRP_E_DEPENDENCY, root, TRP_E_LIBRARY);
    H_SAYS("\"long ago\") failed: ");
    H_IS(send(s.two, false, NULL, b, none, NULL), TRP_E_DEPENDENCY);
    check_cause(trp_error_last(), TRP_E_DEPENDENCY, last_number(&s), TRP_E_LIBRARY);
    H_SAYS("\"other\"");
    /* Written anew, it is good; what fails then is another root. */
    h_fill(s.w.device, a, 3);
    H_OK(send(s.one, true, "anew", none, a, NULL));
    root = last_number(&s);
    H_OK(trp_device_drain(s.w.device, H_LONG));
    H_IS(send(s.two, false, NULL, a, none, NULL), TRP_E_DEPENDENCY);
    check_cause(trp_error_last(), TRP_E_DEPENDENCY, root, TRP_E_LIBRARY);
    H_SAYS("\"anew\"");
    h_close(&s.w);
}

/* More roots at a time than there are records: numbers and statuses stay, of all. */
static void more_than_records(void)
{
    stage s = set_up();
    static trp_buffer b[MANY];
    trp_buffer none = {0};
    for (int i = 0; i < MANY; i++)
        b[i] = h_buffer(s.w.device, BYTES);
    uint64_t before = last_number(&s);
    for (int i = 0; i < MANY; i++)
        H_OK(send(s.one, true, "one of many", none, b[i], NULL));
    H_OK(trp_device_drain(s.w.device, H_LONG));
    int told = 0;
    for (int i = 0; i < MANY; i++) {
        H_IS(send(s.two, false, NULL, b[i], none, NULL), TRP_E_DEPENDENCY);
        check_cause(trp_error_last(), TRP_E_DEPENDENCY, before + 1 + (uint64_t)i, TRP_E_LIBRARY);
        told += strstr(trp_error_message(), "one of many") != NULL;
    }
    H_CHECK(told >= 512 && told <= 1024);
    h_close(&s.w);
}

static void cancelled_root(void)
{
    stage s = set_up();
    trp_buffer none = {0}, a = h_filled(s.w.device, BYTES, 1);
    trp_completion c = {0}, reader = {0};
    trp_error e;
    h_gate gate = h_gate_create(s.w.device, BYTES);
    trp_status status = TRP_OK;
    uint64_t root = 0;
    for (int64_t ns = 50 * H_MS; status != TRP_E_CANCELLED; ns *= 2) {
        h_gate_close(&gate, ns);
        H_OK(send(s.one, false, "given up", gate.buffer, a, &c));
        root = last_number(&s);
        H_OK(send(s.two, false, NULL, a, none, &reader));
        H_OK(trp_cancel(c.future));
        h_gate_open(&gate);
        status = h_await(c.future, &e);
        if (status == TRP_OK)
            H_OK(h_await_any(reader));
    }
    H_EQUAL(e.cause_request, 0);
    H_CHECK(!strcmp(e.label, "given up"));
    H_IS(h_await(reader.future, &e), TRP_E_DEPENDENCY);
    check_cause(&e, TRP_E_DEPENDENCY, root, TRP_E_CANCELLED);
    h_check_says(__FILE__, __LINE__, e.message, "given up");
    h_close(&s.w);
}

static void reported_by_queue(void)
{
    stage s = set_up();
    trp_buffer none = {0}, a = h_filled(s.w.device, BYTES, 1);
    trp_queue *queue;
    trp_event event;
    trp_status sent = TRP_E_DEPENDENCY;
    uint64_t root = 0;
    H_OK(trp_queue_create(s.w.system, &queue));
    trp_completion c = {.queue = queue};
    h_gate gate = h_gate_create(s.w.device, BYTES);
    for (int64_t ns = 50 * H_MS; sent != TRP_OK; ns *= 2) {
        h_fill(s.w.device, a, 1);
        h_gate_close(&gate, ns);
        H_OK(send(s.one, true, "root", gate.buffer, a, NULL));
        root = last_number(&s);
        sent = send(s.two, false, "reader", a, none, &c);
        h_gate_open(&gate);
    }
    H_OK(trp_queue_next(queue, H_LONG, &event));
    check_cause(&event.error, TRP_E_DEPENDENCY, root, TRP_E_LIBRARY);
    H_CHECK(!strcmp(event.error.label, "reader"));
    H_OK(trp_queue_destroy(queue));
    h_close(&s.w);
}

/* ---- labels ---- */

static void labels(void)
{
    static const char odd[] = "two\nlines \"quoted\" \x01 and a long rest that no error record has "
                              "room for, though it goes on";
    stage s = set_up();
    trp_buffer none = {0};
    trp_completion c = {0};
    trp_error e;
    H_OK(send(s.one, true, odd, none, none, &c));
    H_IS(h_await(c.future, &e), TRP_E_LIBRARY);
    H_EQUAL(strlen(e.label), TRP_LABEL_MAX);
    H_CHECK(!strchr(e.label, '\n') && !strncmp(e.label, "two?lines \"quoted\" ? and", 23));
    H_OK(send(s.one, true, "", none, none, &c));
    H_IS(h_await(c.future, &e), TRP_E_LIBRARY);
    H_EQUAL(e.label[0], 0);
    H_EQUAL(e.cause_request, 0);
    /* A slot that is used again has no label of before. */
    H_OK(send(s.one, true, NULL, none, none, &c));
    H_IS(h_await(c.future, &e), TRP_E_LIBRARY);
    H_EQUAL(e.label[0], 0);
    /* What is refused at once. */
    H_IS(send(s.one, false, "refused", (trp_buffer){77}, none, NULL), TRP_E_STALE);
    H_CHECK(!strcmp(trp_error_last()->label, "refused"));
    H_CHECK(!strcmp(trp_error_last()->operation, "probe"));
    h_close(&s.w);
}

static void labels_seen(void)
{
    static trp_device_stats stats;
    char path[] = "/tmp/troupe-cause-XXXXXX";
    int fd = mkstemp(path);
    H_CHECK(fd >= 0);
    close(fd);
    stage s = set_up();
    trp_completion c = {0};
    trp_buffer none = {0};
    H_OK(trp_device_trace_start(s.w.device, NULL));
    H_OK(send(s.one, false, "seen \"here\"", none, none, &c));
    H_OK(h_await_any(c));
    bool seen = false;
    for (int64_t ns = 50 * H_MS; !seen; ns *= 2) { /* until it was looked at while it ran */
        H_OK(trp_probe(s.two,
                       &(trp_probe_request){.header.label = "running",
                                            .action = TRP_PROBE_SPIN,
                                            .duration_ns = (uint64_t)ns},
                       &c));
        while (!seen && trp_await(c.future, 0, NULL) == TRP_E_TIMEOUT) {
            H_OK(trp_device_get_stats(s.w.device, &stats));
            for (uint32_t i = 0; i < stats.actor_count; i++)
                seen = seen || !strcmp(stats.actor[i].running_label, "running");
        }
    }
    H_OK(trp_device_trace_write(s.w.device, path));
    FILE *file = fopen(path, "re");
    static char text[1 << 20];
    H_CHECK(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    H_CHECK(strstr(text, "\"label\":\"seen \\\"here\\\"\""));
    H_OK(h_await_any(c));
    h_close(&s.w);
}

H_CASES(H_CASE(one_link), H_CASE(long_chain), H_CASE(trainer), H_CASE(survives_others),
        H_CASE(more_than_records), H_CASE(cancelled_root), H_CASE(reported_by_queue),
        H_CASE(labels), H_CASE(labels_seen))

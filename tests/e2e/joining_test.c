/* Requests that an actor joins: what comes out is what comes out one by one, whatever depends on
 * whatever; and independent ones are joined. */
#include "plugins/joining.h"
#include "support/gate.h"
#include "support/plugin.h"

enum { BUFFERS = 40, BYTES = JOINING_WORDS * 4 };

typedef struct world {
    h_world w;
    trp_actor *actor;
    h_gate gate;
    trp_buffer buffer[BUFFERS];
    uint32_t expected[BUFFERS][JOINING_WORDS];
} world;

static void open_world(world *x)
{
    if (h_is_cuda())
        h_skip("the actor of this test is one for the host");
    x->w = h_open(NULL);
    x->gate = h_gate_create(x->w.device, BYTES);
    H_OK(trp_actor_create(x->w.device, &(trp_actor_options){.library = h_plugin("joining")},
                          &x->actor));
    for (int i = 0; i < BUFFERS; i++) {
        x->buffer[i] = h_buffer(x->w.device, BYTES);
        h_random_bytes(h_rng(), x->expected[i], BYTES);
        h_write(x->w.device, x->buffer[i], 0, x->expected[i], BYTES);
    }
}

static void send(world *x, uint32_t code, size_t out, size_t a, size_t b, trp_completion *c)
{
    uint32_t payload = (uint32_t)ref_rng_next(h_rng());
    trp_custom_request r = h_custom(code, &payload, 1);
    r.header.wait_ns = H_LONG;
    h_add_access(&r, x->buffer[out],
                 code == JOINING_UPDATE ? TRP_ACCESS_READ_WRITE : TRP_ACCESS_COVER);
    h_add_access(&r, x->buffer[a], TRP_ACCESS_READ);
    h_add_access(&r, x->buffer[b], TRP_ACCESS_READ);
    H_OK(trp_custom(x->actor, &r, c));
}

static void expect(world *x, uint32_t code, size_t out, size_t a, size_t b, uint32_t payload)
{
    for (int i = 0; i < JOINING_WORDS; i++)
        x->expected[out][i] = joining_result(code, x->expected[out][i], x->expected[a][i],
                                             x->expected[b][i], payload);
}

/* Sends it and notes what it does. The payload is drawn twice, from the same state. */
static void do_one(world *x, uint32_t code, size_t out, size_t a, size_t b, trp_completion *c)
{
    ref_rng before = *h_rng();
    expect(x, code, out, a, b, (uint32_t)ref_rng_next(h_rng()));
    *h_rng() = before;
    send(x, code, out, a, b, c);
}

static void check_all(world *x)
{
    uint32_t got[JOINING_WORDS];
    for (int i = 0; i < BUFFERS; i++) {
        h_read(x->w.device, x->buffer[i], 0, got, BYTES);
        H_SAME(got, x->expected[i], BYTES);
    }
}

static joining_report report_of(world *x)
{
    joining_report report;
    trp_buffer buffer = h_buffer(x->w.device, sizeof report);
    trp_custom_request r = h_custom(JOINING_REPORT, NULL, 0);
    h_add_access(&r, buffer, TRP_ACCESS_COVER);
    H_OK(h_run(x->actor, &r, NULL));
    h_read(x->w.device, buffer, 0, &report, sizeof report);
    H_OK(trp_buffer_free(x->w.device, buffer));
    return report;
}

/* Few buffers, so that much depends on much; many, so that little does. */
static void random_requests(void)
{
    world x;
    open_world(&x);
    for (int round = 0; round < 60; round++) {
        size_t buffers = round % 2 ? BUFFERS : 3 + ref_rng_below(h_rng(), 8);
        uint32_t only = round % 3 == 0 ? JOINING_COVER : 0;
        for (int i = 0; i < 200; i++) {
            size_t out = ref_rng_below(h_rng(), buffers), a = ref_rng_below(h_rng(), buffers);
            size_t b = ref_rng_below(h_rng(), buffers);
            uint32_t code = only ? only : 1 + (uint32_t)ref_rng_below(h_rng(), JOINING_APART);
            if (a == out || b == out)
                continue;
            do_one(&x, code, out, a, b, NULL);
            if (ref_rng_below(h_rng(), 50) == 0) /* another actor in between */
                H_OK(trp_copy(x.w.device, x.buffer[a], 0, x.gate.buffer, 0, BYTES, NULL));
        }
        check_all(&x);
    }
    joining_report report = report_of(&x);
    printf("  %u single calls, %u joined ones of up to %u requests, %u refused\n", report.calls,
           report.joined, report.most, report.refused);
    H_CHECK(report.joined > 0 && report.refused > 0);
    h_close(&x.w);
}

/* Sends `count` independent requests while the gate holds the first, which reads its buffer; again
 * if the gate has opened by itself meanwhile. Returns what had run before those that it held. */
static joining_report behind_gate(world *x, uint32_t code, int count, trp_completion *c)
{
    for (int64_t ns = 100 * H_MS;; ns *= 2) {
        const joining_report before = report_of(x);
        trp_buffer own = x->buffer[0];
        h_gate_close(&x->gate, ns);
        x->buffer[0] = x->gate.buffer;
        memset(x->expected[0], 0, BYTES);
        for (int i = 0; i < count; i++)
            do_one(x, code, (size_t)(2 + i), i == 0 ? 0 : 1, 1, c ? &c[i] : NULL);
        x->buffer[0] = own;
        if (h_gate_closed(&x->gate))
            return before;
        h_gate_open(&x->gate);
    }
}

static void independent_ones_are_joined(void)
{
    enum { COUNT = 30 };
    world x;
    open_world(&x);
    joining_report before = behind_gate(&x, JOINING_COVER, COUNT, NULL);
    h_gate_open(&x.gate);
    joining_report after = report_of(&x);
    const uint32_t ran = after.calls + after.joined - before.calls - before.joined;
    H_CHECK(ran == 1 || ran == 2);
    H_CHECK(after.most >= COUNT - 1);
    h_write(x.w.device, x.buffer[0], 0, x.expected[0], BYTES);
    check_all(&x);
    /* What the actor can't do together is done one by one, after one try. */
    trp_queue *queue = NULL;
    trp_event event;
    trp_completion c[COUNT];
    H_OK(trp_queue_create(x.w.system, &queue)); /* the supervisor looks all the time meanwhile */
    for (int i = 0; i < COUNT; i++)
        c[i] = (trp_completion){.queue = queue};
    before = behind_gate(&x, JOINING_REFUSED, COUNT, c);
    h_gate_open(&x.gate);
    H_OK(trp_device_drain(x.w.device, H_LONG));
    while (trp_queue_next(queue, 0, &event) == TRP_OK)
        H_OK(event.status);
    H_OK(trp_queue_destroy(queue));
    H_EQUAL(h_info(x.w.device).restarts, 0);
    after = report_of(&x);
    H_CHECK(after.refused - before.refused >= 1 && after.refused - before.refused <= 2);
    H_EQUAL(after.calls - before.calls, COUNT);
    H_EQUAL(after.joined, before.joined);
    h_write(x.w.device, x.buffer[0], 0, x.expected[0], BYTES);
    check_all(&x);
    h_close(&x.w);
}

/* Each has its own end: one of them is cancelled, the others are done. */
static void one_is_cancelled(void)
{
    enum { COUNT = 30 };
    world x;
    open_world(&x);
    for (int victim = 0; victim < COUNT; victim += 7) {
        trp_completion c[COUNT] = {{0}};
        behind_gate(&x, JOINING_COVER, COUNT, c);
        H_OK(trp_cancel(c[victim].future));
        h_gate_open(&x.gate);
        for (int i = 0; i < COUNT; i++) {
            trp_status status = trp_await(c[i].future, H_LONG, NULL);
            H_EQUAL(status, i == victim ? TRP_E_CANCELLED : TRP_OK);
        }
        h_write(x.w.device, x.buffer[2 + victim], 0, x.expected[2 + victim], BYTES);
        h_write(x.w.device, x.buffer[0], 0, x.expected[0], BYTES);
        check_all(&x);
    }
    h_close(&x.w);
}

/* A worker dies with joined requests in its stream: all of them can run again, and do. */
static void after_a_death(void)
{
    enum { COUNT = 30 };
    world x;
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("a fault of a worker that is a thread ends the whole program");
    open_world(&x);
    trp_actor *probe = h_actor(x.w.device, "probe");
    for (int round = 0; round < 4; round++) {
        trp_completion c[COUNT] = {{0}}, death = {0};
        trp_error error;
        for (int i = 0; i < COUNT; i++)
            do_one(&x, JOINING_COVER, (size_t)(2 + i), 0, 1, &c[i]);
        h_probe(probe, TRP_PROBE_KILL, &death);
        H_IS(h_await(death.future, &error), TRP_E_FAULT);
        for (int i = 0; i < COUNT; i++)
            H_OK(h_await_any(c[i]));
        check_all(&x);
    }
    h_close(&x.w);
}

int main(int argc, char **argv)
{
    static const h_case all[] = {H_CASE(random_requests), H_CASE(independent_ones_are_joined),
                                 H_CASE(one_is_cancelled), H_CASE(after_a_death)};
    return h_main(argc, argv, all, sizeof all / sizeof *all);
}

/* Lists of products: the completion comes once, when all have ended, and reports the first failure;
 * also when members are cancelled or die. conformance/blas has their numbers and bad input. */
#include "support/gate.h"
#include "support/harness.h"

#include <math.h>
#include <pthread.h>

TROUPE_TEST_FAKE_GPU("no sanitizer");

static h_world world;
static trp_actor *blas;

static void open_world(void)
{
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
}

static trp_gemm_list_request simple(trp_gemm_item *items, int count, trp_buffer a, trp_buffer c)
{
    trp_gemm_list_request r = {.count = count, .item = items};
    r.common = (trp_gemm_request){.type = TRP_F32, .m = 2, .n = 2, .k = 2};
    for (int i = 0; i < count; i++)
        items[i] = (trp_gemm_item){.a = a, .b = a, .c = c, .c_offset = (uint64_t)i * 16};
    return r;
}

/* The end of a list is told once, in every way; its outputs are there by then. */
static void completions(void)
{
    enum { COUNT = 20 };
    trp_gemm_item items[COUNT];
    float got[COUNT * 4];
    open_world();
    trp_queue *queue;
    H_OK(trp_queue_create(world.system, &queue));
    trp_buffer a = h_filled(world.device, 16, 0x3f800000), c = h_buffer(world.device, sizeof got);
    for (int round = 0; round < 20; round++) {
        const int count = 1 + (int)ref_rng_below(h_rng(), COUNT);
        trp_gemm_list_request r = simple(items, count, a, c);
        trp_completion done = {.queue = round % 4 == 0 ? queue : NULL, .user_data = items};
        trp_event event;
        r.common.alpha = trp_real(round + 1);
        H_OK(trp_gemm_list(blas, &r, round % 4 == 1 ? NULL : &done));
        switch (round % 4) {
        case 0:
            H_OK(trp_queue_next(queue, H_LONG, &event));
            H_CHECK(event.user_data == items);
            H_EQUAL(event.status, TRP_OK);
            break;
        case 1:
            H_OK(trp_device_drain(world.device, H_LONG));
            break;
        case 2:
            H_OK(h_await_any(done));
            H_IS(trp_await(done.future, 0, NULL), TRP_E_STALE);
            break;
        default:
            H_OK(trp_device_drain(world.device, H_LONG));
            H_OK(trp_await(done.future, 0, NULL)); /* all has been told by now */
        }
        h_read(world.device, c, 0, got, sizeof got);
        for (int i = 0; i < 4 * count; i++)
            H_CHECK(got[i] == 2 * (float)(round + 1));
    }
    trp_event none;
    H_IS(trp_queue_next(queue, 0, &none), TRP_E_TIMEOUT);
    H_OK(trp_queue_destroy(queue));
    h_close(&world);
}

/* Products of which some need others of the same list are done in its order. */
static void chains(void)
{
    enum { LINKS = 40, N = 4 };
    float x[N * N] = {0}, got[N * N];
    trp_buffer b[LINKS + 1];
    trp_gemm_item items[LINKS];
    open_world();
    for (int i = 0; i < N; i++)
        x[i * N + i] = 1;
    for (int i = 0; i <= LINKS; i++) {
        b[i] = h_buffer(world.device, sizeof x);
        h_write(world.device, b[i], 0, x, sizeof x);
    }
    for (int i = 0; i < LINKS; i++)
        items[i] = (trp_gemm_item){.a = b[i], .b = b[0], .c = b[i + 1]};
    trp_gemm_list_request r = {.count = LINKS, .item = items};
    r.common = (trp_gemm_request){.type = TRP_F32, .m = N, .n = N, .k = N, .alpha = trp_real(0.5)};
    trp_completion done = {0};
    H_OK(trp_gemm_list(blas, &r, &done));
    H_OK(h_await_any(done));
    for (int i = 0; i <= LINKS; i++) {
        h_read(world.device, b[i], 0, got, sizeof got);
        H_CHECK(got[0] == ldexpf(1, -i) && got[N + 1] == got[0] && got[1] == 0);
    }
    h_close(&world);
}

/* The first failure is told, with its place; what follows it was done, and can be read. */
static void failures(void)
{
    enum { COUNT = 6 };
    trp_gemm_item items[COUNT];
    float got[4];
    open_world();
    h_gate gate = h_gate_create(world.device, 16);
    trp_actor *probe = h_actor(world.device, "probe");
    for (int64_t ns = 50 * H_MS;; ns *= 2) {
        trp_buffer a = h_filled(world.device, 16, 0x3f800000), bad = h_buffer(world.device, 16);
        trp_buffer c[COUNT];
        trp_completion done = {0};
        trp_error error;
        h_gate_close(&gate, ns);
        /* Behind the gate something fails that should have written `bad`. */
        trp_probe_request wrong = {.action = TRP_PROBE_LIBRARY_ERROR};
        wrong.inputs[0] = gate.buffer;
        wrong.outputs[0] = bad;
        H_OK(trp_probe(probe, &wrong, NULL));
        trp_gemm_list_request r = simple(items, COUNT, a, a);
        for (int i = 0; i < COUNT; i++) {
            c[i] = h_buffer(world.device, 16);
            items[i].c = c[i];
            items[i].c_offset = 0;
        }
        items[2].a = items[4].b = bad;
        H_OK(trp_gemm_list(blas, &r, &done));
        bool closed = h_gate_closed(&gate);
        h_gate_open(&gate);
        trp_status status = h_await(done.future, &error);
        for (int i = 0; i < COUNT; i++) {
            h_read(world.device, c[i], 0, got, sizeof got); /* also of those that failed */
            H_CHECK(i == 2 || i == 4 || got[0] == 2);
        }
        if (!closed)
            continue;
        H_EQUAL(status, TRP_E_DEPENDENCY);
        h_check_says(__FILE__, __LINE__, error.message, "request 2 of the list: ");
        break;
    }
    h_close(&world);
}

/* Cancelling ends all that the device was not given, at once, and leaves their outputs alone. */
static void cancelled(void)
{
    enum { COUNT = 20 };
    trp_gemm_item items[COUNT];
    uint32_t got[COUNT * 4];
    open_world();
    h_gate gate = h_gate_create(world.device, 16);
    for (int round = 0; round < 4; round++) {
        for (int64_t ns = 50 * H_MS;; ns *= 2) {
            trp_buffer a = h_filled(world.device, 16, 0x3f800000);
            trp_buffer c = h_filled(world.device, sizeof got, 0x11111111);
            trp_completion done = {0};
            trp_error error;
            h_gate_close(&gate, ns);
            trp_gemm_list_request r = simple(items, COUNT, a, c);
            items[0].a = gate.buffer;
            H_OK(trp_gemm_list(blas, &r, &done));
            H_OK(trp_cancel(done.future));
            if (round == 3)
                trp_future_drop(done.future);
            else
                H_OK(trp_cancel(done.future)); /* twice is as good */
            trp_status status =
                round == 3 ? TRP_E_CANCELLED : trp_await(done.future, H_LONG, &error);
            bool closed = h_gate_closed(&gate);
            h_gate_open(&gate);
            h_write(world.device, a, 0, got, 0);
            if (closed) {
                H_EQUAL(status, TRP_E_CANCELLED);
                if (round != 3) {
                    h_check_says(__FILE__, __LINE__, error.message, "request 0 of the list: ");
                    h_read(world.device, c, 0, got, sizeof got);
                    for (int i = 0; i < COUNT * 4; i++)
                        H_EQUAL(got[i], 0x11111111);
                }
            }
            H_OK(trp_device_drain(world.device, H_LONG));
            H_OK(trp_buffer_free(world.device, a));
            H_OK(trp_buffer_free(world.device, c));
            if (closed)
                break;
        }
    }
    h_close(&world);
}

/* There is room for all, or nothing is queued. */
static void full_mailbox(void)
{
    enum { MAILBOX = 1024 }; /* for the gate needs room, too */
    static trp_gemm_item items[MAILBOX + 1];
    trp_device_options options = h_options();
    options.mailbox_size = MAILBOX;
    world = h_open(&options);
    blas = h_actor(world.device, "blas");
    h_gate gate = h_gate_create(world.device, 16);
    trp_buffer a = h_filled(world.device, 16, 0x3f800000),
               c = h_buffer(world.device, (MAILBOX + 1) * 16);
    trp_gemm_list_request r = simple(items, MAILBOX + 1, a, c);
    H_IS(trp_gemm_list(blas, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("count: expected 1 to 1024");
    for (int64_t ns = 100 * H_MS;; ns *= 2) {
        trp_completion first = {0}, last = {0};
        h_gate_close(&gate, ns);
        r = simple(items, MAILBOX - 3, a, c);
        items[0].a = gate.buffer;
        H_OK(trp_gemm_list(blas, &r, &first));
        uint64_t sent = h_info(world.device).requests_submitted;
        r = simple(items, 4, a, c);
        r.header.wait_ns = TRP_NOWAIT;
        trp_status status = trp_gemm_list(blas, &r, NULL);
        bool unchanged = h_info(world.device).requests_submitted == sent;
        bool closed = h_gate_closed(&gate);
        r.header.wait_ns = H_LONG; /* until the gate opens */
        H_OK(trp_gemm_list(blas, &r, &last));
        h_gate_open(&gate);
        H_OK(h_await_any(first));
        H_OK(h_await_any(last));
        if (!closed)
            continue;
        H_EQUAL(status, TRP_E_BUSY);
        H_CHECK(unchanged);
        break;
    }
    h_close(&world);
}

/* Senders, cancellers and deaths at once, more requests than there are slots: each list ends once,
 * and its slots are used again. */

enum { SENDERS = 3, TURNS = 250, LENGTH = 60 };

typedef struct sender {
    pthread_t thread;
    ref_rng rng;
    trp_buffer in, out;
} sender;

static void *send_lists(void *argument)
{
    const sender *s = argument;
    ref_rng rng = s->rng;
    trp_gemm_item items[LENGTH];
    for (int i = 0; i < (H_SANITIZED ? TURNS / 5 : TURNS); i++) {
        trp_gemm_list_request r =
            simple(items, 1 + (int)ref_rng_below(&rng, LENGTH), s->in, s->out);
        trp_completion done = {0};
        r.header.wait_ns = H_LONG;
        H_OK(trp_gemm_list(blas, &r, ref_rng_below(&rng, 8) ? &done : NULL));
        if (!done.future.id)
            continue;
        if (ref_rng_below(&rng, 3) == 0)
            H_OK(trp_cancel(done.future));
        if (ref_rng_below(&rng, 5) == 0) {
            trp_future_drop(done.future);
            continue;
        }
        trp_status status = trp_await(done.future, H_LONG, NULL);
        H_CHECK(status == TRP_OK || status == TRP_E_CANCELLED || status == TRP_E_FAULT);
        H_IS(trp_await(done.future, 0, NULL), TRP_E_STALE);
    }
    return NULL;
}

static void everything_at_once(void)
{
    sender senders[SENDERS];
    trp_device_options options = h_options();
    options.restart_budget = 1000;
    world = h_open(&options);
    blas = h_actor(world.device, "blas");
    trp_actor *probe = h_actor(world.device, "probe");
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (sender){.rng = h_rng_fork()};
        senders[i].in = h_filled(world.device, 16, 0x3f800000);
        senders[i].out = h_buffer(world.device, LENGTH * 16);
        H_EQUAL(pthread_create(&senders[i].thread, NULL, send_lists, &senders[i]), 0);
    }
    for (int i = 0; h_isolation() == TRP_ISOLATION_PROCESS && i < 4; i++) {
        trp_completion death = {0};
        h_probe(probe, TRP_PROBE_KILL, &death);
        H_IS(h_await(death.future, NULL), TRP_E_FAULT);
    }
    for (int i = 0; i < SENDERS; i++)
        pthread_join(senders[i].thread, NULL);
    H_OK(trp_device_drain(world.device, H_LONG));
    for (int i = 0; i < SENDERS; i++) {
        H_OK(trp_buffer_free(world.device, senders[i].in));
        H_OK(trp_buffer_free(world.device, senders[i].out));
    }
    H_OK(trp_device_drain(world.device, H_LONG));
    H_EQUAL(h_info(world.device).buffers, 0);
    h_close(&world);
}

/* A device that is closed ends its lists, too. */
static void closed_device(void)
{
    trp_gemm_item items[LENGTH];
    open_world();
    trp_queue *queue;
    trp_completion future = {0}, queued = {0};
    H_OK(trp_queue_create(world.system, &queue));
    h_gate gate = h_gate_create(world.device, 16);
    trp_buffer c = h_buffer(world.device, LENGTH * 16);
    h_gate_close(&gate, 200 * H_MS);
    trp_gemm_list_request r = simple(items, LENGTH, gate.buffer, c);
    queued.queue = queue;
    H_OK(trp_gemm_list(blas, &r, &future));
    H_OK(trp_gemm_list(blas, &r, &queued));
    H_OK(trp_gemm_list(blas, &r, NULL));
    trp_device_close(world.device);
    H_IS(trp_await(future.future, 0, NULL), TRP_E_STALE);
    H_OK(trp_queue_destroy(queue)); /* nothing is expected any more */
    trp_system_destroy(world.system);
}

H_CASES(H_CASE(completions), H_CASE(chains), H_CASE(failures), H_CASE(cancelled),
        H_CASE(full_mailbox), H_CASE(everything_at_once), H_CASE(closed_device))

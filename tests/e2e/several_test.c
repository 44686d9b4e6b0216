/* Waiting for several requests, and taking several events at a time.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/harness.h"

TROUPE_TEST_FAKE_GPU("no tsan");

enum { COUNT = 40 };

static h_world world;
static trp_actor *probe[2];

static void open_world(void)
{
    world = h_open(NULL);
    probe[0] = h_actor(world.device, "probe");
    probe[1] = h_actor(world.device, "probe");
}

static trp_future nop(int i)
{
    trp_completion c = {0};
    h_probe(probe[i % 2], TRP_PROBE_NOP, &c);
    return c.future;
}

static trp_future endless(trp_actor *one)
{
    trp_completion c = {0};
    h_spin(one, 3600 * H_SEC, &c);
    return c.future;
}

/* One that fails by itself, and its record. */
static trp_future failing(int i)
{
    trp_completion c = {0};
    h_probe(probe[i % 2], TRP_PROBE_LIBRARY_ERROR, &c);
    return c.future;
}

static void any_ends_each_once(void)
{
    open_world();
    trp_future f[COUNT];
    bool ended[COUNT] = {false};
    size_t index = 7;
    for (int i = 0; i < COUNT; i++)
        f[i] = nop(i);
    for (int i = 0; i < COUNT; i++) {
        trp_error error = {.status = 5};
        H_OK(trp_await_any(f, COUNT, H_LONG, &index, &error));
        H_CHECK(index < COUNT && !ended[index] && f[index].id == 0);
        H_EQUAL(error.status, TRP_OK);
        ended[index] = true;
    }
    H_IS(trp_await_any(f, COUNT, H_LONG, &index, NULL), TRP_E_STALE);
    H_SAYS("expected one that is not zero");
    H_EQUAL(index, COUNT);
    H_IS(trp_await_any(f, 0, TRP_FOREVER, &index, NULL), TRP_E_STALE);
    H_EQUAL(index, 0);
    H_IS(trp_await_any(NULL, 0, 0, &index, NULL), TRP_E_STALE);
    H_IS(trp_await_any(NULL, 1, 0, &index, NULL), TRP_E_ARGUMENT);
    H_IS(trp_await_any(f, 1, 0, NULL, NULL), TRP_E_ARGUMENT);
    h_close(&world);
}

/* The first in the array of those that have ended; stale ones are told, once. */
static void any_in_order_of_the_array(void)
{
    open_world();
    trp_future f[6] = {{0}};
    size_t index;
    trp_error error;
    f[1] = nop(0);
    f[3] = f[1]; /* stale when its turn comes */
    f[4] = failing(1);
    f[5].id = UINT64_MAX;
    H_OK(trp_device_drain(world.device, H_LONG));
    H_OK(trp_await_any(f, 6, 0, &index, &error));
    H_EQUAL(index, 1);
    H_IS(trp_await_any(f, 6, 0, &index, &error), TRP_E_STALE);
    H_EQUAL(index, 3);
    H_EQUAL(error.status, TRP_E_STALE);
    trp_status status = trp_await_any(f, 6, 0, &index, &error);
    H_EQUAL(index, 4);
    H_CHECK(status != TRP_OK && error.status == status && error.request != 0);
    H_CHECK(trp_error_last()->request == error.request);
    H_IS(trp_await_any(f, 6, 0, &index, &error), TRP_E_STALE);
    H_EQUAL(index, 5);
    H_IS(trp_await_any(f, 6, 0, &index, &error), TRP_E_STALE);
    H_EQUAL(index, 6);
    h_close(&world);
}

static void times(void)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("a thread can't be ended in the middle of work without end");
    open_world();
    trp_future f[3] = {endless(probe[0]), {0}, nop(1)};
    size_t index;
    trp_error error;
    H_OK(trp_await_any(f, 3, H_LONG, &index, NULL));
    H_EQUAL(index, 2);
    H_IS(trp_await_any(f, 3, 0, &index, &error), TRP_E_TIMEOUT);
    H_EQUAL(index, 3);
    H_EQUAL(error.status, TRP_E_TIMEOUT);
    H_SAYS("none of 1 requests");
    H_IS(trp_await_any(f, 3, H_MS, &index, NULL), TRP_E_TIMEOUT);
    f[2] = nop(1);
    H_IS(trp_await_all(f, 3, H_MS, &index, &error), TRP_E_TIMEOUT);
    H_EQUAL(index, 0);
    H_SAYS("request 0 of 3");
    H_IS(trp_await_all(f, 3, TRP_NOWAIT, NULL, NULL), TRP_E_TIMEOUT);
    H_OK(h_await(f[2], NULL)); /* it was left as it was */
    trp_device_close(world.device);
    H_IS(trp_await_any(f, 3, 0, &index, NULL), TRP_E_STALE);
    H_EQUAL(index, 0);
    H_OK(trp_system_destroy(world.system));
}

static void all_of_them(void)
{
    open_world();
    trp_future f[COUNT];
    size_t index = 3;
    trp_error error = {.status = 5};
    for (int i = 0; i < COUNT; i++)
        f[i] = nop(i);
    f[5].id = 0;
    H_OK(trp_await_all(f, COUNT, H_LONG, &index, &error));
    H_EQUAL(index, COUNT);
    H_EQUAL(error.status, TRP_OK);
    for (int i = 0; i < COUNT; i++)
        H_IS(trp_await(f[i], 0, NULL), TRP_E_STALE);
    H_IS(trp_await_all(f, COUNT, H_LONG, &index, &error), TRP_E_STALE);
    H_EQUAL(index, 0);
    H_OK(trp_await_all(NULL, 0, 0, &index, NULL));
    H_EQUAL(index, 0);
    H_OK(trp_await_all(f, 0, 0, NULL, NULL));
    H_IS(trp_await_all(NULL, 2, 0, &index, NULL), TRP_E_ARGUMENT);
    /* The first failure in the array is told; all are ended. */
    for (int i = 0; i < COUNT; i++)
        f[i] = i == 9 || i == 17 ? failing(i) : nop(i);
    trp_status status = trp_await_all(f, COUNT, H_LONG, &index, &error);
    H_CHECK(status != TRP_OK && status == error.status);
    H_EQUAL(index, 9);
    H_CHECK(trp_error_last()->request == error.request);
    for (int i = 0; i < COUNT; i++)
        H_IS(trp_await(f[i], 0, NULL), TRP_E_STALE);
    f[0] = nop(0);
    f[1].id = UINT64_MAX - 5;
    f[2] = failing(0);
    H_IS(trp_await_all(f, 3, H_LONG, &index, &error), TRP_E_STALE);
    H_EQUAL(index, 1);
    h_close(&world);
}

/* Results are in place when the wait is over, as for one. */
static void results(void)
{
    enum { READS = 200 };
    open_world();
    static uint32_t got[READS];
    trp_future f[READS];
    trp_buffer b = h_buffer(world.device, READS * 4);
    for (uint32_t round = 1; round <= 20; round++) {
        size_t index;
        memset(got, 0, sizeof got);
        for (uint64_t i = 0; i < READS; i++) {
            trp_completion c = {0};
            H_OK(trp_fill(world.device, b, i * 4, 4, round * 1000 + (uint32_t)i, 4, NULL));
            H_OK(trp_read(world.device, b, i * 4, &got[i], 4, &c));
            f[i] = c.future;
        }
        if (round % 2) {
            H_OK(trp_await_all(f, READS, H_LONG, NULL, NULL));
            for (uint32_t i = 0; i < READS; i++)
                H_EQUAL(got[i], round * 1000 + i);
            continue;
        }
        for (int i = 0; i < READS; i++) {
            H_OK(trp_await_any(f, READS, H_LONG, &index, NULL));
            for (uint32_t k = 0; k <= index; k++) /* all reads are one actor's */
                H_EQUAL(got[k], round * 1000 + k);
        }
    }
    h_close(&world);
}

/* Two threads on copies of one array: each request is one's or the other's. */
typedef struct half {
    trp_future f[COUNT];
    size_t taken;
} half;

static void *take_some(void *argument)
{
    half *h = argument;
    size_t index;
    for (;;) {
        trp_status status = trp_await_any(h->f, COUNT, H_LONG, &index, NULL);
        if (index == COUNT) {
            H_EQUAL(status, TRP_E_STALE);
            return NULL;
        }
        h->taken += status == TRP_OK;
        H_CHECK(status == TRP_OK || status == TRP_E_STALE);
    }
}

static void two_threads(void)
{
    open_world();
    for (int round = 0; round < 50; round++) {
        half a = {.taken = 0}, b;
        for (int i = 0; i < COUNT; i++)
            a.f[i] = nop(i);
        b = a;
        h_thread *other = h_start(take_some, &b);
        take_some(&a);
        h_join(other);
        H_EQUAL(a.taken + b.taken, COUNT);
    }
    h_close(&world);
}

/* ---- queues ---- */

static void many_events(void)
{
    enum { EVENTS = 1000, MOST = 150 };
    open_world();
    trp_queue *queue;
    static trp_event events[EVENTS + 1];
    static char mark[EVENTS];
    static int seen[EVENTS];
    size_t count = 9;
    H_OK(trp_queue_create(world.system, &queue));
    H_IS(trp_queue_take(queue, 0, events, MOST, &count), TRP_E_TIMEOUT);
    H_EQUAL(count, 0);
    H_IS(trp_queue_take(queue, H_MS, events, MOST, &count), TRP_E_TIMEOUT);
    H_IS(trp_queue_take(queue, 0, events, 0, &count), TRP_E_ARGUMENT);
    H_SAYS("most: expected at least 1");
    H_IS(trp_queue_take(NULL, 0, events, 1, &count), TRP_E_ARGUMENT);
    H_IS(trp_queue_take(queue, 0, NULL, 1, &count), TRP_E_ARGUMENT);
    H_IS(trp_queue_take(queue, 0, events, 1, NULL), TRP_E_ARGUMENT);
    for (int i = 0; i < EVENTS; i++)
        h_probe(probe[0], TRP_PROBE_NOP, &(trp_completion){.queue = queue, .user_data = &mark[i]});
    size_t total = 0;
    while (total < EVENTS) {
        H_OK(trp_queue_take(queue, H_LONG, events, MOST, &count));
        H_CHECK(count >= 1 && count <= MOST);
        for (size_t i = 0; i < count; i++) {
            size_t which = (size_t)((char *)events[i].user_data - mark);
            H_CHECK(which < EVENTS && events[i].status == TRP_OK && events[i].notice == 0);
            H_EQUAL(seen[which]++, 0);
        }
        total += count;
    }
    H_EQUAL(total, EVENTS);
    /* All at once, once they have ended; errors come along. */
    for (int i = 0; i < EVENTS; i++)
        h_probe(probe[0], i == 500 ? TRP_PROBE_LIBRARY_ERROR : TRP_PROBE_NOP,
                &(trp_completion){.queue = queue, .user_data = &mark[i]});
    H_OK(trp_device_drain(world.device, H_LONG));
    H_OK(trp_queue_take(queue, 0, events, EVENTS + 1, &count));
    H_EQUAL(count, EVENTS);
    for (size_t i = 0; i < count; i++) {
        bool bad = events[i].user_data == &mark[500];
        H_CHECK((events[i].status != TRP_OK) == bad && events[i].error.status == events[i].status);
    }
    H_IS(trp_queue_take(queue, TRP_NOWAIT, events, 1, &count), TRP_E_TIMEOUT);
    H_OK(trp_queue_destroy(queue));
    h_close(&world);
}

H_CASES(H_CASE(any_ends_each_once), H_CASE(any_in_order_of_the_array), H_CASE(times),
        H_CASE(all_of_them), H_CASE(results), H_CASE(two_threads), H_CASE(many_events))

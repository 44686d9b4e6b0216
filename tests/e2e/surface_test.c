/* Queues, threads, drains and closes: every request ends once, and is told once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/harness.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <unistd.h>

TROUPE_TEST("long");
TROUPE_TEST_FAKE_GPU("no sanitizer");

static void queues(void)
{
    enum { COUNT = 3000 };
    static char seen[COUNT];
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_queue *queue = NULL;
    trp_event event;
    H_OK(trp_queue_create(w.system, &queue));
    H_IS(trp_queue_next(queue, 0, &event), TRP_E_TIMEOUT);
    H_IS(trp_queue_next(queue, 2 * H_MS, &event), TRP_E_TIMEOUT);
    H_IS(trp_queue_next(NULL, 0, &event), TRP_E_ARGUMENT);
    H_IS(trp_queue_next(queue, 0, NULL), TRP_E_ARGUMENT);
    H_IS(trp_queue_create(NULL, &queue), TRP_E_ARGUMENT);
    H_IS(trp_queue_create(w.system, NULL), TRP_E_ARGUMENT);
    H_CHECK(trp_queue_fd(NULL) == -1 && trp_error_last()->status == TRP_E_ARGUMENT);
    H_CHECK(trp_actor_device(probe) == w.device && trp_actor_device(NULL) == NULL);
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < COUNT; i++) {
        trp_completion c = {.queue = queue, .user_data = &seen[i], .future = {42}};
        bool fails = i % 10 == 3;
        h_probe(probe, fails ? TRP_PROBE_LIBRARY_ERROR : TRP_PROBE_NOP, &c);
        H_EQUAL(c.future.id, 42); /* no future exists */
    }
    for (int i = 0; i < COUNT; i++) {
        H_OK(trp_queue_next(queue, H_LONG, &event));
        char *mark = event.user_data;
        H_CHECK(mark >= seen && mark < seen + COUNT);
        H_EQUAL(*mark, 0);
        *mark = 1;
        bool fails = (mark - seen) % 10 == 3;
        H_EQUAL(event.status, fails ? TRP_E_LIBRARY : TRP_OK);
        H_EQUAL(event.error.status, event.status);
        H_EQUAL(event.error.message[0] != 0, fails);
    }
    H_IS(trp_queue_next(queue, 0, &event), TRP_E_TIMEOUT);
    H_OK(trp_queue_destroy(queue));
    H_OK(trp_queue_destroy(NULL));
    h_close(&w);
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

/* An event loop: the descriptor is the only thing that wakes it. */
static void queue_descriptor(void)
{
    enum { ROUNDS = 300 };
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_queue *queue = NULL;
    trp_event event;
    H_OK(trp_queue_create(w.system, &queue));
    int fd = trp_queue_fd(queue), loop = epoll_create1(EPOLL_CLOEXEC);
    H_CHECK(fd >= 0 && loop >= 0);
    H_CHECK(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN}) == 0);
    H_CHECK(!readable(fd, 0));
    for (int i = 0; i < ROUNDS; i++) {
        int sent = 1 + i % 7, taken = 0;
        struct epoll_event ready;
        if (i % 50 == 0)
            h_spin(probe, 5 * H_MS, NULL);
        for (int k = 0; k < sent; k++)
            h_probe(probe, TRP_PROBE_NOP, &(trp_completion){.queue = queue, .user_data = NULL});
        while (taken < sent) {
            H_CHECK(epoll_wait(loop, &ready, 1, 60000) == 1);
            while (trp_queue_next(queue, 0, &event) == TRP_OK)
                taken++;
        }
        H_EQUAL(taken, sent);
        H_CHECK(!readable(fd, 0));
    }
    close(loop);
    /* Busy while something is under way, and while something lies in it. */
    h_spin(probe, 30 * H_MS, &(trp_completion){.queue = queue});
    H_IS(trp_queue_destroy(queue), TRP_E_BUSY);
    H_CHECK(readable(fd, 60000));
    H_IS(trp_queue_destroy(queue), TRP_E_BUSY);
    H_IS(trp_system_destroy(w.system), TRP_E_BUSY);
    H_OK(trp_queue_next(queue, 0, &event));
    H_CHECK(!readable(fd, 0));
    /* A request that was refused is not expected either. */
    H_IS(trp_submit(probe, &(trp_request){.op = 0}, &(trp_completion){.queue = queue}),
         TRP_E_UNSUPPORTED);
    H_OK(trp_queue_destroy(queue));
    h_close(&w);
}

typedef struct sender {
    trp_device *device;
    trp_actor *actor;
    trp_queue *queue;
    ref_rng rng;
    int count;
    _Atomic int *by_queue;
    _Atomic int ended;
} sender;

/* All three ways to be told, mixed. */
static void *send(void *argument)
{
    sender *s = argument;
    enum { HELD = 32 };
    trp_completion held[HELD] = {{0}};
    for (int i = 0; i < s->count; i++) {
        trp_probe_request r = {.header = {.wait_ns = H_LONG}};
        trp_completion *c = &held[i % HELD];
        if (c->future.id != 0) {
            H_OK(h_await_any(*c));
            atomic_fetch_add(&s->ended, 1);
            c->future.id = 0;
        }
        switch (ref_rng_below(&s->rng, 3)) {
        case 0:
            H_OK(trp_probe(s->actor, &r, c));
            break;
        case 1:
            H_OK(trp_probe(s->actor, &r,
                           &(trp_completion){.queue = s->queue, .user_data = s->by_queue}));
            break;
        default:
            H_OK(trp_probe(s->actor, &r, NULL));
            atomic_fetch_add(&s->ended, 1); /* not told; counted by the device */
            break;
        }
    }
    for (int i = 0; i < HELD; i++) {
        if (held[i].future.id != 0) {
            H_OK(h_await_any(held[i]));
            atomic_fetch_add(&s->ended, 1);
        }
    }
    return NULL;
}

static void sixteen_threads(int actors, int each)
{
    enum { THREADS = 16 };
    h_world w = h_open(NULL);
    trp_actor *probe[THREADS];
    trp_queue *queue = NULL;
    sender s[THREADS];
    h_thread *thread[THREADS];
    _Atomic int by_queue = 0;
    int ended = 0, taken = 0;
    trp_event event;
    H_OK(trp_queue_create(w.system, &queue));
    for (int i = 0; i < actors; i++)
        probe[i] = h_actor(w.device, "probe");
    for (int i = 0; i < THREADS; i++) {
        s[i] = (sender){.device = w.device,
                        .actor = probe[i % actors],
                        .queue = queue,
                        .rng = h_rng_fork(),
                        .count = each,
                        .by_queue = &by_queue};
        thread[i] = h_start(send, &s[i]);
    }
    /* Takes from the queue meanwhile: its events hold request slots. */
    while (trp_queue_next(queue, 500 * H_MS, &event) == TRP_OK) {
        H_OK(event.status);
        H_CHECK(event.user_data == &by_queue);
        taken++;
    }
    for (int i = 0; i < THREADS; i++) {
        h_join(thread[i]);
        ended += atomic_load(&s[i].ended);
    }
    while (ended + taken < THREADS * each && trp_queue_next(queue, H_LONG, &event) == TRP_OK)
        taken++;
    H_EQUAL(ended + taken, THREADS * each);
    H_OK(trp_device_drain(w.device, H_LONG));
    H_IS(trp_queue_next(queue, 0, &event), TRP_E_TIMEOUT);
    H_EQUAL(h_info(w.device).requests_submitted, THREADS * each);
    H_EQUAL(h_info(w.device).requests_failed, 0);
    H_OK(trp_queue_destroy(queue));
    h_close(&w);
}

static void sixteen_threads_one_actor(void)
{
    sixteen_threads(1, H_SANITIZED ? 300 : 2000);
}

static void sixteen_threads_sixteen_actors(void)
{
    sixteen_threads(16, H_SANITIZED ? 300 : 2000);
}

static void drain(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_completion c = {0};
    H_OK(trp_device_drain(w.device, 0));
    H_IS(trp_device_drain(NULL, 0), TRP_E_ARGUMENT);
    h_spin(probe, 100 * H_MS, &c);
    H_IS(trp_device_drain(w.device, 0), TRP_E_TIMEOUT);
    H_IS(trp_device_drain(w.device, H_MS), TRP_E_TIMEOUT);
    H_OK(trp_device_drain(w.device, H_LONG));
    H_OK(trp_await(c.future, 0, NULL));
    h_probe(probe, TRP_PROBE_LIBRARY_ERROR, &c); /* a failed one has completed too */
    H_OK(trp_device_drain(w.device, H_LONG));
    H_IS(trp_await(c.future, 0, NULL), TRP_E_LIBRARY);
    h_close(&w);
}

/* What a drain has seen to its end lies in the queue. */
static void drain_then_queue(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_queue *queue = NULL;
    trp_event event;
    H_OK(trp_queue_create(w.system, &queue));
    for (int i = 0; i < (H_SANITIZED ? 300 : 3000); i++) {
        h_probe(probe, TRP_PROBE_NOP, &(trp_completion){.queue = queue});
        H_OK(trp_device_drain(w.device, H_LONG));
        H_OK(trp_queue_next(queue, 0, &event));
    }
    H_OK(trp_queue_destroy(queue));
    h_close(&w);
}

/* Closing with work pending: futures are stale, events are gone, nothing waits for ever. */
static void close_with_pending_work(void)
{
    for (int round = 0; round < 4; round++) {
        enum { COUNT = 500 };
        h_world w = h_open(NULL);
        trp_device *other = NULL;
        trp_device_options options = h_options();
        H_OK(trp_device_open(w.system, &options, &other));
        trp_actor *probe = h_actor(w.device, "probe"), *kept = h_actor(other, "probe");
        trp_queue *queue = NULL;
        trp_event event;
        trp_completion c[COUNT] = {{0}};
        trp_buffer b = h_buffer(w.device, 40 * H_MIB);
        char *big = h_malloc(40 * H_MIB);
        memset(big, 1, 40 * H_MIB);
        H_OK(trp_queue_create(w.system, &queue));
        if (round % 2)
            h_spin(probe, 50 * H_MS, NULL);
        H_OK(trp_write(w.device, b, 0, big, 40 * H_MIB, NULL));
        H_OK(trp_read(w.device, b, 0, big, 40 * H_MIB, &c[0]));
        for (int i = 1; i < COUNT; i++) {
            if (i % 2)
                c[i].queue = queue;
            h_probe(probe, TRP_PROBE_NOP, &c[i]);
            h_probe(kept, TRP_PROBE_NOP, i % 5 ? NULL : &(trp_completion){.queue = queue});
        }
        if (round > 1)
            H_OK(trp_device_drain(other, H_LONG));
        trp_device_close(w.device);
        free(big); /* no thread of ours may still be at it */
        for (int i = 0; i < COUNT; i++) {
            if (!c[i].queue)
                H_IS(trp_await(c[i].future, 0, NULL), TRP_E_STALE);
        }
        /* The other device's events are all there, and nothing else. */
        for (int i = 1; i < COUNT; i++) {
            if (i % 5 == 0) {
                H_OK(trp_queue_next(queue, H_LONG, &event));
                H_OK(event.status);
            }
        }
        H_IS(trp_queue_next(queue, 5 * H_MS, &event), TRP_E_TIMEOUT);
        H_CHECK(!readable(trp_queue_fd(queue), 0));
        H_OK(trp_queue_destroy(queue));
        trp_device_close(other);
        H_OK(trp_system_destroy(w.system));
    }
}

typedef struct loop {
    trp_queue *queue;
    _Atomic bool stop;
    uint64_t taken;
} loop;

static void *event_loop(void *argument)
{
    loop *l = argument;
    trp_event event;
    while (!atomic_load(&l->stop)) {
        trp_status status = trp_queue_next(l->queue, 2 * H_MS, &event);
        H_CHECK(status == TRP_OK || status == TRP_E_TIMEOUT);
        l->taken += status == TRP_OK;
    }
    return NULL;
}

/* An event loop serves one queue for several devices while some of them are closed. */
static void close_under_an_event_loop(void)
{
    h_world w = h_open(NULL);
    loop l = {0};
    H_OK(trp_queue_create(w.system, &l.queue));
    h_thread *thread = h_start(event_loop, &l);
    trp_device_options options = h_options();
    for (int round = 0; round < (H_SANITIZED ? 10 : 30); round++) {
        trp_device *device = NULL;
        H_OK(trp_device_open(w.system, &options, &device));
        trp_actor *probe = h_actor(device, "probe");
        for (int i = 0; i < 300; i++)
            h_probe(probe, TRP_PROBE_NOP, &(trp_completion){.queue = l.queue});
        trp_device_close(device);
    }
    atomic_store(&l.stop, true);
    h_join(thread);
    trp_event event;
    H_IS(trp_queue_next(l.queue, 0, &event), TRP_E_TIMEOUT);
    H_OK(trp_queue_destroy(l.queue));
    h_close(&w);
}

static void systems_and_devices(void)
{
    trp_system *system = NULL;
    trp_device *device = NULL;
    char path[4096], tiny[4];
    H_IS(trp_system_create(NULL, NULL), TRP_E_ARGUMENT);
    H_OK(trp_system_destroy(NULL));
    trp_device_close(NULL);
    H_OK(trp_system_create(NULL, &system));
    H_OK(trp_system_worker_path(system, path, sizeof path));
    H_CHECK(access(path, X_OK) == 0);
    H_IS(trp_system_worker_path(system, tiny, sizeof tiny), TRP_E_ARGUMENT);
    H_SAYS("size");
    H_IS(trp_system_worker_path(NULL, path, sizeof path), TRP_E_ARGUMENT);

    trp_device_options o = h_options();
    H_IS(trp_device_open(NULL, &o, &device), TRP_E_ARGUMENT);
    H_IS(trp_device_open(system, &o, NULL), TRP_E_ARGUMENT);
    o.backend = (trp_backend)3;
    H_IS(trp_device_open(system, &o, &device), TRP_E_ARGUMENT);
    H_SAYS("backend");
    o = h_options();
    o.isolation = (trp_isolation)2;
    H_IS(trp_device_open(system, &o, &device), TRP_E_ARGUMENT);
    H_SAYS("isolation");
    o = h_options();
    o.ordinal = 1000;
    H_IS(trp_device_open(system, &o, &device), TRP_E_MISSING);
    H_SAYS("1000");

    o = h_options();
    H_OK(trp_device_open(system, &o, &device));
    H_IS(trp_system_destroy(system), TRP_E_BUSY);
    trp_device_info info = h_info(device);
    H_EQUAL(info.backend, h_backend());
    H_EQUAL(info.isolation, h_isolation());
    H_EQUAL(info.state, TRP_DEVICE_READY);
    H_EQUAL(info.incarnation, 1);
    H_EQUAL(info.restarts, 0);
    H_EQUAL(info.buffers, 0);
    H_CHECK(info.name[0] != 0 && info.memory_total > 0 && info.processors > 0);
    H_CHECK((info.worker_pid > 0) == (h_isolation() == TRP_ISOLATION_PROCESS));
    H_IS(trp_device_get_info(device, NULL), TRP_E_ARGUMENT);
    trp_device_close(device);

    /* list: the host is the last, and a short array is not overrun. */
    trp_device_info list[16];
    size_t count = 0;
    memset(list, 0x55, sizeof list);
    H_OK(trp_system_list_devices(system, list, 16, &count));
    H_CHECK(count >= 1 && count <= 16);
    H_EQUAL(list[count - 1].backend, TRP_BACKEND_HOST);
    memset(list, 0x55, sizeof list);
    size_t again = 0;
    H_OK(trp_system_list_devices(system, list, 0, &again));
    H_EQUAL(again, count);
    H_EQUAL(list[0].ordinal, 0x55555555);
    H_IS(trp_system_list_devices(system, NULL, 1, &count), TRP_E_ARGUMENT);
    H_IS(trp_system_list_devices(system, list, 1, NULL), TRP_E_ARGUMENT);
    H_OK(trp_system_destroy(system));
}

static void many_actors(void)
{
    enum { MOST = 60 };
    h_world w = h_open(NULL);
    trp_actor *actor[MOST], *more = NULL;
    trp_actor_options o = {.kind = "probe"};
    for (int i = 0; i < MOST; i++)
        actor[i] = h_actor(w.device, "probe");
    trp_status status = trp_actor_create(w.device, &o, &more);
    if (status == TRP_OK) { /* "at most 60": one more may be had, not two */
        H_IS(trp_actor_create(w.device, &o, &more), TRP_E_BUSY);
    } else {
        H_IS(status, TRP_E_BUSY);
    }
    H_SAYS("actors");
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < MOST; i++) {
            trp_completion c = {0};
            h_probe(actor[i], TRP_PROBE_NOP, i % 2 ? &c : NULL);
            if (i % 2)
                H_OK(h_await_any(c));
        }
        trp_actor_destroy(actor[round]);
        actor[round] = NULL;
        /* The number is free once the worker has let go. */
        status = TRP_E_BUSY;
        for (int i = 0; i < 5000 && status == TRP_E_BUSY; i++) {
            status = trp_actor_create(w.device, &o, &actor[round]);
            if (status == TRP_E_BUSY)
                h_sleep(H_MS);
        }
        H_OK(status);
    }
    h_close(&w);
}

typedef struct maker {
    trp_device *device;
} maker;

static void *make_and_destroy(void *argument)
{
    maker *m = argument;
    for (int i = 0; i < (H_SANITIZED ? 40 : 150); i++) {
        trp_actor *probe = h_actor(m->device, "probe");
        for (int k = 0; k < 20; k++)
            h_probe(probe, TRP_PROBE_NOP, NULL);
        trp_actor_destroy(probe);
    }
    return NULL;
}

/* Actors that live for a moment, with work up to their end, in several threads. */
static void short_lived_actors(void)
{
    enum { THREADS = 4 };
    h_world w = h_open(NULL);
    maker m = {.device = w.device};
    h_thread *thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        thread[i] = h_start(make_and_destroy, &m);
    for (int i = 0; i < THREADS; i++)
        h_join(thread[i]);
    H_EQUAL(h_info(w.device).requests_failed, 0);
    h_close(&w);
}

H_CASES(H_CASE(queues), H_CASE(queue_descriptor), H_CASE(sixteen_threads_one_actor),
        H_CASE(sixteen_threads_sixteen_actors), H_CASE(drain), H_CASE(drain_then_queue),
        H_CASE(close_with_pending_work), H_CASE(close_under_an_event_loop),
        H_CASE(systems_and_devices), H_CASE(many_actors), H_CASE(short_lived_actors))

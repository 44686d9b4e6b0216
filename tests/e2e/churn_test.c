/* Buffers that many threads make, free, ask about and press against a limit at once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/harness.h"

#include <stdatomic.h>

TROUPE_TEST("long");
TROUPE_TEST_FAKE_GPU("no tsan");

/* Many creates and frees around a live set; the live ones keep their content and their handles. */
static void churn(void)
{
    enum { LIVE = 500 };
    const int rounds = H_TSAN ? 2000 : H_SANITIZED ? 20000 : 100000;
    h_world w = h_open(NULL);
    trp_buffer live[LIVE] = {{0}};
    uint64_t bytes[LIVE] = {0}, used = 0;
    uint32_t mark[LIVE] = {0};
    ref_rng *rng = h_rng();
    for (int i = 0; i < rounds; i++) {
        size_t k = ref_rng_below(rng, LIVE);
        if (live[k].id != 0) {
            if (i % 64 == 0) {
                uint32_t got = 0;
                h_read(w.device, live[k], 0, &got, 4);
                if (mark[k] != 0)
                    H_EQUAL(got, mark[k]);
            }
            H_OK(trp_buffer_free(w.device, live[k]));
            mark[k] = 0;
        }
        bytes[k] = 4 + h_random_size(rng, 20000);
        live[k] = h_buffer(w.device, bytes[k]);
        if (i % 64 == 1) {
            mark[k] = (uint32_t)i | 0x80000000U;
            H_OK(trp_fill(w.device, live[k], 0, 4, mark[k], 4, NULL));
        }
    }
    H_OK(trp_device_drain(w.device, H_LONG));
    for (size_t k = 0; k < LIVE; k++) {
        uint32_t got = 0;
        if (live[k].id == 0)
            continue;
        h_read(w.device, live[k], 0, &got, 4);
        if (mark[k] != 0)
            H_EQUAL(got, mark[k]);
        H_EQUAL(h_buffer_info(w.device, live[k]).bytes, bytes[k]);
        used += (bytes[k] + 255) / 256 * 256;
    }
    H_EQUAL(h_info(w.device).memory_used, used);
    h_close(&w);
}

typedef struct churner {
    trp_device *device;
    ref_rng rng;
    uint32_t mark;
} churner;

static void *churn_thread(void *argument)
{
    churner *c = argument;
    enum { LIVE = 16, BYTES = 5000 };
    trp_buffer live[LIVE] = {{0}};
    uint32_t mark[LIVE] = {0}, got;
    for (int i = 0; i < (H_TSAN ? 200 : H_SANITIZED ? 500 : 3000); i++) {
        size_t k = ref_rng_below(&c->rng, LIVE);
        if (live[k].id != 0) {
            got = 0;
            h_read(c->device, live[k], 4, &got, 4);
            H_EQUAL(got, mark[k]);
            H_OK(trp_buffer_free(c->device, live[k]));
        }
        live[k] = h_buffer(c->device, 8 + ref_rng_below(&c->rng, BYTES));
        mark[k] = c->mark + (uint32_t)i;
        H_OK(trp_fill(c->device, live[k], 4, 4, mark[k], 4, NULL));
    }
    for (size_t k = 0; k < LIVE; k++) {
        if (live[k].id != 0)
            H_OK(trp_buffer_free(c->device, live[k]));
    }
    return NULL;
}

/* Eight threads, each with marks of its own in its buffers. */
static void churn_in_threads(void)
{
    enum { THREADS = 8 };
    h_world w = h_open(NULL);
    churner c[THREADS];
    h_thread *thread[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        c[i] = (churner){.device = w.device, .rng = h_rng_fork(), .mark = (i + 1) << 24};
        thread[i] = h_start(churn_thread, &c[i]);
    }
    for (int i = 0; i < THREADS; i++)
        h_join(thread[i]);
    H_OK(trp_device_drain(w.device, H_LONG));
    H_EQUAL(h_info(w.device).buffers, 0);
    H_EQUAL(h_info(w.device).memory_used, 0);
    h_close(&w);
}

typedef struct made {
    trp_buffer buffer;
    uint64_t bytes;
} made;

typedef struct asker {
    trp_device *device;
    const made *list;
    _Atomic size_t count; /* entries of the list that are complete */
    _Atomic bool stop;
} asker;

static void *ask_about(void *argument)
{
    asker *a = argument;
    while (!atomic_load(&a->stop)) {
        trp_buffer_info info = {0};
        const made *last = &a->list[atomic_load(&a->count) - 1];
        trp_status status = trp_buffer_get_info(a->device, last->buffer, &info);
        if (status == TRP_OK)
            H_EQUAL(info.bytes, last->bytes);
        else
            H_IS(status, TRP_E_STALE);
    }
    return NULL;
}

/* One thread asks about a buffer that another frees and makes again: the answer is about that
 * buffer, or it is stale. */
static void info_against_free(void)
{
    const size_t rounds = H_TSAN ? 1000 : H_SANITIZED ? 5000 : 50000;
    h_world w = h_open(NULL);
    made *list = h_malloc(rounds * sizeof *list);
    asker a = {.device = w.device, .list = list, .count = 1};
    list[0] = (made){.buffer = h_buffer(w.device, 1), .bytes = 1};
    h_thread *thread = h_start(ask_about, &a);
    for (size_t i = 1; i < rounds; i++) {
        H_OK(trp_buffer_free(w.device, list[i - 1].buffer));
        list[i] = (made){.buffer = h_buffer(w.device, i % 1000 + 1), .bytes = i % 1000 + 1};
        atomic_store(&a.count, i + 1);
    }
    atomic_store(&a.stop, true);
    h_join(thread);
    free(list);
    h_close(&w);
}

typedef struct presser {
    trp_device *device;
    trp_queue *queue;
    ref_rng rng;
} presser;

enum { PRESSES = 60 };

static void *press(void *argument)
{
    presser *p = argument;
    for (int i = 0; i < PRESSES; i++) {
        uint64_t bytes = (1 + ref_rng_below(&p->rng, 7)) * H_MIB + ref_rng_below(&p->rng, 70000);
        trp_buffer b = {0};
        trp_status status = TRP_E_MEMORY;
        for (int64_t end = h_now() + H_LONG; status == TRP_E_MEMORY && h_now() < end;) {
            status = trp_buffer_create(p->device, bytes, &b);
            if (status == TRP_E_MEMORY)
                h_sleep(H_MS / 4); /* the others have it all */
        }
        H_OK(status);
        trp_completion c = {.queue = p->queue};
        H_OK(trp_fill(p->device, b, 0, bytes, 1, 1, &c));
        H_OK(trp_buffer_free(p->device, b));
    }
    return NULL;
}

/* Several threads at the limit, so that arenas come and go, while the ends of their requests, which
 * give memory back, are taken by another thread. */
static void limit_under_pressure(void)
{
    enum { THREADS = 4 };
    trp_device_options options = h_options();
    options.memory_limit = 32 * H_MIB;
    h_world w = h_open(&options);
    presser p[THREADS];
    h_thread *thread[THREADS];
    trp_queue *queue = NULL;
    trp_event event;
    H_OK(trp_queue_create(w.system, &queue));
    for (int i = 0; i < THREADS; i++) {
        p[i] = (presser){.device = w.device, .queue = queue, .rng = h_rng_fork()};
        thread[i] = h_start(press, &p[i]);
    }
    for (int i = 0; i < THREADS * PRESSES; i++) {
        H_OK(trp_queue_next(queue, H_LONG, &event));
        H_OK(event.status);
        H_CHECK(h_info(w.device).memory_reserved <= 32 * H_MIB);
    }
    for (int i = 0; i < THREADS; i++)
        h_join(thread[i]);
    H_EQUAL(h_info(w.device).memory_used, 0);
    H_OK(trp_queue_destroy(queue));
    h_close(&w);
}

H_CASES(H_CASE(churn), H_CASE(churn_in_threads), H_CASE(info_against_free),
        H_CASE(limit_under_pressure))

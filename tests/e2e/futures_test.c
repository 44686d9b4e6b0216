/* Futures: polled, forged, awaited and dropped by many threads at once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/harness.h"

#include <stdatomic.h>
#include <unistd.h>

TROUPE_TEST("long");
TROUPE_TEST_FAKE_GPU("no sanitizer");

static void futures(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_completion c = {0}, slow = {0};
    trp_error error;
    /* Polling: not yet, and the future stays. */
    h_spin(probe, 100 * H_MS, &slow);
    h_probe(probe, TRP_PROBE_NOP, &c);
    H_IS(trp_await(c.future, 0, NULL), TRP_E_TIMEOUT);
    H_IS(trp_await(c.future, H_MS, &error), TRP_E_TIMEOUT);
    H_OK(h_await(c.future, &error));
    H_EQUAL(error.status, TRP_OK);
    H_EQUAL(error.message[0], 0);
    H_OK(h_await_any(slow)); /* out of order, long done */
    /* Once only. */
    H_IS(trp_await(c.future, 0, NULL), TRP_E_STALE);
    H_SAYS("future");
    H_IS(trp_await(c.future, TRP_FOREVER, NULL), TRP_E_STALE);
    H_IS(trp_await(slow.future, H_SEC, NULL), TRP_E_STALE);
    /* Dropped: before and after the end, twice. */
    for (int i = 0; i < 200; i++) {
        h_probe(probe, TRP_PROBE_NOP, &c);
        if (i % 2)
            H_OK(trp_device_drain(w.device, H_LONG));
        trp_future_drop(c.future);
        H_IS(trp_await(c.future, H_SEC, NULL), TRP_E_STALE);
        trp_future_drop(c.future);
    }
    trp_future_drop((trp_future){0});
    trp_future_drop((trp_future){UINT64_MAX});
    /* A future is filled in every time, whatever was there. */
    for (int i = 0; i < 100; i++) {
        uint64_t before = c.future.id;
        h_probe(probe, TRP_PROBE_NOP, &c);
        H_CHECK(c.future.id != 0 && c.future.id != before);
        H_OK(h_await_any(c));
    }
    h_close(&w);
    H_IS(trp_await(c.future, 0, NULL), TRP_E_STALE);
    trp_future_drop(c.future);
}

static void error_record(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_completion c = {0};
    trp_error error;
    memset(&error, 0x77, sizeof error);
    h_spin(probe, 50 * H_MS, &c);
    H_IS(trp_await(c.future, 0, &error), TRP_E_TIMEOUT);
    H_EQUAL(error.status, TRP_E_TIMEOUT);
    H_OK(h_await(c.future, &error));
    memset(&error, 0x77, sizeof error);
    H_IS(trp_await(c.future, 0, &error), TRP_E_STALE);
    H_EQUAL(error.status, TRP_E_STALE);
    h_close(&w);
}

static void forged_futures(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_completion c = {0};
    h_spin(probe, 300 * H_MS, &c);
    for (int bit = 0; bit < 64; bit++) {
        trp_future f = {c.future.id ^ (UINT64_C(1) << bit)};
        H_IS(trp_await(f, 0, NULL), TRP_E_STALE);
        trp_future_drop(f);
    }
    for (int i = 0; i < 20000; i++) {
        trp_future f = {ref_rng_next(h_rng())};
        if (f.id != c.future.id)
            H_IS(trp_await(f, 0, NULL), TRP_E_STALE);
        trp_future_drop((trp_future){f.id != c.future.id ? f.id : 0});
    }
    H_IS(trp_await((trp_future){0}, TRP_FOREVER, NULL), TRP_E_STALE);
    H_OK(h_await_any(c)); /* the real one was left alone */
    h_close(&w);
}

typedef struct racer {
    _Atomic uint64_t *future;
    _Atomic int *ended, *stale;
    _Atomic bool *stop;
    bool drops;
} racer;

static void *race_for_futures(void *argument)
{
    racer *r = argument;
    uint64_t last = 0;
    while (!atomic_load(r->stop)) {
        uint64_t id = atomic_load(r->future);
        if (id == last)
            continue;
        last = id;
        if (r->drops) {
            trp_future_drop((trp_future){id});
            continue;
        }
        trp_status status = trp_await((trp_future){id}, H_LONG, NULL);
        if (status == TRP_OK)
            atomic_fetch_add(r->ended, 1);
        else
            H_CHECK(status == TRP_E_STALE);
    }
    return NULL;
}

/* Three threads wait for the same future: one has it. */
static void one_future_many_threads(void)
{
    enum { THREADS = 3 };
    const int rounds = H_SANITIZED ? 1000 : 5000;
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    _Atomic uint64_t future = 0;
    _Atomic int ended = 0, stale = 0;
    _Atomic bool stop = false;
    racer r[THREADS];
    h_thread *thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        r[i] = (racer){&future, &ended, &stale, &stop, false};
        thread[i] = h_start(race_for_futures, &r[i]);
    }
    for (int i = 0; i < rounds; i++) {
        trp_completion c = {0};
        h_probe(probe, TRP_PROBE_NOP, &c);
        atomic_store(&future, c.future.id);
        for (int64_t end = h_now() + H_LONG; atomic_load(&ended) != i + 1;) {
            if (h_now() > end)
                h_fail(__FILE__, __LINE__, "future %d was ended %d times", i, atomic_load(&ended));
            usleep(1);
        }
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        h_join(thread[i]);
    H_EQUAL(atomic_load(&ended), rounds);
    h_close(&w);
}

/* A future that one thread drops while another awaits it; the slot is used again at once, and the
 * future that comes next must be left alone. */
static void drop_against_await(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    _Atomic uint64_t future = 0;
    _Atomic int ended = 0, stale = 0;
    _Atomic bool stop = false;
    racer r = {&future, &ended, &stale, &stop, true};
    h_thread *thread = h_start(race_for_futures, &r);
    for (int i = 0; i < (H_SANITIZED ? 2000 : 10000); i++) {
        trp_completion shared = {0}, own = {0};
        h_probe(probe, TRP_PROBE_NOP, &shared);
        atomic_store(&future, shared.future.id);
        trp_status status = h_await_any(shared);
        H_CHECK(status == TRP_OK || status == TRP_E_STALE);
        h_probe(probe, TRP_PROBE_NOP, &own);
        H_OK(h_await_any(own));
    }
    atomic_store(&stop, true);
    h_join(thread);
    h_close(&w);
}

H_CASES(H_CASE(futures), H_CASE(error_record), H_CASE(forged_futures),
        H_CASE(one_future_many_threads), H_CASE(drop_against_await))

/* The doorbell that wakes a worker: a worker that is about to end may still sleep on it. */
#include "base/os/futex.h"
#include "client/core/device.h"
#include "support/harness.h"

typedef struct sleeper {
    _Atomic uint32_t *doorbell;
    uint32_t seen;
    _Atomic bool begun;
} sleeper;

static void *sleep_on(void *argument)
{
    sleeper *s = argument;
    atomic_store(&s->begun, true);
    trp__futex_wait(s->doorbell, s->seen, -1);
    return NULL;
}

static void send_one(trp_actor *probe)
{
    trp_completion done = {0};
    h_sleep(20 * H_MS); /* the worker sleeps by then, as a rule */
    h_probe(probe, TRP_PROBE_NOP, &done);
    H_OK(h_await_any(done));
}

/* The first request wakes a worker that sleeps longer than the other one; then it is the other one
 * that has slept longer. */
static void two_sleep(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    sleeper s = {.doorbell = &w.device->control->doorbell};
    send_one(probe);
    h_sleep(20 * H_MS);
    s.seen = atomic_load(s.doorbell);
    h_thread *other = h_start(sleep_on, &s);
    while (!atomic_load(&s.begun))
        h_sleep(H_MS);
    for (int i = 0; i < 4; i++)
        send_one(probe);
    atomic_fetch_add(s.doorbell, 1); /* if the worker was never asleep */
    trp__futex_wake(s.doorbell, INT32_MAX);
    h_join(other);
    trp_actor_destroy(probe);
    h_close(&w);
}

H_CASES(H_CASE(two_sleep))

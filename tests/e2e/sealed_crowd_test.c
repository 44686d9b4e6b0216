/* Sealed buffers with many threads that seal, unseal, write and read the same ones.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/harness.h"

#include <stdatomic.h>

enum { SHARED = 3, SHARED_BYTES = 40000 };

typedef struct crowd {
    trp_device *device;
    _Atomic uint64_t handle[SHARED];
    _Atomic bool stop;
    _Atomic uint64_t seals, unseals, writes, refused, reads, frees;
} crowd;

typedef struct member {
    crowd *c;
    ref_rng rng;
} member;

static trp_buffer pick(member *m)
{
    return (trp_buffer){atomic_load(&m->c->handle[ref_rng_below(&m->rng, SHARED)])};
}

static void *seal_some(void *argument)
{
    member *m = argument;
    while (!atomic_load(&m->c->stop)) {
        trp_status status =
            trp_buffer_seal(m->c->device, pick(m), ref_rng_below(&m->rng, 2) ? TRP_FOREVER : H_MS);
        H_CHECK(status == TRP_OK || status == TRP_E_STALE || status == TRP_E_TIMEOUT);
        atomic_fetch_add(&m->c->seals, status == TRP_OK);
    }
    return NULL;
}

static void *unseal_some(void *argument)
{
    member *m = argument;
    while (!atomic_load(&m->c->stop)) {
        trp_status status = trp_buffer_unseal(m->c->device, pick(m));
        H_CHECK(status == TRP_OK || status == TRP_E_STALE);
        atomic_fetch_add(&m->c->unseals, status == TRP_OK);
    }
    return NULL;
}

/* Writes all of a buffer with one word; whoever reads finds one word. */
static void *write_some(void *argument)
{
    member *m = argument;
    while (!atomic_load(&m->c->stop)) {
        trp_completion c = {0};
        trp_status status = trp_fill(m->c->device, pick(m), 0, SHARED_BYTES,
                                     (uint32_t)ref_rng_next(&m->rng), 4, &c);
        if (status == TRP_OK)
            H_OK(h_await_any(c));
        else
            H_CHECK(status == TRP_E_ARGUMENT || status == TRP_E_STALE);
        atomic_fetch_add(status == TRP_OK ? &m->c->writes : &m->c->refused, 1);
    }
    return NULL;
}

static void *read_some(void *argument)
{
    member *m = argument;
    uint32_t *got = h_malloc(SHARED_BYTES);
    while (!atomic_load(&m->c->stop)) {
        trp_completion c = {0};
        trp_status status = trp_read(m->c->device, pick(m), 0, got, SHARED_BYTES, &c);
        if (status != TRP_OK) {
            H_IS(status, TRP_E_STALE);
            continue;
        }
        H_OK(h_await_any(c));
        for (int i = 1; i < SHARED_BYTES / 4; i++)
            H_EQUAL(got[i], got[0]);
        atomic_fetch_add(&m->c->reads, 1);
    }
    free(got);
    return NULL;
}

static trp_buffer filled(trp_device *device)
{
    trp_buffer b = h_sealable(device, SHARED_BYTES);
    H_OK(trp_fill(device, b, 0, SHARED_BYTES, 1, 4, NULL));
    return b;
}

/* Two of each kind on three buffers, which are freed under them. */
static void crowded(void)
{
    static void *(*const kinds[])(void *) = {seal_some, unseal_some, write_some, read_some};
    enum { KINDS = 4, MEMBERS = 2 * KINDS };
    h_world w = h_open(NULL);
    crowd c = {.device = w.device};
    member m[MEMBERS];
    h_thread *thread[MEMBERS];
    for (int i = 0; i < SHARED; i++)
        atomic_store(&c.handle[i], filled(w.device).id);
    for (int i = 0; i < MEMBERS; i++) {
        m[i] = (member){.c = &c, .rng = h_rng_fork()};
        thread[i] = h_start(kinds[i % KINDS], &m[i]);
    }
    int64_t end = h_now() + h_soak_ns(H_SANITIZED ? 2 : 1);
    while (h_now() < end || !atomic_load(&c.seals) || !atomic_load(&c.unseals) ||
           !atomic_load(&c.writes) || !atomic_load(&c.refused) || !atomic_load(&c.reads)) {
        size_t k = ref_rng_below(h_rng(), SHARED);
        trp_buffer old = {atomic_exchange(&c.handle[k], filled(w.device).id)};
        H_OK(trp_buffer_free(w.device, old));
        atomic_fetch_add(&c.frees, 1);
        h_sleep((int64_t)ref_rng_below(h_rng(), 3000) * 1000);
    }
    atomic_store(&c.stop, true);
    for (int i = 0; i < MEMBERS; i++)
        h_join(thread[i]);
    printf("  %" PRIu64 " seals, %" PRIu64 " unseals, %" PRIu64 " writes, %" PRIu64
           " refused, %" PRIu64 " reads, %" PRIu64 " frees\n",
           atomic_load(&c.seals), atomic_load(&c.unseals), atomic_load(&c.writes),
           atomic_load(&c.refused), atomic_load(&c.reads), atomic_load(&c.frees));
    for (int i = 0; i < SHARED; i++)
        H_OK(trp_buffer_free(w.device, (trp_buffer){atomic_load(&c.handle[i])}));
    H_OK(trp_device_drain(w.device, H_LONG));
    H_EQUAL(h_info(w.device).buffers, 0);
    H_EQUAL(h_info(w.device).memory_reserved, 0);
    h_close(&w);
}

H_CASES(H_CASE(crowded))

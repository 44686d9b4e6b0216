/* Rehearsals. A library plans, and loads its kernels, at the first request of a kind: cuBLASLt
 * takes 130 to 170 ms for the first product of a type, which the first request after a fault would
 * wait for. So a standby rehearses requests that the active worker has done, of which the
 * application stores one of each kind: it calls the same handle() of the same actor while the
 * actor's stream records instead of running, and drops the recording.
 *
 * Only requests that succeeded are stored, so none that has killed a worker is rehearsed. */
#include "worker/rehearse.h"

#include "base/os/clock.h"
#include "base/os/fence.h"
#include "wire/actor_class.h"

#include <stdlib.h>
#include <string.h>

#define AGAIN_NS (5 * TRP__MS)   /* until an actor that answered TRP_AGAIN is called again */
#define PAUSE_NS (100 * TRP__MS) /* between checks for new requests */

enum {
    ATTEMPTS = 2000, /* calls for one request: plans and proofs may take some seconds */
    ROUNDS = 50,     /* over all requests, while some have no actor yet */
};

struct trp__rehearsal {
    trp__worker *worker;
    uint64_t done;     /* the last number rehearsed */
    uint32_t attempts; /* how often the next one has answered TRP_AGAIN */
    uint32_t rounds;
    bool missed;         /* in this round a request had no actor */
    trp__rehearsed kept; /* a copy of the request */
    trp__job job;
};

trp__rehearsal *trp__rehearsal_begin(trp__worker *w)
{
    trp__rehearsal *r = NULL;
    if (w->backend->stream_rehearse)
        r = aligned_alloc(_Alignof(trp__rehearsal), sizeof *r);
    if (r)
        *r = (trp__rehearsal){.worker = w};
    return r;
}

void trp__rehearsal_end(trp__rehearsal *r)
{
    free(r);
}

/* Copies a request. False: a newer one is replacing it. */
static bool copy_kept(trp__rehearsal *r, uint64_t number)
{
    const trp__rehearsed *kept = &r->worker->control->rehearsed[number % TRP__REHEARSED];
    if (atomic_load_explicit(&kept->number, memory_order_acquire) != number)
        return false;
    memcpy(&r->kept, kept, sizeof r->kept);
    trp__fence(memory_order_acquire);
    return atomic_load_explicit(&kept->number, memory_order_relaxed) == number &&
           r->kept.record.actor < TRP__ACTORS && r->kept.record.access_count <= TRP__ACCESS_MAX;
}

/* Adds the request's piece of staging memory, as its last access. */
static bool add_piece(trp__rehearsal *r)
{
    const uint32_t bytes = r->kept.record.piece_bytes;
    trp_job *job = &r->job.api;
    if (r->kept.record.piece == 0)
        return true;
    if (bytes > sizeof r->kept.piece ||
        job->access_count >= sizeof job->access / sizeof *job->access)
        return false;
    job->access[job->access_count++] =
        (trp_job_access){.address = r->kept.piece,
                         .guard = r->kept.piece + sizeof r->kept.piece,
                         .bytes = bytes,
                         .mode = TRP_ACCESS_COVER};
    return true;
}

/* Resolves the request's accesses. Nothing is read or written there, so buffers that are gone or
 * replaced do no harm. */
static bool find_memory(trp__rehearsal *r)
{
    trp__worker *w = r->worker;
    trp_job *job = &r->job.api;
    for (uint32_t i = 0; i < r->kept.record.access_count; i++) {
        const trp__access *access = &r->kept.record.access[i];
        const trp__buffer_entry *entry = &w->control->buffer[access->slot % TRP__BUFFERS];
        const trp__arena *arena = &w->arena[entry->arena % TRP__ARENAS];
        if (access->slot >= TRP__BUFFERS ||
            atomic_load_explicit(&arena->state, memory_order_acquire) != TRP__READY)
            return false;
        job->access[i] =
            (trp_job_access){.address = (char *)arena->base + entry->offset + access->offset,
                             .guard = (char *)arena->base + arena->bytes,
                             .bytes = access->bytes,
                             .mode = (trp_access_mode)access->mode};
    }
    job->access_count = r->kept.record.access_count;
    return add_piece(r);
}

/* Returns the actor of the request, if it can rehearse it. */
static trp__instance *find_actor(trp__rehearsal *r)
{
    trp__worker_actor *a = &r->worker->actor[r->kept.record.actor];
    if (atomic_load_explicit(&a->state, memory_order_acquire) != TRP__READY) {
        r->missed = true;
        return NULL;
    }
    const trp__op_class *op =
        a->instance.class ? trp__op_class_find(a->instance.class, r->kept.record.op) : NULL;
    return op && op->rehearsed != 0 ? &a->instance : NULL;
}

/* Rehearses the request. False: the actor answered TRP_AGAIN. */
static bool go_through(trp__rehearsal *r)
{
    const trp__backend *backend = r->worker->backend;
    trp__instance *instance = find_actor(r);
    trp_error ignored = {0};
    if (!instance)
        return true;
    trp__job_begin(&r->job, &r->kept.record);
    if (!find_memory(r) || backend->stream_rehearse(instance->stream, &ignored) != TRP_OK)
        return true;
    instance->rehearsing = true;
    instance->api.backlog = 0;
    const trp_status status = instance->impl->handle(&instance->api, &r->job.api, &ignored);
    instance->rehearsing = false;
    backend->stream_forget(instance->stream);
    return status != TRP_AGAIN;
}

int64_t trp__rehearse(trp__rehearsal *r)
{
    if (!r)
        return -1;
    const uint64_t count = atomic_load(&r->worker->control->rehearsed_count);
    if (r->done >= count) {
        if (r->missed && r->rounds++ < ROUNDS)
            r->done = 0;
        r->missed = false;
        return PAUSE_NS;
    }
    if (count - r->done >= TRP__REHEARSED) { /* the oldest were replaced */
        r->done = count - TRP__REHEARSED + 1;
        r->attempts = 0;
    }
    const bool ready = r->attempts > 0 || copy_kept(r, r->done + 1);
    if (ready && !go_through(r) && ++r->attempts < ATTEMPTS)
        return AGAIN_NS;
    r->attempts = 0;
    r->done++;
    return 0;
}

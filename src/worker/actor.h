/* Actors in the worker: the public vtable of <troupe/worker.h>, which all of them implement, and
 * the worker's state of each.
 *
 * The domain and code of an error of handle() decide the reaction (wire/directive.h). Out of
 * memory, also TRP_E_MEMORY of a domain without rows: every actor's trim() runs, then handle() once
 * more. Restart: when the actor's stream is empty, stop() and init() run, on a new stream and with
 * `state` zeroed. */
#ifndef TRP_WORKER_ACTOR_H
#define TRP_WORKER_ACTOR_H

#include "wire/record.h"
#include "worker/backend.h"
#include "worker/library.h"

#include <troupe/worker.h>

struct trp__worker;

/* One actor in the worker. */
typedef struct trp__instance {
    trp_instance api; /* the actor's view; first, so that a pointer to it converts back */
    const trp_actor_impl *impl;
    const struct trp__actor_class *class; /* for names */
    const trp__backend *backend;
    trp__accel *accel;
    trp__stream *stream;
    struct trp__worker *worker; /* for the services below */
    trp__library library;       /* of impl; closed for a built-in actor */
    uint32_t id;
    bool rehearsing; /* handle() is called for a rehearsal, see rehearse.c */
    bool makes; /* its plans are work of the request itself: a request that waits for one has begun
                 */
    char name[32];
    char config[TRP_ACTOR_CONFIG_MAX + 1];
} trp__instance;

/* One request. */
typedef struct trp__job {
    trp_job api; /* the actor's view; first */
    const trp__record *record;
} trp__job;

/* Fills the actor's view of an instance whose other fields are set. */
void trp__instance_begin(trp__instance *instance, trp_backend kind, uint32_t ordinal,
                         uint32_t incarnation);

/* Starts on a record; its accesses are still to be resolved. */
static inline void trp__job_begin(trp__job *job, const trp__record *record)
{
    job->record = record;
    job->api.op = record->op;
    job->api.code = record->code;
    job->api.payload = record->payload;
    job->api.payload_bytes = record->payload_bytes;
    job->api.access_count = 0;
    job->api.progress = 0;
}

/* Returns whether the device's option says that plans serve without a proof. */
bool trp__instance_proof_off(const trp_instance *instance);

/* Returns whether handle() is called for a rehearsal, in a standby. Its stream drops all work; it
 * must not search, write to memory shared with the application, or take much memory. */
static inline bool trp__instance_rehearses(const trp_instance *instance)
{
    return ((const trp__instance *)instance)->rehearsing;
}

/* Returns the application's process, which may be the worker's own. */
uint64_t trp__instance_owner(const trp_instance *instance);

/* Validates a status and error of an actor. */
trp_status trp__actor_verdict(trp_status status, trp_error *error);

static inline trp_status trp__actor_handle(trp__instance *instance, trp__job *job, trp_error *error)
{
    error->status = TRP_OK; /* an old error is not this actor's */
    trp_status status = instance->impl->handle(&instance->api, &job->api, error);
    if (__builtin_expect(status != TRP_OK && status != TRP__AGAIN, 0))
        status = trp__actor_verdict(status, error);
    return status;
}

/* Services for the memory actors and jit only: they reach memory of the application. */

/* Finds the address of host memory that the application shared: segment 0 is the staging memory.
 * TRP__AGAIN: the segment is not registered yet (a new worker registers them one by one). */
trp_status trp__worker_host_address(struct trp__worker *worker, uint32_t segment, uint64_t offset,
                                    uint64_t bytes, void **out, trp_error *error);

/* Returns whether a buffer is live: its slot has that generation. */
bool trp__worker_buffer_live(const struct trp__worker *worker, uint32_t slot, uint32_t generation);

/* Streams of staging pieces, see wire/layout.h. */
bool trp__worker_piece_ready(struct trp__worker *worker, uint32_t stream, uint64_t chunk);
_Atomic uint64_t *trp__worker_stream_done(struct trp__worker *worker, uint32_t stream);

#endif

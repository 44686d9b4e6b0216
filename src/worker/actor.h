/* The vtable of a library actor, and what the worker gives it.
 *
 * init() and stop() run in the worker's side thread and may be slow; handle() and trim() run in the
 * scheduler thread and must only enqueue work on the actor's stream. All have the device current.
 * Calls for one actor never overlap.
 *
 * What the worker does about an error of handle() follows from its domain and code
 * (wire/directive.h). Out of memory, which is also the status TRP_E_MEMORY of an error whose domain
 * is not in that table: every actor's trim() runs, then handle() once more; so handle() must have
 * enqueued nothing then. Restart: when what it enqueued before is done, stop() and init() run, on a
 * new stream and with `state` zeroed. */
#ifndef TRP_WORKER_ACTOR_H
#define TRP_WORKER_ACTOR_H

#include "wire/record.h"
#include "worker/backend.h"

/* One actor in the worker. */
typedef struct trp__instance {
    const struct trp__actor_impl *impl;
    const struct trp__actor_class *class; /* for names */
    const trp__backend *backend;
    trp__accel *accel;
    trp__stream *stream;
    struct trp__worker *worker; /* for the services below */
    void *state;                /* impl->state_bytes, zeroed */
    uint32_t id;
    char name[32];
} trp__instance;

/* One request, checked: its accesses lie inside live buffers. */
typedef struct trp__job {
    const trp__record *record;
    void *address[TRP__ACCESS_MAX]; /* of each access, its offset included */
    void *arena_end[TRP__ACCESS_MAX];
    uint64_t progress; /* for handle() that returns TRP__AGAIN; 0 at first */
} trp__job;

typedef struct trp__actor_impl {
    size_t state_bytes;
    trp_status (*init)(trp__instance *instance, trp_error *error);
    trp_status (*handle)(trp__instance *instance, trp__job *job, trp_error *error);
    void (*trim)(trp__instance *instance); /* give back memory that it can do without; quick; may
                                            * be NULL */
    void (*stop)(trp__instance *instance); /* undo init; may be NULL */
} trp__actor_impl;

/* The address of host memory that the application shared: segment 0 is the staging memory.
 * TRP__AGAIN: the segment is on its way (a new worker registers them one by one). */
trp_status trp__worker_host_address(struct trp__worker *worker, uint32_t segment, uint64_t offset,
                                    uint64_t bytes, void **out, trp_error *error);

/* Streams of staging pieces, see wire/layout.h. */
bool trp__worker_piece_ready(struct trp__worker *worker, uint32_t stream, uint64_t chunk);
_Atomic uint64_t *trp__worker_stream_done(struct trp__worker *worker, uint32_t stream);

#endif

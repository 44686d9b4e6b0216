/* A device. Each folder has a part of it, which it and those above it use; see lock.h for the order
 * of the locks. */
#ifndef TRP_CLIENT_CORE_DEVICE_H
#define TRP_CLIENT_CORE_DEVICE_H

#include "client/api/state.h"
#include "client/core/worker.h"
#include "client/memory/state.h"
#include "client/observe/state.h"
#include "client/recovery/state.h"
#include "client/request/state.h"

/* Reads zero once it was closed: its pages are released, only the addresses remain. */
struct trp_device {
    trp_system *system;
    trp_device_options options;
    trp_backend backend;
    trp_device_info identity; /* what never changes */
    uint32_t tag;
    const uint32_t *alive; /* a page that reads zero in a forked child; NULL: closed */
    /* Ends requests that are done, to free what they hold; no lock is held but `judging` and those
     * before it. */
    void (*end_over)(trp_device *device);

    trp__control *control;
    trp__reply *reply; /* at a fixed address: a new incarnation's block replaces the mapping */
    char *staging;
    int control_fd, staging_fd;

    _Atomic bool observable; /* it is open, and `view` can be read */
    _Atomic int state;       /* trp_device_state */
    _Atomic uint32_t incarnation;
    _Atomic uint32_t restarts;
    _Atomic uint32_t slots_used; /* slots from here on were never used */
    trp__slot *slot;
    trp_error *slot_error;

    _Alignas(64) trp__lock lock; /* rarely taken by senders, who read the lines before */
    pthread_cond_t changed;      /* answers, end of start-up */
    _Atomic(trp__client_actor *) actor[TRP__ACTORS]; /* made once, used again, freed at the end */

    /* The worker that takes requests, and the warm one that waits for its death. */
    trp__process worker[TRP__WORKERS];
    uint32_t active; /* its index */
    _Atomic int64_t worker_pid, standby_pid;
    _Atomic bool standby_unwanted; /* its memory is needed elsewhere */
    trp_error down;                /* why it went down by itself; set before `state` is */

    pthread_t supervisor;
    int wake_fd;
    _Atomic bool supervisor_asleep;
    _Atomic bool closing;
    _Atomic bool alarm; /* a thread saw an invalid word of the worker */

    trp__request_state request;
    trp__memory_state memory;
    trp__observe_state observe;
    trp__recovery_state recovery;
    trp__api_state api;
};

static inline uint64_t trp__timeline(const trp_device *device, uint32_t actor)
{
    return atomic_load_explicit(&device->reply->timelines.timeline[actor].value,
                                memory_order_acquire);
}

static inline uint64_t trp__stream_done(const trp_device *device, uint32_t stream)
{
    return atomic_load_explicit(&device->reply->timelines.stream_done[stream].value,
                                memory_order_acquire);
}

/* Returns whether the worker has replied an error to a request. */
static inline bool trp__replied(const trp_device *device, uint32_t slot, uint64_t ticket)
{
    return atomic_load_explicit(&device->reply->error[slot].ticket, memory_order_acquire) == ticket;
}

/* Returns whether a timeline that has passed a ticket is invalid. Checked only if it is far ahead,
 * which is rare, and true of nearly all random values. */
static inline bool trp__timeline_absurd(const trp_device *device, uint64_t timeline,
                                        uint64_t ticket)
{
    return timeline - ticket >= TRP__RING &&
           timeline >= atomic_load(&device->control->next_ticket.value);
}

#endif

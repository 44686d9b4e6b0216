/* Watches: notices of faults, restarts and other events of a device, when they happen.
 *
 * A watch receives notices, in the order in which they were made, by a callback or in a completion
 * queue among the ends of requests. SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_WATCH_H
#define TROUPE_WATCH_H

#include <troupe/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum trp_notice_kind {
    TRP_NOTICE_NONE = 0, /* no notice: a trp_event is the end of a request */
    /* The worker died, or reported that it can't go on; `error` says how. */
    TRP_NOTICE_FAULT,
    /* A new worker was started and took over; requests run again. */
    TRP_NOTICE_RESTART,
    /* The standby took over; requests run again. */
    TRP_NOTICE_PROMOTION,
    /* An actor was stopped and started anew in its worker after the failure in `error`, whose
     * request has failed with it. */
    TRP_NOTICE_ACTOR_RESTART,
    /* It could not be started anew: its requests fail with `error`. */
    TRP_NOTICE_ACTOR_FAILED,
    /* A standby is ready. */
    TRP_NOTICE_STANDBY_READY,
    /* The standby, ready or not yet, died or was given up; `error` says why. Another is made, but
     * after one that was given up only when this worker is replaced. */
    TRP_NOTICE_STANDBY_LOST,
    /* The device went down by itself and stays so; `error` is what its calls return from now on. */
    TRP_NOTICE_STOP,
    /* Memory ran short, as `error` says: an actor was refused memory and all were asked to give
     * some back; or trp_buffer_create() met the device's end or memory_limit. */
    TRP_NOTICE_LOW_MEMORY,
    TRP_NOTICE_COUNT
} trp_notice_kind;

/* "fault", "restart", ..., "none"; NULL past the last. Static string. */
TRP_API const char *trp_notice_name(trp_notice_kind kind);

/* The bit of a kind in trp_watch_options.events. */
#define TRP_NOTICE_BIT(kind) (UINT32_C(1) << (kind))

typedef struct trp_notice {
    trp_notice_kind kind;
    uint32_t incarnation; /* the worker that it is about */
    uint64_t sequence;    /* number among all notices of the device, 1 is the first */
    /* Notices that this watch lost just before this one; see trp_device_watch(). */
    uint64_t dropped;
    int64_t time_ns;      /* CLOCK_MONOTONIC, of the event itself: of a fault, when the worker
                           * reported it or its death was seen */
    trp_error error;      /* status TRP_OK if nothing is wrong; the message says what happened */
    uint64_t reserved[4]; /* 0 */
} trp_notice;

/* Exactly one of callback and queue. */
typedef struct trp_watch_options {
    uint32_t events; /* which kinds, as TRP_NOTICE_BITs; 0: all */
    /* Called in the device's supervisor thread, one call at a time: while it runs, requests go on,
     * but the workers are not supervised. So it must be quick, and may call of this library only
     * trp_watch_end() on its own watch, and functions that return a static string
     * (trp_notice_name(), ...). The notice is valid during the call. */
    void (*callback)(void *user_data, const trp_notice *notice);
    trp_queue *queue; /* of the device's system; trp_event.notice distinguishes a notice from the
                       * end of a request */
    void *user_data;  /* for the callback, and of the trp_event */
    uint64_t reserved[4]; /* must be 0 */
} trp_watch_options;

/* Begins to watch a device: what happens from now on. A watch keeps up to 64 notices that were not
 * delivered yet. The next one pushes out the oldest; a TRP_NOTICE_LOW_MEMORY, which may come in
 * floods, replaces another one if that is the newest. `dropped` of the next delivered notice counts
 * those pushed out or replaced.
 *
 * A queue delivers its waiting notices of one watch together, in the place of the first. It can't
 * be destroyed while a watch delivers to it.
 * Errors: TRP_E_ARGUMENT, TRP_E_STALE (device or queue), TRP_E_BUSY (64 watches), TRP_E_MEMORY,
 * TRP_E_DEVICE_DOWN. */
TRP_API trp_status trp_device_watch(trp_device *device, const trp_watch_options *options,
                                    trp_watch **out);

/* Ends a watch: no callback runs after the return, and its notices are taken off its queue. Waits
 * for a callback of this watch that is running, unless called from inside it. NULL, and a watch
 * that has ended, are ignored.
 *
 * trp_device_close() ends the device's watches: callbacks get what was not delivered yet, queues
 * lose it, as they lose the ends of requests. That the device is closed is no notice. */
TRP_API void trp_watch_end(trp_watch *watch);

#ifdef __cplusplus
}
#endif
#endif

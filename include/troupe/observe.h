/* Seeing what a device does: figures of this and of other processes, metrics, traces.
 *
 * All of it costs nothing that can be measured while nobody looks. See docs/observing.md.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_OBSERVE_H
#define TROUPE_OBSERVE_H

#include <troupe/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- figures ---- */

/* How many actors a device has at most, those for its memory included. */
#define TRP_STATS_ACTORS 64

/* One actor. Every device has three for its memory: "upload", "download" and "local", of kind
 * "memory". Texts are UTF-8 without control characters; others are replaced by '?'. */
typedef struct trp_actor_stats {
    uint32_t id;              /* its number on the device, which is that of its stream too */
    char name[32];            /* as given to trp_actor_create() */
    char kind[32];            /* "blas", "memory", ... */
    uint32_t capacity;        /* requests that its mailbox takes */
    uint32_t queued;          /* requests sent and not yet issued to the device */
    uint32_t in_flight;       /* requests issued to the device and not done there */
    uint64_t sent;            /* requests accepted since the actor was made */
    uint64_t done;            /* of those, the ones that the device is done with; never goes back */
    uint64_t failed;          /* of those, the ones whose end was seen, and was an error */
    uint64_t running_request; /* the number of the oldest one in flight; 0: none */
    char running[24];         /* its operation ("gemm"); empty: none */
} trp_actor_stats;

/* One device. `info` is what trp_device_get_info() gives in its own process. The figures are read
 * one after the other while the device works on: they belong together only when it is at rest. */
typedef struct trp_device_stats {
    int64_t pid;     /* the process that has the device open */
    uint32_t number; /* tells the open devices of that process apart; used again after a close */
    trp_device_info info;
    uint64_t faults;     /* workers that died or had to be killed while they took requests */
    uint64_t promotions; /* times that a standby took over */
    uint32_t actor_count;
    trp_actor_stats actor[TRP_STATS_ACTORS]; /* by id, the first actor_count of them are set */
} trp_device_stats;

/* Reads the figures of a device of this process. Takes no lock. Also of a device that is down.
 * Errors: TRP_E_ARGUMENT, TRP_E_FORKED. */
TRP_API trp_status trp_device_get_stats(trp_device *device, trp_device_stats *out);

/* Looks into another process (or this one), by reading its shared memory: the process is neither
 * stopped nor asked, and does not notice. */
typedef struct trp_observer trp_observer;

/* Attaches to the process `pid`. It need not have a device open yet. The caller must be allowed to
 * look at /proc/PID/fd: the same user, or root.
 * Errors: TRP_E_ARGUMENT, TRP_E_MISSING (no such process), TRP_E_SYSTEM (not allowed; the message
 * says so), TRP_E_MEMORY. */
TRP_API trp_status trp_observer_open(int64_t pid, trp_observer **out);

/* Reads the figures of all devices that the process has open: fills up to `capacity` records of
 * `out` and sets *count to how many there are. One thread at a time may use an observer. What the
 * process has written there is checked; whatever it holds, this only reads.
 * Errors: TRP_E_ARGUMENT, TRP_E_MISSING (the process has ended), TRP_E_VERSION (it uses another
 * version of Troupe), TRP_E_SYSTEM. */
TRP_API trp_status trp_observer_read(trp_observer *observer, trp_device_stats *out, size_t capacity,
                                     size_t *count);

/* Detaches. NULL is ignored. */
TRP_API void trp_observer_close(trp_observer *observer);

/* ---- metrics ---- */

/* Writes figures in the text format of Prometheus, version 0.0.4 (Content-Type
 * "text/plain; version=0.0.4"): at most `size` bytes, its end included. *needed, unless NULL, is
 * set to the size that all of it takes. `out` may be NULL if size is 0.
 * Errors: TRP_E_ARGUMENT (also: size is too small; then `out` holds what fits). */
TRP_API trp_status trp_stats_metrics(const trp_device_stats *stats, size_t count, char *out,
                                     size_t size, size_t *needed);

/* The same for all open devices of a system. The size that is needed changes as actors come and
 * go: ask for it, and give some more. Errors: as trp_stats_metrics(); TRP_E_MEMORY, TRP_E_FORKED.
 */
TRP_API trp_status trp_system_metrics(trp_system *system, char *out, size_t size, size_t *needed);

/* ---- traces ---- */

/* A trace notes when each request of a device was sent, issued and done:
 *
 *   sent    trp_submit() (trp_write(), ...) has checked the request and is about to take its number
 *   issued  the worker is about to hand it to the library or driver, after everything that it
 *           waits for was handed over
 *   done    its end was seen, by the worker's scheduler or by the thread that ended it, whichever
 *           was first. Ends are seen some microseconds late (up to 100 while nothing else happens).
 *           Those that come less than 10 us apart may be seen together, up to 16 at a time.
 *
 * From these: "queued" is from sent to issued; "running" is from issued, or from the last end seen
 * before in the same stream if that is later, to done. Running thus includes waiting in the stream
 * for other actors' requests. All times are of CLOCK_MONOTONIC. */
typedef struct trp_trace_options {
    uint32_t events; /* ended requests that are kept, the newest; rounded up to a power of two, at
                      * most 4,194,304; 104 bytes of this process's memory each; 0: 65,536 */
} trp_trace_options;

/* Begins a trace of a device, and forgets the one before. Requests that were issued before are left
 * out. options may be NULL. Setting TROUPE_TRACE=PATH in the environment begins one whenever a
 * device opens and writes it when the device closes, to PATH for the first device of a process, to
 * PATH.2, PATH.3 and so on for the others.
 * Errors: TRP_E_ARGUMENT, TRP_E_MEMORY, TRP_E_FORKED. */
TRP_API trp_status trp_device_trace_start(trp_device *device, const trp_trace_options *options);

/* Ends it; what was kept can still be written. Nothing happens if there is none. */
TRP_API trp_status trp_device_trace_stop(trp_device *device);

/* Writes what is kept to a file, in the JSON format that https://ui.perfetto.dev and
 * chrome://tracing read. A process in it is an incarnation of the worker, a thread is an actor and
 * its stream. Each request has its number, actor, operation, incarnation and status with it;
 * faults, restarts and promotions are instants. A request that a fault interrupted and that ran
 * again shows both times. A running trace goes on; requests that end while its ring is copied count
 * as dropped. otherData.dropped in the file says how many were.
 * Errors: TRP_E_ARGUMENT (no trace was begun), TRP_E_MEMORY, TRP_E_SYSTEM (the file). */
TRP_API trp_status trp_device_trace_write(trp_device *device, const char *path);

#ifdef __cplusplus
}
#endif
#endif

/* Seeing what a device does: figures of this and of other processes, metrics, traces.
 *
 * Without observers, the cost is too small to measure. See docs/observing.md.
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

/* How long requests took: how many, by ranges of time, and the sum of all. Bucket i has those up to
 * trp_latency_bound(i) and above the bound before. */
enum { TRP_LATENCY_BUCKETS = 49 };
typedef struct trp_latency {
    uint64_t count; /* of all buckets */
    uint64_t sum_ns;
    uint64_t bucket[TRP_LATENCY_BUCKETS];
} trp_latency;

/* The upper bound of a bucket in ns: 1, 1.5, 2, 3, 5, 7, 10, 15, 20 us and so on to 70 s;
 * UINT64_MAX of the last, and beyond it. Any thread. */
TRP_API uint64_t trp_latency_bound(uint32_t bucket);

/* The quantile q, 0 to 1 (0.5: the median), of the times of requests in ns, to the width of its
 * bucket. `before` is an earlier reading of the same actor, whose requests are left out; NULL:
 * none. 0: no requests. Any thread. */
TRP_API uint64_t trp_latency_quantile(const trp_latency *now, const trp_latency *before, double q);

/* One actor. Every device has three for its memory: "upload", "download" and "local", of kind
 * "memory". Texts are UTF-8 without control characters; others are replaced by '?'. */
typedef struct trp_actor_stats {
    uint32_t id;        /* its number on the device, which is that of its stream too */
    char name[32];      /* as given to trp_actor_create() */
    char kind[32];      /* "blas", "memory", ... */
    uint32_t capacity;  /* requests that its mailbox takes */
    uint32_t queued;    /* requests sent and not yet issued to the device */
    uint32_t in_flight; /* requests issued to the device and not done there */
    uint64_t sent;      /* requests accepted since the actor was made */
    uint64_t done;   /* of those, the ones that the device is done with; never falls. While a worker
                        is being replaced it keeps its last value, at first 0 */
    uint64_t failed; /* of those, the ones whose end was seen, and was an error */
    uint64_t running_request;              /* the number of the oldest one in flight; 0: none */
    char running[24];                      /* its operation ("gemm"); empty: none */
    char running_label[TRP_LABEL_MAX + 1]; /* its label; empty: none */
    /* Durations of requests that were issued and have ended: `waiting_time` from sent until the
     * request was issued and its predecessors in its actor's stream had ended, `running_time` from
     * there to done. (Traces, below, define these terms.) All requests are timed while the actor
     * gets fewer than 10,000 a second; above that one in four, above 40,000 one in sixteen, which
     * then count for 4 and 16. */
    trp_latency waiting_time, running_time;
    uint64_t reserved[4]; /* 0 */
} trp_actor_stats;

/* One device. `info` is what trp_device_get_info() gives in its own process. The figures are read
 * one after the other while the device works on: they belong together only when it is at rest. */
typedef struct trp_device_stats {
    int64_t pid;      /* the process that has the device open */
    char program[32]; /* its name: the last part of the path that it was started by */
    uint32_t number;  /* tells the open devices of that process apart; used again after a close */
    trp_device_info info;
    uint64_t faults;      /* workers that died or had to be killed while they took requests */
    uint64_t promotions;  /* times that a standby took over */
    uint64_t reserved[4]; /* 0 */
    uint32_t actor_count;
    trp_actor_stats actor[TRP_STATS_ACTORS]; /* by id, the first actor_count of them are set */
} trp_device_stats;

/* Reads the figures of a device of this process. Takes no lock. Also of a device that is down.
 * Errors: TRP_E_ARGUMENT, TRP_E_FORKED. */
TRP_API trp_status trp_device_get_stats(trp_device *device, trp_device_stats *out);

/* Looks into another process (or this one), by reading its shared memory: the process is neither
 * stopped nor asked, and does not notice. */
typedef struct trp_observer trp_observer;

/* Lists the processes that have a device open, of those that the caller may look at: fills up to
 * `capacity` numbers, rising, and sets *count to how many there are. A child that a program has
 * forked counts as a process of its own only with a device that it has opened itself. A listed
 * process may have ended meanwhile. `pids` may be NULL if capacity is 0. Errors: TRP_E_ARGUMENT,
 * TRP_E_MEMORY, TRP_E_SYSTEM (/proc). */
TRP_API trp_status trp_observer_find(int64_t *pids, size_t capacity, size_t *count);

/* Attaches to the process `pid`. It need not have a device open yet. The caller must be allowed to
 * look at /proc/PID/fd: the same user, or root.
 * Errors: TRP_E_ARGUMENT, TRP_E_MISSING (no such process), TRP_E_SYSTEM (not allowed; the message
 * says so), TRP_E_MEMORY. */
TRP_API trp_status trp_observer_open(int64_t pid, trp_observer **out);

/* Reads the figures of all devices that the process has open: fills up to `capacity` records of
 * `out` and sets *count to how many there are. One thread at a time may use an observer. The
 * process's data are checked, and never written. Errors: TRP_E_ARGUMENT, TRP_E_MISSING (the process
 * has ended), TRP_E_VERSION (it uses another version of Troupe), TRP_E_SYSTEM. */
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
 *           Ends less than 10 us apart may be seen together, up to 16 at a time.
 *
 * From these: "queued" is from sent to issued; "running" is from issued, or from the last end seen
 * before in the same stream if that is later, to done. Running thus includes waiting in the stream
 * for other actors' requests. All times are of CLOCK_MONOTONIC. */
typedef struct trp_trace_options {
    uint32_t events; /* ended requests in the ring, the newest; rounded up to a power of two, at
                      * most 4,194,304; 112 bytes of this process's memory each; 0: 65,536 */
    uint64_t reserved[4]; /* must be 0 */
} trp_trace_options;

/* Begins a trace of a device, and forgets the one before. Requests that were issued before are left
 * out. options may be NULL. Setting TROUPE_TRACE=PATH in the environment begins one whenever a
 * device opens and writes it when the device closes, or the program ends by exit() before, to PATH
 * for the first device of a process, to PATH.2, PATH.3 and so on for the others. %p in PATH is the
 * process's number, %% a percent sign.
 * Errors: TRP_E_ARGUMENT, TRP_E_MEMORY, TRP_E_FORKED. */
TRP_API trp_status trp_device_trace_start(trp_device *device, const trp_trace_options *options);

/* Ends it; its events can still be written. Nothing happens if there is none. */
TRP_API trp_status trp_device_trace_stop(trp_device *device);

/* Writes the events to a file, in the JSON format that https://ui.perfetto.dev and
 * chrome://tracing read. A process in it is an incarnation of the worker, a thread is an actor and
 * its stream. Each request has its number, actor, operation, label, incarnation and status with it;
 * faults, restarts and promotions are instants. A request that a fault interrupted and that ran
 * again shows both times. A running trace goes on; requests that end while its ring is copied count
 * as dropped. otherData.dropped in the file says how many were. Errors: TRP_E_ARGUMENT (no trace
 * was begun), TRP_E_MEMORY, TRP_E_SYSTEM (the file; a FIFO that no process has open, or that none
 * reads from for 10 s). */
TRP_API trp_status trp_device_trace_write(trp_device *device, const char *path);

#ifdef __cplusplus
}
#endif
#endif

/* Figures of a device for other processes: a memory file, "troupe-stats", that only the application
 * can write. `troupe top` finds it through /proc/PID/fd.
 *
 * It holds only what the control and the reply block lack, which it names by descriptor and inode:
 * observers read requests, tickets and timelines there, at no cost to the application. */
#ifndef TRP_WIRE_STATS_H
#define TRP_WIRE_STATS_H

#include "wire/layout.h"

#include <troupe/observe.h>

#define TRP__STATS_MAGIC UINT64_C(0x6174732d70757274)
#define TRP__STATS_FILE  "troupe-stats"

/* A short string that is read while it may be written: in words, so that each access is atomic. */
typedef struct trp__shared_name {
    _Atomic uint64_t word[4];
} trp__shared_name;

/* Durations of requests, see client/observe/latency.h. Any thread of the application adds to it. */
typedef struct trp__histogram {
    _Atomic uint64_t sum_ns;
    _Atomic uint64_t bucket[TRP_LATENCY_BUCKETS];
} trp__histogram;

typedef struct trp__stats_actor {
    /* The tail of the mailbox itself: requests sent to this number since the device was opened. */
    _Alignas(64) _Atomic uint64_t tail;

    /* Odd while the rest is being changed. */
    _Alignas(64) _Atomic uint32_t version;
    _Atomic uint32_t live;
    _Atomic uint32_t capacity;
    _Atomic uint64_t first;  /* the tail when the actor was made */
    _Atomic uint64_t failed; /* requests of this actor that ended with an error */
    trp__shared_name kind, name;

    /* Beside the version: they only grow while the actor lives. */
    _Alignas(64) trp__histogram waiting;
    trp__histogram running;
} trp__stats_actor;

/* A memory file of the application: which descriptor, and which inode that one must be. */
typedef struct trp__stats_file {
    _Atomic int32_t fd;
    _Atomic uint64_t inode;
} trp__stats_file;

typedef struct trp__stats {
    trp__block_head head; /* written last */

    /* Never changes. */
    trp_device_info
        identity; /* what trp_device_get_info() says of the device before it is opened */
    int64_t pid;
    char program[32];
    uint32_t number; /* among the open devices of the process */
    uint32_t isolation;
    uint64_t memory_limit;
    trp__stats_file control;

    /* Written by the supervisor. `version` is odd meanwhile. */
    _Alignas(64) _Atomic uint32_t version;
    _Atomic uint32_t state;
    _Atomic uint32_t incarnation;
    _Atomic uint32_t restarts;
    _Atomic int64_t worker_pid, standby_pid;
    _Atomic uint64_t faults, promotions;
    trp__stats_file reply; /* of that incarnation */

    /* Written under the lock of the device's memory. */
    _Alignas(64) _Atomic uint64_t memory_reserved;
    _Atomic uint64_t memory_used, buffers;

    /* Written where requests end badly and where slots are used for the first time: rarely. */
    _Alignas(64) _Atomic uint64_t failed; /* of all actors, since the device was opened */
    _Atomic uint32_t slots;               /* request slots from here on were never used */

    trp__stats_actor actor[TRP__ACTORS];
} trp__stats;

#define TRP__STATS_BYTES ((sizeof(trp__stats) + 4095) / 4096 * 4096)

#endif

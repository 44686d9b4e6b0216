/* State of a device for figures, traces and watches. */
#ifndef TRP_CLIENT_OBSERVE_STATE_H
#define TRP_CLIENT_OBSERVE_STATE_H

#include "base/os/lock.h"
#include "wire/layout.h"
#include "wire/stats.h"

#include <pthread.h>

/* The three blocks of a device, of this or another process. Nothing in them is trusted. */
typedef struct trp__view {
    const trp__stats *stats;
    const trp__control *control; /* NULL: not mapped; then queues are unknown */
    const trp__reply *reply;     /* the same */
    /* For each actor, how many of the requests counted by its mailbox's tail were known to be
     * done. */
    _Atomic uint64_t done[TRP__ACTORS];
} trp__view;

typedef struct trp__observe_state {
    trp__stats *stats;
    int stats_fd;
    trp__view view;
    uint64_t faults, promotions; /* the supervisor's */
    struct trp__trace *trace;
    trp__lock watch_lock;
    pthread_cond_t watch_idle; /* a callback has returned */
    struct trp__watch *watches;
    uint32_t watch_count;
    uint64_t notices;          /* made so far */
    _Atomic bool notices_wait; /* for the supervisor to call a callback */
} trp__observe_state;

#endif

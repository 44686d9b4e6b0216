/* The figures of a device: publishing them for others (stats.c), reading them (view.c). */
#ifndef TRP_CLIENT_OBSERVE_STATS_H
#define TRP_CLIENT_OBSERVE_STATS_H

#include "wire/stats.h"

#include <troupe/observe.h>

typedef struct trp__client_actor trp__client_actor; /* client.h */

/* Makes the memory file, all zero: without a head nobody takes it for one yet. */
trp_status trp__stats_create(trp_device *device, trp_error *error);
/* The device is set up: from here on others may read. */
void trp__stats_begin(trp_device *device);
void trp__stats_destroy(trp_device *device);

/* State, incarnation, restarts, workers. Called by the supervisor alone, whenever they change. */
void trp__stats_publish(trp_device *device);
/* memory_lock is held. */
void trp__stats_memory(trp_device *device);
void trp__stats_slots(trp_device *device, uint32_t used);
void trp__stats_failed(trp_device *device, uint32_t actor);
/* An actor was made or dropped; device->lock is held, or nobody else knows the device. */
void trp__stats_put_actor(trp__client_actor *actor);

/* The three blocks of a device, of this or another process. Nothing in them is trusted. */
typedef struct trp__view {
    const trp__stats *stats;
    const trp__control *control; /* NULL: not to be had; then nothing is known of queues */
    const trp__reply *reply;     /* the same */
    /* By actor, in the numbers of its mailbox's tail: how many were known to be done. */
    _Atomic uint64_t done[TRP__ACTORS];
} trp__view;

/* Any thread. */
void trp__view_read(trp__view *view, trp_device_stats *out);

const char *trp__device_state_name(trp_device_state state);

#endif

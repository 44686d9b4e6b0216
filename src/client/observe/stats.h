/* The figures of a device: publishing them for others (stats.c), reading them (view.c). */
#ifndef TRP_CLIENT_OBSERVE_STATS_H
#define TRP_CLIENT_OBSERVE_STATS_H

#include "client/core/device.h"

#include <troupe/observe.h>

/* Makes the memory file, all zero: observers ignore it until it has a head. */
trp_status trp__stats_create(trp_device *device, trp_error *error);
/* The device is set up: from here on others may read. */
void trp__stats_begin(trp_device *device);
void trp__stats_destroy(trp_device *device);

/* State, incarnation, restarts, workers. Called by the supervisor alone, whenever they change. */
void trp__stats_publish(trp_device *device);
/* Bytes of device memory in arenas and in buffers, and the number of buffers; one thread at a
 * time. */
void trp__stats_memory(trp_device *device, uint64_t reserved, uint64_t used, uint64_t buffers);
void trp__stats_slots(trp_device *device, uint32_t used);
void trp__stats_failed(trp_device *device, uint32_t actor);
/* An actor was made or dropped; device->lock is held, or no other thread has the device yet. */
void trp__stats_put_actor(trp__client_actor *actor);

/* Any thread. */
void trp__view_read(trp__view *view, trp_device_stats *out);

const char *trp__device_state_name(trp_device_state state);

#endif

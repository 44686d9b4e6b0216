/* What a death costs with TRP_FAULT_SCOPE_ALL: the content of every buffer that the dead worker
 * could write to, whoever was using it. Called by the supervisor, after the requests that the
 * worker had finished are ended and before the others are judged:
 *
 *   begin   every buffer is lost; a request that reads one fails, by the rule for an input that was
 *           never written (can_run in supervisor.c)
 *   cover   for each request that is still to run, in ticket order
 *   end     notes for those who send later: a buffer that a request in the queue writes whole is
 *           good again after that one, so it is lost up to the request before; any other is lost up
 *           to the last ticket
 *
 * Sealed buffers are left out: the worker had them mapped read-only. */
#include "client/client.h"

/* Between begin and end, as a dependency: a request in the queue writes all of it. Until that one
 * is judged, those that read it are before it. */
#define COVERED TRP__SCOPE_FIRST

static bool is_guarded(const trp_device *device, uint32_t slot)
{
    const trp__client_arena *arena = &device->arena[device->control->buffer[slot].arena];
    return device->meta[slot].sealable && (arena->guarded & (1U << device->active));
}

static bool noted(const trp_device *device, uint32_t slot, uint32_t generation, uint64_t as)
{
    const trp__buffer_meta *meta = &device->meta[slot];
    return meta->judged_incarnation == atomic_load(&device->incarnation) &&
           meta->judged_generation == generation && meta->judged_ticket == as;
}

void trp__scope_begin(trp_device *device)
{
    pthread_mutex_lock(&device->memory_lock);
    pthread_mutex_lock(&device->lock);
    for (uint32_t slot = 0; slot < device->buffers_made; slot++) {
        trp__buffer_meta *meta = &device->meta[slot];
        if (is_guarded(device, slot) || meta->module) /* whose image has a checksum */
            continue;
        meta->judged_incarnation = atomic_load(&device->incarnation);
        meta->judged_generation = (uint32_t)(atomic_load(&meta->hold) >> 32);
        meta->judged_ticket = TRP__SCOPE_LOST;
        meta->judged_cover = 0;
        atomic_store(&meta->good_ticket, 0);
    }
    pthread_mutex_unlock(&device->lock);
    pthread_mutex_unlock(&device->memory_lock);
}

void trp__scope_cover(trp_device *device, const trp__record *record)
{
    for (uint32_t i = 0; i < record->access_count; i++) {
        const trp__access *a = &record->access[i];
        trp__buffer_meta *meta = &device->meta[a->slot];
        if (!trp__access_covers(device, a) ||
            !noted(device, a->slot, a->generation, TRP__SCOPE_LOST))
            continue;
        meta->judged_ticket = COVERED;
        trp__buffer_mark_lost(device, a->slot, record->ticket - 1);
    }
}

void trp__scope_end(trp_device *device, uint64_t last)
{
    pthread_mutex_lock(&device->memory_lock);
    for (uint32_t slot = 0; slot < device->buffers_made; slot++) {
        trp__buffer_meta *meta = &device->meta[slot];
        uint32_t generation = (uint32_t)(atomic_load(&meta->hold) >> 32);
        if (noted(device, slot, generation, TRP__SCOPE_LOST))
            trp__buffer_mark_lost(device, slot, last);
        else if (noted(device, slot, generation, COVERED))
            meta->judged_ticket = TRP__SCOPE_LOST;
    }
    pthread_mutex_unlock(&device->memory_lock);
}

/* TRP_FAULT_SCOPE_ALL: a death loses every buffer that the dead worker could write to. Called by
 * the supervisor, after the requests that the worker had finished are ended and before the others
 * are judged:
 *
 *   begin   every buffer is lost; a request that reads one fails, by the rule for an input that was
 *           never written (can_run in judge.c)
 *   cover   for each request that is still to run, in ticket order
 *   end     notes for later senders: a buffer that a request in the queue writes whole is good
 * again after that request, so it is lost up to the one before; any other is lost up to the last
 * ticket
 *
 * The unit is the buffer: a request that writes a part of one repairs nothing for later senders.
 * Sealed buffers are exempt: the worker had them mapped read-only. */
#include "client/recovery/recovery.h"

/* Between begin and end, as a dependency: a request in the queue writes all of it. Requests that
 * read it and are judged before that one come before it. */
#define COVERED TRP__SCOPE_FIRST

static bool is_guarded(const trp_device *device, uint32_t slot)
{
    const trp__client_arena *arena = &device->memory.arena[device->control->buffer[slot].arena];
    return device->memory.meta[slot].sealable && (arena->guarded & (1U << device->active));
}

void trp__scope_begin(trp_device *device)
{
    trp__lock_take(&device->memory.lock);
    trp__lock_take(&device->lock);
    for (uint32_t slot = 0; slot < device->memory.buffers_made; slot++) {
        if (!is_guarded(device, slot) &&
            !device->memory.meta[slot].object) /* objects have checksums of their own */
            trp__contents_judge_all(device, slot, TRP__SCOPE_LOST);
    }
    trp__lock_drop(&device->lock);
    trp__lock_drop(&device->memory.lock);
}

void trp__scope_cover(trp_device *device, const trp__record *record)
{
    for (uint32_t i = 0; i < record->access_count; i++) {
        const trp__access *a = &record->access[i];
        if ((a->mode & TRP__COVER) && a->whole &&
            trp__contents_rejudge(device, a->slot, a->generation, TRP__SCOPE_LOST, COVERED))
            trp__contents_raise(device, a, TRP__LOST, record->ticket - 1);
    }
}

void trp__scope_end(trp_device *device, uint64_t last)
{
    trp__lock_take(&device->memory.lock);
    for (uint32_t slot = 0; slot < device->memory.buffers_made; slot++) {
        const trp__access all = {.slot = slot, .whole = true};
        uint32_t generation = (uint32_t)(atomic_load(&device->memory.meta[slot].hold) >> 32);
        if (trp__contents_rejudge(device, slot, generation, TRP__SCOPE_LOST, TRP__SCOPE_LOST))
            trp__contents_raise(device, &all, TRP__LOST, last);
        else
            trp__contents_rejudge(device, slot, generation, COVERED, TRP__SCOPE_LOST);
    }
    trp__lock_drop(&device->memory.lock);
}

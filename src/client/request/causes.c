/* Ends the causes of a failure before the failure itself, so that failures.h knows them. */
#include "client/memory/failures.h"
#include "client/request/request.h"

#include <sched.h>
#include <stdlib.h>

/* Ends a request that the device is done with, or waits until another thread has. */
static void end_one(trp_device *device, trp__slot *slot, uint64_t ticket)
{
    for (;;) {
        const uint64_t state = atomic_load(&slot->state);
        const trp__phase phase = trp__phase_of(state);
        const uint32_t actor = atomic_load(&slot->actor) % TRP__ACTORS;
        if (atomic_load(&slot->ticket) != ticket ||
            (phase != TRP__PENDING && phase != TRP__RETIRING))
            return;
        if (phase == TRP__RETIRING) {
            sched_yield();
            continue;
        }
        const uint64_t done = trp__timeline(device, actor);
        /* A cause writes, so a large read is none. */
        if (done < ticket || trp__timeline_absurd(device, done, ticket) ||
            atomic_load(&slot->stream) == TRP__LANE_DOWNLOAD)
            return;
        trp__retire(device, slot, state, NULL);
    }
}

/* Ends requests in ticket order, so that each cause is noted before its dependants. */
static void end_before(trp_device *device, uint64_t ticket)
{
    uint64_t *cells = malloc(TRP__SLOTS * sizeof *cells);
    uint32_t count = 0;
    if (!cells)
        return;
    for (uint32_t i = 0; i < atomic_load(&device->slots_used); i++) {
        const trp__slot *slot = &device->slot[i];
        trp__phase phase = trp__phase_of(atomic_load(&slot->state));
        uint64_t one = atomic_load(&slot->ticket);
        if ((phase == TRP__PENDING || phase == TRP__RETIRING) && one != 0 && one < ticket)
            cells[count++] = one << TRP__SLOT_BITS | i;
    }
    qsort(cells, count, sizeof *cells, trp__by_ticket);
    for (uint32_t i = 0; i < count; i++)
        end_one(device, &device->slot[cells[i] & (TRP__SLOTS - 1)], cells[i] >> TRP__SLOT_BITS);
    free(cells);
}

void trp__end_causes(trp_device *device, const trp__slot *slot)
{
    const trp__reply_error *reply = &device->reply->error[slot->index];
    const uint64_t ticket = atomic_load(&slot->ticket);
    const volatile uint64_t *said = &reply->cause;
    const uint64_t cause = *said;
    if (cause != 0 && cause < ticket && !trp__failures_known(device, cause))
        end_before(device, ticket);
}

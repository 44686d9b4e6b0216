/* Poison: a request that reads what a failed request should have written must not compute on
 * rubbish. It ends with TRP_E_DEPENDENCY, unless its sender knew of the failure when sending it.
 *
 * Three places see to that. The worker knows exactly which failed request comes last before the one
 * that it is about to issue (worker/poison.c). The supervisor does the same for requests that a
 * dead worker had not begun. And here a request is refused at once if what it reads is known to be
 * poisoned. `poison_ticket` is the last failed request that should have written a buffer, and
 * `accepted_ticket` the last of those whose failure was told: its future was awaited, or its event
 * taken from a queue. A request carries the latter as it was when it was sent. So who was told
 * when, and not how fast anybody was, decides what it may read.
 *
 * Neither needs the buffer to be alive: a ticket of a buffer that is gone is smaller than all that
 * are given to requests of the next one in its slot. */
#include "client/client.h"

/* Who reads. One that has its ticket runs before later requests; so it does not count for it that
 * these write all of the buffer, or that their failures were told. What counts then is what was
 * seen before it took its ticket. */
typedef struct reader {
    uint64_t ticket;
    const trp__look *look;
} reader;

static const reader whoever_comes = {.ticket = UINT64_MAX};

/* The last request sent that writes all of the buffer before it is read. */
static uint64_t cover_for(const trp__buffer_meta *meta, const reader *r)
{
    uint64_t last = atomic_load_explicit(&meta->cover_ticket, memory_order_acquire);
    return last > r->ticket ? r->look->cover : last;
}

/* The last failed request whose failure was told before. */
static uint64_t accepted_for(const trp__buffer_meta *meta, const reader *r)
{
    uint64_t last = atomic_load_explicit(&meta->accepted_ticket, memory_order_acquire);
    return last > r->ticket ? r->look->accepted : last;
}

uint64_t trp__buffer_accepted(const trp_device *device, uint32_t slot, uint64_t ticket,
                              const trp__look *look)
{
    return accepted_for(&device->meta[slot], &(reader){.ticket = ticket, .look = look});
}

static bool is_lost(const trp__buffer_meta *meta, const reader *r)
{
    /* A fault has left it half-written; it was not written anew; and no request that will do so is
     * under way, of which the last one sent can tell. If that one has failed, it hides nothing. */
    uint64_t lost = atomic_load_explicit(&meta->lost_ticket, memory_order_acquire);
    if (lost == 0 || lost <= atomic_load_explicit(&meta->good_ticket, memory_order_acquire))
        return false;
    uint64_t cover = cover_for(meta, r);
    return lost >= cover ||
           atomic_load_explicit(&meta->poison_ticket, memory_order_acquire) >= cover ||
           accepted_for(meta, r) >= cover;
}

bool trp__buffer_lost(const trp_device *device, uint32_t slot)
{
    return is_lost(&device->meta[slot], &whoever_comes);
}

static bool is_poisoned(const trp__buffer_meta *meta, const reader *r)
{
    uint64_t poison = atomic_load_explicit(&meta->poison_ticket, memory_order_acquire);
    return poison > accepted_for(meta, r) && poison >= cover_for(meta, r);
}

trp_status trp__buffer_readable(const trp_device *device, uint32_t slot, uint64_t *cause)
{
    return trp__buffer_readable_at(device, slot, UINT64_MAX, NULL, cause);
}

/* The same for a request that has its ticket. `look`: what was seen before. */
trp_status trp__buffer_readable_at(const trp_device *device, uint32_t slot, uint64_t ticket,
                                   const trp__look *look, uint64_t *cause)
{
    const trp__buffer_meta *meta = &device->meta[slot];
    const reader r = {.ticket = ticket, .look = look};
    if (is_lost(meta, &r)) {
        *cause = atomic_load(&meta->lost_ticket);
        return TRP_E_LOST;
    }
    if (is_poisoned(meta, &r)) {
        *cause = atomic_load(&meta->poison_ticket);
        return TRP_E_DEPENDENCY;
    }
    return TRP_OK;
}

/* The last failed request that should have written a buffer which was not written anew since; 0 for
 * none. */
uint64_t trp__poison_standing(const trp_device *device, uint32_t slot)
{
    const trp__buffer_meta *meta = &device->meta[slot];
    uint64_t poison = atomic_load(&meta->poison_ticket);
    return poison > atomic_load(&meta->good_ticket) ? poison : 0;
}

static void raise_outputs(trp_device *device, const trp__slot *slot, size_t member)
{
    const trp__record *record = &device->control->record[slot->index];
    uint64_t ticket = atomic_load_explicit(&slot->ticket, memory_order_relaxed);
    for (uint32_t i = 0; i < record->access_count; i++) {
        char *meta = (char *)&device->meta[record->access[i].slot];
        if (record->access[i].mode & TRP__WRITE)
            trp__raise_ticket((_Atomic uint64_t *)(void *)(meta + member), ticket);
    }
}

/* A request has failed; it still holds its buffers. */
void trp__poison_outputs(trp_device *device, const trp__slot *slot)
{
    raise_outputs(device, slot, offsetof(trp__buffer_meta, poison_ticket));
}

/* Its failure is being told. */
void trp__poison_accept(trp_device *device, const trp__slot *slot)
{
    raise_outputs(device, slot, offsetof(trp__buffer_meta, accepted_ticket));
}

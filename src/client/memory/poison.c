/* Poison: a request must not compute on outputs that a failed request should have written. It ends
 * with TRP_E_DEPENDENCY, unless the failure was delivered before it was sent.
 *
 * Three places check. The worker knows exactly which failed request comes last before the one that
 * it is about to issue (worker/poison.c). The supervisor checks requests that a dead worker had not
 * begun. And here a sender refuses a request at once if an input is known to be poisoned. The
 * contents (client/memory/contents.h) have for each byte the last failed request that should have
 * written it, and the last of those whose failure was delivered: its future was awaited, or its
 * event taken from a queue. A request carries the latter as it was when it was sent. So the order
 * of deliveries, and not the speed of any thread, decides what a request may read.
 *
 * The words need no live buffer: tickets of a buffer that is gone are smaller than those of
 * requests on the next one in its slot. */
#include "client/memory/failures.h"
#include "client/memory/memory.h"

#include <sched.h>

/* A reader. Requests after its ticket don't count: neither that they write all of the range, nor
 * that their failures were delivered. Then the state before it took its ticket counts. */
typedef struct reader {
    uint64_t ticket;
    const trp__look *look;
} reader;

static const reader whoever_comes = {.ticket = UINT64_MAX};

/* Returns the last request sent that writes all of a part before it is read. */
static uint64_t cover_for(const trp__part *part, const reader *r)
{
    uint64_t last = part->word[TRP__COVERED];
    return last > r->ticket ? r->look->cover : last;
}

/* Returns the last failed request whose failure was delivered before. */
static uint64_t accepted_for(const trp__part *part, const reader *r)
{
    uint64_t last = part->word[TRP__ACCEPTED];
    return last > r->ticket ? r->look->accepted : last;
}

static bool is_lost(const trp__part *part, const reader *r)
{
    /* Lost: half-written by a fault, not written since, and not covered by a request under way. A
     * covering request that has failed does not count. */
    uint64_t lost = part->word[TRP__LOST];
    if (lost == 0 || lost <= part->word[TRP__GOOD])
        return false;
    uint64_t cover = cover_for(part, r);
    return lost >= cover || part->word[TRP__POISON] >= cover || accepted_for(part, r) >= cover;
}

static bool is_poisoned(const trp__part *part, const reader *r)
{
    uint64_t poison = part->word[TRP__POISON];
    return poison > accepted_for(part, r) && poison >= cover_for(part, r);
}

bool trp__buffer_lost(trp_device *device, uint32_t slot)
{
    bool lost = false;
    if (!trp__is_damaged(&device->memory.meta[slot].contents))
        return false;
    trp__walk walk = trp__walk_begin(device, slot, 0, device->control->buffer[slot].bytes);
    for (const trp__part *part; !lost && (part = trp__walk_next(&walk));)
        lost = is_lost(part, &whoever_comes);
    trp__walk_end(&walk);
    return lost;
}

trp__look trp__access_look(trp_device *device, const trp__access *access)
{
    const trp__contents *c = &device->memory.meta[access->slot].contents;
    if (atomic_load_explicit(&c->parts, memory_order_acquire) == 0)
        return (trp__look){atomic_load_explicit(&c->word[TRP__COVERED], memory_order_relaxed),
                           atomic_load_explicit(&c->word[TRP__ACCEPTED], memory_order_relaxed)};
    trp__look look = {UINT64_MAX, UINT64_MAX};
    trp__walk walk = trp__walk_access(device, access);
    for (const trp__part *part; (part = trp__walk_next(&walk));) {
        if (part->word[TRP__COVERED] < look.cover)
            look.cover = part->word[TRP__COVERED];
        if (part->word[TRP__ACCEPTED] < look.accepted)
            look.accepted = part->word[TRP__ACCEPTED];
    }
    return look;
}

trp_status trp__access_readable(trp_device *device, const trp__access *access, uint64_t *cause)
{
    return trp__access_readable_at(device, access, UINT64_MAX, NULL, cause);
}

trp_status trp__access_readable_at(trp_device *device, const trp__access *access, uint64_t ticket,
                                   const trp__look *look, uint64_t *cause)
{
    const reader r = {.ticket = ticket, .look = look};
    trp_status status = TRP_OK;
    if (!trp__is_damaged(&device->memory.meta[access->slot].contents))
        return TRP_OK;
    trp__walk walk = trp__walk_access(device, access);
    for (const trp__part *part; status != TRP_E_LOST && (part = trp__walk_next(&walk));) {
        if (is_lost(part, &r)) {
            *cause = part->word[TRP__LOST];
            status = TRP_E_LOST;
        } else if (is_poisoned(part, &r) &&
                   (status == TRP_OK || *cause < part->word[TRP__POISON])) {
            *cause = part->word[TRP__POISON];
            status = TRP_E_DEPENDENCY;
        }
    }
    trp__walk_end(&walk);
    return status;
}

/* Waits for senders that have a ticket below `end` but have not stored it into the ring yet. The
 * caller's own ticket is later, so there is no deadlock. */
static void await_published(const trp_device *device, uint64_t end)
{
    uint64_t taken = atomic_load(&device->reply->taken.value);
    uint64_t first = end > TRP__RING ? end - TRP__RING : 1;
    for (uint64_t ticket = taken > first ? taken : first; ticket < end; ticket++) {
        const trp__cell *cell = &device->control->ring[ticket % TRP__RING];
        while (atomic_load(cell) >> TRP__SLOT_BITS < ticket)
            sched_yield();
    }
}

/* Returns whether a pending request may yet fail, or has failed and was not ended. */
static bool may_have_failed(const trp_device *device, const trp__slot *slot, uint64_t ticket)
{
    uint32_t actor = atomic_load(&slot->actor) % TRP__ACTORS;
    return trp__timeline(device, actor) < ticket || trp__replied(device, slot->index, ticket);
}

/* Returns whether a slot has a request before a ticket that may write a buffer and whose possible
 * failure is not known yet. The slot may be reused meanwhile: then its ticket has changed at the
 * end. */
static bool hides_failure(const trp_device *device, const trp__slot *slot, uint32_t buffer,
                          uint64_t ticket)
{
    uint64_t one = atomic_load(&slot->ticket);
    trp__phase phase = trp__phase_of(atomic_load(&slot->state));
    return one != 0 && one < ticket && phase >= TRP__FILLING && phase <= TRP__RETIRING &&
           (atomic_load(&slot->writes) >> buffer % 64 & 1) && !atomic_load(&slot->retired_early) &&
           may_have_failed(device, slot, one) && atomic_load(&slot->ticket) == one;
}

static bool all_known_before(const trp_device *device, uint32_t buffer, uint64_t ticket)
{
    await_published(device, ticket);
    for (uint32_t i = 0; i < atomic_load(&device->slots_used); i++) {
        if (hides_failure(device, &device->slot[i], buffer, ticket))
            return false;
    }
    return true;
}

uint64_t trp__access_last_acked(trp_device *device, const trp__access *access, uint64_t ticket,
                                const trp__look *look)
{
    const reader r = {.ticket = ticket, .look = look};
    uint64_t last = 0;
    if (!trp__is_damaged(&device->memory.meta[access->slot].contents))
        return 0;
    trp__walk walk = trp__walk_access(device, access);
    for (const trp__part *part; (part = trp__walk_next(&walk));) {
        uint64_t accepted = accepted_for(part, &r);
        last = accepted > last ? accepted : last;
    }
    return last;
}

uint64_t trp__access_note_acked(trp_device *device, trp__record *record, trp__access *access,
                                uint64_t ticket, const trp__look *look)
{
    const reader r = {.ticket = ticket, .look = look};
    uint64_t least = UINT64_MAX, most = 0, unnamed = 0;
    trp__set_accepted(access, 0);
    if (!trp__is_damaged(&device->memory.meta[access->slot].contents))
        return 0;
    trp__walk walk = trp__walk_access(device, access);
    for (const trp__part *part; (part = trp__walk_next(&walk));) {
        uint64_t accepted = accepted_for(part, &r);
        least = accepted < least ? accepted : least;
        most = accepted > most ? accepted : most;
        if (accepted != 0 && !trp__ack_failure(record, accepted))
            unnamed = accepted > unnamed ? accepted : unnamed;
    }
    if (least >= most || unnamed <= least) {
        trp__set_accepted(access, least < most ? least : most);
        return 0;
    }
    /* Some are too old to note. If all failures are known, the latest delivered one stands for
     * all. */
    bool known = all_known_before(device, access->slot, most);
    trp__set_accepted(access, known ? most : least);
    return known ? 0 : unnamed;
}

bool trp__poison_stands(trp_device *device, uint32_t slot, uint64_t ticket)
{
    bool stands = false;
    if (!trp__is_damaged(&device->memory.meta[slot].contents))
        return false;
    trp__walk walk = trp__walk_begin(device, slot, 0, device->control->buffer[slot].bytes);
    for (const trp__part *part; !stands && (part = trp__walk_next(&walk));)
        stands = part->word[TRP__POISON] == ticket && ticket > part->word[TRP__GOOD];
    trp__walk_end(&walk);
    return stands;
}

static void raise_outputs(trp_device *device, const trp__slot *slot, trp__word word)
{
    const trp__record *record = &device->control->record[slot->index];
    uint64_t ticket = atomic_load_explicit(&slot->ticket, memory_order_relaxed);
    for (uint32_t i = 0; i < record->access_count; i++) {
        if (record->access[i].mode & TRP__WRITE)
            trp__contents_raise(device, &record->access[i], word, ticket);
    }
}

/* Poisons the outputs of a failed request, which still holds its buffers. */
void trp__poison_outputs(trp_device *device, const trp__slot *slot)
{
    trp__failures_poison(device, slot); /* first the cause, then the poison */
    raise_outputs(device, slot, TRP__POISON);
}

/* The failure is delivered. */
void trp__poison_accept(trp_device *device, const trp__slot *slot)
{
    raise_outputs(device, slot, TRP__ACCEPTED);
}

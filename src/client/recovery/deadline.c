/* Finds requests that run past their deadlines, or that the worker does not begin. In the
 * supervisor thread. */
#include "base/os/clock.h"
#include "base/error.h"
#include "client/recovery/judge.h"

#define BEGIN_NS TRP__SECOND /* beyond its deadline, for a request to be begun */

/* Returns how far the worker has come with a request. One that was retired early keeps its place
 * like any other. */
static trp__standing standing_of(const trp_device *device, const trp__slot *slot, uint64_t ticket)
{
    if (trp__retired_early(slot) != ticket)
        return trp__progress_of(device, slot, ticket);
    uint32_t actor = atomic_load(&slot->actor) % TRP__ACTORS;
    return device->recovery.seen.timeline[actor] >= ticket ? TRP__WAS_DONE : TRP__WAS_QUEUED;
}

/* Returns the cell of the first request of an actor that is not done, 0 if there is none; *p says
 * whether it was issued. */
static uint64_t first_cell(trp_device *device, trp__client_actor *actor, trp__standing *p,
                           uint64_t *deadline_ns)
{
    uint64_t head = atomic_load(&actor->head);
    uint64_t tail = atomic_load(actor->tail);
    for (; head < tail; head++) {
        uint64_t cell = atomic_load(&actor->mailbox[head & (actor->capacity - 1)]);
        trp__slot *slot = &device->slot[cell & (TRP__SLOTS - 1)];
        if (cell == 0)
            return 0;
        *p = standing_of(device, slot, cell >> TRP__SLOT_BITS);
        if (*p == TRP__WAS_DONE || *p == TRP__WAS_GONE)
            continue;
        *deadline_ns = trp__retired_early(slot) ? 0 : atomic_load(&slot->deadline_ns);
        return cell;
    }
    return 0;
}

/* Copies the list of accesses of a pending request. If the request ends meanwhile and its slot is
 * used again, the ticket has changed and the copy is discarded: returns 0. */
__attribute__((no_sanitize("thread"))) static uint32_t
copy_accesses(const trp_device *device, uint64_t cell, trp__access access[TRP__ACCESS_MAX])
{
    const trp__slot *slot = &device->slot[cell & (TRP__SLOTS - 1)];
    const volatile trp__record *record = &device->control->record[slot->index];
    uint32_t count = record->access_count;
    count = count < TRP__ACCESS_MAX ? count : TRP__ACCESS_MAX;
    for (uint32_t i = 0; i < count; i++) {
        access[i].slot = record->access[i].slot;
        access[i].mode = record->access[i].mode;
    }
    return atomic_load(&slot->ticket) == cell >> TRP__SLOT_BITS ? count : 0;
}

static bool in_conflict(const trp__access *a, uint32_t a_count, const trp__access *b,
                        uint32_t b_count)
{
    for (uint32_t i = 0; i < a_count; i++) {
        for (uint32_t k = 0; k < b_count; k++) {
            if (a[i].slot == b[k].slot && ((a[i].mode | b[k].mode) & TRP__WRITE))
                return true;
        }
    }
    return false;
}

/* Returns whether a request waits, in its stream, for an earlier one of another actor. */
static bool waits_for_another(const trp_device *device, uint64_t cell)
{
    trp__access mine[TRP__ACCESS_MAX], others[TRP__ACCESS_MAX];
    uint32_t count = copy_accesses(device, cell, mine);
    uint32_t actor = atomic_load(&device->slot[cell & (TRP__SLOTS - 1)].actor);
    for (uint32_t i = 0; i < atomic_load(&device->slots_used); i++) {
        const trp__slot *slot = &device->slot[i];
        uint64_t ticket = atomic_load(&slot->ticket);
        if (ticket == 0 || ticket >= cell >> TRP__SLOT_BITS || atomic_load(&slot->actor) == actor)
            continue;
        trp__standing p = standing_of(device, slot, ticket);
        if ((p == TRP__WAS_IN_FLIGHT || p == TRP__WAS_QUEUED) &&
            in_conflict(mine, count, others,
                        copy_accesses(device, ticket << TRP__SLOT_BITS | i, others)))
            return true;
    }
    return false;
}

/* Returns whether a request has been at the head of its stream, with nothing to wait for, for
 * longer than its deadline. */
static bool is_overdue(trp_device *device, trp__client_actor *actor, uint64_t cell,
                       uint64_t deadline_ns, int64_t now)
{
    if (cell == 0 || cell != actor->watched ||
        (deadline_ns != 0 && waits_for_another(device, cell))) {
        actor->watched = cell;
        actor->watched_since = now;
        return false;
    }
    return deadline_ns != 0 && (uint64_t)(now - actor->watched_since) >= deadline_ns;
}

/* Returns whether the worker is making something that requests may have to wait for. */
static bool is_making(trp_device *device)
{
    const trp__process *p = &device->worker[device->active];
    trp__lock_take(&device->lock);
    bool owes = p->outbox.count > 0;
    trp__lock_drop(&device->lock);
    return owes || (p->reply && atomic_load(&p->reply->starting) != 0);
}

/* Returns whether an actor has asked a request to wait since the last call: it compiles, plans or
 * proves for the request, which counts for no deadline. */
static bool asks_to_wait(trp_device *device)
{
    const trp__process *p = &device->worker[device->active];
    const uint32_t again = p->reply ? atomic_load(&p->reply->again) : 0;
    const bool asks = again != device->recovery.seen_again;
    device->recovery.seen_again = again;
    return asks;
}

/* Returns whether the worker has not begun a request in time. `cell`: the first request of all, if
 * none is in flight; else 0. */
static bool is_not_begun(trp_device *device, uint64_t cell, uint64_t deadline_ns, int64_t now)
{
    const bool waits = asks_to_wait(device);
    if (cell == 0 || cell != device->recovery.idle_cell || is_making(device) || waits) {
        device->recovery.idle_cell = cell;
        device->recovery.idle_since = now;
        return false;
    }
    uint64_t idle = (uint64_t)(now - device->recovery.idle_since);
    return idle >= (uint64_t)BEGIN_NS && idle - (uint64_t)BEGIN_NS >= deadline_ns;
}

/* Finds a request that has run past its deadline, or that the worker does not begin. Its time
 * counts from when it is seen at the head of its stream with nothing to wait for. */
trp__hang trp__find_hung(trp_device *device)
{
    int64_t now = trp__now_ns();
    uint64_t unbegun = 0, unbegun_deadline_ns = 0;
    bool busy = false;
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__client_actor *actor = atomic_load(&device->actor[i]);
        uint64_t deadline_ns = 0;
        trp__standing p = TRP__WAS_GONE;
        uint64_t cell = actor ? first_cell(device, actor, &p, &deadline_ns) : 0;
        if (!actor)
            continue;
        bool running = cell != 0 && p == TRP__WAS_IN_FLIGHT;
        busy = busy || running;
        if (is_overdue(device, actor, running ? cell : 0, deadline_ns, now))
            return (trp__hang){.ticket = cell >> TRP__SLOT_BITS, .begun = true};
        if (cell != 0 && !running && (unbegun == 0 || cell < unbegun)) {
            unbegun = cell;
            unbegun_deadline_ns = deadline_ns ? deadline_ns : device->options.start_timeout_ns;
        }
    }
    if (is_not_begun(device, busy ? 0 : unbegun, unbegun_deadline_ns, now))
        return (trp__hang){.ticket = unbegun >> TRP__SLOT_BITS};
    return (trp__hang){0};
}

void trp__describe_hang(const trp__hang *h, trp_error *cause)
{
    if (h->begun)
        trp__error_set(cause, TRP_E_FAULT,
                       "request %llu ran past its deadline; its worker was killed",
                       (unsigned long long)h->ticket);
    else
        trp__error_set(cause, TRP_E_FAULT,
                       "request %llu was not begun within its deadline, though nothing else was "
                       "running; its worker was killed",
                       (unsigned long long)h->ticket);
    cause->fault = TRP_FAULT_HANG;
}

/* Cancelling: a request that was not issued yet ends with TRP_E_CANCELLED, at once, though what is
 * before it in its actor still runs.
 *
 * Who cancels marks the record and then looks how far the worker has come; the worker says how far
 * it has come and then looks for the mark. So if the request is not issued by what can be seen
 * here, the worker is sure to find the mark, and its future can be ended without asking. Else the
 * worker was quicker, or it looks at this moment and answers if it finds the mark.
 *
 * To the worker the request is still one among others: it keeps its place in the order, and so its
 * slot, its record and its buffers, until the worker has passed it. Such a slot is *detained*. It
 * is free when it was passed and its future is ended, whichever comes last.
 *
 * `judging` keeps apart those who decide here and the supervisor, who decides about the requests of
 * a dead worker. A request that a dead worker had begun is not cancelled: it may have done half of
 * its work. */
#include "base/error.h"
#include "client/client.h"

#include <sched.h>

enum { FLAG_BITS = 3 };

static uint64_t detained_word(uint64_t ticket, uint32_t flags)
{
    return ticket << FLAG_BITS | flags;
}

/* The last to be done with a detained slot gives it back. */
static void free_detained(trp_device *device, trp__slot *slot, uint64_t owned)
{
    atomic_store(&slot->detained, 0);
    trp__slot_release(device, slot, owned);
}

/* A slot whose future is ended, owned by the caller: gives it back, unless it is detained. */
void trp__slot_taken(trp_device *device, trp__slot *slot, uint64_t owned)
{
    if (atomic_load_explicit(&slot->detained, memory_order_acquire) == 0) {
        trp__slot_release(device, slot, owned);
        return;
    }
    uint64_t before = atomic_fetch_and(&slot->detained, ~(uint64_t)TRP__UNTAKEN);
    if (!(before & (TRP__UNPASSED | TRP__PASSING)))
        free_detained(device, slot, owned);
}

/* The ticket of a request that the worker has yet to pass though it has ended; 0 if the slot has
 * none. */
uint64_t trp__detained(const trp__slot *slot)
{
    uint64_t word;
    while ((word = atomic_load(&slot->detained)) & TRP__PASSING)
        sched_yield(); /* a few stores */
    return word & TRP__UNPASSED ? word >> FLAG_BITS : 0;
}

/* The worker has passed a request that had ended before, or never will: what it held is given back,
 * and what it should have written is poisoned. */
void trp__detained_pass(trp_device *device, trp__slot *slot, uint64_t ticket)
{
    uint64_t word = atomic_load(&slot->detained);
    do {
        if (word >> FLAG_BITS != ticket || !(word & TRP__UNPASSED))
            return;
    } while (!atomic_compare_exchange_weak(&slot->detained, &word,
                                           (word & ~(uint64_t)TRP__UNPASSED) | TRP__PASSING));
    trp__poison_outputs(device, slot);
    trp__release_holdings(device, slot);
    word = atomic_fetch_and(&slot->detained, ~(uint64_t)TRP__PASSING);
    if (!(word & TRP__UNTAKEN))
        free_detained(device, slot, atomic_load(&slot->state));
}

/* Whether nothing more is to be done for the request that had this ticket; does it if the worker
 * has passed it. */
bool trp__detained_over(trp_device *device, trp__slot *slot, uint64_t ticket)
{
    uint64_t word = atomic_load_explicit(&slot->detained, memory_order_acquire);
    if (word >> FLAG_BITS != ticket || !(word & TRP__UNPASSED))
        return true;
    uint32_t actor = atomic_load_explicit(&slot->actor, memory_order_relaxed);
    if (trp__timeline(device, actor) < ticket && atomic_load(&device->state) != TRP_DEVICE_DOWN)
        return false;
    trp__detained_pass(device, slot, ticket);
    return true;
}

/* Tells the end. Its future may be dropped at any moment before. */
static void tell_detained(trp_device *device, trp__slot *slot, uint64_t generation, uint64_t ticket)
{
    uint64_t state = atomic_load(&slot->state);
    uint64_t next;
    atomic_store(&slot->detained, detained_word(ticket, TRP__UNPASSED | TRP__UNTAKEN));
    do
        next = state & TRP__WANTED ? trp__state(generation, TRP__DONE) | TRP__WANTED
                                   : trp__state(generation, TRP__FILLING);
    while (!atomic_compare_exchange_weak(&slot->state, &state, next));
    trp__wake_sleepers(device, slot);
    if (!(next & TRP__WANTED))
        trp__slot_taken(device, slot, next);
}

/* Ends a request that will not be issued. */
static void end_unissued(trp_device *device, trp__slot *slot, uint64_t state, uint64_t ticket)
{
    uint64_t generation = trp__generation_of(state);
    if (!atomic_compare_exchange_strong(
            &slot->state, &state, trp__state(generation, TRP__RETIRING) | (state & TRP__WANTED)))
        return;
    trp_error *error = &device->slot_error[slot->index];
    slot->status = trp__refusal(error, TRP_E_CANCELLED, 0);
    trp__describe_failure(device, slot, error);
    if (atomic_load_explicit(&slot->stream, memory_order_relaxed) >= 0)
        trp__transfer_end(device, slot);
    if (slot->deadline_ns)
        atomic_fetch_sub(&device->deadlines, 1);
    tell_detained(device, slot, generation, ticket);
}

/* Whether the worker has answered that it found the mark. */
static bool answered(const trp_device *device, uint32_t slot, uint64_t ticket)
{
    return trp__replied(device, slot, ticket) &&
           device->reply->error[slot].status == TRP_E_CANCELLED;
}

/* The worker had seemed to be quicker than who cancelled this request: ends it if it was not. */
void trp__cancel_in_doubt(trp_device *device, trp__slot *slot, uint64_t state)
{
    uint64_t ticket = atomic_load(&slot->ticket);
    if (!(state & TRP__WANTED) || !answered(device, slot->index, ticket) ||
        pthread_mutex_trylock(&device->judging) != 0)
        return;
    /* Not if a worker has died meanwhile and the request was judged to run again. */
    if (atomic_load(&device->control->record[slot->index].cancelled) == ticket &&
        answered(device, slot->index, ticket) && atomic_load(&slot->ticket) == ticket)
        end_unissued(device, slot, state, ticket);
    pthread_mutex_unlock(&device->judging);
}

/* Marks a pending request; `judging` is held. */
static void cancel_pending(trp_device *device, trp__slot *slot, uint64_t generation)
{
    uint64_t ticket = atomic_load(&slot->ticket);
    uint64_t state = atomic_load(&slot->state);
    uint32_t actor = atomic_load(&slot->actor) % TRP__ACTORS;
    /* Still the same request, so the ticket is its own. */
    if (!trp__is_future(state, generation) || trp__phase_of(state) != TRP__PENDING ||
        atomic_load(&slot->deaths) > 0)
        return;
    trp__raise_ticket(&device->control->record[slot->index].cancelled, ticket);
    atomic_store(&slot->cancelling, true);
    if (atomic_load(&device->reply->issued[actor].value) < ticket)
        end_unissued(device, slot, state, ticket);
}

trp_status trp_cancel(trp_future future)
{
    trp_device *device;
    uint64_t generation;
    trp__slot *slot = trp__future_slot(future, &device, &generation);
    if (!slot || generation == 0)
        return trp__future_stale();
    trp_status status = trp__device_usable(device);
    if (status == TRP_E_FORKED)
        return status;
    uint64_t state = atomic_load(&slot->state);
    if (!trp__is_future(state, generation))
        return trp__future_stale();
    if (trp__phase_of(state) == TRP__PENDING && !trp__try_finish(device, slot, state)) {
        pthread_mutex_lock(&device->judging);
        cancel_pending(device, slot, generation);
        pthread_mutex_unlock(&device->judging);
    }
    return TRP_OK;
}

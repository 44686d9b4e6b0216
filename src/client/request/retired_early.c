/* Requests that fail before their turn: cancelled ones, and those that a worker's death has ended.
 * Their end is told at once. But what they should have written is poisoned in the order of the
 * tickets, for those that come before have yet to read it, and one word for each buffer, the last
 * failure, says nothing of failures before it. So to the next worker such a request is one among
 * others, which it refuses in its turn: the request keeps its place in the order, and so its slot,
 * its record and its buffers, until a worker has passed it. Such a slot is *retired early*. It is
 * free when it was passed and its result was taken, whichever comes last. */
#include "client/request/request.h"

#include <sched.h>

enum {
    UNPASSED = 1, /* the worker has yet to pass it */
    UNTAKEN = 2,  /* nobody has taken its result yet */
    PASSING = 4,  /* a thread is at what follows from its being passed */
    FLAG_BITS = 3,
};

/* The request has failed, and its end is about to be told. */
void trp__mark_retired_early(trp__slot *slot, uint64_t ticket)
{
    atomic_store(&slot->retired_early, ticket << FLAG_BITS | UNPASSED | UNTAKEN);
}

/* The last to be done with a slot that is retired early gives it back. Its ticket goes first: a
 * slot that has it and is not retired early would be taken for one whose failure is unknown. */
static void free_retired_early(trp_device *device, trp__slot *slot, uint64_t owned)
{
    atomic_store(&slot->ticket, 0);
    atomic_store(&slot->retired_early, 0);
    trp__slot_release(device, slot, owned);
}

/* A slot whose result was taken, owned by the caller: gives it back, unless it is retired early. */
void trp__slot_taken(trp_device *device, trp__slot *slot, uint64_t owned)
{
    if (atomic_load_explicit(&slot->retired_early, memory_order_acquire) == 0) {
        trp__slot_release(device, slot, owned);
        return;
    }
    uint64_t before = atomic_fetch_and(&slot->retired_early, ~(uint64_t)UNTAKEN);
    if (!(before & (UNPASSED | PASSING)))
        free_retired_early(device, slot, owned);
}

/* The ticket of a request that the worker has yet to pass though it has ended; 0 if the slot has
 * none. */
uint64_t trp__retired_early(const trp__slot *slot)
{
    uint64_t word;
    while ((word = atomic_load(&slot->retired_early)) & PASSING)
        sched_yield(); /* a few stores */
    return word & UNPASSED ? word >> FLAG_BITS : 0;
}

/* The worker has passed a request that had ended before, or never will: what it held is given back,
 * and what it should have written is poisoned. */
void trp__retired_early_pass(trp_device *device, trp__slot *slot, uint64_t ticket)
{
    uint64_t word = atomic_load(&slot->retired_early);
    do {
        if (word >> FLAG_BITS != ticket || !(word & UNPASSED))
            return;
    } while (!atomic_compare_exchange_weak(&slot->retired_early, &word,
                                           (word & ~(uint64_t)UNPASSED) | PASSING));
    trp__poison_outputs(device, slot);
    trp__release_holdings(device, slot);
    word = atomic_fetch_and(&slot->retired_early, ~(uint64_t)PASSING);
    if (!(word & UNTAKEN))
        free_retired_early(device, slot, atomic_load(&slot->state));
}

/* Whether nothing more is to be done for the request that had this ticket; does it if the worker
 * has passed it. */
bool trp__retired_early_over(trp_device *device, trp__slot *slot, uint64_t ticket)
{
    uint64_t word = atomic_load_explicit(&slot->retired_early, memory_order_acquire);
    if (word >> FLAG_BITS != ticket || !(word & UNPASSED))
        return true;
    uint32_t actor = atomic_load_explicit(&slot->actor, memory_order_relaxed);
    if (trp__timeline(device, actor) < ticket && atomic_load(&device->state) != TRP_DEVICE_DOWN)
        return false;
    trp__retired_early_pass(device, slot, ticket);
    return true;
}

/* Requests retired early: they fail before their turn, cancelled or ended by a worker's death, and
 * their end is delivered at once. But their outputs must be poisoned in ticket order: earlier
 * requests have yet to read them, and a buffer has one word for its last failure only. So the
 * worker still gets such a request and refuses it in its turn. The request keeps its place in the
 * order, its slot, its record and its buffers until a worker has passed it. The slot is free when
 * it was passed and its result was taken, whichever comes last. */
#include "client/request/request.h"

#include <sched.h>

enum {
    UNPASSED = 1, /* the worker has yet to pass it */
    UNTAKEN = 2,  /* its result was not taken yet */
    PASSING = 4,  /* a thread is poisoning its outputs */
    FLAG_BITS = 3,
};

/* The request has failed, and its end is about to be delivered. */
void trp__mark_retired_early(trp__slot *slot, uint64_t ticket)
{
    atomic_store(&slot->retired_early, ticket << FLAG_BITS | UNPASSED | UNTAKEN);
}

/* Frees a slot that was passed and taken. Clears the ticket first: a slot that has it and is not
 * retired early would count as one whose failure is unknown. */
static void free_retired_early(trp_device *device, trp__slot *slot, uint64_t owned)
{
    atomic_store(&slot->ticket, 0);
    atomic_store(&slot->retired_early, 0);
    trp__slot_release(device, slot, owned);
}

/* Frees a slot whose result was taken, owned by the caller, unless it is retired early and not
 * passed. */
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

/* Returns the ticket of a request that is retired early and that the worker has yet to pass; 0:
 * none. */
uint64_t trp__retired_early(const trp__slot *slot)
{
    uint64_t word;
    while ((word = atomic_load(&slot->retired_early)) & PASSING)
        sched_yield(); /* a few stores */
    return word & UNPASSED ? word >> FLAG_BITS : 0;
}

/* The worker has passed a request that was retired early, or never will: releases its holdings and
 * poisons its outputs. */
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

/* Returns whether the request that had this ticket is no longer retired early; passes it if the
 * worker has. */
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

/* Delivery of results to the program's memory.
 *
 * The worker leaves the result of a small read, a dot product and the like in staging memory; the
 * thread that ends the request copies it from there, and copying threads empty the pieces of a
 * large read. Programs await only the last of several requests, so the end of one is delivered only
 * after the results of all earlier requests that the device is done with, which include those of
 * its own actor and those that it depended on. The supervisor ends requests with results that are
 * not awaited: it sweeps every half millisecond while there are any. */
#include "client/core/backoff.h"
#include "client/request/request.h"

/* A thread between taking its place in a mailbox and its ticket may be overtaken, so places are out
 * of order by the requests that threads send at the same time. A search for earlier tickets goes on
 * past LATER_MOST later ones, times the longest list, whose places are taken at once. */
enum { LATER_MOST = 256 };

/* Notes the length of a list that is about to be sent. */
void trp__delivery_note_list(trp__client_actor *actor, uint32_t count)
{
    uint32_t longest = atomic_load(&actor->longest);
    while (longest < count && !atomic_compare_exchange_weak(&actor->longest, &longest, count))
        continue;
}

/* Returns whether a request has a result that has to be copied when it ends. */
bool trp__delivers(const trp__slot *slot)
{
    return slot->read_target ||
           atomic_load_explicit(&slot->stream, memory_order_relaxed) == TRP__LANE_DOWNLOAD;
}

void trp__delivery_begin(trp__client_actor *actor)
{
    atomic_fetch_add(&actor->deliveries, 1);
    atomic_fetch_add(&actor->device->request.deliveries, 1);
}

/* The result was delivered, or there is none. */
void trp__delivery_end(trp__client_actor *actor)
{
    atomic_fetch_sub(&actor->deliveries, 1);
    atomic_fetch_sub(&actor->device->request.deliveries, 1);
}

/* Waits until a request has ended, if the device is done with it. */
static void deliver_one(trp_device *device, trp__slot *slot, uint64_t ticket)
{
    trp__backoff backoff = trp__backoff_begin(TRP_FOREVER);
    for (;;) {
        const uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
        const trp__phase phase = trp__phase_of(state);
        const uint32_t actor = atomic_load(&slot->actor) % TRP__ACTORS;
        int64_t nap = 0;
        if (atomic_load(&slot->ticket) != ticket ||
            (phase != TRP__PENDING && phase != TRP__RETIRING))
            break;
        if (phase == TRP__PENDING) {
            if (trp__try_finish(device, slot, state) || atomic_load(&slot->state) != state)
                continue; /* it has ended, or another thread is ending it */
            /* The pieces of a large read may be on their way. */
            if (atomic_load(&slot->stream) != TRP__LANE_DOWNLOAD ||
                trp__timeline(device, actor) < ticket)
                break;
        }
        trp__backoff_step(&backoff, &nap); /* another thread is ending it */
        if (nap > 0)
            trp__nap(nap);
    }
    trp__backoff_end(&backoff);
}

static void deliver(trp__client_actor *actor, uint64_t ticket)
{
    trp__sweep(actor);
    uint64_t place = atomic_load_explicit(&actor->head, memory_order_acquire);
    const uint64_t end = atomic_load_explicit(actor->tail, memory_order_relaxed);
    const uint64_t most = LATER_MOST * (1 + (uint64_t)atomic_load(&actor->longest));
    for (uint64_t later = 0; place < end && later < most; place++) {
        const uint64_t cell = atomic_load_explicit(&actor->mailbox[place & (actor->capacity - 1)],
                                                   memory_order_acquire);
        if (cell == 0)
            continue;
        if (cell >> TRP__SLOT_BITS < ticket)
            deliver_one(actor->device, &actor->device->slot[cell & (TRP__SLOTS - 1)],
                        cell >> TRP__SLOT_BITS);
        else
            later++;
    }
}

/* Delivers all results of requests with tickets below this one that the device is done with. No
 * lock is held that ending a request takes. */
void trp__deliver_before(trp_device *device, uint64_t ticket)
{
    if (atomic_load(&device->request.deliveries) == 0)
        return;
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__client_actor *actor = atomic_load(&device->actor[i]);
        if (actor && atomic_load(&actor->deliveries) > 0)
            deliver(actor, ticket);
    }
}

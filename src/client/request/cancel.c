/* Cancelling: a request that was not issued yet ends with TRP_E_CANCELLED, at once, though what is
 * before it in its actor still runs.
 *
 * The canceller marks the record and then reads `issued`; the worker writes `issued` and then looks
 * for the mark. So if the request does not appear issued here, the worker is sure to find the mark,
 * and its future can be ended at once. Else the worker was quicker, or it looks at this moment and
 * replies if it finds the mark.
 *
 * The worker still has the request and refuses it in its turn; until then the request is retired
 * early (retired_early.c).
 *
 * `judging` excludes the supervisor, which judges the requests of a dead worker. A request that a
 * dead worker had begun is not cancelled: it may have done half of its work. */
#include "base/call.h"
#include "base/error.h"
#include "client/request/request.h"

static void end_unissued(trp_device *device, trp__slot *slot, uint64_t state)
{
    trp_error error;
    trp__refusal(&error, TRP_E_CANCELLED, 0);
    trp__retire_early(device, slot, state, &error);
}

/* Returns whether the worker has replied that it found the mark. */
static bool answered(const trp_device *device, uint32_t slot, uint64_t ticket)
{
    return trp__replied(device, slot, ticket) &&
           device->reply->error[slot].status == TRP_E_CANCELLED;
}

/* Ends a request that seemed issued when it was cancelled, if the worker has found the mark after
 * all. */
void trp__cancel_in_doubt(trp_device *device, trp__slot *slot, uint64_t state)
{
    uint64_t ticket = atomic_load(&slot->ticket);
    bool alone = atomic_load_explicit(&slot->leader, memory_order_relaxed) == TRP__NO_SLOT;
    if ((alone && !(state & TRP__WANTED)) || !answered(device, slot->index, ticket) ||
        !trp__lock_try(&device->request.judging))
        return;
    /* Not if a worker has died meanwhile and the request was judged to run again. */
    if (atomic_load(&device->control->record[slot->index].cancelled) == ticket &&
        answered(device, slot->index, ticket) && atomic_load(&slot->ticket) == ticket)
        end_unissued(device, slot, state);
    trp__lock_drop(&device->request.judging);
}

/* Marks the request with a ticket and a state, if it is pending; `judging` is held. */
static void cancel_pending(trp_device *device, trp__slot *slot, uint64_t ticket, uint64_t state)
{
    uint32_t actor = atomic_load(&slot->actor) % TRP__ACTORS;
    if (trp__phase_of(state) != TRP__PENDING || atomic_load(&slot->deaths) > 0)
        return;
    trp__raise_ticket(&device->control->record[slot->index].cancelled, ticket);
    atomic_store(&slot->cancelling, true);
    if (atomic_load(&device->reply->issued[actor].value) < ticket)
        end_unissued(device, slot, state);
}

/* Cancels the request of a future. */
static void cancel_one(trp_device *device, trp__slot *slot, uint64_t generation)
{
    uint64_t ticket = atomic_load(&slot->ticket);
    uint64_t state = atomic_load(&slot->state);
    if (trp__is_future(state, generation)) /* the same request still, so the ticket is its own */
        cancel_pending(device, slot, ticket, state);
}

/* Cancels the members of a list, whose tickets are consecutive up to the leader's. The list may end
 * meanwhile and its slots be used again: slots with other tickets are left alone. */
static void cancel_list(trp_device *device, trp__slot *leader, uint64_t generation)
{
    uint64_t last = atomic_load(&leader->ticket);
    uint64_t first = last + 1 - atomic_load(&leader->members);
    uint32_t index = atomic_load(&leader->first);
    if (!trp__is_future(atomic_load(&leader->state), generation))
        return;
    for (uint64_t ticket = first; ticket <= last; ticket++) {
        trp__slot *slot = &device->slot[index % TRP__SLOTS];
        uint64_t state = atomic_load(&slot->state);
        index = atomic_load(&slot->mate);
        if (atomic_load(&slot->ticket) != ticket || atomic_load(&slot->state) != state)
            return;
        cancel_pending(device, slot, ticket, state);
    }
}

trp_status trp_cancel(trp_future future)
{
    TRP__CALL(trp__call_refused());
    trp_device *device;
    uint64_t generation;
    trp__slot *slot;
    trp_status status = trp__future_find(future, &device, &slot, &generation);
    if (status != TRP_OK)
        return status;
    uint64_t state = atomic_load(&slot->state);
    if (!trp__is_future(state, generation))
        return trp__future_stale();
    if (trp__phase_of(state) == TRP__DONE ||
        (trp__phase_of(state) == TRP__PENDING && trp__try_finish(device, slot, state) &&
         !trp__leads(slot)))
        return TRP_OK;
    trp__lock_take(&device->request.judging);
    if (trp__leads(slot))
        cancel_list(device, slot, generation);
    else
        cancel_one(device, slot, generation);
    trp__lock_drop(&device->request.judging);
    return TRP_OK;
}

/* Ending requests. Any thread that sees that a request is done may end it: its waiter, a sender in
 * need of room, the supervisor. The change from PENDING to RETIRING picks one of them. */
#include "base/error.h"
#include "base/os/futex.h"
#include "base/text.h"
#include "client/memory/failures.h"
#include "client/observe/latency.h"
#include "client/observe/trace.h"
#include "client/request/request.h"

#include <string.h>

void trp__error_name(trp_error *error, const trp__client_actor *actor, uint32_t op,
                     const char *label)
{
    trp__copy_string(error->actor, sizeof error->actor, actor ? actor->name : "");
    trp__op_name(actor ? actor->class : NULL, op, error->operation, sizeof error->operation);
    trp__copy_string(error->label, sizeof error->label, label ? label : "");
    trp__text_clean(error->label);
}

/* Reads the worker's error reply to a request, if there is one. */
static bool read_reply(const trp_device *device, uint32_t slot, uint64_t ticket, trp_error *error)
{
    trp__reply_error *reply = &device->reply->error[slot];
    if (!trp__replied(device, slot, ticket))
        return false;
    trp__reply_import(error, reply, &device->control->record[slot]);
    return true;
}

static void copy_small_read(const trp_device *device, trp__slot *slot)
{
    if (!slot->read_target)
        return;
    char *piece = device->staging + trp__small_offset(slot->piece);
    if (slot->boxed)
        trp__transfer_scatter(&slot->transfer, slot->read_target, piece);
    else
        memcpy(slot->read_target, piece, slot->read_bytes);
}

/* Updates the contents of outputs at the end of a request: lost if they may be half-written, else
 * good. Poison is noted elsewhere. */
static void settle_outputs(trp_device *device, const trp__slot *slot, const trp__record *record,
                           uint64_t ticket, bool early)
{
    bool failed = slot->status != TRP_OK;
    /* A worker that died had begun it, or a large copy was partly done. */
    bool halfway = failed && slot->status != TRP_E_CANCELLED &&
                   (atomic_load(&record->begun) || (slot->status == TRP_E_FAULT && !early) ||
                    atomic_load_explicit(&slot->stream, memory_order_relaxed) >= 0);
    for (uint32_t i = 0; i < record->access_count; i++) {
        const trp__access *access = &record->access[i];
        if (!(access->mode & TRP__WRITE))
            continue;
        if (halfway)
            trp__contents_raise(device, access, TRP__LOST, ticket);
        else if (!failed && (access->mode & TRP__COVER))
            trp__contents_raise(device, access, TRP__GOOD, ticket);
    }
}

void trp__release_holdings(trp_device *device, trp__slot *slot)
{
    const trp__record *record = &device->control->record[slot->index];
    for (uint32_t i = 0; i < record->access_count; i++)
        trp__access_release(device, &record->access[i]);
    trp__piece_return(device, slot);
    if (slot->segment)
        trp__segment_release(device, slot->segment);
}

/* Completes the error that ends a request, and notes it as the cause for requests that depend on
 * this one. */
static void describe_failure(trp_device *device, const trp__slot *slot, trp_error *error)
{
    uint32_t actor = atomic_load_explicit(&slot->actor, memory_order_relaxed);
    error->request = atomic_load_explicit(&slot->ticket, memory_order_relaxed);
    trp__error_name(error, device->actor[actor], device->control->record[slot->index].op,
                    slot->label);
    trp__failures_note(device, slot, error);
    atomic_fetch_add(&device->request.failed, 1);
    trp__stats_failed(device, actor);
}

void trp__wake_sleepers(trp_device *device, const trp__slot *slot)
{
    trp__record *record = &device->control->record[slot->index];
    if (atomic_load(&record->sleepers) > 0) {
        atomic_fetch_add(&record->ended, 1);
        trp__futex_wake(&record->ended, INT32_MAX);
    }
}

/* Gives a slot that this thread owns (its state is `owned`) back. */
void trp__slot_release(trp_device *device, trp__slot *slot, uint64_t owned)
{
    uint64_t generation = trp__generation_of(owned) + 1;
    if ((generation & UINT32_MAX) == 0)
        generation++; /* a future's generation is never 0 */
    /* A thread that sees the ticket gone also sees the delivered result, see deliver.c. */
    atomic_store_explicit(&slot->ticket, 0, memory_order_release);
    atomic_store(&slot->state, trp__state(generation, TRP__FREE));
    trp__index_push(&device->request.free_slots, &device->slot->next_free, sizeof(trp__slot),
                    slot->index);
}

/* Hands the ended request to its queue or future; without either, gives the slot back. */
void trp__report_end(trp_device *device, trp__slot *slot, uint64_t generation)
{
    trp_queue *queue = slot->queue;
    if (queue) {
        trp__queue_push(queue, slot, trp__state(generation, TRP__DONE));
        atomic_fetch_sub(&device->request.queue_bound, 1);
        return;
    }
    /* A future may be dropped at any moment before it is done. */
    uint64_t state = atomic_load(&slot->state);
    uint64_t next;
    do
        next = state & TRP__WANTED ? trp__state(generation, TRP__DONE) | TRP__WANTED
                                   : trp__state(generation, TRP__FILLING);
    while (!atomic_compare_exchange_weak(&slot->state, &state, next));
    trp__wake_sleepers(device, slot);
    if (!(next & TRP__WANTED))
        trp__result_taken(device, slot, next);
}

static bool end(trp_device *device, trp__slot *slot, uint64_t pending_state,
                const trp_error *failure, bool early)
{
    uint64_t generation = trp__generation_of(pending_state);
    uint64_t wanted = pending_state & TRP__WANTED;
    if (!failure && __builtin_expect(trp__replied(device, slot->index, slot->ticket), 0))
        trp__end_causes(device, slot);
    if (!atomic_compare_exchange_strong(&slot->state, &pending_state,
                                        trp__state(generation, TRP__RETIRING) | wanted))
        return false;

    const trp__record *record = &device->control->record[slot->index];
    uint64_t ticket = atomic_load_explicit(&slot->ticket, memory_order_relaxed);
    trp_error *error = &device->slot_error[slot->index];
    bool replied = !failure && read_reply(device, slot->index, ticket, error);
    bool failed = failure || replied;
    if (failure)
        *error = *failure;
    slot->status = failed ? error->status : TRP_OK;

    if (atomic_load_explicit(&slot->stream, memory_order_relaxed) >= 0)
        trp__transfer_end(device, slot);
    if (failed) {
        if ((replied && !trp__is_refusal(error->status)) || error->status == TRP_E_FAULT)
            error->incarnation = atomic_load(&device->incarnation);
        describe_failure(device, slot, error);
    } else {
        copy_small_read(device, slot);
        if (device->request.rehearses)
            trp__rehearsed_note(device, slot, record);
    }
    if (slot->delivers)
        trp__delivery_end(device->actor[atomic_load(&slot->actor) % TRP__ACTORS]);
    if (slot->weight)
        trp__latency_note(device, slot);
    if (__builtin_expect(trp__tracing(device), 0))
        trp__trace_ended(device, slot, record, !failure);
    settle_outputs(device, slot, record, ticket, early);
    if (slot->deadline_ns)
        atomic_fetch_sub(&device->request.deadlines, 1);
    if (early) {
        trp__mark_retired_early(slot, ticket);
    } else {
        if (failed)
            trp__poison_outputs(device, slot);
        trp__release_holdings(device, slot);
    }
    if (atomic_load_explicit(&slot->leader, memory_order_relaxed) == TRP__NO_SLOT)
        trp__report_end(device, slot, generation);
    else
        trp__list_gather(device, slot, generation);
    return true;
}

/* Ends a pending request: with `failure`, or with the worker's reply if that is NULL. False if it
 * is not pending any more. */
bool trp__retire(trp_device *device, trp__slot *slot, uint64_t pending_state,
                 const trp_error *failure)
{
    return end(device, slot, pending_state, failure, false);
}

/* Does the same for a request that fails while earlier ones may not have run: retires it early. */
bool trp__retire_early(trp_device *device, trp__slot *slot, uint64_t pending_state,
                       const trp_error *failure)
{
    return end(device, slot, pending_state, failure, true);
}

/* Ends a request if it is done. True if it is no longer pending, or the state must be read
 * again. */
bool trp__try_finish(trp_device *device, trp__slot *slot, uint64_t pending_state)
{
    uint32_t actor = atomic_load_explicit(&slot->actor, memory_order_relaxed) % TRP__ACTORS;
    uint64_t ticket = atomic_load_explicit(&slot->ticket, memory_order_relaxed);
    uint64_t done = trp__timeline(device, actor);
    if (ticket == 0 || done < ticket) {
        if (atomic_load_explicit(&slot->cancelling, memory_order_relaxed))
            trp__cancel_in_doubt(device, slot, pending_state);
        return false;
    }
    if (trp__timeline_absurd(device, done, ticket)) {
        trp__supervisor_alarm(device);
        return false;
    }
    /* The device has filled the last piece of a large read, but it may not be copied to the user's
     * memory yet. */
    if (atomic_load_explicit(&slot->stream, memory_order_relaxed) == TRP__LANE_DOWNLOAD &&
        !trp__replied(device, slot->index, ticket) &&
        !trp__transfer_drained(device, slot, pending_state)) {
        /* A sane worker fills the pieces before it writes the timeline. */
        if (!trp__transfer_filled(device, slot, pending_state,
                                  trp__stream_done(device, TRP__LANE_DOWNLOAD)))
            trp__supervisor_alarm(device);
        return false;
    }
    return trp__retire(device, slot, pending_state, NULL);
}

/* Ends requests that are done at the front of a mailbox. One thread at a time; others return at
 * once. */
void trp__sweep(trp__client_actor *actor)
{
    trp_device *device = actor->device;
    if (atomic_load_explicit(&actor->sweeping, memory_order_relaxed) ||
        atomic_exchange_explicit(&actor->sweeping, true, memory_order_acquire))
        return;
    uint64_t head = atomic_load_explicit(&actor->head, memory_order_relaxed);
    for (;; head++) {
        _Atomic uint64_t *place = &actor->mailbox[head & (actor->capacity - 1)];
        uint64_t cell = atomic_load_explicit(place, memory_order_acquire);
        if (cell == 0)
            break;
        trp__slot *slot = &device->slot[cell & (TRP__SLOTS - 1)];
        uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
        /* With another ticket the request has ended and the slot is in use again. */
        if (atomic_load_explicit(&slot->ticket, memory_order_acquire) == cell >> TRP__SLOT_BITS) {
            trp__phase phase = trp__phase_of(state);
            if (phase == TRP__RETIRING ||
                (phase == TRP__PENDING && !trp__try_finish(device, slot, state)) ||
                (phase != TRP__PENDING &&
                 !trp__retired_early_over(device, slot, cell >> TRP__SLOT_BITS)))
                break;
        }
        atomic_store_explicit(place, 0, memory_order_release);
        atomic_store_explicit(&actor->head, head + 1, memory_order_release);
    }
    atomic_store_explicit(&actor->sweeping, false, memory_order_release);
}

void trp__sweep_device(trp_device *device)
{
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__client_actor *actor = device->actor[i];
        if (actor && atomic_load_explicit(&actor->head, memory_order_relaxed) !=
                         atomic_load_explicit(actor->tail, memory_order_relaxed))
            trp__sweep(actor);
    }
}

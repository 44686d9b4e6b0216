/* The path of a request: a slot, its record, a place in the mailbox, a ticket, the ring. */
#include "base/call.h"
#include "base/error.h"
#include "base/os/futex.h"
#include "client/observe/latency.h"
#include "client/observe/trace.h"
#include "client/request/request.h"
#include "client/request/room.h"

#include <string.h>

/* A sender sweeps its actor's mailbox after this number of requests, so that slots are reused while
 * they are in its cache. */
enum { SWEEP_EVERY = 32 };

/* A worker needs longer for this number of requests than the nap of a sender that waits for room.
 */
enum { LARGE_MAILBOX = 256 };
#define LARGE_NAP_NS (100 * TRP__US)

trp__encoder trp__encoder_begin(trp_device *device, trp__slot *slot, trp_error *error)
{
    return (trp__encoder){.record = &device->control->record[slot->index],
                          .error = error,
                          .backend = device->backend,
                          .acquire = trp__buffer_acquire,
                          .look = trp__buffer_look,
                          .result = trp__result_reserve,
                          .input = trp__input_reserve,
                          .exchange = trp__exchange_reserve,
                          .objects = &trp__objects,
                          .heap = &device->memory.heap,
                          .compute =
                              device->identity.compute_major * 10 + device->identity.compute_minor,
                          .processors = device->identity.processors,
                          .submit = NULL,
                          .deadline_ns = 0,
                          .actor = NULL,
                          .sender = NULL,
                          .context = slot};
}

/* Waits until a mailbox may have room. A full large mailbox keeps the worker busy for longer than a
 * nap, and a sender that spins meanwhile, or wakes up for each place, takes cycles from the worker
 * where two threads share a core. So it takes longer naps, after which there is room for the next
 * requests, too. */
static trp_status await_place(const trp__client_actor *actor, uint32_t count, trp__room *room)
{
    bool begun = room->begun;
    trp_status status = trp__room_wait(room);
    if (!begun && actor->capacity >= LARGE_MAILBOX) {
        room->backoff.spin_ns = 0;
        room->backoff.least_ns = LARGE_NAP_NS;
    }
    const unsigned long long capacity = actor->capacity;
    if (status == TRP_E_BUSY && count > 1)
        trp__fail(TRP_E_BUSY,
                  "the mailbox of actor \"%s\", for %llu requests, has no room for %u%s",
                  actor->name, capacity, count, trp__room_why(room));
    else if (status == TRP_E_BUSY)
        trp__fail(TRP_E_BUSY, "the mailbox of actor \"%s\" is full: %llu requests%s", actor->name,
                  capacity, trp__room_why(room));
    return status;
}

/* Returns whether a single request has to let waiting lists go first. */
static bool gives_way(const trp__client_actor *actor, uint32_t count, const trp__room *room)
{
    return __builtin_expect(atomic_load_explicit(&actor->lists, memory_order_relaxed) > 0, 0) &&
           count == 1 && trp__room_may_wait(room);
}

/* Takes `count` places in the mailbox, if it has them. */
static bool take_places(trp__client_actor *actor, uint32_t count, uint64_t *place)
{
    uint64_t tail = atomic_load_explicit(actor->tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&actor->head, memory_order_acquire);
    while (tail - head + count <= actor->capacity) {
        if (atomic_compare_exchange_weak_explicit(actor->tail, &tail, tail + count,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            *place = tail;
            return true;
        }
        head = atomic_load_explicit(&actor->head, memory_order_acquire);
    }
    return false;
}

/* Takes places in the mailbox; waits for them. */
trp_status trp__mailbox_reserve(trp__client_actor *actor, uint32_t count, trp__room *room,
                                uint64_t *place)
{
    trp_status status = TRP_OK;
    if (!gives_way(actor, count, room) && take_places(actor, count, place))
        return TRP_OK;
    trp__sweep(actor);
    atomic_fetch_add(&actor->lists, count > 1);
    while (status == TRP_OK) {
        if (!gives_way(actor, count, room) && take_places(actor, count, place))
            break;
        status = await_place(actor, count, room);
        trp__sweep(actor);
    }
    atomic_fetch_sub(&actor->lists, count > 1);
    return status;
}

/* Ranges that this request writes whole are good for later requests. */
static void note_covered(trp_device *device, const trp__record *record, uint64_t ticket)
{
    for (uint32_t i = 0; i < record->access_count; i++) {
        const trp__access *a = &record->access[i];
        if (a->mode & TRP__COVER)
            trp__contents_raise(device, a, TRP__COVERED, ticket);
    }
}

static uint64_t written_by(const trp__record *record)
{
    uint64_t written = 0;
    for (uint32_t i = 0; i < record->access_count; i++)
        written |= (uint64_t)((record->access[i].mode & TRP__WRITE) != 0)
                   << record->access[i].slot % 64;
    return written;
}

static void note_last_acked(trp_device *device, const trp__slot *slot, trp__record *record,
                            uint64_t ticket)
{
    record->acked_last = 0;
    for (uint32_t i = 0; i < record->access_count; i++) {
        const trp__access *a = &record->access[i];
        uint64_t last =
            a->mode & TRP__READ ? trp__access_last_acked(device, a, ticket, &slot->look[i]) : 0;
        record->acked_last = last > record->acked_last ? last : record->acked_last;
    }
    if (record->acked_last != 0)
        memset(record->acked, 0, sizeof record->acked);
}

/* Notes the failures that were delivered to the sender, and refuses the request if an input has
 * become unreadable since it was encoded. */
static void check_inputs(trp_device *device, const trp__slot *slot, trp__record *record,
                         uint64_t ticket)
{
    trp_status refuse = TRP_OK;
    note_last_acked(device, slot, record, ticket);
    for (uint32_t i = 0; i < record->access_count; i++) {
        trp__access *a = &record->access[i];
        if (!(a->mode & TRP__READ))
            continue;
        const trp__look *look = &slot->look[i];
        uint64_t unnamed = trp__access_note_acked(device, record, a, ticket, look);
        if (refuse == TRP_OK)
            refuse = trp__access_readable_at(device, a, ticket, look, &record->cause);
        if (refuse == TRP_OK && unnamed != 0) {
            record->cause = unnamed;
            refuse = TRP_E_DEPENDENCY;
        }
    }
    atomic_store_explicit(&record->refuse, (uint32_t)refuse, memory_order_relaxed);
}

/* Notes where the end is delivered; returns the flags of the slot's state. */
static uint64_t set_completion(trp_device *device, trp__slot *slot, uint64_t generation,
                               trp_completion *completion)
{
    slot->queue = completion ? completion->queue : NULL;
    slot->user_data = completion ? completion->user_data : NULL;
    if (slot->queue) {
        atomic_fetch_add(&slot->queue->expected, 1);
        atomic_fetch_add(&device->request.queue_bound, 1);
        return 0;
    }
    if (!completion)
        return 0;
    completion->future.id =
        (generation & UINT32_MAX) << 32 | (uint64_t)device->tag << TRP__SLOT_BITS | slot->index;
    return TRP__WANTED;
}

static void ring_doorbell(trp_device *device)
{
    if (atomic_load(&device->reply->sleeping)) {
        atomic_fetch_add(&device->control->doorbell, 1);
        /* Wakes all: a worker that was replaced may still sleep there before it ends. */
        trp__futex_wake(&device->control->doorbell, INT32_MAX);
    }
}

/* All steps of sending but the store into the ring. Between taking the ticket and that store
 * nothing can fail: every ticket taken is used. */
trp__sent trp__slot_enlist(trp__client_actor *actor, trp__slot *slot, uint64_t place,
                           uint64_t ticket, trp_completion *completion)
{
    trp_device *device = actor->device;
    trp__record *record = &device->control->record[slot->index];
    uint64_t generation = trp__generation_of(atomic_load(&slot->state));
    uint64_t pending =
        trp__state(generation, TRP__PENDING) | set_completion(device, slot, generation, completion);
    if (slot->deadline_ns)
        atomic_fetch_add(&device->request.deadlines, 1);
    slot->delivers = trp__delivers(slot);
    if (slot->delivers)
        trp__delivery_begin(actor);
    record->timed = slot->deadline_ns != 0;
    atomic_store_explicit(&record->begun, false, memory_order_relaxed);
    slot->token = 0; /* the sender owns the object from now on */
    record->actor = (uint16_t)actor->id;
    atomic_store_explicit(&slot->actor, actor->id, memory_order_relaxed);
    slot->weight = trp__latency_weight(actor, place);
    record->sampled = slot->weight != 0;
    atomic_store_explicit(&slot->sent_ns, slot->weight || trp__tracing(device) ? trp__now_ns() : 0,
                          memory_order_relaxed);

    uint64_t cell = ticket << TRP__SLOT_BITS | slot->index;
    atomic_store_explicit(&slot->writes, written_by(record), memory_order_relaxed);
    atomic_store_explicit(&slot->ticket, ticket, memory_order_release);
    /* A recovery may have run since the request was encoded. The supervisor judges every ticket up
     * to one that it reads after it has marked lost and poisoned ranges; senders with later tickets
     * see the marks here. */
    check_inputs(device, slot, record, ticket);
    /* A refused request must not hide the loss of its outputs. */
    if (atomic_load_explicit(&record->refuse, memory_order_relaxed) == TRP_OK)
        note_covered(device, record, ticket);
    record->ticket = ticket;
    trp__sent sent = {.slot = slot,
                      .pending = pending,
                      .watched = slot->queue != NULL || slot->deadline_ns != 0 ||
                                 (slot->delivers && !completion)};
    atomic_store_explicit(&slot->state, pending, memory_order_release);
    atomic_store_explicit(&actor->mailbox[place & (actor->capacity - 1)], cell,
                          memory_order_release);
    return sent;
}

/* The worker takes tickets in order, so it sees none of them before the first. */
void trp__slots_show(trp_device *device, const trp__sent *sent, uint32_t count, uint64_t ticket)
{
    for (uint32_t i = count; i-- > 0;) {
        uint64_t cell = (ticket + i) << TRP__SLOT_BITS | sent[i].slot->index;
        atomic_exchange(&device->control->ring[(ticket + i) % TRP__RING], cell);
    }
    ring_doorbell(device);
}

/* Sends a filled slot for which the mailbox has a place. */
trp__sent trp__slot_publish(trp__client_actor *actor, trp__slot *slot, uint64_t place,
                            trp_completion *completion)
{
    uint64_t ticket = atomic_fetch_add(&actor->device->control->next_ticket.value, 1);
    trp__sent sent = trp__slot_enlist(actor, slot, place, ticket, completion);
    trp__slots_show(actor->device, &sent, 1, ticket);
    return sent;
}

/* Ends a request that this thread has just sent, unless another thread has. A dropped future
 * changes the state: repeats then. */
static void end_sent(trp_device *device, const trp__sent *sent, const trp_error *error)
{
    uint64_t state = sent->pending;
    while (!trp__retire(device, sent->slot, state, error)) {
        state = atomic_load(&sent->slot->state);
        if ((state | TRP__WANTED) != (sent->pending | TRP__WANTED))
            return;
    }
}

/* The last step of sending, with no lock held. */
void trp__slot_published(trp_device *device, const trp__sent *sent)
{
    /* The supervisor ends all pending requests after it has set DOWN; senders end those published
     * later. */
    trp_error error;
    if (atomic_load(&device->state) == TRP_DEVICE_DOWN) {
        trp__error_down(device, &error);
        end_sent(device, sent, &error);
    } else if (sent->watched) {
        trp__supervisor_wake(device);
    }
}

/* Sends a filled slot. On an error the slot is still the caller's. */
trp_status trp__slot_send(trp__client_actor *actor, trp__slot *slot, trp_completion *completion)
{
    uint64_t place = 0;
    trp_status status = trp__completion_check(actor->device, completion);
    if (status == TRP_OK)
        status = trp__mailbox_reserve(actor, 1, slot->room, &place);
    if (status != TRP_OK)
        return status;
    trp__sent sent = trp__slot_publish(actor, slot, place, completion);
    trp__slot_published(actor->device, &sent);
    if (place % SWEEP_EVERY == 0)
        trp__sweep(actor);
    return TRP_OK;
}

/* Returns the companion that has the least to do. */
static trp__client_actor *least_busy(const trp__client_actor *actor)
{
    trp__client_actor *best = NULL;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < actor->companions; i++) {
        trp__client_actor *one = actor->companion[i];
        trp__sweep(one);
        uint64_t load = atomic_load_explicit(one->tail, memory_order_relaxed) -
                        atomic_load_explicit(&one->head, memory_order_relaxed);
        if (load < least) {
            least = load;
            best = one;
        }
    }
    return best;
}

/* Sends one request of `op`. */
static trp_status send_one(trp__client_actor *actor, const trp__op_class *op,
                           const trp_request *request, trp__room *room, trp_completion *completion);

/* Implements trp__encoder.submit(). The outer call's wait_ns counts, not the request's. */
static trp_status submit_beside(trp__encoder *encoder, const trp_request *request)
{
    trp__client_actor *actor = trp__actor_live(encoder->actor);
    if (!actor)
        return *encoder->error = *trp__error_last(), encoder->error->status;
    const trp__actor_class *class = actor->class;
    const trp__op_class *op =
        actor->companions > 0 ? trp__op_class_find(class->companion, request->op) : NULL;
    op = op ? op : trp__op_class_find(class, request->op);
    if (!op)
        return trp__error_set(
            encoder->error, TRP_E_INTERNAL,
            "op: expected an operation of the actor or of its companions, got %#x", request->op);
    const trp__slot *outer = encoder->context;
    trp_status status = send_one(actor, op, request, outer->room, NULL);
    if (status != TRP_OK)
        *encoder->error = *trp__error_last();
    return status;
}

trp__client_actor *trp__actor_live(const trp_actor *actor)
{
    trp__client_actor *live =
        actor ? atomic_load_explicit(&actor->live, memory_order_acquire) : NULL;
    if (!actor)
        trp__fail_null("actor");
    else if (!live)
        trp__fail(TRP_E_STALE, "actor: it was destroyed, or its device is closed");
    return live;
}

trp_status trp_submit(trp_actor *handle, const trp_request *request, trp_completion *completion)
{
    TRP__CALL_QUICK(trp__call_refused());
    trp__client_actor *actor = trp__actor_live(handle);
    if (!actor)
        return trp__error_last()->status;
    if (!request)
        return trp__fail_null("request");
    trp_device *device = actor->device;
    trp_status status = trp__device_usable(device);
    if (status != TRP_OK)
        return status;
    const trp__op_class *op = trp__op_class_find(actor->class, request->op);
    if (!op)
        return trp__fail(TRP_E_UNSUPPORTED, "op: actors of kind \"%s\" have no operation %#x",
                         actor->class->kind, request->op);
    if (request->deadline_ns && device->options.isolation == TRP_ISOLATION_THREAD)
        return trp__fail(TRP_E_UNSUPPORTED, TRP__NO_DEADLINE);
    if (request->size != op->request_bytes)
        return trp__fail(TRP_E_VERSION, "size: a %s request has %u bytes here, got %u", op->name,
                         op->request_bytes, request->size);
    status = trp__wait_check(request->wait_ns);
    if (status != TRP_OK)
        return status;
    trp__room room;
    trp__room_begin(&room, device, request->wait_ns);
    status = op->list ? trp__list_submit(actor, op, request, &room, completion)
                      : send_one(actor, op, request, &room, completion);
    trp__room_end(&room);
    return status;
}

static trp_status send_one(trp__client_actor *actor, const trp__op_class *op,
                           const trp_request *request, trp__room *room, trp_completion *completion)
{
    trp_device *device = actor->device;
    trp__record *record;
    trp__slot *slot;
    trp_status status = trp__slot_begin(room, &slot, &record);
    if (status != TRP_OK)
        return status;
    trp_error error; /* filled in on an error */
    error.status = TRP_OK;
    trp__encoder encoder = trp__encoder_begin(device, slot, &error);
    encoder.actor = actor->handle;
    encoder.sender = actor->sender;
    encoder.submit = submit_beside;
    encoder.deadline_ns = request->deadline_ns ? request->deadline_ns : slot->deadline_ns;
    record->op = request->op;
    trp__slot_label(slot, record, request->label);
    if (request->deadline_ns)
        slot->deadline_ns = request->deadline_ns;
    if (actor->sender) { /* encode() may send other requests, or wait for another thread's */
        trp__call_shield();
        atomic_store_explicit(&slot->nested, true, memory_order_relaxed);
    }
    status = op->encode(&encoder, request);
    atomic_store_explicit(&slot->nested, false, memory_order_relaxed);
    if (status == TRP_OK)
        status = trp__slot_send(op->apart ? least_busy(actor) : actor, slot, completion);
    else
        trp__error_name(&error, actor, request->op, request->label);
    return trp__slot_conclude(device, slot, status, &error);
}

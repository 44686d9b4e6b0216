/* The path of a request: a slot, its record, a place in the mailbox, a ticket, the ring. */
#include "base/error.h"
#include "base/futex.h"
#include "client/backoff.h"
#include "client/client.h"
#include "client/module.h"
#include "client/trace.h"

#include <stdlib.h>
#include <string.h>

/* A sender looks for ended requests of its actor this often, so that slots are used again while
 * they are in its cache. */
enum { SWEEP_EVERY = 32 };

/* A worker needs longer for so many requests than a sender sleeps that waits for room. */
enum { LARGE_MAILBOX = 256 };

/* Lock-free stack of indices; the head carries a counter against reuse between load and swap. */

static _Atomic uint32_t *next_of(_Atomic uint32_t *next, size_t stride, uint32_t index)
{
    return (_Atomic uint32_t *)(void *)((char *)next + stride * index);
}

uint32_t trp__index_pop(_Atomic uint64_t *head, _Atomic uint32_t *next, size_t stride)
{
    uint64_t old = atomic_load_explicit(head, memory_order_acquire);
    for (;;) {
        uint32_t index = (uint32_t)old;
        if (index == UINT32_MAX)
            return UINT32_MAX;
        uint32_t after = atomic_load_explicit(next_of(next, stride, index), memory_order_relaxed);
        uint64_t wanted = ((old >> 32) + 1) << 32 | after;
        if (atomic_compare_exchange_weak_explicit(head, &old, wanted, memory_order_acq_rel,
                                                  memory_order_acquire))
            return index;
    }
}

void trp__index_push(_Atomic uint64_t *head, _Atomic uint32_t *next, size_t stride, uint32_t index)
{
    uint64_t old = atomic_load_explicit(head, memory_order_relaxed);
    uint64_t wanted;
    do {
        atomic_store_explicit(next_of(next, stride, index), (uint32_t)old, memory_order_relaxed);
        wanted = ((old >> 32) + 1) << 32 | index;
    } while (!atomic_compare_exchange_weak_explicit(head, &old, wanted, memory_order_release,
                                                    memory_order_relaxed));
}

void trp__slots_init(trp_device *device)
{
    atomic_init(&device->free_slots, UINT32_MAX);
    atomic_init(&device->free_pieces, UINT32_MAX);
    for (uint32_t i = TRP__SLOTS; i-- > 0;) {
        trp__slot *slot = &device->slot[i];
        slot->index = i;
        slot->item = (trp__queue_item){.device_tag = device->tag};
        atomic_init(&slot->state, trp__state(1, TRP__FREE));
        trp__index_push(&device->free_slots, &device->slot->next_free, sizeof(trp__slot), i);
    }
    for (uint32_t i = TRP__SMALL_COUNT; i-- > 0;)
        trp__index_push(&device->free_pieces, device->piece_next, sizeof(uint32_t), i);
}

static uint32_t pop_slot(trp_device *device)
{
    return trp__index_pop(&device->free_slots, &device->slot->next_free, sizeof(trp__slot));
}

/* Whether any request has yet to end. */
bool trp__any_unfinished(const trp_device *device)
{
    for (uint32_t i = 0; i < TRP__SLOTS; i++) {
        trp__phase phase = trp__phase_of(atomic_load(&device->slot[i].state));
        if (phase == TRP__FILLING || phase == TRP__PENDING || phase == TRP__RETIRING)
            return true;
    }
    return false;
}

/* Waits until a request of the device ends and leaves its slot, up to wait_ns. Once all have ended
 * only their owners can free slots, and this thread may be the one. */
static uint32_t await_slot(trp_device *device, int64_t wait_ns)
{
    trp__backoff backoff = trp__backoff_begin(wait_ns);
    for (;;) {
        int64_t nap = 0;
        bool hope = trp__any_unfinished(device);
        trp__sweep_device(device);
        uint32_t index = pop_slot(device);
        if (index != UINT32_MAX || !hope || !trp__backoff_step(&backoff, &nap))
            return index;
        if (nap > 0)
            trp__nap(nap);
    }
}

trp__slot *trp__slot_begin(trp_device *device, int64_t wait_ns, trp__record **record)
{
    uint32_t index = pop_slot(device);
    if (index == UINT32_MAX)
        index = await_slot(device, wait_ns);
    if (index == UINT32_MAX) {
        trp__fail(TRP_E_BUSY,
                  "%d requests of this device are pending, or have ended without their futures or "
                  "queue events being taken",
                  TRP__SLOTS);
        return NULL;
    }
    trp__slot *slot = &device->slot[index];
    uint32_t used = atomic_load_explicit(&device->slots_used, memory_order_relaxed);
    while (used <= index && !atomic_compare_exchange_weak(&device->slots_used, &used, index + 1))
        continue;
    if (used <= index)
        trp__stats_slots(device, index + 1);
    /* What the supervisor has noted of the last request here it noted before the next worker, which
     * ended that request. ThreadSanitizer does not see through the other process. */
    (void)atomic_load(&device->incarnation);
    atomic_store_explicit(&slot->deaths, 0, memory_order_relaxed);
    slot->lying = 0;
    slot->deadline_ns = device->options.deadline_ns;
    atomic_store_explicit(&slot->ticket, 0, memory_order_release);
    atomic_store_explicit(&slot->stream, -1, memory_order_relaxed);
    atomic_store_explicit(&slot->cancelling, false, memory_order_relaxed);
    slot->queue = NULL;
    slot->segment = 0;
    slot->piece = TRP__NO_PIECE;
    slot->module = 0;
    slot->read_target = NULL;
    atomic_store_explicit(&slot->leader, TRP__NO_SLOT, memory_order_relaxed);
    uint64_t generation = trp__generation_of(atomic_load(&slot->state));
    atomic_store_explicit(&slot->state, trp__state(generation, TRP__FILLING), memory_order_relaxed);

    *record = &device->control->record[index];
    (*record)->ticket = 0;
    (*record)->access_count = 0;
    (*record)->code = 0;
    (*record)->payload_bytes = 0;
    (*record)->piece = 0;
    return slot;
}

/* A slot whose request was not sent after all; gives back what it holds. */
void trp__slot_abandon(trp_device *device, trp__slot *slot)
{
    const trp__record *record = &device->control->record[slot->index];
    for (uint32_t i = 0; i < record->access_count; i++)
        trp__access_release(device, &record->access[i]);
    if (slot->piece != TRP__NO_PIECE)
        trp__index_push(&device->free_pieces, device->piece_next, sizeof(uint32_t), slot->piece);
    if (slot->segment)
        trp__segment_release(device, slot->segment);
    if (slot->module)
        trp__module_undo(device, slot);
    uint64_t generation = trp__generation_of(atomic_load(&slot->state));
    atomic_store(&slot->state, trp__state(generation, TRP__FREE));
    trp__index_push(&device->free_slots, &device->slot->next_free, sizeof(trp__slot), slot->index);
}

/* The last step of every call that sends: `status` says whether the request was sent. If not,
 * raises what packing it has found (sending raises its errors itself) and gives the slot back. */
trp_status trp__slot_conclude(trp_device *device, trp__slot *slot, trp_status status,
                              const trp_error *packing)
{
    if (status == TRP_OK)
        return TRP_OK;
    if (packing->status != TRP_OK)
        trp__error_raise(packing);
    trp__slot_abandon(device, slot);
    return status;
}

trp__pack trp__pack_begin(trp_device *device, trp__slot *slot, trp_error *error)
{
    return (trp__pack){.record = &device->control->record[slot->index],
                       .error = error,
                       .backend = device->backend,
                       .acquire = trp__buffer_acquire,
                       .result = trp__result_reserve,
                       .input = trp__input_reserve,
                       .exchange = trp__exchange_reserve,
                       .module_make = trp__module_make,
                       .module_again = trp__module_again,
                       .module_keep = trp__module_keep,
                       .module_use = trp__module_use,
                       .module_add_set = trp__module_add_set,
                       .compute =
                           device->identity.compute_major * 10 + device->identity.compute_minor,
                       .processors = device->identity.processors,
                       .context = slot};
}

/* Takes places in the mailbox; waits for them up to wait_ns. What a large mailbox holds keeps the
 * worker busy for longer than a nap, and a sender that spins meanwhile takes cycles from it where
 * two threads share a core. */
trp_status trp__mailbox_reserve(trp_actor *actor, uint32_t count, int64_t wait_ns, uint64_t *place)
{
    trp__backoff backoff = trp__backoff_begin(wait_ns);
    if (actor->capacity >= LARGE_MAILBOX)
        backoff.spin_ns = 0;
    uint64_t tail = atomic_load_explicit(actor->tail, memory_order_relaxed);
    bool swept = false;
    for (;;) {
        uint64_t head = atomic_load_explicit(&actor->head, memory_order_acquire);
        if (tail - head + count <= actor->capacity) {
            if (atomic_compare_exchange_weak_explicit(actor->tail, &tail, tail + count,
                                                      memory_order_relaxed, memory_order_relaxed)) {
                *place = tail;
                return TRP_OK;
            }
            continue;
        }
        int64_t nap = 0;
        trp__sweep(actor);
        if (swept && !trp__backoff_step(&backoff, &nap))
            return trp__fail(
                TRP_E_BUSY,
                count > 1 ? "the mailbox of actor \"%s\", for %llu requests, has no room for %u"
                          : "the mailbox of actor \"%s\" is full: %llu requests",
                actor->name, (unsigned long long)actor->capacity, count);
        swept = true;
        if (nap > 0)
            trp__nap(nap);
        tail = atomic_load_explicit(actor->tail, memory_order_relaxed);
    }
}

/* Buffers that this request writes whole hold good contents for whoever comes after it. */
static void note_covered(trp_device *device, const trp__record *record, uint64_t ticket)
{
    for (uint32_t i = 0; i < record->access_count; i++) {
        const trp__access *a = &record->access[i];
        if (trp__access_covers(device, a))
            trp__raise_ticket(&device->meta[a->slot].cover_ticket, ticket);
    }
}

/* Notes which failures the sender knows of, and whether an input has become unreadable since the
 * request was packed: then it shall be refused. */
static void check_inputs(const trp_device *device, const trp__slot *slot, trp__record *record,
                         uint64_t ticket)
{
    trp_status refuse = TRP_OK;
    for (uint32_t i = 0; i < record->access_count; i++) {
        trp__access *a = &record->access[i];
        if (!(a->mode & TRP__READ))
            continue;
        const trp__look *look = &slot->look[i];
        trp__set_accepted(a, trp__buffer_accepted(device, a->slot, ticket, look));
        if (refuse == TRP_OK)
            refuse = trp__buffer_readable_at(device, a->slot, ticket, look, &record->cause);
    }
    atomic_store_explicit(&record->refuse, (uint32_t)refuse, memory_order_relaxed);
}

/* Notes who shall be told; returns the flags of the slot's state. */
static uint64_t set_completion(trp_device *device, trp__slot *slot, uint64_t generation,
                               trp_completion *completion)
{
    slot->queue = completion ? completion->queue : NULL;
    slot->user_data = completion ? completion->user_data : NULL;
    if (slot->queue) {
        atomic_fetch_add(&slot->queue->expected, 1);
        atomic_fetch_add(&device->queue_bound, 1);
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
        /* All: a worker that was replaced may still sleep there, on its way out. */
        trp__futex_wake(&device->control->doorbell, INT32_MAX);
    }
}

/* All of sending but that the worker sees it. From the taking of the ticket to the store into the
 * ring nothing can fail: a ticket taken is a ticket used. */
trp__sent trp__slot_enlist(trp_actor *actor, trp__slot *slot, uint64_t place, uint64_t ticket,
                           trp_completion *completion)
{
    trp_device *device = actor->device;
    trp__record *record = &device->control->record[slot->index];
    uint64_t generation = trp__generation_of(atomic_load(&slot->state));
    uint64_t pending =
        trp__state(generation, TRP__PENDING) | set_completion(device, slot, generation, completion);
    if (slot->deadline_ns)
        atomic_fetch_add(&device->deadlines, 1);
    slot->delivers = trp__delivers(slot);
    if (slot->delivers)
        trp__delivery_begin(actor);
    record->timed = slot->deadline_ns != 0;
    atomic_store_explicit(&record->begun, false, memory_order_relaxed);
    slot->module = 0; /* it is the sender's from now on */
    record->actor = (uint16_t)actor->id;
    atomic_store_explicit(&slot->actor, actor->id, memory_order_relaxed);
    atomic_store_explicit(&slot->sent_ns, trp__trace_sent(device), memory_order_relaxed);

    uint64_t cell = ticket << TRP__SLOT_BITS | slot->index;
    atomic_store_explicit(&slot->ticket, ticket, memory_order_release);
    /* A fault may have been dealt with since the request was packed. The supervisor judges every
     * ticket up to one that it reads after it has marked what is lost or poisoned; who has a later
     * ticket sees the marks here. */
    check_inputs(device, slot, record, ticket);
    /* One that is refused must not hide what a fault did to its outputs. */
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
trp__sent trp__slot_publish(trp_actor *actor, trp__slot *slot, uint64_t place,
                            trp_completion *completion)
{
    uint64_t ticket = atomic_fetch_add(&actor->device->control->next_ticket.value, 1);
    trp__sent sent = trp__slot_enlist(actor, slot, place, ticket, completion);
    trp__slots_show(actor->device, &sent, 1, ticket);
    return sent;
}

/* Ends a request that this thread has just sent, if nobody else has; again if its future is dropped
 * at this moment, which changes the state. */
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
    /* The supervisor ends all that is pending after it has set DOWN; what was published later, the
     * sender ends. */
    trp_error error;
    if (atomic_load(&device->state) == TRP_DEVICE_DOWN) {
        trp__error_down(device, &error);
        end_sent(device, sent, &error);
    } else if (sent->watched) {
        trp__supervisor_wake(device);
    }
}

/* Sends a filled slot. On an error the slot is still the caller's. */
trp_status trp__slot_send(trp_actor *actor, trp__slot *slot, int64_t wait_ns,
                          trp_completion *completion)
{
    uint64_t place = 0;
    trp_status status = trp__mailbox_reserve(actor, 1, wait_ns, &place);
    if (status != TRP_OK)
        return status;
    trp__sent sent = trp__slot_publish(actor, slot, place, completion);
    trp__slot_published(actor->device, &sent);
    if (place % SWEEP_EVERY == 0)
        trp__sweep(actor);
    return TRP_OK;
}

/* The companion that has the least to do. */
static trp_actor *least_busy(const trp_actor *actor)
{
    trp_actor *best = NULL;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < actor->companions; i++) {
        trp_actor *one = actor->companion[i];
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

/* Sends a request that is one of `op`'s. */
static trp_status send_one(trp_actor *actor, const trp__op_class *op, const trp_request *request,
                           trp_completion *completion);

static trp_status submit_beside(trp__pack *pack, const trp_request *request)
{
    const trp__actor_class *class = pack->actor->class;
    const trp__op_class *op =
        pack->actor->companions > 0 ? trp__op_class_find(class->companion, request->op) : NULL;
    op = op ? op : trp__op_class_find(class, request->op);
    if (!op)
        return trp__error_set(pack->error, TRP_E_INTERNAL, "an operation %#x for nobody",
                              request->op);
    trp_status status = send_one(pack->actor, op, request, NULL);
    if (status != TRP_OK)
        *pack->error = *trp_error_last();
    return status;
}

trp_status trp_submit(trp_actor *actor, const trp_request *request, trp_completion *completion)
{
    if (!actor || !request)
        return trp__fail(TRP_E_ARGUMENT, "%s: expected a pointer, got NULL",
                         actor ? "request" : "actor");
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
    if (op->list)
        return trp__list_submit(actor, op, request, completion);
    return send_one(actor, op, request, completion);
}

static trp_status send_one(trp_actor *actor, const trp__op_class *op, const trp_request *request,
                           trp_completion *completion)
{
    trp_device *device = actor->device;
    trp__record *record;
    trp__slot *slot = trp__slot_begin(device, request->wait_ns, &record);
    if (!slot)
        return TRP_E_BUSY;
    trp_error error = {0};
    trp__pack pack = trp__pack_begin(device, slot, &error);
    pack.actor = actor;
    pack.sender = actor->sender;
    pack.submit = submit_beside;
    pack.deadline_ns = request->deadline_ns ? request->deadline_ns : slot->deadline_ns;
    record->op = request->op;
    if (request->deadline_ns)
        slot->deadline_ns = request->deadline_ns;
    trp_status status = op->pack(&pack, request);
    if (status == TRP_OK)
        status = trp__slot_send(op->apart ? least_busy(actor) : actor, slot, request->wait_ns,
                                completion);
    else
        trp__copy_string(error.actor, sizeof error.actor, actor->name);
    return trp__slot_conclude(device, slot, status, &error);
}

/* Futures. */

/* Where the request of a future is, or was: its slot may belong to another one by now, which only
 * the slot's state tells. NULL: there never was one. */
static trp__slot *future_slot(trp_future future, trp_device **device, uint64_t *generation)
{
    uint32_t tag = (uint32_t)future.id >> TRP__SLOT_BITS; /* with the unused bits, which are 0 */
    *device = trp__device_by_tag(tag);
    *generation = future.id >> 32;
    return *device && *generation != 0 ? &(*device)->slot[future.id & (TRP__SLOTS - 1)] : NULL;
}

trp_status trp__future_stale(void)
{
    return trp__fail(TRP_E_STALE, "future: it was never given out, was ended before, or its device "
                                  "is closed");
}

/* The same, for calls that can fail. A device that is down still has its requests. */
trp_status trp__future_find(trp_future future, trp_device **device, trp__slot **slot,
                            uint64_t *generation)
{
    *slot = future_slot(future, device, generation);
    if (!*slot)
        return trp__future_stale();
    return trp__device_usable(*device) == TRP_E_FORKED ? TRP_E_FORKED : TRP_OK;
}

/* Ends a future that is done. False if another thread was faster. */
static bool take_result(trp_device *device, trp__slot *slot, uint64_t state, trp_error *result)
{
    uint64_t mine = trp__state(trp__generation_of(state), TRP__FILLING);
    if (!atomic_compare_exchange_strong(&slot->state, &state, mine))
        return false;
    trp__result_read(device, slot, result);
    trp__result_taken(device, slot, mine);
    return true;
}

static void sleep_on(trp_device *device, trp__slot *slot, uint64_t state, trp__backoff *backoff,
                     int64_t nap)
{
    trp__record *record = &device->control->record[slot->index];
    uint32_t seen = atomic_load(&record->ended);
    atomic_fetch_add(&record->sleepers, 1);
    trp__backoff_doze(backoff);
    if (atomic_load(&slot->state) == state)
        trp__futex_wait(&record->ended, seen, nap);
    atomic_fetch_sub(&record->sleepers, 1);
}

bool trp__is_future(uint64_t state, uint64_t generation)
{
    return (trp__generation_of(state) & UINT32_MAX) == generation && (state & TRP__WANTED);
}

/* A device may tell of its end late: one that sleeps until an interrupt, by some hundred
 * microseconds. But work is often the same again; so the next wait for a request of the same actor
 * looks more often when this much time has passed. What is learned is when the request was last
 * seen to be running: when it was seen done, the thread may have been about to wake up for long. */
static void learn_wait(trp_device *device, uint32_t actor, const trp__backoff *backoff)
{
    if (backoff->slack != 0)
        atomic_store_explicit(&device->typical_wait[actor], backoff->waited, memory_order_relaxed);
}

static trp_status wait_on(trp_device *device, trp__slot *slot, uint64_t generation,
                          trp__backoff *backoff, trp_error *result)
{
    uint32_t actor = atomic_load_explicit(&slot->actor, memory_order_relaxed) % TRP__ACTORS;
    backoff->expected = atomic_load_explicit(&device->typical_wait[actor], memory_order_relaxed);
    for (;;) {
        uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
        if (!trp__is_future(state, generation))
            return trp__future_stale();
        trp__phase phase = trp__phase_of(state);
        if (phase == TRP__PENDING && trp__try_finish(device, slot, state))
            continue;
        if (phase == TRP__GATHERED) {
            trp__list_look(device, slot);
            if (atomic_load(&slot->state) != state)
                continue;
        }
        if (phase == TRP__DONE) {
            learn_wait(device, actor, backoff);
            trp__deliver_before(device, atomic_load(&slot->ticket));
            if (!take_result(device, slot, state, result))
                return trp__future_stale();
            return result->status == TRP_OK ? TRP_OK : trp__error_raise(result);
        }
        int64_t nap;
        if (!trp__backoff_step(backoff, &nap))
            return TRP_E_TIMEOUT;
        if (nap > 0)
            sleep_on(device, slot, state, backoff, nap);
    }
}

static trp_status wait_for(trp_future future, int64_t timeout_ns, trp_error *result)
{
    trp_device *device;
    uint64_t generation;
    trp__slot *slot;
    trp_status status = trp__future_find(future, &device, &slot, &generation);
    if (status != TRP_OK)
        return status;
    trp__backoff backoff = trp__backoff_begin(timeout_ns);
    status = wait_on(device, slot, generation, &backoff, result);
    trp__backoff_end(&backoff);
    if (status == TRP_E_TIMEOUT)
        return trp__fail(TRP_E_TIMEOUT, "the request has not completed after %lld ns",
                         (long long)timeout_ns);
    return status;
}

trp_status trp_await(trp_future future, int64_t timeout_ns, trp_error *error)
{
    trp_error result = {0};
    trp_status status = wait_for(future, timeout_ns, &result);
    if (error)
        *error = status == TRP_OK ? result : *trp_error_last();
    return status;
}

void trp_future_drop(trp_future future)
{
    trp_device *device;
    uint64_t generation;
    trp__slot *slot = future_slot(future, &device, &generation);
    if (!slot || trp__device_usable(device) == TRP_E_FORKED)
        return;
    uint64_t state = atomic_load(&slot->state);
    while (trp__is_future(state, generation)) {
        /* Whoever ends the request sees that nobody wants it; unless it has ended. */
        bool done = trp__phase_of(state) == TRP__DONE;
        uint64_t next =
            done ? trp__state(trp__generation_of(state), TRP__FILLING) : state & ~TRP__WANTED;
        if (!atomic_compare_exchange_weak(&slot->state, &state, next))
            continue;
        if (done)
            trp__result_taken(device, slot, next);
        else if (atomic_load(&device->deliveries) > 0)
            trp__supervisor_wake(device); /* nobody else may see that it ends */
        return;
    }
}

trp_status trp_device_drain(trp_device *device, int64_t timeout_ns)
{
    trp_status status = trp__device_usable(device);
    if (status == TRP_E_FORKED || status == TRP_E_ARGUMENT)
        return status;
    uint64_t end = atomic_load(&device->control->next_ticket.value);
    trp__backoff backoff = trp__backoff_begin(timeout_ns);
    for (uint32_t i = 0; i < atomic_load(&device->slots_used);) {
        trp__slot *slot = &device->slot[i];
        uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
        trp__phase phase = trp__phase_of(state);
        uint64_t ticket = atomic_load_explicit(&slot->ticket, memory_order_relaxed);
        bool pending =
            phase == TRP__RETIRING ||
            (ticket < end && phase == TRP__GATHERED && trp__leads(slot)) ||
            (ticket < end && (phase == TRP__PENDING || !trp__detained_over(device, slot, ticket)));
        if (!pending || (phase == TRP__PENDING && trp__try_finish(device, slot, state))) {
            i += !pending;
            continue;
        }
        int64_t nap;
        if (phase == TRP__GATHERED)
            trp__list_look(device, slot);
        if (!trp__backoff_step(&backoff, &nap)) {
            trp__backoff_end(&backoff);
            return trp__fail(TRP_E_TIMEOUT, "request %llu has not completed",
                             (unsigned long long)ticket);
        }
        if (nap > 0)
            sleep_on(device, slot, state, &backoff, nap);
    }
    trp__backoff_end(&backoff);
    return TRP_OK;
}

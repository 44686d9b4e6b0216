/* Slots of requests: taking one, and abandoning it unsent. */
#include "base/error.h"
#include "client/request/request.h"
#include "client/request/room.h"

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
    atomic_init(&device->request.free_slots, UINT32_MAX);
    for (uint32_t pool = 0; pool < TRP__POOLS; pool++)
        atomic_init(&device->request.free_pieces[pool], UINT32_MAX);
    for (uint32_t i = TRP__SLOTS; i-- > 0;) {
        trp__slot *slot = &device->slot[i];
        slot->index = i;
        slot->item = (trp__queue_item){.device_tag = device->tag};
        atomic_init(&slot->state, trp__state(1, TRP__FREE));
        trp__index_push(&device->request.free_slots, &device->slot->next_free, sizeof(trp__slot),
                        i);
    }
    for (uint32_t i = TRP__SMALL_COUNT - TRP__SLOTS; i-- > 0;)
        trp__index_push(&device->request.free_pieces[i < TRP__SMALL_COPIES ? TRP__POOL_COPIES
                                                                           : TRP__POOL_REQUESTS],
                        device->request.piece_next, sizeof(uint32_t), i);
}

static uint32_t pop_slot(trp_device *device)
{
    return trp__index_pop(&device->request.free_slots, &device->slot->next_free, sizeof(trp__slot));
}

/* Returns whether the slot of a request will be freed without the program: not if the request has
 * ended and its result was not taken. */
static bool slot_returns(const trp_device *device, const trp__slot *slot, bool nested)
{
    trp__phase phase = trp__phase_of(atomic_load(&slot->state));
    if (phase == TRP__GATHERED) {
        uint32_t leader = atomic_load(&slot->leader) % TRP__SLOTS;
        phase = trp__phase_of(atomic_load(&device->slot[leader].state));
    }
    return phase != TRP__DONE && (nested || phase != TRP__FILLING || !atomic_load(&slot->nested));
}

/* Returns whether `count` slots are free or will be freed without the program; `nested`: also
 * counts slots whose senders wait for another slot. Slots change meanwhile, but for the answer no
 * each other slot was seen held by the program at some moment of the call. */
bool trp__slots_return(const trp_device *device, uint32_t count, bool nested)
{
    for (uint32_t i = 0; i < TRP__SLOTS && count > 0; i++)
        count -= slot_returns(device, &device->slot[i], nested);
    return count == 0;
}

/* Waits until a slot comes back. */
static trp_status await_slot(trp__room *room, uint32_t *index)
{
    trp_device *device = room->device;
    trp_status status = TRP_OK;
    while (status == TRP_OK) {
        bool hope = trp__slots_return(device, 1, false);
        trp__sweep_device(device);
        *index = pop_slot(device);
        if (*index != UINT32_MAX)
            return TRP_OK;
        if (!hope)
            return trp__fail(TRP_E_BUSY,
                             "%d requests of this device have ended, and neither their futures nor "
                             "their queue events were taken",
                             TRP__SLOTS);
        status = trp__room_wait(room);
    }
    if (status == TRP_E_BUSY)
        trp__fail(TRP_E_BUSY,
                  "%d requests of this device are pending, or have ended without their futures or "
                  "queue events being taken%s",
                  TRP__SLOTS, trp__room_why(room));
    return status;
}

trp_status trp__slot_begin(trp__room *room, trp__slot **out, trp__record **record)
{
    trp_device *device = room->device;
    uint32_t index = pop_slot(device);
    if (index == UINT32_MAX) {
        trp_status status = await_slot(room, &index);
        if (status != TRP_OK)
            return status;
    }
    trp__slot *slot = &device->slot[index];
    uint32_t used = atomic_load_explicit(&device->slots_used, memory_order_relaxed);
    while (used <= index && !atomic_compare_exchange_weak(&device->slots_used, &used, index + 1))
        continue;
    if (used <= index)
        trp__stats_slots(device, index + 1);
    /* Orders this after the supervisor's notes on the slot's last request for ThreadSanitizer,
     * which does not see the order through the worker's process. */
    (void)atomic_load(&device->incarnation);
    atomic_store_explicit(&slot->deaths, 0, memory_order_relaxed);
    slot->missed_deadlines = 0;
    slot->deadline_ns = device->options.deadline_ns;
    atomic_store_explicit(&slot->ticket, 0, memory_order_release);
    atomic_store_explicit(&slot->stream, -1, memory_order_relaxed);
    atomic_store_explicit(&slot->cancelling, false, memory_order_relaxed);
    slot->queue = NULL;
    slot->label = NULL;
    slot->segment = 0;
    slot->piece = TRP__NO_PIECE;
    slot->boxed = false;
    slot->room = room;
    atomic_store_explicit(&slot->nested, false, memory_order_relaxed);
    slot->token = 0;
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
    (*record)->labelled = false;
    *out = slot;
    return TRP_OK;
}

void trp__slot_label(trp__slot *slot, trp__record *record, const char *label)
{
    slot->label = label;
    record->labelled = label != NULL;
    if (label)
        trp__copy_string(record->label, sizeof record->label, label);
}

/* Frees the object that a request should have made, and zeroes its handle. */
static void undo_object(trp_device *device, const trp__slot *slot)
{
    if (slot->handle)
        *slot->handle = 0;
    trp__buffer_free(device, (trp_buffer){slot->token});
}

/* Frees a slot whose request was not sent, with its holdings. */
void trp__slot_abandon(trp_device *device, trp__slot *slot)
{
    trp__release_holdings(device, slot);
    if (slot->token)
        undo_object(device, slot);
    uint64_t generation = trp__generation_of(atomic_load(&slot->state));
    atomic_store(&slot->state, trp__state(generation, TRP__FREE));
    trp__index_push(&device->request.free_slots, &device->slot->next_free, sizeof(trp__slot),
                    slot->index);
}

/* The last step of every call that sends: `status` says whether the request was sent. If not,
 * raises the error of encoding (sending raises its own) and frees the slot. */
trp_status trp__slot_conclude(trp_device *device, trp__slot *slot, trp_status status,
                              const trp_error *encoding)
{
    if (status == TRP_OK)
        return TRP_OK;
    if (encoding->status != TRP_OK)
        trp__error_raise(encoding);
    trp__slot_abandon(device, slot);
    return status;
}

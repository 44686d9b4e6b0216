/* Lists: several requests of one actor that are sent together and have one completion.
 *
 * All are checked and encoded before any is sent. Then each is a request like any other, with its
 * slot, its record, its place in the mailbox and its ticket, and it ends as it would by itself.
 * Only the delivery differs. The last member is the *leader*: the list's future names its slot, or
 * the queue receives it. A member that has ended becomes GATHERED, and the thread that ends the
 * last one delivers the leader's end. Until the result is taken the leader holds the slots of all,
 * with their errors; nothing else is allocated for a list, and each member counts exactly once, as
 * each request ends exactly once.
 *
 * Members may end in any order: some can be cancelled, or judged after a death, while others run. A
 * waiter ends members by trp__list_look(). */
#include "base/error.h"
#include "client/request/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static trp__slot *member(trp_device *device, uint32_t index)
{
    return &device->slot[index % TRP__SLOTS];
}

/* Sending. */

static void abandon_all(trp_device *device, const trp__sent *all, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        trp__slot_abandon(device, all[i].slot);
}

/* Takes a slot for each. Holds none while it waits: two lists that held a part each would
 * deadlock. */
static trp_status take_slots(trp__room *room, const trp_request *request, trp__sent *all,
                             uint32_t count)
{
    trp_device *device = room->device;
    trp__room none;
    trp__room_begin(&none, device, TRP_NOWAIT);
    for (;;) {
        trp__record *record;
        trp__slot *slot;
        uint32_t taken = 0;
        while (taken < count && trp__slot_begin(&none, &slot, &record) == TRP_OK) {
            if (request->deadline_ns)
                slot->deadline_ns = request->deadline_ns;
            slot->room = room;
            all[taken++].slot = slot;
        }
        if (taken == count)
            return TRP_OK;
        bool hope = trp__slots_return(device, count, true);
        abandon_all(device, all, taken);
        trp__sweep_device(device);
        trp_status status = hope ? trp__room_wait(room) : TRP_E_BUSY;
        if (status == TRP_E_BUSY)
            trp__fail(TRP_E_BUSY,
                      "no room for %u of the %d requests that a device can have: others are "
                      "pending, or have ended without their futures or queue events being taken%s",
                      count, TRP__SLOTS, hope ? trp__room_why(room) : "");
        if (status != TRP_OK)
            return status;
    }
}

static trp_status encode_all(trp_device *device, const trp__list_class *list,
                             const trp_request *request, trp__sent *all, uint32_t count,
                             trp_error *error)
{
    trp_status status = TRP_OK;
    for (uint32_t i = 0; i < count && status == TRP_OK; i++) {
        trp__encoder encoder = trp__encoder_begin(device, all[i].slot, error);
        encoder.record->op = list->op;
        trp__slot_label(all[i].slot, encoder.record, request->label);
        status = list->encode(&encoder, request, i);
    }
    return status;
}

static void link_members(const trp__sent *all, uint32_t count)
{
    trp__slot *leader = all[count - 1].slot;
    atomic_store(&leader->members, count);
    atomic_store(&leader->first, all[0].slot->index);
    atomic_store(&leader->left, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t next = i + 1 < count ? all[i + 1].slot->index : TRP__NO_SLOT;
        atomic_store(&all[i].slot->mate, next);
        atomic_store(&all[i].slot->leader, leader->index);
    }
}

static void send_all(trp__client_actor *actor, trp__sent *all, uint32_t count, uint64_t place,
                     trp_completion *completion)
{
    trp_device *device = actor->device;
    link_members(all, count);
    uint64_t ticket = atomic_fetch_add(&device->control->next_ticket.value, count);
    for (uint32_t i = 0; i < count; i++)
        all[i] = trp__slot_enlist(actor, all[i].slot, place + i, ticket + i,
                                  i + 1 == count ? completion : NULL);
    trp__slots_show(device, all, count, ticket);
    for (uint32_t i = 0; i < count; i++)
        trp__slot_published(device, &all[i]);
    trp__sweep(actor);
}

trp_status trp__list_submit(trp__client_actor *actor, const trp__op_class *op,
                            const trp_request *request, trp__room *room, trp_completion *completion)
{
    trp_device *device = actor->device;
    trp_error error = {0};
    uint32_t count = 0;
    uint64_t place;
    trp_status status = op->list->count(request, &count, &error);
    if (status == TRP_OK && count > actor->capacity)
        status = trp__error_set(&error, TRP_E_ARGUMENT,
                                "count: expected 1 to %llu, what the actor's mailbox takes, got %u",
                                (unsigned long long)actor->capacity, count);
    if (status != TRP_OK || count == 0) {
        trp__error_name(&error, actor, request->op, request->label);
        return trp__error_raise(&error);
    }
    trp__sent *all = calloc(count, sizeof *all);
    if (!all)
        return trp__fail(TRP_E_MEMORY, "no memory for a list of %u requests", count);
    status = take_slots(room, request, all, count);
    if (status != TRP_OK) {
        free(all);
        return status;
    }
    status = encode_all(device, op->list, request, all, count, &error);
    if (status == TRP_OK) {
        trp__delivery_note_list(actor, count);
        status = trp__completion_check(device, completion);
        if (status == TRP_OK)
            status = trp__mailbox_reserve(actor, count, room, &place);
    } else {
        trp__error_name(&error, actor, request->op, request->label);
        trp__error_raise(&error);
    }
    if (status == TRP_OK)
        send_all(actor, all, count, place, completion);
    else
        abandon_all(device, all, count);
    free(all);
    return status;
}

/* Ending. */

/* Sets the status of the list: the first failure in its order. */
static void find_failure(trp_device *device, trp__slot *leader)
{
    uint32_t index = atomic_load(&leader->first);
    leader->list_status = TRP_OK;
    for (uint32_t i = 0; i < atomic_load(&leader->members); i++) {
        const trp__slot *slot = member(device, index);
        index = atomic_load(&slot->mate);
        if (slot->status == TRP_OK)
            continue;
        trp_error error = device->slot_error[slot->index];
        trp_error *combined = &device->slot_error[leader->index];
        *combined = error;
        snprintf(combined->message, sizeof combined->message, "request %u of the list: %.220s", i,
                 error.message);
        leader->list_status = slot->status;
        return;
    }
}

/* Gathers a member that has ended; the last one ends the list. */
void trp__list_gather(trp_device *device, trp__slot *slot, uint64_t generation)
{
    trp__slot *leader = member(device, atomic_load(&slot->leader));
    uint64_t state = atomic_load(&slot->state);
    while (!atomic_compare_exchange_weak(
        &slot->state, &state, trp__state(generation, TRP__GATHERED) | (state & TRP__WANTED)))
        continue;
    trp__wake_sleepers(device, slot);
    if (atomic_fetch_sub(&leader->left, 1) != 1)
        return; /* the slot may be reused by now */
    find_failure(device, leader);
    trp__report_end(device, leader, trp__generation_of(atomic_load(&leader->state)));
}

/* Ends members that are done of a list whose leader has ended. The list may end meanwhile and its
 * slots be used again: then it looks at foreign slots, which is harmless. */
void trp__list_look(trp_device *device, const trp__slot *leader)
{
    uint32_t index = atomic_load(&leader->first);
    for (uint32_t i = 0; i < TRP__SLOTS && index != leader->index; i++) {
        trp__slot *slot = member(device, index);
        if (atomic_load(&slot->leader) != leader->index)
            return;
        index = atomic_load(&slot->mate);
        uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
        if (trp__phase_of(state) == TRP__PENDING)
            trp__try_finish(device, slot, state);
    }
}

/* Taking. The caller owns the slot. */

/* Returns the result of a request that has ended, or of a list, and delivers it. */
trp_status trp__result_read(trp_device *device, const trp__slot *slot, trp_error *out)
{
    bool leads = trp__leads(slot);
    trp_status status = leads ? slot->list_status : slot->status;
    uint32_t index = leads ? atomic_load(&slot->first) : slot->index;
    for (uint32_t i = 0; i < (leads ? atomic_load(&slot->members) : 1); i++) {
        const trp__slot *one = member(device, index);
        index = atomic_load(&one->mate);
        if (one->status != TRP_OK)
            trp__poison_accept(device, one);
    }
    if (status != TRP_OK)
        *out = device->slot_error[slot->index];
    return status;
}

/* Frees the slots of a request or list whose result was taken. */
void trp__result_taken(trp_device *device, trp__slot *slot, uint64_t owned)
{
    uint32_t index = trp__leads(slot) ? atomic_load(&slot->first) : slot->index;
    while (index != slot->index) {
        trp__slot *one = member(device, index);
        index = atomic_load(&one->mate);
        uint64_t mine = trp__state(trp__generation_of(atomic_load(&one->state)), TRP__FILLING);
        atomic_store(&one->state, mine);
        trp__slot_taken(device, one, mine);
    }
    trp__slot_taken(device, slot, owned);
}

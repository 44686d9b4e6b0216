/* Stores requests that succeeded for standbys to rehearse: see worker/rehearse.c. One of each kind;
 * the newest replace the oldest. */
#include "base/checksum.h"
#include "base/os/fence.h"
#include "client/request/request.h"
#include "wire/actor_class.h"

#include <string.h>

/* Probes of the table of kinds: with one, two alternating kinds of the same hash would replace each
 * other each time. */
enum { PLACES = 8 };

/* False: another thread is storing; a later request of the kind is tried again. */
static bool keep(trp_device *device, const trp__slot *slot, const trp__record *record)
{
    trp__control *control = device->control;
    if (atomic_flag_test_and_set_explicit(&device->request.rehearsed_busy, memory_order_acquire))
        return false;
    const uint64_t number = atomic_load(&control->rehearsed_count) + 1;
    trp__rehearsed *to = &control->rehearsed[number % TRP__REHEARSED];
    atomic_store(&to->number, 0);
    trp__fence(memory_order_release);
    memcpy(&to->record, record, sizeof to->record);
    if (record->piece != 0)
        memcpy(to->piece, device->staging + trp__small_offset(slot->piece), record->piece_bytes);
    atomic_store_explicit(&to->number, number, memory_order_release);
    atomic_store(&control->rehearsed_count, number);
    atomic_flag_clear_explicit(&device->request.rehearsed_busy, memory_order_release);
    return true;
}

void trp__rehearsed_note(trp_device *device, const trp__slot *slot, const trp__record *record)
{
    const trp__client_actor *actor = device->actor[record->actor % TRP__ACTORS];
    const trp__op_class *op = actor ? trp__op_class_find(actor->class, record->op) : NULL;
    if (!op || op->rehearsed == 0 || record->piece_bytes > TRP__REHEARSED_PIECE)
        return;
    const uint64_t kind = trp__checksum(record->payload, op->rehearsed) ^ record->actor;
    _Atomic uint64_t *place = NULL;
    for (uint64_t i = 0; i < PLACES; i++) {
        _Atomic uint64_t *known =
            &device->request.rehearsed_kind[(kind + i) % TRP__REHEARSED_KINDS];
        const uint64_t other = atomic_load_explicit(known, memory_order_relaxed);
        if (other == kind)
            return;
        if (other == 0 && !place)
            place = known;
    }
    if (!place)
        place =
            &device->request.rehearsed_kind[(kind + (kind >> 32) % PLACES) % TRP__REHEARSED_KINDS];
    if (keep(device, slot, record))
        atomic_store_explicit(place, kind, memory_order_relaxed);
}

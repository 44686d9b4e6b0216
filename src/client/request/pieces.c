/* Small pieces of staging memory, for inputs too large for a record and for results: each request
 * slot has its own; larger ones are shared, by copies and by requests apart. */
#include "base/error.h"
#include "client/request/copies.h"
#include "client/request/room.h"

#include <string.h>

bool trp__piece_take(trp_device *device, trp__slot *slot, uint32_t pool, uint64_t bytes)
{
    slot->piece = slot->index;
    if (bytes <= TRP__OWN_BYTES)
        return true;
    uint32_t shared = trp__index_pop(&device->request.free_pieces[pool], device->request.piece_next,
                                     sizeof(uint32_t));
    slot->piece = shared == UINT32_MAX ? TRP__NO_PIECE : TRP__SLOTS + shared;
    return shared != UINT32_MAX;
}

void trp__piece_return(trp_device *device, const trp__slot *slot)
{
    if (slot->piece == TRP__NO_PIECE || slot->piece < TRP__SLOTS)
        return;
    uint32_t shared = slot->piece - TRP__SLOTS;
    trp__index_push(&device->request.free_pieces[shared < TRP__SMALL_COPIES ? TRP__POOL_COPIES
                                                                            : TRP__POOL_REQUESTS],
                    device->request.piece_next, sizeof(uint32_t), shared);
}

/* Implements trp__encoder.result(). The result is delivered as a small read is. */
trp_status trp__result_reserve(trp__encoder *encoder, void *target, uint32_t bytes)
{
    trp__slot *slot = encoder->context;
    trp_device *device = trp__device_by_tag(slot->item.device_tag);
    trp_status status = TRP_OK;
    if (bytes > TRP__SMALL_BYTES || slot->piece != TRP__NO_PIECE)
        return trp__error_set(encoder->error, TRP_E_INTERNAL,
                              "result: expected one of at most %d bytes, got %u bytes%s",
                              TRP__SMALL_BYTES, bytes,
                              slot->piece != TRP__NO_PIECE ? " beside another piece" : "");
    bool has = trp__piece_take(device, slot, TRP__POOL_REQUESTS, bytes);
    while (!has && status == TRP_OK) {
        trp__sweep_device(device);
        has = trp__piece_take(device, slot, TRP__POOL_REQUESTS, bytes);
        if (!has)
            status = trp__room_wait(slot->room);
    }
    if (status == TRP_E_BUSY)
        return trp__error_set(
            encoder->error, TRP_E_BUSY,
            "%d requests with %d to %d bytes of inputs or results (graphs of dnn, arguments of "
            "kernels) are pending, and this one has %u%s",
            TRP__SMALL_REQUESTS, TRP__OWN_BYTES + 1, TRP__SMALL_BYTES, bytes,
            trp__room_why(slot->room));
    if (status != TRP_OK) {
        *encoder->error = *trp__error_last();
        return status;
    }
    memset(device->staging + trp__small_offset(slot->piece), 0, bytes);
    slot->read_target = target;
    slot->read_bytes = bytes;
    encoder->record->piece = slot->piece + 1;
    encoder->record->piece_bytes = bytes;
    return TRP_OK;
}

/* Implements trp__encoder.input(). */
trp_status trp__input_reserve(trp__encoder *encoder, uint32_t bytes, void **room)
{
    const trp__slot *slot = encoder->context;
    trp_device *device = trp__device_by_tag(slot->item.device_tag);
    trp_status status = trp__result_reserve(encoder, NULL, bytes);
    if (status == TRP_OK)
        *room = device->staging + trp__small_offset(slot->piece);
    return status;
}

/* Implements trp__encoder.exchange(). */
trp_status trp__exchange_reserve(trp__encoder *encoder, void *target, uint32_t result_bytes,
                                 uint32_t bytes, void **room)
{
    trp__slot *slot = encoder->context;
    trp_status status = trp__input_reserve(encoder, bytes, room);
    if (status == TRP_OK) {
        slot->read_target = target;
        slot->read_bytes = result_bytes;
    }
    return status;
}

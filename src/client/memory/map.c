/* Buffers in the program's own address space. On the host an arena is a memory file; one mapping
 * here serves all buffers in it, and is removed with the last of theirs. Each mapping of a buffer
 * holds it, so its memory goes to no other buffer meanwhile. */
#include "base/call.h"
#include "base/error.h"
#include "base/os/service_thread.h"
#include "base/os/shm.h"
#include "client/memory/memory.h"

#include <sys/mman.h>

enum { READ_ONLY, WRITABLE, KINDS };

/* device->lock is held. */
static trp_status view_open(trp__client_arena *arena, int kind, trp_error *error)
{
    trp__view_of_arena *view = &arena->view[kind];
    if (!view->base) {
        void *map = NULL;
        trp_status status =
            trp__shm_map(arena->fd, arena->bytes, kind == WRITABLE, NULL, &map, error);
        if (status != TRP_OK)
            return status;
        madvise(map, arena->bytes, MADV_DONTFORK);
        view->base = map;
    }
    view->users++;
    return TRP_OK;
}

static void view_unmap(trp__client_arena *arena, int kind)
{
    trp__shm_unmap(arena->view[kind].base, arena->bytes);
    arena->view[kind] = (trp__view_of_arena){0};
}

void trp__arena_unmap(trp__client_arena *arena)
{
    for (int kind = 0; kind < KINDS; kind++)
        view_unmap(arena, kind);
}

bool trp__mapped_for_writing(trp_device *device, uint32_t slot)
{
    trp__lock_take(&device->lock);
    bool mapped = device->memory.meta[slot].mapped[WRITABLE] > 0;
    trp__lock_drop(&device->lock);
    return mapped;
}

/* Maps a held buffer. A concurrent trp_buffer_seal() sees the mapping and fails. */
static trp_status map_held(trp_device *device, uint32_t slot, void **out)
{
    trp__buffer_meta *meta = &device->memory.meta[slot];
    const trp__buffer_entry *entry = &device->control->buffer[slot];
    trp__client_arena *arena = &device->memory.arena[entry->arena];
    trp_error error;
    trp__lock_take(&device->lock);
    trp_status status = TRP_OK;
    while (meta->sealable && arena->moving && status == TRP_OK) {
        if (trp__is_service_thread) /* the change may wait for this thread */
            status = trp__error_set(&error, TRP_E_BUSY,
                                    "buffer: another thread seals or unseals it, and a thread that "
                                    "the device needs for its progress does not wait for that");
        else
            trp__lock_wait(&device->lock, &device->changed);
    }
    const int kind = meta->sealable && trp__sealed(meta) ? READ_ONLY : WRITABLE;
    if (status == TRP_OK)
        status = view_open(arena, kind, &error);
    if (status == TRP_OK) {
        meta->mapped[kind]++;
        *out = arena->view[kind].base + entry->offset;
    }
    trp__lock_drop(&device->lock);
    return status == TRP_OK ? TRP_OK : trp__error_raise(&error);
}

trp_status trp_buffer_map(trp_device *device, trp_buffer buffer, void **out)
{
    TRP__CALL(trp__call_refused());
    uint32_t slot;
    trp_status status = trp__device_known(device);
    if (status != TRP_OK)
        return status;
    if (!out)
        return trp__fail_null("out");
    if (device->backend != TRP_BACKEND_HOST)
        return trp__fail(TRP_E_UNSUPPORTED,
                         "device: expected the host backend, got cuda; copy the buffer with "
                         "trp_read() into memory of trp_host_alloc(), or share it with a GPU "
                         "program by trp_buffer_export()");
    status = trp__buffer_hold_readable(device, buffer, &slot);
    if (status != TRP_OK)
        return status;
    status = map_held(device, slot, out);
    if (status != TRP_OK)
        trp__buffer_release(device, slot);
    return status;
}

/* Undoes one mapping. The slot of a buffer with a mapping is not reused, so the counts belong to
 * the generation found under the lock. */
static trp_status unmap_one(trp_device *device, trp_buffer buffer, const char *memory,
                            uint32_t *slot)
{
    bool found = false;
    trp__lock_take(&device->lock);
    trp_status status = trp__buffer_find(device, buffer, slot);
    for (int kind = 0; kind < KINDS && status == TRP_OK && !found; kind++) {
        const trp__buffer_entry *entry = &device->control->buffer[*slot];
        trp__client_arena *arena = &device->memory.arena[entry->arena];
        uint32_t *mapped = &device->memory.meta[*slot].mapped[kind];
        trp__view_of_arena *view = &arena->view[kind];
        found = *mapped > 0 && view->base + entry->offset == memory;
        if (!found)
            continue;
        (*mapped)--;
        if (--view->users == 0)
            view_unmap(arena, kind);
    }
    trp__lock_drop(&device->lock);
    if (status == TRP_OK && !found)
        status = trp__fail(TRP_E_STALE,
                           "memory: expected what trp_buffer_map() gave for buffer %#llx, once for "
                           "each call, got %p",
                           (unsigned long long)buffer.id, (const void *)memory);
    return status;
}

trp_status trp_buffer_unmap(trp_device *device, trp_buffer buffer, void *memory)
{
    TRP__CALL(trp__call_refused());
    uint32_t slot;
    if (!memory)
        return TRP_OK;
    trp_status status = trp__device_known(device);
    if (status == TRP_OK)
        status = unmap_one(device, buffer, memory, &slot);
    if (status == TRP_OK)
        trp__buffer_release(device, slot);
    return status;
}

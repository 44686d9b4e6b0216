/* Buffers: the handle table, holders, creating and freeing. */
#include "base/call.h"
#include "base/error.h"
#include "client/core/backoff.h"
#include "client/memory/failures.h"
#include "client/memory/memory.h"

#include <string.h>

/* How long a new buffer waits for freed ones that are still in use, when memory is short. */
#define LINGER_WAIT_NS (5 * TRP__SECOND)

#define FREED   (UINT64_C(1) << 31)
#define HOLDERS (FREED - 1)

static uint32_t slot_of(trp_buffer buffer)
{
    return (uint32_t)buffer.id & (TRP__BUFFERS - 1);
}

static uint32_t generation_of(trp_buffer buffer)
{
    return (uint32_t)(buffer.id >> 32);
}

static uint32_t tag_of(trp_buffer buffer)
{
    return (uint32_t)buffer.id >> TRP__BUFFER_BITS;
}

static trp_status stale(const trp_device *device, const char *name, trp_buffer buffer,
                        trp_error *error)
{
    if (buffer.id == 0)
        return trp__error_set(error, TRP_E_STALE, "%s: no buffer given", name);
    if (tag_of(buffer) != device->tag)
        return trp__error_set(error, TRP_E_STALE,
                              "%s: buffer %#llx belongs to another device, or was never given out",
                              name, (unsigned long long)buffer.id);
    return trp__error_set(error, TRP_E_STALE, "%s: buffer %#llx was freed, or was never given out",
                          name, (unsigned long long)buffer.id);
}

/* Adds `change` to the hold word of a live buffer: 1 to hold it, FREED to free it. Returns the word
 * before in *before; false if the handle names no live buffer. */
static bool change_hold(trp_device *device, trp_buffer buffer, uint64_t change, uint64_t *before)
{
    _Atomic uint64_t *hold = &device->memory.meta[slot_of(buffer)].hold;
    *before = atomic_load_explicit(hold, memory_order_relaxed);
    do {
        if (tag_of(buffer) != device->tag || *before >> 32 != generation_of(buffer) ||
            generation_of(buffer) == 0 || (*before & FREED))
            return false;
    } while (!atomic_compare_exchange_weak(hold, before, *before + change));
    return true;
}

bool trp__buffer_gone(const trp__buffer_meta *meta)
{
    uint64_t hold = atomic_load(&meta->hold);
    return (hold & FREED) && (hold & HOLDERS) == 0;
}

trp_status trp__buffer_hold(trp_device *device, trp_buffer buffer, uint32_t *slot)
{
    trp_error error;
    uint64_t before;
    *slot = slot_of(buffer);
    if (change_hold(device, buffer, 1, &before))
        return TRP_OK;
    stale(device, "buffer", buffer, &error);
    return trp__error_raise(&error);
}

trp_status trp__buffer_find(trp_device *device, trp_buffer buffer, uint32_t *slot)
{
    trp_error error;
    *slot = slot_of(buffer);
    uint64_t hold = atomic_load(&device->memory.meta[*slot].hold);
    if (tag_of(buffer) == device->tag && hold >> 32 == generation_of(buffer) &&
        generation_of(buffer) != 0 && (!(hold & FREED) || (hold & HOLDERS) > 0))
        return TRP_OK;
    stale(device, "buffer", buffer, &error);
    return trp__error_raise(&error);
}

static trp_status unreadable(trp_device *device, trp_status status, uint64_t cause,
                             const char *name, trp_buffer buffer, trp_error *error)
{
    bool any = device->options.fault_scope == TRP_FAULT_SCOPE_ALL;
    unsigned long long id = buffer.id, request = cause;
    char why[140]; /* leaves room for the advice */
    trp_error root = {0};
    trp__failures_explain(device, cause, slot_of(buffer), &root, why, sizeof why);
    if (status != TRP_E_LOST)
        trp__error_set(error, status,
                       "%s: buffer %#llx was not written: %s; await request %llu, or write all of "
                       "what is read, before reading it",
                       name, id, why, request);
    else if (any)
        trp__error_set(error, status,
                       "%s: a worker that died after request %llu may have written to buffer "
                       "%#llx; write all of what is read before reading it, or call "
                       "trp_buffer_discard()",
                       name, request, id);
    else
        trp__error_set(error, status,
                       "%s: buffer %#llx may be half-written: %s; write all of what is read before "
                       "reading it, "
                       "or call trp_buffer_discard()",
                       name, id, why);
    if (status != TRP_E_LOST || !any) {
        error->cause_request = root.cause_request;
        error->cause_status = root.cause_status;
        error->cause_fault = root.cause_fault;
    }
    return status;
}

trp_status trp__buffer_hold_readable(trp_device *device, trp_buffer buffer, uint32_t *slot)
{
    uint64_t cause = 0;
    trp_error error;
    trp_status status = trp__buffer_hold(device, buffer, slot);
    if (status != TRP_OK)
        return status;
    const trp__access whole = {.slot = *slot,
                               .generation = generation_of(buffer),
                               .bytes = device->control->buffer[*slot].bytes,
                               .mode = TRP__READ};
    status = trp__access_readable(device, &whole, &cause);
    if (status == TRP_OK)
        return TRP_OK;
    unreadable(device, status, cause, "buffer", buffer, &error);
    trp__buffer_release(device, *slot);
    return trp__error_raise(&error);
}

trp_status trp__buffer_acquire(trp__encoder *encoder, const char *name, trp_buffer buffer,
                               trp__access *access, uint64_t *bytes)
{
    trp__slot *request = encoder->context;
    trp_device *device = trp__device_by_tag(request->item.device_tag);
    uint32_t slot = slot_of(buffer);
    trp__buffer_meta *meta = &device->memory.meta[slot];
    uint64_t before;
    if (!change_hold(device, buffer, 1, &before))
        return stale(device, name, buffer, encoder->error);
    if ((access->mode & TRP__WRITE) && meta->sealable && !trp__write_begin(meta)) {
        trp__buffer_release(device, slot);
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "%s: buffer %#llx is sealed; it can't be written before "
                              "trp_buffer_unseal()",
                              name, (unsigned long long)buffer.id);
    }
    access->slot = slot;
    access->generation = generation_of(buffer);
    *bytes = device->control->buffer[slot].bytes;
    return TRP_OK;
}

trp_status trp__buffer_look(trp__encoder *encoder, const char *name, trp_buffer buffer,
                            const trp__access *access)
{
    trp__slot *request = encoder->context;
    trp_device *device = trp__device_by_tag(request->item.device_tag);
    uint64_t cause = 0;
    if (!(access->mode & TRP__READ))
        return TRP_OK;
    trp_status status = trp__access_readable(device, access, &cause);
    if (status != TRP_OK)
        return unreadable(device, status, cause, name, buffer, encoder->error);
    request->look[access - encoder->record->access] = trp__access_look(device, access);
    return TRP_OK;
}

uint64_t trp__memory_used(const trp_device *device)
{
    return trp__suballoc_used_bytes(device->memory.suballoc) + device->memory.sealable_bytes;
}

void trp__memory_publish(trp_device *device)
{
    trp__stats_memory(device, device->memory.reserved, trp__memory_used(device),
                      device->memory.live_buffers);
}

/* Frees memory and slot of a freed buffer without holders. */
static void recycle(trp_device *device, uint32_t slot)
{
    trp__call_shield();
    trp__buffer_meta *meta = &device->memory.meta[slot];
    uint32_t arena = device->control->buffer[slot].arena;
    bool sealable = meta->sealable;
    uint64_t generation = (atomic_load(&meta->hold) >> 32) + 1;
    if ((generation & UINT32_MAX) == 0)
        generation = 1;
    trp__lock_take(&device->memory.lock);
    trp__object *object = meta->object;
    bool made = object && atomic_load(&meta->contents.word[TRP__GOOD]) != 0;
    meta->object = NULL;
    if (!sealable)
        trp__suballoc_free(device->memory.suballoc, meta->node);
    device->memory.live_buffers--;
    atomic_store_explicit(&device->control->buffer[slot].generation, (uint32_t)generation,
                          memory_order_release);
    atomic_store_explicit(&meta->hold, generation << 32 | FREED, memory_order_release);
    meta->next_free = device->memory.free_buffer;
    device->memory.free_buffer = slot;
    trp__memory_publish(device);
    trp__lock_drop(&device->memory.lock);
    if (sealable)
        trp__arena_return(device, arena);
    if (object)
        object->class->destroy(object, made);
    atomic_fetch_sub(&device->memory.lingering,
                     1); /* senders that wait for memory may take it now */
}

void trp__buffer_release(trp_device *device, uint32_t slot)
{
    uint64_t before =
        atomic_fetch_sub_explicit(&device->memory.meta[slot].hold, 1, memory_order_acq_rel);
    if ((before & FREED) && (before & HOLDERS) == 1)
        recycle(device, slot);
}

/* Undoes trp__buffer_acquire(). */
void trp__access_release(trp_device *device, const trp__access *access)
{
    trp__buffer_meta *meta = &device->memory.meta[access->slot];
    if ((access->mode & TRP__WRITE) && meta->sealable)
        trp__write_end(meta);
    trp__buffer_release(device, access->slot);
}

/* Returns a free slot, or UINT32_MAX. memory.lock is held. */
static uint32_t take_slot(trp_device *device)
{
    uint32_t slot = device->memory.free_buffer;
    if (slot != UINT32_MAX) {
        device->memory.free_buffer = device->memory.meta[slot].next_free;
        return slot;
    }
    if (device->memory.buffers_made == TRP__BUFFERS)
        return UINT32_MAX;
    slot = device->memory.buffers_made++;
    atomic_store(&device->memory.meta[slot].hold, UINT64_C(1) << 32 | FREED);
    return slot;
}

/* Ends requests that are done, so that freed buffers return their memory. memory.lock is held, and
 * dropped meanwhile. */
static void sweep_unlocked(trp_device *device)
{
    trp__lock_drop(&device->memory.lock);
    device->end_over(device);
    trp__lock_take(&device->memory.lock);
}

/* Takes memory from existing arenas; not for a sealable buffer. */
static bool take(trp_device *device, const trp_buffer_options *options, trp__suballoc_block *block)
{
    return !options->sealable &&
           trp__suballoc_alloc(device->memory.suballoc, options->bytes, block);
}

static trp_status grow(trp_device *device, const trp_buffer_options *options,
                       trp__suballoc_block *block, trp_error *error)
{
    *block = (trp__suballoc_block){0};
    trp_status status =
        trp__arena_add(device, options->bytes, options->sealable ? &block->region : NULL, error);
    if (status == TRP_OK && !options->sealable && !take(device, options, block))
        status = trp__error_set(error, TRP_E_MEMORY, "no memory for the bookkeeping of buffers");
    return status;
}

/* Takes memory for a buffer: from the arenas; from freed buffers whose requests have ended; from a
 * new arena; last, from freed buffers whose requests are running, after waiting for those. */
static trp_status allocate(trp_device *device, const trp_buffer_options *options,
                           trp__suballoc_block *block, trp_error *error)
{
    if (take(device, options, block))
        return TRP_OK;
    sweep_unlocked(device);
    if (take(device, options, block))
        return TRP_OK;
    trp_status status = grow(device, options, block, error);
    trp__backoff backoff = trp__backoff_begin(LINGER_WAIT_NS);
    int64_t nap;
    while (status == TRP_E_MEMORY && atomic_load(&device->memory.lingering) > 0 &&
           trp__backoff_step(&backoff, &nap)) {
        uint64_t before = atomic_load(&device->memory.lingering);
        sweep_unlocked(device);
        if (take(device, options, block))
            return TRP_OK;
        if (atomic_load(&device->memory.lingering) < before) {
            status = grow(device, options, block, error);
        } else if (nap > 0) {
            trp__lock_drop(&device->memory.lock);
            trp__nap(nap);
            trp__lock_take(&device->memory.lock);
        }
    }
    return status;
}

/* Returns memory for which no buffer could be made. memory.lock is held, and dropped meanwhile. */
static void give_back(trp_device *device, const trp_buffer_options *options,
                      const trp__suballoc_block *block)
{
    if (!options->sealable) {
        trp__suballoc_free(device->memory.suballoc, block->node);
        return;
    }
    trp__lock_drop(&device->memory.lock);
    trp__arena_return(device, block->region);
    trp__lock_take(&device->memory.lock);
}

/* Fills the slot of a new buffer. memory.lock is held, so its holders see only complete buffers. */
static void fill_slot(trp_device *device, uint32_t slot, const trp_buffer_options *options,
                      const trp__suballoc_block *block, trp_buffer *out)
{
    trp__buffer_meta *meta = &device->memory.meta[slot];
    trp__buffer_entry *entry = &device->control->buffer[slot];
    uint64_t generation = atomic_load_explicit(&meta->hold, memory_order_relaxed) >> 32;
    meta->node = block->node;
    meta->sealable = options->sealable;
    /* Orders this after the supervisor's notes on the slot's last buffer for ThreadSanitizer, which
     * does not see the order through the worker's process. */
    (void)atomic_load(&device->incarnation);
    trp__contents_reset(device, slot);
    atomic_store_explicit(&meta->writers, 0, memory_order_relaxed);
    entry->arena = block->region;
    entry->offset = block->offset;
    entry->bytes = options->bytes;
    atomic_store_explicit(&entry->protection,
                          options->sealable ? device->memory.arena[block->region].protection : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&entry->generation, (uint32_t)generation, memory_order_release);
    atomic_store_explicit(&meta->hold, generation << 32, memory_order_release);
    out->id = generation << 32 | (uint64_t)device->tag << TRP__BUFFER_BITS | slot;
}

trp_status trp__buffer_create(trp_device *device, const trp_buffer_options *options,
                              trp_buffer *out)
{
    trp_status status = trp__device_usable(device);
    if (status != TRP_OK)
        return status;
    if (!options || !out)
        return trp__fail_null(options ? "out" : "options");
    if (options->bytes == 0)
        return trp__fail(TRP_E_ARGUMENT, "bytes: expected at least 1, got 0");
    if (TRP__CHECK_ROOM(options) != TRP_OK)
        return TRP_E_ARGUMENT;
    trp_error error = {0};
    trp__suballoc_block block;

    trp__lock_take(&device->memory.lock);
    status = allocate(device, options, &block, &error);
    if (status == TRP_OK) {
        uint32_t slot = take_slot(device);
        if (slot == UINT32_MAX) {
            give_back(device, options, &block);
            status = trp__error_set(&error, TRP_E_BUSY,
                                    "expected at most %d live buffers of a device, all are alive",
                                    TRP__BUFFERS);
        } else {
            device->memory.live_buffers++;
            fill_slot(device, slot, options, &block, out);
        }
    }
    trp__memory_publish(device);
    trp__lock_drop(&device->memory.lock);
    return status == TRP_OK ? TRP_OK : trp__error_raise(&error);
}

trp_status trp_buffer_create_with(trp_device *device, const trp_buffer_options *options,
                                  trp_buffer *out)
{
    TRP__CALL(trp__call_refused());
    return trp__buffer_create(device, options, out);
}

void trp__buffer_expect(trp_device *device, uint64_t bytes)
{
    trp__suballoc_block block;
    trp_error ignored;
    trp__lock_take(&device->memory.lock);
    if (trp__suballoc_alloc(device->memory.suballoc, bytes, &block))
        trp__suballoc_free(device->memory.suballoc, block.node);
    else
        (void)trp__arena_add(device, bytes, NULL, &ignored);
    trp__memory_publish(device);
    trp__lock_drop(&device->memory.lock);
}

trp_status trp_buffer_create(trp_device *device, uint64_t bytes, trp_buffer *out)
{
    TRP__CALL(trp__call_refused());
    return trp__buffer_create(device, &(trp_buffer_options){.bytes = bytes}, out);
}

void trp__buffer_set_object(trp_device *device, trp_buffer token, trp__object *object)
{
    trp__lock_take(&device->memory.lock);
    device->memory.meta[slot_of(token)].object = object;
    trp__lock_drop(&device->memory.lock);
}

trp_status trp__buffer_free(trp_device *device, trp_buffer buffer)
{
    trp_status status = trp__device_known(device);
    if (status != TRP_OK)
        return status; /* freeing works on a device that is down, too */
    uint64_t before;
    atomic_fetch_add(&device->memory.lingering, 1);
    if (!change_hold(device, buffer, FREED, &before)) {
        trp_error error;
        atomic_fetch_sub(&device->memory.lingering, 1);
        stale(device, "buffer", buffer, &error);
        return trp__error_raise(&error);
    }
    if ((before & HOLDERS) == 0)
        recycle(device, slot_of(buffer));
    return TRP_OK;
}

trp_status trp_buffer_free(trp_device *device, trp_buffer buffer)
{
    TRP__CALL(trp__call_refused());
    return trp__buffer_free(device, buffer);
}

trp_status trp_buffer_get_info(trp_device *device, trp_buffer buffer, trp_buffer_info *out)
{
    TRP__CALL(trp__call_refused());
    trp_status status = trp__device_known(device);
    if (status != TRP_OK)
        return status;
    if (!out)
        return trp__fail_null("out");
    uint32_t slot;
    status = trp__buffer_hold(device, buffer, &slot);
    if (status != TRP_OK)
        return status;
    trp__buffer_meta *meta = &device->memory.meta[slot];
    *out = (trp_buffer_info){.bytes = device->control->buffer[slot].bytes};
    out->lost = trp__buffer_lost(device, slot);
    out->sealable = meta->sealable;
    out->sealed = meta->sealable && trp__sealed(meta);
    trp__buffer_release(device, slot);
    return TRP_OK;
}

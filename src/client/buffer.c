/* Buffers: the handle table, what is known of their contents, and who holds them. */
#include "base/error.h"
#include "client/backoff.h"
#include "client/client.h"

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
    _Atomic uint64_t *hold = &device->meta[slot_of(buffer)].hold;
    *before = atomic_load_explicit(hold, memory_order_relaxed);
    do {
        if (tag_of(buffer) != device->tag || *before >> 32 != generation_of(buffer) ||
            generation_of(buffer) == 0 || (*before & FREED))
            return false;
    } while (!atomic_compare_exchange_weak(hold, before, *before + change));
    return true;
}

bool trp__buffer_lost(const trp_device *device, uint32_t slot)
{
    const trp__buffer_meta *meta = &device->meta[slot];
    uint64_t lost = atomic_load_explicit(&meta->lost_ticket, memory_order_acquire);
    return lost != 0 && lost >= atomic_load_explicit(&meta->cover_ticket, memory_order_acquire);
}

/* The same for a request that has its ticket: one sent later that writes all of the buffer does not
 * count, for it runs later. Then what counts is `cover`, seen before the request took its ticket.
 */
bool trp__buffer_lost_to(const trp_device *device, uint32_t slot, uint64_t ticket, uint64_t cover)
{
    const trp__buffer_meta *meta = &device->meta[slot];
    uint64_t lost = atomic_load_explicit(&meta->lost_ticket, memory_order_acquire);
    if (lost == 0)
        return false;
    uint64_t last = atomic_load_explicit(&meta->cover_ticket, memory_order_acquire);
    return lost >= (last > ticket ? cover : last);
}

void trp__raise_ticket(_Atomic uint64_t *word, uint64_t ticket)
{
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
    while (old < ticket && !atomic_compare_exchange_weak(word, &old, ticket))
        continue;
}

void trp__buffer_mark_lost(trp_device *device, uint32_t slot, uint64_t ticket)
{
    trp__raise_ticket(&device->meta[slot].lost_ticket, ticket);
}

/* Whether the request writes every byte of the buffer and reads none. */
bool trp__access_covers(const trp_device *device, const trp__access *access)
{
    return (access->mode & TRP__COVER) && access->offset == 0 &&
           access->bytes == device->control->buffer[access->slot].bytes;
}

trp_status trp__buffer_acquire(trp__pack *pack, const char *name, trp_buffer buffer, bool reads,
                               trp__access *access, uint64_t *bytes)
{
    trp__slot *request = pack->context;
    trp_device *device = trp__device_by_tag(request->device_tag);
    uint32_t slot = slot_of(buffer);
    trp__buffer_meta *meta = &device->meta[slot];
    uint64_t before;
    if (!change_hold(device, buffer, 1, &before))
        return stale(device, name, buffer, pack->error);
    if (reads && trp__buffer_lost(device, slot)) {
        trp__buffer_release(device, slot);
        return trp__error_set(pack->error, TRP_E_LOST,
                              "%s: a fault during request %llu may have left buffer %#llx half-"
                              "written; write all of it before reading it",
                              name, (unsigned long long)atomic_load(&meta->lost_ticket),
                              (unsigned long long)buffer.id);
    }
    if (reads)
        request->cover[access - pack->record->access] =
            atomic_load_explicit(&meta->cover_ticket, memory_order_relaxed);
    access->slot = slot;
    access->generation = generation_of(buffer);
    *bytes = device->control->buffer[slot].bytes;
    return TRP_OK;
}

/* Nobody holds a freed buffer any more: memory and slot go back. */
static void recycle(trp_device *device, uint32_t slot)
{
    trp__buffer_meta *meta = &device->meta[slot];
    atomic_fetch_sub(&device->lingering, 1);
    uint64_t generation = (atomic_load(&meta->hold) >> 32) + 1;
    if ((generation & UINT32_MAX) == 0)
        generation = 1;
    pthread_mutex_lock(&device->memory_lock);
    trp__suballoc_free(device->suballoc, meta->node);
    device->live_buffers--;
    atomic_store_explicit(&device->control->buffer[slot].generation, (uint32_t)generation,
                          memory_order_release);
    atomic_store_explicit(&meta->hold, generation << 32 | FREED, memory_order_release);
    meta->next_free = device->free_buffer;
    device->free_buffer = slot;
    pthread_mutex_unlock(&device->memory_lock);
}

void trp__buffer_release(trp_device *device, uint32_t slot)
{
    uint64_t before = atomic_fetch_sub_explicit(&device->meta[slot].hold, 1, memory_order_acq_rel);
    if ((before & FREED) && (before & HOLDERS) == 1)
        recycle(device, slot);
}

/* A slot that is free, or UINT32_MAX. memory_lock is held. */
static uint32_t take_slot(trp_device *device)
{
    uint32_t slot = device->free_buffer;
    if (slot != UINT32_MAX) {
        device->free_buffer = device->meta[slot].next_free;
        return slot;
    }
    if (device->buffers_made == TRP__BUFFERS)
        return UINT32_MAX;
    slot = device->buffers_made++;
    atomic_store(&device->meta[slot].hold, UINT64_C(1) << 32 | FREED);
    return slot;
}

/* Ends what is over, so that freed buffers give their memory back. memory_lock is held, and given
 * up for the time. */
static void sweep_unlocked(trp_device *device)
{
    pthread_mutex_unlock(&device->memory_lock);
    trp__sweep_device(device);
    pthread_mutex_lock(&device->memory_lock);
}

static trp_status grow(trp_device *device, uint64_t bytes, trp__suballoc_block *block,
                       trp_error *error)
{
    trp_status status = trp__arena_add(device, bytes, error);
    if (status == TRP_OK && !trp__suballoc_alloc(device->suballoc, bytes, block))
        status = trp__error_set(error, TRP_E_MEMORY, "no memory for the bookkeeping of buffers");
    return status;
}

/* Memory for a buffer: from the arenas; from freed buffers whose requests have ended; from a new
 * arena; last, from freed buffers whose requests are running, which takes as long as they do. */
static trp_status allocate(trp_device *device, uint64_t bytes, trp__suballoc_block *block,
                           trp_error *error)
{
    if (trp__suballoc_alloc(device->suballoc, bytes, block))
        return TRP_OK;
    sweep_unlocked(device);
    if (trp__suballoc_alloc(device->suballoc, bytes, block))
        return TRP_OK;
    trp_status status = grow(device, bytes, block, error);
    trp__backoff backoff = trp__backoff_begin(LINGER_WAIT_NS);
    int64_t nap;
    while (status == TRP_E_MEMORY && atomic_load(&device->lingering) > 0 &&
           trp__backoff_step(&backoff, &nap)) {
        uint64_t before = atomic_load(&device->lingering);
        sweep_unlocked(device);
        if (trp__suballoc_alloc(device->suballoc, bytes, block))
            return TRP_OK;
        if (atomic_load(&device->lingering) < before) {
            status = grow(device, bytes, block, error);
        } else if (nap > 0) {
            pthread_mutex_unlock(&device->memory_lock);
            trp__nap(nap);
            pthread_mutex_lock(&device->memory_lock);
        }
    }
    return status;
}

trp_status trp_buffer_create(trp_device *device, uint64_t bytes, trp_buffer *out)
{
    trp_status status = trp__device_usable(device);
    if (status != TRP_OK)
        return status;
    if (bytes == 0 || !out)
        return trp__fail(TRP_E_ARGUMENT, "%s",
                         out ? "bytes: expected at least 1, got 0"
                             : "out: expected a pointer, got NULL");
    trp_error error = {0};
    trp__suballoc_block block;
    uint32_t slot = UINT32_MAX;

    pthread_mutex_lock(&device->memory_lock);
    status = allocate(device, bytes, &block, &error);
    if (status == TRP_OK) {
        slot = take_slot(device);
        if (slot == UINT32_MAX) {
            trp__suballoc_free(device->suballoc, block.node);
            status = trp__error_set(&error, TRP_E_BUSY, "%d buffers are alive", TRP__BUFFERS);
        } else {
            device->live_buffers++;
        }
    }
    pthread_mutex_unlock(&device->memory_lock);
    if (status != TRP_OK)
        return trp__error_raise(&error);

    trp__buffer_meta *meta = &device->meta[slot];
    trp__buffer_entry *entry = &device->control->buffer[slot];
    uint64_t generation = atomic_load_explicit(&meta->hold, memory_order_relaxed) >> 32;
    meta->node = block.node;
    atomic_store_explicit(&meta->lost_ticket, 0, memory_order_relaxed);
    atomic_store_explicit(&meta->cover_ticket, 0, memory_order_relaxed);
    atomic_store_explicit(&meta->good_ticket, 0, memory_order_relaxed);
    entry->arena = block.region;
    entry->offset = block.offset;
    entry->bytes = bytes;
    atomic_store_explicit(&entry->generation, (uint32_t)generation, memory_order_release);
    atomic_store_explicit(&meta->hold, generation << 32, memory_order_release);
    out->id = generation << 32 | (uint64_t)device->tag << TRP__BUFFER_BITS | slot;
    return TRP_OK;
}

trp_status trp_buffer_free(trp_device *device, trp_buffer buffer)
{
    trp_status status = trp__device_usable(device);
    if (status == TRP_E_FORKED || status == TRP_E_ARGUMENT)
        return status; /* freeing after a fault, or on a device that is down, works */
    uint64_t before;
    atomic_fetch_add(&device->lingering, 1);
    if (!change_hold(device, buffer, FREED, &before)) {
        trp_error error;
        atomic_fetch_sub(&device->lingering, 1);
        stale(device, "buffer", buffer, &error);
        return trp__error_raise(&error);
    }
    if ((before & HOLDERS) == 0)
        recycle(device, slot_of(buffer));
    return TRP_OK;
}

trp_status trp_buffer_get_info(trp_device *device, trp_buffer buffer, trp_buffer_info *out)
{
    trp_status status = trp__device_usable(device);
    if (status == TRP_E_FORKED || status == TRP_E_ARGUMENT)
        return status;
    if (!out)
        return trp__fail(TRP_E_ARGUMENT, "out: expected a pointer, got NULL");
    uint32_t slot = slot_of(buffer);
    uint64_t before;
    if (!change_hold(device, buffer, 1, &before)) {
        trp_error error;
        stale(device, "buffer", buffer, &error);
        return trp__error_raise(&error);
    }
    out->bytes = device->control->buffer[slot].bytes;
    out->lost = trp__buffer_lost(device, slot);
    trp__buffer_release(device, slot);
    return TRP_OK;
}

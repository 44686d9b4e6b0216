/* The heap: memory that the application shares with workers for the homes of modules. One sparse
 * memory file of TRP__HEAP_BYTES, made with the first actor that needs it; pages exist only where
 * something was written, and go when a piece is given back. */
#include "base/error.h"
#include "base/os/shm.h"
#include "client/memory/memory.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { UNIT = 4096 };

/* A piece of the heap, in use or free. All of them together are the heap, in order; no two free
 * ones are neighbours. So giving back needs no memory. */
struct trp__extent {
    uint64_t offset, bytes;
    bool used;
    trp__extent *before, *after;
};

trp_status trp__heap_open(trp_device *device)
{
    trp__heap *heap = &device->memory.heap;
    trp_error error = {0};
    trp_status status = TRP_OK;
    uint32_t segment = 0;
    void *base = NULL;
    trp__lock_take(&heap->opening);
    if (!heap->base) {
        trp__extent *all = calloc(1, sizeof *all);
        if (!all)
            status = trp__error_set(&error, TRP_E_MEMORY, "no memory for a table of images");
        else
            status = trp__segment_add(device, TRP__HEAP_BYTES, true, &segment, &base, &error);
        if (status == TRP_OK && all) {
            madvise(base, TRP__HEAP_BYTES, MADV_DONTFORK);
            madvise(base, TRP__HEAP_BYTES, MADV_DONTDUMP);
            all->bytes = TRP__HEAP_BYTES;
            trp__lock_take(&heap->lock);
            heap->segment = segment;
            heap->first = all;
            heap->base = base;
            trp__lock_drop(&heap->lock);
        } else {
            free(all);
        }
    }
    trp__lock_drop(&heap->opening);
    return status == TRP_OK ? TRP_OK : trp__error_raise(&error);
}

void trp__heap_close(trp_device *device)
{
    trp__heap *heap = &device->memory.heap;
    while (heap->first) {
        trp__extent *after = heap->first->after;
        free(heap->first);
        heap->first = after;
    }
    if (heap->base)
        trp__shm_unmap(heap->base, TRP__HEAP_BYTES);
    heap->base = NULL;
}

/* Cuts what is behind `bytes` off a piece; the lock is held. False: no memory to note it. */
static bool split(trp__extent *e, uint64_t bytes)
{
    trp__extent *rest = calloc(1, sizeof *rest);
    if (!rest)
        return false;
    *rest = (trp__extent){
        .offset = e->offset + bytes, .bytes = e->bytes - bytes, .before = e, .after = e->after};
    if (rest->after)
        rest->after->before = rest;
    e->after = rest;
    e->bytes = bytes;
    return true;
}

/* Makes one of a piece and the one behind it. */
static void join(trp__extent *e)
{
    trp__extent *rest = e->after;
    e->bytes += rest->bytes;
    e->after = rest->after;
    if (rest->after)
        rest->after->before = e;
    free(rest);
}

static uint64_t units(uint64_t bytes)
{
    return bytes == 0 ? UNIT : (bytes + UNIT - 1) / UNIT * UNIT;
}

trp__extent *trp__heap_take(trp_device *device, uint64_t bytes, uint64_t *offset)
{
    trp__heap *heap = &device->memory.heap;
    uint64_t wanted = units(bytes);
    trp__lock_take(&heap->lock);
    trp__extent *e = heap->first;
    while (e && (e->used || e->bytes < wanted))
        e = e->after;
    if (e && e->bytes > wanted && !split(e, wanted))
        e = NULL;
    if (e) {
        e->used = true;
        *offset = e->offset;
    }
    trp__lock_drop(&heap->lock);
    return e;
}

/* A free piece, whose pages go. The lock is held. */
static void give_back(trp__heap *heap, trp__extent *e)
{
    madvise(heap->base + e->offset, e->bytes, MADV_REMOVE);
    e->used = false;
    if (e->after && !e->after->used)
        join(e);
    if (e->before && !e->before->used)
        join(e->before);
}

void trp__heap_cut(trp_device *device, trp__extent *extent, uint64_t bytes)
{
    trp__heap *heap = &device->memory.heap;
    trp__lock_take(&heap->lock);
    if (units(bytes) < extent->bytes && split(extent, units(bytes))) {
        extent->after->used = true;
        give_back(heap, extent->after);
    }
    trp__lock_drop(&heap->lock);
}

void trp__heap_return(trp_device *device, trp__extent *extent)
{
    trp__lock_take(&device->memory.heap.lock);
    give_back(&device->memory.heap, extent);
    trp__lock_drop(&device->memory.heap.lock);
}

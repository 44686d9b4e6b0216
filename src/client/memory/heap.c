#include "client/memory/heap.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { UNIT = 4096 };

/* A piece of the heap, in use or free. The pieces are in order and cover the heap; no two free ones
 * are neighbours, so freeing needs no memory. */
struct trp__extent {
    uint64_t offset, bytes;
    bool used;
    trp__extent *before, *after;
};

void trp__heap_init(trp__heap *heap, trp_device *device, const _Atomic uint32_t *incarnation,
                    trp__log *log)
{
    heap->device = device;
    heap->incarnation = incarnation;
    heap->log = log;
    trp__lock_init(&heap->opening, TRP__RANK_OPENING);
    trp__lock_init(&heap->lock, TRP__RANK_HEAP);
}

bool trp__heap_reserve(trp__heap *heap)
{
    if (!heap->first)
        heap->first = calloc(1, sizeof *heap->first);
    return heap->first != NULL;
}

void trp__heap_begin(trp__heap *heap, char *base, uint64_t bytes, uint32_t segment)
{
    trp__lock_take(&heap->lock);
    heap->segment = segment;
    heap->first->bytes = bytes;
    heap->bytes = bytes;
    heap->base = base;
    trp__lock_drop(&heap->lock);
}

void trp__heap_add_class(trp__heap *heap, const trp__object_class *class)
{
    uint32_t count = atomic_load(&heap->classes);
    for (uint32_t i = 0; i < count; i++) {
        if (heap->class[i] == class)
            return;
    }
    assert(count < TRP__OBJECT_CLASSES);
    heap->class[count] = class;
    heap->cache[count] = class->cache_make ? class->cache_make(heap) : NULL;
    atomic_store(&heap->classes, count + 1);
}

void trp__heap_end(trp__heap *heap)
{
    for (uint32_t i = 0; i < atomic_load(&heap->classes); i++) {
        if (heap->cache[i])
            heap->class[i]->cache_end(heap->cache[i]);
    }
    while (heap->first) {
        trp__extent *after = heap->first->after;
        free(heap->first);
        heap->first = after;
    }
    trp__lock_destroy(&heap->opening);
    trp__lock_destroy(&heap->lock);
}

/* Splits a piece behind `bytes`; the lock is held. False: no memory. */
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

/* Joins a piece with the next one. */
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

trp__extent *trp__heap_take(trp__heap *heap, uint64_t bytes, uint64_t *offset)
{
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

/* Frees a piece and its pages. The lock is held. */
static void give_back(trp__heap *heap, trp__extent *e)
{
    madvise(heap->base + e->offset, e->bytes, MADV_REMOVE);
    e->used = false;
    if (e->after && !e->after->used)
        join(e);
    if (e->before && !e->before->used)
        join(e->before);
}

void trp__heap_cut(trp__heap *heap, trp__extent *extent, uint64_t bytes)
{
    trp__lock_take(&heap->lock);
    if (units(bytes) < extent->bytes && split(extent, units(bytes))) {
        extent->after->used = true;
        give_back(heap, extent->after);
    }
    trp__lock_drop(&heap->lock);
}

void trp__heap_return(trp__heap *heap, trp__extent *extent)
{
    trp__lock_take(&heap->lock);
    give_back(heap, extent);
    trp__lock_drop(&heap->lock);
}

char *trp__heap_at(const trp__heap *heap, uint64_t offset)
{
    return heap->base + offset;
}

trp_device *trp__heap_device(const trp__heap *heap)
{
    return heap->device;
}

uint32_t trp__heap_segment(const trp__heap *heap)
{
    return heap->segment;
}

uint32_t trp__heap_incarnation(const trp__heap *heap)
{
    return atomic_load(heap->incarnation);
}

void *trp__heap_cache(const trp__heap *heap, const trp__object_class *class)
{
    for (uint32_t i = 0; i < atomic_load(&heap->classes); i++) {
        if (heap->class[i] == class)
            return heap->cache[i];
    }
    return NULL;
}

trp__log *trp__heap_log(const trp__heap *heap)
{
    return heap->log;
}

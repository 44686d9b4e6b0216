/* The heap of a device, see wire/object.h: a sparse memory file, made with the first actor that
 * needs it. Pages exist only where something was written, and are freed with their extent. */
#ifndef TRP_CLIENT_MEMORY_HEAP_H
#define TRP_CLIENT_MEMORY_HEAP_H

#include "base/os/lock.h"
#include "wire/object.h"

#include <stdatomic.h>

enum { TRP__OBJECT_CLASSES = 4 };

struct trp__heap {
    trp_device *device;
    const _Atomic uint32_t *incarnation;
    trp__log *log;
    trp__lock opening; /* making it, and adding a class */
    trp__lock lock;    /* the extents */
    char *base;        /* NULL: not made yet */
    uint64_t bytes;
    uint32_t segment;
    trp__extent *first;
    /* The classes of its objects, and their caches. Entries below `classes` do not change. */
    _Atomic uint32_t classes;
    const trp__object_class *class[TRP__OBJECT_CLASSES];
    void *cache[TRP__OBJECT_CLASSES];
};

void trp__heap_init(trp__heap *heap, trp_device *device, const _Atomic uint32_t *incarnation,
                    trp__log *log);
/* The lock `opening` is held for these three. Makes the table; false: no memory. */
bool trp__heap_reserve(trp__heap *heap);
/* Sets its memory, which stays the caller's. */
void trp__heap_begin(trp__heap *heap, char *base, uint64_t bytes, uint32_t segment);
/* Adds a class and makes its cache, unless that was done. */
void trp__heap_add_class(trp__heap *heap, const trp__object_class *class);
/* Ends the heap, which has no object left. */
void trp__heap_end(trp__heap *heap);

#endif

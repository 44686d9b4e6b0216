/* The heap of a device, see wire/object.h: a sparse memory file, made with the first actor that
 * needs it. Pages exist only where something was written, and go when an extent is given back. */
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
    /* Those of which objects may be made, and their caches. Neither changes once it is counted. */
    _Atomic uint32_t classes;
    const trp__object_class *class[TRP__OBJECT_CLASSES];
    void *cache[TRP__OBJECT_CLASSES];
};

void trp__heap_init(trp__heap *heap, trp_device *device, const _Atomic uint32_t *incarnation,
                    trp__log *log);
/* The lock `opening` is held for these three. Makes its table; false: there is no memory. */
bool trp__heap_reserve(trp__heap *heap);
/* Gives it its memory, which stays the caller's. */
void trp__heap_begin(trp__heap *heap, char *base, uint64_t bytes, uint32_t segment);
/* Adds a class and makes its cache, unless that was done. */
void trp__heap_add_class(trp__heap *heap, const trp__object_class *class);
/* No object is left. */
void trp__heap_end(trp__heap *heap);

#endif

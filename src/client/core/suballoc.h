/*
 * A sub-allocator for memory that the CPU cannot touch.
 *
 * The caller owns large regions (arenas of device memory); this hands out ranges of them. All
 * bookkeeping lives in ordinary memory of its own, never in the regions, so a region may be device
 * memory, or no memory at all. The algorithm is TLSF (M. Masmano, I. Ripoll, A. Crespo, J. Real,
 * "TLSF: a New Dynamic Memory Allocator for Real-Time Systems", ECRTS 2004): free blocks are kept
 * in lists by size class, two levels of bitmaps find the first list that is sure to fit, and a
 * freed block merges with its free neighbours at once.
 *
 * Allocation and freeing take constant time, but for one case, written at trp__suballoc_alloc.
 *
 * Threads: none of these functions locks. The caller holds one lock around every call on one
 * allocator; different allocators are independent.
 */
#ifndef TRP_CLIENT_CORE_SUBALLOC_H
#define TRP_CLIENT_CORE_SUBALLOC_H

#include <stdbool.h>
#include <stdint.h>

/* Every offset and every size handed out is a multiple of this many bytes. */
#define TRP__SUBALLOC_GRANULE 256u

/* Region ids are below this. */
#define TRP__SUBALLOC_REGION_LIMIT 65536u

typedef struct trp__suballoc trp__suballoc;

/* One allocated range. `node` names it until it is freed; 0 is never a valid node. */
typedef struct trp__suballoc_block {
    uint32_t node;
    uint32_t region;
    uint64_t offset; /* bytes from the start of the region */
    uint64_t size;   /* bytes, the request rounded up to the granule */
} trp__suballoc_block;

/* Creates an allocator without regions; NULL: out of memory. The caller owns it. */
trp__suballoc *trp__suballoc_create(void);

/* Frees the bookkeeping, whatever is still allocated. NULL is allowed. */
void trp__suballoc_destroy(trp__suballoc *sa);

/*
 * Adds `size` bytes under the id `region`, chosen by the caller, as one free block. A size that is
 * no multiple of the granule is used up to the last whole granule. False, with nothing changed,
 * when the id is in use or too large, the size is below one granule, the sizes of all regions would
 * not fit in 64 bits together, or memory for the bookkeeping is missing.
 */
bool trp__suballoc_add_region(trp__suballoc *sa, uint32_t region, uint64_t size);

/* Removes a region in which nothing is allocated. False, with nothing changed, when something is,
 * or when there is no such region. The id may be used again. */
bool trp__suballoc_remove_region(trp__suballoc *sa, uint32_t region);

/*
 * Allocates `size` bytes, rounded up to the granule, from any region. False, with *out zeroed, when
 * size is 0 or within a granule of 2^64, when no free block is large enough, or when memory for the
 * bookkeeping is missing.
 *
 * It fails for want of room only when truly no single free block fits: where no block of a larger
 * class is left it walks the free list of the request's own class, whose blocks differ in size by
 * less than 1/32. That walk, next to exhaustion, is the only step that is not constant time.
 */
bool trp__suballoc_alloc(trp__suballoc *sa, uint64_t size, trp__suballoc_block *out);

/* Frees the block of that node, and merges it with free neighbours. Never fails and needs no
 * memory. A node that is not allocated is a bug of the caller: it stops at an assertion, or without
 * assertions nothing changes. */
void trp__suballoc_free(trp__suballoc *sa, uint32_t node);

/* True when the region exists and nothing is allocated in it. */
bool trp__suballoc_region_empty(const trp__suballoc *sa, uint32_t region);

/* Return the bytes that are free, and those that are allocated, in all regions together. */
uint64_t trp__suballoc_free_bytes(const trp__suballoc *sa);
uint64_t trp__suballoc_used_bytes(const trp__suballoc *sa);

/* Returns the bytes of the largest free block: the largest size that trp__suballoc_alloc would
 * grant now, 0 if none. Walks the free list of one size class. */
uint64_t trp__suballoc_largest_free(const trp__suballoc *sa);

/* Checks every invariant of the bookkeeping; for tests. Time linear in the number of blocks, size
 * classes and regions. */
bool trp__suballoc_check(const trp__suballoc *sa);

#endif

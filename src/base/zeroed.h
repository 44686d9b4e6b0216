/* Large tables of which most is never touched. */
#ifndef TRP_BASE_ZEROED_H
#define TRP_BASE_ZEROED_H

#include <stddef.h>
#include <stdlib.h>
#ifdef __SANITIZE_THREAD__
#include <sys/mman.h>
#endif

/* Zeroed memory, NULL if there is none. calloc takes zero pages that nobody touches; only
 * ThreadSanitizer's writes all of them, at each start of a worker. */
static inline void *trp__zeroed(size_t bytes)
{
#ifdef __SANITIZE_THREAD__
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return map == MAP_FAILED ? NULL : map;
#else
    return calloc(1, bytes);
#endif
}

/* Takes NULL too. */
static inline void trp__zeroed_free(void *memory, size_t bytes)
{
#ifdef __SANITIZE_THREAD__
    if (memory)
        munmap(memory, bytes);
#else
    (void)bytes;
    free(memory);
#endif
}

#endif

/* Large tables, mostly never touched. */
#ifndef TRP_BASE_OS_ZEROED_H
#define TRP_BASE_OS_ZEROED_H

#include <stddef.h>
#include <stdlib.h>
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define TRP_ZEROED_MAPS 1
#include <sys/mman.h>
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#endif

#ifdef TRP_ZEROED_MAPS
/* Guard areas before and behind a mapped table; AddressSanitizer reports accesses to them. */
enum { TRP_ZEROED_EDGE = 4096 };
#endif

/* Zeroed memory, or NULL. calloc() maps zero pages without touching them, but that of
 * ThreadSanitizer writes all of them, and that of AddressSanitizer an eighth as much shadow, at
 * each start of a worker: there the memory is mapped. */
static inline void *trp__zeroed(size_t bytes)
{
#ifdef TRP_ZEROED_MAPS
    char *map = (char *)mmap(NULL, bytes + 2 * TRP_ZEROED_EDGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    char *memory = map + TRP_ZEROED_EDGE;
#ifdef __SANITIZE_ADDRESS__
    ASAN_POISON_MEMORY_REGION(map, TRP_ZEROED_EDGE);
    ASAN_POISON_MEMORY_REGION(memory + bytes, TRP_ZEROED_EDGE);
    /* for leak checks: the memory points to other allocations */
    __lsan_register_root_region(memory, bytes);
#endif
    return memory;
#else
    return calloc(1, bytes);
#endif
}

/* Takes NULL too. */
static inline void trp__zeroed_free(void *memory, size_t bytes)
{
#ifdef TRP_ZEROED_MAPS
    if (!memory)
        return;
    char *map = (char *)memory - TRP_ZEROED_EDGE;
#ifdef __SANITIZE_ADDRESS__
    __lsan_unregister_root_region(memory, bytes);
    ASAN_UNPOISON_MEMORY_REGION(map, TRP_ZEROED_EDGE);
    ASAN_UNPOISON_MEMORY_REGION((char *)memory + bytes, TRP_ZEROED_EDGE);
#endif
    munmap(map, bytes + 2 * TRP_ZEROED_EDGE);
#else
    (void)bytes;
    free(memory);
#endif
}

#endif

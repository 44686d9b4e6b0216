/* A bounded table that forgets what was not asked for longest: plans by the problem that they are
 * for. Keys are compared whole. Not thread-safe. */
#ifndef TRP_CACHE_LRU_H
#define TRP_CACHE_LRU_H

#include <troupe/status.h>

#include <stdint.h>

typedef struct trp__lru trp__lru;

/* Sizes in bytes; those of keys are multiples of 8. drop(), which may be NULL, gets each value that
 * goes. TRP_E_MEMORY. */
trp_status trp__lru_create(size_t key_bytes, size_t value_bytes, uint32_t capacity,
                           void (*drop)(void *context, void *value), void *context, trp__lru **out,
                           trp_error *error);

/* Drops all values. NULL is ignored. */
void trp__lru_destroy(trp__lru *lru);

/* The value of a key, which becomes the last to be forgotten; NULL if there is none. Valid until
 * the next call but find(). */
void *trp__lru_find(trp__lru *lru, const void *key);

/* Adds a key that is not there, with a zeroed value, in place of the one that was not asked for
 * longest if the table is full. */
void *trp__lru_add(trp__lru *lru, const void *key);

/* Drops a value. */
void trp__lru_remove(trp__lru *lru, void *value);

/* Drops all values. */
void trp__lru_clear(trp__lru *lru);

uint32_t trp__lru_count(const trp__lru *lru);

#endif

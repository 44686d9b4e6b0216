/* A bounded table that evicts the least recently used value: plans by their problem. Keys are
 * compared whole. Not thread-safe. */
#ifndef TRP_CACHE_LRU_H
#define TRP_CACHE_LRU_H

#include <troupe/status.h>

#include <stdint.h>

typedef struct trp__lru trp__lru;

/* Sizes in bytes; key_bytes is a multiple of 8. drop(), which may be NULL, is called for each value
 * removed. TRP_E_MEMORY. */
trp_status trp__lru_create(size_t key_bytes, size_t value_bytes, uint32_t capacity,
                           void (*drop)(void *context, void *value), void *context, trp__lru **out,
                           trp_error *error);

/* Drops all values. NULL is ignored. */
void trp__lru_destroy(trp__lru *lru);

/* Returns the value of a key and marks it as just used; NULL if there is none. The pointer is valid
 * until the next call other than find(). */
void *trp__lru_find(trp__lru *lru, const void *key);

/* Adds a key that is not in the table, with a zeroed value; evicts the least recently used one if
 * the table is full. */
void *trp__lru_add(trp__lru *lru, const void *key);

/* Drops a value. */
void trp__lru_remove(trp__lru *lru, void *value);

/* Drops all values. */
void trp__lru_clear(trp__lru *lru);

#endif

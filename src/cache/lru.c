#include "cache/lru.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* Each entry is in the chain of its hash bucket and in a ring ordered by last use. Entry `capacity`
 * is the head of the ring and holds nothing. `chain` also links the unused entries. */
typedef struct entry {
    uint32_t chain;
    uint32_t newer, older;
    uint32_t bucket;
} entry;

struct trp__lru {
    size_t key_bytes, value_bytes, pair_bytes;
    uint32_t capacity, count, buckets, unused;
    void (*drop)(void *context, void *value);
    void *context;
    entry *entry;
    uint32_t *first;      /* of each chain */
    unsigned char *pairs; /* value, then key */
};

static void *value_at(const trp__lru *lru, uint32_t index)
{
    return lru->pairs + index * lru->pair_bytes;
}

static void *key_at(const trp__lru *lru, uint32_t index)
{
    return lru->pairs + index * lru->pair_bytes + lru->value_bytes;
}

trp_status trp__lru_create(size_t key_bytes, size_t value_bytes, uint32_t capacity,
                           void (*drop)(void *context, void *value), void *context, trp__lru **out,
                           trp_error *error)
{
    trp__lru *lru = calloc(1, sizeof *lru);
    if (!lru)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a table of plans");
    *lru = (trp__lru){.key_bytes = key_bytes,
                      .value_bytes = (value_bytes + 15) / 16 * 16,
                      .capacity = capacity,
                      .buckets = 2 * capacity,
                      .drop = drop,
                      .context = context};
    lru->pair_bytes = (lru->value_bytes + key_bytes + 15) / 16 * 16;
    lru->entry = calloc(capacity + 1, sizeof *lru->entry);
    lru->first = calloc(lru->buckets, sizeof *lru->first);
    lru->pairs = calloc(capacity, lru->pair_bytes);
    if (!lru->entry || !lru->first || !lru->pairs) {
        trp__lru_destroy(lru);
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a table of %u plans", capacity);
    }
    for (uint32_t i = 0; i < lru->buckets; i++)
        lru->first[i] = NONE;
    for (uint32_t i = 0; i < capacity; i++)
        lru->entry[i].chain = i + 1 < capacity ? i + 1 : NONE;
    lru->entry[capacity].newer = lru->entry[capacity].older = capacity;
    *out = lru;
    return TRP_OK;
}

/* Multiplicative hashing of word after word (Knuth, volume 3, section 6.4). */
static uint32_t bucket_of(const trp__lru *lru, const void *key)
{
    uint64_t hash = 0;
    for (size_t at = 0; at < lru->key_bytes; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const char *)key + at, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return (uint32_t)(((hash >> 32) * lru->buckets) >> 32);
}

static void unlink_age(trp__lru *lru, uint32_t index)
{
    entry *e = &lru->entry[index];
    lru->entry[e->newer].older = e->older;
    lru->entry[e->older].newer = e->newer;
}

static void make_newest(trp__lru *lru, uint32_t index)
{
    entry *e = &lru->entry[index], *head = &lru->entry[lru->capacity];
    e->newer = lru->capacity;
    e->older = head->older;
    lru->entry[head->older].newer = index;
    head->older = index;
}

void *trp__lru_find(trp__lru *lru, const void *key)
{
    for (uint32_t i = lru->first[bucket_of(lru, key)]; i != NONE; i = lru->entry[i].chain) {
        if (memcmp(key_at(lru, i), key, lru->key_bytes) != 0)
            continue;
        if (lru->entry[lru->capacity].older != i) {
            unlink_age(lru, i);
            make_newest(lru, i);
        }
        return value_at(lru, i);
    }
    return NULL;
}

static void remove_at(trp__lru *lru, uint32_t index)
{
    uint32_t *link = &lru->first[lru->entry[index].bucket];
    while (*link != index)
        link = &lru->entry[*link].chain;
    *link = lru->entry[index].chain;
    unlink_age(lru, index);
    if (lru->drop)
        lru->drop(lru->context, value_at(lru, index));
    lru->entry[index].chain = lru->unused;
    lru->unused = index;
    lru->count--;
}

void *trp__lru_add(trp__lru *lru, const void *key)
{
    if (lru->count == lru->capacity)
        remove_at(lru, lru->entry[lru->capacity].newer);
    uint32_t index = lru->unused, bucket = bucket_of(lru, key);
    entry *e = &lru->entry[index];
    lru->unused = e->chain;
    lru->count++;
    e->bucket = bucket;
    e->chain = lru->first[bucket];
    lru->first[bucket] = index;
    make_newest(lru, index);
    memcpy(key_at(lru, index), key, lru->key_bytes);
    return memset(value_at(lru, index), 0, lru->value_bytes);
}

void trp__lru_remove(trp__lru *lru, void *value)
{
    remove_at(lru, (uint32_t)((size_t)((unsigned char *)value - lru->pairs) / lru->pair_bytes));
}

void trp__lru_clear(trp__lru *lru)
{
    while (lru->count > 0)
        remove_at(lru, lru->entry[lru->capacity].newer);
}

void trp__lru_destroy(trp__lru *lru)
{
    if (!lru)
        return;
    trp__lru_clear(lru);
    free(lru->entry);
    free(lru->first);
    free(lru->pairs);
    free(lru);
}

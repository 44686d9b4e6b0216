/* Lists and compares what a store holds, for people: too slow for each compile. */
#ifndef TRP_CACHE_INSPECT_H
#define TRP_CACHE_INSPECT_H

#include "cache/entry.h"
#include "cache/store.h"

/* One entry, valid or not. Pointers are valid during the call of see(). */
typedef struct trp__inspected {
    trp__store_layer layer;
    const char *pack;  /* the pack's path; NULL on the disk */
    trp__hash hash;    /* the hash it is found by */
    uint32_t type;     /* a trp__entry_type */
    uint64_t size;     /* of the whole entry */
    int64_t used_ns;   /* when it was last used, CLOCK_REALTIME; 0 in a pack */
    const char *wrong; /* NULL, or what is wrong; then `entry` is incomplete */
    trp__entry entry;
} trp__inspected;

/* Passes every entry to see(): those of each pack in index order, then those on disk, most recently
 * used first. `whole` reads and checks payloads; otherwise entry.payload may be NULL. see() returns
 * false to stop. A missing folder is TRP_OK. */
trp_status trp__inspect_all(trp__store *store, bool whole,
                            bool (*see)(void *context, const trp__inspected *one), void *context,
                            trp_error *error);

/* Writes the first field with this tag as one line of printable text, truncated to `size`; empty if
 * there is none. */
void trp__inspect_field(const trp__entry *entry, uint32_t tag, char *text, size_t size);

/* Writes how a key differs from another one, a line for each difference, as trp__store_explain()
 * does. `headers` includes headers in the comparison. */
size_t trp__key_differences(const void *key, size_t key_bytes, const void *other,
                            size_t other_bytes, bool headers, char *text, size_t size);

/* Returns a distance: 0 for equal keys, larger for differences that matter more to people. */
uint64_t trp__key_distance(const void *key, size_t key_bytes, const void *other, size_t other_bytes,
                           bool headers);

#endif

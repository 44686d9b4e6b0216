/* Looking at what a store holds: for people, not for each compile. */
#ifndef TRP_CACHE_INSPECT_H
#define TRP_CACHE_INSPECT_H

#include "cache/entry.h"
#include "cache/store.h"

/* One entry, good or not. Pointers are valid while it is being looked at. */
typedef struct trp__inspected {
    trp__store_layer layer;
    const char *pack;  /* the pack's path; NULL on the disk */
    trp__hash hash;    /* that it is found by */
    uint32_t type;     /* a trp__entry_type */
    uint64_t size;     /* of all of it */
    int64_t used_ns;   /* when it was last used, CLOCK_REALTIME; 0 in a pack */
    const char *wrong; /* NULL, or what is wrong with it: then the rest is not known */
    trp__entry entry;
} trp__inspected;

/* Shows all entries: of each pack in the order of its index, then those on the disk, the last used
 * first. With `whole` payloads are read and checked, too; else entry.payload may be NULL. see()
 * returns false if it has seen enough. TRP_OK too if there is no folder; else its error. */
trp_status trp__inspect_all(trp__store *store, bool whole,
                            bool (*see)(void *context, const trp__inspected *one), void *context,
                            trp_error *error);

/* The first field of a key with this tag as text of one line, clean for terminals and JSON, cut to
 * what fits; empty if there is none. */
void trp__inspect_field(const trp__entry *entry, uint32_t tag, char *text, size_t size);

/* Writes in what a key differs from another one, one line for each difference, as for
 * trp__store_explain(). With `headers` those are compared, too. */
size_t trp__key_differences(const void *key, size_t key_bytes, const void *other,
                            size_t other_bytes, bool headers, char *text, size_t size);

/* How much they differ in: 0 for equal keys, larger for what matters more to people. */
uint64_t trp__key_distance(const void *key, size_t key_bytes, const void *other, size_t other_bytes,
                           bool headers);

#endif

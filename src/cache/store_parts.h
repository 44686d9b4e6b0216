/* The inside of a store, for cache/inspect.h and the cache command. */
#ifndef TRP_CACHE_STORE_PARTS_H
#define TRP_CACHE_STORE_PARTS_H

#include "cache/claim.h"
#include "cache/disk.h"
#include "cache/pack.h"
#include "cache/store.h"

struct trp__store {
    trp__disk disk;
    trp__cache_pack **pack; /* in search order */
    size_t pack_count;
    trp__claims claims;
};

/* Parses a size such as "500M": bytes, or with suffix K, M, G or T. False: it is none. */
bool trp__store_parse_bytes(const char *text, uint64_t *bytes);

#endif

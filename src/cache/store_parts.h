/* What a store is made of, for those who look inside: cache/inspect.h and its command. */
#ifndef TRP_CACHE_STORE_PARTS_H
#define TRP_CACHE_STORE_PARTS_H

#include "cache/claim.h"
#include "cache/disk.h"
#include "cache/pack.h"
#include "cache/store.h"

struct trp__store {
    trp__disk disk;
    trp__cache_pack **pack; /* in the order in which they are asked */
    size_t pack_count;
    trp__claims claims;
};

/* "500M": bytes, or with K, M, G or T behind. False: it is none. */
bool trp__store_parse_bytes(const char *text, uint64_t *bytes);

#endif

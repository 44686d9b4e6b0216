/* A claim: the exclusive right to make the entry of a key, held by one thread of one process at a
 * time. It is a lock on one byte of the store's file `lock`; the key's hash chooses the byte. The
 * kernel releases it when its owner dies, so nothing has to be cleaned up. Two keys share a byte
 * with probability 2^-62 and then wait for each other. Where the file can't be locked, the claim
 * excludes threads of this process only. */
#ifndef TRP_CACHE_CLAIM_H
#define TRP_CACHE_CLAIM_H

#include "cache/disk.h"
#include "cache/store.h"

#include <pthread.h>
#include <sys/types.h>

struct trp__store_claim {
    struct trp__claims *claims;
    int fd; /* -1: no file lock, listed in trp__claims instead */
    int64_t at;
    pid_t pid; /* the claiming process: a forked child inherits a copy of the list */
    struct trp__store_claim *next;
};

/* Claims of this process that are not file locks. */
typedef struct trp__claims {
    pthread_mutex_t lock;
    struct trp__store_claim *first;
} trp__claims;

void trp__claims_init(trp__claims *claims);
void trp__claims_end(trp__claims *claims);

/* Waits for the claim. TRP_E_TIMEOUT, TRP_E_CANCELLED, TRP_E_MEMORY. */
trp_status trp__claim_begin(trp__claims *claims, trp__disk *disk, const trp__hash *hash,
                            const trp__store_wait *wait, trp__store_claim **out, trp_error *error);

#endif

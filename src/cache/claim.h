/* The right to make what a key stands for: one thread of one process at a time has it. A lock on a
 * byte of the store's file `lock`, chosen by the key's hash, so that there is nothing to clean up,
 * and nothing that outlives its owner. Keys whose bytes coincide, one pair in 2^62, wait for each
 * other. Where a file can't be locked, the right holds among the threads of this process. */
#ifndef TRP_CACHE_CLAIM_H
#define TRP_CACHE_CLAIM_H

#include "cache/disk.h"
#include "cache/store.h"

#include <pthread.h>
#include <sys/types.h>

struct trp__store_claim {
    struct trp__claims *claims;
    int fd; /* -1: not a lock of a file */
    int64_t at;
    pid_t pid; /* who has claimed: a forked child has a copy of the list */
    struct trp__store_claim *next;
};

/* Those of this process that no file holds. */
typedef struct trp__claims {
    pthread_mutex_t lock;
    struct trp__store_claim *first;
} trp__claims;

void trp__claims_init(trp__claims *claims);
void trp__claims_end(trp__claims *claims);

/* Waits for the right. TRP_E_TIMEOUT, TRP_E_CANCELLED, TRP_E_MEMORY. */
trp_status trp__claim_begin(trp__claims *claims, trp__disk *disk, const trp__hash *hash,
                            const trp__store_wait *wait, trp__store_claim **out, trp_error *error);

#endif

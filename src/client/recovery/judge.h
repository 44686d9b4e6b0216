/* The supervisor's view of requests: how far a worker has come with each, which of them hangs, and
 * their judgement after its death. */
#ifndef TRP_CLIENT_RECOVERY_JUDGE_H
#define TRP_CLIENT_RECOVERY_JUDGE_H

#include "client/recovery/recovery.h"

/* How far the worker had come with a request. SUSPECT: not begun by this worker, but in flight when
 * an earlier one died. */
typedef enum trp__standing {
    TRP__WAS_GONE,
    TRP__WAS_QUEUED,
    TRP__WAS_SUSPECT,
    TRP__WAS_IN_FLIGHT,
    TRP__WAS_DONE,
} trp__standing;

/* judge.c */
trp__standing trp__progress_of(const trp_device *device, const trp__slot *slot, uint64_t ticket);
/* Decides about all pending requests after a worker's death by `cause`. `hung`: the request that
 * ran past its deadline, 0: none; `outsider`: the cause may be none of the requests. Returns how
 * many were in flight. */
uint32_t trp__judge_requests(trp_device *device, const trp_error *cause, uint64_t hung,
                             bool outsider);
/* Ends everything pending; the device is down. */
void trp__fail_all(trp_device *device);

/* deadline.c */

/* A request that hangs; ticket 0: none. */
typedef struct trp__hang {
    uint64_t ticket;
    bool begun;
} trp__hang;

trp__hang trp__find_hung(trp_device *device);
void trp__describe_hang(const trp__hang *hang, trp_error *cause);

/* recover.c. The active worker is dead, dying, or has to be killed: for a request that hangs, if
 * there is one. */
void trp__recover(trp_device *device, const trp__hang *h);

#endif

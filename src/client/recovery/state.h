/* State of the supervisor thread; no other thread uses it unless a member says so. */
#ifndef TRP_CLIENT_RECOVERY_STATE_H
#define TRP_CLIENT_RECOVERY_STATE_H

#include "client/core/worker.h"

enum { TRP__DYING = 8 };

/* The validated progress of a worker, as last read. */
typedef struct trp__words {
    uint64_t timeline[TRP__ACTORS];
    uint64_t issued[TRP__ACTORS];
    uint64_t waiting[TRP__ACTORS]; /* a request that is issued and has not begun; any number */
    uint64_t stream_done[TRP__STREAMS];
    uint64_t taken;
} trp__words;

typedef struct trp__recovery_state {
    trp__process dying[TRP__DYING]; /* workers that were replaced and have not ended yet */
    uint32_t incarnations;          /* workers made so far */
    uint32_t standby_failures;      /* in a row */
    int64_t standby_after;          /* when the next one may be started */
    bool descriptors_closed;        /* the program has closed descriptors of the library */
    bool unended;        /* the active worker could not be ended: no other may take its place */
    trp__words seen;     /* of the active worker */
    uint32_t seen_again; /* the worker's count of requests asked to wait */
    uint64_t idle_cell;  /* the cell of a request that could run and has not begun */
    int64_t idle_since;  /* since when */
    bool started; /* device->lock: the first start has ended, lanes included, as start_error says */
    trp_error start_error;
    trp_status down_cause;     /* the status of the failure that was one too many */
    int64_t *restart_time;     /* of the last restart_budget restarts */
    uint8_t *pending_progress; /* a trp__standing for each of `pending` */
} trp__recovery_state;

#endif

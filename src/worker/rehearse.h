/* Rehearsals of a standby until it is promoted. */
#ifndef TRP_WORKER_REHEARSE_H
#define TRP_WORKER_REHEARSE_H

#include "worker/worker.h"

typedef struct trp__rehearsal trp__rehearsal;

/* Creates the rehearsal of a standby. NULL: no memory, or the backend has no stream_rehearse(). */
trp__rehearsal *trp__rehearsal_begin(trp__worker *w);
void trp__rehearsal_end(trp__rehearsal *r);

/* Rehearses one more request, in the scheduler's thread. Returns how long to sleep until the next
 * call, in ns; -1: for ever. */
int64_t trp__rehearse(trp__rehearsal *r);

#endif

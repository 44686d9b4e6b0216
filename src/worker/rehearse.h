/* What a standby does until it takes over. */
#ifndef TRP_WORKER_REHEARSE_H
#define TRP_WORKER_REHEARSE_H

#include "worker/worker.h"

typedef struct trp__rehearsal trp__rehearsal;

/* NULL: no memory, or a backend on which nothing can be done ahead. */
trp__rehearsal *trp__rehearsal_begin(trp__worker *w);
void trp__rehearsal_end(trp__rehearsal *r);

/* From the scheduler's thread: goes through one more request of those that have ended. Returns how
 * long to sleep until the next call, in ns; -1: for ever. */
int64_t trp__rehearse(trp__rehearsal *r);

#endif

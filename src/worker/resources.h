/* What the application tells a worker of by messages: arenas, host memory, actors. All in the side
 * thread, which may wait; worker.c has the threads. */
#ifndef TRP_WORKER_RESOURCES_H
#define TRP_WORKER_RESOURCES_H

#include "wire/message.h"
#include "worker/worker.h"

/* Obeys a message and answers it; fd is its descriptor, or -1. */
void trp__worker_dispatch(trp__worker *w, const trp__message *m, int fd);

/* Sends an answer to `about`, which may be NULL. */
void trp__worker_answer(trp__worker *w, trp__message_type type, const trp__message *about,
                        const trp_error *error);

/* Maps a segment of host memory, and unless it is `plain` registers it with the device. */
trp_status trp__worker_map_host(trp__worker *w, uint32_t id, uint64_t bytes, bool plain, int fd,
                                trp_error *error);

/* Whether kernels with deep stacks are expected. A thread of the application shares its context,
 * whose settings are the application's. */
void trp__worker_expect_deep_kernels(trp__worker *w, bool expected);

/* Stops all actors and unmaps all memory. */
void trp__worker_drop_all(trp__worker *w);

/* Sleepers on the application's futexes can be woken from here, though the words can't be changed
 * (the memory is read-only); callers repeat this, because one that is just falling asleep is
 * missed. */
void trp__worker_nudge(trp__worker *w);

/* worker.c: reports that the context is broken, from whichever thread meets it. A process ends by
 * that. */
void trp__worker_report_fault(trp__worker *w, const trp_error *error);

#endif

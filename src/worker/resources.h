/* Resources that the application sends by messages: arenas, host memory, actors. All in the side
 * thread, which may wait. */
#ifndef TRP_WORKER_RESOURCES_H
#define TRP_WORKER_RESOURCES_H

#include "wire/message.h"
#include "worker/worker.h"

/* Handles a message and answers it; fd is its descriptor, or -1. */
void trp__worker_dispatch(trp__worker *w, const trp__message *m, int fd);

/* Sends an answer to `about`, which may be NULL. */
void trp__worker_answer(trp__worker *w, trp__message_type type, const trp__message *about,
                        const trp_error *error);

/* Maps a segment of host memory, and unless it is `plain` registers it with the device. */
trp_status trp__worker_map_host(trp__worker *w, uint32_t id, uint64_t bytes, bool plain, int fd,
                                trp_error *error);

/* Sets whether kernels with deep stacks are expected. Does nothing with thread isolation, where the
 * context's settings are the application's. */
void trp__worker_expect_deep_kernels(trp__worker *w, bool expected);

/* Stops all actors and unmaps all memory. */
void trp__worker_drop_all(trp__worker *w);

/* Wakes the scheduler from the application's futexes. The words can't be changed here (read-only
 * memory), so a thread that is just falling asleep is missed: callers repeat this. */
void trp__worker_nudge(trp__worker *w);

/* worker.c: reports that the context is broken, from any thread. Ends a worker process. */
void trp__worker_report_fault(trp__worker *w, const trp_error *error);

#endif

/* The worker's side of requests that a library computes, as long as the best kernel is being
 * compiled and no other is there: all that another actor does, in this actor's stream. */
#ifndef TRP_ACTORS_CUTLASS_FALLBACK_WORKER_H
#define TRP_ACTORS_CUTLASS_FALLBACK_WORKER_H

#include "actors/cutlass/wire/run.h"

#include <troupe/worker.h>

enum { TRP__BY_LIBRARIES = 2 };

/* Each is opened by the first request that needs it. Zeroed before. */
typedef struct trp__by_libraries {
    void *state[TRP__BY_LIBRARIES]; /* the other actors'; NULL: not yet */
} trp__by_libraries;

/* As handle(), trim() and stop() of an actor; args_bytes is that of the request's run. */
trp_status trp__by_libraries_handle(trp__by_libraries *l, trp_instance *instance, trp_job *job,
                                    uint32_t args_bytes, trp_error *error);
void trp__by_libraries_trim(trp__by_libraries *l, trp_instance *instance);
void trp__by_libraries_stop(trp__by_libraries *l, trp_instance *instance);

#endif

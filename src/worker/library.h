/* Shared objects with custom actors. */
#ifndef TRP_WORKER_LIBRARY_H
#define TRP_WORKER_LIBRARY_H

#include <troupe/worker.h>

/* Zeroed is closed. */
typedef struct trp__library {
    void *handle;
} trp__library;

/* Loads the shared object at `path` (absolute) and sets *out to its implementation for `backend`,
 * valid until it is closed. Several actors may have one object open. On an error nothing stays
 * open: TRP_E_MISSING, TRP_E_VERSION, TRP_E_UNSUPPORTED. */
trp_status trp__library_open(trp__library *library, const char *path, trp_backend backend,
                             const trp_actor_impl **out, trp_error *error);

/* Unloads it, unless another actor has it open. A closed one is left as it is. */
void trp__library_close(trp__library *library);

/* Whether this worker can run an implementation, built in or loaded. `name` is the actor's kind or
 * library. */
trp_status trp__impl_check(const trp_actor_impl *impl, const char *name, trp_error *error);

#endif

/* The host backend, and its services for actors. */
#ifndef TRP_BACKEND_HOST_HOST_BACKEND_H
#define TRP_BACKEND_HOST_HOST_BACKEND_H

#include "worker/backend.h"

#include <troupe/worker.h>

extern const trp__backend trp__host_backend;

enum { TRP__HOST_ARGUMENT_BYTES = TRP_ACTOR_ENQUEUE_MAX };

/* Runs run(arguments) on the stream's thread when the work before it is done, with a copy of the
 * `bytes` bytes at `arguments`, aligned to 8. Waits while 1,024 operations are in the stream; calls
 * for one stream must not overlap. An operation can't report an error, so check and acquire
 * before. */
trp_status trp__host_enqueue(trp__stream *stream, void (*run)(void *arguments),
                             const void *arguments, size_t bytes, trp_error *error);

/* Waits until the stream has run everything enqueued so far. */
void trp__host_drain(trp__stream *stream);

#endif

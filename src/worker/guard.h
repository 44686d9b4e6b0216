/* Ends a worker process with its connection or its parent, even while its other threads are busy.
 * An application that has dropped the rights with which it started the worker can send it no
 * signal, neither SIGKILL nor one at its own death. */
#ifndef TRP_WORKER_GUARD_H
#define TRP_WORKER_GUARD_H

#include <troupe/status.h>

/* Starts the thread that waits for both. Processes only, before any other thread. */
trp_status trp__guard_start(int socket, trp_error *error);

#endif

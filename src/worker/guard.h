/* A worker process ends with its connection and with its parent, whatever its other threads are at:
 * an application that has given up the rights with which it started the worker can send it no
 * signal, neither SIGKILL nor the one at its own death. */
#ifndef TRP_WORKER_GUARD_H
#define TRP_WORKER_GUARD_H

#include <troupe/status.h>

/* Starts the thread that waits for either. Processes only, before any other thread. */
trp_status trp__guard_start(int socket, trp_error *error);

#endif

/* Threads that a device needs for its progress: its supervisor, and those of a worker that runs in
 * the program. The program's own code is called in some of them (callbacks of watches, actors of
 * its own). One of them that waited for room in a mailbox would wait for itself. */
#ifndef TRP_BASE_OS_SERVICE_THREAD_H
#define TRP_BASE_OS_SERVICE_THREAD_H

#include <stdbool.h>

extern _Thread_local bool trp__is_service_thread; /* set once, by the thread itself */

#endif

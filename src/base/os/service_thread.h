/* Threads that a device needs for its progress: its supervisor, and those of a worker that runs in
 * the program. Some of them call code of the program (callbacks of watches, custom actors). If such
 * a thread waited for room in a mailbox, it would wait for itself. */
#ifndef TRP_BASE_OS_SERVICE_THREAD_H
#define TRP_BASE_OS_SERVICE_THREAD_H

#include <stdbool.h>

extern _Thread_local bool trp__is_service_thread; /* set once, by the thread itself */

#endif

/* Threads of the library. They start with signals blocked: a signal is for the program's own
 * threads, and one that the program has blocked in all of them must not end it by way of a thread
 * that it does not know. */
#ifndef TRP_BASE_OS_THREAD_H
#define TRP_BASE_OS_THREAD_H

#include <pthread.h>

typedef enum trp__thread_signals {
    TRP__SIGNALS_BLOCKED, /* all of them */
    /* All but those that a fault raises in the thread itself, for one that runs code of libraries:
     * a handler of the program's, or a debugger, sees the fault. */
    TRP__SIGNALS_OF_FAULTS,
} trp__thread_signals;

/* Starts a thread with these signals; returns 0, or the errno that it gave. */
int trp__thread_start(pthread_t *out, trp__thread_signals signals, void *(*run)(void *argument),
                      void *argument);

#endif

/* Threads of the library. They start with signals blocked: signals are for the program's own
 * threads, and a signal that the program has blocked in all of its threads must not end it through
 * one of the library's. */
#ifndef TRP_BASE_OS_THREAD_H
#define TRP_BASE_OS_THREAD_H

#include <pthread.h>

typedef enum trp__thread_signals {
    TRP__SIGNALS_BLOCKED, /* all of them */
    /* All but those that a fault raises in the thread itself, for threads that run code of
     * libraries: a handler of the program, or a debugger, sees the fault. */
    TRP__SIGNALS_OF_FAULTS,
} trp__thread_signals;

/* Starts a thread with these signals blocked; returns 0 or an errno. */
int trp__thread_start(pthread_t *out, trp__thread_signals signals, void *(*run)(void *argument),
                      void *argument);

#endif

#include "base/os/thread.h"

#include <signal.h>
#include <stddef.h>

int trp__thread_start(pthread_t *out, trp__thread_signals signals, void *(*run)(void *argument),
                      void *argument)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t during, before;
    sigfillset(&during);
    for (size_t i = 0; signals == TRP__SIGNALS_OF_FAULTS && i < sizeof faults / sizeof *faults; i++)
        sigdelset(&during, faults[i]);
    pthread_sigmask(SIG_SETMASK, &during, &before);
    int code = pthread_create(out, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

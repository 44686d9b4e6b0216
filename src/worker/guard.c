/* The thread that ends a worker process when its application is gone. */
#include "worker/guard.h"

#include "base/os/clock.h"
#include "base/os/descriptor.h"
#include "base/error.h"
#include "base/os/thread.h"
#include "wire/entry.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *guard_main(void *argument)
{
    struct pollfd polled[] = {
        {.fd = (int)(intptr_t)argument}, /* hang-up only: the side thread reads it */
        {.fd = trp__descriptor_apart((int)syscall(SYS_pidfd_open, getppid(), 0)),
         .events = POLLIN}, /* -1 where the system refuses it */
    };
    prctl(PR_SET_NAME, "trp-guard");
    for (;;) {
        int ready = poll(polled, 2, -1);
        if (ready > 0)
            _exit(TRP__EXIT_ABANDONED);
        if (ready < 0 && errno != EINTR)
            trp__sleep_ns(TRP__SECOND); /* a limit on descriptors, set from outside */
    }
    return NULL;
}

trp_status trp__guard_start(int socket, trp_error *error)
{
    pthread_t thread;
    int code =
        trp__thread_start(&thread, TRP__SIGNALS_BLOCKED, guard_main, (void *)(intptr_t)socket);
    if (code != 0) {
        errno = code;
        return trp__error_set_errno(error, "the worker can't start a thread");
    }
    pthread_detach(thread); /* it ends with the process */
    return TRP_OK;
}

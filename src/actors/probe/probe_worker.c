#include "actors/probe/probe_worker.h"

#include "base/error.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { RUBBISH = 0xa5 };

trp_status trp__probe_scribble(trp_instance *instance, const trp_job *job, trp_error *error)
{
    trp_status status = TRP_OK;
    for (uint32_t i = 0; i < job->access_count && status == TRP_OK; i++) {
        const trp_job_access *access = &job->access[i];
        if (access->mode & TRP_ACCESS_WRITE)
            status = instance->services->fill(instance, access->address, RUBBISH, 1,
                                              (access->bytes + 1) / 2, error);
    }
    return status;
}

trp_status trp__probe_error(trp_probe_action action, bool *trimmed, trp_error *error)
{
    /* The codes have rows in wire/directive.c. */
    switch (action) {
    case TRP_PROBE_LIBRARY_ERROR:
        return trp__error_set_code(error, TRP_E_LIBRARY, "probe", 1,
                                   "PROBE_LIBRARY_ERROR (1): asked for, in trp_probe");
    case TRP_PROBE_ACTOR_ERROR:
        return trp__error_set_code(error, TRP_E_LIBRARY, "probe", 2,
                                   "PROBE_ACTOR_ERROR (2): asked for, in trp_probe");
    case TRP_PROBE_OUT_OF_MEMORY:
        if (*trimmed) {
            *trimmed = false;
            return TRP_OK;
        }
        return trp__error_set_code(error, TRP_E_MEMORY, "probe", 3,
                                   "PROBE_OUT_OF_MEMORY (3): asked for, in trp_probe");
    case TRP_PROBE_DEVICE_GONE:
        return trp__error_set_code(error, TRP_E_LIBRARY, "probe", 4,
                                   "PROBE_DEVICE_GONE (4): asked for, in trp_probe");
    default:
        return TRP_OK;
    }
}

/* A handler, such as a sanitizer's, would change how the process dies. */
static void restore_default(int signal_number)
{
    signal(signal_number, SIG_DFL);
}

/* The address comes through a volatile object, so that no compiler can know it. */
__attribute__((noinline, no_sanitize("address", "undefined", "thread"))) void
trp__probe_store(uintptr_t address)
{
    volatile uintptr_t target = address;
    *(volatile uint64_t *)target = 0xdead;
}

void trp__probe_crash(trp_probe_action action, void *address)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGABRT};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        restore_default(faults[i]);
    switch (action) {
    case TRP_PROBE_ILLEGAL_ADDRESS:
    case TRP_PROBE_SEGV:
        trp__probe_store(TRP__PROBE_UNMAPPED);
        break;
    case TRP_PROBE_OUT_OF_BOUNDS:
        trp__probe_store((uintptr_t)address);
        break;
    case TRP_PROBE_MISALIGNED:
        raise(SIGBUS); /* most processors allow the access itself */
        break;
    case TRP_PROBE_TRAP:
        __builtin_trap();
    case TRP_PROBE_KILL:
        kill(getpid(), SIGKILL);
        break;
    case TRP_PROBE_EXIT:
        _exit(3);
    default:
        break;
    }
    abort(); /* TRP_PROBE_ABORT, and wherever a fault did not end the process */
}

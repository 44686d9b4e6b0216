/* The probe actor on the host. Faults happen on the stream's thread, after the work before them. */
#include "actors/probe/probe.h"
#include "actors/probe/probe_wire.h"
#include "actors/probe/probe_worker.h"
#include "base/os/clock.h"

#include <string.h>

typedef struct arguments {
    trp__probe probe;
    uintptr_t arena_end;
} arguments;

static void run_nop(void *unused)
{
    (void)unused;
}

/* Sleeps while more than this is left, so that a long spin does not occupy a processor. */
#define SLEEP_NS (200 * TRP__US)

static void run_spin(void *memory)
{
    const arguments *a = memory;
    uint64_t duration = a->probe.duration_ns < INT64_MAX ? a->probe.duration_ns : INT64_MAX;
    int64_t end = trp__deadline((int64_t)duration);
    for (int64_t now; (now = trp__now_ns()) < end;) {
        if (end - now > SLEEP_NS)
            trp__sleep_ns(end - now - SLEEP_NS / 2);
        else
            trp__relax();
    }
}

static void run_crash(void *memory)
{
    const arguments *a = memory;
    trp__probe_crash((trp_probe_action)a->probe.action,
                     (void *)(a->arena_end + TRP__PROBE_PAST_THE_END));
}

typedef struct state {
    bool trimmed; /* for TRP_PROBE_OUT_OF_MEMORY */
} state;

static void trim(trp_instance *instance)
{
    state *s = instance->state;
    s->trimmed = true;
}

static void run_store(void *memory)
{
    uintptr_t address;
    memcpy(&address, memory, sizeof address);
    trp__probe_store(address);
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    state *s = instance->state;
    arguments a = {0};
    memcpy(&a.probe, job->payload, sizeof a.probe);
    if (job->access_count > 0)
        a.arena_end = (uintptr_t)job->access[0].guard;
    trp_status status = trp__probe_error((trp_probe_action)a.probe.action, &s->trimmed, error);
    if (status != TRP_OK)
        return status;
    switch ((trp_probe_action)a.probe.action) {
    case TRP_PROBE_NOP:
    case TRP_PROBE_OUT_OF_MEMORY:
        return instance->services->enqueue(instance, run_nop, NULL, 0, error);
    case TRP_PROBE_SPIN:
        return instance->services->enqueue(instance, run_spin, &a, sizeof a, error);
    default:
        break;
    }
    status = trp__probe_scribble(instance, job, error);
    if (status != TRP_OK)
        return status;
    if (a.probe.action == TRP_PROBE_WRITE_SEALED)
        return instance->services->enqueue(instance, run_store, &job->access[0].address,
                                           sizeof job->access[0].address, error);
    return instance->services->enqueue(instance, run_crash, &a, sizeof a, error);
}

const trp_actor_impl trp__probe_host = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .handle = handle,
    .trim = trim,
};

/* The probe actor on NVIDIA GPUs: a few kernels, written in PTX so that no compiler is needed. */
#include "actors/probe/probe.h"
#include "actors/probe/probe_wire.h"
#include "actors/probe/probe_worker.h"
#include "driver/cuda.h"

#include <string.h>

/* probe_store writes 8 bytes to whatever address it is given. */
static const char ptx[] = ".version 7.0\n"
                          ".target sm_80\n"
                          ".address_size 64\n"
                          ".visible .entry probe_nop()\n"
                          "{\n"
                          "    ret;\n"
                          "}\n"
                          ".visible .entry probe_spin(.param .u64 duration)\n"
                          "{\n"
                          "    .reg .pred %more;\n"
                          "    .reg .u64 %duration, %start, %now, %span;\n"
                          "    ld.param.u64 %duration, [duration];\n"
                          "    mov.u64 %start, %globaltimer;\n"
                          "again:\n"
                          "    mov.u64 %now, %globaltimer;\n"
                          "    sub.u64 %span, %now, %start;\n"
                          "    setp.lt.u64 %more, %span, %duration;\n"
                          "    @%more bra again;\n"
                          "    ret;\n"
                          "}\n"
                          ".visible .entry probe_store(.param .u64 address)\n"
                          "{\n"
                          "    .reg .u64 %address;\n"
                          "    ld.param.u64 %address, [address];\n"
                          "    st.global.u64 [%address], 57005;\n"
                          "    ret;\n"
                          "}\n"
                          ".visible .entry probe_trap()\n"
                          "{\n"
                          "    trap;\n"
                          "    ret;\n"
                          "}\n";

enum { SCRATCH_BYTES = 256 };

typedef struct state {
    const trp__cuda *cu;
    trp__cu_module module;
    trp__cu_function nop, spin, store, trap;
    trp__cu_address scratch; /* for the misaligned access */
    bool trimmed;            /* for TRP_PROBE_OUT_OF_MEMORY */
} state;

static void stop(trp_instance *instance)
{
    state *s = instance->state;
    const trp__cuda *cu = s->cu;
    if (s->scratch)
        trp_cuda_check(instance, cu->cuMemFree_v2(s->scratch), "cuMemFree", NULL);
    if (s->module)
        trp_cuda_check(instance, cu->cuModuleUnload(s->module), "cuModuleUnload", NULL);
    memset(s, 0, sizeof *s);
}

/* One thread of `kernel`, with one argument. */
static trp_status launch(trp_instance *instance, trp__cu_function kernel, uint64_t argument,
                         trp_error *error)
{
    const trp__cuda *cu = ((const state *)instance->state)->cu;
    void *arguments[] = {&argument};
    return trp_cuda_check(
        instance,
        cu->cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, instance->stream, arguments, NULL),
        "cuLaunchKernel", error);
}

static trp_status init(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    const trp__cuda *cu;
    const struct {
        const char *name;
        trp__cu_function *function;
    } kernels[] = {
        {"probe_nop", &s->nop},
        {"probe_spin", &s->spin},
        {"probe_store", &s->store},
        {"probe_trap", &s->trap},
    };
    trp_status status = trp__cuda_load(&cu, error);
    if (status != TRP_OK)
        return status;
    s->cu = cu;
    status =
        trp_cuda_check(instance, cu->cuModuleLoadData(&s->module, ptx), "cuModuleLoadData", error);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels && status == TRP_OK; i++)
        status = trp_cuda_check(
            instance, cu->cuModuleGetFunction(kernels[i].function, s->module, kernels[i].name),
            "cuModuleGetFunction", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, cu->cuMemAlloc_v2(&s->scratch, SCRATCH_BYTES),
                                "cuMemAlloc", error);
    /* The driver loads a kernel at its first launch: do that in init(), so that a standby has done
     * it. */
    if (status == TRP_OK)
        status = launch(instance, s->nop, 0, error);
    if (status != TRP_OK)
        stop(instance);
    return status;
}

/* A fault of the GPU, as the last work in the stream. */
static trp_status fault(trp_instance *instance, const trp_job *job, trp_probe_action action,
                        trp_error *error)
{
    state *s = instance->state;
    switch (action) {
    case TRP_PROBE_ILLEGAL_ADDRESS:
        return launch(instance, s->store, TRP__PROBE_UNMAPPED, error);
    case TRP_PROBE_OUT_OF_BOUNDS:
        return launch(instance, s->store, (uintptr_t)job->access[0].guard + TRP__PROBE_PAST_THE_END,
                      error);
    case TRP_PROBE_MISALIGNED:
        return launch(instance, s->store, s->scratch + 1, error);
    default:
        return launch(instance, s->trap, 0, error);
    }
}

/* A death of the worker, after the stream is drained, so that the outputs are as after real
 * work. */
static trp_status crash(trp_instance *instance, trp_probe_action action, trp_error *error)
{
    const trp__cuda *cu = ((const state *)instance->state)->cu;
    trp_status status = trp_cuda_check(instance, cu->cuStreamSynchronize(instance->stream),
                                       "cuStreamSynchronize", error);
    if (status == TRP_OK)
        trp__probe_crash(action, NULL);
    return status;
}

static void trim(trp_instance *instance)
{
    state *s = instance->state;
    s->trimmed = true;
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    state *s = instance->state;
    trp__probe p;
    memcpy(&p, job->payload, sizeof p);
    trp_probe_action action = (trp_probe_action)p.action;
    trp_status status = trp__probe_error(action, &s->trimmed, error);
    if (status != TRP_OK)
        return status;
    switch (action) {
    case TRP_PROBE_NOP:
    case TRP_PROBE_OUT_OF_MEMORY:
        return launch(instance, s->nop, 0, error);
    case TRP_PROBE_SPIN:
        return launch(instance, s->spin, p.duration_ns, error);
    default:
        break;
    }
    status = trp__probe_scribble(instance, job, error);
    if (status != TRP_OK)
        return status;
    if (action == TRP_PROBE_WRITE_SEALED)
        return launch(instance, s->store, (uintptr_t)job->access[0].address, error);
    return action >= TRP_PROBE_SEGV ? crash(instance, action, error)
                                    : fault(instance, job, action, error);
}

const trp_actor_impl trp__probe_cuda = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .trim = trim,
    .stop = stop,
};

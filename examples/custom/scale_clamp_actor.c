/* An actor of one's own: a kernel for GPUs, written by hand, and a function for processors. Builds
 * without a CUDA toolkit:
 *
 *     cc -shared -fPIC scale_clamp_actor.c -o scale_clamp_actor.so -ldl -lm
 */
#include "scale_clamp.h"

#include <troupe/worker.h>

#include <dlfcn.h>
#include <math.h>
#include <string.h>

/* What both backends refuse: the sender's side knows nothing of the payload. */
static trp_status check(trp_instance *instance, const trp_job *job, scale_clamp *p,
                        trp_error *error)
{
    const trp_services *s = instance->services;
    if (job->code != SCALE_CLAMP || job->payload_bytes != sizeof *p)
        return s->fail(error, TRP_E_ARGUMENT, "", 0,
                       "expected code %d with %zu bytes, got code %u with %u", SCALE_CLAMP,
                       sizeof *p, job->code, job->payload_bytes);
    memcpy(p, job->payload, sizeof *p);
    if (job->access_count != 2 || job->access[0].mode != TRP_ACCESS_READ ||
        job->access[1].mode != TRP_ACCESS_COVER)
        return s->fail(error, TRP_E_ARGUMENT, "", 0, "expected x to read and out to cover");
    for (uint32_t i = 0; i < 2; i++) {
        if (p->count != job->access[i].bytes / sizeof(float) ||
            job->access[i].bytes % sizeof(float) != 0)
            return s->fail(error, TRP_E_ARGUMENT, "", 0,
                           "count: expected the %llu bytes of access %u, got %llu floats",
                           (unsigned long long)job->access[i].bytes, i,
                           (unsigned long long)p->count);
    }
    return TRP_OK;
}

/* Processors: handle() only enqueues; run() does the work, on the actor's stream thread. */

typedef struct work {
    scale_clamp p;
    const float *x;
    float *out;
} work;

static void run(void *memory)
{
    const work *a = memory;
    for (uint64_t i = 0; i < a->p.count; i++)
        a->out[i] = fminf(fmaxf(fmaf(a->p.scale, a->x[i], a->p.shift), a->p.low), a->p.high);
}

static trp_status host_handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    work a;
    trp_status status = check(instance, job, &a.p, error);
    if (status != TRP_OK)
        return status;
    a.x = job->access[0].address;
    a.out = job->access[1].address;
    return instance->services->enqueue(instance, run, &a, sizeof a, error);
}

static const trp_actor_impl host = {.abi = TRP_ACTOR_ABI, .handle = host_handle};

/* GPUs. The worker has made its context current; all that is left is to load the kernel and to
 * launch it on the actor's stream. Each thread does every (threads in all)th element. */

static const char ptx[] = ".version 7.0\n"
                          ".target sm_80\n"
                          ".address_size 64\n"
                          ".visible .entry scale_clamp(.param .u64 x, .param .u64 out,\n"
                          "    .param .u64 count, .param .f32 scale, .param .f32 shift,\n"
                          "    .param .f32 low, .param .f32 high)\n"
                          "{\n"
                          "    .reg .pred %end;\n"
                          "    .reg .b32 %block, %size, %thread, %blocks;\n"
                          "    .reg .b64 %i, %t, %step, %count, %x, %out, %from, %to, %at;\n"
                          "    .reg .f32 %v, %scale, %shift, %low, %high;\n"
                          "    ld.param.u64 %x, [x];\n"
                          "    ld.param.u64 %out, [out];\n"
                          "    ld.param.u64 %count, [count];\n"
                          "    ld.param.f32 %scale, [scale];\n"
                          "    ld.param.f32 %shift, [shift];\n"
                          "    ld.param.f32 %low, [low];\n"
                          "    ld.param.f32 %high, [high];\n"
                          "    cvta.to.global.u64 %from, %x;\n"
                          "    cvta.to.global.u64 %to, %out;\n"
                          "    mov.u32 %block, %ctaid.x;\n"
                          "    mov.u32 %size, %ntid.x;\n"
                          "    mov.u32 %thread, %tid.x;\n"
                          "    mov.u32 %blocks, %nctaid.x;\n"
                          "    mul.wide.u32 %i, %block, %size;\n"
                          "    cvt.u64.u32 %t, %thread;\n"
                          "    add.u64 %i, %i, %t;\n"
                          "    mul.wide.u32 %step, %blocks, %size;\n"
                          "next:\n"
                          "    setp.ge.u64 %end, %i, %count;\n"
                          "    @%end bra done;\n"
                          "    shl.b64 %t, %i, 2;\n"
                          "    add.u64 %at, %from, %t;\n"
                          "    ld.global.f32 %v, [%at];\n"
                          "    fma.rn.f32 %v, %scale, %v, %shift;\n"
                          "    max.f32 %v, %v, %low;\n"
                          "    min.f32 %v, %v, %high;\n"
                          "    add.u64 %at, %to, %t;\n"
                          "    st.global.f32 [%at], %v;\n"
                          "    add.u64 %i, %i, %step;\n"
                          "    bra next;\n"
                          "done:\n"
                          "    ret;\n"
                          "}\n";

enum { BLOCK = 256, BLOCKS_MAX = 4096 };

/* The part of the driver's interface that is used here, as cuda.h has it. */
typedef struct module *module;
typedef struct function *function;
typedef struct driver {
    int (*load)(module *out, const void *image);
    int (*unload)(module m);
    int (*get)(function *out, module m, const char *name);
    int (*launch)(function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared_bytes, void *stream, void **arguments, void **extra);
} driver;

typedef struct state {
    void *library;
    driver cu;
    module module;
    function kernel;
} state;

static bool find(void *library, const char *name, void *pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

static void cuda_stop(trp_instance *instance)
{
    state *s = instance->state;
    if (s->module)
        trp_cuda_check(instance, s->cu.unload(s->module), "cuModuleUnload", NULL);
    if (s->library)
        dlclose(s->library); /* the worker has it open too */
}

static trp_status cuda_init(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    trp_status status;
    s->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!s->library || !find(s->library, "cuModuleLoadData", &s->cu.load) ||
        !find(s->library, "cuModuleUnload", &s->cu.unload) ||
        !find(s->library, "cuModuleGetFunction", &s->cu.get) ||
        !find(s->library, "cuLaunchKernel", &s->cu.launch))
        status = instance->services->fail(error, TRP_E_MISSING, "", 0, "%s", dlerror());
    else
        status = trp_cuda_check(instance, s->cu.load(&s->module, ptx), "cuModuleLoadData", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, s->cu.get(&s->kernel, s->module, "scale_clamp"),
                                "cuModuleGetFunction", error);
    if (status != TRP_OK)
        cuda_stop(instance); /* after a failed init() nobody else calls it */
    return status;
}

static trp_status cuda_handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    state *s = instance->state;
    scale_clamp p;
    trp_status status = check(instance, job, &p, error);
    if (status != TRP_OK)
        return status;
    uint64_t blocks = (p.count + BLOCK - 1) / BLOCK;
    void *arguments[] = {&job->access[0].address,
                         &job->access[1].address,
                         &p.count,
                         &p.scale,
                         &p.shift,
                         &p.low,
                         &p.high};
    return trp_cuda_check(instance,
                          s->cu.launch(s->kernel,
                                       blocks < BLOCKS_MAX ? (unsigned)blocks : BLOCKS_MAX, 1, 1,
                                       BLOCK, 1, 1, 0, instance->stream, arguments, NULL),
                          "cuLaunchKernel", error);
}

static const trp_actor_impl cuda = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = cuda_init,
    .handle = cuda_handle,
    .stop = cuda_stop,
};

const trp_actor_library trp_actor_entry = {
    .head = TRP_ACTOR_HEAD,
    .name = "scale_clamp",
    .version = "1.0",
    .cuda = &cuda,
    .host = &host,
};

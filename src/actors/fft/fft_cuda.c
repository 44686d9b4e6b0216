/* The fft actor on NVIDIA GPUs: cuFFT. Plans are made, proven and destroyed in a thread of the
 * actor's own, each once for a problem. They work in memory that all requests of the actor's stream
 * share. */
#include "actors/fft/fft.h"
#include "actors/fft/plan.h"
#include "actors/fft/proofs.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os/clock.h"
#include "cache/lru.h"
#include "driver/scratch.h"
#include "worker/actor.h"
#include "worker/side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = 64, ALIGNMENT = 256 };

/* A plan, or the knowledge that there is none that computes a problem right. */
typedef struct entry {
    trp__fft_cuda_plan plan;
    bool refused;
} entry;

/* What the side thread does. */
typedef enum side_task { MAKE_PLAN, LOAD_KERNELS, DESTROY } side_task;

typedef struct state {
    trp_instance *instance;
    const trp__cuda *cu;
    const trp__cufft *fft;
    trp__cu_device device;
    trp__cu_context context; /* the primary context, retained; NULL: not yet */
    trp__store *store;
    trp__tuning_site site;
    trp__side *side;
    trp__lru *plans; /* of entry */
    trp__scratch scratch;
    trp__fft_kernels loaded; /* as `kernels`, once the side thread has loaded them */

    /* Plans that the table has dropped; the stream may need them still. The side thread destroys
     * them when it works next. */
    trp__cufft_handle dropped[2 * PLANS];
    int drops;

    /* The side thread's, until it is taken. */
    bool working;
    side_task task;
    trp__fft_problem problem;
    bool ahead; /* for a rehearsal */
    entry made;
    trp_status status;
    trp_error error;
    trp__cufft_handle doomed[2 * PLANS];
    int dooms;
    trp__fft_kernels kernels;
    trp__fft_proofs proofs;
    atomic_bool unwanted; /* nobody waits for what it does */
} state;

/* Start and end. */

static void drop_plan(void *context, void *value)
{
    state *s = context;
    const entry *e = value;
    if (!e->refused)
        s->dropped[s->drops++] = e->plan.handle;
}

static void enter(void *argument)
{
    state *s = argument;
    s->cu->cuCtxSetCurrent(s->context);
}

static void destroy(state *s, const trp__cufft_handle handles[], int count)
{
    for (int i = 0; i < count; i++)
        s->fft->cufftDestroy(handles[i]);
    if (count > 0)
        enter(s); /* cuFFT may have left another one current */
}

static void stop(trp_instance *instance)
{
    state *s = instance->state;
    atomic_store(&s->unwanted, true);
    trp__side_stop(s->side);
    trp__lru_destroy(s->plans);
    if (s->context) {
        if (s->working && s->task == MAKE_PLAN && s->status == TRP_OK && !s->made.refused)
            destroy(s, &s->made.plan.handle, 1);
        destroy(s, s->doomed, s->dooms);
        destroy(s, s->dropped, s->drops);
        trp__verdicts_end(&s->proofs.proofs.verdicts);
        trp__fft_kernels_unload(&s->kernels, s->cu, instance);
        trp__scratch_free(instance, s->cu, &s->scratch);
        s->cu->cuDevicePrimaryCtxRelease_v2(s->device);
    }
    memset(s, 0, sizeof *s);
}

/* Describes GPU, driver and library, for which the results of proofs are valid. */
static trp_status describe_site(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    char version[32];
    const trp_status status = trp__tuning_site_of(&s->site, instance->ordinal, error);
    if (status != TRP_OK)
        return status;
    trp__cufft_version(s->fft, version, sizeof version);
    snprintf(s->site.library, sizeof s->site.library, "cuFFT %s", version);
    s->store = trp__store_of_process();
    s->proofs = (trp__fft_proofs){.cu = s->cu,
                                  .fft = s->fft,
                                  .kernels = &s->kernels,
                                  .proofs = {.verdicts = {.store = s->store, .site = &s->site},
                                             .name = instance->name,
                                             .owner = trp__instance_owner(instance),
                                             .unwanted = &s->unwanted,
                                             .off = trp__instance_proof_off(instance)}};
    return TRP_OK;
}

/* The first plan of a process takes long, which no request should wait for. */
static trp_status warm_up(state *s, trp_error *error)
{
    const trp__fft_problem small = {.n = {256},
                                    .x = {.embed = {256}, .stride = 1, .distance = 256},
                                    .y = {.embed = {256}, .stride = 1, .distance = 256},
                                    .batch = 1,
                                    .rank = 1,
                                    .kind = TRP_FFT_C2C};
    trp__fft_cuda_plan plan;
    const trp_status status = trp__fft_cuda_plan_make(s->fft, &small, &plan, error);
    if (status == TRP_OK)
        destroy(s, &plan.handle, 1);
    return status == TRP_E_LIBRARY ? TRP_OK : status; /* it may make others */
}

static trp_status init(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    s->instance = instance;
    trp_status status = trp__cufft_load(&s->fft, error);
    if (status == TRP_OK)
        status = trp__cuda_load(&s->cu, error);
    if (status != TRP_OK)
        return status;
    status = trp_cuda_check(instance, s->cu->cuDeviceGet(&s->device, (int)instance->ordinal),
                            "cuDeviceGet", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, s->cu->cuDevicePrimaryCtxRetain(&s->context, s->device),
                                "cuDevicePrimaryCtxRetain", error);
    if (status == TRP_OK)
        status = describe_site(instance, error);
    if (status == TRP_OK)
        status = trp__lru_create(sizeof(trp__fft_problem), sizeof(entry), PLANS, drop_plan, s,
                                 &s->plans, error);
    if (status == TRP_OK)
        status = warm_up(s, error);
    if (status == TRP_OK)
        status = trp__side_start(&s->side, enter, s, error);
    if (status != TRP_OK)
        stop(instance);
    return status;
}

/* The side thread's work. */

/* Proves a plan; refuses it if it computes something else. */
static trp_status prove(state *s, trp_error *error)
{
    trp__proofs *proofs = &s->proofs.proofs;
    proofs->cancelled = false;
    s->proofs.ahead = s->ahead;
    s->proofs.skipped = false;
    const bool accepted = trp__fft_proofs_accept(&s->proofs, &s->problem, &s->made.plan);
    trp_status status = TRP_OK;
    if (proofs->broken) {
        s->instance->services->cuda_fail(s->instance, trp__proofs_cuda_result(proofs), "a proof",
                                         error);
        return TRP_E_CANCELLED; /* the worker ends */
    }
    if (proofs->cancelled)
        status = TRP_E_CANCELLED;
    else if (s->proofs.skipped)
        status = trp__error_set(error, TRP_E_MISSING, "it was not proven yet");
    s->made.refused = !accepted;
    s->made.plan.area = NULL;
    s->made.plan.stream = NULL;
    if (status != TRP_OK || !accepted)
        destroy(s, &s->made.plan.handle, 1);
    return status;
}

/* Whether a failure is one of this plan alone. */
static bool is_refusal(state *s, trp_status status)
{
    return status != TRP_OK && status != TRP_E_MEMORY &&
           !trp__cuda_sticky(s->cu->cuStreamQuery(s->instance->stream));
}

/* An operator sees by it what first requests wait for. */
static void log_times(const state *s, int64_t begun, int64_t made)
{
    char text[160];
    trp__fft_describe(&s->problem, text, sizeof text);
    trp__log_line(NULL, TRP__LOG_INFO, "%s: plan of %s: made in %lld us, judged in %lld us%s",
                  s->instance->name, text, (long long)(made - begun) / 1000,
                  (long long)(trp__now_ns() - made) / 1000, s->made.refused ? ", refused" : "");
}

static void make_plan(state *s)
{
    const int64_t begun = trp__now_ns();
    s->made = (entry){0};
    s->status = trp__fft_cuda_plan_make(s->fft, &s->problem, &s->made.plan, &s->error);
    const int64_t made = trp__now_ns();
    enter(s);
    if (is_refusal(s, s->status)) {
        s->made.refused = true;
        s->status = TRP_OK;
    } else if (s->status == TRP_OK) {
        s->status = prove(s, &s->error);
    }
    log_times(s, begun, made);
}

/* Plans that the stream may need are destroyed when it has done what was enqueued. In a standby it
 * may be recording, which this call would spoil, and needs nothing. */
static void work(void *argument)
{
    state *s = argument;
    if (s->dooms > 0 && !s->ahead)
        s->cu->cuStreamSynchronize(s->instance->stream);
    destroy(s, s->doomed, s->dooms);
    s->dooms = 0;
    if (s->task == MAKE_PLAN)
        make_plan(s);
    else if (s->task == LOAD_KERNELS)
        s->status = trp__fft_proofs_kernels(&s->proofs, &s->error);
}

/* Sends the side thread, which must not be busy, to work. */
static void begin(state *s, side_task task)
{
    memcpy(s->doomed, s->dropped, (size_t)s->drops * sizeof *s->dropped);
    s->dooms = s->drops;
    s->drops = 0;
    s->working = true;
    s->task = task;
    s->ahead = trp__instance_rehearses(s->instance);
    s->status = TRP_OK;
    atomic_store(&s->unwanted, false);
    trp__side_run(s->side, work, s);
}

/* Takes what the side thread has done. TRP_AGAIN: it is busy. Its failure is that of a request
 * which waits for the same. */
static trp_status take(state *s, side_task task, const trp__fft_problem *problem, trp_error *error)
{
    const bool wanted = s->working && s->task == task &&
                        (task != MAKE_PLAN || memcmp(&s->problem, problem, sizeof *problem) == 0);
    if (trp__side_busy(s->side)) {
        if (!wanted)
            atomic_store(&s->unwanted, true);
        return TRP_AGAIN;
    }
    if (!s->working)
        return TRP_OK;
    s->working = false;
    if (s->kernels.sums) {
        s->loaded = s->kernels;
    }
    if (s->task == MAKE_PLAN && s->status == TRP_OK) {
        if (trp__lru_find(s->plans, &s->problem))
            drop_plan(s, &s->made);
        else
            *(entry *)trp__lru_add(s->plans, &s->problem) = s->made;
    }
    if (s->status == TRP_OK || s->status == TRP_E_CANCELLED || !wanted)
        return TRP_OK;
    *error = s->error;
    return s->status;
}

static void trim(trp_instance *instance)
{
    state *s = instance->state;
    trp__lru_clear(s->plans);
    if (instance->services->idle(instance))
        trp__scratch_free(instance, s->cu, &s->scratch);
    if (s->drops > 0 && !s->working && !trp__side_busy(s->side))
        begin(s, DESTROY);
}

/* Routes. */

/* A request while it is handled. */
typedef struct request {
    trp__fft g;
    const trp__fft_dim *dim;
    char *at[TRP__FFT_BUFFERS];
    trp__fft_route route;
    entry *plan[TRP__FFT_STEPS];
    size_t work_bytes;
} request;

static trp_status find_plan(state *s, const trp__fft_problem *problem, entry **out,
                            trp_error *error)
{
    *out = trp__lru_find(s->plans, problem);
    if (*out)
        return TRP_OK;
    trp_status status = take(s, MAKE_PLAN, problem, error);
    if (status != TRP_OK)
        return status;
    if (trp__lru_find(s->plans, problem))
        return TRP_AGAIN; /* places of others may have changed */
    s->problem = *problem;
    begin(s, MAKE_PLAN);
    return TRP_AGAIN;
}

static trp_status find_kernels(state *s, trp_error *error)
{
    if (s->loaded.sums)
        return TRP_OK;
    const trp_status status = take(s, LOAD_KERNELS, NULL, error);
    if (status != TRP_OK || s->loaded.sums)
        return status;
    begin(s, LOAD_KERNELS);
    return TRP_AGAIN;
}

/* Finds the plans of a route. TRP_E_UNSUPPORTED: one was refused. */
static trp_status find_plans(state *s, request *r, trp_error *error)
{
    r->work_bytes = 0;
    for (int i = 0; i < r->route.count; i++) {
        if (r->route.step[i].work != TRP__FFT_PLAN)
            continue;
        const trp_status status = find_plan(s, &r->route.step[i].problem, &r->plan[i], error);
        if (status != TRP_OK)
            return status;
        if (r->plan[i]->refused)
            return trp__error_set(error, TRP_E_UNSUPPORTED, "cuFFT has no plan for it");
        const size_t bytes = r->plan[i]->plan.work_bytes;
        r->work_bytes = bytes > r->work_bytes ? bytes : r->work_bytes;
    }
    return r->route.kernels ? find_kernels(s, error) : TRP_OK;
}

static trp_status find_route(state *s, request *r, trp_error *error)
{
    trp_status status = TRP_E_UNSUPPORTED;
    for (trp__fft_way way = TRP__FFT_JOINT; way < TRP__FFT_WAYS && status == TRP_E_UNSUPPORTED;
         way++) {
        status = trp__fft_route_find(&r->route, way, &r->g, r->dim, r->at[TRP__FFT_X],
                                     r->at[TRP__FFT_Y], error);
        if (status == TRP_OK)
            status = find_plans(s, r, error);
    }
    return status;
}

/* Requests. */

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t scratch_bytes(const request *r)
{
    return aligned(r->work_bytes) + aligned(r->route.dense_bytes) + aligned(r->route.other_bytes) +
           r->route.middle_bytes;
}

/* Finds scratch memory: for plans, then the dense tensors. */
static trp_status find_scratch(trp_instance *instance, request *r, trp_error *error)
{
    state *s = instance->state;
    const trp_status status = trp__scratch_have(instance, s->cu, &s->scratch, scratch_bytes(r),
                                                &r->at[TRP__FFT_DENSE], error);
    if (status != TRP_OK || !r->at[TRP__FFT_DENSE])
        return status;
    r->at[TRP__FFT_DENSE] += aligned(r->work_bytes);
    r->at[TRP__FFT_OTHER] = r->at[TRP__FFT_DENSE] + aligned(r->route.dense_bytes);
    r->at[TRP__FFT_MIDDLE] = r->at[TRP__FFT_OTHER] + aligned(r->route.other_bytes);
    return TRP_OK;
}

/* Calls a plan once for each index of the dimensions around it. */
static trp_status run_plan(state *s, const request *r, int number, trp_error *error)
{
    const trp__fft_step *step = &r->route.step[number];
    int64_t index[TRP_FFT_RANK_MAX] = {0};
    char *x = r->at[step->from], *y = r->at[step->to];
    char *area = r->work_bytes ? r->at[TRP__FFT_DENSE] - aligned(r->work_bytes) : NULL;
    for (;;) {
        const trp_status status = trp__fft_cuda_plan_run(
            s->fft, &step->problem, &r->plan[number]->plan, x, y, area, s->instance->stream, error);
        if (status != TRP_OK)
            return status;
        int i = step->loops - 1;
        for (; i >= 0; i--) {
            const trp__fft_loop *loop = &step->loop[i];
            x += loop->x_step;
            y += loop->y_step;
            if (++index[i] < loop->n)
                break;
            x -= loop->n * loop->x_step;
            y -= loop->n * loop->y_step;
            index[i] = 0;
        }
        if (i < 0)
            return TRP_OK;
    }
}

static trp_status run_kernel(state *s, const request *r, int number, trp_error *error)
{
    const trp__fft_step *step = &r->route.step[number];
    void *x = r->at[step->from], *y = r->at[step->to];
    trp_status status;
    if (step->work == TRP__FFT_COPY) {
        trp__fft_copy copy = step->copy;
        copy.x = x;
        copy.y = y;
        status = trp__fft_launch_copy(s->cu, s->loaded.copy, &copy, s->instance->stream, error);
    } else if (step->work == TRP__FFT_SUMS) {
        trp__fft_sums sums = step->sums;
        sums.x = x;
        sums.y = y;
        status = trp__fft_launch_sums(s->cu, s->loaded.sums, &sums, s->instance->stream, error);
    } else {
        trp__fft_trig trig = step->trig;
        trig.x = x;
        trig.y = y;
        status = trp__fft_launch_trig(
            s->cu, step->work == TRP__FFT_BEFORE ? s->loaded.before : s->loaded.behind, &trig,
            s->instance->stream, error);
    }
    return status == TRP_OK ? TRP_OK
                            : trp_cuda_check(s->instance, error->code, "cuLaunchKernel", error);
}

/* cuFFT would not run a plan that was proven: from now on it is refused, and the request begins
 * again, unless x may have changed. */
static trp_status refuse_plan(state *s, const request *r, int number, trp_status status,
                              trp_error *error)
{
    const trp__cu_result health = s->cu->cuStreamQuery(s->instance->stream);
    const bool in_place = r->g.access_x == r->g.access_y;
    if (trp__cuda_sticky(health))
        return trp_cuda_check(s->instance, health, "cufftXtExec", error);
    if (status == TRP_E_MEMORY || (in_place && number > 0) || trp__instance_rehearses(s->instance))
        return status;
    drop_plan(s, r->plan[number]);
    r->plan[number]->refused = true;
    return TRP_AGAIN;
}

static trp_status run_steps(state *s, const request *r, trp_error *error)
{
    for (int i = 0; i < r->route.count; i++) {
        const bool plan = r->route.step[i].work == TRP__FFT_PLAN;
        const trp_status status = plan ? run_plan(s, r, i, error) : run_kernel(s, r, i, error);
        if (status != TRP_OK)
            return plan ? refuse_plan(s, r, i, status, error) : status;
    }
    return TRP_OK;
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    state *s = instance->state;
    request r;
    memcpy(&r.g, job->payload, sizeof r.g);
    memset(r.at, 0, sizeof r.at);
    if (r.g.access_y == TRP__FFT_NO_ACCESS)
        return TRP_OK;
    r.dim = r.g.rank > TRP__FFT_DIMS ? job->access[job->access_count - 1].address : r.g.dim;
    r.at[TRP__FFT_Y] = (char *)job->access[r.g.access_y].address + r.g.y_first;
    if (r.g.access_x != TRP__FFT_NO_ACCESS)
        r.at[TRP__FFT_X] = (char *)job->access[r.g.access_x].address + r.g.x_first;
    trp_status status = find_route(s, &r, error);
    if (status != TRP_OK)
        return status;
    if (trp__instance_rehearses(instance) && scratch_bytes(&r) > s->scratch.bytes)
        return TRP_OK; /* a standby takes no memory ahead */
    status = find_scratch(instance, &r, error);
    return status == TRP_OK ? run_steps(s, &r, error) : status;
}

const trp_actor_impl trp__fft_cuda = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .trim = trim,
    .stop = stop,
};

/* The fft actor on the host. Plans are made in a thread of the actor's own, once for a length. */
#include "actors/fft/fft.h"
#include "actors/fft/passes.h"
#include "base/error.h"
#include "base/os/team.h"
#include "cache/lru.h"
#include "worker/side.h"

#include <stdlib.h>
#include <string.h>

enum { PLANS = 64 };

typedef struct state {
    trp__lru *plans; /* of trp__fft_plan * */
    trp__side *side;
    bool team;
    /* Used by the thread of the stream, and replaced while that is idle. */
    void *scratch;
    uint64_t scratch_bytes;
    /* What the side thread makes, one at a time. */
    bool making;
    trp__fft_key key;
    trp__fft_plan *plan;
    trp_status status;
    trp_error error;
} state;

static void drop_plan(void *context, void *value)
{
    (void)context;
    trp__fft_plan_drop(*(trp__fft_plan **)value);
}

static void stop(trp_instance *instance)
{
    state *s = instance->state;
    trp__side_stop(s->side);
    if (s->making && s->status == TRP_OK)
        trp__fft_plan_drop(s->plan);
    trp__lru_destroy(s->plans);
    free(s->scratch);
    if (s->team)
        trp__team_close();
    memset(s, 0, sizeof *s);
}

static trp_status init(trp_instance *instance, trp_error *error)
{
    state *s = instance->state;
    trp_status status = trp__lru_create(sizeof(trp__fft_key), sizeof(trp__fft_plan *), PLANS,
                                        drop_plan, NULL, &s->plans, error);
    if (status == TRP_OK)
        status = trp__side_start(&s->side, NULL, NULL, error);
    if (status != TRP_OK) {
        stop(instance);
        return status;
    }
    trp__team_open();
    s->team = true;
    return TRP_OK;
}

static void trim(trp_instance *instance)
{
    state *s = instance->state;
    trp__lru_clear(s->plans); /* requests in the stream hold theirs */
    if (!instance->services->idle(instance))
        return;
    free(s->scratch);
    s->scratch = NULL;
    s->scratch_bytes = 0;
}

/* Plans. */

static void make_plan(void *argument)
{
    state *s = argument;
    s->status = trp__fft_plan_make(&s->key, &s->plan, &s->error);
}

/* Stores what the side thread has made, whichever request it was for. */
static trp_status take_made(state *s, trp_error *error)
{
    if (!s->making || trp__side_busy(s->side))
        return TRP_OK;
    s->making = false;
    if (s->status != TRP_OK) {
        *error = s->error;
        return s->status;
    }
    trp__fft_plan **place = trp__lru_find(s->plans, &s->key);
    if (place)
        trp__fft_plan_drop(s->plan);
    else
        *(trp__fft_plan **)trp__lru_add(s->plans, &s->key) = s->plan;
    return TRP_OK;
}

/* Finds the plans of all passes and holds them; TRP_AGAIN: one is being made. */
static trp_status find_plans(state *s, trp__fft_passes *p, trp_error *error)
{
    trp_status status = take_made(s, error);
    for (int i = 0; i < p->count && status == TRP_OK; i++) {
        const trp__fft_key key = trp__fft_passes_key(p, i);
        trp__fft_plan **found = trp__lru_find(s->plans, &key);
        if (found) {
            trp__fft_plan_hold(*found);
            p->plan[i] = *found;
            continue;
        }
        status = TRP_AGAIN;
        if (!s->making) {
            s->making = true;
            s->key = key;
            trp__side_run(s->side, make_plan, s);
        }
    }
    return status;
}

static void release(trp__fft_passes *p)
{
    for (int i = 0; i < p->count; i++)
        trp__fft_plan_drop((trp__fft_plan *)(uintptr_t)p->plan[i]);
    free(p);
}

/* Requests. */

static trp_status find_scratch(trp_instance *instance, trp__fft_passes *p, trp_error *error)
{
    state *s = instance->state;
    uint64_t bytes = 0;
    for (int i = 0; i < p->count; i++) {
        const uint64_t own = trp__fft_scratch_bytes(p->plan[i]);
        bytes = own > bytes ? own : bytes;
    }
    const uint64_t between = bytes;
    bytes += (p->between_bytes | (TRP__FFT_PAIR_BYTES - 1)) + 1;
    const uint64_t dense = bytes;
    bytes += (p->dense_bytes | (TRP__FFT_PAIR_BYTES - 1)) + 1;
    if (bytes > s->scratch_bytes) {
        if (!instance->services->idle(instance))
            return TRP_AGAIN;
        free(s->scratch);
        s->scratch = aligned_alloc(TRP__FFT_PAIR_BYTES, bytes);
        s->scratch_bytes = s->scratch ? bytes : 0;
    }
    if (!s->scratch)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for %llu bytes between passes",
                              (unsigned long long)bytes);
    p->scratch = s->scratch;
    p->between = (char *)s->scratch + between;
    p->dense = (char *)s->scratch + dense;
    return TRP_OK;
}

static void run(void *arguments)
{
    trp__fft_passes *p = *(trp__fft_passes **)arguments;
    trp__fft_passes_run(p);
    release(p);
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    trp__fft g;
    memcpy(&g, job->payload, sizeof g);
    if (g.access_y == TRP__FFT_NO_ACCESS)
        return TRP_OK;
    trp__fft_passes *p = malloc(sizeof *p);
    if (!p)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a request");
    const trp_job_access *piece = &job->access[job->access_count - 1];
    if (!trp__fft_passes_set(p, &g, g.rank > TRP__FFT_DIMS ? piece->address : g.dim)) {
        free(p);
        return trp__error_set(error, TRP_E_MEMORY, "no memory for what lies between passes");
    }
    p->y = (char *)job->access[g.access_y].address + g.y_first;
    if (g.access_x != TRP__FFT_NO_ACCESS)
        p->x = (char *)job->access[g.access_x].address + g.x_first;
    trp_status status = find_plans(instance->state, p, error);
    if (status == TRP_OK)
        status = find_scratch(instance, p, error);
    if (status == TRP_OK)
        status = instance->services->enqueue(instance, run, &p, sizeof(void *), error);
    if (status != TRP_OK)
        release(p);
    return status;
}

const trp_actor_impl trp__fft_host = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .trim = trim,
    .stop = stop,
};

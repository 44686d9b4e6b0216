/* Joining: requests at the front of a lane that are alike and independent go to their actor in one
 * call. Otherwise each is treated as a single one: it has its ticket, its accesses are resolved, it
 * can be cancelled up to the last moment, and after a fault it counts as in flight. */
#include "base/fault_point.h"
#include "worker/scheduler.h"

/* Begins the jobs of the requests at the front of a lane that their actor would join; returns their
 * number. */
static uint32_t find_joined(trp__scheduler *s, uint32_t actor)
{
    trp__instance *instance = &s->worker->actor[actor].instance;
    const trp__record *first = &s->control->record[s->lane[actor].head];
    uint32_t slot = s->pending[s->lane[actor].head].next, count = 1;
    trp__job_begin(&s->joined[0], first);
    if (!instance->impl->joins(&instance->api, &s->joined[0].api, &s->joined[0].api))
        return 0;
    for (; slot != TRP__NO_SLOT && count < TRP_ACTOR_JOINED_MAX; slot = s->pending[slot].next) {
        const trp__pending *p = &s->pending[slot];
        trp__job *job = &s->joined[count];
        trp__job_begin(job, &s->control->record[slot]);
        if (p->waits_for || p->follows >= first->ticket || p->overwrites >= first->ticket ||
            job->record->timed ||
            !instance->impl->joins(&instance->api, &s->joined[0].api, &job->api))
            break;
        count++;
    }
    return count;
}

/* Signals requests whose inputs later ones overwrite, see trp__prepare(). */
static trp_status signal_overwritten(trp__scheduler *s, uint32_t actor, uint32_t count,
                                     trp_error *error)
{
    const trp__lane *l = &s->lane[actor];
    uint32_t slot = l->head;
    trp_status status = TRP_OK;
    for (uint32_t i = 0; i < count && status == TRP_OK; i++, slot = s->pending[slot].next) {
        if (s->pending[slot].overwrites > l->signalled)
            status = trp__signal_lane(s, actor, error);
    }
    return status;
}

/* Reduces *count to the requests, from the first on, that can be begun now, and marks them as
 * issued. On an error the worker must end. */
static trp_status begin_joined(trp__scheduler *s, uint32_t actor, uint32_t *count, trp_error *error)
{
    trp__lane *l = &s->lane[actor];
    uint32_t found = *count, ready = 1, slot = l->head;
    *count = 0;
    trp__job_begin(&l->job, &s->control->record[l->head]);
    trp_status status = signal_overwritten(s, actor, found, error);
    trp__readiness first =
        status == TRP_OK ? trp__prepare(s, actor, &s->pending[l->head], error) : TRP__BROKEN;
    if (first != TRP__GO)
        return first == TRP__BROKEN ? error->status : TRP_OK;
    s->joined[0] = l->job;
    while (ready < found && trp__may_read(s, s->joined[ready].record, error) &&
           trp__resolve(s, &s->joined[ready], error) == TRP__GO)
        ready++;
    for (uint32_t i = 0; i < ready; i++, slot = s->pending[slot].next) {
        if (trp__begin(s, actor, slot, error) != TRP_OK)
            break;
        ++*count;
    }
    return TRP_OK;
}

trp_status trp__issue_joined(trp__scheduler *s, uint32_t actor, uint32_t *count, trp_error *error)
{
    trp__lane *l = &s->lane[actor];
    trp__instance *instance = &s->worker->actor[actor].instance;
    trp_job *jobs[TRP_ACTOR_JOINED_MAX];
    uint32_t found = find_joined(s, actor);
    *count = 0;
    if (found > 1) {
        trp_status status = begin_joined(s, actor, &found, error);
        if (status != TRP_OK)
            return status;
    }
    if (found < 2)
        return TRP_OK;
    for (uint32_t i = 0; i < found; i++)
        jobs[i] = &s->joined[i].api;
    if (instance->impl->handle_joined(&instance->api, jobs, found, error) != TRP_OK) {
        l->apart = s->joined[found - 1].record->ticket;
        return TRP_OK;
    }
    TRP__FAULT_POINT(ISSUE_HANDLED);
    for (uint32_t i = 0; i < found; i++)
        trp__leave_lane(s, actor, s->joined[i].record->ticket, i == 0);
    *count = found;
    return l->unsignalled >= TRP__SIGNAL_BATCH ? trp__signal_lane(s, actor, error) : TRP_OK;
}

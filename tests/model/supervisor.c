/* The supervisor: supervisor.c and recover.c. See README.md. SPDX-License-Identifier: Apache-2.0 */
#include "model/state.h"

static bool published(const state *s, uint8_t end)
{
    uint32_t first = end > RING ? end - (uint32_t)RING : 1;
    for (uint32_t ticket = first; ticket < end; ticket++) {
        if (s->ring[ticket % RING].ticket < ticket)
            return false;
    }
    return true;
}

/* collect_pending(), in ticket order. */
static void collect(const run *r, state *n)
{
    supervisor *v = &n->judge;
    v->count = 0;
    for (uint32_t i = 0; i < r->plan->slots; i++) {
        const slot *s = &n->slots[i];
        if ((s->phase != PENDING && !(s->retired_early & UNPASSED)) || s->ticket < v->begin ||
            s->ticket >= v->end)
            continue;
        uint32_t at = v->count++;
        for (; at > 0 && v->ticket[at - 1] > s->ticket; at--) {
            v->ticket[at] = v->ticket[at - 1];
            v->slot[at] = v->slot[at - 1];
        }
        v->ticket[at] = s->ticket;
        v->slot[at] = (uint8_t)i;
    }
}

static void find_progress(state *n)
{
    supervisor *v = &n->judge;
    v->in_flight = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        const slot *s = &n->slots[v->slot[i]];
        bool retired_early = s->retired_early & UNPASSED;
        progress p = n->mapped.timeline[s->actor] >= v->ticket[i]                   ? FINISHED
                     : n->mapped.issued[s->actor] >= v->ticket[i] && !retired_early ? IN_FLIGHT
                     : s->deaths > 0                                                ? SUSPECT
                                                                                    : QUEUED;
        if (n->mapped.replied[v->slot[i]] == v->ticket[i])
            p = FINISHED;
        v->progress[i] = (uint8_t)p;
        v->in_flight = (uint8_t)(v->in_flight + (p == IN_FLIGHT));
    }
}

static bool may_run_again(const run *r, const state *n, const slot *s, const model_request *q)
{
    bool once = s->deaths < 2 || is(r, MODEL_DEATHS_NOT_COUNTED);
    bool repeatable = !(q->reads & q->writes) || is(r, MODEL_ALL_RUN_AGAIN);
    bool guilty = n->cause == BY_DEADLINE ? s->ticket == n->hung
                                          : n->judge.in_flight == 1 && n->cause != BY_KILL;
    if (is(r, MODEL_DEATHS_NOT_COUNTED) && n->cause != BY_DEADLINE)
        guilty = false;
    return !guilty && once && repeatable;
}

/* standing_loss(): which request may have half-written what one reads, or writes anew. */
static uint8_t standing_loss(const run *r, const buffer *x, uint8_t ticket)
{
    uint8_t cover = is(r, MODEL_COVER_NOT_JUDGED) ? 0 : x->judged_cover;
    return x->lost < ticket && x->lost > x->good && x->lost > cover ? x->lost : 0;
}

/* dependency(): which failed request should have written what one reads, or has half done so. */
static uint8_t find_dependency(const run *r, const buffer *x, uint8_t ticket, uint8_t accepted)
{
    uint8_t before = x->poison > x->good && x->poison < ticket ? x->poison : 0;
    uint8_t failed_one = before > x->judged ? before : x->judged_bad ? x->judged : 0;
    if (failed_one > accepted)
        return failed_one;
    return is(r, MODEL_ACKED_COUNTS_LOST) ? 0 : standing_loss(r, x, ticket);
}

static void set_dependency(buffer *x, uint8_t ticket, bool failed)
{
    x->judged = ticket;
    x->judged_bad = failed;
    if (!failed)
        x->judged_cover = ticket;
}

/* Whether what a request reads has been written, or will be; notes what it will write. */
static status can_run(const run *r, state *n, slot *s, const model_request *q)
{
    const outcome *o = &n->outcomes[s->request - 1];
    if (s->refuse != OK)
        return (status)s->refuse;
    for (uint32_t b = 0; b < r->plan->buffers; b++) {
        const buffer *x = &n->buffers[b];
        uint8_t failed_one = find_dependency(r, x, s->ticket, o->accepted[b]);
        if ((q->reads >> b & 1) && failed_one != 0 && !is(r, MODEL_BLIND_REPLAY))
            return x->lost == failed_one ? LOST : DEPENDENCY;
    }
    for (uint32_t b = 0; b < r->plan->buffers; b++) {
        if (!covers(q, b))
            continue;
        if (standing_loss(r, &n->buffers[b], s->ticket) != 0 && !is(r, MODEL_LOSS_FORGOTTEN))
            s->begun = 1;
        set_dependency(&n->buffers[b], s->ticket, false);
    }
    return OK;
}

static void spoil_outputs(const run *r, state *n, const slot *s)
{
    const model_request *q = &r->plan->request[s->request - 1];
    for (uint32_t b = 0; b < r->plan->buffers; b++) {
        if (q->writes >> b & 1)
            set_dependency(&n->buffers[b], s->ticket, true);
    }
}

/* leave_refused(): the next worker refuses it in its turn. */
static void leave_refused(const run *r, state *n, uint32_t slot_index, status with)
{
    n->slots[slot_index].refuse = (uint8_t)with;
    spoil_outputs(r, n, &n->slots[slot_index]);
    n->resume[n->resume_count++] = (uint8_t)slot_index;
}

/* Whether what has failed is over at once and its outputs poisoned, without any worker. */
static bool fails_at_once(const run *r, const state *n, status with)
{
    bool second = n->judge.in_second;
    return (is(r, MODEL_POISONED_EARLY) && (with == FAULT || !second)) ||
           (is(r, MODEL_SECOND_PASS_FAILS) && with != FAULT && second);
}

static void begin_fail(const run *r, state *n, const slot *s, status with)
{
    if (fails_at_once(r, n, with))
        spoil_outputs(r, n, s);
    n->threads[SUPERVISOR].failure = (uint8_t)with;
    n->threads[SUPERVISOR].place = J_FAIL;
}

/* judge() of entry v->i. */
static void judge_entry(const run *r, state *n, progress p)
{
    supervisor *v = &n->judge;
    slot *s = &n->slots[v->slot[v->i]];
    const model_request *q = &r->plan->request[s->request - 1];
    status cannot;
    if ((s->retired_early & UNPASSED) || (s->cancelled && p != IN_FLIGHT)) {
        leave_refused(r, n, v->slot[v->i++], CANCELLED);
        return;
    }
    if (p == IN_FLIGHT) {
        s->deaths++;
        s->begun = 1;
        s->cancelled = 0;
    }
    if (p == IN_FLIGHT && !may_run_again(r, n, s, q))
        begin_fail(r, n, s, FAULT);
    else if ((cannot = can_run(r, n, s, q)) == OK)
        n->resume[n->resume_count++] = v->slot[v->i++];
    else if (fails_at_once(r, n, cannot))
        begin_fail(r, n, s, cannot);
    else
        leave_refused(r, n, v->slot[v->i++], cannot);
}

/* judge_those(), three times: up to the first entry that somebody else may see being ended. */
static void step_judge(const run *r, const state *now, explorer *e)
{
    state n = *now;
    supervisor *v = &n.judge;
    thread *t = &n.threads[SUPERVISOR];
    while (t->place == J_JUDGE && v->pass < 3) {
        if (v->i == v->count) {
            if (v->pass == 1 && !v->in_second)
                n.resume_alone = is(r, MODEL_NOT_ALONE) ? 0 : n.resume_count;
            v->i = 0;
            v->pass++;
            continue;
        }
        progress p = (progress)v->progress[v->i];
        bool now_its_turn = v->pass == 0   ? p == FINISHED
                            : v->pass == 1 ? p == SUSPECT || p == IN_FLIGHT
                                           : p == QUEUED;
        if (!now_its_turn)
            v->i++;
        else if (p == FINISHED)
            t->place = J_FINISH;
        else
            judge_entry(r, &n, p);
    }
    if (t->place == J_JUDGE) {
        t->place = v->in_second ? V_MAP : V_END;
        v->pass = 0;
        if (v->in_second) {
            n.resume_start = v->end;
            n.judging = 0;
        }
    }
    offer(e, &n, "supervisor: judges, pass %d", now->judge.pass, 0);
}

/* finish() and fail(): until the request is not pending any more. */
static void step_end_judged(const run *r, const state *now, explorer *e)
{
    state n = *now;
    supervisor *v = &n.judge;
    thread *t = &n.threads[SUPERVISOR];
    const slot *s = &n.slots[v->slot[v->i]];
    bool same = s->ticket == v->ticket[v->i];
    bool failed = t->place == J_FAIL;
    status with = failed ? (status)t->failure : OK;
    if (s->phase == RETIRING)
        return;
    if (same && (s->retired_early & PASSING) && !is(r, MODEL_PASSING_NOT_AWAITED))
        return;
    if (same && s->phase == PENDING) {
        if (failed && !fails_at_once(r, &n, with))
            model_begin_retire_early(t, v->slot[v->i], s, with, J_FAIL);
        else
            model_begin_retire(t, v->slot[v->i], s, with, (place)t->place);
        offer(e, &n, "supervisor: ends ticket %d with status %d", s->ticket, t->failure);
        return;
    }
    if (same && (s->retired_early & UNPASSED) && !failed) {
        model_pass(r, &n, t, v->slot[v->i], J_FINISH);
        offer(e, &n, "supervisor: ticket %d was passed", v->ticket[v->i], 0);
        return;
    }
    if (failed && !fails_at_once(r, &n, with) && !is(r, MODEL_FAILED_NOT_LISTED))
        leave_refused(r, &n, v->slot[v->i], CANCELLED);
    v->i++;
    *t = (thread){.place = J_JUDGE};
    offer(e, &n, "supervisor: ticket %d has ended", now->judge.ticket[now->judge.i], 0);
}

/* go_on_or_down(). */
static void step_successor(const run *r, const state *now, explorer *e)
{
    state n = *now;
    thread *t = &n.threads[SUPERVISOR];
    bool early = is(r, MODEL_PROMOTED_BEFORE_MAPPED);
    switch (t->place) {
    case V_MAP:
        memset(&n.judge, 0, sizeof n.judge);
        n.cause = n.hung = 0;
        for (uint32_t b = 0; b < MODEL_BUFFERS; b++)
            set_dependency(&n.buffers[b], 0, false);
        if (n.restarts == r->plan->budget) {
            t->place = is(r, MODEL_DOWN_AFTER_FAILING) ? V_FAIL : V_DOWN;
            offer(e, &n, "supervisor: the budget is spent", 0, 0);
            break;
        }
        n.restarts++;
        n.worker.place = K_START;
        if (early) {
            n.promoted = 1;
        } else {
            memset(&n.mapped, 0, sizeof n.mapped);
            n.attached = 1;
        }
        t->place = V_PROMOTE;
        offer(e, &n, "supervisor: maps the reply block of worker %d", n.restarts + 1, 0);
        break;
    default: /* V_PROMOTE */
        if (early && n.worker.place != K_NONE) {
            n.mapped = n.own;
            n.attached = 1;
        }
        n.promoted = n.worker.place != K_NONE;
        n.device = READY;
        t->place = V_IDLE;
        offer(e, &n, "supervisor: promotes worker %d", n.restarts + 1, 0);
        break;
    }
}

/* trp__go_down() and trp__fail_all(). */
static void step_down(const run *r, const state *now, explorer *e)
{
    state n = *now;
    supervisor *v = &n.judge;
    thread *t = &n.threads[SUPERVISOR];
    bool late = is(r, MODEL_DOWN_AFTER_FAILING);
    if (t->place == V_DOWN) {
        n.device = DOWN;
        t->place = late ? V_OVER : V_FAIL;
        offer(e, &n, "supervisor: the device is down", 0, 0);
        return;
    }
    if (v->i == r->plan->slots) {
        v->i = 0;
        *t = (thread){.place = late ? V_DOWN : V_OVER};
        offer(e, &n, "supervisor: all has ended", 0, 0);
        return;
    }
    const slot *s = &n.slots[v->i];
    if (s->phase == RETIRING)
        return;
    if (s->phase == PENDING) {
        model_begin_retire(t, v->i, s, model_is_over(&n, s) ? OK : DEVICE_DOWN, V_FAIL);
        offer(e, &n, "supervisor: ends slot %d", v->i, 0);
        return;
    }
    if (s->retired_early & PASSING)
        return;
    if (s->retired_early & UNPASSED) {
        model_pass(r, &n, t, v->i, V_FAIL);
        offer(e, &n, "supervisor: no worker will pass slot %d", v->i, 0);
        return;
    }
    v->i++;
    offer(e, &n, "supervisor: slot %d is not pending", now->judge.i, 0);
}

/* trp__recover(). */
static void step_recover(const run *r, const state *now, explorer *e)
{
    state n = *now;
    supervisor *v = &n.judge;
    thread *t = &n.threads[SUPERVISOR];
    switch (t->place) {
    case V_IDLE:
        if (n.worker.place != K_NONE || n.device != READY || n.judging)
            return;
        n.device = RECOVERING;
        n.judging = SUPERVISOR + 1;
        n.resume_count = n.resume_alone = 0;
        memset(n.resume, 0, sizeof n.resume);
        v->middle = v->end = n.next_ticket;
        t->place = J_COLLECT;
        offer(e, &n, "supervisor: the worker is dead; judges tickets below %d", v->end, 0);
        break;
    case J_COLLECT:
        if (!published(&n, v->end) && !is(r, MODEL_NO_AWAIT_PUBLICATION))
            return;
        for (uint32_t i = 0; i < r->plan->slots; i++) {
            if (n.slots[i].phase == RETIRING || (n.slots[i].retired_early & PASSING))
                return;
        }
        collect(r, &n);
        find_progress(&n);
        v->i = v->pass = 0;
        t->place = J_JUDGE;
        offer(e, &n, "supervisor: finds %d pending requests, %d in flight", v->count, v->in_flight);
        break;
    default: /* V_END */
        v->begin = v->middle;
        v->end = n.next_ticket;
        v->in_second = 1;
        v->i = 0;
        t->place = J_COLLECT;
        if (is(r, MODEL_NO_SECOND_PASS_LOST) || is(r, MODEL_NO_SECOND_PASS_UNJUDGED)) {
            n.resume_start = is(r, MODEL_NO_SECOND_PASS_LOST) ? v->end : v->middle;
            t->place = V_MAP;
            n.judging = 0;
        }
        offer(e, &n, "supervisor: and those below %d", v->end, 0);
        break;
    }
}

void model_step_supervisor(const run *r, const state *now, explorer *e)
{
    switch (now->threads[SUPERVISOR].place) {
    case V_IDLE:
    case J_COLLECT:
    case V_END:
        step_recover(r, now, e);
        break;
    case J_JUDGE:
        step_judge(r, now, e);
        break;
    case J_FINISH:
    case J_FAIL:
        step_end_judged(r, now, e);
        break;
    case V_MAP:
    case V_PROMOTE:
        step_successor(r, now, e);
        break;
    case V_DOWN:
    case V_FAIL:
        step_down(r, now, e);
        break;
    case V_OVER:
        break;
    default:
        model_step_retire(r, now, e, SUPERVISOR);
        break;
    }
}

/* Ending a request: retire.c. See README.md. SPDX-License-Identifier: Apache-2.0 */
#include "model/state.h"

/* Begins trp__retire() of the slot as the thread saw it. */
void model_begin_retire(thread *t, uint32_t slot_index, const slot *seen, status failure,
                        place back)
{
    t->slot = (uint8_t)slot_index;
    t->generation = seen->generation;
    t->wanted = seen->wanted;
    t->failure = (uint8_t)failure;
    t->early = 0;
    t->back = (uint8_t)back;
    t->ended = 0;
    t->place = R_SWAP;
}

/* The same for trp__retire_early(). */
void model_begin_retire_early(thread *t, uint32_t slot_index, const slot *seen, status failure,
                              place back)
{
    model_begin_retire(t, slot_index, seen, failure, back);
    t->early = 1;
}

static void free_slot(const run *r, slot *s)
{
    *s = (slot){.phase = FREE,
                .generation = (uint8_t)(s->generation + !is(r, MODEL_GENERATION_NOT_RAISED)),
                .record_ticket = s->record_ticket};
}

/* One of the two for which a slot that is retired early waits has come; the last one frees it, in
 * the same step: until it is free, others can't tell. */
static void leave_retired_early(const run *r, state *n, thread *t, uint8_t flag)
{
    slot *s = &n->slots[t->slot];
    s->retired_early = (uint8_t)(s->retired_early & ~flag);
    if (s->retired_early == 0 || is(r, MODEL_RETIRED_EARLY_FREED))
        free_slot(r, s);
    t->ended = 1;
    t->place = t->back;
}

/* trp__slot_taken(): the thread owns a slot of which nobody wants anything any more. */
void model_taken(const run *r, state *n, thread *t)
{
    if (n->slots[t->slot].retired_early)
        leave_retired_early(r, n, t, UNTAKEN);
    else
        t->place = has_mailbox(r) ? R_CLEAR : R_FREE;
}

/* The last request before a reader that writes what it reads; NULL: none. */
static const outcome *last_writer(const run *r, const state *n, uint32_t b, uint8_t ticket)
{
    const outcome *last = NULL;
    for (uint32_t i = 0; i < r->plan->requests; i++) {
        const outcome *w = &n->outcomes[i];
        if ((r->plan->request[i].writes >> b & 1) && w->ticket != 0 && w->ticket < ticket &&
            (!last || w->ticket > last->ticket))
            last = w;
    }
    return last;
}

/* What a request reads should have been written by the last before it that writes there; if that
 * one has failed, its sender knew. */
static void check_inputs(const run *r, state *n, uint32_t reader)
{
    const outcome *o = &n->outcomes[reader];
    for (uint32_t b = 0; b < r->plan->buffers; b++) {
        if (!(r->plan->request[reader].reads >> b & 1))
            continue;
        const outcome *last = last_writer(r, n, b, o->ticket);
        if (last && last->ends && !last->well && !(o->knew >> (last - n->outcomes) & 1))
            breaks(n, ENDED_SPOILED);
    }
}

/* And one that was refused had a reason: not all of what it reads was written well. Of a writer
 * that another thread sends at the same time, its sender may not have known. */
static void check_refusal(const run *r, state *n, uint32_t reader)
{
    const outcome *o = &n->outcomes[reader];
    const model_request *q = &r->plan->request[reader];
    for (uint32_t b = 0; b < r->plan->buffers; b++) {
        const outcome *last = q->reads >> b & 1 ? last_writer(r, n, b, o->ticket) : NULL;
        if (last && (!last->well || r->plan->request[last - n->outcomes].sender != q->sender))
            return;
    }
    breaks(n, REFUSED_GOOD);
}

/* The request that fills a slot has ended; whether that is right. */
static void check_end(const run *r, state *n, const slot *s, uint8_t with)
{
    if (s->request == 0) {
        breaks(n, ENDED_NOBODY);
        return;
    }
    outcome *o = &n->outcomes[s->request - 1];
    const model_request *q = &r->plan->request[s->request - 1];
    if (o->ends++ > 0)
        breaks(n, ENDED_TWICE);
    if (with == OK && !o->done)
        breaks(n, ENDED_UNDONE);
    if (with == OK && o->misread)
        breaks(n, ENDED_MISREAD);
    if (with == CANCELLED && o->runs > 0)
        breaks(n, CANCELLED_BEGUN);
    if (with != OK && q->must_succeed)
        breaks(n, MUST_SUCCEED);
    o->well = with == OK;
    o->refused = with == LOST || with == DEPENDENCY;
    for (uint32_t i = 0; i < r->plan->requests; i++) {
        if (n->outcomes[i].well)
            check_inputs(r, n, i);
        if (n->outcomes[i].refused)
            check_refusal(r, n, i);
    }
    o->runs = o->done = o->misread = 0; /* to run now is an error whatever it was */
}

static void settle_outputs(const run *r, state *n, const slot *s, uint8_t with, bool early)
{
    if (s->request == 0)
        return;
    const model_request *q = &r->plan->request[s->request - 1];
    bool failed = with != OK;
    bool halfway = failed && with != CANCELLED && (s->begun || (with == FAULT && !early));
    for (uint32_t b = 0; b < r->plan->buffers; b++) {
        buffer *x = &n->buffers[b];
        if (!(q->writes >> b & 1))
            continue;
        if (halfway)
            raise_to(&x->lost, s->ticket);
        else if (!failed && covers(q, b))
            raise_to(&x->good, s->ticket);
    }
    if (failed && !early)
        model_raise_outputs(r, n, s->request - 1U, s->ticket, false);
}

static void retiring(const run *r, state *n, thread *t)
{
    slot *s = &n->slots[t->slot];
    s->phase = RETIRING;
    if (t->failure == OK && n->mapped.replied[t->slot] == s->ticket)
        t->failure = n->mapped.said[t->slot];
    check_end(r, n, s, t->failure);
    if (t->early)
        s->retired_early = UNPASSED | UNTAKEN; /* nobody looks before it is told */
    const model_request *q = s->request != 0 ? &r->plan->request[s->request - 1] : NULL;
    t->place = q && q->delivers ? R_COPY : q && q->writes ? R_SETTLE : R_REPORT;
    if (t->place == R_COPY && is(r, MODEL_DELIVERY_COUNTED_EARLY))
        n->outcomes[s->request - 1].counted = 0;
}

/* copy_small_read() and trp__delivery_end(): between the two nobody could tell. */
static void copy_result(const run *r, state *n, thread *t, const slot *s)
{
    outcome *o = &n->outcomes[s->request - 1];
    o->delivered = t->failure == OK;
    o->counted = 0;
    t->place = r->plan->request[s->request - 1].writes ? R_SETTLE : R_REPORT;
}

/* trp__retired_early_pass() of a slot that was passed. It is one step if there is nothing to
 * poison, or if the plan is not about that. */
void model_pass(const run *r, state *n, thread *t, uint32_t slot_index, place back)
{
    slot *s = &n->slots[slot_index];
    bool writes = s->request != 0 && r->plan->request[s->request - 1].writes != 0;
    t->slot = (uint8_t)slot_index;
    t->back = (uint8_t)back;
    s->retired_early = (uint8_t)((s->retired_early & ~UNPASSED) | PASSING);
    if (writes && r->plan->slow_passing) {
        t->place = D_POISON;
        return;
    }
    if (writes)
        model_raise_outputs(r, n, s->request - 1U, s->ticket, false);
    leave_retired_early(r, n, t, PASSING);
}

static void step_pass(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    slot *s = &n.slots[t->slot];
    if (t->place == D_POISON) {
        model_raise_outputs(r, &n, s->request - 1U, s->ticket, false);
        t->place = D_PASSED;
        offer(e, &n, "thread %d: the outputs of slot %d are poisoned", (int)index, t->slot);
    } else {
        leave_retired_early(r, &n, t, PASSING);
        model_go_on(r, &n, index);
        offer(e, &n, "thread %d: slot %d is no longer retired early", (int)index,
              now->threads[index].slot);
    }
}

void model_step_retire(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    slot *s = &n.slots[t->slot];
    switch (t->place) {
    case R_SWAP:
        if (s->phase != PENDING || s->generation != t->generation || s->wanted != t->wanted) {
            t->place = t->back;
            model_go_on(r, &n, index);
            offer(e, &n, "thread %d: slot %d is not pending any more", (int)index,
                  now->threads[index].slot);
        } else if (is(r, MODEL_RETIRE_WITHOUT_SWAP)) {
            t->place = R_STORE;
            offer(e, &n, "thread %d: slot %d is pending", (int)index, t->slot);
        } else {
            retiring(r, &n, t);
            offer(e, &n, "thread %d: slot %d goes from PENDING to RETIRING", (int)index, t->slot);
        }
        break;
    case R_STORE:
        retiring(r, &n, t);
        offer(e, &n, "thread %d: slot %d is set to RETIRING", (int)index, t->slot);
        break;
    case R_COPY:
        copy_result(r, &n, t, s);
        offer(e, &n, "thread %d: the result of slot %d is delivered, or there is none", (int)index,
              t->slot);
        break;
    case R_SETTLE:
        settle_outputs(r, &n, s, t->failure, t->early);
        t->place = R_REPORT;
        offer(e, &n, "thread %d: the outputs of slot %d are settled", (int)index, t->slot);
        break;
    case R_REPORT:
        t->ended = 1;
        s->phase = s->wanted ? DONE : FILLING;
        if (s->wanted)
            t->place = t->back;
        else
            model_taken(r, &n, t);
        model_go_on(r, &n, index);
        offer(e, &n, "thread %d: slot %d is done, or nobody's", (int)index,
              now->threads[index].slot);
        break;
    case D_POISON:
    case D_PASSED:
        step_pass(r, now, e, index);
        break;
    case R_CLEAR: /* only a sweeper could tell */
        s->ticket = 0;
        t->place = R_FREE;
        offer(e, &n, "thread %d: slot %d loses its ticket", (int)index, t->slot);
        break;
    default: /* R_FREE */
        free_slot(r, s);
        t->place = t->back;
        t->ended = 1;
        model_go_on(r, &n, index);
        offer(e, &n, "thread %d: slot %d is free", (int)index, now->threads[index].slot);
        break;
    }
}

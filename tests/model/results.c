/* Looking for results before an end, deliver.c; and a thread that sweeps, trp__sweep(). See
 * README.md. SPDX-License-Identifier: Apache-2.0 */
#include "model/state.h"

static void look_on(thread *t, place next)
{
    *t = (thread){.place = (uint8_t)next,
                  .request = t->request,
                  .second = t->second,
                  .actor = t->actor,
                  .position = t->position,
                  .limit = t->limit};
}

/* The loop over actors in trp__deliver_before(). */
static void look_at_actor(const run *r, const state *n, thread *t)
{
    const mailbox *m = &n->mailboxes[t->actor];
    bool counted = false;
    for (uint32_t i = 0; i < r->plan->requests; i++)
        counted = counted || (n->outcomes[i].counted && r->plan->request[i].actor == t->actor);
    t->position = t->limit = 0;
    if (counted) {
        t->position = m->head;
        t->limit = m->tail;
        look_on(t, L_CELL);
    } else if (++t->actor == r->plan->actors) {
        t->actor = 0;
        look_on(t, S_READY);
    }
}

/* The loop over places in deliver(). */
static void look_at_place(const run *r, const state *n, thread *t)
{
    const cell *c = &n->mailboxes[t->actor].place[t->position % places(r)];
    bool later = c->ticket >= n->outcomes[t->request].ticket;
    bool last = (c->ticket == 0 && is(r, MODEL_DELIVERY_STOPS_AT_GAP)) ||
                (later && is(r, MODEL_DELIVERY_STOPS_AT_LATER));
    if (t->position == t->limit || last) {
        t->position = t->limit = 0;
        t->place = ++t->actor == r->plan->actors ? S_READY : L_ACTOR;
        t->actor = t->place == S_READY ? 0 : t->actor;
    } else if (c->ticket == 0 || later) {
        t->position++;
    } else {
        t->slot = c->slot;
        t->ticket = c->ticket;
        t->place = L_LOOK;
    }
}

/* deliver_one(). False: another thread is ending the request, which is waited for. */
static bool look_at_earlier(const run *r, const state *n, thread *t)
{
    const slot *s = &n->slots[t->slot];
    bool same = s->ticket == t->ticket;
    if (same && s->phase == RETIRING && !is(r, MODEL_DELIVERY_NOT_AWAITED))
        return false;
    if (same && s->phase == PENDING && model_is_over(n, s)) {
        model_begin_retire(t, t->slot, s, OK, L_LOOK);
    } else {
        t->position++;
        look_on(t, L_CELL);
    }
    return true;
}

static void step_look(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    const place at = (place)t->place;
    if (at == L_ACTOR)
        look_at_actor(r, &n, t);
    else if (at == L_CELL)
        look_at_place(r, &n, t);
    else if (!look_at_earlier(r, &n, t))
        return;
    offer(e, &n,
          at == L_ACTOR  ? "thread %d: looks whether actor %d owes results"
          : at == L_CELL ? "thread %d: looks at place %d of the mailbox"
                         : "thread %d: looks whether slot %d is over",
          (int)index,
          at == L_ACTOR  ? now->threads[index].actor
          : at == L_CELL ? now->threads[index].position
                         : now->threads[index].slot);
}

static void step_await(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    const outcome *o = &n.outcomes[t->request];
    const bool looked = t->place == S_READY || !delivers(r) || is(r, MODEL_DELIVERY_FORGOTTEN);
    if (o->future_slot == ALL_LOST) {
        model_next_request(r, t, index, t->request + 1U);
        offer(e, &n, "thread %d: request %d was refused", (int)index, now->threads[index].request);
        return;
    }
    slot *s = &n.slots[o->future_slot];
    if (s->generation != o->future_generation || !s->wanted) {
        breaks(&n, STALE);
        offer(e, &n, "thread %d: the future of request %d is stale", (int)index, t->request);
    } else if (!looked && (s->phase == DONE || (s->phase == PENDING && model_is_over(&n, s)))) {
        look_on(t, L_ACTOR);
        offer(e, &n, "thread %d: looks for results before request %d", (int)index, t->request);
    } else if (s->phase == DONE) {
        model_take_end(r, &n, t, index);
        offer(e, &n, "thread %d: takes the end of request %d", (int)index,
              now->threads[index].request);
    } else if (s->phase == PENDING && model_is_over(&n, s)) {
        model_begin_retire(t, o->future_slot, s, OK, S_AWAIT);
        offer(e, &n, "thread %d: sees that request %d is over", (int)index, t->request);
    } else if (s->phase == PENDING && model_in_doubt(&n, o->future_slot)) {
        n.judging = (uint8_t)(index + 1);
        t->in_doubt = 1;
        model_begin_retire_early(t, o->future_slot, s, CANCELLED, C_UNLOCK);
        offer(e, &n, "thread %d: sees that request %d was cancelled", (int)index, t->request);
    } else if (t->place == S_READY) {
        look_on(t, S_AWAIT);
        offer(e, &n, "thread %d: looks again at request %d", (int)index, t->request);
    }
}

/* trp_cancel(). What is over is left to who awaits it. */
static void step_cancel(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    const outcome *o = &n.outcomes[t->request];
    bool first = is(r, MODEL_CANCEL_LOOKS_FIRST);
    slot *s = &n.slots[o->future_slot];
    switch (t->place) {
    case C_LOCK:
        if (s->phase != PENDING || model_is_over(&n, s)) {
            model_after_cancelling(r, t, index);
        } else if (n.judging) {
            return;
        } else {
            n.judging = (uint8_t)(index + 1);
            t->place = s->deaths > 0 ? C_UNLOCK : first ? C_LOOK : C_MARK;
        }
        offer(e, &n, "thread %d: shall cancel request %d", (int)index, now->threads[index].request);
        break;
    case C_MARK:
        s->cancelled = 1;
        t->place = !first ? C_LOOK : C_UNLOCK;
        if (first && t->lost)
            model_begin_retire_early(t, o->future_slot, s, CANCELLED, C_UNLOCK);
        offer(e, &n, "thread %d: marks request %d as cancelled", (int)index, t->request);
        break;
    case C_LOOK: /* the slot is this request's as long as its future is */
        if (first) {
            t->lost = n.mapped.issued[s->actor] < s->ticket;
            t->place = C_MARK;
        } else if (n.mapped.issued[s->actor] < s->ticket) {
            model_begin_retire_early(t, o->future_slot, s, CANCELLED, C_UNLOCK);
        } else {
            t->place = C_UNLOCK;
        }
        offer(e, &n, "thread %d: looks whether request %d is issued", (int)index, t->request);
        break;
    default: /* C_UNLOCK */
        n.judging = 0;
        if (t->in_doubt)
            *t = (thread){.place = S_AWAIT, .request = t->request, .second = t->second};
        else
            model_after_cancelling(r, t, index);
        offer(e, &n, "thread %d: has cancelled request %d, or tried to", (int)index,
              now->threads[index].request);
        break;
    }
}

/* trp_future_drop(), the second time on a future that is stale. */
static void step_drop(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    const outcome *o = &n.outcomes[t->request];
    slot *s = &n.slots[o->future_slot == ALL_LOST ? 0 : o->future_slot];
    bool valid = o->future_slot != ALL_LOST && s->generation == o->future_generation && s->wanted;
    if (valid && s->phase == DONE) {
        s->phase = FILLING;
        t->slot = o->future_slot;
        t->back = S_TAKEN;
        model_taken(r, &n, t);
        model_go_on(r, &n, index);
    } else {
        if (valid)
            s->wanted = 0;
        model_next_request(r, t, index, t->request + 1U);
    }
    offer(e, &n, "thread %d: drops the future of request %d", (int)index,
          now->threads[index].request);
}

void model_step_sender(const run *r, const state *now, explorer *e, uint32_t index)
{
    const thread *t = &now->threads[index];
    if (t->unseen_ring)
        model_step_unseen_ring(now, e, index);
    switch (t->place) {
    case S_BEGIN:
        model_step_begin(r, now, e, index);
        break;
    case S_PACK:
        model_step_pack(r, now, e, index);
        break;
    case S_RESERVE:
    case S_TICKET:
    case S_LOOK:
    case S_COVER:
        model_step_ticket(r, now, e, index);
        break;
    case S_PENDING:
    case S_MAILBOX:
    case S_RING:
    case S_LATE:
        model_step_publish(r, now, e, index);
        break;
    case S_BELL:
    case S_RAISE:
    case S_WAKE:
        model_step_bell(r, now, e, index);
        break;
    case S_SENT:
        model_step_sent(r, now, e, index);
        break;
    case S_AWAIT:
    case S_READY:
        step_await(r, now, e, index);
        break;
    case L_ACTOR:
    case L_CELL:
    case L_LOOK:
        step_look(r, now, e, index);
        break;
    case S_DROP:
        step_drop(r, now, e, index);
        break;
    case C_LOCK:
    case C_MARK:
    case C_LOOK:
    case C_UNLOCK:
        step_cancel(r, now, e, index);
        break;
    case S_END:
        break;
    default:
        model_step_retire(r, now, e, index);
        break;
    }
}

static void start_sweep(const run *r, const state *now, explorer *e)
{
    for (uint32_t a = 0; a < r->plan->actors; a++) {
        const mailbox *m = &now->mailboxes[a];
        if (m->sweeping || m->place[m->head % places(r)].ticket == 0)
            continue;
        state n = *now;
        n.mailboxes[a].sweeping = 1;
        n.threads[SWEEPER].actor = (uint8_t)a;
        n.threads[SWEEPER].place = Z_CELL;
        offer(e, &n, "sweeper: begins with actor %d", (int)a, 0);
    }
}

/* trp__retired_early_over() of a slot that is retired early. */
static bool was_passed(const state *s, const slot *x)
{
    return model_is_over(s, x) || s->device == DOWN;
}

/* Somebody who waits for the device to be idle: trp_device_drain(). It stands for sweepers in plans
 * that have none, as far as these pass what is retired early. */
static void start_drain(const run *r, const state *now, explorer *e)
{
    for (uint32_t i = 0; i < r->plan->slots; i++) {
        const slot *s = &now->slots[i];
        if (s->phase == RETIRING || !(s->retired_early & UNPASSED) || !was_passed(now, s))
            continue;
        state n = *now;
        model_pass(r, &n, &n.threads[SWEEPER], i, Z_IDLE);
        model_go_on(r, &n, SWEEPER);
        offer(e, &n, "drain: sees that slot %d was passed", (int)i, 0);
    }
}

static void sweep_look(const run *r, state *n, thread *t)
{
    slot *s = &n->slots[t->slot];
    place clear = is(r, MODEL_PLACE_FREED_EARLY) ? Z_HEAD : Z_CLEAR;
    if (s->ticket != t->ticket) {
        t->place = (uint8_t)clear;
    } else if (t->phase == RETIRING) {
        t->place = Z_LEAVE;
    } else if (t->phase == PENDING && model_is_over(n, s)) {
        const slot seen = {.generation = t->generation, .wanted = t->wanted};
        model_begin_retire(t, t->slot, &seen, OK, Z_ENDED);
    } else if (t->phase == PENDING) {
        t->place = (uint8_t)(is(r, MODEL_SWEEP_SKIPS_UNFINISHED) ? clear : Z_LEAVE);
    } else if (s->retired_early & UNPASSED) {
        t->place = Z_LEAVE;
        if (was_passed(n, s))
            model_pass(r, n, t, t->slot, Z_ENDED);
    } else {
        t->place = (uint8_t)clear;
    }
}

void model_step_sweeper(const run *r, const state *now, explorer *e)
{
    state n = *now;
    thread *t = &n.threads[SWEEPER];
    mailbox *m = &n.mailboxes[t->actor];
    bool early = is(r, MODEL_PLACE_FREED_EARLY);
    const cell *c = &m->place[m->head % places(r)];
    switch (t->place) {
    case Z_IDLE:
        if (r->plan->sweeper)
            start_sweep(r, now, e);
        else
            start_drain(r, now, e);
        return;
    case Z_CELL:
        t->slot = c->slot;
        t->ticket = c->ticket;
        t->place = c->ticket ? Z_STATE : Z_LEAVE;
        offer(e, &n, "sweeper: finds ticket %d in slot %d", t->ticket, t->slot);
        return;
    case Z_STATE:
        t->phase = n.slots[t->slot].phase;
        t->generation = n.slots[t->slot].generation;
        t->wanted = n.slots[t->slot].wanted;
        t->place = Z_LOOK;
        offer(e, &n, "sweeper: reads the state of slot %d", t->slot, 0);
        return;
    case Z_LOOK:
        sweep_look(r, &n, t);
        offer(e, &n, "sweeper: looks whether ticket %d in slot %d is over",
              now->threads[SWEEPER].ticket, t->slot);
        return;
    case Z_ENDED:
        t->place = t->ended ? early ? Z_HEAD : Z_CLEAR : Z_LEAVE;
        offer(e, &n, "sweeper: has ended slot %d: %d", t->slot, t->ended);
        return;
    case Z_CLEAR:
        m->place[(m->head - early) % places(r)] = (cell){0};
        t->place = early ? Z_CELL : Z_HEAD;
        offer(e, &n, "sweeper: clears a place", 0, 0);
        return;
    case Z_HEAD:
        m->head++;
        t->place = early ? Z_CLEAR : Z_CELL;
        offer(e, &n, "sweeper: moves the head to %d", m->head, 0);
        return;
    case Z_LEAVE:
        m->sweeping = 0;
        *t = (thread){.place = Z_IDLE};
        offer(e, &n, "sweeper: leaves", 0, 0);
        return;
    default:
        model_step_retire(r, now, e, SWEEPER);
        return;
    }
}

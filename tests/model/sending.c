/* Sending: request.c. See README.md. SPDX-License-Identifier: Apache-2.0 */
#include "model/state.h"

static const model_request *plan_of(const run *r, const thread *t)
{
    return &r->plan->request[t->request];
}

/* The sender's next request, or what it does when all are sent. */
void model_next_request(const run *r, thread *t, uint32_t index, uint32_t from)
{
    const thread none = {0};
    uint8_t second = t->second;
    *t = none; /* what was is forgotten, so that states are the same again */
    for (; second < 2; second++, from = 0) {
        for (uint32_t i = from; i < r->plan->requests; i++) {
            const model_request *q = &r->plan->request[i];
            if (q->sender != index ||
                (second && q->end != MODEL_AWAIT_LATER && q->end != MODEL_DROP))
                continue;
            t->request = (uint8_t)i;
            t->second = second;
            t->place = !second ? S_BEGIN : q->end == MODEL_DROP ? S_DROP : S_AWAIT;
            return;
        }
    }
    t->place = S_END;
}

/* Where the sender goes on after it has sent, and cancelled. */
void model_after_cancelling(const run *r, thread *t, uint32_t index)
{
    const model_request *q = plan_of(r, t);
    *t = (thread){.request = t->request};
    if (q->end == MODEL_AWAIT)
        t->place = S_AWAIT;
    else if (q->end == MODEL_DROP)
        t->place = S_DROP;
    else
        model_next_request(r, t, index, t->request + 1U);
}

void model_after_sending(const run *r, state *n, uint32_t index)
{
    thread *t = &n->threads[index];
    const model_request *q = plan_of(r, t);
    outcome *o = &n->outcomes[t->request];
    if (q->end != MODEL_NOBODY) {
        o->future_slot = t->slot;
        o->future_generation = t->generation;
    }
    if (q->cancelled)
        *t = (thread){.request = t->request, .place = C_LOCK};
    else
        model_after_cancelling(r, t, index);
}

static place after_pack(const run *r)
{
    return has_mailbox(r) ? S_RESERVE : S_TICKET;
}

void model_step_begin(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    uint32_t free = 0;
    while (free < r->plan->slots && n.slots[free].phase != FREE)
        free++;
    if (free == r->plan->slots)
        return; /* TRP_E_BUSY, and another try */
    slot *s = &n.slots[free];
    uint8_t generation = s->generation;
    *s = (slot){.phase = FILLING, .generation = generation, .request = (uint8_t)(t->request + 1)};
    t->slot = (uint8_t)free;
    t->generation = generation;
    t->place = (uint8_t)(plan_of(r, t)->reads ? S_PACK : after_pack(r));
    offer(e, &n, "thread %d: fills slot %d", (int)index, (int)free);
}

/* Before the ticket: trp__buffer_readable() as the handles are looked up. */
void model_step_pack(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    if (model_find_unreadable(r, &n, t->request) != OK) {
        outcome *o = &n.outcomes[t->request];
        o->ends = 1; /* the call fails: nothing was sent */
        o->future_slot = ALL_LOST;
        n.slots[t->slot].phase = FREE;
        n.slots[t->slot].request = 0;
        if (plan_of(r, t)->must_succeed)
            breaks(&n, MUST_SUCCEED);
        model_next_request(r, t, index, t->request + 1U);
    } else {
        for (uint32_t b = 0; b < r->plan->buffers; b++) {
            t->cover[b] = n.buffers[b].cover;
            t->accepted[b] = n.buffers[b].accepted;
        }
        t->place = (uint8_t)after_pack(r);
    }
    offer(e, &n, "thread %d: looks whether request %d may read its inputs", (int)index,
          now->threads[index].request);
}

void model_step_ticket(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    const model_request *q = plan_of(r, t);
    slot *s = &n.slots[t->slot];
    mailbox *m = &n.mailboxes[q->actor];
    switch (t->place) {
    case S_RESERVE:
        if ((uint32_t)(m->tail - m->head) >= places(r))
            return;
        t->position = m->tail++;
        t->place = S_TICKET;
        offer(e, &n, "thread %d: takes place %d of the mailbox", (int)index, t->position);
        break;
    case S_TICKET:
        t->ticket = n.next_ticket++;
        s->ticket = t->ticket;
        s->actor = q->actor;
        n.outcomes[t->request].ticket = t->ticket;
        n.outcomes[t->request].counted = q->delivers;
        if (is(r, MODEL_LOOK_BEFORE_TICKET))
            model_note_accepted(r, &n, t);
        t->place = q->reads && !is(r, MODEL_LOOK_BEFORE_TICKET) ? S_LOOK
                   : q->writes & ~q->reads                      ? S_COVER
                                                                : S_PENDING;
        offer(e, &n, "thread %d: takes ticket %d", (int)index, t->ticket);
        break;
    case S_LOOK:
        model_note_accepted(r, &n, t);
        t->lost = (uint8_t)model_find_unreadable_then(r, &n, t);
        t->place = !t->lost && (q->writes & ~q->reads) ? S_COVER : S_PENDING;
        offer(e, &n, "thread %d: looks again for lost inputs of ticket %d", (int)index, t->ticket);
        break;
    default: /* S_COVER */
        for (uint32_t b = 0; b < r->plan->buffers; b++) {
            if (covers(q, b))
                raise_to(&n.buffers[b].cover, t->ticket);
        }
        t->place = S_PENDING;
        offer(e, &n, "thread %d: notes what ticket %d covers", (int)index, t->ticket);
        break;
    }
}

static void set_pending(const run *r, state *n, const thread *t)
{
    slot *s = &n->slots[t->slot];
    s->phase = PENDING;
    s->wanted = plan_of(r, t)->end != MODEL_NOBODY;
}

void model_step_publish(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    slot *s = &n.slots[t->slot];
    mailbox *m = &n.mailboxes[plan_of(r, t)->actor];
    bool early = is(r, MODEL_DOORBELL_BEFORE_RING);
    bool late = is(r, MODEL_CELL_BEFORE_RECORD) || is(r, MODEL_CELL_BEFORE_PENDING);
    switch (t->place) {
    case S_PENDING:
        s->refuse = t->lost;
        if (!is(r, MODEL_CELL_BEFORE_RECORD))
            s->record_ticket = t->ticket;
        if (!is(r, MODEL_CELL_BEFORE_PENDING))
            set_pending(r, &n, t);
        t->place = has_mailbox(r) ? S_MAILBOX : early ? S_BELL : S_RING;
        offer(e, &n, "thread %d: slot %d is PENDING", (int)index, t->slot);
        break;
    case S_MAILBOX:
        m->place[t->position % places(r)] = (cell){.ticket = t->ticket, .slot = t->slot};
        t->place = early ? S_BELL : S_RING;
        offer(e, &n, "thread %d: puts ticket %d into the mailbox", (int)index, t->ticket);
        break;
    case S_RING:
        if (is(r, MODEL_RING_NOT_FENCED))
            t->unseen_ring = t->ticket;
        else
            n.ring[t->ticket % RING] = (cell){.ticket = t->ticket, .slot = t->slot};
        t->place = late ? S_LATE : early ? S_SENT : S_BELL;
        offer(e, &n, "thread %d: puts ticket %d into the ring", (int)index, t->ticket);
        break;
    default: /* S_LATE */
        if (is(r, MODEL_CELL_BEFORE_PENDING))
            set_pending(r, &n, t);
        else
            s->record_ticket = t->ticket;
        t->place = S_BELL;
        offer(e, &n, "thread %d: finishes slot %d", (int)index, t->slot);
        break;
    }
}

void model_step_bell(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    place after = is(r, MODEL_DOORBELL_BEFORE_RING) ? S_RING : S_SENT;
    switch (t->place) {
    case S_BELL:
        t->place = (uint8_t)(n.mapped.sleeping ? S_RAISE : after);
        offer(e, &n, "thread %d: sees sleeping = %d", (int)index, n.mapped.sleeping);
        break;
    case S_RAISE:
        /* Whether it has changed matters only to a worker that has read it and not slept yet. */
        n.doorbell = !is(r, MODEL_DOORBELL_NOT_RAISED) && n.worker.place >= K_SAY &&
                     n.worker.place <= K_WAIT;
        t->place = S_WAKE;
        offer(e, &n, "thread %d: raises the doorbell", (int)index, 0);
        break;
    default: /* S_WAKE */
        n.worker.asleep = 0;
        t->place = (uint8_t)after;
        offer(e, &n, "thread %d: wakes who sleeps on it", (int)index, 0);
        break;
    }
}

/* The store into the ring becomes visible, later than it should. */
void model_step_unseen_ring(const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    for (uint32_t i = 0; i < MODEL_SLOTS; i++) {
        if (n.slots[i].ticket == t->unseen_ring)
            n.ring[t->unseen_ring % RING] = (cell){.ticket = t->unseen_ring, .slot = (uint8_t)i};
    }
    t->unseen_ring = 0;
    offer(e, &n, "thread %d: its cell becomes visible", (int)index, 0);
}

/* trp__slot_published(). */
void model_step_sent(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    const slot *s = &n.slots[t->slot];
    bool down = n.device == DOWN && !is(r, MODEL_SENDER_IGNORES_DOWN);
    if (t->unseen_ring)
        return; /* what follows is far behind it */
    if (down) {
        const slot seen = {.generation = t->generation,
                           .wanted = plan_of(r, t)->end != MODEL_NOBODY};
        model_begin_retire(t, t->slot, &seen, DEVICE_DOWN, S_AFTER);
        offer(e, &n, "thread %d: sees that the device is down, ticket %d", (int)index, s->ticket);
    } else {
        model_after_sending(r, &n, index);
        offer(e, &n, "thread %d: has sent request %d", (int)index, now->threads[index].request);
    }
}

/* Whether trp__try_finish() would end a slot now. */
bool model_is_over(const state *s, const slot *x)
{
    return x->ticket != 0 && s->mapped.timeline[x->actor] >= x->ticket;
}

/* trp__cancel_in_doubt(): the worker has answered that it found the mark; with the lock. */
bool model_in_doubt(const state *s, uint32_t slot_index)
{
    const slot *x = &s->slots[slot_index];
    return x->cancelled && !s->judging && s->mapped.replied[slot_index] == x->ticket &&
           s->mapped.said[slot_index] == CANCELLED;
}

/* Whether the end of a request says of an earlier one that its result is there: it is one of the
 * same actor, or it had to wait for that one. */
static bool stands_for(const run *r, const state *n, uint32_t later, uint32_t earlier)
{
    const model_request *q = &r->plan->request[later], *x = &r->plan->request[earlier];
    const uint8_t tickets[] = {n->outcomes[earlier].ticket, n->outcomes[later].ticket};
    return tickets[0] != 0 && tickets[0] < tickets[1] &&
           (q->actor == x->actor || (q->writes & (x->reads | x->writes)) || (q->reads & x->writes));
}

/* A request is about to be told to have ended well. */
static void check_delivered(const run *r, state *n, uint32_t request)
{
    for (uint32_t i = 0; i < r->plan->requests; i++) {
        const outcome *o = &n->outcomes[i];
        if (r->plan->request[i].delivers && (i == request || stands_for(r, n, request, i)) &&
            (!o->ends || (o->well && !o->delivered)))
            breaks(n, UNDELIVERED);
    }
}

/* take_result() of a request that is done. */
void model_take_end(const run *r, state *n, thread *t, uint32_t index)
{
    const outcome *o = &n->outcomes[t->request];
    slot *s = &n->slots[o->future_slot];
    if (s->request != t->request + 1)
        breaks(n, MISTAKEN);
    if (o->well) {
        check_delivered(r, n, t->request);
    } else { /* trp__poison_accept() */
        model_raise_outputs(r, n, t->request, o->ticket, true);
        n->outcomes[t->request].acked = 1;
    }
    s->phase = FILLING;
    t->slot = o->future_slot;
    t->back = S_TAKEN;
    model_taken(r, n, t);
    model_go_on(r, n, index);
}

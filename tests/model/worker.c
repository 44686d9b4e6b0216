/* The worker: scheduler.c. See README.md. SPDX-License-Identifier: Apache-2.0 */
#include "model/state.h"

static bool ring_has(const state *s)
{
    return s->ring[s->worker.next % RING].ticket == s->worker.next;
}

static bool anything_in_flight(const run *r, const state *s)
{
    bool any = false;
    for (uint32_t a = 0; a < r->plan->actors; a++)
        any = any || s->own.timeline[a] < s->worker.lanes[a].signalled;
    return any;
}

static bool must_stay_alone(const run *r, state *s)
{
    worker *w = &s->worker;
    bool queued = false, to_signal = false;
    if (w->together || w->resumed == 0 || w->resumed > s->resume_alone)
        return false;
    for (uint32_t a = 0; a < r->plan->actors; a++) {
        queued = queued || w->lanes[a].count > 0;
        to_signal = to_signal || w->lanes[a].unsignalled > 0;
    }
    if (is(r, MODEL_ALONE_UNTIL_ISSUED))
        return queued;
    bool busy = queued || to_signal || anything_in_flight(r, s);
    w->together = !busy && w->resumed == s->resume_alone;
    return busy;
}

static void depend(state *n, uint32_t slot_index, uint32_t self, uint32_t actor, uint8_t ticket)
{
    if (actor != self && ticket != 0 && n->own.timeline[actor] < ticket)
        raise_to(&n->worker.waits_for[slot_index][actor], ticket);
}

/* note_access() for each buffer, then to the end of the lane. */
static void take(const run *r, state *n, uint32_t slot_index)
{
    worker *w = &n->worker;
    const slot *s = &n->slots[slot_index];
    uint32_t self = s->actor;
    lane *l = &w->lanes[self];
    memset(w->waits_for[slot_index], 0, sizeof w->waits_for[slot_index]);
    w->overwrites[slot_index] = 0;
    w->moved = 1;
    if (s->request == 0 || l->count == MODEL_SLOTS) {
        breaks(n, RUN_ENDED);
        return;
    }
    const model_request *q = &r->plan->request[s->request - 1];
    for (uint32_t b = 0; b < r->plan->buffers; b++) {
        if (!((q->reads | q->writes) >> b & 1))
            continue;
        depend(n, slot_index, self, w->writer[b], w->writer_ticket[b]);
        if (!(q->writes >> b & 1)) {
            w->reader_ticket[b][self] = s->ticket;
            continue;
        }
        raise_to(&w->overwrites[slot_index], w->reader_ticket[b][self]);
        for (uint32_t a = 0; a < r->plan->actors; a++) {
            depend(n, slot_index, self, a, w->reader_ticket[b][a]);
            w->reader_ticket[b][a] = 0;
        }
        w->writer[b] = (uint8_t)self;
        w->writer_ticket[b] = s->ticket;
    }
    l->queue[l->count++] = (uint8_t)slot_index;
}

static void enqueue(state *n, uint32_t lane_index, operation kind, uint32_t actor, uint32_t value)
{
    stream *x = &n->worker.streams[lane_index];
    if (x->count == OPERATIONS) {
        breaks(n, OVERFLOW);
        return;
    }
    x->kind[x->count] = (uint8_t)kind;
    x->actor[x->count] = (uint8_t)actor;
    x->value[x->count++] = (uint8_t)value;
}

static void signal_lane(state *n, uint32_t index)
{
    lane *l = &n->worker.lanes[index];
    l->unsignalled = 0;
    l->signalled = l->issued;
    enqueue(n, index, SIGNAL, index, l->issued);
}

/* causes_issued(). */
static bool may_issue(const run *r, state *n, uint32_t slot_index)
{
    for (uint32_t a = 0; a < r->plan->actors; a++) {
        uint8_t *ticket = &n->worker.waits_for[slot_index][a];
        if (n->own.timeline[a] >= *ticket)
            *ticket = 0;
        else if (n->worker.lanes[a].issued < *ticket)
            return false;
    }
    return true;
}

/* prepare(): what goes into the stream before the work. */
static void prepare(const run *r, state *n, uint32_t lane_index, uint32_t slot_index)
{
    worker *w = &n->worker;
    if (w->overwrites[slot_index] > w->lanes[lane_index].signalled &&
        !is(r, MODEL_NO_SIGNAL_BEFORE_OVERWRITE))
        signal_lane(n, lane_index);
    for (uint32_t a = 0; a < r->plan->actors; a++) {
        uint8_t ticket = w->waits_for[slot_index][a];
        if (ticket == 0)
            continue;
        if (w->lanes[a].signalled < ticket)
            signal_lane(n, a);
        enqueue(n, lane_index, WAIT, a, ticket);
    }
}

/* may_read(): why the head of a lane must not be issued. */
static status find_refusal(const run *r, const state *n, uint32_t slot_index)
{
    const slot *s = &n->slots[slot_index];
    status found = is(r, MODEL_REFUSAL_IGNORED) ? OK : (status)s->refuse;
    if (s->request == 0 || is(r, MODEL_POISON_IGNORED))
        return found;
    for (uint32_t b = 0; b < r->plan->buffers && found == OK; b++) {
        bool halfway = n->worker.halfway[b] != 0 && !is(r, MODEL_ACKED_COUNTS_HALFWAY);
        if ((r->plan->request[s->request - 1].reads >> b & 1) &&
            (halfway || n->worker.poison[b] > n->outcomes[s->request - 1].accepted[b]))
            found = DEPENDENCY;
    }
    return found;
}

static void store_reply(state *n, uint32_t slot_index, uint8_t ticket, uint8_t said)
{
    words own = n->own;
    own.replied[slot_index] = ticket;
    own.said[slot_index] = said;
    model_set_own(n, &own);
}

static void store_issued(state *n, uint32_t lane_index, uint8_t ticket)
{
    words own = n->own;
    own.issued[lane_index] = ticket;
    model_set_own(n, &own);
}

/* The rest of a turn of trp__scheduler_run(): what was issued is signalled, unless more is to come.
 * Without anything to do the worker waits: with a time limit (K_BUSY) while something is under way,
 * else until it is woken. */
static void end_turn(const run *r, state *n)
{
    worker *w = &n->worker;
    bool silent = !ring_has(n) || must_stay_alone(r, n);
    for (uint32_t a = 0; a < r->plan->actors && silent; a++) {
        if (w->lanes[a].unsignalled > 0)
            signal_lane(n, a);
    }
    bool timed = w->polling || w->resumed < n->resume_count || anything_in_flight(r, n);
    w->place = w->moved ? K_RESUME : timed ? K_BUSY : K_SEEN;
    w->moved = w->polling = 0;
}

/* issue_some(): the first lane from w->lane on whose head can be issued. */
static void step_issue(const run *r, const state *now, explorer *e)
{
    state n = *now;
    worker *w = &n.worker;
    for (; w->lane < r->plan->actors; w->lane++) {
        lane *l = &w->lanes[w->lane];
        if (l->count == 0)
            continue;
        if (!may_issue(r, &n, l->queue[0])) {
            w->polling = 1;
            continue;
        }
        uint8_t ticket = n.slots[l->queue[0]].ticket;
        w->refusal = (uint8_t)find_refusal(r, &n, l->queue[0]);
        prepare(r, &n, w->lane, l->queue[0]);
        if (w->refusal != OK) {
            w->place = K_REFUSE;
            offer(e, &n, "worker: refuses ticket %d of actor %d", ticket, w->lane);
            return;
        }
        if (!is(r, MODEL_ISSUED_AFTER_HANDLE))
            store_issued(&n, w->lane, ticket);
        w->place = K_HANDLE;
        offer(e, &n, "worker: is about to issue ticket %d of actor %d", ticket, w->lane);
        return;
    }
    w->lane = 0;
    end_turn(r, &n);
    offer(e, &n, "worker: can issue nothing more, ends a turn", 0, 0);
}

static void check_run(const run *r, state *n, const slot *s)
{
    outcome *o = &n->outcomes[s->request - 1];
    const model_request *q = &r->plan->request[s->request - 1];
    o->runs++;
    o->done = 0;
    if (o->ends > 0 || s->refuse)
        breaks(n, RUN_ENDED);
    if (o->runs > 2)
        breaks(n, RUN_THRICE);
    if (o->runs > 1 && (q->reads & q->writes))
        breaks(n, RUN_TWICE);
}

static void leave_lane(state *n)
{
    worker *w = &n->worker;
    lane *l = &w->lanes[w->lane];
    l->issued = n->slots[l->queue[0]].ticket;
    l->unsignalled++;
    l->count--;
    memmove(l->queue, l->queue + 1, sizeof l->queue - 1);
    l->queue[MODEL_SLOTS - 1] = 0;
    w->moved = 1;
}

static void poison(const run *r, state *n, const slot *s)
{
    for (uint32_t b = 0; b < r->plan->buffers && s->request != 0; b++) {
        if (!(r->plan->request[s->request - 1].writes >> b & 1))
            continue;
        n->worker.poison[b] = s->ticket;
        if (s->begun)
            n->worker.halfway[b] = s->ticket;
    }
}

static void note_failure(const run *r, state *n, uint32_t slot_index, uint8_t said)
{
    poison(r, n, &n->slots[slot_index]);
    store_reply(n, slot_index, n->slots[slot_index].ticket, said);
}

/* Its library takes a request, or fails. */
static void hand_over(const run *r, state *n, uint32_t slot_index)
{
    const slot *s = &n->slots[slot_index];
    const model_request *q = &r->plan->request[s->request - 1];
    check_run(r, n, s);
    if (q->fails && n->outcomes[s->request - 1].runs >= q->fails) {
        note_failure(r, n, slot_index, LIBRARY);
        return;
    }
    enqueue(n, n->worker.lane, WORK, n->worker.lane, s->request - 1U);
    for (uint32_t b = 0; b < r->plan->buffers; b++) {
        if (covers(q, b))
            n->worker.poison[b] = n->worker.halfway[b] = 0;
    }
}

/* note_failure(), then the end is signalled like any other. */
static void step_refuse(const run *r, const state *now, explorer *e)
{
    state n = *now;
    worker *w = &n.worker;
    uint8_t slot_index = w->place == K_REFUSE ? w->lanes[w->lane].queue[0] : w->cell_slot;
    const slot *s = &n.slots[slot_index];
    bool late = is(r, MODEL_REPLY_AFTER_END) && w->place == K_REFUSE;
    if (late)
        poison(r, &n, s);
    else
        note_failure(r, &n, slot_index, w->refusal);
    if (w->place == K_REFUSE)
        leave_lane(&n);
    if (late)
        signal_lane(&n, w->lane);
    w->cell_slot = late ? slot_index : 0;
    w->refusal = late ? w->refusal : 0;
    w->place = late ? K_LATE_REPLY : K_ISSUE;
    offer(e, &n, "worker: says why ticket %d is refused", s->ticket, 0);
}

static void step_handle(const run *r, const state *now, explorer *e)
{
    state n = *now;
    worker *w = &n.worker;
    lane *l = &w->lanes[w->lane];
    const slot *s = &n.slots[l->queue[0]];
    if (w->place == K_LATE_ISSUED) {
        store_issued(&n, w->lane, l->issued);
        w->place = K_ISSUE;
        offer(e, &n, "worker: says that ticket %d is issued", l->issued, 0);
        return;
    }
    if (s->request == 0)
        breaks(&n, RUN_ENDED);
    else if (s->cancelled) /* begin() */
        note_failure(r, &n, l->queue[0], CANCELLED);
    else
        hand_over(r, &n, l->queue[0]);
    leave_lane(&n);
    w->place = is(r, MODEL_ISSUED_AFTER_HANDLE) ? K_LATE_ISSUED : K_ISSUE;
    offer(e, &n, "worker: issues ticket %d of actor %d", l->issued, w->lane);
}

/* take_some(). */
static void step_take(const run *r, const state *now, explorer *e)
{
    state n = *now;
    worker *w = &n.worker;
    if (w->place == K_START) {
        if (!n.promoted)
            return;
        w->next = n.resume_start;
        w->place = K_RESUME;
        offer(e, &n, "worker: begins with ticket %d", w->next, 0);
        return;
    }
    if (w->place == K_RECORD) {
        uint8_t ticket = w->next++;
        if (n.slots[w->cell_slot].record_ticket == ticket)
            take(r, &n, w->cell_slot);
        w->moved = 1;
        w->cell_slot = 0;
        w->place = K_RING;
        offer(e, &n, "worker: takes ticket %d, or passes over it", ticket, 0);
        return;
    }
    bool alone = must_stay_alone(r, &n);
    if (w->place == K_RESUME && !alone && w->resumed < n.resume_count) {
        uint8_t slot_index = n.resume[w->resumed++];
        take(r, &n, slot_index);
        offer(e, &n, "worker: takes slot %d from the list", slot_index, 0);
    } else if (!alone && w->resumed >= n.resume_count && ring_has(&n)) {
        w->cell_slot = n.ring[w->next % RING].slot;
        w->place = K_RECORD;
        offer(e, &n, "worker: finds ticket %d in the ring", w->next, 0);
    } else {
        w->place = K_ISSUE;
        step_issue(r, &n, e); /* nobody can tell what happens in between */
    }
}

/* Awake, or asleep for a moment: something has to change before it can do more. */
static void step_busy(const run *r, const state *now, explorer *e)
{
    state n = *now;
    worker *w = &n.worker;
    bool alone = must_stay_alone(r, &n);
    bool more = !alone && (w->resumed < n.resume_count || ring_has(&n));
    bool held = false;
    for (uint32_t a = 0; a < r->plan->actors; a++) {
        lane *l = &w->lanes[a];
        held = held || l->count > 0;
        more = more || (l->count > 0 && may_issue(r, &n, l->queue[0]));
    }
    if (!more && (held || w->resumed < n.resume_count || anything_in_flight(r, &n)))
        return;
    w->place = more ? K_RESUME : K_SEEN;
    offer(e, &n, "worker: sees that something has changed", 0, 0);
}

/* sleep_idle(). */
static void step_sleep(const run *r, const state *now, explorer *e)
{
    state n = *now;
    worker *w = &n.worker;
    words own = n.own;
    switch (w->place) {
    case K_SEEN:
        n.doorbell = 0; /* unchanged since it was seen */
        w->place = K_SAY;
        offer(e, &n, "worker: reads the doorbell", 0, 0);
        break;
    case K_SAY:
        own.sleeping = 1;
        if (is(r, MODEL_SLEEPING_NOT_FENCED))
            w->unseen_sleeping = 1;
        else
            model_set_own(&n, &own);
        w->place = is(r, MODEL_NO_SECOND_LOOK_AT_RING) ? K_WAIT : K_LOOK;
        offer(e, &n, "worker: says that it sleeps", 0, 0);
        break;
    case K_LOOK:
        w->place = ring_has(&n) ? K_AWAKE : K_WAIT;
        offer(e, &n, "worker: looks at the ring once more", 0, 0);
        break;
    case K_WAIT:
        w->asleep = !n.doorbell;
        n.doorbell = 0;
        w->place = w->asleep ? K_ASLEEP : K_AWAKE;
        offer(e, &n, "worker: sleeps, unless the doorbell has changed", 0, 0);
        break;
    case K_ASLEEP:
        if (w->asleep)
            return;
        w->place = K_AWAKE;
        offer(e, &n, "worker: wakes", 0, 0);
        break;
    default: /* K_AWAKE */
        own.sleeping = 0;
        model_set_own(&n, &own);
        w->unseen_sleeping = 0;
        n.doorbell = 0;
        w->place = K_RESUME;
        offer(e, &n, "worker: says that it is awake", 0, 0);
        break;
    }
}

static void step_unseen_sleeping(const state *now, explorer *e)
{
    state n = *now;
    words own = n.own;
    own.sleeping = 1;
    n.worker.unseen_sleeping = 0;
    model_set_own(&n, &own);
    offer(e, &n, "worker: its word becomes visible", 0, 0);
}

void model_step_worker(const run *r, const state *now, explorer *e)
{
    if (now->worker.unseen_sleeping)
        step_unseen_sleeping(now, e);
    switch (now->worker.place) {
    case K_NONE:
        break;
    case K_START:
    case K_RESUME:
    case K_RING:
    case K_RECORD:
        step_take(r, now, e);
        break;
    case K_ISSUE:
        step_issue(r, now, e);
        break;
    case K_HANDLE:
    case K_LATE_ISSUED:
        step_handle(r, now, e);
        break;
    case K_REFUSE:
    case K_LATE_REPLY:
        step_refuse(r, now, e);
        break;
    case K_BUSY:
        step_busy(r, now, e);
        break;
    default:
        step_sleep(r, now, e);
        break;
    }
}

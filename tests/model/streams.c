/* Death, and the device's streams. See README.md. SPDX-License-Identifier: Apache-2.0 */
#include "model/state.h"

static void die(state *n, cause why, uint8_t hung)
{
    memset(&n->worker, 0, sizeof n->worker); /* K_NONE */
    memset(&n->own, 0, sizeof n->own);
    n->doorbell = 0;
    n->attached = 0; /* the application goes on seeing what was written last */
    n->promoted = 0;
    n->cause = (uint8_t)why;
    n->hung = hung;
}

static void begin_work(const run *r, state *n, uint32_t request)
{
    outcome *o = &n->outcomes[request];
    const model_request *q = &r->plan->request[request];
    o->misread = 0;
    for (uint32_t b = 0; b < r->plan->buffers; b++) {
        const buffer *x = &n->buffers[b];
        if ((q->reads >> b & 1) && (x->half_written || x->writer > o->ticket))
            o->misread = 1;
    }
    for (uint32_t b = 0; b < r->plan->buffers; b++) {
        if (q->writes >> b & 1) {
            n->buffers[b].writer = o->ticket;
            n->buffers[b].half_written = 1;
        }
    }
}

static void end_work(const run *r, state *n, uint32_t request)
{
    outcome *o = &n->outcomes[request];
    o->done = 1;
    for (uint32_t b = 0; b < r->plan->buffers; b++) {
        if (r->plan->request[request].writes >> b & 1)
            n->buffers[b].half_written = o->misread;
    }
}

static void pop(stream *x)
{
    x->count--;
    memmove(x->kind, x->kind + 1, OPERATIONS - 1);
    memmove(x->actor, x->actor + 1, OPERATIONS - 1);
    memmove(x->value, x->value + 1, OPERATIONS - 1);
    x->kind[OPERATIONS - 1] = x->actor[OPERATIONS - 1] = x->value[OPERATIONS - 1] = 0;
}

static void finish_work(const run *r, state *n, uint32_t index)
{
    stream *x = &n->worker.streams[index];
    x->running = 0;
    end_work(r, n, x->value[0]);
    pop(x);
}

void model_step_stream(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    stream *x = &n.worker.streams[index];
    words own = n.own;
    while (x->count > 0 && x->kind[0] == WAIT && own.timeline[x->actor[0]] >= x->value[0])
        pop(x); /* others can tell only by what follows */
    uint8_t value = x->value[0];
    if (x->count == 0 || x->kind[0] == WAIT)
        return;
    switch (x->kind[0]) {
    case SIGNAL:
        own.timeline[index] = value;
        model_set_own(&n, &own);
        pop(x);
        offer(e, &n, "stream %d: writes its timeline: %d", (int)index, value);
        break;
    default: /* WORK */
        if (!x->running) {
            x->running = 1;
            begin_work(r, &n, value);
            if (r->plan->request[value].culprit)
                die(&n, BY_FAULT, 0);
            else if (r->plan->request[value].writes == 0) /* half-done is as good as not begun */
                finish_work(r, &n, index);
            offer(e, &n, "stream %d: begins request %d", (int)index, value);
        } else {
            finish_work(r, &n, index);
            offer(e, &n, "stream %d: has done request %d", (int)index, value);
        }
        break;
    }
}

/* Deaths from outside, and the supervisor's own kills for a deadline. */
void model_step_environment(const run *r, const state *now, explorer *e)
{
    if (now->worker.place == K_NONE)
        return;
    if (now->kills < r->plan->kills) {
        state n = *now;
        n.kills++;
        die(&n, BY_KILL, 0);
        explorer_offer(e, EXPLORER_ENVIRONMENT, &n, "the worker is killed", 0, 0);
    }
    if (now->hangs == r->plan->hangs || now->threads[SUPERVISOR].place != V_IDLE ||
        now->device != READY)
        return;
    for (uint32_t i = 0; i < r->plan->slots; i++) {
        const slot *s = &now->slots[i];
        if (s->phase != PENDING || now->mapped.timeline[s->actor] >= s->ticket ||
            now->mapped.issued[s->actor] < s->ticket)
            continue;
        state n = *now;
        n.hangs++;
        die(&n, BY_DEADLINE, s->ticket);
        explorer_offer(e, EXPLORER_ENVIRONMENT, &n, "ticket %d ran past its deadline", s->ticket,
                       0);
    }
}

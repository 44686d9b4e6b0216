#include "model/protocol.h"

#include <string.h>

/* Every field of the state is a byte, and unused ones are zero, so that equal states are equal
 * bytes. Tickets begin at 1; 0 is none. */

enum { RING = 2 * MODEL_SLOTS, OPERATIONS = 12, ALL_LOST = 0xff };

typedef enum phase { FREE, FILLING, PENDING, RETIRING, DONE } phase;

typedef enum status { OK, LOST, FAULT, DEPENDENCY, DEVICE_DOWN, LIBRARY, CANCELLED } status;

/* A slot whose request has failed before its turn (retired_early.c): what is still to come. */
enum { UNPASSED = 1, UNTAKEN = 2, PASSING = 4 };

typedef enum cause { BY_FAULT, BY_KILL, BY_DEADLINE } cause;

typedef enum device_state { READY, RECOVERING, DOWN } device_state;

typedef enum progress { QUEUED, SUSPECT, IN_FLIGHT, FINISHED } progress;

/* Where a thread is: sender, then ending a request (any thread), sweeper, supervisor. */
typedef enum place {
    S_BEGIN,
    S_PACK,
    S_RESERVE,
    S_TICKET,
    S_LOOK,
    S_COVER,
    S_PENDING,
    S_MAILBOX,
    S_RING,
    S_BELL,
    S_RAISE,
    S_WAKE,
    S_LATE,
    S_SENT,
    S_AFTER, /* this and S_TAKEN are passed at once: nobody else could tell */
    C_LOCK,
    C_MARK,
    C_LOOK,
    C_UNLOCK,
    S_AWAIT,
    L_ACTOR,
    L_CELL,
    L_LOOK,
    S_READY,
    S_DROP,
    S_TAKEN,
    S_END,
    R_SWAP,
    R_STORE,
    R_COPY,
    R_SETTLE,
    R_TELL,
    R_CLEAR,
    R_FREE,
    D_POISON,
    D_PASSED,
    Z_IDLE,
    Z_CELL,
    Z_STATE,
    Z_LOOK,
    Z_ENDED,
    Z_CLEAR,
    Z_HEAD,
    Z_LEAVE,
    V_IDLE,
    J_COLLECT,
    J_JUDGE,
    J_FINISH,
    J_FAIL,
    V_END,
    V_MAP,
    V_PROMOTE,
    V_DOWN,
    V_FAIL,
    V_OVER,
} place;

typedef enum worker_place {
    K_NONE, /* dead */
    K_START,
    K_RESUME,
    K_RING,
    K_RECORD,
    K_ISSUE,
    K_HANDLE,
    K_LATE_ISSUED,
    K_REFUSE,
    K_LATE_REPLY,
    K_BUSY,
    K_SEEN,
    K_SAY,
    K_LOOK,
    K_WAIT,
    K_ASLEEP,
    K_AWAKE,
} worker_place;

typedef enum operation { NOTHING, WORK, SIGNAL, WAIT } operation;

typedef struct slot {
    uint8_t phase, wanted, generation; /* one word */
    uint8_t ticket, actor, refuse;
    uint8_t deaths;                   /* those with it in flight */
    uint8_t begun;                    /* of the record */
    uint8_t retired_early, cancelled; /* `cancelled` of the record, and `cancelling` */
    uint8_t request;                  /* which one fills it, + 1; nobody reads it but the checks */
    uint8_t record_ticket;
} slot;

typedef struct cell {
    uint8_t ticket, slot;
} cell;

typedef struct mailbox {
    cell place[MODEL_MAILBOX];
    uint8_t head, tail, sweeping;
} mailbox;

/* What the application reads of the reply block. */
typedef struct words {
    uint8_t sleeping, issued[MODEL_ACTORS], timeline[MODEL_ACTORS];
    uint8_t replied[MODEL_SLOTS], said[MODEL_SLOTS]; /* ticket, status */
} words;

typedef struct lane {
    uint8_t queue[MODEL_SLOTS], count;
    uint8_t issued, signalled, unsignalled;
} lane;

typedef struct stream {
    uint8_t kind[OPERATIONS], actor[OPERATIONS], value[OPERATIONS],
        count; /* value: request, ticket */
    uint8_t running;
} stream;

typedef struct worker {
    uint8_t place, next, resumed, together, lane, cell_slot, moved, asleep, polling;
    uint8_t refusal; /* of the head of `lane` */
    uint8_t poison[MODEL_BUFFERS], halfway[MODEL_BUFFERS];
    uint8_t unseen_sleeping; /* a store that only the worker sees yet */
    lane lanes[MODEL_ACTORS];
    stream streams[MODEL_ACTORS];
    uint8_t waits_for[MODEL_SLOTS][MODEL_ACTORS], overwrites[MODEL_SLOTS];
    uint8_t writer[MODEL_BUFFERS], writer_ticket[MODEL_BUFFERS];
    uint8_t reader_ticket[MODEL_BUFFERS][MODEL_ACTORS];
} worker;

typedef struct buffer {
    uint8_t lost, poison, accepted, cover, good, judged; /* tickets */
    uint8_t judged_bad, judged_cover;
    /* What is really in it, for the checks: the last request that wrote, and whether it got far. */
    uint8_t writer, half_written;
} buffer;

typedef struct thread {
    uint8_t place;
    uint8_t request, ticket, lost, position, second; /* sending */
    uint8_t unseen_ring;                             /* a store that only the sender sees yet */
    uint8_t slot, generation, wanted, phase;         /* looking at a slot, as it was seen */
    /* As they were seen before the ticket. */
    uint8_t cover[MODEL_BUFFERS], accepted[MODEL_BUFFERS];
    uint8_t failure, early, back, ended; /* ending a request */
    uint8_t in_doubt;                    /* cancelling what was issued meanwhile */
    uint8_t actor;                       /* sweeping, or looking for results before an end */
    uint8_t limit;                       /* the mailbox's tail, as it was then */
} thread;

typedef struct supervisor {
    uint8_t middle, begin, end, in_second, i, pass, count, in_flight;
    uint8_t slot[MODEL_SLOTS], ticket[MODEL_SLOTS], progress[MODEL_SLOTS];
} supervisor;

typedef struct outcome {
    uint8_t ends, runs, done, misread, ticket, well;
    uint8_t future_slot, future_generation;
    uint8_t accepted[MODEL_BUFFERS]; /* by its sender; in the record */
    uint8_t told, knew; /* its failure was; a bit for each request of which that was so */
    uint8_t refused;    /* for its inputs */
    uint8_t counted;    /* in `deliveries` of its actor */
    uint8_t delivered;  /* its result is in the program's memory */
} outcome;

typedef struct state {
    uint8_t broken;
    uint8_t next_ticket, doorbell, device, promoted, attached;
    uint8_t cause, hung, kills, hangs, restarts;
    uint8_t judging; /* the lock: which thread has it, + 1 */
    uint8_t resume[MODEL_SLOTS], resume_count, resume_alone, resume_start;
    slot slots[MODEL_SLOTS];
    cell ring[RING];
    mailbox mailboxes[MODEL_ACTORS];
    buffer buffers[MODEL_BUFFERS];
    words mapped; /* what the application sees */
    words own;    /* the worker's block; the same once it is mapped */
    worker worker;
    supervisor judge;
    thread threads[MODEL_SENDERS + 2]; /* senders, sweeper, supervisor */
    outcome outcomes[MODEL_REQUESTS];
} state;

enum { SWEEPER = MODEL_SENDERS, SUPERVISOR = MODEL_SENDERS + 1 };

#define BREAKS(X)                                                                                  \
    X(NOT_BROKEN, NULL)                                                                            \
    X(ENDED_TWICE, "a request has ended twice")                                                    \
    X(ENDED_NOBODY, "a slot was ended that no request fills")                                      \
    X(ENDED_UNDONE, "a request has ended well and was not done")                                   \
    X(ENDED_MISREAD, "a request has ended well and has read what is half-written, or later")       \
    X(ENDED_SPOILED,                                                                               \
      "a request has ended well and has read what a failed one should have written")               \
    X(REFUSED_GOOD, "a request was refused though what it reads is good")                          \
    X(MUST_SUCCEED, "a request has failed that had no part in any death")                          \
    X(RUN_THRICE, "a request runs a third time")                                                   \
    X(RUN_TWICE, "a request runs again that reads what it writes")                                 \
    X(RUN_ENDED, "a request is begun that has ended, or that shall be refused")                    \
    X(CANCELLED_BEGUN, "a request was cancelled that had begun")                                   \
    X(UNDELIVERED, "an end was told before the result of a request that it stands for was there")  \
    X(STALE, "a future is stale before it was ended")                                              \
    X(MISTAKEN, "a future got the end of another request")                                         \
    X(OVERFLOW, "the model's own tables are too small")

typedef enum break_code {
#define BREAK_ENUM(name, text) name,
    BREAKS(BREAK_ENUM)
#undef BREAK_ENUM
} break_code;

static const char *const break_texts[] = {
#define BREAK_TEXT(name, text) text,
    BREAKS(BREAK_TEXT)
#undef BREAK_TEXT
};

static const char *const mutation_names[] = {
#define MUTATION_NAME(name) #name,
    MODEL_MUTATIONS(MUTATION_NAME)
#undef MUTATION_NAME
};

const char *model_mutation_name(model_mutation mutation)
{
    return mutation_names[mutation];
}

/* What is being explored: the context of every step. */
typedef struct run {
    const model_plan *plan;
    model_mutation mutation;
} run;

static bool is(const run *r, model_mutation mutation)
{
    return r->mutation == mutation;
}

static uint32_t places(const run *r)
{
    return r->plan->mailbox ? r->plan->mailbox : MODEL_MAILBOX;
}

static bool delivers(const run *r)
{
    bool any = false;
    for (uint32_t i = 0; i < r->plan->requests; i++)
        any = any || r->plan->request[i].delivers;
    return any;
}

/* The mailbox is looked at by sweepers, and by those who look for results. */
static bool has_mailbox(const run *r)
{
    return r->plan->sweeper || delivers(r);
}

static void breaks(state *n, break_code code)
{
    if (n->broken == NOT_BROKEN)
        n->broken = (uint8_t)code;
}

static void offer(explorer *e, const state *next, const char *label, int a, int b)
{
    explorer_offer(e, EXPLORER_PROGRAM, next, label, a, b);
}

static void raise_to(uint8_t *word, uint8_t value)
{
    if (*word < value)
        *word = value;
}

static bool covers(const model_request *q, uint32_t b)
{
    return (q->writes >> b & 1) && !(q->reads >> b & 1);
}

/* trp__buffer_readable(), where `cover` is the last request that writes all of it before, and
 * `accepted` the last of those whose failure was told. */
static status readable(const buffer *x, uint8_t cover, uint8_t accepted)
{
    bool hidden = x->lost < cover && x->poison < cover && accepted < cover;
    if (x->lost > x->good && !hidden)
        return LOST;
    return x->poison > accepted && x->poison >= cover ? DEPENDENCY : OK;
}

/* Whether a request can't have its inputs. */
static status find_unreadable(const run *r, const state *s, uint32_t request)
{
    status found = OK;
    for (uint32_t b = 0; b < r->plan->buffers && found == OK; b++) {
        if (r->plan->request[request].reads >> b & 1)
            found = readable(&s->buffers[b], s->buffers[b].cover, s->buffers[b].accepted);
    }
    return found;
}

/* The last failure that was told, but for those of requests behind the reader: they fail before
 * their turn, and say nothing of one before it. */
static uint8_t accepted_by(const run *r, const buffer *x, const thread *t, uint32_t b)
{
    bool later = t->ticket != 0 && x->accepted > t->ticket && !is(r, MODEL_LATER_TOLD_COUNTS);
    return later ? t->accepted[b] : x->accepted;
}

/* The same for a request that has its ticket: trp__buffer_readable_at(). */
static status find_unreadable_then(const run *r, const state *s, const thread *t)
{
    status found = OK;
    for (uint32_t b = 0; b < r->plan->buffers && found == OK; b++) {
        const buffer *x = &s->buffers[b];
        bool later = x->cover > t->ticket && !is(r, MODEL_LATER_COVER_COUNTS);
        if (r->plan->request[t->request].reads >> b & 1)
            found = readable(x, later ? t->cover[b] : x->cover, accepted_by(r, x, t, b));
    }
    return found;
}

/* Of which failures the sender of a request knows. */
static void note_accepted(const run *r, state *n, const thread *t)
{
    outcome *o = &n->outcomes[t->request];
    for (uint32_t i = 0; i < r->plan->requests; i++) {
        if (n->outcomes[i].told)
            o->knew |= (uint8_t)(1U << i);
    }
    for (uint32_t b = 0; b < r->plan->buffers; b++) {
        if (r->plan->request[t->request].reads >> b & 1)
            o->accepted[b] = accepted_by(r, &n->buffers[b], t, b);
    }
}

static void raise_outputs(const run *r, state *n, uint32_t request, uint8_t ticket, bool accepted)
{
    for (uint32_t b = 0; b < r->plan->buffers; b++) {
        if (r->plan->request[request].writes >> b & 1)
            raise_to(accepted ? &n->buffers[b].accepted : &n->buffers[b].poison, ticket);
    }
}

static void set_own(state *n, const words *w)
{
    n->own = *w;
    if (n->attached)
        n->mapped = *w;
}

static void next_request(const run *r, thread *t, uint32_t index, uint32_t from);
static void after_sending(const run *r, state *n, uint32_t index);

/* Takes a thread past places at which it does nothing that others could see. */
static void go_on(const run *r, state *n, uint32_t index)
{
    thread *t = &n->threads[index];
    if (t->place == S_AFTER)
        after_sending(r, n, index);
    else if (t->place == S_TAKEN)
        next_request(r, t, index, t->request + 1U);
    else if (t->place == Z_IDLE)
        *t = (thread){.place = Z_IDLE};
}

/* ---- ending a request: retire.c ---- */

/* Begins trp__retire() of the slot as the thread saw it. */
static void begin_retire(thread *t, uint32_t slot_index, const slot *seen, status failure,
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
static void begin_retire_early(thread *t, uint32_t slot_index, const slot *seen, status failure,
                               place back)
{
    begin_retire(t, slot_index, seen, failure, back);
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
static void taken(const run *r, state *n, thread *t)
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
        raise_outputs(r, n, s->request - 1U, s->ticket, false);
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
    t->place = q && q->delivers ? R_COPY : q && q->writes ? R_SETTLE : R_TELL;
    if (t->place == R_COPY && is(r, MODEL_DELIVERY_COUNTED_EARLY))
        n->outcomes[s->request - 1].counted = 0;
}

/* copy_small_read() and trp__delivery_end(): between the two nobody could tell. */
static void copy_result(const run *r, state *n, thread *t, const slot *s)
{
    outcome *o = &n->outcomes[s->request - 1];
    o->delivered = t->failure == OK;
    o->counted = 0;
    t->place = r->plan->request[s->request - 1].writes ? R_SETTLE : R_TELL;
}

/* trp__retired_early_pass() of a slot that was passed. It is one step if there is nothing to
 * poison, or if the plan is not about that. */
static void pass(const run *r, state *n, thread *t, uint32_t slot_index, place back)
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
        raise_outputs(r, n, s->request - 1U, s->ticket, false);
    leave_retired_early(r, n, t, PASSING);
}

static void step_pass(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    slot *s = &n.slots[t->slot];
    if (t->place == D_POISON) {
        raise_outputs(r, &n, s->request - 1U, s->ticket, false);
        t->place = D_PASSED;
        offer(e, &n, "thread %d: the outputs of slot %d are poisoned", (int)index, t->slot);
    } else {
        leave_retired_early(r, &n, t, PASSING);
        go_on(r, &n, index);
        offer(e, &n, "thread %d: slot %d is no longer retired early", (int)index,
              now->threads[index].slot);
    }
}

static void step_retire(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    slot *s = &n.slots[t->slot];
    switch (t->place) {
    case R_SWAP:
        if (s->phase != PENDING || s->generation != t->generation || s->wanted != t->wanted) {
            t->place = t->back;
            go_on(r, &n, index);
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
        t->place = R_TELL;
        offer(e, &n, "thread %d: the outputs of slot %d are settled", (int)index, t->slot);
        break;
    case R_TELL:
        t->ended = 1;
        s->phase = s->wanted ? DONE : FILLING;
        if (s->wanted)
            t->place = t->back;
        else
            taken(r, &n, t);
        go_on(r, &n, index);
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
        go_on(r, &n, index);
        offer(e, &n, "thread %d: slot %d is free", (int)index, now->threads[index].slot);
        break;
    }
}

/* ---- sending: request.c ---- */

static const model_request *plan_of(const run *r, const thread *t)
{
    return &r->plan->request[t->request];
}

/* The sender's next request, or what it does when all are sent. */
static void next_request(const run *r, thread *t, uint32_t index, uint32_t from)
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
static void after_cancelling(const run *r, thread *t, uint32_t index)
{
    const model_request *q = plan_of(r, t);
    *t = (thread){.request = t->request};
    if (q->end == MODEL_AWAIT)
        t->place = S_AWAIT;
    else if (q->end == MODEL_DROP)
        t->place = S_DROP;
    else
        next_request(r, t, index, t->request + 1U);
}

static void after_sending(const run *r, state *n, uint32_t index)
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
        after_cancelling(r, t, index);
}

static place after_pack(const run *r)
{
    return has_mailbox(r) ? S_RESERVE : S_TICKET;
}

static void step_begin(const run *r, const state *now, explorer *e, uint32_t index)
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
static void step_pack(const run *r, const state *now, explorer *e, uint32_t index)
{
    state n = *now;
    thread *t = &n.threads[index];
    if (find_unreadable(r, &n, t->request) != OK) {
        outcome *o = &n.outcomes[t->request];
        o->ends = 1; /* the call fails: nothing was sent */
        o->future_slot = ALL_LOST;
        n.slots[t->slot].phase = FREE;
        n.slots[t->slot].request = 0;
        if (plan_of(r, t)->must_succeed)
            breaks(&n, MUST_SUCCEED);
        next_request(r, t, index, t->request + 1U);
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

static void step_ticket(const run *r, const state *now, explorer *e, uint32_t index)
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
            note_accepted(r, &n, t);
        t->place = q->reads && !is(r, MODEL_LOOK_BEFORE_TICKET) ? S_LOOK
                   : q->writes & ~q->reads                      ? S_COVER
                                                                : S_PENDING;
        offer(e, &n, "thread %d: takes ticket %d", (int)index, t->ticket);
        break;
    case S_LOOK:
        note_accepted(r, &n, t);
        t->lost = (uint8_t)find_unreadable_then(r, &n, t);
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

static void step_publish(const run *r, const state *now, explorer *e, uint32_t index)
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

static void step_bell(const run *r, const state *now, explorer *e, uint32_t index)
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
static void step_unseen_ring(const state *now, explorer *e, uint32_t index)
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
static void step_sent(const run *r, const state *now, explorer *e, uint32_t index)
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
        begin_retire(t, t->slot, &seen, DEVICE_DOWN, S_AFTER);
        offer(e, &n, "thread %d: sees that the device is down, ticket %d", (int)index, s->ticket);
    } else {
        after_sending(r, &n, index);
        offer(e, &n, "thread %d: has sent request %d", (int)index, now->threads[index].request);
    }
}

/* Whether trp__try_finish() would end a slot now. */
static bool is_over(const state *s, const slot *x)
{
    return x->ticket != 0 && s->mapped.timeline[x->actor] >= x->ticket;
}

/* trp__cancel_in_doubt(): the worker has answered that it found the mark; with the lock. */
static bool in_doubt(const state *s, uint32_t slot_index)
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
static void take_end(const run *r, state *n, thread *t, uint32_t index)
{
    const outcome *o = &n->outcomes[t->request];
    slot *s = &n->slots[o->future_slot];
    if (s->request != t->request + 1)
        breaks(n, MISTAKEN);
    if (o->well) {
        check_delivered(r, n, t->request);
    } else { /* trp__poison_accept() */
        raise_outputs(r, n, t->request, o->ticket, true);
        n->outcomes[t->request].told = 1;
    }
    s->phase = FILLING;
    t->slot = o->future_slot;
    t->back = S_TAKEN;
    taken(r, n, t);
    go_on(r, n, index);
}

/* ---- looking for results before an end: deliver.c ---- */

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
    if (same && s->phase == PENDING && is_over(n, s)) {
        begin_retire(t, t->slot, s, OK, L_LOOK);
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
        next_request(r, t, index, t->request + 1U);
        offer(e, &n, "thread %d: request %d was refused", (int)index, now->threads[index].request);
        return;
    }
    slot *s = &n.slots[o->future_slot];
    if (s->generation != o->future_generation || !s->wanted) {
        breaks(&n, STALE);
        offer(e, &n, "thread %d: the future of request %d is stale", (int)index, t->request);
    } else if (!looked && (s->phase == DONE || (s->phase == PENDING && is_over(&n, s)))) {
        look_on(t, L_ACTOR);
        offer(e, &n, "thread %d: looks for results before request %d", (int)index, t->request);
    } else if (s->phase == DONE) {
        take_end(r, &n, t, index);
        offer(e, &n, "thread %d: takes the end of request %d", (int)index,
              now->threads[index].request);
    } else if (s->phase == PENDING && is_over(&n, s)) {
        begin_retire(t, o->future_slot, s, OK, S_AWAIT);
        offer(e, &n, "thread %d: sees that request %d is over", (int)index, t->request);
    } else if (s->phase == PENDING && in_doubt(&n, o->future_slot)) {
        n.judging = (uint8_t)(index + 1);
        t->in_doubt = 1;
        begin_retire_early(t, o->future_slot, s, CANCELLED, C_UNLOCK);
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
        if (s->phase != PENDING || is_over(&n, s)) {
            after_cancelling(r, t, index);
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
            begin_retire_early(t, o->future_slot, s, CANCELLED, C_UNLOCK);
        offer(e, &n, "thread %d: marks request %d as cancelled", (int)index, t->request);
        break;
    case C_LOOK: /* the slot is this request's as long as its future is */
        if (first) {
            t->lost = n.mapped.issued[s->actor] < s->ticket;
            t->place = C_MARK;
        } else if (n.mapped.issued[s->actor] < s->ticket) {
            begin_retire_early(t, o->future_slot, s, CANCELLED, C_UNLOCK);
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
            after_cancelling(r, t, index);
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
        taken(r, &n, t);
        go_on(r, &n, index);
    } else {
        if (valid)
            s->wanted = 0;
        next_request(r, t, index, t->request + 1U);
    }
    offer(e, &n, "thread %d: drops the future of request %d", (int)index,
          now->threads[index].request);
}

static void step_sender(const run *r, const state *now, explorer *e, uint32_t index)
{
    const thread *t = &now->threads[index];
    if (t->unseen_ring)
        step_unseen_ring(now, e, index);
    switch (t->place) {
    case S_BEGIN:
        step_begin(r, now, e, index);
        break;
    case S_PACK:
        step_pack(r, now, e, index);
        break;
    case S_RESERVE:
    case S_TICKET:
    case S_LOOK:
    case S_COVER:
        step_ticket(r, now, e, index);
        break;
    case S_PENDING:
    case S_MAILBOX:
    case S_RING:
    case S_LATE:
        step_publish(r, now, e, index);
        break;
    case S_BELL:
    case S_RAISE:
    case S_WAKE:
        step_bell(r, now, e, index);
        break;
    case S_SENT:
        step_sent(r, now, e, index);
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
        step_retire(r, now, e, index);
        break;
    }
}

/* ---- a thread that sweeps: trp__sweep() ---- */

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
    return is_over(s, x) || s->device == DOWN;
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
        pass(r, &n, &n.threads[SWEEPER], i, Z_IDLE);
        go_on(r, &n, SWEEPER);
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
    } else if (t->phase == PENDING && is_over(n, s)) {
        const slot seen = {.generation = t->generation, .wanted = t->wanted};
        begin_retire(t, t->slot, &seen, OK, Z_ENDED);
    } else if (t->phase == PENDING) {
        t->place = (uint8_t)(is(r, MODEL_SWEEP_SKIPS_UNFINISHED) ? clear : Z_LEAVE);
    } else if (s->retired_early & UNPASSED) {
        t->place = Z_LEAVE;
        if (was_passed(n, s))
            pass(r, n, t, t->slot, Z_ENDED);
    } else {
        t->place = (uint8_t)clear;
    }
}

static void step_sweeper(const run *r, const state *now, explorer *e)
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
        step_retire(r, now, e, SWEEPER);
        return;
    }
}

/* ---- the worker: scheduler.c ---- */

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
        bool halfway = n->worker.halfway[b] != 0 && !is(r, MODEL_TOLD_COUNTS_HALFWAY);
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
    set_own(n, &own);
}

static void store_issued(state *n, uint32_t lane_index, uint8_t ticket)
{
    words own = n->own;
    own.issued[lane_index] = ticket;
    set_own(n, &own);
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
            set_own(&n, &own);
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
        set_own(&n, &own);
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
    set_own(&n, &own);
    offer(e, &n, "worker: its word becomes visible", 0, 0);
}

static void step_worker(const run *r, const state *now, explorer *e)
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

/* ---- death, and the device's streams ---- */

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

static void step_stream(const run *r, const state *now, explorer *e, uint32_t index)
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
        set_own(&n, &own);
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
static void step_environment(const run *r, const state *now, explorer *e)
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

/* ---- the supervisor: supervisor.c and recover.c ---- */

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
    return is(r, MODEL_TOLD_COUNTS_LOST) ? 0 : standing_loss(r, x, ticket);
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
            begin_retire_early(t, v->slot[v->i], s, with, J_FAIL);
        else
            begin_retire(t, v->slot[v->i], s, with, (place)t->place);
        offer(e, &n, "supervisor: ends ticket %d with status %d", s->ticket, t->failure);
        return;
    }
    if (same && (s->retired_early & UNPASSED) && !failed) {
        pass(r, &n, t, v->slot[v->i], J_FINISH);
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
        begin_retire(t, v->i, s, is_over(&n, s) ? OK : DEVICE_DOWN, V_FAIL);
        offer(e, &n, "supervisor: ends slot %d", v->i, 0);
        return;
    }
    if (s->retired_early & PASSING)
        return;
    if (s->retired_early & UNPASSED) {
        pass(r, &n, t, v->i, V_FAIL);
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

static void step_supervisor(const run *r, const state *now, explorer *e)
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
        step_retire(r, now, e, SUPERVISOR);
        break;
    }
}

/* ---- the whole ---- */

static void all_steps(const void *context, const void *bytes, explorer *e)
{
    const run *r = context;
    const state *now = bytes;
    for (uint32_t i = 0; i < r->plan->senders; i++)
        step_sender(r, now, e, i);
    step_sweeper(r, now, e);
    step_supervisor(r, now, e);
    step_worker(r, now, e);
    for (uint32_t a = 0; a < r->plan->actors; a++)
        step_stream(r, now, e, a);
    step_environment(r, now, e);
}

static const char *is_broken(const void *context, const void *bytes)
{
    (void)context;
    return break_texts[((const state *)bytes)->broken];
}

/* All senders are through, every request has ended once, every slot is free again. */
static bool is_final(const void *context, const void *bytes)
{
    const run *r = context;
    const state *s = bytes;
    bool final = s->threads[SUPERVISOR].place == V_IDLE || s->threads[SUPERVISOR].place == V_OVER;
    for (uint32_t i = 0; i < r->plan->senders; i++)
        final = final && s->threads[i].place == S_END;
    for (uint32_t i = 0; i < r->plan->requests; i++)
        final = final && s->outcomes[i].ends == 1;
    for (uint32_t i = 0; i < r->plan->slots; i++)
        final = final && s->slots[i].phase == FREE;
    return final;
}

explorer_result model_run(const model_plan *plan, model_mutation mutation, uint64_t max_states,
                          FILE *trace)
{
    run r = {.plan = plan, .mutation = mutation};
    state first;
    memset(&first, 0, sizeof first);
    first.next_ticket = 1;
    first.resume_start = 1;
    first.attached = first.promoted = 1;
    first.worker.place = K_START;
    for (uint32_t i = 0; i < MODEL_SLOTS; i++)
        first.slots[i].generation = 1;
    for (uint32_t i = 0; i < plan->senders; i++)
        next_request(&r, &first.threads[i], i, 0);
    first.threads[SWEEPER].place = Z_IDLE;
    first.threads[SUPERVISOR].place = V_IDLE;
    explorer_model model = {.state_bytes = sizeof(state),
                            .context = &r,
                            .steps = all_steps,
                            .broken = is_broken,
                            .final = is_final};
    return explorer_run(&model, &first, max_states, trace);
}

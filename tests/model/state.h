/* The state of the model, and what its parts use of each other. SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_MODEL_STATE_H
#define TESTS_MODEL_STATE_H

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
    R_REPORT,
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
    uint8_t acked, knew; /* its failure was; a bit for each request of which that was so */
    uint8_t refused;     /* for its inputs */
    uint8_t counted;     /* in `deliveries` of its actor */
    uint8_t delivered;   /* its result is in the program's memory */
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

/* What is being explored: the context of every step. */
typedef struct run {
    const model_plan *plan;
    model_mutation mutation;
} run;

static inline bool is(const run *r, model_mutation mutation)
{
    return r->mutation == mutation;
}

static inline uint32_t places(const run *r)
{
    return r->plan->mailbox ? r->plan->mailbox : MODEL_MAILBOX;
}

static inline bool delivers(const run *r)
{
    bool any = false;
    for (uint32_t i = 0; i < r->plan->requests; i++)
        any = any || r->plan->request[i].delivers;
    return any;
}

/* The mailbox is looked at by sweepers, and by those who look for results. */
static inline bool has_mailbox(const run *r)
{
    return r->plan->sweeper || delivers(r);
}

static inline void breaks(state *n, break_code code)
{
    if (n->broken == NOT_BROKEN)
        n->broken = (uint8_t)code;
}

static inline void offer(explorer *e, const state *next, const char *label, int a, int b)
{
    explorer_offer(e, EXPLORER_PROGRAM, next, label, a, b);
}

static inline void raise_to(uint8_t *word, uint8_t value)
{
    if (*word < value)
        *word = value;
}

static inline bool covers(const model_request *q, uint32_t b)
{
    return (q->writes >> b & 1) && !(q->reads >> b & 1);
}

/* ---- of the parts ---- */

/* protocol.c */
status model_find_unreadable(const run *r, const state *s, uint32_t request);
status model_find_unreadable_then(const run *r, const state *s, const thread *t);
void model_note_accepted(const run *r, state *n, const thread *t);
void model_raise_outputs(const run *r, state *n, uint32_t request, uint8_t ticket, bool accepted);
void model_set_own(state *n, const words *w);
void model_go_on(const run *r, state *n, uint32_t index);

/* retire.c */
void model_begin_retire(thread *t, uint32_t slot_index, const slot *seen, status failure,
                        place back);
void model_begin_retire_early(thread *t, uint32_t slot_index, const slot *seen, status failure,
                              place back);
void model_taken(const run *r, state *n, thread *t);
void model_pass(const run *r, state *n, thread *t, uint32_t slot_index, place back);
void model_step_retire(const run *r, const state *now, explorer *e, uint32_t index);

/* sending.c */
void model_next_request(const run *r, thread *t, uint32_t index, uint32_t from);
void model_after_cancelling(const run *r, thread *t, uint32_t index);
void model_after_sending(const run *r, state *n, uint32_t index);
void model_step_begin(const run *r, const state *now, explorer *e, uint32_t index);
void model_step_pack(const run *r, const state *now, explorer *e, uint32_t index);
void model_step_ticket(const run *r, const state *now, explorer *e, uint32_t index);
void model_step_publish(const run *r, const state *now, explorer *e, uint32_t index);
void model_step_bell(const run *r, const state *now, explorer *e, uint32_t index);
void model_step_unseen_ring(const state *now, explorer *e, uint32_t index);
void model_step_sent(const run *r, const state *now, explorer *e, uint32_t index);
bool model_is_over(const state *s, const slot *x);
bool model_in_doubt(const state *s, uint32_t slot_index);
void model_take_end(const run *r, state *n, thread *t, uint32_t index);

/* results.c */
void model_step_sender(const run *r, const state *now, explorer *e, uint32_t index);
void model_step_sweeper(const run *r, const state *now, explorer *e);

/* worker.c */
void model_step_worker(const run *r, const state *now, explorer *e);

/* streams.c */
void model_step_stream(const run *r, const state *now, explorer *e, uint32_t index);
void model_step_environment(const run *r, const state *now, explorer *e);

/* supervisor.c */
void model_step_supervisor(const run *r, const state *now, explorer *e);

#endif

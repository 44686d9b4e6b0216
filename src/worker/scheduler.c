/* The scheduler: takes requests from the ring in ticket order, finds what each has to wait for, and
 * issues it to its actor's stream.
 *
 * Tickets give every request of the device a place in one total order, so "earlier" means the same
 * for all: whatever a request waits for has a smaller ticket, and no cycle can form. An actor's
 * requests stay in order among themselves; actors overtake each other freely. A request is issued
 * only after everything that it waits for has been issued, because streams share hardware queues
 * and a wait ahead of its own cause would never end. */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/futex.h"
#include "worker/nvtx.h"
#include "worker/poison.h"
#include "worker/tracer.h"
#include "worker/window.h"
#include "worker/worker.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum {
    TAKE_BATCH = 32,   /* requests taken before issuing again */
    SIGNAL_BATCH = 64, /* requests of an actor that share one timeline write */
    LOOK_FROM = 128,   /* so many operations in a stream are counted anew */
    SHARING = 8,       /* ... if so many times as many operations are in the stream */
};

#define SPIN_NS       (200 * TRP__US) /* how long an idle scheduler spins before it sleeps */
#define SPIN_SHORT_NS (2 * TRP__US)   /* the same where cores are few */
#define HEALTH_NS     (250 * TRP__US) /* between questions to the device while work is in flight */
#define NAP_NS        (500 * TRP__US) /* sleep while work is in flight, at first; */
#define NAP_SHARE     8               /* later this part of the time that nothing has happened, */
#define NAP_MAX_NS    (4 * TRP__MS)   /* up to this */
#define SHORT_NAP_NS  (20 * TRP__US)  /* sleep while something that nobody announces is awaited */
#define HELD_SHARE    8               /* part of the time waited, asleep while a lane is full */

#define NO_SLOT UINT32_MAX

/* A request that was taken and not yet issued. The dependencies are those at the time it was taken;
 * later requests may not add to them. */
typedef struct pending {
    uint32_t next;
    uint64_t overwrites; /* the last request of the same actor that reads what this one writes, */
    uint64_t follows;    /* and the last that writes what this one uses */
    uint64_t waits_for;  /* bit a: ticket[a] of actor a */
    uint64_t ticket[TRP__ACTORS];
} pending;

/* Who used a buffer last. Tickets of the past may name requests that are done long ago. */
typedef struct usage {
    uint64_t writer_ticket;
    uint32_t writer;
    uint64_t readers; /* bit a: actor a has read it since, last with reader_ticket[a] */
    uint64_t reader_ticket[TRP__ACTORS];
} usage;

typedef struct lane {
    uint32_t head, tail; /* taken, not issued */
    trp__job job;        /* the first of them, as its actor sees it */
    uint64_t issued;     /* the last ticket whose work is completely in the stream */
    uint64_t signalled;  /* the last ticket for which a timeline write is in the stream */
    uint32_t unsignalled;
    uint32_t last_slot; /* of the request with ticket `issued` */
    uint64_t announced; /* the last ticket whose end wakes its sleepers */
    uint64_t apart;     /* requests up to this one are not to be joined */
    trp__window window; /* what is in the stream and not done */
} lane;

struct trp__scheduler {
    trp__worker *worker;
    const trp__control *control;
    trp__reply *reply;
    const trp__backend *backend;
    uint64_t next;      /* ticket to take next from the ring */
    uint32_t resumed;   /* entries of control->resume that were taken */
    bool together;      /* those that must run alone are done */
    uint64_t queued;    /* bit a: lane a has requests */
    uint64_t to_signal; /* bit a: lane a has unsignalled work */
    uint64_t in_flight; /* bit a: lane a's timeline is behind, when last looked at */
    bool polling;       /* a request was held, or asked to be called again */
    bool full;          /* a lane has enough in its stream */
    uint32_t take_most; /* requests to take before issuing again */
    int64_t spin_ns;    /* how long to spin when idle, before sleeping */
    bool nvtx;          /* a tool wants to know of each request */
    trp__tracer tracer;
    lane lane[TRP__ACTORS];
    pending pending[TRP__SLOTS];
    usage usage[TRP__BUFFERS];
    trp__poisons poisons;
    trp__job joined[TRP_ACTOR_JOINED_MAX];
};

trp__scheduler *trp__scheduler_create(trp__worker *worker)
{
    /* Large and mostly never touched: calloc takes untouched zero pages. */
    trp__scheduler *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->worker = worker;
    s->control = worker->control;
    s->reply = worker->reply;
    s->backend = worker->backend;
    s->tracer.reply = worker->reply;
    s->nvtx = trp__nvtx_wanted();
    s->take_most = TAKE_BATCH;
    s->spin_ns = trp__cpu_may_spin() ? SPIN_NS : SPIN_SHORT_NS;
    for (int a = 0; a < TRP__ACTORS; a++)
        s->lane[a].head = s->lane[a].tail = NO_SLOT;
    return s;
}

void trp__scheduler_destroy(trp__scheduler *s)
{
    free(s);
}

static uint64_t timeline(const trp__scheduler *s, uint32_t actor)
{
    return atomic_load_explicit(&s->reply->timelines.timeline[actor].value, memory_order_acquire);
}

static uint64_t bit(uint32_t actor)
{
    return UINT64_C(1) << actor;
}

/* Whether the application wants times to be noted. */
static bool tracing(const trp__scheduler *s)
{
    return __builtin_expect(atomic_load_explicit(&s->control->tracing, memory_order_relaxed) != 0,
                            0);
}

/* Taking. */

static void depend(trp__scheduler *s, pending *p, uint32_t self, uint32_t actor, uint64_t ticket)
{
    if (actor == self || ticket == 0 || timeline(s, actor) >= ticket)
        return; /* the stream's own order, or done */
    if (!(p->waits_for & bit(actor)) || p->ticket[actor] < ticket)
        p->ticket[actor] = ticket;
    p->waits_for |= bit(actor);
}

static void note_access(trp__scheduler *s, pending *p, const trp__record *record,
                        const trp__access *access)
{
    if (access->slot >= TRP__BUFFERS)
        return; /* refused when it is issued */
    usage *u = &s->usage[access->slot];
    uint32_t self = record->actor;
    depend(s, p, self, u->writer, u->writer_ticket);
    if (u->writer == self && u->writer_ticket > p->follows)
        p->follows = u->writer_ticket;
    if (!(access->mode & TRP__WRITE)) {
        u->readers |= bit(self);
        u->reader_ticket[self] = record->ticket;
        return;
    }
    if ((u->readers & bit(self)) && u->reader_ticket[self] > p->overwrites)
        p->overwrites = u->reader_ticket[self];
    for (uint64_t readers = u->readers; readers; readers &= readers - 1) {
        uint32_t reader = (uint32_t)__builtin_ctzll(readers);
        depend(s, p, self, reader, u->reader_ticket[reader]);
    }
    u->readers = 0;
    u->writer = self;
    u->writer_ticket = record->ticket;
}

/* Memory that was freed and used again is ordered by the application, which saw the first request's
 * end before it sent the second. ThreadSanitizer does not see through the other process. */
static void show_order_to_tsan(const trp__scheduler *s)
{
#ifdef __SANITIZE_THREAD__
    for (uint32_t a = 0; a < TRP__ACTORS; a++)
        (void)timeline(s, a);
    for (uint32_t i = 0; i < TRP__STREAMS; i++)
        (void)atomic_load(&s->reply->timelines.stream_done[i].value);
#else
    (void)s;
#endif
}

static void take(trp__scheduler *s, uint32_t slot)
{
    const trp__record *record = &s->control->record[slot];
    pending *p = &s->pending[slot];
    uint32_t actor = record->actor % TRP__ACTORS;
    uint32_t count = record->access_count;
    show_order_to_tsan(s);
    p->next = NO_SLOT;
    p->waits_for = 0;
    p->overwrites = 0;
    p->follows = 0;
    for (uint32_t i = 0; i < count && i < TRP__ACCESS_MAX; i++)
        note_access(s, p, record, &record->access[i]);

    lane *l = &s->lane[actor];
    if (l->tail == NO_SLOT)
        l->head = slot;
    else
        s->pending[l->tail].next = slot;
    l->tail = slot;
    s->queued |= bit(actor);
}

/* Sequentially consistent for sleep_idle(); on x86-64 that is an ordinary load. */
static bool ring_has(const trp__scheduler *s)
{
    const trp__cell *cell = &s->control->ring[s->next % TRP__RING];
    return atomic_load(cell) >> TRP__SLOT_BITS == s->next;
}

/* What is to be taken lies in the sender's cache; so it is all asked for at once, before the first
 * is looked at. */
static void fetch_records(const trp__scheduler *s)
{
    for (uint64_t ticket = s->next; ticket < s->next + s->take_most; ticket++) {
        uint64_t cell =
            atomic_load_explicit(&s->control->ring[ticket % TRP__RING], memory_order_relaxed);
        if (cell >> TRP__SLOT_BITS != ticket)
            break;
        const trp__record *record = &s->control->record[cell & (TRP__SLOTS - 1)];
        __builtin_prefetch(record);
        __builtin_prefetch(record->payload);
        __builtin_prefetch(record->access);
        __builtin_prefetch(&s->pending[cell & (TRP__SLOTS - 1)], 1);
        if (tracing(s)) /* the application has read the one before */
            __builtin_prefetch(&s->reply->issue_stamp[cell & (TRP__SLOTS - 1)], 1);
    }
}

static bool anything_in_flight(trp__scheduler *s);

/* Requests that were in flight when a worker died run alone, so that one that kills this worker too
 * is known to be the culprit. True if the next one has to wait. */
static bool must_stay_alone(trp__scheduler *s)
{
    if (s->together || s->resumed == 0 || s->resumed > s->control->resume_alone)
        return false;
    bool busy = s->queued || s->to_signal || anything_in_flight(s);
    s->together = !busy && s->resumed == s->control->resume_alone;
    return busy;
}

static uint32_t take_some(trp__scheduler *s)
{
    uint32_t taken = 0;
    while (s->resumed < s->control->resume_count && taken < TAKE_BATCH) {
        if (must_stay_alone(s))
            return taken;
        TRP__FAULT_POINT(RESUME_TAKING);
        if (s->resumed < s->control->resume_alone)
            TRP__FAULT_POINT(RESUME_TAKING_ALONE);
        take(s, s->control->resume[s->resumed++] % TRP__SLOTS);
        taken++;
    }
    if (must_stay_alone(s))
        return taken;
    fetch_records(s);
    while (taken < s->take_most && ring_has(s)) {
        uint64_t cell =
            atomic_load_explicit(&s->control->ring[s->next % TRP__RING], memory_order_acquire);
        TRP__FAULT_POINT(RING_TAKING);
        uint32_t slot = (uint32_t)(cell & (TRP__SLOTS - 1));
        /* A slot of another ticket: the request was ended before anybody took it. */
        if (s->control->record[slot].ticket == s->next)
            take(s, slot);
        s->next++;
        taken++;
    }
    if (taken)
        atomic_store_explicit(&s->reply->taken.value, s->next, memory_order_release);
    return taken;
}

/* Issuing. */

/* One timeline write for everything issued to an actor since the last. */
static trp_status signal_lane(trp__scheduler *s, uint32_t actor, trp_error *error)
{
    lane *l = &s->lane[actor];
    trp__instance *instance = &s->worker->actor[actor].instance;
    _Atomic uint64_t *word = &s->reply->timelines.timeline[actor].value;
    s->to_signal &= ~bit(actor);
    l->unsignalled = 0;
    l->signalled = l->issued;
    if (!instance->stream) { /* nothing can be in flight */
        l->window.done = l->window.enqueued;
        atomic_store_explicit(word, l->issued, memory_order_release);
        return TRP_OK;
    }
    s->in_flight |= bit(actor);
    trp__window_mark(&l->window, l->issued);
    TRP__FAULT_POINT(SIGNAL_ENQUEUEING);
    trp_status status = s->backend->stream_signal(instance->stream, word, l->issued, error);
    TRP__FAULT_POINT(SIGNAL_ENQUEUED);
    return status;
}

static void reply_error(trp__scheduler *s, uint32_t slot, const trp_error *error)
{
    trp__reply_error *reply = &s->reply->error[slot];
    reply->status = error->status;
    reply->code = error->code;
    trp__copy_string(reply->domain, sizeof reply->domain, error->domain);
    trp__copy_string(reply->message, sizeof reply->message, error->message);
    atomic_store_explicit(&reply->ticket, s->control->record[slot].ticket, memory_order_release);
}

/* BROKEN: a stream did not take a signal or a wait, on which other requests rely. */
typedef enum readiness { HOLD, GO, REFUSE, BROKEN } readiness;

/* Whether the inputs of a request are what they should be. All earlier ones are issued or refused.
 */
static bool may_read(trp__scheduler *s, const trp__record *record, trp_error *error)
{
    trp_status status = (trp_status)atomic_load_explicit(&record->refuse, memory_order_relaxed);
    uint64_t cause = record->cause;
    if (status == TRP_OK && s->poisons.count > 0) {
        cause = trp__poisons_cause(&s->poisons, record);
        status = cause != 0 ? TRP_E_DEPENDENCY : TRP_OK;
    }
    return status == TRP_OK || trp__refusal(error, status, cause) == TRP_OK;
}

/* Whether a request may use a buffer that can be sealed. The sender has seen to it already; so a
 * record that writes a sealed buffer is nothing that a sender wrote. */
static readiness may_use(const trp__access *access, uint64_t protection, trp__arena *arena,
                         trp_error *error)
{
    bool writes = access->mode & TRP__WRITE;
    if (writes && protection % 2 != 0) {
        trp__error_set(error, TRP_E_ARGUMENT, "buffer %u is sealed, and the request writes it",
                       access->slot);
        return REFUSE;
    }
    /* Until the side thread has made the last change, it may be about to make one before that. */
    if (atomic_load_explicit(&arena->protection, memory_order_acquire) < protection)
        return HOLD;
    if (!writes || !atomic_load(&arena->read_only))
        return GO;
    *error = arena->error;
    return REFUSE;
}

/* The side thread changes a mapping only when nobody uses it. Here the request is noted as a user
 * first, and then looked whether a change is due; the application says that one is due, tells the
 * side thread, and that looks who uses the arena. All is sequentially consistent, so if the change
 * is not seen here, the user is seen there. */
static readiness enter_arenas(trp__scheduler *s, const trp__record *record)
{
    uint32_t actor = record->actor % TRP__ACTORS;
    uint64_t before[TRP__ACCESS_MAX];
    bool due = false;
    for (uint32_t i = 0; i < record->access_count; i++) {
        const trp__buffer_entry *entry = &s->control->buffer[record->access[i].slot];
        trp__arena *arena = &s->worker->arena[entry->arena % TRP__ARENAS];
        if (atomic_load_explicit(&entry->protection, memory_order_relaxed) == 0)
            continue;
        before[i] = atomic_exchange(&arena->used[actor], record->ticket);
        due = due || atomic_load(&entry->protection) > atomic_load(&arena->protection);
    }
    for (uint32_t i = record->access_count; due && i-- > 0;) {
        const trp__buffer_entry *entry = &s->control->buffer[record->access[i].slot];
        if (atomic_load_explicit(&entry->protection, memory_order_relaxed) != 0)
            atomic_store(&s->worker->arena[entry->arena % TRP__ARENAS].used[actor], before[i]);
    }
    return due ? HOLD : GO;
}

/* Finds the piece of staging memory that a result goes to, which is one more access. */
static readiness resolve_piece(const trp__scheduler *s, trp__job *job, trp_error *error)
{
    const trp__record *record = job->record;
    uint32_t count = job->api.access_count, bytes = record->piece_bytes;
    void *address = NULL;
    if (record->piece == 0)
        return GO;
    if (record->piece > TRP__SMALL_COUNT || bytes > TRP__SMALL_BYTES ||
        count >= sizeof job->api.access / sizeof *job->api.access) {
        trp__error_set(error, TRP_E_INTERNAL,
                       "a result of %u bytes in piece %u of the staging memory, beside %u accesses",
                       bytes, record->piece, count);
        return REFUSE;
    }
    trp_status status = trp__worker_host_address(s->worker, 0, trp__small_offset(record->piece - 1),
                                                 bytes, &address, error);
    if (status != TRP_OK)
        return status == TRP__AGAIN ? HOLD : REFUSE;
    if (s->backend->host_address)
        address = s->backend->host_address(s->worker->accel, address);
    job->api.access[count] = (trp_job_access){.address = address,
                                              .guard = (char *)address + TRP__SMALL_BYTES,
                                              .bytes = bytes,
                                              .mode = TRP_ACCESS_COVER};
    job->api.access_count++;
    return GO;
}

/* Finds the addresses of a request's buffers. */
static readiness resolve(trp__scheduler *s, trp__job *job, trp_error *error)
{
    const trp__record *record = job->record;
    if (record->access_count > TRP__ACCESS_MAX) {
        trp__error_set(error, TRP_E_INTERNAL, "a record with %u accesses", record->access_count);
        return REFUSE;
    }
    bool changeable = false;
    for (uint32_t i = 0; i < record->access_count; i++) {
        const trp__access *access = &record->access[i];
        const trp__buffer_entry *entry = &s->control->buffer[access->slot % TRP__BUFFERS];
        uint32_t generation = atomic_load_explicit(&entry->generation, memory_order_acquire);
        if (access->slot >= TRP__BUFFERS || generation != access->generation) {
            trp__error_set(error, TRP_E_STALE, "buffer %u of generation %u is gone", access->slot,
                           access->generation);
            return REFUSE;
        }
        trp__arena *arena = &s->worker->arena[entry->arena % TRP__ARENAS];
        int state = atomic_load_explicit(&arena->state, memory_order_acquire);
        if (state == TRP__ABSENT)
            return HOLD;
        if (state == TRP__FAILED) {
            *error = arena->error;
            return REFUSE;
        }
        if (access->offset > entry->bytes || access->bytes > entry->bytes - access->offset ||
            entry->offset > arena->bytes || entry->bytes > arena->bytes - entry->offset) {
            trp__error_set(error, TRP_E_INTERNAL, "an access outside of buffer %u", access->slot);
            return REFUSE;
        }
        uint64_t protection = atomic_load_explicit(&entry->protection, memory_order_acquire);
        if (protection != 0) {
            readiness usable = may_use(access, protection, arena, error);
            if (usable != GO)
                return usable;
            changeable = true;
        }
        job->api.access[i] =
            (trp_job_access){.address = (char *)arena->base + entry->offset + access->offset,
                             .guard = (char *)arena->base + arena->bytes,
                             .bytes = access->bytes,
                             .mode = (trp_access_mode)access->mode};
    }
    job->api.access_count = record->access_count;
    readiness ready = resolve_piece(s, job, error);
    return ready == GO && changeable ? enter_arenas(s, record) : ready;
}

/* Whether everything that the request waits for is in a stream. */
static bool causes_issued(trp__scheduler *s, pending *p)
{
    for (uint64_t rest = p->waits_for; rest; rest &= rest - 1) {
        uint32_t actor = (uint32_t)__builtin_ctzll(rest);
        if (timeline(s, actor) >= p->ticket[actor])
            p->waits_for &= ~bit(actor);
        else if (s->lane[actor].issued < p->ticket[actor])
            return false;
    }
    return true;
}

static trp_status wait_for_causes(trp__scheduler *s, uint32_t self, pending *p, trp_error *error)
{
    trp__stream *stream = s->worker->actor[self].instance.stream;
    trp_status status = TRP_OK;
    for (; p->waits_for && status == TRP_OK; p->waits_for &= p->waits_for - 1) {
        uint32_t actor = (uint32_t)__builtin_ctzll(p->waits_for);
        if (s->lane[actor].signalled < p->ticket[actor])
            status = signal_lane(s, actor, error);
        if (status == TRP_OK)
            status = s->backend->stream_wait(stream, &s->reply->timelines.timeline[actor].value,
                                             p->ticket[actor], error);
        trp__window_add(&s->lane[self].window, 1);
    }
    return status;
}

static readiness prepare(trp__scheduler *s, uint32_t actor, pending *p, trp_error *error)
{
    trp__worker_actor *a = &s->worker->actor[actor];
    lane *l = &s->lane[actor];
    const trp__record *record = l->job.record;
    int state = atomic_load_explicit(&a->state, memory_order_acquire);
    if (state <= TRP__RESTARTING || !causes_issued(s, p)) /* ABSENT too */
        return HOLD;
    if (state == TRP__FAILED) {
        *error = a->error;
        return p->waits_for ? HOLD : REFUSE; /* no stream that could wait */
    }
    readiness ready = may_read(s, record, error) ? resolve(s, &l->job, error) : REFUSE;
    if (ready == HOLD)
        return HOLD;
    /* What is not known to be done may have to run again after a fault. So a request that destroys
     * an input of one before it in the stream starts only after that one's end is written. */
    if (p->overwrites > l->signalled && signal_lane(s, actor, error) != TRP_OK)
        return BROKEN;
    /* The time of a request with a deadline begins when the end of what is before it is seen. */
    if (record->timed && l->unsignalled && signal_lane(s, actor, error) != TRP_OK)
        return BROKEN;
    /* A refused request waits too: those after it rely on it having waited for their causes. */
    trp_error waiting;
    if (p->waits_for && wait_for_causes(s, actor, p, &waiting) != TRP_OK) {
        *error = waiting;
        return BROKEN;
    }
    return ready;
}

/* The last look before the work begins. Who cancels a request marks it and then looks whether it is
 * issued; here it is the other way round. All four accesses are sequentially consistent, so if the
 * other side does not see `issued`, this one sees the mark. */
static trp_status begin(trp__scheduler *s, uint32_t actor, uint32_t slot, trp_error *error)
{
    const trp__record *record = &s->control->record[slot];
    if (tracing(s))
        trp__tracer_issue(&s->tracer, actor, slot, record->ticket);
    TRP__FAULT_POINT(ISSUE_UNMARKED);
    atomic_store(&s->reply->issued[actor].value, record->ticket);
    TRP__FAULT_POINT(ISSUE_MARKED);
    return atomic_load(&record->cancelled) == record->ticket
               ? trp__refusal(error, TRP_E_CANCELLED, 0)
               : TRP_OK;
}

/* A request was refused, or its actor could not do it. */
static void note_failure(trp__scheduler *s, const lane *l, const trp_error *error)
{
    trp__poisons_add(&s->poisons, l->job.record, l->job.api.progress > 0);
    reply_error(s, l->head, error);
}

/* Takes the first request of a lane off it: its work, so many operations, or its error, is in its
 * place. */
static void leave_lane(trp__scheduler *s, uint32_t actor, uint64_t ticket, uint64_t operations)
{
    lane *l = &s->lane[actor];
    l->last_slot = l->head;
    l->head = s->pending[l->head].next;
    if (l->head == NO_SLOT) {
        l->tail = NO_SLOT;
        s->queued &= ~bit(actor);
    }
    l->job.api.progress = 0;
    l->issued = ticket;
    l->unsignalled++;
    trp__window_add(&l->window, operations);
    s->to_signal |= bit(actor);
}

/* Gives an actor to the side thread once all that it has in its stream is signalled. */
static trp_status restart_lane(trp__scheduler *s, uint32_t actor, trp_error *error)
{
    trp_error cause = *error;
    trp_status status = signal_lane(s, actor, error);
    if (status == TRP_OK)
        trp__actor_restart(s->worker, actor, s->lane[actor].issued, &cause);
    return status;
}

/* Operations in a stream that are not known to be done; more than a few only if they are not. */
static uint32_t backlog(trp__scheduler *s, uint32_t actor)
{
    trp__window *w = &s->lane[actor].window;
    if (w->enqueued - w->done >= LOOK_FROM)
        trp__window_look(w, timeline(s, actor));
    return (uint32_t)(w->enqueued - w->done);
}

/* Gives a request to its actor. */
static trp_status hand_over(trp__scheduler *s, trp__instance *instance, trp__job *job,
                            trp_error *error)
{
    if (__builtin_expect(!s->nvtx, 1))
        return trp__actor_handle(instance, job, error);
    trp__nvtx_push(instance, job->record);
    trp_status status = trp__actor_handle(instance, job, error);
    trp__nvtx_pop();
    return status;
}

/* Issues the first request of a lane. Returns TRP__AGAIN if it must stay, TRP_OK if it is issued or
 * refused, and another status if the worker must end. */
static trp_status issue_head(trp__scheduler *s, uint32_t actor, trp_error *error)
{
    lane *l = &s->lane[actor];
    uint32_t slot = l->head;
    const trp__record *record = &s->control->record[slot];
    uint64_t ticket = record->ticket;
    trp__instance *instance = &s->worker->actor[actor].instance;
    trp__directive directive = TRP__DIRECTIVE_REPLY;
    trp_status status = TRP_OK;

    if (l->job.api.progress == 0) {
        trp__job_begin(&l->job, record);
        readiness ready = prepare(s, actor, &s->pending[slot], error);
        if (ready == HOLD)
            return TRP__AGAIN;
        if (ready == BROKEN)
            return error->status;
        status = ready == REFUSE ? error->status : begin(s, actor, slot, error);
        if (status != TRP_OK && !trp__is_refusal(status) && trp__is_broken(s->worker, error))
            directive = TRP__DIRECTIVE_RESTART_CONTEXT;
    }
    if (status == TRP_OK) {
        /* What comes next is in this processor's cache by the time it is looked at. */
        uint32_t next = s->pending[slot].next;
        if (next != NO_SLOT)
            __builtin_prefetch(&s->control->record[next]);
        instance->api.backlog = backlog(s, actor);
        status = hand_over(s, instance, &l->job, error);
        if (__builtin_expect(status != TRP_OK && status != TRP__AGAIN, 0))
            status = trp__obey(s->worker, instance, &l->job, error, &directive);
        if (status == TRP__AGAIN) {
            TRP__FAULT_POINT(ISSUE_IN_PARTS);
            return status;
        }
        TRP__FAULT_POINT(ISSUE_HANDLED);
    }
    if (__builtin_expect(status != TRP_OK, 0)) {
        if (directive == TRP__DIRECTIVE_RESTART_CONTEXT)
            return TRP_E_FAULT;
        note_failure(s, l, error);
        TRP__FAULT_POINT(ISSUE_ERROR_REPLIED);
    } else if (s->poisons.count > 0) {
        trp__poisons_heal(&s->poisons, record, s->control);
    }

    leave_lane(s, actor, ticket, 1);
    if (directive == TRP__DIRECTIVE_RESTART_ACTOR)
        return restart_lane(s, actor, error);
    bool end_now = l->unsignalled >= SIGNAL_BATCH || record->timed ||
                   (tracing(s) && trp__tracer_wants_end(&s->tracer, actor));
    return end_now ? signal_lane(s, actor, error) : TRP_OK;
}

/* Joining. Requests at the front of a lane that are alike and independent go to their actor in one
 * call. Each is otherwise what it would be by itself: it has its ticket, its accesses are resolved,
 * it can be cancelled up to the last moment, and after a fault it is one of those in flight. */

/* Begins the jobs of those at the front of a lane that their actor would join; returns how many. */
static uint32_t find_joined(trp__scheduler *s, uint32_t actor)
{
    const lane *l = &s->lane[actor];
    trp__worker_actor *a = &s->worker->actor[actor];
    trp__instance *instance = &a->instance;
    const trp__record *first = &s->control->record[l->head];
    uint32_t slot = s->pending[l->head].next, count = 1;
    /* Until the actor is ready its instance is the side thread's. */
    if (slot == NO_SLOT || atomic_load_explicit(&a->state, memory_order_acquire) != TRP__READY ||
        !instance->impl->joins || l->job.api.progress != 0 || s->nvtx || s->poisons.count > 0 ||
        first->timed || first->ticket <= l->apart)
        return 0;
    trp__job_begin(&s->joined[0], first);
    if (!instance->impl->joins(&instance->api, &s->joined[0].api, &s->joined[0].api))
        return 0;
    for (; slot != NO_SLOT && count < TRP_ACTOR_JOINED_MAX; slot = s->pending[slot].next) {
        const pending *p = &s->pending[slot];
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

/* A request that destroys an input of one before it in the stream, see prepare(). */
static trp_status signal_overwritten(trp__scheduler *s, uint32_t actor, uint32_t count,
                                     trp_error *error)
{
    const lane *l = &s->lane[actor];
    uint32_t slot = l->head;
    trp_status status = TRP_OK;
    for (uint32_t i = 0; i < count && status == TRP_OK; i++, slot = s->pending[slot].next) {
        if (s->pending[slot].overwrites > l->signalled)
            status = signal_lane(s, actor, error);
    }
    return status;
}

/* Leaves in *count those that can be begun now, from the first on, and marks them as issued. An
 * error means that the worker must end. */
static trp_status begin_joined(trp__scheduler *s, uint32_t actor, uint32_t *count, trp_error *error)
{
    lane *l = &s->lane[actor];
    uint32_t found = *count, ready = 1, slot = l->head;
    *count = 0;
    trp__job_begin(&l->job, &s->control->record[l->head]);
    trp_status status = signal_overwritten(s, actor, found, error);
    readiness first = status == TRP_OK ? prepare(s, actor, &s->pending[l->head], error) : BROKEN;
    if (first != GO)
        return first == BROKEN ? error->status : TRP_OK;
    s->joined[0] = l->job;
    while (ready < found && may_read(s, s->joined[ready].record, error) &&
           resolve(s, &s->joined[ready], error) == GO)
        ready++;
    for (uint32_t i = 0; i < ready; i++, slot = s->pending[slot].next) {
        if (begin(s, actor, slot, error) != TRP_OK)
            break;
        ++*count;
    }
    return TRP_OK;
}

/* Issues what can be joined at the front of a lane; says how many in *count. If that is 0, the
 * first one goes by itself, which also finds out why if something is wrong. */
static trp_status issue_joined(trp__scheduler *s, uint32_t actor, uint32_t *count, trp_error *error)
{
    lane *l = &s->lane[actor];
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
        leave_lane(s, actor, s->joined[i].record->ticket, i == 0);
    *count = found;
    return l->unsignalled >= SIGNAL_BATCH ? signal_lane(s, actor, error) : TRP_OK;
}

/* Whether a lane's timeline write may wait for more requests to share it: as long as they are few
 * against what is in the stream before them, so that their ends are not seen much later than they
 * come. Between two kernels a write costs a GPU as much as an empty kernel (2.7 us on an H200). */
static bool may_share_more(trp__scheduler *s, uint32_t actor)
{
    lane *l = &s->lane[actor];
    uint64_t before = l->window.enqueued - l->window.done;
    if (l->unsignalled * SHARING >= before)
        return false;
    trp__window_look(&l->window, timeline(s, actor)); /* what is known to be done is old */
    before = l->window.enqueued - l->window.done;
    return l->unsignalled * SHARING < before;
}

/* Whether a lane must wait until its stream has moved on. */
static trp_status hold_if_full(trp__scheduler *s, uint32_t actor, bool *hold, trp_error *error)
{
    trp__window *window = &s->lane[actor].window;
    *hold = trp__window_seems_full(window) && trp__window_full(window, timeline(s, actor));
    s->full = s->full || *hold;
    return *hold && (s->to_signal & bit(actor)) && !may_share_more(s, actor)
               ? signal_lane(s, actor, error)
               : TRP_OK;
}

/* Issues what can be issued; counts it in *issued. */
static trp_status issue_some(trp__scheduler *s, uint32_t *issued, trp_error *error)
{
    bool hold;
    s->polling = s->full = false;
    for (uint64_t lanes = s->queued; lanes; lanes &= lanes - 1) {
        uint32_t actor = (uint32_t)__builtin_ctzll(lanes);
        const lane *l = &s->lane[actor];
        for (int i = 0; i < TAKE_BATCH && l->head != NO_SLOT; i++) {
            uint64_t progress = l->job.api.progress;
            trp_status status = hold_if_full(s, actor, &hold, error);
            if (status == TRP_OK && hold)
                break;
            uint32_t joined = 0;
            if (status == TRP_OK)
                status = issue_joined(s, actor, &joined, error);
            s->take_most = joined ? TRP_ACTOR_JOINED_MAX : TAKE_BATCH;
            *issued += joined;
            if (status == TRP_OK && joined)
                continue;
            if (status == TRP_OK)
                status = issue_head(s, actor, error);
            if (status == TRP__AGAIN) {
                s->polling = true;
                *issued += l->job.api.progress != progress;
                break;
            }
            if (status != TRP_OK)
                return status;
            ++*issued;
        }
    }
    return TRP_OK;
}

static trp_status signal_all(trp__scheduler *s, trp_error *error)
{
    trp_status status = TRP_OK;
    while (s->to_signal && status == TRP_OK)
        status = signal_lane(s, (uint32_t)__builtin_ctzll(s->to_signal), error);
    return status;
}

static trp_status signal_some(trp__scheduler *s, trp_error *error)
{
    trp_status status = TRP_OK;
    for (uint64_t rest = s->to_signal; rest && status == TRP_OK; rest &= rest - 1) {
        uint32_t actor = (uint32_t)__builtin_ctzll(rest);
        if (!may_share_more(s, actor))
            status = signal_lane(s, actor, error);
    }
    return status;
}

/* Idling. */

static bool anything_in_flight(trp__scheduler *s)
{
    for (uint64_t rest = s->in_flight; rest; rest &= rest - 1) {
        uint32_t actor = (uint32_t)__builtin_ctzll(rest);
        if (timeline(s, actor) >= s->lane[actor].signalled)
            s->in_flight &= ~bit(actor);
    }
    return s->in_flight != 0;
}

/* Has those woken who sleep until the last request of a lane ends: the device tells of it sooner
 * than they would look by themselves. Who waits for one before it looks now and then. */
static void announce_ends(trp__scheduler *s)
{
    for (uint64_t rest = s->in_flight; rest; rest &= rest - 1) {
        uint32_t actor = (uint32_t)__builtin_ctzll(rest);
        lane *l = &s->lane[actor];
        const trp__record *record = &s->control->record[l->last_slot];
        trp_error ignored;
        const trp__worker_actor *a = &s->worker->actor[actor];
        if (l->announced == l->signalled || l->signalled != l->issued ||
            atomic_load_explicit(&record->sleepers, memory_order_relaxed) == 0 ||
            atomic_load(&a->state) != TRP__READY) /* else its stream may be about to go */
            continue;
        if (s->backend->stream_wake(a->instance.stream, (_Atomic uint32_t *)&record->ended,
                                    &ignored) == TRP_OK)
            l->announced = l->signalled;
    }
}

/* Sleeps until the doorbell rings. The application rings it if it sees `sleeping` set after it has
 * published a request; all four accesses are sequentially consistent, so one of the two sees the
 * other's. */
static void sleep_idle(trp__scheduler *s, int64_t timeout_ns)
{
    const _Atomic uint32_t *doorbell = &s->control->doorbell;
    uint32_t seen = atomic_load(doorbell);
    atomic_store(&s->reply->sleeping, 1);
    TRP__FAULT_POINT(SCHEDULER_SLEEPS);
    if (!ring_has(s) && !atomic_load(&s->worker->stop))
        trp__futex_wait(doorbell, seen, timeout_ns);
    atomic_store(&s->reply->sleeping, 0);
}

typedef struct idleness {
    int64_t since; /* 0: not idle */
    int64_t asked; /* when the device's health was asked last */
    uint32_t spins;
} idleness;

static trp_status idle_step(trp__scheduler *s, idleness *idle, trp_error *error)
{
    trp__relax();
    if (++idle->spins % 64 != 0)
        return TRP_OK;
    int64_t now = trp__now_ns();
    if (idle->since == 0)
        idle->since = now;
    bool in_flight = anything_in_flight(s);
    if (in_flight && now - idle->asked > HEALTH_NS) {
        idle->asked = now;
        trp_status status = s->backend->health(s->worker->accel, error);
        if (status != TRP_OK)
            return status;
    }
    if (now - idle->since < s->spin_ns)
        return TRP_OK;
    if (s->to_signal) /* nobody would, asleep */
        return signal_all(s, error);
    if (in_flight)
        announce_ends(s);
    /* Requests of the last worker are taken one by one; nobody announces when the next may be. */
    bool soon = s->polling || s->resumed < s->control->resume_count;
    if (tracing(s)) {
        trp__tracer_look(&s->tracer); /* what ended since the last turn, before a long sleep */
        soon = soon || in_flight;
    }
    /* A full stream has much to do before it is empty. */
    int64_t held = (now - idle->since) / HELD_SHARE;
    held = held < SHORT_NAP_NS ? SHORT_NAP_NS : held;
    int64_t nap = (now - idle->since) / NAP_SHARE;
    nap = nap < NAP_NS ? NAP_NS : nap > NAP_MAX_NS ? NAP_MAX_NS : nap;
    sleep_idle(s, soon                       ? SHORT_NAP_NS
                  : s->full && held < NAP_NS ? held
                  : s->full                  ? NAP_NS
                  : in_flight                ? nap
                                             : -1);
    return TRP_OK;
}

trp_status trp__scheduler_run(trp__scheduler *s, trp_error *error)
{
    idleness idle = {0};
    s->next = s->control->resume_start;
    prctl(PR_SET_TIMERSLACK, 1000UL);
    while (!atomic_load_explicit(&s->worker->stop, memory_order_acquire)) {
        uint64_t turn = atomic_load_explicit(&s->worker->turns, memory_order_relaxed);
        atomic_store_explicit(&s->worker->turns, turn + 1, memory_order_release);
        if (tracing(s))
            trp__tracer_look(&s->tracer);
        uint32_t moved = take_some(s);
        trp_status status = s->queued ? issue_some(s, &moved, error) : TRP_OK;
        if (status == TRP_OK && s->to_signal && must_stay_alone(s))
            status = signal_all(s, error);
        if (status == TRP_OK && s->to_signal && !ring_has(s))
            status = signal_some(s, error);
        if (status == TRP_OK) {
            if (moved)
                idle.since = 0;
            else
                status = idle_step(s, &idle, error);
        }
        if (status != TRP_OK) {
            if (error->status != TRP_E_FAULT &&
                s->backend->health(s->worker->accel, error) == TRP_OK)
                error->fault = TRP_FAULT_LIBRARY; /* a stream that can't be signalled is broken */
            return TRP_E_FAULT;
        }
    }
    return TRP_OK;
}

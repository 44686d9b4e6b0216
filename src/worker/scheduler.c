/* The scheduler: takes requests from the ring in ticket order, finds the causes of each, and issues
 * it to its actor's stream.
 *
 * Tickets give every request of the device a place in one total order, so "earlier" means the same
 * for all: whatever a request waits for has a smaller ticket, and no cycle can form. An actor's
 * requests stay in order among themselves; actors overtake each other freely. A request is issued
 * only after everything that it waits for has been issued, because streams share hardware queues
 * and a wait ahead of its own cause would never end. */
#include "base/os/clock.h"
#include "base/os/cpu.h"
#include "base/error.h"
#include "base/os/futex.h"
#include "base/os/zeroed.h"
#include "worker/nvtx.h"
#include "worker/scheduler.h"

#include <string.h>
#include <sys/prctl.h>

enum {
    TAKE_BATCH = 32, /* requests taken before issuing again */
    LOOK_FROM = 128, /* this number of operations in a stream is counted again */
    SHARING = 8,     /* ... if the stream has this many times as many operations */
};

#define SPIN_NS       (200 * TRP__US) /* how long an idle scheduler spins before it sleeps */
#define SPIN_SHORT_NS (2 * TRP__US)   /* the same where cores are few */
#define SPIN_PARTS_NS (TRP__MS)       /* the same for the next part of a request, with many cores */
#define HEALTH_NS     (250 * TRP__US) /* between calls of health() while work is in flight */
#define HEALTH_MAX_NS (4 * TRP__MS)   /* the same while requests come and go */
#define NAP_NS        (500 * TRP__US) /* sleep while work is in flight, at first; */
#define NAP_SHARE     8               /* later this part of the time since the last event, */
#define NAP_MAX_NS    (4 * TRP__MS)   /* up to this */
#define SHORT_NAP_NS  (20 * TRP__US)  /* sleep while something without a wake-up is awaited, */
#define SOON_SHARE    16              /* later this part of the time waited, up to NAP_NS */
#define HELD_SHARE    8               /* the same while a lane is full, which takes longer to end */

trp__scheduler *trp__scheduler_create(trp__worker *worker)
{
    trp__scheduler *s = trp__zeroed(sizeof *s); /* large and mostly never touched */
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
        s->lane[a].head = s->lane[a].tail = TRP__NO_SLOT;
    return s;
}

void trp__scheduler_destroy(trp__scheduler *s)
{
    if (s) {
        trp__usages_free(s);
        trp__poisons_free(&s->poisons);
    }
    trp__zeroed_free(s, sizeof *s);
}

/* Taking. */

/* The application orders reuse of memory: it saw the first request's end before it sent the second.
 * ThreadSanitizer does not see that order through the other process. */
static void show_order_to_tsan(const trp__scheduler *s)
{
#ifdef __SANITIZE_THREAD__
    for (uint32_t a = 0; a < TRP__ACTORS; a++)
        (void)trp__timeline(s, a);
    for (uint32_t i = 0; i < TRP__STREAMS; i++)
        (void)atomic_load(&s->reply->timelines.stream_done[i].value);
#else
    (void)s;
#endif
}

static void take(trp__scheduler *s, uint32_t slot)
{
    const trp__record *record = &s->control->record[slot];
    trp__pending *p = &s->pending[slot];
    uint32_t actor = record->actor % TRP__ACTORS;
    uint32_t count = record->access_count;
    show_order_to_tsan(s);
    p->next = TRP__NO_SLOT;
    p->waits_for = p->destroys = 0;
    p->overwrites = 0;
    p->follows = 0;
    for (uint32_t i = 0; i < count && i < TRP__ACCESS_MAX; i++)
        trp__usage_note(s, p, record, &record->access[i]);

    trp__lane *l = &s->lane[actor];
    if (l->tail == TRP__NO_SLOT)
        l->head = slot;
    else
        s->pending[l->tail].next = slot;
    l->tail = slot;
    s->queued |= trp__bit(actor);
}

/* Sequentially consistent for sleep_idle(); on x86-64 that is an ordinary load. */
static bool ring_has(const trp__scheduler *s)
{
    const trp__cell *cell = &s->control->ring[s->next % TRP__RING];
    return atomic_load(cell) >> TRP__SLOT_BITS == s->next;
}

/* Prefetches the next records, which lie in the sender's cache, all at once. */
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
        if (trp__tracing(s)) /* the application has read the one before */
            __builtin_prefetch(&s->reply->issue_stamp[cell & (TRP__SLOTS - 1)], 1);
    }
}

static bool anything_in_flight(trp__scheduler *s);

/* Returns whether the next request has to wait: requests that were in flight when a worker died run
 * alone, so that one that kills this worker too is known to be the culprit. */
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
        /* With another ticket the request was ended before it was taken. */
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

trp_status trp__signal_lane(trp__scheduler *s, uint32_t actor, trp_error *error)
{
    trp__lane *l = &s->lane[actor];
    trp__instance *instance = &s->worker->actor[actor].instance;
    _Atomic uint64_t *word = &s->reply->timelines.timeline[actor].value;
    s->to_signal &= ~trp__bit(actor);
    l->unsignalled = 0;
    l->signalled = l->issued;
    if (!instance->stream) { /* nothing can be in flight */
        l->window.done = l->window.enqueued;
        atomic_store_explicit(word, l->issued, memory_order_release);
        return TRP_OK;
    }
    s->in_flight |= trp__bit(actor);
    trp__window_mark(&l->window, l->issued);
    TRP__FAULT_POINT(SIGNAL_ENQUEUEING);
    trp_status status = (trp__only_copies(actor)
                             ? s->backend->stream_signal_beside
                             : s->backend->stream_signal)(instance->stream, word, l->issued, error);
    TRP__FAULT_POINT(SIGNAL_ENQUEUED);
    return status;
}

static void reply_error(trp__scheduler *s, uint32_t slot, const trp_error *error)
{
    trp__reply_error *reply = &s->reply->error[slot];
    reply->status = error->status;
    reply->code = error->code;
    reply->cause = error->cause_request;
    trp__copy_string(reply->domain, sizeof reply->domain, error->domain);
    trp__copy_string(reply->message, sizeof reply->message, error->message);
    atomic_store_explicit(&reply->ticket, s->control->record[slot].ticket, memory_order_release);
}

/* Notes a refused or failed request. */
static void note_failure(trp__scheduler *s, const trp__lane *l, const trp_error *error)
{
    trp__poisons_add(&s->poisons, l->job.record, l->job.api.progress > 0);
    reply_error(s, l->head, error);
}

/* Signals an actor's stream and gives the actor to the side thread for a restart. */
static trp_status restart_lane(trp__scheduler *s, uint32_t actor, trp_error *error)
{
    trp_error cause = *error;
    trp_status status = trp__signal_lane(s, actor, error);
    if (status == TRP_OK)
        trp__actor_restart(s->worker, actor, s->lane[actor].issued, &cause);
    return status;
}

/* Returns the operations in a stream not known to be done; exact only from LOOK_FROM on. */
static uint32_t backlog(trp__scheduler *s, uint32_t actor)
{
    trp__window *w = &s->lane[actor].window;
    if (w->enqueued - w->done >= LOOK_FROM)
        trp__window_look(w, trp__timeline(s, actor));
    return (uint32_t)(w->enqueued - w->done);
}

/* Calls the actor for a request, within an NVTX range if wanted. */
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

/* Publishes whether the first request of a lane waits for a plan or kernel of its actor. Not while
 * the actor is called, which may begin the request's work. */
static void note_waiting(trp__scheduler *s, uint32_t actor, bool waiting)
{
    trp__lane *l = &s->lane[actor];
    if (l->waiting == waiting)
        return;
    l->waiting = waiting;
    atomic_store(&s->reply->waiting[actor].value, waiting ? s->control->record[l->head].ticket : 0);
}

/* Issues the first request of a lane. Returns TRP__AGAIN if it must stay, TRP_OK if it is issued or
 * refused, and another status if the worker must end. */
static trp_status issue_head(trp__scheduler *s, uint32_t actor, trp_error *error)
{
    trp__lane *l = &s->lane[actor];
    uint32_t slot = l->head;
    const trp__record *record = &s->control->record[slot];
    uint64_t ticket = record->ticket;
    trp__instance *instance = &s->worker->actor[actor].instance;
    trp__directive directive = TRP__DIRECTIVE_REPLY;
    trp_status status = TRP_OK;

    if (l->job.api.progress == 0) {
        trp__job_begin(&l->job, record);
        trp__readiness ready = trp__prepare(s, actor, &s->pending[slot], error);
        if (ready == TRP__HOLD)
            return TRP__AGAIN;
        if (ready == TRP__BROKEN)
            return error->status;
        status = ready == TRP__REFUSE ? error->status : trp__begin(s, actor, slot, error);
        if (status != TRP_OK && !trp__is_refusal(status) && trp__is_broken(s->worker, error))
            directive = TRP__DIRECTIVE_RESTART_CONTEXT;
    }
    if (status == TRP_OK) {
        /* Prefetches the next record. */
        uint32_t next = s->pending[slot].next;
        if (next != TRP__NO_SLOT)
            __builtin_prefetch(&s->control->record[next]);
        instance->api.backlog = backlog(s, actor);
        note_waiting(s, actor, false);
        status = hand_over(s, instance, &l->job, error);
        if (__builtin_expect(status != TRP_OK && status != TRP__AGAIN, 0))
            status = trp__obey(s->worker, instance, &l->job, error, &directive);
        if (status == TRP__AGAIN) {
            atomic_fetch_add_explicit(&s->reply->again, 1, memory_order_relaxed);
            note_waiting(s, actor, l->job.api.progress == 0 && !instance->makes);
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
        trp__poisons_heal(&s->poisons, record);
    }

    trp__leave_lane(s, actor, ticket, 1);
    if (directive == TRP__DIRECTIVE_RESTART_ACTOR)
        return restart_lane(s, actor, error);
    bool end_now = l->unsignalled >= TRP__SIGNAL_BATCH || record->timed ||
                   (trp__tracing(s) && trp__tracer_wants_end(&s->tracer, actor));
    return end_now ? trp__signal_lane(s, actor, error) : TRP_OK;
}

/* Returns whether a lane's timeline write may wait for more requests to share it: as long as they
 * are few compared with the work in the stream before them, so that their ends are not seen much
 * late. Between two kernels a write costs a GPU as much as an empty kernel (2.7 us on an H200). */
static bool may_share_more(trp__scheduler *s, uint32_t actor)
{
    trp__lane *l = &s->lane[actor];
    uint64_t before = l->window.enqueued - l->window.done;
    if (l->unsignalled * SHARING >= before)
        return false;
    trp__window_look(&l->window, trp__timeline(s, actor)); /* `done` may be old */
    before = l->window.enqueued - l->window.done;
    return l->unsignalled * SHARING < before;
}

/* Whether a lane must wait until its stream has moved on. */
static trp_status hold_if_full(trp__scheduler *s, uint32_t actor, bool *hold, trp_error *error)
{
    trp__window *window = &s->lane[actor].window;
    *hold = trp__window_seems_full(window) && trp__window_full(window, trp__timeline(s, actor));
    s->full = s->full || *hold;
    return *hold && (s->to_signal & trp__bit(actor)) && !may_share_more(s, actor)
               ? trp__signal_lane(s, actor, error)
               : TRP_OK;
}

/* Issues what can be issued; counts it in *issued. */
static trp_status issue_some(trp__scheduler *s, uint32_t *issued, trp_error *error)
{
    bool hold;
    s->polling = s->full = false;
    for (uint64_t lanes = s->queued; lanes; lanes &= lanes - 1) {
        uint32_t actor = (uint32_t)__builtin_ctzll(lanes);
        const trp__lane *l = &s->lane[actor];
        for (int i = 0; i < TAKE_BATCH && l->head != TRP__NO_SLOT; i++) {
            uint64_t progress = l->job.api.progress;
            trp_status status = hold_if_full(s, actor, &hold, error);
            if (status == TRP_OK && hold)
                break;
            uint32_t joined = 0;
            if (status == TRP_OK && trp__may_join(s, actor))
                status = trp__issue_joined(s, actor, &joined, error);
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
        status = trp__signal_lane(s, (uint32_t)__builtin_ctzll(s->to_signal), error);
    return status;
}

static trp_status signal_some(trp__scheduler *s, trp_error *error)
{
    trp_status status = TRP_OK;
    for (uint64_t rest = s->to_signal; rest && status == TRP_OK; rest &= rest - 1) {
        uint32_t actor = (uint32_t)__builtin_ctzll(rest);
        if (!may_share_more(s, actor))
            status = trp__signal_lane(s, actor, error);
    }
    return status;
}

/* Idling. */

static bool anything_in_flight(trp__scheduler *s)
{
    for (uint64_t rest = s->in_flight; rest; rest &= rest - 1) {
        uint32_t actor = (uint32_t)__builtin_ctzll(rest);
        if (trp__timeline(s, actor) >= s->lane[actor].signalled)
            s->in_flight &= ~trp__bit(actor);
    }
    return s->in_flight != 0;
}

/* Wakes sleepers when the last request of a lane ends, sooner than they would poll. Waiters for
 * earlier requests poll. */
static void announce_ends(trp__scheduler *s)
{
    for (uint64_t rest = s->in_flight; rest; rest &= rest - 1) {
        uint32_t actor = (uint32_t)__builtin_ctzll(rest);
        trp__lane *l = &s->lane[actor];
        const trp__record *record = &s->control->record[l->last_slot];
        trp_error ignored;
        const trp__worker_actor *a = &s->worker->actor[actor];
        if (l->announced == l->signalled || l->signalled != l->issued ||
            atomic_load_explicit(&record->sleepers, memory_order_relaxed) == 0 ||
            atomic_load(&a->state) != TRP__READY) /* else its stream may be about to be destroyed */
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
    int64_t asked; /* the last call of health() */
    uint32_t spins;
} idleness;

static int64_t between(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static trp_status idle_step(trp__scheduler *s, idleness *idle, trp_error *error)
{
    trp__relax();
    if (++idle->spins % 64 != 0)
        return TRP_OK;
    int64_t now = trp__now_ns();
    if (idle->since == 0)
        idle->since = now;
    bool in_flight = anything_in_flight(s);
    /* A polling request may wait for work of an actor's side thread on the device. health() takes
     * some microseconds for each stream, which would delay a request that is about to end. */
    const int64_t asked = now - idle->asked;
    if ((in_flight || s->polling) &&
        (asked > HEALTH_MAX_NS || (asked > HEALTH_NS && now - idle->since > s->spin_ns / 2))) {
        idle->asked = now;
        trp_status status = s->backend->health(s->worker->accel, error);
        if (status != TRP_OK)
            return status;
    }
    bool many = s->spin_ns == SPIN_NS;
    if (now - idle->since < (s->polling && many ? SPIN_PARTS_NS : s->spin_ns))
        return TRP_OK;
    if (s->to_signal) /* before sleeping */
        return signal_all(s, error);
    if (in_flight)
        announce_ends(s);
    /* Requests of the last worker are taken one by one, without a wake-up for the next. */
    const bool soon = s->polling || s->resumed < s->control->resume_count;
    const bool traced = trp__tracing(s) && in_flight;
    trp__tracer_look(&s->tracer); /* notes ends before a long sleep */
    const int64_t waited = now - idle->since;
    sleep_idle(s, traced      ? SHORT_NAP_NS
                  : soon      ? between(waited / SOON_SHARE, SHORT_NAP_NS, NAP_NS)
                  : s->full   ? between(waited / HELD_SHARE, SHORT_NAP_NS, NAP_NS)
                  : in_flight ? between(waited / NAP_SHARE, NAP_NS, NAP_MAX_NS)
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

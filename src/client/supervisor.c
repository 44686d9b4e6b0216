/* The device's supervisor thread: starts the worker, takes its messages, notices its death, decides
 * what becomes of each request, and starts the next. */
#include "base/clock.h"
#include "base/error.h"
#include "client/client.h"
#include "client/points.h"
#include "client/trace.h"
#include "wire/directive.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#define QUEUE_NAP_MIN_NS (20 * TRP__US)
#define QUEUE_NAP_MAX_NS (500 * TRP__US)
#define DEADLINE_NAP_NS  (5 * TRP__MS)
#define MAKING_NAP_NS    (20 * TRP__MS)
#define BEGIN_NS         TRP__SECOND /* beyond its deadline, for a request to be begun */

/* Between a worker that could not be started and the next try: doubled each time. A standby is no
 * hurry. */
#define START_DELAY_MIN_NS   (10 * TRP__MS)
#define START_DELAY_MAX_NS   (1 * TRP__SECOND)
#define STANDBY_DELAY_MAX_NS (10 * TRP__SECOND)

/* Messages. */

enum { MESSAGES_AT_ONCE = 64 }; /* of one worker, before looking at anything else */

static void take_answer(trp_device *device, uint32_t index, trp__message *m)
{
    trp_error answer;
    trp__error_import(&answer, &m->error);
    m->error = answer;
    pthread_mutex_lock(&device->lock);
    bool active = index == device->active;
    trp__process *p = &device->worker[index];
    if (!trp__outbox_answered(&p->outbox, m->about, m->id)) {
        pthread_mutex_unlock(&device->lock);
        trp__process_breach(p, TRP_FAULT_BROKEN, "answered what nobody had asked");
        return;
    }
    trp_actor *actor = m->id < TRP__ACTORS ? atomic_load(&device->actor[m->id]) : NULL;
    if (m->about == TRP__MSG_ACTOR && actor) {
        trp__making_answered(device, index, actor, &m->error);
    } else if (m->about == TRP__MSG_HOST && m->id < TRP__HOST_SEGMENTS) {
        if (active && !device->segment[m->id].answered) {
            device->segment[m->id].answer = m->error;
            device->segment[m->id].answered = true;
        } else if (!active && m->error.status != TRP_OK) {
            atomic_store(&device->standby_unwanted, true);
        }
    } else if (trp__seal_answered(device, index, m)) {
        /* whoever seals or unseals waits for the broadcast */
    } else if (m->about == TRP__MSG_ARENA && m->error.status != TRP_OK) {
        trp__log_line(&device->system->log, TRP__LOG_ERROR, "arena %u can't be mapped: %s", m->id,
                      m->error.message);
        if (!active)
            atomic_store(&device->standby_unwanted, true);
    } else {
        trp__number_answered(device, index, m);
    }
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    TRP__DEVICE_POINT(device, ANSWER_TAKEN);
}

static void welcome_standby(trp_device *device, uint32_t index)
{
    uint32_t incarnation = device->worker[index].incarnation;
    trp__process_welcome(device, index);
    trp__notice_post(device, TRP_NOTICE_STANDBY_READY, incarnation, trp__now_ns(), 0, NULL);
}

static void take_message(trp_device *device, uint32_t index, trp__message *m)
{
    trp__process *p = &device->worker[index];
    if (m->type == TRP__MSG_ANSWER && p->ready)
        take_answer(device, index, m);
    else if (m->type == TRP__MSG_READY && !p->ready)
        welcome_standby(device, index);
    else if (m->type == TRP__MSG_NOTICE && index == device->active)
        trp__notice_relay(device, p->incarnation, m);
    else if (m->type == TRP__MSG_REFUSE)
        trp__process_refusal(m, &p->refusal);
    else if (m->type != TRP__MSG_FAULT)
        trp__process_breach(p, TRP_FAULT_BROKEN, "sent a message that makes no sense");
    if (m->type == TRP__MSG_FAULT || m->type == TRP__MSG_REFUSE)
        p->closed = true; /* it is about to end */
}

/* Takes what a worker has sent. *gone is set when it has closed its end, or reported a fault, or
 * can't be understood. */
void trp__take_messages(trp_device *device, uint32_t index, bool *gone)
{
    trp__process *p = &device->worker[index];
    for (int i = 0; i < MESSAGES_AT_ONCE && p->socket >= 0 && !p->breach && !p->closed; i++) {
        trp__message m;
        int fds[TRP__MESSAGE_FDS];
        bool closed = false;
        trp_status status = trp__message_receive(p->socket, &m, fds, &closed, NULL);
        if (status == TRP_E_TIMEOUT)
            break;
        p->closed = closed;
        for (int k = 0; k < TRP__MESSAGE_FDS; k++) {
            if (fds[k] >= 0)
                close(fds[k]); /* a worker has no reason to send any */
        }
        if (status == TRP_OK)
            take_message(device, index, &m);
        else if (!closed)
            trp__process_breach(p, TRP_FAULT_BROKEN, "sent a message that can't be understood");
    }
    *gone = *gone || p->breach || p->closed;
}

/* After a fault. */

int trp__by_ticket(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Waits for senders that have a ticket below `end` but have not stored it into the ring yet: a
 * matter of nanoseconds, unless the scheduler takes their core. */
static void await_publication(trp_device *device, uint64_t end)
{
    uint64_t first = end > TRP__RING ? end - TRP__RING : 1;
    for (uint64_t ticket = first; ticket < end; ticket++) {
        const trp__cell *cell = &device->control->ring[ticket % TRP__RING];
        while (atomic_load_explicit(cell, memory_order_acquire) >> TRP__SLOT_BITS < ticket)
            sched_yield();
    }
}

/* Waits out threads that are ending a request, for they read the reply block. */
static uint64_t settled_state(trp__slot *slot)
{
    uint64_t state;
    while (trp__phase_of(state = atomic_load(&slot->state)) == TRP__RETIRING)
        sched_yield();
    return state;
}

/* Collects the cells of all pending requests from `begin` to `end`, in ticket order; also of those
 * that were cancelled and have ended, for the worker has yet to pass them. */
static uint32_t collect_pending(trp_device *device, uint64_t begin, uint64_t end)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < atomic_load(&device->slots_used); i++) {
        trp__slot *slot = &device->slot[i];
        uint64_t state = settled_state(slot);
        uint64_t detained = trp__detained(slot);
        uint64_t ticket = detained ? detained : atomic_load(&slot->ticket);
        if ((detained || trp__phase_of(state) == TRP__PENDING) && ticket >= begin && ticket < end)
            device->pending[count++] = ticket << TRP__SLOT_BITS | i;
    }
    qsort(device->pending, count, sizeof *device->pending, trp__by_ticket);
    return count;
}

static trp__slot *slot_of(trp_device *device, uint64_t cell)
{
    return &device->slot[cell & (TRP__SLOTS - 1)];
}

/* Ends a request that the dead worker finished, or refused. A large read is finished by copying
 * threads. */
static void finish(trp_device *device, trp__slot *slot, uint64_t ticket)
{
    trp__detained_pass(device, slot, ticket);
    uint64_t filled = device->seen.stream_done[TRP__LANE_DOWNLOAD];
    bool copied = atomic_load(&slot->stream) == TRP__LANE_DOWNLOAD &&
                  !trp__replied(device, slot->index, ticket) &&
                  trp__transfer_filled(device, slot, filled);
    for (;;) {
        uint64_t state = settled_state(slot);
        if (trp__phase_of(state) != TRP__PENDING || atomic_load(&slot->ticket) != ticket ||
            ((!copied || trp__transfer_drained(device, slot)) &&
             trp__retire(device, slot, state, NULL)))
            return;
        trp__sleep_ns(QUEUE_NAP_MIN_NS);
    }
}

/* Which failed request should have written what a request reads; 0 for none. Either it had failed
 * before, or this recovery has found out; the later one counts. A request that had failed already
 * may also come after this one, which then was begun before that, on good inputs. */
static uint64_t dependency(const trp_device *device, const trp__access *access, uint64_t ticket)
{
    const trp__buffer_meta *meta = &device->meta[access->slot];
    bool current = meta->judged_incarnation == atomic_load(&device->incarnation) &&
                   meta->judged_generation == access->generation;
    uint64_t now = current ? meta->judged_ticket : 0;
    if (now >= TRP__SCOPE_FIRST)
        return now;
    uint64_t before = trp__poison_standing(device, access->slot);
    before = before < ticket ? before : 0;
    uint64_t cause = before > now ? before : current && meta->judged_bad ? now : 0;
    return cause <= trp__accepted(access) ? 0 : cause;
}

/* A request that writes a buffer was judged: it fails, or goes on and writes all of it. */
static void set_dependency(trp_device *device, const trp__access *access, uint64_t ticket,
                           bool failed)
{
    trp__buffer_meta *meta = &device->meta[access->slot];
    meta->judged_incarnation = atomic_load(&device->incarnation);
    meta->judged_generation = access->generation;
    meta->judged_ticket = ticket;
    meta->judged_bad = failed;
}

/* Those that are judged after a failed request must not read what it should have written. */
static void spoil_outputs(trp_device *device, const trp__slot *slot)
{
    const trp__record *record = &device->control->record[slot->index];
    for (uint32_t i = 0; i < record->access_count; i++) {
        if (record->access[i].mode & TRP__WRITE)
            set_dependency(device, &record->access[i], record->ticket, true);
    }
}

static void fail(trp_device *device, trp__slot *slot, const trp_error *error)
{
    spoil_outputs(device, slot);
    /* Again if its future is dropped at this moment, which changes the state. */
    uint64_t state;
    while (trp__phase_of(state = settled_state(slot)) == TRP__PENDING &&
           !trp__retire(device, slot, state, error))
        continue;
}

/* Why a request can't run. */
typedef struct obstacle {
    trp_status status; /* TRP_OK: it can */
    uint64_t cause;
} obstacle;

static void describe_obstacle(const obstacle *o, trp_error *error)
{
    if (o->cause >= TRP__SCOPE_FIRST)
        trp__error_set(error, TRP_E_LOST,
                       "the worker that died may have written to an input of this request, and "
                       "fault_scope is all");
    else
        trp__refusal(error, o->status, o->cause);
}

/* Whether a request that was not issued yet can still run: what it reads must have been written. */
static bool can_run(trp_device *device, const trp__record *record, obstacle *found)
{
    *found = (obstacle){.status = (trp_status)record->refuse, .cause = record->cause};
    if (found->status != TRP_OK)
        return false;
    for (uint32_t i = 0; i < record->access_count; i++) {
        const trp__access *a = &record->access[i];
        uint64_t cause = a->mode & TRP__READ ? dependency(device, a, record->ticket) : 0;
        if (cause != 0) {
            bool lost = cause >= TRP__SCOPE_FIRST ||
                        atomic_load(&device->meta[a->slot].lost_ticket) == cause;
            *found = (obstacle){.status = lost ? TRP_E_LOST : TRP_E_DEPENDENCY, .cause = cause};
            return false;
        }
    }
    for (uint32_t i = 0; i < record->access_count; i++) {
        const trp__access *a = &record->access[i];
        if (trp__access_covers(device, a))
            set_dependency(device, a, record->ticket, false);
    }
    return true;
}

/* A request that can run again without anybody noticing: none of its outputs is also an input. What
 * it reads is still there, because the worker writes the end of a request before it starts another
 * that destroys its inputs. */
static bool is_idempotent(const trp__record *record)
{
    for (uint32_t i = 0; i < record->access_count; i++) {
        const trp__access *a = &record->access[i];
        if (!(a->mode & TRP__WRITE))
            continue;
        for (uint32_t k = 0; k < record->access_count; k++) {
            if (record->access[k].slot == a->slot && (record->access[k].mode & TRP__READ))
                return false;
        }
    }
    return true;
}

typedef struct judgement {
    const trp_error *cause;
    uint64_t hung;      /* the request that ran past its deadline, or was not begun in that time */
    uint32_t in_flight; /* how many requests the dead worker had begun and not finished */
    uint32_t victims;   /* the same, of all ranges */
    bool outsider;      /* somebody else may have killed the worker: no request need be guilty */
    bool second;        /* the second pass */
} judgement;

/* How far the worker had come with a request when it was last looked at. SUSPECT: it had not begun
 * it again, but one before it died of it, perhaps. */
typedef enum progress { GONE, QUEUED, SUSPECT, IN_FLIGHT, DONE } progress;

/* A request that was done may be ended by its waiter, and its slot used again, at any moment: what
 * is read of the slot counts only if it is pending with the same ticket afterwards. The others stay
 * so until the supervisor ends them. */
static progress progress_of(const trp_device *device, const trp__slot *slot, uint64_t ticket)
{
    uint32_t actor = atomic_load(&slot->actor) % TRP__ACTORS;
    progress p = device->seen.timeline[actor] >= ticket ? DONE
                 : device->seen.issued[actor] >= ticket ? IN_FLIGHT
                                                        : QUEUED;
    bool ended = trp__phase_of(atomic_load(&slot->state)) != TRP__PENDING;
    return ended || atomic_load(&slot->ticket) != ticket ? GONE : p;
}

/* The same for the judgement. What the worker has refused, or could not do, ends with what it said;
 * later requests on the same buffers may have run. What was cancelled and has ended counts for what
 * it would have written. */
static progress standing_of(const trp_device *device, const trp__slot *slot, uint64_t ticket)
{
    bool detained = trp__detained(slot) == ticket;
    uint32_t actor = atomic_load(&slot->actor) % TRP__ACTORS;
    progress p = !detained                                ? progress_of(device, slot, ticket)
                 : device->seen.timeline[actor] >= ticket ? DONE
                                                          : QUEUED;
    if ((p == QUEUED || p == IN_FLIGHT) && trp__replied(device, slot->index, ticket))
        return DONE;
    return p == QUEUED && atomic_load(&slot->deaths) > 0 ? SUSPECT : p;
}

/* Whether a request that was in flight may run again: not if it is known to have killed the worker,
 * and never a third time. */
static bool may_run_again(const judgement *j, const trp__slot *slot, const trp__record *record)
{
    if (j->hung)
        return slot->ticket != j->hung && slot->deaths < 2 && is_idempotent(record);
    bool guilty = j->in_flight == 1 && !j->outsider;
    return !guilty && slot->deaths < 2 && is_idempotent(record);
}

/* A request that can't run. In the second pass the next worker is left to refuse it: to end it here
 * would poison what it should have written, and who has looked at that already, with a later ticket
 * than are judged, would not know. The worker comes to all of them in their order. */
static void obstruct(trp_device *device, const judgement *j, trp__slot *slot, const obstacle *o)
{
    trp__control *control = device->control;
    trp__record *record = &control->record[slot->index];
    trp_error error;
    if (!j->second) {
        describe_obstacle(o, &error);
        fail(device, slot, &error);
        return;
    }
    record->refuse = (uint32_t)o->status;
    record->cause = o->cause < TRP__SCOPE_FIRST ? o->cause : record->ticket - 1;
    spoil_outputs(device, slot);
    control->resume[control->resume_count++] = slot->index;
}

/* Decides about one request; lists it for the next worker if it goes on. */
static void judge(trp_device *device, const judgement *j, uint64_t cell, progress p)
{
    trp__control *control = device->control;
    uint64_t ticket = cell >> TRP__SLOT_BITS;
    trp__slot *slot = slot_of(device, cell);
    const trp__record *record = &control->record[slot->index];
    trp_error error;
    obstacle found;
    TRP__DEVICE_POINT(device, JUDGE_REQUEST);
    if (p == DONE || p == GONE) { /* gone: a waiter may be at it; what it notes counts below */
        finish(device, slot, ticket);
        return;
    }
    if (trp__detained(slot) == ticket) {
        spoil_outputs(device, slot);
        trp__detained_pass(device, slot, ticket);
        return;
    }
    bool cancelled = p != IN_FLIGHT && atomic_load(&record->cancelled) == ticket;
    bool not_begun = p != IN_FLIGHT && ticket == j->hung && !cancelled;
    if (p == IN_FLIGHT || not_begun) {
        slot->deaths++; /* from now on nobody cancels it */
        atomic_store(&control->record[slot->index].cancelled, 0);
    }
    /* One that was not begun is not to blame for that, the first time. */
    if (not_begun ? slot->deaths > 1 : p == IN_FLIGHT && !may_run_again(j, slot, record)) {
        fail(device, slot, j->cause);
    } else if (p == QUEUED && cancelled) {
        trp__refusal(&error, TRP_E_CANCELLED, 0);
        fail(device, slot, &error);
    } else if (!can_run(device, record, &found)) {
        obstruct(device, j, slot, &found);
    } else {
        control->resume[control->resume_count++] = slot->index;
        if (p == IN_FLIGHT && trp__tracing(device))
            trp__trace_interrupted(device, slot, record);
    }
}

static void judge_those(trp_device *device, const judgement *j, uint32_t count, progress from,
                        progress to)
{
    for (uint32_t i = 0; i < count; i++) {
        progress p = (progress)device->pending_progress[i];
        if (p >= from && p <= to)
            judge(device, j, device->pending[i], p);
    }
}

/* With TRP_FAULT_SCOPE_ALL, before anything but the done requests below `end` is judged. */
static void lose_everything(trp_device *device, uint32_t count, uint64_t end)
{
    trp__scope_begin(device);
    for (uint32_t i = 0; i < count; i++) {
        progress p = (progress)device->pending_progress[i];
        if (p >= QUEUED && p <= IN_FLIGHT)
            trp__scope_cover(device,
                             &device->control->record[slot_of(device, device->pending[i])->index]);
    }
    trp__scope_end(device, end - 1);
}

/* Decides about the pending requests with tickets from `begin` to `end`, in the order in which they
 * were sent, but the done ones first and those in flight next: done ones end as they did; of those
 * in flight the guilty and those that can't run twice fail, the others run again, alone; those not
 * yet issued run unless an input will never come. */
static void judge_range(trp_device *device, judgement *j, uint64_t begin, uint64_t end)
{
    await_publication(device, end);
    uint32_t count = collect_pending(device, begin, end);
    TRP__DEVICE_POINT(device, JUDGE_COLLECTED);
    j->in_flight = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t cell = device->pending[i];
        progress p = standing_of(device, slot_of(device, cell), cell >> TRP__SLOT_BITS);
        device->pending_progress[i] = (uint8_t)p;
        j->in_flight += p == IN_FLIGHT;
    }
    j->victims += j->in_flight;
    judge_those(device, j, count, GONE, GONE);
    judge_those(device, j, count, DONE, DONE);
    if (begin == 0 && device->options.fault_scope == TRP_FAULT_SCOPE_ALL)
        lose_everything(device, count, end);
    TRP__DEVICE_POINT(device, JUDGE_DONE_ENDED);
    judge_those(device, j, count, SUSPECT, IN_FLIGHT);
    TRP__DEVICE_POINT(device, JUDGE_FLIGHT_DECIDED);
    if (begin == 0)
        device->control->resume_alone = device->control->resume_count;
    judge_those(device, j, count, QUEUED, QUEUED);
    TRP__DEVICE_POINT(device, JUDGE_RANGE_DECIDED);
}

/* Twice: requests that were being sent while the first pass marked contents as lost or poisoned may
 * have looked before the marks were there. Whoever takes a later ticket than the second pass sees
 * them; the second pass makes no more.
 * Returns how many were in flight. */
static uint32_t judge_requests(trp_device *device, const trp_error *cause, uint64_t hung,
                               bool outsider)
{
    trp__control *control = device->control;
    judgement j = {.cause = cause,
                   .hung = hung,
                   .outsider = outsider ||
                               (cause->fault == TRP_FAULT_SIGNAL && cause->code == SIGKILL) ||
                               cause->fault == TRP_FAULT_HANG};
    TRP__DEVICE_POINT(device, JUDGE);
    pthread_mutex_lock(&device->judging);
    uint64_t middle = atomic_load(&control->next_ticket.value);
    control->resume_count = 0;
    judge_range(device, &j, 0, middle);
    uint64_t end = atomic_load(&control->next_ticket.value);
    j.second = true;
    judge_range(device, &j, middle, end);
    control->resume_start = end;
    for (uint32_t i = 0; i < TRP__STREAMS; i++)
        trp__transfers_restart(device, i);
    pthread_mutex_unlock(&device->judging);
    TRP__DEVICE_POINT(device, JUDGE_TRANSFERS_RESTARTED);
    return j.victims;
}

/* Ends everything pending; the device is down. */
static void fail_all(trp_device *device)
{
    trp_error down;
    trp__error_down(device, &down);
    for (uint32_t i = 0; i < atomic_load(&device->slots_used); i++) {
        trp__slot *slot = &device->slot[i];
        uint64_t state;
        while (trp__phase_of(state = settled_state(slot)) == TRP__PENDING) {
            if (!trp__try_finish(device, slot, state))
                trp__retire(device, slot, state, &down);
        }
        trp__detained_pass(device, slot, trp__detained(slot));
    }
}

static void go_down(trp_device *device)
{
    TRP__DEVICE_POINT(device, GO_DOWN);
    pthread_mutex_lock(&device->lock);
    atomic_store(&device->state, TRP_DEVICE_DOWN);
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    trp__stats_publish(device);
    fail_all(device);
}

/* Whether one more restart is within the budget; counts it. */
static bool may_restart(trp_device *device)
{
    uint32_t budget = device->options.restart_budget;
    uint32_t restarts = atomic_load(&device->restarts);
    int64_t now = trp__now_ns();
    int64_t *oldest = &device->restart_time[restarts % budget];
    if (restarts >= budget && (uint64_t)(now - *oldest) < device->options.restart_window_ns)
        return false;
    *oldest = now;
    atomic_fetch_add(&device->restarts, 1);
    return true;
}

/* How long to wait after a number of failures in a row. */
static int64_t start_delay(uint32_t failures, int64_t most)
{
    int64_t delay = START_DELAY_MIN_NS;
    while (--failures > 0 && delay < most)
        delay *= 2;
    return delay < most ? delay : most;
}

/* Waits before the next worker is started; less if the device closes. */
static void await_next_start(trp_device *device, int64_t delay)
{
    struct pollfd wake = {.fd = device->wake_fd, .events = POLLIN};
    int64_t end = trp__now_ns() + delay;
    for (int64_t left; (left = end - trp__now_ns()) > 0 && !atomic_load(&device->closing);) {
        struct timespec t = {.tv_sec = left / TRP__SECOND, .tv_nsec = left % TRP__SECOND};
        uint64_t value;
        trp__notices_deliver(device);
        if (ppoll(&wake, 1, &t, NULL) > 0 && read(device->wake_fd, &value, sizeof value) < 0)
            return;
    }
}

/* For those who look: figures and trace. */
static void note_promotion(trp_device *device, bool warm)
{
    const trp__process *p = &device->worker[device->active];
    device->promotions += warm;
    trp__trace_mark_now(device, warm ? "promotion" : "restart", p->incarnation,
                        "worker %u (pid %lld) takes the requests%s", p->incarnation,
                        (long long)p->pid, warm ? "; it was the standby" : "");
    trp__stats_publish(device);
}

static void note_fault(trp_device *device, uint32_t incarnation, const trp_error *cause)
{
    device->faults++;
    trp__trace_mark_now(device, "fault", incarnation, "worker %u: %s", incarnation, cause->message);
}

/* Lets the standby take over, as soon as it is ready, or a new worker. */
static trp_status promote_successor(trp_device *device, trp_error *error)
{
    trp_status status = TRP_OK;
    uint32_t index = 1 - device->active;
    bool standby = device->worker[index].socket >= 0;
    if (!standby)
        status = trp__process_launch(device, index, error);
    if (status == TRP_OK && !device->worker[index].ready) {
        trp__notices_deliver(device); /* there is time */
        status = trp__process_await_ready(device, index, error);
    }
    if (status == TRP_OK)
        status = trp__making_await(device, index, error);
    if (status != TRP_OK)
        return status;
    status = trp__process_promote(device, index, error);
    if (status != TRP_OK) {
        trp_error cause;
        trp__process_end(device, index, true, &cause);
    } else {
        note_promotion(device, standby);
        if (device->started)
            trp__notice(device, standby ? TRP_NOTICE_PROMOTION : TRP_NOTICE_RESTART, NULL);
    }
    return status;
}

/* Whether an error says that no other worker would do better; notes it then. */
static bool is_the_end(trp_device *device, const trp_error *error)
{
    if (trp__directive_of(error->domain, error->code) != TRP__DIRECTIVE_STOP)
        return false;
    trp__error_set_code(&device->down, TRP_E_DEVICE_DOWN, error->domain, error->code,
                        "the device is down: it is gone: %s", error->message);
    return true;
}

/* Replaces the worker that ended by `cause`. False: there will be none any more; device->down says
 * why, unless the device closes. A standby takes over at once. A worker that has to be started, and
 * can't, is tried again, later each time, until as many in a row have failed as the budget has
 * restarts. */
static bool go_on(trp_device *device, const trp_error *cause)
{
    uint32_t budget = device->options.restart_budget;
    trp_error error = *cause;
    if (is_the_end(device, cause))
        return false;
    if (device->options.isolation == TRP_ISOLATION_THREAD) {
        trp__error_set_code(&device->down, TRP_E_DEVICE_DOWN, cause->domain, cause->code,
                            "the device is down: a worker in a thread can't be replaced: %s",
                            cause->message);
        return false;
    }
    for (uint32_t failures = 0; !atomic_load(&device->closing);) {
        TRP__DEVICE_POINT(device, GO_ON);
        if (failures == budget || !may_restart(device))
            break;
        trp__stats_publish(device);
        if (promote_successor(device, &error) == TRP_OK)
            return true;
        trp__log_line(&device->system->log, TRP__LOG_ERROR, "a new worker can't be started: %s",
                      error.message);
        if (is_the_end(device, &error))
            return false;
        if (++failures < budget)
            await_next_start(device, start_delay(failures, START_DELAY_MAX_NS));
    }
    trp__error_set_code(&device->down, TRP_E_DEVICE_DOWN, error.domain, error.code,
                        "the device is down: its worker failed too often: %s", error.message);
    return false;
}

static void go_on_or_down(trp_device *device, const trp_error *cause)
{
    if (go_on(device, cause)) {
        atomic_store(&device->standby_unwanted, false); /* try again to have one */
        return;
    }
    bool by_itself = !atomic_load(&device->closing);
    if (by_itself)
        trp__log_line(&device->system->log, TRP__LOG_ERROR, "%s %u: %s",
                      trp_backend_name(device->backend), device->options.ordinal,
                      device->down.message);
    atomic_store(&device->worker_pid, 0);
    trp_error ended;
    trp__process_end(device, 1 - device->active, true, &ended); /* the standby, if there is one */
    trp__process_reap(device, true);
    trp__trace_mark_now(device, "down", atomic_load(&device->incarnation), "the device is down");
    go_down(device);
    if (by_itself)
        trp__notice(device, TRP_NOTICE_STOP, &device->down);
}

/* When the end of a worker was noticed first: by itself, if it has reported a fault. */
static int64_t fault_time(const trp__reply *reply, int64_t now)
{
    int64_t told = atomic_load(&reply->fault_present) ? reply->fault_time_ns : now;
    return told > 0 && told < now ? told : now;
}

/* What was watched of the last worker says nothing of the next; what runs again has its whole time
 * again. */
static void restart_deadlines(trp_device *device)
{
    device->idle_cell = 0;
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp_actor *actor = atomic_load(&device->actor[i]);
        if (actor)
            actor->watched = 0;
    }
}

/* A worker that did not answer in time was killed. What it was asked to make is given up, or it
 * would make the next one hang too. (After a death the next worker is only asked again.) What a
 * standby tries first it was not asked. */
static void give_up_answers(trp_device *device, const trp_error *cause)
{
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = TRP__LANES; i < TRP__ACTORS; i++) {
        trp_actor *actor = atomic_load(&device->actor[i]);
        if (!actor || actor->state != TRP__NUMBER_LIVE || actor->answered || actor->trial)
            continue;
        actor->answer = *cause;
        actor->answered = true;
    }
    for (uint32_t i = 1; i < TRP__HOST_SEGMENTS; i++) {
        trp__client_segment *segment = &device->segment[i];
        if (segment->state != TRP__NUMBER_LIVE || segment->answered)
            continue;
        segment->answer = *cause;
        segment->answered = true;
    }
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
}

/* A request that keeps the device from going on; none if ticket is 0. */
typedef struct hang {
    uint64_t ticket;
    bool begun;
} hang;

static void describe_hang(const hang *h, trp_error *cause)
{
    if (h->begun)
        trp__error_set(cause, TRP_E_FAULT,
                       "request %llu ran past its deadline; its worker was killed",
                       (unsigned long long)h->ticket);
    else
        trp__error_set(cause, TRP_E_FAULT,
                       "request %llu was not begun within its deadline, though nothing else was "
                       "running; its worker was killed",
                       (unsigned long long)h->ticket);
    cause->fault = TRP_FAULT_HANG;
}

/* Ends the active worker; its words stay as they are. Without waiting for it if it has said that
 * its context is broken. */
static void end_active(trp_device *device, trp_error *cause)
{
    uint32_t dead = device->active;
    const trp__process *p = &device->worker[dead];
    bool told = !p->breach && atomic_load(&p->reply->fault_present) &&
                p->reply->fault.fault == TRP_FAULT_GPU;
    if (told && p->pid > 0)
        trp__process_abandon(device, dead, cause);
    else
        trp__process_end(device, dead, true, cause);
    trp__words_freeze(device);
}

/* The active worker is dead, dying, or has to be killed (for a request that hangs, if there is
 * one). */
static void recover(trp_device *device, const hang *h)
{
    uint32_t dead = device->active;
    trp_error cause = {0};
    TRP__DEVICE_POINT(device, RECOVER);
    const trp__process *p = &device->worker[dead];
    int64_t time = fault_time(p->reply, trp__now_ns());
    trp__suspicion suspicion = trp__making_suspicion(device, dead);
    uint32_t incarnation = atomic_load(&device->incarnation);
    bool gone = false;
    atomic_store(&device->state, TRP_DEVICE_RECOVERING);
    trp__take_messages(device, dead, &gone); /* what it had to say before */
    bool late = p->breach && p->breach_fault == TRP_FAULT_HANG;
    trp__stats_publish(device);
    end_active(device, &cause);
    if (h->ticket)
        describe_hang(h, &cause);
    if (h->ticket || late)
        suspicion.made = 0;
    bool likely = trp__making_explain(device, &suspicion, &cause);
    trp_error noted = cause;
    noted.incarnation = incarnation;
    trp__notice_post(device, TRP_NOTICE_FAULT, incarnation, time, 0, &noted);
    note_fault(device, incarnation, &cause);
    if (late)
        give_up_answers(device, &cause);
    uint32_t victims = judge_requests(device, &cause, h->ticket, likely);
    restart_deadlines(device);
    trp__making_blame(device, &suspicion, victims > 0, &cause);
    go_on_or_down(device, &cause);
    trp__log_line(&device->system->log, TRP__LOG_WARNING, "worker %u of device %s %u: %s",
                  incarnation, trp_backend_name(device->backend), device->options.ordinal,
                  cause.message);
}

/* The standby. */

static bool wants_standby(const trp_device *device)
{
    return device->options.isolation == TRP_ISOLATION_PROCESS &&
           device->options.standby == TRP_STANDBY_ON &&
           atomic_load(&device->state) == TRP_DEVICE_READY &&
           !atomic_load(&device->standby_unwanted);
}

/* A standby died, or could not be started: the next one comes later. */
static void note_standby_failure(trp_device *device, uint32_t incarnation, const trp_error *cause)
{
    int64_t now = trp__now_ns();
    device->standby_failures++;
    device->standby_after = now + start_delay(device->standby_failures, STANDBY_DELAY_MAX_NS);
    trp__log_line(&device->system->log, TRP__LOG_WARNING, "the standby worker is lost: %s",
                  cause->message);
    trp__notice_post(device, TRP_NOTICE_STANDBY_LOST, incarnation, now, 0, cause);
}

/* How long until a standby may be started; -1: none is to be. */
static int64_t standby_delay(const trp_device *device)
{
    if (device->worker[1 - device->active].socket >= 0 || !wants_standby(device))
        return -1;
    int64_t left = device->standby_after - trp__now_ns();
    return left > 0 ? left : 0;
}

/* Ends a standby that is dead, useless or unwanted. */
static void lose_standby(trp_device *device, bool dead)
{
    trp_error cause = {0};
    uint32_t index = 1 - device->active;
    trp__suspicion suspicion = trp__making_suspicion(device, index);
    const trp__process *p = &device->worker[index];
    uint32_t incarnation = p->incarnation;
    /* What counts is failures in a row, of those that were not up to their work. */
    if (p->ready && p->outbox.count == 0 && !p->breach)
        device->standby_failures = 0;
    trp__process_end(device, index, true, &cause);
    if (dead)
        TRP__DEVICE_POINT(device, STANDBY_LOST);
    else
        TRP__DEVICE_POINT(device, STANDBY_GIVEN_UP);
    if (dead) {
        trp__making_explain(device, &suspicion, &cause);
        trp__making_blame(device, &suspicion, false, &cause);
    }
    trp__making_lost_standby(device);
    if (dead) {
        note_standby_failure(device, incarnation, &cause);
    } else {
        trp__error_set(&cause, TRP_E_MEMORY,
                       "the standby worker is given up: its memory is needed");
        trp__log_line(&device->system->log, TRP__LOG_WARNING, "%s", cause.message);
        trp__notice_post(device, TRP_NOTICE_STANDBY_LOST, incarnation, trp__now_ns(), 0, &cause);
    }
    pthread_mutex_lock(&device->lock);
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
}

static void look_after_standby(trp_device *device)
{
    trp_error error;
    uint32_t index = 1 - device->active;
    bool due = standby_delay(device) == 0;
    if (due)
        TRP__DEVICE_POINT(device, STANDBY_LAUNCH);
    if (device->worker[index].socket >= 0 && atomic_load(&device->standby_unwanted))
        lose_standby(device, false);
    else if (due && trp__process_launch(device, index, &error) != TRP_OK)
        note_standby_failure(device, device->incarnations, &error);
}

/* Device memory is short: gives the standby's context back. True if there was one. No lock but
 * memory_lock is held, which is given up for the time. */
bool trp__standby_give_up(trp_device *device)
{
    if (device->backend != TRP_BACKEND_CUDA || atomic_load(&device->standby_pid) == 0 ||
        atomic_exchange(&device->standby_unwanted, true))
        return false;
    uint64_t one = 1;
    ssize_t done = write(device->wake_fd, &one, sizeof one);
    (void)done;
    pthread_mutex_unlock(&device->memory_lock);
    pthread_mutex_lock(&device->lock);
    while (atomic_load(&device->standby_pid) != 0 && atomic_load(&device->state) != TRP_DEVICE_DOWN)
        pthread_cond_wait(&device->changed, &device->lock);
    pthread_mutex_unlock(&device->lock);
    pthread_mutex_lock(&device->memory_lock);
    return true;
}

/* Deadlines. */

/* The cell of the first request of an actor that is not done, 0 if there is none; *p says whether
 * it was issued. */
static uint64_t first_cell(trp_device *device, trp_actor *actor, progress *p, uint64_t *deadline_ns)
{
    uint64_t head = atomic_load(&actor->head);
    uint64_t tail = atomic_load(actor->tail);
    for (; head < tail; head++) {
        uint64_t cell = atomic_load(&actor->mailbox[head & (actor->capacity - 1)]);
        trp__slot *slot = &device->slot[cell & (TRP__SLOTS - 1)];
        if (cell == 0)
            return 0;
        *p = progress_of(device, slot, cell >> TRP__SLOT_BITS);
        if (*p == DONE || *p == GONE)
            continue;
        *deadline_ns = atomic_load(&slot->deadline_ns);
        return cell;
    }
    return 0;
}

/* Copies the list of accesses of a pending request. The request may end meanwhile and its slot be
 * written anew; then the ticket has changed, and the copy counts for nothing. */
__attribute__((no_sanitize("thread"))) static uint32_t
copy_accesses(const trp_device *device, uint64_t cell, trp__access access[TRP__ACCESS_MAX])
{
    const trp__slot *slot = &device->slot[cell & (TRP__SLOTS - 1)];
    const volatile trp__record *record = &device->control->record[slot->index];
    uint32_t count = record->access_count;
    count = count < TRP__ACCESS_MAX ? count : TRP__ACCESS_MAX;
    for (uint32_t i = 0; i < count; i++) {
        access[i].slot = record->access[i].slot;
        access[i].mode = record->access[i].mode;
    }
    return atomic_load(&slot->ticket) == cell >> TRP__SLOT_BITS ? count : 0;
}

static bool in_conflict(const trp__access *a, uint32_t a_count, const trp__access *b,
                        uint32_t b_count)
{
    for (uint32_t i = 0; i < a_count; i++) {
        for (uint32_t k = 0; k < b_count; k++) {
            if (a[i].slot == b[k].slot && ((a[i].mode | b[k].mode) & TRP__WRITE))
                return true;
        }
    }
    return false;
}

/* Whether a request waits, in its stream, for an earlier one of another actor. */
static bool waits_for_another(const trp_device *device, uint64_t cell)
{
    trp__access mine[TRP__ACCESS_MAX], others[TRP__ACCESS_MAX];
    uint32_t count = copy_accesses(device, cell, mine);
    uint32_t actor = atomic_load(&device->slot[cell & (TRP__SLOTS - 1)].actor);
    for (uint32_t i = 0; i < atomic_load(&device->slots_used); i++) {
        const trp__slot *slot = &device->slot[i];
        uint64_t ticket = atomic_load(&slot->ticket);
        if (trp__phase_of(atomic_load(&slot->state)) != TRP__PENDING || ticket == 0 ||
            ticket >= cell >> TRP__SLOT_BITS || atomic_load(&slot->actor) == actor)
            continue;
        progress p = progress_of(device, slot, ticket);
        if ((p == IN_FLIGHT || p == QUEUED) &&
            in_conflict(mine, count, others,
                        copy_accesses(device, ticket << TRP__SLOT_BITS | i, others)))
            return true;
    }
    return false;
}

/* Whether a request has been at the head of its stream, with nothing to wait for, for longer than
 * its deadline. */
static bool is_overdue(trp_device *device, trp_actor *actor, uint64_t cell, uint64_t deadline_ns,
                       int64_t now)
{
    if (cell == 0 || cell != actor->watched ||
        (deadline_ns != 0 && waits_for_another(device, cell))) {
        actor->watched = cell;
        actor->watched_since = now;
        return false;
    }
    return deadline_ns != 0 && (uint64_t)(now - actor->watched_since) >= deadline_ns;
}

/* Whether the worker is at something for which requests may have to wait; that takes its time. */
static bool is_making(trp_device *device)
{
    const trp__process *p = &device->worker[device->active];
    pthread_mutex_lock(&device->lock);
    bool owes = p->outbox.count > 0;
    pthread_mutex_unlock(&device->lock);
    return owes || (p->reply && atomic_load(&p->reply->making) != 0);
}

/* Whether the worker leaves a request lying (`cell`, the first of all, while none is in flight; 0:
 * it does not). */
static bool is_left_lying(trp_device *device, uint64_t cell, uint64_t deadline_ns, int64_t now)
{
    if (cell == 0 || cell != device->idle_cell || is_making(device)) {
        device->idle_cell = cell;
        device->idle_since = now;
        return false;
    }
    uint64_t lying = (uint64_t)(now - device->idle_since);
    return lying >= (uint64_t)BEGIN_NS && lying - (uint64_t)BEGIN_NS >= deadline_ns;
}

/* A request that has run past its deadline, or that the worker does not begin. Its time counts from
 * when it is seen at the head of its stream with nothing to wait for. */
static hang find_hung(trp_device *device)
{
    int64_t now = trp__now_ns();
    uint64_t lying = 0, lying_deadline_ns = 0;
    bool busy = false;
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp_actor *actor = atomic_load(&device->actor[i]);
        uint64_t deadline_ns = 0;
        progress p = GONE;
        uint64_t cell = actor ? first_cell(device, actor, &p, &deadline_ns) : 0;
        if (!actor)
            continue;
        bool running = cell != 0 && p == IN_FLIGHT;
        busy = busy || running;
        if (is_overdue(device, actor, running ? cell : 0, deadline_ns, now))
            return (hang){.ticket = cell >> TRP__SLOT_BITS, .begun = true};
        if (cell != 0 && !running && (lying == 0 || cell < lying)) {
            lying = cell;
            lying_deadline_ns = deadline_ns ? deadline_ns : device->options.start_timeout_ns;
        }
    }
    if (is_left_lying(device, busy ? 0 : lying, lying_deadline_ns, now))
        return (hang){.ticket = lying >> TRP__SLOT_BITS};
    return (hang){0};
}

/* The thread. */

void trp__supervisor_wake(trp_device *device)
{
    if (!atomic_load(&device->supervisor_asleep)) /* after queue_bound was raised */
        return;
    uint64_t one = 1;
    ssize_t done = write(device->wake_fd, &one, sizeof one);
    (void)done; /* it can only be full, which wakes as well */
}

/* Has the supervisor look at what the worker says. */
void trp__supervisor_alarm(trp_device *device)
{
    uint64_t one = 1;
    if (atomic_exchange(&device->alarm, true))
        return;
    ssize_t done = write(device->wake_fd, &one, sizeof one);
    (void)done;
}

enum { POLL_WAKE = 0, POLL_SOCKET = 1, POLL_PROCESS = 3, POLL_DYING = 5, POLL_COUNT = 13 };

/* How long to sleep: until something happens; briefly, while requests are on their way to queues,
 * or have deadlines, for nobody announces their ends. */
static int64_t next_nap(trp_device *device, int64_t nap)
{
    if (atomic_load(&device->queue_bound) > 0)
        return nap < QUEUE_NAP_MIN_NS   ? QUEUE_NAP_MIN_NS
               : nap < QUEUE_NAP_MAX_NS ? nap + nap / 8
                                        : QUEUE_NAP_MAX_NS;
    return atomic_load(&device->deadlines) > 0 ? DEADLINE_NAP_NS : -1;
}

/* What to wait for, and until when: INT64_MAX for no end. */
static int64_t prepare_poll(trp_device *device, struct pollfd polled[POLL_COUNT])
{
    int64_t due = INT64_MAX;
    memset(polled, 0, sizeof *polled * POLL_COUNT);
    polled[POLL_WAKE] = (struct pollfd){.fd = device->wake_fd, .events = POLLIN};
    pthread_mutex_lock(&device->lock);
    for (int i = 0; i < TRP__WORKERS; i++) {
        const trp__process *p = &device->worker[i];
        short wanted = p->outbox.sent < p->outbox.count ? POLLIN | POLLOUT : POLLIN;
        int64_t worker_due = p->untold ? 0 : trp__process_due(device, p);
        polled[POLL_SOCKET + i] = (struct pollfd){.fd = p->socket, .events = wanted};
        polled[POLL_PROCESS + i] = (struct pollfd){.fd = p->pidfd, .events = POLLIN};
        due = worker_due < due ? worker_due : due;
    }
    pthread_mutex_unlock(&device->lock);
    for (int i = 0; i < TRP__DYING; i++) {
        bool dying = device->dying[i].pid != 0;
        polled[POLL_DYING + i] =
            (struct pollfd){.fd = dying ? device->dying[i].pidfd : -1, .events = POLLIN};
    }
    return due;
}

/* The sooner of two times to sleep, -1 for no end. */
static int64_t shorter(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

static void sleep_supervisor(trp_device *device, struct pollfd polled[POLL_COUNT], int64_t *nap)
{
    atomic_store(&device->supervisor_asleep, true);
    int64_t due = prepare_poll(device, polled);
    *nap = next_nap(device, *nap);
    if (*nap >= 0)
        atomic_store(&device->supervisor_asleep, false);
    int64_t sleep = *nap >= 0 ? *nap : standby_delay(device);
    if (trp__making_any(device))
        sleep = shorter(sleep, MAKING_NAP_NS); /* somebody has to look at the time */
    int64_t left = due - trp__now_ns();
    if (due != INT64_MAX)
        sleep = shorter(sleep, left > 0 ? left : 0);
    struct timespec t = {.tv_sec = sleep / TRP__SECOND, .tv_nsec = sleep % TRP__SECOND};
    if (!atomic_load(&device->closing) &&
        ppoll(polled, POLL_COUNT, sleep >= 0 ? &t : NULL, NULL) < 0) {
        for (int i = 0; i < POLL_COUNT; i++)
            polled[i].revents = 0;
    }
    atomic_store(&device->supervisor_asleep, false);
}

/* Sends a worker what waits for room, and looks whether it is late. */
void trp__look_after_mail(trp_device *device, uint32_t index)
{
    pthread_mutex_lock(&device->lock);
    trp__process *p = &device->worker[index];
    if (p->socket >= 0 && trp__outbox_flush(&p->outbox, p->socket) == TRP__NOBODY)
        p->closed = true;
    bool late = trp__process_due(device, p) <= trp__now_ns() && !trp__making_late(p);
    bool untold = p->untold;
    pthread_mutex_unlock(&device->lock);
    if (late)
        trp__process_breach(p, TRP_FAULT_HANG,
                            p->ready ? "did not answer in time" : "was not ready in time");
    else if (untold)
        trp__process_breach(p, TRP_FAULT_HANG, "could not be told of all that there is");
}

/* Looks whether what the active worker says of its progress can be true. */
static void look_at_words(trp_device *device)
{
    if (device->worker[device->active].socket < 0)
        return;
    bool alarm = atomic_exchange(&device->alarm, false);
    const char *breach = trp__words_look(device);
    if (!breach && alarm && trp__read_absurd(device))
        breach = "said that a read was done that it had not copied";
    if (breach)
        trp__process_breach(&device->worker[device->active], TRP_FAULT_BROKEN, breach);
}

static void take_events(trp_device *device, const struct pollfd polled[POLL_COUNT])
{
    uint32_t active = device->active, standby = 1 - active;
    bool gone[TRP__WORKERS] = {false};
    uint64_t value;
    if (polled[POLL_WAKE].revents && read(device->wake_fd, &value, sizeof value) < 0)
        return;
    look_at_words(device);
    for (uint32_t i = 0; i < TRP__WORKERS; i++) {
        const trp__process *p = &device->worker[i];
        if (polled[POLL_SOCKET + i].revents & ~POLLOUT)
            trp__take_messages(device, i, &gone[i]);
        trp__look_after_mail(device, i);
        gone[i] = gone[i] || p->breach || p->closed || p->stuck ||
                  (polled[POLL_PROCESS + i].revents & POLLIN);
    }
    if (gone[standby])
        lose_standby(device, true);
    hang h = atomic_load(&device->deadlines) > 0 && !gone[active] ? find_hung(device) : (hang){0};
    if (gone[active] || h.ticket)
        recover(device, &h);
    trp__making_check(device);
    trp__process_reap(device, false);
    look_after_standby(device);
}

static void supervise(trp_device *device)
{
    struct pollfd polled[POLL_COUNT];
    int64_t nap = 0;
    look_after_standby(device);
    while (!atomic_load(&device->closing)) {
        uint64_t before = atomic_load(&device->queue_bound);
        sleep_supervisor(device, polled, &nap);
        take_events(device, polled);
        trp__notices_deliver(device);
        trp__stats_publish(device);
        if (atomic_load(&device->queue_bound) > 0)
            trp__sweep_device(device);
        if (atomic_load(&device->queue_bound) != before)
            nap = 0;
    }
}

static trp_status start_first(trp_device *device, trp_error *error)
{
    device->active = 1; /* so that the first worker's place is that of a successor */
    return promote_successor(device, error);
}

static void *supervisor_main(void *argument)
{
    trp_device *device = argument;
    trp_error error = {0};
    prctl(PR_SET_NAME, "troupe-super");
    prctl(PR_SET_TIMERSLACK, 1000UL);
    pthread_mutex_lock(&device->lock); /* trp__tell() compares with device->supervisor */
    pthread_mutex_unlock(&device->lock);
    trp_status status = start_first(device, &error);
    pthread_mutex_lock(&device->lock);
    device->start_error = error;
    device->started = true;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    if (status != TRP_OK)
        return NULL;
    supervise(device);
    trp__notices_deliver(device);
    trp__process_end(device, 1 - device->active, true, &error);
    trp__process_end(device, device->active, false, &error);
    go_down(device);
    trp__process_reap(device, true);
    return NULL;
}

trp_status trp__supervisor_start(trp_device *device)
{
    sigset_t all, before;
    device->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (device->wake_fd < 0) {
        trp_error error;
        trp__error_set_errno(&error, "eventfd");
        return trp__error_raise(&error);
    }
    /* The application's signals are its own threads' business. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&device->lock);
    int result = pthread_create(&device->supervisor, NULL, supervisor_main, device);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result != 0) {
        pthread_mutex_unlock(&device->lock);
        close(device->wake_fd);
        return trp__fail(TRP_E_SYSTEM, "the supervisor thread can't be started");
    }
    while (!device->started)
        pthread_cond_wait(&device->changed, &device->lock);
    trp_error error = device->start_error;
    pthread_mutex_unlock(&device->lock);
    if (error.status == TRP_OK)
        return TRP_OK;
    pthread_join(device->supervisor, NULL);
    close(device->wake_fd);
    return trp__error_raise(&error);
}

void trp__supervisor_stop(trp_device *device)
{
    uint64_t one = 1;
    atomic_store(&device->closing, true);
    ssize_t done = write(device->wake_fd, &one, sizeof one);
    (void)done;
    pthread_join(device->supervisor, NULL);
    close(device->wake_fd);
}

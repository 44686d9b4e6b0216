/* The device's supervisor thread: starts the workers, takes their messages, notices deaths, has the
 * requests judged, and lets the next worker take over. */
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/poll.h"
#include "base/service_thread.h"
#include "base/thread.h"
#include "client/core/points.h"
#include "client/observe/trace.h"
#include "client/recovery/judge.h"
#include "wire/directive.h"

#include <errno.h>
#include <stdio.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#define QUEUE_NAP_MIN_NS (20 * TRP__US)
#define QUEUE_NAP_MAX_NS (500 * TRP__US)
#define DEADLINE_NAP_NS  (5 * TRP__MS)
#define MAKING_NAP_NS    (20 * TRP__MS)
/* At most, so that a program that has closed the event file can close the device. */
#define IDLE_NAP_NS (2 * TRP__SECOND)

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
    if (m->about == TRP__MSG_PROTECT && m->error.status == TRP_E_TIMEOUT)
        answer.status = TRP_E_TIMEOUT; /* what it waited for did not end */
    m->error = answer;
    pthread_mutex_lock(&device->lock);
    bool active = index == device->active;
    trp__process *p = &device->worker[index];
    if (!trp__outbox_answered(&p->outbox, m->about, m->id)) {
        pthread_mutex_unlock(&device->lock);
        trp__process_breach(p, TRP_FAULT_BROKEN, "answered what nobody had asked");
        return;
    }
    trp__client_actor *actor = m->id < TRP__ACTORS ? atomic_load(&device->actor[m->id]) : NULL;
    if (m->about == TRP__MSG_ACTOR && actor) {
        trp__making_answered(device, index, actor, &m->error);
    } else if (m->about == TRP__MSG_HOST && m->id < TRP__HOST_SEGMENTS) {
        if (active && !device->memory.segment[m->id].answered) {
            device->memory.segment[m->id].answer = m->error;
            device->memory.segment[m->id].answered = true;
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
    const trp__process *p = &device->worker[index];
    trp_error what = {.incarnation = p->incarnation};
    snprintf(what.message, sizeof what.message, "worker %u (pid %lld) is ready to take over",
             p->incarnation, (long long)p->pid);
    trp__process_welcome(device, index);
    trp__notice_post(device, TRP_NOTICE_STANDBY_READY, p->incarnation, trp__now_ns(), 0, &what);
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
    else if (m->type == TRP__MSG_LOG)
        trp__worker_line(device, p, m);
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

static void go_down(trp_device *device)
{
    TRP__DEVICE_POINT(device, GO_DOWN);
    pthread_mutex_lock(&device->lock);
    atomic_store(&device->state, TRP_DEVICE_DOWN);
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    trp__stats_publish(device);
    trp__fail_all(device);
}

/* Whether one more restart is within the budget; counts it. */
static bool may_restart(trp_device *device)
{
    uint32_t budget = device->options.restart_budget;
    uint32_t restarts = atomic_load(&device->restarts);
    int64_t now = trp__now_ns();
    int64_t *oldest = &device->recovery.restart_time[restarts % budget];
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
        uint64_t value;
        trp__notices_deliver(device);
        if (trp__poll(&wake, 1, left) > 0 && read(device->wake_fd, &value, sizeof value) < 0)
            return;
    }
}

/* For those who look: figures, trace, notice. The one that takes the first requests of a device is
 * no news. */
static void note_promotion(trp_device *device, bool warm)
{
    const trp__process *p = &device->worker[device->active];
    trp_error what = {0};
    device->observe.promotions += warm;
    what.incarnation = p->incarnation;
    snprintf(what.message, sizeof what.message, "worker %u (pid %lld) takes the requests%s",
             p->incarnation, (long long)p->pid, warm ? "; it was the standby" : "");
    trp__trace_mark_now(device, warm ? "promotion" : "restart", p->incarnation, "%s", what.message);
    trp__stats_publish(device);
    if (device->recovery.started)
        trp__notice(device, warm ? TRP_NOTICE_PROMOTION : TRP_NOTICE_RESTART, &what);
}

static void note_fault(trp_device *device, uint32_t incarnation, const trp_error *cause)
{
    device->observe.faults++;
    trp__trace_mark_now(device, "fault", incarnation, "worker %u: %s", incarnation, cause->message);
}

/* Makes a standby, or else a new worker, able to take requests. On an error it is gone. */
static trp_status prepare_successor(trp_device *device, uint32_t index, trp_error *error)
{
    trp_status status = TRP_OK;
    if (device->worker[index].socket < 0)
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
    }
    return status;
}

/* Lets the standby take over, as soon as it is ready, or a new worker. */
static trp_status promote_successor(trp_device *device, trp_error *error)
{
    uint32_t index = 1 - device->active;
    bool standby = device->worker[index].socket >= 0;
    trp_status status = prepare_successor(device, index, error);
    if (status != TRP_OK) {
        trp__making_end_trials(device);
        return status;
    }
    note_promotion(device, standby);
    return TRP_OK;
}

static void note_down(trp_device *device, const char *why, const trp_error *cause)
{
    trp__error_set_code(&device->down, TRP_E_DEVICE_DOWN, cause->domain, cause->code,
                        "the device is down: %s: %s", why, cause->message);
    device->down.fault = cause->fault;
    device->recovery.down_cause = cause->status;
}

/* Whether an error says that no other worker would do better; notes it then. */
static bool is_the_end(trp_device *device, const trp_error *error)
{
    if (trp__directive_of(error->domain, error->code) != TRP__DIRECTIVE_STOP)
        return false;
    note_down(device, "it is gone", error);
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
    if (device->recovery.robbed) {
        note_down(device, "the program has closed descriptors of the library", cause);
        return false;
    }
    if (device->recovery.unended) { /* it may still write to the device's memory */
        note_down(device, "a worker can't be ended", cause);
        return false;
    }
    if (device->options.isolation == TRP_ISOLATION_THREAD) {
        note_down(device, "a worker in a thread can't be replaced", cause);
        return false;
    }
    for (uint32_t failures = 0; !atomic_load(&device->closing);) {
        TRP__DEVICE_POINT(device, GO_ON);
        if (failures == budget || !may_restart(device))
            break;
        trp__stats_publish(device);
        if (promote_successor(device, &error) == TRP_OK)
            return true;
        trp__device_line(device, TRP_NOTICE_FAULT, TRP__LOG_ERROR,
                         "a new worker can't be started: %s", error.message);
        if (is_the_end(device, &error))
            return false;
        if (++failures < budget)
            await_next_start(device, start_delay(failures, START_DELAY_MAX_NS));
    }
    note_down(device, "its worker failed too often", &error);
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
        trp__device_line(device, TRP_NOTICE_STOP, TRP__LOG_ERROR, "%s %u: %s",
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
    device->recovery.idle_cell = 0;
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__client_actor *actor = atomic_load(&device->actor[i]);
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
        trp__client_actor *actor = atomic_load(&device->actor[i]);
        if (!actor || actor->state != TRP__NUMBER_LIVE || actor->answered || actor->trial)
            continue;
        actor->answer = *cause;
        actor->answered = true;
    }
    for (uint32_t i = 1; i < TRP__HOST_SEGMENTS; i++) {
        trp__client_segment *segment = &device->memory.segment[i];
        if (segment->state != TRP__NUMBER_LIVE || segment->answered)
            continue;
        segment->answer = *cause;
        segment->answered = true;
    }
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
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
        device->recovery.unended = !trp__process_end(device, dead, true, cause);
    trp__words_freeze(device);
}

/* The active worker is dead, dying, or has to be killed (for a request that hangs, if there is
 * one). */
static void recover(trp_device *device, const trp__hang *h)
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
    if (h->ticket && !device->recovery.unended)
        trp__describe_hang(h, &cause);
    if (h->ticket || late)
        suspicion.actor = NULL;
    bool likely = trp__making_explain(device, &suspicion, &cause);
    trp_error noted = cause;
    noted.incarnation = incarnation;
    trp__notice_post(device, TRP_NOTICE_FAULT, incarnation, time, 0, &noted);
    note_fault(device, incarnation, &cause);
    if (late)
        give_up_answers(device, &cause);
    uint32_t victims = trp__judge_requests(device, &cause, h->ticket, likely);
    restart_deadlines(device);
    trp__making_blame(device, &suspicion, victims > 0, &cause);
    go_on_or_down(device, &cause);
    trp__device_line(device, TRP_NOTICE_FAULT, TRP__LOG_WARNING, "worker %u of device %s %u: %s",
                     incarnation, trp_backend_name(device->backend), device->options.ordinal,
                     cause.message);
}

/* The standby. */

static bool wants_standby(const trp_device *device)
{
    return device->options.isolation == TRP_ISOLATION_PROCESS &&
           device->options.standby == TRP_STANDBY_ON && device->recovery.started &&
           atomic_load(&device->state) == TRP_DEVICE_READY &&
           !atomic_load(&device->standby_unwanted);
}

/* A standby died, or could not be started: the next one comes later. */
static void note_standby_failure(trp_device *device, uint32_t incarnation, const trp_error *cause)
{
    int64_t now = trp__now_ns();
    device->recovery.standby_failures++;
    device->recovery.standby_after =
        now + start_delay(device->recovery.standby_failures, STANDBY_DELAY_MAX_NS);
    trp__device_line(device, TRP_NOTICE_STANDBY_LOST, TRP__LOG_WARNING,
                     "the standby worker is lost: %s", cause->message);
    trp__notice_post(device, TRP_NOTICE_STANDBY_LOST, incarnation, now, 0, cause);
}

/* How long until a standby may be started; -1: none is to be. */
static int64_t standby_delay(const trp_device *device)
{
    if (device->worker[1 - device->active].socket >= 0 || !wants_standby(device))
        return -1;
    int64_t left = device->recovery.standby_after - trp__now_ns();
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
    pthread_mutex_lock(&device->lock);
    if (p->ready && p->outbox.count == 0 && !p->breach)
        device->recovery.standby_failures = 0;
    pthread_mutex_unlock(&device->lock);
    trp__process_end(device, index, true, &cause);
    if (dead)
        TRP__DEVICE_POINT(device, STANDBY_LOST);
    else
        TRP__DEVICE_POINT(device, STANDBY_GIVEN_UP);
    if (dead) {
        trp__making_explain(device, &suspicion, &cause);
        trp__making_blame(device, &suspicion, false, &cause);
    }
    trp__making_end_trials(device);
    if (dead) {
        note_standby_failure(device, incarnation, &cause);
    } else {
        trp__error_set(&cause, TRP_E_MEMORY,
                       "the standby worker is given up: its memory is needed");
        trp__device_line(device, TRP_NOTICE_STANDBY_LOST, TRP__LOG_WARNING, "%s", cause.message);
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
        note_standby_failure(device, device->recovery.incarnations, &error);
}

/* The thread. */

enum { POLL_WAKE = 0, POLL_SOCKET = 1, POLL_PROCESS = 3, POLL_DYING = 5, POLL_COUNT = 13 };

/* Pending requests that this thread ends if nobody else does. */
static uint64_t left_to_end(const trp_device *device)
{
    return atomic_load(&device->request.queue_bound) + atomic_load(&device->request.deliveries);
}

/* How long to sleep: until something happens; briefly, while requests are on their way to queues,
 * have results or deadlines, for nobody announces their ends. */
static int64_t next_nap(trp_device *device, int64_t nap)
{
    if (left_to_end(device) > 0)
        return nap < QUEUE_NAP_MIN_NS   ? QUEUE_NAP_MIN_NS
               : nap < QUEUE_NAP_MAX_NS ? nap + nap / 8
                                        : QUEUE_NAP_MAX_NS;
    return atomic_load(&device->request.deadlines) > 0 ? DEADLINE_NAP_NS : -1;
}

/* What to wait for, and until when: INT64_MAX for no end. */
static int64_t prepare_poll(trp_device *device, struct pollfd polled[POLL_COUNT])
{
    int64_t due = INT64_MAX;
    memset(polled, 0, sizeof *polled * POLL_COUNT);
    polled[POLL_WAKE] =
        (struct pollfd){.fd = device->recovery.robbed ? -1 : device->wake_fd, .events = POLLIN};
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
        bool dying = device->recovery.dying[i].pid != 0;
        polled[POLL_DYING + i] =
            (struct pollfd){.fd = dying ? device->recovery.dying[i].pidfd : -1, .events = POLLIN};
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
    if (!atomic_load(&device->closing))
        trp__poll(polled, POLL_COUNT, shorter(sleep, IDLE_NAP_NS));
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

/* A request that hangs, by what the worker says now: this thread may have been kept waiting since
 * it looked last, so it looks twice before it believes it. */
static trp__hang look_for_hang(trp_device *device, bool *gone)
{
    const trp__process *p = &device->worker[device->active];
    trp__hang h = {0};
    for (int look = 0; look < 2; look++) {
        look_at_words(device);
        *gone = *gone || p->breach;
        bool asked = !*gone && atomic_load(&device->request.deadlines) > 0;
        h = asked ? trp__find_hung(device) : (trp__hang){0};
        if (h.ticket == 0)
            break;
    }
    return h;
}

static void take_events(trp_device *device, const struct pollfd polled[POLL_COUNT])
{
    uint32_t active = device->active, standby = 1 - active;
    bool gone[TRP__WORKERS] = {false};
    uint64_t value;
    for (int i = 0; i < POLL_COUNT; i++)
        device->recovery.robbed = device->recovery.robbed || (polled[i].revents & POLLNVAL);
    if (polled[POLL_WAKE].revents && !device->recovery.robbed &&
        read(device->wake_fd, &value, sizeof value) < 0)
        return;
    gone[active] = device->recovery.robbed && device->worker[active].socket >= 0;
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
    trp__hang h = look_for_hang(device, &gone[active]);
    if (gone[active] || h.ticket)
        recover(device, &h);
    trp__making_check(device);
    trp__process_reap(device, false);
    look_after_standby(device);
}

/* Sees to it that the device's own actors are made, by the first worker or, if it dies, by one of
 * the restart budget. On an error all workers are gone. */
static trp_status await_lanes(trp_device *device, trp_error *error)
{
    struct pollfd polled[POLL_COUNT];
    trp_error ended;
    int64_t nap = 0;
    while (!trp__making_lanes_end(device, error)) {
        if (atomic_load(&device->state) == TRP_DEVICE_DOWN) {
            *error = device->down;
            return error->status =
                       device->recovery.down_cause; /* to the application there was no device */
        }
        sleep_supervisor(device, polled, &nap);
        take_events(device, polled);
    }
    if (error->status != TRP_OK) {
        trp__process_end(device, device->active, false, &ended);
        trp__process_reap(device, true);
    }
    return error->status;
}

static void supervise(trp_device *device)
{
    struct pollfd polled[POLL_COUNT];
    int64_t nap = 0;
    look_after_standby(device);
    while (!atomic_load(&device->closing)) {
        uint64_t before = left_to_end(device);
        sleep_supervisor(device, polled, &nap);
        take_events(device, polled);
        trp__notices_deliver(device);
        trp__stats_publish(device);
        if (left_to_end(device) > 0)
            trp__sweep_device(device);
        if (left_to_end(device) != before)
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
    trp__is_service_thread = true;
    prctl(PR_SET_NAME, "troupe-super");
    prctl(PR_SET_TIMERSLACK, 1000UL);
    pthread_mutex_lock(&device->lock); /* trp__tell() compares with device->supervisor */
    pthread_mutex_unlock(&device->lock);
    trp_status status = start_first(device, &error);
    if (status == TRP_OK)
        status = await_lanes(device, &error);
    pthread_mutex_lock(&device->lock);
    device->recovery.start_error = error;
    device->recovery.started = true;
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
    device->wake_fd = trp__descriptor_apart(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (device->wake_fd < 0) {
        trp_error error;
        trp__error_set_errno(&error, "eventfd");
        return trp__error_raise(&error);
    }
    pthread_mutex_lock(&device->lock);
    int code =
        trp__thread_start(&device->supervisor, TRP__SIGNALS_BLOCKED, supervisor_main, device);
    if (code != 0) {
        trp_error error;
        pthread_mutex_unlock(&device->lock);
        close(device->wake_fd);
        errno = code;
        trp__error_set_errno(&error, "the supervisor thread can't be started");
        return trp__error_raise(&error);
    }
    while (!device->recovery.started)
        pthread_cond_wait(&device->changed, &device->lock);
    trp_error error = device->recovery.start_error;
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

/* Recovery after a fault: ends the worker, judges the requests, and promotes the next worker or
 * takes the device down. */
#include "base/os/clock.h"
#include "base/error.h"
#include "base/os/poll.h"
#include "client/core/points.h"
#include "client/observe/trace.h"
#include "client/recovery/judge.h"
#include "client/recovery/recovery.h"
#include "wire/directive.h"

#include <stdio.h>
#include <unistd.h>

/* Between a worker that could not be started and the next try: doubled each time. */
#define START_DELAY_MIN_NS (10 * TRP__MS)
#define START_DELAY_MAX_NS (1 * TRP__SECOND)

void trp__go_down(trp_device *device)
{
    TRP__DEVICE_POINT(device, GO_DOWN);
    trp__lock_take(&device->lock);
    atomic_store(&device->state, TRP_DEVICE_DOWN);
    pthread_cond_broadcast(&device->changed);
    trp__lock_drop(&device->lock);
    trp__stats_publish(device);
    trp__fail_all(device);
}

/* Returns whether one more restart is within the budget; counts it. */
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

/* Returns how long to wait after a number of failures in a row. */
int64_t trp__start_delay(uint32_t failures, int64_t most)
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

/* Publishes a promotion: trace, state, figures, notice. Whoever sees the device ready finds the
 * promotion in the trace; published figures follow. The device's first worker makes no notice. */
static void note_promotion(trp_device *device, bool warm)
{
    const trp__process *p = &device->worker[device->active];
    trp_error what = {0};
    device->observe.promotions += warm;
    what.incarnation = p->incarnation;
    snprintf(what.message, sizeof what.message, "worker %u (pid %lld) takes the requests%s",
             p->incarnation, (long long)p->pid, warm ? "; it was the standby" : "");
    trp__trace_mark_now(device, warm ? "promotion" : "restart", p->incarnation, "%s", what.message);
    trp__lock_take(&device->lock);
    atomic_store(&device->state, TRP_DEVICE_READY);
    pthread_cond_broadcast(&device->changed);
    trp__lock_drop(&device->lock);
    trp__stats_publish(device);
    if (device->recovery.started)
        trp__notice(device, warm ? TRP_NOTICE_PROMOTION : TRP_NOTICE_RESTART, &what);
}

static void note_fault(trp_device *device, uint32_t incarnation, const trp_error *cause)
{
    device->observe.faults++;
    trp__trace_mark_now(device, "fault", incarnation, "worker %u: %s", incarnation, cause->message);
}

/* Promotes a standby, or else a new worker. On an error it is gone. */
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
        status = trp__actor_start_await(device, index, error);
    if (status != TRP_OK)
        return status;
    status = trp__process_promote(device, index, error);
    if (status != TRP_OK) {
        trp_error cause;
        trp__process_end(device, index, true, &cause);
    }
    return status;
}

/* Promotes the standby as soon as it is ready, or a new worker. */
trp_status trp__promote_successor(trp_device *device, trp_error *error)
{
    uint32_t index = 1 - device->active;
    bool standby = device->worker[index].socket >= 0;
    trp_status status = prepare_successor(device, index, error);
    if (status != TRP_OK) {
        trp__actor_start_end_trials(device);
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

/* Returns whether an error means that no other worker would succeed; then notes it as the end. */
static bool is_the_end(trp_device *device, const trp_error *error)
{
    if (trp__directive_of(error->domain, error->code) != TRP__DIRECTIVE_STOP)
        return false;
    note_down(device, "it is gone", error);
    return true;
}

/* Replaces the worker that ended by `cause`. False: no worker is left; device->down says why,
 * unless the device closes. A standby takes over at once. A failed start is tried again, with
 * growing delay, until restart_budget starts in a row have failed. */
static bool go_on(trp_device *device, const trp_error *cause)
{
    uint32_t budget = device->options.restart_budget;
    trp_error error = *cause;
    if (is_the_end(device, cause))
        return false;
    if (device->recovery.descriptors_closed) {
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
        if (trp__promote_successor(device, &error) == TRP_OK)
            return true;
        trp__device_line(device, TRP_NOTICE_FAULT, TRP__LOG_ERROR,
                         "a new worker can't be started: %s", error.message);
        if (is_the_end(device, &error))
            return false;
        if (++failures < budget)
            await_next_start(device, trp__start_delay(failures, START_DELAY_MAX_NS));
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
    trp__go_down(device);
    if (by_itself)
        trp__notice(device, TRP_NOTICE_STOP, &device->down);
}

/* Returns when the fault was first noticed: by the worker, if it has reported one. */
static int64_t fault_time(const trp__reply *reply, int64_t now)
{
    int64_t reported = atomic_load(&reply->fault_present) ? reply->fault_time_ns : now;
    return reported > 0 && reported < now ? reported : now;
}

/* Restarts the clocks of deadlines: requests that run again have their whole time again. */
static void restart_deadlines(trp_device *device)
{
    device->recovery.idle_cell = 0;
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__client_actor *actor = atomic_load(&device->actor[i]);
        if (actor)
            actor->watched = 0;
    }
}

/* Gives up the resources for which a killed worker owed answers too long, or they would make the
 * next one hang too. (After another death the next worker is asked again.) Actors that a standby
 * tries first were not sent to it. */
static void give_up_answers(trp_device *device, const trp_error *cause)
{
    trp__lock_take(&device->lock);
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
    trp__lock_drop(&device->lock);
}

/* Ends the active worker and freezes its progress. Does not wait for a worker that has reported a
 * broken context. */
static void end_active(trp_device *device, trp_error *cause)
{
    uint32_t dead = device->active;
    const trp__process *p = &device->worker[dead];
    bool reported = !p->breach && atomic_load(&p->reply->fault_present) &&
                    p->reply->fault.fault == TRP_FAULT_GPU;
    if (reported && p->pid > 0)
        trp__process_abandon(device, dead, cause);
    else
        device->recovery.unended = !trp__process_end(device, dead, true, cause);
    trp__words_freeze(device);
}

/* The active worker is dead, dying, or has to be killed (for a request that hangs, if there is
 * one). */
void trp__recover(trp_device *device, const trp__hang *h)
{
    uint32_t dead = device->active;
    trp_error cause = {0};
    TRP__DEVICE_POINT(device, RECOVER);
    const trp__process *p = &device->worker[dead];
    int64_t time = fault_time(p->reply, trp__now_ns());
    trp__suspicion suspicion = trp__actor_start_suspicion(device, dead);
    uint32_t incarnation = atomic_load(&device->incarnation);
    bool gone = false;
    atomic_store(&device->state, TRP_DEVICE_RECOVERING);
    trp__take_messages(device, dead, &gone); /* messages from before its end */
    bool late = p->breach && p->breach_fault == TRP_FAULT_HANG;
    trp__stats_publish(device);
    end_active(device, &cause);
    if (h->ticket && !device->recovery.unended)
        trp__describe_hang(h, &cause);
    if (h->ticket || late)
        suspicion.actor = NULL;
    bool likely = trp__actor_start_explain(device, &suspicion, &cause);
    trp_error noted = cause;
    noted.incarnation = incarnation;
    trp__notice_post(device, TRP_NOTICE_FAULT, incarnation, time, 0, &noted);
    note_fault(device, incarnation, &cause);
    if (late)
        give_up_answers(device, &cause);
    uint32_t victims = trp__judge_requests(device, &cause, h->ticket, likely);
    restart_deadlines(device);
    trp__actor_start_blame(device, &suspicion, victims > 0, &cause);
    go_on_or_down(device, &cause);
    trp__device_line(device, TRP_NOTICE_FAULT, TRP__LOG_WARNING, "worker %u of device %s %u: %s",
                     incarnation, trp_backend_name(device->backend), device->options.ordinal,
                     cause.message);
}

/* Starting actors. init() runs foreign code in the worker, which may kill the worker or never
 * return. Each worker starts all actors anew, so an actor whose init() crashes must not bring down
 * one worker after the other:
 *
 *   - One worker starts a new actor first; the other gets it after success. The first is the
 * standby for an actor from a library, since the standby has no requests to lose, and the active
 * worker for a built-in one.
 *   - A worker publishes which actor it is starting. If it dies then, that actor is the cause and
 * its creation fails. If there may be another cause (a request, a SIGKILL), the actor is
 * *suspected*, and the next worker starts it before it takes requests, which decides.
 *   - An actor that was started before and crashes two workers in a row is *quarantined*: later
 * workers answer its requests with the reason. SIGKILL may always come from outside, so more of
 * those are allowed.
 *   - The device's own lanes are exempt: no worker is of use without them, so their crashes and
 * failures count for the restart budget. The device is open when they have started; if the driver
 * refuses them to the first worker, it is not opened. */
#include "base/os/clock.h"
#include "base/error.h"
#include "base/os/poll.h"
#include "client/recovery/recovery.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

enum {
    CRASHES_MAX = 2,  /* of an actor that was made before */
    SIGKILLS_MAX = 6, /* of any */
    CHECK_MS = 20,
};

void trp__actor_start_begin(trp_device *device, trp__client_actor *actor)
{
    uint32_t standby = 1 - device->active;
    actor->trial = actor->library[0] != '\0' && !actor->cold && device->worker[standby].ready;
    trp__announce_actor(device, actor->trial ? standby : device->active, actor);
    trp__supervisor_wake(device); /* from now on it looks at the time */
}

/* Ends a worker that could not start one of the device's lanes: every copy through the lane would
 * fail. */
static void dismiss(trp__process *p, const trp__client_actor *lane, const trp_error *error)
{
    trp__error_set_code(&p->refusal, TRP_E_FAULT, error->domain, error->code,
                        "its actor \"%s\" can't be made: %.150s", lane->name, error->message);
    p->refusal.fault = TRP_FAULT_LIBRARY;
    p->closed = true;
    shutdown(p->socket, SHUT_RDWR); /* it ends by itself */
}

void trp__actor_start_answered(trp_device *device, uint32_t index, trp__client_actor *actor,
                               const trp_error *error)
{
    trp__process *p = &device->worker[index];
    bool active = index == device->active;
    bool good = error->status == TRP_OK;
    p->starting -= p->starting > 0;
    if (good) {
        actor->crash_count = 0;
        actor->suspected = false;
    }
    if (!good && actor->id < TRP__LANES) {
        if (device->recovery.started)
            dismiss(p, actor, error);
        else
            actor->answer = *error; /* even if an earlier worker had started it */
        actor->answered = true;
        return;
    }
    if (!actor->answered && (active || (actor->trial && !good))) {
        actor->answer = *error;
        actor->answered = true;
        if (good && !actor->cold) /* the other one's turn */
            trp__announce_actor(device, 1 - index, actor);
    } else if (!actor->answered && actor->trial) {
        actor->trial = false;
        trp__announce_actor(device, device->active, actor);
    } else if (actor->answered && !active && !good && actor->answer.status == TRP_OK &&
               !actor->quarantined) {
        atomic_store(&device->standby_unwanted, true); /* it lacks what the active one has */
    }
}

/* Blame. */

/* Returns the actor that a worker was starting. Called before the worker is ended, which frees
 * numbers that may then name other actors. The worker's word is checked. */
trp__suspicion trp__actor_start_suspicion(trp_device *device, uint32_t index)
{
    const trp__process *p = &device->worker[index];
    if (p->socket < 0)
        return (trp__suspicion){0};
    trp__suspicion s = {.incarnation = p->incarnation, .stuck = p->stuck};
    uint32_t made = atomic_load(&p->reply->starting);
    trp__lock_take(&device->lock);
    trp__client_actor *actor =
        made > 0 && made <= TRP__ACTORS ? atomic_load(&device->actor[made - 1]) : NULL;
    if (actor && actor->state == TRP__NUMBER_LIVE) {
        s.actor = actor;
        s.made = actor->made;
    }
    trp__lock_drop(&device->lock);
    return s;
}

/* Returns whether a suspicion still names a living actor. device->lock is held. */
static bool is_meant(const trp__suspicion *s)
{
    return s->actor->state == TRP__NUMBER_LIVE && s->actor->made == s->made;
}

static void quarantine(trp_device *device, trp__client_actor *actor, const trp_error *cause)
{
    trp_error *verdict = &actor->start_error;
    actor->quarantined = true;
    trp__error_set_code(verdict, TRP_E_LIBRARY, cause->domain, cause->code,
                        "making this actor killed %u workers, so it is not made again: %.150s",
                        actor->crash_count, cause->message);
    if (!actor->answered) {
        actor->answer = *cause;
        actor->answered = true;
    } else {
        trp__device_line(device, TRP_NOTICE_FAULT, TRP__LOG_ERROR, "actor \"%s\": %s", actor->name,
                         verdict->message);
    }
}

/* Adds to the cause of a death the actor that the worker was starting. Returns whether that actor
 * is a likelier cause than a request: no worker has started it yet, or it is suspected. */
bool trp__actor_start_explain(trp_device *device, const trp__suspicion *suspicion, trp_error *cause)
{
    const trp__client_actor *actor = suspicion->actor;
    bool likely = false;
    char message[160];
    if (!actor)
        return false;
    if (suspicion->stuck) {
        trp__error_set(cause, TRP_E_FAULT, "it took longer than %llu ms; its worker was killed",
                       (unsigned long long)(device->options.start_timeout_ns / (uint64_t)TRP__MS));
        cause->fault = TRP_FAULT_HANG;
    }
    cause->incarnation = suspicion->incarnation;
    trp__copy_string(message, sizeof message, cause->message);
    trp__lock_take(&device->lock);
    if (is_meant(suspicion)) {
        snprintf(cause->message, sizeof cause->message, "while actor \"%s\" was being made: %s",
                 actor->name, message);
        likely = suspicion->stuck || !actor->answered || actor->suspected;
    }
    trp__lock_drop(&device->lock);
    return likely;
}

/* Counts a death against the actor that the worker was starting. `others`: a request may have been
 * the cause, so even a suspected actor is not certain: the active worker may be starting an actor
 * that killed a standby. */
void trp__actor_start_blame(trp_device *device, const trp__suspicion *suspicion, bool others,
                            const trp_error *cause)
{
    trp__client_actor *actor = suspicion->actor;
    bool killed = cause->fault == TRP_FAULT_SIGNAL && cause->code == SIGKILL;
    if (!actor || actor->id < TRP__LANES)
        return;
    trp__lock_take(&device->lock);
    if (is_meant(suspicion) && !actor->quarantined) {
        bool certain = suspicion->stuck || (!others && (actor->suspected || !killed));
        actor->suspected = true;
        actor->crash_count += certain;
        uint32_t most = killed ? SIGKILLS_MAX : actor->answered ? CRASHES_MAX : 1;
        if (actor->crash_count >= most)
            quarantine(device, actor, cause);
    }
    pthread_cond_broadcast(&device->changed);
    trp__lock_drop(&device->lock);
}

/* The worker that had to try actors first is gone: sends them to the active worker; if that is gone
 * too, the next worker gets them. */
void trp__actor_start_end_trials(trp_device *device)
{
    trp__lock_take(&device->lock);
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__client_actor *actor = atomic_load(&device->actor[i]);
        if (actor && actor->state == TRP__NUMBER_LIVE && !actor->answered && actor->trial) {
            actor->trial = false;
            trp__announce_actor(device, device->active, actor);
        }
    }
    trp__lock_drop(&device->lock);
}

/* Time. */

bool trp__actor_start_any(const trp_device *device)
{
    bool any = false;
    for (uint32_t i = 0; i < TRP__WORKERS; i++)
        any = any || (device->worker[i].pid > 0 && device->worker[i].starting > 0);
    return any;
}

/* The worker owes an answer for too long. If the answer is about the actor that it is starting,
 * that actor is to blame: kills the worker and returns true. device->lock is held. */
bool trp__actor_start_late(trp__process *p)
{
    uint32_t made = atomic_load(&p->reply->starting);
    const trp__outbox *o = &p->outbox;
    if (o->sent == 0 || o->letter[o->first].type != TRP__MSG_ACTOR ||
        o->letter[o->first].id + 1 != made)
        return false;
    p->stuck = true;
    trp__process_kill(p);
    return true;
}

/* Kills a worker that has been starting one actor for too long; its death is noticed as any
 * other. */
void trp__actor_start_check(trp_device *device)
{
    int64_t now = trp__now_ns();
    for (uint32_t i = 0; i < TRP__WORKERS; i++) {
        trp__process *p = &device->worker[i];
        if (p->socket < 0 || p->pid <= 0 || p->stuck)
            continue;
        uint32_t made = atomic_load(&p->reply->starting);
        if (made == 0 || made != p->starting_seen) {
            p->starting_seen = made;
            p->starting_since = now;
        } else if ((uint64_t)(now - p->starting_since) >= device->options.start_timeout_ns) {
            p->stuck = true;
            trp__process_kill(p);
        }
    }
}

/* Suspects. */

/* Sends a new worker the suspected actors that it did not get yet: those that no worker has
 * started, and cold ones. Returns whether it has any suspected actor to start. */
static bool announce_suspects(trp_device *device, uint32_t index)
{
    bool any = false;
    trp__lock_take(&device->lock);
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__client_actor *actor = atomic_load(&device->actor[i]);
        if (!actor || actor->state != TRP__NUMBER_LIVE || !actor->suspected || actor->quarantined)
            continue;
        any = true;
        if (actor->cold || (!actor->answered && !actor->trial)) {
            actor->trial = !actor->answered;
            trp__announce_actor(device, index, actor);
        }
    }
    trp__lock_drop(&device->lock);
    return any;
}

static uint32_t left_to_make(trp_device *device, uint32_t index)
{
    trp__lock_take(&device->lock);
    uint32_t left = device->worker[index].starting;
    trp__lock_drop(&device->lock);
    return left;
}

/* Returns whether a worker has started all of the device's lanes, or failed to start one: then
 * *error says why. */
bool trp__actor_start_lanes_end(trp_device *device, trp_error *error)
{
    uint32_t made = 0;
    trp__lock_take(&device->lock);
    for (uint32_t i = 0; i < TRP__LANES && error->status == TRP_OK; i++) {
        const trp__client_actor *lane = atomic_load(&device->actor[i]);
        made += lane->answered;
        if (lane->answered)
            *error = lane->answer;
    }
    trp__lock_drop(&device->lock);
    return made == TRP__LANES || error->status != TRP_OK;
}

/* If an actor is suspected, waits until a worker that is about to take requests has started all its
 * actors: a death before cannot be due to a request. On an error the worker is gone. */
trp_status trp__actor_start_await(trp_device *device, uint32_t index, trp_error *error)
{
    bool gone = false;
    if (!announce_suspects(device, index))
        return TRP_OK;
    while (!gone && left_to_make(device, index) > 0 && !atomic_load(&device->closing)) {
        const trp__process *p = &device->worker[index];
        struct pollfd polled[] = {{.fd = p->socket, .events = POLLIN},
                                  {.fd = p->pidfd, .events = POLLIN}};
        trp__poll(polled, 2, CHECK_MS * TRP__MS);
        trp__take_messages(device, index, &gone);
        trp__look_after_mail(device, index);
        trp__actor_start_check(device);
        gone = gone || p->breach || p->closed || p->stuck || (polled[1].revents & POLLIN);
    }
    if (!gone)
        return TRP_OK;
    trp__suspicion suspicion = trp__actor_start_suspicion(device, index);
    trp__process_end(device, index, true, error);
    trp__actor_start_explain(device, &suspicion, error);
    trp__actor_start_blame(device, &suspicion, false, error);
    return error->status;
}

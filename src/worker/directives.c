/* Reactions to errors of actors, by the table of wire/directive.h.
 *
 * A restart passes an actor from the scheduler's thread to the side thread and back, by its state:
 * the scheduler signals all issued work, sets RESTARTING and holds the actor's requests; the side
 * thread waits until the timeline shows that the stream is empty, ends the instance, starts it
 * again, and publishes READY or FAILED. Other actors go on meanwhile. */
#include "base/os/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/os/poll.h"
#include "wire/message.h"
#include "worker/worker.h"

#include <troupe/watch.h>

#include <unistd.h>

#define STREAM_CHECK_MS 1 /* between checks whether a stream is empty */

/* Sends the application a notice; never waits. */
static void notice(trp__worker *w, trp_notice_kind kind, const char *actor, const trp_error *error)
{
    trp__message m = {.about = kind, .bytes = (uint64_t)trp__now_ns(), .error = *error};
    m.id = atomic_exchange(&w->unsent, 0);
    trp__copy_string(m.error.actor, sizeof m.error.actor, actor);
    if (trp__message_send(w->socket, TRP__MSG_NOTICE, &m, NULL, 0, NULL) != TRP_OK)
        atomic_fetch_add(&w->unsent, m.id + 1);
}

/* Out of memory: calls trim() of all actors. The side thread does not touch an actor that is READY,
 * or that it is about to stop, before the scheduler's next turn. */
static void trim_all(trp__worker *w)
{
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__worker_actor *a = &w->actor[i];
        if (atomic_load_explicit(&a->state, memory_order_acquire) == TRP__READY &&
            a->instance.impl->trim)
            a->instance.impl->trim(&a->instance.api);
    }
}

/* TRP_E_MEMORY of a domain without rows means TRIM. */
static trp__directive directive_of(const trp_error *error)
{
    trp__directive directive = trp__directive_of(error->domain, error->code);
    return directive == TRP__DIRECTIVE_REPLY && error->status == TRP_E_MEMORY ? TRP__DIRECTIVE_TRIM
                                                                              : directive;
}

/* Returns whether one more restart of an actor is allowed; counts it. */
static bool may_restart(trp__worker *w)
{
    int64_t now = trp__now_ns();
    int64_t *oldest = &w->restart_time[w->restarts % TRP__ACTOR_RESTARTS];
    if (w->restarts >= TRP__ACTOR_RESTARTS &&
        (uint64_t)(now - *oldest) < w->control->restart_window_ns)
        return false;
    *oldest = now;
    w->restarts++;
    return true;
}

/* Turns an error into the fault by which this worker ends. */
static trp_status give_up(trp_error *error, const char *why)
{
    const trp_error call = *error;
    trp__error_set_code(error, TRP_E_FAULT, call.domain, call.code, "%s%s", why, call.message);
    error->fault = TRP_FAULT_LIBRARY;
    return TRP_E_FAULT;
}

static trp_status ask_health(trp__worker *w, trp_error *error)
{
    if (!TRP__FAULT_POINT_FAILS(ISSUE_ERROR_HEALTH))
        return w->backend->health(w->accel, error);
    trp__error_set_code(error, TRP_E_FAULT, "test", 1, "a test says that the context is broken");
    error->fault = TRP_FAULT_GPU;
    return TRP_E_FAULT;
}

bool trp__is_broken(trp__worker *w, trp_error *error)
{
    trp_error health = {0};
    if (ask_health(w, &health) == TRP_OK)
        return false;
    *error = health;
    return true;
}

/* RESTART_CONTEXT if the context is broken, else the table's directive. */
static trp__directive judge(trp__worker *w, trp_error *error)
{
    return trp__is_broken(w, error) ? TRP__DIRECTIVE_RESTART_CONTEXT : directive_of(error);
}

trp_status trp__obey(trp__worker *w, trp__instance *instance, trp__job *job, trp_error *error,
                     trp__directive *directive)
{
    *directive = judge(w, error);
    if (*directive == TRP__DIRECTIVE_TRIM) {
        trp_error again = {0};
        trim_all(w);
        notice(w, TRP_NOTICE_LOW_MEMORY, instance->name, error);
        trp_status status = trp__actor_handle(instance, job, &again);
        if (status == TRP_OK || status == TRP__AGAIN)
            return status;
        *error = again;
        *directive = judge(w, error);
    }
    switch (*directive) {
    case TRP__DIRECTIVE_TRIM: /* a second time: no memory was freed */
        *directive = TRP__DIRECTIVE_REPLY;
        return error->status = TRP_E_MEMORY;
    case TRP__DIRECTIVE_RESTART_ACTOR:
        if (may_restart(w))
            return error->status;
        *directive = TRP__DIRECTIVE_RESTART_CONTEXT;
        return give_up(error, "restarting its actors did not help: ");
    case TRP__DIRECTIVE_RESTART_CONTEXT:
    case TRP__DIRECTIVE_STOP:
        *directive = TRP__DIRECTIVE_RESTART_CONTEXT;
        return error->fault == TRP_FAULT_NONE ? give_up(error, "") : TRP_E_FAULT;
    default:
        return error->status;
    }
}

/* Restarting. */

void trp__actor_restart(trp__worker *w, uint32_t actor, uint64_t after, const trp_error *cause)
{
    trp__worker_actor *a = &w->actor[actor];
    int ready = TRP__READY;
    uint64_t one = 1;
    a->restart_cause = *cause;
    a->restart_after = after;
    /* If it is not READY any more, the side thread is about to drop it. */
    if (!atomic_compare_exchange_strong(&a->state, &ready, TRP__RESTARTING))
        return;
    ssize_t done = write(w->side_fd, &one, sizeof one);
    (void)done; /* it can only be full, which wakes as well */
}

static void restart(trp__worker *w, trp__worker_actor *a)
{
    trp_error error = {0};
    trp__instance *instance = &a->instance;
    atomic_store(&w->reply->starting, instance->id + 1);
    trp__instance_stop(w, instance, true);
    trp_status status = trp__instance_start(w, instance, &error);
    if (status != TRP_OK)
        trp__instance_stop(w, instance, false);
    atomic_store(&w->reply->starting, 0);
    a->error = error;
    if (status == TRP_OK)
        notice(w, TRP_NOTICE_ACTOR_RESTART, instance->name, &a->restart_cause);
    else
        notice(w, TRP_NOTICE_ACTOR_FAILED, instance->name, &error);
    /* From here on the scheduler owns it, and may restart it again at once. */
    atomic_store_explicit(&a->state, status == TRP_OK ? TRP__READY : TRP__FAILED,
                          memory_order_release);
}

/* Restarts the actors whose streams are empty; true if others are waiting. */
static bool restart_some(trp__worker *w)
{
    bool waiting = false;
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__worker_actor *a = &w->actor[i];
        if (atomic_load_explicit(&a->state, memory_order_acquire) != TRP__RESTARTING)
            continue;
        if (atomic_load(&w->reply->timelines.timeline[i].value) >= a->restart_after)
            restart(w, a);
        else
            waiting = true;
    }
    return waiting;
}

void trp__side_wait(trp__worker *w)
{
    struct pollfd polled[] = {{.fd = w->socket, .events = POLLIN},
                              {.fd = w->side_fd, .events = POLLIN}};
    do {
        uint64_t value;
        if (polled[1].revents && read(w->side_fd, &value, sizeof value) < 0)
            polled[1].revents = 0;
        bool waiting = restart_some(w);
        if (trp__poll(polled, 2, waiting ? STREAM_CHECK_MS * TRP__MS : -1) < 0)
            polled[0].revents = polled[1].revents = 0; /* interrupted */
    } while (!polled[0].revents);
}

/* Messages of workers: answers, notices, lines for the log; and overdue answers. */
#include "base/os/clock.h"
#include "client/core/points.h"
#include "client/observe/observe.h"
#include "client/recovery/recovery.h"

#include <stdio.h>
#include <unistd.h>

enum { MESSAGES_AT_ONCE = 64 }; /* of one worker, before looking at anything else */

static void take_answer(trp_device *device, uint32_t index, trp__message *m)
{
    trp_error answer;
    trp__error_import(&answer, &m->error);
    if (m->about == TRP__MSG_PROTECT && m->error.status == TRP_E_TIMEOUT)
        answer.status = TRP_E_TIMEOUT; /* the requests that it waited for did not end */
    m->error = answer;
    trp__lock_take(&device->lock);
    bool active = index == device->active;
    trp__process *p = &device->worker[index];
    if (!trp__outbox_answered(&p->outbox, m->about, m->id)) {
        trp__lock_drop(&device->lock);
        trp__process_breach(p, TRP_FAULT_BROKEN, "sent an answer that it did not owe");
        return;
    }
    trp__client_actor *actor = m->id < TRP__ACTORS ? atomic_load(&device->actor[m->id]) : NULL;
    if (m->about == TRP__MSG_ACTOR && actor) {
        trp__actor_start_answered(device, index, actor, &m->error);
    } else if (m->about == TRP__MSG_HOST && m->id < TRP__HOST_SEGMENTS) {
        if (active && !device->memory.segment[m->id].answered) {
            device->memory.segment[m->id].answer = m->error;
            device->memory.segment[m->id].answered = true;
        } else if (!active && m->error.status != TRP_OK) {
            atomic_store(&device->standby_unwanted, true);
        }
    } else if (trp__seal_answered(device, index, m)) {
        /* the sealing thread waits for the broadcast */
    } else if (m->about == TRP__MSG_ARENA && m->error.status != TRP_OK) {
        trp__log_line(&device->system->log, TRP__LOG_ERROR, "arena %u can't be mapped: %s", m->id,
                      m->error.message);
        if (!active)
            atomic_store(&device->standby_unwanted, true);
    } else {
        trp__number_answered(device, index, m);
    }
    pthread_cond_broadcast(&device->changed);
    trp__lock_drop(&device->lock);
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
        trp__process_breach(p, TRP_FAULT_BROKEN, "sent a message that the protocol does not allow");
    if (m->type == TRP__MSG_FAULT || m->type == TRP__MSG_REFUSE)
        p->closed = true; /* it is about to end */
}

/* Takes the messages of a worker. *gone is set when it has closed its end, reported a fault, or
 * sent an invalid message. */
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

/* Sends a worker its queued news, and checks whether an answer is late. */
void trp__look_after_mail(trp_device *device, uint32_t index)
{
    trp__lock_take(&device->lock);
    trp__process *p = &device->worker[index];
    if (p->socket >= 0 && trp__outbox_flush(&p->outbox, p->socket) == TRP__NOBODY)
        p->closed = true;
    bool late = trp__process_due(device, p) <= trp__now_ns() && !trp__actor_start_late(p);
    bool missed_news = p->missed_news;
    trp__lock_drop(&device->lock);
    if (late)
        trp__process_breach(p, TRP_FAULT_HANG,
                            p->ready ? "did not answer in time" : "was not ready in time");
    else if (missed_news)
        trp__process_breach(p, TRP_FAULT_HANG,
                            "could not be sent all resources, for lack of memory");
}

/* Ending a worker, and describing its end. Called by the supervisor thread. */
#include "base/os/clock.h"
#include "base/error.h"
#include "base/os/poll.h"
#include "base/os/shm.h"
#include "client/core/points.h"
#include "client/recovery/recovery.h"
#include "wire/entry.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

#define STOP_WAIT_MS   3000
#define CLOSED_WAIT_MS 1000 /* for one that has closed its socket, to end by itself */

/* How long to wait for the end of a worker that was sent SIGKILL, which a driver may delay, and of
 * one that may not be sent it, which ends by itself once its connection is closed. */
#define KILLED_WAIT_MS  120000
#define REFUSED_WAIT_MS 10000

/* Signal for a worker that has closed its connection. The first fatal signal of a process counts,
 * so a SIGKILL from outside, delayed by a driver, can be told from this one. */
#define CLOSED_SIGNAL SIGALRM

static const char *signal_hint(int signal)
{
    return signal == SIGKILL ? ", by somebody or for want of memory" : "";
}

/* Copies the error that the worker reported before its end, if complete. */
static bool last_words(const trp__process *p, trp_error *cause)
{
    if (p->refusal.status != TRP_OK) {
        *cause = p->refusal;
        return true;
    }
    if (!atomic_load_explicit(&p->reply->fault_present, memory_order_acquire))
        return false;
    trp__error_import(cause, &p->reply->fault);
    cause->status = TRP_E_FAULT;
    if (cause->fault == TRP_FAULT_NONE)
        cause->fault = TRP_FAULT_LIBRARY;
    return true;
}

/* Describes how a worker ended: the reason for killing it, its own report, else the kernel's
 * status. */
static void describe_end(const trp__process *p, const siginfo_t *info, bool known, bool killed,
                         trp_error *cause)
{
    long long pid = (long long)p->pid;
    if (p->breach && (killed || p->has_thread)) {
        trp__error_set(cause, TRP_E_FAULT, "the worker (pid %lld) %s; it was killed", pid,
                       p->breach);
        cause->fault = p->breach_fault;
    } else if (last_words(p, cause)) {
        return;
    } else if (killed && p->closed) {
        trp__error_set(cause, TRP_E_FAULT,
                       "the worker (pid %lld) closed its connection and did not end; it was killed",
                       pid);
        cause->fault = TRP_FAULT_BROKEN;
    } else if (!known) {
        trp__error_set(cause, TRP_E_FAULT,
                       "the worker (pid %lld) ended; how is not known, because this program waits "
                       "for all its children",
                       pid);
        cause->fault = TRP_FAULT_EXIT;
    } else if (info->si_code == CLD_EXITED) {
        trp__error_set_code(cause, TRP_E_FAULT, "exit", info->si_status,
                            "the worker (pid %lld) exited with status %d", pid, info->si_status);
        cause->fault = TRP_FAULT_EXIT;
    } else {
        const char *name = sigabbrev_np(info->si_status);
        trp__error_set_code(cause, TRP_E_FAULT, "signal", info->si_status,
                            "the worker (pid %lld) was killed by SIG%s%s", pid, name ? name : "?",
                            signal_hint(info->si_status));
        cause->fault = TRP_FAULT_SIGNAL;
    }
}

/* Checks by pid, for the case that the program has closed the descriptor. */
static bool has_ended(const trp__process *p)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

static bool wait_for_end(const trp__process *p, int64_t timeout_ms)
{
    int64_t end = trp__now_ns() + timeout_ms * TRP__MS;
    for (;;) {
        struct pollfd poll_fd = {.fd = p->pidfd, .events = POLLIN};
        int64_t left = end - trp__now_ns();
        bool ready = trp__poll(&poll_fd, 1, left > 0 ? left : 0) > 0;
        if (ready && (!(poll_fd.revents & POLLNVAL) || has_ended(p)))
            return true;
        if (ready)
            trp__sleep_ns(TRP__MS);
        if (left <= 0)
            return false;
    }
}

/* Returns how long to wait for a process that has got SIGKILL, or that could not be sent it. */
static int64_t end_patience_ms(const trp__process *p)
{
    return p->kill_errno ? REFUSED_WAIT_MS : KILLED_WAIT_MS;
}

/* Takes the status of a process that has ended. */
static bool take_status(const trp__process *p, siginfo_t *info)
{
    int waited;
    memset(info, 0, sizeof *info);
    do
        waited = waitid(P_PIDFD, (id_t)p->pidfd, info, WEXITED);
    while (waited != 0 && errno == EINTR);
    if (waited != 0 && errno == EBADF)
        waited = waitid(P_PID, (id_t)p->pid, info, WEXITED | WNOHANG);
    return waited == 0;
}

/* Hides the pid of a process that is about to be reaped. */
static void forget_pid(trp_device *device, uint32_t index)
{
    atomic_store(index == device->active ? &device->worker_pid : &device->standby_pid, 0);
}

/* Takes a worker out of its place: it gets no news any more and owes no answers. */
static trp__process take_out(trp_device *device, uint32_t index)
{
    trp__lock_take(&device->lock);
    trp__process p = device->worker[index];
    device->worker[index] = (trp__process){.socket = -1, .pidfd = -1, .reply_fd = -1};
    trp__number_answered_all(device, index);
    pthread_cond_broadcast(&device->changed);
    trp__lock_drop(&device->lock);
    return p;
}

static void free_process(trp__process *p)
{
    if (p->pidfd >= 0)
        close(p->pidfd);
    if (p->socket >= 0)
        close(p->socket);
    if (p->reply_fd >= 0)
        close(p->reply_fd);
    trp__outbox_free(&p->outbox);
    trp__shm_unmap(p->reply, TRP__REPLY_BYTES);
    *p = (trp__process){.socket = -1, .pidfd = -1, .reply_fd = -1};
}

/* Kills a worker. The kernel refuses the signal if the program has dropped the rights with which it
 * started the worker; the end of the connection ends a worker too, even during a request: see
 * worker/guard.c. A thread has no descriptor, and is not killed. */
void trp__process_kill(trp__process *p)
{
    if (p->pidfd < 0 || syscall(SYS_pidfd_send_signal, p->pidfd, SIGKILL, NULL, 0) == 0 ||
        errno == ESRCH)
        return;
    if (errno == EBADF && kill((pid_t)p->pid, SIGKILL) == 0)
        return; /* an unreaped child, so the pid is its own */
    p->kill_errno = errno;
    shutdown(p->socket, SHUT_RDWR);
}

/* A worker that could not be ended, and that may still write to the device's memory. */
static void give_up(trp_device *device, const trp__process *p, trp_error *cause)
{
    char text[96];
    const char *why = p->kill_errno ? strerror_r(p->kill_errno, text, sizeof text)
                                    : "it does not die of it, a driver may hold it up";
    trp_fault fault = cause->fault;
    trp__error_set_code(cause, TRP_E_FAULT, "errno", p->kill_errno,
                        "the worker (pid %lld) can't be ended: SIGKILL: %s", (long long)p->pid,
                        why);
    cause->fault = fault == TRP_FAULT_NONE ? TRP_FAULT_HANG : fault;
    trp__device_line(device, TRP_NOTICE_FAULT, TRP__LOG_ERROR, "%s; it is given up",
                     cause->message);
}

/* Reads and drops messages of a worker, so that it does not wait for room in the socket. */
static void drain_socket(const trp__process *p)
{
    trp__message m;
    int fds[TRP__MESSAGE_FDS];
    bool closed = false;
    while (trp__message_receive(p->socket, &m, fds, &closed, NULL) != TRP_E_TIMEOUT && !closed) {
        for (int i = 0; i < TRP__MESSAGE_FDS; i++) {
            if (fds[i] >= 0)
                close(fds[i]);
        }
    }
}

/* Asks a worker to stop, as soon as its socket has room, and gives it time to end. Unsent news is
 * dropped. */
static void stop(trp_device *device, trp__process *p)
{
    int64_t end = trp__now_ns() + STOP_WAIT_MS * TRP__MS, left;
    bool sent = false;
    trp__lock_take(&device->lock);
    p->ready = false;
    p->outbox.count = p->outbox.sent;
    trp__lock_drop(&device->lock);
    do {
        trp__message m = {0};
        sent = sent || trp__message_send(p->socket, TRP__MSG_STOP, &m, NULL, 0, NULL) == TRP_OK ||
               errno != EAGAIN;
        if (sent && p->has_thread)
            return; /* it is joined, once its socket is closed */
        struct pollfd polled[] = {
            {.fd = p->socket, .events = (short)(sent ? POLLIN : POLLIN | POLLOUT)},
            {.fd = p->pidfd, .events = POLLIN}};
        left = end - trp__now_ns();
        trp__poll(polled, 2, left > 0 ? left : 0);
        if (polled[1].revents)
            return;
        if (polled[0].revents & POLLIN)
            drain_socket(p);
        if (polled[0].revents & (POLLHUP | POLLNVAL)) { /* it is ending and sends no more */
            wait_for_end(p, left > 0 ? left / TRP__MS : 0);
            return;
        }
    } while (left > 0);
}

/* Returns whether a worker died of the client's own signal. */
static bool died_of(const trp__process *p, const siginfo_t *info, int signal)
{
    if (p->kill_errno)
        return info->si_code == CLD_EXITED && info->si_status == TRP__EXIT_ABANDONED;
    return info->si_code == CLD_KILLED && info->si_status == signal;
}

/* Ends a worker, by a STOP message first unless kill_now, and waits until it is gone: then its
 * context is closed and its work can't touch memory any more. False if it can't be ended and may
 * still run: *cause says why. */
bool trp__process_end(trp_device *device, uint32_t index, bool kill_now, trp_error *cause)
{
    trp__process *place = &device->worker[index];
    siginfo_t info;
    bool known = false, killed = false, ended = true;
    memset(&info, 0, sizeof info);
    if (place->socket < 0)
        return true;
    TRP__DEVICE_POINT(device, END);
    forget_pid(device, index);
    if (!kill_now)
        stop(device, place);
    if (place->pid > 0) {
        int patience_ms = kill_now && place->closed ? CLOSED_WAIT_MS : 0;
        int with = kill_now && place->closed ? CLOSED_SIGNAL : SIGKILL;
        if (!wait_for_end(place, patience_ms)) {
            if (!kill_now)
                trp__log_line(&device->system->log, TRP__LOG_WARNING,
                              "the worker (pid %lld) did not stop within %d ms; it is killed",
                              (long long)place->pid, STOP_WAIT_MS);
            if (with != SIGKILL)
                syscall(SYS_pidfd_send_signal, place->pidfd, with, NULL, 0);
            trp__process_kill(place);
            killed = true;
        }
        TRP__DEVICE_POINT(device, END_KILLED);
        ended = wait_for_end(place, end_patience_ms(place));
        known = ended && take_status(place, &info);
        /* It may have been dying of another cause. */
        killed = killed && known && died_of(place, &info, with);
    }
    trp__process p = take_out(device, index);
    TRP__DEVICE_POINT(device, END_TAKEN_OUT);
    if (p.has_thread) {
        close(p.socket); /* ends it */
        p.socket = -1;
        pthread_join(p.thread, NULL);
    }
    describe_end(&p, &info, known, killed, cause);
    if (!ended)
        give_up(device, &p, cause);
    free_process(&p);
    return ended;
}

/* Gives up a worker that has reported that its context is broken. The driver has stopped all work
 * of that context before it reports, so there is no need to wait for the process. */
void trp__process_abandon(trp_device *device, uint32_t index, trp_error *cause)
{
    uint32_t i = 0;
    while (i < TRP__DYING && device->recovery.dying[i].pid != 0)
        i++;
    if (i == TRP__DYING) {
        trp__process_reap(device, true);
        i = 0;
    }
    TRP__DEVICE_POINT(device, ABANDON);
    forget_pid(device, index);
    trp__process p = take_out(device, index);
    TRP__FAULT_POINT_NEAR(ABANDON_TAKEN_OUT, p.pid, device->worker[1 - index].pid);
    describe_end(&p, NULL, false, false, cause);
    trp__process_kill(&p);
    device->recovery.dying[i] = p;
    TRP__FAULT_POINT_NEAR(ABANDON_KILLED, p.pid, device->worker[1 - index].pid);
}

/* Reaps abandoned workers that have ended; with `wait`, all. Their contexts are broken, so one that
 * can't be ended touches no memory. */
void trp__process_reap(trp_device *device, bool wait)
{
    for (uint32_t i = 0; i < TRP__DYING; i++) {
        trp__process *p = &device->recovery.dying[i];
        siginfo_t info;
        bool ended = p->pid != 0 && wait_for_end(p, wait ? end_patience_ms(p) : 0);
        if (p->pid == 0 || (!wait && !ended))
            continue;
        TRP__DEVICE_POINT(device, REAP);
        trp_error ignored = {0};
        if (ended)
            take_status(p, &info);
        else
            give_up(device, p, &ignored);
        free_process(p);
        TRP__DEVICE_POINT(device, REAPED);
    }
}

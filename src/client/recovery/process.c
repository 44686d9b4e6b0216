/* Workers: starting, talking to and ending them. Called by the supervisor thread, because a
 * worker dies with the thread that started it. */
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/limits.h"
#include "base/poll.h"
#include "base/service_thread.h"
#include "base/shm.h"
#include "base/thread.h"
#include "client/core/points.h"
#include "client/recovery/recovery.h"
#include "wire/entry.h"

#include <troupe/version.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

#define STOP_WAIT_MS   3000
#define CLOSED_WAIT_MS 1000 /* for one that has closed its socket, to end by itself */

/* After that long a worker is given up: one that has got SIGKILL, and that a driver holds up, and
 * one that may not be sent it. The latter ends as soon as its connection does, if it is well. */
#define KILLED_WAIT_MS  120000
#define REFUSED_WAIT_MS 10000

/* What such a worker dies of then. Of signals that end a process the first one counts: so one that
 * had got SIGKILL from somebody, and that the driver holds up, is told from one that had got none.
 */
#define CLOSED_SIGNAL    SIGALRM
#define SOCKET_IN_WORKER 3
#define CLOSING_CHECK_MS 20
#define PROTECT_NS       (10 * TRP__SECOND) /* more than who seals waits for it */
#define TOUCH_NS         (10 * TRP__SECOND) /* at most, for the first touch of a GiB of host memory */

static void tell_all(trp_device *device, uint32_t index);
static void tell_promoted(trp_device *device);
static void number_answered_all(trp_device *device, uint32_t index);

/* Each worker has a reply block of its own, so that what a dying one still writes reaches nobody.
 */
static trp_status make_reply(trp__process *p, trp_error *error)
{
    void *map = NULL;
    trp_status status =
        trp__shm_create("troupe-reply", TRP__REPLY_BYTES, false, &p->reply_fd, &map, error);
    if (status != TRP_OK)
        return status;
    madvise(map, TRP__REPLY_BYTES, MADV_DONTFORK);
    p->reply = map;
    p->reply->head =
        (trp__block_head){.magic = TRP__MAGIC, .abi = TRP__ABI, .bytes = sizeof(trp__reply)};
    return TRP_OK;
}

static trp_status spawn(trp_device *device, trp__process *p, int socket, trp_error *error)
{
    const char *path = device->system->worker_path;
    char parent[24];
    char *argv[] = {(char *)path, "--parent", parent, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    pid_t pid = 0;

    if (path[0] == '\0')
        return trp__error_set(error, TRP_E_MISSING, TRP__NO_WORKER);
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, socket, SOCKET_IN_WORKER);
    /* Relative paths in the environment mean the same to each worker. */
    if (device->system->folder[0] && access(device->system->folder, X_OK) == 0)
        posix_spawn_file_actions_addchdir_np(&actions, device->system->folder);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int result = posix_spawn(&pid, path, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (result != 0) {
        char limits[96];
        return trp__error_set_code(error, result == ENOENT ? TRP_E_MISSING : TRP_E_SYSTEM, "errno",
                                   result, "starting %.120s: %s%s", path, strerror(result),
                                   trp__limits_text(result, limits, sizeof limits));
    }
    p->pid = pid;
    p->pidfd = trp__descriptor_apart((int)syscall(SYS_pidfd_open, pid, 0));
    if (p->pidfd < 0) {
        trp__error_set_errno(
            error, "pidfd_open (needs Linux 5.3 or later, and a seccomp filter that allows it)");
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        p->pid = 0;
        return TRP_E_SYSTEM;
    }
    return TRP_OK;
}

static void *thread_main(void *argument)
{
    int socket = (int)(intptr_t)argument;
    trp__is_service_thread = true;
    trp__worker_run(socket, false);
    return NULL;
}

static trp_status run(trp_device *device, trp__process *p, int socket, trp_error *error)
{
    if (device->options.isolation == TRP_ISOLATION_PROCESS) {
        trp_status status = spawn(device, p, socket, error);
        close(socket);
        return status;
    }
    int code =
        trp__thread_start(&p->thread, TRP__SIGNALS_BLOCKED, thread_main, (void *)(intptr_t)socket);
    if (code != 0) {
        close(socket);
        errno = code;
        return trp__error_set_errno(error, "the worker's thread can't be started");
    }
    p->has_thread = true;
    return TRP_OK;
}

/* A worker that is not greeted would wait for that until its time is up; it ends when there is
 * nobody to wait for. */
static void greet(trp_device *device, const trp__process *p, int socket)
{
    trp__message hello = {.id = p->incarnation};
    int fds[TRP__MESSAGE_FDS] = {device->control_fd, p->reply_fd, device->staging_fd};
    if (trp__message_send(socket, TRP__MSG_HELLO, &hello, fds, TRP__MESSAGE_FDS, NULL) != TRP_OK)
        shutdown(socket, SHUT_RDWR);
}

static int make_pair(int pair[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    for (int i = 0; i < 2; i++)
        pair[i] = trp__descriptor_apart(pair[i]);
    if (pair[0] >= 0 && pair[1] >= 0)
        return 0;
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0)
            close(pair[i]);
    }
    errno = EMFILE; /* why else */
    return -1;
}

/* Starts a worker; it will say READY or REFUSE, or die. */
trp_status trp__process_launch(trp_device *device, uint32_t index, trp_error *error)
{
    trp__process p = {.socket = -1, .pidfd = -1, .reply_fd = -1};
    int pair[2];
    p.incarnation = ++device->recovery.incarnations;
    p.launched_ns = trp__now_ns();
    if (TRP__DEVICE_POINT_FAILS(device, LAUNCH))
        return trp__error_set(error, TRP_E_SYSTEM, "a test lets the start fail");
    trp_status status = make_reply(&p, error);
    if (status != TRP_OK)
        return status;
    if (make_pair(pair) != 0) {
        status = trp__error_set_errno(error, "socketpair");
        goto out;
    }
    fcntl(pair[0], F_SETFL, O_NONBLOCK); /* this end only */
    status = run(device, &p, pair[1], error);
    if (status != TRP_OK) {
        close(pair[0]);
        goto out;
    }
    TRP__FAULT_POINT_NEAR(LAUNCH_SPAWNED, device->worker[1 - index].pid, p.pid);
    greet(device, &p, pair[0]); /* if it is dead already, that shows soon */
    TRP__FAULT_POINT_NEAR(LAUNCH_GREETED, device->worker[1 - index].pid, p.pid);
    pthread_mutex_lock(&device->lock);
    p.socket = pair[0];
    device->worker[index] = p;
    pthread_mutex_unlock(&device->lock);
    TRP__DEVICE_POINT(device, LAUNCH_PLACED);
out:
    if (status != TRP_OK) {
        trp__shm_unmap(p.reply, TRP__REPLY_BYTES);
        close(p.reply_fd);
    }
    return status;
}

/* The worker is up: it learns of everything that lives. */
void trp__process_welcome(trp_device *device, uint32_t index)
{
    TRP__DEVICE_POINT(device, WELCOME);
    pthread_mutex_lock(&device->lock);
    device->worker[index].ready = true;
    if (index != device->active)
        atomic_store(&device->standby_pid, device->worker[index].pid);
    tell_all(device, index);
    pthread_mutex_unlock(&device->lock);
    TRP__DEVICE_POINT(device, WELCOME_TOLD);
}

trp_status trp__process_refusal(const trp__message *m, trp_error *error)
{
    trp__error_import(error, &m->error);
    if (error->status != TRP_OK)
        return error->status;
    return trp__error_set(error, TRP_E_INTERNAL, "the worker refused without a reason");
}

/* A worker's first words: READY, REFUSE, or else it is none. TRP_E_TIMEOUT: nothing, or, with
 * *line, a line for the log, behind which they may lie already. */
static trp_status take_first_words(trp_device *device, trp__process *p, bool *line, bool *refused,
                                   trp_error *error)
{
    trp__message m;
    int fds[TRP__MESSAGE_FDS];
    trp_status status = trp__message_receive(p->socket, &m, fds, &p->closed, error);
    for (int i = 0; i < TRP__MESSAGE_FDS; i++) {
        if (fds[i] >= 0)
            close(fds[i]); /* a worker has no reason to send any */
    }
    if (status != TRP_OK || m.type == TRP__MSG_READY)
        return status;
    if (m.type == TRP__MSG_LOG) {
        trp__worker_line(device, p, &m);
        *line = true;
        return TRP_E_TIMEOUT;
    }
    *refused = m.type == TRP__MSG_REFUSE;
    if (*refused)
        return trp__process_refusal(&m, error);
    return trp__error_set(error, TRP_E_VERSION,
                          "the worker's first message is of type %u, which makes no sense", m.type);
}

/* Waits for a worker's answer to the hello. On an error the worker is gone. */
trp_status trp__process_await_ready(trp_device *device, uint32_t index, trp_error *error)
{
    trp__process *p = &device->worker[index];
    int64_t end = trp__process_due(device, p);
    trp_status status = TRP_E_TIMEOUT;
    bool refused = false;
    TRP__DEVICE_POINT(device, READY_AWAITED);
    while (status == TRP_E_TIMEOUT) {
        /* The process too: a forked child of the application may hold the socket's other end. */
        struct pollfd polled[2] = {{.fd = p->socket, .events = POLLIN},
                                   {.fd = p->pidfd, .events = POLLIN}};
        if (atomic_load(&device->closing)) {
            trp__error_down(device, error);
            status = error->status;
            break;
        }
        if (trp__now_ns() >= end) {
            trp__error_set(
                error, TRP_E_TIMEOUT, "the worker was not ready after %llu ms",
                (unsigned long long)(device->options.start_timeout_ns / (uint64_t)TRP__MS));
            break;
        }
        if (trp__poll(polled, 2, CLOSING_CHECK_MS * TRP__MS) <= 0)
            continue;
        bool line = false;
        status = take_first_words(device, p, &line, &refused, error);
        if (status == TRP_E_TIMEOUT && !refused && !line && polled[1].revents)
            status = trp__error_set(error, TRP_E_FAULT, "the worker ended before it was ready");
        if (status == TRP_OK) {
            trp__process_welcome(device, index);
            return TRP_OK;
        }
    }
    /* Say why it ended, if it did not say so itself. */
    trp_error cause = {0};
    trp__process_end(device, index, true, &cause);
    if (status == TRP_E_FAULT && !refused && cause.message[0])
        *error = cause;
    return status;
}

/* Lets a ready worker take the requests. Its reply block takes the place of the dead worker's at
 * the same address: threads that read timelines see the old block or the new. */
trp_status trp__process_promote(trp_device *device, uint32_t index, trp_error *error)
{
    trp__process *p = &device->worker[index];
    void *map = NULL;
    if (TRP__DEVICE_POINT_FAILS(device, PROMOTE_MAPPING))
        return trp__error_set(error, TRP_E_SYSTEM, "a test lets the mapping fail");
    if (!trp__words_untouched(p->reply)) {
        trp__error_set(error, TRP_E_FAULT,
                       "the worker (pid %lld) spoke of progress before it had anything to do",
                       (long long)p->pid);
        error->fault = TRP_FAULT_BROKEN;
        return error->status;
    }
    trp_status status =
        trp__shm_map(p->reply_fd, TRP__REPLY_BYTES, true, device->reply, &map, error);
    if (status != TRP_OK)
        return status;
    madvise(map, TRP__REPLY_BYTES, MADV_DONTFORK);
    TRP__DEVICE_POINT(device, PROMOTE_MAPPED);
    device->recovery.seen = (trp__words){0};
    atomic_store(&device->incarnation, p->incarnation);
    atomic_store(&device->worker_pid, p->pid);
    atomic_store(&device->standby_pid, 0);
    TRP__DEVICE_POINT(device, PROMOTE_UNSTORED);
    atomic_store(&device->control->promoted, p->incarnation);
    TRP__DEVICE_POINT(device, PROMOTE_STORED);
    trp__futex_wake(&device->control->promoted, INT32_MAX);
    pthread_mutex_lock(&device->lock);
    device->active = index;
    device->recovery.standby_failures = 0;
    atomic_store(&device->state, TRP_DEVICE_READY);
    tell_promoted(device);
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    TRP__DEVICE_POINT(device, PROMOTE_DONE);
    return TRP_OK;
}

static const char *signal_hint(int signal)
{
    return signal == SIGKILL ? ", by somebody or for want of memory" : "";
}

/* Its own last words, if they are complete. */
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

/* Says how a worker ended: what it was killed for, its own last words, else what the kernel knows.
 */
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

/* By its number, where the program has closed the descriptor. */
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

/* How long to wait for a process that has got SIGKILL, or that could not be sent it. */
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

/* Nobody shall be told the number of a process that is about to be reaped. */
static void forget_pid(trp_device *device, uint32_t index)
{
    atomic_store(index == device->active ? &device->worker_pid : &device->standby_pid, 0);
}

/* Takes a worker out of its place: nothing is told to it any more, and what it was told to drop is
 * dropped. */
static trp__process take_out(trp_device *device, uint32_t index)
{
    pthread_mutex_lock(&device->lock);
    trp__process p = device->worker[index];
    device->worker[index] = (trp__process){.socket = -1, .pidfd = -1, .reply_fd = -1};
    number_answered_all(device, index);
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
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

/* The kernel refuses the signal where the program has given up the rights with which it started the
 * worker. The end of the connection ends a worker too, whatever its requests are at: see
 * worker/guard.c. A thread has no descriptor, and is not killed. */
void trp__process_kill(trp__process *p)
{
    if (p->pidfd < 0 || syscall(SYS_pidfd_send_signal, p->pidfd, SIGKILL, NULL, 0) == 0 ||
        errno == ESRCH)
        return;
    if (errno == EBADF && kill((pid_t)p->pid, SIGKILL) == 0)
        return; /* a child that nobody has waited for, so the number is its own */
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

/* Reads what a worker still has to say, so that it does not wait for room in the socket. */
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

/* Asks a worker to stop, as soon as its socket has room for that, and gives it time to end. What it
 * was not sent yet it need not know any more. */
static void stop(trp_device *device, trp__process *p)
{
    int64_t end = trp__now_ns() + STOP_WAIT_MS * TRP__MS, left;
    bool sent = false;
    pthread_mutex_lock(&device->lock);
    p->ready = false;
    p->outbox.count = p->outbox.sent;
    pthread_mutex_unlock(&device->lock);
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
        if (polled[0].revents & (POLLHUP | POLLNVAL)) { /* it ends, and has nothing more to say */
            wait_for_end(p, left > 0 ? left / TRP__MS : 0);
            return;
        }
    } while (left > 0);
}

/* Whether a worker that this side wanted to end has died of that. */
static bool died_of(const trp__process *p, const siginfo_t *info, int signal)
{
    if (p->kill_errno)
        return info->si_code == CLD_EXITED && info->si_status == TRP__EXIT_ABANDONED;
    return info->si_code == CLD_KILLED && info->si_status == signal;
}

/* Ends a worker, gently first unless kill_now, and waits until it is gone: then its context is
 * closed and none of its work can touch memory any more. False if it can't be ended: *cause says
 * why then, and it may go on. */
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
        /* It may have been ending, of something else. */
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

/* Takes note of abandoned workers that have ended; with `wait`, of all. Their contexts are broken,
 * so one that can't be ended touches no memory. */
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

/* Telling. */

/* When the supervisor has to look whether a worker is late: with its start, or with an answer.
 * INT64_MAX if nothing is awaited of it; a thread can't be killed, so its answers are waited for.
 * device->lock is held, or this is the supervisor before it has told the worker anything. */
int64_t trp__process_due(const trp_device *device, const trp__process *p)
{
    const trp__outbox *o = &p->outbox;
    uint64_t timeout = device->options.start_timeout_ns;
    int64_t since = p->ready ? o->owed_since : p->launched_ns;
    if (p->socket < 0 || (p->ready && (o->count == 0 || p->has_thread)))
        return INT64_MAX;
    if (p->ready)
        timeout += (o->host_bytes >> 30) * (uint64_t)TOUCH_NS;
    if (p->ready && o->letter[o->first].type == TRP__MSG_PROTECT)
        timeout += (uint64_t)PROTECT_NS;
    return timeout > (uint64_t)(INT64_MAX - since) ? INT64_MAX : since + (int64_t)timeout;
}

void trp__tell_actor(trp_device *device, uint32_t index, trp__client_actor *actor)
{
    if (device->worker[index].ready)
        trp__tell_one(
            device, index,
            &(trp__news){.type = TRP__MSG_ACTOR, .id = actor->id, .fd = -1, .actor = actor});
}

static void tell_segment(trp_device *device, uint32_t index, uint32_t id)
{
    const trp__client_segment *s = &device->memory.segment[id];
    trp__tell_one(device, index,
                  &(trp__news){.type = TRP__MSG_HOST,
                               .id = id,
                               .bytes = s->bytes,
                               .protection = s->plain,
                               .fd = s->fd});
}

/* Whether making something has failed, and who wanted it is about to drop it. */
static bool has_failed(bool answered, const trp_error *answer)
{
    return answered && answer->status != TRP_OK;
}

/* Tells a new worker of everything that lives, but for actors that no worker has made yet: only the
 * one that shall answer for them makes them. device->lock is held. */
static void tell_all(trp_device *device, uint32_t index)
{
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__client_actor *actor = atomic_load(&device->actor[i]);
        if (actor && actor->state == TRP__NUMBER_LIVE && actor->answered &&
            (i < TRP__LANES || !has_failed(true, &actor->answer)) &&
            (index == device->active || !actor->cold))
            trp__tell_actor(device, index, actor);
    }
    for (uint32_t i = 0; i < TRP__ARENAS; i++) {
        trp__client_arena *arena = &device->memory.arena[i];
        if (arena->state != TRP__NUMBER_LIVE)
            continue;
        trp__seal_announced(arena, index);
        trp__tell_one(device, index,
                      &(trp__news){.type = TRP__MSG_ARENA,
                                   .id = i,
                                   .bytes = arena->bytes,
                                   .protection = arena->protection,
                                   .fd = arena->fd});
    }
    for (uint32_t i = 0; i < TRP__HOST_SEGMENTS; i++) {
        const trp__client_segment *segment = &device->memory.segment[i];
        if (segment->state == TRP__NUMBER_LIVE && !has_failed(segment->answered, &segment->answer))
            tell_segment(device, index, i);
    }
}

/* Tells a worker that was just promoted of what standbys are not told, and asks it for answers that
 * its predecessor owed. device->lock is held. */
static void tell_promoted(trp_device *device)
{
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__client_actor *actor = atomic_load(&device->actor[i]);
        if (actor && actor->state == TRP__NUMBER_LIVE &&
            (actor->cold ? !has_failed(actor->answered, &actor->answer) : !actor->answered)) {
            actor->trial = false;
            trp__tell_actor(device, device->active, actor);
        }
    }
    for (uint32_t i = 0; i < TRP__HOST_SEGMENTS; i++) {
        if (device->memory.segment[i].state == TRP__NUMBER_LIVE &&
            !device->memory.segment[i].answered)
            tell_segment(device, device->active, i);
    }
}

/* Answers to drops. */

static void drop_answered(uint32_t index, trp__number_state *state, uint8_t *told)
{
    *told &= (uint8_t) ~(1U << index);
    if (*state == TRP__NUMBER_DROPPING && *told == 0)
        *state = TRP__NUMBER_FREE;
}

/* A worker has dropped a number. device->lock is held. */
void trp__number_answered(trp_device *device, uint32_t index, const trp__message *m)
{
    trp__client_actor *actor = m->id < TRP__ACTORS ? atomic_load(&device->actor[m->id]) : NULL;
    if (m->about == TRP__MSG_ARENA_DROP && m->id < TRP__ARENAS)
        drop_answered(index, &device->memory.arena[m->id].state, &device->memory.arena[m->id].told);
    else if (m->about == TRP__MSG_HOST_DROP && m->id < TRP__HOST_SEGMENTS)
        drop_answered(index, &device->memory.segment[m->id].state,
                      &device->memory.segment[m->id].told);
    else if (m->about == TRP__MSG_ACTOR_DROP && actor)
        drop_answered(index, &actor->state, &actor->told);
}

/* A worker is gone, and with it all that it knew. device->lock is held. */
static void number_answered_all(trp_device *device, uint32_t index)
{
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__client_actor *actor = atomic_load(&device->actor[i]);
        if (actor)
            drop_answered(index, &actor->state, &actor->told);
    }
    for (uint32_t i = 0; i < TRP__ARENAS; i++) {
        drop_answered(index, &device->memory.arena[i].state, &device->memory.arena[i].told);
        trp__seal_worker_gone(&device->memory.arena[i], index);
    }
    for (uint32_t i = 0; i < TRP__HOST_SEGMENTS; i++)
        drop_answered(index, &device->memory.segment[i].state, &device->memory.segment[i].told);
}

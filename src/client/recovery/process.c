/* Starting and promoting a worker. Called by the supervisor thread, because a worker dies with the
 * thread that started it. */
#include "base/os/clock.h"
#include "base/os/descriptor.h"
#include "base/error.h"
#include "base/os/futex.h"
#include "base/os/limits.h"
#include "base/os/poll.h"
#include "base/os/service_thread.h"
#include "base/os/shm.h"
#include "base/os/thread.h"
#include "client/core/points.h"
#include "client/recovery/recovery.h"
#include "wire/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOCKET_IN_WORKER 3
#define CLOSING_CHECK_MS 20
#define PROTECT_NS       (10 * TRP__SECOND) /* more than a sealing call waits */
#define TOUCH_NS         (10 * TRP__SECOND) /* at most, for the first touch of a GiB of host memory */

/* Each worker has a reply block of its own, so that late writes of a dying one have no effect. */
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
    /* The same folder for each worker, so relative paths in the environment mean the same. */
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

/* Sends the hello. If that fails, shuts the socket down, so that the worker ends at once and does
 * not wait. */
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

/* Starts a worker; it sends READY or REFUSE, or dies. */
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
    greet(device, &p, pair[0]); /* a worker that is dead already is noticed soon */
    TRP__FAULT_POINT_NEAR(LAUNCH_GREETED, device->worker[1 - index].pid, p.pid);
    trp__lock_take(&device->lock);
    p.socket = pair[0];
    device->worker[index] = p;
    trp__lock_drop(&device->lock);
    TRP__DEVICE_POINT(device, LAUNCH_PLACED);
out:
    if (status != TRP_OK) {
        trp__shm_unmap(p.reply, TRP__REPLY_BYTES);
        close(p.reply_fd);
    }
    return status;
}

/* The worker is ready: sends it all live resources. */
void trp__process_welcome(trp_device *device, uint32_t index)
{
    TRP__DEVICE_POINT(device, WELCOME);
    trp__lock_take(&device->lock);
    device->worker[index].ready = true;
    if (index != device->active)
        atomic_store(&device->standby_pid, device->worker[index].pid);
    trp__announce_all(device, index);
    trp__lock_drop(&device->lock);
    TRP__DEVICE_POINT(device, WELCOME_TOLD);
}

trp_status trp__process_refusal(const trp__message *m, trp_error *error)
{
    trp__error_import(error, &m->error);
    if (error->status != TRP_OK)
        return error->status;
    return trp__error_set(error, TRP_E_INTERNAL, "the worker refused without a reason");
}

/* Takes the first message of a worker, READY or REFUSE. TRP_E_TIMEOUT: none yet, or, with *line, a
 * line for the log, with more messages possibly after it. */
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
                          "the worker's first message: expected READY or REFUSE, got type %u",
                          m.type);
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
        /* Polls the process too: a forked child of the application may hold the socket's other
         * end. */
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

/* Promotes a ready worker: it takes the requests. Its reply block replaces the dead worker's at the
 * same address: readers of timelines see the old block or the new. */
trp_status trp__process_promote(trp_device *device, uint32_t index, trp_error *error)
{
    trp__process *p = &device->worker[index];
    void *map = NULL;
    if (TRP__DEVICE_POINT_FAILS(device, PROMOTE_MAPPING))
        return trp__error_set(error, TRP_E_SYSTEM, "a test lets the mapping fail");
    if (!trp__words_untouched(p->reply)) {
        trp__error_set(error, TRP_E_FAULT,
                       "the worker (pid %lld) reported progress before it had any request",
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
    trp__lock_take(&device->lock);
    device->active = index;
    device->recovery.standby_failures = 0;
    trp__announce_promoted(device);
    pthread_cond_broadcast(&device->changed);
    trp__lock_drop(&device->lock);
    TRP__DEVICE_POINT(device, PROMOTE_DONE);
    return TRP_OK;
}

/* Returns the time at which a worker is late with its start or an answer. INT64_MAX if it owes
 * none; a thread can't be killed, so its answers have no limit. device->lock is held, or the worker
 * was sent no news yet. */
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

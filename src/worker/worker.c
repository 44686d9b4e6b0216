/* The worker: handshake, threads, end. See worker.h. */
#include "worker/worker.h"

#include "base/os/clock.h"
#include "base/os/descriptor.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/os/futex.h"
#include "base/log.h"
#include "base/os/service_thread.h"
#include "base/os/shm.h"
#include "base/os/thread.h"
#include "wire/entry.h"
#include "wire/message.h"
#include "worker/guard.h"
#include "worker/rehearse.h"
#include "worker/resources.h"

#include <troupe/version.h>

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Exit statuses of a worker process, for people who read logs. */
enum { EXIT_CLEAN = 0, EXIT_REFUSED = 64, EXIT_FAULT = 70 };

/* Services for actors. */

bool trp__worker_piece_ready(trp__worker *w, uint32_t stream, uint64_t chunk)
{
    if (stream >= TRP__STREAMS)
        return false;
    /* An upload needs the chunk itself in the piece; a download needs the piece's previous chunk
     * taken out. */
    uint64_t previous = chunk + 1 > TRP__PIECES ? chunk + 1 - TRP__PIECES : 0;
    uint64_t needed = stream == TRP__LANE_UPLOAD ? chunk + 1 : previous;
    return atomic_load_explicit(&w->control->piece_ready[stream][chunk % TRP__PIECES].value,
                                memory_order_acquire) >= needed;
}

_Atomic uint64_t *trp__worker_stream_done(trp__worker *w, uint32_t stream)
{
    return &w->reply->timelines.stream_done[stream].value;
}

/* Side thread. */

void trp__worker_report_fault(trp__worker *w, const trp_error *error)
{
    trp__message m = {0};
    TRP__FAULT_POINT(FAULT_UNREPORTED);
    w->reply->fault = *error;
    w->reply->fault_time_ns = trp__now_ns();
    atomic_store_explicit(&w->reply->fault_present, 1, memory_order_release);
    TRP__FAULT_POINT(FAULT_WRITTEN);
    trp__message_send(w->socket, TRP__MSG_FAULT, &m, NULL, 0, NULL);
    if (w->own_process)
        _exit(EXIT_FAULT); /* a broken context can't be torn down, only left */
    atomic_store(&w->stop, true);
    shutdown(w->socket, SHUT_RDWR); /* wakes the side thread */
}

static void close_fds(int fds[TRP__MESSAGE_FDS])
{
    for (int i = 0; i < TRP__MESSAGE_FDS; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

/* Handles messages until STOP or until the application is gone. */
static void side_loop(trp__worker *w)
{
    for (;;) {
        trp__message m;
        int fds[TRP__MESSAGE_FDS];
        bool closed = false;
        trp__side_wait(w);
        trp_error error;
        trp_status status = trp__message_receive(w->socket, &m, fds, &closed, &error);
        if (closed && w->own_process && !atomic_load(&w->stop))
            _exit(TRP__EXIT_ABANDONED); /* the application is gone */
        if (closed || (status == TRP_OK && m.type == TRP__MSG_STOP))
            return;
        if (status == TRP_OK)
            trp__worker_dispatch(w, &m, fds[0]);
        if (status ==
            TRP_E_SYSTEM) { /* without its descriptor the message is answered with the error */
            m.error = error;
            trp__worker_dispatch(w, &m, -1);
        }
        close_fds(fds);
    }
}

/* Scheduler thread. */

/* Waits for the promotion of a standby; rehearses meanwhile. */
static void await_promotion(trp__worker *w)
{
    const _Atomic uint32_t *word = &w->control->promoted;
    uint32_t promoted;
    trp__rehearsal *rehearsal = trp__rehearsal_begin(w);
    while (!atomic_load(&w->stop) && (promoted = atomic_load(word)) != w->incarnation) {
        atomic_fetch_add(&w->turns, 1);
        trp__futex_wait(word, promoted, trp__rehearse(rehearsal));
    }
    trp__rehearsal_end(rehearsal);
}

typedef struct scheduler_start {
    trp__worker *worker;
    sem_t attached;
    trp_status status;
    trp_error error;
} scheduler_start;

static void *scheduler_main(void *argument)
{
    scheduler_start *start = argument;
    trp__is_service_thread = true;
    trp__worker *w = start->worker;
    trp_error error = {0};
    trp_status status = start->status = w->backend->attach(w->accel, &start->error);
    sem_post(&start->attached); /* `start` is gone from here on */
    if (status != TRP_OK)
        return NULL;
    TRP__FAULT_POINT(WORKER_AWAITS_PROMOTION);
    await_promotion(w);
    TRP__FAULT_POINT(WORKER_PROMOTED);
    if (trp__scheduler_run(w->scheduler, &error) != TRP_OK)
        trp__worker_report_fault(w, &error);
    return NULL;
}

/* A scheduler thread that can't use the device makes the worker refuse: a fault would be blamed on
 * an actor. */
static trp_status start_scheduler(trp__worker *w, pthread_t *thread, trp_error *error)
{
    scheduler_start start = {.worker = w};
    sem_init(&start.attached, 0, 0);
    int code = trp__thread_start(thread, TRP__SIGNALS_BLOCKED, scheduler_main, &start);
    if (code != 0) {
        sem_destroy(&start.attached);
        errno = code;
        return trp__error_set_errno(error, "the worker can't start a thread");
    }
    while (sem_wait(&start.attached) != 0) {
    }
    sem_destroy(&start.attached);
    if (start.status != TRP_OK) {
        *error = start.error;
        pthread_join(*thread, NULL);
    }
    return start.status;
}

static void join_scheduler(trp__worker *w, pthread_t thread)
{
    struct timespec until;
    do {
        trp__worker_nudge(w);
        clock_gettime(CLOCK_REALTIME, &until);
    } while (pthread_timedjoin_np(thread, NULL, &until) != 0);
}

/* Handshake. */

static trp_status check_block(const trp__block_head *head, uint64_t bytes, const char *what,
                              trp_error *error)
{
    if (head->magic == TRP__MAGIC && head->abi == TRP__ABI && head->bytes == bytes)
        return TRP_OK;
    return trp__error_set(error, TRP_E_VERSION,
                          "%s: this worker is Troupe %s (ABI %u, %llu bytes), the application's is "
                          "%.15s (ABI %u, %llu bytes)",
                          what, TRP_VERSION_STRING, TRP__ABI, (unsigned long long)bytes,
                          head->version, head->abi, (unsigned long long)head->bytes);
}

static trp_status set_up(trp__worker *w, const int fds[TRP__MESSAGE_FDS], trp_error *error)
{
    void *map = NULL;
    trp_status status = trp__shm_map(fds[0], TRP__CONTROL_BYTES, false, NULL, &map, error);
    if (status != TRP_OK)
        return status;
    w->control = map;
    TRP__FAULT_POINT(WORKER_CONTROL_MAPPED);
    status = check_block(&w->control->head, sizeof(trp__control), "control block", error);
    if (status == TRP_OK)
        status = trp__shm_map(fds[1], TRP__REPLY_BYTES, true, NULL, &map, error);
    if (status != TRP_OK)
        return status;
    w->reply = map;
    TRP__FAULT_POINT(WORKER_REPLY_MAPPED);

    uint32_t kind = w->control->backend;
    w->backend = kind <= TRP_BACKEND_HOST ? trp__backends[kind] : NULL;
    if (!w->backend)
        return trp__error_set(error, TRP_E_UNSUPPORTED, "this worker has no backend %u", kind);
    status = w->backend->open(w->control->ordinal, &w->accel, error);
    TRP__FAULT_POINT(WORKER_DEVICE_OPEN);
    if (status == TRP_OK)
        trp__worker_expect_deep_kernels(w, false);
    if (status == TRP_OK)
        status = w->backend->host_register(w->accel, &w->reply->timelines,
                                           sizeof w->reply->timelines, error);
    if (status == TRP_OK)
        status = trp__worker_map_host(w, 0, TRP__STAGING_BYTES, false, fds[2], error);
    TRP__FAULT_POINT(WORKER_STAGING_MAPPED);
    if (status == TRP_OK &&
        (TRP__FAULT_POINT_FAILS(WORKER_SET_UP) || !(w->scheduler = trp__scheduler_create(w))))
        status = trp__error_set(error, TRP_E_MEMORY, "no memory for the scheduler");
    return status;
}

static void tear_down(trp__worker *w)
{
    trp__worker_drop_all(w);
    trp__scheduler_destroy(w->scheduler);
    if (w->accel) {
        w->backend->host_unregister(w->accel, &w->reply->timelines);
        w->backend->close(w->accel);
    }
    trp__shm_unmap(w->reply, TRP__REPLY_BYTES);
    trp__shm_unmap((void *)w->control, TRP__CONTROL_BYTES);
}

/* Ctrl-C in a terminal reaches every process of the group; the application decides what it means,
 * and the worker ends with the application in any case. A write past a file size limit returns an
 * error instead of SIGXFSZ. */
static void ignore_terminal_signals(void)
{
    const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP, SIGXFSZ};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
}

/* Sends a log line to the application, which shows it. */
static void send_line(void *user_data, int level, const char *line)
{
    const trp__worker *w = user_data;
    trp__message m = {.about = (uint32_t)level};
    trp__copy_string(m.library, sizeof m.library, line);
    trp__message_send(w->socket, TRP__MSG_LOG, &m, NULL, 0, NULL); /* lost if the socket is full */
}

int trp__worker_run(int socket, bool own_process)
{
    int result = EXIT_REFUSED;
    trp_error error = {0};
    trp__message hello;
    int fds[TRP__MESSAGE_FDS];
    bool closed = false;
    pthread_t scheduler;

    trp__worker *w = calloc(1, sizeof *w);
    if (!w) {
        close(socket);
        return EXIT_REFUSED;
    }
    w->socket = socket;
    w->own_process = own_process;
    trp__log_divert(send_line, w);
    if (own_process)
        ignore_terminal_signals();

    TRP__FAULT_POINT(WORKER_START);
    trp_status guarded = own_process ? trp__guard_start(socket, &error) : TRP_OK;
    trp_error unguarded = error;
    trp_status status = trp__message_receive(socket, &hello, fds, &closed, &error);
    TRP__FAULT_POINT(WORKER_HELLO);
    if (status == TRP_OK && hello.type != TRP__MSG_HELLO)
        status =
            trp__error_set(&error, TRP_E_INTERNAL, "expected a hello, got message %u", hello.type);
    if (status == TRP_OK && guarded != TRP_OK) {
        error = unguarded;
        status = guarded;
    }
    w->incarnation = hello.id;
    w->side_fd = trp__descriptor_apart(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (status == TRP_OK && w->side_fd < 0)
        status = trp__error_set_errno(&error, "eventfd");
    if (status == TRP_OK)
        status = set_up(w, fds, &error);
    close_fds(fds);
    if (status == TRP_OK)
        status = start_scheduler(w, &scheduler, &error);
    if (status != TRP_OK) {
        trp__worker_answer(w, TRP__MSG_REFUSE, NULL, &error);
        atomic_store(&w->stop,
                     true); /* no scheduler runs, so await_scheduler_turn() must not wait */
        goto out;
    }

    TRP__FAULT_POINT(WORKER_READY_UNSENT);
    trp__worker_answer(w, TRP__MSG_READY, NULL, &error);
    TRP__FAULT_POINT(WORKER_READY_SENT);
    side_loop(w);
    TRP__FAULT_POINT(WORKER_STOP);
    atomic_store(&w->stop, true);
    join_scheduler(w, scheduler);
    TRP__FAULT_POINT(WORKER_STOP_JOINED);
    result = atomic_load(&w->reply->fault_present) ? EXIT_FAULT : EXIT_CLEAN;
out:
    tear_down(w);
    if (w->side_fd >= 0)
        close(w->side_fd);
    TRP__FAULT_POINT(WORKER_STOP_TORN_DOWN);
    trp__log_divert_end(w);
    close(socket);
    free(w);
    return result;
}

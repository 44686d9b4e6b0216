/* The worker: handshake, side thread, end. See worker.h for who does what. */
#include "worker/worker.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/service_thread.h"
#include "base/shm.h"
#include "base/thread.h"
#include "wire/actor_class.h"
#include "wire/entry.h"
#include "wire/message.h"
#include "worker/guard.h"
#include "worker/rehearse.h"

#include <troupe/version.h>

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Exit statuses of a worker process, for people who read logs. */
enum { EXIT_CLEAN = 0, EXIT_REFUSED = 64, EXIT_FAULT = 70 };

/* Services for actors. */

trp_status trp__worker_host_address(trp__worker *w, uint32_t segment, uint64_t offset,
                                    uint64_t bytes, void **out, trp_error *error)
{
    trp__host_segment *host = &w->host[segment % TRP__HOST_SEGMENTS];
    int state = atomic_load_explicit(&host->state, memory_order_acquire);
    if (state == TRP__ABSENT)
        return TRP__AGAIN;
    if (state == TRP__FAILED) {
        *error = host->error;
        return error->status;
    }
    if (segment >= TRP__HOST_SEGMENTS || offset > host->bytes || bytes > host->bytes - offset)
        return trp__error_set(error, TRP_E_INTERNAL,
                              "host memory segment %u does not hold %llu bytes at %llu", segment,
                              (unsigned long long)bytes, (unsigned long long)offset);
    *out = host->base + offset;
    return TRP_OK;
}

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

/* Side thread: what is slow. */

static void answer(trp__worker *w, trp__message_type type, const trp__message *about,
                   const trp_error *error)
{
    trp__message m = {.error = *error};
    if (about) {
        m.id = about->id;
        m.about = about->type;
        m.protection = about->protection;
    }
    trp__message_send(w->socket, type, &m, NULL, 0, NULL); /* if it fails, receiving fails too */
}

/* From whichever thread meets it. */
static void report_fault(trp__worker *w, const trp_error *error)
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

/* Sleepers on the application's futexes can be woken from here, though the words can't be changed
 * (the memory is read-only); callers repeat this, because one that is just falling asleep is
 * missed. */
static void nudge_scheduler(trp__worker *w)
{
    trp__futex_wake((_Atomic uint32_t *)&w->control->doorbell, INT32_MAX);
    trp__futex_wake((_Atomic uint32_t *)&w->control->promoted, INT32_MAX);
    trp__sleep_ns(20 * TRP__US);
}

/* Waits until the scheduler has left whatever it was doing: the application may see a request end,
 * and drop what the request used, before the scheduler has returned from issuing it. */
static void await_scheduler_turn(trp__worker *w)
{
    uint64_t seen = atomic_load(&w->turns);
    while (!atomic_load(&w->stop) && atomic_load(&w->turns) == seen)
        nudge_scheduler(w);
}

/* After a restart the application may tell of a resource twice: from the thread that makes it, and
 * when it lists all that there is. The second time is only answered. */

static void add_arena(trp__worker *w, const trp__message *m, int fd)
{
    trp__arena *arena = &w->arena[m->id];
    trp_error error = {0};
    if (atomic_load(&arena->state) != TRP__ABSENT) {
        answer(w, TRP__MSG_ANSWER, m, &arena->error);
        return;
    }
    if (atomic_load(&arena->protection) < m->protection)
        atomic_store(&arena->protection, m->protection);
    bool read_only = atomic_load(&arena->protection) % 2 != 0;
    trp_status status =
        m->error.status != TRP_OK ? (error = m->error).status
        : TRP__FAULT_POINT_FAILS(ARENA_MAPPING)
            ? trp__error_set(&error, TRP_E_MEMORY, "a test lets the mapping fail")
            : w->backend->arena_map(w->accel, fd, m->bytes, read_only, &arena->base, &error);
    TRP__FAULT_POINT(ARENA_MAPPED);
    atomic_store(&arena->read_only, read_only);
    arena->bytes = m->bytes;
    arena->error = error;
    atomic_store_explicit(&arena->state, status == TRP_OK ? TRP__READY : TRP__FAILED,
                          memory_order_release);
    TRP__FAULT_POINT(ARENA_UNANSWERED);
    answer(w, TRP__MSG_ANSWER, m, &error);
    TRP__FAULT_POINT(ARENA_ANSWERED);
}

/* Waits until no request uses an arena: a GPU's driver takes pages away for a moment while it
 * changes how they are mapped. The scheduler holds back what comes later (see enter_arenas there).
 */
static trp_status await_unused(trp__worker *w, trp__arena *arena, uint64_t limit_ns,
                               trp_error *error)
{
    int64_t start = trp__now_ns();
    for (uint32_t actor = 0; actor < TRP__ACTORS; actor++) {
        const _Atomic uint64_t *done = &w->reply->timelines.timeline[actor].value;
        while (atomic_load(done) < atomic_load(&arena->used[actor]) && !atomic_load(&w->stop)) {
            if ((uint64_t)(trp__now_ns() - start) > limit_ns)
                return trp__error_set(error, TRP_E_TIMEOUT,
                                      "requests that use the buffer have not ended within %llu ms",
                                      (unsigned long long)(limit_ns / (uint64_t)TRP__MS));
            trp__sleep_ns(20 * TRP__US);
        }
    }
    return TRP_OK;
}

/* Makes a mapping read-only or writable. One that is not there yet will be made as its number says.
 */
static void protect_arena(trp__worker *w, const trp__message *m)
{
    trp__arena *arena = &w->arena[m->id];
    trp_error error = {0};
    if (m->protection > atomic_load(&arena->protection)) {
        bool read_only = m->protection % 2 != 0;
        bool differs = atomic_load(&arena->read_only) != read_only;
        if (atomic_load(&arena->state) == TRP__READY && differs) {
            if (await_unused(w, arena, m->bytes, &error) == TRP_OK &&
                w->backend->arena_protect(w->accel, arena->base, arena->bytes, read_only, &error) ==
                    TRP_OK)
                atomic_store(&arena->read_only, read_only);
            else
                arena->error = error;
        }
        atomic_store_explicit(&arena->protection, m->protection, memory_order_release);
    }
    answer(w, TRP__MSG_ANSWER, m, &error);
}

static void drop_arena(trp__worker *w, uint32_t id)
{
    trp__arena *arena = &w->arena[id];
    int state = atomic_exchange(&arena->state, TRP__ABSENT);
    if (state != TRP__READY)
        return;
    TRP__FAULT_POINT(DROP_ARENA);
    await_scheduler_turn(w);
    TRP__FAULT_POINT(DROP_ARENA_UNMAPPING);
    w->backend->arena_unmap(w->accel, arena->base, arena->bytes);
}

bool trp__worker_buffer_live(const trp__worker *w, uint32_t slot, uint32_t generation)
{
    return slot < TRP__BUFFERS && atomic_load_explicit(&w->control->buffer[slot].generation,
                                                       memory_order_acquire) == generation;
}

static trp_status map_host(trp__worker *w, uint32_t id, uint64_t bytes, bool plain, int fd,
                           trp_error *error)
{
    trp__host_segment *host = &w->host[id];
    void *base = NULL;
    trp_status status = trp__shm_map(fd, bytes, true, NULL, &base, error);
    if (status == TRP_OK && !plain) {
        status = w->backend->host_register(w->accel, base, bytes, error);
        if (status != TRP_OK)
            trp__shm_unmap(base, bytes);
    }
    host->base = base;
    host->bytes = bytes;
    host->plain = plain;
    atomic_store_explicit(&host->state, status == TRP_OK ? TRP__READY : TRP__FAILED,
                          memory_order_release);
    return status;
}

static void add_host(trp__worker *w, const trp__message *m, int fd)
{
    trp__host_segment *host = &w->host[m->id];
    TRP__FAULT_POINT(HOST_MAPPING);
    if (atomic_load(&host->state) != TRP__ABSENT) {
        /* only answered */
    } else if (m->error.status == TRP_OK) {
        map_host(w, m->id, m->bytes, m->protection == 1, fd, &host->error);
    } else {
        host->error = m->error;
        atomic_store_explicit(&host->state, TRP__FAILED, memory_order_release);
    }
    TRP__FAULT_POINT(HOST_UNANSWERED);
    answer(w, TRP__MSG_ANSWER, m, &host->error);
    TRP__FAULT_POINT(HOST_ANSWERED);
}

static void drop_host(trp__worker *w, uint32_t id)
{
    trp__host_segment *host = &w->host[id];
    int state = atomic_exchange(&host->state, TRP__ABSENT);
    memset(&host->error, 0, sizeof host->error);
    if (state != TRP__READY)
        return;
    TRP__FAULT_POINT(DROP_HOST);
    await_scheduler_turn(w);
    TRP__FAULT_POINT(DROP_HOST_UNMAPPING);
    if (!host->plain)
        w->backend->host_unregister(w->accel, host->base);
    trp__shm_unmap(host->base, host->bytes);
}

trp_status trp__instance_start(trp__worker *w, trp__instance *instance, trp_error *error)
{
    const trp_actor_impl *impl = instance->impl;
    trp_status status;
    if (impl->state_bytes > 0 && !(instance->api.state = calloc(1, impl->state_bytes)))
        return trp__error_set(error, TRP_E_MEMORY, "no memory for an actor's state");
    status = w->backend->stream_create(w->accel, &instance->stream, error);
    TRP__FAULT_POINT(ACTOR_STREAM_MADE);
    /* A stream's first work sets it up; let it be this, which changes nothing. */
    _Atomic uint64_t *word = &w->reply->timelines.timeline[instance->id].value;
    if (status == TRP_OK)
        status = w->backend->stream_signal(instance->stream, word, atomic_load(word), error);
    if (status != TRP_OK)
        return status;
    trp__instance_begin(instance, (trp_backend)w->control->backend, w->control->ordinal,
                        w->incarnation);
    status = impl->init ? impl->init(&instance->api, error) : TRP_OK;
    return status == TRP_OK ? TRP_OK : trp__actor_verdict(status, error);
}

void trp__instance_stop(trp__worker *w, trp__instance *instance, bool initialised)
{
    if (initialised && instance->impl->stop) {
        w->backend->stream_drain(instance->stream);
        instance->impl->stop(&instance->api);
    }
    if (instance->stream)
        w->backend->stream_destroy(instance->stream);
    free(instance->api.state);
    instance->stream = NULL;
    instance->api.state = NULL;
}

/* A thread of the application shares its context, whose settings are the application's. */
static void expect_deep_kernels(trp__worker *w, bool expected)
{
    if (w->backend->expect_deep_kernels && w->control->isolation == TRP_ISOLATION_PROCESS)
        w->backend->expect_deep_kernels(w->accel, expected);
}

/* The implementation that an actor runs: built in, or the one of the application's library. */
static trp_status find_impl(trp__worker *w, trp__instance *instance, const trp__message *m,
                            trp_error *error)
{
    trp_backend backend = (trp_backend)w->control->backend;
    const char *kind = m->text;
    trp_status status = TRP_OK;
    const trp__actor_class *class = trp__actor_class_find(kind);
    instance->class = class;
    if (m->library[0]) {
        kind = m->library;
        status = trp__library_open(&instance->library, m->library, backend, &instance->impl, error);
    } else {
        instance->impl = !class ? NULL : backend == TRP_BACKEND_CUDA ? class->cuda : class->host;
    }
    if (status != TRP_OK)
        return status;
    if (!instance->impl)
        return trp__error_set(error, TRP_E_UNSUPPORTED, "the %s backend has no actor of kind %s",
                              w->backend->name, kind);
    return trp__impl_check(instance->impl, kind, error);
}

static void stop_actor(trp__worker *w, uint32_t id)
{
    trp__worker_actor *a = &w->actor[id];
    int state = atomic_exchange(&a->state, TRP__ABSENT);
    bool started = state == TRP__READY || state == TRP__RESTARTING;
    if (state != TRP__ABSENT) { /* of a FAILED one too, requests are refused */
        TRP__FAULT_POINT(DROP_ACTOR);
        await_scheduler_turn(w);
        TRP__FAULT_POINT(DROP_ACTOR_STOPPING);
    }
    trp__instance_stop(w, &a->instance, started);
    trp__library_close(&a->instance.library);
    memset(&a->instance, 0, sizeof a->instance);
}

/* Makes an actor. While `making` names it, the application takes a death of this worker for its
 * doing; so what its init() has begun comes to its end first. */
static trp_status make_actor(trp__worker *w, const trp__message *m, trp_error *error)
{
    trp__worker_actor *a = &w->actor[m->id];
    trp_error health = {0};
    atomic_store(&w->reply->making, m->id + 1);
    trp_status status = find_impl(w, &a->instance, m, error);
    if (status == TRP_OK && a->instance.class && a->instance.class->deep)
        expect_deep_kernels(w, true);
    if (status == TRP_OK)
        status = trp__instance_start(w, &a->instance, error);
    if (status == TRP_OK)
        w->backend->stream_drain(a->instance.stream);
    if (w->backend->health(w->accel, &health) != TRP_OK) {
        report_fault(w, &health);
        *error = health;
        status = health.status;
    }
    if (status != TRP_OK)
        stop_actor(w, m->id);
    atomic_store(&w->reply->making, 0);
    return status;
}

static void add_actor(trp__worker *w, const trp__message *m)
{
    trp__worker_actor *a = &w->actor[m->id];
    trp__instance *instance = &a->instance;
    trp_error error = {0};
    if (atomic_load(&a->state) != TRP__ABSENT) {
        answer(w, TRP__MSG_ANSWER, m, &a->error);
        return;
    }
    TRP__FAULT_POINT(ACTOR_STARTING);
    instance->backend = w->backend;
    instance->accel = w->accel;
    instance->worker = w;
    instance->id = m->id;
    trp__copy_string(instance->name, sizeof instance->name, m->error.actor);
    trp__copy_string(instance->config, sizeof instance->config, m->config);
    trp_status status = m->error.status;
    if (status == TRP_OK)
        status = make_actor(w, m, &error);
    else
        error = m->error; /* it has killed workers and is not tried again */
    a->error = error;
    atomic_store_explicit(&a->state, status == TRP_OK ? TRP__READY : TRP__FAILED,
                          memory_order_release);
    TRP__FAULT_POINT(ACTOR_UNANSWERED);
    answer(w, TRP__MSG_ANSWER, m, &error);
    TRP__FAULT_POINT(ACTOR_ANSWERED);
}

/* Drops are answered so that the application can use the number again. */
static void drop(trp__worker *w, const trp__message *m)
{
    const trp_error none = {0};
    if (m->type == TRP__MSG_ARENA_DROP && m->id < TRP__ARENAS)
        drop_arena(w, m->id);
    else if (m->type == TRP__MSG_HOST_DROP && m->id < TRP__HOST_SEGMENTS)
        drop_host(w, m->id);
    else if (m->type == TRP__MSG_ACTOR_DROP && m->id < TRP__ACTORS)
        stop_actor(w, m->id);
    TRP__FAULT_POINT(DROP_UNANSWERED);
    answer(w, TRP__MSG_ANSWER, m, &none);
    TRP__FAULT_POINT(DROP_ANSWERED);
}

static void dispatch(trp__worker *w, const trp__message *m, int fd)
{
    switch (m->type) {
    case TRP__MSG_ARENA:
        if (m->id < TRP__ARENAS)
            add_arena(w, m, fd);
        break;
    case TRP__MSG_PROTECT:
        if (m->id < TRP__ARENAS)
            protect_arena(w, m);
        break;
    case TRP__MSG_HOST:
        if (m->id < TRP__HOST_SEGMENTS)
            add_host(w, m, fd);
        break;
    case TRP__MSG_ACTOR:
        if (m->id < TRP__ACTORS)
            add_actor(w, m);
        break;
    case TRP__MSG_ARENA_DROP:
    case TRP__MSG_HOST_DROP:
    case TRP__MSG_ACTOR_DROP:
        drop(w, m);
        break;
    default:
        break; /* a message that only a newer application knows would have another ABI */
    }
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
            _exit(TRP__EXIT_ABANDONED); /* nobody is left to work for */
        if (closed || (status == TRP_OK && m.type == TRP__MSG_STOP))
            return;
        if (status == TRP_OK)
            dispatch(w, &m, fds[0]);
        if (status == TRP_E_SYSTEM) { /* its descriptor did not come, so it can't be obeyed */
            m.error = error;
            dispatch(w, &m, -1);
        }
        close_fds(fds);
    }
}

/* Scheduler thread. */

/* A standby takes no request until it is promoted. Meanwhile it gets ready for those that come. */
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
        report_fault(w, &error);
    return NULL;
}

/* A thread that can't use the device is a refusal, not a fault: it would be blamed on the actor
 * that is being made. */
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
        nudge_scheduler(w);
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
        expect_deep_kernels(w, false);
    if (status == TRP_OK)
        status = w->backend->host_register(w->accel, &w->reply->timelines,
                                           sizeof w->reply->timelines, error);
    if (status == TRP_OK)
        status = map_host(w, 0, TRP__STAGING_BYTES, false, fds[2], error);
    TRP__FAULT_POINT(WORKER_STAGING_MAPPED);
    if (status == TRP_OK &&
        (TRP__FAULT_POINT_FAILS(WORKER_SET_UP) || !(w->scheduler = trp__scheduler_create(w))))
        status = trp__error_set(error, TRP_E_MEMORY, "no memory for the scheduler");
    return status;
}

static void tear_down(trp__worker *w)
{
    for (uint32_t i = 0; i < TRP__ACTORS; i++)
        stop_actor(w, i);
    for (uint32_t i = 0; i < TRP__ARENAS; i++)
        drop_arena(w, i);
    for (uint32_t i = 0; i < TRP__HOST_SEGMENTS; i++)
        drop_host(w, i);
    trp__scheduler_destroy(w->scheduler);
    if (w->accel) {
        w->backend->host_unregister(w->accel, &w->reply->timelines);
        w->backend->close(w->accel);
    }
    trp__shm_unmap(w->reply, TRP__REPLY_BYTES);
    trp__shm_unmap((void *)w->control, TRP__CONTROL_BYTES);
}

/* Ctrl-C in a terminal reaches every process of the group; what it means is the application's
 * decision, and the worker ends with the application in any case. A file past a limit of size is an
 * error where it is written. */
static void ignore_terminal_signals(void)
{
    const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP, SIGXFSZ};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
}

/* What the worker's code has to say to an operator is the application's to show. */
static void send_line(void *user_data, int level, const char *line)
{
    const trp__worker *w = user_data;
    trp__message m = {.about = (uint32_t)level};
    trp__copy_string(m.library, sizeof m.library, line);
    trp__message_send(w->socket, TRP__MSG_LOG, &m, NULL, 0, NULL); /* no room: it is lost */
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
        answer(w, TRP__MSG_REFUSE, NULL, &error);
        atomic_store(&w->stop, true); /* no scheduler runs whose turn could be waited for */
        goto out;
    }

    TRP__FAULT_POINT(WORKER_READY_UNSENT);
    answer(w, TRP__MSG_READY, NULL, &error);
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

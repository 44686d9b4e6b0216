#include "worker/resources.h"

#include "base/os/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/os/futex.h"
#include "base/os/shm.h"
#include "wire/actor_class.h"

#include <stdlib.h>
#include <string.h>

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

void trp__worker_answer(trp__worker *w, trp__message_type type, const trp__message *about,
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

void trp__worker_nudge(trp__worker *w)
{
    trp__futex_wake((_Atomic uint32_t *)&w->control->doorbell, INT32_MAX);
    trp__futex_wake((_Atomic uint32_t *)&w->control->promoted, INT32_MAX);
    trp__sleep_ns(20 * TRP__US);
}

/* Waits for the scheduler's next turn: the application may see a request end, and drop its
 * resources, before the scheduler has returned from issuing it. */
static void await_scheduler_turn(trp__worker *w)
{
    uint64_t seen = atomic_load(&w->turns);
    while (!atomic_load(&w->stop) && atomic_load(&w->turns) == seen)
        trp__worker_nudge(w);
}

/* After a restart the application may send a resource twice: from the thread that makes it, and in
 * its list of all resources. The second one is only answered. */

static void add_arena(trp__worker *w, const trp__message *m, int fd)
{
    trp__arena *arena = &w->arena[m->id];
    trp_error error = {0};
    if (atomic_load(&arena->state) != TRP__ABSENT) {
        trp__worker_answer(w, TRP__MSG_ANSWER, m, &arena->error);
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
    trp__worker_answer(w, TRP__MSG_ANSWER, m, &error);
    TRP__FAULT_POINT(ARENA_ANSWERED);
}

/* Waits until no request uses an arena: a GPU's driver unmaps pages for a moment while it changes
 * their protection. The scheduler holds back later requests (enter_arenas() in prepare.c). */
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

/* Makes a mapping read-only or writable. A mapping that does not exist yet will be made with that
 * protection. */
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
    trp__worker_answer(w, TRP__MSG_ANSWER, m, &error);
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

trp_status trp__worker_map_host(trp__worker *w, uint32_t id, uint64_t bytes, bool plain, int fd,
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
        trp__worker_map_host(w, m->id, m->bytes, m->protection == 1, fd, &host->error);
    } else {
        host->error = m->error;
        atomic_store_explicit(&host->state, TRP__FAILED, memory_order_release);
    }
    TRP__FAULT_POINT(HOST_UNANSWERED);
    trp__worker_answer(w, TRP__MSG_ANSWER, m, &host->error);
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
    /* The first work of a stream is slow, so enqueue a signal that changes nothing. */
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

void trp__worker_expect_deep_kernels(trp__worker *w, bool expected)
{
    if (w->backend->expect_deep_kernels && w->control->isolation == TRP_ISOLATION_PROCESS)
        w->backend->expect_deep_kernels(w->accel, expected);
}

/* Finds the implementation of an actor: built in, or of the application's library. */
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
    if (!instance->impl) {
        trp__error_set(error, TRP_E_UNSUPPORTED, "the %s backend has no actor of kind %s",
                       w->backend->name, kind);
        return TRP_E_UNSUPPORTED;
    }
    return trp__impl_check(instance->impl, kind, error);
}

static void stop_actor(trp__worker *w, uint32_t id)
{
    trp__worker_actor *a = &w->actor[id];
    int state = atomic_exchange(&a->state, TRP__ABSENT);
    bool started = state == TRP__READY || state == TRP__RESTARTING;
    if (state != TRP__ABSENT) { /* a FAILED one also has requests to refuse */
        TRP__FAULT_POINT(DROP_ACTOR);
        await_scheduler_turn(w);
        TRP__FAULT_POINT(DROP_ACTOR_STOPPING);
    }
    trp__instance_stop(w, &a->instance, started);
    trp__library_close(&a->instance.library);
    memset(&a->instance, 0, sizeof a->instance);
}

/* Makes an actor. While `starting` names it, the application blames it for a death of this worker;
 * so its init()'s work on the device is drained first. */
static trp_status make_actor(trp__worker *w, const trp__message *m, trp_error *error)
{
    trp__worker_actor *a = &w->actor[m->id];
    trp_error health = {0};
    atomic_store(&w->reply->starting, m->id + 1);
    trp_status status = find_impl(w, &a->instance, m, error);
    if (status == TRP_OK && a->instance.class && a->instance.class->deep)
        trp__worker_expect_deep_kernels(w, true);
    if (status == TRP_OK)
        status = trp__instance_start(w, &a->instance, error);
    if (status == TRP_OK)
        w->backend->stream_drain(a->instance.stream);
    if (w->backend->health(w->accel, &health) != TRP_OK) {
        trp__worker_report_fault(w, &health);
        *error = health;
        status = health.status;
    }
    if (status != TRP_OK)
        stop_actor(w, m->id);
    atomic_store(&w->reply->starting, 0);
    return status;
}

static void add_actor(trp__worker *w, const trp__message *m)
{
    trp__worker_actor *a = &w->actor[m->id];
    trp__instance *instance = &a->instance;
    trp_error error = {0};
    if (atomic_load(&a->state) != TRP__ABSENT) {
        trp__worker_answer(w, TRP__MSG_ANSWER, m, &a->error);
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
        error = m->error; /* it is quarantined */
    a->error = error;
    atomic_store_explicit(&a->state, status == TRP_OK ? TRP__READY : TRP__FAILED,
                          memory_order_release);
    TRP__FAULT_POINT(ACTOR_UNANSWERED);
    trp__worker_answer(w, TRP__MSG_ANSWER, m, &error);
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
    trp__worker_answer(w, TRP__MSG_ANSWER, m, &none);
    TRP__FAULT_POINT(DROP_ANSWERED);
}

void trp__worker_dispatch(trp__worker *w, const trp__message *m, int fd)
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
        break; /* not possible: newer messages have another ABI */
    }
}

void trp__worker_drop_all(trp__worker *w)
{
    for (uint32_t i = 0; i < TRP__ACTORS; i++)
        stop_actor(w, i);
    for (uint32_t i = 0; i < TRP__ARENAS; i++)
        drop_arena(w, i);
    for (uint32_t i = 0; i < TRP__HOST_SEGMENTS; i++)
        drop_host(w, i);
}

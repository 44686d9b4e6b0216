/* Opening and closing devices. */
#include "base/call.h"
#include "base/error.h"
#include "base/os/shm.h"
#include "base/os/zeroed.h"
#include "client/api/api.h"
#include "client/core/backoff.h"
#include "client/memory/failures.h"
#include "client/observe/trace.h"
#include "driver/device_memory.h"
#include "wire/rank.h"

#include <troupe/version.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEFAULT_BUDGET    16
#define DEFAULT_WINDOW_NS UINT64_C(10000000000)
#define DEFAULT_START_NS  UINT64_C(60000000000)
#define CUDA_ARENA        (UINT64_C(64) << 20)
#define HOST_ARENA        (UINT64_C(16) << 20)

/* Options. */

static uint32_t power_of_two(uint32_t n)
{
    uint32_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

static trp_status check_options(const trp_device_options *o)
{
    if (TRP__CHECK_ROOM(o) != TRP_OK)
        return TRP_E_ARGUMENT;
    if ((unsigned)o->backend > TRP_BACKEND_HOST)
        return trp__fail(TRP_E_ARGUMENT, "backend: expected 0 to %d, got %d", TRP_BACKEND_HOST,
                         (int)o->backend);
    if ((unsigned)o->isolation > TRP_ISOLATION_THREAD)
        return trp__fail(TRP_E_ARGUMENT, "isolation: expected 0 or 1, got %d", (int)o->isolation);
    if (o->mailbox_size > TRP__MAILBOX_MAX)
        return trp__fail(TRP_E_ARGUMENT, "mailbox_size: expected at most %d, got %u",
                         TRP__MAILBOX_MAX, o->mailbox_size);
    if (o->deadline_ns && o->isolation == TRP_ISOLATION_THREAD)
        return trp__fail(TRP_E_UNSUPPORTED, TRP__NO_DEADLINE);
    if ((unsigned)o->standby > TRP_STANDBY_OFF)
        return trp__fail(TRP_E_ARGUMENT, "standby: expected 0 or 1, got %d", (int)o->standby);
    if ((unsigned)o->proof > TRP_PROOF_OFF)
        return trp__fail(TRP_E_ARGUMENT, "proof: expected 0 or 1, got %d", (int)o->proof);
    if ((unsigned)o->fault_scope > TRP_FAULT_SCOPE_ALL)
        return trp__fail(TRP_E_ARGUMENT, "fault_scope: expected 0 or 1, got %d",
                         (int)o->fault_scope);
    if (o->restart_budget > 100000)
        return trp__fail(TRP_E_ARGUMENT, "restart_budget: expected at most 100000, got %u",
                         o->restart_budget);
    return TRP_OK;
}

static void fill_defaults(trp_device_options *o)
{
    o->mailbox_size = power_of_two(o->mailbox_size ? o->mailbox_size : TRP__MAILBOX_DEFAULT);
    if (o->restart_budget == 0)
        o->restart_budget = DEFAULT_BUDGET;
    if (o->restart_window_ns == 0)
        o->restart_window_ns = DEFAULT_WINDOW_NS;
    if (o->start_timeout_ns == 0)
        o->start_timeout_ns = DEFAULT_START_NS;
}

/* Resolves TRP_BACKEND_BEST, and checks that the device can be used. */
static trp_status choose_backend(trp_device *device, trp_error *error)
{
    trp_backend wanted = device->options.backend;
    uint32_t gpus = 0;
    device->backend = wanted;
    if (wanted == TRP_BACKEND_BEST) {
        bool gpu = trp__cuda_device_count(&gpus, NULL) == TRP_OK && gpus > 0;
        device->backend = gpu ? TRP_BACKEND_CUDA : TRP_BACKEND_HOST;
    }
    if (device->backend == TRP_BACKEND_HOST)
        return TRP_OK;
    return trp__cuda_device_check(device->options.ordinal, error);
}

/* Memory of a device. */

static trp_status map_blocks(trp_device *device, trp_error *error)
{
    void *map = NULL;
    trp_status status = trp__shm_create("troupe-control", TRP__CONTROL_BYTES, true,
                                        &device->control_fd, &map, error);
    if (status != TRP_OK)
        return status;
    device->control = map;
    status = trp__shm_create("troupe-staging", TRP__STAGING_BYTES, false, &device->staging_fd, &map,
                             error);
    if (status != TRP_OK)
        return status;
    device->staging = map;
    status = trp__stats_create(device, error);
    if (status != TRP_OK)
        return status;
    /* Address space for reply blocks. */
    map = mmap(NULL, TRP__REPLY_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return trp__error_set_errno(error, "mmap of the reply block");
    device->reply = map;
    /* A forked child must not reach the device: the blocks are not mapped there, and the `alive`
     * page reads zero. */
    madvise(device->control, TRP__CONTROL_BYTES, MADV_DONTFORK);
    madvise(device->staging, TRP__STAGING_BYTES, MADV_DONTFORK);
    return TRP_OK;
}

static void fill_control(trp_device *device)
{
    trp__control *c = device->control;
    c->head =
        (trp__block_head){.magic = TRP__MAGIC, .abi = TRP__ABI, .bytes = sizeof(trp__control)};
    trp__copy_string(c->head.version, sizeof c->head.version, TRP_VERSION_STRING);
    c->backend = device->backend;
    c->ordinal = device->options.ordinal;
    c->isolation = device->options.isolation;
    c->proof = device->options.proof;
    c->restart_window_ns = device->options.restart_window_ns;
    c->resume_start = 1;
    atomic_store(&c->next_ticket.value, 1);
    device->request.rehearses = device->backend == TRP_BACKEND_CUDA &&
                                device->options.isolation == TRP_ISOLATION_PROCESS &&
                                device->options.standby != TRP_STANDBY_OFF;
}

static trp_status make_tables(trp_device *device, trp_error *error)
{
    device->slot = aligned_alloc(64, sizeof(trp__slot) * TRP__SLOTS);
    device->slot_error = trp__zeroed(TRP__SLOTS * sizeof *device->slot_error);
    device->memory.meta = trp__zeroed(TRP__BUFFERS * sizeof *device->memory.meta);
    device->request.pending = trp__zeroed(TRP__SLOTS * sizeof *device->request.pending);
    device->recovery.pending_progress =
        trp__zeroed(TRP__SLOTS * sizeof *device->recovery.pending_progress);
    device->recovery.restart_time =
        calloc(device->options.restart_budget, sizeof *device->recovery.restart_time);
    device->memory.suballoc = trp__suballoc_create();
    if (!device->slot || !device->slot_error || !device->memory.meta || !device->request.pending ||
        !device->recovery.pending_progress || !device->recovery.restart_time ||
        !device->memory.suballoc || !trp__trace_create(device) || !trp__failures_create(device))
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a device's tables");
    memset(device->slot, 0, sizeof(trp__slot) * TRP__SLOTS);
    device->memory.free_buffer = UINT32_MAX;
    device->memory.first_arena_bytes =
        device->backend == TRP_BACKEND_CUDA ? CUDA_ARENA : HOST_ARENA;
    trp__slots_init(device);

    static const char *const lane_name[TRP__LANES] = {"upload", "download", "local"};
    for (uint32_t i = 0; i < TRP__LANES; i++) {
        if (!trp__actor_make(device, i, trp__actor_class_find("memory"), lane_name[i]))
            return trp__error_set(error, TRP_E_MEMORY, "no memory for a device's actors");
    }
    return TRP_OK;
}

static void init_locks(trp_device *device)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&device->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    trp__lock_init(&device->request.judging, TRP__RANK_JUDGING);
    trp__lock_init(&device->api.companions.lock, TRP__RANK_COMPANIONS);
    pthread_cond_init(&device->observe.watch_idle, NULL);
    trp__lock_init(&device->observe.watch_lock, TRP__RANK_WATCH);
    trp__lock_init(&device->lock, TRP__RANK_DEVICE);
    trp__lock_init(&device->memory.lock, TRP__RANK_MEMORY);
    trp__lock_init(&device->memory.segment_lock, TRP__RANK_SEGMENT);
    trp__contents_init(device);
    trp__heap_init(&device->memory.heap, device, &device->incarnation, &device->system->log);
}

/* Memory in whole pages, so that they can be released, see leave_remnant(). */
static trp_device *new_device(trp_system *system)
{
    const size_t bytes = trp__page_round(sizeof(trp_device));
    trp_device *device = aligned_alloc(trp__page_round(1), bytes);
    trp__remnant *remnant = malloc(sizeof *remnant);
    if (!device || !remnant) {
        free(device);
        free(remnant);
        return NULL;
    }
    memset(device, 0, bytes);
    *remnant = (trp__remnant){.memory = device};
    device->api.remnant = remnant;
    device->system = system;
    device->alive = system->alive;
    device->end_over = trp__sweep_device;
    return device;
}

/* The program may still use the pointer: the device reads zero from now on. */
static void leave_remnant(trp_device *device)
{
    const size_t bytes = trp__page_round(sizeof *device);
    trp_system *system = device->system;
    trp__remnant *remnant = device->api.remnant;
    memset(device, 0, bytes);
    madvise(device, bytes, MADV_DONTNEED); /* on failure the memory is not released */
    trp__system_retain(system, remnant);
}

/* The program may still use pointers to its actors. */
static void leave_actors(trp_device *device)
{
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__client_actor *actor = atomic_load(&device->actor[i]);
        if (actor && actor->handle)
            trp__actor_leave_handle(actor);
    }
}

static void end_device(trp_device *device)
{
    leave_actors(device);
    trp__copier_stop(device);
    for (uint32_t i = 0; i < TRP__ARENAS; i++) {
        if (device->memory.arena[i].state == TRP__NUMBER_LIVE)
            trp__arena_close(device, &device->memory.arena[i]);
    }
    trp__objects_close(device);
    for (uint32_t i = 0; i < TRP__HOST_SEGMENTS; i++) {
        if (device->memory.segment[i].state == TRP__NUMBER_LIVE)
            trp__segment_close(device, &device->memory.segment[i]);
    }
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__client_actor *actor = atomic_load(&device->actor[i]);
        if (actor) {
            if (actor->sender)
                actor->class->sender_end(actor->sender, NULL);
            free(actor->mailbox);
        }
        free(actor);
    }
    trp__suballoc_destroy(device->memory.suballoc);
    trp__trace_destroy(device);
    trp__failures_destroy(device);
    trp__stats_destroy(device);
    free(device->slot);
    trp__zeroed_free(device->slot_error, TRP__SLOTS * sizeof *device->slot_error);
    trp__contents_destroy(device);
    trp__zeroed_free(device->memory.meta, TRP__BUFFERS * sizeof *device->memory.meta);
    trp__zeroed_free(device->request.pending, TRP__SLOTS * sizeof *device->request.pending);
    trp__zeroed_free(device->recovery.pending_progress,
                     TRP__SLOTS * sizeof *device->recovery.pending_progress);
    free(device->recovery.restart_time);
    trp__shm_unmap(device->control, TRP__CONTROL_BYTES);
    trp__shm_unmap(device->staging, TRP__STAGING_BYTES);
    trp__shm_unmap(device->reply, TRP__REPLY_BYTES);
    const int fds[] = {device->control_fd, device->staging_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    pthread_cond_destroy(&device->changed);
    trp__lock_destroy(&device->request.judging);
    trp__lock_destroy(&device->api.companions.lock);
    pthread_cond_destroy(&device->observe.watch_idle);
    trp__lock_destroy(&device->observe.watch_lock);
    trp__lock_destroy(&device->lock);
    trp__lock_destroy(&device->memory.lock);
    trp__lock_destroy(&device->memory.segment_lock);
}

/* Frees a device that was never returned to the program. */
static void discard_device(trp_device *device)
{
    end_device(device);
    free(device->api.remnant);
    free(device);
}

static trp_status set_up(trp_device *device, trp_error *error)
{
    trp_status status = choose_backend(device, error);
    if (status == TRP_OK)
        status = trp__describe_device(device->backend, device->options.ordinal, &device->identity,
                                      error);
    if (status == TRP_OK)
        status = map_blocks(device, error);
    if (status == TRP_OK)
        status = make_tables(device, error);
    if (status == TRP_OK) {
        fill_control(device);
        trp__stats_begin(device);
    }
    return status;
}

trp_status trp_device_open(trp_system *system, const trp_device_options *options, trp_device **out)
{
    TRP__CALL(trp__call_refused());
    if (!system || !out)
        return trp__fail_null(system ? "out" : "system");
    trp_device_options filled = {0};
    if (options)
        filled = *options;
    trp_status status = trp__system_usable(system);
    if (status == TRP_OK)
        status = check_options(&filled);
    if (status != TRP_OK)
        return status;
    fill_defaults(&filled);

    trp_error error = {0};
    trp_device *device = new_device(system);
    if (!device)
        return trp__fail(TRP_E_MEMORY, "no memory for a device");
    device->options = filled;
    device->control_fd = device->staging_fd = device->observe.stats_fd = -1;
    for (int i = 0; i < TRP__WORKERS; i++)
        device->worker[i] = (trp__process){.socket = -1, .pidfd = -1, .reply_fd = -1};
    atomic_init(&device->state, TRP_DEVICE_RECOVERING);
    init_locks(device);
    if (!trp__streams_init(device))
        status = trp__fail(TRP_E_MEMORY, "no memory for a device");
    else
        status = trp__device_register(device);
    if (status != TRP_OK) {
        discard_device(device);
        return status;
    }
    status = set_up(device, &error);
    if (status != TRP_OK)
        trp__error_raise(&error);
    else
        status = trp__supervisor_start(device);
    if (status != TRP_OK) {
        trp__device_unlist(device);
        trp__device_unregister(device);
        discard_device(device);
        return status;
    }
    trp__trace_by_environment(device);
    atomic_store_explicit(&device->observable, true, memory_order_release);
    *out = device;
    return TRP_OK;
}

/* Removes the completions of a device from all queues. Waits for threads that are taking one, since
 * they hold the queue's lock until they are done with the device. */
static void leave_queues(trp_device *device)
{
    trp_system *system = device->system;
    trp__lock_take(&system->lock);
    for (trp_queue *queue = system->queues; queue; queue = queue->next)
        trp__queue_forget(queue, device);
    trp__lock_drop(&system->lock);
}

void trp_device_close(trp_device *device)
{
    TRP__CALL();
    if (!device || !device->alive || *device->alive == 0)
        return; /* it was closed; or in a forked child it is the parent's */
    if (atomic_exchange(&device->api.closed, true))
        return; /* another thread closes it */
    trp__supervisor_stop(device);
    while (atomic_load(&device->request.waiting) > 0) /* they return when they see DOWN */
        trp__sleep_ns(TRP__NAP_MIN_NS);
    trp__watches_close(device);
    trp__trace_at_close(device);
    trp__device_unlist(device); /* after this no waiting thread sweeps it */
    leave_queues(device);
    trp__device_unregister(device);
    end_device(device);
    leave_remnant(device);
}

trp_status trp__device_info(trp_device *device, trp_device_info *out)
{
    trp_status status = trp__device_known(device);
    if (status != TRP_OK)
        return status;
    if (!out)
        return trp__fail_null("out");
    *out = device->identity;
    out->isolation = device->options.isolation;
    out->state = (trp_device_state)atomic_load(&device->state);
    out->memory_limit = device->options.memory_limit;
    out->incarnation = atomic_load(&device->incarnation);
    out->restarts = atomic_load(&device->restarts);
    out->requests_submitted = atomic_load(&device->control->next_ticket.value) - 1;
    out->requests_failed = atomic_load(&device->request.failed);
    out->worker_pid = atomic_load(&device->worker_pid);
    out->standby_pid = atomic_load(&device->standby_pid);
    trp__lock_take(&device->memory.lock);
    out->memory_reserved = device->memory.reserved;
    out->memory_used = trp__memory_used(device);
    out->buffers = device->memory.live_buffers;
    trp__lock_drop(&device->memory.lock);
    return TRP_OK;
}

trp_status trp_device_get_info(trp_device *device, trp_device_info *out)
{
    TRP__CALL(trp__call_refused());
    return trp__device_info(device, out);
}

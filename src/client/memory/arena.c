/* Arenas: device memory that this process owns and exports to its workers by descriptor. */
#include "base/call.h"
#include "base/os/clock.h"
#include "base/error.h"
#include "base/os/shm.h"
#include "client/memory/memory.h"
#include "driver/device_memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define ARENA_MAX    (UINT64_C(1) << 30)
#define SHARE        8 /* the next arena has this part of the reserved memory */
#define HOST_GRANULE (UINT64_C(64) << 10)
#define DROP_WAIT_NS (2 * TRP__SECOND)

static trp_status host_memory(uint64_t bytes, int *fd, trp_error *error)
{
    void *map = NULL;
    trp_status status = trp__shm_create("troupe-arena", bytes, false, fd, &map, error);
    if (status == TRP_OK)
        trp__shm_unmap(map, bytes); /* only workers map it */
    return status;
}

static trp_status take_memory(trp_device *device, uint64_t bytes, trp__client_arena *arena,
                              trp_error *error)
{
    arena->bytes = bytes;
    arena->handle = 0;
    if (device->backend == TRP_BACKEND_HOST)
        return host_memory(bytes, &arena->fd, error);
    return trp__cuda_memory_create(device->options.ordinal, bytes, &arena->handle, &arena->fd,
                                   error);
}

void trp__arena_close(trp_device *device, trp__client_arena *arena)
{
    trp__arena_unmap(arena);
    close(arena->fd);
    if (device->backend == TRP_BACKEND_CUDA)
        trp__cuda_memory_release(arena->handle);
}

trp_status trp__arena_granule(trp_device *device, uint64_t *bytes, trp_error *error)
{
    *bytes = HOST_GRANULE;
    if (device->backend == TRP_BACKEND_HOST)
        return TRP_OK;
    return trp__cuda_memory_granularity(device->options.ordinal, bytes, error);
}

/* Frees arenas without buffers. Returns whether there were any. memory.lock is held. */
static bool trim_arenas(trp_device *device)
{
    bool any = false;
    trp__lock_take(&device->lock);
    for (uint32_t i = 0; i < TRP__ARENAS; i++) {
        trp__client_arena *arena = &device->memory.arena[i];
        if (arena->state != TRP__NUMBER_LIVE ||
            !trp__suballoc_remove_region(device->memory.suballoc, i))
            continue;
        any = true;
        device->memory.reserved -= arena->bytes;
        trp__arena_close(device, arena);
        trp__broadcast_drop(device, TRP__MSG_ARENA_DROP, i, &arena->state, &arena->pending_acks);
    }
    trp__lock_drop(&device->lock);
    return any;
}

static bool any_dropping(trp_device *device)
{
    bool any = false;
    trp__lock_take(&device->lock);
    for (uint32_t i = 0; i < TRP__ARENAS; i++)
        any = any || device->memory.arena[i].state == TRP__NUMBER_DROPPING;
    trp__lock_drop(&device->lock);
    return any;
}

/* Waits until the workers have unmapped dropped arenas; only then is the memory free. No lock is
 * held: the thread that takes the workers' answers may need any. */
static void await_drops(trp_device *device)
{
    struct timespec until;
    int64_t end = trp__now_ns() + DROP_WAIT_NS;
    trp__lock_take(&device->lock);
    for (uint32_t i = 0; i < TRP__ARENAS;) {
        if (device->memory.arena[i].state != TRP__NUMBER_DROPPING) {
            i++;
            continue;
        }
        int64_t now = trp__now_ns();
        if (now >= end)
            break;
        until.tv_sec = end / TRP__SECOND;
        until.tv_nsec = end % TRP__SECOND;
        trp__lock_wait_until(&device->lock, &device->changed, &until);
    }
    trp__lock_drop(&device->lock);
}

/* Returns the size of a new arena. A large buffer gets an arena of its own size, unless there would
 * be too many: their number grows with the logarithm of the reserved memory. Small buffers share
 * arenas of an eighth of the reserved memory, so that little more is reserved than used. */
static uint64_t wanted_size(const trp_device *device, uint64_t least, uint64_t unit)
{
    const uint64_t first = device->memory.first_arena_bytes;
    const uint64_t step = device->memory.reserved / SHARE / unit * unit;
    if (least >= first / 2 && least >= device->memory.reserved / (2 * SHARE))
        return least;
    const uint64_t bytes = step < first ? first : step > ARENA_MAX ? ARENA_MAX : step;
    return bytes > least ? bytes : least;
}

static uint64_t arena_size(const trp_device *device, uint64_t least, uint64_t unit, bool own)
{
    uint64_t bytes = own ? least : wanted_size(device, least, unit);
    uint64_t limit = device->options.memory_limit;
    if (limit == 0 && device->backend == TRP_BACKEND_HOST)
        limit = device->identity
                    .memory_total; /* a memory file may be larger than the machine's memory */
    if (limit == 0 ||
        (device->memory.reserved <= limit && bytes <= limit - device->memory.reserved))
        return bytes;
    uint64_t rest =
        limit > device->memory.reserved ? (limit - device->memory.reserved) / unit * unit : 0;
    return rest >= least ? rest : 0;
}

static trp_status take_within_limit(trp_device *device, uint64_t least, uint64_t unit,
                                    trp__client_arena *arena, trp_error *error)
{
    uint64_t bytes = arena_size(device, least, unit, arena->own);
    if (bytes == 0)
        return trp__error_set(
            error, TRP_E_MEMORY, "bytes: %llu more are needed, %llu are taken, the limit is %llu",
            (unsigned long long)least, (unsigned long long)device->memory.reserved,
            (unsigned long long)(device->options.memory_limit ? device->options.memory_limit
                                                              : device->identity.memory_total));
    trp_status status = take_memory(device, bytes, arena, error);
    if (status == TRP_E_MEMORY && bytes > least)
        status = take_memory(device, least, arena, error);
    return status;
}

/* memory.lock is held, and released meanwhile. */
static void await_drops_unlocked(trp_device *device)
{
    trp__lock_drop(&device->memory.lock);
    await_drops(device);
    trp__lock_take(&device->memory.lock);
}

/* Ends the standby to free its context. memory.lock is held, and dropped for the wait. */
static bool give_up_standby_unlocked(trp_device *device)
{
    trp__lock_drop(&device->memory.lock);
    bool given = trp__standby_give_up(device);
    trp__lock_take(&device->memory.lock);
    return given;
}

/* Takes memory for an arena; if it is short, after freeing unused memory. memory.lock is held, and
 * dropped while waiting for workers. */
static trp_status take_or_trim(trp_device *device, uint64_t least, uint64_t unit,
                               trp__client_arena *arena, trp_error *error)
{
    trp_status status = take_within_limit(device, least, unit, arena, error);
    bool device_full = status == TRP_E_MEMORY && error->domain[0]; /* not memory_limit */
    if (device_full && any_dropping(device)) {
        await_drops_unlocked(device);
        status = take_within_limit(device, least, unit, arena, error);
        device_full = status == TRP_E_MEMORY && error->domain[0];
    }
    if (status == TRP_E_MEMORY)
        trp__notice(device, TRP_NOTICE_LOW_MEMORY, error);
    bool retry = device_full && give_up_standby_unlocked(device);
    if (status == TRP_E_MEMORY && (trim_arenas(device) || retry)) {
        await_drops_unlocked(device);
        status = take_within_limit(device, least, unit, arena, error);
    }
    return status;
}

/* Returns a free number, TRP__ARENAS if there is none. device->lock is held. */
static uint32_t free_number(const trp_device *device)
{
    uint32_t id = 0;
    while (id < TRP__ARENAS && device->memory.arena[id].state != TRP__NUMBER_FREE)
        id++;
    return id;
}

/* Enters an arena under a number and sends it to the workers. Both locks are held. */
static trp_status enter(trp_device *device, trp__client_arena *arena, uint32_t *own,
                        trp_error *error)
{
    uint32_t id = free_number(device);
    if (id == TRP__ARENAS)
        return trp__error_set(error, TRP_E_MEMORY,
                              "expected at most %d arenas of a device, all are in use",
                              TRP__ARENAS);
    if (own) {
        *own = id;
        device->memory.sealable_bytes += arena->bytes;
    } else if (!trp__suballoc_add_region(device->memory.suballoc, id, arena->bytes)) {
        return trp__error_set(error, TRP_E_MEMORY, "no memory for the bookkeeping of buffers");
    }
    /* The count of changes goes on when a number is reused, and each arena is writable at first. 0:
     * an arena whose protection never changes. */
    uint64_t before = device->memory.arena[id].protection;
    arena->protection = own && before == 0 ? 2 : before + before % 2;
    device->memory.arena[id] = *arena;
    device->memory.reserved += arena->bytes;
    trp__broadcast(device, &(trp__news){.type = TRP__MSG_ARENA,
                                        .id = id,
                                        .bytes = arena->bytes,
                                        .protection = arena->protection,
                                        .fd = arena->fd});
    return TRP_OK;
}

/* Returns whether much reserved memory is unused: buffers of ever changing sizes would leave an
 * arena of each size. */
static bool much_unused(const trp_device *device)
{
    const uint64_t shared = device->memory.reserved - device->memory.sealable_bytes;
    const uint64_t used = trp__suballoc_used_bytes(device->memory.suballoc);
    return shared > used && shared - used > shared / 4 + device->memory.first_arena_bytes;
}

trp_status trp__arena_add(trp_device *device, uint64_t needed, uint32_t *own, trp_error *error)
{
    uint64_t unit = 0;
    trp__client_arena arena = {.state = TRP__NUMBER_LIVE, .own = own != NULL};
    trp_status status = trp__arena_granule(device, &unit, error);
    if (status != TRP_OK)
        return status;
    if (needed > device->identity.memory_total || needed > UINT64_MAX - unit)
        return trp__error_set(error, TRP_E_MEMORY, "bytes: %llu requested, the device has %llu",
                              (unsigned long long)needed,
                              (unsigned long long)device->identity.memory_total);
    if (!own && much_unused(device))
        trim_arenas(device);
    status = take_or_trim(device, (needed + unit - 1) / unit * unit, unit, &arena, error);
    if (status != TRP_OK)
        return status;

    trp__lock_take(&device->lock);
    bool full = free_number(device) == TRP__ARENAS;
    trp__lock_drop(&device->lock);
    if (full && any_dropping(device))
        await_drops_unlocked(device); /* numbers get free when the workers answer */
    trp__lock_take(&device->lock);
    status = enter(device, &arena, own, error);
    trp__lock_drop(&device->lock);
    if (status != TRP_OK)
        trp__arena_close(device, &arena);
    return status;
}

void trp__arena_return(trp_device *device, uint32_t id)
{
    trp__client_arena *arena = &device->memory.arena[id];
    trp__lock_take(&device->memory.lock);
    device->memory.reserved -= arena->bytes;
    device->memory.sealable_bytes -= arena->bytes;
    trp__memory_publish(device);
    trp__lock_drop(&device->memory.lock);
    trp__lock_take(&device->lock);
    trp__arena_close(device, arena);
    trp__broadcast_drop(device, TRP__MSG_ARENA_DROP, id, &arena->state, &arena->pending_acks);
    trp__lock_drop(&device->lock);
}

trp_status trp_device_trim(trp_device *device)
{
    TRP__CALL(trp__call_refused());
    trp_status status = trp__device_usable(device);
    if (status != TRP_OK)
        return status;
    device->end_over(device);
    trp__lock_take(&device->memory.lock);
    trim_arenas(device);
    trp__memory_publish(device);
    trp__lock_drop(&device->memory.lock);
    trp__segments_trim(device);
    await_drops(device);
    return TRP_OK;
}

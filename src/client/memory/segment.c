/* Host memory that the device reaches directly: memory files mapped here and in the worker.
 *
 * Pinning it takes a GPU's driver some 0.7 ms a MiB, and unpinning a third of that. So some freed
 * memory stays pinned, for the next allocation of the same size. */
#include "base/call.h"
#include "base/error.h"
#include "base/os/memory.h"
#include "base/os/shm.h"
#include "client/memory/memory.h"

#include <string.h>
#include <unistd.h>

#define KEEP_MOST (UINT64_C(64) << 20)

/* Finds the segment that holds a whole range, and holds it for a request. */
bool trp__segment_find(trp_device *device, const void *memory, uint64_t bytes, uint32_t *segment,
                       uint64_t *offset)
{
    bool found = false;
    const char *at = memory;
    trp__lock_take(&device->memory.segment_lock);
    for (uint32_t i = 1; i < device->memory.segments_made && !found; i++) {
        trp__client_segment *s = &device->memory.segment[i];
        if (!s->base || s->freed || at < s->base || at >= s->base + s->bytes ||
            bytes > s->bytes - (uint64_t)(at - s->base))
            continue;
        s->holders++;
        *segment = i;
        *offset = (uint64_t)(at - s->base);
        found = true;
    }
    trp__lock_drop(&device->memory.segment_lock);
    return found;
}

void trp__segment_close(trp_device *device, trp__client_segment *segment)
{
    trp__lock_take(&device->memory.segment_lock);
    char *base = segment->base;
    segment->base = NULL;
    trp__lock_drop(&device->memory.segment_lock);
    trp__shm_unmap(base, segment->bytes);
    close(segment->fd);
}

static void drop(trp_device *device, uint32_t id)
{
    trp__call_shield();
    trp__lock_take(&device->lock);
    trp__client_segment *s = &device->memory.segment[id];
    trp__segment_close(device, s);
    trp__broadcast_drop(device, TRP__MSG_HOST_DROP, id, &s->state, &s->pending_acks);
    trp__lock_drop(&device->lock);
}

/* Caches a freed segment without holders. False: the cache is full. segment_lock is held. */
static bool keep(trp_device *device, trp__client_segment *segment)
{
    uint64_t bytes = segment->bytes;
    for (uint32_t i = 1; i < device->memory.segments_made; i++)
        bytes += device->memory.segment[i].kept ? device->memory.segment[i].bytes : 0;
    segment->kept = bytes <= KEEP_MOST;
    return segment->kept;
}

void trp__segment_release(trp_device *device, uint32_t segment)
{
    trp__lock_take(&device->memory.segment_lock);
    trp__client_segment *s = &device->memory.segment[segment];
    bool over = --s->holders == 0 && s->freed && !keep(device, s);
    trp__lock_drop(&device->memory.segment_lock);
    if (over)
        drop(device, segment);
}

/* Returns whether this worker may fail to pin a segment, as an earlier worker has pinned it. */
static bool is_stale(const trp_device *device, const trp__client_segment *segment)
{
    return segment->incarnation != atomic_load(&device->incarnation);
}

/* Drops all cached segments, or the stale ones. Returns whether there were any. */
static bool drop_kept(trp_device *device, bool all)
{
    bool found = false;
    for (uint32_t i = 1; i < TRP__HOST_SEGMENTS; i++) {
        trp__client_segment *s = &device->memory.segment[i];
        trp__lock_take(&device->memory.segment_lock);
        const bool goes = s->kept && (all || is_stale(device, s));
        s->kept = s->kept && !goes;
        trp__lock_drop(&device->memory.segment_lock);
        if (goes)
            drop(device, i);
        found = found || goes;
    }
    return found;
}

bool trp__segments_trim(trp_device *device)
{
    return drop_kept(device, true);
}

/* Returns a cached segment of that size, zeroed; NULL: none. */
static void *take_kept(trp_device *device, uint64_t bytes)
{
    char *base = NULL;
    trp__lock_take(&device->memory.segment_lock);
    for (uint32_t i = 1; i < device->memory.segments_made && !base; i++) {
        trp__client_segment *s = &device->memory.segment[i];
        if (!s->kept || s->bytes != bytes || is_stale(device, s))
            continue;
        s->kept = s->freed = false;
        base = s->base;
    }
    trp__lock_drop(&device->memory.segment_lock);
    if (base)
        memset(base, 0, bytes);
    else
        drop_kept(device, false);
    return base;
}

/* Returns a free number, 0: none; waits for numbers that the workers are dropping. device->lock is
 * held. */
static uint32_t free_number(trp_device *device)
{
    for (;;) {
        bool dropping = false;
        for (uint32_t i = 1; i < TRP__HOST_SEGMENTS; i++) {
            if (device->memory.segment[i].state == TRP__NUMBER_FREE)
                return i;
            dropping = dropping || device->memory.segment[i].state == TRP__NUMBER_DROPPING;
        }
        if (!dropping || atomic_load(&device->state) == TRP_DEVICE_DOWN)
            return 0;
        trp__lock_wait(&device->lock, &device->changed);
    }
}

trp_status trp__segment_add(trp_device *device, uint64_t bytes, bool plain, uint32_t *id,
                            void **base, trp_error *error)
{
    int fd = -1;
    trp_status status =
        trp__shm_create(plain ? "troupe-heap" : "troupe-host", bytes, false, &fd, base, error);
    if (status != TRP_OK)
        return status;
    trp__lock_take(&device->lock);
    *id = free_number(device);
    if (*id == 0) {
        status =
            trp__error_set(error, TRP_E_BUSY,
                           "expected at most %d host memory regions of a device, all are in use",
                           TRP__HOST_SEGMENTS - 1);
        trp__shm_unmap(*base, bytes);
        close(fd);
        goto out;
    }
    trp__client_segment *s = &device->memory.segment[*id];
    trp__lock_take(&device->memory.segment_lock);
    *s = (trp__client_segment){.state = TRP__NUMBER_LIVE, .fd = fd, .bytes = bytes, .plain = plain};
    trp__lock_drop(&device->memory.segment_lock);
    trp__broadcast(
        device,
        &(trp__news){
            .type = TRP__MSG_HOST, .id = *id, .bytes = bytes, .protection = plain, .fd = fd});
    while (!s->answered && atomic_load(&device->state) != TRP_DEVICE_DOWN)
        trp__lock_wait(&device->lock, &device->changed);
    if (!s->answered)
        trp__error_down(device, &s->answer);
    status = s->answer.status;
    s->incarnation = atomic_load(&device->incarnation);
    if (status != TRP_OK) {
        *error = s->answer;
        trp__shm_unmap(*base, bytes);
        trp__segment_close(device, s);
        trp__broadcast_drop(device, TRP__MSG_HOST_DROP, *id, &s->state, &s->pending_acks);
    }
out:
    trp__lock_drop(&device->lock);
    return status;
}

trp_status trp_host_alloc(trp_device *device, uint64_t bytes, void **out)
{
    TRP__CALL(trp__call_refused());
    trp_status status = trp__device_usable(device);
    if (status != TRP_OK)
        return status;
    if (!out)
        return trp__fail_null("out");
    if (bytes == 0 || bytes > INT64_MAX / 2)
        return trp__fail(TRP_E_ARGUMENT, "bytes: expected 1 to %lld, got %llu",
                         (long long)(INT64_MAX / 2), (unsigned long long)bytes);
    /* Pages are allocated on first touch, too late for an error: so check now. */
    const uint64_t size = trp__page_round(bytes);
    if ((*out = take_kept(device, size)))
        return TRP_OK;
    uint64_t room = trp__memory_available(device->backend == TRP_BACKEND_HOST);
    if (bytes > room)
        return trp__fail(TRP_E_MEMORY,
                         "bytes: expected at most %llu, what this machine, or the group that this "
                         "process is in, can give now, got %llu",
                         (unsigned long long)room, (unsigned long long)bytes);
    trp_error error = {0};
    uint32_t id = 0;
    void *base = NULL;
    status = trp__segment_add(device, size, false, &id, &base, &error);
    if ((status == TRP_E_BUSY || status == TRP_E_MEMORY) && trp__segments_trim(device))
        status = trp__segment_add(device, size, false, &id, &base, &error);
    if (status != TRP_OK)
        return trp__error_raise(&error);
    trp__lock_take(&device->memory.segment_lock);
    device->memory.segment[id].base = base;
    if (device->memory.segments_made <= id)
        device->memory.segments_made = id + 1;
    trp__lock_drop(&device->memory.segment_lock);
    *out = base;
    return TRP_OK;
}

trp_status trp_host_free(trp_device *device, void *memory)
{
    TRP__CALL(trp__call_refused());
    if (!memory)
        return TRP_OK;
    trp_status status = trp__device_known(device);
    if (status != TRP_OK)
        return status;
    uint32_t id = 0;
    bool over = false;
    trp__lock_take(&device->memory.segment_lock);
    for (uint32_t i = 1; i < device->memory.segments_made && id == 0; i++) {
        trp__client_segment *s = &device->memory.segment[i];
        if (s->base == memory && !s->freed) {
            id = i;
            s->freed = true;
            over = s->holders == 0 && !keep(device, s);
        }
    }
    trp__lock_drop(&device->memory.segment_lock);
    if (id == 0)
        return trp__fail(TRP_E_STALE,
                         "memory: %p was not given by trp_host_alloc() of this device, "
                         "or was freed",
                         memory);
    if (over)
        drop(device, id);
    return TRP_OK;
}

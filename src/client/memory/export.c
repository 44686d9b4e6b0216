/* Export of buffers: descriptors of their memory, and of the timelines that their pending requests
 * end with. */
#include "base/call.h"
#include "base/os/descriptor.h"
#include "base/error.h"
#include "base/os/service_thread.h"
#include "client/memory/memory.h"
#include "driver/device_memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)TRP_EXPORT_WAITS == (int)TRP__ACTORS, "a wait for each timeline");

/* Duplicates a descriptor for the program. */
static trp_status duplicate(int fd, bool read_only, int *out, trp_error *error)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    *out = read_only ? trp__descriptor_apart(open(path, O_RDONLY | O_CLOEXEC))
                     : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (*out >= 0)
        return TRP_OK;
    return trp__error_set_errno(error, read_only ? "opening shared memory for reading in /proc"
                                                 : "a descriptor for exported memory");
}

/* The requests that are pending. */

/* Returns the access modes of a pending request on a buffer, 0 for none. The request may end
 * meanwhile and its slot be reused; the caller checks that. */
__attribute__((no_sanitize("thread"))) static uint16_t modes_on(const trp_device *device,
                                                                uint32_t request, uint32_t buffer)
{
    const volatile trp__record *record = &device->control->record[request];
    uint32_t count = record->access_count;
    uint16_t modes = 0;
    for (uint32_t i = 0; i < count && i < TRP__ACCESS_MAX; i++) {
        if (record->access[i].slot == buffer)
            modes |= record->access[i].mode;
    }
    return modes;
}

typedef struct last_use {
    uint64_t used, written; /* tickets */
} last_use;

static void raise(uint64_t *last, uint64_t ticket)
{
    *last = *last > ticket ? *last : ticket;
}

/* Finds the last pending request of each actor that uses a buffer. Requests retired early never
 * run. */
static void find_uses(const trp_device *device, uint32_t buffer, last_use use[TRP__ACTORS])
{
    memset(use, 0, TRP__ACTORS * sizeof *use);
    for (uint32_t i = 0; i < atomic_load(&device->slots_used); i++) {
        const trp__slot *slot = &device->slot[i];
        uint64_t state = atomic_load(&slot->state);
        if (trp__phase_of(state) != TRP__PENDING)
            continue;
        uint64_t ticket = atomic_load(&slot->ticket);
        uint32_t actor = atomic_load(&slot->actor) % TRP__ACTORS;
        uint16_t modes = modes_on(device, i, buffer);
        uint64_t after = atomic_load(&slot->state);
        if ((after | TRP__WANTED) != (state | TRP__WANTED) ||
            trp__timeline(device, actor) >= ticket)
            continue;
        if (modes)
            raise(&use[actor].used, ticket);
        if (modes & TRP__WRITE)
            raise(&use[actor].written, ticket);
    }
}

static uint32_t list_waits(const last_use use[TRP__ACTORS], trp_export_wait *wait)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        if (use[i].used == 0)
            continue;
        wait[count++] = (trp_export_wait){.offset = offsetof(trp__timelines, timeline[i]),
                                          .used = use[i].used,
                                          .written = use[i].written};
    }
    return count;
}

/* Returns a descriptor of the timelines of the active worker; waits until there is one. -1 and
 * TRP_OK if the device is down. */
static trp_status open_timelines(trp_device *device, int *fd, uint32_t *incarnation,
                                 trp_error *error)
{
    trp_status status = TRP_OK;
    int state;
    *fd = -1;
    trp__lock_take(&device->lock);
    while ((state = atomic_load(&device->state)) == TRP_DEVICE_RECOVERING && status == TRP_OK) {
        if (trp__is_service_thread) /* the next worker may wait for this thread */
            status = trp__error_set(error, TRP_E_BUSY,
                                    "device: it is being recovered, and a thread that it needs for "
                                    "its progress does not wait for that");
        else
            trp__lock_wait(&device->lock, &device->changed);
    }
    const trp__process *worker = &device->worker[device->active];
    *incarnation = worker->incarnation;
    if (status == TRP_OK && state == TRP_DEVICE_READY && worker->reply_fd >= 0)
        status = duplicate(worker->reply_fd, true, fd, error);
    trp__lock_drop(&device->lock);
    return status;
}

/* Finds the waits of an importer; again if a worker dies meanwhile, since its timelines are useless
 * then. Once the device is down nothing uses the buffer any more. */
static trp_status find_waits(trp_device *device, uint32_t buffer, trp_exported_buffer *out,
                             trp_error *error)
{
    last_use use[TRP__ACTORS];
    out->timeline_fd = -1;
    out->incarnation = atomic_load(&device->incarnation);
    find_uses(device, buffer, use);
    while (list_waits(use, out->wait) > 0 && atomic_load(&device->state) != TRP_DEVICE_DOWN) {
        trp_status status = open_timelines(device, &out->timeline_fd, &out->incarnation, error);
        if (status != TRP_OK)
            return status;
        find_uses(device, buffer, use);
        if (out->timeline_fd >= 0 && atomic_load(&device->state) == TRP_DEVICE_READY &&
            atomic_load(&device->incarnation) == out->incarnation)
            break;
        if (out->timeline_fd >= 0)
            close(out->timeline_fd);
        out->timeline_fd = -1;
    }
    memset(out->wait, 0, sizeof out->wait);
    if (out->timeline_fd < 0)
        return TRP_OK;
    out->wait_count = list_waits(use, out->wait);
    if (out->wait_count == 0) { /* they have ended meanwhile */
        close(out->timeline_fd);
        out->timeline_fd = -1;
        return TRP_OK;
    }
    out->timeline_offset = offsetof(trp__reply, timelines);
    out->timeline_bytes = sizeof(trp__timelines);
    return TRP_OK;
}

static trp_status describe_memory(trp_device *device, uint32_t slot, trp_exported_buffer *out,
                                  trp_error *error)
{
    trp__buffer_meta *meta = &device->memory.meta[slot];
    const trp__buffer_entry *entry = &device->control->buffer[slot];
    const trp__client_arena *arena = &device->memory.arena[entry->arena];
    const bool host = device->backend == TRP_BACKEND_HOST;
    *out = (trp_exported_buffer){
        .kind = host ? TRP_EXPORT_MEMFD : TRP_EXPORT_CUDA,
        .fd = -1,
        .read_only = meta->sealable && trp__sealed(meta),
        .bytes = entry->bytes,
        .offset = entry->offset,
        .allocation_bytes = arena->bytes,
        .ordinal = device->options.ordinal,
        .timeline_fd = -1,
    };
    trp_status status = trp__arena_granule(device, &out->granularity, error);
    if (status == TRP_OK && !host)
        status = trp__cuda_device_uuid(device->options.ordinal, out->uuid, error);
    if (status == TRP_OK)
        status = duplicate(arena->fd, host && out->read_only, &out->fd, error);
    return status;
}

trp_status trp_buffer_export(trp_device *device, trp_buffer buffer, trp_exported_buffer *out)
{
    TRP__CALL(trp__call_refused());
    trp_exported_buffer made;
    trp_error error;
    uint32_t slot;
    trp_status status = trp__device_known(device);
    if (status != TRP_OK)
        return status;
    if (!out)
        return trp__fail_null("out");
    status = trp__buffer_hold_readable(device, buffer, &slot);
    if (status != TRP_OK)
        return status;
    status = describe_memory(device, slot, &made, &error);
    if (status == TRP_OK)
        status = find_waits(device, slot, &made, &error);
    trp__buffer_release(device, slot);
    if (status == TRP_OK)
        *out = made;
    else if (made.fd >= 0)
        close(made.fd);
    return status == TRP_OK ? TRP_OK : trp__error_raise(&error);
}

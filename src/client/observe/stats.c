/* Publishing a device's figures, see wire/stats.h.
 *
 * A group of fields has a version, odd while they change. The stores after it are releases, so that
 * no reader sees a new field with the old even version. */
#include "client/observe/stats.h"

#include "base/error.h"
#include "base/os/shm.h"
#include "client/observe/observe.h"

#include <troupe/version.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void begin_change(_Atomic uint32_t *version)
{
    atomic_store(version, atomic_load(version) + 1);
}

static void end_change(_Atomic uint32_t *version)
{
    atomic_store(version, atomic_load(version) + 1);
}

#define PUBLISH(field, value) atomic_store_explicit(&(field), (value), memory_order_release)

static void name_file(trp__stats_file *file, int fd)
{
    struct stat st;
    bool known = fd >= 0 && fstat(fd, &st) == 0;
    PUBLISH(file->fd, known ? fd : -1);
    PUBLISH(file->inode, known ? (uint64_t)st.st_ino : 0);
}

static void set_name(trp__shared_name *name, const char *text)
{
    uint64_t word[sizeof name->word / sizeof *name->word];
    char bytes[sizeof word];
    memset(bytes, 0, sizeof bytes);
    trp__copy_string(bytes, sizeof bytes, text);
    memcpy(word, bytes, sizeof word);
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        PUBLISH(name->word[i], word[i]);
}

trp_status trp__stats_create(trp_device *device, trp_error *error)
{
    void *map = NULL;
    trp_status status = trp__shm_create(TRP__STATS_FILE, TRP__STATS_BYTES, true,
                                        &device->observe.stats_fd, &map, error);
    if (status != TRP_OK)
        return status;
    madvise(map, TRP__STATS_BYTES, MADV_DONTFORK);
    device->observe.stats = map;
    return TRP_OK;
}

void trp__stats_begin(trp_device *device)
{
    trp__stats *s = device->observe.stats;
    device->observe.view.stats = s;
    device->observe.view.control = device->control;
    device->observe.view.reply = device->reply;
    s->identity = device->identity;
    s->pid = getpid();
    trp__copy_string(s->program, sizeof s->program, program_invocation_short_name);
    s->number = device->tag % TRP__DEVICES;
    s->isolation = device->options.isolation;
    s->memory_limit = device->options.memory_limit;
    name_file(&s->control, device->control_fd);
    name_file(&s->reply, -1);
    trp__copy_string(s->head.version, sizeof s->head.version, TRP_VERSION_STRING);
    s->head.abi = TRP__ABI;
    s->head.bytes = sizeof *s;
    atomic_store((_Atomic uint64_t *)&s->head.magic, TRP__STATS_MAGIC);
}

void trp__stats_destroy(trp_device *device)
{
    trp__shm_unmap(device->observe.stats, TRP__STATS_BYTES);
    if (device->observe.stats_fd >= 0)
        close(device->observe.stats_fd);
}

void trp__stats_publish(trp_device *device)
{
    trp__stats *s = device->observe.stats;
    uint32_t incarnation = atomic_load(&device->incarnation);
    begin_change(&s->version);
    if (atomic_load(&s->incarnation) != incarnation)
        name_file(&s->reply, device->worker[device->active].reply_fd);
    PUBLISH(s->state, (uint32_t)atomic_load(&device->state));
    PUBLISH(s->incarnation, incarnation);
    PUBLISH(s->restarts, atomic_load(&device->restarts));
    PUBLISH(s->worker_pid, atomic_load(&device->worker_pid));
    PUBLISH(s->standby_pid, atomic_load(&device->standby_pid));
    PUBLISH(s->faults, device->observe.faults);
    PUBLISH(s->promotions, device->observe.promotions);
    end_change(&s->version);
}

void trp__stats_memory(trp_device *device, uint64_t reserved, uint64_t used, uint64_t buffers)
{
    trp__stats *s = device->observe.stats;
    atomic_store_explicit(&s->memory_reserved, reserved, memory_order_relaxed);
    atomic_store_explicit(&s->memory_used, used, memory_order_relaxed);
    atomic_store_explicit(&s->buffers, buffers, memory_order_relaxed);
}

void trp__stats_slots(trp_device *device, uint32_t used)
{
    uint32_t seen = atomic_load(&device->observe.stats->slots);
    while (seen < used && !atomic_compare_exchange_weak(&device->observe.stats->slots, &seen, used))
        continue;
}

void trp__stats_failed(trp_device *device, uint32_t actor)
{
    atomic_fetch_add(&device->observe.stats->failed, 1);
    atomic_fetch_add(&device->observe.stats->actor[actor % TRP__ACTORS].failed, 1);
}

static void clear(trp__histogram *h)
{
    PUBLISH(h->sum_ns, 0);
    for (uint32_t i = 0; i < TRP_LATENCY_BUCKETS; i++)
        PUBLISH(h->bucket[i], 0);
}

void trp__stats_put_actor(trp__client_actor *actor)
{
    trp__stats_actor *s = &actor->device->observe.stats->actor[actor->id];
    bool live = actor->state == TRP__NUMBER_LIVE;
    begin_change(&s->version);
    PUBLISH(s->live, live);
    if (live) {
        PUBLISH(s->capacity, (uint32_t)actor->capacity);
        PUBLISH(s->first, atomic_load(&s->tail));
        PUBLISH(s->failed, 0);
        clear(&s->waiting);
        clear(&s->running);
        set_name(&s->kind, actor->class->kind);
        set_name(&s->name, actor->name);
    }
    end_change(&s->version);
}

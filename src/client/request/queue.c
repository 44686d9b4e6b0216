/* Completion queues: a list of ended requests and of watches with notices, and an event file that
 * is readable while it is not empty. */
#include "base/call.h"
#include "base/os/descriptor.h"
#include "base/error.h"
#include "client/core/backoff.h"
#include "client/request/request.h"
#include "wire/rank.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

trp_status trp_queue_create(trp_system *system, trp_queue **out)
{
    TRP__CALL(trp__call_refused());
    if (!system || !out)
        return trp__fail_null(system ? "out" : "system");
    trp_error error = {0};
    trp_status status = trp__system_usable(system);
    if (status != TRP_OK)
        return status;
    trp_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return trp__fail(TRP_E_MEMORY, "no memory for a queue");
    queue->system = system;
    queue->fd = trp__descriptor_apart(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (queue->fd < 0) {
        trp__error_set_errno(&error, "eventfd");
        free(queue);
        return trp__error_raise(&error);
    }
    trp__lock_init(&queue->lock, TRP__RANK_QUEUE);
    trp__lock_take(&system->lock);
    queue->next = system->queues;
    system->queues = queue;
    trp__lock_drop(&system->lock);
    *out = queue;
    return TRP_OK;
}

trp_status trp_queue_destroy(trp_queue *queue)
{
    TRP__CALL(trp__call_refused());
    if (!queue)
        return TRP_OK;
    trp_status status = trp__queue_usable(queue, "queue");
    if (status != TRP_OK)
        return status;
    uint64_t expected = atomic_load(&queue->expected);
    if (expected > 0)
        return trp__fail(TRP_E_BUSY,
                         "%llu requests and watches will yet be delivered, or lie in the queue",
                         (unsigned long long)expected);
    if (atomic_exchange(&queue->ended, true))
        return trp__queue_usable(queue, "queue"); /* another thread was faster */
    trp__lock_take(&queue->system->lock);
    trp_queue **link = &queue->system->queues;
    while (*link != queue)
        link = &(*link)->next;
    *link = queue->next;
    trp__lock_drop(&queue->system->lock);
    trp__lock_take(&queue->lock);
    close(queue->fd);
    queue->fd = -1;
    trp__lock_drop(&queue->lock);
    trp__system_retain(queue->system, &queue->remnant);
    return TRP_OK;
}

int trp_queue_fd(const trp_queue *queue)
{
    if (!queue) {
        trp__fail_null("queue");
        return -1;
    }
    return trp__queue_usable(queue, "queue") == TRP_OK ? queue->fd : -1;
}

/* The request of an event that was taken from the queue. */
typedef struct taken {
    uint32_t device_tag;
    uint64_t ticket; /* 0: no results to deliver before it */
} taken;

/* Copies the end of a request, and gives its slot back. */
static taken take_slot(trp_queue *queue, trp__queue_item *item, trp_event *out)
{
    trp__slot *slot = (trp__slot *)(void *)((char *)item - offsetof(trp__slot, item));
    trp_device *device = trp__device_by_tag(item->device_tag);
    taken t = {.device_tag = item->device_tag,
               .ticket =
                   atomic_load(&device->request.deliveries) > 0 ? atomic_load(&slot->ticket) : 0};
    *out = (trp_event){.user_data = slot->user_data};
    out->status = trp__result_read(device, slot, &out->error);
    uint64_t mine = trp__state(trp__generation_of(atomic_load(&slot->state)), TRP__FILLING);
    trp__result_taken(device, slot, mine);
    atomic_fetch_sub(&queue->expected, 1);
    return t;
}

/* Delivers results of requests before these, before the program gets their events. A device that
 * another thread closes is not found any more, or stays until this returns. */
static void deliver_before(trp_system *system, const taken *t, size_t count)
{
    trp__lock_take(&system->lock);
    for (int i = 0; i < TRP__DEVICES; i++) {
        trp_device *device = system->device[i];
        uint64_t last = 0;
        for (size_t k = 0; device && k < count; k++) {
            if (device->tag == t[k].device_tag && t[k].ticket > last)
                last = t[k].ticket;
        }
        if (last != 0)
            trp__deliver_before(device, last);
    }
    trp__lock_drop(&system->lock);
}

/* Events that are taken with the lock held once. */
enum { AT_ONCE = 64 };

/* Takes the first events, up to AT_ONCE of them. All under the lock: a device that closes takes its
 * own items off under the same lock before it is freed. */
static size_t pop(trp_queue *queue, trp_event *out, size_t most)
{
    taken t[AT_ONCE];
    size_t count = 0;
    bool results = false;
    trp__lock_take(&queue->lock);
    bool held = queue->first != NULL;
    while (queue->first && count < most && count < AT_ONCE) {
        trp__queue_item *item = queue->first, *next = item->next;
        bool stays = false;
        t[count] = (taken){0};
        if (item->is_watch)
            stays = trp__watch_take(item, &out[count]);
        else
            t[count] = take_slot(queue, item, &out[count]); /* afterwards the slot may be in use */
        results = results || t[count].ticket != 0;
        count++;
        if (!stays)
            queue->first = next;
    }
    if (held && !queue->first) {
        queue->last = NULL;
        trp__queue_set_readable(queue, false);
    }
    trp__lock_drop(&queue->lock);
    if (results)
        deliver_before(queue->system, t, count);
    return count;
}

/* Takes a closing device's completions off a queue; its watches have ended. */
void trp__queue_forget(trp_queue *queue, trp_device *device)
{
    trp__lock_take(&queue->lock);
    trp__queue_item **link = &queue->first;
    queue->last = NULL;
    while (*link) {
        trp__queue_item *item = *link;
        if (item->device_tag == device->tag) {
            *link = item->next;
            atomic_fetch_sub(&queue->expected, 1);
        } else {
            queue->last = item;
            link = &item->next;
        }
    }
    if (!queue->first)
        trp__queue_set_readable(queue, false);
    trp__lock_drop(&queue->lock);
}

/* Ends requests that are done on all devices, so that a waiting thread depends on no other. */
static void sweep_system(trp_system *system)
{
    trp__lock_take(&system->lock);
    for (int i = 0; i < TRP__DEVICES; i++) {
        trp_device *device = system->device[i];
        if (device && atomic_load_explicit(&device->request.queue_bound, memory_order_relaxed) > 0)
            trp__sweep_device(device);
    }
    trp__lock_drop(&system->lock);
}

/* Waits for an event, and takes those present then. */
static trp_status take(trp_queue *queue, int64_t timeout_ns, trp_event *out, size_t most,
                       size_t *count)
{
    trp_status status = trp__queue_usable(queue, "queue");
    if (status != TRP_OK)
        return status;
    trp__backoff backoff = trp__backoff_begin(timeout_ns);
    for (bool swept = false; (*count = pop(queue, out, most)) == 0; swept = true) {
        int64_t nap = 0;
        if (swept && !trp__backoff_step(&backoff, &nap))
            return trp__fail(TRP_E_TIMEOUT, "no event has come after %lld ns",
                             (long long)timeout_ns);
        if (nap > 0)
            trp__nap(nap);
        sweep_system(queue->system);
    }
    for (size_t more = *count; more > 0 && *count < most; *count += more)
        more = pop(queue, out + *count, most - *count);
    return TRP_OK;
}

trp_status trp_queue_next(trp_queue *queue, int64_t timeout_ns, trp_event *out)
{
    TRP__CALL_QUICK(trp__call_refused());
    size_t count;
    if (!queue || !out)
        return trp__fail_null(queue ? "out" : "queue");
    return take(queue, timeout_ns, out, 1, &count);
}

trp_status trp_queue_take(trp_queue *queue, int64_t timeout_ns, trp_event *events, size_t most,
                          size_t *count)
{
    TRP__CALL_QUICK(trp__call_refused());
    if (!queue || !events || !count)
        return trp__fail_null(!queue ? "queue" : !events ? "events" : "count");
    *count = 0;
    if (most == 0)
        return trp__fail(TRP_E_ARGUMENT, "most: expected at least 1, got 0");
    return take(queue, timeout_ns, events, most, count);
}

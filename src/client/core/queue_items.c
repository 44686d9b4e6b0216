/* Items of a completion queue, and its event file, which is readable while there are any. */
#include "base/call.h"
#include "base/error.h"
#include "client/core/device.h"

#include <unistd.h>

/* Checks that a queue can be used; `name` is the argument's. */
trp_status trp__queue_usable(const trp_queue *queue, const char *name)
{
    if (atomic_load_explicit(&queue->ended, memory_order_relaxed))
        return trp__fail(TRP_E_STALE, "%s: it was destroyed", name);
    return trp__system_usable(queue->system);
}

trp_status trp__queue_check(const trp_device *device, const trp_queue *queue, const char *name)
{
    trp_status status = trp__queue_usable(queue, name);
    if (status == TRP_OK && queue->system != device->system)
        status = trp__fail(TRP_E_ARGUMENT,
                           "%s: expected one of the device's system, got one of another", name);
    return status;
}

void trp__queue_set_readable(trp_queue *queue, bool readable)
{
    uint64_t value = 1;
    trp__call_shield();
    ssize_t done =
        readable ? write(queue->fd, &value, sizeof value) : read(queue->fd, &value, sizeof value);
    (void)done; /* it can only fail if the file is in that state already */
}

void trp__queue_link(trp_queue *queue, trp__queue_item *item)
{
    item->next = NULL;
    if (queue->last) {
        queue->last->next = item;
    } else {
        queue->first = item;
        trp__queue_set_readable(queue, true);
    }
    queue->last = item;
}

void trp__queue_unlink(trp_queue *queue, trp__queue_item *item)
{
    trp__queue_item **link = &queue->first;
    queue->last = NULL;
    while (*link) {
        if (*link == item) {
            *link = item->next;
        } else {
            queue->last = *link;
            link = &(*link)->next;
        }
    }
    if (!queue->first)
        trp__queue_set_readable(queue, false);
}

/* The slot becomes `done` with the lock held, so that a thread that sees the state finds the item
 * in the queue. */
void trp__queue_push(trp_queue *queue, trp__slot *slot, uint64_t done)
{
    trp__lock_take(&queue->lock);
    atomic_store(&slot->state, done);
    trp__queue_link(queue, &slot->item);
    trp__lock_drop(&queue->lock);
}

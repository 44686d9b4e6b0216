/* Sends news to the workers: see outbox.h. device->lock is held. */
#include "client/core/device.h"
#include "client/core/points.h"

void trp__send_news(trp_device *device, uint32_t index, const trp__news *news)
{
    trp__process *p = &device->worker[index];
    if (news->pending_acks)
        *news->pending_acks |= (uint8_t)(1U << index);
    TRP__DEVICE_POINT(device, NEWS_UNSENT);
    /* A dead worker is noticed elsewhere; one that misses news must be replaced. */
    if (trp__outbox_post(&p->outbox, p->socket, news) == TRP__NO_ROOM)
        p->missed_news = true;
    else
        p->starting += news->type == TRP__MSG_ACTOR;
    TRP__DEVICE_POINT(device, NEWS_SENT);
}

void trp__broadcast(trp_device *device, const trp__news *news)
{
    for (uint32_t i = 0; i < TRP__WORKERS; i++) {
        if (device->worker[i].ready)
            trp__send_news(device, i, news);
    }
    if (!pthread_equal(pthread_self(), device->supervisor))
        trp__supervisor_wake(device); /* it sends what is queued, and watches for the answers */
}

/* Sends that a number is dropped; the number is free again when all workers have answered. */
void trp__broadcast_drop(trp_device *device, trp__message_type type, uint32_t id,
                         trp__number_state *state, uint8_t *pending_acks)
{
    trp__message_type made = type == TRP__MSG_ARENA_DROP  ? TRP__MSG_ARENA
                             : type == TRP__MSG_HOST_DROP ? TRP__MSG_HOST
                                                          : TRP__MSG_ACTOR;
    *state = TRP__NUMBER_DROPPING;
    *pending_acks = 0;
    for (uint32_t i = 0; i < TRP__WORKERS; i++) { /* its descriptor is closed */
        trp__process *p = &device->worker[i];
        uint32_t withdrawn = trp__outbox_withdraw(&p->outbox, made, id);
        p->starting -= made == TRP__MSG_ACTOR ? withdrawn : 0;
    }
    trp__broadcast(device,
                   &(trp__news){.type = type, .id = id, .fd = -1, .pending_acks = pending_acks});
    if (*pending_acks == 0)
        *state = TRP__NUMBER_FREE;
}

/* Sends a new worker all live resources, and takes answers about dropped numbers. device->lock is
 * held. */
#include "client/recovery/recovery.h"

void trp__announce_actor(trp_device *device, uint32_t index, trp__client_actor *actor)
{
    if (device->worker[index].ready)
        trp__send_news(
            device, index,
            &(trp__news){.type = TRP__MSG_ACTOR, .id = actor->id, .fd = -1, .actor = actor});
}

static void announce_segment(trp_device *device, uint32_t index, uint32_t id)
{
    const trp__client_segment *s = &device->memory.segment[id];
    trp__send_news(device, index,
                   &(trp__news){.type = TRP__MSG_HOST,
                                .id = id,
                                .bytes = s->bytes,
                                .protection = s->plain,
                                .fd = s->fd});
}

/* Returns whether a resource could not be made; its creator is about to drop it. */
static bool has_failed(bool answered, const trp_error *answer)
{
    return answered && answer->status != TRP_OK;
}

/* Sends a new worker all live resources but actors that no worker has made yet: those go to one
 * worker only, whose answer counts. */
void trp__announce_all(trp_device *device, uint32_t index)
{
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__client_actor *actor = atomic_load(&device->actor[i]);
        if (actor && actor->state == TRP__NUMBER_LIVE && actor->answered &&
            (i < TRP__LANES || !has_failed(true, &actor->answer)) &&
            (index == device->active || !actor->cold))
            trp__announce_actor(device, index, actor);
    }
    for (uint32_t i = 0; i < TRP__ARENAS; i++) {
        trp__client_arena *arena = &device->memory.arena[i];
        if (arena->state != TRP__NUMBER_LIVE)
            continue;
        trp__seal_announced(arena, index);
        trp__send_news(device, index,
                       &(trp__news){.type = TRP__MSG_ARENA,
                                    .id = i,
                                    .bytes = arena->bytes,
                                    .protection = arena->protection,
                                    .fd = arena->fd});
    }
    for (uint32_t i = 0; i < TRP__HOST_SEGMENTS; i++) {
        const trp__client_segment *segment = &device->memory.segment[i];
        if (segment->state == TRP__NUMBER_LIVE && !has_failed(segment->answered, &segment->answer))
            announce_segment(device, index, i);
    }
}

/* Sends a worker that was just promoted the resources that standbys do not get, and again those
 * that its predecessor had not answered. */
void trp__announce_promoted(trp_device *device)
{
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__client_actor *actor = atomic_load(&device->actor[i]);
        if (actor && actor->state == TRP__NUMBER_LIVE &&
            (actor->cold ? !has_failed(actor->answered, &actor->answer) : !actor->answered)) {
            actor->trial = false;
            trp__announce_actor(device, device->active, actor);
        }
    }
    for (uint32_t i = 0; i < TRP__HOST_SEGMENTS; i++) {
        if (device->memory.segment[i].state == TRP__NUMBER_LIVE &&
            !device->memory.segment[i].answered)
            announce_segment(device, device->active, i);
    }
}

static void drop_answered(uint32_t index, trp__number_state *state, uint8_t *pending_acks)
{
    *pending_acks &= (uint8_t) ~(1U << index);
    if (*state == TRP__NUMBER_DROPPING && *pending_acks == 0)
        *state = TRP__NUMBER_FREE;
}

/* A worker has dropped a number. */
void trp__number_answered(trp_device *device, uint32_t index, const trp__message *m)
{
    trp__client_actor *actor = m->id < TRP__ACTORS ? atomic_load(&device->actor[m->id]) : NULL;
    if (m->about == TRP__MSG_ARENA_DROP && m->id < TRP__ARENAS)
        drop_answered(index, &device->memory.arena[m->id].state,
                      &device->memory.arena[m->id].pending_acks);
    else if (m->about == TRP__MSG_HOST_DROP && m->id < TRP__HOST_SEGMENTS)
        drop_answered(index, &device->memory.segment[m->id].state,
                      &device->memory.segment[m->id].pending_acks);
    else if (m->about == TRP__MSG_ACTOR_DROP && actor)
        drop_answered(index, &actor->state, &actor->pending_acks);
}

/* A worker is gone: it owes no answers. */
void trp__number_answered_all(trp_device *device, uint32_t index)
{
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__client_actor *actor = atomic_load(&device->actor[i]);
        if (actor)
            drop_answered(index, &actor->state, &actor->pending_acks);
    }
    for (uint32_t i = 0; i < TRP__ARENAS; i++) {
        drop_answered(index, &device->memory.arena[i].state, &device->memory.arena[i].pending_acks);
        trp__seal_worker_gone(&device->memory.arena[i], index);
    }
    for (uint32_t i = 0; i < TRP__HOST_SEGMENTS; i++)
        drop_answered(index, &device->memory.segment[i].state,
                      &device->memory.segment[i].pending_acks);
}

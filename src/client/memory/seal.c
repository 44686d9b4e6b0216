/* Sealed buffers: content that no fault can change, because workers have it mapped read-only.
 *
 * A sealable buffer has an arena to itself, since mappings are what can be made read-only. Its
 * `writers` word counts the requests that hold it to write it; CLOSED in the same word refuses new
 * ones, so "closed and none left" is one look. Sealing closes, waits for the writers to end, and
 * has the workers change their mappings. Each change of an arena has a number (`protection`, odd
 * for read-only), which its messages and answers carry, so those of an earlier change are
 * recognised.
 *
 * The slow part is under device->lock, with the arena's `moving` flag for a whole call, so that one
 * call at a time changes a buffer. The caller holds the buffer throughout, so its arena stays even
 * if it is freed. */
#include "base/call.h"
#include "base/error.h"
#include "client/core/backoff.h"
#include "client/memory/memory.h"

#define CLOSED  (UINT32_C(1) << 31) /* requests that write are refused */
#define SEALED  (UINT32_C(1) << 30) /* and every worker has it mapped read-only */
#define WRITERS (SEALED - 1)

/* Counts a writing request; false if the buffer is closed. */
bool trp__write_begin(trp__buffer_meta *meta)
{
    uint32_t before = atomic_load_explicit(&meta->writers, memory_order_relaxed);
    do {
        if (before & CLOSED)
            return false;
    } while (!atomic_compare_exchange_weak(&meta->writers, &before, before + 1));
    return true;
}

/* Called after the contents were updated for the request's end. */
void trp__write_end(trp__buffer_meta *meta)
{
    atomic_fetch_sub(&meta->writers, 1);
}

bool trp__sealed(trp__buffer_meta *meta)
{
    return atomic_load(&meta->writers) & SEALED;
}

/* Answers of workers. */

/* Returns whether the message answers a change. */
bool trp__seal_answered(trp_device *device, uint32_t index, const trp__message *m)
{
    uint8_t bit = (uint8_t)(1U << index);
    if (m->about != TRP__MSG_PROTECT || m->id >= TRP__ARENAS)
        return false;
    trp__client_arena *arena = &device->memory.arena[m->id];
    if (m->protection != arena->protection || !(arena->changing & bit))
        return true; /* of an earlier change */
    arena->changing &= (uint8_t)~bit;
    if (m->error.status != TRP_OK) {
        arena->refused |= bit;
        if (arena->refusal)
            *arena->refusal = m->error;
        if (index != device->active)
            atomic_store(&device->standby_unwanted, true); /* it could not take over */
    } else if (m->protection % 2 != 0) {
        arena->guarded |= bit;
    }
    return true;
}

/* A new worker is about to get the arena, and to map it as the last change says. */
void trp__seal_announced(trp__client_arena *arena, uint32_t index)
{
    uint8_t bit = (uint8_t)(1U << index);
    bool read_only = arena->protection % 2 != 0;
    arena->guarded = (uint8_t)(read_only ? arena->guarded | bit : arena->guarded & ~bit);
}

/* A worker is gone; it owes no answer. `guarded` stays: the supervisor needs to know what the dead
 * worker could write. */
void trp__seal_worker_gone(trp__client_arena *arena, uint32_t index)
{
    uint8_t bit = (uint8_t)(1U << index);
    arena->changing &= (uint8_t)~bit;
    arena->refused &= (uint8_t)~bit;
}

/* A call on one buffer. */

typedef struct call {
    trp_device *device;
    uint32_t slot;
    uint32_t id; /* of the arena */
    trp__client_arena *arena;
    trp__buffer_meta *meta;
    trp_error error;
} call;

/* Waits for device->changed; false if the time has passed. device->lock is held. */
static bool wait_changed(trp_device *device, int64_t end)
{
    struct timespec until = {.tv_sec = end / TRP__SECOND, .tv_nsec = end % TRP__SECOND};
    if (end == INT64_MAX)
        trp__lock_wait(&device->lock, &device->changed);
    else if (trp__now_ns() >= end)
        return false;
    else
        trp__lock_wait_until(&device->lock, &device->changed, &until);
    return true;
}

/* Waits until no other call seals or unseals the buffer. */
static trp_status take_turn(call *c, int64_t end)
{
    trp_status status = TRP_OK;
    trp__lock_take(&c->device->lock);
    while (c->arena->moving && status == TRP_OK) {
        if (!wait_changed(c->device, end))
            status = trp__error_set(&c->error, TRP_E_TIMEOUT,
                                    "another thread is sealing or unsealing the buffer");
    }
    if (status == TRP_OK)
        c->arena->moving = true;
    trp__lock_drop(&c->device->lock);
    return status;
}

/* Raises its errors itself. On an error there is nothing to end. */
static trp_status begin(call *c, trp_device *device, trp_buffer buffer, int64_t end)
{
    *c = (call){.device = device};
    trp_status status = trp__device_usable(device);
    if (status == TRP_OK)
        status = trp__buffer_hold(device, buffer, &c->slot);
    if (status != TRP_OK)
        return status;
    c->meta = &device->memory.meta[c->slot];
    c->id = device->control->buffer[c->slot].arena;
    c->arena = &device->memory.arena[c->id];
    if (!c->meta->sealable)
        status = trp__error_set(&c->error, TRP_E_ARGUMENT,
                                "buffer: %#llx is not sealable; expected one that was made by "
                                "trp_buffer_create_with() with sealable set",
                                (unsigned long long)buffer.id);
    else
        status = take_turn(c, end);
    if (status == TRP_OK)
        return TRP_OK;
    trp__buffer_release(device, c->slot);
    return trp__error_raise(&c->error);
}

static trp_status end_call(call *c, trp_status status)
{
    trp__lock_take(&c->device->lock);
    c->arena->moving = false;
    pthread_cond_broadcast(&c->device->changed);
    trp__lock_drop(&c->device->lock);
    trp__buffer_release(c->device, c->slot);
    return status == TRP_OK ? TRP_OK : trp__error_raise(&c->error);
}

/* Begins the next change of the arena; does not wait for it. device->lock is held. */
static void broadcast_change(call *c)
{
    trp__client_arena *arena = c->arena;
    arena->protection++;
    atomic_store(&c->device->control->buffer[c->slot].protection, arena->protection);
    if (arena->protection % 2 == 0)
        arena->guarded = 0;
    arena->changing = arena->refused = 0;
    trp__broadcast(c->device, &(trp__news){.type = TRP__MSG_PROTECT,
                                           .id = c->id,
                                           .bytes = c->device->options.start_timeout_ns / 2,
                                           .protection = arena->protection,
                                           .fd = -1,
                                           .pending_acks = &arena->changing});
}

/* Waits until every live worker has made the change. If a worker died meanwhile, the state of the
 * content is known only when the device is ready again. A standby that can't make the change is
 * ended; an active worker's error is the call's. device->lock is held. */
static trp_status await_change(call *c, int64_t end)
{
    trp_device *device = c->device;
    const trp__client_arena *arena = c->arena;
    for (;;) {
        int state = atomic_load(&device->state);
        if (state == TRP_DEVICE_DOWN) {
            trp__error_down(device, &c->error);
            return c->error.status;
        }
        if (arena->refused & (1U << device->active))
            return c->error.status;
        if (state == TRP_DEVICE_READY && !arena->changing && !arena->refused)
            return TRP_OK;
        if (!wait_changed(device, end))
            return trp__error_set(&c->error, TRP_E_TIMEOUT,
                                  "a worker has not changed its mapping of the buffer in time");
    }
}

static trp_status change(call *c)
{
    trp_device *device = c->device;
    int64_t end = trp__deadline((int64_t)device->options.start_timeout_ns);
    trp__lock_take(&device->lock);
    c->arena->refusal = &c->error;
    broadcast_change(c);
    trp_status status = await_change(c, end);
    c->arena->refusal = NULL;
    trp__lock_drop(&device->lock);
    return status;
}

/* Waits for the requests that write the buffer, and ends those that are done. */
static trp_status await_writers(call *c, int64_t timeout_ns)
{
    trp__backoff backoff = trp__backoff_begin(timeout_ns);
    for (;;) {
        c->device->end_over(c->device);
        uint32_t writers = atomic_load(&c->meta->writers) & WRITERS;
        int64_t nap = 0;
        if (writers == 0)
            return TRP_OK;
        if (!trp__backoff_step(&backoff, &nap))
            return trp__error_set(
                &c->error, TRP_E_TIMEOUT,
                "%u uses of the buffer, by requests that write it, have not ended "
                "after %lld ns",
                writers, (long long)timeout_ns);
        if (nap > 0)
            trp__nap(nap);
    }
}

static trp_status check_content(call *c)
{
    if (!trp__buffer_lost(c->device, c->slot))
        return TRP_OK;
    return trp__error_set(&c->error, TRP_E_LOST,
                          "buffer: a fault has left its content unknown; write all of it before "
                          "sealing it");
}

/* Makes a closed buffer read-only in all workers. Checks the content again afterwards: with
 * fault_scope all, a worker that died before the change loses it. */
static trp_status make_read_only(call *c)
{
    trp_device *device = c->device;
    trp_status status = check_content(c);
    if (status != TRP_OK)
        return status;
    status = change(c);
    if (status == TRP_OK)
        status = check_content(c);
    if (status != TRP_OK) {
        /* No wait for this change: a worker holds writers back until it has made it. */
        trp__lock_take(&device->lock);
        broadcast_change(c);
        trp__lock_drop(&device->lock);
    }
    return status;
}

trp_status trp_buffer_seal(trp_device *device, trp_buffer buffer, int64_t timeout_ns)
{
    TRP__CALL(trp__call_refused());
    call c;
    int64_t end = trp__deadline(timeout_ns == TRP_NOWAIT ? 0 : timeout_ns);
    trp_status status = begin(&c, device, buffer, end);
    if (status != TRP_OK)
        return status;
    if (trp__sealed(c.meta))
        return end_call(&c, TRP_OK);
    /* No mapping is made before end_call(). */
    if (trp__mapped_for_writing(device, c.slot))
        return end_call(&c, trp__error_set(&c.error, TRP_E_BUSY,
                                           "buffer: the program has %#llx mapped for writing; "
                                           "expected trp_buffer_unmap() before it is sealed",
                                           (unsigned long long)buffer.id));
    atomic_fetch_or(&c.meta->writers, CLOSED);
    int64_t now = trp__now_ns();
    int64_t left = end == INT64_MAX ? TRP_FOREVER : end > now ? end - now : 0;
    status = await_writers(&c, left);
    if (status == TRP_OK)
        status = make_read_only(&c);
    if (status == TRP_OK)
        atomic_fetch_or(&c.meta->writers, SEALED);
    else
        atomic_fetch_and(&c.meta->writers, ~CLOSED);
    return end_call(&c, status);
}

trp_status trp_buffer_unseal(trp_device *device, trp_buffer buffer)
{
    TRP__CALL(trp__call_refused());
    call c;
    trp_status status = begin(&c, device, buffer, INT64_MAX);
    if (status != TRP_OK)
        return status;
    if (!trp__sealed(c.meta))
        return end_call(&c, TRP_OK);
    atomic_fetch_and(&c.meta->writers, ~SEALED);
    status = change(&c);
    /* Also after an error: a worker that has not changed its mapping holds writers back or refuses
     * them. */
    atomic_fetch_and(&c.meta->writers, ~CLOSED);
    return end_call(&c, status);
}

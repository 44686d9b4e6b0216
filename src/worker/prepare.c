/* Checks whether a request can be issued: its causes are in streams, its inputs are good, its
 * buffers are mapped. */
#include "base/error.h"
#include "worker/scheduler.h"

bool trp__may_read(trp__scheduler *s, const trp__record *record, trp_error *error)
{
    trp_status status = (trp_status)atomic_load_explicit(&record->refuse, memory_order_relaxed);
    uint64_t cause = record->cause;
    if (status == TRP_OK && s->poisons.count > 0) {
        cause = trp__poisons_cause(&s->poisons, record);
        status = cause != 0 ? TRP_E_DEPENDENCY : TRP_OK;
    }
    return status == TRP_OK || trp__refusal(error, status, cause) == TRP_OK;
}

/* Checks whether a request may use a sealable buffer. The sender has checked that already, so a
 * record that writes a sealed buffer is corrupted. */
static trp__readiness may_use(const trp__access *access, uint64_t protection, trp__arena *arena,
                              trp_error *error)
{
    bool writes = access->mode & TRP__WRITE;
    if (writes && protection % 2 != 0) {
        trp__error_set(error, TRP_E_ARGUMENT, "buffer %u is sealed, and the request writes it",
                       access->slot);
        return TRP__REFUSE;
    }
    /* Until the side thread has made the last change, it may still make an earlier one. */
    if (atomic_load_explicit(&arena->protection, memory_order_acquire) < protection)
        return TRP__HOLD;
    if (!writes || !atomic_load(&arena->read_only))
        return TRP__GO;
    *error = arena->error;
    return TRP__REFUSE;
}

/* Enters the request as a user of its sealable arenas, then checks whether a change of mapping is
 * due. The application publishes the change and sends the side thread, which then checks for users.
 * All is sequentially consistent, so if the change is not seen here, the user is seen there. */
static trp__readiness enter_arenas(trp__scheduler *s, const trp__record *record)
{
    uint32_t actor = record->actor % TRP__ACTORS;
    uint64_t before[TRP__ACCESS_MAX];
    bool due = false;
    for (uint32_t i = 0; i < record->access_count; i++) {
        const trp__buffer_entry *entry = &s->control->buffer[record->access[i].slot];
        trp__arena *arena = &s->worker->arena[entry->arena % TRP__ARENAS];
        if (atomic_load_explicit(&entry->protection, memory_order_relaxed) == 0)
            continue;
        before[i] = atomic_exchange(&arena->used[actor], record->ticket);
        due = due || atomic_load(&entry->protection) > atomic_load(&arena->protection);
    }
    for (uint32_t i = record->access_count; due && i-- > 0;) {
        const trp__buffer_entry *entry = &s->control->buffer[record->access[i].slot];
        if (atomic_load_explicit(&entry->protection, memory_order_relaxed) != 0)
            atomic_store(&s->worker->arena[entry->arena % TRP__ARENAS].used[actor], before[i]);
    }
    return due ? TRP__HOLD : TRP__GO;
}

/* Resolves the piece of staging memory of a request, which is one more access. */
static trp__readiness resolve_piece(const trp__scheduler *s, trp__job *job, trp_error *error)
{
    const trp__record *record = job->record;
    uint32_t count = job->api.access_count, bytes = record->piece_bytes;
    void *address = NULL;
    if (record->piece == 0)
        return TRP__GO;
    if (record->piece > TRP__SMALL_COUNT || bytes > trp__small_bytes(record->piece - 1) ||
        count >= sizeof job->api.access / sizeof *job->api.access) {
        trp__error_set(error, TRP_E_INTERNAL,
                       "a result of %u bytes in piece %u of the staging memory, beside %u accesses",
                       bytes, record->piece, count);
        return TRP__REFUSE;
    }
    trp_status status = trp__worker_host_address(s->worker, 0, trp__small_offset(record->piece - 1),
                                                 bytes, &address, error);
    if (status != TRP_OK)
        return status == TRP__AGAIN ? TRP__HOLD : TRP__REFUSE;
    if (s->backend->host_address)
        address = s->backend->host_address(s->worker->accel, address);
    job->api.access[count] =
        (trp_job_access){.address = address,
                         .guard = (char *)address + trp__small_bytes(record->piece - 1),
                         .bytes = bytes,
                         .mode = TRP_ACCESS_COVER};
    job->api.access_count++;
    return TRP__GO;
}

trp__readiness trp__resolve(trp__scheduler *s, trp__job *job, trp_error *error)
{
    const trp__record *record = job->record;
    if (record->access_count > TRP__ACCESS_MAX) {
        trp__error_set(error, TRP_E_INTERNAL, "a record with %u accesses", record->access_count);
        return TRP__REFUSE;
    }
    bool changeable = false;
    for (uint32_t i = 0; i < record->access_count; i++) {
        const trp__access *access = &record->access[i];
        const trp__buffer_entry *entry = &s->control->buffer[access->slot % TRP__BUFFERS];
        uint32_t generation = atomic_load_explicit(&entry->generation, memory_order_acquire);
        if (access->slot >= TRP__BUFFERS || generation != access->generation) {
            trp__error_set(error, TRP_E_STALE, "buffer %u of generation %u is gone", access->slot,
                           access->generation);
            return TRP__REFUSE;
        }
        trp__arena *arena = &s->worker->arena[entry->arena % TRP__ARENAS];
        int state = atomic_load_explicit(&arena->state, memory_order_acquire);
        if (state == TRP__ABSENT)
            return TRP__HOLD;
        if (state == TRP__FAILED) {
            *error = arena->error;
            return TRP__REFUSE;
        }
        if (access->offset > entry->bytes || access->bytes > entry->bytes - access->offset ||
            entry->offset > arena->bytes || entry->bytes > arena->bytes - entry->offset) {
            trp__error_set(error, TRP_E_INTERNAL, "an access outside of buffer %u", access->slot);
            return TRP__REFUSE;
        }
        uint64_t protection = atomic_load_explicit(&entry->protection, memory_order_acquire);
        if (protection != 0) {
            trp__readiness usable = may_use(access, protection, arena, error);
            if (usable != TRP__GO)
                return usable;
            changeable = true;
        }
        job->api.access[i] =
            (trp_job_access){.address = (char *)arena->base + entry->offset + access->offset,
                             .guard = (char *)arena->base + arena->bytes,
                             .bytes = access->bytes,
                             .mode = (trp_access_mode)access->mode};
    }
    job->api.access_count = record->access_count;
    trp__readiness ready = resolve_piece(s, job, error);
    return ready == TRP__GO && changeable ? enter_arenas(s, record) : ready;
}

/* Returns whether everything that the request waits for is in a stream. */
static bool causes_issued(trp__scheduler *s, trp__pending *p)
{
    for (uint64_t rest = p->waits_for; rest; rest &= rest - 1) {
        uint32_t actor = (uint32_t)__builtin_ctzll(rest);
        if (trp__timeline(s, actor) >= p->ticket[actor])
            p->waits_for &= ~trp__bit(actor);
        else if (s->lane[actor].issued < p->ticket[actor])
            return false;
    }
    return true;
}

/* Returns the stream of a cause, if the cause is the last work in it; else NULL. Also NULL for a
 * stream that may be about to go, see announce_ends(). */
static trp__stream *stream_behind(const trp__scheduler *s, uint32_t actor, uint64_t ticket)
{
    const trp__worker_actor *a = &s->worker->actor[actor];
    return s->backend->stream_follow && s->lane[actor].issued == ticket &&
                   atomic_load(&a->state) == TRP__READY
               ? a->instance.stream
               : NULL;
}

static bool has_result(const trp__scheduler *s, uint32_t slot)
{
    return slot < TRP__SLOTS && s->control->record[slot].piece != 0;
}

static trp_status signal_up_to(trp__scheduler *s, uint32_t actor, uint64_t ticket, trp_error *error)
{
    return s->lane[actor].signalled < ticket ? trp__signal_lane(s, actor, error) : TRP_OK;
}

/* Makes the stream wait for a cause. The cause's end is written before the request starts if the
 * request overwrites inputs or outputs of the cause, which may have to run again after a fault, or
 * if the cause has a result, which must be delivered before the request's end. Else the end is
 * written concurrently. */
static trp_status wait_for_cause(trp__scheduler *s, uint32_t self, const trp__pending *p,
                                 uint32_t actor, trp_error *error)
{
    trp__stream *stream = s->worker->actor[self].instance.stream;
    const uint64_t ticket = p->ticket[actor];
    trp__stream *other = stream_behind(s, actor, ticket);
    trp_status status = TRP_OK;
    if (!other || (p->destroys & trp__bit(actor)) || has_result(s, s->lane[actor].last_slot))
        status = signal_up_to(s, actor, ticket, error);
    if (status == TRP_OK)
        status = other ? s->backend->stream_follow(stream, other, error)
                       : s->backend->stream_wait(stream, &s->reply->timelines.timeline[actor].value,
                                                 ticket, error);
    if (status == TRP_OK)
        status = signal_up_to(s, actor, ticket, error);
    trp__window_add(&s->lane[self].window, 1);
    return status;
}

static trp_status wait_for_causes(trp__scheduler *s, uint32_t self, trp__pending *p,
                                  trp_error *error)
{
    trp_status status = TRP_OK;
    for (; p->waits_for && status == TRP_OK; p->waits_for &= p->waits_for - 1)
        status = wait_for_cause(s, self, p, (uint32_t)__builtin_ctzll(p->waits_for), error);
    return status;
}

trp__readiness trp__prepare(trp__scheduler *s, uint32_t actor, trp__pending *p, trp_error *error)
{
    trp__worker_actor *a = &s->worker->actor[actor];
    trp__lane *l = &s->lane[actor];
    const trp__record *record = l->job.record;
    int state = atomic_load_explicit(&a->state, memory_order_acquire);
    if (state <= TRP__RESTARTING || !causes_issued(s, p)) /* ABSENT too */
        return TRP__HOLD;
    if (state == TRP__FAILED) {
        *error = a->error;
        return p->waits_for ? TRP__HOLD : TRP__REFUSE; /* without a stream it can't wait in order */
    }
    trp__readiness ready =
        trp__may_read(s, record, error) ? trp__resolve(s, &l->job, error) : TRP__REFUSE;
    if (ready == TRP__HOLD)
        return TRP__HOLD;
    /* A request whose end is not written may have to run again after a fault. So a request that
     * overwrites an input of an earlier one in the stream starts after that one's end is
     * written. */
    if (p->overwrites > l->signalled && trp__signal_lane(s, actor, error) != TRP_OK)
        return TRP__BROKEN;
    /* The time of a request with a deadline begins when its predecessor's end is seen. */
    if (record->timed && l->unsignalled && trp__signal_lane(s, actor, error) != TRP_OK)
        return TRP__BROKEN;
    /* A refused request waits too: later ones rely on its having waited for their causes. */
    trp_error waiting;
    if (p->waits_for && wait_for_causes(s, actor, p, &waiting) != TRP_OK) {
        *error = waiting;
        return TRP__BROKEN;
    }
    return ready;
}

/* Judges each request after its worker's death: done ones end with their status, the culprit fails,
 * the others run again, and no request reads outputs that were never written. In the supervisor
 * thread. */
#include "client/recovery/judge.h"

#include "base/os/clock.h"
#include "base/error.h"
#include "client/core/points.h"
#include "client/observe/trace.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#define FINISH_NAP_NS (20 * TRP__US) /* while copying threads finish a large read */

/* Waits for senders that have a ticket below `end` but have not stored it into the ring yet: a
 * matter of nanoseconds, unless the scheduler takes their core. */
static void await_publication(trp_device *device, uint64_t end)
{
    uint64_t first = end > TRP__RING ? end - TRP__RING : 1;
    for (uint64_t ticket = first; ticket < end; ticket++) {
        const trp__cell *cell = &device->control->ring[ticket % TRP__RING];
        while (atomic_load_explicit(cell, memory_order_acquire) >> TRP__SLOT_BITS < ticket)
            sched_yield();
    }
}

/* Waits for threads that are ending the request, since they read the reply block. */
static uint64_t settled_state(trp__slot *slot)
{
    uint64_t state;
    while (trp__phase_of(state = atomic_load(&slot->state)) == TRP__RETIRING)
        sched_yield();
    return state;
}

/* Collects the cells of all pending requests from `begin` to `end`, in ticket order; also of those
 * that were cancelled and have ended, for the worker has yet to pass them. */
static uint32_t collect_pending(trp_device *device, uint64_t begin, uint64_t end)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < atomic_load(&device->slots_used); i++) {
        trp__slot *slot = &device->slot[i];
        uint64_t state = settled_state(slot);
        uint64_t retired_early = trp__retired_early(slot);
        uint64_t ticket = retired_early ? retired_early : atomic_load(&slot->ticket);
        if ((retired_early || trp__phase_of(state) == TRP__PENDING) && ticket >= begin &&
            ticket < end)
            device->request.pending[count++] = ticket << TRP__SLOT_BITS | i;
    }
    qsort(device->request.pending, count, sizeof *device->request.pending, trp__by_ticket);
    return count;
}

static trp__slot *slot_of(trp_device *device, uint64_t cell)
{
    return &device->slot[cell & (TRP__SLOTS - 1)];
}

/* Ends a request that the dead worker finished, or refused. A large read is finished by copying
 * threads. */
static void finish(trp_device *device, trp__slot *slot, uint64_t ticket)
{
    trp__retired_early_pass(device, slot, ticket);
    trp__retired_early(
        slot); /* waits for another thread that does so, until it has noted the poison */
    uint64_t filled = device->recovery.seen.stream_done[TRP__LANE_DOWNLOAD];
    bool copied = atomic_load(&slot->stream) == TRP__LANE_DOWNLOAD &&
                  !trp__replied(device, slot->index, ticket) &&
                  trp__transfer_filled(device, slot, settled_state(slot), filled);
    for (;;) {
        uint64_t state = settled_state(slot);
        if (trp__phase_of(state) != TRP__PENDING || atomic_load(&slot->ticket) != ticket ||
            ((!copied || trp__transfer_drained(device, slot, state)) &&
             trp__retire(device, slot, state, NULL)))
            return;
        trp__sleep_ns(FINISH_NAP_NS);
    }
}

/* Returns the verdict of this recovery on a part of an access's buffer. */
static trp__judged verdict_of(const trp_device *device, const trp__access *access,
                              const trp__part *part)
{
    bool current = part->judged.incarnation == atomic_load(&device->incarnation) &&
                   part->judged.generation == access->generation;
    return current ? part->judged : (trp__judged){0};
}

/* Returns the request that may have left a part half-written, as seen by a request with this
 * ticket; 0: none. */
static uint64_t standing_loss(const trp__part *part, const trp__judged *judged, uint64_t ticket)
{
    uint64_t lost = part->word[TRP__LOST];
    return lost < ticket && lost > part->word[TRP__GOOD] && lost > judged->cover ? lost : 0;
}

/* Why a request can't run. */
typedef struct obstacle {
    trp_status status; /* TRP_OK: it can */
    uint64_t cause;
} obstacle;

/* Whether a request may read a part of one of its accesses. The last failed request that should
 * have written the part counts, be it known before or found by this recovery. A failed request with
 * a later ticket does not count. */
static obstacle look_at_part(const trp_device *device, const trp__record *record,
                             const trp__access *access, const trp__part *part)
{
    const trp__judged judged = verdict_of(device, access, part);
    if (judged.ticket >= TRP__SCOPE_FIRST)
        return (obstacle){TRP_E_LOST, TRP__WHOLE_WORKER};
    uint64_t before = part->word[TRP__POISON];
    before = before > part->word[TRP__GOOD] && before < record->ticket ? before : 0;
    uint64_t cause = before > judged.ticket ? before : judged.bad ? judged.ticket : 0;
    if (cause != 0 && !trp__is_acked(record, access, cause))
        return (obstacle){part->word[TRP__LOST] == cause ? TRP_E_LOST : TRP_E_DEPENDENCY, cause};
    /* Delivery of a later failure does not repair half-written bytes. */
    uint64_t lost = standing_loss(part, &judged, record->ticket);
    return lost != 0 ? (obstacle){TRP_E_LOST, lost} : (obstacle){.status = TRP_OK};
}

static obstacle look_at_input(trp_device *device, const trp__record *record,
                              const trp__access *access)
{
    obstacle found = {.status = TRP_OK};
    trp__walk walk = trp__walk_judged(device, access);
    for (const trp__part *part; found.status == TRP_OK && (part = trp__walk_next(&walk));)
        found = look_at_part(device, record, access, part);
    trp__walk_end(&walk);
    return found;
}

/* Returns whether some byte of an output is half-written, and stays so if this request fails. */
static bool covers_loss(trp_device *device, const trp__record *record, const trp__access *access)
{
    bool lost = false;
    trp__walk walk = trp__walk_judged(device, access);
    for (const trp__part *part; !lost && (part = trp__walk_next(&walk));) {
        const trp__judged judged = verdict_of(device, access, part);
        lost = standing_loss(part, &judged, record->ticket) != 0;
    }
    trp__walk_end(&walk);
    return lost;
}

/* Marks the outputs of a failed request for the requests that are judged after it. */
static void spoil_outputs(trp_device *device, const trp__slot *slot)
{
    const trp__record *record = &device->control->record[slot->index];
    for (uint32_t i = 0; i < record->access_count; i++) {
        if (record->access[i].mode & TRP__WRITE)
            trp__contents_judge(device, &record->access[i], record->ticket, true);
    }
}

static void leave_to_next(trp_device *device, const trp__slot *slot)
{
    trp__control *control = device->control;
    control->resume[control->resume_count++] = slot->index;
}

/* A request that will not run. The next worker refuses it in its turn, so that its outputs are
 * poisoned in the order of the tickets (retired_early.c). */
static void leave_refused(trp_device *device, const trp__slot *slot, trp_status status,
                          uint64_t cause)
{
    trp__record *record = &device->control->record[slot->index];
    atomic_store(&record->refuse, (uint32_t)status);
    record->cause = cause;
    spoil_outputs(device, slot);
    leave_to_next(device, slot);
}

/* Ends a request because of this death. */
static void fail(trp_device *device, trp__slot *slot, const trp_error *error)
{
    /* A dropped future changes the state: repeat then. */
    uint64_t state;
    while (trp__phase_of(state = settled_state(slot)) == TRP__PENDING &&
           !trp__retire_early(device, slot, state, error))
        continue;
    leave_refused(device, slot, TRP_E_CANCELLED, 0);
}

/* Returns whether a request that was not issued yet can still run: its inputs must have been
 * written. */
static bool can_run(trp_device *device, trp__record *record, obstacle *found)
{
    *found = (obstacle){.status = (trp_status)atomic_load(&record->refuse), .cause = record->cause};
    for (uint32_t i = 0; i < record->access_count && found->status == TRP_OK; i++) {
        if (record->access[i].mode & TRP__READ)
            *found = look_at_input(device, record, &record->access[i]);
    }
    for (uint32_t i = 0; i < record->access_count && found->status == TRP_OK; i++) {
        const trp__access *a = &record->access[i];
        if (!(a->mode & TRP__COVER))
            continue;
        /* The bytes stay half-written if the request fails. */
        if (covers_loss(device, record, a))
            atomic_store(&record->begun, true);
        trp__contents_judge(device, a, record->ticket, false);
    }
    return found->status == TRP_OK;
}

static bool overlap(const trp__access *a, const trp__access *b)
{
    return a->slot == b->slot && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* Returns whether a request writes no byte that it reads, so that it can run again. Its inputs are
 * intact, because the worker signals the end of a request before it starts another that overwrites
 * its inputs. */
static bool is_idempotent(const trp__record *record)
{
    for (uint32_t i = 0; i < record->access_count; i++) {
        const trp__access *a = &record->access[i];
        if (!(a->mode & TRP__WRITE))
            continue;
        for (uint32_t k = 0; k < record->access_count; k++) {
            if ((record->access[k].mode & TRP__READ) && overlap(&record->access[k], a))
                return false;
        }
    }
    return true;
}

typedef struct judgement {
    const trp_error *cause;
    uint64_t hung;      /* the request that ran past its deadline, or was not begun in that time */
    uint32_t in_flight; /* how many requests the dead worker had begun and not finished */
    uint32_t victims;   /* the same, of all ranges */
    bool outsider;      /* the cause of death may be none of the requests */
} judgement;

/* A request that was done may be ended by its waiter, and its slot used again, at any moment:
 * values read from the slot count only if it is still pending with the same ticket afterwards.
 * Other requests stay pending until the supervisor ends them. */
trp__standing trp__progress_of(const trp_device *device, const trp__slot *slot, uint64_t ticket)
{
    uint32_t actor = atomic_load(&slot->actor) % TRP__ACTORS;
    trp__standing p = device->recovery.seen.timeline[actor] >= ticket ? TRP__WAS_DONE
                      : device->recovery.seen.issued[actor] >= ticket &&
                              device->recovery.seen.waiting[actor] != ticket
                          ? TRP__WAS_IN_FLIGHT
                          : TRP__WAS_QUEUED;
    bool ended = trp__phase_of(atomic_load(&slot->state)) != TRP__PENDING;
    return ended || atomic_load(&slot->ticket) != ticket ? TRP__WAS_GONE : p;
}

/* Returns the same for the judgement. A request that the worker has replied to ends with that
 * reply, since later requests on the same buffers may have run. One that was retired early still
 * counts for its outputs. */
static trp__standing standing_of(const trp_device *device, const trp__slot *slot, uint64_t ticket)
{
    bool retired_early = trp__retired_early(slot) == ticket;
    uint32_t actor = atomic_load(&slot->actor) % TRP__ACTORS;
    trp__standing p = !retired_early ? trp__progress_of(device, slot, ticket)
                      : device->recovery.seen.timeline[actor] >= ticket ? TRP__WAS_DONE
                                                                        : TRP__WAS_QUEUED;
    if ((p == TRP__WAS_QUEUED || p == TRP__WAS_IN_FLIGHT) &&
        trp__replied(device, slot->index, ticket))
        return TRP__WAS_DONE;
    return p == TRP__WAS_QUEUED && atomic_load(&slot->deaths) > 0 ? TRP__WAS_SUSPECT : p;
}

/* Returns whether a request that was in flight may run again: not if it is known to have killed the
 * worker, and never a third time. */
static bool may_run_again(const judgement *j, const trp__slot *slot, const trp__record *record)
{
    if (j->hung)
        return slot->ticket != j->hung && slot->deaths < 2 && is_idempotent(record);
    bool guilty = j->in_flight == 1 && !j->outsider;
    return !guilty && slot->deaths < 2 && is_idempotent(record);
}

/* Decides about one request; lists it for the next worker unless it has ended. */
static void judge(trp_device *device, const judgement *j, uint64_t cell, trp__standing p)
{
    uint64_t ticket = cell >> TRP__SLOT_BITS;
    trp__slot *slot = slot_of(device, cell);
    trp__record *record = &device->control->record[slot->index];
    obstacle found;
    TRP__DEVICE_POINT(device, JUDGE_REQUEST);
    if (p == TRP__WAS_DONE ||
        p == TRP__WAS_GONE) { /* gone: a waiter may be ending it; its notes count below */
        finish(device, slot, ticket);
        return;
    }
    bool cancelled = p != TRP__WAS_IN_FLIGHT && atomic_load(&record->cancelled) == ticket;
    if (cancelled || trp__retired_early(slot) == ticket) {
        leave_refused(device, slot, TRP_E_CANCELLED, 0);
        return;
    }
    bool in_flight = p == TRP__WAS_IN_FLIGHT;
    if (in_flight) {
        slot->deaths++; /* from now on it can't be cancelled */
        atomic_store(&record->cancelled, 0);
        atomic_store(&record->begun, true);
    }
    /* Missing the deadline without having begun is forgiven once. */
    bool not_begun = !in_flight && ticket == j->hung && slot->missed_deadlines++ > 0;
    if (not_begun || (in_flight && !may_run_again(j, slot, record))) {
        fail(device, slot, j->cause);
    } else if (!can_run(device, record, &found)) {
        leave_refused(device, slot, found.status, found.cause);
    } else {
        leave_to_next(device, slot);
        if (in_flight && trp__tracing(device))
            trp__trace_interrupted(device, slot, record);
    }
}

static void judge_those(trp_device *device, const judgement *j, uint32_t count, trp__standing from,
                        trp__standing to)
{
    for (uint32_t i = 0; i < count; i++) {
        trp__standing p = (trp__standing)device->recovery.pending_progress[i];
        if (p >= from && p <= to)
            judge(device, j, device->request.pending[i], p);
    }
}

/* With TRP_FAULT_SCOPE_ALL: called after the done requests below `end` were judged, before the
 * others. */
static void lose_everything(trp_device *device, uint32_t count, uint64_t end)
{
    trp__scope_begin(device);
    for (uint32_t i = 0; i < count; i++) {
        trp__standing p = (trp__standing)device->recovery.pending_progress[i];
        if (p >= TRP__WAS_QUEUED && p <= TRP__WAS_IN_FLIGHT)
            trp__scope_cover(
                device,
                &device->control->record[slot_of(device, device->request.pending[i])->index]);
    }
    trp__scope_end(device, end - 1);
}

/* Judges the pending requests with tickets from `begin` to `end` in ticket order, in three passes:
 * done ones end with their status; of those in flight the culprit and those that can't run twice
 * fail, the others run again, alone; those not yet issued run unless an input is lost. */
static void judge_range(trp_device *device, judgement *j, uint64_t begin, uint64_t end)
{
    await_publication(device, end);
    uint32_t count = collect_pending(device, begin, end);
    TRP__DEVICE_POINT(device, JUDGE_COLLECTED);
    j->in_flight = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t cell = device->request.pending[i];
        trp__standing p = standing_of(device, slot_of(device, cell), cell >> TRP__SLOT_BITS);
        device->recovery.pending_progress[i] = (uint8_t)p;
        j->in_flight += p == TRP__WAS_IN_FLIGHT;
    }
    j->victims += j->in_flight;
    judge_those(device, j, count, TRP__WAS_GONE, TRP__WAS_GONE);
    judge_those(device, j, count, TRP__WAS_DONE, TRP__WAS_DONE);
    if (begin == 0 && device->options.fault_scope == TRP_FAULT_SCOPE_ALL)
        lose_everything(device, count, end);
    TRP__DEVICE_POINT(device, JUDGE_DONE_ENDED);
    judge_those(device, j, count, TRP__WAS_SUSPECT, TRP__WAS_IN_FLIGHT);
    TRP__DEVICE_POINT(device, JUDGE_FLIGHT_DECIDED);
    if (begin == 0)
        device->control->resume_alone = device->control->resume_count;
    judge_those(device, j, count, TRP__WAS_QUEUED, TRP__WAS_QUEUED);
    TRP__DEVICE_POINT(device, JUDGE_RANGE_DECIDED);
}

/* Two passes: a request that was being sent while the first pass marked contents as lost may have
 * checked its inputs before. Senders with a later ticket than the second pass see the marks; the
 * second pass makes none. Returns how many were in flight. */
uint32_t trp__judge_requests(trp_device *device, const trp_error *cause, uint64_t hung,
                             bool outsider)
{
    trp__control *control = device->control;
    judgement j = {.cause = cause,
                   .hung = hung,
                   .outsider = outsider ||
                               (cause->fault == TRP_FAULT_SIGNAL && cause->code == SIGKILL) ||
                               cause->fault == TRP_FAULT_HANG};
    TRP__DEVICE_POINT(device, JUDGE);
    trp__lock_take(&device->request.judging);
    uint64_t middle = atomic_load(&control->next_ticket.value);
    control->resume_count = 0;
    judge_range(device, &j, 0, middle);
    uint64_t end = atomic_load(&control->next_ticket.value);
    judge_range(device, &j, middle, end);
    control->resume_start = end;
    for (uint32_t i = 0; i < TRP__STREAMS; i++)
        trp__transfers_restart(device, i);
    trp__lock_drop(&device->request.judging);
    TRP__DEVICE_POINT(device, JUDGE_TRANSFERS_RESTARTED);
    return j.victims;
}

/* Ends everything pending; the device is down. */
void trp__fail_all(trp_device *device)
{
    trp_error down;
    trp__error_down(device, &down);
    for (uint32_t i = 0; i < atomic_load(&device->slots_used); i++) {
        trp__slot *slot = &device->slot[i];
        uint64_t state;
        while (trp__phase_of(state = settled_state(slot)) == TRP__PENDING) {
            if (!trp__try_finish(device, slot, state))
                trp__retire(device, slot, state, &down);
        }
        trp__retired_early_pass(device, slot, trp__retired_early(slot));
    }
}

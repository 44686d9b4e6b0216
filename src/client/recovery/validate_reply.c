/* Validates the words and messages of a worker. A library that writes through a wild pointer may
 * have overwritten the reply block or the socket's buffers. Then the worker's results are
 * worthless, but the application must detect that, and must not crash, hang, or read out of bounds.
 *
 * Each word is read once. Numbers from the worker are never used as sizes or indices, only compared
 * with the application's own. An invalid value is a breach: the worker is killed, as after any
 * fault. */
#include "client/recovery/recovery.h"

#include <sys/mman.h>

/* Breaches. */

/* Notes a breach; the first one counts. */
void trp__process_breach(trp__process *p, trp_fault fault, const char *what)
{
    if (p->breach)
        return;
    p->breach = what;
    p->breach_fault = fault;
}

/* Checks a word that only rises and stays below `end`, which is read after the word. Stores a valid
 * value in *seen. */
static const char *look(uint64_t *seen, const _Atomic uint64_t *word, const _Atomic uint64_t *end,
                        uint64_t beyond)
{
    uint64_t value = atomic_load_explicit(word, memory_order_acquire);
    if (value == *seen)
        return NULL;
    if (value < *seen)
        return "set its progress back";
    if (value >= atomic_load(end) + beyond)
        return "reported requests as done that were never sent";
    *seen = value;
    return NULL;
}

static const char *look_at_stream(trp_device *device, uint32_t i)
{
    uint64_t *seen = &device->recovery.seen.stream_done[i];
    uint64_t done = trp__stream_done(device, i);
    if (done == *seen)
        return NULL;
    trp__lock_take(&device->request.stream[i].lock);
    uint64_t end = device->request.stream[i].next_chunk;
    trp__lock_drop(&device->request.stream[i].lock);
    if (done < *seen)
        return "set its progress back";
    if (done > end)
        return "reported chunks as copied that were never sent";
    *seen = done;
    return NULL;
}

/* Checks the active worker's progress and stores it in device->recovery.seen. Returns the breach,
 * NULL for none. */
const char *trp__words_look(trp_device *device)
{
    const trp__reply *reply = device->reply;
    trp__words *seen = &device->recovery.seen;
    const _Atomic uint64_t *end = &device->control->next_ticket.value;
    const char *breach = look(&seen->taken, &reply->taken.value, end, 1);
    for (uint32_t i = 0; i < TRP__ACTORS && !breach; i++) {
        if (!atomic_load_explicit(&device->actor[i], memory_order_relaxed))
            continue;
        breach = look(&seen->issued[i], &reply->issued[i].value, end, 0);
        seen->waiting[i] = atomic_load(&reply->waiting[i].value);
        if (!breach)
            breach = look(&seen->timeline[i], &reply->timelines.timeline[i].value, end, 0);
    }
    for (uint32_t i = 0; i < TRP__STREAMS && !breach; i++)
        breach = look_at_stream(device, i);
    return breach;
}

/* Returns whether a worker that has not been promoted has written no progress. */
bool trp__words_untouched(const trp__reply *reply)
{
    uint64_t any = atomic_load(&reply->taken.value);
    for (uint32_t i = 0; i < TRP__ACTORS; i++)
        any |=
            atomic_load(&reply->issued[i].value) | atomic_load(&reply->timelines.timeline[i].value);
    for (uint32_t i = 0; i < TRP__STREAMS; i++)
        any |= atomic_load(&reply->timelines.stream_done[i].value);
    return any == 0;
}

/* Returns whether a worker reports a large read as done without having filled its pieces. */
static bool is_absurd_read(trp_device *device, trp__slot *slot)
{
    uint64_t state = atomic_load(&slot->state);
    uint64_t ticket = atomic_load(&slot->ticket);
    if (trp__phase_of(state) != TRP__PENDING || ticket == 0 ||
        atomic_load(&slot->stream) != TRP__LANE_DOWNLOAD ||
        trp__timeline(device, TRP__LANE_DOWNLOAD) < ticket)
        return false;
    uint64_t done = trp__stream_done(device, TRP__LANE_DOWNLOAD);
    return !trp__replied(device, slot->index, ticket) &&
           !trp__transfer_filled(device, slot, state, done) &&
           trp__phase_of(atomic_load(&slot->state)) == TRP__PENDING &&
           atomic_load(&slot->ticket) == ticket;
}

/* Called by the supervisor, so no worker is replaced meanwhile. */
bool trp__read_absurd(trp_device *device)
{
    for (uint32_t i = 0; i < atomic_load(&device->slots_used); i++) {
        if (is_absurd_read(device, &device->slot[i]))
            return true;
    }
    return false;
}

/* The end of a worker. */

static uint64_t between(uint64_t value, uint64_t least, uint64_t most)
{
    return value > most ? least : value < least ? least : value;
}

/* Freezes the valid part of a dead worker's progress, in device->recovery.seen and for all readers
 * of timelines, so that a process that still has the block (a child of the dead worker) can't
 * change what is judged. If memory is short the words stay in the block, which matters only if
 * there is such a child. */
void trp__words_freeze(trp_device *device)
{
    trp__words *seen = &device->recovery.seen;
    const trp__reply *reply = device->reply;
    uint64_t last = atomic_load(&device->control->next_ticket.value) - 1;
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        seen->timeline[i] = between(trp__timeline(device, i), seen->timeline[i], last);
        uint64_t issued = atomic_load(&reply->issued[i].value);
        seen->waiting[i] = atomic_load(&reply->waiting[i].value);
        /* Unknown: every request that was sent may have begun. */
        seen->issued[i] = issued > last || issued < seen->issued[i] ? last : issued;
    }
    for (uint32_t i = 0; i < TRP__STREAMS; i++)
        look_at_stream(device, i);
    uint64_t *download = &seen->timeline[TRP__LANE_DOWNLOAD];
    for (uint32_t i = 0; i < atomic_load(&device->slots_used); i++) {
        trp__slot *slot = &device->slot[i];
        uint64_t ticket = atomic_load(&slot->ticket);
        if (ticket <= *download && is_absurd_read(device, slot))
            *download = ticket - 1;
    }

    trp__timelines *copy =
        mmap(NULL, sizeof *copy, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return;
    for (uint32_t i = 0; i < TRP__ACTORS; i++)
        atomic_init(&copy->timeline[i].value, seen->timeline[i]);
    for (uint32_t i = 0; i < TRP__STREAMS; i++)
        atomic_init(&copy->stream_done[i].value, seen->stream_done[i]);
    madvise(copy, sizeof *copy, MADV_DONTFORK);
    if (mremap(copy, sizeof *copy, sizeof *copy, MREMAP_MAYMOVE | MREMAP_FIXED,
               &device->reply->timelines) == MAP_FAILED)
        munmap(copy, sizeof *copy);
}

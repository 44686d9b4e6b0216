/* Large copies between ordinary memory of the program and buffers.
 *
 * A copy is cut into chunks that pass through the ring of pieces of its direction: copying threads
 * here move chunks between user memory and pieces, the device moves them between pieces and the
 * buffer, and each signals the other by counters (piece_ready and stream_done). Chunks are numbered
 * through all transfers of a direction, in ticket order, so both sides agree on the piece of each
 * chunk without messages. */
#include "base/error.h"
#include "base/os/cpu.h"
#include "base/os/thread.h"
#include "client/request/copies.h"
#include "client/request/room.h"
#include "wire/rank.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* A short transfer is cut finer, so that several threads share it. */
#define SHORT_TRANSFER (UINT64_C(4) << 20)
#define SHORT_CHUNK    (UINT64_C(128) << 10)

/* Entries of a stream's log: one for each place of the mailbox, and as many again for transfers
 * that overtake each other between taking a place and a number. */
#define LOG_SIZE(device) (2 * (size_t)(device)->options.mailbox_size)

static struct trp__transfer_log *log_entry(trp_device *device, uint32_t stream, uint64_t number)
{
    return &device->request.stream[stream].log[number & (LOG_SIZE(device) - 1)];
}

/* The copying threads. */

static trp__slot *transfer_slot(trp_device *device, uint32_t index)
{
    return index == TRP__NO_SLOT ? NULL : &device->slot[index];
}

/* Returns whether the piece of this chunk may be used now. */
static bool piece_free(const trp_device *device, uint32_t stream, uint64_t chunk)
{
    const trp__client_stream *s = &device->request.stream[stream];
    uint64_t done = atomic_load_explicit(&device->reply->timelines.stream_done[stream].value,
                                         memory_order_acquire);
    if (stream == TRP__LANE_DOWNLOAD)
        return done > chunk; /* the device has filled it */
    /* The device has read the piece's previous chunk, or never will. */
    return chunk < TRP__PIECES || chunk - TRP__PIECES < s->base || done > chunk - TRP__PIECES;
}

/* Returns the next chunk that can be copied now, with its transfer; NULL if there is none.
 * stream->lock is held. */
static trp__slot *claim(trp_device *device, uint32_t stream, uint64_t *chunk)
{
    trp__client_stream *s = &device->request.stream[stream];
    trp__slot *slot = transfer_slot(device, s->first);
    if (!slot)
        return NULL;
    trp__transfer *t = &slot->transfer;
    *chunk = t->first_chunk + t->claimed;
    if (!piece_free(device, stream, *chunk))
        return NULL;
    t->claimed++;
    t->active++;
    s->active++;
    if (t->claimed == t->chunks) {
        s->first = t->next;
        if (s->first == TRP__NO_SLOT)
            s->last = TRP__NO_SLOT;
    }
    return slot;
}

/* Copies a part of a packed box to the caller's rows, or from them. */
static void copy_rows(const trp__transfer *t, char *user, char *packed, uint64_t at,
                      uint64_t length, bool to_user)
{
    trp__box_part part;
    for (uint64_t next = at; trp__box_next(&t->box, &t->pitch, &next, at + length, &part);) {
        for (uint64_t i = 0; i < part.rows; i++) {
            char *theirs = user + part.strided + i * t->pitch.row;
            char *ours = packed + (part.packed - at) + i * part.bytes;
            memcpy(to_user ? theirs : ours, to_user ? ours : theirs, part.bytes);
        }
    }
}

/* Ends a small read whose rows lie apart. */
void trp__transfer_scatter(const trp__transfer *t, char *user, char *packed)
{
    copy_rows(t, user, packed, 0, trp__box_bytes(&t->box), true);
}

/* Begins a small write whose rows lie apart. */
void trp__transfer_gather(const trp__transfer *t, char *user, char *packed)
{
    copy_rows(t, user, packed, 0, trp__box_bytes(&t->box), false);
}

static void copy_chunk(trp_device *device, uint32_t stream, const trp__transfer *t, uint64_t chunk)
{
    uint64_t at = (chunk - t->first_chunk) * t->chunk_bytes;
    uint64_t length = t->bytes - at < t->chunk_bytes ? t->bytes - at : t->chunk_bytes;
    char *piece = device->staging + trp__piece_offset(stream, chunk);
    if (t->box.bytes)
        copy_rows(t, t->user, piece, at, length, stream == TRP__LANE_DOWNLOAD);
    else if (stream == TRP__LANE_UPLOAD)
        memcpy(piece, t->user + at, length);
    else
        memcpy(t->user + at, piece, length);
    atomic_store_explicit(&device->control->piece_ready[stream][chunk % TRP__PIECES].value,
                          chunk + 1, memory_order_release);
}

typedef struct copier_argument {
    trp_device *device;
    uint32_t stream;
} copier_argument;

static void *copier_main(void *argument)
{
    copier_argument a = *(copier_argument *)argument;
    trp_device *device = a.device;
    trp__client_stream *s = &device->request.stream[a.stream];
    free(argument);
    prctl(PR_SET_NAME, "troupe-copy");
    prctl(PR_SET_TIMERSLACK, 1000UL);
    trp__backoff backoff = trp__backoff_begin(TRP_FOREVER);

    trp__lock_take(&s->lock);
    while (!atomic_load(&device->request.copier.stop)) {
        uint64_t chunk = 0;
        trp__slot *slot = claim(device, a.stream, &chunk);
        if (slot) {
            trp__lock_drop(&s->lock);
            copy_chunk(device, a.stream, &slot->transfer, chunk);
            trp__lock_take(&s->lock);
            slot->transfer.finished++;
            slot->transfer.active--;
            s->active--;
            backoff = trp__backoff_begin(TRP_FOREVER);
        } else if (s->first == TRP__NO_SLOT) {
            trp__lock_wait(&s->lock, &s->work);
            backoff = trp__backoff_begin(TRP_FOREVER);
        } else {
            int64_t nap = 0;
            trp__lock_drop(&s->lock);
            trp__backoff_step(&backoff, &nap);
            if (nap > 0)
                trp__sleep_ns(nap);
            trp__lock_take(&s->lock);
        }
    }
    trp__lock_drop(&s->lock);
    return NULL;
}

static trp_status start_copiers(trp_device *device, uint32_t stream)
{
    trp__copier *copier = &device->request.copier;
    unsigned cores = trp__cpu_count();
    uint32_t wanted = cores >= 2 * TRP__COPY_THREADS ? TRP__COPY_THREADS
                      : cores >= 4                   ? cores / 2
                                                     : 1;
    int code = 0;
    trp__lock_take(&copier->lock);
    while (code == 0 && copier->count[stream] < wanted) {
        pthread_t *thread = &copier->thread[stream][copier->count[stream]];
        copier_argument *argument = malloc(sizeof *argument);
        if (!argument) {
            code = ENOMEM;
            break;
        }
        *argument = (copier_argument){.device = device, .stream = stream};
        code = trp__thread_start(thread, TRP__SIGNALS_BLOCKED, copier_main, argument);
        if (code == 0)
            copier->count[stream]++;
        else
            free(argument);
    }
    bool ok = copier->count[stream] > 0; /* fewer than wanted are only slower */
    trp__lock_drop(&copier->lock);
    if (ok)
        return TRP_OK;
    trp_error error;
    errno = code;
    trp__error_set_errno(&error, "no thread can be started for a large copy");
    return trp__error_raise(&error);
}

bool trp__streams_init(trp_device *device)
{
    bool ok = true;
    trp__lock_init(&device->request.copier.lock, TRP__RANK_COPIER);
    for (int i = 0; i < TRP__STREAMS; i++) {
        trp__client_stream *s = &device->request.stream[i];
        trp__lock_init(&s->lock, TRP__RANK_STREAM);
        pthread_cond_init(&s->work, NULL);
        s->first = s->last = TRP__NO_SLOT;
        s->log = calloc(LOG_SIZE(device), sizeof *s->log);
        ok = ok && s->log;
    }
    return ok;
}

void trp__copier_stop(trp_device *device)
{
    for (int i = 0; i < TRP__STREAMS; i++) {
        trp__client_stream *s = &device->request.stream[i];
        trp__lock_take(&s->lock);
        atomic_store(&device->request.copier.stop, true);
        pthread_cond_broadcast(&s->work);
        trp__lock_drop(&s->lock);
        for (uint32_t k = 0; k < device->request.copier.count[i]; k++)
            pthread_join(device->request.copier.thread[i][k], NULL);
        trp__lock_destroy(&s->lock);
        pthread_cond_destroy(&s->work);
        free(s->log);
    }
    trp__lock_destroy(&device->request.copier.lock);
}

/* Gives a transfer its chunks, behind those of all others. stream->lock is held. */
static void append_transfer(trp_device *device, uint32_t stream, uint32_t index)
{
    trp__client_stream *s = &device->request.stream[stream];
    trp__transfer *t = &device->slot[index].transfer;
    t->number = s->next_number++;
    t->first_chunk = s->next_chunk;
    t->claimed = t->finished = 0;
    t->next = TRP__NO_SLOT;
    s->next_chunk += t->chunks;
    *log_entry(device, stream, t->number) = (struct trp__transfer_log){.end_chunk = s->next_chunk};
    if (s->last == TRP__NO_SLOT)
        s->first = index;
    else
        device->slot[s->last].transfer.next = index;
    s->last = index;
    trp__memory_payload *p =
        trp__memory_payload_of(&device->control->record[index], TRP__OP_MEMORY_STREAM);
    p->stream = stream;
    p->first_chunk = t->first_chunk;
    p->chunks = t->chunks;
    p->chunk_bytes = t->chunk_bytes;
    p->box = t->box;
    p->pitch = t->buffer_pitch;
}

/* Returns whether a slot still holds the large read that was pending when its state was `state`.
 * The read stream's lock is held; while it is, a yes stays true, since ending the read takes the
 * lock before the slot is freed. After a no the slot may be in use under another lock. */
static bool still_pending(const trp__slot *slot, uint64_t state)
{
    return trp__phase_of(state) == TRP__PENDING &&
           ((atomic_load(&slot->state) ^ state) & ~TRP__WANTED) == 0;
}

/* Both of the following return true for a read that is not pending any more: the caller then fails
 * to end it. */

/* Returns whether all pieces that the device has filled were copied to user memory. */
bool trp__transfer_drained(trp_device *device, trp__slot *slot, uint64_t pending)
{
    trp__client_stream *s = &device->request.stream[TRP__LANE_DOWNLOAD];
    trp__lock_take(&s->lock);
    bool drained =
        !still_pending(slot, pending) || slot->transfer.finished == slot->transfer.chunks;
    trp__lock_drop(&s->lock);
    return drained;
}

/* Returns whether the device has filled all of a large read's pieces, by stream_done. */
bool trp__transfer_filled(trp_device *device, trp__slot *slot, uint64_t pending,
                          uint64_t stream_done)
{
    trp__client_stream *s = &device->request.stream[TRP__LANE_DOWNLOAD];
    trp__lock_take(&s->lock);
    bool filled = !still_pending(slot, pending) ||
                  slot->transfer.first_chunk + slot->transfer.chunks <= stream_done;
    trp__lock_drop(&s->lock);
    return filled;
}

static void unlink_transfer(trp_device *device, trp__client_stream *s, trp__slot *slot)
{
    uint32_t *link = &s->first;
    uint32_t previous = TRP__NO_SLOT;
    while (*link != slot->index && *link != TRP__NO_SLOT) {
        previous = *link;
        link = &device->slot[*link].transfer.next;
    }
    if (*link == TRP__NO_SLOT)
        return;
    *link = slot->transfer.next;
    if (s->last == slot->index)
        s->last = previous;
}

/* Moves `base` over the transfers that have ended. Only then may their pieces be used by later
 * chunks: while an earlier transfer runs, a piece may still hold a chunk of it. stream->lock is
 * held. */
static void release_pieces(trp_device *device, uint32_t stream)
{
    trp__client_stream *s = &device->request.stream[stream];
    while (s->ended < s->next_number && log_entry(device, stream, s->ended)->ended)
        s->base = log_entry(device, stream, s->ended++)->end_chunk;
    for (uint64_t i = 1; i <= TRP__PIECES && i <= s->base; i++) {
        uint64_t chunk = s->base - i;
        trp__raise_ticket(&device->control->piece_ready[stream][chunk % TRP__PIECES].value,
                          chunk + 1);
    }
}

/* A request with a transfer is ending, whole or not: no thread touches user memory after this. */
void trp__transfer_end(trp_device *device, trp__slot *slot)
{
    uint32_t stream = (uint32_t)atomic_load_explicit(&slot->stream, memory_order_relaxed);
    trp__client_stream *s = &device->request.stream[stream];
    trp__transfer *t = &slot->transfer;
    trp__lock_take(&s->lock);
    if (t->claimed < t->chunks) {
        t->claimed = t->chunks;
        unlink_transfer(device, s, slot);
    }
    while (t->active > 0) { /* a chunk takes well under a millisecond */
        trp__lock_drop(&s->lock);
        trp__sleep_ns(TRP__NAP_MIN_NS);
        trp__lock_take(&s->lock);
    }
    log_entry(device, stream, t->number)->ended = true;
    release_pieces(device, stream);
    trp__lock_drop(&s->lock);
}

/* Takes all transfers off the list and waits until no thread copies. stream->lock is held, and
 * dropped for moments. */
static void stop_copying(trp_device *device, uint32_t stream)
{
    trp__client_stream *s = &device->request.stream[stream];
    for (;;) {
        s->first = s->last = TRP__NO_SLOT;
        if (s->active == 0)
            return;
        trp__lock_drop(&s->lock);
        trp__sleep_ns(TRP__NAP_MIN_NS);
        trp__lock_take(&s->lock);
    }
}

/* Restarts the transfers of requests that run on the next worker, with new chunks in ticket order:
 * the contents of the pieces were for the dead worker. */
void trp__transfers_restart(trp_device *device, uint32_t stream)
{
    trp__client_stream *s = &device->request.stream[stream];
    uint32_t count = 0;
    trp__lock_take(&s->lock);
    stop_copying(device, stream);
    /* With the lock held no transfer can end. */
    for (uint32_t i = 0; i < atomic_load(&device->slots_used); i++) {
        const trp__slot *slot = &device->slot[i];
        if (trp__phase_of(atomic_load(&slot->state)) == TRP__PENDING &&
            atomic_load(&slot->stream) == (int)stream)
            device->request.pending[count++] = atomic_load(&slot->ticket) << TRP__SLOT_BITS | i;
    }
    qsort(device->request.pending, count, sizeof *device->request.pending, trp__by_ticket);
    for (uint64_t number = s->ended; number < s->next_number; number++)
        log_entry(device, stream, number)->ended = true;
    release_pieces(device, stream);
    for (uint32_t i = 0; i < count; i++)
        append_transfer(device, stream, (uint32_t)(device->request.pending[i] & (TRP__SLOTS - 1)));
    pthread_cond_broadcast(&s->work);
    trp__lock_drop(&s->lock);
}

/* Queues the chunks behind those of earlier transfers and sends the request; one lock makes the two
 * orders the same. */
trp_status trp__stream_send(trp_device *device, trp__slot *slot, const trp__host_copy *copy,
                            trp_completion *completion)
{
    trp__client_actor *actor = device->actor[copy->lane];
    trp__client_stream *s = &device->request.stream[copy->lane];
    uint64_t bytes = copy->shape.bytes;
    uint64_t chunk_bytes = bytes <= SHORT_TRANSFER ? SHORT_CHUNK : TRP__PIECE_BYTES;
    uint64_t place = 0;
    trp_status status = trp__completion_check(device, completion);
    if (status == TRP_OK)
        status = start_copiers(device, copy->lane);
    if (status == TRP_OK)
        status = trp__mailbox_reserve(actor, 1, slot->room, &place);
    if (status != TRP_OK)
        return status;

    trp__lock_take(&s->lock);
    slot->transfer = (trp__transfer){.user = copy->user,
                                     .bytes = bytes,
                                     .chunks = (bytes + chunk_bytes - 1) / chunk_bytes,
                                     .chunk_bytes = chunk_bytes};
    if (copy->shape.box.bytes) {
        slot->transfer.box = copy->shape.box;
        slot->transfer.buffer_pitch = copy->shape.pitch[0];
        slot->transfer.pitch = copy->shape.pitch[1];
    }
    append_transfer(device, copy->lane, slot->index);
    atomic_store_explicit(&slot->stream, (int)copy->lane, memory_order_relaxed);
    trp__sent sent = trp__slot_publish(actor, slot, place, completion);
    pthread_cond_broadcast(&s->work);
    trp__lock_drop(&s->lock);
    trp__slot_published(device, &sent);
    return TRP_OK;
}

/* Copies between host memory and buffers.
 *
 * Memory from trp_host_alloc() is copied by the device itself. A small copy of other memory goes
 * through a small staging piece that it holds. A large one is cut into chunks that pass through the
 * ring of pieces of its direction: copying threads here move chunks between user memory and pieces,
 * the device moves them between pieces and the buffer, and each tells the other by counters
 * (piece_ready and stream_done). Chunks are numbered through all transfers of a direction, in
 * ticket order, so both sides agree on who uses which piece without talking. */
#include "base/error.h"
#include "client/backoff.h"
#include "client/client.h"
#include "wire/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* A short transfer is cut finer, so that several threads share it. */
#define SHORT_TRANSFER (UINT64_C(4) << 20)
#define SHORT_CHUNK    (UINT64_C(128) << 10)

/* Entries of a stream's log: one for each place of the mailbox, and as many again for transfers
 * that overtake each other between taking a place and a number. */
#define LOG_SIZE(device) (2 * (size_t)(device)->options.mailbox_size)

static struct trp__transfer_log *log_entry(trp_device *device, uint32_t stream, uint64_t number)
{
    return &device->stream[stream].log[number & (LOG_SIZE(device) - 1)];
}

static void set_payload(trp__record *record, uint32_t op, const trp__memory_payload *payload)
{
    record->op = op;
    memcpy(record->payload, payload, sizeof *payload);
}

/* The copying threads. */

static trp__slot *transfer_slot(trp_device *device, uint32_t index)
{
    return index == TRP__NO_SLOT ? NULL : &device->slot[index];
}

/* Whether the piece of this chunk may be touched now. */
static bool piece_free(const trp_device *device, uint32_t stream, uint64_t chunk)
{
    const trp__client_stream *s = &device->stream[stream];
    uint64_t done = atomic_load_explicit(&device->reply->timelines.stream_done[stream].value,
                                         memory_order_acquire);
    if (stream == TRP__LANE_DOWNLOAD)
        return done > chunk; /* the device has filled it */
    /* The device has read the piece's previous chunk, or nobody will. */
    return chunk < TRP__PIECES || chunk - TRP__PIECES < s->base || done > chunk - TRP__PIECES;
}

/* The next chunk that can be copied now, with its transfer; NULL if there is none. stream->lock is
 * held. */
static trp__slot *claim(trp_device *device, uint32_t stream, uint64_t *chunk)
{
    trp__client_stream *s = &device->stream[stream];
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

static void copy_chunk(trp_device *device, uint32_t stream, const trp__transfer *t, uint64_t chunk)
{
    uint64_t at = (chunk - t->first_chunk) * t->chunk_bytes;
    uint64_t length = t->bytes - at < t->chunk_bytes ? t->bytes - at : t->chunk_bytes;
    char *piece = device->staging + trp__piece_offset(stream, chunk);
    if (stream == TRP__LANE_UPLOAD)
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
    trp__client_stream *s = &device->stream[a.stream];
    free(argument);
    prctl(PR_SET_NAME, "troupe-copy");
    prctl(PR_SET_TIMERSLACK, 1000UL);
    trp__backoff backoff = trp__backoff_begin(TRP_FOREVER);

    pthread_mutex_lock(&s->lock);
    while (!atomic_load(&device->copier.stop)) {
        uint64_t chunk = 0;
        trp__slot *slot = claim(device, a.stream, &chunk);
        if (slot) {
            pthread_mutex_unlock(&s->lock);
            copy_chunk(device, a.stream, &slot->transfer, chunk);
            pthread_mutex_lock(&s->lock);
            slot->transfer.finished++;
            slot->transfer.active--;
            s->active--;
            backoff = trp__backoff_begin(TRP_FOREVER);
        } else if (s->first == TRP__NO_SLOT) {
            pthread_cond_wait(&s->work, &s->lock);
            backoff = trp__backoff_begin(TRP_FOREVER);
        } else {
            int64_t nap = 0;
            pthread_mutex_unlock(&s->lock);
            trp__backoff_step(&backoff, &nap);
            if (nap > 0)
                trp__sleep_ns(nap);
            pthread_mutex_lock(&s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static trp_status start_copiers(trp_device *device, uint32_t stream)
{
    trp__copier *copier = &device->copier;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t wanted = cores >= 2 * TRP__COPY_THREADS ? TRP__COPY_THREADS
                      : cores >= 4                   ? (uint32_t)cores / 2
                                                     : 1;
    pthread_mutex_lock(&copier->lock);
    while (copier->count[stream] < wanted) {
        copier_argument *argument = malloc(sizeof *argument);
        if (!argument)
            break;
        *argument = (copier_argument){.device = device, .stream = stream};
        if (pthread_create(&copier->thread[stream][copier->count[stream]], NULL, copier_main,
                           argument) != 0) {
            free(argument);
            break;
        }
        copier->count[stream]++;
    }
    bool ok = copier->count[stream] > 0; /* fewer than wanted are only slower */
    pthread_mutex_unlock(&copier->lock);
    return ok ? TRP_OK : trp__fail(TRP_E_SYSTEM, "no thread can be started for a large copy");
}

bool trp__streams_init(trp_device *device)
{
    bool ok = true;
    pthread_mutex_init(&device->copier.lock, NULL);
    for (int i = 0; i < TRP__STREAMS; i++) {
        trp__client_stream *s = &device->stream[i];
        pthread_mutex_init(&s->lock, NULL);
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
        trp__client_stream *s = &device->stream[i];
        pthread_mutex_lock(&s->lock);
        atomic_store(&device->copier.stop, true);
        pthread_cond_broadcast(&s->work);
        pthread_mutex_unlock(&s->lock);
        for (uint32_t k = 0; k < device->copier.count[i]; k++)
            pthread_join(device->copier.thread[i][k], NULL);
        pthread_mutex_destroy(&s->lock);
        pthread_cond_destroy(&s->work);
        free(s->log);
    }
    pthread_mutex_destroy(&device->copier.lock);
}

/* Gives a transfer its chunks, behind those of all others. stream->lock is held. */
static void append_transfer(trp_device *device, uint32_t stream, uint32_t index)
{
    trp__client_stream *s = &device->stream[stream];
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
    set_payload(&device->control->record[index], TRP__OP_MEMORY_STREAM,
                &(trp__memory_payload){.stream = stream,
                                       .first_chunk = t->first_chunk,
                                       .chunks = t->chunks,
                                       .chunk_bytes = t->chunk_bytes});
}

/* Whether a slot still holds the large read that was pending when its state was `state`; the read
 * stream's lock is held. If it does, it does for as long as the lock is held, since whoever ends
 * the read takes the lock before the slot is free. If not, the slot may be being filled anew, under
 * another lock. */
static bool still_pending(const trp__slot *slot, uint64_t state)
{
    return trp__phase_of(state) == TRP__PENDING &&
           ((atomic_load(&slot->state) ^ state) & ~TRP__WANTED) == 0;
}

/* Both of the following say yes of a read that is not pending any more: the caller will find that
 * it can't end it. */

/* Whether everything that the device has put into pieces has reached user memory. */
bool trp__transfer_drained(trp_device *device, trp__slot *slot, uint64_t pending)
{
    trp__client_stream *s = &device->stream[TRP__LANE_DOWNLOAD];
    pthread_mutex_lock(&s->lock);
    bool drained =
        !still_pending(slot, pending) || slot->transfer.finished == slot->transfer.chunks;
    pthread_mutex_unlock(&s->lock);
    return drained;
}

/* Whether the device says that it has filled all of a large read's pieces. */
bool trp__transfer_filled(trp_device *device, trp__slot *slot, uint64_t pending,
                          uint64_t stream_done)
{
    trp__client_stream *s = &device->stream[TRP__LANE_DOWNLOAD];
    pthread_mutex_lock(&s->lock);
    bool filled = !still_pending(slot, pending) ||
                  slot->transfer.first_chunk + slot->transfer.chunks <= stream_done;
    pthread_mutex_unlock(&s->lock);
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
    trp__client_stream *s = &device->stream[stream];
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
    trp__client_stream *s = &device->stream[stream];
    trp__transfer *t = &slot->transfer;
    pthread_mutex_lock(&s->lock);
    if (t->claimed < t->chunks) {
        t->claimed = t->chunks;
        unlink_transfer(device, s, slot);
    }
    while (t->active > 0) { /* a chunk takes well under a millisecond */
        pthread_mutex_unlock(&s->lock);
        trp__sleep_ns(TRP__NAP_MIN_NS);
        pthread_mutex_lock(&s->lock);
    }
    log_entry(device, stream, t->number)->ended = true;
    release_pieces(device, stream);
    pthread_mutex_unlock(&s->lock);
}

/* Takes all transfers off the list and waits until no thread is at one. stream->lock is held, and
 * given up for moments. */
static void stop_copying(trp_device *device, uint32_t stream)
{
    trp__client_stream *s = &device->stream[stream];
    for (;;) {
        s->first = s->last = TRP__NO_SLOT;
        if (s->active == 0)
            return;
        pthread_mutex_unlock(&s->lock);
        trp__sleep_ns(TRP__NAP_MIN_NS);
        pthread_mutex_lock(&s->lock);
    }
}

/* Requests that will run on the next worker begin their transfers again: the pieces, and what is in
 * them, belonged to the talk with the dead one. All get new chunks, in ticket order. */
void trp__transfers_restart(trp_device *device, uint32_t stream)
{
    trp__client_stream *s = &device->stream[stream];
    uint32_t count = 0;
    pthread_mutex_lock(&s->lock);
    stop_copying(device, stream);
    /* With the lock held no transfer can end. */
    for (uint32_t i = 0; i < atomic_load(&device->slots_used); i++) {
        const trp__slot *slot = &device->slot[i];
        if (trp__phase_of(atomic_load(&slot->state)) == TRP__PENDING &&
            atomic_load(&slot->stream) == (int)stream)
            device->pending[count++] = atomic_load(&slot->ticket) << TRP__SLOT_BITS | i;
    }
    qsort(device->pending, count, sizeof *device->pending, trp__by_ticket);
    for (uint64_t number = s->ended; number < s->next_number; number++)
        log_entry(device, stream, number)->ended = true;
    release_pieces(device, stream);
    for (uint32_t i = 0; i < count; i++)
        append_transfer(device, stream, (uint32_t)(device->pending[i] & (TRP__SLOTS - 1)));
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
}

/* Requests. */

typedef struct host_copy {
    trp_device *device;
    uint32_t lane; /* TRP__LANE_UPLOAD or _DOWNLOAD */
    char *user;
    uint64_t bytes;
} host_copy;

/* Queues the chunks behind those of earlier transfers and sends the request; one lock makes the two
 * orders the same. */
static trp_status send_stream(const host_copy *copy, trp__slot *slot, trp_completion *completion)
{
    trp_device *device = copy->device;
    trp_actor *actor = device->actor[copy->lane];
    trp__client_stream *s = &device->stream[copy->lane];
    trp__transfer *t = &slot->transfer;
    uint64_t chunk_bytes = copy->bytes <= SHORT_TRANSFER ? SHORT_CHUNK : TRP__PIECE_BYTES;
    uint64_t place = 0;
    trp_status status = start_copiers(device, copy->lane);
    if (status == TRP_OK)
        status = trp__mailbox_reserve(actor, 1, 0, &place);
    if (status != TRP_OK)
        return status;

    pthread_mutex_lock(&s->lock);
    *t = (trp__transfer){.user = copy->user,
                         .bytes = copy->bytes,
                         .chunks = (copy->bytes + chunk_bytes - 1) / chunk_bytes,
                         .chunk_bytes = chunk_bytes};
    append_transfer(device, copy->lane, slot->index);
    atomic_store_explicit(&slot->stream, (int)copy->lane, memory_order_relaxed);
    trp__sent sent = trp__slot_publish(actor, slot, place, completion);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    trp__slot_published(device, &sent);
    return TRP_OK;
}

/* Gives a slot a small piece; waits for one up to wait_ns. */
static bool take_piece(trp_device *device, trp__slot *slot, int64_t wait_ns)
{
    trp__backoff backoff = trp__backoff_begin(wait_ns);
    for (bool swept = false;; swept = true) {
        int64_t nap = 0;
        slot->piece = trp__index_pop(&device->free_pieces, device->piece_next, sizeof(uint32_t));
        if (slot->piece != TRP__NO_PIECE)
            return true;
        if (swept && !trp__backoff_step(&backoff, &nap))
            return false;
        trp__sweep_device(device);
        if (nap > 0)
            trp__nap(nap);
    }
}

/* As a pack's result(). What the request writes there travels on as a small read does. */
trp_status trp__result_reserve(trp__pack *pack, void *target, uint32_t bytes, int64_t wait_ns)
{
    trp__slot *slot = pack->context;
    trp_device *device = trp__device_by_tag(slot->item.device_tag);
    if (bytes > TRP__SMALL_BYTES || slot->piece != TRP__NO_PIECE)
        return trp__error_set(pack->error, TRP_E_INTERNAL, "a result of %u bytes", bytes);
    if (!take_piece(device, slot, wait_ns))
        return trp__error_set(pack->error, TRP_E_BUSY, "%d small copies and results are under way",
                              TRP__SMALL_COUNT);
    memset(device->staging + trp__small_offset(slot->piece), 0, bytes);
    slot->read_target = target;
    slot->read_bytes = bytes;
    pack->record->piece = slot->piece + 1;
    pack->record->piece_bytes = bytes;
    return TRP_OK;
}

/* As a pack's input(). */
trp_status trp__input_reserve(trp__pack *pack, uint32_t bytes, int64_t wait_ns, void **room)
{
    const trp__slot *slot = pack->context;
    trp_device *device = trp__device_by_tag(slot->item.device_tag);
    trp_status status = trp__result_reserve(pack, NULL, bytes, wait_ns);
    if (status == TRP_OK)
        *room = device->staging + trp__small_offset(slot->piece);
    return status;
}

/* As a pack's exchange(). */
trp_status trp__exchange_reserve(trp__pack *pack, void *target, uint32_t result_bytes,
                                 uint32_t bytes, int64_t wait_ns, void **room)
{
    trp__slot *slot = pack->context;
    trp_status status = trp__input_reserve(pack, bytes, wait_ns, room);
    if (status == TRP_OK) {
        slot->read_target = target;
        slot->read_bytes = result_bytes;
    }
    return status;
}

static trp_status send_small(const host_copy *copy, trp__slot *slot, trp__record *record,
                             trp_completion *completion)
{
    trp_device *device = copy->device;
    bool upload = copy->lane == TRP__LANE_UPLOAD;
    if (!take_piece(device, slot, 0))
        return trp__fail(TRP_E_BUSY, "%d small copies and results are under way", TRP__SMALL_COUNT);
    uint64_t offset = trp__small_offset(slot->piece);
    if (upload && copy->bytes > 0) {
        memcpy(device->staging + offset, copy->user, copy->bytes);
    } else if (!upload) {
        slot->read_target = copy->user;
        slot->read_bytes = copy->bytes;
    }
    set_payload(record, upload ? TRP__OP_MEMORY_UPLOAD : TRP__OP_MEMORY_DOWNLOAD,
                &(trp__memory_payload){.segment = 0, .host_offset = offset});
    return trp__slot_send(device->actor[copy->lane], slot, 0, completion);
}

static trp_status send_direct(const host_copy *copy, trp__slot *slot, trp__record *record,
                              uint64_t offset, trp_completion *completion)
{
    bool upload = copy->lane == TRP__LANE_UPLOAD;
    set_payload(record, upload ? TRP__OP_MEMORY_UPLOAD : TRP__OP_MEMORY_DOWNLOAD,
                &(trp__memory_payload){.segment = slot->segment, .host_offset = offset});
    return trp__slot_send(copy->device->actor[copy->lane], slot, 0, completion);
}

static trp_status copy_host(const host_copy *copy, trp_buffer buffer, uint64_t offset,
                            const char *user_name, trp_completion *completion)
{
    trp_device *device = copy->device;
    trp_status status = trp__device_usable(device);
    if (status != TRP_OK)
        return status;
    if (!copy->user && copy->bytes > 0)
        return trp__fail(TRP_E_ARGUMENT, "%s: expected a pointer, got NULL", user_name);
    trp__record *record;
    trp__slot *slot = trp__slot_begin(device, 0, &record);
    if (!slot)
        return TRP_E_BUSY;
    trp_error error = {0};
    trp__pack pack = trp__pack_begin(device, slot, &error);
    status = trp__pack_access(&pack, "buffer", buffer, offset, copy->bytes, 1,
                              copy->lane == TRP__LANE_UPLOAD ? TRP__WRITE | TRP__COVER : TRP__READ);
    if (status == TRP_OK) {
        uint64_t segment_offset = 0;
        if (trp__segment_find(device, copy->user, copy->bytes, &slot->segment, &segment_offset))
            status = send_direct(copy, slot, record, segment_offset, completion);
        else if (copy->bytes <= TRP__SMALL_BYTES)
            status = send_small(copy, slot, record, completion);
        else
            status = send_stream(copy, slot, completion);
    }
    return trp__slot_conclude(device, slot, status, &error);
}

trp_status trp_write(trp_device *device, trp_buffer buffer, uint64_t offset, const void *source,
                     uint64_t bytes, trp_completion *completion)
{
    /* The pointer is only read through when the lane is an upload. */
    union {
        const void *in;
        char *out;
    } user = {.in = source};
    host_copy copy = {.device = device, .lane = TRP__LANE_UPLOAD, .user = user.out, .bytes = bytes};
    return copy_host(&copy, buffer, offset, "source", completion);
}

trp_status trp_read(trp_device *device, trp_buffer buffer, uint64_t offset, void *target,
                    uint64_t bytes, trp_completion *completion)
{
    host_copy copy = {.device = device, .lane = TRP__LANE_DOWNLOAD, .user = target, .bytes = bytes};
    return copy_host(&copy, buffer, offset, "target", completion);
}

static trp_status pack_copy(trp__pack *pack, trp_buffer source, uint64_t source_offset,
                            trp_buffer target, uint64_t target_offset, uint64_t bytes)
{
    trp_status status =
        trp__pack_access(pack, "source", source, source_offset, bytes, 1, TRP__READ);
    if (status == TRP_OK)
        status = trp__pack_access(pack, "target", target, target_offset, bytes, 1,
                                  TRP__WRITE | TRP__COVER);
    if (status == TRP_OK && source.id == target.id && source_offset < target_offset + bytes &&
        target_offset < source_offset + bytes)
        status = trp__error_set(pack->error, TRP_E_ARGUMENT,
                                "target_offset: the ranges at %llu and %llu of one buffer overlap "
                                "in %llu bytes",
                                (unsigned long long)source_offset,
                                (unsigned long long)target_offset, (unsigned long long)bytes);
    return status;
}

trp_status trp_copy(trp_device *device, trp_buffer source, uint64_t source_offset,
                    trp_buffer target, uint64_t target_offset, uint64_t bytes,
                    trp_completion *completion)
{
    trp_status status = trp__device_usable(device);
    if (status != TRP_OK)
        return status;
    trp__record *record;
    trp__slot *slot = trp__slot_begin(device, 0, &record);
    if (!slot)
        return TRP_E_BUSY;
    trp_error error = {0};
    trp__pack pack = trp__pack_begin(device, slot, &error);
    set_payload(record, TRP__OP_MEMORY_COPY, &(trp__memory_payload){0});
    status = pack_copy(&pack, source, source_offset, target, target_offset, bytes);
    if (status == TRP_OK)
        status = trp__slot_send(device->actor[TRP__LANE_LOCAL], slot, 0, completion);
    return trp__slot_conclude(device, slot, status, &error);
}

trp_status trp_fill(trp_device *device, trp_buffer buffer, uint64_t offset, uint64_t bytes,
                    uint32_t pattern, uint32_t width, trp_completion *completion)
{
    trp_status status = trp__device_usable(device);
    if (status != TRP_OK)
        return status;
    if (width != 1 && width != 2 && width != 4)
        return trp__fail(TRP_E_ARGUMENT, "width: expected 1, 2 or 4, got %u", width);
    if (offset % width != 0 || bytes % width != 0)
        return trp__fail(TRP_E_ARGUMENT, "%s: expected a multiple of width %u, got %llu",
                         offset % width ? "offset" : "bytes", width,
                         (unsigned long long)(offset % width ? offset : bytes));
    trp__record *record;
    trp__slot *slot = trp__slot_begin(device, 0, &record);
    if (!slot)
        return TRP_E_BUSY;
    trp_error error = {0};
    trp__pack pack = trp__pack_begin(device, slot, &error);
    set_payload(record, TRP__OP_MEMORY_FILL,
                &(trp__memory_payload){.pattern = pattern, .width = width});
    status = trp__pack_access(&pack, "buffer", buffer, offset, bytes, 1, TRP__WRITE | TRP__COVER);
    if (status == TRP_OK)
        status = trp__slot_send(device->actor[TRP__LANE_LOCAL], slot, 0, completion);
    return trp__slot_conclude(device, slot, status, &error);
}

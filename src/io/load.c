/* Loads elements into host memory, or through pinned memory into buffers.
 *
 * Work is a list of parts, one for each array. A part of a plain file is divided into pieces, which
 * the threads of a call take in order; a member of an archive is one piece, since it can only be
 * read from its beginning. Each thread has two slots of pinned memory: it fills one while the
 * device copies the other. Pinning takes 0.7 ms/MiB, and the system pins for one thread at a time;
 * so each thread pins its own slots while the threads before it already load. The device keeps the
 * pinned memory for the next load.
 *
 * The file is read, not mapped: if another process truncates it, reading fails with an error, where
 * a mapping raises SIGBUS. */
#include "io/file.h"

#include "base/os/cpu.h"
#include "base/os/thread.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 2 << 20, /* a copy to a GPU takes 40 us, sending its request 8 us */
    SLOTS = 2,
    THREADS_DEFAULT = 12, /* a thread reads 4 to 5 GB/s, a GPU accepts 55 GB/s */
    PINNED_LEAST = 1 << 20,
    ALIGNMENT = 256
};

/* The destination of one array: host memory or a buffer. */
typedef struct part {
    const trp__io_entry *entry;
    void *target;
    trp_buffer buffer;
    uint64_t offset;
} part;

typedef struct load {
    const trp_io_file *file;
    trp_device *device; /* NULL: to host memory */
    const part *parts;
    uint64_t count, total;
    const trp_io_options *options;
    uint64_t piece;
    bool pinned; /* whether the slots are; pinning for less than PINNED_LEAST takes longer than it
                    saves */

    pthread_mutex_t lock;
    uint64_t next_part, next_at; /* the next piece to take: part, and offset in it */
    uint64_t done;
    bool stop;
    trp_error error; /* the first one */
} load;

typedef struct slot {
    unsigned char *memory;
    trp_future future;
} slot;

typedef struct worker {
    load *load;
    void *staging; /* memory of the slots; NULL: none */
    slot slot[SLOTS];
    uint32_t turn;
} worker;

/* Ends the load with the first error. */
static void give_up(load *l, const trp_error *error)
{
    pthread_mutex_lock(&l->lock);
    if (!l->stop)
        l->error = *error;
    l->stop = true;
    pthread_mutex_unlock(&l->lock);
}

static void name_error(const load *l, const part *p, trp_error *error)
{
    char text[sizeof error->message];
    if (*p->entry->name != '\0') {
        trp__copy_string(text, sizeof text, error->message);
        snprintf(error->message, sizeof error->message, "'%s': %.180s",
                 trp__io_quote_name(p->entry->name).text, text);
    }
    trp__io_prefix(error, l->file->path);
}

/* A piece of a part. */
typedef struct piece {
    const part *part;
    uint64_t at, bytes;
} piece;

static bool take_piece(load *l, piece *out)
{
    bool taken = false;
    pthread_mutex_lock(&l->lock);
    while (!l->stop && !taken && l->next_part < l->count) {
        const part *p = &l->parts[l->next_part];
        const uint64_t left = p->entry->bytes - l->next_at;
        const bool whole = l->file->format == TRP_IO_NPZ || left <= l->piece;
        *out = (piece){p, l->next_at, whole ? left : l->piece};
        taken = left > 0;
        l->next_at = whole ? 0 : l->next_at + out->bytes;
        l->next_part += whole;
    }
    pthread_mutex_unlock(&l->lock);
    return taken;
}

static bool is_stopped(load *l)
{
    pthread_mutex_lock(&l->lock);
    const bool stop = l->stop;
    pthread_mutex_unlock(&l->lock);
    return stop;
}

/* Counts bytes that were read; the caller's thread reports the progress. */
static void advance(worker *w, uint64_t bytes, bool reports)
{
    load *l = w->load;
    trp_error error;
    pthread_mutex_lock(&l->lock);
    const uint64_t done = l->done += bytes;
    pthread_mutex_unlock(&l->lock);
    if (!reports || !l->options->progress || done == l->total ||
        l->options->progress(l->options->user_data, done, l->total))
        return;
    trp__error_set(&error, TRP_E_CANCELLED,
                   "stopped by the progress callback after %" PRIu64 " of %" PRIu64 " bytes", done,
                   l->total);
    give_up(l, &error);
}

/* Slots. */

static trp_status end_slot(slot *s, trp_error *error)
{
    trp_status status = TRP_OK;
    if (s->future.id != 0)
        status = trp_await(s->future, TRP_FOREVER, error);
    s->future.id = 0;
    return status;
}

static trp_status send_slot(worker *w, slot *s, const part *p, uint64_t at, uint64_t bytes,
                            trp_error *error)
{
    trp_completion done = {0};
    trp_status status =
        trp_write(w->load->device, p->buffer, p->offset + at, s->memory, bytes, &done);
    if (status != TRP_OK)
        *error = *trp_error_last();
    s->future = done.future;
    return status;
}

/* Reads `bytes` bytes from a stream or from the file into their destination. */
static trp_status move(worker *w, trp__io_stream *stream, const part *p, uint64_t at,
                       uint64_t bytes, trp_error *error)
{
    load *l = w->load;
    slot *s = &w->slot[w->turn++ % SLOTS];
    trp_status status = end_slot(s, error);
    void *to = l->device ? s->memory : (unsigned char *)p->target + at;
    if (status != TRP_OK)
        return status;
    if (stream)
        status = trp__io_stream_read(stream, to, bytes, error);
    else
        status = trp__io_pread(l->file->fd, p->entry->offset + at, to, bytes, "data", error);
    if (status == TRP_OK && l->device)
        status = send_slot(w, s, p, at, bytes, error);
    return status;
}

static trp_status move_member(worker *w, const part *p, bool reports, trp_error *error)
{
    load *l = w->load;
    trp__io_stream *stream;
    unsigned char skipped[256];
    trp_status status = trp__io_stream_open(l->file, &p->entry->member, &stream, error);
    for (uint64_t at = 0, n; status == TRP_OK && at < p->entry->offset; at += n) {
        n = p->entry->offset - at < sizeof skipped ? p->entry->offset - at : sizeof skipped;
        status = trp__io_stream_read(stream, skipped, n, error);
    }
    for (uint64_t at = 0, n; status == TRP_OK && at < p->entry->bytes && !is_stopped(l); at += n) {
        n = p->entry->bytes - at < l->piece ? p->entry->bytes - at : l->piece;
        status = move(w, stream, p, at, n, error);
        if (status == TRP_OK)
            advance(w, n, reports);
    }
    trp__io_stream_close(stream);
    return status;
}

static void run_worker(worker *w, bool reports)
{
    load *l = w->load;
    trp_error error = {0};
    piece taken;
    while (take_piece(l, &taken)) {
        trp_status status;
        if (l->file->format == TRP_IO_NPZ) {
            status = move_member(w, taken.part, reports, &error);
        } else {
            status = move(w, NULL, taken.part, taken.at, taken.bytes, &error);
            if (status == TRP_OK)
                advance(w, taken.bytes, reports);
        }
        if (status != TRP_OK) {
            name_error(l, taken.part, &error);
            give_up(l, &error);
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        if (end_slot(&w->slot[i], &error) != TRP_OK)
            give_up(l, &error);
    }
}

/* Allocates the slots of a thread. */
static trp_status begin_worker(worker *w, load *l)
{
    const uint64_t bytes = SLOTS * l->piece;
    trp_status status = TRP_OK;
    *w = (worker){.load = l};
    if (l->device && l->pinned)
        status = trp_host_alloc(l->device, bytes, &w->staging);
    else if (l->device && !(w->staging = malloc(bytes)))
        status = trp__fail(TRP_E_MEMORY, "no memory for %" PRIu64 " bytes of staging", bytes);
    for (uint32_t i = 0; w->staging && i < SLOTS; i++)
        w->slot[i].memory = (unsigned char *)w->staging + i * l->piece;
    return status;
}

static void end_worker(worker *w)
{
    if (w->load->pinned && w->staging)
        trp_host_free(w->load->device, w->staging);
    else
        free(w->staging);
}

/* A thread that gets no memory ends, and the others do the work. */
static void *worker_main(void *argument)
{
    worker w;
    if (begin_worker(&w, argument) == TRP_OK)
        run_worker(&w, false);
    end_worker(&w);
    return NULL;
}

/* Runs the load in the calling thread and threads - 1 others. A thread that fails to start is left
 * out. */
static trp_status run_threads(load *l, uint32_t threads)
{
    pthread_t thread[TRP_IO_THREADS_MAX];
    uint32_t started = 0;
    worker w;
    trp_status status = begin_worker(&w, l);
    while (status == TRP_OK && started + 1 < threads &&
           trp__thread_start(&thread[started], TRP__SIGNALS_BLOCKED, worker_main, l) == 0)
        started++;
    if (status == TRP_OK)
        run_worker(&w, true);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    end_worker(&w);
    return status;
}

/* Returns the number of threads: as chosen, but no more than there are pieces. */
static uint32_t thread_count(const load *l)
{
    uint64_t pieces = 0, threads = l->options->threads;
    for (uint64_t i = 0; i < l->count && pieces < TRP_IO_THREADS_MAX; i++)
        pieces += l->file->format == TRP_IO_NPZ ? 1 : l->parts[i].entry->bytes / l->piece + 1;
    if (threads == 0) {
        const unsigned processors = trp__cpu_count();
        threads = processors < THREADS_DEFAULT ? processors : THREADS_DEFAULT;
    }
    return (uint32_t)(threads < pieces ? threads : pieces);
}

static trp_status run_load(load *l)
{
    const trp_io_options *o = l->options;
    uint64_t largest = 1;
    trp_status status = TRP_OK;
    for (uint64_t i = 0; i < l->count; i++) {
        assert(l->parts[i].entry);
        l->total += l->parts[i].entry->bytes;
        largest = l->parts[i].entry->bytes > largest ? l->parts[i].entry->bytes : largest;
    }
    l->piece = largest < PIECE ? largest : PIECE;
    l->pinned = l->device && l->total >= PINNED_LEAST;
    if (l->total > 0)
        status = run_threads(l, thread_count(l));
    if (status != TRP_OK)
        return status;
    if (!l->stop && o->progress && !o->progress(o->user_data, l->total, l->total))
        trp__error_set(&l->error, TRP_E_CANCELLED, "stopped by the progress callback at the end");
    return l->error.status == TRP_OK ? TRP_OK : trp__error_raise(&l->error);
}

static trp_status load_parts(const trp_io_file *file, trp_device *device, const part *parts,
                             uint64_t count, const trp_io_options *options)
{
    static const trp_io_options none = {0};
    load l = {.file = file,
              .device = device,
              .parts = parts,
              .count = count,
              .options = options ? options : &none,
              .lock = PTHREAD_MUTEX_INITIALIZER};
    const int state = trp__io_cancel_disable();
    trp_status status = run_load(&l);
    trp__io_cancel_restore(state);
    pthread_mutex_destroy(&l.lock);
    return status;
}

/* Checks. */

static trp_status check_options(const trp_io_options *o)
{
    if (o && !trp__io_is_zero(o->reserved))
        return trp__fail(TRP_E_ARGUMENT, "options->reserved must be 0");
    if (o && o->threads > TRP_IO_THREADS_MAX)
        return trp__fail(TRP_E_ARGUMENT, "options->threads is %u: expected at most %d", o->threads,
                         TRP_IO_THREADS_MAX);
    return TRP_OK;
}

/* Returns an entry that can be read, or NULL with the thread's last error set. */
static const trp__io_entry *find_entry(const trp_io_file *file, uint64_t index, const char *what)
{
    trp_error error;
    if (index >= file->count) {
        trp__fail(TRP_E_ARGUMENT, "%s is %" PRIu64 ": the file has %" PRIu64 " arrays", what, index,
                  file->count);
        return NULL;
    }
    const trp__io_entry *e = &file->entry[index];
    if (!e->refusal)
        return e;
    trp__error_set(&error, TRP_E_UNSUPPORTED, "array '%s': %.180s",
                   trp__io_quote_name(e->name).text, e->refusal);
    trp__io_prefix(&error, file->path);
    trp__error_raise(&error);
    return NULL;
}

/* Returns the status of the call that has just failed. */
static trp_status last_status(void)
{
    const trp_status status = trp_error_last()->status;
    return status != TRP_OK ? status : TRP_E_INTERNAL;
}

trp_status trp_io_read(const trp_io_file *file, uint64_t index, void *target, uint64_t bytes,
                       const trp_io_options *options)
{
    part p = {.target = target};
    if (!file)
        return trp__fail(TRP_E_ARGUMENT, "file must not be NULL");
    trp_status status = check_options(options);
    if (status != TRP_OK)
        return status;
    p.entry = find_entry(file, index, "index");
    if (!p.entry)
        return last_status();
    if (bytes != p.entry->bytes)
        return trp__fail(TRP_E_ARGUMENT, "bytes is %" PRIu64 ": array '%s' has %" PRIu64, bytes,
                         trp__io_quote_name(p.entry->name).text, p.entry->bytes);
    if (!target && bytes > 0)
        return trp__fail(TRP_E_ARGUMENT, "target must not be NULL for %" PRIu64 " bytes", bytes);
    return load_parts(file, NULL, &p, 1, options);
}

/* Checks one part. All parts are checked before any buffer is written. */
static trp_status check_part(const trp_io_file *file, trp_device *device, const trp_io_part *from,
                             uint64_t number, part *to)
{
    trp_buffer_info info;
    char what[64];
    snprintf(what, sizeof what, "parts[%" PRIu64 "].index", number);
    to->entry = find_entry(file, from->index, what);
    if (!to->entry)
        return last_status();
    if (to->entry->bytes == 0)
        return TRP_OK;
    trp_status status = trp_buffer_get_info(device, from->buffer, &info);
    if (status != TRP_OK)
        return status;
    if (from->offset > info.bytes || to->entry->bytes > info.bytes - from->offset)
        return trp__fail(TRP_E_ARGUMENT,
                         "parts[%" PRIu64 "]: array '%s' of %" PRIu64 " bytes at offset %" PRIu64
                         " does not fit into its buffer of %" PRIu64,
                         number, trp__io_quote_name(to->entry->name).text, to->entry->bytes,
                         from->offset, info.bytes);
    if (info.sealed)
        return trp__fail(TRP_E_ARGUMENT, "parts[%" PRIu64 "]: the buffer is sealed", number);
    to->buffer = from->buffer;
    to->offset = from->offset;
    return TRP_OK;
}

static part *new_list(uint64_t count)
{
    part *list = count < SIZE_MAX / sizeof *list ? calloc((size_t)count + 1, sizeof *list) : NULL;
    if (!list)
        trp__fail(TRP_E_MEMORY, "no memory for a list of %" PRIu64 " arrays", count);
    return list;
}

trp_status trp_io_load(const trp_io_file *file, trp_device *device, const trp_io_part *parts,
                       uint64_t count, const trp_io_options *options)
{
    if (!file || !device || (!parts && count > 0))
        return trp__fail(TRP_E_ARGUMENT, "%s must not be NULL",
                         !file     ? "file"
                         : !device ? "device"
                                   : "parts");
    trp_status status = check_options(options);
    if (status != TRP_OK)
        return status;
    part *list = new_list(count);
    if (!list)
        return TRP_E_MEMORY;
    for (uint64_t i = 0; status == TRP_OK && i < count; i++)
        status = check_part(file, device, &parts[i], i, &list[i]);
    if (status == TRP_OK)
        status = load_parts(file, device, list, count, options);
    free(list);
    return status;
}

/* Assigns offsets to the arrays, one after another; *bytes is their total size. */
static trp_status place_arrays(const trp_io_file *file, const uint64_t *index, uint64_t count,
                               part *list, uint64_t *offsets, uint64_t *bytes)
{
    char what[48];
    *bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        snprintf(what, sizeof what, "index[%" PRIu64 "]", i);
        list[i].entry = find_entry(file, index ? index[i] : i, what);
        if (!list[i].entry)
            return last_status();
        list[i].offset = offsets[i] = *bytes;
        if (__builtin_add_overflow(*bytes, list[i].entry->bytes, bytes) ||
            __builtin_add_overflow(*bytes, (uint64_t)ALIGNMENT - 1, bytes))
            return trp__fail(TRP_E_ARGUMENT, "the arrays are too large for any memory");
        *bytes -= *bytes % ALIGNMENT;
    }
    if (*bytes == 0)
        return trp__fail(TRP_E_ARGUMENT,
                         "none of the %" PRIu64 " arrays has an element: expected one at least",
                         count);
    return TRP_OK;
}

static trp_status load_into_new(const trp_io_file *file, trp_device *device, part *list,
                                uint64_t count, uint64_t bytes, const trp_io_options *options,
                                trp_buffer *out)
{
    trp_buffer_options how = {.bytes = bytes, .sealable = true};
    trp_buffer made;
    trp_status status = trp_buffer_create_with(device, &how, &made);
    if (status != TRP_OK)
        return status;
    for (uint64_t i = 0; i < count; i++)
        list[i].buffer = made;
    status = load_parts(file, device, list, count, options);
    if (status == TRP_OK)
        status = trp_buffer_seal(device, made, TRP_FOREVER);
    if (status != TRP_OK) {
        const trp_error error = *trp_error_last();
        trp_buffer_free(device, made);
        return trp__error_raise(&error);
    }
    *out = made;
    return TRP_OK;
}

trp_status trp_io_load_sealed(const trp_io_file *file, trp_device *device, const uint64_t *index,
                              uint64_t count, const trp_io_options *options, trp_buffer *out,
                              uint64_t *offsets)
{
    uint64_t bytes;
    if (!file || !device || !out || (!offsets && count > 0))
        return trp__fail(TRP_E_ARGUMENT, "%s must not be NULL",
                         !file     ? "file"
                         : !device ? "device"
                         : !out    ? "out"
                                   : "offsets");
    out->id = 0;
    if (!index && count != file->count)
        return trp__fail(TRP_E_ARGUMENT,
                         "count is %" PRIu64 ": without an index all %" PRIu64
                         " arrays of the file are loaded",
                         count, file->count);
    trp_status status = check_options(options);
    if (status != TRP_OK)
        return status;
    part *list = new_list(count);
    if (!list)
        return TRP_E_MEMORY;
    status = place_arrays(file, index, count, list, offsets, &bytes);
    if (status == TRP_OK)
        status = load_into_new(file, device, list, count, bytes, options, out);
    free(list);
    return status;
}

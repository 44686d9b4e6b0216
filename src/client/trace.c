/* Tracing, the recording side.
 *
 * Three times belong to a request. Its sender notes when it was sent, in its slot. The worker notes
 * in the reply block when it has issued it, and, for each actor, how far the timeline had come at
 * what time: a short log. Whoever ends the request puts the three together into a ring. No thread
 * waits for another: a place in the ring is taken by an addition, and one that is still being
 * written when the ring has come round is passed over. */
#include "client/trace.h"

#include "base/error.h"
#include "base/text.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_EVENTS UINT32_C(65536)
#define MAX_EVENTS     (UINT32_C(1) << 22)
#define PATH_ROOM      16 /* ".2" and so on */

bool trp__trace_create(trp_device *device)
{
    device->trace = calloc(1, sizeof *device->trace);
    if (device->trace)
        pthread_mutex_init(&device->trace->lock, NULL);
    return device->trace != NULL;
}

void trp__trace_destroy(trp_device *device)
{
    if (!device->trace)
        return;
    pthread_mutex_destroy(&device->trace->lock);
    free(device->trace->ring);
    free(device->trace->path);
    free(device->trace);
}

/* Recording. */

/* When the worker has seen that a timeline had come to `ticket`; `now` if it has not. The log holds
 * growing tickets. An end that has left the log was seen before the oldest that is there. */
static int64_t seen_done(const trp__progress *log, uint64_t ticket, int64_t now)
{
    uint64_t count = atomic_load_explicit(&log->count, memory_order_acquire);
    uint64_t low = count >= TRP__PROGRESS ? count - TRP__PROGRESS + 1 : 0, high = count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const trp__stamp *stamp = &log->stamp[middle % TRP__PROGRESS];
        if (atomic_load_explicit(&stamp->ticket, memory_order_acquire) < ticket)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == count)
        return now;
    int64_t ns = atomic_load_explicit(&log->stamp[low % TRP__PROGRESS].ns, memory_order_acquire);
    /* The writer may have come round to this place while it was read. */
    bool whole = atomic_load_explicit(&log->count, memory_order_acquire) < low + TRP__PROGRESS;
    return whole ? ns : now;
}

static int64_t issued_at(const trp_device *device, uint32_t slot, uint64_t ticket)
{
    const trp__stamp *stamp = &device->reply->issue_stamp[slot];
    if (atomic_load_explicit(&stamp->ticket, memory_order_acquire) != ticket)
        return 0;
    return atomic_load_explicit(&stamp->ns, memory_order_relaxed);
}

/* The worker may write any time there is: each lies between the one before and now. */
static int64_t within(int64_t time, int64_t from, int64_t to)
{
    return time < from ? from : time > to ? to : time;
}

static trp__trace_event *take_place(trp__trace *t)
{
    uint64_t number = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed);
    trp__trace_event *e = &t->ring[number & (t->capacity - 1)];
    if (!atomic_exchange_explicit(&e->busy, true, memory_order_acquire))
        return e;
    atomic_fetch_add_explicit(&t->skipped, 1, memory_order_relaxed);
    return NULL;
}

static void record_event(trp_device *device, const trp__slot *slot, const trp__record *record,
                         bool by_timeline, bool interrupted)
{
    trp__trace *t = device->trace;
    uint64_t ticket = atomic_load_explicit(&slot->ticket, memory_order_relaxed);
    uint32_t actor = atomic_load_explicit(&slot->actor, memory_order_relaxed) % TRP__ACTORS;
    const trp_actor *a = atomic_load_explicit(&device->actor[actor], memory_order_relaxed);
    int64_t now = trp__now_ns();
    int64_t issued = issued_at(device, slot->index, ticket);
    if (slot->sent_ns == 0 && issued == 0)
        return; /* from before the trace */
    trp__trace_event *e = take_place(t);
    if (!e)
        return;
    e->ticket = ticket;
    e->actor = (uint16_t)actor;
    e->interrupted = interrupted;
    e->by_timeline = by_timeline;
    e->status = (int16_t)(interrupted ? TRP_OK : slot->status);
    e->incarnation = atomic_load_explicit(&device->incarnation, memory_order_relaxed);
    e->attempt = slot->deaths + !(interrupted || slot->status == TRP_E_FAULT);
    e->sent = slot->sent_ns;
    e->issued = issued ? within(issued, e->sent, now) : 0;
    e->done = by_timeline ? seen_done(&device->reply->progress[actor], ticket, now) : now;
    e->done = within(e->done, e->issued ? e->issued : e->sent, now);
    trp__op_name(a ? a->class : NULL, record->op, e->op, sizeof e->op);
    trp__copy_string(e->name, sizeof e->name, a ? a->name : "");
    atomic_store_explicit(&e->busy, false, memory_order_release);
}

/* recording is read after the slot became RETIRING: stop_recording() waits for such slots. */
void trp__trace_ended(trp_device *device, const trp__slot *slot, const trp__record *record,
                      bool by_timeline)
{
    if (atomic_load(&device->trace->recording))
        record_event(device, slot, record, by_timeline, false);
    else
        atomic_fetch_add(&device->trace->skipped, 1);
}

void trp__trace_interrupted(trp_device *device, trp__slot *slot, const trp__record *record)
{
    trp__trace *t = device->trace;
    pthread_mutex_lock(&t->lock);
    if (atomic_load(&t->recording)) {
        record_event(device, slot, record, false, true);
        slot->sent_ns = trp__now_ns(); /* it is queued anew from here on */
    }
    pthread_mutex_unlock(&t->lock);
}

void trp__trace_mark_now(trp_device *device, const char *name, uint32_t incarnation,
                         const char *format, ...)
{
    trp__trace *t = device->trace;
    pthread_mutex_lock(&t->lock);
    if (atomic_load(&t->recording)) {
        trp__trace_mark *m = &t->mark[t->marks++ % TRP__TRACE_MARKS];
        m->time = trp__now_ns();
        m->incarnation = incarnation;
        trp__copy_string(m->name, sizeof m->name, name);
        va_list args;
        va_start(args, format);
        vsnprintf(m->text, sizeof m->text, format, args);
        va_end(args);
    }
    pthread_mutex_unlock(&t->lock);
}

/* Starting and stopping; t->lock is held. */

/* Makes the ring rest: nobody begins to write an event, and those who were at it are done. A slot
 * that becomes RETIRING after it was looked at sees that nothing is recorded. */
static void stop_recording(trp_device *device)
{
    atomic_store(&device->trace->recording, false);
    for (uint32_t i = 0; i < atomic_load(&device->slots_used); i++) {
        while (trp__phase_of(atomic_load(&device->slot[i].state)) == TRP__RETIRING)
            sched_yield();
    }
}

static trp_status make_ring(trp__trace *t, uint64_t capacity)
{
    if (t->capacity != capacity) {
        free(t->ring);
        t->capacity = 0;
        t->ring = malloc(sizeof *t->ring * capacity);
        if (!t->ring)
            return trp__fail(TRP_E_MEMORY, "no memory for a trace of %llu events",
                             (unsigned long long)capacity);
    }
    /* Here, so that no request pays for the first touch of a page. */
    memset(t->ring, 0, sizeof *t->ring * capacity);
    t->capacity = capacity;
    return TRP_OK;
}

trp_status trp_device_trace_start(trp_device *device, const trp_trace_options *options)
{
    trp_status status = trp__device_usable(device);
    if (status == TRP_E_FORKED || status == TRP_E_ARGUMENT)
        return status;
    uint32_t wish = options && options->events ? options->events : DEFAULT_EVENTS;
    if (wish > MAX_EVENTS)
        return trp__fail(TRP_E_ARGUMENT, "events: expected at most %u, got %u", MAX_EVENTS, wish);
    uint64_t capacity = 1;
    while (capacity < wish)
        capacity *= 2;

    trp__trace *t = device->trace;
    pthread_mutex_lock(&t->lock);
    atomic_store(&device->control->tracing, 0);
    stop_recording(device);
    status = make_ring(t, capacity);
    atomic_store(&t->next, 0);
    atomic_store(&t->skipped, 0);
    t->marks = 0;
    if (status == TRP_OK) {
        atomic_store(&t->recording, true);
        atomic_store(&device->control->tracing, 1);
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

trp_status trp_device_trace_stop(trp_device *device)
{
    trp_status status = trp__device_usable(device);
    if (status == TRP_E_FORKED || status == TRP_E_ARGUMENT)
        return status;
    trp__sweep_device(device); /* what is over and was not seen to end yet belongs to the trace */
    pthread_mutex_lock(&device->trace->lock);
    atomic_store(&device->control->tracing, 0);
    stop_recording(device);
    pthread_mutex_unlock(&device->trace->lock);
    return TRP_OK;
}

/* Writing. */

/* Copies the ring, which rests meanwhile. */
static trp_status copy_ring(trp_device *device, trp__trace_content *c, trp__trace_mark **marks,
                            trp_error *error)
{
    trp__trace *t = device->trace;
    bool running = atomic_load(&t->recording);
    stop_recording(device);
    uint64_t next = atomic_load(&t->next);
    c->count = next < t->capacity ? next : t->capacity;
    c->marks = t->marks < TRP__TRACE_MARKS ? t->marks : TRP__TRACE_MARKS;
    c->dropped = next - c->count + atomic_load(&t->skipped);
    c->event = malloc(sizeof *c->event * (c->count ? c->count : 1));
    *marks = malloc(sizeof **marks * (c->marks ? c->marks : 1));
    bool ok = c->event && *marks;
    if (ok) {
        memcpy(c->event, t->ring, sizeof *c->event * c->count);
        memcpy(*marks, t->mark, sizeof **marks * c->marks);
    }
    atomic_store(&t->recording, running);
    return ok ? TRP_OK : trp__error_set(error, TRP_E_MEMORY, "no memory for a copy of the trace");
}

static trp_status write_trace(trp_device *device, const char *path, trp_error *error)
{
    trp__trace_content c = {.device = device};
    trp__trace_mark *marks = NULL;
    trp_status status;
    trp__sweep_device(device);
    pthread_mutex_lock(&device->trace->lock);
    if (device->trace->capacity == 0)
        status = trp__error_set(error, TRP_E_ARGUMENT, "device: no trace of it was begun");
    else
        status = copy_ring(device, &c, &marks, error);
    pthread_mutex_unlock(&device->trace->lock);
    c.mark = marks;
    if (status == TRP_OK)
        status = trp__trace_write_file(&c, path, error);
    free(c.event);
    free(marks);
    return status;
}

trp_status trp_device_trace_write(trp_device *device, const char *path)
{
    trp_error error;
    trp_status status = trp__device_usable(device);
    if (status == TRP_E_FORKED || status == TRP_E_ARGUMENT)
        return status;
    if (!path)
        return trp__fail(TRP_E_ARGUMENT, "path: expected a file name, got NULL");
    status = write_trace(device, path, &error);
    return status == TRP_OK ? TRP_OK : trp__error_raise(&error);
}

void trp__trace_by_environment(trp_device *device)
{
    static _Atomic uint32_t devices;
    const char *wish = secure_getenv("TROUPE_TRACE");
    if (!wish || !*wish)
        return;
    uint32_t number = atomic_fetch_add(&devices, 1) + 1;
    size_t size = strlen(wish) + PATH_ROOM;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, number > 1 ? "%s.%u" : "%s", wish, number);
    device->trace->path = path;
    if (!path || trp_device_trace_start(device, NULL) != TRP_OK)
        trp__log_line(&device->system->log, TRP__LOG_ERROR, "TROUPE_TRACE: no memory for a trace");
}

void trp__trace_at_close(trp_device *device)
{
    trp_error error;
    if (device->trace->path && device->trace->capacity > 0 &&
        write_trace(device, device->trace->path, &error) != TRP_OK)
        trp__log_line(&device->system->log, TRP__LOG_ERROR, "TROUPE_TRACE: %s", error.message);
}

/* Tracing, the recording side.
 *
 * A request has three times. Its sender notes when it was sent, in its slot. The worker notes in
 * the reply block when it was issued, and, for each actor, a short log of the timeline's moves. The
 * thread that ends the request puts the three into a ring. No thread waits for another: a place in
 * the ring is taken by an addition, and one that is still being written when the ring has come
 * round is skipped. */
#include "client/observe/trace.h"

#include "base/call.h"
#include "base/error.h"
#include "base/text.h"
#include "client/observe/latency.h"
#include "wire/rank.h"

#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_EVENTS UINT32_C(65536)
#define MAX_EVENTS     (UINT32_C(1) << 22)

bool trp__trace_create(trp_device *device)
{
    device->observe.trace = calloc(1, sizeof *device->observe.trace);
    if (device->observe.trace)
        trp__lock_init(&device->observe.trace->lock, TRP__RANK_TRACE);
    return device->observe.trace != NULL;
}

void trp__trace_destroy(trp_device *device)
{
    if (!device->observe.trace)
        return;
    trp__lock_destroy(&device->observe.trace->lock);
    free(device->observe.trace->ring);
    free(atomic_load(&device->observe.trace->path));
    free(device->observe.trace);
}

/* Recording. */

/* Returns a stamp of the log, 0 if the writer has come round to its place while it was read. */
static int64_t stamp_at(const trp__progress *log, uint64_t number)
{
    int64_t ns = atomic_load_explicit(&log->stamp[number % TRP__PROGRESS].ns, memory_order_acquire);
    bool whole = atomic_load_explicit(&log->count, memory_order_acquire) < number + TRP__PROGRESS;
    return whole ? ns : 0;
}

/* The log holds growing tickets. An end that has left the log was seen before its oldest entry. */
int64_t trp__seen_done(const trp_device *device, uint32_t actor, uint64_t ticket, int64_t *before)
{
    const trp__progress *log = &device->reply->progress[actor % TRP__ACTORS];
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
    *before = low > 0 ? stamp_at(log, low - 1) : 0;
    return low < count ? stamp_at(log, low) : 0;
}

int64_t trp__issued_at(const trp_device *device, uint32_t slot, uint64_t ticket)
{
    const trp__stamp *stamp = &device->reply->issue_stamp[slot];
    if (atomic_load_explicit(&stamp->ticket, memory_order_acquire) != ticket)
        return 0;
    return atomic_load_explicit(&stamp->ns, memory_order_relaxed);
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
    trp__trace *t = device->observe.trace;
    uint64_t ticket = atomic_load_explicit(&slot->ticket, memory_order_relaxed);
    uint32_t actor = atomic_load_explicit(&slot->actor, memory_order_relaxed) % TRP__ACTORS;
    const trp__client_actor *a = atomic_load_explicit(&device->actor[actor], memory_order_relaxed);
    int64_t issued = trp__issued_at(device, slot->index, ticket);
    int64_t sent = atomic_load_explicit(&slot->sent_ns, memory_order_relaxed);
    uint32_t deaths = atomic_load_explicit(&slot->deaths, memory_order_relaxed);
    if (sent < device->observe.trace->began && issued < device->observe.trace->began)
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
    e->attempt = deaths + !(interrupted || slot->status == TRP_E_FAULT);
    e->sent = sent;
    e->issued = issued;
    int64_t before;
    e->done = by_timeline ? trp__seen_done(device, actor, ticket, &before) : 0;
    if (e->done == 0)
        e->done = trp__now_ns();
    trp__op_name(a ? a->class : NULL, record->op, e->op, sizeof e->op);
    trp__copy_string(e->name, sizeof e->name, a ? a->name : "");
    e->label = slot->label;
    atomic_store_explicit(&e->busy, false, memory_order_release);
}

/* recording is read after the slot became RETIRING: stop_recording() waits for such slots. */
void trp__trace_ended(trp_device *device, const trp__slot *slot, const trp__record *record,
                      bool by_timeline)
{
    if (atomic_load(&device->observe.trace->recording))
        record_event(device, slot, record, by_timeline, false);
    else
        atomic_fetch_add(&device->observe.trace->skipped, 1);
}

void trp__trace_interrupted(trp_device *device, trp__slot *slot, const trp__record *record)
{
    trp__trace *t = device->observe.trace;
    trp__lock_take(&t->lock);
    if (atomic_load(&t->recording)) {
        record_event(device, slot, record, false, true);
        atomic_store(&slot->sent_ns, trp__now_ns()); /* it is queued anew from here on */
    }
    trp__lock_drop(&t->lock);
}

void trp__trace_mark_now(trp_device *device, const char *name, uint32_t incarnation,
                         const char *format, ...)
{
    trp__trace *t = device->observe.trace;
    trp__lock_take(&t->lock);
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
    trp__lock_drop(&t->lock);
}

/* Starting and stopping; t->lock is held. */

/* Brings the ring to rest: no thread begins to write an event, and writers have finished. A slot
 * that becomes RETIRING later finds `recording` false. */
static void stop_recording(trp_device *device)
{
    atomic_store(&device->observe.trace->recording, false);
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
    /* Touches all pages here, not in requests. */
    memset(t->ring, 0, sizeof *t->ring * capacity);
    t->capacity = capacity;
    return TRP_OK;
}

static trp_status start_trace(trp_device *device, const trp_trace_options *options)
{
    trp_status status = trp__device_known(device);
    if (status != TRP_OK)
        return status;
    if (options && TRP__CHECK_ROOM(options) != TRP_OK)
        return TRP_E_ARGUMENT;
    uint32_t events = options && options->events ? options->events : DEFAULT_EVENTS;
    if (events > MAX_EVENTS)
        return trp__fail(TRP_E_ARGUMENT, "events: expected at most %u, got %u", MAX_EVENTS, events);
    uint64_t capacity = 1;
    while (capacity < events)
        capacity *= 2;

    trp__trace *t = device->observe.trace;
    trp__lock_take(&t->lock);
    atomic_store(&device->control->tracing, 0);
    stop_recording(device);
    status = make_ring(t, capacity);
    atomic_store(&t->next, 0);
    atomic_store(&t->skipped, 0);
    t->marks = 0;
    t->began = trp__now_ns();
    if (status == TRP_OK) {
        atomic_store(&t->recording, true);
        atomic_store(&device->control->tracing, 1);
    }
    trp__lock_drop(&t->lock);
    return status;
}

trp_status trp_device_trace_start(trp_device *device, const trp_trace_options *options)
{
    TRP__CALL(trp__call_refused());
    return start_trace(device, options);
}

trp_status trp_device_trace_stop(trp_device *device)
{
    TRP__CALL(trp__call_refused());
    trp_status status = trp__device_known(device);
    if (status != TRP_OK)
        return status;
    device->end_over(device); /* requests that are done belong to the trace */
    trp__lock_take(&device->observe.trace->lock);
    atomic_store(&device->control->tracing, 0);
    stop_recording(device);
    trp__lock_drop(&device->observe.trace->lock);
    return TRP_OK;
}

/* Writing. */

/* Copies the ring, which rests meanwhile. */
static trp_status copy_ring(trp_device *device, trp__trace_content *c, trp__trace_mark **marks,
                            trp_error *error)
{
    trp__trace *t = device->observe.trace;
    bool running = atomic_load(&t->recording);
    stop_recording(device);
    c->time = trp__now_ns();
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
    device->end_over(device);
    trp__lock_take(&device->observe.trace->lock);
    if (device->observe.trace->capacity == 0)
        status = trp__error_set(error, TRP_E_ARGUMENT, "device: no trace of it was begun");
    else
        status = copy_ring(device, &c, &marks, error);
    trp__lock_drop(&device->observe.trace->lock);
    c.mark = marks;
    if (status == TRP_OK)
        status = trp__trace_write_file(&c, path, error);
    free(c.event);
    free(marks);
    return status;
}

trp_status trp_device_trace_write(trp_device *device, const char *path)
{
    TRP__CALL(trp__call_refused());
    trp_error error;
    trp_status status = trp__device_known(device);
    if (status != TRP_OK)
        return status;
    if (!path)
        return trp__fail(TRP_E_ARGUMENT, "path: expected a file name, got NULL");
    status = write_trace(device, path, &error);
    return status == TRP_OK ? TRP_OK : trp__error_raise(&error);
}

/* Expands the path in TROUPE_TRACE, to an absolute one, since the program may change its folder: %p
 * is the pid, %% a percent sign; the second device of a process has ".2" behind it, and so on.
 * NULL: no memory, or too long. */
static char *expand_path(const char *setting, uint32_t number)
{
    char path[PATH_MAX];
    trp__text text = {.out = path, .size = sizeof path};
    path[0] = '\0';
    if (setting[0] != '/' && getcwd(path, sizeof path)) {
        text.length = strlen(path);
        trp__text_add(&text, "/");
    }
    for (const char *at = setting; *at; at++) {
        const char next = *at == '%' ? at[1] : '\0';
        if (next == 'p')
            trp__text_add(&text, "%d", (int)getpid());
        else
            trp__text_add(&text, "%c", *at);
        at += next == 'p' || next == '%';
    }
    if (number > 1)
        trp__text_add(&text, ".%u", number);
    return text.length < sizeof path ? strdup(path) : NULL;
}

static void write_once(trp_device *device)
{
    trp_error error;
    char *path = atomic_exchange(&device->observe.trace->path, NULL);
    if (path && device->observe.trace->capacity > 0 && write_trace(device, path, &error) != TRP_OK)
        trp__log_line(&device->system->log, TRP__LOG_ERROR, "TROUPE_TRACE: %s", error.message);
    free(path);
}

/* Writes the traces of a program that calls exit() without closing its devices. Not if a signal
 * handler calls exit() inside a call, since the write would wait for that call's locks. */
static void write_at_exit(void)
{
    if (!trp__call_here.inside)
        trp__devices_see(write_once);
}

static void watch_exit(void)
{
    (void)atexit(write_at_exit);
}

/* Counts the devices opened by the process. A forked child counts on from its parent, or it would
 * overwrite its files; but from 1 if the name contains the pid. */
static uint32_t count_device(const char *setting)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint32_t all, own;
    static pid_t owner;
    bool numbered = false;
    for (const char *at = setting; (at = strchr(at, '%')); at += at[1] ? 2 : 1)
        numbered = numbered || at[1] == 'p';
    pthread_mutex_lock(&lock);
    own = owner == getpid() ? own + 1 : 1;
    owner = getpid();
    all++;
    const uint32_t number = numbered ? own : all;
    pthread_mutex_unlock(&lock);
    return number;
}

void trp__trace_by_environment(trp_device *device)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *setting = secure_getenv("TROUPE_TRACE");
    if (!setting || !*setting)
        return;
    char *path = expand_path(setting, count_device(setting));
    atomic_store(&device->observe.trace->path, path);
    if (!path || start_trace(device, NULL) != TRP_OK)
        trp__log_line(&device->system->log, TRP__LOG_ERROR, "TROUPE_TRACE: no memory for a trace");
    pthread_once(&once, watch_exit);
}

void trp__trace_at_close(trp_device *device)
{
    write_once(device);
}

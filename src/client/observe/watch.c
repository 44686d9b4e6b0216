/* Watches: each has a bounded ring of notices, emptied by the supervisor thread (callbacks) or by
 * takers of a queue's events.
 *
 * The list of watches and the rings of callbacks are under device->observe.watch_lock; the ring of
 * a watch with a queue is under the queue's lock, which may be taken inside the other. */
#include "base/call.h"
#include "base/os/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "client/observe/observe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WATCHES_MAX = 64, NOTICES = 64 };

/* The program's handle of a watch. */
struct trp_watch {
    trp__remnant remnant; /* first: freed as one */
    trp_device *device;
    struct trp__watch *live; /* NULL: ended; under the device's watch_lock */
};

typedef struct trp__watch {
    trp__queue_item item; /* first: in the queue while the ring is not empty */
    trp_device *device;
    trp_watch *handle;
    struct trp__watch *next;
    trp_watch_options options;
    bool queued;
    bool calling;  /* its callback runs */
    bool ended;    /* no further callback */
    bool orphaned; /* ended by its callback: the supervisor frees it */
    uint32_t first, count;
    uint64_t dropped; /* since the last in the ring */
    trp_notice ring[NOTICES];
} trp__watch;

const char *trp_notice_name(trp_notice_kind kind)
{
    static const char *const names[TRP_NOTICE_COUNT] = {
        [TRP_NOTICE_NONE] = "none",
        [TRP_NOTICE_FAULT] = "fault",
        [TRP_NOTICE_RESTART] = "restart",
        [TRP_NOTICE_PROMOTION] = "promotion",
        [TRP_NOTICE_ACTOR_RESTART] = "actor-restart",
        [TRP_NOTICE_ACTOR_FAILED] = "actor-failed",
        [TRP_NOTICE_STANDBY_READY] = "standby-ready",
        [TRP_NOTICE_STANDBY_LOST] = "standby-lost",
        [TRP_NOTICE_STOP] = "stop",
        [TRP_NOTICE_LOW_MEMORY] = "low-memory",
    };
    return (unsigned)kind < TRP_NOTICE_COUNT ? names[kind] : NULL;
}

/* The ring. */

static trp_notice *place(trp__watch *watch, uint32_t index)
{
    return &watch->ring[(watch->first + index) % NOTICES];
}

/* Counts a pushed-out notice in `dropped` of the next delivered one. */
static void ring_push(trp__watch *watch, const trp_notice *notice)
{
    uint64_t dropped = notice->dropped;
    trp_notice *last = watch->count > 0 ? place(watch, watch->count - 1) : NULL;
    if (last && last->kind == TRP_NOTICE_LOW_MEMORY && notice->kind == TRP_NOTICE_LOW_MEMORY) {
        dropped += last->dropped + 1;
        watch->count--;
    } else if (watch->count == NOTICES) {
        place(watch, 1)->dropped += place(watch, 0)->dropped + 1;
        watch->first++;
        watch->count--;
    }
    last = place(watch, watch->count++);
    *last = *notice;
    last->dropped = dropped;
}

static trp_notice ring_pop(trp__watch *watch)
{
    trp_notice notice = *place(watch, 0);
    watch->first++;
    watch->count--;
    return notice;
}

/* Delivery. */

/* Takes the next notice of a watch in a queue. False: it was the last, and the watch is out of the
 * queue. The queue's lock is held. */
bool trp__watch_take(trp__queue_item *item, trp_event *out)
{
    trp__watch *watch = (trp__watch *)item;
    trp_notice n = ring_pop(watch);
    *out = (trp_event){.user_data = watch->options.user_data,
                       .status = n.error.status,
                       .error = n.error,
                       .notice = n.kind,
                       .incarnation = n.incarnation,
                       .sequence = n.sequence,
                       .dropped = n.dropped,
                       .time_ns = n.time_ns};
    watch->queued = watch->count > 0;
    return watch->queued;
}

static void give(trp__watch *watch, const trp_notice *notice)
{
    trp_queue *queue = watch->options.queue;
    if (watch->options.events && !(watch->options.events & TRP_NOTICE_BIT(notice->kind)))
        return;
    if (watch->ended)
        return;
    if (!queue) {
        ring_push(watch, notice);
        atomic_store(&watch->device->observe.notices_wait, true);
        return;
    }
    trp__lock_take(&queue->lock);
    ring_push(watch, notice);
    if (!watch->queued)
        trp__queue_link(queue, &watch->item);
    watch->queued = true;
    trp__lock_drop(&queue->lock);
}

/* Lines. */

enum { LINES_OF_A_WORKER = 1000 };

static bool is_watched(trp_device *device, trp_notice_kind kind)
{
    bool watched = false;
    trp__lock_take(&device->observe.watch_lock);
    for (const trp__watch *w = device->observe.watches; w && !watched; w = w->next)
        watched = !w->ended && (!w->options.events || (w->options.events & TRP_NOTICE_BIT(kind)));
    trp__lock_drop(&device->observe.watch_lock);
    return watched;
}

void trp__device_line(trp_device *device, trp_notice_kind kind, int level, const char *format, ...)
{
    char line[400];
    const trp__log *log = &device->system->log;
    if (!log->sink && (!trp__log_shows(level) || is_watched(device, kind)))
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    trp__log_line(log, level, "%s", line);
}

/* Bounded: a corrupted worker must not fill the application's log. */
void trp__worker_line(trp_device *device, trp__process *p, const trp__message *m)
{
    char line[400];
    if (p->lines++ >= LINES_OF_A_WORKER)
        return;
    trp__text_import(line, m->library, sizeof line);
    trp__text_clean(line);
    trp__log_line(&device->system->log,
                  m->about >= TRP__LOG_ERROR     ? TRP__LOG_ERROR
                  : m->about == TRP__LOG_WARNING ? TRP__LOG_WARNING
                                                 : TRP__LOG_INFO,
                  "%s", line);
}

/* Makes a notice. Any thread. Callbacks are called later, by the supervisor. `error` may be NULL;
 * `dropped`: notices that were lost before this one. */
void trp__notice_post(trp_device *device, trp_notice_kind kind, uint32_t incarnation,
                      int64_t time_ns, uint64_t dropped, const trp_error *error)
{
    trp_notice notice = {
        .kind = kind, .incarnation = incarnation, .dropped = dropped, .time_ns = time_ns};
    if (error)
        notice.error = *error;
    trp__lock_take(&device->observe.watch_lock);
    device->observe.notices += dropped;
    notice.sequence = ++device->observe.notices;
    for (trp__watch *watch = device->observe.watches; watch; watch = watch->next)
        give(watch, &notice);
    trp__lock_drop(&device->observe.watch_lock);
    if (atomic_load(&device->observe.notices_wait) &&
        !pthread_equal(pthread_self(), device->supervisor))
        trp__supervisor_ring(device);
}

/* The same for an event now, of the active worker. */
void trp__notice(trp_device *device, trp_notice_kind kind, const trp_error *error)
{
    trp__notice_post(device, kind, atomic_load(&device->incarnation), trp__now_ns(), 0, error);
}

/* Passes on a notice of a worker, validated. */
void trp__notice_relay(trp_device *device, uint32_t incarnation, const trp__message *m)
{
    trp_notice_kind kind = (trp_notice_kind)m->about;
    trp_error error;
    int64_t now = trp__now_ns();
    int64_t time = m->bytes > 0 && m->bytes < (uint64_t)now ? (int64_t)m->bytes : now;
    trp__error_import(&error, &m->error);
    trp__text_import(error.actor, m->error.actor, sizeof error.actor);
    if (error.status == TRP_OK)
        error.status = TRP_E_INTERNAL;
    error.fault = TRP_FAULT_NONE;
    error.incarnation = incarnation;
    if (kind == TRP_NOTICE_ACTOR_RESTART)
        trp__device_line(device, kind, TRP__LOG_WARNING, "actor \"%s\" was restarted after %s",
                         error.actor, error.message);
    else if (kind == TRP_NOTICE_ACTOR_FAILED)
        trp__device_line(device, kind, TRP__LOG_ERROR, "actor \"%s\" can't be restarted: %s",
                         error.actor, error.message);
    else if (kind != TRP_NOTICE_LOW_MEMORY)
        return; /* workers send no other kinds */
    trp__notice_post(device, kind, incarnation, time, m->id, &error);
}

static void unlink_watch(trp_device *device, trp__watch *watch)
{
    trp__watch **link = &device->observe.watches;
    while (*link != watch)
        link = &(*link)->next;
    *link = watch->next;
    device->observe.watch_count--;
}

/* watch_lock is held. */
static void free_watch(trp_device *device, trp__watch *watch)
{
    unlink_watch(device, watch);
    watch->handle->live = NULL;
    trp__system_retain(device->system, &watch->handle->remnant);
    free(watch);
}

static trp__watch *next_to_call(trp_device *device)
{
    trp__watch *watch = device->observe.watches;
    while (watch && (watch->options.queue || watch->ended || watch->count == 0))
        watch = watch->next;
    return watch;
}

/* Calls the pending callbacks. Supervisor thread, no lock held. */
void trp__notices_deliver(trp_device *device)
{
    trp__watch *watch;
    if (!atomic_exchange(&device->observe.notices_wait, false))
        return;
    trp__lock_take(&device->observe.watch_lock);
    while ((watch = next_to_call(device))) {
        trp_notice notice = ring_pop(watch);
        watch->calling = true;
        trp__lock_drop(&device->observe.watch_lock);
        watch->options.callback(watch->options.user_data, &notice);
        trp__lock_take(&device->observe.watch_lock);
        watch->calling = false;
        if (watch->orphaned)
            free_watch(device, watch);
        pthread_cond_broadcast(&device->observe.watch_idle);
    }
    trp__lock_drop(&device->observe.watch_lock);
}

/* Life of a watch. */

static trp_status check_options(const trp_device *device, const trp_watch_options *options)
{
    const uint32_t all = TRP_NOTICE_BIT(TRP_NOTICE_COUNT) - 2; /* there is no notice of kind 0 */
    if (TRP__CHECK_ROOM(options) != TRP_OK)
        return TRP_E_ARGUMENT;
    if (options->events & ~all)
        return trp__fail(TRP_E_ARGUMENT, "events: expected bits among %#x, got %#x", all,
                         options->events);
    if (!options->callback == !options->queue)
        return trp__fail(TRP_E_ARGUMENT, "callback, queue: expected one of them, got %s",
                         options->callback ? "both" : "none");
    return options->queue ? trp__queue_check(device, options->queue, "queue") : TRP_OK;
}

trp_status trp_device_watch(trp_device *device, const trp_watch_options *options, trp_watch **out)
{
    TRP__CALL(trp__call_refused());
    trp_status status = trp__device_usable(device);
    if (status != TRP_OK)
        return status;
    if (!options || !out)
        return trp__fail_null(options ? "out" : "options");
    status = check_options(device, options);
    if (status != TRP_OK)
        return status;
    trp__watch *watch = calloc(1, sizeof *watch);
    trp_watch *handle = calloc(1, sizeof *handle);
    if (!watch || !handle) {
        free(watch);
        free(handle);
        return trp__fail(TRP_E_MEMORY, "no memory for a watch");
    }
    *handle = (trp_watch){.device = device, .live = watch};
    watch->handle = handle;
    watch->item = (trp__queue_item){.device_tag = device->tag, .is_watch = true};
    watch->device = device;
    watch->options = *options;
    trp__lock_take(&device->observe.watch_lock);
    bool full = device->observe.watch_count == WATCHES_MAX;
    if (!full) {
        if (options->queue)
            atomic_fetch_add(&options->queue->expected, 1);
        device->observe.watch_count++;
        watch->next = device->observe.watches;
        device->observe.watches = watch;
    }
    trp__lock_drop(&device->observe.watch_lock);
    if (full) {
        free(watch);
        free(handle);
        return trp__fail(TRP_E_BUSY, "expected at most %d watches of a device, all exist",
                         WATCHES_MAX);
    }
    *out = handle;
    return TRP_OK;
}

/* Takes a watch off its queue, and frees it. watch_lock is held. */
static void end_watch(trp_device *device, trp__watch *watch)
{
    trp_queue *queue = watch->options.queue;
    if (queue) {
        trp__lock_take(&queue->lock);
        if (watch->queued)
            trp__queue_unlink(queue, &watch->item);
        atomic_fetch_sub(&queue->expected, 1);
        trp__lock_drop(&queue->lock);
    }
    free_watch(device, watch);
}

void trp_watch_end(trp_watch *watch)
{
    TRP__CALL();
    trp_device *device = watch ? watch->device : NULL;
    if (!device || !device->alive || *device->alive == 0)
        return; /* the device is closed; or in a forked child it is the parent's */
    trp__lock_take(&device->observe.watch_lock);
    if (watch->live)
        watch->live->ended = true;
    if (watch->live && watch->live->calling && pthread_equal(pthread_self(), device->supervisor)) {
        watch->live->orphaned = true;
    } else {
        while (watch->live && watch->live->calling)
            trp__lock_wait(&device->observe.watch_lock, &device->observe.watch_idle);
        if (watch->live)
            end_watch(device, watch->live);
    }
    trp__lock_drop(&device->observe.watch_lock);
}

/* The device closes; its supervisor has ended. */
void trp__watches_close(trp_device *device)
{
    trp__lock_take(&device->observe.watch_lock);
    while (device->observe.watches)
        end_watch(device, device->observe.watches);
    trp__lock_drop(&device->observe.watch_lock);
}

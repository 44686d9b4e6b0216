/* The device's supervisor thread: starts the workers, takes their messages, notices deaths, judges
 * the requests, and promotes the next worker. */
#include "base/os/clock.h"
#include "base/os/descriptor.h"
#include "base/error.h"
#include "base/os/poll.h"
#include "base/os/service_thread.h"
#include "base/os/thread.h"
#include "client/recovery/judge.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#define QUEUE_NAP_MIN_NS (20 * TRP__US)
#define QUEUE_NAP_MAX_NS (500 * TRP__US)
#define DEADLINE_NAP_NS  (5 * TRP__MS)
#define MAKING_NAP_NS    (20 * TRP__MS)
/* At most, so that a program that has closed the event file can close the device. */
#define IDLE_NAP_NS (2 * TRP__SECOND)

enum { POLL_WAKE = 0, POLL_SOCKET = 1, POLL_PROCESS = 3, POLL_DYING = 5, POLL_COUNT = 13 };

/* Returns the pending requests that this thread ends if no other thread does. */
static uint64_t left_to_end(const trp_device *device)
{
    return atomic_load(&device->request.queue_bound) + atomic_load(&device->request.deliveries);
}

/* Returns how long to sleep: without limit, but briefly while requests are bound for queues, have
 * results or deadlines, since their ends wake no thread. */
static int64_t next_nap(trp_device *device, int64_t nap)
{
    if (left_to_end(device) > 0)
        return nap < QUEUE_NAP_MIN_NS   ? QUEUE_NAP_MIN_NS
               : nap < QUEUE_NAP_MAX_NS ? nap + nap / 8
                                        : QUEUE_NAP_MAX_NS;
    return atomic_load(&device->request.deadlines) > 0 ? DEADLINE_NAP_NS : -1;
}

/* Fills the descriptors to poll; returns the time of the next due answer, INT64_MAX for none. */
static int64_t prepare_poll(trp_device *device, struct pollfd polled[POLL_COUNT])
{
    int64_t due = INT64_MAX;
    memset(polled, 0, sizeof *polled * POLL_COUNT);
    polled[POLL_WAKE] = (struct pollfd){
        .fd = device->recovery.descriptors_closed ? -1 : device->wake_fd, .events = POLLIN};
    trp__lock_take(&device->lock);
    for (int i = 0; i < TRP__WORKERS; i++) {
        const trp__process *p = &device->worker[i];
        short wanted = p->outbox.sent < p->outbox.count ? POLLIN | POLLOUT : POLLIN;
        int64_t worker_due = p->missed_news ? 0 : trp__process_due(device, p);
        polled[POLL_SOCKET + i] = (struct pollfd){.fd = p->socket, .events = wanted};
        polled[POLL_PROCESS + i] = (struct pollfd){.fd = p->pidfd, .events = POLLIN};
        due = worker_due < due ? worker_due : due;
    }
    trp__lock_drop(&device->lock);
    for (int i = 0; i < TRP__DYING; i++) {
        bool dying = device->recovery.dying[i].pid != 0;
        polled[POLL_DYING + i] =
            (struct pollfd){.fd = dying ? device->recovery.dying[i].pidfd : -1, .events = POLLIN};
    }
    return due;
}

/* Returns the shorter of two sleeps; -1 has no end. */
static int64_t shorter(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

static void sleep_supervisor(trp_device *device, struct pollfd polled[POLL_COUNT], int64_t *nap)
{
    atomic_store(&device->supervisor_asleep, true);
    int64_t due = prepare_poll(device, polled);
    *nap = next_nap(device, *nap);
    if (*nap >= 0)
        atomic_store(&device->supervisor_asleep, false);
    int64_t sleep = *nap >= 0 ? *nap : trp__standby_delay(device);
    if (trp__actor_start_any(device))
        sleep = shorter(sleep, MAKING_NAP_NS); /* trp__actor_start_check() is due */
    int64_t left = due - trp__now_ns();
    if (due != INT64_MAX)
        sleep = shorter(sleep, left > 0 ? left : 0);
    if (!atomic_load(&device->closing))
        trp__poll(polled, POLL_COUNT, shorter(sleep, IDLE_NAP_NS));
    atomic_store(&device->supervisor_asleep, false);
}

/* Validates the progress of the active worker. */
static void look_at_words(trp_device *device)
{
    if (device->worker[device->active].socket < 0)
        return;
    bool alarm = atomic_exchange(&device->alarm, false);
    const char *breach = trp__words_look(device);
    if (!breach && alarm && trp__read_absurd(device))
        breach = "reported a read as done that it had not copied";
    if (breach)
        trp__process_breach(&device->worker[device->active], TRP_FAULT_BROKEN, breach);
}

/* Finds a request that hangs. This thread may have been delayed since it last read the worker's
 * progress, so it checks twice. */
static trp__hang look_for_hang(trp_device *device, bool *gone)
{
    const trp__process *p = &device->worker[device->active];
    trp__hang h = {0};
    for (int look = 0; look < 2; look++) {
        look_at_words(device);
        *gone = *gone || p->breach;
        bool asked = !*gone && atomic_load(&device->request.deadlines) > 0;
        h = asked ? trp__find_hung(device) : (trp__hang){0};
        if (h.ticket == 0)
            break;
    }
    return h;
}

static void take_events(trp_device *device, const struct pollfd polled[POLL_COUNT])
{
    uint32_t active = device->active, standby = 1 - active;
    bool gone[TRP__WORKERS] = {false};
    uint64_t value;
    for (int i = 0; i < POLL_COUNT; i++)
        device->recovery.descriptors_closed =
            device->recovery.descriptors_closed || (polled[i].revents & POLLNVAL);
    if (polled[POLL_WAKE].revents && !device->recovery.descriptors_closed &&
        read(device->wake_fd, &value, sizeof value) < 0)
        return;
    gone[active] = device->recovery.descriptors_closed && device->worker[active].socket >= 0;
    for (uint32_t i = 0; i < TRP__WORKERS; i++) {
        const trp__process *p = &device->worker[i];
        if (polled[POLL_SOCKET + i].revents & ~POLLOUT)
            trp__take_messages(device, i, &gone[i]);
        trp__look_after_mail(device, i);
        gone[i] = gone[i] || p->breach || p->closed || p->stuck ||
                  (polled[POLL_PROCESS + i].revents & POLLIN);
    }
    if (gone[standby])
        trp__standby_lose(device, true);
    trp__hang h = look_for_hang(device, &gone[active]);
    if (gone[active] || h.ticket)
        trp__recover(device, &h);
    trp__actor_start_check(device);
    trp__process_reap(device, false);
    trp__standby_look_after(device);
}

/* Waits until a worker has started the device's lanes: the first one, or if it dies another within
 * the restart budget. On an error all workers are gone. */
static trp_status await_lanes(trp_device *device, trp_error *error)
{
    struct pollfd polled[POLL_COUNT];
    trp_error ended;
    int64_t nap = 0;
    while (!trp__actor_start_lanes_end(device, error)) {
        if (atomic_load(&device->state) == TRP_DEVICE_DOWN) {
            *error = device->down;
            return error->status =
                       device->recovery.down_cause; /* to the application there was no device */
        }
        sleep_supervisor(device, polled, &nap);
        take_events(device, polled);
    }
    if (error->status != TRP_OK) {
        trp__process_end(device, device->active, false, &ended);
        trp__process_reap(device, true);
    }
    return error->status;
}

static void supervise(trp_device *device)
{
    struct pollfd polled[POLL_COUNT];
    int64_t nap = 0;
    trp__standby_look_after(device);
    while (!atomic_load(&device->closing)) {
        uint64_t before = left_to_end(device);
        sleep_supervisor(device, polled, &nap);
        take_events(device, polled);
        trp__notices_deliver(device);
        trp__stats_publish(device);
        if (left_to_end(device) > 0)
            trp__sweep_device(device);
        if (left_to_end(device) != before)
            nap = 0;
    }
}

static trp_status start_first(trp_device *device, trp_error *error)
{
    device->active = 1; /* so that the first worker takes the place of a successor */
    return trp__promote_successor(device, error);
}

static void *supervisor_main(void *argument)
{
    trp_device *device = argument;
    trp_error error = {0};
    trp__is_service_thread = true;
    prctl(PR_SET_NAME, "troupe-super");
    prctl(PR_SET_TIMERSLACK, 1000UL);
    trp__lock_take(&device->lock); /* trp__broadcast() compares with device->supervisor */
    trp__lock_drop(&device->lock);
    trp_status status = start_first(device, &error);
    if (status == TRP_OK)
        status = await_lanes(device, &error);
    trp__lock_take(&device->lock);
    device->recovery.start_error = error;
    device->recovery.started = true;
    pthread_cond_broadcast(&device->changed);
    trp__lock_drop(&device->lock);
    if (status != TRP_OK)
        return NULL;
    supervise(device);
    trp__notices_deliver(device);
    trp__process_end(device, 1 - device->active, true, &error);
    trp__process_end(device, device->active, false, &error);
    trp__go_down(device);
    trp__process_reap(device, true);
    return NULL;
}

trp_status trp__supervisor_start(trp_device *device)
{
    device->wake_fd = trp__descriptor_apart(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (device->wake_fd < 0) {
        trp_error error;
        trp__error_set_errno(&error, "eventfd");
        return trp__error_raise(&error);
    }
    trp__lock_take(&device->lock);
    int code =
        trp__thread_start(&device->supervisor, TRP__SIGNALS_BLOCKED, supervisor_main, device);
    if (code != 0) {
        trp_error error;
        trp__lock_drop(&device->lock);
        close(device->wake_fd);
        errno = code;
        trp__error_set_errno(&error, "the supervisor thread can't be started");
        return trp__error_raise(&error);
    }
    while (!device->recovery.started)
        trp__lock_wait(&device->lock, &device->changed);
    trp_error error = device->recovery.start_error;
    trp__lock_drop(&device->lock);
    if (error.status == TRP_OK)
        return TRP_OK;
    pthread_join(device->supervisor, NULL);
    close(device->wake_fd);
    return trp__error_raise(&error);
}

void trp__supervisor_stop(trp_device *device)
{
    atomic_store(&device->closing, true);
    trp__supervisor_ring(device);
    pthread_join(device->supervisor, NULL);
    close(device->wake_fd);
}

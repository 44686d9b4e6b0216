/* How waiting for room ends where it can't be seen from outside whether somebody waits. White-box:
 * looks into a device. SPDX-License-Identifier: Apache-2.0 */
#include "base/os/service_thread.h"
#include "client/request/room.h"
#include "support/harness.h"

#include <troupe/troupe.h>

#include <signal.h>

enum { WAITERS = 3 };

typedef struct waiter {
    trp_actor *probe;
    trp_buffer buffer;
    int kind;
    trp_status status;
    _Atomic bool last; /* the device is about to be closed: no further call */
} waiter;

/* Sends until there is an error. */
static void *send(void *argument)
{
    waiter *w = argument;
    trp_device *d = trp_actor_device(w->probe);
    static const char large[1 << 20];
    do {
        switch (w->kind) {
        case 0:
            w->status = trp_probe(w->probe, &(trp_probe_request){.action = TRP_PROBE_NOP}, NULL);
            break;
        case 1:
            w->status = trp_write(d, w->buffer, 0, large, sizeof large, NULL);
            break;
        default:
            w->status = trp_fill(d, w->buffer, 0, 4, 0, 4, NULL);
        }
    } while (w->status == TRP_OK && !atomic_load(&w->last));
    H_CHECK(w->status == TRP_OK || trp_error_last()->status == w->status);
    return NULL;
}

static h_world open_small(void)
{
    trp_device_options options = h_options();
    options.mailbox_size = 1;
    return h_open(&options);
}

/* Threads that wait behind a request without end. */
static void block(const h_world *w, waiter *all, h_thread **thread)
{
    trp_actor *blocker = h_actor(w->device, "probe");
    trp_buffer b = h_filled(w->device, 1 << 20, 0);
    H_OK(trp_probe(
        blocker,
        &(trp_probe_request){.action = TRP_PROBE_SPIN, .duration_ns = 3600 * H_SEC, .outputs = {b}},
        NULL));
    for (int i = 0; i < WAITERS; i++) {
        all[i] = (waiter){.probe = blocker, .buffer = b, .kind = i, .last = false};
        thread[i] = h_start(send, &all[i]);
    }
    while (atomic_load(&w->device->request.waiting) < WAITERS)
        h_sleep(H_MS);
}

static void closing_ends_it(void)
{
    h_world w = open_small();
    waiter all[WAITERS];
    h_thread *thread[WAITERS];
    block(&w, all, thread);
    for (int i = 0; i < WAITERS; i++)
        atomic_store(&all[i].last, true);
    trp_device_close(w.device);
    for (int i = 0; i < WAITERS; i++) {
        h_join(thread[i]);
        /* TRP_OK: there was room as the requests before it ended, and then it ended, too. */
        H_CHECK(all[i].status == TRP_E_DEVICE_DOWN || all[i].status == TRP_OK);
    }
    H_OK(trp_system_destroy(w.system));
}

static void going_down_ends_it(void)
{
    trp_device_options options = h_options();
    options.mailbox_size = 1;
    options.restart_budget = 1;
    options.standby = TRP_STANDBY_OFF;
    h_world w = h_open(&options);
    waiter all[WAITERS];
    h_thread *thread[WAITERS];
    block(&w, all, thread);
    while (h_info(w.device).state != TRP_DEVICE_DOWN) {
        int64_t pid = h_info(w.device).worker_pid;
        if (pid > 0)
            kill((pid_t)pid, SIGKILL);
        h_sleep(H_MS);
    }
    for (int i = 0; i < WAITERS; i++) {
        h_join(thread[i]);
        H_EQUAL(all[i].status, TRP_E_DEVICE_DOWN);
    }
    H_EQUAL(atomic_load(&w.device->request.waiting), 0);
    h_close(&w);
}

/* A thread that the device needs does not wait, whatever it asks for. */
static void *serve(void *argument)
{
    trp_actor *probe = argument;
    static const int64_t waits[] = {0, TRP_FOREVER, H_LONG};
    trp__is_service_thread = true;
    for (int i = 0; i < 3; i++) {
        trp_status status;
        while ((status = trp_probe(probe, &(trp_probe_request){.header.wait_ns = waits[i]},
                                   NULL)) == TRP_OK)
            continue;
        H_IS(status, TRP_E_BUSY);
        H_SAYS("needs for its progress");
    }
    return NULL;
}

static void threads_of_the_device(void)
{
    h_world w = open_small();
    trp_actor *probe = h_actor(w.device, "probe");
    h_spin(probe, 3600 * H_SEC, NULL);
    h_join(h_start(serve, probe));
    trp_device_close(w.device);
    H_OK(trp_system_destroy(w.system));
}

/* While a watch's callback runs, no worker that has died is replaced. */
typedef struct witness {
    trp_actor *_Atomic probe;
    _Atomic trp_status status;
} witness;

static void on_notice(void *user_data, const trp_notice *notice)
{
    witness *w = user_data;
    trp_status status;
    if (notice->kind != TRP_NOTICE_FAULT || atomic_load(&w->status) != TRP_OK)
        return; /* another fault says nothing new, and the mailbox is full by now */
    h_spin(atomic_load(&w->probe), 3600 * H_SEC, NULL);
    status = trp_probe(atomic_load(&w->probe), &(trp_probe_request){.action = TRP_PROBE_NOP}, NULL);
    atomic_store(&w->status, status);
}

static void callbacks(void)
{
    h_world w = open_small();
    witness seen = {.status = TRP_OK};
    trp_completion c = {0};
    trp_watch *watch;
    trp_actor *probe = h_actor(w.device, "probe");
    atomic_store(&seen.probe, h_actor(w.device, "probe"));
    const trp_watch_options options = {.callback = on_notice, .user_data = &seen};
    H_OK(trp_device_watch(w.device, &options, &watch));
    h_probe(probe, TRP_PROBE_KILL, &c);
    H_IS(h_await_any(c), TRP_E_FAULT);
    while (atomic_load(&seen.status) == TRP_OK)
        h_sleep(H_MS);
    H_EQUAL(atomic_load(&seen.status), TRP_E_BUSY);
    trp_watch_end(watch);
    trp_device_close(w.device);
    H_OK(trp_system_destroy(w.system));
}

/* A sender that holds a slot and waits for a second one keeps nobody waiting, itself included. */
static void second_slots(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_completion *c = h_malloc(TRP__SLOTS * sizeof *c);
    memset(c, 0, TRP__SLOTS * sizeof *c);
    for (int i = 0; i < TRP__SLOTS - 1; i++)
        h_probe(probe, TRP_PROBE_NOP, &c[i]);
    trp__room room;
    trp__room_begin(&room, w.device, 0);
    trp__slot *slot = NULL;
    trp__record *record;
    H_OK(trp__slot_begin(&room, &slot, &record));
    atomic_store(&slot->nested, true);
    H_IS(trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_NOP}, NULL), TRP_E_BUSY);
    trp__slot_abandon(w.device, slot);
    trp__room_end(&room);
    H_OK(trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_NOP}, NULL));
    for (int i = 0; i < TRP__SLOTS - 1; i++)
        H_OK(h_await_any(c[i]));
    free(c);
    h_close(&w);
}

H_CASES_OF_PROCESSES(H_CASE(closing_ends_it), H_CASE(going_down_ends_it),
                     H_CASE(threads_of_the_device), H_CASE(callbacks), H_CASE(second_slots))

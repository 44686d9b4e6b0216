/* How much may be in flight: mailboxes that are full, and their room; slots that are all taken.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/harness.h"

TROUPE_TEST("long");
TROUPE_TEST_FAKE_GPU("no sanitizer");

/* Fills a mailbox behind a spin; returns how many went in: too many if it took longer than that. */
static uint64_t fill_for(trp_actor *probe, int64_t ns, trp_completion *first)
{
    uint64_t sent = 0;
    h_spin(probe, ns, first);
    trp_probe_request r = {.header.wait_ns = TRP_NOWAIT, .action = TRP_PROBE_NOP};
    r.header.op = TRP_OP_PROBE;
    r.header.size = sizeof r;
    while (trp_submit(probe, &r.header, NULL) == TRP_OK)
        sent++;
    H_EQUAL(trp_error_last()->status, TRP_E_BUSY);
    H_SAYS("mailbox");
    return sent;
}

/* Fills the mailbox of an idle actor, behind a spin that is long enough for this machine. */
static void fill_mailbox(trp_actor *probe, uint64_t room, trp_completion *first)
{
    uint64_t sent;
    for (int64_t ns = 300 * H_MS; (sent = fill_for(probe, ns, first)) > room; ns *= 2) {
        H_OK(h_await_any(*first));
        H_OK(trp_device_drain(trp_actor_device(probe), H_LONG));
    }
    H_EQUAL(sent, room);
}

static void mailbox_full(void)
{
    trp_device_options options = h_options();
    options.mailbox_size = 8;
    h_world w = h_open(&options);
    trp_actor *probe = h_actor(w.device, "probe"), *other = h_actor(w.device, "probe");
    for (int round = 0; round < 3; round++) {
        trp_completion first = {0}, c = {0};
        fill_mailbox(probe, 7, &first);
        /* The other actor's mailbox is its own. */
        h_probe(other, TRP_PROBE_NOP, &c);
        H_OK(h_await_any(c));
        /* A bounded wait that is too short, then one that is long enough. */
        trp_probe_request r = {.header = {.wait_ns = H_MS}};
        H_IS(trp_probe(probe, &r, &c), TRP_E_BUSY);
        r.header.wait_ns = round ? H_LONG : TRP_FOREVER;
        H_OK(trp_probe(probe, &r, &c));
        H_OK(h_await_any(c));
        H_OK(h_await_any(first));
    }
    /* Ended requests make room by themselves, awaited or not. */
    for (int i = 0; i < 1000; i++)
        H_OK(trp_probe(probe, &(trp_probe_request){.header = {.wait_ns = H_LONG}}, NULL));
    h_close(&w);
}

static void mailbox_sizes(void)
{
    trp_device_options options = h_options();
    options.mailbox_size = 16385;
    trp_device *device = NULL;
    trp_system *system = h_system_create(NULL);
    H_IS(trp_device_open(system, &options, &device), TRP_E_ARGUMENT);
    H_SAYS("mailbox_size");
    H_OK(trp_system_destroy(system));
    static const uint32_t sizes[][2] = {{1, 1}, {3, 4}, {0, 1024}, {8192, 8192}};
    for (int i = 0; i < 4; i++) {
        options.mailbox_size = sizes[i][0];
        h_world w = h_open(&options);
        trp_completion first = {0};
        trp_actor *probe = h_actor(w.device, "probe");
        fill_mailbox(probe, sizes[i][1] - 1, &first);
        H_OK(h_await_any(first));
        h_close(&w);
    }
}

/* More than any mailbox holds, up to what a device holds; nothing is awaited before all is sent. */
static void ten_thousand_in_flight(void)
{
    enum { ACTORS = 5, EACH = 2400, COUNT = ACTORS * EACH };
    h_world w = h_open(NULL);
    trp_actor *probe[ACTORS];
    trp_completion *c = h_malloc(COUNT * sizeof *c);
    memset(c, 0, COUNT * sizeof *c);
    for (int i = 0; i < ACTORS; i++) {
        probe[i] = h_actor(w.device, "probe");
        h_spin(probe[i], 50 * H_MS, NULL);
    }
    for (int i = 0; i < COUNT; i++)
        h_probe(probe[i % ACTORS], TRP_PROBE_NOP, &c[i]);
    for (int i = 0; i < COUNT; i++)
        H_OK(h_await_any(c[i]));
    for (int i = 0; i < COUNT; i++)
        H_IS(trp_await(c[i].future, 0, NULL), TRP_E_STALE);
    H_EQUAL(h_info(w.device).requests_submitted, COUNT + ACTORS);
    free(c);
    h_close(&w);
}

/* More requests than the device holds: who may wait, waits; who may not, is told. */
static void waiting_for_slots(void)
{
    enum { ACTORS = 5, COUNT = 4000 };
    h_world w = h_open(NULL);
    trp_actor *probe[ACTORS];
    for (int i = 0; i < ACTORS; i++) {
        probe[i] = h_actor(w.device, "probe");
        h_spin(probe[i], 200 * H_MS, NULL);
    }
    for (int i = 0; i < ACTORS * COUNT; i++) {
        trp_probe_request r = {.header.wait_ns = TRP_NOWAIT};
        trp_status status = trp_probe(probe[i % ACTORS], &r, NULL);
        H_CHECK(status == TRP_OK || status == TRP_E_BUSY);
        r.header.wait_ns = H_LONG;
        if (status == TRP_E_BUSY)
            H_OK(trp_probe(probe[i % ACTORS], &r, NULL));
    }
    H_OK(trp_device_drain(w.device, H_LONG));
    H_EQUAL(h_info(w.device).requests_submitted, ACTORS * COUNT + ACTORS);
    h_close(&w);
}

/* Futures that nobody takes fill the device, which says so, and goes on when they are dropped. */
static void all_slots(void)
{
    enum { SLOTS = 16384 };
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_future *f = h_malloc(SLOTS * sizeof *f);
    for (int i = 0; i < SLOTS; i++) {
        trp_completion c = {0};
        H_OK(trp_probe(probe, &(trp_probe_request){.header = {.wait_ns = H_LONG}}, &c));
        f[i] = c.future;
    }
    trp_completion c = {0};
    H_IS(trp_probe(probe, &(trp_probe_request){.header = {.wait_ns = H_LONG}}, &c), TRP_E_BUSY);
    H_SAYS("16384");
    H_OK(trp_device_drain(w.device, H_LONG));
    H_IS(trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_NOP}, &c), TRP_E_BUSY);
    trp_future_drop(f[5000]);
    h_probe(probe, TRP_PROBE_NOP, &c);
    H_OK(h_await_any(c));
    for (int i = 0; i < SLOTS; i++) {
        if (i % 2)
            trp_future_drop(f[i]);
        else if (i != 5000)
            H_OK(h_await(f[i], NULL));
    }
    free(f);
    h_close(&w);
}

/* Room in structs for members to come: 0 as yet. */
static void room(void)
{
    trp_system *system = NULL;
    trp_device *device = NULL;
    trp_actor *actor = NULL;
    trp_buffer buffer = {0};
    trp_watch *watch = NULL;
    H_IS(trp_system_create(&(trp_system_options){.reserved = {[3] = 1}}, &system), TRP_E_ARGUMENT);
    H_SAYS("reserved[3]: expected 0, got 0x1");
    h_world w = h_open(NULL);
    trp_device_options options = h_options();
    options.reserved[7] = 1;
    H_IS(trp_device_open(w.system, &options, &device), TRP_E_ARGUMENT);
    H_SAYS("reserved[7]");
    H_IS(trp_actor_create(w.device, &(trp_actor_options){.kind = "probe", .reserved = {1}}, &actor),
         TRP_E_ARGUMENT);
    H_SAYS("reserved[0]");
    H_IS(trp_buffer_create_with(w.device, &(trp_buffer_options){.bytes = 1, .reserved = {0, 1}},
                                &buffer),
         TRP_E_ARGUMENT);
    H_SAYS("reserved[1]");
    trp_queue *queue;
    H_OK(trp_queue_create(w.system, &queue));
    H_IS(trp_device_watch(w.device, &(trp_watch_options){.queue = queue, .reserved = {1}}, &watch),
         TRP_E_ARGUMENT);
    H_SAYS("reserved[0]");
    H_OK(trp_queue_destroy(queue));
    H_IS(trp_device_trace_start(w.device, &(trp_trace_options){.reserved = {1}}), TRP_E_ARGUMENT);
    H_SAYS("reserved[0]");
    h_close(&w);
}

H_CASES(H_CASE(mailbox_full), H_CASE(mailbox_sizes), H_CASE(ten_thousand_in_flight),
        H_CASE(waiting_for_slots), H_CASE(all_slots), H_CASE(room))

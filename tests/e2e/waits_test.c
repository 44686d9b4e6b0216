/* Calls that wait for room: those that do so by themselves, those that are asked not to, and what
 * they are told where a wait would have no end. SPDX-License-Identifier: Apache-2.0 */
#include "support/gate.h"
#include "support/harness.h"

#include <stdatomic.h>

TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

enum { SLOTS = 16384, POOL = 128 };

static h_world world;

/* ---- calls without a request struct ---- */

enum { WORDS = 4096, MANY = H_SANITIZED ? 20000 : 100000 };

/* One sender, far more than any table holds, and nobody takes the ends. */
static void hundred_thousand_copies(void)
{
    world = h_open(NULL);
    trp_device *d = world.device;
    static uint32_t source[MANY], got[WORDS], *each;
    trp_buffer a = h_filled(d, WORDS * 4, 0), b = h_filled(d, WORDS * 4, 0);
    each = h_malloc(MANY * sizeof *each);
    for (uint32_t i = 0; i < MANY; i++) {
        source[i] = i + 1;
        H_OK(trp_write(d, a, i % WORDS * 4, &source[i], 4, NULL));
    }
    for (uint32_t i = 0; i < MANY; i++)
        H_OK(trp_copy(d, a, i % WORDS * 4, b, i * 7 % WORDS * 4, 4, NULL));
    h_read(d, b, 0, got, sizeof got);
    for (uint32_t i = MANY - WORDS; i < MANY; i++)
        H_EQUAL(got[i * 7 % WORDS], i + 1);
    for (uint32_t i = 0; i < MANY; i++)
        H_OK(trp_fill(d, b, i % WORDS * 4, 4, i ^ 0x5555, 4, NULL));
    for (uint32_t i = 0; i < MANY; i++)
        H_OK(trp_read(d, b, i % WORDS * 4, &each[i], 4, NULL));
    H_OK(trp_device_drain(d, H_LONG));
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t last = MANY - 1 - (MANY - 1 - i % WORDS) % WORDS;
        H_EQUAL(each[i], last ^ 0x5555);
    }
    free(each);
    h_close(&world);
}

/* Copies of all ways, more than each way has places for. */
static void copies_of_all_sizes(void)
{
    enum { COPIES = 1500, MOST = 200 << 10 };
    static const uint64_t sizes[] = {1, 1535, 1536, 1537, 64 * 1024, 64 * 1024 + 1, 200 * 1024};
    world = h_open(NULL);
    trp_device *d = world.device;
    char *source = h_random_block(h_rng(), MOST + COPIES), *got = h_malloc(MOST),
         *unread = h_malloc((size_t)MOST * 100);
    trp_buffer b = h_buffer(d, (uint64_t)MOST * 8);
    for (uint64_t i = 0; i < COPIES; i++) {
        uint64_t bytes = sizes[i % 7];
        H_OK(trp_write(d, b, i % 8 * MOST, source + i, bytes, NULL));
        H_OK(trp_read(d, b, i % 8 * MOST, i % 100 == 99 ? got : unread + i % 100 * MOST, bytes,
                      NULL));
        if (i % 100 != 99)
            continue;
        H_OK(trp_device_drain(d, H_LONG));
        H_SAME(got, source + i, bytes);
    }
    free(source);
    free(got);
    free(unread);
    h_close(&world);
}

/* ---- what requests bring along ---- */

enum { N = 16, CHAIN = 14 };

/* y = x + x + ...: `nodes` of them, whose description is larger than a record takes. */
static trp_status add_up(trp_actor *dnn, trp_buffer x, trp_buffer y, uint32_t nodes,
                         int64_t wait_ns)
{
    trp_dnn_tensor t[CHAIN + 2] = {{0}};
    trp_dnn_node node[CHAIN] = {{0}};
    for (uint32_t i = 1; i <= nodes + 1; i++)
        t[i] = (trp_dnn_tensor){.type = TRP_F32, .rank = 1, .dim = {N}};
    t[1].buffer = x;
    t[nodes + 1].buffer = y;
    for (uint32_t i = 0; i < nodes; i++)
        node[i] = (trp_dnn_node){
            .kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_ADD, .x = i + 1, .b = 1, .y = i + 2};
    return trp_dnn_graph(dnn,
                         &(trp_dnn_graph_request){.header.wait_ns = wait_ns,
                                                  .tensors = t,
                                                  .tensor_count = nodes + 2,
                                                  .nodes = node,
                                                  .node_count = nodes},
                         NULL);
}

static void sums_are(trp_buffer y, float sum)
{
    float got[N];
    h_read(world.device, y, 0, got, sizeof got);
    for (int i = 0; i < N; i++)
        H_CHECK(got[i] == sum);
}

/* Small layers that wait, as many as the mailbox takes, keep no copy waiting; nor do large ones,
 * which have a bounded pool. */
static void layers_behind_a_slow_request(void)
{
    enum { LAYERS = 1000, BYTES = 40 << 10 };
    world = h_open(NULL);
    trp_device *d = world.device;
    trp_actor *dnn = h_actor(d, "dnn");
    h_gate gate = h_gate_create(d, N * 4);
    trp_buffer y = h_filled(d, N * 4, 0), large = h_filled(d, BYTES, 0),
               other = h_filled(d, BYTES, 0);
    char *bytes = h_random_block(h_rng(), BYTES), *back = h_malloc(BYTES);
    H_OK(add_up(dnn, gate.buffer, y, 2, 0)); /* plans are made before */
    H_OK(add_up(dnn, gate.buffer, y, CHAIN, 0));
    for (int64_t ns = 200 * H_MS;; ns *= 2) {
        trp_completion copied = {0};
        H_OK(trp_device_drain(d, H_LONG));
        memset(back, 0, BYTES);
        h_gate_close(&gate, ns);
        for (int i = 0; i < LAYERS - POOL; i++)
            H_OK(add_up(dnn, gate.buffer, y, 2, TRP_NOWAIT));
        for (int i = 0; i < POOL; i++)
            H_OK(add_up(dnn, gate.buffer, y, CHAIN, TRP_NOWAIT));
        trp_status full = add_up(dnn, gate.buffer, y, CHAIN, TRP_NOWAIT);
        bool said = strstr(trp_error_message(), "graphs of dnn") != NULL;
        trp_status small = add_up(dnn, gate.buffer, y, 2, TRP_NOWAIT);
        H_OK(trp_write(d, large, 0, bytes, BYTES, NULL));
        H_OK(trp_copy(d, large, 0, other, 0, BYTES, NULL));
        H_OK(trp_fill(d, other, 0, 4, 0, 4, NULL));
        H_OK(trp_read(d, other, 0, back, BYTES, &copied));
        H_OK(h_await_any(copied));
        H_SAME(back + 4, bytes + 4, BYTES - 4);
        bool closed = h_gate_closed(&gate);
        H_OK(add_up(dnn, gate.buffer, y, CHAIN, 0)); /* waits until the gate opens */
        h_gate_open(&gate);
        if (!closed)
            continue;
        H_IS(full, TRP_E_BUSY);
        H_CHECK(said);
        H_OK(small);
        break;
    }
    h_fill(d, gate.buffer, 0x3f800000);
    for (int i = 0; i < 3 * POOL; i++)
        H_OK(add_up(dnn, gate.buffer, y, CHAIN, 0));
    sums_are(y, CHAIN + 1);
    free(bytes);
    free(back);
    h_close(&world);
}

/* ---- a mailbox ---- */

static void mailbox(void)
{
    trp_device_options options = h_options();
    options.mailbox_size = 8;
    world = h_open(&options);
    trp_actor *probe = h_actor(world.device, "probe");
    for (int64_t ns = 100 * H_MS;; ns *= 2) {
        trp_completion first = {0}, last = {0};
        trp_status status = TRP_OK;
        h_spin(probe, ns, &first);
        int sent = 1;
        while (sent < 1000 &&
               (status = trp_probe(probe, &(trp_probe_request){.header.wait_ns = TRP_NOWAIT},
                                   NULL)) == TRP_OK)
            sent++;
        if (status != TRP_OK)
            H_SAYS("(TRP_NOWAIT)");
        bool slow = trp_await(first.future, 0, NULL) != TRP_E_TIMEOUT;
        h_probe(probe, TRP_PROBE_NOP, &last); /* waits */
        H_OK(h_await_any(last));
        if (slow)
            continue;
        H_IS(status, TRP_E_BUSY);
        H_EQUAL(sent, 8);
        H_OK(h_await_any(first));
        break;
    }
    H_IS(trp_probe(probe, &(trp_probe_request){.header.wait_ns = -3}, NULL), TRP_E_ARGUMENT);
    H_SAYS("wait_ns: expected nanoseconds, 0 or TRP_FOREVER");
    H_IS(trp_probe(probe, &(trp_probe_request){.header.wait_ns = INT64_MIN}, NULL), TRP_E_ARGUMENT);
    h_close(&world);
}

/* As a timeout it polls, as 0 does. */
static void nowait_as_a_timeout(void)
{
    world = h_open(NULL);
    trp_actor *probe = h_actor(world.device, "probe");
    trp_queue *queue;
    trp_event event;
    trp_completion c = {0};
    H_OK(trp_queue_create(world.system, &queue));
    h_spin(probe, 200 * H_MS, &c);
    trp_status status = trp_await(c.future, TRP_NOWAIT, NULL);
    H_CHECK(status == TRP_OK || status == TRP_E_TIMEOUT);
    H_IS(trp_queue_next(queue, TRP_NOWAIT, &event), TRP_E_TIMEOUT);
    status = trp_device_drain(world.device, TRP_NOWAIT);
    H_CHECK(status == TRP_OK || status == TRP_E_TIMEOUT);
    H_OK(trp_device_drain(world.device, H_LONG));
    H_OK(trp_queue_destroy(queue));
    h_close(&world);
}

/* ---- what only the program can free ---- */

static void all_are_refused(trp_actor *probe, trp_actor *blas, trp_buffer b)
{
    trp_device *d = world.device;
    char byte[4] = {0};
    char *large = calloc(1, 1 << 20);
    trp_gemm_item item[2] = {{.a = b, .b = b, .c = b, .c_offset = 256},
                             {.a = b, .b = b, .c = b, .c_offset = 512}};
    const trp_gemm_list_request list = {
        .common = {.type = TRP_F32, .m = 1, .n = 1, .k = 1}, .count = 2, .item = item};
    h_check_status(__FILE__, __LINE__, "probe",
                   trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_NOP}, NULL),
                   TRP_E_BUSY);
    H_SAYS("16384 requests of this device have ended");
    H_IS(trp_write(d, b, 0, byte, 4, NULL), TRP_E_BUSY);
    H_IS(trp_write(d, b, 0, large, 1 << 20, NULL), TRP_E_BUSY);
    H_IS(trp_read(d, b, 0, byte, 4, NULL), TRP_E_BUSY);
    H_IS(trp_copy(d, b, 0, b, 8, 4, NULL), TRP_E_BUSY);
    H_IS(trp_fill(d, b, 0, 4, 0, 4, NULL), TRP_E_BUSY);
    H_IS(trp_gemm_list(blas, &list, NULL), TRP_E_BUSY);
    free(large);
}

static trp_actor *open_table(trp_actor **blas, trp_buffer *b)
{
    world = h_open(NULL);
    *blas = h_actor(world.device, "blas");
    *b = h_filled(world.device, 1 << 20, 0);
    H_OK(trp_device_drain(world.device, H_LONG));
    return h_actor(world.device, "probe");
}

/* Futures that nobody takes fill the table: each call says so at once. */
static void futures_fill_the_table(void)
{
    trp_actor *blas;
    trp_buffer b;
    trp_actor *probe = open_table(&blas, &b);
    trp_completion *c = h_malloc(SLOTS * sizeof *c);
    memset(c, 0, SLOTS * sizeof *c);
    for (int i = 0; i < SLOTS; i++)
        h_probe(probe, TRP_PROBE_NOP, &c[i]); /* also while the last are still running */
    all_are_refused(probe, blas, b);
    /* Room for one, then: a list of two is refused, others are not. */
    trp_future_drop(c[SLOTS / 2].future);
    trp_gemm_item item[2] = {{.a = b, .b = b, .c = b, .c_offset = 256},
                             {.a = b, .b = b, .c = b, .c_offset = 512}};
    trp_gemm_list_request list = {
        .common = {.type = TRP_F32, .m = 1, .n = 1, .k = 1}, .count = 2, .item = item};
    H_IS(trp_gemm_list(blas, &list, NULL), TRP_E_BUSY);
    for (int i = 0; i < 1000; i++)
        H_OK(trp_fill(world.device, b, 0, 4, 1, 4, NULL));
    trp_future_drop(c[7].future);
    for (int i = 0; i < 100; i++)
        H_OK(trp_gemm_list(blas, &list, NULL));
    for (int i = 0; i < SLOTS; i++) {
        if (i != 7 && i != SLOTS / 2)
            H_OK(h_await_any(c[i]));
    }
    free(c);
    h_close(&world);
}

/* So do events that nobody takes from a queue, and lists whose ends nobody takes. */
static void events_fill_the_table(void)
{
    trp_actor *blas;
    trp_buffer b;
    trp_actor *probe = open_table(&blas, &b);
    trp_queue *queue;
    trp_event event;
    static trp_gemm_item item[64];
    trp_gemm_list_request list = {
        .common = {.type = TRP_F32, .m = 1, .n = 1, .k = 1}, .count = 64, .item = item};
    for (uint64_t i = 0; i < 64; i++)
        item[i] = (trp_gemm_item){.a = b, .b = b, .c = b, .c_offset = 256 + 4 * i};
    H_OK(trp_queue_create(world.system, &queue));
    for (int i = 0; i < SLOTS / 128; i++)
        H_OK(trp_gemm_list(blas, &list, &(trp_completion){.queue = queue}));
    for (int i = 0; i < SLOTS / 2; i++)
        h_probe(probe, TRP_PROBE_NOP, &(trp_completion){.queue = queue});
    all_are_refused(probe, blas, b);
    H_OK(trp_queue_next(queue, H_LONG, &event));
    h_probe(probe, TRP_PROBE_NOP, &(trp_completion){.queue = queue});
    for (int i = 0; i < SLOTS / 128 + SLOTS / 2; i++)
        H_OK(trp_queue_next(queue, H_LONG, &event));
    H_IS(trp_queue_next(queue, 0, &event), TRP_E_TIMEOUT);
    H_OK(trp_queue_destroy(queue));
    h_close(&world);
}

/* ---- several senders ---- */

typedef struct sender {
    trp_actor *probe;
    trp_buffer buffer;
    ref_rng rng;
} sender;

static void *send(void *argument)
{
    sender *s = argument;
    static const char source[100 << 10];
    trp_device *d = trp_actor_device(s->probe);
    for (int i = 0; i < (H_SANITIZED ? 2000 : 20000); i++) {
        switch (ref_rng_below(&s->rng, 5)) {
        case 0:
            H_OK(trp_write(d, s->buffer, 0, source, 1 + ref_rng_below(&s->rng, 4000), NULL));
            break;
        case 1:
            H_OK(trp_fill(d, s->buffer, 0, 64, 1, 4, NULL));
            break;
        case 2: {
            trp_completion c = {0};
            H_OK(trp_copy(d, s->buffer, 0, s->buffer, 8192, 4096, &c));
            if (ref_rng_below(&s->rng, 2))
                trp_future_drop(c.future);
            else
                H_OK(h_await_any(c));
            break;
        }
        case 3:
            H_OK(trp_write(d, s->buffer, 0, source, sizeof source, NULL));
            break;
        default:
            h_probe(s->probe, TRP_PROBE_NOP, NULL);
        }
    }
    return NULL;
}

/* Small mailboxes, all kinds of calls: nobody is refused, nobody stays. */
static void senders_in_small_mailboxes(void)
{
    enum { SENDERS = 4 };
    trp_device_options options = h_options();
    options.mailbox_size = 2;
    world = h_open(&options);
    trp_actor *probe = h_actor(world.device, "probe");
    sender s[SENDERS];
    h_thread *t[SENDERS];
    for (int i = 0; i < SENDERS; i++) {
        s[i] = (sender){
            .probe = probe, .buffer = h_filled(world.device, 256 << 10, 0), .rng = h_rng_fork()};
        t[i] = h_start(send, &s[i]);
    }
    for (int i = 0; i < SENDERS; i++)
        h_join(t[i]);
    H_OK(trp_device_drain(world.device, H_LONG));
    h_close(&world);
}

/* A list that needs all of a mailbox gets it, though others want its places one by one. */
typedef struct crowd {
    trp_actor *blas;
    trp_buffer buffer;
    _Atomic bool over;
} crowd;

static void *press(void *argument)
{
    crowd *c = argument;
    while (!atomic_load(&c->over)) {
        const trp_gemm_request r = {.type = TRP_F32,
                                    .m = 1,
                                    .n = 1,
                                    .k = 1,
                                    .a = c->buffer,
                                    .b = c->buffer,
                                    .c = c->buffer,
                                    .c_offset = 4096};
        H_OK(trp_gemm(c->blas, &r, NULL));
    }
    return NULL;
}

static void lists_among_others(void)
{
    enum { MAILBOX = 16, OTHERS = 3 };
    trp_device_options options = h_options();
    options.mailbox_size = MAILBOX;
    world = h_open(&options);
    crowd c = {.blas = h_actor(world.device, "blas"), .buffer = h_filled(world.device, 8192, 0)};
    h_thread *other[OTHERS];
    trp_gemm_item item[MAILBOX];
    for (uint64_t i = 0; i < MAILBOX; i++)
        item[i] =
            (trp_gemm_item){.a = c.buffer, .b = c.buffer, .c = c.buffer, .c_offset = 256 + 4 * i};
    const trp_gemm_list_request list = {
        .common = {.type = TRP_F32, .m = 1, .n = 1, .k = 1}, .count = MAILBOX, .item = item};
    for (int i = 0; i < OTHERS; i++)
        other[i] = h_start(press, &c);
    for (int i = 0; i < (H_SANITIZED ? 50 : 300); i++)
        H_OK(trp_gemm_list(c.blas, &list, NULL));
    atomic_store(&c.over, true);
    for (int i = 0; i < OTHERS; i++)
        h_join(other[i]);
    H_OK(trp_device_drain(world.device, H_LONG));
    h_close(&world);
}

H_CASES(H_CASE(hundred_thousand_copies), H_CASE(copies_of_all_sizes),
        H_CASE(layers_behind_a_slow_request), H_CASE(mailbox), H_CASE(nowait_as_a_timeout),
        H_CASE(futures_fill_the_table), H_CASE(events_fill_the_table),
        H_CASE(senders_in_small_mailboxes), H_CASE(lists_among_others))

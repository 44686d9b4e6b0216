/* Objects after their end, and objects of somebody else: each is found out, whatever took its
 * place. */
#include "support/harness.h"

#include <troupe/observe.h>

#include <stdatomic.h>
#include <unistd.h>

TROUPE_TEST_FAKE_GPU("no tsan");

enum { BYTES = 256 };

static trp_status send(trp_actor *actor, trp_completion *completion)
{
    return trp_probe(actor, &(trp_probe_request){.action = TRP_PROBE_NOP}, completion);
}

/* An actor takes the number and the memory of one before it, whose handle names nobody. */
static void destroyed_actors(void)
{
    h_world w = h_open(NULL);
    trp_actor *old[100];
    trp_completion c = {0};
    for (int i = 0; i < 100; i++) {
        old[i] = h_actor(w.device, "probe");
        H_OK(send(old[i], NULL));
        trp_actor_destroy(old[i]);
    }
    trp_actor *now = h_actor(w.device, "probe");
    for (int i = 0; i < 100; i++) {
        H_CHECK(old[i] != now);
        H_IS(send(old[i], &c), TRP_E_STALE);
        H_SAYS("actor");
        trp_actor_destroy(old[i]); /* nothing to do */
        H_CHECK(trp_actor_device(old[i]) == NULL);
        H_EQUAL(trp_error_last()->status, TRP_E_STALE);
    }
    H_OK(send(now, &c));
    H_OK(h_await_any(c));
    H_CHECK(trp_actor_device(now) == w.device);
    trp_actor *left = h_actor(w.device, "blas");
    trp_device_close(w.device);
    /* As the destructors of C++ have it. */
    trp_actor_destroy(now);
    trp_actor_destroy(left);
    trp_actor_destroy(old[0]);
    H_IS(send(now, NULL), TRP_E_STALE);
    H_CHECK(trp_actor_device(left) == NULL);
    H_OK(trp_system_destroy(w.system));
}

static void destroyed_actor_of_every_kind(void)
{
    static const char *const kinds[] = {"blas", "matmul", "dnn", "jit", "cutlass", "probe"};
    h_world w = h_open(NULL);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        trp_actor *actor = NULL;
        if (trp_actor_create(w.device, &(trp_actor_options){.kind = kinds[i]}, &actor) != TRP_OK)
            continue;
        trp_actor_destroy(actor);
        trp_actor_destroy(actor);
        H_IS(send(actor, NULL), TRP_E_STALE);
        H_IS(trp_gemm_list(actor, &(trp_gemm_list_request){0}, NULL), TRP_E_STALE);
    }
    h_close(&w);
}

typedef struct race {
    trp_actor *actor;
    trp_device *device;
    atomic_int at;
} race;

static void *destroy_it(void *argument)
{
    race *r = argument;
    atomic_fetch_add(&r->at, 1);
    while (atomic_load(&r->at) < 4)
        continue;
    trp_actor_destroy(r->actor);
    return NULL;
}

static void destroyed_by_four_threads(void)
{
    h_world w = h_open(NULL);
    for (int i = 0; i < 50; i++) {
        race r = {.actor = h_actor(w.device, "probe")};
        h_thread *threads[4];
        for (int k = 0; k < 4; k++)
            threads[k] = h_start(destroy_it, &r);
        for (int k = 0; k < 4; k++)
            h_join(threads[k]);
        H_IS(send(r.actor, NULL), TRP_E_STALE);
    }
    h_close(&w);
}

/* What a closed device is asked in vain. */
typedef struct leftovers {
    trp_device *device;
    trp_actor *actor;
    trp_buffer buffer;
    trp_future future;
    void *memory;
    trp_watch *watch;
    trp_queue *queue;
} leftovers;

static leftovers leave(h_world *w)
{
    trp_completion c = {0};
    leftovers l = {.device = w->device,
                   .actor = h_actor(w->device, "probe"),
                   .buffer = h_buffer(w->device, BYTES)};
    H_OK(trp_queue_create(w->system, &l.queue));
    H_OK(trp_device_watch(w->device, &(trp_watch_options){.queue = l.queue}, &l.watch));
    H_OK(trp_host_alloc(w->device, BYTES, &l.memory));
    H_OK(send(l.actor, &c));
    l.future = c.future;
    trp_device_close(w->device);
    return l;
}

#define STALE(call)                                                                                \
    do {                                                                                           \
        H_IS(call, TRP_E_STALE);                                                                   \
        H_SAYS("closed");                                                                          \
    } while (0)

static void check_closed(const leftovers *l)
{
    static trp_device_stats stats;
    trp_device *d = l->device;
    trp_device_info info;
    trp_buffer made;
    trp_buffer_info what;
    trp_module_info module;
    trp_actor *actor;
    trp_watch *watch;
    void *memory;
    char word[4];
    uint64_t bytes;
    STALE(trp_device_get_info(d, &info));
    STALE(trp_device_get_stats(d, &stats));
    STALE(trp_device_drain(d, 0));
    STALE(trp_device_trim(d));
    STALE(trp_device_trace_start(d, NULL));
    STALE(trp_device_trace_stop(d));
    STALE(trp_device_trace_write(d, "/nowhere/none"));
    STALE(trp_device_watch(d, &(trp_watch_options){.queue = l->queue}, &watch));
    STALE(trp_actor_create(d, &(trp_actor_options){.kind = "probe"}, &actor));
    STALE(trp_buffer_create(d, BYTES, &made));
    STALE(trp_buffer_create_with(d, &(trp_buffer_options){.bytes = BYTES}, &made));
    STALE(trp_buffer_seal(d, l->buffer, 0));
    STALE(trp_buffer_unseal(d, l->buffer));
    STALE(trp_buffer_free(d, l->buffer));
    STALE(trp_buffer_get_info(d, l->buffer, &what));
    STALE(trp_write(d, l->buffer, 0, word, 4, NULL));
    STALE(trp_read(d, l->buffer, 0, word, 4, NULL));
    STALE(trp_copy(d, l->buffer, 0, l->buffer, 8, 4, NULL));
    STALE(trp_fill(d, l->buffer, 0, 4, 0, 4, NULL));
    STALE(trp_host_alloc(d, BYTES, &memory));
    STALE(trp_host_free(d, l->memory));
    STALE(trp_module_free(d, (trp_module){1}));
    STALE(trp_module_get_info(d, (trp_module){1}, &module));
    STALE(trp_module_read(d, (trp_module){1}, TRP_MODULE_LOG, word, 4, &bytes));
    STALE(send(l->actor, NULL));
    STALE(trp_await(l->future, 0, NULL));
    STALE(trp_cancel(l->future));
    trp_future_drop(l->future);
    trp_actor_destroy(l->actor);
    trp_watch_end(l->watch);
    trp_device_close(d);
}

static void closed_devices(void)
{
    trp_event event;
    h_world w = h_open(NULL);
    leftovers first = leave(&w);
    check_closed(&first);
    /* One that takes its place is another. */
    trp_device_options options = h_options();
    H_OK(trp_device_open(w.system, &options, &w.device));
    H_CHECK(w.device != first.device);
    leftovers second = leave(&w);
    check_closed(&first);
    check_closed(&second);
    H_IS(trp_queue_next(first.queue, 0, &event), TRP_E_TIMEOUT);
    H_OK(trp_queue_destroy(first.queue));
    H_OK(trp_queue_destroy(second.queue));
    H_OK(trp_system_destroy(w.system));
}

/* The resident bytes of this process. */
static uint64_t resident(void)
{
    unsigned long long total = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    H_CHECK(file && fscanf(file, "%llu %llu", &total, &pages) == 2);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What stays of a device is addresses, not memory. */
static void closed_devices_cost_nothing(void)
{
    enum { ROUNDS = 60, A_DEVICE = 171000, ATTEMPTS = 4 };
    trp_device_options options = h_options();
    h_world w = h_open(NULL);
    uint64_t least = UINT64_MAX;
    /* Heaps and stacks of threads grow now and then, which says nothing of devices. */
    for (int attempt = 0; attempt < ATTEMPTS && least > ROUNDS * (uint64_t)A_DEVICE / 2;
         attempt++) {
        uint64_t before = 0;
        for (int i = 0; i < ROUNDS + 4; i++) {
            if (i == 4)
                before = resident();
            trp_device_close(w.device);
            H_OK(trp_device_open(w.system, &options, &w.device));
        }
        const uint64_t after = resident(), grown = after > before ? after - before : 0;
        least = grown < least ? grown : least;
    }
    if (!H_SANITIZED && least > ROUNDS * (uint64_t)A_DEVICE / 2)
        h_fail(__FILE__, __LINE__, "%d closed devices take %" PRIu64 " bytes", ROUNDS, least);
    h_close(&w);
}

/* Every call that takes a completion, with one that names a queue that it can't be told to. */
static void refused(const h_world *w, trp_queue *queue, trp_status wanted)
{
    enum { LARGE = 1 << 20 };
    static char block[LARGE];
    trp_buffer small = h_buffer(w->device, BYTES), large = h_buffer(w->device, LARGE);
    trp_actor *probe = h_actor(w->device, "probe"), *blas = h_actor(w->device, "blas");
    trp_completion c = {.queue = queue};
    void *memory;
    trp_watch *watch;
    trp_gemm_request gemm = {
        .type = TRP_F32, .m = 4, .n = 4, .k = 4, .a = small, .b = small, .c = large};
    trp_gemm_request shape = {.type = TRP_F32, .m = 4, .n = 4, .k = 4};
    trp_gemm_item item = {.a = small, .b = small, .c = large};
    H_OK(trp_host_alloc(w->device, BYTES, &memory));
    h_fill(w->device, small, 0);
    h_fill(w->device, large, 0);
    const trp_status got[] = {
        send(probe, &c),
        trp_write(w->device, small, 0, block, BYTES, &c),
        trp_write(w->device, large, 0, block, LARGE, &c),
        trp_write(w->device, small, 0, memory, BYTES, &c),
        trp_read(w->device, small, 0, block, BYTES, &c),
        trp_read(w->device, large, 0, block, LARGE, &c),
        trp_copy(w->device, small, 0, large, 0, BYTES, &c),
        trp_fill(w->device, small, 0, BYTES, 1, 1, &c),
        trp_gemm(blas, &gemm, &c),
        trp_gemm_list(blas, &(trp_gemm_list_request){.common = shape, .count = 1, .item = &item},
                      &c),
    };
    for (size_t i = 0; i < sizeof got / sizeof *got; i++)
        H_EQUAL(got[i], wanted);
    H_SAYS("completion.queue");
    H_IS(trp_device_watch(w->device, &(trp_watch_options){.queue = queue}, &watch), wanted);
    H_SAYS("queue");
    /* Nothing of it was sent, and nothing is held. */
    uint32_t word;
    h_read(w->device, small, 0, &word, sizeof word);
    H_EQUAL(word, 0);
    H_OK(trp_host_free(w->device, memory));
    trp_actor_destroy(probe);
    trp_actor_destroy(blas);
    H_OK(trp_buffer_free(w->device, small));
    H_OK(trp_buffer_free(w->device, large));
    H_OK(trp_device_drain(w->device, H_LONG));
    H_EQUAL(h_info(w->device).buffers, 0);
}

static void queues(void)
{
    h_world w = h_open(NULL);
    trp_system *elsewhere = h_system_create(NULL);
    trp_queue *foreign, *ended, *good;
    trp_event event;
    H_OK(trp_queue_create(elsewhere, &foreign));
    H_OK(trp_queue_create(w.system, &ended));
    H_OK(trp_queue_create(w.system, &good));
    H_OK(trp_queue_destroy(ended));
    refused(&w, foreign, TRP_E_ARGUMENT);
    refused(&w, ended, TRP_E_STALE);
    H_IS(trp_queue_destroy(ended), TRP_E_STALE);
    H_IS(trp_queue_next(ended, 0, &event), TRP_E_STALE);
    H_EQUAL(trp_queue_fd(ended), -1);
    H_EQUAL(trp_error_last()->status, TRP_E_STALE);
    /* One that is not refused. */
    trp_actor *probe = h_actor(w.device, "probe");
    trp_completion c = {.queue = good};
    H_OK(send(probe, &c));
    H_IS(trp_queue_destroy(good), TRP_E_BUSY);
    H_OK(trp_queue_next(good, H_LONG, &event));
    H_OK(trp_queue_destroy(good));
    /* The queue's system may end first. */
    H_OK(trp_queue_destroy(foreign));
    H_OK(trp_system_destroy(elsewhere));
    h_close(&w);
}

static atomic_uint calls;
static _Atomic(trp_watch *) itself;

static void end_itself(void *user_data, const trp_notice *notice)
{
    (void)user_data;
    (void)notice;
    atomic_fetch_add(&calls, 1);
    while (!atomic_load(&itself))
        continue;
    trp_watch_end(atomic_load(&itself));
    trp_watch_end(atomic_load(&itself));
}

static void watches(void)
{
    h_world w = h_open(NULL);
    trp_watch *watch, *many[200];
    trp_queue *queue;
    H_OK(trp_queue_create(w.system, &queue));
    for (int i = 0; i < 200; i++) {
        H_OK(trp_device_watch(w.device, &(trp_watch_options){.queue = queue}, &many[i]));
        trp_watch_end(many[i]);
        trp_watch_end(many[i]);
    }
    H_OK(trp_queue_destroy(queue));
    /* Ended by its callback, twice, and again later. */
    H_OK(trp_device_watch(w.device,
                          &(trp_watch_options){.callback = end_itself,
                                               .events = TRP_NOTICE_BIT(TRP_NOTICE_ACTOR_RESTART)},
                          &watch));
    atomic_store(&itself, watch);
    trp_actor *probe = h_actor(w.device, "probe");
    for (int i = 0; i < 3; i++) {
        trp_completion c = {0};
        h_probe(probe, TRP_PROBE_ACTOR_ERROR, &c);
        H_IS(h_await_any(c), TRP_E_LIBRARY);
    }
    while (atomic_load(&calls) == 0)
        h_sleep(H_MS);
    trp_watch_end(watch);
    trp_device_close(w.device);
    trp_watch_end(watch);
    trp_watch_end(many[0]);
    H_EQUAL(atomic_load(&calls), 1);
    H_OK(trp_system_destroy(w.system));
}

/* Values: buffers and futures of another device, of a device that is gone, and ended ones. */
static void values(void)
{
    h_world w = h_open(NULL), other = h_open(NULL);
    trp_buffer ours = h_buffer(w.device, BYTES), theirs = h_buffer(other.device, BYTES);
    trp_buffer_info info;
    void *memory;
    char word[4] = {0};
    H_IS(trp_write(w.device, theirs, 0, word, 4, NULL), TRP_E_STALE);
    H_SAYS("another device");
    H_IS(trp_copy(w.device, ours, 0, theirs, 0, 4, NULL), TRP_E_STALE);
    H_IS(trp_buffer_free(w.device, theirs), TRP_E_STALE);
    H_IS(trp_buffer_get_info(w.device, theirs, &info), TRP_E_STALE);
    H_IS(trp_buffer_seal(w.device, theirs, 0), TRP_E_STALE);
    H_OK(trp_host_alloc(other.device, BYTES, &memory));
    H_IS(trp_host_free(w.device, memory), TRP_E_STALE);
    H_OK(trp_host_free(other.device, memory));
    H_IS(trp_host_free(other.device, memory), TRP_E_STALE);
    h_close(&other);
    H_IS(trp_write(w.device, theirs, 0, word, 4, NULL), TRP_E_STALE);
    H_OK(trp_buffer_free(w.device, ours));
    H_IS(trp_buffer_free(w.device, ours), TRP_E_STALE);
    H_IS(trp_fill(w.device, ours, 0, 4, 0, 4, NULL), TRP_E_STALE);
    h_close(&w);
}

H_CASES(H_CASE(destroyed_actors), H_CASE(destroyed_actor_of_every_kind),
        H_CASE(destroyed_by_four_threads), H_CASE(closed_devices),
        H_CASE(closed_devices_cost_nothing), H_CASE(queues), H_CASE(watches), H_CASE(values))

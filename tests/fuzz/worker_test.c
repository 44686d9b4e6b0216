/* A worker that has lost its mind, or is malicious: whatever it writes to what it can write, sends,
 * or leaves undone, the application reports a fault; it does not crash, hang, or touch memory that
 * is not its own (a sanitizer's to see). See fuzz/rogue.h for what such workers do.
 *
 * All kinds run at a time, each against a device and two threads that use it; then one at a time
 * with other seeds, at random, for TROUPE_TEST_SECONDS. A round is repeated by its seed alone, as
 * far as the timing of processes allows: worker_test KIND SEED.
 *
 * Every request has a deadline here, so each must end, exactly once; what it ends with, and the
 * data, is worth nothing. */
#include "support/harness.h"
#include "fuzz/rogue.h"

#include <stdatomic.h>
#include <unistd.h>

enum {
    OPERATIONS = 120, /* of each thread in a round */
    THREADS = 2,
    BUFFERS = 6,
    PENDING = 24,
    ACTORS = 2,
    SMALL = 20000,
    LARGE = 1 << 20,
};

/* No call may take longer, whatever the worker does: see await_end() for the longest. */
#define LONGEST (45 * H_SEC)

/* ---- watching for calls that hang ---- */

enum { WATCHED = 64 };

typedef struct watch {
    _Atomic(const char *) call; /* NULL: none */
    _Atomic int64_t since;
    _Atomic(const char *) kind;
} watch;

static watch watches[WATCHED];
static _Atomic uint32_t watch_count;
static _Thread_local watch *mine;

static void enter(const char *call)
{
    atomic_store(&mine->since, h_now());
    atomic_store(&mine->call, call);
}

static trp_status leave(trp_status status)
{
    atomic_store(&mine->call, NULL);
    H_CHECK(strcmp(trp_status_name(status), "TRP_E_UNKNOWN") != 0);
    return status;
}

#define TIMED(call)      (enter(#call), leave(call))
#define TIMED_VOID(call) (enter(#call), (call), (void)leave(TRP_OK))

static void *watch_all(void *stop)
{
    while (!atomic_load((_Atomic bool *)stop)) {
        for (uint32_t i = 0; i < atomic_load(&watch_count) && i < WATCHED; i++) {
            const char *call = atomic_load(&watches[i].call);
            if (call && h_now() - atomic_load(&watches[i].since) > LONGEST)
                h_fail(__FILE__, __LINE__, "with a worker that is %s, this hangs: %s",
                       atomic_load(&watches[i].kind), call);
        }
        h_sleep(20 * H_MS);
    }
    return NULL;
}

/* ---- what is always true of an error ---- */

static void check_text(const char *text, size_t size)
{
    size_t n = strnlen(text, size);
    H_CHECK(n < size);
    for (size_t i = 0; i < n; i++)
        H_CHECK((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
}

static void check_error(const trp_error *error)
{
    H_CHECK(strcmp(trp_status_name(error->status), "TRP_E_UNKNOWN") != 0);
    H_CHECK(error->fault >= TRP_FAULT_NONE && error->fault <= TRP_FAULT_BROKEN);
    H_CHECK(error->status != TRP_E_FAULT || error->fault != TRP_FAULT_NONE);
    check_text(error->domain, sizeof error->domain);
    check_text(error->actor, sizeof error->actor);
    check_text(error->message, sizeof error->message);
    H_CHECK(error->status == TRP_OK || error->message[0]);
}

/* ---- one thread's use of a device ---- */

typedef struct round {
    rogue_kind kind;
    uint64_t seed;
    trp_device *device;
    trp_queue *queue;
    _Atomic uint64_t queued; /* requests that go to the queue */
} round;

typedef struct pending {
    trp_future future;
    char *memory; /* freed when the request has ended */
} pending;

typedef struct user {
    round *round;
    ref_rng rng;
    trp_buffer buffer[BUFFERS];
    pending pending[PENDING];
    uint32_t count;
    trp_actor *probe[ACTORS];
    trp_actor *blas;
    char *host;
    uint64_t ended[TRP_E_INTERNAL + 1];
} user;

static size_t below(user *u, size_t bound)
{
    return ref_rng_below(&u->rng, bound);
}

static void end_of(user *u, trp_status status, const trp_error *error)
{
    check_error(error);
    H_CHECK(status == error->status);
    H_CHECK(u->round->kind != ROGUE_DEAF || error->fault != TRP_FAULT_SIGNAL); /* nobody else's */
    u->ended[status]++;
}

/* Waits for a request, which must end: its deadline sees to that. */
static void await_end(user *u, pending *p)
{
    trp_error error;
    trp_status status = TIMED(trp_await(p->future, LONGEST, &error));
    if (status == TRP_E_TIMEOUT)
        h_fail(__FILE__, __LINE__,
               "with a worker that is %s (seed %#" PRIx64
               "), a request does not end in spite of its deadline",
               rogue_name(u->round->kind), u->round->seed);
    end_of(u, status, &error);
    H_IS(TIMED(trp_await(p->future, 0, NULL)), TRP_E_STALE); /* exactly once */
    free(p->memory);
}

static void await_one(user *u)
{
    if (u->count == 0)
        return;
    size_t i = below(u, u->count);
    trp_error error;
    trp_status status = TIMED(trp_await(u->pending[i].future, (int64_t)below(u, 3) * H_MS, &error));
    if (status == TRP_E_TIMEOUT)
        return;
    end_of(u, status, &error);
    free(u->pending[i].memory);
    u->pending[i] = u->pending[--u->count];
}

/* Sends with a future or to the queue; `memory` is the request's until it has ended. */
typedef struct sending {
    trp_completion completion;
    char *memory;
} sending;

static sending begin(user *u, size_t bytes)
{
    sending s = {.memory = bytes ? h_malloc(bytes) : NULL};
    while (u->count == PENDING)
        await_end(u, &u->pending[--u->count]);
    if (bytes == 0 && below(u, 3) == 0) {
        s.completion.queue = u->round->queue;
        s.completion.user_data = u->round;
    }
    return s;
}

static void sent(user *u, sending *s, trp_status status)
{
    if (status != TRP_OK) {
        check_error(trp_error_last());
        free(s->memory);
    } else if (s->completion.queue) {
        atomic_fetch_add(&u->round->queued, 1);
    } else if (!s->memory && below(u, 8) == 0) {
        trp_future_drop(s->completion.future);
    } else {
        u->pending[u->count++] = (pending){.future = s->completion.future, .memory = s->memory};
    }
}

static trp_buffer any_buffer(user *u)
{
    return u->buffer[below(u, BUFFERS)];
}

static void copy(user *u)
{
    trp_device *device = u->round->device;
    trp_buffer b = any_buffer(u);
    bool large = below(u, 4) == 0;
    size_t bytes = 1 + below(u, large ? LARGE : SMALL);
    sending s = begin(u, bytes);
    if (below(u, 2)) {
        memset(s.memory, 1, bytes);
        sent(u, &s, TIMED(trp_write(device, b, below(u, 100), s.memory, bytes, &s.completion)));
    } else {
        sent(u, &s, TIMED(trp_read(device, b, below(u, 100), s.memory, bytes, &s.completion)));
    }
}

static void copy_direct(user *u)
{
    trp_device *device = u->round->device;
    if (!u->host)
        return;
    sending s = begin(u, 0);
    if (below(u, 2))
        sent(u, &s, TIMED(trp_write(device, any_buffer(u), 0, u->host, SMALL, &s.completion)));
    else
        sent(u, &s, TIMED(trp_read(device, any_buffer(u), 0, u->host, SMALL, &s.completion)));
}

static void fill(user *u)
{
    sending s = begin(u, 0);
    uint64_t bytes = LARGE / 4 * (1 + below(u, 4));
    sent(u, &s, TIMED(trp_fill(u->round->device, any_buffer(u), 0, bytes, 7, 1, &s.completion)));
}

static void copy_on_device(user *u)
{
    sending s = begin(u, 0);
    sent(u, &s,
         TIMED(trp_copy(u->round->device, any_buffer(u), 0, any_buffer(u), SMALL, SMALL,
                        &s.completion)));
}

static void probe(user *u)
{
    trp_actor *actor = u->probe[below(u, ACTORS)];
    if (!actor)
        return;
    trp_probe_request r = {.inputs = {any_buffer(u)}, .outputs = {any_buffer(u)}};
    sending s = begin(u, 0);
    sent(u, &s, TIMED(trp_probe(actor, &r, &s.completion)));
}

static void multiply(user *u)
{
    if (!u->blas)
        return;
    trp_gemm_request r = {.type = TRP_F32,
                          .m = 16,
                          .n = 16,
                          .k = 16,
                          .a = any_buffer(u),
                          .b = any_buffer(u),
                          .c = any_buffer(u),
                          .c_offset = 65536};
    sending s = begin(u, 0);
    sent(u, &s, TIMED(trp_gemm(u->blas, &r, &s.completion)));
}

static void remake_buffer(user *u)
{
    trp_buffer *b = &u->buffer[below(u, BUFFERS)];
    TIMED(trp_buffer_free(u->round->device, *b));
    *b = (trp_buffer){0};
    TIMED(trp_buffer_create(u->round->device, LARGE + 256, b));
}

static void remake_host(user *u)
{
    void *memory = NULL;
    if (u->host)
        TIMED(trp_host_free(u->round->device, u->host));
    u->host = NULL;
    if (TIMED(trp_host_alloc(u->round->device, LARGE, &memory)) == TRP_OK)
        u->host = memory;
    else
        check_error(trp_error_last());
}

static void remake_actor(user *u, trp_actor **actor, const char *kind)
{
    TIMED_VOID(trp_actor_destroy(*actor)); /* waits for its requests, which have deadlines */
    *actor = NULL;
    if (TIMED(trp_actor_create(u->round->device, &(trp_actor_options){.kind = kind}, actor)) !=
        TRP_OK) {
        check_error(trp_error_last());
        *actor = NULL;
    }
}

static void look(user *u)
{
    trp_device_info info;
    H_OK(TIMED(trp_device_get_info(u->round->device, &info)));
    H_CHECK(info.state >= TRP_DEVICE_READY && info.state <= TRP_DEVICE_DOWN);
    TIMED(trp_device_drain(u->round->device, H_MS));
    if (below(u, 4) == 0)
        TIMED(trp_device_trim(u->round->device));
}

static void one_operation(user *u)
{
    size_t what = below(u, 100);
    if (what < 25)
        copy(u);
    else if (what < 32)
        copy_direct(u);
    else if (what < 42)
        fill(u);
    else if (what < 48)
        copy_on_device(u);
    else if (what < 60)
        probe(u);
    else if (what < 68)
        multiply(u);
    else if (what < 88)
        await_one(u);
    else if (what < 93)
        remake_buffer(u);
    else if (what < 95)
        remake_host(u);
    else if (what < 97)
        remake_actor(u, &u->probe[below(u, ACTORS)], "probe");
    else if (what < 98)
        remake_actor(u, &u->blas, "blas");
    else
        look(u);
}

static void *use(void *argument)
{
    user *u = argument;
    mine = &watches[atomic_fetch_add(&watch_count, 1) % WATCHED];
    atomic_store(&mine->kind, rogue_name(u->round->kind));
    for (int i = 0; i < BUFFERS; i++)
        TIMED(trp_buffer_create(u->round->device, LARGE + 256, &u->buffer[i]));
    for (int i = 0; i < ACTORS; i++)
        remake_actor(u, &u->probe[i], "probe");
    remake_actor(u, &u->blas, "blas");
    remake_host(u);
    for (int i = 0; i < OPERATIONS; i++)
        one_operation(u);
    while (u->count > 0)
        await_end(u, &u->pending[--u->count]);
    for (int i = 0; i < ACTORS; i++)
        TIMED_VOID(trp_actor_destroy(u->probe[i]));
    return NULL;
}

/* ---- a round ---- */

/* Every request that was to come to the queue has come, and none twice. */
static void drain_queue(round *r)
{
    trp_event event;
    for (uint64_t left = atomic_load(&r->queued); left > 0; left--) {
        H_OK(TIMED(trp_queue_next(r->queue, LONGEST, &event)));
        H_CHECK(event.user_data == r && event.status == event.error.status);
        check_error(&event.error);
    }
    H_IS(TIMED(trp_queue_next(r->queue, 0, &event)), TRP_E_TIMEOUT);
}

static void use_device(round *r, ref_rng *rng)
{
    user *users = h_malloc(sizeof(user) * THREADS);
    h_thread *thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        users[i] = (user){.round = r};
        ref_rng_init(&users[i].rng, ref_rng_next(rng));
        thread[i] = h_start(use, &users[i]);
    }
    for (int i = 0; i < THREADS; i++)
        h_join(thread[i]);
    if (ref_rng_below(rng, 2) == 0)
        drain_queue(r);
    free(users);
}

static trp_device_options options_of(ref_rng *rng)
{
    return (trp_device_options){
        .backend = TRP_BACKEND_HOST,
        .standby = ref_rng_below(rng, 2) ? TRP_STANDBY_ON : TRP_STANDBY_OFF,
        .restart_budget = 1 + (uint32_t)ref_rng_below(rng, 3),
        .restart_window_ns = (uint64_t)(3600 * H_SEC),
        .mailbox_size = ref_rng_below(rng, 2) ? 16 : 0,
        .deadline_ns = (uint64_t)(H_SANITIZED ? 400 * H_MS : 100 * H_MS),
        .start_timeout_ns = (uint64_t)(H_SANITIZED ? 4 * H_SEC : H_SEC),
    };
}

/* What no application can take for a worker, whatever it is asked for. */
static bool must_show(rogue_kind kind)
{
    static const rogue_kind kinds[] = {ROGUE_MUTE,  ROGUE_CLERK,   ROGUE_BOASTER, ROGUE_FLOODER,
                                       ROGUE_HASTY, ROGUE_GARBLER, ROGUE_FORKER};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i] == kind)
            return true;
    }
    return false;
}

static void run_round(rogue_kind kind, uint64_t seed)
{
    char path[4200];
    ref_rng rng;
    round r = {.kind = kind, .seed = seed};
    ref_rng_init(&rng, seed);
    rogue_path(kind, seed, path, sizeof path);
    trp_system *system = h_system_create(path);
    trp_device_options options = options_of(&rng);
    if (kind == ROGUE_SEALS)
        options.start_timeout_ns = 30 * H_SEC; /* its answer counts, on a busy machine too */
    H_OK(trp_queue_create(system, &r.queue));
    trp_status status = TIMED(trp_device_open(system, &options, &r.device));
    if (status == TRP_OK) {
        use_device(&r, &rng);
        trp_device_info info = h_info(r.device);
        if (must_show(kind) && info.restarts == 0 && info.state != TRP_DEVICE_DOWN)
            h_fail(__FILE__, __LINE__, "a worker that is %s (seed %#" PRIx64 ") was not noticed",
                   rogue_name(kind), seed);
        TIMED_VOID(trp_device_close(r.device));
    } else {
        check_error(trp_error_last());
    }
    if (kind == ROGUE_SEALS) {
        H_EQUAL(status, TRP_E_MISSING);
        H_SAYS("worked: nothing");
    }
    H_OK(trp_queue_destroy(r.queue));
    H_OK(trp_system_destroy(system));
    unlink(path);
}

typedef struct task {
    rogue_kind kind;
    uint64_t seed;
} task;

static void *run_task(void *argument)
{
    const task *t = argument;
    mine = &watches[atomic_fetch_add(&watch_count, 1) % WATCHED];
    atomic_store(&mine->kind, rogue_name(t->kind));
    run_round(t->kind, t->seed);
    return NULL;
}

/* Runs several rounds at a time, for they mostly wait. */
static void run_tasks(task *tasks, size_t count)
{
    h_thread *thread[ROGUE_COUNT];
    atomic_store(&watch_count, 0);
    for (size_t i = 0; i < count; i++)
        thread[i] = h_start(run_task, &tasks[i]);
    for (size_t i = 0; i < count; i++)
        h_join(thread[i]);
}

static void each_kind(void)
{
    task tasks[ROGUE_COUNT];
    size_t count = 0;
    for (int i = 0; i < ROGUE_COUNT; i++) {
        if (!H_TSAN || ref_rng_below(h_rng(), 2) == 0)
            tasks[count++] = (task){.kind = (rogue_kind)i, .seed = ref_rng_next(h_rng()) >> 16};
    }
    run_tasks(tasks, count);
}

static void at_random(void)
{
    enum { AT_A_TIME = 6 };
    int64_t end = h_now() + h_soak_ns(2);
    do {
        task tasks[AT_A_TIME];
        for (int i = 0; i < AT_A_TIME; i++) {
            rogue_kind any = (rogue_kind)ref_rng_below(h_rng(), ROGUE_COUNT);
            tasks[i] = (task){.kind = i % 3 == 0   ? any
                                      : i % 3 == 1 ? ROGUE_MAD
                                                   : ROGUE_MEDDLER,
                              .seed = ref_rng_next(h_rng()) >> 16};
        }
        run_tasks(tasks, AT_A_TIME);
    } while (h_now() < end);
}

static int run_one(const char *name, const char *seed)
{
    for (int i = 0; i < ROGUE_COUNT; i++) {
        task t = {.kind = (rogue_kind)i, .seed = strtoull(seed, NULL, 0)};
        if (strcmp(rogue_name(t.kind), name) == 0) {
            run_tasks(&t, 1);
            return 0;
        }
    }
    return 2;
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(each_kind), H_CASE(at_random)};
    if (argc > 1 && strcmp(argv[1], "--parent") == 0)
        return rogue_main(argv[0]);
    h_need_process_isolation();
    /* Its thread lives as long as the program. */
    static _Atomic bool stop;
    h_thread *watcher = h_start(watch_all, &stop);
    int result = argc == 3 ? run_one(argv[1], argv[2])
                           : h_main(argc, argv, cases, sizeof cases / sizeof *cases);
    atomic_store(&stop, true);
    h_join(watcher);
    return result;
}

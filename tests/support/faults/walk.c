#include "support/faults/walk.h"

#include "support/harness.h"
#include "support/faults/points.h"

#include <signal.h>

enum {
    KEPT = 3,
    KEPT_BYTES = 60000,
    N = 16,
    MATRIX = N * N * 4,
    LARGE_BYTES = 700000, /* several chunks of staging memory */
    REGION_BYTES = 20000,
    TO_QUEUE = 6,
    ROUNDS = 2,
    OPEN_TRIES = 10,
    SMALL_BUDGET = 6,
};

typedef struct stage {
    const h_walk *walk;
    h_world w;
    bool down;
    uint64_t failed; /* requests that ended with an error */
    trp_queue *queue;
    uint64_t queued, taken;
    trp_actor *blas, *probe, *other;
    trp_buffer kept[KEPT];
    uint64_t hash[KEPT];
    trp_buffer ones, x, y, z, once, large, region_copy, bad;
    char *memory, *got; /* LARGE_BYTES each */
    char *region;       /* buffer on the device; REGION_BYTES */
} stage;

/* Returns whether a call succeeded; if not, the device must be down, and the walk must allow that.
 */
static bool alive(stage *s, trp_status status)
{
    if (status == TRP_OK)
        return true;
    if (status != TRP_E_DEVICE_DOWN || !s->walk->may_go_down)
        h_fail(__FILE__, __LINE__, "a call gave %s", trp_status_name(status));
    s->down = true;
    return false;
}

static bool by_fault(trp_status status)
{
    return status == TRP_E_FAULT || status == TRP_E_LOST || status == TRP_E_DEPENDENCY;
}

/* Counts a completion; `sure`: in a strict walk it must be a success. */
static void note_end(stage *s, trp_status status, const trp_error *error, bool sure)
{
    if (status == TRP_OK)
        return;
    s->failed++;
    if (status == TRP_E_DEVICE_DOWN && s->walk->may_go_down)
        s->down = true;
    else if (!by_fault(status) || (sure && s->walk->strict))
        h_fail(__FILE__, __LINE__, "a request ended with %s: %s", trp_status_name(status),
               error->message);
    else if (status == TRP_E_FAULT)
        H_CHECK(error->fault != TRP_FAULT_NONE && error->incarnation != 0);
}

/* A request; not sent if the device is down or an input is lost. */
typedef struct sent {
    trp_completion c;
    bool is;
} sent;

static void note_sent(stage *s, sent *r, trp_status status)
{
    r->is = status == TRP_OK;
    if (status == TRP_E_LOST && !s->walk->strict)
        return;
    alive(s, status);
}

/* Returns the only completion of a request; TRP_E_LOST if it was not sent. */
static trp_status end_of(stage *s, sent *r, bool sure)
{
    trp_error error;
    if (!r->is)
        return TRP_E_LOST;
    trp_status status = h_await(r->c.future, &error);
    note_end(s, status, &error, sure);
    H_IS(trp_await(r->c.future, 0, NULL), TRP_E_STALE);
    return status;
}

static bool expected_error(trp_status status)
{
    return status == TRP_E_FAULT || status == TRP_E_MEMORY || status == TRP_E_SYSTEM;
}

/* Opens the device. If the worker dies before it is ready, opening fails and must leave nothing
 * behind. False: all workers died. */
static bool open_device(stage *s)
{
    trp_device_options options = h_options();
    if (s->walk->may_go_down) {
        options.restart_budget = SMALL_BUDGET;
        options.restart_window_ns = (uint64_t)(3600 * H_SEC);
    }
    s->w.system = h_system_create(NULL);
    for (int i = 0;; i++) {
        size_t fds = h_count_fds();
        trp_status status = trp_device_open(s->w.system, &options, &s->w.device);
        if (status == TRP_OK)
            break;
        if (!expected_error(status) || (i == OPEN_TRIES && !s->walk->may_go_down))
            h_fail(__FILE__, __LINE__, "opening gave %s", trp_status_name(status));
        H_EQUAL(h_count_fds(), fds);
        H_EQUAL(h_count_children(), 0);
        if (i == OPEN_TRIES)
            return false;
    }
    H_OK(trp_queue_create(s->w.system, &s->queue));
    return true;
}

/* Writes until a write succeeds. */
static bool write_surely(stage *s, trp_buffer b, const void *data, uint64_t bytes)
{
    trp_status status;
    do {
        sent r = {.is = false};
        note_sent(s, &r, trp_write(s->w.device, b, 0, data, bytes, &r.c));
        status = end_of(s, &r, true);
    } while (status != TRP_OK && !s->down);
    return !s->down;
}

static bool make_actor(stage *s, const char *kind, trp_actor **out)
{
    return alive(s, trp_actor_create(s->w.device, &(trp_actor_options){.kind = kind}, out));
}

static bool make_all(stage *s)
{
    trp_device *d = s->w.device;
    struct {
        trp_buffer *buffer;
        uint64_t bytes;
    } buffers[] = {{&s->ones, MATRIX},
                   {&s->x, MATRIX},
                   {&s->y, MATRIX},
                   {&s->z, MATRIX},
                   {&s->once, MATRIX},
                   {&s->large, LARGE_BYTES},
                   {&s->region_copy, REGION_BYTES},
                   {&s->bad, MATRIX}};
    void *region = NULL;
    float one[N * N];
    for (int i = 0; i < N * N; i++)
        one[i] = 1;
    if (!make_actor(s, "blas", &s->blas) || !make_actor(s, "probe", &s->probe) ||
        !make_actor(s, "probe", &s->other) || !alive(s, trp_host_alloc(d, REGION_BYTES, &region)))
        return false;
    s->region = region;
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        if (!alive(s, trp_buffer_create(d, buffers[i].bytes, buffers[i].buffer)))
            return false;
    }
    for (int i = 0; i < KEPT; i++) {
        h_random_bytes(h_rng(), s->memory, KEPT_BYTES);
        s->hash[i] = h_hash(s->memory, KEPT_BYTES);
        if (!alive(s, trp_buffer_create(d, KEPT_BYTES, &s->kept[i])) ||
            !write_surely(s, s->kept[i], s->memory, KEPT_BYTES))
            return false;
    }
    return write_surely(s, s->ones, one, MATRIX);
}

static void check_kept(stage *s)
{
    for (int i = 0; i < KEPT && !s->down; i++) {
        trp_status status;
        do {
            sent r = {.is = false};
            note_sent(s, &r, trp_read(s->w.device, s->kept[i], 0, s->got, KEPT_BYTES, &r.c));
            H_CHECK(r.is || s->down);
            status = end_of(s, &r, true);
        } while (status != TRP_OK && !s->down);
        if (status != TRP_OK)
            return;
        H_CHECK(!h_buffer_info(s->w.device, s->kept[i]).lost);
        H_EQUAL(h_hash(s->got, KEPT_BYTES), s->hash[i]);
    }
}

/* ---- one round of work ---- */

typedef struct work {
    sent fill, multiply, copy, read, zero, add, up, down, region_up, region_down, spin, error,
        culprit;
    float result[N * N], value;
} work;

static void send_chain(stage *s, work *k)
{
    trp_device *d = s->w.device;
    uint32_t word;
    memcpy(&word, &k->value, sizeof word);
    note_sent(s, &k->fill, trp_fill(d, s->x, 0, MATRIX, word, 4, &k->fill.c));
    trp_gemm_request g = {.type = TRP_F32, .m = N, .n = N, .k = N, .a = s->x, .b = s->ones};
    g.c = s->y;
    note_sent(s, &k->multiply, trp_gemm(s->blas, &g, &k->multiply.c));
    note_sent(s, &k->copy, trp_copy(d, s->y, 0, s->z, 0, MATRIX, &k->copy.c));
    note_sent(s, &k->read, trp_read(d, s->z, 0, k->result, MATRIX, &k->read.c));
    /* a request that can't run again, on a buffer of its own */
    note_sent(s, &k->zero, trp_fill(d, s->once, 0, MATRIX, 0, 4, &k->zero.c));
    g = (trp_gemm_request){.type = TRP_F32, .m = N, .n = N, .k = N, .a = s->ones, .b = s->ones};
    g.c = s->once;
    g.beta = trp_real(1);
    trp_status status = trp_gemm(s->blas, &g, &k->add.c);
    k->add.is = status == TRP_OK;
    H_CHECK(status == TRP_OK || status == TRP_E_LOST || alive(s, status));
}

static void send_copies(stage *s, work *k)
{
    trp_device *d = s->w.device;
    h_random_bytes(h_rng(), s->memory, LARGE_BYTES);
    h_random_bytes(h_rng(), s->region, REGION_BYTES);
    memset(s->got, 0x55, LARGE_BYTES);
    note_sent(s, &k->up, trp_write(d, s->large, 0, s->memory, LARGE_BYTES, &k->up.c));
    note_sent(s, &k->down, trp_read(d, s->large, 0, s->got, LARGE_BYTES, &k->down.c));
    note_sent(s, &k->region_up,
              trp_write(d, s->region_copy, 0, s->region, REGION_BYTES, &k->region_up.c));
}

static void send_probes(stage *s, work *k)
{
    trp_probe_request spin = {
        .action = TRP_PROBE_SPIN, .duration_ns = 100000, .inputs = {s->kept[0]}};
    for (int i = 0; i < TO_QUEUE && !s->down; i++) {
        trp_completion c = {.queue = s->queue, .user_data = s};
        s->queued += alive(s, trp_probe(i % 2 ? s->probe : s->other, &spin, &c));
    }
    spin.duration_ns = 500000;
    note_sent(s, &k->spin, trp_probe(s->other, &spin, &k->spin.c));
    trp_probe_request error = {.action = TRP_PROBE_LIBRARY_ERROR};
    note_sent(s, &k->error, trp_probe(s->probe, &error, &k->error.c));
}

static void send_culprit(stage *s, work *k)
{
    trp_probe_request r = {.action = TRP_PROBE_ABORT, .inputs = {s->kept[1]}, .outputs = {s->bad}};
    note_sent(s, &k->culprit, trp_probe(s->probe, &r, &k->culprit.c));
}

static void take_events(stage *s)
{
    trp_event event;
    while (s->taken < s->queued) {
        H_OK(trp_queue_next(s->queue, H_LONG, &event));
        H_CHECK(event.user_data == s);
        note_end(s, event.status, &event.error, true);
        s->taken++;
    }
    H_IS(trp_queue_next(s->queue, 0, &event), TRP_E_TIMEOUT);
}

static void end_error(stage *s, work *k)
{
    trp_error error;
    if (!k->error.is)
        return;
    trp_status status = h_await(k->error.c.future, &error);
    if (status == TRP_E_LIBRARY)
        s->failed++;
    else
        note_end(s, status, &error, true);
    H_CHECK(status != TRP_OK);
}

static void end_chain(stage *s, work *k)
{
    end_of(s, &k->fill, true);
    end_of(s, &k->multiply, true);
    end_of(s, &k->copy, true);
    if (end_of(s, &k->read, true) == TRP_OK) {
        for (int i = 0; i < N * N; i++)
            H_CHECK(k->result[i] == k->value * N);
    }
    end_of(s, &k->zero, true);
    trp_status status = end_of(s, &k->add, false);
    sent r = {.is = false};
    if (s->down)
        return;
    if (status == TRP_E_FAULT)
        H_CHECK(h_buffer_info(s->w.device, s->once).lost);
    if (h_buffer_info(s->w.device, s->once).lost)
        return;
    trp_status sends = trp_read(s->w.device, s->once, 0, k->result, MATRIX, &r.c);
    r.is = sends == TRP_OK;
    H_CHECK(r.is || sends == TRP_E_LOST || alive(s, sends));
    if (end_of(s, &r, true) == TRP_OK && status == TRP_OK) {
        for (int i = 0; i < N * N; i++)
            H_CHECK(k->result[i] == N);
    }
}

static void end_copies(stage *s, work *k)
{
    trp_status up = end_of(s, &k->up, true);
    if (end_of(s, &k->down, true) == TRP_OK && up == TRP_OK)
        H_SAME(s->got, s->memory, LARGE_BYTES);
    if (end_of(s, &k->region_up, true) != TRP_OK || s->down)
        return;
    memcpy(s->got, s->region, REGION_BYTES);
    memset(s->region, 0, REGION_BYTES);
    note_sent(s, &k->region_down,
              trp_read(s->w.device, s->region_copy, 0, s->region, REGION_BYTES, &k->region_down.c));
    if (end_of(s, &k->region_down, true) == TRP_OK)
        H_SAME(s->region, s->got, REGION_BYTES);
}

/* Creates and destroys objects; the large buffer needs an arena of its own. */
static void make_and_drop(stage *s)
{
    trp_device *d = s->w.device;
    trp_actor *actor = NULL;
    void *memory = NULL;
    trp_buffer b = {0};
    sent r = {.is = false};
    if (s->down || !make_actor(s, "probe", &actor))
        return;
    if (alive(s, trp_host_alloc(d, REGION_BYTES, &memory)) &&
        alive(s, trp_buffer_create(d, (h_is_cuda() ? 300 : 20) * H_MIB, &b))) {
        memset(memory, 3, REGION_BYTES);
        note_sent(s, &r, trp_write(d, b, 12345, memory, REGION_BYTES, &r.c));
        end_of(s, &r, true);
    }
    trp_actor_destroy(actor);
    if (memory)
        H_OK(trp_host_free(d, memory));
    if (b.id && trp_buffer_free(d, b) == TRP_OK && !s->down)
        alive(s, trp_device_trim(d));
}

/* ---- faults of the scenario itself ---- */

/* Waits for a standby, which makes more points reachable; the plan may kill every standby. */
static void give_standby_time(stage *s)
{
    for (int i = 0; i < 100 && h_info(s->w.device).standby_pid == 0; i++)
        h_sleep(H_MS);
}

static void kill_from_outside(int64_t pid)
{
    if (pid > 0)
        kill((pid_t)pid, SIGKILL);
}

/* Kills the standby, and waits for a while until the supervisor has noticed. */
static void kill_standby(stage *s)
{
    int64_t pid = h_info(s->w.device).standby_pid;
    kill_from_outside(pid);
    for (int i = 0; i < 1000 && pid > 0 && h_info(s->w.device).standby_pid == pid; i++)
        h_sleep(H_MS);
}

static void run_round(stage *s, int round)
{
    bool faults = s->walk->scenario != H_WALK_PLAIN;
    work k = {.value = (float)(round + 2)};
    give_standby_time(s);
    if (faults && round == 1)
        kill_standby(s);
    trp_device_info info = h_info(s->w.device);
    send_copies(s, &k);
    if (faults && round == 0)
        send_culprit(s, &k);
    send_chain(s, &k);
    if (faults && round == 1)
        kill_from_outside(info.worker_pid);
    send_probes(s, &k);
    end_chain(s, &k);
    end_copies(s, &k);
    end_of(s, &k.spin, true);
    end_error(s, &k);
    trp_status status = end_of(s, &k.culprit, false);
    H_CHECK(!k.culprit.is || status == TRP_E_FAULT || s->down);
    take_events(s);
}

/* The worker reports that its context is broken. No pending request writes memory, since a GPU has
 * stopped by then, while threads of the host backend have not. */
static void break_context(stage *s)
{
    sent spin = {.is = false};
    trp_completion c = {0};
    trp_error error;
    uint32_t before = h_info(s->w.device).incarnation;
    trp_probe_request r = {.action = TRP_PROBE_SPIN, .duration_ns = (uint64_t)(3 * H_MS)};
    give_standby_time(s);
    note_sent(s, &spin, trp_probe(s->other, &r, &spin.c));
    r.action = TRP_PROBE_LIBRARY_ERROR;
    H_OK(trp_probe(s->probe, &r, &c));
    trp_status status = h_await(c.future, &error);
    s->failed++;
    H_CHECK(status == TRP_E_FAULT || status == TRP_E_LIBRARY);
    if (s->walk->strict && status == TRP_E_FAULT)
        H_EQUAL(error.fault, TRP_FAULT_GPU);
    end_of(s, &spin, true);
    /* the request may complete before the new incarnation */
    h_await_incarnation(s->w.device, before + 1);
}

/* The next standby fails to map an arena that the worker has, and is given up. */
static void lose_standby(stage *s)
{
    int64_t end = h_now() + H_LONG;
    while (h_point_hits("ARENA_ANSWERED") < 2) { /* both have mapped it; the third one is to fail */
        H_CHECK(h_now() < end);
        h_sleep(H_MS);
    }
    kill_from_outside(h_await_standby(s->w.device).standby_pid);
    while (!h_log_said("given up")) {
        H_CHECK(h_now() < end);
        h_sleep(H_MS);
    }
}

static void check_end(stage *s)
{
    if (!s->down)
        H_OK(trp_device_drain(s->w.device, H_LONG));
    if (s->walk->may_go_down)
        return;
    h_await_state(s->w.device, TRP_DEVICE_READY);
    check_kept(s);
}

static void walk_open(stage *s)
{
    const h_walk *walk = s->walk;
    if (walk->scenario == H_WALK_LACKING)
        h_await_standby(s->w.device);
    if (make_all(s)) {
        if (walk->scenario == H_WALK_BROKEN)
            break_context(s);
        if (walk->scenario == H_WALK_LACKING)
            lose_standby(s);
        for (int round = 0; round < ROUNDS && !s->down; round++) {
            run_round(s, round);
            check_kept(s);
        }
        make_and_drop(s);
    }
    check_end(s);
    take_events(s);
    trp_device_info info = h_info(s->w.device);
    H_CHECK(!s->down || info.state == TRP_DEVICE_DOWN);
    H_CHECK(info.requests_failed >= s->failed);
    if (!walk->may_go_down)
        H_EQUAL(info.requests_failed, s->failed);
    H_OK(trp_queue_destroy(s->queue));
    h_close(&s->w);
}

void h_walk_run(const h_walk *walk)
{
    stage s = {.walk = walk, .memory = h_malloc(LARGE_BYTES), .got = h_malloc(LARGE_BYTES)};
    if (open_device(&s))
        walk_open(&s);
    else
        H_OK(trp_system_destroy(s.w.system));
    free(s.memory);
    free(s.got);
}

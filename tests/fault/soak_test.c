/* Eight threads at work while the worker is killed from outside, at random times, or brought down
 * by what they send. Every request ends exactly once, what is said to be done is done, what nobody
 * was writing is intact, and only the guilty are blamed.
 *
 * TROUPE_TEST_SECONDS lengthens what is bounded by time, TROUPE_TEST_FAULTS=10000 what is bounded
 * by a number of faults. */
#include "support/harness.h"
#include "support/faults/steady.h"

#include <signal.h>
#include <stdatomic.h>

TROUPE_TEST("long", "many workers");

enum {
    THREADS = 8,
    KEPT = 20,
    KEPT_BYTES = 200000,
    OWN = 4,
    OWN_BYTES = 50000, /* a multiple of 4, 8 and the matrix below */
    N = 24,
};

/* Ways in which a worker is brought down. */
typedef enum fault_kind { SEGV, ABORTED, KILLED, EXITED, HUNG, FAULT_KINDS } fault_kind;

static const char *const kind_names[FAULT_KINDS] = {
    [SEGV] = "SIGSEGV", [ABORTED] = "SIGABRT", [KILLED] = "SIGKILL",
    [EXITED] = "exit",  [HUNG] = "hang",
};

typedef struct shared {
    h_world w;
    trp_queue *queue;
    trp_buffer kept[KEPT];
    uint64_t hash[KEPT];
    bool mixed;            /* the faults come from the threads */
    _Atomic bool stop;     /* of the senders, */
    _Atomic bool sent_all; /* which have ended since */
    _Atomic uint64_t to_queue, sent, failed;
    _Atomic uint64_t ended; /* with a future */
    _Atomic uint64_t faults[FAULT_KINDS];
    size_t drill_every; /* steps of a thread */
    uint64_t sent_before, next_kill;
} shared;

/* What a thread knows of its buffers: the word that fills each, or that nothing is known. */
typedef struct own {
    trp_buffer buffer[OWN];
    uint32_t word[OWN];
    bool known[OWN];
} own;

typedef struct soaker {
    shared *s;
    ref_rng rng;
    own o;
    trp_actor *blas, *probe;
    uint32_t *data;
    char *large;
    trp_buffer large_buffer;
} soaker;

static bool ended_by_fault(trp_status status)
{
    return status == TRP_E_FAULT || status == TRP_E_LOST || status == TRP_E_DEPENDENCY;
}

static trp_status ended(soaker *k, trp_completion c)
{
    trp_error error;
    trp_status status = trp_await(c.future, H_LONG, &error);
    if (status == TRP_E_TIMEOUT) {
        trp_device_info i = h_info(k->s->w.device);
        h_fail(__FILE__, __LINE__,
               "a request does not end: state %d, incarnation %u, %u restarts, "
               "worker %lld, standby %lld, %" PRIu64 " requests ended of %" PRIu64,
               (int)i.state, i.incarnation, i.restarts, (long long)i.worker_pid,
               (long long)i.standby_pid, atomic_load(&k->s->ended), atomic_load(&k->s->sent));
    }
    atomic_fetch_add(&k->s->ended, 1);
    if (status != TRP_OK) {
        if (!ended_by_fault(status))
            h_fail(__FILE__, __LINE__, "a request ended with %s: %s", trp_status_name(status),
                   error.message);
        if (status == TRP_E_FAULT) {
            H_CHECK(error.fault != TRP_FAULT_NONE);
            H_CHECK(error.incarnation != 0);
            if (!k->s->mixed) {
                H_EQUAL(error.fault, TRP_FAULT_SIGNAL);
                H_EQUAL(error.code, SIGKILL);
            }
        }
        atomic_fetch_add(&k->s->failed, 1);
    }
    H_IS(trp_await(c.future, 0, NULL), TRP_E_STALE);
    return status;
}

static void check_word(soaker *k, size_t i)
{
    trp_completion c = {0};
    memset(k->data, 0x55, OWN_BYTES);
    trp_status status = trp_read(k->s->w.device, k->o.buffer[i], 0, k->data, OWN_BYTES, &c);
    if (status != TRP_OK) {
        H_CHECK(status == TRP_E_LOST);
        H_CHECK(!k->o.known[i]);
        return;
    }
    atomic_fetch_add(&k->s->sent, 1);
    if (ended(k, c) != TRP_OK || !k->o.known[i])
        return;
    for (size_t w = 0; w < OWN_BYTES / 4; w++)
        H_EQUAL(k->data[w], k->o.word[i]);
}

/* Fills or copies among the thread's own buffers, and notes what that means. */
static void change(soaker *k)
{
    trp_device *d = k->s->w.device;
    size_t i = ref_rng_below(&k->rng, OWN), j = ref_rng_below(&k->rng, OWN);
    uint32_t word = (uint32_t)ref_rng_next(&k->rng);
    trp_completion c = {0};
    trp_status status;
    bool from_word = i == j || ref_rng_below(&k->rng, 2);
    if (from_word && ref_rng_below(&k->rng, 2)) {
        for (size_t w = 0; w < OWN_BYTES / 4; w++)
            k->data[w] = word;
        status = trp_write(d, k->o.buffer[i], 0, k->data, OWN_BYTES, &c);
    } else if (from_word) {
        status = trp_fill(d, k->o.buffer[i], 0, OWN_BYTES, word, 4, &c);
    } else {
        status = trp_copy(d, k->o.buffer[j], 0, k->o.buffer[i], 0, OWN_BYTES, &c);
        word = k->o.word[j];
    }
    if (status == TRP_E_LOST) {
        H_CHECK(!from_word && !k->o.known[j]);
        return;
    }
    H_OK(status);
    atomic_fetch_add(&k->s->sent, 1);
    status = ended(k, c);
    if (status == TRP_OK) {
        k->o.known[i] = from_word || k->o.known[j];
        k->o.word[i] = word;
    } else if (status == TRP_E_FAULT) {
        k->o.known[i] = false;
        H_CHECK(h_buffer_info(d, k->o.buffer[i]).lost);
    } else if (h_buffer_info(d, k->o.buffer[i]).lost) {
        k->o.known[i] = false; /* it had begun, on a worker that died */
    }                          /* else it never began, and the old content is there */
}

/* Brings the worker down, in any of the ways; the buffer that it writes is lost. */
static void drill(soaker *k)
{
    static const trp_probe_action actions[FAULT_KINDS] = {
        [SEGV] = TRP_PROBE_SEGV,   [ABORTED] = TRP_PROBE_ABORT, [KILLED] = TRP_PROBE_KILL,
        [EXITED] = TRP_PROBE_EXIT, [HUNG] = TRP_PROBE_SPIN,
    };
    trp_device *d = k->s->w.device;
    size_t i = ref_rng_below(&k->rng, OWN);
    fault_kind kind = (fault_kind)ref_rng_below(&k->rng, FAULT_KINDS);
    trp_completion c = {0};
    trp_probe_request r = {.action = actions[kind],
                           .inputs = {k->s->kept[ref_rng_below(&k->rng, KEPT)]}};
    bool hangs = r.action == TRP_PROBE_SPIN;
    if (hangs) {
        r.duration_ns = (uint64_t)(3600 * H_SEC);
        r.header.deadline_ns = (uint64_t)(30 * H_MS);
    } else {
        r.outputs[0] = k->o.buffer[i];
    }
    H_OK(trp_probe(k->probe, &r, &c));
    atomic_fetch_add(&k->s->sent, 1);
    H_IS(ended(k, c), TRP_E_FAULT);
    atomic_fetch_add(&k->s->faults[kind], 1);
    if (!hangs) {
        H_CHECK(h_buffer_info(d, k->o.buffer[i]).lost);
        k->o.known[i] = false;
    }
}

/* A product of small whole numbers, all 1: each element of C is N. */
static void multiply(soaker *k)
{
    trp_device *d = k->s->w.device;
    float one[N * N], got[N * N];
    trp_completion c[4] = {{0}};
    trp_status status[4];
    trp_buffer a = h_buffer(d, sizeof one), out = h_buffer(d, sizeof one);
    for (int i = 0; i < N * N; i++)
        one[i] = 1;
    H_OK(trp_write(d, a, 0, one, sizeof one, &c[0]));
    status[1] = trp_gemm(
        k->blas,
        &(trp_gemm_request){.type = TRP_F32, .m = N, .n = N, .k = N, .a = a, .b = a, .c = out},
        &c[1]);
    status[2] = TRP_E_LOST;
    if (status[1] == TRP_OK)
        status[2] = trp_read(d, out, 0, got, sizeof got, &c[2]);
    H_OK(trp_buffer_free(d, a)); /* while all of that is under way */
    H_OK(trp_buffer_free(d, out));
    for (int i = 0; i < 3; i++) {
        if (i == 0 || status[i] == TRP_OK) {
            atomic_fetch_add(&k->s->sent, 1);
            status[i] = ended(k, c[i]);
        } else {
            H_CHECK(status[i] == TRP_E_LOST);
        }
    }
    if (status[2] == TRP_OK) {
        for (int i = 0; i < N * N; i++)
            H_CHECK(got[i] == N);
    }
}

/* A large copy of ordinary memory, there or back. */
static void large_copy(soaker *k)
{
    enum { BYTES = 5 << 20 };
    trp_device *d = k->s->w.device;
    trp_completion up = {0}, down = {0};
    char value = (char)ref_rng_next(&k->rng);
    memset(k->large, value, BYTES);
    H_OK(trp_write(d, k->large_buffer, 0, k->large, BYTES, &up));
    trp_status read = trp_read(d, k->large_buffer, 0, k->large + BYTES, BYTES, &down);
    trp_status wrote = ended(k, up);
    atomic_fetch_add(&k->s->sent, 1);
    if (read != TRP_OK) {
        H_CHECK(read == TRP_E_LOST && wrote == TRP_E_FAULT);
        return;
    }
    atomic_fetch_add(&k->s->sent, 1);
    if (ended(k, down) == TRP_OK && wrote == TRP_OK) {
        for (int i = 0; i < BYTES; i += 509)
            H_EQUAL(k->large[BYTES + i], value);
    }
}

/* Requests whose ends go to the queue that all threads share. */
static void by_queue(soaker *k)
{
    for (int i = 0; i < 10; i++) {
        trp_probe_request r = {.header = {.wait_ns = H_LONG},
                               .action = TRP_PROBE_SPIN,
                               .duration_ns = 20000,
                               .inputs = {k->s->kept[ref_rng_below(&k->rng, KEPT)]}};
        H_OK(trp_probe(k->probe, &r,
                       &(trp_completion){.queue = k->s->queue, .user_data = &k->s->to_queue}));
        atomic_fetch_add(&k->s->to_queue, 1);
        atomic_fetch_add(&k->s->sent, 1);
    }
}

static void *soak(void *argument)
{
    soaker *k = argument;
    while (!atomic_load(&k->s->stop)) {
        if (k->s->mixed && ref_rng_below(&k->rng, k->s->drill_every) == 0)
            drill(k);
        switch (ref_rng_below(&k->rng, 8)) {
        case 0:
            multiply(k);
            break;
        case 1:
            by_queue(k);
            break;
        case 2:
            large_copy(k);
            break;
        case 3:
            check_word(k, ref_rng_below(&k->rng, OWN));
            break;
        default:
            change(k);
            break;
        }
    }
    for (size_t i = 0; i < OWN; i++)
        check_word(k, i);
    return NULL;
}

static void *take_from_queue(void *argument)
{
    shared *s = argument;
    trp_event event;
    uint64_t *taken = h_malloc(sizeof *taken);
    *taken = 0;
    for (;;) {
        trp_status status = trp_queue_next(s->queue, 20 * H_MS, &event);
        if (status == TRP_E_TIMEOUT) {
            if (atomic_load(&s->sent_all) && *taken == atomic_load(&s->to_queue))
                break;
            continue;
        }
        H_OK(status);
        H_CHECK(event.user_data == &s->to_queue);
        H_CHECK(event.status == TRP_OK || ended_by_fault(event.status));
        if (event.status != TRP_OK)
            atomic_fetch_add(&s->failed, 1);
        ++*taken;
        /* More ends than requests would never stop: seen by the count at the end. */
    }
    free(taken);
    return NULL;
}

static void keep(shared *s)
{
    char *data = h_malloc(KEPT_BYTES);
    for (int i = 0; i < KEPT; i++) {
        s->kept[i] = h_buffer(s->w.device, KEPT_BYTES);
        h_random_bytes(h_rng(), data, KEPT_BYTES);
        s->hash[i] = h_hash(data, KEPT_BYTES);
        h_write(s->w.device, s->kept[i], 0, data, KEPT_BYTES);
    }
    free(data);
}

static void check_kept(shared *s)
{
    char *data = h_malloc(KEPT_BYTES);
    for (int i = 0; i < KEPT; i++) {
        trp_completion c = {0};
        H_CHECK(!h_buffer_info(s->w.device, s->kept[i]).lost);
        trp_status status;
        do { /* the read itself may be what a fault meets */
            H_OK(trp_read(s->w.device, s->kept[i], 0, data, KEPT_BYTES, &c));
            atomic_fetch_add(&s->sent, 1);
            status = h_await_any(c);
            atomic_fetch_add(&s->failed, status != TRP_OK);
        } while (status == TRP_E_FAULT);
        H_OK(status);
        H_EQUAL(h_hash(data, KEPT_BYTES), s->hash[i]);
    }
    free(data);
}

/* ---- one soak ---- */

static void begin(shared *s, soaker k[THREADS], h_thread *thread[THREADS + 1])
{
    trp_device_options options = h_options();
    options.restart_budget = 100000;
    s->w = h_open(&options);
    H_OK(trp_queue_create(s->w.system, &s->queue));
    keep(s);
    s->sent_before = h_info(s->w.device).requests_submitted;
    for (int i = 0; i < THREADS; i++) {
        k[i] = (soaker){.s = s, .rng = h_rng_fork(), .data = h_malloc(OWN_BYTES)};
        k[i].blas = h_actor(s->w.device, "blas");
        k[i].probe = h_actor(s->w.device, "probe");
        k[i].large = h_malloc(10 << 20);
        k[i].large_buffer = h_buffer(s->w.device, 5 << 20);
        for (int b = 0; b < OWN; b++)
            k[i].o.buffer[b] = h_buffer(s->w.device, OWN_BYTES);
    }
    thread[THREADS] = h_start(take_from_queue, s);
    for (int i = 0; i < THREADS; i++)
        thread[i] = h_start(soak, &k[i]);
}

static uint64_t count_faults(shared *s)
{
    uint64_t count = 0;
    for (int i = 0; i < FAULT_KINDS; i++)
        count += atomic_load(&s->faults[i]);
    return count;
}

/* Kills what runs, at any moment: the standby alone, before the worker, or behind it. `hard`: the
 * worker nearly every time. On a slow machine no worker would live long enough to do anything, so
 * some requests must have ended since the last time. */
static void kill_something(shared *s, bool hard)
{
    uint64_t ended = atomic_load(&s->ended);
    if (ended < s->next_kill)
        return;
    s->next_kill = ended + 1 + ref_rng_below(h_rng(), THREADS);
    trp_device_info info = h_info(s->w.device);
    size_t which = ref_rng_below(h_rng(), 8);
    if (which < 3 && info.standby_pid > 0)
        kill((pid_t)info.standby_pid, SIGKILL);
    if ((hard ? which > 0 : which > 5) && info.state == TRP_DEVICE_READY && info.worker_pid > 0 &&
        kill((pid_t)info.worker_pid, SIGKILL) == 0)
        atomic_fetch_add(&s->faults[KILLED], 1);
}

static void end(shared *s, soaker k[THREADS], h_thread *thread[THREADS + 1])
{
    trp_event event;
    atomic_store(&s->stop, true);
    for (int i = 0; i < THREADS; i++)
        h_join(thread[i]);
    atomic_store(&s->sent_all, true);
    h_join(thread[THREADS]);
    H_OK(trp_device_drain(s->w.device, H_LONG));
    check_kept(s);
    trp_device_info info = h_info(s->w.device);
    H_IS(trp_queue_next(s->queue, 0, &event), TRP_E_TIMEOUT);
    H_EQUAL(info.requests_submitted - s->sent_before, atomic_load(&s->sent));
    H_EQUAL(info.requests_failed, atomic_load(&s->failed));
    printf("  %" PRIu64 " faults (", count_faults(s));
    for (int i = 0; i < FAULT_KINDS; i++)
        printf("%s%s %" PRIu64, i ? ", " : "", kind_names[i], atomic_load(&s->faults[i]));
    printf("), %u restarts, %" PRIu64 " requests, %" PRIu64 " of them failed\n", info.restarts,
           atomic_load(&s->sent), atomic_load(&s->failed));
    H_CHECK(info.restarts > 0);
    for (int i = 0; i < THREADS; i++) {
        for (int b = 0; b < OWN; b++)
            H_OK(trp_buffer_free(s->w.device, k[i].o.buffer[b]));
        H_OK(trp_buffer_free(s->w.device, k[i].large_buffer));
        trp_actor_destroy(k[i].blas);
        trp_actor_destroy(k[i].probe);
        free(k[i].data);
        free(k[i].large);
    }
    for (int i = 0; i < KEPT; i++)
        H_OK(trp_buffer_free(s->w.device, s->kept[i]));
    H_EQUAL(h_info(s->w.device).memory_used, 0);
    H_EQUAL(h_info(s->w.device).buffers, 0);
    H_OK(trp_queue_destroy(s->queue));
    h_close(&s->w);
}

static void killed_from_outside(void)
{
    shared s = {.mixed = false};
    soaker k[THREADS];
    h_thread *thread[THREADS + 1];
    begin(&s, k, thread);
    int64_t until = h_now() + h_soak_ns(3.5);
    while (h_now() < until) {
        h_sleep((int64_t)ref_rng_below(h_rng(), 60) * H_MS + 1);
        kill_something(&s, true);
        if (ref_rng_below(h_rng(), 8) == 0)
            check_kept(&s);
    }
    end(&s, k, thread);
}

static uint64_t faults_wanted(void)
{
    const char *text = getenv("TROUPE_TEST_FAULTS");
    return text && *text ? strtoull(text, NULL, 10) : H_SANITIZED ? 60 : 300;
}

/* Faults of all kinds, until there were as many as wanted; what the program holds in the second and
 * in the last quarter of them is compared. */
static void faults_of_all_kinds(void)
{
    shared s = {.mixed = true, .drill_every = 8};
    soaker k[THREADS];
    h_thread *thread[THREADS + 1];
    h_steady early = {0}, late = {0};
    uint64_t wanted = faults_wanted();
    begin(&s, k, thread);
    for (uint64_t faults; (faults = count_faults(&s)) < wanted;) {
        h_sleep((int64_t)ref_rng_below(h_rng(), 20) * H_MS + 1);
        kill_something(&s, false);
        if (ref_rng_below(h_rng(), 32) == 0)
            check_kept(&s);
        if (faults >= wanted / 4 && faults < wanted / 2)
            h_steady_sample(&early);
        else if (faults >= wanted - wanted / 4)
            h_steady_sample(&late);
    }
    end(&s, k, thread);
    h_steady_check(&early, &late);
}

/* Actors, regions and buffers made and ended by several threads while workers die. */
static _Atomic bool stop_making;

static void *make_things(void *argument)
{
    trp_device *d = argument;
    while (!atomic_load(&stop_making)) {
        trp_actor *actor = h_actor(d, "probe");
        void *memory = NULL;
        uint32_t *words;
        trp_completion c = {0};
        H_OK(trp_host_alloc(d, 100000, &memory));
        words = memory;
        trp_buffer b = h_buffer(d, 100000);
        for (int i = 0; i < 25000; i++)
            words[i] = 0x01020304;
        trp_status status = trp_write(d, b, 0, memory, 100000, &c);
        H_OK(status);
        status = h_await_any(c);
        H_CHECK(status == TRP_OK || status == TRP_E_FAULT);
        if (status == TRP_OK) {
            memset(memory, 0, 100000);
            status = trp_read(d, b, 0, memory, 100000, &c);
            H_OK(status);
            status = h_await_any(c);
            H_CHECK(status == TRP_OK || status == TRP_E_FAULT);
            for (int i = 0; i < 25000 && status == TRP_OK; i++)
                H_EQUAL(words[i], 0x01020304);
        }
        h_probe(actor, TRP_PROBE_NOP, NULL);
        H_OK(trp_host_free(d, memory));
        H_OK(trp_buffer_free(d, b));
        trp_actor_destroy(actor);
        H_OK(trp_device_trim(d));
    }
    return NULL;
}

static void making_things(void)
{
    enum { MAKERS = 4 };
    h_thread *thread[MAKERS];
    trp_device_options options = h_options();
    options.restart_budget = 100000;
    h_world w = h_open(&options);
    atomic_store(&stop_making, false);
    for (int i = 0; i < MAKERS; i++)
        thread[i] = h_start(make_things, w.device);
    int64_t end = h_now() + h_soak_ns(2);
    while (h_now() < end) {
        h_sleep((int64_t)ref_rng_below(h_rng(), 40) * H_MS + 1);
        trp_device_info info = h_info(w.device);
        if (info.state == TRP_DEVICE_READY && info.worker_pid > 0)
            kill((pid_t)info.worker_pid, SIGKILL);
    }
    atomic_store(&stop_making, true);
    for (int i = 0; i < MAKERS; i++)
        h_join(thread[i]);
    h_await_state(w.device, TRP_DEVICE_READY);
    H_OK(trp_device_drain(w.device, H_LONG));
    H_EQUAL(h_info(w.device).buffers, 0);
    h_close(&w);
}

H_CASES_OF_PROCESSES(H_CASE(killed_from_outside), H_CASE(faults_of_all_kinds),
                     H_CASE(making_things))

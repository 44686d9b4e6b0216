/* Streams and arenas of the host backend, and the deaths that the probe actor makes on it. */
#include "support/unit.h"

#include "actors/probe/probe.h"
#include "actors/probe/probe_wire.h"
#include "actors/probe/probe_worker.h"
#include "backend/host/host_backend.h"
#include "base/os/clock.h"
#include "base/os/shm.h"
#include "support/faults/sleeper.h"
#include "worker/actor.h"

#include <troupe/probe.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const trp__backend *const backend = &trp__host_backend;

enum { ARENA_BYTES = 1 << 16 };

static trp__accel *open_accel(void)
{
    trp__accel *accel = NULL;
    assert_int_equal(backend->open(0, &accel, NULL), TRP_OK);
    assert_int_equal(backend->attach(accel, NULL), TRP_OK);
    return accel;
}

static trp__stream *new_stream(trp__accel *accel)
{
    trp__stream *stream = NULL;
    assert_int_equal(backend->stream_create(accel, &stream, NULL), TRP_OK);
    return stream;
}

static void wait_until(const _Atomic uint64_t *word, uint64_t value)
{
    int64_t end = trp__now_ns() + 60 * TRP__SECOND;
    while (atomic_load(word) < value) {
        if (trp__now_ns() > end)
            fail_msg("the word is %llu and does not become %llu",
                     (unsigned long long)atomic_load(word), (unsigned long long)value);
        trp__sleep_ns(10 * TRP__US);
    }
}

/* Appends its number to a list that only the stream's thread touches. */
typedef struct list {
    uint32_t count;
    uint32_t wrong; /* bytes of arguments that came changed */
    uint32_t number[5000];
} list;

typedef struct append_arguments {
    list *to;
    uint32_t number;
    char filler[TRP__HOST_ARGUMENT_BYTES - 16];
} append_arguments;

static void run_append(void *arguments)
{
    append_arguments *a = arguments;
    for (size_t i = 0; i < sizeof a->filler; i++)
        a->to->wrong += a->filler[i] != (char)a->number;
    a->to->number[a->to->count++] = a->number;
}

/* More operations than the ring holds, the first of them slow: all run, in order, with the
 * arguments as they were. */
static void operations_run_in_order(void **state)
{
    static list numbers;
    (void)state;
    trp__accel *accel = open_accel();
    trp__stream *stream = new_stream(accel);
    _Atomic uint64_t gate = 0;
    numbers.count = 0;
    assert_int_equal(backend->stream_wait(stream, &gate, 1, NULL), TRP_OK);
    for (uint32_t i = 0; i < 5000; i++) {
        append_arguments a = {.to = &numbers, .number = i};
        memset(a.filler, (char)i, sizeof a.filler);
        if (i == 1000) /* the ring is nearly full; whoever waits for room must be woken */
            atomic_store(&gate, 1);
        assert_int_equal(trp__host_enqueue(stream, run_append, &a, sizeof a, NULL), TRP_OK);
        memset(&a, 0, sizeof a);
    }
    trp__host_drain(stream);
    assert_int_equal(numbers.count, 5000);
    assert_int_equal(numbers.wrong, 0);
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(numbers.number[i], i);
    backend->stream_destroy(stream);
    backend->close(accel);
}

static void too_many_arguments(void **state)
{
    (void)state;
    char arguments[TRP__HOST_ARGUMENT_BYTES + 1] = {0};
    trp_error error;
    trp__accel *accel = open_accel();
    trp__stream *stream = new_stream(accel);
    assert_int_equal(trp__host_enqueue(stream, run_append, arguments, sizeof arguments, &error),
                     TRP_E_INTERNAL);
    backend->stream_destroy(stream);
    backend->close(accel);
}

static void run_slow(void *arguments)
{
    trp__sleep_ns(30 * TRP__MS);
    atomic_fetch_add(*(_Atomic uint64_t **)arguments, 1);
}

static void destroying_waits_for_the_work(void **state)
{
    (void)state;
    _Atomic uint64_t done = 0;
    _Atomic uint64_t *word = &done;
    trp__accel *accel = open_accel();
    trp__stream *stream = new_stream(accel);
    for (int i = 0; i < 3; i++)
        assert_int_equal(trp__host_enqueue(stream, run_slow, &word, sizeof word, NULL), TRP_OK);
    backend->stream_destroy(stream);
    assert_int_equal(atomic_load(&done), 3);
    stream = new_stream(accel); /* and one without work, which sleeps by now */
    trp__sleep_ns(5 * TRP__MS);
    backend->stream_destroy(stream);
    backend->close(accel);
}

/* Two streams hand one word back and forth. */
static void streams_wait_for_each_other(void **state)
{
    enum { ROUNDS = 3000 };
    (void)state;
    _Atomic uint64_t ping = 0;
    _Atomic uint64_t pong = 0;
    trp__accel *accel = open_accel();
    trp__stream *a = new_stream(accel);
    trp__stream *b = new_stream(accel);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        assert_int_equal(backend->stream_signal(a, &ping, i, NULL), TRP_OK);
        assert_int_equal(backend->stream_wait(b, &ping, i, NULL), TRP_OK);
        assert_int_equal(backend->stream_signal(b, &pong, i, NULL), TRP_OK);
        assert_int_equal(backend->stream_wait(a, &pong, i, NULL), TRP_OK);
    }
    wait_until(&pong, ROUNDS);
    assert_int_equal(atomic_load(&ping), ROUNDS);
    backend->stream_destroy(a);
    backend->stream_destroy(b);
    backend->close(accel);
}

/* Many sleepers, one signal; and a word that is written by none of the streams. */
static void sleepers_are_woken(void **state)
{
    enum { STREAMS = 24 };
    (void)state;
    static _Atomic uint64_t done[STREAMS];
    static _Atomic uint64_t gate, outside;
    trp__accel *accel = open_accel();
    trp__stream *producer = new_stream(accel);
    trp__stream *streams[STREAMS];
    atomic_store(&gate, 0);
    atomic_store(&outside, 0);
    for (int i = 0; i < STREAMS; i++) {
        atomic_store(&done[i], 0);
        streams[i] = new_stream(accel);
        backend->stream_wait(streams[i], &gate, 5, NULL);
        backend->stream_signal(streams[i], &done[i], 1, NULL);
    }
    backend->stream_wait(producer, &outside, 1, NULL);
    backend->stream_signal(producer, &gate, 4, NULL); /* not enough */
    backend->stream_signal(producer, &gate, 7, NULL);
    trp__sleep_ns(5 * TRP__MS);
    assert_int_equal(atomic_load(&done[0]), 0);
    atomic_store(&outside, 1);
    for (int i = 0; i < STREAMS; i++) {
        wait_until(&done[i], 1);
        backend->stream_destroy(streams[i]);
    }
    backend->stream_destroy(producer);
    assert_int_equal(backend->health(accel, NULL), TRP_OK);
    backend->close(accel);
}

/* A sleeper on a futex is woken by the stream, and not before the work in front is done. */
static void a_futex_is_woken(void **state)
{
    (void)state;
    static _Atomic uint64_t gate;
    static h_sleeper s;
    trp__accel *accel = open_accel();
    trp__stream *stream = new_stream(accel);
    atomic_store(&gate, 0);
    h_sleeper_start(&s);
    backend->stream_wait(stream, &gate, 1, NULL);
    assert_int_equal(backend->stream_wake(stream, &s.word, NULL), TRP_OK);
    trp__sleep_ns(5 * TRP__MS);
    assert_false(atomic_load(&s.awake));
    atomic_store(&gate, 1);
    while (!atomic_load(&s.awake)) { /* it may not have slept yet when it was woken */
        assert_int_equal(backend->stream_wake(stream, &s.word, NULL), TRP_OK);
        trp__sleep_ns(TRP__MS);
    }
    h_sleeper_join(&s);
    backend->stream_destroy(stream);
    backend->close(accel);
}

static int shared_arena(uint64_t bytes, unsigned char **map)
{
    void *at = NULL;
    int fd = -1;
    assert_int_equal(trp__shm_create("test-arena", bytes, false, &fd, &at, NULL), TRP_OK);
    *map = at;
    return fd;
}

static void copies_and_fills(void **state)
{
    (void)state;
    unsigned char *mine;
    void *base = NULL;
    trp__accel *accel = open_accel();
    trp__stream *stream = new_stream(accel);
    int fd = shared_arena(ARENA_BYTES, &mine);
    assert_int_equal(backend->arena_map(accel, fd, ARENA_BYTES, false, &base, NULL), TRP_OK);
    close(fd);
    unsigned char *device = base;

    char text[] = "0123456789";
    char back[sizeof text] = {0};
    backend->stream_fill(stream, device, 0xabcdef12, 4, 3, NULL);
    backend->stream_fill(stream, device + 2, 0x7788, 2, 1, NULL);
    backend->stream_fill(stream, device + 5, 0x55, 1, 2, NULL);
    backend->stream_copy(stream, device + 100, text, sizeof text, NULL);
    backend->stream_copy(stream, device + 201, device + 100, sizeof text, NULL);
    backend->stream_copy(stream, back, device + 201, sizeof text, NULL);
    backend->stream_fill(stream, device, 0, 4, 0, NULL);
    trp__host_drain(stream);
    const unsigned char expected[] = {0x12, 0xef, 0x88, 0x77, 0x12, 0x55, 0x55,
                                      0xab, 0x12, 0xef, 0xcd, 0xab, 0x00};
    assert_memory_equal(mine, expected, sizeof expected); /* seen through the owner's mapping */
    assert_string_equal(back, text);

    trp_error error;
    assert_int_equal(backend->stream_fill(stream, device, 0, 3, 1, &error), TRP_E_INTERNAL);
    backend->arena_unmap(accel, base, ARENA_BYTES);
    assert_int_equal(mine[0], 0x12); /* the memory is the owner's */
    trp__shm_unmap(mine, ARENA_BYTES);
    backend->stream_destroy(stream);
    backend->close(accel);
}

static int write_in_child(unsigned char *at)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit no_core = {0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV, SIG_DFL);
        trp__probe_store((uintptr_t)at);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* A mapping is read-only from the beginning, or from when it is said to be, and back; to its last
 * byte. */
static void read_only_arenas(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        unsigned char *mine;
        void *base = NULL;
        trp_error error;
        trp__accel *accel = open_accel();
        int fd = shared_arena(ARENA_BYTES, &mine);
        assert_int_equal(backend->arena_map(accel, fd, ARENA_BYTES, first == 1, &base, NULL),
                         TRP_OK);
        close(fd);
        unsigned char *last = (unsigned char *)base + ARENA_BYTES - 8;
        for (int i = 0; i < 5; i++) {
            bool read_only = (i + first) % 2 != 0;
            if (i > 0)
                assert_int_equal(
                    backend->arena_protect(accel, base, ARENA_BYTES, read_only, &error), TRP_OK);
            mine[0] = (unsigned char)i;
            assert_int_equal(*(unsigned char *)base, i);
            memset(mine + ARENA_BYTES - 8, 0, 8);
            assert_int_equal(write_in_child(base), read_only ? SIGSEGV : 0);
            assert_int_equal(write_in_child(last), read_only ? SIGSEGV : 0);
            assert_int_equal(mine[ARENA_BYTES - 8], read_only ? 0 : 0xad);
        }
        assert_int_not_equal(backend->arena_protect(accel, last, 8, true, &error), TRP_OK);
        backend->arena_unmap(accel, base, ARENA_BYTES);
        trp__shm_unmap(mine, ARENA_BYTES);
        backend->close(accel);
    }
}

static void bad_arenas_and_devices(void **state)
{
    (void)state;
    unsigned char *mine;
    void *base = NULL;
    trp_error error;
    trp__accel *accel = open_accel();
    trp__accel *other = NULL;
    int fd = shared_arena(ARENA_BYTES, &mine);
    assert_int_equal(backend->arena_map(accel, fd, 100, false, &base, &error), TRP_E_ARGUMENT);
    assert_int_not_equal(backend->arena_map(accel, fd, 2 * ARENA_BYTES, false, &base, &error),
                         TRP_OK);
    assert_int_not_equal(backend->arena_map(accel, -1, ARENA_BYTES, false, &base, &error), TRP_OK);
    assert_int_equal(backend->open(1, &other, &error), TRP_E_MISSING);
    close(fd);
    trp__shm_unmap(mine, ARENA_BYTES);
    backend->close(accel);
}

/* In a child: a probe with the arena as its output, on a stream that has work before it. */
_Noreturn static void die(trp_probe_action action, int fd, uint64_t bytes)
{
    const struct rlimit no_core = {0};
    trp__record record = {.op = TRP_OP_PROBE};
    trp__probe probe = {.action = action};
    trp__job job;
    trp__instance instance = {.impl = &trp__probe_host,
                              .backend = backend,
                              .api.state = calloc(1, trp__probe_host.state_bytes)};
    void *base = NULL;
    setrlimit(RLIMIT_CORE, &no_core);
    memcpy(record.payload, &probe, sizeof probe);
    if (backend->open(0, &instance.accel, NULL) != TRP_OK ||
        backend->stream_create(instance.accel, &instance.stream, NULL) != TRP_OK ||
        backend->arena_map(instance.accel, fd, bytes, false, &base, NULL) != TRP_OK)
        _exit(99);
    trp__job_begin(&job, &record);
    job.api.access_count = 1;
    job.api.access[0] = (trp_job_access){
        .address = base, .guard = (char *)base + bytes, .bytes = bytes, .mode = TRP_ACCESS_WRITE};
    trp__instance_begin(&instance, TRP_BACKEND_HOST, 0, 1);
    backend->stream_fill(instance.stream, base, 0x11, 1, bytes, NULL);
    if (trp__probe_host.handle(&instance.api, &job.api, NULL) != TRP_OK)
        _exit(98);
    trp__host_drain(instance.stream);
    _exit(97);
}

/* Each kind of death is what its name says, comes after the work before it, and leaves the owner's
 * memory there: its first half scribbled over. */
static void probes_kill_the_worker(void **state)
{
    static const struct {
        trp_probe_action action;
        int signal_number; /* 0: exit status 3 */
    } deaths[] = {
        {TRP_PROBE_ILLEGAL_ADDRESS, SIGSEGV},
        {TRP_PROBE_OUT_OF_BOUNDS, SIGSEGV},
        {TRP_PROBE_MISALIGNED, SIGBUS},
        {TRP_PROBE_SEGV, SIGSEGV},
        {TRP_PROBE_ABORT, SIGABRT},
        {TRP_PROBE_KILL, SIGKILL},
        {TRP_PROBE_EXIT, 0},
#if defined(__x86_64__)
        {TRP_PROBE_TRAP, SIGILL},
#endif
    };
    (void)state;
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
        unsigned char *mine;
        int status = 0;
        int fd = shared_arena(ARENA_BYTES, &mine);
        pid_t child = fork();
        if (child == 0)
            die(deaths[i].action, fd, ARENA_BYTES);
        assert_true(child > 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (deaths[i].signal_number == 0) {
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), 3);
        } else {
            assert_true(WIFSIGNALED(status));
            assert_int_equal(WTERMSIG(status), deaths[i].signal_number);
        }
        assert_int_equal(mine[0], 0xa5);
        assert_int_equal(mine[ARENA_BYTES / 2 - 1], 0xa5);
        assert_int_equal(mine[ARENA_BYTES / 2], 0x11);
        assert_int_equal(mine[ARENA_BYTES - 1], 0x11);
        close(fd);
        trp__shm_unmap(mine, ARENA_BYTES);
    }
}

static void harmless_probes(void **state)
{
    (void)state;
    trp__record record = {.op = TRP_OP_PROBE};
    trp__probe probe = {.action = TRP_PROBE_LIBRARY_ERROR};
    trp__job job;
    trp_error error = {0};
    trp__instance instance = {.impl = &trp__probe_host, .backend = backend};
    instance.api.state = calloc(1, trp__probe_host.state_bytes);
    assert_non_null(instance.api.state);
    instance.accel = open_accel();
    instance.stream = new_stream(instance.accel);
    trp__instance_begin(&instance, TRP_BACKEND_HOST, 0, 1);
    trp__job_begin(&job, &record);
    memcpy(record.payload, &probe, sizeof probe);
    assert_int_equal(trp__probe_host.handle(&instance.api, &job.api, &error), TRP_E_LIBRARY);
    assert_string_equal(error.domain, "probe");
    assert_int_equal(error.code, 1);

    probe = (trp__probe){.action = TRP_PROBE_SPIN, .duration_ns = 20 * TRP__MS};
    memcpy(record.payload, &probe, sizeof probe);
    int64_t start = trp__now_ns();
    assert_int_equal(trp__probe_host.handle(&instance.api, &job.api, &error), TRP_OK);
    trp__host_drain(instance.stream);
    assert_true(trp__now_ns() - start >= 20 * TRP__MS);

    probe = (trp__probe){.action = TRP_PROBE_NOP};
    memcpy(record.payload, &probe, sizeof probe);
    assert_int_equal(trp__probe_host.handle(&instance.api, &job.api, &error), TRP_OK);
    backend->stream_destroy(instance.stream);
    backend->close(instance.accel);
    free(instance.api.state);
}

UNIT_MAIN(UNIT(probes_kill_the_worker),
          /* first: it forks, so there are no threads yet */ UNIT(read_only_arenas),
          /* it does too */ UNIT(operations_run_in_order), UNIT(too_many_arguments),
          UNIT(destroying_waits_for_the_work), UNIT(streams_wait_for_each_other),
          UNIT(sleepers_are_woken), UNIT(a_futex_is_woken), UNIT(copies_and_fills),
          UNIT(bad_arenas_and_devices), UNIT(harmless_probes))

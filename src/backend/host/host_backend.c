/* The host backend. A stream is a thread that runs a bounded ring of operations in order; device
 * memory is the application's memfd. */
#include "backend/host/host_backend.h"

#include "base/os/clock.h"
#include "base/os/cpu.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/os/futex.h"
#include "base/os/service_thread.h"
#include "base/os/shm.h"
#include "base/os/thread.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    RING = 1024, /* operations that a stream holds; a power of two */
};

#define SPIN_NS (20 * TRP__US) /* how long a waiting thread spins before it sleeps */
/* Sleepers check again after this time, for words that were written without a wake-up. */
#define NAP_NS TRP__MS

typedef struct operation {
    void (*run)(void *arguments);
    uint64_t arguments[TRP__HOST_ARGUMENT_BYTES / 8];
} operation;

_Static_assert(sizeof(operation) == 256, "layout of an operation");

struct trp__accel {
    /* Waits between streams. A signal writes its word, then changes `signals` if there are waiters;
     * a waiter counts itself and reads `signals`, then reads the word. All four accesses are
     * sequentially consistent, so one side sees the other. */
    _Atomic uint32_t signals;
    _Atomic uint32_t waiters;
};

struct trp__stream {
    /* Producer's line. */
    _Alignas(64) _Atomic uint32_t enqueued; /* operations, modulo 2^32 */
    _Atomic uint32_t producer_sleeps;
    _Atomic uint32_t stopping;

    /* The thread's line. */
    _Alignas(64) _Atomic uint32_t done;
    _Atomic uint32_t consumer_sleeps;

    trp__accel *accel;
    pthread_t thread;
    operation ring[RING];
};

/* Waiting for a counter of the other side to change. `sleeps` asks that side for a wake-up: it is
 * set before the last read of the counter, and read after the counter is changed. */

static int64_t spin_end(int64_t now)
{
    return trp__cpu_may_spin() ? now + SPIN_NS : now;
}

static void sleep_on(_Atomic uint32_t *counter, uint32_t seen, _Atomic uint32_t *sleeps)
{
    atomic_store(sleeps, 1);
    if (atomic_load(counter) == seen)
        trp__futex_wait(counter, seen, -1);
    atomic_store(sleeps, 0);
}

static void wait_for_change(_Atomic uint32_t *counter, uint32_t seen, _Atomic uint32_t *sleeps)
{
    int64_t end = 0;
    for (uint32_t spins = 1; atomic_load_explicit(counter, memory_order_acquire) == seen; spins++) {
        trp__relax();
        if (spins % 64 != 0)
            continue;
        int64_t now = trp__now_ns();
        if (end == 0)
            end = spin_end(now);
        if (now >= end)
            sleep_on(counter, seen, sleeps);
    }
}

static void advance(_Atomic uint32_t *counter, uint32_t value, _Atomic uint32_t *sleeps)
{
    atomic_store(counter, value);
    if (atomic_load(sleeps))
        trp__futex_wake(counter, 1);
}

/* The stream's thread. */

static void *stream_main(void *argument)
{
    trp__stream *stream = argument;
    uint32_t done = 0;
    trp__is_service_thread = true;
    /* Set by the thread itself: pthread_setname_np() from another thread opens a file of
     * /proc/self/task, and when the kernel drops such an entry while the process is reaped it may
     * spin for a minute, blocking the machine. */
    prctl(PR_SET_NAME, "trp-stream");
    for (;;) {
        wait_for_change(&stream->enqueued, done, &stream->consumer_sleeps);
        if (atomic_load_explicit(&stream->stopping, memory_order_acquire))
            return NULL; /* the ring was empty; stream_destroy() has advanced `enqueued` */
        operation *op = &stream->ring[done % RING];
        TRP__FAULT_POINT(HOST_OPERATION);
        op->run(op->arguments);
        TRP__FAULT_POINT(HOST_OPERATION_DONE);
        advance(&stream->done, ++done, &stream->producer_sleeps);
    }
}

trp_status trp__host_enqueue(trp__stream *stream, void (*run)(void *arguments),
                             const void *arguments, size_t bytes, trp_error *error)
{
    uint32_t enqueued = atomic_load_explicit(&stream->enqueued, memory_order_relaxed);
    if (bytes > TRP__HOST_ARGUMENT_BYTES)
        return trp__error_set(error, TRP_E_INTERNAL, "%zu bytes of arguments, at most %d fit",
                              bytes, TRP__HOST_ARGUMENT_BYTES);
    wait_for_change(&stream->done, enqueued - RING, &stream->producer_sleeps);
    operation *op = &stream->ring[enqueued % RING];
    op->run = run;
    if (bytes > 0)
        memcpy(op->arguments, arguments, bytes);
    advance(&stream->enqueued, enqueued + 1, &stream->consumer_sleeps);
    return TRP_OK;
}

void trp__host_drain(trp__stream *stream)
{
    uint32_t enqueued = atomic_load_explicit(&stream->enqueued, memory_order_relaxed);
    uint32_t done;
    while ((done = atomic_load_explicit(&stream->done, memory_order_acquire)) != enqueued)
        wait_for_change(&stream->done, done, &stream->producer_sleeps);
}

/* Whether it has; by the thread that enqueues. */
static bool host_idle(const trp__stream *stream)
{
    return atomic_load_explicit(&stream->done, memory_order_acquire) ==
           atomic_load_explicit(&stream->enqueued, memory_order_relaxed);
}

static trp_status stream_create(trp__accel *accel, trp__stream **out, trp_error *error)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, sizeof(trp__stream)) != 0)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a stream");
    trp__stream *stream = memory;
    memset(stream, 0, sizeof *stream);
    stream->accel = accel;
    int code = trp__thread_start(&stream->thread, TRP__SIGNALS_OF_FAULTS, stream_main, stream);
    if (code != 0) {
        free(stream);
        errno = code;
        return trp__error_set_errno(error, "a thread for a stream");
    }
    *out = stream;
    return TRP_OK;
}

static void stream_destroy(trp__stream *stream)
{
    trp__host_drain(stream);
    uint32_t enqueued = atomic_load_explicit(&stream->enqueued, memory_order_relaxed);
    atomic_store(&stream->stopping, 1);
    advance(&stream->enqueued, enqueued + 1, &stream->consumer_sleeps);
    pthread_join(stream->thread, NULL);
    free(stream);
}

/* Operations. */

typedef struct copy_arguments {
    void *to;
    const void *from;
    uint64_t bytes;
} copy_arguments;

static void run_copy(void *arguments)
{
    const copy_arguments *a = arguments;
    memcpy(a->to, a->from, a->bytes);
}

static trp_status stream_copy(trp__stream *stream, void *to, const void *from, uint64_t bytes,
                              trp_error *error)
{
    copy_arguments a = {.to = to, .from = from, .bytes = bytes};
    return trp__host_enqueue(stream, run_copy, &a, sizeof a, error);
}

typedef struct rows_arguments {
    char *to;
    const char *from;
    uint64_t to_pitch, from_pitch, bytes, rows;
} rows_arguments;

static void run_rows(void *arguments)
{
    const rows_arguments *a = arguments;
    for (uint64_t i = 0; i < a->rows; i++)
        memcpy(a->to + i * a->to_pitch, a->from + i * a->from_pitch, a->bytes);
}

static trp_status stream_copy_rows(trp__stream *stream, void *to, uint64_t to_pitch,
                                   const void *from, uint64_t from_pitch, uint64_t bytes,
                                   uint64_t rows, trp_error *error)
{
    rows_arguments a = {.to = to,
                        .from = from,
                        .to_pitch = to_pitch,
                        .from_pitch = from_pitch,
                        .bytes = bytes,
                        .rows = rows};
    return trp__host_enqueue(stream, run_rows, &a, sizeof a, error);
}

typedef struct fill_arguments {
    void *to;
    uint64_t count;
    uint32_t pattern;
    uint32_t width;
} fill_arguments;

static void run_fill(void *arguments)
{
    const fill_arguments *a = arguments;
    uint16_t *halves = a->to;
    uint32_t *words = a->to;
    switch (a->width) {
    case 1:
        memset(a->to, (int)(a->pattern & 0xff), a->count);
        break;
    case 2:
        for (uint64_t i = 0; i < a->count; i++)
            halves[i] = (uint16_t)a->pattern;
        break;
    default:
        for (uint64_t i = 0; i < a->count; i++)
            words[i] = a->pattern;
        break;
    }
}

static trp_status stream_fill(trp__stream *stream, void *to, uint32_t pattern, uint32_t width,
                              uint64_t count, trp_error *error)
{
    fill_arguments a = {.to = to, .count = count, .pattern = pattern, .width = width};
    if (width != 1 && width != 2 && width != 4)
        return trp__error_set(error, TRP_E_INTERNAL, "fill: expected a width of 1, 2 or 4, got %u",
                              width);
    return trp__host_enqueue(stream, run_fill, &a, sizeof a, error);
}

typedef struct word_arguments {
    trp__accel *accel;
    _Atomic uint64_t *word;
    uint64_t value;
} word_arguments;

static void run_signal(void *arguments)
{
    const word_arguments *a = arguments;
    atomic_store(a->word, a->value);
    if (atomic_load(&a->accel->waiters) == 0)
        return;
    atomic_fetch_add(&a->accel->signals, 1);
    trp__futex_wake(&a->accel->signals, INT_MAX);
}

static trp_status stream_signal(trp__stream *stream, _Atomic uint64_t *word, uint64_t value,
                                trp_error *error)
{
    word_arguments a = {.accel = stream->accel, .word = word, .value = value};
    return trp__host_enqueue(stream, run_signal, &a, sizeof a, error);
}

static bool spin_for_word(const word_arguments *a)
{
    int64_t end = spin_end(trp__now_ns());
    do {
        for (int i = 0; i < 64; i++) {
            if (atomic_load_explicit(a->word, memory_order_acquire) >= a->value)
                return true;
            trp__relax();
        }
    } while (trp__now_ns() < end);
    return false;
}

static void run_wait(void *arguments)
{
    const word_arguments *a = arguments;
    trp__accel *accel = a->accel;
    if (spin_for_word(a))
        return;
    atomic_fetch_add(&accel->waiters, 1);
    for (;;) {
        uint32_t seen = atomic_load(&accel->signals);
        if (atomic_load(a->word) >= a->value)
            break;
        trp__futex_wait(&accel->signals, seen, NAP_NS);
    }
    atomic_fetch_sub(&accel->waiters, 1);
}

static trp_status stream_wait(trp__stream *stream, _Atomic uint64_t *word, uint64_t value,
                              trp_error *error)
{
    word_arguments a = {.accel = stream->accel, .word = word, .value = value};
    return trp__host_enqueue(stream, run_wait, &a, sizeof a, error);
}

static void run_wake(void *arguments)
{
    _Atomic uint32_t *const *futex = arguments;
    trp__futex_wake(*futex, INT_MAX);
}

static trp_status stream_wake(trp__stream *stream, _Atomic uint32_t *futex, trp_error *error)
{
    return trp__host_enqueue(stream, run_wake, &futex, sizeof futex, error);
}

static void *stream_native(trp__stream *stream)
{
    (void)stream;
    return NULL;
}

/* Device and memory. */

static trp_status open_accel(uint32_t ordinal, trp__accel **out, trp_error *error)
{
    if (ordinal != 0)
        return trp__error_set(error, TRP_E_MISSING, "ordinal: the only host device is 0, got %u",
                              ordinal);
    trp__accel *accel = calloc(1, sizeof *accel);
    if (!accel)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for the host device");
    *out = accel;
    return TRP_OK;
}

static void close_accel(trp__accel *accel)
{
    free(accel);
}

static trp_status attach(trp__accel *accel, trp_error *error)
{
    (void)accel;
    (void)error;
    return TRP_OK;
}

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Read-only zeros lie before and behind the range: a write past the end of the last buffer faults,
 * but libraries may read elements that they don't use (worker/backend.h). */
static trp_status arena_map(trp__accel *accel, int fd, uint64_t bytes, bool read_only, void **base,
                            trp_error *error)
{
    (void)accel;
    if (bytes == 0 || bytes % page_bytes() != 0)
        return trp__error_set(error, TRP_E_ARGUMENT,
                              "an arena of %llu bytes: expected a multiple of %llu",
                              (unsigned long long)bytes, (unsigned long long)page_bytes());
    char *range = mmap(NULL, bytes + 2 * TRP__HOST_MARGIN, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        return trp__error_set_errno(error, "address space for an arena");
    trp_status status = trp__shm_map(fd, bytes, !read_only, range + TRP__HOST_MARGIN, base, error);
    if (status != TRP_OK)
        munmap(range, bytes + 2 * TRP__HOST_MARGIN);
    return status;
}

static trp_status arena_protect(trp__accel *accel, void *base, uint64_t bytes, bool read_only,
                                trp_error *error)
{
    (void)accel;
    if (mprotect(base, bytes, read_only ? PROT_READ : PROT_READ | PROT_WRITE) != 0)
        return trp__error_set_errno(error, "mprotect of an arena");
    return TRP_OK;
}

static void arena_unmap(trp__accel *accel, void *base, uint64_t bytes)
{
    (void)accel;
    munmap((char *)base - TRP__HOST_MARGIN, bytes + 2 * TRP__HOST_MARGIN);
}

static trp_status host_register(trp__accel *accel, void *base, uint64_t bytes, trp_error *error)
{
    (void)accel;
    (void)base;
    (void)bytes;
    (void)error;
    return TRP_OK;
}

static void host_unregister(trp__accel *accel, void *base)
{
    (void)accel;
    (void)base;
}

static trp_status no_library(trp__accel *accel, int result, const char *call, trp_error *error)
{
    (void)accel;
    return trp__error_set_code(error, TRP_E_LIBRARY, "cuda", result,
                               "%s gave %d on the host backend, which has no CUDA", call, result);
}

/* Faults of this backend are signals, so a running process is healthy. */
static trp_status health(trp__accel *accel, trp_error *error)
{
    (void)accel;
    (void)error;
    return TRP_OK;
}

const trp__backend trp__host_backend = {
    .name = "host",
    .open = open_accel,
    .close = close_accel,
    .attach = attach,
    .arena_map = arena_map,
    .arena_protect = arena_protect,
    .arena_unmap = arena_unmap,
    .host_register = host_register,
    .host_unregister = host_unregister,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_copy = stream_copy,
    .stream_copy_rows = stream_copy_rows,
    .stream_fill = stream_fill,
    .stream_signal = stream_signal,
    .stream_signal_beside = stream_signal,
    .stream_wait = stream_wait,
    .stream_wake = stream_wake,
    .stream_drain = trp__host_drain,
    .stream_idle = host_idle,
    .stream_native = stream_native,
    .stream_run = trp__host_enqueue,
    .fail = no_library,
    .health = health,
};

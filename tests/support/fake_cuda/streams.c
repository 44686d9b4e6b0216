/* Streams of the fake driver: each is a thread that runs its operations in order. Streams share a
 * few hardware queues, as on a GPU. Operations of a queue begin in the order in which they were
 * sent, so a wait also delays later operations of other streams in its queue. */
#include "support/fake_cuda/device_kernels.h"
#include "support/fake_cuda/events.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* interval at which a stream polls a word that another process writes */
#define WORD_POLL_NS 500000

struct fake_stream {
    fake_stream *next;
    uintptr_t handle; /* 0: the default stream, or destroyed */
    fake_context *context;
    int queue;
    pthread_cond_t wake;
    fake_op *head, *tail;
    unsigned int queued;
    uint64_t sent, done; /* operations */
    unsigned int users;  /* calls that are waiting for it */
    bool idle;           /* its thread waits for `wake` */
    bool polling;        /* and polls */
    bool closing;        /* it ends when no operation is left */
    atomic_bool dropped; /* it ends now */
    fake_graph *capture; /* the graph that it records; NULL: none */
    bool ended;
};

typedef struct hardware_queue {
    uint64_t sent, begun;
} hardware_queue;

static fake_stream *streams;
static hardware_queue queues[FAKE_QUEUES];
static int next_queue;

static _Thread_local fake_stream *self; /* set in the thread of a stream */
static _Thread_local int self_fault;

/* Operations, without the lock where they take long. */

void fake_fault(int result)
{
    if (self_fault == 0)
        self_fault = result;
}

bool fake_interrupted(void)
{
    return atomic_load_explicit(&fake.stopping, memory_order_relaxed) ||
           (self && atomic_load_explicit(&self->dropped, memory_order_relaxed));
}

bool fake_cuda_stopping(void)
{
    return fake_interrupted();
}

/* Reaches one side of a copy, or of a fill: the bytes at `address`, or at `host` if given, as many
 * as lie in one piece. The caller releases the pin. */
static char *reach(fake_pin *pin, uint64_t address, const void *host, size_t *bytes, bool write)
{
    *pin = (fake_pin){.at = (void *)(uintptr_t)host};
    if (host)
        return pin->at;
    pthread_mutex_lock(&fake.lock);
    pin->at = fake_pin_range(address, bytes, write, &pin->range);
    pthread_mutex_unlock(&fake.lock);
    if (!pin->at)
        fake_fault(FAKE_ERROR_ILLEGAL_ADDRESS);
    return pin->at;
}

void *fake_cuda_reach(fake_pin *pin, uint64_t address, size_t bytes, bool write)
{
    size_t here = bytes;
    if (reach(pin, address, NULL, &here, write) && here < bytes) {
        fake_cuda_let_go(pin);
        fake_fault(FAKE_ERROR_ILLEGAL_ADDRESS);
    }
    return pin->at;
}

void *fake_cuda_reach_some(fake_pin *pin, uint64_t address, size_t *bytes, bool write)
{
    return reach(pin, address, NULL, bytes, write);
}

void fake_cuda_let_go(fake_pin *pin)
{
    if (pin->range) {
        pthread_mutex_lock(&fake.lock);
        fake_unpin_range(pin->range);
        pthread_mutex_unlock(&fake.lock);
    }
    *pin = (fake_pin){0};
}

static void run_copy(const fake_op *op)
{
    for (size_t at = 0; at < op->copy.bytes && !fake_interrupted();) {
        size_t bytes = op->copy.bytes - at;
        fake_pin from_pin, to_pin = {0};
        if (bytes > FAKE_PIECE_BYTES)
            bytes = FAKE_PIECE_BYTES;
        const char *from =
            reach(&from_pin, op->copy.from + at,
                  op->copy.host_from ? (const char *)op->copy.host_from + at : NULL, &bytes, false);
        char *to =
            from ? reach(&to_pin, op->copy.to + at,
                         op->copy.host_to ? (char *)op->copy.host_to + at : NULL, &bytes, true)
                 : NULL;
        if (to)
            memmove(to, from, bytes);
        fake_cuda_let_go(&from_pin);
        fake_cuda_let_go(&to_pin);
        if (!to)
            return;
        at += bytes;
    }
}

static void fill(char *to, uint32_t value, uint32_t width, size_t bytes)
{
    if (width == 1) {
        memset(to, (int)(value & 0xff), bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i += width)
        memcpy(to + i, &value, width); /* little endian */
}

static void run_fill(const fake_op *op)
{
    size_t all = op->fill.count * op->fill.width;
    for (size_t at = 0; at < all && !fake_interrupted();) {
        size_t bytes = all - at < FAKE_PIECE_BYTES ? all - at : FAKE_PIECE_BYTES;
        fake_pin pin;
        char *to = reach(&pin, op->fill.to + at, NULL, &bytes, true);
        if (!to)
            return;
        fill(to, op->fill.value, op->fill.width, bytes);
        fake_cuda_let_go(&pin);
        at += bytes;
    }
}

/* The lock is held. */
static void run_short(const fake_op *op)
{
    _Atomic uint64_t *word;
    switch (op->kind) {
    case FAKE_OP_WRITE:
        word = fake_word(op->word.address, true);
        if (word)
            atomic_store_explicit(word, op->word.value, memory_order_release);
        else
            fake_fault(FAKE_ERROR_ILLEGAL_ADDRESS);
        break;
    case FAKE_OP_WAIT:
        if (!fake_word(op->word.address, false))
            fake_fault(FAKE_ERROR_ILLEGAL_ADDRESS);
        break;
    case FAKE_OP_RECORD:
        op->recording->done = true;
        op->recording->time = op->recording->timed ? fake_cutlass_clock() : 0;
        break;
    case FAKE_OP_FREE:
        fake_allocation_free(op->address);
        break;
    default:
        break;
    }
}

static void run_long(fake_op *op)
{
    switch (op->kind) {
    case FAKE_OP_COPY:
        run_copy(op);
        break;
    case FAKE_OP_FILL:
        run_fill(op);
        break;
    case FAKE_OP_KERNEL:
        if (op->kernel.kernel->threads)
            fake_device_run(op->kernel.kernel->threads, op->kernel.parameter, op->kernel.grid,
                            op->kernel.block, op->kernel.shared_bytes, op->kernel.cluster);
        else
            op->kernel.kernel->run(op->kernel.parameter);
        break;
    case FAKE_OP_FUNCTION:
        op->function.run(op->function.arguments);
        break;
    case FAKE_OP_GRAPH:
        fake_graph_run(op->graph);
        break;
    default:
        break;
    }
}

static bool is_long(fake_op_kind kind)
{
    return kind == FAKE_OP_COPY || kind == FAKE_OP_FILL || kind == FAKE_OP_KERNEL ||
           kind == FAKE_OP_FUNCTION || kind == FAKE_OP_GRAPH;
}

static void free_op(fake_op *op)
{
    if (op->kind == FAKE_OP_RECORD || op->kind == FAKE_OP_EVENT_WAIT)
        fake_recording_drop(op->recording);
    if (op->kind == FAKE_OP_GRAPH)
        fake_graph_drop(op->graph);
    if (op->kind == FAKE_OP_KERNEL)
        free(op->kernel.parameter);
    free(op);
}

/* Order of operations. The lock is held. */

static bool has_turn(const fake_stream *s)
{
    return s->head && s->head->turn == queues[s->queue].begun;
}

/* Returns whether the first operation of a stream may begin. */
static bool may_begin(const fake_stream *s)
{
    const fake_op *op = s->head;
    if (!has_turn(s))
        return false;
    if (op->kind == FAKE_OP_WAIT) {
        const _Atomic uint64_t *word = fake_word(op->word.address, false);
        return !word ||
               (int64_t)(atomic_load_explicit(word, memory_order_acquire) - op->word.value) >= 0;
    }
    return op->kind != FAKE_OP_EVENT_WAIT || op->recording->done;
}

/* Called after every change that may let a stream go on. */
static void wake_streams(void)
{
    for (fake_stream *s = streams; s; s = s->next) {
        if (s->idle && has_turn(s) && (!s->polling || may_begin(s)))
            pthread_cond_signal(&s->wake);
    }
    fake_announce();
}

/* A wait for a word is the only one that ends without a wake-up. */
static void sleep_idle(fake_stream *s)
{
    s->idle = true;
    s->polling = has_turn(s) && s->head->kind == FAKE_OP_WAIT;
    if (s->polling) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += WORD_POLL_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&s->wake, &fake.lock, &until);
    } else {
        pthread_cond_wait(&s->wake, &fake.lock);
    }
    s->idle = false;
}

/* Drops the remaining operations, whose turns pass to others. */
static void discard(fake_stream *s)
{
    while (s->head && !atomic_load(&fake.stopping)) {
        fake_op *op = s->head;
        if (!has_turn(s)) {
            fake_wait();
            continue;
        }
        queues[s->queue].begun++;
        s->head = op->next;
        s->queued--;
        free_op(op);
        wake_streams();
    }
}

static void nap(int64_t ns)
{
    nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

/* Reports a fault for the stream that had it. At first only that stream stops. When calls begin to
 * return the error, no operation runs any more. */
static void report_fault(int result)
{
    if (fake.faulted)
        return; /* another stream reports its own fault */
    fake.faulted = true;
    int64_t end = fake_now() + fake.settings.report_ns;
    for (int64_t left; (left = end - fake_now()) > 0;) {
        pthread_mutex_unlock(&fake.lock);
        nap(left);
        pthread_mutex_lock(&fake.lock);
    }
    atomic_store(&fake.stopping, true);
    for (fake_stream *s = streams; s; s = s->next)
        pthread_cond_signal(&s->wake);
    while (fake.executing > 0)
        pthread_cond_wait(&fake.quiet, &fake.lock);
    fake.broken = result;
    pthread_cond_broadcast(&fake.changed);
}

/* Writes of words may be late, and in any order relative to other streams, which are ordered by
 * events. */
static void delay_write(void)
{
    static uint32_t random = 1;
    random = random * 1664525 + 1013904223;
    const int64_t ns = fake.settings.write_ns * (random >> 16) >> 16;
    fake.executing++;
    pthread_mutex_unlock(&fake.lock);
    nap(ns);
    pthread_mutex_lock(&fake.lock);
    if (--fake.executing == 0)
        pthread_cond_signal(&fake.quiet);
}

static void execute(fake_stream *s, fake_op *op)
{
    self_fault = 0;
    if (op->kind == FAKE_OP_WRITE && fake.settings.write_ns > 0)
        delay_write();
    if (is_long(op->kind)) {
        fake.executing++;
        pthread_mutex_unlock(&fake.lock);
        run_long(op);
        pthread_mutex_lock(&fake.lock);
        if (--fake.executing == 0)
            pthread_cond_signal(&fake.quiet);
    } else if (!atomic_load(&fake.stopping)) {
        run_short(op);
    }
    free_op(op);
    if (self_fault == 0 && !atomic_load(&fake.stopping)) {
        s->done++;
        wake_streams();
    }
}

static void *stream_main(void *argument)
{
    fake_stream *s = argument;
    self = s;
    pthread_mutex_lock(&fake.lock);
    while (!atomic_load(&fake.stopping) && !atomic_load(&s->dropped)) {
        if (!may_begin(s)) {
            if (!s->head && s->closing)
                break;
            sleep_idle(s);
            continue;
        }
        fake_op *op = s->head;
        s->head = op->next;
        s->queued--;
        queues[s->queue].begun++;
        wake_streams();
        execute(s, op);
        if (self_fault) {
            report_fault(self_fault);
            break;
        }
    }
    discard(s);
    s->ended = true;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    return NULL;
}

/* Calls on streams. */

static void stream_free(fake_stream *s)
{
    pthread_cond_destroy(&s->wake);
    while (s->head) {
        fake_op *op = s->head;
        s->head = op->next;
        free_op(op);
    }
    free(s);
}

/* Frees destroyed streams that have ended. */
static void reap_streams(void)
{
    for (fake_stream **at = &streams; *at;) {
        fake_stream *s = *at;
        if (s->closing && s->ended && s->users == 0) {
            *at = s->next;
            stream_free(s);
        } else {
            at = &s->next;
        }
    }
}

static fake_stream *stream_new(fake_context *context)
{
    pthread_t thread;
    reap_streams();
    fake_stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->context = context;
    s->queue = next_queue;
    pthread_cond_init(&s->wake, NULL);
    if (pthread_create(&thread, NULL, stream_main, s) != 0) {
        free(s);
        return NULL;
    }
    pthread_detach(thread);
    next_queue = (next_queue + 1) % fake.settings.queues;
    s->next = streams;
    streams = s;
    return s;
}

fake_stream *fake_stream_get(trp__cu_stream handle)
{
    fake_context *context = fake_current();
    if (handle) {
        fake_stream *s = fake_handle_get(FAKE_STREAM, (uintptr_t)handle);
        return s && s->context == context ? s : NULL;
    }
    if (!context->standard)
        context->standard = stream_new(context);
    return context->standard;
}

fake_graph **fake_stream_capture(trp__cu_stream handle)
{
    fake_stream *s = fake_stream_get(handle);
    return s ? &s->capture : NULL;
}

static bool usable(const fake_stream *s)
{
    return fake.broken == 0 && !s->closing && !atomic_load(&s->dropped);
}

int fake_submit(fake_stream *s, const fake_op *like)
{
    if (s->capture) /* a recording stream takes functions only, see graphs.c */
        return FAKE_ERROR_NOT_SUPPORTED;
    s->users++;
    while (usable(s) && s->queued >= FAKE_STREAM_DEPTH)
        fake_wait();
    s->users--;
    if (!usable(s))
        return fake.broken ? fake.broken : FAKE_ERROR_INVALID_HANDLE;
    fake_op *op = malloc(sizeof *op);
    if (!op)
        return FAKE_ERROR_OUT_OF_MEMORY;
    *op = *like;
    op->next = NULL;
    op->turn = queues[s->queue].sent++;
    if (op->kind == FAKE_OP_RECORD || op->kind == FAKE_OP_EVENT_WAIT)
        op->recording->references++;
    if (op->kind == FAKE_OP_GRAPH)
        fake_graph_keep(op->graph);
    if (s->head)
        s->tail->next = op;
    else
        s->head = op;
    s->tail = op;
    s->queued++;
    s->sent++;
    if (s->idle)
        pthread_cond_signal(&s->wake);
    return FAKE_SUCCESS;
}

static bool drained(const fake_stream *s, uint64_t sent)
{
    /* A stream ends by a fault before the fault is reported. */
    return fake.broken || s->done >= sent || (s->ended && !fake.faulted);
}

int fake_stream_drain(fake_stream *s)
{
    uint64_t sent = s->sent;
    s->users++; /* keeps it in the list */
    while (!drained(s, sent))
        fake_wait();
    s->users--;
    return fake.broken;
}

/* Streams that are created meanwhile are added in front of the list. */
int fake_drain_all(void)
{
    for (fake_stream *s = streams; s; s = s->next) {
        int result = fake_stream_drain(s);
        if (result)
            return result;
    }
    return fake.broken;
}

trp__cu_result cuStreamCreate(trp__cu_stream *stream, unsigned int flags)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (flags > 1)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    if (flags == 0) /* a stream that is ordered with the default stream */
        return fake_leave(FAKE_ERROR_NOT_SUPPORTED);
    fake_stream *s = stream_new(fake_current());
    if (!s)
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    s->handle = fake_handle_new(FAKE_STREAM, s);
    if (!s->handle) {
        s->closing = true;
        pthread_cond_signal(&s->wake);
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    }
    *stream = (trp__cu_stream)s->handle;
    return fake_leave(FAKE_SUCCESS);
}

/* The handle is invalid from here on; pending work still runs. */
trp__cu_result cuStreamDestroy_v2(trp__cu_stream stream)
{
    int result = fake_enter(FAKE_ENDS_CONTEXT);
    if (result)
        return result;
    fake_stream *s = stream ? fake_stream_get(stream) : NULL;
    if (!s)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    if (s->capture)
        fake_graph_drop(s->capture);
    s->capture = NULL;
    fake_handle_drop(s->handle);
    s->handle = 0;
    s->closing = true;
    pthread_cond_signal(&s->wake);
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuStreamQuery(trp__cu_stream stream)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    const fake_stream *s = fake_stream_get(stream);
    return fake_leave(!s                   ? FAKE_ERROR_INVALID_HANDLE
                      : s->done == s->sent ? FAKE_SUCCESS
                                           : FAKE_ERROR_NOT_READY);
}

trp__cu_result cuStreamSynchronize(trp__cu_stream stream)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    fake_stream *s = fake_stream_get(stream);
    return fake_leave(s ? fake_stream_drain(s) : FAKE_ERROR_INVALID_HANDLE);
}

void fake_streams_clear(fake_context *context)
{
    for (fake_stream *s = streams; s; s = s->next) {
        if (s->context == context) {
            atomic_store(&s->dropped, true);
            pthread_cond_signal(&s->wake);
        }
    }
    fake_announce();
    for (fake_stream **at = &streams; *at;) {
        fake_stream *s = *at;
        if (s->context != context) {
            at = &s->next;
        } else if (!s->ended || s->users > 0) {
            fake_wait();
            at = &streams; /* the list may have changed meanwhile */
        } else {
            *at = s->next;
            if (s->handle)
                fake_handle_drop(s->handle);
            stream_free(s);
        }
    }
    context->standard = NULL;
}

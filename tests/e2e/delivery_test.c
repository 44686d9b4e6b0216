/* When results are in the program's memory: with the end of any later request of the same actor, or
 * of one that depended on it, whoever looks after it; promptly where nobody does; and never after a
 * drain. Memory is freed by that rule alone, so a late write shows under AddressSanitizer, too. */
#include "support/harness.h"

#include <troupe/blas.h>

#include <stdatomic.h>

TROUPE_TEST_FAKE_GPU("no tsan");
TROUPE_TEST_FAKE_GPU("as fake-gpu-thread", "no sanitizer", "TROUPE_TEST_ISOLATION=thread");

enum { WORDS = 16, LARGE_BYTES = 300000, ROUNDS = H_SANITIZED ? 300 : 2000 };

typedef struct stage {
    h_world w;
    trp_buffer small, other, large;
    trp_queue *queue;
} stage;

static stage begin(void)
{
    stage s = {.w = h_open(NULL)};
    s.small = h_filled(s.w.device, WORDS * 4, 1);
    s.other = h_filled(s.w.device, WORDS * 4, 1);
    s.large = h_filled(s.w.device, LARGE_BYTES, 1);
    H_OK(trp_queue_create(s.w.system, &s.queue));
    return s;
}

static void end(stage *s)
{
    H_OK(trp_device_drain(s->w.device, TRP_FOREVER));
    H_OK(trp_queue_destroy(s->queue));
    h_close(&s->w);
}

/* Waits for a request by its future or by the queue. */
static trp_completion wish(const stage *s, bool by_queue)
{
    return (trp_completion){.queue = by_queue ? s->queue : NULL};
}

static void await(const stage *s, const trp_completion *c)
{
    trp_event event;
    if (!c->queue) {
        H_OK(h_await_any(*c));
        return;
    }
    H_OK(trp_queue_next(s->queue, TRP_FOREVER, &event));
    H_EQUAL(event.status, TRP_OK);
}

/* A word of memory of its own, so that a write after free() is one. */
static uint32_t *target(size_t bytes)
{
    uint32_t *memory = h_malloc(bytes);
    memset(memory, 0xee, bytes);
    return memory;
}

/* Reads of 64 bytes, or of more than fits one piece, of which nobody awaits the end; awaited is a
 * later read, or a fill that waits for the read of what it overwrites, in another lane. */
static void read_and_await(bool by_fill)
{
    stage s = begin();
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        const bool large = i % 16 == 0;
        const size_t bytes = large ? LARGE_BYTES : WORDS * 4;
        const trp_buffer from = large ? s.large : s.small;
        uint32_t *first = target(bytes), *last = target(4);
        trp_completion c = wish(&s, i % 3 == 0);
        H_OK(trp_fill(s.w.device, from, 0, bytes, i, 4, NULL));
        H_OK(trp_read(s.w.device, from, 0, first, bytes, NULL));
        H_OK(by_fill ? trp_fill(s.w.device, from, 0, bytes, i + 1, 4, &c)
                     : trp_read(s.w.device, s.other, 0, last, 4, &c));
        await(&s, &c);
        H_EQUAL(first[0], i);
        H_EQUAL(first[bytes / 4 - 1], i);
        free(first);
        free(last);
    }
    end(&s);
}

static void reads_in_order(void)
{
    read_and_await(false);
}

/* Two reads into one place: what stays there is the later one's. */
static void into_one_place(void)
{
    stage s = begin();
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        uint32_t *place = target(4);
        trp_completion c = wish(&s, i % 3 == 0);
        for (uint32_t k = 0; k < 4; k++) {
            H_OK(trp_fill(s.w.device, s.small, 0, 4, 4 * i + k, 4, NULL));
            H_OK(trp_read(s.w.device, s.small, 0, place, 4, k < 3 ? NULL : &c));
        }
        if (i % 16 == 0)
            H_OK(trp_device_drain(s.w.device, TRP_FOREVER));
        await(&s, &c);
        H_EQUAL(*place, 4 * i + 3);
        free(place);
    }
    end(&s);
}

static void what_it_depended_on(void)
{
    read_and_await(true);
}

/* Products of vectors, to memory of the program; the last goes to a buffer. */
static void values_in_order(void)
{
    stage s = begin();
    trp_actor *blas = h_actor(s.w.device, "blas");
    const float numbers[WORDS] = {1, 2, 3, 4, 5, 6, 7, 8};
    h_write(s.w.device, s.small, 0, numbers, sizeof numbers);
    for (int i = 0; i < ROUNDS / 4; i++) {
        float *value = (float *)(void *)target(4);
        trp_completion c = wish(&s, i % 3 == 0);
        const int64_t n = 1 + i % 8;
        trp_blas1_request r = {.type = TRP_F32, .n = n, .x = s.small, .y = s.small, .value = value};
        H_OK(trp_dot(blas, &r, NULL));
        r.value = NULL;
        r.result = s.other;
        H_OK(trp_dot(blas, &r, &c));
        await(&s, &c);
        H_CHECK(*value == (float)(n * (n + 1) * (2 * n + 1) / 6));
        free(value);
    }
    end(&s);
}

/* Looks while another thread may write, which no program may; ThreadSanitizer would say so. */
__attribute__((noinline, no_sanitize("thread"))) static uint32_t peek(const volatile uint32_t *at)
{
    return *at;
}

/* The supervisor delivers them; a dropped future is nobody's, too. */
static void nobody_awaits(void)
{
    stage s = begin();
    for (uint32_t i = 1; i <= 20; i++) {
        uint32_t *got = target(4);
        trp_completion c = {0};
        h_fill(s.w.device, s.small, i);
        h_sleep(i % 4 * H_MS); /* it may sleep by then */
        H_OK(trp_read(s.w.device, s.small, 0, got, 4, i % 2 ? NULL : &c));
        if (i % 2 == 0)
            trp_future_drop(c.future);
        const int64_t end = h_now() + H_LONG;
        while (peek(got) != i) {
            if (h_now() > end)
                h_fail(__FILE__, __LINE__, "a read that nobody awaits is not delivered");
            h_sleep(H_MS / 10);
        }
        H_OK(trp_device_drain(s.w.device, TRP_FOREVER));
        free(got);
    }
    end(&s);
}

/* Threads with buffers of their own that mix all of it; one drains now and then. */
typedef struct sender {
    const stage *s;
    ref_rng rng;
    bool drains;
} sender;

static void *send(void *argument)
{
    enum { MANY = 8 };
    sender *a = argument;
    trp_device *device = a->s->w.device;
    trp_buffer own = h_filled(device, LARGE_BYTES, 0);
    uint32_t value = 0;
    for (int round = 0; round < ROUNDS / 10; round++) {
        uint32_t *got[MANY], wanted[MANY];
        size_t bytes[MANY];
        const uint64_t count = 1 + ref_rng_below(&a->rng, MANY);
        trp_completion c = {0};
        for (uint64_t i = 0; i < count; i++) {
            const bool large = ref_rng_below(&a->rng, 16) == 0;
            bytes[i] = large ? LARGE_BYTES : 4 * (1 + ref_rng_below(&a->rng, 64));
            got[i] = target(bytes[i]);
            if (ref_rng_below(&a->rng, 2))
                H_OK(trp_fill(device, own, 0, LARGE_BYTES, ++value, 4, NULL));
            wanted[i] = value;
            H_OK(trp_read(device, own, 0, got[i], bytes[i], i + 1 == count ? &c : NULL));
        }
        if (a->drains && ref_rng_below(&a->rng, 8) == 0)
            H_OK(trp_device_drain(device, TRP_FOREVER));
        else
            H_OK(h_await(c.future, NULL));
        for (uint64_t i = 0; i < count; i++) {
            H_EQUAL(got[i][0], wanted[i]);
            H_EQUAL(got[i][bytes[i] / 4 - 1], wanted[i]);
            free(got[i]);
        }
        trp_future_drop(c.future); /* of a drain; stale otherwise */
    }
    H_OK(trp_buffer_free(device, own));
    return NULL;
}

static void many_senders(void)
{
    enum { SENDERS = 4 };
    stage s = begin();
    sender a[SENDERS];
    h_thread *thread[SENDERS];
    for (int i = 0; i < SENDERS; i++) {
        a[i] = (sender){.s = &s, .rng = h_rng_fork(), .drains = i % 2 != 0};
        thread[i] = h_start(send, &a[i]);
    }
    for (int i = 0; i < SENDERS; i++)
        h_join(thread[i]);
    end(&s);
}

/* Lists take many places of the mailbox before they take their tickets: places of requests with
 * later tickets lie before those of earlier ones then. */
enum { MEMBERS = 900 };

typedef struct lister {
    const stage *s;
    trp_actor *blas;
    _Atomic bool stop;
} lister;

static void *send_lists(void *argument)
{
    lister *l = argument;
    static trp_gemm_item item[MEMBERS];
    const trp_buffer b = h_filled(l->s->w.device, 8 * MEMBERS, 0);
    for (uint64_t i = 0; i < MEMBERS; i++)
        item[i] = (trp_gemm_item){.a = b, .b = b, .c = b, .c_offset = 4 * (MEMBERS + i)};
    const trp_gemm_list_request list = {
        .common = {.type = TRP_F32, .m = 1, .n = 1, .k = 1}, .count = MEMBERS, .item = item};
    while (!atomic_load(&l->stop)) {
        trp_completion c = {0};
        H_OK(trp_gemm_list(l->blas, &list, &c));
        H_OK(h_await_any(c));
    }
    return NULL;
}

static void among_lists(void)
{
    stage s = begin();
    lister l = {.s = &s, .blas = h_actor(s.w.device, "blas"), .stop = false};
    const float numbers[WORDS] = {1, 2, 3, 4, 5, 6, 7, 8};
    h_write(s.w.device, s.small, 0, numbers, sizeof numbers);
    h_thread *thread = h_start(send_lists, &l);
    for (int i = 0; i < ROUNDS / 2; i++) {
        float *value = (float *)(void *)target(4), *last = (float *)(void *)target(4);
        trp_completion c = wish(&s, i % 3 == 0);
        trp_blas1_request r = {
            .type = TRP_F32, .n = 1 + i % 8, .x = s.small, .y = s.small, .value = value};
        const int64_t n = r.n;
        H_OK(trp_dot(l.blas, &r, NULL));
        r.value = last;
        H_OK(trp_dot(l.blas, &r, &c));
        await(&s, &c);
        H_CHECK(*value == (float)(n * (n + 1) * (2 * n + 1) / 6) && *last == *value);
        free(value);
        free(last);
    }
    atomic_store(&l.stop, true);
    h_join(thread);
    end(&s);
}

/* Their worker dies meanwhile: what runs again comes before the end of what follows it. */
static void across_deaths(void)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("a worker of its own is needed");
    stage s = begin();
    trp_actor *probe = h_actor(s.w.device, "probe");
    for (uint32_t i = 1; i <= 30; i++) {
        uint32_t *first = target(4), *last = target(4);
        trp_completion c = wish(&s, i % 3 == 0), died = {0};
        H_OK(trp_fill(s.w.device, s.small, 0, WORDS * 4, i, 4, NULL));
        h_probe(probe, TRP_PROBE_ABORT, &died);
        H_OK(trp_read(s.w.device, s.small, 0, first, 4, NULL));
        H_OK(trp_read(s.w.device, s.other, 0, last, 4, &c));
        await(&s, &c);
        H_EQUAL(*first, i);
        free(first);
        free(last);
        H_IS(h_await_any(died), TRP_E_FAULT);
        h_await_standby(s.w.device);
    }
    end(&s);
}

H_CASES(H_CASE(reads_in_order), H_CASE(into_one_place), H_CASE(what_it_depended_on),
        H_CASE(values_in_order), H_CASE(nobody_awaits), H_CASE(many_senders), H_CASE(among_lists),
        H_CASE(across_deaths))

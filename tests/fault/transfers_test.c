/* Large copies of ordinary memory at a fault: those in flight begin again on the next worker, those
 * behind them are done after them, all let go of the user's memory when they end, and nobody gets
 * bytes of another. */
#include "support/harness.h"

TROUPE_TEST("long", "many workers");
TROUPE_TEST_FAKE_GPU("no sanitizer", "cases queued_writes close_in_flight");

enum { POISON = 0x3c };

static uint64_t large_bytes(void)
{
    /* Enough chunks to be in the middle of when the fault comes; ThreadSanitizer copies slowly. */
    return h_is_gpu() ? 900 * H_MIB : H_TSAN ? 32 * H_MIB : H_SANITIZED ? 80 * H_MIB : 160 * H_MIB;
}

static void check_poison(const char *memory, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += 4096) {
        uint64_t n = bytes - i < 4096 ? bytes - i : 4096;
        for (uint64_t k = 0; k < n; k += 64)
            H_EQUAL(memory[i + k], POISON);
    }
}

/* A worker that dies in the middle of a large copy, in either direction: the copy is done all the
 * same. After the end of the request nobody touches the memory: it is poisoned, watched, and
 * freed. */
static void in_flight(void)
{
    const uint64_t bytes = large_bytes();
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_buffer b = h_buffer(w.device, bytes);
    int hit = 0;
    for (int i = 0; i < 12 && (hit != 3 || i < 4); i++) {
        bool upload = i % 2;
        uint32_t incarnation = h_info(w.device).incarnation;
        char *memory = h_malloc(bytes);
        trp_completion c = {0}, kill = {0};
        memset(memory, 0x21, bytes);
        if (!upload)
            H_OK(trp_fill(w.device, b, 0, bytes, 0x21, 1, NULL));
        H_OK(trp_device_drain(w.device, H_LONG));
        if (upload)
            H_OK(trp_write(w.device, b, 0, memory, bytes, &c));
        else
            H_OK(trp_read(w.device, b, 0, memory, bytes, &c));
        h_sleep((int64_t)ref_rng_below(h_rng(), 15) * H_MS);
        h_probe(probe, TRP_PROBE_KILL, &kill);
        H_OK(h_await_any(c)); /* it runs again before the probe does, which kills the next worker */
        if (h_info(w.device).incarnation > incarnation)
            hit |= upload ? 2 : 1;
        for (uint64_t k = 0; k < bytes && !upload; k += 61)
            H_EQUAL(memory[k], 0x21);
        memset(memory, POISON, bytes);
        H_IS(h_await_any(kill), TRP_E_FAULT);
        H_CHECK(!h_buffer_info(w.device, b).lost);
        if (upload) { /* what it was before the poison */
            char *back = h_malloc(bytes);
            h_read(w.device, b, 0, back, bytes);
            for (uint64_t k = 0; k < bytes; k += 61)
                H_EQUAL(back[k], 0x21);
            free(back);
            H_OK(trp_fill(w.device, b, 0, bytes, 0, 1, NULL));
        }
        h_await_state(w.device, TRP_DEVICE_READY);
        /* Other copies of the same direction go through the same pieces now. */
        trp_buffer other = h_buffer(w.device, 20 * H_MIB);
        char *data = h_random_block(h_rng(), 20 * H_MIB), *got = h_malloc(20 * H_MIB);
        h_write(w.device, other, 0, data, 20 * H_MIB);
        h_read(w.device, other, 0, got, 20 * H_MIB);
        H_SAME(got, data, 20 * H_MIB);
        check_poison(memory, bytes);
        H_OK(trp_buffer_free(w.device, other));
        free(data);
        free(got);
        free(memory);
    }
    if (hit != 3)
        printf("  (no fault met a copy in each direction; %d)\n", hit);
    h_close(&w);
}

/* Behind a large read that begins again: a read of good data (T1), and one of a buffer that the
 * fault destroys (T2), which ends at once. T1 must not suffer from the end of T2. */
static void queued_read_behind_which_one_fails(void)
{
    enum { MIDDLE = H_TSAN ? 28 : H_SANITIZED ? 64 : 96 };
    const uint64_t bytes = large_bytes(), middle = MIDDLE * H_MIB + 12345;
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_buffer first = h_buffer(w.device, bytes), good = h_buffer(w.device, middle);
    trp_buffer bad = h_buffer(w.device, 40 * H_MIB);
    char *to_first = h_malloc(bytes), *want = h_random_block(h_rng(), middle);
    char *got = h_malloc(middle), *to_bad = h_malloc(40 * H_MIB);
    int met = 0;
    H_OK(trp_fill(w.device, first, 0, bytes, 0x11, 1, NULL));
    h_write(w.device, good, 0, want, middle);
    for (int i = 0; i < 12 && met < 3; i++) {
        trp_completion c[3] = {{0}}, kill = {0};
        H_OK(trp_fill(w.device, bad, 0, 40 * H_MIB, 5, 1, NULL));
        H_OK(trp_device_drain(w.device, H_LONG));
        memset(got, 0, middle);
        memset(to_bad, POISON, 40 * H_MIB);
        H_OK(trp_probe(probe,
                       &(trp_probe_request){.action = TRP_PROBE_SPIN,
                                            .duration_ns = 2 * (uint64_t)H_MS,
                                            .outputs = {bad}},
                       NULL));
        H_OK(trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_KILL, .outputs = {bad}},
                       &kill));
        trp_status sent[3];
        sent[0] = trp_read(w.device, first, 0, to_first, bytes, &c[0]);
        sent[1] = trp_read(w.device, good, 0, got, middle, &c[1]);
        sent[2] = trp_read(w.device, bad, 0, to_bad, 40 * H_MIB, &c[2]);
        H_OK(sent[0]);
        H_OK(sent[1]);
        H_IS(h_await_any(kill), TRP_E_FAULT);
        if (sent[2] == TRP_OK)
            sent[2] = h_await_any(c[2]);
        H_IS(sent[2], TRP_E_LOST);
        trp_status early = trp_await(c[1].future, 0, NULL);
        bool behind = early == TRP_E_TIMEOUT;
        H_OK(h_await_any(c[0]));
        for (uint64_t k = 0; k < bytes; k += 4093)
            H_EQUAL(to_first[k], 0x11);
        H_OK(behind ? h_await_any(c[1]) : early);
        H_SAME(got, want, middle);
        check_poison(to_bad, 40 * H_MIB);
        memset(to_first, 0, bytes);
        met += behind;
    }
    if (met == 0)
        printf("  (the fault never came where it was wanted)\n");
    free(to_first);
    free(want);
    free(got);
    free(to_bad);
    h_close(&w);
}

/* Writes in flight and queued when the worker dies: all of them arrive. */
static void queued_writes(void)
{
    enum { COUNT = 6 };
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_buffer b[COUNT];
    char *data[COUNT];
    uint64_t bytes[COUNT];
    for (int i = 0; i < COUNT; i++) {
        bytes[i] = (i             ? (H_TSAN ? 9 : 20)
                    : H_TSAN      ? 28
                    : H_SANITIZED ? 60
                                  : 120) *
                       H_MIB +
                   (uint64_t)i * 777;
        b[i] = h_buffer(w.device, bytes[i]);
        data[i] = h_random_block(h_rng(), bytes[i]);
    }
    char *got = h_malloc(bytes[0]);
    for (int round = 0; round < 4; round++) {
        trp_completion c[COUNT] = {{0}}, kill = {0};
        h_spin(probe, (1 + 5 * round) * H_MS, NULL);
        h_probe(probe, TRP_PROBE_KILL, &kill);
        for (int i = 0; i < COUNT; i++)
            H_OK(trp_write(w.device, b[i], 0, data[i], bytes[i], &c[i]));
        H_IS(h_await_any(kill), TRP_E_FAULT);
        for (int i = 0; i < COUNT; i++) {
            H_OK(h_await_any(c[i]));
            H_CHECK(!h_buffer_info(w.device, b[i]).lost);
            h_read(w.device, b[i], 0, got, bytes[i]);
            H_SAME(got, data[i], bytes[i]);
            H_OK(trp_fill(w.device, b[i], 0, bytes[i], (uint32_t)round, 1, NULL));
        }
    }
    for (int i = 0; i < COUNT; i++)
        free(data[i]);
    free(got);
    h_close(&w);
}

/* Closing with copies in both directions under way: when close is back, the memory is ours. */
static void close_in_flight(void)
{
    const uint64_t bytes = (H_TSAN ? 20 : H_SANITIZED ? 50 : 100) * H_MIB;
    char *memory = h_malloc(bytes), *source = h_malloc(bytes);
    for (int i = 0; i < 4; i++) {
        h_world w = h_open(NULL);
        trp_buffer a = h_buffer(w.device, bytes), b = h_buffer(w.device, bytes);
        memset(source, 1, bytes);
        trp_completion c = {0};
        H_OK(trp_fill(w.device, a, 0, bytes, 2, 1, &c));
        H_OK(h_await_any(c));
        H_OK(trp_read(w.device, a, 0, memory, bytes, NULL));
        H_OK(trp_write(w.device, b, 0, source, bytes, NULL));
        h_sleep(i * 4 * H_MS);
        h_close(&w);
        memset(memory, POISON, bytes);
        h_sleep(5 * H_MS);
        check_poison(memory, bytes);
    }
    free(memory);
    free(source);
}

H_CASES_OF_PROCESSES(H_CASE(in_flight), H_CASE(queued_read_behind_which_one_fails),
                     H_CASE(queued_writes), H_CASE(close_in_flight))

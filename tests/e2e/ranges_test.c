/* Many arrays in one buffer: order, poison and what is given up go by ranges. */
#include "support/gate.h"
#include "support/label.h"

TROUPE_TEST_FAKE_GPU("no tsan");

enum { HALF = 4096, BYTES = 2 * HALF };

/* What uses one half does not wait for what uses the other, and what uses both waits for both. */
static void halves_are_apart(void)
{
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    h_gate gate = h_gate_create(d, HALF);
    trp_buffer b = h_filled(d, BYTES, 1);
    uint32_t word[HALF / 4], got[BYTES / 4];
    for (size_t i = 0; i < HALF / 4; i++)
        word[i] = 7;
    bool held = false;
    for (int64_t ns = 100 * H_MS; !held; ns *= 3) {
        trp_completion c[4] = {{0}};
        H_CHECK(ns < 30 * H_SEC);
        H_OK(trp_fill(d, b, 0, BYTES, 1, 4, NULL));
        h_gate_close(&gate, ns);
        H_OK(trp_copy(d, gate.buffer, 0, b, 0, HALF, &c[0]));
        H_OK(trp_write(d, b, HALF, word, HALF, &c[1]));
        H_OK(trp_read(d, b, HALF, got, HALF, &c[2]));
        H_OK(h_await_any(c[1]));
        H_OK(h_await_any(c[2]));
        held = h_gate_closed(&gate);
        H_SAME(got, word, HALF);
        H_OK(trp_read(d, b, HALF - 4, got, 8, &c[3])); /* of both */
        H_OK(h_await_any(c[3]));
        H_OK(trp_await(c[0].future, 0, NULL)); /* it has ended before */
        H_EQUAL(got[0], 0);
        H_EQUAL(got[1], 7);
        h_gate_open(&gate);
    }
    h_close(&w);
}

/* Ranges that overlap are in order, whatever actors use them: each copy reads what the one before
 * has written, on its way through three actors. */
static void overlaps_are_in_order(void)
{
    enum { ARRAYS = 50, WORDS = 64 };
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_buffer b = h_buffer(d, (ARRAYS + 1) * WORDS * 4);
    uint32_t got[WORDS];
    for (uint32_t round = 0; round < 40; round++) {
        trp_completion c = {0};
        H_OK(trp_fill(d, b, 0, WORDS * 4, round, 4, NULL));
        for (uint64_t i = 0; i < ARRAYS; i++) {
            if (i % 3 == 2) {
                H_OK(trp_read(d, b, i * WORDS * 4, got, WORDS * 4, &c));
                H_OK(h_await_any(c));
                H_EQUAL(got[WORDS - 1], round);
                H_OK(trp_write(d, b, (i + 1) * WORDS * 4, got, WORDS * 4, NULL));
            } else {
                H_OK(trp_copy(d, b, i * WORDS * 4, b, (i + 1) * WORDS * 4, WORDS * 4, NULL));
            }
        }
        H_OK(trp_read(d, b, ARRAYS * WORDS * 4, got, WORDS * 4, &c));
        H_OK(h_await_any(c));
        for (int i = 0; i < WORDS; i++)
            H_EQUAL(got[i], round);
    }
    h_close(&w);
}

static void poison(trp_device *d, trp_actor *probe, trp_buffer b)
{
    H_OK(trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_LIBRARY_ERROR, .outputs = {b}},
                   NULL));
    H_OK(trp_device_drain(d, H_LONG));
}

static trp_status read_range(trp_device *d, trp_buffer b, uint64_t offset, uint64_t bytes)
{
    static char got[BYTES];
    trp_completion c = {0};
    trp_status status = trp_read(d, b, offset, got, bytes, &c);
    return status == TRP_OK ? h_await_any(c) : status;
}

static void discards(void)
{
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *probe = h_actor(d, "probe");
    trp_buffer b = h_filled(d, BYTES, 1), sealed = h_sealable(d, BYTES);
    poison(d, probe, b);
    H_IS(read_range(d, b, 0, 1), TRP_E_DEPENDENCY);
    H_OK(trp_buffer_discard(d, b, 10, 20));
    H_IS(read_range(d, b, 9, 2), TRP_E_DEPENDENCY);
    H_OK(read_range(d, b, 10, 20));
    H_IS(read_range(d, b, 29, 2), TRP_E_DEPENDENCY);
    H_OK(trp_buffer_discard(d, b, 5, 0)); /* nothing */
    H_IS(read_range(d, b, 5, 1), TRP_E_DEPENDENCY);
    H_OK(trp_buffer_discard(d, b, 0, 10));
    H_OK(trp_buffer_discard(d, b, 30, BYTES - 30));
    H_OK(read_range(d, b, 0, BYTES));
    /* In its place in the order: what comes after it may fail again. */
    H_OK(trp_buffer_discard(d, b, 0, BYTES));
    poison(d, probe, b);
    H_IS(read_range(d, b, 0, BYTES), TRP_E_DEPENDENCY);

    H_IS(trp_buffer_discard(d, b, 1, BYTES), TRP_E_ARGUMENT);
    H_SAYS("buffer: ");
    H_IS(trp_buffer_discard(d, b, BYTES + 1, 0), TRP_E_ARGUMENT);
    H_IS(trp_buffer_discard(d, b, UINT64_MAX, 2), TRP_E_ARGUMENT);
    H_OK(trp_fill(d, sealed, 0, BYTES, 1, 4, NULL));
    H_OK(trp_buffer_seal(d, sealed, H_LONG));
    H_IS(trp_buffer_discard(d, sealed, 0, 1), TRP_E_ARGUMENT);
    H_SAYS("sealed");
    H_OK(trp_buffer_free(d, b));
    H_IS(trp_buffer_discard(d, b, 0, 1), TRP_E_STALE);
    H_IS(trp_buffer_discard(NULL, b, 0, 1), TRP_E_ARGUMENT);
    h_close(&w);
}

/* Words that are written one by one behind a gate, all cancelled. Again, with a longer time, if the
 * machine was too slow. */
static void cancel_many(trp_device *d, h_gate *gate, trp_buffer b, uint32_t count, bool told)
{
    trp_completion *c = h_malloc(count * sizeof *c);
    bool held = false;
    for (int64_t ns = 50 * H_MS; !held; ns *= 3) {
        H_CHECK(ns < 60 * H_SEC);
        memset(c, 0, count * sizeof *c);
        h_gate_close(gate, ns);
        H_OK(trp_copy(d, gate->buffer, 0, b, 0, 4, NULL));
        for (uint32_t i = 0; i < count; i++)
            H_OK(trp_fill(d, b, UINT64_C(8) * i, 4, 9, 4, &c[i]));
        for (uint32_t i = 0; i < count; i++)
            H_OK(trp_cancel(c[i].future));
        held = h_gate_closed(gate);
        for (uint32_t i = 0; i < count; i++) {
            if (told)
                h_await_any(c[i]);
            else
                trp_future_drop(c[i].future);
        }
        h_gate_open(gate);
    }
    free(c);
}

static h_world open_wide(void)
{
    trp_device_options options = h_options();
    options.mailbox_size = 16384;
    return h_open(&options);
}

/* More ranges than are kept of a buffer: none is read that should not be, some are refused that
 * need not be, and what is written anew is good. */
static void very_many_ranges(void)
{
    enum { MANY = 6000, ALL = MANY * 8 };
    h_world w = open_wide();
    trp_device *d = w.device;
    h_gate gate = h_gate_create(d, 4096);
    trp_buffer b = h_filled(d, ALL, 1);
    char *all = h_malloc(ALL);
    cancel_many(d, &gate, b, MANY, false);
    H_OK(trp_device_drain(d, H_LONG));
    for (uint64_t i = 0; i < MANY; i++)
        H_IS(trp_read(d, b, 8 * i, all, 4, NULL), TRP_E_DEPENDENCY);
    H_IS(trp_read(d, b, 0, all, ALL, NULL), TRP_E_DEPENDENCY);
    for (uint64_t i = 0; i < MANY; i++)
        H_OK(trp_fill(d, b, 8 * i, 8, (uint32_t)i, 4, NULL));
    h_read(d, b, 0, all, ALL);
    for (uint32_t i = 0; i < MANY; i++)
        H_SAME(all + UINT64_C(8) * i, &i, 4);
    H_CHECK(!h_buffer_info(d, b).lost);
    free(all);
    h_close(&w);
}

/* A reader that was told of more failures than a request can name. */
static void acknowledged_many(void)
{
    enum { MOST = 1500, ALL = MOST * 8 };
    h_world w = open_wide();
    trp_device *d = w.device;
    h_gate gate = h_gate_create(d, 4096);
    trp_buffer b = h_filled(d, ALL, 1), other = h_filled(d, BYTES, 2);
    uint32_t *got = h_malloc(ALL);
    for (uint32_t count = 1; count <= MOST; count = count < MOST ? 3 * count + 7 : MOST + 1) {
        count = count < MOST ? count : MOST;
        cancel_many(d, &gate, b, count, true);
        H_OK(trp_fill(d, other, 0, BYTES, count, 4, NULL)); /* of another buffer: no matter */
        h_read(d, b, 4, got, ALL - 4);
        for (uint32_t i = 0; i < ALL / 8; i++)
            H_EQUAL(got[2 * i], 1); /* which nobody writes */
    }
    free(got);
    h_close(&w);
}

H_CASES(H_CASE(halves_are_apart), H_CASE(overlaps_are_in_order), H_CASE(discards),
        H_CASE(very_many_ranges), H_CASE(acknowledged_many))

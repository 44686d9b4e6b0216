/* Actors do not hold each other up, whatever is queued at one of them. */
#include "support/harness.h"

static h_world open_wide(void)
{
    trp_device_options options = h_options();
    options.mailbox_size = 8192;
    return h_open(&options);
}

/* Ends the future if it does not. */
static bool still_runs(trp_completion *c)
{
    bool runs = trp_await(c->future, 0, NULL) == TRP_E_TIMEOUT;
    if (!runs)
        c->future.id = 0;
    return runs;
}

static void finish(trp_completion c)
{
    if (c.future.id != 0)
        H_OK(h_await_any(c));
}

/* 5,000 requests behind a long one: more than a stream holds. */
static void long_queue(void)
{
    enum { QUEUED = 5000, TRIPS = 50, BYTES = 4096 };
    h_world w = open_wide();
    trp_actor *busy = h_actor(w.device, "probe"), *other = h_actor(w.device, "probe");
    trp_buffer b = h_buffer(w.device, BYTES);
    bool overtaken = false;
    for (int64_t ns = H_SEC / 2; !overtaken; ns *= 3) {
        trp_completion spin = {0}, last = {0};
        uint32_t word = 0;
        H_CHECK(ns < 30 * H_SEC);
        h_spin(busy, ns, &spin);
        for (int i = 0; i < QUEUED; i++)
            h_probe(busy, TRP_PROBE_NOP, i == QUEUED - 1 ? &last : NULL);
        for (uint32_t i = 0; i < TRIPS; i++) {
            trp_completion c = {0};
            h_probe(other, TRP_PROBE_NOP, &c);
            H_OK(h_await_any(c));
            H_OK(trp_fill(w.device, b, 0, BYTES, i, 4, NULL));
            h_read(w.device, b, 0, &word, sizeof word);
            H_EQUAL(word, i);
        }
        overtaken = still_runs(&spin) && still_runs(&last);
        finish(last);
        if (spin.future.id != 0) /* it has ended before what is behind it */
            H_OK(trp_await(spin.future, 0, NULL));
    }
    h_close(&w);
}

/* Each request waits for others before it, which takes room in the stream as well: two actors take
 * turns at one buffer, and both wait for the long one. */
static void waits_count(void)
{
    enum { QUEUED = 2000 };
    h_world w = open_wide();
    trp_actor *busy = h_actor(w.device, "probe"), *other = h_actor(w.device, "probe");
    trp_actor *turn[2] = {h_actor(w.device, "probe"), h_actor(w.device, "probe")};
    trp_buffer b = h_buffer(w.device, 4096);
    bool overtaken = false;
    for (int64_t ns = H_SEC / 2; !overtaken; ns *= 3) {
        trp_completion spin = {0};
        H_CHECK(ns < 30 * H_SEC);
        H_OK(trp_probe(busy,
                       &(trp_probe_request){
                           .action = TRP_PROBE_SPIN, .duration_ns = (uint64_t)ns, .outputs = {b}},
                       &spin));
        for (int i = 0; i < QUEUED; i++)
            H_OK(trp_probe(turn[i % 2],
                           &(trp_probe_request){.action = TRP_PROBE_NOP, .outputs = {b}}, NULL));
        for (int i = 0; i < 20; i++) {
            trp_completion c = {0};
            h_probe(other, TRP_PROBE_NOP, &c);
            H_OK(h_await_any(c));
        }
        overtaken = still_runs(&spin);
        finish(spin);
        H_OK(trp_device_drain(w.device, H_LONG));
    }
    h_close(&w);
}

/* Large copies behind a long request: their chunks are bounded by the pieces of staging memory. */
static void chunks_count(void)
{
    enum { COPIES = 40 };
    const uint64_t bytes = 2 * H_MIB;
    h_world w = open_wide();
    trp_actor *busy = h_actor(w.device, "probe"), *other = h_actor(w.device, "probe");
    trp_buffer b = h_buffer(w.device, bytes);
    uint8_t *source = h_random_block(h_rng(), bytes), *got = h_malloc(bytes);
    bool overtaken = false;
    for (int64_t ns = H_SEC / 2; !overtaken; ns *= 3) {
        trp_completion spin = {0}, read = {0};
        H_CHECK(ns < 30 * H_SEC);
        H_OK(trp_probe(busy,
                       &(trp_probe_request){
                           .action = TRP_PROBE_SPIN, .duration_ns = (uint64_t)ns, .outputs = {b}},
                       &spin));
        for (int i = 0; i < COPIES; i++)
            H_OK(trp_write(w.device, b, 0, source, bytes, NULL));
        H_OK(trp_read(w.device, b, 0, got, bytes, &read));
        for (int i = 0; i < 20; i++) {
            trp_completion c = {0};
            h_probe(other, TRP_PROBE_NOP, &c);
            H_OK(h_await_any(c));
        }
        overtaken = still_runs(&spin);
        H_OK(h_await_any(read));
        H_SAME(got, source, bytes);
        finish(spin);
        H_OK(trp_device_drain(w.device, H_LONG)); /* the writes have read the source */
    }
    free(source);
    free(got);
    h_close(&w);
}

/* More requests than fit, of all lengths, from several threads: all run. */
typedef struct filler {
    trp_actor *actor;
    ref_rng rng;
} filler;

static void *fill_up(void *argument)
{
    filler *f = argument;
    for (int i = 0; i < (H_SANITIZED ? 2000 : 8000); i++) {
        trp_probe_request r = {.action =
                                   ref_rng_below(&f->rng, 50) ? TRP_PROBE_NOP : TRP_PROBE_SPIN,
                               .duration_ns = ref_rng_below(&f->rng, 100000),
                               .header = {.wait_ns = H_LONG}};
        H_OK(trp_probe(f->actor, &r, NULL));
    }
    return NULL;
}

static void under_load(void)
{
    h_world w = h_open(NULL);
    trp_actor *actor[2] = {h_actor(w.device, "probe"), h_actor(w.device, "probe")};
    h_thread *thread[4];
    filler f[4];
    for (int i = 0; i < 4; i++) {
        f[i] = (filler){.actor = actor[i % 2], .rng = h_rng_fork()};
        thread[i] = h_start(fill_up, &f[i]);
    }
    for (int i = 0; i < 4; i++)
        h_join(thread[i]);
    H_OK(trp_device_drain(w.device, H_LONG));
    H_EQUAL(h_info(w.device).requests_failed, 0);
    h_close(&w);
}

H_CASES(H_CASE(long_queue), H_CASE(waits_count), H_CASE(chunks_count), H_CASE(under_load))

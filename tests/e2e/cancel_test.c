/* trp_cancel(): what was not given to the device ends at once and does nothing; all else runs. */
#include "support/gate.h"

#include <stdatomic.h>

enum { WORDS = 64, BYTES = WORDS * 4 };

typedef struct stage {
    h_world w;
    h_gate gate;
    trp_actor *probe;
    trp_actor *spare; /* for one round; making one waits for a GPU */
    trp_buffer buffer;
    uint32_t word[WORDS];
} stage;

static stage set_up(void)
{
    stage s = {.w = h_open(NULL)};
    s.gate = h_gate_create(s.w.device, BYTES);
    s.probe = h_actor(s.w.device, "probe");
    s.buffer = h_buffer(s.w.device, BYTES);
    h_fill(s.w.device, s.buffer, 1);
    return s;
}

/* Runs a round until it was fast enough for the gate to be closed all the time. */
static void with_gate(bool (*round)(stage *s))
{
    stage s = set_up();
    int64_t ns = 150 * H_MS;
    for (bool done = false; !done; ns *= 3) {
        s.spare = h_actor(s.w.device, "probe");
        h_gate_close(&s.gate, ns);
        done = round(&s);
        trp_actor_destroy(s.spare);
        h_gate_open(&s.gate);
    }
    H_EQUAL(h_info(s.w.device).buffers, 2);
    h_close(&s.w);
}

static uint32_t word_of(stage *s, trp_buffer b)
{
    h_read(s->w.device, b, 0, s->word, BYTES);
    for (int i = 1; i < WORDS; i++)
        H_EQUAL(s->word[i], s->word[0]);
    return s->word[0];
}

/* The end comes while what is before it still runs; those behind it run. */
static bool at_once_round(stage *s)
{
    enum { SENT = 30 };
    trp_device *d = s->w.device;
    trp_completion c[SENT] = {{0}};
    trp_error error;
    H_OK(trp_fill(d, s->gate.buffer, 0, 4, 0, 4, &c[0]));
    for (uint32_t i = 1; i < SENT; i++)
        H_OK(trp_fill(d, s->buffer, 0, BYTES, 100 + i, 4, &c[i]));
    uint64_t failed = h_info(d).requests_failed;
    for (int i = SENT / 2; i < SENT; i++)
        H_OK(trp_cancel(c[i].future));
    H_OK(trp_cancel(c[SENT / 2].future)); /* twice does no harm */
    for (int i = SENT / 2; i < SENT; i++) {
        trp_status status = trp_await(c[i].future, i % 2 ? 0 : H_LONG, &error);
        if (!h_gate_closed(&s->gate)) {
            trp_future_drop(c[i].future);
            break;
        }
        H_IS(status, TRP_E_CANCELLED);
        H_EQUAL(error.status, TRP_E_CANCELLED);
        H_EQUAL(error.incarnation, 0);
        H_CHECK(error.request != 0);
        h_check_says(__FILE__, __LINE__, error.actor, "local");
        H_IS(trp_await(c[i].future, 0, NULL), TRP_E_STALE);
        H_IS(trp_cancel(c[i].future), TRP_E_STALE);
    }
    bool closed = h_gate_closed(&s->gate);
    if (closed)
        H_EQUAL(h_info(d).requests_failed, failed + SENT / 2);
    for (int i = 0; i < SENT / 2; i++)
        H_OK(h_await_any(c[i]));
    H_OK(trp_device_drain(d, H_LONG));
    if (closed)
        H_EQUAL(word_of(s, s->buffer), 100 + SENT / 2 - 1);
    return closed;
}

static void at_once(void)
{
    with_gate(at_once_round);
}

/* Too late, never, twice, nothing. */
static void no_effect(void)
{
    stage s = set_up();
    trp_device *d = s.w.device;
    trp_completion c = {0};
    H_IS(trp_cancel((trp_future){0}), TRP_E_STALE);
    H_IS(trp_cancel((trp_future){UINT64_MAX}), TRP_E_STALE);
    H_OK(trp_fill(d, s.buffer, 0, BYTES, 5, 4, &c));
    H_OK(trp_device_drain(d, H_LONG));
    H_OK(trp_cancel(c.future)); /* it has ended */
    H_OK(h_await_any(c));
    H_IS(trp_cancel(c.future), TRP_E_STALE);
    c = (trp_completion){0};
    H_OK(trp_fill(d, s.buffer, 0, BYTES, 6, 4, &c));
    trp_future_drop(c.future);
    H_IS(trp_cancel(c.future), TRP_E_STALE);
    /* Given to the device, and running. */
    c = (trp_completion){0};
    h_spin(s.probe, 20 * H_MS, &c);
    trp_completion behind = {0};
    h_probe(s.probe, TRP_PROBE_NOP, &behind);
    h_sleep(5 * H_MS);
    H_OK(trp_cancel(c.future));
    trp_status status = h_await_any(c);
    H_CHECK(status == TRP_OK || status == TRP_E_CANCELLED); /* had it been given to it by then? */
    H_OK(h_await_any(behind));
    H_EQUAL(word_of(&s, s.buffer), 6);
    h_close(&s.w);
}

/* Its outputs are poisoned until it is told, and hold what they held. */
static bool poison_round(stage *s)
{
    trp_device *d = s->w.device;
    trp_completion c[4] = {{0}};
    uint32_t got[3][WORDS];
    memset(got, 0x7e, sizeof got);
    h_fill(d, s->buffer, 8);
    bool sent = trp_fill(d, s->gate.buffer, 0, 4, 0, 4, NULL) == TRP_OK &&
                trp_fill(d, s->buffer, 0, BYTES, 9, 4, &c[0]) == TRP_OK &&
                trp_read(d, s->buffer, 0, got[0], BYTES, &c[1]) == TRP_OK &&
                trp_cancel(c[0].future) == TRP_OK && h_gate_closed(&s->gate);
    /* Before it is told. */
    trp_status early = trp_read(d, s->buffer, 0, got[1], BYTES, &c[2]);
    trp_status status = h_await_any(c[0]);
    H_OK(trp_read(d, s->buffer, 0, got[2], BYTES, &c[3]));
    if (sent) {
        H_IS(status, TRP_E_CANCELLED);
        H_IS(h_await_any(c[1]), TRP_E_DEPENDENCY);
        H_IS(early == TRP_OK ? h_await_any(c[2]) : early, TRP_E_DEPENDENCY);
        H_EQUAL(got[0][1], 0x7e7e7e7e);
        H_OK(h_await_any(c[3]));
        H_EQUAL(got[2][1], 8);
    }
    H_OK(trp_device_drain(d, H_LONG)); /* for the memory that is read to */
    for (int i = 1; i < 4; i++)
        trp_future_drop(c[i].future);
    return sent;
}

static void poisons(void)
{
    with_gate(poison_round);
}

/* A large write that is cancelled does not lose the buffer, nor touch its source any more; a large
 * read leaves its target alone. Later ones find their way through the pieces. */
static bool large_round(stage *s)
{
    const uint64_t bytes = 5 * H_MIB;
    trp_device *d = s->w.device;
    trp_buffer b = h_buffer(d, bytes);
    trp_completion c[4] = {{0}};
    uint8_t *source = h_random_block(h_rng(), bytes), *other = h_random_block(h_rng(), bytes);
    uint8_t *target = h_malloc(bytes), *got = h_malloc(bytes);
    memset(target, 0x55, bytes);
    h_write(d, b, 0, other, bytes);
    /* The small ones hold up those behind them in the same direction. */
    H_OK(trp_write(d, s->gate.buffer, 0, s->word, 4, NULL));
    H_OK(trp_read(d, s->gate.buffer, 0, s->word, 4, NULL));
    H_OK(trp_write(d, b, 0, source, bytes, &c[0]));
    H_OK(trp_read(d, b, 0, target, bytes, &c[1]));
    H_OK(trp_cancel(c[0].future));
    H_OK(trp_cancel(c[1].future));
    bool closed = h_gate_closed(&s->gate);
    trp_status wrote = h_await_any(c[0]);
    memset(source, 0, bytes);
    free(source); /* ours again */
    trp_status read = h_await_any(c[1]);
    if (closed) {
        H_IS(wrote, TRP_E_CANCELLED);
        H_IS(read, TRP_E_CANCELLED);
        for (uint64_t i = 0; i < bytes; i++)
            H_EQUAL(target[i], 0x55);
        H_CHECK(!h_buffer_info(d, b).lost);
        H_OK(trp_read(d, b, 0, got, bytes, &c[2]));
        H_OK(h_await_any(c[2]));
        H_SAME(got, other, bytes);
    }
    h_write(d, b, 0, target, bytes);
    h_read(d, b, 0, got, bytes);
    H_SAME(got, target, bytes);
    H_OK(trp_buffer_free(d, b));
    free(other);
    free(target);
    free(got);
    return closed;
}

static void large_copies(void)
{
    with_gate(large_round);
}

/* Told or dropped, its buffers freed, its actor destroyed, before the worker gets to it. */
static bool leftovers_round(stage *s)
{
    enum { SENT = 40 };
    trp_device *d = s->w.device;
    trp_actor *actor = s->spare;
    trp_completion c[SENT] = {{0}};
    trp_buffer b = h_buffer(d, BYTES);
    s->spare = NULL;
    for (int i = 0; i < SENT; i++)
        H_OK(trp_probe(actor,
                       &(trp_probe_request){
                           .action = TRP_PROBE_NOP, .inputs = {s->gate.buffer}, .outputs = {b}},
                       &c[i]));
    for (int i = 0; i < SENT; i++)
        H_OK(trp_cancel(c[i].future));
    bool closed = h_gate_closed(&s->gate);
    for (int i = 0; i < SENT; i++) {
        if (i % 3 == 0)
            trp_future_drop(c[i].future);
        else if (closed)
            H_IS(h_await_any(c[i]), TRP_E_CANCELLED);
    }
    H_OK(trp_buffer_free(d, b));
    trp_actor_destroy(actor); /* waits until the worker has passed them */
    for (int i = 0; !closed && i < SENT; i++)
        trp_future_drop(c[i].future);
    return closed;
}

static void leftovers(void)
{
    with_gate(leftovers_round);
}

static void close_with_cancelled(void)
{
    for (int i = 0; i < 3; i++) {
        stage s = set_up();
        trp_completion c[20] = {{0}};
        h_gate_close(&s.gate, 30 * H_MS);
        for (int k = 0; k < 20; k++)
            H_OK(trp_fill(s.w.device, s.gate.buffer, 0, BYTES, 4, 4, &c[k]));
        for (int k = 0; k < 20; k += 2)
            H_OK(trp_cancel(c[k].future));
        for (int k = 0; k < 20; k += 3)
            trp_future_drop(c[k].future);
        h_close(&s.w);
    }
}

/* ---- many threads ---- */

enum { THREADS = 8, BATCH = 24 };

typedef struct player {
    stage *s;
    ref_rng rng;
    trp_buffer buffer;
    uint32_t cell[WORDS];
    _Atomic uint64_t open[BATCH]; /* futures that others may cancel as well */
    struct player *all;
    uint32_t done, cancelled;
} player;

static trp_status send_one(player *p, uint32_t word, uint32_t value, trp_completion *c)
{
    trp_device *d = p->s->w.device;
    if (ref_rng_below(&p->rng, 4) == 0) {
        uint32_t in[WORDS];
        for (int i = 0; i < WORDS; i++)
            in[i] = value;
        return trp_write(d, p->buffer, word * UINT64_C(4), in, 4, c);
    }
    return trp_fill(d, p->buffer, word * UINT64_C(4), 4, value, 4, c);
}

/* Each writes a word of its own, so what has run can be told from what has not. */
static void play_round(player *p, uint32_t round)
{
    trp_completion c[BATCH] = {{0}};
    uint32_t first = (uint32_t)ref_rng_below(&p->rng, WORDS - BATCH + 1);
    if (ref_rng_below(&p->rng, 4) == 0)
        h_spin(p->s->probe, (int64_t)ref_rng_below(&p->rng, 300000), NULL);
    for (uint32_t i = 0; i < BATCH; i++) {
        H_OK(send_one(p, first + i, round * BATCH + i, &c[i]));
        atomic_store(&p->open[i], c[i].future.id);
        if (ref_rng_below(&p->rng, 3) == 0)
            H_OK(trp_cancel(c[ref_rng_below(&p->rng, i + 1)].future));
        player *other = &p->all[ref_rng_below(&p->rng, THREADS)];
        trp_future theirs = {atomic_load(&other->open[ref_rng_below(&p->rng, BATCH)])};
        if (ref_rng_below(&p->rng, 8) == 0) {
            trp_status cancelled = trp_cancel(theirs);
            H_CHECK(cancelled == TRP_OK || cancelled == TRP_E_STALE);
        }
    }
    for (uint32_t i = 0; i < BATCH; i++) {
        trp_status status = h_await_any(c[i]);
        H_IS(trp_await(c[i].future, 0, NULL), TRP_E_STALE); /* once, and no more */
        if (status == TRP_OK)
            p->cell[first + i] = round * BATCH + i;
        else
            H_IS(status, TRP_E_CANCELLED);
        p->done += status == TRP_OK;
        p->cancelled += status != TRP_OK;
    }
    uint32_t got[WORDS];
    h_read(p->s->w.device, p->buffer, 0, got, BYTES);
    H_SAME(got, p->cell, BYTES);
}

static void *play(void *argument)
{
    player *p = argument;
    for (uint32_t round = 1; round <= (H_SANITIZED ? 25u : 150u); round++)
        play_round(p, round);
    return NULL;
}

static void many_threads(void)
{
    stage s = set_up();
    player *p = h_malloc(sizeof *p * THREADS);
    h_thread *thread[THREADS];
    memset(p, 0, sizeof *p * THREADS);
    for (int i = 0; i < THREADS; i++) {
        p[i].s = &s;
        p[i].rng = h_rng_fork();
        p[i].all = p;
        p[i].buffer = h_buffer(s.w.device, BYTES);
        h_fill(s.w.device, p[i].buffer, 0);
    }
    uint64_t before = h_info(s.w.device).requests_failed;
    for (int i = 0; i < THREADS; i++)
        thread[i] = h_start(play, &p[i]);
    uint32_t done = 0, cancelled = 0;
    for (int i = 0; i < THREADS; i++) {
        h_join(thread[i]);
        done += p[i].done;
        cancelled += p[i].cancelled;
    }
    H_EQUAL(h_info(s.w.device).requests_failed - before, cancelled);
    printf("  %u done, %u cancelled\n", done, cancelled);
    for (int i = 0; i < THREADS; i++)
        H_OK(trp_buffer_free(s.w.device, p[i].buffer));
    H_OK(trp_device_drain(s.w.device, H_LONG));
    H_EQUAL(h_info(s.w.device).buffers, 2);
    free(p);
    h_close(&s.w);
}

H_CASES(H_CASE(at_once), H_CASE(no_effect), H_CASE(poisons), H_CASE(large_copies),
        H_CASE(leftovers), H_CASE(close_with_cancelled), H_CASE(many_threads))

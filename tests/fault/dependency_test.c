/* Poison and cancelling across the death of a worker: what it knew of failed requests, the next one
 * does not. */
#include "support/gate.h"

enum { WORDS = 256, BYTES = WORDS * 4 };

typedef struct stage {
    h_world w;
    trp_actor *killer, *blocker, *probe;
    trp_buffer gate, held;
    trp_completion kill, spin, in_flight;
    uint32_t incarnation;
} stage;

static stage set_up(void)
{
    stage s = {.w = h_open(NULL)};
    s.killer = h_actor(s.w.device, "probe");
    s.blocker = h_actor(s.w.device, "probe");
    s.probe = h_actor(s.w.device, "probe");
    s.gate = h_buffer(s.w.device, BYTES);
    s.held = h_buffer(s.w.device, BYTES);
    return s;
}

/* The worker dies after `ns`. Until then nothing that uses the gate is given to a stream: its last
 * writer has more before it than is given at a time. */
static void begin(stage *s, int64_t ns)
{
    trp_completion ready = {0};
    h_await_state(s->w.device, TRP_DEVICE_READY);
    H_OK(trp_fill(s->w.device, s->held, 0, BYTES, 8, 4, NULL));
    H_OK(trp_fill(s->w.device, s->gate, 0, BYTES, 8, 4, NULL));
    H_OK(trp_device_drain(s->w.device, H_LONG));
    s->incarnation = h_info(s->w.device).incarnation;
    s->kill = s->spin = s->in_flight = (trp_completion){0};
    H_OK(trp_probe(s->blocker,
                   &(trp_probe_request){.action = TRP_PROBE_SPIN,
                                        .duration_ns = (uint64_t)(20 * H_SEC),
                                        .outputs = {s->held}},
                   &s->spin));
    h_probe(s->blocker, TRP_PROBE_NOP, &s->in_flight);
    h_gate_behind(s->blocker, s->gate);
    /* When this one is done, the scheduler has come past all of those. */
    h_probe(s->probe, TRP_PROBE_NOP, &ready);
    H_OK(h_await_any(ready));
    h_spin(s->killer, ns, NULL);
    /* On a GPU the scheduler would abort when it issues that, long before the end of the spin. */
    h_probe(s->killer, h_is_cuda() ? TRP_PROBE_TRAP : TRP_PROBE_ABORT, &s->kill);
}

static bool in_time(stage *s)
{
    trp_device_info info = h_info(s->w.device);
    return info.incarnation == s->incarnation && info.state == TRP_DEVICE_READY;
}

static void fail_on(stage *s, trp_buffer b, trp_buffer input, trp_completion *completion)
{
    H_OK(trp_probe(
        s->probe,
        &(trp_probe_request){.action = TRP_PROBE_LIBRARY_ERROR, .inputs = {input}, .outputs = {b}},
        completion));
}

enum {
    LATE_FAIL,  /* fails in the next worker, */
    LATE_COPY,  /* and this reads what it should have written */
    COPY_TOLD,  /* reads after its failure was told, in the worker that dies */
    COPY_EARLY, /* was sent before */
    COPY_MORE,  /* reads what that should have written */
    COVER,      /* writes it anew */
    COVERED,
    CANCELLED,
    COPY_CANCELLED,      /* sent before its end was told, */
    COPY_CANCELLED_TOLD, /* and after */
    COUNT
};

static const trp_status wanted[COUNT] = {
    [LATE_FAIL] = TRP_E_LIBRARY,         [LATE_COPY] = TRP_E_DEPENDENCY,
    [COPY_EARLY] = TRP_E_DEPENDENCY,     [COPY_MORE] = TRP_E_DEPENDENCY,
    [COPY_CANCELLED] = TRP_E_DEPENDENCY,
};

/* False if the machine was too slow. */
static bool round_of(stage *s, int64_t ns)
{
    trp_device *d = s->w.device;
    trp_completion c[COUNT] = {{0}}, early = {0}, told = {0};
    uint32_t got[WORDS];
    trp_buffer none = {0};
    trp_buffer a = h_filled(d, BYTES, 1), b = h_filled(d, BYTES, 2), e = h_filled(d, BYTES, 3),
               f = h_filled(d, BYTES, 4);
    trp_buffer x[6];
    for (uint32_t i = 0; i < 6; i++)
        x[i] = h_filled(d, BYTES, 50 + i);
    begin(s, ns);
    /* What follows in the actor for local copies waits behind this. */
    bool sent = trp_fill(d, s->gate, 0, 4, 0, 4, NULL) == TRP_OK;
    fail_on(s, e, none, &early);
    sent = sent && trp_copy(d, e, 0, x[0], 0, BYTES, &c[COPY_EARLY]) == TRP_OK;
    sent = sent && trp_copy(d, x[0], 0, x[1], 0, BYTES, &c[COPY_MORE]) == TRP_OK;
    H_IS(h_await_any(early), TRP_E_LIBRARY);
    fail_on(s, b, none, &told);
    H_IS(h_await_any(told), TRP_E_LIBRARY);
    sent = sent && trp_copy(d, b, 0, x[2], 0, BYTES, &c[COPY_TOLD]) == TRP_OK;
    sent = sent && trp_fill(d, x[1], 0, BYTES, 77, 4, &c[COVER]) == TRP_OK;
    sent = sent && trp_read(d, x[1], 0, got, BYTES, &c[COVERED]) == TRP_OK;
    sent = sent && trp_fill(d, f, 0, BYTES, 5, 4, &c[CANCELLED]) == TRP_OK;
    sent = sent && trp_copy(d, f, 0, x[3], 0, BYTES, &c[COPY_CANCELLED]) == TRP_OK;
    if (sent) {
        H_OK(trp_cancel(c[CANCELLED].future));
        H_OK(trp_cancel(s->in_flight.future)); /* too late, and not in the next worker either */
        sent = h_await_any(c[CANCELLED]) == TRP_E_CANCELLED && in_time(s);
    }
    sent = sent && trp_copy(d, f, 0, x[4], 0, BYTES, &c[COPY_CANCELLED_TOLD]) == TRP_OK;
    fail_on(s, a, s->gate, &c[LATE_FAIL]);
    sent = sent && trp_copy(d, a, 0, x[5], 0, BYTES, &c[LATE_COPY]) == TRP_OK;
    sent = sent && in_time(s);
    H_IS(h_await_any(s->kill), TRP_E_FAULT);
    H_IS(h_await_any(s->spin), TRP_E_FAULT); /* it could not run twice */
    H_OK(h_await_any(s->in_flight));
    for (int i = 0; i < COUNT; i++) {
        if (i == CANCELLED || c[i].future.id == 0)
            continue;
        trp_status status = h_await_any(c[i]);
        if (sent && status != wanted[i])
            h_fail(__FILE__, __LINE__, "request %d ended with %s, expected %s", i,
                   trp_status_name(status), trp_status_name(wanted[i]));
    }
    if (sent) {
        const uint32_t holds[6] = {50, 77, 2, 53, 4, 55};
        H_EQUAL(got[9], 77);
        for (int i = 0; i < 6; i++) {
            h_read(d, x[i], 0, got, BYTES);
            H_EQUAL(got[WORDS - 1], holds[i]);
        }
    }
    trp_buffer all[] = {a, b, e, f, x[0], x[1], x[2], x[3], x[4], x[5]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        H_OK(trp_buffer_free(d, all[i]));
    H_OK(trp_device_drain(d, H_LONG));
    H_EQUAL(h_info(d).buffers, 2);
    return sent;
}

static void across_a_death(void)
{
    stage s = set_up();
    int done = 0;
    int64_t ns = 100 * H_MS;
    for (int i = 0; i < 12 && done < 4; i++) {
        if (round_of(&s, ns))
            done++;
        else
            ns *= 2;
    }
    H_CHECK(done > 0);
    h_close(&s.w);
}

/* ---- cancelling while workers die ---- */

enum { THREADS = 4, BATCH = 16 };

typedef struct player {
    stage *s;
    ref_rng rng;
    trp_buffer buffer;
    _Atomic bool *stop;
    uint32_t done, cancelled, failed;
} player;

/* Each request writes a word of its own: its old value if it was cancelled, the new one if it is
 * done, either if a fault took it. */
static void play_round(player *p, uint32_t cell[WORDS], uint32_t round)
{
    trp_device *d = p->s->w.device;
    trp_completion c[BATCH] = {{0}};
    uint32_t got[WORDS], first = (uint32_t)ref_rng_below(&p->rng, WORDS - BATCH + 1);
    bool lost = false;
    for (uint32_t i = 0; i < BATCH; i++) {
        H_OK(trp_fill(d, p->buffer, (first + i) * UINT64_C(4), 4, round * BATCH + i, 4, &c[i]));
        if (ref_rng_below(&p->rng, 2))
            H_OK(trp_cancel(c[ref_rng_below(&p->rng, i + 1)].future));
    }
    for (uint32_t i = 0; i < BATCH; i++) {
        trp_status status = h_await_any(c[i]);
        H_IS(trp_await(c[i].future, 0, NULL), TRP_E_STALE);
        if (status == TRP_OK)
            cell[first + i] = round * BATCH + i;
        else if (status != TRP_E_CANCELLED)
            H_IS(status, TRP_E_FAULT);
        lost = lost || status == TRP_E_FAULT;
        p->done += status == TRP_OK;
        p->cancelled += status == TRP_E_CANCELLED;
        p->failed += status == TRP_E_FAULT;
    }
    H_EQUAL(h_buffer_info(d, p->buffer).lost, lost);
    if (lost) {
        H_OK(trp_fill(d, p->buffer, 0, BYTES, 0, 4, NULL));
        memset(cell, 0, BYTES);
    }
    h_read(d, p->buffer, 0, got, BYTES);
    H_SAME(got, cell, BYTES);
}

static void *play(void *argument)
{
    player *p = argument;
    uint32_t cell[WORDS] = {0};
    for (uint32_t round = 1; !*p->stop; round++)
        play_round(p, cell, round);
    return NULL;
}

static void many_threads(void)
{
    stage s = set_up();
    trp_device *d = s.w.device;
    _Atomic bool stop = false;
    player p[THREADS];
    h_thread *thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        p[i] =
            (player){.s = &s, .rng = h_rng_fork(), .buffer = h_filled(d, BYTES, 0), .stop = &stop};
        thread[i] = h_start(play, &p[i]);
    }
    for (int i = 0; i < (H_SANITIZED ? 6 : 12); i++) {
        trp_completion c = {0};
        H_OK(trp_probe(s.killer, &(trp_probe_request){.action = TRP_PROBE_ABORT}, &c));
        H_IS(h_await_any(c), TRP_E_FAULT);
        h_await_state(d, TRP_DEVICE_READY);
        h_sleep((int64_t)ref_rng_below(h_rng(), 20) * H_MS);
    }
    stop = true;
    uint32_t done = 0, cancelled = 0, failed = 0;
    for (int i = 0; i < THREADS; i++) {
        h_join(thread[i]);
        done += p[i].done;
        cancelled += p[i].cancelled;
        failed += p[i].failed;
        H_OK(trp_buffer_free(d, p[i].buffer));
    }
    printf("  %u done, %u cancelled, %u failed, %u workers died\n", done, cancelled, failed,
           h_info(d).restarts);
    H_OK(trp_device_drain(d, H_LONG));
    H_EQUAL(h_info(d).buffers, 2);
    h_close(&s.w);
}

H_CASES_OF_PROCESSES(H_CASE(across_a_death), H_CASE(many_threads))

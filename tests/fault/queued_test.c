/* What becomes of requests that were sent before the worker died and had not been begun. */
#include "support/harness.h"

TROUPE_TEST_FAKE_GPU("no tsan");

enum { BYTES = 4096 };

typedef struct stage {
    h_world w;
    trp_actor *killer, *blocker;
    trp_completion kill, spin;
    trp_buffer written; /* by the request that dies */
    trp_buffer held;    /* by the blocker, which therefore can't run twice */
    trp_buffer gate;    /* written by the blocker's last request, which is not begun */
    uint32_t incarnation;
    uint32_t word[1];
} stage;

/* Sets things up so that copies and fills that are sent next are sent to a worker that will begin
 * none of them: one probe kills the worker after `ns`; another has more behind a longer spin than
 * is given to a stream at a time. The last of that writes the gate, for which the first copy and
 * fill in each direction wait, and all others wait behind those. Or the scheduler waits for the
 * first one's spin. The killer and the empty probes run again on the next worker, alone, before all
 * that was not begun. */
static void block(stage *s, int64_t ns)
{
    trp_completion ready[2] = {{0}};
    /* Both have begun in this worker: else the second could block before the first is issued. */
    h_probe(s->killer, TRP_PROBE_NOP, &ready[0]);
    h_probe(s->blocker, TRP_PROBE_NOP, &ready[1]);
    H_OK(h_await_any(ready[0]));
    H_OK(h_await_any(ready[1]));
    H_OK(trp_fill(s->w.device, s->held, 0, BYTES, 8, 4, NULL));
    H_OK(trp_device_drain(s->w.device, H_LONG));
    s->incarnation = h_info(s->w.device).incarnation;
    s->kill = s->spin = (trp_completion){0};
    h_spin(s->killer, ns, NULL);
    H_OK(trp_probe(s->killer,
                   &(trp_probe_request){.action = TRP_PROBE_KILL, .outputs = {s->written}},
                   &s->kill));
    if (h_is_cuda())
        return; /* there the killer waits for its own spin and holds the scheduler meanwhile */
    H_OK(trp_probe(s->blocker,
                   &(trp_probe_request){.action = TRP_PROBE_SPIN,
                                        .duration_ns = (uint64_t)(30 * H_SEC),
                                        .outputs = {s->held}},
                   &s->spin));
    for (int i = 0; i < 1000; i++)
        h_probe(s->blocker, TRP_PROBE_NOP, NULL);
    H_OK(trp_probe(s->blocker, &(trp_probe_request){.action = TRP_PROBE_NOP, .outputs = {s->gate}},
                   NULL));
    H_OK(trp_fill(s->w.device, s->gate, 0, 4, 0, 4, NULL));
    H_OK(trp_read(s->w.device, s->gate, 0, s->word, 4, NULL));
}

/* Whether everything since block() was sent while the old worker lived. */
static bool in_time(const stage *s)
{
    trp_device_info info = h_info(s->w.device);
    return info.incarnation == s->incarnation && info.state == TRP_DEVICE_READY;
}

static void set_up(stage *s)
{
    memset(s, 0, sizeof *s);
    s->w = h_open(NULL);
    s->killer = h_actor(s->w.device, "probe");
    s->blocker = h_actor(s->w.device, "probe");
    s->written = h_buffer(s->w.device, BYTES);
    s->held = h_buffer(s->w.device, BYTES);
    s->gate = h_buffer(s->w.device, BYTES);
}

static uint32_t word_of(trp_device *device, trp_buffer b)
{
    uint32_t word[BYTES / 4];
    h_read(device, b, 0, word, sizeof word);
    for (int i = 1; i < BYTES / 4; i++)
        H_EQUAL(word[i], word[0]);
    return word[0];
}

/* One round; false if the machine was too slow and the requests met the new worker. */
static bool queued_round(stage *s, int64_t ns)
{
    trp_device *d = s->w.device;
    enum {
        FILL,
        COPY,
        READ_COPY,
        GOOD_READ,
        LOST_COPY,
        LOST_READ,
        CHAIN,
        CHAIN_READ,
        COVER,
        COVERED_READ,
        PARTIAL,
        PROBE_READS,
        COUNT
    };
    trp_completion c[COUNT] = {{0}};
    trp_error e[COUNT];
    uint32_t got[COUNT][BYTES / 4];
    trp_buffer a = h_filled(d, BYTES, 1), b = h_filled(d, BYTES, 2), x = h_filled(d, BYTES, 3),
               y = h_filled(d, BYTES, 4);
    trp_buffer z = h_filled(d, BYTES, 5);
    H_OK(trp_fill(d, s->written, 0, BYTES, 9, 4, NULL));
    H_OK(trp_device_drain(d, H_LONG));
    memset(got, 0x7e, sizeof got);
    block(s, ns);
    bool sent =
        /* Has nothing to do with the fault: runs on the next worker. */
        trp_fill(d, a, 0, BYTES, 11, 4, &c[FILL]) == TRP_OK &&
        trp_copy(d, a, 0, b, 0, BYTES, &c[COPY]) == TRP_OK &&
        trp_read(d, b, 0, got[READ_COPY], BYTES, &c[READ_COPY]) == TRP_OK &&
        trp_read(d, z, 0, got[GOOD_READ], BYTES, &c[GOOD_READ]) == TRP_OK &&
        /* Reads what the dying request was writing. */
        trp_copy(d, s->written, 0, x, 0, BYTES, &c[LOST_COPY]) == TRP_OK &&
        trp_read(d, s->written, 0, got[LOST_READ], BYTES, &c[LOST_READ]) == TRP_OK &&
        /* Reads what one of those should have written. */
        trp_copy(d, x, 0, y, 0, BYTES, &c[CHAIN]) == TRP_OK &&
        trp_read(d, y, 0, got[CHAIN_READ], BYTES, &c[CHAIN_READ]) == TRP_OK &&
        /* A part is written, which needs nothing and heals nothing. */
        trp_fill(d, x, 0, 4, 13, 4, &c[PARTIAL]) == TRP_OK &&
        trp_probe(s->killer, &(trp_probe_request){.action = TRP_PROBE_NOP, .inputs = {x}},
                  &c[PROBE_READS]) == TRP_OK &&
        /* All is written anew: good again for those behind. */
        trp_fill(d, s->written, 0, BYTES, 12, 4, &c[COVER]) == TRP_OK &&
        trp_read(d, s->written, 0, got[COVERED_READ], BYTES, &c[COVERED_READ]) == TRP_OK;
    sent = sent && in_time(s);
    H_IS(h_await_any(s->kill), TRP_E_FAULT);
    if (s->spin.future.id)
        H_IS(h_await_any(s->spin), TRP_E_FAULT);
    if (!sent) {
        H_OK(trp_device_drain(d, H_LONG));
        for (int i = 0; i < COUNT; i++)
            trp_future_drop(c[i].future);
        goto out;
    }
    for (int i = 0; i < COUNT; i++) {
        trp_status status = h_await(c[i].future, &e[i]);
        static const trp_status want[COUNT] = {
            [LOST_COPY] = TRP_E_LOST,         [LOST_READ] = TRP_E_LOST,
            [CHAIN] = TRP_E_DEPENDENCY,       [CHAIN_READ] = TRP_E_DEPENDENCY,
            [PROBE_READS] = TRP_E_DEPENDENCY,
        };
        if (status != want[i])
            h_fail(__FILE__, __LINE__, "request %d ended with %s, expected %s", i,
                   trp_status_name(status), trp_status_name(want[i]));
        if (status != TRP_OK) {
            H_CHECK(e[i].request != 0);
            H_EQUAL(e[i].fault, TRP_FAULT_NONE);
            H_EQUAL(e[i].incarnation, 0); /* no worker ran it */
        }
    }
    H_EQUAL(got[READ_COPY][0], 11);
    H_EQUAL(got[READ_COPY][BYTES / 4 - 1], 11);
    H_EQUAL(got[GOOD_READ][7], 5);
    H_EQUAL(got[COVERED_READ][0], 12);
    H_EQUAL(got[COVERED_READ][BYTES / 4 - 1], 12);
    /* Targets of reads that failed were not touched. */
    for (int i = 0; i < BYTES / 4; i++) {
        H_EQUAL(got[LOST_READ][i], 0x7e7e7e7e);
        H_EQUAL(got[CHAIN_READ][i], 0x7e7e7e7e);
    }
    H_EQUAL(word_of(d, a), 11);
    H_EQUAL(word_of(d, b), 11);
    H_EQUAL(word_of(d, s->written), 12);
    H_EQUAL(word_of(d, y), 4); /* its copy never began */
    H_CHECK(!h_buffer_info(d, y).lost);
    H_CHECK(!h_buffer_info(d, x).lost);
    h_read(d, x, 0, got[0], BYTES);
    H_EQUAL(got[0][0], 13);
    H_EQUAL(got[0][1], 3);
out:
    H_OK(trp_buffer_free(d, a));
    H_OK(trp_buffer_free(d, b));
    H_OK(trp_buffer_free(d, x));
    H_OK(trp_buffer_free(d, y));
    H_OK(trp_buffer_free(d, z));
    return sent;
}

static void queued(void)
{
    stage s;
    int done = 0;
    int64_t ns = 200 * H_MS;
    set_up(&s);
    for (int i = 0; i < 10 && done < 3; i++) {
        if (queued_round(&s, ns))
            done++;
        else
            ns *= 2;
    }
    H_CHECK(done > 0);
    h_close(&s.w);
}

/* A buffer that was lost stays lost when the writes that should have healed it don't come to be:
 * two that cover it, one after the other, both behind a failed input. */
static void lost_stays_lost(void)
{
    stage s;
    bool done = false;
    set_up(&s);
    trp_device *d = s.w.device;
    trp_buffer victim = h_filled(d, BYTES, 1);
    int64_t ns = 200 * H_MS;
    for (int i = 0; i < 6 && !done; i++, ns *= 2) {
        trp_completion c[4] = {{0}};
        uint32_t got[BYTES / 4];
        H_OK(trp_fill(d, s.written, 0, BYTES, 9, 4, NULL));
        H_OK(trp_probe(s.killer,
                       &(trp_probe_request){.action = TRP_PROBE_KILL, .outputs = {victim}}, &c[0]));
        H_IS(h_await_any(c[0]), TRP_E_FAULT);
        H_CHECK(h_buffer_info(d, victim).lost);
        h_await_state(d, TRP_DEVICE_READY);
        H_OK(trp_device_drain(d, H_LONG));
        block(&s, ns);
        bool sent = trp_copy(d, s.written, 0, victim, 0, BYTES, &c[1]) == TRP_OK &&
                    trp_copy(d, s.written, 0, victim, 0, BYTES, &c[2]) == TRP_OK &&
                    trp_read(d, victim, 0, got, BYTES, &c[3]) == TRP_OK && in_time(&s);
        H_IS(h_await_any(s.kill), TRP_E_FAULT);
        trp_future_drop(s.spin.future);
        if (sent) {
            H_IS(h_await_any(c[1]), TRP_E_LOST);
            H_IS(h_await_any(c[2]), TRP_E_LOST);
            trp_status status = h_await_any(c[3]);
            H_CHECK(status == TRP_E_DEPENDENCY || status == TRP_E_LOST);
            H_CHECK(h_buffer_info(d, victim).lost);
            H_IS(trp_read(d, victim, 0, got, BYTES, NULL), TRP_E_LOST);
            done = true;
        }
        H_OK(trp_device_drain(d, H_LONG));
    }
    H_CHECK(done);
    h_close(&s.w);
}

/* Freed while the requests that use it wait for the next worker. */
static void freed_while_queued(void)
{
    stage s;
    set_up(&s);
    trp_device *d = s.w.device;
    for (int i = 0; i < 3; i++) {
        trp_buffer a = h_filled(d, BYTES, 21), b = h_buffer(d, BYTES);
        uint32_t got[BYTES / 4] = {0};
        trp_completion c = {0};
        H_OK(trp_device_drain(d, H_LONG));
        block(&s, 100 * H_MS);
        H_OK(trp_copy(d, a, 0, b, 0, BYTES, NULL));
        H_OK(trp_read(d, b, 0, got, BYTES, &c));
        H_OK(trp_buffer_free(d, a));
        H_OK(trp_buffer_free(d, b));
        for (uint32_t k = 0; k < 10; k++) { /* they take what is free, which a and b are not yet */
            trp_buffer other = h_filled(d, BYTES, 77);
            H_OK(trp_buffer_free(d, other));
        }
        H_IS(h_await_any(s.kill), TRP_E_FAULT);
        trp_future_drop(s.spin.future);
        H_OK(h_await_any(c));
        for (int k = 0; k < BYTES / 4; k++)
            H_EQUAL(got[k], 21);
        H_OK(trp_device_drain(d, H_LONG));
        H_OK(trp_fill(d, s.written, 0, BYTES, 9, 4, NULL));
    }
    H_EQUAL(h_info(d).buffers, 3);
    h_close(&s.w);
}

/* Order among the queued ones holds on the new worker. */
static void order_is_kept(void)
{
    enum { STEPS = 200 };
    stage s;
    set_up(&s);
    trp_device *d = s.w.device;
    trp_buffer a = h_filled(d, BYTES, 0), b = h_filled(d, BYTES, 0);
    for (int round = 0; round < 3; round++) {
        trp_completion c[STEPS] = {{0}};
        uint32_t got[STEPS][4];
        H_OK(trp_device_drain(d, H_LONG));
        block(&s, 100 * H_MS);
        for (uint32_t i = 0; i < STEPS; i++) {
            H_OK(trp_fill(d, a, 0, BYTES, i * 7 + 1, 4, NULL));
            H_OK(trp_copy(d, a, 16, b, 32, 16, NULL));
            H_OK(trp_read(d, b, 32, got[i], 16, &c[i]));
        }
        H_IS(h_await_any(s.kill), TRP_E_FAULT);
        trp_future_drop(s.spin.future);
        for (uint32_t i = 0; i < STEPS; i++) {
            trp_status status = h_await_any(c[i]);
            /* A slow machine may have begun one when the worker died. */
            if (status != TRP_OK) {
                H_CHECK(status == TRP_E_FAULT || status == TRP_E_LOST ||
                        status == TRP_E_DEPENDENCY);
                continue;
            }
            H_EQUAL(got[i][0], i * 7 + 1);
            H_EQUAL(got[i][3], i * 7 + 1);
        }
        H_OK(trp_fill(d, b, 0, BYTES, 0, 4, NULL));
        H_OK(trp_fill(d, s.written, 0, BYTES, 9, 4, NULL));
    }
    h_close(&s.w);
}

H_CASES_OF_PROCESSES(H_CASE(queued), H_CASE(lost_stays_lost), H_CASE(freed_while_queued),
                     H_CASE(order_is_kept))

/* What was in flight when the worker died: what can run again does, in the order sent, on the right
 * inputs, and whoever is guilty is found. */
#include "support/faults/killer.h"

#include <signal.h>

TROUPE_TEST("long", "many workers");
TROUPE_TEST_FAKE_GPU("no sanitizer", "FAKE_CUDA_REPORT_MS=1",
                     "cases innocents one_of_three not_idempotent at_most_twice "
                     "order_of_each_actor exactly_once");

static void spin_with(trp_actor *probe, int64_t ns, trp_buffer input, trp_buffer output,
                      trp_completion *c)
{
    *c = (trp_completion){0};
    H_OK(trp_probe(probe,
                   &(trp_probe_request){.action = TRP_PROBE_SPIN,
                                        .duration_ns = (uint64_t)ns,
                                        .inputs = {input},
                                        .outputs = {output}},
                   c));
}

static const trp_buffer none;

/* ---- one culprit among many ---- */

enum { INNOCENTS = 32, SIDE = 64, EACH = 3, MATRIX = SIDE * SIDE * 4 };

/* Actors of both kinds with work that can run twice, and one that brings the worker down. */
static void innocents(void)
{
    static const trp_probe_action actions[] = {TRP_PROBE_SEGV, TRP_PROBE_ABORT, TRP_PROBE_EXIT,
                                               TRP_PROBE_KILL, TRP_PROBE_ILLEGAL_ADDRESS};
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *actor[INNOCENTS], *culprit = h_actor(d, "probe");
    trp_buffer out[INNOCENTS], in = h_buffer(d, MATRIX), bad = h_buffer(d, MATRIX);
    float *got = h_malloc(MATRIX);
    union {
        float f;
        uint32_t u;
    } one = {.f = 1};
    h_fill(d, in, one.u);
    for (int i = 0; i < INNOCENTS; i++) {
        actor[i] = h_actor(d, i % 2 ? "blas" : "probe");
        out[i] = h_buffer(d, MATRIX);
    }
    for (int round = 0; round < h_rounds(30, 8); round++) {
        trp_completion c[INNOCENTS][EACH], guilty = {0};
        trp_device_info before = h_info(d);
        trp_probe_action action = actions[round % 5];
        int at = (int)ref_rng_below(h_rng(), INNOCENTS * EACH);
        for (int k = 0; k < EACH * INNOCENTS; k++) {
            int i = k % INNOCENTS, n = k / INNOCENTS;
            c[i][n] = (trp_completion){0};
            if (i % 2)
                H_OK(trp_gemm(actor[i],
                              &(trp_gemm_request){.type = TRP_F32,
                                                  .m = SIDE,
                                                  .n = SIDE,
                                                  .k = SIDE,
                                                  .alpha = trp_real(round + n + 1),
                                                  .a = in,
                                                  .b = in,
                                                  .c = out[i]},
                              &c[i][n]));
            else
                spin_with(actor[i], (int64_t)ref_rng_below(h_rng(), 400) * 1000, in, none,
                          &c[i][n]);
            if (k == at)
                H_OK(trp_probe(
                    culprit,
                    &(trp_probe_request){.action = action, .inputs = {in}, .outputs = {bad}},
                    &guilty));
        }
        for (int k = 0; k < EACH * INNOCENTS; k++)
            H_OK(h_await_any(c[k % INNOCENTS][k / INNOCENTS]));
        H_IS(h_await_any(guilty), TRP_E_FAULT);
        trp_device_info after = h_info(d);
        H_EQUAL(after.requests_failed, before.requests_failed + 1);
        H_CHECK(after.restarts - before.restarts <= 2);
        H_CHECK(h_buffer_info(d, bad).lost);
        for (int i = 1; i < INNOCENTS; i += 2) {
            H_CHECK(!h_buffer_info(d, out[i]).lost);
            h_read(d, out[i], 0, got, MATRIX);
            for (int k = 0; k < SIDE * SIDE; k++)
                H_CHECK(got[k] == (float)(SIDE * (round + EACH)));
        }
    }
    free(got);
    h_close(&w);
}

/* The culprit is first, in the middle, or last of what is in one stream. */
static void one_of_three(void)
{
    static const trp_probe_action actions[] = {TRP_PROBE_SEGV, TRP_PROBE_KILL, TRP_PROBE_EXIT};
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    for (int round = 0; round < h_rounds(18, 9); round++) {
        trp_completion c[3] = {{0}}, before = {0};
        trp_device_info info = h_info(w.device);
        int culprit = round % 3;
        h_spin(probe, 5 * H_MS, &before); /* so that all three are there when it comes to it */
        for (int i = 0; i < 3; i++) {
            if (i == culprit)
                h_probe(probe, actions[round / 3 % 3], &c[i]);
            else
                h_spin(probe, H_MS / 2, &c[i]);
        }
        H_OK(h_await_any(before));
        for (int i = 0; i < 3; i++)
            H_IS(h_await_any(c[i]), i == culprit ? TRP_E_FAULT : TRP_OK);
        H_EQUAL(h_info(w.device).requests_failed, info.requests_failed + 1);
    }
    h_close(&w);
}

/* ---- what can't run twice ---- */

enum { BYTES = 4096 };

static uint32_t word_of(trp_device *device, trp_buffer b)
{
    uint32_t word[BYTES / 4];
    h_read(device, b, 0, word, sizeof word);
    for (int i = 1; i < BYTES / 4; i++)
        H_EQUAL(word[i], word[0]);
    return word[0];
}

static void not_idempotent(void)
{
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *victim = h_actor(d, "probe"), *probe = h_actor(d, "probe");
    trp_actor *other = h_actor(d, "probe");
    trp_buffer x = h_buffer(d, BYTES), y = h_buffer(d, BYTES);
    int hit = 0;
    h_fill(d, y, 2);
    for (int round = 0; round < 8 && hit < 4; round++) {
        trp_completion c, behind = {0}, reads = {0}, free_one = {0}, twice, guilty = {0};
        uint32_t got[BYTES / 4];
        trp_error error, fault;
        trp_device_info before = h_info(d);
        h_fill(d, x, 1);
        spin_with(victim, 2 * H_SEC, y, x, &c);
        h_probe(victim, TRP_PROBE_NOP, &behind);
        spin_with(other, 5 * H_MS, y, none, &twice);
        H_OK(trp_read(d, x, 0, got, BYTES, &reads));
        H_OK(trp_read(d, y, 0, got, BYTES, &free_one));
        h_sleep(30 * H_MS);
        h_probe(probe, TRP_PROBE_ABORT, &guilty);
        trp_status status = h_await(c.future, &error);
        H_IS(h_await(guilty.future, &fault), TRP_E_FAULT);
        H_OK(h_await_any(behind));
        H_OK(h_await_any(twice));
        H_OK(h_await_any(free_one));
        H_EQUAL(got[5], 2);
        if (status == TRP_OK) { /* a slow machine: it had not begun */
            trp_future_drop(reads.future);
            continue;
        }
        hit++;
        H_IS(status, TRP_E_FAULT);
        H_EQUAL(error.fault, TRP_FAULT_SIGNAL);
        H_EQUAL(error.code, SIGABRT);
        H_EQUAL(error.incarnation, before.incarnation);
        H_EQUAL(fault.code, SIGABRT);
        status = h_await_any(reads);
        H_CHECK(status == TRP_E_LOST);
        H_CHECK(h_buffer_info(d, x).lost);
        H_CHECK(!h_buffer_info(d, y).lost);
        H_EQUAL(word_of(d, y), 2);
        /* Two were in flight at the first death, the guilty one alone at the second. */
        H_EQUAL(h_info(d).restarts, before.restarts + 2);
        H_EQUAL(h_info(d).requests_failed, before.requests_failed + 3);
    }
    H_CHECK(hit > 0);
    h_close(&w);
}

/* ---- never a third time ---- */

static void at_most_twice(void)
{
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *one = h_actor(d, "probe"), *two = h_actor(d, "probe");
    static const struct {
        trp_probe_action action;
        bool with_others;
        uint32_t least; /* workers that it costs */
    } ways[] = {
        {TRP_PROBE_ABORT, false, 1},
        {TRP_PROBE_KILL, false, 2},
        {TRP_PROBE_ABORT, true, 1},
        {TRP_PROBE_KILL, true, 2},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        trp_device_info before = h_info(d);
        trp_completion c = {0}, other = {0}, next = {0};
        if (ways[i].with_others)
            h_spin(two, 200 * H_MS, &other); /* idempotent: it runs again */
        h_sleep(20 * H_MS);
        h_probe(one, ways[i].action, &c);
        h_probe(one, TRP_PROBE_NOP, &next);
        H_IS(h_await_any(c), TRP_E_FAULT);
        H_OK(h_await_any(next));
        if (ways[i].with_others)
            H_OK(h_await_any(other));
        trp_device_info after = h_info(d);
        /* One more if it was not alone in flight; the empty one behind it counts too. */
        uint32_t died = after.restarts - before.restarts;
        if (died < ways[i].least || died > 2)
            h_fail(__FILE__, __LINE__, "way %zu: %u workers died", i, died);
        H_EQUAL(after.incarnation - before.incarnation, after.restarts - before.restarts);
        H_EQUAL(after.requests_failed, before.requests_failed + 1);
    }
    /* Several in one stream: each costs a worker alone, after one that they had together. */
    enum { CULPRITS = 5 };
    trp_device_info before = h_info(d);
    trp_completion c[CULPRITS] = {{0}}, next = {0};
    h_spin(one, 20 * H_MS, NULL);
    for (int i = 0; i < CULPRITS; i++)
        h_probe(one, TRP_PROBE_ABORT, &c[i]);
    h_probe(one, TRP_PROBE_NOP, &next);
    for (int i = 0; i < CULPRITS; i++)
        H_IS(h_await_any(c[i]), TRP_E_FAULT);
    H_OK(h_await_any(next)); /* a restart is counted after the failure is told, before the next */
    uint32_t workers = h_info(d).restarts - before.restarts;
    if (workers < CULPRITS || workers > 2 * CULPRITS)
        h_fail(__FILE__, __LINE__, "%u workers died for %d culprits", workers, (int)CULPRITS);
    H_EQUAL(h_info(d).requests_failed, before.requests_failed + CULPRITS);

    /* Two workers are killed from outside under one that is innocent. */
    bool hit = false;
    for (int round = 0; round < 6 && !hit; round++) {
        trp_completion alone = {0};
        h_await_standby(d);
        before = h_info(d);
        h_spin(one, (round + 1) * 300 * H_MS, &alone);
        h_sleep(50 * H_MS);
        h_kill_worker(d);
        h_await_incarnation(d, before.incarnation + 1);
        h_sleep(50 * H_MS);
        h_kill_worker(d);
        trp_error error;
        trp_status status = h_await(alone.future, &error);
        hit = status == TRP_E_FAULT;
        H_CHECK(status == TRP_OK || hit);
        if (hit) {
            H_EQUAL(error.fault, TRP_FAULT_SIGNAL);
            H_EQUAL(error.code, SIGKILL);
        }
        h_await_incarnation(d, before.incarnation + 2);
        H_EQUAL(h_info(d).restarts, before.restarts + 2);
    }
    H_CHECK(hit);
    h_close(&w);
}

/* ---- a chain of work against a model ---- */

/* A -> B -> A in one stream: the first copy must not run again on what the second has made of its
 * input. The copies are large enough to be met in the middle. */
static void there_and_back(void)
{
    enum { LEN = 6 };
    const uint64_t bytes = (h_is_gpu() ? 256 : H_SANITIZED ? 2 : 8) * H_MIB;
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_buffer a = h_buffer(d, bytes), b = h_buffer(d, bytes), mark = h_buffer(d, bytes);
    uint32_t *got = h_malloc(bytes);
    for (int round = 0; round < h_rounds(24, 10); round++) {
        trp_completion c[3 * LEN] = {{0}};
        uint32_t word = (uint32_t)round * 100;
        int sent = 0;
        h_fill(d, a, word);
        h_fill(d, b, 7);
        h_fill(d, mark, word + 1);
        h_killer killer;
        h_killer_start(&killer, d, 1, 12 * H_MS);
        for (uint32_t i = 0; i < LEN; i++) {
            H_OK(trp_copy(d, a, 0, b, 0, bytes, &c[sent++]));    /* a -> b */
            H_OK(trp_copy(d, mark, 0, a, 0, bytes, &c[sent++])); /* a is something else */
            H_OK(trp_fill(d, mark, 0, bytes, word + i + 2, 4, &c[sent++]));
        }
        for (int i = 0; i < sent; i++)
            H_OK(h_await_any(c[i]));
        h_killer_end(&killer);
        H_OK(trp_device_drain(d, H_LONG));
        const uint32_t want[3] = {word + LEN - 1, word + LEN, word + LEN + 1};
        const trp_buffer buffer[3] = {b, a, mark};
        for (int k = 0; k < 3; k++) {
            h_read(d, buffer[k], 0, got, bytes);
            for (uint64_t i = 0; i < bytes / 4; i += 97)
                H_EQUAL(got[i], want[k]);
        }
    }
    free(got);
    h_close(&w);
}

/* ---- order ---- */

/* Each actor's requests are seen to end in the order sent, on whatever worker they ran. */
static void order_of_each_actor(void)
{
    enum { ACTORS = 6, EACH_ACTOR = 60 };
    h_world w = h_open(NULL);
    trp_actor *probe[ACTORS];
    trp_queue *queue = NULL;
    trp_buffer b = h_buffer(w.device, BYTES);
    h_fill(w.device, b, 1);
    H_OK(trp_queue_create(w.system, &queue));
    for (int i = 0; i < ACTORS; i++)
        probe[i] = h_actor(w.device, "probe");
    for (int round = 0; round < h_rounds(12, 5); round++) {
        uintptr_t next[ACTORS] = {0};
        h_killer killer;
        h_killer_start(&killer, w.device, 1, 5 * H_MS);
        for (uintptr_t i = 0; i < ACTORS * EACH_ACTOR; i++) {
            trp_probe_request r = {.action = TRP_PROBE_SPIN,
                                   .duration_ns = ref_rng_below(h_rng(), 60) * 1000,
                                   .inputs = {b}};
            H_OK(trp_probe(probe[i % ACTORS], &r,
                           &(trp_completion){.queue = queue, .user_data = (void *)i}));
        }
        for (uintptr_t i = 0; i < ACTORS * EACH_ACTOR; i++) {
            trp_event event;
            H_OK(trp_queue_next(queue, H_LONG, &event));
            H_OK(event.status);
            uintptr_t number = (uintptr_t)event.user_data;
            H_EQUAL(number / ACTORS, next[number % ACTORS]);
            next[number % ACTORS]++;
        }
        h_killer_end(&killer);
        H_OK(trp_device_drain(w.device, H_LONG));
    }
    H_OK(trp_queue_destroy(queue));
    h_close(&w);
}

/* ---- large copies ---- */

/* Both directions at once, several each; the worker is killed once in every round. */
static void large_copies(void)
{
    enum { COPIES = 3 };
    const uint64_t bytes = (h_is_gpu() ? 300 : H_SANITIZED ? 6 : 20) * H_MIB + 4321;
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_buffer up[COPIES], down[COPIES];
    char *data[COPIES], *got[COPIES];
    for (int i = 0; i < COPIES; i++) {
        up[i] = h_buffer(d, bytes);
        down[i] = h_buffer(d, bytes);
        data[i] = h_random_block(h_rng(), bytes);
        got[i] = h_malloc(bytes);
        h_write(d, down[i], 0, data[i], bytes);
    }
    for (int round = 0; round < h_rounds(8, 4); round++) {
        trp_completion c[2 * COPIES] = {{0}}, small = {0};
        int64_t span = h_is_gpu() ? 80 : 25;
        char note[100], back[100];
        h_random_bytes(h_rng(), note, sizeof note);
        for (int i = 0; i < COPIES; i++) {
            memset(got[i], 0x5a, bytes);
            H_OK(trp_fill(d, up[i], 0, bytes, 0, 1, NULL));
            H_OK(trp_write(d, up[i], 0, data[i], bytes, &c[2 * i]));
            H_OK(trp_read(d, down[i], 0, got[i], bytes, &c[2 * i + 1]));
        }
        H_OK(trp_write(d, up[0], 0, note, sizeof note, &small));
        h_sleep((int64_t)ref_rng_below(h_rng(), (size_t)span) * H_MS);
        uint32_t failed = (uint32_t)h_info(d).requests_failed;
        h_kill_worker(d);
        for (int i = 0; i < 2 * COPIES; i++)
            H_OK(h_await_any(c[i]));
        H_OK(h_await_any(small));
        H_EQUAL(h_info(d).requests_failed, failed);
        for (int i = 0; i < COPIES; i++) {
            H_SAME(got[i], data[i], bytes);
            h_read(d, up[i], 0, got[i], bytes);
            if (i == 0) {
                memcpy(back, got[0], sizeof back);
                H_SAME(back, note, sizeof note);
                memcpy(got[0], data[0], sizeof note);
            }
            H_SAME(got[i], data[i], bytes);
        }
        h_await_state(d, TRP_DEVICE_READY);
    }
    for (int i = 0; i < COPIES; i++) {
        free(data[i]);
        free(got[i]);
    }
    h_close(&w);
}

/* ---- exactly once ---- */

static void exactly_once(void)
{
    enum { ACTORS = 4, COUNT = 600 };
    h_world w = h_open(NULL);
    trp_actor *probe[ACTORS];
    trp_queue *queue = NULL;
    trp_buffer b = h_buffer(w.device, BYTES), own[ACTORS];
    h_fill(w.device, b, 1);
    H_OK(trp_queue_create(w.system, &queue));
    for (int i = 0; i < ACTORS; i++) {
        probe[i] = h_actor(w.device, "probe");
        own[i] = h_buffer(w.device, BYTES);
    }
    for (int round = 0; round < h_rounds(10, 4); round++) {
        static trp_completion c[COUNT];
        static bool sent[COUNT], seen[COUNT];
        size_t queued = 0, failed = 0;
        for (int i = 0; i < ACTORS; i++)
            h_fill(w.device, own[i], 3);
        uint64_t failed_before = h_info(w.device).requests_failed;
        h_killer killer;
        h_killer_start(&killer, w.device, 2, 8 * H_MS);
        for (uintptr_t i = 0; i < COUNT; i++) {
            size_t a = ref_rng_below(h_rng(), ACTORS);
            trp_probe_request r = {.action = TRP_PROBE_SPIN,
                                   .duration_ns = ref_rng_below(h_rng(), 50) * 1000,
                                   .inputs = {b}};
            if (i % 7 == 0)
                r.outputs[0] = own[a]; /* runs once only */
            if (i % 200 == 150)
                r.action = TRP_PROBE_EXIT;
            c[i] = (trp_completion){0};
            if (i % 2)
                c[i] = (trp_completion){.queue = queue, .user_data = &c[i]};
            trp_status status = trp_probe(probe[a], &r, &c[i]);
            sent[i] = status == TRP_OK;
            seen[i] = false;
            H_CHECK(sent[i] || status == TRP_E_LOST);
            queued += sent[i] && i % 2;
        }
        for (int i = 0; i < COUNT; i += 2) {
            if (!sent[i])
                continue;
            trp_error error;
            failed += h_await(c[i].future, &error) != TRP_OK;
            H_IS(trp_await(c[i].future, 0, NULL), TRP_E_STALE);
        }
        for (size_t i = 0; i < queued; i++) {
            trp_event event;
            H_OK(trp_queue_next(queue, H_LONG, &event));
            trp_completion *which = event.user_data;
            size_t number = (size_t)(which - c);
            H_CHECK(number < COUNT && sent[number] && !seen[number]);
            seen[number] = true;
            failed += event.status != TRP_OK;
        }
        h_killer_end(&killer);
        H_OK(trp_device_drain(w.device, H_LONG));
        trp_event event;
        H_IS(trp_queue_next(queue, 2 * H_MS, &event), TRP_E_TIMEOUT);
        H_EQUAL(h_info(w.device).requests_failed - failed_before, failed);
        H_CHECK(failed >= 3);
    }
    H_OK(trp_queue_destroy(queue));
    h_close(&w);
}

H_CASES_OF_PROCESSES(H_CASE(innocents), H_CASE(one_of_three), H_CASE(not_idempotent),
                     H_CASE(at_most_twice), H_CASE(there_and_back), H_CASE(order_of_each_actor),
                     H_CASE(large_copies), H_CASE(exactly_once))

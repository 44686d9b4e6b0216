/* What was in flight when the worker died: what can run again does, in the order sent, on the right
 * inputs, and whoever is guilty is found. */
#include "support/harness.h"

#include <signal.h>

TROUPE_TEST("long", "many workers");
TROUPE_TEST_FAKE_GPU("no sanitizer", "FAKE_CUDA_REPORT_MS=1",
                     "cases innocents one_of_three not_idempotent at_most_twice chains "
                     "order_of_each_actor exactly_once");

static int rounds(int host, int cuda)
{
    return h_is_gpu() ? cuda : H_SANITIZED ? (host + 3) / 4 : host;
}

static void kill_worker(trp_device *device)
{
    trp_device_info info = h_info(device);
    if (info.state == TRP_DEVICE_READY && info.worker_pid > 0)
        kill((pid_t)info.worker_pid, SIGKILL);
}

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
    for (int round = 0; round < rounds(30, 8); round++) {
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
    for (int round = 0; round < rounds(18, 9); round++) {
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
        kill_worker(d);
        h_await_incarnation(d, before.incarnation + 1);
        h_sleep(50 * H_MS);
        kill_worker(d);
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

/* Every buffer is a square matrix of float32, in CELLS equal stripes that each hold one number,
 * small and whole, so that all arithmetic is exact. The model keeps the numbers. */
enum { SQUARE = 96, SQUARE_BYTES = SQUARE * SQUARE * 4, CELLS = 16, STRIPE = SQUARE_BYTES / CELLS };
enum { POOL = 8, STEPS = 160 };

typedef enum step_kind {
    STEP_FILL,
    STEP_COPY,
    STEP_MOVE,     /* from one place to another of one buffer */
    STEP_MULTIPLY, /* C = alpha * 1 * 1 */
    STEP_ADD,      /* C = alpha * 1 * 1 + C: runs once only */
    STEP_UPLOAD,
    STEP_READ,
    STEP_SPIN,
    STEP_TOUCH, /* empty work with an output: runs once only */
    STEP_FAIL,  /* a library's error: does nothing */
    STEP_CRASH,
} step_kind;

typedef struct step {
    step_kind kind;
    int from, to;                       /* buffers, -1 for none */
    uint32_t from_cell, to_cell, cells; /* what is read of `from`, and written of `to` */
    float value;
    bool sent, cancelled;
    trp_completion c;
    trp_status status;
    float *memory;
} step;

typedef struct cell {
    float value;
    bool unknown; /* a request died while it wrote this */
    bool failed;  /* the last request that should have written this has not */
} cell;

typedef struct content {
    cell cell[CELLS];
} content;

typedef struct chain {
    h_world w;
    trp_actor *blas[2], *probe;
    trp_buffer ones, pool[POOL];
    step step[STEPS];
    content model[POOL];
} chain;

static bool runs_once_only(step_kind kind)
{
    return kind == STEP_ADD || kind == STEP_TOUCH;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static trp_status send_gemm(chain *k, step *s)
{
    bool add = s->kind == STEP_ADD;
    trp_gemm_request g = {.type = TRP_F32,
                          .m = SQUARE,
                          .n = SQUARE,
                          .k = 1,
                          .a = k->ones,
                          .b = k->ones,
                          .c = k->pool[s->to],
                          .alpha = trp_real((double)s->value),
                          .beta = trp_real(add ? 1 : 0)};
    return trp_gemm(k->blas[s->to % 2], &g, &s->c);
}

static trp_status send_step(chain *k, step *s)
{
    trp_device *d = k->w.device;
    uint64_t from = (uint64_t)s->from_cell * STRIPE, to = (uint64_t)s->to_cell * STRIPE;
    uint64_t bytes = (uint64_t)s->cells * STRIPE;
    trp_probe_request p = {.action = s->kind == STEP_CRASH   ? TRP_PROBE_ABORT
                                     : s->kind == STEP_TOUCH ? TRP_PROBE_NOP
                                     : s->kind == STEP_FAIL  ? TRP_PROBE_LIBRARY_ERROR
                                                             : TRP_PROBE_SPIN,
                           .duration_ns = 100000};
    switch (s->kind) {
    case STEP_FILL:
        return trp_fill(d, k->pool[s->to], to, bytes, bits_of(s->value), 4, &s->c);
    case STEP_COPY:
    case STEP_MOVE:
        return trp_copy(d, k->pool[s->from], from, k->pool[s->to], to, bytes, &s->c);
    case STEP_MULTIPLY:
    case STEP_ADD:
        return send_gemm(k, s);
    case STEP_UPLOAD:
        return trp_write(d, k->pool[s->to], to, s->memory, bytes, &s->c);
    case STEP_READ:
        return trp_read(d, k->pool[s->from], from, s->memory, bytes, &s->c);
    default:
        if (s->from >= 0)
            p.inputs[0] = k->pool[s->from];
        if (s->to >= 0)
            p.outputs[0] = k->pool[s->to];
        return trp_probe(k->probe, &p, &s->c);
    }
}

static step random_step(bool crash)
{
    ref_rng *rng = h_rng();
    step s = {.kind = crash ? STEP_CRASH : (step_kind)ref_rng_below(rng, STEP_CRASH),
              .from = (int)ref_rng_below(rng, POOL),
              .to = (int)ref_rng_below(rng, POOL),
              .cells = CELLS,
              .value = (float)(1 + ref_rng_below(rng, 1000))};
    bool part = ref_rng_below(rng, 3) == 0;
    if (s.kind == STEP_COPY && s.to == s.from)
        s.to = (s.from + 1) % POOL;
    if (s.kind == STEP_MOVE) {
        s.to = s.from;
        s.cells = 1 + (uint32_t)ref_rng_below(rng, CELLS / 2);
        s.to_cell = CELLS - s.cells;
    } else if (part && s.kind <= STEP_READ && s.kind != STEP_MULTIPLY && s.kind != STEP_ADD) {
        s.cells = 1 + (uint32_t)ref_rng_below(rng, CELLS - 1);
        s.to_cell = (uint32_t)ref_rng_below(rng, CELLS - s.cells + 1);
        s.from_cell = (uint32_t)ref_rng_below(rng, CELLS - s.cells + 1);
    }
    if (s.kind == STEP_FAIL && part) /* fewer, or little else would run */
        s.kind = STEP_TOUCH;
    if (s.kind == STEP_FILL || s.kind == STEP_MULTIPLY || s.kind == STEP_UPLOAD ||
        s.kind == STEP_FAIL || s.kind == STEP_CRASH)
        s.from = -1;
    if (s.kind == STEP_READ || s.kind == STEP_SPIN)
        s.to = -1;
    if (s.kind == STEP_TOUCH || s.kind == STEP_ADD)
        s.from = s.to;
    if (s.kind == STEP_UPLOAD || s.kind == STEP_READ) {
        s.memory = h_malloc(SQUARE_BYTES);
        for (uint32_t i = 0; i < SQUARE_BYTES / 4; i++)
            s.memory[i] = s.kind == STEP_UPLOAD ? s.value : -7;
    }
    return s;
}

static void check_stripes(int number, const float *got, const cell *want, uint32_t cells)
{
    for (uint32_t i = 0; i < cells * STRIPE / 4; i++) {
        float value = want[i / (STRIPE / 4)].value;
        if (got[i] != value)
            h_fail(__FILE__, __LINE__, "%s %d: element %u is %g, the model has %g",
                   number < STEPS ? "read of step" : "buffer", number % STEPS, i, (double)got[i],
                   (double)value);
    }
}

/* What a request that succeeded has done. */
static void apply(chain *k, int number)
{
    step *s = &k->step[number];
    content *to = s->to >= 0 ? &k->model[s->to] : NULL;
    content *from = s->from >= 0 ? &k->model[s->from] : NULL;
    cell moved[CELLS];
    for (uint32_t i = 0; from && i < s->cells; i++) {
        moved[i] = from->cell[s->from_cell + i];
        if (moved[i].unknown || moved[i].failed)
            h_fail(__FILE__, __LINE__, "step %d (kind %d) has read what is %s", number,
                   (int)s->kind, moved[i].unknown ? "lost" : "poisoned");
    }
    if (s->kind == STEP_READ)
        check_stripes(number, s->memory, moved, s->cells);
    if (!to || s->kind == STEP_TOUCH)
        return;
    for (uint32_t i = 0; i < s->cells; i++) {
        cell *x = &to->cell[s->to_cell + i];
        if (s->kind == STEP_ADD)
            x->value += s->value;
        else
            *x =
                s->kind == STEP_COPY || s->kind == STEP_MOVE ? moved[i] : (cell){.value = s->value};
    }
}

static void spoil(chain *k, const step *s, bool unknown)
{
    for (uint32_t i = 0; s->to >= 0 && i < s->cells; i++) {
        cell *x = &k->model[s->to].cell[s->to_cell + i];
        x->unknown = x->unknown || unknown;
        x->failed = x->failed || !unknown;
    }
}

static bool input_is_bad(const chain *k, const step *s)
{
    for (uint32_t i = 0; s->from >= 0 && i < s->cells; i++) {
        const cell *x = &k->model[s->from].cell[s->from_cell + i];
        if (x->unknown || x->failed)
            return true;
    }
    return false;
}

static void play_model(chain *k, bool one_death)
{
    for (int i = 0; i < STEPS; i++) {
        step *s = &k->step[i];
        if ((s->kind == STEP_CRASH || s->kind == STEP_FAIL) && s->status == TRP_OK)
            h_fail(__FILE__, __LINE__, "step %d crashes or fails, and ended well", i);
        if (s->status == TRP_OK) {
            apply(k, i);
        } else if (s->status == TRP_E_FAULT) {
            if (one_death && !runs_once_only(s->kind))
                h_fail(__FILE__, __LINE__, "step %d (kind %d) could have run again", i,
                       (int)s->kind);
            spoil(k, s, true);
        } else if (s->status == TRP_E_CANCELLED || s->status == TRP_E_LIBRARY) {
            if (s->status == TRP_E_LIBRARY ? s->kind != STEP_FAIL : !s->cancelled)
                h_fail(__FILE__, __LINE__, "step %d (kind %d) ended with %s", i, (int)s->kind,
                       trp_status_name(s->status));
            spoil(k, s, false);
        } else {
            if ((s->status != TRP_E_LOST && s->status != TRP_E_DEPENDENCY) || !input_is_bad(k, s))
                h_fail(__FILE__, __LINE__, "step %d (kind %d) ended with %s, input %d was good", i,
                       (int)s->kind, trp_status_name(s->status), s->from);
            if (s->sent)
                spoil(k, s, false);
        }
    }
}

/* Stripe by stripe: all failures were told, so what no request has half-written is there. */
static void check_pool(chain *k)
{
    float *got = h_malloc(STRIPE);
    for (int i = 0; i < POOL; i++) {
        bool lost = false;
        for (uint32_t n = 0; n < CELLS; n++) {
            const cell *x = &k->model[i].cell[n];
            trp_completion c = {0};
            trp_status status =
                trp_read(k->w.device, k->pool[i], (uint64_t)n * STRIPE, got, STRIPE, &c);
            if (status == TRP_OK)
                status = h_await_any(c);
            if (status == TRP_E_LOST) {
                lost = true;
                if (!x->unknown && !x->failed)
                    h_fail(__FILE__, __LINE__, "stripe %u of buffer %d is lost for no reason", n,
                           i);
                continue;
            }
            H_OK(status);
            if (x->unknown)
                h_fail(__FILE__, __LINE__, "stripe %u of buffer %d was half-written", n, i);
            check_stripes(STEPS + i, got, x, 1);
        }
        H_EQUAL(h_buffer_info(k->w.device, k->pool[i]).lost, lost);
    }
    free(got);
}

typedef struct killer {
    trp_device *device;
    int64_t after_ns[2];
    int kills;
} killer;

static void *kill_later(void *argument)
{
    killer *k = argument;
    for (int i = 0; i < k->kills; i++) {
        h_sleep(k->after_ns[i]);
        kill_worker(k->device);
    }
    return NULL;
}

static void chain_round(chain *k, int round)
{
    ref_rng *rng = h_rng();
    trp_device *d = k->w.device;
    killer killing = {.device = d, .kills = round % 4 == 0 ? 2 : round % 4 == 1 ? 0 : 1};
    int crash = round % 4 == 1 || round % 8 == 2 ? (int)ref_rng_below(rng, STEPS) : -1;
    int64_t span = h_is_gpu() ? 20000 : H_SANITIZED ? 40000 : 8000;
    for (int i = 0; i < 2; i++)
        killing.after_ns[i] = (int64_t)ref_rng_below(rng, (size_t)span) * 1000;
    for (int i = 0; i < POOL; i++) {
        h_fill(d, k->pool[i], bits_of((float)i));
        k->model[i] = (content){0};
        for (int c = 0; c < CELLS; c++)
            k->model[i].cell[c].value = (float)i;
    }
    h_fill(d, k->ones, bits_of(1));
    for (int i = 0; i < STEPS; i++)
        k->step[i] = random_step(i == crash);
    uint32_t restarts = h_info(d).restarts;
    h_thread *thread = h_start(kill_later, &killing);
    for (int i = 0; i < STEPS; i++) {
        step *s = &k->step[i];
        s->status = send_step(k, s);
        s->sent = s->status == TRP_OK;
        if (!s->sent && s->status != TRP_E_LOST && s->status != TRP_E_DEPENDENCY)
            H_OK(s->status);
        step *other = &k->step[ref_rng_below(rng, (size_t)i + 1)];
        if (other->sent && ref_rng_below(rng, 16) == 0) {
            H_OK(trp_cancel(other->c.future));
            other->cancelled = true;
        }
    }
    for (int i = 0; i < STEPS; i++) {
        if (k->step[i].sent)
            k->step[i].status = h_await_any(k->step[i].c);
    }
    h_join(thread);
    h_await_state(d, TRP_DEVICE_READY);
    H_OK(trp_device_drain(d, H_LONG));
    play_model(k, crash < 0 && killing.kills == 1 && h_info(d).restarts <= restarts + 1);
    check_pool(k);
    for (int i = 0; i < STEPS; i++)
        free(k->step[i].memory);
}

static void chains(void)
{
    chain *k = h_malloc(sizeof *k);
    *k = (chain){.w = h_open(NULL)};
    trp_device *d = k->w.device;
    k->blas[0] = h_actor(d, "blas");
    k->blas[1] = h_actor(d, "blas");
    k->probe = h_actor(d, "probe");
    k->ones = h_buffer(d, SQUARE_BYTES);
    for (int i = 0; i < POOL; i++)
        k->pool[i] = h_buffer(d, SQUARE_BYTES);
    for (int round = 0; round < rounds(80, 16); round++)
        chain_round(k, round);
    printf("  %u workers died\n", h_info(d).restarts);
    h_close(&k->w);
    free(k);
}

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
    for (int round = 0; round < rounds(24, 10); round++) {
        trp_completion c[3 * LEN] = {{0}};
        uint32_t word = (uint32_t)round * 100;
        int sent = 0;
        h_fill(d, a, word);
        h_fill(d, b, 7);
        h_fill(d, mark, word + 1);
        killer killing = {.device = d, .kills = 1};
        killing.after_ns[0] = (int64_t)ref_rng_below(h_rng(), 12000) * 1000;
        h_thread *thread = h_start(kill_later, &killing);
        for (uint32_t i = 0; i < LEN; i++) {
            H_OK(trp_copy(d, a, 0, b, 0, bytes, &c[sent++]));    /* a -> b */
            H_OK(trp_copy(d, mark, 0, a, 0, bytes, &c[sent++])); /* a is something else */
            H_OK(trp_fill(d, mark, 0, bytes, word + i + 2, 4, &c[sent++]));
        }
        for (int i = 0; i < sent; i++)
            H_OK(h_await_any(c[i]));
        h_join(thread);
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
    for (int round = 0; round < rounds(12, 5); round++) {
        uintptr_t next[ACTORS] = {0};
        killer killing = {.device = w.device, .kills = 1};
        killing.after_ns[0] = (int64_t)ref_rng_below(h_rng(), 5000) * 1000;
        h_thread *thread = h_start(kill_later, &killing);
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
        h_join(thread);
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
    for (int round = 0; round < rounds(8, 4); round++) {
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
        kill_worker(d);
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
    for (int round = 0; round < rounds(10, 4); round++) {
        static trp_completion c[COUNT];
        static bool sent[COUNT], seen[COUNT];
        size_t queued = 0, failed = 0;
        for (int i = 0; i < ACTORS; i++)
            h_fill(w.device, own[i], 3);
        uint64_t failed_before = h_info(w.device).requests_failed;
        killer killing = {.device = w.device, .kills = 2};
        for (int i = 0; i < 2; i++)
            killing.after_ns[i] = (int64_t)ref_rng_below(h_rng(), 8000) * 1000;
        h_thread *thread = h_start(kill_later, &killing);
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
        h_join(thread);
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
                     H_CASE(at_most_twice), H_CASE(chains), H_CASE(there_and_back),
                     H_CASE(order_of_each_actor), H_CASE(large_copies), H_CASE(exactly_once))

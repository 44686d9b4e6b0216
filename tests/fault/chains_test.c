/* A chain of work that is killed at random times, against a model of what it leaves: what ran again
 * did so in the order sent and on the right inputs. SPDX-License-Identifier: Apache-2.0 */
#include "support/faults/killer.h"

TROUPE_TEST("long", "many workers");
TROUPE_TEST_FAKE_GPU("no sanitizer", "FAKE_CUDA_REPORT_MS=1");
TROUPE_TEST_FAKE_GPU("no sanitizer", "as fake-late-words", "FAKE_CUDA_WRITE_US=300");

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
    bool before;  /* it may have been written all the same, before a worker died */
    bool any;     /* read from what has been lost since: what it was is not known */
    bool perhaps; /* the same of what was changed in place: it may be lost or not */
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
    bool many_deaths; /* in this round */
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
        const cell *x = &want[i / (STRIPE / 4)];
        if (got[i] != x->value && !x->any)
            h_fail(__FILE__, __LINE__, "%s %d: element %u is %g, the model has %g",
                   number < STEPS ? "read of step" : "buffer", number % STEPS, i, (double)got[i],
                   (double)x->value);
    }
}

/* What a request that succeeded has done. */
static void apply(chain *k, int number)
{
    step *s = &k->step[number];
    content *to = s->to >= 0 ? &k->model[s->to] : NULL;
    content *from = s->from >= 0 ? &k->model[s->from] : NULL;
    cell moved[CELLS] = {0};
    for (uint32_t i = 0; from && i < s->cells; i++) {
        moved[i] = from->cell[s->from_cell + i];
        if (moved[i].before || moved[i].perhaps)
            moved[i] = (cell){.any = true, .perhaps = s->to == s->from};
        if (moved[i].unknown || moved[i].failed)
            h_fail(__FILE__, __LINE__, "step %d (kind %d) has read what is %s", number,
                   (int)s->kind, moved[i].unknown ? "lost" : "poisoned");
    }
    if (s->kind == STEP_READ)
        check_stripes(number, s->memory, moved, s->cells);
    for (uint32_t i = 0; to && i < s->cells; i++) {
        cell *x = &to->cell[s->to_cell + i];
        if (s->kind == STEP_COPY || s->kind == STEP_MOVE || moved[i].perhaps)
            *x = moved[i];
        else if (s->kind == STEP_ADD)
            x->value += s->value;
        else if (s->kind != STEP_TOUCH)
            *x = (cell){.value = s->value};
    }
}

/* Whatever was there before does not matter: a step either writes its output whole, or reads it,
 * and `before` is of what it has read. */
static void spoil(chain *k, const step *s, bool unknown, bool before)
{
    for (uint32_t i = 0; s->to >= 0 && i < s->cells; i++) {
        cell *x = &k->model[s->to].cell[s->to_cell + i];
        x->before = before;
        x->unknown = x->unknown || unknown;
        x->failed = x->failed || !unknown;
    }
}

/* `before`: whether all that is bad of it may have been written before. */
static bool input_is_bad(const chain *k, const step *s, bool *before)
{
    bool bad = false;
    *before = true;
    for (uint32_t i = 0; s->from >= 0 && i < s->cells; i++) {
        const cell *x = &k->model[s->from].cell[s->from_cell + i];
        bad = bad || x->unknown || x->failed || x->perhaps;
        *before = *before && (x->before || !(x->unknown || x->failed));
    }
    return bad;
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
            /* A request that was done fails if its worker died before it could say so and it can't
             * run again, or if a second worker dies. Others may have read its output whole. */
            spoil(k, s, true, runs_once_only(s->kind) || k->many_deaths);
        } else if (s->status == TRP_E_CANCELLED || s->status == TRP_E_LIBRARY) {
            if (s->status == TRP_E_LIBRARY ? s->kind != STEP_FAIL : !s->cancelled)
                h_fail(__FILE__, __LINE__, "step %d (kind %d) ended with %s", i, (int)s->kind,
                       trp_status_name(s->status));
            spoil(k, s, false, false);
        } else {
            bool before = false;
            if ((s->status != TRP_E_LOST && s->status != TRP_E_DEPENDENCY) ||
                !input_is_bad(k, s, &before))
                h_fail(__FILE__, __LINE__, "step %d (kind %d) ended with %s, input %d was good", i,
                       (int)s->kind, trp_status_name(s->status), s->from);
            if (s->sent)
                spoil(k, s, false, before);
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
                if (!x->unknown && !x->failed && !x->perhaps)
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

static void chain_round(chain *k, int round)
{
    ref_rng *rng = h_rng();
    trp_device *d = k->w.device;
    const int kills = round % 4 == 0 ? 2 : round % 4 == 1 ? 0 : 1;
    h_killer killer;
    int crash = round % 4 == 1 || round % 8 == 2 ? (int)ref_rng_below(rng, STEPS) : -1;
    int64_t span = (h_is_gpu() ? 20 : H_SANITIZED ? 40 : 8) * H_MS;
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
    h_killer_start(&killer, d, kills, span);
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
    h_killer_end(&killer);
    H_OK(trp_device_drain(d, H_LONG));
    k->many_deaths = crash >= 0 || kills > 1; /* a culprit brings down two workers */
    play_model(k, crash < 0 && kills == 1 && h_info(d).restarts <= restarts + 1);
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
    for (int round = 0; round < h_rounds(80, 16); round++)
        chain_round(k, round);
    printf("  %u workers died\n", h_info(d).restarts);
    h_close(&k->w);
    free(k);
}

H_CASES_OF_PROCESSES(H_CASE(chains))

/* What becomes of requests that read what a failed request should have written. */
#include "support/gate.h"

enum { WORDS = 256, BYTES = WORDS * 4 };

typedef struct stage {
    h_world w;
    h_gate gate;
    trp_actor *probe;
    uint32_t word[WORDS];
} stage;

static stage set_up(void)
{
    stage s = {.w = h_open(NULL)};
    s.probe = h_actor(s.w.device, "probe");
    s.gate = h_gate_create(s.w.device, BYTES);
    return s;
}

/* A request that should write `b` and fails. */
static void send_failure(stage *s, trp_buffer b, trp_completion *completion)
{
    H_OK(trp_probe(s->probe,
                   &(trp_probe_request){.action = TRP_PROBE_LIBRARY_ERROR, .outputs = {b}},
                   completion));
}

/* Fails, and has ended, and nobody was told. */
static void fail_untold(stage *s, trp_buffer b)
{
    send_failure(s, b, NULL);
    H_OK(trp_device_drain(s->w.device, H_LONG));
}

/* How a request ended, be it refused at once or later. */
static trp_status end_of(trp_status sent, trp_completion c, trp_error *error)
{
    if (sent == TRP_OK)
        return h_await(c.future, error);
    *error = *trp_error_last();
    return sent;
}

static trp_status read_word(stage *s, trp_buffer b, uint32_t *word, trp_error *error)
{
    trp_completion c = {0};
    trp_status sent = trp_read(s->w.device, b, 0, s->word, BYTES, &c);
    trp_status status = end_of(sent, c, error);
    *word = s->word[0];
    return status;
}

static void reads(stage *s, trp_buffer b, uint32_t value)
{
    uint32_t word = 0;
    trp_error error;
    H_IS(read_word(s, b, &word, &error), TRP_OK);
    H_EQUAL(word, value);
}

static void is_poisoned(stage *s, trp_buffer b)
{
    uint32_t word = 0;
    trp_error error;
    H_IS(read_word(s, b, &word, &error), TRP_E_DEPENDENCY);
    H_CHECK(!h_buffer_info(s->w.device, b).lost);
}

/* The error names the request that failed. */
static void names_it(void)
{
    stage s = set_up();
    trp_buffer b = h_filled(s.w.device, BYTES, 1);
    trp_completion c[2] = {{0}};
    trp_error failed, later;
    char number[32];
    send_failure(&s, b, &c[0]);
    trp_status sent = trp_read(s.w.device, b, 0, s.word, BYTES, &c[1]);
    trp_status status = end_of(sent, c[1], &later);
    H_IS(status, TRP_E_DEPENDENCY);
    H_EQUAL(later.fault, TRP_FAULT_NONE);
    H_EQUAL(later.incarnation, 0);
    H_IS(h_await(c[0].future, &failed), TRP_E_LIBRARY);
    snprintf(number, sizeof number, "request %llu ", (unsigned long long)failed.request);
    h_check_says(__FILE__, __LINE__, later.message, number);
    /* Known now: it is refused before it is sent. */
    fail_untold(&s, b);
    H_IS(trp_read(s.w.device, b, 0, s.word, BYTES, NULL), TRP_E_DEPENDENCY);
    H_SAYS("buffer");
    H_SAYS("await");
    h_close(&s.w);
}

/* Rounds that need the gate to be closed while they send: again, with a longer spin, if the machine
 * was too slow. */
static void with_gate(bool (*round)(stage *s))
{
    stage s = set_up();
    int64_t ns = 100 * H_MS;
    for (bool done = false; !done; ns *= 3) {
        h_gate_close(&s.gate, ns);
        done = round(&s);
        h_gate_open(&s.gate);
    }
    h_close(&s.w);
}

/* Fails behind the gate. */
static void send_late_failure(stage *s, trp_buffer b, trp_completion *completion)
{
    H_OK(trp_probe(s->probe,
                   &(trp_probe_request){.action = TRP_PROBE_LIBRARY_ERROR,
                                        .inputs = {s->gate.buffer},
                                        .outputs = {b}},
                   completion));
}

/* Through several requests and actors, sent before anything of it can be known. */
static bool transitive_round(stage *s)
{
    trp_device *d = s->w.device;
    trp_actor *blas = h_actor(d, "blas");
    trp_buffer a = h_filled(d, BYTES, 1), b = h_filled(d, BYTES, 2), c = h_filled(d, BYTES, 3),
               other = h_filled(d, BYTES, 4);
    enum { FAILS, COPIES, MULTIPLIES, TOUCHES, READS, READS_OTHER, COUNT };
    trp_completion x[COUNT] = {{0}};
    uint32_t got[2][WORDS];
    memset(got, 0x7e, sizeof got);
    send_late_failure(s, a, &x[FAILS]);
    bool sent =
        trp_copy(d, a, 0, b, 0, BYTES, &x[COPIES]) == TRP_OK &&
        trp_gemm(blas,
                 &(trp_gemm_request){
                     .type = TRP_F32, .m = 16, .n = 16, .k = 16, .a = b, .b = other, .c = c},
                 &x[MULTIPLIES]) == TRP_OK &&
        trp_probe(s->gate.blocker, &(trp_probe_request){.action = TRP_PROBE_NOP, .outputs = {c}},
                  &x[TOUCHES]) == TRP_OK &&
        trp_read(d, c, 0, got[0], BYTES, &x[READS]) == TRP_OK &&
        trp_read(d, other, 0, got[1], BYTES, &x[READS_OTHER]) == TRP_OK && h_gate_closed(&s->gate);
    if (!sent) {
        H_OK(trp_device_drain(d, H_LONG)); /* for the memory that is read to */
        return false;
    }
    H_IS(h_await_any(x[READS]), TRP_E_DEPENDENCY);
    H_EQUAL(got[0][WORDS / 2], 0x7e7e7e7e); /* nothing was copied */
    H_IS(h_await_any(x[TOUCHES]), TRP_E_DEPENDENCY);
    H_IS(h_await_any(x[MULTIPLIES]), TRP_E_DEPENDENCY);
    is_poisoned(s, a); /* nobody has awaited the first two yet */
    is_poisoned(s, b);
    H_IS(h_await_any(x[COPIES]), TRP_E_DEPENDENCY);
    H_IS(h_await_any(x[FAILS]), TRP_E_LIBRARY);
    H_OK(h_await_any(x[READS_OTHER]));
    H_EQUAL(got[1][3], 4);
    reads(s, a, 1); /* all were told: they hold what they held */
    reads(s, b, 2);
    reads(s, c, 3);
    return true;
}

static void transitive(void)
{
    with_gate(transitive_round);
}

/* What ends it without telling: what is read is written anew, in any number of parts. */
static void written_anew(void)
{
    stage s = set_up();
    trp_device *d = s.w.device;
    trp_buffer b = h_filled(d, BYTES, 1), good = h_filled(d, BYTES, 9);
    uint32_t word[2] = {0};
    trp_completion c = {0};
    fail_untold(&s, b);
    is_poisoned(&s, b);
    H_OK(trp_fill(d, b, 8, BYTES - 12, 2, 4, NULL));
    is_poisoned(&s, b);
    H_OK(trp_read(d, b, BYTES - 12, word, 8, &c)); /* what was written */
    H_OK(h_await_any(c));
    H_EQUAL(word[1], 2);
    H_IS(trp_read(d, b, BYTES - 8, word, 8, NULL), TRP_E_DEPENDENCY);
    H_IS(trp_read(d, b, 4, word, 8, NULL), TRP_E_DEPENDENCY);
    H_OK(trp_read(d, b, BYTES - 4, word, 0, &c)); /* nothing of it */
    H_OK(h_await_any(c));
    H_OK(trp_fill(d, b, BYTES - 4, 4, 2, 4, NULL));
    H_OK(trp_device_drain(d, H_LONG));
    is_poisoned(&s, b);
    H_OK(trp_fill(d, b, 0, 8, 3, 4, NULL));
    reads(&s, b, 3);
    /* A write of all that fails itself heals nothing. */
    fail_untold(&s, good);
    fail_untold(&s, b);
    H_IS(trp_copy(d, good, 0, b, 0, BYTES, NULL), TRP_E_DEPENDENCY);
    is_poisoned(&s, b);
    h_close(&s.w);
}

/* The same, all sent before the first of them runs. */
static bool anew_round(stage *s)
{
    trp_device *d = s->w.device;
    trp_buffer b = h_filled(d, BYTES, 1), good = h_filled(d, BYTES, 9);
    trp_completion c[5] = {{0}};
    uint32_t got[3][WORDS];
    send_late_failure(s, b, NULL);
    bool sent = trp_read(d, b, 0, got[0], BYTES, &c[0]) == TRP_OK &&
                trp_fill(d, b, 0, BYTES / 2, 3, 4, NULL) == TRP_OK &&
                trp_read(d, b, 0, got[1], BYTES, &c[1]) == TRP_OK &&
                trp_copy(d, good, 0, b, BYTES / 2, BYTES / 2, &c[2]) == TRP_OK &&
                trp_read(d, b, 0, got[2], BYTES, &c[3]) == TRP_OK && h_gate_closed(&s->gate);
    if (!sent) {
        H_OK(trp_device_drain(d, H_LONG)); /* for the memory that is read to */
        return false;
    }
    H_IS(h_await_any(c[0]), TRP_E_DEPENDENCY);
    H_IS(h_await_any(c[1]), TRP_E_DEPENDENCY);
    H_OK(h_await_any(c[2]));
    H_OK(h_await_any(c[3]));
    H_EQUAL(got[2][0], 3);
    H_EQUAL(got[2][WORDS / 2], 9);
    return true;
}

static void written_anew_in_the_queue(void)
{
    with_gate(anew_round);
}

/* What acknowledges the failure, and what does not. */
static void acknowledged(void)
{
    stage s = set_up();
    trp_device *d = s.w.device;
    trp_buffer b = h_filled(d, BYTES, 1);
    trp_completion c = {0};
    trp_event event;
    send_failure(&s, b, &c);
    H_IS(h_await_any(c), TRP_E_LIBRARY);
    reads(&s, b, 1);

    trp_queue *queue;
    H_OK(trp_queue_create(s.w.system, &queue));
    send_failure(&s, b, &(trp_completion){.queue = queue});
    H_OK(trp_device_drain(d, H_LONG));
    is_poisoned(&s, b);
    H_OK(trp_queue_next(queue, H_LONG, &event));
    H_EQUAL(event.status, TRP_E_LIBRARY);
    reads(&s, b, 1);
    H_OK(trp_queue_destroy(queue));

    c = (trp_completion){0};
    send_failure(&s, b, &c);
    H_OK(trp_device_drain(d, H_LONG));
    is_poisoned(&s, b);
    trp_future_drop(c.future); /* after its end */
    is_poisoned(&s, b);
    H_OK(trp_fill(d, b, 0, BYTES, 2, 4, NULL));
    reads(&s, b, 2);

    c = (trp_completion){0};
    h_gate_close(&s.gate, 50 * H_MS);
    send_late_failure(&s, b, &c);
    trp_future_drop(c.future); /* before its end, as a rule */
    is_poisoned(&s, b);
    H_OK(h_await_any(s.gate.hold));

    /* Of several failures the last one sent decides, in whatever order they are told. */
    trp_completion two[2] = {{0}};
    for (int i = 0; i < 2; i++)
        send_failure(&s, b, &two[i]);
    H_IS(h_await_any(two[0]), TRP_E_LIBRARY);
    is_poisoned(&s, b);
    H_IS(h_await_any(two[1]), TRP_E_LIBRARY);
    reads(&s, b, 2);
    memset(two, 0, sizeof two);
    for (int i = 0; i < 2; i++)
        send_failure(&s, b, &two[i]);
    H_IS(h_await_any(two[1]), TRP_E_LIBRARY);
    reads(&s, b, 2);
    H_IS(h_await_any(two[0]), TRP_E_LIBRARY);
    reads(&s, b, 2);
    h_close(&s.w);
}

/* Who was told when decides, not when a request runs: both wait at the gate. */
static void before_and_after_telling(void)
{
    stage s = set_up();
    trp_device *d = s.w.device;
    trp_buffer b = h_filled(d, BYTES, 1), x = h_filled(d, BYTES, 2), y = h_filled(d, BYTES, 3);
    trp_completion c[3] = {{0}};
    H_OK(trp_device_drain(d, H_LONG));
    for (int64_t ns = 200 * H_MS;; ns *= 2) {
        memset(c, 0, sizeof c);
        h_gate_close(&s.gate, ns);
        send_failure(&s, b, &c[0]);
        /* May be refused at once, if the failure is known already; then once more. */
        trp_status sent =
            trp_probe(s.probe,
                      &(trp_probe_request){
                          .action = TRP_PROBE_NOP, .inputs = {s.gate.buffer, b}, .outputs = {x}},
                      &c[1]);
        H_IS(h_await_any(c[0]), TRP_E_LIBRARY);
        bool held = h_gate_closed(&s.gate);
        H_OK(trp_probe(s.probe,
                       &(trp_probe_request){
                           .action = TRP_PROBE_NOP, .inputs = {s.gate.buffer, b}, .outputs = {y}},
                       &c[2]));
        if (sent == TRP_OK)
            H_IS(h_await_any(c[1]), TRP_E_DEPENDENCY);
        H_OK(h_await_any(c[2]));
        if (held)
            H_OK(h_await_any(s.gate.hold));
        if (sent == TRP_OK && held)
            break;
        H_CHECK(ns < 10 * H_SEC);
    }
    reads(&s, x, 2);
    reads(&s, y, 3);
    h_close(&s.w);
}

/* A new buffer in the place of a poisoned one. */
static void freed(void)
{
    stage s = set_up();
    trp_device *d = s.w.device;
    for (int i = 0; i < 200; i++) {
        trp_buffer b = h_buffer(d, BYTES);
        if (i % 3 == 0)
            send_failure(&s, b, NULL);
        else
            fail_untold(&s, b);
        H_OK(trp_buffer_free(d, b));
        if (i % 2 == 0)
            H_OK(trp_device_drain(d, H_LONG));
        trp_buffer fresh = h_buffer(d, BYTES);
        trp_completion c = {0};
        H_OK(trp_read(d, fresh, 0, s.word, BYTES, &c)); /* rubbish, but nobody's failure */
        H_OK(h_await_any(c));
        H_OK(trp_buffer_free(d, fresh));
    }
    h_close(&s.w);
}

/* ---- programs at random, against a model ---- */

enum { POOL = 5, STEPS = 120 };

typedef enum kind { FILL, COPY, SPIN, FAIL, READ, KINDS } kind;

typedef struct step {
    kind kind;
    int from, to; /* buffers, -1 for none */
    uint32_t at, words;
    uint32_t value;
    /* Of each word of `from`, when it was sent: the last step that failed and was told. */
    int accepted[WORDS];
    trp_status sent, status;
    bool cancelled, queued, dropped, ended;
    trp_completion c;
    uint32_t got[WORDS];
} step;

typedef struct game {
    stage s;
    trp_queue *queue;
    int in_queue;
    trp_buffer pool[POOL];
    step step[STEPS];
    int accepted[POOL][WORDS];
    uint32_t cancelled, dependent, refused, parts;
} game;

static step random_step(ref_rng *rng)
{
    step s = {.kind = (kind)ref_rng_below(rng, KINDS),
              .from = (int)ref_rng_below(rng, POOL),
              .to = (int)ref_rng_below(rng, POOL),
              .words = WORDS,
              .value = 1 + (uint32_t)ref_rng_below(rng, 1000000)};
    if (s.kind == FAIL && ref_rng_below(rng, 2))
        s.kind = COPY;
    if (s.kind == COPY && s.from == s.to)
        s.to = (s.to + 1) % POOL;
    if ((s.kind == FILL || s.kind == COPY) && ref_rng_below(rng, 3) == 0) {
        s.words = 1 + (uint32_t)ref_rng_below(rng, WORDS - 1);
        s.at = (uint32_t)ref_rng_below(rng, WORDS - s.words + 1);
    }
    if (s.kind == FILL || (s.kind == FAIL && ref_rng_below(rng, 2)))
        s.from = -1;
    if (s.kind == READ || s.kind == SPIN)
        s.to = -1;
    return s;
}

static trp_status send(game *g, step *s)
{
    trp_device *d = g->s.w.device;
    uint64_t at = s->at * UINT64_C(4), bytes = s->words * UINT64_C(4);
    trp_probe_request p = {.action = s->kind == FAIL ? TRP_PROBE_LIBRARY_ERROR : TRP_PROBE_SPIN,
                           .duration_ns = s->value % 200000};
    switch (s->kind) {
    case FILL:
        return trp_fill(d, g->pool[s->to], at, bytes, s->value, 4, &s->c);
    case COPY:
        return trp_copy(d, g->pool[s->from], at, g->pool[s->to], at, bytes, &s->c);
    case READ:
        return trp_read(d, g->pool[s->from], 0, s->got, BYTES, &s->c);
    default:
        if (s->from >= 0)
            p.inputs[0] = g->pool[s->from];
        if (s->to >= 0)
            p.outputs[0] = g->pool[s->to];
        return trp_probe(s->value % 2 ? g->s.probe : g->s.gate.blocker, &p, &s->c);
    }
}

/* A step's end was told. */
static void note_end(game *g, step *s, trp_status status)
{
    int number = (int)(s - g->step) + 1;
    s->status = status;
    s->ended = true;
    for (uint32_t k = s->at; status != TRP_OK && s->to >= 0 && k < s->at + s->words; k++) {
        if (g->accepted[s->to][k] < number)
            g->accepted[s->to][k] = number;
    }
}

static void take_event(game *g)
{
    trp_event event;
    H_OK(trp_queue_next(g->queue, H_LONG, &event));
    note_end(g, event.user_data, event.status);
    g->in_queue--;
}

/* Something may happen to an earlier step. */
static void meddle(game *g, step *s)
{
    ref_rng *rng = h_rng();
    size_t what = ref_rng_below(rng, 12);
    bool open = s->sent == TRP_OK && !s->ended && !s->queued && !s->dropped;
    if (what == 0 && open) {
        H_OK(trp_cancel(s->c.future));
        s->cancelled = true;
    } else if (what == 1 && open && !s->cancelled && s->kind != READ) {
        trp_future_drop(s->c.future);
        s->dropped = true;
    } else if (what < 4 && open) {
        note_end(g, s, h_await_any(s->c));
    } else if (what < 5 && g->in_queue > 0) {
        take_event(g);
    }
}

/* Whether some word that a step reads should have been written by a step of whose failure its
 * sender did not know. */
static bool is_dependent(const step *s, int poison[POOL][WORDS])
{
    for (uint32_t k = s->at; s->from >= 0 && k < s->at + s->words; k++) {
        if (poison[s->from][k] > s->accepted[k])
            return true;
    }
    return false;
}

static void play_one(game *g, int i, int poison[POOL][WORDS], uint32_t cell[POOL][WORDS])
{
    step *s = &g->step[i];
    bool dependent = is_dependent(s, poison);
    trp_status want = dependent ? TRP_E_DEPENDENCY : s->kind == FAIL ? TRP_E_LIBRARY : TRP_OK;
    trp_status got = s->sent != TRP_OK ? s->sent : s->dropped ? want : s->status;
    if (got != want && !(got == TRP_E_CANCELLED && s->cancelled))
        h_fail(__FILE__, __LINE__, "step %d (kind %d, %d to %d) ended with %s, the model has %s", i,
               (int)s->kind, s->from, s->to, trp_status_name(got), trp_status_name(want));
    g->cancelled += got == TRP_E_CANCELLED;
    g->dependent += got == TRP_E_DEPENDENCY;
    g->refused += s->sent != TRP_OK;
    if (s->kind == READ && got == TRP_OK)
        H_SAME(s->got, cell[s->from], BYTES);
    for (int k = 0; s->kind == READ && got != TRP_OK && k < WORDS; k++)
        H_EQUAL(s->got[k], 0);
    if (s->to < 0 || s->sent != TRP_OK)
        return;
    g->parts += got != TRP_OK && s->words < WORDS;
    for (uint32_t k = s->at; k < s->at + s->words; k++) {
        poison[s->to][k] = got != TRP_OK ? i + 1 : 0;
        if (got == TRP_OK)
            cell[s->to][k] = s->kind == COPY ? cell[s->from][k] : s->value;
    }
}

static void round_of(game *g)
{
    ref_rng *rng = h_rng();
    uint32_t cell[POOL][WORDS];
    int poison[POOL][WORDS] = {{0}};
    memset(g->accepted, 0, sizeof g->accepted);
    for (int i = 0; i < POOL; i++) {
        H_OK(trp_fill(g->s.w.device, g->pool[i], 0, BYTES, (uint32_t)i, 4, NULL));
        for (int k = 0; k < WORDS; k++)
            cell[i][k] = (uint32_t)i;
    }
    for (int i = 0; i < STEPS; i++) {
        step *s = &g->step[i];
        *s = random_step(rng);
        if (s->from >= 0)
            memcpy(s->accepted, g->accepted[s->from], sizeof s->accepted);
        s->queued = ref_rng_below(rng, 4) == 0;
        if (s->queued)
            s->c = (trp_completion){.queue = g->queue, .user_data = s};
        s->sent = send(g, s);
        g->in_queue += s->queued && s->sent == TRP_OK;
        if (s->sent != TRP_E_DEPENDENCY)
            H_OK(s->sent);
        meddle(g, &g->step[ref_rng_below(rng, (size_t)i + 1)]);
    }
    while (g->in_queue > 0)
        take_event(g);
    for (int i = 0; i < STEPS; i++) {
        step *s = &g->step[i];
        if (s->sent == TRP_OK && !s->ended && !s->dropped)
            note_end(g, s, h_await_any(s->c));
    }
    for (int i = 0; i < STEPS; i++)
        play_one(g, i, poison, cell);
    for (int i = 0; i < POOL; i++) {
        uint32_t word[WORDS];
        trp_completion c = {0};
        trp_error error;
        step all = {.from = i, .words = WORDS};
        memcpy(all.accepted, g->accepted[i], sizeof all.accepted);
        trp_status sent = trp_read(g->s.w.device, g->pool[i], 0, word, BYTES, &c);
        bool dependent = is_dependent(&all, poison);
        H_IS(end_of(sent, c, &error), dependent ? TRP_E_DEPENDENCY : TRP_OK);
        if (!dependent)
            H_SAME(word, cell[i], BYTES);
    }
}

static void random_programs(void)
{
    game *g = h_malloc(sizeof *g);
    memset(g, 0, sizeof *g);
    g->s = set_up();
    H_OK(trp_queue_create(g->s.w.system, &g->queue));
    for (int i = 0; i < POOL; i++)
        g->pool[i] = h_buffer(g->s.w.device, BYTES);
    for (int round = 0; round < (H_SANITIZED ? 30 : 100); round++)
        round_of(g);
    printf("  %u cancelled, %u dependent, of which %u refused at once; %u failures in parts\n",
           g->cancelled, g->dependent, g->refused, g->parts);
    H_CHECK(g->dependent > g->refused);
    H_OK(trp_queue_destroy(g->queue));
    h_close(&g->s.w);
    free(g);
}

H_CASES(H_CASE(names_it), H_CASE(transitive), H_CASE(written_anew),
        H_CASE(written_anew_in_the_queue), H_CASE(acknowledged), H_CASE(before_and_after_telling),
        H_CASE(freed), H_CASE(random_programs))

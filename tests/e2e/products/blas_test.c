/* The blas operations of levels 1 to 3 on random problems, against their definitions in float64:
 * every option, layouts with gaps, increments, operands apart or in one buffer, scalars by value or
 * on the device. Whatever an operation may not look at is NaN, and whatever it may not write must
 * be the same afterwards. Bad input is in blas_input_test.c. */
#include "support/problems/blas_problem.h"

#include <math.h>
#include <signal.h>

TROUPE_TEST("long", "one isolation", "no tsan");
TROUPE_TEST_FAKE_GPU("no sanitizer");

static h_world world;
static trp_actor *blas;
/* ---- the operations ---- */

#define OP(level, name, NAME) #name, TRP_OP_##NAME, level
#define OP1(name, NAME)       OP(1, name, NAME), trp_##name, NULL, NULL
#define OP2(name, NAME)       OP(2, name, NAME), NULL, trp_##name, NULL
#define OP3(name, NAME)       OP(3, name, NAME), NULL, NULL, trp_##name

static const operation operations[] = {
#define CASE(level, name, NAME, options, result, ...)                                              \
    {OP##level(name, NAME), options, {__VA_ARGS__}, result},
#include "support/blas_routines.def"
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static const trp_dtype types[] = {TRP_F32, TRP_F64, TRP_C64, TRP_C128, TRP_F16, TRP_BF16};
_Static_assert(sizeof types / sizeof *types == BLAS_TYPES, "all types");
/* ---- running it ---- */

/* Whether it must, after its worker was killed: it reads nothing from where it writes. */
static bool runs_again(const problem *p)
{
    if (p->interleaved)
        return false;
    for (int i = 0; i < PLACES; i++) {
        const int use = p->operands[i].use;
        if (use == INOUT || (use == BY_BETA && (p->on_device || blas_beta_of(p) != 0)))
            return false;
    }
    return true;
}

static bool send_and_wait(problem *p)
{
    trp_completion done = {0};
    trp_status status = blas_send_problem(blas, p, &done);
    if (status != TRP_OK)
        return blas_wrong(p, "was not taken: %s: %s", trp_status_name(status), trp_error_message());
    if (p->killed)
        kill((pid_t)h_info(world.device).worker_pid, SIGKILL);
    status = h_await_any(done);
    p->ended = p->killed && status == TRP_E_FAULT && !runs_again(p);
    if (!p->ended && status != TRP_OK)
        return blas_wrong(p, "failed: %s: %s", trp_status_name(status), trp_error_message());
    return true;
}

static bool solve(problem *p, tally *t)
{
    for (ref_place place = REF_A; place <= REF_Y; place++)
        blas_lay_out(p, place);
    blas_lay_out_rest(p);
    if (p->interleaved) { /* one way through memory for both */
        int64_t length = p->operands[REF_X].extent;
        p->operands[REF_Y] = p->operands[REF_X];
        p->operands[REF_Y].use = p->op->rules[REF_Y].use;
        p->interleaved = length > 0;
    }
    blas_place_all(p);
    blas_fill_all(p);
    for (int i = 0; i < PLACES; i++) {
        block *b = &p->blocks[i];
        if (!b->before)
            continue;
        b->buffer = h_buffer(world.device, b->bytes);
        h_write(world.device, b->buffer, 0, b->before, b->bytes);
    }
    bool right = send_and_wait(p);
    for (int i = 0; i < PLACES; i++) {
        block *b = &p->blocks[i];
        if (b->before && right && !p->ended)
            h_read(world.device, b->buffer, 0, b->after, b->bytes);
        if (b->before)
            H_OK(trp_buffer_free(world.device, b->buffer));
    }
    if (right && !p->ended)
        right = blas_check_outputs(p, t) && blas_check_rest(p);
    for (int i = 0; i < PLACES; i++) {
        free(p->blocks[i].before);
        free(p->blocks[i].after);
        free(p->blocks[i].writable);
    }
    t->problems++;
    return right;
}

/* ---- random problems ---- */

/* At level 2, whose reference is quick enough, some hundreds too. */
static int64_t random_count(const problem *p)
{
    size_t i = blas_below(16);
    if (p->op->level == 2 && blas_below(24) == 0)
        return 100 + (int64_t)blas_below(200);
    return i < 2 ? (int64_t)i : 1 + (int64_t)blas_below(40);
}

static trp_scalar random_scalar(const problem *p, bool real)
{
    double re = blas_uniform() * 2, im = blas_uniform();
    switch (blas_below(5)) {
    case 0:
        return (trp_scalar){0};
    case 1:
        return trp_real(0);
    case 2:
        return trp_real(1);
    case 3:
        return trp_real(re);
    default:
        return ref_blas_complex(p->type) && !real ? trp_complex(re, im) : trp_real(re);
    }
}

static unsigned digit(unsigned *number, const operation *op, unsigned option, unsigned radix)
{
    if (!(op->options & option))
        return 0;
    unsigned d = *number % radix;
    *number /= radix;
    return d;
}

static bool allowed(const problem *p)
{
    if (p->trans == TRP_T && blas_has(p, NOT_T))
        return false;
    return !(p->trans == TRP_C && blas_has(p, NOT_COMPLEX_C) && ref_blas_complex(p->type));
}

/* The options that have a number; false past the last. */
static bool options_of(problem *p, unsigned number)
{
    const operation *op = p->op;
    p->row_major = digit(&number, op, ORDER, 2);
    p->side = (trp_side)digit(&number, op, SIDE, 2);
    p->uplo = (trp_uplo)digit(&number, op, UPLO, 2);
    p->diag = (trp_diag)digit(&number, op, DIAG, 2);
    p->trans = (trp_transpose)digit(&number, op, TRANS, 3);
    p->trans_b = (trp_transpose)digit(&number, op, TRANS_B, 3);
    return number == 0;
}

static void randomise(problem *p)
{
    unsigned all = p->op->options;
    p->m = random_count(p);
    p->n = random_count(p);
    p->k = random_count(p);
    if (p->op->op == TRP_OP_ROTG || p->op->op == TRP_OP_ROTMG ||
        (p->op->level == 2 && p->op->rules[REF_A].rows != M))
        *(p->op->level == 1 ? &p->n : &p->m) -= 5; /* not looked at */
    if (p->op->rules[REF_A].shape == REF_BAND) {
        p->kl = (int64_t)blas_below(6);
        p->ku = (int64_t)blas_below(6);
    }
    if (all & BANDED)
        p->kl = (int64_t)blas_below(6);
    p->batch = all & BATCHES && blas_below(2) ? 1 + (int64_t)blas_below(4) : 1;
    p->gaps = blas_below(4) > 0;
    p->one_block = blas_below(2);
    p->in_place = all & IN_PLACE && blas_below(2);
    p->same_place = p->in_place && blas_below(2);
    p->interleaved = p->op->level == 1 && p->op->rules[REF_X].rows == N &&
                     p->op->rules[REF_Y].use != UNUSED && blas_below(4) == 0;
    p->on_device = all & MODIFIED || (all & (ALPHA | ROTATION) && blas_below(3) == 0);
    p->modified[0] = (double)blas_below(4) - 2;
    for (int i = 1; i < 5; i++)
        p->modified[i] = creal(ref_blas_rounded(p->type, blas_uniform()));
    if (all & ALPHA)
        p->alpha = random_scalar(p, all & REAL_ALPHA);
    if (all & BETA)
        p->beta = random_scalar(p, all & REAL_BETA);
    if (all & ROTATION) {
        p->c = trp_real(blas_uniform());
        p->s = ref_blas_complex(p->type) ? trp_complex(blas_uniform(), blas_uniform())
                                         : trp_real(blas_uniform());
    }
}

/* One problem of random sizes for every combination of options. */
static void check_combinations(const operation *op, int type, tally *t)
{
    problem options = {.op = op, .type = types[type]};
    for (unsigned number = 0; !t->failed && options_of(&options, number); number++) {
        problem p = options;
        if (!allowed(&p))
            continue;
        randomise(&p);
        t->failed = !solve(&p, t);
        t->types[type] = true;
    }
}

/* One problem with any options, whose worker is killed. */
static void check_killed(const operation *op, int type, tally *t)
{
    problem p = {.op = op, .type = types[type], .killed = true};
    while (!options_of(&p, (unsigned)blas_below(144)) || !allowed(&p))
        ;
    randomise(&p);
    t->failed = !solve(&p, t);
    t->types[type] = true;
}

static tally check_operation(const operation *op, bool killed)
{
    /* A GPU's driver takes 0.1 s and more to end a worker: one for each operation. */
    const bool once = killed && h_is_gpu();
    const int first = once ? (int)blas_below(BLAS_TYPES) : 0;
    tally t = {0};
    for (int i = 0; i < BLAS_TYPES && !(once && t.problems > 0); i++) {
        const int type = (first + i) % BLAS_TYPES;
        if (op->options & (ref_blas_complex(types[type]) ? REAL_ONLY : COMPLEX_ONLY))
            continue;
        if (blas_is_half(types[type]) && !(op->options & HALF))
            continue;
        int enough = t.problems + (once ? 1 : killed ? 3 : H_SANITIZED ? 20 : 120);
        do
            (killed ? check_killed : check_combinations)(op, type, &t);
        while (!t.failed && t.problems < enough);
    }
    printf("    %-5s", op->name);
    for (int type = 0; type < BLAS_TYPES; type++)
        printf(" %4s", t.types[type] ? trp_dtype_name(types[type]) : "");
    printf(" %4d problems, largest error %.3f of the bound%s\n", t.problems, t.worst,
           t.failed ? ", FAILED" : "");
    return t;
}

enum { ALL_LEVELS = 0 };

static void check_level(int level, bool killed)
{
    char failed[256] = "";
    world = h_open(&(trp_device_options){.restart_budget = 100000});
    blas = h_actor(world.device, "blas");
    for (int i = 0; i < OPERATIONS; i++) {
        bool chosen = level == ALL_LEVELS || operations[i].level == level;
        if (chosen && check_operation(&operations[i], killed).failed)
            snprintf(failed + strlen(failed), sizeof failed - strlen(failed), " %s",
                     operations[i].name);
    }
    if (*failed)
        h_fail(__FILE__, __LINE__, "wrong:%s", failed);
    H_EQUAL(h_info(world.device).buffers, 0);
    h_close(&world);
}

static void level_1(void)
{
    check_level(1, false);
}

static void level_2(void)
{
    check_level(2, false);
}

static void level_3(void)
{
    check_level(3, false);
}

/* Whatever an operation had done when its worker died: in the end it is done, or, if it writes what
 * it reads, has failed. */
static void killed_workers(void)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("a worker that is a thread can't be killed");
    check_level(ALL_LEVELS, true);
}

/* More systems than there are addresses to write down at a time, some of them in one request: each
 * is a x = b with a matrix of one element, or with one for all of two. */
static void many_systems(void)
{
    enum { MOST = 70000, REQUESTS = 6 };
    static float a[MOST], x[MOST], got[MOST];
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
    for (int i = 0; i < MOST; i++) {
        a[i] = (float)(1 << blas_below(5));
        x[i] = (float)blas_below(1000);
    }
    trp_buffer at_a = h_buffer(world.device, sizeof a), at_x = h_buffer(world.device, sizeof x);
    h_write(world.device, at_a, 0, a, sizeof a);
    h_write(world.device, at_x, 0, x, sizeof x);
    trp_blas3_request r = {.header = {.wait_ns = H_LONG}, .type = TRP_F32, .a = at_a, .b = at_x};
    for (int i = 0; i < REQUESTS; i++) {
        bool shared = blas_below(2);
        int64_t batch = i == 0 ? MOST : 1 + (int64_t)blas_below(MOST);
        r.m = 1;
        r.n = 1;
        r.a_stride = shared ? 0 : 1;
        r.b_stride = 1;
        r.batch = batch;
        r.alpha = trp_real(i % 2 ? 0.5 : 4);
        H_OK(trp_trsm(blas, &r, NULL));
        for (int64_t k = 0; k < batch; k++)
            x[k] = x[k] * (i % 2 ? 0.5f : 4) / a[shared ? 0 : k];
    }
    h_read(world.device, at_x, 0, got, sizeof got);
    H_SAME(got, x, sizeof got);
    h_close(&world);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"level_1", level_1},           {"level_2", level_2},
        {"level_3", level_3},           {"killed_workers", killed_workers},
        {"many_systems", many_systems},
    };
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

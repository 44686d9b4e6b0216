/* The blas actor's operations of LAPACK on random batches: residuals in float64, singular matrices
 * and NaN among good ones, layouts with gaps, killed workers, and on the host the bits that LAPACK
 * gives. Whatever an operation may not look at is NaN, and whatever it may not write must be the
 * same afterwards. Bad input is in lapack_input_test.c. */
#include "support/harness.h"
#include "support/reference/lapack_reference.h"

#include <dlfcn.h>
#include <math.h>
#include <signal.h>

TROUPE_TEST("one isolation", "no tsan");
TROUPE_TEST_FAKE_GPU("no sanitizer");

/* ---- the operations ---- */

enum { UNUSED, IN, OUT, INOUT };
enum { TRANS = 1, RIGHT_SIDES = 2, FACTORS = 4, ORDER = 8, SMALL = 16, ROWS = 32, TALL = 64 };
enum { A, B, PIVOTS, TAU, INFO, PLACES };

typedef struct operation {
    const char *name;
    trp_status (*send)(trp_actor *, const trp_lapack_request *, trp_completion *);
    uint32_t op;
    unsigned options;
    int use[PLACES];
} operation;

static const operation operations[] = {
#define LAPACK_CASE(name, NAME, options, ...)                                                      \
    {#name, trp_##name, TRP_OP_##NAME, options, {__VA_ARGS__}},
#include "support/blas_routines.def"
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static const trp_dtype types[] = {TRP_F32, TRP_F64, TRP_C64, TRP_C128};
enum { TYPES = sizeof types / sizeof *types };

static h_world world;
static trp_actor *blas;

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

static ref_complex random_number(trp_dtype type)
{
    double re = ref_rng_uniform(h_rng(), -1, 1), im = ref_rng_uniform(h_rng(), -1, 1);
    return ref_blas_rounded(type, ref_blas_complex(type) ? re + im * I : re);
}

/* ---- arrays in memory ---- */

/* One operand: element (i, j) of member k of the batch lies at start + k stride + i down + j right.
 */
typedef struct array {
    trp_dtype type; /* TRP_I32, or an element type */
    int use;
    int64_t rows, columns, batch, start, ld, stride, down, right;
    size_t bytes;
    char *before, *after;
    bool *writable; /* by bytes */
    trp_buffer buffer;
} array;

static size_t size_of(trp_dtype type)
{
    return trp_dtype_bits(type) / 8;
}

static int64_t place(const array *x, int64_t k, int64_t i, int64_t j)
{
    return x->start + k * x->stride + i * x->down + j * x->right;
}

static int32_t *integers(const array *x, char *memory, int64_t k)
{
    return (int32_t *)(void *)memory + place(x, k, 0, 0);
}

static ref_dense dense(const array *x, const char *memory, int64_t k)
{
    ref_dense out = ref_dense_make(x->rows, x->columns);
    for (int64_t j = 0; j < x->columns; j++) {
        for (int64_t i = 0; i < x->rows; i++)
            *ref_dense_element(&out, i, j) = ref_blas_load(x->type, memory, place(x, k, i, j));
    }
    return out;
}

static void store(const array *x, int64_t k, const ref_dense *from)
{
    for (int64_t j = 0; j < x->columns; j++) {
        for (int64_t i = 0; i < x->rows; i++)
            ref_blas_store(x->type, x->before, place(x, k, i, j), *ref_dense_element(from, i, j));
    }
}

/* A matrix with gaps, or an array without. */
static void lay_out(array *x, int use, trp_dtype type, int64_t rows, int64_t columns, int64_t batch,
                    bool matrix, bool row_major)
{
    int64_t run = row_major ? columns : rows, lines = row_major ? rows : columns;
    int64_t least = run > 0 ? run : 1, ld = matrix ? least + (int64_t)below(4) : run;
    *x = (array){.type = type, .use = use, .rows = rows, .columns = columns, .batch = batch};
    if (use == UNUSED)
        return;
    x->ld = ld == least && below(2) ? 0 : ld;
    x->down = row_major ? ld : 1;
    x->right = row_major ? 1 : ld;
    x->stride = matrix ? ld * lines + (int64_t)below(5) : run * lines;
    if (use == IN && matrix && below(6) == 0)
        x->stride = 0; /* one for all */
    x->start = (int64_t)below(4);
    int64_t elements = x->start + x->stride * (batch - 1) + ld * lines + (int64_t)below(4) + 1;
    x->bytes = (size_t)elements * size_of(type);
    x->before = h_malloc(x->bytes);
    x->after = h_malloc(x->bytes);
    x->writable = h_malloc(x->bytes);
    memset(x->before, 0xff, x->bytes);
    memset(x->writable, 0, x->bytes);
    for (int64_t k = 0; k < batch && use != IN; k++) {
        for (int64_t j = 0; j < columns; j++) {
            for (int64_t i = 0; i < rows; i++)
                memset(x->writable + (size_t)place(x, k, i, j) * size_of(type), 1, size_of(type));
        }
    }
}

static bool same_elsewhere(const array *x)
{
    for (size_t i = 0; x->before && i < x->bytes; i++) {
        if (!x->writable[i] && x->before[i] != x->after[i])
            return false;
    }
    return true;
}

/* ---- a problem ---- */

typedef struct problem {
    const operation *op;
    trp_dtype type;
    trp_transpose trans;
    bool row_major, killed;
    int64_t m, n, nrhs, batch;
    int64_t singular, broken; /* members of the batch, -1: none */
    int64_t zero;             /* the column of the singular one */
    array x[PLACES];
} problem;

typedef struct tally {
    int problems, members;
    double worst;
} tally;

static bool has(const problem *p, unsigned option)
{
    return p->op->options & option;
}

static bool wrong(const problem *p, int64_t member, const char *what, double value)
{
    fprintf(
        stderr,
        "%s %s: member %lld: %s: %g\n  trans %d row-major %d, m n nrhs %lld %lld %lld, batch "
        "%lld, singular %lld (column %lld), NaN in %lld; lda %lld ldb %lld, strides %lld %lld\n",
        p->op->name, trp_dtype_name(p->type), (long long)member, what, value, (int)p->trans,
        p->row_major, (long long)p->m, (long long)p->n, (long long)p->nrhs, (long long)p->batch,
        (long long)p->singular, (long long)p->zero, (long long)p->broken, (long long)p->x[A].ld,
        (long long)p->x[B].ld, (long long)p->x[A].stride, (long long)p->x[B].stride);
    return false;
}

/* One of A: random, or its factors; with a column of zeros where it shall be singular. */
static void fill_matrix(problem *p, int64_t k)
{
    ref_dense a = ref_dense_make(p->x[A].rows, p->x[A].columns);
    for (int64_t i = 0; i < a.rows * a.columns; i++)
        a.at[i] = random_number(p->type);
    /* Factors are well conditioned; a row is large so that rows are exchanged. */
    for (int64_t i = 0; i < a.rows && i < a.columns; i++)
        *ref_dense_element(&a, a.rows - 1 - i, i) += (double)(2 + a.columns / 8);
    for (int64_t i = 0; k == p->singular && i < a.rows; i++)
        *ref_dense_element(&a, i, p->zero) = 0;
    if (k == p->broken)
        *ref_dense_element(&a, (int64_t)below((size_t)a.rows), (int64_t)below((size_t)a.columns)) =
            NAN;
    if (has(p, FACTORS))
        ref_lapack_factor(&a, integers(&p->x[PIVOTS], p->x[PIVOTS].before, k));
    store(&p->x[A], k, &a);
    ref_dense_free(&a);
}

static void fill(problem *p)
{
    for (int64_t k = 0; k < p->batch; k++) {
        if (p->m > 0 && p->n > 0)
            fill_matrix(p, k);
        if (p->x[B].use != INOUT)
            continue;
        ref_dense b = ref_dense_make(p->x[B].rows, p->x[B].columns);
        for (int64_t i = 0; i < b.rows * b.columns; i++)
            b.at[i] = random_number(p->type);
        store(&p->x[B], k, &b);
        ref_dense_free(&b);
    }
    /* Where one matrix is for all, so are its pivots: those of the last. */
    for (int64_t k = p->batch - 2; k >= 0 && p->x[A].stride == 0 && has(p, FACTORS); k--)
        memcpy(integers(&p->x[PIVOTS], p->x[PIVOTS].before, k),
               integers(&p->x[PIVOTS], p->x[PIVOTS].before, k + 1), (size_t)p->n * sizeof(int32_t));
}

static trp_status send(const problem *p, trp_completion *done)
{
#define OPERAND(name, place)                                                                       \
    .name = p->x[place].buffer,                                                                    \
    .name##_offset = (uint64_t)p->x[place].start * size_of(p->x[place].type)
    trp_lapack_request r = {
        .type = p->type,
        .order = p->row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
        .trans = p->trans,
        .m = has(p, ROWS) ? p->m : -7, /* else not looked at */
        .n = p->n,
        .nrhs = has(p, RIGHT_SIDES) ? p->nrhs : -7,
        OPERAND(a, A),
        OPERAND(b, B),
        OPERAND(pivots, PIVOTS),
        OPERAND(tau, TAU),
        OPERAND(info, INFO),
        .lda = p->x[A].ld,
        .ldb = p->x[B].ld,
        .a_stride = p->x[A].stride,
        .b_stride = p->x[B].stride,
        .batch = p->batch == 1 ? (int64_t)below(2) : p->batch,
    };
    return p->op->send(blas, &r, done);
}

/* ---- what comes of it ---- */

/* How far a result may be off: some roundoff for each of `terms`, of the size of what is added. */
static bool check_size(const problem *p, int64_t k, tally *t, const char *what, double error,
                       int64_t terms, double size)
{
    double bound = 4 * (double)(terms + 4) * ref_blas_unit(p->type) * size;
    if (!(error <= bound))
        return wrong(p, k, what, error / bound);
    t->worst = bound > 0 && error / bound > t->worst ? error / bound : t->worst;
    return true;
}

/* Unfinished: factors that mean nothing, of a NaN or, by cuBLAS, of a singular matrix. */
static bool check_getrf(const problem *p, int64_t k, bool unfinished, tally *t)
{
    const int32_t *pivots = integers(&p->x[PIVOTS], p->x[PIVOTS].after, k);
    for (int64_t i = 0; i < p->n; i++) {
        if (pivots[i] < i + 1 || pivots[i] > p->n)
            return wrong(p, k, "a pivot", pivots[i]);
    }
    if (unfinished)
        return true;
    ref_dense a = dense(&p->x[A], p->x[A].before, k), lu = dense(&p->x[A], p->x[A].after, k);
    ref_dense got = ref_lapack_unfactor(&lu, pivots);
    bool right = check_size(p, k, t, "P L U - A", ref_dense_distance(&got, &a), p->n,
                            ref_dense_norm(&a) * sqrt((double)p->n));
    ref_dense_free(&a);
    ref_dense_free(&lu);
    ref_dense_free(&got);
    return right;
}

static bool check_getrs(const problem *p, int64_t k, tally *t)
{
    const int32_t *pivots = integers(&p->x[PIVOTS], p->x[PIVOTS].before, k);
    ref_dense lu = dense(&p->x[A], p->x[A].before, k), b = dense(&p->x[B], p->x[B].before, k);
    ref_dense x = dense(&p->x[B], p->x[B].after, k), a = ref_lapack_unfactor(&lu, pivots);
    ref_dense op = ref_dense_turned(&a, p->trans), got = ref_dense_product(&op, &x);
    bool right = check_size(p, k, t, "op(A) X - B", ref_dense_distance(&got, &b), p->n,
                            ref_dense_norm(&a) * ref_dense_norm(&x) + ref_dense_norm(&b));
    ref_dense *all[] = {&lu, &b, &x, &a, &op, &got};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ref_dense_free(all[i]);
    return right;
}

/* A is given by its factors or as it is. */
static bool check_inverse(const problem *p, int64_t k, tally *t)
{
    ref_dense a = dense(&p->x[A], p->x[A].before, k), b = dense(&p->x[B], p->x[B].after, k);
    if (has(p, FACTORS)) {
        ref_dense whole = ref_lapack_unfactor(&a, integers(&p->x[PIVOTS], p->x[PIVOTS].before, k));
        ref_dense_free(&a);
        a = whole;
    }
    ref_dense got = ref_dense_product(&a, &b), one = ref_dense_identity(p->n);
    bool right = check_size(p, k, t, "A inv(A) - I", ref_dense_distance(&got, &one), p->n,
                            ref_dense_norm(&a) * ref_dense_norm(&b));
    ref_dense_free(&a);
    ref_dense_free(&b);
    ref_dense_free(&got);
    ref_dense_free(&one);
    return right;
}

static bool check_geqrf(const problem *p, int64_t k, tally *t)
{
    ref_dense a = dense(&p->x[A], p->x[A].before, k), qr = dense(&p->x[A], p->x[A].after, k);
    ref_dense tau = dense(&p->x[TAU], p->x[TAU].after, k);
    ref_dense q = ref_lapack_q(&qr, tau.at), r = ref_lapack_upper(&qr);
    ref_dense got = ref_dense_product(&q, &r), other = ref_dense_turned(&q, TRP_C);
    ref_dense square = ref_dense_product(&other, &q), one = ref_dense_identity(p->m);
    bool right =
        check_size(p, k, t, "Q R - A", ref_dense_distance(&got, &a), p->m, ref_dense_norm(&a)) &&
        check_size(p, k, t, "Q^H Q - I", ref_dense_distance(&square, &one), p->m,
                   sqrt((double)p->m));
    ref_dense *all[] = {&a, &qr, &tau, &q, &r, &got, &other, &square, &one};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ref_dense_free(all[i]);
    return right;
}

/* The residual is at right angles to the columns of A, and the rest of B is as large as it. */
static bool check_gels(const problem *p, int64_t k, tally *t)
{
    ref_dense a = dense(&p->x[A], p->x[A].before, k), b = dense(&p->x[B], p->x[B].before, k);
    ref_dense after = dense(&p->x[B], p->x[B].after, k);
    ref_dense x = ref_dense_make(p->n, p->nrhs), rest = ref_dense_make(p->m - p->n, p->nrhs);
    for (int64_t j = 0; j < p->nrhs; j++) {
        for (int64_t i = 0; i < p->m; i++)
            *(i < p->n ? ref_dense_element(&x, i, j) : ref_dense_element(&rest, i - p->n, j)) =
                *ref_dense_element(&after, i, j);
    }
    ref_dense got = ref_dense_product(&a, &x);
    double size = ref_dense_norm(&a) * ref_dense_norm(&x) + ref_dense_norm(&b);
    double distance = ref_dense_distance(&got, &b);
    for (int64_t i = 0; i < p->m * p->nrhs; i++)
        got.at[i] -= b.at[i];
    ref_dense other = ref_dense_turned(&a, TRP_C), angles = ref_dense_product(&other, &got);
    bool right = check_size(p, k, t, "A^H (A X - B)", ref_dense_norm(&angles), p->m,
                            ref_dense_norm(&a) * size) &&
                 check_size(p, k, t, "the size of the residual",
                            fabs(ref_dense_norm(&rest) - distance), p->m, size);
    ref_dense *all[] = {&a, &b, &after, &x, &rest, &got, &other, &angles};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ref_dense_free(all[i]);
    return right;
}

static bool check_member(const problem *p, int64_t k, tally *t)
{
    int32_t info = p->x[INFO].use == UNUSED ? 0 : *integers(&p->x[INFO], p->x[INFO].after, k);
    bool one_for_all = p->x[A].stride == 0 && p->batch > 1;
    bool singular = one_for_all ? p->singular == p->batch - 1 : k == p->singular;
    bool broken = one_for_all ? p->broken == p->batch - 1 : k == p->broken;
    if (p->m == 0 || p->n == 0 || p->nrhs == 0)
        return info == 0 || wrong(p, k, "info of nothing", info);
    t->members++;
    if (broken)
        return p->op->op != TRP_OP_GETRF || check_getrf(p, k, true, t);
    /* A row of zeros is the last that is left. */
    int64_t zero = !singular ? 0 : p->row_major ? p->n : p->zero + 1;
    if (p->x[INFO].use != UNUSED && info != zero)
        return wrong(p, k, "info", info);
    if (singular && p->op->op != TRP_OP_GETRF && p->op->op != TRP_OP_GEQRF)
        return true;
    switch (p->op->op) {
    case TRP_OP_GETRF:
        return check_getrf(p, k, singular && h_is_gpu(), t);
    case TRP_OP_GETRS:
        return check_getrs(p, k, t);
    case TRP_OP_GEQRF:
        return check_geqrf(p, k, t);
    case TRP_OP_GELS:
        return check_gels(p, k, t);
    default:
        return check_inverse(p, k, t);
    }
}

/* ---- running it ---- */

/* It must, after its worker was killed, if it reads nothing from where it writes. */
static bool runs_again(const problem *p)
{
    return p->x[A].use != INOUT && p->x[B].use != INOUT;
}

/* *ended: it has failed as it should. */
static bool run(const problem *p, bool *ended)
{
    trp_completion done = {0};
    trp_status status = send(p, &done);
    if (status != TRP_OK)
        return wrong(p, -1, trp_error_message(), status);
    if (p->killed)
        kill((pid_t)h_info(world.device).worker_pid, SIGKILL);
    status = h_await_any(done);
    *ended = p->killed && status == TRP_E_FAULT && !runs_again(p);
    return status == TRP_OK || *ended || wrong(p, -1, trp_error_message(), status);
}

static bool solve(problem *p, tally *t)
{
    const int64_t reflectors = p->m < p->n ? p->m : p->n;
    const int *use = p->op->use;
    lay_out(&p->x[A], use[A], p->type, p->m, p->n, p->batch, true, p->row_major);
    lay_out(&p->x[B], use[B], p->type, p->m, p->nrhs, p->batch, true, p->row_major);
    lay_out(&p->x[PIVOTS], use[PIVOTS], TRP_I32, p->n, 1, p->batch, false, false);
    lay_out(&p->x[TAU], use[TAU], p->type, reflectors, 1, p->batch, false, false);
    lay_out(&p->x[INFO], use[INFO], TRP_I32, 1, 1, p->batch, false, false);
    fill(p);
    for (int i = 0; i < PLACES; i++) {
        if (p->x[i].use == UNUSED)
            continue;
        p->x[i].buffer = h_buffer(world.device, p->x[i].bytes);
        h_write(world.device, p->x[i].buffer, 0, p->x[i].before, p->x[i].bytes);
    }
    bool ended = false, right = run(p, &ended);
    for (int i = 0; i < PLACES; i++) {
        if (p->x[i].use == UNUSED)
            continue;
        if (right && !ended)
            h_read(world.device, p->x[i].buffer, 0, p->x[i].after, p->x[i].bytes);
        H_OK(trp_buffer_free(world.device, p->x[i].buffer));
    }
    for (int64_t k = 0; k < p->batch && right && !ended; k++)
        right = check_member(p, k, t);
    for (int i = 0; i < PLACES && right && !ended; i++)
        right = same_elsewhere(&p->x[i]) || wrong(p, -1, "something else was written, operand", i);
    for (int i = 0; i < PLACES; i++) {
        free(p->x[i].before);
        free(p->x[i].after);
        free(p->x[i].writable);
    }
    t->problems++;
    return right;
}

static int64_t random_count(const operation *op)
{
    if (below(12) == 0)
        return 0;
    if (!(op->options & SMALL) && !H_SANITIZED && below(20) == 0)
        return 60 + (int64_t)below(100);
    return 1 + (int64_t)below(op->options & SMALL ? 32 : 40);
}

static void randomise(problem *p)
{
    p->batch = below(3) ? 1 + (int64_t)below(5) : 1;
    p->n = random_count(p->op);
    p->m = has(p, ROWS) ? random_count(p->op) : p->n;
    if (has(p, TALL) && p->m < p->n)
        p->m = p->n + (int64_t)below(6);
    p->nrhs = has(p, RIGHT_SIDES) ? (int64_t)below(9) : p->n;
    p->trans = has(p, TRANS) ? (trp_transpose)below(3) : TRP_N;
    p->row_major = has(p, ORDER) && below(2);
    /* getrs does not look for singular matrices. */
    bool any = p->op->op != TRP_OP_GETRS && p->n > 0;
    p->singular = any && below(3) == 0 ? (int64_t)below((size_t)p->batch) : -1;
    p->broken = below(4) == 0 ? (int64_t)below((size_t)p->batch) : -1;
    p->zero = p->n > 0 ? (int64_t)below((size_t)p->n) : 0;
    if (p->broken == p->singular)
        p->broken = -1;
}

static void check_operations(bool killed)
{
    int failed = 0;
    world = h_open(&(trp_device_options){.restart_budget = 100000});
    blas = h_actor(world.device, "blas");
    for (int i = 0; i < OPERATIONS; i++) {
        const bool once = killed && h_is_gpu();
        const int most = once ? 1 : killed ? 3 : H_SANITIZED ? 15 : 60;
        tally t = {0};
        bool right = true;
        for (int type = 0; type < (once ? 1 : TYPES); type++) {
            for (int round = 0; round < most && right; round++) {
                problem p = {.op = &operations[i], .type = types[type], .killed = killed};
                randomise(&p);
                right = solve(&p, &t);
            }
        }
        printf("    %-6s %4d problems, %4d matrices, largest error %.3f of the bound%s\n",
               operations[i].name, t.problems, t.members, t.worst, right ? "" : ", FAILED");
        failed += !right;
    }
    if (failed)
        h_fail(__FILE__, __LINE__, "%d operations are wrong", failed);
    if (!killed) /* what a failed request held goes back with a later call */
        H_EQUAL(h_info(world.device).buffers, 0);
    h_close(&world);
}

static void residuals(void)
{
    check_operations(false);
}

static void killed_workers(void)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("a worker that is a thread can't be killed");
    check_operations(true);
}

/* ---- more ---- */

/* More matrices than there are addresses to write down at a time: a x = b, of one element each. */
static void many_matrices(void)
{
    enum { MOST = 70000 };
    static float a[MOST], x[MOST], got[MOST];
    static int32_t pivots[MOST], info[MOST];
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
    for (int i = 0; i < MOST; i++) {
        a[i] = i % 1000 == 999 ? 0 : (float)(1 << below(5));
        x[i] = (float)below(1000);
    }
    trp_buffer at_a = h_buffer(world.device, sizeof a), at_x = h_buffer(world.device, sizeof x);
    trp_buffer at_pivots = h_buffer(world.device, sizeof pivots);
    trp_buffer at_info = h_buffer(world.device, sizeof info);
    h_write(world.device, at_a, 0, a, sizeof a);
    h_write(world.device, at_x, 0, x, sizeof x);
    trp_lapack_request r = {.header = {.wait_ns = H_LONG}, .type = TRP_F32, .n = 1, .batch = MOST};
    r.a = at_a;
    r.a_stride = 1;
    r.pivots = at_pivots;
    r.info = at_info;
    H_OK(trp_getrf(blas, &r, NULL));
    r.info = (trp_buffer){0};
    r.b = at_x;
    r.b_stride = 1;
    r.nrhs = 1;
    H_OK(trp_getrs(blas, &r, NULL));
    h_read(world.device, at_pivots, 0, pivots, sizeof pivots);
    h_read(world.device, at_info, 0, info, sizeof info);
    h_read(world.device, at_x, 0, got, sizeof got);
    for (int i = 0; i < MOST; i++) {
        H_EQUAL(pivots[i], 1);
        H_EQUAL(info[i], a[i] == 0);
        H_CHECK(a[i] == 0 || got[i] == x[i] / a[i]);
    }
    h_close(&world);
}

/* The host calls LAPACK, so its factors are LAPACK's to the bit. */
static void bits_of_lapack(void)
{
    enum { N = 24, BATCH = 3 };
    typedef void (*getrf)(const int *, const int *, double *, const int *, int *, int *);
    if (h_is_cuda())
        h_skip("cuBLAS is not LAPACK");
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "dgetrf_") : NULL;
    getrf factor;
    memcpy(&factor, &symbol, sizeof factor);
    if (!symbol)
        h_skip("there is no OpenBLAS to compare with");
    static double a[BATCH][N * N], got[BATCH][N * N];
    static int32_t pivots[BATCH][N], got_pivots[BATCH][N];
    for (int i = 0; i < BATCH * N * N; i++)
        a[i / (N * N)][i % (N * N)] = ref_rng_uniform(h_rng(), -1, 1);
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
    trp_buffer at_a = h_buffer(world.device, sizeof a);
    trp_buffer at_pivots = h_buffer(world.device, sizeof pivots);
    trp_buffer at_info = h_buffer(world.device, BATCH * sizeof(int32_t));
    h_write(world.device, at_a, 0, a, sizeof a);
    trp_lapack_request r = {.type = TRP_F64, .n = N, .batch = BATCH, .a_stride = N * N};
    r.a = at_a;
    r.pivots = at_pivots;
    r.info = at_info;
    H_OK(trp_getrf(blas, &r, NULL));
    h_read(world.device, at_a, 0, got, sizeof got);
    h_read(world.device, at_pivots, 0, got_pivots, sizeof got_pivots);
    for (int k = 0; k < BATCH; k++) {
        int n = N, info;
        factor(&n, &n, a[k], &n, pivots[k], &info);
        H_EQUAL(info, 0);
    }
    dlclose(library); /* which ends its threads */
    H_SAME(got, a, sizeof a);
    H_SAME(got_pivots, pivots, sizeof pivots);
    h_close(&world);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"residuals", residuals},
        {"killed_workers", killed_workers},
        {"many_matrices", many_matrices},
        {"bits_of_lapack", bits_of_lapack},
    };
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

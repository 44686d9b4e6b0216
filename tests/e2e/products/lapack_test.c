/* The blas actor's operations of LAPACK beside tests/conformance: what their sender refuses for two
 * fields together, what it must not refuse, pivots that are none, a lost result, very many
 * matrices, and on the host the bits that LAPACK gives. */
#include "support/harness.h"

#include <dlfcn.h>
#include <math.h>

TROUPE_TEST_FAKE_GPU("no sanitizer");

static h_world world;
static trp_actor *blas;

/* Buffers of exactly so many elements of f32 as the requests below need. */
enum { M = 6, N = 5, RIGHT = 3, BATCH = 2, ELEMENT = 4 };
static trp_buffer tall, square_1, square_2, right_sides, tall_sides, pivots, tau, info;

static trp_completion done;
static int mistakes;

static void expect(int line, const char *call, trp_status got, trp_status wanted, const char *word)
{
    bool says = got == TRP_OK || strstr(trp_error_message(), word);
    if (got == wanted && says)
        return;
    fprintf(stderr, "line %d: %s gave %s (%s), expected %s, \"%s\"\n", line, call,
            trp_status_name(got), got == TRP_OK ? "" : trp_error_message(), trp_status_name(wanted),
            word);
    if (got == TRP_OK)
        trp_future_drop(done.future);
    mistakes++;
}

static void taken(int line, const char *call, trp_status got)
{
    if (got == TRP_OK)
        got = h_await_any(done);
    expect(line, call, got, TRP_OK, "");
}

static trp_buffer ones(uint64_t elements, uint32_t word)
{
    trp_buffer made = h_buffer(world.device, elements * ELEMENT);
    h_fill(world.device, made, word);
    return made;
}

static void open_world(void)
{
    const uint32_t one = 0x3f800000; /* 1.0f */
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
    mistakes = 0;
    done = (trp_completion){0};
    tall = ones(BATCH * M * N, one);
    square_1 = ones(BATCH * N * N, one);
    square_2 = ones(BATCH * N * N, one);
    right_sides = ones(BATCH * N * RIGHT, one);
    tall_sides = ones(BATCH * M * RIGHT, one);
    pivots = ones(BATCH * N, N); /* rows that there are */
    tau = ones(BATCH * N, one);
    info = ones(BATCH, one);
}

static void close_world(void)
{
    if (mistakes)
        h_fail(__FILE__, __LINE__, "%d requests were not answered as they should be", mistakes);
    h_close(&world);
}

/* ---- requests that are right; each case breaks one thing in one ---- */

static trp_lapack_request right(uint32_t op)
{
    const trp_buffer none = {0};
    const bool rows = op == TRP_OP_GEQRF || op == TRP_OP_GELS;
    const bool solves = op == TRP_OP_GETRS || op == TRP_OP_GELS;
    const bool inverts = op == TRP_OP_GETRI || op == TRP_OP_MATINV;
    trp_lapack_request r = {.header = {.op = op, .size = sizeof r}, .type = TRP_F32, .n = N};
    r.m = rows ? M : 0;
    r.nrhs = solves ? RIGHT : 0;
    r.batch = BATCH;
    r.a = rows ? tall : square_1;
    r.a_stride = rows ? M * N : N * N;
    r.b = op == TRP_OP_GETRS ? right_sides : op == TRP_OP_GELS ? tall_sides : none;
    r.b_stride = op == TRP_OP_GETRS ? N * RIGHT : op == TRP_OP_GELS ? M * RIGHT : 0;
    if (inverts) {
        r.b = square_2;
        r.b_stride = N * N;
    }
    if (op <= TRP_OP_GETRI)
        r.pivots = pivots;
    if (op == TRP_OP_GEQRF)
        r.tau = tau;
    if (op != TRP_OP_GETRS && op != TRP_OP_GEQRF)
        r.info = info;
    return r;
}

#define SEND(r) trp_submit(blas, &(r).header, &done)
/* The request, with one field changed, must be refused with a word. */
#define REFUSED(op, field, value, status, word)                                                    \
    do {                                                                                           \
        trp_lapack_request r_ = right(TRP_OP_##op);                                                \
        r_.field = (value);                                                                        \
        expect(__LINE__, #op " with " #field " " #value, SEND(r_), status, word);                  \
    } while (0)
#define BAD(op, field, value, word) REFUSED(op, field, value, TRP_E_ARGUMENT, word)
/* It must be taken all the same. */
#define GOOD(op, field, value)                                                                     \
    do {                                                                                           \
        trp_lapack_request r_ = right(TRP_OP_##op);                                                \
        r_.field = (value);                                                                        \
        taken(__LINE__, #op " with " #field " " #value, SEND(r_));                                 \
    } while (0)

/* Else the cases below would say nothing. */
static void right_requests(void)
{
    open_world();
    for (uint32_t op = TRP_OP_GETRF; op <= TRP_OP_GELS; op++) {
        trp_lapack_request r = right(op);
        h_fill(world.device, pivots, N);
        taken(__LINE__, "a request", SEND(r));
    }
    GOOD(MATINV, a_stride, 0);
    GOOD(GETRF, m, -1); /* not looked at */
    GOOD(GEQRF, nrhs, -1);
    close_world();
}

static void bad_input(void)
{
    open_world();
    BAD(GELS, m, N - 1, "m:");
    BAD(GETRF, a_stride, N * N - 1, "a_stride:");
    BAD(GETRF, a_stride, 0, "a_stride:");
    BAD(GETRI, b_stride, N * N - 1, "b_stride:");
    BAD(GETRF, batch, INT64_MAX, "a:");
    BAD(GETRF, batch, BATCH + 1, "a:"); /* outside of its buffer */
    if (h_is_cuda())
        REFUSED(MATINV, n, 33, TRP_E_UNSUPPORTED, "n: expected at most 32");
    close_world();
}

/* Only info is written, and nothing else is looked at. */
static void nothing_to_do(void)
{
    open_world();
    for (uint32_t op = TRP_OP_GETRF; op <= TRP_OP_GELS; op++) {
        for (int empty = 0; empty < 2; empty++) {
            int32_t got[BATCH] = {7, 7};
            trp_lapack_request r = right(op);
            if (empty == 0)
                r.n = 0;
            else if (op == TRP_OP_GETRS || op == TRP_OP_GELS)
                r.nrhs = 0;
            else
                continue;
            trp_buffer *places[] = {&r.a, &r.b, &r.pivots, &r.tau};
            for (int i = 0; i < 4; i++)
                places[i]->id = places[i]->id ? UINT64_MAX : 0;
            h_fill(world.device, info, 9);
            taken(__LINE__, "nothing to do", SEND(r));
            h_read(world.device, info, 0, got, sizeof got);
            const int32_t wanted = r.info.id ? 0 : 9;
            H_CHECK(got[0] == wanted && got[1] == wanted);
        }
    }
    close_world();
}

/* What is no pivot takes the host out of no matrix: the solution is NaN. */
static void bad_pivots(void)
{
    static const int32_t bad[] = {0, -1, N + 1, INT32_MAX, INT32_MIN};
    if (h_is_cuda())
        h_skip("a GPU may fault");
    open_world();
    for (uint32_t op = TRP_OP_GETRS; op <= TRP_OP_GETRI; op++) {
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            int32_t all[BATCH * N], infos[BATCH];
            float got[BATCH * N * N] = {0};
            for (int k = 0; k < BATCH * N; k++)
                all[k] = N;
            all[i] = bad[i]; /* of the first of the batch */
            h_write(world.device, pivots, 0, all, sizeof all);
            trp_lapack_request r = right(op);
            h_fill(world.device, r.b, 0x3f800000);
            h_fill(world.device, info, 9);
            taken(__LINE__, "pivots that are none", SEND(r));
            h_read(world.device, r.b, 0, got,
                   (uint64_t)(N * (op == TRP_OP_GETRS ? RIGHT : N)) * sizeof *got);
            h_read(world.device, info, 0, infos, sizeof infos);
            H_CHECK(isnan(got[0]) && isnan(got[N * RIGHT - 1]));
            H_EQUAL(infos[0], op == TRP_OP_GETRI ? 0 : 9);
        }
    }
    close_world();
}

/* An inverse is written whole, so that a lost one comes back with the next request, and what lies
 * in it before is not read. */
static void lost_result(void)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("a fault of a worker that is a thread ends the whole program");
    open_world();
    trp_actor *probe = h_actor(world.device, "probe");
    float a[BATCH * N * N] = {0}, got[BATCH * N * N];
    int32_t infos[BATCH];
    for (int i = 0; i < BATCH * N; i++)
        a[i / N * N * N + i % N * (N + 1)] = 2;
    h_write(world.device, square_1, 0, a, sizeof a);
    for (int round = 0; round < 2; round++) {
        trp_lapack_request r = right(TRP_OP_MATINV);
        taken(__LINE__, "matinv", SEND(r));
        h_read(world.device, square_2, 0, got, sizeof got);
        h_read(world.device, info, 0, infos, sizeof infos);
        for (int i = 0; i < BATCH * N * N; i++)
            H_CHECK(got[i] == a[i] / 4);
        H_CHECK(infos[0] == 0 && infos[1] == 0);
        trp_probe_request fault = {.action = TRP_PROBE_SEGV, .outputs = {square_2, info}};
        H_OK(trp_probe(probe, &fault, &done));
        H_IS(h_await_any(done), TRP_E_FAULT);
        H_IS(trp_read(world.device, square_2, 0, got, sizeof got, &done), TRP_E_LOST);
    }
    close_world();
}

/* ---- more ---- */

/* More matrices than there are addresses to write down at a time: a x = b, of one element each. In
 * row-major order each part goes through scratch memory of its own. */
static void many_matrices_in(trp_order order)
{
    enum { MOST = 70000 };
    static float a[MOST], x[MOST], got[MOST];
    static int32_t pivot[MOST], infos[MOST];
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
    for (int i = 0; i < MOST; i++) {
        a[i] = i % 1000 == 999 ? 0 : (float)(1 << ref_rng_below(h_rng(), 5));
        x[i] = (float)ref_rng_below(h_rng(), 1000);
    }
    trp_buffer at_a = h_buffer(world.device, sizeof a), at_x = h_buffer(world.device, sizeof x);
    trp_buffer at_pivots = h_buffer(world.device, sizeof pivot);
    trp_buffer at_info = h_buffer(world.device, sizeof infos);
    h_write(world.device, at_a, 0, a, sizeof a);
    h_write(world.device, at_x, 0, x, sizeof x);
    trp_lapack_request r = {.header = {.wait_ns = H_LONG}, .type = TRP_F32, .n = 1, .batch = MOST};
    r.order = order;
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
    h_read(world.device, at_pivots, 0, pivot, sizeof pivot);
    h_read(world.device, at_info, 0, infos, sizeof infos);
    h_read(world.device, at_x, 0, got, sizeof got);
    for (int i = 0; i < MOST; i++) {
        H_EQUAL(pivot[i], 1);
        H_EQUAL(infos[i], a[i] == 0);
        H_CHECK(a[i] == 0 || got[i] == x[i] / a[i]);
    }
    h_close(&world);
}

static void many_matrices(void)
{
    many_matrices_in(TRP_COL_MAJOR);
    many_matrices_in(TRP_ROW_MAJOR);
}

/* The host calls LAPACK, so its factors are LAPACK's to the bit. */
static void bits_of_lapack(void)
{
    enum { SIZE = 24, MEMBERS = 3 };
    typedef void (*getrf)(const int *, const int *, double *, const int *, int *, int *);
    if (h_is_cuda())
        h_skip("cuBLAS is not LAPACK");
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "dgetrf_") : NULL;
    getrf factor;
    memcpy(&factor, &symbol, sizeof factor);
    if (!symbol)
        h_skip("there is no OpenBLAS to compare with");
    static double a[MEMBERS][SIZE * SIZE], got[MEMBERS][SIZE * SIZE];
    static int32_t pivot[MEMBERS][SIZE], got_pivots[MEMBERS][SIZE];
    for (int i = 0; i < MEMBERS * SIZE * SIZE; i++)
        a[i / (SIZE * SIZE)][i % (SIZE * SIZE)] = ref_rng_uniform(h_rng(), -1, 1);
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
    trp_buffer at_a = h_buffer(world.device, sizeof a);
    trp_buffer at_pivots = h_buffer(world.device, sizeof pivot);
    trp_buffer at_info = h_buffer(world.device, MEMBERS * sizeof(int32_t));
    h_write(world.device, at_a, 0, a, sizeof a);
    trp_lapack_request r = {.type = TRP_F64, .n = SIZE, .batch = MEMBERS, .a_stride = SIZE * SIZE};
    r.a = at_a;
    r.pivots = at_pivots;
    r.info = at_info;
    H_OK(trp_getrf(blas, &r, NULL));
    h_read(world.device, at_a, 0, got, sizeof got);
    h_read(world.device, at_pivots, 0, got_pivots, sizeof got_pivots);
    for (int k = 0; k < MEMBERS; k++) {
        int n = SIZE, failed;
        factor(&n, &n, a[k], &n, pivot[k], &failed);
        H_EQUAL(failed, 0);
    }
    dlclose(library); /* which ends its threads */
    H_SAME(got, a, sizeof a);
    H_SAME(got_pivots, pivot, sizeof pivot);
    h_close(&world);
}

H_CASES(H_CASE(right_requests), H_CASE(bad_input), H_CASE(nothing_to_do), H_CASE(bad_pivots),
        H_CASE(lost_result), H_CASE(many_matrices), H_CASE(bits_of_lapack))

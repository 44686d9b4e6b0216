/* The blas actor's operations of LAPACK: what their sender refuses, what it must not refuse, and
 * what becomes of pivots that are none and of a lost result. */
#include "support/harness.h"

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
    GOOD(MATINV, order, TRP_ROW_MAJOR);
    GOOD(MATINV, a_stride, 0);
    GOOD(GETRF, m, -1); /* not looked at */
    GOOD(GEQRF, nrhs, -1);
    close_world();
}

static void bad_options(void)
{
    static const trp_dtype types[] = {TRP_F16,        TRP_BF16,       TRP_I32,      TRP_I8,
                                      TRP_DTYPE_NONE, (trp_dtype)999, (trp_dtype)-1};
    open_world();
    for (uint32_t op = TRP_OP_GETRF; op <= TRP_OP_GELS; op++) {
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            trp_lapack_request r = right(op);
            r.type = types[i];
            expect(__LINE__, "a type", SEND(r), TRP_E_ARGUMENT, "type");
        }
        trp_lapack_request r = right(op);
        r.trans = op == TRP_OP_GETRS ? (trp_transpose)3 : TRP_T;
        expect(__LINE__, "trans", SEND(r), TRP_E_ARGUMENT, "trans");
        r = right(op);
        r.order = (trp_order)2;
        expect(__LINE__, "order", SEND(r), TRP_E_ARGUMENT, "order");
        if (op == TRP_OP_MATINV)
            continue;
        r = right(op);
        r.order = TRP_ROW_MAJOR;
        expect(__LINE__, "order", SEND(r), TRP_E_UNSUPPORTED, "order: expected TRP_COL_MAJOR");
    }
    close_world();
}

static void bad_sizes(void)
{
    open_world();
    BAD(GETRF, n, -1, "n:");
    BAD(GETRS, nrhs, -1, "nrhs:");
    BAD(GEQRF, m, -1, "m:");
    BAD(GELS, m, N - 1, "m:");
    BAD(GETRI, batch, -1, "batch:");
    BAD(GETRF, lda, N - 1, "lda:");
    BAD(GETRF, lda, -1, "lda:");
    BAD(GEQRF, lda, M - 1, "lda:");
    BAD(GETRS, ldb, N - 1, "ldb:");
    BAD(GELS, ldb, M - 1, "ldb:");
    BAD(MATINV, ldb, N - 1, "ldb:");
    BAD(GETRF, a_stride, N * N - 1, "a_stride:");
    BAD(GETRF, a_stride, 0, "a_stride:");
    BAD(GETRS, a_stride, -1, "a_stride:");
    BAD(GETRI, b_stride, N * N - 1, "b_stride:");
    BAD(GETRF, n, INT64_MAX, "a:");
    BAD(GETRF, batch, INT64_MAX, "a:");
    /* Ranges outside of their buffers. */
    BAD(GETRF, batch, BATCH + 1, "a:");
    BAD(GETRF, a, right_sides, "a:");
    BAD(GETRS, b_offset, ELEMENT, "b:");
    BAD(GETRF, pivots, info, "pivots:");
    BAD(GETRI, pivots_offset, ELEMENT, "pivots:");
    BAD(GEQRF, tau_offset, ELEMENT, "tau:");
    BAD(GELS, info_offset, ELEMENT, "info:");
    BAD(MATINV, info_offset, ELEMENT, "info:");
    BAD(GEQRF, tau, info, "tau:");
    /* Alignment. */
    BAD(GETRF, a_offset, 2, "a_offset");
    BAD(GETRF, pivots_offset, 2, "pivots_offset");
    BAD(GETRF, info_offset, 1, "info_offset");
    if (h_is_cuda())
        REFUSED(MATINV, n, 33, TRP_E_UNSUPPORTED, "n: expected at most 32");
    close_world();
}

static void bad_buffers(void)
{
    const trp_buffer none = {0};
    open_world();
    for (uint32_t op = TRP_OP_GETRF; op <= TRP_OP_GELS; op++) {
        static const char *const names[] = {"a:", "b:", "pivots:", "tau:", "info:"};
        for (int i = 0; i < 5; i++) {
            trp_lapack_request r = right(op);
            trp_buffer *places[] = {&r.a, &r.b, &r.pivots, &r.tau, &r.info};
            bool has = places[i]->id != 0;
            *places[i] = has ? none : tall_sides;
            expect(__LINE__, names[i], SEND(r), has ? TRP_E_STALE : TRP_E_ARGUMENT, names[i]);
            if (!has)
                continue;
            trp_buffer freed = h_buffer(world.device, 4096);
            H_OK(trp_buffer_free(world.device, freed));
            *places[i] = freed;
            expect(__LINE__, names[i], SEND(r), TRP_E_STALE, names[i]);
        }
    }
    BAD(GETRF, info, square_1, "overlap");
    BAD(GETRF, pivots, info, "pivots:");
    BAD(GETRI, b, square_1, "overlap");
    BAD(MATINV, info, square_1, "overlap");
    BAD(GEQRF, tau, tall, "overlap");
    trp_lapack_request r = right(TRP_OP_GETRF);
    r.header.size -= 8;
    expect(__LINE__, "a size that is wrong", SEND(r), TRP_E_VERSION, "size");
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

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"right_requests", right_requests}, {"bad_options", bad_options},
        {"bad_sizes", bad_sizes},           {"bad_buffers", bad_buffers},
        {"nothing_to_do", nothing_to_do},   {"bad_pivots", bad_pivots},
        {"lost_result", lost_result},
    };
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

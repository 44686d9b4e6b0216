/* The blas operations of levels 1 to 3: what their sender refuses beside what one field of a
 * request shows (tests/conformance), what it must not refuse, and what becomes of a lost result. */
#include "support/harness.h"

TROUPE_TEST_FAKE_GPU("no sanitizer");

static h_world world;
static trp_actor *blas;

/* Buffers of exactly so many c64 as the requests below need. */
enum { ROWS = 5, COLUMNS = 6, ELEMENT = 8 };
static trp_buffer short_1, short_2, long_1, square, wide_1, wide_2, wide_3, one, large;

static trp_completion done;
static int mistakes;

static void expect(int line, const char *call, trp_status got, trp_status wanted, const char *word)
{
    if (got == TRP_OK && wanted != TRP_OK) {
        trp_future_drop(done.future);
        fprintf(stderr, "line %d: %s was taken, expected %s, \"%s\"\n", line, call,
                trp_status_name(wanted), word);
    } else if (got != wanted) {
        fprintf(stderr, "line %d: %s gave %s (%s), expected %s, \"%s\"\n", line, call,
                trp_status_name(got), trp_error_message(), trp_status_name(wanted), word);
    } else if (got != TRP_OK && !strstr(trp_error_message(), word)) {
        fprintf(stderr, "line %d: %s: the message \"%s\" does not have \"%s\"\n", line, call,
                trp_error_message(), word);
    } else {
        return;
    }
    mistakes++;
}

static void taken(int line, const char *call, trp_status got)
{
    expect(line, call, got, TRP_OK, "");
    if (got == TRP_OK)
        expect(line, call, h_await_any(done), TRP_OK, "");
}

static void open_world(void)
{
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
    mistakes = 0;
    done = (trp_completion){0};
    const struct {
        trp_buffer *buffer;
        uint64_t elements;
    } all[] = {
        {&short_1, ROWS},
        {&short_2, ROWS},
        {&long_1, COLUMNS},
        {&square, ROWS * ROWS},
        {&wide_1, ROWS * COLUMNS},
        {&wide_2, ROWS * COLUMNS},
        {&wide_3, ROWS * COLUMNS},
        {&one, 2},
        {&large, 1024},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i].buffer = h_buffer(world.device, all[i].elements * ELEMENT);
        h_fill(world.device, *all[i].buffer, 0x3f800000); /* 1.0f */
    }
}

static void close_world(void)
{
    if (mistakes)
        h_fail(__FILE__, __LINE__, "%d requests were not answered as they should be", mistakes);
    h_close(&world);
}

/* ---- requests that are right; each case breaks one thing in one ---- */

static trp_blas1_request right_1(uint32_t op)
{
    trp_blas1_request r = {.header = {.op = op, .size = sizeof r}, .type = TRP_C64, .n = ROWS};
    bool two = op != TRP_OP_SCAL && (op < TRP_OP_NRM2 || op > TRP_OP_IAMIN);
    r.x = short_1;
    if (two)
        r.y = short_2;
    if (op >= TRP_OP_ROTG && op <= TRP_OP_IAMIN)
        r.result = one;
    if (op == TRP_OP_ROT) {
        r.c = trp_real(0.6);
        r.s = trp_real(0.8);
    }
    return r;
}

static trp_blas2_request right_2(uint32_t op)
{
    trp_blas2_request r = {.header = {.op = op, .size = sizeof r}, .type = TRP_C64, .n = ROWS};
    r.a = square;
    r.x = short_1;
    bool one_vector = op == TRP_OP_TRMV || op == TRP_OP_TRSV || op == TRP_OP_SYR ||
                      op == TRP_OP_HER || op == TRP_OP_TBMV || op == TRP_OP_TBSV ||
                      op == TRP_OP_SPR || op == TRP_OP_HPR || op == TRP_OP_TPMV ||
                      op == TRP_OP_TPSV;
    if (!one_vector)
        r.y = short_2;
    if (op >= TRP_OP_SBMV && op <= TRP_OP_TBSV)
        r.kl = 2;
    if (op > TRP_OP_GERC)
        return r;
    r.m = ROWS;
    r.n = COLUMNS;
    r.a = wide_1;
    bool rank_one = op == TRP_OP_GER || op == TRP_OP_GERC;
    *(rank_one ? &r.y : &r.x) = long_1;
    if (op == TRP_OP_GBMV) { /* 3 + 1 + 1 diagonals */
        r.kl = 3;
        r.ku = 1;
    }
    return r;
}

static trp_blas3_request right_3(uint32_t op)
{
    trp_blas3_request r = {.header = {.op = op, .size = sizeof r}, .type = TRP_C64};
    r.a = square;
    r.b = wide_1;
    r.c = wide_2;
    r.m = ROWS;
    r.n = COLUMNS;
    switch (op) {
    case TRP_OP_SYRK:
    case TRP_OP_HERK:
    case TRP_OP_SYR2K:
    case TRP_OP_HER2K:
    case TRP_OP_SYRKX:
    case TRP_OP_HERKX:
        r.n = ROWS;
        r.k = COLUMNS;
        r.a = wide_2;
        r.c = square;
        break;
    case TRP_OP_GEAM:
    case TRP_OP_DGMM:
        r.a = wide_3;
        break;
    default:
        break;
    }
    if (op == TRP_OP_SYRK || op == TRP_OP_HERK)
        r.b = (trp_buffer){0};
    if (op == TRP_OP_TRSM)
        r.c = (trp_buffer){0};
    if (op == TRP_OP_DGMM)
        r.b = short_1;
    return r;
}

#define SEND(r) trp_submit(blas, &(r).header, &done)
/* The request, with one field changed, must be refused with a word. */
#define REFUSED(level, op, field, value, status, word)                                             \
    do {                                                                                           \
        trp_blas##level##_request r_ = right_##level(op);                                          \
        r_.field = (value);                                                                        \
        expect(__LINE__, #op " with " #field " " #value, SEND(r_), status, word);                  \
    } while (0)
#define BAD(level, op, field, value, word)                                                         \
    REFUSED(level, TRP_OP_##op, field, value, TRP_E_ARGUMENT, word)

/* ---- what the tables of the conformance suite don't say ---- */

/* Options that go with some types only, and diagonals that are too many together. */
static void bad_options(void)
{
    open_world();
    BAD(3, HERK, trans, TRP_T, "trans");
    BAD(3, HER2K, trans, TRP_T, "trans");
    BAD(3, HERKX, trans, TRP_T, "trans");
    BAD(3, SYRK, trans, TRP_C, "trans");
    BAD(3, SYR2K, trans, TRP_C, "trans");
    BAD(3, SYRKX, trans, TRP_C, "trans");
    BAD(2, GEMV, trans, TRP_T, "y:");  /* of n elements now */
    BAD(3, SYMM, side, TRP_RIGHT, ""); /* A is 6 x 6 now */
    BAD(2, GBMV, ku, INT64_MAX - 3, "");
    BAD(2, GBMV, lda, 4, "lda"); /* kl + ku + 1 are 5 */
    BAD(2, TBMV, lda, 2, "lda");
    BAD(1, NRM2, n, INT64_MAX / ELEMENT + 2, "");
    BAD(2, HPMV, n, INT64_MAX - 1, "");
    close_world();
}

/* Of a batch: members that overlap, strides that are negative or too large. */
static void bad_batches(void)
{
    open_world();
    trp_blas2_request r = right_2(TRP_OP_GEMV);
    r.a = r.x = r.y = large;
    r.batch = 2;
    r.x_offset = 100 * ELEMENT;
    r.y_offset = 200 * ELEMENT;
    r.y_stride = ROWS - 1;
    expect(__LINE__, "gemv with vectors y that overlap", SEND(r), TRP_E_ARGUMENT, "y_stride");
    r.y_stride = ROWS;
    r.a_stride = -1;
    expect(__LINE__, "gemv with a negative stride", SEND(r), TRP_E_ARGUMENT, "a_stride");
    r.a_stride = 0;
    r.x_stride = INT64_MAX;
    expect(__LINE__, "gemv with a huge stride", SEND(r), TRP_E_ARGUMENT, "x");
    r.x_stride = 0;
    r.batch = INT64_MAX;
    expect(__LINE__, "gemv with a huge batch", SEND(r), TRP_E_ARGUMENT, "");
    BAD(3, TRSM, batch, 2, "b_stride");
    trp_blas3_request r3 = right_3(TRP_OP_TRSM);
    r3.a = r3.b = large;
    r3.batch = 2;
    r3.b_offset = 100 * ELEMENT;
    r3.b_stride = ROWS * COLUMNS - 1;
    expect(__LINE__, "trsm with matrices that overlap", SEND(r3), TRP_E_ARGUMENT, "b_stride");
    r3.b_stride = ROWS * COLUMNS;
    r3.a_stride = -1;
    expect(__LINE__, "trsm with a negative stride", SEND(r3), TRP_E_ARGUMENT, "a_stride");
    r3.a_stride = 100;
    expect(__LINE__, "trsm with b in a", SEND(r3), TRP_E_ARGUMENT, "overlap");
    r3.batch = INT64_MAX;
    expect(__LINE__, "trsm with a huge batch", SEND(r3), TRP_E_ARGUMENT, "");
    r3.batch = 2;
    r3.a_stride = 0;
    taken(__LINE__, "trsm of two with one matrix", SEND(r3));
    close_world();
}

/* How many numbers `scalars` holds. */
static void scalars_in_a_buffer(void)
{
    open_world();
    trp_blas2_request r2 = right_2(TRP_OP_GEMV);
    r2.scalars = one;
    r2.scalars_offset = ELEMENT;
    expect(__LINE__, "gemv with beta past the end", SEND(r2), TRP_E_ARGUMENT, "scalars");
    trp_blas3_request r3 = right_3(TRP_OP_TRSM);
    r3.scalars = one;
    r3.scalars_offset = ELEMENT; /* alpha alone */
    taken(__LINE__, "trsm with its alpha in a buffer", SEND(r3));
    r3 = right_3(TRP_OP_HERK);
    r3.scalars = one;
    r3.scalars_offset = ELEMENT; /* two real numbers */
    taken(__LINE__, "herk with its scalars in a buffer", SEND(r3));
    r3.scalars_offset = ELEMENT + 4;
    expect(__LINE__, "herk with beta past the end", SEND(r3), TRP_E_ARGUMENT, "scalars");
    close_world();
}

/* Operands at these elements of one large buffer. */
static trp_status vectors_at(uint32_t op, int64_t incx, int64_t incy, uint64_t x, uint64_t y)
{
    trp_blas1_request r = right_1(op);
    r.x = r.y = large;
    r.x_offset = x * ELEMENT;
    r.y_offset = y * ELEMENT;
    r.incx = incx;
    r.incy = incy;
    return SEND(r);
}

static trp_status matrix_vector_at(uint32_t op, uint64_t a, uint64_t x, uint64_t y)
{
    trp_blas2_request r = right_2(op);
    r.a = r.x = r.y = large;
    if (op == TRP_OP_TRMV)
        r.y = (trp_buffer){0};
    r.a_offset = a * ELEMENT;
    r.x_offset = x * ELEMENT;
    r.y_offset = y * ELEMENT;
    return SEND(r);
}

static trp_status matrices_at(uint32_t op, uint64_t a, uint64_t b, uint64_t c, int64_t ldc)
{
    trp_blas3_request r = right_3(op);
    r.a = r.b = r.c = large;
    if (op == TRP_OP_SYRK)
        r.b = (trp_buffer){0};
    if (op == TRP_OP_TRSM)
        r.c = (trp_buffer){0};
    r.a_offset = a * ELEMENT;
    r.b_offset = b * ELEMENT;
    r.c_offset = c * ELEMENT;
    r.ldc = ldc;
    return SEND(r);
}

#define OVERLAP(call) expect(__LINE__, #call, call, TRP_E_ARGUMENT, "overlap")
#define APART(call)   taken(__LINE__, #call, call)

static void overlaps(void)
{
    open_world();
    OVERLAP(vectors_at(TRP_OP_AXPY, 1, 1, 0, 1));
    OVERLAP(vectors_at(TRP_OP_AXPY, 1, 1, 4, 0));
    OVERLAP(vectors_at(TRP_OP_SWAP, 2, 2, 0, 2));
    OVERLAP(vectors_at(TRP_OP_ROT, 3, 3, 1, 7));
    OVERLAP(vectors_at(TRP_OP_AXPY, 2, 1, 0, 3));
    OVERLAP(matrix_vector_at(TRP_OP_GEMV, 0, 100, 29));
    OVERLAP(matrix_vector_at(TRP_OP_GEMV, 0, 100, 105));
    OVERLAP(matrix_vector_at(TRP_OP_GER, 0, 29, 100));
    OVERLAP(matrix_vector_at(TRP_OP_GERC, 0, 100, 3));
    OVERLAP(matrix_vector_at(TRP_OP_TRMV, 0, 24, 0));
    OVERLAP(matrices_at(TRP_OP_SYMM, 0, 100, 24, 0));
    OVERLAP(matrices_at(TRP_OP_SYMM, 0, 100, 129, 0));
    OVERLAP(matrices_at(TRP_OP_SYRK, 0, 0, 29, 0));
    OVERLAP(matrices_at(TRP_OP_TRSM, 0, 24, 0, 0));
    OVERLAP(matrices_at(TRP_OP_TRMM, 0, 100, 101, 0));
    OVERLAP(matrices_at(TRP_OP_TRMM, 0, 100, 100, ROWS + 1));
    OVERLAP(matrices_at(TRP_OP_TRMM, 0, 100, 24, 0));

    APART(vectors_at(TRP_OP_AXPY, 1, 1, 0, ROWS));
    APART(vectors_at(TRP_OP_DOT, 1, 1, 0, 0));
    APART(vectors_at(TRP_OP_DOT, 2, -1, 0, 1));
    /* Columns of a row-major matrix of 7 columns. */
    APART(vectors_at(TRP_OP_AXPY, 7, 7, 0, 6));
    APART(vectors_at(TRP_OP_SWAP, 7, 7, 3, 2));
    APART(vectors_at(TRP_OP_ROT, 2, 2, 0, 1));
    APART(matrix_vector_at(TRP_OP_GEMV, 0, 0, 30));
    APART(matrix_vector_at(TRP_OP_GER, 0, 30, 30));
    APART(matrices_at(TRP_OP_SYMM, 0, 0, 30, 0));
    APART(matrices_at(TRP_OP_TRMM, 0, 100, 100, ROWS));
    APART(matrices_at(TRP_OP_TRMM, 0, 100, 130, 0));
    close_world();
}

/* Handles and places of operands that do not count are not looked at. */
static void nothing_to_do(void)
{
    open_world();
    trp_buffer stale = {UINT64_MAX};
    trp_blas1_request r1 = right_1(TRP_OP_AXPY);
    r1.n = 0;
    r1.x = r1.y = stale;
    r1.x_offset = UINT64_MAX;
    taken(__LINE__, "axpy of nothing", SEND(r1));
    for (uint32_t op = TRP_OP_DOT; op <= TRP_OP_IAMIN; op++) {
        unsigned char zero[2 * ELEMENT] = {0}, got[2 * ELEMENT];
        h_fill(world.device, one, UINT32_MAX);
        size_t written = op == TRP_OP_NRM2 || op == TRP_OP_ASUM ? 4 : 8;
        memset(zero + written, 0xff, sizeof zero - written);
        r1 = right_1(op);
        r1.n = 0;
        r1.x = stale;
        if (op <= TRP_OP_DOTC)
            r1.y = stale;
        taken(__LINE__, "the result of nothing", SEND(r1));
        if (mistakes)
            continue;
        h_read(world.device, one, 0, got, sizeof got);
        H_SAME(got, zero, sizeof got);
    }
    trp_blas3_request r3 = right_3(TRP_OP_GEAM); /* whose beta is 0 */
    r3.b = stale;
    taken(__LINE__, "geam without B", SEND(r3));
    close_world();
}

/* A result is written whole, so that a lost one comes back with the next request. */
static void lost_result(void)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("a fault of a worker that is a thread ends the whole program");
    open_world();
    trp_actor *probe = h_actor(world.device, "probe");
    float ones[2 * ROWS], got[2] = {0};
    for (int i = 0; i < 2 * ROWS; i++)
        ones[i] = 1;
    trp_buffer x = h_buffer(world.device, sizeof ones);
    trp_buffer result = h_buffer(world.device, sizeof got);
    h_write(world.device, x, 0, ones, sizeof ones);
    trp_blas1_request r = right_1(TRP_OP_DOT);
    r.x = r.y = x;
    r.result = result;
    for (int round = 0; round < 2; round++) {
        taken(__LINE__, "dot", SEND(r));
        if (mistakes)
            break;
        h_read(world.device, result, 0, got, sizeof got);
        H_CHECK(got[0] == 0 && got[1] == 2 * ROWS); /* (1 + i)^2 is 2 i */
        trp_probe_request fault = {.action = TRP_PROBE_SEGV, .outputs = {result}};
        H_OK(trp_probe(probe, &fault, &done));
        H_IS(h_await_any(done), TRP_E_FAULT);
        H_IS(trp_read(world.device, result, 0, got, sizeof got, &done), TRP_E_LOST);
    }
    close_world();
}

H_CASES(H_CASE(bad_options), H_CASE(bad_batches), H_CASE(scalars_in_a_buffer), H_CASE(overlaps),
        H_CASE(nothing_to_do), H_CASE(lost_result))

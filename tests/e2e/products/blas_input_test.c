/* The blas operations of levels 1 to 3: what their sender refuses, what it must not refuse, and
 * what becomes of a lost result. */
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

static bool real_only(uint32_t op)
{
    return op == TRP_OP_SBMV || op == TRP_OP_SPMV || op == TRP_OP_SPR || op == TRP_OP_SPR2 ||
           op == TRP_OP_ROTM || op == TRP_OP_ROTMG;
}

static trp_blas1_request right_modified(uint32_t op)
{
    trp_blas1_request r = {.header = {.op = op, .size = sizeof r}, .type = TRP_F32, .n = ROWS};
    r.x = short_1;
    r.y = short_2;
    if (op == TRP_OP_ROTM)
        r.scalars = long_1;
    else
        r.result = large;
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
    if (real_only(op))
        r.type = TRP_F32;
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
    case TRP_OP_GEMM3M:
        r.k = ROWS;
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

/* ---- bad input ---- */

static bool complex_only(uint32_t op)
{
    return op == TRP_OP_HEMV || op == TRP_OP_HEMM || op == TRP_OP_HERK || op == TRP_OP_HER2K ||
           op == TRP_OP_HER || op == TRP_OP_HER2 || op == TRP_OP_HBMV || op == TRP_OP_HPMV ||
           op == TRP_OP_HPR || op == TRP_OP_HPR2;
}

static bool half_too(uint32_t op)
{
    return op == TRP_OP_AXPY || op == TRP_OP_SCAL || op == TRP_OP_ROT || op == TRP_OP_DOT ||
           op == TRP_OP_NRM2;
}

#define RIGHT(level, op)                                                                           \
    do {                                                                                           \
        trp_blas##level##_request r_ = right_##level(op);                                          \
        char name[40];                                                                             \
        snprintf(name, sizeof name, "operation %#x", op);                                          \
        taken(__LINE__, name, SEND(r_));                                                           \
    } while (0)

/* Else the cases below would say nothing. */
static void right_requests(void)
{
    open_world();
    for (uint32_t op = TRP_OP_AXPY; op <= TRP_OP_IAMIN; op++)
        RIGHT(1, op);
    for (uint32_t op = TRP_OP_GEMV; op <= TRP_OP_TRSV; op++)
        RIGHT(2, op);
    for (uint32_t op = TRP_OP_SYR; op <= TRP_OP_TPSV; op++)
        RIGHT(2, op);
    for (uint32_t op = TRP_OP_ROTM; op <= TRP_OP_ROTMG; op++) {
        trp_blas1_request r = right_modified(op);
        taken(__LINE__, "a modified rotation", SEND(r));
    }
    for (uint32_t op = TRP_OP_SYMM; op <= TRP_OP_DGMM; op++)
        RIGHT(3, op);
    RIGHT(3, TRP_OP_SYRKX);
    RIGHT(3, TRP_OP_HERKX);
    RIGHT(3, TRP_OP_GEMM3M);
    close_world();
}

static void bad_types(void)
{
    static const trp_dtype bad[] = {TRP_F16, TRP_BF16,       TRP_I32,        TRP_I64,
                                    TRP_I8,  TRP_DTYPE_NONE, (trp_dtype)999, (trp_dtype)-1,
                                    TRP_F32, TRP_F64};
    open_world();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bool real = bad[i] == TRP_F32 || bad[i] == TRP_F64;
        for (uint32_t op = TRP_OP_SYR; op <= TRP_OP_TPSV; op++) {
            if (!real || complex_only(op))
                REFUSED(2, op, type, bad[i], TRP_E_ARGUMENT, "type");
        }
        for (uint32_t op = TRP_OP_AXPY; op <= TRP_OP_DGMM; op++) {
            if (real && !complex_only(op))
                continue;
            if ((bad[i] == TRP_F16 || bad[i] == TRP_BF16) && half_too(op))
                continue;
            if (op <= TRP_OP_IAMIN)
                REFUSED(1, op, type, bad[i], TRP_E_ARGUMENT, "type");
            else if (op <= TRP_OP_TRSV)
                REFUSED(2, op, type, bad[i], TRP_E_ARGUMENT, "type");
            else
                REFUSED(3, op, type, bad[i], TRP_E_ARGUMENT, "type");
        }
    }
    close_world();
}

static void bad_level_1(void)
{
    open_world();
    BAD(1, AXPY, n, -1, "n:");
    BAD(1, DOT, n, INT64_MIN, "n:");
    BAD(1, AXPY, n, ROWS + 1, "x:");
    BAD(1, AXPY, n, INT64_MAX, "");
    BAD(1, NRM2, n, INT64_MAX / ELEMENT + 2, "");
    BAD(1, IAMAX, n, INT64_C(1) << 61, "");
    BAD(1, AXPY, incx, 2, "x:");
    BAD(1, AXPY, incx, -2, "x:");
    BAD(1, AXPY, incy, 2, "y:");
    BAD(1, AXPY, incx, INT64_MAX, "");
    BAD(1, AXPY, incy, INT64_MIN, "");
    BAD(1, SCAL, incx, -1, "incx");
    BAD(1, NRM2, incx, -1, "incx");
    BAD(1, ASUM, incx, -2, "incx");
    BAD(1, IAMAX, incx, -1, "incx");
    BAD(1, IAMIN, incx, INT64_MIN, "incx");
    BAD(1, AXPY, x_offset, ELEMENT, "x:");
    BAD(1, DOT, y_offset, UINT64_MAX - ELEMENT + 1, "y:");
    BAD(1, AXPY, x_offset, 4, "x_offset");
    BAD(1, VCOPY, y_offset, 1, "y_offset");
    BAD(1, DOT, result_offset, 4, "result_offset");
    BAD(1, IAMAX, result_offset, 4, "result_offset");
    BAD(1, NRM2, result_offset, 2, "result_offset");
    BAD(1, DOT, result_offset, 2 * ELEMENT, "result:");
    BAD(1, ROTG, result_offset, ELEMENT, "result:");
    /* Operands that the operation does not have. */
    BAD(1, SCAL, y, short_1, "y:");
    BAD(1, NRM2, y, short_1, "y:");
    BAD(1, AXPY, result, short_1, "result:");
    BAD(1, DOT, scalars, short_1, "scalars:");
    BAD(2, TRSV, y, short_1, "y:");
    BAD(2, TRMV, scalars, short_1, "scalars:");
    BAD(3, SYRK, b, short_1, "b:");
    BAD(3, HERK, b, short_1, "b:");
    BAD(3, TRSM, c, short_1, "c:");
    REFUSED(3, TRP_OP_SYRKX, b, (trp_buffer){0}, TRP_E_STALE, "b: no buffer");
    BAD(3, SYRKX, trans, TRP_C, "trans");
    REFUSED(3, TRP_OP_GEMM3M, type, TRP_F64, TRP_E_ARGUMENT, "type");
    BAD(3, GEMM3M, trans_b, (trp_transpose)3, "trans_b");
    BAD(3, GEMM3M, side, TRP_RIGHT, "side");
    BAD(3, GEMM3M, k, -1, "k:");
    BAD(3, GEMM3M, lda, ROWS - 1, "lda");
    BAD(3, GEMM3M, batch, 2, "batch");
    BAD(3, HERKX, trans, TRP_T, "trans");
    BAD(3, HERKX, type, TRP_F64, "type");
    BAD(3, HERKX, beta, trp_complex(1, 1), "beta");
    BAD(3, DGMM, scalars, short_1, "scalars:");
    BAD(1, DOT, result, (trp_buffer){0}, "result");
    BAD(1, ROTG, result, (trp_buffer){0}, "result");
    BAD(1, IAMIN, result, (trp_buffer){0}, "result");
    BAD(1, ROT, c, (trp_scalar){0}, "c:");
    BAD(1, ROT, s, (trp_scalar){0}, "s:");
    BAD(1, ROT, c, trp_complex(0.6, 0.1), "c:");
    trp_blas1_request r = right_1(TRP_OP_AXPY);
    r.type = TRP_F32;
    r.alpha = trp_complex(1, 1);
    expect(__LINE__, "axpy of f32 with a complex alpha", SEND(r), TRP_E_ARGUMENT, "alpha");
    r = right_1(TRP_OP_ROT);
    r.type = TRP_F64;
    r.n = 2;
    r.s = trp_complex(0, 1);
    expect(__LINE__, "rot of f64 with a complex s", SEND(r), TRP_E_ARGUMENT, "s:");
    close_world();
}

static void bad_modified_rotations(void)
{
    open_world();
    trp_blas1_request r = right_modified(TRP_OP_ROTM);
    r.scalars = (trp_buffer){0};
    expect(__LINE__, "rotm without numbers", SEND(r), TRP_E_ARGUMENT, "scalars: expected a buffer");
    r.scalars = one;
    expect(__LINE__, "rotm with four numbers", SEND(r), TRP_E_ARGUMENT, "scalars");
    r.scalars = r.x;
    expect(__LINE__, "rotm with its numbers in x", SEND(r), TRP_E_ARGUMENT, "");
    r = right_modified(TRP_OP_ROTM);
    r.type = TRP_C64;
    expect(__LINE__, "rotm of c64", SEND(r), TRP_E_ARGUMENT, "type: expected f32 or f64");
    r = right_modified(TRP_OP_ROTM);
    r.alpha = trp_real(1);
    expect(__LINE__, "rotm with alpha", SEND(r), TRP_E_ARGUMENT, "alpha");
    r = right_modified(TRP_OP_ROTMG);
    r.incx = -1;
    expect(__LINE__, "rotmg backwards", SEND(r), TRP_E_ARGUMENT, "incx");
    r = right_modified(TRP_OP_ROTMG);
    r.incx = ROWS;
    expect(__LINE__, "rotmg beyond x", SEND(r), TRP_E_ARGUMENT, "x:");
    r = right_modified(TRP_OP_ROTMG);
    r.result = one;
    expect(__LINE__, "rotmg into four numbers", SEND(r), TRP_E_ARGUMENT, "result");
    r = right_modified(TRP_OP_ROTMG);
    r.scalars = long_1;
    expect(__LINE__, "rotmg with scalars", SEND(r), TRP_E_ARGUMENT, "scalars");
    close_world();
}

static void bad_level_2(void)
{
    open_world();
    BAD(2, GEMV, order, (trp_order)2, "order");
    BAD(2, GEMV, trans, (trp_transpose)3, "trans");
    BAD(2, GBMV, trans, (trp_transpose)-1, "trans");
    BAD(2, TRMV, trans, (trp_transpose)3, "trans");
    BAD(2, SYMV, uplo, (trp_uplo)2, "uplo");
    BAD(2, HEMV, uplo, (trp_uplo)-1, "uplo");
    BAD(2, SYR, uplo, (trp_uplo)2, "uplo");
    BAD(2, SYR, trans, TRP_T, "trans");
    BAD(2, SYR, y, short_2, "y");
    BAD(2, SBMV, type, TRP_C64, "type: expected f32 or f64");
    BAD(2, SBMV, kl, -1, "kl");
    BAD(2, TBSV, kl, INT64_MAX, "kl");
    BAD(2, TBMV, kl, INT64_MAX - 1, "");
    BAD(2, HBMV, ku, 1, "ku");
    BAD(2, TBMV, lda, 2, "lda");
    BAD(2, TBSV, y, short_2, "y");
    BAD(2, TBMV, alpha, trp_real(1), "alpha");
    BAD(2, SYR2, diag, TRP_UNIT, "diag");
    BAD(2, SYR2, beta, trp_real(1), "beta");
    BAD(2, HER, alpha, trp_complex(1, 1), "alpha");
    BAD(2, TRSV, uplo, (trp_uplo)2, "uplo");
    BAD(2, TRMV, diag, (trp_diag)2, "diag");
    BAD(2, TRSV, diag, (trp_diag)-1, "diag");
    BAD(2, GEMV, m, -1, "m:");
    BAD(2, GEMV, n, -1, "n:");
    BAD(2, TRSV, n, -1, "n:");
    BAD(2, GER, m, INT64_MIN, "m:");
    BAD(2, GBMV, kl, -1, "kl");
    BAD(2, GBMV, ku, -1, "ku");
    BAD(2, GEMV, batch, -1, "batch");
    BAD(2, GEMV, m, INT64_MAX, "");
    BAD(2, GEMV, n, INT64_MAX, "");
    BAD(2, GEMV, n, INT64_C(1) << 61, "");
    BAD(2, SYMV, n, INT64_C(1) << 32, "");
    BAD(2, GBMV, kl, INT64_MAX, "");
    BAD(2, GBMV, ku, INT64_MAX - 3, "");
    BAD(2, GEMV, lda, ROWS - 1, "lda");
    BAD(2, GEMV, lda, -ROWS, "lda");
    BAD(2, GEMV, lda, INT64_MAX, "");
    BAD(2, SYMV, lda, ROWS - 1, "lda");
    BAD(2, SYR, lda, ROWS - 1, "lda");
    BAD(2, HER2, n, -1, "n");
    BAD(2, SPMV, type, TRP_C128, "type: expected f32 or f64");
    BAD(2, SPR2, type, TRP_C64, "type: expected f32 or f64");
    BAD(2, HPMV, lda, ROWS, "lda: expected 0");
    BAD(2, TPSV, lda, 1, "lda: expected 0");
    BAD(2, HPR, alpha, trp_complex(1, 1), "alpha");
    BAD(2, SPR, y, short_2, "y");
    BAD(2, TPMV, y, short_2, "y");
    BAD(2, HPR2, beta, trp_real(1), "beta");
    BAD(2, TPMV, n, -1, "n");
    BAD(2, TPMV, n, INT64_C(1) << 32, "");
    BAD(2, HPMV, n, INT64_MAX, "");
    BAD(2, HPMV, n, INT64_MAX - 1, "");
    BAD(2, SPMV, ku, 1, "ku");
    BAD(2, HPR, uplo, (trp_uplo)2, "uplo");
    BAD(2, TPSV, trans, (trp_transpose)3, "trans");
    BAD(2, HPMV, a, short_1, "a:");
    BAD(2, TRMV, lda, 1, "lda");
    BAD(2, GBMV, lda, 4, "lda"); /* kl + ku + 1 are 5 */
    BAD(2, GEMV, a_offset, ELEMENT, "a:");
    BAD(2, GEMV, a_offset, 1, "a_offset");
    BAD(2, GEMV, x_offset, ELEMENT, "x:");
    BAD(2, GEMV, x_offset, 4, "x_offset");
    BAD(2, GEMV, y_offset, ELEMENT, "y:");
    BAD(2, GEMV, y_offset, 2, "y_offset");
    BAD(2, GER, y_offset, ELEMENT, "y:");
    BAD(2, GEMV, incx, 2, "x:");
    BAD(2, GEMV, incy, -2, "y:");
    BAD(2, TRSV, incx, INT64_MIN, "");
    BAD(2, GEMV, trans, TRP_T, "y:"); /* of n elements now */
    BAD(2, TRMV, n, ROWS + 1, "");
    trp_blas2_request r = right_2(TRP_OP_GEMV);
    r.type = TRP_F64;
    r.beta = trp_complex(0, 1);
    expect(__LINE__, "gemv of f64 with a complex beta", SEND(r), TRP_E_ARGUMENT, "beta");
    r = right_2(TRP_OP_GEMV);
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
    close_world();
}

static void bad_level_3(void)
{
    open_world();
    BAD(3, SYMM, order, (trp_order)2, "order");
    BAD(3, DGMM, order, (trp_order)-1, "order");
    BAD(3, SYMM, side, (trp_side)2, "side");
    BAD(3, TRSM, side, (trp_side)-1, "side");
    BAD(3, DGMM, side, (trp_side)2, "side");
    BAD(3, HEMM, uplo, (trp_uplo)2, "uplo");
    BAD(3, SYRK, uplo, (trp_uplo)2, "uplo");
    BAD(3, TRMM, diag, (trp_diag)2, "diag");
    BAD(3, TRSM, trans, (trp_transpose)3, "trans");
    BAD(3, GEAM, trans, (trp_transpose)-1, "trans");
    BAD(3, GEAM, trans_b, (trp_transpose)3, "trans_b");
    BAD(3, HERK, trans, TRP_T, "trans");
    BAD(3, HER2K, trans, TRP_T, "trans");
    BAD(3, SYRK, trans, TRP_C, "trans");
    BAD(3, SYR2K, trans, TRP_C, "trans");
    BAD(3, HERK, alpha, trp_complex(1, 1), "alpha");
    BAD(3, HERK, beta, trp_complex(1, 1), "beta");
    BAD(3, HER2K, beta, trp_complex(0, 1), "beta");
    BAD(3, SYMM, m, -1, "m:");
    BAD(3, TRSM, n, -1, "n:");
    BAD(3, SYRK, k, -1, "k:");
    BAD(3, SYRK, k, INT64_MAX, "");
    BAD(3, SYR2K, n, INT64_C(1) << 61, "");
    BAD(3, GEAM, m, INT64_MAX, "");
    BAD(3, TRMM, n, INT64_MAX, "");
    BAD(3, DGMM, n, INT64_C(1) << 62, "");
    BAD(3, SYMM, lda, ROWS - 1, "lda");
    BAD(3, SYMM, ldb, ROWS - 1, "ldb");
    BAD(3, SYMM, ldc, -1, "ldc");
    BAD(3, TRSM, ldb, 1, "ldb");
    BAD(3, GEAM, ldc, INT64_MAX, "");
    BAD(3, SYMM, side, TRP_RIGHT, ""); /* A is 6 x 6 now */
    BAD(3, SYMM, a_offset, ELEMENT, "a:");
    BAD(3, SYMM, b_offset, ELEMENT, "b:");
    BAD(3, SYMM, c_offset, ELEMENT, "c:");
    BAD(3, TRSM, a_offset, 4, "a_offset");
    BAD(3, TRSM, b_offset, 4, "b_offset");
    BAD(3, TRMM, c_offset, 4, "c_offset");
    BAD(3, DGMM, b_offset, ELEMENT, "b:");
    BAD(3, DGMM, incx, 2, "b:");
    BAD(3, DGMM, incx, INT64_MIN, "");
    trp_blas3_request r = right_3(TRP_OP_SYMM);
    r.type = TRP_F32;
    r.alpha = trp_complex(1, 1);
    expect(__LINE__, "symm of f32 with a complex alpha", SEND(r), TRP_E_ARGUMENT, "alpha");
    BAD(3, TRSM, batch, -1, "batch");
    BAD(3, TRSM, batch, 2, "b_stride");
    BAD(3, TRMM, batch, 2, "batch");
    BAD(3, SYMM, batch, -1, "batch");
    BAD(3, GEAM, batch, INT64_MAX, "batch");
    r = right_3(TRP_OP_TRSM);
    r.a = r.b = large;
    r.batch = 2;
    r.b_offset = 100 * ELEMENT;
    r.b_stride = ROWS * COLUMNS - 1;
    expect(__LINE__, "trsm with matrices that overlap", SEND(r), TRP_E_ARGUMENT, "b_stride");
    r.b_stride = ROWS * COLUMNS;
    r.a_stride = -1;
    expect(__LINE__, "trsm with a negative stride", SEND(r), TRP_E_ARGUMENT, "a_stride");
    r.a_stride = 100;
    expect(__LINE__, "trsm with b in a", SEND(r), TRP_E_ARGUMENT, "overlap");
    r.batch = INT64_MAX;
    expect(__LINE__, "trsm with a huge batch", SEND(r), TRP_E_ARGUMENT, "");
    r.batch = 2;
    r.a_stride = 0;
    taken(__LINE__, "trsm of two with one matrix", SEND(r));
    close_world();
}

static void scalars_in_a_buffer(void)
{
    open_world();
    trp_blas1_request r1 = right_1(TRP_OP_AXPY);
    r1.scalars = one;
    r1.alpha = trp_real(2);
    expect(__LINE__, "axpy with alpha twice", SEND(r1), TRP_E_ARGUMENT, "alpha");
    r1.alpha = (trp_scalar){0};
    r1.scalars_offset = 4;
    expect(__LINE__, "axpy with scalars askew", SEND(r1), TRP_E_ARGUMENT, "scalars_offset");
    r1.scalars_offset = 2 * ELEMENT;
    expect(__LINE__, "axpy with scalars past the end", SEND(r1), TRP_E_ARGUMENT, "scalars");
    r1 = right_1(TRP_OP_ROT);
    r1.scalars = one;
    expect(__LINE__, "rot with c and s twice", SEND(r1), TRP_E_ARGUMENT, "c:");
    r1.c = (trp_scalar){0};
    expect(__LINE__, "rot with s twice", SEND(r1), TRP_E_ARGUMENT, "s:");
    trp_blas2_request r2 = right_2(TRP_OP_GEMV);
    r2.scalars = one;
    r2.beta = trp_real(0);
    expect(__LINE__, "gemv with beta twice", SEND(r2), TRP_E_ARGUMENT, "beta");
    r2.beta = (trp_scalar){0};
    r2.scalars_offset = ELEMENT;
    expect(__LINE__, "gemv with beta past the end", SEND(r2), TRP_E_ARGUMENT, "scalars");
    trp_blas3_request r3 = right_3(TRP_OP_TRSM);
    r3.scalars = one;
    r3.alpha = trp_real(1);
    expect(__LINE__, "trsm with alpha twice", SEND(r3), TRP_E_ARGUMENT, "alpha");
    r3.alpha = (trp_scalar){0};
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

static void stale_handles(void)
{
    open_world();
    trp_buffer stale = h_buffer(world.device, 4096);
    H_OK(trp_buffer_free(world.device, stale));
#define STALE(level, op, field) REFUSED(level, TRP_OP_##op, field, stale, TRP_E_STALE, #field)
    STALE(1, AXPY, x);
    STALE(1, AXPY, y);
    STALE(1, AXPY, scalars);
    STALE(1, DOT, result);
    STALE(2, GEMV, a);
    STALE(2, GEMV, x);
    STALE(2, GEMV, y);
    STALE(2, GEMV, scalars);
    STALE(3, SYMM, a);
    STALE(3, SYMM, b);
    STALE(3, SYMM, c);
    STALE(3, SYMM, scalars);
    STALE(3, TRMM, c);
    STALE(3, DGMM, b);
#undef STALE
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
    OVERLAP(vectors_at(TRP_OP_AXPY, 1, 1, 0, 0));
    OVERLAP(vectors_at(TRP_OP_VCOPY, 1, 1, 3, 3));
    OVERLAP(vectors_at(TRP_OP_SWAP, 2, 2, 0, 2));
    OVERLAP(vectors_at(TRP_OP_ROT, 3, 3, 1, 7));
    OVERLAP(vectors_at(TRP_OP_AXPY, 2, 1, 0, 3));
    OVERLAP(vectors_at(TRP_OP_ROTG, 1, 1, 4, 4));
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
    OVERLAP(matrices_at(TRP_OP_DGMM, 0, 100, 100, 0));

    trp_blas1_request r = right_1(TRP_OP_DOT);
    r.result = r.x;
    OVERLAP(SEND(r));
    r = right_1(TRP_OP_AXPY);
    r.scalars = r.y;
    OVERLAP(SEND(r));

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

/* ---- the request's head ---- */

static void headers(void)
{
    open_world();
    uint64_t before = h_info(world.device).requests_submitted;
    trp_blas1_request r = right_1(TRP_OP_AXPY);
    r.header.size -= 8;
    expect(__LINE__, "a size that is wrong", SEND(r), TRP_E_VERSION, "size");
    trp_blas3_request r3 = right_3(TRP_OP_DGMM);
    r3.header.op = TRP_OP_AXPY;
    expect(__LINE__, "the size of another level", SEND(r3), TRP_E_VERSION, "size");
    r3.header.op = TRP_OP_GELS + 1;
    expect(__LINE__, "an operation there is not", SEND(r3), TRP_E_UNSUPPORTED, "op");
    r3.header.op = 0x0100;
    expect(__LINE__, "operation 0", SEND(r3), TRP_E_UNSUPPORTED, "op");
    REFUSED(1, TRP_OP_DOT, n, -1, TRP_E_ARGUMENT, "n:");
    H_CHECK(strcmp(trp_error_last()->actor, "blas") == 0);
    H_EQUAL(h_info(world.device).requests_submitted, before);
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

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"right_requests", right_requests},
        {"bad_types", bad_types},
        {"bad_modified_rotations", bad_modified_rotations},
        {"bad_level_1", bad_level_1},
        {"bad_level_2", bad_level_2},
        {"bad_level_3", bad_level_3},
        {"scalars_in_a_buffer", scalars_in_a_buffer},
        {"stale_handles", stale_handles},
        {"overlaps", overlaps},
        {"nothing_to_do", nothing_to_do},
        {"headers", headers},
        {"lost_result", lost_result},
    };
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

/* The sender's side of the blas and probe actors: what is refused, and what a record says of what
 * is accepted. The overlap rule is compared with a brute-force search. */
#include "support/unit.h"

#include "actors/blas/blas.h"
#include "actors/blas/blas_wire.h"
#include "actors/probe/probe.h"
#include "actors/probe/probe_wire.h"
#include "base/error.h"
#include "support/reference/reference.h"
#include "support/label.h"

#include <troupe/troupe.h>

TROUPE_TEST("no tsan");

enum { BUFFER_BYTES = 1 << 20 };

/* Buffers are known by their number; 9 is stale, 8 is lost. */
static trp_status acquire(trp__encoder *encoder, const char *name, trp_buffer buffer,
                          trp__access *access, uint64_t *bytes)
{
    if (buffer.id == 0 || buffer.id == 9)
        return trp__error_set(encoder->error, TRP_E_STALE, "%s: stale", name);
    if (buffer.id == 8 && (access->mode & TRP__READ))
        return trp__error_set(encoder->error, TRP_E_LOST, "%s: lost", name);
    access->slot = (uint32_t)buffer.id;
    access->generation = 1;
    *bytes = encoder->context ? *(const uint64_t *)encoder->context : BUFFER_BYTES;
    return TRP_OK;
}

static trp__record record;
static trp_error error;
static uint64_t buffer_bytes;

static trp_status encode(const trp__actor_class *class, const void *request)
{
    trp__encoder p = {
        .record = &record,
        .error = &error,
        .backend = TRP_BACKEND_HOST,
        .acquire = acquire,
        .context = buffer_bytes ? &buffer_bytes : NULL,
    };
    memset(&record, 0, sizeof record);
    memset(&error, 0, sizeof error);
    trp_status status = class->ops[0].encode(&p, request);
    assert_int_equal(status, error.status);
    return status;
}

static trp__gemm payload(void)
{
    trp__gemm g;
    memcpy(&g, record.payload, sizeof g);
    return g;
}

static trp_gemm_request sample(void)
{
    return (trp_gemm_request){
        .type = TRP_F32, .m = 5, .n = 7, .k = 3, .a = {1}, .b = {2}, .c = {3}};
}

static trp_status gemm(const trp_gemm_request *r)
{
    return encode(&trp__blas_class, r);
}

/* The request is refused, and the message speaks of the argument. */
static void refused(const trp_gemm_request *r, const char *argument)
{
    assert_int_equal(gemm(r), TRP_E_ARGUMENT);
    if (!strstr(error.message, argument))
        fail_msg("\"%s\" does not name %s", error.message, argument);
}

#define REFUSED(argument, ...)                                                                     \
    do {                                                                                           \
        trp_gemm_request r = sample();                                                             \
        __VA_ARGS__;                                                                               \
        refused(&r, argument);                                                                     \
    } while (0)

static void class_is_consistent(void **state)
{
    (void)state;
    assert_string_equal(trp__blas_class.kind, "blas");
    assert_ptr_equal(trp__op_class_find(&trp__blas_class, TRP_OP_GEMM), &trp__blas_class.ops[0]);
    assert_ptr_equal(trp__op_class_find(&trp__probe_class, TRP_OP_PROBE), &trp__probe_class.ops[0]);
    assert_null(trp__op_class_find(&trp__blas_class, TRP_OP_PROBE));
    assert_int_equal(trp__blas_class.ops[0].request_bytes, sizeof(trp_gemm_request));
}

static void leading_dimensions(void **state)
{
    (void)state;
    REFUSED("lda", r.lda = 4);
    REFUSED("ldb", r.ldb = 2);
    REFUSED("ldc", r.ldc = 4);
    REFUSED("lda", r.lda = -1);
    REFUSED("lda", r.trans_a = TRP_T; r.lda = 2);
    REFUSED("ldb", r.trans_b = TRP_T; r.ldb = 6);
    /* Row-major: the columns, and still the sender's name of the argument. */
    REFUSED("lda", r.order = TRP_ROW_MAJOR; r.lda = 2);
    REFUSED("ldb", r.order = TRP_ROW_MAJOR; r.ldb = 6);
    REFUSED("ldc", r.order = TRP_ROW_MAJOR; r.ldc = 6);
    REFUSED("columns of b", r.order = TRP_ROW_MAJOR; r.ldb = 6);

    trp_gemm_request r = sample();
    assert_int_equal(gemm(&r), TRP_OK);
    assert_int_equal(payload().lda, 5);
    assert_int_equal(payload().ldb, 3);
    assert_int_equal(payload().ldc, 5);
    r.trans_a = r.trans_b = TRP_T;
    assert_int_equal(gemm(&r), TRP_OK);
    assert_int_equal(payload().lda, 3);
    assert_int_equal(payload().ldb, 7);
}

static void sizes_that_overflow(void **state)
{
    (void)state;
    REFUSED("2^63", r.n = INT64_MAX; r.ldc = INT64_MAX);
    REFUSED("2^63", r.m = INT64_MAX; r.n = 2);
    REFUSED("2^63", r.batch = INT64_MAX; r.c_stride = INT64_MAX);
    REFUSED("2^63", r.m = INT64_MAX; r.n = 1; r.k = 1);
    REFUSED("buffer has", r.m = INT64_C(1) << 40; r.n = 1; r.k = 1);
    REFUSED("c: the request needs", r.n = 1 << 20);
    REFUSED("a: the request needs", r.k = 1 << 20; r.b_offset = 0);
    REFUSED("b: the request needs", r.b_offset = BUFFER_BYTES - 4 * 20);
    REFUSED("c: the request needs", r.c_offset = UINT64_MAX - 3);

    trp_gemm_request r = sample(); /* to the last byte */
    r.b_offset = BUFFER_BYTES - 4 * 21;
    assert_int_equal(gemm(&r), TRP_OK);
}

/* Sizes past 31 bits travel as they are; whether a library takes them is for the worker to say. */
static void large_dimensions(void **state)
{
    (void)state;
    trp_gemm_request r = sample();
    r.m = INT64_C(3) << 31;
    buffer_bytes = UINT64_C(1) << 48;
    assert_int_equal(gemm(&r), TRP_OK);
    buffer_bytes = 0;
    assert_int_equal(payload().m, INT64_C(3) << 31);
    assert_int_equal(record.access[TRP__GEMM_C].bytes, 7 * 4 * (UINT64_C(3) << 31));
}

static void accesses(void **state)
{
    (void)state;
    trp_gemm_request r = sample();
    r.a_offset = 8;
    assert_int_equal(gemm(&r), TRP_OK);
    assert_int_equal(record.access_count, 3);
    assert_int_equal(record.access[TRP__GEMM_C].slot, 3);
    assert_int_equal(record.access[TRP__GEMM_C].mode, TRP__WRITE | TRP__COVER);
    assert_int_equal(record.access[TRP__GEMM_C].bytes, 5 * 7 * 4);
    assert_int_equal(record.access[TRP__GEMM_A].slot, 1);
    assert_int_equal(record.access[TRP__GEMM_A].offset, 8);
    assert_int_equal(record.access[TRP__GEMM_A].bytes, 5 * 3 * 4);
    assert_int_equal(record.access[TRP__GEMM_A].mode, TRP__READ);
    assert_int_equal(record.access[TRP__GEMM_B].slot, 2);
    assert_int_equal(record.access[TRP__GEMM_B].bytes, 3 * 7 * 4);
    assert_true(payload().alpha[0] == 1 && payload().beta[0] == 0);

    r.ldc = 6; /* gaps keep what they hold */
    assert_int_equal(gemm(&r), TRP_OK);
    assert_int_equal(record.access[TRP__GEMM_C].mode, TRP__WRITE);
    r.beta = trp_real(0.5);
    assert_int_equal(gemm(&r), TRP_OK);
    assert_int_equal(record.access[TRP__GEMM_C].mode, TRP__READ | TRP__WRITE);
    r.beta = trp_real(-0.0); /* is 0 */
    assert_int_equal(gemm(&r), TRP_OK);
    assert_int_equal(record.access[TRP__GEMM_C].mode, TRP__WRITE);
    r.alpha = trp_real(0); /* given, so not the default */
    assert_int_equal(gemm(&r), TRP_OK);
    assert_true(payload().alpha[0] == 0);
}

static void types_of_c(void **state)
{
    static const struct {
        trp_dtype type, given, type_c;
        uint32_t element;
    } pairs[] = {
        {TRP_F64, 0, TRP_F64, 8},      {TRP_F32, TRP_F32, TRP_F32, 4},
        {TRP_F16, 0, TRP_F16, 2},      {TRP_F16, TRP_F32, TRP_F32, 4},
        {TRP_BF16, 0, TRP_BF16, 2},    {TRP_BF16, TRP_F32, TRP_F32, 4},
        {TRP_I8, 0, TRP_I32, 4},       {TRP_I8, TRP_I32, TRP_I32, 4},
        {TRP_I8, TRP_F32, TRP_F32, 4}, {TRP_C64, 0, TRP_C64, 8},
        {TRP_C128, 0, TRP_C128, 16},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        trp_gemm_request r = sample();
        r.type = pairs[i].type;
        r.type_c = pairs[i].given;
        r.compute = TRP_COMPUTE_PEDANTIC;
        assert_int_equal(gemm(&r), TRP_OK);
        assert_int_equal(payload().type, pairs[i].type);
        assert_int_equal(payload().type_c, pairs[i].type_c);
        assert_int_equal(payload().compute, TRP_COMPUTE_PEDANTIC);
        assert_int_equal(record.access[TRP__GEMM_A].bytes, 15 * trp_dtype_bits(r.type) / 8);
        assert_int_equal(record.access[TRP__GEMM_C].bytes, 35 * pairs[i].element);
        r.type_c = TRP_I64;
        refused(&r, "type_c");
    }
    REFUSED("alpha", r.type = TRP_I8; r.alpha = trp_real(0.5));
    REFUSED("beta", r.type = TRP_I8; r.beta = trp_real(0x1p31));
    REFUSED("compute", r.type = TRP_I8; r.compute = TRP_COMPUTE_EMULATED);
    REFUSED("compute", r.type = TRP_BF16; r.compute = TRP_COMPUTE_EMULATED);
    trp_gemm_request r = sample();
    r.compute = TRP_COMPUTE_EMULATED;
    assert_int_equal(gemm(&r), TRP_E_UNSUPPORTED);
    r = sample();
    r.type = TRP_I8; /* half an integer is a float, too */
    r.type_c = TRP_F32;
    r.alpha = trp_real(0.5);
    assert_int_equal(gemm(&r), TRP_OK);
}

static void lost_and_stale_buffers(void **state)
{
    (void)state;
    trp_gemm_request r = sample();
    r.c.id = 8;
    assert_int_equal(gemm(&r), TRP_OK); /* beta 0 does not read it */
    r.beta = trp_real(1);
    assert_int_equal(gemm(&r), TRP_E_LOST);
    r = sample();
    r.a.id = 8;
    assert_int_equal(gemm(&r), TRP_E_LOST);
    r.a.id = 9;
    assert_int_equal(gemm(&r), TRP_E_STALE);
    assert_int_equal(record.access_count, 1); /* C is held, to be released by the caller */
    r = sample();
    r.b.id = 0;
    assert_int_equal(gemm(&r), TRP_E_STALE);
}

static void nothing_to_do(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        trp_gemm_request r = sample();
        r.a.id = r.b.id = r.c.id = 0;
        r.lda = r.ldb = r.ldc = -5;
        *(i ? &r.m : &r.n) = 0;
        assert_int_equal(gemm(&r), TRP_OK);
        assert_int_equal(record.access_count, 0);
    }
    trp_gemm_request r = sample();
    r.k = 0;
    r.a.id = r.b.id = 9;
    r.lda = r.ldb = -5;
    r.a_offset = 3;
    assert_int_equal(gemm(&r), TRP_OK);
    assert_int_equal(record.access_count, 1);
    assert_int_equal(record.access[0].mode, TRP__WRITE | TRP__COVER);
    assert_int_equal(payload().lda, 5); /* what a library asks for all the same */
    assert_int_equal(payload().ldb, 1);
    r.ldc = 1;
    refused(&r, "ldc");
}

static void row_major_is_swapped(void **state)
{
    (void)state;
    trp_gemm_request r = sample();
    r.order = TRP_ROW_MAJOR;
    r.trans_a = TRP_T;
    r.batch = 2;
    r.a_stride = 100;
    r.b_stride = 200;
    r.c_stride = 300;
    r.b_offset = 16;
    assert_int_equal(gemm(&r), TRP_OK);
    trp__gemm g = payload();
    assert_int_equal(g.m, 7);
    assert_int_equal(g.n, 5);
    assert_int_equal(g.trans_a, TRP_N); /* of B */
    assert_int_equal(g.trans_b, TRP_T); /* of A */
    assert_int_equal(g.lda, 7);
    assert_int_equal(g.ldb, 5); /* A is stored as 3 x 5 */
    assert_int_equal(g.ldc, 7);
    assert_int_equal(g.a_stride, 200);
    assert_int_equal(g.b_stride, 100);
    assert_int_equal(record.access[TRP__GEMM_A].slot, 2);
    assert_int_equal(record.access[TRP__GEMM_A].offset, 16);
    assert_int_equal(record.access[TRP__GEMM_B].slot, 1);
}

static void batches(void **state)
{
    (void)state;
    trp_gemm_request r = sample();
    r.a_stride = r.b_stride = r.c_stride = -1; /* not looked at */
    assert_int_equal(gemm(&r), TRP_OK);
    assert_int_equal(payload().batch, 1);
    assert_int_equal(payload().a_stride, 0);

    r = sample();
    r.batch = 4;
    r.c_stride = 35;
    assert_int_equal(gemm(&r), TRP_OK);
    assert_int_equal(record.access[TRP__GEMM_C].mode, TRP__WRITE | TRP__COVER);
    assert_int_equal(record.access[TRP__GEMM_C].bytes, 4 * 35 * 4);
    assert_int_equal(record.access[TRP__GEMM_A].bytes, 15 * 4); /* one for all */
    r.c_stride = 36;
    assert_int_equal(gemm(&r), TRP_OK);
    assert_int_equal(record.access[TRP__GEMM_C].mode, TRP__WRITE);
    r.c_stride = 34;
    refused(&r, "c_stride");
    r.c_stride = 0;
    refused(&r, "c_stride");

    r.c_stride = 5; /* side by side, without a gap */
    r.ldc = 20;
    assert_int_equal(gemm(&r), TRP_OK);
    assert_int_equal(record.access[TRP__GEMM_C].mode, TRP__WRITE | TRP__COVER);
    r.ldc = 21;
    assert_int_equal(gemm(&r), TRP_OK);
    assert_int_equal(record.access[TRP__GEMM_C].mode, TRP__WRITE);
    r.ldc = 19;
    refused(&r, "c_stride");
    r.ldc = 20;
    r.c_stride = 4;
    refused(&r, "c_stride");
}

static bool meet(int64_t ld, int64_t c, int64_t rows, int64_t columns, int64_t x, int64_t x_rows,
                 int64_t x_columns)
{
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t l = 0; l < x_columns; l++) {
                int64_t at = c + i + j * ld - x - l * ld;
                if (at >= 0 && at < x_rows)
                    return true;
            }
        }
    }
    return false;
}

/* Parts of one matrix: accepted if and only if no element is in both. */
static void overlap(void **state)
{
    ref_rng rng;
    int refusals = 0;
    (void)state;
    ref_rng_init(&rng, ref_seed());
    for (int round = 0; round < 20000; round++) {
        trp_gemm_request r = sample();
        int64_t ld = 8 + (int64_t)ref_rng_below(&rng, 3);
        r.m = 1 + (int64_t)ref_rng_below(&rng, 6);
        r.n = 1 + (int64_t)ref_rng_below(&rng, 6);
        r.k = 1 + (int64_t)ref_rng_below(&rng, 6);
        r.lda = r.ldb = r.ldc = ld;
        r.a.id = r.c.id = 1;
        r.a_offset = 4 * ref_rng_below(&rng, 100);
        r.c_offset = 4 * ref_rng_below(&rng, 100);
        bool expected =
            meet(ld, (int64_t)r.c_offset / 4, r.m, r.n, (int64_t)r.a_offset / 4, r.m, r.k);
        trp_status status = gemm(&r);
        if ((status == TRP_E_ARGUMENT) != expected)
            fail_msg("ld %d: c at %d is %d x %d, a at %d is %d x %d: status %d", (int)ld,
                     (int)r.c_offset / 4, (int)r.m, (int)r.n, (int)r.a_offset / 4, (int)r.m,
                     (int)r.k, status);
        refusals += expected;
    }
    assert_in_range(refusals, 1000, 19000);

    trp_gemm_request r = sample(); /* the same matrix twice */
    r.b.id = r.c.id;
    refused(&r, "overlap those of b");
    r = sample();
    r.m = r.n = r.k = 4;
    r.a.id = r.b.id;
    assert_int_equal(gemm(&r), TRP_OK);
}

static trp_status probe(const trp_probe_request *r)
{
    return encode(&trp__probe_class, r);
}

static void probes(void **state)
{
    (void)state;
    trp_probe_request r = {.action = TRP_PROBE_SPIN, .duration_ns = 7};
    r.inputs[1].id = 4;
    r.outputs[3].id = 5;
    assert_int_equal(probe(&r), TRP_OK);
    assert_int_equal(record.access_count, 2);
    assert_int_equal(record.access[0].mode, TRP__READ);
    assert_int_equal(record.access[0].bytes, BUFFER_BYTES);
    assert_int_equal(record.access[1].mode, TRP__READ | TRP__WRITE);
    r.action = TRP_PROBE_KILL;
    assert_int_equal(probe(&r), TRP_OK);
    assert_int_equal(record.access[1].mode, TRP__WRITE);
    trp__probe p;
    memcpy(&p, record.payload, sizeof p);
    assert_int_equal(p.action, TRP_PROBE_KILL);
    assert_int_equal(p.duration_ns, 7);

    r.inputs[1].id = 9;
    assert_int_equal(probe(&r), TRP_E_STALE);
    assert_non_null(strstr(error.message, "inputs[1]"));
    r = (trp_probe_request){.action = TRP_PROBE_ACTION_COUNT};
    assert_int_equal(probe(&r), TRP_E_ARGUMENT);
    r.action = TRP_PROBE_OUT_OF_BOUNDS;
    assert_int_equal(probe(&r), TRP_E_ARGUMENT);
    r.outputs[0].id = 4;
    assert_int_equal(probe(&r), TRP_OK);

    for (int i = 0; i < TRP_PROBE_BUFFERS; i++)
        r.inputs[i].id = r.outputs[i].id = (uint64_t)i + 1;
    assert_int_equal(probe(&r), TRP_OK);
    assert_int_equal(record.access_count, 2 * TRP_PROBE_BUFFERS);
    for (int i = 0; i < TRP_PROBE_ACTION_COUNT; i++)
        assert_non_null(trp_probe_action_name((trp_probe_action)i));
    assert_null(trp_probe_action_name(TRP_PROBE_ACTION_COUNT));
}

/* B in the place of C, said by the same place or by no C at all, is read and written: an order that
 * nothing else in a record keeps. */
static void trmm_in_place(void **state)
{
    (void)state;
    const trp__op_class *op = &trp__blas_class.ops[(TRP_OP_TRMM & 0xff) - 1];
    for (int i = 0; i < 4; i++) {
        trp_blas3_request r = {
            .type = TRP_F32, .m = 3, .n = 3, .a = {1}, .b = {2}, .ldb = i & 1 ? 4 : 0};
        trp__encoder p = {
            .record = &record, .error = &error, .backend = TRP_BACKEND_HOST, .acquire = acquire};
        if (i & 2) {
            r.c = r.b;
            r.ldc = r.ldb;
        }
        memset(&record, 0, sizeof record);
        r.header.op = TRP_OP_TRMM;
        assert_int_equal(op->op, TRP_OP_TRMM);
        assert_int_equal(op->encode(&p, &r.header), TRP_OK);
        assert_int_equal(record.access_count, 2);
        assert_int_equal(record.access[0].mode, TRP__READ);
        assert_int_equal(record.access[1].mode, TRP__READ | TRP__WRITE);
    }
}

/* A vector of which all members of a batch are the same fits in its buffer, its copies don't. */
static void conjugated_copies(void **state)
{
    (void)state;
    const trp__op_class *op = &trp__blas_class.ops[(TRP_OP_GEMV & 0xff) - 1];
    const uint64_t bytes = UINT64_C(1) << 36;
    trp__encoder p = {.record = &record,
                      .error = &error,
                      .backend = TRP_BACKEND_HOST,
                      .acquire = acquire,
                      .context = (void *)(uintptr_t)&bytes};
    trp_blas2_request r = {.header.op = TRP_OP_GEMV,
                           .type = TRP_C64,
                           .order = TRP_ROW_MAJOR,
                           .trans = TRP_C,
                           .m = INT64_C(1) << 31,
                           .n = 1,
                           .batch = INT64_C(1) << 25,
                           .y_stride = 1,
                           .a = {1},
                           .x = {2},
                           .y = {3}};
    memset(&record, 0, sizeof record);
    assert_int_equal(op->op, TRP_OP_GEMV);
    assert_int_equal(op->encode(&p, &r.header), TRP_OK);
    r.batch *= 4;
    memset(&record, 0, sizeof record);
    assert_int_equal(op->encode(&p, &r.header), TRP_E_ARGUMENT);
    assert_non_null(strstr(error.message, "elements of x"));
    r.order = TRP_COL_MAJOR; /* which conjugates nothing */
    memset(&record, 0, sizeof record);
    assert_int_equal(op->encode(&p, &r.header), TRP_OK);
}

UNIT_MAIN(UNIT(trmm_in_place), UNIT(class_is_consistent), UNIT(leading_dimensions),
          UNIT(sizes_that_overflow), UNIT(large_dimensions), UNIT(accesses), UNIT(types_of_c),
          UNIT(lost_and_stale_buffers), UNIT(nothing_to_do), UNIT(row_major_is_swapped),
          UNIT(batches), UNIT(overlap), UNIT(conjugated_copies), UNIT(probes))

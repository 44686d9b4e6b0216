/* Products, those of i8 too: inputs that are not read, many that are joined, mistakes in more than
 * one field, options of actors. Numbers and single mistakes are in tests/conformance. */
#include "support/harness.h"

#include <math.h>

TROUPE_TEST("one isolation", "no tsan");
TROUPE_TEST_FAKE_GPU("no sanitizer");

static h_world world;
static trp_actor *blas;

static void open_world(void)
{
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
}

/* alpha 0 and k 0 leave A and B alone, even when they hold NaN: BLAS says that they are not read.
 */
static void inputs_that_do_not_count(void)
{
    enum { N = 6 };
    open_world();
    double nan[N * N], c[N * N], got[N * N];
    for (int i = 0; i < N * N; i++) {
        nan[i] = NAN;
        c[i] = i;
    }
    trp_buffer a = h_buffer(world.device, sizeof nan), b = h_buffer(world.device, sizeof c);
    h_write(world.device, a, 0, nan, sizeof nan);
    for (int round = 0; round < 4; round++) {
        trp_completion done = {0};
        trp_gemm_request r = {.type = TRP_F64, .m = N, .n = N, .k = N, .a = a, .b = a, .c = b};
        r.beta = trp_real(round % 2 ? 2.0 : 0.0);
        if (round < 2)
            r.alpha = trp_real(0);
        else
            r.k = 0;
        if (round == 3)
            r.a = r.b = (trp_buffer){UINT64_MAX}; /* not even looked at */
        h_write(world.device, b, 0, c, sizeof c);
        H_OK(trp_gemm(blas, &r, &done));
        H_OK(h_await_any(done));
        h_read(world.device, b, 0, got, sizeof got);
        for (int i = 0; i < N * N; i++)
            H_CHECK(got[i] == (round % 2 ? 2.0 * i : 0.0));
    }
    h_close(&world);
}

/* A request that is right; each case below breaks one thing in it. */
static trp_gemm_request right(trp_buffer a, trp_buffer b, trp_buffer c)
{
    return (trp_gemm_request){.type = TRP_F32,
                              .m = 5,
                              .n = 6,
                              .k = 7,
                              .a = a,
                              .b = b,
                              .c = c,
                              .lda = 5,
                              .ldb = 7,
                              .ldc = 5};
}

/* Many small products at once, some of which need the results of others: whatever of them is done
 * in one call, all come to what they come to one after the other. Small integers, so exactly. */

enum { SIDE = 8, CELLS = SIDE * SIDE, INPUTS = 20, OUTPUTS = 60, DEEPEST = 3 };

typedef struct small {
    trp_buffer buffer;
    float value[CELLS];
    int depth; /* products that it is made of, one after the other */
} small;

static void multiply_small(small *out, const small *a, const small *b)
{
    out->depth = 1 + (a->depth > b->depth ? a->depth : b->depth);
    for (int j = 0; j < SIDE; j++) {
        for (int i = 0; i < SIDE; i++) {
            float sum = 0;
            for (int k = 0; k < SIDE; k++)
                sum += a->value[i + k * SIDE] * b->value[k + j * SIDE];
            out->value[i + j * SIDE] = sum;
        }
    }
}

/* An input, or now and then an output that is not too large to be computed with exactly. */
static const small *pick(const small *all)
{
    const small *x = &all[ref_rng_below(h_rng(), INPUTS)];
    const small *out = &all[INPUTS + ref_rng_below(h_rng(), OUTPUTS)];
    return ref_rng_below(h_rng(), 12) == 0 && out->depth > 0 && out->depth < DEEPEST ? out : x;
}

static void many_at_once(void)
{
    static small all[INPUTS + OUTPUTS];
    float got[CELLS];
    open_world();
    for (int i = 0; i < INPUTS + OUTPUTS; i++) {
        all[i] = (small){.buffer = h_buffer(world.device, sizeof got)};
        for (int k = 0; k < CELLS; k++)
            all[i].value[k] = (float)ref_rng_below(h_rng(), 3) - 1;
        h_write(world.device, all[i].buffer, 0, all[i].value, sizeof got);
    }
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < 150; i++) {
            small *out = &all[INPUTS + ref_rng_below(h_rng(), OUTPUTS)];
            const small *a = pick(all), *b = pick(all);
            if (a == out || b == out)
                continue;
            multiply_small(out, a, b);
            trp_gemm_request r = {.header = {.wait_ns = H_LONG},
                                  .type = TRP_F32,
                                  .m = SIDE,
                                  .n = SIDE,
                                  .k = SIDE,
                                  .a = a->buffer,
                                  .b = b->buffer,
                                  .c = out->buffer};
            if (ref_rng_below(h_rng(), 60) == 0)
                r.joining = TRP_JOINING_OFF;
            H_OK(trp_gemm(blas, &r, NULL));
        }
        for (int i = INPUTS; i < INPUTS + OUTPUTS; i++) {
            h_read(world.device, all[i].buffer, 0, got, sizeof got);
            H_SAME(got, all[i].value, sizeof got);
        }
    }
    h_close(&world);
}

static void bad_input(void)
{
    open_world();
    trp_buffer a = h_buffer(world.device, 35 * 4), b = h_buffer(world.device, 42 * 4);
    trp_buffer c = h_buffer(world.device, 30 * 4);
    trp_completion done = {.future = {9}};
    trp_gemm_request r = right(a, b, c);
    uint64_t before = h_info(world.device).requests_submitted;

#define BAD(field, value, word)                                                                    \
    do {                                                                                           \
        r = right(a, b, c);                                                                        \
        r.field = (value);                                                                         \
        H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);                                           \
        H_SAYS(word);                                                                              \
        H_CHECK(strcmp(trp_error_last()->actor, "blas") == 0);                                     \
    } while (0)

    BAD(type_c, TRP_F64, "type_c");
    BAD(trans_a, TRP_T, "lda"); /* stored 7 x 5 now */
    BAD(c, a, "");              /* too small, or the overlap with A: either names c */
    BAD(batch, 2, "c_stride");
    BAD(type, TRP_F64, "");
#undef BAD

    r = right(a, b, c);
    r.type = TRP_F16;
    r.compute = TRP_COMPUTE_TF32;
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);
    H_SAYS("compute");
    r = right(a, b, c);
    r.batch = 2;
    r.c_stride = 29;
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);
    H_SAYS("c_stride");
    r.c_stride = 30;
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);
    H_SAYS("c:");
    r.a_stride = -1;
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);
    r.batch = INT64_MAX;
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);

    /* Overlaps. */
    trp_buffer all = h_buffer(world.device, 4096);
    r = right(all, all, all);
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);
    H_SAYS("overlap");
    r.c_offset = 35 * 4 - 4;
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);
    r.b_offset = 1024;
    r.c_offset = 1024 + 42 * 4 - 4;
    H_IS(trp_gemm(blas, &r, &done), TRP_E_ARGUMENT);
    H_SAYS("b");

    /* The header. */
    H_IS(trp_submit(blas, NULL, &done), TRP_E_ARGUMENT);
    H_IS(trp_submit(NULL, &r.header, &done), TRP_E_ARGUMENT);
    r.header.size = sizeof r;
    r.header.op = TRP_OP_PROBE;
    H_IS(trp_submit(blas, &r.header, &done), TRP_E_UNSUPPORTED);
    r.header.op = 0;
    H_IS(trp_submit(blas, &r.header, &done), TRP_E_UNSUPPORTED);
    H_EQUAL(done.future.id, 9);
    H_EQUAL(h_info(world.device).requests_submitted, before);
    /* Nothing was sent, and nothing is held. */
    r = right(a, b, c);
    if (h_is_cuda() && !h_is_gpu()) { /* the fake is a Hopper, which says so only in its turn */
        trp_completion told = {0};
        r.compute = TRP_COMPUTE_EMULATED;
        H_OK(trp_gemm(blas, &r, &told));
        H_IS(h_await_any(told), TRP_E_UNSUPPORTED);
        H_SAYS("needs a device of compute capability 10.0");
        r.compute = TRP_COMPUTE_DEFAULT;
    }
    H_OK(trp_gemm(blas, &r, NULL));
    H_OK(trp_device_drain(world.device, H_LONG));
    H_OK(trp_buffer_free(world.device, a));
    H_OK(trp_buffer_free(world.device, b));
    H_OK(trp_buffer_free(world.device, c));
    H_OK(trp_buffer_free(world.device, all));
    H_EQUAL(h_info(world.device).buffers, 0);
    h_close(&world);
}

/* Many small ones of i8 in one mailbox: on a GPU some of them are done in one call. */
static void many_integers(void)
{
    enum { EDGE = 16, AREA = EDGE * EDGE, COUNT = 100 };
    int8_t x[AREA];
    int32_t sums[AREA], got[AREA];
    trp_buffer c[COUNT];
    open_world();
    h_random_bytes(h_rng(), x, sizeof x);
    for (int j = 0; j < EDGE; j++) {
        for (int i = 0; i < EDGE; i++) {
            sums[i + j * EDGE] = 0;
            for (int k = 0; k < EDGE; k++)
                sums[i + j * EDGE] += x[k + i * EDGE] * x[k + j * EDGE];
        }
    }
    trp_gemm_request r = {.header = {.wait_ns = H_LONG},
                          .type = TRP_I8,
                          .trans_a = TRP_T,
                          .m = EDGE,
                          .n = EDGE,
                          .k = EDGE};
    r.a = r.b = h_buffer(world.device, sizeof x);
    h_write(world.device, r.a, 0, x, sizeof x);
    for (int i = 0; i < COUNT; i++) {
        r.c = c[i] = h_buffer(world.device, sizeof got);
        H_OK(trp_gemm(blas, &r, NULL));
    }
    for (int i = 0; i < COUNT; i++) {
        h_read(world.device, c[i], 0, got, sizeof got);
        H_SAME(got, sums, sizeof got);
    }
    h_close(&world);
}

#define BAD(code, word, ...)                                                                       \
    do {                                                                                           \
        r = good;                                                                                  \
        __VA_ARGS__;                                                                               \
        H_IS(trp_gemm(blas, &r, &done), code);                                                     \
        H_SAYS(word);                                                                              \
    } while (0)

static void bad_integers(void)
{
    open_world();
    trp_completion done = {0};
    trp_buffer all = h_buffer(world.device, 4096);
    const trp_gemm_request good = {
        .type = TRP_I8, .m = 8, .n = 5, .k = 4, .a = all, .b = all, .c = all, .c_offset = 1024};
    trp_gemm_request r;
    BAD(TRP_E_ARGUMENT, "alpha: expected an integer", r.alpha = trp_real(0.5));
    BAD(TRP_E_ARGUMENT, "alpha: expected an integer", r.alpha = trp_real(0x1p31));
    BAD(TRP_E_ARGUMENT, "alpha: expected an integer", r.alpha = trp_real(NAN));
    BAD(TRP_E_ARGUMENT, "beta: expected an integer", r.beta = trp_real(-0x1p31 - 1));
    BAD(TRP_E_ARGUMENT, "beta: expected an integer", r.beta = trp_complex(1, 1));
    BAD(TRP_E_ARGUMENT, "beta: expected none, since it is read from `scalars`", r.scalars = all;
        r.beta = trp_real(2));
    BAD(TRP_E_ARGUMENT, "type_c: expected i32 or f32", r.type_c = TRP_I8);
    BAD(TRP_E_ARGUMENT, "type_c: expected i32 or f32", r.type_c = TRP_F64);
    BAD(TRP_E_ARGUMENT, "type_c: expected the same or f32", r.type = TRP_F16; r.type_c = TRP_BF16);
    BAD(TRP_E_ARGUMENT, "type_c: expected the same for", r.type = TRP_F32; r.type_c = TRP_F16);
    BAD(TRP_E_ARGUMENT, "type: expected", r.type = TRP_U8);
    BAD(TRP_E_ARGUMENT, "compute: TRP_COMPUTE_TF32", r.compute = TRP_COMPUTE_TF32);
    BAD(TRP_E_ARGUMENT, "compute: TRP_COMPUTE_EMULATED goes", r.compute = TRP_COMPUTE_EMULATED);
    BAD(TRP_E_ARGUMENT, "c_offset: expected a multiple of 4", r.c_offset = 1026);
    BAD(TRP_E_ARGUMENT, "c: the request needs", r.c_offset = 4096 - 4 * 8 * 5 + 4);
    BAD(TRP_E_ARGUMENT, "overlap", r.c_offset = 28);
    BAD(TRP_E_ARGUMENT, "scalars_offset", r.scalars = all; r.scalars_offset = 2);
    if (h_is_cuda()) {
        BAD(TRP_E_UNSUPPORTED, "lda: expected a multiple of 4", r.m = 7);
        BAD(TRP_E_UNSUPPORTED, "ldb: expected a multiple of 4", r.ldb = 6);
        BAD(TRP_E_UNSUPPORTED, "ldb: expected a multiple of 4", r.k = 3; r.order = TRP_COL_MAJOR);
        BAD(TRP_E_UNSUPPORTED, "a_offset: expected a multiple of 4", r.a_offset = 3);
        BAD(TRP_E_UNSUPPORTED, "b_offset: expected a multiple of 4", r.b_offset = 2);
        BAD(TRP_E_UNSUPPORTED, "a_stride: expected a multiple of 4", r.a_stride = 33; r.batch = 2;
            r.c_stride = 40);
    }
    r = good; /* ... but not what is not looked at */
    r.m = 7;
    r.k = 0;
    r.beta = trp_real(3);
    H_OK(trp_gemm(blas, &r, NULL));
    r = good;
    r.compute = TRP_COMPUTE_PEDANTIC;
    r.trans_a = TRP_T;
    r.m = r.n = r.k = 16;
    H_OK(trp_gemm(blas, &r, &done));
    H_OK(h_await_any(done));
    h_close(&world);
}
#undef BAD

/* More rows than the host's BLAS counts: refused before anything is written. */
static void too_many_rows(void)
{
    trp_completion done = {0};
    trp_gemm_request r = {.type = TRP_F16, .m = INT64_C(1) << 31, .n = 1};
    if (h_is_cuda())
        h_skip("cuBLAS counts in 64 bits");
    open_world();
    r.c = h_buffer(world.device, (uint64_t)r.m * 2);
    trp_status status = trp_gemm(blas, &r, &done);
    if (status == TRP_OK)
        status = h_await_any(done);
    H_IS(status, TRP_E_UNSUPPORTED);
    h_close(&world);
}

static void actor_options(void)
{
    open_world();
    trp_actor *actor = NULL;
    static const char *const bad[] = {"", "Blas", "blas ", "memory", "cublas", NULL};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        trp_actor_options o = {.kind = bad[i]};
        H_IS(trp_actor_create(world.device, &o, &actor), TRP_E_ARGUMENT);
        H_SAYS("kind");
        H_SAYS("\"blas\"");
        H_SAYS("\"probe\"");
        H_CHECK(!strstr(trp_error_message(), "\"memory\",")); /* it is internal */
    }
    trp_actor_options o = {.kind = "blas", .name = "a name of thirty-two bytes, full"};
    H_EQUAL(strlen(o.name), 32);
    H_IS(trp_actor_create(world.device, &o, &actor), TRP_E_ARGUMENT);
    H_SAYS("name");
    H_IS(trp_actor_create(NULL, &o, &actor), TRP_E_ARGUMENT);
    H_IS(trp_actor_create(world.device, NULL, &actor), TRP_E_ARGUMENT);
    o.name = "a name of thirty-one bytes, ok.";
    H_IS(trp_actor_create(world.device, &o, NULL), TRP_E_ARGUMENT);
    H_OK(trp_actor_create(world.device, &o, &actor));
    H_CHECK(trp_actor_device(actor) == world.device);
    trp_gemm_request r = {.type = TRP_F32, .m = -1};
    H_IS(trp_gemm(actor, &r, NULL), TRP_E_ARGUMENT);
    H_CHECK(strcmp(trp_error_last()->actor, o.name) == 0);
    trp_actor_destroy(actor);
    trp_actor_destroy(NULL);
    h_close(&world);
}

H_CASES(H_CASE(inputs_that_do_not_count), H_CASE(many_at_once), H_CASE(many_integers),
        H_CASE(bad_input), H_CASE(bad_integers), H_CASE(too_many_rows), H_CASE(actor_options))

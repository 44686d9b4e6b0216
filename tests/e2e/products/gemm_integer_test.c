/* Products of i8: mistakes in more than one field, and many that are joined. */
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

static trp_buffer upload(const void *bytes, size_t size)
{
    trp_buffer b = h_buffer(world.device, size);
    h_write(world.device, b, 0, bytes, size);
    return b;
}

/* Many small ones in one mailbox: on a GPU some of them are done in one call. */
static void many_at_once(void)
{
    enum { SIDE = 16, CELLS = SIDE * SIDE, COUNT = 100 };
    int8_t x[CELLS];
    int32_t sums[CELLS], got[CELLS];
    trp_buffer c[COUNT];
    open_world();
    h_random_bytes(h_rng(), x, sizeof x);
    for (int j = 0; j < SIDE; j++) {
        for (int i = 0; i < SIDE; i++) {
            sums[i + j * SIDE] = 0;
            for (int k = 0; k < SIDE; k++)
                sums[i + j * SIDE] += x[k + i * SIDE] * x[k + j * SIDE];
        }
    }
    trp_gemm_request r = {.header = {.wait_ns = H_LONG},
                          .type = TRP_I8,
                          .trans_a = TRP_T,
                          .m = SIDE,
                          .n = SIDE,
                          .k = SIDE};
    r.a = r.b = upload(x, sizeof x);
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
        r = right;                                                                                 \
        __VA_ARGS__;                                                                               \
        H_IS(trp_gemm(blas, &r, &done), code);                                                     \
        H_SAYS(word);                                                                              \
    } while (0)

static void bad_input(void)
{
    open_world();
    trp_completion done = {0};
    trp_buffer all = h_buffer(world.device, 4096);
    const trp_gemm_request right = {
        .type = TRP_I8, .m = 8, .n = 5, .k = 4, .a = all, .b = all, .c = all, .c_offset = 1024};
    trp_gemm_request r;
    BAD(TRP_E_ARGUMENT, "alpha: expected an integer", r.alpha = trp_real(0.5));
    BAD(TRP_E_ARGUMENT, "alpha: expected an integer", r.alpha = trp_real(0x1p31));
    BAD(TRP_E_ARGUMENT, "alpha: expected an integer", r.alpha = trp_real(NAN));
    BAD(TRP_E_ARGUMENT, "beta: expected an integer", r.beta = trp_real(-0x1p31 - 1));
    BAD(TRP_E_ARGUMENT, "beta: expected an integer", r.beta = trp_complex(1, 1));
    BAD(TRP_E_ARGUMENT, "beta: expected none beside", r.scalars = all; r.beta = trp_real(2));
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
    r = right; /* ... but not what is not looked at */
    r.m = 7;
    r.k = 0;
    r.beta = trp_real(3);
    H_OK(trp_gemm(blas, &r, NULL));
    r = right;
    r.compute = TRP_COMPUTE_PEDANTIC;
    r.trans_a = TRP_T;
    r.m = r.n = r.k = 16;
    H_OK(trp_gemm(blas, &r, &done));
    H_OK(h_await_any(done));
    h_close(&world);
}
#undef BAD

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"bad_input", bad_input},
        {"many_at_once", many_at_once},
    };
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

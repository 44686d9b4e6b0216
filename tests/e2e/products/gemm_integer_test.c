/* Products of i8, against exact integers; and how products are computed beside the default. */
#include "support/harness.h"

#include <math.h>

TROUPE_TEST("computes", "one isolation", "no tsan");
TROUPE_TEST_FAKE_GPU("no sanitizer", "FAKE_CUDA_ATTRIBUTE=75=10");

static h_world world;
static trp_actor *blas;

static void open_world(void)
{
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
}

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

/* Matrices of a request as they lie in memory, one element a line and place of it. */
typedef struct layout {
    bool row_major;
    size_t rows, columns;
    size_t offset, ld, stride, span; /* elements */
} layout;

/* With gaps of random width; `step`: what leading dimension, offset and stride are multiples of. */
static layout lay_out(bool row_major, size_t rows, size_t columns, size_t batch, bool shared,
                      size_t step)
{
    layout x = {.row_major = row_major, .rows = rows, .columns = columns};
    size_t run = row_major ? columns : rows, lines = row_major ? rows : columns;
    x.ld = ((run > 0 ? run : 1) + below(6) + step - 1) / step * step;
    x.offset = below(5) * step;
    x.stride = shared ? 0 : (lines * x.ld + below(7) + step - 1) / step * step;
    x.span = x.offset + (batch - 1) * x.stride + lines * x.ld + 8;
    return x;
}

static size_t at(const layout *x, size_t i, size_t j, size_t b)
{
    return x->offset + b * x->stride + (x->row_major ? i * x->ld + j : j * x->ld + i);
}

static trp_buffer upload(const void *bytes, size_t size)
{
    trp_buffer b = h_buffer(world.device, size);
    h_write(world.device, b, 0, bytes, size);
    return b;
}

typedef struct problem {
    bool to_f32, row_major, trans_a, trans_b, share_a, share_b, scalars_in_buffer, extremes;
    trp_compute compute;
    size_t m, n, k, batch;
    int32_t alpha, beta;
} problem;

static int8_t *random_bytes(const problem *p, size_t count)
{
    int8_t *x = h_malloc(count);
    h_random_bytes(h_rng(), x, count);
    for (size_t i = 0; p->extremes && i < count; i++)
        x[i] = x[i] < 0 ? -128 : 127;
    return x;
}

/* An element of C as an exact integer; modulo 2^32 for C of i32. */
static int64_t expected(const problem *p, const layout *la, const int8_t *a, const layout *lb,
                        const int8_t *b, int64_t old, size_t i, size_t j, size_t batch)
{
    int64_t sum = 0;
    for (size_t l = 0; l < p->k; l++)
        sum += (int64_t)a[p->trans_a ? at(la, l, i, batch) : at(la, i, l, batch)] *
               b[p->trans_b ? at(lb, j, l, batch) : at(lb, l, j, batch)];
    /* Wraps only where the element does. */
    uint64_t value =
        (uint64_t)p->alpha * (uint64_t)sum + (p->beta ? (uint64_t)p->beta * (uint64_t)old : 0);
    return (int64_t)value;
}

static trp_gemm_request request_of(const problem *p, const layout *a, const layout *b,
                                   const layout *c)
{
    return (trp_gemm_request){
        .type = TRP_I8,
        .type_c = p->to_f32  ? TRP_F32
                  : below(2) ? TRP_I32
                             : TRP_DTYPE_NONE,
        .compute = p->compute,
        .order = p->row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
        .trans_a = p->trans_a ? TRP_T : TRP_N,
        .trans_b = p->trans_b ? TRP_C : TRP_N,
        .m = (int64_t)p->m,
        .n = (int64_t)p->n,
        .k = (int64_t)p->k,
        .a_offset = a->offset,
        .b_offset = b->offset,
        .c_offset = 4 * c->offset,
        .lda = (int64_t)a->ld,
        .ldb = (int64_t)b->ld,
        .ldc = (int64_t)c->ld,
        .a_stride = (int64_t)a->stride,
        .b_stride = (int64_t)b->stride,
        .c_stride = (int64_t)c->stride,
        .batch = (int64_t)p->batch,
    };
}

/* By value, or in a buffer of the compute type. */
static void set_scalars(const problem *p, trp_gemm_request *r)
{
    int32_t integers[] = {p->alpha, p->beta};
    float reals[] = {(float)p->alpha, (float)p->beta};
    if (p->scalars_in_buffer) {
        r->scalars = upload(p->to_f32 ? (const void *)reals : integers, 8);
        return;
    }
    if (p->alpha != 1)
        r->alpha = trp_real(p->alpha);
    if (p->beta != 0)
        r->beta = trp_real(p->beta);
}

/* cuBLAS on a GPU refuses layouts and sizes of its choice where C is of i32. */
static bool may_be_refused(const problem *p)
{
    bool tn = p->row_major ? !p->trans_a && p->trans_b : p->trans_a && !p->trans_b;
    bool round = p->m % 16 == 0 && p->n % 16 == 0 && p->k % 16 == 0;
    return h_is_cuda() && !p->to_f32 && !(tn && round);
}

static int refused;

static void run(const problem *p)
{
    layout la = lay_out(p->row_major, p->trans_a ? p->k : p->m, p->trans_a ? p->m : p->k, p->batch,
                        p->share_a, h_is_cuda() ? 4 : 1);
    layout lb = lay_out(p->row_major, p->trans_b ? p->n : p->k, p->trans_b ? p->k : p->n, p->batch,
                        p->share_b, h_is_cuda() ? 4 : 1);
    layout lc = lay_out(p->row_major, p->m, p->n, p->batch, false, 1);
    int8_t *a = random_bytes(p, la.span), *b = random_bytes(p, lb.span);
    int32_t *before = h_malloc(lc.span * 4), *after = h_malloc(lc.span * 4);
    h_random_bytes(h_rng(), before, lc.span * 4);
    for (size_t i = 0; p->to_f32 && i < lc.span; i++) { /* small integers */
        float value = (float)(before[i] % 1000);
        memcpy(&before[i], p->beta || p->scalars_in_buffer ? &value : &(float){NAN}, 4);
    }
    trp_gemm_request r = request_of(p, &la, &lb, &lc);
    trp_completion done = {0};
    r.a = upload(a, la.span);
    r.b = upload(b, lb.span);
    r.c = upload(before, lc.span * 4);
    set_scalars(p, &r);
    H_OK(trp_gemm(blas, &r, &done));
    trp_status status = h_await_any(done);
    bool is_refused = status == TRP_E_UNSUPPORTED && may_be_refused(p);
    refused += is_refused;
    if (is_refused)
        H_SAYS("type_c: cuBLAS");
    else
        H_OK(status);
    h_read(world.device, r.c, 0, after, lc.span * 4);
    for (size_t x = 0; x < p->batch && !is_refused; x++) {
        for (size_t j = 0; j < p->n; j++) {
            for (size_t i = 0; i < p->m; i++) {
                size_t k = at(&lc, i, j, x);
                float f32;
                memcpy(&f32, &before[k], 4);
                int64_t old = p->to_f32 ? (p->beta ? (int64_t)f32 : 0) : before[k];
                int64_t want = expected(p, &la, a, &lb, b, old, i, j, x);
                int32_t bits = (int32_t)(uint32_t)want;
                f32 = (float)want;
                if (p->to_f32 && f32 == 0 && (uint32_t)after[k] == UINT32_C(0x80000000))
                    f32 = -0.0f; /* any zero will do */
                memcpy(&before[k], p->to_f32 ? (const void *)&f32 : &bits, 4);
                if (before[k] != after[k])
                    h_fail(__FILE__, __LINE__,
                           "to %s order %d trans %d %d m n k %zu %zu %zu batch %zu alpha %d beta "
                           "%d: C(%zu, %zu) of %zu is %#x, expected %#x",
                           p->to_f32 ? "f32" : "i32", p->row_major, p->trans_a, p->trans_b, p->m,
                           p->n, p->k, p->batch, p->alpha, p->beta, i, j, x, (unsigned)after[k],
                           (unsigned)before[k]);
            }
        }
    }
    H_SAME(after, before, lc.span * 4); /* and the gaps */
    const trp_buffer used[] = {r.a, r.b, r.c, r.scalars};
    for (int i = 0; i < (p->scalars_in_buffer ? 4 : 3); i++)
        H_OK(trp_buffer_free(world.device, used[i]));
    free(a);
    free(b);
    free(before);
    free(after);
}

static problem random_problem(size_t most)
{
    static const int32_t alphas[] = {1, 1, -3, 0, INT32_MIN, 1 << 20},
                         betas[] = {0, 0, 1, -5, 77777};
    problem p = {
        .row_major = below(2),
        .trans_a = below(2),
        .trans_b = below(2),
        .share_a = below(3) == 0,
        .share_b = below(3) == 0,
        .scalars_in_buffer = below(4) == 0,
        .extremes = below(4) == 0,
        .compute = below(3) == 0 ? TRP_COMPUTE_PEDANTIC : TRP_COMPUTE_DEFAULT,
        .m = h_random_size(h_rng(), most),
        .n = h_random_size(h_rng(), most),
        .k = h_random_size(h_rng(), 2 * most),
        .batch = 1 + below(4),
        .alpha = alphas[below(6)],
        .beta = betas[below(5)],
    };
    return p;
}

static void to_i32(void)
{
    open_world();
    for (int i = 0; i < (H_TSAN ? 15 : H_SANITIZED ? 60 : 250); i++) {
        problem p = random_problem(90);
        run(&p);
    }
    printf("  %d products refused\n", refused);
    h_close(&world);
}

/* What every cuBLAS does: none of these may be refused. */
static void in_sixteens(void)
{
    open_world();
    for (int i = 0; i < (H_TSAN ? 5 : 40); i++) {
        problem p = random_problem(5);
        p.trans_a = !p.row_major;
        p.trans_b = p.row_major;
        p.m = 16 * p.m + 16;
        p.n = 16 * p.n + 16;
        p.k = 16 * p.k + 16;
        run(&p);
    }
    h_close(&world);
}

/* More than one block in each direction, and sums that leave 32 bits only after they are scaled. */
static void larger(void)
{
    open_world();
    for (int i = 0; i < 4; i++) {
        problem p = {.m = i == 1 ? 144 : 131,
                     .n = i == 1 ? 80 : 67,
                     .k = i == 1 ? 2064 : 2051,
                     .batch = 1,
                     .alpha = 1 << (8 * i),
                     .beta = i,
                     .extremes = i % 2,
                     .trans_a = i & 1,
                     .trans_b = i & 2,
                     .to_f32 = false};
        run(&p);
    }
    h_close(&world);
}

/* Everything is an integer that f32 holds. */
static void to_f32(void)
{
    open_world();
    for (int i = 0; i < (H_TSAN ? 15 : H_SANITIZED ? 60 : 200); i++) {
        problem p = random_problem(60);
        p.to_f32 = true;
        p.alpha = (int32_t)below(5) - 2;
        p.beta = (int32_t)below(3) - 1;
        run(&p);
    }
    h_close(&world);
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

/* Emulation where there is none is told, and not done otherwise. The fake is a Hopper, unless it is
 * told to be a Blackwell. */
static void emulated(void)
{
    enum { SIDE = 33, CELLS = SIDE * SIDE };
    open_world();
    double x[CELLS], got[CELLS];
    float x32[CELLS];
    for (int i = 0; i < CELLS; i++) {
        x32[i] = (float)ref_rng_uniform(h_rng(), -1, 1);
        x[i] = (double)x32[i];
    }
    trp_gemm_request r = {.compute = TRP_COMPUTE_EMULATED, .m = SIDE, .n = SIDE, .k = SIDE};
    trp_buffer wide = upload(x, sizeof x), single = upload(x32, sizeof x32);
    const char *answer = getenv("FAKE_CUDA_ATTRIBUTE");
    bool blackwell = answer && strcmp(answer, "75=10") == 0;
    for (int f64 = 0; f64 < 2; f64++) {
        trp_completion done = {0};
        trp_error error;
        r.type = f64 ? TRP_F64 : TRP_F32;
        r.a = r.b = f64 ? wide : single;
        r.c = h_buffer(world.device, sizeof got);
        if (!h_is_cuda()) {
            H_IS(trp_gemm(blas, &r, &done), TRP_E_UNSUPPORTED);
            H_SAYS("compute: TRP_COMPUTE_EMULATED is not to be had on the host");
            continue;
        }
        H_OK(trp_gemm(blas, &r, &done));
        trp_status status = h_await(done.future, &error);
        if (!f64 && !blackwell && !h_is_gpu()) {
            H_EQUAL(status, TRP_E_UNSUPPORTED);
            H_SAYS("needs a device of compute capability 10.0");
            continue;
        }
        if (h_is_gpu() && status == TRP_E_UNSUPPORTED) {
            printf("  %s\n", error.message);
            continue;
        }
        H_OK(status);
        memset(got, 0xff, sizeof got);
        h_read(world.device, r.c, 0, got, CELLS * (f64 ? 8 : 4));
        for (int j = 0; j < SIDE; j++) {
            for (int i = 0; i < SIDE; i++) {
                double sum = 0, value;
                for (int k = 0; k < SIDE; k++)
                    sum += x[i + k * SIDE] * x[k + j * SIDE];
                value = f64 ? got[i + j * SIDE] : (double)((float *)(void *)got)[i + j * SIDE];
                H_CHECK(fabs(value - sum) <= SIDE * 4 * (f64 ? 0x1p-53 : 0x1p-24) * SIDE);
            }
        }
    }
    h_close(&world);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"to_i32", to_i32},
        {"in_sixteens", in_sixteens},
        {"larger", larger},
        {"to_f32", to_f32},
        {"emulated", emulated},
        {"bad_input", bad_input},
        {"many_at_once", many_at_once},
    };
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

/* The kernels that multiply f32 on tensor cores, against sums in f64: all layouts, tiles that
 * blocks share, edges, epilogues, and numbers that two of tf32 do not hold. On the tests' device.
 */
#include "actors/dnn/engines/product_multiply.h"
#include "driver/cuda.h"
#include "support/reference/reference.h"
#include "support/label.h"

#include <troupe/matmul.h>
#include <troupe/types.h>

#include "support/unit.h"

#include <math.h>

TROUPE_TEST_FAKE_GPU("dnn");

enum { PROCESSORS = 2, GUARD = 64 /* numbers behind each matrix */ };

/* What a few roundings of the terms are, relative to the sum of their magnitudes. */
#define TOLERANCE 4e-7

typedef enum numbers { ORDINARY, DENORMAL, INFINITE, LARGEST, SMALL_PRODUCTS } numbers;

typedef struct row {
    const char *what;
    int64_t m, n, k, batch;
    int64_t pad; /* of lines */
    bool bias;
    uint8_t activation;
    numbers numbers;
    bool shared;        /* tiles are */
    uint64_t workspace; /* 0: 64 MiB */
} row;

static const row rows[] = {
    {"one tile", 128, 128, 64, 1, 0, false, TRP_ACTIVATION_NONE, ORDINARY, false, 0},
    {"edges", 131, 70, 45, 1, 0, false, TRP_ACTIVATION_NONE, ORDINARY, false, 0},
    {"wide lines", 68, 132, 36, 1, 4, true, TRP_ACTIVATION_RELU, ORDINARY, false, 0},
    {"unaligned lines", 65, 130, 33, 1, 1, true, TRP_ACTIVATION_GELU, ORDINARY, false, 0},
    {"a batch", 66, 65, 350, 3, 2, true, TRP_ACTIVATION_NONE, ORDINARY, true, 0},
    {"shared", 120, 100, 355, 1, 0, true, TRP_ACTIVATION_RELU, ORDINARY, true, 0},
    {"columns by parts", 300, 301, 100, 1, 0, true, TRP_ACTIVATION_RELU, ORDINARY, false,
     300 << 10},
    {"a batch by parts", 70, 66, 40, 5, 0, true, TRP_ACTIVATION_NONE, ORDINARY, false, 200 << 10},
    {"one number", 1, 1, 1, 1, 0, false, TRP_ACTIVATION_NONE, ORDINARY, false, 0},
    {"denormal numbers", 70, 66, 40, 1, 0, false, TRP_ACTIVATION_NONE, DENORMAL, false, 0},
    {"infinities and NaN", 70, 66, 360, 1, 0, true, TRP_ACTIVATION_RELU, INFINITE, true, 0},
    {"the largest number", 70, 66, 40, 1, 0, false, TRP_ACTIVATION_NONE, LARGEST, false, 0},
    {"products that are denormal", 70, 66, 40, 1, 0, false, TRP_ACTIVATION_NONE, SMALL_PRODUCTS,
     false, 0},
};

static ref_rng rng;
static const trp__cuda *cu;
static trp__cu_stream stream;
static trp__kernel_modules kernels;

/* Matrices of a row, in the memory of the host and of the device. */
typedef struct place {
    int64_t numbers;
    float *host;
    trp__cu_address device;
} place;

static place make(int64_t count)
{
    place p = {.numbers = count + GUARD, .host = malloc((size_t)(count + GUARD) * sizeof(float))};
    assert_non_null(p.host);
    for (int64_t i = 0; i < p.numbers; i++)
        p.host[i] = NAN;
    assert_int_equal(cu->cuMemAllocAsync(&p.device, (size_t)p.numbers * sizeof(float), stream), 0);
    assert_int_equal(cu->cuStreamSynchronize(stream), 0);
    return p;
}

static void drop(place *p)
{
    assert_int_equal(cu->cuMemFreeAsync(p->device, stream), 0);
    free(p->host);
}

static void upload(const place *p)
{
    assert_int_equal(trp__cuda_upload(cu, p->device, p->host, (size_t)p->numbers * sizeof(float)),
                     0);
}

static void fill(const place *p, double scale)
{
    for (int64_t i = 0; i < p->numbers - GUARD; i++)
        p->host[i] = (float)(ref_rng_uniform(&rng, -1, 1) * scale);
}

static void fill_inputs(const row *r, const place *a, const place *b)
{
    fill(a, r->numbers == DENORMAL ? 0x1p-130 : r->numbers == SMALL_PRODUCTS ? 0x1p-70 : 1);
    fill(b, r->numbers == DENORMAL ? 0x1p100 : r->numbers == SMALL_PRODUCTS ? 0x1p-70 : 1);
    if (r->numbers == INFINITE) {
        a->host[0] = INFINITY;
        a->host[5] = NAN;
        b->host[7] = -INFINITY;
    } else if (r->numbers == LARGEST) {
        a->host[3] = 0x1.fffffep127f;
    }
}

/* One element as the reference has it, and as a loop of multiply-adds has it. */
typedef struct element {
    double sum, magnitude;
    float loop;
} element;

static element element_of(const trp__matmul *g, const float *a, const float *b, const float *bias,
                          int64_t i, int64_t j)
{
    element e = {0};
    for (int64_t k = 0; k < g->k; k++) {
        const float x = a[g->trans_a ? k + i * g->ld[TRP__MATMUL_A] : i + k * g->ld[TRP__MATMUL_A]];
        const float y = b[g->trans_b ? j + k * g->ld[TRP__MATMUL_B] : k + j * g->ld[TRP__MATMUL_B]];
        e.sum += (double)x * y;
        e.magnitude += fabs((double)x * y);
        e.loop = fmaf(x, y, e.loop);
    }
    if (bias) {
        e.sum += bias[i];
        e.magnitude += fabs((double)bias[i]);
        e.loop += bias[i];
    }
    if (g->activation == TRP_ACTIVATION_RELU) {
        e.sum = e.sum < 0 ? 0 : e.sum;
        e.loop = e.loop < 0 ? 0 : e.loop;
    } else if (g->activation == TRP_ACTIVATION_GELU) {
        const double x = e.sum;
        e.sum = x / (1 + exp(-1.59576912160573071176 * (x + 0.044715 * x * x * x)));
    }
    return e;
}

static void compare(const row *r, const trp__matmul *g, const place at[])
{
    const place *d = &at[TRP__MATMUL_D];
    for (int64_t z = 0; z < g->batch; z++) {
        const float *a = at[TRP__MATMUL_A].host + z * g->stride[TRP__MATMUL_A];
        const float *b = at[TRP__MATMUL_B].host + z * g->stride[TRP__MATMUL_B];
        const float *bias = r->bias ? at[TRP__MATMUL_VECTOR].host : NULL;
        for (int64_t l = 0; l < g->ld[TRP__MATMUL_D] * g->n; l++) {
            const int64_t i = l % g->ld[TRP__MATMUL_D], j = l / g->ld[TRP__MATMUL_D];
            const float got = d->host[z * g->stride[TRP__MATMUL_D] + l];
            if (i >= g->m) {
                assert_true(isnan(got)); /* what lies between is left alone */
                continue;
            }
            const element e = element_of(g, a, b, bias, i, j);
            const bool same = isfinite(e.loop)
                                  ? fabs(got - e.sum) <= TOLERANCE * e.magnitude + 0x1p-143
                              : isnan(e.loop) ? isnan(got)
                                              : got == e.loop;
            if (!same)
                fail_msg("%s, %c%c: D[%d, %d] is %g, expected %g (%g)", r->what,
                         g->trans_a ? 't' : 'n', g->trans_b ? 't' : 'n', (int)i, (int)j,
                         (double)got, e.sum, (double)e.loop);
        }
    }
    for (int64_t i = d->numbers - GUARD; i < d->numbers; i++)
        assert_true(isnan(d->host[i]));
}

static trp__dnn_product describe(const row *r, int layout)
{
    trp__dnn_product p = {.times = 1,
                          .workspace = r->workspace ? r->workspace : UINT64_C(64) << 20};
    trp__matmul *g = &p.problem;
    memset(g->type, TRP_F32, sizeof g->type);
    *g = (trp__matmul){.trans_a = (uint8_t)(layout % 2),
                       .trans_b = (uint8_t)(layout / 2),
                       .activation = r->activation,
                       .m = r->m,
                       .n = r->n,
                       .k = r->k,
                       .batch = r->batch};
    g->ld[TRP__MATMUL_A] = (g->trans_a ? r->k : r->m) + r->pad;
    g->ld[TRP__MATMUL_B] = (g->trans_b ? r->n : r->k) + r->pad;
    g->ld[TRP__MATMUL_D] = r->m + r->pad;
    g->stride[TRP__MATMUL_A] = g->ld[TRP__MATMUL_A] * (g->trans_a ? r->m : r->k);
    g->stride[TRP__MATMUL_B] = g->ld[TRP__MATMUL_B] * (g->trans_b ? r->k : r->n);
    g->stride[TRP__MATMUL_D] = g->ld[TRP__MATMUL_D] * r->n;
    return p;
}

static void launch(const row *r, trp__dnn_multiply *plan, const place at[], trp__cu_address parts)
{
    void *operand[TRP__MATMUL_OPERANDS] = {0};
    const trp__kernel_launch l = {
        .modules = &kernels, .stream = stream, .workspace = (void *)(uintptr_t)parts};
    trp_error error = {0};
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++) {
        if (at[i].host && (i != TRP__MATMUL_VECTOR || r->bias))
            operand[i] = (void *)(uintptr_t)at[i].device;
    }
    if (trp__dnn_multiply_launch(plan, &l, operand, &error) != TRP_OK)
        fail_msg("%s: %s", r->what, error.message);
    assert_int_equal(cu->cuStreamSynchronize(stream), 0);
}

static void run(const row *r, int layout)
{
    const trp__dnn_product product = describe(r, layout);
    const trp__matmul *g = &product.problem;
    place at[TRP__MATMUL_OPERANDS] = {0};
    trp__dnn_multiply plan;
    uint64_t workspace;
    assert_true(trp__dnn_multiply_plan(&kernels, &product, &plan, &workspace));
    assert_true(workspace <= product.workspace);
    assert_int_equal(plan.part_bytes > 0, r->shared);
    for (int i = 0; i < TRP__MATMUL_MATRICES; i++) {
        if (i != TRP__MATMUL_C && i != TRP__MATMUL_AUX)
            at[i] = make(g->batch * g->stride[i]);
    }
    at[TRP__MATMUL_VECTOR] = make(r->m);
    place parts = make((int64_t)(workspace / sizeof(float)));
    fill_inputs(r, &at[TRP__MATMUL_A], &at[TRP__MATMUL_B]);
    fill(&at[TRP__MATMUL_VECTOR], 1);
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++) {
        if (at[i].host)
            upload(&at[i]);
    }
    upload(&parts);
    launch(r, &plan, at, parts.device);
    const place *d = &at[TRP__MATMUL_D];
    assert_int_equal(cu->cuMemcpyDtoH_v2(d->host, d->device, (size_t)d->numbers * sizeof(float)),
                     0);
    compare(r, g, at);
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++) {
        if (at[i].host)
            drop(&at[i]);
    }
    drop(&parts);
}

static void products(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int layout = 0; layout < 4; layout++)
            run(&rows[i], layout);
    }
}

/* What is taken: f32 that need not be tf32, and is large enough. */
static void taken(void **unused)
{
    static const trp__matmul large = {
        .type = {TRP_F32, TRP_F32, TRP_F32, TRP_F32}, .m = 512, .n = 512, .k = 512, .batch = 1};
    (void)unused;
    trp__matmul g = large;
    memset(g.access, TRP__MATMUL_NO_ACCESS, sizeof g.access);
    assert_true(trp__dnn_multiply_takes(&g));
    g.compute = TRP_COMPUTE_TF32;
    assert_false(trp__dnn_multiply_takes(&g));
    g.compute = TRP_COMPUTE_PEDANTIC;
    assert_false(trp__dnn_multiply_takes(&g));
    g.compute = TRP_COMPUTE_DEFAULT;
    g.type[TRP__MATMUL_D] = TRP_BF16;
    assert_false(trp__dnn_multiply_takes(&g));
    g.type[TRP__MATMUL_D] = TRP_F32;
    g.k = 16;
    g.m = 1 << 20;
    assert_false(trp__dnn_multiply_takes(&g));
}

/* What no plan is made for: a workspace that does not hold a step of 128 columns, another device.
 */
static void not_planned(void **unused)
{
    static const row r = {"", 128, 128, 4096, 1, 0, false, TRP_ACTIVATION_NONE, ORDINARY, false, 0};
    trp__dnn_product product = describe(&r, 0);
    trp__kernel_modules other = {.cu = cu, .target = "sm_100", .processors = PROCESSORS};
    trp__dnn_multiply plan;
    uint64_t workspace;
    (void)unused;
    assert_true(trp__dnn_multiply_plan(&kernels, &product, &plan, &workspace));
    assert_false(trp__dnn_multiply_plan(&other, &product, &plan, &workspace));
    product.workspace = 128 * 32768; /* of the split matrix; words come on top */
    assert_false(trp__dnn_multiply_plan(&kernels, &product, &plan, &workspace));
    product.workspace = 0;
    assert_false(trp__dnn_multiply_plan(&kernels, &product, &plan, &workspace));
}

static int set_up(void **unused)
{
    trp__cu_context context;
    trp_error error = {0};
    (void)unused;
    if (trp__cuda_load(&cu, &error) != TRP_OK || cu->cuInit(0) != 0 ||
        cu->cuDevicePrimaryCtxRetain(&context, 0) != 0 || cu->cuCtxSetCurrent(context) != 0 ||
        cu->cuStreamCreate(&stream, TRP__CU_STREAM_NON_BLOCKING) != 0)
        return -1;
    kernels = (trp__kernel_modules){.cu = cu, .target = "sm_90", .processors = PROCESSORS};
    if (trp__kernels_make(&kernels, TRP__MODULE_MULTIPLY, NULL, &error) != TRP_OK) {
        printf("%s\n", error.message);
        return -1;
    }
    ref_rng_init(&rng, 20261126);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    trp__kernels_end(&kernels, NULL);
    cu->cuStreamSynchronize(stream); /* frees what is left */
    cu->cuStreamDestroy_v2(stream);
    return cu->cuDevicePrimaryCtxRelease_v2(0) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {UNIT(products), UNIT(taken), UNIT(not_planned)};
    if (!getenv("TROUPE_CUDA_DRIVER") || !getenv("TROUPE_NVRTC")) {
        fprintf(stderr,
                "TROUPE_CUDA_DRIVER and TROUPE_NVRTC are not set: a device and a compiler\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

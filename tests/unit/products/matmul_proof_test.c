/* Proofs of cuBLASLt's algorithms against the reference kernel, on the tests' device: of all types,
 * layouts, epilogues and scales what the library proposes first is good, and what it computes for
 * another problem is wrong. Prints what a proof takes: on a GPU each one is made twice, since the
 * first one has the library load its kernels. */
#include "actors/matmul/proofs.h"
#include "base/os/clock.h"
#include "matrix/record.h"
#include "matrix/reference/launch.h"
#include "support/label.h"

#include <troupe/matmul.h>

#include "support/unit.h"

TROUPE_TEST_FAKE_GPU("no sanitizer");

enum { CANDIDATES = 4 };

typedef struct row {
    const char *what;
    int64_t m, n, k, batch;
    uint8_t type, type_d, type_c; /* 0: there is no C */
    uint8_t scalar;
    uint8_t trans_a, trans_b;
    uint8_t compute, activation, gradient;
    uint8_t bias, aux;      /* types; of bits 0xff */
    uint8_t scale;          /* a trp_scale_mode, plus 1 */
    int64_t pad;            /* of lines */
    bool in_place, outputs; /* scale and largest magnitude of D */
    bool alphas;            /* one for each row, of each member of the batch */
} row;

static const row all_rows[] = {
    {"f32", 128, 96, 64, 1, TRP_F32, TRP_F32, TRP_F32, TRP_F32, .in_place = true},
    {"f32 odd", 131, 70, 45, 1, TRP_F32, TRP_F32, TRP_F32, TRP_F32, TRP_T, .trans_b = TRP_T,
     .pad = 3},
    {"f32 vector", 1, 70, 200, 1, TRP_F32, TRP_F32, 0, TRP_F32, TRP_N, .pad = 0},
    {"f32 deep", 64, 64, 20000, 1, TRP_F32, TRP_F32, 0, TRP_F32, TRP_T, .pad = 0},
    {"f32 pedantic", 130, 66, 100, 1, TRP_F32, TRP_F32, 0, TRP_F32, TRP_N,
     .compute = TRP_COMPUTE_PEDANTIC},
    {"tf32", 256, 128, 512, 1, TRP_F32, TRP_F32, 0, TRP_F32, TRP_N, .compute = TRP_COMPUTE_TF32},
    {"f32 in place", 1, 33, 20, 3, TRP_F32, TRP_F32, TRP_F32, TRP_F32, .in_place = true},
    {"f64 in place", 7, 1, 3, 3, TRP_F64, TRP_F64, TRP_F64, TRP_F64, .trans_b = TRP_T, .pad = 3,
     .in_place = true},
    {"bf16 in place", 1, 3, 2, 1, TRP_BF16, TRP_BF16, TRP_BF16, TRP_F32, .pad = 1,
     .in_place = true},
    {"bf16 small", 1, 2, 6, 1, TRP_BF16, TRP_BF16, 0, TRP_F32, TRP_T, .trans_b = TRP_T,
     .activation = TRP_ACTIVATION_GELU, .bias = TRP_BF16, .aux = TRP_BF16},
    {"bf16 shallow", 12, 5, 1, 3, TRP_BF16, TRP_BF16, 0, TRP_F32, .activation = TRP_ACTIVATION_RELU,
     .bias = TRP_BF16},
    {"bf16 apart", 6, 3, 20, 3, TRP_BF16, TRP_BF16, TRP_BF16, TRP_F32, TRP_T, .trans_b = TRP_T,
     .activation = TRP_ACTIVATION_RELU, .bias = TRP_BF16},
    {"f64", 100, 90, 80, 1, TRP_F64, TRP_F64, TRP_F64, TRP_F64, TRP_T, .pad = 0},
    {"c64", 33, 40, 50, 1, TRP_C64, TRP_C64, TRP_C64, TRP_C64, TRP_C, .trans_b = TRP_T,
     .in_place = true},
    {"c128", 33, 40, 50, 2, TRP_C128, TRP_C128, TRP_C128, TRP_C128, TRP_N, .trans_b = TRP_C},
    {"bf16", 512, 384, 256, 1, TRP_BF16, TRP_BF16, TRP_BF16, TRP_F32, TRP_T, .pad = 0},
    {"bf16 large", 4096, 4096, 4096, 1, TRP_BF16, TRP_BF16, 0, TRP_F32, TRP_N, .pad = 0},
    {"bf16 to f32", 300, 100, 1000, 3, TRP_BF16, TRP_F32, 0, TRP_F32, TRP_N, .trans_b = TRP_T},
    {"f16 bias relu", 256, 200, 128, 1, TRP_F16, TRP_F16, 0, TRP_F32, TRP_T,
     .activation = TRP_ACTIVATION_RELU, .bias = TRP_F16},
    {"f16 relu aux", 256, 200, 128, 1, TRP_F16, TRP_F16, 0, TRP_F32, TRP_T,
     .activation = TRP_ACTIVATION_RELU, .bias = TRP_F16, .aux = 0xff},
    {"bf16 gelu aux", 256, 200, 128, 1, TRP_BF16, TRP_BF16, TRP_BF16, TRP_F32, TRP_T,
     .activation = TRP_ACTIVATION_GELU, .bias = TRP_BF16, .aux = TRP_BF16},
    {"f16 gelu far", 1, 2, 20, 1, TRP_F16, TRP_F32, TRP_F32, TRP_F32, TRP_T, .trans_b = TRP_T,
     .activation = TRP_ACTIVATION_GELU, .bias = TRP_F32, .aux = TRP_F32},
    {"bf16 single", 1, 1, 2, 1, TRP_BF16, TRP_BF16, TRP_BF16, TRP_F32, TRP_T, .trans_b = TRP_T,
     .activation = TRP_ACTIVATION_GELU, .bias = TRP_BF16, .aux = TRP_BF16, .in_place = true},
    {"bf16 drelu", 256, 200, 128, 1, TRP_BF16, TRP_BF16, 0, TRP_F32, TRP_T,
     .activation = TRP_ACTIVATION_DRELU, .aux = 0xff},
    {"bf16 drelu gradient", 256, 200, 128, 1, TRP_BF16, TRP_BF16, 0, TRP_F32, TRP_T,
     .activation = TRP_ACTIVATION_DRELU, .gradient = TRP_BIAS_GRADIENT_D, .bias = TRP_BF16,
     .aux = 0xff},
    {"f16 dgelu", 256, 200, 128, 1, TRP_F16, TRP_F16, 0, TRP_F32, TRP_T,
     .activation = TRP_ACTIVATION_DGELU, .aux = TRP_F16},
    {"f16 gradient a", 256, 200, 128, 1, TRP_F16, TRP_F16, 0, TRP_F32, TRP_N, .trans_b = TRP_T,
     .gradient = TRP_BIAS_GRADIENT_A, .bias = TRP_F16},
    {"f16 gradient b", 256, 200, 128, 1, TRP_F16, TRP_F16, 0, TRP_F32, TRP_N, .trans_b = TRP_T,
     .gradient = TRP_BIAS_GRADIENT_B, .bias = TRP_F16},
    {"i8 to i32", 256, 192, 128, 1, TRP_I8, TRP_I32, TRP_I32, TRP_I32, TRP_T, .pad = 0},
    {"i8 to i8", 256, 192, 128, 1, TRP_I8, TRP_I8, 0, TRP_F32, TRP_T, .pad = 0},
    {"f32 alphas", 130, 66, 100, 2, TRP_F32, TRP_F32, TRP_F32, TRP_F32, .alphas = true},
    {"bf16 alphas", 64, 72, 128, 1, TRP_BF16, TRP_BF16, 0, TRP_F32, TRP_T,
     .activation = TRP_ACTIVATION_GELU, .bias = TRP_BF16, .alphas = true},
    {"i8 alphas", 256, 192, 128, 1, TRP_I8, TRP_I32, TRP_I32, TRP_I32, TRP_T, .alphas = true},
    {"i8 to i8 alphas", 256, 192, 128, 1, TRP_I8, TRP_I8, 0, TRP_F32, TRP_T, .alphas = true},
    {"fp8", 256, 192, 512, 1, TRP_F8E4M3, TRP_BF16, 0, TRP_F32, TRP_T, .scale = 1},
    {"fp8 to fp8", 256, 192, 512, 1, TRP_F8E4M3, TRP_F8E4M3, TRP_BF16, TRP_F32, TRP_T, .scale = 1,
     .outputs = true},
    {"fp8 gelu", 32, 16, 304, 1, TRP_F8E4M3, TRP_F8E4M3, TRP_BF16, TRP_F32, TRP_T,
     .activation = TRP_ACTIVATION_GELU, .scale = 1, .outputs = true},
    {"fp8 vectors", 256, 192, 512, 1, TRP_F8E4M3, TRP_BF16, 0, TRP_F32, TRP_T,
     .scale = 1 + TRP_SCALE_VECTOR},
    {"fp8 blocks", 256, 192, 512, 1, TRP_F8E4M3, TRP_BF16, 0, TRP_F32, TRP_T,
     .scale = 1 + TRP_SCALE_BLOCK_128},
    {"fp8 deep", 256, 256, 16384, 1, TRP_F8E4M3, TRP_F32, 0, TRP_F32, TRP_T, .scale = 1},
};

static const trp__cuda *cu;
static trp__matmul_planner planner;
static trp__cu_module module;
static trp__cu_function reference;
static char target[16];

static void add(trp__matmul *g, int operand, uint8_t *accesses)
{
    g->access[operand] = (*accesses)++;
}

static void set_matrix(trp__matmul *g, const row *r, int which, uint8_t type, int64_t rows,
                       int64_t columns)
{
    g->type[which] = type;
    g->ld[which] = rows + r->pad;
    g->stride[which] = r->batch > 1 ? g->ld[which] * columns : 0;
}

static trp__matmul problem_of(const row *r)
{
    trp__matmul g;
    uint8_t accesses = 0;
    memset(&g, 0, sizeof g);
    memset(g.access, TRP__MATMUL_NO_ACCESS, sizeof g.access);
    g.m = r->m;
    g.n = r->n;
    g.k = r->k;
    g.batch = r->batch;
    g.scalar_type = r->scalar;
    g.trans_a = r->trans_a;
    g.trans_b = r->trans_b;
    g.compute = r->compute & 15u;
    g.activation = r->activation;
    g.gradient = r->gradient;
    g.workspace = 32 << 20;
    const bool a = r->trans_a == TRP_N, b = r->trans_b == TRP_N;
    set_matrix(&g, r, TRP__MATMUL_A, r->type, a ? r->m : r->k, a ? r->k : r->m);
    set_matrix(&g, r, TRP__MATMUL_B, r->type, b ? r->k : r->n, b ? r->n : r->k);
    set_matrix(&g, r, TRP__MATMUL_D, r->type_d, r->m, r->n);
    set_matrix(&g, r, TRP__MATMUL_C,
               r->type_c                 ? r->type_c
               : r->type_d == TRP_F8E4M3 ? TRP_BF16
                                         : r->type_d,
               r->m, r->n);
    for (int i = TRP__MATMUL_A; i <= TRP__MATMUL_D; i++) {
        if (i != TRP__MATMUL_C || (r->type_c && !r->in_place))
            add(&g, i, &accesses);
    }
    if (r->type_c && r->in_place)
        g.access[TRP__MATMUL_C] = g.access[TRP__MATMUL_D];
    if (r->aux) {
        g.type[TRP__MATMUL_AUX] = r->aux == 0xff ? TRP_DTYPE_NONE : r->aux;
        g.ld[TRP__MATMUL_AUX] = (r->m + 127) / 128 * 128;
        add(&g, TRP__MATMUL_AUX, &accesses);
    }
    if (r->bias) {
        g.vector_type = r->bias;
        add(&g, TRP__MATMUL_VECTOR, &accesses);
    }
    if (r->scale) {
        g.scale_a = g.scale_b = (uint8_t)(r->scale - 1);
        add(&g, TRP__MATMUL_SCALE_A, &accesses);
        add(&g, TRP__MATMUL_SCALE_B, &accesses);
    }
    if (r->alphas) {
        g.alphas_stride = r->batch > 1 ? r->m : 0;
        add(&g, TRP__MATMUL_ALPHAS, &accesses);
    }
    if (r->outputs) {
        add(&g, TRP__MATMUL_SCALE_D, &accesses);
        add(&g, TRP__MATMUL_AMAX_D, &accesses);
    }
    return g;
}

/* Addresses that are aligned like those of a request: to 16 bytes, or to an element. */
static trp__matmul_key key_of(const trp__matmul *g, const row *r, void *at[TRP__MATMUL_OPERANDS])
{
    const uintptr_t element = trp_dtype_bits((trp_dtype)r->type) / 8;
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++)
        at[i] = g->access[i] == TRP__MATMUL_NO_ACCESS && i != TRP__MATMUL_C
                    ? NULL
                    : (void *)(4096 + (r->pad % 2 ? element : 16));
    if (g->access[TRP__MATMUL_C] == TRP__MATMUL_NO_ACCESS)
        at[TRP__MATMUL_C] = NULL;
    return trp__matmul_key_of(g, at);
}

/* --- cases --- */

typedef struct tally {
    int proven, bad, timed;
    int64_t all_ns, most_ns, phase_ns[TRP__PROOF_PHASES];
} tally;

static bool is_fake(void)
{
    return getenv("TROUPE_TEST_GPU") != NULL;
}

static int64_t prove_plan(const trp__matmul_key *key, const trp__matmul_plan *plan,
                          trp__proof_verdict *verdict)
{
    const int64_t began = trp__now_ns();
    trp__matmul_prove(&planner, cu, key, plan, reference, verdict);
    return trp__now_ns() - began;
}

static void prove_proposal(const row *r, const trp__matmul_key *key, const trp__matmul_plan *plan,
                           tally *t)
{
    char name[TRP__MATMUL_ALGO_NAME];
    trp__proof_verdict verdict;
    trp__matmul_algo_name(&planner, plan, name);
    int64_t took = prove_plan(key, plan, &verdict);
    printf("%-20s %-28s %8.3f ms", r->what, name, (double)took / 1e6);
    if (!is_fake() && verdict.result == TRP__PROOF_GOOD) {
        took = prove_plan(key, plan, &verdict);
        printf(", then %7.3f ms:", (double)took / 1e6);
        for (int i = 0; i < TRP__PROOF_PHASES; i++) {
            printf(" %6.3f", (double)verdict.phase_ns[i] / 1e6);
            t->phase_ns[i] += verdict.phase_ns[i];
        }
        t->timed++;
        t->all_ns += took;
        t->most_ns = took > t->most_ns ? took : t->most_ns;
    }
    printf("  result %d %s\n", (int)verdict.result, verdict.reason);
    assert_true(verdict.result != TRP__PROOF_BROKE);
    t->proven += verdict.result == TRP__PROOF_GOOD;
    t->bad += verdict.result != TRP__PROOF_GOOD;
}

static void print_tally(const tally *t)
{
    printf("%d good, %d not\n", t->proven, t->bad);
    if (t->timed == 0)
        return;
    printf("with kernels loaded: %.3f ms on average, %.3f at most; of the average\n",
           (double)t->all_ns / t->timed / 1e6, (double)t->most_ns / 1e6);
    static const char *const names[TRP__PROOF_PHASES] = {
        "open", "inputs", "send reference", "send plan", "wait", "compare", "close"};
    for (int i = 0; i < TRP__PROOF_PHASES; i++)
        printf("  %-14s %7.3f ms\n", names[i], (double)t->phase_ns[i] / t->timed / 1e6);
}

static void proposals(void **unused)
{
    tally t = {0};
    (void)unused;
    for (size_t i = 0; i < sizeof all_rows / sizeof *all_rows; i++) {
        const row *r = &all_rows[i];
        const trp__matmul g = problem_of(r);
        void *at[TRP__MATMUL_OPERANDS];
        trp__matmul_plan plan = {0};
        trp__cublaslt_result proposal[CANDIDATES];
        trp_error error = {0};
        const trp__matmul_key key = key_of(&g, r, at);
        if (g.m * g.n * g.k > 1 << 25 && is_fake())
            continue; /* the fake takes long for it */
        if (trp__matmul_plan_make(&planner, &key, at, &plan, &error) != TRP_OK) {
            printf("%-20s %s\n", r->what, error.message);
            continue;
        }
        const int count = trp__matmul_plan_candidates(&planner, &key, &plan, proposal, CANDIDATES);
        for (int p = 0; p < count; p++) {
            plan.algo = proposal[p].algo;
            plan.workspace = proposal[p].workspace_bytes;
            prove_proposal(r, &key, &plan, &t);
        }
        trp__matmul_plan_drop(planner.lt, &plan);
    }
    print_tally(&t);
    assert_true(t.proven > 50);
    assert_int_equal(t.bad, 0);
}

/* What a plan for relu computes is no plain product; nor is one with B transposed. */
static void other_problems(void **unused)
{
    (void)unused;
    row right = {"f32", 64, 64, 64, 1, TRP_F32, TRP_F32, TRP_F32, TRP_F32, .pad = 0};
    row wrong[] = {right, right, right};
    wrong[0].activation = TRP_ACTIVATION_RELU;
    wrong[1].trans_b = TRP_T;
    wrong[2].k = 63;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const trp__matmul g = problem_of(&right), other = problem_of(&wrong[i]);
        void *at[TRP__MATMUL_OPERANDS];
        trp__matmul_plan plan = {0};
        trp_error error = {0};
        trp__proof_verdict verdict;
        const trp__matmul_key key = key_of(&g, &right, at), other_key = key_of(&other, &right, at);
        assert_int_equal(trp__matmul_plan_make(&planner, &other_key, at, &plan, &error), TRP_OK);
        trp__matmul_prove(&planner, cu, &key, &plan, reference, &verdict);
        printf("result %d %s\n", (int)verdict.result, verdict.reason);
        assert_int_equal(verdict.result, TRP__PROOF_WRONG);
        trp__matmul_plan_drop(planner.lt, &plan);
    }
}

static bool load_reference(void)
{
    trp_error error = {0};
    void *image = NULL;
    size_t bytes;
    const int64_t began = trp__now_ns();
    if (trp__own_image(NULL, target, &trp__matmul_reference_program, NULL, &image, &bytes,
                       &error) != TRP_OK) {
        printf("%s\n", error.message);
        return false;
    }
    printf("the reference: compiled in %.0f ms, %zu bytes\n", (double)(trp__now_ns() - began) / 1e6,
           bytes);
    const bool good = cu->cuModuleLoadData(&module, image) == 0 &&
                      cu->cuModuleGetFunction(&reference, module, TRP__PRODUCT_KERNEL) == 0;
    free(image);
    return good;
}

static int set_up(void **unused)
{
    size_t bytes;
    const void *constants = trp__matmul_constants(&bytes);
    int l2 = 0;
    (void)unused;
    cu->cuDeviceGetAttribute(&planner.major, TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
    cu->cuDeviceGetAttribute(&planner.minor, TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
    cu->cuDeviceGetAttribute(&l2, TRP__CU_ATTRIBUTE_L2_CACHE_SIZE, 0);
    planner.l2_bytes = (uint64_t)l2;
    snprintf(target, sizeof target, "sm_%d%d", planner.major, planner.minor);
    return planner.lt->cublasLtCreate(&planner.handle) == 0 &&
                   cu->cuMemAlloc_v2(&planner.constants, bytes) == 0 &&
                   trp__cuda_upload(cu, planner.constants, constants, bytes) == 0 &&
                   load_reference()
               ? 0
               : -1;
}

static int tear_down(void **unused)
{
    (void)unused;
    cu->cuModuleUnload(module);
    cu->cuMemFree_v2(planner.constants);
    planner.lt->cublasLtDestroy(planner.handle);
    return cu->cuDevicePrimaryCtxRelease_v2(0) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {UNIT(proposals), UNIT(other_problems)};
    trp__cu_context context;
    trp_error error = {0};
    if (trp__cuda_load(&cu, &error) != TRP_OK || cu->cuInit(0) != 0 ||
        cu->cuDevicePrimaryCtxRetain(&context, 0) != 0 || cu->cuCtxSetCurrent(context) != 0 ||
        trp__cublaslt_load(&planner.lt, &error) != TRP_OK) {
        fprintf(stderr, "no device, or no cuBLASLt: %s\n", error.message);
        return 77;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

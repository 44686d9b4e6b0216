/* The fake cuBLASLt itself: what its descriptors and heuristic refuse, what it computes, and how it
 * is made to fail. */
#include "unit/fakes/fake_cublaslt_product.h"

#include "support/fake_cuda/hooks.h"
#include "support/label.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TROUPE_TEST("computes", "no tsan");

enum { ALLOC_FAILED = 3, INVALID = 7, EXECUTION_FAILED = 13, UNSUPPORTED = 15 };

static __typeof__(&fake_cublaslt_count) count;
static __typeof__(&fake_cublaslt_fail) fail_calls;

static void find_hooks(void)
{
    void *library = dlopen(trp__cublaslt_path(), RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    *(void **)&count = dlsym(library, "fake_cublaslt_count");
    *(void **)&fail_calls = dlsym(library, "fake_cublaslt_fail");
    assert_true(count && fail_calls);
}

static bool is_complex(int type)
{
    return type == T(C_32F) || type == T(C_64F);
}

/* Cases. */

static void every_type(void **state)
{
    (void)state;
    const struct {
        int compute, scale, ab, cd;
    } rows[] = {
        {T(COMPUTE_16F), T(R_16F), T(R_16F), T(R_16F)},
        {T(COMPUTE_32I), T(R_32I), T(R_8I), T(R_32I)},
        {T(COMPUTE_32I_PEDANTIC), T(R_32F), T(R_8I), T(R_8I)},
        {T(COMPUTE_32F), T(R_32F), T(R_8I), T(R_32F)},
        {T(COMPUTE_32F), T(R_32F), T(R_16F), T(R_16F)},
        {T(COMPUTE_32F), T(R_32F), T(R_16F), T(R_32F)},
        {T(COMPUTE_32F), T(R_32F), T(R_16BF), T(R_16BF)},
        {T(COMPUTE_32F_PEDANTIC), T(R_32F), T(R_16BF), T(R_32F)},
        {T(COMPUTE_32F_FAST_TF32), T(R_32F), T(R_32F), T(R_32F)},
        {T(COMPUTE_32F_FAST_16BF), T(C_32F), T(C_32F), T(C_32F)},
        {T(COMPUTE_64F), T(R_64F), T(R_64F), T(R_64F)},
        {T(COMPUTE_64F), T(C_64F), T(C_64F), T(C_64F)},
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        for (int trans = 0; trans < 9; trans++) {
            product p = lt_usual();
            if (rows[row].ab == T(R_8I) && trans != 1)
                continue; /* "TN" */
            p.compute = rows[row].compute;
            p.scale = rows[row].scale;
            for (int i = 0; i < 4; i++)
                p.types[i] = i < 2 ? rows[row].ab : rows[row].cd;
            p.trans_a = trans % 3;
            p.trans_b = trans / 3;
            if (is_complex(p.scale))
                p.alpha = __builtin_complex(2.0, 1.0);
            lt_check_product(p);
        }
    }
}

static void every_epilogue(void **state)
{
    (void)state;
    static const uint32_t all[] = {
#define ROW(since, name, value) value,
        TRP__CUBLASLT_EPILOGUES(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        product p = lt_usual();
        p.epilogue = all[i];
        p.alpha = 0.125; /* where gelu is not straight */
        p.beta = 0.5;
        lt_check_product(p);
        p.batch = 3;
        p.trans_b = 1;
        p.compute = T(COMPUTE_64F);
        p.scale = T(R_64F);
        for (int x = 0; x < 4; x++)
            p.types[x] = T(R_64F);
        lt_check_product(p);
    }
}

static void rows_first(void **state)
{
    (void)state;
    for (int trans = 0; trans < 4; trans++) {
        product p = lt_usual();
        p.order = T(ORDER_ROW);
        p.trans_a = trans % 2;
        p.trans_b = trans / 2;
        p.epilogue = RELU | BIAS;
        lt_check_product(p);
    }
}

static void scalars_on_the_device(void **state)
{
    (void)state;
    const int modes[] = {T(POINTER_MODE_DEVICE), T(POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO),
                         T(POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST)};
    for (size_t i = 0; i < 3; i++) {
        product p = lt_usual();
        p.pointer_mode = modes[i];
        lt_check_product(p);
    }
}

static void eight_bits(void **state)
{
    (void)state;
    product p = lt_usual_f8(T(R_16BF));
    p.tensor_scales = true;
    p.epilogue = BIAS;
    lt_check_product(p);
    p.types[2] = T(R_16F);
    p.types[3] = T(R_8F_E5M2);
    p.d_scale = true;
    lt_check_product(p);
    p.types[3] = T(R_8F_E4M3);
    p.types[1] = T(R_8F_E4M3);
    p.epilogue = GELU | AUX | BIAS;
    p.alpha = 0.125;
    lt_check_product(p);
    p.aux_type = T(R_16F);
    lt_check_product(p);
}

static void factors_of_parts(void **state)
{
    (void)state;
    const int modes[][2] = {
        {T(MATMUL_MATRIX_SCALE_OUTER_VEC_32F), T(MATMUL_MATRIX_SCALE_OUTER_VEC_32F)},
        {T(MATMUL_MATRIX_SCALE_VEC128_32F), T(MATMUL_MATRIX_SCALE_VEC128_32F)},
        {T(MATMUL_MATRIX_SCALE_VEC128_32F), T(MATMUL_MATRIX_SCALE_BLK128x128_32F)},
        {T(MATMUL_MATRIX_SCALE_BLK128x128_32F), T(MATMUL_MATRIX_SCALE_VEC128_32F)},
    };
    for (size_t i = 0; i < 4; i++) {
        product p = lt_usual_f8(T(R_16BF));
        p.m = 144;
        p.n = 150;
        p.k = 272;
        p.a_mode = modes[i][0];
        p.b_mode = modes[i][1];
        lt_check_product(p);
    }
}

/* What the heuristic must answer for a product that is changed in one thing. */
static void refuses(product p, int status)
{
    trp__cublaslt_result results[1];
    int found;
    lt_set_up(&p);
    assert_int_equal(lt_ask(&p, 0, 16, 1, results, &found), status);
    assert_int_equal(found, 0);
    assert_int_not_equal(lt_multiply(&p, NULL, 0, 0, 0), 0);
    lt_take_down(&p);
}

#define REFUSES(product_, change, status)                                                          \
    do {                                                                                           \
        product p = product_;                                                                      \
        change;                                                                                    \
        refuses(p, status);                                                                        \
    } while (0)

static void what_hopper_can_not(void **state)
{
    (void)state;
    const product f8 = lt_usual_f8(T(R_16BF));
    REFUSES(lt_usual(), p.types[3] = T(R_16F), UNSUPPORTED);
    REFUSES(lt_usual(), p.scale = T(R_64F), UNSUPPORTED);
    REFUSES(lt_usual(), p.compute = T(COMPUTE_32F_EMULATED_16BFX9), UNSUPPORTED);
    REFUSES(lt_usual(), p.order = T(ORDER_COL32), UNSUPPORTED);
    REFUSES(lt_usual(), p.epilogue = 3, INVALID);
    REFUSES(lt_usual(), p.a_mode = p.b_mode = T(MATMUL_MATRIX_SCALE_OUTER_VEC_32F), INVALID);
    REFUSES(lt_usual(), p.tensor_scales = true, INVALID);
    REFUSES(lt_usual(), p.pointer_mode = T(POINTER_MODE_DEVICE_VECTOR), UNSUPPORTED);
    REFUSES(f8, p.types[0] = T(R_8F_E5M2), UNSUPPORTED);
    REFUSES(f8, p.trans_a = 0, UNSUPPORTED);
    REFUSES(f8, p.trans_b = 1, UNSUPPORTED);
    REFUSES(f8, p.k = 40, UNSUPPORTED);
    REFUSES(f8, p.m = 40, UNSUPPORTED);
    REFUSES(f8, p.compute = T(COMPUTE_32F_PEDANTIC), UNSUPPORTED);
    REFUSES(f8, p.types[3] = T(R_32F), UNSUPPORTED);
    REFUSES(f8, p.epilogue = DRELU | AUX, UNSUPPORTED);
    REFUSES(f8, p.epilogue = BGRADB, UNSUPPORTED);
    REFUSES(f8, p.d_scale = true, INVALID);
    REFUSES(f8, p.a_mode = p.b_mode = T(MATMUL_MATRIX_SCALE_VEC32_UE8M0), UNSUPPORTED);
    REFUSES(f8, p.a_mode = p.b_mode = T(MATMUL_MATRIX_SCALE_BLK128x128_32F), UNSUPPORTED);
    REFUSES(f8, p.a_mode = T(MATMUL_MATRIX_SCALE_OUTER_VEC_32F), UNSUPPORTED);
    REFUSES(lt_usual_f8(T(R_8F_E4M3)), p.a_mode = p.b_mode = T(MATMUL_MATRIX_SCALE_OUTER_VEC_32F),
            UNSUPPORTED);
    REFUSES(lt_usual(), p.types[0] = p.types[1] = p.types[2] = p.types[3] = T(R_4F_E2M1),
            UNSUPPORTED);
}

static void descriptors(void **state)
{
    (void)state;
    product p = lt_usual();
    trp__cublaslt_result result;
    trp__cublaslt_preference preference;
    int found;
    p.epilogue = RELU | AUX | BIAS;
    lt_set_up(&p);
#define DESC(name, value, bytes)                                                                   \
    lt_api->cublasLtMatmulDescSetAttribute(p.desc, T(MATMUL_DESC_##name), value, bytes)
    const uint64_t none = 0, odd = p.bias.at + 2;
    const int64_t short_ld = 64;
    assert_int_equal(DESC(EPILOGUE, NULL, 4), INVALID);
    assert_int_equal(DESC(EPILOGUE, &none, 8), INVALID);
    assert_int_equal(DESC(FAST_ACCUM, &none, 4), INVALID);
    assert_int_equal(
        lt_api->cublasLtMatmulDescSetAttribute(p.desc, (trp__cublaslt_desc_attribute)9, &none, 8),
        INVALID);
    assert_int_equal(
        lt_api->cublasLtMatrixLayoutSetAttribute(p.layout[0], T(MATRIX_LAYOUT_LD), &none, 4),
        INVALID);
    OK(lt_api->cublasLtMatmulPreferenceCreate(&preference));
    assert_int_equal(lt_api->cublasLtMatmulPreferenceSetAttribute(
                         preference, (trp__cublaslt_preference_attribute)2, &none, 4),
                     INVALID);
    OK(lt_api->cublasLtMatmulPreferenceDestroy(preference));

    OK(lt_ask(&p, 0, 16, 1, &result, &found));
    OK(DESC(BIAS_POINTER, &none, 8));
    assert_int_equal(lt_ask(&p, 0, 16, 1, &result, &found), INVALID);
    OK(DESC(BIAS_POINTER, &odd, 8));
    assert_int_equal(lt_ask(&p, 0, 16, 1, &result, &found), INVALID);
    OK(DESC(BIAS_POINTER, &p.bias.at, 8));
    OK(DESC(EPILOGUE_AUX_LD, &short_ld, 8));
    assert_int_equal(lt_ask(&p, 0, 16, 1, &result, &found), INVALID);
    OK(DESC(EPILOGUE_AUX_LD, &p.aux_ld, 8));
    OK(DESC(EPILOGUE_AUX_POINTER, &none, 8));
    assert_int_equal(lt_ask(&p, 0, 16, 1, &result, &found), INVALID);
    OK(DESC(EPILOGUE_AUX_POINTER, &p.aux.at, 8));
    OK(lt_ask(&p, 0, 16, 1, &result, &found));

    const int64_t small_ld = p.m - 1;
    OK(lt_api->cublasLtMatrixLayoutSetAttribute(p.layout[2], T(MATRIX_LAYOUT_LD), &small_ld, 8));
    assert_int_equal(lt_ask(&p, 0, 16, 1, &result, &found), INVALID);
    OK(lt_api->cublasLtMatrixLayoutSetAttribute(p.layout[2], T(MATRIX_LAYOUT_LD), &p.ld[2], 8));
    const int32_t two = 2;
    OK(lt_api->cublasLtMatrixLayoutSetAttribute(p.layout[1], T(MATRIX_LAYOUT_BATCH_COUNT), &two,
                                                4));
    assert_int_equal(lt_ask(&p, 0, 16, 1, &result, &found), INVALID);
    OK(lt_api->cublasLtMatrixLayoutSetAttribute(p.layout[1], T(MATRIX_LAYOUT_BATCH_COUNT), &p.batch,
                                                4));
    const uint64_t other_k = (uint64_t)p.k + 1;
    OK(lt_api->cublasLtMatrixLayoutSetAttribute(p.layout[0], T(MATRIX_LAYOUT_COLS), &other_k, 8));
    assert_int_equal(lt_ask(&p, 0, 16, 1, &result, &found), INVALID);
    lt_take_down(&p);
    const fake_cublaslt_counts now = count();
    assert_int_equal(now.descs + now.layouts + now.preferences, 0);
    assert_int_equal(now.handles, 1);
}

/* Aux matrices of more rows than one unit of their leading dimension. */
static void aux_is_as_long_as_a_column(void **state)
{
    (void)state;
    const struct {
        uint32_t epilogue;
        int64_t ld;
    } rows[] = {{RELU | AUX, 128}, {GELU | AUX, 136}, {GELU | AUX, 148}};
    for (size_t i = 0; i < 3; i++) {
        product p = lt_usual();
        trp__cublaslt_result result;
        int found;
        p.m = 144;
        p.epilogue = rows[i].epilogue;
        lt_set_up(&p);
        OK(lt_ask(&p, 0, 16, 1, &result, &found));
        SET(&p, EPILOGUE_AUX_LD, int64_t, rows[i].ld);
        assert_int_equal(lt_ask(&p, 0, 16, 1, &result, &found), INVALID);
        SET(&p, EPILOGUE_AUX_LD, int64_t, 256);
        OK(lt_ask(&p, 0, 16, 1, &result, &found));
        lt_take_down(&p);
    }
}

static void what_the_heuristic_gives(void **state)
{
    (void)state;
    product p = lt_usual();
    trp__cublaslt_result all[8], few[8];
    int found, split;
    lt_set_up(&p);
    assert_int_equal(lt_ask(&p, 0, 16, 0, all, &found), INVALID);
    OK(lt_ask(&p, UINT64_MAX, 16, 8, all, &found));
    assert_int_equal(found, 5);
    assert_true(all[0].workspace_bytes > 0 && all[4].workspace_bytes == 0);
    for (int i = 1; i < 5; i++) {
        assert_true(all[i].waves > all[i - 1].waves);
        assert_memory_not_equal(&all[i].algo, &all[i - 1].algo, sizeof all[i].algo);
        assert_true(all[i].workspace_bytes != all[i - 1].workspace_bytes);
        assert_int_equal(all[i].state, 0);
    }
    OK(lt_ask(&p, UINT64_MAX, 16, 2, few, &found));
    assert_int_equal(found, 2);
    assert_memory_equal(&few[1].algo, &all[1].algo, sizeof few[1].algo);
    OK(lt_ask(&p, all[0].workspace_bytes - 1, 16, 8, few, &found));
    for (int i = 0; i < found; i++)
        assert_true(few[i].workspace_bytes < all[0].workspace_bytes);
    OK(lt_ask(&p, 0, 16, 8, few, &found));
    assert_true(found == 1 && few[0].workspace_bytes == 0);
    assert_int_equal(lt_ask(&p, 0, 2, 8, few, &found), UNSUPPORTED); /* f32 needs 4 */
    assert_int_equal(found, 0);

    size_t written;
    OK(lt_api->cublasLtMatmulAlgoConfigGetAttribute(&all[0].algo, T(ALGO_CONFIG_SPLITK_NUM), &split,
                                                    4, &written));
    assert_true(split > 1 && written == 4);
    assert_int_equal(lt_api->cublasLtMatmulAlgoConfigGetAttribute(
                         &all[0].algo, T(ALGO_CONFIG_SPLITK_NUM), &split, 2, NULL),
                     INVALID);
    OK(lt_api->cublasLtMatmulAlgoCapGetAttribute(&all[0].algo, T(ALGO_CAP_MIN_ALIGNMENT_B_BYTES),
                                                 NULL, 0, &written));
    assert_int_equal(written, 4);
    lt_take_down(&p);
}

static int check_algo(const product *p, const trp__cublaslt_algo *algo,
                      trp__cublaslt_result *result)
{
    return lt_api->cublasLtMatmulAlgoCheck(lt_handle, p->desc, p->layout[0], p->layout[1],
                                           p->layout[2], p->layout[3], algo, result);
}

static void an_algorithm_is_for_its_product(void **state)
{
    (void)state;
    product p = lt_usual(), other = lt_usual();
    trp__cublaslt_result result, checked;
    trp__cu_address workspace;
    int found;
    other.n++;
    lt_set_up(&p);
    lt_set_up(&other);
    OK(lt_ask(&p, UINT64_MAX, 64, 1, &result, &found));
    const size_t bytes = result.workspace_bytes;
    OK(lt_cu->cuMemAlloc_v2(&workspace, bytes + 256));

    OK(check_algo(&p, &result.algo, &checked));
    assert_int_equal(checked.workspace_bytes, bytes);
    assert_int_equal(check_algo(&other, &result.algo, &checked), INVALID);
    assert_int_equal(lt_multiply(&other, &result.algo, workspace, bytes, 0), INVALID);
    OK(lt_multiply(&p, &result.algo, workspace, bytes, 0));
    assert_int_equal(lt_multiply(&p, &result.algo, workspace, bytes - 1, 0), INVALID);
    assert_int_equal(lt_multiply(&p, &result.algo, 0, bytes, 0), INVALID);
    assert_int_equal(lt_multiply(&p, &result.algo, workspace + 16, bytes, 0), INVALID);
    assert_int_equal(lt_multiply(&p, &result.algo, workspace, bytes, 32), INVALID);
    OK(lt_multiply(&p, NULL, 0, 0, 0));
    result.algo.data[1] ^= 1;
    assert_int_equal(check_algo(&p, &result.algo, &checked), INVALID);
    assert_int_equal(lt_multiply(&p, &result.algo, workspace, bytes, 0), INVALID);
    result.algo = (trp__cublaslt_algo){0};
    assert_int_equal(lt_multiply(&p, &result.algo, workspace, bytes, 0), INVALID);

    /* A plan is for pointers of any value, but not for ones that were not there. */
    OK(lt_ask(&p, 0, 16, 1, &result, &found));
    SET(&p, EPILOGUE, uint32_t, BIAS);
    SET(&p, BIAS_POINTER, uint64_t, p.x[3].at);
    assert_int_equal(check_algo(&p, &result.algo, &checked), INVALID);
    OK(lt_ask(&p, 0, 16, 1, &result, &found));
    SET(&p, BIAS_POINTER, uint64_t, p.x[2].at);
    OK(check_algo(&p, &result.algo, &checked));
    OK(lt_cu->cuMemFree_v2(workspace));
    lt_take_down(&p);
    lt_take_down(&other);
}

static void calls_are_counted_and_fail_on_demand(void **state)
{
    (void)state;
    product p = lt_usual();
    trp__cublaslt_result result;
    int found;
    lt_set_up(&p);
    const fake_cublaslt_counts before = count();
    fail_calls(FAKE_CUBLASLT_HEURISTIC, 1, 1, ALLOC_FAILED);
    fail_calls(FAKE_CUBLASLT_MATMUL, 0, 2, EXECUTION_FAILED);
    OK(lt_ask(&p, 0, 16, 1, &result, &found));
    assert_int_equal(lt_ask(&p, 0, 16, 1, &result, &found), ALLOC_FAILED);
    assert_int_equal(found, 0);
    OK(lt_ask(&p, 0, 16, 1, &result, &found));
    assert_int_equal(lt_multiply(&p, &result.algo, 0, 0, 0), EXECUTION_FAILED);
    assert_int_equal(lt_multiply(&p, &result.algo, 0, 0, 0), EXECUTION_FAILED);
    OK(lt_multiply(&p, &result.algo, 0, 0, 0));
    OK(check_algo(&p, &result.algo, &result));
    const fake_cublaslt_counts after = count();
    assert_int_equal(after.calls[FAKE_CUBLASLT_HEURISTIC],
                     before.calls[FAKE_CUBLASLT_HEURISTIC] + 3);
    assert_int_equal(after.calls[FAKE_CUBLASLT_MATMUL], before.calls[FAKE_CUBLASLT_MATMUL] + 3);
    assert_int_equal(after.calls[FAKE_CUBLASLT_CHECK], before.calls[FAKE_CUBLASLT_CHECK] + 1);
    lt_take_down(&p);
}

/* What a product uses must be mapped when it runs. In a process of its own, which it breaks. */
static void a_fault(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        product p = lt_usual();
        trp__cublaslt_result result;
        int found;
        lt_open();
        p.epilogue = BIAS;
        lt_set_up(&p);
        OK(lt_ask(&p, 0, 16, 1, &result, &found));
        OK(lt_cu->cuMemFree_v2(p.bias.at));
        const float one = 1;
        const int status = lt_api->cublasLtMatmul(
            lt_handle, p.desc, &one, (void *)(uintptr_t)p.x[0].at, p.layout[0],
            (void *)(uintptr_t)p.x[1].at, p.layout[1], &one, (void *)(uintptr_t)p.x[2].at,
            p.layout[2], (void *)(uintptr_t)p.x[3].at, p.layout[3], &result.algo, NULL, 0,
            lt_stream);
        _exit(status == 0 && lt_cu->cuStreamSynchronize(lt_stream) == 700 ? 0 : 1);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    lt_open();
    find_hooks();
}

static int close_all(void **state)
{
    (void)state;
    char version[32];
    trp__cublaslt_version(lt_api, version, sizeof version);
    assert_string_equal(version, "13.1.0");
    OK(lt_api->cublasLtDestroy(lt_handle));
    OK(lt_cu->cuStreamDestroy_v2(lt_stream));
    OK(lt_cu->cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fault), /* first: it opens all for the others */
        cmocka_unit_test(every_type),
        cmocka_unit_test(every_epilogue),
        cmocka_unit_test(rows_first),
        cmocka_unit_test(scalars_on_the_device),
        cmocka_unit_test(eight_bits),
        cmocka_unit_test(factors_of_parts),
        cmocka_unit_test(what_hopper_can_not),
        cmocka_unit_test(descriptors),
        cmocka_unit_test(aux_is_as_long_as_a_column),
        cmocka_unit_test(what_the_heuristic_gives),
        cmocka_unit_test(an_algorithm_is_for_its_product),
        cmocka_unit_test(calls_are_counted_and_fail_on_demand),
    };
    const char *driver = getenv("TROUPE_FAKE_CUDA"), *library = getenv("TROUPE_FAKE_CUBLASLT");
    if (!driver || !library) {
        fprintf(stderr,
                "TROUPE_FAKE_CUDA and TROUPE_FAKE_CUBLASLT are not set: the fake's paths\n");
        return 77;
    }
    setenv("TROUPE_CUDA_DRIVER", driver, 1);
    setenv("TROUPE_CUBLASLT", library, 1);
    ref_rng_init(&lt_rng, ref_seed());
    return cmocka_run_group_tests(tests, NULL, close_all);
}

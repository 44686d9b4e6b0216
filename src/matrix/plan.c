#include "matrix/plan.h"

#include "base/error.h"
#include "base/numbers/types.h"
#include "matrix/refusal.h"

#include <troupe/matmul.h>

#include <stddef.h>
#include <string.h>

#define SET_DESC(lt, desc, attribute, value)                                                       \
    (lt)->cublasLtMatmulDescSetAttribute((desc), TRP__CUBLASLT_MATMUL_DESC_##attribute, &(value),  \
                                         sizeof(value))
#define SET_LAYOUT(lt, layout, attribute, value)                                                   \
    (lt)->cublasLtMatrixLayoutSetAttribute((layout), TRP__CUBLASLT_MATRIX_LAYOUT_##attribute,      \
                                           &(value), sizeof(value))
#define SET_PREFERENCE(lt, preference, attribute, value)                                           \
    (lt)->cublasLtMatmulPreferenceSetAttribute(                                                    \
        (preference), TRP__CUBLASLT_MATMUL_PREF_##attribute, &(value), sizeof(value))

/* Conversion of Troupe's numbers to those of the library. */

static int32_t data_type(uint8_t type)
{
    static const uint8_t types[TRP_DTYPE_COUNT] = {
        [TRP_F64] = TRP__CUBLASLT_R_64F,        [TRP_F32] = TRP__CUBLASLT_R_32F,
        [TRP_F16] = TRP__CUBLASLT_R_16F,        [TRP_BF16] = TRP__CUBLASLT_R_16BF,
        [TRP_F8E4M3] = TRP__CUBLASLT_R_8F_E4M3, [TRP_F8E5M2] = TRP__CUBLASLT_R_8F_E5M2,
        [TRP_F4E2M1] = TRP__CUBLASLT_R_4F_E2M1, [TRP_I8] = TRP__CUBLASLT_R_8I,
        [TRP_I32] = TRP__CUBLASLT_R_32I,        [TRP_C64] = TRP__CUBLASLT_C_32F,
        [TRP_C128] = TRP__CUBLASLT_C_64F,
    };
    return types[type % TRP_DTYPE_COUNT];
}

static trp__cublaslt_compute compute_type(const trp__matmul *g)
{
    static const uint8_t modes[][3] = {
        /* for f32, f64 and i32 */
        [TRP_COMPUTE_DEFAULT] = {TRP__CUBLASLT_COMPUTE_32F, TRP__CUBLASLT_COMPUTE_64F,
                                 TRP__CUBLASLT_COMPUTE_32I},
        [TRP_COMPUTE_TF32] = {TRP__CUBLASLT_COMPUTE_32F_FAST_TF32},
        [TRP_COMPUTE_PEDANTIC] = {TRP__CUBLASLT_COMPUTE_32F_PEDANTIC,
                                  TRP__CUBLASLT_COMPUTE_64F_PEDANTIC,
                                  TRP__CUBLASLT_COMPUTE_32I_PEDANTIC},
    };
    uint8_t type = g->type[TRP__MATMUL_A];
    int column = type == TRP_F64 || type == TRP_C128 ? 1 : type == TRP_I8 ? 2 : 0;
    return modes[g->compute % (sizeof modes / sizeof *modes)][column];
}

uint32_t trp__matmul_epilogue(const trp__matmul *g)
{
    bool aux = trp__matmul_has(g, TRP__MATMUL_AUX);
    bool bias = trp__matmul_has(g, TRP__MATMUL_VECTOR) && g->gradient == TRP_BIAS_GRADIENT_NONE;
    bool gradient = g->gradient == TRP_BIAS_GRADIENT_D;
    uint32_t plain = bias ? TRP__CUBLASLT_EPILOGUE_BIAS : TRP__CUBLASLT_EPILOGUE_DEFAULT;
    switch (g->activation) {
    case TRP_ACTIVATION_RELU:
        return (aux ? TRP__CUBLASLT_EPILOGUE_RELU_AUX : TRP__CUBLASLT_EPILOGUE_RELU) |
               (bias ? TRP__CUBLASLT_EPILOGUE_BIAS : 0);
    case TRP_ACTIVATION_GELU:
        return (aux ? TRP__CUBLASLT_EPILOGUE_GELU_AUX : TRP__CUBLASLT_EPILOGUE_GELU) |
               (bias ? TRP__CUBLASLT_EPILOGUE_BIAS : 0);
    case TRP_ACTIVATION_DRELU:
        return gradient ? TRP__CUBLASLT_EPILOGUE_DRELU_BGRAD : TRP__CUBLASLT_EPILOGUE_DRELU;
    case TRP_ACTIVATION_DGELU:
        return gradient ? TRP__CUBLASLT_EPILOGUE_DGELU_BGRAD : TRP__CUBLASLT_EPILOGUE_DGELU;
    default:
        return g->gradient == TRP_BIAS_GRADIENT_A   ? TRP__CUBLASLT_EPILOGUE_BGRADA
               : g->gradient == TRP_BIAS_GRADIENT_B ? TRP__CUBLASLT_EPILOGUE_BGRADB
                                                    : plain;
    }
}

/* Converts a trp_scale_mode to cublasLtMatmulMatrixScale_t. */
static int32_t scale_mode(uint8_t mode)
{
    static const uint8_t modes[] = {
        [TRP_SCALE_TENSOR] = TRP__CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
        [TRP_SCALE_VECTOR] = TRP__CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F,
        [TRP_SCALE_BLOCK_16] = TRP__CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3,
        [TRP_SCALE_BLOCK_32] = TRP__CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0,
        [TRP_SCALE_BLOCK_128] = TRP__CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
        [TRP_SCALE_BLOCK_128X128] = TRP__CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F,
    };
    return modes[mode % (sizeof modes)];
}

static const char *scale_mode_name(uint8_t mode)
{
    static const char *const names[] = {
        [TRP_SCALE_TENSOR] = "TRP_SCALE_TENSOR",
        [TRP_SCALE_VECTOR] = "TRP_SCALE_VECTOR",
        [TRP_SCALE_BLOCK_16] = "TRP_SCALE_BLOCK_16",
        [TRP_SCALE_BLOCK_32] = "TRP_SCALE_BLOCK_32",
        [TRP_SCALE_BLOCK_128] = "TRP_SCALE_BLOCK_128",
        [TRP_SCALE_BLOCK_128X128] = "TRP_SCALE_BLOCK_128X128",
    };
    return names[mode % (sizeof names / sizeof *names)];
}

/* A 0 for all scalar types, and a 1 of each. */
static const struct constants {
    double zero[2], f64[2];
    float f32[2];
    int32_t i32[2];
} constants = {{0, 0}, {1, 0}, {1, 0}, {1, 0}};

const void *trp__matmul_constants(size_t *bytes)
{
    *bytes = sizeof constants;
    return &constants;
}

static size_t one_at(uint8_t type)
{
    return type == TRP_F64 || type == TRP_C128 ? offsetof(struct constants, f64)
           : type == TRP_I32                   ? offsetof(struct constants, i32)
                                               : offsetof(struct constants, f32);
}

/* Keys. */

static uint8_t alignment_of(const void *address)
{
    uintptr_t bits = (uintptr_t)address | 256;
    return (uint8_t)__builtin_ctzll(bits);
}

static bool has_alpha_in_buffer(const trp__matmul *g)
{
    return trp__matmul_has(g, TRP__MATMUL_SCALARS) || trp__matmul_has(g, TRP__MATMUL_ALPHAS);
}

/* D = epilogue(C): if alpha is 0 and beta is 1, cuBLASLt does not write D, although C may be
 * another matrix and there may be an epilogue. If alpha and beta are in device memory, it does not
 * know them and writes D. */
static bool is_blind_spot(const trp__matmul *g)
{
    return !has_alpha_in_buffer(g) && g->alpha[0] == 0 && g->alpha[1] == 0 && g->beta[0] == 1 &&
           g->beta[1] == 0;
}

/* Kernels for products with vectors read alpha and beta, so they skip D too. */
bool trp__matmul_may_be_skipped(const trp__matmul *g)
{
    bool apart = g->access[TRP__MATMUL_C] != g->access[TRP__MATMUL_D];
    bool may = trp__matmul_has(g, TRP__MATMUL_C) && (has_alpha_in_buffer(g) || is_blind_spot(g));
    return may && (g->m == 1 || g->n == 1) &&
           (apart || trp__matmul_epilogue(g) != TRP__CUBLASLT_EPILOGUE_DEFAULT);
}

/* Products with vectors also skip the sums over A or B if alpha is 0. */
static bool loses_gradient(const trp__matmul *g)
{
    bool of_input = g->gradient == TRP_BIAS_GRADIENT_A || g->gradient == TRP_BIAS_GRADIENT_B;
    bool vector = g->m == 1 || g->n == 1;
    return of_input && vector && (has_alpha_in_buffer(g) || (g->alpha[0] == 0 && g->alpha[1] == 0));
}

trp__matmul_key trp__matmul_key_of(const trp__matmul *problem, void *const at[])
{
    trp__matmul_key key;
    memset(&key, 0, sizeof key);
    key.problem = *problem;
    if (!trp__matmul_has(problem, TRP__MATMUL_ALPHAS))
        memset(key.problem.alpha, 0, sizeof key.problem.alpha);
    memset(key.problem.beta, 0, sizeof key.problem.beta);
    key.problem.beta[0] = is_blind_spot(problem);
    key.loses_gradient = loses_gradient(problem);
    key.deterministic = problem->deterministic;
    for (int i = 0; i < TRP__MATMUL_ALIGNED; i++)
        key.alignment[i] = alignment_of(at[i]);
    return key;
}

uint32_t trp__matmul_skew(const trp__matmul_key *key, int operand)
{
    return operand < TRP__MATMUL_ALIGNED && key->alignment[operand] < 8
               ? UINT32_C(1) << key->alignment[operand]
               : 0;
}

/* Descriptors. */

static trp_status describe_epilogue(const trp__cublaslt *lt, trp__cublaslt_desc desc,
                                    const trp__matmul *g, trp_error *error)
{
    uint32_t bits = trp__matmul_epilogue(g);
    int32_t vector = data_type(g->vector_type), aux = data_type(g->type[TRP__MATMUL_AUX]);
    trp__cublas_status result = SET_DESC(lt, desc, EPILOGUE, bits);
    if (result == 0 && trp__matmul_has(g, TRP__MATMUL_VECTOR))
        result = SET_DESC(lt, desc, BIAS_DATA_TYPE, vector);
    if (result == 0 && trp__matmul_has(g, TRP__MATMUL_VECTOR) && g->batch > 1)
        result = SET_DESC(lt, desc, BIAS_BATCH_STRIDE, g->vector_stride);
    if (result == 0 && trp__matmul_has(g, TRP__MATMUL_AUX))
        result = SET_DESC(lt, desc, EPILOGUE_AUX_LD, g->ld[TRP__MATMUL_AUX]);
    if (result == 0 && trp__matmul_has(g, TRP__MATMUL_AUX) && g->batch > 1)
        result = SET_DESC(lt, desc, EPILOGUE_AUX_BATCH_STRIDE, g->stride[TRP__MATMUL_AUX]);
    if (result == 0 && trp__matmul_has(g, TRP__MATMUL_AUX) &&
        g->type[TRP__MATMUL_AUX] != TRP_DTYPE_NONE)
        result = SET_DESC(lt, desc, EPILOGUE_AUX_DATA_TYPE, aux);
    return trp__cublaslt_check(lt, result, "cublasLtMatmulDescSetAttribute", error);
}

static trp_status describe(const trp__cublaslt *lt, trp__cublaslt_desc desc, const trp__matmul *g,
                           trp_error *error)
{
    int32_t trans_a = g->trans_a, trans_b = g->trans_b; /* with the numbers of cublasOperation_t */
    const bool alphas = trp__matmul_has(g, TRP__MATMUL_ALPHAS);
    int32_t device = TRP__CUBLASLT_POINTER_MODE_DEVICE;
    int32_t vector = TRP__CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST;
    int32_t mode_a = scale_mode(g->scale_a), mode_b = scale_mode(g->scale_b);
    int32_t sm_count = g->sm_count;
    int32_t mode_out =
        scale_mode(g->type[TRP__MATMUL_D] == TRP_F4E2M1 ? TRP_SCALE_BLOCK_16 : TRP_SCALE_BLOCK_32);
    int8_t fast = 1;
    trp__cublas_status result = SET_DESC(lt, desc, TRANSA, trans_a);
    if (result == 0)
        result = SET_DESC(lt, desc, TRANSB, trans_b);
    if (result == 0 && (trp__matmul_has(g, TRP__MATMUL_SCALARS) || is_blind_spot(g)))
        result = SET_DESC(lt, desc, POINTER_MODE, device);
    if (result == 0 && alphas)
        result = SET_DESC(lt, desc, POINTER_MODE, vector);
    if (result == 0 && alphas && g->batch > 1)
        result = SET_DESC(lt, desc, ALPHA_VECTOR_BATCH_STRIDE, g->alphas_stride);
    if (result == 0 && g->fast_accumulation)
        result = SET_DESC(lt, desc, FAST_ACCUM, fast);
    if (result == 0 && sm_count > 0)
        result = SET_DESC(lt, desc, SM_COUNT_TARGET, sm_count);
    /* Older libraries only know the default mode. */
    if (result == 0 && g->scale_a != TRP_SCALE_TENSOR)
        result = SET_DESC(lt, desc, A_SCALE_MODE, mode_a);
    if (result == 0 && g->scale_b != TRP_SCALE_TENSOR)
        result = SET_DESC(lt, desc, B_SCALE_MODE, mode_b);
    if (result == 0 && trp__matmul_has(g, TRP__MATMUL_OUT_SCALE))
        result = SET_DESC(lt, desc, D_OUT_SCALE_MODE, mode_out);
    trp_status status = trp__cublaslt_check(lt, result, "cublasLtMatmulDescSetAttribute", error);
    return status == TRP_OK ? describe_epilogue(lt, desc, g, error) : status;
}

static trp_status make_layout(const trp__cublaslt *lt, const trp__matmul *g, int which,
                              trp__cublaslt_layout *out, trp_error *error)
{
    bool a_is = g->trans_a == TRP_N, b_is = g->trans_b == TRP_N;
    const int64_t rows[] = {a_is ? g->m : g->k, b_is ? g->k : g->n, g->m, g->m};
    const int64_t columns[] = {a_is ? g->k : g->m, b_is ? g->n : g->k, g->n, g->n};
    int32_t batch = (int32_t)g->batch;
    trp__cublas_status result =
        lt->cublasLtMatrixLayoutCreate(out, data_type(g->type[which]), (uint64_t)rows[which],
                                       (uint64_t)columns[which], g->ld[which]);
    if (result == 0 && g->batch > 1)
        result = SET_LAYOUT(lt, *out, BATCH_COUNT, batch);
    if (result == 0 && g->batch > 1)
        result = SET_LAYOUT(lt, *out, STRIDED_BATCH_OFFSET, g->stride[which]);
    return trp__cublaslt_check(lt, result, "cublasLtMatrixLayoutCreate", error);
}

void trp__matmul_plan_drop(const trp__cublaslt *lt, trp__matmul_plan *plan)
{
    for (int i = 0; i < TRP__MATMUL_LAYOUTS; i++) {
        if (plan->layout[i])
            lt->cublasLtMatrixLayoutDestroy(plan->layout[i]);
    }
    if (plan->desc)
        lt->cublasLtMatmulDescDestroy(plan->desc);
    memset(plan, 0, sizeof *plan);
}

/* Sets the addresses of operands in the descriptor. */
static trp_status place(const trp__cublaslt *lt, const trp__matmul_plan *plan,
                        const trp__matmul *problem, void *const at[], trp_error *error)
{
    static const struct {
        uint8_t operand;
        trp__cublaslt_desc_attribute attribute;
    } pointers[] = {
        {TRP__MATMUL_VECTOR, TRP__CUBLASLT_MATMUL_DESC_BIAS_POINTER},
        {TRP__MATMUL_AUX, TRP__CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER},
        {TRP__MATMUL_SCALE_A, TRP__CUBLASLT_MATMUL_DESC_A_SCALE_POINTER},
        {TRP__MATMUL_SCALE_B, TRP__CUBLASLT_MATMUL_DESC_B_SCALE_POINTER},
        {TRP__MATMUL_SCALE_D, TRP__CUBLASLT_MATMUL_DESC_D_SCALE_POINTER},
        {TRP__MATMUL_SCALE_AUX, TRP__CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER},
        {TRP__MATMUL_OUT_SCALE, TRP__CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER},
        {TRP__MATMUL_AMAX_D, TRP__CUBLASLT_MATMUL_DESC_AMAX_D_POINTER},
        {TRP__MATMUL_AMAX_AUX, TRP__CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER},
    };
    trp__cublas_status result = TRP__CUBLAS_SUCCESS;
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers && result == 0; i++) {
        if (trp__matmul_has(problem, pointers[i].operand))
            result = lt->cublasLtMatmulDescSetAttribute(plan->desc, pointers[i].attribute,
                                                        &at[pointers[i].operand], sizeof(void *));
    }
    return trp__cublaslt_check(lt, result, "cublasLtMatmulDescSetAttribute", error);
}

/* Heuristics. */

static trp_status make_preference(const trp__cublaslt *lt, const trp__matmul_key *key,
                                  trp__cublaslt_preference *out, trp_error *error)
{
    uint64_t workspace = key->problem.workspace;
    uint32_t a = UINT32_C(1) << key->alignment[0], b = UINT32_C(1) << key->alignment[1];
    uint32_t d = UINT32_C(1) << key->alignment[3];
    /* Without C, the library gets D as C. */
    uint32_t c =
        trp__matmul_has(&key->problem, TRP__MATMUL_C) ? UINT32_C(1) << key->alignment[2] : d;
    /* Parts of a sum are added in the compute type, and not rounded to a narrower D before. */
    uint32_t reductions = TRP__CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    bool narrow =
        key->deterministic || trp_dtype_bits((trp_dtype)key->problem.type[TRP__MATMUL_D]) < 32;
    trp__cublas_status result = lt->cublasLtMatmulPreferenceCreate(out);
    if (result == 0)
        result = SET_PREFERENCE(lt, *out, MAX_WORKSPACE_BYTES, workspace);
    if (result == 0 && narrow)
        result = SET_PREFERENCE(lt, *out, REDUCTION_SCHEME_MASK, reductions);
    if (result == 0)
        result = SET_PREFERENCE(lt, *out, MIN_ALIGNMENT_A_BYTES, a);
    if (result == 0)
        result = SET_PREFERENCE(lt, *out, MIN_ALIGNMENT_B_BYTES, b);
    if (result == 0)
        result = SET_PREFERENCE(lt, *out, MIN_ALIGNMENT_C_BYTES, c);
    if (result == 0)
        result = SET_PREFERENCE(lt, *out, MIN_ALIGNMENT_D_BYTES, d);
    return trp__cublaslt_check(lt, result, "cublasLtMatmulPreferenceSetAttribute", error);
}

static trp_status propose(const trp__matmul_planner *planner, const trp__matmul_key *key,
                          const trp__matmul_plan *plan, trp__cublaslt_result *out, int room,
                          int *found, trp_error *error)
{
    const trp__cublaslt *lt = planner->lt;
    trp__cublaslt_preference preference = NULL;
    trp_status status = make_preference(lt, key, &preference, error);
    if (status == TRP_OK)
        status = trp__cublaslt_check(lt,
                                     lt->cublasLtMatmulAlgoGetHeuristic(
                                         planner->handle, plan->desc, plan->layout[TRP__MATMUL_A],
                                         plan->layout[TRP__MATMUL_B], plan->layout[TRP__MATMUL_C],
                                         plan->layout[TRP__MATMUL_D], preference, room, out, found),
                                     "cublasLtMatmulAlgoGetHeuristic", error);
    if (preference)
        lt->cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

int trp__matmul_plan_candidates(const trp__matmul_planner *planner, const trp__matmul_key *key,
                                const trp__matmul_plan *plan, trp__cublaslt_result *out, int room)
{
    trp_error ignored;
    int found = 0, good = 0;
    if (propose(planner, key, plan, out, room, &found, &ignored) != TRP_OK)
        return 0;
    for (int i = 0; i < found; i++) {
        if (out[i].state == TRP__CUBLAS_SUCCESS)
            out[good++] = out[i];
    }
    return good;
}

static trp_status choose(const trp__matmul_planner *planner, const trp__matmul_key *key,
                         trp__matmul_plan *plan, trp_error *error)
{
    trp__cublaslt_result first;
    int found = 0;
    trp_status status = propose(planner, key, plan, &first, 1, &found, error);
    if (status == TRP_OK && (found < 1 || first.state != TRP__CUBLAS_SUCCESS))
        status = trp__error_set_code(error, TRP_E_UNSUPPORTED, "cublas", TRP__CUBLAS_NOT_SUPPORTED,
                                     "cuBLASLt has no algorithm for this problem");
    if (status != TRP_OK)
        return status;
    plan->algo = first.algo;
    plan->workspace = first.workspace_bytes;
    return TRP_OK;
}

/* Some algorithms take a vector of alpha only without a beta. */
static trp_status choose_without_beta(const trp__matmul_planner *planner,
                                      const trp__matmul_key *key, trp__matmul_plan *plan,
                                      trp_error *error)
{
    const trp__matmul *g = &key->problem;
    int32_t mode = TRP__CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO;
    trp_error ignored;
    if (!trp__matmul_has(g, TRP__MATMUL_ALPHAS) || trp__matmul_has(g, TRP__MATMUL_C) ||
        g->alphas_stride != 0 ||
        SET_DESC(planner->lt, plan->desc, POINTER_MODE, mode) != TRP__CUBLAS_SUCCESS ||
        choose(planner, key, plan, &ignored) != TRP_OK)
        return error->status;
    return TRP_OK;
}

trp_status trp__matmul_plan_try(const trp__matmul_planner *planner, const trp__matmul_key *key,
                                void *const at[], trp__matmul_plan *plan, trp_error *error)
{
    const trp__cublaslt *lt = planner->lt;
    const trp__matmul *g = &key->problem;
    trp_status status = trp__cublaslt_check(
        lt, lt->cublasLtMatmulDescCreate(&plan->desc, compute_type(g), data_type(g->scalar_type)),
        "cublasLtMatmulDescCreate", error);
    if (status == TRP_OK)
        status = describe(lt, plan->desc, g, error);
    if (status == TRP_OK)
        status = place(lt, plan, g, at, error);
    for (int i = 0; i < TRP__MATMUL_LAYOUTS && status == TRP_OK; i++)
        status = make_layout(lt, g, i, &plan->layout[i], error);
    if (status == TRP_OK)
        status = choose(planner, key, plan, error);
    if (status == TRP_E_UNSUPPORTED || status == TRP_E_LIBRARY)
        status = choose_without_beta(planner, key, plan, error);
    plan->blind = is_blind_spot(g);
    if (status != TRP_OK)
        trp__matmul_plan_drop(lt, plan);
    return status;
}

/* Checks what depends only on the compute capability. */
static trp_status check_device(const trp__matmul_planner *planner, const trp__matmul *g,
                               trp_error *error)
{
    bool fp4 = g->type[TRP__MATMUL_A] == TRP_F4E2M1;
    bool blocks = g->scale_a == TRP_SCALE_BLOCK_32 || g->scale_b == TRP_SCALE_BLOCK_32 ||
                  g->scale_a == TRP_SCALE_BLOCK_16 || g->scale_b == TRP_SCALE_BLOCK_16 ||
                  trp__matmul_has(g, TRP__MATMUL_OUT_SCALE);
    bool fp8 = g->type[TRP__MATMUL_A] == TRP_F8E4M3 || g->type[TRP__MATMUL_A] == TRP_F8E5M2;
    int capability = 10 * planner->major + planner->minor;
    int needed = fp4 || blocks ? 100 : fp8 ? 89 : 0;
    if (capability >= needed)
        return TRP_OK;
    return trp__error_set(error, TRP_E_UNSUPPORTED,
                          "%s need compute capability %d.%d, and this device has %d.%d",
                          fp4      ? "fp4 matrices"
                          : blocks ? "scale factors for blocks of 16 or 32 elements"
                                   : "fp8 matrices",
                          needed / 10, needed % 10, planner->major, planner->minor);
}

/* Refuses problems that the library accepts but computes wrongly (seen with 13.1 on compute
 * capability 9.0): gelu with a D of i8 is computed from values that are already rounded to i8, and
 * some combinations of scale modes end in a fault. */
static trp_status check_library(const trp__matmul_key *key, trp_error *error)
{
    const trp__matmul *g = &key->problem;
    bool gelu = g->activation == TRP_ACTIVATION_GELU;
    bool blocks = (g->scale_a == TRP_SCALE_BLOCK_128 || g->scale_a == TRP_SCALE_BLOCK_128X128) &&
                  (g->scale_b == TRP_SCALE_BLOCK_128 || g->scale_b == TRP_SCALE_BLOCK_128X128);
    bool both = g->scale_a == TRP_SCALE_BLOCK_128X128 && g->scale_b == TRP_SCALE_BLOCK_128X128;
    if (gelu && g->type[TRP__MATMUL_D] == TRP_I8)
        return trp__error_set(
            error, TRP_E_UNSUPPORTED,
            "activation: gelu with a D of i8, which cuBLASLt computes from values "
            "that are already rounded to i8");
    if (trp__matmul_may_be_skipped(g))
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "%s where D is a vector and C is another matrix or there is an "
                              "epilogue: cuBLASLt does not write that D",
                              trp__matmul_has(g, TRP__MATMUL_ALPHAS)
                                  ? "alphas: in a buffer, where they may be 0, with a C"
                              : trp__matmul_has(g, TRP__MATMUL_SCALARS)
                                  ? "scalars: in a buffer, where they may be 0 and 1,"
                                  : "alpha: 0 with beta 1,");
    if (key->loses_gradient)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "gradient of A or B with alpha 0 (or in a buffer, where it may be 0) "
                              "where D is a vector: cuBLASLt does not compute it");
    if (g->scale_a != g->scale_b ? !blocks : both)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "scale modes %s and %s of A and B: cuBLASLt supports the same for "
                              "both, or TRP_SCALE_BLOCK_128 with TRP_SCALE_BLOCK_128X128",
                              scale_mode_name(g->scale_a), scale_mode_name(g->scale_b));
    return TRP_OK;
}

trp_status trp__matmul_plan_make(const trp__matmul_planner *planner, const trp__matmul_key *key,
                                 void *const at[], trp__matmul_plan *plan, trp_error *error)
{
    trp_status status = check_device(planner, &key->problem, error);
    if (status == TRP_OK)
        status = check_library(key, error);
    if (status != TRP_OK)
        return status;
    status = trp__matmul_plan_try(planner, key, at, plan, error);
    bool refused = status == TRP_E_UNSUPPORTED ||
                   (status == TRP_E_LIBRARY && error->code == TRP__CUBLAS_INVALID_VALUE);
    return refused ? trp__matmul_blame(planner, key, at, error) : status;
}

trp_status trp__matmul_plan_launch(const trp__matmul_planner *planner, const trp__matmul_plan *plan,
                                   const trp__matmul *problem, void *const at[], void *workspace,
                                   size_t workspace_bytes, trp__cu_stream stream, trp_error *error)
{
    const trp__cublaslt *lt = planner->lt;
    const bool alphas = trp__matmul_has(problem, TRP__MATMUL_ALPHAS);
    trp__scalar alpha =
        alphas ? (trp__scalar){0} : trp__scalar_of(problem->scalar_type, problem->alpha);
    trp__scalar beta = trp__scalar_of(problem->scalar_type, problem->beta);
    const void *alpha_at = &alpha, *beta_at = &beta;
    if (alphas) {
        alpha_at = at[TRP__MATMUL_ALPHAS];
    } else if (at[TRP__MATMUL_SCALARS]) {
        alpha_at = at[TRP__MATMUL_SCALARS];
        beta_at = (const char *)alpha_at + trp_dtype_bits((trp_dtype)problem->scalar_type) / 8;
    } else if (plan->blind) {
        trp__cu_address zero = planner->constants, one = zero + one_at(problem->scalar_type);
        alpha_at = (const void *)(uintptr_t)zero;
        beta_at = (const void *)(uintptr_t)one;
    }
    /* Without C, the library gets D as C if the types agree. It does not read it, since beta is 0.
     */
    bool same = problem->type[TRP__MATMUL_C] == problem->type[TRP__MATMUL_D];
    const void *c = at[TRP__MATMUL_C] ? at[TRP__MATMUL_C] : same ? at[TRP__MATMUL_D] : NULL;
    trp_status status = place(lt, plan, problem, at, error);
    if (status != TRP_OK)
        return status;
    trp__cublas_status result = lt->cublasLtMatmul(
        planner->handle, plan->desc, alpha_at, at[TRP__MATMUL_A], plan->layout[TRP__MATMUL_A],
        at[TRP__MATMUL_B], plan->layout[TRP__MATMUL_B], beta_at, c, plan->layout[TRP__MATMUL_C],
        at[TRP__MATMUL_D], plan->layout[TRP__MATMUL_D], &plan->algo, workspace, workspace_bytes,
        stream);
    if (result == TRP__CUBLAS_NOT_SUPPORTED)
        return trp__error_set_code(error, TRP_E_UNSUPPORTED, "cublas", result,
                                   "cuBLASLt proposes an algorithm for this problem and then "
                                   "refuses to run it");
    return trp__cublaslt_check(lt, result, "cublasLtMatmul", error);
}

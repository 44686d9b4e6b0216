#include "matrix/refusal.h"

#include "base/error.h"

#include <troupe/matmul.h>

#include <stddef.h>
#include <string.h>

/* Each of these functions removes or replaces one part of a problem, and returns false if the
 * problem does not have it. */

static bool without(trp__matmul *g, int operand)
{
    bool had = trp__matmul_has(g, operand);
    g->access[operand] = TRP__MATMUL_NO_ACCESS;
    return had;
}

static bool drop_aux(trp__matmul *g)
{
    without(g, TRP__MATMUL_SCALE_AUX);
    without(g, TRP__MATMUL_AMAX_AUX);
    return without(g, TRP__MATMUL_AUX);
}

static bool without_aux(trp__matmul *g)
{
    return !trp__matmul_is_derivative(g) && drop_aux(g);
}

static bool without_gradient(trp__matmul *g)
{
    bool had = g->gradient != TRP_BIAS_GRADIENT_NONE;
    g->gradient = TRP_BIAS_GRADIENT_NONE;
    return had && without(g, TRP__MATMUL_VECTOR);
}

static bool without_bias(trp__matmul *g)
{
    return g->gradient == TRP_BIAS_GRADIENT_NONE && without(g, TRP__MATMUL_VECTOR);
}

static bool without_epilogue(trp__matmul *g)
{
    bool had = trp__matmul_epilogue(g) != TRP__CUBLASLT_EPILOGUE_DEFAULT;
    g->activation = TRP_ACTIVATION_NONE;
    g->gradient = TRP_BIAS_GRADIENT_NONE;
    drop_aux(g);
    without(g, TRP__MATMUL_VECTOR);
    return had;
}

static bool without_alphas(trp__matmul *g)
{
    return without(g, TRP__MATMUL_ALPHAS);
}

static bool without_block_scales(trp__matmul *g)
{
    return g->type[TRP__MATMUL_D] != TRP_F4E2M1 && without(g, TRP__MATMUL_OUT_SCALE);
}

static bool without_largest(trp__matmul *g)
{
    bool d = without(g, TRP__MATMUL_AMAX_D), aux = without(g, TRP__MATMUL_AMAX_AUX);
    return d || aux;
}

static bool with_tensor_scales(trp__matmul *g)
{
    bool had = g->scale_a != TRP_SCALE_TENSOR || g->scale_b != TRP_SCALE_TENSOR;
    g->scale_a = g->scale_b = TRP_SCALE_TENSOR;
    return had;
}

static bool with_default_compute(trp__matmul *g)
{
    bool had = g->compute != TRP_COMPUTE_DEFAULT || g->fast_accumulation;
    g->compute = TRP_COMPUTE_DEFAULT;
    g->fast_accumulation = 0;
    return had;
}

static bool without_batch(trp__matmul *g)
{
    bool had = g->batch > 1;
    g->batch = 1;
    return had;
}

static void make_tight(trp__matmul *g)
{
    g->ld[TRP__MATMUL_A] = g->trans_a == TRP_N ? g->m : g->k;
    g->ld[TRP__MATMUL_B] = g->trans_b == TRP_N ? g->k : g->n;
    g->ld[TRP__MATMUL_C] = g->ld[TRP__MATMUL_D] = g->m;
}

static bool with_tight_lines(trp__matmul *g)
{
    int64_t before[TRP__MATMUL_MATRICES];
    memcpy(before, g->ld, sizeof before);
    make_tight(g);
    return memcmp(before, g->ld, sizeof before) != 0;
}

static bool with_tn(trp__matmul *g)
{
    bool had = g->trans_a == TRP_N || g->trans_b != TRP_N;
    g->trans_a = TRP_T;
    g->trans_b = TRP_N;
    make_tight(g);
    return had;
}

static int64_t to_16(int64_t size)
{
    return (size + 15) / 16 * 16;
}

static bool with_round_sizes(trp__matmul *g)
{
    bool had = g->m % 16 != 0 || g->n % 16 != 0 || g->k % 16 != 0;
    g->m = to_16(g->m);
    g->n = to_16(g->n);
    g->k = to_16(g->k);
    make_tight(g);
    return had;
}

static bool with_round_sizes_and_tn(trp__matmul *g)
{
    bool sizes = with_round_sizes(g), tn = with_tn(g);
    return sizes && tn;
}

/* The changes in the order of trial; the error names the first that helps. */
static const struct {
    bool (*change)(trp__matmul *g);
    const char *text;
} parts[] = {
    {without_aux, "without an aux output"},
    {without_gradient, "without the bias gradient"},
    {without_bias, "without a bias"},
    {without_epilogue, "without any activation, bias, aux and gradient"},
    {without_alphas, "with one alpha for all of D"},
    {without_block_scales, "without factors for blocks of D"},
    {without_largest, "without amax"},
    {with_default_compute, "with TRP_COMPUTE_DEFAULT and without fast_accumulation"},
    {with_tensor_scales, "with scales for whole tensors"},
    {without_batch, "without a batch"},
    {with_tight_lines, "with the smallest leading dimensions"},
    {with_tn, "with A transposed and B not, in column-major order"},
    {with_round_sizes, "with m, n and k that are multiples of 16"},
    {with_round_sizes_and_tn, "with A transposed and B not, in column-major order, and m, n and k "
                              "that are multiples of 16"},
};

trp_status trp__matmul_blame(const trp__matmul_planner *planner, const trp__matmul_key *key,
                             void *const at[], trp_error *error)
{
    char version[32];
    trp__cublaslt_version(planner->lt, version, sizeof version);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        trp__matmul_key other = *key;
        trp__matmul_plan plan = {0};
        trp_error ignored;
        if (!parts[i].change(&other.problem) ||
            trp__matmul_plan_try(planner, &other, at, &plan, &ignored) != TRP_OK)
            continue;
        trp__matmul_plan_drop(planner->lt, &plan);
        return trp__error_set_code(error, TRP_E_UNSUPPORTED, "cublas", TRP__CUBLAS_NOT_SUPPORTED,
                                   "cuBLASLt %s on compute capability %d.%d has no algorithm for "
                                   "this problem; it has one %s",
                                   version, planner->major, planner->minor, parts[i].text);
    }
    const uint8_t *type = key->problem.type;
    return trp__error_set_code(error, TRP_E_UNSUPPORTED, "cublas", TRP__CUBLAS_NOT_SUPPORTED,
                               "cuBLASLt %s on compute capability %d.%d has no algorithm for this "
                               "problem of %s x %s to %s, even without any one of its parts",
                               version, planner->major, planner->minor,
                               trp_dtype_name((trp_dtype)type[TRP__MATMUL_A]),
                               trp_dtype_name((trp_dtype)type[TRP__MATMUL_B]),
                               trp_dtype_name((trp_dtype)type[TRP__MATMUL_D]));
}

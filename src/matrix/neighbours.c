#include "matrix/neighbours.h"

#include <string.h>

#define CONFIG(name)     TRP__CUBLASLT_ALGO_CONFIG_##name
#define CAPABILITY(name) TRP__CUBLASLT_ALGO_CAP_##name

enum {
    VALUES = 1024, /* the most values of an attribute: cuBLASLt 13.1 lists 634 tiles */
    CLUSTERS = 32, /* numbers of clusters to try; the library refuses those that it does not use */
};

typedef struct walk {
    const trp__matmul_planner *planner;
    const trp__matmul_key *key;
    const trp__matmul_plan *plan;
    const trp__cublaslt_algo *seed;
    trp__matmul_visit visit;
    void *context;
} walk;

static uint32_t capability(const walk *w, const trp__cublaslt_algo *algo,
                           trp__cublaslt_capability which)
{
    uint32_t value = 0;
    size_t written;
    return w->planner->lt->cublasLtMatmulAlgoCapGetAttribute(algo, which, &value, sizeof value,
                                                             &written) == TRP__CUBLAS_SUCCESS
               ? value
               : 0;
}

static bool set(const walk *w, trp__cublaslt_algo *algo, trp__cublaslt_config which, uint32_t value)
{
    const trp__cublaslt *lt = w->planner->lt;
    uint16_t narrow = (uint16_t)value;
    return (which == CONFIG(CLUSTER_SHAPE_ID)
                ? lt->cublasLtMatmulAlgoConfigSetAttribute(algo, which, &narrow, sizeof narrow)
                : lt->cublasLtMatmulAlgoConfigSetAttribute(algo, which, &value, sizeof value)) ==
           TRP__CUBLAS_SUCCESS;
}

/* Checks alignments, since the library does not know the addresses of the operands. */
static bool is_aligned(const walk *w, const trp__cublaslt_algo *algo)
{
    static const trp__cublaslt_capability least[] = {
        CAPABILITY(MIN_ALIGNMENT_A_BYTES), CAPABILITY(MIN_ALIGNMENT_B_BYTES),
        CAPABILITY(MIN_ALIGNMENT_C_BYTES), CAPABILITY(MIN_ALIGNMENT_D_BYTES)};
    bool c = trp__matmul_has(&w->key->problem, TRP__MATMUL_C);
    for (int i = 0; i < 4; i++) {
        if ((i != 2 || c) && capability(w, algo, least[i]) > UINT32_C(1) << w->key->alignment[i])
            return false;
    }
    return true;
}

/* Visits an algorithm if it can compute the problem. False: the walk must end. */
static bool try(const walk *w, const trp__cublaslt_algo *algo)
{
    trp__cublaslt_result result;
    const trp__matmul_plan *plan = w->plan;
    if (memcmp(algo, w->seed, sizeof *algo) == 0 || !is_aligned(w, algo) ||
        w->planner->lt->cublasLtMatmulAlgoCheck(
            w->planner->handle, plan->desc, plan->layout[TRP__MATMUL_A],
            plan->layout[TRP__MATMUL_B], plan->layout[TRP__MATMUL_C], plan->layout[TRP__MATMUL_D],
            algo, &result) != TRP__CUBLAS_SUCCESS ||
        result.state != TRP__CUBLAS_SUCCESS || result.workspace_bytes > w->key->problem.workspace)
        return true;
    result.algo = *algo;
    return w->visit(w->context, &result);
}

static bool with_each(const walk *w, trp__cublaslt_config which, const uint32_t *values,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        trp__cublaslt_algo algo = *w->seed;
        if (set(w, &algo, which, values[i]) && !try(w, &algo))
            return false;
    }
    return true;
}

/* Tries the values from 0 to `last`. */
static bool with_numbers(const walk *w, trp__cublaslt_config which, uint32_t last)
{
    for (uint32_t i = 0; i <= last; i++) {
        if (!with_each(w, which, &i, 1))
            return false;
    }
    return true;
}

static bool with_listed(const walk *w, trp__cublaslt_config which, trp__cublaslt_capability list)
{
    uint32_t values[VALUES];
    size_t written = 0;
    if (w->planner->lt->cublasLtMatmulAlgoCapGetAttribute(w->seed, list, values, sizeof values,
                                                          &written) != TRP__CUBLAS_SUCCESS)
        return true;
    return with_each(w, which, values, (uint32_t)(written / sizeof *values));
}

/* Tries splits of k. Parts of a sum are added in the compute type, as in make_preference(). */
static bool with_splits(const walk *w)
{
    static const uint32_t parts[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 32};
    if (!capability(w, w->seed, CAPABILITY(SPLITK_SUPPORT)))
        return true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        trp__cublaslt_algo algo = *w->seed;
        uint32_t scheme = parts[i] > 1 ? TRP__CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                       : TRP__CUBLASLT_REDUCTION_SCHEME_NONE;
        if (set(w, &algo, CONFIG(SPLITK_NUM), parts[i]) &&
            set(w, &algo, CONFIG(REDUCTION_SCHEME), scheme) && !try(w, &algo))
            return false;
    }
    return true;
}

bool trp__matmul_neighbours(const trp__matmul_planner *planner, const trp__matmul_key *key,
                            const trp__matmul_plan *plan, const trp__cublaslt_algo *seed,
                            trp__matmul_visit visit, void *context)
{
    const walk w = {planner, key, plan, seed, visit, context};
    return with_numbers(&w, CONFIG(CTA_SWIZZLING),
                        capability(&w, seed, CAPABILITY(CTA_SWIZZLING_SUPPORT)) != 0) &&
           with_numbers(&w, CONFIG(CUSTOM_OPTION),
                        capability(&w, seed, CAPABILITY(CUSTOM_OPTION_MAX))) &&
           with_numbers(&w, CONFIG(CLUSTER_SHAPE_ID), CLUSTERS - 1) && with_splits(&w) &&
           with_listed(&w, CONFIG(STAGES_ID), CAPABILITY(STAGES_IDS)) &&
           with_listed(&w, CONFIG(TILE_ID), CAPABILITY(TILE_IDS));
}

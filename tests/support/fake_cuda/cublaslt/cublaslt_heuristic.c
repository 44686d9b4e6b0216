/* The algorithms of the fake cuBLASLt: five for every supported product. They differ in their
 * requirements, not in their results. */
#include "support/fake_cuda/cublaslt/cublaslt.h"
#include "support/fake_cuda/settings.h"

#include <string.h>

enum { ALGORITHMS = 5, FIRST_ID = 64, ALGO_MAGIC = 0xa190 };

/* From fast to slow. The first one also needs workspace for partial sums. */
static const struct {
    uint32_t tile, stages, reduction;
    int32_t split;
    uint64_t workspace_bytes;
    float waves;
} algorithms[ALGORITHMS] = {
    {20, 14, TRP__CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 4, 256, 0.5f},
    {23, 15, TRP__CUBLASLT_REDUCTION_SCHEME_INPLACE, 2, 4096, 0.75f},
    {15, 16, TRP__CUBLASLT_REDUCTION_SCHEME_NONE, 1, 65536, 1.0f},
    {18, 17, TRP__CUBLASLT_REDUCTION_SCHEME_NONE, 1, 256, 1.5f},
    {11, 18, TRP__CUBLASLT_REDUCTION_SCHEME_NONE, 1, 0, 2.0f},
};

static uint64_t workspace_of(const lt_problem *p, uint32_t index)
{
    uint64_t parts = (uint64_t)(p->m * p->n) * 4 * (uint64_t)p->d.batch * 4;
    return algorithms[index].workspace_bytes + (index == 0 ? (parts + 255) / 256 * 256 : 0);
}

/* Adds values to an FNV-1a sum; structs would add their padding. */
static void mix(uint64_t *sum, uint64_t value)
{
    for (int byte = 0; byte < 8; byte++, value >>= 8)
        *sum = (*sum ^ (value & 0xff)) * UINT64_C(0x100000001b3);
}

static void mix_layout(uint64_t *sum, const lt_layout *x)
{
#define MIX(name, field, type, preset) mix(sum, (uint64_t)x->field);
    LT_LAYOUT_FIELDS(MIX)
#undef MIX
}

/* Returns a sum of all properties of the product, and of which addresses are set, but not of the
 * addresses. */
static uint64_t sum_of_problem(const lt_problem *p)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    mix_layout(&sum, &p->a);
    mix_layout(&sum, &p->b);
    mix_layout(&sum, &p->c);
    mix_layout(&sum, &p->d);
#define MIX(name, field, type, preset)                                                             \
    mix(&sum, _Generic((type)0, uint64_t : p->desc.field != 0, default : (uint64_t)p->desc.field));
    LT_DESC_FIELDS(MIX)
#undef MIX
    return sum;
}

static uint64_t sum_of_algo(const lt_algo *algo)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    mix(&sum, algo->magic);
    mix(&sum, algo->id);
    mix(&sum, algo->workspace_bytes);
    for (int i = 0; i < 4; i++)
        mix(&sum, algo->alignment[i]);
    mix(&sum, algo->problem);
    return sum;
}

/* Describes one algorithm. */
static void describe(trp__cublaslt_result *result, uint64_t workspace_bytes, uint32_t index)
{
    result->workspace_bytes = workspace_bytes;
    result->state = SUCCESS;
    result->waves = algorithms[index].waves;
    memset(result->reserved, 0, sizeof result->reserved);
}

static trp__cublaslt_algo make(const lt_problem *p, const lt_preference *preference, uint32_t index)
{
    trp__cublaslt_algo out = {0};
    lt_algo algo = {
        .magic = ALGO_MAGIC,
        .id = FIRST_ID + index,
        .workspace_bytes = workspace_of(p, index),
        .alignment = {preference->align_a, preference->align_b, preference->align_c,
                      preference->align_d},
        .problem = sum_of_problem(p),
    };
    algo.sum = sum_of_algo(&algo);
    memcpy(&out, &algo, sizeof algo);
    return out;
}

static bool wanted(const lt_problem *p, const lt_preference *preference, uint32_t index)
{
    uint32_t reduction = algorithms[index].reduction;
    return workspace_of(p, index) <= preference->workspace_bytes &&
           (reduction == 0 || (reduction & preference->reductions) != 0) &&
           (preference->waves == 0 || algorithms[index].waves <= preference->waves);
}

trp__cublas_status cublasLtMatmulAlgoGetHeuristic(
    trp__cublaslt_handle handle, trp__cublaslt_desc desc, trp__cublaslt_layout a,
    trp__cublaslt_layout b, trp__cublaslt_layout c, trp__cublaslt_layout d,
    trp__cublaslt_preference preference, int requested, trp__cublaslt_result results[], int *found)
{
    lt_problem p;
    trp__cublas_status status = fake_lt_called(FAKE_CUBLASLT_HEURISTIC);
    if (requested <= 0 || !results || !found || !preference || preference->magic != LT_PREFERENCE)
        return INVALID_VALUE;
    *found = 0;
    fake_report_mine("cublaslt_plans", "heuristic");
    if (status == SUCCESS)
        status = fake_lt_check(handle, desc, a, b, c, d, &p);
    if (status != SUCCESS)
        return status;
    const uint32_t alignment[] = {preference->align_a, preference->align_b, preference->align_c,
                                  preference->align_d};
    if (preference->search != TRP__CUBLASLT_SEARCH_BEST_FIT ||
        !fake_lt_aligned_enough(&p, alignment))
        return NOT_SUPPORTED;
    for (uint32_t i = 0; i < ALGORITHMS && *found < requested; i++) {
        if (!wanted(&p, preference, i))
            continue;
        results[*found].algo = make(&p, preference, i);
        describe(&results[(*found)++], workspace_of(&p, i), i);
    }
    return *found > 0 ? SUCCESS : NOT_SUPPORTED;
}

static bool read_any(const trp__cublaslt_algo *algo, lt_algo *out)
{
    if (!algo)
        return false;
    memcpy(out, algo, sizeof *out);
    return out->magic == ALGO_MAGIC && out->sum == sum_of_algo(out) && out->id >= FIRST_ID &&
           out->id < FIRST_ID + ALGORITHMS;
}

trp__cublas_status fake_lt_read_algo(const trp__cublaslt_algo *algo, const lt_problem *problem,
                                     lt_algo *out)
{
    return read_any(algo, out) && out->problem == sum_of_problem(problem) ? SUCCESS : INVALID_VALUE;
}

trp__cublas_status cublasLtMatmulAlgoCheck(trp__cublaslt_handle handle, trp__cublaslt_desc desc,
                                           trp__cublaslt_layout a, trp__cublaslt_layout b,
                                           trp__cublaslt_layout c, trp__cublaslt_layout d,
                                           const trp__cublaslt_algo *algo,
                                           trp__cublaslt_result *result)
{
    lt_problem p;
    lt_algo content;
    trp__cublas_status status = fake_lt_called(FAKE_CUBLASLT_CHECK);
    if (!result)
        return INVALID_VALUE;
    if (status == SUCCESS)
        status = fake_lt_check(handle, desc, a, b, c, d, &p);
    if (status == SUCCESS)
        status = fake_lt_read_algo(algo, &p, &content);
    if (status == SUCCESS)
        describe(result, content.workspace_bytes, content.id - FIRST_ID);
    return status;
}

/* Attributes. */

static trp__cublas_status give(const void *from, size_t needed, void *value, size_t bytes,
                               size_t *written)
{
    if (bytes == 0 && !written)
        return INVALID_VALUE;
    if (bytes != 0 && (!value || bytes != needed))
        return INVALID_VALUE;
    if (bytes != 0)
        memcpy(value, from, needed);
    if (written)
        *written = needed;
    return SUCCESS;
}

trp__cublas_status cublasLtMatmulAlgoConfigGetAttribute(const trp__cublaslt_algo *algo,
                                                        trp__cublaslt_config number, void *value,
                                                        size_t bytes, size_t *written)
{
    static const uint32_t none;
    lt_algo content;
    if (!read_any(algo, &content))
        return INVALID_VALUE;
    uint32_t index = content.id - FIRST_ID;
    switch (number) {
    case TRP__CUBLASLT_ALGO_CONFIG_ID:
        return give(&content.id, 4, value, bytes, written);
    case TRP__CUBLASLT_ALGO_CONFIG_TILE_ID:
        return give(&algorithms[index].tile, 4, value, bytes, written);
    case TRP__CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
        return give(&algorithms[index].split, 4, value, bytes, written);
    case TRP__CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
        return give(&algorithms[index].reduction, 4, value, bytes, written);
    case TRP__CUBLASLT_ALGO_CONFIG_STAGES_ID:
        return give(&algorithms[index].stages, 4, value, bytes, written);
    case TRP__CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING:
        return give(&content.swizzle, 4, value, bytes, written);
    case TRP__CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION:
        return give(&none, 4, value, bytes, written);
    case TRP__CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID:
    case TRP__CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
        return give(&none, 2, value, bytes, written);
    }
    return INVALID_VALUE;
}

/* Swizzling is the only attribute that can be changed. */
trp__cublas_status cublasLtMatmulAlgoConfigSetAttribute(trp__cublaslt_algo *algo,
                                                        trp__cublaslt_config number,
                                                        const void *value, size_t bytes)
{
    lt_algo content;
    uint32_t wanted;
    if (!read_any(algo, &content) || !value || (bytes != 2 && bytes != 4))
        return INVALID_VALUE;
    if (number != TRP__CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING)
        return NOT_SUPPORTED;
    memcpy(&wanted, value, sizeof wanted);
    if (wanted > 1)
        return INVALID_VALUE;
    content.swizzle = wanted;
    content.sum = sum_of_algo(&content);
    memcpy(algo, &content, sizeof content);
    return SUCCESS;
}

trp__cublas_status cublasLtMatmulAlgoCapGetAttribute(const trp__cublaslt_algo *algo,
                                                     trp__cublaslt_capability number, void *value,
                                                     size_t bytes, size_t *written)
{
    /* Capabilities that are not 0, of 32 bits each except the flags: tensor cores with sums in f32.
     */
    static const uint32_t one = 1, none, reductions = 7, pointer_modes = 1 | 2 | 8 | 16;
    static const uint32_t all_epilogues = 1023;
    static const uint64_t flags = 0x02 | 0x02 << 8;
    lt_algo content;
    if (!read_any(algo, &content))
        return INVALID_VALUE;
    uint32_t index = content.id - FIRST_ID;
    switch (number) {
    case TRP__CUBLASLT_ALGO_CAP_SPLITK_SUPPORT:
    case TRP__CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT:
    case TRP__CUBLASLT_ALGO_CAP_STRIDED_BATCH_SUPPORT:
    case TRP__CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT:
        return give(&one, 4, value, bytes, written);
    case TRP__CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK:
        return give(&reductions, 4, value, bytes, written);
    case TRP__CUBLASLT_ALGO_CAP_TILE_IDS:
        return give(&algorithms[index].tile, 4, value, bytes, written);
    case TRP__CUBLASLT_ALGO_CAP_STAGES_IDS:
        return give(&algorithms[index].stages, 4, value, bytes, written);
    case TRP__CUBLASLT_ALGO_CAP_POINTER_MODE_MASK:
        return give(&pointer_modes, 4, value, bytes, written);
    case TRP__CUBLASLT_ALGO_CAP_EPILOGUE_MASK:
        return give(&all_epilogues, 4, value, bytes, written);
    case TRP__CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS:
        return give(&flags, 8, value, bytes, written);
    case TRP__CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES:
    case TRP__CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES:
    case TRP__CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES:
    case TRP__CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES:
        return give(&content.alignment[number - TRP__CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES], 4,
                    value, bytes, written);
    case TRP__CUBLASLT_ALGO_CAP_UPLO_SUPPORT:
    case TRP__CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX:
    case TRP__CUBLASLT_ALGO_CAP_CUSTOM_MEMORY_ORDER:
    case TRP__CUBLASLT_ALGO_CAP_LD_NEGATIVE:
    case TRP__CUBLASLT_ALGO_CAP_POINTER_ARRAY_BATCH_SUPPORT:
    case TRP__CUBLASLT_ALGO_CAP_FLOATING_POINT_EMULATION_SUPPORT:
        return give(&none, 4, value, bytes, written);
    }
    return INVALID_VALUE;
}

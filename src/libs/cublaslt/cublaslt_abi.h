/* The part of cuBLASLt's binary interface that Troupe uses, from cuBLAS 12 on.
 * tests/unit/fakes/cuda_abi_test.c compares every line with NVIDIA's header.
 *
 * A row of constants has the version of cuBLAS whose header it is compared with (an older library
 * refuses the constant), the name behind CUBLASLT_, and the value.
 *
 * Source: cuBLAS documentation, chapter "Using the cuBLASLt API". */
#ifndef TRP_LIBS_CUBLASLT_ABI_H
#define TRP_LIBS_CUBLASLT_ABI_H

#include "libs/cublas/cublas_abi.h"

typedef struct trp__cublaslt_context *trp__cublaslt_handle;
typedef struct trp__cublaslt_desc_opaque *trp__cublaslt_desc;     /* cublasLtMatmulDesc_t */
typedef struct trp__cublaslt_layout_opaque *trp__cublaslt_layout; /* cublasLtMatrixLayout_t */
typedef struct trp__cublaslt_preference_opaque
    *trp__cublaslt_preference; /* cublasLtMatmulPreference_t */

/* cudaDataType: TRP__CUBLASLT_R_32F. */
#define TRP__CUBLASLT_TYPES(X)                                                                     \
    X(12_0, R_32F, 0)                                                                              \
    X(12_0, R_64F, 1)                                                                              \
    X(12_0, R_16F, 2)                                                                              \
    X(12_0, R_8I, 3)                                                                               \
    X(12_0, C_32F, 4)                                                                              \
    X(12_0, C_64F, 5)                                                                              \
    X(12_0, R_32I, 10)                                                                             \
    X(12_0, R_16BF, 14)                                                                            \
    X(12_0, R_8F_E4M3, 28)                                                                         \
    X(12_0, R_8F_E5M2, 29)                                                                         \
    X(12_8, R_8F_UE4M3, 28)                                                                        \
    X(12_8, R_8F_UE8M0, 30)                                                                        \
    X(12_8, R_4F_E2M1, 33)

/* cublasComputeType_t: TRP__CUBLASLT_COMPUTE_32F. */
#define TRP__CUBLASLT_COMPUTES(X)                                                                  \
    X(12_0, 16F, 64)                                                                               \
    X(12_0, 16F_PEDANTIC, 65)                                                                      \
    X(12_0, 32F, 68)                                                                               \
    X(12_0, 32F_PEDANTIC, 69)                                                                      \
    X(12_0, 64F, 70)                                                                               \
    X(12_0, 64F_PEDANTIC, 71)                                                                      \
    X(12_0, 32I, 72)                                                                               \
    X(12_0, 32I_PEDANTIC, 73)                                                                      \
    X(12_0, 32F_FAST_16F, 74)                                                                      \
    X(12_0, 32F_FAST_16BF, 75)                                                                     \
    X(12_0, 32F_FAST_TF32, 77)                                                                     \
    X(12_9, 32F_EMULATED_16BFX9, 78)                                                               \
    X(13_1, 64F_EMULATED_FIXEDPOINT, 79)

/* cublasLtEpilogue_t */
#define TRP__CUBLASLT_EPILOGUES(X)                                                                 \
    X(12_0, EPILOGUE_DEFAULT, 1)                                                                   \
    X(12_0, EPILOGUE_RELU, 2)                                                                      \
    X(12_0, EPILOGUE_RELU_AUX, 130)                                                                \
    X(12_0, EPILOGUE_BIAS, 4)                                                                      \
    X(12_0, EPILOGUE_RELU_BIAS, 6)                                                                 \
    X(12_0, EPILOGUE_RELU_AUX_BIAS, 134)                                                           \
    X(12_0, EPILOGUE_DRELU, 136)                                                                   \
    X(12_0, EPILOGUE_DRELU_BGRAD, 152)                                                             \
    X(12_0, EPILOGUE_GELU, 32)                                                                     \
    X(12_0, EPILOGUE_GELU_AUX, 160)                                                                \
    X(12_0, EPILOGUE_GELU_BIAS, 36)                                                                \
    X(12_0, EPILOGUE_GELU_AUX_BIAS, 164)                                                           \
    X(12_0, EPILOGUE_DGELU, 192)                                                                   \
    X(12_0, EPILOGUE_DGELU_BGRAD, 208)                                                             \
    X(12_0, EPILOGUE_BGRADA, 256)                                                                  \
    X(12_0, EPILOGUE_BGRADB, 512)

/* cublasLtMatmulDescAttributes_t */
#define TRP__CUBLASLT_DESC_ATTRIBUTES(X)                                                           \
    X(12_0, MATMUL_DESC_COMPUTE_TYPE, 0)                                                           \
    X(12_0, MATMUL_DESC_SCALE_TYPE, 1)                                                             \
    X(12_0, MATMUL_DESC_POINTER_MODE, 2)                                                           \
    X(12_0, MATMUL_DESC_TRANSA, 3)                                                                 \
    X(12_0, MATMUL_DESC_TRANSB, 4)                                                                 \
    X(12_0, MATMUL_DESC_TRANSC, 5)                                                                 \
    X(12_0, MATMUL_DESC_FILL_MODE, 6)                                                              \
    X(12_0, MATMUL_DESC_EPILOGUE, 7)                                                               \
    X(12_0, MATMUL_DESC_BIAS_POINTER, 8)                                                           \
    X(12_0, MATMUL_DESC_BIAS_BATCH_STRIDE, 10)                                                     \
    X(12_0, MATMUL_DESC_EPILOGUE_AUX_POINTER, 11)                                                  \
    X(12_0, MATMUL_DESC_EPILOGUE_AUX_LD, 12)                                                       \
    X(12_0, MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, 13)                                             \
    X(12_0, MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, 14)                                             \
    X(12_0, MATMUL_DESC_SM_COUNT_TARGET, 15)                                                       \
    X(12_0, MATMUL_DESC_A_SCALE_POINTER, 17)                                                       \
    X(12_0, MATMUL_DESC_B_SCALE_POINTER, 18)                                                       \
    X(12_0, MATMUL_DESC_C_SCALE_POINTER, 19)                                                       \
    X(12_0, MATMUL_DESC_D_SCALE_POINTER, 20)                                                       \
    X(12_0, MATMUL_DESC_AMAX_D_POINTER, 21)                                                        \
    X(12_0, MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, 22)                                                \
    X(12_0, MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, 23)                                            \
    X(12_0, MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, 24)                                             \
    X(12_0, MATMUL_DESC_FAST_ACCUM, 25)                                                            \
    X(12_0, MATMUL_DESC_BIAS_DATA_TYPE, 26)                                                        \
    X(12_8, MATMUL_DESC_A_SCALE_MODE, 31)                                                          \
    X(12_8, MATMUL_DESC_B_SCALE_MODE, 32)                                                          \
    X(12_8, MATMUL_DESC_C_SCALE_MODE, 33)                                                          \
    X(12_8, MATMUL_DESC_D_SCALE_MODE, 34)                                                          \
    X(12_8, MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE, 35)                                               \
    X(12_8, MATMUL_DESC_D_OUT_SCALE_POINTER, 36)                                                   \
    X(12_8, MATMUL_DESC_D_OUT_SCALE_MODE, 37)                                                      \
    X(13_1, MATMUL_DESC_EMULATION_DESCRIPTOR, 38)

/* cublasLtMatrixLayoutAttribute_t */
#define TRP__CUBLASLT_LAYOUT_ATTRIBUTES(X)                                                         \
    X(12_0, MATRIX_LAYOUT_TYPE, 0)                                                                 \
    X(12_0, MATRIX_LAYOUT_ORDER, 1)                                                                \
    X(12_0, MATRIX_LAYOUT_ROWS, 2)                                                                 \
    X(12_0, MATRIX_LAYOUT_COLS, 3)                                                                 \
    X(12_0, MATRIX_LAYOUT_LD, 4)                                                                   \
    X(12_0, MATRIX_LAYOUT_BATCH_COUNT, 5)                                                          \
    X(12_0, MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6)                                                 \
    X(12_0, MATRIX_LAYOUT_PLANE_OFFSET, 7)                                                         \
    X(13_1, MATRIX_LAYOUT_BATCH_MODE, 8)

/* cublasLtMatmulPreferenceAttributes_t */
#define TRP__CUBLASLT_PREFERENCE_ATTRIBUTES(X)                                                     \
    X(12_0, MATMUL_PREF_SEARCH_MODE, 0)                                                            \
    X(12_0, MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)                                                    \
    X(12_0, MATMUL_PREF_REDUCTION_SCHEME_MASK, 3)                                                  \
    X(12_0, MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)                                                  \
    X(12_0, MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6)                                                  \
    X(12_0, MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7)                                                  \
    X(12_0, MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)                                                  \
    X(12_0, MATMUL_PREF_MAX_WAVES_COUNT, 9)                                                        \
    X(12_0, MATMUL_PREF_IMPL_MASK, 12)

/* cublasLtMatmulMatrixScale_t: layout of scale factors */
#define TRP__CUBLASLT_SCALE_MODES(X)                                                               \
    X(12_8, MATMUL_MATRIX_SCALE_SCALAR_32F, 0)                                                     \
    X(12_8, MATMUL_MATRIX_SCALE_VEC16_UE4M3, 1)                                                    \
    X(12_8, MATMUL_MATRIX_SCALE_VEC32_UE8M0, 2)                                                    \
    X(12_9, MATMUL_MATRIX_SCALE_OUTER_VEC_32F, 3)                                                  \
    X(12_9, MATMUL_MATRIX_SCALE_VEC128_32F, 4)                                                     \
    X(12_9, MATMUL_MATRIX_SCALE_BLK128x128_32F, 5)

/* cublasLtOrder_t */
#define TRP__CUBLASLT_ORDERS(X)                                                                    \
    X(12_0, ORDER_COL, 0)                                                                          \
    X(12_0, ORDER_ROW, 1)                                                                          \
    X(12_0, ORDER_COL32, 2)                                                                        \
    X(12_0, ORDER_COL4_4R2_8C, 3)                                                                  \
    X(12_0, ORDER_COL32_2R_4R4, 4)

/* cublasLtBatchMode_t */
#define TRP__CUBLASLT_BATCH_MODES(X)                                                               \
    X(13_1, BATCH_MODE_STRIDED, 0)                                                                 \
    X(13_1, BATCH_MODE_POINTER_ARRAY, 1)

/* cublasLtPointerMode_t */
#define TRP__CUBLASLT_POINTER_MODES(X)                                                             \
    X(12_0, POINTER_MODE_HOST, 0)                                                                  \
    X(12_0, POINTER_MODE_DEVICE, 1)                                                                \
    X(12_0, POINTER_MODE_DEVICE_VECTOR, 2)                                                         \
    X(12_0, POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO, 3)                                         \
    X(12_0, POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST, 4)

/* cublasLtReductionScheme_t */
#define TRP__CUBLASLT_REDUCTIONS(X)                                                                \
    X(12_0, REDUCTION_SCHEME_NONE, 0)                                                              \
    X(12_0, REDUCTION_SCHEME_INPLACE, 1)                                                           \
    X(12_0, REDUCTION_SCHEME_COMPUTE_TYPE, 2)                                                      \
    X(12_0, REDUCTION_SCHEME_OUTPUT_TYPE, 4)                                                       \
    X(12_0, REDUCTION_SCHEME_MASK, 7)

/* cublasLtMatmulSearch_t */
#define TRP__CUBLASLT_SEARCHES(X)                                                                  \
    X(12_0, SEARCH_BEST_FIT, 0)                                                                    \
    X(12_0, SEARCH_LIMITED_BY_ALGO_ID, 1)

/* cublasLtMatmulAlgoCapAttributes_t */
#define TRP__CUBLASLT_CAPABILITIES(X)                                                              \
    X(12_0, ALGO_CAP_SPLITK_SUPPORT, 0)                                                            \
    X(12_0, ALGO_CAP_REDUCTION_SCHEME_MASK, 1)                                                     \
    X(12_0, ALGO_CAP_CTA_SWIZZLING_SUPPORT, 2)                                                     \
    X(12_0, ALGO_CAP_STRIDED_BATCH_SUPPORT, 3)                                                     \
    X(12_0, ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT, 4)                                               \
    X(12_0, ALGO_CAP_UPLO_SUPPORT, 5)                                                              \
    X(12_0, ALGO_CAP_TILE_IDS, 6)                                                                  \
    X(12_0, ALGO_CAP_CUSTOM_OPTION_MAX, 7)                                                         \
    X(12_0, ALGO_CAP_CUSTOM_MEMORY_ORDER, 10)                                                      \
    X(12_0, ALGO_CAP_POINTER_MODE_MASK, 11)                                                        \
    X(12_0, ALGO_CAP_EPILOGUE_MASK, 12)                                                            \
    X(12_0, ALGO_CAP_STAGES_IDS, 13)                                                               \
    X(12_0, ALGO_CAP_LD_NEGATIVE, 14)                                                              \
    X(12_0, ALGO_CAP_NUMERICAL_IMPL_FLAGS, 15)                                                     \
    X(12_0, ALGO_CAP_MIN_ALIGNMENT_A_BYTES, 16)                                                    \
    X(12_0, ALGO_CAP_MIN_ALIGNMENT_B_BYTES, 17)                                                    \
    X(12_0, ALGO_CAP_MIN_ALIGNMENT_C_BYTES, 18)                                                    \
    X(12_0, ALGO_CAP_MIN_ALIGNMENT_D_BYTES, 19)                                                    \
    X(13_1, ALGO_CAP_POINTER_ARRAY_BATCH_SUPPORT, 21)                                              \
    X(13_1, ALGO_CAP_FLOATING_POINT_EMULATION_SUPPORT, 22)

/* cublasLtMatmulAlgoConfigAttributes_t */
#define TRP__CUBLASLT_CONFIGS(X)                                                                   \
    X(12_0, ALGO_CONFIG_ID, 0)                                                                     \
    X(12_0, ALGO_CONFIG_TILE_ID, 1)                                                                \
    X(12_0, ALGO_CONFIG_SPLITK_NUM, 2)                                                             \
    X(12_0, ALGO_CONFIG_REDUCTION_SCHEME, 3)                                                       \
    X(12_0, ALGO_CONFIG_CTA_SWIZZLING, 4)                                                          \
    X(12_0, ALGO_CONFIG_CUSTOM_OPTION, 5)                                                          \
    X(12_0, ALGO_CONFIG_STAGES_ID, 6)                                                              \
    X(12_0, ALGO_CONFIG_INNER_SHAPE_ID, 7)                                                         \
    X(12_0, ALGO_CONFIG_CLUSTER_SHAPE_ID, 8)

#define TRP__CUBLASLT_ENUMERATOR(since, name, value) TRP__CUBLASLT_##name = value,
#define TRP__CUBLASLT_COMPUTE(since, name, value)    TRP__CUBLASLT_COMPUTE_##name = value,

/* int instead of enumerations, since functions of cuBLAS take these values, too. */
typedef int trp__cublaslt_type;
typedef int trp__cublaslt_compute;
enum { TRP__CUBLASLT_TYPES(TRP__CUBLASLT_ENUMERATOR) };
enum { TRP__CUBLASLT_COMPUTES(TRP__CUBLASLT_COMPUTE) };

typedef enum trp__cublaslt_epilogue {
    TRP__CUBLASLT_EPILOGUES(TRP__CUBLASLT_ENUMERATOR)
} trp__cublaslt_epilogue;
typedef enum trp__cublaslt_desc_attribute {
    TRP__CUBLASLT_DESC_ATTRIBUTES(TRP__CUBLASLT_ENUMERATOR)
} trp__cublaslt_desc_attribute;
typedef enum trp__cublaslt_layout_attribute {
    TRP__CUBLASLT_LAYOUT_ATTRIBUTES(TRP__CUBLASLT_ENUMERATOR)
} trp__cublaslt_layout_attribute;
typedef enum trp__cublaslt_preference_attribute {
    TRP__CUBLASLT_PREFERENCE_ATTRIBUTES(TRP__CUBLASLT_ENUMERATOR)
} trp__cublaslt_preference_attribute;
typedef enum trp__cublaslt_scale_mode {
    TRP__CUBLASLT_SCALE_MODES(TRP__CUBLASLT_ENUMERATOR)
} trp__cublaslt_scale_mode;
typedef enum trp__cublaslt_order {
    TRP__CUBLASLT_ORDERS(TRP__CUBLASLT_ENUMERATOR)
} trp__cublaslt_order;
typedef enum trp__cublaslt_batch_mode {
    TRP__CUBLASLT_BATCH_MODES(TRP__CUBLASLT_ENUMERATOR)
} trp__cublaslt_batch_mode;
typedef enum trp__cublaslt_pointer_mode {
    TRP__CUBLASLT_POINTER_MODES(TRP__CUBLASLT_ENUMERATOR)
} trp__cublaslt_pointer_mode;
typedef enum trp__cublaslt_reduction {
    TRP__CUBLASLT_REDUCTIONS(TRP__CUBLASLT_ENUMERATOR)
} trp__cublaslt_reduction;
typedef enum trp__cublaslt_search {
    TRP__CUBLASLT_SEARCHES(TRP__CUBLASLT_ENUMERATOR)
} trp__cublaslt_search;
typedef enum trp__cublaslt_capability {
    TRP__CUBLASLT_CAPABILITIES(TRP__CUBLASLT_ENUMERATOR)
} trp__cublaslt_capability;
typedef enum trp__cublaslt_config {
    TRP__CUBLASLT_CONFIGS(TRP__CUBLASLT_ENUMERATOR)
} trp__cublaslt_config;

/* cublasLtMatmulAlgo_t: may be stored, and used again with the same version of cuBLAS. */
typedef struct trp__cublaslt_algo {
    uint64_t data[8];
} trp__cublaslt_algo;

/* cublasLtMatmulHeuristicResult_t */
typedef struct trp__cublaslt_result {
    trp__cublaslt_algo algo;
    size_t workspace_bytes;
    trp__cublas_status state; /* the rest holds only if this is success */
    float waves;
    int reserved[4];
} trp__cublaslt_result;

/* One row per function: result, exported name, parameters, whether it is required. */
#define TRP__CUBLASLT_FUNCTIONS(X)                                                                 \
    X(trp__cublas_status, cublasLtCreate, (trp__cublaslt_handle * handle), true)                   \
    X(trp__cublas_status, cublasLtDestroy, (trp__cublaslt_handle handle), true)                    \
    X(size_t, cublasLtGetVersion, (void), true)                                                    \
    X(trp__cublas_status, cublasLtGetProperty, (trp__cuda_property property, int *value), true)    \
    X(const char *, cublasLtGetStatusName, (trp__cublas_status status), true)                      \
    X(const char *, cublasLtGetStatusString, (trp__cublas_status status), true)                    \
    X(trp__cublas_status, cublasLtMatmul,                                                          \
      (trp__cublaslt_handle handle, trp__cublaslt_desc desc, const void *alpha, const void *a,     \
       trp__cublaslt_layout a_layout, const void *b, trp__cublaslt_layout b_layout,                \
       const void *beta, const void *c, trp__cublaslt_layout c_layout, void *d,                    \
       trp__cublaslt_layout d_layout, const trp__cublaslt_algo *algo, void *workspace,             \
       size_t workspace_bytes, trp__cu_stream stream),                                             \
      true)                                                                                        \
    X(trp__cublas_status, cublasLtMatmulDescCreate,                                                \
      (trp__cublaslt_desc * desc, trp__cublaslt_compute compute, trp__cublaslt_type scale_type),   \
      true)                                                                                        \
    X(trp__cublas_status, cublasLtMatmulDescDestroy, (trp__cublaslt_desc desc), true)              \
    X(trp__cublas_status, cublasLtMatmulDescSetAttribute,                                          \
      (trp__cublaslt_desc desc, trp__cublaslt_desc_attribute attribute, const void *value,         \
       size_t bytes),                                                                              \
      true)                                                                                        \
    X(trp__cublas_status, cublasLtMatrixLayoutCreate,                                              \
      (trp__cublaslt_layout * layout, trp__cublaslt_type type, uint64_t rows, uint64_t columns,    \
       int64_t ld),                                                                                \
      true)                                                                                        \
    X(trp__cublas_status, cublasLtMatrixLayoutDestroy, (trp__cublaslt_layout layout), true)        \
    X(trp__cublas_status, cublasLtMatrixLayoutSetAttribute,                                        \
      (trp__cublaslt_layout layout, trp__cublaslt_layout_attribute attribute, const void *value,   \
       size_t bytes),                                                                              \
      true)                                                                                        \
    X(trp__cublas_status, cublasLtMatmulPreferenceCreate, (trp__cublaslt_preference * preference), \
      true)                                                                                        \
    X(trp__cublas_status, cublasLtMatmulPreferenceDestroy, (trp__cublaslt_preference preference),  \
      true)                                                                                        \
    X(trp__cublas_status, cublasLtMatmulPreferenceSetAttribute,                                    \
      (trp__cublaslt_preference preference, trp__cublaslt_preference_attribute attribute,          \
       const void *value, size_t bytes),                                                           \
      true)                                                                                        \
    X(trp__cublas_status, cublasLtMatmulAlgoGetHeuristic,                                          \
      (trp__cublaslt_handle handle, trp__cublaslt_desc desc, trp__cublaslt_layout a,               \
       trp__cublaslt_layout b, trp__cublaslt_layout c, trp__cublaslt_layout d,                     \
       trp__cublaslt_preference preference, int requested, trp__cublaslt_result results[],         \
       int *found),                                                                                \
      true)                                                                                        \
    X(trp__cublas_status, cublasLtMatmulAlgoCheck,                                                 \
      (trp__cublaslt_handle handle, trp__cublaslt_desc desc, trp__cublaslt_layout a,               \
       trp__cublaslt_layout b, trp__cublaslt_layout c, trp__cublaslt_layout d,                     \
       const trp__cublaslt_algo *algo, trp__cublaslt_result *result),                              \
      true)                                                                                        \
    X(trp__cublas_status, cublasLtMatmulAlgoConfigGetAttribute,                                    \
      (const trp__cublaslt_algo *algo, trp__cublaslt_config attribute, void *value, size_t bytes,  \
       size_t *written),                                                                           \
      true)                                                                                        \
    X(trp__cublas_status, cublasLtMatmulAlgoConfigSetAttribute,                                    \
      (trp__cublaslt_algo * algo, trp__cublaslt_config attribute, const void *value,               \
       size_t bytes),                                                                              \
      true)                                                                                        \
    X(trp__cublas_status, cublasLtMatmulAlgoCapGetAttribute,                                       \
      (const trp__cublaslt_algo *algo, trp__cublaslt_capability attribute, void *value,            \
       size_t bytes, size_t *written),                                                             \
      true)

#endif

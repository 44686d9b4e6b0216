/* The part of cuBLAS's binary interface that Troupe uses, from cuBLAS 12 on.
 * tests/unit/fakes/cuda_abi_test.c compares every line with NVIDIA's header.
 *
 * Source: cuBLAS documentation. */
#ifndef TRP_LIBS_CUBLAS_ABI_H
#define TRP_LIBS_CUBLAS_ABI_H

#include "driver/cuda_abi.h"

#include <stdint.h>

typedef int trp__cublas_status; /* cublasStatus_t */
typedef struct trp__cublas_opaque *trp__cublas_handle;

enum {
    TRP__CUBLAS_SUCCESS = 0,
    TRP__CUBLAS_ALLOC_FAILED = 3,
    TRP__CUBLAS_INVALID_VALUE = 7,
    TRP__CUBLAS_NOT_SUPPORTED = 15,
};

/* cublasOperation_t */
typedef enum trp__cublas_operation {
    TRP__CUBLAS_OP_N = 0,
    TRP__CUBLAS_OP_T = 1,
    TRP__CUBLAS_OP_C = 2,
} trp__cublas_operation;

/* cudaDataType */
typedef enum trp__cublas_type {
    TRP__CUDA_R_32F = 0,
    TRP__CUDA_R_64F = 1,
    TRP__CUDA_R_16F = 2,
    TRP__CUDA_R_8I = 3,
    TRP__CUDA_C_32F = 4,
    TRP__CUDA_C_64F = 5,
    TRP__CUDA_R_32I = 10,
    TRP__CUDA_R_16BF = 14,
} trp__cublas_type;

/* cublasComputeType_t; the emulated ones came with cuBLAS 12.9 and 13.1. */
typedef enum trp__cublas_compute {
    TRP__CUBLAS_COMPUTE_32F = 68,
    TRP__CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    TRP__CUBLAS_COMPUTE_64F = 70,
    TRP__CUBLAS_COMPUTE_64F_PEDANTIC = 71,
    TRP__CUBLAS_COMPUTE_32I = 72,
    TRP__CUBLAS_COMPUTE_32I_PEDANTIC = 73,
    TRP__CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
    TRP__CUBLAS_COMPUTE_32F_EMULATED_16BFX9 = 78,
    TRP__CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT = 79,
} trp__cublas_compute;

/* cublasEmulationStrategy_t. EAGER emulates wherever it may. */
typedef enum trp__cublas_strategy {
    TRP__CUBLAS_EMULATION_STRATEGY_DEFAULT = 0,
    TRP__CUBLAS_EMULATION_STRATEGY_EAGER = 2,
} trp__cublas_strategy;

/* cublasGemmAlgo_t */
typedef enum trp__cublas_algorithm {
    TRP__CUBLAS_GEMM_DEFAULT = -1,
} trp__cublas_algorithm;

/* cublasMath_t; the flag is combined with a mode. */
typedef enum trp__cublas_math {
    TRP__CUBLAS_DEFAULT_MATH = 0,
    TRP__CUBLAS_DISALLOW_REDUCED_PRECISION_REDUCTION = 16,
} trp__cublas_math;

/* cublasPointerMode_t: memory of scalars and results */
typedef enum trp__cublas_pointer_mode {
    TRP__CUBLAS_POINTER_MODE_HOST = 0,
    TRP__CUBLAS_POINTER_MODE_DEVICE = 1,
} trp__cublas_pointer_mode;

/* Since cuBLAS 12.5. */
#define TRP__CUBLAS_GROUPED_FUNCTION(X)                                                            \
    X(trp__cublas_status, cublasGemmGroupedBatchedEx,                                              \
      (trp__cublas_handle handle, const trp__cublas_operation trans_a[],                           \
       const trp__cublas_operation trans_b[], const int m[], const int n[], const int k[],         \
       const void *alpha, const void *const a[], trp__cublas_type a_type, const int lda[],         \
       const void *const b[], trp__cublas_type b_type, const int ldb[], const void *beta,          \
       void *const c[], trp__cublas_type c_type, const int ldc[], int group_count,                 \
       const int group_size[], trp__cublas_compute compute),                                       \
      false)

/* Since emulation: the first with that of f32 (cuBLAS 12.9), the second with that of f64 (13.1); it
 * is looked up only to detect the latter. */
#define TRP__CUBLAS_EMULATION_FUNCTIONS(X)                                                         \
    X(trp__cublas_status, cublasSetEmulationStrategy,                                              \
      (trp__cublas_handle handle, trp__cublas_strategy strategy), false)                           \
    X(trp__cublas_status, cublasSetFixedPointEmulationMaxMantissaBitCount,                         \
      (trp__cublas_handle handle, int bits), false)

/* One row per function: result, exported name, parameters, whether it is required. Functions with
 * 64-bit sizes exist since cuBLAS 12. */
#define TRP__CUBLAS_FUNCTIONS(X)                                                                   \
    X(trp__cublas_status, cublasCreate_v2, (trp__cublas_handle * handle), true)                    \
    X(trp__cublas_status, cublasDestroy_v2, (trp__cublas_handle handle), true)                     \
    X(trp__cublas_status, cublasGetProperty, (trp__cuda_property property, int *value), true)      \
    X(const char *, cublasGetStatusName, (trp__cublas_status status), true)                        \
    X(const char *, cublasGetStatusString, (trp__cublas_status status), true)                      \
    X(trp__cublas_status, cublasSetStream_v2, (trp__cublas_handle handle, trp__cu_stream stream),  \
      true)                                                                                        \
    X(trp__cublas_status, cublasSetWorkspace_v2,                                                   \
      (trp__cublas_handle handle, void *workspace, size_t bytes), true)                            \
    X(trp__cublas_status, cublasSetMathMode, (trp__cublas_handle handle, trp__cublas_math mode),   \
      true)                                                                                        \
    X(trp__cublas_status, cublasSetPointerMode_v2,                                                 \
      (trp__cublas_handle handle, trp__cublas_pointer_mode mode), true)                            \
    X(trp__cublas_status, cublasGemmEx,                                                            \
      (trp__cublas_handle handle, trp__cublas_operation trans_a, trp__cublas_operation trans_b,    \
       int m, int n, int k, const void *alpha, const void *a, trp__cublas_type a_type, int lda,    \
       const void *b, trp__cublas_type b_type, int ldb, const void *beta, void *c,                 \
       trp__cublas_type c_type, int ldc, trp__cublas_compute compute,                              \
       trp__cublas_algorithm algorithm),                                                           \
      true)                                                                                        \
    X(trp__cublas_status, cublasGemmEx_64,                                                         \
      (trp__cublas_handle handle, trp__cublas_operation trans_a, trp__cublas_operation trans_b,    \
       int64_t m, int64_t n, int64_t k, const void *alpha, const void *a, trp__cublas_type a_type, \
       int64_t lda, const void *b, trp__cublas_type b_type, int64_t ldb, const void *beta,         \
       void *c, trp__cublas_type c_type, int64_t ldc, trp__cublas_compute compute,                 \
       trp__cublas_algorithm algorithm),                                                           \
      false)                                                                                       \
    X(trp__cublas_status, cublasGemmStridedBatchedEx,                                              \
      (trp__cublas_handle handle, trp__cublas_operation trans_a, trp__cublas_operation trans_b,    \
       int m, int n, int k, const void *alpha, const void *a, trp__cublas_type a_type, int lda,    \
       long long int a_stride, const void *b, trp__cublas_type b_type, int ldb,                    \
       long long int b_stride, const void *beta, void *c, trp__cublas_type c_type, int ldc,        \
       long long int c_stride, int batch, trp__cublas_compute compute,                             \
       trp__cublas_algorithm algorithm),                                                           \
      true)                                                                                        \
    X(trp__cublas_status, cublasGemmStridedBatchedEx_64,                                           \
      (trp__cublas_handle handle, trp__cublas_operation trans_a, trp__cublas_operation trans_b,    \
       int64_t m, int64_t n, int64_t k, const void *alpha, const void *a, trp__cublas_type a_type, \
       int64_t lda, long long int a_stride, const void *b, trp__cublas_type b_type, int64_t ldb,   \
       long long int b_stride, const void *beta, void *c, trp__cublas_type c_type, int64_t ldc,    \
       long long int c_stride, int64_t batch, trp__cublas_compute compute,                         \
       trp__cublas_algorithm algorithm),                                                           \
      false)                                                                                       \
    X(trp__cublas_status, cublasGemmBatchedEx,                                                     \
      (trp__cublas_handle handle, trp__cublas_operation trans_a, trp__cublas_operation trans_b,    \
       int m, int n, int k, const void *alpha, const void *const a[], trp__cublas_type a_type,     \
       int lda, const void *const b[], trp__cublas_type b_type, int ldb, const void *beta,         \
       void *const c[], trp__cublas_type c_type, int ldc, int batch, trp__cublas_compute compute,  \
       trp__cublas_algorithm algorithm),                                                           \
      false)                                                                                       \
    TRP__CUBLAS_GROUPED_FUNCTION(X)                                                                \
    TRP__CUBLAS_EMULATION_FUNCTIONS(X)

#endif

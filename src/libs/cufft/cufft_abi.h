/* The part of cuFFT's binary interface that Troupe uses, from cuFFT 11 (CUDA 12) on.
 * tests/unit/fakes/cuda_abi_test.c compares every line with NVIDIA's headers.
 *
 * Source: cuFFT documentation, chapter "cuFFT API Reference". */
#ifndef TRP_LIBS_CUFFT_ABI_H
#define TRP_LIBS_CUFFT_ABI_H

#include "driver/cuda_abi.h"

#include <stddef.h>

typedef int trp__cufft_handle;
typedef int trp__cufft_result; /* cufftResult; src/wire/directive.c has the names */

enum {
    TRP__CUFFT_SUCCESS = 0,
    TRP__CUFFT_ALLOC_FAILED = 2,
    TRP__CUFFT_INVALID_SIZE = 8,
    TRP__CUFFT_NOT_IMPLEMENTED = 0xe,
    TRP__CUFFT_NOT_SUPPORTED = 0x10,
};

enum { TRP__CUFFT_FORWARD = -1, TRP__CUFFT_INVERSE = 1 };

/* cudaDataType */
typedef enum trp__cufft_type {
    TRP__CUFFT_R_32F = 0,
    TRP__CUFFT_R_64F = 1,
    TRP__CUFFT_C_32F = 4,
    TRP__CUFFT_C_64F = 5,
} trp__cufft_type;

/* One row a function: result, name, parameters, whether it is required. */
#define TRP__CUFFT_FUNCTIONS(X)                                                                    \
    X(trp__cufft_result, cufftCreate, (trp__cufft_handle * plan), true)                            \
    X(trp__cufft_result, cufftDestroy, (trp__cufft_handle plan), true)                             \
    X(trp__cufft_result, cufftSetAutoAllocation, (trp__cufft_handle plan, int on), true)           \
    X(trp__cufft_result, cufftSetStream, (trp__cufft_handle plan, trp__cu_stream stream), true)    \
    X(trp__cufft_result, cufftSetWorkArea, (trp__cufft_handle plan, void *area), true)             \
    X(trp__cufft_result, cufftXtMakePlanMany,                                                      \
      (trp__cufft_handle plan, int rank, long long *n, long long *x_embed, long long x_stride,     \
       long long x_distance, trp__cufft_type x_type, long long *y_embed, long long y_stride,       \
       long long y_distance, trp__cufft_type y_type, long long batch, size_t *work_bytes,          \
       trp__cufft_type compute_type),                                                              \
      true)                                                                                        \
    X(trp__cufft_result, cufftXtExec, (trp__cufft_handle plan, void *x, void *y, int direction),   \
      true)                                                                                        \
    X(trp__cufft_result, cufftGetProperty, (trp__cuda_property which, int *value), true)

#endif

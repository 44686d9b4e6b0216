/* The "blas" actor: dense linear algebra. cuBLAS on GPUs, OpenBLAS on the host.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_BLAS_H
#define TROUPE_BLAS_H

#include <troupe/submit.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRP_OP_GEMM UINT32_C(0x0101)

typedef enum trp_transpose {
    TRP_N = 0, /* as it is */
    TRP_T = 1, /* transposed */
} trp_transpose;

/* Precision of the arithmetic. */
typedef enum trp_compute {
    TRP_COMPUTE_DEFAULT = 0, /* f64 for f64, f32 for f32, f16 and bf16 */
    TRP_COMPUTE_TF32 = 1,    /* f32 only: allows inputs rounded to tf32 (10 bits of mantissa); a
                              * device without tf32 units computes in f32 */
} trp_compute;

/* C = alpha * op(A) * op(B) + beta * C, for `batch` independent triples of matrices.
 *
 * op(A) is m x k, op(B) is k x n, C is m x n. Each matrix lies at `*_offset` bytes in its buffer
 * with leading dimension ld* in elements: in column-major order (the default, as in BLAS) the
 * distance between columns, at least the number of rows of the matrix as stored; in row-major order
 * the distance between rows, at least the number of columns. A leading dimension of 0 stands for
 * the smallest. Matrix i of a batch lies i * *_stride elements after the first; strides of A and B
 * may be 0 (one matrix for all), that of C must keep the matrices apart.
 *
 * A, B and C have the element type `type`: f64, f32, f16 or bf16; f16 and bf16 accumulate in f32.
 * With beta 0, C is not read and may be uninitialised or lost. C must not overlap A or B. A and B
 * may be the same. If m or n is 0 nothing is done; if k is 0, C becomes beta * C and A and
 * B are not looked at.
 *
 * Source: cublasGemmStridedBatchedEx, cblas_?gemm. */
typedef struct trp_gemm_request {
    trp_request header;
    trp_dtype type;
    trp_compute compute;
    trp_order order;
    trp_transpose trans_a, trans_b;
    int64_t m, n, k;
    trp_scalar alpha; /* default 1 */
    trp_scalar beta;  /* default 0 */
    trp_buffer a, b, c;
    uint64_t a_offset, b_offset, c_offset; /* bytes; multiples of the element size */
    int64_t lda, ldb, ldc;                 /* elements; 0: the smallest */
    int64_t a_stride, b_stride, c_stride;  /* elements; only looked at if batch > 1 */
    int64_t batch;                         /* 0: 1 */
} trp_gemm_request;

/* Sends a gemm; see trp_submit() for completion and errors. */
static inline trp_status trp_gemm(trp_actor *blas, const trp_gemm_request *request,
                                  trp_completion *completion)
{
    trp_gemm_request r = *request;
    r.header.op = TRP_OP_GEMM;
    r.header.size = (uint32_t)sizeof r;
    return trp_submit(blas, &r.header, completion);
}

#ifdef __cplusplus
}
#endif
#endif

/* The "blas" actor: dense linear algebra. cuBLAS on GPUs, OpenBLAS on the host.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_BLAS_H
#define TROUPE_BLAS_H

#include <troupe/submit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Operations. The low byte is the place in the actor's table, from 1 on. */
#define TRP_OP_GEMM  UINT32_C(0x0101)
#define TRP_OP_AXPY  UINT32_C(0x0102)
#define TRP_OP_SCAL  UINT32_C(0x0103)
#define TRP_OP_VCOPY UINT32_C(0x0104)
#define TRP_OP_SWAP  UINT32_C(0x0105)
#define TRP_OP_ROT   UINT32_C(0x0106)
#define TRP_OP_ROTG  UINT32_C(0x0107)
#define TRP_OP_DOT   UINT32_C(0x0108)
#define TRP_OP_DOTC  UINT32_C(0x0109)
#define TRP_OP_NRM2  UINT32_C(0x010a)
#define TRP_OP_ASUM  UINT32_C(0x010b)
#define TRP_OP_IAMAX UINT32_C(0x010c)
#define TRP_OP_IAMIN UINT32_C(0x010d)
#define TRP_OP_GEMV  UINT32_C(0x010e)
#define TRP_OP_GBMV  UINT32_C(0x010f)
#define TRP_OP_GER   UINT32_C(0x0110)
#define TRP_OP_GERC  UINT32_C(0x0111)
#define TRP_OP_SYMV  UINT32_C(0x0112)
#define TRP_OP_HEMV  UINT32_C(0x0113)
#define TRP_OP_TRMV  UINT32_C(0x0114)
#define TRP_OP_TRSV  UINT32_C(0x0115)
#define TRP_OP_SYMM  UINT32_C(0x0116)
#define TRP_OP_HEMM  UINT32_C(0x0117)
#define TRP_OP_SYRK  UINT32_C(0x0118)
#define TRP_OP_HERK  UINT32_C(0x0119)
#define TRP_OP_SYR2K UINT32_C(0x011a)
#define TRP_OP_HER2K UINT32_C(0x011b)
#define TRP_OP_TRMM  UINT32_C(0x011c)
#define TRP_OP_TRSM  UINT32_C(0x011d)
#define TRP_OP_GEAM  UINT32_C(0x011e)
#define TRP_OP_DGMM  UINT32_C(0x011f)

#define TRP_OP_GEMM_LIST UINT32_C(0x0120)

#define TRP_OP_SYR  UINT32_C(0x0121)
#define TRP_OP_HER  UINT32_C(0x0122)
#define TRP_OP_SYR2 UINT32_C(0x0123)
#define TRP_OP_HER2 UINT32_C(0x0124)
#define TRP_OP_SBMV UINT32_C(0x0125)
#define TRP_OP_HBMV UINT32_C(0x0126)
#define TRP_OP_TBMV UINT32_C(0x0127)
#define TRP_OP_TBSV UINT32_C(0x0128)

#define TRP_OP_SPMV  UINT32_C(0x0129)
#define TRP_OP_HPMV  UINT32_C(0x012a)
#define TRP_OP_SPR   UINT32_C(0x012b)
#define TRP_OP_HPR   UINT32_C(0x012c)
#define TRP_OP_SPR2  UINT32_C(0x012d)
#define TRP_OP_HPR2  UINT32_C(0x012e)
#define TRP_OP_TPMV  UINT32_C(0x012f)
#define TRP_OP_TPSV  UINT32_C(0x0130)
#define TRP_OP_ROTM  UINT32_C(0x0131)
#define TRP_OP_ROTMG UINT32_C(0x0132)
#define TRP_OP_SYRKX UINT32_C(0x0133)
#define TRP_OP_HERKX UINT32_C(0x0134)

#define TRP_OP_GEMM3M UINT32_C(0x0135)

#define TRP_OP_GETRF  UINT32_C(0x0136)
#define TRP_OP_GETRS  UINT32_C(0x0137)
#define TRP_OP_GETRI  UINT32_C(0x0138)
#define TRP_OP_MATINV UINT32_C(0x0139)
#define TRP_OP_GEQRF  UINT32_C(0x013a)
#define TRP_OP_GELS   UINT32_C(0x013b)

typedef enum trp_side {
    TRP_LEFT = 0,
    TRP_RIGHT = 1,
} trp_side;

/* The triangle of a matrix that is read or written; the other one is neither. It is the upper or
 * lower one of the matrix as such, whatever its order in memory. */
typedef enum trp_uplo {
    TRP_UPPER = 0,
    TRP_LOWER = 1,
} trp_uplo;

typedef enum trp_diag {
    TRP_NON_UNIT = 0,
    TRP_UNIT = 1, /* the diagonal is not read and counts as ones */
} trp_diag;

/* Small products that wait in a mailbox one after the other, with the same type, sizes, leading
 * dimensions, options and scalars, none of which uses a buffer that another one writes, are done by
 * one call of the library: it computes many in little more than the time of one. Each request
 * and its end stay the same; but another kernel may compute it, whose rounding differs by as much
 * as that of any two kernels. */
typedef enum trp_joining {
    TRP_JOINING_DEFAULT = 0,
    TRP_JOINING_OFF = 1, /* this product is done by a call of its own */
} trp_joining;

/* C = alpha * op(A) * op(B) + beta * C, for `batch` independent triples of matrices.
 *
 * op(A) is m x k, op(B) is k x n, C is m x n. Each matrix lies at `*_offset` bytes in its buffer
 * with leading dimension ld* in elements: in column-major order (the default, as in BLAS) the
 * distance between columns, at least the number of rows of the matrix as stored; in row-major order
 * the distance between rows, at least the number of columns. A leading dimension of 0 stands for
 * the smallest. Matrix i of a batch lies i * *_stride elements after the first; strides of A and B
 * may be 0 (one matrix for all), that of C must keep the matrices apart.
 *
 * A and B have the element type `type`: f64, f32, f16, bf16, i8, c64 or c128. C has the type
 * `type_c`, by default `type`, for i8 i32; f16, bf16 and i8 go with f32 too. Sums of f16 and bf16
 * are f32, and so are those of i8 if C is. With C of i32, sums and scaling of i8 are exact modulo
 * 2^32, and alpha and beta are integers in the range of int32_t. For that pair cuBLAS needs lda,
 * ldb, the strides of A and B, and their offsets in bytes to be multiples of 4: TRP_E_UNSUPPORTED
 * on cuda if one is not.
 *
 * With beta 0, C is not read and may be uninitialised or lost. C must not overlap A or B. A and B
 * may be the same. If m or n is 0 nothing is done; if k is 0, or alpha is 0 and given by value, C
 * becomes beta * C and A and B are not read, on any backend: they may be lost, and a NaN there does
 * not reach C. Else NaN and infinities are in each sum that they are a term of, also times 0, and
 * results that are too large are infinite.
 *
 * `scalars`, if it names a buffer, holds alpha and beta, one after the other, in the compute type
 * (i32 if C is, f32 for f16, bf16 and i8 otherwise, else `type`), read when the operation runs;
 * they must not be given by value then, and C is read.
 *
 * `compute`: TRP_COMPUTE_PEDANTIC is valid for all types; the host always computes so.
 * TRP_COMPUTE_EMULATED is for f32 and c64 sums of products of bf16 (cuBLAS 12.9 and a device of
 * compute capability 10.0), for f64 and c128 fixed-point arithmetic (cuBLAS 13.1, which comes with
 * CUDA 13.0 update 2); elsewhere, and on the host, the request is refused with TRP_E_UNSUPPORTED.
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
    int64_t a_stride, b_stride, c_stride;  /* elements; only read if batch > 1 */
    int64_t batch;                         /* 0: 1 */
    trp_buffer scalars;
    uint64_t scalars_offset; /* bytes */
    trp_joining joining;
    trp_dtype type_c; /* of C; 0: `type`, for i8 i32 */
} trp_gemm_request;

/* Sends a gemm; see trp_submit() for completion and errors. */
TRP__REQUEST(gemm, TRP_OP_GEMM, trp_gemm_request)

/* A list of gemms, each with its own matrices, that is sent in one call and has one completion.
 *
 * `common` has the fields that all share, as in a trp_gemm_request: type, compute, order,
 * transposes, scalars; also the sizes and leading dimensions, unless own_sizes says that they are
 * the item's. Its other fields (header, a, b, c and their offsets, strides and batch, with
 * own_sizes the sizes too) must be 0.
 *
 * All are checked before any is sent: if one is refused the call fails, its message names the item,
 * and nothing is queued. They are done in the order of the list, those that are independent at a
 * time, as products that are joined (trp_joining): equal ones by cublasGemmBatchedEx, those of
 * different sizes by cublasGemmGroupedBatchedEx where cuBLAS has it. The completion comes when all
 * have ended, with the first failure in the order of the list, whose message names its place;
 * others may have been done. Cancelling cancels all that the device was not given yet.
 *
 * The mailbox must have room for all: TRP_E_ARGUMENT if it is too small, TRP_E_BUSY if it has none
 * within header.wait_ns. A deadline counts for each product; with one, products are not joined. */
typedef struct trp_gemm_item {
    trp_buffer a, b, c;
    uint64_t a_offset, b_offset, c_offset; /* bytes */
    int64_t m, n, k, lda, ldb, ldc;        /* with own_sizes; else 0 */
} trp_gemm_item;

typedef struct trp_gemm_list_request {
    trp_request header;
    trp_gemm_request common;
    bool own_sizes;
    int64_t count;             /* of items, at least 1 */
    const trp_gemm_item *item; /* read during the call */
} trp_gemm_list_request;

/* Sends a list; see trp_submit() for completion and errors. */
TRP__REQUEST(gemm_list, TRP_OP_GEMM_LIST, trp_gemm_list_request)

/* Level 1: vectors.
 *
 * Vector x has n elements of type `type` (f32, f64, c64, c128; axpy, scal, rot, dot and nrm2 f16
 * and bf16 too), of which element i lies at x_offset bytes plus i * incx elements in its buffer;
 * with a negative incx the first is the last in memory, as in BLAS. An increment of 0 stands for 1.
 * The operations with one input and a result, and scal, take positive increments only. An output
 * must not overlap another vector, but for vectors of the same increment whose elements are all
 * apart. If n is 0, vectors are not read, and a result is 0.
 *
 * `scalars`, if it names a buffer, holds what the operation would else take by value, read when it
 * runs: alpha, or c and s. rotm takes its five numbers there and not by value.
 *
 * f16 and bf16 are computed with in f32; each element and each result is rounded once. alpha is f32
 * then, also in `scalars`; c, s and results are of `type`.
 *
 * The result of an operation goes to the buffer `result`, or to `value` in the sender's own memory:
 * it is written before the end of the request is delivered, and only if the request succeeds. The
 * memory must be as large as the result, may be at any address, and must stay until then.
 *
 * Source: cuBLAS and CBLAS, of the same names. */
typedef struct trp_blas1_request {
    trp_request header;
    trp_dtype type;
    int64_t n;
    trp_scalar alpha; /* axpy, scal: default 1 */
    trp_scalar c, s;  /* rot: must be given, unless `scalars` is; c is real */
    trp_buffer x, y, scalars, result;
    uint64_t x_offset, y_offset, scalars_offset, result_offset; /* bytes; multiples of the size of
                                                                 * their elements */
    int64_t incx, incy;                                         /* elements */
    void *value;                                                /* instead of result */
} trp_blas1_request;

/* NaN and extreme numbers in levels 2 and 3, as in the reference BLAS: with alpha 0 the inputs are
 * not read, so that a NaN there has no part in the output; a NaN in alpha makes every element NaN
 * that a product is added to, a NaN in beta every element that it multiplies. Triangular systems
 * are solved with divisions by the diagonal, which may be as small or as large as the type can
 * hold; cuBLAS may multiply by its reciprocal instead, which must be finite then. A singular matrix
 * is not detected: the result is undefined.
 *
 * Level 2: matrices and vectors.
 *
 * A has element type `type` (f32, f64, c64, c128); matrices and their leading dimension are as in
 * trp_gemm_request, vectors as in trp_blas1_request. Where there is a uplo A is n x n, and m
 * is not read. With beta 0, y is not read. Outputs must not overlap inputs. If m or n is 0
 * nothing is done, also where beta is not 1, as in BLAS.
 *
 * A packed matrix (spmv, hpmv, spr, hpr, spr2, hpr2, tpmv, tpsv) is one triangle of n (n + 1) / 2
 * elements without gaps: its columns one after the other, or in row-major order its rows. lda must
 * be 0, and all n (n + 1) / 2 elements count as read, or read and written.
 *
 * With type c64 or c128 in row-major order, TRP_C, gerc and the operations on Hermitian matrices
 * conjugate their vectors: an input in a copy, which may fail with TRP_E_MEMORY, an output in its
 * place.
 *
 * `scalars`, if it names a buffer, holds alpha and beta, one after the other as elements of `type`
 * (ger, gerc, syr, syr2, her2, spr, spr2, hpr2: alpha only; her, hpr: alpha only, a real number),
 * read when the operation runs; they must not be given by value then.
 *
 * Source: cuBLAS and CBLAS, of the same names. */
typedef struct trp_blas2_request {
    trp_request header;
    trp_dtype type;
    trp_order order;
    trp_transpose trans; /* gemv, gbmv, trmv, trsv, tbmv, tbsv, tpmv, tpsv */
    trp_uplo uplo;       /* all but gemv, gbmv, ger, gerc */
    trp_diag diag;       /* trmv, trsv, tbmv, tbsv, tpmv, tpsv */
    int64_t m, n;
    int64_t kl, ku;   /* gbmv: diagonals below and above the main one. In column-major order element
                       * (i, j) of A lies at (ku + i - j, j) of a kl + ku + 1 x n matrix, in
                       * row-major order at (i, kl + j - i) of an m x kl + ku + 1 matrix.
                       * sbmv, hbmv, tbmv, tbsv: kl diagonals beside the main one in the triangle
                       * that is read, stored as in a gbmv without the others; ku is 0. */
    trp_scalar alpha; /* default 1; her, hpr: real */
    trp_scalar beta;  /* default 0 */
    trp_buffer a, x, y, scalars;
    uint64_t a_offset, x_offset, y_offset, scalars_offset; /* bytes */
    int64_t lda; /* elements; 0: the smallest; packed: 0 */
    int64_t incx, incy;
    int64_t a_stride, x_stride, y_stride; /* gemv: elements; only read if batch > 1 */
    int64_t batch;                        /* gemv; 0: 1 */
} trp_blas2_request;

/* Level 3: matrices.
 *
 * Element types are f32, f64, c64 and c128, for hemm, herk, her2k, herkx and gemm3m c64 and c128;
 * matrices and their leading dimension are as in trp_gemm_request. With beta 0, C is not read. C
 * must not overlap an input, but for trmm, where it may be B. A batch of trsm is a number of
 * independent systems, as in trp_gemm_request: a_stride may be 0, b_stride must keep the matrices
 * apart. syrk, herk, syr2k, her2k, syrkx and herkx read and write one triangle of C. If C is empty
 * nothing is done; if k is 0, C becomes beta * C. herk, her2k and herkx with beta 1 leave C alone
 * if k or alpha is 0, the imaginary parts of its diagonal too.
 *
 * `scalars`, if it names a buffer, holds alpha and beta, one after the other as elements of `type`
 * (trmm, trsm: alpha only; herk: both real; her2k, herkx: beta real, one complex element after
 * alpha), read when the operation runs; they must not be given by value then. dgmm has no scalars.
 *
 * Source: cuBLAS and CBLAS, of the same names. */
typedef struct trp_blas3_request {
    trp_request header;
    trp_dtype type;
    trp_order order;
    trp_side side;                /* symm, hemm, trmm, trsm, dgmm */
    trp_uplo uplo;                /* all but geam, dgmm and gemm3m */
    trp_transpose trans, trans_b; /* trans_b: geam, gemm3m */
    trp_diag diag;                /* trmm, trsm */
    int64_t m, n, k;
    trp_scalar alpha; /* default 1; herk: real */
    trp_scalar beta;  /* default 0; herk, her2k, herkx: real */
    trp_buffer a, b, c, scalars;
    uint64_t a_offset, b_offset, c_offset, scalars_offset; /* bytes */
    int64_t lda, ldb, ldc;                                 /* elements; 0: the smallest */
    int64_t incx;                                          /* dgmm: of vector b */
    int64_t a_stride, b_stride; /* trsm: elements; only read if batch > 1 */
    int64_t batch;              /* trsm; 0: 1 */
} trp_blas3_request;

/* LAPACK: factors, solutions and inverses of `batch` independent matrices of one size.
 *
 * Element types are f32, f64, c64 and c128; matrices and their leading dimension are as in
 * trp_gemm_request. Matrix i of the batch lies i * *_stride elements after the first. Strides of
 * inputs may be 0; those of outputs must keep the matrices apart. `pivots` and `tau` of matrix i
 * lie behind those of matrix i - 1 without a gap, and so do the numbers of `info`. Outputs must not
 * overlap anything else. An operand that the operation does not have must be absent.
 *
 * info[i], an i32, is 0 where matrix i was done, and k > 0 where it is singular: number k, counted
 * from 1, on the diagonal of its triangular factor is 0. The request succeeds all the same, and the
 * other matrices of the batch are right; getrf's factors of a singular one are LAPACK's on the
 * host, and mean nothing on cuda. A NaN or an infinity in one matrix has no part in another one.
 * pivots[k - 1] of a matrix, an i32 from 1 to n, is the row that row k was exchanged with when it
 * was the turn of row k. Pivots outside of that range make the solution NaN on the host; on a GPU
 * they may be a fault.
 *
 * Row-major matrices are transposed into scratch memory and back, as LAPACKE does it, except
 * matinv's: factors, pivots and tau are those of the matrix itself. getrf and getrs solve systems
 * of row-major matrices without that as column-major ones, with TRP_T in the place of TRP_N: a
 * row-major matrix is the transpose of the column-major one in the same memory. Then B is
 * column-major, too.
 *
 * If m, n or nrhs is 0, only info is written, with zeros.
 *
 * Source: cuBLAS's batched routines, LAPACK's of the same names. */
typedef struct trp_lapack_request {
    trp_request header;
    trp_dtype type;
    trp_order order;     /* of A and B */
    trp_transpose trans; /* getrs */
    int64_t m, n;        /* m: geqrf, gels */
    int64_t nrhs;        /* getrs, gels: columns of B */
    trp_buffer a, b;
    trp_buffer pivots; /* getrf, getrs, getri: i32, n for each matrix */
    trp_buffer tau;    /* geqrf: elements of `type`, the smaller one of m and n for each matrix */
    trp_buffer info;   /* getrf, getri, matinv, gels: i32, one for each matrix */
    uint64_t a_offset, b_offset, pivots_offset, tau_offset, info_offset; /* bytes; multiples of the
                                                                          * size of an element */
    int64_t lda, ldb;           /* elements; 0: the smallest */
    int64_t a_stride, b_stride; /* elements; only read if batch > 1 */
    int64_t batch;              /* 0: 1 */
} trp_lapack_request;

/* Each sends its request; see trp_submit() for completion and errors. */

/* y = alpha x + y */
TRP__REQUEST(axpy, TRP_OP_AXPY, trp_blas1_request)
/* x = alpha x, always as a product: 0 times NaN or an infinity is NaN. */
TRP__REQUEST(scal, TRP_OP_SCAL, trp_blas1_request)
/* y = x */
TRP__REQUEST(vcopy, TRP_OP_VCOPY, trp_blas1_request)
/* x and y change places. */
TRP__REQUEST(swap, TRP_OP_SWAP, trp_blas1_request)
/* x = c x + s y, y = c y - conj(s) x. `scalars`: c, a real number in an element of `type` (an
 * imaginary part is not read), and s.
 */
TRP__REQUEST(rot, TRP_OP_ROT, trp_blas1_request)
/* The rotation that maps (a, b) to (r, 0): a is the first element of x and becomes r; b is the
 * first of y and becomes z, as BLAS defines it for real types. `result`: c
 * and s, as rot's `scalars` takes them. n is not read. On the host c, s and r are right
 * wherever the type can hold them; cuBLAS's routine may overflow or underflow on its way. */
TRP__REQUEST(rotg, TRP_OP_ROTG, trp_blas1_request)
/* (x, y) = H (x, y) for each pair of elements, with the 2 x 2 matrix H of a modified rotation.
 * `scalars`: a flag, h11, h21, h12 and h22. With flag -1 H is that; with 0 h11 and h22 count as 1;
 * with 1 h21 counts as -1 and h12 as 1; with -2 H is the identity. f32, f64. */
TRP__REQUEST(rotm, TRP_OP_ROTM, trp_blas1_request)
/* The modified rotation H that makes the second of (sqrt(d1) x1, sqrt(d2) y1) vanish. x: d1, d2 and
 * x1, three elements, which become those after the rotation; y: y1, one element. `result`: the five
 * numbers that rotm takes; those that the flag implies mean nothing. n is not read, incx must
 * be positive. Where there is no such rotation, as for a negative d1, H and x become 0. f32, f64.
 */
TRP__REQUEST(rotmg, TRP_OP_ROTMG, trp_blas1_request)
/* result = sum of x_i y_i, an element of `type`. */
TRP__REQUEST(dot, TRP_OP_DOT, trp_blas1_request)
/* result = sum of conj(x_i) y_i */
TRP__REQUEST(dotc, TRP_OP_DOTC, trp_blas1_request)
/* result = Euclidean norm of x: f32 for f32 and c64, f64 for f64 and c128, else of `type`. */
TRP__REQUEST(nrm2, TRP_OP_NRM2, trp_blas1_request)
/* result = sum of |re x_i| + |im x_i|, of the type of nrm2's. */
TRP__REQUEST(asum, TRP_OP_ASUM, trp_blas1_request)
/* result = the first i for which |re x_i| + |im x_i| is largest, counted from 1, as an i64.
 * Undefined where x has a NaN. */
TRP__REQUEST(iamax, TRP_OP_IAMAX, trp_blas1_request)
/* The same for the smallest. */
TRP__REQUEST(iamin, TRP_OP_IAMIN, trp_blas1_request)

/* y = alpha op(A) x + beta y; A is m x n. */
TRP__REQUEST(gemv, TRP_OP_GEMV, trp_blas2_request)
/* The same for a band matrix. */
TRP__REQUEST(gbmv, TRP_OP_GBMV, trp_blas2_request)
/* A = alpha x y^T + A; A is m x n. */
TRP__REQUEST(ger, TRP_OP_GER, trp_blas2_request)
/* A = alpha x y^H + A */
TRP__REQUEST(gerc, TRP_OP_GERC, trp_blas2_request)
/* y = alpha A x + beta y; A is symmetric. */
TRP__REQUEST(symv, TRP_OP_SYMV, trp_blas2_request)
/* The same; A is Hermitian, and the imaginary parts of its diagonal are not read. c64, c128.
 */
TRP__REQUEST(hemv, TRP_OP_HEMV, trp_blas2_request)
/* x = op(A) x; A is triangular. */
TRP__REQUEST(trmv, TRP_OP_TRMV, trp_blas2_request)
/* Solves op(A) x' = x and puts x' in the place of x; A is triangular. */
TRP__REQUEST(trsv, TRP_OP_TRSV, trp_blas2_request)

/* symv of a band matrix. f32, f64. */
TRP__REQUEST(sbmv, TRP_OP_SBMV, trp_blas2_request)
/* hemv of a band matrix. c64, c128. */
TRP__REQUEST(hbmv, TRP_OP_HBMV, trp_blas2_request)
/* trmv of a band matrix. */
TRP__REQUEST(tbmv, TRP_OP_TBMV, trp_blas2_request)
/* trsv of a band matrix. */
TRP__REQUEST(tbsv, TRP_OP_TBSV, trp_blas2_request)
/* A = alpha x x^T + A; A is symmetric: one triangle is read and written. */
TRP__REQUEST(syr, TRP_OP_SYR, trp_blas2_request)
/* A = alpha x x^H + A; A is Hermitian. Unless alpha is 0, the imaginary parts of its diagonal are
 * not read and become 0. c64, c128. */
TRP__REQUEST(her, TRP_OP_HER, trp_blas2_request)
/* A = alpha (x y^T + y x^T) + A */
TRP__REQUEST(syr2, TRP_OP_SYR2, trp_blas2_request)
/* A = alpha x y^H + conj(alpha) y x^H + A; A as of her. */
TRP__REQUEST(her2, TRP_OP_HER2, trp_blas2_request)

/* symv of a packed matrix. f32, f64. */
TRP__REQUEST(spmv, TRP_OP_SPMV, trp_blas2_request)
/* hemv of a packed matrix. c64, c128. */
TRP__REQUEST(hpmv, TRP_OP_HPMV, trp_blas2_request)
/* syr of a packed matrix. f32, f64. */
TRP__REQUEST(spr, TRP_OP_SPR, trp_blas2_request)
/* her of a packed matrix. c64, c128. */
TRP__REQUEST(hpr, TRP_OP_HPR, trp_blas2_request)
/* syr2 of a packed matrix. f32, f64. */
TRP__REQUEST(spr2, TRP_OP_SPR2, trp_blas2_request)
/* her2 of a packed matrix. c64, c128. */
TRP__REQUEST(hpr2, TRP_OP_HPR2, trp_blas2_request)
/* trmv of a packed matrix. */
TRP__REQUEST(tpmv, TRP_OP_TPMV, trp_blas2_request)
/* trsv of a packed matrix. */
TRP__REQUEST(tpsv, TRP_OP_TPSV, trp_blas2_request)

/* C = alpha A B + beta C, with side TRP_RIGHT alpha B A + beta C; A is symmetric, C is m x n. */
TRP__REQUEST(symm, TRP_OP_SYMM, trp_blas3_request)
/* The same; A is Hermitian. */
TRP__REQUEST(hemm, TRP_OP_HEMM, trp_blas3_request)
/* C = alpha op(A) op(A)^T + beta C; op(A) is n x k, C symmetric. trans: TRP_N, TRP_T; for real
 * types TRP_C too. */
TRP__REQUEST(syrk, TRP_OP_SYRK, trp_blas3_request)
/* C = alpha op(A) op(A)^H + beta C; C is Hermitian, the imaginary parts of its diagonal are not
 * read and become 0.
 * trans: TRP_N, TRP_C. */
TRP__REQUEST(herk, TRP_OP_HERK, trp_blas3_request)
/* C = alpha (op(A) op(B)^T + op(B) op(A)^T) + beta C; op(A) and op(B) are n x k. */
TRP__REQUEST(syr2k, TRP_OP_SYR2K, trp_blas3_request)
/* C = alpha op(A) op(B)^H + conj(alpha) op(B) op(A)^H + beta C */
TRP__REQUEST(her2k, TRP_OP_HER2K, trp_blas3_request)
/* C = alpha op(A) op(B)^T + beta C, for matrices of which the product is symmetric. */
TRP__REQUEST(syrkx, TRP_OP_SYRKX, trp_blas3_request)
/* C = alpha op(A) op(B)^H + beta C, for matrices of which it is Hermitian; C as of herk. */
TRP__REQUEST(herkx, TRP_OP_HERKX, trp_blas3_request)
/* C = alpha op(A) B, with side TRP_RIGHT alpha B op(A); A is triangular, B and C are m x n. C may
 * be B: the same place and leading dimension, or no c at all. */
TRP__REQUEST(trmm, TRP_OP_TRMM, trp_blas3_request)
/* Solves op(A) X = alpha B, with side TRP_RIGHT X op(A) = alpha B, and puts X in the place of B. */
TRP__REQUEST(trsm, TRP_OP_TRSM, trp_blas3_request)
/* C = alpha op(A) + beta op(B), with trans for A and trans_b for B; C is m x n. With beta 0, B is
 * not read. */
TRP__REQUEST(geam, TRP_OP_GEAM, trp_blas3_request)
/* C = diag(b) A, with side TRP_RIGHT A diag(b); A and C are m x n, b is a vector of m or n elements
 * with increment incx. */
TRP__REQUEST(dgmm, TRP_OP_DGMM, trp_blas3_request)
/* C = alpha op(A) op(B) + beta C, with trans for A and trans_b for B; op(A) is m x k, op(B) k x n.
 * Each product of complex numbers is made of three real ones instead of four: it takes about three
 * quarters of the time, and the error of a small real or imaginary part is relative to the larger
 * one. With k 0, or an alpha of 0 given by value, A and B are not read. c64, c128.
 *
 * Source: cublasCgemm3m_64, cublasZgemm3m_64; cblas_?gemm3m, or cblas_?gemm where OpenBLAS has no
 * gemm3m. */
TRP__REQUEST(gemm3m, TRP_OP_GEMM3M, trp_blas3_request)

/* A = P L U of n x n matrices, in place: L, with a diagonal of ones that is not stored, and U. On
 * cuda the time of large ones, of some hundreds of rows, is that of a routine for small ones. */
TRP__REQUEST(getrf, TRP_OP_GETRF, trp_lapack_request)
/* Solves op(A) X = B by the factors and pivots of getrf in a and pivots, and puts X, n x nrhs, in
 * the place of B. A singular matrix is not detected. */
TRP__REQUEST(getrs, TRP_OP_GETRS, trp_lapack_request)
/* B = the inverse of A, by the factors and pivots of getrf in a and pivots. The B of a singular
 * matrix means nothing. */
TRP__REQUEST(getri, TRP_OP_GETRI, trp_lapack_request)
/* B = the inverse of A, without factors, in both orders: in row-major order info is that of the
 * transpose. The B of a singular matrix means nothing. cuBLAS takes n up to 32: TRP_E_UNSUPPORTED
 * on cuda beyond. */
TRP__REQUEST(matinv, TRP_OP_MATINV, trp_lapack_request)
/* A = Q R of m x n matrices, in place: R on and above the diagonal, below it the vectors v of the
 * reflectors H = I - tau v v^H, whose first element other than 0 is a 1 on the diagonal that is not
 * stored. Q is the product of the reflectors, in the order of the columns. */
TRP__REQUEST(geqrf, TRP_OP_GEQRF, trp_lapack_request)
/* The X, n x nrhs, for which the columns of B - A X have the smallest norms, with m >= n: its rows
 * take the place of the first n of B, which is m x nrhs. The sum of the squares of the other rows
 * is then the square of that norm. A holds its QR factors afterwards, and means nothing where info
 * is not 0, as B does. */
TRP__REQUEST(gels, TRP_OP_GELS, trp_lapack_request)

#ifdef __cplusplus
}
#endif
#endif

/* The "matmul" actor: matrix products with everything around them done in the same pass: other
 * types, scales, bias, activation and their gradients. cuBLASLt on GPUs; OpenBLAS and own loops on
 * the host.
 *
 *     X = alpha * sA * sB * op(A) * op(B) + beta * sC * C
 *     D = sD * activation(X + bias)
 *
 * alpha is one number, or one for each place in a line of D. For plain products of one type the
 * blas actor's gemm (blas.h) is enough. SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_MATMUL_H
#define TROUPE_MATMUL_H

#include <troupe/submit.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRP_OP_MATMUL UINT32_C(0x0401)

typedef enum trp_activation {
    TRP_ACTIVATION_NONE = 0,
    TRP_ACTIVATION_RELU = 1, /* max(x, 0); of NaN: NaN on the host, 0 by cuBLASLt */
    TRP_ACTIVATION_GELU =
        2, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); of minus infinity -0 */
    TRP_ACTIVATION_SILU = 3,  /* x / (1 + exp(-x)), of minus infinity -0; not in cuBLASLt so far,
                               * host only */
    TRP_ACTIVATION_DRELU = 4, /* the gradient: x where the bit in aux is set, else 0 */
    TRP_ACTIVATION_DGELU = 5, /* the gradient: x times GELU's derivative at aux */
    /* Only in epilogue trees (cutlass.h). */
    TRP_ACTIVATION_CLIPPED_RELU = 6, /* min(max(x, 0), limit) */
    TRP_ACTIVATION_LEAKY_RELU = 7,   /* x, times a slope where it is not above 0 */
    TRP_ACTIVATION_ELU = 8,          /* x above 0, else alpha (exp(x) - 1) */
    TRP_ACTIVATION_SELU = 9,         /* ELU with the two constants of its paper */
    TRP_ACTIVATION_GELU_ERF = 10,    /* x/2 (1 + erf(x / sqrt(2))) */
    TRP_ACTIVATION_SIGMOID = 11,     /* 1 / (1 + exp(-x)) */
    TRP_ACTIVATION_TANH = 12,
    TRP_ACTIVATION_SOFTPLUS = 13,     /* log(1 + exp(beta x)) / beta */
    TRP_ACTIVATION_MISH = 14,         /* x tanh(log(1 + exp(x))) */
    TRP_ACTIVATION_HARD_SIGMOID = 15, /* min(max(x + 3, 0), 6) / 6 */
    TRP_ACTIVATION_HARD_SWISH = 16,   /* x min(max(x + 3, 0), 6) / 6 */
    TRP_ACTIVATION_CLAMP = 17,        /* min(max(x, least), most) */
} trp_activation;

/* The operand whose sums are the bias gradient. */
typedef enum trp_bias_gradient {
    TRP_BIAS_GRADIENT_NONE = 0,
    TRP_BIAS_GRADIENT_D = 1, /* sums of D along its lines; with DRELU and DGELU */
    TRP_BIAS_GRADIENT_A = 2, /* the m sums of op(A) over k; without an activation */
    TRP_BIAS_GRADIENT_B = 3, /* the n sums of op(B) over k; without an activation */
} trp_bias_gradient;

/* How the scale factors of a matrix lie in their buffer. */
typedef enum trp_scale_mode {
    TRP_SCALE_TENSOR = 0,        /* one f32 for all of the matrix */
    TRP_SCALE_VECTOR = 1,        /* A: an f32 for each row of op(A); B: for each column of op(B) */
    TRP_SCALE_BLOCK_16 = 2,      /* f4e2m1: an f8e4m3 for 16 elements along k */
    TRP_SCALE_BLOCK_32 = 3,      /* fp8: a power of two (ue8m0, a byte) for 32 elements along k */
    TRP_SCALE_BLOCK_128 = 4,     /* fp8: an f32 for 128 elements along k; those of one k block lie
                                  * together, one for each row of op(A) or column of op(B) */
    TRP_SCALE_BLOCK_128X128 = 5, /* fp8: an f32 for 128 x 128 elements; those of one block of rows
                                  * (of op(A), or columns of op(B)) lie together, one for each block
                                  * of k, their count rounded up to a multiple of 4 */
} trp_scale_mode;
/* BLOCK_16 and BLOCK_32: factors come in tiles of 512, for 128 lines l (rows of op(A), columns of
 * op(B), lines of D) and 4 blocks b of k, or of a line of D: factor (l, b) of a tile lies at byte l
 * % 32 * 16 + l / 32 * 4 + b. Tiles follow each other along k first; those at the edges are whole.
 */

/* Scale factors on the device. Without a buffer they are 1. */
typedef struct trp_scale {
    trp_buffer buffer;
    uint64_t offset; /* bytes */
    trp_scale_mode mode;
    /* From the first factor of one matrix of a batch to that of the next; 0: one set for all. Read
     * if batch > 1, by the cutlass actor alone; in a batch the matmul actor has one factor for all
     * matrices. */
    int64_t stride;
} trp_scale;

/* One matrix, or as many as the batch has, `stride` elements after each other. In column-major
 * order `ld` elements lie between columns, in row-major order between rows; 0: the smallest. */
typedef struct trp_matmul_matrix {
    trp_buffer buffer;
    uint64_t offset; /* bytes; a multiple of the element size */
    trp_dtype type;
    trp_order order;
    int64_t ld;     /* elements */
    int64_t stride; /* elements; only read if batch > 1 */
    trp_scale scale;
} trp_matmul_matrix;

/* A vector, or as many as the batch has. */
typedef struct trp_matmul_vector {
    trp_buffer buffer;
    uint64_t offset; /* bytes; a multiple of the element size */
    trp_dtype type;
    int64_t stride; /* elements; 0: one for all of the batch */
} trp_matmul_vector;

/* Search for the fastest of the library's algorithms. It is done once for a problem (types, sizes,
 * layouts, alignments, options, but not the scalars), on memory of its own, while the request and
 * those behind it wait in their mailbox: about 50 ms or half a second for small problems, up to
 * some seconds for large ones; that counts for no deadline. An algorithm wins if it is at least 2 %
 * faster than the first that the library's heuristic proposes, and by more than the measurements
 * vary. The tuning record is stored in the kernel cache ($TROUPE_CACHE_DIR, else
 * $XDG_CACHE_HOME/troupe, else ~/.cache/troupe; `troupe cache`) for this GPU, driver and version of
 * the library, and used by every later request of the problem in any process, also without a
 * search. If several processes ask for the same search, one makes it and the others wait. Where a
 * search is not possible (no memory for its operands, say) the heuristic's first algorithm is
 * taken. The host has nothing to search. */
typedef enum trp_tune {
    TRP_TUNE_OFF = 0,   /* an earlier tuning record, else the heuristic's first */
    TRP_TUNE_QUICK = 1, /* measures up to 8 algorithms */
    TRP_TUNE_FULL = 2,  /* measures up to 64, longer; also where a quick search was done */
} trp_tune;

enum { TRP_MATMUL_ALGORITHM_SIZE = 48 };

/* How a product was computed. */
typedef struct trp_matmul_ran {
    char algorithm[TRP_MATMUL_ALGORITHM_SIZE]; /* the library's number for it with its tile, stages
                                                * and splits of k, "cublaslt_a66_t20_s35_k1";
                                                * "reference": a kernel of Troupe's, for all
                                                * algorithms were rejected; on the host "host";
                                                * "none": there was nothing to compute */
    bool proven; /* the algorithm was proven on this device, see trp_proof, or is a kernel of
                  * Troupe's. False: proofs are off; or one could not be made, for lack of device
                  * memory or of NVRTC, or of fp4 or scale factors for blocks of 16 or 32. Always
                  * false on the host. */
    uint64_t workspace_bytes;
    uint64_t reserved[4]; /* 0 */
} trp_matmul_ran;

/* op(A) is m x k, op(B) is k x n, C, D and X are m x n.
 *
 * Types. A and B: f64, f32, f16, bf16, c64, c128, i8 (both the same), f8e4m3 and f8e5m2 (mixed, but
 * not e5m2 twice), f4e2m1. B's default is A's. D's default is A's, for i8 i32; C's is D's, but bf16
 * where D is fp8. Which other types D and C can have is the library's matter; f16, bf16 and f32
 * from f8, and f16 and bf16 in their own type or f32, can be had anywhere. Products accumulate in
 * f32 for all types of up to 32 bits but i8 (i32, wrapping), else in their own type. Results are
 * rounded to nearest; those in f8, f4 and i8 saturate. The host rounds once; cuBLASLt may round the
 * product to D's type before it adds the bias and applies the activation. Tensor cores truncate the
 * sums of f16 and bf16 to about 23 bits after every 16 products, those of f8 to about 13.
 * cuBLASLt's GELU and DGELU in f32 are within 2^-17 |x|, in f64 within 2^-29 |x|, and infinite for
 * x from 1.7e38 on in f32; the dnn actor's are exact to rounding. On GPUs fp8 and fp4 need A
 * transposed and B not transposed, seen as column-major, and m, n, k and leading dimensions that
 * are multiples of 16 bytes.
 *
 * NaN and infinities in A and B are in each sum that they are a term of, also times 0. With an
 * alpha of 0 that is given by value A and B have no part in D on the host; a GPU's library may read
 * them, so that what is no number there can come through. Results that are too large are infinite
 * in f64, f32, f16 and bf16. DRELU and the bits of RELU take NaN for not above 0.
 *
 * C may have no buffer; then beta must be 0; with one, beta or `scalars` must be given. With beta
 * 0, C is not read. It may be in D's place (same buffer, offset, leading dimension, stride, type,
 * order), else D must not overlap an input.
 *
 * Row-major and column-major matrices can be mixed, but C's order is D's. A complex matrix that is
 * in the other order than D can't be TRP_C: TRP_E_UNSUPPORTED.
 *
 * A *line* of D is what is contiguous in memory: a column in column-major order, a row in row-major
 * order. `bias` has an element for each place in a line and is added to every line; as input its
 * default type, which is the only one, is D's, but bf16 where D is fp8 (f16 if C is f16) or is f32
 * made of fp8 or fp4, and f32 where D is i8. `gradient` has the type rules of `bias` and receives
 * sums: with TRP_BIAS_GRADIENT_D for each place in a line the sum of D there over all lines, before
 * D's scale.
 *
 * `d_out_scale` receives the factors of blocks of D: of 16 elements of a line with a D of f4e2m1
 * (TRP_SCALE_BLOCK_16), which needs it, and of 32 with one of fp8 (TRP_SCALE_BLOCK_32). A factor is
 * the largest absolute value of its block, as D's scale leaves it, over the largest number of D's
 * type (6, 448, 57344), in f32; rounded to nearest as an f8e4m3, or up to a power of two. D holds
 * the numbers times the reciprocal of the factor (0 where that is 0). Factors of tiles beyond D's
 * ends are undefined. With it, `batch` must be 1, `amax_d` is not possible, and `d.scale` only with
 * f4e2m1.
 *
 * `aux` has the order of D. With RELU it receives bits, one for each element of D, 1 where X + bias
 * is greater than 0; eight to a byte, lowest first; its `ld` counts bits and is a multiple of 128,
 * as is its stride; its type is not given. With GELU it receives X + bias, in its type (default
 * D's) times its scale; its ld is a multiple of 8, as is its stride. DRELU and DGELU read the same;
 * DGELU multiplies what it reads by the scale.
 *
 * `amax_d`: receives the largest absolute value of activation(X + bias), an f32, for fp8 D.
 * `amax_aux`: likewise of what goes to aux, before its scale.
 *
 * `scalars`, if it names a buffer, holds alpha and beta, one after the other, in the type that the
 * product is computed in (i8: i32 for D i32, else f32), read when the operation runs; they must not
 * be given by value then, and C must have a buffer and is read.
 *
 * `alphas`, if it names a buffer, holds an alpha for each place in a line of D, in the type of
 * alpha, which is its default and only type: one for each row of a column-major D, for each column
 * of a row-major one. Neither `alpha` nor `scalars` may be given then, and types must be real. They
 * are factors like any other: 0 times NaN is NaN.
 *
 * If m or n is 0 nothing is done and nothing written. If k is 0, A, B and their scales but for the
 * types are not read and need no buffer, and X is beta * C; a GPU's library then multiplies
 * zeros, so an alpha in a buffer must be finite.
 *
 * `deterministic`: D's bits are the same each time for the same problem (types, sizes, layouts,
 * alignments, options), GPU and version of the library: tuning records are ignored, `tune` must be
 * TRP_TUNE_OFF, and parts of a sum over k are added up in a step of their own. The host computes a
 * product in one way only.
 *
 * `sm_count`, up to 65535, is a hint to the library's heuristic where other work shall have the
 * rest of the device's multiprocessors at the same time: an algorithm may still use more. The host
 * takes no notice of it.
 *
 * A product that the library refuses ends with TRP_E_UNSUPPORTED, and the message says which part
 * of the request it can't do.
 *
 * Source: cublasLtMatmul. */
typedef struct trp_matmul_request {
    trp_request header;
    int64_t m, n, k;
    int64_t batch; /* 0: 1 */
    trp_transpose trans_a, trans_b;
    trp_compute compute;    /* not TRP_COMPUTE_EMULATED, which is gemm's */
    bool fast_accumulation; /* fp8: accumulate faster and less exactly */
    trp_matmul_matrix a, b, c, d;
    trp_scalar alpha; /* default 1 */
    trp_scalar beta;  /* default 0 */
    trp_buffer scalars;
    uint64_t scalars_offset; /* bytes */
    trp_matmul_vector alphas;
    trp_activation activation;
    trp_matmul_vector bias;
    trp_matmul_matrix aux;
    trp_bias_gradient gradient_of;
    trp_matmul_vector gradient;
    trp_buffer amax_d, amax_aux;
    uint64_t amax_d_offset, amax_aux_offset; /* bytes */
    trp_scale d_out_scale;
    uint64_t workspace_bytes; /* the most that an algorithm may use; 0: 32 MiB */
    trp_tune tune;
    int32_t sm_count; /* multiprocessors of a GPU that the algorithm shall be chosen for; 0: all */
    bool deterministic;
    trp_matmul_ran *ran; /* filled when the request succeeds; may be NULL */
} trp_matmul_request;

/* Sends a product; see trp_submit() for completion and errors. */
TRP__REQUEST(matmul, TRP_OP_MATMUL, trp_matmul_request)

#ifdef __cplusplus
}
#endif
#endif

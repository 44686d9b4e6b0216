/* The "fft" actor: discrete Fourier transforms of tensors. Names and conventions are those of
 * NumPy's numpy.fft; cosine and sine transforms are those of scipy.fft. cuFFT on GPUs, an own FFT
 * on the host.
 *
 *     y[k] = scale * sum over j of x[j] exp(-2 pi i j k / n)     forward
 *     y[k] = scale * sum over j of x[j] exp(+2 pi i j k / n)     inverse
 *
 * along each of the axes. SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_FFT_H
#define TROUPE_FFT_H

#include <troupe/submit.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRP_OP_FFT UINT32_C(0x0801)

enum { TRP_FFT_RANK_MAX = 8 };

/* What x and y are. The last axis given is the one that the real kinds halve: its transform of n
 * real elements has n / 2 + 1 complex ones, since the others are their conjugates. */
typedef enum trp_fft_kind {
    TRP_FFT_C2C = 0, /* complex to complex: fftn, inverse ifftn */
    TRP_FFT_R2C = 1, /* real to complex: rfftn, inverse ihfft */
    TRP_FFT_C2R = 2, /* complex to real: inverse irfftn, forward hfft. Elements that are missing
                      * are taken as conjugates. Once the other axes are transformed, imaginary
                      * parts of element 0 of the last axis, and of n / 2 if n is even, are taken
                      * as 0 */
    /* Real to real, of types I to IV as scipy.fft has them (dctn, dstn); the inverse is idctn or
     * idstn: types II and III are each other's. */
    TRP_FFT_DCT1 = 3, /* of lengths from 2 on */
    TRP_FFT_DCT2 = 4,
    TRP_FFT_DCT3 = 5,
    TRP_FFT_DCT4 = 6,
    TRP_FFT_DST1 = 7,
    TRP_FFT_DST2 = 8,
    TRP_FFT_DST3 = 9,
    TRP_FFT_DST4 = 10,
} trp_fft_kind;

/* Whether the first and last elements of cosine and sine transforms of types I to III have factors
 * of sqrt(2), by which the matrix is orthogonal with TRP_FFT_ORTHO: SciPy's `orthogonalize`. */
typedef enum trp_fft_orthogonalize {
    TRP_FFT_ORTHOGONALIZE_BY_NORM = 0, /* with TRP_FFT_ORTHO */
    TRP_FFT_ORTHOGONALIZE_ON = 1,
    TRP_FFT_ORTHOGONALIZE_OFF = 2,
} trp_fft_orthogonalize;

/* What the sum is multiplied by; n is the product of the lengths of all axes. Of cosine and sine
 * transforms an axis of n counts as 2 n, of type I as 2 (n - 1) or 2 (n + 1). */
typedef enum trp_fft_norm {
    TRP_FFT_BACKWARD = 0, /* forward 1, inverse 1 / n */
    TRP_FFT_ORTHO = 1,    /* 1 / sqrt(n) */
    TRP_FFT_FORWARD = 2,  /* forward 1 / n, inverse 1 */
} trp_fft_norm;

/* A tensor in a buffer. Its rank is the request's. */
typedef struct trp_fft_tensor {
    trp_buffer buffer; /* the caller keeps it until the request has ended */
    uint64_t offset; /* bytes, of the element with all indices 0; a multiple of the element size */
    trp_dtype type;
    /* x: needed. y: all 0 for those that follow from x, kind and lengths; else these. */
    int64_t dim[TRP_FFT_RANK_MAX];
    /* Elements; may be negative, and of x also 0. All 0: packed, the last dimension fastest. */
    int64_t stride[TRP_FFT_RANK_MAX];
} trp_fft_tensor;

/* Transforms x along `axis_count` different axes; all other dimensions are batches.
 *
 * Types: C2C c64 to c64, c128 to c128; R2C f32, f16 and bf16 to c64, f64 to c128; C2R the reverse.
 * y.type may be left out: a real y has f32 or f64 then. Narrower types are refused with
 * TRP_E_UNSUPPORTED. Cosine and sine transforms: f64 to f64; f32, f16 and bf16 to any of these
 * three, by default that of x. Arithmetic is in f32 or f64; f16 and bf16 are converted while x is
 * read, and rounded once while y is written.
 *
 * Lengths. n[i] is the length of the transform along axis[i]; x is cropped to it, or padded with
 * zeros. 0: that of x, of the last axis of C2R 2 (m - 1), where x has m there. Of C2R, n / 2 + 1
 * elements of the last axis are taken. y has the lengths on its axes, n / 2 + 1 on the last axis of
 * R2C. A length is at least 1. Tensors have less than 2^48 elements, and those of one are not
 * further apart. If y has no elements, nothing is done.
 *
 * In place: y may be x if each line along the last axis begins at the same byte in both and x is
 * not cropped or padded: C2C with equal strides, cosine and sine transforms too, of one type; the
 * real kinds with elements of the last axis side by side and strides that leave room for n / 2 + 1
 * complex elements in each real line, as cuFFT and FFTW have it. Then the request can't run again
 * if its worker dies (submit.h): it ends with TRP_E_FAULT, and y is lost. Otherwise no element of y
 * may be at a place of x, x is never changed, not by C2R either, and the request runs again and
 * gives the same bits. No two elements of y may be at one place; TRP_E_ARGUMENT also for strides so
 * irregular that this can't be told.
 *
 * Results are within 4 ulp * log2(n) of each line's size (2-norm), on the host as a rule below 0.4;
 * those of the host do not depend on the number of threads or the processor's instruction set. On a
 * GPU each plan of cuFFT is proven before it serves (docs/proofs.md). Making and proving plans
 * counts for no deadline; later requests use them. A line with a NaN or an infinity has results
 * that are none or infinite.
 *
 * Errors at the call: TRP_E_ARGUMENT, which names the field; TRP_E_UNSUPPORTED; those of
 * trp_submit(). At the end: TRP_E_MEMORY, if there is none for a plan or an intermediate result; on
 * a GPU, TRP_E_UNSUPPORTED, if cuFFT computes the transform in no way and a length is above 2^20,
 * and TRP_E_MISSING, if a copy is needed and nothing has or compiles its kernel.
 *
 * Source: numpy.fft; cufftXtMakePlanMany(), cufftXtExec(); on the host Stockham's algorithm, and
 * Bluestein's (1970) for lengths with prime factors above 61; cosine and sine transforms by one
 * Fourier transform (Makhoul 1980). */
typedef struct trp_fft_request {
    trp_request header;
    trp_fft_kind kind;
    bool inverse;
    trp_fft_norm norm;
    trp_fft_orthogonalize orthogonalize; /* of cosine and sine transforms, else 0 */
    trp_scalar
        scale;     /* real, instead of a norm, which must be 0 then: default is that of the norm */
    uint32_t rank; /* dimensions of x and y, 1 to TRP_FFT_RANK_MAX */
    uint32_t axis_count;            /* 0: all dimensions, in their order */
    int32_t axis[TRP_FFT_RANK_MAX]; /* -rank to rank - 1; negative ones count from the end */
    int64_t n[TRP_FFT_RANK_MAX];    /* the length along axis[i]; 0: see above */
    /* Bit i: along axis[i], element 0 lies in the middle, at n / 2, and the others follow it
     * around: of x (numpy.fft.ifftshift before the transform), of y (fftshift behind it). Not along
     * a halved axis, nor of x along one that is cropped or padded, nor of cosine and sine
     * transforms. */
    uint32_t shift_x, shift_y;
    trp_fft_tensor x, y;
} trp_fft_request;

/* Sends a transform; see trp_submit() for completion and errors. */
TRP__REQUEST(fft, TRP_OP_FFT, trp_fft_request)

#ifdef __cplusplus
}
#endif
#endif

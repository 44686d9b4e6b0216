/* Element types, scalars and small shared types. SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_TYPES_H
#define TROUPE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TRP_API __attribute__((visibility("default")))
#else
#define TRP_API
#endif

/* Functions with a body in these headers. C and C++ compile them in; the library exports all but
 * those of <troupe/worker.h> under the same names, for bindings of other languages, which see no
 * body. <troupe/declarations.h> lists all that is exported. */
#ifndef TRP_INLINE
#define TRP_INLINE static inline
#endif

/* Element type of a matrix, vector or tensor. Complex types are interleaved (real, imaginary);
 * f4e2m1 and i4 pack two elements in a byte, the one of even index in the low four bits. Zero is no
 * type: a request must name one. */
typedef enum trp_dtype {
    TRP_DTYPE_NONE = 0,
    TRP_F64,
    TRP_F32,
    TRP_F16,    /* IEEE 754 binary16 */
    TRP_BF16,   /* bfloat16 */
    TRP_F8E4M3, /* OCP 8-bit floating point */
    TRP_F8E5M2,
    TRP_F4E2M1,
    TRP_I8,
    TRP_I32,
    TRP_I64,
    TRP_U8,
    TRP_BOOL,
    TRP_C64,    /* two f32 */
    TRP_C128,   /* two f64 */
    TRP_F8E8M0, /* OCP powers of two, 2^-127 to 2^127: scale factors */
    TRP_I4,     /* -8 to 7, in two's complement: weights of the cutlass actor */
    TRP_DTYPE_COUNT
} trp_dtype;

/* Short name ("f32") of a type, "none" for TRP_DTYPE_NONE and unknown values. Static string. */
TRP_API const char *trp_dtype_name(trp_dtype type);

/* Bits in one element (4 for f4e2m1 and i4), 0 for unknown values. */
TRP_API uint32_t trp_dtype_bits(trp_dtype type);

/* Order of a matrix in memory. Zero is column-major, as in BLAS. */
typedef enum trp_order {
    TRP_COL_MAJOR = 0,
    TRP_ROW_MAJOR = 1,
} trp_order;

typedef enum trp_transpose {
    TRP_N = 0, /* as it is */
    TRP_T = 1, /* transposed */
    TRP_C = 2, /* transposed and conjugated; the same as TRP_T for real types */
} trp_transpose;

/* Precision of the arithmetic of a product. */
typedef enum trp_compute {
    TRP_COMPUTE_DEFAULT = 0,  /* f64 for f64; f32 for f32, f16 and bf16; i32 for integers */
    TRP_COMPUTE_TF32 = 1,     /* f32 and c64 only: allows inputs rounded to tf32 (10 bits of
                               * mantissa); a device without tf32 units computes in f32 */
    TRP_COMPUTE_PEDANTIC = 2, /* the default's type in every step, and no algorithm that saves
                               * operations */
    TRP_COMPUTE_EMULATED = 3, /* f32, f64, c64, c128: by many products of a narrower type, to about
                               * the accuracy of the default */
} trp_compute;

/* A scalar argument such as alpha; make one with trp_real() or trp_complex(). All zero takes the
 * default that the field documents. A value without `given`, such as {0.5}, is refused with
 * TRP_E_ARGUMENT. It travels as f64 and is converted, rounded to nearest, to the compute type of
 * the operation.
 *
 * `beta` means the same everywhere, as in BLAS: the factor of what is added, which is not read if
 * beta is 0. Its default is 0. Where the addend has a field of its own beside the output (C of the
 * matmul and cutlass actors, z of a convolution), an addend without a beta, or without `scalars` in
 * its place, is refused: trp_real(1) adds it. */
typedef struct trp_scalar {
    double re;
    double im;
    bool given;
} trp_scalar;

TRP_INLINE trp_scalar trp_real(double value)
{
    trp_scalar s = {value, 0.0, true};
    return s;
}

TRP_INLINE trp_scalar trp_complex(double re, double im)
{
    trp_scalar s = {re, im, true};
    return s;
}

/* Opaque objects: things with identity, made by trp_..._create or _open and ended by the matching
 * call. All calls on them are thread-safe unless a comment says otherwise.
 *
 * Devices, actors, queues and watches that were ended stay recognisable until their system is
 * destroyed: a call on one returns TRP_E_STALE, and ending it again does nothing or returns that.
 * So they may be ended in any order; closing a device ends its actors and watches. Each leaves less
 * than 64 bytes of memory, a queue 128, a device 192 KiB of address space. After
 * trp_system_destroy() no pointer to them, or to the system, may be used. */
typedef struct trp_system trp_system;
typedef struct trp_device trp_device;
typedef struct trp_actor trp_actor;
typedef struct trp_queue trp_queue;
typedef struct trp_watch trp_watch;

/* Handles by value: copy them freely. Each has a generation, so a handle whose object is gone, that
 * was never issued, or that belongs to another device is refused with TRP_E_STALE. All zero names
 * nothing. */
typedef struct trp_buffer {
    uint64_t id;
} trp_buffer;

typedef struct trp_future {
    uint64_t id;
} trp_future;

/* For every parameter called timeout_ns or wait_ns: no limit, and no waiting. 0 as a timeout_ns
 * means TRP_NOWAIT; 0 as the wait_ns of a request means TRP_FOREVER. */
#define TRP_FOREVER INT64_C(-1)
#define TRP_NOWAIT  INT64_C(-2)

#ifdef __cplusplus
}
#endif
#endif

/* The reference BLAS's Fortran interface on the blas actor, for programs that are linked with
 * libblas: preloaded, it takes their calls, so that the reference BLAS's own test programs test the
 * actor. Public headers only. What it does not define stays libblas's. At its end it writes how
 * many calls it has served to the file that TROUPE_BLAS_CALLS names.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_PEER_BLAS_BRIDGE_BRIDGE_H
#define TESTS_PEER_BLAS_BRIDGE_BRIDGE_H

#include <troupe/troupe.h>

#include <stdbool.h>

#define FORTRAN __attribute__((visibility("default")))

enum { A, X, Y, NUMBERS, RESULT, SLOTS };
enum { READ = 1, WRITE = 2 };

extern trp_actor *bridge_blas;

/* An operand: in the program's memory, and in a buffer that serves the calls in turn. */
typedef struct bridge_slot {
    void *at;
    size_t bytes, room;
    int mode;
    trp_buffer buffer;
} bridge_slot;

extern bridge_slot bridge_slots[SLOTS];

void bridge_place_matrix(int slot, const void *at, int64_t rows, int64_t columns, int64_t ld,
                         trp_dtype type, int mode);
void bridge_place_vector(int slot, const void *at, int64_t n, int64_t inc, trp_dtype type,
                         int mode);

/* The completion of the next request. */
trp_completion *bridge_next(void);

/* Ends a call whose request was sent with the completion before: fetches its outputs. */
void bridge_finish(trp_status sent, const char *name);

#define SEND(name) bridge_finish(trp_##name(bridge_blas, &r, bridge_next()), #name)

/* A routine of symmetric matrices of real types and of Hermitian ones of complex types. */
#define BY_SYMMETRY(MACRO, real, complex)                                                          \
    MACRO(s##real##_, real, TRP_F32)                                                               \
    MACRO(d##real##_, real, TRP_F64)                                                               \
    MACRO(c##complex##_, complex, TRP_C64)                                                         \
    MACRO(z##complex##_, complex, TRP_C128)

/* A routine of all types. */
#define BY_TYPE(MACRO, op)                                                                         \
    MACRO(s, op, TRP_F32)                                                                          \
    MACRO(d, op, TRP_F64)                                                                          \
    MACRO(c, op, TRP_C64)                                                                          \
    MACRO(z, op, TRP_C128)

/* Numbers and options. */

static inline trp_scalar scalar(trp_dtype type, const void *at)
{
    const float *f32 = at;
    const double *f64 = at;
    switch (type) {
    case TRP_F32:
        return trp_real((double)f32[0]);
    case TRP_F64:
        return trp_real(f64[0]);
    case TRP_C64:
        return trp_complex((double)f32[0], (double)f32[1]);
    default:
        return trp_complex(f64[0], f64[1]);
    }
}

static inline trp_dtype real_of(trp_dtype type)
{
    return type == TRP_F32 || type == TRP_C64 ? TRP_F32 : TRP_F64;
}

static inline bool is(const char *option, char letter)
{
    return (*option | 0x20) == letter;
}

static inline trp_transpose trans_of(const char *option)
{
    return is(option, 'n') ? TRP_N : is(option, 't') ? TRP_T : TRP_C;
}

static inline trp_uplo uplo_of(const char *option)
{
    return is(option, 'u') ? TRP_UPPER : TRP_LOWER;
}

static inline trp_side side_of(const char *option)
{
    return is(option, 'l') ? TRP_LEFT : TRP_RIGHT;
}

static inline trp_diag diag_of(const char *option)
{
    return is(option, 'u') ? TRP_UNIT : TRP_NON_UNIT;
}

#endif

/* Shared by the files of the fake cuBLAS. */
#ifndef TESTS_SUPPORT_FAKE_CUDA_CUBLAS_CUBLAS_H
#define TESTS_SUPPORT_FAKE_CUDA_CUBLAS_CUBLAS_H

#include "support/fake_cuda/hooks.h"

#include "libs/cublas/cublas_abi.h"

#include <complex.h>

/* Declares every function of the table, as in fake.h. */
#define FAKE_CUBLAS_DECLARE(result, name, parameters, required) FAKE_API result name parameters;
TRP__CUBLAS_FUNCTIONS(FAKE_CUBLAS_DECLARE)
#undef FAKE_CUBLAS_DECLARE

#define FAKE_CUBLAS_STATUSES(X)                                                                    \
    X(SUCCESS, 0)                                                                                  \
    X(NOT_INITIALIZED, 1)                                                                          \
    X(ALLOC_FAILED, 3)                                                                             \
    X(INVALID_VALUE, 7)                                                                            \
    X(EXECUTION_FAILED, 13)                                                                        \
    X(NOT_SUPPORTED, 15)

enum {
#define FAKE_CUBLAS_STATUS(name, code) name = code,
    FAKE_CUBLAS_STATUSES(FAKE_CUBLAS_STATUS)
#undef FAKE_CUBLAS_STATUS
};

/* Checks values of an enumeration that the caller passes. */
#define FAKE_ONE_OF_2(value) ((unsigned int)(value) < 2)
#define FAKE_ONE_OF_3(value) ((unsigned int)(value) < 3)

struct trp__cublas_opaque {
    int magic;
    trp__cu_stream stream;
    trp__cublas_pointer_mode mode;
    trp__cublas_strategy strategy;
};

bool fake_cublas_good(trp__cublas_handle handle);
/* Checks a handle and gets its pointer mode; false: it is no handle. */
bool fake_cublas_mode(trp__cublas_handle handle, trp__cublas_pointer_mode *mode);
/* Like fake_cuda_enqueue(), for the stream of the handle. */
trp__cublas_status fake_cublas_enqueue(trp__cublas_handle handle, void (*run)(void *arguments),
                                       const void *arguments, size_t bytes);

/* Computes in this type for every element type. */
typedef double _Complex fake_number;

bool fake_complex(trp__cublas_type type);
/* Returns the type of the real and imaginary parts. */
trp__cublas_type fake_real(trp__cublas_type type);
size_t fake_bytes(trp__cublas_type type);
fake_number fake_load(trp__cublas_type type, const char *at);
void fake_store(trp__cublas_type type, char *at, fake_number value);

/* CMPLX(), which some compilers lack with some C libraries. */
static inline fake_number fake_pair(double re, double im)
{
    return __builtin_complex(re, im);
}

/* Multiplies without making complex numbers of real ones: infinity times an imaginary part of 0
 * would be NaN. */
static inline fake_number fake_times(fake_number a, fake_number b)
{
    double ar = creal(a), ai = cimag(a), br = creal(b), bi = cimag(b);
    return ai == 0 && bi == 0 ? fake_pair(ar * br, 0)
                              : fake_pair(ar * br - ai * bi, ar * bi + ai * br);
}

/* A scalar such as alpha or beta: read during the call or, if it is in device memory, when the work
 * runs. */
typedef struct fake_scalar {
    const void *at; /* NULL once it has been read */
    trp__cublas_type type;
    fake_number value;
} fake_scalar;

/* Takes the argument of a call; false: it is missing. */
bool fake_scalar_take(fake_scalar *scalar, trp__cublas_pointer_mode mode);
/* Reads it on the stream; false: the stream has faulted. */
bool fake_scalar_read(fake_scalar *scalar);

#endif

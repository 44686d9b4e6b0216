/* What the files of the fake cuBLAS share. */
#ifndef TESTS_SUPPORT_FAKE_CUDA_CUBLAS_CUBLAS_H
#define TESTS_SUPPORT_FAKE_CUDA_CUBLAS_CUBLAS_H

#include "support/fake_cuda/hooks.h"

#include "libs/cublas/cublas_abi.h"

#include <complex.h>

/* Every function of the table, as in fake.h. */
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

/* Values of an enumeration that come from outside. */
#define FAKE_ONE_OF_2(value) ((unsigned int)(value) < 2)
#define FAKE_ONE_OF_3(value) ((unsigned int)(value) < 3)

struct trp__cublas_opaque {
    int magic;
    trp__cu_stream stream;
    trp__cublas_pointer_mode mode;
    trp__cublas_strategy strategy;
};

bool fake_cublas_good(trp__cublas_handle handle);
/* False: no handle. */
bool fake_cublas_mode(trp__cublas_handle handle, trp__cublas_pointer_mode *mode);
/* As fake_cuda_enqueue(), to the handle's stream. */
trp__cublas_status fake_cublas_enqueue(trp__cublas_handle handle, void (*run)(void *arguments),
                                       const void *arguments, size_t bytes);

/* Every type is computed with in this one. */
typedef double _Complex fake_number;

bool fake_complex(trp__cublas_type type);
/* The type of real and imaginary part. */
trp__cublas_type fake_real(trp__cublas_type type);
size_t fake_bytes(trp__cublas_type type);
fake_number fake_load(trp__cublas_type type, const char *at);
void fake_store(trp__cublas_type type, char *at, fake_number value);

/* CMPLX, which not every compiler has with every C library. */
static inline fake_number fake_pair(double re, double im)
{
    return __builtin_complex(re, im);
}

/* Real numbers stay real: with infinities, 0 times them as an imaginary part would be NaN. */
static inline fake_number fake_times(fake_number a, fake_number b)
{
    double ar = creal(a), ai = cimag(a), br = creal(b), bi = cimag(b);
    return ai == 0 && bi == 0 ? fake_pair(ar * br, 0)
                              : fake_pair(ar * br - ai * bi, ar * bi + ai * br);
}

/* alpha, beta and the like: read at the call, or when the work is done if they are on the device.
 */
typedef struct fake_scalar {
    const void *at; /* NULL, once it was read */
    trp__cublas_type type;
    fake_number value;
} fake_scalar;

/* At the call. False: there is none. */
bool fake_scalar_take(fake_scalar *scalar, trp__cublas_pointer_mode mode);
/* On the stream. False: the stream has faulted. */
bool fake_scalar_read(fake_scalar *scalar);

#endif

/* Arrays for tests of the dnn actor: values in float64 beside their bytes in a buffer, which may
 * lie with gaps and in any order of dimensions; gaps must stay as they were.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_FIELD_H
#define TESTS_SUPPORT_PROBLEMS_FIELD_H

#include "support/harness.h"

typedef struct f_field {
    trp_dnn_tensor t;
    int64_t count;
    double *v;          /* in order, the last dimension fastest; as the type holds them */
    unsigned char *raw; /* the buffer, as it was last written */
    size_t bytes;
} f_field;

/* The device that fields are made on. */
void f_open(trp_device *device);

/* A field of random numbers from low to high (whole ones in integer types); where `packed`, without
 * gaps. In that place, poison, if low > high. */
f_field f_make(trp_dtype type, int rank, const int64_t *dim, bool packed, double low, double high);
/* The same without a device: the bytes are in `raw` alone. f_encode() puts f->v there, f_decode()
 * takes f->v from bytes like them, whose gaps are not looked at. */
f_field f_draw(trp_dtype type, int rank, const int64_t *dim, bool packed, double low, double high);
void f_encode(f_field *f);
void f_decode(f_field *f, const void *bytes);
/* Marks the bytes of elements. */
void f_mark(const f_field *f, bool *bytes);

/* The same with the dimensions and the layout of another. */
f_field f_like(const f_field *other, trp_dtype type, double low, double high);
/* Writes f->v, rounded to the type. */
void f_write(f_field *f);
/* Reads into f->v; fails where a gap was written. */
void f_read(f_field *f);
void f_drop(f_field *f);

int64_t f_below(int64_t bound);
int64_t f_from(int64_t least, int64_t most);
trp_dtype f_real(void); /* f64, f32, f16 or bf16 */

/* Whether f->v is `wanted`: each within so many units of its type's rounding, or of f32's where
 * that is less exact and the field is not f64 alone, of the larger of the value and `size`. Prints
 * the first that is not; `worst` grows to the largest error, as a share of its bound. */
bool f_right(const f_field *f, const double *wanted, double size, double units, bool wide,
             double *worst);
/* Reads f first, and fails. */
void f_compare(const char *file, int line, f_field *f, const double *wanted, double size,
               double units, bool wide);
#define F_COMPARE(f, wanted, size, units, wide)                                                    \
    f_compare(__FILE__, __LINE__, f, wanted, size, units, wide)

#endif

/* Arrays for tests of the dnn actor: values in float64 and their bytes in a buffer, in any order of
 * dimensions, with gaps, which must not change. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_FIELD_H
#define TESTS_SUPPORT_PROBLEMS_FIELD_H

#include "support/harness.h"

typedef struct f_field {
    trp_dnn_tensor t;
    int64_t count;
    double *v;          /* packed, the last dimension fastest; rounded to the type */
    unsigned char *raw; /* contents of the buffer, as last written */
    size_t bytes;
} f_field;

/* Sets the device on which fields are made. */
void f_open(trp_device *device);

/* Makes a field of random numbers from low to high (integers in integer types); `packed`: without
 * gaps. If low > high it holds poison. */
f_field f_make(trp_dtype type, int rank, const int64_t *dim, bool packed, double low, double high);
/* Makes one without a device, whose bytes are in `raw` alone. f_encode() writes f->v to them;
 * f_decode() reads f->v from such bytes, without checking gaps. */
f_field f_draw(trp_dtype type, int rank, const int64_t *dim, bool packed, double low, double high);
void f_encode(f_field *f);
void f_decode(f_field *f, const void *bytes);
/* Marks the bytes of elements. */
void f_mark(const f_field *f, bool *bytes);

/* Makes a field with the dimensions and the layout of another. */
f_field f_like(const f_field *other, trp_dtype type, double low, double high);
/* Writes f->v, rounded to the type. */
void f_write(f_field *f);
/* Reads f->v; fails if a gap was written. */
void f_read(f_field *f);
void f_drop(f_field *f);

int64_t f_below(int64_t bound);
int64_t f_from(int64_t least, int64_t most);
trp_dtype f_real(void); /* Draws f64, f32, f16 or bf16. */

/* Returns whether f->v equals `wanted`: each within so many units of its type's rounding, or of
 * f32's if that is larger and `wide` is not set, relative to the larger of the value and `size`.
 * Prints the first that is not. Raises `worst` to the largest error as a share of its bound. */
bool f_right(const f_field *f, const double *wanted, double size, double units, bool wide,
             double *worst);
/* Reads f first, and fails if it differs. */
void f_compare(const char *file, int line, f_field *f, const double *wanted, double size,
               double units, bool wide);
#define F_COMPARE(f, wanted, size, units, wide)                                                    \
    f_compare(__FILE__, __LINE__, f, wanted, size, units, wide)

#endif

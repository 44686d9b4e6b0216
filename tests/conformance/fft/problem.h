/* Transforms as problems of the conformance suite: tensors of up to eight dimensions in any layout,
 * padded, cropped and in place, and plain sums in long double. SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_CONFORMANCE_FFT_PROBLEM_H
#define TESTS_CONFORMANCE_FFT_PROBLEM_H

#include "conformance/conformance.h"

/* CF_FFT_X and CF_FFT_Y are indices in `blocks`; a problem in place has only the first. CF_FFT_WAYS
 * counts the combinations of direction, in place or not, resized or not, and norm. */
enum { CF_FFT_RANK = TRP_FFT_RANK_MAX, CF_FFT_X = 0, CF_FFT_Y = 1, CF_FFT_WAYS = 32 };

typedef struct cf_fft_tensor {
    /* strides in elements; `first`: the offset of index 0 in the buffer */
    int64_t dim[CF_FFT_RANK], stride[CF_FFT_RANK], first;
    trp_dtype type;
    bool packed; /* the request gives no strides */
} cf_fft_tensor;

typedef struct cf_fft {
    trp_fft_kind kind;
    bool wide, inverse, in_place;
    int norm; /* 3: a scale given by the request */
    trp_fft_orthogonalize orthogonalize;
    double scale;
    int rank, axes, axis[CF_FFT_RANK];
    int64_t n[CF_FFT_RANK];    /* the length along each dimension */
    bool named[CF_FFT_RANK];   /* the request gives the length of axis i */
    bool all, backwards;       /* no axes are named; they are counted from the end */
    uint32_t shift_x, shift_y; /* bit i: along dimension i */
    cf_fft_tensor x, y;
    block blocks[2];
} cf_fft;

/* These three are members of a family. `row` of its operations is a trp_fft_kind. Variants are, in
 * this order, those of real type f32, f64, f16 and bf16, or of the complex type of that precision.
 */
bool cf_fft_draw(cf_problem *problem, unsigned way, cf_kind kind);
bool cf_fft_check(cf_problem *problem, cf_tally *tally);
void cf_fft_drop(cf_problem *problem);

/* Returns whether it is a cosine or sine transform. */
bool cf_fft_is_wave(const cf_fft *p);
/* Returns the dimension that the real kinds halve. */
int cf_fft_last_axis(const cf_fft *p);
/* Returns the bytes of an element. */
int64_t cf_fft_size_of(const cf_fft_tensor *x);
/* Returns the offset of an element in its buffer, in elements. */
int64_t cf_fft_place(const cf_fft_tensor *x, int rank, const int64_t index[CF_FFT_RANK]);
/* Returns how many elements there are. */
int64_t cf_fft_elements(int rank, const int64_t dim[CF_FFT_RANK]);
/* Steps to the next index of a box; false after the last. */
bool cf_fft_next_index(int rank, const int64_t dim[CF_FFT_RANK], int64_t index[CF_FFT_RANK]);

#endif

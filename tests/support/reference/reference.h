/*
 * What a numerical test compares with: random inputs in each dtype, a float64 matrix product, the
 * relative error of a result against it, and a check that nothing outside the result was written.
 *
 * Matrices are column-major. Sizes, leading dimensions, offsets and strides count elements. The
 * functions report a misuse (a leading dimension below the rows, no memory) on stderr and abort: a
 * test must not pass by accident. Nothing here keeps state, so all of it may be called from any
 * thread.
 */
#ifndef TESTS_SUPPORT_REFERENCE_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- random numbers: xoshiro256++ (Blackman and Vigna 2019), its state filled by splitmix64 ----
 */

typedef struct ref_rng {
    uint64_t state[4];
} ref_rng;

/* The seed of this run: TROUPE_TEST_SEED (decimal, or hexadecimal with 0x) where that is set, else
 * from the clock and the process id. Prints it on stderr in the form that repeats the run. A value
 * that isn't a number aborts. */
uint64_t ref_seed(void);

void ref_rng_init(ref_rng *rng, uint64_t seed);
uint64_t ref_rng_next(ref_rng *rng);
/* Uniform in [low, high). */
double ref_rng_uniform(ref_rng *rng, double low, double high);
/* Uniform in 0 .. bound - 1; bound is at least 1. */
size_t ref_rng_below(ref_rng *rng, size_t bound);

/* ---- elements ---- */

typedef enum ref_dtype { REF_F16, REF_BF16, REF_F32, REF_F64 } ref_dtype;
enum { REF_DTYPE_COUNT = REF_F64 + 1 };

const char *ref_dtype_name(ref_dtype dtype);
size_t ref_dtype_size(ref_dtype dtype); /* in bytes */

/* Element `index` of the array; a store rounds once, to nearest even. */
double ref_load(ref_dtype dtype, const void *array, size_t index);
void ref_store(ref_dtype dtype, void *array, size_t index, double value);

/* Fills with values uniform in [-1, 1), rounded to the dtype: the bound holds after the rounding
 * too. */
void ref_fill_uniform(ref_dtype dtype, void *array, size_t count, ref_rng *rng);

/* Sets all bytes to 0xff, which is a NaN in every dtype: for outputs, so that an element never
 * written shows, and for the gaps of inputs, so that one read by mistake shows. */
void ref_poison(void *bytes, size_t byte_count);

/* ---- matrices in an array ---- */

/* A batch of matrices: element (i, j) of matrix b is array[offset + b * stride + j * ld + i]. A
 * stride of 0 makes all of a batch the same matrix; results need one that keeps them apart. */
typedef struct ref_matrix {
    ref_dtype dtype;
    const void *data;
    size_t offset, ld, stride;
} ref_matrix;

/* Elements from the start of the array to just behind the last element of the batch. */
size_t ref_matrix_span(const ref_matrix *matrix, size_t rows, size_t columns, size_t batch);

/* ---- matrix product ---- */

/* C = alpha * op(A) * op(B) + beta * C for each matrix of the batch: op(A) is m x k, op(B) k x n, C
 * m x n. As BLAS has it: with beta == 0 the old C isn't read (its data may be NULL), with alpha ==
 * 0 or k == 0 A and B are not. */
typedef struct ref_gemm_problem {
    size_t m, n, k;
    size_t batch; /* 0 means 1 */
    bool transpose_a, transpose_b;
    double alpha, beta;
    ref_matrix a, b, c; /* c as it is before the call */
} ref_gemm_problem;

/* All of C, computed and stored in float64, packed: (i, j) of matrix b is out[(b * n + j) * m + i].
 */
void ref_gemm(const ref_gemm_problem *problem, double *out);

typedef struct ref_sample {
    size_t row, column, batch;
    double value;
} ref_sample;

/* `count` entries of C drawn at random (the four corners of the first and of the last matrix come
 * first, as far as count allows), for sizes where all of it would take too long. C must not be
 * empty. */
void ref_gemm_sample(const ref_gemm_problem *problem, ref_rng *rng, size_t count, ref_sample *out);

/* ---- comparison ---- */

/* Frobenius norm of (out - reference) over that of the reference, over the whole batch; `reference`
 * is packed as ref_gemm does. Infinity when a NaN is anywhere in either, when an infinity is in
 * either, or when the reference is all zero and the result isn't. `batch` 0 means 1. */
double ref_relative_error(const ref_matrix *out, size_t m, size_t n, size_t batch,
                          const double *reference);
double ref_relative_error_sample(const ref_matrix *out, const ref_sample *samples, size_t count);

/* The largest |out - reference| over the root mean square of the reference; the same rules. In a
 * large matrix one wholly wrong element hides below a 16-bit tolerance of the norm (1 in 512 x 512
 * adds 0.002), and shows here. Compare it with REF_WORST_FACTOR times the tolerance: the largest of
 * up to 10^9 normally distributed values is 6 times their root mean square. */
#define REF_WORST_FACTOR 8.0
double ref_worst_error(const ref_matrix *out, size_t m, size_t n, size_t batch,
                       const double *reference);

/*
 * The relative error that a right product may have, for inputs of zero mean (as ref_fill_uniform
 * makes them) that the reference read in the dtype, output in the same dtype, accumulation in
 * float32 (in float64 for REF_F64). `tf32`: the library may round float32 inputs to TF32 (for
 * REF_F32 alone). Twice the unit roundoff for the output and a reduction in it, plus the
 * accumulation: see the source.
 */
double ref_gemm_tolerance(ref_dtype dtype, size_t k, bool tf32);

/* How much larger a relative error may be because the terms of this very product cancel: what alpha
 * A B + beta C has as root mean square for inputs uniform in [-1, 1), over what `count` elements of
 * the reference have; at least 1. One element may be near 0, a large matrix is not. */
double ref_gemm_cancellation(size_t k, double alpha, double beta, const double *reference,
                             size_t count);

/* ---- guards ---- */

/* Returns whether an array of `byte_count` bytes is the same in `before` and `after` everywhere but
 * in the m x n matrices of `written` (whose data isn't used): before the first, between m and ld,
 * between the matrices, and behind the last. Where not, *first_bad (unless NULL) is the index of
 * the first byte changed. `batch` 0 means 1. */
bool ref_guards_intact(const void *before, const void *after, size_t byte_count,
                       const ref_matrix *written, size_t m, size_t n, size_t batch,
                       size_t *first_bad);

#endif

/* Computes the sums of a product in float64 on this machine's cores, as a reference: panels of
 * columns in turn, with all rows of a panel or a sample of them. Independent of the library, down
 * to the decoding of types. */
#ifndef TRP_CLI_CHECK_SUMS_H
#define TRP_CLI_CHECK_SUMS_H

#include <troupe/types.h>

/* A matrix in host memory, viewed through steps: a transpose moves no element. */
typedef struct check_view {
    const void *data;
    trp_dtype type;
    uint64_t row_step, col_step; /* elements */
    bool conjugate;
    const float *scale; /* NULL, or factors: one for the whole matrix */
    bool scale_each;    /* one for each row of the first matrix or column of the second */
} check_view;

/* Returns element `i` of an array; `part` 1 is the imaginary part. */
double check_value(trp_dtype type, const void *data, uint64_t i, int part);

double check_element(const check_view *view, uint64_t row, uint64_t col, int part);

/* The sums of one row, from column col0 on, and the norms that bound their terms. */
typedef struct check_part {
    uint64_t row, col0, cols;
    const double *sums[2]; /* real and, for complex types only, imaginary */
    double row_norm;
    const double *col_norms;
} check_part;

typedef struct check_sums {
    check_view a, b; /* m x k, k x n */
    uint64_t m, n, k;
    double max_steps; /* bound of multiplications, above which rows are sampled */
    /* Called for each part, from several threads at a time. */
    void (*compare)(void *user, const check_part *part);
    void *user;
} check_sums;

/* Returns the number of rows that check_sums_run() computes: all, or as many as max_steps
 * allows. */
uint64_t check_sums_rows(const check_sums *sums);

/* Computes all sums; sampled rows are spread evenly. False: no memory. */
bool check_sums_run(const check_sums *sums);

#endif

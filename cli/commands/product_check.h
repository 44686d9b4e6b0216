/* An independent float64 product on this machine's cores, to hold a result against. */
#ifndef TRP_CLI_COMMANDS_PRODUCT_CHECK_H
#define TRP_CLI_COMMANDS_PRODUCT_CHECK_H

#include "data/matrix.h"

typedef struct check_result {
    uint64_t rows;        /* rows that were compared: all, or a sample of them */
    uint64_t wrong;       /* elements beyond the tolerance */
    double error;         /* |C - R| / |R|, Frobenius norms over those rows */
    double tolerance;     /* of |c - r| / (|row of A| |column of B|), for each element */
    uint64_t ns;          /* time that it took */
    uint64_t row, col;    /* the worst element, if any is wrong */
    double got, expected; /* there */
} check_result;

/* Multiplications in one check of a command: seconds, not minutes. */
#define CHECK_MAX_STEPS 4e9

/* Compares c with a b, all three read from host memory: all rows, or, where that would take more
 * than max_steps multiplications, as many as that allows, spread evenly from first to last.
 *
 * An element c is right if |c - r| <= tolerance |row of A| |column of B|. The product of the norms
 * bounds the sum of the absolute terms, so this is the classic forward bound (Higham, Accuracy and
 * Stability, section 3.5) with sqrt(k) in place of k, as errors of summation do not all point the
 * same way; and the inputs' rounding for tf32. False if memory or threads are lacking. */
bool check_product(const matrix *a, const matrix *b, const matrix *c, trp_compute compute,
                   double max_steps, check_result *out);

/* Runs it and shows it as a step of a report; true if the result is right. */
bool check_and_show(const char *label, const matrix *a, const matrix *b, const matrix *c,
                    trp_compute compute);

#endif

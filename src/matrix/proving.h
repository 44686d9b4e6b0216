/* What proofs of products share (tuning/prover.h), whoever computes them. */
#ifndef TRP_MATRIX_PROVING_H
#define TRP_MATRIX_PROVING_H

#include "driver/cuda.h"

#include <stdbool.h>
#include <stdint.h>

/* Returns slightly more than a unit in the last place of a type: the relative difference that
 * rounding can make of two almost equal numbers; 0: negligible. */
double trp__proving_unit(uint8_t type);

/* Returns the allowed error of sums of k products of inputs of a type, relative to the root mean
 * square of all results; `rounded`: f32 is rounded to tf32. */
double trp__proving_of_sums(uint8_t type, int64_t k, bool rounded);

/* Matrices of a batch as they lie in memory: lines of `length` elements of `width` bytes. */
typedef struct trp__proving_lines {
    int64_t length, count, batch;
    int64_t ld, stride; /* elements */
    uint32_t width;
} trp__proving_lines;

/* Enqueues a copy that leaves alone what lies between lines: C to D's place. */
trp_status trp__proving_copy(const trp__cuda *cu, const trp__proving_lines *x, trp__cu_address from,
                             trp__cu_address to, trp__cu_stream stream, trp_error *error);

#endif

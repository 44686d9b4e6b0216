/* Random numbers by the law of counters of <troupe/random.h>, one at a time, in long double.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_REFERENCE_RANDOM_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_RANDOM_REFERENCE_H

#include <troupe/random.h>

/* What an element is: a whole number, or a number that an error is allowed for. */
typedef struct ref_random_number {
    int64_t whole;     /* BITS, INTEGERS */
    long double value; /* others; not rounded to the type */
    long double error; /* how much the arithmetic may be off, before the result is rounded */
} ref_random_number;

/* The element at `place`, with the seed and the offset of a state or of the request. `part`: 1 for
 * the imaginary part of a complex number, else 0. */
ref_random_number ref_random(const trp_random_request *r, uint64_t seed, uint64_t offset,
                             uint64_t place, int part);

/* Loads the number at an address, in its type: whole numbers and others. */
ref_random_number ref_random_load(trp_dtype type, const void *at, int part);

/* How far a number that was made is from the right one, as a share of what is allowed: integers and
 * what is drawn from two values must be equal, and uniform numbers inside of their ends. */
double ref_random_error(const trp_random_request *r, ref_random_number got,
                        ref_random_number wanted);

#endif

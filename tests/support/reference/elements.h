/* Elements of every type of the matmul actor, loaded to float64 and rounded from it, by the
 * definitions of the formats alone: shares no code with src/base/numbers/narrow.h or half.h, which
 * it checks. Nothing here has state. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_REFERENCE_ELEMENTS_H
#define TESTS_SUPPORT_REFERENCE_ELEMENTS_H

#include "support/reference/blas_reference.h" /* ref_complex */

/* Loads element `index`; f4e2m1 and i4 of even index are in the low half of their byte. */
ref_complex ref_element_load(trp_dtype type, const void *array, int64_t index);
/* Rounds to nearest even, once. A real type takes the real part. */
void ref_element_store(trp_dtype type, void *array, int64_t index, ref_complex value);

/* Rounds a real number to a type, or to one part of a complex type. f8, f4, i4, i8 and i32
 * saturate, the others overflow to infinity. Monotonic. */
double ref_element_round(trp_dtype type, double value);

/* Returns the bits of a number, rounded to a type of at most 16 bits. */
uint32_t ref_element_encode(trp_dtype type, double value);
double ref_element_decode(trp_dtype type, uint32_t code);

/* Scale factors: 2^(code - 127), NaN for 255; and f8e4m3, whose sign is ignored. */
double ref_ue8m0(uint8_t code);
double ref_ue4m3(uint8_t code);

#endif

/* Elements of every type that the matmul actor knows, loaded to float64 and rounded from it, by the
 * formats' definitions alone: nothing here is shared with src/base/numbers/narrow.h or half.h,
 * which it is to check. Nothing here keeps state. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_REFERENCE_ELEMENTS_H
#define TESTS_SUPPORT_REFERENCE_ELEMENTS_H

#include "support/reference/blas_reference.h" /* ref_complex */

/* Element `index`; an f4e2m1 or i4 of even index lies in the low half of its byte. */
ref_complex ref_element_load(trp_dtype type, const void *array, int64_t index);
/* Rounds to nearest even, once. A real type takes the real part. */
void ref_element_store(trp_dtype type, void *array, int64_t index, ref_complex value);

/* A real number as the type, or one part of the complex type, holds it. f8, f4, i4, i8 and i32
 * saturate, the others become infinite. It never falls while the argument rises. */
double ref_element_round(trp_dtype type, double value);

/* The bits of a type of at most 16 bits, as rounding gives them. */
uint32_t ref_element_encode(trp_dtype type, double value);
double ref_element_decode(trp_dtype type, uint32_t code);

/* Scale factors: 2^(code - 127), NaN for 255; and f8e4m3 whose sign means nothing. */
double ref_ue8m0(uint8_t code);
double ref_ue4m3(uint8_t code);

#endif

/* Conversions of element types on the host: to make what an actor reads, such as bf16 or fp8
 * matrices, and to read what it wrote. SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_CONVERT_H
#define TROUPE_CONVERT_H

#include <troupe/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Converts `count` elements from `source`, of type source_type, to `target`, of type target_type.
 *
 * Types: f64, f32, f16, bf16, f8e4m3, f8e5m2, f4e2m1, f8e8m0, i4, i8 and i32, each to each; c64 and
 * c128, each to each. Elements lie one after the other, aligned as the type is; f4e2m1 and i4 pack
 * two in a byte, the first in the low four bits: an odd count reads half of the last byte, and
 * writes 0 to its other half. The two ranges must not overlap. Both may be NULL if count is 0.
 *
 * Values that the target can hold are converted exactly; others are rounded once, to nearest, ties
 * to even, as the actors round their results. A value that is too large becomes an infinity in f32,
 * f16 and bf16, and the largest finite value of its sign in fp8, f4, i4, i8 and i32; so do
 * infinities there. A NaN stays one, but becomes 6 in f4 and 0 in i4, i8 and i32. f8e8m0, which has
 * no sign, no zero and no fraction, takes the smallest of its powers of two that is not below the
 * magnitude, or its largest.
 *
 * Any thread; nothing is allocated. TRP_E_ARGUMENT: a type that is not in the list, or a missing
 * pointer; nothing is written then. */
TRP_API trp_status trp_convert(trp_dtype source_type, const void *source, trp_dtype target_type,
                               void *target, size_t count);

#ifdef __cplusplus
}
#endif
#endif

/* What benchmarks multiply: a piece of random numbers, again and again; and whether both sides have
 * come to the same. */
#ifndef TRP_BENCH_SUITE_FILLED_H
#define TRP_BENCH_SUITE_FILLED_H

#include "suite.h"

enum { FILLED_PIECE = 1 << 20 }; /* bytes */

/* Small numbers: fp8 of e4m3 from -1.875 to 1.875, bf16 from -2 to 2. */
void filled_piece(trp_dtype type, unsigned char *piece, uint64_t seed);

/* A buffer that is filled with the piece; with NULL with poison. */
bool filled_buffer(suite *s, const void *piece, uint64_t bytes, trp_buffer *out);

/* Whether a product of bf16 begins with the same numbers in `d`, which has so many bytes, and on
 * the raw side. Algorithms may differ in how they add up, so bits may too. */
bool filled_compare(suite *s, trp_buffer d, uint64_t bytes, char note[40]);

/* The same with what `read` gives the first bytes of. */
bool filled_compare_with(suite *s, bool (*read)(void *context, void *out, size_t bytes),
                         void *context, trp_buffer d, uint64_t bytes, char note[40]);

#endif

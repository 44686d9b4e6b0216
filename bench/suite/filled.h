/* Fills operands of benchmarks with copies of a piece of random numbers, and compares the results
 * of both sides. */
#ifndef TRP_BENCH_SUITE_FILLED_H
#define TRP_BENCH_SUITE_FILLED_H

#include "suite.h"

enum { FILLED_PIECE = 1 << 20 }; /* bytes */

/* Fills the piece with small random numbers: fp8 e4m3 from -1.875 to 1.875, bf16 from -2 to 2. */
void filled_piece(trp_dtype type, unsigned char *piece, uint64_t seed);

/* Allocates a buffer and fills it with copies of the piece, or with poison if `piece` is NULL. */
bool filled_buffer(suite *s, const void *piece, uint64_t bytes, trp_buffer *out);

/* Tells whether the first elements of a bf16 product agree in `d`, which has `bytes` bytes, and on
 * the raw side. Algorithms may add in different orders, so bits may differ. */
bool filled_compare(suite *s, trp_buffer d, uint64_t bytes, char note[40]);

/* Compares with the first bytes that `read` returns. */
bool filled_compare_with(suite *s, bool (*read)(void *context, void *out, size_t bytes),
                         void *context, trp_buffer d, uint64_t bytes, char note[40]);

#endif

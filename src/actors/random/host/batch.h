/* Random numbers by the batch on the host, for one instruction set each; both give the same bits.
 */
#ifndef TRP_ACTORS_RANDOM_HOST_BATCH_H
#define TRP_ACTORS_RANDOM_HOST_BATCH_H

#include "actors/random/law/random_wire.h"

enum {
    TRP__RANDOM_BATCH_BLOCKS = 64,
    TRP__RANDOM_BATCH_WORDS = 4 * TRP__RANDOM_BATCH_BLOCKS,
    TRP__RANDOM_BATCH_BYTES = 8 * TRP__RANDOM_BATCH_WORDS,
};

/* Makes the elements, in their type, whose words are those of the blocks from `first` on. `out` has
 * TRP__RANDOM_BATCH_BYTES and is aligned to 64. */
typedef void trp__random_batch(const trp__random *g, uint64_t first, void *out);

trp__random_batch trp__random_batch_plain, trp__random_batch_avx2;

/* That of this processor. */
trp__random_batch *trp__random_batch_find(void);

/* Fills y, whose element of index 0 is at `y`, with seed and offset of `g`; shared by the team. */
void trp__random_fill(const trp__random *g, void *y);

#endif

/* What the prover's files share. */
#ifndef TRP_TUNING_PROVER_PARTS_H
#define TRP_TUNING_PROVER_PARTS_H

#include "tuning/prover.h"

/* --- numbers.c --- */

/* Bytes of an element. */
size_t trp__proof_width(uint8_t type);

/* Fills `count` elements with numbers of a pass; the same for the same seed. False: no memory, or a
 * type that has no numbers. */
bool trp__proof_numbers(const trp__proof_operand *operand, uint32_t pass, uint32_t special,
                        uint64_t seed, void *out, size_t count);

/* An element as a number. */
double trp__proof_number(uint8_t type, const void *element);

/* The largest finite number of a type, and the smallest normal one. */
double trp__proof_largest(uint8_t type);
double trp__proof_smallest(uint8_t type);

uint64_t trp__proof_random(uint64_t *state);

/* --- sample.c --- */

/* Elements of a tensor that follow each other in memory order. */
typedef struct trp__proof_run {
    size_t first, count; /* of the sample */
    int64_t begin, end;  /* offsets: of the first, and one past the last */
} trp__proof_run;

typedef struct trp__proof_picks {
    int64_t *number, *offset; /* of each element */
    size_t count;
    trp__proof_run *run;
    size_t runs;
} trp__proof_picks;

/* Elements of an operand, and one more than its largest offset. */
int64_t trp__proof_elements(const trp__proof_operand *operand);
int64_t trp__proof_extent(const trp__proof_operand *operand);

/* Chooses what is compared of an output. False: no memory. */
bool trp__proof_pick(const trp__proof_operand *operand, uint64_t seed, trp__proof_picks *out);
void trp__proof_drop_picks(trp__proof_picks *picks);

#endif

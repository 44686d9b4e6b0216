/* Poison: which bytes of buffers a failed request should have written.
 *
 * A request is issued or refused only after every earlier one that uses its ranges, so the state
 * here at that moment is exactly what those before it have left: what its sender did not know of
 * yet is known here. Kept apart from the scheduler's own tables, for nobody looks at it while
 * nothing has failed. */
#ifndef TRP_WORKER_POISON_H
#define TRP_WORKER_POISON_H

#include "base/ranges.h"
#include "wire/layout.h"

typedef struct trp__poison {
    uint64_t ticket;  /* the last failed request that should have written the bytes, 0: none */
    uint64_t halfway; /* the last of those that may have written a part of them; 0: none */
    bool coarse;      /* and there may be more, all of them before `ticket` */
} trp__poison;

typedef struct trp__poisoned {
    uint32_t generation; /* of the buffer that was meant */
    bool counted;
    bool all;          /* `worst` counts, for all of it: there was no memory for its parts */
    trp__poison worst; /* of all parts; coarse */
    trp__ranges parts;
} trp__poisoned;

typedef struct trp__poisons {
    uint32_t count; /* of buffers that have some */
    trp__poisoned buffer[TRP__BUFFERS];
} trp__poisons;

/* The failed request because of which this one must not read its inputs; 0: it may. Its sender may
 * have been told of the failure before it sent this one, which helps it if nothing is half-written.
 */
uint64_t trp__poisons_cause(trp__poisons *poisons, const trp__record *record);

/* The request has failed: what it should have written is poisoned. `parts`: it had done a part. */
void trp__poisons_add(trp__poisons *poisons, const trp__record *record, bool parts);

/* The request is issued: what it writes whole is good again for those after it. */
void trp__poisons_heal(trp__poisons *poisons, const trp__record *record);

void trp__poisons_free(trp__poisons *poisons);

#endif

/* Poison: the bytes of buffers that a failed request should have written. A request is issued or
 * refused only after every earlier one that uses its ranges, so at that moment the state here is
 * exact, including failures that its sender did not know. Apart from the scheduler's own tables,
 * since it is unused until a request fails. */
#ifndef TRP_WORKER_POISON_H
#define TRP_WORKER_POISON_H

#include "base/ranges.h"
#include "wire/layout.h"

typedef struct trp__poison {
    uint64_t ticket;  /* the last failed request that should have written the bytes, 0: none */
    uint64_t halfway; /* the last of those that may have written a part of them; 0: none */
    bool coarse;      /* there may be more such requests, all before `ticket` */
} trp__poison;

typedef struct trp__poisoned {
    uint32_t generation; /* of the buffer */
    bool counted;
    bool all;          /* `worst` counts for all bytes: there was no memory for parts */
    trp__poison worst; /* of all parts; coarse */
    trp__ranges parts;
} trp__poisoned;

typedef struct trp__poisons {
    uint32_t count; /* of buffers that have some */
    trp__poisoned buffer[TRP__BUFFERS];
} trp__poisons;

/* Returns the failed request because of which this one must not read its inputs; 0: none. A failure
 * delivered before this request was sent does not count, unless inputs are half-written. */
uint64_t trp__poisons_cause(trp__poisons *poisons, const trp__record *record);

/* Poisons the outputs of a failed request. `parts`: it had done a part. */
void trp__poisons_add(trp__poisons *poisons, const trp__record *record, bool parts);

/* The request is issued: the ranges that it covers are good again for later ones. */
void trp__poisons_heal(trp__poisons *poisons, const trp__record *record);

void trp__poisons_free(trp__poisons *poisons);

#endif

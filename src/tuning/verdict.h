/* What proofs have found about plans of libraries: by the problem, the engine or algorithm with its
 * settings, the GPU model and the versions of driver and library. Kept in memory and in the kernel
 * cache, where they travel in packs. docs/cache-format.md has the bytes. */
#ifndef TRP_TUNING_VERDICT_H
#define TRP_TUNING_VERDICT_H

#include "cache/entry.h"
#include "cache/store.h"
#include "tuning/prover.h"
#include "tuning/record.h"

typedef enum trp__verdict_state {
    TRP__VERDICT_UNKNOWN, /* nothing is known, also after a proof that could not be made */
    TRP__VERDICT_PROVING, /* a worker is at it, or died of it */
    TRP__VERDICT_PROVEN,
    TRP__VERDICT_REJECTED,
    TRP__VERDICT_STATES,
} trp__verdict_state;

typedef struct trp__verdict {
    trp__verdict_state state;
    uint32_t attempts; /* of PROVING: proofs that were begun */
    uint32_t compared; /* elements, of PROVEN */
    uint64_t owner;    /* of PROVING: the process whose worker began it */
    char reason[TRP__PROOF_REASON];
} trp__verdict;

/* The ones of a process; zero-initialised but for the first two. One thread at a time. */
typedef struct trp__verdicts {
    trp__store *store; /* NULL: there is none */
    const trp__tuning_site *site;
    struct trp__verdict_known *known; /* in memory */
    size_t count, room;
} trp__verdicts;

void trp__verdicts_end(trp__verdicts *v);

/* Begins the key of a verdict: the kind, the site, the problem for people and the plan. The caller
 * adds the problem as bytes, and ends it. */
void trp__verdict_key_begin(const trp__verdicts *v, const char *kind, const char *problem,
                            const char *plan, trp__key *key);

/* What is known, in memory or in the store; UNKNOWN: nothing. */
trp__verdict trp__verdict_find(trp__verdicts *v, const trp__key *key);

/* Keeps one. PROVING is for the store alone. */
void trp__verdict_keep(trp__verdicts *v, const trp__key *key, const trp__verdict *verdict);

/* The payload of an entry; false: it is none, or of another version. */
bool trp__verdict_read(const void *bytes, size_t size, trp__verdict *out);

const char *trp__verdict_name(trp__verdict_state state);

/* Shows all verdicts of a kind in a store, with their entries, until see() returns false. */
trp_status trp__verdicts_list(trp__store *store, const char *kind,
                              bool (*see)(void *context, const trp__entry *entry,
                                          const trp__verdict *verdict),
                              void *context, trp_error *error);

#endif

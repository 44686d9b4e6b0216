/* Verdicts of proofs about plans of libraries, keyed by problem, engine or algorithm with its
 * settings, GPU model, and versions of driver and library. Cached in memory and in the kernel
 * cache, where packs can carry them. docs/cache-format.md has the bytes. */
#ifndef TRP_TUNING_VERDICT_H
#define TRP_TUNING_VERDICT_H

#include "cache/entry.h"
#include "cache/store.h"
#include "tuning/prover.h"
#include "tuning/record.h"

typedef enum trp__verdict_state {
    TRP__VERDICT_UNKNOWN, /* nothing is known, or a proof was not possible */
    TRP__VERDICT_PROVING, /* a worker is proving it, or died of it */
    TRP__VERDICT_PROVEN,
    TRP__VERDICT_REJECTED,
    TRP__VERDICT_STATES,
} trp__verdict_state;

typedef struct trp__verdict {
    trp__verdict_state state;
    uint32_t attempts; /* of PROVING: number of proofs begun */
    uint32_t compared; /* elements, of PROVEN */
    uint64_t owner;    /* of PROVING: the process whose worker began it */
    char reason[TRP__PROOF_REASON];
} trp__verdict;

/* The verdicts of a process; zero-initialised except the first two. One thread at a time. */
typedef struct trp__verdicts {
    trp__store *store; /* may be NULL */
    const trp__tuning_site *site;
    struct trp__verdict_known *known; /* in memory */
    size_t count, room;
} trp__verdicts;

void trp__verdicts_end(trp__verdicts *v);

/* Begins the key of a verdict: kind, site, problem as text, plan. The caller adds the problem as
 * bytes, and ends the key. */
void trp__verdict_key_begin(const trp__verdicts *v, const char *kind, const char *problem,
                            const char *plan, trp__key *key);

/* Finds a verdict in memory or in the store; UNKNOWN: none. */
trp__verdict trp__verdict_find(trp__verdicts *v, const trp__key *key);

/* Stores a verdict. PROVING goes to the store only. */
void trp__verdict_keep(trp__verdicts *v, const trp__key *key, const trp__verdict *verdict);

/* Parses an entry's payload; false: no verdict, or of another version. */
bool trp__verdict_read(const void *bytes, size_t size, trp__verdict *out);

const char *trp__verdict_name(trp__verdict_state state);

/* Returns whether entries of a kind are verdicts. */
bool trp__verdict_is_kind(const char *kind);

/* Passes all verdicts in a store, with their entries, to see() until it returns false. */
trp_status trp__verdicts_list(trp__store *store,
                              bool (*see)(void *context, const trp__entry *entry,
                                          const trp__verdict *verdict),
                              void *context, trp_error *error);

#endif

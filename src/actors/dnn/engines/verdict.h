/* What proofs have found about the ways to run a part of a graph: by the part, the engine with its
 * knobs, the GPU model and the versions of driver and library. Kept in memory and in the kernel
 * cache, where they travel in packs. docs/cache-format.md has the bytes. */
#ifndef TRP_ACTORS_DNN_ENGINES_VERDICT_H
#define TRP_ACTORS_DNN_ENGINES_VERDICT_H

#include "actors/dnn/engines/engines.h"
#include "cache/entry.h"
#include "cache/store.h"
#include "tuning/prover.h"
#include "tuning/record.h"

typedef enum trp__dnn_verdict_state {
    TRP__DNN_UNKNOWN, /* nothing is known, also after a proof that could not be made */
    TRP__DNN_PROVING, /* a worker is at it, or died of it */
    TRP__DNN_PROVEN,
    TRP__DNN_REJECTED,
    TRP__DNN_VERDICT_STATES,
} trp__dnn_verdict_state;

typedef struct trp__dnn_verdict {
    trp__dnn_verdict_state state;
    uint32_t attempts; /* of PROVING: proofs that were begun */
    uint32_t compared; /* elements, of PROVEN */
    uint64_t owner;    /* of PROVING: the process whose worker began it */
    char reason[TRP__PROOF_REASON];
} trp__dnn_verdict;

/* The ones of a process; zero-initialised but for the first two. One thread at a time. */
typedef struct trp__dnn_verdicts {
    trp__store *store; /* NULL: there is none */
    const trp__tuning_site *site;
    struct trp__dnn_known *known; /* in memory */
    size_t count, room;
} trp__dnn_verdicts;

void trp__dnn_verdicts_end(trp__dnn_verdicts *v);

/* The key of a verdict, which the caller ends. Parts of different graphs that compute the same have
 * the same key. */
void trp__dnn_verdict_key(const trp__dnn_verdicts *v, const trp__dnn_part *part, const char *engine,
                          trp__key *key);

/* What is known, in memory or in the store; UNKNOWN: nothing. */
trp__dnn_verdict trp__dnn_verdict_find(trp__dnn_verdicts *v, const trp__key *key);

/* Keeps one. PROVING is for the store alone. */
void trp__dnn_verdict_keep(trp__dnn_verdicts *v, const trp__key *key,
                           const trp__dnn_verdict *verdict);

/* The payload of an entry; false: it is none, or of another version. */
bool trp__dnn_verdict_read(const void *bytes, size_t size, trp__dnn_verdict *out);

const char *trp__dnn_verdict_name(trp__dnn_verdict_state state);

/* Shows all verdicts of a store, with their entries, until see() returns false. */
trp_status trp__dnn_verdicts_list(trp__store *store,
                                  bool (*see)(void *context, const trp__entry *entry,
                                              const trp__dnn_verdict *verdict),
                                  void *context, trp_error *error);

#endif

#include "tuning/verdict.h"

#include "base/bytes.h"
#include "base/error.h"
#include "cache/inspect.h"

#include <stdlib.h>
#include <string.h>

/* Version of payloads and proofs, part of the key: verdicts of earlier versions are proven
 * again. */
#define VERSION 8u

enum { KNOWN_MOST = 4096 /* in memory; the oldest are overwritten */ };

typedef struct trp__verdict_known {
    trp__hash hash;
    trp__verdict verdict;
} known;

const char *trp__verdict_name(trp__verdict_state state)
{
    static const char *const names[TRP__VERDICT_STATES] = {
        [TRP__VERDICT_UNKNOWN] = "unknown",
        [TRP__VERDICT_PROVING] = "proving",
        [TRP__VERDICT_PROVEN] = "proven",
        [TRP__VERDICT_REJECTED] = "rejected",
    };
    return (unsigned)state < TRP__VERDICT_STATES ? names[state] : "unknown";
}

void trp__verdicts_end(trp__verdicts *v)
{
    free(v->known);
    v->known = NULL;
    v->count = v->room = 0;
}

/* Keys. */

void trp__verdict_key_begin(const trp__verdicts *v, const char *kind, const char *problem,
                            const char *plan, trp__key *key)
{
    trp__tuning_key_begin(key, kind, v->site, problem, "verdict", "proof", VERSION);
    trp__key_add_text(key, TRP__KEY_OPTION, plan);
}

/* Payloads. */

enum {
    HEAD_STATE = 4,
    HEAD_ATTEMPTS = 8,
    HEAD_COMPARED = 12,
    HEAD_OWNER = 16,
    HEAD_REASON = 24,
    HEAD_BYTES = HEAD_REASON + TRP__PROOF_REASON,
};

static void write_payload(const trp__verdict *verdict, unsigned char out[HEAD_BYTES])
{
    memset(out, 0, HEAD_BYTES);
    trp__put32(out, VERSION);
    trp__put32(out + HEAD_STATE, verdict->state);
    trp__put32(out + HEAD_ATTEMPTS, verdict->attempts);
    trp__put32(out + HEAD_COMPARED, verdict->compared);
    trp__put64(out + HEAD_OWNER, verdict->owner);
    trp__copy_string((char *)out + HEAD_REASON, TRP__PROOF_REASON, verdict->reason);
}

bool trp__verdict_read(const void *bytes, size_t size, trp__verdict *out)
{
    const unsigned char *b = bytes;
    *out = (trp__verdict){0};
    if (size != HEAD_BYTES || trp__get32(b) != VERSION ||
        trp__get32(b + HEAD_STATE) >= TRP__VERDICT_STATES)
        return false;
    out->state = (trp__verdict_state)trp__get32(b + HEAD_STATE);
    out->attempts = trp__get32(b + HEAD_ATTEMPTS);
    out->compared = trp__get32(b + HEAD_COMPARED);
    out->owner = trp__get64(b + HEAD_OWNER);
    memcpy(out->reason, b + HEAD_REASON, TRP__PROOF_REASON);
    out->reason[TRP__PROOF_REASON - 1] = '\0';
    return true;
}

/* Memory. */

static known *find_known(trp__verdicts *v, const trp__hash *hash)
{
    for (size_t i = 0; i < v->count && i < v->room; i++) {
        if (memcmp(&v->known[i].hash, hash, sizeof *hash) == 0)
            return &v->known[i];
    }
    return NULL;
}

static void remember(trp__verdicts *v, const trp__hash *hash, const trp__verdict *verdict)
{
    known *at = find_known(v, hash);
    if (!at && v->count >= v->room && v->room < KNOWN_MOST) {
        size_t room = v->room ? 2 * v->room : 64;
        known *more = realloc(v->known, room * sizeof *more);
        if (!more)
            return; /* the store knows it, or it is proven again */
        v->known = more;
        v->room = room;
    }
    if (!at)
        at = &v->known[v->count++ % v->room];
    *at = (known){*hash, *verdict};
}

trp__verdict trp__verdict_find(trp__verdicts *v, const trp__key *key)
{
    const trp__hash hash = trp__key_hash(key);
    const known *at = find_known(v, &hash);
    trp__verdict verdict = {0};
    trp__store_hit hit = {0};
    if (at)
        return at->verdict;
    if (v->store && trp__store_find(v->store, &(trp__store_request){.key = key}, &hit) == TRP_OK)
        (void)trp__verdict_read(hit.payload, hit.bytes, &verdict);
    trp__store_hit_end(&hit);
    if (verdict.state == TRP__VERDICT_PROVEN || verdict.state == TRP__VERDICT_REJECTED)
        remember(v, &hash, &verdict);
    return verdict;
}

void trp__verdict_keep(trp__verdicts *v, const trp__key *key, const trp__verdict *verdict)
{
    const trp__hash hash = trp__key_hash(key);
    unsigned char bytes[HEAD_BYTES];
    trp_error ignored;
    if (verdict->state == TRP__VERDICT_PROVEN || verdict->state == TRP__VERDICT_REJECTED)
        remember(v, &hash, verdict);
    write_payload(verdict, bytes);
    if (v->store)
        (void)trp__store_put(v->store, &(trp__store_request){.key = key},
                             &(trp__store_entry){.payload = bytes, .bytes = sizeof bytes},
                             &ignored);
}

/* Lists. */

bool trp__verdict_is_kind(const char *kind)
{
    static const char *const kinds[] = {TRP__KIND_DNN_ENGINE, TRP__KIND_MATMUL_PROOF,
                                        TRP__KIND_CUTLASS_PROOF, TRP__KIND_FFT_PROOF};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kind, kinds[i]) == 0)
            return true;
    }
    return false;
}

typedef struct listing {
    bool (*see)(void *context, const trp__entry *entry, const trp__verdict *verdict);
    void *context;
} listing;

static bool see_entry(void *context, const trp__inspected *one)
{
    const listing *l = context;
    trp__verdict verdict;
    char kind[64];
    if (one->wrong)
        return true;
    trp__inspect_field(&one->entry, TRP__KEY_KIND, kind, sizeof kind);
    if (!trp__verdict_is_kind(kind) || !one->entry.payload ||
        !trp__verdict_read(one->entry.payload, (size_t)one->entry.bytes, &verdict))
        return true;
    return l->see(l->context, &one->entry, &verdict);
}

trp_status trp__verdicts_list(trp__store *store,
                              bool (*see)(void *context, const trp__entry *entry,
                                          const trp__verdict *verdict),
                              void *context, trp_error *error)
{
    listing l = {see, context};
    return trp__inspect_all(store, true, see_entry, &l, error);
}

#include "actors/dnn/engines/verdict.h"

#include "base/bytes.h"
#include "base/error.h"
#include "cache/inspect.h"

#include <troupe/dnn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the payload, and of what a proof looks at: what an earlier version has proven is proven again.
 * Part of the key. */
#define VERSION 4u

enum { KNOWN_MOST = 4096 /* in memory; the oldest are overwritten */ };

typedef struct trp__dnn_known {
    trp__hash hash;
    trp__dnn_verdict verdict;
} known;

const char *trp__dnn_verdict_name(trp__dnn_verdict_state state)
{
    static const char *const names[TRP__DNN_VERDICT_STATES] = {
        [TRP__DNN_UNKNOWN] = "unknown",
        [TRP__DNN_PROVING] = "proving",
        [TRP__DNN_PROVEN] = "proven",
        [TRP__DNN_REJECTED] = "rejected",
    };
    return (unsigned)state < TRP__DNN_VERDICT_STATES ? names[state] : "unknown";
}

void trp__dnn_verdicts_end(trp__dnn_verdicts *v)
{
    free(v->known);
    v->known = NULL;
    v->count = v->room = 0;
}

/* Keys. */

/* Tensors are numbered in the order in which nodes of the part name them, so that the key does not
 * depend on what is around the part. */
static void add_part(trp__key *key, const trp__dnn_part *part)
{
    uint8_t place[TRP__DNN_LOWERED_TENSORS], number[TRP__DNN_LOWERED_TENSORS];
    uint8_t next = 0;
    trp__dnn_places(part, place);
    memset(number, TRP__DNN_NO_PORT, sizeof number);
    for (uint32_t n = 0; n < part->count; n++) {
        trp__dnn_node node = part->graph->node[part->first + n];
        for (int i = 0; i < TRP__DNN_PORTS; i++) {
            const uint8_t t = node.port[i];
            if (t == TRP__DNN_NO_PORT)
                continue;
            if (number[t] == TRP__DNN_NO_PORT) {
                number[t] = next++;
                trp__key_add(key, TRP__KEY_INPUT, &part->graph->tensor[t],
                             sizeof part->graph->tensor[t]);
                trp__key_add(key, TRP__KEY_INPUT, &place[t], 1);
            }
            node.port[i] = number[t];
        }
        trp__key_add(key, TRP__KEY_INPUT, &node, sizeof node);
    }
}

void trp__dnn_verdict_key(const trp__dnn_verdicts *v, const trp__dnn_part *part, const char *engine,
                          trp__key *key)
{
    char text[256];
    const uint8_t tf32 = part->graph->head->tf32;
    trp__dnn_part_text(part, text, sizeof text);
    trp__tuning_key_begin(key, TRP__KIND_DNN_ENGINE, v->site, text, "verdict", "proof", VERSION);
    trp__key_add_text(key, TRP__KEY_OPTION, engine);
    trp__key_add(key, TRP__KEY_INPUT, &tf32, sizeof tf32);
    add_part(key, part);
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

static void write_payload(const trp__dnn_verdict *verdict, unsigned char out[HEAD_BYTES])
{
    memset(out, 0, HEAD_BYTES);
    trp__put32(out, VERSION);
    trp__put32(out + HEAD_STATE, verdict->state);
    trp__put32(out + HEAD_ATTEMPTS, verdict->attempts);
    trp__put32(out + HEAD_COMPARED, verdict->compared);
    trp__put64(out + HEAD_OWNER, verdict->owner);
    trp__copy_string((char *)out + HEAD_REASON, TRP__PROOF_REASON, verdict->reason);
}

bool trp__dnn_verdict_read(const void *bytes, size_t size, trp__dnn_verdict *out)
{
    const unsigned char *b = bytes;
    *out = (trp__dnn_verdict){0};
    if (size != HEAD_BYTES || trp__get32(b) != VERSION ||
        trp__get32(b + HEAD_STATE) >= TRP__DNN_VERDICT_STATES)
        return false;
    out->state = (trp__dnn_verdict_state)trp__get32(b + HEAD_STATE);
    out->attempts = trp__get32(b + HEAD_ATTEMPTS);
    out->compared = trp__get32(b + HEAD_COMPARED);
    out->owner = trp__get64(b + HEAD_OWNER);
    memcpy(out->reason, b + HEAD_REASON, TRP__PROOF_REASON);
    out->reason[TRP__PROOF_REASON - 1] = '\0';
    return true;
}

/* Memory. */

static known *find_known(trp__dnn_verdicts *v, const trp__hash *hash)
{
    for (size_t i = 0; i < v->count && i < v->room; i++) {
        if (memcmp(&v->known[i].hash, hash, sizeof *hash) == 0)
            return &v->known[i];
    }
    return NULL;
}

static void remember(trp__dnn_verdicts *v, const trp__hash *hash, const trp__dnn_verdict *verdict)
{
    known *at = find_known(v, hash);
    if (!at && v->count >= v->room && v->room < KNOWN_MOST) {
        size_t room = v->room ? 2 * v->room : 64;
        known *more = realloc(v->known, room * sizeof *more);
        if (!more)
            return; /* then the store knows it, or it is found out again */
        v->known = more;
        v->room = room;
    }
    if (!at)
        at = &v->known[v->count++ % v->room];
    *at = (known){*hash, *verdict};
}

trp__dnn_verdict trp__dnn_verdict_find(trp__dnn_verdicts *v, const trp__key *key)
{
    const trp__hash hash = trp__key_hash(key);
    const known *at = find_known(v, &hash);
    trp__dnn_verdict verdict = {0};
    trp__store_hit hit = {0};
    if (at)
        return at->verdict;
    if (v->store && trp__store_find(v->store, &(trp__store_request){.key = key}, &hit) == TRP_OK)
        (void)trp__dnn_verdict_read(hit.payload, hit.bytes, &verdict);
    trp__store_hit_end(&hit);
    if (verdict.state == TRP__DNN_PROVEN || verdict.state == TRP__DNN_REJECTED)
        remember(v, &hash, &verdict);
    return verdict;
}

void trp__dnn_verdict_keep(trp__dnn_verdicts *v, const trp__key *key,
                           const trp__dnn_verdict *verdict)
{
    const trp__hash hash = trp__key_hash(key);
    unsigned char bytes[HEAD_BYTES];
    trp_error ignored;
    if (verdict->state == TRP__DNN_PROVEN || verdict->state == TRP__DNN_REJECTED)
        remember(v, &hash, verdict);
    write_payload(verdict, bytes);
    if (v->store)
        (void)trp__store_put(v->store, &(trp__store_request){.key = key},
                             &(trp__store_entry){.payload = bytes, .bytes = sizeof bytes},
                             &ignored);
}

/* Lists. */

typedef struct listing {
    bool (*see)(void *context, const trp__entry *entry, const trp__dnn_verdict *verdict);
    void *context;
} listing;

static bool see_entry(void *context, const trp__inspected *one)
{
    const listing *l = context;
    trp__dnn_verdict verdict;
    char kind[64];
    if (one->wrong)
        return true;
    trp__inspect_field(&one->entry, TRP__KEY_KIND, kind, sizeof kind);
    if (strcmp(kind, TRP__KIND_DNN_ENGINE) != 0 || !one->entry.payload ||
        !trp__dnn_verdict_read(one->entry.payload, (size_t)one->entry.bytes, &verdict))
        return true;
    return l->see(l->context, &one->entry, &verdict);
}

trp_status trp__dnn_verdicts_list(trp__store *store,
                                  bool (*see)(void *context, const trp__entry *entry,
                                              const trp__dnn_verdict *verdict),
                                  void *context, trp_error *error)
{
    listing l = {see, context};
    return trp__inspect_all(store, true, see_entry, &l, error);
}

/* The kernel cache: results of earlier processes of this user (kernels, tuning records, plans). Two
 * layers:
 *
 *   packs  read-only files that an application ships (cache/pack.h)
 *   disk   a folder of entries, bounded, the least recently used go first
 *
 * Packs are searched first. (Modules loaded in a process are the actor's matter.) An entry is a key
 * (cache/key.h), a payload (for instance a cubin) and a note with data that belongs to the payload
 * (lowered names, the log). docs/cache-format.md describes the bytes.
 *
 * A compile's full key is known only afterwards, since it includes the headers that were read. So
 * there are two steps. The *request key* has what is known before (source, options, expressions,
 * target, compiler). It finds an entry that lists sets of headers read under it. If the compiler
 * would read exactly one of these sets now, the request key and that set (name and content of each
 * header) form the full key, which finds the payload.
 *
 * No error here fails a compile. An entry that is unreadable, damaged, of another version or key,
 * or writable by others counts as missing (TRP_E_MISSING) and is replaced by the next write. An
 * unusable folder is logged once as a warning, and the store works without it.
 *
 *   trp__store_claim_or_find(store, &request, &wait, &hit, &claim, &error):
 *     TRP_OK         hit holds the payload; trp__store_hit_end() when it is loaded
 *     TRP_E_MISSING  it is ours to make: compile, trp__store_put(), trp__store_claim_end()
 *
 * All functions are thread-safe. A claim belongs to its owner: ending it there releases it although
 * forked children may have inherited it; if the owner dies, it lasts until those children have
 * ended or called exec. */
#ifndef TRP_CACHE_STORE_H
#define TRP_CACHE_STORE_H

#include "base/log.h"
#include "cache/key.h"

#include <troupe/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct trp__store trp__store;

#define TRP__STORE_BYTES_DEFAULT (UINT64_C(2) << 30)

typedef struct trp__store_options {
    /* NULL: the folder that cache/folder.h finds. "": no disk. */
    const char *folder;
    /* Colon-separated paths of packs, searched in this order. NULL: $TROUPE_CACHE_PACKS, followed
     * by the packs installed with the library, share/troupe/kernels.trpk and default.trpk, unless
     * the variable is set and empty. */
    const char *packs;
    /* Bound of the folder in bytes. 0: $TROUPE_CACHE_SIZE (bytes, or with suffix K, M, G or T:
     * times 1024 each), else TRP__STORE_BYTES_DEFAULT. */
    uint64_t max_bytes;
    /* Where warnings go; NULL: standard error. Must live as long as the store. */
    const trp__log *log;
} trp__store_options;

/* Opens the store; NULL options: all defaults. Creates nothing on disk before the first claim or
 * write. A pack or folder that can't be used is a warning. TRP_E_MEMORY is the only error. */
trp_status trp__store_open(const trp__store_options *options, trp__store **out, trp_error *error);

/* Returns the store of this process, opened with all defaults at the first call and never closed:
 * actors come and go. NULL: no memory. */
trp__store *trp__store_of_process(void);

/* All hits and claims must have ended. NULL is ignored. */
void trp__store_close(trp__store *store);

/* --- Headers --- */

/* A header that a compile has read, or looked for without finding it. */
typedef struct trp__store_header {
    /* The identity: opaque to the store, compared as bytes, part of the full key. It is the name as
     * included ("cute/tensor.hpp"), so that packs work on other machines. Where one name can mean
     * several files (quoted includes in different folders), the caller makes the names distinct. */
    const char *name;
    /* Where it was found: a hint for resolve() and for people, not part of the key. "" if in
     * memory. */
    const char *path;
    /* Hash of the content read. All zero: there was no such file (__has_include), and the set
     * matches only while there is none. */
    trp__hash content;
} trp__store_header;

/* Returns what the compiler would read now for a name: true and the hash of its content, or false
 * if there is nothing. Each look-up calls it at most once per layer for a name and path. It must
 * not call the store. */
typedef bool (*trp__store_resolve)(void *context, const char *name, const char *path,
                                   trp__hash *content);

/* --- Looking --- */

/* A look-up. */
typedef struct trp__store_request {
    const trp__key *key;
    /* NULL: the key is a full key, without headers. */
    trp__store_resolve resolve;
    void *context;
} trp__store_request;

typedef enum trp__store_layer { TRP__STORE_PACK, TRP__STORE_DISK } trp__store_layer;

/* A result. Pointers are valid until trp__store_hit_end(), whatever happens to the folder; the note
 * is aligned to 8 bytes, the payload to 64. */
typedef struct trp__store_hit {
    const void *payload;
    size_t bytes;
    const void *note;
    size_t note_bytes;
    trp__store_layer layer;
    trp__hash hash; /* of the full key, which names the entry */
    void *memory;   /* owned by the store */
} trp__store_hit;

/* Finds an entry. TRP_E_MISSING leaves *hit zero; also the key's own error and TRP_E_MEMORY. */
trp_status trp__store_find(trp__store *store, const trp__store_request *request,
                           trp__store_hit *hit);

/* Frees a result. A zero one is ignored. */
void trp__store_hit_end(trp__store_hit *hit);

/* --- Making, once --- */

typedef struct trp__store_claim trp__store_claim;

/* Bounds a wait for another thread or process that makes the same entry; NULL: none. */
typedef struct trp__store_wait {
    int64_t deadline_ns; /* as trp__deadline() gives; INT64_MAX: none */
    /* Polled every few milliseconds by the waiting thread; may be NULL. */
    bool (*is_cancelled)(void *context);
    void *context;
} trp__store_wait;

/* Finds the entry or claims it: of all threads and processes that want one request key, one at a
 * time holds the claim; the others wait and then look again. A claim ends with its process, however
 * that dies. A claim is best effort: without a usable folder, or on file systems without locks, it
 * holds in this process only.
 *
 *   TRP_OK           *hit is filled, *claim NULL
 *   TRP_E_MISSING    *claim is the caller's: make it, then trp__store_claim_end()
 *   TRP_E_TIMEOUT    the deadline passed: the one who has it may be stopped; making it without a
 *                    claim does no harm
 *   TRP_E_CANCELLED  is_cancelled() said so
 *   TRP_E_MEMORY     and the key's own error
 *
 * A caller that fails to make the entry ends the claim, and the next in line tries. A thread must
 * not wait for a key that it has claimed itself. */
trp_status trp__store_claim_or_find(trp__store *store, const trp__store_request *request,
                                    const trp__store_wait *wait, trp__store_hit *hit,
                                    trp__store_claim **claim, trp_error *error);

/* Claims a key without looking, for a caller that wants a better entry than the present one. Look
 * again after the claim: the previous holder may have made that entry. TRP_OK; TRP_E_TIMEOUT,
 * TRP_E_CANCELLED and TRP_E_MEMORY as above, with *claim NULL. */
trp_status trp__store_claim_begin(trp__store *store, const trp__key *key,
                                  const trp__store_wait *wait, trp__store_claim **claim,
                                  trp_error *error);

/* Ends a claim, so that the next in line proceeds. NULL is ignored. */
void trp__store_claim_end(trp__store_claim *claim);

/* --- Writing --- */

/* An entry to write. */
typedef struct trp__store_entry {
    const void *payload; /* may be empty */
    size_t bytes;
    const void *note; /* may be NULL */
    size_t note_bytes;
    /* Headers in the order in which the compile read them; ignored without resolve(). */
    const trp__store_header *headers;
    size_t header_count;
} trp__store_entry;

/* Writes an entry, and for a request with resolve() the list of headers that leads to it. Correct
 * without the claim, but then work may be repeated. On return the entry is on disk whole, or
 * absent. An error says why it was not stored (no folder: TRP_E_MISSING; full or read-only disk:
 * TRP_E_SYSTEM; larger than the bound: TRP_E_ARGUMENT); the first one is also logged as a warning.
 * The caller goes on with its result. */
trp_status trp__store_put(trp__store *store, const trp__store_request *request,
                          const trp__store_entry *entry, trp_error *error);

/* --- Explaining --- */

/* Explains a miss: writes lines to `text`, each ended by a newline, that say how the nearest entry
 * of the same kind and name differs: "option: -O3, not -O2". `headers`, which may be NULL, are
 * those that the request would read now. Returns the length of the whole text, of which at most
 * `size` - 1 bytes are written. Reads all entries of that name: for people, not for each
 * compile. */
size_t trp__store_explain(trp__store *store, const trp__key *key, const trp__store_header *headers,
                          size_t header_count, char *text, size_t size);

#endif

/* The kernel cache: what was made once, by any process of this user, found again: kernels of the
 * jit actor, what searches of the matmul actor have found. Two layers:
 *
 *   packs  read-only files that an application ships, memory-mapped (cache/pack.h)
 *   disk   a folder of entries, bounded, the least recently used go first
 *
 * Packs are asked first. (What is loaded in a process is the actor's own matter.) An entry is a key
 * (cache/key.h), a note and a payload. The payload is what was asked for, a cubin say; the note is
 * what belongs to it and is no part of the file that people extract: lowered names, the log.
 * docs/cache-format.md has the bytes.
 *
 * A compile's key is known in full only when it is done: not before does anyone know which headers
 * it has read. So there are two steps. The *request key* has what is known before (source, options,
 * expressions, target, compiler). It finds an entry that lists sets of headers that were read under
 * it. If one set is what the compiler would read now, the request key and that set, name and
 * content of each header, are the full key, which finds the payload.
 *
 * Nothing here fails a compile. What can't be read, is damaged, of another version, of another key,
 * or could have been written by others is not there (TRP_E_MISSING) and is replaced when it is
 * written again. A folder that can't be used is told of once, as a warning, and the store goes on
 * without it.
 *
 *   trp__store_claim_or_find(store, &request, &wait, &hit, &claim, &error):
 *     TRP_OK         hit holds the payload; trp__store_hit_end() when it is loaded
 *     TRP_E_MISSING  it is ours to make: compile, trp__store_put(), trp__store_claim_end()
 *
 * All functions are thread-safe. A claim is its owner's: where it is ended there, children that
 * were forked meanwhile have no part in it; if the owner dies, it lasts until those have ended or
 * exec'ed, too. */
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
    /* NULL: the place that cache/folder.h finds. "": no disk. */
    const char *folder;
    /* Paths of packs with colons between them, asked in this order. NULL: $TROUPE_CACHE_PACKS, and
     * behind those the ones that are installed with the library, share/troupe/kernels.trpk and
     * default.trpk, unless the variable is set and empty. */
    const char *packs;
    /* The most that the folder may hold. 0: $TROUPE_CACHE_SIZE (bytes, or with K, M, G or T behind:
     * times 1024 each), else TRP__STORE_BYTES_DEFAULT. */
    uint64_t max_bytes;
    /* Where warnings go; NULL: standard error. Must live as long as the store. */
    const trp__log *log;
} trp__store_options;

/* Opens the store; NULL options: all defaults. Nothing is made on disk before something is claimed
 * or written. A pack or folder that can't be used is a warning. TRP_E_MEMORY is the only error. */
trp_status trp__store_open(const trp__store_options *options, trp__store **out, trp_error *error);

/* The one of this process, with all defaults: actors come and go. The first who asks opens it, and
 * nobody closes it. NULL: there was no memory. */
trp__store *trp__store_of_process(void);

/* All hits and claims must have ended. NULL is ignored. */
void trp__store_close(trp__store *store);

/* --- Headers --- */

/* A header that a compile has read, or one that it has looked for and not found. */
typedef struct trp__store_header {
    /* What it is found by again: opaque to the store, compared as bytes, part of the full key.
     * "cute/tensor.hpp", as it was included, so that packs fit on other machines. Where one name
     * can mean several files, as with quotes in different folders, the caller tells them apart in
     * the name. */
    const char *name;
    /* Where it was; a hint for resolve() and for people, no part of the key. "" if in memory. */
    const char *path;
    /* Of the content that the compiler has read. All zero: there was no such file (__has_include),
     * and the set counts only as long as there is none. */
    trp__hash content;
} trp__store_header;

/* Says what the compiler would read now for a name: true and the hash of its content, or false if
 * there is nothing. In a look-up it is asked at most once by each layer for a name and path. It
 * must not call the store. */
typedef bool (*trp__store_resolve)(void *context, const char *name, const char *path,
                                   trp__hash *content);

/* A trp__store_resolve of common use: `context` is a trp__store_search. Looks for the name among
 * headers in memory, then in each folder, as for `#include <name>`. A name that begins with '/' is
 * looked for as it is. */
bool trp__store_resolve_search(void *context, const char *name, const char *path,
                               trp__hash *content);

typedef struct trp__store_search {
    const char *const *names; /* of headers in memory */
    const char *const *contents;
    size_t count;
    const char *const *folders;
    size_t folder_count;
} trp__store_search;

/* --- Looking --- */

/* What is looked for. */
typedef struct trp__store_request {
    const trp__key *key;
    /* NULL: the key is full; there are no headers. */
    trp__store_resolve resolve;
    void *context;
} trp__store_request;

typedef enum trp__store_layer { TRP__STORE_PACK, TRP__STORE_DISK } trp__store_layer;

/* What was found. The pointers are valid until trp__store_hit_end(); the note is aligned to 8
 * bytes, the payload to 64. What happens to the folder meanwhile does not touch them. */
typedef struct trp__store_hit {
    const void *payload;
    size_t bytes;
    const void *note;
    size_t note_bytes;
    trp__store_layer layer;
    trp__hash hash; /* of the full key: the entry's name */
    void *memory;   /* of the store */
} trp__store_hit;

/* TRP_OK, or TRP_E_MISSING (with *hit zero); the key's own error if it has one; TRP_E_MEMORY. */
trp_status trp__store_find(trp__store *store, const trp__store_request *request,
                           trp__store_hit *hit);

/* A zero one is ignored. */
void trp__store_hit_end(trp__store_hit *hit);

/* --- Making, once --- */

typedef struct trp__store_claim trp__store_claim;

/* How long to wait for another thread or process that makes the same; NULL: for ever. */
typedef struct trp__store_wait {
    int64_t deadline_ns; /* as trp__deadline() gives; INT64_MAX: none */
    /* Asked every few milliseconds, from the waiting thread; may be NULL. */
    bool (*is_cancelled)(void *context);
    void *context;
} trp__store_wait;

/* Finds it, or gets the right to make it: of all threads and processes that want the same request
 * key one at a time has the claim, the others wait, and look again when they get it. A claim ends
 * with its process, however that dies. Claims are no promise: where there is no usable folder they
 * hold in this process only, and on file systems without locks too.
 *
 *   TRP_OK           *hit is filled, *claim NULL
 *   TRP_E_MISSING    *claim is the caller's: make it, then trp__store_claim_end()
 *   TRP_E_TIMEOUT    the deadline passed: the one who has it may be stopped; making it without a
 *                    claim does no harm
 *   TRP_E_CANCELLED  is_cancelled() said so
 *   TRP_E_MEMORY     and the key's own error
 *
 * One who fails to make it ends the claim; the next in line then tries. A thread must not wait for
 * a key that it has claimed itself. */
trp_status trp__store_claim_or_find(trp__store *store, const trp__store_request *request,
                                    const trp__store_wait *wait, trp__store_hit *hit,
                                    trp__store_claim **claim, trp_error *error);

/* The right to make it by itself, for one who wants something better than what is there. To be
 * looked for once more when it is got, for whoever had it may have made that. TRP_OK;
 * TRP_E_TIMEOUT, TRP_E_CANCELLED and TRP_E_MEMORY as above, with *claim NULL. */
trp_status trp__store_claim_begin(trp__store *store, const trp__key *key,
                                  const trp__store_wait *wait, trp__store_claim **claim,
                                  trp_error *error);

/* Lets the next one go on. NULL is ignored. */
void trp__store_claim_end(trp__store_claim *claim);

/* --- Writing --- */

/* What is written. */
typedef struct trp__store_entry {
    const void *payload; /* may be empty */
    size_t bytes;
    const void *note; /* may be NULL */
    size_t note_bytes;
    /* What the compile has read, in the order in which it has; counts only for a request with
     * resolve. */
    const trp__store_header *headers;
    size_t header_count;
} trp__store_entry;

/* Writes an entry, and for a request with resolve() the list of headers that leads to it. Best with
 * the claim held, right without it. When it returns, the entry is on the disk whole or there is
 * none. An error says why it is not kept (no folder: TRP_E_MISSING; full or read-only disk:
 * TRP_E_SYSTEM; larger than the bound: TRP_E_ARGUMENT); the first is also told as a warning. The
 * caller goes on with what it has made. */
trp_status trp__store_put(trp__store *store, const trp__store_request *request,
                          const trp__store_entry *entry, trp_error *error);

/* --- Explaining --- */

/* Why a key is not there: writes lines to `text`, each ended by a newline, that say in what the
 * nearest entry of the same kind and name differs: "option: -O3, not -O2". `headers`, may be
 * NULL, are those that the request would read now. Returns the length of the whole text, of which
 * `size`
 * - 1 bytes are written. Reads all entries of that name: for people, not for each compile. */
size_t trp__store_explain(trp__store *store, const trp__key *key, const trp__store_header *headers,
                          size_t header_count, char *text, size_t size);

#endif

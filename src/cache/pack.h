/* Packs: many cache entries in one read-only file. Head, index sorted by hash, entries (each as in
 * a file of its own), head again. docs/cache-format.md describes the bytes.
 *
 * A pack is replaced by renaming a new file over it (as trp__cache_pack_finish() does), never
 * written in place: processes read entries of an open pack at any time. A pack contains code that
 * will run, so it must belong to this user or root, and nobody else may write to it. */
#ifndef TRP_CACHE_PACK_H
#define TRP_CACHE_PACK_H

#include "cache/entry.h"
#include "cache/store.h"

#include <troupe/status.h>

#include <stdint.h>

/* Writing. A writer belongs to one thread. */

typedef struct trp__cache_pack_writer trp__cache_pack_writer;

/* Creates a temporary file beside `path`; trp__cache_pack_finish() renames it. */
trp_status trp__cache_pack_begin(const char *path, trp__cache_pack_writer **out, trp_error *error);

/* Adds the entry that trp__store_put() would write, and for a request with resolve the list of its
 * headers. Copies everything. TRP_E_ARGUMENT: the key is in the pack already. An error leaves the
 * pack without this entry. */
trp_status trp__cache_pack_add(trp__cache_pack_writer *writer, const trp__store_request *request,
                               const trp__store_entry *entry, trp_error *error);

/* Writes the index, renames the file and sets mode 0644. Frees the writer, whatever the result. */
trp_status trp__cache_pack_finish(trp__cache_pack_writer *writer, trp_error *error);

/* Discards the pack. NULL is ignored. */
void trp__cache_pack_abandon(trp__cache_pack_writer *writer);

/* Reading. Many threads may read an open pack. */

typedef struct trp__cache_pack trp__cache_pack;

/* TRP_E_MISSING: no such file; TRP_E_VERSION: another version; TRP_E_SYSTEM: no pack, or not
 * trusted. Damage inside costs only the damaged rows and entries: each is checked when it is
 * used. */
trp_status trp__cache_pack_open(const char *path, trp__cache_pack **out, trp_error *error);
void trp__cache_pack_close(trp__cache_pack *pack);

const char *trp__cache_pack_path(const trp__cache_pack *pack);

/* Finds the entry of a key. It points into *memory, which the caller frees, or with *memory NULL
 * into the memory the pack was opened from. False: no valid entry. */
bool trp__cache_pack_find(const trp__cache_pack *pack, const trp__hash *hash, uint32_t type,
                          const void *key, size_t key_bytes, unsigned char **memory,
                          trp__entry *entry);

/* Number of entries in the index, and each of them: NULL, or what is wrong with it. The caller
 * frees *memory in both cases. */
uint64_t trp__cache_pack_count(const trp__cache_pack *pack);
const char *trp__cache_pack_entry(const trp__cache_pack *pack, uint64_t i, unsigned char **memory,
                                  trp__entry *entry);

/* Opens a pack in memory at a multiple of 64, which stays the caller's and must outlive the
 * pack. */
trp_status trp__cache_pack_open_memory(const void *bytes, size_t size, const char *path,
                                       trp__cache_pack **out, trp_error *error);

#endif

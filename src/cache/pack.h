/* Packs: many entries of the kernel cache in one file that is only read. A head, an index sorted
 * by hash, the entries one behind the other, each as it is in a file of its own, the head again.
 * docs/cache-format.md has the bytes.
 *
 * A pack is mapped, and what is found in it is read in place. So it is replaced by a new file of
 * the same name (as trp__cache_pack_finish() does), never written to while somebody may have it
 * open. It is code that will run: it must belong to this user or root, and nobody else may write to
 * it. */
#ifndef TRP_CACHE_PACK_H
#define TRP_CACHE_PACK_H

#include "cache/entry.h"
#include "cache/store.h"

#include <troupe/status.h>

#include <stdint.h>

/* Writing. A writer is one thread's. */

typedef struct trp__cache_pack_writer trp__cache_pack_writer;

/* Begins a file beside `path`, which takes its place at the end. */
trp_status trp__cache_pack_begin(const char *path, trp__cache_pack_writer **out, trp_error *error);

/* Adds what trp__store_put() would write: the entry, and for a request with resolve the list of its
 * headers. Nothing is kept of what is passed. TRP_E_ARGUMENT: this key was added before. An error
 * leaves the pack without that entry. */
trp_status trp__cache_pack_add(trp__cache_pack_writer *writer, const trp__store_request *request,
                               const trp__store_entry *entry, trp_error *error);

/* Writes the index, and gives the file its name and mode 0644. The writer is gone then, whatever
 * the result. */
trp_status trp__cache_pack_finish(trp__cache_pack_writer *writer, trp_error *error);

/* Gives it up. NULL is ignored. */
void trp__cache_pack_abandon(trp__cache_pack_writer *writer);

/* Reading. An open pack is read by many threads. */

typedef struct trp__cache_pack trp__cache_pack;

/* TRP_E_MISSING: there is no such file; TRP_E_VERSION: it is of another version; TRP_E_SYSTEM: it
 * is none, or can't be trusted. What is damaged inside costs what is damaged: rows of the index and
 * entries are looked at one by one, when they are needed. */
trp_status trp__cache_pack_open(const char *path, trp__cache_pack **out, trp_error *error);
void trp__cache_pack_close(trp__cache_pack *pack);

const char *trp__cache_pack_path(const trp__cache_pack *pack);

/* The entry of a key, which points into *memory, to be freed; NULL: into the caller's. False: there
 * is none that is good. */
bool trp__cache_pack_find(const trp__cache_pack *pack, const trp__hash *hash, uint32_t type,
                          const void *key, size_t key_bytes, unsigned char **memory,
                          trp__entry *entry);

/* How many entries the index has, and each of them: NULL, or what is wrong with it. *memory is to
 * be freed in both cases. */
uint64_t trp__cache_pack_count(const trp__cache_pack *pack);
const char *trp__cache_pack_entry(const trp__cache_pack *pack, uint64_t i, unsigned char **memory,
                                  trp__entry *entry);

/* The same of a pack in memory that the caller keeps, at a multiple of 64; trp__cache_pack_close()
 * leaves it. */
trp_status trp__cache_pack_open_memory(const void *bytes, size_t size, const char *path,
                                       trp__cache_pack **out, trp_error *error);

#endif

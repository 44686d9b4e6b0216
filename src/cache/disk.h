/* The folder of entries: `store` in the cache folder. A file for each entry, named by its key's
 * hash; when it was last used is its time of modification, which is ours alone to set, since what
 * is in it never changes: a new one takes the name of the old one.
 *
 *   HASH.entry, HASH.headers   entries by their type
 *   .tmp-...                   being written, or left by one who died at it
 *   lock                       whose bytes are locked: one for each key that is being made, and two
 *                              more (cache/prune.h); it is empty, and never removed
 *   account                    how many bytes there are, as far as is known
 *
 * A struct is used by many threads. */
#ifndef TRP_CACHE_DISK_H
#define TRP_CACHE_DISK_H

#include "base/log.h"
#include "cache/entry.h"
#include "cache/folder.h"

#include <troupe/status.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

typedef struct trp__disk {
    bool absent; /* there is no place: "" was asked for, or TROUPE_CACHE_DIR is empty */
    trp__cache_place place;
    uint64_t max_bytes;
    const trp__log *log;
    atomic_bool told_folder, told_write; /* each is told of once */
    atomic_uint uncounted;               /* entries that the account does not know of */
    atomic_bool look_due;                /* at all files, whatever the account says */
} trp__disk;

#define TRP__DISK_NAME 96

/* What names of files that are being written begin with. */
#define TRP__TEMPORARY ".tmp-"

void trp__disk_name(char name[TRP__DISK_NAME], const trp__hash *hash, uint32_t type);

/* The other way round. False: it is no entry's. */
bool trp__disk_parse_name(const char *name, trp__hash *hash, uint32_t *type);

/* A descriptor of the folder, which the caller closes. TRP_E_MISSING: there is none. What can't be
 * trusted is told of, once. */
trp_status trp__disk_folder(trp__disk *disk, bool make, int *folder, trp_error *error);

/* Reads the entry of a key, and makes it the last used. *bytes is the caller's to free(); the entry
 * points into it. TRP_E_MISSING: there is none that is good, or no memory for it. */
trp_status trp__disk_find(trp__disk *disk, const trp__hash *hash, uint32_t type, const void *key,
                          size_t key_bytes, unsigned char **bytes, trp__entry *entry);

/* Reads an entry by its name, good or not: NULL, or what is wrong, with *bytes NULL if it could not
 * be read at all. With `front_only` the payload is left out and not looked at. */
const char *trp__disk_read(int folder, const char *name, bool front_only, unsigned char **bytes,
                           trp__entry *entry);

/* Writes an entry: type, key, note and payload of *entry. */
trp_status trp__disk_write(trp__disk *disk, trp__entry *entry, trp_error *error);

/* When a file was last used, CLOCK_REALTIME in ns; of times that this can't say, the nearest. */
int64_t trp__disk_stamp(const struct stat *s);

/* A lock on one byte of the file `lock`, for whoever has opened `fd` (F_OFD_SETLK): it ends with
 * that descriptor, however its process dies. */
trp_status trp__disk_open_lock(int folder, int *fd, trp_error *error);
typedef enum trp__lock_result { TRP__LOCKED, TRP__LOCK_BUSY, TRP__LOCK_NONE } trp__lock_result;
trp__lock_result trp__disk_lock(int fd, int64_t at);
void trp__disk_unlock(int fd, int64_t at);

/* Bytes of `lock` below this are for keys. */
#define TRP__LOCK_KEYS (INT64_C(1) << 62)

#endif

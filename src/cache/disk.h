/* The folder of entries: `store` in the cache folder. Each entry is a file named by its key's hash.
 * The file's modification time records when the entry was last used: content never changes in
 * place, since a new entry is renamed over the old one.
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
    bool absent; /* no folder: "" was asked for, or TROUPE_CACHE_DIR is empty */
    trp__cache_place place;
    uint64_t max_bytes;
    const trp__log *log;
    atomic_bool warned_folder, warned_write; /* warnings already logged */
    atomic_uint uncounted;                   /* entries missing in the account */
    atomic_bool look_due; /* list all files at the next write, whatever the account says */
} trp__disk;

#define TRP__DISK_NAME 96

/* Prefix of temporary files. */
#define TRP__TEMPORARY ".tmp-"

void trp__disk_name(char name[TRP__DISK_NAME], const trp__hash *hash, uint32_t type);

/* Parses such a name. False: it names no entry. */
bool trp__disk_parse_name(const char *name, trp__hash *hash, uint32_t *type);

/* Opens the folder; the caller closes the descriptor. TRP_E_MISSING: there is none. A folder that
 * can't be trusted is logged once. */
trp_status trp__disk_folder(trp__disk *disk, bool make, int *folder, trp_error *error);

/* Reads the entry of a key and marks it as just used. The caller frees *bytes, which the entry
 * points into. TRP_E_MISSING: no valid entry, or no memory for it. */
trp_status trp__disk_find(trp__disk *disk, const trp__hash *hash, uint32_t type, const void *key,
                          size_t key_bytes, unsigned char **bytes, trp__entry *entry);

/* Reads an entry by its name, valid or not. Returns NULL, or what is wrong; *bytes is NULL if
 * nothing could be read. `front_only` skips the payload, unread and unchecked. */
const char *trp__disk_read(int folder, const char *name, bool front_only, unsigned char **bytes,
                           trp__entry *entry);

/* Writes an entry: type, key, note and payload of *entry. */
trp_status trp__disk_write(trp__disk *disk, trp__entry *entry, trp_error *error);

/* The time by CLOCK_REALTIME, in ns. */
int64_t trp__disk_now(void);

/* Returns when a file was last used, CLOCK_REALTIME in ns, clamped to the representable range. */
int64_t trp__disk_stamp(const struct stat *s);

/* Locks one byte of the file `lock` (F_OFD_SETLK). The lock ends with the descriptor, however the
 * process dies. */
trp_status trp__disk_open_lock(int folder, int *fd, trp_error *error);
typedef enum trp__lock_result { TRP__LOCKED, TRP__LOCK_BUSY, TRP__LOCK_NONE } trp__lock_result;
trp__lock_result trp__disk_lock(int fd, int64_t at);
void trp__disk_unlock(int fd, int64_t at);

/* Bytes of `lock` below this are for keys. */
#define TRP__LOCK_KEYS (INT64_C(1) << 62)

#endif

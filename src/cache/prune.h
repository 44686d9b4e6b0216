/* Keeps the folder of entries within its bound.
 *
 * Listing all files at each write would be slow. The file `account` sums what was written since the
 * last listing. When the sum passes the bound, or the listing is older than a day, the next writer
 * lists all files, removes the least recently used ones down to nine tenths of the bound, and
 * removes temporary files of processes that died. */
#ifndef TRP_CACHE_PRUNE_H
#define TRP_CACHE_PRUNE_H

#include "cache/disk.h"

typedef struct trp__disk_file {
    trp__hash hash;
    uint32_t type;
    uint64_t bytes;
    int64_t used_ns;  /* CLOCK_REALTIME; not in the future */
    int64_t stamp_ns; /* the file's modification time */
} trp__disk_file;

typedef struct trp__disk_list {
    trp__disk_file *file; /* the least recently used first */
    size_t count;
    uint64_t bytes;
    uint64_t temporaries, temporary_bytes; /* being written, or left by a process that died */
} trp__disk_list;

/* Lists all names without reading entries. */
trp_status trp__disk_list_all(int folder, trp__disk_list *out, trp_error *error);
void trp__disk_list_end(trp__disk_list *list);

typedef struct trp__disk_pruned {
    uint64_t removed, removed_bytes; /* entries */
    uint64_t reaped;                 /* temporary files */
    uint64_t left, left_bytes;
} trp__disk_pruned;

/* Removes the least recently used entries until at most `limit` bytes are left, and abandoned
 * temporary files. TRP_E_BUSY: another process prunes. TRP_E_MISSING: there is no folder. */
trp_status trp__disk_prune(trp__disk *disk, uint64_t limit, trp__disk_pruned *out,
                           trp_error *error);

/* Adds the bytes of an entry to the account before it is renamed into place. */
void trp__disk_count(trp__disk *disk, int folder, uint64_t bytes);

/* Prunes to the bound if the account is over it or a day old. */
void trp__disk_prune_if_due(trp__disk *disk);

#endif

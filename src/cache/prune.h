/* Keeping the folder of entries within its bound.
 *
 * Nobody looks at all files at each write. A file, the account, has the sum of what was written
 * since somebody last did; when it passes the bound, or is older than a day, the next one that
 * writes looks at all files, removes what was not used for longest down to nine tenths of the
 * bound, and what was left by those who died while they wrote. */
#ifndef TRP_CACHE_PRUNE_H
#define TRP_CACHE_PRUNE_H

#include "cache/disk.h"

typedef struct trp__disk_file {
    trp__hash hash;
    uint32_t type;
    uint64_t bytes;
    int64_t used_ns;  /* CLOCK_REALTIME; not in the future */
    int64_t stamp_ns; /* what the file says */
} trp__disk_file;

typedef struct trp__disk_list {
    trp__disk_file *file; /* the least recently used first */
    size_t count;
    uint64_t bytes;
    uint64_t temporaries, temporary_bytes; /* files that are being written, or were left */
} trp__disk_list;

/* Looks at all names; reads no entry. */
trp_status trp__disk_list_all(int folder, trp__disk_list *out, trp_error *error);
void trp__disk_list_end(trp__disk_list *list);

typedef struct trp__disk_pruned {
    uint64_t removed, removed_bytes; /* entries */
    uint64_t reaped;                 /* temporary files */
    uint64_t left, left_bytes;
} trp__disk_pruned;

/* Removes the least recently used entries until at most `limit` bytes are left, and temporary files
 * that nobody can be writing any more. TRP_E_BUSY: somebody else is at it. TRP_E_MISSING: there is
 * no folder. */
trp_status trp__disk_prune(trp__disk *disk, uint64_t limit, trp__disk_pruned *out,
                           trp_error *error);

/* Adds to the account what is about to be there. */
void trp__disk_count(trp__disk *disk, int folder, uint64_t bytes);

/* Prunes to the bound if the account says that it is time. */
void trp__disk_prune_if_due(trp__disk *disk);

#endif

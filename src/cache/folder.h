/* The cache folder, for data that outlives a process: $TROUPE_CACHE_DIR, else
 * $XDG_CACHE_HOME/troupe, else ~/.cache/troupe; where none of these can be created, troupe-UID in
 * $TMPDIR or /tmp. An empty TROUPE_CACHE_DIR means no folder. */
#ifndef TRP_CACHE_FOLDER_H
#define TRP_CACHE_FOLDER_H

#include <troupe/status.h>

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct trp__cache_place {
    char path[PATH_MAX]; /* absolute */
    bool shared;         /* other users may write to the parent, and so put anything at this path */
} trp__cache_place;

/* Finds the path by the environment. TRP_E_MISSING: there is none. */
trp_status trp__cache_place_find(trp__cache_place *place, trp_error *error);

/* Opens the folder; the caller closes the descriptor. `make` creates a missing folder with mode
 * 0700. The folder must belong to this user or to root, and neither group nor others may write to
 * it: anyone else could have planted its content. TRP_E_MISSING: there is none. TRP_E_SYSTEM: it
 * can't be used; the message says why. */
trp_status trp__cache_place_open(const trp__cache_place *place, bool make, int *fd,
                                 trp_error *error);

/* Opens a subfolder under the same conditions; `make` creates it. */
trp_status trp__cache_folder_open_in(int folder, const char *name, bool make, int *fd,
                                     trp_error *error);

/* Writes the path only. TRP_E_MISSING: there is none. */
trp_status trp__cache_folder_path(char *path, size_t size, trp_error *error);

/* Opens a file in the folder, close-on-exec, under the same conditions, without following symbolic
 * links. */
trp_status trp__cache_file_open(int folder, const char *name, int flags, int *fd, trp_error *error);

/* Opens a file at any path under the same conditions, following symbolic links. */
trp_status trp__cache_open_path(const char *path, int *fd, trp_error *error);

/* Read and write all `bytes` at an offset; errno says why not. Writing past RLIMIT_FSIZE is an
 * error and does not end the process. */
bool trp__cache_read_at(int fd, void *to, size_t bytes, uint64_t at);
bool trp__cache_write_at(int fd, const void *data, size_t bytes, uint64_t at);

#endif

/* The folder for what is worth keeping beyond the process: $TROUPE_CACHE_DIR, else
 * $XDG_CACHE_HOME/troupe, else ~/.cache/troupe; where that can't be made, troupe-UID in $TMPDIR or
 * /tmp. Empty TROUPE_CACHE_DIR: there is none. */
#ifndef TRP_CACHE_FOLDER_H
#define TRP_CACHE_FOLDER_H

#include <troupe/status.h>

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct trp__cache_place {
    char path[PATH_MAX]; /* full */
    bool shared;         /* others may write to the folder above it, and put anything there */
} trp__cache_place;

/* Finds the place, by the environment. TRP_E_MISSING: there is none. */
trp_status trp__cache_place_find(trp__cache_place *place, trp_error *error);

/* As trp__cache_folder_open(), for a place that was found before. */
trp_status trp__cache_place_open(const trp__cache_place *place, bool make, int *fd,
                                 trp_error *error);

/* Opens a folder in a folder, made if `make` is set, under the same conditions. */
trp_status trp__cache_folder_open_in(int folder, const char *name, bool make, int *fd,
                                     trp_error *error);

/* Just the path. TRP_E_MISSING: there is none. */
trp_status trp__cache_folder_path(char *path, size_t size, trp_error *error);

/* A descriptor of the folder, which the caller closes. With `make` it is made, for its owner alone,
 * if it is not there. What others may write into, and so could be anybody's, is refused: the folder
 * must belong to this user or to root, and neither group nor others may write to it.
 * TRP_E_MISSING: there is none. TRP_E_SYSTEM says why it can't be used. */
trp_status trp__cache_folder_open(bool make, int *fd, trp_error *error);

/* Opens a file in it, close-on-exec, under the same conditions; symbolic links are not followed. */
trp_status trp__cache_file_open(int folder, const char *name, int flags, int *fd, trp_error *error);

/* Opens a file anywhere that is to be trusted as those are; symbolic links are followed. */
trp_status trp__cache_open_path(const char *path, int *fd, trp_error *error);

#endif

/* Where the dynamic loader would find a library, without loading it: what is loaded, then the
 * folders of LD_LIBRARY_PATH, then the loader's cache (/etc/ld.so.cache). Folders that the system
 * has built into its loader are in that cache; run paths and folders for special processors are
 * not known here. So this is a good guess, for those who check it when they load. */
#ifndef TRP_BASE_OS_LDPATH_H
#define TRP_BASE_OS_LDPATH_H

#include <stdbool.h>
#include <stddef.h>

typedef enum trp__ldpath_result {
    TRP__LDPATH_FOUND,
    TRP__LDPATH_ABSENT,
    TRP__LDPATH_UNKNOWN, /* LD_LIBRARY_PATH has a relative folder, or the cache is of another kind
                          */
} trp__ldpath_result;

/* `soname` has no slash. `out` is the path of the file, if it is found. */
trp__ldpath_result trp__ldpath_find(const char *soname, char *out, size_t size);

/* What a loader's cache says of a soname; the bytes may be anything. */
trp__ldpath_result trp__ldpath_find_in_cache(const void *bytes, size_t size, const char *soname,
                                             char *out, size_t out_size);

#endif

/* Where the dynamic loader would find a library, without loading it: loaded libraries, then the
 * folders of LD_LIBRARY_PATH, then the loader's cache (/etc/ld.so.cache), which has the loader's
 * built-in folders. Run paths and folders for special processors are not known here: the result is
 * a guess, to be checked when the library is loaded. */
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

/* Looks up a soname in the bytes of a loader's cache, which may be damaged. */
trp__ldpath_result trp__ldpath_find_in_cache(const void *bytes, size_t size, const char *soname,
                                             char *out, size_t out_size);

#endif

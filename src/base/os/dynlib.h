/*
 * Opens a shared library at run time and fills a table of function pointers from it.
 *
 * Search order, the first library that loads being taken:
 *   - the full path in the library's own environment variable (spec.env). If it is set nothing else
 * is tried: a program never runs silently with another library than the one set;
 *   - each soname in each folder of TROUPE_LIBRARY_PATH (absolute folders, colon separated);
 *   - each soname by the loader's own search (LD_LIBRARY_PATH, run paths, its cache, the system's
 *     folders);
 *   - each soname in each of spec.directories.
 *
 * A library that loads but lacks a required symbol ends the search with an error: the one that the
 * user's settings point to is wrong, and taking the next would hide that.
 *
 * Relative paths and the current folder are never searched. (Where the user's LD_LIBRARY_PATH has a
 * relative or an empty entry, the loader follows it; what it finds that way is closed again and
 * refused.) Both variables are ignored in a set-user-ID program, as the loader ignores its own. */
#ifndef TRP_BASE_OS_DYNLIB_H
#define TRP_BASE_OS_DYNLIB_H

#include <stdbool.h>
#include <stddef.h>

enum { TRP__DYNLIB_PATH_SIZE = 512 };

/* All strings and lists are borrowed for the call. A list ends with NULL. */
typedef struct trp__dynlib_spec {
    const char *name; /* for messages: "cublas" */
    /* File names without a slash, tried in order: "libcublas.so.13", "libcublas.so.12". */
    const char *const *sonames;
    /* The variable that may hold the full path of the library: "TROUPE_CUBLAS"; or NULL. */
    const char *env;
    /* More folders, absolute; or NULL for none. One may be a pattern of glob(3): its folders are
     * tried newest first, that is by descending version (12.10 before 12.9). */
    const char *const *directories;
    /* How to get the library, for messages: "install libcublas-13-0"; or NULL. */
    const char *package_hint;
} trp__dynlib_spec;

typedef struct trp__dynlib_symbol {
    const char *name;
    size_t offset; /* of the pointer in the table struct, in bytes */
    bool required;
} trp__dynlib_symbol;

/* Zeroed is closed. */
typedef struct trp__dynlib {
    void *handle;
    /* The loaded file: absolute, without links, never truncated. */
    char path[TRP__DYNLIB_PATH_SIZE];
} trp__dynlib;

/*
 * Opens the library (with all of its own references resolved, its symbols not added to the global
 * scope) and stores the address of each symbol at table + offset: a table of function pointers,
 * which the caller owns and which holds until the library is closed. An optional symbol that is
 * missing is NULL.
 *
 * On failure it returns false, nothing stays open, lib is zeroed, all pointers that `symbols` names
 * are NULL, and `error` has a text of at most error_size bytes with its end (error_size may be 0):
 * what was tried and where, what the loader said, and how to mend it. Any thread; no state of its
 * own.
 */
bool trp__dynlib_open(trp__dynlib *lib, const trp__dynlib_spec *spec,
                      const trp__dynlib_symbol *symbols, size_t symbol_count, void *table,
                      char *error, size_t error_size);

/* Finds the file that trp__dynlib_open() would load, as far as this is known without loading: the
 * first that exists, even if it can't be loaded. False: there is none, or only the loader knows
 * (see base/os/ldpath.h). Takes some tens of microseconds. */
bool trp__dynlib_find(const trp__dynlib_spec *spec, char path[TRP__DYNLIB_PATH_SIZE]);

/* Closes the library, which invalidates its function pointers. Does nothing if it is closed. */
void trp__dynlib_close(trp__dynlib *lib);

#endif

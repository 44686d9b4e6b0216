/* Scans a source or header for what decides which headers are found: includes, macros that may
 * stand for file names, and requests for a file's own path. The result depends on the text alone,
 * so results for files are cached in the process. */
#ifndef TRP_COMPILE_INCLUDE_SCAN_H
#define TRP_COMPILE_INCLUDE_SCAN_H

#include "cache/hash.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum trp__include_item_kind {
    TRP__JIT_INCLUDES = 0, /* `operand`, "file" or <file> with its quotes */
    /* Includes what the macro `name` expands to; with `operand` as its argument, if not NULL. */
    TRP__JIT_INCLUDES_MACRO,
    /* Defines the macro `name` as `operand`: "file", <file>, or a piece of either (words with
     * slashes and points); NULL: as anything else. */
    TRP__JIT_DEFINES,
    TRP__JIT_DEFINES_OF_ONE, /* the same with one parameter, shown as TRP__JIT_PARAMETER */
    TRP__JIT_DEFINES_TEST, /* defines a macro of one parameter that applies __has_include() to it */
    /* Calls the macro `name`, which may be such a test, on `operand`; NULL: on anything else. */
    TRP__JIT_CALLS,
} trp__include_item_kind;

#define TRP__JIT_PARAMETER '\1'

typedef struct trp__include_item {
    trp__include_item_kind kind;
    bool all; /* include_next: any of the files with that name may be meant */
    const char *name, *operand;
} trp__include_item;

/* Immutable once made. */
typedef struct trp__include_scan {
    trp__hash content;
    size_t count; /* without calls */
    size_t calls; /* calls, behind the others */
    const trp__include_item *item;
    bool unsure; /* may include more than is listed, or depends on the time of the compile */
    /* The text may ask for its own path (asks_here) or, in a macro, for that of the file that uses
     * it (asks_elsewhere). A macro may also paste such a word together: `pastes` notes ##,
     * `has_parts` a part of one. */
    bool asks_here, asks_elsewhere, pastes, has_parts;
    char *strings; /* memory of the strings */
    atomic_uint holders;
} trp__include_scan;

/* Identifies the version of a file that was read. */
typedef struct trp__jit_stamp {
    uint64_t device, inode, bytes;
    int64_t modified_ns, changed_ns;
} trp__jit_stamp;

/* Tells whether a text or option asks for the path of a file. */
bool trp__jit_asks_for_paths(const char *text);

/* Scans a text, which is terminated. NULL: no memory. The caller releases the result. */
const trp__include_scan *trp__include_scan_text(const char *text, size_t bytes);

typedef enum trp__jit_file {
    TRP__JIT_FILE_READ = 0,
    TRP__JIT_FILE_NONE,       /* does not exist */
    TRP__JIT_FILE_UNREADABLE, /* exists but can't be read as a header */
    TRP__JIT_FILE_NO_MEMORY,
} trp__jit_file;

/* Scans the file at `path`, or returns the cached result if device, inode, size and both times are
 * unchanged and were old enough when the file was read for a later change to alter them. *settled:
 * the stamp is old enough to detect later changes. Any thread. */
trp__jit_file trp__include_scan_file(const char *path, const trp__include_scan **out,
                                     trp__jit_stamp *stamp, bool *settled);

/* Releases a result. NULL is ignored. */
void trp__include_scan_release(const trp__include_scan *scan);

/* Counts files read and results found since the process began. For tests. */
void trp__include_scan_counts(uint64_t *read, uint64_t *known);

#endif

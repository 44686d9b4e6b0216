/* Lists the headers that a compile may read. It scans sources as the preprocessor would, without
 * evaluating conditions: the list may have too many headers, and says so (`unsure`) where it may
 * lack some. NVRTC has no option to list them. */
#ifndef TRP_COMPILE_HEADERS_H
#define TRP_COMPILE_HEADERS_H

#include "compile/include_scan.h"

#include <troupe/status.h>

typedef struct trp__jit_text {
    const char *name;
    const char *text; /* terminated */
} trp__jit_text;

typedef enum trp__jit_found {
    TRP__JIT_FOUND_MEMORY = 0, /* a header in the request */
    TRP__JIT_FOUND_FILE = 1,
    TRP__JIT_FOUND_NONE =
        2, /* searched earlier and absent: a file that appears here would be read instead */
} trp__jit_found;

/* A file or absence that the result of a compile depends on. */
typedef struct trp__jit_header_row {
    trp__jit_found kind;
    /* The name, independent of where folders lie: the name of a header in memory;
     * "include_paths[0]/a/b.h"; "beside the source/b.h"; an absolute path. Each name occurs
     * once. */
    char *name;
    char *path;        /* its path here; NULL: in memory */
    trp__hash content; /* all zero for NONE */
    size_t same_as; /* an earlier row of the same file under another name, else this row's index */
    trp__jit_stamp stamp; /* of FILE */
} trp__jit_header_row;

typedef struct trp__jit_headers {
    trp__jit_header_row *row;
    size_t count, capacity;
    /* A name is known to the preprocessor only, or a file can't be read: the result may depend on
     * more than is listed. */
    bool unsure;
    bool placed;  /* files of include_paths are listed, and a text asks for paths */
    bool folders; /* files of include_paths are among them */
    bool settled; /* the stamps reveal any later change */
    size_t *slot; /* hash table of rows by name; its second half by file */
    size_t slots;
} trp__jit_headers;

/* The input of a compile. */
typedef struct trp__jit_program {
    trp__jit_text source; /* the folder in its name, if any, is searched first */
    const trp__jit_text *headers;
    uint32_t header_count;
    const char *const *includes; /* folders, absolute */
    uint32_t include_count;
    const char *const *options;
    uint32_t option_count;
} trp__jit_program;

/* Fills *out, which is zeroed before. TRP_E_MEMORY. */
trp_status trp__jit_headers_trace(const trp__jit_program *program, trp__jit_headers *out,
                                  trp_error *error);
void trp__jit_headers_free(trp__jit_headers *headers);

#endif

/* Which headers a compile may read: found by reading the sources as the preprocessor would, but
 * without knowing which conditions hold, so the answer may have too many and lacks none that it
 * does not say it may lack. NVRTC has no option that tells. */
#ifndef TRP_COMPILE_HEADERS_H
#define TRP_COMPILE_HEADERS_H

#include "compile/facts.h"

#include <troupe/status.h>

typedef struct trp__jit_text {
    const char *name;
    const char *text; /* terminated */
} trp__jit_text;

typedef enum trp__jit_found {
    TRP__JIT_FOUND_MEMORY = 0, /* a header that the request brought */
    TRP__JIT_FOUND_FILE = 1,
    TRP__JIT_FOUND_NONE = 2, /* a place that is searched before, and where no file is: if one comes,
                              * it is read instead */
} trp__jit_found;

/* Something that the result of a compile depends on. */
typedef struct trp__jit_header_row {
    trp__jit_found kind;
    /* What it is called wherever the folders lie: the name of a header in memory;
     * "include_paths[0]/a/b.h"; "beside the source/b.h"; a path that is asked for as it is. Each
     * comes once. */
    char *name;
    char *path;        /* where it lies here; NULL: in memory */
    trp__hash content; /* all zero for NONE */
    size_t same_as; /* an earlier row that is the same file by another name; else its own number */
    trp__jit_stamp stamp; /* of FILE */
} trp__jit_header_row;

typedef struct trp__jit_headers {
    trp__jit_header_row *row;
    size_t count, capacity;
    /* Something is included by a name that only the preprocessor knows, or can't be read: what was
     * compiled may depend on more than is listed. */
    bool unsure;
    bool placed;  /* files of include_paths are among them, and any text asks where files lie */
    bool folders; /* files of include_paths are among them */
    bool settled; /* the stamps tell when a file changes */
    size_t *slot; /* which rows there are, by name; behind those, by file */
    size_t slots;
} trp__jit_headers;

/* What is compiled. */
typedef struct trp__jit_program {
    trp__jit_text source; /* its name's folder, if it has one, is searched first */
    const trp__jit_text *headers;
    uint32_t header_count;
    const char *const *includes; /* folders, absolute */
    uint32_t include_count;
    const char *const *options;
    uint32_t option_count;
} trp__jit_program;

/* Fills *out, zeroed before. TRP_E_MEMORY. */
trp_status trp__jit_headers_trace(const trp__jit_program *program, trp__jit_headers *out,
                                  trp_error *error);
void trp__jit_headers_free(trp__jit_headers *headers);

#endif

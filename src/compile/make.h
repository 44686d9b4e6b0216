/* Compiling and linking, in a side thread of the worker: from the input of a module's home to its
 * output. A compile goes through the kernel cache, see docs/actors/jit.md. */
#ifndef TRP_COMPILE_MAKE_H
#define TRP_COMPILE_MAKE_H

#include "cache/store.h"

#include <troupe/status.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What has been made, in memory of the worker. Parts may be NULL if their size is 0. */
typedef struct trp__jit_made {
    char *image, *log, *names, *headers;
    char *stamps;       /* of the files that were read, and of those that were not there */
    trp__store_hit hit; /* has image, log and names, if they come from the cache */
    size_t image_bytes, log_bytes, names_bytes, headers_bytes, stamps_bytes;
    uint32_t name_count, header_count;
    bool keepable; /* the same is made again as long as the stamps are true */
} trp__jit_made;

/* The images that a link reads: copies of the modules' outputs, in their order. */
typedef struct trp__jit_image {
    const char *data;
    uint64_t bytes;
    const char *names; /* the lowered names, a line each */
    uint64_t names_bytes;
} trp__jit_image;

/* Whether the work shall be given up; may be called by any thread. */
typedef struct trp__jit_stop {
    bool (*wanted)(void *argument);
    void *argument;
} trp__jit_stop;

/* Compiles `input` (see input.h), which nobody else writes to. Fills `made` as far as it gets:
 * the log also when it fails. Errors: TRP_E_MISSING (NVRTC), TRP_E_LIBRARY, TRP_E_ARGUMENT,
 * TRP_E_MEMORY, TRP_E_INTERNAL (an input that no sender made). */
trp_status trp__jit_compile(const char *input, uint64_t bytes, const trp__jit_stop *stop,
                            trp__jit_made *made, trp_error *error);

/* Finds out what every compile has to, and none needs to be there for: which compiler there is,
 * what is in the packs. Loads no compiler. */
void trp__jit_prepare(void);

/* Links `input`; `images` are those of its modules. */
trp_status trp__jit_link(const char *input, uint64_t bytes, const trp__jit_image *images,
                         uint32_t count, trp__jit_made *made, trp_error *error);

/* Links what a compile to LTO-IR has made, alone: its image becomes a cubin, the log of the link
 * follows that of the compile. `expressions` are those of made->names. */
trp_status trp__jit_link_alone(const char *architecture, const char *const *expressions,
                               uint32_t count, trp__jit_made *made, trp_error *error);

void trp__jit_made_free(trp__jit_made *made);

/* Makes `message` begin with the first lines of a log that tell of an error. */
void trp__jit_error_lines(const char *log, const char *what, char *message, size_t size);

#endif

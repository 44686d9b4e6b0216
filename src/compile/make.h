/* Compiles and links in a side thread of the worker: from the input in a module's storage to its
 * output. A compile goes through the kernel cache (docs/actors/jit.md). */
#ifndef TRP_COMPILE_MAKE_H
#define TRP_COMPILE_MAKE_H

#include "cache/store.h"
#include "libs/nvrtc/nvrtc.h"

#include <troupe/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A result, in the worker's memory. Parts may be NULL if their size is 0. */
typedef struct trp__jit_made {
    char *image, *log, *names, *headers;
    char *stamps;       /* stamps of files read, and of absent ones that were searched */
    trp__store_hit hit; /* owns image, log and names if they come from the cache */
    size_t image_bytes, log_bytes, names_bytes, headers_bytes, stamps_bytes;
    uint32_t name_count, header_count;
    bool keepable; /* valid as long as the stamps match */
} trp__jit_made;

/* An image that a link reads: a copy of a module's output, in the order of inputs. */
typedef struct trp__jit_image {
    const char *data;
    uint64_t bytes;
    const char *names; /* lowered names, a line each */
    uint64_t names_bytes;
} trp__jit_image;

/* Tells whether to abort; called by any thread. */
typedef struct trp__jit_stop {
    bool (*wanted)(void *argument);
    void *argument;
} trp__jit_stop;

/* Compiles `input` (input.h), which nobody may change meanwhile. Fills `made` as far as it gets:
 * the log also on failure. Errors: TRP_E_MISSING (NVRTC), TRP_E_LIBRARY, TRP_E_ARGUMENT,
 * TRP_E_MEMORY, TRP_E_INTERNAL (a damaged input). */
trp_status trp__jit_compile(const char *input, uint64_t bytes, const trp__jit_stop *stop,
                            trp__jit_made *made, trp_error *error);

/* Warms up what every compile needs: the compiler's identity, the index of packs. Loads no
 * compiler. */
void trp__jit_prepare(void);

/* Links `input`; `images` are those of its modules. */
trp_status trp__jit_link(const char *input, uint64_t bytes, const trp__jit_image *images,
                         uint32_t count, trp__jit_made *made, trp_error *error);

/* Links the LTO-IR of a compile by itself: the image becomes a cubin, and the link's log follows
 * the compile's. `expressions` belong to made->names. */
trp_status trp__jit_link_alone(const char *architecture, const char *const *expressions,
                               uint32_t count, trp__jit_made *made, trp_error *error);

void trp__jit_made_free(trp__jit_made *made);

/* Writes the first lines of a log that report an error, then `what`. */
void trp__jit_error_lines(const char *log, const char *what, char *message, size_t size);

/* Take the log and the image of a program from NVRTC; `output` is a trp_jit_output. */
trp_status trp__jit_read_log(const trp__nvrtc *rtc, trp__nvrtc_program program, trp__jit_made *made,
                             trp_error *error);
trp_status trp__jit_read_image(const trp__nvrtc *rtc, trp__nvrtc_program program, uint32_t output,
                               trp__jit_made *made, trp_error *error);

/* The error of a failed call of NVRTC; `log` may be NULL. */
trp_status trp__jit_nvrtc_failed(const trp__nvrtc *rtc, trp__nvrtc_result result, const char *call,
                                 const char *log, trp_error *error);

#endif

/* Programs of Troupe's own kernels, whose sources are embedded in the library: an image for each
 * kind of device, compiled by NVRTC ahead of time into a pack or, where no pack has it, when it is
 * first needed, and stored in the kernel cache. */
#ifndef TRP_COMPILE_OWN_H
#define TRP_COMPILE_OWN_H

#include "cache/store.h"
#include "driver/cuda.h"

#include <troupe/worker.h>

#include <stdatomic.h>
#include <stdbool.h>

/* Not looked into after a call, but for the texts. */
typedef struct trp__own_program {
    const char *actor; /* whose kernels they are: "dnn" */
    const char *name;  /* for messages */
    /* The embedded file that defines the kernels; NULL: `source`, which may include such files. */
    const char *file;
    const char *source;
    bool only_here; /* uses what only one architecture has: "sm_90a" */
} trp__own_program;

/* The image of a program: from the store, which may be NULL, or compiled, which takes seconds, and
 * put there; one thread of all processes that share the store compiles, and the others wait for it.
 * Needs no device. *image is the caller's to free. Any thread. TRP_E_MISSING: no NVRTC, and no pack
 * has it; TRP_E_CANCELLED: `stop`, which may be NULL, has become true; TRP_E_LIBRARY;
 * TRP_E_MEMORY. */
trp_status trp__own_image(trp__store *store, const char *target, const trp__own_program *program,
                          const atomic_bool *stop, void **image, size_t *bytes, trp_error *error);

/* The same where the store has it: nothing is compiled. Without one, *image is not set. */
bool trp__own_image_find(trp__store *store, const char *target, const trp__own_program *program,
                         void **image, size_t *bytes);

/* Compiles a program for a target into a pack. */
struct trp__cache_pack_writer;
trp_status trp__own_image_pack(struct trp__cache_pack_writer *writer, const char *target,
                               const trp__own_program *program, size_t *bytes, trp_error *error);

#endif

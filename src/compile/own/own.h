/* Programs of Troupe's own kernels. Their sources are embedded in the library; NVRTC compiles an
 * image for each kind of device, ahead of time into a pack or at first use into the kernel
 * cache. */
#ifndef TRP_COMPILE_OWN_H
#define TRP_COMPILE_OWN_H

#include "cache/store.h"
#include "driver/cuda.h"

#include <troupe/worker.h>

#include <stdatomic.h>
#include <stdbool.h>

/* A program. Calls keep no reference, except to the texts. */
typedef struct trp__own_program {
    const char *actor; /* owner of the kernels: */
    const char *name;  /* for messages */
    /* The embedded file that defines the kernels; NULL: `source`, which may include such files. */
    const char *file;
    const char *source;
    bool only_here; /* uses features of one architecture: */
} trp__own_program;

/* Finds the image of a program in the store, which may be NULL, or compiles it, which takes
 * seconds, and stores it. One thread of all processes that share the store compiles; the others
 * wait. Needs no device. The caller frees *image. Any thread. TRP_E_MISSING: no NVRTC and no pack
 * has it; TRP_E_CANCELLED: `stop`, which may be NULL, became true; TRP_E_LIBRARY; TRP_E_MEMORY. */
trp_status trp__own_image(trp__store *store, const char *target, const trp__own_program *program,
                          const atomic_bool *stop, void **image, size_t *bytes, trp_error *error);

/* Finds the image in the store only. False leaves *image unset. */
bool trp__own_image_find(trp__store *store, const char *target, const trp__own_program *program,
                         void **image, size_t *bytes);

/* Compiles a program for a target into a pack. */
struct trp__cache_pack_writer;
trp_status trp__own_image_pack(struct trp__cache_pack_writer *writer, const char *target,
                               const trp__own_program *program, size_t *bytes, trp_error *error);

#endif

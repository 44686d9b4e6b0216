/* NVRTC, opened at run time. */
#ifndef TRP_LIBS_NVRTC_H
#define TRP_LIBS_NVRTC_H

#include "driver/toolkit.h"
#include "libs/nvrtc/nvrtc_abi.h"

#include <troupe/status.h>

/* The loaded functions, called by their exported names. */
typedef struct trp__nvrtc {
    TRP__NVRTC_FUNCTIONS(TRP__TOOLKIT_MEMBER)
} trp__nvrtc;

TRP__TOOLKIT_DECLARE(trp__nvrtc);

/* Writes the version: "13.0". */
void trp__nvrtc_version(const trp__nvrtc *lib, char *out, size_t size);

/* Finds the file that NVRTC is, or would be, loaded from. `path` has PATH_MAX bytes. */
bool trp__nvrtc_find(char *path);

/* Buffer size for the identity of any compiler. */
enum { TRP__NVRTC_IDENTITY = 512 };

/* Identifies the build of NVRTC as text: the build IDs of NVRTC and of its builtins. Reads the
 * files that trp__nvrtc_load() would open, and loads NVRTC only where they don't say; so the result
 * is a guess until NVRTC is loaded, and certain afterwards. Any thread. The errors of
 * trp__nvrtc_load(). */
trp_status trp__nvrtc_identity(char out[TRP__NVRTC_IDENTITY], trp_error *error);

/* Does the same without loading NVRTC; false: unknown. */
bool trp__nvrtc_look(char out[TRP__NVRTC_IDENTITY]);

#endif

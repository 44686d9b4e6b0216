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

/* "13.0". */
void trp__nvrtc_version(const trp__nvrtc *lib, char *out, size_t size);

/* The file that it is loaded from, or would be. `path` has PATH_MAX bytes. */
bool trp__nvrtc_find(char *path);

/* Room for the identity of any compiler, with its end. */
enum { TRP__NVRTC_IDENTITY = 512 };

/* Which build of NVRTC compiles here, as text: the build IDs of NVRTC and of its builtins beside
 * it. Read from the files that trp__nvrtc_load() would take; NVRTC is loaded only where that can't
 * be told. So it is a good guess until NVRTC is loaded, and true from then on. Any thread. The
 * errors of trp__nvrtc_load(). */
trp_status trp__nvrtc_identity(char out[TRP__NVRTC_IDENTITY], trp_error *error);

/* The same as far as it can be told without loading it; false: it can't. */
bool trp__nvrtc_look(char out[TRP__NVRTC_IDENTITY]);

#endif

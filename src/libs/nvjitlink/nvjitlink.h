/* nvJitLink, opened at run time. */
#ifndef TRP_LIBS_NVJITLINK_H
#define TRP_LIBS_NVJITLINK_H

#include "driver/toolkit.h"
#include "libs/nvjitlink/nvjitlink_abi.h"

#include <troupe/status.h>

/* The loaded functions, called by their exported names. */
typedef struct trp__nvjitlink {
    TRP__NVJITLINK_FUNCTIONS(TRP__TOOLKIT_MEMBER)
} trp__nvjitlink;

TRP__TOOLKIT_DECLARE(trp__nvjitlink);

/* Buffer size for the identity of any linker. */
enum { TRP__NVJITLINK_IDENTITY = 192 };

/* Identifies the build of nvJitLink as text: the loaded one, or else the file that would be loaded,
 * if its build ID can be read. Any thread. The errors of trp__nvjitlink_load(). */
trp_status trp__nvjitlink_identity(char out[TRP__NVJITLINK_IDENTITY], trp_error *error);

/* Writes the version: "13.0". */
void trp__nvjitlink_version(const trp__nvjitlink *lib, char *out, size_t size);

#endif

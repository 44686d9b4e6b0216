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

/* "13.0". */
/* Room for the identity of any linker, with its end. */
enum { TRP__NVJITLINK_IDENTITY = 192 };

/* Which build of nvJitLink links here, as text: of the one that is loaded; before that, of the file
 * that would be, if it says so. Any thread. The errors of trp__nvjitlink_load(). */
trp_status trp__nvjitlink_identity(char out[TRP__NVJITLINK_IDENTITY], trp_error *error);

void trp__nvjitlink_version(const trp__nvjitlink *lib, char *out, size_t size);

#endif

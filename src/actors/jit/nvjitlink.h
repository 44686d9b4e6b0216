/* nvJitLink, opened at run time. */
#ifndef TRP_ACTORS_JIT_NVJITLINK_H
#define TRP_ACTORS_JIT_NVJITLINK_H

#include "actors/jit/nvjitlink_abi.h"
#include "driver/toolkit.h"

#include <troupe/status.h>

/* The loaded functions, called by their exported names. */
typedef struct trp__nvjitlink {
    TRP__NVJITLINK_FUNCTIONS(TRP__TOOLKIT_MEMBER)
} trp__nvjitlink;

TRP__TOOLKIT_DECLARE(trp__nvjitlink);

/* "13.0". */
void trp__nvjitlink_version(const trp__nvjitlink *lib, char *out, size_t size);

#endif

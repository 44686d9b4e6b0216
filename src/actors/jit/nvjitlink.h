/* nvJitLink, opened at run time. */
#ifndef TRP_ACTORS_JIT_NVJITLINK_H
#define TRP_ACTORS_JIT_NVJITLINK_H

#include "actors/jit/nvjitlink_abi.h"

#include <troupe/status.h>

/* The loaded functions, called by their exported names. */
typedef struct trp__nvjitlink {
#define TRP__NVJITLINK_MEMBER(result, name, parameters, required) result(*name) parameters;
    TRP__NVJITLINK_FUNCTIONS(TRP__NVJITLINK_MEMBER)
#undef TRP__NVJITLINK_MEMBER
} trp__nvjitlink;

/* Opens nvJitLink, once per process and for its whole life; after a failure the next call tries
 * again. Any thread. TRP_E_MISSING says in `error` what to install. */
trp_status trp__nvjitlink_load(const trp__nvjitlink **out, trp_error *error);

/* The file that nvJitLink was loaded from; empty before trp__nvjitlink_load() has succeeded. */
const char *trp__nvjitlink_path(void);

/* "13.0". */
void trp__nvjitlink_version(const trp__nvjitlink *lib, char *out, size_t size);

#endif

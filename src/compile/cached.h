/* The kernel cache around a compile: finds the result of an earlier compile, or stores a new
 * one. */
#ifndef TRP_COMPILE_CACHED_H
#define TRP_COMPILE_CACHED_H

#include "cache/key.h"
#include "compile/make.h"

/* Makes a result that is not cached. *keep: whether it may be cached. */
typedef trp_status (*trp__jit_make_function)(void *context, trp__jit_made *made, bool *keep,
                                             trp_error *error);

/* Fills image, log and names of `made` from the cache, or has make() make them, in one thread of
 * all processes at a time (unless that one takes minutes), and stores them. Trouble with the cache
 * only logs a warning. TRP_E_CANCELLED: `stop` became true while another process was making it. */
trp_status trp__jit_find_or_make(const trp__key *key, const trp__jit_stop *stop,
                                 trp__jit_make_function make, void *context, trp__jit_made *made,
                                 trp_error *error);

/* Finds a cached result without making one. */
bool trp__jit_find_cached(const trp__key *key, trp__jit_made *made);

/* The compilers that made the entries of this process's packs, as fields of keys name them; NULL
 * behind the last. */
const char *trp__jit_packed_compiler(size_t i);

#endif

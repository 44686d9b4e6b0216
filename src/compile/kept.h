/* Compiles that were done before, by any process of this user: the kernel cache around a compile.
 */
#ifndef TRP_COMPILE_KEPT_H
#define TRP_COMPILE_KEPT_H

#include "cache/key.h"
#include "compile/make.h"

/* Makes what is not there. *keep: whether it may be kept. */
typedef trp_status (*trp__jit_maker_function)(void *context, trp__jit_made *made, bool *keep,
                                              trp_error *error);

/* Fills image, log and names of `made` from the cache; or has them made, by one thread of all
 * processes at a time (unless that one takes minutes), and keeps them. What goes wrong with the
 * cache goes unnoticed but for a warning. TRP_E_CANCELLED: `stop` said so while another one was at
 * it. */
trp_status trp__jit_keep(const trp__key *key, const trp__jit_stop *stop,
                         trp__jit_maker_function make, void *context, trp__jit_made *made,
                         trp_error *error);

/* The same where nothing can be made: whether it was there. */
bool trp__jit_find_kept(const trp__key *key, trp__jit_made *made);

/* The compilers that have made what is in the packs of this process, as fields of keys have them;
 * NULL behind the last. */
const char *trp__jit_packed_compiler(size_t i);

#endif

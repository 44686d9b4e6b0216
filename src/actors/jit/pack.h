/* What the files of the sender's side share. */
#ifndef TRP_ACTORS_JIT_PACK_H
#define TRP_ACTORS_JIT_PACK_H

#include "actors/jit/jit_wire.h"
#include "compile/modules/module.h"

/* TRP_E_ARGUMENT: too many, or one is NULL or empty. Adds what they take as blobs to *bytes. */
trp_status trp__jit_check_strings(trp__pack *pack, const trp__jit_strings *list, uint64_t *bytes);

/* Whether it is "sm_" or, if they will do, "compute_", with two or three digits and perhaps an a or
 * f behind it. */
bool trp__jit_is_architecture(const char *text, bool virtual_too);

/* "sm_90a" and the like from what a request says; `out` has 32 bytes. `virtual_too`: whether
 * "compute_90" will do. */
trp_status trp__jit_architecture(trp__pack *pack, const char *wish, bool virtual_too, char *out);

/* Room for the output, as a request wishes it. */
trp_status trp__jit_output_room(trp__pack *pack, uint64_t wish, uint64_t *bytes);

/* The number of a kernel among the names of a module. */
trp_status trp__jit_find_kernel(trp__pack *pack, const trp__module_place *place, const char *kernel,
                                uint32_t *name);

/* TRP_E_UNSUPPORTED on the host: `what` needs a GPU. */
trp_status trp__jit_need_gpu(trp__pack *pack, const char *what);

#endif

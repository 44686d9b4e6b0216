/* Functions shared by the files of the sender's side. */
#ifndef TRP_ACTORS_JIT_ENCODE_H
#define TRP_ACTORS_JIT_ENCODE_H

#include "actors/jit/jit_wire.h"
#include "compile/modules/module.h"

/* Checks a list of strings, and adds their size as blobs to *bytes. TRP_E_ARGUMENT: there are too
 * many, or one is NULL or empty. */
trp_status trp__jit_check_strings(trp__encoder *encoder, const trp__jit_strings *list,
                                  uint64_t *bytes);

/* Returns whether a text names an architecture: "sm_" or, with `virtual_too`, "compute_", then two
 * or three digits and perhaps "a" or "f". */
bool trp__jit_is_architecture(const char *text, bool virtual_too);

/* Writes the architecture that a request means, such as "sm_90a", to `out`, which has 32 bytes.
 * NULL, "a" and "f" are completed from the GPU. */
trp_status trp__jit_architecture(trp__encoder *encoder, const char *requested, bool virtual_too,
                                 char *out);

/* Determines the room for the output; `requested` 0 stands for the default. */
trp_status trp__jit_output_room(trp__encoder *encoder, uint64_t requested, uint64_t *bytes);

/* Finds the number of a kernel among the names of a module. */
trp_status trp__jit_find_kernel(trp__encoder *encoder, const trp__module_layout *layout,
                                const char *kernel, uint32_t *name);

/* Returns TRP_E_UNSUPPORTED on the host, since `what` needs a GPU. */
trp_status trp__jit_need_gpu(trp__encoder *encoder, const char *what);

#endif

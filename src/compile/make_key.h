/* A compile as encoded, and the key of its result in the kernel cache. */
#ifndef TRP_COMPILE_MAKE_KEY_H
#define TRP_COMPILE_MAKE_KEY_H

#include "cache/key.h"
#include "compile/headers.h"
#include "compile/input.h"
#include "compile/make.h"

#include <troupe/jit.h>

typedef struct trp__jit_compile_input {
    const trp__jit_stop *stop;
    trp__jit_compile_head head;
    const char *source, *name, *architecture;
    const char *options[TRP_JIT_OPTIONS_MAX], *includes[TRP_JIT_OPTIONS_MAX],
        *names[TRP_JIT_OPTIONS_MAX];
    const char *header_names[TRP_JIT_OPTIONS_MAX], *header_texts[TRP_JIT_OPTIONS_MAX];
    char *include_options[TRP_JIT_OPTIONS_MAX];
    char architecture_option[64];
    char *placed_source, *placed_name;
} trp__jit_compile_input;

/* Returns the prefix of a kind of header in keys and lists. */
const char *trp__jit_found_text(trp__jit_found kind);

/* Tells whether the result may be used wherever the folders of headers lie, as the request says.
 * Only images can be checked for paths: PTX has texts as lists of numbers. */
bool trp__jit_is_portable(const trp__jit_compile_input *c);

/* Makes the key: everything that the result depends on. The caller ends it. */
void trp__jit_make_key(const char *compiler, const trp__jit_compile_input *c,
                       const trp__jit_headers *headers, trp__key *key);

#endif

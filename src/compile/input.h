/* The input of a compile or a link: a head, then *blobs*: 8 bytes of length, then the bytes, padded
 * to a multiple of 8. Text includes its terminating zero. blobs.h reads them. */
#ifndef TRP_COMPILE_INPUT_H
#define TRP_COMPILE_INPUT_H

#include "compile/modules/storage.h"

#include <stdint.h>

/* A compile: this head, then as blobs source, name, architecture, options, include paths, headers
 * (name, text), names. */
typedef struct trp__jit_compile_head {
    uint32_t options, includes, headers, names;
    uint32_t output;   /* trp_jit_output */
    uint32_t portable; /* 0 or 1 */
} trp__jit_compile_head;

/* A link: this head, then as blobs architecture, options, names, and for each input a
 * trp__jit_link_input, its name, and its data, which is empty for a module. */
typedef struct trp__jit_link_head {
    uint32_t options, names, inputs;
    uint32_t output;
    uint32_t lto;
    uint32_t reserved;
} trp__jit_link_head;

typedef struct trp__jit_link_input {
    uint32_t module; /* 1: `storage` is that of a module */
    uint32_t kind;   /* trp_jit_input_kind */
    trp__storage storage;
    uint32_t names; /* number of the module's names, as blobs behind its data */
    uint32_t reserved;
} trp__jit_link_input;

/* Prefix of a variable given by its index among the module's names: "#3". */
#define TRP__JIT_NUMBERED '#'

static inline uint64_t trp__jit_padded(uint64_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

/* Bytes of a blob with its length and padding. */
static inline uint64_t trp__jit_blob_bytes(uint64_t bytes)
{
    return 8 + trp__jit_padded(bytes);
}

/* A list of strings of an input. */
typedef struct trp__jit_strings {
    const char *what; /* for messages: "options" */
    const char *const *item;
    uint32_t count;
} trp__jit_strings;

/* Write blobs into a buffer that is large enough; return the end. */
char *trp__jit_put(char *at, const void *data, uint64_t bytes);
char *trp__jit_put_string(char *at, const char *text);
char *trp__jit_put_strings(char *at, const trp__jit_strings *list);

#endif

/* Keys of the kernel cache: everything that can change a result, as bytes that mean just one thing.
 *
 * A key is a list of fields: tag (4 bytes), length (4 bytes), content; little-endian. The order of
 * fields counts, and a field may come more than once. The first is always the format's version.
 * Keys are compared whole; their hash only finds them. docs/cache-format.md has the bytes. */
#ifndef TRP_CACHE_KEY_H
#define TRP_CACHE_KEY_H

#include "cache/hash.h"

#include <troupe/status.h>

/* Version of the meaning of keys and entries. A key of another version is another key. */
#define TRP__KEY_VERSION 2u

/* The kinds of what searches of the matmul and the cutlass actor have found, of plans of the dnn
 * actor and of verdicts of proofs, for those who look for it by itself. */
#define TRP__KIND_MATMUL_TUNING  "matmul tuning"
#define TRP__KIND_MATMUL_PROOF   "matmul proof"
#define TRP__KIND_CUTLASS_TUNING "cutlass tuning"
#define TRP__KIND_DNN_PLAN       "dnn plan"
#define TRP__KIND_DNN_ENGINE     "dnn engine"

/* No key is longer: sources and all. */
#define TRP__KEY_BYTES_MAX (UINT32_C(64) << 20)

/* FIELD(name, tag, text): text is for people. Tags are part of the format: append only. */
#define TRP__KEY_FIELDS(FIELD)                                                                     \
    FIELD(FORMAT, 1, "format")         /* the version, 4 bytes; added by begin() */                \
    FIELD(KIND, 2, "kind")             /* "jit", "matmul tuning", ...: whose key it is */          \
    FIELD(NAME, 3, "name")             /* what people call it: the source's name */                \
    FIELD(SOURCE, 4, "source")         /* the whole text */                                        \
    FIELD(OPTION, 5, "option")         /* one of the compiler's options; in order */               \
    FIELD(EXPRESSION, 6, "expression") /* one name expression; in order */                         \
    FIELD(TARGET, 7, "target")         /* "sm_90a" */                                              \
    FIELD(OUTPUT, 8, "output")         /* "cubin", "ptx", "ltoir" */                               \
    FIELD(COMPILER, 9, "compiler")     /* its name and build, as text */                           \
    FIELD(INPUT, 10, "input")          /* another input, whole or as a hash: what is linked */     \
    FIELD(SETTING, 11, "setting")      /* "name=value", whatever else counts */                    \
    FIELD(HEADER, 12, "header")        /* name, a zero byte, 32 bytes: the content's hash */

typedef enum trp__key_tag {
#define FIELD(name, tag, text) TRP__KEY_##name = tag,
    TRP__KEY_FIELDS(FIELD)
#undef FIELD
} trp__key_tag;

/* Zero-initialised, then trp__key_begin(). Not to be copied by assignment. Reading one is
 * thread-safe, adding to one is not. */
typedef struct trp__key {
    unsigned char *bytes;
    size_t length, room;
    trp__hasher hasher;
    trp_status status; /* the first error of what was added; all look-ups give it */
} trp__key;

/* Begins a key of this kind. */
void trp__key_begin(trp__key *key, const char *kind);

/* Adds a field. An error (TRP_E_MEMORY; TRP_E_ARGUMENT: the key is too long) is kept in
 * key->status, so that a key can be built without a look at each step. */
void trp__key_add(trp__key *key, trp__key_tag tag, const void *content, size_t bytes);
void trp__key_add_text(trp__key *key, trp__key_tag tag, const char *text);

/* Adds a header that was read: the name under which it was asked for, and its content's hash. */
void trp__key_add_header(trp__key *key, const char *name, const trp__hash *content);

/* Makes *out the same as `key`, to add to it. */
void trp__key_copy(const trp__key *key, trp__key *out);

trp__hash trp__key_hash(const trp__key *key);

/* Frees its memory; it is zero then. */
void trp__key_end(trp__key *key);

/* Reading. */

typedef struct trp__key_field {
    uint32_t tag;
    const unsigned char *content;
    size_t bytes;
} trp__key_field;

/* The field that begins at *at (0 first), which is moved on. False: there is no further one, or the
 * bytes are no key. */
bool trp__key_next(const void *key, size_t length, size_t *at, trp__key_field *out);

/* Whether these bytes are fields from end to end, the first of them this format's. */
bool trp__key_is_valid(const void *key, size_t length);

/* The first field with this tag. */
bool trp__key_find(const void *key, size_t length, uint32_t tag, trp__key_field *out);

/* "option"; "field" for a tag that is not known. */
const char *trp__key_tag_text(uint32_t tag);

/* Equal for keys of the same kind and name: what explain() looks among. */
uint64_t trp__key_subject(const void *key, size_t length);

#endif

/* Keys of the kernel cache: everything that can change a result, encoded unambiguously.
 *
 * A key is a list of fields: tag (4 bytes), length (4 bytes), content; little-endian. Order
 * matters, and a tag may repeat. The first field is the format's version. Keys are compared whole;
 * a hash only locates them. docs/cache-format.md describes the bytes. */
#ifndef TRP_CACHE_KEY_H
#define TRP_CACHE_KEY_H

#include "cache/hash.h"

#include <troupe/status.h>

/* Version of keys and entries. Keys of different versions never match. */
#define TRP__KEY_VERSION 2u

/* Kinds of keys that other code looks for: tuning records and proofs of the matmul and cutlass
 * actors, proofs of the fft actor, plans and engines of the dnn actor. */
#define TRP__KIND_MATMUL_TUNING  "matmul tuning"
#define TRP__KIND_MATMUL_PROOF   "matmul proof"
#define TRP__KIND_CUTLASS_TUNING "cutlass tuning"
#define TRP__KIND_CUTLASS_PROOF  "cutlass proof"
#define TRP__KIND_FFT_PROOF      "fft proof"
#define TRP__KIND_DNN_PLAN       "dnn plan"
#define TRP__KIND_DNN_ENGINE     "dnn engine"

/* The largest key, sources included. */
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

/* Zero-initialise, then call trp__key_begin(); do not copy by assignment. Reading is thread-safe,
 * adding is not. */
typedef struct trp__key {
    unsigned char *bytes;
    size_t length, room;
    trp__hasher hasher;
    trp_status status; /* the first error of an addition; every look-up returns it */
} trp__key;

/* Begins a key of this kind. */
void trp__key_begin(trp__key *key, const char *kind);

/* Adds a field. An error (TRP_E_MEMORY; TRP_E_ARGUMENT: the key is too long) is recorded in
 * key->status, so callers check once at the end. */
void trp__key_add(trp__key *key, trp__key_tag tag, const void *content, size_t bytes);
void trp__key_add_text(trp__key *key, trp__key_tag tag, const char *text);

/* Adds a header: the name it was included by, and the hash of its content. */
void trp__key_add_header(trp__key *key, const char *name, const trp__hash *content);

/* Makes *out an independent copy. */
void trp__key_copy(const trp__key *key, trp__key *out);

trp__hash trp__key_hash(const trp__key *key);

/* Frees the key's memory and zeroes it. */
void trp__key_end(trp__key *key);

/* Reading. */

typedef struct trp__key_field {
    uint32_t tag;
    const unsigned char *content;
    size_t bytes;
} trp__key_field;

/* Reads the field at *at (initially 0) and advances. False: no further field, or the bytes are no
 * key. */
bool trp__key_next(const void *key, size_t length, size_t *at, trp__key_field *out);

/* Tells whether the bytes are a complete list of fields, the first one this format's version. */
bool trp__key_is_valid(const void *key, size_t length);

/* Finds the first field with this tag. */
bool trp__key_find(const void *key, size_t length, uint32_t tag, trp__key_field *out);

/* Returns the tag's name as text: "option"; "field" for an unknown tag. */
const char *trp__key_tag_text(uint32_t tag);

/* Returns a checksum of kind and name: explanations compare keys with the same one. */
uint64_t trp__key_subject(const void *key, size_t length);

#endif

/* The hash of the kernel cache: BLAKE2b with 256 bits (RFC 7693). It names entries and stands for
 * the content of headers: two different inputs must not meet. What finds damage, and nothing else,
 * is trp__checksum(). */
#ifndef TRP_CACHE_HASH_H
#define TRP_CACHE_HASH_H

#include "base/checksum.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRP__HASH_BYTES 32

/* Enough for trp__hash_text(). */
#define TRP__HASH_TEXT (2 * TRP__HASH_BYTES + 1)

typedef struct trp__hash {
    unsigned char byte[TRP__HASH_BYTES];
} trp__hash;

/* A hash that is fed piece by piece. A copy of it goes on by itself. */
typedef struct trp__hasher {
    uint64_t h[8];
    uint64_t count; /* bytes that were mixed in */
    unsigned char block[128];
    size_t held; /* bytes of block */
} trp__hasher;

void trp__hasher_begin(trp__hasher *hasher);
void trp__hasher_add(trp__hasher *hasher, const void *data, size_t bytes);

/* The hash of all that was added; more may be added afterwards. */
trp__hash trp__hasher_value(const trp__hasher *hasher);

trp__hash trp__hash_of(const void *data, size_t bytes);

bool trp__hash_equal(const trp__hash *a, const trp__hash *b);

/* All zero, which stands for "no such thing". */
bool trp__hash_is_none(const trp__hash *hash);

/* 64 hexadecimal digits and the end. */
void trp__hash_text(const trp__hash *hash, char text[TRP__HASH_TEXT]);

/* Reads 64 lower-case hexadecimal digits. False if there is anything else. */
bool trp__hash_parse(const char *text, size_t length, trp__hash *out);

/* The hash of a file's content. False: it is not there, no regular file, or can't be read. */
bool trp__hash_file(const char *path, trp__hash *out);

#endif

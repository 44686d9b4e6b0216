/* The hash of the kernel cache: BLAKE2b with 256 bits (RFC 7693). It names entries and stands for
 * the content of headers, so it must be free of collisions. trp__checksum() only detects damage. */
#ifndef TRP_CACHE_HASH_H
#define TRP_CACHE_HASH_H

#include "base/checksum.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRP__HASH_BYTES 32

/* Buffer size for trp__hash_text(). */
#define TRP__HASH_TEXT (2 * TRP__HASH_BYTES + 1)

typedef struct trp__hash {
    unsigned char byte[TRP__HASH_BYTES];
} trp__hash;

/* An incremental hash. A copy continues independently. */
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

/* Writes 64 hexadecimal digits and a terminating zero. */
void trp__hash_text(const trp__hash *hash, char text[TRP__HASH_TEXT]);

/* Parses exactly 64 lower-case hexadecimal digits. */
bool trp__hash_parse(const char *text, size_t length, trp__hash *out);

#endif

/* The bytes of one entry of the kernel cache, in a file of its own or in a pack: head, key, note,
 * payload. docs/cache-format.md describes each byte. */
#ifndef TRP_CACHE_ENTRY_H
#define TRP_CACHE_ENTRY_H

#include "cache/hash.h"

#include <troupe/status.h>

#include <stddef.h>
#include <stdint.h>

#define TRP__ENTRY_HEAD    128u
#define TRP__ENTRY_ALIGN   64u /* of the payload */
#define TRP__ENTRY_VERSION 1u

/* The largest entry. */
#define TRP__ENTRY_BYTES_MAX (UINT64_C(1) << 30)

typedef enum trp__entry_type {
    TRP__ENTRY_PAYLOAD = 1, /* full key: the result itself */
    TRP__ENTRY_HEADERS = 2, /* request key: the headers that were read (cache/headers.h) */
} trp__entry_type;

typedef struct trp__entry {
    uint32_t type;
    uint64_t made;    /* seconds since 1970 */
    uint64_t subject; /* trp__key_subject() */
    trp__hash hash;   /* of the key */
    size_t key_bytes, note_bytes, bytes;
    size_t note_at, payload_at; /* offsets from the beginning */
    size_t size;                /* total */
    uint64_t front_sum, payload_sum;
    const unsigned char *key, *note, *payload; /* NULL until read */
} trp__entry;

/* Makes everything in front of the payload, in memory that the caller frees, and completes *entry.
 * Inputs: type, and key, note and payload with their sizes. TRP_E_ARGUMENT: too long.
 * TRP_E_MEMORY. */
trp_status trp__entry_make(trp__entry *entry, unsigned char **front, trp_error *error);

/* Reads in three steps. Each returns NULL or what is wrong. The first takes the TRP__ENTRY_HEAD
 * bytes of the head and the size of the whole entry, the second the payload_at bytes in front of
 * the payload, the third the whole entry. */
const char *trp__entry_read_head(const unsigned char *bytes, uint64_t size, trp__entry *out);
const char *trp__entry_read_front(const unsigned char *bytes, trp__entry *entry);
const char *trp__entry_read_payload(const unsigned char *bytes, trp__entry *entry);

/* All three steps. */
const char *trp__entry_read(const unsigned char *bytes, uint64_t size, trp__entry *out);

#endif

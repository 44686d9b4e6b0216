/* The bytes of one entry of the kernel cache, in a file of its own or inside a pack: a head, the
 * key, a note, the payload. docs/cache-format.md has them one by one. */
#ifndef TRP_CACHE_ENTRY_H
#define TRP_CACHE_ENTRY_H

#include "cache/hash.h"

#include <troupe/status.h>

#include <stddef.h>
#include <stdint.h>

#define TRP__ENTRY_HEAD    128u
#define TRP__ENTRY_ALIGN   64u /* of the payload */
#define TRP__ENTRY_VERSION 1u

/* No entry is longer. */
#define TRP__ENTRY_BYTES_MAX (UINT64_C(1) << 30)

typedef enum trp__entry_type {
    TRP__ENTRY_PAYLOAD = 1, /* of a full key: what was asked for */
    TRP__ENTRY_HEADERS = 2, /* of a request key: the headers that were read (cache/headers.h) */
} trp__entry_type;

typedef struct trp__entry {
    uint32_t type;
    uint64_t made;    /* seconds since 1970 */
    uint64_t subject; /* trp__key_subject() */
    trp__hash hash;   /* of the key */
    size_t key_bytes, note_bytes, bytes;
    size_t note_at, payload_at; /* from the beginning */
    size_t size;                /* of all */
    uint64_t front_sum, payload_sum;
    const unsigned char *key, *note, *payload; /* NULL as far as they were not read */
} trp__entry;

/* What precedes the payload, in memory that the caller frees; *entry describes the whole. key, note
 * and payload, their sizes, and type are the input. TRP_E_ARGUMENT: too long. TRP_E_MEMORY. */
trp_status trp__entry_make(trp__entry *entry, unsigned char **front, trp_error *error);

/* Reading, in three steps, each of which gives NULL or says what is wrong. The first takes the
 * TRP__ENTRY_HEAD bytes of the head and the number of bytes that the entry has in all; the second
 * the payload_at bytes before the payload; the third all. */
const char *trp__entry_read_head(const unsigned char *bytes, uint64_t size, trp__entry *out);
const char *trp__entry_read_front(const unsigned char *bytes, trp__entry *entry);
const char *trp__entry_read_payload(const unsigned char *bytes, trp__entry *entry);

/* All three. */
const char *trp__entry_read(const unsigned char *bytes, uint64_t size, trp__entry *out);

#endif

/* The payload of an entry of type TRP__ENTRY_HEADERS: the sets of headers that compiles of one
 * request key have read, newest first. docs/cache-format.md describes the bytes. */
#ifndef TRP_CACHE_HEADERS_H
#define TRP_CACHE_HEADERS_H

#include "cache/hash.h"
#include "cache/store.h"

#include <troupe/status.h>

#include <stdint.h>

/* Limits of one list; the oldest sets are dropped. */
#define TRP__HEADER_SETS_MAX 16u
#define TRP__HEADERS_MAX     65536u

/* A parsed list. It points into the bytes. */
typedef struct trp__header_list {
    uint32_t count; /* distinct headers */
    struct trp__header_name {
        const char *name, *path;
    } * header;
    uint32_t set_count;
    struct trp__header_set {
        uint32_t count;
        const unsigned char *members;
    } set[TRP__HEADER_SETS_MAX];
} trp__header_list;

/* Parses a list. False: the bytes are no list, or there is no memory. */
bool trp__headers_read(const unsigned char *bytes, size_t size, trp__header_list *out);
void trp__headers_end(trp__header_list *list);

/* Returns a member's index into list->header, and the hash of its content. */
uint32_t trp__headers_member(const struct trp__header_set *set, uint32_t i, trp__hash *content);

/* Makes a list of this set followed by those of `old`, which may be NULL. The caller frees *bytes.
 * TRP_E_ARGUMENT: too many headers. TRP_E_MEMORY. */
trp_status trp__headers_make(const trp__store_header *headers, size_t count,
                             const trp__header_list *old, unsigned char **bytes, size_t *size,
                             trp_error *error);

/* Makes the full key of an entry: the request key, and for a request with resolve its headers. The
 * caller ends *full, also after an error. */
trp_status trp__headers_full_key(const trp__store_request *request, const trp__store_entry *entry,
                                 trp__key *full, trp_error *error);

#endif

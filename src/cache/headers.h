/* What an entry of type TRP__ENTRY_HEADERS has as its payload: the sets of headers that compiles of
 * one request key have read, the last one first. docs/cache-format.md has the bytes. */
#ifndef TRP_CACHE_HEADERS_H
#define TRP_CACHE_HEADERS_H

#include "cache/hash.h"
#include "cache/store.h"

#include <troupe/status.h>

#include <stdint.h>

/* Of one list; the oldest set goes. */
#define TRP__HEADER_SETS_MAX 16u
#define TRP__HEADERS_MAX     65536u

/* A list that was read. It points into the bytes. */
typedef struct trp__header_list {
    uint32_t count; /* of different headers */
    struct trp__header_name {
        const char *name, *path;
    } * header;
    uint32_t set_count;
    struct trp__header_set {
        uint32_t count;
        const unsigned char *members;
    } set[TRP__HEADER_SETS_MAX];
} trp__header_list;

/* False: the bytes are no list, or there is no memory. */
bool trp__headers_read(const unsigned char *bytes, size_t size, trp__header_list *out);
void trp__headers_end(trp__header_list *list);

/* Which header a member of a set is, an index into list->header, and its content. */
uint32_t trp__headers_member(const struct trp__header_set *set, uint32_t i, trp__hash *content);

/* The bytes of a list that has this set first and the others of `old`, which may be NULL, behind
 * it. The caller frees them. TRP_E_ARGUMENT: too many headers. TRP_E_MEMORY. */
trp_status trp__headers_make(const trp__store_header *headers, size_t count,
                             const trp__header_list *old, unsigned char **bytes, size_t *size,
                             trp_error *error);

#endif

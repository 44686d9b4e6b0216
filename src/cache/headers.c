#include "cache/headers.h"

#include "base/error.h"
#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

/* Layout: number of headers, number of sets; for each header the lengths of name and path, then
 * both with their terminating zeros; for each set the number of members, each an index and a
 * hash. */
enum { LIST_HEAD = 8, HEADER_HEAD = 8, SET_HEAD = 4, MEMBER = 4 + TRP__HASH_BYTES };

/* Reading. */

/* Consumes `bytes` of the input. NULL: fewer are left. */
static const unsigned char *take(const unsigned char **at, size_t *left, size_t bytes)
{
    const unsigned char *from = *at;
    if (bytes > *left)
        return NULL;
    *at += bytes;
    *left -= bytes;
    return from;
}

static const char *take_string(const unsigned char **at, size_t *left, size_t bytes)
{
    const unsigned char *from = bytes > 0 ? take(at, left, bytes) : NULL;
    return from && memchr(from, '\0', bytes) == from + bytes - 1 ? (const char *)from : NULL;
}

static bool read_headers(const unsigned char **at, size_t *left, trp__header_list *out)
{
    for (uint32_t i = 0; i < out->count; i++) {
        const unsigned char *head = take(at, left, HEADER_HEAD);
        if (!head)
            return false;
        out->header[i].name = take_string(at, left, trp__get32(head));
        if (out->header[i].name)
            out->header[i].path = take_string(at, left, trp__get32(head + 4));
        if (!out->header[i].path)
            return false;
    }
    return true;
}

static bool read_sets(const unsigned char **at, size_t *left, trp__header_list *out)
{
    for (uint32_t i = 0; i < out->set_count; i++) {
        struct trp__header_set *set = &out->set[i];
        const unsigned char *head = take(at, left, SET_HEAD);
        if (!head)
            return false;
        set->count = trp__get32(head);
        set->members =
            set->count <= TRP__HEADERS_MAX ? take(at, left, (size_t)set->count * MEMBER) : NULL;
        if (!set->members)
            return false;
        for (uint32_t j = 0; j < set->count; j++) {
            if (trp__get32(set->members + (size_t)j * MEMBER) >= out->count)
                return false;
        }
    }
    return *left == 0;
}

bool trp__headers_read(const unsigned char *bytes, size_t size, trp__header_list *out)
{
    *out = (trp__header_list){0};
    const unsigned char *head = take(&bytes, &size, LIST_HEAD);
    if (!head)
        return false;
    out->count = trp__get32(head);
    out->set_count = trp__get32(head + 4);
    if (out->count > TRP__HEADERS_MAX || out->set_count > TRP__HEADER_SETS_MAX ||
        out->count > size / HEADER_HEAD)
        return false;
    out->header = calloc(out->count + 1u, sizeof *out->header);
    if (out->header && read_headers(&bytes, &size, out) && read_sets(&bytes, &size, out))
        return true;
    trp__headers_end(out);
    return false;
}

void trp__headers_end(trp__header_list *list)
{
    free(list->header);
    *list = (trp__header_list){0};
}

uint32_t trp__headers_member(const struct trp__header_set *set, uint32_t i, trp__hash *content)
{
    const unsigned char *member = set->members + (size_t)i * MEMBER;
    memcpy(content->byte, member + 4, sizeof content->byte);
    return trp__get32(member);
}

/* Writing. A hash table, keyed by name and path, collects the distinct headers. */

typedef struct table {
    struct trp__header_name *header;
    uint32_t count, room;
    uint32_t *slot; /* 1 + index, by hash; `slots` of them, a power of two */
    uint32_t slots;
} table;

/* Returns the index of a header, adding it if it is new. The table has room. */
static uint32_t index_of(table *t, const char *name, const char *path)
{
    uint64_t sums[2] = {trp__checksum(name, strlen(name)), trp__checksum(path, strlen(path))};
    uint32_t at = (uint32_t)trp__checksum(sums, sizeof sums) & (t->slots - 1);
    for (; t->slot[at]; at = (at + 1) & (t->slots - 1)) {
        const struct trp__header_name *h = &t->header[t->slot[at] - 1];
        if (strcmp(h->name, name) == 0 && strcmp(h->path, path) == 0)
            return t->slot[at] - 1;
    }
    t->header[t->count] = (struct trp__header_name){name, path};
    t->slot[at] = ++t->count;
    return t->count - 1;
}

static bool make_table(table *t, uint32_t room)
{
    t->slots = 16;
    while (t->slots < 2 * room)
        t->slots *= 2;
    t->header = calloc(room + 1u, sizeof *t->header);
    t->slot = calloc(t->slots, sizeof *t->slot);
    return t->header && t->slot;
}

static bool same_set(const trp__store_header *headers, size_t count, const trp__header_list *list,
                     const struct trp__header_set *set)
{
    if (set->count != count)
        return false;
    for (uint32_t i = 0; i < set->count; i++) {
        trp__hash content;
        const char *name = list->header[trp__headers_member(set, i, &content)].name;
        if (strcmp(name, headers[i].name) != 0 || !trp__hash_equal(&content, &headers[i].content))
            return false;
    }
    return true;
}

/* Chooses the newest sets of `old` that fit beside a new one of `count`; returns the number of all
 * members. */
static uint64_t choose(const trp__store_header *headers, size_t count, const trp__header_list *old,
                       bool *stays, uint32_t *sets)
{
    uint64_t members = count;
    *sets = 1;
    for (uint32_t i = 0; old && i < old->set_count; i++) {
        stays[i] = *sets < TRP__HEADER_SETS_MAX &&
                   members + old->set[i].count <= TRP__HEADERS_MAX &&
                   !same_set(headers, count, old, &old->set[i]);
        if (stays[i]) {
            members += old->set[i].count;
            ++*sets;
        }
    }
    return members;
}

static void put_member(unsigned char **to, uint32_t index, const trp__hash *content)
{
    trp__put32(*to, index);
    memcpy(*to + 4, content->byte, sizeof content->byte);
    *to += MEMBER;
}

static void put_sets(unsigned char *to, table *t, const trp__store_header *headers, size_t count,
                     const trp__header_list *old, const bool *stays)
{
    trp__put32(to, (uint32_t)count);
    to += SET_HEAD;
    for (size_t i = 0; i < count; i++)
        put_member(&to, index_of(t, headers[i].name, headers[i].path), &headers[i].content);
    for (uint32_t i = 0; old && i < old->set_count; i++) {
        if (!stays[i])
            continue;
        trp__put32(to, old->set[i].count);
        to += SET_HEAD;
        for (uint32_t j = 0; j < old->set[i].count; j++) {
            trp__hash content;
            const struct trp__header_name *h =
                &old->header[trp__headers_member(&old->set[i], j, &content)];
            put_member(&to, index_of(t, h->name, h->path), &content);
        }
    }
}

/* Fills the table and returns the bytes that its headers take. */
static uint64_t collect(table *t, const trp__store_header *headers, size_t count,
                        const trp__header_list *old, const bool *stays)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        index_of(t, headers[i].name, headers[i].path);
    for (uint32_t i = 0; old && i < old->set_count; i++) {
        for (uint32_t j = 0; stays[i] && j < old->set[i].count; j++) {
            trp__hash content;
            const struct trp__header_name *h =
                &old->header[trp__headers_member(&old->set[i], j, &content)];
            index_of(t, h->name, h->path);
        }
    }
    for (uint32_t i = 0; i < t->count; i++)
        bytes += HEADER_HEAD + strlen(t->header[i].name) + strlen(t->header[i].path) + 2;
    return bytes;
}

static unsigned char *put_headers(unsigned char *to, const table *t)
{
    for (uint32_t i = 0; i < t->count; i++) {
        size_t name = strlen(t->header[i].name) + 1, path = strlen(t->header[i].path) + 1;
        trp__put32(to, (uint32_t)name);
        trp__put32(to + 4, (uint32_t)path);
        memcpy(to + HEADER_HEAD, t->header[i].name, name);
        memcpy(to + HEADER_HEAD + name, t->header[i].path, path);
        to += HEADER_HEAD + name + path;
    }
    return to;
}

trp_status trp__headers_make(const trp__store_header *headers, size_t count,
                             const trp__header_list *old, unsigned char **bytes, size_t *size,
                             trp_error *error)
{
    table t = {0};
    bool stays[TRP__HEADER_SETS_MAX] = {0};
    uint32_t sets;
    if (count > TRP__HEADERS_MAX)
        return trp__error_set(error, TRP_E_ARGUMENT, "expected at most %u headers, got %zu",
                              TRP__HEADERS_MAX, count);
    uint64_t members = choose(headers, count, old, stays, &sets), length = 0;
    unsigned char *out = NULL;
    if (make_table(&t, (uint32_t)members)) {
        length = LIST_HEAD + collect(&t, headers, count, old, stays) + sets * (uint64_t)SET_HEAD +
                 members * MEMBER;
        out = malloc((size_t)length);
    }
    if (out) {
        trp__put32(out, t.count);
        trp__put32(out + 4, sets);
        put_sets(put_headers(out + LIST_HEAD, &t), &t, headers, count, old, stays);
        *bytes = out;
        *size = (size_t)length;
    }
    free(t.header);
    free(t.slot);
    return out ? TRP_OK : trp__error_set(error, TRP_E_MEMORY, "no memory for a list of headers");
}

trp_status trp__headers_full_key(const trp__store_request *request, const trp__store_entry *entry,
                                 trp__key *full, trp_error *error)
{
    trp__key_copy(request->key, full);
    for (size_t i = 0; request->resolve && i < entry->header_count; i++)
        trp__key_add_header(full, entry->headers[i].name, &entry->headers[i].content);
    return full->status == TRP_OK
               ? TRP_OK
               : trp__error_set(error, full->status,
                                "the key is too long, or there is no memory for it");
}

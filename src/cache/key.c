#include "cache/key.h"

#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

enum { FIELD_HEAD = 8 };

/* Building. */

static bool make_room(trp__key *key, size_t bytes)
{
    if (key->status != TRP_OK)
        return false;
    if (bytes > TRP__KEY_BYTES_MAX - key->length) {
        key->status = TRP_E_ARGUMENT;
        return false;
    }
    if (key->length + bytes <= key->room)
        return true;
    size_t room = key->room ? key->room : 1024;
    while (room < key->length + bytes)
        room *= 2;
    unsigned char *larger = realloc(key->bytes, room);
    if (!larger) {
        key->status = TRP_E_MEMORY;
        return false;
    }
    key->bytes = larger;
    key->room = room;
    return true;
}

static void append(trp__key *key, const void *data, size_t bytes)
{
    if (bytes == 0)
        return;
    memcpy(key->bytes + key->length, data, bytes);
    key->length += bytes;
}

/* Appends a field of two parts, each of which may be empty. */
static void add(trp__key *key, trp__key_tag tag, const void *first, size_t first_bytes,
                const void *second, size_t second_bytes)
{
    unsigned char head[FIELD_HEAD];
    size_t at = key->length;
    if (first_bytes > TRP__KEY_BYTES_MAX || second_bytes > TRP__KEY_BYTES_MAX) {
        key->status = key->status != TRP_OK ? key->status : TRP_E_ARGUMENT;
        return;
    }
    if (!make_room(key, FIELD_HEAD + first_bytes + second_bytes))
        return;
    trp__put32(head, (uint32_t)tag);
    trp__put32(head + 4, (uint32_t)(first_bytes + second_bytes));
    append(key, head, sizeof head);
    append(key, first, first_bytes);
    append(key, second, second_bytes);
    trp__hasher_add(&key->hasher, key->bytes + at, key->length - at);
}

void trp__key_add(trp__key *key, trp__key_tag tag, const void *content, size_t bytes)
{
    add(key, tag, content, bytes, NULL, 0);
}

void trp__key_add_text(trp__key *key, trp__key_tag tag, const char *text)
{
    add(key, tag, text, strlen(text), NULL, 0);
}

void trp__key_add_header(trp__key *key, const char *name, const trp__hash *content)
{
    add(key, TRP__KEY_HEADER, name, strlen(name) + 1, content->byte, sizeof content->byte);
}

void trp__key_begin(trp__key *key, const char *kind)
{
    unsigned char version[4];
    key->length = 0;
    key->status = TRP_OK;
    trp__hasher_begin(&key->hasher);
    trp__put32(version, TRP__KEY_VERSION);
    trp__key_add(key, TRP__KEY_FORMAT, version, sizeof version);
    trp__key_add_text(key, TRP__KEY_KIND, kind);
}

void trp__key_copy(const trp__key *key, trp__key *out)
{
    *out = (trp__key){.hasher = key->hasher, .status = key->status};
    if (make_room(out, key->length))
        append(out, key->bytes, key->length);
}

trp__hash trp__key_hash(const trp__key *key)
{
    return trp__hasher_value(&key->hasher);
}

void trp__key_end(trp__key *key)
{
    free(key->bytes);
    memset(key, 0, sizeof *key);
}

/* Reading. */

bool trp__key_next(const void *key, size_t length, size_t *at, trp__key_field *out)
{
    const unsigned char *bytes = key;
    if (*at > length || length - *at < FIELD_HEAD)
        return false;
    size_t size = trp__get32(bytes + *at + 4);
    if (size > length - *at - FIELD_HEAD)
        return false;
    *out = (trp__key_field){trp__get32(bytes + *at), bytes + *at + FIELD_HEAD, size};
    *at += FIELD_HEAD + size;
    return true;
}

bool trp__key_is_valid(const void *key, size_t length)
{
    trp__key_field field;
    size_t at = 0;
    if (length > TRP__KEY_BYTES_MAX || !trp__key_next(key, length, &at, &field) ||
        field.tag != TRP__KEY_FORMAT || field.bytes != 4 ||
        trp__get32(field.content) != TRP__KEY_VERSION)
        return false;
    while (trp__key_next(key, length, &at, &field)) {
        if (field.tag == TRP__KEY_HEADER && (field.bytes <= TRP__HASH_BYTES ||
                                             memchr(field.content, '\0', field.bytes) !=
                                                 field.content + field.bytes - TRP__HASH_BYTES - 1))
            return false;
    }
    return at == length;
}

bool trp__key_find(const void *key, size_t length, uint32_t tag, trp__key_field *out)
{
    for (size_t at = 0; trp__key_next(key, length, &at, out);) {
        if (out->tag == tag)
            return true;
    }
    return false;
}

const char *trp__key_tag_text(uint32_t tag)
{
    switch (tag) {
#define FIELD(name, number, text)                                                                  \
    case number:                                                                                   \
        return text;
        TRP__KEY_FIELDS(FIELD)
#undef FIELD
    default:
        return "field";
    }
}

uint64_t trp__key_subject(const void *key, size_t length)
{
    trp__key_field field;
    uint64_t sums[2] = {0};
    if (trp__key_find(key, length, TRP__KEY_KIND, &field))
        sums[0] = trp__checksum(field.content, field.bytes);
    if (trp__key_find(key, length, TRP__KEY_NAME, &field))
        sums[1] = trp__checksum(field.content, field.bytes);
    return trp__checksum(sums, sizeof sums);
}

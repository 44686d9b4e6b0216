#include "cache/entry.h"

#include "base/error.h"
#include "base/bytes.h"
#include "cache/key.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The first byte is not text; CR, LF and 0x1a reveal a transfer that converts line ends. */
static const unsigned char magic[8] = {0x7f, 'T', 'R', 'P', 'K', '\r', '\n', 0x1a};

/* Offsets of the head's fields. */
enum {
    AT_VERSION = 8,
    AT_TYPE = 12,
    AT_KEY_BYTES = 16,
    AT_NOTE_BYTES = 24,
    AT_PAYLOAD = 32,
    AT_BYTES = 40,
    AT_MADE = 48,
    AT_SUBJECT = 56,
    AT_HASH = 64,
    AT_FRONT_SUM = 96,
    AT_PAYLOAD_SUM = 104,
    AT_RESERVED = 112,
    AT_HEAD_SUM = 120,
};

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* Computes offsets from the sizes of the parts. False: the entry would be too long. */
static bool lay_out(uint64_t key_bytes, uint64_t note_bytes, uint64_t bytes, trp__entry *e)
{
    if (key_bytes > TRP__KEY_BYTES_MAX || note_bytes > TRP__ENTRY_BYTES_MAX ||
        bytes > TRP__ENTRY_BYTES_MAX)
        return false;
    uint64_t note_at = TRP__ENTRY_HEAD + round_up(key_bytes, 8);
    uint64_t payload_at = round_up(note_at + note_bytes, TRP__ENTRY_ALIGN);
    e->key_bytes = (size_t)key_bytes;
    e->note_bytes = (size_t)note_bytes;
    e->bytes = (size_t)bytes;
    e->note_at = (size_t)note_at;
    e->payload_at = (size_t)payload_at;
    e->size = (size_t)(payload_at + bytes);
    return e->size <= TRP__ENTRY_BYTES_MAX;
}

trp_status trp__entry_make(trp__entry *entry, unsigned char **front, trp_error *error)
{
    trp__entry *e = entry;
    if (!lay_out(e->key_bytes, e->note_bytes, e->bytes, e))
        return trp__error_set(error, TRP_E_ARGUMENT,
                              "an entry of the cache has at most %llu bytes, this one has more",
                              (unsigned long long)TRP__ENTRY_BYTES_MAX);
    unsigned char *to = calloc(1, e->payload_at);
    if (!to)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for an entry of the cache");
    memcpy(to + TRP__ENTRY_HEAD, e->key, e->key_bytes);
    if (e->note_bytes > 0)
        memcpy(to + e->note_at, e->note, e->note_bytes);
    e->made = (uint64_t)time(NULL);
    e->subject = trp__key_subject(e->key, e->key_bytes);
    e->hash = trp__hash_of(e->key, e->key_bytes);
    e->front_sum = trp__checksum(to + TRP__ENTRY_HEAD, e->payload_at - TRP__ENTRY_HEAD);
    e->payload_sum = trp__checksum(e->payload, e->bytes);
    memcpy(to, magic, sizeof magic);
    trp__put32(to + AT_VERSION, TRP__ENTRY_VERSION);
    trp__put32(to + AT_TYPE, e->type);
    trp__put64(to + AT_KEY_BYTES, e->key_bytes);
    trp__put64(to + AT_NOTE_BYTES, e->note_bytes);
    trp__put64(to + AT_PAYLOAD, e->payload_at);
    trp__put64(to + AT_BYTES, e->bytes);
    trp__put64(to + AT_MADE, e->made);
    trp__put64(to + AT_SUBJECT, e->subject);
    memcpy(to + AT_HASH, e->hash.byte, sizeof e->hash.byte);
    trp__put64(to + AT_FRONT_SUM, e->front_sum);
    trp__put64(to + AT_PAYLOAD_SUM, e->payload_sum);
    trp__put64(to + AT_HEAD_SUM, trp__checksum(to, AT_HEAD_SUM));
    *front = to;
    return TRP_OK;
}

const char *trp__entry_read_head(const unsigned char *bytes, uint64_t size, trp__entry *out)
{
    *out = (trp__entry){0};
    if (size < TRP__ENTRY_HEAD)
        return "it is cut off";
    if (memcmp(bytes, magic, sizeof magic) != 0)
        return "it is no entry";
    if (trp__get32(bytes + AT_VERSION) != TRP__ENTRY_VERSION)
        return "it is of another version";
    if (trp__get64(bytes + AT_HEAD_SUM) != trp__checksum(bytes, AT_HEAD_SUM))
        return "its head is damaged";
    /* The checksum only excludes accidents: the sizes are checked as well. */
    if (!lay_out(trp__get64(bytes + AT_KEY_BYTES), trp__get64(bytes + AT_NOTE_BYTES),
                 trp__get64(bytes + AT_BYTES), out) ||
        trp__get64(bytes + AT_PAYLOAD) != out->payload_at || trp__get64(bytes + AT_RESERVED) != 0)
        return "its sizes can't be";
    if (out->size != size)
        return out->size > size ? "it is cut off" : "it is longer than it should be";
    out->type = trp__get32(bytes + AT_TYPE);
    out->made = trp__get64(bytes + AT_MADE);
    out->subject = trp__get64(bytes + AT_SUBJECT);
    memcpy(out->hash.byte, bytes + AT_HASH, sizeof out->hash.byte);
    out->front_sum = trp__get64(bytes + AT_FRONT_SUM);
    out->payload_sum = trp__get64(bytes + AT_PAYLOAD_SUM);
    return NULL;
}

const char *trp__entry_read_front(const unsigned char *bytes, trp__entry *entry)
{
    const unsigned char *key = bytes + TRP__ENTRY_HEAD;
    if (trp__checksum(key, entry->payload_at - TRP__ENTRY_HEAD) != entry->front_sum)
        return "its key or note is damaged";
    if (!trp__key_is_valid(key, entry->key_bytes))
        return "its key is none of this version";
    entry->key = key;
    entry->note = bytes + entry->note_at;
    return NULL;
}

const char *trp__entry_read_payload(const unsigned char *bytes, trp__entry *entry)
{
    const unsigned char *payload = bytes + entry->payload_at;
    if (trp__checksum(payload, entry->bytes) != entry->payload_sum)
        return "its payload is damaged";
    entry->payload = payload;
    return NULL;
}

const char *trp__entry_read(const unsigned char *bytes, uint64_t size, trp__entry *out)
{
    const char *wrong = trp__entry_read_head(bytes, size, out);
    if (!wrong)
        wrong = trp__entry_read_front(bytes, out);
    return wrong ? wrong : trp__entry_read_payload(bytes, out);
}

/* Fuzzes what reads the kernel cache: entries, lists of headers, packs.
 *
 * Alone, as a test that mutates good bytes at random, the same ones for the same seed:
 *   cache_test [MUTATIONS [SEED]]     (default TROUPE_TEST_MUTATIONS, else a few thousand)
 *
 * Bytes that are damaged give what they gave before or nothing, never something else: no wrong
 * kernel. Every other mutation gets right checksums afterwards, as if somebody had written it so:
 * of those only sense is asked, that all they say lies inside of them. A broken promise stops the
 * program with abort(); a wrong access is for the sanitizers to see. */
#include "base/bytes.h"
#include "cache/entry.h"
#include "cache/headers.h"
#include "cache/key.h"
#include "cache/pack.h"
#include "support/folder.h"
#include "support/reference/random.h"
#include "support/label.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TROUPE_TEST("no tsan");

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "cache: line %d: not so: %s\n", __LINE__, #condition);                 \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { DEFAULT_MUTATIONS = 40000, ROOM = 1 << 16, IN_PACK = 6 };

typedef struct bytes {
    unsigned char *at;
    size_t size;
} bytes;

static uint64_t rng;
static char folder[PATH_MAX];

/* --- good ones --- */

static trp__key key_of(int n)
{
    char text[64];
    trp__key key = {0};
    trp__hash hash = trp__hash_of(&n, sizeof n);
    snprintf(text, sizeof text, "kernel%d", n);
    trp__key_begin(&key, "jit");
    trp__key_add_text(&key, TRP__KEY_NAME, text);
    trp__key_add_text(&key, TRP__KEY_SOURCE,
                      "extern \"C\" __global__ void k(float *x) { x[0] = 1; }");
    trp__key_add_text(&key, TRP__KEY_OPTION, "-O3");
    if (n % 2)
        trp__key_add_header(&key, "a.h", &hash);
    return key;
}

static size_t payload_of(int n, unsigned char *payload)
{
    size_t size = 40 + 37 * (size_t)n;
    for (size_t i = 0; i < size; i++)
        payload[i] = (unsigned char)(i * 13 + (size_t)n);
    return size;
}

static bytes make_entry(int n)
{
    unsigned char payload[512], *front;
    trp__key key = key_of(n);
    trp__entry e = {.type = TRP__ENTRY_PAYLOAD,
                    .key = key.bytes,
                    .key_bytes = key.length,
                    .note = (const unsigned char *)"_Z1kPf",
                    .note_bytes = 7,
                    .payload = payload,
                    .bytes = payload_of(n, payload)};
    REQUIRE(trp__entry_make(&e, &front, NULL) == TRP_OK);
    bytes out = {realloc(front, e.size), e.size};
    REQUIRE(out.at);
    memcpy(out.at + e.payload_at, payload, e.bytes);
    trp__key_end(&key);
    return out;
}

static bytes make_list(void)
{
    static const char *const names[] = {"a.h", "cute/tensor.hpp", "b.h"};
    trp__store_header headers[3];
    bytes list = {0}, longer = {0};
    trp__header_list old;
    for (int i = 0; i < 3; i++)
        headers[i] = (trp__store_header){names[i], "/usr/include", trp__hash_of(names[i], 3)};
    REQUIRE(trp__headers_make(headers, 3, NULL, &list.at, &list.size, NULL) == TRP_OK);
    REQUIRE(trp__headers_read(list.at, list.size, &old));
    REQUIRE(trp__headers_make(headers, 2, &old, &longer.at, &longer.size, NULL) == TRP_OK);
    trp__headers_end(&old);
    free(list.at);
    return longer;
}

static bytes make_pack(void)
{
    char path[PATH_MAX + 16];
    unsigned char payload[512];
    trp__cache_pack_writer *w;
    snprintf(path, sizeof path, "%s/pack", folder);
    REQUIRE(trp__cache_pack_begin(path, &w, NULL) == TRP_OK);
    for (int n = 0; n < IN_PACK; n++) {
        trp__key key = key_of(n);
        trp__store_request request = {.key = &key};
        trp__store_entry entry = {.payload = payload, .bytes = payload_of(n, payload)};
        REQUIRE(trp__cache_pack_add(w, &request, &entry, NULL) == TRP_OK);
        trp__key_end(&key);
    }
    REQUIRE(trp__cache_pack_finish(w, NULL) == TRP_OK);
    bytes out = {malloc(ROOM), 0};
    FILE *file = fopen(path, "rb");
    REQUIRE(file && out.at);
    out.size = fread(out.at, 1, ROOM, file);
    REQUIRE(out.size > 0 && out.size < ROOM);
    fclose(file);
    unlink(path);
    return out;
}

/* --- mutations --- */

static uint64_t odd_number(size_t size)
{
    static const uint64_t numbers[] = {0,
                                       1,
                                       7,
                                       63,
                                       64,
                                       127,
                                       128,
                                       129,
                                       INT32_MAX,
                                       UINT32_MAX,
                                       UINT64_C(1) << 32,
                                       INT64_MAX,
                                       UINT64_MAX,
                                       UINT64_MAX - 63,
                                       UINT64_MAX - 127};
    if (random_below(&rng, 3) == 0)
        return size + random_below(&rng, 130) - 65;
    return numbers[random_below(&rng, sizeof numbers / sizeof *numbers)];
}

static void mutate(bytes *b)
{
    size_t at = b->size ? random_below(&rng, (uint32_t)b->size) : 0, left = b->size - at;
    size_t some = left ? 1 + random_below(&rng, (uint32_t)(left < 200 ? left : 200)) : 0;
    some = some > left ? left : some;
    switch (random_below(&rng, 9)) {
    case 0:
    case 1: /* a bit */
        if (left)
            b->at[at] ^= (unsigned char)(1u << random_below(&rng, 8));
        break;
    case 2: /* a byte */
        if (left)
            b->at[at] = (unsigned char)random_next(&rng);
        break;
    case 3: /* a part that was never written */
        memset(b->at + at, 0, some);
        break;
    case 4: /* the end is missing */
        b->size = at;
        break;
    case 5: /* there is more */
        if (b->size + 256 < ROOM) {
            memset(b->at + b->size, random_below(&rng, 2) ? 0 : 0x55, 256);
            b->size += 1 + random_below(&rng, 256);
        }
        break;
    case 6: /* one part over another */
        if (left)
            memmove(b->at + random_below(&rng, (uint32_t)(b->size - some + 1)), b->at + at, some);
        break;
    case 7: /* a number */
        at = at / 8 * 8;
        if (at + 8 <= b->size)
            trp__put64(b->at + at, odd_number(b->size));
        break;
    default:
        at = at / 4 * 4;
        if (at + 4 <= b->size)
            trp__put32(b->at + at, (uint32_t)odd_number(b->size));
        break;
    }
}

/* Gives a mutated entry right checksums, as far as it has such parts. */
static void mend_entry(unsigned char *at, size_t size)
{
    if (size < TRP__ENTRY_HEAD)
        return;
    uint64_t payload_at = trp__get64(at + 32), payload = trp__get64(at + 40);
    if (payload_at >= TRP__ENTRY_HEAD && payload_at <= size) {
        trp__put64(at + 96, trp__checksum(at + TRP__ENTRY_HEAD, payload_at - TRP__ENTRY_HEAD));
        if (payload <= size - payload_at)
            trp__put64(at + 104, trp__checksum(at + payload_at, payload));
    }
    trp__put64(at + 120, trp__checksum(at, 120));
}

static void mend_pack(unsigned char *at, size_t size)
{
    for (size_t row = 0; row + 64 <= size && row < 64 * (IN_PACK + 1); row += 64)
        trp__put64(at + row + 56, trp__checksum(at + row, 56));
    for (size_t row = 64; row + 64 <= size && row < 64 * (IN_PACK + 1); row += 64) {
        uint64_t offset = trp__get64(at + row + 40), length = trp__get64(at + row + 48);
        if (offset >= 64 * (IN_PACK + 1) && offset <= size && length <= size - offset)
            mend_entry(at + offset, length);
    }
}

/* --- what must hold --- */

static bool inside(const bytes *b, const void *from, size_t size)
{
    const unsigned char *p = from;
    return p >= b->at && p <= b->at + b->size && size <= (size_t)(b->at + b->size - p);
}

/* `n` is what it was before it was damaged; -1: it was mended, and may be anything. */
static void check_entry(const bytes *b, const trp__entry *e, int n)
{
    unsigned char payload[512];
    REQUIRE(inside(b, e->key, e->key_bytes) && inside(b, e->note, e->note_bytes) &&
            inside(b, e->payload, e->bytes));
    REQUIRE(trp__key_is_valid(e->key, e->key_bytes));
    if (n < 0)
        return;
    trp__key key = key_of(n);
    REQUIRE(e->key_bytes == key.length && memcmp(e->key, key.bytes, key.length) == 0);
    REQUIRE(e->bytes == payload_of(n, payload) && memcmp(e->payload, payload, e->bytes) == 0);
    trp__key_end(&key);
}

static bool try_entry(bytes *b, int n, bool mend)
{
    trp__entry e;
    if (mend)
        mend_entry(b->at, b->size);
    if (trp__entry_read(b->at, b->size, &e) != NULL)
        return false;
    check_entry(b, &e, mend ? -1 : n);
    return true;
}

static bool try_list(bytes *b)
{
    trp__header_list list;
    unsigned char *again;
    size_t size;
    trp__hash content;
    if (!trp__headers_read(b->at, b->size, &list))
        return false;
    for (uint32_t i = 0; i < list.count; i++)
        REQUIRE(inside(b, list.header[i].name, strlen(list.header[i].name) + 1) &&
                inside(b, list.header[i].path, strlen(list.header[i].path) + 1));
    for (uint32_t i = 0; i < list.set_count; i++) {
        for (uint32_t j = 0; j < list.set[i].count; j++)
            REQUIRE(trp__headers_member(&list.set[i], j, &content) < list.count);
    }
    /* What was read can be written again, with a set in front. */
    trp__store_header header = {.name = "new.h", .path = ""};
    REQUIRE(trp__headers_make(&header, 1, &list, &again, &size, NULL) == TRP_OK);
    trp__headers_end(&list);
    REQUIRE(trp__headers_read(again, size, &list));
    REQUIRE(strcmp(list.header[trp__headers_member(&list.set[0], 0, &content)].name, "new.h") == 0);
    trp__headers_end(&list);
    free(again);
    return true;
}

static bool try_pack(bytes *b, bool mend)
{
    trp__cache_pack *pack;
    trp__entry e;
    unsigned char *memory; /* none: it is ours */
    int found = 0;
    if (mend)
        mend_pack(b->at, b->size);
    if (trp__cache_pack_open_memory(b->at, b->size, "pack", &pack, NULL) != TRP_OK)
        return false;
    for (int n = 0; n < IN_PACK; n++) {
        trp__key key = key_of(n);
        trp__hash hash = trp__key_hash(&key);
        if (trp__cache_pack_find(pack, &hash, TRP__ENTRY_PAYLOAD, key.bytes, key.length, &memory,
                                 &e)) {
            check_entry(b, &e, mend ? -1 : n);
            found++;
        }
        trp__key_end(&key);
    }
    for (uint64_t i = 0; i < trp__cache_pack_count(pack); i++) {
        if (!trp__cache_pack_entry(pack, i, &memory, &e))
            check_entry(b, &e, -1);
    }
    trp__cache_pack_close(pack);
    return found == IN_PACK;
}

/* --- running --- */

/* A mutant in memory of just its size, so that a sanitizer sees a read past the end. */
static bool try_mutant(const bytes *good, int what, bool mend)
{
    static unsigned char room[ROOM];
    bytes mutant = {room, good->size};
    memcpy(room, good->at, good->size);
    for (uint32_t i = 1 + random_below(&rng, 4); i > 0; i--)
        mutate(&mutant);
    bytes exact = {malloc(mutant.size ? mutant.size : 1), mutant.size};
    REQUIRE(exact.at);
    memcpy(exact.at, room, mutant.size);
    bool same = what == 0   ? try_entry(&exact, 3, mend)
                : what == 1 ? try_list(&exact)
                            : try_pack(&exact, mend);
    free(exact.at);
    return same;
}

static bool read_number(const char *text, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 0);
    return errno == 0 && end != text && *end == '\0' && *text != '-';
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"entry", "list", "pack"};
    const char *wish = getenv("TROUPE_TEST_MUTATIONS");
    uint64_t mutations = DEFAULT_MUTATIONS, seed = 1, kept[3] = {0}, tried[3] = {0};
    if (argc > 3 || (wish && !read_number(wish, &mutations)) ||
        (argc > 1 && !read_number(argv[1], &mutations)) ||
        (argc > 2 && !read_number(argv[2], &seed))) {
        fprintf(stderr, "usage: %s [MUTATIONS [SEED]]\n", argv[0]);
        return 2;
    }
    printf("cache: %" PRIu64 " mutations, seed %" PRIu64 "\n", mutations, seed);
    rng = seed;
    h_folder_make(folder, sizeof folder, "troupe-fuzz");
    bytes good[3] = {make_entry(3), make_list(), make_pack()};
    REQUIRE(try_entry(&good[0], 3, false) && try_list(&good[1]) && try_pack(&good[2], false));
    for (uint64_t i = 0; i < mutations; i++) {
        int what = (int)(i % 3);
        tried[what]++;
        kept[what] += try_mutant(&good[what], what, i / 3 % 2);
    }
    for (int i = 0; i < 3; i++) {
        printf("cache: %s: %" PRIu64 " mutants, %" PRIu64 " of them still good\n", names[i],
               tried[i], kept[i]);
        free(good[i].at);
    }
    h_folder_remove(folder);
    return 0;
}

/* Why a key is not there: every way in which two keys can differ, and which entry is the nearest.
 */
#include "cache/inspect.h"
#include "cache/key.h"
#include "cache/store.h"
#include "support/folder.h"
#include "support/reference/random.h"
#include "support/label.h"

#include "support/unit.h"

#include <limits.h>

TROUPE_TEST("no tsan");

typedef struct parts {
    const char *name, *compiler, *target, *source;
    const char *options[12];
    const char *headers[12]; /* name, content, name, content, ... */
} parts;

static const parts base = {.name = "vector.cu",
                           .compiler = "nvrtc 12.8.93",
                           .target = "sm_90a",
                           .source = "line one\nline two\nline three\n",
                           .options = {"-O3", "-lineinfo", "-DN=4"},
                           .headers = {"a.h", "int a;", "b.h", "int b;"}};

static trp__key key_of(const parts *p, bool headers)
{
    trp__key key = {0};
    trp__key_begin(&key, "jit");
    if (p->compiler)
        trp__key_add_text(&key, TRP__KEY_COMPILER, p->compiler);
    trp__key_add_text(&key, TRP__KEY_NAME, p->name);
    if (p->source)
        trp__key_add_text(&key, TRP__KEY_SOURCE, p->source);
    trp__key_add_text(&key, TRP__KEY_TARGET, p->target);
    for (int i = 0; p->options[i]; i++)
        trp__key_add_text(&key, TRP__KEY_OPTION, p->options[i]);
    for (int i = 0; headers && p->headers[i]; i += 2) {
        trp__hash content = trp__hash_of(p->headers[i + 1], strlen(p->headers[i + 1]));
        trp__key_add_header(&key, p->headers[i], &content);
    }
    return key;
}

static void differs(parts p, const char *expected)
{
    char text[2048], cut[40];
    trp__key a = key_of(&p, true), b = key_of(&base, true);
    size_t length =
        trp__key_differences(a.bytes, a.length, b.bytes, b.length, true, text, sizeof text);
    assert_string_equal(text, expected);
    assert_int_equal(length, strlen(expected));
    assert_int_equal(
        trp__key_differences(a.bytes, a.length, b.bytes, b.length, true, cut, sizeof cut), length);
    assert_memory_equal(cut, text, strlen(cut));
    assert_int_equal(trp__key_differences(a.bytes, a.length, b.bytes, b.length, true, NULL, 0),
                     length);
    uint64_t distance = trp__key_distance(a.bytes, a.length, b.bytes, b.length, true);
    assert_int_equal(distance == 0, *expected == '\0');
    trp__key_end(&a);
    trp__key_end(&b);
}

static void differences(void **state)
{
    (void)state;
    parts p = base;
    differs(p, "");
    p.compiler = "nvrtc 13.0.48";
    differs(p, "compiler: nvrtc 13.0.48, not nvrtc 12.8.93\n");
    p.target = "sm_100a";
    differs(p, "compiler: nvrtc 13.0.48, not nvrtc 12.8.93\ntarget: sm_100a, not sm_90a\n");
    p = base, p.compiler = NULL;
    differs(p, "compiler: none, not nvrtc 12.8.93\n");
    p = base, p.options[0] = "-lineinfo", p.options[1] = "-O3";
    differs(p, "options: the same in another order\n");
    p = base, p.options[2] = "-DN=8";
    differs(p, "option: -DN=8, not -DN=4\n");
    p = base, p.options[1] = "-DN=4", p.options[2] = NULL;
    differs(p, "option: -lineinfo is gone\n");
    p = base, p.options[3] = "-G", p.options[4] = "x\ny";
    differs(p, "option: -G is new\noption: x?y is new\n");
    p = base, p.source = "line one\nline 2\nline three\n";
    differs(p, "source: another text from line 2 on: 'line 2', not 'line two'\n");
    p = base, p.source = "line one\nline two\n";
    differs(p, "source: another text from line 3 on: '', not 'line three'\n");
    p = base, p.source = NULL;
    differs(p, "source: there is none\n");
    p = base, p.headers[1] = "int A;";
    differs(p, "header: a.h: another content\n");
    p = base, p.headers[4] = "c.h", p.headers[5] = "";
    differs(p, "header: c.h: read now only\n");
    p = base, p.headers[0] = "b.h", p.headers[1] = "int b;", p.headers[2] = NULL;
    differs(p, "header: a.h: not read now\n");
    p = base, p.headers[0] = "b.h", p.headers[1] = "int b;", p.headers[2] = "a.h",
    p.headers[3] = "int a;";
    differs(p, "headers: the same in another order\n");
}

/* Lists that are long are cut. */
static void many(void **state)
{
    (void)state;
    char text[4096];
    trp__key a = {0}, b = {0};
    trp__key_begin(&a, "jit");
    trp__key_begin(&b, "jit");
    for (int i = 0; i < 100; i++) {
        char name[32];
        trp__hash content = trp__hash_of(&i, sizeof i), other = trp__hash_of("", 0);
        snprintf(name, sizeof name, "header%d.h", i);
        trp__key_add_text(&a, TRP__KEY_OPTION, name);
        trp__key_add_header(&a, name, &content);
        trp__key_add_header(&b, name, i % 2 ? &content : &other);
    }
    trp__key_differences(a.bytes, a.length, b.bytes, b.length, true, text, sizeof text);
    assert_non_null(strstr(text, "option: 92 more: is new\n"));
    assert_non_null(strstr(text, "headers: 42 more differ\n"));
    trp__key_end(&a);
    trp__key_end(&b);
}

static char folder[PATH_MAX];

static int setup(void **state)
{
    (void)state;
    h_folder_make(folder, sizeof folder, "troupe-explain");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    h_folder_remove(folder);
    return 0;
}

static bool resolve(void *context, const char *name, const char *path, trp__hash *content)
{
    (void)context, (void)name, (void)path, (void)content;
    return false;
}

static size_t headers_of(const parts *p, trp__store_header *headers)
{
    size_t count = 0;
    for (; p->headers[2 * count]; count++)
        headers[count] = (trp__store_header){
            .name = p->headers[2 * count],
            .path = "",
            .content = trp__hash_of(p->headers[2 * count + 1], strlen(p->headers[2 * count + 1]))};
    return count;
}

static void put(trp__store *store, const parts *p)
{
    trp__store_header headers[8];
    trp__key key = key_of(p, false);
    trp__store_request request = {.key = &key, .resolve = resolve};
    trp__store_entry entry = {
        .payload = "", .headers = headers, .header_count = headers_of(p, headers)};
    assert_int_equal(trp__store_put(store, &request, &entry, NULL), TRP_OK);
    trp__key_end(&key);
}

static void explained(trp__store *store, const parts *p, bool headers, const char *expected)
{
    char text[1024];
    trp__store_header list[8];
    trp__key key = key_of(p, false);
    size_t count = headers_of(p, list);
    size_t length =
        trp__store_explain(store, &key, headers ? list : NULL, count, text, sizeof text);
    assert_string_equal(text, expected);
    assert_int_equal(length, strlen(expected));
    trp__key_end(&key);
}

static void nearest(void **state)
{
    (void)state;
    trp__store *store;
    trp__store_options options = {.folder = folder, .packs = ""};
    assert_int_equal(trp__store_open(&options, &store, NULL), TRP_OK);
    parts p = base;
    explained(store, &p, true, "there is no entry of this kind and name\n");
    put(store, &p);
    p.name = "other.cu", p.options[2] = "-DN=8";
    put(store, &p);
    p = base, p.compiler = "nvrtc 11.0", p.options[0] = "-O0";
    put(store, &p);
    p = base, p.source = "something else";
    put(store, &p);

    p = base;
    explained(store, &p, true, "there is such an entry\n");
    explained(store, &p, false, "only headers can differ from an entry that is there\n");
    p.headers[1] = "int A;";
    explained(store, &p, true, "header: a.h: another content\n");
    p = base, p.options[2] = "-DN=8";
    explained(store, &p, true, "option: -DN=8, not -DN=4\n");
    explained(store, &p, false, "option: -DN=8, not -DN=4\n");
    p = base, p.compiler = "nvrtc 11.0", p.options[0] = "-O1";
    explained(store, &p, true, "option: -O1, not -O0\n");
    p.name = "third.cu";
    explained(store, &p, true, "there is no entry of this kind and name\n");
    trp__store_close(store);
}

typedef struct counts {
    int payloads, lists, wrong;
} counts;

static bool count(void *context, const trp__inspected *one)
{
    counts *c = context;
    char text[8];
    c->wrong += one->wrong != NULL;
    if (one->wrong)
        return true;
    c->payloads += one->type == TRP__ENTRY_PAYLOAD;
    c->lists += one->type == TRP__ENTRY_HEADERS;
    trp__inspect_field(&one->entry, TRP__KEY_NAME, text, sizeof text);
    assert_string_equal(text, "vector."); /* cut */
    trp__inspect_field(&one->entry, TRP__KEY_INPUT, text, sizeof text);
    assert_string_equal(text, "");
    return true;
}

static void inspected(void **state)
{
    (void)state;
    char path[PATH_MAX], place[PATH_MAX + 8];
    trp__store *store;
    trp__store_options options = {.folder = folder, .packs = ""};
    counts c = {0};
    assert_int_equal(trp__store_open(&options, &store, NULL), TRP_OK);
    assert_int_equal(trp__inspect_all(store, true, count, &c, NULL), TRP_OK); /* no folder yet */
    parts p = base;
    put(store, &p);
    p.target = "sm_100a";
    put(store, &p);
    assert_int_equal(trp__inspect_all(store, true, count, &c, NULL), TRP_OK);
    assert_int_equal(c.payloads, 2);
    assert_int_equal(c.lists, 2);
    assert_int_equal(c.wrong, 0);
    snprintf(place, sizeof place, "%s/store", folder);
    assert_true(h_folder_find(place, ".headers", path, sizeof path));
    h_file_flip(path, h_file_size(path) - 1);
    c = (counts){0};
    assert_int_equal(trp__inspect_all(store, false, count, &c, NULL), TRP_OK);
    assert_int_equal(c.wrong, 0); /* payloads were not looked at */
    assert_int_equal(trp__inspect_all(store, true, count, &c, NULL), TRP_OK);
    assert_int_equal(c.wrong, 1);
    trp__store_close(store);
}

UNIT_MAIN(UNIT(differences), UNIT(many), cmocka_unit_test_setup_teardown(nearest, setup, teardown),
          cmocka_unit_test_setup_teardown(inspected, setup, teardown))

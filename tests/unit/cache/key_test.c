/* Keys: what differs in anything is another key, and bytes that are no key are refused. */
#include "cache/key.h"

#include "support/reference/random.h"
#include "support/label.h"

#include "support/unit.h"

TROUPE_TEST("no tsan");

/* A key from words: "o-O3" an option, "eX" an expression, ... */
static trp__key key_of(const char *const *words)
{
    static const struct {
        char letter;
        trp__key_tag tag;
    } tags[] = {{'n', TRP__KEY_NAME},       {'s', TRP__KEY_SOURCE}, {'o', TRP__KEY_OPTION},
                {'e', TRP__KEY_EXPRESSION}, {'t', TRP__KEY_TARGET}, {'c', TRP__KEY_COMPILER},
                {'h', TRP__KEY_HEADER}};
    trp__key key = {0};
    trp__key_begin(&key, "test");
    for (; *words; words++) {
        for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
            if (tags[i].letter != **words)
                continue;
            if (tags[i].tag == TRP__KEY_HEADER) {
                trp__hash hash = trp__hash_of(*words, 2);
                trp__key_add_header(&key, *words + 1, &hash);
            } else {
                trp__key_add_text(&key, tags[i].tag, *words + 1);
            }
        }
    }
    assert_int_equal(key.status, TRP_OK);
    return key;
}

/* Lists of words that a careless encoding could take for each other. */
static void ambiguity(void **state)
{
    (void)state;
    static const char *const lists[][5] = {
        {0},
        {"s"},
        {"o"},
        {"o", "o"},
        {"oa", "ob"},
        {"ob", "oa"},
        {"oab"},
        {"oa b"},
        {"oa", "o", "ob"},
        {"o", "oa", "ob"},
        {"oa", "eb"},
        {"ea", "ob"},
        {"ea", "eb"},
        {"oa\nb"},
        {"oa,b"},
        {"nab", "s"},
        {"na", "sb"},
        {"n", "sab"},
        {"sab", "n"},
        {"tsm_90"},
        {"tsm_90a"},
        {"tsm_90", "ca"},
        {"ha"},
        {"ha", "hb"},
        {"hb", "ha"},
        {"hab"},
        {"oa", "ob", "oc"},
        {"oab", "oc"},
        {"oa", "obc"},
    };
    enum { COUNT = sizeof lists / sizeof *lists };
    trp__key keys[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        keys[i] = key_of(lists[i]);
        assert_true(trp__key_is_valid(keys[i].bytes, keys[i].length));
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < i; j++) {
            trp__hash a = trp__key_hash(&keys[i]), b = trp__key_hash(&keys[j]);
            assert_false(trp__hash_equal(&a, &b));
            assert_false(keys[i].length == keys[j].length &&
                         memcmp(keys[i].bytes, keys[j].bytes, keys[i].length) == 0);
        }
        trp__key again = key_of(lists[i]);
        trp__hash a = trp__key_hash(&keys[i]), b = trp__key_hash(&again),
                  c = trp__hash_of(again.bytes, again.length);
        assert_true(trp__hash_equal(&a, &b) && trp__hash_equal(&a, &c));
        trp__key_end(&again);
    }
    for (size_t i = 0; i < COUNT; i++)
        trp__key_end(&keys[i]);
}

/* One byte of a header's content, or its name, makes another key. */
static void headers(void **state)
{
    (void)state;
    trp__key a = {0}, b = {0};
    trp__hash one = trp__hash_of("int x;", 6), other = trp__hash_of("int y;", 6), ha, hb;
    trp__key_begin(&a, "test");
    trp__key_copy(&a, &b);
    trp__key_add_header(&a, "x.h", &one);
    trp__key_add_header(&b, "x.h", &other);
    ha = trp__key_hash(&a), hb = trp__key_hash(&b);
    assert_int_equal(a.length, b.length);
    assert_false(trp__hash_equal(&ha, &hb));
    trp__key_end(&b);
    trp__key_begin(&b, "test");
    trp__key_add_header(&b, "y.h", &one);
    hb = trp__key_hash(&b);
    assert_false(trp__hash_equal(&ha, &hb));
    trp__key_end(&a);
    trp__key_end(&b);
}

static void fields(void **state)
{
    (void)state;
    static const char *const words[] = {"nvector.cu", "oa", "ob", NULL};
    trp__key key = key_of(words);
    trp__key_field field;
    assert_true(trp__key_find(key.bytes, key.length, TRP__KEY_NAME, &field));
    assert_int_equal(field.bytes, 9);
    assert_memory_equal(field.content, "vector.cu", 9);
    assert_true(trp__key_find(key.bytes, key.length, TRP__KEY_OPTION, &field));
    assert_memory_equal(field.content, "a", 1);
    assert_false(trp__key_find(key.bytes, key.length, TRP__KEY_SOURCE, &field));
    assert_string_equal(trp__key_tag_text(TRP__KEY_OPTION), "option");
    assert_string_equal(trp__key_tag_text(77), "field");

    static const char *const same[] = {"nvector.cu", "sother", NULL};
    static const char *const different[] = {"nvector2.cu", "oa", "ob", NULL};
    trp__key a = key_of(same), b = key_of(different);
    uint64_t subject = trp__key_subject(key.bytes, key.length);
    assert_true(subject == trp__key_subject(a.bytes, a.length));
    assert_false(subject == trp__key_subject(b.bytes, b.length));
    trp__key_end(&a);
    trp__key_end(&b);
    trp__key_end(&key);
    trp__key_end(&key); /* which is zero now */
}

static void too_long(void **state)
{
    (void)state;
    trp__key key = {0}, copy;
    trp__key_begin(&key, "test");
    size_t length = key.length;
    trp__key_add(&key, TRP__KEY_SOURCE, "", TRP__KEY_BYTES_MAX);
    assert_int_equal(key.status, TRP_E_ARGUMENT);
    assert_int_equal(key.length, length);
    trp__key_add(&key, TRP__KEY_SOURCE, "", SIZE_MAX);
    trp__key_add_text(&key, TRP__KEY_NAME, "x"); /* nothing is added any more */
    assert_int_equal(key.length, length);
    trp__key_copy(&key, &copy);
    assert_int_equal(copy.status, TRP_E_ARGUMENT);
    trp__key_end(&copy);
    trp__key_begin(&key, "test");
    assert_int_equal(key.status, TRP_OK);
    trp__key_end(&key);
}

/* Whatever the bytes are, reading stays inside of them. */
static void rubbish(void **state)
{
    (void)state;
    static const char *const words[] = {"nname", "ssource", "oa", "hheader", "hh2", NULL};
    uint64_t rng = 3;
    trp__key key = key_of(words);
    assert_false(trp__key_is_valid(NULL, 0));
    for (size_t length = 0; length < key.length; length++) {
        unsigned char *copy = malloc(length ? length : 1);
        memcpy(copy, key.bytes, length);
        trp__key_field field;
        for (size_t at = 0; trp__key_next(copy, length, &at, &field);)
            assert_true(field.content + field.bytes <= copy + length);
        (void)trp__key_is_valid(copy, length);
        (void)trp__key_subject(copy, length);
        free(copy);
    }
    for (int i = 0; i < 20000; i++) {
        unsigned char *copy = malloc(key.length);
        memcpy(copy, key.bytes, key.length);
        for (uint32_t n = random_below(&rng, 3) + 1; n > 0; n--)
            copy[random_below(&rng, (uint32_t)key.length)] = (unsigned char)random_next(&rng);
        if (trp__key_is_valid(copy, key.length)) {
            trp__key_field field;
            size_t at = 0, sum = 0;
            while (trp__key_next(copy, key.length, &at, &field))
                sum += 8 + field.bytes;
            assert_int_equal(sum, key.length);
        }
        free(copy);
    }
    trp__key_end(&key);
}

UNIT_MAIN(UNIT(ambiguity), UNIT(headers), UNIT(fields), UNIT(too_long), UNIT(rubbish))

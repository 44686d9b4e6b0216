/* The cache's hashes against the vectors of their specifications and against other programs. */
#include "cache/hash.h"

#include "support/reference/random.h"
#include "support/label.h"

#include "support/unit.h"

#include <xxhash.h>

TROUPE_TEST("no tsan");

static void is_hash(const void *data, size_t bytes, const char *expected)
{
    char text[TRP__HASH_TEXT];
    trp__hash hash = trp__hash_of(data, bytes);
    trp__hash_text(&hash, text);
    assert_string_equal(text, expected);
}

/* As b2sum -l 256 (coreutils) and Python's hashlib give them. */
static void blake2b_known(void **state)
{
    (void)state;
    unsigned char bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    is_hash("abc", 3, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    is_hash(bytes, 0, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
    is_hash(bytes, 1, "03170a2e7597b7b7e3d84c05391d139a62b157e78786d8c082f29dcf4c111314");
    is_hash(bytes, 63, "29e41a64fbdd2fd27612228623c0702222bf367451e7324287f181cb3dcf7237");
    is_hash(bytes, 64, "10d8e6d534b00939843fe9dcc4dae48cdf008f6b8b2b82b156f5404d874887f5");
    is_hash(bytes, 127, "f2fe67ff342e21b8f45e8f2e0bcd1d9243245d50ee6c78042e9c491388791c72");
    is_hash(bytes, 128, "c3582f71ebb2be66fa5dd750f80baae97554f3b015663c8be377cfcb2488c1d1");
    is_hash(bytes, 129, "f7f3c46ba2564ff4c4c162da1f5b605f9f1c4aa6a20652a9f9a337c1a2f5b9c9");
    is_hash(bytes, 255, "1d0850ee9bca0abc9601e9deabe1418fedec2fb6ac4150bd5302d2430f9be943");
    is_hash(bytes, 256, "39a7eb9fedc19aabc83425c6755dd90e6f9d0c804964a1f4aaeea3b9fb599835");
    is_hash(bytes, 257, "45f7f084c30bac7cbae2e1963bc6e6b0d8cb227a12927e97fb941d288fb1f9a3");
    is_hash(bytes, 1000, "c636324d47d89f2b2434dc2c994100663fbbaea880ff020fc5de89dd0f77a1ec");
}

/* The self-test of RFC 7693, appendix E, for our one length of hash and no key: the hash of hashes
 * of inputs from its generator. */
static void blake2b_self_test(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 3, 128, 129, 255, 1024};
    unsigned char input[1024];
    trp__hasher all;
    trp__hasher_begin(&all);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint32_t a = 0xdead4bad * (uint32_t)lengths[i], b = 1;
        for (size_t j = 0; j < lengths[i]; j++) {
            uint32_t t = a + b;
            a = b;
            b = t;
            input[j] = (unsigned char)(t >> 24);
        }
        trp__hash one = trp__hash_of(input, lengths[i]);
        trp__hasher_add(&all, one.byte, sizeof one.byte);
    }
    char text[TRP__HASH_TEXT];
    trp__hash hash = trp__hasher_value(&all);
    trp__hash_text(&hash, text);
    assert_string_equal(text, "4f115497d72f1ccb3d237329babe50880012733139e76a227f62b1ee64cd03e4");
}

/* However the input is cut into pieces, and whatever is asked in between. */
static void pieces(void **state)
{
    (void)state;
    uint64_t rng = 7;
    unsigned char bytes[2000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)random_next(&rng);
    for (int round = 0; round < 300; round++) {
        size_t length = random_below(&rng, sizeof bytes + 1), at = 0;
        trp__hasher hasher, copy;
        trp__hasher_begin(&hasher);
        while (at < length) {
            size_t some = random_below(&rng, round % 2 ? 300 : 10) + 1;
            some = some > length - at ? length - at : some;
            trp__hasher_add(&hasher, bytes + at, some);
            copy = hasher;
            trp__hasher_add(&copy, "x", 1);
            (void)trp__hasher_value(&hasher);
            at += some;
        }
        trp__hash one = trp__hasher_value(&hasher), other = trp__hash_of(bytes, length);
        assert_true(trp__hash_equal(&one, &other));
    }
}

static void as_text(void **state)
{
    (void)state;
    char text[TRP__HASH_TEXT];
    trp__hash hash = trp__hash_of("a", 1), again;
    trp__hash_text(&hash, text);
    assert_true(trp__hash_parse(text, 64, &again));
    assert_true(trp__hash_equal(&hash, &again));
    assert_false(trp__hash_parse(text, 63, &again));
    text[5] = 'A';
    assert_false(trp__hash_parse(text, 64, &again));
    text[5] = '\0';
    assert_false(trp__hash_parse(text, 64, &again));
}

static void checksum(void **state)
{
    (void)state;
    uint64_t rng = 11;
    unsigned char bytes[600];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)random_next(&rng);
    assert_true(trp__checksum(NULL, 0) == UINT64_C(0xef46db3751d8e999)); /* of the specification */
    for (size_t length = 0; length <= 500; length++) {
        size_t from = random_below(&rng, 64);
        assert_true(trp__checksum(bytes + from, length) == XXH64(bytes + from, length, 0));
    }
}

UNIT_MAIN(UNIT(blake2b_known), UNIT(blake2b_self_test), UNIT(pieces), UNIT(as_text), UNIT(checksum))

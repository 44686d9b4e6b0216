/*
 * Fuzzes the reader of .npy headers.
 *
 * With libFuzzer:
 *   clang -DTRP_LIBFUZZER -fsanitize=fuzzer,address,undefined tests/fuzz/npy_test.c -o npy_fuzz
 * Alone, as a test that mutates valid headers at random, the same ones for the same seed:
 *   npy_fuzz [ITERATIONS [SEED]]
 *
 * Any input must end in a header that means what it says or in a printable message; a broken
 * promise stops the program with abort(), a wrong access is for the sanitizers to see.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../../src/io/npy_dict.c"
#include "../../src/io/npy_header.c"
#include "../support/reference/random.h"
#include "support/label.h"

#include <errno.h>
#include <stdlib.h>

TROUPE_TEST("computes", "no tsan");

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "npy: line %d: not so: %s\n", __LINE__, #condition);                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void require_message(const trp_error *error)
{
    size_t len = strnlen(error->message, sizeof(error->message));
    REQUIRE(error->status == TRP_E_ARGUMENT || error->status == TRP_E_UNSUPPORTED);
    REQUIRE(len > 0 && len < sizeof(error->message));
    for (size_t i = 0; i < len; i++) {
        REQUIRE(error->message[i] >= 0x20 && error->message[i] < 0x7f);
    }
}

static void require_sound(const trp__npy *array)
{
    uint64_t elements = 1;
    bool empty = false;
    REQUIRE(array->type != NULL && array->type->npy != NULL);
    REQUIRE(array->rank <= TRP_IO_RANK_MAX);
    REQUIRE(array->data_offset >= TRP__NPY_PREAMBLE_V1);
    REQUIRE(array->data_offset <= TRP__NPY_PREAMBLE_V2 + TRP__NPY_HEADER_LIMIT);
    for (uint32_t i = 0; i < array->rank; i++) {
        REQUIRE(array->dim[i] >= 0);
        empty = empty || array->dim[i] == 0;
    }
    for (uint32_t i = 0; i < array->rank && !empty; i++) {
        REQUIRE(!__builtin_mul_overflow(elements, (uint64_t)array->dim[i], &elements));
    }
    const uint32_t size = array->type->bits / 8;
    REQUIRE(array->data_bytes / size == (empty ? 0 : elements));
    REQUIRE(array->data_bytes % size == 0 && array->data_bytes <= INT64_MAX);
}

static bool same_array(const trp__npy *a, const trp__npy *b)
{
    return a->type == b->type && a->fortran_order == b->fortran_order && a->rank == b->rank &&
           memcmp(a->dim, b->dim, a->rank * sizeof(*a->dim)) == 0 &&
           a->data_bytes == b->data_bytes && a->data_offset == b->data_offset;
}

/* A header that is written for an array reads back as that array. */
static void require_round_trip(const trp__npy *array)
{
    const trp__npy_bytes header = trp__npy_format(array);
    trp__npy again;
    REQUIRE(header.len % ALIGNMENT == 0 && header.len <= sizeof(header.bytes));
    REQUIRE(trp__npy_parse(header.bytes, header.len, header.len + array->data_bytes, &again, NULL));
    REQUIRE(again.data_offset == header.len);
    again.data_offset = array->data_offset;
    REQUIRE(same_array(array, &again));
}

/* True when the header is good, whatever the length of the data. */
static bool try_header(const unsigned char *data, size_t size)
{
    trp_error error;
    trp__npy array = {0}, same = {0};

    bool whole = trp__npy_parse(data, size, size, &array, &error);
    if (whole) {
        require_sound(&array);
        REQUIRE(array.data_offset + array.data_bytes == size);
    } else {
        require_message(&error);
        REQUIRE(!trp__npy_parse(data, size, size, &same, NULL));
    }

    /* The same bytes as the beginning of a longer file. Of a good header just one length is right.
     */
    if (!parse_all(data, size, UINT64_MAX, &array, &error)) {
        REQUIRE(!whole);
        require_message(&error);
        return false;
    }
    require_sound(&array);
    REQUIRE(array.data_offset <= size);
    const uint64_t right = array.data_offset + array.data_bytes;
    REQUIRE(whole == (right == size));
    REQUIRE(trp__npy_parse(data, size, right, &same, &error));
    REQUIRE(same_array(&same, &array));
    REQUIRE(!trp__npy_parse(data, size, right + 1, &same, &error));
    require_message(&error);
    REQUIRE(!trp__npy_parse(data, size, right - 1, &same, &error));
    require_message(&error);
    require_round_trip(&array);
    return true;
}

/* On a copy of just the right size, so that a sanitizer sees a read past the end. */
static bool try_copy(const unsigned char *data, size_t size)
{
    unsigned char *copy = malloc(size == 0 ? 1 : size);
    REQUIRE(copy != NULL);
    if (size != 0) {
        memcpy(copy, data, size);
    }
    bool good = try_header(copy, size);
    free(copy);
    return good;
}

#ifdef TRP_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_copy(data, size);
    return 0;
}

#else

#if defined(__SANITIZE_ADDRESS__)
enum { DEFAULT_ITERATIONS = 60000 }; /* of which each takes longer */
#else
enum { DEFAULT_ITERATIONS = 200000 };
#endif

enum { INPUT_MAX = 2048 };

typedef struct input {
    unsigned char bytes[INPUT_MAX];
    size_t len;
} input;

static uint64_t rng;

/* A good file of any version, with its data when that is short. */
static void make_valid(input *in)
{
    static const char *const orders[] = {"True", "False"};
    static const struct {
        const char *text;
        uint64_t item_size;
    } descrs[] = {{"'<f4'", 4}, {"'<f8'", 8}, {"'=f4'", 4},   {"\"=f8\"", 8},
                  {"'<f2'", 2}, {"'<c8'", 8}, {"'<c16'", 16}, {"'<i4'", 4},
                  {"'|i1'", 1}, {"'|u1'", 1}, {"'<i8'", 8},   {"'|b1'", 1}};
    const unsigned major = 1 + random_below(&rng, 3);
    const size_t begin = major == 1 ? TRP__NPY_PREAMBLE_V1 : TRP__NPY_PREAMBLE_V2;
    const uint32_t rank = random_below(&rng, 9);
    char text[384], shape[200] = "(";
    uint64_t elements = 1;
    const uint32_t which = random_below(&rng, sizeof(descrs) / sizeof(descrs[0]));
    const char *descr = descrs[which].text;
    const char *order = orders[random_below(&rng, 2)];
    if (rank == 0) {
        strcat(shape, ")");
    }
    for (uint32_t i = 0; i < rank; i++) {
        const uint64_t dim = random_bits(&rng, 1, 56 / (rank ? rank : 1));
        const size_t at = strlen(shape);
        snprintf(shape + at, sizeof(shape) - at, "%" PRIu64 "%s", dim,
                 i + 1 < rank ? ", "
                 : rank == 1  ? ",)"
                              : ")");
        elements *= dim;
    }
    int text_len =
        random_below(&rng, 2) == 0
            ? snprintf(text, sizeof(text), "{'descr': %s, 'fortran_order': %s, 'shape': %s, }",
                       descr, order, shape)
            : snprintf(text, sizeof(text), "{\"shape\":%s,\"descr\":%s,\"fortran_order\":%s}",
                       shape, descr, order);
    size_t header = (size_t)text_len + random_below(&rng, 120);
    memset(in->bytes, ' ', sizeof(in->bytes));
    memcpy(in->bytes, magic, sizeof(magic));
    in->bytes[6] = (unsigned char)major;
    in->bytes[7] = 0;
    in->bytes[8] = (unsigned char)(header & 0xff);
    in->bytes[9] = (unsigned char)(header >> 8);
    if (major != 1) {
        in->bytes[10] = in->bytes[11] = 0;
    }
    memcpy(in->bytes + begin, text, (size_t)text_len);
    in->bytes[begin + header - 1] = (unsigned char)(header > (size_t)text_len ? '\n' : '}');
    in->len = begin + header;
    uint64_t data_bytes = elements * descrs[which].item_size;
    if (data_bytes < 1000) {
        in->len += (size_t)data_bytes;
    }
}

/* Puts `len` bytes in place of `cut` bytes at `at`. */
static void replace_bytes(input *in, size_t at, size_t cut, const unsigned char *bytes, size_t len)
{
    cut = cut > in->len - at ? in->len - at : cut;
    if (in->len - cut + len > sizeof(in->bytes)) {
        return;
    }
    memmove(in->bytes + at + len, in->bytes + at + cut, in->len - at - cut);
    memcpy(in->bytes + at, bytes, len);
    in->len = in->len - cut + len;
}

/* Makes the header length agree with an edit inside the dict, so that the edit is reached. */
static void mend_length(input *in, size_t old_len)
{
    if (in->len < TRP__NPY_PREAMBLE_V1) {
        return;
    }
    size_t header = in->bytes[8] | (size_t)in->bytes[9] << 8;
    header += in->len - old_len;
    in->bytes[8] = (unsigned char)(header & 0xff);
    in->bytes[9] = (unsigned char)(header >> 8 & 0xff);
}

static void mutate(input *in)
{
    static const char *const pieces[] = {
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ",",
        ":",
        "'",
        "\"",
        "\\",
        "\n",
        "True",
        "False",
        "None",
        "'descr'",
        "'shape'",
        "'fortran_order'",
        "'<f4'",
        "'<f8'",
        "'>f8'",
        "'|O'",
        "'<i4'",
        "'|u1'",
        "'<c16'",
        "'<f2'",
        "'>c8'",
        "[('x', '<f4')]",
        "0",
        "-1",
        "1L",
        "00",
        "+",
        "9223372036854775807",
        "1e9",
        "(),",
        "(3,)",
        "(1, 2, 3)",
        " ",
        "18446744073709551616",
        "'shape': (2, 2), ",
        "4611686018427387904",
        "\x93NUMPY",
        "2147483648",
    };
    const size_t piece_count = sizeof(pieces) / sizeof(pieces[0]);
    unsigned char scratch[64] = {0};
    const size_t old_len = in->len;
    const size_t at = in->len == 0 ? 0 : random_below(&rng, (uint32_t)in->len);
    const char *piece = pieces[random_below(&rng, (uint32_t)piece_count)];
    switch (random_below(&rng, 9)) {
    case 0: /* flip a bit */
        in->bytes[at] ^= (unsigned char)(1u << random_below(&rng, 8));
        break;
    case 1: /* any byte */
        in->bytes[at] = (unsigned char)random_next(&rng);
        break;
    case 2: /* cut some out */
        replace_bytes(in, at, 1 + random_below(&rng, 8), scratch, 0);
        break;
    case 3: /* the end is missing */
        in->len = at;
        return;
    case 4: /* put a piece in */
        replace_bytes(in, at, 0, (const unsigned char *)piece, strlen(piece));
        break;
    case 5: /* put a piece over */
        replace_bytes(in, at, strlen(piece), (const unsigned char *)piece, strlen(piece));
        break;
    case 6: { /* say something twice */
        size_t len = 1 + random_below(&rng, sizeof(scratch) - 1);
        len = len > in->len - at ? in->len - at : len;
        memcpy(scratch, in->bytes + at, len);
        replace_bytes(in, random_below(&rng, (uint32_t)in->len + 1), 0, scratch, len);
        break;
    }
    case 7: /* another digit for a digit */
        for (size_t i = at; i < in->len; i++) {
            if (is_digit(in->bytes[i])) {
                in->bytes[i] = (unsigned char)('0' + random_below(&rng, 10));
                break;
            }
        }
        break;
    default: { /* version and length */
        const size_t which = 6 + random_below(&rng, 6);
        in->bytes[which] = (unsigned char)random_bits(&rng, 1, 8);
        return;
    }
    }
    if (random_below(&rng, 4) != 0) {
        mend_length(in, old_len);
    }
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
    uint64_t iterations = DEFAULT_ITERATIONS, seed = 1, good = 0;
    if (argc > 3 || (argc > 1 && !read_number(argv[1], &iterations)) ||
        (argc > 2 && !read_number(argv[2], &seed))) {
        fprintf(stderr, "usage: %s [ITERATIONS [SEED]]\n", argv[0]);
        return 2;
    }
    printf("npy: %" PRIu64 " iterations, seed %" PRIu64 "\n", iterations, seed);
    rng = seed;
    input in;
    for (uint64_t i = 0; i < iterations; i++) {
        make_valid(&in);
        REQUIRE(try_copy(in.bytes, in.len));
        for (size_t n = 1 + random_below(&rng, 4); n > 0; n--) {
            mutate(&in);
        }
        good += try_copy(in.bytes, in.len);
    }
    printf("npy: %" PRIu64 " mutants still good, %" PRIu64 " refused\n", good, iterations - good);
    return 0;
}

#endif

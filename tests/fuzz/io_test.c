/*
 * Fuzzes the readers of files of arrays: headers of safetensors in memory, and whole files of every
 * format.
 *
 * With libFuzzer, which gets the bytes of a file:
 *   clang -DTRP_LIBFUZZER -fsanitize=fuzzer,address,undefined ... tests/fuzz/io_test.c
 * Alone, as a test that mutates valid files at random, the same ones for the same seed:
 *   io_test [ITERATIONS [SEED]]
 *
 * Any input must end in arrays that lie in the file, or in a printable message; a broken promise
 * stops the program with abort(), a wrong access is for the sanitizers to see.
 */
#include "io/file.h"
#include "support/reference/random.h"
#include "unit/io/deflated.h"
#include "support/label.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TROUPE_TEST("computes", "no tsan");

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "io: line %d: not so: %s\n", __LINE__, #condition);                    \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { READ_LIMIT = 1 << 20 };

static void require_message(const trp_error *error)
{
    const size_t length = strnlen(error->message, sizeof error->message);
    REQUIRE(error->status == TRP_E_ARGUMENT || error->status == TRP_E_UNSUPPORTED ||
            error->status == TRP_E_MISSING || error->status == TRP_E_MEMORY);
    REQUIRE(length > 0 && length < sizeof error->message);
    for (size_t i = 0; i < length; i++)
        REQUIRE(error->message[i] >= 0x20 && error->message[i] < 0x7f);
}

/* A memory file at a path of its own. */
static int file_fd;
static char file_path[64];

static void put_file(const unsigned char *data, size_t size)
{
    REQUIRE(ftruncate(file_fd, 0) == 0);
    REQUIRE(pwrite(file_fd, data, size, 0) == (ssize_t)size);
}

static void try_array(const trp_io_file *file, uint64_t index, size_t size)
{
    trp_io_array a;
    uint64_t found;
    REQUIRE(trp_io_get(file, index, &a) == TRP_OK);
    REQUIRE(trp_io_find(file, a.name, &found) == TRP_OK && found == index);
    REQUIRE(a.rank <= TRP_IO_RANK_MAX && a.bytes <= INT64_MAX);
    for (uint32_t i = 0; i < a.rank; i++)
        REQUIRE(a.dim[i] >= 0);
    /* Deflated arrays may be larger than the file, by 1032 at most. */
    REQUIRE(a.bytes <= (uint64_t)size * (trp_io_file_format(file) == TRP_IO_NPZ ? 1040 : 1));
    if (a.bytes > READ_LIMIT)
        return;
    void *target = malloc(a.bytes ? (size_t)a.bytes : 1);
    REQUIRE(target != NULL);
    if (trp_io_read(file, index, target, a.bytes, &(trp_io_options){.threads = 1}) != TRP_OK)
        require_message(trp_error_last());
    free(target);
}

static bool try_file(const unsigned char *data, size_t size)
{
    trp_io_file *file;
    put_file(data, size);
    if (trp_io_open(file_path, &file) != TRP_OK) {
        require_message(trp_error_last());
        return false;
    }
    for (uint64_t i = 0; i < trp_io_count(file); i++)
        try_array(file, i, size);
    trp_io_close(file);
    return true;
}

static void make_memory_file(void)
{
    file_fd = memfd_create("io-fuzz", MFD_CLOEXEC);
    REQUIRE(file_fd >= 0);
    snprintf(file_path, sizeof file_path, "/proc/self/fd/%d", file_fd);
}

#ifdef TRP_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (file_fd == 0)
        make_memory_file();
    try_file(data, size);
    return 0;
}

#else

/* A header of safetensors, in memory of just its size. */
static bool try_header(const unsigned char *text, size_t length, uint64_t data_bytes)
{
    trp_io_file file = {.format = TRP_IO_SAFETENSORS, .fd = -1};
    trp_error error = {0};
    uint64_t sum = 0;
    file.text = malloc(length + 1);
    REQUIRE(file.text != NULL);
    memcpy(file.text, text, length);
    const trp_status status =
        trp__io_parse_safetensors(&file, file.text, length, 1000, data_bytes, &error);
    REQUIRE((status == TRP_OK) == (error.status == TRP_OK));
    if (status != TRP_OK)
        require_message(&error);
    for (uint64_t i = 0; status == TRP_OK && i < file.count; i++) {
        const trp__io_entry *e = &file.entry[i];
        REQUIRE(e->offset >= 1000 && e->offset - 1000 <= data_bytes);
        REQUIRE(e->bytes <= data_bytes - (e->offset - 1000));
        REQUIRE(trp__io_is_utf8(e->name));
        sum += e->bytes;
    }
    REQUIRE(status != TRP_OK || sum == data_bytes); /* no byte twice, none without a tensor */
    trp__io_forget(&file);
    return status == TRP_OK;
}

enum { INPUT_MAX = 4096 };

typedef struct input {
    unsigned char bytes[INPUT_MAX];
    size_t length;
} input;

static uint64_t rng;

static void make_header(input *in, uint64_t *data_bytes)
{
    static const struct {
        const char *name;
        uint64_t bits;
    } types[] = {{"F64", 64}, {"F32", 32}, {"BF16", 16}, {"F8_E4M3", 8}, {"F4", 4}, {"I16", 16}};
    char *text = (char *)in->bytes;
    size_t at = (size_t)snprintf(text, INPUT_MAX, "{\"__metadata__\":{\"f\\u00fc\":\"pt\"}");
    uint64_t end = 0;
    const uint32_t count = random_below(&rng, 5);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t type = random_below(&rng, sizeof types / sizeof *types);
        const uint64_t a = random_bits(&rng, 1, 20), b = 2 * random_below(&rng, 100);
        const uint64_t bytes = a * b * types[type].bits / 8;
        at += (size_t)snprintf(text + at, INPUT_MAX - at,
                               ",\"t\\n%u\":{\"dtype\":\"%s\",\"shape\":[%" PRIu64 ",%" PRIu64
                               "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                               i, types[type].name, a, b, end, end + bytes);
        end += bytes;
    }
    text[at++] = '}';
    while (random_below(&rng, 4) != 0)
        text[at++] = ' ';
    in->length = at;
    *data_bytes = end;
}

static void make_file(input *in)
{
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_F16, TRP_U8, TRP_I64, TRP_C64};
    static const unsigned char data[1024];
    trp_io_item items[3];
    static const char *const names[] = {"a", "second", "e/f \xc3\xbc"};
    const trp_io_format format = TRP_IO_NPY + random_below(&rng, 3);
    const uint32_t count = format == TRP_IO_NPY ? 1 : random_below(&rng, 4);
    char path[64];
    if (random_below(&rng, 4) == 0) {
        memcpy(in->bytes, deflated_npz, sizeof deflated_npz);
        in->length = sizeof deflated_npz;
        return;
    }
    memset(items, 0, sizeof items);
    for (uint32_t i = 0; i < count; i++) {
        items[i].array.name = format == TRP_IO_NPY ? NULL : names[i];
        items[i].array.type = types[random_below(&rng, 6)];
        items[i].array.rank = random_below(&rng, 3);
        items[i].array.dim[0] = random_below(&rng, 9);
        items[i].array.dim[1] = random_below(&rng, 9);
        items[i].data = data;
    }
    snprintf(path, sizeof path, "io-fuzz-%ld", (long)getpid());
    REQUIRE(trp_io_save(path, items, count, &(trp_io_save_options){.format = format}) == TRP_OK);
    FILE *f = fopen(path, "rb");
    REQUIRE(f != NULL);
    in->length = fread(in->bytes, 1, INPUT_MAX, f);
    fclose(f);
    unlink(path);
}

/* Puts `length` bytes in place of `cut` bytes at `at`. */
static void replace_bytes(input *in, size_t at, size_t cut, const void *bytes, size_t length)
{
    cut = cut > in->length - at ? in->length - at : cut;
    if (in->length - cut + length > INPUT_MAX)
        return;
    memmove(in->bytes + at + length, in->bytes + at + cut, in->length - at - cut);
    memcpy(in->bytes + at, bytes, length);
    in->length = in->length - cut + length;
}

static void mutate(input *in)
{
    static const char *const pieces[] = {"{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "\"",
                                         "\\",
                                         "\\u0000",
                                         "\\ud83d\\ude00",
                                         "\\ud83d",
                                         "\xed\xa0",
                                         "0",
                                         "1",
                                         "-1",
                                         "1.5",
                                         "1e9",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "18446744073709551615",
                                         "\"dtype\"",
                                         "\"shape\":[0]",
                                         "\"data_offsets\":[0,0]",
                                         "\"F32\"",
                                         "\"F4\"",
                                         "\"U64\"",
                                         "\"C128\"",
                                         "__metadata__",
                                         "null",
                                         "\xff\xff\xff\xff",
                                         "PK\3\4",
                                         "PK\1\2",
                                         "PK\5\6",
                                         "PK\6\6",
                                         "PK\6\7",
                                         "\x93NUMPY",
                                         ".npy",
                                         "'descr'",
                                         "(1,)"};
    unsigned char scratch[64] = {0};
    const size_t at = in->length == 0 ? 0 : random_below(&rng, (uint32_t)in->length);
    const char *piece = pieces[random_below(&rng, sizeof pieces / sizeof *pieces)];
    if (in->length == 0)
        return;
    switch (random_below(&rng, 8)) {
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
        in->length = random_below(&rng, 4) == 0 ? at : in->length - 1;
        break;
    case 4: /* put a piece in */
        replace_bytes(in, at, 0, piece, strlen(piece));
        break;
    case 5: /* put a piece over */
        replace_bytes(in, at, strlen(piece), piece, strlen(piece));
        break;
    case 6: { /* say something twice */
        size_t length = 1 + random_below(&rng, sizeof scratch - 1);
        length = length > in->length - at ? in->length - at : length;
        memcpy(scratch, in->bytes + at, length);
        replace_bytes(in, random_below(&rng, (uint32_t)in->length + 1), 0, scratch, length);
        break;
    }
    default: /* another digit for a digit */
        for (size_t i = at; i < in->length; i++) {
            if (in->bytes[i] >= '0' && in->bytes[i] <= '9') {
                in->bytes[i] = (unsigned char)('0' + random_below(&rng, 10));
                break;
            }
        }
    }
}

static bool read_number(const char *text, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 0);
    return errno == 0 && end != text && *end == '\0' && *text != '-';
}

/* Files are made once in so many rounds: each is synced. */
enum { ROUNDS_A_FILE = 200 };

#if defined(__SANITIZE_ADDRESS__)
enum { DEFAULT_ITERATIONS = 15000 };
#else
enum { DEFAULT_ITERATIONS = 50000 };
#endif

int main(int argc, char **argv)
{
    uint64_t iterations = DEFAULT_ITERATIONS, seed = 1, good_headers = 0, good_files = 0;
    if (argc > 3 || (argc > 1 && !read_number(argv[1], &iterations)) ||
        (argc > 2 && !read_number(argv[2], &seed))) {
        fprintf(stderr, "usage: %s [ITERATIONS [SEED]]\n", argv[0]);
        return 2;
    }
    printf("io: %" PRIu64 " iterations, seed %" PRIu64 "\n", iterations, seed);
    rng = seed;
    make_memory_file();
    static input valid, in;
    for (uint64_t i = 0; i < iterations; i++) {
        uint64_t data_bytes;
        make_header(&in, &data_bytes);
        REQUIRE(try_header(in.bytes, in.length, data_bytes));
        for (size_t n = 1 + random_below(&rng, 4); n > 0; n--)
            mutate(&in);
        good_headers += try_header(in.bytes, in.length, data_bytes);

        if (i % ROUNDS_A_FILE == 0) {
            make_file(&valid);
            REQUIRE(try_file(valid.bytes, valid.length));
        }
        in = valid;
        for (size_t n = 1 + random_below(&rng, 4); n > 0; n--)
            mutate(&in);
        good_files += try_file(in.bytes, in.length);
    }
    close(file_fd);
    printf("io: still good: %" PRIu64 " headers, %" PRIu64 " files\n", good_headers, good_files);
    return 0;
}

#endif

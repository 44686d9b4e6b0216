/*
 * Fuzzes the text of epilogue trees.
 *
 * With libFuzzer:
 *   clang -DTRP_LIBFUZZER -fsanitize=fuzzer,address,undefined -I. -Iinclude -Icli \
 *     tests/fuzz/epilogue_test.c cli/ui/spell.c src/base/numbers/types.c -o epilogue_fuzz
 * Alone, as a test that mutates good texts at random, the same ones for the same seed:
 *   epilogue_fuzz [ITERATIONS [SEED]]
 *
 * Any text must end in a tree whose nodes come after their inputs and that prints and reads back,
 * or in a printable message with a caret; a broken promise stops the program with abort(), a wrong
 * access is for the sanitizers to see.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../../cli/commands/cutlass/epilogue.c"
#include "../../cli/commands/cutlass/epilogue_words.c"
#include "../unit/cli/epilogue_print.c"
#include "../support/reference/random.h"
#include "support/label.h"

#include <errno.h>
#include <inttypes.h>

TROUPE_TEST("no tsan");

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "epilogue: line %d: not so: %s\n", __LINE__, #condition);              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void require_message(const char *message, size_t size)
{
    size_t length = strnlen(message, size);
    REQUIRE(length > 0 && length < size);
    for (size_t i = 0; i < length; i++)
        REQUIRE((message[i] >= 0x20 && message[i] < 0x7f) || message[i] == '\n');
    REQUIRE(strncmp(message, "column ", 7) == 0);
    REQUIRE(message[length - 1] == '^');
}

static void require_sound(const epilogue *e)
{
    REQUIRE(e->count >= 2 && e->count <= TRP_EPILOGUE_NODES_MAX);
    REQUIRE(e->node[0].kind == TRP_EPILOGUE_NONE);
    for (uint32_t i = 1; i < e->count; i++) {
        REQUIRE(e->node[i].kind != TRP_EPILOGUE_NONE);
        for (uint32_t k = 0; k < TRP_EPILOGUE_INPUTS; k++)
            REQUIRE(e->node[i].input[k] < i);
        REQUIRE(strnlen(e->name[i], EPILOGUE_NAME_MAX) < EPILOGUE_NAME_MAX);
    }
}

/* True when the text is good. */
static bool try_text(const char *text)
{
    static epilogue e, again;
    static char printed[4 * EPILOGUE_TEXT_MAX], twice[4 * EPILOGUE_TEXT_MAX];
    char message[400], small[12];
    if (!epilogue_parse(text, &e, message, sizeof message)) {
        require_message(message, sizeof message);
        REQUIRE(!epilogue_parse(text, &again, small, sizeof small));
        REQUIRE(strnlen(small, sizeof small) < sizeof small);
        return false;
    }
    require_sound(&e);
    size_t length = epilogue_print(&e, printed, sizeof printed);
    REQUIRE(length == strlen(printed));
    /* A number that was written in several places is so again; a name for a shared value or for D
     * may be one node too many, and long texts one character. */
    if (!epilogue_parse(printed, &again, message, sizeof message)) {
        REQUIRE(strstr(message, "expected at most"));
        return true;
    }
    require_sound(&again);
    REQUIRE(epilogue_print(&again, twice, sizeof twice) == length);
    REQUIRE(strcmp(printed, twice) == 0);
    return true;
}

/* On a copy of just the right size, so that a sanitizer sees a read past the end. */
static bool try_copy(const char *data, size_t size)
{
    char *copy = malloc(size + 1);
    REQUIRE(copy != NULL);
    memcpy(copy, data, size);
    copy[size] = '\0';
    bool good = try_text(copy);
    free(copy);
    return good;
}

#ifdef TRP_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_copy((const char *)data, size);
    return 0;
}

#else

#if defined(__SANITIZE_ADDRESS__)
enum { DEFAULT_ITERATIONS = 20000 }; /* of which each takes longer */
#else
enum { DEFAULT_ITERATIONS = 60000 };
#endif

static uint64_t rng;

static const char *const good_texts[] = {
    "relu(alpha*acc + bias[row]) * scale[col]",
    "t = acc + bias[col]:bf16; z[row,col]:f16:rowmajor = t; s[row] = sum(t); gelu(t)",
    "clamp(leaky_relu(bf16(acc * a + a), 0.5), -1, 2)",
    "peak[] = amax(acc); f8e4m3(fma(alpha, acc, beta * c)) - x[row,col]",
    "scale_rows(scale_columns(acc, sb[col]:f16), sa[row]) / -2.5e-1",
    "-(-acc) + min(max(acc, 0), inf) - softplus(c, 2)",
    "t = relu(acc); s[col] = max(square(t)); t;",
};

static const char *const pieces[] = {
    "(",
    ")",
    "[",
    "]",
    ",",
    ";",
    "=",
    ":",
    "+",
    "-",
    "*",
    "/",
    "acc",
    "c",
    "t",
    "[row]",
    "[col]",
    "[row,col]",
    "[]",
    "relu(",
    "min(",
    "sum(",
    "fma(",
    "0.5",
    "1e99",
    ".",
    "e",
    "nan",
    "inf",
    ":bf16",
    ":rowmajor",
    "scale_rows(",
    "\n",
    "\xff",
    "9999999999999999999999999999",
    "bias",
    " ",
    "z[row,col] = ",
    "t = ",
    "acc+",
    "x",
    "((((((((",
    "--------",
};

/* Puts `size` bytes in place of `cut` bytes at `at` of a text of `length`; the new length. */
static size_t replace(char *text, size_t length, size_t at, size_t cut, const char *piece,
                      size_t size, size_t room)
{
    cut = cut > length - at ? length - at : cut;
    if (length - cut + size >= room)
        return length;
    memmove(text + at + size, text + at + cut, length - at - cut);
    memcpy(text + at, piece, size);
    return length - cut + size;
}

static size_t mutate(char *text, size_t length, size_t room)
{
    const char *piece = pieces[random_below(&rng, (uint32_t)COUNT_OF(pieces))];
    size_t at = length ? random_below(&rng, (uint32_t)length) : 0;
    char any = (char)(1 + random_below(&rng, 255)), copied[40];
    size_t size = 1 + random_below(&rng, 39);
    switch (random_below(&rng, 6)) {
    case 0:
        return replace(text, length, at, 1, &any, 1, room);
    case 1:
        return replace(text, length, at, 1 + random_below(&rng, 6), "", 0, room);
    case 2:
        return at;
    case 3:
        return replace(text, length, at, 0, piece, strlen(piece), room);
    case 4:
        return replace(text, length, at, strlen(piece), piece, strlen(piece), room);
    default:
        size = size > length - at ? length - at : size;
        memcpy(copied, text + at, size);
        return replace(text, length, random_below(&rng, (uint32_t)length + 1), 0, copied, size,
                       room);
    }
}

static bool read_count(const char *text, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 0);
    return errno == 0 && end != text && *end == '\0' && *text != '-';
}

int main(int argc, char **argv)
{
    uint64_t iterations = DEFAULT_ITERATIONS, seed = 1, good = 0;
    if (argc > 3 || (argc > 1 && !read_count(argv[1], &iterations)) ||
        (argc > 2 && !read_count(argv[2], &seed))) {
        fprintf(stderr, "usage: %s [ITERATIONS [SEED]]\n", argv[0]);
        return 2;
    }
    printf("epilogue: %" PRIu64 " iterations, seed %" PRIu64 "\n", iterations, seed);
    rng = seed;
    for (size_t i = 0; i < COUNT_OF(good_texts); i++)
        REQUIRE(try_copy(good_texts[i], strlen(good_texts[i])));
    for (uint64_t i = 0; i < iterations; i++) {
        char text[2 * EPILOGUE_TEXT_MAX];
        const char *from = good_texts[random_below(&rng, (uint32_t)COUNT_OF(good_texts))];
        size_t length = strlen(from);
        memcpy(text, from, length);
        for (uint32_t n = 1 + random_below(&rng, 6); n > 0; n--)
            length = mutate(text, length, sizeof text);
        good += try_copy(text, length);
    }
    printf("epilogue: %" PRIu64 " mutants still good, %" PRIu64 " refused\n", good,
           iterations - good);
    return 0;
}

#endif

#include "compile/include_scan.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The scan while it grows. Strings are offsets until the buffer stops moving; NONE is NULL. */

#define NONE SIZE_MAX

typedef struct found {
    trp__include_item_kind kind;
    bool all;
    size_t name, operand;
} found;

typedef struct reader {
    found *found;
    size_t count, room;
    char *strings;
    size_t bytes, bytes_room;
    bool in_define, in_condition;  /* context of the current position */
    const char *macro, *parameter; /* in_define: its name, and its only parameter or NULL */
    size_t macro_length, parameter_length;
    bool no_memory;
    trp__include_scan *out;
} reader;

static size_t keep(reader *r, const char *text, size_t length)
{
    size_t at = r->bytes;
    if (at + length + 1 > r->bytes_room) {
        size_t room = 2 * (r->bytes_room + length + 64);
        char *larger = realloc(r->strings, room);
        if (!larger) {
            r->no_memory = true;
            return NONE;
        }
        r->strings = larger;
        r->bytes_room = room;
    }
    memcpy(r->strings + at, text, length);
    r->strings[at + length] = '\0';
    r->bytes += length + 1;
    return at;
}

static void add(reader *r, found one)
{
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 16;
        found *larger = realloc(r->found, room * sizeof *larger);
        if (!larger) {
            r->no_memory = true;
            return;
        }
        r->found = larger;
        r->room = room;
    }
    r->found[r->count++] = one;
}

/* Words that ask for the path of a file. In a macro or a default argument they ask for the file
 * that uses it. */
static const struct {
    const char *word;
    bool elsewhere;
    bool in_parts; /* a macro can paste it together */
} asking[] = {
    {"__FILE__", false, true},
    {"assert", false, true},
    {"__BASE_FILE__", false, false}, /* pasted like __FILE__ */
    {"__FILE_NAME__", false, false},
    {"__builtin_FILE", true, true},
    {"__builtin_FILE_NAME", true, false},
    {"__builtin_source_location", true, true},
    {"source_location", true, false},
};

enum { ASKING = sizeof asking / sizeof *asking, PART_LEAST = 4 };

bool trp__jit_asks_for_paths(const char *text)
{
    for (size_t i = 0; i < ASKING; i++) {
        if (strstr(text, asking[i].word))
            return true;
    }
    return false;
}

/* Text. */

/* Tells whether a character belongs to a word. A table, since every byte of every header is
 * tested. */
static const bool word_characters[256] = {
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['_'] = true, ['$'] = true,
};

static inline bool is_word(char c)
{
    return word_characters[(unsigned char)c];
}

static size_t word_length(const char *at)
{
    size_t n = 0;
    while (is_word(at[n]))
        n++;
    return n;
}

static bool word_is(const char *at, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(at, word, length) == 0;
}

/* Returns the end of the comment at `at`, without the newline of a C++ comment. */
static const char *skip_comment(const char *at)
{
    if (at[1] == '/')
        return strchrnul(at, '\n');
    const char *end = strstr(at + 2, "*/");
    return end ? end + 2 : at + strlen(at);
}

static bool is_comment(const char *at)
{
    return at[0] == '/' && (at[1] == '/' || at[1] == '*');
}

/* Skips blanks and comments within the line. */
static const char *skip_blanks(const char *at)
{
    for (;;) {
        if (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\v' || *at == '\f')
            at++;
        else if (is_comment(at))
            at = skip_comment(at);
        else
            return at;
    }
}

/* Returns the end of a string or character literal; the end of the line also ends it. */
static const char *skip_literal(const char *at)
{
    char quote = *at++;
    while (*at && *at != '\n' && *at != quote)
        at += at[0] == '\\' && at[1] ? 2 : 1;
    return *at == quote ? at + 1 : at;
}

/* Returns the end of the raw string whose quote is at `at`. */
static const char *skip_raw(const char *at)
{
    char close[24] = ")";
    size_t n = strcspn(at + 1, "(\n");
    if (n > 16 || at[1 + n] != '(')
        return skip_literal(at);
    memcpy(close + 1, at + 1, n);
    close[1 + n] = '"';
    close[2 + n] = '\0';
    const char *end = strstr(at + 2 + n, close);
    return end ? end + strlen(close) : at + strlen(at);
}

/* Returns the length of "file" or <file> at `at`, quotes included; 0 if there is none. */
static size_t operand_length(const char *at)
{
    char close = *at == '"' ? '"' : *at == '<' ? '>' : '\0';
    if (!close)
        return 0;
    for (size_t n = 1; at[n] && at[n] != '\n'; n++) {
        if (at[n] == close)
            return n > 1 ? n + 1 : 0;
    }
    return 0;
}

/* Reading. */

/* Returns the length of a piece of a file name: words, slashes, points and dashes. */
static size_t part_length(const char *at)
{
    size_t n = 0;
    while (!is_comment(at + n) && (is_word(at[n]) || (at[n] && strchr("./-", at[n]))))
        n++;
    return n;
}

static bool line_ends(const char *at)
{
    at = skip_blanks(at);
    return *at == '\0' || *at == '\n';
}

/* Parses (ARGUMENT): sets *argument and returns its length, 0 if it is no piece of a file name. */
static size_t argument_length(const char *at, const char **argument)
{
    if (*at != '(')
        return 0;
    *argument = skip_blanks(at + 1);
    size_t length = part_length(*argument);
    return *skip_blanks(*argument + length) == ')' ? length : 0;
}

/* Notes the operand of #include or __has_include(). */
static void note_include(reader *r, const char *at, bool all)
{
    const char *argument = NULL;
    size_t length = operand_length(at);
    if (length > 0) {
        add(r, (found){TRP__JIT_INCLUDES, all, NONE, keep(r, at, length)});
        return;
    }
    length = word_length(at);
    const char *rest = skip_blanks(at + length);
    size_t of = length > 0 ? argument_length(rest, &argument) : 0;
    if (of > 0)
        rest = skip_blanks(skip_blanks(argument + of) + 1);
    if (length == 0 || (*rest && *rest != '\n' && *rest != ')'))
        r->out->unsure = true; /* no plain name */
    else if (r->in_define && length == r->parameter_length && of == 0 &&
             memcmp(at, r->parameter, length) == 0)
        add(r, (found){TRP__JIT_DEFINES_TEST, all, keep(r, r->macro, r->macro_length), NONE});
    else
        add(r, (found){TRP__JIT_INCLUDES_MACRO, all, keep(r, at, length),
                       of > 0 ? keep(r, argument, of) : NONE});
}

/* Stores a macro's body with TRP__JIT_PARAMETER in place of its parameter. */
static size_t keep_template(reader *r, const char *body, size_t length)
{
    size_t at = keep(r, body, length), to = at;
    if (at == NONE)
        return NONE;
    char *text = r->strings + at;
    bool literal = *text == '"';
    for (size_t i = 0; i < length;) {
        size_t word = literal ? 0 : word_length(text + i);
        if (word > 0 && word == r->parameter_length && memcmp(text + i, r->parameter, word) == 0)
            r->strings[to++] = TRP__JIT_PARAMETER;
        else
            for (size_t k = 0; k < (word ? word : 1); k++)
                r->strings[to++] = text[i + k];
        i += word ? word : 1;
    }
    r->strings[to] = '\0';
    return at;
}

/* Notes a definition; `at` is behind the macro's name. */
static void note_macro(reader *r, const char *at)
{
    found f = {TRP__JIT_DEFINES, false, keep(r, r->macro, r->macro_length), NONE};
    const char *body = skip_blanks(at);
    if (*at == '(') {
        size_t length = argument_length(at, &r->parameter);
        r->parameter_length = length == word_length(r->parameter) ? length : 0;
        body = r->parameter_length ? skip_blanks(r->parameter + length) + 1 : at;
        body = skip_blanks(body);
        f.kind = TRP__JIT_DEFINES_OF_ONE;
    }
    size_t length = operand_length(body);
    length = length ? length : part_length(body);
    bool known = length > 0 && line_ends(body + length);
    if (known && *at == '(')
        f.operand = r->parameter_length ? keep_template(r, body, length) : NONE;
    else if (known)
        f.operand = keep(r, body, length);
    add(r, f);
}

/* Reads a directive; `at` is behind the #. */
static void read_directive(reader *r, const char *at)
{
    at = skip_blanks(at);
    size_t length = word_length(at);
    const char *rest = skip_blanks(at + length);
    if (word_is(at, length, "include") || word_is(at, length, "import")) {
        note_include(r, rest, false);
    } else if (word_is(at, length, "include_next")) {
        note_include(r, rest, true);
    } else if (word_is(at, length, "embed")) {
        r->out->unsure = true;
    } else if (word_is(at, length, "define")) {
        r->in_define = true;
        r->macro = rest;
        r->macro_length = word_length(rest);
        r->parameter_length = 0;
        if (r->macro_length > 0)
            note_macro(r, rest + r->macro_length);
    } else if (word_is(at, length, "if") || word_is(at, length, "elif")) {
        r->in_condition = true;
    }
}

/* A set of the first four bytes of every part of those words, as a hash table of bits: it rejects
 * almost every word quickly. */

enum { PLACES = 2048 };
static bool begins_part[PLACES];
static pthread_once_t parts_once = PTHREAD_ONCE_INIT;

static uint32_t place_of_part(const char *at)
{
    uint32_t first;
    memcpy(&first, at, sizeof first);
    return first * UINT32_C(2654435761) >> 21;
}

_Static_assert(PART_LEAST == sizeof(uint32_t) && PLACES == 1 << (32 - 21), "as the hash has it");

static void list_parts(void)
{
    for (size_t i = 0; i < ASKING; i++) {
        for (size_t k = 0; asking[i].word[k + PART_LEAST - 1]; k++)
            begins_part[place_of_part(asking[i].word + k)] = true;
    }
}

/* Notes a word that asks for paths, or may be a part of one. */
static void note_word(reader *r, const char *at, size_t length)
{
    if (length < PART_LEAST || !begins_part[place_of_part(at)])
        return;
    for (size_t i = 0; i < ASKING; i++) {
        size_t whole = strlen(asking[i].word);
        if (length > whole)
            continue;
        if (length == whole && memcmp(at, asking[i].word, whole) == 0) {
            if (asking[i].elsewhere || r->in_define)
                r->out->asks_elsewhere = true;
            else
                r->out->asks_here = true;
        } else if (asking[i].in_parts && memmem(asking[i].word, whole, at, length)) {
            r->out->has_parts = true;
        }
    }
}

/* Notes a call of a macro that may test for a file. */
static void note_call(reader *r, const char *at, size_t length)
{
    const char *open = skip_blanks(at + length);
    if (*open != '(' || word_is(at, length, "defined") || word_is(at, length, "__has_include") ||
        (r->in_define && at == r->macro)) /* its parameters */
        return;
    const char *argument = skip_blanks(open + 1);
    size_t operand = operand_length(argument);
    if (operand > 0 && *skip_blanks(argument + operand) == ')')
        add(r, (found){TRP__JIT_CALLS, false, keep(r, at, length), keep(r, argument, operand)});
    else if (*argument != ')')
        add(r, (found){TRP__JIT_CALLS, false, keep(r, at, length), NONE});
}

/* Returns the end of a number such as 0x1'000 or 1.5f. */
static const char *skip_number(const char *at)
{
    while (is_word(*at) || *at == '.' || (*at == '\'' && is_word(at[1])))
        at++;
    return at;
}

/* Tells whether a word is the prefix of a raw string. */
static bool is_raw_prefix(const char *at, size_t length)
{
    static const char *const prefixes[] = {"R", "LR", "uR", "UR", "u8R"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (word_is(at, length, prefixes[i]))
            return true;
    }
    return false;
}

/* Notes __has_include() and words whose value no file determines. */
static void note_underscored(reader *r, const char *at, size_t length)
{
    const char *open = skip_blanks(at + length);
    if (word_is(at, length, "__has_include") || word_is(at, length, "__has_include_next")) {
        if (*open == '(')
            note_include(r, skip_blanks(open + 1), length > 13);
        else if (r->in_define)
            r->out->unsure = true; /* by another name */
    } else if (word_is(at, length, "__DATE__") || word_is(at, length, "__TIME__") ||
               word_is(at, length, "__TIMESTAMP__")) {
        r->out->unsure = true;
    }
}

static const char *read_word(reader *r, const char *at)
{
    if (isdigit((unsigned char)*at))
        return skip_number(at);
    size_t length = word_length(at);
    const char *rest = at + length;
    if (at[0] == '_' && at[1] == '_')
        note_underscored(r, at, length);
    if (r->in_define || r->in_condition)
        note_call(r, at, length);
    if (*rest == '"' && is_raw_prefix(at, length))
        return skip_raw(rest);
    note_word(r, at, length);
    return rest;
}

static const char *read_hash(reader *r, const char *at, bool line_begins)
{
    size_t length = *at == '#' ? 1 : 2;
    if (line_begins)
        read_directive(r, at + length);
    else if (at[length] == *at)
        r->out->pastes = true;
    return at + length;
}

static void read_text(reader *r, const char *text)
{
    bool line_begins = true;
    pthread_once(&parts_once, list_parts);
    for (const char *at = text; *at;) {
        if (is_word(*at)) {
            line_begins = false;
            at = read_word(r, at);
        } else if (*at == ' ' || *at == '\t') {
            at++;
        } else if (is_comment(at)) {
            at = skip_comment(at);
        } else if (*at == '\n') {
            line_begins = true;
            r->in_define = r->in_condition = false;
            at++;
        } else if (isspace((unsigned char)*at)) {
            at++;
        } else if (*at == '#' || (at[0] == '%' && at[1] == ':')) {
            at = read_hash(r, at, line_begins);
            line_begins = false;
        } else {
            line_begins = false;
            at = *at == '"' || *at == '\'' ? skip_literal(at) : at + 1;
        }
    }
}

/* Copies a text without its spliced lines. */
static char *unspliced(const char *text, size_t bytes)
{
    char *plain = malloc(bytes + 1), *to = plain;
    for (const char *at = text; plain && *at;) {
        const char *next = strchrnul(at, '\\');
        to = mempcpy(to, at, (size_t)(next - at));
        size_t splice = next[0] == '\0'                      ? 0
                        : next[1] == '\n'                    ? 2
                        : next[1] == '\r' && next[2] == '\n' ? 3
                                                             : 0;
        if (splice == 0 && *next)
            *to++ = *next++;
        at = next + splice;
    }
    if (plain)
        *to = '\0';
    return plain;
}

static const char *string_at(const reader *r, size_t at)
{
    return at == NONE ? NULL : r->strings + at;
}

/* Moves the findings into the result, calls behind all others. */
static bool finish(reader *r)
{
    trp__include_scan *f = r->out;
    trp__include_item *item = calloc(r->count + 1, sizeof *item);
    size_t n = 0;
    if (!item)
        return false;
    for (int calls = 0; calls < 2; calls++) {
        for (size_t i = 0; i < r->count; i++) {
            if ((r->found[i].kind == TRP__JIT_CALLS) == calls)
                item[n++] = (trp__include_item){.kind = r->found[i].kind,
                                                .all = r->found[i].all,
                                                .name = string_at(r, r->found[i].name),
                                                .operand = string_at(r, r->found[i].operand)};
        }
        if (!calls)
            f->count = n;
    }
    f->calls = n - f->count;
    f->item = item;
    f->strings = r->strings;
    r->strings = NULL;
    return true;
}

const trp__include_scan *trp__include_scan_text(const char *text, size_t bytes)
{
    reader r = {.out = calloc(1, sizeof *r.out)};
    char *plain = unspliced(text, bytes);
    bool ok = r.out && plain;
    if (ok) {
        atomic_init(&r.out->holders, 1);
        r.out->content = trp__hash_of(text, bytes);
        /* A zero byte hides what follows it; trigraphs, which old language versions have, can spell
         * # and \\ differently. */
        r.out->unsure = strlen(text) != bytes ||
                        strstr(plain, "?"
                                      "?=") ||
                        strstr(plain, "?"
                                      "?/");
        read_text(&r, plain);
        ok = !r.no_memory && finish(&r);
    }
    free(plain);
    free(r.found);
    free(r.strings);
    if (!ok)
        free(r.out);
    return ok ? r.out : NULL;
}

void trp__include_scan_release(const trp__include_scan *scan)
{
    trp__include_scan *f = (trp__include_scan *)(uintptr_t)scan;
    if (!f || atomic_fetch_sub(&f->holders, 1) > 1)
        return;
    free((void *)(uintptr_t)f->item);
    free(f->strings);
    free(f);
}

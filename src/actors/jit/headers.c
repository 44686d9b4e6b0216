#include "actors/jit/headers.h"

#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MOST ((off_t)64 << 20) /* a header that is larger is none */

/* Something to read for includes. */
typedef struct source {
    char *text;   /* without spliced lines; owned */
    char *folder; /* where what it includes in quotes is looked for first; NULL: nowhere */
    bool memory;  /* `folder` is part of the names of headers in memory */
} source;

/* A name that a macro stands for: #define NAME "file", or anything else. */
typedef struct macro {
    char *name;
    char *operand; /* "file" or <file> with its quotes; NULL: something else */
} macro;

/* #include NAME, to be looked at when all definitions are known. */
typedef struct indirect {
    char *name;
    size_t source;
    size_t done; /* definitions that it was tried with */
} indirect;

typedef struct tracer {
    const trp__jit_program *program;
    trp__jit_headers *out;
    source *sources;
    macro *macros;
    indirect *indirects;
    size_t source_count, macro_count, indirect_count;
    size_t source_room, macro_room, indirect_room;
    bool no_memory;
} tracer;

/* Growing arrays; on a lack of memory all goes on, and is found out at the end. */
static void *grown(tracer *t, void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    size_t wanted = *room ? 2 * *room : 16;
    void *larger = realloc(array, wanted * size);
    if (larger)
        *room = wanted;
    else
        t->no_memory = true;
    return larger ? larger : array;
}

static char *copied(tracer *t, const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    if (!copy) {
        t->no_memory = true;
        return NULL;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

static char *joined(tracer *t, const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    else
        t->no_memory = true;
    return path;
}

static char *folder_of(tracer *t, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? copied(t, path, slash > path ? (size_t)(slash - path) : 1) : NULL;
}

/* Adds a text, without its spliced lines; takes `folder`. */
static void add_source(tracer *t, const char *text, char *folder, bool memory)
{
    char *plain = copied(t, text, strlen(text)), *to = plain;
    t->sources = grown(t, t->sources, t->source_count, &t->source_room, sizeof *t->sources);
    if (!plain || t->source_count == t->source_room) {
        free(plain);
        free(folder);
        return;
    }
    for (const char *at = text; *at;) {
        if (at[0] == '\\' && at[1] == '\n')
            at += 2;
        else if (at[0] == '\\' && at[1] == '\r' && at[2] == '\n')
            at += 3;
        else
            *to++ = *at++;
    }
    *to = '\0';
    t->sources[t->source_count++] = (source){.text = plain, .folder = folder, .memory = memory};
}

/* Rows. */

static bool has_row(const trp__jit_headers *h, trp__jit_found kind, const char *name)
{
    for (size_t i = 0; i < h->count; i++) {
        if (h->row[i].kind == kind && strcmp(h->row[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Takes `name`. */
static void add_row(tracer *t, trp__jit_found kind, char *name, trp__hash content)
{
    trp__jit_headers *h = t->out;
    h->row = grown(t, h->row, h->count, &h->capacity, sizeof *h->row);
    if (!name || h->count == h->capacity) {
        free(name);
        return;
    }
    h->row[h->count++] = (trp__jit_header_row){.kind = kind, .name = name, .content = content};
}

/* A header in memory of this name, if there is one. */
static void look_in_memory(tracer *t, const char *name)
{
    const trp__jit_program *p = t->program;
    for (uint32_t i = 0; i < p->header_count; i++) {
        if (strcmp(p->headers[i].name, name) != 0)
            continue;
        if (has_row(t->out, TRP__JIT_FOUND_MEMORY, name))
            return;
        const char *text = p->headers[i].text;
        size_t length = strlen(text);
        add_row(t, TRP__JIT_FOUND_MEMORY, copied(t, name, strlen(name)),
                trp__hash_of(text, length));
        add_source(t, text, folder_of(t, name), true);
        return;
    }
}

/* The content of a file, terminated; NULL with errno ENOENT: there is none. */
static char *read_whole(tracer *t, const char *path, size_t *bytes)
{
    struct stat st;
    char *text = NULL;
    size_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MOST) {
        errno = S_ISDIR(st.st_mode) ? ENOENT : EFBIG;
        goto out;
    }
    text = malloc((size_t)st.st_size + 1);
    if (!text) {
        t->no_memory = true;
        goto out;
    }
    while (got < (size_t)st.st_size) {
        ssize_t n = read(fd, text + got, (size_t)st.st_size - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    text[got] = '\0';
    *bytes = got;
out:
    close(fd);
    return text;
}

/* A file at `path`, which is taken; whether there is one. */
static bool look_at_file(tracer *t, char *path)
{
    size_t bytes = 0;
    if (!path)
        return false;
    if (has_row(t->out, TRP__JIT_FOUND_FILE, path)) {
        free(path);
        return true;
    }
    errno = 0;
    char *text = read_whole(t, path, &bytes);
    if (!text) {
        if (errno != ENOENT && errno != ENOTDIR)
            t->out->unsure = true;
        if (has_row(t->out, TRP__JIT_FOUND_NONE, path))
            free(path);
        else
            add_row(t, TRP__JIT_FOUND_NONE, path, (trp__hash){0});
        return false;
    }
    add_source(t, text, folder_of(t, path), false);
    add_row(t, TRP__JIT_FOUND_FILE, path, trp__hash_of(text, bytes));
    free(text);
    return true;
}

/* Everything that an #include may find. A header in memory and the first file both count, whichever
 * of them the compiler prefers; `all`: it may be any of the files. */
static void resolve(tracer *t, const char *name, bool quotes, bool all, size_t from)
{
    const trp__jit_program *p = t->program;
    const source s = t->sources[from]; /* the array may move */
    char *folder = s.folder ? copied(t, s.folder, strlen(s.folder)) : NULL;
    look_in_memory(t, name);
    if (folder && s.memory) {
        char *beside = joined(t, folder, name);
        if (beside)
            look_in_memory(t, beside);
        free(beside);
    }
    if (name[0] == '/') {
        look_at_file(t, copied(t, name, strlen(name)));
        free(folder);
        return;
    }
    bool found = quotes && folder && !s.memory && look_at_file(t, joined(t, folder, name));
    for (uint32_t i = 0; i < p->include_count && (!found || all); i++)
        found = look_at_file(t, joined(t, p->includes[i], name)) || found;
    free(folder);
}

/* Reading. */

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
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

/* The end of a comment that begins at `at`; its newline, if it is one of C++, is left. */
static const char *skip_comment(const char *at)
{
    if (at[1] == '/') {
        while (*at && *at != '\n')
            at++;
        return at;
    }
    const char *end = strstr(at + 2, "*/");
    return end ? end + 2 : at + strlen(at);
}

static bool is_comment(const char *at)
{
    return at[0] == '/' && (at[1] == '/' || at[1] == '*');
}

/* Blanks and comments, up to the end of the line. */
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

/* The end of a string or character; they end with their line, whatever is missing. */
static const char *skip_literal(const char *at)
{
    char quote = *at++;
    while (*at && *at != '\n' && *at != quote)
        at += at[0] == '\\' && at[1] ? 2 : 1;
    return *at == quote ? at + 1 : at;
}

/* The end of a raw string whose quote is at `at`. */
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

/* "file" or <file> at `at`: its length with the quotes, 0 if it is none. */
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

static void resolve_operand(tracer *t, const char *at, size_t length, bool all, size_t from)
{
    char *name = copied(t, at + 1, length - 2);
    if (name)
        resolve(t, name, *at == '"', all, from);
    free(name);
}

/* What stands behind #include or in __has_include(). */
static void note_include(tracer *t, const char *at, bool all, size_t from)
{
    size_t length = operand_length(at);
    if (length > 0) {
        resolve_operand(t, at, length, all, from);
        return;
    }
    length = word_length(at);
    const char *rest = skip_blanks(at + length);
    if (length == 0 || (*rest && *rest != '\n' && *rest != ')')) {
        t->out->unsure = true; /* no plain name */
        return;
    }
    t->indirects =
        grown(t, t->indirects, t->indirect_count, &t->indirect_room, sizeof *t->indirects);
    char *name = copied(t, at, length);
    if (!name || t->indirect_count == t->indirect_room) {
        free(name);
        return;
    }
    t->indirects[t->indirect_count++] = (indirect){.name = name, .source = from};
}

/* A definition: `at` is behind the macro's name. */
static void note_macro(tracer *t, const char *name, size_t length, const char *at)
{
    t->macros = grown(t, t->macros, t->macro_count, &t->macro_room, sizeof *t->macros);
    char *copy = copied(t, name, length);
    if (!copy || t->macro_count == t->macro_room) {
        free(copy);
        return;
    }
    macro m = {.name = copy};
    if (*at != '(') {
        at = skip_blanks(at);
        size_t operand = operand_length(at);
        const char *rest = operand ? skip_blanks(at + operand) : at;
        if (operand && (*rest == '\0' || *rest == '\n'))
            m.operand = copied(t, at, operand);
    }
    t->macros[t->macro_count++] = m;
}

/* A directive: `at` is behind its #. */
static void read_directive(tracer *t, const char *at, size_t from)
{
    at = skip_blanks(at);
    size_t length = word_length(at);
    const char *rest = skip_blanks(at + length);
    if (word_is(at, length, "include") || word_is(at, length, "import")) {
        note_include(t, rest, false, from);
    } else if (word_is(at, length, "include_next")) {
        note_include(t, rest, true, from);
    } else if (word_is(at, length, "embed")) {
        t->out->unsure = true;
    } else if (word_is(at, length, "define")) {
        size_t name = word_length(rest);
        if (name > 0)
            note_macro(t, rest, name, rest + name);
    }
}

static const char *read_word(tracer *t, const char *at, size_t from)
{
    size_t length = word_length(at);
    const char *rest = at + length;
    if (word_is(at, length, "__has_include") || word_is(at, length, "__has_include_next")) {
        const char *open = skip_blanks(rest);
        if (*open == '(')
            note_include(t, skip_blanks(open + 1), length > 13, from);
    }
    if (*rest == '"' && length <= 3 && at[length - 1] == 'R')
        return skip_raw(rest);
    if (*rest == '\'' && isdigit((unsigned char)*at))
        return rest + 1; /* of a number, 1'000 */
    return rest;
}

static void read_source(tracer *t, size_t from)
{
    bool line_begins = true;
    for (const char *at = t->sources[from].text; *at;) {
        if (is_comment(at)) {
            at = skip_comment(at);
        } else if (*at == '\n') {
            line_begins = true;
            at++;
        } else if (isspace((unsigned char)*at)) {
            at++;
        } else if (line_begins && (*at == '#' || (at[0] == '%' && at[1] == ':'))) {
            at += *at == '#' ? 1 : 2;
            read_directive(t, at, from);
            line_begins = false;
        } else {
            line_begins = false;
            at = is_word(*at)                ? read_word(t, at, from)
                 : *at == '"' || *at == '\'' ? skip_literal(at)
                                             : at + 1;
        }
    }
}

/* Options. */

/* What follows `option` in options[*i], or the next one; NULL: it is another option. */
static const char *value_of(const trp__jit_program *p, uint32_t *i, const char *option)
{
    const char *one = p->options[*i];
    size_t length = strlen(option);
    if (!one || strncmp(one, option, length) != 0)
        return NULL;
    if (one[length] == '=')
        return one + length + 1;
    if (one[length] != '\0') /* -DNAME, but not -Dummy of another option that begins alike */
        return length == 2 ? one + length : NULL;
    return *i + 1 < p->option_count ? p->options[++*i] : NULL;
}

static void read_options(tracer *t)
{
    static const char *const defining[] = {"--define-macro", "-D"};
    static const char *const including[] = {"--pre-include", "-include"};
    const trp__jit_program *p = t->program;
    for (uint32_t i = 0; i < p->option_count; i++) {
        const char *value = NULL;
        for (int k = 0; k < 2 && !value; k++) {
            value = value_of(p, &i, defining[k]);
            size_t length = value ? word_length(value) : 0;
            if (length > 0)
                note_macro(t, value, length, value[length] == '=' ? value + length + 1 : "");
        }
        for (int k = 0; k < 2 && !value; k++) {
            value = value_of(p, &i, including[k]);
            if (value) {
                size_t before = t->out->count;
                resolve(t, value, true, false, 0);
                /* What is not in memory the compiler looks for in the current folder of its
                 * process, before include_paths. */
                bool memory =
                    t->out->count > before && t->out->row[before].kind == TRP__JIT_FOUND_MEMORY;
                t->out->unsure = t->out->unsure || (!memory && value[0] != '/');
            }
        }
    }
}

/* Tries each name that stands for a header with the definitions that there are by now; whether
 * there was anything new. */
static bool read_indirects(tracer *t)
{
    bool any = false;
    for (size_t i = 0; i < t->indirect_count; i++) {
        const char *name = t->indirects[i].name;
        size_t source_number = t->indirects[i].source;
        for (; t->indirects[i].done < t->macro_count; t->indirects[i].done++) {
            const macro *m = &t->macros[t->indirects[i].done];
            if (strcmp(m->name, name) != 0 || !m->operand)
                continue;
            any = true;
            resolve_operand(t, m->operand, strlen(m->operand), true, source_number);
        }
    }
    return any;
}

/* Whether each name has definitions, all of which are names of files. */
static bool all_known(const tracer *t)
{
    for (size_t i = 0; i < t->indirect_count; i++) {
        bool known = false;
        for (size_t k = 0; k < t->macro_count; k++) {
            if (strcmp(t->macros[k].name, t->indirects[i].name) != 0)
                continue;
            known = true;
            if (!t->macros[k].operand)
                return false;
        }
        if (!known)
            return false;
    }
    return true;
}

static void free_tracer(tracer *t)
{
    for (size_t i = 0; i < t->source_count; i++) {
        free(t->sources[i].text);
        free(t->sources[i].folder);
    }
    for (size_t i = 0; i < t->macro_count; i++) {
        free(t->macros[i].name);
        free(t->macros[i].operand);
    }
    for (size_t i = 0; i < t->indirect_count; i++)
        free(t->indirects[i].name);
    free(t->sources);
    free(t->macros);
    free(t->indirects);
}

trp_status trp__jit_headers_trace(const trp__jit_program *program, trp__jit_headers *out,
                                  trp_error *error)
{
    tracer t = {.program = program, .out = out};
    size_t read = 0;
    add_source(&t, program->source.text, folder_of(&t, program->source.name), false);
    if (t.source_count > 0)
        read_options(&t);
    do {
        while (read < t.source_count)
            read_source(&t, read++);
    } while (read_indirects(&t) || read < t.source_count);
    out->unsure = out->unsure || !all_known(&t);
    free_tracer(&t);
    if (!t.no_memory)
        return TRP_OK;
    trp__jit_headers_free(out);
    return trp__error_set(error, TRP_E_MEMORY, "no memory for a list of headers");
}

void trp__jit_headers_free(trp__jit_headers *headers)
{
    for (size_t i = 0; i < headers->count; i++)
        free(headers->row[i].name);
    free(headers->row);
    *headers = (trp__jit_headers){0};
}

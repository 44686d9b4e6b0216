/* The compiles of `troupe cache warm` and `troupe cache pack`:
 *
 *     # a source, then words in any order
 *     scale.cu  -DN=4 --use_fast_math --name "scale<float, 4>" --name &table
 *     norm.cu   --include include --as norm.cu --output ptx
 *
 * The words of a line become fields of a trp_jit_compile_request in the same order: the kernel
 * cache only matches requests that are equal in all of them. */
#include "kernels.h"

#include "ui/lines.h"
#include "ui/ui.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A line being parsed. */
typedef struct reader {
    kernel *k;
    const char *folder;
    char *error;
    size_t error_size;
} reader;

#define wrong(r, ...) lines_wrong((r)->error, (r)->error_size, __VA_ARGS__)

static bool add(reader *r, kernel_list *list, const char *item)
{
    if (!item)
        return wrong(r, "out of memory");
    if (list != &r->k->owned && list->count == TRP_JIT_OPTIONS_MAX)
        return wrong(r, "'%.60s': expected at most %d of its kind", item, TRP_JIT_OPTIONS_MAX);
    const char **more = lines_room(list->item, list->count, sizeof *list->item);
    if (!more)
        return wrong(r, "out of memory");
    list->item = more;
    list->item[list->count++] = item;
    return true;
}

/* Words. */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Takes the next word off *at, in place and without quotes; NULL behind the last. False: an open
 * quote. */
static bool next_word(char **at, char **word)
{
    char *from = *at, quote = '\0';
    while (is_space(*from))
        from++;
    char *to = *word = from;
    if (*from == '\0' || *from == '#') {
        *word = NULL;
        *at = from;
        return true;
    }
    for (; *from && (quote || !is_space(*from)); from++) {
        if (quote ? *from == quote : *from == '"' || *from == '\'')
            quote = quote ? '\0' : *from;
        else
            *to++ = *from;
    }
    *at = from + (*from != '\0');
    *to = '\0';
    return quote == '\0';
}

/* Resolves a relative path from the file's folder. */
static const char *place(reader *r, const char *path)
{
    char *joined = NULL;
    if (path[0] == '/' || !r->folder)
        return path;
    if (asprintf(&joined, "%s/%s", r->folder, path) < 0)
        return NULL;
    if (add(r, &r->k->owned, joined))
        return joined;
    free(joined);
    return NULL;
}

static bool set_name(reader *r, char *value)
{
    return add(r, &r->k->names, value);
}

static bool set_include(reader *r, char *value)
{
    return add(r, &r->k->includes, place(r, value));
}

static bool set_header(reader *r, char *value)
{
    char *equals = strchr(value, '=');
    if (!equals || equals == value || !equals[1])
        return wrong(r, "'%.60s': expected --header NAME=PATH", value);
    *equals = '\0';
    return add(r, &r->k->header_names, value) && add(r, &r->k->header_paths, place(r, equals + 1));
}

static bool set_as(reader *r, char *value)
{
    r->k->name = value;
    return true;
}

static bool set_output(reader *r, char *value)
{
    static const char *const outputs[] = {[TRP_JIT_CUBIN] = "cubin",
                                          [TRP_JIT_PTX] = "ptx",
                                          [TRP_JIT_LTOIR] = "ltoir",
                                          [TRP_JIT_CUBIN_LTO] = "cubin-lto"};
    for (int i = TRP_JIT_CUBIN; i <= TRP_JIT_CUBIN_LTO; i++) {
        r->k->output = (trp_jit_output)i;
        if (!strcmp(value, outputs[i]))
            return true;
    }
    return wrong(r, "'%.60s': expected --output cubin, ptx, ltoir or cubin-lto", value);
}

static bool set_portable(reader *r, char *value)
{
    (void)value;
    r->k->portable = true;
    return true;
}

static const struct {
    const char *key, *argument; /* argument NULL: a flag */
    bool (*set)(reader *r, char *value);
} keys[] = {
    {"--name", "EXPRESSION", set_name},
    {"--include", "DIR", set_include},
    {"--header", "NAME=PATH", set_header},
    {"--as", "NAME", set_as},
    {"--output", "cubin, ptx, ltoir or cubin-lto", set_output},
    {"--portable", NULL, set_portable},
};

/* Reads a word, and the next one if that is its value. */
static bool read_word(reader *r, char *word, char **rest)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t length = strlen(keys[i].key);
        if (strncmp(word, keys[i].key, length) != 0 || (word[length] && word[length] != '='))
            continue;
        if (!keys[i].argument)
            return word[length] ? wrong(r, "'%.60s': expected nothing behind %s", word, keys[i].key)
                                : keys[i].set(r, NULL);
        char *value = word[length] ? word + length + 1 : NULL;
        if (!value && !next_word(rest, &value))
            return wrong(r, "a quote has no end");
        return value && *value
                   ? keys[i].set(r, value)
                   : wrong(r, "'%s': expected %s behind it", keys[i].key, keys[i].argument);
    }
    if (word[0] == '-')
        return add(r, &r->k->options, word);
    return wrong(
        r,
        "'%.60s': expected an option, --name, --include, --header, --as, --output or "
        "--portable; the line has a source already (an option and its value are one word: -DN=4)",
        word);
}

/* Copies the line without its comment and surrounding blanks. */
static char *trimmed(const char *line, size_t length)
{
    while (length > 0 && is_space(line[length - 1]))
        length--;
    while (length > 0 && is_space(*line)) {
        line++;
        length--;
    }
    return strndup(line, length);
}

bool kernel_parse(const char *line, const char *folder, kernel *out, char *error, size_t size)
{
    reader r = {out, folder, error, size};
    char *word;
    *out = (kernel){.words = strdup(line)};
    char *rest = out->words;
    if (!rest)
        return wrong(&r, "out of memory");
    for (;;) {
        if (!next_word(&rest, &word))
            return wrong(&r, "a quote has no end");
        if (!word)
            break;
        if (out->path) {
            if (!read_word(&r, word, &rest))
                return false;
        } else if (word[0] == '-' || word[0] == '\0') {
            return wrong(&r, "'%.60s': expected the path of a source first", word);
        } else if (!(out->path = place(&r, word))) {
            return wrong(&r, "out of memory");
        }
    }
    out->text = trimmed(line, (size_t)(rest - out->words));
    out->line = out->path != NULL;
    return out->text || wrong(&r, "out of memory");
}

/* Files. */

/* Reads a text file; the caller frees it. */
static char *read_text(reader *r, const char *path)
{
    struct stat s;
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "re");
    if (!file || fstat(fileno(file), &s) != 0) {
        wrong(r, "%.160s: %s", path, strerror(errno));
    } else if (!S_ISREG(s.st_mode) || (uint64_t)s.st_size > TRP_JIT_SOURCE_MAX) {
        wrong(r, "%.160s: expected a file of at most %s", path, ui_bytes(TRP_JIT_SOURCE_MAX).s);
    } else {
        size = (size_t)s.st_size;
        text = malloc(size + 1);
        if (!text || fread(text, 1, size, file) != size) {
            wrong(r, "%.160s: %s", path, text ? "it can't be read" : "out of memory");
            free(text);
            text = NULL;
        }
    }
    if (text)
        text[size] = '\0';
    if (text && strlen(text) != size) {
        wrong(r, "%.160s: expected text, got a zero byte in it", path);
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    return text;
}

/* Reads the source and the headers in memory. */
static bool kernel_read(kernel *k, char *error, size_t size)
{
    reader r = {k, NULL, error, size};
    k->source = read_text(&r, k->path);
    if (!k->source)
        return false;
    k->headers = calloc(k->header_names.count + 1u, sizeof *k->headers);
    if (!k->headers)
        return wrong(&r, "out of memory");
    for (uint32_t i = 0; i < k->header_names.count; i++) {
        char *text = read_text(&r, k->header_paths.item[i]);
        if (!text)
            return false;
        k->headers[i] = (trp_jit_header){k->header_names.item[i], text};
        if (!add(&r, &k->owned, text)) {
            free(text);
            return false;
        }
    }
    return true;
}

trp_jit_compile_request kernel_request(const kernel *k, const char *architecture)
{
    return (trp_jit_compile_request){
        .source = k->source,
        .name = k->name,
        .headers = k->headers,
        .header_count = k->header_names.count,
        .include_paths = k->includes.item,
        .include_count = k->includes.count,
        .options = k->options.item,
        .option_count = k->options.count,
        .names = k->names.item,
        .name_count = k->names.count,
        .architecture = architecture,
        .output = k->output,
        .portable = k->portable,
    };
}

void kernel_end(kernel *k)
{
    enum { LISTS = 6 };
    kernel_list *const lists[LISTS] = {&k->options,      &k->includes,     &k->names,
                                       &k->header_names, &k->header_paths, &k->owned};
    for (uint32_t i = 0; i < k->owned.count; i++)
        free((void *)(uintptr_t)k->owned.item[i]);
    for (size_t i = 0; i < LISTS; i++)
        free(lists[i]->item);
    free(k->source);
    free(k->headers);
    free(k->words);
    free(k->text);
    *k = (kernel){0};
}

void kernels_end(kernel *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        kernel_end(&all[i]);
    free(all);
}

typedef struct reading {
    const char *folder; /* of the file; NULL: the current one */
    kernel *all;
    size_t count;
} reading;

static bool take_line(void *context, const char *line, int number, char *error, size_t size)
{
    reading *read = context;
    kernel k, *more = NULL;
    bool ok = kernel_parse(line, read->folder, &k, error, size);
    bool any = ok && k.line != 0;
    k.line = number;
    if (any)
        ok = kernel_read(&k, error, size);
    if (any && ok && !(more = lines_room(read->all, read->count, sizeof k)))
        ok = lines_wrong(error, size, "out of memory");
    if (!more) {
        kernel_end(&k);
        return ok;
    }
    read->all = more;
    read->all[read->count++] = k;
    return true;
}

bool kernels_read_file(const char *path, kernel **out, size_t *count)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1) : NULL;
    reading read = {.folder = folder};
    bool ok = !slash || folder;
    if (!ok)
        ui_error("%s: out of memory", path);
    ok = ok && lines_read(path, take_line, &read);
    *out = read.all;
    *count = read.count;
    free(folder);
    return ok;
}

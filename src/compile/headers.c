#include "compile/headers.h"

#include "base/checksum.h"
#include "base/error.h"
#include "compile/ahead.h"
#include "compile/folders.h"
#include "compile/header_rows.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A folder: its path here, and its name independent of where it lies. Both NULL: none. */
typedef struct place {
    char *path, *name;
} place;

/* A text whose includes are to be followed. */
typedef struct source {
    const trp__include_scan *scan;
    place folder; /* searched first for includes in quotes */
    bool memory;  /* `folder.path` is part of the names of headers in memory */
    size_t tests; /* tests whose calls in this text were followed */
} source;

/* A definition of a macro. */
typedef struct macro {
    const trp__include_item *item;
    size_t next; /* next in the chain of a bucket; 0: none, else index + 1 */
} macro;

/* #include NAME or NAME(ARGUMENT), resolved when all definitions are known. */
typedef struct indirect {
    const trp__include_item *item;
    size_t source;
    size_t done;  /* number of definitions when it was last resolved */
    bool unknown; /* may stand for something else than a file */
} indirect;

enum { MACRO_PLACES = 4096, EXPANSIONS_MOST = 16 };

typedef struct tracer {
    const trp__jit_program *program;
    trp__jit_headers *out;
    source *sources;
    macro *macros;
    indirect *indirects;
    const trp__include_item **tests; /* macros that test for a file */
    size_t source_count, macro_count, indirect_count, test_count;
    size_t source_room, macro_room, indirect_room, test_room;
    trp__jit_folders folders;
    size_t *macro_first;          /* MACRO_PLACES buckets; NULL: no macro is known */
    bool pastes, has_parts, asks; /* of any text */
    bool no_memory;
} tracer;

/* Grows an array. A lack of memory sets no_memory, which is checked at the end. */
static void *grown(tracer *t, void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    size_t wanted = *room ? 2 * *room : 64;
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

/* Returns the folder of a path or name; NULL: it has none. */
static char *folder_of(tracer *t, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? copied(t, path, slash > path ? (size_t)(slash - path) : 1) : NULL;
}

/* Adds a text to follow; owns `scan` and the folder's strings. */
static void add_source(tracer *t, const trp__include_scan *scan, place folder, bool memory)
{
    t->sources = grown(t, t->sources, t->source_count, &t->source_room, sizeof *t->sources);
    if (!scan || t->source_count == t->source_room) {
        t->no_memory = true;
        trp__include_scan_release(scan);
        free(folder.path);
        free(folder.name);
        return;
    }
    t->out->unsure = t->out->unsure || scan->unsure;
    t->pastes = t->pastes || scan->pastes;
    t->has_parts = t->has_parts || scan->has_parts;
    t->asks = t->asks || scan->asks_elsewhere;
    t->sources[t->source_count++] = (source){.scan = scan, .folder = folder, .memory = memory};
}

static bool same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Adds a row; owns its strings. False: no memory. */
static bool add_row(tracer *t, trp__jit_header_row row)
{
    trp__jit_headers *h = t->out;
    h->row = grown(t, h->row, h->count, &h->capacity, sizeof *h->row);
    bool room = 2 * h->count < h->slots || trp__jit_rows_grow(h);
    if (!room || !row.name || h->count == h->capacity) {
        t->no_memory = true;
        free(row.name);
        free(row.path);
        return false;
    }
    h->row[h->count] = row;
    trp__jit_row_note(h, h->count++);
    return true;
}

/* Adds the header in memory of this name, if there is one. */
static void look_in_memory(tracer *t, const char *name)
{
    const trp__jit_program *p = t->program;
    for (uint32_t i = 0; i < p->header_count; i++) {
        if (strcmp(p->headers[i].name, name) != 0)
            continue;
        if (trp__jit_row_find(t->out, true, name))
            return;
        const trp__include_scan *scan =
            trp__include_scan_text(p->headers[i].text, strlen(p->headers[i].text));
        if (scan)
            add_row(t, (trp__jit_header_row){.kind = TRP__JIT_FOUND_MEMORY,
                                             .name = copied(t, name, strlen(name)),
                                             .content = scan->content,
                                             .same_as = t->out->count});
        add_source(t, scan, (place){.path = folder_of(t, name)}, true);
        return;
    }
}

/* Files. */

typedef struct spot {
    char path[PATH_MAX], name[PATH_MAX];
} spot;

/* Joins "folder/name". False: longer than any path. */
static bool join_one(char out[PATH_MAX], const char *folder, const char *name, size_t length)
{
    size_t first = strlen(folder);
    if (first + length + 2 > PATH_MAX)
        return false;
    memcpy(out, folder, first);
    out[first] = '/';
    memcpy(out + first + 1, name, length + 1);
    return true;
}

static bool join(spot *s, const char *path, const char *name, const char *rest)
{
    size_t length = strlen(rest);
    return join_one(s->path, path, rest, length) && join_one(s->name, name, rest, length);
}

/* Follows a file unless it was followed from the same folder under another name: names with ".."
 * could recur for ever. Owns `scan`. */
static void follow_file(tracer *t, const spot *s, const trp__jit_header_row *row,
                        const trp__include_scan *scan)
{
    const trp__jit_headers *h = t->out;
    place beside = {folder_of(t, s->path), folder_of(t, s->name)};
    char *first = row->same_as < h->count ? folder_of(t, h->row[row->same_as].path) : NULL;
    if (first && beside.path && same_folder(first, beside.path)) {
        trp__include_scan_release(scan);
        free(beside.path);
        free(beside.name);
    } else {
        add_source(t, scan, beside, false);
    }
    free(first);
}

/* Tells whether a file exists, and adds its row. `folder`: it is in one of include_paths. */
static bool look_at_file(tracer *t, const spot *s, bool folder)
{
    trp__jit_headers *h = t->out;
    const trp__jit_header_row *known = trp__jit_row_find(h, false, s->name);
    const trp__include_scan *scan;
    bool settled;
    if (known)
        return known->kind == TRP__JIT_FOUND_FILE;
    trp__jit_header_row row = {.kind = TRP__JIT_FOUND_NONE,
                               .name = copied(t, s->name, strlen(s->name)),
                               .path = copied(t, s->path, strlen(s->path)),
                               .same_as = h->count};
    trp__jit_file file = trp__jit_folders_lack(&t->folders, s->path)
                             ? TRP__JIT_FILE_NONE
                             : trp__include_scan_file(s->path, &scan, &row.stamp, &settled);
    t->no_memory = t->no_memory || file == TRP__JIT_FILE_NO_MEMORY;
    if (file == TRP__JIT_FILE_UNREADABLE)
        h->unsure = true;
    if (file == TRP__JIT_FILE_READ) {
        row.kind = TRP__JIT_FOUND_FILE;
        row.content = scan->content;
        row.same_as = trp__jit_row_of_file(h, &row.stamp);
        h->settled = h->settled && settled;
        h->folders = h->folders || folder;
        t->asks = t->asks || (folder && scan->asks_here);
        follow_file(t, s, &row, scan);
    }
    return add_row(t, row) && file == TRP__JIT_FILE_READ;
}

/* Adds everything that an #include may find. Both a header in memory and the first file count,
 * since the compiler's preference is not modelled; `all`: any of the files. */
static void resolve(tracer *t, const char *name, bool quotes, bool all, size_t from)
{
    const trp__jit_program *p = t->program;
    const source s = t->sources[from]; /* copied, since the array may move */
    bool found = false;
    char folder[32];
    spot at;
    look_in_memory(t, name);
    if (s.memory && s.folder.path && join(&at, s.folder.path, "", name))
        look_in_memory(t, at.path);
    if (name[0] == '/') {
        if (snprintf(at.path, sizeof at.path, "%s", name) < (int)sizeof at.path) {
            memcpy(at.name, at.path, sizeof at.name);
            look_at_file(t, &at, false);
        }
        return;
    }
    if (quotes && !s.memory && s.folder.path && join(&at, s.folder.path, s.folder.name, name))
        found = look_at_file(t, &at, strncmp(s.folder.name, "include_paths[", 14) == 0);
    for (uint32_t i = 0; i < p->include_count && (!found || all); i++) {
        snprintf(folder, sizeof folder, "include_paths[%u]", i);
        if (join(&at, p->includes[i], folder, name))
            found = look_at_file(t, &at, true) || found;
    }
}

/* Resolves "file" or <file>. */
static void resolve_operand(tracer *t, const char *operand, bool all, size_t from)
{
    char name[PATH_MAX];
    size_t length = strlen(operand) - 2;
    if (length >= sizeof name)
        return; /* no file has such a name */
    memcpy(name, operand + 1, length);
    name[length] = '\0';
    resolve(t, name, *operand == '"', all, from);
}

/* Following. */

static void note_indirect(tracer *t, const trp__include_item *item, size_t from)
{
    t->indirects =
        grown(t, t->indirects, t->indirect_count, &t->indirect_room, sizeof *t->indirects);
    if (t->indirect_count < t->indirect_room)
        t->indirects[t->indirect_count++] =
            (indirect){.item = item, .source = from, .done = SIZE_MAX};
}

static size_t *first_macro(tracer *t, const char *name, size_t length)
{
    return &t->macro_first[trp__checksum(name, length) % MACRO_PLACES];
}

static void note_macro(tracer *t, const trp__include_item *item)
{
    t->macros = grown(t, t->macros, t->macro_count, &t->macro_room, sizeof *t->macros);
    if (t->macro_count == t->macro_room)
        return;
    if (!t->macro_first && !(t->macro_first = calloc(MACRO_PLACES, sizeof *t->macro_first))) {
        t->no_memory = true;
        return;
    }
    size_t *first = first_macro(t, item->name, strlen(item->name));
    t->macros[t->macro_count++] = (macro){item, *first};
    *first = t->macro_count;
}

static void note_test(tracer *t, const trp__include_item *item)
{
    t->tests = grown(t, (void *)t->tests, t->test_count, &t->test_room, sizeof(void *));
    if (t->test_count < t->test_room)
        t->tests[t->test_count++] = item;
}

static void follow(tracer *t, size_t from)
{
    const trp__include_scan *scan = t->sources[from].scan;
    for (size_t i = 0; i < scan->count; i++) {
        const trp__include_item *f = &scan->item[i];
        switch (f->kind) {
        case TRP__JIT_INCLUDES:
            resolve_operand(t, f->operand, f->all, from);
            break;
        case TRP__JIT_INCLUDES_MACRO:
            note_indirect(t, f, from);
            break;
        case TRP__JIT_DEFINES:
        case TRP__JIT_DEFINES_OF_ONE:
            note_macro(t, f);
            break;
        case TRP__JIT_DEFINES_TEST:
            note_test(t, f);
            break;
        case TRP__JIT_CALLS: /* read_tests() handles these */
            break;
        }
    }
}

/* Returns the next definition of a name from `at` on, as index + 1; 0 if there is none. */
static size_t next_macro(tracer *t, size_t at, const char *name, size_t length)
{
    for (; at != 0; at = t->macros[at - 1].next) {
        const char *other = t->macros[at - 1].item->name;
        if (strncmp(other, name, length) == 0 && other[length] == '\0')
            return at;
    }
    return 0;
}

static size_t find_macro(tracer *t, const char *name, size_t length)
{
    size_t first = t->macro_first ? *first_macro(t, name, length) : 0;
    return next_macro(t, first, name, length);
}

static size_t word_at(const char *text)
{
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == '$')
        n++;
    return n;
}

/* Finds the first word of a file name that is a macro; false: there is none. Nothing is replaced
 * inside "quotes". */
static bool find_word(tracer *t, const char *text, size_t *at, size_t *length)
{
    if (*text == '"')
        return false;
    for (*at = 0; text[*at]; *at += *length ? *length : 1) {
        *length = word_at(text + *at);
        if (*length > 0 && find_macro(t, text + *at, *length))
            return true;
    }
    return false;
}

/* Copies `text` with `length` bytes at `at` replaced. False: too long. */
static bool replace(const char *text, size_t at, size_t length, const char *by, char out[PATH_MAX])
{
    int n = snprintf(out, PATH_MAX, "%.*s%s%s", (int)at, text, by, text + at + length);
    return n > 0 && n < PATH_MAX;
}

/* Resolves every file that a text with macros may stand for. False: it may stand for something
 * else, for instance a macro of the compiler (two leading underscores). */
static bool expand(tracer *t, const char *text, size_t from, int depth)
{
    char next[PATH_MAX];
    size_t at = 0, length = 0;
    if (!find_word(t, text, &at, &length)) {
        bool whole = *text == '"' || (*text == '<' && !strstr(text, "__"));
        if (whole)
            resolve_operand(t, text, true, from);
        return whole;
    }
    bool known = depth < EXPANSIONS_MOST;
    for (size_t m = find_macro(t, text + at, length); m && known;) {
        const trp__include_item *f = t->macros[m - 1].item;
        known = f->kind == TRP__JIT_DEFINES && f->operand &&
                replace(text, at, length, f->operand, next) && expand(t, next, from, depth + 1);
        m = next_macro(t, t->macros[m - 1].next, f->name, length);
    }
    return known;
}

/* Expands a definition of a macro of one parameter. */
static bool expand_call(tracer *t, const trp__include_item *definition, const char *argument,
                        size_t from)
{
    char first[PATH_MAX], second[PATH_MAX], *text = first, *next = second;
    const char *parameter;
    if (!definition->operand || snprintf(text, PATH_MAX, "%s", definition->operand) >= PATH_MAX)
        return false;
    while ((parameter = strchr(text, TRP__JIT_PARAMETER)) != NULL) {
        if (!replace(text, (size_t)(parameter - text), 1, argument, next))
            return false;
        char *last = text;
        text = next;
        next = last;
    }
    return expand(t, text, from, 0);
}

/* Options. */

/* Returns the value of `option` in options[*i] or the next one; NULL: another option. */
static const char *value_of(const trp__jit_program *p, uint32_t *i, const char *option)
{
    const char *one = p->options[*i];
    size_t length = strlen(option);
    if (!one || strncmp(one, option, length) != 0)
        return NULL;
    if (one[length] == '=')
        return one + length + 1;
    if (one[length] != '\0') /* only a one-letter option may have its value attached */
        return length == 2 ? one + length : NULL;
    return *i + 1 < p->option_count ? p->options[++*i] : NULL;
}

/* Treats -DNAME=VALUE as the line "#define NAME VALUE". */
static void define(tracer *t, const char *value)
{
    char *line = NULL;
    const char *equals = strchr(value, '=');
    int length = asprintf(&line, "#define %.*s %s\n",
                          (int)(equals ? equals - value : (ptrdiff_t)strlen(value)), value,
                          equals ? equals + 1 : "1");
    if (length < 0)
        t->no_memory = true;
    else
        add_source(t, trp__include_scan_text(line, (size_t)length), (place){0}, false);
    free(length < 0 ? NULL : line);
}

static void read_options(tracer *t)
{
    static const char *const defining[] = {"--define-macro", "-D"};
    static const char *const including[] = {"--pre-include", "-include"};
    const trp__jit_program *p = t->program;
    for (uint32_t i = 0; i < p->option_count; i++) {
        const char *value = NULL;
        t->asks = t->asks || trp__jit_asks_for_paths(p->options[i]);
        for (int k = 0; k < 2 && !value; k++) {
            value = value_of(p, &i, defining[k]);
            if (value)
                define(t, value);
        }
        for (int k = 0; k < 2 && !value; k++) {
            value = value_of(p, &i, including[k]);
            if (value) {
                size_t before = t->out->count;
                resolve(t, value, true, false, 0);
                /* The compiler looks for other files in the current folder of its process, before
                 * include_paths. */
                bool memory =
                    t->out->count > before && t->out->row[before].kind == TRP__JIT_FOUND_MEMORY;
                t->out->unsure = t->out->unsure || (!memory && value[0] != '/');
            }
        }
    }
}

/* Resolves includes by macro with the definitions known so far, again when there are more. Returns
 * whether there were any. *known: each stands for files alone. */
static bool read_indirects(tracer *t, bool *known)
{
    bool any = false;
    for (size_t i = 0; i < t->indirect_count; i++) {
        const indirect n = t->indirects[i];
        if (n.done == t->macro_count)
            continue;
        any = true;
        t->indirects[i].done = t->macro_count;
        size_t length = strlen(n.item->name), m = find_macro(t, n.item->name, length);
        bool good = m != 0;
        for (; m && good; m = next_macro(t, t->macros[m - 1].next, n.item->name, length)) {
            const trp__include_item *f = t->macros[m - 1].item;
            if (!n.item->operand)
                good =
                    f->kind == TRP__JIT_DEFINES && f->operand && expand(t, f->operand, n.source, 0);
            else
                good = f->kind == TRP__JIT_DEFINES_OF_ONE &&
                       expand_call(t, f, n.item->operand, n.source);
        }
        t->indirects[i].unknown = !good;
    }
    for (size_t i = 0; i < t->indirect_count; i++)
        *known = *known && !t->indirects[i].unknown;
    return any;
}

/* Resolves calls of macros that test for files. Returns whether there were any. */
static bool read_tests(tracer *t)
{
    bool any = false;
    for (size_t i = 0; i < t->source_count; i++) {
        for (; t->sources[i].tests < t->test_count; t->sources[i].tests++) {
            const char *name = t->tests[t->sources[i].tests]->name;
            const trp__include_scan *scan = t->sources[i].scan;
            any = true;
            for (size_t k = 0; k < scan->calls; k++) {
                const trp__include_item *f = &scan->item[scan->count + k];
                if (strcmp(f->name, name) != 0)
                    continue;
                if (f->operand)
                    resolve_operand(t, f->operand, true, i);
                else
                    t->out->unsure = true;
            }
        }
    }
    return any;
}

static void free_tracer(tracer *t)
{
    for (size_t i = 0; i < t->source_count; i++) {
        trp__include_scan_release(t->sources[i].scan);
        free(t->sources[i].folder.path);
        free(t->sources[i].folder.name);
    }
    free(t->sources);
    free(t->macros);
    free(t->macro_first);
    trp__jit_folders_free(&t->folders);
    free(t->indirects);
    free((void *)t->tests);
    free(t);
}

/* The source's own folder: its path is part of the source's name, which is in every key. */
static place folder_of_source(tracer *t, const char *name)
{
    place p = {.path = folder_of(t, name)};
    if (p.path)
        p.name = copied(t, "beside the source", 17);
    return p;
}

trp_status trp__jit_headers_trace(const trp__jit_program *program, trp__jit_headers *out,
                                  trp_error *error)
{
    const trp__jit_text *own = &program->source;
    tracer *t = calloc(1, sizeof *t);
    bool known = true, lacking = !t;
    size_t read = 0;
    if (t) {
        trp__jit_headers_ahead(program);
        *t = (tracer){.program = program, .out = out};
        out->settled = true;
        add_source(t, trp__include_scan_text(own->text, strlen(own->text)),
                   folder_of_source(t, own->name), false);
        if (t->source_count > 0)
            read_options(t);
        do {
            while (read < t->source_count)
                follow(t, read++);
            known = true;
        } while (read_tests(t) || read_indirects(t, &known) || read < t->source_count);
        out->unsure = out->unsure || !known;
        out->placed = out->folders && (t->asks || (t->pastes && t->has_parts));
        lacking = t->no_memory;
        free_tracer(t);
    }
    if (!lacking)
        return TRP_OK;
    trp__jit_headers_free(out);
    return trp__error_set(error, TRP_E_MEMORY, "no memory for a list of headers");
}

void trp__jit_headers_free(trp__jit_headers *headers)
{
    for (size_t i = 0; i < headers->count; i++) {
        free(headers->row[i].name);
        free(headers->row[i].path);
    }
    free(headers->row);
    free(headers->slot);
    *headers = (trp__jit_headers){0};
}

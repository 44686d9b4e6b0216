#include "actors/jit/headers.h"

#include "base/checksum.h"
#include "base/error.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A folder, where it lies, and what it is called wherever it lies. Both NULL: none. */
typedef struct place {
    char *path, *name;
} place;

/* Something whose facts are to be followed. */
typedef struct source {
    const trp__jit_facts *facts;
    place folder; /* where what it includes in quotes is looked for first */
    bool memory;  /* `folder.path` is part of the names of headers in memory */
} source;

/* A name that a macro stands for, as facts have it. */
typedef struct macro {
    const char *name, *operand;
} macro;

/* #include NAME, to be looked at when all definitions are known. */
typedef struct indirect {
    const char *name;
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
    bool pastes, has_parts, asks; /* of any text */
    bool no_memory;
} tracer;

/* Growing arrays; on a lack of memory all goes on, and is found out at the end. */
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

/* The folder of a path or name; NULL: it has none. */
static char *folder_of(tracer *t, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? copied(t, path, slash > path ? (size_t)(slash - path) : 1) : NULL;
}

/* Takes facts and folder. */
static void add_source(tracer *t, const trp__jit_facts *facts, place folder, bool memory)
{
    t->sources = grown(t, t->sources, t->source_count, &t->source_room, sizeof *t->sources);
    if (!facts || t->source_count == t->source_room) {
        t->no_memory = true;
        trp__jit_facts_release(facts);
        free(folder.path);
        free(folder.name);
        return;
    }
    t->out->unsure = t->out->unsure || facts->unsure;
    t->pastes = t->pastes || facts->pastes;
    t->has_parts = t->has_parts || facts->has_parts;
    t->asks = t->asks || facts->asks_elsewhere;
    t->sources[t->source_count++] = (source){.facts = facts, .folder = folder, .memory = memory};
}

/* Rows, found by their names in a table of twice as many places. */

static size_t *slot_of(const trp__jit_headers *h, bool memory, const char *name)
{
    size_t at = trp__checksum(name, strlen(name)) + memory;
    for (;; at++) {
        size_t *slot = &h->slot[at & (h->slots - 1)];
        if (*slot == 0)
            return slot;
        const trp__jit_header_row *row = &h->row[*slot - 1];
        if ((row->kind == TRP__JIT_FOUND_MEMORY) == memory && strcmp(row->name, name) == 0)
            return slot;
    }
}

static const trp__jit_header_row *find_row(const trp__jit_headers *h, bool memory, const char *name)
{
    size_t slot = h->slots ? *slot_of(h, memory, name) : 0;
    return slot ? &h->row[slot - 1] : NULL;
}

/* The first row of a file, in the second half of the table. */
static size_t *slot_of_file(const trp__jit_headers *h, const trp__jit_stamp *stamp)
{
    const uint64_t file[2] = {stamp->device, stamp->inode};
    for (size_t at = trp__checksum(file, sizeof file);; at++) {
        size_t *slot = &h->slot[h->slots + (at & (h->slots - 1))];
        if (*slot == 0)
            return slot;
        const trp__jit_stamp *other = &h->row[*slot - 1].stamp;
        if (other->device == stamp->device && other->inode == stamp->inode)
            return slot;
    }
}

static void fill_slots(trp__jit_headers *h, size_t row)
{
    const trp__jit_header_row *r = &h->row[row];
    *slot_of(h, r->kind == TRP__JIT_FOUND_MEMORY, r->name) = row + 1;
    if (r->kind == TRP__JIT_FOUND_FILE && r->same_as == row)
        *slot_of_file(h, &r->stamp) = row + 1;
}

static bool grow_slots(trp__jit_headers *h)
{
    size_t wanted = h->slots ? 2 * h->slots : 128;
    size_t *slot = calloc(2 * wanted, sizeof *slot);
    if (!slot)
        return false;
    free(h->slot);
    h->slot = slot;
    h->slots = wanted;
    for (size_t i = 0; i < h->count; i++)
        fill_slots(h, i);
    return true;
}

/* Another name of a file, through a link or a second folder, may tell the compiler that it has read
 * it (#pragma once): its first row, or the next one. */
static size_t first_of_file(const trp__jit_headers *h, const trp__jit_stamp *stamp)
{
    size_t slot = h->slots ? *slot_of_file(h, stamp) : 0;
    return slot ? slot - 1 : h->count;
}

static bool same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Takes the row's strings. False: there is no memory. */
static bool add_row(tracer *t, trp__jit_header_row row)
{
    trp__jit_headers *h = t->out;
    h->row = grown(t, h->row, h->count, &h->capacity, sizeof *h->row);
    bool room = 2 * h->count < h->slots || grow_slots(h);
    if (!room || !row.name || h->count == h->capacity) {
        t->no_memory = true;
        free(row.name);
        free(row.path);
        return false;
    }
    h->row[h->count] = row;
    fill_slots(h, h->count++);
    return true;
}

/* A header in memory of this name, if there is one. */
static void look_in_memory(tracer *t, const char *name)
{
    const trp__jit_program *p = t->program;
    for (uint32_t i = 0; i < p->header_count; i++) {
        if (strcmp(p->headers[i].name, name) != 0)
            continue;
        if (find_row(t->out, true, name))
            return;
        const trp__jit_facts *facts =
            trp__jit_facts_of(p->headers[i].text, strlen(p->headers[i].text));
        if (facts)
            add_row(t, (trp__jit_header_row){.kind = TRP__JIT_FOUND_MEMORY,
                                             .name = copied(t, name, strlen(name)),
                                             .content = facts->content,
                                             .same_as = t->out->count});
        add_source(t, facts, (place){.path = folder_of(t, name)}, true);
        return;
    }
}

/* Files. */

typedef struct spot {
    char path[PATH_MAX], name[PATH_MAX];
} spot;

/* "folder/name" twice. False: it is too long for any file to be there. */
static bool join(spot *s, const char *path, const char *name, const char *rest)
{
    int a = snprintf(s->path, sizeof s->path, "%s/%s", path, rest);
    int b = snprintf(s->name, sizeof s->name, "%s/%s", name, rest);
    return a > 0 && (size_t)a < sizeof s->path && b > 0 && (size_t)b < sizeof s->name;
}

/* Follows a file that was found, unless it was followed from the same folder by another name: names
 * with ".." in them could go on for ever. Takes the facts. */
static void follow_file(tracer *t, const spot *s, const trp__jit_header_row *row,
                        const trp__jit_facts *facts)
{
    const trp__jit_headers *h = t->out;
    place beside = {folder_of(t, s->path), folder_of(t, s->name)};
    char *first = row->same_as < h->count ? folder_of(t, h->row[row->same_as].path) : NULL;
    if (first && beside.path && same_folder(first, beside.path)) {
        trp__jit_facts_release(facts);
        free(beside.path);
        free(beside.name);
    } else {
        add_source(t, facts, beside, false);
    }
    free(first);
}

/* Whether there is a file. `folder`: it is in one of include_paths. */
static bool look_at_file(tracer *t, const spot *s, bool folder)
{
    trp__jit_headers *h = t->out;
    const trp__jit_header_row *known = find_row(h, false, s->name);
    const trp__jit_facts *facts;
    bool settled;
    if (known)
        return known->kind == TRP__JIT_FOUND_FILE;
    trp__jit_header_row row = {.kind = TRP__JIT_FOUND_NONE,
                               .name = copied(t, s->name, strlen(s->name)),
                               .path = copied(t, s->path, strlen(s->path)),
                               .same_as = h->count};
    trp__jit_file file = trp__jit_facts_of_file(s->path, &facts, &row.stamp, &settled);
    t->no_memory = t->no_memory || file == TRP__JIT_FILE_NO_MEMORY;
    if (file == TRP__JIT_FILE_UNREADABLE)
        h->unsure = true;
    if (file == TRP__JIT_FILE_READ) {
        row.kind = TRP__JIT_FOUND_FILE;
        row.content = facts->content;
        row.same_as = first_of_file(h, &row.stamp);
        h->settled = h->settled && settled;
        h->folders = h->folders || folder;
        t->asks = t->asks || (folder && facts->asks_here);
        follow_file(t, s, &row, facts);
    }
    return add_row(t, row) && file == TRP__JIT_FILE_READ;
}

/* Everything that an #include may find. A header in memory and the first file both count, whichever
 * of them the compiler prefers; `all`: it may be any of the files. */
static void resolve(tracer *t, const char *name, bool quotes, bool all, size_t from)
{
    const trp__jit_program *p = t->program;
    const source s = t->sources[from]; /* the array may move */
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

/* "file" or <file>. */
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

static void note_indirect(tracer *t, const char *name, size_t from)
{
    t->indirects =
        grown(t, t->indirects, t->indirect_count, &t->indirect_room, sizeof *t->indirects);
    if (t->indirect_count < t->indirect_room)
        t->indirects[t->indirect_count++] = (indirect){.name = name, .source = from};
}

static void note_macro(tracer *t, const char *name, const char *operand)
{
    t->macros = grown(t, t->macros, t->macro_count, &t->macro_room, sizeof *t->macros);
    if (t->macro_count < t->macro_room)
        t->macros[t->macro_count++] = (macro){name, operand};
}

static void follow(tracer *t, size_t from)
{
    const trp__jit_facts *facts = t->sources[from].facts;
    for (size_t i = 0; i < facts->count; i++) {
        const trp__jit_fact *f = &facts->fact[i];
        switch (f->kind) {
        case TRP__JIT_INCLUDES:
            resolve_operand(t, f->operand, f->all, from);
            break;
        case TRP__JIT_INCLUDES_MACRO:
            note_indirect(t, f->name, from);
            break;
        case TRP__JIT_DEFINES:
            note_macro(t, f->name, f->operand);
            break;
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

/* -DNAME=VALUE is a line of a source: #define NAME VALUE. */
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
        add_source(t, trp__jit_facts_of(line, (size_t)length), (place){0}, false);
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
            if (value)
                resolve(t, value, true, false, 0);
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
            const macro m = t->macros[t->indirects[i].done];
            if (strcmp(m.name, name) != 0 || !m.operand)
                continue;
            any = true;
            resolve_operand(t, m.operand, true, source_number);
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
        trp__jit_facts_release(t->sources[i].facts);
        free(t->sources[i].folder.path);
        free(t->sources[i].folder.name);
    }
    free(t->sources);
    free(t->macros);
    free(t->indirects);
}

/* The source's own folder is where its name says, which is in every key. */
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
    tracer t = {.program = program, .out = out};
    const trp__jit_text *own = &program->source;
    size_t read = 0;
    out->settled = true;
    add_source(&t, trp__jit_facts_of(own->text, strlen(own->text)), folder_of_source(&t, own->name),
               false);
    if (t.source_count > 0)
        read_options(&t);
    do {
        while (read < t.source_count)
            follow(&t, read++);
    } while (read_indirects(&t) || read < t.source_count);
    out->unsure = out->unsure || !all_known(&t);
    out->placed = out->folders && (t.asks || (t.pastes && t.has_parts));
    free_tracer(&t);
    if (!t.no_memory)
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

#include "compile/make_key.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef trp__jit_compile_input compile;

const char *trp__jit_found_text(trp__jit_found kind)
{
    static const char *const texts[] = {[TRP__JIT_FOUND_MEMORY] = "memory ",
                                        [TRP__JIT_FOUND_FILE] = "file ",
                                        [TRP__JIT_FOUND_NONE] = "none "};
    return texts[kind];
}

bool trp__jit_is_portable(const compile *c)
{
    return c->head.portable &&
           (c->head.output == TRP_JIT_CUBIN || c->head.output == TRP_JIT_CUBIN_LTO);
}

/* Tells whether the result may contain paths of folders: a text asks for them, or there is debug
 * information. NVRTC's LTO-IR always has some (seen with 13.0). A request that says portable
 * overrides this. */
static bool may_have_paths(const compile *c, const trp__jit_headers *headers)
{
    static const char *const debug[] = {"lineinfo", "line-info", "debug"};
    if (trp__jit_is_portable(c))
        return false;
    bool any = headers->placed || (headers->folders && c->head.output == TRP_JIT_LTOIR);
    for (uint32_t i = 0; i < c->head.options && headers->folders && !any; i++) {
        any = strcmp(c->options[i], "-G") == 0;
        for (size_t k = 0; k < sizeof debug / sizeof *debug; k++)
            any = any || strstr(c->options[i], debug[k]);
    }
    return any;
}

static void add_formatted(trp__key *key, trp__key_tag tag, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add_formatted(trp__key *key, trp__key_tag tag, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        key->status = key->status != TRP_OK ? key->status : TRP_E_MEMORY;
    else
        trp__key_add_text(key, tag, text);
    va_end(args);
    free(text);
}

/* Adds only the number of folders where paths can't matter, so that an entry serves wherever they
 * lie. */
static void add_folders(trp__key *key, const compile *c, const trp__jit_headers *headers)
{
    if (may_have_paths(c, headers)) {
        for (uint32_t i = 0; i < c->head.includes; i++)
            add_formatted(key, TRP__KEY_SETTING, "include_paths[%u]=%s", i, c->includes[i]);
    } else if (c->head.includes > 0) {
        add_formatted(key, TRP__KEY_SETTING, "include_paths=%u", c->head.includes);
    }
}

/* Absent files outnumber headers many times: from this number on, all of them become one
 * setting. */
enum { PLACES_TOLD = 256 };

static void add_places(trp__key *key, const trp__jit_headers *headers, size_t count)
{
    char text[TRP__HASH_TEXT];
    trp__hasher hasher;
    trp__hasher_begin(&hasher);
    for (size_t i = 0; i < headers->count; i++) {
        const trp__jit_header_row *row = &headers->row[i];
        if (row->kind == TRP__JIT_FOUND_NONE) /* with the terminating zero */
            trp__hasher_add(&hasher, row->name, strlen(row->name) + 1);
    }
    trp__hash hash = trp__hasher_value(&hasher);
    trp__hash_text(&hash, text);
    add_formatted(key, TRP__KEY_SETTING, "places without a file=%zu, %s", count, text);
}

static void add_headers(trp__key *key, const trp__jit_headers *headers)
{
    size_t places = 0;
    for (size_t i = 0; i < headers->count; i++)
        places += headers->row[i].kind == TRP__JIT_FOUND_NONE;
    if (places >= PLACES_TOLD)
        add_places(key, headers, places);
    for (size_t i = 0; i < headers->count; i++) {
        const trp__jit_header_row *row = &headers->row[i];
        char *name = NULL;
        if (row->kind == TRP__JIT_FOUND_NONE && places >= PLACES_TOLD)
            continue;
        if (asprintf(&name, "%s%s", trp__jit_found_text(row->kind), row->name) < 0) {
            key->status = TRP_E_MEMORY;
            return;
        }
        trp__key_add_header(key, name, &row->content);
        free(name);
        if (row->same_as != i) /* no name has a newline in it */
            add_formatted(key, TRP__KEY_SETTING, "one file=%s\n%s", row->name,
                          headers->row[row->same_as].name);
    }
}

void trp__jit_make_key(const char *compiler, const compile *c, const trp__jit_headers *headers,
                       trp__key *key)
{
    static const char *const outputs[] = {[TRP_JIT_CUBIN] = "cubin",
                                          [TRP_JIT_PTX] = "ptx",
                                          [TRP_JIT_LTOIR] = "ltoir",
                                          [TRP_JIT_CUBIN_LTO] = "cubin-lto"};
    trp__key_begin(key, "jit");
    trp__key_add_text(key, TRP__KEY_NAME, c->name);
    trp__key_add_text(key, TRP__KEY_COMPILER, compiler);
    trp__key_add_text(key, TRP__KEY_TARGET, c->architecture);
    trp__key_add_text(key, TRP__KEY_OUTPUT, outputs[c->head.output]);
    add_folders(key, c, headers);
    for (uint32_t i = 0; i < c->head.options; i++)
        trp__key_add_text(key, TRP__KEY_OPTION, c->options[i]);
    for (uint32_t i = 0; i < c->head.names; i++)
        trp__key_add_text(key, TRP__KEY_EXPRESSION, c->names[i]);
    trp__key_add_text(key, TRP__KEY_SOURCE, c->source);
    add_headers(key, headers);
}

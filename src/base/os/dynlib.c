#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* dlinfo, secure_getenv, strverscmp */
#endif

#include "base/os/dynlib.h"

#include "base/os/ldpath.h"
#include "base/text.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char folders_variable[] = "TROUPE_LIBRARY_PATH";

static trp__text text_into(char *bytes, size_t size)
{
    if (size != 0)
        bytes[0] = '\0';
    return (trp__text){.out = bytes, .size = size};
}

/* One call of trp__dynlib_open or trp__dynlib_find. */
typedef struct search {
    const trp__dynlib_spec *spec;
    trp__dynlib *lib;
    bool find_only; /* nothing is loaded: lib gets a path and no handle */
    trp__text
        reason; /* the first failure other than a plain "no such file": it names what to mend */
    char reason_bytes[512];
} search;

__attribute__((format(printf, 2, 3))) static void note(search *s, const char *format, ...)
{
    if (s->reason.length == 0) {
        va_list arguments;
        va_start(arguments, format);
        trp__text_add_list(&s->reason, format, arguments);
        va_end(arguments);
    }
}

static const char *loader_message(void)
{
    const char *message = dlerror();
    return message != NULL ? message : "unknown error of the loader";
}

/* Stores a file's real path. */
static bool keep_path(search *s, const char *name)
{
    /* A file that was removed meanwhile keeps its name. */
    char *resolved = realpath(name, NULL);
    const char *path = resolved != NULL ? resolved : name;
    const size_t length = strlen(path);
    const bool fits = length < sizeof s->lib->path;
    if (fits) {
        memcpy(s->lib->path, path, length + 1);
    } else {
        note(s, "the path is longer than %zu bytes: %s", sizeof s->lib->path - 1, path);
    }
    free(resolved);
    return fits;
}

/* Stores the real path of the file of lib->handle; false if that file must not stay open. */
static bool learn_path(search *s)
{
    struct link_map *map = NULL;
    if (dlinfo(s->lib->handle, RTLD_DI_LINKMAP, &map) != 0) {
        note(s, "%s", loader_message());
        return false;
    }
    if (map->l_name[0] != '/') {
        note(s, "%s: refused, as it was found through a relative entry of LD_LIBRARY_PATH",
             map->l_name);
        return false;
    }
    return keep_path(s, map->l_name);
}

/* Finds the file that load() would load, without loading it. True, with an empty path, also if only
 * the loader knows it: the search ends there. */
static bool find(search *s, const char *name)
{
    char found[TRP__DYNLIB_PATH_SIZE];
    if (name[0] == '/')
        return access(name, F_OK) == 0 && keep_path(s, name);
    switch (trp__ldpath_find(name, found, sizeof found)) {
    case TRP__LDPATH_FOUND:
        return access(found, F_OK) == 0 && keep_path(s, found);
    case TRP__LDPATH_ABSENT:
        return false;
    case TRP__LDPATH_UNKNOWN:
        break;
    }
    return true;
}

/* `name` is an absolute path, or a soname for the loader's own search. */
static bool load(search *s, const char *name)
{
    if (s->find_only)
        return find(s, name);
    s->lib->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (s->lib->handle == NULL) {
        /* The loader's message begins with a file name. That is the bare soname only if the loader
         * found no file; for a library that lacks one of its dependencies it is another name. */
        const char *message = loader_message();
        const size_t length = strlen(name);
        if (name[0] == '/' || strncmp(message, name, length) != 0 || message[length] != ':')
            note(s, "%s", message);
        return false;
    }
    if (!learn_path(s)) {
        trp__dynlib_close(s->lib);
        return false;
    }
    return true;
}

/* The loader takes a name with a slash for a path, from the current folder if need be, and "" for
 * the program. */
static bool is_soname(const char *name)
{
    return name[0] != '\0' && strchr(name, '/') == NULL;
}

static bool load_from_folder(search *s, const char *folder, size_t folder_length)
{
    if (folder_length == 0 || folder[0] != '/')
        return false;
    for (const char *const *soname = s->spec->sonames; *soname != NULL; soname++) {
        char path[TRP__DYNLIB_PATH_SIZE];
        const int length =
            snprintf(path, sizeof path, "%.*s/%s", (int)folder_length, folder, *soname);
        if (length < 0 || (size_t)length >= sizeof path) {
            note(s, "the path is longer than %zu bytes: %.*s/%s", sizeof path - 1,
                 (int)folder_length, folder, *soname);
        } else if (is_soname(*soname) && access(path, F_OK) == 0 && load(s, path)) {
            return true;
        }
    }
    return false;
}

static bool load_from_listed_folders(search *s, const char *list)
{
    while (list != NULL) {
        const size_t length = strcspn(list, ":");
        if (load_from_folder(s, list, length))
            return true;
        list = list[length] == ':' ? list + length + 1 : NULL;
    }
    return false;
}

static bool load_by_loader(search *s)
{
    for (const char *const *soname = s->spec->sonames; *soname != NULL; soname++) {
        if (is_soname(*soname) && load(s, *soname))
            return true;
    }
    return false;
}

static int newest_first(const void *left, const void *right)
{
    return strverscmp(*(char *const *)right, *(char *const *)left);
}

static bool load_from_pattern(search *s, const char *pattern)
{
    glob_t found;
    bool loaded = false;
    /* glob's own order is that of the locale, where 12.10 comes before 12.9. Without a match this
     * gives nothing. */
    if (pattern[0] == '/' && glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
        qsort(found.gl_pathv, found.gl_pathc, sizeof found.gl_pathv[0], newest_first);
        for (size_t i = 0; i < found.gl_pathc && !loaded; i++)
            loaded = load_from_folder(s, found.gl_pathv[i], strlen(found.gl_pathv[i]));
        globfree(&found);
    }
    return loaded;
}

static bool load_from_spec_folders(search *s)
{
    const char *const *folder = s->spec->directories;
    for (; folder != NULL && *folder != NULL; folder++) {
        if (load_from_pattern(s, *folder))
            return true;
    }
    return false;
}

static const char *setting(const char *variable)
{
    const char *value = variable != NULL ? secure_getenv(variable) : NULL;
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static void append_folder(trp__text *to, const char *folder, size_t length)
{
    trp__text_add(to, ", %.*s%s", (int)length, folder,
                  folder[0] == '/' ? "" : " (ignored: not absolute)");
}

/* The searched places come last: they are the part that may be truncated. */
static void describe_not_found(const search *s, const char *folders, trp__text *to)
{
    const trp__dynlib_spec *spec = s->spec;
    trp__text_add(to, "%s: no usable library", spec->name);
    if (s->reason.length != 0)
        trp__text_add(to, " (%s)", s->reason.out);
    trp__text_add(to, ": ");
    if (spec->package_hint != NULL)
        trp__text_add(to, "%s, or ", spec->package_hint);
    if (spec->env != NULL)
        trp__text_add(to, "set %s to its full path, or ", spec->env);
    trp__text_add(to, "set %s to its folder; tried", folders_variable);
    for (const char *const *soname = spec->sonames; *soname != NULL; soname++)
        trp__text_add(to, "%s %s%s", soname == spec->sonames ? "" : ",", *soname,
                      is_soname(*soname) ? "" : " (ignored: not a file name)");
    trp__text_add(to, " in the loader's search path");
    while (folders != NULL) {
        const size_t length = strcspn(folders, ":");
        if (length != 0)
            append_folder(to, folders, length);
        folders = folders[length] == ':' ? folders + length + 1 : NULL;
    }
    const char *const *folder = spec->directories;
    for (; folder != NULL && *folder != NULL; folder++)
        append_folder(to, *folder, strlen(*folder));
}

/* The library that the user named, and no other. */
static bool open_named(search *s, const char *path, trp__text *to)
{
    if (path[0] != '/') {
        trp__text_add(to, "%s: %s=%s is not an absolute path", s->spec->name, s->spec->env, path);
        return false;
    }
    if (!load(s, path)) {
        trp__text_add(to, "%s: the library that %s names can't be loaded: %s", s->spec->name,
                      s->spec->env, s->reason.out);
        return false;
    }
    return true;
}

static bool open_found(search *s, trp__text *to)
{
    const char *folders = setting(folders_variable);
    if (load_from_listed_folders(s, folders) || load_by_loader(s) || load_from_spec_folders(s))
        return true;
    describe_not_found(s, folders, to);
    return false;
}

/* A function pointer is stored by its bytes: C has no conversion from void *, but POSIX gives both
 * one form. */
static void set_pointer(void *table, const trp__dynlib_symbol *symbol, void *address)
{
    memcpy((char *)table + symbol->offset, &address, sizeof address);
}

static void clear_table(const trp__dynlib_symbol *symbols, size_t symbol_count, void *table)
{
    for (size_t i = 0; i < symbol_count; i++)
        set_pointer(table, &symbols[i], NULL);
}

static bool fill_table(const search *s, const trp__dynlib_symbol *symbols, size_t symbol_count,
                       void *table, trp__text *to)
{
    for (size_t i = 0; i < symbol_count; i++) {
        void *address = dlsym(s->lib->handle, symbols[i].name);
        if (address == NULL && symbols[i].required) {
            trp__text_add(to, "%s: %s has no function %s", s->spec->name, s->lib->path,
                          symbols[i].name);
            if (s->spec->package_hint != NULL)
                trp__text_add(to, ": %s", s->spec->package_hint);
            if (s->spec->env != NULL)
                trp__text_add(to, ", or set %s to the full path of another version", s->spec->env);
            return false;
        }
        set_pointer(table, &symbols[i], address);
    }
    return true;
}

bool trp__dynlib_open(trp__dynlib *lib, const trp__dynlib_spec *spec,
                      const trp__dynlib_symbol *symbols, size_t symbol_count, void *table,
                      char *error, size_t error_size)
{
    trp__text message = text_into(error, error_size);
    search s = {.spec = spec, .lib = lib};
    s.reason = text_into(s.reason_bytes, sizeof s.reason_bytes);
    memset(lib, 0, sizeof *lib);
    clear_table(symbols, symbol_count, table);

    const char *named = setting(spec->env);
    if (!(named != NULL ? open_named(&s, named, &message) : open_found(&s, &message)))
        return false;
    if (!fill_table(&s, symbols, symbol_count, table, &message)) {
        clear_table(symbols, symbol_count, table);
        trp__dynlib_close(lib);
        return false;
    }
    return true;
}

bool trp__dynlib_find(const trp__dynlib_spec *spec, char path[TRP__DYNLIB_PATH_SIZE])
{
    trp__dynlib lib = {0};
    trp__text no_message = text_into(NULL, 0);
    search s = {.spec = spec, .lib = &lib, .find_only = true};
    const char *named = setting(spec->env);
    bool found = named != NULL ? open_named(&s, named, &no_message) : open_found(&s, &no_message);
    memcpy(path, lib.path, sizeof lib.path);
    return found && lib.path[0] != '\0';
}

void trp__dynlib_close(trp__dynlib *lib)
{
    if (lib->handle != NULL)
        dlclose(lib->handle);
    memset(lib, 0, sizeof *lib);
}

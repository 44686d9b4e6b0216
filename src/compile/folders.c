#include "compile/folders.h"

#include "base/checksum.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PLACES_FIRST = 256 };

static struct trp__jit_folder *place_of(const trp__jit_folders *f, const char *path)
{
    for (size_t at = trp__checksum(path, strlen(path));; at++) {
        struct trp__jit_folder *p = &f->place[at & (f->places - 1)];
        if (!p->path || strcmp(p->path, path) == 0)
            return p;
    }
}

static bool grow(trp__jit_folders *f)
{
    trp__jit_folders larger = {.count = f->count,
                               .places = f->places ? 2 * f->places : PLACES_FIRST};
    larger.place = calloc(larger.places, sizeof *larger.place);
    if (!larger.place)
        return false;
    for (size_t i = 0; i < f->places; i++) {
        if (f->place[i].path)
            *place_of(&larger, f->place[i].path) = f->place[i];
    }
    free(f->place);
    *f = larger;
    return true;
}

/* Asks the system. Other errors than "does not exist" are left to the open of the file. */
static bool is_missing(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 ? !S_ISDIR(s.st_mode) : errno == ENOENT || errno == ENOTDIR;
}

/* A missing folder contains no folders, so only the first missing part of a long path costs a
 * system call. `path` is restored. */
static bool lacks(trp__jit_folders *f, char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return false;
    *slash = '\0';
    bool missing = false;
    const struct trp__jit_folder *known = f->places ? place_of(f, path) : NULL;
    if (known && known->path) {
        missing = !known->exists;
    } else {
        missing = lacks(f, path) || is_missing(path);
        char *copy = 2 * f->count < f->places || grow(f) ? strdup(path) : NULL;
        if (copy) {
            *place_of(f, path) = (struct trp__jit_folder){copy, !missing};
            f->count++;
        }
    }
    *slash = '/';
    return missing;
}

bool trp__jit_folders_lack(trp__jit_folders *folders, const char *path)
{
    char copy[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof copy)
        return false;
    memcpy(copy, path, length + 1);
    return lacks(folders, copy);
}

void trp__jit_folders_free(trp__jit_folders *folders)
{
    for (size_t i = 0; i < folders->places; i++)
        free(folders->place[i].path);
    free(folders->place);
    *folders = (trp__jit_folders){0};
}

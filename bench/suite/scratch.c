#include "scratch.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *kept(const char *name)
{
    const char *value = secure_getenv(name);
    return value ? strdup(value) : NULL;
}

static void put_back(const char *name, char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    free(value);
}

/* Fills in a template for mkdtemp() and mkstemp(). */
static bool set_template(char out[SCRATCH_FOLDER])
{
    const char *parent = secure_getenv("TMPDIR");
    if (!parent || parent[0] != '/')
        parent = "/tmp";
    int length = snprintf(out, SCRATCH_FOLDER, "%s/troupe-bench-XXXXXX", parent);
    if (length >= 0 && length < SCRATCH_FOLDER)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

bool scratch_begin(suite *s, scratch *x)
{
    *x = (scratch){.cache_before = kept("TROUPE_CACHE_DIR"),
                   .packs_before = kept("TROUPE_CACHE_PACKS")};
    setenv("TROUPE_CACHE_DIR", "", 1);
    setenv("TROUPE_CACHE_PACKS", "", 1);
    if (set_template(x->folder) && mkdtemp(x->folder))
        return true;
    (void)suite_failed(s, x->folder);
    x->folder[0] = '\0';
    return false;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *where)
{
    (void)s;
    (void)type;
    (void)where;
    return remove(path);
}

void scratch_end(scratch *x)
{
    if (*x->folder)
        (void)nftw(x->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    put_back("TROUPE_CACHE_DIR", x->cache_before);
    put_back("TROUPE_CACHE_PACKS", x->packs_before);
}

void scratch_path(const scratch *x, const char *name, char out[SCRATCH_PATH])
{
    snprintf(out, SCRATCH_PATH, "%s/%s", x->folder, name);
}

bool scratch_write(suite *s, const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    bool ok = file && fputs(text, file) >= 0;
    if (file)
        ok = fclose(file) == 0 && ok;
    return ok || suite_failed(s, path);
}

int scratch_file(suite *s, char path[SCRATCH_FOLDER])
{
    int file = set_template(path) ? mkstemp(path) : -1;
    if (file < 0)
        (void)suite_failed(s, path);
    return file;
}

#include "base/os/share.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Finds the folder that this library, or the program it is part of, was loaded from. */
static bool own_folder(char out[PATH_MAX])
{
    Dl_info info;
    if (!dladdr((void *)(uintptr_t)own_folder, &info) || !info.dli_fname)
        return false;
    if (!realpath(info.dli_fname, out) && !realpath("/proc/self/exe", out))
        return false;
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = '\0';
    return slash != NULL;
}

static bool take(const char *folder, const char *name, const char *file, char out[PATH_MAX])
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!realpath(path, out))
        return false;
    snprintf(path, sizeof path, "%s/%s", out, file ? file : "");
    return access(file ? path : out, R_OK) == 0;
}

bool trp__share_find(const char *name, const char *file, char out[PATH_MAX])
{
    static const char *const beneath[] = {"../share/troupe", "../../share/troupe",
                                          "../../../share/troupe"};
    char own[PATH_MAX], folder[PATH_MAX + 32];
    bool there = false;
    if (own_folder(own)) {
        for (size_t i = 0; i < sizeof beneath / sizeof *beneath && !there; i++) {
            snprintf(folder, sizeof folder, "%s/%s", own, beneath[i]);
            there = take(folder, name, file, out);
        }
    }
#ifdef TROUPE_DATADIR
    there = there || take(TROUPE_DATADIR, name, file, out);
#endif
    return there;
}

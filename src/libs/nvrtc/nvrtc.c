#include "libs/nvrtc/nvrtc.h"

#include "base/build_id.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

TRP__TOOLKIT_DEFINE(
    trp__nvrtc, TRP__NVRTC_FUNCTIONS(TRP__TOOLKIT_SYMBOL), .name = "NVRTC", .env = "TROUPE_NVRTC",
    .soname_13 = "libnvrtc.so.13", .soname_12 = "libnvrtc.so.12",
    .package_hint = "install NVRTC 12 or 13 (CUDA toolkit, or pip install nvidia-cuda-nvrtc)")

void trp__nvrtc_version(const trp__nvrtc *lib, char *out, size_t size)
{
    int part[2] = {0};
    lib->nvrtcVersion(&part[0], &part[1]);
    snprintf(out, size, "%d.%d", part[0], part[1]);
}

bool trp__nvrtc_find(char *path)
{
    return trp__toolkit_find(&library, path);
}

/* Identities. */

/* NVRTC loads its builtins by a name with both parts of its version, which is unknown before it is
 * loaded. So every possible name is tried: reading a system folder with thousands of files would be
 * slower. */
enum { MAJOR_FIRST = 12, MAJOR_LAST = 13, MINOR_LAST = 15 };

static void add_builtins(const char *path, char out[TRP__NVRTC_IDENTITY])
{
    char name[TRP__DYNLIB_PATH_SIZE + 64], id[TRP__BUILD_ID_TEXT];
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path) : 0;
    const char *version = slash ? strstr(slash, ".so.") : NULL;
    int own = version ? atoi(version + 4) : 0; /* 0: not in its name */
    for (int major = MAJOR_FIRST; major <= MAJOR_LAST; major++) {
        if (own != 0 && own != major)
            continue;
        for (int minor = 0; minor <= MINOR_LAST; minor++) {
            size_t used = strlen(out);
            snprintf(name, sizeof name, "%.*s/libnvrtc-builtins.so.%d.%d", folder, path, major,
                     minor);
            if (trp__build_id_of_file(name, id))
                snprintf(out + used, TRP__NVRTC_IDENTITY - used, ", builtins %s", id);
        }
    }
}

/* Identifies NVRTC by its file, before it is loaded. False: it has to be loaded to be
 * identified. */
static bool identify_file(char out[TRP__NVRTC_IDENTITY])
{
    char path[TRP__DYNLIB_PATH_SIZE], id[TRP__BUILD_ID_TEXT];
    if (!trp__toolkit_find(&library, path) || !trp__build_id_of_file(path, id))
        return false;
    snprintf(out, TRP__NVRTC_IDENTITY, "NVRTC build %s", id);
    add_builtins(path, out);
    return true;
}

/* Identifies the loaded NVRTC. A library without a build ID is identified by version and size. */
static void identify_loaded(char out[TRP__NVRTC_IDENTITY])
{
    char id[TRP__BUILD_ID_TEXT];
    char version[32];
    struct stat s = {0};
    if (trp__build_id_of_loaded(library.library.handle, id)) {
        snprintf(out, TRP__NVRTC_IDENTITY, "NVRTC build %s", id);
    } else {
        trp__nvrtc_version(&functions, version, sizeof version);
        (void)!stat(library.library.path, &s);
        snprintf(out, TRP__NVRTC_IDENTITY, "NVRTC %s of %lld bytes", version, (long long)s.st_size);
    }
    add_builtins(library.library.path, out);
}

/* The cached identity: finding it takes tens of microseconds. */
static struct {
    pthread_mutex_t lock;
    enum { NOT_KNOWN, BY_FILE, LOADED } known;
    char text[TRP__NVRTC_IDENTITY];
} identity = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_loaded(void)
{
    pthread_mutex_lock(&library.lock);
    bool loaded = library.library.handle != NULL;
    pthread_mutex_unlock(&library.lock);
    return loaded;
}

bool trp__nvrtc_look(char out[TRP__NVRTC_IDENTITY])
{
    pthread_mutex_lock(&identity.lock);
    if (identity.known == NOT_KNOWN && !is_loaded() && identify_file(identity.text))
        identity.known = BY_FILE;
    bool known = identity.known != NOT_KNOWN;
    memcpy(out, identity.text, sizeof identity.text);
    pthread_mutex_unlock(&identity.lock);
    return known;
}

trp_status trp__nvrtc_identity(char out[TRP__NVRTC_IDENTITY], trp_error *error)
{
    trp_status status = TRP_OK;
    pthread_mutex_lock(&identity.lock);
    if (identity.known == NOT_KNOWN && !is_loaded() && identify_file(identity.text))
        identity.known = BY_FILE;
    if (identity.known == NOT_KNOWN)
        status = trp__toolkit_load(&library, error);
    if (identity.known != LOADED && is_loaded()) {
        identify_loaded(identity.text);
        identity.known = LOADED;
    }
    if (status == TRP_OK)
        memcpy(out, identity.text, sizeof identity.text);
    pthread_mutex_unlock(&identity.lock);
    return status;
}

#include "libs/nvjitlink/nvjitlink.h"

#include "base/build_id.h"

#include <stdio.h>

TRP__TOOLKIT_DEFINE(
    trp__nvjitlink, TRP__NVJITLINK_FUNCTIONS(TRP__TOOLKIT_SYMBOL), .name = "nvJitLink",
    .env = "TROUPE_NVJITLINK", .soname_13 = "libnvJitLink.so.13", .soname_12 = "libnvJitLink.so.12",
    .package_hint = "install nvJitLink 12 or 13 (CUDA toolkit, or pip install nvidia-nvjitlink)")

void trp__nvjitlink_version(const trp__nvjitlink *lib, char *out, size_t size)
{
    unsigned int part[2] = {0};
    lib->nvJitLinkVersion(&part[0], &part[1]);
    snprintf(out, size, "%u.%u", part[0], part[1]);
}

static bool identify_loaded(char out[TRP__NVJITLINK_IDENTITY])
{
    char id[TRP__BUILD_ID_TEXT], version[32];
    pthread_mutex_lock(&library.lock);
    bool loaded = library.library.handle != NULL;
    bool has_id = loaded && trp__build_id_of_loaded(library.library.handle, id);
    pthread_mutex_unlock(&library.lock);
    if (has_id) {
        snprintf(out, TRP__NVJITLINK_IDENTITY, "nvJitLink build %s", id);
    } else if (loaded) {
        trp__nvjitlink_version(&functions, version, sizeof version);
        snprintf(out, TRP__NVJITLINK_IDENTITY, "nvJitLink %s", version);
    }
    return loaded;
}

trp_status trp__nvjitlink_identity(char out[TRP__NVJITLINK_IDENTITY], trp_error *error)
{
    char path[TRP__DYNLIB_PATH_SIZE], id[TRP__BUILD_ID_TEXT];
    if (identify_loaded(out))
        return TRP_OK;
    if (trp__toolkit_find(&library, path) && trp__build_id_of_file(path, id)) {
        snprintf(out, TRP__NVJITLINK_IDENTITY, "nvJitLink build %s", id);
        return TRP_OK;
    }
    trp_status status = trp__toolkit_load(&library, error);
    if (status == TRP_OK)
        identify_loaded(out);
    return status;
}

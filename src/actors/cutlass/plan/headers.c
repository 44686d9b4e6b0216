#include "actors/cutlass/plan/headers.h"

#include "base/error.h"
#include "base/os/share.h"
#include "libs/nvrtc/nvrtc.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    uint32_t count; /* 0: not found yet */
    char path[TRP__CUTLASS_FOLDERS_MAX][PATH_MAX];
    const char *list[TRP__CUTLASS_FOLDERS_MAX];
} found = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool has(const char *folder, const char *file)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return access(path, R_OK) == 0;
}

/* folder/beneath, without links and dots; false if `file` is not there. */
static bool take(const char *folder, const char *beneath, const char *file, char out[PATH_MAX])
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, beneath);
    return realpath(path, out) && has(out, file);
}

/* Our own. */
static bool find_own(char out[PATH_MAX])
{
    return trp__share_find("cutlass", "templates/module.cuh", out);
}

/* CUDA's, which NVRTC does not bring: named by the environment, beside NVRTC, or in the usual
 * place. */
static bool find_cuda(char out[PATH_MAX])
{
    static const char file[] = "cuda_fp16.h";
    const char *home[] = {secure_getenv("CUDA_HOME"), secure_getenv("CUDA_PATH")};
    char nvrtc[PATH_MAX];
    for (size_t i = 0; i < sizeof home / sizeof *home; i++) {
        if (home[i] && home[i][0] && take(home[i], "include", file, out))
            return true;
    }
    if (trp__nvrtc_find(nvrtc)) {
        char *slash = strrchr(nvrtc, '/');
        if (slash)
            *slash = '\0';
        if (take(nvrtc, "../include", file, out) ||
            take(nvrtc, "../../cuda_runtime/include", file, out) ||
            take(nvrtc, "../targets/x86_64-linux/include", file, out))
            return true;
    }
    return take("/usr/local/cuda", "include", file, out) || take("/usr", "include", file, out);
}

static trp_status find_cutlass(const char *own, char out[PATH_MAX], trp_error *error)
{
    static const char file[] = "cutlass/cutlass.h";
    const char *named = secure_getenv("TROUPE_CUTLASS");
    if (named && named[0])
        return take(named, ".", file, out)
                   ? TRP_OK
                   : trp__error_set(error, TRP_E_MISSING,
                                    "TROUPE_CUTLASS: expected a folder with %s in it, got %.200s",
                                    file, named);
    return take(own, "headers", file, out)
               ? TRP_OK
               : trp__error_set(error, TRP_E_MISSING,
                                "CUTLASS's headers are not in %.200s/headers: install them (make "
                                "cutlass), or name a folder with cutlass/cutlass.h in it with "
                                "TROUPE_CUTLASS",
                                own);
}

static trp_status find_all(trp_error *error)
{
    uint32_t n = 0;
    char own[PATH_MAX], cuda[PATH_MAX];
    if (!find_own(own))
        return trp__error_set(
            error, TRP_E_MISSING,
            "the templates of kernels are neither beside the library nor where they are "
            "installed to: share/troupe/cutlass");
    trp_status status = find_cutlass(own, found.path[TRP__CUTLASS_FOLDER_CUTLASS], error);
    if (status != TRP_OK)
        return status;
    if (!find_cuda(cuda))
        return trp__error_set(error, TRP_E_MISSING,
                              "CUDA's headers: cuda_fp16.h is not beside NVRTC, nor in "
                              "/usr/local/cuda/include; install them (pip install "
                              "nvidia-cuda-runtime nvidia-cuda-cccl) or name CUDA's folder with "
                              "CUDA_HOME");
    take(own, "shims", "troupe_std.h", found.path[0]);
    take(own, "templates", "module.cuh", found.path[1]);
    memcpy(found.path[3], cuda, sizeof cuda);
    n = take(cuda, "cccl", "cuda/std/cstdint", found.path[4]) ? 5 : 4;
    for (uint32_t i = 0; i < n; i++)
        found.list[i] = found.path[i];
    found.count = n;
    return TRP_OK;
}

trp_status trp__cutlass_folders(const char *const **folders, uint32_t *count, trp_error *error)
{
    trp_status status = TRP_OK;
    pthread_mutex_lock(&found.lock);
    if (found.count == 0)
        status = find_all(error);
    *folders = found.list;
    *count = found.count;
    pthread_mutex_unlock(&found.lock);
    return status;
}

#include "driver/toolkit.h"

#include "base/error.h"
#include "driver/cuda.h"
#include "wire/directive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Libraries of CUDA 13 need a driver for CUDA 13, which also runs those of CUDA 12. */
static bool driver_is_old(void)
{
    const trp__cuda *cu;
    int version = 0;
    return trp__cuda_load(&cu, NULL) == TRP_OK && cu->cuDriverGetVersion(&version) == 0 &&
           version < 13000;
}

/* Folders of the packages of CUDA and of Python. */
static const char *const folders[] = {
    "/usr/local/cuda/lib64",
    "/usr/local/cuda-*/lib64",
    "/opt/cuda/lib64",
    "/usr/local/lib/python3*/dist-packages/nvidia/*/lib",
    "/usr/local/lib/python3*/site-packages/nvidia/*/lib",
    "/usr/lib/python3*/site-packages/nvidia/*/lib",
    "/opt/*/lib/python3*/site-packages/nvidia/*/lib",
    "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib",
};

enum { FOLDERS = sizeof folders / sizeof *folders };

/* A search, with the lists that it points to. */
typedef struct places {
    char environment[TRP__DYNLIB_PATH_SIZE];
    const char *directories[FOLDERS + 2], *sonames[3];
    trp__dynlib_spec spec;
} places;

/* The virtual environment of the caller comes first. */
static void list_places(const trp__toolkit_library *library, places *p)
{
    const char *active = secure_getenv("VIRTUAL_ENV");
    size_t directories = 0, sonames = 0;
    int length = active ? snprintf(p->environment, sizeof p->environment,
                                   "%s/lib/python3*/site-packages/nvidia/*/lib", active)
                        : 0;
    if (length > 0 && (size_t)length < sizeof p->environment && p->environment[0] == '/')
        p->directories[directories++] = p->environment;
    for (size_t i = 0; i < FOLDERS; i++)
        p->directories[directories++] = folders[i];
    p->directories[directories] = NULL;
    if (library->soname_13 && !driver_is_old())
        p->sonames[sonames++] = library->soname_13;
    p->sonames[sonames++] = library->soname_12;
    p->sonames[sonames] = NULL;
    p->spec = (trp__dynlib_spec){
        .name = library->name,
        .sonames = p->sonames,
        .env = library->env,
        .directories = p->directories,
        .package_hint = library->package_hint,
    };
}

trp_status trp__toolkit_load(trp__toolkit_library *library, trp_error *error)
{
    char message[sizeof error->message];
    places p;
    pthread_mutex_lock(&library->lock);
    bool loaded = library->library.handle != NULL;
    if (!loaded) {
        list_places(library, &p);
        loaded = trp__dynlib_open(&library->library, &p.spec, library->symbols,
                                  library->symbol_count, library->table, message, sizeof message);
    }
    pthread_mutex_unlock(&library->lock);
    return loaded ? TRP_OK : trp__error_set(error, TRP_E_MISSING, "%s", message);
}

bool trp__toolkit_find(trp__toolkit_library *library, char path[TRP__DYNLIB_PATH_SIZE])
{
    places p;
    pthread_mutex_lock(&library->lock);
    bool found = library->library.handle != NULL;
    if (found) {
        memcpy(path, library->library.path, sizeof library->library.path);
    } else {
        list_places(library, &p);
        found = trp__dynlib_find(&p.spec, path);
    }
    pthread_mutex_unlock(&library->lock);
    return found;
}

void trp__toolkit_version(int (*get_property)(trp__cuda_property which, int *value), char *out,
                          size_t size)
{
    int part[3] = {0};
    get_property(TRP__CUDA_MAJOR_VERSION, &part[0]);
    get_property(TRP__CUDA_MINOR_VERSION, &part[1]);
    get_property(TRP__CUDA_PATCH_LEVEL, &part[2]);
    snprintf(out, size, "%d.%d.%d", part[0], part[1], part[2]);
}

const char *trp__toolkit_code_name(const char *domain, int code)
{
    const char *name = trp__code_name(domain, code);
    return name ? name : "an unknown status";
}

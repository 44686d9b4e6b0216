#include "driver/toolkit.h"

#include "base/error.h"
#include "driver/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What comes with CUDA 13 needs a driver for CUDA 13, which runs what comes with CUDA 12 as well.
 */
static bool driver_is_old(void)
{
    const trp__cuda *cu;
    int version = 0;
    return trp__cuda_load(&cu, NULL) == TRP_OK && cu->cuDriverGetVersion(&version) == 0 &&
           version < 13000;
}

/* Where CUDA's own packages and those of Python put libraries. The virtual environment of the
 * caller comes first. */
static bool open_library(trp__toolkit_library *library, char *message, size_t message_size)
{
    char environment[TRP__DYNLIB_PATH_SIZE] = "";
    const char *directories[] = {
        environment,
        "/usr/local/cuda/lib64",
        "/usr/local/cuda-*/lib64",
        "/opt/cuda/lib64",
        "/usr/local/lib/python3*/dist-packages/nvidia/*/lib",
        "/usr/local/lib/python3*/site-packages/nvidia/*/lib",
        "/usr/lib/python3*/site-packages/nvidia/*/lib",
        "/opt/*/lib/python3*/site-packages/nvidia/*/lib",
        "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib",
        NULL,
    };
    const char *const sonames[] = {library->soname_13, library->soname_12, NULL};
    const trp__dynlib_spec spec = {
        .name = library->name,
        .sonames = driver_is_old() ? sonames + 1 : sonames,
        .env = library->env,
        .directories = directories,
        .package_hint = library->package_hint,
    };
    const char *active = secure_getenv("VIRTUAL_ENV");
    int length = active ? snprintf(environment, sizeof environment,
                                   "%s/lib/python3*/site-packages/nvidia/*/lib", active)
                        : 0;
    if (length <= 0 || (size_t)length >= sizeof environment || environment[0] != '/')
        memmove(directories, directories + 1, sizeof directories - sizeof *directories);
    return trp__dynlib_open(&library->library, &spec, library->symbols, library->symbol_count,
                            library->table, message, message_size);
}

trp_status trp__toolkit_load(trp__toolkit_library *library, trp_error *error)
{
    char message[sizeof error->message];
    pthread_mutex_lock(&library->lock);
    bool loaded = library->library.handle || open_library(library, message, sizeof message);
    pthread_mutex_unlock(&library->lock);
    return loaded ? TRP_OK : trp__error_set(error, TRP_E_MISSING, "%s", message);
}

#include "actors/blas/cublas.h"

#include "base/dynlib.h"
#include "base/error.h"
#include "driver/cuda.h"

#include <troupe/blas.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const trp__dynlib_symbol symbols[] = {
#define SYMBOL_ROW(result, name, parameters, required)                                             \
    {#name, offsetof(trp__cublas, name), required},
    TRP__CUBLAS_FUNCTIONS(SYMBOL_ROW)
#undef SYMBOL_ROW
#define ROUTINE(name, place, type) {#name, offsetof(trp__cublas, routine[place][type]), false},
#define PLACE(op)                  ((TRP_OP_##op) & 0xff)
#define ALL(op, family, s, d, c, z)                                                                \
    ROUTINE(s, PLACE(op), 0) ROUTINE(d, PLACE(op), 1) COMPLEX(op, family, c, z)
#define COMPLEX(op, family, c, z) ROUTINE(c, PLACE(op), 2) ROUTINE(z, PLACE(op), 3)
        TRP__CUBLAS_ROUTINES(ALL, COMPLEX)
#undef COMPLEX
#undef ALL
#undef PLACE
#undef ROUTINE
};

/* One for all actors of a process; never closed, since cuBLAS keeps threads and hooks. */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static trp__dynlib library;
static trp__cublas functions;

/* cuBLAS 13 needs a driver for CUDA 13; a driver for CUDA 13 runs cuBLAS 12 as well. */
static const char *const *sonames(void)
{
    static const char *const all[] = {"libcublas.so.13", "libcublas.so.12", NULL};
    const trp__cuda *cu;
    int version = 0;
    if (trp__cuda_load(&cu, NULL) == TRP_OK && cu->cuDriverGetVersion(&version) == 0 &&
        version < 13000)
        return all + 1;
    return all;
}

/* Where CUDA's own packages and those of Python put it. The virtual environment of the caller comes
 * first. */
static bool open_library(char *message, size_t message_size)
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
    const trp__dynlib_spec spec = {
        .name = "cublas",
        .sonames = sonames(),
        .env = "TROUPE_CUBLAS",
        .directories = directories,
        .package_hint = "install cuBLAS 12 or 13 (CUDA toolkit, or pip install nvidia-cublas)",
    };
    const char *active = secure_getenv("VIRTUAL_ENV");
    int length = active ? snprintf(environment, sizeof environment,
                                   "%s/lib/python3*/site-packages/nvidia/*/lib", active)
                        : 0;
    if (length <= 0 || (size_t)length >= sizeof environment || environment[0] != '/')
        memmove(directories, directories + 1, sizeof directories - sizeof *directories);
    return trp__dynlib_open(&library, &spec, symbols, sizeof symbols / sizeof *symbols, &functions,
                            message, message_size);
}

trp_status trp__cublas_load(const trp__cublas **out, trp_error *error)
{
    char message[sizeof error->message];
    pthread_mutex_lock(&load_lock);
    bool loaded = library.handle || open_library(message, sizeof message);
    pthread_mutex_unlock(&load_lock);
    *out = &functions;
    return loaded ? TRP_OK : trp__error_set(error, TRP_E_MISSING, "%s", message);
}

const char *trp__cublas_path(void)
{
    return library.path;
}

trp_status trp__cublas_failed(const trp__cublas *blas, trp__cublas_status result, const char *call,
                              trp_error *error)
{
    trp_status status = result == TRP__CUBLAS_ALLOC_FAILED    ? TRP_E_MEMORY
                        : result == TRP__CUBLAS_NOT_SUPPORTED ? TRP_E_UNSUPPORTED
                                                              : TRP_E_LIBRARY;
    return trp__error_set_code(error, status, "cublas", result, "%s (%d): %s, in %s",
                               blas->cublasGetStatusName(result), result,
                               blas->cublasGetStatusString(result), call);
}

void trp__cublas_version(const trp__cublas *blas, char *out, size_t size)
{
    int part[3] = {0};
    blas->cublasGetProperty(TRP__CUDA_MAJOR_VERSION, &part[0]);
    blas->cublasGetProperty(TRP__CUDA_MINOR_VERSION, &part[1]);
    blas->cublasGetProperty(TRP__CUDA_PATCH_LEVEL, &part[2]);
    snprintf(out, size, "%d.%d.%d", part[0], part[1], part[2]);
}

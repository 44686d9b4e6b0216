#include "driver/cuda.h"

#include "base/os/dynlib.h"
#include "base/error.h"
#include "wire/directive.h"

#include <pthread.h>
#include <stdio.h>

static trp__cuda cuda;
static trp__dynlib library; /* never closed: the driver can't be unloaded safely */
static trp_error load_error;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const trp__dynlib_symbol symbols[] = {
#define SYMBOL_ROW(result, name, parameters) {#name, offsetof(trp__cuda, name), true},
    TRP__CUDA_FUNCTIONS(SYMBOL_ROW)
#undef SYMBOL_ROW
#define SYMBOL_ROW(result, name, parameters) {#name, offsetof(trp__cuda, name), false},
        TRP__CUDA_OPTIONAL_FUNCTIONS(SYMBOL_ROW)
#undef SYMBOL_ROW
};

static void load(void)
{
    static const char *const sonames[] = {"libcuda.so.1", NULL};
    static const char *const directories[] = {"/usr/lib/wsl/lib", NULL};
    static const trp__dynlib_spec spec = {
        .name = "cuda",
        .sonames = sonames,
        .env = "TROUPE_CUDA_DRIVER",
        .directories = directories,
        .package_hint = "install the NVIDIA driver, R515 or later",
    };
    char message[sizeof load_error.message];
    int count = 0;
    if (!trp__dynlib_open(&library, &spec, symbols, sizeof symbols / sizeof *symbols, &cuda,
                          message, sizeof message)) {
        trp__error_set(&load_error, TRP_E_MISSING, "%s", message);
        return;
    }
    const char *call = "cuInit";
    trp__cu_result result = cuda.cuInit(0);
    if (result == TRP__CU_SUCCESS) {
        call = "cuDeviceGetCount";
        result = cuda.cuDeviceGetCount(&count);
    }
    if (result == TRP__CU_SUCCESS && count == 0)
        result = TRP__CU_NO_DEVICE;
    if (result != TRP__CU_SUCCESS) {
        trp__cuda_error(&load_error, result, call);
        load_error.status = TRP_E_MISSING; /* no usable GPU, whatever the reason */
        load_error.fault = TRP_FAULT_NONE;
    }
}

trp_status trp__cuda_load(const trp__cuda **out, trp_error *error)
{
    pthread_once(&once, load);
    *out = load_error.status == TRP_OK ? &cuda : NULL;
    if (error && load_error.status != TRP_OK)
        *error = load_error;
    return load_error.status;
}

const char *trp__cuda_path(void)
{
    return library.path;
}

bool trp__cuda_sticky(int result)
{
    /* Fast path for the results of health(). */
    if (result == TRP__CU_SUCCESS || result == TRP__CU_NOT_READY)
        return false;
    trp__directive directive = trp__directive_of("cuda", result);
    return directive == TRP__DIRECTIVE_RESTART_CONTEXT || directive == TRP__DIRECTIVE_STOP;
}

static trp_status status_of(int result)
{
    if (result == TRP__CU_INVALID_DEVICE)
        return TRP_E_MISSING;
    if (result == TRP__CU_NOT_SUPPORTED)
        return TRP_E_UNSUPPORTED;
    switch (trp__directive_of("cuda", result)) {
    case TRP__DIRECTIVE_TRIM:
        return TRP_E_MEMORY;
    case TRP__DIRECTIVE_RESTART_CONTEXT:
        return TRP_E_FAULT;
    case TRP__DIRECTIVE_STOP:
        return TRP_E_MISSING;
    default:
        return TRP_E_LIBRARY;
    }
}

trp_status trp__cuda_error(trp_error *error, int result, const char *call)
{
    trp_status status = status_of(result);
    const char *name = trp__code_name("cuda", result);
    const char *text = NULL;
    if (!error)
        return status;
    if (!name && cuda.cuGetErrorName && cuda.cuGetErrorName(result, &name) != TRP__CU_SUCCESS)
        name = NULL; /* newer than the table, and unknown to the driver */
    if (cuda.cuGetErrorString && cuda.cuGetErrorString(result, &text) != TRP__CU_SUCCESS)
        text = NULL;
    trp__error_set_code(error, status, "cuda", result, "%s (%d): %s, in %s",
                        name ? name : "CUDA error", result, text ? text : "no text", call);
    if (trp__cuda_sticky(result))
        error->fault = trp__code_sticky("cuda", result) ? TRP_FAULT_GPU : TRP_FAULT_LIBRARY;
    return status;
}

trp__cu_result trp__cuda_upload(const trp__cuda *cu, trp__cu_address to, const void *from,
                                size_t bytes)
{
    trp__cu_result result = cu->cuMemcpyHtoD_v2(to, from, bytes);
    return result == TRP__CU_SUCCESS ? cu->cuStreamSynchronize(NULL) : result;
}

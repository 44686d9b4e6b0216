#include "driver/cuda.h"

#include "base/dynlib.h"
#include "base/error.h"

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
    trp__cu_result result = cuda.cuInit(0);
    if (result == TRP__CU_SUCCESS)
        result = cuda.cuDeviceGetCount(&count);
    if (result == TRP__CU_SUCCESS && count == 0)
        result = TRP__CU_NO_DEVICE;
    if (result != TRP__CU_SUCCESS) {
        trp__cuda_error(&load_error, result, "cuInit");
        load_error.status = TRP_E_MISSING; /* whatever the reason, there is no GPU to work with */
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

/* NVIDIA's documentation of these says that the context or the process can't be used further. An
 * unknown error is counted among them: it is what a GPU that fell off the bus gives, and a new
 * process is the safe answer. */
bool trp__cuda_sticky(int result)
{
    switch (result) {
    case TRP__CU_DEINITIALIZED:
    case TRP__CU_ECC_UNCORRECTABLE:
    case TRP__CU_NVLINK_UNCORRECTABLE:
    case TRP__CU_CONTAINED:
    case TRP__CU_ILLEGAL_ADDRESS:
    case TRP__CU_LAUNCH_TIMEOUT:
    case TRP__CU_CONTEXT_IS_DESTROYED:
    case TRP__CU_ASSERT:
    case TRP__CU_HARDWARE_STACK_ERROR:
    case TRP__CU_ILLEGAL_INSTRUCTION:
    case TRP__CU_MISALIGNED_ADDRESS:
    case TRP__CU_INVALID_ADDRESS_SPACE:
    case TRP__CU_INVALID_PC:
    case TRP__CU_LAUNCH_FAILED:
    case TRP__CU_TENSOR_MEMORY_LEAK:
    case TRP__CU_MPS_CLIENT_TERMINATED:
    case TRP__CU_EXTERNAL_DEVICE:
    case TRP__CU_UNKNOWN:
        return true;
    default:
        return false;
    }
}

static trp_status status_of(int result)
{
    if (trp__cuda_sticky(result))
        return TRP_E_FAULT;
    switch (result) {
    case TRP__CU_OUT_OF_MEMORY:
        return TRP_E_MEMORY;
    case TRP__CU_NO_DEVICE:
    case TRP__CU_INVALID_DEVICE:
        return TRP_E_MISSING;
    case TRP__CU_NOT_SUPPORTED:
        return TRP_E_UNSUPPORTED;
    default:
        return TRP_E_LIBRARY;
    }
}

trp_status trp__cuda_error(trp_error *error, int result, const char *call)
{
    trp_status status = status_of(result);
    const char *name = NULL;
    const char *text = NULL;
    if (!error)
        return status;
    if (cuda.cuGetErrorName && cuda.cuGetErrorName(result, &name) != TRP__CU_SUCCESS)
        name = NULL;
    if (cuda.cuGetErrorString && cuda.cuGetErrorString(result, &text) != TRP__CU_SUCCESS)
        text = NULL;
    trp__error_set_code(error, status, "cuda", result, "%s (%d): %s, in %s",
                        name ? name : "CUDA error", result, text ? text : "no text", call);
    if (status == TRP_E_FAULT)
        error->fault = TRP_FAULT_GPU;
    return status;
}

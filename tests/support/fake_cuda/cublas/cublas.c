/* A fake cuBLAS on the fake driver: handles, settings, elements and scalars. */
#include "support/fake_cuda/cublas/cublas.h"

#include "base/numbers/half.h"

#include <stdlib.h>
#include <string.h>

static const struct {
#define MEMBER(result, name, parameters, required) result(*name) parameters;
    TRP__CUBLAS_FUNCTIONS(MEMBER)
#undef MEMBER
} all __attribute__((used)) = {
#define ROW(result, name, parameters, required) .name = name,
    TRP__CUBLAS_FUNCTIONS(ROW)
#undef ROW
};

enum { MAGIC = 0xb1a5 };

bool fake_cublas_good(trp__cublas_handle handle)
{
    return handle && handle->magic == MAGIC;
}

bool fake_cublas_mode(trp__cublas_handle handle, trp__cublas_pointer_mode *mode)
{
    if (fake_cublas_good(handle))
        *mode = handle->mode;
    return fake_cublas_good(handle);
}

trp__cublas_status fake_cublas_enqueue(trp__cublas_handle handle, void (*run)(void *arguments),
                                       const void *arguments, size_t bytes)
{
    return fake_cuda_enqueue(handle->stream, run, arguments, bytes) == 0 ? SUCCESS
                                                                         : EXECUTION_FAILED;
}

trp__cublas_status cublasCreate_v2(trp__cublas_handle *handle)
{
    if (fake_cuda_usable() != 0)
        return NOT_INITIALIZED;
    *handle = malloc(sizeof **handle);
    if (!*handle)
        return ALLOC_FAILED;
    **handle = (struct trp__cublas_opaque){.magic = MAGIC};
    return SUCCESS;
}

trp__cublas_status cublasDestroy_v2(trp__cublas_handle handle)
{
    if (!fake_cublas_good(handle))
        return NOT_INITIALIZED;
    handle->magic = 0;
    free(handle);
    return SUCCESS;
}

trp__cublas_status cublasGetProperty(trp__cuda_property property, int *value)
{
    static const int version[] = {13, 1, 0};
    if ((int)property < 0 || (int)property > 2)
        return INVALID_VALUE;
    *value = version[property];
    return SUCCESS;
}

const char *cublasGetStatusName(trp__cublas_status status)
{
    switch (status) {
#define CASE(name, code)                                                                           \
    case code:                                                                                     \
        return "CUBLAS_STATUS_" #name;
        FAKE_CUBLAS_STATUSES(CASE)
#undef CASE
    default:
        return "CUBLAS_STATUS_UNKNOWN";
    }
}

const char *cublasGetStatusString(trp__cublas_status status)
{
    return status == SUCCESS ? "success" : "the fake cuBLAS refused";
}

trp__cublas_status cublasSetStream_v2(trp__cublas_handle handle, trp__cu_stream stream)
{
    if (!fake_cublas_good(handle))
        return NOT_INITIALIZED;
    handle->stream = stream;
    return SUCCESS;
}

trp__cublas_status cublasSetWorkspace_v2(trp__cublas_handle handle, void *workspace, size_t bytes)
{
    if (!fake_cublas_good(handle))
        return NOT_INITIALIZED;
    return (uintptr_t)workspace % 256 == 0 && (workspace || bytes == 0) ? SUCCESS : INVALID_VALUE;
}

/* The fake sums in f64 in every mode. */
trp__cublas_status cublasSetMathMode(trp__cublas_handle handle, trp__cublas_math mode)
{
    if (!fake_cublas_good(handle))
        return NOT_INITIALIZED;
    return ((int)mode & ~16) == 0 ? SUCCESS : INVALID_VALUE;
}

trp__cublas_status cublasSetPointerMode_v2(trp__cublas_handle handle, trp__cublas_pointer_mode mode)
{
    if (!fake_cublas_good(handle))
        return NOT_INITIALIZED;
    if (mode != TRP__CUBLAS_POINTER_MODE_HOST && mode != TRP__CUBLAS_POINTER_MODE_DEVICE)
        return INVALID_VALUE;
    handle->mode = mode;
    return SUCCESS;
}

trp__cublas_status cublasSetEmulationStrategy(trp__cublas_handle handle,
                                              trp__cublas_strategy strategy)
{
    if (!fake_cublas_good(handle))
        return NOT_INITIALIZED;
    if (!FAKE_ONE_OF_3(strategy))
        return INVALID_VALUE;
    handle->strategy = strategy;
    return SUCCESS;
}

trp__cublas_status cublasSetFixedPointEmulationMaxMantissaBitCount(trp__cublas_handle handle,
                                                                   int bits)
{
    return !fake_cublas_good(handle) ? NOT_INITIALIZED : bits < 0 ? INVALID_VALUE : SUCCESS;
}

/* Elements and scalars. */

bool fake_complex(trp__cublas_type type)
{
    return type == TRP__CUDA_C_32F || type == TRP__CUDA_C_64F;
}

trp__cublas_type fake_real(trp__cublas_type type)
{
    return type == TRP__CUDA_C_32F   ? TRP__CUDA_R_32F
           : type == TRP__CUDA_C_64F ? TRP__CUDA_R_64F
                                     : type;
}

static size_t real_bytes(trp__cublas_type type)
{
    switch (type) {
    case TRP__CUDA_R_64F:
        return 8;
    case TRP__CUDA_R_32F:
    case TRP__CUDA_R_32I:
        return 4;
    case TRP__CUDA_R_8I:
        return 1;
    default:
        return 2;
    }
}

size_t fake_bytes(trp__cublas_type type)
{
    return real_bytes(fake_real(type)) * (fake_complex(type) ? 2 : 1);
}

static double load_real(trp__cublas_type type, const char *at)
{
    uint16_t half;
    float f32;
    double f64;
    int32_t i32;
    int8_t i8;
    switch (type) {
    case TRP__CUDA_R_32I:
        memcpy(&i32, at, sizeof i32);
        return i32;
    case TRP__CUDA_R_8I:
        memcpy(&i8, at, sizeof i8);
        return i8;
    case TRP__CUDA_R_64F:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case TRP__CUDA_R_32F:
        memcpy(&f32, at, sizeof f32);
        return (double)f32;
    default:
        memcpy(&half, at, sizeof half);
        return (double)(type == TRP__CUDA_R_16F ? trp__f16_to_f32(half) : trp__bf16_to_f32(half));
    }
}

static void store_real(trp__cublas_type type, char *at, double value)
{
    float f32 = (float)value;
    uint16_t half;
    switch (type) {
    case TRP__CUDA_R_64F:
        memcpy(at, &value, sizeof value);
        break;
    case TRP__CUDA_R_32F:
        memcpy(at, &f32, sizeof f32);
        break;
    default:
        half = type == TRP__CUDA_R_16F ? trp__f32_to_f16(f32) : trp__f32_to_bf16(f32);
        memcpy(at, &half, sizeof half);
    }
}

fake_number fake_load(trp__cublas_type type, const char *at)
{
    trp__cublas_type real = fake_real(type);
    return fake_pair(load_real(real, at),
                     type == real ? 0 : load_real(real, at + real_bytes(real)));
}

void fake_store(trp__cublas_type type, char *at, fake_number value)
{
    trp__cublas_type real = fake_real(type);
    store_real(real, at, creal(value));
    if (type != real)
        store_real(real, at + real_bytes(real), cimag(value));
}

bool fake_scalar_take(fake_scalar *scalar, trp__cublas_pointer_mode mode)
{
    if (!scalar->at)
        return false;
    if (mode == TRP__CUBLAS_POINTER_MODE_HOST) {
        scalar->value = fake_load(scalar->type, scalar->at);
        scalar->at = NULL;
    }
    return true;
}

bool fake_scalar_read(fake_scalar *scalar)
{
    fake_pin pin = {0};
    if (!scalar->at)
        return true;
    if (!fake_cuda_reach(&pin, (uintptr_t)scalar->at, fake_bytes(scalar->type), false))
        return false;
    scalar->value = fake_load(scalar->type, pin.at);
    fake_cuda_let_go(&pin);
    return true;
}

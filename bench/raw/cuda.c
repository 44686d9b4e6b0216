/* The raw side on a GPU: direct calls of the driver and of cuBLAS. */
#include "raw.h"
#include "lt.h"
#include "bench/measure/stats.h"

#include "driver/cuda.h"
#include "libs/cublas/cublas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The probe actor's kernel for TRP_PROBE_NOP. */
static const char ptx[] = ".version 7.0\n"
                          ".target sm_80\n"
                          ".address_size 64\n"
                          ".visible .entry bench_nop()\n"
                          "{\n"
                          "    ret;\n"
                          "}\n";

enum { POISON = 0xff }; /* a NaN in every element type */

typedef struct raw_cuda {
    raw base;
    const trp__cuda *cu;
    trp__cu_device device;
    trp__cu_context context;
    trp__cu_stream stream;
    trp__cu_event event;
    trp__cu_module module;
    trp__cu_function nop;

    const trp__cublas *blas; /* NULL: missing */
    trp__cublas_handle handle;
    trp__cu_address workspace;
    int n;
    trp__cublas_type type;
    trp__cublas_compute compute;
    trp__cu_address a, b, c;
    size_t bytes; /* bytes of one copy of each matrix */
    uint32_t copies, next;

    raw_lt lt;

    trp__cu_address memory; /* for copies */
    void *pinned;
} raw_cuda;

static raw_cuda *of(raw *r)
{
    return (raw_cuda *)r; /* its first member */
}

static bool fail(raw_cuda *r, int result, const char *call)
{
    trp_error error = {0};
    trp__cuda_error(&error, result, call);
    snprintf(r->base.error, sizeof r->base.error, "%s", error.message);
    return false;
}

static inline bool check(raw_cuda *r, int result, const char *call)
{
    return __builtin_expect(result == TRP__CU_SUCCESS, 1) ? true : fail(r, result, call);
}

static inline bool check_blas(raw_cuda *r, int result, const char *call)
{
    if (__builtin_expect(result == TRP__CUBLAS_SUCCESS, 1))
        return true;
    snprintf(r->base.error, sizeof r->base.error, "%s (%d): %s, in %s",
             r->blas->cublasGetStatusName(result), result, r->blas->cublasGetStatusString(result),
             call);
    return false;
}

static bool synchronize(raw_cuda *r)
{
    return check(r, r->cu->cuStreamSynchronize(r->stream), "cuStreamSynchronize");
}

static inline bool launch_nop(raw_cuda *r)
{
    return check(r, r->cu->cuLaunchKernel(r->nop, 1, 1, 1, 1, 1, 1, 0, r->stream, NULL, NULL),
                 "cuLaunchKernel");
}

static bool cuda_round_trip(raw *base, uint64_t count)
{
    raw_cuda *r = of(base);
    const trp__cuda *cu = r->cu;
    for (uint64_t i = 0; i < count; i++) {
        if (!launch_nop(r) || !check(r, cu->cuEventRecord(r->event, r->stream), "cuEventRecord"))
            return false;
        trp__cu_result result;
        do {
            result = cu->cuEventQuery(r->event);
        } while (result == TRP__CU_NOT_READY);
        if (!check(r, result, "cuEventQuery"))
            return false;
    }
    return true;
}

static bool cuda_launch(raw *base, uint64_t count)
{
    raw_cuda *r = of(base);
    for (uint64_t i = 0; i < count; i++) {
        if (!launch_nop(r))
            return false;
    }
    return synchronize(r);
}

/* The module stays loaded until the context is destroyed. */
static bool load_and_launch(raw_cuda *r, const void *image, const char *kernel)
{
    trp__cu_module module;
    trp__cu_function function;
    void *nothing = NULL, *parameters[] = {&nothing};
    return check(r, r->cu->cuModuleLoadData(&module, image), "cuModuleLoadData") &&
           check(r, r->cu->cuModuleGetFunction(&function, module, kernel), "cuModuleGetFunction") &&
           check(r,
                 r->cu->cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, r->stream, parameters, NULL),
                 "cuLaunchKernel") &&
           synchronize(r);
}

static bool cuda_gemm_supports(trp_dtype type)
{
    return type == TRP_F64 || type == TRP_F32 || type == TRP_F16 || type == TRP_BF16;
}

/* Creates a handle with the blas actor's workspace and modes. */
static bool make_handle(raw_cuda *r)
{
    int major = 0;
    if (r->handle)
        return true;
    if (!r->blas) {
        snprintf(r->base.error, sizeof r->base.error, "cuBLAS was not found");
        return false;
    }
    if (!check(r,
               r->cu->cuDeviceGetAttribute(&major, TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                           r->device),
               "cuDeviceGetAttribute"))
        return false;
    size_t bytes = trp__cublas_workspace_bytes((uint32_t)major);
    return check(r, r->cu->cuMemAlloc_v2(&r->workspace, bytes), "cuMemAlloc") &&
           check_blas(r, r->blas->cublasCreate_v2(&r->handle), "cublasCreate") &&
           check_blas(r, r->blas->cublasSetStream_v2(r->handle, r->stream), "cublasSetStream") &&
           check_blas(
               r, r->blas->cublasSetWorkspace_v2(r->handle, (void *)(uintptr_t)r->workspace, bytes),
               "cublasSetWorkspace") &&
           check_blas(r, r->blas->cublasSetMathMode(r->handle, TRP__CUBLAS_MATH),
                      "cublasSetMathMode");
}

static trp__cublas_type data_type(trp_dtype type)
{
    return type == TRP_F64    ? TRP__CUDA_R_64F
           : type == TRP_F16  ? TRP__CUDA_R_16F
           : type == TRP_BF16 ? TRP__CUDA_R_16BF
                              : TRP__CUDA_R_32F;
}

static bool cuda_gemm_begin(raw *base, trp_dtype type, int n, const void *a, const void *b,
                            size_t bytes, uint32_t copies)
{
    raw_cuda *r = of(base);
    const trp__cuda *cu = r->cu;
    size_t all = bytes * copies;
    bool good = true;
    r->bytes = bytes;
    r->copies = copies;
    r->next = 0;
    r->n = n;
    r->type = data_type(type);
    r->compute = type == TRP_F64 ? TRP__CUBLAS_COMPUTE_64F : TRP__CUBLAS_COMPUTE_32F;
    good = make_handle(r) && check(r, cu->cuMemAlloc_v2(&r->a, all), "cuMemAlloc") &&
           check(r, cu->cuMemAlloc_v2(&r->b, all), "cuMemAlloc") &&
           check(r, cu->cuMemAlloc_v2(&r->c, all), "cuMemAlloc");
    for (size_t at = 0; good && at < all; at += bytes)
        good = check(r, cu->cuMemcpyHtoD_v2(r->a + at, a, bytes), "cuMemcpyHtoD") &&
               check(r, cu->cuMemcpyHtoD_v2(r->b + at, b, bytes), "cuMemcpyHtoD");
    return good && check(r, cu->cuMemsetD8Async(r->c, POISON, all, r->stream), "cuMemsetD8Async") &&
           check(r, cu->cuCtxSynchronize(), "cuCtxSynchronize");
}

typedef union scalar {
    double f64;
    float f32;
} scalar;

static bool cuda_gemm(raw *base, uint64_t count)
{
    raw_cuda *r = of(base);
    const scalar alpha = r->type == TRP__CUDA_R_64F ? (scalar){.f64 = 1} : (scalar){.f32 = 1};
    const scalar beta = {.f64 = 0}; /* all bits zero: 0 in either type */
    int n = r->n;
    for (uint64_t i = 0; i < count; i++, r->next = r->next + 1 < r->copies ? r->next + 1 : 0) {
        size_t at = r->next * r->bytes;
        const void *a = (const void *)(uintptr_t)(r->a + at);
        const void *b = (const void *)(uintptr_t)(r->b + at);
        void *c = (void *)(uintptr_t)(r->c + at);
        if (!check_blas(r,
                        r->blas->cublasGemmEx(r->handle, TRP__CUBLAS_OP_N, TRP__CUBLAS_OP_N, n, n,
                                              n, &alpha, a, r->type, n, b, r->type, n, &beta, c,
                                              r->type, n, r->compute, TRP__CUBLAS_GEMM_DEFAULT),
                        "cublasGemmEx"))
            return false;
    }
    return synchronize(r);
}

static bool cuda_gemm_result(raw *base, void *c, size_t bytes)
{
    raw_cuda *r = of(base);
    return synchronize(r) && check(r, r->cu->cuMemcpyDtoH_v2(c, r->c, bytes), "cuMemcpyDtoH");
}

static void free_device(raw_cuda *r, trp__cu_address *address)
{
    if (*address)
        r->cu->cuMemFree_v2(*address);
    *address = 0;
}

static void cuda_gemm_end(raw *base)
{
    raw_cuda *r = of(base);
    free_device(r, &r->a);
    free_device(r, &r->b);
    free_device(r, &r->c);
}

static bool cuda_matmul_begin(raw *base, const raw_product *product, const void *piece,
                              size_t bytes)
{
    raw_cuda *r = of(base);
    r->lt.cu = r->cu;
    r->lt.stream = r->stream;
    r->lt.error = base->error;
    return raw_lt_begin(&r->lt, product, piece, bytes) && synchronize(r);
}

static bool cuda_matmul(raw *base, uint64_t count)
{
    raw_cuda *r = of(base);
    return raw_lt_run(&r->lt, count) && synchronize(r);
}

static bool cuda_matmul_result(raw *base, void *d, size_t bytes)
{
    raw_cuda *r = of(base);
    trp__cu_address from = r->lt.out ? r->lt.out : r->lt.d;
    return synchronize(r) && check(r, r->cu->cuMemcpyDtoH_v2(d, from, bytes), "cuMemcpyDtoH");
}

static void cuda_matmul_end(raw *base)
{
    raw_lt_end(&of(base)->lt);
}

static bool cuda_copy_begin(raw *base, uint64_t bytes, bool pinned)
{
    raw_cuda *r = of(base);
    if (!check(r, r->cu->cuMemAlloc_v2(&r->memory, bytes), "cuMemAlloc"))
        return false;
    if (pinned && !check(r,
                         r->cu->cuMemHostAlloc(&r->pinned, bytes,
                                               TRP__CU_MEMHOSTALLOC_PORTABLE |
                                                   TRP__CU_MEMHOSTALLOC_DEVICEMAP),
                         "cuMemHostAlloc"))
        return false;
    if (pinned)
        memset(r->pinned, 0x5a, bytes);
    return check(r, r->cu->cuMemsetD8Async(r->memory, 0xa5, bytes, r->stream), "cuMemsetD8Async") &&
           synchronize(r);
}

static void cuda_copy_end(raw *base)
{
    raw_cuda *r = of(base);
    free_device(r, &r->memory);
    if (r->pinned)
        r->cu->cuMemFreeHost(r->pinned);
    r->pinned = NULL;
}

static bool cuda_copy_pinned(raw *base, raw_direction direction, uint64_t bytes, uint64_t count)
{
    raw_cuda *r = of(base);
    trp__cu_address host = (trp__cu_address)(uintptr_t)r->pinned; /* unified addressing */
    trp__cu_address to = direction == RAW_TO_DEVICE ? r->memory : host;
    trp__cu_address from = direction == RAW_TO_DEVICE ? host : r->memory;
    for (uint64_t i = 0; i < count; i++) {
        if (!check(r, r->cu->cuMemcpyAsync(to, from, bytes, r->stream), "cuMemcpyAsync") ||
            !synchronize(r))
            return false;
    }
    return true;
}

/* These calls are synchronous, except that the one to the device may return before the last data
 * has arrived. This favours the raw side and is accepted. */
static bool cuda_copy_pageable(raw *base, raw_direction direction, void *memory, uint64_t bytes,
                               uint64_t count)
{
    raw_cuda *r = of(base);
    for (uint64_t i = 0; i < count; i++) {
        bool ok = direction == RAW_TO_DEVICE
                      ? check(r, r->cu->cuMemcpyHtoD_v2(r->memory, memory, bytes), "cuMemcpyHtoD")
                      : check(r, r->cu->cuMemcpyDtoH_v2(memory, r->memory, bytes), "cuMemcpyDtoH");
        if (!ok)
            return false;
    }
    return true;
}

static bool cuda_pairs_async(raw *base, uint64_t bytes, uint64_t count)
{
    raw_cuda *r = of(base);
    for (uint64_t i = 0; i < count; i++) {
        trp__cu_address address;
        if (!check(r, r->cu->cuMemAllocAsync(&address, bytes, r->stream), "cuMemAllocAsync") ||
            !check(r, r->cu->cuMemFreeAsync(address, r->stream), "cuMemFreeAsync"))
            return false;
    }
    return true;
}

static bool cuda_pairs(raw *base, uint64_t bytes, uint64_t count)
{
    raw_cuda *r = of(base);
    for (uint64_t i = 0; i < count; i++) {
        trp__cu_address address;
        if (!check(r, r->cu->cuMemAlloc_v2(&address, bytes), "cuMemAlloc") ||
            !check(r, r->cu->cuMemFree_v2(address), "cuMemFree"))
            return false;
    }
    return true;
}

static void cuda_close(raw *base)
{
    raw_cuda *r = of(base);
    const trp__cuda *cu = r->cu;
    if (r->context) {
        cuda_gemm_end(base);
        cuda_copy_end(base);
        raw_lt_close(&r->lt);
        if (r->handle)
            r->blas->cublasDestroy_v2(r->handle);
        free_device(r, &r->workspace);
        if (r->module)
            cu->cuModuleUnload(r->module);
        if (r->event)
            cu->cuEventDestroy_v2(r->event);
        if (r->stream)
            cu->cuStreamDestroy_v2(r->stream);
        cu->cuCtxSetCurrent(NULL);
        cu->cuDevicePrimaryCtxRelease_v2(r->device);
    }
    free(r);
}

static const raw_api api = {
    .close = cuda_close,
    .round_trip_label = "cuLaunchKernel, cuEventRecord, cuEventQuery until done",
    .round_trip = cuda_round_trip,
    .launch_label = "cuLaunchKernel",
    .launch = cuda_launch,
    .gemm_label = "cublasGemmEx",
    .gemm_supports = cuda_gemm_supports,
    .gemm_begin = cuda_gemm_begin,
    .gemm = cuda_gemm,
    .gemm_result = cuda_gemm_result,
    .gemm_end = cuda_gemm_end,
    .matmul_label = "cublasLtMatmul",
    .matmul_begin = cuda_matmul_begin,
    .matmul = cuda_matmul,
    .matmul_result = cuda_matmul_result,
    .matmul_end = cuda_matmul_end,
    .copy_begin = cuda_copy_begin,
    .copy_end = cuda_copy_end,
    .pinned_label = "cuMemcpyAsync with memory of cuMemHostAlloc, cuStreamSynchronize",
    .copy_pinned = cuda_copy_pinned,
    .pageable_label = {[RAW_TO_DEVICE] = "cuMemcpyHtoD from malloc'ed memory",
                       [RAW_TO_HOST] = "cuMemcpyDtoH to malloc'ed memory"},
    .copy_pageable = cuda_copy_pageable,
    .allocator = {{"cuMemAllocAsync + cuMemFreeAsync", cuda_pairs_async},
                  {"cuMemAlloc + cuMemFree", cuda_pairs}},
};

static bool make_context(raw_cuda *r, uint32_t ordinal)
{
    const trp__cuda *cu = r->cu;
    return check(r, cu->cuDeviceGet(&r->device, (int)ordinal), "cuDeviceGet") &&
           check(r, cu->cuDevicePrimaryCtxRetain(&r->context, r->device),
                 "cuDevicePrimaryCtxRetain") &&
           check(r, cu->cuCtxSetCurrent(r->context), "cuCtxSetCurrent") &&
           check(r, cu->cuStreamCreate(&r->stream, TRP__CU_STREAM_NON_BLOCKING),
                 "cuStreamCreate") &&
           check(r, cu->cuEventCreate(&r->event, TRP__CU_EVENT_DISABLE_TIMING), "cuEventCreate");
}

static bool start(raw_cuda *r, uint32_t ordinal)
{
    return make_context(r, ordinal) &&
           check(r, r->cu->cuModuleLoadData(&r->module, ptx), "cuModuleLoadData") &&
           check(r, r->cu->cuModuleGetFunction(&r->nop, r->module, "bench_nop"),
                 "cuModuleGetFunction");
}

static void learn_versions(raw_cuda *r)
{
    raw *base = &r->base;
    int cuda = 0;
    char blas[32];
    r->cu->cuDriverGetVersion(&cuda);
    snprintf(base->driver_version, sizeof base->driver_version, "%d.%d", cuda / 1000,
             cuda % 1000 / 10);
    if (trp__cublas_load(&r->blas, NULL) != TRP_OK) {
        r->blas = NULL;
        return;
    }
    trp__cublas_version(r->blas, blas, sizeof blas);
    snprintf(base->blas_version, sizeof base->blas_version, "cuBLAS %s", blas);
}

/* Opens the driver only. Returns NULL with the reason in `message`. */
static raw_cuda *find_driver(char *message, size_t message_size)
{
    trp_error error = {0};
    raw_cuda *r = calloc(1, sizeof *r);
    if (!r) {
        snprintf(message, message_size, "no memory");
        return NULL;
    }
    r->base.api = &api;
    if (trp__cuda_load(&r->cu, &error) != TRP_OK) {
        snprintf(message, message_size, "%s", error.message);
        free(r);
        return NULL;
    }
    return r;
}

raw *raw_cuda_open(uint32_t ordinal, char *message, size_t message_size)
{
    raw_cuda *r = find_driver(message, message_size);
    if (!r)
        return NULL;
    if (!start(r, ordinal)) {
        snprintf(message, message_size, "%s", r->base.error);
        cuda_close(&r->base);
        return NULL;
    }
    learn_versions(r);
    return &r->base;
}

bool raw_cuda_first_load(uint32_t ordinal, const void *image, const char *kernel, double *ns,
                         char *message, size_t message_size)
{
    raw_cuda *r = find_driver(message, message_size);
    if (!r)
        return false;
    bool ok = make_context(r, ordinal) &&
              check(r, r->cu->cuEventRecord(r->event, r->stream), "cuEventRecord") &&
              synchronize(r);
    int64_t from = stats_now();
    ok = ok && load_and_launch(r, image, kernel);
    *ns = (double)(stats_now() - from);
    snprintf(message, message_size, "%s", r->base.error);
    cuda_close(&r->base);
    return ok;
}

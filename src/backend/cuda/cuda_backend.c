/* The CUDA backend. Every call of the driver goes through trp__cuda_check(), which remembers the
 * first error that breaks the context. */
#include "backend/cuda/accel.h"

#include "base/error.h"

#include <stdlib.h>

/* Host memory that the device reaches. */
typedef struct trp__cuda_region {
    struct trp__cuda_region *next;
    char *base;
    uint64_t bytes;
    trp__cu_address device;
} region;

trp_status trp__cuda_fail(trp__accel *accel, int result, const char *call, trp_error *error)
{
    if (trp__cuda_sticky(result)) {
        pthread_mutex_lock(&accel->lock);
        if (accel->broken == 0) {
            accel->broken = result;
            accel->broken_call = call;
        }
        pthread_mutex_unlock(&accel->lock);
    }
    return trp__cuda_error(error, result, call);
}

/* Opening. */

trp_status trp__cuda_attach(trp__accel *accel, trp_error *error)
{
    return trp__cuda_check(accel, accel->cu->cuCtxSetCurrent(accel->context), "cuCtxSetCurrent",
                           error);
}

static trp_status start_context(trp__accel *accel, uint32_t ordinal, trp_error *error)
{
    const trp__cuda *cu = accel->cu;
    trp__cu_allocation_prop prop = {
        .type = TRP__CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = TRP__CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = TRP__CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)ordinal},
    };
    trp_status status =
        trp__cuda_check(accel, cu->cuDeviceGet(&accel->device, (int)ordinal), "cuDeviceGet", error);
    if (status == TRP_OK)
        status = trp__cuda_check(
            accel,
            cu->cuMemGetAllocationGranularity(&accel->granularity, &prop,
                                              TRP__CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
            "cuMemGetAllocationGranularity", error);
    if (status == TRP_OK)
        status =
            trp__cuda_check(accel, cu->cuDevicePrimaryCtxRetain(&accel->context, accel->device),
                            "cuDevicePrimaryCtxRetain", error);
    return status;
}

static void close_accel(trp__accel *accel)
{
    if (!accel)
        return;
    while (accel->regions) {
        region *r = accel->regions;
        accel->regions = r->next;
        free(r);
    }
    if (accel->context)
        accel->cu->cuDevicePrimaryCtxRelease_v2(accel->device);
    pthread_mutex_destroy(&accel->lock);
    free(accel);
}

static trp_status open_accel(uint32_t ordinal, trp__accel **out, trp_error *error)
{
    const trp__cuda *cu;
    trp_status status = trp__cuda_load(&cu, error);
    if (status != TRP_OK)
        return status;
    trp__accel *accel = calloc(1, sizeof *accel);
    if (!accel)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a CUDA device");
    accel->cu = cu;
    atomic_init(&accel->same_addresses, true);
    pthread_mutex_init(&accel->lock, NULL);
    status = start_context(accel, ordinal, error);
    if (status == TRP_OK)
        status = trp__cuda_attach(accel, error);
    if (status != TRP_OK) {
        close_accel(accel);
        return status;
    }
    *out = accel;
    return TRP_OK;
}

/* The driver reserves stack of the limit's size for every thread that fits on the device, and grows
 * it for a kernel that is known to need more. So the limit matters only for kernels of unknown
 * need. If the driver refuses, only memory is wasted. */
static void expect_deep_kernels(trp__accel *accel, bool expected)
{
    if (accel->stack_bytes == 0)
        accel->cu->cuCtxGetLimit(&accel->stack_bytes, TRP__CU_LIMIT_STACK_SIZE);
    accel->cu->cuCtxSetLimit(TRP__CU_LIMIT_STACK_SIZE, expected ? accel->stack_bytes : 0);
}

/* Memory. */

static trp_status set_access(trp__accel *accel, trp__cu_address address, uint64_t bytes,
                             bool read_only, trp_error *error)
{
    trp__cu_access_desc access = {
        .location = {.type = TRP__CU_MEM_LOCATION_TYPE_DEVICE, .id = accel->device},
        .flags = read_only ? TRP__CU_MEM_ACCESS_FLAGS_PROT_READ
                           : TRP__CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    return trp__cuda_check(accel, accel->cu->cuMemSetAccess(address, bytes, &access, 1),
                           "cuMemSetAccess", error);
}

/* The range is followed by an unmapped granule, so that an access past the end of the last buffer
 * faults and does not reach the next arena. */
static trp_status arena_map(trp__accel *accel, int fd, uint64_t bytes, bool read_only, void **base,
                            trp_error *error)
{
    const trp__cuda *cu = accel->cu;
    uint64_t reserved = bytes + accel->granularity;
    trp__cu_memory memory = 0;
    trp__cu_address address = 0;
    bool mapped = false;
    trp_status status = trp__cuda_check(
        accel,
        cu->cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)fd,
                                           TRP__CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "cuMemImportFromShareableHandle", error);
    if (status != TRP_OK)
        return status;
    status = trp__cuda_check(accel, cu->cuMemAddressReserve(&address, reserved, 0, 0, 0),
                             "cuMemAddressReserve", error);
    if (status == TRP_OK) {
        status =
            trp__cuda_check(accel, cu->cuMemMap(address, bytes, 0, memory, 0), "cuMemMap", error);
        mapped = status == TRP_OK;
    }
    if (status == TRP_OK)
        status = set_access(accel, address, bytes, read_only, error);
    cu->cuMemRelease(memory); /* the mapping holds it */
    if (status == TRP_OK) {
        *base = (void *)(uintptr_t)address;
        return TRP_OK;
    }
    if (mapped)
        cu->cuMemUnmap(address, bytes);
    if (address)
        cu->cuMemAddressFree(address, reserved);
    return status;
}

static trp_status arena_protect(trp__accel *accel, void *base, uint64_t bytes, bool read_only,
                                trp_error *error)
{
    return set_access(accel, (trp__cu_address)(uintptr_t)base, bytes, read_only, error);
}

static void arena_unmap(trp__accel *accel, void *base, uint64_t bytes)
{
    trp__cu_address address = (trp__cu_address)(uintptr_t)base;
    trp__cuda_check(accel, accel->cu->cuMemUnmap(address, bytes), "cuMemUnmap", NULL);
    trp__cuda_check(accel, accel->cu->cuMemAddressFree(address, bytes + accel->granularity),
                    "cuMemAddressFree", NULL);
}

static trp_status host_register(trp__accel *accel, void *base, uint64_t bytes, trp_error *error)
{
    const trp__cuda *cu = accel->cu;
    region *r = malloc(sizeof *r);
    if (!r)
        return trp__error_set(error, TRP_E_MEMORY, "no memory to register host memory");
    *r = (region){.base = base, .bytes = bytes};
    trp_status status = trp__cuda_check(
        accel,
        cu->cuMemHostRegister_v2(
            base, bytes, TRP__CU_MEMHOSTREGISTER_PORTABLE | TRP__CU_MEMHOSTREGISTER_DEVICEMAP),
        "cuMemHostRegister", error);
    if (status != TRP_OK) {
        free(r);
        return status;
    }
    status = trp__cuda_check(accel, cu->cuMemHostGetDevicePointer_v2(&r->device, base, 0),
                             "cuMemHostGetDevicePointer", error);
    if (status != TRP_OK) {
        cu->cuMemHostUnregister(base);
        free(r);
        return status;
    }
    pthread_mutex_lock(&accel->lock);
    r->next = accel->regions;
    accel->regions = r;
    pthread_mutex_unlock(&accel->lock);
    if (r->device != (trp__cu_address)(uintptr_t)base)
        atomic_store_explicit(&accel->same_addresses, false, memory_order_release);
    return TRP_OK;
}

static void host_unregister(trp__accel *accel, void *base)
{
    pthread_mutex_lock(&accel->lock);
    region **at = &accel->regions;
    while (*at && (*at)->base != base)
        at = &(*at)->next;
    region *r = *at;
    if (r)
        *at = r->next;
    pthread_mutex_unlock(&accel->lock);
    if (!r)
        return;
    trp__cuda_check(accel, accel->cu->cuMemHostUnregister(base), "cuMemHostUnregister", NULL);
    free(r);
}

static trp__cu_address translate_slowly(trp__accel *accel, uintptr_t address)
{
    trp__cu_address device = address;
    pthread_mutex_lock(&accel->lock);
    for (const region *r = accel->regions; r; r = r->next) {
        uintptr_t offset = address - (uintptr_t)r->base;
        if (address >= (uintptr_t)r->base && offset < r->bytes) {
            device = r->device + offset;
            break;
        }
    }
    pthread_mutex_unlock(&accel->lock);
    return device;
}

/* The device's address of a word of registered memory. */
trp__cu_address trp__cuda_translate(trp__accel *accel, _Atomic uint64_t *word)
{
    if (atomic_load_explicit(&accel->same_addresses, memory_order_acquire))
        return (trp__cu_address)(uintptr_t)word;
    return translate_slowly(accel, (uintptr_t)word);
}

static void *host_address(trp__accel *accel, void *address)
{
    if (atomic_load_explicit(&accel->same_addresses, memory_order_acquire))
        return address;
    return (void *)(uintptr_t)translate_slowly(accel, (uintptr_t)address);
}

/* The driver reports a fault of the device when a stream is queried. A sticky result is the same
 * for every stream of the context, so the first one ends the search. */
static trp_status health(trp__accel *accel, trp_error *error)
{
    const trp__cuda *cu = accel->cu;
    pthread_mutex_lock(&accel->lock);
    for (const trp__stream *s = accel->streams; s && accel->broken == 0; s = s->next) {
        trp__cu_result result = cu->cuStreamQuery(s->stream);
        if (trp__cuda_sticky(result)) {
            accel->broken = result;
            accel->broken_call = "cuStreamQuery";
        }
    }
    int broken = accel->broken;
    const char *call = accel->broken_call;
    pthread_mutex_unlock(&accel->lock);
    return broken == 0 ? TRP_OK : trp__cuda_error(error, broken, call);
}

const trp__backend trp__cuda_backend = {
    .name = "cuda",
    .open = open_accel,
    .close = close_accel,
    .attach = trp__cuda_attach,
    .expect_deep_kernels = expect_deep_kernels,
    .arena_map = arena_map,
    .arena_protect = arena_protect,
    .arena_unmap = arena_unmap,
    .host_register = host_register,
    .host_unregister = host_unregister,
    .host_address = host_address,
    .stream_create = trp__cuda_stream_create,
    .stream_destroy = trp__cuda_stream_destroy,
    .stream_copy = trp__cuda_stream_copy,
    .stream_copy_rows = trp__cuda_stream_copy_rows,
    .stream_fill = trp__cuda_stream_fill,
    .stream_signal = trp__cuda_stream_signal,
    .stream_signal_beside = trp__cuda_stream_signal_beside,
    .stream_wait = trp__cuda_stream_wait,
    .stream_follow = trp__cuda_stream_follow,
    .stream_rehearse = trp__cuda_stream_rehearse,
    .stream_forget = trp__cuda_stream_forget,
    .stream_wake = trp__cuda_stream_wake,
    .stream_drain = trp__cuda_stream_drain,
    .stream_idle = trp__cuda_stream_idle,
    .stream_native = trp__cuda_stream_native,
    .fail = trp__cuda_fail,
    .health = health,
};

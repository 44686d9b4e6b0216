#include "driver/device_memory.h"

#include "base/os/descriptor.h"
#include "base/error.h"
#include "driver/cuda.h"

#include <fcntl.h>
#include <string.h>

/* The oldest compute capability that Troupe supports is 8.0, Ampere. */
enum { COMPUTE_MAJOR_MIN = 8 };

static trp_status check(int result, const char *call, trp_error *error)
{
    return result == TRP__CU_SUCCESS ? TRP_OK : trp__cuda_error(error, result, call);
}

trp_status trp__cuda_device_count(uint32_t *count, trp_error *error)
{
    const trp__cuda *cu;
    int value = 0;
    *count = 0;
    trp_status status = trp__cuda_load(&cu, error);
    if (status == TRP_OK)
        status = check(cu->cuDeviceGetCount(&value), "cuDeviceGetCount", error);
    if (status == TRP_OK)
        *count = (uint32_t)value;
    return status;
}

/* Finds the driver, and the device of an ordinal. */
static trp_status find_device(uint32_t ordinal, const trp__cuda **cu, trp__cu_device *device,
                              trp_error *error)
{
    uint32_t count;
    trp_status status = trp__cuda_device_count(&count, error);
    if (status != TRP_OK)
        return status;
    if (ordinal >= count) {
        trp__error_set(error, TRP_E_MISSING, "ordinal: expected a GPU below %u, got %u", count,
                       ordinal);
        return TRP_E_MISSING; /* the static analyser does not know what trp__error_set() returns */
    }
    status = trp__cuda_load(cu, error);
    if (status == TRP_OK)
        status = check((*cu)->cuDeviceGet(device, (int)ordinal), "cuDeviceGet", error);
    return status;
}

static trp_status attribute(const trp__cuda *cu, trp__cu_device device, trp__cu_attribute which,
                            uint32_t *value, trp_error *error)
{
    int raw = 0;
    trp_status status =
        check(cu->cuDeviceGetAttribute(&raw, which, device), "cuDeviceGetAttribute", error);
    *value = raw > 0 ? (uint32_t)raw : 0;
    return status;
}

trp_status trp__cuda_device_describe(uint32_t ordinal, trp__cuda_device_info *out, trp_error *error)
{
    const trp__cuda *cu;
    trp__cu_device device;
    size_t bytes = 0;
    *out = (trp__cuda_device_info){0};
    trp_status status = find_device(ordinal, &cu, &device, error);
    if (status == TRP_OK)
        status = check(cu->cuDeviceGetName(out->name, (int)sizeof out->name, device),
                       "cuDeviceGetName", error);
    if (status == TRP_OK)
        status = check(cu->cuDeviceTotalMem_v2(&bytes, device), "cuDeviceTotalMem", error);
    if (status == TRP_OK)
        status = attribute(cu, device, TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                           &out->compute_major, error);
    if (status == TRP_OK)
        status = attribute(cu, device, TRP__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                           &out->compute_minor, error);
    if (status == TRP_OK)
        status =
            attribute(cu, device, TRP__CU_ATTRIBUTE_MULTIPROCESSOR_COUNT, &out->processors, error);
    out->memory_total = bytes;
    return status;
}

trp_status trp__cuda_device_uuid(uint32_t ordinal, uint8_t out[16], trp_error *error)
{
    const trp__cuda *cu;
    trp__cu_device device;
    trp__cu_uuid uuid = {{0}};
    trp_status status = find_device(ordinal, &cu, &device, error);
    if (status == TRP_OK)
        status = check(cu->cuDeviceGetUuid_v2(&uuid, device), "cuDeviceGetUuid", error);
    memcpy(out, uuid.bytes, sizeof uuid.bytes);
    return status;
}

trp_status trp__cuda_device_check(uint32_t ordinal, trp_error *error)
{
    static const struct {
        trp__cu_attribute attribute;
        const char *what;
    } needs[] = {
        {TRP__CU_ATTRIBUTE_UNIFIED_ADDRESSING, "unified addressing"},
        {TRP__CU_ATTRIBUTE_HOST_REGISTER_SUPPORTED, "registration of host memory"},
        {TRP__CU_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "virtual memory management"},
        {TRP__CU_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
         "sharing of memory by file descriptor"},
        {TRP__CU_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, "64-bit stream memory operations"},
    };
    const trp__cuda *cu;
    trp__cu_device device;
    trp__cuda_device_info info;
    trp_status status = find_device(ordinal, &cu, &device, error);
    if (status == TRP_OK)
        status = trp__cuda_device_describe(ordinal, &info, error);
    if (status != TRP_OK)
        return status;
    if (info.compute_major < COMPUTE_MAJOR_MIN)
        return trp__error_set(error, TRP_E_UNSUPPORTED,
                              "GPU %u (%s) has compute capability %u.%u; Troupe needs 8.0 or later",
                              ordinal, info.name, info.compute_major, info.compute_minor);
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        uint32_t value;
        status = attribute(cu, device, needs[i].attribute, &value, error);
        if (status != TRP_OK)
            return status;
        if (!value)
            return trp__error_set(error, TRP_E_UNSUPPORTED, "GPU %u (%s) or its driver lacks %s",
                                  ordinal, info.name, needs[i].what);
    }
    return TRP_OK;
}

static trp__cu_allocation_prop shareable(uint32_t ordinal)
{
    return (trp__cu_allocation_prop){
        .type = TRP__CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = TRP__CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = TRP__CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)ordinal},
    };
}

trp_status trp__cuda_memory_granularity(uint32_t ordinal, uint64_t *bytes, trp_error *error)
{
    const trp__cuda *cu;
    trp__cu_allocation_prop prop = shareable(ordinal);
    size_t value = 0;
    trp_status status = trp__cuda_load(&cu, error);
    if (status == TRP_OK)
        status = check(cu->cuMemGetAllocationGranularity(&value, &prop,
                                                         TRP__CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                       "cuMemGetAllocationGranularity", error);
    *bytes = value;
    return status;
}

trp_status trp__cuda_memory_create(uint32_t ordinal, uint64_t bytes, uint64_t *handle, int *fd,
                                   trp_error *error)
{
    const trp__cuda *cu;
    trp__cu_allocation_prop prop = shareable(ordinal);
    trp__cu_memory memory = 0;
    int exported = -1;
    *handle = 0;
    *fd = -1;
    trp_status status = trp__cuda_load(&cu, error);
    if (status == TRP_OK)
        status = check(cu->cuMemCreate(&memory, bytes, &prop, 0), "cuMemCreate", error);
    if (status != TRP_OK)
        return status;
    status = check(cu->cuMemExportToShareableHandle(
                       &exported, memory, TRP__CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                   "cuMemExportToShareableHandle", error);
    if (status != TRP_OK) {
        cu->cuMemRelease(memory);
        return status;
    }
    exported = trp__descriptor_apart(exported);
    if (exported < 0) {
        status = trp__error_set_errno(error, "a descriptor of device memory");
        cu->cuMemRelease(memory);
        return status;
    }
    fcntl(exported, F_SETFD, FD_CLOEXEC);
    *handle = memory;
    *fd = exported;
    return TRP_OK;
}

void trp__cuda_memory_release(uint64_t handle)
{
    const trp__cuda *cu;
    if (trp__cuda_load(&cu, NULL) == TRP_OK)
        cu->cuMemRelease(handle);
}

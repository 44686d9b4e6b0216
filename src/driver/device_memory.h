/* GPUs on the application's side: their properties, and memory on them that the application owns.
 * Makes no CUDA context, so a fault can't break one in the application. Any thread. */
#ifndef TRP_DRIVER_DEVICE_MEMORY_H
#define TRP_DRIVER_DEVICE_MEMORY_H

#include <troupe/status.h>

typedef struct trp__cuda_device_info {
    char name[96];
    uint32_t compute_major;
    uint32_t compute_minor;
    uint32_t processors;   /* multiprocessors */
    uint64_t memory_total; /* bytes */
} trp__cuda_device_info;

/* TRP_E_MISSING where there is no driver or no GPU. */
trp_status trp__cuda_device_count(uint32_t *count, trp_error *error);

/* TRP_E_MISSING: there is no GPU of this ordinal. */
trp_status trp__cuda_device_describe(uint32_t ordinal, trp__cuda_device_info *out,
                                     trp_error *error);

/* Returns the UUID by which every process finds the GPU, or the part of one (MIG). */
trp_status trp__cuda_device_uuid(uint32_t ordinal, uint8_t out[16], trp_error *error);

/* TRP_E_UNSUPPORTED, naming what is missing, if Troupe can't work on the GPU: compute capability
 * below 8.0, or the driver lacks shared memory by descriptor or 64-bit stream memory operations. */
trp_status trp__cuda_device_check(uint32_t ordinal, trp_error *error);

/* Returns the unit of trp__cuda_memory_create(): sizes must be multiples of it. */
trp_status trp__cuda_memory_granularity(uint32_t ordinal, uint64_t *bytes, trp_error *error);

/* Allocates device memory and exports it: *fd (close-on-exec, the caller closes it) is for
 * backend->arena_map() of a worker. The memory lives until the handle is released and every mapping
 * and descriptor of it is gone. */
trp_status trp__cuda_memory_create(uint32_t ordinal, uint64_t bytes, uint64_t *handle, int *fd,
                                   trp_error *error);
void trp__cuda_memory_release(uint64_t handle);

#endif

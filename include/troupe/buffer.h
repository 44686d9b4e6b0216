/* Device memory: buffers, copies, and host memory that a device can reach.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_BUFFER_H
#define TROUPE_BUFFER_H

#include <troupe/submit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a buffer of `bytes` bytes of device memory, aligned to 256 bytes, content undefined. The
 * memory belongs to this process, not to the worker: it survives every fault. When memory is short,
 * waits up to 5 s for buffers that were freed and are still used by requests.
 * Errors: TRP_E_ARGUMENT (0 bytes), TRP_E_MEMORY, TRP_E_BUSY (262,144 buffers are alive). */
TRP_API trp_status trp_buffer_create(trp_device *device, uint64_t bytes, trp_buffer *out);

/* Frees a buffer. The handle is stale from now on; requests that were sent before run to their end,
 * and the memory is used again only after that. Never blocks. TRP_E_STALE: it was freed before. */
TRP_API trp_status trp_buffer_free(trp_device *device, trp_buffer buffer);

typedef struct trp_buffer_info {
    uint64_t bytes;
    bool lost; /* a fault may have left it half-written; reading it fails until it is fully written
                */
} trp_buffer_info;

TRP_API trp_status trp_buffer_get_info(trp_device *device, trp_buffer buffer, trp_buffer_info *out);

/* Copies host memory into a buffer, asynchronously, at any offset and size. `source` must stay
 * unchanged until the request has completed. Memory from trp_host_alloc() of this device is read by
 * the device directly; other memory is copied through staging memory, large sizes in a pipeline of
 * chunks by threads of Troupe. */
TRP_API trp_status trp_write(trp_device *device, trp_buffer buffer, uint64_t offset,
                             const void *source, uint64_t bytes, trp_completion *completion);

/* Copies from a buffer to host memory, asynchronously; the counterpart of trp_write(). `target`
 * must stay valid until the request has completed. */
TRP_API trp_status trp_read(trp_device *device, trp_buffer buffer, uint64_t offset, void *target,
                            uint64_t bytes, trp_completion *completion);

/* Copies between two buffers of one device. The ranges must not overlap. */
TRP_API trp_status trp_copy(trp_device *device, trp_buffer source, uint64_t source_offset,
                            trp_buffer target, uint64_t target_offset, uint64_t bytes,
                            trp_completion *completion);

/* Fills a range with a pattern of `width` bytes: 1, 2 or 4. offset and bytes must be multiples of
 * width. */
TRP_API trp_status trp_fill(trp_device *device, trp_buffer buffer, uint64_t offset, uint64_t bytes,
                            uint32_t pattern, uint32_t width, trp_completion *completion);

/* Host memory that the device reads and writes directly (pinned, on a GPU), page-aligned and
 * zeroed. Reads and writes from anywhere inside it need no staging. At most 256 regions on a
 * device. Errors: TRP_E_ARGUMENT, TRP_E_BUSY, TRP_E_MEMORY, TRP_E_FAULT (the worker did not answer
 * within start_timeout_ns and was killed), TRP_E_DEVICE_DOWN. */
TRP_API trp_status trp_host_alloc(trp_device *device, uint64_t bytes, void **out);

/* Returns host memory; the caller must not touch it any more. Copies that are still running keep it
 * until they end. `memory` is the pointer that trp_host_alloc() gave; NULL is ignored. */
TRP_API trp_status trp_host_free(trp_device *device, void *memory);

/* Returns to the system what no live buffer needs. */
TRP_API trp_status trp_device_trim(trp_device *device);

#ifdef __cplusplus
}
#endif
#endif

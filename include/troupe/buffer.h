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

typedef struct trp_buffer_options {
    uint64_t bytes; /* at least 1 */
    /* The buffer can be sealed. It takes device memory for itself, in units of 2 MiB on GPUs and of
     * 64 KiB on the host, and a file descriptor of this process; a device has about 1000 of such
     * pieces. So it is meant for large content that is written once and read often, such as the
     * weights of a model: many tensors in one buffer, told apart by offsets. */
    bool sealable;
} trp_buffer_options;

/* Makes a buffer as trp_buffer_create() does, with options. Errors: as there; TRP_E_ARGUMENT also
 * if options is NULL, TRP_E_MEMORY also if the device has no piece left. */
TRP_API trp_status trp_buffer_create_with(trp_device *device, const trp_buffer_options *options,
                                          trp_buffer *out);

/* Seals a sealable buffer: it is mapped read-only in every worker, so that nothing can change or
 * lose its content, neither a fault nor a kernel that writes where it should not (that kernel
 * faults).
 *
 * From this call on, requests that write the buffer are refused with TRP_E_ARGUMENT. Those sent
 * before are waited for, up to timeout_ns (TRP_FOREVER: without limit; 0: there must be none). If
 * one of them failed otherwise than by a fault, the buffer holds what that one left. Then the
 * workers change their mappings. A GPU can't use memory while its mapping changes, so the active
 * worker waits first for the requests on the buffer that have begun, and requests that use the
 * buffer meanwhile are held back until the change is made; so are later requests of their actors. A
 * worker that dies meanwhile does no harm. After TRP_OK the mapping is read-only in every worker
 * that lives, and in all that come later.
 *
 * On an error the buffer is not sealed and can be written again. TRP_OK also if it is sealed
 * already. While another thread seals or unseals it, this call waits for that one first, within
 * timeout_ns. Errors: TRP_E_ARGUMENT (the buffer is not sealable), TRP_E_STALE, TRP_E_LOST (the
 * content is lost), TRP_E_TIMEOUT (requests that write it have not ended; or those that read it
 * have not within half the device's start_timeout_ns; or, after all of that, a worker has not
 * answered), TRP_E_DEVICE_DOWN, TRP_E_FORKED, and what the
 * driver says if it can't change a mapping. */
TRP_API trp_status trp_buffer_seal(trp_device *device, trp_buffer buffer, int64_t timeout_ns);

/* Makes a sealed buffer writable again in every worker, in the same way; then returns. TRP_OK also
 * if it is not sealed. Waits first while another thread seals or unseals it. After an error other
 * than TRP_E_ARGUMENT, TRP_E_STALE, TRP_E_DEVICE_DOWN and TRP_E_FORKED the buffer is not sealed
 * either, but a worker may refuse requests that write it, or hold them back until it has changed
 * its mapping. Errors: as of trp_buffer_seal(), without TRP_E_LOST. */
TRP_API trp_status trp_buffer_unseal(trp_device *device, trp_buffer buffer);

/* Frees a buffer, sealed or not. The handle is stale from now on; requests that were sent before
 * run to their end, and the memory is used again only after that. Never blocks. TRP_E_STALE: it was
 * freed before. */
TRP_API trp_status trp_buffer_free(trp_device *device, trp_buffer buffer);

typedef struct trp_buffer_info {
    uint64_t bytes;
    bool lost; /* a fault may have left it half-written; reading it fails until it is fully written
                */
    bool sealable; /* it was made so */
    bool sealed;   /* trp_buffer_seal() has returned TRP_OK; not while it is being unsealed */
} trp_buffer_info;

TRP_API trp_status trp_buffer_get_info(trp_device *device, trp_buffer buffer, trp_buffer_info *out);

/* Copies host memory into a buffer, asynchronously, at any offset and size. `source` must stay
 * unchanged until the request has completed. Memory from trp_host_alloc() of this device is read by
 * the device directly; other memory is copied through staging memory, large sizes in a pipeline of
 * chunks by threads of Troupe. */
TRP_API trp_status trp_write(trp_device *device, trp_buffer buffer, uint64_t offset,
                             const void *source, uint64_t bytes, trp_completion *completion);

/* Copies from a buffer to host memory, asynchronously; the counterpart of trp_write(). `target`
 * must stay valid until the request has completed; submit.h says how a program learns of that, from
 * a later request, too. */
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

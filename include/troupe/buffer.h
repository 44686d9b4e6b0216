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
     * weights of a model: many tensors in one buffer, at different offsets. */
    bool sealable;
    uint64_t reserved[4]; /* must be 0 */
} trp_buffer_options;

/* Makes a buffer as trp_buffer_create() does, with options. Errors: as there; TRP_E_ARGUMENT also
 * if options is NULL, TRP_E_MEMORY also if the device has no piece left. */
TRP_API trp_status trp_buffer_create_with(trp_device *device, const trp_buffer_options *options,
                                          trp_buffer *out);

/* Seals a sealable buffer: it is mapped read-only in every worker, so that nothing can change or
 * lose its content, neither a fault nor a kernel that writes where it should not (that kernel
 * faults).
 *
 * From this call on, requests that write the buffer are refused with TRP_E_ARGUMENT. The call waits
 * up to timeout_ns (TRP_FOREVER: without limit; 0: not at all) for writers sent before. If one of
 * them failed otherwise than by a fault, the buffer holds whatever that one left. Then the workers
 * change their mappings. A GPU can't use memory while its mapping changes, so the active worker
 * first waits for the requests on the buffer that have begun. It holds back requests that use the
 * buffer, and later requests of their actors, until the change is made. A worker may die meanwhile.
 * After TRP_OK the mapping is read-only in every worker, present and future.
 *
 * On an error the buffer is not sealed and can be written again. TRP_OK also if it is sealed
 * already. While another thread seals or unseals it, this call waits for that one first, within
 * timeout_ns. Errors: TRP_E_ARGUMENT (the buffer is not sealable), TRP_E_STALE, TRP_E_LOST (the
 * content is lost), TRP_E_TIMEOUT (requests that write it have not ended; or those that read it
 * have not within half the device's start_timeout_ns; or, after all of that, a worker has not
 * answered), TRP_E_BUSY (the program has it mapped for writing), TRP_E_DEVICE_DOWN, TRP_E_FORKED,
 * and what the driver says if it can't change a mapping. */
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
    bool lost; /* a fault may have left a range half-written: reading it fails until it is written
                  anew */
    bool sealable; /* it was made so */
    bool sealed;   /* trp_buffer_seal() has returned TRP_OK; not while it is being unsealed */
    uint64_t reserved[4]; /* 0 */
} trp_buffer_info;

TRP_API trp_status trp_buffer_get_info(trp_device *device, trp_buffer buffer, trp_buffer_info *out);

/* Maps a buffer of the host backend into the address space of the program: *out points to its first
 * byte, in pages that the program shares with the workers. Nothing is copied, and nothing is waited
 * for but another thread that seals or unseals the buffer. A sealed buffer is mapped read-only
 * (writing to it raises SIGSEGV), any other for reading and writing; trp_buffer_seal() gives
 * TRP_E_BUSY while there is a writable mapping.
 *
 * When the program may touch the bytes. Troupe does not see accesses through a mapping, so the
 * program keeps the order:
 *   - Reading a byte: after the end of each earlier request that writes it was delivered with
 *     TRP_OK, as "Memory of the program" in submit.h defines it (that request was awaited or its
 *     event taken, or that of a later request of its actor, or of one that waited for it; or
 *     trp_device_drain() has returned); and before a further request that writes it is sent.
 *   - Writing a byte: after the end of each request that reads or writes it was delivered
 *     likewise, and before a further one is sent. A request sees all that was written before it
 *     was sent, by the same thread or ordered before it by the program's own synchronisation.
 *   - A request that ended with TRP_E_FAULT, TRP_E_CANCELLED or any other error touches the bytes
 *     no more either, but says nothing about earlier ones: await those too, or drain.
 *
 * This call judges contents as for a reader of the whole buffer that is sent now. It does not judge
 * accesses: the status of a request that fails later reports its failure. Writing through a
 * mapping does not repair a range that is lost or poisoned by a failed request; call
 * trp_buffer_discard() before.
 *
 * Lifetime. Each call is undone by one trp_buffer_unmap(). A mapping holds the buffer as a pending
 * request does: after trp_buffer_free() the handle is stale for requests, and the mapping stays
 * until it is undone. trp_device_close() undoes all mappings; their pointers are dangling then. It
 * works on a device that is down, so that a program can save what it has. A forked child has no
 * mappings. Only the buffer's own bytes are the program's, though others lie on the same pages.
 *
 * Both kinds of isolation behave alike. Mapping costs a system call if nothing else in the buffer's
 * arena is mapped, and a page fault for each page on first touch: keep a mapping that is used
 * again.
 *
 * Errors: TRP_E_UNSUPPORTED (the cuda backend: copy with trp_read() into trp_host_alloc() memory,
 * or share the buffer with trp_buffer_export()), TRP_E_ARGUMENT, TRP_E_STALE, TRP_E_LOST,
 * TRP_E_DEPENDENCY, TRP_E_MEMORY, TRP_E_BUSY (in a callback of a watch, where it would have to
 * wait), TRP_E_FORKED. */
TRP_API trp_status trp_buffer_map(trp_device *device, trp_buffer buffer, void **out);

/* Undoes one trp_buffer_map(), which gave `memory` for this buffer; the program must not touch it
 * any more. The buffer may have been freed since. Never waits. NULL is ignored. TRP_E_STALE: it is
 * no mapping of the buffer, or was undone. */
TRP_API trp_status trp_buffer_unmap(trp_device *device, trp_buffer buffer, void *memory);

/* How the memory of an exported buffer is imported. */
typedef enum trp_export_kind {
    TRP_EXPORT_MEMFD = 1, /* host: a memory file, for mmap(MAP_SHARED) */
    TRP_EXPORT_CUDA = 2,  /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, for
                           * cuMemImportFromShareableHandle() */
} trp_export_kind;

enum { TRP_EXPORT_WAITS = 64 };

/* A counter to wait for, a 64-bit word that only grows. It stands for the requests of one actor
 * that were sent before the export: once it is at least `used`, none of them touches the buffer any
 * more; once it is at least `written`, none writes it. written is 0 if none does. */
typedef struct trp_export_wait {
    uint64_t offset; /* of the word in the timeline's memory, in bytes */
    uint64_t used;
    uint64_t written;
} trp_export_wait;

/* A buffer for another process, another CUDA context, or another library. Output only. */
typedef struct trp_exported_buffer {
    trp_export_kind kind;
    int fd; /* of the allocation that the buffer lies in; the caller closes it */
    /* The buffer is sealed: map it read-only. On the host the descriptor allows no more; on a GPU
     * nothing but the importer's cuMemSetAccess(CU_MEM_ACCESS_FLAGS_PROT_READ) does. */
    bool read_only;
    uint64_t bytes;            /* of the buffer */
    uint64_t offset;           /* of its first byte in the allocation */
    uint64_t allocation_bytes; /* of the allocation: what cuMemMap() or mmap() maps */
    uint64_t granularity; /* allocation_bytes is a multiple; alignment for cuMemAddressReserve() */
    uint32_t ordinal;     /* of the GPU in this process; 0 on the host */
    uint8_t uuid[16];     /* of the GPU (cuDeviceGetUuid), by which another process finds it;
                           * 0 on the host */
    /* Requests on the buffer that were sent before the call and have not ended. wait_count 0: none,
     * and timeline_fd is -1. Else timeline_fd is a descriptor, which the caller closes, of a
     * read-only memory file: map timeline_bytes at timeline_offset of it, and wait for the first
     * wait_count of `wait`. */
    int timeline_fd;
    uint32_t wait_count;
    uint64_t timeline_offset; /* multiples of a page */
    uint64_t timeline_bytes;
    trp_export_wait wait[TRP_EXPORT_WAITS];
    uint32_t incarnation; /* of the worker that writes the timeline */
    uint64_t reserved[4]; /* 0 */
} trp_exported_buffer;

/* Exports the memory of a buffer, on any backend, so that another process or a GPU program of its
 * own can map the same bytes. Waits for nothing but a device that is being recovered.
 *
 * Ownership. The descriptors in *out are the caller's, close-on-exec; on an error there are none.
 * The memory lives as long as the buffer, or a descriptor or an importer's mapping of it. An
 * allocation may hold other buffers, whose bytes an importer sees, and after trp_buffer_free() the
 * buffer's place is given to another one: so free a buffer after its importers have ended. A
 * sealable buffer has an allocation to itself, which nothing else ever uses: export those.
 *
 * Order. Before an importer reads, requests that write must have ended; before it writes, all that
 * use the buffer. Either the program knows so (see trp_buffer_map()), or the importer waits for the
 * words in `wait`: it polls them, or on a GPU calls cuStreamWaitValue64(GEQ) on the registered
 * mapping (cuMemHostRegister with CU_MEMHOSTREGISTER_READ_ONLY). A word says that requests have
 * ended, not that they succeeded. If the worker dies, the words never change again and pending
 * requests run on another worker: trp_device_get_info() then has another incarnation than *out;
 * export again. A stream that waits for a word would then wait for ever: let a GPU wait only where
 * the program can end that context, else poll. For requests that are sent later the program keeps
 * the order.
 *
 * Contents are judged as for a reader that is sent now. Sealing a buffer later does not take its
 * importers' right to write.
 * Errors: TRP_E_ARGUMENT, TRP_E_STALE, TRP_E_LOST, TRP_E_DEPENDENCY, TRP_E_SYSTEM (no descriptor is
 * left; or one shall be read-only, and /proc is not mounted), TRP_E_LIBRARY, TRP_E_BUSY (in a
 * callback of a watch, where it would have to wait), TRP_E_FORKED. A device that is down still
 * exports. Source: cuMemExportToShareableHandle, memfd_create. */
TRP_API trp_status trp_buffer_export(trp_device *device, trp_buffer buffer,
                                     trp_exported_buffer *out);

/* Copies host memory into a buffer, asynchronously, at any offset and size. This call and the next
 * three wait for room without limit (submit.h). Another dtype on the device is no copy: a graph of
 * one TRP_DNN_IDENTITY node of the dnn actor converts. `source` must stay unchanged until the
 * request has completed. Memory from trp_host_alloc() of this device is read by the device
 * directly; other memory is copied through staging memory, large sizes in a pipeline of chunks by
 * threads of Troupe. */
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

/* Discards the contents of a range: for requests that are sent after this call they are undefined,
 * and no longer lost or poisoned. The discard has the order of a fill, but writes nothing: it waits
 * for earlier requests that use the range, and later ones wait for it. It waits for room without
 * limit. Use it where lost contents do not matter: a scratch array, a page of a cache that is free
 * again. Errors: as of trp_fill(). 0 bytes: nothing happens. */
TRP_API trp_status trp_buffer_discard(trp_device *device, trp_buffer buffer, uint64_t offset,
                                      uint64_t bytes);

/* The same as requests: with a deadline (deadline_ns counts from when the device begins the copy,
 * and takes in the work of Troupe's copying threads), a wait_ns, and rows that lie apart.
 *
 * Pitch. A box has `planes` planes of `rows` rows of `bytes` bytes; 0 rows or planes stand for 1.
 * On each side the first row begins at the offset, or at the pointer; each further row of a plane
 * begins pitch.row bytes after the one before, and each further plane pitch.plane bytes after the
 * one before. 0: packed, so pitch.row is `bytes` and pitch.plane rows * pitch.row. Rows must lie
 * apart: pitch.row is at least `bytes`, and pitch.plane at least what the rows of a plane span.
 * Bytes between rows are neither read nor written. For order between requests, for lost contents
 * and poison the box counts as all the bytes that it spans; but only a box without gaps repairs
 * lost contents.
 *
 * Each row costs the device something, so large boxes of short rows are slow; boxes whose rows or
 * planes follow each other without gaps on both sides are copied as fewer, longer rows.
 *
 * Source: cudaMemcpy3DAsync. */
enum {
    TRP_OP_WRITE = 0x0001,
    TRP_OP_READ = 0x0002,
    TRP_OP_COPY = 0x0004,
    TRP_OP_FILL = 0x0005,
};

typedef struct trp_pitch {
    uint64_t row;   /* bytes */
    uint64_t plane; /* bytes */
} trp_pitch;

/* From host memory; see trp_write() for `source`. */
typedef struct trp_write_request {
    trp_request header;
    trp_buffer buffer;
    uint64_t offset;
    const void *source;
    uint64_t bytes, rows, planes;
    trp_pitch pitch; /* of the buffer */
    trp_pitch source_pitch;
} trp_write_request;

/* To host memory; see trp_read() for `target`. */
typedef struct trp_read_request {
    trp_request header;
    trp_buffer buffer;
    uint64_t offset;
    void *target;
    uint64_t bytes, rows, planes;
    trp_pitch pitch; /* of the buffer */
    trp_pitch target_pitch;
} trp_read_request;

/* From buffer to buffer. In one buffer, what the two boxes span must not overlap. */
typedef struct trp_copy_request {
    trp_request header;
    trp_buffer source;
    uint64_t source_offset;
    trp_buffer target;
    uint64_t target_offset;
    uint64_t bytes, rows, planes;
    trp_pitch source_pitch, target_pitch;
} trp_copy_request;

/* Fills `bytes` bytes with a pattern of `width` bytes: 1, 2, 4, 8 or 16. offset and bytes must be
 * multiples of width. */
typedef struct trp_fill_request {
    trp_request header;
    trp_buffer buffer;
    uint64_t offset;
    uint64_t bytes;
    const void *pattern; /* read during the call */
    uint32_t width;
} trp_fill_request;

/* Sends a request on the memory of a device, as trp_submit() sends one to an actor: any of the
 * above, whose op and size the calls below fill. Errors: as trp_submit(); TRP_E_SYSTEM (no thread
 * could be started for a large copy). */
TRP_API trp_status trp_device_submit(trp_device *device, const trp_request *request,
                                     trp_completion *completion);

TRP__REQUEST_TO(device, trp_device_submit, write_with, TRP_OP_WRITE, trp_write_request)
TRP__REQUEST_TO(device, trp_device_submit, read_with, TRP_OP_READ, trp_read_request)
TRP__REQUEST_TO(device, trp_device_submit, copy_with, TRP_OP_COPY, trp_copy_request)
TRP__REQUEST_TO(device, trp_device_submit, fill_with, TRP_OP_FILL, trp_fill_request)

/* Host memory that the device reads and writes directly (pinned, on a GPU), page-aligned and
 * zeroed. Reads and writes from anywhere inside it need no staging. At most 256 regions on a
 * device. Errors: TRP_E_ARGUMENT, TRP_E_BUSY, TRP_E_MEMORY (also: more than the machine, or a
 * control group that this process is in, can give at the time of the call), TRP_E_FAULT (the worker
 * did not answer within start_timeout_ns and was killed), TRP_E_DEVICE_DOWN. */
TRP_API trp_status trp_host_alloc(trp_device *device, uint64_t bytes, void **out);

/* Returns host memory; the caller must not touch it any more. Copies that are still running keep it
 * until they end. `memory` is the pointer that trp_host_alloc() gave; NULL is ignored. Up to 64 MiB
 * stay with the device, pinned, for the next trp_host_alloc() of as many bytes, for pinning takes
 * a GPU's driver some 0.7 ms a MiB; trp_device_trim() returns them to the system. */
TRP_API trp_status trp_host_free(trp_device *device, void *memory);

/* Returns to the system the arenas without live buffers, and host memory that was freed. */
TRP_API trp_status trp_device_trim(trp_device *device);

#ifdef __cplusplus
}
#endif
#endif

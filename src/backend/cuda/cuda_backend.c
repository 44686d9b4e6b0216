/* The CUDA backend. Every call of the driver goes through trp__cuda_check(), so that the first
 * error that breaks the context is remembered, whoever met it. */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/os/futex.h"
#include "base/os/thread.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* Host memory that the device reaches. */
typedef struct region {
    struct region *next;
    char *base;
    uint64_t bytes;
    trp__cu_address device;
} region;

/* Waits for the work of a stream by an interrupt, so that sleepers are woken without anybody
 * looking all the time. Started when it is first needed. */
typedef struct waker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    trp__cu_event event;
    _Atomic uint32_t *futex; /* whose sleepers to wake after the event; NULL: nothing to do */
    bool stop;
} waker;

struct trp__stream {
    trp__stream *next;
    trp__accel *accel;
    trp__cu_stream stream;
    trp__cu_event reached; /* recorded for each stream that follows this one; NULL: not made */
    waker *waker;          /* NULL: not started */
};

struct trp__accel {
    const trp__cuda *cu;
    trp__cu_device device;
    trp__cu_context context;
    size_t granularity; /* of address reservations */
    size_t stack_bytes; /* the driver's own limit; 0: not asked yet */
    /* True while every registered region has the same address on the device: then an address needs
     * no translation. That is how it is wherever CUDA has unified addressing and the processor's
     * whole address space is mapped; elsewhere translating takes the lock. */
    atomic_bool same_addresses;

    pthread_mutex_t lock; /* of all below; never held over a call that can block */
    region *regions;
    trp__stream *streams;
    int broken; /* the first sticky result; 0: none */
    const char *broken_call;
};

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

static trp_status attach(trp__accel *accel, trp_error *error)
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
        status = attach(accel, error);
    if (status != TRP_OK) {
        close_accel(accel);
        return status;
    }
    *out = accel;
    return TRP_OK;
}

/* The driver holds stack of the size that the limit says for every thread that fits on the device,
 * and makes it more when a kernel is launched that is known to need more. So the limit is only for
 * kernels of which it does not know. A driver that refuses costs memory, and nothing else. */
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

/* The range is followed by an unmapped granule: what runs past the end of the last buffer faults
 * instead of writing into the next arena. */
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
    cu->cuMemRelease(memory); /* a mapping keeps it */
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
static trp__cu_address translate(trp__accel *accel, _Atomic uint64_t *word)
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

/* Streams. */

static trp_status stream_create(trp__accel *accel, trp__stream **out, trp_error *error)
{
    trp__stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a stream");
    stream->accel = accel;
    trp_status status = trp__cuda_check(
        accel, accel->cu->cuStreamCreate(&stream->stream, TRP__CU_STREAM_NON_BLOCKING),
        "cuStreamCreate", error);
    if (status != TRP_OK) {
        free(stream);
        return status;
    }
    pthread_mutex_lock(&accel->lock);
    stream->next = accel->streams;
    accel->streams = stream;
    pthread_mutex_unlock(&accel->lock);
    *out = stream;
    return TRP_OK;
}

static void *waker_main(void *argument)
{
    trp__stream *stream = argument;
    waker *w = stream->waker;
    prctl(PR_SET_NAME, "trp-waker"); /* by itself, see host_backend.c */
    attach(stream->accel, NULL);
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->futex && !w->stop)
            pthread_cond_wait(&w->changed, &w->lock);
        if (w->stop)
            break;
        pthread_mutex_unlock(&w->lock);
        /* After a fault it returns at once: then there is news as well. */
        trp__cuda_check(stream->accel, stream->accel->cu->cuEventSynchronize(w->event),
                        "cuEventSynchronize", NULL);
        trp__futex_wake(w->futex, INT_MAX);
        pthread_mutex_lock(&w->lock);
        w->futex = NULL;
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void free_waker(trp__accel *accel, waker *w)
{
    trp__cuda_check(accel, accel->cu->cuEventDestroy_v2(w->event), "cuEventDestroy", NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static trp_status start_waker(trp__stream *stream, trp_error *error)
{
    trp__accel *accel = stream->accel;
    waker *w = calloc(1, sizeof *w);
    if (!w)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a thread that waits");
    trp_status status =
        trp__cuda_check(accel,
                        accel->cu->cuEventCreate(&w->event, TRP__CU_EVENT_BLOCKING_SYNC |
                                                                TRP__CU_EVENT_DISABLE_TIMING),
                        "cuEventCreate", error);
    if (status != TRP_OK) {
        free(w);
        return status;
    }
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    stream->waker = w;
    int code = trp__thread_start(&w->thread, TRP__SIGNALS_BLOCKED, waker_main, stream);
    if (code != 0) {
        stream->waker = NULL;
        free_waker(accel, w);
        trp__error_set(error, TRP_E_SYSTEM, "a thread that waits can't be started");
        return TRP_E_SYSTEM;
    }
    return TRP_OK;
}

/* The stream's work is done, so the thread has nothing left to wait for. */
static void stop_waker(trp__stream *stream)
{
    waker *w = stream->waker;
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    free_waker(stream->accel, w);
}

static trp_status stream_wake(trp__stream *stream, _Atomic uint32_t *futex, trp_error *error)
{
    trp__accel *accel = stream->accel;
    trp_status status = TRP_OK;
    if (!stream->waker && (status = start_waker(stream, error)) != TRP_OK)
        return status;
    waker *w = stream->waker;
    if (!w)
        return TRP_E_INTERNAL;
    pthread_mutex_lock(&w->lock);
    if (w->futex)
        status = TRP__AGAIN;
    else
        status = trp__cuda_check(accel, accel->cu->cuEventRecord(w->event, stream->stream),
                                 "cuEventRecord", error);
    if (status == TRP_OK) {
        w->futex = futex;
        pthread_cond_signal(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}

static void stream_destroy(trp__stream *stream)
{
    trp__accel *accel = stream->accel;
    const trp__cuda *cu = accel->cu;
    trp__cuda_check(accel, cu->cuStreamSynchronize(stream->stream), "cuStreamSynchronize", NULL);
    stop_waker(stream);
    if (stream->reached)
        trp__cuda_check(accel, cu->cuEventDestroy_v2(stream->reached), "cuEventDestroy", NULL);
    pthread_mutex_lock(&accel->lock);
    trp__stream **at = &accel->streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    pthread_mutex_unlock(&accel->lock);
    trp__cuda_check(accel, cu->cuStreamDestroy_v2(stream->stream), "cuStreamDestroy", NULL);
    free(stream);
}

/* Unified addressing: cuMemcpyAsync finds out itself where each side lies. */
static trp_status stream_copy(trp__stream *stream, void *to, const void *from, uint64_t bytes,
                              trp_error *error)
{
    return trp__cuda_check(stream->accel,
                           stream->accel->cu->cuMemcpyAsync((trp__cu_address)(uintptr_t)to,
                                                            (trp__cu_address)(uintptr_t)from, bytes,
                                                            stream->stream),
                           "cuMemcpyAsync", error);
}

static trp_status copy_each_row(trp__stream *stream, void *to, uint64_t to_pitch, const void *from,
                                uint64_t from_pitch, uint64_t bytes, uint64_t rows,
                                trp_error *error)
{
    trp_status status = TRP_OK;
    for (uint64_t i = 0; i < rows && status == TRP_OK; i++)
        status = stream_copy(stream, (char *)to + i * to_pitch, (const char *)from + i * from_pitch,
                             bytes, error);
    return status;
}

/* The driver takes pitches up to CU_DEVICE_ATTRIBUTE_MAX_PITCH, which is 2^31 - 1 on every GPU. Of
 * rows that lie further apart no memory holds many. */
static trp_status stream_copy_rows(trp__stream *stream, void *to, uint64_t to_pitch,
                                   const void *from, uint64_t from_pitch, uint64_t bytes,
                                   uint64_t rows, trp_error *error)
{
    const trp__cu_memcpy_2d copy = {.srcMemoryType = TRP__CU_MEMORYTYPE_UNIFIED,
                                    .srcDevice = (trp__cu_address)(uintptr_t)from,
                                    .srcPitch = from_pitch,
                                    .dstMemoryType = TRP__CU_MEMORYTYPE_UNIFIED,
                                    .dstDevice = (trp__cu_address)(uintptr_t)to,
                                    .dstPitch = to_pitch,
                                    .WidthInBytes = bytes,
                                    .Height = rows};
    if (rows == 1 || to_pitch > INT32_MAX || from_pitch > INT32_MAX)
        return copy_each_row(stream, to, to_pitch, from, from_pitch, bytes, rows, error);
    return trp__cuda_check(stream->accel,
                           stream->accel->cu->cuMemcpy2DAsync_v2(&copy, stream->stream),
                           "cuMemcpy2DAsync", error);
}

static trp_status stream_fill(trp__stream *stream, void *to, uint32_t pattern, uint32_t width,
                              uint64_t count, trp_error *error)
{
    trp__accel *accel = stream->accel;
    const trp__cuda *cu = accel->cu;
    trp__cu_address address = (trp__cu_address)(uintptr_t)to;
    switch (width) {
    case 1:
        return trp__cuda_check(
            accel, cu->cuMemsetD8Async(address, (unsigned char)pattern, count, stream->stream),
            "cuMemsetD8Async", error);
    case 2:
        return trp__cuda_check(
            accel, cu->cuMemsetD16Async(address, (unsigned short)pattern, count, stream->stream),
            "cuMemsetD16Async", error);
    case 4:
        return trp__cuda_check(accel, cu->cuMemsetD32Async(address, pattern, count, stream->stream),
                               "cuMemsetD32Async", error);
    default:
        return trp__error_set(error, TRP_E_INTERNAL, "fill: expected a width of 1, 2 or 4, got %u",
                              width);
    }
}

static trp_status stream_signal(trp__stream *stream, _Atomic uint64_t *word, uint64_t value,
                                trp_error *error)
{
    trp__accel *accel = stream->accel;
    return trp__cuda_check(accel,
                           accel->cu->cuStreamWriteValue64_v2(stream->stream,
                                                              translate(accel, word), value,
                                                              TRP__CU_STREAM_WRITE_VALUE_DEFAULT),
                           "cuStreamWriteValue64", error);
}

static trp_status stream_wait(trp__stream *stream, _Atomic uint64_t *word, uint64_t value,
                              trp_error *error)
{
    trp__accel *accel = stream->accel;
    return trp__cuda_check(accel,
                           accel->cu->cuStreamWaitValue64_v2(stream->stream, translate(accel, word),
                                                             value, TRP__CU_STREAM_WAIT_VALUE_GEQ),
                           "cuStreamWaitValue64", error);
}

/* An event is device memory, which a waiting stream reads sooner than a word of the host. */
static trp_status stream_follow(trp__stream *stream, trp__stream *other, trp_error *error)
{
    trp__accel *accel = stream->accel;
    const trp__cuda *cu = accel->cu;
    trp_status status = TRP_OK;
    if (!other->reached)
        status =
            trp__cuda_check(accel, cu->cuEventCreate(&other->reached, TRP__CU_EVENT_DISABLE_TIMING),
                            "cuEventCreate", error);
    if (status == TRP_OK)
        status = trp__cuda_check(accel, cu->cuEventRecord(other->reached, other->stream),
                                 "cuEventRecord", error);
    if (status == TRP_OK)
        status = trp__cuda_check(accel, cu->cuStreamWaitEvent(stream->stream, other->reached, 0),
                                 "cuStreamWaitEvent", error);
    return status;
}

/* A capture whose graph is never launched. */
static trp_status stream_rehearse(trp__stream *stream, trp_error *error)
{
    trp__accel *accel = stream->accel;
    return trp__cuda_check(
        accel,
        accel->cu->cuStreamBeginCapture_v2(stream->stream, TRP__CU_STREAM_CAPTURE_MODE_RELAXED),
        "cuStreamBeginCapture", error);
}

/* A capture that a call has made invalid ends with an error, which says nothing of the context. */
static void stream_forget(trp__stream *stream)
{
    const trp__cuda *cu = stream->accel->cu;
    trp__cu_graph graph = NULL;
    if (cu->cuStreamEndCapture(stream->stream, &graph) == TRP__CU_SUCCESS && graph)
        cu->cuGraphDestroy(graph);
}

static void stream_drain(trp__stream *stream)
{
    trp__cuda_check(stream->accel, stream->accel->cu->cuStreamSynchronize(stream->stream),
                    "cuStreamSynchronize", NULL);
}

static bool stream_idle(const trp__stream *stream)
{
    return stream->accel->cu->cuStreamQuery(stream->stream) == TRP__CU_SUCCESS;
}

static void *stream_native(trp__stream *stream)
{
    return stream->stream;
}

/* The driver notices a fault of the device when it is asked about a stream. A sticky result is the
 * same for every stream of the context, so the first ends the search. */
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
    .attach = attach,
    .expect_deep_kernels = expect_deep_kernels,
    .arena_map = arena_map,
    .arena_protect = arena_protect,
    .arena_unmap = arena_unmap,
    .host_register = host_register,
    .host_unregister = host_unregister,
    .host_address = host_address,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_copy = stream_copy,
    .stream_copy_rows = stream_copy_rows,
    .stream_fill = stream_fill,
    .stream_signal = stream_signal,
    .stream_wait = stream_wait,
    .stream_follow = stream_follow,
    .stream_rehearse = stream_rehearse,
    .stream_forget = stream_forget,
    .stream_wake = stream_wake,
    .stream_drain = stream_drain,
    .stream_idle = stream_idle,
    .stream_native = stream_native,
    .fail = trp__cuda_fail,
    .health = health,
};

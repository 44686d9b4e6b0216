/* Streams of the CUDA backend.
 *
 * A copy runs on a copy engine and the write of a word does not, so a stream that alternates
 * between them stalls. So words behind long copies are written in a second stream, which follows by
 * events, while the engine goes on with the next copy. */
#include "backend/cuda/accel.h"
#include "base/error.h"

#include <limits.h>
#include <stdlib.h>

/* Bytes of a long copy: 5 us. */
enum { LONG_COPY = 256 << 10 };

trp_status trp__cuda_stream_create(trp__accel *accel, trp__stream **out, trp_error *error)
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

void trp__cuda_stream_destroy(trp__stream *stream)
{
    trp__accel *accel = stream->accel;
    const trp__cuda *cu = accel->cu;
    trp__cuda_stream_drain(stream);
    trp__cuda_waker_stop(stream);
    if (stream->reached)
        trp__cuda_check(accel, cu->cuEventDestroy_v2(stream->reached), "cuEventDestroy", NULL);
    pthread_mutex_lock(&accel->lock);
    trp__stream **at = &accel->streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    pthread_mutex_unlock(&accel->lock);
    if (stream->beside)
        trp__cuda_check(accel, cu->cuStreamDestroy_v2(stream->beside), "cuStreamDestroy", NULL);
    trp__cuda_check(accel, cu->cuStreamDestroy_v2(stream->stream), "cuStreamDestroy", NULL);
    free(stream);
}

/* Notes an operation; `bytes`: of a copy, else 0. */
static void note_operation(trp__stream *stream, uint64_t bytes)
{
    stream->long_copy = bytes >= LONG_COPY;
    stream->last_beside = false;
}

/* Unified addressing: cuMemcpyAsync finds out itself where each side lies. */
trp_status trp__cuda_stream_copy(trp__stream *stream, void *to, const void *from, uint64_t bytes,
                                 trp_error *error)
{
    note_operation(stream, bytes);
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
        status = trp__cuda_stream_copy(stream, (char *)to + i * to_pitch,
                                       (const char *)from + i * from_pitch, bytes, error);
    return status;
}

/* The driver takes pitches up to CU_DEVICE_ATTRIBUTE_MAX_PITCH, which is 2^31 - 1 on every GPU.
 * Rows further apart are few. */
trp_status trp__cuda_stream_copy_rows(trp__stream *stream, void *to, uint64_t to_pitch,
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
    note_operation(stream, bytes * rows);
    return trp__cuda_check(stream->accel,
                           stream->accel->cu->cuMemcpy2DAsync_v2(&copy, stream->stream),
                           "cuMemcpy2DAsync", error);
}

trp_status trp__cuda_stream_fill(trp__stream *stream, void *to, uint32_t pattern, uint32_t width,
                                 uint64_t count, trp_error *error)
{
    trp__accel *accel = stream->accel;
    const trp__cuda *cu = accel->cu;
    trp__cu_address address = (trp__cu_address)(uintptr_t)to;
    note_operation(stream, 0);
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

/* Makes later work of `stream` wait for the present work of `other`. */
static trp_status follow(trp__stream *owner, trp__cu_stream stream, trp__cu_stream other,
                         trp_error *error)
{
    trp__accel *accel = owner->accel;
    const trp__cuda *cu = accel->cu;
    trp_status status = TRP_OK;
    if (!owner->reached)
        status =
            trp__cuda_check(accel, cu->cuEventCreate(&owner->reached, TRP__CU_EVENT_DISABLE_TIMING),
                            "cuEventCreate", error);
    if (status == TRP_OK)
        status = trp__cuda_check(accel, cu->cuEventRecord(owner->reached, other), "cuEventRecord",
                                 error);
    if (status == TRP_OK)
        status = trp__cuda_check(accel, cu->cuStreamWaitEvent(stream, owner->reached, 0),
                                 "cuStreamWaitEvent", error);
    return status;
}

static trp_status write_word(trp__accel *accel, trp__cu_stream stream, _Atomic uint64_t *word,
                             uint64_t value, trp_error *error)
{
    return trp__cuda_check(
        accel,
        accel->cu->cuStreamWriteValue64_v2(stream, trp__cuda_translate(accel, word), value,
                                           TRP__CU_STREAM_WRITE_VALUE_DEFAULT),
        "cuStreamWriteValue64", error);
}

trp_status trp__cuda_stream_signal(trp__stream *stream, _Atomic uint64_t *word, uint64_t value,
                                   trp_error *error)
{
    trp_status status = TRP_OK;
    if (stream->ahead) /* a word may be written twice, in order */
        status = follow(stream, stream->stream, stream->beside, error);
    if (status != TRP_OK)
        return status;
    stream->ahead = false;
    note_operation(stream, 0);
    return write_word(stream->accel, stream->stream, word, value, error);
}

trp_status trp__cuda_stream_signal_beside(trp__stream *stream, _Atomic uint64_t *word,
                                          uint64_t value, trp_error *error)
{
    trp__accel *accel = stream->accel;
    trp_status status = TRP_OK;
    if (!stream->long_copy)
        return trp__cuda_stream_signal(stream, word, value, error);
    if (!stream->beside)
        status = trp__cuda_check(
            accel, accel->cu->cuStreamCreate(&stream->beside, TRP__CU_STREAM_NON_BLOCKING),
            "cuStreamCreate", error);
    if (status == TRP_OK && !stream->last_beside)
        status = follow(stream, stream->beside, stream->stream, error);
    if (status != TRP_OK)
        return status;
    stream->last_beside = stream->ahead = true;
    return write_word(accel, stream->beside, word, value, error);
}

trp_status trp__cuda_stream_wait(trp__stream *stream, _Atomic uint64_t *word, uint64_t value,
                                 trp_error *error)
{
    trp__accel *accel = stream->accel;
    note_operation(stream, 0);
    return trp__cuda_check(accel,
                           accel->cu->cuStreamWaitValue64_v2(stream->stream,
                                                             trp__cuda_translate(accel, word),
                                                             value, TRP__CU_STREAM_WAIT_VALUE_GEQ),
                           "cuStreamWaitValue64", error);
}

/* An event is device memory, which a waiting stream reads sooner than a word of the host. */
trp_status trp__cuda_stream_follow(trp__stream *stream, trp__stream *other, trp_error *error)
{
    trp_status status = TRP_OK;
    note_operation(stream, 0);
    if (other->ahead && !other->last_beside)
        status = follow(other, stream->stream, other->beside, error);
    return status == TRP_OK ? follow(other, stream->stream, trp__cuda_tail(other), error) : status;
}

/* A capture whose graph is never launched. */
trp_status trp__cuda_stream_rehearse(trp__stream *stream, trp_error *error)
{
    trp__accel *accel = stream->accel;
    return trp__cuda_check(
        accel,
        accel->cu->cuStreamBeginCapture_v2(stream->stream, TRP__CU_STREAM_CAPTURE_MODE_RELAXED),
        "cuStreamBeginCapture", error);
}

/* The end of an invalidated capture gives an error, which does not concern the context. */
void trp__cuda_stream_forget(trp__stream *stream)
{
    const trp__cuda *cu = stream->accel->cu;
    trp__cu_graph graph = NULL;
    if (cu->cuStreamEndCapture(stream->stream, &graph) == TRP__CU_SUCCESS && graph)
        cu->cuGraphDestroy(graph);
}

void trp__cuda_stream_drain(trp__stream *stream)
{
    trp__accel *accel = stream->accel;
    const trp__cuda *cu = accel->cu;
    trp__cuda_check(accel, cu->cuStreamSynchronize(stream->stream), "cuStreamSynchronize", NULL);
    if (stream->beside)
        trp__cuda_check(accel, cu->cuStreamSynchronize(stream->beside), "cuStreamSynchronize",
                        NULL);
}

bool trp__cuda_stream_idle(const trp__stream *stream)
{
    const trp__cuda *cu = stream->accel->cu;
    return cu->cuStreamQuery(stream->stream) == TRP__CU_SUCCESS &&
           (!stream->beside || cu->cuStreamQuery(stream->beside) == TRP__CU_SUCCESS);
}

void *trp__cuda_stream_native(trp__stream *stream)
{
    return stream->stream;
}

/* State of the CUDA backend: cuda_backend.c has the context and its memory, stream.c the streams,
 * waker.c the threads that wait for them. */
#ifndef TRP_BACKEND_CUDA_ACCEL_H
#define TRP_BACKEND_CUDA_ACCEL_H

#include "backend/cuda/cuda_backend.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct trp__cuda_waker trp__cuda_waker;

struct trp__stream {
    trp__stream *next;
    trp__accel *accel;
    trp__cu_stream stream;
    trp__cu_event reached;  /* recorded for each stream that follows this one; NULL: not made */
    trp__cuda_waker *waker; /* NULL: not started */
    trp__cu_stream beside;  /* where stream_signal_beside() writes; NULL: not made */
    bool long_copy;         /* the last operation of the stream is one */
    bool last_beside;       /* the last operation is in `beside` */
    bool ahead;             /* the stream has not waited for all that is in `beside` */
};

struct trp__accel {
    const trp__cuda *cu;
    trp__cu_device device;
    trp__cu_context context;
    size_t granularity; /* of address reservations */
    size_t stack_bytes; /* the driver's own limit; 0: not asked yet */
    /* True while every registered region has the same address on the device, as with unified
     * addressing: then addresses need no translation, which takes the lock. */
    atomic_bool same_addresses;

    pthread_mutex_t lock; /* of all below; never held over a call that can block */
    struct trp__cuda_region *regions;
    trp__stream *streams;
    int broken; /* the first sticky result; 0: none */
    const char *broken_call;
};

/* Makes the context current in the calling thread. */
trp_status trp__cuda_attach(trp__accel *accel, trp_error *error);

/* The device's address of a word of registered memory. */
trp__cu_address trp__cuda_translate(trp__accel *accel, _Atomic uint64_t *word);

/* waker.c: the stream's work must be done. */
void trp__cuda_waker_stop(trp__stream *stream);

/* The stream that has the last operation. */
static inline trp__cu_stream trp__cuda_tail(const trp__stream *stream)
{
    return stream->last_beside ? stream->beside : stream->stream;
}

/* The rest is as in worker/backend.h. */
trp_status trp__cuda_stream_copy(trp__stream *stream, void *to, const void *from, uint64_t bytes,
                                 trp_error *error);
trp_status trp__cuda_stream_copy_rows(trp__stream *stream, void *to, uint64_t to_pitch,
                                      const void *from, uint64_t from_pitch, uint64_t bytes,
                                      uint64_t rows, trp_error *error);
trp_status trp__cuda_stream_create(trp__accel *accel, trp__stream **out, trp_error *error);
void trp__cuda_stream_destroy(trp__stream *stream);
void trp__cuda_stream_drain(trp__stream *stream);
trp_status trp__cuda_stream_fill(trp__stream *stream, void *to, uint32_t pattern, uint32_t width,
                                 uint64_t count, trp_error *error);
trp_status trp__cuda_stream_follow(trp__stream *stream, trp__stream *other, trp_error *error);
void trp__cuda_stream_forget(trp__stream *stream);
bool trp__cuda_stream_idle(const trp__stream *stream);
void *trp__cuda_stream_native(trp__stream *stream);
trp_status trp__cuda_stream_rehearse(trp__stream *stream, trp_error *error);
trp_status trp__cuda_stream_signal(trp__stream *stream, _Atomic uint64_t *word, uint64_t value,
                                   trp_error *error);
trp_status trp__cuda_stream_signal_beside(trp__stream *stream, _Atomic uint64_t *word,
                                          uint64_t value, trp_error *error);
trp_status trp__cuda_stream_wait(trp__stream *stream, _Atomic uint64_t *word, uint64_t value,
                                 trp_error *error);
trp_status trp__cuda_stream_wake(trp__stream *stream, _Atomic uint32_t *futex, trp_error *error);

#endif

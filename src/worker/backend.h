/* Interface of a backend for the scheduler: memory, streams and health. All stream_ calls only
 * enqueue; work in one stream runs in order. Errors of a call that say that the whole context is
 * broken are distinguished by health(), called after any error. */
#ifndef TRP_WORKER_BACKEND_H
#define TRP_WORKER_BACKEND_H

#include <troupe/worker.h>

#include <stdatomic.h>

/* Not yet; from handle() (worker/actor.h): a part is enqueued, call again soon. */
#define TRP__AGAIN TRP_AGAIN

/* Readable zeros before and behind each arena of the host. OpenBLAS's kernels for some processors
 * load one element beyond the last of a vector, an increment away, without using it. */
#define TRP__HOST_MARGIN (UINT64_C(64) << 20)

typedef struct trp__accel trp__accel;   /* an open device; the backend defines it */
typedef struct trp__stream trp__stream; /* likewise */

typedef struct trp__backend {
    const char *name;

    /* Opens device `ordinal` and makes it current in the calling thread. */
    trp_status (*open)(uint32_t ordinal, trp__accel **out, trp_error *error);
    void (*close)(trp__accel *accel);
    /* Makes the device current in another thread, before that thread makes any call. */
    trp_status (*attach)(trp__accel *accel, trp_error *error);
    /* In a worker process: whether to expect kernels whose need of stack is unknown at compile
     * time, since they recurse or call through pointers. They are expected at first; otherwise the
     * device need not reserve some hundred MB for them. NULL: nothing to do. */
    void (*expect_deep_kernels)(trp__accel *accel, bool expected);

    /* Maps memory that the application exported; *base is an address for kernels. A write to a
     * read-only mapping faults and changes nothing. */
    trp_status (*arena_map)(trp__accel *accel, int fd, uint64_t bytes, bool read_only, void **base,
                            trp_error *error);
    /* Makes a whole mapping read-only or writable, while work that reads it may be running. On an
     * error it stays as it was. */
    trp_status (*arena_protect)(trp__accel *accel, void *base, uint64_t bytes, bool read_only,
                                trp_error *error);
    void (*arena_unmap)(trp__accel *accel, void *base, uint64_t bytes);

    /* Lets the device reach host memory that is mapped in this process at `base`. */
    trp_status (*host_register)(trp__accel *accel, void *base, uint64_t bytes, trp_error *error);
    void (*host_unregister)(trp__accel *accel, void *base);
    /* Returns the device's address of an address in that memory; NULL: the same. */
    void *(*host_address)(trp__accel *accel, void *address);

    trp_status (*stream_create)(trp__accel *accel, trp__stream **out, trp_error *error);
    void (*stream_destroy)(trp__stream *stream); /* waits for its work */
    /* Copies between any device memory and registered host memory. */
    trp_status (*stream_copy)(trp__stream *stream, void *to, const void *from, uint64_t bytes,
                              trp_error *error);
    /* Copies `rows` rows of `bytes` bytes, `to_pitch` and `from_pitch` bytes apart, at least
     * `bytes`. */
    trp_status (*stream_copy_rows)(trp__stream *stream, void *to, uint64_t to_pitch,
                                   const void *from, uint64_t from_pitch, uint64_t bytes,
                                   uint64_t rows, trp_error *error);
    /* Sets `count` elements of `width` (1, 2, 4) bytes. */
    trp_status (*stream_fill)(trp__stream *stream, void *to, uint32_t pattern, uint32_t width,
                              uint64_t count, trp_error *error);
    /* Writes a word of registered host memory when the work before it is done. */
    trp_status (*stream_signal)(trp__stream *stream, _Atomic uint64_t *word, uint64_t value,
                                trp_error *error);
    /* Does the same for a stream in which only this backend's copies run. The write may overlap
     * later copies, but words are written in order, and stream_follow() waits for them too. */
    trp_status (*stream_signal_beside)(trp__stream *stream, _Atomic uint64_t *word, uint64_t value,
                                       trp_error *error);
    /* Holds the stream until the word is at least `value`. */
    trp_status (*stream_wait)(trp__stream *stream, _Atomic uint64_t *word, uint64_t value,
                              trp_error *error);

    /* Holds the stream until the other one has done its present work. NULL: use stream_wait(). */
    trp_status (*stream_follow)(trp__stream *stream, trp__stream *other, trp_error *error);

    /* Between the two calls, enqueued work is dropped: nothing runs, but the libraries plan and
     * load kernels. NULL: not possible. */
    trp_status (*stream_rehearse)(trp__stream *stream, trp_error *error);
    void (*stream_forget)(trp__stream *stream);

    /* Wakes all sleepers on a futex when the work before it is done. May wait for an interrupt of
     * the device in a thread of its own, so use it for long waits. One at a time in a stream:
     * TRP__AGAIN while the last is under way. */
    trp_status (*stream_wake)(trp__stream *stream, _Atomic uint32_t *futex, trp_error *error);

    /* stream_drain() waits until the stream has done everything enqueued so far; the other tells
     * whether it has. */
    void (*stream_drain)(trp__stream *stream);
    bool (*stream_idle)(const trp__stream *stream);
    /* Returns the native stream for actors: the CUstream, or NULL. */
    void *(*stream_native)(trp__stream *stream);
    /* Runs run(arguments) in the stream, with a copy of the arguments; NULL if streams run no
     * functions of the host. */
    trp_status (*stream_run)(trp__stream *stream, void (*run)(void *arguments),
                             const void *arguments, size_t bytes, trp_error *error);
    /* Fills an error from a result of the driver that an actor got, and remembers it if the context
     * is broken. */
    trp_status (*fail)(trp__accel *accel, int result, const char *call, trp_error *error);

    /* TRP_OK, or TRP_E_FAULT with fault, domain, code and message set: the context is broken and
     * the process must be replaced. Asks the device about finished work; cheap. */
    trp_status (*health)(trp__accel *accel, trp_error *error);
} trp__backend;

/* By trp_backend value; NULL where there is none. In backend/table.c. */
extern const trp__backend *const trp__backends[];

#endif

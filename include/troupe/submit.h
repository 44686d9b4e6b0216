/* The one asynchronous surface: requests, futures, completion queues.
 *
 * A request is a struct that begins with trp_request. It is checked in the caller's thread; a call
 * that returns an error has queued nothing. One that returns TRP_OK has queued a request that
 * completes exactly once, whatever dies.
 *
 * Order. Requests to one actor run in the order sent. A request that reads a buffer waits, on the
 * device, for earlier requests that write it, and one that writes it for earlier readers and
 * writers. "Earlier" is the order of the trp_submit calls; calls that overlap in time take some
 * order. The unit is the whole buffer.
 *
 * Failure. When a worker dies, the request that caused it, if known, and those in flight that both
 * read and write one buffer end with TRP_E_FAULT; the others in flight run once more, alone, on the
 * next worker, and end with TRP_E_FAULT if that one dies too. A request that ends so loses its
 * outputs: reading them gives TRP_E_LOST, and queued requests that would read them, or what those
 * should have written, end with TRP_E_LOST or TRP_E_DEPENDENCY. A request that fails otherwise
 * (TRP_E_LIBRARY, ...) leaves its outputs as they were, a large trp_write() excepted, whose buffer
 * is then lost; requests queued behind it run on what is there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_SUBMIT_H
#define TROUPE_SUBMIT_H

#include <troupe/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The head of every request. The typed wrappers (trp_gemm, ...) fill op and size. */
typedef struct trp_request {
    uint32_t op;          /* the operation: a TRP_OP_ constant */
    uint32_t size;        /* sizeof the whole request struct */
    uint64_t deadline_ns; /* how long it may run; then its worker is killed, and the request ends
                           * with TRP_E_FAULT; 0: the device's default. Waiting for its turn, and
                           * for earlier requests on its buffers, does not count; but if the
                           * worker does not begin it within this and 1 s, though nothing else
                           * runs, the worker is replaced, too, and the request runs again, once.
                           * Not with thread isolation: TRP_E_UNSUPPORTED. */
    int64_t wait_ns; /* how long to wait while the mailbox is full; 0: not at all, TRP_E_BUSY */
} trp_request;

/* How the end of a request is told. Zero it before use. With `queue` set, it is delivered there
 * together with user_data and no future exists. Without, `future` receives a future, to be ended
 * with trp_await() or trp_future_drop(). A NULL trp_completion pointer says that nobody wants to
 * know. */
typedef struct trp_completion {
    trp_queue *queue;
    void *user_data;
    trp_future future; /* out */
} trp_completion;

/* Sends a request to an actor; returns without waiting for it. The request struct is copied.
 * Errors: TRP_E_ARGUMENT, TRP_E_STALE, TRP_E_LOST, TRP_E_UNSUPPORTED, TRP_E_BUSY,
 * TRP_E_DEVICE_DOWN, TRP_E_FORKED; trp_error_last() names the argument. */
TRP_API trp_status trp_submit(trp_actor *actor, const trp_request *request,
                              trp_completion *completion);

/* Waits for a request and returns its status; the future is then ended. TRP_E_TIMEOUT: it has not
 * completed yet and the future stays valid (timeout_ns 0 polls). TRP_E_STALE: no such future, or
 * another thread has ended it. On an error trp_error_last() holds its record; if `error` is not
 * NULL it receives a copy (status TRP_OK on success). */
TRP_API trp_status trp_await(trp_future future, int64_t timeout_ns, trp_error *error);

/* Gives up interest in a request, which runs on. Stale futures are ignored. */
TRP_API void trp_future_drop(trp_future future);

/* Waits until everything sent to the device before the call has completed. TRP_OK says that it has
 * completed, not that it succeeded. */
TRP_API trp_status trp_device_drain(trp_device *device, int64_t timeout_ns);

/* A completion queue collects the ends of requests, of any actors and devices of its system, in the
 * order in which they are seen. */
TRP_API trp_status trp_queue_create(trp_system *system, trp_queue **out);

/* Ends a queue. TRP_E_BUSY while requests that shall be delivered to it have not completed.
 * NULL is ignored. No other thread may be in a call on this queue. */
TRP_API trp_status trp_queue_destroy(trp_queue *queue);

typedef struct trp_event {
    void *user_data; /* of the trp_completion */
    trp_status status;
    trp_error error; /* status TRP_OK: all zero */
} trp_event;

/* Takes the next completion; waits up to timeout_ns for one. TRP_E_TIMEOUT if none came. */
TRP_API trp_status trp_queue_next(trp_queue *queue, int64_t timeout_ns, trp_event *out);

/* A file descriptor that is readable while the queue holds a completion, for epoll, libuv and the
 * like. It belongs to the queue: poll it, never read or close it. After it reports readable call
 * trp_queue_next() until it returns TRP_E_TIMEOUT. */
TRP_API int trp_queue_fd(const trp_queue *queue);

#ifdef __cplusplus
}
#endif
#endif

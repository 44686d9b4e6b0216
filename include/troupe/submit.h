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
 * outputs: reading them gives TRP_E_LOST, also to requests that were queued. A request that fails
 * otherwise (TRP_E_LIBRARY, TRP_E_CANCELLED, ...) leaves in its outputs what its library has left
 * there; a large trp_write() loses its buffer, unless it was cancelled.
 *
 * Dependencies. A request that fails in any way poisons every buffer that it should have written. A
 * request that would read a poisoned buffer does not run: trp_submit() refuses it, or it ends, with
 * TRP_E_DEPENDENCY, naming the failed request; and if it was queued it has failed too and poisons
 * its own outputs. What is sent after the failed request can read the buffer again if
 *   - a request that writes all of the buffer (and reads none of it) comes between the two and
 *     succeeds; or
 *   - the failure was told before the reader was sent: the failed request's future was awaited, or
 *     its event taken from a queue. The reader then reads what is there. Requests sent before the
 *     telling do not run, however late their turn comes. If several requests on one buffer have
 *     failed, the last one sent decides.
 * The failure of a request that nobody wants to know of (no completion, or its future dropped) is
 * never told: its outputs must be written anew. Telling does not help against TRP_E_LOST.
 *
 * Memory of the program. A call may write to memory of the program when its request ends: `target`
 * of trp_read(), `value` of trp_dot() and others, `ran` of a layer; and it may read `source` of
 * trp_write() until then. That memory holds the result and belongs to the program again when
 * trp_await() or trp_queue_next() has told, with TRP_OK, the end of the request, or of a later one
 * of the same actor, or of a later one that waited for it; all reads of a device are one actor's in
 * this, and all writes another's. After trp_device_drain() and trp_device_close() nothing that was
 * sent before is read or written. The result of a request whose end nobody asks for is there within
 * about a millisecond of it. An end with another status says nothing of other requests: one that
 * was cancelled has left its place in the order, and after a fault others run once more.
 *
 * With the device option fault_scope a death can cost more than its request's outputs (device.h); a
 * sealed buffer (buffer.h) is never lost.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_SUBMIT_H
#define TROUPE_SUBMIT_H

#include <troupe/device.h>
#include <troupe/watch.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The head of every request. The typed wrappers (trp_gemm, ...) fill op and size. */
typedef struct trp_request {
    uint32_t op;          /* the operation: a TRP_OP_ constant */
    uint32_t size;        /* sizeof the whole request struct */
    uint64_t deadline_ns; /* how long it may run; then its worker is killed, and the request ends
                           * with TRP_E_FAULT; 0: the device's default. Waiting for its turn, for
                           * earlier requests on its buffers, and for what its actor makes for it
                           * (a kernel, a plan, a search, a proof), does not count; but if the
                           * worker does not begin it within this and 1 s, though nothing else
                           * runs, the worker is replaced, too, and the request runs again, once.
                           * Not with thread isolation: TRP_E_UNSUPPORTED. */
    int64_t wait_ns; /* how long to wait for room while the mailbox is full, or the device's table
                      * of requests is and one of them has not ended; 0: not at all, TRP_E_BUSY */
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
 * Errors: TRP_E_ARGUMENT, TRP_E_STALE, TRP_E_LOST, TRP_E_DEPENDENCY, TRP_E_UNSUPPORTED, TRP_E_BUSY,
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

/* Asks that a request shall not run. If the device has not been given it yet, it ends at once with
 * TRP_E_CANCELLED and has done nothing, though requests before it may still run; else it runs on
 * and ends as it would have. The completion tells which; the future stays valid and is to be ended
 * as ever. Until its turn comes, the device keeps a request slot, and the buffers' memory, for it.
 * A copy of more than 64 KiB of ordinary memory can be cancelled until its first part is given to
 * the device. A request that a dead worker had begun and that runs again can't be. TRP_OK: asked
 * for, or too late. TRP_E_STALE: as for trp_await(). */
TRP_API trp_status trp_cancel(trp_future future);

/* Waits until everything sent to the device before the call has completed, and the memory of
 * buffers that were freed meanwhile has come back. TRP_OK says that it has completed, not that it
 * succeeded. */
TRP_API trp_status trp_device_drain(trp_device *device, int64_t timeout_ns);

/* A completion queue collects the ends of requests, of any actors and devices of its system, in the
 * order in which they are seen; and the notices of watches (see watch.h) that deliver to it. */
TRP_API trp_status trp_queue_create(trp_system *system, trp_queue **out);

/* Ends a queue. TRP_E_BUSY while requests that shall be delivered to it have not completed, or lie
 * in it, or a watch delivers to it. NULL is ignored. No other thread may be in a call on this
 * queue. */
TRP_API trp_status trp_queue_destroy(trp_queue *queue);

typedef struct trp_event {
    void *user_data; /* of the trp_completion, or of the trp_watch_options */
    trp_status status;
    trp_error error;        /* status TRP_OK: all zero */
    trp_notice_kind notice; /* 0: the end of a request; else a notice, whose error and status are
                             * above, and the rest of it below; see trp_notice */
    uint32_t incarnation;
    uint64_t sequence;
    uint64_t dropped;
    int64_t time_ns;
} trp_event;

/* Takes the next event; waits up to timeout_ns for one. TRP_E_TIMEOUT if none came. */
TRP_API trp_status trp_queue_next(trp_queue *queue, int64_t timeout_ns, trp_event *out);

/* A file descriptor that is readable while the queue holds an event, for epoll, libuv and the
 * like. It belongs to the queue: poll it, never read or close it. After it reports readable call
 * trp_queue_next() until it returns TRP_E_TIMEOUT. -1 for NULL: TRP_E_ARGUMENT. */
TRP_API int trp_queue_fd(const trp_queue *queue);

#ifdef __cplusplus
}
#endif
#endif

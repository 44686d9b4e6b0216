/* The one asynchronous surface: requests, futures, completion queues.
 *
 * A request is a struct that begins with trp_request. It is checked in the caller's thread; a call
 * that returns an error has queued nothing. One that returns TRP_OK has queued a request that
 * completes exactly once, whatever dies.
 *
 * Order. Requests to one actor run in the order sent. A request that reads a buffer waits, on the
 * device, for earlier requests that write it, and one that writes it for earlier readers and
 * writers. "Earlier" is the order of the trp_submit calls; calls that overlap in time take some
 * order.
 *
 * Ranges. Order, lost contents and poison are judged byte by byte, by the ranges that requests
 * name: of a view with strides, all bytes from its first to its last one. So one buffer may hold
 * many arrays. A buffer has up to 4,096 such ranges at a time, as a rule one for each array in it.
 * Beyond that neighbours are joined, with the worse state of the two: a request may then wait
 * without need, or be refused because a neighbour is lost, but never reads lost contents.
 *
 * Failure. When a worker dies, the request that caused it, if known, and those in flight that write
 * what they read end with TRP_E_FAULT; the others in flight run once more, alone, on the next
 * worker, and end with TRP_E_FAULT if that one dies too. A request that ends so loses its outputs:
 * reading them gives TRP_E_LOST, also to requests that were queued, until they are written anew, in
 * any number of parts, or discarded (trp_buffer_discard()). A request that fails otherwise
 * (TRP_E_LIBRARY, TRP_E_CANCELLED, ...) leaves its outputs as its library left them; a large
 * trp_write() loses its range, unless it was cancelled.
 *
 * Dependencies. A request that fails in any way poisons its outputs. A request that would read a
 * poisoned range does not run: trp_submit() refuses it, or it ends, with TRP_E_DEPENDENCY. The
 * error names the first request of the chain that failed, its status and its message (cause_request
 * and the fields after it in trp_error). A queued request that ends so has failed too and poisons
 * its own outputs. The messages of 1,024 such first requests are stored at a time, each as long as
 * a buffer is poisoned because of it; beyond that, number, operation, status and fault. A request
 * that is sent after the failed one can read its outputs again if
 *   - requests that write all of what is read (and read none of it) come between the two and
 *     succeed; or
 *   - the failure was delivered before the reader was sent: the failed request's future was
 * awaited, or its event taken from a queue. The reader then reads the bytes as they are. Requests
 * sent before the delivery do not run, however late their turn comes. If several requests that
 * should have written a byte have failed, the last one sent decides. The failure of a request
 * without a completion, or whose future was dropped, is never delivered: its outputs must be
 * written anew. Delivery does not end TRP_E_LOST.
 *
 * Memory of the program. A call may write to memory of the program when its request ends: `target`
 * of trp_read(), `value` of trp_dot() and others, `ran` of a layer; and it may read `source` of
 * trp_write() until then. That memory holds the result and belongs to the program again once a call
 * (trp_await(), trp_queue_next(), ...) has delivered, with TRP_OK, the end of the request, or of a
 * later one of the same actor, or of a later one that waited for it. All reads of a device count as
 * one actor here, and all writes as another. After trp_device_drain() and trp_device_close()
 * nothing that was sent before is read or written. The result of a request whose end is never asked
 * for arrives within about a millisecond of it. An end with another status says nothing about other
 * requests: a cancelled one has left its place in the order, and after a fault others run once
 * more.
 *
 * Waiting for room. A call that sends needs room for its request: in the mailbox of the actor, in
 * the device's table of 16,384 requests, and in staging memory for what it brings along. If there
 * is none, the call waits until earlier requests have ended, as wait_ns of the request says: 0,
 * which calls without a request struct (trp_write(), ...) have too, without limit; TRP_NOWAIT not
 * at all; else a number of nanoseconds. When the time has passed, the call returns TRP_E_BUSY. If
 * the device goes down or is closed meanwhile, it returns TRP_E_DEVICE_DOWN at once. TRP_E_BUSY
 * comes without waiting, whatever wait_ns says, where a wait might not end by itself:
 *   - all 16,384 requests of the device have ended, and the program has neither awaited or dropped
 *     their futures nor taken their events from queues;
 *   - the thread is one that the device needs for its progress: in a callback of a watch, or in an
 *     actor of the program's own that runs in this process (thread isolation).
 * Only the program can see two more cases in which a wait has no end: a request that itself waits
 * for the program, such as a kernel that spins on host memory; and a watch's callback that waits
 * for a lock which a waiting sender holds.
 *
 * With the device option fault_scope a death can cost more than its request's outputs (device.h); a
 * sealed buffer (buffer.h) is never lost.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_SUBMIT_H
#define TROUPE_SUBMIT_H

#include <troupe/device.h>
#include <troupe/watch.h>

#include <stddef.h>

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
    int64_t wait_ns;   /* how long to wait for room, see above; 0: without limit; TRP_NOWAIT: not at
                        * all, TRP_E_BUSY */
    const char *label; /* for people, shown with actor, operation and number in errors, traces,
                        * `troupe top` and NVTX: "layer 3"; at most TRP_LABEL_MAX bytes of it. Not
                        * copied: a string that stays, such as a literal, until the request has
                        * ended and, of a traced device, the trace was written. NULL: none */
} trp_request;

/* How the end of a request is delivered. Zero it before use. With `queue` set, the end is delivered
 * there together with user_data and no future exists. Without, `future` receives a future, to be
 * ended with trp_await() or trp_future_drop(). With a NULL trp_completion pointer the end is not
 * delivered. */
typedef struct trp_completion {
    trp_queue *queue; /* of the device's system; else TRP_E_ARGUMENT, or, destroyed, TRP_E_STALE */
    void *user_data;
    trp_future future; /* out */
} trp_completion;

/* Sends a request to an actor; waits for room, as wait_ns says, and not for the request. The
 * request struct is copied.
 * Errors: TRP_E_ARGUMENT, TRP_E_STALE, TRP_E_LOST, TRP_E_DEPENDENCY, TRP_E_UNSUPPORTED, TRP_E_BUSY,
 * TRP_E_DEVICE_DOWN, TRP_E_FORKED; trp_error_last() names the argument. */
TRP_API trp_status trp_submit(trp_actor *actor, const trp_request *request,
                              trp_completion *completion);

/* For the public headers: defines trp_NAME(), which sends a copy of a request with op and size
 * filled in. */
#define TRP__REQUEST_TO(receiver, submit, name, number, request_type)                              \
    TRP_INLINE trp_status trp_##name(trp_##receiver *receiver, const request_type *request,        \
                                     trp_completion *completion)                                   \
    {                                                                                              \
        request_type r = *request;                                                                 \
        r.header.op = number;                                                                      \
        r.header.size = (uint32_t)sizeof r;                                                        \
        return submit(receiver, &r.header, completion);                                            \
    }
#define TRP__REQUEST(name, number, request_type)                                                   \
    TRP__REQUEST_TO(actor, trp_submit, name, number, request_type)

/* Waits for a request and returns its status; the future is then ended. TRP_E_TIMEOUT: it has not
 * completed yet and the future stays valid (timeout_ns 0 polls). TRP_E_STALE: no such future, or
 * another thread has ended it. On an error trp_error_last() holds its record; if `error` is not
 * NULL it receives a copy (status TRP_OK on success). */
TRP_API trp_status trp_await(trp_future future, int64_t timeout_ns, trp_error *error);

/* Waits for the first of several requests to end. Ends its future, as trp_await() does, returns its
 * status, sets *index to its place in the array and the future there to zero. Futures that are zero
 * are passed over, so the same array serves until all have ended. If several have ended already,
 * the first in the array is taken. A future that is stale is taken in the same way, with
 * TRP_E_STALE. *index is `count` where no future was taken: TRP_E_TIMEOUT (none has ended, all stay
 * valid), TRP_E_STALE (all are zero, or count is 0), TRP_E_ARGUMENT, TRP_E_FORKED. Futures may be
 * of several devices. `error` as in trp_await(). The array belongs to the call while it lasts. */
TRP_API trp_status trp_await_any(trp_future *futures, size_t count, int64_t timeout_ns,
                                 size_t *index, trp_error *error);

/* Waits for all of several requests to end, then ends all their futures. Returns TRP_OK, with
 * *index `count`, if each has succeeded; else the status of the first in the array that has not,
 * with its place in *index and its record in `error`; the others have ended, too. A stale future
 * counts as one that ended with TRP_E_STALE; futures that are zero are passed over. TRP_E_TIMEOUT
 * (*index is then the place of one that has not ended): no future was ended, all stay valid.
 * `index` and `error` may be NULL. The same request must not stand in the array twice. */
TRP_API trp_status trp_await_all(const trp_future *futures, size_t count, int64_t timeout_ns,
                                 size_t *index, trp_error *error);

/* Gives up interest in a request, which runs on. Stale futures are ignored. */
TRP_API void trp_future_drop(trp_future future);

/* Asks to cancel a request. One that was not issued to the device yet ends at once with
 * TRP_E_CANCELLED and has done nothing, though requests before it may still run; any other runs on
 * and ends as it would have. The completion says which; the future stays valid and must still be
 * ended. Until its turn comes, a cancelled request holds its request slot and the memory of its
 * buffers. A copy of more than 64 KiB of ordinary memory can be cancelled until its first part is
 * given to the device. A request that a dead worker had begun and that runs again can't be
 * cancelled. TRP_OK: asked for, or too late. TRP_E_STALE: as for trp_await(). */
TRP_API trp_status trp_cancel(trp_future future);

/* Waits until all requests sent to the device before the call have completed, and the memory of
 * buffers that were freed meanwhile is free again. TRP_OK says that they have completed, not that
 * they succeeded. */
TRP_API trp_status trp_device_drain(trp_device *device, int64_t timeout_ns);

/* A completion queue collects the ends of requests, of any actors and devices of its system, in the
 * order in which they are seen; and the notices of watches (see watch.h) that deliver to it. */
TRP_API trp_status trp_queue_create(trp_system *system, trp_queue **out);

/* Ends a queue. TRP_E_BUSY while requests that shall be delivered to it have not completed, or lie
 * in it, or a watch delivers to it. NULL is ignored. TRP_E_STALE: it was destroyed before; all
 * other calls that name it say so, too. No other thread may be in a call on this queue. */
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
    uint64_t reserved[4]; /* 0 */
} trp_event;

/* Takes the next event; waits up to timeout_ns for one. TRP_E_TIMEOUT if none came. */
TRP_API trp_status trp_queue_next(trp_queue *queue, int64_t timeout_ns, trp_event *out);

/* Takes up to `most` events at a time: waits up to timeout_ns for the first, then takes those
 * present, in order, without waiting for more. *count is how many were taken: 0 on an error.
 * Errors: TRP_E_TIMEOUT (none came), TRP_E_ARGUMENT (`most` is 0), TRP_E_FORKED. */
TRP_API trp_status trp_queue_take(trp_queue *queue, int64_t timeout_ns, trp_event *events,
                                  size_t most, size_t *count);

/* A file descriptor that is readable while the queue holds an event, for epoll, libuv and the
 * like. It belongs to the queue: poll it, never read or close it. After it reports readable call
 * trp_queue_next() or trp_queue_take() until it returns TRP_E_TIMEOUT. -1 for NULL: TRP_E_ARGUMENT,
 * and for a queue that was destroyed: TRP_E_STALE. */
TRP_API int trp_queue_fd(const trp_queue *queue);

#ifdef __cplusplus
}
#endif
#endif

/* Systems, devices and actors.
 *
 * Cancellation. No call is a cancellation point, not even one that waits: a thread for which
 * pthread_cancel() was called ends at the first one after the call. A thread that must be
 * cancellable polls a descriptor (trp_queue_fd()), or waits repeatedly with a short timeout.
 *
 * Signals. All threads of Troupe block all signals but those that a fault raises in the thread
 * itself. Troupe installs no handler. In a handler trp_status_name(), trp_status_text(),
 * trp_dtype_name() and trp_dtype_bits() may be called, and write() to a descriptor of the program's
 * own that another thread waits for is the way to do more. Any other call may wait for a lock, or
 * allocate. If the handler has interrupted a call of the same thread, its own call is refused
 * instead, with TRP_E_UNSUPPORTED, changes nothing (also not trp_error_last() of the interrupted
 * call), and returns at once; calls that return nothing then do nothing. Leaving such a handler by
 * longjmp() leaves the call's locks held for ever.
 *
 * Processes, descriptors, limits: docs/processes.md. SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_DEVICE_H
#define TROUPE_DEVICE_H

#include <troupe/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A system is the root object: it knows the devices of this machine and owns the queues. Making one
 * is cheap and touches no GPU. options may be NULL. */
typedef struct trp_system_options {
    /* Path of the troupe-worker program. NULL: $TROUPE_WORKER, then beside the executable, then
     * ../libexec/troupe and ../../libexec/troupe from there; the same beside the library; then
     * the folder that was set when the library was built. */
    const char *worker_path;
    /* Receives one line of text without newline for each event worth an operator's eye: faults, a
     * device that went down, what workers say. NULL: standard error, but for a watch's notices and
     * unless $TROUPE_LOG is "off". Called from threads of Troupe; must not call back into it. */
    void (*log)(void *user_data, int level, const char *line);
    void *log_user_data;
    uint64_t reserved[4]; /* must be 0 */
} trp_system_options;

TRP_API trp_status trp_system_create(const trp_system_options *options, trp_system **out);

/* Ends a system. Its devices and queues must have been closed before: TRP_E_BUSY if one is open.
 * NULL is ignored. Pointers to what it had, ended or not, mean nothing afterwards. */
TRP_API trp_status trp_system_destroy(trp_system *system);

/* Writes the path of the worker program that devices of this system would start into out, at most
 * `size` bytes with the end. `troupe-worker --report` prints what it finds on this machine, a line
 * for each: key, ok|missing|error, version, path or what to install, with tabs between them.
 * Errors: TRP_E_MISSING (none found; the message lists where it was looked for), TRP_E_ARGUMENT
 * (size is too small). */
TRP_API trp_status trp_system_worker_path(trp_system *system, char *out, size_t size);

/* Where work runs. */
typedef enum trp_backend {
    TRP_BACKEND_BEST = 0, /* cuda if there is a GPU, else host */
    TRP_BACKEND_CUDA = 1, /* NVIDIA GPUs of compute capability 8.0 or later */
    TRP_BACKEND_HOST = 2, /* this machine's processors */
} trp_backend;

/* "cuda", "host", "best". Static string. */
TRP_API const char *trp_backend_name(trp_backend backend);

/* Where the libraries run. */
typedef enum trp_isolation {
    TRP_ISOLATION_PROCESS = 0, /* in a worker process: faults are contained */
    TRP_ISOLATION_THREAD = 1,  /* in a thread of this process: no containment; for debuggers */
} trp_isolation;

/* A second worker, warm: libraries loaded, memory mapped. It takes over when the worker dies, and
 * another standby is started; a failed start is tried again at intervals that grow to 10 s. A
 * standby costs a context (on a GPU some 350 MB, with a jit or custom actor 600); when memory for
 * buffers runs short on the GPU the standby is ended, and started again only after the next
 * fault. */
typedef enum trp_standby {
    TRP_STANDBY_ON = 0, /* with process isolation */
    TRP_STANDBY_OFF = 1,
} trp_standby;

/* The contents that count as lost when a worker dies while requests run. Sealed buffers (see
 * buffer.h) are never lost. */
typedef enum trp_fault_scope {
    /* The outputs of the requests that were interrupted and can't run again. Everything else counts
     * as intact, which is true unless a kernel has written to memory that its request did not name
     * as an output. */
    TRP_FAULT_SCOPE_OUTPUTS = 0,
    /* Every buffer that is not sealed, for the kernel that died may have written anywhere it could
     * reach. Any death of the worker counts, deadlines and SIGKILL too; the death of the standby
     * does not, since it runs nothing. Then
     * - reading any buffer gives TRP_E_LOST until what is read has been written anew;
     * - requests in the queue that read a buffer end with TRP_E_LOST, unless one before them in the
     *   queue writes it whole;
     * - requests that were in flight and are not to blame run again only if all that they read is
     *   sealed or in host memory; the others end with TRP_E_LOST, and their outputs are lost;
     * - requests that had ended before keep their status, but their outputs are lost too.
     * Host memory is not covered, although kernels can reach memory of trp_host_alloc(). */
    TRP_FAULT_SCOPE_ALL = 1,
} trp_fault_scope;

/* Whether plans of libraries are proven before they serve (docs/proofs.md): run on test numbers, on
 * this device, and compared with a reference. Verdicts are cached, so a proof costs milliseconds,
 * once on a machine. Known verdicts count with TRP_PROOF_OFF too. */
typedef enum trp_proof {
    TRP_PROOF_ON = 0,
    TRP_PROOF_OFF = 1, /* plans serve as the library proposes them */
} trp_proof;

typedef struct trp_device_options {
    trp_backend backend;
    uint32_t ordinal; /* which GPU, as CUDA numbers them; 0 for host */
    trp_isolation isolation;
    uint64_t memory_limit;   /* bytes of device memory to take, in whole arenas, for buffers; 0: no
                                limit but the device's (host: the machine's memory) */
    uint32_t mailbox_size;   /* requests that may wait in each actor; rounded up to a power of two,
                              * at most 16384; 0: 1024 */
    uint32_t restart_budget; /* restarts allowed within the window, and workers in a row that can't
                              * be started; 0: 16 */
    uint64_t restart_window_ns; /* 0: 10 s */
    trp_standby standby;
    uint64_t deadline_ns; /* default for requests, see trp_request; 0: none. Not with
                           * thread isolation: TRP_E_UNSUPPORTED */
    /* For a worker to become ready, to make one actor, and to map an arena or host memory (10 s
     * more for each GiB of host memory); then it is killed and replaced. 0: 60 s. Thread isolation
     * waits without limit. */
    uint64_t start_timeout_ns;
    trp_fault_scope fault_scope;
    trp_proof proof;
    uint64_t reserved[8]; /* must be 0 */
} trp_device_options;

/* Opens a device: starts its worker and waits until it is ready for copies. options may be NULL.
 * The device owns all its memory and every queued request, and outlives any worker. Errors:
 * TRP_E_ARGUMENT (an option), TRP_E_MISSING (no such GPU, no driver, no worker program),
 * TRP_E_VERSION (the worker is of another version), TRP_E_UNSUPPORTED (GPU too old, or it lacks
 * what isolation needs), TRP_E_TIMEOUT (the worker was not ready in time), TRP_E_FAULT (it died
 * before it was ready, and so did its replacements), TRP_E_BUSY (64 devices are open),
 * TRP_E_MEMORY, TRP_E_SYSTEM, TRP_E_LIBRARY (a call of the driver failed; the message names it). */
TRP_API trp_status trp_device_open(trp_system *system, const trp_device_options *options,
                                   trp_device **out);

/* Closes a device. Pending requests end with TRP_E_DEVICE_DOWN first; then the worker ends, all
 * memory is returned, and buffers and futures of the device become stale. Completions that lie in a
 * queue are dropped from it. Its actors and watches are ended. No other thread may be in a call on
 * this device or its actors, this one included, but for calls that wait for room (submit.h), which
 * return TRP_E_DEVICE_DOWN first. NULL, and a device that was closed before, are ignored; other
 * calls on a closed device give TRP_E_STALE. */
TRP_API void trp_device_close(trp_device *device);

typedef enum trp_device_state {
    TRP_DEVICE_READY = 1,
    TRP_DEVICE_RECOVERING = 2, /* a worker died and another takes over; requests queue up */
    TRP_DEVICE_DOWN = 3,       /* no worker any more: every request fails with TRP_E_DEVICE_DOWN */
} trp_device_state;

typedef struct trp_device_info {
    trp_backend backend;
    trp_isolation isolation;
    trp_device_state state;
    uint32_t ordinal;
    char name[96];          /* "NVIDIA H200", or the processor's name */
    uint32_t compute_major; /* 0 for host */
    uint32_t compute_minor;
    uint32_t processors;         /* multiprocessors, or CPU cores online */
    uint64_t memory_total;       /* bytes of device memory */
    uint64_t memory_limit;       /* 0: none */
    uint64_t memory_reserved;    /* bytes of arenas taken from the device */
    uint64_t memory_used;        /* bytes of live buffers, rounded up to allocation units */
    uint64_t buffers;            /* live buffers */
    uint32_t incarnation;        /* number of the current worker, 1 is the first */
    uint32_t restarts;           /* replacements of workers, failed attempts included */
    int64_t worker_pid;          /* 0: none (thread isolation, down, or being
                                  * replaced) */
    int64_t standby_pid;         /* 0: none is ready */
    uint64_t requests_submitted; /* since the device was opened */
    uint64_t requests_failed;
    uint64_t reserved[4]; /* 0 */
} trp_device_info;

TRP_API trp_status trp_device_get_info(trp_device *device, trp_device_info *out);

/* Describes the devices that trp_device_open() could open on this machine, without opening one:
 * fills up to `capacity` records and sets *count to how many there are; the host device is the
 * last. Only the fields up to memory_total are set. */
TRP_API trp_status trp_system_list_devices(trp_system *system, trp_device_info *out,
                                           size_t capacity, size_t *count);

/* An actor: a mailbox, a library handle and a stream of its own, running in the worker. Requests to
 * one actor run in the order sent; requests to different actors run concurrently, except that each
 * waits for earlier requests on the same buffers (see submit.h). */
typedef struct trp_actor_options {
    const char *kind; /* the name of an actor's header: "blas" for <troupe/blas.h>; "custom" may be
                       * left out, with `library` */
    const char *name; /* for people, at most 31 bytes; NULL: the kind, or the library's file name
                       * without folder and extension, cut */
    bool cold; /* a standby starts this actor only when it takes over: until then its library costs
                  no memory there; after a fault its requests wait for the start */
    /* An actor of your own: the path of the shared object that implements it, see
     * <troupe/worker.h>. A relative one is made absolute here. The worker loads it; this process
     * does so only with thread isolation. */
    const char *library;
    const char *config; /* with `library`: a string for its init(), at most 1023 bytes; NULL: "" */
    uint64_t reserved[4]; /* must be 0 */
} trp_actor_options;

/* Makes an actor and waits until its library is loaded in the worker. At most 61 at a time on a
 * device. Actors of the kinds "jit" and "cutlass" (on a GPU) share actors that compile, one for
 * each processor of the program, up to 8: they are made with the first of these actors, as far as
 * there is room, are ended with the last, and count among the 61. An actor with a `library` is made
 * in the standby first, if one is ready: then an init() that crashes or hangs does no harm. Errors:
 * TRP_E_ARGUMENT (no such kind; the message lists them), TRP_E_MISSING (its library is not
 * installed, the message says what to install; `library` can't be loaded, or has no
 * trp_actor_entry), TRP_E_VERSION (`library` was compiled for another version of the worker),
 * TRP_E_UNSUPPORTED (not on this backend), TRP_E_FAULT (the worker died while it made the actor, or
 * was killed after start_timeout_ns; it is replaced, and later workers do not make the actor),
 * TRP_E_BUSY, TRP_E_DEVICE_DOWN; and what init() fails with. */
TRP_API trp_status trp_actor_create(trp_device *device, const trp_actor_options *options,
                                    trp_actor **out);

/* Ends an actor once everything sent to it has completed. Waits for that. NULL, an actor that was
 * destroyed before, and one whose device is closed are ignored; requests to them are refused with
 * TRP_E_STALE. No other thread may be in a call on this actor, except in this one, which then
 * returns at once in all threads but the first. */
TRP_API void trp_actor_destroy(trp_actor *actor);

/* The device of an actor. NULL for NULL: TRP_E_ARGUMENT; and for one that was destroyed, or whose
 * device is closed: TRP_E_STALE. */
TRP_API trp_device *trp_actor_device(const trp_actor *actor);

#ifdef __cplusplus
}
#endif
#endif

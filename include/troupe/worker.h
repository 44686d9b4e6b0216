/* For authors of actors: what a library that runs in the worker implements, and what it is given.
 *
 * An actor is a vtable, trp_actor_impl. The built-in actors implement this one too. A shared object
 * with actors of your own defines one variable, trp_actor_entry, and is named by the application in
 * trp_actor_options.library; it needs no library of Troupe to link with. docs/custom-actors.md is
 * the tutorial.
 *
 * Threads. init() and stop() run in the worker's side thread, where they may take their time;
 * the others run in the scheduler thread, which serves all actors. Calls for one actor
 * never overlap; calls for different actors of one library may. On cuda the device's context (the
 * primary one) is current in both threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_WORKER_H
#define TROUPE_WORKER_H

#include <troupe/custom.h>
#include <troupe/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of everything in this file: raised with every change that a library compiled before
 * would notice. A worker refuses a library that was compiled with another one. */
#define TRP_ACTOR_ABI UINT32_C(5)

#define TRP_ACTOR_CONFIG_MAX  1023               /* bytes of a configuration string */
#define TRP_ACTOR_STATE_MAX   ((size_t)64 << 20) /* bytes of state_bytes */
#define TRP_ACTOR_ENQUEUE_MAX 248                /* bytes of arguments, see enqueue() */
#define TRP_ACTOR_JOINED_MAX  128                /* requests of one call of handle_joined() */
/* The most calls of handle() and handle_joined() with unfinished work on the device: no further
 * call is made while there are as many. So a ring of this size is enough for host memory that such
 * work uses. */
#define TRP_ACTOR_CALLS_MAX 512

/* From handle(): a part of the work is enqueued (or none yet); call again soon. */
#define TRP_AGAIN ((trp_status)-1)

typedef struct trp_instance trp_instance;

/* One range of a buffer that a request works on. */
typedef struct trp_job_access {
    void *address; /* for the device; on host an ordinary pointer */
    void *guard;   /* where the memory mapped around it ends: a write from here on faults */
    uint64_t bytes;
    trp_access_mode mode; /* never TRP_ACCESS_DEFAULT */
} trp_job_access;

/* One request, checked: its ranges lie inside live buffers, and all waits for earlier requests are
 * in the stream already. It is the worker's; valid during the call of handle(). */
typedef struct trp_job {
    uint32_t op;            /* TRP_OP_CUSTOM, for what was sent with trp_custom() */
    uint32_t code;          /* of the trp_custom_request */
    const void *payload;    /* read-only memory, aligned to 64 bytes */
    uint32_t payload_bytes; /* of the trp_custom_request; a built-in actor knows its own */
    uint32_t access_count;  /* as sent, in the order sent */
    uint64_t progress;      /* the actor's own, for TRP_AGAIN: 0 at the first call */
    trp_job_access access[TRP_CUSTOM_ACCESSES_MAX]; /* the first access_count */
} trp_job;

/* Services of the worker for an actor. */
typedef struct trp_services {
    /* Fills an error record (if not NULL) and returns `status`, so that a function can end with it:
     * `domain` (up to 15 bytes) and `code` name the source of the error, or are "" and 0. An actor
     * may fail with TRP_E_ARGUMENT, _MEMORY, _UNSUPPORTED, _LIBRARY, _MISSING, _VERSION, _SYSTEM
     * and _INTERNAL; any other status becomes TRP_E_INTERNAL. Domain and code of an error of
     * handle() decide whether the worker restarts the actor or ends, see docs/directives.md; for a
     * domain that Troupe does not know it does neither. After TRP_E_MEMORY it calls trim() of all
     * actors, and handle() once more. */
    trp_status (*fail)(trp_error *error, trp_status status, const char *domain, int32_t code,
                       const char *format, ...)
#if defined(__GNUC__)
        __attribute__((format(printf, 5, 6)))
#endif
        ;
    /* Host backend: runs run(arguments) on the actor's stream thread when the work before it is
     * done, with a copy of the `bytes` (at most TRP_ACTOR_ENQUEUE_MAX) bytes at `arguments`,
     * aligned to 8. `run` can't report an error. From handle() and init(). TRP_E_UNSUPPORTED on
     * cuda: launch on instance->stream. */
    trp_status (*enqueue)(trp_instance *instance, void (*run)(void *arguments),
                          const void *arguments, size_t bytes, trp_error *error);
    /* Enqueues a copy, and a fill with `count` elements of `width` (1, 2 or 4) bytes. Addresses are
     * those of accesses, or of device memory of the actor's own. From handle() and init(). */
    trp_status (*copy)(trp_instance *instance, void *to, const void *from, uint64_t bytes,
                       trp_error *error);
    trp_status (*fill)(trp_instance *instance, void *to, uint32_t pattern, uint32_t width,
                       uint64_t count, trp_error *error);
    /* Whether the actor's stream has done everything enqueued so far; false if unknown. */
    bool (*idle)(trp_instance *instance);
    /* CUDA: fills an error record from a CUresult other than 0, with the driver's name and text of
     * it, and informs the worker if it says that the context is broken. `call` is the function's
     * name. See trp_cuda_check(). */
    trp_status (*cuda_fail)(trp_instance *instance, int result, const char *call, trp_error *error);
} trp_services;

/* One actor in one worker. Every worker makes its own: each standby does, and the worker after a
 * fault. Owned by the worker; the actor may write `state` only. */
struct trp_instance {
    const trp_services *services;
    void *state;        /* impl->state_bytes bytes, zeroed before init(), aligned to 16 bytes */
    void *stream;       /* cuda: the actor's CUstream; host: NULL, see enqueue() */
    const char *name;   /* the actor's, for people */
    const char *config; /* trp_actor_options.config; "" if there is none. Valid until stop() */
    trp_backend backend;
    uint32_t ordinal;     /* cuda: the device's, for cuDeviceGet() */
    uint32_t incarnation; /* the number of this worker, 1 is the first */
    uint32_t backlog;     /* in handle(): about how many operations are in the stream, not done */
};

/* The implementation of an actor on one backend. */
typedef struct trp_actor_impl {
    uint32_t abi;       /* TRP_ACTOR_ABI */
    size_t state_bytes; /* at most TRP_ACTOR_STATE_MAX; 0: none */
    /* Makes the actor ready: loads libraries and modules, allocates, warms up. May be slow. If it
     * fails it has undone itself, for stop() is not called. After stop() it may be called again, on
     * a new stream and with `state` zeroed. May be NULL. */
    trp_status (*init)(trp_instance *instance, trp_error *error);
    /* Takes one request: checks it and enqueues its work on the actor's stream. Must not wait for
     * the device or for anything else. A request that it refuses must have enqueued nothing: from
     * the first piece of work on, it must not fail. */
    trp_status (*handle)(trp_instance *instance, trp_job *job, trp_error *error);
    /* For actors that can do the work of several requests in one go, for less than the work of each
     * would take. The requests are alike as far as joins() says, follow each other in the mailbox,
     * and are independent: none uses a buffer that another one writes. Both may be NULL.
     *
     * joins(): whether `next` can be done together with `first`; with itself: whether it can be
     * done together with anything. Their accesses are not filled in yet. Must be quick.
     *
     * handle_joined(): enqueues the work of all, `count` from 2 to TRP_ACTOR_JOINED_MAX; no
     * TRP_AGAIN. If it fails it has enqueued nothing that writes an output, and each request goes
     * to handle(). */
    bool (*joins)(trp_instance *instance, const trp_job *first, const trp_job *next);
    trp_status (*handle_joined)(trp_instance *instance, trp_job *const *jobs, uint32_t count,
                                trp_error *error);
    /* Memory is short: frees memory that the actor can do without, if that is quick; memory that
     * work in its stream uses only if the stream is idle(). May be NULL. */
    void (*trim)(trp_instance *instance);
    /* Undoes init(). The actor's stream is idle then. May be NULL. */
    void (*stop)(trp_instance *instance);
} trp_actor_impl;

/* How a library was compiled. This struct stays as it is in all versions. */
typedef struct trp_actor_head {
    uint32_t abi;
    uint32_t bytes;  /* the sizes of the structs that cross, added up */
    char troupe[24]; /* the version of these headers */
} trp_actor_head;

/* The actor of a shared object: one implementation for each backend that it can run on. */
typedef struct trp_actor_library {
    trp_actor_head head;        /* TRP_ACTOR_HEAD */
    const char *name;           /* of the library, for messages */
    const char *version;        /* likewise; may be NULL */
    const trp_actor_impl *cuda; /* NULL: not on this backend; making the actor there gives */
    const trp_actor_impl *host; /* TRP_E_UNSUPPORTED */
} trp_actor_library;

#define TRP_ACTOR_BYTES                                                                            \
    ((uint32_t)(sizeof(trp_actor_library) + sizeof(trp_actor_impl) + sizeof(trp_instance) +        \
                sizeof(trp_services) + sizeof(trp_job) + sizeof(trp_error)))

/* clang-format off */
#define TRP_ACTOR_HEAD {TRP_ACTOR_ABI, TRP_ACTOR_BYTES, TRP_VERSION_STRING}
/* clang-format on */

/* The library's entrance: the shared object defines this variable, the worker looks it up. It is
 * read before any function of the library is called, and the head before anything else. */
extern TRP_API const trp_actor_library trp_actor_entry;

/* TRP_OK for a CUresult of 0, else an error: for every call of the driver that an actor makes. */
static inline trp_status trp_cuda_check(trp_instance *instance, int result, const char *call,
                                        trp_error *error)
{
    return result == 0 ? TRP_OK : instance->services->cuda_fail(instance, result, call, error);
}

#ifdef __cplusplus
}
#endif
#endif

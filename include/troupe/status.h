/* Status codes and the error record. SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_STATUS_H
#define TROUPE_STATUS_H

#include <troupe/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Result of every fallible call: TRP_OK (0), or one of the codes below. Decide by the code; the
 * message of the error record is for people. */
typedef int trp_status;

/* One row a code: name, value, text. The list is append-only: values are part of the ABI. */
#define TRP_STATUS_LIST(X)                                                                         \
    X(TRP_OK, 0, "ok")                                                                             \
    X(TRP_E_ARGUMENT, 1, "an argument is not valid")                                               \
    X(TRP_E_STALE, 2, "a handle names something that was freed, or belongs to another device")     \
    X(TRP_E_LOST, 3, "the content of a buffer was lost in a fault and not written since")          \
    X(TRP_E_BUSY, 4, "the mailbox, or another bounded table, is full")                             \
    X(TRP_E_TIMEOUT, 5, "the time given for waiting is over; what was waited for goes on")         \
    X(TRP_E_MEMORY, 6, "out of memory, on the device or here, or past the memory limit")           \
    X(TRP_E_UNSUPPORTED, 7, "this backend, device or library does not support it")                 \
    X(TRP_E_FAULT, 8, "the worker died, or its GPU context broke, while the request was running")  \
    X(TRP_E_DEPENDENCY, 9, "a request that should have written an input has failed")               \
    X(TRP_E_DEVICE_DOWN, 10, "the device is down: gone, closed, or past its restart budget")       \
    X(TRP_E_LIBRARY, 11, "a library call failed; the device goes on")                              \
    X(TRP_E_MISSING, 12, "a library, file or device that is needed was not found")                 \
    X(TRP_E_VERSION, 13, "two parts of Troupe are of different versions")                          \
    X(TRP_E_SYSTEM, 14, "the operating system refused a call")                                     \
    X(TRP_E_FORKED, 15, "a forked child used an object of its parent")                             \
    X(TRP_E_INTERNAL, 16, "a defect in Troupe")                                                    \
    X(TRP_E_CANCELLED, 17, "the request was cancelled before it was given to the device")

enum {
#define TRP_STATUS_ENUM(name, value, text) name = value,
    TRP_STATUS_LIST(TRP_STATUS_ENUM)
#undef TRP_STATUS_ENUM
        TRP_STATUS_COUNT /* codes are below this; it grows with the list */
};

/* "TRP_E_STALE", or "TRP_E_UNKNOWN" for a value that is no code. Static string. */
TRP_API const char *trp_status_name(trp_status status);

/* One line of English about a code. Static string. */
TRP_API const char *trp_status_text(trp_status status);

/* How a worker ended, for TRP_E_FAULT. */
typedef enum trp_fault {
    TRP_FAULT_NONE = 0,
    TRP_FAULT_GPU,     /* the driver reported a sticky error; code is its CUresult */
    TRP_FAULT_SIGNAL,  /* the worker was killed by a signal; code is its number */
    TRP_FAULT_EXIT,    /* the worker exited by itself; code is its exit status */
    TRP_FAULT_HANG,    /* the worker was killed because a request ran past its deadline, or because
                        * it did not begin one, or did not answer, for too long */
    TRP_FAULT_LIBRARY, /* the worker gave itself up: an error, code in `domain`, that only another
                        * worker cures, or an actor that restarts did not help */
    TRP_FAULT_BROKEN,  /* the worker was killed because what it sent or wrote can't be true */
} trp_fault;

/* The longest label of a request that is shown, see trp_request; the rest is cut. */
#define TRP_LABEL_MAX 63

/* Everything known about an error, of fixed size. The strings are always terminated. */
typedef struct trp_error {
    trp_status status;
    trp_fault fault;      /* how the worker ended, when status is TRP_E_FAULT */
    int32_t code;         /* the code in `domain`: CUresult, cublasStatus_t, signal, errno */
    uint32_t incarnation; /* the worker that ran the request: 1 is the first; 0 if none did */
    uint64_t request;     /* the number of the request on its device; 0 before it had one */
    char domain[16];      /* "cuda", "cublas", "signal", "exit", "errno", "probe"; empty if none */
    char actor[32];       /* the name of the actor; empty if none */
    char message[256];    /* which argument, what was expected, what came */
    /* TRP_E_DEPENDENCY, and TRP_E_LOST where a request is to blame: the first request of the chain
     * of failures, whether or not its failure was delivered; else 0. The message describes it. */
    uint64_t cause_request;
    trp_status cause_status; /* how it failed; 0: not known any more */
    trp_fault cause_fault;
    char operation[24];            /* of the request: "gemm"; empty if none */
    char label[TRP_LABEL_MAX + 1]; /* of the request; empty if none */
    uint64_t reserved[4];          /* 0 */
} trp_error;

/* The record of the last call of this thread that failed; all zero if none has. In a signal handler
 * that has interrupted a call, the record says why calls are refused there, see device.h. The
 * pointer stays valid for the thread's life and its content until this thread's next failing
 * call. */
TRP_API const trp_error *trp_error_last(void);

/* Shorthand: the message of trp_error_last(), never NULL. */
TRP_API const char *trp_error_message(void);

#ifdef __cplusplus
}
#endif
#endif

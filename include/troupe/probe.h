/* The "probe" actor: empty work to measure with, and faults to drill with.
 *
 * A service that relies on containment should rehearse it: a probe brings down the worker in each
 * of the ways that real code does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_PROBE_H
#define TROUPE_PROBE_H

#include <troupe/submit.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRP_OP_PROBE UINT32_C(0x0201)

typedef enum trp_probe_action {
    TRP_PROBE_NOP = 0,         /* an empty kernel */
    TRP_PROBE_SPIN,            /* keeps the stream busy for `duration_ns` */
    TRP_PROBE_ILLEGAL_ADDRESS, /* GPU: a kernel writes to an unmapped address; host: SIGSEGV */
    TRP_PROBE_OUT_OF_BOUNDS,   /* writes past the end of the arena that holds the first buffer */
    TRP_PROBE_MISALIGNED,      /* GPU: a misaligned access; host: SIGBUS */
    TRP_PROBE_TRAP,            /* GPU: a trap instruction; host: SIGILL */
    TRP_PROBE_SEGV,            /* the worker gets SIGSEGV */
    TRP_PROBE_ABORT,           /* the worker calls abort() */
    TRP_PROBE_KILL,            /* the worker sends itself SIGKILL, and the next one too */
    TRP_PROBE_EXIT,            /* the worker exits with status 3 */
    TRP_PROBE_LIBRARY_ERROR,   /* fails as a library call would, harmlessly: TRP_E_LIBRARY */
    TRP_PROBE_ACTOR_ERROR,     /* the same, after which the actor is stopped and started anew */
    TRP_PROBE_OUT_OF_MEMORY,   /* memory is short until the actor was asked to give some back; as
                                * all actors are then, it succeeds in the end */
    TRP_PROBE_DEVICE_GONE,     /* the worker reports that its device is gone: the device goes down
                                * at once, whatever is left of its restart budget */
    TRP_PROBE_WRITE_SEALED,    /* writes to the first input, which it declares as read only: the
                                * first 8 bytes become 0xdead. On a sealed buffer that is a fault
                                * (GPU: of a kernel; host: SIGSEGV). On any other it succeeds, and
                                * Troupe does not know that the content has changed */
    TRP_PROBE_ACTION_COUNT
} trp_probe_action;

/* Name of an action ("illegal-address"), NULL past the last. Static string. */
TRP_API const char *trp_probe_action_name(trp_probe_action action);

#define TRP_PROBE_BUFFERS 4

/* One action. TRP_PROBE_WRITE_SEALED needs inputs[0], of at least 8 bytes; TRP_PROBE_OUT_OF_BOUNDS
 * needs any buffer. The buffers are declared as inputs or outputs of the request, so that ordering
 * and the lost-contents rule apply to it; unused ones are all zero. Before a fault the first half
 * of each output is overwritten with rubbish, as a kernel that dies midway would. */
typedef struct trp_probe_request {
    trp_request header;
    trp_probe_action action;
    uint64_t duration_ns; /* for TRP_PROBE_SPIN */
    trp_buffer inputs[TRP_PROBE_BUFFERS];
    trp_buffer outputs[TRP_PROBE_BUFFERS];
} trp_probe_request;

TRP__REQUEST(probe, TRP_OP_PROBE, trp_probe_request)

#ifdef __cplusplus
}
#endif
#endif

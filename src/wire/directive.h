/* The reaction to an error: one table over the domains and codes of error records. The worker looks
 * up errors of libraries, the backend results that break a context, the client how a worker ended;
 * so all three judge a code alike.
 *
 * docs/directives.md says why each row is as it is. */
#ifndef TRP_WIRE_DIRECTIVE_H
#define TRP_WIRE_DIRECTIVE_H

#include <stdbool.h>

typedef enum trp__directive {
    TRP__DIRECTIVE_REPLY = 0,       /* only the request fails */
    TRP__DIRECTIVE_TRIM,            /* every actor gives memory back, then one more try */
    TRP__DIRECTIVE_RESTART_ACTOR,   /* the actor's handle is useless, the context is not */
    TRP__DIRECTIVE_RESTART_CONTEXT, /* the worker must be replaced */
    TRP__DIRECTIVE_STOP,            /* no worker would do better: the device is gone */
} trp__directive;

/* The directive for a code of a domain: "cuda" (CUresult), "cublas" (cublasStatus_t), "signal",
 * "exit", "errno", "probe". A code that a domain's list lacks: RESTART_CONTEXT for "cuda", where a
 * newer driver may have one that breaks the context, and for ends of processes; RESTART_ACTOR for
 * "cublas"; REPLY for "errno". Any other domain, or none (""): REPLY. */
trp__directive trp__directive_of(const char *domain, int code);

/* Whether the driver has stopped all work of the context before it gives this code, and gives
 * nothing else from then on. */
bool trp__code_sticky(const char *domain, int code);

/* The code as its library writes it ("CUDA_ERROR_ILLEGAL_ADDRESS", "SIGSEGV"); NULL if the table
 * has no row for it. Static string. */
const char *trp__code_name(const char *domain, int code);

#endif

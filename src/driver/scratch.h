/* Device memory for workspaces and for tensors between the parts of a request: one allocation, used
 * by all requests in the actor's stream one after the other. */
#ifndef TRP_DRIVER_SCRATCH_H
#define TRP_DRIVER_SCRATCH_H

#include "driver/cuda.h"

#include <troupe/worker.h>

enum { TRP__SCRATCHES = 32 };

typedef struct trp__scratch {
    trp__cu_address at[TRP__SCRATCHES];
    size_t bytes; /* size of the last */
    uint32_t count;
} trp__scratch;

/* Ensures `bytes` bytes; *out is their address, or NULL if none were ever needed. */
trp_status trp__scratch_have(trp_instance *instance, const trp__cuda *cu, trp__scratch *s,
                             uint64_t bytes, char **out, trp_error *error);

/* Frees it all. The stream must not need it any more. */
void trp__scratch_free(trp_instance *instance, const trp__cuda *cu, trp__scratch *s);

#endif

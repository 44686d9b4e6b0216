/* Device memory for workspaces and for what lies between the parts of a request: one piece, used by
 * all requests in the actor's stream, one after the other. */
#ifndef TRP_ACTORS_DNN_PLANS_SCRATCH_H
#define TRP_ACTORS_DNN_PLANS_SCRATCH_H

#include "driver/cuda.h"

#include <troupe/worker.h>

enum { TRP__DNN_SCRATCHES = 32 };

typedef struct trp__dnn_scratch {
    trp__cu_address at[TRP__DNN_SCRATCHES];
    size_t bytes; /* of the last */
    uint32_t count;
} trp__dnn_scratch;

/* Makes sure that there are so many bytes; *out is where, NULL if none were ever needed. */
trp_status trp__dnn_scratch_have(trp_instance *instance, const trp__cuda *cu, trp__dnn_scratch *s,
                                 uint64_t bytes, char **out, trp_error *error);

/* When the stream needs none of it. */
void trp__dnn_scratch_free(trp_instance *instance, const trp__cuda *cu, trp__dnn_scratch *s);

#endif

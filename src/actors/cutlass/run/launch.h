/* Enqueueing a kernel of a module, for a request or for a proof of it. */
#ifndef TRP_ACTORS_CUTLASS_RUN_LAUNCH_H
#define TRP_ACTORS_CUTLASS_RUN_LAUNCH_H

#include "actors/cutlass/run/builder.h"

typedef struct trp__cutlass_launcher {
    const trp__cuda *cu;
    trp_instance *instance; /* gets errors of calls */
    trp__cu_stream stream;
} trp__cutlass_launcher;

/* For grouped products: makes the arrays that the kernel reads from those on the device,
 * at `table`, in the workspace, which belongs to whatever runs in the stream. */
trp_status trp__cutlass_prepare(const trp__cutlass_launcher *l,
                                const trp__cutlass_properties *properties,
                                const trp_cutlass_args *args, uint64_t table, trp_error *error);

/* The kernel. The workspace has its zeros by then. */
trp_status trp__cutlass_launch(const trp__cutlass_launcher *l,
                               const trp__cutlass_properties *properties,
                               const trp__cutlass_parameter *parameter, trp_error *error);

#endif

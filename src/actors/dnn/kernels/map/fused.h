/* Kernels of their own for element-wise programs that run often (fused.cuh). A side thread compiles
 * them, or finds them in the kernel cache, while the interpreter (map.cuh) serves. Both give the
 * same bits, so a request need not know which one ran.
 *
 * All but the compile itself runs in the scheduler thread. */
#ifndef TRP_ACTORS_DNN_KERNELS_MAP_FUSED_H
#define TRP_ACTORS_DNN_KERNELS_MAP_FUSED_H

#include "actors/dnn/kernels/launch/modules.h"
#include "worker/side.h"

enum { TRP__FUSED_SOURCE = 8192 /* bytes of a source */ };

typedef struct trp__fused_entry trp__fused_entry;

typedef struct trp__fused {
    trp__kernel_modules *modules;
    trp__side *side;
    trp__fused_entry *entries;  /* all of them */
    trp__fused_entry *compiled; /* the one that the side thread compiles; NULL: none */
} trp__fused;

/* Starts the side thread. */
trp_status trp__fused_start(trp__fused *f, trp__kernel_modules *modules, trp_error *error);
/* Waits for a running compile, and unloads all kernels. The context must be current. */
void trp__fused_stop(trp__fused *f, trp_instance *instance);

/* Returns the entry of a source, always the same for the same text; NULL: no memory, or too many
 * entries. Entries live until trp__fused_stop(). */
trp__fused_entry *trp__fused_find(trp__fused *f, const char *source);

/* Counts a run of an entry over `elements` elements, and returns its kernel; NULL: it has none, or
 * none yet. Loads the kernel once, and never waits for a compile. */
trp__cu_function trp__fused_use(trp__fused *f, trp_instance *instance, trp__fused_entry *entry,
                                int64_t elements);

/* Begins the next compile, if one is wanted and none runs. */
void trp__fused_work(trp__fused *f);

#endif

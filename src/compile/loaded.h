/* Modules loaded in a worker, bounded in number and bytes of images; the least recently used are
 * unloaded. Loading and unloading block in the driver and run in a side thread; the rest belongs to
 * the scheduler. */
#ifndef TRP_COMPILE_LOADED_H
#define TRP_COMPILE_LOADED_H

#include "compile/input.h"
#include "driver/cuda.h"

#include <troupe/worker.h>

#define TRP__JIT_LOADED_MOST  256
#define TRP__JIT_LOADED_BYTES (UINT64_C(1) << 30)

typedef struct trp__jit_kernel {
    char *name;                /* in the image */
    trp__cu_function function; /* NULL: it is no kernel */
    uint32_t parameters;
    uint32_t *parameter_bytes;
    uint32_t all_bytes;      /* up to the end of the last parameter */
    uint32_t shared_allowed; /* dynamic shared memory */
    bool large_clusters;     /* of more than 8 blocks are allowed */
} trp__jit_kernel;

typedef struct trp__jit_loaded {
    uint32_t slot, generation; /* of the module's token */
    trp__cu_module module;
    uint64_t bytes;
    uint64_t image_sum; /* the checksum of the image */
    uint64_t used;      /* a rising stamp */
    uint32_t count;
    trp__jit_kernel *kernel; /* an element for each name */
    void *extra;             /* the actor's data (loader.h), freed with the module; may be NULL */
    struct trp__jit_loaded *next; /* next module to unload */
} trp__jit_loaded;

/* A module's storage, for one load. */
typedef struct trp__jit_source {
    const trp__storage_head *head;
    const char *output;
    uint64_t room;
    const char *heap; /* the whole segment, for ranges that were set */
    uint64_t heap_bytes;
    uint64_t before; /* ranges with a lower number are written again */
} trp__jit_source;

/* Loads a module, in the side thread with the context current. Errors: TRP_E_LIBRARY (the
 * driver's), TRP_E_INTERNAL (the storage is damaged), TRP_E_MEMORY. */
trp_status trp__jit_module_load(trp_instance *instance, const trp__cuda *cu,
                                const trp__jit_source *source, trp__jit_loaded **out,
                                trp_error *error);

/* Unloads a module, in the side thread or while no stream uses it. */
void trp__jit_module_unload(trp_instance *instance, const trp__cuda *cu, trp__jit_loaded *module);

/* Finds a variable's address and size by its name in the image or as "#3"; TRP_E_ARGUMENT: the
 * module has none. */
trp_status trp__jit_variable(trp_instance *instance, const trp__cuda *cu,
                             const trp__jit_loaded *module, const char *name,
                             trp__cu_address *address, size_t *bytes, trp_error *error);

#endif

/* The modules of one actor in a worker: found by their token, loaded when they are used first, and
 * unloaded once they are freed or room is needed. The actor's state has one. */
#ifndef TRP_COMPILE_LOADER_H
#define TRP_COMPILE_LOADER_H

#include "compile/loaded.h"
#include "worker/side.h"

typedef struct trp__jit_loader {
    /* What more the actor wants to know of a module that was just loaded, in its `extra`; NULL:
     * nothing. In the side thread, with the context current. */
    trp_status (*examine)(struct trp__jit_loader *loader, trp__jit_loaded *module,
                          trp_error *error);

    const trp__cuda *cu;
    trp_instance *instance;
    trp__cu_device device;
    trp__cu_context context; /* the device's primary one, held; NULL: not yet */
    trp__side *side;
    uint64_t stamp;
    uint32_t count, looked; /* modules; where the last look for freed ones ended */
    uint64_t bytes;
    trp__jit_loaded *module[TRP__JIT_LOADED_MOST];
    trp__jit_loaded *going; /* to be unloaded by the side thread */

    /* What the side thread works on, or has. */
    bool loading; /* for the request `ticket` */
    uint64_t ticket;
    trp__jit_source source;
    trp__jit_loaded *found;
    uint32_t failures; /* of loads for `ticket` */
    trp_status status;
    trp_error error;
} trp__jit_loader;

/* Opens the driver and starts the side thread; zeroed before, but for `examine`. Errors:
 * TRP_E_MISSING, TRP_E_UNSUPPORTED (an old driver), TRP_E_LIBRARY, TRP_E_SYSTEM. */
trp_status trp__jit_loader_start(trp__jit_loader *l, trp_instance *instance, trp_error *error);

/* Unloads everything; nothing of it may be in a stream. What was not started is ignored. */
void trp__jit_loader_stop(trp__jit_loader *l);

/* The module of a request, which is its first access. TRP_AGAIN while it is loaded; the request
 * can't be cancelled then, since its home is read. */
trp_status trp__jit_loader_find(trp__jit_loader *l, trp_job *job, const trp__home *home,
                                trp__jit_loaded **out, trp_error *error);

/* A module that is loaded, by its token; NULL: it is not. */
trp__jit_loaded *trp__jit_loader_loaded(trp__jit_loader *l, uint32_t slot, uint32_t generation);

/* Where a module's home is; sets before the request `ticket` are to be made again. */
trp_status trp__jit_loader_source(const trp__jit_loader *l, const trp__home *home, uint64_t ticket,
                                  trp__jit_source *source, trp_error *error);

/* For the actor's trim(): unloads what was freed. What is not freed stays: its variables may hold
 * what kernels have left in them. */
void trp__jit_loader_trim(trp__jit_loader *l);

#endif

/* The modules of one actor in a worker: found by their token, loaded at first use, unloaded when
 * they are freed or room is needed. Part of the actor's state. */
#ifndef TRP_COMPILE_LOADER_H
#define TRP_COMPILE_LOADER_H

#include "compile/loaded.h"
#include "worker/side.h"

typedef struct trp__jit_loader {
    /* Fills `extra` of a module that was just loaded; NULL: nothing to do. In the side thread, with
     * the context current. */
    trp_status (*examine)(struct trp__jit_loader *loader, trp__jit_loaded *module,
                          trp_error *error);

    const trp__cuda *cu;
    trp_instance *instance;
    trp__cu_device device;
    trp__cu_context context; /* the device's primary context, retained; NULL: not yet */
    trp__side *side;
    uint64_t stamp;
    uint32_t count, looked; /* modules; where the last search for freed ones ended */
    uint64_t bytes;
    trp__jit_loaded *module[TRP__JIT_LOADED_MOST];
    trp__jit_loaded *going; /* queued for unloading in the side thread */

    /* State of the side thread's load. */
    bool loading; /* for the request `ticket` */
    uint64_t ticket;
    trp__jit_source source;
    trp__jit_loaded *found;
    uint32_t failures; /* of loads for `ticket` */
    trp_status status;
    trp_error error;
} trp__jit_loader;

/* Opens the driver and starts the side thread. *l is zeroed before, except `examine`. Errors:
 * TRP_E_MISSING, TRP_E_UNSUPPORTED (an old driver), TRP_E_LIBRARY, TRP_E_SYSTEM. */
trp_status trp__jit_loader_start(trp__jit_loader *l, trp_instance *instance, trp_error *error);

/* Unloads all modules, which no stream may use. Ignores what was not started. */
void trp__jit_loader_stop(trp__jit_loader *l);

/* Finds the module of a request, its first access. TRP_AGAIN while it loads; the request can't be
 * cancelled then, since its storage is being read. */
trp_status trp__jit_loader_find(trp__jit_loader *l, trp_job *job, const trp__storage *storage,
                                trp__jit_loaded **out, trp_error *error);

/* Finds a loaded module by its token; NULL: not loaded. */
trp__jit_loaded *trp__jit_loader_loaded(trp__jit_loader *l, uint32_t slot, uint32_t generation);

/* Locates a module's storage; ranges set before the request `ticket` are to be written again. */
trp_status trp__jit_loader_source(const trp__jit_loader *l, const trp__storage *storage,
                                  uint64_t ticket, trp__jit_source *source, trp_error *error);

/* Unloads freed modules, for the actor's trim(). Others stay: their variables may hold results of
 * kernels. */
void trp__jit_loader_trim(trp__jit_loader *l);

#endif

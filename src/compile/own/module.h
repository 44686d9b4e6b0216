/* A program of Troupe's own (own.h) that is loaded on a device for one of its kernels: references,
 * which an actor seldom needs. One thread at a time, with the context current. */
#ifndef TRP_COMPILE_OWN_MODULE_H
#define TRP_COMPILE_OWN_MODULE_H

#include "compile/own/own.h"

/* Zero-initialised. */
typedef struct trp__own_module {
    void *image;
    trp__cu_module module;
    trp__cu_function kernel; /* NULL: it is not loaded */
} trp__own_module;

/* Loads the kernel called `name`, unless it is loaded; errors as of trp__own_image(), and
 * TRP_E_LIBRARY, the driver's. */
trp_status trp__own_module_load(trp__own_module *m, const trp__cuda *cu, trp__store *store,
                                const char *target, const trp__own_program *program,
                                const char *name, const atomic_bool *stop, trp_error *error);

/* A module that was not loaded is ignored. */
void trp__own_module_unload(trp__own_module *m, const trp__cuda *cu, trp_instance *instance);

#endif

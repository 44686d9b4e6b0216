/* A module that is compiled in a thread of its own, while requests run without it. All but the
 * compile itself is one thread's, which also uses the modules. */
#ifndef TRP_ACTORS_DNN_KERNELS_LAUNCH_BACKGROUND_H
#define TRP_ACTORS_DNN_KERNELS_LAUNCH_BACKGROUND_H

#include "actors/dnn/kernels/launch/modules.h"
#include "worker/side.h"

/* Zero-initialised. */
typedef struct trp__background {
    trp__kernel_modules *modules;
    trp__kernel_module module;
    trp__side *side; /* NULL: not begun */
    atomic_bool stop;
    void *image; /* with those below the side thread's until that is idle */
    size_t bytes;
    trp_status status;
} trp__background;

/* Begins the compile, once. Where there is no thread for it, it has failed. */
void trp__background_begin(trp__background *b, trp__kernel_modules *modules,
                           trp__kernel_module module);

/* Whether it has begun and is over; `status` then says how. */
bool trp__background_ended(const trp__background *b);

/* Gives the modules, which no other thread may use meanwhile, an image that was compiled. */
void trp__background_take(trp__background *b);

/* Calls a compile off and waits for it to end. */
void trp__background_stop(trp__background *b);

#endif

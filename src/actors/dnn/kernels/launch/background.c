#include "actors/dnn/kernels/launch/background.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* In the side thread. */
static void compile(void *argument)
{
    trp__background *b = argument;
    trp_error ignored;
    b->status =
        trp__kernels_compile(b->modules, b->module, &b->stop, &b->image, &b->bytes, &ignored);
}

void trp__background_begin(trp__background *b, trp__kernel_modules *modules,
                           trp__kernel_module module)
{
    trp_error ignored;
    if (b->modules)
        return;
    b->modules = modules;
    b->module = module;
    b->status = trp__side_start(&b->side, NULL, NULL, &ignored);
    if (b->status == TRP_OK)
        trp__side_run(b->side, compile, b);
}

bool trp__background_ended(const trp__background *b)
{
    return b->modules && !(b->side && trp__side_busy(b->side));
}

void trp__background_take(trp__background *b)
{
    if (!trp__background_ended(b) || !b->image || b->modules->module[b->module].image)
        return;
    b->modules->module[b->module].image = b->image;
    b->modules->module[b->module].bytes = b->bytes;
    b->image = NULL;
}

void trp__background_stop(trp__background *b)
{
    atomic_store(&b->stop, true);
    trp__side_stop(b->side);
    free(b->image);
    b->side = NULL;
    b->image = NULL;
}

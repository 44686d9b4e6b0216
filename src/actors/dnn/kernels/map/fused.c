#include "actors/dnn/kernels/map/fused.h"

#include <stdlib.h>
#include <string.h>

enum {
    USES = 3,           /* launches before a compile pays */
    ELEMENTS = 1 << 18, /* least of a launch that counts as one: smaller ones take no longer than
                         * the call */
    ENTRIES_MAX = 4096,
};

struct trp__fused_entry {
    trp__fused_entry *next;
    trp__kernel_modules *modules;
    char *source;
    uint32_t uses;
    bool asked; /* a lookup in the cache, or a compile, has begun */
    void *image;
    size_t bytes;
    trp__cu_module module;
    trp__cu_function function;
};

trp_status trp__fused_start(trp__fused *f, trp__kernel_modules *modules, trp_error *error)
{
    *f = (trp__fused){.modules = modules};
    return trp__side_start(&f->side, NULL, NULL, error);
}

void trp__fused_stop(trp__fused *f, trp_instance *instance)
{
    trp__side_stop(f->side);
    for (trp__fused_entry *e = f->entries, *next; e; e = next) {
        next = e->next;
        if (e->module)
            trp_cuda_check(instance, f->modules->cu->cuModuleUnload(e->module), "cuModuleUnload",
                           NULL);
        free(e->image);
        free(e->source);
        free(e);
    }
    memset(f, 0, sizeof *f);
}

trp__fused_entry *trp__fused_find(trp__fused *f, const char *source)
{
    uint32_t count = 0;
    for (trp__fused_entry *e = f->entries; e; e = e->next, count++) {
        if (strcmp(e->source, source) == 0)
            return e;
    }
    trp__fused_entry *e = count < ENTRIES_MAX ? calloc(1, sizeof *e) : NULL;
    if (e)
        e->source = strdup(source);
    if (!e || !e->source) {
        free(e);
        return NULL;
    }
    e->modules = f->modules;
    e->next = f->entries;
    f->entries = e;
    return e;
}

/* Loads a compiled program. If that fails, the interpreter goes on running it. */
static void load(trp__fused *f, trp_instance *instance, trp__fused_entry *e)
{
    trp_error ignored;
    trp_status status =
        trp_cuda_check(instance, f->modules->cu->cuModuleLoadData(&e->module, e->image),
                       "cuModuleLoadData", &ignored);
    if (status == TRP_OK)
        status = trp_cuda_check(
            instance, f->modules->cu->cuModuleGetFunction(&e->function, e->module, "trp_map_fused"),
            "cuModuleGetFunction", &ignored);
    if (status != TRP_OK)
        e->function = NULL;
    free(e->image);
    e->image = NULL;
}

trp__cu_function trp__fused_use(trp__fused *f, trp_instance *instance, trp__fused_entry *e,
                                int64_t elements)
{
    if (e->function)
        return e->function;
    if (elements >= ELEMENTS && e->uses < USES)
        e->uses++;
    /* The side thread owns the image until it is idle. */
    const bool ended = e->asked && (f->compiled != e || !trp__side_busy(f->side));
    if (ended && e->image)
        load(f, instance, e);
    return e->function;
}

/* Runs in the side thread. */
static void compile(void *argument)
{
    trp__fused_entry *e = argument;
    trp_error ignored;
    (void)trp__kernels_image(e->modules, "fused", e->source, &e->image, &e->bytes, &ignored);
}

void trp__fused_work(trp__fused *f)
{
    if (trp__side_busy(f->side))
        return;
    f->compiled = NULL;
    for (trp__fused_entry *e = f->entries; e; e = e->next) {
        if (e->asked || e->uses < USES)
            continue;
        e->asked = true;
        f->compiled = e;
        trp__side_run(f->side, compile, e);
        return;
    }
}

#include "actors/dnn/kernels/launch/modules.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *file;
} modules[TRP__KERNEL_MODULE_COUNT] = {
#define ROW(symbol, name, file) [TRP__MODULE_##symbol] = {name, file},
    TRP__KERNEL_MODULES(ROW)
#undef ROW
};

trp__own_program trp__kernels_program(trp__kernel_module module)
{
    return (trp__own_program){.actor = "dnn",
                              .name = modules[module].name,
                              .file = modules[module].file,
                              .only_here = module == TRP__MODULE_MULTIPLY};
}

trp_status trp__kernels_image(const trp__kernel_modules *m, const char *name, const char *source,
                              void **image, size_t *bytes, trp_error *error)
{
    const trp__own_program program = {.actor = "dnn", .name = name, .source = source};
    return trp__own_image(m->store, m->target, &program, NULL, image, bytes, error);
}

trp_status trp__kernels_make(trp__kernel_modules *m, trp__kernel_module module,
                             const atomic_bool *stop, trp_error *error)
{
    const trp__own_program program = trp__kernels_program(module);
    if (m->module[module].image)
        return TRP_OK;
    return trp__own_image(m->store, m->target, &program, stop, &m->module[module].image,
                          &m->module[module].bytes, error);
}

bool trp__kernels_ready(trp__kernel_modules *m, trp__kernel_module module)
{
    const trp__own_program program = trp__kernels_program(module);
    return m->module[module].image ||
           trp__own_image_find(m->store, m->target, &program, &m->module[module].image,
                               &m->module[module].bytes);
}

trp_status trp__kernels_share(const trp__kernel_modules *from, trp__kernel_modules *to,
                              trp__kernel_module module, trp_error *error)
{
    const size_t bytes = from->module[module].bytes;
    if (to->module[module].image)
        return TRP_OK;
    void *image = from->module[module].image ? malloc(bytes) : NULL;
    if (!image)
        return trp__error_set(error, TRP_E_MEMORY, "%s: no image of %zu bytes",
                              modules[module].name, bytes);
    memcpy(image, from->module[module].image, bytes);
    to->module[module].image = image;
    to->module[module].bytes = bytes;
    return TRP_OK;
}

/* Loading. */

trp_status trp__kernel_check(trp_instance *instance, int result, const char *call, trp_error *error)
{
    return result == 0 ? TRP_OK
           : instance  ? trp_cuda_check(instance, result, call, error)
                       : trp__cuda_error(error, result, call);
}

trp_status trp__kernels_function(trp__kernel_modules *m, trp_instance *instance,
                                 trp__kernel_module module, const char *name, trp__cu_function *out,
                                 trp_error *error)
{
    trp_status status = trp__kernels_make(m, module, NULL, error);
    if (status == TRP_OK && !m->module[module].loaded)
        status = trp__kernel_check(
            instance, m->cu->cuModuleLoadData(&m->module[module].loaded, m->module[module].image),
            "cuModuleLoadData", error);
    if (status == TRP_OK)
        status = trp__kernel_check(instance,
                                   m->cu->cuModuleGetFunction(out, m->module[module].loaded, name),
                                   "cuModuleGetFunction", error);
    return status;
}

void trp__kernels_end(trp__kernel_modules *m, trp_instance *instance)
{
    for (int i = 0; i < TRP__KERNEL_MODULE_COUNT; i++) {
        if (m->module[i].loaded)
            trp_cuda_check(instance, m->cu->cuModuleUnload(m->module[i].loaded), "cuModuleUnload",
                           NULL);
        free(m->module[i].image);
        m->module[i].loaded = NULL;
        m->module[i].image = NULL;
    }
}

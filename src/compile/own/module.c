#include "compile/own/module.h"

#include "base/error.h"

#include <stdlib.h>

trp_status trp__own_module_load(trp__own_module *m, const trp__cuda *cu, trp__store *store,
                                const char *target, const trp__own_program *program,
                                const char *name, const atomic_bool *stop, trp_error *error)
{
    trp_status status = TRP_OK;
    trp__cu_result result = TRP__CU_SUCCESS;
    size_t bytes;
    if (m->kernel)
        return TRP_OK;
    if (!m->image)
        status = trp__own_image(store, target, program, stop, &m->image, &bytes, error);
    if (status != TRP_OK)
        return status;
    if (!m->module)
        result = cu->cuModuleLoadData(&m->module, m->image);
    if (result != TRP__CU_SUCCESS) {
        m->module = NULL;
        return trp__cuda_error(error, result, "cuModuleLoadData");
    }
    result = cu->cuModuleGetFunction(&m->kernel, m->module, name);
    if (result == TRP__CU_SUCCESS)
        return TRP_OK;
    m->kernel = NULL;
    return trp__cuda_error(error, result, "cuModuleGetFunction");
}

void trp__own_module_unload(trp__own_module *m, const trp__cuda *cu, trp_instance *instance)
{
    if (m->module)
        trp_cuda_check(instance, cu->cuModuleUnload(m->module), "cuModuleUnload", NULL);
    free(m->image);
    *m = (trp__own_module){0};
}

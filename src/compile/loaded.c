#include "compile/loaded.h"

#include "base/checksum.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { LOG_BYTES = 4096 };

static void free_module(trp__jit_loaded *m)
{
    for (uint32_t i = 0; m->kernel && i < m->count; i++) {
        free(m->kernel[i].name);
        free(m->kernel[i].parameter_bytes);
    }
    free(m->kernel);
    free(m->extra);
    free(m);
}

void trp__jit_module_unload(trp_instance *instance, const trp__cuda *cu, trp__jit_loaded *m)
{
    if (m->module)
        trp_cuda_check(instance, cu->cuModuleUnload(m->module), "cuModuleUnload", NULL);
    free_module(m);
}

static trp_status damaged(trp_error *error, const char *what)
{
    return trp__error_set(error, TRP_E_INTERNAL, "the %s of the module is damaged", what);
}

static trp_status no_memory(trp_error *error)
{
    return trp__error_set(error, TRP_E_MEMORY, "no memory to load a module");
}

/* Copies an output, since the program's memory could change after the check; the caller frees
 * *body. */
static trp_status copy_output(const trp__jit_source *source, trp__storage_output *head, char **body,
                              trp_error *error)
{
    memcpy(head, source->output, sizeof *head);
    uint64_t size = trp__storage_output_size(head, source->room);
    if (head->magic != TRP__STORAGE_OUTPUT || size == UINT64_MAX || head->image_bytes == 0)
        return trp__error_set(error, TRP_E_LIBRARY,
                              "the module has no image: what should have made it failed");
    size -= sizeof *head;
    *body = malloc(size + 1);
    if (!*body)
        return no_memory(error);
    memcpy(*body, source->output + sizeof *head, size);
    (*body)[size] = '\0';
    return trp__checksum(*body, size) == head->checksum ? TRP_OK : damaged(error, "image");
}

static trp_status read_names(trp__jit_loaded *m, const trp__storage_output *head, const char *body,
                             trp_error *error)
{
    const char *line = body + head->log_bytes, *end = line + head->names_bytes;
    if (head->names > head->names_bytes)
        return damaged(error, "list of names");
    m->kernel = calloc(head->names ? head->names : 1, sizeof *m->kernel);
    if (!m->kernel)
        return no_memory(error);
    for (; m->count < head->names; m->count++) {
        const char *stop = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
        if (!stop)
            return damaged(error, "list of names");
        m->kernel[m->count].name = strndup(line, (size_t)(stop - line));
        if (!m->kernel[m->count].name)
            return no_memory(error);
        line = stop + 1;
    }
    return TRP_OK;
}

/* Reads the sizes of a kernel's parameters. */
static trp_status read_parameters(trp_instance *instance, const trp__cuda *cu, trp__jit_kernel *k,
                                  trp_error *error)
{
    uint32_t room = 0;
    for (;;) {
        size_t offset = 0, bytes = 0;
        trp__cu_result result = cu->cuFuncGetParamInfo(k->function, k->parameters, &offset, &bytes);
        if (result == TRP__CU_INVALID_VALUE)
            return TRP_OK; /* past the last parameter */
        trp_status status = trp_cuda_check(instance, result, "cuFuncGetParamInfo", error);
        if (status != TRP_OK)
            return status;
        if (k->parameters == room) {
            room = room ? 2 * room : 8;
            uint32_t *larger = realloc(k->parameter_bytes, room * sizeof *larger);
            if (!larger)
                return no_memory(error);
            k->parameter_bytes = larger;
        }
        k->parameter_bytes[k->parameters++] = (uint32_t)bytes;
        k->all_bytes = (uint32_t)(offset + bytes);
    }
}

/* A name that is no kernel is taken for a variable; its use reports an error if it is neither. */
static trp_status find_kernels(trp_instance *instance, const trp__cuda *cu, trp__jit_loaded *m,
                               trp_error *error)
{
    trp_status status = TRP_OK;
    for (uint32_t i = 0; i < m->count && status == TRP_OK; i++) {
        trp__jit_kernel *k = &m->kernel[i];
        trp__cu_result result = cu->cuModuleGetFunction(&k->function, m->module, k->name);
        if (result == TRP__CU_NOT_FOUND) {
            k->function = NULL;
            continue;
        }
        status = trp_cuda_check(instance, result, "cuModuleGetFunction", error);
        if (status == TRP_OK)
            status = read_parameters(instance, cu, k, error);
    }
    return status;
}

trp_status trp__jit_variable(trp_instance *instance, const trp__cuda *cu, const trp__jit_loaded *m,
                             const char *name, trp__cu_address *address, size_t *bytes,
                             trp_error *error)
{
    if (name[0] == TRP__JIT_NUMBERED) {
        unsigned long number = strtoul(name + 1, NULL, 10);
        if (number >= m->count)
            return damaged(error, "name of a variable");
        name = m->kernel[number].name;
    }
    trp__cu_result result = cu->cuModuleGetGlobal_v2(address, bytes, m->module, name);
    if (result == TRP__CU_NOT_FOUND)
        return trp__error_set(error, TRP_E_ARGUMENT,
                              "variable: the module has none that is called %.100s in its image",
                              name);
    return trp_cuda_check(instance, result, "cuModuleGetGlobal", error);
}

/* Writes one earlier range again. If the sender drops it at this moment, a later range covers it,
 * and it is skipped. */
static trp_status set_again(trp_instance *instance, const trp__cuda *cu, const trp__jit_loaded *m,
                            const trp__jit_source *source, const trp__storage_set *shared,
                            uint64_t number, trp_error *error)
{
    uint64_t data = shared->data, at = shared->at, sum = shared->checksum;
    uint64_t name_bytes = shared->name_bytes, bytes = shared->bytes;
    trp__cu_address address = 0;
    size_t size = 0;
    trp_status status = TRP_OK;
    if (data > source->heap_bytes || name_bytes + bytes > source->heap_bytes - data)
        return atomic_load(&shared->number) == number ? damaged(error, "record of variables")
                                                      : TRP_OK;
    char *copy = malloc(name_bytes + bytes + 1);
    if (!copy)
        return no_memory(error);
    memcpy(copy, source->heap + data, name_bytes + bytes);
    bool same = atomic_load(&shared->number) == number;
    bool whole = name_bytes > 0 && copy[name_bytes - 1] == '\0' &&
                 trp__checksum(copy, name_bytes + bytes) == sum;
    if (same && !whole)
        status = damaged(error, "record of variables");
    if (same && status == TRP_OK)
        status = trp__jit_variable(instance, cu, m, copy, &address, &size, error);
    if (same && status == TRP_OK && (at > size || bytes > size - at))
        status = damaged(error, "record of variables");
    if (same && status == TRP_OK)
        status =
            trp_cuda_check(instance, cu->cuMemcpyHtoD_v2(address + at, copy + name_bytes, bytes),
                           "cuMemcpyHtoD", error);
    free(copy);
    return status;
}

/* Writes all earlier ranges again, in their order. */
static trp_status set_all_again(trp_instance *instance, const trp__cuda *cu,
                                const trp__jit_loaded *m, const trp__jit_source *source,
                                trp_error *error)
{
    trp_status status = TRP_OK;
    for (uint64_t last = 0; status == TRP_OK;) {
        uint64_t next = UINT64_MAX;
        uint32_t which = 0;
        for (uint32_t i = 0; i < TRP__MODULE_SETS; i++) {
            uint64_t number = atomic_load(&source->head->set[i].number);
            if (number > last && number < next && number < source->before) {
                next = number;
                which = i;
            }
        }
        if (next == UINT64_MAX)
            return TRP_OK;
        last = next;
        status = set_again(instance, cu, m, source, &source->head->set[which], next, error);
    }
    return status;
}

/* Loads an image; the driver's log explains errors in PTX. */
static trp_status load_image(trp_instance *instance, const trp__cuda *cu, const char *image,
                             trp__jit_loaded *m, trp_error *error)
{
    char log[LOG_BYTES] = "";
    trp__cu_jit_option options[] = {TRP__CU_JIT_ERROR_LOG_BUFFER,
                                    TRP__CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(LOG_BYTES - 1)};
    trp__cu_result result = cu->cuModuleLoadDataEx(&m->module, image, 2, options, values);
    trp_status status = trp_cuda_check(instance, result, "cuModuleLoadDataEx", error);
    if (status != TRP_OK && log[0]) {
        trp_error plain = *error;
        log[strcspn(log, "\n")] = '\0';
        trp__copy_string(error->message, sizeof error->message, log);
        size_t length = strlen(error->message);
        if (length + 3 < sizeof error->message) {
            memcpy(error->message + length, "; ", 3);
            trp__copy_string(error->message + length + 2, sizeof error->message - length - 2,
                             plain.message);
        }
    }
    return status;
}

trp_status trp__jit_module_load(trp_instance *instance, const trp__cuda *cu,
                                const trp__jit_source *source, trp__jit_loaded **out,
                                trp_error *error)
{
    trp__storage_output head;
    char *body = NULL;
    trp__jit_loaded *m = calloc(1, sizeof *m);
    if (!m)
        return no_memory(error);
    trp_status status = copy_output(source, &head, &body, error);
    const char *image =
        status == TRP_OK ? body + head.log_bytes + head.names_bytes + head.headers_bytes : NULL;
    if (status == TRP_OK)
        status = read_names(m, &head, body, error);
    if (status == TRP_OK)
        status = load_image(instance, cu, image, m, error);
    if (status == TRP_OK)
        status = find_kernels(instance, cu, m, error);
    if (status == TRP_OK)
        status = set_all_again(instance, cu, m, source, error);
    if (status == TRP_OK)
        m->image_sum = trp__checksum(image, head.image_bytes);
    free(body);
    if (status != TRP_OK) {
        trp__jit_module_unload(instance, cu, m);
        return status;
    }
    m->bytes = head.image_bytes;
    *out = m;
    return TRP_OK;
}

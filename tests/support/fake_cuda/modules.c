/* Modules of the fake driver. It compiles nothing: it reads the kernels and their parameters from
 * PTX text, or from a cubin, and runs its own code for the kernels that it knows by name. */
#include "support/fake_cuda/modules.h"

#include <stdlib.h>
#include <string.h>

static void free_variables(module *m)
{
    for (size_t i = 0; i < m->variables; i++) {
        fake_allocation_claim(m->variable[i].address);
        fake_allocation_free(m->variable[i].address);
    }
}

/* Calls. */

trp__cu_result cuModuleLoadData(trp__cu_module *out, const void *image)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    module *m = calloc(1, sizeof *m);
    result = !m      ? FAKE_ERROR_OUT_OF_MEMORY
             : image ? fake_image_read(image, m)
                     : FAKE_ERROR_INVALID_VALUE;
    uintptr_t handle = result == 0 ? fake_handle_new(FAKE_MODULE, m) : 0;
    if (!handle) {
        if (m)
            free_variables(m);
        free(m);
        return fake_leave(result ? result : FAKE_ERROR_OUT_OF_MEMORY);
    }
    *out = (trp__cu_module)handle;
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuModuleUnload(trp__cu_module handle)
{
    int result = fake_enter(FAKE_ENDS_CONTEXT);
    if (result)
        return result;
    module *m = fake_handle_get(FAKE_MODULE, (uintptr_t)handle);
    if (!m)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    for (size_t i = 0; i < m->count; i++)
        fake_handle_drop(m->entry[i].handle);
    fake_handle_drop((uintptr_t)handle);
    free_variables(m);
    free(m);
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuModuleGetFunction(trp__cu_function *out, trp__cu_module handle, const char *name)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    module *m = fake_handle_get(FAKE_MODULE, (uintptr_t)handle);
    if (!m || !name)
        return fake_leave(m ? FAKE_ERROR_INVALID_VALUE : FAKE_ERROR_INVALID_HANDLE);
    entry *e = NULL;
    for (size_t i = 0; i < m->count && !e; i++)
        e = strcmp(m->entry[i].name, name) == 0 ? &m->entry[i] : NULL;
    if (!e || !fake_kernel_find(name))
        return fake_leave(FAKE_ERROR_NOT_FOUND);
    if (!e->handle && !(e->handle = fake_handle_new(FAKE_FUNCTION, e)))
        return fake_leave(FAKE_ERROR_OUT_OF_MEMORY);
    *out = (trp__cu_function)e->handle;
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuModuleLoadDataEx(trp__cu_module *out, const void *image, unsigned int count,
                                  trp__cu_jit_option *options, void **values)
{
    int result = cuModuleLoadData(out, image);
    for (unsigned int i = 0; i + 1 < count && result == FAKE_ERROR_INVALID_PTX; i++) {
        if (options[i] == 5 && options[i + 1] == 6 && (uintptr_t)values[i + 1] > 64)
            strcpy(values[i], "ptxas: the fake driver does not understand this PTX\n");
    }
    return result;
}

trp__cu_result cuModuleGetGlobal_v2(trp__cu_address *address, size_t *bytes, trp__cu_module handle,
                                    const char *name)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    const module *m = fake_handle_get(FAKE_MODULE, (uintptr_t)handle);
    if (!m || !name)
        return fake_leave(m ? FAKE_ERROR_INVALID_VALUE : FAKE_ERROR_INVALID_HANDLE);
    for (size_t i = 0; i < m->variables; i++) {
        if (strcmp(m->variable[i].name, name) == 0) {
            *address = m->variable[i].address;
            *bytes = m->variable[i].bytes;
            return fake_leave(FAKE_SUCCESS);
        }
    }
    return fake_leave(FAKE_ERROR_NOT_FOUND);
}

trp__cu_result cuFuncGetParamInfo(trp__cu_function function, size_t index, size_t *offset,
                                  size_t *bytes)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    const entry *e = fake_handle_get(FAKE_FUNCTION, (uintptr_t)function);
    if (!e || index >= e->parameter_count)
        return fake_leave(e ? FAKE_ERROR_INVALID_VALUE : FAKE_ERROR_INVALID_HANDLE);
    *offset = 0;
    for (size_t i = 0; i < index; i++)
        *offset += (e->parameter_bytes[i] + 7) / 8 * 8;
    *bytes = e->parameter_bytes[index];
    return fake_leave(FAKE_SUCCESS);
}

/* Attributes of every kernel, by CUfunction_attribute. */
static const int attributes[] = {1024, SHARED_OWN, 0, 0, 32, TARGET, TARGET, 0, SHARED_USUAL};

trp__cu_result cuFuncGetAttribute(int *value, trp__cu_function_attribute attribute,
                                  trp__cu_function function)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (!fake_handle_get(FAKE_FUNCTION, (uintptr_t)function))
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    if ((size_t)attribute >= sizeof attributes / sizeof *attributes)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    *value = attributes[attribute];
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuFuncSetAttribute(trp__cu_function function, trp__cu_function_attribute attribute,
                                  int value)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    entry *e = fake_handle_get(FAKE_FUNCTION, (uintptr_t)function);
    if (!e)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    bool fits = (attribute == 8 && value >= 0 && value <= SHARED_MOST) || attribute == 14;
    if (fits && attribute == 8)
        e->shared_most = (unsigned int)value;
    return fake_leave(fits ? FAKE_SUCCESS : FAKE_ERROR_INVALID_VALUE);
}

trp__cu_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, trp__cu_function function,
                                                           int block, size_t shared_bytes)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (!fake_handle_get(FAKE_FUNCTION, (uintptr_t)function) || block < 1)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    *blocks = shared_bytes > SHARED_MOST ? 0 : 2048 / block;
    return fake_leave(FAKE_SUCCESS);
}

/* Two clusters, so that kernels that walk over groups have several groups each. */
trp__cu_result cuOccupancyMaxActiveClusters(int *clusters, trp__cu_function function,
                                            const trp__cu_launch_config *config)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    if (!fake_handle_get(FAKE_FUNCTION, (uintptr_t)function) || config->gridDimX < 1)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    *clusters = config->sharedMemBytes > SHARED_MOST ? 0 : 2;
    return fake_leave(FAKE_SUCCESS);
}

trp__cu_result cuOccupancyMaxPotentialBlockSize(int *grid, int *block, trp__cu_function function,
                                                trp__cu_shared_of_block shared_of_block,
                                                size_t shared_bytes, int limit)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    (void)shared_of_block;
    (void)shared_bytes;
    (void)limit;
    if (!fake_handle_get(FAKE_FUNCTION, (uintptr_t)function))
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    *block = 1024;
    *grid = 264;
    return fake_leave(FAKE_SUCCESS);
}

/* Checks some of the driver's rules. The first word of the map is the address; rank and sizes
 * follow. */
trp__cu_result cuTensorMapEncodeTiled(trp__cu_tensor_map *map, trp__cu_tensor_type type,
                                      unsigned int rank, void *address, const uint64_t *size,
                                      const uint64_t *stride, const unsigned int *box,
                                      const unsigned int *step,
                                      trp__cu_tensor_interleave interleave,
                                      trp__cu_tensor_swizzle swizzle, trp__cu_tensor_l2 l2,
                                      trp__cu_tensor_fill fill)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    (void)l2;
    (void)fill;
    bool fits = (uintptr_t)map % 64 == 0 && type <= 15 && rank >= 1 && rank <= 5 &&
                (uintptr_t)address % 16 == 0 && interleave <= 2 && swizzle <= 6;
    memset(map, 0, sizeof *map);
    map->opaque[0] = (uintptr_t)address;
    map->opaque[1] = rank;
    for (unsigned int i = 0; i < rank && fits; i++) {
        fits = size[i] >= 1 && box[i] >= 1 && box[i] <= 256 && step[i] >= 1 && step[i] <= 8 &&
               (i + 1 == rank || stride[i] % 16 == 0);
        map->opaque[2 + i] = size[i];
    }
    return fake_leave(fits ? FAKE_SUCCESS : FAKE_ERROR_INVALID_VALUE);
}

/* Checks the same rules; the second word is the rank plus 8. */
trp__cu_result cuTensorMapEncodeIm2col(trp__cu_tensor_map *map, trp__cu_tensor_type type,
                                       unsigned int rank, void *address, const uint64_t *size,
                                       const uint64_t *stride, const int *lower, const int *upper,
                                       unsigned int channels, unsigned int pixels,
                                       const unsigned int *step,
                                       trp__cu_tensor_interleave interleave,
                                       trp__cu_tensor_swizzle swizzle, trp__cu_tensor_l2 l2,
                                       trp__cu_tensor_fill fill)
{
    static const int most[] = {32767, 127, 15};
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    (void)l2;
    (void)fill;
    bool fits = (uintptr_t)map % 64 == 0 && type <= 15 && rank >= 3 && rank <= 5 &&
                (uintptr_t)address % 16 == 0 && interleave <= 2 && swizzle <= 6 && channels >= 1 &&
                channels <= 256 && pixels >= 1 && pixels <= 1024;
    memset(map, 0, sizeof *map);
    map->opaque[0] = (uintptr_t)address;
    map->opaque[1] = rank | 8;
    for (unsigned int i = 0; i < rank && fits; i++) {
        bool pixel = i > 0 && i + 1 < rank;
        fits = size[i] >= 1 && step[i] >= 1 && step[i] <= 8 &&
               (i + 1 == rank || stride[i] % 16 == 0) &&
               (!pixel || (lower[i - 1] >= -most[rank - 3] - 1 && lower[i - 1] <= most[rank - 3] &&
                           upper[i - 1] >= -most[rank - 3] - 1 && upper[i - 1] <= most[rank - 3] &&
                           (int64_t)size[i] + upper[i - 1] > lower[i - 1]));
        map->opaque[2 + i] = size[i];
    }
    return fake_leave(fits ? FAKE_SUCCESS : FAKE_ERROR_INVALID_VALUE);
}

/* Copies the arguments; false: one is missing, or out of memory. */
static bool take_arguments(const entry *e, void **arguments, fake_op *op)
{
    size_t word = 0, words = 1;
    if (e->parameter_count > 0 && !arguments)
        return false;
    for (size_t i = 0; i < e->parameter_count; i++) {
        if (!arguments[i])
            return false;
        words += (e->parameter_bytes[i] + 7) / 8;
    }
    uint64_t *to = calloc(words, sizeof *to);
    for (size_t i = 0; to && i < e->parameter_count; i++) {
        memcpy(&to[word], arguments[i], e->parameter_bytes[i]);
        word += (e->parameter_bytes[i] + 7) / 8;
    }
    const char *wanted = op->kernel.kernel->variable;
    for (size_t i = 0; to && wanted && i < e->module->variables; i++) {
        if (strcmp(e->module->variable[i].name, wanted) == 0)
            to[word] = e->module->variable[i].address;
    }
    op->kernel.parameter = to;
    return to;
}

trp__cu_result cuLaunchKernelEx(const trp__cu_launch_config *c, trp__cu_function function,
                                void **arguments, void **extra)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    const entry *e = fake_handle_get(FAKE_FUNCTION, (uintptr_t)function);
    fake_stream *s = fake_stream_get(c->hStream);
    if (!e || !s)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    uint64_t threads = (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ;
    if (c->gridDimX == 0 || c->gridDimY == 0 || c->gridDimZ == 0 || threads == 0 ||
        threads > 1024 || c->sharedMemBytes > e->shared_most)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    if (extra)
        return fake_leave(FAKE_ERROR_NOT_SUPPORTED);
    unsigned cluster = 1;
    for (unsigned int i = 0; i < c->numAttrs; i++) {
        const trp__cu_launch_attribute *a = &c->attrs[i];
        if (a->id != TRP__CU_LAUNCH_ATTRIBUTE_COOPERATIVE &&
            a->id != TRP__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
            a->id != TRP__CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            return fake_leave(FAKE_ERROR_INVALID_VALUE);
        if (a->id == TRP__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
            (a->value.cluster.x == 0 || a->value.cluster.y == 0 ||
             c->gridDimX % a->value.cluster.x != 0 || c->gridDimY % a->value.cluster.y != 0))
            return fake_leave(FAKE_ERROR_INVALID_VALUE);
        if (a->id == TRP__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            cluster = a->value.cluster.x;
    }
    fake_op op = {.kind = FAKE_OP_KERNEL,
                  .kernel = {.kernel = fake_kernel_find(e->name),
                             .grid = {c->gridDimX, c->gridDimY, c->gridDimZ},
                             .block = (unsigned)threads,
                             .cluster = cluster,
                             .shared_bytes = c->sharedMemBytes}};
    /* Another number of parameters shows that the kernel is not the one that the fake has code for.
     */
    if (e->parameter_count != op.kernel.kernel->parameter_count ||
        !take_arguments(e, arguments, &op))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    result = fake_submit(s, &op);
    if (result)
        free(op.kernel.parameter);
    return fake_leave(result);
}

trp__cu_result cuLaunchKernel(trp__cu_function function, unsigned int grid_x, unsigned int grid_y,
                              unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                              unsigned int block_z, unsigned int shared_bytes,
                              trp__cu_stream stream, void **arguments, void **extra)
{
    const trp__cu_launch_config config = {.gridDimX = grid_x,
                                          .gridDimY = grid_y,
                                          .gridDimZ = grid_z,
                                          .blockDimX = block_x,
                                          .blockDimY = block_y,
                                          .blockDimZ = block_z,
                                          .sharedMemBytes = shared_bytes,
                                          .hStream = stream};
    return cuLaunchKernelEx(&config, function, arguments, extra);
}

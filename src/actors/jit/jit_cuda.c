/* The jit actor on NVIDIA GPUs: loads modules, launches kernels. */
#include "actors/jit/jit.h"
#include "actors/jit/jit_wire.h"
#include "base/error.h"
#include "compile/loader.h"
#include "worker/actor.h"
#include "worker/worker.h"

#include <stdlib.h>
#include <string.h>

static trp__worker *worker_of(trp_instance *instance)
{
    return ((trp__instance *)instance)->worker;
}

/* Launching. */

/* Finds the kernel of a module by the number of its name. */
static trp_status find_kernel(trp__jit_loaded *m, uint32_t name, trp__jit_kernel **out,
                              trp_error *error)
{
    if (name >= m->count)
        return trp__error_set(error, TRP_E_INTERNAL, "kernel %u of a module with %u", name,
                              m->count);
    *out = &m->kernel[name];
    return (*out)->function ? TRP_OK
                            : trp__error_set(error, TRP_E_ARGUMENT,
                                             "kernel: the module has none that is called %.120s in "
                                             "its image",
                                             (*out)->name);
}

/* The arguments of one launch in the form that the driver takes. */
typedef struct arguments {
    void *at[TRP_KERNEL_ARGS_MAX + 1];
    void *address[TRP_KERNEL_BUFFERS_MAX];
    trp__cu_tensor_map map[TRP_KERNEL_BUFFERS_MAX];
    uint32_t addresses, maps;
} arguments;

static trp_status encode_map(trp_instance *instance, const trp__jit_loader *s, uint32_t index,
                             const trp__jit_tensor *t, void *address, trp__cu_tensor_map *out,
                             trp_error *error)
{
    trp__cu_result result =
        s->cu->cuTensorMapEncodeTiled(out, t->type, t->rank, address, t->size, t->stride, t->box,
                                      t->step, t->interleave, t->swizzle, t->l2, t->fill);
    if (result == TRP__CU_INVALID_VALUE)
        return trp__error_set_code(error, TRP_E_ARGUMENT, "", 0,
                                   "args[%u].map: cuTensorMapEncodeTiled refuses it; see its rules "
                                   "on alignment, box and swizzle",
                                   index);
    return trp_cuda_check(instance, result, "cuTensorMapEncodeTiled", error);
}

static trp_status wrong_size(trp_error *error, const trp__jit_kernel *k, uint32_t index,
                             uint32_t got)
{
    return trp__error_set(error, TRP_E_ARGUMENT,
                          "args[%u]: the parameter of %.100s has %u bytes, got %u", index, k->name,
                          k->parameter_bytes[index], got);
}

/* Reads one argument from the `left` bytes at `from`; *taken gets its size. */
static trp_status set_argument(trp_instance *instance, const trp_job *job, const trp__jit_kernel *k,
                               uint32_t index, const unsigned char *from, uint32_t left,
                               arguments *a, uint32_t *taken, trp_error *error)
{
    trp__jit_arg arg;
    trp__jit_tensor tensor;
    if (left < sizeof arg)
        return trp__error_set(error, TRP_E_INTERNAL, "the arguments of a launch are damaged");
    memcpy(&arg, from, sizeof arg);
    uint32_t size = arg.kind == TRP_ARG_VALUE ? arg.bytes : arg.kind == TRP_ARG_BUFFER ? 8 : 128;
    if (arg.bytes > left - sizeof arg || trp__jit_padded(arg.bytes) > left - sizeof arg ||
        (arg.kind != TRP_ARG_VALUE &&
         (arg.access >= job->access_count || a->addresses == TRP_KERNEL_BUFFERS_MAX)) ||
        (arg.kind == TRP_ARG_TENSOR_MAP && arg.bytes != sizeof tensor))
        return trp__error_set(error, TRP_E_INTERNAL, "the arguments of a launch are damaged");
    *taken = (uint32_t)(sizeof arg + trp__jit_padded(arg.bytes));
    if (size != k->parameter_bytes[index])
        return wrong_size(error, k, index, size);
    if (arg.kind == TRP_ARG_VALUE) {
        a->at[index] = (void *)(uintptr_t)(from + sizeof arg);
        return TRP_OK;
    }
    void **address = &a->address[a->addresses++];
    *address = job->access[arg.access].address;
    a->at[index] = address;
    if (arg.kind == TRP_ARG_BUFFER)
        return TRP_OK;
    memcpy(&tensor, from + sizeof arg, sizeof tensor);
    a->at[index] = &a->map[a->maps];
    return encode_map(instance, instance->state, index, &tensor, *address, &a->map[a->maps++],
                      error);
}

static trp_status set_arguments(trp_instance *instance, const trp_job *job,
                                const trp__jit_launch *l, const trp__jit_kernel *k,
                                const unsigned char *from, arguments *a, trp_error *error)
{
    uint32_t at = 0;
    trp_status status = TRP_OK;
    if (l->arg_count != k->parameters)
        return trp__error_set(error, TRP_E_ARGUMENT,
                              "arg_count: %.120s has %u parameters, got %u arguments", k->name,
                              k->parameters, l->arg_count);
    for (uint32_t i = 0; i < l->arg_count && i < TRP_KERNEL_ARGS_MAX && status == TRP_OK; i++) {
        uint32_t taken = 0;
        status = set_argument(instance, job, k, i, from + at, l->args_bytes - at, a, &taken, error);
        at += taken;
    }
    return status;
}

/* Sets the attributes of a kernel that a launch needs: large dynamic shared memory, large clusters.
 */
static trp_status allow(trp_instance *instance, const trp__cuda *cu, trp__jit_kernel *k,
                        const trp__jit_launch *l, trp_error *error)
{
    trp_status status = TRP_OK;
    if (l->shared > 48 << 10 && l->shared > k->shared_allowed) {
        status = trp_cuda_check(
            instance,
            cu->cuFuncSetAttribute(
                k->function, TRP__CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)l->shared),
            "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)", error);
        if (status == TRP_OK)
            k->shared_allowed = l->shared;
    }
    if (status == TRP_OK && !k->large_clusters &&
        l->cluster[0] * l->cluster[1] * l->cluster[2] > 8) {
        status = trp_cuda_check(
            instance,
            cu->cuFuncSetAttribute(k->function,
                                   TRP__CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
            "cuFuncSetAttribute(NON_PORTABLE_CLUSTER_SIZE_ALLOWED)", error);
        k->large_clusters = status == TRP_OK;
    }
    return status;
}

/* Finds the request's piece of staging memory in the address space of the host. */
static trp_status find_piece(trp_instance *instance, const trp_job *job, uint32_t bytes, void **out,
                             trp_error *error)
{
    const trp__record *record = ((const trp__job *)job)->record;
    if (record->piece == 0 || record->piece > TRP__SMALL_COUNT || bytes > record->piece_bytes ||
        bytes > trp__small_bytes(record->piece - 1))
        return trp__error_set(error, TRP_E_INTERNAL, "a request without its staging memory");
    return trp__worker_host_address(worker_of(instance), 0, trp__small_offset(record->piece - 1),
                                    bytes, out, error);
}

static trp_status launch(trp_instance *instance, trp_job *job, trp_error *error)
{
    const trp__jit_loader *s = instance->state;
    const trp__jit_launch *l = job->payload;
    trp__jit_loaded *m = NULL;
    trp__jit_kernel *k = NULL;
    void *piece = NULL;
    arguments a;
    trp__cu_launch_attribute attributes[2];
    memset(attributes, 0, sizeof attributes);
    a.addresses = a.maps = 0;
    trp_status status = trp__jit_loader_find(instance->state, job, &l->storage, &m, error);
    if (status == TRP_OK && m)
        status = find_kernel(m, l->name, &k, error);
    if (status != TRP_OK || !k)
        return status;
    if (l->args_bytes > sizeof l->args)
        status = find_piece(instance, job, l->args_bytes, &piece, error);
    if (status == TRP_OK)
        status = set_arguments(instance, job, l, k, piece ? piece : l->args, &a, error);
    if (status == TRP_OK)
        status = allow(instance, s->cu, k, l, error);
    if (status != TRP_OK)
        return status;
    trp__cu_launch_config config = {.gridDimX = l->grid[0],
                                    .gridDimY = l->grid[1],
                                    .gridDimZ = l->grid[2],
                                    .blockDimX = l->block[0],
                                    .blockDimY = l->block[1],
                                    .blockDimZ = l->block[2],
                                    .sharedMemBytes = l->shared,
                                    .hStream = instance->stream,
                                    .attrs = attributes};
    if (l->cooperative) {
        attributes[config.numAttrs].id = TRP__CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attributes[config.numAttrs++].value.cooperative = 1;
    }
    if (l->cluster[0]) {
        trp__cu_launch_attribute *one = &attributes[config.numAttrs++];
        one->id = TRP__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        one->value.cluster.x = l->cluster[0];
        one->value.cluster.y = l->cluster[1];
        one->value.cluster.z = l->cluster[2];
    }
    return trp_cuda_check(instance, s->cu->cuLaunchKernelEx(&config, k->function, a.at, NULL),
                          "cuLaunchKernelEx", error);
}

/* Variables. */

static trp_status set_variable(trp_instance *instance, trp_job *job, trp_error *error)
{
    const trp__jit_loader *s = instance->state;
    const trp__jit_set *r = job->payload;
    trp__jit_loaded *m = NULL;
    trp__jit_source source;
    trp__cu_address address = 0;
    size_t size = 0;
    char name[1024];
    trp_status status = trp__jit_loader_find(instance->state, job, &r->storage, &m, error);
    if (status == TRP_OK)
        status = trp__jit_loader_source(s, &r->storage, 0, &source, error);
    if (status != TRP_OK)
        return status;
    if (r->set >= TRP__MODULE_SETS || job->access_count < 2)
        return trp__error_set(error, TRP_E_INTERNAL, "a set without its data");
    /* The worker can write this memory, so every value is copied and checked before use. */
    trp__storage_set *shared = (trp__storage_set *)(uintptr_t)&source.head->set[r->set];
    const trp_job_access *from = &job->access[job->access_count - 1];
    uint64_t data = shared->data, at = shared->at;
    uint32_t name_bytes = shared->name_bytes;
    if (name_bytes == 0 || name_bytes > sizeof name || data > source.heap_bytes - name_bytes)
        return trp__error_set(error, TRP_E_INTERNAL, "a set without its name");
    memcpy(name, source.heap + data, name_bytes);
    name[name_bytes - 1] = '\0';
    status = trp__jit_variable(instance, s->cu, m, name, &address, &size, error);
    if (status == TRP_OK && (at > size || from->bytes > size - at))
        status = trp__error_set(error, TRP_E_ARGUMENT,
                                "bytes: the variable has %zu, got %llu from offset %llu on", size,
                                (unsigned long long)from->bytes, (unsigned long long)at);
    if (status == TRP_OK)
        status = instance->services->copy(instance, (void *)(uintptr_t)(address + at),
                                          from->address, from->bytes, error);
    if (status == TRP_OK)
        atomic_store(&shared->number, ((trp__job *)job)->record->ticket);
    return status;
}

/* Query. */

static trp_status ask(trp_instance *instance, const trp__jit_kernel *k,
                      trp__cu_function_attribute which, uint32_t *out, trp_error *error)
{
    const trp__jit_loader *s = instance->state;
    int value = 0;
    trp_status status =
        trp_cuda_check(instance, s->cu->cuFuncGetAttribute(&value, which, k->function),
                       "cuFuncGetAttribute", error);
    *out = (uint32_t)value;
    return status;
}

static trp_status ask_all(trp_instance *instance, const trp__jit_query *q, const trp__jit_kernel *k,
                          trp_kernel_info *info, trp_error *error)
{
    const trp__jit_loader *s = instance->state;
    const struct {
        trp__cu_function_attribute which;
        uint32_t *out;
    } rows[] = {
        {TRP__CU_FUNC_ATTRIBUTE_NUM_REGS, &info->registers},
        {TRP__CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &info->shared_bytes},
        {TRP__CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, &info->constant_bytes},
        {TRP__CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &info->local_bytes},
        {TRP__CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &info->threads_max},
        {TRP__CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &info->shared_dynamic_max},
        {TRP__CU_FUNC_ATTRIBUTE_PTX_VERSION, &info->ptx_version},
        {TRP__CU_FUNC_ATTRIBUTE_BINARY_VERSION, &info->binary_version},
    };
    int blocks = 0, grid = 0, block = 0;
    trp_status status = TRP_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == TRP_OK; i++)
        status = ask(instance, k, rows[i].which, rows[i].out, error);
    info->parameters = k->parameters;
    info->parameter_bytes = k->all_bytes;
    if (status == TRP_OK)
        status = trp_cuda_check(
            instance,
            s->cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &blocks, k->function, (int)(q->block ? q->block : info->threads_max), q->shared),
            "cuOccupancyMaxActiveBlocksPerMultiprocessor", error);
    if (status == TRP_OK)
        status = trp_cuda_check(
            instance,
            s->cu->cuOccupancyMaxPotentialBlockSize(&grid, &block, k->function, NULL, q->shared, 0),
            "cuOccupancyMaxPotentialBlockSize", error);
    info->blocks_per_processor = (uint32_t)blocks;
    info->grid_best = (uint32_t)grid;
    info->block_best = (uint32_t)block;
    return status;
}

static trp_status query(trp_instance *instance, trp_job *job, trp_error *error)
{
    const trp__jit_query *q = job->payload;
    trp__jit_loaded *m = NULL;
    trp__jit_kernel *k = NULL;
    trp_kernel_info info = {0};
    void *out = NULL;
    trp_status status = trp__jit_loader_find(instance->state, job, &q->storage, &m, error);
    if (status == TRP_OK && m)
        status = find_kernel(m, q->name, &k, error);
    if (status != TRP_OK || !k)
        return status;
    status = find_piece(instance, job, sizeof info, &out, error);
    if (status == TRP_OK)
        status = ask_all(instance, q, k, &info, error);
    if (status == TRP_OK && out)
        memcpy(out, &info, sizeof info);
    return status;
}

/* Requests. */

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    trp__jit_loaded *m = NULL;
    if (((trp__job *)job)->record->access_count == 0)
        return trp__error_set(error, TRP_E_INTERNAL, "a request without a module");
    switch (job->op) {
    case TRP_OP_KERNEL_LAUNCH:
        return launch(instance, job, error);
    case TRP_OP_MODULE_SET:
        return set_variable(instance, job, error);
    case TRP_OP_KERNEL_QUERY:
        return query(instance, job, error);
    case TRP_OP_JIT_LOAD:
        return trp__jit_loader_find(instance->state, job,
                                    &((const trp__jit_make *)job->payload)->storage, &m, error);
    default:
        return trp__error_set(error, TRP_E_UNSUPPORTED, "operation %#x", job->op);
    }
}

void trp__jit_cuda_expect(trp_instance *instance)
{
    const trp__jit_loader *s = instance->state;
    trp__side_expect(s->side);
}

/* Start and end of an actor, whose state is its loader. */

static trp_status init(trp_instance *instance, trp_error *error)
{
    return trp__jit_loader_start(instance->state, instance, error);
}

static void trim(trp_instance *instance)
{
    trp__jit_loader_trim(instance->state);
}

static void stop(trp_instance *instance)
{
    trp__jit_loader_stop(instance->state);
}

const trp_actor_impl trp__jit_cuda = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(trp__jit_loader),
    .init = init,
    .handle = handle,
    .trim = trim,
    .stop = stop,
};

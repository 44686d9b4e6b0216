/* Modules of the fake driver. It compiles nothing: it reads from PTX text which kernels there are
 * and what parameters they take, and runs those of whose name it knows what they do. */
#include "support/fake_cuda/fake.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What the kernels do. */

enum { NAP_NS = 200000 };

static void run_nop(const uint64_t *parameter)
{
    (void)parameter;
}

static void run_spin(const uint64_t *parameter)
{
    uint64_t begun = (uint64_t)fake_now();
    for (uint64_t gone; (gone = (uint64_t)fake_now() - begun) < parameter[0];) {
        if (fake_interrupted())
            return;
        uint64_t left = parameter[0] - gone;
        nanosleep(&(struct timespec){.tv_nsec = left < NAP_NS ? (long)left : NAP_NS}, NULL);
    }
}

/* A processor of the GPU finds a misaligned address before it looks where it leads. */
static void run_store(const uint64_t *parameter)
{
    fake_pin pin;
    uint64_t value = 57005;
    if (parameter[0] % 8 != 0) {
        fake_fault(FAKE_ERROR_MISALIGNED_ADDRESS);
        return;
    }
    void *at = fake_cuda_reach(&pin, parameter[0], sizeof value, true);
    if (at)
        memcpy(at, &value, sizeof value);
    fake_cuda_let_go(&pin);
}

static void run_trap(const uint64_t *parameter)
{
    (void)parameter;
    fake_fault(FAKE_ERROR_LAUNCH_FAILED);
}

/* A kernel that the tests launch needs a row here. */
static const fake_kernel kernels[] = {
    {"probe_nop", run_nop, 0},     {"bench_nop", run_nop, 0},   {"probe_spin", run_spin, 1},
    {"probe_store", run_store, 1}, {"probe_trap", run_trap, 0},
};

const fake_kernel *fake_kernel_find(const char *name)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    }
    return NULL;
}

/* PTX. */

enum { ENTRIES = 64, NAME_BYTES = 128, PARAMETERS = FAKE_ARGUMENT_BYTES / 8, TARGET = 90 };

typedef struct module module;

typedef struct entry {
    module *module;
    char name[NAME_BYTES];
    size_t parameter_count;
    size_t parameter_bytes[PARAMETERS];
    uintptr_t handle; /* given by cuModuleGetFunction; 0: not yet */
} entry;

struct module {
    size_t count;
    entry entry[ENTRIES];
};

static const char *skip_space(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

static size_t name_length(const char *at)
{
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == '$')
        n++;
    return n;
}

/* The bytes of a scalar type, ".u64"; 0 for anything else. */
static size_t scalar_bytes(const char *type)
{
    if (type[0] != '.' || !strchr("busf", type[1]))
        return 0;
    long bits = strtol(type + 2, NULL, 10);
    return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? (size_t)bits / 8 : 0;
}

/* ".param .u64 name" for each. NULL: something that is not understood. */
static const char *read_parameters(const char *at, entry *e)
{
    at = skip_space(at);
    while (*at && *at != ')') {
        char word[16];
        int length = 0;
        if (strncmp(at, ".param", 6) != 0)
            return NULL;
        at = skip_space(at + 6);
        for (; *at && !isspace((unsigned char)*at) && length < 15; at++)
            word[length++] = *at;
        word[length] = '\0';
        size_t bytes = scalar_bytes(word);
        at = skip_space(at);
        at += name_length(at);
        at = skip_space(at);
        if (bytes == 0 || e->parameter_count == PARAMETERS || (*at != ',' && *at != ')'))
            return NULL;
        e->parameter_bytes[e->parameter_count++] = bytes;
        if (*at == ',')
            at = skip_space(at + 1);
    }
    return *at == ')' ? at + 1 : NULL;
}

static bool read_entry(const char *at, module *m)
{
    entry *e = &m->entry[m->count];
    at = skip_space(at);
    size_t length = name_length(at);
    if (m->count == ENTRIES || length == 0 || length >= NAME_BYTES)
        return false;
    memcpy(e->name, at, length);
    e->module = m;
    at = skip_space(at + length);
    if (*at == '(' && !read_parameters(at + 1, e))
        return false;
    m->count++;
    return true;
}

static int read_ptx(const char *text, module *m)
{
    const char *target = strstr(text, ".target");
    if (strncmp(skip_space(text), ".version", 8) != 0)
        return FAKE_ERROR_INVALID_IMAGE;
    if (!target || !strstr(text, ".address_size 64"))
        return FAKE_ERROR_INVALID_PTX;
    target = skip_space(target + 7);
    if (strncmp(target, "sm_", 3) != 0 || strtol(target + 3, NULL, 10) > TARGET)
        return FAKE_ERROR_NO_BINARY_FOR_GPU;
    for (const char *at = text; (at = strstr(at, ".entry"));) {
        at += 6;
        if (!read_entry(at, m))
            return FAKE_ERROR_INVALID_PTX;
    }
    return FAKE_SUCCESS;
}

/* Calls. */

trp__cu_result cuModuleLoadData(trp__cu_module *out, const void *image)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    module *m = calloc(1, sizeof *m);
    result = !m ? FAKE_ERROR_OUT_OF_MEMORY : image ? read_ptx(image, m) : FAKE_ERROR_INVALID_VALUE;
    uintptr_t handle = result == 0 ? fake_handle_new(FAKE_MODULE, m) : 0;
    if (!handle) {
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

/* Copies the arguments; false: one is missing. */
static bool take_arguments(const entry *e, void **arguments, fake_op *op)
{
    if (e->parameter_count > 0 && !arguments)
        return false;
    for (size_t i = 0; i < e->parameter_count; i++) {
        if (!arguments[i])
            return false;
        memcpy(&op->kernel.parameter[i], arguments[i], e->parameter_bytes[i]);
    }
    return true;
}

trp__cu_result cuLaunchKernel(trp__cu_function function, unsigned int grid_x, unsigned int grid_y,
                              unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                              unsigned int block_z, unsigned int shared_bytes,
                              trp__cu_stream stream, void **arguments, void **extra)
{
    int result = fake_enter(FAKE_NEEDS_CONTEXT);
    if (result)
        return result;
    const entry *e = fake_handle_get(FAKE_FUNCTION, (uintptr_t)function);
    fake_stream *s = fake_stream_get(stream);
    if (!e || !s)
        return fake_leave(FAKE_ERROR_INVALID_HANDLE);
    uint64_t threads = (uint64_t)block_x * block_y * block_z;
    if (grid_x == 0 || grid_y == 0 || grid_z == 0 || threads == 0 || threads > 1024 ||
        shared_bytes > 227 << 10)
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    if (extra)
        return fake_leave(FAKE_ERROR_NOT_SUPPORTED);
    fake_op op = {.kind = FAKE_OP_KERNEL, .kernel = {.kernel = fake_kernel_find(e->name)}};
    /* A kernel that takes other parameters than the one that was rewritten here is another one. */
    if (e->parameter_count != op.kernel.kernel->parameter_count ||
        !take_arguments(e, arguments, &op))
        return fake_leave(FAKE_ERROR_INVALID_VALUE);
    return fake_leave(fake_submit(s, &op));
}

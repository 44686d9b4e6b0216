/* Modules of the fake driver. It compiles nothing: it reads from PTX text, or from a cubin, which
 * kernels there are and what parameters they take, and runs those of whose name it knows what they
 * do. */
#include "support/fake_cuda/cutlass.h"
#include "support/fake_cuda/direct.h"
#include "support/fake_cuda/fake.h"

#include <ctype.h>
#include <elf.h>
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

/* Words of 4 bytes that a kernel reads or writes; NULL: the stream has faulted. */
static void *reach(fake_pin *pin, uint64_t address, uint64_t count, bool write)
{
    return fake_cuda_reach(pin, address, count * 4, write);
}

/* (const float *x, float *y, float a, unsigned n): y[i] += a * x[i] */
static void run_axpy(const uint64_t *parameter)
{
    fake_pin px, py;
    uint64_t n = (uint32_t)parameter[3];
    uint32_t bits = (uint32_t)parameter[2];
    float a;
    memcpy(&a, &bits, sizeof a);
    const float *x = reach(&px, parameter[0], n, false);
    float *y = reach(&py, parameter[1], n, true);
    for (uint64_t i = 0; x && y && i < n; i++)
        y[i] += a * x[i];
    fake_cuda_let_go(&px);
    fake_cuda_let_go(&py);
}

/* (unsigned *out, unsigned value, unsigned n): out[i] = value + i */
static void run_fill(const uint64_t *parameter)
{
    fake_pin pin;
    uint64_t n = (uint32_t)parameter[2];
    uint32_t *out = reach(&pin, parameter[0], n, true);
    for (uint64_t i = 0; out && i < n; i++)
        out[i] = (uint32_t)(parameter[1] + i);
    fake_cuda_let_go(&pin);
}

/* (float *y, const float *x, unsigned n) with a variable float factor: y[i] = factor * x[i] */
static void run_scale(const uint64_t *parameter)
{
    fake_pin px, py, pf;
    uint64_t n = (uint32_t)parameter[2];
    float *y = reach(&py, parameter[0], n, true);
    const float *x = reach(&px, parameter[1], n, false);
    const float *factor = reach(&pf, parameter[3], 1, false);
    for (uint64_t i = 0; x && y && factor && i < n; i++)
        y[i] = *factor * x[i];
    fake_cuda_let_go(&px);
    fake_cuda_let_go(&py);
    fake_cuda_let_go(&pf);
}

/* (unsigned long long *out, struct of 24 bytes): out[0] is the sum of its three words */
static void run_sum(const uint64_t *parameter)
{
    fake_pin pin;
    uint64_t *out = reach(&pin, parameter[0], 2, true);
    if (out)
        *out = parameter[1] + parameter[2] + parameter[3];
    fake_cuda_let_go(&pin);
}

/* (unsigned *out, CUtensorMap map): out[0] is its rank, out[i] the size of axis i - 1 */
static void run_map(const uint64_t *parameter)
{
    fake_pin pin;
    uint32_t *out = reach(&pin, parameter[0], 6, true);
    for (uint32_t i = 0; out && i < 6; i++)
        out[i] = (uint32_t)parameter[2 + i];
    fake_cuda_let_go(&pin);
}

/* A kernel that the tests launch needs a row here. */
static const fake_kernel kernels[] = {
    {"probe_nop", run_nop, 0, NULL},
    {"bench_nop", run_nop, 0, NULL},
    {"probe_spin", run_spin, 1, NULL},
    {"probe_store", run_store, 1, NULL},
    {"probe_trap", run_trap, 0, NULL},
    {"jit_axpy", run_axpy, 4, NULL},
    {"jit_fill", run_fill, 3, NULL},
    {"jit_scale", run_scale, 3, "factor"},
    {"jit_sum", run_sum, 2, NULL},
    {"jit_map", run_map, 2, NULL},
    {"jit_spin", run_spin, 1, NULL},
    {"jit_trap", run_trap, 0, NULL},
    {"warm", run_nop, 1, NULL},
    {"trp_cutlass_build", fake_cutlass_build, 2, FAKE_CUTLASS_KERNEL},
    {"trp_cutlass_prepare", fake_cutlass_prepare, 2, FAKE_CUTLASS_KERNEL},
    {"trp_cutlass_kernel", fake_cutlass_run, 1, FAKE_CUTLASS_KERNEL},
#define DIRECT(name, kind, last, port) {"trp_direct_" #name, fake_direct_##name, 1, NULL},
    FAKE_DIRECT_KERNELS(DIRECT)
#undef DIRECT
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

enum {
    ENTRIES = 64,
    VARIABLES = 16,
    NAME_BYTES = 128,
    PARAMETERS = 32,
    WORDS = 4096 / 8, /* of all parameters of a kernel */
    TARGET = 90,
    SHARED_USUAL = 48 << 10, /* bytes that a kernel may have without having said so */
    SHARED_MOST = 227 << 10,
};

typedef struct module module;

typedef struct entry {
    module *module;
    char name[NAME_BYTES];
    size_t parameter_count;
    size_t parameter_bytes[PARAMETERS];
    uintptr_t handle; /* given by cuModuleGetFunction; 0: not yet */
    unsigned int shared_most;
} entry;

typedef struct variable {
    char name[NAME_BYTES];
    size_t bytes;
    trp__cu_address address;
} variable;

struct module {
    size_t count, variables;
    entry entry[ENTRIES];
    variable variable[VARIABLES];
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

/* A word of PTX: everything up to a blank or one of ",)[;={". */
static size_t ptx_word(const char *at, char *out, size_t size)
{
    size_t n = strcspn(at, " \t\r\n,)[;={");
    size_t kept = n < size - 1 ? n : size - 1;
    memcpy(out, at, kept);
    out[kept] = '\0';
    return n;
}

/* What is declared after .param, .global or .const: ".u64 name", ".u64 .ptr .align 1 name",
 * ".align 4 .b8 name[16]". Returns what comes behind it; its bytes are 0 if it is not understood,
 * `width` those of an element. */
static const char *read_declared(const char *at, char *name, size_t *bytes, size_t *width)
{
    char word[NAME_BYTES] = "";
    size_t count = 1;
    *bytes = *width = 0;
    for (;;) {
        at = skip_space(at);
        size_t n = ptx_word(at, word, sizeof word);
        if (n == 0)
            return at;
        at += n;
        if (word[0] != '.')
            break;
        if (strcmp(word, ".align") == 0) {
            at = skip_space(at);
            at += ptx_word(at, word, sizeof word);
        } else if (scalar_bytes(word) > 0) {
            *width = scalar_bytes(word);
        }
    }
    strcpy(name, word);
    if (*at == '[') {
        count = (size_t)strtoul(at + 1, NULL, 10);
        at = strchr(at, ']') ? strchr(at, ']') + 1 : at;
    }
    *bytes = *width * count;
    return skip_space(at);
}

/* NULL: something that is not understood. */
static const char *read_parameters(const char *at, entry *e)
{
    size_t words = 0;
    at = skip_space(at);
    while (*at && *at != ')') {
        char name[NAME_BYTES];
        size_t bytes, width;
        if (strncmp(at, ".param", 6) != 0)
            return NULL;
        at = read_declared(at + 6, name, &bytes, &width);
        words += (bytes + 7) / 8;
        if (bytes == 0 || words > WORDS || e->parameter_count == PARAMETERS ||
            (*at != ',' && *at != ')'))
            return NULL;
        e->parameter_bytes[e->parameter_count++] = bytes;
        if (*at == ',')
            at = skip_space(at + 1);
    }
    return *at == ')' ? at + 1 : NULL;
}

/* The first values of an array, "= {1, 2}", where they are whole numbers; the rest are zero, and so
 * is what begins with anything else. */
static void read_values(const char *at, const variable *v, size_t width)
{
    size_t here = v->bytes;
    fake_range *range;
    char *end, *out = *at == '=' ? fake_pin_range(v->address, &here, true, &range) : NULL;
    if (!out)
        return;
    at = skip_space(at + 1);
    for (size_t i = 0; (*at == '{' || *at == ',') && i + width <= here; i += width) {
        uint64_t value = strtoull(at + 1, &end, 0);
        if (end == at + 1)
            break;
        memcpy(out + i, &value, width);
        at = skip_space(end);
    }
    fake_unpin_range(range);
}

/* Variables of a module are memory of the device. */
static int read_variables(const char *text, const char *space, module *m)
{
    size_t length = strlen(space);
    for (const char *at = text; (at = strstr(at, space));) {
        size_t bytes, width;
        char name[NAME_BYTES];
        at += length;
        if (!isspace((unsigned char)*at))
            continue; /* ld.global.f32 */
        at = read_declared(at, name, &bytes, &width);
        if (bytes == 0 || m->variables == VARIABLES)
            return FAKE_ERROR_INVALID_PTX;
        variable *v = &m->variable[m->variables];
        strcpy(v->name, name);
        v->bytes = bytes;
        int result = fake_allocate(&v->address, bytes);
        if (result)
            return result;
        m->variables++;
        read_values(at, v, width);
    }
    return FAKE_SUCCESS;
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
    e->shared_most = SHARED_USUAL;
    at = skip_space(at + length);
    if (*at == '(' && !read_parameters(at + 1, e))
        return false;
    m->count++;
    return true;
}

static int read_ptx(const char *text, module *m)
{
    const char *target = strstr(text, ".target");
    const char *first = skip_space(text);
    while (first[0] == '/' && first[1] == '/')
        first = skip_space(first + strcspn(first, "\n"));
    if (strncmp(first, ".version", 8) != 0)
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
    int result = read_variables(text, ".global", m);
    return result ? result : read_variables(text, ".const", m);
}

/* Cubins: an ELF file, in which ".nv.info.NAME" says what parameters a kernel takes. Of what stands
 * there only that is read: the rows {format, attribute, bytes} with a value of so many bytes behind
 * them, and in those for parameters the number and, in the upper bits, the size of one. */

enum { ROW_WITH_BYTES = 4, ROW_PARAMETER = 0x17 };

static bool read_info(const unsigned char *at, size_t bytes, entry *e)
{
    for (size_t used = 0; used + 4 <= bytes;) {
        uint16_t size;
        uint32_t value[3];
        memcpy(&size, at + used + 2, sizeof size);
        bool long_row = at[used] == ROW_WITH_BYTES;
        if (long_row && at[used + 1] == ROW_PARAMETER) {
            if (size != sizeof value || used + 4 + sizeof value > bytes)
                return false;
            memcpy(value, at + used + 4, sizeof value);
            uint32_t number = value[1] & 0xffff;
            if (number >= PARAMETERS)
                return false;
            e->parameter_bytes[number] = value[2] >> 18;
            if (e->parameter_count <= number)
                e->parameter_count = number + 1;
        }
        used += 4 + (long_row ? size : 0u);
    }
    return true;
}

static int read_cubin(const unsigned char *image, module *m)
{
    static const char info[] = ".nv.info.";
    Elf64_Ehdr head;
    Elf64_Shdr section, names;
    memcpy(&head, image, sizeof head);
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof section ||
        head.e_shstrndx >= head.e_shnum)
        return FAKE_ERROR_INVALID_IMAGE;
    memcpy(&names, image + head.e_shoff + head.e_shstrndx * sizeof names, sizeof names);
    for (size_t i = 0; i < head.e_shnum; i++) {
        memcpy(&section, image + head.e_shoff + i * sizeof section, sizeof section);
        const char *name = (const char *)image + names.sh_offset + section.sh_name;
        if (strncmp(name, info, sizeof info - 1) != 0)
            continue;
        entry *e = &m->entry[m->count];
        name += sizeof info - 1;
        if (m->count == ENTRIES || strlen(name) >= NAME_BYTES ||
            !read_info(image + section.sh_offset, section.sh_size, e))
            return FAKE_ERROR_INVALID_IMAGE;
        strcpy(e->name, name);
        e->module = m;
        m->count++;
    }
    return FAKE_SUCCESS;
}

static int read_image(const void *image, module *m)
{
    return memcmp(image, ELFMAG, SELFMAG) == 0 ? read_cubin(image, m) : read_ptx(image, m);
}

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
             : image ? read_image(image, m)
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

/* What every kernel answers, by CUfunction_attribute. */
static const int attributes[] = {1024, 0, 0, 0, 32, TARGET, TARGET, 0, 48 << 10};

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

/* Some of the driver's rules. The map's first word is the address, then rank and sizes. */
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

/* The same; in the second word the rank and 8. */
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

/* Copies the arguments; false: one is missing, or there is no memory. */
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
    }
    fake_op op = {.kind = FAKE_OP_KERNEL, .kernel = {.kernel = fake_kernel_find(e->name)}};
    /* A kernel that takes other parameters than the one that was rewritten here is another one. */
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

/* Images of the fake driver: the kernels, their parameters and the variables of PTX text or of a
 * cubin. */
#include "support/fake_cuda/modules.h"

#include <ctype.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* PTX. */

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

/* Returns the length of a word of PTX, which ends at a blank or one of ",)[;={". */
static size_t ptx_word(const char *at, char *out, size_t size)
{
    size_t n = strcspn(at, " \t\r\n,)[;={");
    size_t kept = n < size - 1 ? n : size - 1;
    memcpy(out, at, kept);
    out[kept] = '\0';
    return n;
}

/* Reads a declaration after .param, .global or .const: ".u64 name", ".u64 .ptr .align 1 name",
 * ".align 4 .b8 name[16]". Returns the text after it. Its bytes are 0 if it is not understood;
 * `width` is that of an element. */
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

/* Reads the parameters of a kernel; NULL: one is not understood. */
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

/* Reads the first values of an array, "= {1, 2}", if they are integers. The rest are zero, and so
 * is any other initialiser. */
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

/* Allocates the variables of a module in device memory. */
static int read_variables(const char *text, const char *space, module *m)
{
    size_t length = strlen(space);
    for (const char *at = text; (at = strstr(at, space));) {
        size_t bytes, width;
        char name[NAME_BYTES];
        at += length;
        if (!isspace((unsigned char)*at))
            continue; /* not a declaration: ld.global.f32 */
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

/* Cubins: an ELF file, whose sections ".nv.info.NAME" describe the parameters of kernels. Only the
 * rows {format, attribute, bytes} that are followed by a value are read, and of these only
 * parameters: their number and, in the upper bits, their size. */

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

int fake_image_read(const void *image, module *m)
{
    return memcmp(image, ELFMAG, SELFMAG) == 0 ? read_cubin(image, m) : read_ptx(image, m);
}

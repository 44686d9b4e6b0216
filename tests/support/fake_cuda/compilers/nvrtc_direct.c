/* Compiles Troupe's own kernels for the fake NVRTC: its "cubin" is PTX that lists the kernels of
 * the texts, which the fake driver finds by name. The fake checks that all included texts are
 * present, and nothing else. */
#include "support/fake_cuda/compilers/nvrtc.h"

#include "actors/cutlass/reference/problem.h"
#include "actors/dnn/reference/node.h"
#include "actors/fft/kernels/problem.h"
#include "matrix/reference/problem.h"
#include "support/fake_cuda/device_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static const char *header_of(const fake_nvrtc_texts *t, const char *name, size_t length)
{
    for (int i = 0; i < t->count; i++) {
        if (strlen(t->name[i]) == length && strncmp(t->name[i], name, length) == 0)
            return t->text[i];
    }
    return NULL;
}

/* Skips the lines before "#else" that a text has for templates only. */
static const char *skip_templates(const char *line)
{
    static const char templates[] = "#if defined __CUDACC__ && !defined TRP_CUTLASS_PLAIN\n";
    const char *other = starts(line, templates) ? strstr(line, "\n#") : NULL;
    while (other && !starts(other, "\n#else") && !starts(other, "\n#endif"))
        other = strstr(other + 1, "\n#");
    return other ? other + 1 : line;
}

/* Returns whether each "#include" at the beginning of a line names a header that is present. */
static bool all_there(const fake_nvrtc_texts *t, const char *text, const char *of, char *log,
                      size_t size)
{
    static const char include[] = "#include ";
    for (const char *line = text; line[0];) {
        line = skip_templates(line);
        const char *name = line + sizeof include; /* after the quotation mark */
        if (starts(line, include) && !header_of(t, name, strcspn(name, "\">"))) {
            snprintf(log, size, "%s: catastrophic error: cannot open source file \"%.*s\"\n", of,
                     (int)strcspn(name, "\">"), name);
            return false;
        }
        line += strcspn(line, "\n");
        line += line[0] == '\n';
    }
    return true;
}

static bool has_option(int count, const char *const *options, const char *option)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(options[i], option) == 0)
            return true;
    }
    return false;
}

static size_t add_entry(const char *name, int length, size_t bytes, char *out, size_t room)
{
    return (size_t)snprintf(out, room,
                            ".visible .entry %.*s(.param .align 8 .b8 d[%zu])\n{\nret;\n}\n",
                            length, name, bytes);
}

/* Adds an entry for each reference kernel in a text; returns the bytes added. */
static size_t add_direct(const char *text, char *out, size_t room)
{
    static const char kernel[] = "\nTRP__KERNEL void ";
    size_t used = 0;
    for (const char *at = text; (at = strstr(at, kernel));) {
        at += sizeof kernel - 1;
        used += add_entry(at, (int)strcspn(at, "("),
                          starts(at, "trp_product_")    ? sizeof(trp__product_launch)
                          : starts(at, "trp_fft_copy(") ? sizeof(trp__fft_copy)
                          : starts(at, "trp_fft_sums(") ? sizeof(trp__fft_sums)
                          : starts(at, "trp_fft_be")    ? sizeof(trp__fft_trig)
                          : starts(at, "trp_cutlass_")  ? sizeof(trp__cutlass_reference)
                                                        : sizeof(trp__direct),
                          out + used, room - used);
    }
    return used;
}

/* Adds an entry for each row of device_kernels.h named `name` or, for a group, `name` and an
 * underscore with more. */
static size_t add_rows(const char *name, size_t length, bool group, char *out, size_t room)
{
    static const struct {
        const char *name;
        size_t bytes;
    } rows[] = {
#define ROW(name, type) {#name, sizeof(type)},
        FAKE_DEVICE_KERNELS(ROW)
#undef ROW
    };
    size_t used = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strncmp(rows[i].name, name, length) == 0 &&
            rows[i].name[length] == (group ? '_' : '\0'))
            used += add_entry(rows[i].name, (int)strlen(rows[i].name), rows[i].bytes, out + used,
                              room - used);
    }
    return used;
}

/* Adds entries for fast kernels, whose parameters differ: groups, entries, and kernels with a body.
 */
static size_t add_fast(const char *text, char *out, size_t room)
{
    static const char group[] = "_KERNELS(trp_", entry[] = "\nTRP__ENTRY(trp_";
    static const char body[] = "\nTRP__GLOBAL(";
    size_t used = 0;
    for (const char *at = text; (at = strstr(at, group));) {
        at += strlen("_KERNELS(");
        used += add_rows(at, strcspn(at, ","), true, out + used, room - used);
    }
    for (const char *at = text; (at = strstr(at, entry));) {
        at += strlen("\nTRP__ENTRY(");
        used += add_rows(at, strcspn(at, ","), false, out + used, room - used);
    }
    for (const char *at = text; (at = strstr(at, body));) {
        at += strcspn(at + 1, ")") + 3;
        used += add_rows(at, strcspn(at, "("), false, out + used, room - used);
    }
    return used;
}

char *fake_nvrtc_direct(const fake_nvrtc_texts *t, int count, const char *const *options, char *log,
                        size_t size)
{
    size_t room = 256;
    bool good = all_there(t, t->source, "the program", log, size);
    for (int i = 0; i < t->count && good; i++) {
        good = all_there(t, t->text[i], t->name[i], log, size);
        room += strlen(t->text[i]) + 4096;
    }
    if (good && !has_option(count, options, "-arch=sm_90") &&
        !has_option(count, options, "-arch=sm_90a")) {
        snprintf(log, size, "fake NVRTC: error: not for sm_90\n");
        good = false;
    }
    char *image = good ? malloc(room) : NULL;
    if (!image)
        return NULL;
    size_t used = (size_t)snprintf(image, room, ".version 9.0\n.target sm_90\n.address_size 64\n");
    for (int i = 0; i < t->count; i++) {
        used += add_direct(t->text[i], image + used, room - used);
        used += add_fast(t->text[i], image + used, room - used);
    }
    return image;
}

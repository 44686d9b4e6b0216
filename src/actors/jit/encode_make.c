/* The sender's side of compile, link and load. */
#include "actors/jit/jit.h"
#include "actors/jit/encode.h"
#include "base/checksum.h"
#include "base/error.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static trp_status check_module_pointer(trp__encoder *encoder, const trp_module *module)
{
    return module ? TRP_OK
                  : trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                   "module: expected a pointer, got NULL");
}

static trp_status check_total(trp__encoder *encoder, uint64_t bytes)
{
    if (bytes <= TRP_JIT_SOURCE_MAX)
        return TRP_OK;
    return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                          "expected at most %llu bytes of texts and images in a request, got %llu",
                          (unsigned long long)TRP_JIT_SOURCE_MAX, (unsigned long long)bytes);
}

/* Options that are refused, since a field of the request replaces them, or since they write files
 * or read files other than headers. An option with a value is recognized by its beginning. */
typedef struct refused_option {
    const char *text;
    bool prefix;
    const char *instead;
} refused_option;

static const refused_option compile_refused[] = {
    {"--gpu-architecture", true, "set `architecture`"},
    {"-arch", true, "set `architecture`"},
    {"--include-path", true, "set `include_paths`"},
    {"-I", true, "set `include_paths`"},
    {"-dlto", false, "set `output` to TRP_JIT_LTOIR or TRP_JIT_CUBIN_LTO"},
    {"--dlink-time-opt", false, "set `output` to TRP_JIT_LTOIR or TRP_JIT_CUBIN_LTO"},
    {"-optix-ir", false, "OptiX-IR is not supported"},
    {"--optix-ir", false, "OptiX-IR is not supported"},
    {"--time", true, "files are not written"},
    {"-time", true, "files are not written"},
    {"--fdevice-time-trace", true, "files are not written"},
    {"-fdevice-time-trace", true, "files are not written"},
    {"--pch", true, "precompiled headers are not used"},
    {"-pch", true, "precompiled headers are not used"},
    {"--create-pch", true, "precompiled headers are not used"},
    {"-create-pch", true, "precompiled headers are not used"},
    {"--use-pch", true, "precompiled headers are not used"},
    {"-use-pch", true, "precompiled headers are not used"},
};

static const refused_option link_refused[] = {
    {"-arch", true, "set `architecture`"},
    {"-lto", false, "set `lto`"},
    {"-ptx", false, "set `output` to TRP_JIT_PTX"},
    {"-time", true, "files are not written"},
};

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static trp_status check_options(trp__encoder *encoder, const trp__jit_strings *options,
                                const refused_option *refused, size_t count)
{
    for (uint32_t i = 0; i < options->count; i++) {
        const char *one = options->item[i];
        /* NVRTC strips blanks, so an option with blanks would pass the comparison below and still
         * take effect. */
        if (is_blank(one[0]) || is_blank(one[strlen(one) - 1]))
            return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                  "options[%u]: expected an option without blanks around it, got "
                                  "\"%.60s\"",
                                  i, one);
        for (size_t k = 0; k < count; k++) {
            size_t length = strlen(refused[k].text);
            if (strncmp(one, refused[k].text, length) == 0 &&
                (refused[k].prefix || one[length] == '\0'))
                return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                      "options[%u]: \"%.60s\" is refused: %s", i, one,
                                      refused[k].instead);
        }
    }
    return TRP_OK;
}

/* Compile. */

typedef struct compile {
    const trp_jit_compile_request *r;
    trp__jit_strings options, includes, names;
    char architecture[32];
    char folder[PATH_MAX]; /* for relative include paths */
    uint64_t bytes;        /* size of the input */
} compile;

static trp_status check_headers(trp__encoder *encoder, compile *c)
{
    const trp_jit_compile_request *r = c->r;
    if (r->header_count > TRP_JIT_OPTIONS_MAX)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "headers: expected at most %d, got %u", TRP_JIT_OPTIONS_MAX,
                              r->header_count);
    if (r->header_count > 0 && !r->headers)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "headers: expected a pointer to %u, got NULL", r->header_count);
    for (uint32_t i = 0; i < r->header_count; i++) {
        const trp_jit_header *h = &r->headers[i];
        if (!h->name || !h->name[0] || !h->text)
            return trp__error_set(
                encoder->error, TRP_E_ARGUMENT, "headers[%u].%s: expected a text, got %s", i,
                h->text ? "name" : "text", h->text && h->name ? "an empty one" : "NULL");
        c->bytes += trp__jit_blob_bytes(strlen(h->name) + 1);
        c->bytes += trp__jit_blob_bytes(strlen(h->text) + 1);
    }
    return TRP_OK;
}

static trp_status check_includes(trp__encoder *encoder, compile *c)
{
    uint32_t relative = 0;
    trp_status status = trp__jit_check_strings(encoder, &c->includes, &c->bytes);
    for (uint32_t i = 0; i < c->includes.count && status == TRP_OK; i++)
        relative += c->includes.item[i][0] != '/';
    if (status != TRP_OK || relative == 0)
        return status;
    if (!getcwd(c->folder, sizeof c->folder))
        return trp__error_set(encoder->error, TRP_E_SYSTEM,
                              "include_paths: a relative path needs the current folder: %s",
                              strerror(errno));
    c->bytes += relative * trp__jit_padded(strlen(c->folder) + 1);
    return TRP_OK;
}

static trp_status check_compile(trp__encoder *encoder, compile *c)
{
    const trp_jit_compile_request *r = c->r;
    trp_status status = check_module_pointer(encoder, r->module);
    if (status == TRP_OK && (!r->source || !r->source[0]))
        status = trp__error_set(encoder->error, TRP_E_ARGUMENT, "source: expected a text, got %s",
                                r->source ? "an empty one" : "NULL");
    if (status == TRP_OK && (uint32_t)r->output > TRP_JIT_CUBIN_LTO)
        status = trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                "output: expected a trp_jit_output, got %d", (int)r->output);
    if (status == TRP_OK)
        status = trp__jit_architecture(encoder, r->architecture,
                                       r->output == TRP_JIT_PTX || r->output == TRP_JIT_LTOIR,
                                       c->architecture);
    c->bytes = sizeof(trp__jit_compile_head);
    if (status == TRP_OK)
        status = trp__jit_check_strings(encoder, &c->options, &c->bytes);
    if (status == TRP_OK)
        status = check_options(encoder, &c->options, compile_refused,
                               sizeof compile_refused / sizeof *compile_refused);
    if (status == TRP_OK)
        status = trp__jit_check_strings(encoder, &c->names, &c->bytes);
    if (status == TRP_OK)
        status = check_includes(encoder, c);
    if (status == TRP_OK)
        status = check_headers(encoder, c);
    if (status != TRP_OK)
        return status;
    c->bytes += trp__jit_blob_bytes(strlen(r->source) + 1);
    c->bytes += trp__jit_blob_bytes(strlen(r->name ? r->name : "kernel.cu") + 1);
    c->bytes += trp__jit_blob_bytes(strlen(c->architecture) + 1);
    return check_total(encoder, c->bytes);
}

static const char *include_path(const compile *c, const char *path, char whole[2 * PATH_MAX])
{
    if (path[0] == '/')
        return path;
    snprintf(whole, 2 * PATH_MAX, "%s/%s", c->folder, path);
    return whole;
}

static char *put_include(char *at, const compile *c, const char *path)
{
    char whole[2 * PATH_MAX];
    return trp__jit_put_string(at, include_path(c, path, whole));
}

static void put_compile(const compile *c, char *at)
{
    const trp_jit_compile_request *r = c->r;
    const trp__jit_compile_head head = {.options = c->options.count,
                                        .includes = c->includes.count,
                                        .headers = r->header_count,
                                        .names = c->names.count,
                                        .output = (uint32_t)r->output,
                                        .portable = r->portable};
    memcpy(at, &head, sizeof head);
    at = trp__jit_put_string(at + sizeof head, r->source);
    at = trp__jit_put_string(at, r->name ? r->name : "kernel.cu");
    at = trp__jit_put_string(at, c->architecture);
    at = trp__jit_put_strings(at, &c->options);
    for (uint32_t i = 0; i < c->includes.count; i++)
        at = put_include(at, c, c->includes.item[i]);
    for (uint32_t i = 0; i < r->header_count; i++) {
        at = trp__jit_put_string(at, r->headers[i].name);
        at = trp__jit_put_string(at, r->headers[i].text);
    }
    trp__jit_put_strings(at, &c->names);
}

/* Comparison of a request with the input of an earlier one. */

typedef struct comparing {
    const char *at;
    bool same;
} comparing;

static void compare(comparing *c, const char *text)
{
    uint64_t bytes = 0;
    if (!c->same)
        return;
    memcpy(&bytes, c->at, sizeof bytes);
    size_t length = strlen(text) + 1;
    c->same = bytes == length && memcmp(c->at + 8, text, length) == 0;
    c->at += trp__jit_blob_bytes(bytes);
}

static void compare_all(comparing *c, const trp__jit_strings *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        compare(c, list->item[i]);
}

/* Compares in the order of put_compile(). The input was written by it and has the size of this
 * request's input, so its blobs end within it. */
static bool is_same_compile(const void *request, const char *input)
{
    const compile *c = request;
    const trp_jit_compile_request *r = c->r;
    char whole[2 * PATH_MAX];
    trp__jit_compile_head head;
    memcpy(&head, input, sizeof head);
    comparing x = {.at = input + sizeof head,
                   .same = head.options == c->options.count && head.includes == c->includes.count &&
                           head.headers == r->header_count && head.names == c->names.count &&
                           head.output == (uint32_t)r->output && head.portable == r->portable};
    compare(&x, r->source);
    compare(&x, r->name ? r->name : "kernel.cu");
    compare(&x, c->architecture);
    compare_all(&x, &c->options);
    for (uint32_t i = 0; i < c->includes.count; i++)
        compare(&x, include_path(c, c->includes.item[i], whole));
    for (uint32_t i = 0; i < r->header_count; i++) {
        compare(&x, r->headers[i].name);
        compare(&x, r->headers[i].text);
    }
    compare_all(&x, &c->names);
    return x.same;
}

/* Computes a checksum of the parts in which requests differ most. Requests with the same checksum
 * are compared in full. */
static uint64_t sum_of(const compile *c)
{
    const trp_jit_compile_request *r = c->r;
    uint64_t part[5] = {c->bytes, trp__checksum(r->source, strlen(r->source)),
                        trp__checksum(c->architecture, strlen(c->architecture)),
                        (uint64_t)r->output};
    for (uint32_t i = 0; i < c->names.count; i++)
        part[4] = part[4] * 31 + trp__checksum(c->names.item[i], strlen(c->names.item[i]));
    for (uint32_t i = 0; i < c->options.count; i++)
        part[4] = part[4] * 31 + trp__checksum(c->options.item[i], strlen(c->options.item[i]));
    return trp__checksum(part, sizeof part);
}

static trp_status set_payload(trp__encoder *encoder, const trp__module_layout *layout, bool is_made)
{
    const trp__jit_make make = {.storage = layout->storage, .is_made = is_made};
    memcpy(encoder->record->payload, &make, sizeof make);
    return TRP_OK;
}

trp_status trp__jit_encode_compile(trp__encoder *encoder, const trp_request *request)
{
    const trp_jit_compile_request *r = (const trp_jit_compile_request *)request;
    trp__module_layout layout;
    bool found = false;
    trp__module_spec spec;
    compile c = {.r = r,
                 .options = {"options", r->options, r->option_count},
                 .includes = {"include_paths", r->include_paths, r->include_count},
                 .names = {"names", r->names, r->name_count}};
    trp_status status = check_compile(encoder, &c);
    if (status != TRP_OK)
        return status;
    spec = (trp__module_spec){
        .input_bytes = c.bytes,
        .output_kind = (uint32_t)(r->output == TRP_JIT_CUBIN_LTO ? TRP_JIT_CUBIN : r->output),
        .name_count = r->name_count,
        .names = r->names,
        .sum = sum_of(&c),
        .is_same = is_same_compile,
        .request = &c};
    status = trp__jit_output_room(encoder, r->output_bytes_max, &spec.output_bytes);
    if (status == TRP_OK)
        status = trp__module_make_again(encoder, &spec, r->module, &layout, &found);
    if (status != TRP_OK || found)
        return status == TRP_OK ? set_payload(encoder, &layout, true) : status;
    status = trp__module_make(encoder, &spec, r->module, &layout);
    if (status != TRP_OK)
        return status;
    put_compile(&c, layout.input);
    trp__module_keep(&spec, &layout);
    return set_payload(encoder, &layout, false);
}

/* Checks names of an image, of which the worker gets one in each line. */
static trp_status check_names(trp__encoder *encoder, const trp__jit_strings *names, uint64_t *bytes)
{
    trp_status status = trp__jit_check_strings(encoder, names, bytes);
    for (uint32_t i = 0; i < names->count && status == TRP_OK; i++) {
        if (strchr(names->item[i], '\n'))
            status = trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                    "names[%u]: expected a name, got one with a line end", i);
    }
    return status;
}

/* Load. */

/* Returns whether the bytes look like an image: a cubin is an ELF file, a fatbin begins with its
 * magic, PTX is text. */
static bool is_image(const unsigned char *image, uint64_t bytes)
{
    static const unsigned char elf[4] = {0x7f, 'E', 'L', 'F'};
    static const unsigned char fatbin[4] = {0x50, 0xed, 0x55, 0xba};
    if (bytes < 16)
        return false;
    if (memcmp(image, elf, 4) == 0 || memcmp(image, fatbin, 4) == 0)
        return true;
    for (uint64_t i = 0; i < bytes; i++) {
        if (image[i] == '\0')
            return i == bytes - 1;
    }
    return true;
}

static void put_loaded(const trp__module_layout *layout, const trp_jit_load_request *r)
{
    trp__storage_output head = {.magic = TRP__STORAGE_OUTPUT, .names = r->name_count};
    char *first = layout->output + sizeof head, *at = first;
    for (uint32_t i = 0; i < r->name_count; i++) {
        const char *name = r->names[i][0] == '&' ? r->names[i] + 1 : r->names[i];
        size_t length = strlen(name);
        memcpy(at, name, length);
        at[length] = '\n';
        at += length + 1;
    }
    head.names_bytes = (uint64_t)(at - first);
    head.image_bytes = r->bytes + 1; /* PTX must end with a zero; the other kinds ignore it */
    memcpy(at, r->image, r->bytes);
    at[r->bytes] = '\0';
    if (((const char *)r->image)[r->bytes - 1] == '\0')
        head.image_bytes--;
    head.checksum = trp__checksum(first, head.names_bytes + head.image_bytes);
    memcpy(layout->output, &head, sizeof head);
}

trp_status trp__jit_encode_load(trp__encoder *encoder, const trp_request *request)
{
    const trp_jit_load_request *r = (const trp_jit_load_request *)request;
    const trp__jit_strings names = {"names", r->names, r->name_count};
    trp__module_layout layout;
    uint64_t bytes = 0;
    trp_status status = trp__jit_need_gpu(encoder, "loading an image");
    if (status == TRP_OK)
        status = check_module_pointer(encoder, r->module);
    if (status == TRP_OK && (!r->image || r->bytes == 0))
        status = trp__error_set(encoder->error, TRP_E_ARGUMENT, "%s",
                                r->image ? "bytes: expected the size of an image, got 0"
                                         : "image: expected a pointer, got NULL");
    if (status == TRP_OK)
        status = check_total(encoder, r->bytes);
    if (status == TRP_OK && !is_image(r->image, r->bytes))
        status = trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                "image: expected a cubin, a fatbin or PTX, got %llu bytes of "
                                "something else",
                                (unsigned long long)r->bytes);
    if (status == TRP_OK)
        status = check_names(encoder, &names, &bytes);
    if (status != TRP_OK)
        return status;
    const trp__module_spec spec = {.output_bytes =
                                       sizeof(trp__storage_output) + bytes + r->bytes + 1,
                                   .name_count = r->name_count,
                                   .names = r->names};
    status = trp__module_make(encoder, &spec, r->module, &layout);
    if (status != TRP_OK)
        return status;
    put_loaded(&layout, r);
    return set_payload(encoder, &layout, false);
}

/* Link. */

typedef struct linking {
    const trp_jit_link_request *r;
    trp__jit_strings options, names;
    char architecture[32];
    trp__module_layout module[TRP_JIT_LINK_MODULES_MAX];
    uint32_t modules;
    uint64_t bytes;
} linking;

static trp_status check_input(trp__encoder *encoder, linking *l, uint32_t i)
{
    const trp_jit_input *in = &l->r->inputs[i];
    if ((in->module.id != 0) == (in->data != NULL))
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "inputs[%u]: expected a module or data, got %s", i,
                              in->data ? "both" : "neither");
    if (in->data && in->bytes == 0)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "inputs[%u].bytes: expected at least 1, got 0", i);
    if ((uint32_t)in->kind > TRP_JIT_INPUT_LIBRARY)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "inputs[%u].kind: expected a trp_jit_input_kind, got %d", i,
                              (int)in->kind);
    l->bytes += trp__jit_blob_bytes(sizeof(trp__jit_link_input));
    l->bytes += trp__jit_blob_bytes(strlen(in->name ? in->name : "input 00") + 1);
    if (in->data) {
        l->bytes += trp__jit_blob_bytes(in->bytes + 1);
        return check_total(encoder, in->bytes) == TRP_OK ? check_total(encoder, l->bytes)
                                                         : TRP_E_ARGUMENT;
    }
    l->bytes += trp__jit_blob_bytes(0);
    if (++l->modules > TRP_JIT_LINK_MODULES_MAX)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "inputs: expected at most %d modules among them",
                              TRP_JIT_LINK_MODULES_MAX);
    return TRP_OK;
}

static trp_status check_link(trp__encoder *encoder, linking *l)
{
    const trp_jit_link_request *r = l->r;
    trp_status status = check_module_pointer(encoder, r->module);
    if (status == TRP_OK && (r->input_count == 0 || r->input_count > TRP_JIT_LINK_INPUTS_MAX))
        status =
            trp__error_set(encoder->error, TRP_E_ARGUMENT, "input_count: expected 1 to %d, got %u",
                           TRP_JIT_LINK_INPUTS_MAX, r->input_count);
    if (status == TRP_OK && !r->inputs)
        status =
            trp__error_set(encoder->error, TRP_E_ARGUMENT, "inputs: expected a pointer, got NULL");
    if (status == TRP_OK && (uint32_t)r->output > TRP_JIT_PTX)
        status =
            trp__error_set(encoder->error, TRP_E_ARGUMENT,
                           "output: expected TRP_JIT_CUBIN or TRP_JIT_PTX, got %d", (int)r->output);
    if (status == TRP_OK && r->output == TRP_JIT_PTX && !r->lto)
        status = trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                "output: TRP_JIT_PTX needs LTO-IR and `lto`");
    if (status == TRP_OK)
        status = trp__jit_architecture(encoder, r->architecture, false, l->architecture);
    l->bytes = sizeof(trp__jit_link_head) + trp__jit_blob_bytes(strlen(l->architecture) + 1);
    if (status == TRP_OK)
        status = trp__jit_check_strings(encoder, &l->options, &l->bytes);
    if (status == TRP_OK)
        status = check_options(encoder, &l->options, link_refused,
                               sizeof link_refused / sizeof *link_refused);
    if (status == TRP_OK)
        status = check_names(encoder, &l->names, &l->bytes);
    for (uint32_t i = 0; i < r->input_count && status == TRP_OK; i++)
        status = check_input(encoder, l, i);
    return status;
}

/* Finds the modules among the inputs, and adds their accesses. */
static trp_status use_modules(trp__encoder *encoder, linking *l)
{
    trp_status status = TRP_OK;
    uint32_t m = 0;
    for (uint32_t i = 0; i < l->r->input_count && status == TRP_OK; i++) {
        char name[32];
        if (l->r->inputs[i].data)
            continue;
        snprintf(name, sizeof name, "inputs[%u].module", i);
        status = trp__module_use(encoder, name, l->r->inputs[i].module, TRP__READ, &l->module[m]);
        for (uint32_t k = 0; status == TRP_OK && k < l->module[m].name_count; k++)
            l->bytes += trp__jit_blob_bytes(strlen(l->module[m].names[k]) + 1);
        m++;
    }
    return status == TRP_OK ? check_total(encoder, l->bytes) : status;
}

static void put_link(const linking *l, char *at)
{
    const trp_jit_link_request *r = l->r;
    const trp__jit_link_head head = {.options = l->options.count,
                                     .names = l->names.count,
                                     .inputs = r->input_count,
                                     .output = (uint32_t)r->output,
                                     .lto = r->lto};
    uint32_t m = 0;
    memcpy(at, &head, sizeof head);
    at = trp__jit_put_string(at + sizeof head, l->architecture);
    at = trp__jit_put_strings(at, &l->options);
    at = trp__jit_put_strings(at, &l->names);
    for (uint32_t i = 0; i < r->input_count; i++) {
        const trp_jit_input *in = &r->inputs[i];
        trp__jit_link_input entry = {.kind = (uint32_t)in->kind};
        char name[24];
        const trp__module_layout *layout = in->data ? NULL : &l->module[m++];
        if (layout) {
            entry.module = 1;
            entry.storage = layout->storage;
            entry.names = layout->name_count;
        }
        snprintf(name, sizeof name, "input %u", i);
        at = trp__jit_put(at, &entry, sizeof entry);
        at = trp__jit_put_string(at, in->name ? in->name : name);
        at = trp__jit_put(at, in->data, layout ? 0 : in->bytes);
        for (uint32_t k = 0; layout && k < layout->name_count; k++)
            at = trp__jit_put_string(at, layout->names[k]);
    }
}

trp_status trp__jit_encode_link(trp__encoder *encoder, const trp_request *request)
{
    const trp_jit_link_request *r = (const trp_jit_link_request *)request;
    trp__module_layout layout;
    trp__module_spec spec;
    linking l = {.r = r,
                 .options = {"options", r->options, r->option_count},
                 .names = {"names", r->names, r->name_count}};
    trp_status status = check_link(encoder, &l);
    if (status == TRP_OK)
        status = use_modules(encoder, &l);
    if (status != TRP_OK)
        return status;
    spec = (trp__module_spec){.input_bytes = l.bytes,
                              .output_kind = (uint32_t)r->output,
                              .name_count = r->name_count,
                              .names = r->names};
    status = trp__jit_output_room(encoder, r->output_bytes_max, &spec.output_bytes);
    if (status == TRP_OK)
        status = trp__module_make(encoder, &spec, r->module, &layout);
    if (status != TRP_OK)
        return status;
    put_link(&l, layout.input);
    return set_payload(encoder, &layout, false);
}

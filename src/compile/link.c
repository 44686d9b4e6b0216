/* Links several inputs, or one compile alone, in a side thread of the worker. */
#include "base/error.h"
#include "base/text.h"
#include "compile/blobs.h"
#include "compile/input.h"
#include "compile/lines.h"
#include "compile/make.h"
#include "libs/nvjitlink/nvjitlink.h"
#include "compile/modules/storage.h"

#include <troupe/jit.h>

static trp_status no_memory(trp_error *error)
{
    return trp__error_set(error, TRP_E_MEMORY, "no memory for a link");
}

typedef struct linking {
    trp__jit_link_head head;
    const char *architecture;
    const char *options[TRP_JIT_OPTIONS_MAX], *names[TRP_JIT_OPTIONS_MAX];
    const char *lowered[TRP_JIT_OPTIONS_MAX]; /* not terminated: pointers into lines */
    size_t lowered_bytes[TRP_JIT_OPTIONS_MAX];
} linking;

static int input_type(uint32_t kind, const char *data, uint64_t bytes)
{
    if (kind != TRP_JIT_INPUT_ANY)
        return (int)kind; /* the same values as nvJitLink's */
    if (bytes >= 4 && memcmp(data,
                             "\x7f"
                             "ELF",
                             4) == 0)
        return TRP__NVJITLINK_INPUT_CUBIN;
    if (bytes >= 4 && memcmp(data, "\x50\xed\x55\xba", 4) == 0)
        return TRP__NVJITLINK_INPUT_FATBIN;
    return bytes >= 2 && (unsigned char)data[0] == 0xed && (unsigned char)data[1] == 'C'
               ? TRP__NVJITLINK_INPUT_LTOIR
           : memmem(data, bytes, ".version", 8) ? TRP__NVJITLINK_INPUT_PTX
                                                : TRP__NVJITLINK_INPUT_LTOIR;
}

static trp_status link_failed(trp__nvjitlink_result result, const char *call, const char *log,
                              trp_error *error)
{
    char what[96], message[sizeof error->message];
    snprintf(what, sizeof what, "nvJitLink's error %d, in %s", result, call);
    trp__jit_error_lines(log, what, message, sizeof message);
    return trp__error_set_code(error, TRP_E_LIBRARY, "nvjitlink", result, "%s", message);
}

static void read_link_log(const trp__nvjitlink *jl, trp__nvjitlink_handle handle,
                          trp__jit_made *made)
{
    size_t errors = 0, infos = 0;
    jl->nvJitLinkGetErrorLogSize(handle, &errors);
    jl->nvJitLinkGetInfoLogSize(handle, &infos);
    made->log = calloc(1, errors + infos + 3);
    if (!made->log)
        return;
    if (errors > 0)
        jl->nvJitLinkGetErrorLog(handle, made->log);
    size_t length = strlen(made->log);
    if (length > 0)
        made->log[length++] = '\n';
    if (infos > 0)
        jl->nvJitLinkGetInfoLog(handle, made->log + length);
    made->log_bytes = strlen(made->log);
}

/* Takes the lowered names of a module's expressions where the link names them too. */
static void take_names(linking *l, trp__jit_blobs *b, uint32_t count, const trp__jit_image *image)
{
    const char *line = image->names, *end = image->names + image->names_bytes;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = trp__jit_blob_text(b);
        const char *stop = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
        for (uint32_t k = 0; name && stop && k < l->head.names; k++) {
            if (strcmp(l->names[k], name) == 0) {
                l->lowered[k] = line;
                l->lowered_bytes[k] = (size_t)(stop - line);
            }
        }
        if (stop)
            line = stop + 1;
    }
}

static trp_status add_inputs(const trp__nvjitlink *jl, trp__nvjitlink_handle handle, linking *l,
                             trp__jit_blobs *b, const trp__jit_image *images, uint32_t count,
                             trp_error *error)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < l->head.inputs; i++) {
        trp__jit_link_input entry = {0};
        uint64_t size, bytes;
        const char *head = trp__jit_blob(b, &size);
        const char *name = trp__jit_blob_text(b);
        const char *data = trp__jit_blob(b, &bytes);
        if (b->bad || size != sizeof entry)
            return trp__jit_blobs_damaged(error);
        memcpy(&entry, head, sizeof entry);
        if (entry.module) {
            if (used == count)
                return trp__jit_blobs_damaged(error);
            data = images[used].data;
            bytes = images[used].bytes;
            take_names(l, b, entry.names, &images[used++]);
        }
        trp__nvjitlink_result result =
            jl->nvJitLinkAddData(handle, input_type(entry.kind, data, bytes), data, bytes, name);
        if (result != TRP__NVJITLINK_SUCCESS)
            return trp__error_set_code(error, TRP_E_LIBRARY, "nvjitlink", result,
                                       "inputs[%u] (%.60s): nvJitLink's error %d, in "
                                       "nvJitLinkAddData",
                                       i, name, result);
    }
    return b->bad ? trp__jit_blobs_damaged(error) : TRP_OK;
}

static trp_status set_link_names(const linking *l, trp__jit_made *made, trp_error *error)
{
    trp__jit_lines all = {0};
    for (uint32_t i = 0; i < l->head.names; i++) {
        const char *plain = l->names[i][0] == '&' ? l->names[i] + 1 : l->names[i];
        char *lowered = l->lowered[i] ? strndup(l->lowered[i], l->lowered_bytes[i]) : NULL;
        all.no_memory = all.no_memory || (l->lowered[i] && !lowered);
        trp__jit_add_line(&all, lowered ? lowered : plain, "");
        free(lowered);
    }
    made->names = all.text;
    made->names_bytes = all.bytes;
    made->name_count = l->head.names;
    return all.no_memory ? no_memory(error) : TRP_OK;
}

static trp_status read_linked(const trp__nvjitlink *jl, trp__nvjitlink_handle handle, bool ptx,
                              trp__jit_made *made, trp_error *error)
{
    trp__nvjitlink_result result =
        ptx ? jl->nvJitLinkGetLinkedPtxSize(handle, &made->image_bytes)
            : jl->nvJitLinkGetLinkedCubinSize(handle, &made->image_bytes);
    if (result != TRP__NVJITLINK_SUCCESS || made->image_bytes == 0)
        return link_failed(result, "nvJitLinkGetLinkedCubinSize", NULL, error);
    made->image = malloc(made->image_bytes);
    if (!made->image) {
        made->image_bytes = 0;
        return no_memory(error);
    }
    result = ptx ? jl->nvJitLinkGetLinkedPtx(handle, made->image)
                 : jl->nvJitLinkGetLinkedCubin(handle, made->image);
    return result == TRP__NVJITLINK_SUCCESS
               ? TRP_OK
               : link_failed(result, "nvJitLinkGetLinkedCubin", NULL, error);
}

static trp_status read_link(linking *l, trp__jit_blobs *b, trp_error *error)
{
    const void *head = trp__jit_blobs_head(b, sizeof l->head);
    if (head)
        memcpy(&l->head, head, sizeof l->head);
    if (b->bad || l->head.options > TRP_JIT_OPTIONS_MAX || l->head.names > TRP_JIT_OPTIONS_MAX ||
        l->head.inputs > TRP_JIT_LINK_INPUTS_MAX)
        return trp__jit_blobs_damaged(error);
    l->architecture = trp__jit_blob_text(b);
    trp__jit_blob_texts(b, l->options, l->head.options);
    trp__jit_blob_texts(b, l->names, l->head.names);
    return b->bad ? trp__jit_blobs_damaged(error) : TRP_OK;
}

static trp_status run_link(const trp__nvjitlink *jl, linking *l, trp__jit_blobs *b,
                           const trp__jit_image *images, uint32_t count, trp__jit_made *made,
                           trp_error *error)
{
    const char *options[TRP_JIT_OPTIONS_MAX + 4];
    trp__nvjitlink_handle handle = NULL;
    char architecture[64];
    uint32_t n = 0;
    bool ptx = l->head.output == TRP_JIT_PTX;
    snprintf(architecture, sizeof architecture, "-arch=%.31s", l->architecture);
    options[n++] = architecture;
    if (l->head.lto)
        options[n++] = "-lto";
    if (ptx)
        options[n++] = "-ptx";
    for (uint32_t i = 0; i < l->head.options; i++)
        options[n++] = l->options[i];
    trp__nvjitlink_result result = jl->nvJitLinkCreate(&handle, n, options);
    if (result != TRP__NVJITLINK_SUCCESS) {
        if (handle) {
            read_link_log(jl, handle, made);
            jl->nvJitLinkDestroy(&handle);
        }
        return link_failed(result, "nvJitLinkCreate: an option or the architecture", made->log,
                           error);
    }
    trp_status status = add_inputs(jl, handle, l, b, images, count, error);
    bool refused = status == TRP_E_LIBRARY;
    if (status == TRP_OK) {
        result = jl->nvJitLinkComplete(handle);
        read_link_log(jl, handle, made);
        if (result != TRP__NVJITLINK_SUCCESS)
            status = link_failed(result, "nvJitLinkComplete", made->log, error);
    } else if (refused) {
        read_link_log(jl, handle, made);
    }
    if (status == TRP_OK)
        status = read_linked(jl, handle, ptx, made, error);
    if (status == TRP_OK)
        status = set_link_names(l, made, error);
    jl->nvJitLinkDestroy(&handle);
    return status;
}

trp_status trp__jit_link(const char *input, uint64_t bytes, const trp__jit_image *images,
                         uint32_t count, trp__jit_made *made, trp_error *error)
{
    const trp__nvjitlink *jl;
    trp__jit_blobs b = trp__jit_blobs_begin(input, bytes);
    linking *l = calloc(1, sizeof *l);
    if (!l)
        return no_memory(error);
    trp_status status = read_link(l, &b, error);
    if (status == TRP_OK)
        status = trp__nvjitlink_load(&jl, error);
    if (status == TRP_OK)
        status = run_link(jl, l, &b, images, count, made, error);
    free(l);
    return status;
}

/* One compile alone. */

/* Lists the lowered names of kernels or variables (expressions that begin with an ampersand) behind
 * "-kernels-used=" or "-variables-used="; empty if there is none. */
static trp_status list_used(const char *const *expressions, uint32_t count, const char *lowered,
                            bool variables, char **out, trp_error *error)
{
    size_t size = strlen(lowered) + 32, used = 0;
    char *text = malloc(size);
    if (!text)
        return no_memory(error);
    text[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        size_t length = strcspn(lowered, "\n");
        if ((expressions[i][0] == '&') == variables)
            used += (size_t)snprintf(text + used, size - used, "%s%.*s",
                                     used        ? ","
                                     : variables ? "-variables-used="
                                                 : "-kernels-used=",
                                     (int)length, lowered);
        lowered += length + (lowered[length] == '\n');
    }
    *out = text;
    return TRP_OK;
}

/* Encodes the input of such a link as a sender would. */
static char *put_alone(const char *architecture, const trp__jit_strings *options,
                       const trp__jit_made *made, uint64_t *bytes)
{
    static const char name[] = "kernel";
    const trp__jit_link_head head = {
        .options = options->count, .inputs = 1, .output = TRP_JIT_CUBIN, .lto = 1};
    const trp__jit_link_input entry = {.kind = TRP_JIT_INPUT_LTOIR};
    *bytes = sizeof head + trp__jit_blob_bytes(strlen(architecture) + 1) +
             trp__jit_blob_bytes(sizeof entry) + trp__jit_blob_bytes(sizeof name) +
             trp__jit_blob_bytes(made->image_bytes);
    for (uint32_t i = 0; i < options->count; i++)
        *bytes += trp__jit_blob_bytes(strlen(options->item[i]) + 1);
    char *input = calloc(1, *bytes);
    if (!input)
        return NULL;
    memcpy(input, &head, sizeof head);
    char *at = trp__jit_put_string(input + sizeof head, architecture);
    at = trp__jit_put_strings(at, options);
    at = trp__jit_put(at, &entry, sizeof entry);
    at = trp__jit_put_string(at, name);
    trp__jit_put(at, made->image, made->image_bytes);
    return input;
}

/* Replaces the compiled image by the linked one, and joins both logs. */
static trp_status take_linked(trp__jit_made *made, trp__jit_made *linked, trp_error *error)
{
    char *log = malloc(made->log_bytes + linked->log_bytes + 2);
    if (!log)
        return no_memory(error);
    size_t bytes = (size_t)snprintf(log, made->log_bytes + linked->log_bytes + 2, "%s%s%s",
                                    made->log ? made->log : "", made->log_bytes > 0 ? "\n" : "",
                                    linked->log ? linked->log : "");
    free(made->log);
    made->log = log;
    made->log_bytes = bytes;
    free(made->image);
    made->image = linked->image;
    made->image_bytes = linked->image_bytes;
    linked->image = NULL;
    return TRP_OK;
}

trp_status trp__jit_link_alone(const char *architecture, const char *const *expressions,
                               uint32_t count, trp__jit_made *made, trp_error *error)
{
    char *used[2] = {NULL, NULL};
    const char *options[2];
    trp__jit_strings list = {"options", options, 0};
    trp__jit_made linked = {0};
    uint64_t bytes;
    char *input = NULL;
    const char *names = made->names ? made->names : "";
    trp_status status = list_used(expressions, count, names, false, &used[0], error);
    if (status == TRP_OK)
        status = list_used(expressions, count, names, true, &used[1], error);
    for (int i = 0; i < 2 && status == TRP_OK; i++) {
        if (used[i] && used[i][0])
            options[list.count++] = used[i];
    }
    if (status == TRP_OK) {
        input = put_alone(architecture, &list, made, &bytes);
        status = input ? trp__jit_link(input, bytes, NULL, 0, &linked, error) : no_memory(error);
    }
    if (linked.log || status == TRP_OK) {
        trp_error ignored;
        trp_status taken = take_linked(made, &linked, status == TRP_OK ? error : &ignored);
        status = status == TRP_OK ? taken : status;
    }
    trp__jit_made_free(&linked);
    free(input);
    free(used[0]);
    free(used[1]);
    return status;
}

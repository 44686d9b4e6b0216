/* The sender's side of the jit actor: functions shared by its requests. */
#include "actors/jit/encode.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

trp_status trp__jit_need_gpu(trp__encoder *encoder, const char *what)
{
    if (encoder->backend != TRP_BACKEND_HOST)
        return TRP_OK;
    return trp__error_set(encoder->error, TRP_E_UNSUPPORTED,
                          "%s needs a GPU: on the host, the jit actor only compiles and links",
                          what);
}

trp_status trp__jit_check_strings(trp__encoder *encoder, const trp__jit_strings *list,
                                  uint64_t *bytes)
{
    if (list->count > TRP_JIT_OPTIONS_MAX)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT, "%s: expected at most %d, got %u",
                              list->what, TRP_JIT_OPTIONS_MAX, list->count);
    if (list->count > 0 && !list->item)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "%s: expected a pointer to %u, got NULL", list->what, list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        if (!list->item[i] || !list->item[i][0])
            return trp__error_set(encoder->error, TRP_E_ARGUMENT, "%s[%u]: expected a text, got %s",
                                  list->what, i, list->item[i] ? "an empty one" : "NULL");
        *bytes += trp__jit_blob_bytes(strlen(list->item[i]) + 1);
    }
    return TRP_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool trp__jit_is_architecture(const char *text, bool virtual_too)
{
    size_t digits = 0;
    if (strncmp(text, "sm_", 3) == 0)
        text += 3;
    else if (virtual_too && strncmp(text, "compute_", 8) == 0)
        text += 8;
    else
        return false;
    while (is_digit(text[digits]))
        digits++;
    text += digits;
    if (*text == 'a' || *text == 'f')
        text++;
    return (digits == 2 || digits == 3) && *text == '\0';
}

trp_status trp__jit_architecture(trp__encoder *encoder, const char *requested, bool virtual_too,
                                 char *out)
{
    bool suffix = requested && (strcmp(requested, "a") == 0 || strcmp(requested, "f") == 0);
    if (!requested || suffix) {
        if (encoder->compute == 0)
            return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                  "architecture: expected one such as \"sm_90\", got %s, which the "
                                  "host can't complete",
                                  requested ? requested : "NULL");
        snprintf(out, 32, "sm_%u%s", encoder->compute, suffix ? requested : "");
        return TRP_OK;
    }
    if (!trp__jit_is_architecture(requested, virtual_too))
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "architecture: expected one such as \"sm_90\", \"sm_90a\"%s, got "
                              "\"%.40s\"",
                              virtual_too ? " or \"compute_90\"" : "", requested);
    snprintf(out, 32, "%s", requested);
    return TRP_OK;
}

trp_status trp__jit_output_room(trp__encoder *encoder, uint64_t requested, uint64_t *bytes)
{
    *bytes = requested ? requested : TRP__OUTPUT_DEFAULT;
    if (*bytes < sizeof(trp__storage_output))
        *bytes = sizeof(trp__storage_output);
    if (*bytes <= TRP__OUTPUT_MAX)
        return TRP_OK;
    return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                          "output_bytes_max: expected at most %llu, got %llu",
                          (unsigned long long)TRP__OUTPUT_MAX, (unsigned long long)requested);
}

trp_status trp__jit_find_kernel(trp__encoder *encoder, const trp__module_layout *layout,
                                const char *kernel, uint32_t *name)
{
    if (layout->storage.output_kind == TRP_JIT_LTOIR)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "module: it is LTO-IR, which can't be launched; link it first");
    for (uint32_t i = 0; i < layout->name_count; i++) {
        const char *one = layout->names[i];
        if (one[0] != '&' && (!kernel || strcmp(kernel, one) == 0)) {
            *name = i;
            return TRP_OK;
        }
    }
    if (layout->name_count == 0)
        return trp__error_set(
            encoder->error, TRP_E_ARGUMENT,
            "kernel: the module was made without names, so it has none to launch");
    return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                          "kernel: expected one of the module's %u names (the first is \"%.60s\"), "
                          "got \"%.60s\"",
                          layout->name_count, layout->names[0], kernel ? kernel : "NULL");
}

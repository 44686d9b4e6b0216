#include "actors/cutlass/plan/compile.h"

#include "actors/cutlass/plan/headers.h"
#include "actors/cutlass/wire/run.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

/* Twice: how long it is, and what it is. */
static trp_status render(const trp__cutlass_row *row, const trp__cutlass_problem *p, char **out,
                         trp_error *error)
{
    trp__text text = {0};
    trp_status status = trp__cutlass_row_render(row, p, &text, error);
    if (status != TRP_OK)
        return status;
    size_t size = text.length + 1;
    char *room = malloc(size);
    if (!room)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for the text of a kernel");
    text = (trp__text){.out = room, .size = size};
    status = trp__cutlass_row_render(row, p, &text, error);
    *out = room;
    return status;
}

/* With NDEBUG no path is in what is made, and nothing is computed from one: so it is the same
 * wherever the headers lie. */
trp_status trp__cutlass_compile_begin(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                      trp__cutlass_compile *out, trp_error *error)
{
    static const char *const names[] = {"trp_cutlass_kernel", "trp_cutlass_build",
                                        "&trp_cutlass_info", "trp_cutlass_prepare"};
    static const char *const options[] = {"-std=c++17", "--device-as-default-execution-space",
                                          "-DNDEBUG", "-w", "--device-int128"};
    trp_jit_compile_request *r = &out->request;
    *out = (trp__cutlass_compile){.request = {.name = out->name,
                                              .names = names,
                                              .name_count = row->operation == TRP__CUTLASS_GROUPED
                                                                ? TRP__CUTLASS_NAMES_MOST
                                                                : TRP__CUTLASS_NAMES,
                                              .options = options,
                                              .option_count = sizeof options / sizeof *options,
                                              .architecture = out->architecture,
                                              .output = TRP_JIT_CUBIN_LTO,
                                              .portable = true}};
    r->header.op = TRP_OP_JIT_COMPILE;
    r->header.size = (uint32_t)sizeof *r;
    snprintf(out->name, sizeof out->name, "%.55s.cu", row->name);
    trp__cutlass_row_architecture(row, p, out->architecture);
    trp_status status = trp__cutlass_folders(&r->include_paths, &r->include_count, error);
    if (status == TRP_OK)
        status = render(row, p, &out->source, error);
    r->source = out->source;
    return status;
}

void trp__cutlass_compile_end(trp__cutlass_compile *x)
{
    free(x->source);
    x->source = NULL;
}

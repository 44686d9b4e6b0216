/* troupe kernels: compiles Troupe's own kernels into a pack, for machines without a compiler and to
 * save the first compile. */
#include "commands/commands.h"
#include "ui/options.h"
#include "ui/ui.h"

#include "actors/cutlass/reference/launch.h"
#include "actors/dnn/kernels/launch/modules.h"
#include "actors/fft/kernels/launch.h"
#include "actors/matmul/proofs.h"
#include "actors/random/kernels/launch.h"
#include "cache/pack.h"

#include <stdio.h>
#include <string.h>

enum { TARGETS_MAX = 16, TARGET_BYTES = 16 };

typedef struct packing {
    const char *architectures, *output;
    bool quiet;
    char target[TARGETS_MAX][TARGET_BYTES]; /* "sm_90" */
    size_t targets;
} packing;

/* Parses "80,90" into "sm_80" and "sm_90". False: another form. */
static bool read_targets(packing *p)
{
    for (const char *at = p->architectures; *at;) {
        const size_t length = strcspn(at, ",");
        if (p->targets == TARGETS_MAX || length == 0 || length > 4 ||
            strspn(at, "0123456789") < length)
            return false;
        snprintf(p->target[p->targets++], TARGET_BYTES, "sm_%.*s", (int)length, at);
        at += length;
        at += *at == ',';
    }
    return p->targets > 0;
}

static trp_status add_one(const packing *p, size_t t, const trp__own_program *program,
                          trp__cache_pack_writer *writer, trp_error *error)
{
    const uint64_t began = ui_now();
    size_t bytes = 0;
    ui_progress("%s for %s", program->name, p->target[t]);
    const trp_status status = trp__own_image_pack(writer, p->target[t], program, &bytes, error);
    ui_step(status == TRP_OK ? UI_GOOD : UI_BAD, p->target[t], ui_now() - began, "%s: %s",
            program->name, status == TRP_OK ? ui_bytes(bytes).s : error->message);
    return status;
}

static trp_status add_all(const packing *p, trp__cache_pack_writer *writer, trp_error *error)
{
    trp_status status = TRP_OK;
    for (size_t t = 0; t < p->targets && status == TRP_OK; t++) {
        for (int m = 0; m < TRP__KERNEL_MODULE_COUNT && status == TRP_OK; m++) {
            const trp__own_program program = trp__kernels_program((trp__kernel_module)m);
            status = add_one(p, t, &program, writer, error);
        }
        if (status == TRP_OK)
            status = add_one(p, t, &trp__matmul_reference_program, writer, error);
        if (status == TRP_OK)
            status = add_one(p, t, &trp__cutlass_reference_program, writer, error);
        if (status == TRP_OK)
            status = add_one(p, t, &trp__fft_program, writer, error);
        if (status == TRP_OK)
            status = add_one(p, t, &trp__random_program, writer, error);
    }
    return status;
}

int command_kernels(int argc, char **argv)
{
    packing p = {.architectures = "80,86,89,90,100,120"};
    const option options[] = {
        {0, "arch", "LIST", "compute capabilities, as 80,90 (default 80,86,89,90,100,120)",
         OPTION_TEXT, &p.architectures, NULL},
        {'o', "output", "PACK", "the file to write", OPTION_TEXT, &p.output, NULL},
        {'q', "quiet", NULL, "print nothing but errors", OPTION_FLAG, &p.quiet, NULL},
    };
    const struct command command = {
        .name = "kernels",
        .operands = "-o PACK",
        .about =
            "Compiles Troupe's own kernels for GPUs into a pack. It needs NVRTC, and no "
            "GPU.\n"
            "As share/troupe/kernels.trpk beside the library, or named in TROUPE_CACHE_PACKS,\n"
            "the pack is used by every process: no request waits for these compiles.\n",
        OPTIONS_OF(options)};
    trp__cache_pack_writer *writer = NULL;
    trp_error error = {0};
    int status;
    if (!options_parse(&command, argc, argv, &status))
        return status;
    if (!p.output)
        return options_reject(&command, "--output: expected a file");
    if (!read_targets(&p))
        return options_reject(&command, "--arch: expected numbers with commas between, got '%s'",
                              p.architectures);
    ui_set_quiet(p.quiet);
    trp_status result = trp__cache_pack_begin(p.output, &writer, &error);
    if (result == TRP_OK) {
        result = add_all(&p, writer, &error);
        if (result == TRP_OK)
            result = trp__cache_pack_finish(writer, &error);
        else
            trp__cache_pack_abandon(writer);
    }
    if (result != TRP_OK)
        ui_error("%s (%s)", error.message, trp_status_name(result));
    return result == TRP_OK ? EXIT_DONE : EXIT_FAILED;
}

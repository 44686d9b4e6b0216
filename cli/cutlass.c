/* troupe cutlass gemm: its options. */
#include "cutlass.h"

#include "commands.h"
#include "ui.h"

#include <stdio.h>
#include <string.h>

#define INPUT_TYPES "f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8"
static const char *const input_types[] = {INPUT_TYPES, NULL};
static const char *const result_types[] = {INPUT_TYPES, "i32", NULL};
static const char *const fp8_types[] = {"f8e4m3", "f8e5m2", NULL};

static trp_dtype type_of(const char *const *names, int choice)
{
    int type = TRP_F64;
    while (choice >= 0 && strcmp(trp_dtype_name((trp_dtype)type), names[choice]) != 0)
        type++;
    return choice < 0 ? TRP_DTYPE_NONE : (trp_dtype)type;
}

static bool read_options(cutlass *job, int argc, char **argv, int *exit_status)
{
    const char *out = NULL, *text = "acc";
    char error[512];
    int type = -1, type_b = -1, type_d = -1;
    const option options[] = {
        {'o', "output", "D.npy", "the file to write; may be one of the inputs", OPTION_TEXT, &out,
         NULL},
        {'e', "epilogue", "TEXT",
         "what becomes of the sums: 'relu(alpha*acc + bias[row]) * scale[col]' (default acc)",
         OPTION_TEXT, &text, NULL},
        {'w', "with", "NAME=FILE|NUMBER",
         "what a name of the epilogue stands for; of what it stores, the file to write",
         OPTION_TEXTS, &job->with, NULL},
        RUN_DEVICE_OPTIONS(job->choice),
        {0, "type", "f64|f32|f16|bf16|f8e4m3|f8e5m2|i8",
         "what A and B are rounded to and multiplied as (default: as they are)", OPTION_CHOICE,
         &type, input_types},
        {0, "type-b", "f8e4m3|f8e5m2", "the type of B, if another fp8 than A's", OPTION_CHOICE,
         &type_b, fp8_types},
        {0, "type-d", "f64|f32|f16|bf16|f8e4m3|f8e5m2|i8|i32",
         "the type of the result (default: A's, of fp8 bf16, of i8 i32 or f32)", OPTION_CHOICE,
         &type_d, result_types},
        {0, "tf32", NULL, "allow f32 inputs to be rounded to 3 digits", OPTION_FLAG, &job->tf32,
         NULL},
        {'q', "quiet", NULL, "print errors only", OPTION_FLAG, &job->quiet, NULL},
    };
    const struct command command = {
        .name = "cutlass gemm",
        .operands = "A.npy B.npy -o D.npy",
        .about = "Multiplies two matrices in NumPy files and does with the sums what a text says,\n"
                 "in one pass; writes the result in C order. On the host backend so far.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .operand_count = 2,
    };
    if (!options_parse(&command, argc, argv, exit_status))
        return false;
    *exit_status = EXIT_USAGE;
    job->type = type_of(input_types, type);
    job->type_b = type_of(fp8_types, type_b);
    job->type_d = type_of(result_types, type_d);
    if (!out) {
        options_reject(&command, "expected -o D.npy, the file to write");
        return false;
    }
    if (!epilogue_parse(text, &job->tree, error, sizeof error)) {
        ui_error("--epilogue: %s", error);
        return false;
    }
    job->operand[CUTLASS_A] =
        (operand){.use = OPERAND_INPUT, .option = "A", .path = argv[1], .fd = -1};
    job->operand[CUTLASS_B] =
        (operand){.use = OPERAND_INPUT, .option = "B", .path = argv[2], .fd = -1};
    job->operand[CUTLASS_D] =
        (operand){.use = OPERAND_OUTPUT, .option = "the result", .path = out, .fd = -1};
    job->count = CUTLASS_NAMED;
    if (run_choice_resolve(&command, &job->choice))
        *exit_status = EXIT_DONE;
    return *exit_status == EXIT_DONE;
}

static int gemm(int argc, char **argv)
{
    static cutlass job; /* large */
    int exit_status;
    job = (cutlass){.choice = RUN_CHOICE_INIT};
    if (!read_options(&job, argc, argv, &exit_status))
        return exit_status;
    ui_set_quiet(job.quiet);
    bool ok = cutlass_plan(&job) && cutlass_run(&job);
    cutlass_close(&job);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

int command_cutlass(int argc, char **argv)
{
    static const struct command self = {.name = "cutlass"};
    if (argc >= 2 && !strcmp(argv[1], "gemm"))
        return gemm(argc - 1, argv + 1);
    if (argc >= 2 && !strcmp(argv[1], "kernels"))
        return cutlass_kernels(argc - 1, argv + 1);
    if (argc < 2 || (strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0))
        return options_reject(&self, argc < 2 ? "expected a subcommand" : "unknown subcommand '%s'",
                              argv[1]);
    printf("usage: troupe cutlass SUBCOMMAND [options]\n\n"
           "Matrix products with an epilogue of one's own.\n\nsubcommands:\n"
           "  gemm      multiply two matrices in NumPy files\n"
           "  kernels   the kernels that products on a GPU can have\n"
           "\n'troupe help cutlass SUBCOMMAND' shows its options, as does --help after it.\n");
    return EXIT_DONE;
}

/* troupe cutlass: its subcommands and their options. */
#include "cutlass.h"

#include "commands/commands.h"
#include "ui/ui.h"

#include <stdio.h>
#include <string.h>

#define INPUT_TYPES "f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8"
static const char *const input_types[] = {INPUT_TYPES, NULL};
static const char *const result_types[] = {INPUT_TYPES, "i32", NULL};
static const char *const types_of_b[] = {"f8e4m3", "f8e5m2", "i8", "i4", NULL};

/* A subcommand and the options that it alone has. */
typedef struct usage {
    const cutlass_kind *kind;
    const char *name, *about;
    bool (*read)(cutlass *job); /* NULL: nothing more to read */
    const option *own;
    size_t own_count;
    const char *needs; /* reported if *needed is NULL */
    const char *const *needed;
} usage;

static const char *const tunes[] = {"off", "quick", "full", NULL};

enum { COMMON_OPTIONS = 13, OWN_OPTIONS = 12 };

typedef struct texts {
    const char *out, *epilogue;
    int type, type_b, type_d;
} texts;

static size_t list_options(cutlass *job, texts *t, const usage *u, option *out)
{
    const option common[COMMON_OPTIONS] = {
        {'o', "output", "D.npy", "the file to write; may be one of the inputs", OPTION_TEXT,
         &t->out, NULL},
        {'e', "epilogue", "TEXT",
         "the result from the sums: 'relu(alpha*acc + bias[row]) * scale[col]' (default acc)",
         OPTION_TEXT, &t->epilogue, NULL},
        {'w', "with", "NAME=FILE|NUMBER",
         "the file or number of a name in the epilogue; the file to write for one that it stores",
         OPTION_TEXTS, &job->with, NULL},
        RUN_DEVICE_OPTIONS(job->choice),
        {0, "type", "f64|f32|f16|bf16|f8e4m3|f8e5m2|i8",
         "type that A and B are rounded to and multiplied in (default: as they are)", OPTION_CHOICE,
         &t->type, input_types},
        {0, "type-b", "f8e4m3|f8e5m2|i8|i4",
         "the type of B: another fp8 than A's, or weights of 8 or 4 bits where A is f16 or bf16",
         OPTION_CHOICE, &t->type_b, types_of_b},
        {0, "type-d", "f64|f32|f16|bf16|f8e4m3|f8e5m2|i8|i32",
         "the type of the result (default: A's, of fp8 bf16, of i8 i32 or f32)", OPTION_CHOICE,
         &t->type_d, result_types},
        {0, "tf32", NULL, "allow f32 inputs to be rounded to 3 digits", OPTION_FLAG, &job->tf32,
         NULL},
        {'c', "check", NULL, "compute it on the host too, and compare: of a GPU's result",
         OPTION_FLAG, &job->check, NULL},
        {0, "kernel", "NAME", "on a GPU, one of `troupe cutlass kernels` (default: the best)",
         OPTION_TEXT, &job->kernel, NULL},
        {0, "tune", "off|quick|full", "on a GPU, search for the fastest kernel (default off)",
         OPTION_CHOICE, &job->tune, tunes},
        {'q', "quiet", NULL, "print errors only", OPTION_FLAG, &job->quiet, NULL},
    };
    memcpy(out, common, sizeof common);
    if (u->own_count > 0)
        memcpy(out + COMMON_OPTIONS, u->own, u->own_count * sizeof *u->own);
    return COMMON_OPTIONS + u->own_count;
}

static bool read_options(cutlass *job, const usage *u, int argc, char **argv, int *exit_status)
{
    texts t = {.epilogue = "acc", .type = -1, .type_b = -1, .type_d = -1};
    option options[COMMON_OPTIONS + OWN_OPTIONS];
    char error[512];
    const struct command command = {
        .name = u->name,
        .operands = "A.npy B.npy -o D.npy",
        .about = u->about,
        .options = options,
        .option_count = list_options(job, &t, u, options),
        .operand_count = 2,
    };
    if (!options_parse(&command, argc, argv, exit_status))
        return false;
    *exit_status = EXIT_USAGE;
    job->type = operand_chosen_type(input_types, t.type);
    job->type_b = operand_chosen_type(types_of_b, t.type_b);
    job->type_d = operand_chosen_type(result_types, t.type_d);
    if (!t.out || (u->needed && !*u->needed)) {
        options_reject(&command, "expected %s", t.out ? u->needs : "-o D.npy, the file to write");
        return false;
    }
    if (job->kernel && !cutlass_kernel_known(job->kernel)) {
        options_reject(&command, "--kernel: no kernel is called '%s'%s", job->kernel,
                       cutlass_kernel_hint(job->kernel).s);
        return false;
    }
    if (!epilogue_parse(t.epilogue, &job->tree, error, sizeof error)) {
        ui_error("--epilogue: %s", error);
        return false;
    }
    if (u->read && !u->read(job))
        return false;
    job->operand[CUTLASS_A] = (operand){.use = OPERAND_INPUT, .option = "A", .path = argv[1]};
    job->operand[CUTLASS_B] = (operand){.use = OPERAND_INPUT, .option = "B", .path = argv[2]};
    job->operand[CUTLASS_D] =
        (operand){.use = OPERAND_OUTPUT, .option = "the result", .path = t.out};
    job->count = CUTLASS_NAMED;
    if (run_choice_resolve(&command, &job->choice))
        *exit_status = EXIT_DONE;
    return *exit_status == EXIT_DONE;
}

/* Runs the command that "gemm --list ..." and the like stand for: true, and it has run. argv[0] and
 * the option are overwritten by its name. */
static bool stand_in(int argc, char **argv, bool explains, int *exit_status)
{
    static char kernels[] = "kernels", suite[] = "cutlass", bench[] = "bench";
    const char *what = argc >= 2 ? argv[1] : "";
    if (!strcmp(what, "--list")) {
        argv[1] = kernels;
        *exit_status = cutlass_kernels(argc - 1, argv + 1);
    } else if (!strcmp(what, "--explain") && explains) {
        argv[0] = kernels;
        *exit_status = cutlass_kernels(argc, argv);
    } else if (!strcmp(what, "--bench")) {
        argv[0] = bench;
        argv[1] = suite;
        *exit_status = command_bench(argc, argv);
    } else {
        return false;
    }
    return true;
}

static cutlass job; /* large */

static int work(const usage *u, int argc, char **argv)
{
    int exit_status;
    if (stand_in(argc, argv, u->kind == &cutlass_gemm, &exit_status))
        return exit_status;
    job.kind = u->kind;
    job.choice = (run_choice)RUN_CHOICE_INIT;
    job.tune = -1;
    bool ok = read_options(&job, u, argc, argv, &exit_status);
    ui_set_quiet(job.quiet);
    if (ok && !(cutlass_plan(&job) && cutlass_run(&job)))
        exit_status = EXIT_FAILED;
    cutlass_close(&job);
    return exit_status;
}

static int gemm(int argc, char **argv)
{
    const usage u = {
        .kind = &cutlass_gemm,
        .name = "cutlass gemm",
        .about =
            "Multiplies two matrices in NumPy files and applies an epilogue in text to the sums,\n"
            "in one pass; writes the result in C order. With --list, --explain or --bench as\n"
            "its first word it is `troupe cutlass kernels`, that with --explain, or\n"
            "`troupe bench cutlass`.",
    };
    return work(&u, argc, argv);
}

static int grouped(int argc, char **argv)
{
    static const char *const along[] = {"m", "n", "k", NULL};
    const option own[] = {
        {'s', "sizes", "N,N,...", "how many lines each group has", OPTION_TEXT, &job.sizes, NULL},
        {0, "along", "m|n|k",
         "the dimension cut into groups: the rows of A (default), the columns of B, or the sums",
         OPTION_CHOICE, &job.along, along},
    };
    const usage u = {
        .kind = &cutlass_grouped,
        .name = "cutlass grouped",
        .about =
            "Multiplies each group of rows of A with a matrix of its own; these lie on top of "
            "each\n"
            "other in B. With --along n: groups of columns of B, and A on top of each other; with\n"
            "--along k: groups of columns of A and rows of B, and the results on top of each "
            "other.\n"
            "In the epilogue x[row] and x[col] are one vector, or a row for each group in a "
            "matrix;\n"
            "along what is cut one vector for all groups.",
        .read = cutlass_read_sizes,
        .own = own,
        .own_count = sizeof own / sizeof *own,
        .needs = "--sizes N,N,..., the lines of each group",
        .needed = &job.sizes,
    };
    return work(&u, argc, argv);
}

static int conv(int argc, char **argv)
{
    static const char *const operations[] = {"fprop", "dgrad", "wgrad", NULL};
    const option own[] = {
        {0, "operation", "fprop|dgrad|wgrad",
         "the convolution (default), or its gradient by the activation or by the filter",
         OPTION_CHOICE, &job.operation, operations},
        {'i', "input", "N,H,W", "how many images, and their sizes: one to three", OPTION_TEXT,
         &job.input, NULL},
        {'f', "filter", "R,S", "the sizes of the filter", OPTION_TEXT, &job.filter, NULL},
        {0, "pad", "P,P", "zeros around each image; one number is for all sizes (default 0)",
         OPTION_TEXT, &job.pad, NULL},
        {0, "pad-after", "P,P", "behind each image (default: as --pad)", OPTION_TEXT,
         &job.pad_after, NULL},
        {0, "stride", "N,N", "pixels from one output to the next (default 1)", OPTION_TEXT,
         &job.stride, NULL},
        {0, "dilation", "N,N", "pixels from one of the filter to the next (default 1)", OPTION_TEXT,
         &job.dilation, NULL},
        {0, "groups", "N", "groups of channels (default 1)", OPTION_NUMBER, &job.conv_groups, NULL},
        {0, "flip", NULL, "turn the filter around: a convolution in the strict sense", OPTION_FLAG,
         &job.flip, NULL},
    };
    const usage u = {
        .kind = &cutlass_conv,
        .name = "cutlass conv",
        .about =
            "Convolves arrays in NumPy files, in one to three dimensions. Files are matrices:\n"
            "activations and outputs have a row for each pixel of each image and a column for "
            "each\n"
            "channel; filters have a row for each filter, and in it the channels of each pixel.\n"
            "A is the activation (dgrad, wgrad: the gradient of the output), B the filter (wgrad: "
            "the\n"
            "activation). Rows and columns of the epilogue are those of the result.",
        .read = cutlass_read_conv,
        .own = own,
        .own_count = sizeof own / sizeof *own,
        .needs = "--input N,H,W, images and their sizes",
        .needed = &job.input,
    };
    return work(&u, argc, argv);
}

const command_entry cutlass_commands[] = {
    {"gemm", "multiply two matrices in NumPy files", gemm, NULL, NULL},
    {"grouped", "multiply groups of rows, each with a matrix of its own", grouped, NULL, NULL},
    {"conv", "convolve, or compute the gradients of that", conv, NULL, NULL},
    {"kernels", "the kernels that products on a GPU can have", cutlass_kernels, NULL, NULL},
    {"pack", "compile kernels ahead, into a file that programs find them in", cutlass_pack, NULL,
     NULL},
    {0},
};

/* troupe matmul: a product of npy files, with what cuBLASLt does around it; its options. */
#include "matmul.h"

#include "commands.h"
#include "ui/ui.h"

#include <string.h>

/* Choices of the option tables: types, and values in the order of these enumerations: */
#define INPUT_TYPES "f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "c64", "c128"
static const char *const input_types[] = {INPUT_TYPES, NULL};
static const char *const fp8_types[] = {"f8e4m3", "f8e5m2", NULL};
static const char *const result_types[] = {INPUT_TYPES, "i32", NULL};
static const char *const trans_names[] = {"n", "t", "c", NULL}; /* trp_transpose */
static const char *const compute_names[] = {"default", "tf32", "pedantic", "emulated",
                                            NULL};                      /* trp_compute */
static const char *const tune_names[] = {"off", "quick", "full", NULL}; /* trp_tune */
static const char *const activation_names[] = {"none", "relu",  "gelu", /* trp_activation */
                                               "silu", "drelu", "dgelu", NULL};
static const char *const gradient_names[] = {"", "d", "a", "b", NULL}; /* trp_bias_gradient */

/* Options before they are checked together. */
typedef struct given {
    const char *out, *add, *bias, *aux, *gradient, *scale_a, *scale_b, *scale_d;
    int type, type_b, type_d, trans_a, trans_b, activation, tune, compute;
    bool tf32;
} given;

static void set_file(matmul *job, int which, const char *name, const char *path, operand_use use)
{
    if (path)
        job->operand[which] = (operand){.use = use, .option = name, .path = path};
}

/* Sets a scale factor: "0.5", or the name of a file. */
static void set_scale(matmul *job, int which, const char *name, const char *text)
{
    double number;
    if (text && options_real(text, &number))
        operand_set_number(&job->operand[which], OPERAND_INPUT, name, number);
    else
        set_file(job, which, name, text, OPERAND_INPUT);
}

/* Sets the gradient: "a=FILE". */
static void set_gradient(matmul *job, const char *text)
{
    for (int i = TRP_BIAS_GRADIENT_D; text && gradient_names[i]; i++) {
        if (text[0] == gradient_names[i][0] && text[1] == '=' && text[2]) {
            job->gradient_of = (trp_bias_gradient)i;
            set_file(job, MATMUL_GRADIENT, "--gradient", text + 2, OPERAND_OUTPUT);
        }
    }
}

static bool same_file(const matmul *job, int a, int b)
{
    const operand *x = &job->operand[a], *y = &job->operand[b];
    return x->use == OPERAND_OUTPUT && y->use == OPERAND_OUTPUT && x->path && y->path &&
           !strcmp(x->path, y->path);
}

/* Checks that the option table can't express. */
static int check_together(const struct command *command, const matmul *job, const given *g)
{
    bool wants_aux = g->activation == TRP_ACTIVATION_DRELU || g->activation == TRP_ACTIVATION_DGELU;
    bool has_aux =
        wants_aux || g->activation == TRP_ACTIVATION_RELU || g->activation == TRP_ACTIVATION_GELU;
    double ignored;
    if (!g->out)
        return options_reject(command, "expected -o C.npy, the file to write");
    if (g->tf32 && g->compute != TRP_COMPUTE_DEFAULT && g->compute != TRP_COMPUTE_TF32)
        return options_reject(command, "--tf32 and --compute %s contradict each other",
                              compute_names[g->compute]);
    if (g->aux && !has_aux)
        return options_reject(command, "--aux: expected --activation relu, gelu, drelu or dgelu");
    if (!g->aux && wants_aux)
        return options_reject(command, "--activation %s: expected --aux FILE, which it reads",
                              activation_names[g->activation]);
    if (job->beta.given && !g->add)
        return options_reject(command, "--beta: expected --add FILE, which it multiplies");
    if (!job->beta.given && g->add)
        return options_reject(command, "--add: expected --beta, its factor");
    if (g->gradient && job->gradient_of == TRP_BIAS_GRADIENT_NONE)
        return options_reject(command, "--gradient: expected d=FILE, a=FILE or b=FILE, got '%s'",
                              g->gradient);
    if (g->scale_d && !options_real(g->scale_d, &ignored))
        return options_reject(command, "--scale-d: expected a number, got '%s'", g->scale_d);
    if (same_file(job, MATMUL_D, MATMUL_AUX) || same_file(job, MATMUL_D, MATMUL_GRADIENT) ||
        same_file(job, MATMUL_AUX, MATMUL_GRADIENT))
        return options_reject(command, "--output, --aux and --gradient: expected different files");
    return EXIT_DONE;
}

static void settle(matmul *job, const given *g, char **files)
{
    bool reads_aux = g->activation == TRP_ACTIVATION_DRELU || g->activation == TRP_ACTIVATION_DGELU;
    job->type = operand_chosen_type(input_types, g->type);
    job->type_b = operand_chosen_type(fp8_types, g->type_b);
    job->type_d = operand_chosen_type(result_types, g->type_d);
    job->trans_a = (trp_transpose)g->trans_a;
    job->trans_b = (trp_transpose)g->trans_b;
    job->activation = (trp_activation)g->activation;
    job->tune = (trp_tune)g->tune;
    job->compute = g->tf32 ? TRP_COMPUTE_TF32 : g->compute;
    set_file(job, MATMUL_A, "A", files[0], OPERAND_INPUT);
    set_file(job, MATMUL_B, "B", files[1], OPERAND_INPUT);
    set_file(job, MATMUL_D, "the result", g->out, OPERAND_OUTPUT);
    set_file(job, MATMUL_C, "--add", g->add, OPERAND_INPUT);
    set_file(job, MATMUL_BIAS, "--bias", g->bias, OPERAND_INPUT);
    set_file(job, MATMUL_AUX, "--aux", g->aux, reads_aux ? OPERAND_INPUT : OPERAND_OUTPUT);
    set_scale(job, MATMUL_SCALE_A, "--scale-a", g->scale_a);
    set_scale(job, MATMUL_SCALE_B, "--scale-b", g->scale_b);
    set_scale(job, MATMUL_SCALE_D, "--scale-d", g->scale_d);
    if (job->amax)
        operand_set_number(&job->operand[MATMUL_AMAX], OPERAND_OUTPUT, "--amax", 0);
    set_gradient(job, g->gradient);
}

#define TYPES "f64|f32|f16|bf16|f8e4m3|f8e5m2|i8|c64|c128"

/* Reads the command line; false: the command ends with *exit_status. */
static bool read_options(matmul *job, int argc, char **argv, int *exit_status)
{
    given g = {.type = -1, .type_b = -1, .type_d = -1};
    const option options[] = {
        {'o', "output", "C.npy", "the file to write; may be one of the inputs", OPTION_TEXT, &g.out,
         NULL},
        RUN_DEVICE_OPTIONS(job->choice),
        {0, "type", TYPES,
         "type that A and B are rounded to and multiplied in (default: as they are)", OPTION_CHOICE,
         &g.type, input_types},
        {0, "type-b", "f8e4m3|f8e5m2", "the type of B, if another fp8 than A's", OPTION_CHOICE,
         &g.type_b, fp8_types},
        {0, "type-d", TYPES "|i32",
         "the type of the result (default: A's, for i8 i32); bf16 and fp8 are written as f32",
         OPTION_CHOICE, &g.type_d, result_types},
        {0, "compute", "default|tf32|pedantic|emulated",
         "arithmetic; tf32: a GPU may round f32 inputs to 3 digits", OPTION_CHOICE, &g.compute,
         compute_names},
        {0, "tf32", NULL, "--compute tf32", OPTION_FLAG, &g.tf32, NULL},
        {0, "fast-accumulation", NULL, "fp8: accumulate faster and less exactly", OPTION_FLAG,
         &job->fast_accumulation, NULL},
        {0, "trans-a", "n|t|c", "take A as it is, transposed, transposed and conjugated",
         OPTION_CHOICE, &g.trans_a, trans_names},
        {0, "trans-b", "n|t|c", "the same for B", OPTION_CHOICE, &g.trans_b, trans_names},
        {0, "alpha", "RE[,IM]", "factor of the product (default 1)", OPTION_SCALAR, &job->alpha,
         NULL},
        {0, "add", "FILE", "a matrix that is added", OPTION_TEXT, &g.add, NULL},
        {0, "beta", "RE[,IM]", "its factor", OPTION_SCALAR, &job->beta, NULL},
        {0, "bias", "FILE", "a vector that is added to each row", OPTION_TEXT, &g.bias, NULL},
        {0, "activation", "relu|gelu|silu|drelu|dgelu",
         "function of each element; d...: its gradient", OPTION_CHOICE, &g.activation,
         activation_names},
        {0, "aux", "FILE", "data that relu and gelu write, and drelu and dgelu read", OPTION_TEXT,
         &g.aux, NULL},
        {0, "gradient", "d|a|b=FILE",
         "write sums: of the result's columns (drelu, dgelu), of A's rows, of B's columns",
         OPTION_TEXT, &g.gradient, NULL},
        {0, "scale-a", "X|FILE", "fp8: factor of A, or one for each of its rows", OPTION_TEXT,
         &g.scale_a, NULL},
        {0, "scale-b", "X|FILE", "fp8: factor of B, or one for each of its columns", OPTION_TEXT,
         &g.scale_b, NULL},
        {0, "scale-d", "X", "factor of an fp8 result", OPTION_TEXT, &g.scale_d, NULL},
        {0, "amax", NULL, "print the largest absolute value of an fp8 result, before its factor",
         OPTION_FLAG, &job->amax, NULL},
        {0, "workspace", "BYTES", "the most that an algorithm may use (default 32 MiB)",
         OPTION_NUMBER, &job->workspace, NULL},
        {0, "tune", "off|quick|full", "search for the fastest algorithm first; it is remembered",
         OPTION_CHOICE, &g.tune, tune_names},
        {0, "check", NULL, "compare with a float64 product; a wrong result is not written",
         OPTION_FLAG, &job->check, NULL},
        {'q', "quiet", NULL, "print errors only", OPTION_FLAG, &job->quiet, NULL},
    };
    const struct command command = {
        .name = "matmul",
        .operands = "A.npy B.npy -o C.npy",
        .about = "Multiplies two matrices in NumPy files, in C or Fortran order, on a GPU or this\n"
                 "machine's processors, and writes the result in C order:\n\n"
                 "    scale_d * activation(alpha * scale_a A * scale_b B + beta * ADD + bias)",
        OPTIONS_OF(options),
        .operand_count = 2,
    };
    if (!options_parse(&command, argc, argv, exit_status))
        return false;
    settle(job, &g, argv + 1);
    *exit_status = check_together(&command, job, &g);
    if (*exit_status == EXIT_DONE && !run_choice_resolve(&command, &job->choice))
        *exit_status = EXIT_USAGE;
    return *exit_status == EXIT_DONE;
}

int command_matmul(int argc, char **argv)
{
    matmul job = {.choice = RUN_CHOICE_INIT};
    int exit_status;
    if (!read_options(&job, argc, argv, &exit_status))
        return exit_status;
    ui_set_quiet(job.quiet);
    bool ok = matmul_plan(&job) && matmul_run(&job);
    matmul_close(&job);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

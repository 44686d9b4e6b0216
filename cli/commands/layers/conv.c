/* troupe conv: a convolution of npy files, or one of its gradients; its options. */
#include "conv.h"

#include "commands/commands.h"
#include "ui/ui.h"

#include <string.h>

static const char *const pass_names[] = {"forward", "data", "filter", NULL}; /* conv_pass */

/* Options before they are checked together. */
typedef struct given {
    const char *out, *add, *bias, *activation;
    int type, type_y;
} given;

/* Checks that the option table can't express. */
static int check_together(const struct command *command, conv *job, const given *g)
{
    const trp_conv_request *r = &job->request;
    if (!g->out)
        return options_reject(command, "expected -o Y.npy, the file to write");
    if (r->alpha.im != 0 || r->beta.im != 0)
        return options_reject(command, "--%s: expected a real number, got a complex one",
                              r->alpha.im != 0 ? "alpha" : "beta");
    if (r->beta.given && !g->add)
        return options_reject(command, "--beta: expected --add FILE, which it multiplies");
    if (!r->beta.given && g->add)
        return options_reject(command, "--add: expected --beta, its factor");
    if (job->pass != CONV_FORWARD && (g->bias || g->activation))
        return options_reject(command, "--%s: expected --pass forward, got %s",
                              g->bias ? "bias" : "activation", pass_names[job->pass]);
    if (job->pass == CONV_FORWARD && job->size)
        return options_reject(command,
                              "--size: expected --pass data or filter; forward it follows");
    if (g->activation && !layer_read_activation(g->activation, &job->request.activation))
        return options_reject(command, "--activation: expected %s, got '%s'%s", LAYER_ACTIVATIONS,
                              g->activation, layer_activation_hint(g->activation).s);
    return EXIT_DONE;
}

static void settle(conv *job, const given *g, char **files)
{
    bool data = job->pass == CONV_DATA, filter = job->pass == CONV_FILTER;
    layer *l = &job->layer;
    job->type = operand_chosen_type(layer_result_names, g->type);
    job->type_y = operand_chosen_type(layer_result_names, g->type_y);
    layer_set(l, CONV_X, data ? "the result" : "X", data ? g->out : files[0],
              data ? OPERAND_OUTPUT : OPERAND_INPUT);
    layer_set(l, CONV_W, filter ? "the result" : "W", filter ? g->out : files[1],
              filter ? OPERAND_OUTPUT : OPERAND_INPUT);
    layer_set(l, CONV_Y, data || filter ? "DY" : "the result",
              data     ? files[0]
              : filter ? files[1]
                       : g->out,
              data || filter ? OPERAND_INPUT : OPERAND_OUTPUT);
    layer_set(l, CONV_ADD, "--add", g->add, OPERAND_INPUT);
    layer_set(l, CONV_BIAS, "--bias", g->bias, OPERAND_INPUT);
}

/* Reads the command line; false: the command ends with *exit_status. */
static bool read_options(conv *job, int argc, char **argv, int *exit_status)
{
    given g = {.type = -1, .type_y = -1};
    const option options[] = {
        {'o', "output", "Y.npy", "the file to write; may be one of the inputs", OPTION_TEXT, &g.out,
         NULL},
        {0, "pass", "forward|data|filter",
         "the result: Y of X W, or a gradient: DX of DY W, DW of X DY", OPTION_CHOICE, &job->pass,
         pass_names},
        {0, "pad", "N,...", "zeros around images, one number or one for each size", OPTION_TEXT,
         &job->window.pad, NULL},
        {0, "pad-after", "N,...", "behind their end, if not as before their beginning", OPTION_TEXT,
         &job->window.pad_after, NULL},
        {0, "stride", "N,...", "pixels from one place of the filter to the next (default 1)",
         OPTION_TEXT, &job->window.stride, NULL},
        {0, "dilation", "N,...", "pixels from one tap to the next (default 1)", OPTION_TEXT,
         &job->dilation, NULL},
        {0, "groups", "N", "groups of channels; forward they follow from X and W (default 1)",
         OPTION_NUMBER, &job->groups, NULL},
        {0, "flip", NULL, "turn the filter over: a convolution in the mathematical sense",
         OPTION_FLAG, &job->request.flip, NULL},
        {0, "size", "H,W", "data, filter: sizes of the result, if --stride leaves them open",
         OPTION_TEXT, &job->size, NULL},
        {0, "alpha", "RE", "factor of the convolution (default 1)", OPTION_SCALAR,
         &job->request.alpha, NULL},
        {0, "add", "FILE", "an array that is added", OPTION_TEXT, &g.add, NULL},
        {0, "beta", "RE", "its factor", OPTION_SCALAR, &job->request.beta, NULL},
        {0, "bias", "FILE", "a vector, one element for each filter, that is added", OPTION_TEXT,
         &g.bias, NULL},
        {0, "activation", LAYER_ACTIVATIONS, "function of each element of the result", OPTION_TEXT,
         &g.activation, NULL},
        {0, "type", LAYER_TYPES, "type that both arrays are rounded to (default: as they are)",
         OPTION_CHOICE, &g.type, layer_type_names},
        {0, "type-y", LAYER_TYPES "|i32",
         "the type of the result (default: theirs, of fp8 bf16, of i8 i32); bf16 and fp8 are "
         "written as f32",
         OPTION_CHOICE, &g.type_y, layer_result_names},
        LAYER_OPTIONS(job->layer),
    };
    const struct command command = {
        .name = "conv",
        .operands = "X.npy W.npy -o Y.npy",
        .about =
            "Convolves images, n x c x one to three sizes, with filters, k x c/groups x sizes,\n"
            "in NumPy files, on a GPU or this machine's processors, and writes the result:\n\n"
            "    activation(alpha * conv(X, W) + beta * ADD + bias)\n\n"
            "With --pass data or filter the gradient of X or of W: the files are DY and W, or\n"
            "X and DY.",
        OPTIONS_OF(options),
        .operand_count = 2,
    };
    if (!options_parse(&command, argc, argv, exit_status))
        return false;
    settle(job, &g, argv + 1);
    *exit_status = check_together(&command, job, &g);
    if (*exit_status == EXIT_DONE && !run_choice_resolve(&command, &job->layer.choice))
        *exit_status = EXIT_USAGE;
    return *exit_status == EXIT_DONE;
}

static trp_status send(conv *job, trp_completion *done)
{
    trp_conv_request *r = &job->request;
    trp_dnn_tensor bias = layer_tensor(&job->layer, CONV_BIAS);
    trp_actor *dnn = job->layer.run.actor;
    r->x = layer_tensor(&job->layer, CONV_X);
    r->w = layer_tensor(&job->layer, CONV_W);
    r->y = layer_tensor(&job->layer, CONV_Y);
    r->z = layer_tensor(&job->layer, CONV_ADD);
    r->bias = (trp_dnn_tensor){.type = bias.type, .buffer = bias.buffer};
    r->options = layer_options(&job->layer);
    return job->pass == CONV_FORWARD ? trp_conv_forward(dnn, r, done)
           : job->pass == CONV_DATA  ? trp_conv_backward_data(dnn, r, done)
                                     : trp_conv_backward_filter(dnn, r, done);
}

static bool convolve(conv *job)
{
    trp_completion done = {0};
    double flops = 2 * (double)job->y[0] * (double)job->y[1] * (double)job->w[1];
    for (uint32_t i = 0; i < job->dims; i++)
        flops *= (double)job->y[2 + i] * (double)job->w[2 + i];
    ui_progress("convolving");
    uint64_t began = ui_now();
    if (!run_await(send(job, &done), &done, "the convolution"))
        return false;
    layer_show(&job->layer, "convolution", began, conv_result(job), flops);
    return true;
}

int command_conv(int argc, char **argv)
{
    conv job = {.layer.choice = RUN_CHOICE_INIT};
    layer *l = &job.layer;
    int exit_status;
    if (!read_options(&job, argc, argv, &exit_status))
        return exit_status;
    ui_set_quiet(l->quiet);
    bool ok = conv_plan(&job) && layer_start(l) && convolve(&job) && layer_fetch(l) &&
              (!l->check || conv_check(&job)) && layer_write(l);
    layer_close(l);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

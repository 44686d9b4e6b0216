/* troupe norm: normalisation of npy files, and its gradient; their options. */
#include "norm.h"

#include "commands/commands.h"
#include "ui/ui.h"

static const char *const mode_names[] = {"layer", "batch", "instance", "rms", NULL};

/* Options before they are checked together. */
typedef struct given {
    const char *out, *scale, *bias, *epsilon, *mean, *inv_variance, *mean_out, *inv_variance_out;
    const char *activation, *dy, *dx, *dscale, *dbias;
    int type;
} given;

static int check_gradient(const struct command *command, const norm *job, const given *g)
{
    const char *const all[] = {g->dx, g->dscale, g->dbias};
    static const char *const names[] = {"dx", "dscale", "dbias"};
    for (int i = 0; i < 3; i++) {
        if (!g->dy && all[i])
            return options_reject(command, "--%s: expected --backward DY.npy", names[i]);
    }
    if (g->dy && !g->dx && !g->dscale && !g->dbias)
        return options_reject(command, "--backward: expected --dx, --dscale or --dbias FILE");
    if (g->dbias && job->mode == TRP_DNN_RMS)
        return options_reject(command, "--dbias: expected none, for --mode rms has none");
    if (g->dy && g->activation)
        return options_reject(command, "--activation: expected none with --backward, whose "
                                       "gradient is of what is normalised");
    return EXIT_DONE;
}

/* Checks options of mean and variance, which only some modes have. */
static int check_statistics(const struct command *command, const norm *job, const given *g)
{
    bool batch = job->mode == TRP_DNN_BATCH, read = batch && !job->training;
    const char *mode = mode_names[job->mode];
    if (read && (!g->mean || !g->inv_variance))
        return options_reject(command, "--mode batch: expected --mean FILE and --inv-variance "
                                       "FILE, or --training");
    if (!read && (g->mean || g->inv_variance))
        return options_reject(command, "--%s: expected --mode batch without --training, got %s%s",
                              g->mean ? "mean" : "inv-variance", mode,
                              job->training ? " with it" : "");
    if (!job->training && (g->mean_out || g->inv_variance_out))
        return options_reject(command, "--%s: expected --training, which computes it",
                              g->mean_out ? "mean-out" : "inv-variance-out");
    if (job->mode == TRP_DNN_RMS && (g->bias || g->mean_out))
        return options_reject(command, "--%s: expected none, for --mode rms has none",
                              g->bias ? "bias" : "mean-out");
    if (read && g->epsilon)
        return options_reject(command, "--epsilon: expected none, for it is in --inv-variance");
    return EXIT_DONE;
}

/* Checks that the option table can't express. */
static int check_together(const struct command *command, norm *job, const given *g)
{
    if (!g->out && !g->dy)
        return options_reject(command, "expected -o Y.npy, the file to write");
    if (job->mode < 0)
        return options_reject(command, "expected --mode layer|batch|instance|rms");
    if (!g->scale)
        return options_reject(command, "expected --scale FILE");
    if (g->epsilon && (!options_real(g->epsilon, &job->epsilon.re) || !(job->epsilon.re >= 0)))
        return options_reject(command, "--epsilon: expected a number, 0 or more, got '%s'",
                              g->epsilon);
    job->epsilon.given = g->epsilon != NULL;
    if (g->activation && !layer_read_activation(g->activation, &job->activation))
        return options_reject(command, "--activation: expected %s, got '%s'%s", LAYER_ACTIVATIONS,
                              g->activation, layer_activation_hint(g->activation).s);
    int status = check_gradient(command, job, g);
    /* A gradient needs statistics of X, unless a batch's are given. */
    if (g->dy && !(job->mode == TRP_DNN_BATCH && (g->mean || g->inv_variance)))
        job->training = true;
    return status == EXIT_DONE ? check_statistics(command, job, g) : status;
}

/* Sets up a result, written or not. */
static void set_made(norm *job, int which, const char *name, const char *path)
{
    job->layer.tensor[which] = (tensor){.use = OPERAND_OUTPUT, .option = name, .path = path};
}

/* Sets up a statistic: training computes it. */
static void set_statistic(norm *job, int which, const char *name, const char *in, const char *out)
{
    if (job->training)
        set_made(job, which, name, out);
    else
        layer_set(&job->layer, which, name, in, OPERAND_INPUT);
}

static void settle(norm *job, const given *g, char **files)
{
    layer *l = &job->layer;
    job->type = operand_chosen_type(layer_result_names, g->type);
    layer_set(l, NORM_X, "X", files[0], OPERAND_INPUT);
    layer_set(l, NORM_SCALE, "--scale", g->scale, OPERAND_INPUT);
    layer_set(l, NORM_BIAS, "--bias", g->bias, OPERAND_INPUT);
    if (job->mode != TRP_DNN_RMS)
        set_statistic(job, NORM_MEAN, job->training ? "--mean-out" : "--mean", g->mean,
                      g->mean_out);
    set_statistic(job, NORM_INV_VARIANCE, job->training ? "--inv-variance-out" : "--inv-variance",
                  g->inv_variance, g->inv_variance_out);
    if (g->out || job->training)
        set_made(job, NORM_Y, "the result", g->out);
    if (!g->dy)
        return;
    layer_set(l, NORM_DY, "--backward", g->dy, OPERAND_INPUT);
    set_made(job, NORM_DX, "--dx", g->dx);
    set_made(job, NORM_DSCALE, "--dscale", g->dscale);
    layer_set(l, NORM_DBIAS, "--dbias", g->dbias, OPERAND_OUTPUT);
}

/* Reads the command line; false: the command ends with *exit_status. */
static bool read_options(norm *job, int argc, char **argv, int *exit_status)
{
    given g = {.type = -1};
    const option options[] = {
        {'o', "output", "Y.npy", "the file to write; may be one of the inputs", OPTION_TEXT, &g.out,
         NULL},
        {0, "mode", "layer|batch|instance|rms",
         "dimensions of a mean: those of --scale, all but channels, spatial ones", OPTION_CHOICE,
         &job->mode, mode_names},
        {0, "scale", "FILE",
         "factors: a vector with one for each channel; layer, rms: the last dimensions of X",
         OPTION_TEXT, &g.scale, NULL},
        {0, "bias", "FILE", "addend, with the dimensions of --scale", OPTION_TEXT, &g.bias, NULL},
        {0, "epsilon", "E", "addend of variances (default 1e-5)", OPTION_TEXT, &g.epsilon, NULL},
        {0, "mean", "FILE", "batch: a vector of means, one for each channel", OPTION_TEXT, &g.mean,
         NULL},
        {0, "inv-variance", "FILE", "batch: 1 / sqrt(variance + epsilon) to read", OPTION_TEXT,
         &g.inv_variance, NULL},
        {0, "training", NULL, "take mean and variance of X, in each mode", OPTION_FLAG,
         &job->training, NULL},
        {0, "mean-out", "FILE", "write the means that training has taken", OPTION_TEXT, &g.mean_out,
         NULL},
        {0, "inv-variance-out", "FILE", "write 1 / sqrt(variance + epsilon)", OPTION_TEXT,
         &g.inv_variance_out, NULL},
        {0, "backward", "DY.npy", "also compute gradients, from the gradient of the result",
         OPTION_TEXT, &g.dy, NULL},
        {0, "dx", "FILE", "the gradient of X to write", OPTION_TEXT, &g.dx, NULL},
        {0, "dscale", "FILE", "the gradient of --scale to write", OPTION_TEXT, &g.dscale, NULL},
        {0, "dbias", "FILE", "the gradient of --bias to write", OPTION_TEXT, &g.dbias, NULL},
        {0, "activation", LAYER_ACTIVATIONS, "function of each element of the result", OPTION_TEXT,
         &g.activation, NULL},
        {0, "type", LAYER_TYPES, "type that X and the result are rounded to (default: of X)",
         OPTION_CHOICE, &g.type, layer_type_names},
        LAYER_OPTIONS(job->layer),
    };
    const struct command command = {
        .name = "norm",
        .operands = "X.npy -o Y.npy --mode MODE --scale FILE",
        .about =
            "Normalises an array in a NumPy file, n x c x any sizes, on a GPU or this machine's\n"
            "processors:\n\n"
            "    activation((X - mean) / sqrt(variance + epsilon) * scale + bias)",
        OPTIONS_OF(options),
        .operand_count = 1,
    };
    if (!options_parse(&command, argc, argv, exit_status))
        return false;
    *exit_status = check_together(&command, job, &g);
    if (*exit_status == EXIT_DONE && !run_choice_resolve(&command, &job->layer.choice))
        *exit_status = EXIT_USAGE;
    if (*exit_status != EXIT_DONE)
        return false;
    settle(job, &g, argv + 1);
    return true;
}

/* Widens a file's tensor to X's rank, with 1 in other dimensions. */
static trp_dnn_tensor widened(const norm *job, int which, const int64_t *dim)
{
    trp_dnn_tensor t = layer_tensor(&job->layer, which), wide = t;
    uint32_t rank = job->layer.tensor[NORM_X].file.rank;
    int64_t elements = (int64_t)tensor_elements(&job->layer.tensor[which]);
    if (!t.buffer.id)
        return t;
    bool statistic = which == NORM_MEAN || which == NORM_INV_VARIANCE;
    uint32_t at = !statistic ? job->first : job->mode == TRP_DNN_BATCH ? 1 : 0;
    wide.rank = rank;
    for (uint32_t i = 0; i < rank; i++) {
        bool there = i >= at && i < at + t.rank;
        wide.dim[i] = dim[i];
        wide.stride[i] = there ? t.stride[i - at] : i < at ? elements : 1;
    }
    return wide;
}

static bool normalise(norm *job)
{
    trp_completion done = {0};
    trp_norm_request r = {
        .mode = (trp_dnn_norm)job->mode,
        .x = layer_tensor(&job->layer, NORM_X),
        .y = layer_tensor(&job->layer, NORM_Y),
        .scale = widened(job, NORM_SCALE, job->scale),
        .bias = widened(job, NORM_BIAS, job->scale),
        .mean = widened(job, NORM_MEAN, job->statistic),
        .inv_variance = widened(job, NORM_INV_VARIANCE, job->statistic),
        .epsilon = trp_real(norm_epsilon(job)),
        .activation = job->activation,
        .options = layer_options(&job->layer),
    };
    trp_actor *dnn = job->layer.run.actor;
    if (job->layer.tensor[NORM_Y].use == OPERAND_ABSENT)
        return true;
    ui_progress("normalising");
    uint64_t began = ui_now();
    trp_status sent =
        job->training ? trp_norm_training(dnn, &r, &done) : trp_norm_inference(dnn, &r, &done);
    if (!run_await(sent, &done, "the normalisation"))
        return false;
    layer_show(&job->layer, "normalisation", began, NORM_Y, 0);
    return true;
}

static bool differentiate(norm *job)
{
    trp_completion done = {0};
    trp_norm_request r = {
        .mode = (trp_dnn_norm)job->mode,
        .x = layer_tensor(&job->layer, NORM_X),
        .y = layer_tensor(&job->layer, NORM_DY),
        .scale = widened(job, NORM_SCALE, job->scale),
        .mean = widened(job, NORM_MEAN, job->statistic),
        .inv_variance = widened(job, NORM_INV_VARIANCE, job->statistic),
        .dx = layer_tensor(&job->layer, NORM_DX),
        .dscale = widened(job, NORM_DSCALE, job->scale),
        .dbias = widened(job, NORM_DBIAS, job->scale),
        .options = layer_options(&job->layer),
    };
    if (job->layer.tensor[NORM_DY].use == OPERAND_ABSENT)
        return true;
    ui_progress("computing the gradient");
    uint64_t began = ui_now();
    if (!run_await(trp_norm_backward(job->layer.run.actor, &r, &done), &done, "the gradient"))
        return false;
    layer_show(&job->layer, "gradient", began, NORM_DX, 0);
    return true;
}

int command_norm(int argc, char **argv)
{
    norm job = {.layer.choice = RUN_CHOICE_INIT, .mode = -1};
    layer *l = &job.layer;
    int exit_status;
    if (!read_options(&job, argc, argv, &exit_status))
        return exit_status;
    ui_set_quiet(l->quiet);
    bool ok = norm_plan(&job) && layer_start(l) && normalise(&job) && differentiate(&job) &&
              layer_fetch(l) && (!l->check || norm_check(&job)) && layer_write(l);
    layer_close(l);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

/* troupe attention: attention of npy files, and its gradient; its options. */
#include "attention.h"

#include "commands/commands.h"
#include "ui/ui.h"

#include <stdlib.h>

static const char *const type_names[] = {"f64", "f32", "f16", "bf16",
                                         NULL}; /* as operand_chosen_type(layer_result_names, ) */
static const char *const layout_names[] = {"bhsd", "bshd", NULL};

/* Options before they are checked together. */
typedef struct given {
    const char *out, *stats, *bias, *slopes, *dy, *dq, *dk, *dv, *dbias, *scale, *dropout;
    bool causal, low;
    int type, layout;
    int64_t seed, offset; /* -1: not given */
} given;

static int check_gradient(const struct command *command, const given *g)
{
    const char *const all[] = {g->dq, g->dk, g->dv, g->dbias};
    static const char *const names[] = {"dq", "dk", "dv", "dbias"};
    for (int i = 0; i < 4; i++) {
        if (!g->dy && all[i])
            return options_reject(command, "--%s: expected --backward DY.npy", names[i]);
    }
    if (!g->dy && !g->out)
        return options_reject(command, "expected -o Y.npy, the file to write");
    if (g->dy && !g->dq && !g->dk && !g->dv && !g->dbias)
        return options_reject(command, "--backward: expected --dq, --dk, --dv or --dbias FILE");
    if (g->dbias && !g->bias)
        return options_reject(command, "--dbias: expected --bias");
    return EXIT_DONE;
}

/* Checks that the option table can't express. */
static int check_together(const struct command *command, attention *job, const given *g)
{
    double scale;
    if (g->scale && !options_real(g->scale, &scale))
        return options_reject(command, "--scale: expected a number, got '%s'", g->scale);
    if (g->scale)
        job->scale = trp_real(scale);
    if (g->dropout &&
        (!options_real(g->dropout, &job->dropout) || !(job->dropout >= 0 && job->dropout < 1)))
        return options_reject(command, "--dropout: expected a number from 0 to below 1, got '%s'",
                              g->dropout);
    if (!g->dropout && (g->seed >= 0 || g->offset >= 0))
        return options_reject(command, "--%s: expected --dropout",
                              g->seed >= 0 ? "seed" : "offset");
    job->seed = g->seed >= 0 ? g->seed : 0;
    job->offset = g->offset >= 0 ? g->offset : 0;
    if (g->low && !g->causal)
        return options_reject(command, "--bottom-right: expected --causal");
    if (job->window > INT32_MAX / 4)
        return options_reject(command, "--window: expected less than 2^29");
    if (job->lengths_kv && !job->lengths)
        return options_reject(command, "--lengths-kv: expected --lengths");
    return check_gradient(command, g);
}

/* Sets up all tensors. The gradient needs the result and its stats, and computes all gradients,
 * written or not. */
static void settle(attention *job, const given *g, char **files)
{
    layer *l = &job->layer;
    const struct {
        int which;
        const char *name, *path;
        bool made;
    } rows[] = {
        {ATTENTION_Y, "the result", g->out, true},
        {ATTENTION_STATS, "--stats", g->stats, g->stats || g->dy},
        {ATTENTION_DQ, "--dq", g->dq, g->dy},
        {ATTENTION_DK, "--dk", g->dk, g->dy},
        {ATTENTION_DV, "--dv", g->dv, g->dy},
        {ATTENTION_DBIAS, "--dbias", g->dbias, g->dbias},
    };
    job->type = operand_chosen_type(layer_result_names, g->type);
    job->interleaved = g->layout > 0;
    job->mask = g->low      ? TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT
                : g->causal ? TRP_DNN_MASK_CAUSAL
                            : TRP_DNN_MASK_NONE;
    layer_set(l, ATTENTION_Q, "Q", files[0], OPERAND_INPUT);
    layer_set(l, ATTENTION_K, "K", files[1], OPERAND_INPUT);
    layer_set(l, ATTENTION_V, "V", files[2], OPERAND_INPUT);
    layer_set(l, ATTENTION_BIAS, "--bias", g->bias, OPERAND_INPUT);
    layer_set(l, ATTENTION_SLOPES, "--slopes", g->slopes, OPERAND_INPUT);
    layer_set(l, ATTENTION_DY, "--backward", g->dy, OPERAND_INPUT);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        l->tensor[rows[i].which] = (tensor){0};
        if (rows[i].made)
            l->tensor[rows[i].which] =
                (tensor){.use = OPERAND_OUTPUT, .option = rows[i].name, .path = rows[i].path};
    }
}

/* Reads the command line; false: the command ends with *exit_status. */
static bool read_options(attention *job, int argc, char **argv, int *exit_status)
{
    given g = {.type = -1, .layout = -1, .seed = -1, .offset = -1};
    const option options[] = {
        {'o', "output", "Y.npy", "the file to write", OPTION_TEXT, &g.out, NULL},
        {0, "causal", NULL, "a row sees columns up to its own", OPTION_FLAG, &g.causal, NULL},
        {0, "bottom-right", NULL, "causal: such that the last row sees all columns", OPTION_FLAG,
         &g.low, NULL},
        {0, "window", "N", "of the columns up to its own a row sees the last N", OPTION_NUMBER,
         &job->window, NULL},
        {0, "scale", "S", "factor of products (default 1 / sqrt(depth))", OPTION_TEXT, &g.scale,
         NULL},
        {0, "bias", "FILE", "addend of scores, batch x heads x rows x columns, or 1 of each",
         OPTION_TEXT, &g.bias, NULL},
        {0, "slopes", "FILE", "ALiBi: a vector of factors of (column - row), one for each head",
         OPTION_TEXT, &g.slopes, NULL},
        {0, "lengths", "N,...", "rows and columns that each batch has, or one number for all",
         OPTION_TEXT, &job->lengths, NULL},
        {0, "lengths-kv", "N,...", "columns, if their number differs from that of rows",
         OPTION_TEXT, &job->lengths_kv, NULL},
        {0, "dropout", "P", "drop weights, each with this probability", OPTION_TEXT, &g.dropout,
         NULL},
        {0, "seed", "N", "seed of the dropped weights (default 0)", OPTION_NUMBER, &g.seed, NULL},
        {0, "offset", "N", "offset of their random numbers (default 0)", OPTION_NUMBER, &g.offset,
         NULL},
        {0, "stats", "FILE", "write the logarithm of each row's divisor", OPTION_TEXT, &g.stats,
         NULL},
        {0, "backward", "DY.npy", "also compute gradients, from the gradient of the result",
         OPTION_TEXT, &g.dy, NULL},
        {0, "dq", "FILE", "the gradient of Q to write", OPTION_TEXT, &g.dq, NULL},
        {0, "dk", "FILE", "the gradient of K to write", OPTION_TEXT, &g.dk, NULL},
        {0, "dv", "FILE", "the gradient of V to write", OPTION_TEXT, &g.dv, NULL},
        {0, "dbias", "FILE", "the gradient of --bias to write", OPTION_TEXT, &g.dbias, NULL},
        {0, "layout", "bhsd|bshd",
         "files are batch x heads x rows x depth (default), or rows first", OPTION_CHOICE,
         &g.layout, layout_names},
        {0, "type", "f64|f32|f16|bf16",
         "type that all arrays and results are rounded to (default: of Q)", OPTION_CHOICE, &g.type,
         type_names},
        RUN_DEVICE_OPTIONS(job->layer.choice),
        LAYER_LAST_OPTIONS(job->layer),
    };
    const struct command command = {
        .name = "attention",
        .operands = "Q.npy K.npy V.npy -o Y.npy",
        .about =
            "Scaled dot-product attention of arrays in NumPy files, on a GPU or this machine's\n"
            "processors:\n\n"
            "    softmax(S * Q K^T + bias) V",
        OPTIONS_OF(options),
        .operand_count = 3,
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

/* Sending. */

/* Views a tensor as batch, head, row, depth, whatever the order in its file. Fewer dimensions are
 * the last ones, except slopes, which are per head. */
static trp_dnn_tensor view(const attention *job, int which)
{
    trp_dnn_tensor t = layer_tensor(&job->layer, which), wide = t;
    bool main = which <= ATTENTION_Y || (which >= ATTENTION_DY && which <= ATTENTION_DV);
    int64_t whole = (int64_t)tensor_elements(&job->layer.tensor[which]);
    if (!t.buffer.id || t.rank == 0)
        return t;
    if (main && job->interleaved) {
        wide.dim[1] = t.dim[2];
        wide.dim[2] = t.dim[1];
        wide.stride[1] = t.stride[2];
        wide.stride[2] = t.stride[1];
    }
    uint32_t at = which == ATTENTION_SLOPES ? 1 : which == ATTENTION_STATS ? 0 : 4 - t.rank;
    wide.rank = 4;
    for (uint32_t i = 0; i < 4 && t.rank < 4; i++) {
        bool there = i >= at && i < at + t.rank;
        wide.dim[i] = there ? t.dim[i - at] : 1;
        wide.stride[i] = there ? t.stride[i - at] : i < at ? whole : 1;
    }
    return wide;
}

static bool send_lengths(attention *job)
{
    for (int i = 0; i < 2; i++) {
        const tensor *t = &job->layer.tensor[i ? ATTENTION_SEQ_KV : ATTENTION_SEQ_Q];
        if (job->length[i] &&
            !run_upload(&job->layer.run, t->device.buffer, job->length[i], t->bytes, "lengths"))
            return false;
    }
    return true;
}

/* Counts multiplications and additions: two products per pair of row and column forward, five
 * backward. */
static double flops_of(const attention *job)
{
    double pairs = 0;
    for (int64_t b = 0; b < job->batches; b++) {
        for (int64_t row = 0; row < job->rows; row++) {
            int64_t first, end;
            attention_seen(job, b, row, &first, &end);
            pairs += (double)(end - first);
        }
    }
    return 2 * pairs * (double)job->heads * (double)(job->depth + job->width);
}

static bool compute(attention *job)
{
    const bool backward = job->layer.tensor[ATTENTION_DY].use != OPERAND_ABSENT;
    trp_actor *dnn = job->layer.run.actor;
    trp_completion done = {0};
    trp_attention_request r = {
        .q = view(job, ATTENTION_Q),
        .k = view(job, ATTENTION_K),
        .v = view(job, ATTENTION_V),
        .y = view(job, ATTENTION_Y),
        .stats = view(job, ATTENTION_STATS),
        .bias = view(job, ATTENTION_BIAS),
        .slopes = view(job, ATTENTION_SLOPES),
        .seq_q = view(job, ATTENTION_SEQ_Q),
        .seq_kv = view(job, ATTENTION_SEQ_KV),
        .scale = job->scale,
        .mask = job->mask,
        .window = job->window,
        .dropout = job->dropout,
        .options = layer_options(&job->layer),
    };
    if (job->dropout > 0) {
        r.seed = trp_dnn_integer((uint64_t)job->seed);
        r.offset = trp_dnn_integer((uint64_t)job->offset);
    }
    ui_progress("computing attention");
    uint64_t began = ui_now();
    if (!run_await(trp_attention_forward(dnn, &r, &done), &done, "attention"))
        return false;
    layer_show(&job->layer, "attention", began, ATTENTION_Y, flops_of(job));
    if (!backward)
        return true;
    r.dy = view(job, ATTENTION_DY);
    r.dq = view(job, ATTENTION_DQ);
    r.dk = view(job, ATTENTION_DK);
    r.dv = view(job, ATTENTION_DV);
    r.dbias = view(job, ATTENTION_DBIAS);
    done = (trp_completion){0};
    began = ui_now();
    if (!run_await(trp_attention_backward(dnn, &r, &done), &done, "the gradient"))
        return false;
    layer_show(&job->layer, "gradient", began, ATTENTION_DQ, 2.5 * flops_of(job));
    return true;
}

int command_attention(int argc, char **argv)
{
    attention job = {.layer.choice = RUN_CHOICE_INIT};
    layer *l = &job.layer;
    int exit_status;
    if (!read_options(&job, argc, argv, &exit_status))
        return exit_status;
    ui_set_quiet(l->quiet);
    bool ok = attention_plan(&job) && layer_start(l) && send_lengths(&job) && compute(&job) &&
              layer_fetch(l) && (!l->check || attention_check(&job)) && layer_write(l);
    layer_close(l);
    free(job.length[0]);
    free(job.length[1]);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

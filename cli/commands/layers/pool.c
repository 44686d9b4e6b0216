/* troupe pool: pooling of npy files, and its gradient; its options. */
#include "pool.h"

#include "commands/commands.h"
#include "ui/ui.h"

#include <inttypes.h>

static const char *const mode_names[] = {"max", "average", "average-padded",
                                         NULL}; /* trp_dnn_resample */

/* Options before they are checked together. */
typedef struct given {
    const char *out, *index, *dy;
    int type;
} given;

/* Checks that the option table can't express. */
static int check_together(const struct command *command, const pool *job, const given *g)
{
    if (!g->out)
        return options_reject(command, "expected -o Y.npy, the file to write");
    if (!job->window_text)
        return options_reject(command, "expected --window H,W, the sizes of the window");
    if (g->index && job->mode != TRP_DNN_POOL_MAX)
        return options_reject(command, "--index: expected --mode max, got %s",
                              mode_names[job->mode]);
    return EXIT_DONE;
}

static void settle(pool *job, const given *g, char **files)
{
    layer *l = &job->layer;
    job->type = operand_chosen_type(layer_result_names, g->type);
    job->backward = g->dy != NULL;
    job->request.mode = (trp_dnn_resample)job->mode;
    layer_set(l, POOL_X, "X", files[0], OPERAND_INPUT);
    layer_set(l, POOL_Y, "the result", job->backward ? NULL : g->out, OPERAND_OUTPUT);
    layer_set(l, POOL_INDEX, "--index", g->index, job->backward ? OPERAND_INPUT : OPERAND_OUTPUT);
    layer_set(l, POOL_DY, "--backward", g->dy, OPERAND_INPUT);
    layer_set(l, POOL_DX, "the result", job->backward ? g->out : NULL, OPERAND_OUTPUT);
}

/* Reads the command line; false: the command ends with *exit_status. */
static bool read_options(pool *job, int argc, char **argv, int *exit_status)
{
    given g = {.type = -1};
    const option options[] = {
        {'o', "output", "Y.npy", "the file to write; may be one of the inputs", OPTION_TEXT, &g.out,
         NULL},
        {0, "window", "H,W", "the sizes of the window; here and below one number is for all",
         OPTION_TEXT, &job->window_text, NULL},
        {0, "stride", "N,...", "pixels from one window to the next (default: as large as it)",
         OPTION_TEXT, &job->window.stride, NULL},
        {0, "pad", "N,...", "padding before images (default 0), less than the window", OPTION_TEXT,
         &job->window.pad, NULL},
        {0, "pad-after", "N,...", "behind their end, if not as before their beginning", OPTION_TEXT,
         &job->window.pad_after, NULL},
        {0, "ceil", NULL, "round the number of windows up; elements beyond the padding never count",
         OPTION_FLAG, &job->request.round_up, NULL},
        {0, "mode", "max|average|average-padded",
         "result of each window; average-padded: padding counts as zeros", OPTION_CHOICE,
         &job->mode, mode_names},
        {0, "index", "FILE",
         "max: where the largest were, i8, or i32 for windows of more than 128 elements: written, "
         "or read with --backward",
         OPTION_TEXT, &g.index, NULL},
        {0, "backward", "DY.npy", "write the gradient of X, from this one of Y", OPTION_TEXT, &g.dy,
         NULL},
        {0, "type", LAYER_TYPES, "type that arrays are rounded to (default: of X)", OPTION_CHOICE,
         &g.type, layer_type_names},
        LAYER_OPTIONS(job->layer),
    };
    const struct command command = {
        .name = "pool",
        .operands = "X.npy -o Y.npy --window H,W",
        .about = "Takes the largest or the mean element of each window of images, n x c x one to\n"
                 "three sizes, in a NumPy file, on a GPU or this machine's processors; or the\n"
                 "gradient of that.",
        OPTIONS_OF(options),
        .operand_count = 1,
    };
    if (!options_parse(&command, argc, argv, exit_status))
        return false;
    settle(job, &g, argv + 1);
    *exit_status = check_together(&command, job, &g);
    if (*exit_status == EXIT_DONE && !run_choice_resolve(&command, &job->layer.choice))
        *exit_status = EXIT_USAGE;
    return *exit_status == EXIT_DONE;
}

/* The plan. */

static bool read_geometry(pool *job)
{
    trp_pool_request *r = &job->request;
    layer_window w = job->window;
    w.stride = w.stride ? w.stride : job->window_text;
    if (!layer_read_steps("window", job->window_text, job->dims, r->window) ||
        !layer_read_window(&w, job->dims, r->pre_pad, r->post_pad, r->stride))
        return false;
    for (uint32_t i = 0; i < job->dims; i++) {
        if (r->pre_pad[i] >= r->window[i] || r->post_pad[i] >= r->window[i]) {
            ui_wrong("--%s: expected less than the window, %" PRId64 ", got '%s'",
                     r->pre_pad[i] >= r->window[i] || !w.pad_after ? "pad" : "pad-after",
                     r->window[i],
                     r->pre_pad[i] >= r->window[i] || !w.pad_after ? w.pad : w.pad_after);
            return false;
        }
    }
    return true;
}

static bool find_places(pool *job)
{
    const trp_pool_request *r = &job->request;
    const tensor *x = &job->layer.tensor[POOL_X];
    job->y[0] = (int64_t)x->file.dim[0];
    job->y[1] = (int64_t)x->file.dim[1];
    for (uint32_t i = 0; i < job->dims; i++) {
        int64_t size = (int64_t)x->file.dim[2 + i];
        int64_t padded = size + r->pre_pad[i] + r->post_pad[i];
        if (size < 1 || r->window[i] > padded) {
            ui_wrong("--window: expected one that fits into dimension %u and its padding, %" PRId64
                     ", got %" PRId64 "; %s",
                     2 + i, padded, r->window[i], tensor_describe(x).s);
            return false;
        }
        int64_t *y = &job->y[2 + i];
        *y = (padded - r->window[i]) / r->stride[i] + 1;
        if (r->round_up && (*y - 1) * r->stride[i] + r->window[i] < padded &&
            *y * r->stride[i] < size + r->pre_pad[i])
            ++*y;
    }
    return true;
}

/* Adds Y, which the gradient of max pooling needs without an index. */
static void need_y(pool *job)
{
    tensor *y = &job->layer.tensor[POOL_Y];
    if (job->backward && job->mode == TRP_DNN_POOL_MAX &&
        job->layer.tensor[POOL_INDEX].use == OPERAND_ABSENT)
        *y = (tensor){.use = OPERAND_OUTPUT, .option = "Y"};
}

static trp_dtype index_type(const pool *job)
{
    double volume = 1;
    for (uint32_t i = 0; i < job->dims; i++)
        volume *= (double)job->request.window[i];
    return volume <= INT8_MAX + 1 ? TRP_I8 : TRP_I32;
}

static bool lay_out(pool *job)
{
    tensor *t = job->layer.tensor;
    tensor_order order = (tensor_order)job->layer.order;
    uint32_t rank = job->dims + 2;
    int64_t x[TRP_DNN_RANK_MAX];
    for (uint32_t i = 0; i < rank; i++)
        x[i] = (int64_t)t[POOL_X].file.dim[i];
    for (int i = POOL_X; i <= POOL_DX; i++) {
        trp_dtype type = i == POOL_INDEX ? index_type(job) : job->type;
        if (t[i].use == OPERAND_ABSENT)
            continue;
        if (t[i].use == OPERAND_OUTPUT
                ? !tensor_shape_output(&t[i], type, rank, i == POOL_DX ? x : job->y)
                : i != POOL_X && !tensor_expect_dims(&t[i], rank, job->y, "a window each"))
            return false;
        if (i == POOL_INDEX && t[i].file.type != type) {
            ui_error("--index: expected %s; %s; convert it with .astype(%s)", trp_dtype_name(type),
                     tensor_describe(&t[i]).s, array_file_numpy(type));
            return false;
        }
        if (!tensor_lay_out(&t[i], type, order))
            return false;
    }
    return true;
}

bool pool_plan(pool *job)
{
    const tensor *x = &job->layer.tensor[POOL_X];
    if (!layer_open(&job->layer) || !tensor_expect_rank(x, 3, 5, "n x channels x 1 to 3 sizes") ||
        !layer_settle_type(x, &job->type))
        return false;
    job->dims = x->file.rank - 2;
    need_y(job);
    return read_geometry(job) && find_places(job) && lay_out(job);
}

/* Sending. */

static bool forward(pool *job)
{
    trp_completion done = {0};
    trp_pool_request r = job->request;
    r.x = layer_tensor(&job->layer, POOL_X);
    r.y = layer_tensor(&job->layer, POOL_Y);
    if (!job->backward)
        r.index = layer_tensor(&job->layer, POOL_INDEX);
    r.options = layer_options(&job->layer);
    return run_await(trp_pool_forward(job->layer.run.actor, &r, &done), &done, "the pooling");
}

static bool backward(pool *job)
{
    trp_completion done = {0};
    trp_pool_request r = job->request;
    r.x = layer_tensor(&job->layer, POOL_DX);
    r.y = layer_tensor(&job->layer, POOL_DY);
    r.index = layer_tensor(&job->layer, POOL_INDEX);
    if (job->layer.tensor[POOL_Y].use != OPERAND_ABSENT) {
        r.old_x = layer_tensor(&job->layer, POOL_X);
        r.old_y = layer_tensor(&job->layer, POOL_Y);
    }
    r.options = layer_options(&job->layer);
    return run_await(trp_pool_backward(job->layer.run.actor, &r, &done), &done, "the gradient");
}

static bool compute(pool *job)
{
    ui_progress("pooling");
    uint64_t began = ui_now();
    if (job->layer.tensor[POOL_Y].use != OPERAND_ABSENT && !forward(job))
        return false;
    if (job->backward && !backward(job))
        return false;
    layer_show(&job->layer, job->backward ? "gradient" : "pooling", began,
               job->backward ? POOL_DX : POOL_Y, 0);
    return true;
}

int command_pool(int argc, char **argv)
{
    pool job = {.layer.choice = RUN_CHOICE_INIT};
    layer *l = &job.layer;
    int exit_status;
    if (!read_options(&job, argc, argv, &exit_status))
        return exit_status;
    ui_set_quiet(l->quiet);
    bool ok = pool_plan(&job) && layer_start(l) && compute(&job) && layer_fetch(l) &&
              (!l->check || pool_check(&job)) && layer_write(l);
    layer_close(l);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

/* Graphs of the dnn actor as cuDNN's: every kind of node, with types and layouts, planned for an
 * H200 that need not be there. Skipped where cuDNN is missing, or is too old to plan without a
 * device. Prints what is taken as one, what in pieces, and how many of those by kernels of ours:
 * every twelfth, with TROUPE_TEST_ALL=1 all. */
#include "dnn_graphs.h"
#include "dnn_planner.h"

#include "actors/dnn/reference/launch.h"
#include "support/label.h"

#include <troupe/dnn.h>

#include "support/unit.h"

TROUPE_TEST("long", "no sanitizer");

static trp__dnn_planner planner;
static trp__kernel_modules kernels = {.target = "sm_90"};

/* What this version of the library does: the rest may be left to kernels of ours. By the beginnings
 * of the lines. */
enum { VERSION = 91900 };
static const char *const taken[] = {
    "conv_forward f32->f32",
    "conv_forward f16->f16",
    "conv_forward bf16->bf16",
    "conv_backward_data f32->f32",
    "conv_backward_data f16->f16",
    "conv_backward_data bf16->bf16",
    "conv_backward_filter f32->f32",
    "conv_backward_filter f16->f16",
    "conv_backward_filter bf16->bf16",
    "matmul f16->f16",
    "matmul bf16->bf16",
    "matmul tf32",
    "conv, bias, relu f16",
    "conv, bias, relu bf16",
};

static bool is_taken(const char *name)
{
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (strncmp(name, taken[i], strlen(taken[i])) == 0)
            return true;
    }
    return false;
}

static uint32_t count_ours(const trp__dnn_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->steps; i++)
        count += plan->step[i].way != TRP__DNN_WAY_ENGINE;
    return count;
}

/* Plans a graph and prints a line. Nothing is refused. */
static void try_graph(dnn_graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void try_graph(dnn_graph *g, const char *format, ...)
{
    static unsigned number;
    char name[160];
    va_list list;
    if (!getenv("TROUPE_TEST_ALL") && number++ % 12 != 0) /* most take some tenths of a second */
        return;
    va_start(list, format);
    vsnprintf(name, sizeof name - 1, format, list);
    va_end(list);
    strcat(name, " ");
    trp__dnn_graph whole = dnn_finish(g);
    trp__dnn_plan *plan = NULL;
    trp_error error = {0};
    trp_status status = trp__dnn_plan_make(&planner, &whole, &plan, &error);
    if (status != TRP_OK)
        fail_msg("%s: refused: %s", name, error.message);
    const uint32_t ours = count_ours(plan);
    printf("%-44s %s: %u of %u, %u by kernels of ours, %s, workspace %llu\n", name,
           plan->steps == 1 ? "as one" : "split", plan->steps, g->head.nodes, ours,
           plan->step[0].engine.name, (unsigned long long)plan->workspace);
    fflush(stdout);
    if (planner.lib->cudnnGetVersion() == VERSION && is_taken(name))
        assert_int_equal(ours, 0);
    trp__dnn_plan_drop(plan);
    dnn_end(g);
}

static const trp_dtype floats[] = {TRP_F32, TRP_F16, TRP_BF16};
static const char *const layouts[] = {"rows", "channels last"};

static void convolution(trp_dnn_kind kind, trp_dtype type, trp_dtype out, dnn_layout l,
                        uint32_t spatial, bool tf32, int64_t groups, bool deterministic)
{
    dnn_graph storage, *g = &storage;
    dnn_begin(g);
    g->head.tf32 = tf32;
    g->head.deterministic = deterministic;
    trp_dtype compute = type == TRP_F64 ? TRP_F64 : type == TRP_I8 ? TRP_I32 : TRP_F32;
    trp__dnn_node *n = dnn_node(g, kind, 0, compute, spatial);
    for (uint32_t i = 0; i < spatial; i++)
        n->pre_pad[i] = n->post_pad[i] = 1;
    n->port[TRP__DNN_CONV_X] = dnn_image(
        g, TRP__DNN_BUFFER, kind == TRP_DNN_CONV_BACKWARD_DATA ? out : type, l, spatial, 4, 64, 16);
    n->port[TRP__DNN_CONV_W] =
        dnn_image(g, TRP__DNN_BUFFER, kind == TRP_DNN_CONV_BACKWARD_FILTER ? out : type, l, spatial,
                  32, 64 / groups, 3);
    n->port[TRP__DNN_CONV_Y] = dnn_image(
        g, TRP__DNN_BUFFER, kind == TRP_DNN_CONV_FORWARD ? out : type, l, spatial, 4, 32, 16);
    try_graph(g, "%s %s->%s %s %ud%s g%d%s", trp__dnn_kind_of(kind)->name, trp_dtype_name(type),
              trp_dtype_name(out), layouts[l], spatial, tf32 ? " tf32" : "", (int)groups,
              deterministic ? " det" : "");
}

static void convolutions(void **unused)
{
    (void)unused;
    for (int kind = TRP_DNN_CONV_FORWARD; kind <= TRP_DNN_CONV_BACKWARD_FILTER; kind++)
        for (int l = 0; l < 2; l++) {
            for (int t = 0; t < 3; t++)
                for (uint32_t s = 1; s <= 3; s++)
                    convolution((trp_dnn_kind)kind, floats[t], floats[t], (dnn_layout)l, s, false,
                                1, false);
            convolution((trp_dnn_kind)kind, TRP_F64, TRP_F64, (dnn_layout)l, 2, false, 1, false);
            convolution((trp_dnn_kind)kind, TRP_F32, TRP_F32, (dnn_layout)l, 2, true, 1, false);
            convolution((trp_dnn_kind)kind, TRP_BF16, TRP_F32, (dnn_layout)l, 2, false, 1, false);
            convolution((trp_dnn_kind)kind, TRP_F16, TRP_F16, (dnn_layout)l, 2, false, 4, false);
            convolution((trp_dnn_kind)kind, TRP_F32, TRP_F32, (dnn_layout)l, 2, false, 4, false);
            convolution((trp_dnn_kind)kind, TRP_BF16, TRP_BF16, (dnn_layout)l, 2, false, 1, true);
            convolution((trp_dnn_kind)kind, TRP_F32, TRP_F32, (dnn_layout)l, 2, false, 1, true);
            convolution((trp_dnn_kind)kind, TRP_F8E4M3, TRP_F8E4M3, (dnn_layout)l, 2, false, 1,
                        false);
            convolution((trp_dnn_kind)kind, TRP_F8E4M3, TRP_F32, (dnn_layout)l, 2, false, 1, false);
            convolution((trp_dnn_kind)kind, TRP_I8, TRP_I32, (dnn_layout)l, 2, false, 1, false);
            convolution((trp_dnn_kind)kind, TRP_I8, TRP_F32, (dnn_layout)l, 2, false, 1, false);
            convolution((trp_dnn_kind)kind, TRP_I8, TRP_I8, (dnn_layout)l, 2, false, 1, false);
        }
}

static void product(trp_dtype type, trp_dtype out, uint32_t rank, bool tf32, bool transposed)
{
    dnn_graph storage, *g = &storage;
    dnn_begin(g);
    g->head.tf32 = tf32;
    trp_dtype compute = type == TRP_F64 ? TRP_F64 : type == TRP_I8 ? TRP_I32 : TRP_F32;
    trp__dnn_node *n = dnn_node(g, TRP_DNN_MATMUL, 0, compute, 0);
    int64_t a[] = {3, 5, 64, 96}, b[] = {3, 5, 96, 48}, y[] = {3, 5, 64, 48};
    n->port[0] = dnn_tensor(g, TRP__DNN_BUFFER, type, DNN_ROWS, rank, a + 4 - rank);
    n->port[1] = dnn_tensor(g, TRP__DNN_BUFFER, type, DNN_ROWS, rank, b + 4 - rank);
    n->port[2] = dnn_tensor(g, TRP__DNN_BUFFER, out, DNN_ROWS, rank, y + 4 - rank);
    if (transposed) {
        g->tensor[1].stride[rank - 2] = 1;
        g->tensor[1].stride[rank - 1] = 96;
    }
    try_graph(g, "matmul %s%s->%s rank %u%s", tf32 ? "tf32 " : "", trp_dtype_name(type),
              trp_dtype_name(out), rank, transposed ? " b transposed" : "");
}

static void products(void **unused)
{
    (void)unused;
    for (uint32_t rank = 2; rank <= 4; rank++)
        for (int t = 0; t < 3; t++)
            for (int tr = 0; tr < 2; tr++)
                product(floats[t], floats[t], rank, false, tr);
    product(TRP_F32, TRP_F32, 3, true, false);
    product(TRP_BF16, TRP_F32, 3, false, false);
    product(TRP_F64, TRP_F64, 3, false, false);
    product(TRP_F8E4M3, TRP_BF16, 3, false, true);
    product(TRP_F8E4M3, TRP_F32, 3, false, true);
    product(TRP_F8E4M3, TRP_F32, 3, false, false);
    product(TRP_I8, TRP_I32, 3, false, false);
    product(TRP_I8, TRP_I32, 3, false, true);
    product(TRP_I8, TRP_F32, 3, false, true);
}

static void element_wise(uint32_t mode, trp_dtype type, trp_dtype out, trp_dtype compute,
                         uint32_t rank, dnn_layout l)
{
    dnn_graph storage, *g = &storage;
    dnn_begin(g);
    trp__dnn_node *n = dnn_node(g, TRP_DNN_POINTWISE, mode, compute, 0);
    int64_t dim[] = {4, 6, 10, 12}, small[] = {1, 6, 1, 1};
    n->port[TRP__DNN_POINTWISE_X] = dnn_tensor(g, TRP__DNN_BUFFER, type, l, rank, dim);
    if (trp__dnn_pointwise_inputs(mode) > 1)
        n->port[TRP__DNN_POINTWISE_B] =
            dnn_tensor(g, TRP__DNN_BUFFER, type, l, rank, rank == 4 ? small : dim);
    if (trp__dnn_pointwise_inputs(mode) > 2)
        n->port[TRP__DNN_POINTWISE_T] = dnn_tensor(g, TRP__DNN_BUFFER, TRP_BOOL, l, rank, dim);
    n->port[TRP__DNN_POINTWISE_Y] = dnn_tensor(g, TRP__DNN_BUFFER, out, l, rank, dim);
    try_graph(g, "%s %s->%s in %s rank %u %s", trp__dnn_pointwise_name(mode), trp_dtype_name(type),
              trp_dtype_name(out), trp_dtype_name(compute), rank, layouts[l]);
}

static void pointwise(void **unused)
{
    (void)unused;
    for (uint32_t mode = 0; mode <= TRP_DNN_SWISH; mode++)
        element_wise(mode, TRP_F32, TRP_F32, TRP_F32, 4, DNN_ROWS);
    for (uint32_t mode = TRP_DNN_EQUAL; mode <= TRP_DNN_LESS_EQUAL; mode++)
        element_wise(mode, TRP_F32, TRP_BOOL, TRP_F32, 4, DNN_ROWS);
    for (uint32_t mode = TRP_DNN_AND; mode <= TRP_DNN_NOT; mode++) {
        element_wise(mode, TRP_BOOL, TRP_BOOL, TRP_F32, 4, DNN_ROWS);
    }
    for (int t = TRP_F64; t <= TRP_BOOL; t++) {
        if (t == TRP_F4E2M1)
            continue;
        element_wise(TRP_DNN_IDENTITY, (trp_dtype)t, TRP_F32, t == TRP_F64 ? TRP_F64 : TRP_F32, 4,
                     DNN_ROWS);
        element_wise(TRP_DNN_IDENTITY, TRP_F32, (trp_dtype)t, t == TRP_F64 ? TRP_F64 : TRP_F32, 4,
                     DNN_ROWS);
        element_wise(TRP_DNN_ADD, (trp_dtype)t, (trp_dtype)t, t == TRP_F64 ? TRP_F64 : TRP_F32, 4,
                     DNN_CHANNELS_LAST);
    }
    for (uint32_t rank = 1; rank < 4; rank++)
        element_wise(TRP_DNN_ADD, TRP_BF16, TRP_BF16, TRP_F32, rank, DNN_ROWS);
    for (uint32_t mode = TRP_DNN_RELU; mode <= TRP_DNN_SWISH; mode++) {
        for (int t = 0; t < 3; t += 2) {
            dnn_graph storage, *g = &storage;
            dnn_begin(g);
            trp__dnn_node *n = dnn_node(g, TRP_DNN_POINTWISE_BACKWARD, mode, TRP_F32, 0);
            for (int i = 0; i < 3; i++)
                n->port[i] = DNN_BUFFER(floats[t], DNN_ROWS, 4, 6, 10, 12);
            try_graph(g, "backward of %s %s", trp__dnn_pointwise_name(mode),
                      trp_dtype_name(floats[t]));
        }
    }
    dnn_graph storage, *g = &storage;
    dnn_begin(g);
    trp__dnn_node *n = dnn_node(g, TRP_DNN_POINTWISE, TRP_DNN_MUL, TRP_F32, 0);
    n->port[TRP__DNN_POINTWISE_X] = DNN_BUFFER(TRP_F16, DNN_ROWS, 4, 6, 10, 12);
    n->port[TRP__DNN_POINTWISE_B] = dnn_value(g, TRP_F32, 0.5);
    n->port[TRP__DNN_POINTWISE_Y] = DNN_BUFFER(TRP_F16, DNN_ROWS, 4, 6, 10, 12);
    try_graph(g, "mul by value f16");
}

static const char *const reductions_names[] = {"sum",  "mean",  "least", "most",
                                               "amax", "norm1", "norm2", "product"};

static void reductions(void **unused)
{
    (void)unused;
    static const int64_t to[][4] = {{1, 8, 1, 1},  {4, 1, 1, 1},  {1, 1, 1, 1},
                                    {4, 8, 10, 1}, {4, 8, 1, 12}, {1, 8, 10, 12}};
    for (uint32_t mode = 0; mode <= TRP_DNN_PRODUCT; mode++)
        for (int t = 0; t < 3; t++)
            for (int i = 0; i < (mode == 0 ? 6 : 1); i++) {
                dnn_graph storage, *g = &storage;
                dnn_begin(g);
                trp__dnn_node *n = dnn_node(g, TRP_DNN_REDUCTION, mode, TRP_F32, 0);
                n->port[0] = DNN_BUFFER(floats[t], DNN_ROWS, 4, 8, 10, 12);
                n->port[1] = dnn_tensor(g, TRP__DNN_BUFFER, TRP_F32, DNN_ROWS, 4, to[i]);
                try_graph(g, "reduction %s %s to %d %d %d %d", reductions_names[mode],
                          trp_dtype_name(floats[t]), (int)to[i][0], (int)to[i][1], (int)to[i][2],
                          (int)to[i][3]);
            }
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < 2; i++)
            for (int det = 0; det < 2; det++) {
                dnn_graph storage, *g = &storage;
                dnn_begin(g);
                g->head.deterministic = (uint8_t)det;
                trp__dnn_node *n = dnn_node(g, TRP_DNN_REDUCTION, 0, TRP_F32, 0);
                n->port[0] = DNN_BUFFER(floats[t], DNN_ROWS, 64, 96);
                n->port[1] = dnn_tensor(g, TRP__DNN_BUFFER, floats[t], DNN_ROWS, 2,
                                        i ? (int64_t[]){64, 1} : (int64_t[]){1, 96});
                try_graph(g, "%ssum %s of rank 2 over %s", det ? "deterministic " : "",
                          trp_dtype_name(floats[t]), i ? "columns" : "rows");
            }
}

static const char *const pools[] = {"max", "average", "average_padded"};

static void pool(bool backward, trp_dnn_resample mode, trp_dtype type, dnn_layout l,
                 uint32_t spatial, bool index, bool old)
{
    dnn_graph storage, *g = &storage;
    dnn_begin(g);
    trp__dnn_node *n = dnn_node(g, backward ? TRP_DNN_RESAMPLE_BACKWARD : TRP_DNN_RESAMPLE_FORWARD,
                                mode, TRP_F32, spatial);
    for (uint32_t i = 0; i < spatial; i++) {
        n->pre_pad[i] = 1;
        n->post_pad[i] = 0;
        n->window[i] = 3;
        n->stride[i] = 2;
        n->dilation[i] = 0;
    }
    n->port[TRP__DNN_RESAMPLE_X] = dnn_image(g, TRP__DNN_BUFFER, type, l, spatial, 4, 16, 16);
    n->port[TRP__DNN_RESAMPLE_Y] = dnn_image(g, TRP__DNN_BUFFER, type, l, spatial, 4, 16, 8);
    if (index)
        n->port[TRP__DNN_RESAMPLE_INDEX] =
            dnn_image(g, TRP__DNN_BUFFER, TRP_I8, l, spatial, 4, 16, 8);
    if (old) {
        n->port[TRP__DNN_RESAMPLE_OLD_X] =
            dnn_image(g, TRP__DNN_BUFFER, type, l, spatial, 4, 16, 16);
        n->port[TRP__DNN_RESAMPLE_OLD_Y] =
            dnn_image(g, TRP__DNN_BUFFER, type, l, spatial, 4, 16, 8);
    }
    try_graph(g, "resample_%s %s %s %s %ud%s%s", backward ? "backward" : "forward", pools[mode],
              trp_dtype_name(type), layouts[l], spatial, index ? " index" : "", old ? " x, y" : "");
}

static void pooling(void **unused)
{
    (void)unused;
    for (int c = 0; c < 2; c++)
        for (int l = 0; l < 2; l++) {
            dnn_graph storage, *g = &storage;
            dnn_begin(g);
            trp__dnn_node *n = dnn_node(g, TRP_DNN_RESAMPLE_BACKWARD, 0, TRP_F32, 2);
            n->window[0] = n->window[1] = n->stride[0] = n->stride[1] = 2;
            for (int i = 0; i < 5; i++)
                if (i != 2)
                    n->port[i] = dnn_image(g, TRP__DNN_BUFFER, TRP_F32, (dnn_layout)l, 2, 4,
                                           c ? 1 : 3, i % 3 ? 8 : 16);
            g->tensor[2].dim[2] = g->tensor[2].dim[3] = 16;
            g->tensor[2] = g->tensor[0];
            g->tensor[3] = g->tensor[1];
            try_graph(g, "maxima, backward, of %d channels, %s", c ? 1 : 3, layouts[l]);
        }
    for (int l = 0; l < 2; l++)
        for (int t = 0; t < 2; t++)
            for (uint32_t s = t ? 1 : 2; s <= (t ? 3 : 2); s++)
                for (int mode = 0; mode < 3; mode++) {
                    pool(false, (trp_dnn_resample)mode, floats[t], (dnn_layout)l, s, false, false);
                    if (mode == 0)
                        pool(false, (trp_dnn_resample)mode, floats[t], (dnn_layout)l, s, true,
                             false);
                    pool(true, (trp_dnn_resample)mode, floats[t], (dnn_layout)l, s, mode == 0,
                         false);
                    pool(true, (trp_dnn_resample)mode, floats[t], (dnn_layout)l, s, false, true);
                }
}

/* phase: 0 training, 1 inference, 2 backward */
static void norm(trp_dnn_norm mode, int phase, trp_dtype type, dnn_layout l, uint32_t rank,
                 trp_dtype scale_type, bool bias, bool running)
{
    dnn_graph storage, *g = &storage;
    dnn_begin(g);
    int64_t x[5] = {4, 64, 8, 8, 8}, c[5] = {1, 64, 1, 1, 1}, stat[5], scale[5];
    for (uint32_t i = 0; i < 5; i++) {
        bool over = mode == TRP_DNN_BATCH ? i != 1 : mode == TRP_DNN_INSTANCE ? i > 1 : i > 0;
        stat[i] = over ? 1 : x[i];
        scale[i] = mode == TRP_DNN_BATCH || mode == TRP_DNN_INSTANCE ? c[i] : over ? x[i] : 1;
    }
    trp__dnn_node *n = dnn_node(g,
                                phase == 0   ? TRP_DNN_NORM_TRAINING
                                : phase == 1 ? TRP_DNN_NORM_INFERENCE
                                             : TRP_DNN_NORM_BACKWARD,
                                mode, TRP_F32, 0);
    n->port[TRP__DNN_NORM_X] = dnn_tensor(g, TRP__DNN_BUFFER, type, l, rank, x);
    n->port[TRP__DNN_NORM_Y] = dnn_tensor(g, TRP__DNN_BUFFER, type, l, rank, x);
    n->port[TRP__DNN_NORM_SCALE] = dnn_tensor(g, TRP__DNN_BUFFER, scale_type, l, rank, scale);
    bool stats = phase != 1 || mode == TRP_DNN_BATCH;
    if (stats) {
        if (mode != TRP_DNN_RMS)
            n->port[TRP__DNN_NORM_MEAN] = dnn_tensor(g, TRP__DNN_BUFFER, TRP_F32, l, rank, stat);
        n->port[TRP__DNN_NORM_INV_VARIANCE] =
            dnn_tensor(g, TRP__DNN_BUFFER, TRP_F32, l, rank, stat);
    }
    if (bias && mode != TRP_DNN_RMS)
        n->port[TRP__DNN_NORM_BIAS] = dnn_tensor(g, TRP__DNN_BUFFER, scale_type, l, rank, scale);
    if (phase == 2) {
        n->port[TRP__DNN_NORM_DX] = dnn_tensor(g, TRP__DNN_BUFFER, type, l, rank, x);
        n->port[TRP__DNN_NORM_DSCALE] = dnn_tensor(g, TRP__DNN_BUFFER, scale_type, l, rank, scale);
    } else if (phase == 0 || mode != TRP_DNN_BATCH) {
        n->port[TRP__DNN_NORM_EPSILON] = dnn_value(g, TRP_F32, 1e-5);
    }
    if (running) {
        n->port[TRP__DNN_NORM_AVERAGE_FACTOR] = dnn_value(g, TRP_F32, 0.1);
        n->port[TRP__DNN_NORM_RUNNING_MEAN] =
            dnn_tensor(g, TRP__DNN_BUFFER, TRP_F32, l, rank, stat);
        n->port[TRP__DNN_NORM_RUNNING_VARIANCE] =
            dnn_tensor(g, TRP__DNN_BUFFER, TRP_F32, l, rank, stat);
        n->port[TRP__DNN_NORM_NEW_RUNNING_MEAN] =
            dnn_tensor(g, TRP__DNN_BUFFER, TRP_F32, l, rank, stat);
        n->port[TRP__DNN_NORM_NEW_RUNNING_VARIANCE] =
            dnn_tensor(g, TRP__DNN_BUFFER, TRP_F32, l, rank, stat);
    }
    static const char *const names[] = {"layer", "batch", "instance", "rms"}, *const phases[] = {
                                                                                  "training",
                                                                                  "inference",
                                                                                  "backward"};
    try_graph(g, "%s %s %s scale %s %s rank %u%s%s", names[mode], phases[phase],
              trp_dtype_name(type), trp_dtype_name(scale_type), layouts[l], rank,
              bias ? " bias" : "", running ? " running" : "");
}

static void norms(void **unused)
{
    (void)unused;
    for (int mode = 0; mode < 4; mode++)
        for (int phase = 0; phase < 3; phase++)
            for (int t = 0; t < 3; t += 2)
                for (int l = 0; l < (t ? 2 : 1); l++) {
                    norm((trp_dnn_norm)mode, phase, floats[t], (dnn_layout)l, 4, TRP_F32, true,
                         false);
                    if (t && l)
                        norm((trp_dnn_norm)mode, phase, floats[t], (dnn_layout)l, 4, floats[t],
                             true, false);
                    if (t == 0)
                        norm((trp_dnn_norm)mode, phase, floats[t], (dnn_layout)l, 4, TRP_F32, false,
                             false);
                    if (t == 2 && l == 0 && mode % 2 == 0)
                        for (uint32_t rank = 2; rank < 6; rank++)
                            norm((trp_dnn_norm)mode, phase, floats[t], (dnn_layout)l, rank, TRP_F32,
                                 true, false);
                    if (phase == 0 && mode == TRP_DNN_BATCH)
                        norm((trp_dnn_norm)mode, phase, floats[t], (dnn_layout)l, 4, TRP_F32, true,
                             true);
                }
    for (int t = 0; t < 3; t++)
        for (int l = 0; l < 2; l++) {
            dnn_graph storage, *g = &storage;
            dnn_begin(g);
            trp__dnn_node *n = dnn_node(g, TRP_DNN_STATISTICS, 0, TRP_F32, 0);
            n->port[0] = DNN_BUFFER(floats[t], (dnn_layout)l, 4, 64, 8, 8);
            n->port[1] = DNN_BUFFER(TRP_F32, (dnn_layout)l, 1, 64, 1, 1);
            n->port[2] = DNN_BUFFER(TRP_F32, (dnn_layout)l, 1, 64, 1, 1);
            try_graph(g, "statistics %s %s", trp_dtype_name(floats[t]), layouts[l]);
        }
}

/* conv, bias, relu; the same with sums of what comes out */
static void chain(trp_dtype type, trp_dtype between, dnn_layout l, uint32_t spatial, bool more,
                  bool tf32)
{
    dnn_graph storage, *g = &storage;
    dnn_begin(g);
    g->head.tf32 = tf32;
    trp__dnn_node *n = dnn_node(g, TRP_DNN_CONV_FORWARD, 0, TRP_F32, spatial);
    for (uint32_t i = 0; i < spatial; i++)
        n->pre_pad[i] = n->post_pad[i] = 1;
    n->port[TRP__DNN_CONV_X] = dnn_image(g, TRP__DNN_BUFFER, type, l, spatial, 4, 64, 16);
    n->port[TRP__DNN_CONV_W] = dnn_image(g, TRP__DNN_BUFFER, type, l, spatial, 32, 64, 3);
    uint8_t conv = n->port[TRP__DNN_CONV_Y] =
        dnn_image(g, TRP__DNN_VIRTUAL, between, l, spatial, 4, 32, 16);
    n = dnn_node(g, TRP_DNN_POINTWISE, TRP_DNN_ADD, TRP_F32, 0);
    n->port[TRP__DNN_POINTWISE_X] = conv;
    n->port[TRP__DNN_POINTWISE_B] = dnn_image(g, TRP__DNN_BUFFER, type, l, spatial, 1, 32, 1);
    uint8_t sum = n->port[TRP__DNN_POINTWISE_Y] =
        dnn_image(g, TRP__DNN_VIRTUAL, between, l, spatial, 4, 32, 16);
    n = dnn_node(g, TRP_DNN_POINTWISE, TRP_DNN_RELU, TRP_F32, 0);
    n->port[TRP__DNN_POINTWISE_X] = sum;
    uint8_t y = n->port[TRP__DNN_POINTWISE_Y] =
        dnn_image(g, TRP__DNN_BUFFER, type, l, spatial, 4, 32, 16);
    if (more) {
        g->tensor[y].role = TRP__DNN_VIRTUAL;
        n = dnn_node(g, TRP_DNN_RESAMPLE_FORWARD, TRP_DNN_POOL_MAX, TRP_F32, spatial);
        for (uint32_t i = 0; i < spatial; i++)
            n->window[i] = n->stride[i] = 2;
        n->port[TRP__DNN_RESAMPLE_X] = y;
        n->port[TRP__DNN_RESAMPLE_Y] = dnn_image(g, TRP__DNN_BUFFER, type, l, spatial, 4, 32, 8);
    }
    try_graph(g, "conv, bias, relu%s %s (%s) %s %ud%s", more ? ", pool" : "", trp_dtype_name(type),
              trp_dtype_name(between), layouts[l], spatial, tf32 ? " tf32" : "");
}

static void fused(void **unused)
{
    (void)unused;
    for (int t = 0; t < 3; t++)
        for (int l = 0; l < 2; l++)
            for (uint32_t s = 1; s <= 3; s++) {
                chain(floats[t], TRP_F32, (dnn_layout)l, s, false, t == 0);
                if (t == 0)
                    chain(floats[t], TRP_F32, (dnn_layout)l, s, false, false);
                else if (s == 2)
                    chain(floats[t], floats[t], (dnn_layout)l, s, false, false);
                if (s == 2)
                    chain(floats[t], TRP_F32, (dnn_layout)l, s, true, t == 0);
            }
    for (int t = 0; t < 3; t++) { /* product, bias, gelu */
        dnn_graph storage, *g = &storage;
        dnn_begin(g);
        g->head.tf32 = true;
        trp__dnn_node *n = dnn_node(g, TRP_DNN_MATMUL, 0, TRP_F32, 0);
        n->port[0] = DNN_BUFFER(floats[t], DNN_ROWS, 64, 96);
        n->port[1] = DNN_BUFFER(floats[t], DNN_ROWS, 96, 48);
        uint8_t p = n->port[2] = DNN_VIRTUAL(TRP_F32, DNN_ROWS, 64, 48);
        n = dnn_node(g, TRP_DNN_POINTWISE, TRP_DNN_ADD, TRP_F32, 0);
        n->port[TRP__DNN_POINTWISE_X] = p;
        n->port[TRP__DNN_POINTWISE_B] = DNN_BUFFER(floats[t], DNN_ROWS, 1, 48);
        p = n->port[TRP__DNN_POINTWISE_Y] = DNN_VIRTUAL(TRP_F32, DNN_ROWS, 64, 48);
        n = dnn_node(g, TRP_DNN_POINTWISE, TRP_DNN_GELU, TRP_F32, 0);
        n->port[TRP__DNN_POINTWISE_X] = p;
        n->port[TRP__DNN_POINTWISE_Y] = DNN_BUFFER(floats[t], DNN_ROWS, 64, 48);
        try_graph(g, "matmul, bias, gelu %s", trp_dtype_name(floats[t]));
    }
}

static int set_up(void **unused)
{
    (void)unused;
    dnn_planner_open(&planner);
    for (int i = 0; i < TRP__KERNEL_MODULE_COUNT;
         i++) /* nothing runs: an image that is there will do */
        kernels.module[i].image = calloc(1, 1);
    planner.modules = &kernels;
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    dnn_planner_close(&planner);
    for (int i = 0; i < TRP__KERNEL_MODULE_COUNT; i++)
        free(kernels.module[i].image);
    return 0;
}

int main(int count, char **argument)
{
    const struct CMUnitTest tests[] = {
        UNIT(convolutions), UNIT(products), UNIT(pointwise), UNIT(reductions),
        UNIT(pooling),      UNIT(norms),    UNIT(fused),
    };
    if (count > 1)
        cmocka_set_test_filter(argument[1]);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

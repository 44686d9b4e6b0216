/* Measures convolutions of networks with the heuristic's first engine and after a search, against
 * PyTorch's figures if given. */
#include "rows.h"

#include <math.h>
#include <stdio.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* The distinct layers of ResNet-50 (strides in the 3x3 layers), 53 in all. */
static const dnn_shape resnet[] = {
    {64, 3, 64, 224, 7, 2, 1, 1},     {64, 64, 64, 56, 1, 1, 1, 1},
    {64, 64, 64, 56, 3, 1, 1, 3},     {64, 64, 256, 56, 1, 1, 1, 4},
    {64, 256, 64, 56, 1, 1, 1, 2},    {64, 256, 128, 56, 1, 1, 1, 1},
    {64, 128, 128, 56, 3, 2, 1, 1},   {64, 128, 512, 28, 1, 1, 1, 4},
    {64, 256, 512, 56, 1, 2, 1, 1},   {64, 512, 128, 28, 1, 1, 1, 3},
    {64, 128, 128, 28, 3, 1, 1, 3},   {64, 512, 256, 28, 1, 1, 1, 1},
    {64, 256, 256, 28, 3, 2, 1, 1},   {64, 256, 1024, 14, 1, 1, 1, 6},
    {64, 512, 1024, 28, 1, 2, 1, 1},  {64, 1024, 256, 14, 1, 1, 1, 5},
    {64, 256, 256, 14, 3, 1, 1, 5},   {64, 1024, 512, 14, 1, 1, 1, 1},
    {64, 512, 512, 14, 3, 2, 1, 1},   {64, 512, 2048, 7, 1, 1, 1, 3},
    {64, 1024, 2048, 14, 1, 2, 1, 1}, {64, 2048, 512, 7, 1, 1, 1, 2},
    {64, 512, 512, 7, 3, 1, 1, 2},
};

static const dnn_shape single[] = {
    {64, 256, 256, 56, 3, 1, 1, 1},   {64, 64, 64, 56, 3, 1, 1, 1},
    {256, 512, 1024, 28, 1, 1, 1, 1}, {64, 3, 64, 224, 7, 2, 1, 1},
    {64, 256, 256, 56, 3, 1, 32, 1},
};

/* For the host backend. */
static const dnn_shape small[] = {{2, 3, 8, 16, 7, 2, 1, 1}, {2, 16, 16, 8, 3, 1, 4, 2}};

/* Totals of a section by pass. */
typedef struct total {
    double logarithms, least, raw_ns, troupe_ns; /* weighted by the occurrences of a layer */
    int count;
} total;

typedef struct layers {
    dnn_rows rows;
    const dnn_shape *shapes;
    size_t count;
    trp_tune tune;
    total of_pass[DNN_PASSES];
} layers;

static void add(total *t, const report_row *row, int count)
{
    double speed = row->raw_ns.p50 / row->troupe_ns.p50;
    t->least = t->count == 0 || speed < t->least ? speed : t->least;
    t->logarithms += count * log(speed);
    t->raw_ns += count * row->raw_ns.p50;
    t->troupe_ns += count * row->troupe_ns.p50;
    t->count += count;
}

static void measure(layers *l, dnn_conv *c)
{
    char name[sizeof((report_row *)0)->name];
    report_row row;
    const dnn_work work = {.name = name,
                           .type = TRP_BF16,
                           .flop = dnn_flop(&c->what),
                           .side = {.run = dnn_run, .context = c},
                           .ran = &c->ran};
    dnn_name(&c->what, c->pass, name, sizeof name);
    if (!dnn_run_first(c))
        suite_fail(c->suite, name);
    else if (dnn_rows_measure(&l->rows, &work, &row) && row.raw_ns.samples > 0)
        add(&l->of_pass[c->pass], &row, c->what.count);
}

static void run_layer(void *context, trp_actor *actor, size_t i)
{
    layers *l = context;
    dnn_conv c = {.suite = l->rows.suite, .actor = actor, .what = l->shapes[i], .tune = l->tune};
    bool good = dnn_begin(&c);
    if (!good)
        suite_fail(l->rows.suite, "tensors");
    for (int pass = 0; good && pass < DNN_PASSES && !dnn_rows_late(&l->rows); pass++) {
        c.pass = (dnn_pass)pass;
        measure(l, &c);
    }
    dnn_end(&c);
}

static void show_total(layers *l, int pass)
{
    static const char *const names[] = {"forward", "backward data", "backward filter"};
    const total *t = &l->of_pass[pass];
    if (t->count == 0)
        return;
    report_row row = {.raw = "PyTorch",
                      .unit = "ms",
                      .scale = 1e-6,
                      .raw_ns = dnn_rows_known(t->raw_ns),
                      .troupe_ns = dnn_rows_known(t->troupe_ns)};
    snprintf(row.name, sizeof row.name, "%s, all %d", names[pass], t->count);
    report_add(l->rows.suite->report, &row);
    double speed = exp(t->logarithms / t->count);
    row = (report_row){.raw = "PyTorch",
                       .unit = "of it",
                       .rate = true,
                       .scale = 1,
                       .raw_ns = dnn_rows_known(1),
                       .troupe_ns = dnn_rows_known(1 / speed)};
    snprintf(row.name, sizeof row.name, "%s, geometric mean", names[pass]);
    snprintf(row.note, sizeof row.note, "least %.3f", t->least);
    report_add(l->rows.suite->report, &row);
}

static void run_layers(suite *s, const char *title, const dnn_shape *shapes, size_t count,
                       trp_tune tune)
{
    layers l = {.rows = dnn_rows_begin(s),
                .shapes = suite_on_gpu(s) ? shapes : small,
                .count = suite_on_gpu(s) ? count : COUNT_OF(small),
                .tune = tune};
    if (tune != TRP_TUNE_OFF && !suite_on_gpu(s))
        return; /* the host backend searches nothing */
    report_section(
        s->report, title,
        "raw: PyTorch, of --torch FILE, measured before; Troupe: submit all, then drain");
    dnn_rows_run(&l.rows, l.count, run_layer, &l);
    for (int pass = 0; pass < DNN_PASSES; pass++)
        show_total(&l, pass);
}

/* Defines the section suite_dnn_`name`. */
#define SECTION(name, what, shapes, how, tune)                                                     \
    void suite_dnn_##name(suite *s)                                                                \
    {                                                                                              \
        run_layers(s, what ", bf16, " how, shapes, COUNT_OF(shapes), tune);                        \
    }

SECTION(resnet, "Layers of ResNet-50", resnet, "the heuristic's first engine", TRP_TUNE_OFF)
SECTION(resnet_quick, "Layers of ResNet-50", resnet, "after a quick search", TRP_TUNE_QUICK)
SECTION(resnet_full, "Layers of ResNet-50", resnet, "after a full search", TRP_TUNE_FULL)
SECTION(convs, "Single convolutions", single, "the heuristic's first engine", TRP_TUNE_OFF)
SECTION(convs_quick, "Single convolutions", single, "after a quick search", TRP_TUNE_QUICK)
SECTION(convs_full, "Single convolutions", single, "after a full search", TRP_TUNE_FULL)

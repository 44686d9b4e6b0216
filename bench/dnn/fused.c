/* Measures a convolution with bias and relu in one request. */
#include "dnn.h"

#include <stdio.h>

static const dnn_shape fused[] = {{64, 256, 256, 56, 3, 1, 1, 1},
                                  {64, 64, 64, 56, 3, 1, 1, 1},
                                  {64, 64, 256, 56, 1, 1, 1, 1},
                                  {64, 512, 128, 28, 1, 1, 1, 1},
                                  {64, 1024, 256, 14, 1, 1, 1, 1}};
static const dnn_shape small = {2, 16, 16, 8, 3, 1, 1, 1};

static void measure_fused(suite *s, trp_actor *actor, const dnn_shape *x)
{
    const trp_tune tune = suite_on_gpu(s) ? s->tune : TRP_TUNE_OFF;
    dnn_conv alone = {.suite = s, .actor = actor, .what = *x, .tune = tune}, with;
    report_row row = {.raw = "the convolution alone",
                      .type = trp_dtype_name(TRP_BF16),
                      .unit = "us",
                      .scale = 1e-3};
    bool good = dnn_begin(&alone);
    with = alone;
    with.fused = true;
    const stats_side plain = {dnn_run, &alone}, more = {dnn_run, &with};
    dnn_name(x, DNN_FORWARD, row.name, sizeof row.name);
    if (good && dnn_run_first(&alone) && dnn_run_first(&with) &&
        suite_time_blocks(s, 5, 10e6, true, plain, more, &row)) {
        snprintf(row.note, sizeof row.note, "%s%.30s", with.ran.parts > 1 ? "pieces " : "",
                 with.ran.engine);
        report_add(s->report, &row);
    } else {
        suite_fail(s, row.name);
    }
    dnn_end(&alone);
}

void suite_dnn_fused(suite *s)
{
    dnn_place place;
    report_section(s->report, "A convolution with bias and relu, bf16",
                   "raw: the convolution alone, through the actor; Troupe: with bias and relu");
    bool good = dnn_open(s, &place);
    trp_actor *actor = good ? suite_actor(s, "dnn") : NULL;
    if (!good)
        suite_fail(s, "a device of its own");
    for (size_t i = 0; actor && suite_on_gpu(s) && i < sizeof fused / sizeof *fused; i++)
        measure_fused(s, actor, &fused[i]);
    if (actor && !suite_on_gpu(s))
        measure_fused(s, actor, &small);
    trp_actor_destroy(actor);
    dnn_close(s, &place);
}

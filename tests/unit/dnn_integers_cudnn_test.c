/* Which convolutions of i8 are asked of cuDNN, and which it plans: for an H200 that need not be
 * there. Skipped where cuDNN is missing, or is too old to plan without a device. */
#include "dnn_graphs.h"
#include "dnn_planner.h"

#include "actors/dnn/direct_cuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static trp__dnn_planner planner;
static trp__direct_kernels direct = {.target = "sm_90"};

/* 2 images of 14 x 14, with `taps` by `taps` filters. */
typedef struct conv {
    const char *name;
    trp_dtype out, compute;
    dnn_layout layout;
    int64_t channels, filters, groups, taps;
    bool flip;
    int engines, ours; /* steps by an engine of the library, and by kernels of ours */
} conv;

static const conv all[] = {
    {"i32", TRP_I32, TRP_I32, DNN_CHANNELS_LAST, 64, 32, 1, 3, false, 1, 0},
    {"i32, few", TRP_I32, TRP_I32, DNN_CHANNELS_LAST, 16, 16, 1, 3, false, 1, 0},
    {"i32, 1 x 1", TRP_I32, TRP_I32, DNN_CHANNELS_LAST, 256, 48, 1, 1, true, 1, 0},
    {"f32", TRP_F32, TRP_I32, DNN_CHANNELS_LAST, 64, 32, 1, 3, false, 1, 1},
    {"i8", TRP_I8, TRP_I32, DNN_CHANNELS_LAST, 64, 32, 1, 3, false, 1, 1},
    {"f16", TRP_F16, TRP_I32, DNN_CHANNELS_LAST, 64, 32, 1, 3, false, 1, 1},
    /* Not asked for. */
    {"rows", TRP_I32, TRP_I32, DNN_ROWS, 64, 32, 1, 3, false, 0, 1},
    {"in f32", TRP_I32, TRP_F32, DNN_CHANNELS_LAST, 64, 32, 1, 3, false, 0, 1},
    {"12 channels", TRP_I32, TRP_I32, DNN_CHANNELS_LAST, 12, 32, 1, 3, false, 0, 1},
    {"20 filters", TRP_I32, TRP_I32, DNN_CHANNELS_LAST, 64, 20, 1, 3, false, 0, 1},
    {"groups", TRP_I32, TRP_I32, DNN_CHANNELS_LAST, 64, 64, 2, 3, false, 0, 1},
    {"turned", TRP_I32, TRP_I32, DNN_CHANNELS_LAST, 64, 32, 1, 3, true, 0, 1},
    {"too many terms", TRP_I32, TRP_I32, DNN_CHANNELS_LAST, 16384, 16, 1, 3, false, 0, 1},
};

static void plan_one(const conv *c)
{
    static dnn_graph storage, *const g = &storage;
    int engines = 0;
    trp__dnn_plan *plan = NULL;
    trp_error error = {0};
    dnn_begin(g);
    trp__dnn_node *n = dnn_node(g, TRP_DNN_CONV_FORWARD, c->flip, c->compute, 2);
    for (int i = 0; i < 2; i++)
        n->pre_pad[i] = n->post_pad[i] = (int32_t)(c->taps / 2);
    n->port[TRP__DNN_CONV_X] =
        dnn_image(g, TRP__DNN_BUFFER, TRP_I8, c->layout, 2, 2, c->channels, 14);
    n->port[TRP__DNN_CONV_W] = dnn_image(g, TRP__DNN_BUFFER, TRP_I8, c->layout, 2, c->filters,
                                         c->channels / c->groups, c->taps);
    n->port[TRP__DNN_CONV_Y] =
        dnn_image(g, TRP__DNN_BUFFER, c->out, c->layout, 2, 2, c->filters, 14);
    trp__dnn_graph graph = dnn_finish(g);
    if (trp__dnn_plan_make(&planner, &graph, &plan, &error) != TRP_OK)
        fail_msg("%s: %s", c->name, error.message);
    for (uint32_t i = 0; i < plan->steps; i++)
        engines += plan->step[i].way == TRP__DNN_WAY_ENGINE;
    printf("%-16s %s, %u steps\n", c->name, plan->step[0].engine.name, plan->steps);
    assert_int_equal(engines, c->engines);
    assert_int_equal((int)plan->steps - engines, c->ours);
    trp__dnn_plan_drop(plan);
    dnn_end(g);
}

static void planned(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        plan_one(&all[i]);
}

static int set_up(void **unused)
{
    trp_error error;
    (void)unused;
    dnn_planner_open(&planner);
    if (trp__direct_make(&direct, &error) != TRP_OK) {
        printf("%s: skipped\n", error.message);
        exit(77);
    }
    planner.direct = &direct;
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    dnn_planner_close(&planner);
    free(direct.image);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(planned)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* Plans of graphs with nodes that move data, for which NVRTC compiles a kernel. Skipped where there
 * is no cuDNN, or no NVRTC. */
#include "dnn_graphs.h"
#include "dnn_planner.h"

#include "actors/dnn/reference/launch.h"

#include "support/unit.h"

#include "support/label.h"

TROUPE_TEST("no tsan", "foreign leaks");

static trp__dnn_planner planner;
static trp__kernel_modules kernels;

static void among_others(void **unused)
{
    static const trp__dnn_way ways[] = {TRP__DNN_WAY_KERNEL, TRP__DNN_WAY_ENGINE,
                                        TRP__DNN_WAY_KERNEL};
    dnn_graph storage, *g = &storage;
    trp__dnn_plan *plan = NULL;
    trp_error error = {0};
    (void)unused;
    dnn_begin(g);
    const uint8_t x = DNN_BUFFER(TRP_F16, DNN_CHANNELS_LAST, 2, 32, 16, 16);
    const uint8_t half = DNN_VIRTUAL(TRP_F16, DNN_CHANNELS_LAST, 2, 16, 16, 16);
    const uint8_t w = DNN_BUFFER(TRP_F16, DNN_CHANNELS_LAST, 16, 16, 3, 3);
    const uint8_t result = DNN_VIRTUAL(TRP_F16, DNN_CHANNELS_LAST, 2, 16, 16, 16);
    const uint8_t y = DNN_BUFFER(TRP_F16, DNN_CHANNELS_LAST, 2, 48, 16, 16);
    trp__dnn_node *n = dnn_node(g, TRP_DNN_SLICE, 0, TRP_F32, 0);
    n->port[TRP__DNN_MOVE_X] = x;
    n->port[TRP__DNN_MOVE_Y] = half;
    n->start[1] = 16;
    for (int i = 0; i < TRP__DNN_RANK; i++)
        n->step[i] = 1;
    n = dnn_node(g, TRP_DNN_CONV_FORWARD, 0, TRP_F32, 2);
    n->pre_pad[0] = n->pre_pad[1] = n->post_pad[0] = n->post_pad[1] = 1;
    n->port[TRP__DNN_CONV_X] = half;
    n->port[TRP__DNN_CONV_W] = w;
    n->port[TRP__DNN_CONV_Y] = result;
    n = dnn_node(g, TRP_DNN_CONCATENATE, 1, TRP_F32, 0);
    n->port[0] = x;
    n->port[1] = result;
    n->port[TRP__DNN_MOVE_Y] = y;
    trp__dnn_graph whole = dnn_finish(g);
    if (trp__dnn_plan_make(&planner, &whole, &plan, &error) != TRP_OK)
        fail_msg("%s", error.message);
    assert_int_equal(plan->steps, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(plan->step[i].way, ways[i]);
    /* What lies between them is in memory of its own. */
    assert_true(plan->offset[half] != UINT64_MAX && plan->offset[result] != UINT64_MAX);
    assert_true(plan->offset[half] != plan->offset[result]);
    trp__dnn_plan_drop(plan);
    dnn_end(g);
}

static int set_up(void **unused)
{
    trp_error error = {0};
    (void)unused;
    dnn_planner_open(&planner);
    kernels.target = "sm_90";
    planner.modules = &kernels;
    if (trp__kernels_make(&kernels, TRP__MODULE_MOVE, NULL, &error) == TRP_E_MISSING) {
        printf("%s: skipped\n", error.message);
        exit(77);
    }
    if (!kernels.module[TRP__MODULE_MOVE].image) {
        printf("%s\n", error.message);
        return -1;
    }
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    free(kernels.module[TRP__MODULE_MOVE].image);
    dnn_planner_close(&planner);
    return 0;
}

int main(void)
{
    const struct CMUnitTest plans[] = {UNIT(among_others)};
    return cmocka_run_group_tests(plans, set_up, tear_down);
}

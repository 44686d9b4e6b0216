/* The kernel of nodes that move data, compiled as C and run as one thread, where it puts margins
 * around a tensor; and plans of graphs with such nodes, for which NVRTC compiles it. The plans are
 * skipped where there is no cuDNN, or no NVRTC. */
#include "dnn_graphs.h"
#include "dnn_planner.h"

#include "actors/dnn/reference/launch.h"

#include "support/unit.h"

#include "support/label.h"

TROUPE_TEST("no tsan", "foreign leaks");

#define TRP__KERNEL  __attribute__((unused)) static
#define TRP__SHARED  static
#define TRP__SYNC()  (void)0
#define TRP__THREAD  0
#define TRP__THREADS 1
#define TRP__BLOCK   0
#define TRP__BLOCKS  1
#include "actors/dnn/reference/kernels.h"

/* --- The kernel --- */

static trp__dnn_tensor packed(int rank, const int64_t *dim)
{
    trp__dnn_tensor t = {.type = TRP_F32, .rank = (uint8_t)rank, .role = TRP__DNN_BUFFER};
    int64_t next = 1;
    for (int i = rank; i-- > 0; next *= dim[i]) {
        t.dim[i] = dim[i];
        t.stride[i] = next;
    }
    return t;
}

static void set(trp__direct *d, int port, void *at, int rank, const int64_t *dim)
{
    d->tensor[port] = packed(rank, dim);
    d->at[port] = at;
    d->used[port] = true;
    if (port == TRP__DNN_MOVE_Y)
        d->count = elements(&d->tensor[port]);
}

static void count_up(float *to, int count, float from)
{
    for (int i = 0; i < count; i++)
        to[i] = from + (float)i;
}

/* In the middle of a larger tensor, with 0 around it. */
static void margins(void **unused)
{
    float x[3][4], y[5][9];
    trp__direct d = {
        .node = {.kind = TRP_DNN_CONCATENATE, .mode = TRP__DNN_MARGINS, .start = {2, 4}}};
    (void)unused;
    count_up(&x[0][0], 12, 1);
    set(&d, TRP__DNN_MOVE_X, x, 2, (const int64_t[]){3, 4});
    set(&d, TRP__DNN_MOVE_Y, y, 2, (const int64_t[]){5, 9});
    trp_direct_move(d);
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 9; k++)
            assert_true(y[i][k] == (i < 2 || k < 4 || k >= 8 ? 0 : x[i - 2][k - 4]));
    }
}

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

/* Padded more on one side, with channels that do not come in eights: the image grows by a copy, or
 * what is computed of it is cut out. */
static void padded_unlike(void **unused)
{
    (void)unused;
    for (int i = 0; i < 3; i++) {
        const trp_dnn_kind kind = (trp_dnn_kind)(TRP_DNN_CONV_FORWARD + i);
        const bool back = kind == TRP_DNN_CONV_BACKWARD_DATA;
        dnn_graph storage, *g = &storage;
        trp__dnn_lowered lowered;
        trp_error error = {0};
        dnn_begin(g);
        const uint8_t x = DNN_BUFFER(TRP_F16, DNN_CHANNELS_LAST, 2, 12, 16, 16);
        const uint8_t w = DNN_BUFFER(TRP_F16, DNN_CHANNELS_LAST, 20, 12, 3, 3);
        const uint8_t y = DNN_BUFFER(TRP_F16, DNN_CHANNELS_LAST, 2, 20, 8, 15);
        trp__dnn_node *n = dnn_node(g, kind, 0, TRP_F32, 2);
        n->post_pad[0] = 1;
        n->pre_pad[1] = 1;
        n->stride[0] = 2;
        memcpy(n->port, (uint8_t[]){x, w, y}, 3);
        trp__dnn_graph whole = dnn_finish(g);
        assert_int_equal(trp__dnn_lower(&whole, TRP__DNN_LOWER_ALIKE, &lowered, &error), TRP_OK);
        const trp__dnn_graph *l = &lowered.graph;
        assert_int_equal(l->head->nodes, 2);
        const trp__dnn_node *conv = &l->node[back ? 0 : 1], *move = &l->node[back ? 1 : 0];
        const trp__dnn_tensor *image = &l->tensor[conv->port[TRP__DNN_CONV_X]];
        assert_int_equal(conv->kind, kind);
        assert_int_equal(move->kind, back ? TRP_DNN_SLICE : TRP_DNN_CONCATENATE);
        assert_memory_equal(image->dim, ((int64_t[]){2, 12, 17, 17}), 4 * sizeof(int64_t));
        assert_int_equal(image->stride[1], 1); /* channels last, too */
        assert_memory_equal(move->start, ((int32_t[]){0, 0, 0, 1}), 4 * sizeof(int32_t));
        for (int k = 0; k < 2; k++)
            assert_true(conv->pre_pad[k] == 0 && conv->post_pad[k] == 0);
        trp__dnn_plan *plan = NULL;
        if (i == 0) { /* gradients are planned in the same way */
            if (trp__dnn_plan_make(&planner, &whole, &plan, &error) != TRP_OK)
                fail_msg("%s", error.message);
            assert_int_equal(plan->lowered.lowering, TRP__DNN_LOWER_ALIKE);
            assert_int_equal(plan->steps, 2);
            assert_int_equal(plan->step[0].way, TRP__DNN_WAY_KERNEL);
            assert_int_equal(plan->step[1].way, TRP__DNN_WAY_ENGINE);
        }
        trp__dnn_plan_drop(plan);
        trp__dnn_lowered_drop(&lowered);
        dnn_end(g);
    }
}

/* What is read becomes of one type, sums of another type stay f32 until they are rounded; or all is
 * f32. */
static void types_unlike(void **unused)
{
    static const struct {
        trp_dtype x, w, y, read[2], written[2];
        uint32_t nodes[2];
    } rows[] = {
        {TRP_F16, TRP_F16, TRP_F32, {TRP_F16, TRP_F32}, {TRP_F32, TRP_F32}, {1, 3}},
        {TRP_BF16, TRP_BF16, TRP_F16, {TRP_BF16, TRP_F32}, {TRP_F32, TRP_F32}, {2, 4}},
        {TRP_F32, TRP_F32, TRP_BF16, {TRP_F32, TRP_F32}, {TRP_F32, TRP_F32}, {2, 2}},
        {TRP_F16, TRP_BF16, TRP_F16, {TRP_F32, TRP_F32}, {TRP_F32, TRP_F32}, {4, 4}},
        {TRP_F16, TRP_F16, TRP_F16, {TRP_F16, TRP_F16}, {TRP_F16, TRP_F16}, {1, 1}},
        {TRP_F8E4M3, TRP_F8E4M3, TRP_F16, {TRP_F16, TRP_F16}, {TRP_F16, TRP_F16}, {3, 3}},
        {TRP_F8E5M2, TRP_F8E4M3, TRP_I8, {TRP_F16, TRP_F32}, {TRP_F32, TRP_F32}, {4, 4}},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int k = 0; k < 2; k++) {
            dnn_graph storage, *g = &storage;
            trp__dnn_lowered lowered;
            trp_error error = {0};
            dnn_begin(g);
            const uint8_t x = DNN_BUFFER(rows[i].x, DNN_ROWS, 2, 8, 9, 9);
            const uint8_t w = DNN_BUFFER(rows[i].w, DNN_ROWS, 8, 8, 2, 2);
            const uint8_t y = DNN_BUFFER(rows[i].y, DNN_ROWS, 2, 8, 8, 8);
            memcpy(dnn_node(g, TRP_DNN_CONV_FORWARD, 0, TRP_F32, 2)->port, (uint8_t[]){x, w, y}, 3);
            trp__dnn_graph whole = dnn_finish(g);
            assert_int_equal(trp__dnn_lower(&whole, k ? TRP__DNN_LOWER_F32 : TRP__DNN_LOWER_ALIKE,
                                            &lowered, &error),
                             TRP_OK);
            const trp__dnn_graph *l = &lowered.graph;
            assert_int_equal(l->head->nodes, rows[i].nodes[k]);
            for (uint32_t n = 0; n < l->head->nodes; n++) {
                if (l->node[n].kind != TRP_DNN_CONV_FORWARD)
                    continue;
                const uint8_t *port = l->node[n].port;
                assert_int_equal(l->tensor[port[TRP__DNN_CONV_X]].type, rows[i].read[k]);
                assert_int_equal(l->tensor[port[TRP__DNN_CONV_W]].type, rows[i].read[k]);
                assert_int_equal(l->tensor[port[TRP__DNN_CONV_Y]].type, rows[i].written[k]);
            }
            trp__dnn_lowered_drop(&lowered);
            dnn_end(g);
        }
    }
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
    const struct CMUnitTest kernel[] = {UNIT(margins)};
    const struct CMUnitTest plans[] = {UNIT(among_others), UNIT(padded_unlike), UNIT(types_unlike)};
    int failed = cmocka_run_group_tests(kernel, NULL, NULL);
    return failed ? failed : cmocka_run_group_tests(plans, set_up, tear_down);
}

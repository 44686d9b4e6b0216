/* Gradients that the dnn actor computes against finite differences of what it computes forward, in
 * f64. Both are in one graph: with y = f(x) and any dy, <dx, d> is the slope of <dy, f(x + h d)> in
 * each direction d. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_draw.h"
#include "support/label.h"

#include <math.h>

TROUPE_TEST("one isolation", "no tsan");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");
TROUPE_TEST_FAKE_GPU("no sanitizer", "as fake-cudnn", "dnn", "FAKE_CUDNN_TAKES=all");

static h_world world;
static trp_actor *dnn;

#define CHECK_SLOPE(...) dp_check_slope(__FILE__, __LINE__, dnn, &p, (dp_slope){__VA_ARGS__})

/* Elements share no place, that each can be moved by itself. */
static void make(dp_problem *p)
{
    p->packed = true;
    dp_make(world.device, p);
}

static void convolutions(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(10); i++) {
        dp_problem p = {.kind = "conv"};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_CONV_FORWARD), *data, *filter;
        dd_conv(&p, n, TRP_F64, 3);
        const trp_dnn_tensor *x = &p.tensor[n->x], *w = &p.tensor[n->w], *y = &p.tensor[n->y];
        p.tensor[n->y].type = TRP_F64;
        uint32_t dy = dp_memory(&p, TRP_F64, y->rank, y->dim);
        data = dp_node(&p, TRP_DNN_CONV_BACKWARD_DATA);
        *data = *n;
        data->kind = TRP_DNN_CONV_BACKWARD_DATA;
        data->x = data->y = 0;
        data->dy = dy;
        data->dx = dp_memory(&p, TRP_F64, x->rank, x->dim);
        filter = dp_node(&p, TRP_DNN_CONV_BACKWARD_FILTER);
        *filter = *n;
        filter->kind = TRP_DNN_CONV_BACKWARD_FILTER;
        filter->w = filter->y = 0;
        filter->dy = dy;
        filter->dw = dp_memory(&p, TRP_F64, w->rank, w->dim);
        make(&p);
        CHECK_SLOPE(n->x, data->dx, n->y, dy);
        CHECK_SLOPE(n->w, filter->dw, n->y, dy);
        dp_drop(&p);
    }
    dp_close(&world);
}

static void pools(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(12); i++) {
        const bool most = i % 3 == TRP_DNN_POOL_MAX, index = most && dp_below(2);
        dp_problem p = {.kind = "pool"};
        dd_pool(&p, TRP_F64, index);
        trp_dnn_node *n = &p.node[0], *back = dp_node(&p, TRP_DNN_RESAMPLE_BACKWARD);
        n->resample = (trp_dnn_resample)(i % 3);
        p.tensor[n->y].type = TRP_F64;
        p.fill[n->x] = DP_DISTINCT;
        *back = *n;
        back->kind = TRP_DNN_RESAMPLE_BACKWARD;
        back->x = most && !index ? n->x : 0;
        back->y = most && !index ? n->y : 0;
        back->dy = dp_memory(&p, TRP_F64, p.tensor[n->y].rank, p.tensor[n->y].dim);
        back->dx = dp_memory(&p, TRP_F64, p.tensor[n->x].rank, p.tensor[n->x].dim);
        make(&p);
        CHECK_SLOPE(n->x, back->dx, n->y, back->dy);
        dp_drop(&p);
    }
    dp_close(&world);
}

static void norms(void)
{
    static const char *const names[] = {"layer norm", "batch norm", "instance norm", "RMS norm"};
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(16); i++) {
        dp_problem p = {.kind = names[i % 4]};
        dd_training(&p, dd_wide(), (trp_dnn_norm)(i % 4), true);
        const trp_dnn_node *n = &p.node[0], *back = &p.node[1];
        for (uint32_t t = 1; t <= p.tensors; t++) {
            p.tensor[t].type = p.tensor[t].type ? TRP_F64 : TRP_DTYPE_NONE;
            if (t == n->epsilon) { /* where x hardly varies, slopes must not be too steep */
                p.memory[t] = false;
                p.tensor[t] = (trp_dnn_tensor){.value = trp_real(0.25)};
            }
        }
        make(&p);
        CHECK_SLOPE(n->x, back->dx, n->y, back->dy);
        CHECK_SLOPE(n->scale, back->dscale, n->y, back->dy);
        if (n->bias)
            CHECK_SLOPE(n->bias, back->dbias, n->y, back->dy);
        dp_drop(&p);
    }
    dp_close(&world);
}

static void activations(void)
{
    const int modes = TRP_DNN_SWISH - TRP_DNN_RELU + 1;
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(2 * modes); i++) {
        dp_problem p = {.kind = "activation"};
        const int64_t dim[] = {dp_from(1, 5), dp_from(1, 5)};
        trp_dnn_node *n = dp_node(&p, TRP_DNN_POINTWISE);
        trp_dnn_node *back = dp_node(&p, TRP_DNN_POINTWISE_BACKWARD);
        n->pointwise = (trp_dnn_pointwise)(TRP_DNN_RELU + i % modes);
        dd_parameters(n);
        n->x = dp_memory(&p, TRP_F64, 2, dim);
        n->y = dp_memory(&p, TRP_F64, 2, dim);
        p.fill[n->x] = DP_AWAY; /* no kink at 0 */
        if (n->pointwise == TRP_DNN_RELU) {
            p.fill[n->x] = DP_DISTINCT; /* sixteenths, and clips between them */
            n->parameter[0] = trp_real(-0.53);
            n->parameter[1] = trp_real(0.78);
        }
        back->pointwise = n->pointwise;
        memcpy(back->parameter, n->parameter, sizeof n->parameter);
        back->x = n->x;
        back->dy = dp_memory(&p, TRP_F64, 2, dim);
        back->dx = dp_memory(&p, TRP_F64, 2, dim);
        make(&p);
        CHECK_SLOPE(n->x, back->dx, n->y, back->dy);
        dp_drop(&p);
    }
    dp_close(&world);
}

H_CASES(H_CASE(convolutions), H_CASE(pools), H_CASE(norms), H_CASE(activations))

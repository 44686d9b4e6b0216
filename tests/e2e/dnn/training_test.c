/* Calls of a training step beside what tests/conformance compares: indices that lead nowhere, rows
 * that hold no numbers, gradients too large to be squared, steps that share a plan, and requests
 * whose fields do not go together. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/field.h"
#include "support/label.h"

#include <math.h>
#include <troupe/training.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

static h_world world;
static trp_actor *dnn;

static void begin(void)
{
    world = h_open(NULL);
    dnn = h_actor(world.device, "dnn");
    f_open(world.device);
}

static void end(void)
{
    trp_actor_destroy(dnn);
    h_close(&world);
}

#define RUN(call, request)                                                                         \
    do {                                                                                           \
        trp_completion done_ = {0};                                                                \
        (request).header.wait_ns = TRP_FOREVER;                                                    \
        H_OK(call(dnn, &(request), &done_));                                                       \
        trp_error error_ = {0};                                                                    \
        if (h_await(done_.future, &error_) != TRP_OK)                                              \
            h_fail(__FILE__, __LINE__, "%s: %s", #call, error_.message);                           \
    } while (0)

/* Indices that lead nowhere: refused on the host, NaN and nothing on GPUs; and no elements. */
static void nowhere(void)
{
    begin();
    f_field table = f_make(TRP_F32, 2, (int64_t[]){5, 3}, true, -1, 1);
    f_field grad = f_like(&table, TRP_F32, 1, 0);
    f_field index = f_make(TRP_I64, 1, (int64_t[]){4}, true, 0, 4);
    f_field y = f_make(TRP_F32, 2, (int64_t[]){4, 3}, true, 1, 0);
    f_field dy = f_make(TRP_F32, 2, (int64_t[]){4, 3}, true, -1, 1);
    const double bad[] = {5, -1, 4294967296.0, -4294967295.0};
    for (int i = 0; i < 4; i++) {
        trp_completion done = {0};
        trp_error error = {0};
        index.v[0] = 2, index.v[1] = bad[i], index.v[2] = 0, index.v[3] = 4;
        f_write(&index);
        trp_embedding_request r = {.table = table.t, .index = index.t, .y = y.t};
        H_OK(trp_embedding_forward(dnn, &r, &done));
        const trp_status status = h_await(done.future, &error);
        if (!h_is_cuda()) {
            H_EQUAL(status, TRP_E_ARGUMENT);
            h_check_says(__FILE__, __LINE__, error.message, "element 1: expected 0 to 4");
        } else {
            H_EQUAL(status, TRP_OK);
            f_read(&y);
            for (int k = 0; k < 12; k++)
                H_CHECK(k / 3 == 1 ? isnan(y.v[k])
                                   : y.v[k] == table.v[(int)index.v[k / 3] * 3 + k % 3]);
        }
        r = (trp_embedding_request){.index = index.t, .dy = dy.t, .dtable = grad.t};
        if (h_is_cuda())
            RUN(trp_embedding_backward, r);
    }
    const double zero[15] = {0};
    trp_embedding_request none = {.index = index.t, .dy = dy.t, .dtable = grad.t};
    none.index.dim[0] = none.dy.dim[0] = 0;
    RUN(trp_embedding_backward, none);
    F_COMPARE(&grad, zero, 0, 0, false);
    f_drop(&table), f_drop(&grad), f_drop(&index), f_drop(&y), f_drop(&dy);
    end();
}

/* Rows that hold no numbers, or infinities; and labels that are none. */
static void entropy_of_extremes(void)
{
    begin();
    f_field x = f_make(TRP_F32, 2, (int64_t[]){4, 3}, true, -1, 1);
    f_field index = f_make(TRP_I32, 1, (int64_t[]){4}, true, 0, 2);
    f_field rows = f_make(TRP_F32, 1, (int64_t[]){4}, true, 1, 0), dx = f_like(&x, TRP_F32, 1, 0);
    x.v[1] = NAN, x.v[3] = INFINITY, x.v[6] = x.v[7] = x.v[8] = -INFINITY, x.v[9] = 3e38,
    x.v[10] = -3e38;
    index.v[3] = 1;
    f_write(&x), f_write(&index);
    trp_cross_entropy_request r = {
        .logits = x.t, .labels = index.t, .rows = rows.t, .dlogits = dx.t};
    RUN(trp_cross_entropy, r);
    f_read(&rows), f_read(&dx);
    for (int i = 0; i < 9; i++)
        H_CHECK(isnan(rows.v[i / 3]) && (isnan(dx.v[i]) || i / 3 == 1));
    H_CHECK(isinf(rows.v[3]) || rows.v[3] > 3e38);
    H_CHECK(fabs(dx.v[9] - 0.25) < 1e-6 && fabs(dx.v[10] + 0.25) < 1e-6 && dx.v[11] == 0);
    trp_completion done = {0};
    trp_error error = {0};
    index.v[2] = 3;
    f_write(&index);
    H_OK(trp_cross_entropy(dnn, &r, &done));
    const trp_status status = h_await(done.future, &error);
    H_EQUAL(status, h_is_cuda() ? TRP_OK : TRP_E_ARGUMENT);
    if (!h_is_cuda())
        h_check_says(__FILE__, __LINE__, error.message,
                     "expected 0 to 2 or the ignored one, got 3");
    f_drop(&x), f_drop(&index), f_drop(&rows), f_drop(&dx);
    end();
}

/* --- Optimizers --- */

/* Gradients whose squares f64 does not hold, or only as 0, have a norm. */
static void gradients_of_any_size(void)
{
    begin();
    const int64_t dim[] = {1000}, one[] = {1};
    f_field w = f_make(TRP_F64, 1, dim, true, -1, 1), g = f_make(TRP_F64, 1, dim, true, 1, 1);
    f_field to = f_make(TRP_F64, 1, dim, true, 1, 0), norm = f_make(TRP_F64, 1, one, true, 1, 0);
    f_field skipped = f_make(TRP_I32, 1, one, true, 7, 7);
    trp_optimizer_request r = {.optimizer = TRP_DNN_SGD,
                               .w = w.t,
                               .dw = g.t,
                               .new_w = to.t,
                               .grad_norm = norm.t,
                               .rate = trp_real(1),
                               .max_norm = trp_real(1),
                               .skipped = skipped.t};
    for (double size = 1e250; size > 0; size = size > 1 ? 1e-200 : size > 1e-300 ? 4e-308 : 0) {
        for (int i = 0; i < 1000; i++)
            g.v[i] = size;
        f_write(&g);
        RUN(trp_optimizer, r);
        const double length = size * sqrt(1000.0);
        double expected[1000];
        F_COMPARE(&norm, &length, 0, 64, true);
        for (int i = 0; i < 1000; i++)
            expected[i] = w.v[i] - (length > 1 ? 1 / sqrt(1000.0) : size);
        F_COMPARE(&to, expected, 1, 64, true);
    }
    f_drop(&w), f_drop(&g), f_drop(&to), f_drop(&norm), f_drop(&skipped);
    end();
}

/* Other numbers share the plan: `found` says so from the second step on. */
static void one_plan(void)
{
    begin();
    f_field w = f_make(TRP_F32, 1, (int64_t[]){100}, true, -1, 1), g = f_like(&w, TRP_F32, -1, 1);
    f_field m = f_like(&w, TRP_F32, 0, 0), v = f_like(&w, TRP_F32, 0, 0);
    const trp_parameter_segment all = {.count = 100};
    for (uint64_t t = 1; t < 6; t++) {
        trp_dnn_ran ran;
        trp_optimizer_request r = {.optimizer = TRP_DNN_ADAMW,
                                   .w = w.t,
                                   .dw = g.t,
                                   .moment = {m.t, v.t},
                                   .rate = trp_real(0.1 / (double)t),
                                   .step = t,
                                   .max_norm = trp_real((double)t),
                                   .segments = &all,
                                   .segment_count = 1,
                                   .options.ran = &ran};
        RUN(trp_optimizer, r);
        H_CHECK(!h_is_cuda() || ran.found == (t > 1));
        H_EQUAL(ran.parts, 1);
    }
    f_drop(&w), f_drop(&g), f_drop(&m), f_drop(&v);
    end();
}

static void wrong_optimizers(void)
{
    begin();
    f_field w = f_make(TRP_F32, 1, (int64_t[]){100}, true, -1, 1), g = f_like(&w, TRP_F32, -1, 1);
    f_field m = f_like(&w, TRP_F32, 0, 0), v = f_like(&w, TRP_F32, 0, 0);
    trp_parameter_segment s[2] = {{.count = 60}, {.offset = 59, .count = 1}};
    const trp_optimizer_request good = {.optimizer = TRP_DNN_ADAMW,
                                        .w = w.t,
                                        .dw = g.t,
                                        .moment = {m.t, v.t},
                                        .rate = trp_real(0.1),
                                        .step = 1};
    trp_optimizer_request r = good;
    r.step = 0;
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("step: expected the number");
    r = good, r.moment[1] = (trp_dnn_tensor){0};
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("moment[1]");
    r = good, r.momentum = trp_real(0.9);
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected none without TRP_DNN_SGD");
    r = good, r.beta1 = trp_real(1);
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected 0 to less than 1, got 1");
    r = good, r.rate = (trp_scalar){0};
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("rate");
    r = good, r.segments = s, r.segment_count = 2;
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("row 1: expected an offset from 60");
    s[1] = (trp_parameter_segment){.offset = 60, .count = 41};
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("row 1: expected a count of 0 to 40, got 41");
    r = good, r.dw.dim[0] = 99;
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected 100, got 99");
    r = good, r.dw = r.w;
    r.new_w = g.t, r.new_moment[0] = m.t, r.new_moment[1] = v.t;
    r.dw.stride[0] = 2, r.dw.dim[0] = 50, r.w.dim[0] = 50;
    H_IS(trp_optimizer(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("packed");
    f_drop(&w), f_drop(&g), f_drop(&m), f_drop(&v);
    end();
}

/* --- Wrong requests --- */

static void wrong_requests(void)
{
    begin();
    f_field a = f_make(TRP_F32, 2, (int64_t[]){6, 4}, true, -1, 1),
            b = f_make(TRP_F32, 2, (int64_t[]){6, 4}, true, -1, 1);
    f_field i = f_make(TRP_I32, 1, (int64_t[]){6}, true, 0, 3),
            one = f_make(TRP_F32, 1, (int64_t[]){1}, true, 0, 1);
    trp_embedding_request e = {.table = a.t, .index = b.t, .y = b.t};
    H_IS(trp_embedding_forward(dnn, &e, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected i32 or i64, got f32");
    e = (trp_embedding_request){.table = a.t, .index = i.t, .y = a.t};
    H_IS(trp_embedding_forward(dnn, &e, NULL), TRP_E_ARGUMENT);
    H_SAYS("overlaps");
    e.y = b.t, e.y.dim[1] = 3;
    H_IS(trp_embedding_forward(dnn, &e, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected 6 x 4, got 6 x 3");
    trp_cross_entropy_request c = {.logits = a.t, .labels = i.t, .loss = b.t};
    H_IS(trp_cross_entropy(dnn, &c, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected one element");
    c.loss = one.t, c.smoothing = 1.5;
    H_IS(trp_cross_entropy(dnn, &c, NULL), TRP_E_ARGUMENT);
    H_SAYS("label smoothing, 0 to 1, got 1.5");
    c = (trp_cross_entropy_request){.logits = a.t, .labels = i.t};
    H_IS(trp_cross_entropy(dnn, &c, NULL), TRP_E_ARGUMENT);
    H_SAYS("at least one tensor to write");
    c = (trp_cross_entropy_request){.logits = a.t, .loss = one.t};
    H_IS(trp_cross_entropy(dnn, &c, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected index or t, got neither");
    trp_loss_request l = {
        .x = a.t, .target = b.t, .loss = one.t, .positive_weight = {.value = trp_real(2)}};
    H_IS(trp_loss(dnn, &l, NULL), TRP_E_ARGUMENT);
    H_SAYS("only TRP_DNN_BCE_LOGITS");
    trp_linear_request n = {.x = a.t, .w = b.t, .dy = a.t, .dw = b.t};
    H_IS(trp_linear_backward(dnn, &n, NULL), TRP_E_ARGUMENT);
    n = (trp_linear_request){.dy = a.t};
    H_IS(trp_linear_backward(dnn, &n, NULL), TRP_E_ARGUMENT);
    H_SAYS("dx, dw, dbias: expected at least one");
    trp_rotary_request r = {.x = a.t, .y = b.t, .cosines = one.t};
    H_IS(trp_rotary_forward(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected both tables or none");
    r = (trp_rotary_request){.x = a.t, .y = b.t, .turning = 3};
    H_IS(trp_rotary_forward(dnn, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected an even number up to 4");
    trp_top_k_request k = {.x = a.t, .index = i.t, .axis = 5};
    H_IS(trp_arg(dnn, &k, NULL), TRP_E_ARGUMENT);
    H_SAYS("axis");
    trp_sample_request s = {.logits = a.t, .index = i.t};
    H_IS(trp_sample(dnn, &s, NULL), TRP_E_ARGUMENT);
    H_SAYS("seed");
    const trp_dnn_tensor t[] = {
        {0}, a.t, {.type = TRP_F64, .rank = 1, .dim = {1}, .data = &s}, b.t};
    const trp_dnn_node node = {
        .kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_ADD, .x = 1, .b = 2, .y = 3};
    const trp_dnn_graph_request g = {
        .tensors = t, .tensor_count = 4, .nodes = &node, .node_count = 1};
    H_IS(trp_dnn_graph(dnn, &g, NULL), TRP_E_ARGUMENT);
    H_SAYS("expected a tensor without data");
    f_drop(&a), f_drop(&b), f_drop(&i), f_drop(&one);
    end();
}

H_CASES(H_CASE(nowhere), H_CASE(entropy_of_extremes), H_CASE(gradients_of_any_size),
        H_CASE(one_plan), H_CASE(wrong_optimizers), H_CASE(wrong_requests))
